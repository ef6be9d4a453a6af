// timeline_inspect_test - stored traces: each definition on a small trace of our own making, and what a
// reader must survive.
#include <fedgate/timeline.h>

#include <fedgate/file.h>
#include <fedgate/text.h>

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const OverlapLimits usual = {0.8, 0.95, 0.05, 0.01};
static const size_t blocks[] = {1, 7, 63, 64, 65, 1000, 1u << 20};

// -- traces, written in one of two schemas

typedef struct Schema {
    const char *kernel, *copy, *set, *call, *range, *open, *close;
} Schema;
static const Schema schemas[] = {
    {"kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "user_annotation",
     "{\"schemaVersion\": 1, \"deviceProperties\": [{\"id\": 0, \"name\": \"a \\\" ] } "
     "card\"}],\n\"traceEvents\": [",
     "], \"traceName\": \"x\"}\n"},
    {"Kernel", "Memcpy", "Memset", "Runtime", "Operator", "[", "]"},
};

typedef struct Trace {
    Text text;
    const Schema *schema;
} Trace;

static Trace trace_new(int schema)
{
    Trace trace = {.schema = &schemas[schema]};
    text_init(&trace.text, 16u << 20);
    text_add(&trace.text, trace.schema->open);
    text_add(&trace.text,
             "{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": 9, \"args\": {\"name\": \"python\"}}");
    return trace;
}

static void event(Trace *trace, const char *category, const char *name, int pid, int begin, int length,
                  const char *arguments)
{
    text_add_format(&trace->text,
                    ",\n  {\"ph\": \"X\", \"cat\": \"%s\", \"name\": \"%s\", \"pid\": %d, \"tid\": \"t "
                    "1\",\n   \"ts\": %d, "
                    "\"dur\": %d, \"args\": {\"External id\": 1, \"s\": [1, {\"a\": \"}\"}], %s}}",
                    category, name, pid, begin, length, arguments);
}

static void operation(Trace *trace, const char *category, const char *name, int stream, int begin, int length,
                      int correlation, int bytes)
{
    char arguments[160];
    snprintf(arguments, sizeof arguments, "\"device\": 0, \"stream\": %d, \"correlation\": %d, \"bytes\": %d",
             stream, correlation, bytes);
    event(trace, category, name, 0, begin, length, arguments);
}

static void kernel(Trace *trace, int begin, int length, int correlation)
{
    operation(trace, trace->schema->kernel, "gemm", 7, begin, length, correlation, 0);
}

static void copy(Trace *trace, const char *memory, int begin, int length, int correlation, int bytes)
{
    char name[64];
    snprintf(name, sizeof name, "Memcpy HtoD (%s -> Device)", memory);
    operation(trace, trace->schema->copy, name, 14, begin, length, correlation, bytes);
}

static void call(Trace *trace, const char *name, int begin, int length, int correlation)
{
    char arguments[64];
    snprintf(arguments, sizeof arguments, "\"cbid\": 1, \"correlation\": %d", correlation);
    event(trace, trace->schema->call, name, 9, begin, length, arguments);
}

static void range(Trace *trace, const char *name, int begin, int length)
{
    event(trace, trace->schema->range, name, 9, begin, length, "\"Call stack\": \"a;b\"");
}

static void host_step(Trace *trace, int index, int begin, int length)
{
    char name[32];
    snprintf(name, sizeof name, "ProfilerStep#%d", index);
    range(trace, name, begin, length);
}

// Steps of 1000 us from 10000 on: the copy of the next batch from 100 to 300, kernels over `covered` of it
// and to the end of the step but for the last 10 us.
static void good_step(Trace *trace, int index, int covered)
{
    int at = 10000 + 1000 * index;
    host_step(trace, index, at - 50, 1000);
    call(trace, "cudaLaunchKernel", at - 40, 5, 3 * index + 1);
    kernel(trace, at, 100 + covered, 3 * index + 1);
    call(trace, "cudaMemcpyAsync", at - 30, 5, 3 * index + 2);
    copy(trace, "Pinned", at + 100, 200, 3 * index + 2, 2000000);
    call(trace, "cudaLaunchKernel", at - 20, 5, 3 * index + 3);
    kernel(trace, at + 300, 690, 3 * index + 3);
}

static Trace good_trace(int schema, int steps, int covered)
{
    Trace trace = trace_new(schema);
    for (int i = 0; i < steps; i++) {
        good_step(&trace, i, covered);
    }
    return trace;
}

// -- what is said of them

static Json *said_in(const char *bytes, size_t length, size_t block, Error *error)
{
    OWNED(Inspection, inspection_free) *inspection = trace_inspect_bytes(bytes, length, block, &usual, error);
    if (inspection == NULL) {
        return NULL;
    }
    Json *array = json_make_array();
    inspection_put_json(inspection, array);
    ck_assert_uint_eq(json_count(array), inspection_count(inspection));
    return array;
}

// Entries of the finished trace; the same whatever blocks the bytes come in.
static Json *said_of(Trace *trace)
{
    Error error = ERROR_INIT;
    text_add(&trace->text, trace->schema->close);
    Json *first = NULL;
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        Json *said = said_in(text_string(&trace->text), trace->text.length, blocks[i], &error);
        ck_assert_msg(said != NULL, "%s", error.message);
        ck_assert(first == NULL || json_same(first, said));
        json_free(first);
        first = said;
    }
    text_done(&trace->text);
    return first;
}

static int64_t figure(const Json *said, const char *key)
{
    int64_t value = json_integer_or(json_find(json_at(said, 0), key), -77);
    ck_assert_msg(value != -77, "no figure '%s'", key);
    return value;
}

static double ratio(const Json *said, const char *key)
{
    return json_number_or(json_find(json_at(said, 0), key), -77);
}

