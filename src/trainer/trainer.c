// trainer - opening and closing, the state that training changes, validation.
//
// Everything is taken here, so that a run that does not fit is refused before its first step. The validation
// table stays on the device, or is handed over in pieces of a microbatch: as the plan says.
#include "bench.h"
#include "trainer_internal.h"

#include <fedgate/fault.h>
#include <fedgate/file.h>
#include <fedgate/hash.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

TrainFixed trainer_fixed_bytes(void)
{
    return (TrainFixed){.sums = SUM_COUNT * (int64_t)sizeof(double),
                        .operands = BENCH_BYTES,
                        .step_state = (int64_t)sizeof(StepBlock),
                        .pace = (int64_t)sizeof(FedgatePace),
                        .read_back = trainer_read_back_bytes()};
}

static int64_t float_bytes(const Trainer *trainer)
{
    return trainer->network.layout.floats * (int64_t)sizeof(float);
}

static bool check_shape(const Trainer *trainer, Error *error)
{
    const Config *config = trainer->config;
    if (config_list_count(config, "train.hidden") > SHAPE_LAYERS)
        return FAIL(error, ERROR_CONFIG, 0, "option 'train.hidden' has %zu layers, over the limit of %d",
                    config_list_count(config, "train.hidden"), SHAPE_LAYERS);
    if (maps_categorical(trainer->spec.maps) > SHAPE_CATEGORICAL)
        return FAIL(error, ERROR_CONFIG, 0, "option 'data.categorical' has %zu columns, over the limit of %d",
                    maps_categorical(trainer->spec.maps), SHAPE_CATEGORICAL);
    if (trainer->train_rows == 0)
        return FAIL(error, ERROR_DATA, 0, "no training row is left after the split");
    if (trainer->batch % trainer->microbatch != 0)
        return FAIL(error, ERROR_CONFIG, 0, "microbatch %lld does not divide the batch of %lld",
                    (long long)trainer->microbatch, (long long)trainer->batch);
    return true;
}

static int launch_steps(const Trainer *trainer)
{
    TrainShape shape;
    trainer_shape(trainer->config, trainer->spec.maps, &shape);
    return trainer_group(trainer->config, &shape, device_info(trainer->spec.device)->records,
                         trainer->train_rows);
}

static void read_plan(Trainer *trainer)
{
    const Config *config = trainer->config;
    trainer->recipe = (Recipe){
        .rate = config_real(config, "train.learning_rate"),
        .warmup = config_real(config, "train.warmup"),
        .final_ratio = config_real(config, "train.final_rate"),
        .decay = config_real(config, "train.weight_decay"),
        .beta1 = config_real(config, "train.beta1"),
        .beta2 = config_real(config, "train.beta2"),
        .epsilon = config_real(config, "train.epsilon"),
        .clip = config_real(config, "train.clip"),
        .dropout = config_real(config, "train.dropout"),
        .scale_initial = config_real(config, "train.scale_initial"),
        .scale_floor = config_real(config, "train.scale_floor"),
        .scale_growth = config_integer(config, "train.scale_growth"),
        .scale_hysteresis = config_integer(config, "train.scale_hysteresis"),
        .scale_stop = config_integer(config, "train.scale_stop"),
    };
    trainer->seed = (uint64_t)config_integer(config, "train.seed");
    trainer->batch = config_integer(config, "train.batch");
    trainer->microbatch = trainer->spec.microbatch > 0 ? trainer->spec.microbatch : trainer->batch;
    trainer->train_rows = (int64_t)dataset_rows(trainer->spec.dataset, SPLIT_TRAIN);
    trainer->order_digest = dataset_row_digest(trainer->spec.dataset, SPLIT_TRAIN);
    trainer->per_epoch = (trainer->train_rows + trainer->batch - 1) / trainer->batch;
    trainer->epochs = config_integer(config, "train.epochs");
    trainer->patience = config_integer(config, "train.patience");
    trainer->planned = trainer->per_epoch * trainer->epochs;
    int64_t limit = config_integer(config, "train.max_steps");
    if (limit > 0 && limit < trainer->planned)
        trainer->planned = limit;
    trainer->group = launch_steps(trainer);
}

