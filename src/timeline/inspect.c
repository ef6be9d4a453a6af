// inspect - a stored trace, device by device: its figures, its steps and the verdict.
//
// The window of a step is cut on the device, from the first operation that a call of the host's step i gave
// to that of step i + 1; the last one ends with the trace. Our own traces carry the marks of the device
// itself.
#include "inspect_internal.h"

#include <fedgate/text.h>
#include <stdlib.h>
#include <string.h>

enum { GAP_LEAST_NS = 5000, GAP_LONG_NS = 1000 * 1000 };

const char *const memory_names[MEMORY_KIND_COUNT] = {
    [MEMORY_UNKNOWN] = "unknown", [MEMORY_PINNED] = "pinned", [MEMORY_PAGEABLE] = "pageable"};
const char *const copy_names[INSPECT_COPY_KINDS] = {"h2d", "d2h", "d2d"};

static int compare_op(const void *a, const void *b)
{
    const TraceOp *x = a;
    const TraceOp *y = b;
    if (x->device != y->device) {
        return x->device < y->device ? -1 : 1;
    }
    if (x->begin != y->begin) {
        return x->begin < y->begin ? -1 : 1;
    }
    return (x->end > y->end) - (x->end < y->end);
}

static int compare_range(const void *a, const void *b)
{
    const TraceRange *x = a;
    const TraceRange *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

static void sort_store(TraceStore *store)
{
    if (store->ops.count > 0) {
        qsort(store->ops.items, store->ops.count, sizeof(TraceOp), compare_op);
    }
    TraceList *lists[] = {&store->steps, &store->waits, &store->marks};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        if (lists[i]->count > 0) {
            qsort(lists[i]->items, lists[i]->count, sizeof(TraceRange), compare_range);
        }
    }
    calls_sort(store);
}

// The host's step in which this was given: the last that begins at or before it and has not ended.
static size_t step_at(const TraceRange *steps, size_t count, int64_t at_ns)
{
    size_t low = 0;
    size_t high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (steps[middle].begin <= at_ns) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low > 0 && at_ns < steps[low - 1].end ? low - 1 : count;
}

// One mark a step, where its first operation begins; it ends with the next mark, the last with the trace.
static void mark_steps(const TraceStore *store, const DeviceReport *device, const TraceRange *steps,
                       size_t count, int64_t *first_ns, Timeline *timeline)
{
    for (size_t i = 0; i < count; i++) {
        first_ns[i] = INT64_MAX;
    }
    for (size_t i = 0; i < device->op_count; i++) {
        const TraceOp *op = &device->ops[i];
        const TraceCall *call = calls_find(store, device->process, op);
        size_t step = call == NULL ? count : step_at(steps, count, call->begin);
        if (step < count && op->begin < first_ns[step]) {
            first_ns[step] = op->begin;
        }
    }
    int64_t end = device->span_begin_ns + device->span_ns;
    for (size_t i = count; i-- > 0;) {
        if (first_ns[i] != INT64_MAX) {
            timeline_add(
                timeline,
                &(Span){.kind = SPAN_STEP_MARK, .begin = first_ns[i], .end = end, .step = (int64_t)i});
            end = first_ns[i];
        }
    }
}

static void add_ops(const TraceStore *store, DeviceReport *device, Timeline *timeline)
{
    for (size_t i = 0; i < device->op_count; i++) {
        const TraceOp *op = &device->ops[i];
        const TraceCall *call = calls_find(store, device->process, op);
        bool by_ratio = false;
        bool pageable = op->kind == SPAN_COPY_H2D && copy_is_pageable(store, device->process, op, &by_ratio);
        device->pageable_by_ratio += by_ratio;
        timeline_add(timeline, &(Span){.kind = (SpanKind)op->kind,
                                       .stream = op->stream,
                                       .begin = op->begin,
                                       .end = op->end,
                                       .launched_ns = call != NULL ? call->begin : op->launched_ns,
                                       .step = -1,
                                       .bytes = op->bytes,
                                       .pageable = pageable});
        if (op->kind == SPAN_COPY_H2D) {
            device->h2d_bytes += op->bytes;
            device->pageable_bytes += pageable ? op->bytes : 0;
            device->pageable_ns = sum_ns(device->pageable_ns, pageable ? op->end - op->begin : 0);
        }
    }
}

