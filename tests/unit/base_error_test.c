// base_error_test - errors as values: composing, cutting, kinds; arenas.
#include <check.h>
#include <errno.h>
#include <fedgate/arena.h>
#include <fedgate/error.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct KindRow {
    ErrorKind kind;
    const char *name;
    int exit_code;
    bool retry;
} KindRow;

// design.md section 2, written out again on purpose: exit codes are a contract with scripts.
static const KindRow kind_rows[] = {
    {ERROR_NONE, "none", 0, false},         {ERROR_CONFLICT, "conflict", 10, false},
    {ERROR_USAGE, "usage", 64, false},      {ERROR_INCONSISTENT, "inconsistent", 13, false},
    {ERROR_DATA, "data", 65, false},        {ERROR_UNAVAILABLE, "unavailable", 69, true},
    {ERROR_DEVICE, "device", 69, true},     {ERROR_MEMORY, "memory", 69, true},
    {ERROR_INTERNAL, "internal", 70, false}, {ERROR_IO, "io", 74, true},
    {ERROR_BUSY, "busy", 75, true},         {ERROR_DENIED, "denied", 77, false},
    {ERROR_CONFIG, "config", 78, false},
};

START_TEST(every_kind_has_its_exit_code_and_name)
{
    const KindRow *row = &kind_rows[_i];
    ck_assert_str_eq(error_kind_name(row->kind), row->name);
    ck_assert_int_eq(error_exit_code(row->kind), row->exit_code);
    ck_assert(error_worth_retry(row->kind) == row->retry);
}
END_TEST

START_TEST(an_errno_is_put_into_words_only_for_kinds_whose_code_is_one)
{
    Error error = ERROR_INIT;
    ck_assert(!FAIL(&error, ERROR_IO, ENOENT, "could not open file '%s'", "a"));
    ck_assert_str_eq(error.message, "could not open file 'a': No such file or directory");
    ck_assert_int_eq(error.code, ENOENT);
    ck_assert_ptr_nonnull(strstr(error.origin, "base_error_test.c:"));
    ck_assert(!FAIL(&error, ERROR_DEVICE, 2, "could not start the device"));
    ck_assert_str_eq(error.message, "could not start the device");
}
END_TEST

START_TEST(prefixes_grow_to_the_left_and_keep_kind_and_origin)
{
    Error error = ERROR_INIT;
    FAIL(&error, ERROR_DATA, 0, "cannot read it");
    const char *origin = error.origin;
    ck_assert(!error_prefix(&error, "file '%s'", "f"));
    ck_assert(!error_prefix(&error, "release '%s'", "r"));
    ck_assert(!error_hint(&error, "Do %d things.", 2));
    ck_assert_str_eq(error.message, "release 'r': file 'f': cannot read it");
    ck_assert_str_eq(error.hint, "Do 2 things.");
    ck_assert_ptr_eq(error.origin, origin);
    ck_assert_int_eq(error.kind, ERROR_DATA);
    error_clear(&error);
    ck_assert_int_eq(error.kind, ERROR_NONE);
    ck_assert_str_eq(error.message, "");
}
END_TEST

START_TEST(raising_again_forgets_the_old_hint_and_may_quote_the_old_message)
{
    Error error = ERROR_INIT;
    FAIL(&error, ERROR_DATA, 0, "inner");
    error_hint(&error, "Old.");
    FAIL(&error, ERROR_CONFIG, 0, "outer (%s)", error.message);
    ck_assert_str_eq(error.message, "outer (inner)");
    ck_assert_str_eq(error.hint, "");
}
END_TEST

START_TEST(a_cut_message_ends_in_dots_and_never_inside_a_letter)
{
    Error error = ERROR_INIT;
    char many[700] = "";
    for (size_t i = 0; i + 2 < sizeof many; i += 2)
        memcpy(many + i, "\xc3\xa4", 3);
    FAIL(&error, ERROR_DATA, 0, "%s", many);
    size_t length = strlen(error.message);
    ck_assert_str_eq(error.message + length - 3, "...");
    ck_assert_int_eq((unsigned char)error.message[length - 4], 0xa4);
    error_prefix(&error, "%s", many);
    ck_assert_str_eq(error.message + strlen(error.message) - 3, "...");
    error_hint(&error, "%s", many);
    ck_assert_str_eq(error.hint + strlen(error.hint) - 3, "...");
}
END_TEST

