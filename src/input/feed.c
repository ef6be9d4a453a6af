// feed - the consumer's side of the loader: the next batch, when its copy may run, and what has been seen.
#include "feed_internal.h"

#include <errno.h>
#include <time.h>

static const int64_t second_ns = INT64_C(1000000000);

int64_t feed_now(const Feed *feed)
{
    return feed->simulated ? 0 : clock_monotonic_ns(feed->spec.clock);
}

static int64_t aligned(int64_t bytes)
{
    return (bytes + FEED_ALIGNMENT - 1) / FEED_ALIGNMENT * FEED_ALIGNMENT;
}

BatchLayout feed_layout(const Feed *feed, int64_t rows)
{
    BatchLayout layout;
    layout.codes = aligned(rows * (int64_t)(feed->numeric * sizeof(float)));
    layout.target = layout.codes + aligned(rows * (int64_t)(feed->categorical * sizeof(int32_t)));
    layout.bytes = layout.target + aligned(rows * (int64_t)sizeof(float));
    return layout;
}

void feed_locate(const Feed *feed, int64_t ticket, int64_t *ret_epoch, int64_t *ret_index, int64_t *ret_rows)
{
    int64_t number = feed->first + ticket, rows = (int64_t)feed->spec.dataset->split_count[feed->spec.split];
    *ret_epoch = number / feed->batches_per_epoch;
    *ret_index = number % feed->batches_per_epoch;
    int64_t left = rows - *ret_index * feed->spec.batch;
    *ret_rows = left < feed->spec.batch ? left : feed->spec.batch;
}

bool feed_queue_copies(Feed *feed, Error *error)
{
    while (feed->queued < feed->pinned && feed->queued <= feed->begun) {
        int64_t ticket = feed->queued;
        FeedSlot *slot = &feed->slot[ticket % feed->spec.slots];
        DeviceEvent *after = ticket > 0 ? feed->slot[(ticket - 1) % feed->spec.slots].begin : NULL;
        feed_depth(feed, STAGE_PIN, feed->pinned - feed->queued);
        // What went into the device slot before was computed before batch ticket - 1 began, so `after` also
        // says that the slot is free.
        if (!device_copy_in(feed->spec.device, slot->device, slot->pinned,
                            feed_layout(feed, slot->rows).bytes, ticket, false, after, slot->copied, error))
            return error_prefix(error, "input stage 'copy'");
        StageMeter *meter = &feed->meter[STAGE_COPY];
        int64_t late_ns = ticket > 0 ? slot->meter.pinned_ns - feed->begun_ns : 0;
        meter->blocked_in_ns += late_ns > 0 ? late_ns : 0;
        meter->blocked_out_ns += late_ns < 0 ? -late_ns : 0;
        feed->queued++;
    }
    return true;
}

// Locked. Marks the point of the compute stream after which batch `ticket` + 1 may be copied.
static void mark_begun(Feed *feed, int64_t ticket)
{
    device_record_compute(feed->spec.device, feed->slot[ticket % feed->spec.slots].begin);
    feed->begun = ticket + 1;
    feed->begun_ns = feed_now(feed);
}

static bool fail_stalled(Feed *feed, int64_t ticket, Error *error)
{
    const FeedWorker *stuck = NULL;
    for (int i = 0; i < feed->spec.workers && !stuck; i++)
        if (feed->worker[i].stage >= 0)
            stuck = &feed->worker[i];
    if (!stuck)
        return FAIL(error, ERROR_UNAVAILABLE, 0,
                    "input pipeline gave no batch %lld within %lld ms, and no loader thread is at work",
                    (long long)ticket, (long long)(feed->stall_ns / 1000000));
    const Dataset *dataset = feed->spec.dataset;
    uint32_t row = stuck->row;
    const SourceFile *file = dataset_file_of(dataset, row);
    return FAIL(error, ERROR_UNAVAILABLE, 0,
                "input stage '%s' is stuck for more than %lld ms at batch %lld: data file '%s', line %llu",
                stage_name((Stage)stuck->stage), (long long)(feed->stall_ns / 1000000), (long long)ticket,
                file->path, (unsigned long long)source_line(file, dataset->rows[row].offset));
}

// Locked. Waits until the batch is pinned and its copy is queued.
static bool await_batch(Feed *feed, int64_t ticket, Error *error)
{
    int64_t until_ns = clock_monotonic_ns(clock_real()) + feed->stall_ns;
    struct timespec until = {.tv_sec = until_ns / second_ns, .tv_nsec = until_ns % second_ns};
    while (feed->pinned <= ticket && feed->failed > ticket)
        if (pthread_cond_clockwait(&feed->ready, &feed->lock, CLOCK_MONOTONIC, &until) == ETIMEDOUT &&
            feed->pinned <= ticket)
            return fail_stalled(feed, ticket, error);
    if (feed->failed <= ticket) {
        *error = feed->error;
        return false;
    }
    if (feed->queued > ticket)
        return true;
    if (feed->begun < ticket)
        mark_begun(feed, ticket - 1);
    return feed_queue_copies(feed, error);
}