// What a checkpoint belongs to: everything that decides the bits of the run.
static void make_record(Trainer *trainer)
{
    OWNED(Json, json_free) *options = config_to_json(trainer->config, OPTION_IDENTITY);
    SCOPED_TEXT text;
    Digest data;
    text_init(&text, 1000 * 1000);
    json_write(options, JSON_COMPACT, &text);
    dataset_digest(trainer->spec.dataset, &data);
    Hash *hash = hash_begin();
    if (hash) {
        hash_add_string(hash, text_string(&text));
        hash_add(hash, data.bytes, sizeof data.bytes);
        hash_add(hash, &trainer->microbatch, sizeof trainer->microbatch);
        hash_add_string(hash, device_info(trainer->spec.device)->libraries);
    }
    hash_end(hash, &trainer->record);
}

static bool open_network(Trainer *trainer, Error *error)
{
    TrainShape shape;
    FedgateLossKind kind;
    FedgateType type;
    Device *device = trainer->spec.device;
    const char *task = config_text(trainer->config, "task"),
               *precision = config_text(trainer->config, "train.precision");
    trainer_shape(trainer->config, trainer->spec.maps, &shape);
    shape.outputs = dataset_classes(trainer->spec.dataset);
    if (!loss_kind_find(task, &kind))
        return FAIL(error, ERROR_CONFIG, 0, "task '%s' is unknown", task);
    if (!device_type_find(precision, &type))
        return FAIL(error, ERROR_CONFIG, 0, "precision '%s' is unknown", precision);
    if (!network_open(&trainer->network, device, &shape, kind, type, trainer->microbatch, true, "", error) ||
        !network_set_pace(&trainer->network, &trainer->recipe, trainer->planned, error))
        return false;
    trainer->best = device_take(device, "best weights", float_bytes(trainer), error);
    trainer->extra_bytes = (int64_t)fault_value("memory.extra_bytes", 0);
    if (trainer->best && trainer->extra_bytes > 0 &&
        !(trainer->extra = device_take(device, "unplanned", trainer->extra_bytes, error)))
        return false;
    if (trainer->best && (fault_set("quality.shuffle_labels") || fault_set("train.nan_step")))
        trainer->planted = device_take(device, "planted", trainer->batch * (int64_t)sizeof(float), error);
    return trainer->best != NULL;
}

Trainer *trainer_open(const TrainerSpec *spec, Error *error)
{
    Trainer *trainer = calloc(1, sizeof *trainer);
    if (!trainer) {
        FAIL(error, ERROR_MEMORY, 0, "could not take memory for a trainer");
        return NULL;
    }
    trainer->spec = *spec;
    trainer->config = spec->config;
    trainer->simulated = clock_is_simulated(spec->clock);
    trainer->progress = (Progress){.best_loss = INFINITY, .last_loss = NAN};
    read_plan(trainer);
    make_record(trainer);
    if (check_shape(trainer, error) && open_network(trainer, error) &&
        dataset_decode(spec->dataset, spec->maps, SPLIT_VALIDATION, spec->ledger, &trainer->validation,
                       error)) {
        trainer->has_validation = true;
        if (file_make_directories(spec->checkpoints, 0750, error) &&
            network_start(&trainer->network, &trainer->recipe, trainer->seed, error) &&
            trainer_upload_validation(trainer, error))
            return trainer;
    }
    trainer_free(trainer);
    return NULL;
}

static void give_table(Trainer *trainer, const char *account, float *x, int32_t *codes, float *target,
                       int64_t rows)
{
    Device *device = trainer->spec.device;
    device_give(device, account, x, rows * trainer->network.shape.numeric * (int64_t)sizeof *x);
    device_give(device, account, codes, rows * trainer->network.shape.categorical * (int64_t)sizeof *codes);
    device_give(device, account, target, rows * (int64_t)sizeof *target);
}

void trainer_free(Trainer *trainer)
{
    if (!trainer)
        return;
    Error ignored = ERROR_INIT;
    Device *device = trainer->spec.device;
    if (!checkpoint_end(trainer, &ignored))
        error_clear(&ignored);   // reported when the next one was begun, or by trainer_train
    checkpoint_free(trainer->writer);
    launches_free_left(trainer);
    device_trace(device, NULL);
    meter_done(&trainer->meter);
    witness_done(trainer);
    give_table(trainer, "validation", trainer->table_x, trainer->table_codes, trainer->table_target,
               trainer->table_rows);
    for (int64_t i = 0; i < trainer->leaks; i++)
        device_give(device, "retained", trainer->leaked[i], trainer->leak_bytes);
    free(trainer->leaked);
    free(trainer->table_host_target);
    device_give(device, "unplanned", trainer->extra, trainer->extra_bytes);
    device_give(device, "planted", trainer->planted, trainer->batch * (int64_t)sizeof(float));
    if (trainer->network.device)
        device_give(device, "best weights", trainer->best, float_bytes(trainer));
    network_close(&trainer->network);
    if (trainer->has_validation)
        table_done(&trainer->validation);
    free(trainer);
}

