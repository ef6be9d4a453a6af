// profile - step 4: profile the input against the last known-good version's data, build the baselines, and
// adopt the named one as the first pointer when nothing is live yet.
#include "night_internal.h"

#include <string.h>

// Profile of the data the live release was trained on; NULL when there is none (drift is then not
// applicable).
static Json *reference_profile(const Night *night)
{
    Error missing = ERROR_INIT;
    char run[UUID_SIZE], name[128], path[FILE_PATH_SIZE];
    if (!night_live_run(night, run) || !text_print(name, sizeof name, "runs/%s/profile.json", run) ||
        !file_join(path, night->options->home, name, &missing))
        return NULL;
    Json *profile = json_read_file(path, NIGHT_JSON_MAX, &missing);
    if (profile == NULL)   // drift is then not measured, which does not pass
        log_event(night->log, LOG_WARN, "input.reference", missing.message);
    return profile;
}

static bool fit_baselines(Night *night, Error *error)
{
    for (int kind = 0; kind < BASELINE_COUNT; kind++) {
        if (kind == BASELINE_RULE && config_text(night->config, "baseline.rule")[0] == '\0')
            continue;
        night->baselines[kind] = baseline_fit((BaselineKind)kind, night->config, night->dataset, night->maps,
                                              night->ledger, error);
        if (night->baselines[kind] == NULL)
            return error_prefix(error, "baseline '%s'", baseline_name((BaselineKind)kind));
    }
    return true;
}

// Version of a baseline: the night's record with the trainer replaced by the baseline's name.
static void baseline_version(const Night *night, const char *name, char ret_version[static VERSION_SIZE],
                             Json **ret_record)
{
    Json *record = json_copy_deep(night->record);
    json_put_text(record, "baseline", name);
    identity_version(record, ret_version);
    *ret_record = record;
}

static bool write_baseline(Night *night, const Baseline *baseline, const Json *record, ReleaseDraft *draft,
                           Error *error)
{
    char path[FILE_PATH_SIZE];
    OWNED(Json, json_free) *maps = maps_to_json(night->maps);
    return baseline_save(baseline, release_path(draft), error) &&
           file_join(path, release_path(draft), "maps.json", error) &&
           json_write_file(maps, JSON_INDENTED, path, error) &&
           file_join(path, release_path(draft), "record.json", error) &&
           json_write_file(record, JSON_INDENTED, path, error);
}

static bool adopt_baseline(Night *night, Error *error)
{
    BaselineKind kind = BASELINE_PRIOR;
    const char *name = config_text(night->config, "baseline.name");
    if (!baseline_find(name, &kind) || night->baselines[kind] == NULL)
        return FAIL(error, ERROR_CONFIG, 0, "baseline '%s' is not declared", name);
    char version[VERSION_SIZE], releases[FILE_PATH_SIZE], run[UUID_SIZE];
    OWNED(Json, json_free) *record = NULL;
    baseline_version(night, name, version, &record);
    clock_uuid7(night->clock, run);   // a draft of its own, beside the candidate's
    if (!file_join(releases, night->options->home, "releases", error))
        return false;
    OWNED(ReleaseDraft, release_free) *draft = release_begin(releases, run, error);
    Digest digest;
    bool existed = false;
    if (draft == NULL || !write_baseline(night, night->baselines[kind], record, draft, error) ||
        !release_seal(draft, version, night->model, RELEASE_BASELINE, &digest, error) ||
        !release_publish(draft, releases, &existed, error))
        return error_prefix(error, "baseline '%s'", name);
    char reason[128];
    if (!text_print(reason, sizeof reason, "named baseline '%s' adopted: nothing was live", name))
        return FAIL(error, ERROR_INTERNAL, 0, "reason too long");
    MoveRequest request = {
        .kind = MOVE_ADOPT, .version = version, .expected_seq = 0, .reason = reason, .run = night->run};
    if (!registry_move(night->registry, &request, &night->head, error))
        return false;
    night->has_head = true;
    night->expected_seq = night->head.seq;
    log_event(night->log, LOG_INFO, "registry.adopt", reason, LOG_FIELD_TEXT("baseline", version));
    return true;
}

StepEnd night_step_profile(Night *night, Error *error)
{
    OWNED(Json, json_free) *reference = reference_profile(night);
    Json *input = NULL;
    if (!dataset_profile(night->dataset, night->maps, night->config, reference, &input, &night->profile,
                         error))
        return STEP_FAILED;
    if (reference != NULL)
        json_put_text(input, "reference_version", night->head.to);
    json_put(night->evidence, "input", input);
    if (!night_save(night, "profile.json", night->profile, error) || !fit_baselines(night, error))
        return STEP_FAILED;
    if (!night->has_head && !adopt_baseline(night, error))
        return STEP_FAILED;
    return night->plan_refused ? STEP_TO_JUDGE : STEP_GO_ON;
}
