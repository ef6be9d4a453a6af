// trainer_internal - the network on a device, the state of a training run, and what its parts share.
#ifndef FEDGATE_TRAINER_INTERNAL_H
#define FEDGATE_TRAINER_INTERNAL_H

#include <fedgate/clock.h>
#include <fedgate/trainer.h>
#include <pthread.h>

enum {
    SHAPE_CATEGORICAL = 256,
    SHAPE_LAYERS = 32,
    LAYOUT_PARAMETERS = SHAPE_CATEGORICAL + 2 * (SHAPE_LAYERS + 1)
};

// -- layout: all parameters in one array of floats; those that decay (embeddings, matrices) first, biases
// after them
typedef struct Parameter {
    char name[TENSOR_NAME_SIZE];
    int64_t offset, rows, columns;
} Parameter;   // columns 0: a vector of rows
typedef struct Layout {
    Parameter at[LAYOUT_PARAMETERS];
    size_t count;
    int64_t floats, decayed, width;
} Layout;   // width: input of the first layer
void layout_init(Layout *layout, const TrainShape *shape);
int64_t layer_in(const Layout *layout, const TrainShape *shape,
                 size_t layer);   // layer 0 .. shape->layers (the output)
int64_t layer_out(const TrainShape *shape, size_t layer);
size_t layout_matrix(const TrainShape *shape, size_t layer);   // index of the layer's matrix in `at`
size_t layout_bias(const TrainShape *shape, size_t layer);
void layout_fill(const Layout *layout, const TrainShape *shape, uint64_t seed,
                 float *ret_weights);   // initial weights
void layout_digest(const Layout *layout, const float *weights, size_t parameter, Digest *ret_digest);
Tensor layout_tensor(const Layout *layout, const float *weights, size_t parameter);

// -- schedule: plain arithmetic, the same bits on every machine
double schedule_rate(int64_t step, int64_t planned, double peak, double warmup_ratio, double final_ratio);
double schedule_power(double base, int64_t exponent);
double schedule_cosine(double turns);   // cos(pi x turns), 0 <= turns <= 1

// -- network: one model on a device for microbatches of `rows`, in one arithmetic
typedef enum Held {
    HELD_WEIGHTS,
    HELD_PASS,
    HELD_GRADIENTS,
    HELD_FIRST,
    HELD_SECOND,
    HELD_BLOCK,   // activations and their gradients
    HELD_SUMS,
    HELD_STATE,
    HELD_PACE,
    HELD_COUNT
} Held;
// What the device writes of its steps, in one piece: one fetch brings it.
enum { STEP_ENDED = 256 };
typedef struct StepBlock {
    FedgateStepState state;
    int64_t nonfinite;   // numeric inputs of the training passes that were no finite numbers
    int64_t ended_ns[STEP_ENDED];   // of step `attempted` (before it grew) mod STEP_ENDED, the device's clock
} StepBlock;
typedef struct Network {
    Device *device;
    const char *prefix;   // of the accounts' names; static text
    TrainShape shape;
    Layout layout;
    FedgateLossKind kind;
    FedgateType type;   // of the passes
    FedgateEmbedding embeddings[SHAPE_CATEGORICAL];
    int64_t rows;
    bool training;
    bool abandoned;   // the device hangs: nobody waits for it any more
    float *weights, *gradients, *first, *second;   // master weights; moments of AdamW
    void *pass;   // weights as the passes read them, of `type`; the master weights themselves in FP32
    void *x, *dx;   // of `type`; NULL in FP32 without embeddings: the batch itself is the input
    void *value[SHAPE_LAYERS + 1], *back[SHAPE_LAYERS + 1];   // of `type`, but for the logits, which are FP32
    double *sums;   // loss, square sum of the gradients
    StepBlock *steps;   // device
    FedgateStepState *state;   // device, inside `steps`
    FedgatePace *pace;   // device
    int64_t pace_count;
    struct {
        void *memory;
        int64_t bytes;
    } held[HELD_COUNT];   // what the pointers above point into
} Network;
enum { SUM_LOSS, SUM_SQUARES, SUM_COUNT };
typedef struct Rows {
    const float *numeric;
    const int32_t *codes;
    const float *target;
    int64_t count, first;
} Rows;   // device memory; first: place in the batch
typedef struct Dropout {
    float keep;
    uint64_t key;
} Dropout;
typedef struct Recipe {
    double rate, warmup, final_ratio, decay, beta1, beta2, epsilon, clip, dropout;
    double scale_initial, scale_floor;
    int64_t scale_growth, scale_hysteresis, scale_stop;
} Recipe;   // options train.*
// training: with gradients, moments, state. account_prefix "" or "parity ": accounts are named
// "<prefix>weights" and so on, and the device budget holds for both.
bool network_open(Network *network, Device *device, const TrainShape *shape, FedgateLossKind kind,
                  FedgateType type, int64_t rows, bool training, const char *account_prefix, Error *error);
