// parity_operations - rung 2: every operation of a pass in the candidate's type and in the reference's,
// against float64 on the operands as given before rounding; and how the error grows with the length of a
// reduction.
//
// Products are measured by the norms of their operands, not by the result: outputs that cancel and large
// values are then judged like any other. With FP32 sums the error stays that of the operands' rounding
// whatever the length; sums in half precision would grow with its square root.
#include "bench.h"
#include "parity_internal.h"

#include <math.h>
#include <stdio.h>

// -- forward

// The second half of every row is the first but for a hundredth, the weights of the second half are those of
// the first turned: what is left is small beside what was added.
static void make_cancelling(float *x, float *w, int64_t rows, int64_t in, int64_t out)
{
    int64_t half = in / 2;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < half; k++)
            x[i * in + half + k] = x[i * in + k] * (1 + 0.01f * x[i * in + half + k]);
    for (int64_t k = 0; k < half * out; k++)
        w[half * out + k] = -w[k];
}

static Product dense(Bench *bench, FedgateType type, const Operation *op, bool cancelling, bool with_bias)
{
    float *x = bench_random(bench, op->rows * op->in, KEY_X, op->scale),
          *w = bench_random(bench, op->in * op->out, KEY_W, op->scale > 1 ? 1 : op->scale),
          *bias = bench_random(bench, op->out, KEY_BIAS, with_bias ? op->scale : 0);
    if (cancelling)
        make_cancelling(x, w, op->rows, op->in, op->out);
    FedgateType y_type = op->out == 1 ? FEDGATE_FP32 : type;   // one output: logits
    void *y = bench_room(bench, y_type, op->rows * op->out);
    const void *given_x = bench_put(bench, type, x, op->rows * op->in),
               *given_w = bench_put(bench, type, w, op->in * op->out),
               *given_bias = bench_put(bench, type, bias, op->out);
    if (bench_ok(bench))
        device_dense(bench->device, &(FedgateDense){.type = type,
                                                    .y_type = y_type,
                                                    .x = given_x,
                                                    .w = given_w,
                                                    .bias = given_bias,
                                                    .y = y,
                                                    .rows = op->rows,
                                                    .in = op->in,
                                                    .out = op->out});
    return (Product){.a = x,
                     .b = w,
                     .bias = bias,
                     .y = bench_get(bench, y_type, y, op->rows * op->out),
                     .rows = op->rows,
                     .inner = op->in,
                     .columns = op->out,
                     .a_row = op->in,
                     .a_inner = 1,
                     .b_inner = op->out,
                     .b_column = 1,
                     .factor = 1};
}

static double product_worst(const Bench *bench, const Product *product)
{
    return bench_ok(bench) ? product_error(product).worst : (double)NAN;
}

static double run_dense(Bench *bench, FedgateType type, const Operation *op)
{
    Product product = dense(bench, type, op, false, true);
    return product_worst(bench, &product);
}

static double run_cancelling(Bench *bench, FedgateType type, const Operation *op)
{
    Product product = dense(bench, type, op, true, false);
    return product_worst(bench, &product);
}

// -- backward

typedef enum BackOf { BACK_WEIGHTS, BACK_BIAS, BACK_INPUTS } BackOf;
typedef struct Back {
    float *x, *w, *dy, *dw, *db;
    void *dx;
} Back;

static const float below_scale = 1.25f;   // of a dropout that keeps 0.8; exact in every type

static Back dense_back(Bench *bench, FedgateType type, const Operation *op)
{
    Back back = {.x = bench_random(bench, op->rows * op->in, KEY_X, op->scale),
                 .w = bench_random(bench, op->in * op->out, KEY_W, op->scale),
                 .dy = bench_random(bench, op->rows * op->out, KEY_Y, op->scale),
                 .dw = bench_room(bench, FEDGATE_FP32, op->in * op->out),
                 .db = bench_room(bench, FEDGATE_FP32, op->out),
                 .dx = bench_room(bench, type, op->rows * op->in)};
    const void *x = bench_put(bench, type, back.x, op->rows * op->in),
               *w = bench_put(bench, type, back.w, op->in * op->out),
               *dy = bench_put(bench, type, back.dy, op->rows * op->out);
    if (bench_ok(bench))
        device_dense_back(bench->device, &(FedgateDenseBack){.type = type,
                                                             .x = x,
                                                             .w = w,
                                                             .dy = dy,
                                                             .dx = back.dx,
                                                             .dw = back.dw,
                                                             .db = back.db,
                                                             .rows = op->rows,
                                                             .in = op->in,
                                                             .out = op->out,
                                                             .below_relu = true,
                                                             .below_scale = below_scale});
    return back;
}

static Product weight_gradient(Bench *bench, const Operation *op, const Back *back)
{
    return (Product){.a = back->x,
                     .b = back->dy,
                     .y = bench_get(bench, FEDGATE_FP32, back->dw, op->in * op->out),
                     .rows = op->in,
                     .inner = op->rows,
                     .columns = op->out,
                     .a_row = 1,
                     .a_inner = op->in,
                     .b_inner = op->out,
                     .b_column = 1,
                     .factor = 1};
}

static Product input_gradient(Bench *bench, FedgateType type, const Operation *op, const Back *back)
{
    return (Product){.a = back->dy,
                     .b = back->w,
                     .mask = back->x,
                     .y = bench_get(bench, type, back->dx, op->rows * op->in),
                     .rows = op->rows,
                     .inner = op->out,
                     .columns = op->in,
                     .a_row = op->out,
                     .a_inner = 1,
                     .b_inner = 1,
                     .b_column = op->out,
                     .factor = (double)below_scale};
}

