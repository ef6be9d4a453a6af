// feed_worker - what a loader thread does: whole batches by ticket, and the copy of finished ones into the
// pinned ring.
//
// What a batch holds depends on seed, epoch and position alone, so any number of workers makes the same
// bytes. Pinning goes before preparing: it is short and the consumer may be waiting for it.
#include "feed_internal.h"

#include <fedgate/clock.h>
#include <fedgate/fault.h>
#include <fedgate/hash.h>
#include <string.h>

static const uint64_t salt_order = 0x6f72646572000001u, salt_noise = 0x6e6f697365000001u;
static const int64_t nap_ns = 20 * 1000 * 1000;

uint64_t feed_row_digest(uint64_t row_id)
{
    return hash_mix(row_id);
}

static void worker_at(FeedWorker *worker, int stage)
{
    atomic_store_explicit(&worker->stage, stage, memory_order_relaxed);
}

Permutation feed_order(const Feed *feed, int64_t epoch)
{
    const FeedSpec *spec = &feed->spec;
    Permutation permutation;
    permutation_init(&permutation, spec->dataset->split_count[spec->split],
                     hash_mix2(spec->seed ^ salt_order, (uint64_t)epoch));
    return permutation;
}

// Row numbers of a batch, in the order of its epoch.
static void choose_rows(FeedWorker *worker, int64_t epoch, int64_t index, int64_t rows)
{
    const FeedSpec *spec = &worker->feed->spec;
    const uint32_t *all = spec->dataset->split_rows[spec->split];
    uint64_t begin = (uint64_t)(index * spec->batch);
    Permutation permutation = feed_order(worker->feed, epoch);
    for (uint64_t i = 0; i < (uint64_t)rows; i++)
        worker->rows[i] = all[spec->shuffle ? permutation_at(&permutation, begin + i) : begin + i];
}

static bool decode_rows(FeedWorker *worker, int64_t rows, Error *error)
{
    const Feed *feed = worker->feed;
    for (size_t i = 0; i < (size_t)rows; i++) {
        atomic_store_explicit(&worker->row, worker->rows[i], memory_order_relaxed);
        if (!reader_split(&worker->reader, worker->rows, i, error) ||
            !decoder_row(&feed->decoder, worker->reader.fields, worker->rows[i],
                         worker->x + i * feed->numeric, worker->codes + i * feed->categorical,
                         &worker->target[i], error))
            return false;
    }
    return true;
}

// Planted: a decoder that takes its time, but minds the end of the feed.
static void decode_slowly(Feed *feed)
{
    int64_t left_ns = feed->simulated ? 0 : (int64_t)fault_value("decode.slow_ns", 0);
    while (left_ns > 0) {
        int64_t now_ns = left_ns < nap_ns ? left_ns : nap_ns;
        clock_sleep_ns(clock_real(), now_ns);
        left_ns -= now_ns;
        pthread_mutex_lock(&feed->lock);
        bool stop = feed->stop;
        pthread_mutex_unlock(&feed->lock);
        if (stop)
            return;
    }
}

// Noise of a row depends on seed, epoch, row and column only. Constant columns and missing flags stay as they
// are.
static void augment_rows(FeedWorker *worker, int64_t epoch, int64_t rows)
{
    const Feed *feed = worker->feed;
    const Maps *maps = feed->spec.maps;
    if (!(feed->spec.augment_noise > 0) || feed->spec.split != SPLIT_TRAIN)
        return;
    uint64_t epoch_key = hash_mix2(feed->spec.seed ^ salt_noise, (uint64_t)epoch);
    for (size_t i = 0; i < (size_t)rows; i++) {
        uint64_t key = hash_mix2(epoch_key, worker->rows[i]);
        for (size_t c = 0; c < maps->numeric_count; c++)
            if (!maps->numeric[c].constant)
                worker->x[i * feed->numeric + c] += (float)(feed->spec.augment_noise * random_normal(key, c));
    }
}

static void collate_rows(FeedWorker *worker, HostBatch *batch, int64_t rows)
{
    const Feed *feed = worker->feed;
    const RowEntry *entries = feed->spec.dataset->rows;
    BatchLayout layout = feed_layout(feed, rows);
    float *target = (float *)(void *)(batch->block + layout.target);
    memcpy(batch->block, worker->x, (size_t)rows * feed->numeric * sizeof *worker->x);
    memcpy(batch->block + layout.codes, worker->codes,
           (size_t)rows * feed->categorical * sizeof *worker->codes);
    batch->digest = 0;
    for (size_t i = 0; i < (size_t)rows; i++) {
        target[i] = (float)((worker->target[i] - feed->target_mean) / feed->target_deviation);
        batch->row_id[i] = entries[worker->rows[i]].id;
        batch->digest += feed_row_digest(batch->row_id[i]);
    }
    batch->rows = rows;
}

