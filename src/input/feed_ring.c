// feed_ring - which batches make a group, the pinned ring they are filled in, the device slots, and the
// copies between the two.
//
// Host and device are ordered by events alone: a copy waits on the device for the compute that last read its
// slot, compute waits for the copy (feed.c), an entry is filled again once its copy was seen to have ended.
#include "feed_internal.h"

#include <fedgate/fault.h>
#include <stdlib.h>
#include <string.h>

static const char ring_account[] = "input.ring", slot_account[] = "input.slots",
                  batch_account[] = "input.batches";
static const int64_t order_most_bytes = INT64_C(1) << 30;   // the order of a whole run on the device

int64_t feed_aligned(int64_t bytes)
{
    return (bytes + FEED_ALIGNMENT - 1) / FEED_ALIGNMENT * FEED_ALIGNMENT;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

// -- groups

BatchLayout feed_layout(int64_t rows, size_t numeric, size_t categorical)
{
    BatchLayout layout;
    layout.codes = feed_aligned(rows * (int64_t)(numeric * sizeof(float)));
    layout.target = layout.codes + feed_aligned(rows * (int64_t)(categorical * sizeof(int32_t)));
    layout.bytes = layout.target + feed_aligned(rows * (int64_t)sizeof(float));
    return layout;
}

static int64_t group_size(const FeedSpec *spec)
{
    return spec->group > 0 ? spec->group : 1;
}

static int64_t ring_depth(const FeedSpec *spec)
{
    return spec->slots + (spec->prefetch + group_size(spec) - 1) / group_size(spec);
}

static int64_t group_bytes(const FeedSpec *spec, size_t numeric, size_t categorical)
{
    int64_t group = group_size(spec);
    return group * feed_layout(spec->batch, numeric, categorical).bytes +
           feed_aligned(group * (int64_t)sizeof(uint64_t));
}

// Epochs whose order lies on the device at once.
static int64_t order_epochs(const FeedSpec *spec, int64_t rows)
{
    bool all = spec->epochs * rows <= order_most_bytes / (int64_t)sizeof(uint32_t);
    return all && spec->epochs > 0 ? spec->epochs : 1;
}

FeedMemory feed_memory(const FeedSpec *spec, size_t numeric, size_t categorical, size_t rows)
{
    int64_t bytes = group_bytes(spec, numeric, categorical), count = (int64_t)rows;
    FeedMemory memory = {.slots = spec->slots * bytes};
    if (!spec->resident) {
        memory.ring = ring_depth(spec) * bytes;
        return memory;
    }
    int64_t batches = (count + spec->batch - 1) / spec->batch, epochs = order_epochs(spec, count);
    memory.rows = feed_layout(count, numeric, categorical).bytes;
    memory.order = feed_aligned(epochs * count * (int64_t)sizeof(uint32_t)) +
                   epochs * batches * (int64_t)sizeof(uint64_t);
    return memory;
}

void feed_shape(Feed *feed)
{
    const FeedSpec *spec = &feed->spec;
    const int64_t group = group_size(spec);
    feed->rows = (int64_t)spec->dataset->split_count[spec->split];
    feed->whole = feed->rows / spec->batch;
    feed->batches = (feed->rows + spec->batch - 1) / spec->batch;
    feed->groups = (feed->whole + group - 1) / group + (feed->batches > feed->whole);
    int64_t epoch = spec->epoch + spec->position / feed->batches, position = spec->position % feed->batches;
    bool remainder = position >= feed->whole;
    feed->first_batch = epoch * feed->batches + position;
    feed->first_group = epoch * feed->groups + (remainder ? feed->groups - 1 : position / group);
    feed->first_skipped = remainder ? 0 : position % group;
    feed->total = spec->epochs * feed->groups - feed->first_group;
    feed->total = feed->total > 0 ? feed->total : 0;
    feed->layout = feed_layout(spec->batch, feed->numeric, feed->categorical);
    feed->memory = feed_memory(spec, feed->numeric, feed->categorical, (size_t)feed->rows);
    feed->resident.epochs = order_epochs(spec, feed->rows);
    feed->resident.scratch_bytes = spec->resident ? feed_aligned(feed->rows * (int64_t)sizeof(uint32_t)) +
                                                        feed->batches * (int64_t)sizeof(uint64_t)
                                                  : 0;
    // Planted: two entries share a block, and a copy waits until the second has been filled.
    bool early = fault_set("feed.refill_early");
    feed->depth_count = early ? (ring_depth(spec) + 1) / 2 * 2 : ring_depth(spec);
    feed->block_count = early ? feed->depth_count / 2 : feed->depth_count;
    feed->ahead = early ? feed->block_count : 0;
}

GroupPlace feed_place(const Feed *feed, int64_t ticket)
{
    const int64_t number = feed->first_group + ticket, group = group_size(&feed->spec);
    GroupPlace place = {
        .epoch = number / feed->groups,
        .index = least(number % feed->groups * group, feed->whole),
        .last_rows = feed->spec.batch,
    };
    place.count = least(group, feed->whole - place.index);
    place.full = place.count == group;
    if (place.count == 0) {   // the remainder
        place.count = 1;
        place.last_rows = feed->rows - place.index * feed->spec.batch;
    }
    if (ticket == 0) {
        place.index += feed->first_skipped;
        place.count -= feed->first_skipped;
        place.full = place.full && feed->first_skipped == 0;
    }
    place.step = place.epoch * feed->batches + place.index - feed->first_batch;
    return place;
}

int64_t feed_rows_of(const Feed *feed, const GroupPlace *place, int64_t i)
{
    return i + 1 < place->count ? feed->spec.batch : place->last_rows;
}

int64_t feed_used_bytes(const Feed *feed, const GroupPlace *place)
{
    return place->count * feed->layout.bytes;
}

// -- memory

static bool open_slots(Feed *feed, Error *error)
{
    const FeedSpec *spec = &feed->spec;
    for (int i = 0; i < spec->slots; i++) {
        FeedSlot *slot = &feed->slot[i];
        slot->device = device_take(spec->device, slot_account, feed->memory.slots / spec->slots, error);
        slot->given = slot->device ? device_event_new(spec->device, error) : NULL;
        if (!slot->given)
            return false;
        // What was given to the device before may still use this memory: the first copies wait for it.
        device_record_compute(spec->device, slot->given);
    }
    return true;
}

bool ring_open(Feed *feed, Error *error)
{
    const FeedSpec *spec = &feed->spec;
    feed->block = calloc((size_t)feed->block_count, sizeof *feed->block);
    feed->entry = calloc((size_t)feed->depth_count, sizeof *feed->entry);
    feed->slot = calloc((size_t)spec->slots, sizeof *feed->slot);
    if (!feed->block || !feed->entry || !feed->slot)
        return FAIL(error, ERROR_MEMORY, 0, "out of memory for the input pipeline");
    for (int64_t i = 0; i < feed->block_count && !spec->resident; i++)
        if (!(feed->block[i].memory =
                  device_take_pinned(spec->device, ring_account, feed->memory.slots / spec->slots, error)))
            return false;
    for (int64_t i = 0; i < feed->depth_count; i++) {
        FeedEntry *entry = &feed->entry[i];
        entry->block = &feed->block[i % feed->block_count];
        entry->row_id = ledger_take(spec->ledger, LEDGER_HOST, batch_account,
                                    group_size(spec) * spec->batch * (int64_t)sizeof(uint64_t), error);
        entry->copied = entry->row_id ? device_event_new(spec->device, error) : NULL;
        if (!entry->copied)
            return false;
    }
    return open_slots(feed, error);
}

void ring_close(Feed *feed)
{
    const FeedSpec *spec = &feed->spec;
    for (int i = 0; feed->slot && i < spec->slots; i++) {
        device_event_free(feed->slot[i].given);
        device_give(spec->device, slot_account, feed->slot[i].device, feed->memory.slots / spec->slots);
    }
    for (int64_t i = 0; feed->entry && i < feed->depth_count; i++) {
        device_event_free(feed->entry[i].copied);
        ledger_give(spec->ledger, LEDGER_HOST, batch_account, feed->entry[i].row_id,
                    group_size(spec) * spec->batch * (int64_t)sizeof(uint64_t));
    }
    for (int64_t i = 0; feed->block && i < feed->block_count; i++)
        device_give_pinned(spec->device, ring_account, feed->block[i].memory,
                           feed->memory.slots / spec->slots);
    free(feed->slot);
    free(feed->entry);
    free(feed->block);
}

// -- filling

bool ring_wants_look(const Feed *feed)
{
    return feed->claimed < feed->total && feed->freed < feed->released && !feed->looking;
}

bool ring_look(Feed *feed)
{
    FeedEntry *entry = &feed->entry[feed->freed % feed->depth_count];
    feed->looking = true;
    pthread_mutex_unlock(&feed->lock);
    bool ended = feed->spec.resident || device_event_done(entry->copied);
    pthread_mutex_lock(&feed->lock);
    feed->looking = false;
    if (!ended)
        return false;
    entry->free_ns = feed_now(feed);
    feed->freed++;
    return true;
}

bool ring_has_room(const Feed *feed)
{
    return feed->claimed < feed->total &&
           feed->claimed < least(feed->freed + feed->depth_count, feed->pinned + feed->block_count);
}

static void begin_group(Feed *feed, FeedEntry *entry, int64_t ticket)
{
    FeedBlock *block = entry->block;
    for (int64_t i = 0; i < block->count; i++)
        atomic_store(&block->digest[i], ~atomic_load(&block->digest[i]));
    entry->place = feed_place(feed, ticket);
    entry->left = entry->place.count;
    entry->ready = false;
    entry->meter = (BatchMeter){0};
    if (!block->memory)
        return;
    block->digest = (_Atomic uint64_t *)(void *)(block->memory + feed_used_bytes(feed, &entry->place));
    block->count = entry->place.count;
}

FeedEntry *ring_claim(Feed *feed, int64_t *ret_ticket, int64_t *ret_batch)
{
    FeedEntry *entry = &feed->entry[feed->claimed % feed->depth_count];
    if (feed->claimed_batches == 0)
        begin_group(feed, entry, feed->claimed);
    *ret_ticket = feed->claimed;
    *ret_batch = feed->claimed_batches++;
    if (feed->claimed_batches == entry->place.count) {
        feed->claimed++;
        feed->claimed_batches = 0;
    }
    return entry;
}

void ring_filled(Feed *feed, FeedEntry *entry, const BatchMeter *meter)
{
    for (int s = 0; s < STAGE_COUNT; s++) {
        entry->meter.busy_ns[s] += meter->busy_ns[s];
        entry->meter.bytes[s] += meter->bytes[s];
    }
    if (--entry->left > 0)
        return;
    entry->ready = true;
    entry->ready_ns = feed_now(feed);
    while (feed->pinned < feed->claimed && feed->entry[feed->pinned % feed->depth_count].ready)
        feed->pinned++;
    feed_depth(feed, STAGE_COLLATE, feed->pinned - feed->queued);
    ring_queue_copies(feed);
}

// -- copies

void ring_record(Feed *feed, int64_t ticket)
{
    FeedSlot *slot = &feed->slot[ticket % feed->spec.slots];
    device_record_compute(feed->spec.device, slot->given);
    slot->given_ns = feed_now(feed);
}

static bool queue_copy(Feed *feed, int64_t ticket, const FeedSlot *before, Error *error)
{
    const FeedSpec *spec = &feed->spec;
    FeedEntry *entry = &feed->entry[ticket % feed->depth_count];
    int64_t bytes = feed_used_bytes(feed, &entry->place) + entry->place.count * (int64_t)sizeof(uint64_t);
    entry->meter.bytes[STAGE_COPY] = bytes;
    return device_copy_in(spec->device, feed->slot[ticket % spec->slots].device, entry->block->memory, bytes,
                          entry->place.step, false, before->given, entry->copied, error) ||
           error_prefix(error, "input stage 'copy'");
}

// Slots that nothing has used yet need no mark: their events passed when the ring was opened.
static bool may_be_copied(const Feed *feed, int64_t ticket)
{
    bool unused = feed->lag > 1 && ticket < feed->spec.slots;
    return ticket < least(feed->total, feed->failed) && (unused || ticket < feed->marked + feed->lag) &&
           feed->pinned > least(ticket + feed->ahead, feed->total - 1);
}

void ring_queue_copies(Feed *feed)
{
    const int64_t slots = feed->spec.slots;
    if (feed->copying)   // it looks again before it leaves
        return;
    for (int64_t ticket; may_be_copied(feed, ticket = feed->queued);) {
        const FeedSlot *before = &feed->slot[(ticket + slots - feed->lag) % slots];
        Error error = ERROR_INIT;
        feed_depth(feed, STAGE_PIN, feed->pinned - ticket);
        feed->copying = true;
        pthread_mutex_unlock(&feed->lock);
        bool good = feed->spec.resident || queue_copy(feed, ticket, before, &error);
        pthread_mutex_lock(&feed->lock);
        feed->copying = false;
        if (!good) {
            feed_fail(feed, ticket, &error);
            return;
        }
        int64_t late_ns =
            before->given_ns > 0 ? feed->entry[ticket % feed->depth_count].ready_ns - before->given_ns : 0;
        feed->meter[STAGE_COPY].blocked_in_ns += late_ns > 0 ? late_ns : 0;
        feed->meter[STAGE_COPY].blocked_out_ns += late_ns < 0 ? -late_ns : 0;
        feed->queued = ticket + 1;
        pthread_cond_signal(&feed->ready);
    }
}
