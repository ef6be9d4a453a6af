// judgement - runs the judges, orders their findings, and says what decided.
//
// The lattice of design.md section 4 lives here and nowhere else: a check blocks unless it passed, or is not
// applicable and its row says that this counts; among blocking checks the worst decides, then table order.
#include "gate_internal.h"

#include <fedgate/fault.h>
#include <fedgate/hash.h>
#include <fedgate/text.h>

#include <stdio.h>
#include <string.h>

enum {
    EXIT_PASS = 0,
    EXIT_REFUSED = 10,
    EXIT_CANNOT_JUDGE = 11,
    EVIDENCE_TEXT_BYTES = 2 * EVIDENCE_MAX_BYTES
};

static const char *const outcome_names[] = {
    [OUTCOME_PASS] = "pass",
    [OUTCOME_NOT_APPLICABLE] = "not_applicable",
    [OUTCOME_INCONCLUSIVE] = "inconclusive",
    [OUTCOME_NOT_MEASURED] = "not_measured",
    [OUTCOME_ERROR] = "error",
    [OUTCOME_FAIL] = "fail",
};

const char *gate_outcome_name(Outcome outcome)
{
    return outcome_names[outcome];
}

bool gate_find_outcome(const char *name, Outcome *ret_outcome)
{
    for (size_t i = 0; i < sizeof outcome_names / sizeof outcome_names[0]; i++) {
        if (text_equal(outcome_names[i], name)) {
            *ret_outcome = (Outcome)i;
            return true;
        }
    }
    return false;
}

bool gate_counts_as_pass(const GateCheck *check, Outcome outcome)
{
    return outcome == OUTCOME_PASS || (outcome == OUTCOME_NOT_APPLICABLE && check->not_applicable_passes);
}

// How bad a finding is for the night: 0 passes, higher is worse.
static int badness(const GateCheck *check, Outcome outcome)
{
    if (gate_counts_as_pass(check, outcome)) {
        return 0;
    }
    return outcome == OUTCOME_NOT_APPLICABLE ? OUTCOME_NOT_MEASURED : (int)outcome;
}

void gate_run_check(const GateCheck *check, const Json *evidence, const Config *policy, JudgeScope scope,
                    const Finding *before, Finding *ret)
{
    // A judge that forgets to answer has not measured.
    *ret = (Finding){OUTCOME_NOT_MEASURED, NAN, NAN, "", 0, "the judge gave no answer"};
    if (check->judge_after != NULL) {
        check->judge_after(evidence, policy, before, ret);
    } else {
        check->judge(evidence, policy, ret);
    }
    if (scope == JUDGE_WHOLE && check->judge_late != NULL) {
        Finding late = *ret;
        check->judge_late(evidence, policy, &late);
        if (badness(check, late.outcome) >= badness(check, ret->outcome)) {
            *ret = late;
        }
    }
    if (fault_set("selftest.pass")) {
        ret->outcome = OUTCOME_PASS;
    }
}

static Json *check_to_json(const GateCheck *check, bool required, const Finding *finding)
{
    Json *json = json_make_object();
    json_put_text(json, "name", check->name);
    json_put_bool(json, "required", required);
    json_put_text(json, "outcome", gate_outcome_name(finding->outcome));
    json_put(json, "value", isnan(finding->value) ? NULL : json_make_number(finding->value));
    json_put(json, "limit", isnan(finding->limit) ? NULL : json_make_number(finding->limit));
    json_put_text(json, "unit", finding->unit);
    json_put_integer(json, "n", finding->n);
    json_put_text(json, "reason", finding->reason);
    json_put_text(json, "evidence", check->file);
    return json;
}

static void put_digests(Json *judgement, const Json *evidence, const Config *policy)
{
    char hex[DIGEST_HEX_SIZE];
    Digest digest;
    SCOPED_TEXT bytes = {0};
    text_init(&bytes, EVIDENCE_TEXT_BYTES);
    json_write(evidence, JSON_COMPACT, &bytes);
    hash_bytes(text_string(&bytes), bytes.length, &digest);
    digest_hex(&digest, hex);
    json_put_text(judgement, "evidence_digest", hex);
    config_policy_digest(policy, &digest);
    digest_hex(&digest, hex);
    json_put_text(judgement, "policy_digest", hex);
}

static bool refused_one(const Json *refused, const char *check, const char *planted)
{
    size_t length = strlen(check);
    for (size_t i = 0; i < json_count(refused); i++) {
        const char *name = json_text_or(json_at(refused, i), "");
        if (strncmp(name, check, length) == 0 && name[length] == '.' &&
            (planted == NULL ? !text_equal(name + length + 1, "absent")
                             : text_equal(name + length + 1, planted))) {
            return true;
        }
    }
    return false;
}

