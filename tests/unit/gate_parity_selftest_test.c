// gate_parity_selftest_test - planted bad candidates of the parity ladder, in BF16, FP16 and FP32 nights.
#include "../../src/gate/gate_internal.h"   // the judge of the self-test is replaced here
#include "gate_parity_fixture.h"

// What the judge says of each planted candidate, in the order shown.
static char said[64][240];
static Outcome answered[64];
static size_t shown;

static void judge_and_note(const GateCheck *check, const Json *evidence, const Config *policy,
                           JudgeScope scope, const Finding *before, Finding *ret)
{
    gate_run_check(check, evidence, policy, scope, before, ret);
    if (text_equal(check->name, "parity")) {
        ck_assert_uint_lt(shown, 64);
        answered[shown] = ret->outcome;
        snprintf(said[shown++], sizeof said[0], "%s", ret->reason);
    }
}

// In a good night each candidate is refused for what was planted, not for something else.
static const struct {
    const char *name, *reason;
    Outcome outcome;
} planted[] = {
    {"parity.nan", "error of probe 'layer' is nan", OUTCOME_FAIL},
    {"parity.loose", "could not tell FP32 from TF32", OUTCOME_ERROR},
    {"parity.one_probe", "is missing: 1 of 6 were asked", OUTCOME_NOT_MEASURED},
    {"parity.swapped", "the arms are swapped", OUTCOME_FAIL},
    {"parity.never_half", "computes like FP32", OUTCOME_FAIL},
    {"parity.loss_in_half", "the loss is accumulated", OUTCOME_FAIL},
    {"parity.nan_gradient", "error of the gradient 'planted' start is nan", OUTCOME_FAIL},
    {"parity.wrong_gradient", "of the gradient", OUTCOME_FAIL},
    {"parity.identical", "nothing was compared", OUTCOME_FAIL},
    {"parity.rounded_reference", "the reference errs", OUTCOME_FAIL},
    {"parity.blind", "the comparison cannot fail", OUTCOME_ERROR},
    {"parity.no_master", "no FP32 master weights", OUTCOME_FAIL},
    {"parity.unscaled_twice", "2^-16 times", OUTCOME_FAIL},
    {"parity.nothing_applied", "0 of 900 steps applied", OUTCOME_FAIL},
    {"parity.missing_rung", "'parity.trajectory' was not measured", OUTCOME_NOT_MEASURED},
    {"parity.other_course", "log ratio of the loss", OUTCOME_FAIL},
    {"parity.flat_metric", "zero variance", OUTCOME_FAIL},
    {"parity.worse_metric", "outside the margin", OUTCOME_FAIL},
    {"parity.seed_twice", "seed 1 stands in two pairs", OUTCOME_ERROR},
    {"parity.few_pairs", "pairs", OUTCOME_ERROR},
    {"parity.nan_slice", "slice planted 'planted' is nan", OUTCOME_FAIL},
};

START_TEST(planted_candidates_are_refused_for_what_was_planted)
{
    OWNED(Json, json_free) *evidence = half_evidence(_i == 0 ? BF16 : FP16);
    OWNED(Config, config_free) *policy = load_policy((const char *const[2]){0});
    OWNED(Json, json_free) *refused = json_make_array();
    OWNED(Json, json_free) *passed = json_make_array();
    shown = 0;
    ck_assert(gate_self_test_of(judge_and_note, evidence, policy, refused, passed));
    size_t at = 0;
    for (size_t i = 0; i < json_count(refused); i++) {
        const char *name = json_text_or(json_at(refused, i), "");
        if (text_starts_with(name, "parity.") && !text_equal(name, "parity.absent")) {
            ck_assert_uint_lt(at, sizeof planted / sizeof planted[0]);
            ck_assert_str_eq(name, planted[at].name);
            ck_assert_msg(answered[at + 1] == planted[at].outcome &&
                              strstr(said[at + 1], planted[at].reason) != NULL,
                          "%s: %s", name, said[at + 1]);   // the first is of the night itself
            at++;
        }
    }
    ck_assert_uint_eq(at, sizeof planted / sizeof planted[0]);
}
END_TEST

