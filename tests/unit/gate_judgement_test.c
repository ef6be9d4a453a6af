// gate_judgement_test - the lattice, who decides, same bytes, the policy, and the nightly self-test.
#include "../../src/gate/gate_internal.h"   // the judges' own rules are tested here too
#include "gate_fixture.h"

static const char *const no_sets[2] = {NULL, NULL};

static Json *judge_edited(const Edit edits[4], const char *const sets[2], JudgeScope scope)
{
    OWNED(Json, json_free) *evidence = good_evidence();
    OWNED(Config, config_free) *policy = load_policy(sets);
    for (size_t i = 0; i < 4 && edits[i].path != NULL; i++) {
        apply(evidence, &edits[i]);
    }
    return gate_judge(evidence, policy, scope);
}

static const struct {
    const char *sentence;
    Edit edits[4];
    const char *sets[2];
    JudgeScope scope;
    int exit_code;
    const char *outcome, *decided_by, *reason;
} lattice[] = {
    {"all pass", {{0}}, {0}, JUDGE_WHOLE, 0, "pass", NULL, "every required check passes"},
    {"early, late evidence is not asked for",
     {{"telemetry", NULL}, {"window.ended_wall_ns", NULL}},
     {0},
     JUDGE_EARLY,
     0,
     "pass",
     NULL,
     ""},
    {"late, telemetry is missing",
     {{"telemetry", NULL}},
     {0},
     JUDGE_WHOLE,
     11,
     "cannot_judge",
     "telemetry",
     "telemetry: "},
    {"late, the end is missing",
     {{"window.ended_wall_ns", NULL}},
     {0},
     JUDGE_WHOLE,
     11,
     "cannot_judge",
     "window",
     "ended_wall_ns"},
    {"late, the night ended too late",
     {{"window.ended_wall_ns", "1800000070000000000"}},
     {0},
     JUDGE_WHOLE,
     10,
     "refuse",
     "window",
     "10.0 s after"},
    {"an early window failure is not overwritten",
     {{"window.stopped_early", "true"}, {"window.ended_wall_ns", NULL}},
     {0},
     JUDGE_WHOLE,
     10,
     "refuse",
     "window",
     "could not finish"},
    {"a fail refuses",
     {{"fed", NULL}, {"loop.steps.wait_ns", "@80:200000"}, {"loop.steps.compute_ns", "@80:710000"}},
     {0},
     JUDGE_WHOLE,
     10,
     "refuse",
     "fed",
     "batch wait"},
    {"a fail goes before an error earlier in the table",
     {{"timeline.trust.dropped", "1"}, {"quality.pairs.1.identical", "true"}},
     {0},
     JUDGE_WHOLE,
     10,
     "refuse",
     "quality",
     "identical"},
    {"an error goes before not measured",
     {{"timeline", NULL}, {"memory.budget_bytes", "1"}},
     {0},
     JUDGE_WHOLE,
     11,
     "cannot_judge",
     "memory",
     "budget"},
    {"not measured goes before inconclusive",
     {{"memory.live.bytes", "[]"}, {"determinism", NULL}},
     {0},
     JUDGE_WHOLE,
     11,
     "cannot_judge",
     "determinism",
     ""},
    {"inconclusive cannot be judged",
     {{"memory.live.bytes", "[]"}},
     {0},
     JUDGE_WHOLE,
     11,
     "cannot_judge",
     "memory",
     "at 0 steps"},
    {"among equals the first in the table",
     {{"parity", NULL}, {"determinism", NULL}, {"input", NULL}},
     {0},
     JUDGE_WHOLE,
     11,
     "cannot_judge",
     "parity",
     ""},
    {"two fails, the first in the table",
     {{"quality.pairs.1.identical", "true"},
      {"input.columns.0.constant", "true"},
      {"window.stopped_early", "true"}},
     {0},
     JUDGE_WHOLE,
     10,
     "refuse",
     "window",
     ""},
    {"not applicable blocks where it does not count",
     {{"timeline.steps.copy_ns", "@80:0"},
      {"timeline.steps.hidden_ns", "@80:0"},
      {"timeline.steps.h2d_bytes", "@80:0"},
      {"release.worked_example", NULL}},
     {0},
     JUDGE_WHOLE,
     11,
     "cannot_judge",
     "overlap",
     "nothing was copied"},
    {"not applicable passes where it counts",
     {{"telemetry", NULL}},
     {"telemetry.required=false", NULL},
     JUDGE_WHOLE,
     0,
     "pass",
     NULL,
     ""},
    {"a check that is not required only reports",
     {{"determinism", NULL}},
     {"checks.required=overlap,parity,window,memory,plausible,quality", NULL},
     JUDGE_WHOLE,
     0,
     "pass",
     NULL,
     ""},
    {"the gate let a bad candidate pass",
     {{"selftest", "{\"refused\":[],\"passed\":[\"quality.nan\"]}"}},
     {0},
     JUDGE_WHOLE,
     11,
     "cannot_judge",
     NULL,
     "the gate is broken: it let the known-bad candidate 'quality.nan' pass"},
    {"the gate let something nameless pass",
     {{"selftest", "{\"refused\":[],\"passed\":[1]}"}},
     {0},
     JUDGE_WHOLE,
     11,
     "cannot_judge",
     NULL,
     "without a name"},
    {"no self-test",
     {{"selftest", NULL}},
     {0},
     JUDGE_WHOLE,
     11,
     "cannot_judge",
     NULL,
     "no known-bad candidate shows that the gate refuses"},
    {"a self-test that refused nothing",
     {{"selftest.refused", "[]"}},
     {0},
     JUDGE_WHOLE,
     11,
     "cannot_judge",
     NULL,
     "no known-bad"},
    {"a self-test of another type",
     {{"selftest.passed", "\"x\""}},
     {0},
     JUDGE_WHOLE,
     11,
     "cannot_judge",
     NULL,
     "no known-bad"},
    {"evidence of another form",
     {{"schema", "\"fedgate.evidence/2\""}},
     {0},
     JUDGE_WHOLE,
     11,
     "cannot_judge",
     NULL,
     "the evidence is not 'fedgate.evidence/1'"},
    {"evidence of no version",
     {{"version", NULL}},
     {0},
     JUDGE_WHOLE,
     11,
     "cannot_judge",
     NULL,
     "does not say of which version"},
    {"a sound gate",
     {{0}},
     {0},
     JUDGE_WHOLE,
     0,
     "pass",
     NULL,
     ""},
    {"a proof that leaves a check out",
     {{"selftest", "{\"refused\":[\"quality.nan\"],\"passed\":[]}"}},
     {0},
     JUDGE_WHOLE,
     11,
     "cannot_judge",
     NULL,
     "no known-bad candidate shows that check 'overlap' refuses"},
    {"a proof by nothing planted",
     {{"selftest", "{\"refused\":[\"overlap.absent\",\"overlapped.planted\",7],\"passed\":[]}"}},
     {0},
     JUDGE_WHOLE,
     11,
     "cannot_judge",
     NULL,
     "check 'overlap' refuses"},
};

