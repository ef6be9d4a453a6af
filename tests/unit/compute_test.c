// compute_test - the contract of a back end, memory, streams and events.
#include "compute_fixture.h"

START_TEST(the_device_says_what_it_is)
{
    const DeviceInfo *info = device_info(device);
    ck_assert_str_eq(info->backend, "cpu");
    ck_assert_uint_eq(info->types, 1u << FEDGATE_FP32 | 1u << FEDGATE_BF16 | 1u << FEDGATE_FP16);
    ck_assert_int_gt(info->context_bytes, 0);   // scratch of one thread
    ck_assert_int_ge(info->cores, 1);
    ck_assert_int_eq(info->threads, 1);
    ck_assert_int_gt(info->memory_bytes, 0);
    ck_assert_ptr_nonnull(strstr(info->libraries, "openblas"));
    ck_assert_ptr_nonnull(strstr(info->libraries, info->core));
}
END_TEST

START_TEST(an_absent_back_end_is_said_to_be_absent)
{
    Error error = ERROR_INIT;
    ck_assert_ptr_null(device_open("tpu", 0, clock_real(), ledger, &error));
    ck_assert_int_eq(error.kind, ERROR_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(error.message, "'tpu' is absent"));
}
END_TEST

static int calls;
static bool count_probe(char *reason)
{
    calls++;
    snprintf(reason, FEDGATE_REASON_SIZE, "no such instruction");
    return false;
}
static int count_devices(void)
{
    calls++;
    return 0;
}
static bool pass_probe(char *reason)
{
    (void)reason;
    return true;
}

static const struct {
    const char *what;
    uint32_t abi, size;
    const char *empty;   // slot
} wrong[] = {
    {"the abi before", FEDGATE_BACKEND_ABI - 1, sizeof(FedgateBackend), NULL},
    {"another abi", FEDGATE_BACKEND_ABI + 1, sizeof(FedgateBackend), NULL},
    {"another size", FEDGATE_BACKEND_ABI, sizeof(FedgateBackend) - 8, NULL},
    {"no optimizer", FEDGATE_BACKEND_ABI, sizeof(FedgateBackend), "adam"},
    {"no cast", FEDGATE_BACKEND_ABI, sizeof(FedgateBackend), "cast"},
    {"no decision", FEDGATE_BACKEND_ABI, sizeof(FedgateBackend), "settle"},
};

START_TEST(a_wrong_contract_is_refused_and_nothing_of_it_runs)
{
    FedgateBackend backend = fedgate_backend;
    backend.abi = wrong[_i].abi;
    backend.size = wrong[_i].size;
    backend.probe = count_probe;
    backend.device_count = count_devices;
    if (wrong[_i].empty) {
        backend.adam = strcmp(wrong[_i].empty, "adam") == 0 ? NULL : backend.adam;
        backend.cast = strcmp(wrong[_i].empty, "cast") == 0 ? NULL : backend.cast;
        backend.settle = strcmp(wrong[_i].empty, "settle") == 0 ? NULL : backend.settle;
    }
    Error error = ERROR_INIT;
    calls = 0;
    ck_assert_ptr_null(device_open_backend(&backend, 0, clock_real(), ledger, &error));
    ck_assert_int_eq(error.kind, ERROR_CONFIG);
    ck_assert_ptr_nonnull(strstr(error.message, "refused"));
    ck_assert_int_eq(calls, 0);
}
END_TEST

START_TEST(an_unsupported_machine_is_said_with_its_reason)
{
    FedgateBackend backend = fedgate_backend;
    Error error = ERROR_INIT;
    backend.probe = count_probe;
    ck_assert_ptr_null(device_open_backend(&backend, 0, clock_real(), ledger, &error));
    ck_assert_int_eq(error.kind, ERROR_DEVICE);
    ck_assert_ptr_nonnull(strstr(error.message, "no such instruction"));
    backend.probe = pass_probe;
    backend.device_count = count_devices;
    ck_assert_ptr_null(device_open_backend(&backend, 0, clock_real(), ledger, &error));
    ck_assert_ptr_nonnull(strstr(error.message, "no device"));
}
END_TEST

