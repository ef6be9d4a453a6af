// feed_open - making the loader and taking it down again, within a second whatever the workers do.
#include "feed_internal.h"

#include <fedgate/fault.h>
#include <stdlib.h>
#include <time.h>

static const int64_t second_ns = INT64_C(1000000000), stall_default_ns = INT64_C(60000000000);
static const int64_t close_ns = INT64_C(800000000);

static bool out_of_memory(Error *error)
{
    return FAIL(error, ERROR_MEMORY, 0, "out of memory for the input pipeline");
}

static bool check_spec(const FeedSpec *spec, Error *error)
{
    if (spec->batch < 1 || spec->workers < 1 || spec->prefetch < 1 || spec->slots < 2 || spec->epoch < 0 ||
        spec->position < 0 || spec->group < 0 || spec->group > FEED_GROUP)
        return FAIL(error, ERROR_INTERNAL, 0,
                    "input pipeline asked for batch %lld, groups of %d, %d workers, %d prefetched, %d slots, "
                    "from epoch %lld batch %lld",
                    (long long)spec->batch, spec->group, spec->workers, spec->prefetch, spec->slots,
                    (long long)spec->epoch, (long long)spec->position);
    if (!spec->resident || !(spec->augment_noise > 0))
        return true;
    FAIL(error, ERROR_CONFIG, 0,
         "option 'input.resident' leaves the rows on the device as they are, but 'input.augment_noise' is %g",
         spec->augment_noise);
    return error_hint(error, "Set input.augment_noise to 0, or stream the rows with input.resident false.");
}

// Everything the pipeline will hold in host memory, against the declared cap, before any of it is taken; rows
// in memory are counted once they are there.
static bool check_host_memory(const Feed *feed, Error *error)
{
    const FeedSpec *spec = &feed->spec;
    int64_t text = feed->store ? 0 : (int64_t)(sizeof(size_t) + spec->dataset->longest_record);
    int64_t workers = spec->workers * spec->batch * (text + 2 * (int64_t)sizeof(uint32_t));
    int64_t ids =
        feed->depth_count * (spec->group > 1 ? spec->group : 1) * spec->batch * (int64_t)sizeof(uint64_t);
    int64_t ring = feed->memory.ring + ids + feed->resident.scratch_bytes;
    int64_t kept = dataset_host_bytes(spec->dataset) + (feed->store ? rowstore_bytes(feed->store) : 0);
    if (workers + ring + kept <= spec->dataset->host_cap_bytes)
        return true;
    FAIL(error, ERROR_MEMORY, 0,
         "input pipeline needs %lld bytes of host memory, more than the %lld of option 'input.host_memory'",
         (long long)(workers + ring + kept), (long long)spec->dataset->host_cap_bytes);
    return error_hint(
        error,
        "Files, index and rows in memory %lld, workers %lld, batches and ring %lld bytes: lower "
        "input.workers, input.prefetch or train.batch.",
        (long long)kept, (long long)workers, (long long)ring);
}

static bool open_locks(Feed *feed, Error *error)
{
    feed->synchronised = pthread_mutex_init(&feed->lock, NULL) == 0 &&
                         pthread_cond_init(&feed->work, NULL) == 0 &&
                         pthread_cond_init(&feed->ready, NULL) == 0;
    return feed->synchronised ||
           FAIL(error, ERROR_UNAVAILABLE, 0, "could not make the locks of the input pipeline");
}

// Rows that lie on the device need the store only until they are there.
static bool open_rows(Feed *feed, Error *error)
{
    const FeedSpec *spec = &feed->spec;
    if (!decoder_init(&feed->decoder, spec->dataset, spec->maps, error))
        return false;
    if (dataset_rows_in_memory(spec->dataset, feed->asynchronous)) {
        feed->store = rowstore_open(spec->dataset, spec->maps, spec->split, error);
        if (!feed->store)
            return false;
    }
    if (!check_host_memory(feed, error) || !resident_open(feed, error))
        return false;
    if (spec->resident) {
        rowstore_free(feed->store);
        feed->store = NULL;
    }
    return true;
}

