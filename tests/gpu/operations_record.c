// operations_record - whole steps recorded and replayed give the bits of the same steps one by one.
#include "operations.h"

#include <fedgate/random.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../src/trainer/trainer_internal.h"

enum { ROWS = 384, MICROBATCH = 150, BATCHES = 3, REPLAYS = 4, SEED = 9 };
static const TrainShape shape = {.numeric = 5,
                                 .categorical = 2,
                                 .cardinality = {7, 4000},
                                 .embedding = {3, 8},
                                 .hidden = {64, 48},
                                 .layers = 2,
                                 .outputs = 1};
static const Recipe recipe = {.rate = 1e-2,
                              .final_ratio = 0.1,
                              .decay = 0.01,
                              .beta1 = 0.9,
                              .beta2 = 0.999,
                              .epsilon = 1e-8,
                              .clip = 1,
                              .dropout = 0.1,
                              .scale_initial = 65536,
                              .scale_growth = 3,
                              .scale_floor = 1,
                              .scale_hysteresis = 1};

typedef struct Batches {
    Array numeric, target;
    int32_t *codes;   // device
    Rows rows[BATCHES];
} Batches;
enum { CODE_COUNT = BATCHES * ROWS * 2 };

static Batches make_batches(Gpu *gpu)
{
    Error error = ERROR_INIT;
    static int32_t codes[CODE_COUNT];
    static float labels[BATCHES * ROWS];
    Batches b = {.numeric = array_noise(gpu, FEDGATE_FP32, BATCHES * ROWS * shape.numeric, 0, 200, 1.7)};
    for (int i = 0; i < CODE_COUNT; i++)
        codes[i] = (int32_t)(random_unit(201, (uint64_t)i) * (double)shape.cardinality[i % 2]);
    for (int i = 0; i < BATCHES * ROWS; i++)
        labels[i] = b.numeric.plain[i * shape.numeric] > 0;
    b.target = array_of(gpu, FEDGATE_FP32, labels, BATCHES * ROWS);
    b.codes = device_take(gpu->device, "test", sizeof codes, &error);
    gpu_need(b.codes && device_load(gpu->device, b.codes, codes, sizeof codes, &error), &error);
    for (int i = 0; i < BATCHES; i++)
        b.rows[i] = (Rows){.numeric = (const float *)b.numeric.at + i * ROWS * shape.numeric,
                           .codes = b.codes + i * ROWS * 2,
                           .target = (const float *)b.target.at + i * ROWS,
                           .count = ROWS};
    return b;
}

static void free_batches(Gpu *gpu, Batches *b)
{
    array_free(gpu, &b->numeric), array_free(gpu, &b->target);
    device_give(gpu->device, "test", b->codes, CODE_COUNT * (int64_t)sizeof(int32_t));
}

static void go(Network *network, const Batches *batches)
{
    for (int i = 0; i < BATCHES; i++) {
        device_mark_step(network->device, i);
        network_gradient(network, &recipe, &batches->rows[i], MICROBATCH, SEED, NULL);
        network_update(network, &recipe);
    }
}

// Floats of weights and moments, then the step state, after the same steps either way.
static float *trained(Gpu *gpu, const Batches *batches, FedgateType type, bool recorded, size_t *ret_bytes)
{
    Error error = ERROR_INIT;
    Network network;
    FedgateStepState step;
    gpu_need(network_open(&network, gpu->device, &shape, FEDGATE_LOSS_BINARY, type, MICROBATCH, true, "",
                          &error) &&
                 network_set_pace(&network, &recipe, BATCHES * (REPLAYS + 1), &error) &&
                 network_start(&network, &recipe, 1, &error),
             &error);
    go(&network, batches);
    DeviceRecording *recording = NULL;
    if (recorded) {
        gpu_need(device_record_begin(gpu->device, &error), &error);
        go(&network, batches);
        recording = device_record_end(gpu->device, "captures", &error);
        gpu_need(recording != NULL, &error);
    }
    for (int i = 0; i < REPLAYS; i++)
        recorded ? device_replay(gpu->device, recording, i * BATCHES) : go(&network, batches);
    const size_t floats = 3 * (size_t)network.layout.floats;
    *ret_bytes = floats * sizeof(float) + sizeof step;
    float *state = calloc(1, *ret_bytes);
    gpu_need(network_save(&network, state, &step, &error), &error);
    memcpy(state + floats, &step, sizeof step);
    gpu->failures += step.attempted != BATCHES * (REPLAYS + 1);
    device_record_free(gpu->device, recording);
    network_close(&network);
    return state;
}

void test_recordings(Gpu *gpu)
{
    if (!device_info(gpu->device)->records)
        return;
    Batches batches = make_batches(gpu);
    for (int t = 0; t < 3; t++) {
        char name[96];
        size_t bytes;
        float *one = trained(gpu, &batches, (FedgateType)t, false, &bytes),
              *replayed = trained(gpu, &batches, (FedgateType)t, true, &bytes);
        int64_t differ = 0;
        for (size_t i = 0; i < bytes; i++)
            differ += ((const char *)one)[i] != ((const char *)replayed)[i];
        snprintf(name, sizeof name, "steps replayed, %s, bytes of weights that differ",
                 device_type_name((FedgateType)t));
        gpu_row(gpu, name, (double)differ, "bytes", 0);
        free(one), free(replayed);
    }
    free_batches(gpu, &batches);
}
