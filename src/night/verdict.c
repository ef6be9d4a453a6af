// verdict - the judgement, and what was done about it: "fedgate.verdict/1" (design.md section 2).
#include "night_internal.h"

#include <string.h>

// What to type next, and who. One row an outcome; %s is the run.
static const struct {
    NightOutcome outcome;
    const char *who, *command;
} next_steps[] = {
    {NIGHT_PROMOTED, "nobody", "fedgate history"},
    {NIGHT_PASSED, "ML engineer", "fedgate run"},
    {NIGHT_REFUSED, "ML engineer", "fedgate verdict %s --format json"},
    {NIGHT_INCONCLUSIVE, "on-call", "fedgate run --slot %s"},
    {NIGHT_REVERTED, "on-call", "fedgate verify; then the owner: fedgate run --retry"},
    {NIGHT_INCONSISTENT, "owner", "fedgate verify"},
    {NIGHT_FAILED, "on-call", "fedgate doctor; then fedgate run --slot %s"},
};

static Json *next_step(const Night *night)
{
    Json *next = json_make_object();
    if (night->next_command != NULL) {
        json_put_text(next, "who", night->next_who);
        json_put_text(next, "command", night->next_command);
        return next;
    }
    // Only a slot that waits for the database goes on by itself; any other that could not be judged is looked
    // into.
    bool waits = strcmp(night->decided_by, "telemetry") == 0;
    NightOutcome outcome = night->outcome == NIGHT_INCONCLUSIVE && !waits ? NIGHT_REFUSED : night->outcome;
    for (size_t i = 0; i < sizeof next_steps / sizeof next_steps[0]; i++) {
        if (next_steps[i].outcome != outcome)
            continue;
        const char *format = next_steps[i].command, *hole = strstr(format, "%s");
        SCOPED_TEXT command;
        text_init(&command, 400);
        text_add_bytes(&command, format, hole == NULL ? strlen(format) : (size_t)(hole - format));
        if (hole != NULL) {
            text_add(&command, outcome == NIGHT_REFUSED ? night->run : night->slot);
            text_add(&command, hole + 2);
        }
        json_put_text(next, "who", next_steps[i].who);
        json_put_text(next, "command", text_string(&command));
    }
    return next;
}

static Json *live_now(const Night *night)
{
    PointerRecord record;
    bool any = false;
    Error ignored = ERROR_INIT;
    Json *current = json_make_object();
    if (night->registry == NULL || !registry_current(night->registry, &any, &record, &ignored) || !any) {
        json_put_text(current, "version", NULL);
        json_put_text(current, "kind", NULL);
        json_put_text(current, "since", NULL);
        if (ignored.kind != ERROR_NONE)
            json_put_text(current, "problem", ignored.message);
        return current;
    }
    char since[CLOCK_TIME_SIZE];
    night_time(night, record.wall_ns, since);
    json_put_text(current, "version", record.to);
    json_put_text(current, "kind", release_kind_name(record.to_kind));
    json_put_text(current, "since", since);
    return current;
}

static void put_previous_good(const Night *night, Json *verdict)
{
    char version[VERSION_SIZE];
    bool any = false;
    Error ignored = ERROR_INIT;
    if (night->registry == NULL || !registry_previous_good(night->registry, &any, version, &ignored))
        any = false;
    json_put_text(verdict, "previous_good", any ? version : NULL);
}

static Json *rubric_of(const Night *night)
{
    Json *rubric = json_copy_deep(json_get(night->judgement, "rubric"));
    if (rubric == NULL) {   // nothing was judged
        rubric = json_make_object();
        json_put(rubric, "score", NULL);
        json_put(rubric, "required_met", NULL);
        json_put(rubric, "items", json_make_array());
    }
    return rubric;
}

Json *night_verdict(Night *night)
{
    Json *verdict = json_make_object();
    char text[CLOCK_TIME_SIZE], hex[DIGEST_HEX_SIZE];
    json_put_text(verdict, "schema", "fedgate.verdict/1");
    json_put_text(verdict, "model", night->model);
    json_put_text(verdict, "slot", night->slot);
    json_put_text(verdict, "run", night->run);
    json_put_text(verdict, "version", night->version[0] != '\0' ? night->version : NULL);
    json_put_text(verdict, "outcome", night_outcome_name(night->outcome));
    json_put_text(verdict, "reason", night->reason);
    json_put_text(verdict, "decided_by", night->decided_by[0] != '\0' ? night->decided_by : NULL);
    json_put(verdict, "current", live_now(night));
    put_previous_good(night, verdict);
    const Json *checks = json_get(night->judgement, "checks");
    json_put(verdict, "checks", checks == NULL ? json_make_array() : json_copy_deep(checks));
    json_put(verdict, "rubric", rubric_of(night));
    json_put(verdict, "measured", night_measured(night));
    json_put(verdict, "policy_digest", json_copy_deep(json_get(night->judgement, "policy_digest")));
    json_put(verdict, "evidence_digest", json_copy_deep(json_get(night->judgement, "evidence_digest")));
    json_put(verdict, "next", next_step(night));
    night_time(night, night->started_wall_ns, text);
    json_put_text(verdict, "started", text);
    night_time(night, night->ended_wall_ns, text);
    json_put_text(verdict, "ended", text);
    night_time(night, night->deadline_wall_ns, text);
    json_put_text(verdict, "deadline", text);
    json_put_integer(verdict, "exit", night->exit_code);
    digest_hex(&night->verdict_digest, hex);
    json_put_text(verdict, "verdict_digest", night->judgement == NULL ? NULL : hex);
    if (night->has_head) {
        digest_hex(&night->head.digest, hex);
        json_put_text(verdict, "head_digest", hex);   // a copy of the chain's end outside home and database
    }
    if (night->registry != NULL)
        json_put_bool(verdict, "duty_separated",
                      registry_duty_separated(night->registry, config_text(night->config, "owner")));
    return verdict;
}
