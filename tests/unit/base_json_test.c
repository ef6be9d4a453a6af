// base_json_test - JSON: bounded reading, canonical writing, asking.
#include "support.h"

#include <fedgate/json.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(rows) ((int)(sizeof(rows) / sizeof(rows)[0]))

static Json *parse(const char *text)
{
    Error error = ERROR_INIT;
    Json *value = json_parse(text, strlen(text), 1 << 20, &error);
    ck_assert_msg(value != NULL, "%s", error.message);
    return value;
}

static void assert_written(const Json *value, JsonStyle style, const char *expected)
{
    SCOPED_TEXT text;
    text_init(&text, 1 << 20);
    json_write(value, style, &text);
    ck_assert(!text.failed);
    ck_assert_str_eq(text_string(&text), expected);
}

// Read and written again, these give the same bytes.
static const char *const canonical_rows[] = {
    "{}",
    "[]",
    "null",
    "true",
    "false",
    "0",
    "-9223372036854775808",
    "9223372036854775807",
    "1.0",
    "-0.0",
    "0.1",
    "1e+22",
    "5e-324",
    "0.30000000000000004",
    "\"\"",
    "\"\\\"\\\\\\n\\t\\u0001\\u000d/\xc3\xa4\xf0\x9f\x98\x80\"",
    "{\"b\":1,\"a\":[1,2.5,\"x\",null,true,{}],\"0\":{\"z\":[],\"y\":false}}",
};

START_TEST(canonical_text_survives_reading_and_writing)
{
    OWNED(Json, json_free) *value = parse(canonical_rows[_i]);
    // The one number whose shortest form has more digits than anybody would type.
    bool smallest = text_equal(canonical_rows[_i], "5e-324");
    assert_written(value, JSON_COMPACT, smallest ? "4.94065645841247e-324" : canonical_rows[_i]);
}
END_TEST

START_TEST(members_keep_the_order_in_which_they_were_put)
{
    OWNED(Json, json_free) *object = json_make_object();
    char key[16];
    SCOPED_TEXT expected;
    text_init(&expected, 1 << 20);
    for (int i = 0; i < 500; i++) {
        ck_assert(text_print(key, sizeof key, "k%d", (i * 7919) % 500));
        json_put_integer(object, key, i);
        text_add_format(&expected, "%s\"%s\":%d", i > 0 ? "," : "{", key, i);
    }
    text_add(&expected, "}");
    assert_written(object, JSON_COMPACT, text_string(&expected));
    ck_assert_str_eq(json_key_at(object, 1), "k419");
    ck_assert_ptr_null(json_key_at(object, 500));
    json_put_text(object, "k419", "moved");   // replaced where it stands
    ck_assert_str_eq(json_key_at(object, 1), "k419");
    json_remove(object, "k0");
    json_remove(object, "k0");
    ck_assert_uint_eq(json_count(object), 499);
}
END_TEST

START_TEST(indented_text_uses_two_blanks)
{
    OWNED(Json, json_free) *value = parse("{\"a\":[1,{\"b\":[]}],\"c\":{}}");
    assert_written(value, JSON_INDENTED,
                   "{\n  \"a\": [\n    1,\n    {\n      \"b\": []\n    }\n  ],\n  \"c\": {}\n}");
}
END_TEST

START_TEST(numbers_that_json_lacks_stay_visible_as_text)
{
    static const struct { double value; const char *text; } rows[] = {
        {NAN, "\"nan\""}, {INFINITY, "\"inf\""}, {-INFINITY, "\"-inf\""}, {3, "3.0"}, {1e300, "1e+300"},
    };
    for (int i = 0; i < COUNT(rows); i++) {
        OWNED(Json, json_free) *object = json_make_object();
        Error error = ERROR_INIT;
        double back = 0;
        json_put_number(object, "v", rows[i].value);
        assert_written(json_get(object, "v"), JSON_COMPACT, rows[i].text);
        ck_assert(json_is_number(json_get(object, "v")));
        ASSERT_OK(json_get_number(object, "v", &back, &error), &error);
        ck_assert(isnan(rows[i].value) ? isnan(back) : back == rows[i].value);
    }
}
END_TEST

static const struct { const char *text, *words;
} refused_rows[] = {
    {"", "line 1"},
    {"{", "line 1"},
    {"{\"a\":1,\"a\":2}", "duplicate"},
    {"[1,]", "cannot read json"},
    {"[1] x", "end of file expected"},
    {"{'a':1}", "cannot read json"},
    {"[NaN]", "cannot read json"},
    {"[1e999]", "overflow"},
    {"[9223372036854775808]", "too big"},
    {"\"\\u0000\"", "\\u0000"},
    {"\"\xff\"", "0xff"},
    {"[01]", "cannot read json"},
    {"\"a\nb\"", "newline"},
    {"[\x01]", "\\x01"},
};

