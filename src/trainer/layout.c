// layout - where each parameter lies, how it begins, and what it is called.
//
// Initial weights are uniform: matrices within sqrt(6 / inputs) before a ReLU and sqrt(1 / inputs) at the
// output, embeddings within sqrt(1 / width); biases and the embedding of the unknown slot are 0, because
// training never shows the network an unknown category.
#include "trainer_internal.h"

#include <fedgate/hash.h>
#include <fedgate/random.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

int64_t layer_out(const TrainShape *shape, size_t layer)
{
    return layer < shape->layers ? shape->hidden[layer] : shape->outputs;
}

int64_t layer_in(const Layout *layout, const TrainShape *shape, size_t layer)
{
    return layer == 0 ? layout->width : shape->hidden[layer - 1];
}

size_t layout_matrix(const TrainShape *shape, size_t layer)
{
    return (size_t)shape->categorical + layer;
}

size_t layout_bias(const TrainShape *shape, size_t layer)
{
    return (size_t)shape->categorical + shape->layers + 1 + layer;
}

static void add(Layout *layout, const char *format, size_t index, int64_t rows, int64_t columns)
{
    Parameter *parameter = &layout->at[layout->count++];
    *parameter = (Parameter){.offset = layout->floats, .rows = rows, .columns = columns};
    if (!text_print(parameter->name, sizeof parameter->name, "%s.%zu", format, index))
        BUG("parameter name too long");
    layout->floats += columns > 0 ? rows * columns : rows;
}

void layout_init(Layout *layout, const TrainShape *shape)
{
    *layout = (Layout){.width = shape->numeric};
    for (int64_t i = 0; i < shape->categorical; i++) {
        add(layout, "embedding", (size_t)i, shape->cardinality[i], shape->embedding[i]);
        layout->width += shape->embedding[i];
    }
    for (size_t i = 0; i <= shape->layers; i++)
        add(layout, "weight", i, layer_in(layout, shape, i), layer_out(shape, i));
    layout->decayed = layout->floats;
    for (size_t i = 0; i <= shape->layers; i++)
        add(layout, "bias", i, layer_out(shape, i), 0);
}

void layout_fill(const Layout *layout, const TrainShape *shape, uint64_t seed, float *ret_weights)
{
    memset(ret_weights, 0, (size_t)layout->floats * sizeof *ret_weights);
    for (size_t i = 0; i < (size_t)shape->categorical + shape->layers + 1; i++) {
        const Parameter *parameter = &layout->at[i];
        bool embedding = i < (size_t)shape->categorical, output = i == layout_matrix(shape, shape->layers);
        double bound = embedding ? sqrt(1.0 / (double)parameter->columns)
                                 : sqrt((output ? 1.0 : 6.0) / (double)parameter->rows);
        uint64_t key = hash_mix2(seed, 0x6c61796f75740000u + i);
        for (int64_t k = embedding ? parameter->columns : 0; k < parameter->rows * parameter->columns; k++)
            ret_weights[parameter->offset + k] = (float)((2 * random_unit(key, (uint64_t)k) - 1) * bound);
    }
}

Tensor layout_tensor(const Layout *layout, const float *weights, size_t parameter)
{
    const Parameter *at = &layout->at[parameter];
    Tensor tensor = {.type = TENSOR_F32,
                     .shape = {at->rows, at->columns},
                     .rank = at->columns > 0 ? 2 : 1,
                     .data = weights + at->offset};
    tensor.bytes = (uint64_t)(at->columns > 0 ? at->rows * at->columns : at->rows) * sizeof *weights;
    memcpy(tensor.name, at->name, sizeof tensor.name);
    return tensor;
}

void layout_digest(const Layout *layout, const float *weights, size_t parameter, Digest *ret_digest)
{
    Tensor tensor = layout_tensor(layout, weights, parameter);
    tensor_digest(&tensor, ret_digest);
}

// Half the categories, 2 to 16: enough to tell them apart, and small beside the hidden layers.
static int64_t default_embedding(int64_t cardinality)
{
    int64_t width = (cardinality + 1) / 2;
    return width < 2 ? 2 : width > 16 ? 16 : width;
}

// Classes named by data.labels; without names only the data knows, and trainer_open asks it.
static int64_t declared_classes(const Config *config)
{
    int64_t classes = 2, value;
    for (size_t i = 0; i < config_list_count(config, "data.labels"); i++) {
        const char *equals = strrchr(config_list_text(config, "data.labels", i), '=');
        if (equals && text_to_int64(equals + 1, &value) && value >= classes)
            classes = value + 1;
    }
    return classes;
}

void trainer_shape(const Config *config, const Maps *maps, TrainShape *ret_shape)
{
    TrainShape shape = {.numeric = (int64_t)maps_numeric(maps),
                        .categorical = (int64_t)maps_categorical(maps)};
    int64_t embedding = config_integer(config, "train.embedding");
    shape.layers = config_list_count(config, "train.hidden");
    if (shape.categorical > SHAPE_CATEGORICAL)
        shape.categorical = SHAPE_CATEGORICAL;   // trainer_open refuses what does not fit
    if (shape.layers > SHAPE_LAYERS)
        shape.layers = SHAPE_LAYERS;
    for (int64_t i = 0; i < shape.categorical; i++) {
        shape.cardinality[i] = maps_cardinality(maps, (size_t)i);
        shape.embedding[i] = embedding > 0 ? embedding : default_embedding(shape.cardinality[i]);
    }
    for (size_t i = 0; i < shape.layers; i++)
        shape.hidden[i] = config_list_integer(config, "train.hidden", i);
    shape.outputs = text_equal(config_text(config, "task"), "multiclass") ? declared_classes(config) : 1;
    *ret_shape = shape;
}
