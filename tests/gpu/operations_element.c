// operations_element - inputs, dropout, casts, the decision on a step and AdamW: the bits of the cpu back
// end. Losses, scores and norms: within a few units of float64.
#include "gpu.h"

#include <fedgate/random.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void (*Both)(Device *device, void *const *at, const void *how);

// The same operation on the tested device and on the cpu, whose memory is the host's. Arrays are in and out.
static int64_t differing(Gpu *gpu, Both run, const void *how, Array *arrays, int count)
{
    void *device[8], *host[8];
    int64_t differ = 0;
    for (int i = 0; i < count; i++) {
        array_reset(gpu, &arrays[i]);
        device[i] = arrays[i].at;
        host[i] = arrays[i].before;
    }
    run(gpu->device, device, how);
    run(gpu->cpu, host, how);
    for (int i = 0; i < count; i++) {
        array_fetch(gpu, &arrays[i]);
        float *expected = malloc((size_t)arrays[i].count * sizeof *expected);
        device_cast(gpu->cpu,
                    &(FedgateCast){expected, host[i], FEDGATE_FP32, arrays[i].type, arrays[i].count});
        for (int64_t k = 0; k < arrays[i].count; k++)   // NaN is NaN, whatever its bits
            differ += memcmp(&arrays[i].plain[k], &expected[k], sizeof *expected) != 0 &&
                      !(isnan(arrays[i].plain[k]) && isnan(expected[k]));
        free(expected);
    }
    return differ;
}

static void equal_row(Gpu *gpu, const char *name, FedgateType type, int64_t differ)
{
    char text[96];
    snprintf(text, sizeof text, "%s %s, not the cpu's bits", name, device_type_name(type));
    gpu_row(gpu, text, (double)differ, "elements", 0);
}

// -- inputs

enum { ROWS = 1000, NUMERIC = 5, TABLES = 2, WIDTH = NUMERIC + 3 + 17, FLOATS = 7 * 3 + 400 * 17 };
static const FedgateEmbedding embeddings[TABLES] = {{0, 3, 7, NUMERIC}, {21, 17, 400, NUMERIC + 3}};
typedef struct Inputs {
    FedgateType type;
    const int32_t *codes[2];   // on the tested device, on the host
    Device *device;
    bool accumulate;
} Inputs;

static FedgateAssemble inputs_of(Device *device, const Inputs *how)
{
    return (FedgateAssemble){.type = how->type,
                             .rows = ROWS,
                             .width = WIDTH,
                             .numeric_count = NUMERIC,
                             .codes = how->codes[device == how->device ? 0 : 1],
                             .embeddings = embeddings,
                             .embedding_count = TABLES,
                             .accumulate = how->accumulate};
}

static void run_assemble(Device *device, void *const *at, const void *how)
{
    FedgateAssemble op = inputs_of(device, how);
    op.x = at[0], op.numeric = at[1], op.tables = at[2];
    device_assemble(device, &op);
}

static void run_assemble_back(Device *device, void *const *at, const void *how)
{
    FedgateAssemble op = inputs_of(device, how);
    op.x = at[0], op.gradient = at[1];
    device_assemble_back(device, &op);
}

static void inputs(Gpu *gpu, FedgateType type)
{
    Error error = ERROR_INIT;
    static int32_t codes[ROWS * TABLES];
    for (int i = 0; i < ROWS * TABLES; i++)
        codes[i] = (int32_t)(random_unit(41, (uint64_t)i) * (i % 2 ? 400 : 7));
    int32_t *there = device_take(gpu->device, "test", sizeof codes, &error);
    gpu_need(there && device_load(gpu->device, there, codes, sizeof codes, &error), &error);
    Inputs how = {type, {there, codes}, gpu->device, false};
    Array forward[] = {array_new(gpu, type, ROWS * WIDTH, 0),
                       array_noise(gpu, FEDGATE_FP32, ROWS * NUMERIC, 0, 42, 3),
                       array_noise(gpu, type, FLOATS, 1, 43, 1)};
    equal_row(gpu, "inputs", type, differing(gpu, run_assemble, &how, forward, 3));
    Array back[] = {array_noise(gpu, type, ROWS * WIDTH, 0, 44, 1),
                    array_noise(gpu, FEDGATE_FP32, FLOATS, 1, 45, 1)};
    equal_row(gpu, "embedding gradient", type, differing(gpu, run_assemble_back, &how, back, 2));
    how.accumulate = true;
    equal_row(gpu, "embedding gradient, added", type, differing(gpu, run_assemble_back, &how, back, 2));
    for (int i = 0; i < 3; i++)
        array_free(gpu, &forward[i]);
    array_free(gpu, &back[0]), array_free(gpu, &back[1]);
    device_give(gpu->device, "test", there, sizeof codes);
}

