// model - weights in host memory as a release seals them: model.safetensors and model.json, the same bytes
// for the same bits.
#include "trainer_internal.h"

#include <fedgate/file.h>
#include <fedgate/json.h>
#include <stdlib.h>
#include <string.h>

enum { MODEL_FORMAT = 1, MODEL_JSON_MAX = 1000 * 1000 };
static const uint64_t model_bytes_max = UINT64_C(64) * 1000 * 1000 * 1000;

static const char *const kind_names[] = {
    [FEDGATE_LOSS_BINARY] = "binary",
    [FEDGATE_LOSS_CLASSES] = "multiclass",
    [FEDGATE_LOSS_SQUARE] = "regression",
};

const char *loss_kind_name(FedgateLossKind kind)
{
    return kind_names[kind];
}

bool loss_kind_find(const char *name, FedgateLossKind *ret_kind)
{
    for (size_t i = 0; i < sizeof kind_names / sizeof kind_names[0]; i++)
        if (strcmp(kind_names[i], name) == 0) {
            *ret_kind = (FedgateLossKind)i;
            return true;
        }
    return false;
}

static Json *integers(const int64_t *values, size_t count)
{
    Json *array = json_make_array();
    for (size_t i = 0; i < count; i++)
        json_add_integer(array, values[i]);
    return array;
}

static Json *describe(const Model *model)
{
    Json *json = json_make_object();
    json_put_integer(json, "format", MODEL_FORMAT);
    json_put_text(json, "kind", "mlp");
    json_put_text(json, "task", loss_kind_name(model->kind));
    json_put_text(json, "activation", "relu");
    json_put_integer(json, "numeric", model->shape.numeric);
    json_put(json, "cardinality", integers(model->shape.cardinality, (size_t)model->shape.categorical));
    json_put(json, "embedding", integers(model->shape.embedding, (size_t)model->shape.categorical));
    json_put(json, "hidden", integers(model->shape.hidden, model->shape.layers));
    json_put_integer(json, "outputs", model->shape.outputs);
    return json;
}

bool model_save(const Model *model, const char *directory, Error *error)
{
    char path[FILE_PATH_SIZE];
    Tensor tensors[LAYOUT_PARAMETERS];
    for (size_t i = 0; i < model->layout.count; i++)
        tensors[i] = layout_tensor(&model->layout, model->weights, i);
    const char *const metadata[] = {"format", "fedgate model 1", NULL};
    if (!file_join(path, directory, "model.safetensors", error) ||
        !tensors_write(path, tensors, model->layout.count, metadata, error))
        return error_prefix(error, "model");
    OWNED(Json, json_free) *json = describe(model);
    SCOPED_TEXT text;
    text_init(&text, MODEL_JSON_MAX);
    json_write(json, JSON_INDENTED, &text);
    text_add_char(&text, '\n');
    return text_ok(&text, error) && file_join(path, directory, "model.json", error) &&
           file_write_new(path, text.data, text.length, 0640, error);
}

static bool read_integers(const Json *json, const char *key, size_t maximum, int64_t limit,
                          int64_t *ret_values, size_t *ret_count, Error *error)
{
    const Json *array = json_get(json, key);
    if (!json_is_array(array) || json_count(array) > maximum)
        return FAIL(error, ERROR_DATA, 0, "'%s' is not a list of at most %zu sizes", key, maximum);
    for (size_t i = 0; i < json_count(array); i++) {
        ret_values[i] = json_integer_or(json_at(array, i), 0);
        if (ret_values[i] < 1 || ret_values[i] > limit)
            return FAIL(error, ERROR_DATA, 0, "'%s' holds a size outside 1 to %lld", key, (long long)limit);
    }
    *ret_count = json_count(array);
    return true;
}

