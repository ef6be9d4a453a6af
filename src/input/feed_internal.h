// feed_internal - the staged loader: tickets, host batches, ring of slots, meters.
//
// A batch's number (ticket) counts from the FeedSpec's beginning. It passes read, decode, augment, collate
// (one worker, into host batch ticket % prefetch), pin (one worker at a time, into slot ticket % slots), copy
// (queued in ticket order), and is then taken by the consumer. Counters only grow: taken <= queued <= pinned
// <= prepared. Everything below `lock` is under it.
#ifndef FEDGATE_FEED_INTERNAL_H
#define FEDGATE_FEED_INTERNAL_H

#include "input_internal.h"

#include <fedgate/random.h>
#include <pthread.h>
#include <stdatomic.h>

typedef enum Stage {
    STAGE_READ,
    STAGE_DECODE,
    STAGE_AUGMENT,
    STAGE_COLLATE,
    STAGE_PIN,
    STAGE_COPY,
    STAGE_COUNT
} Stage;
const char *stage_name(Stage stage);

enum { DEPTH_MAX = 1024, FEED_ALIGNMENT = 64 };

typedef struct StageMeter {
    int64_t items, bytes, busy_ns, blocked_in_ns, blocked_out_ns;
} StageMeter;
typedef struct BatchMeter {
    int64_t busy_ns[STAGE_COUNT], bytes[STAGE_COUNT], ready_ns, pinned_ns;
} BatchMeter;

// Sections of one batch in one block of memory, the same on host and device.
typedef struct BatchLayout {
    int64_t codes, target, bytes;
} BatchLayout;   // offsets; numeric at 0

typedef struct HostBatch {
    char *block;
    uint64_t *row_id;
    int64_t rows;
    uint64_t digest;   // sum of hash(row id)
    BatchMeter meter;
    bool ready;
} HostBatch;

typedef struct FeedSlot {
    char *pinned, *device;
    uint64_t *row_id;
    int64_t rows;
    uint64_t digest;
    BatchMeter meter;
    int64_t free_ns;   // when it was released
    DeviceEvent *begin;   // compute of this slot's batch begins
    DeviceEvent *copied;
} FeedSlot;

typedef struct FeedWorker {
    Feed *feed;
    pthread_t thread;
    bool started;
    RowReader reader;
    uint32_t *rows;   // [batch]
    float *x;
    int32_t *codes;
    double *target;   // [batch x ...] decoded, before collation
    _Atomic int stage;   // what it does now, for the message about a stuck worker; -1 idle
    _Atomic uint32_t row;
} FeedWorker;

struct Feed {
    FeedSpec spec;
    RowDecoder decoder;
    int64_t batches_per_epoch, first, total;   // first: global number of ticket 0
    size_t numeric, categorical;
    double target_mean, target_deviation;
    bool simulated, serial;
    int64_t stall_ns;
    HostBatch *host;
    FeedSlot *slot;
    FeedWorker *worker;
    int64_t block_bytes, host_bytes;

    pthread_mutex_t lock;
    pthread_cond_t work, ready;
    bool synchronised;   // lock and conditions exist
    bool stop, pinning;
    int64_t prepared, pinned, queued, begun, taken, released;   // prepared: tickets given to workers
    int64_t failed;   // ticket that failed; INT64_MAX none
    Error error;

    StageMeter meter[STAGE_COUNT];   // of taken batches
    int64_t depth[STAGE_COUNT][DEPTH_MAX + 1];
    int64_t epoch_rows, last_rows;
    uint64_t epoch_digest, last_digest;
    int64_t begun_ns;   // when the compute of the newest begun batch began
    int64_t opened_ns;
};

BatchLayout feed_layout(const Feed *feed, int64_t rows);
void feed_locate(const Feed *feed, int64_t ticket, int64_t *ret_epoch, int64_t *ret_index, int64_t *ret_rows);
int64_t feed_now(const Feed *feed);   // 0 on a simulated clock: durations then come from the trainer's model
void feed_depth(Feed *feed, Stage stage, int64_t depth);
Permutation feed_order(const Feed *feed, int64_t epoch);   // position in the epoch -> number in the split
uint64_t feed_row_digest(uint64_t row_id);
WARN_UNUSED bool feed_queue_copies(Feed *feed, Error *error);   // locked: queues what is pinned and allowed
void *feed_worker_main(void *worker);

#endif
