// feed - the consumer's side of the loader: the next group or batch, when its copy may run, and what has been
// seen. A batch by itself is a group of one.
#include "feed_internal.h"

#include <errno.h>
#include <time.h>

static const int64_t second_ns = INT64_C(1000000000);

int64_t feed_now(const Feed *feed)
{
    return feed->simulated ? 0 : clock_monotonic_ns(feed->spec.clock);
}

static bool fail_stalled(Feed *feed, int64_t ticket, Error *error)
{
    const FeedWorker *stuck = NULL;
    for (int i = 0; i < feed->spec.workers && !stuck; i++)
        if (feed->worker[i].stage >= 0)
            stuck = &feed->worker[i];
    int64_t step = feed_place(feed, ticket).step;
    if (!stuck && feed->freed < feed->released)
        return FAIL(error, ERROR_DEVICE, 0,
                    "input stage 'copy' is stuck for more than %lld ms: the copy of batch %lld has not ended",
                    (long long)(feed->stall_ns / 1000000), (long long)feed_place(feed, feed->freed).step);
    if (!stuck)
        return FAIL(error, ERROR_UNAVAILABLE, 0,
                    "input pipeline gave no batch %lld within %lld ms, and no loader thread is at work",
                    (long long)step, (long long)(feed->stall_ns / 1000000));
    const Dataset *dataset = feed->spec.dataset;
    uint32_t row = stuck->row;
    const SourceFile *file = dataset_file_of(dataset, row);
    return FAIL(error, ERROR_UNAVAILABLE, 0,
                "input stage '%s' is stuck for more than %lld ms at batch %lld: data file '%s', line %llu",
                stage_name((Stage)stuck->stage), (long long)(feed->stall_ns / 1000000), (long long)step,
                file->path, (unsigned long long)source_line(file, dataset->rows[row].offset));
}

// Waits until the group is pinned and its copy is queued. Locked: not when it is there. Whoever asks for a
// group has given the compute of the one that its copy must wait for.
static bool await_queued(Feed *feed, int64_t ticket, Error *error)
{
    int64_t until_ns = clock_monotonic_ns(clock_real()) + feed->stall_ns;
    struct timespec until = {.tv_sec = until_ns / second_ns, .tv_nsec = until_ns % second_ns};
    for (bool late = false;;) {
        if (feed->queued <= ticket && feed->marked + feed->lag <= ticket) {
            ring_record(feed, ticket - feed->lag);
            feed->marked = ticket - feed->lag + 1;
        }
        ring_queue_copies(feed);
        if (feed->queued > ticket)
            return true;
        if (feed->failed <= ticket) {
            *error = feed->error;
            return false;
        }
        if (late)
            return fail_stalled(feed, ticket, error);
        late = pthread_cond_clockwait(&feed->ready, &feed->lock, CLOCK_MONOTONIC, &until) == ETIMEDOUT;
    }
}

static void account(Feed *feed, const FeedEntry *entry, int64_t exposed_ns)
{
    const GroupPlace *place = &entry->place;
    for (int s = 0; s < STAGE_COUNT; s++) {
        feed->meter[s].items += place->count;
        feed->meter[s].bytes += entry->meter.bytes[s];
        feed->meter[s].busy_ns += entry->meter.busy_ns[s];
    }
    feed->meter[STAGE_COPY].busy_ns += exposed_ns;
    feed->meter[STAGE_PIN].blocked_in_ns += entry->free_ns > 0 ? entry->ready_ns - entry->free_ns : 0;
    for (int64_t i = 0; i < place->count; i++) {
        feed->epoch_rows += feed_rows_of(feed, place, i);
        feed->epoch_digest += entry->digest[i];
    }
    if (place->index + place->count == feed->batches) {
        feed->last_rows = feed->epoch_rows;
        feed->last_digest = feed->epoch_digest;
        feed->epoch_rows = 0;
        feed->epoch_digest = 0;
    }
}

typedef struct Taken {
    int64_t ticket, wait_ns, exposed_ns, handed_ns;
} Taken;

// The copy, or gathering on the device. device_waits: compute given from now on waits there.
static bool bring(Feed *feed, const FeedEntry *entry, int64_t ticket, bool device_waits, bool *ret_there,
                  Error *error)
{
    const FeedSpec *spec = &feed->spec;
    *ret_there = true;
    if (spec->resident)
        return resident_give(feed, &entry->place, feed->slot[ticket % spec->slots].device, error);
    *ret_there = device_event_done(entry->copied);
    if (device_waits)
        device_await(spec->device, entry->copied);
    else if (!*ret_there && !device_event_wait(entry->copied, feed->stall_ns, error))
        return error_prefix(error, "input stage 'copy' of batch %lld", (long long)entry->place.step);
    return true;
}

