// base_clock_test - simulated time, instants as text, and local time on the nights when clocks change.
#include "support.h"

#include <fedgate/clock.h>
#include <fedgate/file.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(rows) ((int)(sizeof(rows) / sizeof(rows)[0]))

static int64_t instant(const char *text)
{
    int64_t wall_ns = 0;
    ck_assert_msg(clock_parse(text, &wall_ns), "cannot parse %s", text);
    return wall_ns;
}

START_TEST(a_simulated_clock_moves_only_when_told)
{
    Clock *clock = clock_simulated(instant("2026-11-30T00:00:00Z"));
    ck_assert(clock_is_simulated(clock) && !clock_is_simulated(clock_real()));
    ck_assert_int_eq(clock_monotonic_ns(clock), 1000000000);
    clock_sleep_ns(clock, 5);
    clock_advance(clock, 7);
    ck_assert_int_eq(clock_monotonic_ns(clock), 1000000012);
    clock_advance(clock, -3600 * INT64_C(1000000000));   // somebody set the wall clock back
    ck_assert_int_eq(clock_monotonic_ns(clock), 1000000012);
    ck_assert_int_eq(clock_wall_ns(clock), instant("2026-11-29T23:00:00Z") + 12);
    clock_sleep_ns(clock, -5);
    ck_assert_int_eq(clock_monotonic_ns(clock), 1000000012);
    clock_free(clock);
    clock_free(NULL);
    clock_free(clock_real());
}
END_TEST

START_TEST(the_real_clock_goes_on_and_sleeps_at_least_as_long_as_asked)
{
    Clock *clock = clock_real();
    int64_t begin = clock_monotonic_ns(clock);
    clock_sleep_ns(clock, 2000000);
    ck_assert_int_ge(clock_monotonic_ns(clock) - begin, 2000000);
    ck_assert_int_gt(clock_wall_ns(clock), instant("2024-01-01T00:00:00Z"));
}
END_TEST

START_TEST(the_real_clock_cannot_be_moved)
{
    clock_advance(clock_real(), 1);
}
END_TEST

static const struct { const char *utc, *zone, *shown;
} format_rows[] = {
    {"2026-11-30T03:00:00Z", "Europe/Berlin", "2026-11-30T04:00:00.000+01:00"},
    {"2026-07-01T03:00:00.9999Z", "Europe/Berlin", "2026-07-01T05:00:00.999+02:00"},
    {"2026-07-01T03:00:00Z", "America/New_York", "2026-06-30T23:00:00.000-04:00"},
    {"2026-07-01T03:00:00Z", "Asia/Kolkata", "2026-07-01T08:30:00.000+05:30"},
    {"2026-07-01T03:00:00Z", NULL, "2026-07-01T03:00:00.000+00:00"},
    {"2026-07-01T03:00:00Z", "UTC", "2026-07-01T03:00:00.000+00:00"},
    {"1969-12-31T23:59:59.5Z", "", "1969-12-31T23:59:59.500+00:00"},
    {"2024-02-29T12:00:00Z", "", "2024-02-29T12:00:00.000+00:00"},
    {"2150-07-01T12:00:00Z", "Europe/Berlin",
     "2150-07-01T14:00:00.000+02:00"},   // by the rule, past the table
    {"2150-12-01T12:00:00Z", "America/New_York", "2150-12-01T07:00:00.000-05:00"},
};

START_TEST(an_instant_is_shown_with_the_offset_of_its_zone)
{
    char text[CLOCK_TIME_SIZE];
    clock_format(instant(format_rows[_i].utc), format_rows[_i].zone, text);
    ck_assert_str_eq(text, format_rows[_i].shown);
}
END_TEST

START_TEST(what_is_shown_reads_back)
{
    int64_t wall_ns = instant("2026-03-29T01:30:00.123+01:00");
    char text[CLOCK_TIME_SIZE];
    clock_format(wall_ns, "America/New_York", text);
    ck_assert_int_eq(instant(text), wall_ns);
    ck_assert_int_eq(instant("1970-01-01T00:00:00.000000001Z"), 1);
    ck_assert_int_eq(instant("1970-01-01 00:00:00-00:30"), INT64_C(1800) * 1000000000);
}
END_TEST