static void verdict_is(const Json *said, const char *word, const char *reason)
{
    const char *found = json_text_or(json_get(json_at(said, 0), "verdict"), "");
    const char *why = json_text_or(json_get(json_at(said, 0), "reason"), "");
    ck_assert_msg(strcmp(found, word) == 0 && strstr(why, reason) != NULL, "%s: %s, wanted %s: %s", found,
                  why, word, reason);
}

static const Json *row(const Json *said, const char *array, size_t index)
{
    return json_at(json_get(json_at(said, 0), array), index);
}

START_TEST(both_schemas_give_the_same_figures)
{
    Trace trace = good_trace(_i, 4, 150);
    operation(&trace, trace.schema->set, "Memset (Device)", 7, 13990, 4, -1, 64);
    operation(&trace, trace.schema->kernel, "ncclKernel_AllReduce", 20, 13100, 200, -1, 0);
    operation(&trace, trace.schema->kernel, "empty", 7, 13500, 0, -1, 0);
    OWNED(Json, json_free) *said = said_of(&trace);
    ck_assert_int_eq(figure(said, "span_ns"), 3994000);
    ck_assert_int_eq(figure(said, "kernels"), 10);
    ck_assert_int_eq(figure(said, "communication_kernels"), 1);
    ck_assert_int_eq(figure(said, "zero_length_kernels"), 1);
    ck_assert_int_eq(figure(said, "memsets"), 1);
    ck_assert_int_eq(figure(said, "streams"), 3);
    ck_assert_int_eq(figure(said, "kernel_busy_ns"), 4 * 940000 + 50000);
    ck_assert_int_eq(figure(said, "kernel_busy_without_communication_ns"), 4 * 940000);
    ck_assert_int_eq(figure(said, "any_busy_ns"), 4 * 990000 + 4000);
    ck_assert_int_eq(figure(said, "h2d_ns"), 800000);
    ck_assert_int_eq(figure(said, "h2d_hidden_ns"), 650000);
    ck_assert_int_eq(figure(said, "h2d_hidden_without_communication_ns"), 600000);
    ck_assert_int_eq(figure(said, "h2d_bytes"), 8000000);
    ck_assert_int_eq(figure(said, "pageable_h2d_bytes"), 0);
    ck_assert(ratio(said, "hidden_ratio") == 0.8125);
    ck_assert(ratio(said, "idle_ratio") == 30000.0 / 3994000);
    ck_assert_int_eq(figure(said, "idle_gaps"), 3);
    ck_assert_int_eq(figure(said, "idle_gap_longest_ns"), 10000);
    ck_assert_uint_eq(json_count(json_get(json_at(said, 0), "steps")), 4);
    const Json *step = row(said, "steps", 1);
    ck_assert_int_eq(json_integer_or(json_get(step, "index"), -1), 1);
    ck_assert_int_eq(json_integer_or(json_get(step, "length_ns"), -1), 1000000);
    ck_assert(json_number_or(json_get(step, "hidden_ratio"), -1) == 0.75);
    ck_assert(json_number_or(json_get(step, "busy_ratio"), -1) == 0.99);
    ck_assert(json_is_null(json_get(step, "wait_ns")));
    ck_assert_int_eq(json_integer_or(json_get(row(said, "steps", 3), "length_ns"), -1), 994000);
    ck_assert_int_eq(figure(said, "calls.large_copies"), 4);
    ck_assert(ratio(said, "calls.large_call_per_copy_time") == 0.025);
    ck_assert_int_eq(figure(said, "calls.operations_without_call"), 3);
    verdict_is(said, "inconclusive", "1 of 2 steps after warm-up");
}
END_TEST

START_TEST(the_five_words)
{
    Trace good = good_trace(0, 40, 200);
    OWNED(Json, json_free) *sustained = said_of(&good);
    verdict_is(sustained, "sustained",
               "100.00 % of copy time is hidden, 37 of 37 steps after warm-up reach 80.00 %");
    Trace exposed = good_trace(1, 40, 100);
    OWNED(Json, json_free) *not_sustained = said_of(&exposed);
    verdict_is(not_sustained, "not_sustained",
               "share of steps that hide their copies is 0.00 %, must be at least");
    Trace few = good_trace(0, 12, 200);
    OWNED(Json, json_free) *inconclusive = said_of(&few);
    verdict_is(inconclusive, "inconclusive",
               "9 of 9 steps after warm-up hide 80.00 % of their copy time: 20 steps");
    Trace still = trace_new(0);
    for (int i = 0; i < 30; i++) {
        host_step(&still, i, 1000 * i + 900, 1000);
        call(&still, "cudaLaunchKernel", 1000 * i + 910, 5, i);
        kernel(&still, 1000 * i + 1000, 999, i);
    }
    OWNED(Json, json_free) *no_copies = said_of(&still);
    verdict_is(no_copies, "no_copies", "nothing was copied to the device");
    ck_assert(json_is_null(json_get(json_at(no_copies, 0), "hidden_ratio")));
    Trace early = good_trace(0, 40, 200);
    kernel(&early, 500, 5, 1);   // before the launch that is its cause
    OWNED(Json, json_free) *untrusted = said_of(&early);
    verdict_is(untrusted, "untrusted", "begin before their cause");
    ck_assert_int_eq(figure(untrusted, "trust.causality"), 1);
}
END_TEST

START_TEST(without_step_marks_none_are_invented)
{
    Trace trace = trace_new(0);
    for (int i = 0; i < 40; i++) {
        kernel(&trace, 1000 * i + 1000, 990, -1);
        copy(&trace, "Pinned", 1000 * i + 1100, 100, -1, 1000);
    }
    OWNED(Json, json_free) *said = said_of(&trace);
    verdict_is(said, "inconclusive", "steps are not marked, and none are invented");
    ck_assert_uint_eq(json_count(json_get(json_at(said, 0), "steps")), 0);
    ck_assert_uint_eq(json_count(json_get(json_at(said, 0), "gaps")), 39);   // of 10 us
}
END_TEST

