// inspect_internal.h - what a stored trace says of each device, and who writes it down.
#ifndef FEDGATE_INSPECT_INTERNAL_H
#define FEDGATE_INSPECT_INTERNAL_H

#include "timeline_internal.h"
#include "trace_internal.h"

enum { INSPECT_LISTED_MOST = 1000, INSPECT_REASONS = 8, INSPECT_TEXT = 200, INSPECT_COPY_KINDS = 3 };

// Spans of a hostile trace may be so long that a sum of some overflows; it then stays at the top.
static inline int64_t sum_ns(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

typedef struct CopyTotal {
    int64_t count, bytes, ns;   // ns: a sum, for bandwidth
} CopyTotal;

typedef enum GapCause {
    GAP_INPUT_WAIT,   // the host waited for its batch
    GAP_HOST_SYNC,   // it waited for the device
    GAP_COPY_CALL,   // it was inside a call that copies: staging from pageable memory
    GAP_ALLOCATION,
    GAP_LAUNCH_LATE,   // it did something else, and gave the next operation too late
    GAP_DEVICE_WAIT,   // the next operation had been given, and waited on the device
    GAP_UNKNOWN,
    GAP_CAUSE_COUNT
} GapCause;
typedef struct StarvedGap {
    int64_t begin_ns, length_ns;
    GapCause cause;
} StarvedGap;

typedef enum ExposedCause {
    EXPOSED_PAGEABLE,   // staged through the driver, which holds the host up as well
    EXPOSED_SAME_STREAM,   // on the stream of the kernels
    EXPOSED_NOTHING_QUEUED,   // the kernel behind it was given only after it had begun
    EXPOSED_AWAITED,   // kernels were queued and began only behind it
    EXPOSED_UNKNOWN
} ExposedCause;
typedef struct ExposedCopy {
    int64_t begin_ns, length_ns, exposed_ns, bytes;
    int32_t stream;
    MemoryKind memory;
    ExposedCause cause;
} ExposedCopy;

typedef struct HostStep {
    int64_t index, length_ns, copy_ns, hidden_ns, busy_ns, wait_ns;
} HostStep;

typedef struct CallFigures {
    int64_t sync_count[SYNC_NONE], sync_ns[SYNC_NONE];
    int64_t wait_count, wait_ns, memory_count, memory_ns;   // memory: inside steps after warm-up
    // Host-to-device copies of at least 1 MiB and their calls.
    int64_t large, large_call_ns, large_copy_ns, large_call_longest_ns;
    double large_call_median_ns, large_copy_median_ns;
    // ... inside: the device interval lies inside the call; of copies to the host that one was blocked
    int64_t h2d, h2d_inside, d2h, d2h_inside, d2h_call_longest_ns;
    int64_t async_copies, async_pageable;   // of host copies by a call named ...Async
    int64_t uncorrelated;   // operations without a call
    int64_t medium, medium_exposed;   // host-to-device copies of at least 100 us; less than half hidden
} CallFigures;

typedef struct DeviceReport {
    int64_t number;   // as the trace numbers it; -1 it does not
    const TraceOp *ops;   // of this device, by begin
    size_t op_count;
    int process;   // whose calls drive it; -1 none
    OverlapWork work;
    IntervalSet own_kernels;   // without communication
    // What the figures are of: the whole trace.
    int64_t kernels, communication, empty, copies, memsets, streams;
    int64_t span_begin_ns, span_ns, kernel_ns, own_kernel_ns, busy_ns;
    int64_t h2d_ns, h2d_hidden_ns, h2d_hidden_own_ns, h2d_bytes, pageable_ns, pageable_bytes;
    int64_t pageable_by_ratio;   // copies of unknown memory that were found pageable by their calls' time
    CopyTotal totals[INSPECT_COPY_KINDS][MEMORY_KIND_COUNT];   // SPAN_COPY_H2D on
    int64_t gaps, gap_longest_ns, gaps_long, gaps_long_ns;   // all of them; from 1 ms on
    StarvedGap *starved;
    size_t starved_count;
    int64_t starved_ns;   // of all
    ExposedCopy *exposed;
    size_t exposed_count;
    int64_t small_copies, small_exposed_ns;   // those not listed
    StepOverlap *steps;   // on the device; index is the step's number
    bool waits_marked;
    size_t step_count, warmup;
    HostStep *host_steps;
    size_t host_step_count;
    CallFigures calls;
    OverlapRuling ruling;
    OverlapWord word;
    TimelineTrust trust;
    char reasons[INSPECT_REASONS][INSPECT_TEXT];   // why it cannot be trusted
    size_t reason_count;
    char notes[INSPECT_REASONS][INSPECT_TEXT];   // what else a person should know
    size_t note_count;
    char reason[768];
} DeviceReport;

struct Inspection {
    char *path;
    TraceStore store;
    OverlapLimits limits;
    DeviceReport *devices;
    size_t device_count;
};

extern const char *const gap_cause_names[GAP_CAUSE_COUNT];
extern const char *const exposed_cause_names[EXPOSED_UNKNOWN + 1];
extern const char *const memory_names[MEMORY_KIND_COUNT];
extern const char *const copy_names[INSPECT_COPY_KINDS];
extern const char *const sync_names[SYNC_NONE];

// -- inspect_calls.c
void calls_sort(TraceStore *store);   // by process, correlation, begin
// The call that gave this operation; NULL: none. Of several with one correlation the last before it.
const TraceCall *calls_find(const TraceStore *store, int process, const TraceOp *op);
int calls_process(const TraceStore *store, const TraceOp *ops, size_t count);   // that drives a device; -1
WARN_UNUSED bool calls_measure(const TraceStore *store, DeviceReport *device, Error *error);
bool copy_is_pageable(const TraceStore *store, int process, const TraceOp *op, bool *ret_by_ratio);

// -- inspect_causes.c
WARN_UNUSED bool causes_of_gaps(const TraceStore *store, DeviceReport *device, Error *error);
WARN_UNUSED bool causes_of_copies(const TraceStore *store, DeviceReport *device, Error *error);

// -- inspect_verdict.c
WARN_UNUSED bool inspect_judge(const TraceStore *store, const OverlapLimits *limits, DeviceReport *device,
                               Error *error);

#endif