static const char *const bad_times[] = {
    "",
    "2026-11-30",
    "2026-11-30T04:00:00",
    "2026-13-01T00:00:00Z",
    "2026-02-29T00:00:00Z",
    "2026-04-31T00:00:00Z",
    "2026-11-30T24:00:00Z",
    "2026-11-30T04:60:00Z",
    "2026-11-30T04:00:60Z",
    "2026-11-30T04:00:00.Z",
    "2026-11-30T04:00:00+25:00",
    "2026-11-30T04:00:00+0100",
    "2026-11-30T04:00:00Z ",
    "1600-01-01T00:00:00Z",
    "2300-01-01T00:00:00Z",
    "26-11-30T04:00:00Z",
    "2026-11-30X04:00:00Z",
};

START_TEST(times_without_offset_or_out_of_the_calendar_are_refused)
{
    int64_t wall_ns = 42;
    ck_assert_msg(!clock_parse(bad_times[_i], &wall_ns), "%s", bad_times[_i]);
    ck_assert_int_eq(wall_ns, 42);
    ck_assert(!clock_parse(NULL, &wall_ns));
}
END_TEST

typedef struct NextRow {
    const char *after, *zone;
    int hour, minute;
    const char *next;
} NextRow;

static const NextRow next_rows[] = {
    // an ordinary day: later today, or tomorrow when the instant itself is now
    {"2026-11-30T00:00:00+01:00", "Europe/Berlin", 4, 0, "2026-11-30T04:00:00+01:00"},
    {"2026-11-30T04:00:00+01:00", "Europe/Berlin", 4, 0, "2026-12-01T04:00:00+01:00"},
    {"2026-11-30T03:59:59+01:00", "Europe/Berlin", 4, 0, "2026-11-30T04:00:00+01:00"},
    {"2026-12-31T23:00:00Z", "UTC", 0, 30, "2027-01-01T00:30:00Z"},
    // spring in Berlin: 02:00 to 03:00 does not exist on 2026-03-29; the first instant after the gap
    {"2026-03-28T12:00:00+01:00", "Europe/Berlin", 2, 30, "2026-03-29T03:00:00+02:00"},
    {"2026-03-29T03:00:00+02:00", "Europe/Berlin", 2, 30, "2026-03-30T02:30:00+02:00"},
    {"2026-03-28T12:00:00+01:00", "Europe/Berlin", 2, 0, "2026-03-29T03:00:00+02:00"},
    {"2026-03-28T12:00:00+01:00", "Europe/Berlin", 3, 0, "2026-03-29T03:00:00+02:00"},
    {"2026-03-28T12:00:00+01:00", "Europe/Berlin", 1, 59, "2026-03-29T01:59:00+01:00"},
    // the night of 23 hours
    {"2026-03-28T04:00:00+01:00", "Europe/Berlin", 4, 0, "2026-03-29T04:00:00+02:00"},
    // autumn in Berlin: 02:00 to 03:00 comes twice on 2026-10-25; the first of the two, and not again
    {"2026-10-24T12:00:00+02:00", "Europe/Berlin", 2, 30, "2026-10-25T02:30:00+02:00"},
    {"2026-10-25T02:30:00+02:00", "Europe/Berlin", 2, 30, "2026-10-26T02:30:00+01:00"},
    {"2026-10-24T12:00:00+02:00", "Europe/Berlin", 3, 0, "2026-10-25T03:00:00+01:00"},
    // New York: gap on 2026-03-08, overlap on 2026-11-01, 01:00 to 02:00 twice
    {"2026-03-07T12:00:00-05:00", "America/New_York", 2, 15, "2026-03-08T03:00:00-04:00"},
    {"2026-10-31T12:00:00-04:00", "America/New_York", 1, 30, "2026-11-01T01:30:00-04:00"},
    {"2026-11-01T01:30:00-04:00", "America/New_York", 1, 30, "2026-11-02T01:30:00-05:00"},
    {"2026-10-31T12:00:00-04:00", "America/New_York", 4, 0, "2026-11-01T04:00:00-05:00"},
    // the rule beyond the table
    {"2199-03-30T12:00:00+01:00", "Europe/Berlin", 2, 30, "2199-03-31T03:00:00+02:00"},
    // a whole day that one island skipped: 2011-12-30 in Samoa
    {"2011-12-29T12:00:00-10:00", "Pacific/Apia", 6, 0, "2011-12-31T00:00:00+14:00"},
    {"2026-11-30T00:00:00Z", NULL, 4, 0, "2026-11-30T04:00:00Z"},
};

