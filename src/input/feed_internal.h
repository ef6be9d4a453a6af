// feed_internal - the staged loader: groups of batches in a pinned ring, device slots, meters.
//
// A group's number (ticket) counts from the FeedSpec's beginning. Workers fill its batches side by side,
// straight into ring entry ticket % depth; a group whose batches are all there is pinned; it is copied
// into device slot ticket % slots, in ticket order; then the consumer takes it, gives its compute and
// releases it. The entry is freed for the next group when it was released and its copy has ended. Counters
// only grow: freed <= released <= taken <= queued <= pinned <= claimed. Below `lock` all is under it, but the
// device is asked without it: by one thread for copies, by one whether a copy has ended.
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
    int64_t busy_ns[STAGE_COUNT], bytes[STAGE_COUNT];
} BatchMeter;

// Sections of one batch in one block of memory, the same on host and device and for any batch, the remainder
// too: offsets, numeric at 0.
typedef struct BatchLayout {
    int64_t codes, target, bytes;
} BatchLayout;

// Where a group lies in the run. Batches but the last are whole; a batch that is not whole is alone.
typedef struct GroupPlace {
    int64_t epoch, index, step;   // of its first batch: in the epoch, in the run of this feed
    int64_t count, last_rows;
    bool full;   // spec.group whole batches
} GroupPlace;

// Batches one after the other, then the digests of their row ids. Before the first batch of the next group
// is written the digests are spoilt: a copy that still runs then brings no digest, or one of other rows.
typedef struct FeedBlock {
    char *memory;   // pinned; NULL when resident
    _Atomic uint64_t *digest;   // of what lies there now
    int64_t count;
} FeedBlock;

typedef struct FeedEntry {   // of the ring
    FeedBlock *block;
    uint64_t *row_id;   // [group x batch]
    uint64_t digest[FEED_GROUP];
    GroupPlace place;
    int64_t left;   // batches that are not there yet
    bool ready;
    BatchMeter meter;   // sums over its batches
    int64_t free_ns, ready_ns;
    DeviceEvent *copied;
} FeedEntry;

typedef struct FeedSlot {
    char *device;
    DeviceEvent *given;   // the point of the compute stream after which a copy may overwrite a slot
    int64_t given_ns, ticket;   // ticket: taken last
} FeedSlot;

typedef struct FeedWorker {
    Feed *feed;
    pthread_t thread;
    bool started, has_reader;
    RowReader reader;
    size_t capacity;   // rows at once
    uint32_t *numbers, *rows;   // in the split; in the dataset
    BatchMeter meter;   // of the batch in work
    int64_t since_ns;
    _Atomic int stage;   // what it does now, for the message about a stuck worker; -1 idle
    _Atomic uint32_t row;
} FeedWorker;

// Where rows go, side by side; numeric NULL: only their ids are wanted.
typedef struct RowsTarget {
    float *numeric, *target;
    int32_t *codes;
    uint64_t *row_id;
} RowsTarget;

// Rows and order of a run on the device: the order of `epochs` epochs from `epoch` on.
typedef struct FeedResident {
    char *rows;
    int64_t codes, target;   // offsets in `rows`
    uint32_t *order;   // device memory [epochs x rows]
    uint64_t *digest;   // device memory [epochs x batches_per_epoch]
    int64_t epoch, epochs, made, next;   // made: what `scratch` holds; next: what is made ahead
    bool ahead;   // a thread makes it
    pthread_t maker;
    void *scratch;   // host: order and digests of one epoch
    int64_t scratch_bytes;
} FeedResident;

struct Feed {
    FeedSpec spec;
    RowDecoder decoder;
    RowStore *store;   // NULL: rows are decoded for each batch
    FeedResident resident;
    FeedMemory memory;
    int64_t rows, whole, groups, batches;   // of an epoch: rows, whole batches, groups, batches
    int64_t first_batch, first_group, first_skipped, total;   // numbers in the whole run; groups to come
    size_t numeric, categorical;
    double target_mean, target_deviation;
    bool simulated, serial, asynchronous;
    int64_t stall_ns;
    BatchLayout layout;   // of a whole batch
    int64_t depth_count, block_count, ahead;   // entries; blocks; groups that must be pinned before a copy
    FeedBlock *block;
    FeedEntry *entry;
    FeedSlot *slot;
    FeedWorker *worker;

