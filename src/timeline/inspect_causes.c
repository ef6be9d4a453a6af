// inspect_causes - why the device starved, and why a copy was not hidden.
//
// A gap is laid to what the host did for at least half of it; when that is nothing known, the launch of the
// operation that ends it says whether the host was late or the device waited.
#include "inspect_internal.h"

#include <stdlib.h>

enum { LISTED_NS = 100 * 1000, LISTED_BYTES = 1024 * 1024 };

const char *const gap_cause_names[GAP_CAUSE_COUNT] = {
    [GAP_INPUT_WAIT] = "input_wait", [GAP_HOST_SYNC] = "host_sync",     [GAP_COPY_CALL] = "copy_call",
    [GAP_ALLOCATION] = "allocation", [GAP_LAUNCH_LATE] = "launch_late", [GAP_DEVICE_WAIT] = "device_wait",
    [GAP_UNKNOWN] = "unknown",
};
const char *const exposed_cause_names[EXPOSED_UNKNOWN + 1] = {
    [EXPOSED_PAGEABLE] = "pageable",
    [EXPOSED_SAME_STREAM] = "same_stream",
    [EXPOSED_NOTHING_QUEUED] = "nothing_queued",
    [EXPOSED_AWAITED] = "kernels_waited",
    [EXPOSED_UNKNOWN] = "unknown",
};

enum { HOST_CAUSES = GAP_ALLOCATION + 1 };
static const CallClass class_of[HOST_CAUSES] = {[GAP_INPUT_WAIT] = CALL_OTHER,
                                                [GAP_HOST_SYNC] = CALL_SYNC,
                                                [GAP_COPY_CALL] = CALL_COPY,
                                                [GAP_ALLOCATION] = CALL_MEMORY};

// When the host of this device was inside such calls; of the batch waits the timeline has the set.
static bool collect_calls(const TraceStore *store, int process, CallClass class, IntervalSet *ret)
{
    const TraceCall *calls = store->calls.items;
    size_t count = 0;
    for (size_t i = 0; i < store->calls.count; i++) {
        count += calls[i].process == process && calls[i].class == class;
    }
    ret->intervals = malloc((count + 1) * sizeof *ret->intervals);
    if (ret->intervals == NULL) {
        return false;
    }
    count = 0;
    for (size_t i = 0; i < store->calls.count; i++) {
        if (calls[i].process == process && calls[i].class == class) {
            ret->intervals[count++] = (Interval){calls[i].begin, calls[i].end};
        }
    }
    ret->count = interval_union(ret->intervals, count);
    return true;
}

