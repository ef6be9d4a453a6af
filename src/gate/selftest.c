// selftest - each night the gate is shown known-bad candidates made from tonight's own evidence; it must
// refuse them all.
//
// A variant names its check, copies the sections that check reads, and spoils them; every check is shown
// nothing at all as well. It counts as refused when its check does not pass. One whole candidate that fails
// everything is judged too, so that the lattice is proven with the judges. Variants of parity change one
// thing in tonight's figures; they are shown only when those pass, else they are in neither list.
#include "selftest_internal.h"

#include <fedgate/text.h>
#include <stdio.h>

#include <string.h>

Json *selftest_open(Json *root, const char *first, const char *second)
{
    const char *path[] = {first, second};
    Json *at = root;
    for (size_t i = 0; i < 2 && path[i] != NULL; i++) {
        if (!json_is_object(json_get(at, path[i]))) {
            json_put(at, path[i], json_make_object());
        }
        at = (Json *)(uintptr_t)json_get(at, path[i]);   // ours: the variant is a copy
    }
    return at;
}

void selftest_each(Json *object, const char *key, void (*change)(Json *entry))
{
    const Json *array = json_get(object, key);
    for (size_t i = 0; i < json_count(array); i++) {
        if (json_is_object(json_at(array, i))) {
            change((Json *)(uintptr_t)json_at(array, i));
        }
    }
}

// The sections a check reads, and nothing else of the evidence: "loop", "timeline.source".
static Json *copy_sections(const Json *evidence, const char *sections)
{
    Json *copy = json_make_object();
    char name[64];
    while (*sections != '\0') {
        size_t length = strcspn(sections, " ");
        snprintf(name, sizeof name, "%.*s", (int)length, sections);
        const Json *value = json_find(evidence, name);
        char *dot = strchr(name, '.');
        if (value != NULL && dot == NULL) {
            json_put(copy, name, json_copy_deep(value));
        } else if (value != NULL) {
            *dot = '\0';
            json_put(selftest_open(copy, name, NULL), dot + 1, json_copy_deep(value));
        }
        sections += length + strspn(sections + length, " ");
    }
    return copy;
}

static bool record(bool refused, const char *name, Json *refused_names, Json *passed_names)
{
    json_add_text(refused ? refused_names : passed_names, name);
    return refused;
}

// Tonight's own sections, unspoiled, for a check that rests on the others: these are then planted.
static const struct {
    const char *name, *check;
    Outcome others;
} resting[] = {
    {"rubric.check", "rubric", OUTCOME_FAIL},
    {"rubric.unknown", "rubric", OUTCOME_NOT_MEASURED},
};

static bool refuses(JudgeCall judge, const GateCheck *check, const Json *bad, const Config *policy,
                    Outcome others)
{
    Finding before[CHECKS_MOST] = {{0}};
    for (size_t k = 0; k < gate_check_count; k++) {
        before[k].outcome = others;
    }
    Finding finding;
    judge(check, bad, policy, JUDGE_EARLY, before, &finding);
    // What the policy itself declares not applicable (telemetry.required: false) is no pass of a bad
    // candidate.
    return finding.outcome != OUTCOME_PASS;
}

// What is spoiled must be good by itself, or a refusal proves nothing of the judge.
static bool good_by_itself(JudgeCall judge, const char *name, const Json *evidence, const Config *policy)
{
    const GateCheck *check = gate_find_check(name);
    OWNED(Json, json_free) *same = copy_sections(evidence, check->evidence);
    return !refuses(judge, check, same, policy, OUTCOME_PASS);
}

static bool show_variants(const SelftestVariant *variants, size_t count, JudgeCall judge,
                          const Json *evidence, const Config *policy, Json *refused_names, Json *passed_names)
{
    bool all_refused = true;
    bool fp32 = text_equal(json_text_or(json_get(evidence, "precision"), ""), "fp32");
    for (size_t i = 0; i < count; i++) {
        if (variants[i].half && fp32) {
            continue;
        }
        const GateCheck *check = gate_find_check(variants[i].check);
        OWNED(Json, json_free) *bad = copy_sections(evidence, check->evidence);
        variants[i].spoil(bad);
        bool refused = refuses(judge, check, bad, policy, OUTCOME_PASS);
        all_refused = record(refused, variants[i].name, refused_names, passed_names) && all_refused;
    }
    return all_refused;
}

static bool show_others(JudgeCall judge, const Json *evidence, const Config *policy, Json *refused_names,
                        Json *passed_names)
{
    bool all_refused = true;
    for (size_t i = 0; i < sizeof resting / sizeof resting[0]; i++) {
        const GateCheck *check = gate_find_check(resting[i].check);
        OWNED(Json, json_free) *same = copy_sections(evidence, check->evidence);
        bool refused = refuses(judge, check, same, policy, resting[i].others);
        all_refused = record(refused, resting[i].name, refused_names, passed_names) && all_refused;
    }
    OWNED(Json, json_free) *nothing = json_make_object();
    for (size_t i = 0; i < gate_check_count; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s.absent", gate_checks[i].name);
        bool refused = refuses(judge, &gate_checks[i], nothing, policy, OUTCOME_PASS);
        all_refused = record(refused, name, refused_names, passed_names) && all_refused;
    }
    return all_refused;
}

bool gate_self_test_of(JudgeCall judge, const Json *evidence, const Config *policy, Json *ret_refused,
                       Json *ret_passed)
{
    bool run = show_variants(selftest_of_run, selftest_of_run_count, judge, evidence, policy, ret_refused,
                             ret_passed);
    bool parity = !good_by_itself(judge, "parity", evidence, policy) ||
                  show_variants(selftest_of_parity, selftest_of_parity_count, judge, evidence, policy,
                                ret_refused, ret_passed);
    bool model = show_variants(selftest_of_model, selftest_of_model_count, judge, evidence, policy,
                               ret_refused, ret_passed);
    return show_others(judge, evidence, policy, ret_refused, ret_passed) && run && parity && model;
}

bool gate_self_test(const Json *evidence, const Config *policy, Json *ret_refused, Json *ret_passed)
{
    bool all_refused = gate_self_test_of(gate_run_check, evidence, policy, ret_refused, ret_passed);
    Json *nothing = json_make_object();   // sound but for its checks, so that the lattice must refuse it
    json_put_text(nothing, "schema", EVIDENCE_SCHEMA);
    static const char *const identity[] = {"model", "run", "version", "device_class"};
    for (size_t i = 0; i < sizeof identity / sizeof identity[0]; i++) {
        json_put_text(nothing, identity[i], "planted");
    }
    json_put(nothing, "selftest", json_make_object());
    json_put(selftest_open(nothing, "selftest", NULL), "passed", json_make_array());
    json_put(selftest_open(nothing, "selftest", NULL), "refused", json_make_array());
    for (size_t i = 0; i < gate_check_count; i++) {
        static const char *const proofs[] = {"absent", "planted"};
        for (size_t k = 0; k < sizeof proofs / sizeof proofs[0]; k++) {
            char name[64];
            snprintf(name, sizeof name, "%s.%s", gate_checks[i].name, proofs[k]);
            json_add_text((Json *)(uintptr_t)json_find(nothing, "selftest.refused"), name);
        }
    }
    Json *judgement = gate_judge(nothing, policy, JUDGE_WHOLE);
    bool refused = gate_exit_code(judgement) != 0;
    json_free(judgement);
    json_free(nothing);
    return record(refused, "candidate.empty", ret_refused, ret_passed) && all_refused;
}
