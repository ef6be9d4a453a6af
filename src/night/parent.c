// parent - what the parent does while the child works: listen, spool, show progress, keep the deadline, name
// the dead.
//
// A device that fails is the child's to say: it waits for device.timeout and ends. A call of the driver that
// never comes back it cannot say; the parent sees it in the count of calls they share, and ends the child.
#include "night_internal.h"

#include <errno.h>
#include <fedgate/report.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { LINE_SIZE = 64 * 1024 };
static const int64_t second_ns = 1000000000;

typedef struct Listening {
    Night *night;
    Error failed;   // what the child said it failed of
    bool done, signalled, killed_late;
    int64_t begun_ns;
    double before_seconds;   // of this start, before the child
    int64_t child_elapsed_ns;   // the child's clock when it last spoke
    int64_t progress_written_ns;
    char step[32];
    int64_t calls, moved_ns;   // of the device, as seen last and since when; real clock
    int64_t hung_ns;   // when a call was given up; 0: none was
    double silent_seconds;   // how long it had been out
    int64_t hung_at;   // training step
    char hung_step[32];
    int64_t last_word_ns;   // when the child said how it ended; 0: not yet
    int64_t killed_ns;   // for one of these
} Listening;

// -- what the starts of one run cost together: spent.json, written while the child works, so that a start
// that breaks off has said it

static bool read_spent(Listening *listening, Error *error)
{
    Night *night = listening->night;
    char path[FILE_PATH_SIZE];
    for (size_t i = 0; i < json_count(night->seconds); i++)
        listening->before_seconds +=
            json_number_or(json_get(night->seconds, json_key_at(night->seconds, i)), 0);
    if (!night_file(night, "spent.json", path, error))
        return false;
    OWNED(Json, json_free) *spent = file_exists(path) ? json_read_file(path, NIGHT_JSON_MAX, error) : NULL;
    if (spent == NULL && file_exists(path))
        return false;
    night->spent_seconds = json_number_or(json_get(spent, "device_seconds"), 0);
    return true;
}

static void write_spent(const Listening *listening)
{
    const Night *night = listening->night;
    OWNED(Json, json_free) *spent = json_make_object();
    Error failed = ERROR_INIT;
    json_put_number(spent, "device_seconds",
                    night->spent_seconds + listening->before_seconds +
                        (double)(clock_monotonic_ns(night->clock) - listening->begun_ns) / 1e9);
    if (!night_save(night, "spent.json", spent, &failed))
        log_event(night->log, LOG_WARN, "night.spent", failed.message);
}

// -- what the child says

static void show_progress(Listening *listening, const Json *message)
{
    Night *night = listening->night;
    int64_t now = clock_monotonic_ns(night->clock);
    if (now - listening->progress_written_ns < second_ns / 2)
        return;
    listening->progress_written_ns = now;
    write_spent(listening);
    Error ignored = ERROR_INIT;
    if (!night_save(night, "progress.json", message, &ignored))
        log_event(night->log, LOG_WARN, "night.progress", ignored.message);
    if (night->options->quiet)
        return;
    SCOPED_TEXT line;
    text_init(&line, 200);
    report_progress(message, &line);
    if (night->options->terminal)
        fprintf(stderr, "\r%-79s", text_string(&line));
    else
        log_event(night->log, LOG_INFO, "train.progress", text_string(&line));
}

static void spool_row(Listening *listening, const Json *message)
{
    int64_t kind = json_integer_or(json_get(message, "kind"), -1);
    const Json *payload = json_get(message, "payload");
    Error failed = ERROR_INIT;
    if (kind < 0 || kind >= TELEMETRY_KIND_COUNT || payload == NULL ||
        !spool_append(listening->night->spool, (TelemetryKind)kind, payload, &failed))
        log_event(listening->night->log, LOG_WARN, "telemetry.spool",
                  failed.message[0] ? failed.message : "malformed row from the child");
}

