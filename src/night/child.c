// child - steps 5 to 8 in a process of their own: rehearse, parity, train, evaluate.
//
// The child reports JSON lines on a pipe: {"event": "begin" | "end" | "progress" | "row" | "refused" |
// "error" | "done", ...}, each with the time that passed since its start, so that the parent's simulated
// clock keeps step. What it made lies in the run directory: child-evidence.json, candidate/, checkpoints/,
// timeline.json. A refusal (budget, window) is not an error: evidence says it.
#include "night_internal.h"

#include <malloc.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void child_report(Child *child, Json *message)
{
    SCOPED_TEXT line;
    text_init(&line, 60000);
    json_put_integer(message, "elapsed_ns", clock_monotonic_ns(child->night->clock));
    json_write(message, JSON_COMPACT, &line);
    text_add_char(&line, '\n');
    Error ignored = ERROR_INIT;
    if (!line.failed && !file_write_all(child->report_fd, line.data, line.length, &ignored))
        child->stop_for_signal = true;   // nobody listens any more: stop at the next step
    json_free(message);
}

static void report_event(Child *child, const char *event, const char *name, double seconds)
{
    Json *message = json_make_object();
    json_put_text(message, "event", event);
    json_put_text(message, "name", name);
    if (!isnan(seconds))
        json_put_number(message, "seconds", seconds);
    child_report(child, message);
}

// -- the four steps

static bool child_rehearse(void *context, Error *error)
{
    Child *child = context;
    Night *night = child->night;
    child->context_bytes = process_resident_bytes();
    for (int kind = 0; kind < LEDGER_KIND_COUNT; kind++)
        child->context_live[kind] = ledger_live(night->ledger, (LedgerKind)kind);
    atomic_fetch_add(&night->watch->calls, 1);   // opening may hang as well
    child->device =
        device_open(config_text(night->config, "device.backend"),
                    (int)config_integer(night->config, "device.threads"), night->clock, night->ledger, error);
    atomic_fetch_add(&night->watch->calls, 1);
    if (child->device != NULL) {
        device_watch(child->device, night->watch);
        device_set_timeout(child->device, (int64_t)(config_real(night->config, "device.timeout") * 1e9));
    }
    if (child->device == NULL || !child_set_arena(child, error) ||
        !night_file(night, "checkpoints", child->checkpoints, error))
        return false;
    TrainerSpec spec = {.config = night->config,
                        .dataset = night->dataset,
                        .maps = night->maps,
                        .device = child->device,
                        .clock = night->clock,
                        .ledger = night->ledger,
                        .checkpoints = child->checkpoints,
                        .microbatch = night->plan.memory.microbatch,
                        .validation_rows = night->plan.memory.validation_rows,
                        .watch = child_watch,
                        .ladder_watch = child_watch_ladder,
                        .watch_context = child};
    child->trainer = trainer_open(&spec, error);
    if (child->trainer == NULL)
        return false;
    return trainer_rehearse(child->trainer, child->evidence, error);
}

static bool child_parity(void *context, Error *error)
{
    Child *child = context;
    return trainer_parity_early(child->trainer, child->evidence, error);
}

// An earlier start of this run may have ended the training: what it measured of it lies in trained.json.
static bool keep_training(Child *child, Error *error)
{
    static const char *const sections[] = {"timeline",       "loop",      "stages",
                                           "limiting_stage", "resources", "plausible"};
    static const char *const inner[][2] = {
        {"memory", "live"}, {"memory", "series"}, {"window", "forecasts"}, {"window", "blocks"}};
    TrainResult *result = &child->result;
    char path[FILE_PATH_SIZE];
    OWNED(Json, json_free) *stored = NULL;
    if (result->steps > result->resumed_from) {
        stored = json_copy_deep(child->evidence);
        json_put_integer(stored, "steps", result->steps);
        json_put_integer(stored, "samples", result->samples);
        json_put_integer(stored, "resumed_from", result->resumed_from);
        json_put_number(stored, "train_seconds", result->train_seconds);
        return night_save(child->night, "trained.json", stored, error);
    }
    if (!night_file(child->night, "trained.json", path, error))
        return false;
    if (!file_exists(path))
        return true;
    if ((stored = json_read_file(path, NIGHT_JSON_MAX, error)) == NULL)
        return false;
    if (json_integer_or(json_get(stored, "steps"), -1) != result->steps)
        return true;
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++)
        json_put(child->evidence, sections[i], json_copy_deep(json_get(stored, sections[i])));
    for (size_t i = 0; i < sizeof inner / sizeof inner[0]; i++)
        json_put(night_section(child->evidence, inner[i][0]), inner[i][1],
                 json_copy_deep(json_get(json_get(stored, inner[i][0]), inner[i][1])));
    result->samples = json_integer_or(json_get(stored, "samples"), 0);
    result->resumed_from = json_integer_or(json_get(stored, "resumed_from"), 0);
    result->train_seconds = json_number_or(json_get(stored, "train_seconds"), 0);
    return true;
}

