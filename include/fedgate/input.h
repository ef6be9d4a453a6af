// input.h - from CSV files to batches on the device: snapshot, split, maps, profile, and the staged loader.
//
// Sequence: dataset_open -> maps_fit (training rows only) -> dataset_profile -> feed_open -> feed_next ...
// feed_close. A Dataset is immutable after opening: files are opened once and kept in memory or read through
// the same descriptors all night; .gz is unpacked whole first. Row order is a function of seed, epoch and
// position alone (a keyed bijection), so worker count, prefetch and restart never change it. Stages, each
// timed and counted with queue depth at each hand-over: read, decode, augment, collate, pin, copy (then
// compute, the trainer's).
#ifndef FEDGATE_INPUT_H
#define FEDGATE_INPUT_H

#include <fedgate/compute.h>
#include <fedgate/config.h>

typedef enum Split { SPLIT_TRAIN, SPLIT_VALIDATION, SPLIT_TEST, SPLIT_COUNT } Split;
const char *split_name(Split split);

// -- data set: options data.*, split.*, task
typedef struct Dataset Dataset;
// More bad rows than data.bad_rows: ERROR_DATA with file, line and column.
WARN_UNUSED Dataset *dataset_open(const Config *config, Clock *clock, Ledger *ledger, Error *error);
void dataset_close(Dataset *dataset);
OWNED_RELEASE(Dataset, dataset_close)
// Over the files in order: name without folder, size and SHA-256 of the unpacked bytes.
void dataset_digest(const Dataset *dataset, Digest *ret_digest);
// Files with sizes and digests, rows by split, bad, bad_rows (the first of them), after_cutoff, cutoff.
Json *dataset_describe(const Dataset *dataset);
size_t dataset_rows(const Dataset *dataset, Split split);
// Sum over these rows of hash_mix(row id), as feed_epoch_digest: what an epoch over each of them once gives.
uint64_t dataset_row_digest(const Dataset *dataset, Split split);
int dataset_classes(const Dataset *dataset);   // 1 binary or regression, else k
// ERROR_DATA when a file's bytes changed since it was opened.
WARN_UNUSED bool dataset_still_same(const Dataset *dataset, Error *error);

// -- packed shards: what the options data.* read from CSV, written as safetensors (README.md), so that
// training from them gives the same bits. Files of data.train make part "train", of data.test part "test".
typedef struct PackSpec {
    const Config *config;
    Clock *clock;
    Ledger *ledger;
    const char *directory;   // made when it is not there
    int64_t shard_rows;   // 0: as many as give some 256 MB
} PackSpec;
// All shards appear or none, whole. ERROR_CONFLICT when the folder holds others; the same ones are kept.
// Report: rows, bad, bad_rows, shards [{name part rows bytes sha256 kept}].
WARN_UNUSED bool dataset_pack(const PackSpec *spec, Json **ret_report, Error *error);

// -- maps: everything learnt from training rows; sealed in the release
typedef struct Maps Maps;
WARN_UNUSED Maps *maps_fit(const Dataset *dataset, const Config *config, Error *error);
Json *maps_to_json(const Maps *maps);
WARN_UNUSED Maps *maps_from_json(const Json *json, Error *error);
void maps_free(Maps *maps);
OWNED_RELEASE(Maps, maps_free)
size_t maps_numeric(const Maps *maps);   // numeric inputs of the network (missing flags included)
size_t maps_categorical(const Maps *maps);
int64_t maps_cardinality(const Maps *maps, size_t column);   // with the unknown slot (code 0)
void maps_target(const Maps *maps, double *ret_mean, double *ret_deviation);   // regression; else 0 and 1

// -- profile: evidence section `input` (evidence.h), and the profile kept with the run for the next night's
// drift. ERROR_DATA when the training or the test rows are of one class only.
WARN_UNUSED bool dataset_profile(const Dataset *dataset, const Maps *maps, const Config *config,
                                 const Json *reference_profile_or_null, Json **ret_evidence,
                                 Json **ret_profile, Error *error);

// -- whole splits in memory, in row order
typedef struct Table {
    size_t rows, numeric, categorical;
    float *x;   // [rows x numeric], transformed
    int32_t *codes;   // [rows x categorical]
    double *target;   // class index or raw regression value
    uint64_t *row_id;
    int64_t bytes;
    Ledger *ledger;
} Table;
// ERROR_DATA when a column of the maps is gone.
WARN_UNUSED bool dataset_decode(const Dataset *dataset, const Maps *maps, Split split, Ledger *ledger,
                                Table *ret_table, Error *error);
void table_done(Table *table);
// Raw values of one column for the declared rule and for slices. numbers: NaN where missing or not a number.
// codes: index into names, which hold every text that occurs (missing tokens too) in byte order.
typedef struct Column {
    size_t rows;
    double *numbers;
    int32_t *codes;
    char **names;
    size_t name_count;
} Column;
WARN_UNUSED bool dataset_column(const Dataset *dataset, Split split, const char *name, Column *ret_column,
                                Error *error);
void column_done(Column *column);