START_TEST(the_worst_required_check_decides)
{
    OWNED(Json, json_free) *judgement = judge_edited(lattice[_i].edits, lattice[_i].sets, lattice[_i].scope);
    const char *decided_by = json_text_or(json_get(judgement, "decided_by"), NULL);
    const char *reason = json_text_or(json_get(judgement, "reason"), "");
    ck_assert_msg(gate_exit_code(judgement) == lattice[_i].exit_code, "%s: exit %d, %s", lattice[_i].sentence,
                  gate_exit_code(judgement), reason);
    ck_assert_str_eq(json_text_or(json_get(judgement, "outcome"), ""), lattice[_i].outcome);
    ck_assert_msg(text_equal(decided_by, lattice[_i].decided_by), "%s: decided by %s", lattice[_i].sentence,
                  decided_by == NULL ? "none" : decided_by);
    ck_assert_msg(strstr(reason, lattice[_i].reason) != NULL, "%s: %s", lattice[_i].sentence, reason);
    if (lattice[_i].decided_by == NULL && lattice[_i].exit_code != 11) {
        ck_assert(json_is_null(json_get(judgement, "decided_by")));
    }
}
END_TEST

static const Edit no_edits[4] = {{0}};

START_TEST(the_same_evidence_gives_the_same_bytes)
{
    Text bytes[2] = {{0}, {0}};
    for (int i = 0; i < 2; i++) {
        text_init(&bytes[i], 1000000);
        OWNED(Json, json_free) *judgement = judge_edited(no_edits, no_sets, JUDGE_WHOLE);
        json_write(judgement, JSON_INDENTED, &bytes[i]);
        ck_assert(bytes[i].length > 1000 && !bytes[i].failed);
    }
    ck_assert_str_eq(text_string(&bytes[0]), text_string(&bytes[1]));
    text_done(&bytes[0]);
    text_done(&bytes[1]);
}
END_TEST