START_TEST(a_trace_of_nothing_has_a_verdict)
{
    Trace trace = trace_new(_i);
    OWNED(Json, json_free) *said = said_of(&trace);
    verdict_is(said, "no_copies", "no operation of a device is recorded");
    ck_assert(json_is_null(json_get(json_at(said, 0), "idle_ratio")));
    Trace lost = trace_new(_i);
    call(&lost, "cudaLaunchKernel", 5, 5, 1);
    OWNED(Json, json_free) *untrusted = said_of(&lost);
    verdict_is(untrusted, "untrusted", "1 calls of the host and no operation of a device");
}
END_TEST

// -- pageable

START_TEST(pageable_by_kind_and_where_it_is_unknown_by_the_time_of_the_call)
{
    static const struct {
        const char *memory;
        int call_us, bytes;
        bool pageable, by_ratio;
    } rows[] = {
        {"Pinned", 200, 2000000, false, false},  {"Pageable", 1, 2000000, true, false},
        {"Unknown", 99, 2000000, false, false},  {"Unknown", 100, 2000000, true, true},
        {"Unknown", 200, 1048575, false, false}, {"Unknown", 200, 1048576, true, true},
    };
    Trace trace = trace_new(0);
    call(&trace, "cudaMemcpyAsync", 900, rows[_i].call_us, 5);
    copy(&trace, rows[_i].memory, 1000, 200, 5, rows[_i].bytes);
    OWNED(Json, json_free) *said = said_of(&trace);
    ck_assert_int_eq(figure(said, "pageable_h2d_bytes"), rows[_i].pageable ? rows[_i].bytes : 0);
    ck_assert_int_eq(figure(said, "pageable_by_ratio"), rows[_i].by_ratio);
}
END_TEST

START_TEST(copies_are_told_apart_by_direction_and_memory)
{
    Trace trace = trace_new(0);
    operation(&trace, "gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", 7, 100, 10, 1, 50);
    operation(&trace, "gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", 7, 200, 10, -1, 50);
    operation(&trace, "gpu_memcpy", "Memcpy DtoD (Device -> Device)", 7, 300, 10, -1, 50);
    operation(&trace, "gpu_memcpy", "Memcpy PtoP (Device -> Device)", 7, 400, 10, -1, 50);
    call(&trace, "cudaMemcpyAsync", 50, 100, 1);
    OWNED(Json, json_free) *said = said_of(&trace);
    ck_assert_uint_eq(json_count(json_get(json_at(said, 0), "copy_totals")), 3);
    const Json *total = row(said, "copy_totals", 0);
    ck_assert_str_eq(json_text_or(json_get(total, "memory"), ""), "pinned");
    total = row(said, "copy_totals", 2);
    ck_assert_str_eq(json_text_or(json_get(total, "direction"), ""), "d2d");
    ck_assert_int_eq(json_integer_or(json_get(total, "bytes"), 0), 100);
    ck_assert_int_eq(figure(said, "calls.d2h_inside_call"), 1);
    ck_assert_int_eq(figure(said, "calls.async_host_copies"), 1);
    ck_assert_int_eq(figure(said, "calls.async_host_copies_pageable"), 1);
    verdict_is(said, "no_copies", "nothing was copied");
    Trace blind = trace_new(0);
    operation(&blind, "gpu_memcpy", "Memcpy", 7, 100, 10, 1, 50);
    OWNED(Json, json_free) *untrusted = said_of(&blind);
    verdict_is(untrusted, "untrusted", "1 copies do not say from where to where");
}
END_TEST

// -- causes

START_TEST(a_starvation_gap_has_a_cause)
{
    static const struct {
        const char *host;   // NULL: nothing
        int begin, length, launched;
        const char *cause;
    } rows[] = {
        {"enumerate(DataLoader)#_Iter.__next__", 1500, 300, 1950, "input_wait"},
        {"cudaStreamSynchronize", 1500, 250, 1950, "host_sync"},
        {"cudaEventSynchronize", 1500, 500, 1950, "host_sync"},
        {"cudaMemcpyAsync", 1500, 400, 1950, "copy_call"},
        {"cudaHostAlloc", 1600, 400, 1950, "allocation"},
        {"cudaMalloc", 1500, 249, 1950, "launch_late"},
        {NULL, 0, 0, 1750, "launch_late"},
        {NULL, 0, 0, 1749, "device_wait"},
        {NULL, 0, 0, 0, "unknown"},
    };
    Trace trace = trace_new(0);
    if (rows[_i].host != NULL && rows[_i].host[0] == 'e') {
        range(&trace, rows[_i].host, rows[_i].begin, rows[_i].length);
    } else if (rows[_i].host != NULL) {
        call(&trace, rows[_i].host, rows[_i].begin, rows[_i].length, 9);
    }
    host_step(&trace, 0, 900, 800);
    call(&trace, "cudaLaunchKernel", 950, 5, 1);
    kernel(&trace, 1000, 500, 1);
    if (rows[_i].launched > 0) {
        call(&trace, "cudaLaunchKernel", rows[_i].launched, 5, 2);
    }
    kernel(&trace, 2000, 500, 2);
    OWNED(Json, json_free) *said = said_of(&trace);
    ck_assert_uint_eq(json_count(json_get(json_at(said, 0), "gaps")), 1);
    const Json *gap = row(said, "gaps", 0);
    ck_assert_int_eq(json_integer_or(json_get(gap, "begin_ns"), 0), 1500000);
    ck_assert_int_eq(json_integer_or(json_get(gap, "length_ns"), 0), 500000);
    ck_assert_str_eq(json_text_or(json_get(gap, "cause"), ""), rows[_i].cause);
}
END_TEST

