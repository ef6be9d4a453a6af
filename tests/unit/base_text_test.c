// base_text_test - growable text, numbers, names and distances.
#include <check.h>
#include <fedgate/text.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(rows) ((int)(sizeof(rows) / sizeof(rows)[0]))

START_TEST(an_append_past_the_maximum_is_dropped_and_remembered)
{
    SCOPED_TEXT text;
    Error error = ERROR_INIT;
    text_init(&text, 8);
    text_add(&text, "12345");
    ck_assert(text_ok(&text, &error));
    text_add(&text, "6789");
    text_add(&text, "678");
    ck_assert_str_eq(text_string(&text), "12345678");
    ck_assert(!text_ok(&text, &error));
    ck_assert_int_eq(error.kind, ERROR_MEMORY);
    ck_assert_ptr_null(text_take(&text));
    text_init(&text, 8);
    text_add_format(&text, "%s", "too long for it");
    ck_assert(text.failed);
    text_clear(&text);
    ck_assert(!text.failed);
    ck_assert_str_eq(text_string(&text), "");
}
END_TEST

START_TEST(text_grows_and_is_taken_over)
{
    Text text;
    text_init(&text, 100000);
    for (int i = 0; i < 1000; i++)
        text_add_format(&text, "%03d ", i);
    char longer[600];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    text_add_format(&text, "[%s]", longer);   // longer than the first try's room
    text_add_bytes(&text, "\0z", 2);
    ck_assert_uint_eq(text.length, 4000 + 601 + 2);
    char *taken = text_take(&text);
    ck_assert_ptr_nonnull(taken);
    ck_assert_int_eq(taken[4602], 'z');
    free(taken);
    ck_assert_uint_eq(text.length, 0);
    taken = text_take(&text);
    ck_assert_str_eq(taken, "");   // an empty text is a text
    free(taken);
    text_done(&text);
    text_done(NULL);
    text_done(&(Text){0});
}
END_TEST

START_TEST(copies_and_prints_say_when_they_do_not_fit)
{
    char to[4];
    ck_assert(text_copy(to, sizeof to, "abc"));
    ck_assert_str_eq(to, "abc");
    ck_assert(!text_copy(to, sizeof to, "abcd"));
    ck_assert_str_eq(to, "");
    ck_assert(text_print(to, sizeof to, "%d", 999));
    ck_assert(!text_print(to, sizeof to, "%d", 1000));
    ck_assert_ptr_null(text_duplicate(NULL));
    ck_assert(text_equal(NULL, NULL) && !text_equal("a", NULL) && text_equal("a", "a"));
    ck_assert(text_starts_with("abc", "ab") && !text_starts_with("a", "ab"));
    ck_assert(text_ends_with("abc", "bc") && !text_ends_with("c", "bc") && text_ends_with("c", ""));
}
END_TEST

static const struct { const char *text; bool ok; int64_t value; } integer_rows[] = {
    {"0", true, 0}, {"-1", true, -1}, {"+7", true, 7}, {"007", true, 7},
    {"9223372036854775807", true, INT64_MAX}, {"-9223372036854775808", true, INT64_MIN},
    {"9223372036854775808", false, 0}, {"", false, 0}, {"-", false, 0}, {"+", false, 0}, {" 1", false, 0},
    {"1 ", false, 0}, {"0x10", false, 0}, {"1.0", false, 0}, {"--1", false, 0}, {NULL, false, 0},
};

START_TEST(only_whole_decimal_integers_are_read)
{
    int64_t value = 42;
    ck_assert(text_to_int64(integer_rows[_i].text, &value) == integer_rows[_i].ok);
    ck_assert_int_eq(value, integer_rows[_i].ok ? integer_rows[_i].value : 42);
}
END_TEST

static const struct { const char *text; bool ok; double value; } double_rows[] = {
    {"0", true, 0}, {"-1.5", true, -1.5}, {"+2e3", true, 2000}, {".5", true, 0.5}, {"5.", true, 5},
    {"4.9406564584124654e-324", true, 4.9406564584124654e-324}, {"1E-2", true, 0.01},
    {"1e999", false, 0}, {"nan", false, 0}, {"inf", false, 0}, {"-inf", false, 0}, {"0x1p3", false, 0},
    {" 1", false, 0}, {"1 ", false, 0}, {"1e", false, 0}, {"1,5", false, 0}, {"", false, 0}, {"-", false, 0},
    {"1.2.3", false, 0}, {NULL, false, 0},
};

START_TEST(only_whole_finite_decimals_are_read)
{
    double value = 42;
    ck_assert(text_to_double(double_rows[_i].text, &value) == double_rows[_i].ok);
    ck_assert_double_eq(value, double_rows[_i].ok ? double_rows[_i].value : 42);
}
END_TEST

static const struct { double value; const char *text; } shortest_rows[] = {
    {0.1, "0.1"}, {5, "5"}, {1.0 / 3, "0.3333333333333333"}, {0.1 + 0.2, "0.30000000000000004"},
    {1e22, "1e+22"}, {-0.0, "-0"}, {NAN, "nan"}, {INFINITY, "inf"}, {-INFINITY, "-inf"}, {0.907, "0.907"},
};

