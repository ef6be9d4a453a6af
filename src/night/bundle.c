// bundle - step 10: seal the release and verify it from disk, then ship the telemetry until PostgreSQL has
// acknowledged it.
//
// A candidate the judges refused is moved to failed/<run>, never into releases/. One that passed, or could
// not be judged, is kept in releases/: deciding is step 11's. Two runs of one version must seal the same
// bytes; when they do not, `determinism` fails.
#include "night_internal.h"

#include <string.h>

static Json *model_card(const Night *night)
{
    Json *card = json_make_object();
    json_put_integer(card, "format", 1);
    json_put_text(card, "version", night->version);
    json_put_text(card, "model", night->model);
    json_put_text(card, "task", config_text(night->config, "task"));
    json_put_text(card, "target", config_text(night->config, "data.target"));
    json_put_text(card, "precision", config_text(night->config, "train.precision"));
    json_put_integer(card, "seed", config_integer(night->config, "train.seed"));
    json_put(card, "data", dataset_describe(night->dataset));
    json_put(card, "test", json_copy_deep(json_find(night->evidence, "quality.models.candidate")));
    json_put(card, "steps", json_copy_deep(json_get(night->train_result, "steps")));
    if (fault_set("release.other_bytes"))
        json_put_text(card, "planted", night->run);
    return card;
}

static bool copy_candidate(Night *night, Error *error)
{
    char from[FILE_PATH_SIZE], to[FILE_PATH_SIZE];
    static const char *const files[] = {"candidate/model.safetensors", "candidate/model.json"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        if (!night_file(night, files[i], from, error) ||
            !file_join(to, release_path(night->draft), strchr(files[i], '/') + 1, error) ||
            !file_copy_new(from, to, 0640, error))
            return false;
    }
    OWNED(Json, json_free) *maps = maps_to_json(night->maps);
    OWNED(Json, json_free) *card = model_card(night);
    return file_join(to, release_path(night->draft), "maps.json", error) &&
           json_write_file(maps, JSON_INDENTED, to, error) &&
           file_join(to, release_path(night->draft), "card.json", error) &&
           json_write_file(card, JSON_INDENTED, to, error) &&
           file_join(to, release_path(night->draft), "record.json", error) &&
           json_write_file(night->record, JSON_INDENTED, to, error);
}

static bool move_to_failed(Night *night, Error *error)
{
    char failed[FILE_PATH_SIZE], before[FILE_PATH_SIZE];
    // A start of this run that ended just after the move left the same candidate there.
    bool moved = file_join(failed, night->options->home, "failed", error) &&
                 file_join(before, failed, night->run, error) && file_remove_tree(before, error) &&
                 release_move_failed(night->draft, failed, error);
    release_free(night->draft);
    night->draft = NULL;
    return moved;
}

// The same version was sealed before with other bytes: evidence for `determinism`, judged again.
static bool refuse_other_bytes(Night *night, const char *releases, const Digest *sealed, Error *error)
{
    char there[FILE_PATH_SIZE], first[DIGEST_HEX_SIZE], again[DIGEST_HEX_SIZE];
    Digest digest;
    OWNED(Json, json_free) *manifest = NULL;
    if (!file_join(there, releases, night->version, error) ||
        !release_read_manifest(there, &manifest, &digest, error))
        return false;
    digest_hex(&digest, first);
    digest_hex(sealed, again);
    Json *whole = night_section(night_section(night->evidence, "determinism"), "whole_run");
    Json *tensors = json_make_array(), *tensor = json_make_object();
    json_put_text(tensor, "name", "sealed release");
    json_put_text(tensor, "first", first);
    json_put_text(tensor, "again", again);
    json_add(tensors, tensor);
    json_put(whole, "tensors", tensors);
    return night_step_judge(night, error) == STEP_GO_ON && move_to_failed(night, error);
}

// A damaged release of this version lies in the way (it was reverted from): out of it, kept as evidence.
static bool set_damaged_aside(Night *night, const char *releases, Error *error)
{
    char from[FILE_PATH_SIZE], to[FILE_PATH_SIZE], name[160];
    bool named = text_print(name, sizeof name, "failed/%s-damaged", night->run);
    if (!named || !file_join(from, releases, night->version, error) ||
        !file_join(to, night->options->home, name, error) || !file_rename_new(from, to, error))
        return false;
    log_event(night->log, LOG_WARN, "bundle.damaged", "a damaged release of this version was set aside",
              LOG_FIELD_TEXT("folder", name));
    return file_sync_directory(releases, error);
}

