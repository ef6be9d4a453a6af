// backend_abi.h - the whole contract between fedgate and a compute back end, linked in or loaded; also valid
// as C++.
//
// A back end exports one constant, `fedgate_backend`. The host compares abi and size before any code behind
// it runs. Required slots are never NULL; optional ones say their default. Operations are queued on the
// compute stream in the order given and cannot fail visibly: a failure stays with the device and
// `synchronise` reports it. Nothing in a step needs the host: scale, skip and learning rate live in device
// memory. A `reason` holds FEDGATE_REASON_SIZE bytes. Results may not depend on the number of threads. One
// caller thread, except `event_*` and `copy_in`.
//
// Precision. Matrices are row-major, their elements of the operation's `type`: in BF16 and FP16 operands and
// stores are 2 bytes, rounded to nearest even (FP16 overflows to infinity, subnormals are kept), products are
// summed in FP32 and the element pass (bias, ReLU, mask, dropout scale) runs in FP32 before the one rounding
// of the store. Always FP32: logits, gradients of parameters, master weights, moments. Losses and norms are
// summed in FP64.
#ifndef FEDGATE_BACKEND_ABI_H
#define FEDGATE_BACKEND_ABI_H

#include <stdbool.h>
#include <stdint.h>

enum { FEDGATE_BACKEND_ABI = 5, FEDGATE_REASON_SIZE = 256 };

typedef enum FedgateType { FEDGATE_FP32, FEDGATE_BF16, FEDGATE_FP16 } FedgateType;
static inline int64_t fedgate_type_bytes(FedgateType type)
{
    return type == FEDGATE_FP32 ? 4 : 2;
}

typedef enum FedgateSpanKind {
    FEDGATE_SPAN_KERNEL,
    FEDGATE_SPAN_COPY_IN,
    FEDGATE_SPAN_COPY_OUT,
    FEDGATE_SPAN_STEP,
    FEDGATE_SPAN_COPY_WITHIN,   // device to device
    FEDGATE_SPAN_SET
} FedgateSpanKind;
typedef struct FedgateSpan {
    FedgateSpanKind kind;
    int32_t stream;   // 0 compute, 1 copy
    int64_t begin, end, launched_ns;   // host monotonic clock; launched_ns 0: unknown
    int64_t step, bytes;
    bool pageable;
    const char *name;   // static text
} FedgateSpan;

typedef struct FedgateHost {   // what the program offers; outlives the device
    void *context;
    bool modelled;   // time is simulated: durations mean nothing, planted delays are not slept
    int64_t (*now_ns)(void *context);
    void (*span)(void *context, const FedgateSpan *span);   // from any thread
    double (*fault)(const char *name, double fallback);   // planted faults; NULL in a release build
    int64_t timeout_ns;   // how long the device may take for what was queued; may change
} FedgateHost;

typedef struct FedgateFacts {   // what an opened device says of itself
    char name[128], libraries[256], core[32], instruction_set[16];
    int cores, threads;
    int64_t memory_bytes, context_bytes;   // of the machine or card; taken by driver, libraries, scratch
    int64_t workspace_bytes;   // of device memory that `workspace` wants; 0: none
    unsigned types;   // 1 << FedgateType for each type the operations take
    bool asynchronous;   // operations return before they have run
    char timeline[64];   // what the spans come from: "cpu staging thread"
} FedgateFacts;
// What the driver says of the card's memory. Bytes; -1: cannot be said.
typedef struct FedgateMemoryUse {
    int64_t total, used;   // by everybody, now
    int64_t used_before;   // by everybody, just before this device opened
    int64_t own;   // by this process, as the driver's management library counts it
} FedgateMemoryUse;
// What a trace is worth: anything but zeros and an empty reason makes it untrusted.
typedef struct FedgateTraceTrust {
    int64_t dropped, zero_timestamps, causality;
    char reason[128];   // empty, or what else is wrong
    int64_t overheads, overhead_ns;   // no doubts: what the profiler says it took itself
} FedgateTraceTrust;

typedef enum FedgateMemory { FEDGATE_MEMORY_DEVICE, FEDGATE_MEMORY_PINNED } FedgateMemory;
typedef struct FedgateCopy {
    void *to;
    const void *from;
    int64_t bytes, step;
    bool pageable;
    void *after, *done;
} FedgateCopy;

