// zone_rule - the calendar, and POSIX TZ rules such as "CET-1CEST,M3.5.0,M10.5.0/3" written out year by year.
#include "zone_internal.h"

#include <stdlib.h>
#include <string.h>

enum { RULE_LAST_YEAR = 2200, DAY_SECONDS = 86400 };

// Counts in years that begin in March, so that the leap day comes last; an era is 400 years, 146097 days.
int64_t zone_days_from_date(int64_t year, int month, int day)
{
    year -= month <= 2;
    int64_t era = (year >= 0 ? year : year - 399) / 400;
    int64_t year_of_era = year - era * 400;
    int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719468;
}

void zone_date_from_days(int64_t days, int64_t *ret_year, int *ret_month, int *ret_day)
{
    days += 719468;
    int64_t era = (days >= 0 ? days : days - 146096) / 146097;
    int64_t day_of_era = days - era * 146097;
    int64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t month = (5 * day_of_year + 2) / 153;   // 0 is March
    *ret_day = (int)(day_of_year - (153 * month + 2) / 5 + 1);
    *ret_month = (int)(month < 10 ? month + 3 : month - 9);
    *ret_year = year_of_era + era * 400 + (*ret_month <= 2);
}

typedef struct Change {
    char form;   // 'M' month.week.weekday, 'J' day 1..365 without the leap day, '0' day 0..365 with it
    int month, week, day;
    int seconds;   // local time of day, -167 h to 167 h
} Change;

static bool skip_name(const char **at)
{
    const char *begin = *at;
    if (*begin == '<') {
        const char *end = strchr(begin, '>');
        *at = end ? end + 1 : begin;
        return end != NULL;
    }
    while ((**at >= 'A' && **at <= 'Z') || (**at >= 'a' && **at <= 'z'))
        ++*at;
    return *at - begin >= 3;
}

static bool take_number(const char **at, int limit, int *ret_number)
{
    char *end;
    if (**at < '0' || **at > '9')
        return false;
    long value = strtol(*at, &end, 10);
    *at = end;
    *ret_number = (int)value;
    return value >= 0 && value <= limit;
}

// [+-]hours[:minutes[:seconds]]
static bool take_time(const char **at, int *ret_seconds)
{
    int sign = **at == '-' ? -1 : 1, hours, minutes = 0, seconds = 0;
    *at += **at == '-' || **at == '+';
    if (!take_number(at, 167, &hours))
        return false;
    if (**at == ':' && (++*at, !take_number(at, 59, &minutes)))
        return false;
    if (**at == ':' && (++*at, !take_number(at, 59, &seconds)))
        return false;
    *ret_seconds = sign * (hours * 3600 + minutes * 60 + seconds);
    return true;
}

static bool take_change(const char **at, Change *ret_change)
{
    Change change = {.form = '0', .seconds = 7200};
    if (*(*at)++ != ',')
        return false;
    if (**at == 'M' || **at == 'J')
        change.form = *(*at)++;
    if (change.form == 'M') {
        if (!take_number(at, 12, &change.month) || *(*at)++ != '.' || !take_number(at, 5, &change.week) ||
            *(*at)++ != '.' || !take_number(at, 6, &change.day) || change.month == 0 || change.week == 0)
            return false;
    } else if (!take_number(at, 365, &change.day)) {
        return false;
    }
    if (**at == '/' && (++*at, !take_time(at, &change.seconds)))
        return false;
    *ret_change = change;
    return true;
}

static bool is_leap(int64_t year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

// Local seconds since the epoch at which the change comes in that year.
static int64_t change_in_year(const Change *change, int64_t year)
{
    int64_t first = zone_days_from_date(year, 1, 1), days = first + change->day;
    if (change->form == 'J')
        days = first + change->day - 1 + (is_leap(year) && change->day >= 60);
    if (change->form == 'M') {
        int64_t month_begin = zone_days_from_date(year, change->month, 1);
        int64_t month_end = change->month == 12 ? zone_days_from_date(year + 1, 1, 1)
                                                : zone_days_from_date(year, change->month + 1, 1);
        int64_t weekday = ((month_begin + 4) % 7 + 7) % 7;   // 1970-01-01 was a Thursday; Sunday is 0
        days = month_begin + (change->day - weekday + 7) % 7 + (change->week - 1) * 7;
        while (days >= month_end)
            days -= 7;   // week 5 is the last one
    }
    return days * DAY_SECONDS + change->seconds;
}

static bool add_later(ZoneSpans *spans, int64_t after, int64_t begin, int offset)
{
    return begin <= after || zone_add_span(spans, begin, offset);
}

bool zone_add_rule(ZoneSpans *spans, const char *rule)
{
    int west, summer_west;
    Change to_summer, to_winter;
    if (!skip_name(&rule) || !take_time(&rule, &west))
        return false;
    int64_t after = spans->at[spans->count - 1].begin;
    if (*rule == '\0')
        return after != INT64_MIN || zone_add_span(spans, INT64_MIN, -west);
    if (!skip_name(&rule))
        return false;
    summer_west = west - 3600;
    if (*rule != ',' && !take_time(&rule, &summer_west))
        return false;
    if (!take_change(&rule, &to_summer) || !take_change(&rule, &to_winter) || *rule != '\0')
        return false;
    int64_t first_year = 1970;
    int month, day;
    if (after > 0)
        zone_date_from_days(after / DAY_SECONDS, &first_year, &month, &day);
    for (int64_t year = first_year; year <= RULE_LAST_YEAR; year++) {
        // Each change is given in the local time that holds before it.
        int64_t summer = change_in_year(&to_summer, year) + west;
        int64_t winter = change_in_year(&to_winter, year) + summer_west;
        bool ok =
            summer < winter
                ? add_later(spans, after, summer, -summer_west) && add_later(spans, after, winter, -west)
                : add_later(spans, after, winter, -west) && add_later(spans, after, summer, -summer_west);
        if (!ok)
            return false;
    }
    return true;
}