START_TEST(the_judgement_has_the_documented_form)
{
    const Edit edits[4] = {{"quality.pairs.1.bootstrap.lower", "\"nan\""}};
    OWNED(Json, json_free) *judgement = judge_edited(edits, no_sets, JUDGE_EARLY);
    ck_assert_str_eq(json_text_or(json_get(judgement, "schema"), ""), "fedgate.judgement/1");
    ck_assert_uint_eq(strlen(json_text_or(json_get(judgement, "evidence_digest"), "")), 64);
    ck_assert_uint_eq(strlen(json_text_or(json_get(judgement, "policy_digest"), "")), 64);
    const Json *checks = json_get(judgement, "checks");
    ck_assert_uint_eq(json_count(checks), gate_check_count - 1);   // telemetry is late
    static const char *const keys[] = {"name", "required", "outcome", "value",   "limit",
                                       "unit", "n",        "reason",  "evidence"};
    for (size_t i = 0; i < json_count(checks); i++) {
        const Json *check = json_at(checks, i);
        bool has_rungs = json_get(check, "rungs") != NULL;
        ck_assert_uint_eq(json_count(check), sizeof keys / sizeof keys[0] + has_rungs);
        ck_assert_int_eq(has_rungs, gate_checks[i].details != NULL);
        for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) {
            ck_assert_str_eq(json_key_at(check, k), keys[k]);
        }
        Outcome outcome;
        ck_assert(gate_find_outcome(json_text_or(json_get(check, "outcome"), ""), &outcome));
        ck_assert_str_eq(json_text_or(json_get(check, "name"), ""), gate_checks[i].name);
    }
    const Json *quality = json_at(checks, 8);
    ck_assert(json_is_null(json_get(quality, "value")));   // NaN has no number; the reason names it
}
END_TEST

START_TEST(another_policy_has_another_digest_and_other_evidence_too)
{
    const char *const sets[2] = {"overlap.floor=0.9", NULL};
    const Edit edits[4] = {{"seed", "7"}};
    OWNED(Json, json_free) *a = judge_edited(no_edits, no_sets, JUDGE_WHOLE);
    OWNED(Json, json_free) *b = judge_edited(edits, sets, JUDGE_WHOLE);
    ck_assert_str_ne(json_text_or(json_get(a, "policy_digest"), ""),
                     json_text_or(json_get(b, "policy_digest"), ""));
    ck_assert_str_ne(json_text_or(json_get(a, "evidence_digest"), ""),
                     json_text_or(json_get(b, "evidence_digest"), ""));
}
END_TEST

