// checkpoint - the whole state of a run in step-<number>/: state.safetensors and state.json, resumed bit for
// bit.
//
// The state is copied at a step's end and written by a thread of its own while training goes on. A checkpoint
// appears by the rename of its folder after everything in it is synced; state.json holds the digest of the
// tensors and of what the run belongs to. The newest one that is whole and belongs to this run is resumed;
// the two newest are kept.
#include "trainer_internal.h"

#include <fedgate/file.h>
#include <fedgate/hash.h>
#include <fedgate/json.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHECKPOINT_FORMAT = 3, CHECKPOINTS_KEPT = 2, CHECKPOINT_JSON_MAX = 1000 * 1000 };
static const char account[] = "checkpoint", prefix[] = "step-", temporary[] = ".tmp-step";

// Arrays of a checkpoint: floats in units of the number of weights, or the step state as it is
enum {
    PART_STATE,
    PART_STEP,
    PART_BEST,
    PART_START_AFTER,
    PART_MIDDLE_STATE,
    PART_MIDDLE_STEP,
    PART_MIDDLE_AFTER,
    PART_COUNT
};
static const struct {
    const char *name;
    int64_t units;   // 0: a step state
} parts[PART_COUNT] = {
    [PART_STATE] = {"state", 3},
    [PART_STEP] = {"state.step", 0},
    [PART_BEST] = {"best", 1},
    [PART_START_AFTER] = {"start.after", 1},
    [PART_MIDDLE_STATE] = {"middle.state", 3},
    [PART_MIDDLE_STEP] = {"middle.step", 0},
    [PART_MIDDLE_AFTER] = {"middle.after", 1},
};

typedef struct Checkpoint {
    pthread_t thread;
    Ledger *ledger;
    char folder[FILE_PATH_SIZE], name[32];
    int64_t floats;
    void *part[PART_COUNT];   // memory kept from one checkpoint to the next
    bool present[PART_COUNT];
    Json *json;
    Error error;
    bool running, good;
} Checkpoint;

static int64_t part_bytes(int64_t floats, int part)
{
    return parts[part].units == 0 ? (int64_t)sizeof(FedgateStepState)
                                  : parts[part].units * floats * (int64_t)sizeof(float);
}

static TensorType part_type(int part)
{
    return parts[part].units == 0 ? TENSOR_U8 : TENSOR_F32;
}

void checkpoint_free(Checkpoint *checkpoint)
{
    if (!checkpoint)
        return;
    for (int i = 0; i < PART_COUNT; i++)
        ledger_give(checkpoint->ledger, LEDGER_HOST, account, checkpoint->part[i],
                    part_bytes(checkpoint->floats, i));
    json_free(checkpoint->json);
    free(checkpoint);
}

// -- writing

static Json *progress_to_json(const Progress *progress)
{
    Json *json = json_make_object();
    json_put_integer(json, "step", progress->step);
    json_put_integer(json, "epoch", progress->epoch);
    json_put_integer(json, "position", progress->position);
    json_put_integer(json, "samples", progress->samples);
    json_put_integer(json, "best_step", progress->best_step);
    json_put_integer(json, "bad_epochs", progress->bad_epochs);
    json_put_integer(json, "bad_losses", progress->bad_losses);
    json_put_integer(json, "nonfinite", progress->nonfinite);
    json_put_number(json, "best_loss", progress->best_loss);
    json_put_number(json, "last_loss", progress->last_loss);
    json_put(json, "order", order_to_json(&progress->order));
    return json;
}

static bool remove_old(const char *folder, Error *error)
{
    FileList list;
    if (!file_list(folder, &list, error))
        return false;
    size_t found = 0;
    bool good = true;
    for (size_t i = list.count; good && i-- > 0;) {   // names sort by step: the newest are last
        char path[FILE_PATH_SIZE];
        if (text_starts_with(list.names[i], prefix) && ++found > CHECKPOINTS_KEPT)
            good = file_join(path, folder, list.names[i], error) && file_remove_tree(path, error);
    }
    file_list_done(&list);
    return good;
}

