// rows - what a night writes to its spool, and the complete run record (design.md section 3: no column
// empty).
#include "night_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Copies the pointer records into the database. ERROR_INCONSISTENT when its copy tells another story.
bool night_mirror(Night *night, Error *error)
{
    PointerRecord *records = NULL;
    size_t count = 0;
    if (!registry_history(night->registry, &records, &count, error))
        return false;
    OWNED(Json, json_free) *copies = json_make_array();
    for (size_t i = 0; i < count; i++)
        json_add(copies, registry_record_to_json(&records[i]));
    free(records);
    return telemetry_mirror_decisions(night->telemetry, registry_home_id(night->registry), copies, error);
}

void night_connect(Night *night)
{
    Error failed = ERROR_INIT;
    night->telemetry_problem[0] = '\0';
    night->telemetry = telemetry_connect(night->config, night->options->home, clock_real(), &failed);
    bool ready =
        night->telemetry != NULL &&
        telemetry_check_schema(night->telemetry, night->options->migrations, &failed) &&
        telemetry_register_home(night->telemetry, night->model, registry_home_id(night->registry), &failed) &&
        night_mirror(night, &failed);
    int64_t rows = 0;
    if (ready) {   // what an outage left in the spool of earlier runs
        if (!telemetry_ship_all(night->telemetry, night->options->home, &rows, &failed))
            log_event(night->log, LOG_WARN, "telemetry.ship", failed.message);
        return;
    }
    if (!text_copy(night->telemetry_problem, sizeof night->telemetry_problem, failed.message))
        night->telemetry_problem[0] = '?';
    night->telemetry_error = failed;
    telemetry_close(night->telemetry);
    night->telemetry = NULL;
    log_event(night->log, LOG_WARN, "telemetry.connect", failed.message);
}

// A database that is away is no reason to stop; one with the wrong schema, or serving another home, is.
bool night_connect_check(Night *night, Error *error)
{
    if (night->telemetry != NULL)
        return true;
    ErrorKind kind = night->telemetry_error.kind;
    if (kind != ERROR_CONFIG && kind != ERROR_INCONSISTENT)
        return true;
    *error = night->telemetry_error;
    return false;
}