static bool publish(Night *night, const char *releases, const Digest *sealed, Error *error)
{
    bool existed = false;
    Error failed = ERROR_INIT;
    if (release_publish(night->draft, releases, &existed, &failed)) {
        night->candidate_published = true;
        return true;
    }
    if (failed.kind == ERROR_CONFLICT)
        return refuse_other_bytes(night, releases, sealed, error);
    bool is_live = night->has_head && strcmp(night->head.to, night->version) == 0;   // recovery's business
    if (failed.kind != ERROR_DATA || is_live) {
        *error = failed;
        return false;
    }
    night->candidate_published =
        set_damaged_aside(night, releases, error) && release_publish(night->draft, releases, &existed, error);
    return night->candidate_published;
}

static bool build_release(Night *night, Error *error)
{
    char releases[FILE_PATH_SIZE];
    Digest digest;
    if (!file_join(releases, night->options->home, "releases", error))
        return false;
    night->draft = release_begin(releases, night->run, error);
    if (night->draft == NULL || !copy_candidate(night, error) ||
        !release_seal(night->draft, night->version, night->model, RELEASE_MODEL, &digest, error))
        return false;
    if (gate_exit_code(night->judgement) == 10)
        return move_to_failed(night, error);
    return publish(night, releases, &digest, error);
}

// -- ship

static void note_shipping(Night *night, const ShipResult *shipped, const char *problem)
{
    Json *telemetry = night_section(night->evidence, "telemetry");
    json_put_integer(telemetry, "rows", spool_rows(night->spool));
    json_put_integer(telemetry, "dropped", spool_dropped(night->spool));
    if (problem == NULL) {
        json_put_integer(telemetry, "acknowledged", shipped->acknowledged);
        json_remove(telemetry, "reason");
    } else {   // no acknowledgement came: not measured, the slot may resume here
        json_remove(telemetry, "acknowledged");
        json_put_text(telemetry, "reason", problem);
        log_event(night->log, LOG_WARN, "telemetry.ship", problem);
    }
}

static bool ship(Night *night, Error *error)
{
    ShipResult shipped = {0};
    Error failed = ERROR_INIT;
    if (!spool_sync(night->spool, error))
        return false;
    if (night->telemetry == NULL)
        night_connect(night);
    if (!night_connect_check(night, error))
        return false;
    if (night->telemetry != NULL &&
        !telemetry_ship(night->telemetry, night->options->home, night->run, &shipped, &failed)) {
        if (failed.kind == ERROR_INCONSISTENT || failed.kind == ERROR_CONFIG) {
            *error = failed;
            return false;
        }
        telemetry_close(night->telemetry);   // the link was lost during the night: once more on a fresh one
        night->telemetry = NULL;
        night_connect(night);
        error_clear(&failed);
        if (!night_connect_check(night, error))
            return false;
        if (night->telemetry != NULL &&
            !telemetry_ship(night->telemetry, night->options->home, night->run, &shipped, &failed) &&
            !text_copy(night->telemetry_problem, sizeof night->telemetry_problem, failed.message))
            night->telemetry_problem[0] = '?';
    }
    bool acknowledged = night->telemetry != NULL && failed.kind == ERROR_NONE && shipped.complete;
    const char *problem =
        night->telemetry_problem[0] != '\0' ? night->telemetry_problem : "rows were not acknowledged";
    note_shipping(night, &shipped, acknowledged ? NULL : problem);
    return true;
}

StepEnd night_step_bundle(Night *night, Error *error)
{
    if (night->has_candidate && !night->candidate_published && !build_release(night, error))
        return STEP_FAILED;
    if (!night->shipping_again && !night_spool_evidence(night, error))
        return STEP_FAILED;
    if (!ship(night, error))
        return STEP_FAILED;
    night->ended_wall_ns = clock_wall_ns(night->clock);
    Json *window = night_section(night->evidence, "window");
    char ended[CLOCK_TIME_SIZE];
    night_time(night, night->ended_wall_ns, ended);
    json_put_text(window, "ended", ended);
    json_put_integer(window, "ended_wall_ns", night->ended_wall_ns);
    json_free(night->judgement);
    night->judgement = gate_judge(night->evidence, night->config, JUDGE_WHOLE);
    if (!night_save(night, "evidence.json", night->evidence, error) ||
        !night_save(night, "judgement.json", night->judgement, error) || !night_save_release(night, error))
        return STEP_FAILED;
    SCOPED_TEXT bytes;
    text_init(&bytes, NIGHT_JSON_MAX);
    json_write(night->judgement, JSON_COMPACT, &bytes);
    if (!text_ok(&bytes, error))
        return STEP_FAILED;
    hash_bytes(bytes.data, bytes.length, &night->verdict_digest);
    return STEP_GO_ON;
}
