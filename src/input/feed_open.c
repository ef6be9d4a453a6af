// feed_open - making the loader and taking it down again, within a second whatever the workers do.
#include "feed_internal.h"

#include <fedgate/fault.h>
#include <stdlib.h>
#include <time.h>

static const char ring_account[] = "input.ring", slot_account[] = "input.slots",
                  batch_account[] = "input.batches";
static const int64_t second_ns = INT64_C(1000000000), stall_default_ns = INT64_C(60000000000);
static const int64_t close_ns = INT64_C(800000000);

static bool out_of_memory(Error *error)
{
    return FAIL(error, ERROR_MEMORY, 0, "out of memory for the input pipeline");
}

static bool check_spec(const FeedSpec *spec, Error *error)
{
    if (spec->batch < 1 || spec->workers < 1 || spec->prefetch < 1 || spec->slots < 2 || spec->epoch < 0 ||
        spec->position < 0)
        return FAIL(error, ERROR_INTERNAL, 0,
                    "input pipeline asked for batch %lld, %d workers, %d prefetched, %d slots, from epoch "
                    "%lld batch %lld",
                    (long long)spec->batch, spec->workers, spec->prefetch, spec->slots,
                    (long long)spec->epoch, (long long)spec->position);
    return true;
}

// Everything the pipeline will hold in host memory, against the declared cap, before any of it is taken.
static bool check_host_memory(const Feed *feed, Error *error)
{
    const FeedSpec *spec = &feed->spec;
    int64_t row_bytes = (int64_t)((feed->numeric + feed->categorical) * sizeof(float) + sizeof(uint32_t) +
                                  sizeof(double) + sizeof(size_t));
    int64_t workers = spec->workers * spec->batch * (row_bytes + (int64_t)spec->dataset->longest_record);
    int64_t batches =
        (spec->prefetch + spec->slots) * (feed->block_bytes + spec->batch * (int64_t)sizeof(uint64_t));
    int64_t index = (int64_t)(spec->dataset->row_capacity * sizeof(RowEntry) +
                              spec->dataset->row_count * SPLIT_COUNT * sizeof(uint32_t));
    index += spec->dataset->memory_bytes;
    if (workers + batches + index <= spec->dataset->host_cap_bytes)
        return true;
    FAIL(error, ERROR_MEMORY, 0,
         "input pipeline needs %lld bytes of host memory, more than the %lld of option 'input.host_memory'",
         (long long)(workers + batches + index), (long long)spec->dataset->host_cap_bytes);
    return error_hint(error,
                      "Files and index %lld, workers %lld, batches and ring %lld bytes: lower input.workers, "
                      "input.prefetch or train.batch.",
                      (long long)index, (long long)workers, (long long)batches);
}

static bool open_batches(Feed *feed, Error *error)
{
    const FeedSpec *spec = &feed->spec;
    size_t batch = (size_t)spec->batch;
    feed->host = calloc((size_t)spec->prefetch, sizeof *feed->host);
    feed->slot = calloc((size_t)spec->slots, sizeof *feed->slot);
    if (!feed->host || !feed->slot)
        return out_of_memory(error);
    feed->host_bytes = feed->block_bytes + spec->batch * (int64_t)sizeof(uint64_t);
    for (int i = 0; i < spec->prefetch; i++) {
        feed->host[i].block = ledger_take(spec->ledger, LEDGER_HOST, batch_account, feed->host_bytes, error);
        if (!feed->host[i].block)
            return false;
        feed->host[i].row_id = (uint64_t *)(void *)(feed->host[i].block + feed->block_bytes);
    }
    for (int i = 0; i < spec->slots; i++) {
        FeedSlot *slot = &feed->slot[i];
        slot->row_id = calloc(batch, sizeof *slot->row_id);
        if (!slot->row_id)
            return out_of_memory(error);
        slot->pinned = device_take_pinned(spec->device, ring_account, feed->block_bytes, error);
        slot->device =
            slot->pinned ? device_take(spec->device, slot_account, feed->block_bytes, error) : NULL;
        slot->begin = slot->device ? device_event_new(spec->device, error) : NULL;
        slot->copied = slot->begin ? device_event_new(spec->device, error) : NULL;
        if (!slot->copied)
            return false;
    }
    return true;
}

static bool open_workers(Feed *feed, Error *error)
{
    const FeedSpec *spec = &feed->spec;
    size_t batch = (size_t)spec->batch;
    feed->worker = calloc((size_t)spec->workers, sizeof *feed->worker);
    if (!feed->worker)
        return out_of_memory(error);
    if (pthread_mutex_init(&feed->lock, NULL) != 0 || pthread_cond_init(&feed->work, NULL) != 0 ||
        pthread_cond_init(&feed->ready, NULL) != 0)
        return FAIL(error, ERROR_UNAVAILABLE, 0, "could not make the locks of the input pipeline");
    feed->synchronised = true;
    for (int i = 0; i < spec->workers; i++) {
        FeedWorker *worker = &feed->worker[i];
        worker->feed = feed;
        worker->stage = -1;
        worker->rows = calloc(batch, sizeof *worker->rows);
        worker->x = calloc(batch * feed->numeric + 1, sizeof *worker->x);
        worker->codes = calloc(batch * feed->categorical + 1, sizeof *worker->codes);
        worker->target = calloc(batch, sizeof *worker->target);
        if (!worker->rows || !worker->x || !worker->codes || !worker->target)
            return out_of_memory(error);
        if (!reader_init(&worker->reader, spec->dataset, batch, error))
            return false;
    }
    for (int i = 0; i < spec->workers; i++) {
        int failure = pthread_create(&feed->worker[i].thread, NULL, feed_worker_main, &feed->worker[i]);
        if (failure != 0)
            return FAIL(error, ERROR_UNAVAILABLE, failure, "could not start loader thread %d of %d", i + 1,
                        spec->workers);
        feed->worker[i].started = true;
    }
    return true;
}

