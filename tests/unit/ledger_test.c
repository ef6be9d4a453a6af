// ledger_test - budgets bind exactly, peaks are peaks of the sum, threads lose nothing.
#include <fedgate/ledger.h>
#include <fedgate/text.h>

#include <check.h>
#include <pthread.h>
#include <string.h>

START_TEST(a_charge_over_the_budget_changes_nothing)
{
    OWNED(Ledger, ledger_free) *ledger = ledger_new();
    Error error = ERROR_INIT;
    ledger_set_budget(ledger, LEDGER_DEVICE, 100);
    ck_assert(ledger_charge(ledger, LEDGER_DEVICE, "weights", 60, &error));
    ck_assert(ledger_charge(ledger, LEDGER_DEVICE, "gradients", 40, &error));
    ck_assert(!ledger_charge(ledger, LEDGER_DEVICE, "workspace", 1, &error));
    ck_assert_int_eq(error.kind, ERROR_MEMORY);
    ck_assert_ptr_nonnull(
        strstr(error.message, "'workspace' asks 1 bytes of device memory, 100 of the budget of 100"));
    ck_assert_int_eq(ledger_live(ledger, LEDGER_DEVICE), 100);
    LedgerAccount accounts[LEDGER_ACCOUNTS];
    ck_assert_uint_eq(ledger_accounts(ledger, accounts), 2);
    ledger_set_budget(ledger, LEDGER_DEVICE, 50);   // lowered below what is live: nothing more fits
    error_clear(&error);
    ck_assert(!ledger_charge(ledger, LEDGER_DEVICE, "weights", 0, &error));
    ck_assert(ledger_charge(ledger, LEDGER_HOST, "rows", INT64_MAX, &error));
    ck_assert(!ledger_charge(ledger, LEDGER_HOST, "rows", 1, &error));   // no budget, but no overflow either
    ck_assert_int_eq(ledger_budget(ledger, LEDGER_DEVICE), 50);
}
END_TEST

START_TEST(the_accounts_are_told_as_the_evidence_holds_them)
{
    OWNED(Ledger, ledger_free) *ledger = ledger_new();
    Error error = ERROR_INIT;
    ledger_plan(ledger, LEDGER_DEVICE, "weights", 64);
    ck_assert(ledger_charge(ledger, LEDGER_DEVICE, "weights", 60, &error));
    ledger_return(ledger, LEDGER_DEVICE, "weights", 20);
    ck_assert(ledger_charge(ledger, LEDGER_HOST, "rows", 7, &error));
    OWNED(Json, json_free) *accounts = ledger_to_json(ledger);
    SCOPED_TEXT text;
    text_init(&text, 1000);
    json_write(accounts, JSON_COMPACT, &text);
    ck_assert_str_eq(text_string(&text),
                     "[{\"name\":\"weights\",\"kind\":\"device\",\"planned_bytes\":64,\"peak_bytes\":60,"
                     "\"live_bytes\":40},{\"name\":\"rows\",\"kind\":\"host\",\"planned_bytes\":0,"
                     "\"peak_bytes\":7,\"live_bytes\":7}]");
}
END_TEST

START_TEST(the_peak_is_of_the_sum_not_the_sum_of_peaks)
{
    OWNED(Ledger, ledger_free) *ledger = ledger_new();
    Error error = ERROR_INIT;
    ck_assert(ledger_charge(ledger, LEDGER_PINNED, "b", 70, &error));
    ledger_return(ledger, LEDGER_PINNED, "b", 70);
    ck_assert(ledger_charge(ledger, LEDGER_PINNED, "a", 50, &error));
    ledger_plan(ledger, LEDGER_PINNED, "a", 55);
    ck_assert(ledger_charge(ledger, LEDGER_DEVICE, "z", 1, &error));
    ck_assert_int_eq(ledger_peak(ledger, LEDGER_PINNED), 70);
    ck_assert_int_eq(ledger_live(ledger, LEDGER_PINNED), 50);
    LedgerAccount accounts[LEDGER_ACCOUNTS];
    ck_assert_uint_eq(ledger_accounts(ledger, accounts), 3);
    ck_assert_str_eq(accounts[0].name, "z");   // device before pinned, then by name
    ck_assert_str_eq(accounts[1].name, "a");
    ck_assert_str_eq(accounts[2].name, "b");
    ck_assert_int_eq(accounts[1].planned_bytes, 55);
    ck_assert_int_eq(accounts[2].peak_bytes, 70);
    ck_assert_int_eq(accounts[2].live_bytes, 0);
    ck_assert_int_eq(accounts[2].charges, 1);
    ck_assert_str_eq(ledger_kind_name(LEDGER_PINNED), "pinned");
}
END_TEST

