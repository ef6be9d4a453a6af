// stats_equivalence_test - Student's distribution, equivalence in three answers, Holm, slopes and decisions,
// against closed forms, published tables and worked examples.
#include <fedgate/stats.h>

#include <check.h>
#include <math.h>
#include <stdlib.h>

static void assert_near(double value, double wanted, double tolerance)
{
    ck_assert_msg(fabs(value - wanted) <= tolerance, "%.12g is not %.12g within %g", value, wanted,
                  tolerance);
}

#define COUNT(rows) (int)(sizeof(rows) / sizeof(rows)[0])

// Upper 5 % and 2.5 % points of the usual table; the rest by Simpson's rule on the density.
static const struct {
    double t, freedom, probability;
} cdf_rows[] = {
    {6.313751514675043, 1, 0.95},
    {2.919985580355516, 2, 0.95},
    {1.812461122811676, 10, 0.95},
    {2.228138851964939, 10, 0.975},
    {-1.812461122811676, 10, 0.05},
    {2.3, 5, 0.9651137653339825},
    {-1.1, 7, 0.15385812754704387},
    {0.4, 30, 0.6540047417429034},
    {3.7, 12, 0.9984821145177565},
    {1.959963984540054, 1e9, 0.975},
    {0, 4, 0.5},
    {INFINITY, 3, 1},
    {-INFINITY, 3, 0},
    {1e200, 3, 1},
    {-1e200, 3, 0},
};

START_TEST(student_probabilities_match_tables)
{
    assert_near(stats_t_cdf(cdf_rows[_i].t, cdf_rows[_i].freedom), cdf_rows[_i].probability, 1e-12);
}
END_TEST

START_TEST(student_probabilities_match_closed_forms)
{
    for (double t = -30; t <= 30; t += 0.37) {
        assert_near(stats_t_cdf(t, 1), 0.5 + atan(t) / M_PI, 1e-13);
        assert_near(stats_t_cdf(t, 2), 0.5 + t / (2 * sqrt(2 + t * t)), 1e-13);
        double scaled = t / sqrt(3);
        assert_near(stats_t_cdf(t, 3), 0.5 + (scaled / (1 + t * t / 3) + atan(scaled)) / M_PI, 1e-13);
    }
    assert_near(stats_t_cdf(1e-7, 1), 0.5 + 1e-7 / M_PI, 1e-15);   // near 0 no digit is lost
    for (double v = 1; v < 60; v += 6) {
        assert_near(stats_t_cdf(stats_t_quantile(0.95, v), v), 0.95, 1e-12);
    }
    ck_assert(isnan(stats_t_quantile(0, 3)) && isnan(stats_t_quantile(NAN, 3)));
    ck_assert(isnan(stats_t_cdf(NAN, 3)) && isnan(stats_t_cdf(1, 0)) && isnan(stats_t_cdf(1, NAN)));
}
END_TEST

// Half width of the 90 % interval in standard deviations, by pairs: parity table of the field.
static const struct {
    size_t pairs;
    double half;
} width_rows[] = {{2, 4.46}, {3, 1.69}, {4, 1.18}, {5, 0.95}, {6, 0.82}, {8, 0.67}, {10, 0.58}, {20, 0.39}};

START_TEST(half_widths_match_the_table)
{
    double x[20];
    size_t n = width_rows[_i].pairs;
    for (size_t i = 0; i < n; i++) {
        x[i] = i % 2 == 0 ? 1 : -1;
    }
    EquivalenceTest test;
    stats_equivalence(x, n, 1, 0.05, 0, &test);
    assert_near(test.half_width / test.deviation, width_rows[_i].half, 0.005);
    assert_near(test.deviation, sqrt(stats_variance(x, n)), 1e-15);
    assert_near(test.lower, test.mean - test.half_width, 1e-15);
    assert_near(test.upper, test.mean + test.half_width, 1e-15);
    ck_assert_uint_eq(test.pairs, n);
}
END_TEST