static void account(Feed *feed, const FeedSlot *slot, int64_t exposed_ns, bool last_of_epoch)
{
    for (int s = 0; s < STAGE_COUNT; s++) {
        feed->meter[s].items++;
        feed->meter[s].bytes += slot->meter.bytes[s];
        feed->meter[s].busy_ns += slot->meter.busy_ns[s];
    }
    feed->meter[STAGE_COPY].busy_ns += exposed_ns;
    int64_t late_ns = slot->meter.ready_ns - slot->free_ns;
    feed->meter[STAGE_PIN].blocked_in_ns += slot->free_ns > 0 && late_ns > 0 ? late_ns : 0;
    feed->meter[STAGE_PIN].blocked_out_ns += slot->free_ns > 0 && late_ns < 0 ? -late_ns : 0;
    feed->epoch_rows += slot->rows;
    feed->epoch_digest += slot->digest;
    if (last_of_epoch) {
        feed->last_rows = feed->epoch_rows;
        feed->last_digest = feed->epoch_digest;
        feed->epoch_rows = 0;
        feed->epoch_digest = 0;
    }
}

int feed_next(Feed *feed, FeedBatch *ret_batch, int64_t *ret_wait_ns, int64_t *ret_exposed_ns, Error *error)
{
    if (feed->taken == feed->total)
        return 0;
    int64_t ticket = feed->taken, begin_ns = feed_now(feed);
    FeedSlot *slot = &feed->slot[ticket % feed->spec.slots];
    pthread_mutex_lock(&feed->lock);
    bool good = await_batch(feed, ticket, error);
    pthread_mutex_unlock(&feed->lock);
    int64_t prepared_ns = feed_now(feed);
    bool copied = good && device_event_done(slot->copied);
    if (good && !copied && !device_event_wait(slot->copied, feed->stall_ns, error))
        good = error_prefix(error, "input stage 'copy' of batch %lld", (long long)ticket);
    if (!good)
        return -1;
    int64_t end_ns = feed_now(feed);   // also when it was there: looking takes a lock, which may take time
    int64_t epoch, index, rows;
    feed_locate(feed, ticket, &epoch, &index, &rows);
    BatchLayout layout = feed_layout(feed, rows);
    *ret_batch = (FeedBatch){
        .epoch = epoch,
        .index = index,
        .step = ticket,
        .rows = rows,
        .last_of_epoch = index + 1 == feed->batches_per_epoch,
        .numeric = (const float *)(const void *)slot->device,
        .codes = (const int32_t *)(const void *)(slot->device + layout.codes),
        .target = (const float *)(const void *)(slot->device + layout.target),
        .row_id = slot->row_id,
        .slot = (int)(ticket % feed->spec.slots),
        .handed_ns = end_ns,
    };
    pthread_mutex_lock(&feed->lock);
    feed_depth(feed, STAGE_COPY, copied ? 1 : 0);
    feed->taken++;
    account(feed, slot, end_ns - prepared_ns, ret_batch->last_of_epoch);
    pthread_mutex_unlock(&feed->lock);
    *ret_wait_ns = prepared_ns - begin_ns;
    *ret_exposed_ns = end_ns - prepared_ns;
    return 1;
}

void feed_compute_begins(Feed *feed, const FeedBatch *batch)
{
    if (feed->serial)   // planted: the next copy is given only when the next batch is asked for
        return;
    pthread_mutex_lock(&feed->lock);
    mark_begun(feed, batch->step);
    Error error = ERROR_INIT;
    if (!feed_queue_copies(feed, &error) && feed->queued < feed->failed) {
        feed->failed = feed->queued;
        feed->error = error;
    }
    pthread_mutex_unlock(&feed->lock);
}

void feed_release(Feed *feed, const FeedBatch *batch)
{
    pthread_mutex_lock(&feed->lock);
    feed->slot[batch->slot].free_ns = feed_now(feed);
    feed->released = batch->step + 1;
    pthread_cond_signal(&feed->work);
    pthread_mutex_unlock(&feed->lock);
}

void feed_epoch_digest(const Feed *feed, int64_t *ret_rows, uint64_t *ret_digest)
{
    *ret_rows = feed->last_rows;
    *ret_digest = feed->last_digest;
}
