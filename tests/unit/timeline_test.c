// timeline_test - interval arithmetic against a bitmap, overlap per step by hand, trust, warm-up, export.
#include <fedgate/timeline.h>

#include <fedgate/file.h>
#include <fedgate/text.h>

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t state = 7;

static int64_t next_below(int64_t limit)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((state >> 33) % (uint64_t)limit);
}

START_TEST(the_worked_example_hides_half_of_its_copies)
{
    Interval copies[] = {{0, 4}, {6, 10}};
    Interval kernels[] = {{2, 8}};
    size_t c = interval_union(copies, 2);
    size_t k = interval_union(kernels, 1);
    ck_assert_int_eq(interval_length(copies, c), 8);
    ck_assert_int_eq(interval_overlap(copies, c, kernels, k), 4);
}
END_TEST

enum { SPAN = 200 };

static void paint(const Interval *intervals, size_t count, bool *map)
{
    memset(map, 0, SPAN * sizeof *map);
    for (size_t i = 0; i < count; i++) {
        for (int64_t t = intervals[i].begin; t < intervals[i].end; t++) {
            map[t] = true;
        }
    }
}

static size_t make_intervals(Interval *intervals, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        intervals[i].begin = next_below(SPAN - 20);
        intervals[i].end = intervals[i].begin + next_below(20);   // zero length too
    }
    return count;
}

START_TEST(set_arithmetic_equals_a_bitmap)
{
    state = (uint64_t)_i;
    Interval a[12];
    Interval b[12];
    Interval clipped[12];
    bool map_a[SPAN];
    bool map_b[SPAN];
    size_t a_count = make_intervals(a, (size_t)next_below(13));
    size_t b_count = make_intervals(b, (size_t)next_below(13));
    paint(a, a_count, map_a);
    paint(b, b_count, map_b);
    a_count = interval_union(a, a_count);
    b_count = interval_union(b, b_count);
    Interval window = {next_below(SPAN), 0};
    window.end = window.begin + next_below(SPAN - window.begin);
    size_t kept = interval_clip(a, a_count, window, clipped);
    int64_t length = 0;
    int64_t both = 0;
    int64_t inside = 0;
    for (int64_t t = 0; t < SPAN; t++) {
        length += map_a[t];
        both += map_a[t] && map_b[t];
        inside += map_a[t] && t >= window.begin && t < window.end;
    }
    ck_assert_int_eq(interval_length(a, a_count), length);
    ck_assert_int_eq(interval_overlap(a, a_count, b, b_count), both);
    ck_assert_int_eq(interval_length(clipped, kept), inside);
    for (size_t i = 1; i < a_count; i++) {
        ck_assert(a[i].begin > a[i - 1].end);   // disjoint, joined where they touch
    }
}
END_TEST

static void add(Timeline *timeline, SpanKind kind, int64_t begin, int64_t end, int64_t step)
{
    Span span = {
        .kind = kind, .begin = begin, .end = end, .step = step, .bytes = kind == SPAN_COPY_H2D ? 100 : 0};
    timeline_add(timeline, &span);
}

typedef struct Result {
    StepOverlap *steps;
    size_t count;
    TimelineTrust trust;
} Result;

static Result measure(const Timeline *timeline)
{
    Result result = {0};
    Error error = ERROR_INIT;
    ck_assert(timeline_overlap(timeline, &result.steps, &result.count, &result.trust, &error));
    return result;
}

