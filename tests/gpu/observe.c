// observe - what a sampled window says, what observing costs, what memory is counted, how a hang is seen.
// Arguments: the back end, 'cuda' when none is given; the only work.
//
// The order matters: first a hang, in a process of its own, before CUDA is started here; then steps before
// the profiler was ever started, then a window over recordings older than it, then all else.
#include "observe.h"

#include <fedgate/random.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const Work works[] = {
    {"G1", 256, {.numeric = 32, .hidden = {256, 256}, .layers = 2, .outputs = 1}, 64, 40},
    {"G2", 8192, {.numeric = 32, .hidden = {256, 256}, .layers = 2, .outputs = 1}, 16, 40},
};
enum { WORKS = sizeof works / sizeof works[0] };

static const Recipe recipe = {.rate = 1e-4,
                              .final_ratio = 1,
                              .beta1 = 0.9,
                              .beta2 = 0.999,
                              .epsilon = 1e-8,
                              .clip = 1,
                              .scale_initial = 1024,
                              .scale_floor = 1,
                              .scale_hysteresis = 1};

// -- a fed network

static void fill(Fed *fed, int slot)
{
    const int64_t rows = fed->work->rows, width = fed->work->shape.numeric;
    for (int step = 0; step < fed->work->group; step++) {
        float *x = fed->pinned[slot] + step * fed->step_floats, *target = x + rows * width;
        uint64_t key = (uint64_t)(slot * fed->work->group + step);
        for (int64_t i = 0; i < rows * width; i++)
            x[i] = (float)(3.4 * random_unit(key, (uint64_t)i) - 1.7);
        for (int64_t r = 0; r < rows; r++)
            target[r] = x[r * width] > x[r * width + 1];
    }
    memcpy(fed->heap[slot], fed->pinned[slot], (size_t)fed->slot_bytes);
}

void fed_open(Fed *fed, Gpu *gpu, const Work *work)
{
    Error error = ERROR_INIT;
    *fed = (Fed){.gpu = gpu, .work = work, .step_floats = work->rows * (work->shape.numeric + 1)};
    fed->slot_bytes = fed->step_floats * work->group * (int64_t)sizeof(float);
    gpu_need(network_open(&fed->network, gpu->device, &work->shape, FEDGATE_LOSS_BINARY, FEDGATE_BF16,
                          work->rows, true, "", &error) &&
                 network_set_pace(&fed->network, &recipe, 1, &error),
             &error);
    for (int i = 0; i < OBSERVE_SLOTS; i++) {
        fed->pinned[i] = device_take_pinned(gpu->device, "rings", fed->slot_bytes, &error);
        fed->batch[i] = device_take(gpu->device, "rings", fed->slot_bytes, &error);
        fed->copied[i] = device_event_new(gpu->device, &error);
        fed->freed[i] = device_event_new(gpu->device, &error);
        fed->heap[i] = malloc((size_t)fed->slot_bytes);
        gpu_need(fed->pinned[i] && fed->batch[i] && fed->copied[i] && fed->freed[i] && fed->heap[i], &error);
        fill(fed, i);
    }
    fed_start(fed);
}

void fed_close(Fed *fed)
{
    Device *device = fed->gpu->device;
    for (int i = 0; i < OBSERVE_SLOTS; i++) {
        device_record_free(device, fed->recording[i]);
        device_event_free(fed->copied[i]);
        device_event_free(fed->freed[i]);
        device_give_pinned(device, "rings", fed->pinned[i], fed->slot_bytes);
        device_give(device, "rings", fed->batch[i], fed->slot_bytes);
        free(fed->heap[i]);
    }
    network_close(&fed->network);
}

void fed_start(Fed *fed)
{
    Error error = ERROR_INIT;
    fed_wait(fed);
    gpu_need(network_start(&fed->network, &recipe, 1, &error), &error);
    fed->next = 0;
}

void fed_wait(Fed *fed)
{
    Error error = ERROR_INIT;
    gpu_need(device_synchronise(fed->gpu->device, &error), &error);
}

static void steps(Fed *fed, int slot, int64_t first)
{
    const int64_t rows = fed->work->rows;
    for (int i = 0; i < fed->work->group; i++) {
        const float *x = fed->batch[slot] + i * fed->step_floats;
        const Rows batch = {.numeric = x, .target = x + rows * fed->work->shape.numeric, .count = rows};
        device_mark_step(fed->gpu->device, first + i);
        network_gradient(&fed->network, &recipe, &batch, rows, 1, NULL);
        network_update(&fed->network, &recipe);
    }
}

void fed_record(Fed *fed)
{
    Error error = ERROR_INIT;
    fed_wait(fed);
    for (int i = 0; i < OBSERVE_SLOTS; i++) {
        device_record_free(fed->gpu->device, fed->recording[i]);
        gpu_need(device_record_begin(fed->gpu->device, &error), &error);
        steps(fed, i, 0);
        fed->recording[i] = device_record_end(fed->gpu->device, "captures", &error);
        gpu_need(fed->recording[i] != NULL, &error);
    }
}

static void copy(Fed *fed, int64_t launch)
{
    Error error = ERROR_INIT;
    const int slot = (int)(launch % OBSERVE_SLOTS);
    const float *from = fed->pageable ? fed->heap[slot] : fed->pinned[slot];
    gpu_need(device_copy_in(fed->gpu->device, fed->batch[slot], from, fed->slot_bytes,
                            launch * fed->work->group, fed->pageable,
                            launch >= OBSERVE_SLOTS ? fed->freed[slot] : NULL, fed->copied[slot], &error),
             &error);
}

