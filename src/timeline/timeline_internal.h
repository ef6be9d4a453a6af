// timeline_internal.h - what the files of src/timeline share.
#ifndef FEDGATE_TIMELINE_INTERNAL_H
#define FEDGATE_TIMELINE_INTERNAL_H

#include <fedgate/timeline.h>

// Step marks and host waits are not work of the device.
bool span_is_device_work(const Span *span);

// Counts what makes the timeline unfit as evidence and says the first reason.
void timeline_check_trust(const Timeline *timeline, int64_t marks_out_of_order, TimelineTrust *ret_trust);

// Median of values[count], count > 0; reorders them. The lower middle of an even count, so that it stays an
// integer.
int64_t median_ns(int64_t *values, size_t count);

typedef struct IntervalSet {
    Interval *intervals;   // sorted and disjoint
    size_t count;
} IntervalSet;
int64_t set_inside(const IntervalSet *set, Interval window, Interval *scratch);   // time inside the window

// The sets behind the figures of a timeline.
typedef struct OverlapWork {
    IntervalSet copies, kernels, busy, waits;   // copies: host to device
    IntervalSet gaps;   // without device work for long enough, inside the windows
    int64_t starved_least_ns;   // how long that is; 0 without windows
    Interval *scratch_a, *scratch_b;   // [2 x spans + 2]
} OverlapWork;
void work_done(OverlapWork *work);
// Adds the stretches without device work of at least this length. Of disjoint stretches only.
void work_find_gaps(OverlapWork *work, Interval stretch, int64_t least_ns);
// timeline_overlap, with the sets; work_done also when it fails.
WARN_UNUSED bool timeline_measure(const Timeline *timeline, OverlapWork *work, StepOverlap **ret_steps,
                                  size_t *ret_count, TimelineTrust *ret_trust, Error *error);

#endif