static size_t first_from(const DeviceReport *device, int64_t at_ns)
{
    size_t low = 0;
    size_t high = device->op_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (device->ops[middle].begin < at_ns) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

// When the host gave this operation; 0 unknown.
static int64_t given_ns(const TraceStore *store, const DeviceReport *device, const TraceOp *op)
{
    const TraceCall *call = calls_find(store, device->process, op);
    return call != NULL ? call->begin : op->launched_ns;
}

static GapCause cause_by_launch(const TraceStore *store, const DeviceReport *device, Interval gap)
{
    size_t next = first_from(device, gap.end);
    int64_t given = next < device->op_count ? given_ns(store, device, &device->ops[next]) : 0;
    if (given == 0) {
        return GAP_UNKNOWN;
    }
    return given - gap.begin >= (gap.end - gap.begin) / 2 ? GAP_LAUNCH_LATE : GAP_DEVICE_WAIT;
}

static GapCause cause_of_gap(const TraceStore *store, const DeviceReport *device, const IntervalSet *host,
                             Interval gap)
{
    int64_t longest = 0;
    GapCause cause = GAP_UNKNOWN;
    for (int i = 0; i < HOST_CAUSES; i++) {
        int64_t covered = set_inside(&host[i], gap, device->work.scratch_a);
        if (covered > longest) {
            longest = covered;
            cause = (GapCause)i;
        }
    }
    return longest > 0 && longest >= (gap.end - gap.begin + 1) / 2 ? cause
                                                                   : cause_by_launch(store, device, gap);
}

static int compare_longer(const void *a, const void *b)
{
    const Interval *x = a;
    const Interval *y = b;
    int64_t left = x->end - x->begin;
    int64_t right = y->end - y->begin;
    return (left < right) - (left > right);
}

static int compare_gap(const void *a, const void *b)
{
    const StarvedGap *x = a;
    const StarvedGap *y = b;
    return (x->begin_ns > y->begin_ns) - (x->begin_ns < y->begin_ns);
}

bool causes_of_gaps(const TraceStore *store, DeviceReport *device, Error *error)
{
    IntervalSet host[HOST_CAUSES] = {[GAP_INPUT_WAIT] = device->work.waits};
    bool ok = true;
    for (int i = GAP_HOST_SYNC; i < HOST_CAUSES && ok; i++) {
        ok = collect_calls(store, device->process, class_of[i], &host[i]);
    }
    IntervalSet *gaps = &device->work.gaps;
    size_t listed = gaps->count < INSPECT_LISTED_MOST ? gaps->count : INSPECT_LISTED_MOST;
    device->starved = malloc((listed + 1) * sizeof *device->starved);
    ok = ok && device->starved != NULL;
    if (ok) {
        device->starved_ns = interval_length(gaps->intervals, gaps->count);
        device->starved_count = gaps->count;
        if (gaps->count > listed) {
            qsort(gaps->intervals, gaps->count, sizeof *gaps->intervals, compare_longer);
        }
        for (size_t i = 0; i < listed; i++) {
            Interval gap = gaps->intervals[i];
            device->starved[i] =
                (StarvedGap){gap.begin, gap.end - gap.begin, cause_of_gap(store, device, host, gap)};
        }
        qsort(device->starved, listed, sizeof *device->starved, compare_gap);
    } else {
        (void)FAIL(error, ERROR_MEMORY, 0, "out of memory for the causes of %zu gaps", gaps->count);
    }
    for (int i = GAP_HOST_SYNC; i < HOST_CAUSES; i++) {
        free(host[i].intervals);
    }
    return ok;
}

// -- copies

// The stream that held most kernel time.
static int32_t kernel_stream(const DeviceReport *device)
{
    enum { STREAMS = 64 };
    int32_t stream[STREAMS];
    int64_t ns[STREAMS];
    size_t count = 0;
    size_t best = 0;
    for (size_t i = 0; i < device->op_count; i++) {
        const TraceOp *op = &device->ops[i];
        size_t at = 0;
        while (at < count && stream[at] != op->stream) {
            at++;
        }
        if (op->kind != SPAN_KERNEL || at == STREAMS) {
            continue;
        }
        if (at == count) {
            stream[count] = op->stream;
            ns[count++] = 0;
        }
        ns[at] = sum_ns(ns[at], op->end - op->begin);
        best = ns[at] > ns[best] ? at : best;
    }
    return count == 0 ? INT32_MIN : stream[best];
}

static ExposedCause cause_of_copy(const TraceStore *store, const DeviceReport *device, const TraceOp *copy,
                                  int32_t kernels)
{
    bool by_ratio;
    if (copy_is_pageable(store, device->process, copy, &by_ratio)) {
        return EXPOSED_PAGEABLE;
    }
    if (copy->stream == kernels) {
        return EXPOSED_SAME_STREAM;
    }
    size_t next = first_from(device, copy->begin);
    while (next < device->op_count && device->ops[next].kind != SPAN_KERNEL) {
        next++;
    }
    int64_t given = next < device->op_count ? given_ns(store, device, &device->ops[next]) : 0;
    if (given == 0) {
        return EXPOSED_UNKNOWN;
    }
    return given > copy->begin ? EXPOSED_NOTHING_QUEUED : EXPOSED_AWAITED;
}

static int compare_exposed(const void *a, const void *b)
{
    const ExposedCopy *x = a;
    const ExposedCopy *y = b;
    return (x->exposed_ns < y->exposed_ns) - (x->exposed_ns > y->exposed_ns);
}

bool causes_of_copies(const TraceStore *store, DeviceReport *device, Error *error)
{
    size_t most = (size_t)device->totals[0][MEMORY_UNKNOWN].count +
                  (size_t)device->totals[0][MEMORY_PINNED].count +
                  (size_t)device->totals[0][MEMORY_PAGEABLE].count;
    device->exposed = malloc((most + 1) * sizeof *device->exposed);
    if (device->exposed == NULL) {
        return FAIL(error, ERROR_MEMORY, 0, "out of memory for the causes of %zu copies", most);
    }
    int32_t kernels = kernel_stream(device);
    for (size_t i = 0; i < device->op_count; i++) {
        const TraceOp *op = &device->ops[i];
        if (op->kind != SPAN_COPY_H2D) {
            continue;
        }
        int64_t length = op->end - op->begin;
        int64_t exposed = length - set_inside(&device->work.kernels, (Interval){op->begin, op->end},
                                              device->work.scratch_a);
        if (length < LISTED_NS && op->bytes < LISTED_BYTES) {
            device->small_copies++;
            device->small_exposed_ns = sum_ns(device->small_exposed_ns, exposed);
        } else if (exposed > 0) {
            device->exposed[device->exposed_count++] =
                (ExposedCopy){op->begin,
                              length,
                              exposed,
                              op->bytes,
                              op->stream,
                              (MemoryKind)op->memory,
                              cause_of_copy(store, device, op, kernels)};
        }
    }
    qsort(device->exposed, device->exposed_count, sizeof *device->exposed, compare_exposed);
    return true;
}
