// parity_elements - rung 2, what is no product: assembling inputs and its gradient, AdamW, sums of losses.
#include "bench.h"
#include "parity_internal.h"

#include <fedgate/random.h>
#include <math.h>
#include <string.h>

// -- inputs

enum { ASSEMBLE_NUMERIC = 5, ASSEMBLE_TABLES = 2 };
static const FedgateEmbedding embeddings[ASSEMBLE_TABLES] = {
    {.offset = 0, .width = 3, .cardinality = 7, .column = 5},
    {.offset = 21, .width = 4, .cardinality = 3, .column = 8},
};

static int32_t *make_codes(Bench *bench, int64_t rows)
{
    int32_t *codes = (int32_t *)(void *)bench_host(bench, rows * ASSEMBLE_TABLES);
    for (int64_t i = 0; i < rows * ASSEMBLE_TABLES; i++)
        codes[i] = (int32_t)(random_bits(KEY_Y, (uint64_t)i) %
                             (uint64_t)embeddings[i % ASSEMBLE_TABLES].cardinality);
    return codes;
}

static FedgateAssemble assemble_of(Bench *bench, FedgateType type, const Operation *op, const int32_t *codes)
{
    int32_t *given = bench_room(bench, FEDGATE_FP32, op->rows * ASSEMBLE_TABLES);
    bench->failed =
        bench->failed || !device_load(bench->device, given, codes,
                                      op->rows * ASSEMBLE_TABLES * (int64_t)sizeof *codes, bench->error);
    return (FedgateAssemble){.type = type,
                             .x = bench_room(bench, type, op->rows * ASSEMBLE_WIDTH),
                             .rows = op->rows,
                             .width = ASSEMBLE_WIDTH,
                             .numeric_count = ASSEMBLE_NUMERIC,
                             .codes = given,
                             .embeddings = embeddings,
                             .embedding_count = ASSEMBLE_TABLES};
}

// Nothing is added up: every value is measured by itself.
double run_assemble(Bench *bench, FedgateType type, const Operation *op)
{
    const int32_t *codes = make_codes(bench, op->rows);
    const float *numeric = bench_random(bench, op->rows * ASSEMBLE_NUMERIC, KEY_X, op->scale),
                *tables = bench_random(bench, ASSEMBLE_FLOATS, KEY_W, op->scale);
    FedgateAssemble assemble = assemble_of(bench, type, op, codes);
    assemble.numeric = bench_put(bench, FEDGATE_FP32, numeric, op->rows * ASSEMBLE_NUMERIC);
    assemble.tables = bench_put(bench, type, tables, ASSEMBLE_FLOATS);
    if (bench_ok(bench))
        device_assemble(bench->device, &assemble);
    const float *x = bench_get(bench, type, assemble.x, op->rows * ASSEMBLE_WIDTH);
    double worst = 0;
    for (int64_t i = 0; i < op->rows * ASSEMBLE_WIDTH && bench_ok(bench); i++) {
        int64_t row = i / ASSEMBLE_WIDTH, column = i % ASSEMBLE_WIDTH;
        int table = column >= embeddings[1].column;
        const FedgateEmbedding *e = &embeddings[table];
        double exact = (double)(column < ASSEMBLE_NUMERIC
                                    ? numeric[row * ASSEMBLE_NUMERIC + column]
                                    : tables[e->offset + codes[row * ASSEMBLE_TABLES + table] * e->width +
                                             column - e->column]);
        double error = fabs((double)x[i] - exact) / fabs(exact);
        worst = bench_worse(worst, error);
    }
    return bench_ok(bench) ? worst : (double)NAN;
}

double run_embedding_gradient(Bench *bench, FedgateType type, const Operation *op)
{
    const int32_t *codes = make_codes(bench, op->rows);
    const float *dx = bench_random(bench, op->rows * ASSEMBLE_WIDTH, KEY_Y, op->scale);
    FedgateAssemble back = assemble_of(bench, type, op, codes);
    back.gradient = bench_room(bench, FEDGATE_FP32, ASSEMBLE_FLOATS);
    back.x = bench_put(bench, type, dx, op->rows * ASSEMBLE_WIDTH);
    if (bench_ok(bench))
        device_assemble_back(bench->device, &back);
    const float *gradient = bench_get(bench, FEDGATE_FP32, back.gradient, ASSEMBLE_FLOATS);
    double exact[ASSEMBLE_FLOATS] = {0}, squares[ASSEMBLE_FLOATS] = {0}, count[ASSEMBLE_FLOATS] = {0},
           worst = 0;
    for (int64_t i = 0; i < op->rows; i++)
        for (int table = 0; table < ASSEMBLE_TABLES; table++)
            for (int64_t j = 0; j < embeddings[table].width; j++) {
                const FedgateEmbedding *e = &embeddings[table];
                double value = (double)dx[i * ASSEMBLE_WIDTH + e->column + j];
                int64_t at = e->offset + codes[i * ASSEMBLE_TABLES + table] * e->width + j;
                exact[at] += value;
                squares[at] += value * value;
                count[at]++;
            }
    for (int i = 0; i < ASSEMBLE_FLOATS; i++) {   // a sum of n values: the product with n ones
        double error = fabs((double)gradient[i] - exact[i]) / sqrt(squares[i] * count[i]);
        worst = bench_worse(worst, error);
    }
    return bench_ok(bench) ? worst : (double)NAN;
}

