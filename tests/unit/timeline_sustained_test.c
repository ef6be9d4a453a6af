// timeline_sustained_test - the rule of sustained overlap, each part of it by itself.
#include <fedgate/timeline.h>

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 400 };
static const OverlapLimits usual = {0.8, 0.95, 0.05, 0.01};

typedef struct Run {
    double length[MOST], copy[MOST], hidden[MOST], kernel[MOST], starved[MOST], bytes[MOST], pageable[MOST];
    size_t count;
} Run;

// Steps of 1000 with copies of 200, 190 of them under kernels.
static void good_run(Run *run, size_t count)
{
    run->count = count;
    for (size_t i = 0; i < count; i++) {
        run->length[i] = 1000;
        run->copy[i] = 200;
        run->hidden[i] = 190;
        run->kernel[i] = 900;
        run->starved[i] = 0;
        run->bytes[i] = 100;
        run->pageable[i] = 0;
    }
}

static OverlapRuling judge(const Run *run)
{
    double scratch[2 * MOST];
    OverlapSeries series = {run->length,  run->copy,  run->hidden,   run->kernel,
                            run->starved, run->bytes, run->pageable, run->count};
    OverlapRuling ruling;
    overlap_judge(&series, &usual, scratch, &ruling);
    return ruling;
}

// Only this rule is broken.
static void breaks(const Run *run, OverlapRule rule)
{
    OverlapRuling ruling = judge(run);
    ck_assert_str_eq(overlap_word(ruling.word), "not_sustained");
    for (int i = 0; i < OVERLAP_RULE_COUNT; i++) {
        ck_assert_msg(overlap_holds(&ruling, (OverlapRule)i) == (i != (int)rule), "'%s' is %g",
                      overlap_rules[i].what, ruling.value[i]);
    }
}

START_TEST(a_good_run_is_sustained)
{
    Run run;
    good_run(&run, 40);
    OverlapRuling ruling = judge(&run);
    ck_assert_str_eq(overlap_word(ruling.word), "sustained");
    ck_assert_uint_eq(ruling.reached, 40);
    ck_assert_uint_eq(ruling.copying, 40);
    ck_assert(ruling.hidden_share == 0.95 && ruling.kernel_share == 0.9 && ruling.exposed_share == 0.01);
}
END_TEST

START_TEST(two_steps_of_forty_may_expose_their_copies_three_may_not)
{
    Run run;
    good_run(&run, 40);
    run.hidden[5] = run.hidden[25] = 150;
    ck_assert_str_eq(overlap_word(judge(&run).word), "sustained");
    run.hidden[35] = 150;
    OverlapRuling ruling = judge(&run);
    ck_assert_str_eq(overlap_word(ruling.word), "not_sustained");
    ck_assert(!overlap_holds(&ruling, OVERLAP_STEPS) && ruling.value[OVERLAP_STEPS] == 37.0 / 40);
}
END_TEST

START_TEST(the_bound_is_below_the_mean)
{
    Run run;
    good_run(&run, 100);
    for (size_t i = 0; i < 100; i++) {
        run.hidden[i] = 161;
    }
    ck_assert_str_eq(overlap_word(judge(&run).word), "sustained");
    for (size_t i = 50; i < 54; i++) {
        run.hidden[i] = 20;
    }
    OverlapRuling ruling = judge(&run);
    ck_assert(overlap_holds(&ruling, OVERLAP_STEPS) && !overlap_holds(&ruling, OVERLAP_BOUND));
}
END_TEST

START_TEST(bulk_copies_in_few_steps_must_hide_or_be_short)
{
    Run run;
    good_run(&run, 100);
    memset(run.copy, 0, sizeof run.copy);
    memset(run.hidden, 0, sizeof run.hidden);
    for (size_t i = 0; i < 4; i++) {
        run.copy[10 + 25 * i] = 240;   // 0.96 % of the time
    }
    OverlapRuling ruling = judge(&run);
    ck_assert_str_eq(overlap_word(ruling.word), "sustained");
    ck_assert_uint_eq(ruling.copying, 4);
    ck_assert(ruling.hidden_share == 0);
    for (size_t i = 0; i < 4; i++) {
        run.copy[10 + 25 * i] = 250;
    }
    breaks(&run, OVERLAP_BULK);
    for (size_t i = 0; i < 4; i++) {
        run.copy[10 + 25 * i] = 900;
        run.hidden[10 + 25 * i] = 800;
    }
    ck_assert_str_eq(overlap_word(judge(&run).word), "sustained");
}
END_TEST

