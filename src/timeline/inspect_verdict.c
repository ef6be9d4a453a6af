// inspect_verdict - trust, warm-up and the sustained rule over the steps of one device; and why in words.
#include "inspect_internal.h"

#include <fedgate/text.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static const double WAIT_MOST = 0.05, SLOW_TIMES = 1.25;

static void add_line(char (*lines)[INSPECT_TEXT], size_t *count, const char *format, ...) PRINTF_LIKE(3, 4);
static void add_line(char (*lines)[INSPECT_TEXT], size_t *count, const char *format, ...)
{
    if (*count < INSPECT_REASONS) {
        va_list arguments;
        va_start(arguments, format);
        (void)vsnprintf(lines[*count], INSPECT_TEXT, format, arguments);
        va_end(arguments);
        (*count)++;
    }
}
#define NOTE(device, ...)  add_line((device)->notes, &(device)->note_count, __VA_ARGS__)
#define DOUBT(device, ...) add_line((device)->reasons, &(device)->reason_count, __VA_ARGS__)

static void judge_trust(const TraceStore *store, DeviceReport *device)
{
    device->trust.dropped += store->dropped;
    if (device->trust.reason[0] != '\0') {
        DOUBT(device, "%s", device->trust.reason);
    }
    if (store->dropped > 0) {
        DOUBT(device, "%lld events that are needed could not be read, or are beyond the limits",
              (long long)store->dropped);
    }
    if (store->directionless > 0) {
        DOUBT(device, "%lld copies do not say from where to where", (long long)store->directionless);
    }
    if (device->op_count == 0 && store->calls.count > 0) {
        DOUBT(device,
              "%zu calls of the host and no operation of a device: another profiler may have held the device",
              store->calls.count);
    }
    if (store->processes > 1 && device->process < 0 && device->op_count > 0) {
        DOUBT(device, "which of %zu processes drives the device cannot be told", store->processes);
    }
}

// Allocations in the first half that the second half does not know are warm-up still.
static void find_warmup(const TraceStore *store, DeviceReport *device, const int64_t *lengths)
{
    const TraceCall *calls = store->calls.items;
    size_t half = device->step_count / 2;
    device->warmup = timeline_warmup(lengths, device->step_count);
    if (half == 0) {
        return;
    }
    size_t settled = device->warmup;
    for (size_t i = 0; i < store->calls.count; i++) {
        if (calls[i].process != device->process || calls[i].class != CALL_MEMORY ||
            calls[i].begin < device->steps[0].begin_ns) {
            continue;
        }
        if (calls[i].begin >= device->steps[half].begin_ns) {
            return;
        }
        for (size_t step = half; step > settled; step--) {
            if (calls[i].begin >= device->steps[step - 1].begin_ns) {
                settled = step;
            }
        }
    }
    device->warmup = settled;
}

static void put_series(const DeviceReport *device, double *to, size_t count, OverlapSeries *ret)
{
    const StepOverlap *steps = device->steps + device->warmup;
    double *series[7];
    for (size_t k = 0; k < 7; k++) {
        series[k] = to + k * count;
    }
    for (size_t i = 0; i < count; i++) {
        const int64_t values[7] = {steps[i].length_ns,     steps[i].copy_ns,    steps[i].hidden_ns,
                                   steps[i].kernel_ns,     steps[i].starved_ns, steps[i].h2d_bytes,
                                   steps[i].pageable_bytes};
        for (size_t k = 0; k < 7; k++) {
            series[k][i] = (double)values[k];
        }
    }
    *ret =
        (OverlapSeries){series[0], series[1], series[2], series[3], series[4], series[5], series[6], count};
}

