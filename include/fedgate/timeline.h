// timeline.h - what ran on the device when: spans, steps, overlap. Integer nanoseconds, half-open intervals
// [begin, end).
//
// busy is a union over streams, never a sum; hidden = |U(copies) n U(kernels)| / |U(copies)|. Step windows
// are cut on the device: from the first device operation launched in step i to that of i + 1; a prefetched
// copy counts in the step in which it runs. The same arithmetic judges every producer: the cpu back end's
// staging thread, CUPTI windows, imported traces. A SPAN_STEP_MARK begins where the first device operation of
// its step begins; the window ends at the mark of step + 1 or, when there is none, at the mark's own end
// (begin = end: the last step has no window).
#ifndef FEDGATE_TIMELINE_H
#define FEDGATE_TIMELINE_H

#include <fedgate/error.h>
#include <fedgate/json.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Interval {
    int64_t begin, end;
} Interval;   // ns; begin <= end

// Sorted disjoint union in place; returns the new count. Zero-length intervals vanish.
size_t interval_union(Interval *intervals, size_t count);
int64_t interval_length(const Interval *sorted_disjoint, size_t count);
int64_t interval_overlap(const Interval *a, size_t a_count, const Interval *b,
                         size_t b_count);   // both unions
size_t interval_clip(const Interval *from, size_t count, Interval window,
                     Interval *ret_clipped);   // from sorted disjoint

typedef enum SpanKind {
    SPAN_KERNEL,
    SPAN_COPY_H2D,
    SPAN_COPY_D2H,
    SPAN_COPY_D2D,
    SPAN_MEMSET,
    SPAN_STEP_MARK,
    SPAN_HOST_WAIT,
    SPAN_KIND_COUNT
} SpanKind;
typedef struct Span {
    SpanKind kind;
    int32_t stream;
    int64_t begin, end;   // device clock, ns
    int64_t launched_ns;   // host time of the launch on the same clock; 0 unknown
    int64_t step;   // step whose launch it was; -1 unknown
    int64_t bytes;   // copies
    bool pageable;   // copies: host side not pinned
    const char *name;   // borrowed text that outlives the timeline; may be NULL
} Span;

typedef struct Timeline Timeline;   // append-only, thread-safe, bounded

Timeline *timeline_new(size_t maximum_spans);   // spans beyond are dropped and counted
void timeline_free(Timeline *timeline);
OWNED_RELEASE(Timeline, timeline_free)
void timeline_add(Timeline *timeline, const Span *span);
size_t timeline_count(const Timeline *timeline);
const Span *timeline_spans(const Timeline *timeline);   // in order of adding; valid until the next add
int64_t timeline_dropped(const Timeline *timeline);

// Overlap per step. All arrays [steps]; host-side spans (SPAN_HOST_WAIT) give wait_ns.
typedef struct StepOverlap {
    int64_t index, begin_ns, length_ns;
    int64_t copy_ns, hidden_ns;   // union of h2d copies in the window, part under kernels
    int64_t kernel_ns, busy_ns;   // unions: kernels; all operations
    int64_t wait_ns;   // host wait for the batch
    int64_t starved_ns;   // gaps without device work of at least max(5 us, 2 % of the median step), also
                          // across windows
    int64_t h2d_bytes, pageable_bytes;
} StepOverlap;
typedef struct TimelineTrust {
    int64_t dropped, zero_timestamps, causality;
    char reason[128];
} TimelineTrust;   // reason empty = trusted
// Windows from the step marks, by begin (a step without mark gets no window). Caller frees *ret_steps with
// free(). Nobody adds meanwhile.
WARN_UNUSED bool timeline_overlap(const Timeline *timeline, StepOverlap **ret_steps, size_t *ret_count,
                                  TimelineTrust *ret_trust, Error *error);

// First step after warm-up: at least 3, at most half of the steps; the first from which the running median of
// step length stays within 10 % of the median of the second half. Pure.
size_t timeline_warmup(const int64_t *length_ns, size_t steps);