START_TEST(steps_are_cut_at_marks_and_a_prefetched_copy_counts_where_it_runs)
{
    OWNED(Timeline, timeline_free) *timeline = timeline_new(100);
    add(timeline, SPAN_STEP_MARK, 100000, 100000, 0);
    add(timeline, SPAN_STEP_MARK, 200000, 200000, 1);
    add(timeline, SPAN_STEP_MARK, 300000, 300000, 2);
    add(timeline, SPAN_KERNEL, 100000, 150000, 0);
    add(timeline, SPAN_KERNEL, 140000, 190000, 0);   // a second stream: union, not sum
    add(timeline, SPAN_COPY_H2D, 110000, 130000, 1);   // batch of step 1, hidden in step 0
    add(timeline, SPAN_COPY_H2D, 185000, 205000,
        2);   // across the boundary: 5000 hidden, 10000 exposed, 5000 in step 1
    add(timeline, SPAN_KERNEL, 230000, 290000, 1);
    add(timeline, SPAN_MEMSET, 290000, 295000, 1);
    add(timeline, SPAN_COPY_D2H, 295000, 300000, 1);
    add(timeline, SPAN_HOST_WAIT, 190000, 230000, 1);
    Result r = measure(timeline);
    ck_assert_uint_eq(r.count, 2);   // the last mark has no end
    const StepOverlap *s = r.steps;
    ck_assert_int_eq(s[0].index, 0);
    ck_assert_int_eq(s[0].length_ns, 100000);
    ck_assert_int_eq(s[0].kernel_ns, 90000);
    ck_assert_int_eq(s[0].copy_ns, 35000);
    ck_assert_int_eq(s[0].hidden_ns, 25000);
    ck_assert_int_eq(s[0].busy_ns, 100000);
    ck_assert_int_eq(s[0].wait_ns, 10000);
    ck_assert_int_eq(s[0].h2d_bytes, 200);
    ck_assert_int_eq(s[0].starved_ns, 0);
    ck_assert_int_eq(s[1].copy_ns, 5000);
    ck_assert_int_eq(s[1].hidden_ns, 0);
    ck_assert_int_eq(s[1].kernel_ns, 60000);
    ck_assert_int_eq(s[1].busy_ns, 75000);
    ck_assert_int_eq(s[1].starved_ns, 25000);
    ck_assert_int_eq(s[1].wait_ns, 30000);
    ck_assert_int_eq(s[1].h2d_bytes, 0);
    ck_assert_str_eq(r.trust.reason, "");
    free(r.steps);
}
END_TEST

START_TEST(a_gap_is_judged_whole_and_shared_out_to_its_steps)
{
    OWNED(Timeline, timeline_free) *timeline = timeline_new(100);
    for (int step = 0; step < 4; step++) {
        add(timeline, SPAN_STEP_MARK, step * 100000, step * 100000 + (step == 3 ? 100000 : 0), step);
    }
    add(timeline, SPAN_KERNEL, 1, 97000, 0);   // 3000 before the boundary ...
    add(timeline, SPAN_KERNEL, 102000, 200000, 1);   // ... and 2000 after it: one gap of 5000
    add(timeline, SPAN_KERNEL, 200000, 295001, 2);   // a gap of 4999: too small
    add(timeline, SPAN_KERNEL, 300000, 400000, 3);
    Result r = measure(timeline);
    ck_assert_uint_eq(r.count, 4);
    ck_assert_int_eq(r.steps[0].starved_ns, 3000);
    ck_assert_int_eq(r.steps[1].starved_ns, 2000);
    ck_assert_int_eq(r.steps[2].starved_ns, 0);
    ck_assert_int_eq(r.steps[3].starved_ns, 0);
    free(r.steps);
}
END_TEST

START_TEST(the_gap_limit_grows_with_the_median_step)
{
    OWNED(Timeline, timeline_free) *timeline = timeline_new(100);
    for (int step = 0; step < 3; step++) {   // 1 ms steps: gaps from 20 us
        add(timeline, SPAN_STEP_MARK, step * 1000000, (step + 1) * 1000000, step);
        add(timeline, SPAN_KERNEL, step * 1000000, step * 1000000 + 980000 + (step == 1), step);
    }
    Result r = measure(timeline);
    ck_assert_int_eq(r.steps[0].starved_ns, 20000);
    ck_assert_int_eq(r.steps[1].starved_ns, 0);
    ck_assert_int_eq(r.steps[2].starved_ns, 20000);
    free(r.steps);
}
END_TEST

START_TEST(an_unrecorded_stretch_is_no_gap_and_no_step)
{
    OWNED(Timeline, timeline_free) *timeline = timeline_new(100);
    add(timeline, SPAN_STEP_MARK, 0, 50000, 3);   // next mark is not step 4: own end
    add(timeline, SPAN_KERNEL, 0, 50000, 3);
    add(timeline, SPAN_STEP_MARK, 900000, 900000, 50);
    add(timeline, SPAN_STEP_MARK, 910000, 910000, 50);   // marked twice: the earliest counts
    add(timeline, SPAN_KERNEL, 900000, 950000, 50);
    add(timeline, SPAN_STEP_MARK, 950000, 950000, 51);
    add(timeline, SPAN_COPY_H2D, 500000, 510000, 50);   // outside every window: neither time nor bytes
    add(timeline, SPAN_STEP_MARK, 10, 20, -1);   // a mark without a step
    Result r = measure(timeline);
    ck_assert_uint_eq(r.count, 2);
    ck_assert_int_eq(r.steps[0].index, 3);
    ck_assert_int_eq(r.steps[1].index, 50);
    ck_assert_int_eq(r.steps[1].length_ns, 50000);
    for (size_t i = 0; i < 2; i++) {
        ck_assert_int_eq(r.steps[i].starved_ns, 0);
        ck_assert_int_eq(r.steps[i].copy_ns, 0);
        ck_assert_int_eq(r.steps[i].h2d_bytes, 0);
    }
    free(r.steps);
}
END_TEST

