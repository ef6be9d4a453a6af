// night_pairs_test - parity pairs over nights: what counts as a look, what replaces what. Files made by hand.
#include "../../src/night/night_internal.h"
#include "support.h"

#include <stdlib.h>
#include <string.h>

static char *home;
static Error error;
static NightOptions options;
static Night night;

static Json *parse(const char *text)
{
    Json *json = json_parse(text, strlen(text), 100000, &error);
    ck_assert_msg(json != NULL, "%s: %s", text, error.message);
    return json;
}

static void set_up(void)
{
    home = support_folder_new();
    error = ERROR_INIT;
    options = (NightOptions){.home = home};
    night = (Night){.options = &options,
                    .evidence = json_make_object(),
                    .record = parse("{\"options\":{\"data.cutoff\":\"1\",\"train.batch\":64},\"seed\":1}")};
}

static void tear_down(void)
{
    json_free(night.evidence);
    json_free(night.record);
    support_folder_remove(home);
}

// A night with these pairs: joins and keeps. Returns its metric.
static const Json *look(const char *pairs)
{
    char text[1000];
    ck_assert(text_print(text, sizeof text,
                         "{\"metric\":{\"name\":\"auc\",\"pairs\":%s},\"trajectory\":{\"steps\":8}}", pairs));
    Json *parity = parse(text);
    ck_assert_msg(night_pairs_join(&night, parity, &error), "%s", error.message);
    json_put(night.evidence, "parity", parity);
    ck_assert_msg(night_pairs_keep(&night, &error), "%s", error.message);
    return json_get(parity, "metric");
}

static void expect(const Json *metric, int64_t looks, size_t pairs)
{
    ck_assert_int_eq(json_integer_or(json_get(metric, "looks"), 0), looks);
    ck_assert_uint_eq(json_count(json_get(metric, "pairs")), pairs);
}

#define FIRST "[{\"seed\":1,\"run\":\"a\",\"reference\":0.7,\"candidate\":0.71}]"

START_TEST(a_pair_that_was_there_is_no_look_and_any_other_is)
{
    expect(look(FIRST), 1, 1);
    expect(look("[{\"seed\":1,\"run\":\"b\",\"reference\":0.7,\"candidate\":0.71}]"), 1, 1);   // made again
    expect(look("[{\"seed\":2,\"run\":\"c\",\"reference\":0.7,\"candidate\":0.71}]"), 2, 2);
}
END_TEST

START_TEST(other_values_of_a_seed_are_a_look_and_replace_it)
{
    static const char *const other[] = {"[{\"seed\":1,\"run\":\"b\",\"reference\":0.6,\"candidate\":0.71}]",
                                        "[{\"seed\":1,\"run\":\"b\",\"reference\":0.7,\"candidate\":0.72}]",
                                        "[{\"seed\":1,\"run\":\"b\",\"reference\":0.7}]"};
    expect(look(FIRST), 1, 1);
    const Json *metric = look(other[_i]);
    expect(metric, 2, 1);
    ck_assert_str_eq(json_text_or(json_get(json_at(json_get(metric, "pairs"), 0), "run"), ""), "b");
}
END_TEST

// Nights that move only the cutoff share their pairs; another batch is another question.
START_TEST(the_cutoff_shares_pairs_and_an_option_of_the_model_does_not)
{
    expect(look(FIRST), 1, 1);
    json_put_text(night_section(night.record, "options"), "data.cutoff", "2");
    expect(look("[{\"seed\":2,\"run\":\"b\",\"reference\":0.7,\"candidate\":0.7}]"), 2, 2);
    json_put_integer(night_section(night.record, "options"), "train.batch", 32);
    expect(look(FIRST), 1, 1);
}
END_TEST

// One night without numbers may not fail every night after it.
START_TEST(a_pair_that_is_no_number_is_a_look_and_is_not_kept)
{
    expect(look(FIRST), 1, 1);
    expect(look("[{\"seed\":2,\"run\":\"b\",\"reference\":0.7,\"candidate\":\"nan\"}]"), 2, 2);
    expect(look("[{\"seed\":3,\"run\":\"c\",\"reference\":0.7,\"candidate\":0.7}]"), 3, 2);
}
END_TEST

// -- files that others wrote

