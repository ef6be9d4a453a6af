// cpu_internal - the open cpu device: compute threads, the staging thread, what operations share.
//
// Operations run in the caller's thread; `pool` helps with fixed blocks of rows whose size never depends on
// the number of threads, so the bits do not either.
#ifndef FEDGATE_CPU_INTERNAL_H
#define FEDGATE_CPU_INTERNAL_H

#include <fedgate/backend_abi.h>
#include <stdatomic.h>
#include <stddef.h>

enum { CPU_BLOCK_ROWS = 512, CPU_PANEL_ROWS = 128, CPU_TILE = 256 };

typedef struct Pool Pool;
typedef void (*PoolTask)(void *context, int64_t index, int worker);   // worker: below pool_threads
Pool *pool_new(int threads);   // threads: the caller's included
void pool_free(Pool *pool);
int pool_threads(const Pool *pool);
void pool_run(Pool *pool, int64_t tasks, PoolTask task, void *context);   // returns when every task has ended

// Where one compute thread widens the operands of 2-byte types, a tile at a time: the only memory that the
// operations use beside what they are given, taken when the device opens and stated as its context.
typedef struct CpuScratch {
    float a[CPU_TILE * CPU_TILE], b[CPU_TILE * CPU_TILE], c[CPU_TILE * CPU_TILE], bias[CPU_TILE];
} CpuScratch;

typedef struct Stream Stream;
typedef struct CpuDevice {
    const FedgateHost *host;
    Pool *pool;
    Stream *stream;
    CpuScratch *scratch;   // one a thread of the pool
    _Atomic int64_t step;   // of the last mark
} CpuDevice;

Stream *stream_new(CpuDevice *device);
void stream_free(Stream *stream);   // lets queued copies end; one whose event never passes is given up
bool stream_copy(Stream *stream, const FedgateCopy *copy, char *ret_reason);
void stream_drain(Stream *stream);
void *cpu_event_new(void *device);
void cpu_event_free(void *event);
void cpu_event_record(void *device, void *event);
bool cpu_event_done(void *event);
bool cpu_event_wait(void *event, int64_t timeout_ns);

static inline int64_t cpu_now(const CpuDevice *device)
{
    return device->host->now_ns(device->host->context);
}
void cpu_span(CpuDevice *device, const char *name, int64_t begin);   // a kernel that ends now

void cpu_facts(FedgateFacts *ret_facts);   // name, libraries, core, instruction set, cores, memory
bool cpu_supported(char *ret_reason);

// operations of the table
void cpu_count_nonfinite(void *device, const float *x, int64_t count, int64_t *total);
void cpu_gather(void *device, const FedgateGather *op);
void cpu_assemble(void *device, const FedgateAssemble *op);
void cpu_assemble_back(void *device, const FedgateAssemble *op);
void cpu_dense(void *device, const FedgateDense *op);
void cpu_dense_back(void *device, const FedgateDenseBack *op);
void cpu_dropout(void *device, const FedgateDropout *op);
void cpu_loss(void *device, const FedgateLoss *op);
void cpu_score(void *device, const FedgateScore *op);
void cpu_square_sum(void *device, const float *x, int64_t count, double *ret_sum);
void cpu_cast(void *device, const FedgateCast *op);
void cpu_settle(void *device, const FedgateSettle *op);
void cpu_adam(void *device, const FedgateAdam *op);

#endif
