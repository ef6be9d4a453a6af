// trace_window - spans of one sampled window from a profiler's records and from what was noted on the host.
//
// The profiler says what ran on the device (Work) and which call of the host launched it (Call), joined by a
// correlation number; the back end notes what it was doing when (Note). All times are of the host's monotonic
// clock. An operation belongs to the step that was marked last before its call; those of one replay, sorted
// by their begin, are cut by the counts of the recording, so nothing marks steps on the device. What does not
// add up is said in the trust: an operation without a call or a call without an operation is a record
// missing.
#ifndef FEDGATE_COMPUTE_TRACE_WINDOW_H
#define FEDGATE_COMPUTE_TRACE_WINDOW_H

#include <fedgate/backend_abi.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct TraceMark {   // in a recording: a step begins after `before` of its operations
    int64_t step, before;
} TraceMark;

typedef struct TraceWork {
    FedgateSpan span;   // all but launched_ns and step; stream 0 is where steps run
    uint32_t correlation;
} TraceWork;
typedef struct TraceCall {   // one that succeeded, made while nothing was captured
    int64_t begin;
    uint32_t correlation;
    const char *name;   // of the kernel it launches, else its own; static text, may be mangled
} TraceCall;

// What the back end did with the compute stream: a mark, or a replay, which has marks of its own.
typedef struct TraceNote {
    int64_t begin, end;   // of the host's call; a mark has begin = end
    int64_t step;   // of the mark, the first of a replay; < 0: what follows is of no step
    bool replay;
    const TraceMark *marks;   // of a replay, alive until the window has ended
    int64_t mark_count, operations;
} TraceNote;
typedef struct TraceCopy {   // a copy that was queued for the copy stream, from any thread
    int64_t begin, end;   // of the host's call
    int64_t step, bytes;
} TraceCopy;

typedef struct TraceWindow {
    TraceWork *works;   // in any order; sorted here, as calls are
    TraceCall *calls;
    const TraceNote *notes;   // in the order of their begin
    const TraceCopy *copies;
    size_t work_count, call_count, note_count, copy_count;
    int64_t synced_ns;   // when the host knew that everything had ended
    bool copies_before;   // copies queued before the window may have run in it, unrecorded
} TraceWindow;

// Gives every operation as a span, then a span of FEDGATE_SPAN_STEP for each step: from where its first
// operation begins to where its last one ends, or, for a mark that nothing follows, an instant at the end of
// what was before it. Steps that began while unrecorded copies may have run get none, nor does the first one
// after work of no step: the one before that work ends with its own last operation. Adds to *trust; false
// when there is no memory.
bool trace_window_spans(TraceWindow *window, void (*give)(void *context, const FedgateSpan *span),
                        void *context, FedgateTraceTrust *trust);

// Says the first doubt of several; format of printf.
void trace_doubt(FedgateTraceTrust *trust, const char *format, ...) __attribute__((format(printf, 2, 3)));

// The identifiers of a mangled name without arguments: "_ZN7cutlass6KernelIfE3runEv" is "cutlass::Kernel";
// any other name as it is.
void trace_readable_name(const char *name, char *ret_name, size_t size);

#ifdef __cplusplus
}
#endif

#endif
