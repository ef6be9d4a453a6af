// end - how a night ends, and the small things every step needs: files of the run, sections, times.
#include "night_internal.h"

#include <stdlib.h>
#include <string.h>

const char *const night_outcome_names[] = {"promoted", "passed",       "refused", "inconclusive",
                                           "reverted", "inconsistent", "failed",  NULL};

const char *night_outcome_name(NightOutcome outcome)
{
    return night_outcome_names[outcome];
}

void night_say(Night *night, const char *reason)
{
    size_t length = strlen(reason);
    if (length >= sizeof night->reason)
        length = sizeof night->reason - 1;
    memmove(night->reason, reason, length);
    night->reason[length] = '\0';
}

void night_end(Night *night, NightOutcome outcome, int exit_code, const char *decided_by, const char *reason)
{
    night->outcome = outcome;
    night->exit_code = exit_code;
    night->ended_wall_ns = clock_wall_ns(night->clock);
    if (!text_copy(night->decided_by, sizeof night->decided_by, decided_by == NULL ? "" : decided_by))
        BUG("check name '%s' too long", decided_by);
    night_say(night, reason);
}

bool night_on_cpu(const Night *night)
{
    return text_equal(night->device.backend, "cpu");
}

bool night_file(const Night *night, const char *name, char *ret_path, Error *error)
{
    return file_join(ret_path, night->directory, name, error);
}

bool night_save(const Night *night, const char *name, const Json *value, Error *error)
{
    char path[FILE_PATH_SIZE];
    return night_file(night, name, path, error) && json_write_file(value, JSON_INDENTED, path, error);
}

Json *night_section(Json *evidence, const char *name)
{
    if (!json_is_object(json_get(evidence, name)))
        json_put(evidence, name, json_make_object());
    return (Json *)(uintptr_t)json_get(evidence, name);   // the tree is ours: const only guards readers
}

void night_time(const Night *night, int64_t wall_ns, char ret_text[static CLOCK_TIME_SIZE])
{
    clock_format(wall_ns, night->zone, ret_text);
}

// Only telemetry was missing, or the night that made good for it broke off: steps 10 to 12 are left to do.
static bool ship_pending(const Night *night)
{
    if (night->outcome == NIGHT_INCONCLUSIVE)
        return strcmp(night->decided_by, "telemetry") == 0;
    return night->outcome == NIGHT_FAILED && night->shipping_again;
}

bool night_slot_close(Night *night, bool judged, Error *error)
{
    OWNED(Json, json_free) *slot = json_make_object();
    char ended[CLOCK_TIME_SIZE], deadline[CLOCK_TIME_SIZE];
    night_time(night, night->ended_wall_ns, ended);
    night_time(night, night->deadline_wall_ns, deadline);
    json_put_integer(slot, "format", 1);
    json_put_text(slot, "slot", night->slot);
    json_put_text(slot, "run", night->run);
    json_put_text(slot, "version", night->version);
    json_put_bool(slot, "judged", judged);
    json_put_bool(slot, "ship_pending", ship_pending(night));
    json_put_integer(slot, "head_seq", night->expected_seq);
    json_put_text(slot, "outcome", night_outcome_name(night->outcome));
    json_put_integer(slot, "exit", night->exit_code);
    json_put_text(slot, "ended", ended);
    json_put_integer(slot, "deadline_wall_ns", night->deadline_wall_ns);
    return registry_slot_write(night->registry, night->slot, slot, error);
}

// A revert or rollback record names no run: the promotion of that version does.
bool night_live_run(const Night *night, char ret_run[static UUID_SIZE])
{
    PointerRecord *records = NULL;
    size_t count = 0;
    Error ignored = ERROR_INIT;
    bool found = false;
    if (!night->has_head || night->head.to_kind != RELEASE_MODEL ||
        !registry_history(night->registry, &records, &count, &ignored))
        return false;
    for (size_t i = count; i > 0 && !found; i--) {
        const PointerRecord *record = &records[i - 1];
        found = record->kind == MOVE_PROMOTE && strcmp(record->to, night->head.to) == 0 &&
                record->run[0] != '\0' && text_copy(ret_run, UUID_SIZE, record->run);
    }
    free(records);
    return found;
}
