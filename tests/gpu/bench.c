// bench - steps of G1, G2 and G3 (design.md section 10) on batches that lie on the device: no feeding, so
// that what the operations themselves cost is seen; labels and rate are those of the peers. Launched one by
// one, and where the back end records, replayed, with the list of a step's operations.
// Arguments: the back end, 'cuda' when none is given; the only work; its only type.
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
    int steps, recorded;   // of a round; of one recording
} Work;
static const Work works[] = {
    {"G1", 256, {.numeric = 32, .hidden = {256, 256}, .layers = 2, .outputs = 1}, 4000, 40},
    {"G2", 8192, {.numeric = 32, .hidden = {256, 256}, .layers = 2, .outputs = 1}, 2000, 40},
    {"G3", 8192, {.numeric = 512, .hidden = {4096, 4096, 4096, 4096}, .layers = 4, .outputs = 1}, 64, 8},
};
enum { ROUNDS = 5, BATCHES = 4 };   // batches take turns, so that no cache holds them all

static const Recipe recipe = {.rate = 1e-3,
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

static int by_begin(const void *a, const void *b)
{
    const Span *x = *(const Span *const *)a, *y = *(const Span *const *)b;
    return (x->begin > y->begin) - (x->begin < y->begin);
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
        device_mark_step(network->device, i);
        network_gradient(network, &recipe, rows, rows->count, 1, NULL);
        network_update(network, &recipe);
    }
}

// FP32 is a tenth as fast.
static int round_steps(const Network *network, const Work *work)
{
    return network->type == FEDGATE_FP32 ? work->steps / 8 : work->steps;
}

// One round: the steps one by one, or as replays of a recording of some of them.
static void go_round(Network *network, const Work *work, const Rows *batches, DeviceRecording *recording)
{
    if (!recording)
        steps(network, batches, round_steps(network, work));
    for (int i = 0; recording && i < round_steps(network, work); i += work->recorded)
        device_replay(network->device, recording, i);
}

// What one step of the recording is made of: the mean of its steps, operation by operation, and how long the
// device did nothing before each.
static void print_operations(const Timeline *timeline, const Work *work)
{
    const Span *spans = timeline_spans(timeline),
               **sorted = calloc(timeline_count(timeline) + 1, sizeof *sorted);
    size_t count = 0;
    for (size_t i = 0; i < timeline_count(timeline); i++)
        if (spans[i].kind != SPAN_STEP_MARK && spans[i].kind != SPAN_HOST_WAIT)
            sorted[count++] = &spans[i];
    qsort(sorted, count, sizeof *sorted, by_begin);
    const size_t each = count / (size_t)work->recorded;
    if (each == 0 || count % (size_t)work->recorded != 0)
        printf("    %zu operations are not %d steps\n", count, work->recorded);
    for (size_t k = 0; k < each && count % (size_t)work->recorded == 0; k++) {
        double busy = 0, idle = 0;
        for (size_t i = k; i < count; i += each) {
            busy += (double)(sorted[i]->end - sorted[i]->begin);
            idle += i > 0 ? (double)(sorted[i]->begin - sorted[i - 1]->end) : 0;
        }
        printf("    %8.2f us after %6.2f idle  %s\n", busy / work->recorded / 1e3,
               idle / work->recorded / 1e3, sorted[k]->name ? sorted[k]->name : "?");
    }
    free(sorted);
}

static void observe(Network *network, const Work *work, DeviceRecording *recording)
{
    Error error = ERROR_INIT;
    FedgateTraceTrust trust = {0};
    OWNED(Timeline, timeline_free) *timeline = timeline_new(100000);
    device_trace(network->device, timeline);
    gpu_need(timeline && device_trace_begin(network->device, &error), &error);
    device_replay(network->device, recording, 0);
    gpu_need(device_trace_end(network->device, &trust, &error), &error);
    device_trace(network->device, NULL);
    if (trust.reason[0])
        printf("    the window is not to be trusted: %s\n", trust.reason);
    print_operations(timeline, work);
}

static Timed measure(Network *network, const Work *work, const Rows *batches, bool recorded)
{
    Error error = ERROR_INIT;
    double whole[ROUNDS], host[ROUNDS];
    DeviceRecording *recording = NULL;
    steps(network, batches, 2 * BATCHES);   // every plan is made
    if (recorded) {
        gpu_need(device_record_begin(network->device, &error), &error);
        steps(network, batches, work->recorded);
        recording = device_record_end(network->device, "captures", &error);
        gpu_need(recording != NULL, &error);
    }
    go_round(network, work, batches, recording);
    for (int round = 0; round < ROUNDS; round++) {
        gpu_need(device_synchronise(network->device, &error), &error);
        double begin = now_s();
        go_round(network, work, batches, recording);
        host[round] = (now_s() - begin) / round_steps(network, work);
        gpu_need(device_synchronise(network->device, &error), &error);
        whole[round] = (now_s() - begin) / round_steps(network, work);
    }
    if (recording && device_info(network->device)->traces)
        observe(network, work, recording);
    device_record_free(network->device, recording);
    return (Timed){median(whole, ROUNDS), median(host, ROUNDS)};
}

static void report(Gpu *gpu, const Work *work, const char *how, const Network *network, Timed timed)
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
                {"6 x weights x rate", "TFLOP/s",
                 6 * (double)network->layout.decayed * (double)work->rows / timed.step_s / 1e12},
                {"multiplications", "TFLOP/s", flop / timed.step_s / 1e12},
                {"bytes at least", "MB", bytes / 1e6},
                {"bandwidth at least", "GB/s", bytes / timed.step_s / 1e9}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        snprintf(name, sizeof name, "%s %s, %s: %s", work->name, device_type_name(network->type), how,
                 rows[i].what);
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
            label[r] = random_unit(200 + (uint64_t)i, (uint64_t)r) < 0.3;
        target[i] = array_of(gpu, FEDGATE_FP32, label, work->rows);
        free(label);
        batches[i] = (Rows){.numeric = x[i].at, .target = target[i].at, .count = work->rows};
    }
    report(gpu, work, "bare operations", &network, measure(&network, work, batches, false));
    if (device_info(gpu->device)->records)
        report(gpu, work, "replayed", &network, measure(&network, work, batches, true));
    double loss;
    gpu_need(network_read_loss(&network, &loss, &error), &error);
    gpu->failures += !isfinite(loss);
    for (int i = 0; i < BATCHES; i++)
        array_free(gpu, &x[i]), array_free(gpu, &target[i]);
    network_close(&network);
}

// A second argument names the only work; its only type.
int main(int argc, char **argv)
{
    if (device_pin_environment())
        execv("/proc/self/exe", argv);
    Gpu gpu;
    gpu_open(&gpu, argc > 1 ? argv[1] : "cuda");
    for (size_t i = 0; i < sizeof works / sizeof works[0]; i++)
        for (int type = FEDGATE_BF16; type >= FEDGATE_FP32; type--)
            if ((argc < 3 || strcmp(argv[2], works[i].name) == 0) &&
                (argc < 4 || strcmp(argv[3], device_type_name((FedgateType)type)) == 0))
                run(&gpu, &works[i], (FedgateType)type);
    return gpu_close(&gpu);
}