static bool prepare(FeedWorker *worker, int64_t ticket, HostBatch *batch, Error *error)
{
    Feed *feed = worker->feed;
    int64_t epoch, index, rows, mark[STAGE_PIN + 1];
    feed_locate(feed, ticket, &epoch, &index, &rows);
    choose_rows(worker, epoch, index, rows);
    int64_t read_before = worker->reader.read_bytes, records = 0;
    worker_at(worker, STAGE_READ);
    mark[STAGE_READ] = feed_now(feed);
    atomic_store_explicit(&worker->row, worker->rows[0], memory_order_relaxed);
    if (!reader_fetch(&worker->reader, worker->rows, (size_t)rows, error))
        return error_prefix(error, "input stage 'read'");
    worker_at(worker, STAGE_DECODE);
    mark[STAGE_DECODE] = feed_now(feed);
    decode_slowly(feed);
    if (!decode_rows(worker, rows, error))
        return error_prefix(error, "input stage 'decode'");
    worker_at(worker, STAGE_AUGMENT);
    mark[STAGE_AUGMENT] = feed_now(feed);
    augment_rows(worker, epoch, rows);
    worker_at(worker, STAGE_COLLATE);
    mark[STAGE_COLLATE] = feed_now(feed);
    collate_rows(worker, batch, rows);
    mark[STAGE_PIN] = feed_now(feed);
    for (int64_t i = 0; i < rows; i++)
        records += feed->spec.dataset->rows[worker->rows[i]].length;
    int64_t bytes = feed_layout(feed, rows).bytes;
    batch->meter = (BatchMeter){
        .bytes = {[STAGE_READ] = worker->reader.read_bytes - read_before,
                  [STAGE_DECODE] = records,
                  [STAGE_AUGMENT] = bytes,
                  [STAGE_COLLATE] = bytes,
                  [STAGE_PIN] = bytes,
                  [STAGE_COPY] = bytes},
        .ready_ns = mark[STAGE_PIN],
    };
    for (int s = STAGE_READ; s < STAGE_PIN; s++)
        batch->meter.busy_ns[s] = mark[s + 1] - mark[s];
    return true;
}

static void pin(Feed *feed, HostBatch *batch, FeedSlot *slot)
{
    int64_t begin_ns = feed_now(feed);
    memcpy(slot->pinned, batch->block, (size_t)feed_layout(feed, batch->rows).bytes);
    memcpy(slot->row_id, batch->row_id, (size_t)batch->rows * sizeof *slot->row_id);
    slot->rows = batch->rows;
    slot->digest = batch->digest;
    slot->meter = batch->meter;
    slot->meter.pinned_ns = feed_now(feed);
    slot->meter.busy_ns[STAGE_PIN] = slot->meter.pinned_ns - begin_ns;
}

static bool can_pin(const Feed *feed)
{
    return !feed->pinning && feed->pinned < feed->total &&
           feed->host[feed->pinned % feed->spec.prefetch].ready &&
           feed->pinned < feed->released + feed->spec.slots;
}

static bool can_prepare(const Feed *feed)
{
    return feed->prepared < feed->total && feed->prepared < feed->pinned + feed->spec.prefetch;
}

static void fail_ticket(Feed *feed, int64_t ticket, const Error *error)
{
    if (ticket < feed->failed) {
        feed->failed = ticket;
        feed->error = *error;
    }
    pthread_cond_broadcast(&feed->ready);
}

// Both jobs are entered and left with the lock held.
static void pin_next(FeedWorker *worker)
{
    Feed *feed = worker->feed;
    int64_t ticket = feed->pinned, waiting = 0;
    HostBatch *batch = &feed->host[ticket % feed->spec.prefetch];
    for (int64_t t = ticket; t < feed->prepared && feed->host[t % feed->spec.prefetch].ready; t++)
        waiting++;
    feed_depth(feed, STAGE_COLLATE, waiting);
    feed->pinning = true;
    pthread_mutex_unlock(&feed->lock);
    worker_at(worker, STAGE_PIN);
    pin(feed, batch, &feed->slot[ticket % feed->spec.slots]);
    worker_at(worker, -1);
    pthread_mutex_lock(&feed->lock);
    feed->pinning = false;
    batch->ready = false;
    feed->pinned++;
    Error error = ERROR_INIT;
    if (!feed_queue_copies(feed, &error))
        fail_ticket(feed, feed->queued, &error);
    pthread_cond_signal(&feed->ready);
    pthread_cond_signal(&feed->work);   // a host batch is free
}

static bool prepare_next(FeedWorker *worker)
{
    Feed *feed = worker->feed;
    int64_t ticket = feed->prepared++;
    HostBatch *batch = &feed->host[ticket % feed->spec.prefetch];
    pthread_mutex_unlock(&feed->lock);
    Error error = ERROR_INIT;
    bool good = prepare(worker, ticket, batch, &error);
    worker_at(worker, -1);
    pthread_mutex_lock(&feed->lock);
    batch->ready = good;
    if (!good)
        fail_ticket(feed, ticket, &error);
    return good;
}

void *feed_worker_main(void *context)
{
    FeedWorker *worker = context;
    Feed *feed = worker->feed;
    pthread_mutex_lock(&feed->lock);
    for (bool good = true; good && !feed->stop;) {
        if (can_pin(feed)) {
            pin_next(worker);
        } else if (can_prepare(feed)) {
            good = prepare_next(worker);
        } else {
            int64_t begin_ns = feed_now(feed);
            bool full = feed->prepared < feed->total;
            pthread_cond_wait(&feed->work, &feed->lock);
            if (full)   // there was work, but no room for its result
                feed->meter[STAGE_COLLATE].blocked_out_ns += feed_now(feed) - begin_ns;
        }
    }
    pthread_mutex_unlock(&feed->lock);
    return NULL;
}