START_TEST(every_row_of_the_table_is_complete)
{
    OWNED(Config, config_free) *policy = load_policy(no_sets);
    for (size_t i = 0; i < gate_check_count; i++) {
        const GateCheck *check = &gate_checks[i];
        const FailureMode *failure = &check->failure;
        const char *const texts[] = {check->name,    check->question,     check->evidence,
                                     check->file,    failure->mode,       failure->detector,
                                     failure->owner, failure->mitigation, failure->stop};
        for (size_t t = 0; t < sizeof texts / sizeof texts[0]; t++) {
            ck_assert_msg(texts[t] != NULL && texts[t][0] != '\0', "%s: text %zu", check->name, t);
        }
        ck_assert_int_ne(check->judge != NULL, check->judge_after != NULL);
        ck_assert(gate_find_check(check->name) == check);
        bool optional = text_equal(check->name, "cost") || text_equal(check->name, "latency");
        ck_assert_int_eq(gate_is_required(policy, check), !optional);
        char limits[256];
        ck_assert(text_copy(limits, sizeof limits, check->limits));
        char *rest = NULL;
        for (char *name = strtok_r(limits, " ", &rest); name != NULL; name = strtok_r(NULL, " ", &rest)) {
            ck_assert_msg(config_find_option(name) != NULL, "%s: option '%s'", check->name, name);
        }
    }
    ck_assert_ptr_null(gate_find_check("magic"));
    Outcome outcome;
    ck_assert(!gate_find_outcome("maybe", &outcome));
}
END_TEST

// A limit that nothing depends on is no limit: a stricter one must turn the good night.
static const char *const stricter[] = {
    "overlap.floor=0.96",     "overlap.starved=0.001", "fed.wait=0.001",      "input.identifier=0.1",
    "device.peak_flops=1e10", "device.bandwidth=1e7",  "device.memory=12GB",  "memory.reserve=0.5",
    "quality.margin=0.5",     "input.missing=0.001",   "input.unseen=0.0001", "input.leakage=0.6",
};

START_TEST(a_stricter_limit_turns_the_verdict)
{
    const char *const sets[2] = {stricter[_i], NULL};
    OWNED(Json, json_free) *judgement = judge_edited(no_edits, sets, JUDGE_WHOLE);
    ck_assert_msg(gate_exit_code(judgement) == 10, "%s: %s", stricter[_i],
                  json_text_or(json_get(judgement, "reason"), ""));
}
END_TEST

START_TEST(the_self_test_refuses_every_planted_candidate)
{
    static const char *const absent[] = {"", "overlap", "quality", "window", "memory"};
    OWNED(Json, json_free) *evidence = good_evidence();
    if (absent[_i][0] != '\0') {   // a night that broke off early is no excuse
        const Edit edit = {text_equal(absent[_i], "overlap") ? "timeline" : absent[_i], NULL};
        apply(evidence, &edit);
    }
    OWNED(Config, config_free) *policy = load_policy(no_sets);
    OWNED(Json, json_free) *refused = json_make_array();
    OWNED(Json, json_free) *passed = json_make_array();
    ck_assert(gate_self_test(evidence, policy, refused, passed));
    ck_assert_uint_eq(json_count(passed), 0);
    for (size_t i = 0; i < gate_check_count; i++) {
        size_t found = 0;
        for (size_t j = 0; j < json_count(refused); j++) {
            found += text_starts_with(json_text_or(json_at(refused, j), ""), gate_checks[i].name);
        }
        ck_assert_msg(found >= 2, "%s has %zu planted candidates", gate_checks[i].name, found);
    }
}
END_TEST

START_TEST(the_self_test_holds_when_telemetry_is_not_required)
{
    const char *const sets[2] = {"telemetry.required=false", NULL};
    OWNED(Json, json_free) *evidence = good_evidence();
    OWNED(Config, config_free) *policy = load_policy(sets);
    OWNED(Json, json_free) *refused = json_make_array();
    OWNED(Json, json_free) *passed = json_make_array();
    ck_assert(gate_self_test(evidence, policy, refused, passed));
}
END_TEST