static bool read_shape(const Json *json, Model *model, Error *error)
{
    const int64_t limit = 1 << 30;
    TrainShape *shape = &model->shape;
    const char *task, *kind;
    int64_t format;
    size_t categorical = 0, embeddings = 0;
    if (!json_get_integer(json, "format", &format, error) || !json_get_text(json, "kind", &kind, error) ||
        !json_get_text(json, "task", &task, error) ||
        !json_get_integer(json, "numeric", &shape->numeric, error) ||
        !json_get_integer(json, "outputs", &shape->outputs, error) ||
        !read_integers(json, "cardinality", SHAPE_CATEGORICAL, limit, shape->cardinality, &categorical,
                       error) ||
        !read_integers(json, "embedding", SHAPE_CATEGORICAL, limit, shape->embedding, &embeddings, error) ||
        !read_integers(json, "hidden", SHAPE_LAYERS, limit, shape->hidden, &shape->layers, error))
        return false;
    if (format != MODEL_FORMAT || strcmp(kind, "mlp") != 0)
        return FAIL(error, ERROR_DATA, 0, "kind '%s' of format %lld is not 'mlp' of format %d", kind,
                    (long long)format, MODEL_FORMAT);
    if (!loss_kind_find(task, &model->kind))
        return FAIL(error, ERROR_DATA, 0, "unknown task '%s'", task);
    shape->categorical = (int64_t)categorical;
    bool outputs = model->kind == FEDGATE_LOSS_CLASSES ? shape->outputs >= 2 : shape->outputs == 1;
    if (shape->numeric < 0 || shape->numeric > limit || shape->outputs > limit || !outputs ||
        categorical != embeddings || shape->numeric + shape->categorical == 0)
        return FAIL(error, ERROR_DATA, 0, "the sizes contradict each other");
    return true;
}

static bool read_weights(Model *model, const TensorFile *file, Error *error)
{
    if (tensors_count(file) != model->layout.count)
        return FAIL(error, ERROR_DATA, 0, "%zu tensors, not %zu", tensors_count(file), model->layout.count);
    for (size_t i = 0; i < model->layout.count; i++) {
        const Parameter *at = &model->layout.at[i];
        const Tensor *tensor = tensors_need(file, at->name, TENSOR_F32, at->columns > 0 ? 2 : 1,
                                            (int64_t[]){at->rows, at->columns}, error);
        if (!tensor)
            return false;
        memcpy(model->weights + at->offset, tensor->data, (size_t)tensor->bytes);
    }
    return true;
}

Model *model_load(const char *directory, Error *error)
{
    char path[FILE_PATH_SIZE];
    if (!file_join(path, directory, "model.json", error))
        return NULL;
    OWNED(Json, json_free) *json = json_read_file(path, MODEL_JSON_MAX, error);
    Model *model = json ? calloc(1, sizeof *model) : NULL;
    if (!model) {
        if (json)
            FAIL(error, ERROR_MEMORY, 0, "could not take memory for a model");
        return NULL;
    }
    bool good = read_shape(json, model, error) || error_prefix(error, "model file '%s'", path);
    OWNED(TensorFile, tensors_free) *file = NULL;
    if (good && file_join(path, directory, "model.safetensors", error))
        file = tensors_read(path, model_bytes_max, error);
    if (file) {   // its size is proved, so the sizes of the shape are only believed when the tensors have
                  // them
        layout_init(&model->layout, &model->shape);
        model->weights = model->layout.floats * (int64_t)sizeof(float) <= (int64_t)model_bytes_max
                             ? calloc((size_t)model->layout.floats, sizeof *model->weights)
                             : NULL;
        good = model->weights
                   ? read_weights(model, file, error) || error_prefix(error, "model file '%s'", path)
                   : FAIL(error, ERROR_MEMORY, 0, "could not take memory for %lld weights",
                          (long long)model->layout.floats);
    }
    if (good && file)
        return model;
    model_free(model);
    return NULL;
}

void model_free(Model *model)
{
    if (!model)
        return;
    free(model->weights);
    free(model);
}

void model_digest(const Model *model, Digest *ret_digest)
{
    Hash *hash = hash_begin();
    for (size_t i = 0; hash && i < model->layout.count; i++) {
        Digest digest;
        layout_digest(&model->layout, model->weights, i, &digest);
        hash_add(hash, digest.bytes, sizeof digest.bytes);
    }
    hash_end(hash, ret_digest);
}

const char *model_task(const Model *model)
{
    return loss_kind_name(model->kind);
}

int64_t model_outputs(const Model *model)
{
    return model->shape.outputs;
}

enum { PREDICT_ROWS = 512 };

typedef struct Piece {
    float *x;
    int32_t *codes;
    double *score;
    int64_t x_bytes, code_bytes, score_bytes;
} Piece;

void model_shape(const Model *model, TrainShape *ret_shape)
{
    *ret_shape = model->shape;
}