void network_close(Network *network);
// Bytes of activations that network_open would take for this network, which holds no memory and needs no
// device.
int64_t network_measure(const TrainShape *shape, FedgateType type, int64_t rows, bool training);
bool network_hold(Network *network, Held held, int64_t bytes, Error *error);   // instead of what it held
void network_refresh(Network *network);   // pass = weights, after these were loaded or changed by hand
// dropout: of a training pass (keep may be 1), whose numeric inputs are counted; NULL: of any other.
void network_forward(Network *network, const Rows *rows, const Dropout *dropout);
void network_loss(Network *network, const Rows *rows, float scale, bool gradient);   // adds to sums[SUM_LOSS]
void network_backward(Network *network, const Rows *rows, const Dropout *dropout, bool accumulate);
const float *network_logits(const Network *network);   // of the last forward pass, device memory
double network_flop(const Network *network, int64_t rows, bool backward);
double network_bytes(const Network *network, int64_t rows, bool backward);
bool network_read_loss(Network *network, double *ret_sum, Error *error);   // and sets it to 0
// -- and its training: start, one optimizer step, state in and out
bool network_set_pace(Network *network, const Recipe *recipe, int64_t planned, Error *error);   // the table
bool network_start(Network *network, const Recipe *recipe, uint64_t seed, Error *error);   // initial weights
// Gradient of the mean loss of the rows by microbatches, times the loss scale; then settle and AdamW.
// network_gradient leaves the gradient; network_update uses it. seed and step state decide the dropout.
// Forward and backward passes are claimed to `meter` (may be NULL).
struct Meter;
void network_gradient(Network *network, const Recipe *recipe, const Rows *batch, int64_t microbatch,
                      uint64_t seed, struct Meter *meter);
void network_update(Network *network, const Recipe *recipe);
bool network_scales(const Network *network, const Recipe *recipe);   // its loss scale is dynamic
FedgateSettle network_rule(const Network *network, const Recipe *recipe);   // how its steps are settled
bool network_read_step(Network *network, FedgateStepState *ret_step, Error *error);
// state: weights, first, second [3 x layout.floats] of the host.
bool network_save(Network *network, float *ret_state, FedgateStepState *ret_step, Error *error);
bool network_load(Network *network, const float *state, const FedgateStepState *step, Error *error);

struct Model {
    TrainShape shape;
    Layout layout;
    FedgateLossKind kind;
    float *weights;
};
const char *loss_kind_name(FedgateLossKind kind);   // the task: "binary", "multiclass", "regression"
bool loss_kind_find(const char *name, FedgateLossKind *ret_kind);

