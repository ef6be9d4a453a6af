// identify - step 2: pin the data, name the exact version, and see whether this slot is already judged or
// half done.
#include "night_internal.h"

#include <string.h>

static bool device_facts(Night *night, Error *error)
{
    DeviceInfo *device = &night->device;
    if (!night_device(night->config, device, error))
        return false;
    MachineClass *machine = &night->machine;
    machine->cores = device->cores;
    const char *label = config_text(night->config, "machine.class");
    // Which card: model, architecture and SM count. A CPU is what its BLAS computes with.
    bool card = !night_on_cpu(night), named = false;
    if (card)
        named = text_print(machine->device, sizeof machine->device, "%s, %s%s%s", device->name, device->core,
                           label[0] ? ", " : "", label);
    else
        named = text_print(machine->device, sizeof machine->device, "%s%s%s", device->instruction_set,
                           label[0] ? " " : "", label);
    return (named && text_copy(machine->backend, sizeof machine->backend, device->backend) &&
            text_copy(machine->libraries, sizeof machine->libraries, device->libraries) &&
            text_copy(machine->host_cpu, sizeof machine->host_cpu, device->name)) ||
           FAIL(error, ERROR_INTERNAL, 0, "device description too long");
}

// What trains: the program, and the module of its back end.
static bool trainer_digest(const Night *night, Digest *ret_digest, Error *error)
{
    char module[FILE_PATH_SIZE];
    device_module(night->device.backend, module);
    return identity_trainer_digest(module, ret_digest, error);
}

static bool identify(Night *night, Error *error)
{
    night->ledger = ledger_new();
    if (night->ledger == NULL)
        return FAIL(error, ERROR_MEMORY, 0, "could not allocate the ledger");
    Digest trainer, data;
    if (!device_facts(night, error) || !trainer_digest(night, &trainer, error))
        return false;
    night->dataset = dataset_open(night->config, night->clock, night->ledger, error);
    if (night->dataset == NULL)
        return false;
    if (!night_check_utilities(night->config, night->dataset, error))
        return false;
    dataset_digest(night->dataset, &data);
    night->maps = maps_fit(night->dataset, night->config, error);
    if (night->maps == NULL)
        return false;
    night_shape(night->config, night->dataset, night->maps, &night->train_shape, &night->shape);
    if (!night_make_plan(night->config, &night->shape, &night->device, night->dataset, night->started_wall_ns,
                         &night->plan, error))
        return false;
    night->record = identity_record(night->config, &trainer, &data, &night->machine);
    json_put_integer(night->record, "microbatch",
                     night->plan.memory.microbatch);   // follows from the budget, changes the bits
    identity_version(night->record, night->version);
    return true;
}

static bool policy_changed(const Night *night)
{
    Digest digest;
    char hex[DIGEST_HEX_SIZE];
    config_policy_digest(night->config, &digest);
    digest_hex(&digest, hex);
    const char *then = json_text_or(json_get(night->verdict, "policy_digest"), hex);
    return strcmp(then, hex) != 0;
}

// The slot was judged: its verdict again, same exit code, no work. When configuration or data changed since,
// say so.
static StepEnd stored_verdict(Night *night, const Json *slot, Error *error)
{
    const char *run = NULL;
    char name[128], path[FILE_PATH_SIZE];
    if (!json_get_text(slot, "run", &run, error) ||
        !text_print(name, sizeof name, "runs/%s/verdict.json", run) ||
        !file_join(path, night->options->home, name, error))
        return STEP_FAILED;
    night->verdict = json_read_file(path, NIGHT_JSON_MAX, error);
    if (night->verdict == NULL)
        return STEP_FAILED;
    Error ignored = ERROR_INIT;
    const char *changed = "";
    if (identify(night, &ignored) && !text_equal(night->version, json_text_or(json_get(slot, "version"), "")))
        changed = "; configuration, program or data changed since: `fedgate run --retry` judges them afresh";
    else if (policy_changed(night))
        changed = "; the policy changed since: `fedgate run --retry` judges by it";
    char reason[512];
    if (!text_print(reason, sizeof reason, "slot %s was already judged: %s, %.300s%s", night->slot,
                    json_text_or(json_get(night->verdict, "outcome"), "?"),
                    json_text_or(json_get(night->verdict, "reason"), ""), changed))
        reason[sizeof reason - 1] = '\0';
    const char *outcome = json_text_or(json_get(night->verdict, "outcome"), "");
    NightOutcome which = strcmp(outcome, "promoted") == 0 ? NIGHT_PROMOTED : NIGHT_REFUSED;
    night_end(night, which, (int)json_integer_or(json_get(slot, "exit"), 70), NULL, reason);
    error_clear(&ignored);
    if (!file_remove_tree(night->directory, &ignored))   // this start did no work and should leave no run
        log_event(night->log, LOG_WARN, "night.clean", ignored.message);
    return STEP_DONE;
}