START_TEST(memory_is_charged_zeroed_and_refused_over_the_budget)
{
    Error error = ERROR_INIT;
    ledger_set_budget(ledger, LEDGER_DEVICE, 1000);
    float *a = take(200);
    ck_assert_float_eq(a[199], 0);
    ck_assert_int_eq(ledger_live(ledger, LEDGER_DEVICE), 800);
    ck_assert_ptr_null(device_take(device, "more", 400, &error));
    ck_assert_int_eq(error.kind, ERROR_MEMORY);
    give(a, 200);
    void *pinned = device_take_pinned(device, "ring", 64, &error);
    ck_assert_int_eq(ledger_live(ledger, LEDGER_PINNED), 64);
    device_give_pinned(device, "ring", pinned, 64);
}
END_TEST

START_TEST(a_copy_waits_for_its_event_and_then_passes_its_own)
{
    Error error = ERROR_INIT;
    Timeline *timeline = timeline_new(100);
    device_trace(device, timeline);
    DeviceEvent *after = device_event_new(device, &error), *done = device_event_new(device, &error);
    float from[4] = {1, 2, 3, 4}, *to = take(4);
    ck_assert(device_copy_in(device, to, from, 16, 7, false, after, done, &error));
    ck_assert(!device_event_wait(done, 2000000, &error));
    ck_assert_int_eq(error.kind, ERROR_DEVICE);
    device_record_compute(device, after);
    ck_assert(device_event_wait(done, 5000000000, &error));
    ck_assert(device_event_done(done));
    ck_assert_mem_eq(to, from, 16);
    ck_assert(device_synchronise(device, &error));
    device_trace(device, NULL);
    ck_assert_uint_eq(timeline_count(timeline), 1);
    const Span *span = timeline_spans(timeline);
    ck_assert_int_eq(span->kind, SPAN_COPY_H2D);
    ck_assert_int_eq(span->step, 7);
    ck_assert_int_eq(span->bytes, 16);
    ck_assert(!span->pageable);
    ck_assert_int_le(span->launched_ns, span->begin);
    device_event_free(after);
    device_event_free(done);
    timeline_free(timeline);
    give(to, 4);
}
END_TEST

START_TEST(a_device_closes_although_a_copy_waits_for_ever)
{
    Error error = ERROR_INIT;
    Device *other = open_cpu(1);
    DeviceEvent *after = device_event_new(other, &error);
    float from[4] = {1}, to[4] = {0};
    ck_assert(device_copy_in(other, to, from, 16, 0, true, after, NULL, &error));
    device_close(other);
    ck_assert_float_eq(to[0], 0);
    device_event_free(after);
}
END_TEST

#ifdef FEDGATE_FAULTS
START_TEST(the_fault_of_pageable_copies_shows_in_the_trace)
{
    Error error = ERROR_INIT;
    setenv("FEDGATE_FAULT", "copy.pageable=1,copy.slow_ns=2000000", 1);
    Timeline *timeline = timeline_new(100);
    device_trace(device, timeline);
    float from[4] = {1}, to[4];
    ck_assert(device_copy_in(device, to, from, 16, 0, false, NULL, NULL, &error));
    ck_assert(device_synchronise(device, &error));
    unsetenv("FEDGATE_FAULT");
    device_trace(device, NULL);
    const Span *span = timeline_spans(timeline);
    ck_assert(span->pageable);
    ck_assert_int_ge(span->end - span->begin, 2000000);
    timeline_free(timeline);
}
END_TEST
#endif

START_TEST(pinning_the_environment_is_done_once)
{
    setenv("OPENBLAS_CORETYPE", "Prescott", 1);
    ck_assert(device_pin_environment());
    ck_assert(!device_pin_environment());
    ck_assert_str_ne(getenv("OPENBLAS_CORETYPE"), "Prescott");
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("compute");
    TCase *t = tcase_create("device");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, the_device_says_what_it_is);
    tcase_add_test(t, an_absent_back_end_is_said_to_be_absent);
    tcase_add_loop_test(t, a_wrong_contract_is_refused_and_nothing_of_it_runs, 0,
                        sizeof wrong / sizeof wrong[0]);
    tcase_add_test(t, an_unsupported_machine_is_said_with_its_reason);
    tcase_add_test(t, memory_is_charged_zeroed_and_refused_over_the_budget);
    tcase_add_test(t, a_copy_waits_for_its_event_and_then_passes_its_own);
    tcase_add_test(t, a_device_closes_although_a_copy_waits_for_ever);
#ifdef FEDGATE_FAULTS
    tcase_add_test(t, the_fault_of_pageable_copies_shows_in_the_trace);
#endif
    tcase_add_test(t, pinning_the_environment_is_done_once);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return run_suite(suite());
}