static void count_ops(DeviceReport *device)
{
    int64_t last = INT64_MIN;
    for (size_t i = 0; i < device->op_count; i++) {
        const TraceOp *op = &device->ops[i];
        device->kernels += op->kind == SPAN_KERNEL;
        device->communication += op->communication;
        device->empty += op->kind == SPAN_KERNEL && op->begin == op->end;
        device->memsets += op->kind == SPAN_MEMSET;
        last = op->end > last ? op->end : last;
        if (op->kind >= SPAN_COPY_H2D && op->kind <= SPAN_COPY_D2D) {
            CopyTotal *total = &device->totals[op->kind - SPAN_COPY_H2D][op->memory];
            device->copies++;
            total->count++;
            total->bytes += op->bytes;
            total->ns = sum_ns(total->ns, op->end - op->begin);
        }
    }
    device->span_begin_ns = device->op_count > 0 ? device->ops[0].begin : 0;
    device->span_ns = device->op_count > 0 && last > device->span_begin_ns ? last - device->span_begin_ns : 0;
}

static int compare_stream(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a;
    int32_t y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static bool count_streams(DeviceReport *device)
{
    int32_t *streams = malloc((device->op_count + 1) * sizeof *streams);
    if (streams == NULL) {
        return false;
    }
    for (size_t i = 0; i < device->op_count; i++) {
        streams[i] = device->ops[i].stream;
    }
    qsort(streams, device->op_count, sizeof *streams, compare_stream);
    for (size_t i = 0; i < device->op_count; i++) {
        device->streams += i == 0 || streams[i] != streams[i - 1];
    }
    free(streams);
    return true;
}

static bool own_kernels(DeviceReport *device)
{
    device->own_kernels.intervals = malloc((device->op_count + 1) * sizeof(Interval));
    if (device->own_kernels.intervals == NULL) {
        return false;
    }
    size_t count = 0;
    for (size_t i = 0; i < device->op_count; i++) {
        if (device->ops[i].kind == SPAN_KERNEL && !device->ops[i].communication) {
            device->own_kernels.intervals[count++] = (Interval){device->ops[i].begin, device->ops[i].end};
        }
    }
    device->own_kernels.count = interval_union(device->own_kernels.intervals, count);
    return true;
}

// Figures of the whole trace, from the sets.
static void measure_sets(DeviceReport *device)
{
    OverlapWork *work = &device->work;
    const IntervalSet *busy = &work->busy;
    device->kernel_ns = interval_length(work->kernels.intervals, work->kernels.count);
    device->own_kernel_ns = interval_length(device->own_kernels.intervals, device->own_kernels.count);
    device->busy_ns = interval_length(busy->intervals, busy->count);
    device->h2d_ns = interval_length(work->copies.intervals, work->copies.count);
    device->h2d_hidden_ns = interval_overlap(work->copies.intervals, work->copies.count,
                                             work->kernels.intervals, work->kernels.count);
    device->h2d_hidden_own_ns = interval_overlap(work->copies.intervals, work->copies.count,
                                                 device->own_kernels.intervals, device->own_kernels.count);
    for (size_t i = 1; i < busy->count; i++) {
        int64_t gap = busy->intervals[i].begin - busy->intervals[i - 1].end;
        device->gaps++;
        device->gap_longest_ns = gap > device->gap_longest_ns ? gap : device->gap_longest_ns;
        device->gaps_long += gap >= GAP_LONG_NS;
        device->gaps_long_ns += gap >= GAP_LONG_NS ? gap : 0;
    }
    if (device->step_count == 0) {   // without steps the least length of a gap is not a share of one
        work->starved_least_ns = GAP_LEAST_NS;
        work_find_gaps(work, (Interval){device->span_begin_ns, device->span_begin_ns + device->span_ns},
                       GAP_LEAST_NS);
    }
}

static void measure_host_step(DeviceReport *device, const TraceRange *range, HostStep *ret)
{
    OverlapWork *work = &device->work;
    Interval window = {range->begin, range->end};
    size_t copies = interval_clip(work->copies.intervals, work->copies.count, window, work->scratch_a);
    size_t kernels = interval_clip(work->kernels.intervals, work->kernels.count, window, work->scratch_b);
    *ret = (HostStep){
        .index = range->index,
        .length_ns = range->end - range->begin,
        .copy_ns = interval_length(work->scratch_a, copies),
        .hidden_ns = interval_overlap(work->scratch_a, copies, work->scratch_b, kernels),
    };
    ret->busy_ns = set_inside(&work->busy, window, work->scratch_a);
    ret->wait_ns = set_inside(&work->waits, window, work->scratch_a);
}

// Steps of the host; and the windows on the device get the numbers and the waits of their host's steps.
static bool measure_steps(DeviceReport *device, const TraceRange *steps, size_t count)
{
    device->host_steps = malloc((count + 1) * sizeof *device->host_steps);
    if (device->host_steps == NULL) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        measure_host_step(device, &steps[i], &device->host_steps[i]);
    }
    device->host_step_count = count;
    for (size_t i = 0; i < device->step_count && count > 0; i++) {
        const HostStep *host = &device->host_steps[device->steps[i].index];
        device->steps[i].index = host->index;
        device->steps[i].wait_ns = host->wait_ns;
    }
    return true;
}

