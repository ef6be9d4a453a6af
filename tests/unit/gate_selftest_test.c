// gate_selftest_test - every planted candidate is refused for what was planted, not for something beside it.
#include "../../src/gate/selftest_internal.h"
#include "gate_fixture.h"

static const struct {
    const char *name;
    Outcome outcome;
    const char *reason;
} planted[] = {
    {"plausible.peak", OUTCOME_FAIL, "impossible: claim 'planted'"},
    {"plausible.timer", OUTCOME_FAIL, "the timer was stopped"},
    {"plausible.work", OUTCOME_ERROR, "claim 'forward' of"},
    {"plausible.longer", OUTCOME_ERROR, "of a run of"},
    {"memory.budget", OUTCOME_FAIL, "measured peak"},
    {"memory.leak", OUTCOME_FAIL, "live memory grows"},
    {"memory.fragments", OUTCOME_FAIL, "fragmentation"},
    {"memory.planned", OUTCOME_ERROR, "planned_bytes' is inf"},
    {"memory.contradicts", OUTCOME_ERROR, "the series says"},
    {"determinism.never", OUTCOME_ERROR, "steps are said to be replayed"},
    {"determinism.bits", OUTCOME_FAIL, "differs when replayed"},
    {"determinism.order", OUTCOME_ERROR, "an epoch is said to have"},
    {"window.stopped", OUTCOME_FAIL, "could not finish"},
    {"window.interval", OUTCOME_FAIL, "too late with its margin"},
    {"window.pace", OUTCOME_FAIL, "at step 40 the night was forecast"},
    {"window.deadline", OUTCOME_FAIL, "evaluation ended"},
    {"quality.nan", OUTCOME_FAIL, "cannot be compared"},
    {"quality.copy", OUTCOME_FAIL, "identical"},
    {"quality.no_better", OUTCOME_FAIL, "must be at least 0.001"},
    {"quality.chance", OUTCOME_FAIL, "rows drawn again, -1 must be above 0"},
    {"quality.decisions", OUTCOME_FAIL, "the decisions are worse"},
    {"quality.slice", OUTCOME_FAIL, "slice planted"},
    {"input.column", OUTCOME_FAIL, "constant or empty"},
    {"input.names", OUTCOME_FAIL, "names rows"},
    {"input.swapped", OUTCOME_FAIL, "labels look swapped"},
    {"input.base_rate", OUTCOME_FAIL, "change of the classes' shares"},
    {"input.split", OUTCOME_ERROR, "rows were split by 'planted'"},
};

static const SelftestVariant *find(const char *name)
{
    const struct {
        const SelftestVariant *at;
        size_t count;
    } tables[] = {{selftest_of_run, selftest_of_run_count}, {selftest_of_model, selftest_of_model_count}};
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++) {
        for (size_t i = 0; i < tables[t].count; i++) {
            if (text_equal(tables[t].at[i].name, name)) {
                return &tables[t].at[i];
            }
        }
    }
    ck_abort_msg("no variant '%s'", name);
    return NULL;
}

START_TEST(a_planted_candidate_is_refused_for_what_was_planted)
{
    const SelftestVariant *variant = find(planted[_i].name);
    OWNED(Json, json_free) *evidence = good_evidence();
    OWNED(Config, config_free) *policy = load_policy((const char *const[2]){NULL, NULL});
    Finding finding = {0};
    variant->spoil(evidence);
    gate_find_check(variant->check)->judge(evidence, policy, &finding);
    ck_assert_msg(finding.outcome == planted[_i].outcome &&
                      strstr(finding.reason, planted[_i].reason) != NULL,
                  "%s: %s: '%s', wanted %s: '%s'", variant->name, gate_outcome_name(finding.outcome),
                  finding.reason, gate_outcome_name(planted[_i].outcome), planted[_i].reason);
}
END_TEST

// A night that broke off has nothing to spoil: that is refused as well.
START_TEST(nothing_to_spoil_is_refused)
{
    const SelftestVariant *variant = find(planted[_i].name);
    OWNED(Json, json_free) *nothing = json_make_object();
    OWNED(Config, config_free) *policy = load_policy((const char *const[2]){NULL, NULL});
    Finding finding = {0};
    variant->spoil(nothing);
    gate_find_check(variant->check)->judge(nothing, policy, &finding);
    ck_assert_int_ne(finding.outcome, OUTCOME_PASS);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("gate_selftest_test");
    TCase *c = tcase_create("planted");
    tcase_add_loop_test(c, a_planted_candidate_is_refused_for_what_was_planted, 0, COUNT(planted));
    tcase_add_loop_test(c, nothing_to_spoil_is_refused, 0, COUNT(planted));
    suite_add_tcase(s, c);
    return run_suite(s);
}
