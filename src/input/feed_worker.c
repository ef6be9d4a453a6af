// feed_worker - what a loader thread does: batch by batch, each wholly its own, into the ring.
//
// The lock is taken twice a batch. A thread that finds more work wakes one more; of those that wait for a
// copy to end, which wakes nobody, one looks again at short intervals.
#include "feed_internal.h"

#include <fedgate/clock.h>
#include <sys/prctl.h>
#include <time.h>

static const int64_t second_ns = INT64_C(1000000000), look_ns = 30000;

static RowsTarget target_of(const Feed *feed, const FeedEntry *entry, int64_t batch)
{
    RowsTarget to = {.row_id = entry->row_id + batch * feed->spec.batch};
    if (!entry->block->memory)
        return to;
    char *begin = entry->block->memory + batch * feed->layout.bytes;
    to.numeric = (float *)(void *)begin;
    to.codes = (int32_t *)(void *)(begin + feed->layout.codes);
    to.target = (float *)(void *)(begin + feed->layout.target);
    return to;
}

static bool prepare(FeedWorker *worker, FeedEntry *entry, int64_t batch, Error *error)
{
    Feed *feed = worker->feed;
    const GroupPlace *place = &entry->place;
    const int64_t rows = feed_rows_of(feed, place, batch), index = place->index + batch;
    const RowsTarget to = target_of(feed, entry, batch);
    worker->meter = (BatchMeter){0};
    feed_rows_stage(worker, STAGE_READ);
    feed_rows_choose(worker, place->epoch, index * feed->spec.batch, (size_t)rows);
    if (!feed_rows_fill(worker, (size_t)rows, &to, error))
        return false;
    if (to.numeric)
        feed_rows_augment(worker, place->epoch, (size_t)rows, to.numeric);
    feed_rows_stage(worker, STAGE_COLLATE);
    entry->digest[batch] = feed_rows_digest(to.row_id, (size_t)rows);
    if (to.numeric) {
        atomic_store(&entry->block->digest[batch], entry->digest[batch]);
        int64_t bytes = feed_layout(rows, feed->numeric, feed->categorical).bytes;
        for (int s = STAGE_AUGMENT; s < STAGE_COPY; s++)
            worker->meter.bytes[s] = bytes;
    }
    return true;
}

void feed_fail(Feed *feed, int64_t ticket, const Error *error)
{
    if (ticket < feed->failed) {
        feed->failed = ticket;
        feed->error = *error;
    }
    pthread_cond_broadcast(&feed->ready);
}

// Both are entered and left with the lock held.
static bool fill_next(FeedWorker *worker)
{
    Feed *feed = worker->feed;
    int64_t ticket, batch;
    FeedEntry *entry = ring_claim(feed, &ticket, &batch);
    if (feed->idle > 0 && (ring_has_room(feed) || ring_wants_look(feed)))
        pthread_cond_signal(&feed->work);
    pthread_mutex_unlock(&feed->lock);
    Error error = ERROR_INIT;
    bool good = prepare(worker, entry, batch, &error);
    feed_rows_stage(worker, -1);
    pthread_mutex_lock(&feed->lock);
    if (good)
        ring_filled(feed, entry, &worker->meter);
    else
        feed_fail(feed, ticket, &error);
    return good;
}

static void await_room(FeedWorker *worker)
{
    Feed *feed = worker->feed;
    bool more = feed->claimed < feed->total, look = ring_wants_look(feed);
    if (look && ring_look(feed))
        return;
    int64_t begin_ns = feed_now(feed);
    feed->idle++;
    if (look && !feed->looking && !feed->stop) {
        int64_t until_ns = clock_monotonic_ns(clock_real()) + look_ns;
        struct timespec until = {.tv_sec = until_ns / second_ns, .tv_nsec = until_ns % second_ns};
        feed->looking = true;
        pthread_cond_clockwait(&feed->work, &feed->lock, CLOCK_MONOTONIC, &until);
        feed->looking = false;
    } else if (!feed->stop && !ring_has_room(feed)) {
        pthread_cond_wait(&feed->work, &feed->lock);
    }
    feed->idle--;
    if (more)   // there was work, but no room for its result
        feed->meter[STAGE_COLLATE].blocked_out_ns += feed_now(feed) - begin_ns;
}

void *feed_worker_main(void *context)
{
    FeedWorker *worker = context;
    Feed *feed = worker->feed;
    prctl(PR_SET_TIMERSLACK, 1000, 0, 0,
          0);   // ns; the default of 50 us would double the interval of looking
    pthread_mutex_lock(&feed->lock);
    for (bool good = true; good && !feed->stop;) {
        if (ring_has_room(feed))
            good = fill_next(worker);
        else
            await_room(worker);
    }
    pthread_mutex_unlock(&feed->lock);
    return NULL;
}