static bool open_workers(Feed *feed, Error *error)
{
    const FeedSpec *spec = &feed->spec;
    feed->worker = calloc((size_t)spec->workers, sizeof *feed->worker);
    if (!feed->worker)
        return out_of_memory(error);
    for (int i = 0; i < spec->workers; i++)
        if (!feed_rows_open(&feed->worker[i], feed, (size_t)spec->batch, error))
            return false;
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
    enum { PIECE = 4096 };
    uint32_t numbers[PIECE];
    int64_t epoch = feed->first_batch / feed->batches;
    feed->epoch_rows = feed->first_batch % feed->batches * feed->spec.batch;
    for (int64_t first = 0; first < feed->epoch_rows; first += PIECE) {
        size_t count = feed->epoch_rows - first < PIECE ? (size_t)(feed->epoch_rows - first) : PIECE;
        feed_rows_order(feed, epoch, first, count, numbers);
        feed->epoch_digest += feed_rows_digest_of(feed, numbers, count);
    }
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
    feed->lag = 1;
    feed->simulated = clock_is_simulated(spec->clock);
    feed->serial = fault_set("copy.serial");
    feed->asynchronous = device_info(spec->device)->asynchronous;
    feed->stall_ns = spec->stall_ns > 0 ? spec->stall_ns : stall_default_ns;
    feed->numeric = maps_numeric(spec->maps);
    feed->categorical = maps_categorical(spec->maps);
    maps_target(spec->maps, &feed->target_mean, &feed->target_deviation);
    feed_shape(feed);
    feed->opened_ns = feed_now(feed);
    digest_skipped(feed);
    if (open_locks(feed, error) && open_rows(feed, error) && ring_open(feed, error) &&
        open_workers(feed, error))
        return feed;
    feed_close(feed);
    return NULL;
}

// -- closing

// False when a thread did not end in time: it may still touch the feed, which must then stay.
static bool join_workers(Feed *feed, int64_t until_ns)
{
    if (!feed->worker)
        return true;
    pthread_mutex_lock(&feed->lock);
    feed->stop = true;
    pthread_cond_broadcast(&feed->work);
    pthread_mutex_unlock(&feed->lock);
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

static bool ends_in_time(DeviceEvent *event, int64_t until_ns)
{
    Error ignored = ERROR_INIT;
    int64_t left_ns = until_ns - clock_monotonic_ns(clock_real());
    return device_event_done(event) || (left_ns > 0 && device_event_wait(event, left_ns, &ignored));
}

// Copies that were queued, and compute that was given and may still read the slots.
static bool drain(Feed *feed, int64_t until_ns)
{
    for (int64_t t = feed->freed; t < feed->queued && !feed->spec.resident; t++)
        if (!ends_in_time(feed->entry[t % feed->depth_count].copied, until_ns))
            return false;
    if (feed->taken == 0)
        return true;
    device_record_compute(feed->spec.device, feed->slot[0].given);
    return ends_in_time(feed->slot[0].given, until_ns);
}

void feed_close(Feed *feed)
{
    if (!feed)
        return;
    int64_t until_ns = clock_monotonic_ns(clock_real()) + close_ns;
    if (!join_workers(feed, until_ns) || !drain(feed, until_ns))
        return;   // a stuck thread or copy still uses this memory: kept, rather than pulled from under it
    for (int i = 0; feed->worker && i < feed->spec.workers; i++)
        feed_rows_close(&feed->worker[i]);
    free(feed->worker);
    ring_close(feed);
    resident_close(feed);
    rowstore_free(feed->store);
    decoder_done(&feed->decoder);
    if (feed->synchronised) {
        pthread_mutex_destroy(&feed->lock);
        pthread_cond_destroy(&feed->work);
        pthread_cond_destroy(&feed->ready);
    }
    free(feed);
}
