// feed_resident - the declared substitute for streaming: all rows of the split and the order of the run lie
// on the device, and a batch is gathered into its slot there. The same bits in the same order as streaming.
//
// Nothing is copied during training, but for the order of the next epoch when that of all epochs is too
// large: it is made ahead, and loaded where the epoch begins. Workers still make the ids and digests of each
// batch on the host.
#include "feed_internal.h"

#include <stdlib.h>

static const char rows_account[] = "input.resident", order_account[] = "input.order",
                  scratch_account[] = "input.batches";
enum { PIECE_ROWS = 16384 };   // loaded at once

static bool load_section(Feed *feed, int64_t offset, int64_t width, int64_t first, int64_t count,
                         const void *from, Error *error)
{
    return width == 0 || device_load(feed->spec.device, feed->resident.rows + offset + first * width, from,
                                     count * width, error);
}

static bool load_piece(Feed *feed, FeedWorker *worker, int64_t first, int64_t count, char *scratch,
                       Error *error)
{
    const int64_t numeric = (int64_t)(feed->numeric * sizeof(float)),
                  codes = (int64_t)(feed->categorical * sizeof(int32_t)), target = sizeof(float);
    BatchLayout layout = feed_layout(count, feed->numeric, feed->categorical);
    RowsTarget to = {.numeric = (float *)(void *)scratch,
                     .codes = (int32_t *)(void *)(scratch + layout.codes),
                     .target = (float *)(void *)(scratch + layout.target),
                     .row_id = (uint64_t *)(void *)(scratch + layout.bytes)};
    for (int64_t i = 0; i < count; i++)
        worker->numbers[i] = (uint32_t)(first + i);
    return feed_rows_fill(worker, (size_t)count, &to, error) &&
           load_section(feed, 0, numeric, first, count, to.numeric, error) &&
           load_section(feed, feed->resident.codes, codes, first, count, to.codes, error) &&
           load_section(feed, feed->resident.target, target, first, count, to.target, error);
}

static bool load_rows(Feed *feed, Error *error)
{
    Ledger *ledger = feed->spec.ledger;
    int64_t piece = feed->rows < PIECE_ROWS ? feed->rows : PIECE_ROWS,
            bytes = feed_layout(piece, feed->numeric, feed->categorical).bytes +
                    piece * (int64_t)sizeof(uint64_t);
    FeedWorker worker = {0};
    char *scratch = ledger_take(ledger, LEDGER_HOST, scratch_account, bytes, error);
    bool good = scratch && feed_rows_open(&worker, feed, (size_t)piece, error);
    for (int64_t first = 0; good && first < feed->rows; first += piece) {
        int64_t left = feed->rows - first;
        good = load_piece(feed, &worker, first, left < piece ? left : piece, scratch, error);
    }
    feed_rows_close(&worker);
    ledger_give(ledger, LEDGER_HOST, scratch_account, scratch, bytes);
    return good;
}

// -- the order of one epoch, and the digests of its batches

typedef struct Making {
    Feed *feed;
    int64_t epoch;
    uint32_t *order;
    uint64_t *digest;
    _Atomic int64_t next;   // first batch nobody makes yet
} Making;

static void *make_batches(void *context)
{
    Making *making = context;
    const Feed *feed = making->feed;
    const int64_t batch = feed->spec.batch;
    for (int64_t i; (i = atomic_fetch_add(&making->next, 1)) < feed->batches;) {
        const int64_t first = i * batch, left = feed->rows - first, count = left < batch ? left : batch;
        feed_rows_order(feed, making->epoch, first, (size_t)count, making->order + first);
        making->digest[i] = feed_rows_digest_of(feed, making->order + first, (size_t)count);
    }
    return NULL;
}