    pthread_mutex_t lock;
    pthread_cond_t work, ready;
    bool synchronised;   // lock and conditions exist
    bool stop;
    bool copying, looking;   // a thread queues copies; asks whether a copy has ended
    int idle;   // workers without work
    int64_t claimed, claimed_batches;   // groups wholly given to workers, batches of the one after them
    int64_t pinned, released, freed;
    _Atomic int64_t queued;   // written under the lock
    int64_t marked, lag;   // a copy may be queued for tickets below marked + lag: see ring_record
    int64_t failed;   // ticket that failed; INT64_MAX none
    Error error;

    StageMeter meter[STAGE_COUNT];   // of taken batches
    int64_t depth[STAGE_COUNT][DEPTH_MAX + 1];
    // The consumer's own, like what `meter` says of taken batches.
    int64_t taken, epoch_rows, last_rows;
    uint64_t epoch_digest, last_digest;
    int64_t opened_ns;
};

// -- feed_ring.c
int64_t feed_aligned(int64_t bytes);
BatchLayout feed_layout(int64_t rows, size_t numeric, size_t categorical);
void feed_shape(Feed *feed);   // numbers that follow from the spec
GroupPlace feed_place(const Feed *feed, int64_t ticket);
int64_t feed_rows_of(const Feed *feed, const GroupPlace *place, int64_t i);   // rows of batch i of the group
int64_t feed_used_bytes(const Feed *feed, const GroupPlace *place);   // the digests follow
WARN_UNUSED bool ring_open(Feed *feed, Error *error);
void ring_close(Feed *feed);
// All below: locked. ring_look: is the entry released first free again? Unlocks while it asks.
bool ring_wants_look(const Feed *feed);   // one may be, and nobody asks
bool ring_look(Feed *feed);
bool ring_has_room(const Feed *feed);
FeedEntry *ring_claim(Feed *feed, int64_t *ret_ticket, int64_t *ret_batch);
void ring_filled(Feed *feed, FeedEntry *entry, const BatchMeter *meter);
// Per batch (lag 1): the copy of the next batch may begin when the compute of `ticket` begins. By groups (lag
// = slots): the slot of `ticket` may be copied into when the compute given so far has ended.
void ring_record(Feed *feed, int64_t ticket);   // not locked; what follows sets `marked` to ticket + 1
void ring_queue_copies(
    Feed *feed);   // unlocks while it asks; what is pinned and allowed; a failure is that of its ticket

// -- feed_rows.c
WARN_UNUSED bool feed_rows_open(FeedWorker *worker, Feed *feed, size_t capacity, Error *error);
void feed_rows_close(FeedWorker *worker);
void feed_rows_stage(FeedWorker *worker, int stage);   // what it does from now on; the time before is booked
// Numbers in the split of `count` positions of an epoch.
void feed_rows_order(const Feed *feed, int64_t epoch, int64_t first, size_t count, uint32_t *ret_numbers);
void feed_rows_choose(FeedWorker *worker, int64_t epoch, int64_t first, size_t count);
WARN_UNUSED bool feed_rows_fill(FeedWorker *worker, size_t count, const RowsTarget *to, Error *error);
void feed_rows_augment(FeedWorker *worker, int64_t epoch, size_t count, float *numeric);
uint64_t feed_rows_digest(const uint64_t *row_id, size_t count);
uint64_t feed_rows_digest_of(const Feed *feed, const uint32_t *numbers, size_t count);

// -- feed_resident.c
WARN_UNUSED bool resident_open(Feed *feed, Error *error);
void resident_close(Feed *feed);
WARN_UNUSED bool resident_give(Feed *feed, const GroupPlace *place, char *device, Error *error);
const uint64_t *resident_digest(const Feed *feed, const GroupPlace *place);

int64_t feed_now(const Feed *feed);   // 0 on a simulated clock: durations then come from the trainer's model
void feed_depth(Feed *feed, Stage stage, int64_t depth);
void feed_fail(Feed *feed, int64_t ticket, const Error *error);   // locked
void *feed_worker_main(void *worker);

#endif