static size_t owned(const TraceList *list, int owner, TraceRange *to)
{
    const TraceRange *ranges = list->items;
    size_t count = 0;
    for (size_t i = 0; i < list->count; i++) {
        if (ranges[i].owner == owner) {
            to[count++] = ranges[i];
        }
    }
    return count;
}

typedef struct Scratch {
    TraceRange *steps;
    int64_t *first_ns;
    Timeline *timeline;
} Scratch;

static bool measure_device(const TraceStore *store, int number, DeviceReport *device, Scratch *scratch,
                           Error *error)
{
    const TraceRange *ranges = store->waits.items;
    const TraceRange *marks = store->marks.items;
    size_t count = owned(&store->steps, device->process, scratch->steps);
    count_ops(device);
    add_ops(store, device, scratch->timeline);
    for (size_t i = 0; i < store->waits.count; i++) {
        if (ranges[i].owner == device->process) {
            timeline_add(
                scratch->timeline,
                &(Span){.kind = SPAN_HOST_WAIT, .begin = ranges[i].begin, .end = ranges[i].end, .step = -1});
            device->waits_marked = true;
        }
    }
    for (size_t i = 0; i < store->marks.count; i++) {
        if (marks[i].owner == number) {
            count = 0;   // the device's own marks go first
            timeline_add(scratch->timeline, &(Span){.kind = SPAN_STEP_MARK,
                                                    .begin = marks[i].begin,
                                                    .end = marks[i].end,
                                                    .step = marks[i].index});
        }
    }
    mark_steps(store, device, scratch->steps, count, scratch->first_ns, scratch->timeline);
    if (!timeline_measure(scratch->timeline, &device->work, &device->steps, &device->step_count,
                          &device->trust, error)) {
        return false;
    }
    if (!own_kernels(device) || !count_streams(device) || !measure_steps(device, scratch->steps, count)) {
        return FAIL(error, ERROR_MEMORY, 0, "out of memory for %zu operations", device->op_count);
    }
    measure_sets(device);
    return true;
}