START_TEST(the_next_local_time_is_one_instant_a_day)
{
    const NextRow *row = &next_rows[_i];
    Error error = ERROR_INIT;
    int64_t next_ns = 0;
    ASSERT_OK(clock_next_local(instant(row->after), row->zone, row->hour, row->minute, &next_ns, &error),
              &error);
    char text[CLOCK_TIME_SIZE];
    clock_format(next_ns, row->zone, text);
    ck_assert_msg(next_ns == instant(row->next), "%s instead of %s", text, row->next);
}
END_TEST

START_TEST(local_dates_follow_the_zone)
{
    char date[11];
    int64_t wall_ns = instant("2026-11-30T23:30:00Z");
    clock_local_date(wall_ns, "Europe/Berlin", date);
    ck_assert_str_eq(date, "2026-12-01");
    clock_local_date(wall_ns, NULL, date);
    ck_assert_str_eq(date, "2026-11-30");
}
END_TEST

START_TEST(an_unknown_zone_is_refused_with_the_nearest_name)
{
    Error error = ERROR_INIT;
    int64_t next_ns = 0;
    ASSERT_OK(clock_zone_check("Europe/Berlin", &error), &error);
    ASSERT_OK(clock_zone_check("", &error), &error);
    ck_assert(!clock_zone_check("Europe/Berln", &error));
    ck_assert_int_eq(error.kind, ERROR_CONFIG);
    ck_assert_ptr_nonnull(strstr(error.hint, "Europe/Berlin"));
    error_clear(&error);
    ASSERT_FAILS(clock_zone_check("../../etc/passwd", &error), &error, ERROR_CONFIG, "unknown time zone");
    ASSERT_FAILS(clock_zone_check("/etc/localtime", &error), &error, ERROR_CONFIG, "unknown time zone");
    ASSERT_FAILS(clock_zone_check("Europe", &error), &error, ERROR_CONFIG, "unknown time zone 'Europe'");
    ASSERT_FAILS(clock_zone_check("tzdata.zi", &error), &error, ERROR_CONFIG, "unknown time zone");
    ASSERT_FAILS(clock_next_local(0, "No/Where", 1, 1, &next_ns, &error), &error, ERROR_CONFIG, "No/Where");
    ASSERT_FAILS(clock_next_local(0, "UTC", 24, 0, &next_ns, &error), &error, ERROR_CONFIG, "24:00");
    char text[CLOCK_TIME_SIZE];
    clock_format(0, "No/Where", text);
    ck_assert_str_eq(text, "1970-01-01T00:00:00.000+00:00");
}
END_TEST

// A zone file of our own making: no table, one type at UTC, and a rule.
static size_t make_zone(const char *rule, char ret_bytes[static 256])
{
    static const unsigned char header[44] = {'T', 'Z', 'i', 'f', '2'};
    memset(ret_bytes, 0, 256);
    memcpy(ret_bytes, header, sizeof header);
    memcpy(ret_bytes + 44, header, sizeof header);
    ret_bytes[44 + 39] = 1;   // one type
    ret_bytes[44 + 43] = 4;   // of a name of four bytes
    char *footer = ret_bytes + 88 + 6 + 4;
    size_t length = strlen(rule);
    footer[0] = '\n';
    memcpy(footer + 1, rule, length);
    footer[1 + length] = '\n';
    return 88 + 6 + 4 + length + 2;
}

static bool use_zone(const char *folder, const char *name, const char *bytes, size_t length, Error *error)
{
    ck_assert_msg(file_write_atomic(support_path(folder, name), bytes, length, 0644, error), "%s",
                  error->message);
    setenv("TZDIR", folder, 1);
    return clock_zone_check(name, error);
}

