// compute_trace_test - spans of a sampled window: records joined with calls, replays cut into steps, doubts.
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../src/compute/trace_window.h"

enum { MOST = 64, COMPUTE = 0, COPY = 1 };

typedef struct World {
    TraceWork works[MOST];
    TraceCall calls[MOST];
    TraceNote notes[MOST];
    TraceCopy copies[MOST];
    TraceWindow window;
    FedgateSpan spans[MOST];
    size_t count;
    FedgateTraceTrust trust;
} World;

static void keep(void *context, const FedgateSpan *span)
{
    World *world = context;
    ck_assert_uint_lt(world->count, MOST);
    world->spans[world->count++] = *span;
}

static void add_work(World *world, uint32_t correlation, FedgateSpanKind kind, int stream, int64_t begin,
                     int64_t end)
{
    world->works[world->window.work_count++] =
        (TraceWork){.correlation = correlation,
                    .span = {.kind = kind, .stream = stream, .begin = begin, .end = end, .bytes = 64}};
}

static void add_kernel(World *world, uint32_t correlation, int64_t begin, int64_t end)
{
    add_work(world, correlation, FEDGATE_SPAN_KERNEL, COMPUTE, begin, end);
}

static void add_call(World *world, uint32_t correlation, int64_t begin)
{
    world->calls[world->window.call_count++] =
        (TraceCall){.begin = begin, .correlation = correlation, .name = "_ZN7fedgate5scaleEPf"};
}

static void add_mark(World *world, int64_t at, int64_t step)
{
    world->notes[world->window.note_count++] = (TraceNote){.begin = at, .end = at, .step = step};
}

static void add_replay(World *world, int64_t begin, int64_t step, const TraceMark *marks, int64_t count,
                       int64_t operations)
{
    world->notes[world->window.note_count++] = (TraceNote){.begin = begin,
                                                           .end = begin + 9,
                                                           .step = step,
                                                           .replay = true,
                                                           .marks = marks,
                                                           .mark_count = count,
                                                           .operations = operations};
}

static void run(World *world)
{
    world->window.works = world->works;
    world->window.calls = world->calls;
    world->window.notes = world->notes;
    world->window.copies = world->copies;
    if (world->window.synced_ns == 0)
        world->window.synced_ns = 1000000;
    ck_assert(trace_window_spans(&world->window, keep, world, &world->trust));
}

static const FedgateSpan *find_step(const World *world, int64_t step)
{
    for (size_t i = 0; i < world->count; i++)
        if (world->spans[i].kind == FEDGATE_SPAN_STEP && world->spans[i].step == step)
            return &world->spans[i];
    return NULL;
}

static void check_step(const World *world, int64_t step, int64_t begin, int64_t end)
{
    const FedgateSpan *span = find_step(world, step);
    ck_assert_msg(span != NULL, "step %lld has no mark", (long long)step);
    ck_assert_int_eq(span->begin, begin);
    ck_assert_int_eq(span->end, end);
}

static int64_t step_of(const World *world, int64_t begin)
{
    for (size_t i = 0; i < world->count; i++)
        if (world->spans[i].kind != FEDGATE_SPAN_STEP && world->spans[i].begin == begin)
            return world->spans[i].step;
    ck_abort_msg("no span begins at %lld", (long long)begin);
}

static void check_trusted(const World *world)
{
    ck_assert_msg(world->trust.reason[0] == '\0', "%s", world->trust.reason);
    ck_assert_int_eq(world->trust.dropped + world->trust.zero_timestamps + world->trust.causality, 0);
}

