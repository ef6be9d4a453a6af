// inspect_calls - which call of the host gave which operation, and what the calls cost.
#include "inspect_internal.h"

#include <stdlib.h>

enum { LARGE_BYTES = 1024 * 1024, MEDIUM_NS = 100 * 1000 };

const char *const sync_names[SYNC_NONE] = {
    [SYNC_STREAM] = "stream", [SYNC_DEVICE] = "device", [SYNC_EVENT] = "event", [SYNC_CONTEXT] = "context"};

static int compare_key(const TraceCall *call, int process, int64_t correlation, int64_t begin)
{
    if (call->process != process) {
        return call->process < process ? -1 : 1;
    }
    if (call->correlation != correlation) {
        return call->correlation < correlation ? -1 : 1;
    }
    return (call->begin > begin) - (call->begin < begin);
}

static int compare_call(const void *a, const void *b)
{
    const TraceCall *other = b;
    return compare_key(a, other->process, other->correlation, other->begin);
}

void calls_sort(TraceStore *store)
{
    if (store->calls.count > 0) {
        qsort(store->calls.items, store->calls.count, sizeof(TraceCall), compare_call);
    }
}

static bool is_of(const TraceCall *call, int process, const TraceOp *op)
{
    return op->correlation >= 0 && call->process == process && call->correlation == op->correlation;
}