// table `offset` elements into the tables; fills columns [column, column + width) of x. Codes outside are a
// bug of the caller.
typedef struct FedgateEmbedding {
    int64_t offset, width, cardinality, column;
} FedgateEmbedding;
// x[rows x width] = numeric columns rounded to `type`, then embeddings; backward: gradient of the tables from
// x, rows added in order.
typedef struct FedgateAssemble {
    FedgateType type;
    void *x;
    int64_t rows, width;
    const float *numeric;
    int64_t numeric_count;
    const int32_t *codes;
    const void *tables;   // forward: of `type`
    float *gradient;   // backward
    const FedgateEmbedding *embeddings;
    int64_t embedding_count;   // host memory, alive until synchronised
    bool accumulate;   // backward: add to the gradient
    int64_t *nonfinite;   // forward: grows by the numeric inputs that are no finite numbers; may be NULL
} FedgateAssemble;
// Row i of the target arrays = row index[i] of the tables: rows that lie on the device become a batch.
typedef struct FedgateGather {
    float *numeric, *target;
    int32_t *codes;
    const float *from_numeric, *from_target;
    const int32_t *from_codes;
    const uint32_t *index;   // device memory [rows]
    int64_t rows, numeric_count, code_count;
} FedgateGather;
typedef struct FedgateDense {   // y[rows x out] = x[rows x in] w[in x out] + bias, then max(0, y) when relu
    FedgateType type, y_type;   // of x, w, bias; of y (the type, or FP32 for logits)
    const void *x, *w, *bias;
    void *y;
    int64_t rows, in, out;
    bool relu;
} FedgateDense;
typedef struct FedgateDenseBack {   // dw = x' dy, db = column sums of dy, dx = dy w' x below_scale where x >
                                    // 0 when below_relu
    FedgateType type;   // of x, w, dy, dx
    const void *x, *w, *dy;
    void *dx;   // NULL: not wanted
    float *dw, *db;
    int64_t rows, in, out;
    bool accumulate, below_relu;   // add to dw and db; x is the output of a ReLU
    float below_scale;
    float *dx_sums;   // [in] column sums of dx as stored, which are db of the layer below; added to
                      // like db; NULL: not wanted, as for db
} FedgateDenseBack;
typedef enum FedgateLossKind {
    FEDGATE_LOSS_BINARY,
    FEDGATE_LOSS_CLASSES,
    FEDGATE_LOSS_SQUARE
} FedgateLossKind;

// State of the optimizer in device memory, 8 bytes a field: written by `settle`, read by `loss` and `adam`.
// The host reads it between steps and may set it (start, resume, replay).
typedef struct FedgateStepState {
    double scale;   // loss scale of the next backward pass; 1 without scaling
    double factor;   // what gradients are multiplied with in this step: unscaling and clipping in one
    double norm;   // of this step's gradients, unscaled, before clipping; not finite when it was skipped
    double smallest;   // scale ever used
    int64_t attempted, applied, skipped;   // optimizer steps; attempted = applied + skipped
    int64_t apply;   // 1: this step changes the weights, 0: it is skipped
    int64_t pace;   // row of the pace table for this step: steps applied before it
    int64_t clean;   // applied steps since the last skip or growth
    int64_t patience;   // the skip that brings it to 0, and each one after, lowers the scale; starts as
                        // hysteresis
    int64_t in_row, longest;   // skipped steps in a row: now, ever
    int64_t at_floor;   // skipped steps with the scale already at its floor
    int64_t grown, lowered;   // times the scale was raised, lowered
} FedgateStepState;
typedef struct FedgateDropout {   // x / keep, or 0, by key and position
    FedgateType type;
    void *x;
    int64_t rows, width;
    uint64_t key, row;
    float keep;
    uint64_t layer;
    const FedgateStepState *state;   // when given, the key is random_bits(key, state->attempted) + layer
} FedgateDropout;
typedef struct FedgatePace {   // of one applied step: learning rate, 1 / (1 - beta^t) of both moments
    float rate, correction1, correction2;
} FedgatePace;
// Decides on the step whose gradients have this sum of squares. Finite: apply, factor = min(1, clip / norm) /
// scale (clip 0: 1 / scale); when dynamic, after `growth_every` clean steps the scale is multiplied by
// `growth` (0: never), at most `ceiling`, and patience is `hysteresis` again. Not finite and dynamic: skip;
// the skip number `hysteresis` since the last growth and each one after multiply the scale by `backoff`,
// never below `floor`. Not finite and not dynamic: apply, so that the judges see it. src/compute/settle.h
// says it in C.
typedef struct FedgateSettle {
    FedgateStepState *state;
    double *square_sum;
    double clip;
    bool dynamic;
    double growth, backoff, floor, ceiling;
    int64_t growth_every, hysteresis;
    const float *gradient;   // first square_sum = its sum of squares; NULL: that is there already
    int64_t gradient_count;
    int64_t *ended_ns;   // device memory [ended_count]: the device's clock is written to place attempted mod
    int64_t ended_count;   // count, before attempted grows; NULL: not wanted
} FedgateSettle;
typedef struct FedgateLoss {   // adds the sum of row losses to *loss; gradient (may be NULL) = d loss x scale
                               // x state->scale as a float, rounded to its type
    FedgateLossKind kind;
    const float *logits, *target;
    FedgateType gradient_type;
    void *gradient;
    double *loss;
    int64_t rows, outputs;
    float scale;
    const FedgateStepState *state;   // NULL: 1
} FedgateLoss;
typedef struct FedgateScore {
    FedgateLossKind kind;
    const float *logits;
    double *score;
    int64_t rows, outputs;
} FedgateScore;   // probabilities or values
// Decoupled decay on FP32 master weights: gradients times state->factor; nothing when state->apply is 0.
// pass (may be NULL): the new weights rounded to pass_type, for the next forward pass.
typedef struct FedgateAdam {
    float *weights, *first, *second;
    const float *gradient;
    void *pass;
    FedgateType pass_type;
    int64_t count, decayed;   // the first `decayed` of them decay
    float beta1, beta2, epsilon, decay;
    const FedgatePace *pace;   // device memory [pace_count]; the last row holds when there are more steps
    int64_t pace_count;
    const FedgateStepState *state;
} FedgateAdam;
typedef struct FedgateCast {   // to = from, rounded to nearest even
    void *to;
    const void *from;
    FedgateType to_type, from_type;
    int64_t count;
} FedgateCast;

