// zone_internal - a time zone as one list of spans, each with one offset from UTC.
//
// Read from the system's tz database (RFC 8536 files, version 2 and later); the rule in a file's last line is
// written out to the year 2200. Zones are read once and kept for the life of the process. Thread-safe; TZ is
// never touched.
#ifndef FEDGATE_BASE_ZONE_INTERNAL_H
#define FEDGATE_BASE_ZONE_INTERNAL_H

#include <fedgate/error.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Zone Zone;

// NULL with ERROR_CONFIG for a name that is not in the database; "" and NULL give UTC.
const Zone *zone_find(const char *name, Error *error);

// The span that holds the instant; spans follow one another without a gap, the first begins at INT64_MIN.
size_t zone_span_at(const Zone *zone, int64_t seconds);
size_t zone_span_count(const Zone *zone);
int64_t zone_span_begin(const Zone *zone, size_t span);   // seconds since the epoch
int32_t zone_span_offset(const Zone *zone, size_t span);  // seconds east of UTC

// Days since 1970-01-01 in the proleptic Gregorian calendar, and back.
int64_t zone_days_from_date(int64_t year, int month, int day);
void zone_date_from_days(int64_t days, int64_t *ret_year, int *ret_month, int *ret_day);

// Parts shared by zone.c and zone_rule.c.
typedef struct ZoneSpan {
    int64_t begin;
    int32_t offset;
} ZoneSpan;

typedef struct ZoneSpans {
    ZoneSpan *at;
    size_t count, capacity;
} ZoneSpans;

bool zone_add_span(ZoneSpans *spans, int64_t begin, int32_t offset);   // false when out of memory

// Adds the spans of a POSIX TZ rule ("CET-1CEST,M3.5.0,M10.5.0/3") that begin after the last one there.
bool zone_add_rule(ZoneSpans *spans, const char *rule);

#endif