static bool child_train(void *context, Error *error)
{
    Child *child = context;
    Night *night = child->night;
    char trace[FILE_PATH_SIZE], candidate[FILE_PATH_SIZE];
    child->block_steps = config_integer(night->config, "telemetry.window");
    if (!night_file(night, "timeline.json", trace, error) ||
        !night_file(night, "candidate", candidate, error) ||
        !trainer_train(child->trainer, trace, &child->result, child->evidence, error))
        return false;
    child_watch_end(child);
    if (!keep_training(child, error))
        return false;
    const TrainResult *result = &child->result;
    bool limited =
        result->stopped_early && !child->stop_for_window && !child->stop_for_signal && !result->scale_lost;
    Json *window = night_section(child->evidence, "window");
    json_put_integer(window, "planned_steps", result->planned_steps);
    json_put_integer(window, "done_steps", result->steps);
    json_put_bool(window, "stopped_early", result->stopped_early);
    json_put_text(window, "end_reason",
                  child->stop_for_window                  ? "deadline"
                  : result->scale_lost                    ? "loss_scale"
                  : limited                               ? "time_limit"
                  : result->steps < result->planned_steps ? "patience"
                                                          : "planned");
    json_put_integer(child->evidence, "resumed_from_step", result->resumed_from);
    if (child->stop_for_signal)
        return FAIL(error, ERROR_BUSY, 0, "stopped by a signal at step %lld; a checkpoint was saved",
                    (long long)result->steps);
    if (result->stopped_early)
        return true;
    if (!trainer_replay(child->trainer, child->evidence, error))
        return false;
    child->model = trainer_model(child->trainer, error);
    return child->model != NULL && file_remove_tree(candidate, error) &&
           file_make_directory(candidate, 0750, error) && model_save(child->model, candidate, error);
}

static bool child_evaluate_step(void *context, Error *error)
{
    Child *child = context;
    return child->result.stopped_early || child_evaluate(child, error);
}

// The rungs that need the trained candidate; pairs of earlier nights are put before tonight's.
static bool child_parity_late(void *context, Error *error)
{
    Child *child = context;
    const Config *config = child->night->config;
    if (child->result.stopped_early)
        return true;
    size_t count = config_list_count(config, "quality.slices"), read = 0;
    const char **names = calloc(count + 1, sizeof *names);
    Column *columns = calloc(count + 1, sizeof *columns);
    bool good = (names != NULL && columns != NULL) ||
                FAIL(error, ERROR_MEMORY, 0, "could not allocate the slices of parity");
    for (; good && read < count; read++) {
        names[read] = config_list_text(config, "quality.slices", read);
        if (!dataset_column(child->night->dataset, SPLIT_VALIDATION, names[read], &columns[read], error)) {
            good = error_prefix(error, "slice column '%s'", names[read]);
            break;
        }
    }
    ParitySpec spec = {.slice_names = names,
                       .slices = columns,
                       .slice_count = count,
                       .run = child->night->run,
                       .draw = child->night->slot};
    Json *parity = night_section(child->evidence, "parity");
    good = good && child_metric(child->night, &spec.metric, error) &&
           night_pairs_steps(child->night, spec.metric, &spec.earlier_steps, error) &&
           trainer_parity_late(child->trainer, &spec, child->evidence, error) &&
           night_pairs_join(child->night, parity, error);
    if (good && json_get(parity, "training_seconds") != NULL)   // also when an earlier start trained
        json_put_number(parity, "training_seconds", child->result.train_seconds);
    for (size_t i = 0; i < read; i++)
        column_done(&columns[i]);
    free(columns);
    free(names);
    return good;
}