const TraceCall *calls_find(const TraceStore *store, int process, const TraceOp *op)
{
    const TraceCall *calls = store->calls.items;
    size_t low = 0;
    size_t high = store->calls.count;
    while (low < high) {   // the first call behind what is looked for
        size_t middle = low + (high - low) / 2;
        if (compare_key(&calls[middle], process, op->correlation, op->begin) <= 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low > 0 && is_of(&calls[low - 1], process, op)) {
        return &calls[low - 1];
    }
    return low < store->calls.count && is_of(&calls[low], process, op) ? &calls[low] : NULL;
}

// Whose calls explain most of the operations; where no call is recorded, the only process, if there is one.
int calls_process(const TraceStore *store, const TraceOp *ops, size_t count)
{
    int best = store->processes == 1 ? 0 : -1;
    size_t most = 0;
    for (size_t process = 0; process < store->processes && store->processes > 1; process++) {
        size_t explained = 0;
        for (size_t i = 0; i < count; i++) {
            const TraceCall *call = calls_find(store, (int)process, &ops[i]);
            explained += call != NULL && call->begin <= ops[i].begin;
        }
        if (explained > most) {
            most = explained;
            best = (int)process;
        }
    }
    return best;
}

bool copy_is_pageable(const TraceStore *store, int process, const TraceOp *op, bool *ret_by_ratio)
{
    *ret_by_ratio = false;
    if (op->memory == MEMORY_UNKNOWN && op->bytes >= LARGE_BYTES) {
        // An asynchronous copy returns at once; one whose call takes half of its time or more was staged.
        const TraceCall *call = calls_find(store, process, op);
        *ret_by_ratio = call != NULL && call->end - call->begin >= (op->end - op->begin + 1) / 2;
    }
    return op->memory == MEMORY_PAGEABLE || *ret_by_ratio;
}

// The middle one, or the mean of the middle two; reorders them.
static double middle_of(int64_t *values, size_t count)
{
    int64_t lower = median_ns(values, count);   // leaves them in order
    return ((double)lower + (double)values[count / 2]) / 2;
}

static void add_large(const TraceOp *op, const TraceCall *call, CallFigures *ret, int64_t *call_ns,
                      int64_t *copy_ns)
{
    int64_t ns = call->end - call->begin;
    call_ns[ret->large] = ns;
    copy_ns[ret->large] = op->end - op->begin;
    ret->large++;
    ret->large_call_ns = sum_ns(ret->large_call_ns, ns);
    ret->large_copy_ns = sum_ns(ret->large_copy_ns, op->end - op->begin);
    ret->large_call_longest_ns = ns > ret->large_call_longest_ns ? ns : ret->large_call_longest_ns;
}

static void add_to_host(const TraceOp *op, const TraceCall *call, CallFigures *ret)
{
    int64_t ns = call->end - call->begin;
    ret->d2h++;
    ret->d2h_inside += op->begin >= call->begin && op->end <= call->end;
    ret->d2h_call_longest_ns = ns > ret->d2h_call_longest_ns ? ns : ret->d2h_call_longest_ns;
}

static void measure_copies(const TraceStore *store, DeviceReport *device, int64_t *call_ns, int64_t *copy_ns)
{
    CallFigures *ret = &device->calls;
    for (size_t i = 0; i < device->op_count; i++) {
        const TraceOp *op = &device->ops[i];
        const TraceCall *call = calls_find(store, device->process, op);
        bool to_device = op->kind == SPAN_COPY_H2D;
        ret->uncorrelated += call == NULL;
        if (to_device && op->end - op->begin >= MEDIUM_NS) {
            int64_t hidden =
                set_inside(&device->work.kernels, (Interval){op->begin, op->end}, device->work.scratch_a);
            ret->medium++;
            ret->medium_exposed += hidden < (op->end - op->begin + 1) / 2;
        }
        if (call == NULL || (!to_device && op->kind != SPAN_COPY_D2H)) {
            continue;
        }
        ret->async_copies += call->async;
        ret->async_pageable += call->async && op->memory == MEMORY_PAGEABLE;
        if (!to_device) {
            add_to_host(op, call, ret);
            continue;
        }
        ret->h2d++;
        ret->h2d_inside += op->begin >= call->begin && op->end <= call->end;
        if (op->bytes >= LARGE_BYTES) {
            add_large(op, call, ret, call_ns, copy_ns);
        }
    }
    if (ret->large > 0) {
        ret->large_call_median_ns = middle_of(call_ns, (size_t)ret->large);
        ret->large_copy_median_ns = middle_of(copy_ns, (size_t)ret->large);
    }
}

// Whether the host's allocations at this time fall into the steps that are judged.
static bool is_judged(const DeviceReport *device, int64_t at_ns)
{
    return device->warmup < device->step_count && at_ns >= device->steps[device->warmup].begin_ns;
}

static void measure_calls(const TraceStore *store, DeviceReport *device)
{
    const TraceCall *calls = store->calls.items;
    const TraceRange *waits = store->waits.items;
    for (size_t i = 0; i < store->calls.count; i++) {
        if (calls[i].process != device->process) {
            continue;
        }
        int64_t ns = calls[i].end - calls[i].begin;
        if (calls[i].sync != SYNC_NONE) {
            device->calls.sync_count[calls[i].sync]++;
            device->calls.sync_ns[calls[i].sync] = sum_ns(device->calls.sync_ns[calls[i].sync], ns);
        }
        if (calls[i].class == CALL_MEMORY && is_judged(device, calls[i].begin)) {
            device->calls.memory_count++;
            device->calls.memory_ns = sum_ns(device->calls.memory_ns, ns);
        }
    }
    for (size_t i = 0; i < store->waits.count; i++) {
        if (waits[i].owner == device->process) {
            device->calls.wait_count++;
            device->calls.wait_ns = sum_ns(device->calls.wait_ns, waits[i].end - waits[i].begin);
        }
    }
}

bool calls_measure(const TraceStore *store, DeviceReport *device, Error *error)
{
    int64_t *call_ns = malloc((device->op_count + 1) * sizeof *call_ns);
    int64_t *copy_ns = malloc((device->op_count + 1) * sizeof *copy_ns);
    bool ok = call_ns != NULL && copy_ns != NULL;
    if (ok) {
        measure_copies(store, device, call_ns, copy_ns);
        measure_calls(store, device);
    } else {
        (void)FAIL(error, ERROR_MEMORY, 0, "out of memory for the calls of %zu operations", device->op_count);
    }
    free(call_ns);
    free(copy_ns);
    return ok;
}