START_TEST(text_that_is_not_json_is_refused_with_its_place)
{
    Error error = ERROR_INIT;
    const char *text = refused_rows[_i].text;
    ASSERT_FAILS(json_parse(text, strlen(text), 1000, &error) != NULL, &error, ERROR_DATA,
                 refused_rows[_i].words);
}
END_TEST

START_TEST(nesting_and_size_have_limits)
{
    Error error = ERROR_INIT;
    char deep[300] = "";
    for (int levels = 64; levels <= 65; levels++) {
        memset(deep, '[', (size_t)levels);
        memset(deep + levels, ']', (size_t)levels);
        deep[2 * levels] = '\0';
        OWNED(Json, json_free) *value = json_parse(deep, strlen(deep), 1000, &error);
        ck_assert((value != NULL) == (levels == 64));
    }
    ck_assert_ptr_nonnull(strstr(error.message, "64 levels"));
    error_clear(&error);
    ASSERT_FAILS(json_parse("[1,2]", 5, 4, &error) != NULL, &error, ERROR_DATA, "the limit is 4");
}
END_TEST

START_TEST(asking_nothing_or_another_type_answers_no)
{
    OWNED(Json, json_free) *object = parse("{\"t\":\"x\",\"i\":3,\"r\":2.5,\"b\":true,\"n\":null,\"a\":[1]}");
    ck_assert(!json_is_object(NULL) && !json_is_array(NULL) && !json_is_text(NULL) && !json_is_number(NULL));
    ck_assert(!json_is_integer(NULL) && !json_is_bool(NULL) && !json_is_null(NULL));
    ck_assert(json_is_null(json_get(object, "n")) && !json_is_null(json_get(object, "absent")));
    ck_assert(json_is_array(json_get(object, "a")) && json_is_bool(json_get(object, "b")));
    ck_assert(json_is_number(json_get(object, "i")) && !json_is_integer(json_get(object, "r")));
    ck_assert_uint_eq(json_count(NULL), 0);
    ck_assert_uint_eq(json_count(json_get(object, "t")), 0);
    ck_assert_ptr_null(json_at(object, 0));
    ck_assert_ptr_null(json_get(json_get(object, "t"), "x"));
    ck_assert_str_eq(json_text_or(json_get(object, "i"), "no"), "no");
    ck_assert_int_eq(json_integer_or(json_get(object, "r"), -1), -1);
    ck_assert_double_eq(json_number_or(json_get(object, "i"), -1), 3);
    ck_assert_double_eq(json_number_or(json_get(object, "t"), -1), -1);
    ck_assert(json_bool_or(json_get(object, "b"), false) && json_bool_or(json_get(object, "i"), true));
}
END_TEST

START_TEST(a_dotted_path_walks_objects)
{
    OWNED(Json, json_free) *object = parse("{\"a\":{\"b\":{\"c\":7}},\"x\":1}");
    ck_assert_int_eq(json_integer_or(json_find(object, "a.b.c"), 0), 7);
    ck_assert(json_is_object(json_find(object, "a.b")));
    ck_assert_ptr_null(json_find(object, "a.q.c"));
    ck_assert_ptr_null(json_find(object, "x.y"));
    ck_assert_ptr_null(json_find(NULL, "a"));
}
END_TEST

START_TEST(a_required_member_says_what_is_there_instead)
{
    OWNED(Json, json_free) *object = parse("{\"t\":\"x\",\"i\":3,\"a\":[]}");
    Error error = ERROR_INIT;
    const char *text = NULL;
    int64_t integer = 0;
    double number = 0;
    bool flag = false;
    ASSERT_OK(json_get_text(object, "t", &text, &error), &error);
    ASSERT_OK(json_get_integer(object, "i", &integer, &error), &error);
    ASSERT_OK(json_get_number(object, "i", &number, &error), &error);
    ck_assert_str_eq(text, "x");
    ck_assert_int_eq(integer, 3);
    ck_assert_double_eq(number, 3);
    ASSERT_FAILS(json_get_text(object, "q", &text, &error), &error, ERROR_DATA, "json member 'q' is missing");
    ASSERT_FAILS(json_get_text(object, "a", &text, &error), &error, ERROR_DATA,
                 "'a' is an array, expected a text");
    ASSERT_FAILS(json_get_integer(object, "t", &integer, &error), &error, ERROR_DATA,
                 "is a text, expected an integer");
    ASSERT_FAILS(json_get_number(object, "t", &number, &error), &error, ERROR_DATA,
                 "is a text, expected a number");
    ASSERT_FAILS(json_get_bool(object, "i", &flag, &error), &error, ERROR_DATA,
                 "is an integer, expected true or false");
    ASSERT_FAILS(json_get_bool(NULL, "i", &flag, &error), &error, ERROR_DATA, "is missing");
}
END_TEST