// -- feed: loader threads, pinned ring, asynchronous copies; one consumer
typedef struct FeedSpec {
    const Dataset *dataset;
    const Maps *maps;
    Device *device;
    Clock *clock;
    Ledger *ledger;
    Split split;
    int64_t batch;   // rows; the last batch of an epoch has the remainder (kept, never dropped or repeated)
    uint64_t seed;
    bool shuffle;
    int64_t epoch, position;   // where to begin: batches already consumed in that epoch
    int64_t epochs;   // stop after this many epochs in all (epoch numbers below it)
    double augment_noise;   // training rows only
    int workers, prefetch, slots;
    int group;   // full batches of an epoch that are copied as one, at most FEED_GROUP; 0: 1. What is left
                 // of them at the end of an epoch is a smaller group, the remainder batch one of its own
    bool resident;   // all rows of the split lie on the device from the start; a batch is gathered there,
                     // nothing is copied while training. ERROR_CONFIG with augment_noise
    int64_t stall_ns;   // a batch that takes longer is an error naming stage, file and line; 0: 60 s
} FeedSpec;
enum { FEED_GROUP = 64 };
// What the feed takes, in bytes. With up(n) = n rounded up to 64: a batch is up(4 rows x numeric) +
// up(4 rows x categorical) + up(4 rows), a group is spec.group of them and up(8 x spec.group) for digests.
typedef struct FeedMemory {
    int64_t slots;   // device, account "input.slots": spec.slots groups
    int64_t rows, order;   // device, accounts "input.resident" and "input.order": 0 unless resident
    int64_t ring;   // pinned, account "input.ring": spec.slots + prefetch / group groups; 0 when resident
} FeedMemory;
// numeric, categorical: of the maps; rows: of the split. Needs of the spec only batch, group, slots,
// prefetch, epochs and resident.
FeedMemory feed_memory(const FeedSpec *spec, size_t numeric, size_t categorical, size_t rows);
// A batch carries the digest of its row ids (sum of hash_mix) with it through the copy: a pinned slot that is
// filled again before its copy has ended leaves the digest of other rows, or none, on the device. The digests
// of a group lie side by side there, so device_fetch of 8 x count bytes from batch[0].device_digest brings
// them all.
typedef struct FeedBatch {
    int64_t epoch, index, step;   // index in the epoch; step counts from the FeedSpec's beginning
    int64_t rows;
    bool last_of_epoch;
    const float *numeric;   // device memory [rows x numeric]
    const int32_t *codes;   // device memory [rows x categorical]
    const float *target;   // device memory [rows]: class index, or (raw - mean) / deviation
    const uint64_t *row_id;   // host memory [rows], valid until feed_release or feed_group_given
    uint64_t digest;   // as the rows were counted
    const uint64_t *device_digest;   // device memory: as they were copied
    int slot;
    int64_t handed_ns;   // the copy was there and handing over began; 0 on a simulated clock
} FeedBatch;
typedef struct Feed Feed;
WARN_UNUSED Feed *feed_open(const FeedSpec *spec, Error *error);
// 1: batch, its copy has ended; 0: all epochs done; -1: error (stage, file, row named). ret_wait_ns: host
// time waited for a prepared batch; ret_exposed_ns: for its copy after it was prepared. Both 0 on a simulated
// clock.
int feed_next(Feed *feed, FeedBatch *ret_batch, int64_t *ret_wait_ns, int64_t *ret_exposed_ns, Error *error);
// Compute of this batch is about to be given to the device: the copy of the next one may start now.
void feed_compute_begins(Feed *feed, const FeedBatch *batch);
void feed_release(Feed *feed, const FeedBatch *batch);   // compute of this batch has been given to the device
// The same by groups; not mixed with the three above in one feed. A batch lies at the same device address in
// each full group of a slot. feed_next_group: the copy is queued. On an asynchronous device compute given
// from now on waits there for the copy and ret_exposed_ns is 0; elsewhere the host waits. feed_group_given:
// all compute of the group has been given to the device. A slot is copied into again, without the host, when
// the device has passed the mark of the next group (feed_group_mark), or its end where none was made. Pinned
// memory is refilled only when its copy has ended. Groups begin at multiples of spec.group in the epoch; one
// that a resumed feed begins inside of is smaller.
typedef struct FeedGroup {
    int64_t count;
    int slot;
    bool full;   // spec.group whole batches
    FeedBatch batch[FEED_GROUP];
} FeedGroup;
int feed_next_group(Feed *feed, FeedGroup *ret_group, int64_t *ret_wait_ns, int64_t *ret_exposed_ns,
                    Error *error);
void feed_group_given(Feed *feed, const FeedGroup *group);
// Optional, so that copies run under kernels and not where one launch ends: feed_group_mark behind the first
// step of the group (inside a recording, once for all its replays), then feed_group_begun when that was given
// or replayed. Both between feed_next_group and feed_group_given, from the thread that calls these.
void feed_group_mark(Feed *feed, const FeedGroup *group);
void feed_group_begun(Feed *feed, const FeedGroup *group);
// Evidence `stages`, of the batches taken; limiting: the stage that takes longest per batch and thread, ""
// when none. copy.busy_ns is only what the host waited for: the device's timeline knows the rest.
Json *feed_stages(const Feed *feed, const char **ret_limiting);
// Of the last whole epoch: sum over rows of hash(row id), each row exactly once; the same whatever the order.
void feed_epoch_digest(const Feed *feed, int64_t *ret_rows, uint64_t *ret_digest);
Json *feed_resources(const Feed *feed);   // RAM, open files, threads, storage bytes/s: values and caps
void feed_close(Feed *feed);   // stops and joins within a second
OWNED_RELEASE(Feed, feed_close)

#endif
