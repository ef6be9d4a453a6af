// input_feed_group_test - groups of batches that are copied as one, on a device that runs behind the host
// too: the same bytes in the same order for any group, nothing overwritten early, digests that would tell.
#include "input_feed_fixture.h"

#include <async_backend.h>

enum {
    EPOCHS = 3,
    BATCHES = 12,   // of an epoch: 11 whole and a remainder of 16 rows
    SLOTS_MOST = 8
};

static void expect(FeedBench *b, Seen *seen)   // what batches one by one are
{
    FeedSpec spec = b->spec;
    Error *error = &b->bench.error;
    FeedBatch batch;
    int64_t wait_ns, exposed_ns;
    memset(seen, 0, sizeof *seen);
    spec.group = 0;
    spec.resident = false;
    Feed *feed = feed_open(&spec, error);
    ck_assert_msg(feed != NULL, "%s", error->message);
    while (feed_next(feed, &batch, &wait_ns, &exposed_ns, error) == 1) {
        feed_compute_begins(feed, &batch);
        take_batch(b->maps, &batch, seen);
        if (batch.last_of_epoch)
            feed_epoch_digest(feed, &seen->epoch_rows[batch.epoch], &seen->epoch_digest[batch.epoch]);
        feed_release(feed, &batch);
    }
    ck_assert_msg(error->kind == ERROR_NONE, "%s", error->message);
    feed_close(feed);
}

// Compute of one batch: it looks at the batch when its turn comes on the device, in place of an operation.
typedef struct Look {
    FeedBatch batch;
    const Maps *maps;
    Seen *seen;
    uint64_t ids[BATCH];
} Look;

static void look_now(void *device, const float *made, int64_t compute_ns, int64_t *total)
{
    (void)device;
    (void)total;
    Look *look = (Look *)(uintptr_t)made;
    clock_sleep_ns(clock_real(), compute_ns);
    take_batch(look->maps, &look->batch, look->seen);
    free(look);
}

static void look(const FeedBench *b, const FeedBatch *batch, Seen *seen, int64_t compute_ns)
{
    Look *made = malloc(sizeof *made);
    ck_assert(made != NULL);
    *made = (Look){.batch = *batch, .maps = b->maps, .seen = seen};
    memcpy(made->ids, batch->row_id, (size_t)batch->rows * sizeof made->ids[0]);
    made->batch.row_id = made->ids;
    device_count_nonfinite(b->device, (const float *)(const void *)made, compute_ns, NULL);
}

static int64_t copies_left = -1;   // then none can be queued; -1: never
static bool (*queue_copy)(void *device, const FedgateCopy *copy, char *ret_reason);

static bool copy_in(void *device, const FedgateCopy *copy, char *ret_reason)
{
    if (copies_left != 0) {   // under the lock of the feed
        copies_left -= copies_left > 0;
        return queue_copy(device, copy, ret_reason);
    }
    snprintf(ret_reason, FEDGATE_REASON_SIZE, "no room for a copy");
    return false;
}

static void settle(void *device, const FedgateSettle *op)   // the device can hang there
{
    (void)device;
    (void)op;
}

static const FedgateBackend *backend_with(bool asynchronous, AsyncOptions options)
{
    static FedgateBackend inner, outer;
    inner = fedgate_backend;
    inner.count_nonfinite = look_now;
    inner.settle = settle;
    outer = asynchronous ? *async_backend(&inner, &options) : inner;
    queue_copy = outer.copy_in;
    outer.copy_in = copy_in;
    return &outer;
}

static const FedgateBackend *backend_of(bool asynchronous)
{
    return backend_with(asynchronous, (AsyncOptions){0});
}

// Groups are as the contract says, whatever comes next.
typedef struct Shapes {
    const float *address[SLOTS_MOST][FEED_GROUP];
    int64_t step, groups, smaller;
} Shapes;