// -- dropout and casts

static void run_dropout(Device *device, void *const *at, const void *how)
{
    device_dropout(device,
                   &(FedgateDropout){*(const FedgateType *)how, at[0], 300, 257, 77, 1000000, 0.8f, 0, NULL});
}

static void run_cast(Device *device, void *const *at, const void *how)
{
    const FedgateType *types = how;
    device_cast(device, &(FedgateCast){at[1], at[0], types[1], types[0], 4096});
}

static void casts(Gpu *gpu, FedgateType from)
{
    float values[4096] = {0,         -0.0f,     NAN,         INFINITY,     -INFINITY, 65504,
                          65519.99f, 65520,     1e30f,       0x1p-24f,     0x1p-25f,  0x1.8p-25f,
                          0x1p-126f, 0x1p-133f, 1 + 0x1p-8f, 1 + 0x1.8p-8f};
    for (int i = 16; i < 4096; i++) {
        uint32_t bits = (uint32_t)random_bits(51, (uint64_t)i);
        memcpy(&values[i], &bits, sizeof bits);
    }
    for (int to = 0; to < 3; to++) {
        FedgateType types[] = {from, (FedgateType)to};
        Array arrays[] = {array_of(gpu, from, values, 4096), array_new(gpu, types[1], 4096, 0)};
        char name[64];
        snprintf(name, sizeof name, "cast from %s to", device_type_name(from));
        equal_row(gpu, name, types[1], differing(gpu, run_cast, types, arrays, 2));
        array_free(gpu, &arrays[0]), array_free(gpu, &arrays[1]);
    }
}

// -- the step: the state goes through all its turns, AdamW follows each

enum { COUNT = 10007, STEPS = 12 };
static const FedgatePace pace[] = {{0.01f, 10, 1000}, {0.009f, 5.2f, 500}, {0.008f, 3.7f, 333}};

typedef struct StepMemory {
    FedgateStepState *state;
    FedgatePace *pace;
    double *square;
} StepMemory;
typedef struct StepHow {
    FedgateType type;
    Device *tested;
    StepMemory memory[2];   // of the tested device, of the host
} StepHow;

static void run_steps(Device *device, void *const *at, const void *given)
{
    static const double squares[STEPS] = {4, 1e6, INFINITY, NAN, 0, 9, 1, 2, 3, INFINITY, INFINITY, 1};
    const StepHow *how = given;
    const StepMemory *m = &how->memory[device == how->tested ? 0 : 1];
    Error error = ERROR_INIT;
    FedgateStepState begin = {.scale = 1024, .smallest = 1024, .patience = 2};
    gpu_need(device_load(device, m->state, &begin, sizeof begin, &error) &&
                 device_load(device, m->pace, pace, sizeof pace, &error),
             &error);
    for (int i = 0; i < STEPS; i++) {
        gpu_need(device_load(device, m->square, &squares[i], sizeof squares[i], &error), &error);
        device_settle(device, &(FedgateSettle){m->state, m->square, 1, true, 2, 0.5, 512, 4096, 3, 2, NULL, 0,
                                               NULL, 0});
        device_adam(device, &(FedgateAdam){at[0], at[2], at[3], at[1],
                                           how->type == FEDGATE_FP32 ? NULL : at[4], how->type, COUNT, COUNT,
                                           0.9f, 0.999f, 1e-8f, 0.01f, m->pace, 3, m->state});
    }
}