START_TEST(equivalence_has_three_answers)
{
    const double near[] = {0.001, -0.001, 0.0005, -0.0005, 0.0002, -0.0002, 0.0008, -0.0008};
    const double above[] = {0.021, 0.019, 0.0205, 0.0195};
    const double below[] = {-0.021, -0.019, -0.0205, -0.0195};
    const double wide[] = {0.01, -0.01, 0.02, -0.02};
    EquivalenceTest test;
    stats_equivalence(near, 8, 0.005, 0.05, 0, &test);
    ck_assert_int_eq(test.answer, EQUIVALENCE_HELD);
    // sd 0.000 753 by hand: sqrt((2 (1 + 0.25 + 0.04 + 0.64) 1e-6) / 7); t(0.95, 7) = 1.894 578 6
    assert_near(test.deviation, sqrt(3.86e-6 / 7), 1e-12);
    assert_near(test.half_width, 1.894578605 * sqrt(3.86e-6 / 7) / sqrt(8), 1e-11);
    ck_assert_uint_eq(test.needed, 2);
    stats_equivalence(above, 4, 0.005, 0.05, 0, &test);
    ck_assert_int_eq(test.answer, EQUIVALENCE_BROKEN);
    stats_equivalence(below, 4, 0.005, 0.05, 0, &test);
    ck_assert_int_eq(test.answer, EQUIVALENCE_BROKEN);
    stats_equivalence(wide, 4, 0.005, 0.05, 0, &test);
    ck_assert_int_eq(test.answer, EQUIVALENCE_UNDECIDED);
    ck_assert_uint_eq(test.needed, stats_pairs_needed(test.deviation, 0.005, 0.05, 0.8));
    stats_equivalence(above, 4, 0.0201, 0.05, 0, &test);   // the interval holds the margin itself
    ck_assert_int_eq(test.answer, EQUIVALENCE_UNDECIDED);
    stats_equivalence(below, 4, 0.0201, 0.05, 0, &test);
    ck_assert_int_eq(test.answer, EQUIVALENCE_UNDECIDED);
}
END_TEST

START_TEST(a_floor_widens_what_was_measured_in_steps)
{
    const double steps[] = {0, 0, 0, 0.001, 0, 0, 0, -0.001};
    EquivalenceTest test;
    stats_equivalence(steps, 8, 0.005, 0.05, 0, &test);
    double measured = test.deviation;
    stats_equivalence(steps, 8, 0.005, 0.05, 0.02 / sqrt(12), &test);
    ck_assert(measured < 0.001);
    assert_near(test.deviation, 0.02 / sqrt(12), 1e-15);
    stats_equivalence(steps, 8, 0.005, 0.05, 1e-9, &test);   // a floor below it changes nothing
    assert_near(test.deviation, measured, 0);
}
END_TEST

START_TEST(what_tests_nothing_is_void)
{
    const double fine[] = {0.001, -0.001, 0.0005};
    const double same[] = {0.001, 0.001, 0.001};
    const double bad[] = {0.001, NAN, 0.002};
    const double endless[] = {0.001, 0.002, INFINITY};
    EquivalenceTest test;
    const struct {
        const double *x;
        size_t n;
        double margin, alpha, floor;
    } rows[] = {
        {fine, 0, 1, 0.05, 0},  {fine, 1, 1, 0.05, 0},        {same, 3, 1, 0.05, 0},
        {bad, 3, 1, 0.05, 0},   {endless, 3, 1, 0.05, 0},     {fine, 3, 0, 0.05, 0},
        {fine, 3, -1, 0.05, 0}, {fine, 3, NAN, 0.05, 0},      {fine, 3, INFINITY, 0.05, 0},
        {fine, 3, 1, 0, 0},     {fine, 3, 1, 0.5, 0},         {fine, 3, 1, NAN, 0},
        {fine, 3, 1, 0.05, -1}, {fine, 3, 1, 0.05, INFINITY}, {fine, 3, 1, 0.05, NAN},
        {same, 3, 1, 0.05, 1},
    };
    for (int i = 0; i < COUNT(rows); i++) {
        stats_equivalence(rows[i].x, rows[i].n, rows[i].margin, rows[i].alpha, rows[i].floor, &test);
        ck_assert_msg(test.answer == EQUIVALENCE_VOID, "row %d", i);
    }
    stats_equivalence(same, 3, 1, 0.05, 0, &test);
    assert_near(test.mean, 0.001, 1e-18);   // shown, though no test
    stats_equivalence(fine, 1, 1, 0.05, 0, &test);
    ck_assert(isnan(test.mean) && isnan(test.half_width) && test.needed == SIZE_MAX);
}
END_TEST