START_TEST(an_exposed_copy_has_a_cause)
{
    static const struct {
        const char *memory;
        int stream, launched;   // of the kernel behind it; 0 unknown
        const char *cause;
    } rows[] = {
        {"Pageable", 14, 900, "pageable"},      {"Pinned", 7, 900, "same_stream"},
        {"Pinned", 14, 1100, "nothing_queued"}, {"Pinned", 14, 1000, "kernels_waited"},
        {"Pinned", 14, 0, "unknown"},
    };
    char name[64];
    snprintf(name, sizeof name, "Memcpy HtoD (%s -> Device)", rows[_i].memory);
    Trace trace = trace_new(0);
    operation(&trace, "gpu_memcpy", name, rows[_i].stream, 1000, 200, 1, 5);
    operation(&trace, "gpu_memcpy", name, 14, 5000, 99, 1, 5);   // small: counted, not listed
    if (rows[_i].launched > 0) {
        call(&trace, "cudaLaunchKernel", rows[_i].launched, 5, 2);
    }
    kernel(&trace, 1150, 500, 2);
    OWNED(Json, json_free) *said = said_of(&trace);
    ck_assert_int_eq(figure(said, "exposed_copies_count"), 1);
    ck_assert_int_eq(figure(said, "small_copies"), 1);
    ck_assert_int_eq(figure(said, "small_copies_exposed_ns"), 99000);
    ck_assert_int_eq(figure(said, "calls.h2d_from_100us_under_half_hidden"), 1);
    const Json *copied = row(said, "exposed_copies", 0);
    ck_assert_int_eq(json_integer_or(json_get(copied, "exposed_ns"), 0), 150000);
    ck_assert_str_eq(json_text_or(json_get(copied, "cause"), ""), rows[_i].cause);
}
END_TEST

START_TEST(batch_waits_belong_to_the_step_of_the_host)
{
    Trace trace = good_trace(1, 4, 200);
    for (int i = 0; i < 4; i++) {
        range(&trace, "enumerate(DataLoader)#_Multi.__next__", 9950 + 1000 * i, 400);
    }
    range(&trace, "enumerate(DataLoader)#_Multi.close", 9950, 5000);   // no wait
    OWNED(Json, json_free) *said = said_of(&trace);
    ck_assert_int_eq(json_integer_or(json_get(row(said, "steps", 2), "wait_ns"), -1), 400000);
    ck_assert(json_number_or(json_get(row(said, "host_steps", 2), "wait_ratio"), -1) == 0.4);
    ck_assert_int_eq(figure(said, "calls.batch_wait_ns"), 1600000);
    ck_assert_ptr_nonnull(strstr(json_text_or(row(said, "notes", 0), ""), "starved of input"));
}
END_TEST

START_TEST(allocations_that_end_are_warmup)
{
    Trace trace = good_trace(0, 40, 200);
    call(&trace, "cudaHostAlloc", 10000 + 9 * 1000 + 5, 5, 900);
    OWNED(Json, json_free) *longer = said_of(&trace);
    ck_assert_int_eq(figure(longer, "warmup_steps"), 10);
    Trace steady = good_trace(0, 40, 200);
    call(&steady, "cudaHostAlloc", 10000 + 9 * 1000 + 5, 5, 900);
    call(&steady, "cudaHostAlloc", 10000 + 30 * 1000 + 5, 5, 901);
    OWNED(Json, json_free) *same = said_of(&steady);
    ck_assert_int_eq(figure(same, "warmup_steps"), 3);
    ck_assert_int_eq(figure(same, "calls.memory_calls_after_warmup"), 2);
}
END_TEST

// -- devices and processes