static void check_group(const FeedSpec *spec, const FeedGroup *group, Shapes *shapes)
{
    int64_t size = spec->group > 0 ? spec->group : 1;
    ck_assert(group->count >= 1 && group->count <= size && group->slot < spec->slots);
    ck_assert(group->full == (group->count == size && group->batch[group->count - 1].rows == BATCH));
    for (int64_t i = 0; i < group->count; i++) {
        const FeedBatch *batch = &group->batch[i];
        ck_assert_int_eq(batch->step, shapes->step++);
        ck_assert_int_eq(batch->epoch, group->batch[0].epoch);
        ck_assert_int_eq(batch->index, group->batch[0].index + i);
        ck_assert(batch->rows == BATCH || group->count == 1);
        ck_assert(batch->last_of_epoch == (batch->index == BATCHES - 1));
        ck_assert_uint_eq((uintptr_t)batch->numeric % 64, 0);
        ck_assert(batch->device_digest == group->batch[0].device_digest + i);
        const float **address = &shapes->address[group->slot][i];
        ck_assert(!group->full || !*address || *address == batch->numeric);
        if (group->full)
            *address = batch->numeric;
    }
    shapes->groups++;
    shapes->smaller += !group->full;
}

static void run_groups(FeedBench *b, int64_t compute_ns, Seen *seen, Shapes *ret_shapes)
{
    Error *error = &b->bench.error;
    Shapes shapes = {0};
    memset(seen, 0, sizeof *seen);
    Feed *feed = feed_open(&b->spec, error);
    ck_assert_msg(feed != NULL, "%s", error->message);
    static FeedGroup group;
    int64_t wait_ns, exposed_ns;
    int got;
    while ((got = feed_next_group(feed, &group, &wait_ns, &exposed_ns, error)) == 1) {
        check_group(&b->spec, &group, &shapes);
        ck_assert(wait_ns >= 0 && exposed_ns >= 0);
        ck_assert(exposed_ns == 0 || !device_info(b->device)->asynchronous);
        for (int64_t i = 0; i < group.count; i++)
            look(b, &group.batch[i], seen, compute_ns);
        const FeedBatch *last = &group.batch[group.count - 1];
        if (last->last_of_epoch)
            feed_epoch_digest(feed, &seen->epoch_rows[last->epoch], &seen->epoch_digest[last->epoch]);
        feed_group_given(feed, &group);
    }
    ck_assert_msg(got == 0, "%s", error->message);
    ASSERT_OK(device_synchronise(b->device, error), error);
    feed_close(feed);
    *ret_shapes = shapes;
}

// -- the same batches

static const struct {
    int group, workers, prefetch, slots;
    const char *rows;
} sizes[] = {
    {0, 1, 1, 2, "text"},   {1, 2, 4, 3, "memory"},   {2, 8, 1, 2, "text"},    {3, 4, 4, 3, "memory"},
    {4, 3, 9, 3, "memory"}, {5, 5, 2, 4, "text"},     {10, 2, 4, 3, "memory"}, {11, 6, 40, 2, "memory"},
    {12, 7, 4, 3, "text"},  {64, 8, 64, 2, "memory"},
};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static FeedBench bench_of_size(int i, bool asynchronous)
{
    char set[64];
    snprintf(set, sizeof set, "input.rows=%s", sizes[i].rows);
    FeedBench b = feed_bench_on(backend_of(asynchronous), set);
    b.spec.group = sizes[i].group;
    b.spec.workers = sizes[i].workers;
    b.spec.prefetch = sizes[i].prefetch;
    b.spec.slots = sizes[i].slots;
    return b;
}