// -- state

bool trainer_count_nonfinite(Trainer *trainer, Error *error)
{
    Device *device = trainer->spec.device;
    int64_t *counter = &trainer->network.steps->nonfinite, counted = 0;
    if (!device_copy_out(device, &counted, counter, sizeof counted, error))
        return false;
    trainer->progress.nonfinite += counted;
    device_zero(device, counter, sizeof counted);   // whoever asks next learns of what came after
    return true;
}

static int64_t multiple_after(int64_t step, int64_t every)
{
    return (step / every + 1) * every;
}

int64_t trainer_next_boundary(const Trainer *trainer)
{
    int64_t step = trainer->progress.step, witness = witness_next(trainer),
            next = multiple_after(step, config_integer(trainer->config, "train.checkpoint_every")),
            epoch_end = step + trainer->per_epoch - trainer->progress.position;
    next = epoch_end < next ? epoch_end : next;
    next = witness < next ? witness : next;
    next = next < trainer->planned ? next : trainer->planned;
    return next > step ? next : step + 1;
}

int64_t trainer_epochs(const Config *config, int64_t train_rows)
{
    const int64_t batch = config_integer(config, "train.batch"),
                  epochs = config_integer(config, "train.epochs"),
                  steps = config_integer(config, "train.max_steps"), each = (train_rows + batch - 1) / batch;
    return steps > 0 && each > 0 && (steps + each - 1) / each < epochs ? (steps + each - 1) / each : epochs;
}

int64_t trainer_floats(const Trainer *trainer)
{
    return trainer->network.layout.floats;
}

static FeedSpec feed_spec(const Trainer *trainer, uint64_t seed, const Progress *from)
{
    const Config *config = trainer->config;
    return (FeedSpec){
        .dataset = trainer->spec.dataset,
        .maps = trainer->spec.maps,
        .device = trainer->spec.device,
        .clock = trainer->spec.clock,
        .ledger = trainer->spec.ledger,
        .split = SPLIT_TRAIN,
        .batch = trainer->batch,
        .seed = seed,
        .shuffle = true,
        .epoch = from->epoch,
        .position = from->position,
        .epochs = trainer->epochs,
        .augment_noise = config_real(config, "input.augment_noise"),
        .workers = (int)config_integer(config, "input.workers"),
        .prefetch = (int)config_integer(config, "input.prefetch"),
        .slots = (int)config_integer(config, "input.slots"),
    };
}

// Batch by batch and streamed, for what is not the training: its rows are the same.
Feed *trainer_feed_of(const Trainer *trainer, uint64_t seed, const Progress *from, Error *error)
{
    FeedSpec spec = feed_spec(trainer, seed, from);
    return feed_open(&spec, error);
}

Feed *trainer_feed_training(const Trainer *trainer, const Progress *from, Error *error)
{
    FeedSpec spec = feed_spec(trainer, trainer->seed, from);
    spec.group = trainer_launches(trainer) ? trainer->group : 1;
    spec.resident = config_bool(trainer->config, "input.resident");
    spec.epochs = trainer_epochs(trainer->config, trainer->train_rows);
    return feed_open(&spec, error);
}

Feed *trainer_feed(const Trainer *trainer, const Progress *from, Error *error)
{
    return trainer_feed_of(trainer, trainer->seed, from, error);
}

// -- validation

static float *scaled_targets(const Trainer *trainer)
{
    const Table *table = &trainer->validation;
    double mean = 0, deviation = 1;
    maps_target(trainer->spec.maps, &mean, &deviation);
    float *target = malloc((table->rows + 1) * sizeof *target);
    for (size_t i = 0; target && i < table->rows; i++)
        target[i] = (float)((table->target[i] - mean) / deviation);
    return target;
}