static void take_line(Listening *listening, const char *line)
{
    Night *night = listening->night;
    Error ignored = ERROR_INIT;
    OWNED(Json, json_free) *message = json_parse(line, strlen(line), LINE_SIZE, &ignored);
    const char *event = json_text_or(json_get(message, "event"), ""),
               *name = json_text_or(json_get(message, "name"), "");
    int64_t elapsed = json_integer_or(json_get(message, "elapsed_ns"), listening->child_elapsed_ns);
    if (clock_is_simulated(night->clock) && elapsed > listening->child_elapsed_ns)
        clock_advance(night->clock, elapsed - listening->child_elapsed_ns);
    listening->child_elapsed_ns = elapsed;
    if (strcmp(event, "progress") == 0) {
        show_progress(listening, message);
    } else if (strcmp(event, "row") == 0) {
        spool_row(listening, message);
    } else if (strcmp(event, "begin") == 0) {
        if (!text_copy(listening->step, sizeof listening->step, name))
            listening->step[0] = '\0';
    } else if (strcmp(event, "end") == 0 || strcmp(event, "failed") == 0) {
        json_put_number(night->seconds, name, json_number_or(json_get(message, "seconds"), 0));
        log_event(night->log, LOG_INFO, "night.step", name,
                  LOG_FIELD_REAL("seconds", json_number_or(json_get(message, "seconds"), 0)));
    } else if (strcmp(event, "refused") == 0) {
        log_event(night->log, LOG_WARN, "night.refused", name);
    } else if (strcmp(event, "error") == 0) {
        int64_t kind = json_integer_or(json_get(message, "kind"), ERROR_INTERNAL);
        kind = kind > ERROR_NONE && kind <= ERROR_CONFIG ? kind : ERROR_INTERNAL;
        error_set(&listening->failed, (ErrorKind)kind, 0, json_text_or(json_get(message, "origin"), "child"),
                  "%s", json_text_or(json_get(message, "message"), "unknown"));
        error_hint(&listening->failed, "%s", json_text_or(json_get(message, "hint"), ""));
    } else if (strcmp(event, "done") == 0) {
        listening->done = true;
    }
}

// What one call of the device may last: device.timeout, which the child sees to, and as much more as a slow
// machine needs.
static int64_t call_limit_ns(const Night *night)
{
    int64_t limit_ns = (int64_t)(config_real(night->config, "device.timeout") * 1e9);
    return limit_ns + (limit_ns / 4 > second_ns ? limit_ns / 4 : second_ns);
}

// First the child may end by itself, then not.
static void watch_device(Listening *listening)
{
    Night *night = listening->night;
    const int64_t grace_ns = 2 * second_ns, now = clock_monotonic_ns(clock_real());
    int64_t calls = atomic_load_explicit(&night->watch->calls, memory_order_relaxed);
    if (calls != listening->calls || listening->moved_ns == 0) {
        listening->calls = calls;
        listening->moved_ns = now;
    }
    if (listening->hung_ns == 0 && calls % 2 == 1 && now - listening->moved_ns > call_limit_ns(night)) {
        listening->hung_ns = now;
        listening->silent_seconds = (double)(now - listening->moved_ns) / 1e9;
        listening->hung_at = atomic_load(&night->watch->step);
        memcpy(listening->hung_step, listening->step, sizeof listening->hung_step);
        log_event(night->log, LOG_ERROR, "night.device", "a device call does not come back");
        process_signal(night->child, SIGTERM);
    } else if (listening->hung_ns != 0 && now - listening->hung_ns > grace_ns && listening->killed_ns == 0) {
        process_signal(night->child, SIGKILL);
        listening->killed_ns = now;
    }
}

// What is left when the child has said how it ended is giving back and closing; a driver may hang in that
// too.
static void watch_end(Listening *listening)
{
    const int64_t now = clock_monotonic_ns(clock_real());
    if (!listening->done && listening->failed.kind == ERROR_NONE)
        return;
    if (listening->last_word_ns == 0)
        listening->last_word_ns = now;
    if (now - listening->last_word_ns > call_limit_ns(listening->night) && listening->killed_ns == 0) {
        process_signal(listening->night->child, SIGKILL);
        listening->killed_ns = now;
    }
}

// Killed, and still there: it is stuck in the kernel, and nothing it says will come.
static bool given_up(const Listening *listening)
{
    const int64_t patience_ns = 10 * second_ns;
    return listening->killed_ns != 0 && clock_monotonic_ns(clock_real()) - listening->killed_ns > patience_ns;
}

// Signals are passed on once; after the deadline nothing can be promoted, so a child that is still there is
// ended.
static void watch_child(Listening *listening)
{
    Night *night = listening->night;
    if (night_interrupted() && !listening->signalled) {
        process_signal(night->child, SIGTERM);
        listening->signalled = true;
    }
    int64_t grace = 10 * second_ns;
    if (!clock_is_simulated(night->clock) && clock_wall_ns(night->clock) > night->deadline_wall_ns + grace &&
        !listening->killed_late) {
        process_signal(night->child, SIGKILL);
        listening->killed_late = true;
    }
}

static bool listen_to_child(Listening *listening, Error *error)
{
    static char line[LINE_SIZE];
    for (;;) {
        int got = process_read_line(listening->night->child, line, sizeof line, second_ns / 2, error);
        if (got == 1)
            take_line(listening, line);
        else if (got == -1)
            return true;
        else if (got == -2)
            return false;
        watch_child(listening);
        watch_device(listening);
        watch_end(listening);
        if (given_up(listening))
            return true;
    }
}

static void copy_members(Json *to, const Json *from)
{
    for (size_t i = 0; i < json_count(from); i++) {
        const char *key = json_key_at(from, i);
        json_put(to, key, json_copy_deep(json_get(from, key)));
    }
}