// -- optimizer and loss

// A row that no gradient reached only decays; an epsilon that is 0 in half precision would make it 0 / 0.
double run_zero_gradient(Bench *bench, FedgateType type, const Operation *op)
{
    const FedgatePace pace = {.rate = 0.01f, .correction1 = 10, .correction2 = 1000};
    const FedgateStepState state = {.scale = 1, .factor = 1, .apply = 1};
    float *start = bench_random(bench, op->rows, KEY_W, op->scale), *zeros = bench_host(bench, op->rows);
    memset(zeros, 0, (size_t)op->rows * sizeof *zeros);
    FedgateAdam adam = {.weights = bench_put(bench, FEDGATE_FP32, start, op->rows),
                        .gradient = bench_put(bench, FEDGATE_FP32, zeros, op->rows),
                        .first = bench_put(bench, FEDGATE_FP32, zeros, op->rows),
                        .second = bench_put(bench, FEDGATE_FP32, zeros, op->rows),
                        .pass = bench_room(bench, type, op->rows),
                        .pass_type = type,
                        .count = op->rows,
                        .beta1 = 0.9f,
                        .beta2 = 0.999f,
                        .epsilon = 1e-8f,
                        .decay = 0.01f,
                        .decayed = op->rows,
                        .pace_count = 1};
    FedgatePace *given_pace = bench_room(bench, FEDGATE_FP32, (int64_t)(sizeof pace / sizeof(float)));
    FedgateStepState *given_state = bench_room(bench, FEDGATE_FP32, (int64_t)(sizeof state / sizeof(float)));
    bench->failed = bench->failed ||
                    !device_load(bench->device, given_pace, &pace, sizeof pace, bench->error) ||
                    !device_load(bench->device, given_state, &state, sizeof state, bench->error);
    adam.pace = given_pace;
    adam.state = given_state;
    if (bench_ok(bench))
        device_adam(bench->device, &adam);
    const float *pass = bench_get(bench, type, adam.pass, op->rows);
    double worst = 0;
    for (int64_t i = 0; i < op->rows && bench_ok(bench); i++) {
        double exact = (double)start[i] * (1 - (double)pace.rate * (double)adam.decay),
               error = fabs((double)pass[i] - exact) / fabs(exact);
        worst = bench_worse(worst, error);
    }
    return bench_ok(bench) ? worst : (double)NAN;
}

// In pieces, as microbatches add up: a sum kept in half precision stands still long before the end.
double run_loss_sum(Bench *bench, FedgateType type, const Operation *op)
{
    const FedgateLossKind kind = (FedgateLossKind)op->which;
    const int64_t pieces = op->reduction / op->rows;
    const float *logits = bench_random(bench, op->rows * op->out, KEY_X, op->scale);
    float *target = bench_host(bench, op->rows);
    double gradient[8], exact = 0, sum = 0;
    for (int64_t i = 0; i < op->rows; i++) {
        double row[8];
        target[i] = (float)(random_bits(KEY_Y, (uint64_t)i) % (uint64_t)(op->out > 1 ? op->out : 2));
        for (int64_t k = 0; k < op->out; k++)
            row[k] = (double)logits[i * op->out + k];
        exact += arbiter_loss(kind, row, op->out, (double)target[i], gradient);
    }
    double *loss = bench_room(bench, FEDGATE_FP32, 2);
    FedgateLoss call = {.kind = kind,
                        .logits = bench_put(bench, FEDGATE_FP32, logits, op->rows * op->out),
                        .target = bench_put(bench, FEDGATE_FP32, target, op->rows),
                        .gradient_type = type,
                        .gradient = bench_room(bench, type, op->rows * op->out),
                        .loss = loss,
                        .rows = op->rows,
                        .outputs = op->out,
                        .scale = 1};
    if (bench_ok(bench))
        device_zero(bench->device, loss, sizeof *loss);
    for (int64_t i = 0; i < pieces && bench_ok(bench); i++)
        device_loss(bench->device, &call);
    bench->failed = bench->failed || !device_copy_out(bench->device, &sum, loss, sizeof sum, bench->error);
    exact *= (double)pieces;
    return bench_ok(bench) ? fabs(sum - exact) / exact : (double)NAN;
}