START_TEST(groups_of_any_size_hold_the_same_batches)
{
    bool asynchronous = _i >= SIZES;
    FeedBench b = bench_of_size(_i % SIZES, asynchronous);
    static Seen one, grouped;
    Shapes shapes;
    b.spec.augment_noise = 0.1;
    expect(&b, &one);
    ck_assert_uint_eq(one.batches, EPOCHS * BATCHES);
    run_groups(&b, 100000, &grouped, &shapes);
    ck_assert_int_eq(memcmp(&one, &grouped, sizeof one), 0);
    ck_assert_uint_eq(grouped.wrong, 0);
    int64_t size = b.spec.group > 0 ? b.spec.group : 1;
    ck_assert_int_eq(shapes.groups, EPOCHS * ((BATCHES - 1 + size - 1) / size + 1));
    ck_assert_int_eq(shapes.smaller, EPOCHS * (1 + ((BATCHES - 1) % size != 0)));
    feed_bench_done(&b);
}
END_TEST

START_TEST(a_resumed_feed_of_groups_goes_on_at_any_batch)
{
    static const int groups[] = {1, 3, 5, 64};
    FeedBench b = feed_bench_on(backend_of(false), "input.rows=memory");
    static Seen whole, rest;
    Shapes shapes;
    b.spec.group = groups[_i];
    expect(&b, &whole);
    for (size_t done = 0; done <= EPOCHS * BATCHES; done++) {
        b.spec.epoch = (int64_t)(done / BATCHES);
        b.spec.position = (int64_t)(done % BATCHES);
        run_groups(&b, 0, &rest, &shapes);
        size_t skipped = done / BATCHES * 720 + done % BATCHES * BATCH;
        ck_assert_uint_eq(rest.rows, whole.rows - skipped);
        ck_assert_int_eq(memcmp(rest.ids, whole.ids + skipped, rest.rows * 8), 0);
        ck_assert_uint_eq(rest.wrong, 0);
        for (size_t e = done / BATCHES; e < EPOCHS; e++) {
            ck_assert_int_eq(rest.epoch_rows[e], 720);
            ck_assert_uint_eq(rest.epoch_digest[e], whole.epoch_digest[e]);
        }
    }
    feed_bench_done(&b);
}
END_TEST

// Slow copies and slow compute in turn: whoever overwrites early is seen.
START_TEST(nothing_is_overwritten_before_its_time)
{
    static const int64_t paces[][2] = {{3000000, 0}, {0, 1000000}, {1000000, 300000}};   // copy, compute
    const FedgateBackend *backend = backend_with(true, (AsyncOptions){.copy_ns = paces[_i][0]});
    FeedBench b = feed_bench_on(backend, "input.rows=memory");
    static Seen one, grouped;
    Shapes shapes;
    expect(&b, &one);
    b.spec.group = 3;
    b.spec.workers = 4;
    b.spec.slots = 2 + _i % 2;
    run_groups(&b, paces[_i][1], &grouped, &shapes);
    ck_assert_int_eq(memcmp(&one, &grouped, sizeof one), 0);
    feed_bench_done(&b);
}
END_TEST

START_TEST(batches_without_a_remainder_make_no_smaller_group)
{
    FeedBench b = feed_bench_on(backend_of(false), NULL);
    static Seen one, grouped;
    Shapes shapes;
    b.spec.batch = 60;   // 12 whole batches
    b.spec.group = 4;
    expect(&b, &one);
    Error *error = &b.bench.error;
    Feed *feed = feed_open(&b.spec, error);
    static FeedGroup group;
    int64_t wait_ns, exposed_ns, groups = 0;
    memset(&grouped, 0, sizeof grouped);
    while (feed_next_group(feed, &group, &wait_ns, &exposed_ns, error) == 1) {
        ck_assert(group.full && group.count == 4);
        for (int64_t i = 0; i < group.count; i++)
            take_batch(b.maps, &group.batch[i], &grouped);
        feed_group_given(feed, &group);
        groups++;
    }
    ck_assert_int_eq(groups, EPOCHS * 3);
    ck_assert_uint_eq(grouped.digest, one.digest);
    feed_close(feed);
    b.spec.batch = BATCH;
    b.spec.group = 8;
    run_groups(&b, 0, &grouped, &shapes);
    ck_assert_int_eq(shapes.smaller, EPOCHS * 2);
    feed_bench_done(&b);
}
END_TEST

