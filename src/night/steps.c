// steps - the twelve steps of a night in one table, and the loop that runs, times and logs them.
//
// Steps 5 to 8 run in one child process that the parent outlives. Whatever a step answers, a night that got
// the lock ends in a verdict: a failed step is the outcome "failed", which leaves the slot open for another
// try.
#include "night_internal.h"

#include <fedgate/remote.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

typedef struct NightStep {
    const char *name;
    StepEnd (*run)(Night *night, Error *error);   // NULL: belongs to the child, started by the first of them
} NightStep;

static const NightStep steps[NIGHT_STEPS] = {
    {"lock", night_step_lock},
    {"identify", night_step_identify},
    {"plan", night_step_plan},
    {"profile", night_step_profile},
    {"rehearse", night_run_child},
    {"parity", NULL},
    {"train", NULL},
    {"evaluate", NULL},
    {"judge", night_step_judge},
    {"bundle", night_step_bundle},
    {"decide", night_step_decide},
    {"notify", night_step_notify},
};
enum { STEP_JUDGE = 8, STEP_BUNDLE = 9, STEP_NOTIFY = 11 };

const char *const night_step_names[] = {"lock",  "identify", "plan",  "profile", "rehearse", "parity",
                                        "train", "evaluate", "judge", "bundle",  "decide",   "notify"};
const size_t night_step_count = NIGHT_STEPS;

static volatile sig_atomic_t interrupted;

static void on_signal(int signal)
{
    interrupted = signal;
}

bool night_interrupted(void)
{
    return interrupted != 0;
}

void night_watch_signals(void)
{
    interrupted = 0;
    struct sigaction action = {.sa_handler = on_signal};
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
}

// An error of any step, as an outcome. The records disagreeing is the owner's; everything else may be tried
// again.
static void end_with_error(Night *night, const char *step, const Error *error)
{
    char reason[sizeof night->reason];   // larger than message and hint together
    int hint = (int)strlen(error->hint);
    if (hint > 0 && error->hint[hint - 1] == '.')
        hint--;   // the sentence goes on behind it
    if (!text_print(reason, sizeof reason, "step '%s' failed: %s%s%.*s", step, error->message,
                    hint > 0 ? "; " : "", hint, error->hint))
        BUG("reason too long");
    bool inconsistent = error->kind == ERROR_INCONSISTENT;
    int code = error->kind == ERROR_CONFLICT ? error_exit_code(ERROR_BUSY) : error_exit_code(error->kind);
    night_end(night, inconsistent ? NIGHT_INCONSISTENT : NIGHT_FAILED, code, NULL, reason);
}

static size_t next_step(StepEnd end, size_t now)
{
    switch (end) {
    case STEP_TO_JUDGE:
        return STEP_JUDGE;
    case STEP_TO_SHIP:
        return STEP_BUNDLE;
    case STEP_TO_NOTIFY:
        return STEP_NOTIFY;
    case STEP_DONE:
        return NIGHT_STEPS;
    case STEP_GO_ON:
    case STEP_FAILED:
        break;
    }
    size_t next = now + 1;
    while (next < NIGHT_STEPS && steps[next].run == NULL)
        next++;
    return next;
}

static void note_step(Night *night, const char *name, int64_t begun_mono_ns, StepEnd end)
{
    double seconds = (double)(clock_monotonic_ns(night->clock) - begun_mono_ns) / 1e9;
    if (json_get(night->seconds, name) == NULL)   // the child's steps report their own
        json_put_number(night->seconds, name, seconds);
    log_event(night->log, end == STEP_FAILED ? LOG_ERROR : LOG_INFO, "night.step", name,
              LOG_FIELD_REAL("seconds", seconds),
              LOG_FIELD_TEXT("end", end == STEP_FAILED ? "failed" : "done"));
    Error ignored = ERROR_INIT;
    if (night->spool != NULL) {
        OWNED(Json, json_free) *row = json_make_object();
        json_put_text(row, "step", name);
        char begun[CLOCK_TIME_SIZE];
        night_time(night, clock_wall_ns(night->clock) - (int64_t)(seconds * 1e9), begun);
        json_put_text(row, "begun", begun);
        json_put_number(row, "seconds", json_number_or(json_get(night->seconds, name), seconds));
        json_put_text(row, "outcome", end == STEP_FAILED ? "failed" : "done");
        if (!spool_append(night->spool, TELEMETRY_NIGHT_STEP, row, &ignored))
            log_event(night->log, LOG_WARN, "telemetry.spool", ignored.message);
    }
}