typedef struct FedgateBackend {
    uint32_t abi, size;   // FEDGATE_BACKEND_ABI, sizeof(FedgateBackend)
    const char *name, *build;
    bool (*probe)(char *ret_reason);   // false: this machine is not supported
    int (*device_count)(void);
    void *(*open)(int device, int threads, const FedgateHost *host, FedgateFacts *ret_facts,
                  char *ret_reason);
    void (*close)(void *device);
    void *(*take)(void *device, FedgateMemory memory,
                  int64_t bytes);   // zeroed, 64-byte aligned; NULL: none left
    void (*give)(void *device, FedgateMemory memory, void *address, int64_t bytes);
    void *(*event_new)(void *device);   // not passed until recorded
    void (*event_free)(void *event);
    // Compute stream. While a recording is made: in each replay the event passes at this point of it.
    void (*event_record)(void *device, void *event);
    bool (*event_done)(void *event);
    bool (*event_wait)(void *event, int64_t timeout_ns);   // false: not passed in time
    bool (*copy_in)(void *device, const FedgateCopy *copy,
                    char *ret_reason);   // copy stream; waits for `after`, then passes `done`
    bool (*copy_out)(void *device, void *to_host, const void *from, int64_t bytes,
                     char *ret_reason);   // after all compute; waits
    bool (*load)(void *device, void *to, const void *from_host, int64_t bytes,
                 char *ret_reason);   // after all compute; waits
    bool (*synchronise)(void *device, char *ret_reason);
    void (*await)(void *device, void *event);   // compute after this waits for the event, recorded or to be
                                                // passed by a copy that was queued
    void (*fetch)(void *device, void *to_pinned, const void *from, int64_t bytes,
                  void *done);   // after the compute queued so far; then passes `done`
    void (*mark_step)(void *device, int64_t step);   // the operations that follow belong to it; < 0: to none
    void (*count_nonfinite)(void *device, const float *x, int64_t count, int64_t *total);   // grows
    void (*zero)(void *device, void *to, int64_t bytes);
    void (*copy)(void *device, void *to, const void *from, int64_t bytes);   // device to device
    void (*gather)(void *device, const FedgateGather *op);
    void (*assemble)(void *device, const FedgateAssemble *op);
    void (*assemble_back)(void *device, const FedgateAssemble *op);
    void (*dense)(void *device, const FedgateDense *op);
    void (*dense_back)(void *device, const FedgateDenseBack *op);
    void (*dropout)(void *device, const FedgateDropout *op);
    void (*loss)(void *device, const FedgateLoss *op);
    void (*score)(void *device, const FedgateScore *op);
    void (*square_sum)(void *device, const float *x, int64_t count, double *ret_sum);
    void (*cast)(void *device, const FedgateCast *op);
    void (*settle)(void *device, const FedgateSettle *op);
    void (*adam)(void *device, const FedgateAdam *op);
    // -- optional, NULL: none
    int64_t (*now_ns)(void *device);   // none: the host's monotonic clock
    void (*workspace)(void *device, void *memory);   // facts.workspace_bytes, once, before any operation
    bool (*memory)(void *device, FedgateMemoryUse *ret_use);
    // A recording holds operations and marks instead of running them (no copy, event, fetch or wait) and runs
    // them as often as it is replayed; its first mark is then `first_step`. All four or none.
    bool (*record_begin)(void *device, char *ret_reason);
    void *(*record_end)(void *device, int64_t *ret_bytes, char *ret_reason);   // bytes of device memory
    void (*replay)(void *device, void *recording, int64_t first_step);
    void (*record_free)(void *device, void *recording);
    // Spans are collected from begin to end and handed to host->span by trace_end, which waits for what was
    // queued before it. None: spans come whenever they are asked for. Both or none.
    bool (*trace_begin)(void *device, char *ret_reason);
    bool (*trace_end)(void *device, FedgateTraceTrust *ret_trust, char *ret_reason);
} FedgateBackend;

#ifdef __cplusplus
extern "C" const FedgateBackend fedgate_backend;
#else
extern const FedgateBackend fedgate_backend;
#endif

#endif