static int take(Feed *feed, bool grouped, Taken *ret, Error *error)
{
    if (feed->taken == feed->total)
        return 0;
    int64_t ticket = feed->taken, begin_ns = feed_now(feed);
    FeedEntry *entry = &feed->entry[ticket % feed->depth_count];
    bool good = true, there = false;
    // A copy waits for the mark inside the group after the one that read its slot: kernels run on above it.
    const int64_t lag = grouped && !feed->serial ? feed->spec.slots - 1 : 1;
    if (feed->queued <= ticket || feed->lag != lag) {   // the lock may have to be waited for
        pthread_mutex_lock(&feed->lock);
        feed->lag = lag;
        good = await_queued(feed, ticket, error);
        pthread_mutex_unlock(&feed->lock);
    }
    int64_t prepared_ns = feed_now(feed);
    bool device_waits = grouped && feed->asynchronous;
    if (!good || !bring(feed, entry, ticket, device_waits, &there, error))
        return -1;
    int64_t end_ns = feed_now(feed);   // also when it was there: looking takes a lock, which may take time
    *ret = (Taken){.ticket = ticket,
                   .wait_ns = prepared_ns - begin_ns,
                   .exposed_ns = device_waits ? 0 : end_ns - prepared_ns,
                   .handed_ns = device_waits ? prepared_ns : end_ns};   // the device's wait: handing over
    feed_depth(feed, STAGE_COPY, there ? 1 : 0);
    feed->taken++;
    feed->slot[ticket % feed->spec.slots].ticket = ticket;
    account(feed, entry, ret->exposed_ns);
    return 1;
}

static FeedBatch batch_of(const Feed *feed, const Taken *taken, int64_t i)
{
    const FeedEntry *entry = &feed->entry[taken->ticket % feed->depth_count];
    const GroupPlace *place = &entry->place;
    const int64_t rows = feed_rows_of(feed, place, i), slot = taken->ticket % feed->spec.slots;
    const char *device = feed->slot[slot].device, *begin = device + i * feed->layout.bytes;
    const void *digests = feed->spec.resident ? (const void *)resident_digest(feed, place)
                                              : (const void *)(device + feed_used_bytes(feed, place));
    return (FeedBatch){
        .epoch = place->epoch,
        .index = place->index + i,
        .step = place->step + i,
        .rows = rows,
        .last_of_epoch = place->index + i + 1 == feed->batches,
        .numeric = (const float *)(const void *)begin,
        .codes = (const int32_t *)(const void *)(begin + feed->layout.codes),
        .target = (const float *)(const void *)(begin + feed->layout.target),
        .row_id = entry->row_id + i * feed->spec.batch,
        .digest = entry->digest[i],
        .device_digest = (const uint64_t *)digests + i,
        .slot = (int)slot,
        .handed_ns = taken->handed_ns,
    };
}

int feed_next(Feed *feed, FeedBatch *ret_batch, int64_t *ret_wait_ns, int64_t *ret_exposed_ns, Error *error)
{
    if (feed->spec.group > 1) {
        FAIL(error, ERROR_INTERNAL, 0, "a feed of groups was asked for a batch");
        return -1;
    }
    Taken taken;
    int got = take(feed, false, &taken, error);
    if (got <= 0)
        return got;
    *ret_batch = batch_of(feed, &taken, 0);
    *ret_wait_ns = taken.wait_ns;
    *ret_exposed_ns = taken.exposed_ns;
    return 1;
}

int feed_next_group(Feed *feed, FeedGroup *ret_group, int64_t *ret_wait_ns, int64_t *ret_exposed_ns,
                    Error *error)
{
    Taken taken;
    int got = take(feed, true, &taken, error);
    if (got <= 0)
        return got;
    const GroupPlace *place = &feed->entry[taken.ticket % feed->depth_count].place;
    ret_group->count = place->count;
    ret_group->slot = (int)(taken.ticket % feed->spec.slots);
    ret_group->full = place->full;
    for (int64_t i = 0; i < place->count; i++)
        ret_group->batch[i] = batch_of(feed, &taken, i);
    *ret_wait_ns = taken.wait_ns;
    *ret_exposed_ns = taken.exposed_ns;
    return 1;
}

// The device is asked before the lock is taken. begun: compute up to `ticket` was given, or begins now.
// given: its entry is not needed any more, but for its copy.
static void move_on(Feed *feed, int64_t ticket, bool begun, bool given)
{
    begun = begun && !feed->serial;   // planted: the next copy is given only when the next batch is asked for
    if (begun)
        ring_record(feed, ticket);
    pthread_mutex_lock(&feed->lock);
    if (begun) {
        feed->marked = ticket + 1;
        ring_queue_copies(feed);
    }
    if (given)
        feed->released = ticket + 1;
    if (given && feed->idle > 0)
        pthread_cond_signal(&feed->work);
    pthread_mutex_unlock(&feed->lock);
}

void feed_compute_begins(Feed *feed, const FeedBatch *batch)
{
    move_on(feed, batch->step, true, false);
}

void feed_release(Feed *feed, const FeedBatch *batch)
{
    move_on(feed, batch->step, false, true);
}

void feed_group_mark(Feed *feed, const FeedGroup *group)
{
    if (!feed->serial)
        ring_record(feed, feed->slot[group->slot].ticket);
}

void feed_group_begun(Feed *feed, const FeedGroup *group)
{
    pthread_mutex_lock(&feed->lock);
    if (!feed->serial) {
        feed->marked = feed->slot[group->slot].ticket + 1;
        ring_queue_copies(feed);
    }
    pthread_mutex_unlock(&feed->lock);
}

void feed_group_given(Feed *feed, const FeedGroup *group)
{
    int64_t ticket = feed->slot[group->slot].ticket;
    move_on(feed, ticket, feed->marked <= ticket, true);   // `marked`: this thread alone writes it
}

void feed_epoch_digest(const Feed *feed, int64_t *ret_rows, uint64_t *ret_digest)
{
    *ret_rows = feed->last_rows;
    *ret_digest = feed->last_digest;
}
