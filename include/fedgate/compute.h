// compute.h - one device behind a facade: memory in accounts, two streams, events, operations, a trace.
//
// The cpu back end is the reference, always linked: compute operations run in the caller's thread (helped by
// compute threads; same bits for any number), copies run in order on a staging thread. It emulates BF16 and
// FP16 honestly: 2-byte storage, FP32 sums, one rounding at the store. Pointers from
// device_take are device memory: touch them only through operations and copies. Stream order: operations in
// the order given; copies in the order given; between the two only events order. Nothing here allocates
// outside the ledger but `context_bytes`, taken when the device opens. Operations cannot fail visibly:
// device_synchronise reports.
#ifndef FEDGATE_COMPUTE_H
#define FEDGATE_COMPUTE_H

#include <fedgate/backend_abi.h>
#include <fedgate/clock.h>
#include <fedgate/file.h>
#include <fedgate/ledger.h>
#include <fedgate/timeline.h>

typedef struct Device Device;
typedef struct DeviceEvent DeviceEvent;

typedef struct DeviceInfo {
    char backend[32], name[128];   // "cpu", "AMD EPYC (SkylakeX)"
    char libraries[256];   // "openblas 0.3.21 core SkylakeX"
    char core[32];   // "SkylakeX": BLAS core type, what the bits depend on
    char instruction_set[16];   // "avx2": what the BLAS core type really uses; "" unknown
    unsigned types;   // 1 << FedgateType for each type its operations take
    int cores, threads;
    int64_t memory_bytes;   // of the machine or card
    int64_t context_bytes;   // taken by driver and libraries; cpu: scratch of the compute threads, outside
                             // any account
    int64_t workspace_bytes;   // account "workspaces"
    int64_t other_bytes;   // of the card, held by others just before this device opened; 0: none, or unknown
    bool asynchronous;   // operations return before they have run
    bool records;   // device_record_begin is there
    bool traces;   // spans come only from device_trace_begin to _end
    char timeline[64];   // what the spans come from
} DeviceInfo;

// The environment decides which kernels OpenBLAS takes when it is loaded, before main. Sets the variables
// that pin them; true when something changed: the program must then execute itself again before its results
// can be those of this machine class.
WARN_UNUSED bool device_pin_environment(void);

// -- make. backend "cpu". threads 0: by core count. Three answers with a reason: ERROR_UNAVAILABLE absent,
// ERROR_CONFIG refused (wrong contract), ERROR_DEVICE unsupported here.
WARN_UNUSED Device *device_open(const char *backend, int threads, Clock *clock, Ledger *ledger, Error *error);
WARN_UNUSED Device *device_open_backend(const FedgateBackend *backend, int threads, Clock *clock,
                                        Ledger *ledger, Error *error);
// One block for everything that is taken later, the workspace too, charged when it is given out: nothing is
// taken from the driver after this. Sizes from the plan, 0: taken singly. Before the first device_take, once.
// Pieces are rounded up to 512 bytes, which is charged to "arena rounding". ERROR_MEMORY: the card has no
// such block; later, that the arena has no such piece, with what is free.
WARN_UNUSED bool device_set_arena(Device *device, int64_t device_bytes, int64_t pinned_bytes, Error *error);
enum { DEVICE_GRANULE = 512 };
typedef struct DeviceArenaUse {
    int64_t bytes, live, peak;   // of the block; of its pieces, rounded up
    int64_t largest_free;   // longest piece that could be taken now
    int64_t pieces, most_pieces;
} DeviceArenaUse;
bool device_arena(Device *device, LedgerKind kind, DeviceArenaUse *ret_use);   // false: none is set
// How long a wait for the device may last before it counts as failed: 60 s unless this says otherwise.
void device_set_timeout(Device *device, int64_t timeout_ns);
void device_close(Device *device);   // waits for the streams; NULL allowed
OWNED_RELEASE(Device, device_close)
const DeviceInfo *device_info(const Device *device);

// Written where a hang must be seen from outside: in memory that is shared with another process, zeroed.
typedef struct DeviceWatch {
    _Atomic int64_t calls;   // odd: inside a call of the back end
    _Atomic int64_t step;   // last one marked, first one of a replay
} DeviceWatch;
// From now on calls of this thread are counted; those of others are not.
void device_watch(Device *device, DeviceWatch *watch);
// File of the module that serves this back end: "" when it is part of the program or absent.
void device_module(const char *backend, char ret_path[static FILE_PATH_SIZE]);

// -- memory, charged to the named account; zeroed. device: LEDGER_DEVICE; pinned: LEDGER_PINNED,
// host-visible.
WARN_UNUSED void *device_take(Device *device, const char *account, int64_t bytes, Error *error);
void device_give(Device *device, const char *account, void *memory, int64_t bytes);   // NULL memory allowed
WARN_UNUSED void *device_take_pinned(Device *device, const char *account, int64_t bytes, Error *error);
void device_give_pinned(Device *device, const char *account, void *memory, int64_t bytes);

