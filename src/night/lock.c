// lock - step 1: open the home, take the run lock, put right whatever an earlier run left half done.
#include "night_internal.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { HOLDER_SIZE = 256 };

// Label and deadline of this night; --slot names it without moving the deadline.
static bool name_slot(Night *night, Error *error)
{
    char date[11];
    if (!plan_deadline(night->config, night->started_wall_ns, &night->deadline_wall_ns, date, error))
        return false;
    const char *slot = night->options->slot == NULL ? date : night->options->slot;
    if (!text_is_name(slot))
        return FAIL(error, ERROR_USAGE, 0, "slot '%s' is not a name (a-z 0-9 . _ -, at most 63)", slot);
    return text_copy(night->slot, sizeof night->slot, slot) ||
           FAIL(error, ERROR_USAGE, 0, "slot '%s' is too long", slot);
}

static bool describe_holder(const Night *night, char ret_holder[static HOLDER_SIZE], Error *error)
{
    char started[CLOCK_TIME_SIZE];
    night_time(night, night->started_wall_ns, started);
    return text_print(ret_holder, HOLDER_SIZE, "pid %ld, run %s, since %s", (long)getpid(), night->run,
                      started) ||
           FAIL(error, ERROR_INTERNAL, 0, "lock holder text too long");
}

bool night_lock_names_run(Night *night, Error *error)
{
    char holder[HOLDER_SIZE];
    return describe_holder(night, holder, error) && file_lock_rewrite(night->lock, holder, error);
}

static bool take_lock(Night *night, Error *error)
{
    char path[FILE_PATH_SIZE], holder[HOLDER_SIZE];
    if (!file_join(path, night->options->home, "run.lock", error) || !describe_holder(night, holder, error))
        return false;
    night->lock = file_lock_try(path, holder, error);
    if (night->lock == NULL && error->kind == ERROR_BUSY) {
        error_hint(error, "Another night is running in this home; `fedgate watch` follows it.");
        return error_prefix(error, "home '%s' is busy", night->options->home);
    }
    return night->lock != NULL;
}

// After a revert the run ends here: what was live was bad, on-call must know before anything new is trained.
static StepEnd end_reverted(Night *night, const RecoverResult *recovered)
{
    char reason[512];
    if (!text_print(reason, sizeof reason, "reverted to %s: %s", recovered->record.to,
                    recovered->record.reason))
        reason[sizeof reason - 1] = '\0';
    if (!text_copy(night->version, sizeof night->version, recovered->record.from))
        night->version[0] = '\0';
    night->head = recovered->record;
    night->has_head = true;
    night_end(night, NIGHT_REVERTED, 12, NULL, reason);
    return STEP_TO_NOTIFY;
}

static bool make_run_directory(Night *night, Error *error)
{
    char runs[FILE_PATH_SIZE], path[FILE_PATH_SIZE];
    if (!file_join(runs, night->options->home, "runs", error) ||
        !file_join(night->directory, runs, night->run, error) ||
        !file_make_directory(night->directory, 0750, error) || !night_file(night, "log.jsonl", path, error))
        return false;
    return log_to_file(night->log, path, error);
}

// A home serves one model: what is live, and every version it is compared with, is of that model.
static bool serves_model(const Night *night, Error *error)
{
    size_t length = strlen(night->model);
    const char *live = night->has_head ? night->head.to : "";
    if (!night->has_head || (strncmp(live, night->model, length) == 0 && live[length] == '-' &&
                             strchr(live + length + 1, '-') == NULL))
        return true;
    (void)FAIL(error, ERROR_CONFIG, 0,
               "the configuration names model '%s', but version '%s' is live in home '%s'", night->model,
               live, night->options->home);
    return error_hint(error, "Give each model a home of its own: fedgate init --home DIR.");
}

// A home that cannot be written is found now, not after a night of training.
static bool probe_home(const Night *night, Error *error)
{
    char path[FILE_PATH_SIZE];
    if (!file_join(path, night->options->home, ".tmp-probe", error))
        return false;
    if (!file_write_atomic(path, "", 0, 0600, error) || !file_remove(path, error)) {
        error_hint(
            error,
            "The account that runs the night must be able to write the home; look at its mode and mount.");
        return error_prefix(error, "home '%s' cannot be written", night->options->home);
    }
    return true;
}

StepEnd night_step_lock(Night *night, Error *error)
{
    night->started_wall_ns = clock_wall_ns(night->clock);
    night->ended_wall_ns = night->started_wall_ns;
    clock_uuid7(night->clock, night->run);
    if (!text_copy(night->model, sizeof night->model, config_text(night->config, "model")) ||
        !text_copy(night->zone, sizeof night->zone, config_text(night->config, "window.zone")) ||
        !name_slot(night, error))
        return STEP_FAILED;
    night->log = log_new(night->clock);
    if (night->log == NULL) {
        FAIL(error, ERROR_MEMORY, 0, "could not allocate the log");
        return STEP_FAILED;
    }
    if (!night->options->quiet && !night->options->terminal)
        log_to_text(night->log, stderr, LOG_INFO);
    night->registry = registry_open(night->options->home, night->clock, error);
    if (night->registry == NULL || !probe_home(night, error) || !take_lock(night, error))
        return STEP_FAILED;
    RecoverResult recovered = {0};
    if (!make_run_directory(night, error))
        return STEP_FAILED;
    log_set_identity(night->log, night->run, NULL);
    if (!registry_recover(night->registry, &recovered, error))
        return STEP_FAILED;
    if (recovered.report[0] != '\0')
        log_event(night->log, LOG_WARN, "registry.recover", recovered.report);
    if (recovered.reverted)
        return end_reverted(night, &recovered);
    if (!registry_current(night->registry, &night->has_head, &night->head, error) ||
        !serves_model(night, error))
        return STEP_FAILED;
    night->expected_seq = night->has_head ? night->head.seq : 0;
    return STEP_GO_ON;
}