static bool inspect_device(const TraceStore *store, int number, const OverlapLimits *limits,
                           DeviceReport *device, Error *error)
{
    size_t most = store->steps.count + 1;
    size_t spans = device->op_count + store->steps.count + store->waits.count + store->marks.count + 1;
    Scratch scratch = {malloc(most * sizeof *scratch.steps), malloc(most * sizeof *scratch.first_ns),
                       timeline_new(spans)};
    bool ok = scratch.steps != NULL && scratch.first_ns != NULL && scratch.timeline != NULL;
    if (!ok) {
        (void)FAIL(error, ERROR_MEMORY, 0, "out of memory for %zu operations", device->op_count);
    }
    device->process = calls_process(store, device->ops, device->op_count);
    ok = ok && measure_device(store, number, device, &scratch, error) &&
         inspect_judge(store, limits, device, error) && causes_of_gaps(store, device, error) &&
         causes_of_copies(store, device, error);
    free(scratch.steps);
    free(scratch.first_ns);
    timeline_free(scratch.timeline);
    return ok;
}

static bool inspect_all(Inspection *inspection, Error *error)
{
    TraceStore *store = &inspection->store;
    sort_store(store);
    size_t count = store->devices > 0 ? store->devices : 1;   // a trace of no device still has a verdict
    inspection->devices = calloc(count, sizeof *inspection->devices);
    if (inspection->devices == NULL) {
        return FAIL(error, ERROR_MEMORY, 0, "out of memory for %zu devices", count);
    }
    const TraceOp *ops = store->ops.items;
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        DeviceReport *device = &inspection->devices[inspection->device_count++];
        device->number = i < store->devices ? store->device_numbers[i] : -1;
        device->ops = ops == NULL ? NULL : ops + at;
        while (at < store->ops.count && ops[at].device == i) {
            at++;
            device->op_count++;
        }
        if (!inspect_device(store, (int)i, &inspection->limits, device, error)) {
            return false;
        }
    }
    return true;
}

static Inspection *inspection_new(const char *path, const OverlapLimits *limits, Error *error)
{
    Inspection *inspection = calloc(1, sizeof *inspection);
    char *copy = text_duplicate(path);
    if (inspection == NULL || copy == NULL) {
        free(inspection);
        free(copy);
        (void)FAIL(error, ERROR_MEMORY, 0, "out of memory for a trace");
        return NULL;
    }
    inspection->path = copy;
    inspection->limits = *limits;
    store_init(&inspection->store);
    return inspection;
}

static Inspection *inspection_of(Inspection *inspection, bool read, Error *error)
{
    if (read && inspect_all(inspection, error)) {
        return inspection;
    }
    inspection_free(inspection);
    return NULL;
}

Inspection *trace_inspect(const char *path, const OverlapLimits *limits, Error *error)
{
    Inspection *inspection = inspection_new(path, limits, error);
    return inspection_of(inspection, inspection != NULL && trace_read(path, &inspection->store, error),
                         error);
}

Inspection *trace_inspect_bytes(const char *bytes, size_t length, size_t block, const OverlapLimits *limits,
                                Error *error)
{
    Inspection *inspection = inspection_new("memory", limits, error);
    return inspection_of(
        inspection, inspection != NULL && trace_read_bytes(bytes, length, block, &inspection->store, error),
        error);
}

size_t inspection_count(const Inspection *inspection)
{
    return inspection->device_count;
}

OverlapWord inspection_word(const Inspection *inspection, size_t device)
{
    return inspection->devices[device].word;
}

void inspection_free(Inspection *inspection)
{
    if (inspection == NULL) {
        return;
    }
    for (size_t i = 0; i < inspection->device_count; i++) {
        DeviceReport *device = &inspection->devices[i];
        work_done(&device->work);
        free(device->own_kernels.intervals);
        free(device->starved);
        free(device->exposed);
        free(device->steps);
        free(device->host_steps);
    }
    free(inspection->devices);
    store_done(&inspection->store);
    free(inspection->path);
    free(inspection);
}