// -- what is taken, what is counted

START_TEST(a_feed_takes_what_its_formula_says)
{
    FeedBench b = feed_bench_on(backend_of(false), "input.rows=memory");
    Error *error = &b.bench.error;
    b.spec.group = 5;
    b.spec.resident = _i == 1;
    FeedMemory memory = feed_memory(&b.spec, maps_numeric(b.maps), maps_categorical(b.maps), 720);
    ck_assert_int_eq(memory.slots, 3 * (5 * (64 * 12 + 64 * 4 + 64 * 4) + 64));
    ck_assert_int_eq(memory.ring, b.spec.resident ? 0 : 4 * (5 * (64 * 12 + 64 * 4 + 64 * 4) + 64));
    int64_t device_before = ledger_live(b.bench.ledger, LEDGER_DEVICE);
    Feed *feed = feed_open(&b.spec, error);
    ck_assert_msg(feed != NULL, "%s", error->message);
    ck_assert_int_eq(ledger_live(b.bench.ledger, LEDGER_DEVICE) - device_before,
                     memory.slots + memory.rows + memory.order);
    ck_assert_int_eq(ledger_live(b.bench.ledger, LEDGER_PINNED), memory.ring);
    ck_assert((memory.rows >= 720 * 20 && memory.order >= 3 * 720 * 4) == b.spec.resident);
    feed_close(feed);
    feed_bench_done(&b);
}
END_TEST

START_TEST(stages_count_batches_and_copies_go_by_groups)
{
    FeedBench b = feed_bench_on(backend_of(false), "input.rows=memory");
    Error *error = &b.bench.error;
    Timeline *timeline = timeline_new(1000);
    device_trace(b.device, timeline);
    b.spec.epochs = 1;
    b.spec.group = 4;
    Feed *feed = feed_open(&b.spec, error);
    static FeedGroup group;
    int64_t wait_ns, exposed_ns, copied = 0;
    while (feed_next_group(feed, &group, &wait_ns, &exposed_ns, error) == 1)
        feed_group_given(feed, &group);
    const char *limiting = NULL;
    Json *stages = feed_stages(feed, &limiting);
    for (size_t s = 0; s < json_count(stages); s++)
        ck_assert_int_eq(json_integer_or(json_get(json_at(stages, s), "items"), -1), BATCHES);
    static const int64_t steps[] = {0, 4, 8, 11};
    device_trace(b.device, NULL);
    ck_assert_uint_eq(timeline_count(timeline), 4);
    for (size_t i = 0; i < timeline_count(timeline); i++) {
        const Span *span = &timeline_spans(timeline)[i];
        ck_assert(span->kind == SPAN_COPY_H2D && span->step == steps[i] && !span->pageable);
        copied += span->bytes;
    }
    ck_assert_int_eq(copied, json_integer_or(json_get(json_at(stages, 5), "bytes"), -1));
    FeedBatch batch;
    ck_assert_int_eq(feed_next(feed, &batch, &wait_ns, &exposed_ns, error), -1);
    ck_assert_int_eq(error->kind, ERROR_INTERNAL);
    error_clear(error);
    json_free(stages);
    feed_close(feed);
    timeline_free(timeline);
    feed_bench_done(&b);
}
END_TEST

static void await_copies(const Timeline *timeline, size_t count)
{
    for (int tries = 0; tries < 400 && timeline_count(timeline) < count; tries++)
        clock_sleep_ns(clock_real(), 5000000);
    clock_sleep_ns(clock_real(), 20000000);   // time for one too many
    ck_assert_uint_eq(timeline_count(timeline), count);
}

