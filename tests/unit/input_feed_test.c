// input_feed_test - the staged loader: the same batches for any workers, each row once an epoch, resume,
// errors, and a quick end.
#include "input_feed_fixture.h"

#include <math.h>
#include <unistd.h>

static void run_feed(FeedBench *b, size_t most, Seen *seen)
{
    Error *error = &b->bench.error;
    Feed *feed = feed_open(&b->spec, error);
    ck_assert_msg(feed != NULL, "%s", error->message);
    FeedBatch batch;
    int64_t wait_ns, exposed_ns;
    int got = 0;
    while (seen->batches < most && (got = feed_next(feed, &batch, &wait_ns, &exposed_ns, error)) == 1) {
        feed_compute_begins(feed, &batch);
        take_batch(b->maps, &batch, seen);
        ck_assert(wait_ns >= 0 && exposed_ns >= 0);
        if (batch.last_of_epoch)
            feed_epoch_digest(feed, &seen->epoch_rows[batch.epoch], &seen->epoch_digest[batch.epoch]);
        feed_release(feed, &batch);
    }
    ck_assert_msg(got >= 0, "%s", error->message);
    ck_assert_uint_eq(seen->wrong, 0);
    feed_close(feed);
}

static int compare_ids(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

// -- order

typedef struct Shape {
    int workers, prefetch, slots;
} Shape;
static const Shape shapes[] = {{1, 1, 2}, {1, 4, 3}, {2, 1, 2}, {2, 3, 5},
                               {3, 8, 2}, {4, 4, 4}, {8, 2, 3}, {8, 32, 16}};

START_TEST(batches_are_the_same_for_any_workers_prefetch_and_slots)
{
    FeedBench b = feed_bench("data.transform=quantile-normal");
    static Seen first, other;
    memset(&first, 0, sizeof first);
    memset(&other, 0, sizeof other);
    b.spec.augment_noise = 0.1;
    b.spec.workers = 1;
    b.spec.prefetch = 1;
    b.spec.slots = 2;
    run_feed(&b, SIZE_MAX, &first);
    b.spec.workers = shapes[_i].workers;
    b.spec.prefetch = shapes[_i].prefetch;
    b.spec.slots = shapes[_i].slots;
    run_feed(&b, SIZE_MAX, &other);
    ck_assert_uint_eq(first.batches, 3 * 12);
    ck_assert_uint_eq(first.rows, 3 * 720);
    ck_assert_uint_eq(other.digest, first.digest);
    ck_assert_int_eq(memcmp(&other, &first, sizeof first), 0);
    feed_bench_done(&b);
}
END_TEST

START_TEST(each_row_comes_exactly_once_an_epoch_in_a_new_order)
{
    FeedBench b = feed_bench(NULL);
    static Seen seen, again;
    memset(&seen, 0, sizeof seen);
    memset(&again, 0, sizeof again);
    run_feed(&b, SIZE_MAX, &seen);
    uint64_t sorted[3][720];
    for (size_t e = 0; e < 3; e++) {
        ck_assert_int_eq(seen.epoch_rows[e], 720);
        ck_assert_uint_eq(seen.epoch_digest[e], seen.epoch_digest[0]);
        memcpy(sorted[e], seen.ids + e * 720, sizeof sorted[e]);
        qsort(sorted[e], 720, sizeof(uint64_t), compare_ids);
        ck_assert_int_eq(memcmp(sorted[e], sorted[0], sizeof sorted[e]), 0);
    }
    for (size_t i = 1; i < 720; i++)
        ck_assert(sorted[0][i] != sorted[0][i - 1]);
    ck_assert_int_ne(memcmp(seen.ids, seen.ids + 720, 720 * 8), 0);
    run_feed(&b, SIZE_MAX, &again);
    ck_assert_uint_eq(again.digest, seen.digest);
    memset(&again, 0, sizeof again);
    b.spec.seed = 8;
    run_feed(&b, SIZE_MAX, &again);
    ck_assert_uint_ne(again.digest, seen.digest);
    ck_assert_uint_eq(again.epoch_digest[2], seen.epoch_digest[0]);
    feed_bench_done(&b);
}
END_TEST

START_TEST(unshuffled_rows_come_in_row_order)
{
    FeedBench b = feed_bench(NULL);
    static Seen seen;
    memset(&seen, 0, sizeof seen);
    b.spec.shuffle = false;
    b.spec.split = SPLIT_TEST;
    b.spec.epochs = 1;
    b.spec.augment_noise = 5;   // of training rows only
    run_feed(&b, SIZE_MAX, &seen);
    Table table;
    ASSERT_OK(dataset_decode(b.dataset, b.maps, SPLIT_TEST, b.bench.ledger, &table, &b.bench.error),
              &b.bench.error);
    ck_assert_uint_eq(seen.rows, 200);
    ck_assert_int_eq(memcmp(seen.ids, table.row_id, 200 * 8), 0);
    char id[32];
    for (size_t i = 0; i < 200; i++) {
        int length = snprintf(id, sizeof id, "%zu", 5 * i + 4);
        ck_assert_uint_eq(table.row_id[i], hash_row(id, (size_t)length));
    }
    table_done(&table);
    feed_bench_done(&b);
}
END_TEST

START_TEST(a_batch_larger_than_the_rows_is_one_short_batch)
{
    FeedBench b = feed_bench(NULL);
    Error *error = &b.bench.error;
    b.spec.batch = 5000;
    b.spec.epochs = 2;
    Feed *feed = feed_open(&b.spec, error);
    ck_assert_msg(feed != NULL, "%s", error->message);
    FeedBatch batch;
    int64_t wait_ns, exposed_ns;
    for (int64_t epoch = 0; epoch < 2; epoch++) {
        ck_assert_int_eq(feed_next(feed, &batch, &wait_ns, &exposed_ns, error), 1);
        ck_assert(batch.rows == 720 && batch.last_of_epoch && batch.epoch == epoch && batch.index == 0);
        feed_compute_begins(feed, &batch);
        feed_release(feed, &batch);
    }
    ck_assert_int_eq(feed_next(feed, &batch, &wait_ns, &exposed_ns, error), 0);
    ck_assert_int_eq(feed_next(feed, &batch, &wait_ns, &exposed_ns, error), 0);
    feed_close(feed);
    feed_bench_done(&b);
}
END_TEST

// -- what is in a batch

START_TEST(a_batch_holds_what_decoding_gives)
{
    FeedBench b = feed_bench("task=regression");
    Error *error = &b.bench.error;
    b.spec.shuffle = false;
    Table table;
    ASSERT_OK(dataset_decode(b.dataset, b.maps, SPLIT_TRAIN, b.bench.ledger, &table, error), error);
    double mean, deviation;
    maps_target(b.maps, &mean, &deviation);
    ck_assert(deviation > 0 && deviation < 1);
    Feed *feed = feed_open(&b.spec, error);
    FeedBatch batch;
    int64_t wait_ns, exposed_ns;
    ck_assert_int_eq(feed_next(feed, &batch, &wait_ns, &exposed_ns, error), 1);
    float x[BATCH * 3], target[BATCH];
    int32_t codes[BATCH];
    ck_assert_uint_eq(maps_numeric(b.maps), 3);   // a, b, and b is missing
    ASSERT_OK(device_copy_out(b.device, x, batch.numeric, sizeof x, error), error);
    ASSERT_OK(device_copy_out(b.device, codes, batch.codes, sizeof codes, error), error);
    ASSERT_OK(device_copy_out(b.device, target, batch.target, sizeof target, error), error);
    ck_assert_int_eq(memcmp(x, table.x, sizeof x), 0);
    ck_assert_int_eq(memcmp(codes, table.codes, sizeof codes), 0);
    for (size_t i = 0; i < BATCH; i++)
        ck_assert(target[i] == (float)((table.target[i] - mean) / deviation));
    feed_close(feed);
    table_done(&table);
    feed_bench_done(&b);
}
END_TEST

START_TEST(noise_differs_by_epoch_and_leaves_flags_alone)
{
    FeedBench b = feed_bench(NULL);
    Error *error = &b.bench.error;
    b.spec.shuffle = false;
    b.spec.augment_noise = 0.5;
    b.spec.batch = 720;
    float x[2][720 * 3];
    Table table;
    ASSERT_OK(dataset_decode(b.dataset, b.maps, SPLIT_TRAIN, b.bench.ledger, &table, error), error);
    Feed *feed = feed_open(&b.spec, error);
    for (int e = 0; e < 2; e++) {
        FeedBatch batch;
        int64_t wait_ns, exposed_ns;
        ck_assert_int_eq(feed_next(feed, &batch, &wait_ns, &exposed_ns, error), 1);
        feed_compute_begins(feed, &batch);
        ASSERT_OK(device_copy_out(b.device, x[e], batch.numeric, sizeof x[e], error), error);
        feed_release(feed, &batch);
    }
    double sum = 0, square = 0;
    for (size_t i = 0; i < 720; i++) {
        ck_assert(x[0][3 * i] != x[1][3 * i]);
        ck_assert(x[0][3 * i + 1] == table.x[3 * i + 1]);   // b is constant where it is there
        ck_assert(x[0][3 * i + 2] == table.x[3 * i + 2]);
        double noise = (double)x[0][3 * i] - (double)table.x[3 * i];
        sum += noise / 720;
        square += noise * noise / 720;
    }
    ck_assert(fabs(sum) < 0.1 && fabs(sqrt(square) - 0.5) < 0.06);
    feed_close(feed);
    table_done(&table);
    feed_bench_done(&b);
}
END_TEST

// -- resume

START_TEST(a_resumed_feed_goes_on_where_it_stopped)
{
    FeedBench b = feed_bench(NULL);
    static Seen whole, rest;
    memset(&whole, 0, sizeof whole);
    run_feed(&b, SIZE_MAX, &whole);
    for (size_t done = 0; done <= 36; done += 4) {   // 12 batches an epoch: middles, beginnings and ends
        memset(&rest, 0, sizeof rest);
        b.spec.epoch = (int64_t)done / 12;
        b.spec.position = (int64_t)done % 12;
        if (done == 24) {   // the end of an epoch said the other way
            b.spec.epoch = 1;
            b.spec.position = 12;
        }
        run_feed(&b, SIZE_MAX, &rest);
        size_t skipped = done / 12 * 720 + done % 12 * BATCH;
        ck_assert_uint_eq(rest.rows, whole.rows - skipped);
        ck_assert_int_eq(memcmp(rest.ids, whole.ids + skipped, rest.rows * 8), 0);
        for (size_t e = done / 12; e < 3; e++) {
            ck_assert_int_eq(rest.epoch_rows[e], 720);
            ck_assert_uint_eq(rest.epoch_digest[e], whole.epoch_digest[e]);
        }
    }
    feed_bench_done(&b);
}
END_TEST

// -- stages, copies, resources

START_TEST(stages_are_counted_and_the_slowest_is_named)
{
    FeedBench b = feed_bench(NULL);
    Error *error = &b.bench.error;
    Timeline *timeline = timeline_new(1000);
    device_trace(b.device, timeline);
    b.spec.epochs = 1;
    Feed *feed = feed_open(&b.spec, error);
    FeedBatch batch;
    int64_t wait_ns, exposed_ns;
    while (feed_next(feed, &batch, &wait_ns, &exposed_ns, error) == 1) {
        feed_compute_begins(feed, &batch);
        feed_release(feed, &batch);
    }
    static const char *const names[] = {"read", "decode", "augment", "collate", "pin", "copy"};
    const char *limiting = NULL;
    Json *stages = feed_stages(feed, &limiting), *resources = feed_resources(feed);
    ck_assert_uint_eq(json_count(stages), 6);
    for (size_t s = 0; s < 6; s++) {
        const Json *stage = json_at(stages, s);
        ck_assert_str_eq(json_text_or(json_get(stage, "name"), ""), names[s]);
        ck_assert_int_eq(json_integer_or(json_get(stage, "items"), -1), 12);
        ck_assert_int_gt(json_integer_or(json_get(stage, "bytes"), -1), 720 * 10);
        ck_assert_int_ge(json_integer_or(json_get(stage, "depth_max"), -1),
                         json_integer_or(json_get(stage, "depth_p50"), 99));
        ck_assert(s > 3 || json_integer_or(json_get(stage, "threads"), -1) == 2);
    }
    ck_assert_int_gt(json_integer_or(json_get(json_at(stages, 1), "busy_ns"), -1), 0);
    ck_assert(limiting && *limiting);
    ck_assert_int_gt(json_integer_or(json_get(resources, "resident_bytes"), 0), 1000000);
    ck_assert_int_gt(json_integer_or(json_get(resources, "open_files"), 0), 2);
    ck_assert_int_gt(json_integer_or(json_get(resources, "host_bytes"), 0), 4 * BATCH * 12);
    device_trace(b.device, NULL);
    int64_t copied = 0;
    for (size_t i = 0; i < timeline_count(timeline); i++) {
        const Span *span = &timeline_spans(timeline)[i];
        ck_assert(span->kind == SPAN_COPY_H2D && span->step == (int64_t)i && !span->pageable);
        copied += span->bytes;
    }
    ck_assert_int_eq(copied, json_integer_or(json_get(json_at(stages, 5), "bytes"), -1));
    json_free(stages);
    json_free(resources);
    feed_close(feed);
    timeline_free(timeline);
    feed_bench_done(&b);
}
END_TEST

// The copy of the next batch runs while this one is computed, and not before its computation begins.
START_TEST(a_copy_waits_for_the_computation_before_it)
{
    FeedBench b = feed_bench(NULL);
    Error *error = &b.bench.error;
    Timeline *timeline = timeline_new(1000);
    device_trace(b.device, timeline);
    Feed *feed = feed_open(&b.spec, error);
    FeedBatch batch;
    int64_t wait_ns, exposed_ns;
    for (size_t step = 0; step < 5; step++) {
        ck_assert_int_eq(feed_next(feed, &batch, &wait_ns, &exposed_ns, error), 1);
        clock_sleep_ns(clock_real(), 20000000);   // time enough for any number of copies
        ck_assert_uint_eq(timeline_count(timeline), step + 1);
        feed_compute_begins(feed, &batch);
        for (int tries = 0; tries < 200 && timeline_count(timeline) < step + 2; tries++)
            clock_sleep_ns(clock_real(), 5000000);
        ck_assert_uint_eq(timeline_count(timeline),
                          step + 2);   // before the batch is released or the next asked for
        feed_release(feed, &batch);
    }
    device_trace(b.device, NULL);
    feed_close(feed);
    timeline_free(timeline);
    feed_bench_done(&b);
}
END_TEST

START_TEST(too_little_host_memory_is_refused_before_it_is_taken)
{
    FeedBench b = feed_bench("input.host_memory=1MB");
    b.spec.prefetch = 1000;
    ck_assert(feed_open(&b.spec, &b.bench.error) == NULL);
    ck_assert_int_eq(b.bench.error.kind, ERROR_MEMORY);
    ck_assert_msg(strstr(b.bench.error.message, "input.host_memory"), "%s", b.bench.error.message);
    error_clear(&b.bench.error);
    b.spec.prefetch = 4;
    ledger_set_budget(b.bench.ledger, LEDGER_PINNED, 1000);
    ASSERT_FAILS(feed_open(&b.spec, &b.bench.error) != NULL, &b.bench.error, ERROR_MEMORY, "input.ring");
    feed_bench_done(&b);
}
END_TEST

// -- the end, and what goes wrong

START_TEST(a_feed_can_be_closed_at_any_time)
{
    FeedBench b = feed_bench(NULL);
    Error *error = &b.bench.error;
    for (int batches = 0; batches < 6; batches++) {
        Feed *feed = feed_open(&b.spec, error);
        FeedBatch batch;
        int64_t wait_ns, exposed_ns;
        for (int i = 0; i < batches; i++) {
            ck_assert_int_eq(feed_next(feed, &batch, &wait_ns, &exposed_ns, error), 1);
            if (i % 2 == 0)
                feed_compute_begins(feed, &batch);
            if (i < batches - 1)
                feed_release(feed, &batch);
        }
        int64_t begin_ns = clock_monotonic_ns(clock_real());
        feed_close(feed);
        ck_assert_int_lt(clock_monotonic_ns(clock_real()) - begin_ns,
                         3000000000);   // a second is meant; the machine may be busy
    }
    feed_close(NULL);
    feed_bench_done(&b);
}
END_TEST

// With 1 MB of host memory a quarter may hold files: this one is larger and is read through its descriptor.
static void write_large(FeedBench *b)
{
    SCOPED_TEXT file;
    text_init(&file, 1 << 20);
    text_add(&file, "id,a,b,c,y\n");
    for (int i = 0; i < ROWS; i++)
        text_add_format(&file, "%d,%d.5,%s,\"%c, x%-300d\",%d\n", i, i, i % 7 == 0 ? "NA" : "3", 'p' + i % 5,
                        i % 3, i % 2);
    bench_write(&b->bench, "d.csv", text_string(&file), file.length);
    maps_free(b->maps);
    dataset_close(b->dataset);
    b->dataset = bench_open(&b->bench);
    b->maps = maps_fit(b->dataset, b->bench.config, &b->bench.error);
    ck_assert_msg(b->maps != NULL, "%s", b->bench.error.message);
    b->spec.dataset = b->dataset;
    b->spec.maps = b->maps;
}

START_TEST(files_too_large_for_memory_give_the_same_batches)
{
    FeedBench b = feed_bench("input.host_memory=100MB");
    static Seen memory, descriptor;
    memset(&memory, 0, sizeof memory);
    memset(&descriptor, 0, sizeof descriptor);
    write_large(&b);
    ck_assert_int_gt(ledger_live(b.bench.ledger, LEDGER_HOST), 300000);
    run_feed(&b, SIZE_MAX, &memory);
    feed_bench_done(&b);
    b = feed_bench("input.host_memory=1MB");
    write_large(&b);
    ck_assert_int_lt(ledger_live(b.bench.ledger, LEDGER_HOST), 300000);
    run_feed(&b, SIZE_MAX, &descriptor);
    feed_bench_done(&b);
    ck_assert_int_eq(memcmp(&memory, &descriptor, sizeof memory), 0);
}
END_TEST

START_TEST(a_file_that_changes_under_the_feed_ends_it_with_stage_file_and_line)
{
    static const char *const words[] = {"input stage 'decode'", "input stage 'read'"};
    FeedBench b = feed_bench("input.host_memory=1MB");
    Error *error = &b.bench.error;
    write_large(&b);
    FILE *file = fopen(support_path(b.bench.folder, "d.csv"), "r+");
    for (int i = 0; i < 5000; i++)
        fputc('#', file);
    fclose(file);
    if (_i == 1)
        ck_assert_int_eq(truncate(support_path(b.bench.folder, "d.csv"), 5000), 0);
    Feed *feed = feed_open(&b.spec, error);
    FeedBatch batch;
    int64_t wait_ns, exposed_ns;
    int got = 1;
    while (got == 1)
        if ((got = feed_next(feed, &batch, &wait_ns, &exposed_ns, error)) == 1) {
            feed_compute_begins(feed, &batch);
            feed_release(feed, &batch);
        }
    ck_assert_int_eq(got, -1);
    ck_assert_int_eq(error->kind, ERROR_DATA);
    ck_assert_msg(strstr(error->message, words[_i]) && strstr(error->message, "d.csv', "), "%s",
                  error->message);
    error_clear(error);
    feed_close(feed);
    feed_bench_done(&b);
}
END_TEST

START_TEST(a_simulated_clock_gives_the_same_batches_and_no_times)
{
    FeedBench b = feed_bench(NULL);
    static Seen real, simulated;
    memset(&real, 0, sizeof real);
    memset(&simulated, 0, sizeof simulated);
    run_feed(&b, SIZE_MAX, &real);
    Clock *clock = clock_simulated(0);
    b.spec.clock = clock;
    run_feed(&b, SIZE_MAX, &simulated);
    ck_assert_int_eq(memcmp(&real, &simulated, sizeof real), 0);
    Feed *feed = feed_open(&b.spec, &b.bench.error);
    FeedBatch batch;
    int64_t wait_ns = -1, exposed_ns = -1;
    ck_assert_int_eq(feed_next(feed, &batch, &wait_ns, &exposed_ns, &b.bench.error), 1);
    ck_assert(wait_ns == 0 && exposed_ns == 0);
    feed_close(feed);
    clock_free(clock);
    feed_bench_done(&b);
}
END_TEST

#ifdef FEDGATE_FAULTS
START_TEST(a_stuck_worker_is_named_and_does_not_hold_up_the_end)
{
    FeedBench b = feed_bench(NULL);
    Error *error = &b.bench.error;
    setenv("FEDGATE_FAULT", "decode.slow_ns=30000000000", 1);
    b.spec.stall_ns = 100000000;
    Feed *feed = feed_open(&b.spec, error);
    FeedBatch batch;
    int64_t wait_ns, exposed_ns;
    ck_assert_int_eq(feed_next(feed, &batch, &wait_ns, &exposed_ns, error), -1);
    ck_assert_int_eq(error->kind, ERROR_UNAVAILABLE);
    ck_assert_msg(
        strstr(error->message, "input stage 'decode' is stuck for more than 100 ms at batch 0: data file '"),
        "%s", error->message);
    int64_t begin_ns = clock_monotonic_ns(clock_real());
    feed_close(feed);
    ck_assert_int_lt(clock_monotonic_ns(clock_real()) - begin_ns,
                     3000000000);   // a second is meant; the machine may be busy
    unsetenv("FEDGATE_FAULT");
    error_clear(error);
    feed_bench_done(&b);
}
END_TEST

START_TEST(planted_slow_decoding_and_serial_copies_show)
{
    FeedBench b = feed_bench(NULL);
    Error *error = &b.bench.error;
    setenv("FEDGATE_FAULT", "decode.slow_ns=5000000,copy.serial=1,copy.pageable=1,copy.slow_ns=2000000", 1);
    Timeline *timeline = timeline_new(1000);
    device_trace(b.device, timeline);
    b.spec.epochs = 1;
    b.spec.workers = 1;
    Feed *feed = feed_open(&b.spec, error);
    FeedBatch batch;
    int64_t wait_ns, exposed_ns, exposed_sum = 0;
    for (size_t step = 0; feed_next(feed, &batch, &wait_ns, &exposed_ns, error) == 1; step++) {
        feed_compute_begins(feed, &batch);
        clock_sleep_ns(clock_real(), 8000000);
        ck_assert_uint_eq(timeline_count(timeline), step + 1);   // the next copy has not begun
        exposed_sum += exposed_ns;
        feed_release(feed, &batch);
    }
    ck_assert_int_gt(exposed_sum, 12 * 1500000);
    ck_assert(timeline_spans(timeline)[3].pageable);
    const char *limiting;
    json_free(feed_stages(feed, &limiting));
    ck_assert_str_eq(limiting, "decode");
    device_trace(b.device, NULL);
    feed_close(feed);
    timeline_free(timeline);
    unsetenv("FEDGATE_FAULT");
    feed_bench_done(&b);
}
END_TEST
#endif

static Suite *suite(void)
{
    Suite *s = suite_create("input feed");
    TCase *t = tcase_create("feed");
    tcase_add_loop_test(t, batches_are_the_same_for_any_workers_prefetch_and_slots, 0,
                        sizeof shapes / sizeof shapes[0]);
    tcase_add_test(t, each_row_comes_exactly_once_an_epoch_in_a_new_order);
    tcase_add_test(t, unshuffled_rows_come_in_row_order);
    tcase_add_test(t, a_batch_larger_than_the_rows_is_one_short_batch);
    tcase_add_test(t, a_batch_holds_what_decoding_gives);
    tcase_add_test(t, noise_differs_by_epoch_and_leaves_flags_alone);
    tcase_add_test(t, a_resumed_feed_goes_on_where_it_stopped);
    tcase_add_test(t, stages_are_counted_and_the_slowest_is_named);
    tcase_add_test(t, a_copy_waits_for_the_computation_before_it);
    tcase_add_test(t, too_little_host_memory_is_refused_before_it_is_taken);
    tcase_add_test(t, a_feed_can_be_closed_at_any_time);
    tcase_add_test(t, files_too_large_for_memory_give_the_same_batches);
    tcase_add_loop_test(t, a_file_that_changes_under_the_feed_ends_it_with_stage_file_and_line, 0, 2);
    tcase_add_test(t, a_simulated_clock_gives_the_same_batches_and_no_times);
#ifdef FEDGATE_FAULTS
    tcase_add_test(t, a_stuck_worker_is_named_and_does_not_hold_up_the_end);
    tcase_add_test(t, planted_slow_decoding_and_serial_copies_show);
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
