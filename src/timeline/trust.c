// trust - a timeline carries its own doubts: records lost, timestamps missing, effects before their causes.
#include "timeline_internal.h"

#include <fedgate/text.h>
#include <stdio.h>

static bool begins_before_cause(const Span *span)
{
    return span->end < span->begin || (span->launched_ns > 0 && span->begin < span->launched_ns);
}

void timeline_check_trust(const Timeline *timeline, int64_t marks_out_of_order, TimelineTrust *ret_trust)
{
    *ret_trust = (TimelineTrust){.dropped = timeline_dropped(timeline), .causality = marks_out_of_order};
    const Span *spans = timeline_spans(timeline);
    for (size_t i = 0; i < timeline_count(timeline); i++) {
        if (!span_is_device_work(&spans[i])) {
            continue;
        }
        if (spans[i].begin <= 0 && spans[i].end <= 0) {
            ret_trust->zero_timestamps++;
        } else if (begins_before_cause(&spans[i])) {
            ret_trust->causality++;
        }
    }
    const struct {
        int64_t count;
        const char *what;
    } doubts[] = {
        {ret_trust->dropped, "records were dropped"},
        {ret_trust->zero_timestamps, "device operations have no timestamp"},
        {ret_trust->causality, "operations or marks begin before their cause or end before they begin"},
    };
    for (size_t i = 0; i < sizeof doubts / sizeof doubts[0] && ret_trust->reason[0] == '\0'; i++) {
        if (doubts[i].count != 0) {
            snprintf(ret_trust->reason, sizeof ret_trust->reason, "%lld %s", (long long)doubts[i].count,
                     doubts[i].what);
        }
    }
}