// The slot of a group is copied into from the mark inside the next one on; without a mark, from its end.
START_TEST(copies_run_ahead_as_far_as_there_are_slots)
{
    FeedBench b = feed_bench_on(backend_of(false), "input.rows=memory");
    Error *error = &b.bench.error;
    Timeline *timeline = timeline_new(1000);
    device_trace(b.device, timeline);
    b.spec.group = 2;
    Feed *feed = feed_open(&b.spec, error);
    static FeedGroup group;
    int64_t wait_ns, exposed_ns;
    await_copies(timeline, 1);   // before it is known that groups are asked for
    const size_t slots = (size_t)b.spec.slots;
    for (size_t taken = 1; taken <= 4; taken++) {
        ck_assert_int_eq(feed_next_group(feed, &group, &wait_ns, &exposed_ns, error), 1);
        await_copies(timeline, taken == 1 ? slots : taken + slots - 2);
        if (_i == 1) {
            feed_group_mark(feed, &group);
            feed_group_begun(feed, &group);
            await_copies(timeline, taken + slots - 1);
        }
        feed_group_given(feed, &group);
        await_copies(timeline, taken + slots - 1);
    }
    device_trace(b.device, NULL);
    feed_close(feed);
    timeline_free(timeline);
    feed_bench_done(&b);
}
END_TEST

START_TEST(a_group_too_large_is_refused)
{
    FeedBench b = feed_bench_on(backend_of(false), NULL);
    b.spec.group = FEED_GROUP + 1;
    ASSERT_FAILS(feed_open(&b.spec, &b.bench.error) != NULL, &b.bench.error, ERROR_INTERNAL, "groups of 65");
    feed_bench_done(&b);
}
END_TEST

// -- resident

START_TEST(rows_that_lie_on_the_device_are_the_same_batches)
{
    static const int groups[] = {1, 3, 64};
    bool asynchronous = _i % 2 == 1, parts = _i >= 6;   // parts: the order of one epoch at a time
    char set[] = "input.rows=memory";
    FeedBench b = feed_bench_on(backend_of(asynchronous), _i % 4 < 2 ? set : "input.rows=text");
    static Seen one, grouped;
    Shapes shapes;
    expect(&b, &one);
    Timeline *timeline = timeline_new(1000);
    b.spec.resident = true;
    b.spec.group = groups[_i / 2 % 3];
    if (parts) {
        FeedSpec spec = b.spec;
        spec.epochs = 400000;   // 1.15 GB of order
        FeedMemory memory = feed_memory(&spec, 3, 1, 720);
        ck_assert_int_lt(memory.order, 10000);
        b.spec = spec;
    }
    if (!parts) {
        run_groups(&b, 100000, &grouped, &shapes);
        ck_assert_int_eq(memcmp(&one, &grouped, sizeof one), 0);
    } else {
        Error *error = &b.bench.error;
        static FeedGroup group;
        int64_t wait_ns, exposed_ns;
        memset(&grouped, 0, sizeof grouped);
        Feed *feed = feed_open(&b.spec, error);
        ck_assert_msg(feed != NULL, "%s", error->message);
        device_trace(b.device, timeline);
        while (grouped.rows < one.rows) {
            ck_assert_int_eq(feed_next_group(feed, &group, &wait_ns, &exposed_ns, error), 1);
            for (int64_t i = 0; i < group.count; i++)
                look(&b, &group.batch[i], &grouped, 0);
            feed_group_given(feed, &group);
            ASSERT_OK(device_synchronise(b.device, error), error);
        }
        device_trace(b.device, NULL);
        feed_close(feed);
        ck_assert_uint_eq(grouped.digest, one.digest);
        ck_assert_uint_eq(grouped.wrong, 0);
    }
    for (size_t i = 0; i < timeline_count(timeline); i++) {   // two loads for each epoch after the first
        const Span *span = &timeline_spans(timeline)[i];
        ck_assert(span->kind != SPAN_COPY_H2D || span->bytes <= 720 * 4);
    }
    timeline_free(timeline);
    feed_bench_done(&b);
}
END_TEST