// The check that tonight's proof leaves out: each must have refused to judge nothing, and a candidate planted
// for it; those of parity are shown only on parity that passes by itself. NULL: none.
static const char *unproven_check(const Json *refused)
{
    for (size_t i = 0; i < gate_check_count; i++) {
        const char *name = gate_checks[i].name;
        if (!refused_one(refused, name, "absent") ||
            (!text_equal(name, "parity") && !refused_one(refused, name, NULL))) {
            return name;
        }
    }
    return NULL;
}

// Why no judgement on this evidence can count; false when there is no reason. It must say whom it is about,
// and the gate must have been proven tonight.
static bool unsound(const Json *evidence, char *ret_reason, size_t size)
{
    static const char *const identity[] = {"model", "run", "version", "device_class"};
    if (!text_equal(json_text_or(json_get(evidence, "schema"), ""), EVIDENCE_SCHEMA)) {
        snprintf(ret_reason, size, "the evidence is not '%s'", EVIDENCE_SCHEMA);
        return true;
    }
    for (size_t i = 0; i < sizeof identity / sizeof identity[0]; i++) {
        if (json_text_or(json_get(evidence, identity[i]), "")[0] == '\0') {
            snprintf(ret_reason, size, "the evidence does not say of which %s it is", identity[i]);
            return true;
        }
    }
    const Json *passed = json_find(evidence, "selftest.passed");
    const Json *refused = json_find(evidence, "selftest.refused");
    if (json_count(passed) > 0) {
        snprintf(ret_reason, size, "the gate is broken: it let the known-bad candidate '%.80s' pass",
                 json_text_or(json_at(passed, 0), "a candidate without a name"));
        return true;
    }
    if (!json_is_array(passed) || json_count(refused) == 0) {
        snprintf(ret_reason, size, "no known-bad candidate shows that the gate refuses");
        return true;
    }
    const char *check = unproven_check(refused);
    if (check != NULL) {
        snprintf(ret_reason, size, "no known-bad candidate shows that check '%s' refuses", check);
    }
    return check != NULL;
}

Json *gate_judge(const Json *evidence, const Config *policy, JudgeScope scope)
{
    Json *judgement = json_make_object();
    json_put_text(judgement, "schema", "fedgate.judgement/1");
    put_digests(judgement, evidence, policy);
    Json *checks = json_make_array();
    Finding findings[CHECKS_MOST] = {{0}};
    const GateCheck *decided_by = NULL;
    char reason[sizeof(((Finding *)NULL)->reason) + 64] = "every required check passes";
    int worst = 0;
    for (size_t i = 0; i < gate_check_count; i++) {
        const GateCheck *check = &gate_checks[i];
        if (check->late && scope == JUDGE_EARLY) {
            continue;
        }
        Finding *finding = &findings[i];
        gate_run_check(check, evidence, policy, scope, findings, finding);
        bool required = gate_is_required(policy, check);
        Json *json = check_to_json(check, required, finding);
        if (check->details != NULL) {
            json_put(json, "rungs", check->details(evidence, policy));
        }
        json_add(checks, json);
        if (required && badness(check, finding->outcome) > worst) {
            snprintf(reason, sizeof reason, "%s: %s", check->name, finding->reason);
            worst = badness(check, finding->outcome);
            decided_by = check;
        }
    }
    if (unsound(evidence, reason, sizeof reason)) {
        worst = OUTCOME_ERROR;
        decided_by = NULL;
    }
    json_put_text(judgement, "outcome",
                  worst == 0              ? "pass"
                  : worst == OUTCOME_FAIL ? "refuse"
                                          : "cannot_judge");
    json_put_text(judgement, "decided_by", decided_by == NULL ? NULL : decided_by->name);
    json_put_text(judgement, "reason", reason);
    json_put(judgement, "checks", checks);
    json_put(judgement, "rubric", rubric_to_json(evidence, policy, findings));
    return judgement;
}

int gate_exit_code(const Json *judgement)
{
    const char *outcome = json_text_or(json_get(judgement, "outcome"), "");
    if (text_equal(outcome, "pass")) {
        return EXIT_PASS;
    }
    return text_equal(outcome, "refuse") ? EXIT_REFUSED : EXIT_CANNOT_JUDGE;
}

bool gate_is_required(const Config *policy, const GateCheck *check)
{
    return check->always_required || config_list_has(policy, "checks.required", check->name);
}