START_TEST(fp32_nights_are_shown_what_they_can_have)
{
    OWNED(Json, json_free) *evidence = half_evidence(FP32);
    OWNED(Config, config_free) *policy = load_policy((const char *const[2]){0});
    OWNED(Json, json_free) *refused = json_make_array();
    OWNED(Json, json_free) *passed = json_make_array();
    ck_assert(gate_self_test(evidence, policy, refused, passed));
    size_t parity = 0;
    for (size_t i = 0; i < json_count(refused); i++) {
        parity += text_starts_with(json_text_or(json_at(refused, i), ""), "parity.");
    }
    ck_assert_uint_eq(parity, 4);   // three probes, and nothing at all
}
END_TEST

static const char *let_pass;

static void judge_that_is_blind(const GateCheck *check, const Json *evidence, const Config *policy,
                                JudgeScope scope, const Finding *before, Finding *ret)
{
    gate_run_check(check, evidence, policy, scope, before, ret);
    bool blind = text_equal(check->name, let_pass) && json_count(evidence) > 0;
    ret->outcome = blind ? OUTCOME_PASS : ret->outcome;
}

// A gate with one judge that only misses evidence is found out, whichever judge it is.
START_TEST(one_blind_judge_is_found_out)
{
    let_pass = gate_checks[_i].name;
    OWNED(Json, json_free) *evidence = half_evidence(FP16);
    OWNED(Config, config_free) *policy = load_policy((const char *const[2]){0});
    OWNED(Json, json_free) *refused = json_make_array();
    OWNED(Json, json_free) *passed = json_make_array();
    ck_assert(!gate_self_test_of(judge_that_is_blind, evidence, policy, refused, passed));
    for (size_t i = 0; i < json_count(passed); i++) {
        const char *name = json_text_or(json_at(passed, i), "");
        ck_assert_msg(text_starts_with(name, let_pass), "%s passed, %s is blind", name, let_pass);
    }
    ck_assert_uint_gt(json_count(passed), 0);
}
END_TEST

// Evidence that lacks what a variant spoils is refused as well.
START_TEST(planted_candidates_need_no_evidence_to_be_bad)
{
    static const char *const without[] = {"parity.metric", "parity.slices", "parity.step", "parity"};
    OWNED(Config, config_free) *policy = load_policy((const char *const[2]){0});
    for (size_t i = 0; i < sizeof without / sizeof without[0]; i++) {
        OWNED(Json, json_free) *evidence = half_evidence(BF16);
        OWNED(Json, json_free) *refused = json_make_array();
        OWNED(Json, json_free) *passed = json_make_array();
        apply(evidence, &(Edit){without[i], NULL});
        ck_assert_msg(gate_self_test(evidence, policy, refused, passed), "without %s: %s", without[i],
                      json_text_or(json_at(passed, 0), ""));
    }
    OWNED(Json, json_free) *odd = half_evidence(BF16);
    OWNED(Json, json_free) *refused = json_make_array();
    OWNED(Json, json_free) *passed = json_make_array();
    apply(odd, &(Edit){"parity.step", "[1,2]"});
    ck_assert(gate_self_test(odd, policy, refused, passed));
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("gate_parity_selftest_test");
    TCase *c = tcase_create("all");
    tcase_add_loop_test(c, planted_candidates_are_refused_for_what_was_planted, 0, 2);
    tcase_add_loop_test(c, one_blind_judge_is_found_out, 0, (int)gate_check_count);
    tcase_add_test(c, fp32_nights_are_shown_what_they_can_have);
    tcase_add_test(c, planted_candidates_need_no_evidence_to_be_bad);
    suite_add_tcase(s, c);
    return s;
}

int main(void)
{
    return run_suite(suite());
}
