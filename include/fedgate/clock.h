// clock.h - the only source of time. Monotonic for durations, wall for labels; nobody stores "now".
//
// A Clock is passed from night down. clock_simulated() moves only when told, so tests decide what every step
// lasts. Zone arithmetic follows the system's tz database: a local time that does not exist (spring) becomes
// the first instant after the gap, one that exists twice (autumn) the first of the two; the deadline is kept
// as an instant. Zones are read from $TZDIR or the usual folder, never through TZ; their rules are followed
// to the year 2200.
#ifndef FEDGATE_CLOCK_H
#define FEDGATE_CLOCK_H

#include <fedgate/error.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Clock Clock;

Clock *clock_real(void);                                   // shared constant, never freed, thread-safe
Clock *clock_simulated(int64_t wall_ns);                   // monotonic begins at 1 s; clock_free releases
void clock_free(Clock *clock);                             // NULL and the real clock allowed
bool clock_is_simulated(const Clock *clock);
// Simulated only (BUG otherwise); negative moves the wall back only.
void clock_advance(Clock *clock, int64_t duration_ns);

int64_t clock_monotonic_ns(Clock *clock);                  // CLOCK_MONOTONIC; never goes back
int64_t clock_wall_ns(Clock *clock);                       // since the epoch, UTC
void clock_sleep_ns(Clock *clock, int64_t duration_ns);    // simulated: advances

enum { CLOCK_TIME_SIZE = 40 };
// RFC 3339 with offset and millisecond: 2026-11-30T04:00:00.000+01:00. zone "" or NULL: UTC ("+00:00").
void clock_format(int64_t wall_ns, const char *zone, char ret_text[static CLOCK_TIME_SIZE]);
bool clock_parse(const char *rfc3339, int64_t *ret_wall_ns);   // offset or Z required

// ERROR_CONFIG for an unknown zone, the nearest one named.
WARN_UNUSED bool clock_zone_check(const char *zone, Error *error);
void clock_local_date(int64_t wall_ns, const char *zone, char ret_date[static 11]);   // "2026-11-30"
// First instant strictly after `after_ns` at which the zone's clock shows hour:minute (rules above).
WARN_UNUSED bool clock_next_local(int64_t after_ns, const char *zone, int hour, int minute,
                                  int64_t *ret_wall_ns, Error *error);

// UUIDv7 of this instant, lower-case with hyphens: sortable by time, random in the rest.
enum { UUID_SIZE = 37 };
void clock_uuid7(Clock *clock, char ret_uuid[static UUID_SIZE]);

#endif