START_TEST(no_error_wanted_is_fine)
{
    ck_assert(!FAIL(NULL, ERROR_IO, 0, "nobody listens"));
    ck_assert(!error_prefix(NULL, "p"));
    ck_assert(!error_hint(NULL, "h"));
    error_clear(NULL);
}
END_TEST

START_TEST(a_bug_aborts)
{
    BUG("seen %d", 1);
}
END_TEST

START_TEST(an_unknown_kind_is_a_bug)
{
    error_exit_code((ErrorKind)99);
}
END_TEST

START_TEST(an_arena_hands_out_zeroed_aligned_memory_up_to_its_maximum)
{
    Arena *arena = arena_new(200000);
    ck_assert_ptr_nonnull(arena);
    unsigned char *first = arena_take(arena, 1), *second = arena_take(arena, 100000);
    ck_assert_ptr_nonnull(first);
    ck_assert_ptr_nonnull(second);
    ck_assert_uint_eq((uintptr_t)first % 16, 0);
    ck_assert_uint_eq((uintptr_t)second % 16, 0);
    ck_assert_int_eq(second[99999], 0);
    memset(second, 7, 100000);
    ck_assert_uint_eq(arena_used(arena), 100016);
    ck_assert_ptr_null(arena_take(arena, 100000));   // over the maximum: nothing changes
    ck_assert_uint_eq(arena_used(arena), 100016);
    ck_assert_ptr_nonnull(arena_take(arena, 99984));
    ck_assert_ptr_null(arena_take(arena, 1));
    arena_free(arena);
    arena_free(NULL);
}
END_TEST

START_TEST(an_arena_refuses_sizes_that_overflow)
{
    OWNED(Arena, arena_free) *arena = arena_new(SIZE_MAX);
    ck_assert_ptr_null(arena_take_array(arena, SIZE_MAX / 2, 4));
    ck_assert_ptr_null(arena_take(arena, SIZE_MAX));
    ck_assert_ptr_nonnull(arena_take_array(arena, 3, 8));
    ck_assert_ptr_ne(arena_take(arena, 0), arena_take(arena, 0));
}
END_TEST

START_TEST(an_arena_copies_and_formats_text)
{
    OWNED(Arena, arena_free) *arena = arena_new(1 << 20);
    ck_assert_str_eq(arena_copy_string(arena, "text"), "text");
    ck_assert_ptr_null(arena_copy_string(arena, NULL));
    ck_assert_str_eq(arena_format(arena, "%d-%s", 7, "x"), "7-x");
}
END_TEST

static Suite *suite(void)
{
    Suite *made = suite_create("base error");
    TCase *errors = tcase_create("error");
    tcase_add_loop_test(errors, every_kind_has_its_exit_code_and_name, 0,
                        sizeof kind_rows / sizeof kind_rows[0]);
    tcase_add_test(errors, an_errno_is_put_into_words_only_for_kinds_whose_code_is_one);
    tcase_add_test(errors, prefixes_grow_to_the_left_and_keep_kind_and_origin);
    tcase_add_test(errors, raising_again_forgets_the_old_hint_and_may_quote_the_old_message);
    tcase_add_test(errors, a_cut_message_ends_in_dots_and_never_inside_a_letter);
    tcase_add_test(errors, no_error_wanted_is_fine);
    tcase_add_test_raise_signal(errors, a_bug_aborts, SIGABRT);
    tcase_add_test_raise_signal(errors, an_unknown_kind_is_a_bug, SIGABRT);
    suite_add_tcase(made, errors);
    TCase *arenas = tcase_create("arena");
    tcase_add_test(arenas, an_arena_hands_out_zeroed_aligned_memory_up_to_its_maximum);
    tcase_add_test(arenas, an_arena_refuses_sizes_that_overflow);
    tcase_add_test(arenas, an_arena_copies_and_formats_text);
    suite_add_tcase(made, arenas);
    return made;
}

int main(void)
{
    SRunner *runner = srunner_create(suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