static void note_input(DeviceReport *device)
{
    double wait = 0;
    double length = 0;
    for (size_t i = 0; i < device->host_step_count; i++) {
        wait += (double)device->host_steps[i].wait_ns;
        length += (double)device->host_steps[i].length_ns;
    }
    if (device->waits_marked && wait > WAIT_MOST * length) {
        NOTE(device, "starved of input: the host waits for its batch for %.2f %% of its steps",
             wait / length * 100);
    }
    if (device->h2d_bytes > 0 && device->pageable_bytes > 0) {
        NOTE(device, "%.2f %% of the bytes to the device come from pageable memory%s",
             (double)device->pageable_bytes / (double)device->h2d_bytes * 100,
             device->pageable_by_ratio > 0 ? ", as the time of their calls shows" : "");
    }
}

static int compare_double(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

// Steps longer than 1.25 x the median; of the host where it marks them, as launches run ahead.
static void note_slow(DeviceReport *device, double *scratch)
{
    size_t count = device->host_step_count > 0 ? device->host_step_count : device->step_count;
    char list[96] = "";
    size_t length = 0;
    size_t slow = 0;
    for (size_t i = 0; i < count; i++) {
        scratch[i] = (double)(device->host_step_count > 0 ? device->host_steps[i].length_ns
                                                          : device->steps[i].length_ns);
    }
    double *sorted = scratch + count;
    for (size_t i = 0; i < count; i++) {
        sorted[i] = scratch[i];
    }
    qsort(sorted, count, sizeof *sorted, compare_double);
    for (size_t i = 0; i < count; i++) {
        if (scratch[i] > SLOW_TIMES * sorted[(count - 1) / 2]) {
            int64_t index =
                device->host_step_count > 0 ? device->host_steps[i].index : device->steps[i].index;
            slow++;
            int added = slow > 8 ? 0
                                 : snprintf(list + length, sizeof list - length, "%s#%lld",
                                            slow > 1 ? ", " : "", (long long)index);
            length += added > 0 && (size_t)added < sizeof list - length ? (size_t)added : 0;
        }
    }
    if (slow > 0) {
        NOTE(device, "%zu of %zu steps take more than %.2f medians: %.80s%s", slow, count, SLOW_TIMES, list,
             slow > 8 ? "..." : "");
    }
}

// Traces of sampled windows: what lies between them is idle in the figures of the whole, and was not
// recorded.
static void note_windows(DeviceReport *device)
{
    int64_t covered = 0;
    for (size_t i = 0; i < device->step_count; i++) {
        covered = sum_ns(covered, device->steps[i].length_ns);
    }
    if (device->step_count > 0 && device->host_step_count == 0 && covered < device->span_ns / 2) {
        NOTE(device,
             "the steps cover %.2f %% of the span; idle counts what lies between, which was not recorded",
             (double)covered / (double)device->span_ns * 100);
    }
}

static void note_host(DeviceReport *device)
{
    if (device->calls.memory_count > 0) {
        NOTE(device, "host memory calls in the steps after warm-up: %lld, %.3f ms",
             (long long)device->calls.memory_count, (double)device->calls.memory_ns / 1e6);
    }
    if (device->calls.d2h_inside > 0) {
        NOTE(device, "%lld of %lld copies to the host held the host up, the longest call %.3f ms",
             (long long)device->calls.d2h_inside, (long long)device->calls.d2h,
             (double)device->calls.d2h_call_longest_ns / 1e6);
    }
}

static void add_rule(Text *text, const OverlapRuling *ruling, OverlapRule rule)
{
    text_add_format(text, "%s%s is %.2f %%, %s %.2f %%", text->length > 0 ? "; " : "",
                    overlap_rules[rule].what, ruling->value[rule] * 100,
                    overlap_rules[rule].at_least ? "must be at least" : "may be at most",
                    ruling->limit[rule] * 100);
}

static void say_ruling(const DeviceReport *device, const OverlapLimits *limits, Text *text)
{
    const OverlapRuling *ruling = &device->ruling;
    if (ruling->few) {
        text_add_format(text, "%zu of %zu steps after warm-up hide %.2f %% of their copy time: %d steps %s",
                        ruling->reached, ruling->steps, limits->floor * 100, OVERLAP_LEAST_STEPS,
                        ruling->word == OVERLAP_NOT_SUSTAINED ? "could no longer pass" : "are needed");
        return;
    }
    if (ruling->word == OVERLAP_SUSTAINED) {
        text_add_format(
            text,
            "%.2f %% of copy time is hidden, %zu of %zu steps after warm-up reach %.2f %%; kernels run "
            "%.2f %% of the time",
            ruling->hidden_share * 100, ruling->reached, ruling->steps, limits->floor * 100,
            ruling->kernel_share * 100);
        if (ruling->copying < ruling->steps) {
            text_add_format(text, "; %zu of the steps hold copies, exposed for %.2f %% of the time",
                            ruling->copying, ruling->exposed_share * 100);
        }
    }
    for (int rule = 0; rule < OVERLAP_RULE_COUNT; rule++) {
        if (!overlap_holds(ruling, (OverlapRule)rule)) {
            add_rule(text, ruling, (OverlapRule)rule);
        }
    }
}

static OverlapWord word_of(const DeviceReport *device)
{
    if (device->reason_count > 0) {
        return OVERLAP_UNTRUSTED;
    }
    if (device->totals[0][MEMORY_UNKNOWN].count + device->totals[0][MEMORY_PINNED].count +
            device->totals[0][MEMORY_PAGEABLE].count ==
        0) {
        return OVERLAP_NO_COPIES;
    }
    return device->step_count == 0 ? OVERLAP_INCONCLUSIVE : device->ruling.word;
}

static void say_why(const DeviceReport *device, const OverlapLimits *limits, Text *text)
{
    switch (device->word) {
    case OVERLAP_UNTRUSTED:
        for (size_t i = 0; i < device->reason_count; i++) {
            text_add_format(text, "%s%s", i > 0 ? "; " : "", device->reasons[i]);
        }
        return;
    case OVERLAP_NO_COPIES:
        text_add(text, device->op_count == 0 ? "no operation of a device is recorded"
                       : device->step_count == 0 || device->h2d_ns == 0
                           ? "nothing was copied to the device"
                           : "nothing was copied to the device after warm-up");
        return;
    default:
        break;
    }
    if (device->step_count == 0) {
        text_add(text, "steps are not marked, and none are invented");
    } else {
        say_ruling(device, limits, text);
    }
    for (size_t i = 0; i < device->note_count && device->word == OVERLAP_NOT_SUSTAINED; i++) {
        text_add_format(text, "; %s", device->notes[i]);
    }
}

bool inspect_judge(const TraceStore *store, const OverlapLimits *limits, DeviceReport *device, Error *error)
{
    size_t most = device->step_count > device->host_step_count ? device->step_count : device->host_step_count;
    double *numbers = malloc((9 * most + 1) * sizeof *numbers);
    int64_t *lengths = calloc(most + 1, sizeof *lengths);
    bool ok = numbers != NULL && lengths != NULL;
    if (ok) {
        for (size_t i = 0; i < device->step_count; i++) {
            lengths[i] = device->steps[i].length_ns;
        }
        find_warmup(store, device, lengths);
        size_t count = device->step_count - device->warmup;
        OverlapSeries series;
        put_series(device, numbers, count, &series);
        overlap_judge(&series, limits, numbers + 7 * count, &device->ruling);
        ok = calls_measure(store, device, error);
    } else {
        (void)FAIL(error, ERROR_MEMORY, 0, "out of memory for %zu steps", most);
    }
    if (ok) {
        judge_trust(store, device);
        note_input(device);
        note_slow(device, numbers);
        note_host(device);
        note_windows(device);
        device->word = word_of(device);
        SCOPED_TEXT text = {0};
        text_init(&text, sizeof device->reason - 1);
        say_why(device, limits, &text);
        (void)snprintf(device->reason, sizeof device->reason, "%s", text_string(&text));
    }
    free(numbers);
    free(lengths);
    return ok;
}
