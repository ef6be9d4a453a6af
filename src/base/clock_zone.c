// clock_zone - instants as local time and back.
#include "zone_internal.h"

#include <fedgate/clock.h>
#include <fedgate/text.h>
#include <string.h>

enum { DAY_SECONDS = 86400 };
static const int64_t second_ns = 1000000000;

static int64_t floor_divide(int64_t value, int64_t by)
{
    return value / by - (value % by < 0);
}

// An unknown zone was refused by clock_zone_check at start; here it shows as UTC, with its offset said.
static int32_t offset_at(const char *name, int64_t seconds)
{
    const Zone *zone = zone_find(name, NULL);
    return zone ? zone_span_offset(zone, zone_span_at(zone, seconds)) : 0;
}

void clock_format(int64_t wall_ns, const char *zone, char ret_text[static CLOCK_TIME_SIZE])
{
    int64_t seconds = floor_divide(wall_ns, second_ns), year;
    int milliseconds = (int)((wall_ns - seconds * second_ns) / 1000000), month, day;
    int minutes = offset_at(zone, seconds) / 60;   // RFC 3339 knows no seconds in an offset
    int64_t local = seconds + minutes * 60;
    int64_t days = floor_divide(local, DAY_SECONDS);
    int rest = (int)(local - days * DAY_SECONDS);
    zone_date_from_days(days, &year, &month, &day);
    int east = minutes < 0 ? -minutes : minutes;
    if (!text_print(ret_text, CLOCK_TIME_SIZE, "%04d-%02d-%02dT%02d:%02d:%02d.%03d%c%02d:%02d", (int)year,
                    month, day, rest / 3600, rest / 60 % 60, rest % 60, milliseconds, minutes < 0 ? '-' : '+',
                    east / 60, east % 60))
        BUG("an instant needs more than %d bytes", CLOCK_TIME_SIZE);
}

void clock_local_date(int64_t wall_ns, const char *zone, char ret_date[static 11])
{
    char text[CLOCK_TIME_SIZE];
    clock_format(wall_ns, zone, text);
    memcpy(ret_date, text, 10);
    ret_date[10] = '\0';
}

// Exactly `count` digits at *at.
static bool take_digits(const char **at, int count, int *ret_value)
{
    int value = 0;
    for (int i = 0; i < count; i++, ++*at) {
        if (**at < '0' || **at > '9')
            return false;
        value = value * 10 + (**at - '0');
    }
    *ret_value = value;
    return true;
}

static bool take_char(const char **at, const char *allowed)
{
    return **at != '\0' && strchr(allowed, *(*at)++) != NULL;
}

static bool take_fraction(const char **at, int64_t *ret_ns)
{
    int64_t unit = second_ns, value = 0;
    if (**at != '.')
        return true;
    ++*at;
    const char *begin = *at;
    for (; **at >= '0' && **at <= '9'; ++*at) {
        unit /= 10;
        value += unit * (**at - '0');   // digits past the nanosecond add nothing
    }
    *ret_ns = value;
    return *at > begin;
}

static bool take_offset(const char **at, int *ret_seconds)
{
    char sign = **at;
    int hours, minutes;
    if (sign == 'Z' || sign == 'z') {
        ++*at;
        *ret_seconds = 0;
        return true;
    }
    if (!take_char(at, "+-") || !take_digits(at, 2, &hours) || !take_char(at, ":") ||
        !take_digits(at, 2, &minutes) || hours > 23 || minutes > 59)
        return false;
    *ret_seconds = (sign == '-' ? -1 : 1) * (hours * 3600 + minutes * 60);
    return true;
}

bool clock_parse(const char *rfc3339, int64_t *ret_wall_ns)
{
    int year, month, day, hour, minute, second, offset;
    int64_t fraction_ns = 0;
    const char *at = rfc3339;
    if (!at || !take_digits(&at, 4, &year) || !take_char(&at, "-") || !take_digits(&at, 2, &month) ||
        !take_char(&at, "-") || !take_digits(&at, 2, &day) || !take_char(&at, "Tt ") ||
        !take_digits(&at, 2, &hour) || !take_char(&at, ":") || !take_digits(&at, 2, &minute) ||
        !take_char(&at, ":") || !take_digits(&at, 2, &second) || !take_fraction(&at, &fraction_ns) ||
        !take_offset(&at, &offset) || *at != '\0')
        return false;
    // 64 bits of nanoseconds reach from 1677 to 2262.
    if (year < 1700 || year > 2261 || month < 1 || month > 12 || day < 1 || hour > 23 || minute > 59 ||
        second > 59)
        return false;
    int64_t days = zone_days_from_date(year, month, day), again_year;
    int again_month, again_day;
    zone_date_from_days(days, &again_year, &again_month, &again_day);
    if (again_month != month || again_day != day)
        return false;
    int64_t seconds = days * DAY_SECONDS + hour * 3600 + minute * 60 + second - offset;
    *ret_wall_ns = seconds * second_ns + fraction_ns;
    return true;
}

bool clock_zone_check(const char *zone, Error *error)
{
    return zone_find(zone, error) != NULL;
}

// The instant at which the zone's clock first shows `local`, or the end of the gap that leaves it out.
static int64_t instant_of_local(const Zone *zone, int64_t local)
{
    size_t count = zone_span_count(zone);
    size_t span = zone_span_at(zone, local - 2 * DAY_SECONDS);
    for (;; span++) {
        int64_t instant = local - zone_span_offset(zone, span);
        if (span > 0 && instant < zone_span_begin(zone, span))
            return zone_span_begin(zone, span);   // not before this span, and not in it: the gap between
        if (span + 1 == count || instant < zone_span_begin(zone, span + 1))
            return instant;
    }
}

bool clock_next_local(int64_t after_ns, const char *zone, int hour, int minute, int64_t *ret_wall_ns,
                      Error *error)
{
    const Zone *found = zone_find(zone, error);
    if (!found)
        return false;
    if (hour < 0 || hour > 23 || minute < 0 || minute > 59)
        return FAIL(error, ERROR_CONFIG, 0, "time of day %02d:%02d is outside 00:00 to 23:59", hour, minute);
    int64_t after = floor_divide(after_ns, second_ns);
    int64_t today = floor_divide(after + zone_span_offset(found, zone_span_at(found, after)), DAY_SECONDS);
    // Each date has one such instant; begin a day early because a date line change may move it across
    // midnight.
    for (int64_t day = today - 1;; day++) {
        int64_t instant = instant_of_local(found, day * DAY_SECONDS + hour * 3600 + minute * 60);
        if (instant > after) {
            *ret_wall_ns = instant * second_ns;
            return true;
        }
    }
}