// After a resume in the middle of an epoch the digest of its first part is made from the index, so the whole
// epoch still adds up.
static void digest_skipped(Feed *feed)
{
    const Dataset *dataset = feed->spec.dataset;
    const uint32_t *rows = dataset->split_rows[feed->spec.split];
    int64_t epoch = feed->first / feed->batches_per_epoch;
    Permutation permutation = feed_order(feed, epoch);
    feed->epoch_rows = feed->first % feed->batches_per_epoch * feed->spec.batch;
    for (uint64_t i = 0; i < (uint64_t)feed->epoch_rows; i++)
        feed->epoch_digest +=
            feed_row_digest(dataset->rows[rows[feed->spec.shuffle ? permutation_at(&permutation, i) : i]].id);
}

Feed *feed_open(const FeedSpec *spec, Error *error)
{
    if (!check_spec(spec, error))
        return NULL;
    Feed *feed = calloc(1, sizeof *feed);
    if (!feed) {
        out_of_memory(error);
        return NULL;
    }
    feed->spec = *spec;
    feed->failed = INT64_MAX;
    feed->simulated = clock_is_simulated(spec->clock);
    feed->serial = fault_set("copy.serial");
    feed->stall_ns = spec->stall_ns > 0 ? spec->stall_ns : stall_default_ns;
    feed->numeric = maps_numeric(spec->maps);
    feed->categorical = maps_categorical(spec->maps);
    maps_target(spec->maps, &feed->target_mean, &feed->target_deviation);
    int64_t rows = (int64_t)spec->dataset->split_count[spec->split];
    feed->batches_per_epoch = (rows + spec->batch - 1) / spec->batch;
    feed->first = spec->epoch * feed->batches_per_epoch + spec->position;
    feed->total = spec->epochs * feed->batches_per_epoch - feed->first;
    feed->total = feed->total > 0 ? feed->total : 0;
    feed->block_bytes = feed_layout(feed, spec->batch).bytes;
    feed->opened_ns = feed_now(feed);
    digest_skipped(feed);
    if (decoder_init(&feed->decoder, spec->dataset, spec->maps, error) && check_host_memory(feed, error) &&
        open_batches(feed, error) && open_workers(feed, error))
        return feed;
    feed_close(feed);
    return NULL;
}

// -- closing

// False when a thread did not end in time: it may still touch the feed, which must then stay.
static bool join_workers(Feed *feed)
{
    if (!feed->synchronised)
        return true;
    pthread_mutex_lock(&feed->lock);
    feed->stop = true;
    pthread_cond_broadcast(&feed->work);
    pthread_mutex_unlock(&feed->lock);
    int64_t until_ns = clock_monotonic_ns(clock_real()) + close_ns;
    struct timespec until = {.tv_sec = until_ns / second_ns, .tv_nsec = until_ns % second_ns};
    bool all = true;
    for (int i = 0; i < feed->spec.workers; i++)
        if (feed->worker[i].started &&
            pthread_clockjoin_np(feed->worker[i].thread, NULL, CLOCK_MONOTONIC, &until) != 0) {
            pthread_detach(feed->worker[i].thread);
            all = false;
        }
    return all;
}

static bool drain_copies(Feed *feed)
{
    Error ignored = ERROR_INIT;
    for (int64_t ticket = feed->taken; ticket < feed->queued; ticket++)
        if (!device_event_wait(feed->slot[ticket % feed->spec.slots].copied, close_ns / 8, &ignored))
            return false;
    return true;
}

static void close_slots(Feed *feed)
{
    for (int i = 0; feed->slot && i < feed->spec.slots; i++) {
        FeedSlot *slot = &feed->slot[i];
        device_event_free(slot->begin);
        device_event_free(slot->copied);
        device_give(feed->spec.device, slot_account, slot->device, feed->block_bytes);
        device_give_pinned(feed->spec.device, ring_account, slot->pinned, feed->block_bytes);
        free(slot->row_id);
    }
    for (int i = 0; feed->host && i < feed->spec.prefetch; i++)
        ledger_give(feed->spec.ledger, LEDGER_HOST, batch_account, feed->host[i].block, feed->host_bytes);
    free(feed->slot);
    free(feed->host);
}

void feed_close(Feed *feed)
{
    if (!feed)
        return;
    if ((feed->worker && !join_workers(feed)) || (feed->slot && !drain_copies(feed)))
        return;   // a stuck thread or copy still uses this memory: kept, rather than pulled from under it
    close_slots(feed);
    for (int i = 0; feed->worker && i < feed->spec.workers; i++) {
        FeedWorker *worker = &feed->worker[i];
        reader_done(&worker->reader);
        free(worker->rows);
        free(worker->x);
        free(worker->codes);
        free(worker->target);
    }
    free(feed->worker);
    decoder_done(&feed->decoder);
    if (feed->synchronised) {
        pthread_mutex_destroy(&feed->lock);
        pthread_cond_destroy(&feed->work);
        pthread_cond_destroy(&feed->ready);
    }
    free(feed);
}