static bool write_parts(const Checkpoint *checkpoint, const char *directory, Digest *ret_digest, Error *error)
{
    Tensor tensors[PART_COUNT];
    size_t count = 0;
    for (int i = 0; i < PART_COUNT; i++) {
        if (!checkpoint->present[i])
            continue;
        int64_t bytes = part_bytes(checkpoint->floats, i);
        TensorType type = part_type(i);
        Tensor tensor = {.type = type,
                         .shape = {bytes / (int64_t)tensor_type_size(type)},
                         .rank = 1,
                         .data = checkpoint->part[i],
                         .bytes = (uint64_t)bytes};
        if (!text_copy(tensor.name, sizeof tensor.name, parts[i].name))
            BUG("tensor name too long");
        tensors[count++] = tensor;
    }
    char path[FILE_PATH_SIZE];
    return file_join(path, directory, "state.safetensors", error) &&
           tensors_write(path, tensors, count, NULL, error) && hash_file(path, ret_digest, NULL, error);
}

static bool write_checkpoint(Checkpoint *checkpoint, Error *error)
{
    char directory[FILE_PATH_SIZE], path[FILE_PATH_SIZE], hex[DIGEST_HEX_SIZE];
    Digest digest;
    if (!file_join(directory, checkpoint->folder, temporary, error) || !file_remove_tree(directory, error) ||
        !file_make_directory(directory, 0750, error) || !write_parts(checkpoint, directory, &digest, error))
        return false;
    digest_hex(&digest, hex);
    json_put_text(checkpoint->json, "state_sha256", hex);
    return file_join(path, directory, "state.json", error) &&
           json_write_file(checkpoint->json, JSON_INDENTED, path, error) &&
           file_sync_directory(directory, error) &&
           file_join(path, checkpoint->folder, checkpoint->name, error) && file_remove_tree(path, error) &&
           file_rename_new(directory, path, error) && file_sync_directory(checkpoint->folder, error) &&
           remove_old(checkpoint->folder, error);
}

static void *write_on_thread(void *context)
{
    Checkpoint *checkpoint = context;
    checkpoint->good = write_checkpoint(checkpoint, &checkpoint->error) ||
                       error_prefix(&checkpoint->error, "checkpoint '%s'", checkpoint->name);
    return NULL;
}

static bool take_part(Checkpoint *checkpoint, int part, Error *error)
{
    if (!checkpoint->part[part])
        checkpoint->part[part] = ledger_take(checkpoint->ledger, LEDGER_HOST, account,
                                             part_bytes(checkpoint->floats, part), error);
    checkpoint->present[part] = checkpoint->part[part] != NULL;
    return checkpoint->present[part];
}

static bool copy_host(Checkpoint *checkpoint, int part, const void *from, Error *error)
{
    checkpoint->present[part] = false;
    if (!from)
        return true;
    if (!take_part(checkpoint, part, error))
        return false;
    memcpy(checkpoint->part[part], from, (size_t)part_bytes(checkpoint->floats, part));
    return true;
}

static bool copy_device(Checkpoint *checkpoint, Trainer *trainer, Error *error)
{
    if (!take_part(checkpoint, PART_STATE, error) || !take_part(checkpoint, PART_STEP, error) ||
        !network_save(&trainer->network, checkpoint->part[PART_STATE], checkpoint->part[PART_STEP], error))
        return false;
    checkpoint->present[PART_BEST] = false;
    if (!trainer->has_best)
        return true;
    return take_part(checkpoint, PART_BEST, error) &&
           device_copy_out(trainer->network.device, checkpoint->part[PART_BEST], trainer->best,
                           part_bytes(checkpoint->floats, PART_BEST), error);
}