// Launched one by one: a call belongs to the step marked last before it, whenever the device gets to it.
START_TEST(test_marked_one_by_one)
{
    World world = {0};
    add_mark(&world, 100, 7);
    add_call(&world, 1, 110);
    add_call(&world, 2, 120);
    add_mark(&world, 130, 8);
    add_call(&world, 3, 140);
    add_mark(&world, 150, 9);
    add_kernel(&world, 3, 520, 560);
    add_kernel(&world, 2, 450, 500);
    add_kernel(&world, 1, 400, 440);
    run(&world);
    check_trusted(&world);
    check_step(&world, 7, 400, 500);
    check_step(&world, 8, 520, 560);
    check_step(&world, 9, 560, 560);   // nothing follows it: an instant
    ck_assert_int_eq(step_of(&world, 450), 7);
    ck_assert_int_eq(step_of(&world, 520), 8);
}
END_TEST

// A step that is marked again, as for each microbatch, is one step.
START_TEST(test_marked_again)
{
    World world = {0};
    add_mark(&world, 100, 7);
    add_call(&world, 1, 110);
    add_mark(&world, 120, 7);
    add_call(&world, 2, 130);
    add_kernel(&world, 1, 400, 440);
    add_kernel(&world, 2, 450, 500);
    run(&world);
    check_trusted(&world);
    check_step(&world, 7, 400, 500);
    ck_assert_uint_eq(world.count, 3);
}
END_TEST

// Validation between two steps is of neither: the one before ends with its own work, the one behind is left
// out, and those that follow are as ever.
START_TEST(test_work_of_no_step)
{
    World world = {0};
    for (int i = 0; i < 4; i++) {
        add_mark(&world, 100 + 20 * i, i == 1 ? -1 : 7 + i - (i > 1));
        add_call(&world, (uint32_t)i + 1, 110 + 20 * i);
        add_kernel(&world, (uint32_t)i + 1, 400 + 100 * i, 480 + 100 * i);
    }
    run(&world);
    check_trusted(&world);
    check_step(&world, 7, 400, 480);
    ck_assert_ptr_null(find_step(&world, -1));
    ck_assert_ptr_null(find_step(&world, 8));
    check_step(&world, 9, 700, 780);
    ck_assert_int_eq(step_of(&world, 500), -1);
    ck_assert_int_eq(step_of(&world, 600), 8);
}
END_TEST

static const TraceMark marks[] = {{0, 0}, {1, 3}, {2, 5}};

static void add_chain(World *world, uint32_t correlation, int64_t begin, int count)
{
    for (int i = count - 1; i >= 0; i--)   // records may come in any order
        add_kernel(world, correlation, begin + 10 * i, begin + 10 * i + 8);
}

// A recording of two steps and an end mark, replayed twice: cut by counting, whatever came between.
START_TEST(test_replays)
{
    World world = {0};
    add_replay(&world, 100, 40, marks, 3, 5);
    add_call(&world, 1, 105);
    add_replay(&world, 200, 42, marks, 3, 5);
    add_call(&world, 2, 205);
    add_chain(&world, 2, 700, 5);
    add_chain(&world, 1, 500, 5);
    run(&world);
    check_trusted(&world);
    check_step(&world, 40, 500, 528);
    check_step(&world, 41, 530, 548);
    check_step(&world, 42, 700, 728);   // the end mark of the first is the first mark of the second
    check_step(&world, 43, 730, 748);
    check_step(&world, 44, 748, 748);
    ck_assert_int_eq(step_of(&world, 520), 40);
    ck_assert_int_eq(step_of(&world, 530), 41);
    ck_assert_int_eq(step_of(&world, 740), 43);
}
END_TEST

START_TEST(test_after_a_replay)
{
    World world = {0};
    add_replay(&world, 100, 40, marks, 2, 5);
    add_call(&world, 1, 105);
    add_call(&world, 2, 150);   // reads losses back, say
    add_chain(&world, 1, 500, 5);
    add_work(&world, 2, FEDGATE_SPAN_COPY_OUT, COMPUTE, 560, 570);
    run(&world);
    check_trusted(&world);
    ck_assert_int_eq(step_of(&world, 560), 41);
    check_step(&world, 41, 530, 570);
}
END_TEST

