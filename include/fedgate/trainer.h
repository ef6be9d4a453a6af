// trainer.h - the built-in tabular model and its baselines: train, resume, replay, predict, compare
// precisions; deterministic.
//
// Model: embeddings (unknown slot 0) beside numeric inputs -> hidden layers with ReLU -> one output (binary
// logit, regression) or k logits. AdamW with warm-up and cosine, gradient accumulation, early stop on
// validation loss, best weights kept. In BF16
// and FP16 passes run in half precision on FP32 master weights, FP16 under a dynamic loss scale; a model is
// its master weights and always scores in FP32. The same configuration, data and seed give the same bits for
// any number of threads, workers, prefetch, restarts. Evidence sections follow evidence.h.
#ifndef FEDGATE_TRAINER_H
#define FEDGATE_TRAINER_H

#include <fedgate/input.h>
#include <fedgate/stats.h>
#include <fedgate/tensors.h>

// -- model: weights in host memory, as sealed in a release (model.safetensors, model.json)
typedef struct Model Model;
WARN_UNUSED bool
model_save(const Model *model, const char *directory,
           Error *error);   // writes model.safetensors and model.json, O_EXCL; same bits -> same bytes
WARN_UNUSED Model *model_load(const char *directory, Error *error);
void model_free(Model *model);
OWNED_RELEASE(Model, model_free)
void model_digest(const Model *model, Digest *ret_digest);
const char *model_task(const Model *model);   // "binary", "multiclass", "regression"
int64_t model_outputs(const Model *model);   // scores per row
// Scores of a table: probability (binary), class probabilities [rows x k], or the value in target units.
// ret_score [rows x max(1,k)].
WARN_UNUSED bool model_predict(const Model *model, Device *device, Ledger *ledger, const Table *table,
                               double target_mean, double target_deviation, double *ret_score, Error *error);

// -- baselines, same saving and predicting: prior (constant), linear (ridge logistic / softmax / least
// squares), rule
typedef enum BaselineKind { BASELINE_PRIOR, BASELINE_RULE, BASELINE_LINEAR, BASELINE_COUNT } BaselineKind;
const char *baseline_name(BaselineKind kind);
bool baseline_find(const char *name, BaselineKind *ret_kind);
typedef struct Baseline Baseline;
WARN_UNUSED Baseline *baseline_fit(BaselineKind kind, const Config *config, const Dataset *dataset,
                                   const Maps *maps, Ledger *ledger, Error *error);
WARN_UNUSED bool baseline_predict(const Baseline *baseline, const Dataset *dataset, Split split,
                                  const Table *table, double *ret_score, Error *error);
WARN_UNUSED bool baseline_save(const Baseline *baseline, const char *directory,
                               Error *error);   // baseline.json
WARN_UNUSED Baseline *baseline_load(const char *directory, Error *error);
void baseline_free(Baseline *baseline);
OWNED_RELEASE(Baseline, baseline_free)
WARN_UNUSED bool baseline_check_rule(const char *rule, const Config *config,
                                     Error *error);   // ERROR_CONFIG with the position

// -- trainer
typedef struct TrainProgress {
    int64_t step, planned_steps, epoch;
    double train_loss, validation_loss;   // NaN before the first
    double wait_ratio;   // of the steps since the last call
    double hidden_ratio;   // NaN: the timeline is read when the run has ended
    double samples_per_second;   // of the same steps, wall
    int64_t live_bytes;
    double block_seconds;
    int64_t block_steps;   // wall of the steps since the last call
    int64_t wait_ns, exposed_copy_ns, compute_ns, rest_ns;   // sums of the same steps
    bool epoch_ended;
} TrainProgress;
// Called every telemetry.window steps and at each end of an epoch. False: stop now, save a checkpoint.
typedef bool (*TrainWatch)(void *context, const TrainProgress *progress);

// Asked between the steps and runs of the parity ladder.
typedef enum LadderWord {
    LADDER_GO_ON,
    LADDER_LEAVE,   // out of time: the rungs that are missing stay out of the evidence
    LADDER_STOP   // ERROR_BUSY
} LadderWord;
typedef LadderWord (*LadderWatch)(void *context);

typedef struct Trainer Trainer;
typedef struct TrainerSpec {
    const Config *config;
    const Dataset *dataset;
    const Maps *maps;
    Device *device;
    Clock *clock;
    Ledger *ledger;
    const char *checkpoints;   // folder; created; the newest good checkpoint in it is resumed
    int64_t microbatch;   // from the plan
    int64_t validation_rows;   // kept on the device at once, from the plan; 0: all
    bool unsampled;   // no window of the timeline is traced: to measure what windows cost
    TrainWatch watch;
    LadderWatch ladder_watch;   // may be NULL, as watch
    void *watch_context;
} TrainerSpec;
typedef struct TrainShape {
    int64_t numeric, categorical, outputs;
    int64_t cardinality[256], embedding[256], hidden[32];
    size_t layers;
} TrainShape;
void trainer_shape(const Config *config, const Maps *maps,
                   TrainShape *ret_shape);   // what plan_memory needs (PlanShape)