static bool fill(Checkpoint *checkpoint, Trainer *trainer, Error *error)
{
    const Witness *start = &trainer->witness[WITNESS_START], *middle = &trainer->witness[WITNESS_MIDDLE];
    char hex[DIGEST_HEX_SIZE];
    if (!trainer_count_nonfinite(trainer, error))
        return false;
    json_free(checkpoint->json);
    checkpoint->json = json_make_object();
    json_put_integer(checkpoint->json, "format", CHECKPOINT_FORMAT);
    digest_hex(&trainer->record, hex);
    json_put_text(checkpoint->json, "record", hex);
    json_put(checkpoint->json, "progress", progress_to_json(&trainer->progress));
    if (middle->ended)
        json_put(checkpoint->json, "middle", progress_to_json(&middle->from));
    if (!text_copy(checkpoint->folder, sizeof checkpoint->folder, trainer->spec.checkpoints) ||
        !text_print(checkpoint->name, sizeof checkpoint->name, "%s%012lld", prefix,
                    (long long)trainer->progress.step))
        return FAIL(error, ERROR_USAGE, 0, "path of the checkpoints is too long");
    return copy_device(checkpoint, trainer, error) &&
           copy_host(checkpoint, PART_START_AFTER, start->ended ? start->after : NULL, error) &&
           copy_host(checkpoint, PART_MIDDLE_STATE, middle->ended ? middle->state : NULL, error) &&
           copy_host(checkpoint, PART_MIDDLE_STEP, middle->ended ? &middle->step : NULL, error) &&
           copy_host(checkpoint, PART_MIDDLE_AFTER, middle->ended ? middle->after : NULL, error);
}

bool checkpoint_begin(Trainer *trainer, Error *error)
{
    if (!checkpoint_end(trainer, error))
        return false;
    Checkpoint *checkpoint = trainer->writer ? trainer->writer : calloc(1, sizeof *checkpoint);
    if (!checkpoint)
        return FAIL(error, ERROR_MEMORY, 0, "could not take memory for a checkpoint");
    trainer->writer = checkpoint;
    checkpoint->ledger = trainer->spec.ledger;
    checkpoint->floats = trainer_floats(trainer);
    checkpoint->error = ERROR_INIT;
    if (!fill(checkpoint, trainer, error))
        return false;
    checkpoint->running = pthread_create(&checkpoint->thread, NULL, write_on_thread, checkpoint) == 0;
    return checkpoint->running ||
           FAIL(error, ERROR_UNAVAILABLE, 0, "could not start the thread that writes checkpoints");
}

bool checkpoint_end(Trainer *trainer, Error *error)
{
    Checkpoint *checkpoint = trainer->writer;
    if (!checkpoint || !checkpoint->running)
        return true;
    pthread_join(checkpoint->thread, NULL);
    checkpoint->running = false;
    if (!checkpoint->good)
        *error = checkpoint->error;
    return checkpoint->good;
}

// -- resuming

static bool progress_from_json(const Json *json, Progress *ret, Error *error)
{
    return json_get_integer(json, "step", &ret->step, error) &&
           json_get_integer(json, "epoch", &ret->epoch, error) &&
           json_get_integer(json, "position", &ret->position, error) &&
           json_get_integer(json, "samples", &ret->samples, error) &&
           json_get_integer(json, "best_step", &ret->best_step, error) &&
           json_get_integer(json, "bad_epochs", &ret->bad_epochs, error) &&
           json_get_integer(json, "bad_losses", &ret->bad_losses, error) &&
           json_get_integer(json, "nonfinite", &ret->nonfinite, error) &&
           json_get_number(json, "best_loss", &ret->best_loss, error) &&
           json_get_number(json, "last_loss", &ret->last_loss, error) &&
           order_from_json(json_get(json, "order"), &ret->order, error);
}

static const void *need(const TensorFile *file, const Trainer *trainer, int part)
{
    Error absent = ERROR_INIT;
    TensorType type = part_type(part);
    int64_t length = part_bytes(trainer_floats(trainer), part) / (int64_t)tensor_type_size(type);
    const Tensor *tensor = tensors_need(file, parts[part].name, type, 1, (int64_t[]){length}, &absent);
    return tensor ? tensor->data : NULL;
}

