// plan_window_test - when a night will end and when it must: forecasts, deadlines on DST nights, the zone.
#include <fedgate/clock.h>
#include <fedgate/plan.h>

#include <math.h>
#include <string.h>

#include "support.h"

static Config *with(const char *const *sets, size_t count)
{
    Error error = ERROR_INIT;
    Config *config = config_load(NULL, sets, count, NULL, &error);
    ck_assert_msg(config != NULL, "%s", error.message);
    return config;
}
#define WITH(...)                                                                                            \
    with((const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static const int64_t second = 1000000000;

// A pace that has changed for the slower is the pace of what is to come; one for the faster is not believed.
static const struct {
    double before, after;
    size_t changed_at;
    double remaining;
} changes[] = {
    {1, 3, 10, 30},
    {3, 1, 0, 20},
    {1, 1.05, 0, 10.25},
    {1, 1.2, 10, 12},
};

START_TEST(a_change_for_the_slower_is_what_is_to_come)
{
    double blocks[20];
    WindowForecast forecast;
    for (size_t i = 0; i < 20; i++)
        blocks[i] = (i < 10 ? changes[_i].before : changes[_i].after) + (i % 2 == 0 ? 1e-3 : -1e-3);
    plan_window(blocks, 20, 100, 1000, 0, 0, 1000 * second, 0, &forecast);
    ck_assert_uint_eq(forecast.changed_at, changes[_i].changed_at);
    ck_assert_double_eq_tol(forecast.slower_a_block > 0 ? changes[_i].remaining : forecast.remaining_seconds,
                            changes[_i].remaining, 0.02);
}
END_TEST

START_TEST(a_trend_goes_on)
{
    double blocks[11];
    WindowForecast forecast;
    for (size_t i = 0; i < 11; i++)
        blocks[i] = 10 + 0.1 * (double)i;   // the next ten are 11.1 to 12
    plan_window(blocks, 11, 100, 1000, 0, 0, 1000 * second, 0, &forecast);
    ck_assert_uint_eq(forecast.changed_at, 0);
    ck_assert_double_eq_tol(forecast.slower_a_block, 0.1, 1e-9);
    ck_assert_double_eq_tol(forecast.remaining_seconds, 115.5, 1e-6);
    for (size_t i = 0; i < 11; i++)
        blocks[i] = 10 - 0.1 * (double)i;   // a trend for the faster is not believed
    plan_window(blocks, 11, 100, 1000, 0, 0, 1000 * second, 0, &forecast);
    ck_assert_double_eq(forecast.slower_a_block, 0);
    ck_assert_double_eq_tol(forecast.remaining_seconds, 95, 1e-6);
    for (size_t i = 0; i < 11; i++)
        blocks[i] = 10 + 0.009 * (double)i;   // certain, but of no weight
    plan_window(blocks, 11, 100, 1000, 0, 0, 1000 * second, 0, &forecast);
    ck_assert_double_eq(forecast.slower_a_block, 0);
}
END_TEST

START_TEST(stalls_are_told)
{
    static double blocks[PLAN_PACE_BLOCKS + 1];
    WindowForecast forecast;
    for (size_t i = 0; i <= PLAN_PACE_BLOCKS; i++)
        blocks[i] = i == 7 ? 31 : 1;
    plan_window(blocks, 20, 100, 1000, 0, 0, 1000 * second, 0, &forecast);
    ck_assert_double_eq_tol(forecast.stalled_ratio, 30.0 / 50, 1e-12);
    plan_window(blocks, PLAN_PACE_BLOCKS + 1, 100, 1000, 0, 0, 1000 * second, 0, &forecast);
    ck_assert_double_eq(forecast.stalled_ratio, 0);   // of more blocks none are told
    blocks[7] = 0;
    plan_window(blocks + 7, 1, 100, 1000, 0, 0, 1000 * second, 0, &forecast);
    ck_assert_double_eq(forecast.stalled_ratio, 0);
}
END_TEST

// 2 numeric columns and an embedding of 3, 4 hidden units, 2 outputs of half precision, by hand.
START_TEST(the_work_of_a_pass_is_that_of_its_products)
{
    const int64_t embedding[] = {3}, hidden[] = {4};
    const PlanShape shape = {.numeric = 2,
                             .categorical = 1,
                             .embedding = embedding,
                             .hidden = hidden,
                             .layers = 1,
                             .outputs = 2,
                             .bytes_per_element = 2};
    PassWork forward, backward;
    plan_pass_work(&shape, false, &forward);
    ck_assert_double_eq(forward.row_flop, 2 * 5 * 4 + 2 * 4 * 2);
    ck_assert_double_eq(forward.row_bytes, 2 * 5 + 2 * 4 + 2 * 4 + 4 * 2);   // logits are FP32
    ck_assert_double_eq(forward.pass_bytes, 2 * (5 * 4 + 4 * 2));
    plan_pass_work(&shape, true, &backward);
    ck_assert_double_eq(backward.row_flop, 2 * forward.row_flop);   // weights and inputs
    ck_assert_double_eq(backward.row_bytes, 2 * (2 * (5 + 4) + 2 * (4 + 2)));
    ck_assert_double_eq(backward.pass_bytes, (4 + 2) * (5 * 4 + 4 * 2));
    PlanShape numeric = shape;
    numeric.categorical = 0;
    numeric.numeric = 5;
    plan_pass_work(&numeric, true, &backward);
    ck_assert_double_eq(backward.row_flop, 2 * 5 * 4 + 2 * 2 * 4 * 2);   // numbers need no gradient
}
END_TEST

START_TEST(the_forecast_counts_stalls_that_a_median_forgets)
{
    double blocks[20];
    WindowForecast forecast;
    for (size_t i = 0; i < 20; i++)
        blocks[i] = i == 7 ? 41 : 1;   // mean 3, median 1
    plan_window(blocks, 20, 100, 1000, 5, 0, 1000 * second, 0.05, &forecast);
    ck_assert_double_eq_tol(forecast.remaining_seconds, 3 * 10 + 5, 1e-9);
    ck_assert(forecast.remaining_upper_seconds > forecast.remaining_seconds + 10);
    ck_assert_int_eq(forecast.end_wall_ns, 35 * second);
    ck_assert(forecast.inside);
    plan_window(blocks, 20, 100, 1000, 5, 0, 36 * second, 0.05, &forecast);
    ck_assert(!forecast.inside);   // the expected end is inside, its upper bound is not
}
END_TEST

static const struct {
    double block, fixed, margin;
    int64_t deadline_s;
    bool inside;
} forecasts[] = {
    {1, 0, 0, 10, true},           {1, 0, 0, 9, false},      {1, 1, 0, 10, false},
    {1, 0, 0.1, 11, true},         {1, 0, 0.2, 11, false},   {NAN, 0, 0, 1000, false},
    {INFINITY, 0, 0, 1000, false}, {1, NAN, 0, 1000, false}, {1, 0, NAN, 1000, false},
    {1e300, 0, 0, 1000, false},
};

START_TEST(a_forecast_is_inside_only_when_its_figure_says_so)
{
    double blocks[] = {forecasts[_i].block, forecasts[_i].block};
    WindowForecast forecast;
    for (size_t count = 1; count <= 2; count++) {
        plan_window(blocks, count, 10, 100, forecasts[_i].fixed, 50 * second,
                    (50 + forecasts[_i].deadline_s) * second, forecasts[_i].margin, &forecast);
        ck_assert_msg(forecast.inside == forecasts[_i].inside, "row %d with %zu blocks", _i, count);
    }
}
END_TEST

START_TEST(a_forecast_from_no_blocks_is_a_bug)
{
    WindowForecast forecast;
    plan_window(NULL, 0, 10, 100, 0, 0, 0, 0, &forecast);
}
END_TEST

static const struct {
    const char *zone, *time, *length, *start, *deadline, *slot;
} deadlines[] = {
    {"Europe/Berlin", "06:00", "0", "2026-11-30T22:00:00+01:00", "2026-12-01T06:00:00.000+01:00",
     "2026-12-01"},
    {"Europe/Berlin", "06:00", "0", "2026-11-30T05:59:59+01:00", "2026-11-30T06:00:00.000+01:00",
     "2026-11-30"},
    {"Europe/Berlin", "06:00", "0", "2026-11-30T06:00:00+01:00", "2026-12-01T06:00:00.000+01:00",
     "2026-12-01"},   // strictly after
    {"Europe/Berlin", "06:00", "0", "2026-03-28T22:00:00+01:00", "2026-03-29T06:00:00.000+02:00",
     "2026-03-29"},   // 7 hours, not 8
    {"Europe/Berlin", "06:00", "0", "2026-10-24T22:00:00+02:00", "2026-10-25T06:00:00.000+01:00",
     "2026-10-25"},   // 9 hours
    {"Europe/Berlin", "02:30", "0", "2026-03-28T22:00:00+01:00", "2026-03-29T03:00:00.000+02:00",
     "2026-03-29"},   // does not exist
    {"Europe/Berlin", "02:30", "0", "2026-10-24T22:00:00+02:00", "2026-10-25T02:30:00.000+02:00",
     "2026-10-25"},   // the first of two
    {"America/New_York", "06:00", "0", "2026-11-30T22:00:00+01:00", "2026-12-01T06:00:00.000-05:00",
     "2026-12-01"},
    {"America/New_York", "06:00", "0", "2026-03-07T06:00:00-05:00", "2026-03-08T06:00:00.000-04:00",
     "2026-03-08"},   // 23 hours
    {"America/New_York", "02:30", "0", "2026-03-07T22:00:00-05:00", "2026-03-08T03:00:00.000-04:00",
     "2026-03-08"},
    {"America/New_York", "01:30", "0", "2026-10-31T22:00:00-04:00", "2026-11-01T01:30:00.000-04:00",
     "2026-11-01"},
    {"Asia/Tokyo", "02:30", "0", "2026-03-28T22:00:00+01:00", "2026-03-30T02:30:00.000+09:00", "2026-03-30"},
    {"Europe/Berlin", "02:30", "0", "2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00.000+01:00",
     "2026-10-26"},   // begun at the first of the two: the second is not another deadline
    {"Europe/Berlin", "06:00", "30min", "2026-11-30T22:00:00+01:00", "2026-11-30T22:30:00.000+01:00",
     "2026-12-01"},   // slot of the night
    {"Europe/Berlin", "06:00", "10h", "2026-11-30T22:00:00+01:00", "2026-12-01T06:00:00.000+01:00",
     "2026-12-01"},
};

START_TEST(the_deadline_is_an_instant_and_its_date_the_slot)
{
    char sets[3][64], text[CLOCK_TIME_SIZE], slot[11];
    int64_t start, deadline;
    Error error = ERROR_INIT;
    ck_assert(text_print(sets[0], sizeof sets[0], "window.zone=%s", deadlines[_i].zone));
    ck_assert(text_print(sets[1], sizeof sets[1], "window.deadline=%s", deadlines[_i].time));
    ck_assert(text_print(sets[2], sizeof sets[2], "window.length=%s", deadlines[_i].length));
    OWNED(Config, config_free) *config = WITH(sets[0], sets[1], sets[2]);
    ck_assert(clock_parse(deadlines[_i].start, &start));
    ASSERT_OK(plan_deadline(config, start, &deadline, slot, &error), &error);
    clock_format(deadline, deadlines[_i].zone, text);
    ck_assert_str_eq(text, deadlines[_i].deadline);
    ck_assert_str_eq(slot, deadlines[_i].slot);
}
END_TEST

// A night of that many hours from its start to its deadline, and what it says of the clocks.
static const struct {
    const char *zone, *time, *start;
    double hours;
    const char *note;
} nights[] = {
    {"Europe/Berlin", "06:00", "2026-03-27T06:00:00+01:00", 24, ""},
    {"Europe/Berlin", "06:00", "2026-03-28T06:00:00+01:00", 23,
     "23 hours after the deadline of the day before"},
    {"Europe/Berlin", "06:00", "2026-03-29T06:00:00+02:00", 24, ""},
    {"Europe/Berlin", "06:00", "2026-10-24T06:00:00+02:00", 25,
     "25 hours after the deadline of the day before"},
    {"Europe/Berlin", "02:30", "2026-03-28T02:30:00+01:00", 23.5,
     "02:30 does not exist on 2026-03-29: the first instant after the gap"},
    {"Europe/Berlin", "02:30", "2026-10-24T02:30:00+02:00", 24,
     "02:30 comes twice on 2026-10-25: the first of the two"},
    {"Europe/Berlin", "02:30", "2026-10-25T02:30:00+02:00", 25,
     "25 hours after the deadline of the day before"},
    {"America/New_York", "06:00", "2026-03-07T06:00:00-05:00", 23,
     "23 hours after the deadline of the day before"},
    {"America/New_York", "01:30", "2026-10-31T01:30:00-04:00", 24,
     "01:30 comes twice on 2026-11-01: the first of the two"},
    {"Asia/Tokyo", "06:00", "2026-03-28T06:00:00+09:00", 24, ""},
    {"UTC", "02:30", "2026-10-24T02:30:00+00:00", 24, ""},
};

START_TEST(a_night_has_as_many_hours_as_its_clocks_leave)
{
    char sets[2][64], slot[11], note[PLAN_NOTE_SIZE];
    int64_t start, deadline;
    Error error = ERROR_INIT;
    ck_assert(text_print(sets[0], sizeof sets[0], "window.zone=%s", nights[_i].zone));
    ck_assert(text_print(sets[1], sizeof sets[1], "window.deadline=%s", nights[_i].time));
    OWNED(Config, config_free) *config = WITH(sets[0], sets[1]);
    ck_assert(clock_parse(nights[_i].start, &start));
    ASSERT_OK(plan_deadline(config, start, &deadline, slot, &error), &error);
    const int64_t hours_ns = (int64_t)(nights[_i].hours * 3600) * second;
    ck_assert_int_eq(deadline - start, hours_ns);
    plan_deadline_note(config, deadline, note);
    ck_assert_str_eq(note, nights[_i].note);
    // half an hour less than the night has fits, half an hour more does not; a day of 24 hours would say else
    for (int more = -1; more <= 1; more += 2) {
        double block = nights[_i].hours * 3600 / 10 + more * 180;
        const double blocks[] = {block, block, block};
        WindowForecast forecast;
        plan_window(blocks, 3, 100, 1000, 0, start, deadline, 0, &forecast);
        ck_assert_int_eq(forecast.inside, more < 0);
    }
}
END_TEST

START_TEST(a_night_ended_earlier_by_its_length_says_what_its_named_time_is)
{
    char note[PLAN_NOTE_SIZE], slot[11];
    int64_t start, deadline;
    Error error = ERROR_INIT;
    OWNED(Config, config_free) *config =
        WITH("window.zone=Europe/Berlin", "window.deadline=02:30", "window.length=1h");
    ck_assert(clock_parse("2026-03-28T22:00:00+01:00", &start));
    ASSERT_OK(plan_deadline(config, start, &deadline, slot, &error), &error);
    plan_deadline_note(config, deadline, note);
    ck_assert_str_eq(note, "02:30 does not exist on 2026-03-29: the first instant after the gap");
}
END_TEST

START_TEST(what_comes_after_training_is_part_of_the_forecast)
{
    const double blocks[] = {60, 60, 60, 60};
    WindowForecast forecast;
    // ten minutes of training left, and parity may take as long again
    plan_window(blocks, 4, 100, 1000, 0, 0, 900 * second, 0, &forecast);
    ck_assert(forecast.inside);
    plan_window(blocks, 4, 100, 1000, 600, 0, 900 * second, 0, &forecast);
    ck_assert(!forecast.inside);
    ck_assert_int_eq(forecast.end_wall_ns, 1200 * second);
    plan_window(blocks, 4, 100, 1000, 600, 0, 1200 * second, 0, &forecast);
    ck_assert(forecast.inside);
}
END_TEST

START_TEST(without_a_zone_the_machines_own_is_used)
{
    char zone[PLAN_ZONE_SIZE];
    Error error = ERROR_INIT;
    OWNED(Config, config_free) *config = WITH("window.zone=");
    plan_zone(config, zone);
    ck_assert(zone[0]);
    ASSERT_OK(clock_zone_check(zone, &error), &error);
    OWNED(Config, config_free) *named = WITH("window.zone=Asia/Tokyo");
    plan_zone(named, zone);
    ck_assert_str_eq(zone, "Asia/Tokyo");
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("plan window");
    TCase *tests = tcase_create("plan window");
    tcase_add_loop_test(tests, a_change_for_the_slower_is_what_is_to_come, 0,
                        sizeof changes / sizeof changes[0]);
    tcase_add_test(tests, a_trend_goes_on);
    tcase_add_test(tests, stalls_are_told);
    tcase_add_test(tests, the_work_of_a_pass_is_that_of_its_products);
    tcase_add_test(tests, the_forecast_counts_stalls_that_a_median_forgets);
    tcase_add_loop_test(tests, a_forecast_is_inside_only_when_its_figure_says_so, 0,
                        sizeof forecasts / sizeof forecasts[0]);
    tcase_add_test_raise_signal(tests, a_forecast_from_no_blocks_is_a_bug, 6);
    tcase_add_loop_test(tests, the_deadline_is_an_instant_and_its_date_the_slot, 0,
                        sizeof deadlines / sizeof deadlines[0]);
    tcase_add_loop_test(tests, a_night_has_as_many_hours_as_its_clocks_leave, 0,
                        sizeof nights / sizeof nights[0]);
    tcase_add_test(tests, a_night_ended_earlier_by_its_length_says_what_its_named_time_is);
    tcase_add_test(tests, what_comes_after_training_is_part_of_the_forecast);
    tcase_add_test(tests, without_a_zone_the_machines_own_is_used);
    suite_add_tcase(suite, tests);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(suite());
    srunner_run_all(runner, CK_ENV);
    int bad = srunner_ntests_failed(runner);
    srunner_free(runner);
    return bad != 0;
}