START_TEST(taken_memory_is_zeroed_aligned_and_counted)
{
    OWNED(Ledger, ledger_free) *ledger = ledger_new();
    Error error = ERROR_INIT;
    ledger_set_budget(ledger, LEDGER_HOST, 1000);
    unsigned char *memory = ledger_take(ledger, LEDGER_HOST, "batch", 1000, &error);
    ck_assert_ptr_nonnull(memory);
    ck_assert_uint_eq((uintptr_t)memory % 64, 0);
    for (int i = 0; i < 1000; i++) {
        ck_assert_int_eq(memory[i], 0);
    }
    ck_assert_ptr_null(ledger_take(ledger, LEDGER_HOST, "batch", 1, &error));
    ck_assert_int_eq(error.kind, ERROR_MEMORY);
    ledger_give(ledger, LEDGER_HOST, "batch", memory, 1000);
    ledger_give(ledger, LEDGER_HOST, "batch", NULL, 1000);
    ck_assert_int_eq(ledger_live(ledger, LEDGER_HOST), 0);
    void *nothing = ledger_take(ledger, LEDGER_HOST, "batch", 0, &error);
    ck_assert_ptr_nonnull(nothing);
    ledger_give(ledger, LEDGER_HOST, "batch", nothing, 0);
#ifndef __SANITIZE_ADDRESS__   // its allocator ends the process instead of answering NULL
    ledger_set_budget(ledger, LEDGER_HOST, 0);
    error_clear(&error);
    ck_assert_ptr_null(
        ledger_take(ledger, LEDGER_HOST, "batch", INT64_C(1) << 60, &error));   // the host has no such memory
    ck_assert_int_eq(error.kind, ERROR_MEMORY);
#endif
    ck_assert_int_eq(ledger_live(ledger, LEDGER_HOST), 0);
    ledger_free(NULL);
}
END_TEST

enum { TURNS = 20000 };

static void *charge_and_return(void *argument)
{
    Ledger *ledger = argument;
    Error error = ERROR_INIT;
    for (int i = 0; i < TURNS; i++) {
        if (!ledger_charge(ledger, LEDGER_DEVICE, "shared", 3, &error)) {
            return ledger;
        }
        ledger_return(ledger, LEDGER_DEVICE, "shared", i % 2 == 0 ? 3 : 2);
    }
    return NULL;
}

START_TEST(threads_lose_no_charge)
{
    OWNED(Ledger, ledger_free) *ledger = ledger_new();
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, charge_and_return, ledger), 0);
    }
    for (int i = 0; i < 2; i++) {
        void *failed = NULL;
        ck_assert_int_eq(pthread_join(threads[i], &failed), 0);
        ck_assert_ptr_null(failed);
    }
    ck_assert_int_eq(ledger_live(ledger, LEDGER_DEVICE), 2 * TURNS / 2);
}
END_TEST

static void return_too_much(Ledger *ledger)
{
    ledger_return(ledger, LEDGER_DEVICE, "a", 2);
}

static void charge_less_than_nothing(Ledger *ledger)
{
    Error error = ERROR_INIT;
    (void)!ledger_charge(ledger, LEDGER_DEVICE, "a", -1, &error);
}

static void name_too_long(Ledger *ledger)
{
    ledger_plan(ledger, LEDGER_DEVICE, "a name that is longer than thirty-one bytes", 1);
}

static void too_many_accounts(Ledger *ledger)
{
    for (int i = 0; i <= LEDGER_ACCOUNTS; i++) {
        char name[] = {(char)('a' + i / 26), (char)('a' + i % 26), '\0'};
        ledger_plan(ledger, LEDGER_HOST, name, 1);
    }
}

static void (*const bugs[])(Ledger *) = {return_too_much, charge_less_than_nothing, name_too_long,
                                         too_many_accounts};

START_TEST(our_own_bugs_end_the_process)
{
    Ledger *ledger = ledger_new();
    Error error = ERROR_INIT;
    ck_assert(ledger_charge(ledger, LEDGER_DEVICE, "a", 1, &error));
    bugs[_i](ledger);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("ledger");
    TCase *c = tcase_create("all");
    tcase_add_test(c, a_charge_over_the_budget_changes_nothing);
    tcase_add_test(c, the_accounts_are_told_as_the_evidence_holds_them);
    tcase_add_test(c, the_peak_is_of_the_sum_not_the_sum_of_peaks);
    tcase_add_test(c, taken_memory_is_zeroed_aligned_and_counted);
    tcase_add_test(c, threads_lose_no_charge);
    tcase_add_loop_test_raise_signal(c, our_own_bugs_end_the_process, 6, 0, 4);   // SIGABRT
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
