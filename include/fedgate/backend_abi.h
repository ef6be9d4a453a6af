// backend_abi.h - the whole contract between fedgate and a compute back end, linked in or loaded; also valid
// as C++.
//
// A back end exports one constant, `fedgate_backend`. The host compares abi and size before any code behind
// it runs. Required slots are never NULL; optional ones say their default. Operations are queued on the
// compute stream in the order given and cannot fail visibly: a failure stays with the device and
// `synchronise` reports it. Matrices are row-major float; a `reason` holds FEDGATE_REASON_SIZE bytes. Results
// may not depend on the number of threads. One caller thread, except `event_*` and `copy_in`.
#ifndef FEDGATE_BACKEND_ABI_H
#define FEDGATE_BACKEND_ABI_H

#include <stdbool.h>
#include <stdint.h>

enum { FEDGATE_BACKEND_ABI = 1, FEDGATE_REASON_SIZE = 256 };

typedef enum FedgateSpanKind {
    FEDGATE_SPAN_KERNEL,
    FEDGATE_SPAN_COPY_IN,
    FEDGATE_SPAN_COPY_OUT,
    FEDGATE_SPAN_STEP
} FedgateSpanKind;
typedef struct FedgateSpan {
    FedgateSpanKind kind;
    int32_t stream;   // 0 compute, 1 copy
    int64_t begin, end, launched_ns;   // host monotonic clock
    int64_t step, bytes;
    bool pageable;
    const char *name;   // static text
} FedgateSpan;

typedef struct FedgateHost {   // what the program offers; outlives the device
    void *context;
    bool modelled;   // time is simulated: durations mean nothing, planted delays are not slept
    int64_t (*now_ns)(void *context);
    void (*span)(void *context, const FedgateSpan *span);   // from any thread
} FedgateHost;

typedef struct FedgateFacts {   // what an opened device says of itself
    char name[128], libraries[256], core[32], instruction_set[16];
    int cores, threads;
    int64_t memory_bytes, context_bytes;   // of the machine or card; taken by driver and libraries
} FedgateFacts;

typedef enum FedgateMemory { FEDGATE_MEMORY_DEVICE, FEDGATE_MEMORY_PINNED } FedgateMemory;
typedef struct FedgateCopy {
    void *to;
    const void *from;
    int64_t bytes, step;
    bool pageable;
    void *after, *done;
} FedgateCopy;

// table `offset` floats into the tables; fills columns [column, column + width) of x. Codes outside are a bug
// of the caller.
typedef struct FedgateEmbedding {
    int64_t offset, width, cardinality, column;
} FedgateEmbedding;
typedef struct FedgateAssemble {   // x[rows x width] = numeric columns, then embeddings; backward: gradient
                                   // of the tables from x
    float *x;
    int64_t rows, width;
    const float *numeric;
    int64_t numeric_count;
    const int32_t *codes;
    float *tables;
    const FedgateEmbedding *embeddings;
    int64_t embedding_count;   // host memory, alive until synchronised
    bool accumulate;   // backward: add to the tables' gradient
} FedgateAssemble;
typedef struct FedgateDense {   // y[rows x out] = x[rows x in] w[in x out] + bias, then max(0, y) when relu
    const float *x, *w, *bias;
    float *y;
    int64_t rows, in, out;
    bool relu;
} FedgateDense;
typedef struct FedgateDenseBack {   // dw = x' dy, db = column sums of dy, dx = dy w' x below_scale where x >
                                    // 0 when below_relu
    const float *x, *w, *dy;
    float *dx, *dw, *db;   // dx NULL: not wanted
    int64_t rows, in, out;
    bool accumulate, below_relu;   // add to dw and db; x is the output of a ReLU
    float below_scale;
} FedgateDenseBack;
typedef struct FedgateDropout {
    float *x;
    int64_t rows, width;
    uint64_t key, row;
    float keep;
} FedgateDropout;   // x / keep, or 0, by key and position
typedef enum FedgateLossKind {
    FEDGATE_LOSS_BINARY,
    FEDGATE_LOSS_CLASSES,
    FEDGATE_LOSS_SQUARE
} FedgateLossKind;
typedef struct FedgateLoss {   // adds the sum of row losses to *loss; gradient (may be NULL) = d loss x scale
    FedgateLossKind kind;
    const float *logits, *target;
    float *gradient;
    double *loss;
    int64_t rows, outputs;
    float scale;
} FedgateLoss;
typedef struct FedgateScore {
    FedgateLossKind kind;
    const float *logits;
    double *score;
    int64_t rows, outputs;
} FedgateScore;   // probabilities or values
typedef struct FedgateAdam {   // decoupled decay; gradients scaled to norm `clip` when sqrt(*square_sum) is
                               // over it (0: never)
    float *weights, *first, *second;
    const float *gradient;
    int64_t count;
    float rate, beta1, beta2, epsilon, decay, correction1, correction2, clip;
    const double *square_sum;
} FedgateAdam;

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
    void (*event_record)(void *device, void *event);   // compute stream
    bool (*event_done)(void *event);
    bool (*event_wait)(void *event, int64_t timeout_ns);   // false: not passed in time
    bool (*copy_in)(void *device, const FedgateCopy *copy,
                    char *ret_reason);   // copy stream; waits for `after`, then passes `done`
    bool (*copy_out)(void *device, void *to_host, const void *from, int64_t bytes,
                     char *ret_reason);   // after all compute; waits
    bool (*load)(void *device, void *to, const void *from_host, int64_t bytes,
                 char *ret_reason);   // after all compute; waits
    bool (*synchronise)(void *device, char *ret_reason);
    void (*mark_step)(void *device, int64_t step);
    void (*zero)(void *device, void *to, int64_t bytes);
    void (*copy)(void *device, void *to, const void *from, int64_t bytes);   // device to device
    void (*assemble)(void *device, const FedgateAssemble *op);
    void (*assemble_back)(void *device, const FedgateAssemble *op);
    void (*dense)(void *device, const FedgateDense *op);
    void (*dense_back)(void *device, const FedgateDenseBack *op);
    void (*dropout)(void *device, const FedgateDropout *op);
    void (*loss)(void *device, const FedgateLoss *op);
    void (*score)(void *device, const FedgateScore *op);
    void (*square_sum)(void *device, const float *x, int64_t count, double *ret_sum);
    void (*adam)(void *device, const FedgateAdam *op);
    int64_t (*now_ns)(void *device);   // optional: the host's monotonic clock
} FedgateBackend;

#ifdef __cplusplus
extern "C" const FedgateBackend fedgate_backend;
#else
extern const FedgateBackend fedgate_backend;
#endif

#endif