START_TEST(texts_and_keys_that_are_not_utf8_are_escaped)
{
    OWNED(Json, json_free) *object = json_make_object();
    json_put_text(object, "k\xff", "v\xfe\n");
    json_put_text(object, "none", NULL);
    json_put(object, "null", NULL);
    assert_written(object, JSON_COMPACT, "{\"k\\\\xff\":\"v\\\\xfe\\n\",\"none\":null,\"null\":null}");
}
END_TEST

START_TEST(copies_are_equal_and_apart)
{
    OWNED(Json, json_free) *object = parse("{\"a\":[1,2],\"b\":1.0}");
    OWNED(Json, json_free) *copy = json_copy_deep(object);
    ck_assert(json_same(object, copy));
    json_add_integer((Json *)json_get(copy, "a"), 3);
    ck_assert(!json_same(object, copy));
    ck_assert_uint_eq(json_count(json_get(object, "a")), 2);
    ck_assert(json_same(NULL, NULL) && !json_same(object, NULL));
    ck_assert_ptr_null(json_copy_deep(NULL));
    OWNED(Json, json_free) *array = json_make_array();
    json_add_number(array, 0.5);
    json_add_text(array, "x");
    json_add(array, NULL);
    json_put_bool(object, "f", false);
    assert_written(array, JSON_COMPACT, "[0.5,\"x\",null]");
}
END_TEST

START_TEST(a_put_into_an_array_is_a_bug)
{
    json_put_integer(json_make_array(), "k", 1);
}
END_TEST

START_TEST(an_add_to_an_object_is_a_bug)
{
    json_add_integer(json_make_object(), 1);
}
END_TEST

// jansson's own hook; declared here because its header's macros would hide ours.
void json_set_alloc_funcs(void *(*take)(size_t), void (*release)(void *));

static void *no_memory(size_t bytes)
{
    (void)bytes;
    return NULL;
}

START_TEST(no_memory_while_building_ends_the_process_with_70)
{
    json_set_alloc_funcs(no_memory, free);
    json_make_object();
}
END_TEST

START_TEST(files_are_written_whole_and_read_back)
{
    char *folder = support_folder_new();
    const char *path = support_path(folder, "v.json");
    Error error = ERROR_INIT;
    OWNED(Json, json_free) *object = parse("{\"a\":1}");
    ASSERT_OK(json_write_file(object, JSON_INDENTED, path, &error), &error);
    SCOPED_TEXT text;
    text_init(&text, 100);
    ck_assert_str_eq(support_read(path, &text), "{\n  \"a\": 1\n}\n");
    OWNED(Json, json_free) *back = json_read_file(path, 100, &error);
    ck_assert(json_same(object, back));
    ASSERT_FAILS(json_read_file(path, 5, &error) != NULL, &error, ERROR_DATA, "v.json");
    support_write(path, "{\"a\":");
    ASSERT_FAILS(json_read_file(path, 100, &error) != NULL, &error, ERROR_DATA, "v.json");
    ASSERT_FAILS(json_read_file(support_path(folder, "no"), 100, &error) != NULL, &error, ERROR_IO, "no'");
    support_folder_remove(folder);
}
END_TEST

static Suite *suite(void)
{
    Suite *made = suite_create("base json");
    TCase *json = tcase_create("json");
    tcase_add_loop_test(json, canonical_text_survives_reading_and_writing, 0, COUNT(canonical_rows));
    tcase_add_test(json, members_keep_the_order_in_which_they_were_put);
    tcase_add_test(json, indented_text_uses_two_blanks);
    tcase_add_test(json, numbers_that_json_lacks_stay_visible_as_text);
    tcase_add_loop_test(json, text_that_is_not_json_is_refused_with_its_place, 0, COUNT(refused_rows));
    tcase_add_test(json, nesting_and_size_have_limits);
    tcase_add_test(json, asking_nothing_or_another_type_answers_no);
    tcase_add_test(json, a_dotted_path_walks_objects);
    tcase_add_test(json, a_required_member_says_what_is_there_instead);
    tcase_add_test(json, texts_and_keys_that_are_not_utf8_are_escaped);
    tcase_add_test(json, copies_are_equal_and_apart);
    tcase_add_test_raise_signal(json, a_put_into_an_array_is_a_bug, 6);
    tcase_add_test_raise_signal(json, an_add_to_an_object_is_a_bug, 6);
    tcase_add_exit_test(json, no_memory_while_building_ends_the_process_with_70, 70);
    tcase_add_test(json, files_are_written_whole_and_read_back);
    suite_add_tcase(made, json);
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