static char *stored_path(void)
{
    char folder[FILE_PATH_SIZE];
    FileList files = {0};
    expect(look(FIRST), 1, 1);
    ck_assert(file_join(folder, home, "parity", &error));
    ck_assert(file_list(folder, &files, &error));
    ck_assert_uint_eq(files.count, 1);
    char *path = malloc(FILE_PATH_SIZE);
    ck_assert(path != NULL && file_join(path, folder, files.names[0], &error));
    file_list_done(&files);
    return path;
}

static bool join_with(const char *path, const char *text)
{
    ck_assert_msg(file_write_atomic(path, text, strlen(text), 0600, &error), "%s", error.message);
    OWNED(Json, json_free) *parity =
        parse("{\"metric\":{\"name\":\"auc\",\"pairs\":" FIRST "},\"trajectory\":{\"steps\":8}}");
    error = ERROR_INIT;
    return night_pairs_join(&night, parity, &error);
}

#define STORED(format, looks, steps, pairs)                                                                  \
    "{\"format\":" format ",\"looks\":" looks ",\"steps\":" steps ",\"pairs\":" pairs "}"
#define ENTRY(seed, rest)                                                                                    \
    "["                                                                                                      \
    "{\"seed\":4,\"run\":\"a\",\"reference\":0.7,\"candidate\":0.71},{\"seed\":" seed "," rest "}]"
#define VALUES "\"reference\":0.7,\"candidate\":0.71"

static const char *const refused[] = {
    STORED("2", "1", "8", "[]"),
    STORED("1", "0", "8", "[]"),
    STORED("1", "1000001", "8", "[]"),
    STORED("1", "1", "0", "[]"),
    STORED("1", "1", "8", "{}"),
    STORED("1", "1", "8", "[1]"),
    STORED("1", "1", "8", ENTRY("-1", "\"run\":\"b\"," VALUES)),
    STORED("1", "1", "8", ENTRY("5", VALUES)),
    STORED("1", "1", "8", ENTRY("5", "\"run\":\"b\",\"candidate\":0.7")),
    STORED("1", "1", "8", ENTRY("5", "\"run\":\"b\",\"reference\":\"nan\",\"candidate\":0.7")),
    STORED("1", "1", "8", ENTRY("5", "\"run\":\"b\",\"reference\":0.7,\"candidate\":\"inf\"")),
    STORED("1", "1", "8", ENTRY("4", "\"run\":\"b\"," VALUES)),
    "[",
};
enum { REFUSED = sizeof refused / sizeof refused[0] };

START_TEST(a_file_of_nonsense_is_refused_by_its_name)
{
    char *path = stored_path();
    ck_assert_msg(!join_with(path, refused[_i]), "%s", refused[_i]);
    ck_assert_msg(strstr(error.message, path) != NULL, "%s", error.message);
    ck_assert(strstr(error.hint, "restore the file") != NULL);
    ck_assert(join_with(path, STORED("1", "1", "8", ENTRY("5", "\"run\":\"b\"," VALUES))));
    free(path);
}
END_TEST

// The same home by a longer name.
static char *longer_home(size_t length)
{
    char *text = calloc(length + 1, 1);
    ck_assert(text != NULL && strlen(home) < length);
    memcpy(text, home, strlen(home));
    for (size_t i = strlen(home); i < length; i++)
        text[i] = i % 2 == strlen(home) % 2 ? '/' : '.';
    return text;
}

START_TEST(a_home_that_cannot_hold_the_file_is_said)
{
    int64_t steps = 0;
    expect(look(FIRST), 1, 1);
    ck_assert(night_pairs_steps(&night, METRIC_AUC, &steps, &error) && steps == 8);
    for (size_t length = FILE_PATH_SIZE - 28; length < FILE_PATH_SIZE + 12; length += 4) {
        char *long_home = longer_home(length);
        options.home = long_home;
        OWNED(Json, json_free) *parity =
            parse("{\"metric\":{\"name\":\"auc\",\"pairs\":" FIRST "},\"trajectory\":{\"steps\":8}}");
        json_put(night.evidence, "parity", json_copy_deep(parity));
        ck_assert(!night_pairs_join(&night, parity, &error));
        ck_assert(!night_pairs_keep(&night, &error));
        options.home = home;
        free(long_home);
    }
    char *longest = longer_home(2 * FILE_PATH_SIZE);
    options.home = longest;
    ck_assert(!night_pairs_steps(&night, METRIC_AUC, &steps, &error));
    OWNED(Json, json_free) *parity =
        parse("{\"metric\":{\"name\":\"auc\",\"pairs\":" FIRST "},\"trajectory\":{\"steps\":8}}");
    ck_assert(!night_pairs_join(&night, parity, &error));
    options.home = home;
    free(longest);
}
END_TEST