START_TEST(each_device_is_judged_by_itself)
{
    Trace trace = good_trace(0, 40, 200);
    for (int i = 0; i < 40; i++) {   // another card, whose copies are exposed
        char arguments[96];
        snprintf(arguments, sizeof arguments,
                 "\"device\": 1, \"stream\": 7, \"correlation\": %d, \"bytes\": 9", 3 * i + 1);
        event(&trace, "kernel", "gemm", 1, 10000 + 1000 * i, 500, arguments);
        event(&trace, "gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 1, 10500 + 1000 * i, 400, arguments);
    }
    OWNED(Json, json_free) *said = said_of(&trace);
    ck_assert_uint_eq(json_count(said), 2);
    verdict_is(said, "sustained", "");
    ck_assert_str_eq(json_text_or(json_get(json_at(said, 1), "verdict"), ""), "not_sustained");
    ck_assert_int_eq(json_integer_or(json_get(json_at(said, 1), "device"), -1), 1);
}
END_TEST

START_TEST(correlations_of_two_processes_are_kept_apart)
{
    Trace trace = good_trace(0, 40, 200);
    for (int i = 0; i < 200; i++) {   // another process counts its calls likewise, at other times
        char arguments[64];
        snprintf(arguments, sizeof arguments, "\"correlation\": %d", i);
        event(&trace, "cuda_runtime", "cudaLaunchKernel", 8, 900000, 5, arguments);
    }
    OWNED(Json, json_free) *said = said_of(&trace);
    verdict_is(said, "sustained", "");
    Trace stray = trace_new(0);
    kernel(&stray, 100, 10, 5);
    call(&stray, "cudaLaunchKernel", 200, 5, 5);
    event(&stray, "cuda_runtime", "cudaLaunchKernel", 8, 300, 5, "\"correlation\": 5");
    OWNED(Json, json_free) *lost = said_of(&stray);
    verdict_is(lost, "untrusted", "which of 2 processes drives the device cannot be told");
}
END_TEST

START_TEST(shared_correlations_and_overlapping_operations_are_all_counted)
{
    Trace trace = trace_new(0);
    host_step(&trace, 0, 900, 1000);
    call(&trace, "cudaGraphLaunch", 950, 5, 1);
    for (int i = 0; i < 10; i++) {
        kernel(&trace, 1000 + 50 * i, 100, 1);   // overlapping, on one stream, of one launch
    }
    OWNED(Json, json_free) *said = said_of(&trace);
    ck_assert_int_eq(figure(said, "kernels"), 10);
    ck_assert_int_eq(figure(said, "kernel_busy_ns"), 550000);
    ck_assert_int_eq(figure(said, "calls.operations_without_call"), 0);
    ck_assert_uint_eq(json_count(json_get(json_at(said, 0), "steps")), 1);
}
END_TEST

// -- numbers

static const struct {
    const char *begin, *length;
    int64_t ns;   // -1: the event cannot be used
} number_rows[] = {
    {"1661938466265032", "25", 25000},
    {"1661938466265032.123", "0.001", 1},
    {"4503599627370497.001", "0.007", 7},   // beyond what a double holds
    {"1.0004", "0.0005", 1},   // rounded half up at the third decimal
    {"1.0004", "0.00049999999999999999999999", 0},
    {"12345678901234.5e1", "1.5E+2", 150000},
    {"1000e-3", "25e-3", 25},
    {"0", "5", -2},   // no timestamp
    {"1", "1e308", -1},
    {"1", "99999999999999999999", -1},
    {"4611686018427387", "4611686018427387", -1},
    {"1", "4611686018427387.903", -1},
    {"1", "4611686018427386.903", 4611686018427386903},
    {"1", "-1", -3},
    {"1", "NaN", -1},
    {"1", "N/A", -1},
    {"1", "\"5\"", -1},
    {"1", "null", -1},
    {"1", "[5]", -1},
    {"01", "5", -1},
    {"1.", "5", -1},
    {"1e", "5", -1},
    {"+1", "5", -1},
    {"-", "5", -1},
    {"1", "0e999999999999", 0},
    {"1", "5e-999999999999", 0},
};

START_TEST(times_are_exact_or_not_used)
{
    char bytes[512];
    snprintf(bytes, sizeof bytes,
             "[{\"ph\":\"X\",\"cat\":\"kernel\",\"pid\":0,\"tid\":7,\"ts\":%s,\"dur\":%s}]",
             number_rows[_i].begin, number_rows[_i].length);
    Error error = ERROR_INIT;
    OWNED(Json, json_free) *said = said_in(bytes, strlen(bytes), 5, &error);
    ck_assert_msg(said != NULL, "%s: %s", bytes, error.message);
    int64_t ns = number_rows[_i].ns;
    ck_assert_msg(figure(said, "trust.dropped") == (ns == -1), "%s", bytes);
    ck_assert_msg(figure(said, "trust.causality") == (ns == -3), "%s", bytes);
    ck_assert_msg(figure(said, "trust.zero_timestamps") == 0, "%s", bytes);
    ck_assert_msg(ns < 0 || figure(said, "span_ns") == ns, "%s: %lld", bytes,
                  (long long)figure(said, "span_ns"));
}
END_TEST

START_TEST(an_operation_at_zero_that_takes_no_time_has_no_timestamp)
{
    const char bytes[] = "[{\"ph\":\"X\",\"cat\":\"kernel\",\"pid\":0,\"tid\":7,\"ts\":0,\"dur\":0}]";
    Error error = ERROR_INIT;
    OWNED(Json, json_free) *said = said_in(bytes, sizeof bytes - 1, 9, &error);
    ck_assert_int_eq(figure(said, "trust.zero_timestamps"), 1);
    verdict_is(said, "untrusted", "no timestamp");
}
END_TEST

// -- hostile bytes

#define KERNEL(extra) "{\"ph\":\"X\",\"cat\":\"kernel\",\"pid\":0,\"tid\":7,\"ts\":5,\"dur\":5" extra "}"
static const struct {
    const char *bytes, *error;   // error NULL: read
    int64_t dropped, kernels;
} hostile_rows[] = {
    {"", "not a trace: it holds nothing", 0, 0},
    {" \n", "not a trace: it holds nothing", 0, 0},
    {"7", "not a trace: neither an object nor an array at offset 0", 0, 0},
    {"{}", "it has no array 'traceEvents'", 0, 0},
    {"{\"a\":{\"traceEvents\":[]}}", "it has no array 'traceEvents'", 0, 0},
    {"{\"traceEvents\":{}}", "'traceEvents' is no array at offset 15", 0, 0},
    {"{\"traceEvents\":null}", "'traceEvents' is no array", 0, 0},
    {"{\"traceEvents\":[],\"traceEvents\":[]}", "'traceEvents' is there twice at offset 18", 0, 0},
    {"{\"traceEvents\":[]", "cut short: it ends at offset 17", 0, 0},
    {"{\"traceEvents\":[" KERNEL("") ",{\"ph\":\"X\"", "cut short", 0, 0},
    {"{\"traceEvents\":[" KERNEL("") ",{\"ph\":\"X", "cut short", 0, 0},
    {"[" KERNEL(""), "cut short", 0, 0},
    {"[] x", "bytes behind the end of the trace at offset 3", 0, 0},
    {"{\"traceEvents\":[]}{}", "bytes behind the end of the trace at offset 18", 0, 0},
    {"[" KERNEL("") KERNEL("") "]", "not JSON at offset", 0, 0},
    {"[{\"ph\" \"X\"}]", "not JSON at offset 7", 0, 0},
    {"[{ph:1}]", "not JSON at offset 2", 0, 0},
    {"[{\"ph\":}]", "not JSON", 0, 0},
    {"[{\"a\":1 2}]", "not JSON", 0, 0},
    {"[{\"a\":1,}]", "not JSON", 0, 0},
    {"{x", "not JSON at offset 1", 0, 0},
    {"{\"a\" 1}", "not JSON", 0, 0},
    {"{\"a\":1 \"b\"}", "not JSON", 0, 0},
    {"{\"a\":\x01}", "not JSON", 0, 0},
    {"[\x01]", "not JSON", 0, 0},
    {"[]", NULL, 0, 0},
    {"[1,null,\"x\",[{}],{}]", NULL, 4, 0},
    {"[" KERNEL("") ",]", NULL, 0, 1},
    {"{\"a\":[[[{\"b\":\"]}\\\\\\\"]\"}]]],\"n\":NaN,\"traceEvents\":[" KERNEL("") "],\"z\":-1e5}", NULL, 0,
     1},
    {"[{\"ph\":\"X\",\"args\":{},\"cat\":\"kernel\",\"ts\":5,\"dur\":5,\"pid\":0}]", NULL, 0, 1},
    {"[{\"\\u0070h\":\"\\u0058\",\"c\\u0061t\":\"ker\\u006eel\",\"\\u0074s\":5,\"dur\":5,\"pid\":0}]", NULL,
     0, 0},
    {"[{\"ph\":\"X\",\"c\\u0061t\":\"ker\\u006eel\",\"\\u0074s\":5,\"dur\":5,\"pid\":0}]", NULL, 0, 1},
    {"[{\"ph\":\"X\",\"cat\":\"\\ud83d\\uzzzz\\q\\n\",\"ts\":5,\"dur\":5}]", NULL, 0, 0},
    {"[" KERNEL(",\"ts\":6") "]", NULL, 1, 0},
    {"[" KERNEL(",\"cat\":\"kernel\"") "]", NULL, 1, 0},
    {"[" KERNEL(",\"ph\":\"X\"") "]", NULL, 1, 0},
    {"[" KERNEL(",\"args\":7") "]", NULL, 0, 1},
    {"[" KERNEL(",\"args\":{\"correlation\":1.5}") "]", NULL, 1, 0},
    {"[" KERNEL(",\"args\":{\"stream\":\"7\"}") "]", NULL, 1, 0},
    {"[" KERNEL(",\"args\":{\"bytes\":-1}") "]", NULL, 1, 0},
    {"[" KERNEL(",\"args\":{\"bytes\":1099511627777}") "]", NULL, 1, 0},
    {"[" KERNEL(",\"args\":{\"stream\":99999999999}") "]", NULL, 0, 1},
    {"[{\"ph\":\"X\",\"cat\":\"kernel\",\"ts\":5}]", NULL, 1, 0},
    {"[{\"ph\":\"X\",\"cat\":7,\"ts\":5,\"dur\":5}]", NULL, 0, 0},
    {"[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":7,\"ts\":5,\"dur\":5}]", NULL, 1, 0},
    {"[{\"ph\":\"i\",\"cat\":\"kernel\",\"ts\":5,\"dur\":5}]", NULL, 0, 0},
    {"[{\"ph\":7,\"cat\":\"kernel\",\"ts\":5,\"dur\":5}]", NULL, 0, 0},
    {"[{\"cat\":\"kernel\",\"ts\":5,\"dur\":5}]", NULL, 0, 0},
    {"[{\"ph\":\"X\",\"cat\":\"step\",\"ts\":5,\"dur\":5}]", NULL, 1, 0},
    {"[{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"ProfilerStep#x\",\"ts\":5,\"dur\":5}]", NULL, 1, 0},
    {"[{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"ProfilerStep#1\",\"ts\":5,\"dur\":-5}]", NULL, 1, 0},
    {"{\"dropped\":3,\"traceEvents\":[]}", NULL, 3, 0},
    {"{\"dropped\":-1,\"traceEvents\":[]}", NULL, 1, 0},
    {"{\"dropped\":99999999999,\"traceEvents\":[]}", NULL, 1, 0},
    {"[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"\xff\xfe\xc0\",\"ts\":5,\"dur\":5}]", NULL, 0, 1},
};

START_TEST(hostile_bytes_are_named_or_read)
{
    const char *bytes = hostile_rows[_i].bytes;
    for (size_t block = 1; block < 200; block += block < 20 ? 1 : 60) {
        Error error = ERROR_INIT;
        OWNED(Json, json_free) *said = said_in(bytes, strlen(bytes), block, &error);
        if (hostile_rows[_i].error != NULL) {
            ck_assert_msg(said == NULL && error.kind == ERROR_DATA &&
                              strstr(error.message, hostile_rows[_i].error),
                          "%s: '%s', wanted '%s'", bytes, error.message, hostile_rows[_i].error);
            continue;
        }
        ck_assert_msg(said != NULL, "%s: %s", bytes, error.message);
        ck_assert_msg(figure(said, "trust.dropped") == hostile_rows[_i].dropped &&
                          figure(said, "kernels") == hostile_rows[_i].kernels,
                      "%s: %lld dropped, %lld kernels", bytes, (long long)figure(said, "trust.dropped"),
                      (long long)figure(said, "kernels"));
    }
}
END_TEST

START_TEST(every_cut_of_a_trace_is_noticed)
{
    Trace trace = good_trace(0, 2, 150);
    text_add(&trace.text, "]}");
    for (size_t length = 0; length < trace.text.length; length++) {
        Error error = ERROR_INIT;
        OWNED(Json, json_free) *said = said_in(text_string(&trace.text), length, 500, &error);
        ck_assert_msg(said == NULL && error.kind == ERROR_DATA, "cut at %zu", length);
    }
    text_done(&trace.text);
}
END_TEST

START_TEST(depth_and_length_are_bounded)
{
    enum { DEEP = 5 * 1000 * 1000 };
    char *bytes = malloc(DEEP + 64);
    ck_assert_ptr_nonnull(bytes);
    Error error = ERROR_INIT;
    memset(bytes, '[', DEEP);
    ck_assert_ptr_null(said_in(bytes, DEEP, 100000, &error));
    ck_assert_msg(strstr(error.message, "an event is longer than the limit") != NULL, "%s", error.message);
    memcpy(bytes, "{\"a\":", 5);   // beside the events nothing is held
    memset(bytes + 5, '[', DEEP / 2);
    memset(bytes + 5 + DEEP / 2, ']', DEEP / 2);
    memcpy(bytes + 5 + DEEP, ",\"traceEvents\":[]}", 18);
    error = ERROR_INIT;
    OWNED(Json, json_free) *deep = said_in(bytes, DEEP + 23, 100000, &error);
    ck_assert_msg(deep != NULL, "%s", error.message);
    free(bytes);
}
END_TEST

START_TEST(more_owners_than_there_is_room_for_are_dropped)
{
    Trace trace = trace_new(0);
    for (int i = 0; i < 70; i++) {
        event(&trace, "kernel", "gemm", i, 5, 5, "\"stream\": 1");
        event(&trace, "cuda_runtime", "cudaLaunchKernel", i, 5, 5, "\"correlation\": 1");
    }
    Error error = ERROR_INIT;
    text_add(&trace.text, "]}");
    OWNED(Json, json_free) *said = said_in(text_string(&trace.text), trace.text.length, 4096, &error);
    ck_assert_uint_eq(json_count(said), 64);
    ck_assert_int_eq(figure(said, "trust.dropped"), 12);
    text_done(&trace.text);
}
END_TEST

// -- our own traces, pictures, and what is never said

START_TEST(our_own_traces_come_back_as_they_were)
{
    char folder[] = "/tmp/fedgate-inspect-XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(folder));
    char path[FILE_PATH_SIZE];
    Error error = ERROR_INIT;
    ck_assert(file_join(path, folder, "trace.json", &error));
    OWNED(Timeline, timeline_free) *timeline = timeline_new(1000);
    for (int64_t i = 0; i < 60; i++) {
        int64_t at = 1000000 + i * 1000001;
        timeline_add(timeline, &(Span){.kind = SPAN_STEP_MARK, .begin = at, .end = at, .step = i});
        timeline_add(
            timeline,
            &(Span){.kind = SPAN_KERNEL, .begin = at, .end = at + 900007, .step = i, .launched_ns = at - 7});
        timeline_add(timeline, &(Span){.kind = SPAN_COPY_H2D,
                                       .stream = 1,
                                       .begin = at + 13,
                                       .end = at + 200013,
                                       .step = i,
                                       .bytes = 4096});
        timeline_add(timeline,
                     &(Span){.kind = SPAN_HOST_WAIT, .stream = 9, .begin = at, .end = at + 1009, .step = i});
    }
    ck_assert(timeline_export_chrome(timeline, "secret-host", path, &error));
    StepOverlap *steps = NULL;
    size_t count = 0;
    TimelineTrust trust;
    ck_assert(timeline_overlap(timeline, &steps, &count, &trust, &error));
    OWNED(Inspection, inspection_free) *inspection = trace_inspect(path, &usual, &error);
    ck_assert_msg(inspection != NULL, "%s", error.message);
    ck_assert_str_eq(overlap_word(inspection_word(inspection, 0)), "not_sustained");   // a tenth is idle
    OWNED(Json, json_free) *said = json_make_array();
    inspection_put_json(inspection, said);
    verdict_is(said, "not_sustained", "time without device work is 10.00 %");
    ck_assert_uint_eq(json_count(json_get(json_at(said, 0), "steps")), count);
    for (size_t i = 0; i < count; i++) {
        const Json *step = row(said, "steps", i);
        ck_assert_int_eq(json_integer_or(json_get(step, "index"), -1), steps[i].index);
        ck_assert_int_eq(json_integer_or(json_get(step, "begin_ns"), -1), steps[i].begin_ns);
        ck_assert_int_eq(json_integer_or(json_get(step, "length_ns"), -1), steps[i].length_ns);
        ck_assert_int_eq(json_integer_or(json_get(step, "hidden_ns"), -1), steps[i].hidden_ns);
        ck_assert_int_eq(json_integer_or(json_get(step, "busy_ns"), -1), steps[i].busy_ns);
        ck_assert_int_eq(json_integer_or(json_get(step, "starved_ns"), -1), steps[i].starved_ns);
        ck_assert_int_eq(json_integer_or(json_get(step, "wait_ns"), -1), steps[i].wait_ns);
        ck_assert_int_eq(json_integer_or(json_get(step, "h2d_bytes"), -1), steps[i].h2d_bytes);
    }
    ck_assert_str_eq(json_text_or(json_get(row(said, "gaps", 0), "cause"), ""), "launch_late");
    free(steps);
    ck_assert(file_remove_tree(folder, &error));
    ck_assert_ptr_null(trace_inspect(path, &usual, &error));
    ck_assert_int_eq(error.kind, ERROR_IO);
}
END_TEST

START_TEST(sampled_windows_say_how_much_they_cover)
{
    Trace trace = trace_new(0);
    for (int i = 0; i < 4; i++) {
        char step[32];
        snprintf(step, sizeof step, "\"step\": %d", 50 * i);
        event(&trace, "step", "step", 1, 1000 + 1000 * i, 100, step);
        event(&trace, "kernel", "k", 1, 1000 + 1000 * i, 100, step);
    }
    OWNED(Json, json_free) *said = said_of(&trace);
    ck_assert_uint_eq(json_count(json_get(json_at(said, 0), "steps")), 4);
    ck_assert_ptr_nonnull(
        strstr(json_text_or(row(said, "notes", 0), ""), "the steps cover 12.90 % of the span"));
}
END_TEST

START_TEST(no_text_of_a_trace_comes_out_again)
{
    Trace trace = trace_new(0);
    event(&trace, "kernel", "/home/planted-user/secret-host.cu", 0, 100, 50,
          "\"path\": \"/home/planted-user\"");
    event(&trace, "cpu_op", "ProfilerStep#1 planted-user", 9, 0, 500,
          "\"Call stack\": \"/home/planted-user/x.py\"");
    event(&trace, "planted-user", "planted-user", 9, 0, 500, "\"planted-user\": 1");
    event(&trace, "gpu_memcpy", "Memcpy HtoD (planted-user -> secret-host)", 0, 200, 50, "\"bytes\": 7");
    text_add(&trace.text, "], \"host\": \"secret-host\"}");
    Error error = ERROR_INIT;
    OWNED(Inspection, inspection_free) *inspection =
        trace_inspect_bytes(text_string(&trace.text), trace.text.length, 100, &usual, &error);
    ck_assert_ptr_nonnull(inspection);
    OWNED(Json, json_free) *said = json_make_array();
    SCOPED_TEXT out = {0};
    text_init(&out, 1u << 20);
    inspection_put_json(inspection, said);
    json_write(said, JSON_INDENTED, &out);
    inspection_print(inspection, &out);
    inspection_draw(inspection, &out);
    ck_assert(text_ok(&out, &error));
    ck_assert_ptr_null(strstr(text_string(&out), "planted"));
    ck_assert_ptr_null(strstr(text_string(&out), "secret"));
    ck_assert_ptr_null(strstr(text_string(&out), "/home"));
    ck_assert_ptr_nonnull(strstr(text_string(&out), "</svg>"));
    trace.text.data[trace.text.length - 3] = 'x';   // broken at the host's name
    ck_assert_ptr_null(
        trace_inspect_bytes(text_string(&trace.text), trace.text.length - 1, 100, &usual, &error));
    ck_assert_ptr_null(strstr(error.message, "secret"));
    text_done(&trace.text);
}
END_TEST

START_TEST(the_picture_shows_rows_steps_gaps_and_what_is_exposed)
{
    Trace trace = good_trace(0, 6, 100);
    range(&trace, "enumerate(DataLoader)#_Multi.__next__", 9950, 400);
    operation(&trace, "gpu_memset", "Memset (Device)", 7, 17500, 100, -1, 64);   // a gap before it
    text_add(&trace.text, "]}");
    Error error = ERROR_INIT;
    OWNED(Inspection, inspection_free) *inspection =
        trace_inspect_bytes(text_string(&trace.text), trace.text.length, 4096, &usual, &error);
    SCOPED_TEXT out = {0};
    text_init(&out, 1u << 20);
    inspection_draw(inspection, &out);
    static const char *const wanted[] = {
        "<svg ",      "kernels, 7", "copies to device, 14", "#d03030",     "starvation gaps",
        "host waits", "memsets, 7", "stroke-dasharray",     "3 (warm-up)", "not_sustained"};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        bool there = strstr(text_string(&out), wanted[i]) != NULL;
        ck_assert_msg(there == (i != 8), "'%s'", wanted[i]);
    }
    ck_assert_ptr_null(strstr(text_string(&out), "script"));
    text_done(&trace.text);
}
END_TEST

START_TEST(a_long_trace_prints_short)
{
    Trace trace = good_trace(0, 60, 200);
    text_add(&trace.text, "]}");
    Error error = ERROR_INIT;
    OWNED(Inspection, inspection_free) *inspection =
        trace_inspect_bytes(text_string(&trace.text), trace.text.length, 4096, &usual, &error);
    SCOPED_TEXT out = {0};
    text_init(&out, 1u << 20);
    inspection_print(inspection, &out);
    ck_assert_ptr_nonnull(strstr(text_string(&out), "memory, device 0: sustained: "));
    ck_assert_ptr_nonnull(strstr(text_string(&out), "... 48 more"));
    ck_assert_ptr_nonnull(strstr(text_string(&out), "60 steps on the device, the first 3 are warm-up"));
    ck_assert_uint_lt(out.length, 4000);
    text_done(&trace.text);
    inspection_free(NULL);
}
END_TEST

#define LOOP(test, rows) tcase_add_loop_test(c, test, 0, (int)(sizeof rows / sizeof rows[0]))
static Suite *suite(void)
{
    Suite *s = suite_create("inspect");
    TCase *c = tcase_create("all");
    tcase_add_loop_test(c, both_schemas_give_the_same_figures, 0, 2);
    tcase_add_test(c, the_five_words);
    tcase_add_test(c, without_step_marks_none_are_invented);
    tcase_add_loop_test(c, a_trace_of_nothing_has_a_verdict, 0, 2);
    tcase_add_loop_test(c, pageable_by_kind_and_where_it_is_unknown_by_the_time_of_the_call, 0, 6);
    tcase_add_test(c, copies_are_told_apart_by_direction_and_memory);
    tcase_add_loop_test(c, a_starvation_gap_has_a_cause, 0, 9);
    tcase_add_loop_test(c, an_exposed_copy_has_a_cause, 0, 5);
    tcase_add_test(c, batch_waits_belong_to_the_step_of_the_host);
    tcase_add_test(c, allocations_that_end_are_warmup);
    tcase_add_test(c, each_device_is_judged_by_itself);
    tcase_add_test(c, correlations_of_two_processes_are_kept_apart);
    tcase_add_test(c, shared_correlations_and_overlapping_operations_are_all_counted);
    LOOP(times_are_exact_or_not_used, number_rows);
    tcase_add_test(c, an_operation_at_zero_that_takes_no_time_has_no_timestamp);
    LOOP(hostile_bytes_are_named_or_read, hostile_rows);
    tcase_add_test(c, every_cut_of_a_trace_is_noticed);
    tcase_add_test(c, depth_and_length_are_bounded);
    tcase_add_test(c, more_owners_than_there_is_room_for_are_dropped);
    tcase_add_test(c, our_own_traces_come_back_as_they_were);
    tcase_add_test(c, sampled_windows_say_how_much_they_cover);
    tcase_add_test(c, no_text_of_a_trace_comes_out_again);
    tcase_add_test(c, the_picture_shows_rows_steps_gaps_and_what_is_exposed);
    tcase_add_test(c, a_long_trace_prints_short);
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