static Product bias_gradient(Bench *bench, const Operation *op, const Back *back)
{
    float *ones = bench_host(bench, op->rows);
    for (int64_t i = 0; i < op->rows; i++)
        ones[i] = 1;
    return (Product){.a = ones,
                     .b = back->dy,
                     .y = bench_get(bench, FEDGATE_FP32, back->db, op->out),
                     .rows = 1,
                     .inner = op->rows,
                     .columns = op->out,
                     .a_inner = 1,
                     .b_inner = op->out,
                     .b_column = 1,
                     .factor = 1};
}

static double run_back(Bench *bench, FedgateType type, const Operation *op)
{
    Back back = dense_back(bench, type, op);
    if (!bench_ok(bench))
        return (double)NAN;
    Product product = op->which == BACK_WEIGHTS  ? weight_gradient(bench, op, &back)
                      : op->which == BACK_INPUTS ? input_gradient(bench, type, op, &back)
                                                 : bias_gradient(bench, op, &back);
    return product_worst(bench, &product);
}

static const Operation operations[] = {
    {"dense", run_dense, 64, 256, 64, 256, 1, 0},
    {"dense, one output", run_dense, 64, 256, 1, 256, 1, 0},
    {"dense, large values", run_dense, 64, 64, 64, 64, 2000, 0},   // sums to some 20000; FP16 ends at 65504
    {"dense, cancelling outputs", run_cancelling, 64, 256, 64, 256, 1, 0},
    {"weight gradient", run_back, 256, 64, 64, 256, 1, BACK_WEIGHTS},
    {"bias gradient", run_back, 256, 64, 64, 256, 1, BACK_BIAS},
    {"input gradient with mask", run_back, 64, 64, 256, 256, 1, BACK_INPUTS},
    {"assemble", run_assemble, 64, ASSEMBLE_WIDTH, ASSEMBLE_WIDTH, 1, 1, 0},
    {"embedding gradient", run_embedding_gradient, 256, ASSEMBLE_WIDTH, ASSEMBLE_FLOATS, 256, 1, 0},
    {"optimizer, zero gradient", run_zero_gradient, 256, 1, 1, 1, 1, 0},
    {"loss sum, binary", run_loss_sum, 4096, 1, 1, 32768, 2, FEDGATE_LOSS_BINARY},
    {"loss sum, classes", run_loss_sum, 4096, 1, 3, 32768, 2, FEDGATE_LOSS_CLASSES},
    {"loss sum, square", run_loss_sum, 4096, 1, 1, 32768, 2, FEDGATE_LOSS_SQUARE},
};

// -- growth

static const int64_t reductions[] = {256, 1024, 4096, 16384};
enum { GROWTH_COUNT = sizeof reductions / sizeof reductions[0], GROWTH_SIDE = 8 };

static bool put_growth(Bench *bench, FedgateType type, Json *parity)
{
    Json *growth = json_make_object(), *reduction = json_make_array(), *error = json_make_array();
    for (size_t i = 0; i < GROWTH_COUNT && bench_ok(bench); i++) {
        Operation op = {.rows = GROWTH_SIDE, .in = reductions[i], .out = GROWTH_SIDE, .scale = 0.1f};
        bench_clear(bench);
        Product product = dense(bench, type, &op, false, false);
        json_add_integer(reduction, reductions[i]);
        json_add_number(error, bench_ok(bench) ? product_error(&product).rms : (double)NAN);
    }
    json_put(growth, "reduction", reduction);
    json_put(growth, "error", error);
    json_put(parity, "growth", growth);
    return bench_ok(bench);
}

static bool put_operation(Bench *bench, const Operation *op, const FedgateType type[ARM_COUNT], Json *array)
{
    double error[ARM_COUNT];
    for (int arm = 0; arm < ARM_COUNT; arm++) {
        bench_clear(bench);
        error[arm] = op->run(bench, type[arm], op);
        if (!bench_ok(bench))
            return error_prefix(bench->error, "operation '%s' in %s", op->name, device_type_name(type[arm]));
    }
    char shape[64];
    snprintf(shape, sizeof shape, "%lldx%lldx%lld", (long long)op->rows, (long long)op->in,
             (long long)op->out);
    Json *json = json_make_object();
    json_put_text(json, "name", op->name);
    json_put_text(json, "shape", shape);
    json_put_integer(json, "reduction", op->reduction);
    json_put_number(json, "error", error[ARM_CANDIDATE]);
    json_put_number(json, "reference_error", error[ARM_REFERENCE]);
    json_add(array, json);
    return true;
}

bool parity_operations(Trainer *trainer, FedgateType candidate, FedgateType reference, Json *parity,
                       Error *error)
{
    Bench bench;
    Json *array = json_make_array();
    const FedgateType type[ARM_COUNT] = {[ARM_CANDIDATE] = candidate, [ARM_REFERENCE] = reference};
    bool good = bench_open(&bench, trainer->spec.device, trainer->spec.ledger, error);
    for (size_t i = 0; good && i < sizeof operations / sizeof operations[0]; i++)
        good = put_operation(&bench, &operations[i], type, array);
    json_put(parity, "operations", array);
    good = good && put_growth(&bench, candidate, parity);
    bench_close(&bench);
    return good;
}
