// feed_rows - the rows of one batch: which ones, their bytes, their noise, their digest.
//
// What a batch holds depends on seed, epoch and position alone, so any number of workers makes the same
// bytes. Rows go straight to where they are copied from: nothing is collated a second time.
#include "feed_internal.h"

#include <fedgate/clock.h>
#include <fedgate/fault.h>
#include <fedgate/hash.h>
#include <stdlib.h>

static const uint64_t salt_order = 0x6f72646572000001u, salt_noise = 0x6e6f697365000001u;
enum { AHEAD = 16 };   // rows asked for ahead of their turn
static const int64_t nap_ns = 20 * 1000 * 1000;

bool feed_rows_open(FeedWorker *worker, Feed *feed, size_t capacity, Error *error)
{
    worker->feed = feed;
    worker->stage = -1;
    worker->capacity = capacity;
    worker->numbers = calloc(capacity, sizeof *worker->numbers);
    worker->rows = calloc(capacity, sizeof *worker->rows);
    if (!worker->numbers || !worker->rows)
        return FAIL(error, ERROR_MEMORY, 0, "out of memory for the input pipeline");
    worker->has_reader = !feed->store && reader_init(&worker->reader, feed->spec.dataset, capacity, error);
    return feed->store || worker->has_reader;
}

void feed_rows_close(FeedWorker *worker)
{
    if (worker->has_reader)
        reader_done(&worker->reader);
    free(worker->numbers);
    free(worker->rows);
}

void feed_rows_stage(FeedWorker *worker, int stage)
{
    int64_t now_ns = feed_now(worker->feed);
    int before = atomic_load_explicit(&worker->stage, memory_order_relaxed);
    if (before >= 0)
        worker->meter.busy_ns[before] += now_ns - worker->since_ns;
    worker->since_ns = now_ns;
    atomic_store_explicit(&worker->stage, stage, memory_order_relaxed);
}

void feed_rows_order(const Feed *feed, int64_t epoch, int64_t first, size_t count, uint32_t *ret_numbers)
{
    const FeedSpec *spec = &feed->spec;
    Permutation permutation;
    permutation_init(&permutation, spec->dataset->split_count[spec->split],
                     hash_mix2(spec->seed ^ salt_order, (uint64_t)epoch));
    if (spec->shuffle)
        permutation_range(&permutation, (uint64_t)first, count, ret_numbers);
    for (size_t i = 0; i < count && !spec->shuffle; i++)
        ret_numbers[i] = (uint32_t)first + (uint32_t)i;
}

void feed_rows_choose(FeedWorker *worker, int64_t epoch, int64_t first, size_t count)
{
    const FeedSpec *spec = &worker->feed->spec;
    const uint32_t *all = spec->dataset->split_rows[spec->split];
    feed_rows_order(worker->feed, epoch, first, count, worker->numbers);
    atomic_store_explicit(&worker->row, count > 0 ? all[worker->numbers[0]] : 0, memory_order_relaxed);
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

static bool decode_rows(FeedWorker *worker, size_t count, const RowsTarget *to, Error *error)
{
    const Feed *feed = worker->feed;
    for (size_t i = 0; i < count; i++) {
        double target;
        atomic_store_explicit(&worker->row, worker->rows[i], memory_order_relaxed);
        if (!reader_split(&worker->reader, worker->rows, i, error) ||
            !decoder_row(&feed->decoder, worker->reader.fields, worker->rows[i],
                         to->numeric + i * feed->numeric, to->codes + i * feed->categorical, &target, error))
            return false;
        to->target[i] = (float)((target - feed->target_mean) / feed->target_deviation);
        worker->meter.bytes[STAGE_DECODE] += feed->spec.dataset->rows[worker->rows[i]].length;
    }
    return true;
}

static bool fill_from_text(FeedWorker *worker, size_t count, const RowsTarget *to, Error *error)
{
    feed_rows_stage(worker, STAGE_READ);
    int64_t read_before = worker->reader.read_bytes;
    if (!reader_fetch(&worker->reader, worker->rows, count, error))
        return error_prefix(error, "input stage 'read'");
    worker->meter.bytes[STAGE_READ] += worker->reader.read_bytes - read_before;
    feed_rows_stage(worker, STAGE_DECODE);
    decode_slowly(worker->feed);
    return decode_rows(worker, count, to, error) || error_prefix(error, "input stage 'decode'");
}

bool feed_rows_fill(FeedWorker *worker, size_t count, const RowsTarget *to, Error *error)
{
    const Feed *feed = worker->feed;
    const Dataset *dataset = feed->spec.dataset;
    if (feed->store && to->numeric) {
        feed_rows_stage(worker, STAGE_DECODE);
        decode_slowly(worker->feed);
        feed_rows_stage(worker, STAGE_COLLATE);
        rowstore_gather(feed->store, worker->numbers, count, to->numeric, to->codes, to->target, to->row_id);
        return true;
    }
    for (size_t i = 0; i < count; i++)
        worker->rows[i] = dataset->split_rows[feed->spec.split][worker->numbers[i]];
    if (to->numeric && !fill_from_text(worker, count, to, error))
        return false;
    feed_rows_stage(worker, STAGE_COLLATE);
    for (size_t i = 0; i < count; i++)
        to->row_id[i] = dataset->rows[worker->rows[i]].id;
    return true;
}

// Noise of a row depends on seed, epoch, row and column only. Constant columns and missing flags stay as they
// are.
void feed_rows_augment(FeedWorker *worker, int64_t epoch, size_t count, float *numeric)
{
    const Feed *feed = worker->feed;
    const Maps *maps = feed->spec.maps;
    const uint32_t *all = feed->spec.dataset->split_rows[feed->spec.split];
    feed_rows_stage(worker, STAGE_AUGMENT);
    if (!(feed->spec.augment_noise > 0) || feed->spec.split != SPLIT_TRAIN)
        return;
    uint64_t epoch_key = hash_mix2(feed->spec.seed ^ salt_noise, (uint64_t)epoch);
    for (size_t i = 0; i < count; i++) {
        uint64_t key = hash_mix2(epoch_key, all[worker->numbers[i]]);
        for (size_t c = 0; c < maps->numeric_count; c++)
            if (!maps->numeric[c].constant)
                numeric[i * feed->numeric + c] += (float)(feed->spec.augment_noise * random_normal(key, c));
    }
}

uint64_t feed_rows_digest(const uint64_t *row_id, size_t count)
{
    uint64_t digest = 0;
    for (size_t i = 0; i < count; i++)
        digest += hash_mix(row_id[i]);
    return digest;
}

uint64_t feed_rows_digest_of(const Feed *feed, const uint32_t *numbers, size_t count)
{
    const Dataset *dataset = feed->spec.dataset;
    const uint32_t *all = dataset->split_rows[feed->spec.split];
    uint64_t digest = 0;
    for (size_t i = 0; i < count; i++) {
        if (i + 2 * AHEAD < count)
            __builtin_prefetch(&all[numbers[i + 2 * AHEAD]]);
        if (i + AHEAD < count)
            __builtin_prefetch(&dataset->rows[all[numbers[i + AHEAD]]].id);
        digest += hash_mix(dataset->rows[all[numbers[i]]].id);
    }
    return digest;
}