// A copy of another thread belongs to the step of its batch, not to the one that is marked.
START_TEST(test_copies)
{
    World world = {0};
    add_mark(&world, 100, 7);
    add_call(&world, 1, 110);
    add_kernel(&world, 1, 400, 440);
    world.copies[world.window.copy_count++] = (TraceCopy){.begin = 104, .end = 108, .step = 12, .bytes = 64};
    add_call(&world, 2, 106);
    add_work(&world, 2, FEDGATE_SPAN_COPY_IN, COPY, 300, 410);
    add_call(&world, 3, 115);   // a load: of the step
    add_work(&world, 3, FEDGATE_SPAN_COPY_IN, COMPUTE, 450, 460);
    run(&world);
    check_trusted(&world);
    ck_assert_int_eq(step_of(&world, 300), 12);
    ck_assert_int_eq(step_of(&world, 450), 7);
    check_step(&world, 7, 400, 460);
}
END_TEST

// Copies that were queued before the window are not seen: steps that may have run beside them have no mark.
START_TEST(test_copies_before)
{
    World world = {.window.copies_before = true};
    for (int i = 0; i < 3; i++) {
        add_mark(&world, 100 + 10 * i, i);
        add_call(&world, (uint32_t)i, 105 + 10 * i);
        add_kernel(&world, (uint32_t)i, 400 + 100 * i, 480 + 100 * i);
    }
    world.copies[world.window.copy_count++] = (TraceCopy){.begin = 101, .end = 103, .step = 5, .bytes = 64};
    add_call(&world, 9, 102);
    add_work(&world, 9, FEDGATE_SPAN_COPY_IN, COPY, 490, 495);
    run(&world);
    check_trusted(&world);
    ck_assert_ptr_null(find_step(&world, 0));
    check_step(&world, 1, 500, 580);
    check_step(&world, 2, 600, 680);
}
END_TEST

static void one_step(World *world)
{
    add_mark(world, 100, 7);
    add_call(world, 1, 110);
    add_kernel(world, 1, 400, 440);
}

START_TEST(test_records_missing)
{
    World world = {0};
    one_step(&world);
    add_call(&world, 2, 120);   // launched, and no operation is there
    add_call(&world, 2, 121);   // a call that it made
    run(&world);
    ck_assert_str_eq(world.trust.reason,
                     "1 records of device operations are missing, the first of fedgate::scale");
}
END_TEST

START_TEST(test_replay_incomplete)
{
    World world = {0};
    add_replay(&world, 100, 40, marks, 3, 5);
    add_call(&world, 1, 105);
    add_chain(&world, 1, 500, 3);
    run(&world);
    ck_assert_str_eq(world.trust.reason,
                     "2 records of device operations are missing: 2 of replays, first at step 40");
}
END_TEST

// The whole graph as one record, as some profilers give it, is not taken for its operations.
START_TEST(test_replay_as_a_whole)
{
    World world = {0};
    add_replay(&world, 100, 40, marks, 3, 5);
    add_call(&world, 1, 105);
    add_kernel(&world, 1, 500, 900);
    run(&world);
    ck_assert_str_eq(world.trust.reason,
                     "4 records of device operations are missing: 4 of replays, first at step 40");
}
END_TEST

START_TEST(test_launch_missing)
{
    World world = {0};
    add_kernel(&world, 8, 300, 350);   // launched before the window: no doubt
    one_step(&world);
    run(&world);
    check_trusted(&world);
    ck_assert_int_eq(step_of(&world, 300), -1);
    World other = {0};
    one_step(&other);
    add_kernel(&other, 8, 500, 550);
    run(&other);
    ck_assert_str_eq(other.trust.reason, "1 device operations have no launch, the first an operation");
    World blind = {0};
    add_mark(&blind, 100, 7);
    add_kernel(&blind, 1, 400, 440);
    run(&blind);
    ck_assert_str_eq(blind.trust.reason, "1 device operations have no launch, the first an operation");
}
END_TEST