void fed_launch(Fed *fed, int launches)
{
    static const int64_t LIMIT_NS = 30000000000;
    Device *device = fed->gpu->device;
    Error error = ERROR_INIT;
    const int64_t last = fed->next + launches - 1;
    copy(fed, fed->next);
    for (int64_t launch = fed->next; launch <= last; launch++) {
        const int slot = (int)(launch % OBSERVE_SLOTS);
        if (launch - fed->next >= OBSERVE_AHEAD)
            gpu_need(
                device_event_wait(fed->freed[(launch - OBSERVE_AHEAD) % OBSERVE_SLOTS], LIMIT_NS, &error),
                &error);
        device_await(device, fed->copied[slot]);
        if (fed->recorded)
            device_replay(device, fed->recording[slot], launch * fed->work->group);
        else
            steps(fed, slot, launch * fed->work->group);
        device_record_compute(device, fed->freed[slot]);
        if (launch < last)
            copy(fed, launch + 1);
    }
    fed->next = last + 1;
}

// -- the same bits, replayed or one by one

static float *run_from_start(Fed *fed, bool recorded)
{
    Error error = ERROR_INIT;
    FedgateStepState step;
    float *state = malloc((size_t)fed->network.layout.floats * 3 * sizeof *state);
    fed->recorded = recorded;
    fed_start(fed);
    fed_launch(fed, 5);
    gpu_need(state && network_save(&fed->network, state, &step, &error), &error);
    return state;
}

static void test_bits(Fed *fed)
{
    char name[96];
    float *one = run_from_start(fed, false), *two = run_from_start(fed, true);
    int64_t differ = 0, changed = 0;
    for (int64_t i = 0; i < fed->network.layout.floats * 3; i++) {
        differ += memcmp(&one[i], &two[i], sizeof one[i]) != 0;
        changed += one[i] != 0;
    }
    snprintf(name, sizeof name, "%s: state that differs, replayed against one by one", fed->work->name);
    gpu_row(fed->gpu, name, changed > 0 ? (double)differ : INFINITY, "floats", 0);
    free(one);
    free(two);
}

typedef struct Costs {
    double never[2], idle[2], traced[2];   // us of a step: one by one, replayed
} Costs;

static void put_costs(const Fed *fed, const Costs *costs)
{
    static const char *const how[] = {"one by one", "replayed"};
    char name[96];
    for (int k = 0; k < 2; k++) {
        const struct {
            const char *what;
            double us;
        } rows[] = {{"profiler never started", costs->never[k]},
                    {"profiler started, no window", costs->idle[k]},
                    {"in a window", costs->traced[k]}};
        for (int i = 0; i < 3; i++) {
            snprintf(name, sizeof name, "%s %s: step, %s", fed->work->name, how[k], rows[i].what);
            gpu_row(fed->gpu, name, rows[i].us, "us", NAN);
        }
        snprintf(name, sizeof name, "%s %s: cost of a started profiler", fed->work->name, how[k]);
        gpu_row(fed->gpu, name, 100 * (costs->idle[k] / costs->never[k] - 1), "%", NAN);
        snprintf(name, sizeof name, "%s %s: cost of a window", fed->work->name, how[k]);
        gpu_row(fed->gpu, name, 100 * (costs->traced[k] / costs->never[k] - 1), "%", NAN);
    }
}

int main(int argc, char **argv)
{
    if (device_pin_environment())
        execv("/proc/self/exe", argv);
    static Fed fed[WORKS];
    static Costs costs[WORKS];
    char hang[700], slot[700];
    const char *backend = argc > 1 ? argv[1] : "cuda";
    test_hang(backend, hang, sizeof hang);
    test_slot(backend, slot, sizeof slot);
    Gpu gpu;
    gpu_open(&gpu, backend);
    printf("%s\n%s\n", hang, slot);
    test_memory(&gpu, "opened");
    if (!device_info(gpu.device)->records || !device_info(gpu.device)->traces) {
        puts("a back end without recordings or windows: nothing to observe");
        return gpu_close(&gpu);
    }
    const int from = argc > 2 && strcmp(argv[2], works[1].name) == 0, to = argc > 2 ? from + 1 : WORKS;
    for (int i = from; i < to; i++) {
        fed_open(&fed[i], &gpu, &works[i]);
        for (int k = 0; k < 2; k++) {
            fed[i].recorded = k == 1;
            if (k == 1)
                fed_record(&fed[i]);
            costs[i].never[k] = fed_step_us(&fed[i], false);
        }
        test_bits(&fed[i]);
    }
    test_memory(&gpu, "trained");
    for (int i = from; i < to; i++)
        test_first_window(&fed[i]);
    test_memory(&gpu, "profiler started");
    for (int i = from; i < to; i++) {
        fed_record(&fed[i]);
        test_windows(&fed[i]);
        for (int k = 0; k < 2; k++) {
            fed[i].recorded = k == 1;
            costs[i].idle[k] = fed_step_us(&fed[i], false);
            costs[i].traced[k] = fed_step_us(&fed[i], true);
        }
        put_costs(&fed[i], &costs[i]);
    }
    test_memory(&gpu, "windows taken");
    for (int i = from; i < to; i++)
        fed_close(&fed[i]);
    test_faults(&gpu, &works[from], backend);
    return gpu_close(&gpu);
}