START_TEST(nothing_is_copied_while_resident_rows_are_trained_on)
{
    FeedBench b = feed_bench_on(backend_of(false), NULL);
    Error *error = &b.bench.error;
    Timeline *timeline = timeline_new(1000);
    b.spec.resident = true;
    Feed *feed = feed_open(&b.spec, error);
    ck_assert_msg(feed != NULL, "%s", error->message);
    device_trace(b.device, timeline);
    FeedBatch batch;
    int64_t wait_ns, exposed_ns;
    static Seen seen;
    memset(&seen, 0, sizeof seen);
    while (feed_next(feed, &batch, &wait_ns, &exposed_ns, error) == 1) {   // one by one as well
        feed_compute_begins(feed, &batch);
        take_batch(b.maps, &batch, &seen);
        feed_release(feed, &batch);
    }
    device_trace(b.device, NULL);
    ck_assert_uint_eq(timeline_count(timeline), EPOCHS * BATCHES);
    for (size_t i = 0; i < timeline_count(timeline); i++)
        ck_assert(timeline_spans(timeline)[i].kind == SPAN_KERNEL);
    ck_assert_uint_eq(seen.wrong, 0);
    const char *limiting;
    Json *stages = feed_stages(feed, &limiting), *resources = feed_resources(feed);
    ck_assert(json_bool_or(json_get(json_at(stages, 5), "resident"), false));
    ck_assert_int_eq(json_integer_or(json_get(json_at(stages, 5), "bytes"), -1), 0);
    ck_assert_int_gt(json_integer_or(json_get(resources, "device_rows_bytes"), -1), 720 * 20);
    json_free(stages);
    json_free(resources);
    feed_close(feed);
    b.spec.augment_noise = 0.1;
    ASSERT_FAILS(feed_open(&b.spec, error) != NULL, error, ERROR_CONFIG, "input.augment_noise");
    b.spec.augment_noise = 0;
    ledger_set_budget(b.bench.ledger, LEDGER_DEVICE, 20000);
    ASSERT_FAILS(feed_open(&b.spec, error) != NULL, error, ERROR_MEMORY, "input.order");
    timeline_free(timeline);
    feed_bench_done(&b);
}
END_TEST

// -- a device that stands still

START_TEST(a_device_that_stands_still_is_told_and_does_not_hold_up_the_end)
{
    static FeedBench b;   // what a hung device may still use is kept
    static Feed *feed;
    static FeedGroup group;
    b = feed_bench_on(backend_with(true, (AsyncOptions){.hang_at = 1}), "input.rows=memory");
    Error *error = &b.bench.error;
    b.spec.group = 2;
    b.spec.stall_ns = 100000000;
    feed = feed_open(&b.spec, error);
    ck_assert_msg(feed != NULL, "%s", error->message);
    int64_t wait_ns, exposed_ns, given = 0;
    int got;
    device_settle(b.device, &(FedgateSettle){0});
    while ((got = feed_next_group(feed, &group, &wait_ns, &exposed_ns, error)) == 1) {
        feed_group_given(feed, &group);
        ck_assert_int_lt(++given, 20);
    }
    ck_assert_int_eq(got, -1);
    ck_assert_int_eq(error->kind, ERROR_DEVICE);
    ck_assert_msg(
        strstr(error->message, "input stage 'copy' is stuck for more than 100 ms: the copy of batch"), "%s",
        error->message);
    int64_t begin_ns = clock_monotonic_ns(clock_real());
    feed_close(feed);
    ck_assert_int_lt(clock_monotonic_ns(clock_real()) - begin_ns,
                     3000000000);   // a second is meant; the machine may be busy
    async_release();
    error_clear(error);
    ASSERT_OK(device_synchronise(b.device, error), error);
}
END_TEST