static void judge_that_passes(const GateCheck *check, const Json *evidence, const Config *policy,
                              JudgeScope scope, const Finding *before, Finding *ret)
{
    gate_run_check(check, evidence, policy, scope, before, ret);
    if (text_equal(check->name, "quality")) {
        ret->outcome = OUTCOME_PASS;
    }
}

START_TEST(the_self_test_finds_a_gate_that_passes)
{
    OWNED(Json, json_free) *evidence = good_evidence();
    OWNED(Config, config_free) *policy = load_policy(no_sets);
    OWNED(Json, json_free) *refused = json_make_array();
    OWNED(Json, json_free) *passed = json_make_array();
    ck_assert(!gate_self_test_of(judge_that_passes, evidence, policy, refused, passed));
    ck_assert_uint_eq(json_count(passed), 7);
    ck_assert_str_eq(json_text_or(json_at(passed, 0), ""), "quality.nan");
#ifdef FEDGATE_FAULTS
    ck_assert_int_eq(setenv("FEDGATE_FAULT", "selftest.pass=1", 1), 0);
    ck_assert(!gate_self_test(evidence, policy, refused, passed));
    ck_assert_int_eq(unsetenv("FEDGATE_FAULT"), 0);
#endif
}
END_TEST

static void judge_that_is_silent(const Json *evidence, const Config *policy, Finding *ret)
{
    (void)evidence;
    (void)policy;
    (void)ret;
}

START_TEST(a_judge_without_answer_has_not_measured)
{
    OWNED(Config, config_free) *policy = load_policy(no_sets);
    const GateCheck silent = {.name = "silent", .judge = judge_that_is_silent};
    Finding finding = {0};
    gate_run_check(&silent, NULL, policy, JUDGE_WHOLE, NULL, &finding);
    ck_assert_int_eq(finding.outcome, OUTCOME_NOT_MEASURED);
    ck_assert(!gate_counts_as_pass(&silent, OUTCOME_NOT_APPLICABLE));
}
END_TEST

#define ALWAYS "overlap", "plausible", "memory", "parity", "window", "quality"
static const struct {
    const char *names[8];
    const char *message, *hint;   // message NULL: a good policy
} policies[] = {
    {{ALWAYS}, NULL, NULL},
    {{ALWAYS, "input"}, NULL, NULL},
    {{NULL}, "'checks.required' is empty", ""},
    {{ALWAYS, "inptu"}, "unknown check 'inptu'", "Did you mean 'input'?"},
    {{ALWAYS, "xyzzyxyzzy"}, "unknown check 'xyzzyxyzzy'", ""},
    {{"overlap", "plausible", "memory", "parity", "window"}, "check 'quality' is missing", ""},
    {{"plausible", "memory", "parity", "window", "quality"}, "check 'overlap' is missing", ""},
};

START_TEST(a_policy_names_known_checks_and_none_too_few)
{
    size_t count = 0;
    while (count < 8 && policies[_i].names[count] != NULL) {
        count++;
    }
    Error error = ERROR_INIT;
    bool good_policy = gate_check_names(policies[_i].names, count, &error);
    ck_assert_int_eq(good_policy, policies[_i].message == NULL);
    if (!good_policy) {
        ck_assert_int_eq(error.kind, ERROR_CONFIG);
        ck_assert_msg(strstr(error.message, policies[_i].message) != NULL, "%s", error.message);
        ck_assert_str_eq(error.hint, policies[_i].hint);
    }
}
END_TEST

