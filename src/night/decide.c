// decide - step 11: promote, keep, or revert; one atomic step, last. Deadline, hold, bars and the expected
// previous pointer are checked again under the pointer lock, inside registry_move.
#include "night_internal.h"

#include <string.h>

static StepEnd end_with(Night *night, NightOutcome outcome, int code, const char *decided_by,
                        const char *reason)
{
    night_end(night, outcome, code, decided_by, reason);
    return STEP_GO_ON;
}

static StepEnd end_as_judged(Night *night, int code)
{
    const char *reason = json_text_or(json_get(night->judgement, "reason"), "no reason given");
    const char *check = json_text_or(json_get(night->judgement, "decided_by"), NULL);
    return end_with(night, code == 10 ? NIGHT_REFUSED : NIGHT_INCONCLUSIVE, code, check, reason);
}

// The switch was made but what it names does not verify: recovery moves back, in this night.
static StepEnd confirm_failed(Night *night, const Error *failed, Error *error)
{
    RecoverResult recovered = {0};
    if (!registry_recover(night->registry, &recovered, error))
        return STEP_FAILED;
    if (!recovered.reverted) {
        *error = *failed;
        return STEP_FAILED;
    }
    night->head = recovered.record;
    char reason[512];
    if (!text_print(reason, sizeof reason, "reverted to %s: the promoted release failed its confirmation: %s",
                    recovered.record.to, failed->message))
        reason[sizeof reason - 1] = '\0';
    return end_with(night, NIGHT_REVERTED, 12, NULL, reason);
}

// The expected pointer is gone. Under the pointer lock what was live may have been found bad and left: that
// is a revert, and on-call's, not a refusal.
static StepEnd end_conflict(Night *night, const Error *failed, Error *error)
{
    PointerRecord now;
    bool any = false;
    if (!registry_current(night->registry, &any, &now, error))
        return STEP_FAILED;
    if (!any || now.seq <= night->expected_seq || now.kind != MOVE_REVERT)
        return end_with(night, NIGHT_REFUSED, 10, NULL, failed->message);
    night->head = now;
    return end_with(night, NIGHT_REVERTED, 12, NULL, failed->message);
}

static StepEnd promote(Night *night, Error *error)
{
    MoveRequest request = {.kind = MOVE_PROMOTE,
                           .version = night->version,
                           .expected_seq = night->expected_seq,
                           .reason = "every required check passed",
                           .run = night->run,
                           .verdict_digest = night->verdict_digest,
                           .deadline_wall_ns = night->deadline_wall_ns};
    PointerRecord record;
    Error failed = ERROR_INIT;
    if (registry_move(night->registry, &request, &record, &failed)) {
        night->head = record;
        night->has_head = true;
        return end_with(night, NIGHT_PROMOTED, 0, NULL, "every required check passed");
    }
    if (failed.kind == ERROR_CONFLICT)
        return end_conflict(night, &failed, error);
    if (failed.kind == ERROR_DATA)
        return confirm_failed(night, &failed, error);
    *error = failed;
    return STEP_FAILED;
}

StepEnd night_step_decide(Night *night, Error *error)
{
    int code = gate_exit_code(night->judgement);
    if (code != 0)
        return end_as_judged(night, code);
    HoldState hold = {0};
    bool barred = false;
    char reason[512], bar[256];
    if (!registry_hold_state(night->registry, &hold, error) ||
        !registry_is_barred(night->registry, night->version, &barred, bar, error))
        return STEP_FAILED;
    if (hold.held) {
        night->next_who = "owner";
        night->next_command = "fedgate unhold --reason TEXT";
        if (!text_print(reason, sizeof reason, "every check passed, but promotions are on hold by %s: %s",
                        hold.who, hold.reason))
            reason[sizeof reason - 1] = '\0';
        return end_with(night, NIGHT_REFUSED, 10, NULL, reason);
    }
    if (barred) {
        night->next_who = "owner";
        night->next_command = "fedgate unhold --unbar VERSION --reason TEXT";
        if (!text_print(reason, sizeof reason, "every check passed, but version %s is barred: %s",
                        night->version, bar))
            reason[sizeof reason - 1] = '\0';
        return end_with(night, NIGHT_REFUSED, 10, NULL, reason);
    }
    if (night->options->no_promote)
        return end_with(night, NIGHT_PASSED, 0, NULL,
                        "every required check passed; not promoted as asked (--no-promote)");
    PointerRecord now;
    bool any = false;
    if (!registry_current(night->registry, &any, &now, error))
        return STEP_FAILED;
    if (any && strcmp(now.to, night->version) == 0) {
        if (now.seq != night->expected_seq)
            return end_with(night, NIGHT_REFUSED, 10, NULL,
                            "baseline moved: the pointer changed during the night");
        return end_with(night, NIGHT_PROMOTED, 0, NULL, "already live, reconfirmed");
    }
    return promote(night, error);
}