// -- meter: what was measured, step by step
typedef enum Rest { REST_HAND_OVER, REST_GIVE, REST_BOOKKEEPING, REST_COUNT } Rest;
typedef struct StepTimes {   // of one step, or of a launch of several: its compute is the wait for the device
    int64_t index, steps, wall_ns, wait_ns, exposed_ns, compute_ns, rest_ns[REST_COUNT];
} StepTimes;
typedef enum Claim { CLAIM_FORWARD, CLAIM_BACKWARD, CLAIM_STEP, CLAIM_COUNT } Claim;
typedef struct Claimed {
    Interval *at;
    size_t count, capacity;
    double flop, bytes;
    int64_t time_ns;
} Claimed;
// When steps ended by the clock of the device, every step of a run: durations in bins a hundredth wide.
enum { STEP_OCTAVES = 44, STEP_BINS = 64 };
typedef struct DeviceSteps {
    int64_t count, covered, total_ns;   // covered: by a duration that is in the bins
    int64_t longest_ns, longest_step;
    int64_t apart, apart_ns;   // behind work of the host between steps, or behind a start
    int64_t last_step, last_ns;
    int64_t ended_ns[STEP_ENDED];   // of the last steps, by step mod STEP_ENDED
    struct {
        int64_t count, ns;
    } bin[STEP_OCTAVES * STEP_BINS];
} DeviceSteps;
void device_steps_add(DeviceSteps *steps, int64_t step, int64_t ended_ns, bool apart);
Json *device_steps_evidence(const DeviceSteps *steps);

// Stretches of whole launches that are traced, spread over the run.
enum { TRACE_WINDOWS = 12 };
typedef struct TraceWindow {
    int64_t first, steps, from_ns, to_ns, given_ns;   // device clock: ends of the first and the last step
    double flop, bytes;   // of the steps after the first
} TraceWindow;
typedef struct Windows {
    int64_t length, lead, period, next;   // steps; lead: traced before a window, and not kept
    size_t count, planned;
    bool open;
    TraceWindow at[TRACE_WINDOWS];
    FedgateTraceTrust trust;
    int64_t cost_ns;   // host time of beginning and ending them
} Windows;

typedef struct Meter {
    int64_t planned, window, period;   // traced: the first `window` steps of every `period`
    int64_t launch_steps, launches, every;   // 0: steps are given one by one; every so many launches are kept
    Timeline *timeline;
    StepTimes *steps;
    size_t count, capacity;
    Claimed claimed[CLAIM_COUNT];
    int64_t live_every;
    int64_t *live_index, *live_bytes;
    size_t live_count;
    int64_t host_begin_ns, host_end_ns, device_begin_ns, device_end_ns;
    int64_t clock_host_ns[2], clock_device_ns[2];   // of launches: first, last moment both clocks are known
    Windows windows;
    DeviceSteps device_steps;
    int64_t compute_busy_ns, compute_items, waited_ns;
} Meter;
bool meter_init(Meter *meter, int64_t planned, int64_t done, int64_t launch_steps, int64_t per_epoch,
                Error *error);
void meter_done(Meter *meter);
bool meter_traces(const Meter *meter, int64_t step);   // full record of this step
void meter_step(Meter *meter, const StepTimes *times);
void meter_claim(Meter *meter, Claim claim, Interval launched, int64_t time_ns, double flop, double bytes);
void meter_live(Meter *meter, int64_t step, int64_t bytes);
// Of launches: the device has just passed its last step.
void meter_clocks(Meter *meter, int64_t host_ns);
int64_t meter_compute_busy(const Meter *meter);
// timeline, loop, plausible, memory.live
bool meter_evidence(const Trainer *trainer, Json *evidence, Error *error);
bool meter_put_spans(const Trainer *trainer, Json *evidence, Error *error);   // what the timeline bears out
void meter_put_series(Json *object, const char *key, const void *first, size_t stride, size_t count);

// A window is due before the launch of this step, when nothing is to happen until step `boundary`.
void windows_plan(Windows *windows, int64_t done, int64_t left, int64_t launch_steps, int64_t per_epoch);
// settled: everything that is recorded has been recorded.
bool windows_due(const Meter *meter, int64_t step, int64_t boundary, bool settled);
bool windows_begin(Meter *meter, Device *device, int64_t step, Error *error);
bool windows_over(const Meter *meter, int64_t step);
bool windows_end(Meter *meter, Device *device, int64_t step, Error *error);   // the device has passed it
// These batches were given in so much host time.
void windows_note(Meter *meter, const Network *network, const FeedBatch *batches, int64_t step, int64_t count,
                  int64_t given_ns);