// Sections of the child are merged into the parent's: plan figures and measurements stand side by side.
static bool merge_evidence(Night *night, Error *error)
{
    char path[FILE_PATH_SIZE];
    if (!night_file(night, "child-evidence.json", path, error))
        return false;
    OWNED(Json, json_free) *child = json_read_file(path, NIGHT_JSON_MAX, error);
    if (child == NULL)
        return false;
    for (size_t i = 0; i < json_count(child); i++) {
        const char *key = json_key_at(child, i);
        const Json *section = json_get(child, key);
        if (strcmp(key, "train_result") == 0)
            night->train_result = json_copy_deep(section);
        else if (json_is_object(section))
            copy_members(night_section(night->evidence, key), section);
        else
            json_put(night->evidence, key, json_copy_deep(section));
    }
    night->has_candidate = json_get(night->evidence, "quality") != NULL;
    return file_remove(path, error);
}

static bool fail_hung(const Listening *listening, pid_t id, const ProcessResult *result, Error *error)
{
    const char *end = result == NULL        ? "does not end even when killed"
                      : result->signal != 0 ? strsignal(result->signal)
                                            : "ended when asked to";
    (void)FAIL(error, ERROR_DEVICE, 0,
               "a device call of the training process (pid %ld) did not come back for %.1f s in step '%s', "
               "training step %lld; the process: %s",
               (long)id, listening->silent_seconds, listening->hung_step, (long long)listening->hung_at, end);
    return error_hint(error, "The next run of this slot goes on from the last checkpoint.");
}

static StepEnd end_of_child(Listening *listening, const ProcessResult *result, Error *error)
{
    Night *night = listening->night;
    if (listening->done && result->exit_code == 0) {
        if (!merge_evidence(night, error))
            return STEP_FAILED;
        return STEP_GO_ON;
    }
    if (listening->hung_ns != 0) {
        (void)fail_hung(listening, process_id(night->child), result, error);
        return STEP_FAILED;
    }
    if (listening->killed_late) {   // past the deadline: refused by the window with what there is
        Json *window = night_section(night->evidence, "window");
        json_put_bool(window, "stopped_early", true);
        json_put_text(window, "end_reason", "deadline");
        json_put_integer(window, "now_wall_ns", clock_wall_ns(night->clock));
        return STEP_TO_JUDGE;
    }
    if (listening->failed.kind != ERROR_NONE) {
        *error = listening->failed;
        error_prefix(error, "in '%s'", listening->step);
        return STEP_FAILED;
    }
    if (result->signal != 0)
        FAIL(error, ERROR_UNAVAILABLE, 0,
             "the training process (pid %ld) was ended by signal %d (%s) in step '%s', training step %lld",
             (long)process_id(night->child), result->signal, strsignal(result->signal), listening->step,
             (long long)atomic_load(&night->watch->step));
    else
        FAIL(error, ERROR_INTERNAL, 0,
             "the training process ended with code %d in step '%s' without saying why", result->exit_code,
             listening->step);
    error_hint(error, "The next run of this slot goes on from the last checkpoint.");
    return STEP_FAILED;
}

static StepEnd run_child(Night *night, Error *error)
{
    Listening listening = {.night = night, .begun_ns = clock_monotonic_ns(night->clock)};
    listening.child_elapsed_ns = listening.begun_ns;
    char stale[FILE_PATH_SIZE];
    if (!read_spent(&listening, error) || !night_file(night, "child-evidence.json", stale, error) ||
        !file_remove(stale, error))
        return STEP_FAILED;
    night->child = process_fork(night_child_main, night, error);
    process_yield_to_others(
        true);   // a parent that wakes up to listen must not take the processor from the device
    bool heard = night->child != NULL && listen_to_child(&listening, error);
    process_yield_to_others(false);
    write_spent(&listening);
    if (!heard)
        return STEP_FAILED;
    if (night->options->terminal && !night->options->quiet)
        fprintf(stderr, "\r%79s\r", "");
    ProcessResult result = {0};
    bool waited = process_wait(night->child, 30 * second_ns, &result, error);
    if (!waited && listening.failed.kind != ERROR_NONE)
        *error = listening.failed;
    if (!waited && listening.hung_ns != 0)
        (void)fail_hung(&listening, process_id(night->child), NULL, error);
    StepEnd end = waited ? end_of_child(&listening, &result, error) : STEP_FAILED;
    process_free(night->child);
    night->child = NULL;
    return end;
}

StepEnd night_run_child(Night *night, Error *error)
{
    night->watch =
        mmap(NULL, sizeof *night->watch, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (night->watch == MAP_FAILED) {
        night->watch = NULL;
        (void)FAIL(error, ERROR_MEMORY, 0, "could not take memory to watch the device: %s", strerror(errno));
        return STEP_FAILED;
    }
    StepEnd end = run_child(night, error);
    (void)munmap(night->watch, sizeof *night->watch);
    night->watch = NULL;
    return end;
}