// What was decided is done already and keeps its exit code; that nobody can read it is said even when quiet.
static void note_unwritten(Night *night, const Error *failed)
{
    char said[2 * sizeof night->reason];
    log_event(night->log, LOG_ERROR, "night.notify", failed->message);
    if (!text_print(said, sizeof said, "%s: %s; the verdict could not be written: %s",
                    night_outcome_name(night->outcome), night->reason, failed->message))
        said[sizeof said - 1] = '\0';
    night_say(night, said);
    night->unwritten = true;
}

static bool run_steps(Night *night, Error *error)
{
    for (size_t i = 0; i < NIGHT_STEPS;) {
        // Not before the lock: there is no verdict to write yet, nor a place for it.
        if (i > 0 && i < STEP_NOTIFY && night_interrupted()) {
            night_end(night, NIGHT_FAILED, error_exit_code(ERROR_BUSY), NULL,
                      "stopped by a signal; the slot stays open");
            i = STEP_NOTIFY;
        }
        int64_t begun = clock_monotonic_ns(night->clock);
        Error failed = ERROR_INIT;
        StepEnd end = steps[i].run(night, &failed);
        if (end == STEP_FAILED && night->lock == NULL) {   // nothing began: the caller's error, no verdict
            *error = failed;
            return false;
        }
        if (night->lock != NULL)
            note_step(night, steps[i].name, begun, end);
        if (end != STEP_FAILED) {
            i = next_step(end, i);
            continue;
        }
        if (i == STEP_NOTIFY) {
            note_unwritten(night, &failed);
            break;
        }
        end_with_error(night, steps[i].name, &failed);
        i = STEP_NOTIFY;
    }
    return true;
}

static void night_free(Night *night)
{
    process_free(night->child);
    release_free(night->draft);
    spool_close(night->spool);
    telemetry_close(night->telemetry);
    for (size_t k = 0; k < BASELINE_COUNT; k++)
        baseline_free(night->baselines[k]);
    maps_free(night->maps);
    dataset_close(night->dataset);
    ledger_free(night->ledger);
    json_free(night->profile);
    json_free(night->record);
    json_free(night->evidence);
    json_free(night->judgement);
    json_free(night->seconds);
    json_free(night->train_result);
    json_free(night->stored_record);
    json_free(night->verdict);
    registry_close(night->registry);
    file_lock_release(night->lock);
    log_free(night->log);
    free(night);
}

bool night_run(const Config *config, const NightOptions *options, Clock *clock, NightResult *ret_result,
               Error *error)
{
    if (!fault_check(error) || !config_check_needed(config, error) || !gate_check_policy(config, error) ||
        !remote_check_config(config, error))
        return false;
    Night *night = calloc(1, sizeof *night);
    if (night == NULL)
        return FAIL(error, ERROR_MEMORY, 0, "could not allocate a night");
    night->config = config;
    night->options = options;
    // Fault builds only: modelled durations, so that a slow day cannot change a test.
    Clock *modelled = fault_set("clock.model")
                          ? clock_simulated((int64_t)(fault_value("model.night_start", 1764547200) * 1e9))
                          : NULL;
    night->clock = modelled == NULL ? clock : modelled;
    night->seconds = json_make_object();
    night_watch_signals();
    bool done = run_steps(night, error);
    if (done) {
        *ret_result = (NightResult){
            .exit_code = night->exit_code, .unwritten = night->unwritten, .verdict = night->verdict};
        if (!text_copy(ret_result->sentence, sizeof ret_result->sentence, night->reason))
            BUG("sentence too long");
        night->verdict = NULL;
    }
    night_free(night);
    if (modelled != NULL)
        clock_free(modelled);
    return done;
}

void night_result_done(NightResult *result)
{
    json_free(result->verdict);
    result->verdict = NULL;
}