void outcome_stages(const Trainer *trainer, const Feed *feed,
                    Json *evidence);   // input, then compute; and which limits
void outcome_accounts(const Trainer *trainer, Json *evidence);
bool outcome_scale(Trainer *trainer, Json *evidence, Error *error);   // parity.scale; nothing in FP32
Json *outcome_section(Json *evidence, const char *name);   // the object of this name, made when absent

// -- modelled durations of a simulated clock: a tandem of loading, copy and compute
enum { MODEL_WORKERS = 256, MODEL_PREFETCH = 1024 };
typedef struct ModelClock {
    int64_t load_ns, copy_ns, compute_ns, overhead_ns;
    int64_t workers, prefetch;
    int64_t free_ns[MODEL_WORKERS], taken_ns[MODEL_PREFETCH];
    int64_t batch, copy_free_ns, compute_begin_ns, compute_end_ns;
    bool serial, pageable;
} ModelClock;
typedef struct ModelStep {
    int64_t load_end, copy_begin, copy_end, compute_begin, compute_end;
} ModelStep;
void model_clock_init(ModelClock *model, int64_t now_ns, int64_t workers, int64_t prefetch);
void model_clock_step(ModelClock *model, int64_t now_ns, ModelStep *ret_step);
void model_clock_trace(const ModelClock *model, const ModelStep *modelled, int64_t step, int64_t bytes,
                       Timeline *timeline);

// -- clerk: tells the loader that compute has begun, on a thread of its own
typedef struct Clerk {
    Feed *feed;
    pthread_t thread;
    bool started, releases;
    _Atomic bool closing;
    _Atomic int duty;
    FeedBatch batch, before;   // before: computed, still to be released
} Clerk;
bool clerk_open(Clerk *clerk, Feed *feed, bool threaded, Error *error);
void clerk_close(Clerk *clerk);
void clerk_post(Clerk *clerk, const FeedBatch *batch);   // compute of this batch begins now
void clerk_settle(Clerk *clerk);   // what was posted is done when this returns

// -- state that a checkpoint holds
// Rows as the steps took them: of the epoch so far, of the last whole one (the first that differs from the
// training rows stays), and how many were whole. Order does not matter to a digest.
typedef struct Order {
    int64_t rows, epochs, whole_rows;
    uint64_t digest, whole_digest;
    uint64_t device_digest, whole_device_digest;   // the same as the device has the rows
    bool differs, device;   // device: its digests were read
} Order;
typedef struct Progress {
    int64_t step, epoch, position;   // steps done; epoch and batches of it already consumed
    int64_t samples, best_step, bad_epochs;
    int64_t nonfinite;   // numeric inputs of the steps that were no finite numbers
    int64_t bad_losses;   // reports whose training loss was not finite
    double best_loss, last_loss;   // infinity, NaN before the first validation
    Order order;
} Progress;
void order_take(Order *order, const FeedBatch *batch);   // a step has trained on these rows
void order_take_device(Order *order, uint64_t counted, uint64_t came);   // of a batch: here, on the device
void progress_advance(Trainer *trainer, const FeedBatch *batch);
void order_end_epoch(Order *order, int64_t expected_rows, uint64_t expected_digest);
Json *order_to_json(const Order *order);
bool order_from_json(const Json *json, Order *ret_order, Error *error);
void order_evidence(const Trainer *trainer, Json *evidence);   // determinism.order

