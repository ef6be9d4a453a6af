// judge - step 9: first prove on known-bad candidates that the gate still refuses, then the judgement of this
// one.
#include "night_internal.h"

StepEnd night_step_judge(Night *night, Error *error)
{
    if (!night_put_release(night, error))
        return STEP_FAILED;
    Json *selftest = night_section(night->evidence, "selftest"), *refused = json_make_array(),
         *passed = json_make_array();
    json_put(selftest, "refused", refused);
    json_put(selftest, "passed", passed);
    OWNED(Json, json_free) *without = json_copy_deep(night->evidence);
    json_remove(without, "selftest");   // the planted variants are made from the evidence alone
    if (!gate_self_test(without, night->config, refused, passed))
        log_event(night->log, LOG_ERROR, "gate.selftest", "a known-bad candidate was not refused",
                  LOG_FIELD_TEXT("planted", json_text_or(json_at(passed, 0), "?")));
    json_free(night->judgement);
    night->judgement = gate_judge(night->evidence, night->config, JUDGE_EARLY);
    const Json *checks = json_get(night->judgement, "checks");
    for (size_t i = 0; i < json_count(checks); i++) {
        const Json *check = json_at(checks, i);
        SCOPED_TEXT sentence;
        text_init(&sentence, 600);
        text_add_format(&sentence, "%s %s: %s", json_text_or(json_get(check, "name"), "?"),
                        json_text_or(json_get(check, "outcome"), "?"),
                        json_text_or(json_get(check, "reason"), ""));
        log_event(night->log, LOG_INFO, "gate.check", text_string(&sentence),
                  LOG_FIELD_REAL("value", json_number_or(json_get(check, "value"), 0)),
                  LOG_FIELD_REAL("limit", json_number_or(json_get(check, "limit"), 0)));
    }
    if (!night_save(night, "evidence.json", night->evidence, error) ||
        !night_save(night, "judgement.json", night->judgement, error) || !night_save_release(night, error) ||
        !night_pairs_keep(night, error))
        return STEP_FAILED;
    return STEP_GO_ON;
}
