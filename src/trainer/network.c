// network - embeddings beside numbers, hidden layers with ReLU, an output: forward and backward on a device.
//
// The gradient of a layer's output arrives already masked by its own ReLU, because the layer above applies
// the mask while the block is in cache. All memory is taken when the network opens; a pass allocates nothing.
#include "trainer_internal.h"

enum { NETWORK_ALIGNMENT = 64 };

static int64_t aligned(int64_t bytes)
{
    return (bytes + NETWORK_ALIGNMENT - 1) / NETWORK_ALIGNMENT * NETWORK_ALIGNMENT;
}

static float *slice(char **at, int64_t rows, int64_t width)
{
    float *begin = (float *)(void *)*at;
    *at += aligned(rows * width * (int64_t)sizeof(float));
    return begin;
}

static void place_embeddings(Network *network)
{
    int64_t column = network->shape.numeric;
    for (int64_t i = 0; i < network->shape.categorical; i++) {
        network->embeddings[i] = (FedgateEmbedding){.offset = network->layout.at[i].offset,
                                                    .width = network->shape.embedding[i],
                                                    .cardinality = network->shape.cardinality[i],
                                                    .column = column};
        column += network->shape.embedding[i];
    }
}

static int64_t block_size(const Network *network)
{
    int64_t bytes = network->shape.categorical > 0
                        ? aligned(network->rows * network->layout.width * (int64_t)sizeof(float))
                        : 0;
    for (size_t i = 0; i <= network->shape.layers; i++)
        bytes += aligned(network->rows * layer_out(&network->shape, i) * (int64_t)sizeof(float));
    return network->training ? 2 * bytes : bytes;
}

static void cut_block(Network *network)
{
    char *at = network->block;
    for (int pass = 0; pass < (network->training ? 2 : 1); pass++) {
        if (network->shape.categorical > 0)
            *(pass ? &network->dx : &network->x) = slice(&at, network->rows, network->layout.width);
        for (size_t i = 0; i <= network->shape.layers; i++)
            (pass ? network->back : network->value)[i] =
                slice(&at, network->rows, layer_out(&network->shape, i));
    }
}

bool network_open(Network *network, Device *device, const TrainShape *shape, FedgateLossKind kind,
                  int64_t rows, bool training, Error *error)
{
    *network = (Network){.device = device, .shape = *shape, .kind = kind, .rows = rows, .training = training};
    layout_init(&network->layout, shape);
    place_embeddings(network);
    network->block_bytes = block_size(network);
    int64_t bytes = network->layout.floats * (int64_t)sizeof(float);
    network->weights = device_take(device, "weights", bytes, error);
    bool good = network->weights != NULL;
    if (good && training) {
        network->gradients = device_take(device, "gradients", bytes, error);
        network->moments = network->gradients ? device_take(device, "optimizer", 2 * bytes, error) : NULL;
        good = network->moments != NULL;
    }
    network->block = good ? device_take(device, "activations", network->block_bytes, error) : NULL;
    network->sums =
        network->block ? device_take(device, "workspace", SUM_COUNT * (int64_t)sizeof(double), error) : NULL;
    if (!network->sums) {
        network_close(network);
        return false;
    }
    cut_block(network);
    return true;
}

void network_close(Network *network)
{
    if (!network->device)
        return;
    int64_t bytes = network->layout.floats * (int64_t)sizeof(float);
    device_give(network->device, "weights", network->weights, bytes);
    device_give(network->device, "gradients", network->gradients, bytes);
    device_give(network->device, "optimizer", network->moments, 2 * bytes);
    device_give(network->device, "activations", network->block, network->block_bytes);
    device_give(network->device, "workspace", network->sums, SUM_COUNT * (int64_t)sizeof(double));
    *network = (Network){0};
}

static FedgateAssemble assemble(const Network *network, const Rows *rows)
{
    return (FedgateAssemble){.x = network->x,
                             .rows = rows->count,
                             .width = network->layout.width,
                             .numeric = rows->numeric,
                             .numeric_count = network->shape.numeric,
                             .codes = rows->codes,
                             .tables = network->weights,
                             .embeddings = network->embeddings,
                             .embedding_count = network->shape.categorical};
}

static const float *layer_input(const Network *network, const Rows *rows, size_t layer)
{
    return layer > 0 ? network->value[layer - 1] : network->x ? network->x : rows->numeric;
}