START_TEST(the_loaded_policy_is_checked)
{
    OWNED(Config, config_free) *policy = load_policy(no_sets);
    Error error = ERROR_INIT;
    ck_assert_msg(gate_check_policy(policy, &error), "%s", error.message);
    SCOPED_TEXT many = {0};
    text_init(&many, 1000);
    text_add(&many, "checks.required=overlap,parity,window,memory,plausible,quality");
    for (int i = 0; i < 27; i++) {
        text_add(&many, ",input");
    }
    const char *const sets[] = {"model=m", "data.target=y", text_string(&many)};
    OWNED(Config, config_free) *long_policy = config_load(NULL, sets, 3, NULL, &error);
    ck_assert_msg(long_policy == NULL || !gate_check_policy(long_policy, &error),
                  "a list of 33 checks passed");
    ck_assert_int_eq(error.kind, ERROR_CONFIG);
}
END_TEST

START_TEST(long_reasons_are_cut_and_figures_are_readable)
{
    Finding finding;
    char name[400];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    finding_set(&finding, OUTCOME_FAIL, NO_FIGURE, "%s", name);
    ck_assert_uint_eq(strlen(finding.reason), sizeof finding.reason - 1);
    ck_assert_str_eq(finding.reason + strlen(finding.reason) - 4, "x...");
    char text[48];
    figure_text(0.12345, "ratio", text);
    ck_assert_str_eq(text, "12.35 %");
    figure_text(1234567, "bytes", text);
    ck_assert_str_eq(text, "1,234,567 bytes");
    figure_text(2e15, "FLOP/s", text);
    ck_assert_str_eq(text, "2e+15 FLOP/s");
    figure_text(5000, "", text);
    ck_assert_str_eq(text, "5,000");
    figure_text(NAN, "ratio", text);
    ck_assert_str_eq(text, "nan ratio");
    figure_text(INFINITY, "bytes", text);
    ck_assert_str_eq(text, "inf bytes");
}
END_TEST

START_TEST(a_judge_without_memory_says_so)
{
    OWNED(Json, json_free) *evidence = good_evidence();
    Finding finding;
    Section section;
    const double *values = NULL;
    OWNED(Arena, arena_free) *small = arena_new(64);
    const double length[10] = {0};
    size_t warmup = 0;
    Arena *const arenas[] = {NULL, small};
    for (size_t i = 0; i < 2; i++) {
        ck_assert(section_open(evidence, "timeline.steps", arenas[i], &finding, &section));
        ck_assert(!section_series(&section, "length_ns", &values));
        ck_assert_int_eq(finding.outcome, OUTCOME_ERROR);
        ck_assert_ptr_nonnull(strstr(finding.reason, "memory of the judge"));
        ck_assert(!count_warmup(&section, length, 10, &warmup));
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("gate_judgement_test");
    TCase *c = tcase_create("all");
    tcase_add_loop_test(c, the_worst_required_check_decides, 0, COUNT(lattice));
    tcase_add_test(c, the_same_evidence_gives_the_same_bytes);
    tcase_add_test(c, the_judgement_has_the_documented_form);
    tcase_add_test(c, another_policy_has_another_digest_and_other_evidence_too);
    tcase_add_test(c, every_row_of_the_table_is_complete);
    tcase_add_loop_test(c, a_stricter_limit_turns_the_verdict, 0, COUNT(stricter));
    tcase_add_loop_test(c, the_self_test_refuses_every_planted_candidate, 0, 5);
    tcase_add_test(c, the_self_test_holds_when_telemetry_is_not_required);
    tcase_add_test(c, the_self_test_finds_a_gate_that_passes);
    tcase_add_test(c, a_judge_without_answer_has_not_measured);
    tcase_add_loop_test(c, a_policy_names_known_checks_and_none_too_few, 0, COUNT(policies));
    tcase_add_test(c, the_loaded_policy_is_checked);
    tcase_add_test(c, long_reasons_are_cut_and_figures_are_readable);
    tcase_add_test(c, a_judge_without_memory_says_so);
    suite_add_tcase(s, c);
    return s;
}

int main(void)
{
    return run_suite(suite());
}
