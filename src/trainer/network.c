// network - embeddings beside numbers, hidden layers with ReLU, an output: forward and backward on a device.
//
// The gradient of a layer's output arrives already masked by its own ReLU, because the layer above applies
// the mask while the block is in cache. All memory is taken when the network opens; a pass allocates nothing.
// In half precision the passes read a rounded copy of the weights, which AdamW renews with every step.
#include "trainer_internal.h"

enum { NETWORK_ALIGNMENT = 64 };

static int64_t aligned(int64_t bytes)
{
    return (bytes + NETWORK_ALIGNMENT - 1) / NETWORK_ALIGNMENT * NETWORK_ALIGNMENT;
}

static void *slice_bytes(char *block, int64_t *at, int64_t bytes)
{
    void *begin = block ? block + *at : NULL;
    *at += aligned(bytes);
    return begin;
}

static void *slice(char *block, int64_t *at, int64_t rows, int64_t width, FedgateType type)
{
    return slice_bytes(block, at, rows * width * fedgate_type_bytes(type));
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

// In half precision the input is assembled also without embeddings: there it is rounded.
static bool assembles(const Network *network)
{
    return network->shape.categorical > 0 || network->type != FEDGATE_FP32;
}

static FedgateType value_type(const Network *network, size_t layer)
{
    return layer == network->shape.layers ? FEDGATE_FP32 : network->type;   // logits
}

// Values, then their gradients; every one on a cache line of its own. Without a block only its size is found.
static int64_t cut_block(Network *network, char *block)
{
    int64_t at = 0;
    const int64_t rows = network->rows, width = network->layout.width;
    const FedgateType type = network->type;
    network->x = assembles(network) ? slice(block, &at, rows, width, type) : NULL;
    for (size_t i = 0; i <= network->shape.layers; i++)
        network->value[i] = slice(block, &at, rows, layer_out(&network->shape, i), value_type(network, i));
    if (!network->training)
        return at;
    network->dx = network->shape.categorical > 0 ? slice(block, &at, rows, width, type) : NULL;
    for (size_t i = 0; i <= network->shape.layers; i++)
        network->back[i] = slice(block, &at, rows, layer_out(&network->shape, i), type);
    return at;
}

int64_t network_measure(const TrainShape *shape, FedgateType type, int64_t rows, bool training)
{
    Network network = {.shape = *shape, .type = type, .rows = rows, .training = training};
    layout_init(&network.layout, shape);
    return cut_block(&network, NULL);
}

typedef struct AccountName {
    char text[LEDGER_NAME_SIZE];
} AccountName;

static AccountName account_of(const Network *network, Held held)
{
    static const char *const names[HELD_COUNT] = {
        [HELD_WEIGHTS] = "weights", [HELD_PASS] = "pass weights", [HELD_GRADIENTS] = "gradients",
        [HELD_FIRST] = "optimizer", [HELD_SECOND] = "optimizer",  [HELD_BLOCK] = "activations",
        [HELD_SUMS] = "workspace",  [HELD_STATE] = "step state",  [HELD_PACE] = "step state",
    };
    AccountName name;
    if (!text_print(name.text, sizeof name.text, "%s%s", network->prefix, names[held]))
        BUG("account '%s%s' has too long a name", network->prefix, names[held]);
    return name;
}

bool network_hold(Network *network, Held held, int64_t bytes, Error *error)
{
    AccountName name = account_of(network, held);
    device_give(network->device, name.text, network->held[held].memory, network->held[held].bytes);
    network->held[held].memory = bytes > 0 ? device_take(network->device, name.text, bytes, error) : NULL;
    network->held[held].bytes = network->held[held].memory ? bytes : 0;
    return bytes == 0 || network->held[held].memory;
}

static bool take_memory(Network *network, Error *error)
{
    const int64_t floats = network->layout.floats, weights = floats * (int64_t)sizeof(float);
    const bool half = network->type != FEDGATE_FP32, training = network->training;
    const int64_t bytes[HELD_COUNT] = {
        [HELD_WEIGHTS] = weights,
        [HELD_PASS] = half ? floats * fedgate_type_bytes(network->type) : 0,
        [HELD_GRADIENTS] = training ? weights : 0,
        [HELD_FIRST] = training ? weights : 0,   // apart, so that both lie for wide loads
        [HELD_SECOND] = training ? weights : 0,
        [HELD_BLOCK] = cut_block(network, NULL),
        [HELD_SUMS] = SUM_COUNT * (int64_t)sizeof(double),
        [HELD_STATE] = training ? (int64_t)sizeof(StepBlock) : 0,
    };
    for (int held = 0; held < HELD_COUNT; held++)
        if (!network_hold(network, (Held)held, bytes[held], error))
            return false;
    network->weights = network->held[HELD_WEIGHTS].memory;
    network->pass = half ? network->held[HELD_PASS].memory : network->weights;
    network->gradients = network->held[HELD_GRADIENTS].memory;
    network->first = network->held[HELD_FIRST].memory;
    network->second = network->held[HELD_SECOND].memory;
    network->sums = network->held[HELD_SUMS].memory;
    StepBlock *steps = network->held[HELD_STATE].memory;
    network->steps = steps;
    network->state = steps ? &steps->state : NULL;
    cut_block(network, network->held[HELD_BLOCK].memory);
    return true;
}

bool network_open(Network *network, Device *device, const TrainShape *shape, FedgateLossKind kind,
                  FedgateType type, int64_t rows, bool training, const char *account_prefix, Error *error)
{
    *network = (Network){.device = device,
                         .prefix = account_prefix,
                         .shape = *shape,
                         .kind = kind,
                         .type = type,
                         .rows = rows,
                         .training = training};
    if (!(device_info(device)->types & 1u << type)) {
        *network = (Network){0};
        return FAIL(error, ERROR_UNAVAILABLE, 0, "compute back end '%s' does not compute in '%s'",
                    device_info(device)->backend, device_type_name(type));
    }
    layout_init(&network->layout, shape);
    place_embeddings(network);
    if (take_memory(network, error))
        return true;
    network_close(network);
    return false;
}

void network_close(Network *network)
{
    Error none = ERROR_INIT;
    if (network->device && device_info(network->device)->asynchronous && !network->abandoned)
        (void)!device_synchronise(network->device, &none);   // what is queued still uses this memory
    for (int held = 0; network->device && held < HELD_COUNT; held++)
        (void)network_hold(network, (Held)held, 0, &none);
    *network = (Network){0};
}

void network_refresh(Network *network)
{
    if (network->type != FEDGATE_FP32)
        device_cast(network->device, &(FedgateCast){.to = network->pass,
                                                    .from = network->weights,
                                                    .to_type = network->type,
                                                    .from_type = FEDGATE_FP32,
                                                    .count = network->layout.floats});
}

static const void *pass_at(const Network *network, size_t parameter)
{
    return (const char *)network->pass +
           network->layout.at[parameter].offset * fedgate_type_bytes(network->type);
}

static FedgateAssemble assemble(const Network *network, const Rows *rows)
{
    return (FedgateAssemble){.type = network->type,
                             .x = network->x,
                             .rows = rows->count,
                             .width = network->layout.width,
                             .numeric = rows->numeric,
                             .numeric_count = network->shape.numeric,
                             .codes = rows->codes,
                             .tables = network->pass,
                             .embeddings = network->embeddings,
                             .embedding_count = network->shape.categorical};
}

static const void *layer_input(const Network *network, const Rows *rows, size_t layer)
{
    return layer > 0 ? network->value[layer - 1] : network->x ? network->x : rows->numeric;
}

static void take_input(Network *network, const Rows *rows, bool training)
{
    int64_t *nonfinite = training && network->steps ? &network->steps->nonfinite : NULL;
    if (network->x) {
        FedgateAssemble op = assemble(network, rows);
        op.nonfinite = nonfinite;
        device_assemble(network->device, &op);
    } else if (nonfinite) {
        device_count_nonfinite(network->device, rows->numeric, rows->count * network->shape.numeric,
                               nonfinite);
    }
}

void network_forward(Network *network, const Rows *rows, const Dropout *dropout)
{
    const TrainShape *shape = &network->shape;
    take_input(network, rows, dropout != NULL);
    for (size_t i = 0; i <= shape->layers; i++) {
        FedgateDense op = {.type = network->type,
                           .y_type = value_type(network, i),
                           .x = layer_input(network, rows, i),
                           .w = pass_at(network, layout_matrix(shape, i)),
                           .bias = pass_at(network, layout_bias(shape, i)),
                           .y = network->value[i],
                           .rows = rows->count,
                           .in = layer_in(&network->layout, shape, i),
                           .out = layer_out(shape, i),
                           .relu = i < shape->layers};
        device_dense(network->device, &op);
        if (dropout && dropout->keep < 1 && i < shape->layers)
            device_dropout(network->device, &(FedgateDropout){.type = network->type,
                                                              .x = network->value[i],
                                                              .rows = rows->count,
                                                              .width = op.out,
                                                              .key = dropout->key,
                                                              .row = (uint64_t)rows->first,
                                                              .keep = dropout->keep,
                                                              .layer = i,
                                                              .state = network->state});
    }
}

void network_loss(Network *network, const Rows *rows, float scale, bool gradient)
{
    size_t last = network->shape.layers;
    device_loss(network->device, &(FedgateLoss){.kind = network->kind,
                                                .logits = network->value[last],
                                                .target = rows->target,
                                                .gradient_type = network->type,
                                                .gradient = gradient ? network->back[last] : NULL,
                                                .loss = &network->sums[SUM_LOSS],
                                                .rows = rows->count,
                                                .outputs = network->shape.outputs,
                                                .scale = scale,
                                                .state = network->state});
}

static float *bias_gradient(const Network *network, size_t layer)
{
    return network->gradients + network->layout.at[layout_bias(&network->shape, layer)].offset;
}

void network_backward(Network *network, const Rows *rows, const Dropout *dropout, bool accumulate)
{
    const TrainShape *shape = &network->shape;
    for (size_t i = shape->layers + 1; i-- > 0;) {
        FedgateDenseBack op = {.type = network->type,
                               .x = layer_input(network, rows, i),
                               .w = pass_at(network, layout_matrix(shape, i)),
                               .dy = network->back[i],
                               .dx = i > 0 ? network->back[i - 1] : network->dx,
                               .dw = network->gradients + network->layout.at[layout_matrix(shape, i)].offset,
                               .db = i == shape->layers ? bias_gradient(network, i) : NULL,
                               .dx_sums = i > 0 ? bias_gradient(network, i - 1) : NULL,
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
        op.gradient = network->gradients;
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

// Bytes that must move at least once: operands and results of those multiplications. Logits and gradients of
// parameters are FP32.
double network_bytes(const Network *network, int64_t rows, bool backward)
{
    const double e = (double)fedgate_type_bytes(network->type), n = (double)rows;
    double bytes = 0;
    for (size_t i = 0; i <= network->shape.layers; i++) {
        double in = (double)layer_in(&network->layout, &network->shape, i),
               out = (double)layer_out(&network->shape, i);
        if (!backward)
            bytes += e * (n * in + in * out) + (double)fedgate_type_bytes(value_type(network, i)) * n * out;
        else
            bytes += e * (n * in + n * out) + (double)sizeof(float) * in * out;
        if (backward && (i > 0 || network->dx))
            bytes += e * (n * out + in * out + n * in);
    }
    return bytes;
}

const float *network_logits(const Network *network)
{
    return network->value[network->shape.layers];
}

bool network_read_loss(Network *network, double *ret_sum, Error *error)
{
    if (!device_copy_out(network->device, ret_sum, &network->sums[SUM_LOSS], sizeof *ret_sum, error))
        return false;
    device_zero(network->device, &network->sums[SUM_LOSS], sizeof *ret_sum);
    return true;
}
