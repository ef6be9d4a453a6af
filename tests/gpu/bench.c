// bench - steps of G1, G2 and G3 (design.md section 10) on batches that lie on the device: no feeding, no
// captured graph, so that what the operations themselves cost is seen. Argument: the back end, 'cuda' when
// none is given.
#include "gpu.h"

#include <fedgate/random.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../src/trainer/trainer_internal.h"

typedef struct Work {
    const char *name;
    int64_t rows;
    TrainShape shape;
    int steps;
} Work;
static const Work works[] = {
    {"G1", 256, {.numeric = 32, .hidden = {256, 256}, .layers = 2, .outputs = 1}, 2000},
    {"G2", 8192, {.numeric = 32, .hidden = {256, 256}, .layers = 2, .outputs = 1}, 1000},
    {"G3", 8192, {.numeric = 512, .hidden = {4096, 4096, 4096, 4096}, .layers = 4, .outputs = 1}, 40},
};
enum { ROUNDS = 7, BATCHES = 4 };   // batches take turns, so that no cache holds them all

static const Recipe recipe = {.rate = 1e-4,
                              .final_ratio = 1,
                              .beta1 = 0.9,
                              .beta2 = 0.999,
                              .epsilon = 1e-8,
                              .clip = 1,
                              .scale_initial = 1024,
                              .scale_floor = 1,
                              .scale_hysteresis = 1};

typedef struct Timed {
    double step_s, launch_s;   // medians: of a step, of the host's part of it
} Timed;

static double now_s(void)
{
    return (double)clock_monotonic_ns(clock_real()) / 1e9;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, by_size);
    return values[count / 2];
}

static void steps(Network *network, const Rows *batches, int count)
{
    for (int i = 0; i < count; i++) {
        const Rows *rows = &batches[i % BATCHES];
        network_gradient(network, &recipe, rows, rows->count, 1, i);
        network_update(network, &recipe);
    }
}

static Timed measure(Network *network, const Rows *batches, int count)
{
    Error error = ERROR_INIT;
    double whole[ROUNDS], host[ROUNDS];
    steps(network, batches, count / 10 + 3);
    for (int round = 0; round < ROUNDS; round++) {
        gpu_need(device_synchronise(network->device, &error), &error);
        double begin = now_s();
        steps(network, batches, count);
        host[round] = (now_s() - begin) / count;
        gpu_need(device_synchronise(network->device, &error), &error);
        whole[round] = (now_s() - begin) / count;
    }
    return (Timed){median(whole, ROUNDS), median(host, ROUNDS)};
}

static void report(Gpu *gpu, const Work *work, const char *type, const Network *network, Timed timed)
{
    char name[96];
    double flop = network_flop(network, work->rows, false) + network_flop(network, work->rows, true);
    // least that must move besides the multiplications: AdamW reads 4 and writes 3 floats a weight, and the
    // pass
    double bytes = network_bytes(network, work->rows, false) + network_bytes(network, work->rows, true) +
                   (double)network->layout.floats * 30;
    const struct {
        const char *what, *unit;
        double value;
    } rows[] = {{"step", "us", timed.step_s * 1e6},
                {"step, host's part", "us", timed.launch_s * 1e6},
                {"rate", "samples/s", (double)work->rows / timed.step_s},
                {"multiplications", "TFLOP/s", flop / timed.step_s / 1e12},
                {"bytes at least", "MB", bytes / 1e6},
                {"bandwidth at least", "GB/s", bytes / timed.step_s / 1e9}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        snprintf(name, sizeof name, "%s %s, bare operations: %s", work->name, type, rows[i].what);
        gpu_row(gpu, name, rows[i].value, rows[i].unit, NAN);
    }
}

static void run(Gpu *gpu, const Work *work, FedgateType type)
{
    Error error = ERROR_INIT;
    Network network;
    Array x[BATCHES], target[BATCHES];
    Rows batches[BATCHES];
    gpu_need(network_open(&network, gpu->device, &work->shape, FEDGATE_LOSS_BINARY, type, work->rows, true,
                          "", &error) &&
                 network_set_pace(&network, &recipe, 1, &error) &&
                 network_start(&network, &recipe, 1, &error),
             &error);
    for (int i = 0; i < BATCHES; i++) {
        x[i] = array_noise(gpu, FEDGATE_FP32, work->rows * work->shape.numeric, 0, 100 + (uint64_t)i, 1.7);
        float *label = malloc((size_t)work->rows * sizeof *label);
        for (int64_t r = 0; r < work->rows; r++)
            label[r] = x[i].plain[r * work->shape.numeric] > x[i].plain[r * work->shape.numeric + 1];
        target[i] = array_of(gpu, FEDGATE_FP32, label, work->rows);
        free(label);
        batches[i] = (Rows){.numeric = x[i].at, .target = target[i].at, .count = work->rows};
    }
    report(gpu, work, device_type_name(type), &network, measure(&network, batches, work->steps));
    double loss;
    gpu_need(network_read_loss(&network, &loss, &error), &error);
    gpu->failures += !isfinite(loss);
    for (int i = 0; i < BATCHES; i++)
        array_free(gpu, &x[i]), array_free(gpu, &target[i]);
    network_close(&network);
}

// A second argument names the only work.
int main(int argc, char **argv)
{
    if (device_pin_environment())
        execv("/proc/self/exe", argv);
    Gpu gpu;
    gpu_open(&gpu, argc > 1 ? argv[1] : "cuda");
    for (size_t i = 0; i < sizeof works / sizeof works[0]; i++)
        for (int type = FEDGATE_BF16; type >= FEDGATE_FP32; type--)
            if (argc < 3 || strcmp(argv[2], works[i].name) == 0)
                run(&gpu, &works[i], (FedgateType)type);
    return gpu_close(&gpu);
}