START_TEST(a_file_in_the_way_of_the_folder_is_said)
{
    char folder[FILE_PATH_SIZE];
    ck_assert(file_join(folder, home, "file", &error) && file_write_atomic(folder, "x", 1, 0600, &error));
    options.home = folder;
    OWNED(Json, json_free) *parity =
        parse("{\"metric\":{\"name\":\"auc\",\"pairs\":" FIRST "},\"trajectory\":{\"steps\":8}}");
    json_put(night.evidence, "parity", json_copy_deep(parity));
    ck_assert(!night_pairs_keep(&night, &error));
    ck_assert(strstr(error.message, folder) != NULL);
    options.home = home;
}
END_TEST

// An FP32 night, and a night without validation rows, have no pairs: nothing is read and nothing written.
START_TEST(a_night_without_pairs_keeps_none)
{
    OWNED(Json, json_free) *parity = parse("{\"precision\":\"fp32\"}");
    int64_t steps = -1;
    ck_assert(night_pairs_join(&night, parity, &error));
    ck_assert(night_pairs_keep(&night, &error));
    ck_assert(night_pairs_steps(&night, METRIC_AUC, &steps, &error) && steps == 0);
    char folder[FILE_PATH_SIZE];
    ck_assert(file_join(folder, home, "parity", &error) && !file_exists(folder));
}
END_TEST

// A night without any pair is the first look all the same.
START_TEST(no_pair_is_a_look_when_it_is_the_first)
{
    expect(look("[]"), 1, 0);
    expect(look("[]"), 1, 0);
}
END_TEST

// Two new pairs in one night are one look.
START_TEST(two_new_pairs_are_one_look)
{
    expect(look("[{\"seed\":1,\"run\":\"a\",\"reference\":0.7,\"candidate\":0.71},{\"seed\":2,\"run\":\"a\","
                "\"reference\":0.7,\"candidate\":0.71}]"),
           1, 2);
    expect(look("[{\"seed\":3,\"run\":\"b\",\"reference\":0.7,\"candidate\":0.71},{\"seed\":4,\"run\":\"b\","
                "\"reference\":0.7,\"candidate\":0.71}]"),
           2, 4);
}
END_TEST

// The error of a look so late is nothing: looks stay there rather than run over.
START_TEST(looks_end_at_their_most)
{
    char *path = stored_path();
    ck_assert_msg(file_write_atomic(path, STORED("1", "999999", "8", "[]"),
                                    strlen(STORED("1", "999999", "8", "[]")), 0600, &error),
                  "%s", error.message);
    expect(look(FIRST), 1000000, 1);
    expect(look("[{\"seed\":2,\"run\":\"c\",\"reference\":0.7,\"candidate\":0.7}]"), 1000000, 2);
    free(path);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("night_pairs");
    TCase *t = tcase_create("pairs");
    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_add_test(t, a_pair_that_was_there_is_no_look_and_any_other_is);
    tcase_add_loop_test(t, other_values_of_a_seed_are_a_look_and_replace_it, 0, 3);
    tcase_add_test(t, the_cutoff_shares_pairs_and_an_option_of_the_model_does_not);
    tcase_add_test(t, a_pair_that_is_no_number_is_a_look_and_is_not_kept);
    tcase_add_loop_test(t, a_file_of_nonsense_is_refused_by_its_name, 0, REFUSED);
    tcase_add_test(t, looks_end_at_their_most);
    tcase_add_test(t, a_home_that_cannot_hold_the_file_is_said);
    tcase_add_test(t, a_file_in_the_way_of_the_folder_is_said);
    tcase_add_test(t, a_night_without_pairs_keeps_none);
    tcase_add_test(t, two_new_pairs_are_one_look);
    tcase_add_test(t, no_pair_is_a_look_when_it_is_the_first);
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
