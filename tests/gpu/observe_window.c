// observe_window - what windows say of steps that are known: every operation, cut into steps, with its
// memory.
#include "observe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SPANS = 1 << 18, WINDOW_LAUNCHES = 6 };

typedef struct Seen {
    FedgateTraceTrust trust;
    int64_t marks, kernels, copies, copy_bytes, pageable, sets, stepless, steps_least, steps_most, disorder;
    int64_t unlaunched, windows;
    double hidden, busy;   // shares of copy time under kernels, of the windows with kernels
} Seen;

static void count_span(Seen *seen, const Span *span, int64_t first, int64_t steps, int64_t *of_step)
{
    seen->kernels += span->kind == SPAN_KERNEL;
    seen->sets += span->kind == SPAN_MEMSET;
    if (span->kind == SPAN_COPY_H2D) {
        seen->copies++;
        seen->copy_bytes += span->bytes;
        seen->pageable += span->pageable;
    } else if (span->kind != SPAN_STEP_MARK && span->step < 0) {
        seen->stepless++;
    }
    seen->unlaunched += span->kind != SPAN_STEP_MARK && span->launched_ns == 0;
    if (span->kind != SPAN_STEP_MARK && span->kind != SPAN_COPY_H2D && span->step >= first &&
        span->step < first + steps)
        of_step[span->step - first]++;
}

static void judge_steps(Seen *seen, const Timeline *timeline)
{
    Error error = ERROR_INIT;
    StepOverlap *steps = NULL;
    size_t count = 0;
    TimelineTrust trust;
    int64_t copy = 0, hidden = 0, length = 0, kernel = 0;
    gpu_need(timeline_overlap(timeline, &steps, &count, &trust, &error), &error);
    for (size_t i = 0; i < count; i++) {
        copy += steps[i].copy_ns;
        hidden += steps[i].hidden_ns;
        length += steps[i].length_ns;
        kernel += steps[i].kernel_ns;
    }
    seen->windows = (int64_t)count;
    seen->hidden = copy > 0 ? (double)hidden / (double)copy : (double)NAN;
    seen->busy = length > 0 ? (double)kernel / (double)length : (double)NAN;
    if (!seen->trust.reason[0] && trust.reason[0])
        snprintf(seen->trust.reason, sizeof seen->trust.reason, "%s", trust.reason);
    free(steps);
}

// Launches in a window that begins `running` launches after the device was idle.
static Seen observe(Fed *fed, int running, const char *file)
{
    Error error = ERROR_INIT;
    Seen seen = {.steps_least = INT64_MAX};
    OWNED(Timeline, timeline_free) *timeline = timeline_new(MOST_SPANS);
    gpu_need(timeline != NULL, &error);
    fed_wait(fed);
    device_trace(fed->gpu->device, timeline);
    if (running > 0)
        fed_launch(fed, running);
    gpu_need(device_trace_begin(fed->gpu->device, &error), &error);
    const int64_t first = fed->next * fed->work->group, steps = WINDOW_LAUNCHES * fed->work->group;
    int64_t *of_step = calloc((size_t)steps, sizeof *of_step), marked = -1;
    fed_launch(fed, WINDOW_LAUNCHES);
    gpu_need(of_step && device_trace_end(fed->gpu->device, &seen.trust, &error), &error);
    device_trace(fed->gpu->device, NULL);
    for (size_t i = 0; i < timeline_count(timeline); i++) {
        const Span *span = &timeline_spans(timeline)[i];
        count_span(&seen, span, first, steps, of_step);
        if (span->kind == SPAN_STEP_MARK) {
            seen.disorder += span->step <= marked;
            seen.marks += span->step >= first && span->step < first + steps;
            marked = span->step;
        }
    }
    for (int64_t i = 0; i < steps; i++) {
        seen.steps_least = of_step[i] < seen.steps_least ? of_step[i] : seen.steps_least;
        seen.steps_most = of_step[i] > seen.steps_most ? of_step[i] : seen.steps_most;
    }
    judge_steps(&seen, timeline);
    const char *out = getenv("OUT");
    char path[512];
    if (file && out && snprintf(path, sizeof path, "%s/%s-%s.json", out, fed->work->name, file) > 0)
        gpu_need(timeline_export_chrome(timeline, "gpu_observe", path, &error), &error);
    free(of_step);
    return seen;
}

static void put(Fed *fed, const char *what, const char *how, double value, const char *unit, double bar)
{
    char name[96];
    snprintf(name, sizeof name, "%s %s: %s", fed->work->name, how, what);
    gpu_row(fed->gpu, name, value, unit, bar);
}