// -- streams and events. An event records a point of a stream; it may be recorded again. A new event has not
// passed.
WARN_UNUSED DeviceEvent *device_event_new(Device *device, Error *error);
void device_event_free(DeviceEvent *event);   // NULL allowed
void device_record_compute(Device *device,
                           DeviceEvent *event);   // everything given to the compute stream so far
bool device_event_done(const DeviceEvent *event);
WARN_UNUSED bool device_event_wait(DeviceEvent *event, int64_t timeout_ns,
                                   Error *error);   // host waits; ERROR_DEVICE on timeout

// Queues a host-to-device copy on the copy stream: it starts after `after` (may be NULL) has passed and
// records `done` (may be NULL) when it has ended; queueing makes `done` not passed. `from` must stay
// untouched until then. step: the training step the batch belongs to. pageable: not pinned memory. Any
// thread.
WARN_UNUSED bool device_copy_in(Device *device, void *to, const void *from, int64_t bytes, int64_t step,
                                bool pageable, DeviceEvent *after, DeviceEvent *done, Error *error);
WARN_UNUSED bool device_copy_out(Device *device, void *to_host, const void *from, int64_t bytes,
                                 Error *error);   // waits for the compute stream
WARN_UNUSED bool device_load(Device *device, void *to, const void *from_host, int64_t bytes,
                             Error *error);   // synchronous upload outside the loop
WARN_UNUSED bool device_synchronise(Device *device, Error *error);   // both streams
// Compute given after this waits for the event on the device; where compute is the caller's thread
// (not asynchronous), the caller waits.
void device_await(Device *device, DeviceEvent *event);
// From now on device_copy_out goes through this pinned memory, in pieces fetched behind the compute so far.
// Both stay the caller's; NULL: no longer.
void device_set_staging(Device *device, void *pinned, int64_t bytes, DeviceEvent *passed);
// After the compute given so far, without waiting: to_pinned is pinned memory, `done` passes then.
void device_fetch(Device *device, void *to_pinned, const void *from, int64_t bytes, DeviceEvent *done);
// What the driver counts; false: this back end cannot say.
bool device_memory(Device *device, FedgateMemoryUse *ret_use);

// -- recordings: operations and step marks given between begin and end are kept, not run, and run by replay,
// the first mark as first_step. Only where info.records. Device memory that one takes is charged to
// `account`.
typedef struct DeviceRecording DeviceRecording;
WARN_UNUSED bool device_record_begin(Device *device, Error *error);
WARN_UNUSED DeviceRecording *device_record_end(Device *device, const char *account, Error *error);
void device_replay(Device *device, DeviceRecording *recording, int64_t first_step);
void device_record_free(Device *device, DeviceRecording *recording);   // NULL allowed

// -- operations on the compute stream; arguments are described in backend_abi.h
void device_zero(Device *device, void *to, int64_t bytes);
void device_copy(Device *device, void *to, const void *from, int64_t bytes);   // device to device
void device_gather(Device *device, const FedgateGather *op);
void device_assemble(Device *device, const FedgateAssemble *op);
void device_assemble_back(Device *device, const FedgateAssemble *op);
void device_dense(Device *device, const FedgateDense *op);
void device_dense_back(Device *device, const FedgateDenseBack *op);
void device_dropout(Device *device, const FedgateDropout *op);
void device_loss(Device *device, const FedgateLoss *op);
void device_score(Device *device, const FedgateScore *op);
void device_square_sum(Device *device, const float *x, int64_t count,
                       double *ret_sum);   // ret_sum: device memory
void device_cast(Device *device, const FedgateCast *op);
void device_settle(Device *device, const FedgateSettle *op);
void device_settle_on_host(const FedgateSettle *op);   // the rule itself, state and square_sum in host memory
void device_adam(Device *device, const FedgateAdam *op);
void device_count_nonfinite(Device *device, const float *x, int64_t count, int64_t *total);   // total: device

// -- types: "fp32", "bf16", "fp16"
const char *device_type_name(FedgateType type);
bool device_type_find(const char *name, FedgateType *ret_type);
double device_type_roundoff(FedgateType type);   // unit round-off: 2^-24, 2^-8, 2^-11

// -- steps and trace. Marks cut step windows on the device. The trace appends spans to a timeline until it is
// set to NULL.
void device_mark_step(Device *device, int64_t step);   // compute stream; < 0: what follows is of no step
void device_trace(Device *device, Timeline *timeline);
void device_trace_from(Device *device, int64_t step);   // no window for steps before it
// Where info.traces: a sampled window. _end waits for the device, hands the spans to the timeline of
// device_trace, and adds what spoils their trust to *trust. Elsewhere both do nothing.
WARN_UNUSED bool device_trace_begin(Device *device, Error *error);
WARN_UNUSED bool device_trace_end(Device *device, FedgateTraceTrust *trust, Error *error);
int64_t device_now_ns(Device *device);   // the device's clock, comparable with the host's monotonic clock

#endif