static const struct { const char *rule, *utc, *shown;
} rule_rows[] = {
    {"<+0330>-3:30", "2026-07-01T00:00:00Z", "2026-07-01T03:30:00.000+03:30"},
    {"EST5", "2026-07-01T00:00:00Z", "2026-06-30T19:00:00.000-05:00"},
    {"AAA0BBB,M3.2.0,M11.1.0", "2026-03-08T01:59:59Z", "2026-03-08T01:59:59.000+00:00"},
    {"AAA0BBB,M3.2.0,M11.1.0", "2026-03-08T02:00:00Z", "2026-03-08T03:00:00.000+01:00"},
    {"AAA0BBB,M3.2.0,M11.1.0", "2026-11-01T00:59:59Z", "2026-11-01T01:59:59.000+01:00"},
    {"AAA0BBB,M3.2.0,M11.1.0", "2026-11-01T01:00:00Z", "2026-11-01T01:00:00.000+00:00"},
    // J60 is always 1 March; 59 counts the leap day
    {"AAA0BBB-2,J60/0,J300/0", "2024-03-01T00:00:00Z", "2024-03-01T02:00:00.000+02:00"},
    {"AAA0BBB-2,J60/0,J300/0", "2024-02-29T12:00:00Z", "2024-02-29T12:00:00.000+00:00"},
    {"AAA0BBB-2,59/0,300/0", "2024-02-29T00:00:00Z", "2024-02-29T02:00:00.000+02:00"},
    {"AAA0BBB-2,59/0,300/0", "2023-02-28T12:00:00Z", "2023-02-28T12:00:00.000+00:00"},
    // the change comes the evening before, and more than a day after midnight
    {"<-02>2<-01>,M3.5.0/-1,M10.5.0/0", "2026-03-29T01:00:00Z", "2026-03-29T00:00:00.000-01:00"},
    {"IST-2IDT,M3.4.4/26,M10.5.0", "2026-03-27T00:00:00Z", "2026-03-27T03:00:00.000+03:00"},
    {"IST-2IDT,M3.4.4/26,M10.5.0", "2026-03-26T23:59:59Z", "2026-03-27T01:59:59.000+02:00"},
    // the southern half of the earth: summer time over New Year, until the last Sunday of December in one
    // case
    {"AEST-10AEDT,M10.1.0,M4.1.0/3", "2026-01-15T00:00:00Z", "2026-01-15T11:00:00.000+11:00"},
    {"AEST-10AEDT,M10.1.0,M4.1.0/3", "2026-07-15T00:00:00Z", "2026-07-15T10:00:00.000+10:00"},
    {"AAA0BBB,M6.1.0,M12.5.0/2:30:30", "2026-12-27T01:30:30Z", "2026-12-27T01:30:30.000+00:00"},
};

START_TEST(rules_are_followed_in_each_of_their_forms)
{
    char *folder = support_folder_new(), bytes[256], text[CLOCK_TIME_SIZE];
    Error error = ERROR_INIT;
    size_t length = make_zone(rule_rows[_i].rule, bytes);
    ASSERT_OK(use_zone(folder, "Zone", bytes, length, &error), &error);
    clock_format(instant(rule_rows[_i].utc), "Zone", text);
    ck_assert_str_eq(text, rule_rows[_i].shown);
    support_folder_remove(folder);
}
END_TEST

static const char *const bad_rules[] = {
    "E5",
    "<+03-3",
    "EST",
    "EST5x",
    "EST5EDT",
    "EST5EDT,M3.2.0",
    "EST5EDT,M13.2.0,M11.1.0",
    "EST5EDT,M0.2.0,M11.1.0",
    "EST5EDT,M3.6.0,M11.1.0",
    "EST5EDT,M3.0.0,M11.1.0",
    "EST5EDT,M3.2.7,M11.1.0",
    "EST5EDT,M3.2,M11.1.0",
    "EST5EDT,J366,J1",
    "EST5EDT,M3.2.0/x,M11.1.0",
    "EST5EDT,M3.2.0,M11.1.0,",
    "EST168",
    "EST5:60",
    "EST5:0:60",
};