// -- the sustained rule: one piece of arithmetic for the evidence of a night and for a stored trace. Pure.
typedef struct OverlapLimits {
    double floor;   // share of copy time under kernels that a step must reach
    double steps;   // share of the steps that must reach it
    double starved, pageable;   // most of the time without device work, of the bytes from pageable memory
} OverlapLimits;
typedef struct OverlapSeries {   // [count] each, steps after warm-up, in step order; ns and bytes
    const double *length, *copy, *hidden, *kernel, *starved, *bytes, *pageable;
    size_t count;
} OverlapSeries;
typedef enum OverlapRule {
    OVERLAP_STEPS,   // steps that hide their copies; one that exposes under 1 % of its length does
    OVERLAP_BOUND,   // lower 95 % bound of the mean hidden share
    OVERLAP_BULK,   // when 1 % of the time or more is exposed: of the steps with copies those that hide them
    OVERLAP_STARVED,   // time without device work; a step's length counts as at most 10 medians
    OVERLAP_PAGEABLE,
    OVERLAP_TREND,   // fall of the hidden share over the run that cannot be chance
    OVERLAP_RULE_COUNT
} OverlapRule;
typedef enum OverlapWord {
    OVERLAP_SUSTAINED,
    OVERLAP_NOT_SUSTAINED,
    OVERLAP_INCONCLUSIVE,   // under OVERLAP_LEAST_STEPS steps, and failure is not certain
    OVERLAP_NO_COPIES,
    OVERLAP_UNTRUSTED
} OverlapWord;
enum { OVERLAP_LEAST_STEPS = 20 };
typedef struct OverlapRuling {
    OverlapWord word;   // one of the first four
    double value[OVERLAP_RULE_COUNT], limit[OVERLAP_RULE_COUNT];   // what is not finite never holds
    size_t n[OVERLAP_RULE_COUNT];   // steps behind each value
    bool few;   // value[OVERLAP_STEPS] is then the best that enough steps could still reach
    size_t steps, reached, copying;   // steps, those at the floor, those with copies
    double hidden_share, kernel_share, exposed_share;   // of copy time; of time; of time
} OverlapRuling;
extern const struct OverlapRuleInfo {
    const char *what;   // as in "<what> is 93.00 %"
    bool at_least;
} overlap_rules[OVERLAP_RULE_COUNT];
const char *overlap_word(OverlapWord word);
bool overlap_holds(const OverlapRuling *ruling, OverlapRule rule);
// Time of all steps, none of which counts for more than 10 medians. scratch: count numbers.
double overlap_time(const double *length, size_t count, double *scratch);
// scratch: 2 x series->count numbers.
void overlap_judge(const OverlapSeries *series, const OverlapLimits *limits, double *scratch,
                   OverlapRuling *ret);

// Chrome / Perfetto trace JSON ("traceEvents", microsecond ts with three decimals) of the whole timeline,
// written atomically.
WARN_UNUSED bool timeline_export_chrome(const Timeline *timeline, const char *process_name, const char *path,
                                        Error *error);

// -- stored traces: Kineto and Chrome trace JSON, plain or gzip, and our own; one entry for each device
typedef struct Inspection Inspection;
// ERROR_DATA names file and offset of what is no trace, ERROR_IO a file that cannot be read. Nothing that is
// written of it holds a text of the trace.
WARN_UNUSED Inspection *trace_inspect(const char *path, const OverlapLimits *limits, Error *error);
// The same of bytes in memory, given over in blocks of this size.
WARN_UNUSED Inspection *trace_inspect_bytes(const char *bytes, size_t length, size_t block,
                                            const OverlapLimits *limits, Error *error);
size_t inspection_count(const Inspection *inspection);   // devices, at least one
OverlapWord inspection_word(const Inspection *inspection, size_t device);
void inspection_put_json(const Inspection *inspection, Json *traces);   // of "fedgate.inspect/1"
void inspection_print(const Inspection *inspection, Text *out);
void inspection_draw(const Inspection *inspection, Text *out);   // SVG, self-contained
void inspection_free(Inspection *inspection);
OWNED_RELEASE(Inspection, inspection_free)

#endif