START_TEST(pageable_bytes_are_counted_by_bytes)
{
    OWNED(Timeline, timeline_free) *timeline = timeline_new(100);
    add(timeline, SPAN_STEP_MARK, 100, 1000, 0);
    Span span = {.kind = SPAN_COPY_H2D,
                 .begin = 200,
                 .end = 200,
                 .bytes = 7,
                 .pageable = true};   // no time, but bytes
    timeline_add(timeline, &span);
    span = (Span){.kind = SPAN_COPY_H2D, .begin = 50, .end = 60, .bytes = 1000};   // before the first window
    timeline_add(timeline, &span);
    span = (Span){.kind = SPAN_COPY_H2D, .begin = 300, .end = 400, .bytes = 93};
    timeline_add(timeline, &span);
    Result r = measure(timeline);
    ck_assert_int_eq(r.steps[0].h2d_bytes, 100);
    ck_assert_int_eq(r.steps[0].pageable_bytes, 7);
    free(r.steps);
}
END_TEST

START_TEST(no_marks_no_steps)
{
    OWNED(Timeline, timeline_free) *timeline = timeline_new(10);
    Result empty = measure(timeline);
    ck_assert_uint_eq(empty.count, 0);
    free(empty.steps);
    add(timeline, SPAN_KERNEL, 10, 20, 0);
    Result r = measure(timeline);
    ck_assert_uint_eq(r.count, 0);
    ck_assert_str_eq(r.trust.reason, "");
    free(r.steps);
    timeline_free(NULL);
}
END_TEST

static const struct {
    const char *name;
    Span span;
    int64_t dropped, zero, causality;
} trust_rows[] = {
    {"no timestamps", {.kind = SPAN_KERNEL}, 0, 1, 0},
    {"begins before its launch", {.kind = SPAN_KERNEL, .begin = 10, .end = 20, .launched_ns = 11}, 0, 0, 1},
    {"ends before it begins", {.kind = SPAN_COPY_H2D, .begin = 10, .end = 5}, 0, 0, 1},
    {"begins at its launch", {.kind = SPAN_KERNEL, .begin = 10, .end = 20, .launched_ns = 10}, 0, 0, 0},
    {"a host wait from zero", {.kind = SPAN_HOST_WAIT}, 0, 0, 0},
};

START_TEST(a_timeline_says_why_it_cannot_be_trusted)
{
    OWNED(Timeline, timeline_free) *timeline = timeline_new(2);
    add(timeline, SPAN_STEP_MARK, 1, 100, 0);
    timeline_add(timeline, &trust_rows[_i].span);
    Result r = measure(timeline);
    ck_assert_msg(r.trust.zero_timestamps == trust_rows[_i].zero &&
                      r.trust.causality == trust_rows[_i].causality && r.trust.dropped == 0,
                  "%s", trust_rows[_i].name);
    bool doubted = trust_rows[_i].zero + trust_rows[_i].causality > 0;
    ck_assert_int_eq(r.trust.reason[0] != '\0', doubted);
    free(r.steps);
    timeline_add(timeline, &trust_rows[_i].span);   // the third of two
    ck_assert_int_eq(timeline_dropped(timeline), 1);
    r = measure(timeline);
    ck_assert_str_eq(r.trust.reason, "1 records were dropped");
    free(r.steps);
}
END_TEST

START_TEST(marks_out_of_order_break_causality)
{
    OWNED(Timeline, timeline_free) *timeline = timeline_new(10);
    add(timeline, SPAN_STEP_MARK, 500, 500, 0);
    add(timeline, SPAN_STEP_MARK, 100, 100, 1);
    Result r = measure(timeline);
    ck_assert_uint_eq(r.count, 0);
    ck_assert_int_eq(r.trust.causality, 1);
    ck_assert_str_ne(r.trust.reason, "");
    free(r.steps);
}
END_TEST

static const struct {
    const char *name;
    int steps, slow, settled_at;
    int64_t slow_ns;
} warmup_rows[] = {
    {"no steps", 0, 0, 0, 0},
    {"few steps give half", 5, 0, 2, 0},
    {"steady from the start takes three", 40, 0, 3, 0},
    {"ten slow steps", 60, 10, 8, 300},   // a median of five is good once three of them are
    {"nine percent slow is settled", 60, 10, 3, 109},
    {"never more than half", 40, 30, 20, 300},
    {"faster at first is not settled either", 60, 10, 8, 50},
};