static const struct {
    const char *name;
    bool (*run)(void *, Error *);
} child_steps[] = {
    {"rehearse", child_rehearse},      {"parity", child_parity},           {"train", child_train},
    {"evaluate", child_evaluate_step}, {"parity late", child_parity_late},
};

// -- what came of it

static void note_window(Child *child)
{
    Json *window = night_section(child->evidence, "window");
    json_put_integer(window, "now_wall_ns", clock_wall_ns(child->night->clock));
    json_put_integer(window, "deadline_wall_ns", child->night->deadline_wall_ns);
}

// Over the budget is what the memory judge is for: the evidence says so and the night goes on to it.
static bool refused_by_memory(Child *child, const Error *error)
{
    if (error->kind != ERROR_MEMORY)
        return false;
    Json *memory = night_section(child->evidence, "memory");
    json_put_text(memory, "refusal", error->message);
    Json *rehearsal =
        night_section(memory, "rehearsal");   // whatever asked too much, the full cycle did not fit
    json_put_bool(rehearsal, "ok", false);
    json_put_integer(rehearsal, "peak_bytes", ledger_peak(child->night->ledger, LEDGER_DEVICE));
    report_event(child, "refused", error->message, (double)NAN);
    return true;
}

static bool run_child_steps(Child *child, Error *error)
{
    for (size_t i = 0; i < sizeof child_steps / sizeof child_steps[0]; i++) {
        report_event(child, "begin", child_steps[i].name, (double)NAN);
        int64_t begun = clock_monotonic_ns(child->night->clock);
        bool done = child_steps[i].run(child, error);
        child_look_at_driver(child);
        report_event(child, done ? "end" : "failed", child_steps[i].name,
                     (double)(clock_monotonic_ns(child->night->clock) - begun) / 1e9);
        if (!done)
            return refused_by_memory(child, error);
    }
    return true;
}

static void report_error(Child *child, const Error *error)
{
    Json *message = json_make_object();
    json_put_text(message, "event", "error");
    json_put_integer(message, "kind", error->kind);
    json_put_integer(message, "code", error->code);
    json_put_text(message, "message", error->message);
    json_put_text(message, "hint", error->hint);
    json_put_text(message, "origin", error->origin);
    child_report(child, message);
}

int night_child_main(void *context, int report_fd)
{
    enum { RETURNED_BYTES = 128 * 1024 };
    // The C library raises this bound when a large block is freed and then keeps such blocks: they would
    // count as memory of the process that no account explains.
    (void)mallopt(M_MMAP_THRESHOLD, RETURNED_BYTES);
    Child *child = calloc(1, sizeof *child);
    if (child == NULL)
        return 69;
    *child = (Child){.night = context, .report_fd = report_fd, .evidence = json_make_object()};
    night_watch_signals();   // a fork gets default signals; ours stop at the next step with a checkpoint
    Error error = ERROR_INIT;
    bool done = run_child_steps(child, &error);
    if (done) {
        child_note_memory(child);
        note_window(child);
        Json *result = night_section(child->evidence, "train_result");
        json_put_integer(result, "steps", child->result.steps);
        json_put_integer(result, "planned_steps", child->result.planned_steps);
        json_put_integer(result, "epochs", child->result.epochs);
        json_put_integer(result, "resumed_from", child->result.resumed_from);
        json_put_number(result, "best_validation_loss", child->result.best_validation_loss);
        json_put_number(result, "train_seconds", child->result.train_seconds);
        json_put_integer(result, "samples", child->result.samples);
        json_put_integer(result, "run_samples", child->result.run_samples);
        json_put_integer(result, "peak_bytes", child->result.peak_bytes);
        done = night_save(child->night, "child-evidence.json", child->evidence, &error);
    }
    if (done)
        report_event(child, "done", "", (double)NAN);
    else
        report_error(child, &error);
    int code = done ? 0 : error_exit_code(error.kind);
    while (fault_set("process.hang_end"))
        (void)pause();
    if (error.kind == ERROR_DEVICE)
        return code;   // giving back to a device that failed may wait for ever: the process ends, and with it
                       // all
    model_free(child->model);
    trainer_free(child->trainer);
    device_close(child->device);
    json_free(child->evidence);
    free(child);
    return code;
}