static double ratio(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

// The end, known last: also of a night resumed at step 10, whose other figures are those of the run it
// resumes.
static void put_end(const Night *night, Json *record)
{
    char ended[CLOCK_TIME_SIZE];
    night_time(night, night->ended_wall_ns, ended);
    json_put_text(record, "outcome", night_outcome_name(night->outcome));
    json_put_text(record, "ended", ended);
}

// A card's libraries are "CUDA 13.0, driver 580.159, cuBLASLt 13.1.0": toolkit, driver, the rest.
static bool name_versions(const char *libraries, char ret_toolkit[static 128], char ret_driver[static 128])
{
    size_t first = strcspn(libraries, ",");
    const char *second = libraries + first + strspn(libraries + first, ", ");
    second = *second ? second : libraries;
    return first > 0 && text_print(ret_toolkit, 128, "%.*s", (int)first, libraries) &&
           text_print(ret_driver, 128, "%.*s", (int)strcspn(second, ","), second);
}

static void put_machine(const Night *night, Json *record)
{
    static const char none[] = "none (cpu back end)";
    const char *libraries = night->machine.libraries;
    json_put_text(record, "hardware", night->machine.host_cpu);
    json_put_integer(record, "cores", night->machine.cores);
    json_put_text(record, "device", night->machine.device);
    json_put_text(record, "backend", night->machine.backend);
    char toolkit[128], driver[128];
    if (night_on_cpu(night) || !name_versions(libraries, toolkit, driver))
        memcpy(toolkit, none, sizeof none), memcpy(driver, none, sizeof none);
    json_put_text(record, "driver", driver);
    json_put_text(record, "libraries", libraries);
    json_put_text(record, "toolkit", toolkit);
    json_put_text(record, "program", "fedgate " FEDGATE_VERSION);
}

static void put_shapes(const Night *night, Json *record)
{
    Json *shapes = json_make_object(), *hidden = json_make_array();
    json_put_integer(shapes, "numeric", night->train_shape.numeric);
    json_put_integer(shapes, "categorical", night->train_shape.categorical);
    for (size_t i = 0; i < night->train_shape.layers; i++)
        json_add_integer(hidden, night->train_shape.hidden[i]);
    json_put(shapes, "hidden", hidden);
    json_put_integer(shapes, "outputs", night->train_shape.outputs);
    json_put(record, "shapes", shapes);
    json_put_integer(record, "batch", night->plan.memory.batch);
    json_put_integer(record, "microbatch", night->plan.memory.microbatch);
    json_put_text(record, "precision", config_text(night->config, "train.precision"));
    json_put_integer(record, "seed", config_integer(night->config, "train.seed"));
}

// As judged; of a night that ended before its judges, as far as it came.
static void put_cost(const Night *night, Json *record)
{
    OWNED(Json, json_free) *cost = json_copy_deep(json_get(night->evidence, "cost"));
    if (cost == NULL) {
        cost = json_make_object();
        night_put_cost(night, cost);
    }
    json_put_number(record, "cost_per_sample", json_number_or(json_get(cost, "cost_per_sample"), 0));
    json_put(record, "cost_unit", json_copy_deep(json_get(cost, "unit")));
    json_put(record, "cost_rate_per_hour", json_copy_deep(json_get(cost, "rate_per_hour")));
    json_put(record, "device_seconds", json_copy_deep(json_get(cost, "device_seconds")));
    json_put(record, "cost_samples", json_copy_deep(json_get(cost, "samples")));
}

// After a resume, time and samples are those of this start, so the steps they are divided by must be too.
static void put_figures(const Night *night, Json *record)
{
    const Json *result = night->train_result;
    double train_seconds = json_number_or(json_get(result, "train_seconds"), 0);
    double samples = json_number_or(json_get(result, "samples"), 0);
    int64_t steps = json_integer_or(json_get(result, "steps"), 0),
            resumed = json_integer_or(json_get(result, "resumed_from"), 0);
    json_put_text(
        record, "throughput_method",
        night->device.asynchronous
            ? "samples of all optimizer steps / wall time of training, host monotonic clock, device "
              "synchronised at the end"
            : "samples of all optimizer steps / wall time of training, host monotonic clock, device "
              "synchronised at each step");
    json_put_number(record, "throughput", ratio(samples, train_seconds));
    json_put_integer(record, "steps", steps);
    json_put_number(record, "step_seconds", ratio(train_seconds, (double)(steps - resumed)));
    json_put_number(record, "step_flop", night->plan.step_flop);
    json_put_integer(record, "peak_bytes",
                     json_integer_or(json_find(night->evidence, "memory.measured_peak_bytes"), 0));
    json_put(record, "resources", json_copy_deep(json_get(night->evidence, "resources")));
    json_put(record, "seconds", json_copy_deep(night->seconds));
    put_cost(night, record);
}

Json *night_run_record(const Night *night)
{
    if (night->stored_record != NULL) {
        Json *stored = json_copy_deep(night->stored_record);
        put_end(night, stored);
        return stored;
    }
    Json *record = json_make_object();
    char started[CLOCK_TIME_SIZE], deadline[CLOCK_TIME_SIZE];
    night_time(night, night->started_wall_ns, started);
    night_time(night, night->deadline_wall_ns, deadline);
    json_put_text(record, "model", night->model);
    json_put_text(record, "slot", night->slot);
    json_put_text(record, "started", started);
    json_put_text(record, "deadline", deadline);
    put_end(night, record);
    put_machine(night, record);
    put_shapes(night, record);
    put_figures(night, record);
    const char *cutoff = config_text(night->config, "data.cutoff");
    json_put_text(record, "data_cutoff", cutoff[0] != '\0' ? cutoff : "none declared");
    return record;
}

static bool append(Night *night, TelemetryKind kind, Json *row, Error *error)
{
    bool done = spool_append(night->spool, kind, row, error);
    json_free(row);
    return done;
}

bool night_spool_start(Night *night, Error *error)
{
    night->spool = spool_open(night->options->home, night->run, night->version,
                              config_integer(night->config, "telemetry.rows"), error);
    return night->spool != NULL;
}

static bool spool_array(Night *night, TelemetryKind kind, const Json *array, const char *rename_from,
                        const char *rename_to, Error *error)
{
    for (size_t i = 0; i < json_count(array); i++) {
        Json *row = json_copy_deep(json_at(array, i));
        if (rename_from != NULL) {
            json_put(row, rename_to, json_copy_deep(json_get(row, rename_from)));
            json_remove(row, rename_from);
        }
        if (!append(night, kind, row, error))
            return false;
    }
    return true;
}

static Json *metric_row(const char *model, const char *column, const char *value, const char *metric,
                        double figure, int64_t rows)
{
    Json *row = json_make_object();
    json_put_text(row, "model", model);
    json_put_text(row, "split", "test");
    json_put_text(row, "slice_column", column);
    json_put_text(row, "slice_value", value);
    json_put_text(row, "metric", metric);
    json_put_number(row, "value", figure);
    json_put_integer(row, "rows", rows);
    return row;
}

static bool spool_metrics(Night *night, const Json *quality, Error *error)
{
    const Json *models = json_get(quality, "models"), *slices = json_get(quality, "slices");
    int64_t rows = json_integer_or(json_get(quality, "rows"), 0);
    for (size_t m = 0; m < json_count(models); m++) {
        const char *name = json_key_at(models, m);
        const Json *model = json_get(models, name);
        for (size_t k = 0; k < json_count(model); k++) {
            const char *metric = json_key_at(model, k);
            if (json_is_number(json_get(model, metric)) &&
                !append(night, TELEMETRY_METRIC,
                        metric_row(name, "", "", metric, json_number_or(json_get(model, metric), (double)NAN),
                                   rows),
                        error))
                return false;
        }
    }
    for (size_t i = 0; i < json_count(slices); i++) {
        const Json *slice = json_at(slices, i);
        Json *row = metric_row("candidate", json_text_or(json_get(slice, "column"), ""),
                               json_text_or(json_get(slice, "value"), ""),
                               json_text_or(json_get(quality, "metric"), ""),
                               json_number_or(json_get(slice, "candidate"), (double)NAN),
                               json_integer_or(json_get(slice, "rows"), 0));
        if (!append(night, TELEMETRY_METRIC, row, error))
            return false;
    }
    return true;
}

static Json *check_row(const Json *check)
{
    Json *row = json_make_object();
    static const char *const same[] = {"name", "required", "outcome", "value", "unit", "n", "reason"};
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
        json_put(row, same[i], json_copy_deep(json_get(check, same[i])));
    json_put(row, "value_limit", json_copy_deep(json_get(check, "limit")));
    return row;
}

// Everything that exists before the decision: promotion needs exactly these rows acknowledged.
bool night_spool_evidence(Night *night, Error *error)
{
    const Json *evidence = night->evidence, *checks = json_get(night->judgement, "checks");
    if (!append(night, TELEMETRY_RUN, night_run_record(night), error) ||
        !spool_array(night, TELEMETRY_STAGE, json_get(evidence, "stages"), "name", "stage", error) ||
        !spool_array(night, TELEMETRY_INPUT, json_find(evidence, "input.columns"), NULL, NULL, error) ||
        !spool_array(night, TELEMETRY_MEMORY, json_find(evidence, "memory.accounts"), "name", "account",
                     error) ||
        !spool_array(night, TELEMETRY_PREDICTION, json_find(evidence, "prediction.bins"), NULL, NULL,
                     error) ||
        !spool_metrics(night, json_get(evidence, "quality"), error))
        return false;
    for (size_t i = 0; i < json_count(checks); i++) {
        if (!append(night, TELEMETRY_CHECK, check_row(json_at(checks, i)), error))
            return false;
    }
    return true;
}

bool night_spool_verdict(Night *night, Error *error)
{
    static const char *const keys[] = {"slot",       "outcome",       "reason",
                                       "decided_by", "policy_digest", "evidence_digest",
                                       "started",    "ended",         "deadline"};
    Json *row = json_make_object();
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        json_put(row, keys[i], json_copy_deep(json_get(night->verdict, keys[i])));
    if (!append(night, TELEMETRY_VERDICT, row, error) ||
        !append(night, TELEMETRY_RUN, night_run_record(night),
                error))   // with outcome and end; the last one counts
        return false;
    const Json *checks = json_get(night->judgement, "checks");
    for (size_t i = 0; i < json_count(checks); i++) {   // the late ones; the early ones are there already
        const GateCheck *check = gate_find_check(json_text_or(json_get(json_at(checks, i), "name"), ""));
        if (check != NULL && (check->late || check->judge_late != NULL) &&
            !append(night, TELEMETRY_CHECK, check_row(json_at(checks, i)), error))
            return false;
    }
    return true;
}
