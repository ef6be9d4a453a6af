// gate.h - the check table and the judgement. Pure: same evidence and policy, same bytes out; no clock, no
// files.
//
// Numeric rule: a check passes only if its value is finite and inside the limit, written so that NaN fails.
// Missing evidence is NOT_MEASURED. Across checks, from worst to best: fail, error, not_measured,
// inconclusive, pass; NOT_APPLICABLE counts as a pass only where design.md section 4 says so
// (not_applicable_passes), else it ranks as not_measured. decided_by = the worst required check, the first in
// table order among equals; null when all pass, or when the self-test in the evidence says that the gate is
// broken.
#ifndef FEDGATE_GATE_H
#define FEDGATE_GATE_H

#include <fedgate/config.h>
#include <fedgate/evidence.h>
#include <fedgate/json.h>

typedef enum Outcome {
    OUTCOME_PASS,
    OUTCOME_NOT_APPLICABLE,
    OUTCOME_INCONCLUSIVE,
    OUTCOME_NOT_MEASURED,
    OUTCOME_ERROR,
    OUTCOME_FAIL
} Outcome;   // best to worst
const char *gate_outcome_name(Outcome outcome);   // "pass", "not_applicable"...
bool gate_find_outcome(const char *name, Outcome *ret_outcome);

typedef struct Finding {   // what one judge says
    Outcome outcome;
    double value, limit;   // the figure that decided and its limit; NaN when there is none
    const char *unit;   // "ratio", "bytes", "s"...
    int64_t n;   // samples the figure rests on
    char reason[240];   // one sentence with both figures, no full stop
} Finding;

// What a failing check means for people: printed by `config failures`, the verdict and the runbook.
typedef struct FailureMode {
    const char *mode, *detector, *owner, *mitigation, *stop;
} FailureMode;

typedef struct GateCheck {
    const char *name;
    const char *question;   // one sentence
    const char *evidence;   // dotted sections it needs, separated by blanks
    const char *limits;   // options holding its limits, separated by blanks
    bool always_required;   // cannot be switched off
    bool late;   // judged after the bundle step: telemetry
    bool not_applicable_passes;   // design.md section 4 lets "not applicable" count as a pass
    const char *file;   // file in the run directory that shows its evidence
    FailureMode failure;
    void (*judge)(const Json *evidence, const Config *policy, Finding *ret);
    void (*judge_late)(const Json *evidence, const Config *policy,
                       Finding *ret);   // part known only at the end; NULL: none
    // Instead of `judge`, for a check that rests on those before it in the table: before[i] is what the judge
    // of gate_checks[i] found.
    void (*judge_after)(const Json *evidence, const Config *policy, const Finding *before, Finding *ret);
    // What the check compared, row by row, for people: key `rungs` of the check; NULL: none.
    Json *(*details)(const Json *evidence, const Config *policy);
} GateCheck;

extern const GateCheck gate_checks[];   // design.md section 4 order
extern const size_t gate_check_count;
const GateCheck *gate_find_check(const char *name);

// The judgement: { schema "fedgate.judgement/1", evidence_digest, policy_digest, outcome (pass | refuse |
// cannot_judge), decided_by, reason,
//   checks [ {name required outcome value limit unit n reason evidence; rungs[] of checks that have them} ],
//   rubric {score required_met items [ {name weight required met how} ]} }
// JUDGE_WHOLE adds late checks and window's end; JUDGE_EARLY leaves them out. exit code: 0, 10 or 11.
typedef enum JudgeScope { JUDGE_EARLY, JUDGE_WHOLE } JudgeScope;
Json *gate_judge(const Json *evidence, const Config *policy, JudgeScope scope);
int gate_exit_code(const Json *judgement);

// Each night proves that the gate still refuses: every planted-bad variant of this evidence (no copies
// hidden, NaN loss, empty section, candidate equal to baseline ...) must not pass its check. Appends names to
// the two arrays (evidence.selftest.refused and .passed); true when all were refused. Judges with a non-empty
// selftest.passed in the evidence can only end cannot_judge.
bool gate_self_test(const Json *evidence, const Config *policy, Json *ret_refused, Json *ret_passed);

// The parity ladder for people: [ {rung number name outcome value limit unit n; worst at bound source of
// bars} ], one row a bar with its worst case, and one for each rung that could not be judged (its name says
// why).
Json *parity_table(const Json *evidence, const Config *policy);

// Required checks of the policy in table order; a policy without any is refused by config_check.
bool gate_is_required(const Config *policy, const GateCheck *check);
// ERROR_CONFIG: unknown check names (nearest suggested), an always-required check missing, an empty list.
WARN_UNUSED bool gate_check_policy(const Config *policy, Error *error);

#endif