static void steps(Gpu *gpu, FedgateType type, int64_t offset)
{
    Error error = ERROR_INIT;
    FedgateStepState state, there;
    double square;
    FedgatePace paces[3];
    StepHow how = {type, gpu->device, {{0}, {&state, paces, &square}}};
    how.memory[0] = (StepMemory){device_take(gpu->device, "test", sizeof state, &error),
                                 device_take(gpu->device, "test", sizeof pace, &error),
                                 device_take(gpu->device, "test", sizeof square, &error)};
    Array arrays[] = {array_noise(gpu, FEDGATE_FP32, COUNT, offset, 61, 1),
                      array_noise(gpu, FEDGATE_FP32, COUNT, offset, 62, 900),
                      array_noise(gpu, FEDGATE_FP32, COUNT, 0, 63, 0.1),
                      array_noise(gpu, FEDGATE_FP32, COUNT, 0, 64, 0), array_new(gpu, type, COUNT, 0)};
    equal_row(gpu, offset ? "adamw unaligned" : "adamw", type, differing(gpu, run_steps, &how, arrays, 5));
    gpu_need(device_copy_out(gpu->device, &there, how.memory[0].state, sizeof there, &error), &error);
    equal_row(gpu, offset ? "state of the step again" : "state of the step", type,
              memcmp(&there, &state, sizeof state) != 0);
    for (int i = 0; i < 5; i++)
        array_free(gpu, &arrays[i]);
    device_give(gpu->device, "test", how.memory[0].state, sizeof state);
    device_give(gpu->device, "test", how.memory[0].pace, sizeof pace);
    device_give(gpu->device, "test", how.memory[0].square, sizeof square);
}

// -- losses, scores, norms

static double off(double value, double expected)
{
    double difference = fabs(value - expected) / fmax(fabs(expected), 1);
    return isnan(value) && isnan(expected) ? 0 : isnan(difference) ? INFINITY : difference;
}

typedef struct Judged {
    double sum, gradient, score;
    int64_t differ;
} Judged;

static void judge_loss(Gpu *gpu, FedgateLossKind kind, FedgateType type, int64_t rows, int64_t outputs,
                       Judged *ret)
{
    Error error = ERROR_INIT;
    double zero = 0, there[2], here = 0, *scores = calloc((size_t)(rows * outputs), sizeof *scores),
           *got = calloc((size_t)(rows * outputs), sizeof *got);
    Array logits = array_noise(gpu, FEDGATE_FP32, rows * outputs, 0, 71, 20),
          gradient = array_new(gpu, type, rows * outputs, 0);
    float *label = malloc((size_t)rows * sizeof *label);
    for (int64_t i = 0; i < rows; i++)
        label[i] = kind == FEDGATE_LOSS_SQUARE
                       ? (float)random_unit(72, (uint64_t)i)
                       : (float)(int)(random_unit(72, (uint64_t)i) * (double)(outputs > 1 ? outputs : 2));
    Array target = array_of(gpu, FEDGATE_FP32, label, rows);
    double *sum = device_take(gpu->device, "test", sizeof *sum, &error),
           *score = device_take(gpu->device, "test", rows * outputs * (int64_t)sizeof *score, &error);
    FedgateLoss op = {kind, logits.at, target.at,       type, gradient.at, sum,
                      rows, outputs,   1 / (float)rows, NULL};
    for (int pass = 0; pass < 2; pass++) {
        gpu_need(device_load(gpu->device, sum, &zero, sizeof zero, &error), &error);
        device_loss(gpu->device, &op);
        gpu_need(device_copy_out(gpu->device, &there[pass], sum, sizeof zero, &error), &error);
    }
    array_fetch(gpu, &gradient);
    device_score(gpu->device, &(FedgateScore){kind, logits.at, score, rows, outputs});
    gpu_need(device_copy_out(gpu->device, got, score, rows * outputs * (int64_t)sizeof *got, &error), &error);
    Array expected = array_new(gpu, type, rows * outputs, 0);
    op = (FedgateLoss){kind, logits.plain, target.plain,    type, expected.host, &here,
                       rows, outputs,      1 / (float)rows, NULL};
    device_loss(gpu->cpu, &op);
    device_score(gpu->cpu, &(FedgateScore){kind, logits.plain, scores, rows, outputs});
    device_cast(gpu->cpu, &(FedgateCast){expected.plain, expected.host, FEDGATE_FP32, type, rows * outputs});
    ret->sum = gpu_worse(ret->sum, off(there[0], here));
    ret->differ += memcmp(&there[0], &there[1], sizeof zero) != 0;
    for (int64_t i = 0; i < rows * outputs; i++) {
        double e = (double)expected.plain[i], d = fabs((double)gradient.plain[i] - e);
        double units = d == 0 ? 0
                              : d / (device_type_roundoff(type) * 2 *
                                     fmax(fabs(e), type == FEDGATE_FP16 ? 0x1p-14 : 0x1p-126));
        ret->gradient = gpu_worse(ret->gradient, units);
        ret->score = gpu_worse(ret->score, off(got[i], scores[i]));
    }
    device_give(gpu->device, "test", sum, sizeof *sum);
    device_give(gpu->device, "test", score, rows * outputs * (int64_t)sizeof *score);
    array_free(gpu, &logits), array_free(gpu, &gradient), array_free(gpu, &target),
        array_free(gpu, &expected);
    free(label), free(scores), free(got);
}