void network_forward(Network *network, const Rows *rows, const Dropout *dropout)
{
    const TrainShape *shape = &network->shape;
    if (network->x) {
        FedgateAssemble op = assemble(network, rows);
        device_assemble(network->device, &op);
    }
    for (size_t i = 0; i <= shape->layers; i++) {
        FedgateDense op = {.x = layer_input(network, rows, i),
                           .w = network->weights + network->layout.at[layout_matrix(shape, i)].offset,
                           .bias = network->weights + network->layout.at[layout_bias(shape, i)].offset,
                           .y = network->value[i],
                           .rows = rows->count,
                           .in = layer_in(&network->layout, shape, i),
                           .out = layer_out(shape, i),
                           .relu = i < shape->layers};
        device_dense(network->device, &op);
        if (dropout && dropout->keep < 1 && i < shape->layers)
            device_dropout(network->device, &(FedgateDropout){.x = network->value[i],
                                                              .rows = rows->count,
                                                              .width = op.out,
                                                              .key = dropout->key + i,
                                                              .row = (uint64_t)rows->first,
                                                              .keep = dropout->keep});
    }
}

void network_loss(Network *network, const Rows *rows, float scale, bool gradient)
{
    size_t last = network->shape.layers;
    device_loss(network->device, &(FedgateLoss){.kind = network->kind,
                                                .logits = network->value[last],
                                                .target = rows->target,
                                                .gradient = gradient ? network->back[last] : NULL,
                                                .loss = &network->sums[SUM_LOSS],
                                                .rows = rows->count,
                                                .outputs = network->shape.outputs,
                                                .scale = scale});
}

void network_backward(Network *network, const Rows *rows, const Dropout *dropout, bool accumulate)
{
    const TrainShape *shape = &network->shape;
    for (size_t i = shape->layers + 1; i-- > 0;) {
        FedgateDenseBack op = {.x = layer_input(network, rows, i),
                               .w = network->weights + network->layout.at[layout_matrix(shape, i)].offset,
                               .dy = network->back[i],
                               .dx = i > 0 ? network->back[i - 1] : network->dx,
                               .dw = network->gradients + network->layout.at[layout_matrix(shape, i)].offset,
                               .db = network->gradients + network->layout.at[layout_bias(shape, i)].offset,
                               .rows = rows->count,
                               .in = layer_in(&network->layout, shape, i),
                               .out = layer_out(shape, i),
                               .accumulate = accumulate,
                               .below_relu = i > 0,
                               .below_scale = dropout ? 1 / dropout->keep : 1};
        device_dense_back(network->device, &op);
    }
    if (network->dx) {
        FedgateAssemble op = assemble(network, rows);
        op.x = network->dx;
        op.tables = network->gradients;
        op.accumulate = accumulate;
        device_assemble_back(network->device, &op);
    }
}

// A multiplication of rows x in x out is 2 rows in out FLOP; backward makes two, but only one in the first
// layer without embeddings.
double network_flop(const Network *network, int64_t rows, bool backward)
{
    double flop = 0;
    for (size_t i = 0; i <= network->shape.layers; i++) {
        double one = 2.0 * (double)rows * (double)layer_in(&network->layout, &network->shape, i) *
                     (double)layer_out(&network->shape, i);
        flop += !backward ? one : i > 0 || network->dx ? 2 * one : one;
    }
    return flop;
}

// Bytes that must move at least once: operands and results of those multiplications.
double network_bytes(const Network *network, int64_t rows, bool backward)
{
    double bytes = 0;
    for (size_t i = 0; i <= network->shape.layers; i++) {
        double in = (double)layer_in(&network->layout, &network->shape, i),
               out = (double)layer_out(&network->shape, i), n = (double)rows;
        double one = 4 * (n * in + in * out + n * out);
        bytes += !backward ? one : i > 0 || network->dx ? 2 * one : one;
    }
    return bytes;
}

bool network_read_loss(Network *network, double *ret_sum, Error *error)
{
    if (!device_copy_out(network->device, ret_sum, &network->sums[SUM_LOSS], sizeof *ret_sum, error))
        return false;
    device_zero(network->device, &network->sums[SUM_LOSS], sizeof *ret_sum);
    return true;
}