START_TEST(error_is_spent_over_looks)
{
    assert_near(stats_alpha_of_look(0.05, 1), 0.05 * 0.6079271018540267, 1e-15);
    assert_near(stats_alpha_of_look(0.05, 3), stats_alpha_of_look(0.05, 1) / 9, 1e-15);
    double sum = 0;
    for (int64_t look = 1; look <= 20000; look++) {
        sum += stats_alpha_of_look(0.05, look);
    }
    ck_assert(sum < 0.05 && sum > 0.04999);
    ck_assert(isnan(stats_alpha_of_look(0.05, 0)) && isnan(stats_alpha_of_look(0.05, -1)));
}
END_TEST

// Computed apart from this program, with Student quantiles by bisection on Simpson's rule.
static const struct {
    double ratio, alpha, power;
    size_t needed;
} needed_rows[] = {
    {0, 0.05, 0.8, 2},
    {0.1, 0.05, 0.8, 2},
    {0.25, 0.05, 0.8, 3},
    {0.5, 0.05, 0.8, 4},
    {0.75, 0.05, 0.8, 7},
    {1, 0.05, 0.8, 11},
    {1.5, 0.05, 0.8, 21},
    {2, 0.05, 0.8, 36},
    {3, 0.05, 0.8, 79},
    {1, 0.05, 0.9, 13},
    {1, 0.0303963550927013, 0.8, 12},
    {1e5, 0.05, 0.8, SIZE_MAX},
    {1, 0, 0.8, SIZE_MAX},
    {1, 0.5, 0.8, SIZE_MAX},
    {1, 0.05, 0, SIZE_MAX},
    {1, 0.05, 1, SIZE_MAX},
    {NAN, 0.05, 0.8, SIZE_MAX},
    {-1, 0.05, 0.8, SIZE_MAX},
};

START_TEST(pairs_needed_match_an_independent_search)
{
    size_t needed = stats_pairs_needed(0.004 * needed_rows[_i].ratio, 0.004, needed_rows[_i].alpha,
                                       needed_rows[_i].power);
    ck_assert_uint_eq(needed, needed_rows[_i].needed);
}
END_TEST

START_TEST(pairs_needed_follow_the_rule_of_thumb)
{
    for (double ratio = 0.5; ratio < 6; ratio += 0.5) {
        double rule = 8.6 * ratio * ratio + 2;
        assert_near((double)stats_pairs_needed(ratio, 1, 0.05, 0.8), rule, 1.6);
    }
    ck_assert_uint_eq(stats_pairs_needed(1, 0, 0.05, 0.8), SIZE_MAX);
    ck_assert_uint_eq(stats_pairs_needed(1, NAN, 0.05, 0.8), SIZE_MAX);
    ck_assert_uint_eq(stats_pairs_needed(1, 0.05, NAN, 0.8), SIZE_MAX);
    ck_assert_uint_eq(stats_pairs_needed(1, 0.05, 0.05, NAN), SIZE_MAX);
    ck_assert_uint_eq(stats_pairs_needed(INFINITY, 1, 0.05, 0.8), SIZE_MAX);
}
END_TEST