// Moves this night into the directory of an earlier run of the slot.
static bool adopt_run(Night *night, const char *run, Error *error)
{
    char runs[FILE_PATH_SIZE], path[FILE_PATH_SIZE];
    if (!file_remove_tree(night->directory, error) || !text_copy(night->run, sizeof night->run, run) ||
        !file_join(runs, night->options->home, "runs", error) ||
        !file_join(night->directory, runs, run, error) || !night_lock_names_run(night, error) ||
        !night_file(night, "log.jsonl", path, error))
        return false;
    return log_to_file(night->log, path, error);
}

static bool read_stored(const Night *night, const char *name, Json **ret_json, Error *error)
{
    char path[FILE_PATH_SIZE];
    if (!night_file(night, name, path, error))
        return false;
    *ret_json = json_read_file(path, NIGHT_JSON_MAX, error);
    return *ret_json != NULL;
}

// Ended 11 only because telemetry could not be stored: evidence and candidate are there, steps 10 to 12
// again.
static StepEnd resume_shipping(Night *night, const Json *slot, Error *error)
{
    night->slot_begun = true;   // what is missing in the run makes the slot open again
    if (!adopt_run(night, json_text_or(json_get(slot, "run"), ""), error) ||
        !text_copy(night->version, sizeof night->version, json_text_or(json_get(slot, "version"), "")) ||
        !read_stored(night, "evidence.json", &night->evidence, error) ||
        !read_stored(night, "judgement.json", &night->judgement, error) ||
        !read_stored(night, "run.json", &night->stored_record, error))
        return STEP_FAILED;
    // What was live when the evidence was made, not what is live now: a pointer that moved since refuses.
    night->expected_seq = json_integer_or(json_get(slot, "head_seq"), night->expected_seq);
    night->deadline_wall_ns = json_integer_or(json_get(slot, "deadline_wall_ns"), night->deadline_wall_ns);
    night->has_candidate = true;
    night->candidate_published = true;
    night->shipping_again = true;
    log_set_identity(night->log, night->run, night->version);
    log_event(night->log, LOG_INFO, "night.resume", "slot resumes at step 10: telemetry was missing");
    night->spool = spool_open(night->options->home, night->run, night->version,
                              config_integer(night->config, "telemetry.rows"), error);
    return night->spool == NULL ? STEP_FAILED : STEP_TO_SHIP;
}

// An interrupted run of this slot: the same version goes on from its last checkpoint, another closes it as
// failed.
static bool resume_interrupted(Night *night, const Json *slot, Error *error)
{
    const char *run = json_text_or(json_get(slot, "run"), "");
    char name[128], path[FILE_PATH_SIZE];
    if (!text_print(name, sizeof name, "runs/%s/checkpoints", run) ||
        !file_join(path, night->options->home, name, error))
        return false;
    if (!file_is_directory(path))
        return true;
    if (!text_equal(json_text_or(json_get(slot, "version"), ""), night->version)) {
        log_event(night->log, LOG_WARN, "night.resume",
                  "interrupted run of this slot had another version: closed as failed",
                  LOG_FIELD_TEXT("run", run));
        return true;
    }
    night->resumed = true;
    return adopt_run(night, run, error);
}

static void begin_evidence(Night *night)
{
    night->evidence = json_make_object();
    json_put_text(night->evidence, "schema", EVIDENCE_SCHEMA);
    json_put_text(night->evidence, "model", night->model);
    json_put_text(night->evidence, "slot", night->slot);
    json_put_text(night->evidence, "run", night->run);
    json_put_text(night->evidence, "version", night->version);
    json_put_text(night->evidence, "device_class",
                  night_on_cpu(night) ? night->device.backend : night->device.name);
    json_put_text(night->evidence, "precision", config_text(night->config, "train.precision"));
    json_put_text(night->evidence, "task", config_text(night->config, "task"));
    json_put_integer(night->evidence, "seed", config_integer(night->config, "train.seed"));
    json_put_integer(night->evidence, "resumed_from_step", 0);
}

StepEnd night_step_identify(Night *night, Error *error)
{
    OWNED(Json, json_free) *slot = NULL;
    if (!registry_slot_read(night->registry, night->slot, &slot, error))
        return STEP_FAILED;
    bool again = slot != NULL && !night->options->retry;
    if (again && json_bool_or(json_get(slot, "judged"), false))
        return stored_verdict(night, slot, error);
    int64_t deadline = json_integer_or(json_get(slot, "deadline_wall_ns"), 0);
    if (again && json_bool_or(json_get(slot, "ship_pending"), false) &&
        clock_wall_ns(night->clock) < deadline)
        return resume_shipping(night, slot, error);
    if (!identify(night, error) || (again && !resume_interrupted(night, slot, error)))
        return STEP_FAILED;
    log_set_identity(night->log, night->run, night->version);
    begin_evidence(night);
    night_end(night, NIGHT_FAILED, error_exit_code(ERROR_BUSY), NULL,
              "interrupted");   // what the slot says until it is judged
    night->slot_begun = true;
    if (!night_save(night, "record.json", night->record, error) || !night_slot_close(night, false, error))
        return STEP_FAILED;
    night_connect(night);
    if (!night_connect_check(night, error) || !night_spool_start(night, error))
        return STEP_FAILED;
    return STEP_GO_ON;
}
