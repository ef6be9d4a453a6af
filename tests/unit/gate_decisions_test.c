// gate_decisions_test - what decisions are worth, whether scores are calibrated, and a slice that only the
// candidate cannot score.
#include "../../src/gate/gate_internal.h"   // the utility a margin is measured in
#include "gate_fixture.h"

#define PAIR_OF_LOSS(against, b, difference, utility, gain)                                                  \
    "{\"against\":\"" against "\",\"value_a\":0.5,\"value_b\":" b ",\"difference\":" difference              \
    ",\"standard_error\":0,\"lower\":" difference ",\"upper\":" difference                                   \
    ",\"rows\":1000,\"identical\":false,\"constant\":false,\"utility_a\":0.8,\"utility_b\":" utility         \
    ",\"utility_difference\":" gain ",\"utility_standard_error\":0.001,\"bootstrap\":{\"replicates\":400,"   \
    "\"lower\":" difference ",\"upper\":" difference ",\"utility_lower\":" gain ",\"utility_upper\":" gain   \
    "}}"
#define PAIR_WITHOUT_UTILITY                                                                                 \
    "{\"against\":\"prior\",\"value_a\":0.5,\"value_b\":1,\"difference\":0.5,\"standard_error\":0,"          \
    "\"lower\":0.5,\"upper\":0.5,\"rows\":1000,\"identical\":false,\"constant\":false,\"bootstrap\":"        \
    "{\"replicates\":400,\"lower\":0.5,\"upper\":0.5}}"
#define CLASSES(pairs, models)                                                                               \
    "{\"metric\":\"logloss\",\"live_kind\":\"none\",\"rows\":1000,\"models\":{"                              \
    "\"candidate\":{\"version\":\"m-0123456789abcdef\",\"logloss\":"                                         \
    "0.5,\"utility\":0.8}," models "},\"pairs\":[" pairs "],\"slices\":[]}"
#define SHOWN(name, loss, utility) "\"" name "\":{\"logloss\":" loss ",\"utility\":" utility "}"
#define SLICE(rows, candidate, reference)                                                                    \
    "{\"column\":\"job\",\"value\":\"cook\",\"rows\":" rows ",\"positives\":1,\"candidate\":" candidate      \
    ",\"reference\":" reference ",\"reference_name\":\"linear\",\"difference\":\"nan\",\"lower\":\"nan\","   \
    "\"upper\":\"nan\"}"

// clang-format off: one row a line
static const Row decision_rows[] = {
    {"classes told apart, decisions worth more",
     "quality",
     {{"task", "\"multiclass\""},
      {"quality", CLASSES(PAIR_OF_LOSS("prior", "1", "0.5", "0.4",
                                       "0.4") "," PAIR_OF_LOSS("linear", "0.625", "0.2", "0.7", "0.1"),
                          SHOWN("prior", "1", "0.4") "," SHOWN("linear", "0.625", "0.7"))}},
     PASS,
     "logloss 0.5 against 0.625 of 'linear'",
     {0}},
    {"classes told apart, decisions worth less than the baseline's",
     "quality",
     {{"task", "\"multiclass\""},
      {"quality", CLASSES(PAIR_OF_LOSS("prior", "1", "0.5", "0.4",
                                       "0.4") "," PAIR_OF_LOSS("linear", "0.625", "0.2", "0.81", "-0.01"),
                          SHOWN("prior", "1", "0.4") "," SHOWN("linear", "0.625", "0.81"))}},
     FAILS,
     "decision utility a row 0.8 against 0.81 of 'linear': difference -0.01, with 95 % confidence from "
     "-0.01164 to -0.008355: the decisions are worse",
     {0}},
    {"classes told apart, decisions not measured",
     "quality",
     {{"task", "\"multiclass\""}, {"quality", CLASSES(PAIR_WITHOUT_UTILITY, SHOWN("prior", "1", "0.4"))}},
     ABSENT,
     "utility_a",
     {0}},
    {"classes are not calibrated as one score is",
     "quality",
     {{"task", "\"multiclass\""},
      {"quality", CLASSES(PAIR_OF_LOSS("prior", "1", "0.5", "0.4",
                                       "0.4") "," PAIR_OF_LOSS("linear", "0.625", "0.2", "0.7", "0.1"),
                          SHOWN("prior", "1", "0.4") "," SHOWN("linear", "0.625", "0.7"))},
      {"quality.calibration", NULL}},
     PASS,
     "0 too small to judge",
     {0}},

    {"calibrated", "quality", {{0}}, PASS, "calibration error 0.02", {0}},
    {"not calibrated",
     "quality",
     {{"quality.calibration.ece", "0.11"}},
     FAILS,
     "expected calibration error is 11.00 %, may be at most 10.00 %",
     {0}},
    {"calibrated to the limit", "quality", {{"quality.calibration.ece", "0.1"}}, PASS, "", {0}},
    {"a stricter limit",
     "quality",
     {{0}},
     FAILS,
     "may be at most 1.00 %",
     {"quality.calibration=0.01", NULL}},
    {"calibration not a number",
     "quality",
     {{"quality.calibration.ece", "\"nan\""}},
     FAILS,
     "calibration error is nan",
     {0}},
    {"calibration not measured",
     "quality",
     {{"quality.calibration", NULL}},
     ABSENT,
     "'quality.calibration'",
     {0}},
    {"calibration of another type", "quality", {{"quality.calibration", "7"}}, ERR, "not an object", {0}},
    {"an error without figure", "quality", {{"quality.calibration.ece", NULL}}, ABSENT, "ece", {0}},
    {"an impossible error",
     "quality",
     {{"quality.calibration.ece", "1.01"}},
     ERR,
     "calibration error is 1.01",
     {0}},
    {"a negative error",
     "quality",
     {{"quality.calibration.ece", "-0.1"}},
     ERR,
     "calibration error is -0.1",
     {0}},
    {"switched off",
     "quality",
     {{"quality.calibration", NULL}},
     PASS,
     "0 too small to judge",
     {"quality.calibration=0", NULL}},

    {"one small slice that only the candidate cannot score",
     "quality",
     {{"quality.slices", "[" SLICE("5", "\"nan\"", "0.7") "]"}},
     FAILS,
     "slice job 'cook': the candidate's metric is nan, that of 'linear' 0.7",
     {0}},
    {"an infinite figure of one slice",
     "quality",
     {{"quality.slices", "[" SLICE("1000", "\"inf\"", "0.7") "]"}},
     FAILS,
     "the candidate's metric is inf",
     {0}},
    {"one slice goes before a whole that is not a number either",
     "quality",
     {{"quality.slices", "[" SLICE("5", "\"nan\"", "0.7") "]"}, {"quality.pairs.0.value_a", "\"nan\""}},
     FAILS,
     "slice job 'cook'",
     {0}},
    {"a slice that nobody can score",
     "quality",
     {{"quality.slices", "[" SLICE("1000", "\"nan\"", "\"nan\"") "]"}},
     PASS,
     "1 too small",
     {0}},
};
// clang-format on