START_TEST(warmup_ends_where_step_lengths_settle)
{
    int64_t length[64];
    for (int i = 0; i < warmup_rows[_i].steps; i++) {
        length[i] = i < warmup_rows[_i].slow ? warmup_rows[_i].slow_ns : 100;
    }
    ck_assert_msg(timeline_warmup(length, (size_t)warmup_rows[_i].steps) ==
                      (size_t)warmup_rows[_i].settled_at,
                  "%s: %zu", warmup_rows[_i].name, timeline_warmup(length, (size_t)warmup_rows[_i].steps));
}
END_TEST

static void *add_many(void *argument)
{
    Timeline *timeline = argument;
    for (int i = 1; i <= 5000; i++) {
        add(timeline, SPAN_KERNEL, i, i + 1, i);
    }
    return NULL;
}

START_TEST(threads_lose_no_span_and_the_bound_holds)
{
    OWNED(Timeline, timeline_free) *timeline = timeline_new(9000);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, add_many, timeline), 0);
    }
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    }
    ck_assert_uint_eq(timeline_count(timeline), 9000);
    ck_assert_int_eq(timeline_dropped(timeline), 1000);
}
END_TEST

START_TEST(the_exported_trace_keeps_nanoseconds)
{
    char folder[] = "/tmp/fedgate-timeline-XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(folder));
    char path[FILE_PATH_SIZE];
    Error error = ERROR_INIT;
    ck_assert(file_join(path, folder, "trace.json", &error));
    OWNED(Timeline, timeline_free) *timeline = timeline_new(10);
    Span span = {.kind = SPAN_KERNEL,
                 .stream = 3,
                 .begin = 1234567890123,
                 .end = 1234567891130,
                 .step = 5,
                 .name = "gemm \"a\""};
    timeline_add(timeline, &span);
    add(timeline, SPAN_COPY_H2D, -1500, 0, 6);
    ck_assert(timeline_export_chrome(timeline, "fedgate", path, &error));
    SCOPED_TEXT text = {0};
    text_init(&text, 100000);
    ck_assert(file_read(path, &text, &error));
    ck_assert_ptr_nonnull(strstr(text_string(&text), "\"ts\":1234567890.123,\"dur\":1.007"));
    ck_assert_ptr_nonnull(strstr(text_string(&text), "\"ts\":-1.500,\"dur\":1.500"));
    OWNED(Json, json_free) *json = json_read_file(path, 100000, &error);
    const Json *events = json_get(json, "traceEvents");
    ck_assert_uint_eq(json_count(events), 3);
    ck_assert_str_eq(json_text_or(json_get(json_at(events, 1), "name"), ""), "gemm \"a\"");
    ck_assert_str_eq(json_text_or(json_get(json_at(events, 2), "name"), ""), "copy_h2d");
    ck_assert(file_remove_tree(folder, &error));
    ck_assert(!timeline_export_chrome(timeline, "fedgate", path, &error));   // the folder is gone
    ck_assert_int_eq(error.kind, ERROR_IO);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("timeline");
    TCase *c = tcase_create("all");
    tcase_add_test(c, the_worked_example_hides_half_of_its_copies);
    tcase_add_loop_test(c, set_arithmetic_equals_a_bitmap, 0, 200);
    tcase_add_test(c, steps_are_cut_at_marks_and_a_prefetched_copy_counts_where_it_runs);
    tcase_add_test(c, a_gap_is_judged_whole_and_shared_out_to_its_steps);
    tcase_add_test(c, the_gap_limit_grows_with_the_median_step);
    tcase_add_test(c, an_unrecorded_stretch_is_no_gap_and_no_step);
    tcase_add_test(c, pageable_bytes_are_counted_by_bytes);
    tcase_add_test(c, no_marks_no_steps);
    tcase_add_loop_test(c, a_timeline_says_why_it_cannot_be_trusted, 0,
                        sizeof trust_rows / sizeof trust_rows[0]);
    tcase_add_test(c, marks_out_of_order_break_causality);
    tcase_add_loop_test(c, warmup_ends_where_step_lengths_settle, 0,
                        sizeof warmup_rows / sizeof warmup_rows[0]);
    tcase_add_test(c, threads_lose_no_span_and_the_bound_holds);
    tcase_add_test(c, the_exported_trace_keeps_nanoseconds);
    suite_add_tcase(s, c);
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
