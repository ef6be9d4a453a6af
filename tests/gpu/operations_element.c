// operations_element - dropout, casts, the decision on a step and AdamW: the bits of the cpu back end.
#include "operations.h"

#include <fedgate/random.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// -- dropout and casts

// Without a step state and with one, whose steps attempted are part of the key.
typedef struct DropHow {
    FedgateType type;
    Device *tested;
    const FedgateStepState *state[2];   // of the tested device, of the host; NULL: none
} DropHow;

static void run_dropout(Device *device, void *const *at, const void *given)
{
    const DropHow *how = given;
    device_dropout(device, &(FedgateDropout){.type = how->type,
                                             .x = at[0],
                                             .rows = 300,
                                             .width = 257,
                                             .key = 77,
                                             .row = 1000000,
                                             .keep = 0.8f,
                                             .layer = 3,
                                             .state = how->state[device == how->tested ? 0 : 1]});
}

static void dropouts(Gpu *gpu, FedgateType type)
{
    Error error = ERROR_INIT;
    FedgateStepState state = {.attempted = 123456789};
    FedgateStepState *there = device_take(gpu->device, "test", sizeof state, &error);
    gpu_need(there && device_load(gpu->device, there, &state, sizeof state, &error), &error);
    Array x = array_noise(gpu, type, 300 * 257, 0, 91, 1);
    DropHow how = {type, gpu->device, {NULL, NULL}};
    operations_equal_row(gpu, "dropout", type, operations_differing(gpu, run_dropout, &how, &x, 1));
    how.state[0] = there, how.state[1] = &state;
    operations_equal_row(gpu, "dropout of a step", type, operations_differing(gpu, run_dropout, &how, &x, 1));
    state.attempted++;   // the host is a step ahead: other bits
    operations_seen_row(gpu, "dropout of another step",
                        operations_differing(gpu, run_dropout, &how, &x, 1) > 0);
    array_free(gpu, &x);
    device_give(gpu->device, "test", there, sizeof state);
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
        operations_equal_row(gpu, name, types[1], operations_differing(gpu, run_cast, types, arrays, 2));
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
    int64_t decayed;
} StepHow;

static FedgateSettle settle_rule(FedgateStepState *state, double *square)
{
    return (FedgateSettle){.state = state,
                           .square_sum = square,
                           .clip = 1,
                           .dynamic = true,
                           .growth = 2,
                           .backoff = 0.5,
                           .floor = 512,
                           .ceiling = 4096,
                           .growth_every = 3,
                           .hysteresis = 2};
}

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
        FedgateSettle rule = settle_rule(m->state, m->square);
        device_settle(device, &rule);
        device_adam(device, &(FedgateAdam){at[0], at[2], at[3], at[1],
                                           how->type == FEDGATE_FP32 ? NULL : at[4], how->type, COUNT,
                                           how->decayed, 0.9f, 0.999f, 1e-8f, 0.01f, m->pace, 3, m->state});
    }
}

static void steps(Gpu *gpu, FedgateType type, int64_t offset)
{
    Error error = ERROR_INIT;
    FedgateStepState state, there;
    double square;
    FedgatePace paces[3];
    StepHow how = {type, gpu->device, {{0}, {&state, paces, &square}}, offset ? COUNT : COUNT / 2};
    how.memory[0] = (StepMemory){device_take(gpu->device, "test", sizeof state, &error),
                                 device_take(gpu->device, "test", sizeof pace, &error),
                                 device_take(gpu->device, "test", sizeof square, &error)};
    Array arrays[] = {array_noise(gpu, FEDGATE_FP32, COUNT, offset, 61, 1),
                      array_noise(gpu, FEDGATE_FP32, COUNT, offset, 62, 900),
                      array_noise(gpu, FEDGATE_FP32, COUNT, 0, 63, 0.1),
                      array_noise(gpu, FEDGATE_FP32, COUNT, 0, 64, 0), array_new(gpu, type, COUNT, 0)};
    operations_equal_row(gpu, offset ? "adamw unaligned" : "adamw", type,
                         operations_differing(gpu, run_steps, &how, arrays, 5));
    gpu_need(device_copy_out(gpu->device, &there, how.memory[0].state, sizeof there, &error), &error);
    operations_equal_row(gpu, offset ? "state of the step again" : "state of the step", type,
                         memcmp(&there, &state, sizeof state) != 0);
    for (int i = 0; i < 5; i++)
        array_free(gpu, &arrays[i]);
    device_give(gpu->device, "test", how.memory[0].state, sizeof state);
    device_give(gpu->device, "test", how.memory[0].pace, sizeof pace);
    device_give(gpu->device, "test", how.memory[0].square, sizeof square);
}

// -- the decision with the sum of squares inside: gradients are small whole numbers, whose sum is exact

enum { ENDED = 3 };
typedef struct Decided {
    FedgateStepState state;
    double square;
    int64_t ended[ENDED];
} Decided;

static Decided decided_on(Device *device, const float *at, int64_t count)
{
    Error error = ERROR_INIT;
    Decided result = {.state = {.scale = 1024, .smallest = 1024, .patience = 2}},
            *there = device_take(device, "test", sizeof result, &error);
    gpu_need(there && device_load(device, there, &result, sizeof result, &error), &error);
    for (int step = 0; step < 5; step++) {
        FedgateSettle rule = settle_rule(&there->state, &there->square);
        rule.gradient = at;
        rule.gradient_count = count;
        rule.ended_ns = there->ended;
        rule.ended_count = ENDED;
        device_settle(device, &rule);
    }
    gpu_need(device_copy_out(device, &result, there, sizeof result, &error), &error);
    device_give(device, "test", there, sizeof result);
    return result;
}

static void decisions(Gpu *gpu)
{
    static const int64_t counts[] = {1, 255, 1025, 74753, 3000001};
    int64_t differ = 0, late = 0;
    for (int c = 0; c < 5; c++) {
        float *values = malloc((size_t)counts[c] * sizeof *values);
        for (int64_t i = 0; i < counts[c]; i++)
            values[i] = (float)((int)(random_unit(82, (uint64_t)i) * 7) - 3);
        Array gradient = array_of(gpu, FEDGATE_FP32, values, counts[c]);
        Decided there = decided_on(gpu->device, gradient.at, counts[c]),
                here = decided_on(gpu->cpu, values, counts[c]);
        differ += memcmp(&there.state, &here.state, sizeof here.state) != 0;
        differ += memcmp(&there.square, &here.square, sizeof here.square) != 0;
        // steps 3 and 4 lie where 0 and 1 lay, after step 2
        late += !(0 < there.ended[2] && there.ended[2] <= there.ended[0] && there.ended[0] <= there.ended[1]);
        values[counts[c] - 1] += 1;
        here = decided_on(gpu->cpu, values, counts[c]);
        operations_seen_row(gpu, "a gradient that is 1 more",
                            memcmp(&there.square, &here.square, sizeof here.square) != 0);
        array_free(gpu, &gradient);
        free(values);
    }
    gpu_row(gpu, "decision with its sum, not the cpu's bits", (double)differ, "numbers", 0);
    gpu_row(gpu, "ends of steps out of order", (double)late, "steps", 0);
}

void test_elements(Gpu *gpu)
{
    for (int t = 0; t < 3; t++) {
        FedgateType type = (FedgateType)t;
        dropouts(gpu, type);
        casts(gpu, type);
        steps(gpu, type, 0);
        steps(gpu, type, 1);
    }
    decisions(gpu);
}