// This thread works too, so fewer threads than asked for only take longer.
static void make_epoch(Feed *feed, int64_t epoch)
{
    enum { THREADS = 16 };
    char *scratch = feed->resident.scratch;
    Making making = {
        .feed = feed,
        .epoch = epoch,
        .order = (uint32_t *)(void *)scratch,
        .digest = (uint64_t *)(void *)(scratch + feed_aligned(feed->rows * (int64_t)sizeof(uint32_t)))};
    pthread_t threads[THREADS];
    const int64_t workers = feed->spec.workers, wanted = workers < feed->batches ? workers : feed->batches;
    int64_t started = 0;
    while (started < wanted - 1 && started < THREADS &&
           pthread_create(&threads[started], NULL, make_batches, &making) == 0)
        started++;
    make_batches(&making);
    for (int64_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    feed->resident.made = epoch;
}

static void *make_ahead(void *context)
{
    Feed *feed = context;
    make_epoch(feed, feed->resident.next);
    return NULL;
}

static void end_ahead(FeedResident *resident)
{
    if (resident->ahead)
        pthread_join(resident->maker, NULL);
    resident->ahead = false;
}

// Made unless it was made ahead; then at its place on the device.
static bool load_epoch(Feed *feed, int64_t epoch, Error *error)
{
    FeedResident *resident = &feed->resident;
    const int64_t at = epoch - resident->epoch, order_bytes = feed->rows * (int64_t)sizeof(uint32_t);
    const char *scratch = resident->scratch;
    end_ahead(resident);
    if (resident->made != epoch)
        make_epoch(feed, epoch);
    return device_load(feed->spec.device, resident->order + at * feed->rows, scratch, order_bytes, error) &&
           device_load(feed->spec.device, resident->digest + at * feed->batches,
                       scratch + feed_aligned(order_bytes), feed->batches * (int64_t)sizeof(uint64_t), error);
}

// One epoch lies on the device: while it is trained on, the next one is made.
static void begin_ahead(Feed *feed)
{
    FeedResident *resident = &feed->resident;
    resident->next = resident->epoch + 1;
    resident->ahead = resident->epochs == 1 && resident->next < feed->spec.epochs &&
                      pthread_create(&resident->maker, NULL, make_ahead, feed) == 0;
}

bool resident_open(Feed *feed, Error *error)
{
    FeedResident *resident = &feed->resident;
    const FeedSpec *spec = &feed->spec;
    if (!spec->resident)
        return true;
    BatchLayout layout = feed_layout(feed->rows, feed->numeric, feed->categorical);
    resident->codes = layout.codes;
    resident->target = layout.target;
    resident->rows = device_take(spec->device, rows_account, feed->memory.rows, error);
    resident->order =
        resident->rows ? device_take(spec->device, order_account, feed->memory.order, error) : NULL;
    if (!resident->order)
        return false;
    int64_t order_bytes = feed->rows * (int64_t)sizeof(uint32_t);
    resident->digest =
        (uint64_t *)(void *)((char *)resident->order + feed_aligned(resident->epochs * order_bytes));
    resident->scratch =
        ledger_take(spec->ledger, LEDGER_HOST, scratch_account, resident->scratch_bytes, error);
    if (!resident->scratch || !load_rows(feed, error))
        return error_prefix(error, "rows that lie on the device");
    resident->epoch = feed->first_batch / feed->batches;
    resident->made = -1;
    for (int64_t i = 0; i < resident->epochs && resident->epoch + i < spec->epochs; i++)
        if (!load_epoch(feed, resident->epoch + i, error))
            return false;
    begin_ahead(feed);
    return true;
}

void resident_close(Feed *feed)
{
    FeedResident *resident = &feed->resident;
    end_ahead(resident);
    device_give(feed->spec.device, rows_account, resident->rows, feed->memory.rows);
    device_give(feed->spec.device, order_account, resident->order, feed->memory.order);
    ledger_give(feed->spec.ledger, LEDGER_HOST, scratch_account, resident->scratch, resident->scratch_bytes);
}

bool resident_give(Feed *feed, const GroupPlace *place, char *device, Error *error)
{
    FeedResident *resident = &feed->resident;
    if (place->epoch >= resident->epoch + resident->epochs) {
        resident->epoch = place->epoch;   // one epoch at a time
        if (!load_epoch(feed, place->epoch, error))
            return error_prefix(error, "order of epoch %lld", (long long)place->epoch);
        begin_ahead(feed);
    }
    const uint32_t *order = resident->order + (place->epoch - resident->epoch) * feed->rows;
    for (int64_t i = 0; i < place->count; i++) {
        int64_t rows = feed_rows_of(feed, place, i);
        char *to = device + i * feed->layout.bytes;
        device_gather(feed->spec.device,
                      &(FedgateGather){.numeric = (float *)(void *)to,
                                       .codes = (int32_t *)(void *)(to + feed->layout.codes),
                                       .target = (float *)(void *)(to + feed->layout.target),
                                       .from_numeric = (const float *)(void *)resident->rows,
                                       .from_codes = (int32_t *)(void *)(resident->rows + resident->codes),
                                       .from_target = (float *)(void *)(resident->rows + resident->target),
                                       .index = order + (place->index + i) * feed->spec.batch,
                                       .rows = rows,
                                       .numeric_count = (int64_t)feed->numeric,
                                       .code_count = (int64_t)feed->categorical});
    }
    return true;
}

const uint64_t *resident_digest(const Feed *feed, const GroupPlace *place)
{
    return feed->resident.digest + (place->epoch - feed->resident.epoch) * feed->batches + place->index;
}