static const struct {
    double p[4];
    double alpha;
    bool rejected[4];
} holm_rows[] = {
    // The usual worked example: 0.005 <= 0.05 / 4, 0.01 <= 0.05 / 3, 0.03 > 0.05 / 2 and everything after
    // holds.
    {{0.01, 0.04, 0.03, 0.005}, 0.05, {true, false, false, true}},
    {{0.01, 0.02, 0.025, 0.0125}, 0.05, {true, true, true, true}},
    {{0.02, 0.02, 0.02, 0.02}, 0.05, {false, false, false, false}},
    {{0.0125, 0.9, 0.9, 0.9}, 0.05, {true, false, false, false}},   // exactly at the bar
    {{NAN, 0.9, 0.9, 0.9}, 0.05, {true, false, false, false}},
    {{0.9, NAN, 0.015, 0.9}, 0.05, {false, true, true, false}},   // 0.015 <= 0.05 / 3 once NaN is out
    {{-1, 2, 0.9, INFINITY}, 0.05, {true, true, false, true}},
    {{1, 1, 1, 1}, 1, {false, false, false, false}},
};

START_TEST(holm_steps_down)
{
    bool rejected[4] = {true, true, true, true};
    stats_holm(holm_rows[_i].p, 4, holm_rows[_i].alpha, rejected);
    for (int k = 0; k < 4; k++) {
        ck_assert_msg(rejected[k] == holm_rows[_i].rejected[k], "row %d, hypothesis %d", _i, k);
    }
    stats_holm(NULL, 0, 0.05, NULL);
}
END_TEST

START_TEST(slopes_of_powers)
{
    const double x[] = {256, 4096, 65536};
    const double flat[] = {0.003, 0.003, 0.003};
    const double root[] = {0.016, 0.064, 0.256};
    const double zero[] = {0.1, 0, 0.1};
    const double bad[] = {0.1, NAN, 0.1};
    const double same[] = {5, 5, 5};
    assert_near(stats_power_slope(x, flat, 3), 0, 1e-15);
    assert_near(stats_power_slope(x, root, 3), 0.5, 1e-12);
    assert_near(stats_power_slope(x, root, 2), 0.5, 1e-12);
    // BF16 accumulation as emulated: 1.9e-2, 6.5e-2, 2.5e-1; two thirds of the logs by hand
    const double measured[] = {1.9e-2, 6.5e-2, 2.5e-1};
    assert_near(stats_power_slope(x, measured, 3), log(2.5e-1 / 1.9e-2) / (2 * log(16)), 1e-12);
    ck_assert(isnan(stats_power_slope(x, zero, 3)) && isnan(stats_power_slope(x, bad, 3)));
    ck_assert(isnan(stats_power_slope(zero, x, 3)) && isnan(stats_power_slope(same, x, 3)));
    ck_assert(isnan(stats_power_slope(x, flat, 1)) && isnan(stats_power_slope(x, flat, 0)));
}
END_TEST