// Moments of the run that a replay is compared with: state is weights and moments before `from`, after the
// weights `steps` later.
typedef enum WitnessKind { WITNESS_START, WITNESS_MIDDLE, WITNESS_PENDING, WITNESS_COUNT } WitnessKind;
typedef struct Witness {
    bool taken, ended;
    Progress from;
    FedgateStepState step;
    float *state, *after;
} Witness;   // the start needs no state: it follows from the seed

struct Trainer {
    TrainerSpec spec;
    const Config *config;
    Recipe recipe;
    Network network;
    float *best, *planted;   // device: best weights; target of planted faults
    Table validation;
    bool has_validation;
    float *table_x, *table_target;
    int32_t *table_codes;
    int64_t table_rows;   // device: the whole table, or a piece of it
    float *table_host_target;   // scaled as the network sees them
    double train_loss_sum;   // read from the device so far, since the last report
    uint64_t order_digest;   // of the training rows, asked without the feed
    int64_t train_rows, batch, microbatch, per_epoch, planned, epochs, patience;
    int group;   // batches given to an asynchronous device at once
    uint64_t seed;
    bool simulated, has_best, scale_lost;
    Progress progress, resumed;
    Meter meter;
    ModelClock model;
    Witness witness[WITNESS_COUNT];
    int64_t witness_steps, witness_next;
    int64_t extra_bytes, leaks, leak_bytes;
    void *extra;
    void **leaked;
    struct {
        struct Launcher *launcher;
        Feed *feed;
    } left;   // to a device that hangs
    struct Checkpoint *writer;   // of checkpoints; NULL before the first
    int64_t begun_ns;   // monotonic, of this training
    Digest record;   // what a checkpoint must belong to
};

Feed *trainer_feed(const Trainer *trainer, const Progress *from, Error *error);
Feed *trainer_feed_of(const Trainer *trainer, uint64_t seed, const Progress *from, Error *error);
Feed *trainer_feed_training(const Trainer *trainer, const Progress *from, Error *error);
bool trainer_launches(const Trainer *trainer);   // it gives its steps by launches
// The next step after those done before which something is done between steps; at most `planned`.
int64_t trainer_next_boundary(const Trainer *trainer);
bool launches_rehearse(Trainer *trainer, Error *error);
void launches_free_left(Trainer *trainer);
int64_t trainer_read_back_bytes(void);
// One optimizer step on the first `count` rows of a batch; forward and backward are claimed to `meter` (may
// be NULL).
bool trainer_step(Trainer *trainer, const FeedBatch *batch, int64_t count, int64_t step, Meter *meter,
                  Error *error);
// A batch of the feed as training and replay take it; its rows are counted in progress.order.
bool trainer_batch(Trainer *trainer, const FeedBatch *batch, int64_t step, Meter *meter, Error *error);
int trainer_times(const Trainer *trainer, const FeedBatch *batch);   // steps it takes with a batch: 1
int64_t claimed_length(Interval launched);
bool trainer_validate(Trainer *trainer, double *ret_loss, Error *error);
// At most table_rows of them, on the device.
bool trainer_validation_rows(Trainer *trainer, int64_t first, int64_t count, Rows *ret_rows, Error *error);
bool trainer_upload_validation(Trainer *trainer, Error *error);

int64_t trainer_floats(const Trainer *trainer);
bool witness_look(Trainer *trainer, Error *error);   // before the first step and after each
int64_t witness_next(const Trainer *trainer);   // step after which it next has something to do; INT64_MAX
bool witness_take(Trainer *trainer, WitnessKind kind, bool with_state, Error *error);   // memory for it
void witness_done(Trainer *trainer);

bool trainer_count_nonfinite(Trainer *trainer, Error *error);   // from the device into the progress
bool checkpoint_begin(Trainer *trainer, Error *error);   // copies the state, writes it on a thread of its own
bool checkpoint_end(Trainer *trainer, Error *error);   // waits for the writer
void checkpoint_free(struct Checkpoint *checkpoint);   // after checkpoint_end; NULL allowed
bool checkpoint_resume(Trainer *trainer, Error *error);   // the newest good one, if any

#endif