static void report(Fed *fed, const Seen *seen, const char *how, bool judged)
{
    const double exact = judged ? 0 : (double)NAN;
    const int64_t steps = WINDOW_LAUNCHES * fed->work->group;
    if (seen->trust.reason[0])
        printf("%s %s: not trusted: %s\n", fed->work->name, how, seen->trust.reason);
    put(fed, "doubts", how,
        (double)(seen->trust.dropped + seen->trust.zero_timestamps + seen->trust.causality +
                 (seen->trust.reason[0] != '\0')),
        "doubts", exact);
    put(fed, "steps without a mark", how, (double)(steps - seen->marks), "steps", exact);
    put(fed, "marks out of order", how, (double)seen->disorder, "marks", exact);
    put(fed, "operations of a step", how, (double)seen->steps_most, "most", NAN);
    put(fed, "operations of a step, most less least", how, (double)(seen->steps_most - seen->steps_least),
        "operations", exact);
    put(fed, "operations of no step", how, (double)seen->stepless, "operations", exact);
    put(fed, "operations without a launch", how, (double)seen->unlaunched, "operations", exact);
    put(fed, "copies missing", how, (double)(WINDOW_LAUNCHES - seen->copies), "copies", exact);
    put(fed, "bytes copied, off", how, fabs((double)(seen->copy_bytes - WINDOW_LAUNCHES * fed->slot_bytes)),
        "bytes", exact);
    put(fed, "copies of the wrong memory", how,
        (double)(fed->pageable ? seen->copies - seen->pageable : seen->pageable), "copies", exact);
    put(fed, "copy time hidden", how, seen->hidden, "ratio", NAN);
    put(fed, "kernel-busy share", how, seen->busy, "ratio", NAN);
}

void test_first_window(Fed *fed)
{
    fed->recorded = true;
    Seen seen = observe(fed, 0, NULL);
    report(fed, &seen, "recorded before the profiler started", false);
}

void test_windows(Fed *fed)
{
    fed->recorded = false;
    Seen apart = observe(fed, 0, "one-by-one");
    report(fed, &apart, "one by one", true);
    fed->recorded = true;
    Seen replayed = observe(fed, 0, "replayed");
    report(fed, &replayed, "replayed", true);
    put(fed, "operations of a step, off those one by one", "replayed",
        fabs((double)(replayed.steps_most - apart.steps_most)), "operations", 0);
    fed->pageable = true;
    Seen pageable = observe(fed, 0, NULL);
    report(fed, &pageable, "replayed, pageable", true);
    fed->pageable = false;
    Seen amid = observe(fed, 4, NULL);   // the window begins while launches are queued
    report(fed, &amid, "replayed, begun amid", false);
    put(fed, "doubts", "replayed, begun amid", amid.trust.reason[0] != '\0', "doubts", 0);
}

// -- planted faults of copies: on a device that was opened with them

typedef struct Planted {
    const char *name;
    double hidden;   // at most
    bool pageable;
} Planted;
static const Planted planted[] = {
    {"copy.pageable", 1, true}, {"copy.compute_stream", 0.2, false}, {"copy.serial", 0.2, false}};

void test_faults(Gpu *gpu, const Work *work, const char *backend)
{
#ifdef FEDGATE_FAULTS
    Device *plain = gpu->device;
    for (size_t i = 0; i < sizeof planted / sizeof planted[0]; i++) {
        static Fed fed;
        Error error = ERROR_INIT;
        char list[64];
        snprintf(list, sizeof list, "%s=1", planted[i].name);
        gpu_need(setenv("FEDGATE_FAULT", list, 1) == 0, &error);
        gpu->device = device_open(backend, 1, clock_real(), gpu->ledger, &error);
        gpu_need(gpu->device != NULL, &error);
        fed_open(&fed, gpu, work);
        fed_launch(&fed, 2);
        fed_record(&fed);
        fed.recorded = true;
        fed_launch(&fed, 8);
        Seen seen = observe(&fed, 0, planted[i].name);
        put(&fed, "doubts", planted[i].name, seen.trust.reason[0] != '\0', "doubts", 0);
        put(&fed, "copies of the wrong memory", planted[i].name,
            (double)(planted[i].pageable ? seen.copies - seen.pageable : seen.pageable), "copies", 0);
        put(&fed, "copy time hidden", planted[i].name, seen.hidden, "ratio", planted[i].hidden);
        fed_close(&fed);
        device_close(gpu->device);
        unsetenv("FEDGATE_FAULT");
    }
    gpu->device = plain;
#else
    (void)gpu, (void)work, (void)backend, (void)planted;
#endif
}
