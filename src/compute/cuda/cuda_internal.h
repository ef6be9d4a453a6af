// cuda_internal - the open cuda device: streams, workspaces, the first failure, what operations share.
//
// Operations queue work and return. A call that fails leaves its words in `failure` (the first one stays) and
// `synchronise` reports them. Sums have a fixed order that follows from the shape alone: no atomics on
// floats, and no grid of a reduction asks how large the card is. `.cu` files include the contract and headers
// of this module, nothing else of fedgate.
#ifndef FEDGATE_CUDA_INTERNAL_H
#define FEDGATE_CUDA_INTERNAL_H

#include <cuda_runtime.h>
#include <fedgate/backend_abi.h>
#include <pthread.h>

#include "trace_window.h"

enum {
    CUDA_WARP = 32,
    CUDA_BLOCK = 256,
    CUDA_PLANS = 256,
    CUDA_PARTIALS = 1024,   // blocks of a reduction to one number
    CUDA_COUNTERS = 1024,   // of blocks that have ended, one a part of a reduction
    // bytes of the parts of the workspace
    CUDA_COUNTER_BYTES = CUDA_COUNTERS * 4,
    CUDA_SCRATCH = 16 * 1024 * 1024,
    CUDA_GEMM_WORKSPACE = 64 * 1024 * 1024,
    CUDA_WORKSPACE = CUDA_GEMM_WORKSPACE + CUDA_SCRATCH + CUDA_COUNTER_BYTES
};

typedef struct CudaTrace CudaTrace;   // trace.cu: what was noted in a window
typedef struct CudaNvml CudaNvml;   // nvml.cu
typedef struct CudaGemm CudaGemm;   // gemm.cu: cuBLASLt handle and the plans made so far
typedef enum CudaHealth { CUDA_WELL, CUDA_FAILING, CUDA_FAILED } CudaHealth;

typedef struct CudaGraph {
    cudaGraphExec_t exec;
    int64_t operations, count, room, events;   // events: nodes that are no operation
    TraceMark *marks;   // [count]
} CudaGraph;

typedef struct CudaDevice {
    const FedgateHost *host;
    int index, multiprocessors;
    cudaStream_t compute, copy, side;   // side: what a recording runs beside the compute stream (dense.cu)
    cudaEvent_t forked, joined;
    CudaGemm *gemm;
    void *workspace;   // CUDA_WORKSPACE bytes, zeroed before the first operation: for products, then
    void *scratch;   // partial sums and sorted codes of one operation, then
    unsigned *counters;   // 0 between operations
    bool programmatic;   // kernels may be launched before what they wait for has ended
    CudaGraph *recording;   // being made
    CudaTrace *trace;
    bool tracing;   // atomic: a window is open
    CudaNvml *nvml;   // NULL: not there
    int64_t used_before;   // by everybody before the context was made; -1: unknown
    pthread_mutex_t queue_lock;   // copies are queued under it; also begin and end of a window
    bool pageable, on_compute, serial;   // planted: pinned memory is none; where and when copies run
    bool hangs;   // atomic: something queued did not end in time, and nothing that waits for it may be called
    int health;   // CudaHealth, atomic: copies fail in other threads than operations
    char failure[FEDGATE_REASON_SIZE];   // final once CUDA_FAILED
} CudaDevice;

// Notes a failure with what was being done; false when `result` is one.
bool cuda_good(CudaDevice *device, cudaError_t result, const char *doing);
void cuda_fail(CudaDevice *device, const char *doing, const char *why);
void cuda_launched(CudaDevice *device, const char *kernel);   // after launches: the error they left
bool cuda_failed(const CudaDevice *device, char *ret_reason);   // writes the reason when it has

// Cuts CUDA_WORKSPACE bytes of device memory into its parts.
static inline void cuda_set_workspace(CudaDevice *device, void *memory)
{
    device->workspace = memory;
    device->scratch = (char *)memory + CUDA_GEMM_WORKSPACE;
    device->counters = (unsigned *)((char *)memory + CUDA_GEMM_WORKSPACE + CUDA_SCRATCH);
}

// A planted fault's number, 'fallback' when it is not planted.
static inline double cuda_fault(const CudaDevice *device, const char *name, double fallback)
{
    return device->host->fault ? device->host->fault(name, fallback) : fallback;
}

// Blocks for count elements, grid-stride: enough to fill the device, no more. For kernels whose elements do
// not depend on each other.
unsigned cuda_grid(const CudaDevice *device, int64_t count);

// Waits until the stream is empty, at most for the host's timeout; false when the device has failed by then.
bool cuda_drain(CudaDevice *device, cudaStream_t stream, const char *doing);
static inline bool cuda_hangs(const CudaDevice *device)
{
    return __atomic_load_n(&device->hangs, __ATOMIC_ACQUIRE);
}
// Planted faults let copies touch the compute stream, which must not happen while it is captured.
static inline void cuda_lock_copies(CudaDevice *device, bool lock)
{
    if (!device->on_compute && !device->serial)
        return;
    if (lock)
        pthread_mutex_lock(&device->queue_lock);
    else
        pthread_mutex_unlock(&device->queue_lock);
}