START_TEST(test_nothing_recorded)
{
    World world = {0};
    add_mark(&world, 100, 7);
    run(&world);
    ck_assert_str_eq(world.trust.reason, "steps were marked and no operation was recorded");
    World idle = {0};
    run(&idle);
    check_trusted(&idle);
    ck_assert_uint_eq(idle.count, 0);
}
END_TEST

START_TEST(test_times)
{
    World world = {.window.synced_ns = 2000};
    one_step(&world);
    add_call(&world, 2, 120);
    add_kernel(&world, 2, 0, 0);   // no time: counted, not given
    add_call(&world, 3, 130);
    add_kernel(&world, 3, 470, 460);   // ends before it begins: counted, not given
    add_call(&world, 4, 600);
    add_kernel(&world, 4, 480, 490);   // before its launch: given without it, so that it is counted once
    run(&world);
    ck_assert_int_eq(world.trust.zero_timestamps, 1);
    ck_assert_int_eq(world.trust.causality, 2);
    ck_assert_uint_eq(world.count, 3);
    ck_assert_int_eq(step_of(&world, 480), 7);
    World late = {.window.synced_ns = 439 - 50000};
    one_step(&late);
    run(&late);
    ck_assert_ptr_nonnull(strstr(late.trust.reason, "the clocks do not agree"));
}
END_TEST

START_TEST(test_first_doubt_stays)
{
    FedgateTraceTrust trust = {0};
    trace_doubt(&trust, "number %d", 1);
    trace_doubt(&trust, "number %d", 2);
    ck_assert_str_eq(trust.reason, "number 1");
}
END_TEST

static const struct {
    const char *given, *readable;
} readable[] = {
    {"_Z8dot_rowsI13__nv_bfloat16fEvPT0_PKT_S4_S4_llb", "dot_rows"},
    {"_ZN7cutlass6KernelIfE3runEv", "cutlass::Kernel"},
    {"_ZN12_GLOBAL__N_14maskIfEEv", "mask"},
    {"_ZL6decide13FedgateSettle", "decide"},
    {"sm90_xmma_gemm_bf16bf16_bf16f32", "sm90_xmma_gemm_bf16bf16_bf16f32"},
    {"_Z", "_Z"},
    {"_Z999999999999999999999x", "_Z999999999999999999999x"},
    {"_Z5abc", "_Z5abc"},
    {"", ""},
};

START_TEST(test_names)
{
    char name[64];
    trace_readable_name(readable[_i].given, name, sizeof name);
    ck_assert_str_eq(name, readable[_i].readable);
}
END_TEST

START_TEST(test_long_names)
{
    char name[8];
    trace_readable_name("_ZN3abc12abcdefghijklE", name, sizeof name);
    ck_assert_str_eq(name, "abc");
    trace_readable_name("abcdefghijkl", name, sizeof name);
    ck_assert_str_eq(name, "abcdefg");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("compute_trace");
    TCase *window = tcase_create("window"), *names = tcase_create("names");
    tcase_add_test(window, test_marked_one_by_one);
    tcase_add_test(window, test_marked_again);
    tcase_add_test(window, test_work_of_no_step);
    tcase_add_test(window, test_replays);
    tcase_add_test(window, test_after_a_replay);
    tcase_add_test(window, test_copies);
    tcase_add_test(window, test_copies_before);
    tcase_add_test(window, test_records_missing);
    tcase_add_test(window, test_replay_incomplete);
    tcase_add_test(window, test_replay_as_a_whole);
    tcase_add_test(window, test_launch_missing);
    tcase_add_test(window, test_nothing_recorded);
    tcase_add_test(window, test_times);
    tcase_add_test(window, test_first_doubt_stays);
    tcase_add_loop_test(names, test_names, 0, sizeof readable / sizeof readable[0]);
    tcase_add_test(names, test_long_names);
    suite_add_tcase(suite, window);
    suite_add_tcase(suite, names);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