static void losses(Gpu *gpu, FedgateType type)
{
    static const char *const names[] = {"binary", "classes", "square"};
    char text[96];
    for (int kind = 0; kind < 3; kind++) {
        Judged judged = {0};
        judge_loss(gpu, (FedgateLossKind)kind, type, 1, kind == 1 ? 3 : 1, &judged);
        judge_loss(gpu, (FedgateLossKind)kind, type, 8191, kind == 1 ? 10 : 1, &judged);
        snprintf(text, sizeof text, "loss %s %s, sum off the cpu's", names[kind], device_type_name(type));
        gpu_row(gpu, text, judged.sum, "relative", 1e-12);
        snprintf(text, sizeof text, "loss %s %s, gradient off the cpu's", names[kind],
                 device_type_name(type));
        gpu_row(gpu, text, judged.gradient, "units", 1);
        snprintf(text, sizeof text, "scores %s %s, off the cpu's", names[kind], device_type_name(type));
        gpu_row(gpu, text, judged.score, "relative", 1e-13);
        gpu->failures += judged.differ > 0;
    }
}

static void norms(Gpu *gpu)
{
    Error error = ERROR_INIT;
    double worst = 0, there, here, *sum = device_take(gpu->device, "test", sizeof *sum, &error);
    for (int64_t count = 1; count < 40000000; count = count * 17 + 3) {
        Array x = array_noise(gpu, FEDGATE_FP32, count, 1, 81, 5);
        device_square_sum(gpu->device, x.at, count, sum);
        gpu_need(device_copy_out(gpu->device, &there, sum, sizeof there, &error), &error);
        device_square_sum(gpu->cpu, x.plain, count, &here);
        worst = gpu_worse(worst, off(there / here, 1));
        array_free(gpu, &x);
    }
    gpu_row(gpu, "square sum off the cpu's", worst, "relative", 1e-12);
    device_give(gpu->device, "test", sum, sizeof *sum);
}

void test_elements(Gpu *gpu)
{
    for (int t = 0; t < 3; t++) {
        FedgateType type = (FedgateType)t;
        Array x = array_noise(gpu, type, 300 * 257, 0, 91, 1);
        inputs(gpu, type);
        equal_row(gpu, "dropout", type, differing(gpu, run_dropout, &type, &x, 1));
        casts(gpu, type);
        steps(gpu, type, 0);
        steps(gpu, type, 1);
        losses(gpu, type);
        array_free(gpu, &x);
    }
    norms(gpu);
}