static bool load_rows(Trainer *trainer, int64_t first, int64_t rows, Error *error)
{
    const Table *table = &trainer->validation;
    const int64_t numeric = (int64_t)table->numeric, categorical = (int64_t)table->categorical;
    Device *device = trainer->spec.device;
    return (numeric == 0 || device_load(device, trainer->table_x, table->x + first * numeric,
                                        rows * numeric * (int64_t)sizeof(float), error)) &&
           (categorical == 0 || device_load(device, trainer->table_codes, table->codes + first * categorical,
                                            rows * categorical * (int64_t)sizeof(int32_t), error)) &&
           device_load(device, trainer->table_target, trainer->table_host_target + first,
                       rows * (int64_t)sizeof(float), error);
}

bool trainer_upload_validation(Trainer *trainer, Error *error)
{
    Device *device = trainer->spec.device;
    const Table *table = &trainer->validation;
    const int64_t rows = (int64_t)table->rows, asked = trainer->spec.validation_rows,
                  piece = asked < trainer->microbatch ? trainer->microbatch : asked;   // a pass is never less
    trainer->table_rows = asked > 0 && piece < rows ? piece : rows;
    trainer->table_host_target = scaled_targets(trainer);
    if (!trainer->table_host_target)
        return FAIL(error, ERROR_MEMORY, 0, "could not take memory for validation targets");
    trainer->table_x = device_take(
        device, "validation", trainer->table_rows * (int64_t)table->numeric * (int64_t)sizeof(float), error);
    if (trainer->table_x)
        trainer->table_codes =
            device_take(device, "validation",
                        trainer->table_rows * (int64_t)table->categorical * (int64_t)sizeof(int32_t), error);
    if (trainer->table_codes)
        trainer->table_target =
            device_take(device, "validation", trainer->table_rows * (int64_t)sizeof(float), error);
    return trainer->table_target && (trainer->table_rows < rows || load_rows(trainer, 0, rows, error));
}

bool trainer_validation_rows(Trainer *trainer, int64_t first, int64_t count, Rows *ret_rows, Error *error)
{
    const TrainShape *shape = &trainer->network.shape;
    bool resident = trainer->table_rows == (int64_t)trainer->validation.rows;
    int64_t at = resident ? first : 0;
    if (!resident && !load_rows(trainer, first, count, error))
        return false;
    *ret_rows = (Rows){.numeric = trainer->table_x + at * shape->numeric,
                       .codes = trainer->table_codes + at * shape->categorical,
                       .target = trainer->table_target + at,
                       .count = count};
    return true;
}

static bool validate(Trainer *trainer, double *ret_loss, Error *error)
{
    Network *network = &trainer->network;
    const int64_t rows = (int64_t)trainer->validation.rows;
    double kept = 0, sum = 0;
    if (!network_read_loss(network, &kept, error))   // of the training steps since the last look
        return false;
    trainer->train_loss_sum += kept;
    for (int64_t first = 0; first < rows; first += network->rows) {
        Rows piece;
        int64_t count = rows - first < network->rows ? rows - first : network->rows;
        if (!trainer_validation_rows(trainer, first, count, &piece, error))
            return false;
        network_forward(network, &piece, NULL);
        network_loss(network, &piece, 0, false);
    }
    if (!network_read_loss(network, &sum, error))
        return false;
    *ret_loss = rows > 0 ? sum / (double)rows : (double)NAN;
    return true;
}

bool trainer_validate(Trainer *trainer, double *ret_loss, Error *error)
{
    Device *device = trainer->spec.device;
    int64_t bytes = (int64_t)fault_value("memory.validation_bytes", 0);
    void *planted = bytes > 0 ? device_take(device, "validation", bytes, error) : NULL;
    bool good = (bytes <= 0 || planted) && validate(trainer, ret_loss, error);
    device_give(device, "validation", planted, bytes);
    return good;
}

Model *trainer_model(const Trainer *trainer, Error *error)
{
    const Network *network = &trainer->network;
    Model *model = calloc(1, sizeof *model);
    float *weights = malloc((size_t)float_bytes(trainer));
    if (!model || !weights) {
        free(model);
        free(weights);
        FAIL(error, ERROR_MEMORY, 0, "could not take memory for a model");
        return NULL;
    }
    *model = (Model){
        .shape = network->shape, .layout = network->layout, .kind = network->kind, .weights = weights};
    if (device_copy_out(network->device, weights, trainer->best, float_bytes(trainer), error))
        return model;
    model_free(model);
    return NULL;
}