START_TEST(a_copy_that_cannot_be_queued_ends_the_feed_after_those_before)
{
    FeedBench b = feed_bench_on(backend_of(true), "input.rows=memory");
    Error *error = &b.bench.error;
    static FeedGroup group;
    int64_t wait_ns, exposed_ns, taken = 0;
    int got;
    b.spec.group = 2;
    copies_left = 4;
    Feed *feed = feed_open(&b.spec, error);
    while ((got = feed_next_group(feed, &group, &wait_ns, &exposed_ns, error)) == 1) {
        feed_group_given(feed, &group);
        taken++;
    }
    ck_assert_int_eq(got, -1);
    ck_assert_int_eq(taken, 4);
    ck_assert_int_eq(error->kind, ERROR_DEVICE);
    ck_assert_msg(strstr(error->message, "input stage 'copy': could not queue a copy of") &&
                      strstr(error->message, "no room for a copy"),
                  "%s", error->message);
    error_clear(error);
    feed_close(feed);
    feed_bench_done(&b);
}
END_TEST

// -- planted

#ifdef FEDGATE_FAULTS
START_TEST(a_slot_refilled_early_leaves_other_digests_on_the_device)
{
    FeedBench b = feed_bench_on(backend_of(_i % 2 == 1), "input.rows=memory");
    static Seen one, grouped;
    Shapes shapes;
    expect(&b, &one);
    setenv("FEDGATE_FAULT", "feed.refill_early=1", 1);
    b.spec.group = _i < 2 ? 1 : 4;
    run_groups(&b, 0, &grouped, &shapes);
    ck_assert_uint_gt(grouped.wrong, EPOCHS * BATCHES / 2);
    ck_assert_uint_ne(grouped.digest, one.digest);
    ck_assert_int_eq(memcmp(grouped.ids, one.ids, one.rows * 8), 0);   // the host notices nothing by itself
    ck_assert_int_eq(memcmp(grouped.epoch_digest, one.epoch_digest, sizeof one.epoch_digest), 0);
    expect(&b, &grouped);   // batches one by one too
    ck_assert_uint_gt(grouped.wrong, EPOCHS * BATCHES / 2);
    unsetenv("FEDGATE_FAULT");
    feed_bench_done(&b);
}
END_TEST
#endif

static Suite *suite(void)
{
    Suite *s = suite_create("input feed groups");
    TCase *t = tcase_create("groups");
    tcase_add_loop_test(t, groups_of_any_size_hold_the_same_batches, 0, 2 * SIZES);
    tcase_add_loop_test(t, a_resumed_feed_of_groups_goes_on_at_any_batch, 0, 4);
    tcase_add_loop_test(t, nothing_is_overwritten_before_its_time, 0, 3);
    tcase_add_test(t, batches_without_a_remainder_make_no_smaller_group);
    tcase_add_loop_test(t, a_feed_takes_what_its_formula_says, 0, 2);
    tcase_add_test(t, stages_count_batches_and_copies_go_by_groups);
    tcase_add_loop_test(t, copies_run_ahead_as_far_as_there_are_slots, 0, 2);
    tcase_add_test(t, a_group_too_large_is_refused);
    tcase_add_loop_test(t, rows_that_lie_on_the_device_are_the_same_batches, 0, 12);
    tcase_add_test(t, nothing_is_copied_while_resident_rows_are_trained_on);
    tcase_add_test(t, a_device_that_stands_still_is_told_and_does_not_hold_up_the_end);
    tcase_add_test(t, a_copy_that_cannot_be_queued_ends_the_feed_after_those_before);
#ifdef FEDGATE_FAULTS
    tcase_add_loop_test(t, a_slot_refilled_early_leaves_other_digests_on_the_device, 0, 4);
#endif
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    SRunner *r = srunner_create(suite());
    srunner_run_all(r, CK_ENV);
    int bad = srunner_ntests_failed(r);
    srunner_free(r);
    return bad != 0;
}
