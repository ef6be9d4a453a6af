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

#endif