START_TEST(a_double_is_written_in_its_shortest_exact_form)
{
    char text[32];
    text_from_double(text, shortest_rows[_i].value);
    ck_assert_str_eq(text, shortest_rows[_i].text);
}
END_TEST

START_TEST(counts_are_grouped_by_thousands)
{
    static const struct { int64_t value; const char *text;
    } rows[] = {
        {0, "0"},
        {999, "999"},
        {1000, "1,000"},
        {-1234567, "-1,234,567"},
        {INT64_MIN, "-9,223,372,036,854,775,808"},
    };
    for (int i = 0; i < COUNT(rows); i++) {
        char text[32];
        text_from_count(text, rows[i].value);
        ck_assert_str_eq(text, rows[i].text);
    }
}
END_TEST

START_TEST(distances_count_insert_delete_replace_and_swap)
{
    ck_assert_int_eq(text_distance("same", "same"), 0);
    ck_assert_int_eq(text_distance("", "abc"), 3);
    ck_assert_int_eq(text_distance("trian", "train"), 1);
    ck_assert_int_eq(text_distance("batch", "match"), 1);
    ck_assert_int_eq(text_distance("aaaaaaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbbbbbb"), 16);
}
END_TEST

START_TEST(the_nearest_name_is_found_only_when_it_is_near)
{
    static const char *const names[] = {"train.epochs", "train.batch", "seed", "zone"};
    ck_assert_str_eq(text_nearest("train.epoch", names, 4), "train.epochs");
    ck_assert_str_eq(text_nearest("sede", names, 4), "seed");
    ck_assert_ptr_null(text_nearest("completely", names, 4));
    ck_assert_ptr_null(text_nearest("x", names, 0));
}
END_TEST

static const struct { const char *raw, *shown; } escape_rows[] = {
    {"plain \xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80", "plain \xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80"},
    {"a\nb\t\x1b[31m\x7f", "a\\x0ab\\x09\\x1b[31m\\x7f"},
    {"\xff\xc3", "\\xff\\xc3"},                  // never valid; cut sequence
    {"\xc0\xaf\xe0\x80\xaf", "\\xc0\\xaf\\xe0\\x80\\xaf"},   // overlong
    {"\xed\xa0\x80", "\\xed\\xa0\\x80"},         // surrogate
    {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},   // above U+10FFFF
    {"\xc2\x9b", "\\xc2\\x9b"},                  // C1 control
};

START_TEST(control_bytes_and_bad_utf8_are_made_visible)
{
    SCOPED_TEXT text;
    text_init(&text, 1000);
    text_add_escaped(&text, escape_rows[_i].raw);
    ck_assert_str_eq(text_string(&text), escape_rows[_i].shown);
}
END_TEST

static const struct { const char *name; bool ok; } name_rows[] = {
    {"adult", true}, {"adult-3f2a9c41d07be865", true}, {"a.b_c-1", true}, {"0", true},
    {"", false}, {NULL, false}, {".a", false}, {"-a", false}, {"a..b", false}, {"A", false}, {"a/b", false},
    {"a b", false}, {"\xc3\xa4", false},
    {"0123456789012345678901234567890123456789012345678901234567890123", true},
    {"01234567890123456789012345678901234567890123456789012345678901234", false},
};

START_TEST(names_are_short_lower_case_and_safe_in_paths)
{
    ck_assert(text_is_name(name_rows[_i].name) == name_rows[_i].ok);
}
END_TEST

static Suite *suite(void)
{
    Suite *made = suite_create("base text");
    TCase *text = tcase_create("text");
    tcase_add_test(text, an_append_past_the_maximum_is_dropped_and_remembered);
    tcase_add_test(text, text_grows_and_is_taken_over);
    tcase_add_test(text, copies_and_prints_say_when_they_do_not_fit);
    tcase_add_loop_test(text, control_bytes_and_bad_utf8_are_made_visible, 0, COUNT(escape_rows));
    tcase_add_loop_test(text, names_are_short_lower_case_and_safe_in_paths, 0, COUNT(name_rows));
    tcase_add_test(text, distances_count_insert_delete_replace_and_swap);
    tcase_add_test(text, the_nearest_name_is_found_only_when_it_is_near);
    suite_add_tcase(made, text);
    TCase *numbers = tcase_create("numbers");
    tcase_add_loop_test(numbers, only_whole_decimal_integers_are_read, 0, COUNT(integer_rows));
    tcase_add_loop_test(numbers, only_whole_finite_decimals_are_read, 0, COUNT(double_rows));
    tcase_add_loop_test(numbers, a_double_is_written_in_its_shortest_exact_form, 0, COUNT(shortest_rows));
    tcase_add_test(numbers, counts_are_grouped_by_thousands);
    suite_add_tcase(made, numbers);
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