START_TEST(decisions_by_the_whole_cost_matrix)
{
    const double score[] = {0.9, 0.8, 0.4, 0.2, 0.1};
    const double label[] = {1, 0, 1, 0, 0};
    const DecisionUtility utility = {10, 3, 7, 0.5};
    // acted on 0.9 and 0.8: one right (10), one wrong (-3); 0.4 missed (-7); two rightly left (1)
    assert_near(stats_decision_utility(score, label, 5, 0.5, &utility), (10 - 3 - 7 + 1) / 5.0, 1e-15);
    assert_near(stats_decision_utility(score, label, 5, 0.9, &utility), (10 - 7 + 1.5) / 5, 1e-15);
    ck_assert(isnan(stats_decision_utility(score, label, 0, 0.5, &utility)));
    ck_assert(isnan(stats_decision_utility(score, label, 5, NAN, &utility)));
    // 0.4: 20 - 3 + 1 = 18 of 5; 0.9: 4.5; 0.8: 1; 0.2: 20 - 6 + 0.5 = 14.5; all: 11; nobody: -12.5
    assert_near(stats_decision_threshold(score, label, 5, &utility), 0.4, 0);
    const DecisionUtility costly = {1, 100, 0, 0};
    assert_near(stats_decision_threshold(score, label, 5, &costly), 0.9, 0);
    const DecisionUtility missing_costs = {0, 1, 5, 0};   // only what is missed matters
    assert_near(stats_decision_threshold(score, label, 5, &missing_costs), 0.4, 0);
    ck_assert(isnan(stats_decision_threshold(score, label, 0, &utility)));
    double best = -INFINITY;
    for (int i = 0; i < 5; i++) {
        best = fmax(best, stats_decision_utility(score, label, 5, score[i], &utility));
    }
    assert_near(stats_decision_utility(score, label, 5, 0.4, &utility), best, 0);
}
END_TEST

START_TEST(decisions_of_several_classes)
{
    const double score[] = {0.5, 0.3, 0.2, 0.1, 0.6, 0.3, 0.4, 0.4, 0.2};
    const double target[] = {0, 2, 1};
    const Predictions p = {score, 3, 3};
    // by probability: 0 (right), 1 (wrong), 0 among equals (wrong)
    assert_near(stats_class_utility(p, target, NULL), 1.0 / 3, 1e-15);
    const double utility[] = {1, 0, 0, 0, 1, 0, -5, -5, 4};   // missing class 2 is bad
    // row 1: expected of deciding 0, 1, 2: 0.5 - 1, 0.3 - 1, 0.8 -> 2, truth 0: 0
    // row 2: 0.1 - 1.5, 0.6 - 1.5, 1.2 -> 2, truth 2: 4; row 3: 0.4 - 1, 0.4 - 1, 0.8 -> 2, truth 1: 0
    assert_near(stats_class_utility(p, target, utility), 4.0 / 3, 1e-15);
    const double outside[] = {0, 3, 1};
    const double below[] = {0, -1, 1};
    const double between[] = {0, 0.5, 1};
    const double bad[] = {0.5, NAN, 0.5, 0.1, 0.6, 0.3, 0.4, 0.4, 0.2};
    ck_assert(isnan(stats_class_utility(p, outside, NULL)) && isnan(stats_class_utility(p, below, NULL)));
    ck_assert(isnan(stats_class_utility(p, between, NULL)));
    ck_assert(isnan(stats_metric(METRIC_LOGLOSS, p, below, NULL)));
    ck_assert(isnan(stats_class_utility((Predictions){bad, 3, 3}, target, NULL)));
    ck_assert(isnan(stats_class_utility((Predictions){score, 0, 3}, target, NULL)));
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("stats_equivalence");
    TCase *c = tcase_create("all");
    tcase_add_loop_test(c, student_probabilities_match_tables, 0, COUNT(cdf_rows));
    tcase_add_test(c, student_probabilities_match_closed_forms);
    tcase_add_loop_test(c, half_widths_match_the_table, 0, COUNT(width_rows));
    tcase_add_test(c, equivalence_has_three_answers);
    tcase_add_test(c, a_floor_widens_what_was_measured_in_steps);
    tcase_add_test(c, what_tests_nothing_is_void);
    tcase_add_test(c, error_is_spent_over_looks);
    tcase_add_loop_test(c, pairs_needed_match_an_independent_search, 0, COUNT(needed_rows));
    tcase_add_test(c, pairs_needed_follow_the_rule_of_thumb);
    tcase_add_loop_test(c, holm_steps_down, 0, COUNT(holm_rows));
    tcase_add_test(c, slopes_of_powers);
    tcase_add_test(c, decisions_by_the_whole_cost_matrix);
    tcase_add_test(c, decisions_of_several_classes);
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
