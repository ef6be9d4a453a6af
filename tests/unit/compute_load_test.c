// compute_load_test - a back end in a file: absent, refused and unsupported are three answers, and nothing of
// a refused one is called.
#include <check.h>
#include <fedgate/compute.h>
#include <fedgate/file.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check_answer(const char *folder, const char *name, ErrorKind kind, const char *words)
{
    char path[512];
    Error error = ERROR_INIT;
    snprintf(path, sizeof path, "%s/%s", FEDGATE_BINARY_DIR, folder);
    ck_assert_int_eq(setenv("FEDGATE_BACKENDS", path, 1), 0);
    OWNED(Ledger, ledger_free) *ledger = ledger_new();
    OWNED(Device, device_close) *device = device_open(name, 1, clock_real(), ledger, &error);
    ck_assert_ptr_null(device);
    ck_assert_msg(error.kind == kind, "%s", error.message);
    ck_assert_msg(strstr(error.message, words) != NULL, "%s", error.message);
}

typedef struct Answer {
    const char *how;
    ErrorKind kind;
    const char *words;
} Answer;
static const Answer answers[] = {
    {"abi", ERROR_CONFIG, "is refused: contract 1, not 3"},
    {"size", ERROR_CONFIG, "is refused: contract of 8 bytes"},
    {"symbol", ERROR_CONFIG, "has no 'fedgate_backend'"},
    {"empty", ERROR_CONFIG, "'fake' is refused: a required slot is empty"},
    {"unsupported", ERROR_DEVICE, "'fake' is unsupported here: no device of this kind"},
    {"nowhere", ERROR_UNAVAILABLE, "'fake' is absent"},
};

START_TEST(test_answers)
{
    char folder[64];
    snprintf(folder, sizeof folder, "tests/backends/%s", answers[_i].how);
    check_answer(folder, "fake", answers[_i].kind, answers[_i].words);
}
END_TEST

START_TEST(test_absent_names_what_was_tried)
{
    check_answer("tests/backends/nowhere", "fake", ERROR_UNAVAILABLE,
                 "tests/backends/nowhere/fedgate_fake.so'");
    check_answer("tests/backends/nowhere", "fake", ERROR_UNAVAILABLE, "lib/fedgate/fedgate_fake.so'");
}
END_TEST

// A file that is there but is no module is refused, not passed over.
START_TEST(test_not_a_module)
{
    char folder[] = "/tmp/fedgate-backend-XXXXXX", path[64], words[128];
    Error error = ERROR_INIT;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/fedgate_fake.so", folder);
    FILE *stream = fopen(path, "w");
    ck_assert_ptr_nonnull(stream);
    fputs("no module\n", stream);
    ck_assert_int_eq(fclose(stream), 0);
    ck_assert_int_eq(setenv("FEDGATE_BACKENDS", folder, 1), 0);
    OWNED(Ledger, ledger_free) *ledger = ledger_new();
    OWNED(Device, device_close) *device = device_open("fake", 1, clock_real(), ledger, &error);
    ck_assert_ptr_null(device);
    snprintf(words, sizeof words, "'fake' is refused: %s", path);
    ck_assert_msg(error.kind == ERROR_CONFIG && strstr(error.message, words), "%s", error.message);
    ck_assert_msg(file_remove_tree(folder, &error), "%s", error.message);
}
END_TEST

#ifdef FEDGATE_HAS_CUDA
// The module that was built loads without any library of CUDA; where there is a card it opens.
START_TEST(test_cuda)
{
    Error error = ERROR_INIT;
    ck_assert_int_eq(setenv("FEDGATE_BACKENDS", FEDGATE_BINARY_DIR "/src", 1), 0);
    OWNED(Ledger, ledger_free) *ledger = ledger_new();
    OWNED(Device, device_close) *device = device_open("cuda", 1, clock_real(), ledger, &error);
    ck_assert_msg(device != NULL || (error.kind == ERROR_DEVICE &&
                                     strstr(error.message, "compute back end 'cuda' is unsupported here: ")),
                  "%s", error.message);
}
END_TEST
#endif

int main(void)
{
    Suite *suite = suite_create("compute_load");
    TCase *load = tcase_create("load");
    tcase_add_loop_test(load, test_answers, 0, sizeof answers / sizeof answers[0]);
    tcase_add_test(load, test_absent_names_what_was_tried);
    tcase_add_test(load, test_not_a_module);
#ifdef FEDGATE_HAS_CUDA
    tcase_add_test(load, test_cuda);
#endif
    suite_add_tcase(suite, load);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