static bool restore_witness(Trainer *trainer, WitnessKind kind, const TensorFile *file, const Progress *from,
                            Error *error)
{
    bool middle = kind == WITNESS_MIDDLE;   // the start follows from the seed
    const void *after = need(file, trainer, middle ? PART_MIDDLE_AFTER : PART_START_AFTER),
               *state = middle ? need(file, trainer, PART_MIDDLE_STATE) : NULL,
               *step = middle ? need(file, trainer, PART_MIDDLE_STEP) : NULL;
    if (!after || (middle && (!state || !step)))
        return true;
    Witness *witness = &trainer->witness[kind];
    if (!witness_take(trainer, kind, middle, error))
        return false;
    if (middle) {
        memcpy(witness->state, state, (size_t)part_bytes(trainer_floats(trainer), PART_STATE));
        memcpy(&witness->step, step, sizeof witness->step);
    }
    memcpy(witness->after, after, (size_t)part_bytes(trainer_floats(trainer), PART_BEST));
    witness->from = *from;
    witness->ended = true;
    return true;
}

// ret_good false without error: not whole or of another run, so an older one may do.
static bool try_checkpoint(Trainer *trainer, const char *directory, bool *ret_good, Error *error)
{
    char path[FILE_PATH_SIZE];
    Error broken = ERROR_INIT;
    Digest recorded, found;
    Progress progress, middle = {0};
    *ret_good = false;
    if (!file_join(path, directory, "state.json", error))
        return false;
    OWNED(Json, json_free) *json = json_read_file(path, CHECKPOINT_JSON_MAX, &broken);
    if (!json || json_integer_or(json_get(json, "format"), 0) != CHECKPOINT_FORMAT ||
        !digest_parse(json_text_or(json_get(json, "record"), ""), &recorded) ||
        !digest_equal(&recorded, &trainer->record) ||
        !progress_from_json(json_get(json, "progress"), &progress, &broken) ||
        !digest_parse(json_text_or(json_get(json, "state_sha256"), ""), &recorded) ||
        (json_get(json, "middle") && !progress_from_json(json_get(json, "middle"), &middle, &broken)))
        return true;
    if (!file_join(path, directory, "state.safetensors", error))
        return false;
    if (!hash_file(path, &found, NULL, &broken) || !digest_equal(&recorded, &found))
        return true;
    OWNED(TensorFile, tensors_free) *file = tensors_read(path, UINT64_MAX, &broken);
    const float *state = file ? need(file, trainer, PART_STATE) : NULL,
                *best = file ? need(file, trainer, PART_BEST) : NULL;
    const void *stored_step = file ? need(file, trainer, PART_STEP) : NULL;
    if (!state || !stored_step || progress.step > trainer->planned)
        return true;
    FedgateStepState step;
    memcpy(&step, stored_step, sizeof step);
    trainer->progress = progress;
    trainer->resumed = progress;
    trainer->has_best = best != NULL;
    *ret_good = true;
    Progress start = {.best_loss = INFINITY, .last_loss = NAN};
    return network_load(&trainer->network, state, &step, error) &&
           (!best || device_load(trainer->network.device, trainer->best, best,
                                 part_bytes(trainer_floats(trainer), PART_BEST), error)) &&
           restore_witness(trainer, WITNESS_START, file, &start, error) &&
           restore_witness(trainer, WITNESS_MIDDLE, file, &middle, error);
}

bool checkpoint_resume(Trainer *trainer, Error *error)
{
    FileList list;
    if (!file_list(trainer->spec.checkpoints, &list, error))
        return false;
    bool good = true, found = false;
    for (size_t i = list.count; good && !found && i-- > 0;) {
        char directory[FILE_PATH_SIZE];
        if (text_starts_with(list.names[i], prefix))
            good = file_join(directory, trainer->spec.checkpoints, list.names[i], error) &&
                   try_checkpoint(trainer, directory, &found, error);
    }
    file_list_done(&list);
    return good;
}