ROW_TEST(decisions_are_judged, decision_rows)

// 499 rows: the pairs, the profile and the rows of quality say so together.
START_TEST(few_rows_tell_nothing_of_calibration)
{
    OWNED(Json, json_free) *evidence = good_evidence();
    const Edit edits[] = {{"quality.rows", "499"},
                          {"input.rows.test", "499"},
                          {"quality.pairs.0.rows", "499"},
                          {"quality.pairs.1.rows", "499"},
                          {"quality.calibration.ece", "0.3"}};
    const char *const no_sets[2] = {NULL, NULL};
    OWNED(Config, config_free) *policy = load_policy(no_sets);
    for (size_t i = 0; i < sizeof edits / sizeof edits[0]; i++)
        apply(evidence, &edits[i]);
    Finding finding;
    check_quality(evidence, policy, &finding);
    ck_assert_msg(finding.outcome == PASS, "%s", finding.reason);
    ck_assert_ptr_nonnull(strstr(finding.reason, "499 rows are too few for calibration"));
    const Edit unknown = {"quality.calibration.ece", "\"nan\""};
    apply(evidence, &unknown);
    check_quality(evidence, policy, &finding);
    ck_assert_int_eq(finding.outcome, FAILS);
}
END_TEST

static const struct {
    const char *sets[2];
    bool binary;
    double largest;
} utilities[] = {
    {{NULL, NULL}, true, 1},
    {{"quality.cost_fn=-5", NULL}, true, 5},
    {{"quality.benefit_tn=3", "quality.cost_fp=2"}, true, 3},
    {{NULL, NULL}, false, 1},
    {{"quality.utilities=[2,0,-7,1]", NULL}, false, 7},
    {{"quality.utilities=[0,0,0,0]", NULL}, false, 0},
};

START_TEST(a_margin_on_decisions_is_a_share_of_the_largest_utility)
{
    OWNED(Config, config_free) *policy = load_policy(utilities[_i].sets);
    ck_assert_double_eq(largest_utility(policy, utilities[_i].binary), utilities[_i].largest);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("gate_decisions_test");
    TCase *c = tcase_create("rows");
    tcase_add_loop_test(c, decisions_are_judged, 0, COUNT(decision_rows));
    tcase_add_test(c, few_rows_tell_nothing_of_calibration);
    tcase_add_loop_test(c, a_margin_on_decisions_is_a_share_of_the_largest_utility, 0, COUNT(utilities));
    suite_add_tcase(s, c);
    return s;
}

int main(void)
{
    return run_suite(suite());
}