START_TEST(rules_that_cannot_be_are_no_zone)
{
    char *folder = support_folder_new(), bytes[256];
    Error error = ERROR_INIT;
    size_t length = make_zone(bad_rules[_i], bytes);
    ASSERT_FAILS(use_zone(folder, "Zone", bytes, length, &error), &error, ERROR_CONFIG,
                 "unknown time zone 'Zone'");
    support_folder_remove(folder);
}
END_TEST

START_TEST(a_cut_or_damaged_zone_file_is_no_zone)
{
    char *folder = support_folder_new(), bytes[256];
    Error error = ERROR_INIT;
    size_t length = make_zone("CET-1CEST,M3.5.0,M10.5.0/3", bytes);
    for (size_t cut = 0; cut < length; cut++)
        ASSERT_FAILS(use_zone(folder, "Zone", bytes, cut, &error), &error, ERROR_CONFIG, "unknown time zone");
    // Each byte of both headers that matters, one at a time: the magic, the version, counts larger than the
    // file.
    static const struct {
        size_t at;
        char value;
    } damages[] = {{0, 'X'}, {4, '1'},  {20, 1},   {32, 1}, {44, 'X'},
                   {64, 1},  {68, 127}, {76, 127}, {83, 0}, {98, 'X'}};
    for (int i = 0; i < COUNT(damages); i++) {
        char damaged[256];
        memcpy(damaged, bytes, sizeof damaged);
        damaged[damages[i].at] = damages[i].value;
        ASSERT_FAILS(use_zone(folder, "Zone", damaged, length, &error), &error, ERROR_CONFIG,
                     "unknown time zone");
    }
    ASSERT_OK(use_zone(folder, "Zone", bytes, length, &error), &error);
    ASSERT_FAILS(clock_zone_check("Zonw", &error), &error, ERROR_CONFIG, "unknown time zone 'Zonw'");
    support_folder_remove(folder);
}
END_TEST

START_TEST(a_uuid7_begins_with_its_millisecond)
{
    Clock *clock = clock_simulated(INT64_C(0x0123456789ab) * 1000000);
    char one[UUID_SIZE], two[UUID_SIZE];
    clock_uuid7(clock, one);
    clock_uuid7(clock, two);
    clock_free(clock);
    ck_assert_uint_eq(strlen(one), 36);
    ck_assert_int_eq(strncmp(one, "01234567-89ab-7", 15), 0);
    ck_assert_ptr_nonnull(strchr("89ab", one[19]));
    ck_assert_str_ne(one, two);
}
END_TEST

static Suite *suite(void)
{
    Suite *made = suite_create("base clock");
    TCase *clock = tcase_create("clock");
    tcase_add_test(clock, a_simulated_clock_moves_only_when_told);
    tcase_add_test(clock, the_real_clock_goes_on_and_sleeps_at_least_as_long_as_asked);
    tcase_add_test_raise_signal(clock, the_real_clock_cannot_be_moved, 6);
    tcase_add_test(clock, a_uuid7_begins_with_its_millisecond);
    suite_add_tcase(made, clock);
    TCase *zone = tcase_create("zone");
    tcase_add_loop_test(zone, an_instant_is_shown_with_the_offset_of_its_zone, 0, COUNT(format_rows));
    tcase_add_test(zone, what_is_shown_reads_back);
    tcase_add_loop_test(zone, times_without_offset_or_out_of_the_calendar_are_refused, 0, COUNT(bad_times));
    tcase_add_loop_test(zone, the_next_local_time_is_one_instant_a_day, 0, COUNT(next_rows));
    tcase_add_test(zone, local_dates_follow_the_zone);
    tcase_add_test(zone, an_unknown_zone_is_refused_with_the_nearest_name);
    tcase_add_loop_test(zone, rules_are_followed_in_each_of_their_forms, 0, COUNT(rule_rows));
    tcase_add_loop_test(zone, rules_that_cannot_be_are_no_zone, 0, COUNT(bad_rules));
    tcase_add_test(zone, a_cut_or_damaged_zone_file_is_no_zone);
    suite_add_tcase(made, zone);
    return made;
}

int main(void)
{
    SRunner *runner = srunner_create(suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