START_TEST(one_absurd_length_hides_no_starvation)
{
    Run run;
    good_run(&run, 40);
    for (size_t i = 0; i < 40; i++) {
        run.starved[i] = 70;
    }
    breaks(&run, OVERLAP_STARVED);
    run.length[20] = 1e15;
    run.kernel[20] = 1e15;
    breaks(&run, OVERLAP_STARVED);
    for (size_t i = 0; i < 40; i++) {
        run.starved[i] = 50;
    }
    ck_assert_str_eq(overlap_word(judge(&run).word), "sustained");
    run.length[20] = 1000;
    ck_assert_str_eq(overlap_word(judge(&run).word), "sustained");
}
END_TEST

START_TEST(one_absurd_length_hides_no_bulk_copies)
{
    Run run;
    good_run(&run, 100);
    memset(run.copy, 0, sizeof run.copy);
    memset(run.hidden, 0, sizeof run.hidden);
    run.copy[10] = run.copy[60] = 600;
    run.length[30] = 1e15;
    breaks(&run, OVERLAP_BULK);
}
END_TEST

START_TEST(pageable_by_bytes_and_without_bytes_nothing_holds)
{
    Run run;
    good_run(&run, 40);
    run.pageable[20] = 40;
    ck_assert_str_eq(overlap_word(judge(&run).word), "sustained");
    run.pageable[20] = 41;
    breaks(&run, OVERLAP_PAGEABLE);
    memset(run.pageable, 0, sizeof run.pageable);
    memset(run.bytes, 0, sizeof run.bytes);
    breaks(&run, OVERLAP_PAGEABLE);
}
END_TEST

START_TEST(a_fall_that_is_no_chance_breaks_the_rule)
{
    Run run;
    good_run(&run, 100);
    for (size_t i = 0; i < 100; i++) {
        run.hidden[i] = 189 - 0.03 * (double)i;
    }
    breaks(&run, OVERLAP_TREND);
    for (size_t i = 0; i < 100; i++) {
        run.hidden[i] = 180 + 0.03 * (double)i;
    }
    ck_assert_str_eq(overlap_word(judge(&run).word), "sustained");
}
END_TEST

START_TEST(few_steps_fail_only_when_nothing_could_save_them)
{
    Run run;
    good_run(&run, 19);
    OverlapRuling ruling = judge(&run);
    ck_assert(ruling.few);
    ck_assert_str_eq(overlap_word(ruling.word), "inconclusive");
    run.hidden[0] = 0;   // 19 of 20 could still reach it
    ck_assert_str_eq(overlap_word(judge(&run).word), "inconclusive");
    run.hidden[1] = 0;
    ruling = judge(&run);
    ck_assert_str_eq(overlap_word(ruling.word), "not_sustained");
    ck_assert(ruling.value[OVERLAP_STEPS] == 18.0 / 20);
    good_run(&run, 20);
    ruling = judge(&run);
    ck_assert(!ruling.few && ruling.word == OVERLAP_SUSTAINED);
}
END_TEST

START_TEST(nothing_copied_is_no_verdict)
{
    Run run;
    good_run(&run, 40);
    memset(run.copy, 0, sizeof run.copy);
    memset(run.hidden, 0, sizeof run.hidden);
    ck_assert_str_eq(overlap_word(judge(&run).word), "no_copies");
    run.count = 0;
    ck_assert_str_eq(overlap_word(judge(&run).word), "no_copies");
}
END_TEST

START_TEST(what_is_no_number_never_holds)
{
    Run run;
    double *const series[] = {run.length, run.hidden, run.copy, run.starved, run.bytes, run.pageable};
    for (size_t i = 0; i < sizeof series / sizeof series[0]; i++) {
        good_run(&run, 40);
        series[i][7] = NAN;
        ck_assert_msg(judge(&run).word != OVERLAP_SUSTAINED, "series %zu", i);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("sustained");
    TCase *c = tcase_create("all");
    tcase_add_test(c, a_good_run_is_sustained);
    tcase_add_test(c, two_steps_of_forty_may_expose_their_copies_three_may_not);
    tcase_add_test(c, the_bound_is_below_the_mean);
    tcase_add_test(c, bulk_copies_in_few_steps_must_hide_or_be_short);
    tcase_add_test(c, one_absurd_length_hides_no_starvation);
    tcase_add_test(c, one_absurd_length_hides_no_bulk_copies);
    tcase_add_test(c, pageable_by_bytes_and_without_bytes_nothing_holds);
    tcase_add_test(c, a_fall_that_is_no_chance_breaks_the_rule);
    tcase_add_test(c, few_steps_fail_only_when_nothing_could_save_them);
    tcase_add_test(c, nothing_copied_is_no_verdict);
    tcase_add_test(c, what_is_no_number_never_holds);
    suite_add_tcase(s, c);
    return s;
}

int main(void)
{
    SRunner *r = srunner_create(suite());
    srunner_run_all(r, CK_ENV);
    int bad = srunner_ntests_failed(r);
    srunner_free(r);
    return bad != 0;
}