// Epochs that a run on so many rows begins at most: train.epochs, or fewer where train.max_steps ends it.
int64_t trainer_epochs(const Config *config, int64_t train_rows);
// Steps given to the device at once, so batches copied as one (FeedSpec.group): option train.launch_steps, or
// as many as 32 MiB of rows hold, at most 32; 1 where the device records nothing. Does not change the bits.
int trainer_launch_steps(const Config *config, const TrainShape *shape, bool records);
// The same for an epoch of so many rows: the most steps, down to half of that, which leave the fewest batches
// over at its end, for these are given step by step: on small steps three times as slow.
int trainer_group(const Config *config, const TrainShape *shape, bool records, int64_t train_rows);

// Device bytes that do not follow from the shape: sums of a network, operands of the parity ladder, state of
// the optimizer, a row of its pace table. What scoring a model takes, by account.
typedef struct TrainFixed {
    int64_t sums, operands, step_state, pace;
    int64_t read_back;   // pinned, on a device that works beside the host: what launches bring back
} TrainFixed;
TrainFixed trainer_fixed_bytes(void);
typedef struct ScoreBytes {
    int64_t weights, activations, input, workspace;
} ScoreBytes;
void trainer_score_bytes(const TrainShape *shape, ScoreBytes *ret_bytes);
void model_shape(const Model *model, TrainShape *ret_shape);

WARN_UNUSED Trainer *trainer_open(const TrainerSpec *spec, Error *error);
void trainer_free(Trainer *trainer);
OWNED_RELEASE(Trainer, trainer_free)
// One full cycle with the longest batch, optimizer step, validation and the remainder batch under the budget;
// state restored after. evidence `memory.rehearsal`. ERROR_MEMORY when it does not fit.
WARN_UNUSED bool trainer_rehearse(Trainer *trainer, Json *evidence, Error *error);
// Parity ladder (design.md section 4): rungs 1 to 4 from the initial weights, before training; state
// restored. Evidence `parity`. In FP32 only rung 1.
WARN_UNUSED bool trainer_parity_early(Trainer *trainer, Json *evidence, Error *error);
// Rungs 3 and 4 at the trained candidate (after trainer_train), 5 and 6 by paired short trainings; adds to
// the same section. Both ask ladder_watch and leave what it has no time for out of the evidence. slices: raw
// columns of validation rows the metric is taken by. Nothing in FP32.
typedef struct ParitySpec {
    Metric metric;
    const char *const *slice_names;   // columns
    const Column *slices;
    size_t slice_count;
    const char *run;   // named in the pairs of this night
    const char *draw;   // mixed into the pairs' seeds: nights of one version draw their own; NULL: nothing
    int64_t earlier_steps;   // length of earlier nights' pairs, kept while it fits; 0: there are none
} ParitySpec;
WARN_UNUSED bool trainer_parity_late(Trainer *trainer, const ParitySpec *spec, Json *evidence, Error *error);
typedef struct TrainResult {
    int64_t steps, planned_steps, epochs, resumed_from;
    bool stopped_early;
    double best_validation_loss, train_seconds;
    int64_t samples, run_samples;   // since it was resumed; of the whole run
    int64_t peak_bytes;
    bool scale_lost;   // stopped because train.scale_stop steps in a row were skipped
} TrainResult;
// Trains to the end, until the watch says stop, or until the loss scale is lost. Adds evidence `timeline`,
// `loop`, `stages`, `limiting_stage`, `plausible.claims`, `plausible.clock`, `memory.live`,
// `memory.accounts`, `memory.measured_peak_bytes`, `determinism.order` and, not in FP32, `parity.scale`. The
// timeline is exported to `trace_path` (may be NULL).
WARN_UNUSED bool trainer_train(Trainer *trainer, const char *trace_path, TrainResult *ret_result,
                               Json *evidence, Error *error);
// Replays determinism.steps steps from the start and from a middle checkpoint and compares digests per
// tensor: evidence `determinism.replays`.
WARN_UNUSED bool trainer_replay(Trainer *trainer, Json *evidence, Error *error);
WARN_UNUSED Model *trainer_model(const Trainer *trainer, Error *error);   // best weights, the caller's

#endif