// -- gemm.cu
typedef struct Product {   // d[m x n] = alpha op(a) op(b) + beta d, column-major, then + bias, then max(0, d)
    FedgateType type, out_type;
    bool transpose_a, transpose_b;
    int64_t m, n, k;
    const void *a, *b, *bias;   // bias NULL: none; else aligned to 16 bytes and of the type of d
    void *d;
    float alpha, beta;
    bool relu;
} Product;
CudaGemm *gemm_open(char *ret_libraries, size_t size, char *ret_reason);
void gemm_close(CudaGemm *gemm);
bool gemm_multiply(CudaDevice *device, const Product *product);
// Starts a product beside what follows, the first of which is `product`, where neither fills the card and a
// recording is made; false: it did not. gemm_join: what follows comes after it.
bool gemm_fork(CudaDevice *device, const Product *beside, const Product *product);
void gemm_join(CudaDevice *device);

// -- columns.cu: sums over the rows of a matrix, and what else happens while it is read
void columns_sum(CudaDevice *device, FedgateType type, const void *x, int64_t rows, int64_t width,
                 bool accumulate, float *sums);
void columns_mask(CudaDevice *device, const FedgateDenseBack *op);   // dx = 0 where not x > 0; dx_sums
void columns_outer(CudaDevice *device, const FedgateDenseBack *op);   // all of a layer of one output

// -- planted.cu: what planted faults do
bool planted_coarse(CudaDevice *device, const Product *product);   // a product summed in BF16

// -- stream.cu
void *cuda_event_new(void *device);
void cuda_event_free(void *event);
void cuda_event_record(void *device, void *event);
bool cuda_event_done(void *event);
bool cuda_event_wait(void *event, int64_t timeout_ns);
bool cuda_copy_in(void *device, const FedgateCopy *copy, char *ret_reason);
bool cuda_copy_out(void *device, void *to_host, const void *from, int64_t bytes, char *ret_reason);
bool cuda_load(void *device, void *to, const void *from_host, int64_t bytes, char *ret_reason);
bool cuda_synchronise(void *device, char *ret_reason);
void cuda_await(void *device, void *event);
void cuda_fetch(void *device, void *to_pinned, const void *from, int64_t bytes, void *done);
void cuda_zero(void *device, void *to, int64_t bytes);
void cuda_copy(void *device, void *to, const void *from, int64_t bytes);

// -- graph.cu
void cuda_mark_step(void *device, int64_t step);
bool cuda_record_begin(void *device, char *ret_reason);
void *cuda_record_end(void *device, int64_t *ret_bytes, char *ret_reason);
void cuda_replay(void *device, void *recording, int64_t first_step);
void cuda_record_free(void *device, void *recording);

// -- trace.cu
static inline bool trace_open(const CudaDevice *device)
{
    return __atomic_load_n(&device->tracing, __ATOMIC_ACQUIRE);
}
bool cuda_trace_begin(void *device, char *ret_reason);
bool cuda_trace_end(void *device, FedgateTraceTrust *ret_trust, char *ret_reason);
void trace_close(CudaDevice *device);
void cupti_quiet(bool on);   // launches of this thread are captured, not run
// Notes for the open window, if there is one: `begin` is trace_now before the call of CUDA, 0 without a
// window.
int64_t trace_now(const CudaDevice *device);
void trace_note_step(CudaDevice *device, int64_t step);
void trace_note_replay(CudaDevice *device, const CudaGraph *graph, int64_t first_step, int64_t begin);
void trace_note_copy(CudaDevice *device, const FedgateCopy *copy, int64_t begin);

// -- library.cu: a library by one of its file names; NULL: ret_tried says where it was looked for
void *cuda_library(const char *const *names, int count, char *ret_tried, size_t size);

// -- nvml.cu; NULL is a library that can say nothing
CudaNvml *nvml_open(int device);
void nvml_close(CudaNvml *nvml);
bool nvml_memory(const CudaNvml *nvml, int64_t *ret_total, int64_t *ret_used);
int64_t nvml_own(const CudaNvml *nvml);   // bytes of this process; -1: cannot be said
bool nvml_driver(const CudaNvml *nvml, char *ret_version, unsigned size);

// -- operations of the table
void cuda_count_nonfinite(void *device, const float *x, int64_t count, int64_t *total);
void cuda_gather(void *device, const FedgateGather *op);
void cuda_assemble(void *device, const FedgateAssemble *op);
void cuda_assemble_back(void *device, const FedgateAssemble *op);
void cuda_dense(void *device, const FedgateDense *op);
void cuda_dense_back(void *device, const FedgateDenseBack *op);
void cuda_dropout(void *device, const FedgateDropout *op);
void cuda_loss(void *device, const FedgateLoss *op);
void cuda_score(void *device, const FedgateScore *op);
void cuda_square_sum(void *device, const float *x, int64_t count, double *ret_sum);
void cuda_cast(void *device, const FedgateCast *op);
void cuda_settle(void *device, const FedgateSettle *op);
void cuda_adam(void *device, const FedgateAdam *op);

#endif