void trainer_score_bytes(const TrainShape *shape, ScoreBytes *ret_bytes)
{
    Layout layout;
    layout_init(&layout, shape);
    *ret_bytes = (ScoreBytes){
        .weights = layout.floats * (int64_t)sizeof(float),
        .activations = network_measure(shape, FEDGATE_FP32, PREDICT_ROWS, false),
        .input = PREDICT_ROWS * (shape->numeric + shape->categorical) * (int64_t)sizeof(float),
        .workspace = PREDICT_ROWS * shape->outputs * (int64_t)sizeof(double) + trainer_fixed_bytes().sums,
    };
}

static bool predict_rows(Network *network, const Piece *piece, const Table *table, size_t first, size_t count,
                         double *ret_score, Error *error)
{
    const float *x = table->x + first * table->numeric;
    const int32_t *codes = table->codes + first * table->categorical;
    size_t outputs = (size_t)network->shape.outputs;
    if ((table->numeric > 0 &&
         !device_load(network->device, piece->x, x, (int64_t)(count * table->numeric * sizeof *x), error)) ||
        (table->categorical > 0 &&
         !device_load(network->device, piece->codes, codes,
                      (int64_t)(count * table->categorical * sizeof *codes), error)))
        return false;
    Rows rows = {.numeric = piece->x, .codes = piece->codes, .count = (int64_t)count};
    network_forward(network, &rows, NULL);
    device_score(network->device, &(FedgateScore){.kind = network->kind,
                                                  .logits = network_logits(network),
                                                  .score = piece->score,
                                                  .rows = (int64_t)count,
                                                  .outputs = network->shape.outputs});
    return device_copy_out(network->device, ret_score + first * outputs, piece->score,
                           (int64_t)(count * outputs * sizeof *ret_score), error);
}

static bool take_piece(Device *device, const Model *model, Piece *piece, Error *error)
{
    piece->x_bytes = PREDICT_ROWS * model->shape.numeric * (int64_t)sizeof *piece->x;
    piece->code_bytes = PREDICT_ROWS * model->shape.categorical * (int64_t)sizeof *piece->codes;
    piece->score_bytes = PREDICT_ROWS * model->shape.outputs * (int64_t)sizeof *piece->score;
    piece->x = device_take(device, "score input", piece->x_bytes, error);
    piece->codes = piece->x ? device_take(device, "score input", piece->code_bytes, error) : NULL;
    piece->score = piece->codes ? device_take(device, "score workspace", piece->score_bytes, error) : NULL;
    return piece->score != NULL;
}

bool model_predict(const Model *model, Device *device, Ledger *ledger, const Table *table, double target_mean,
                   double target_deviation, double *ret_score, Error *error)
{
    (void)ledger;
    if ((int64_t)table->numeric != model->shape.numeric ||
        (int64_t)table->categorical != model->shape.categorical)
        return FAIL(error, ERROR_DATA, 0,
                    "model takes %lld numeric and %lld categorical inputs, the table has %zu and %zu",
                    (long long)model->shape.numeric, (long long)model->shape.categorical, table->numeric,
                    table->categorical);
    for (size_t i = 0; i < table->rows * table->categorical; i++)
        if (table->codes[i] < 0 || table->codes[i] >= model->shape.cardinality[i % table->categorical])
            return FAIL(error, ERROR_DATA, 0, "row %zu has code %d, over the limit of %lld",
                        i / table->categorical, table->codes[i],
                        (long long)model->shape.cardinality[i % table->categorical] - 1);
    Network network;
    Piece piece = {0};
    if (!network_open(&network, device, &model->shape, model->kind, FEDGATE_FP32, PREDICT_ROWS, false,
                      "score ", error))
        return false;
    bool good = device_load(device, network.weights, model->weights,
                            model->layout.floats * (int64_t)sizeof(float), error) &&
                take_piece(device, model, &piece, error);
    for (size_t first = 0; good && first < table->rows; first += PREDICT_ROWS) {
        size_t count = table->rows - first < PREDICT_ROWS ? table->rows - first : PREDICT_ROWS;
        good = predict_rows(&network, &piece, table, first, count, ret_score, error);
    }
    for (size_t i = 0; good && model->kind == FEDGATE_LOSS_SQUARE && i < table->rows; i++)
        ret_score[i] = ret_score[i] * target_deviation + target_mean;
    device_give(device, "score input", piece.x, piece.x_bytes);
    device_give(device, "score input", piece.codes, piece.code_bytes);
    device_give(device, "score workspace", piece.score, piece.score_bytes);
    network_close(&network);
    return good;
}
