// corpus_files_test - a corpus that proves less than it seems to is refused: a night without an expectation,
// a misspelt key, a stray file, too few nights.
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "corpus.h"
#include "support.h"

#define CONFIGS FEDGATE_SOURCE_DIR "/fixtures/configs"
#define GIVEN   "{\"stands_for\": \"a test\", \"config\": \"learnable_night\"}"
#define EXPECT                                                                                               \
    "{\"runs\": [{\"exit\": 0, \"outcome\": \"promoted\", \"decided_by\": null, \"reason\": \"\", "          \
    "\"live\": \"run 1\"}]}"

static const struct {
    const char *given, *expect, *words;
} broken[] = {
    {GIVEN, NULL, "expect.json"},
    {NULL, EXPECT, "given.json"},
    {"{\"stands_for\": \"a test\"}", EXPECT, "no config"},
    {"{\"stands_for\": \"a test\", \"config\": \"nowhere\"}", EXPECT, "no configuration 'nowhere'"},
    {"{\"config\": \"learnable_night\"}", EXPECT, "'stands_for' is missing"},
    {"{\"stands_for\": \"a test\", \"config\": \"learnable_night\", \"fault\": {}}", EXPECT,
     "unknown key 'fault'"},
    {"{\"stands_for\": \"a test\", \"config\": \"learnable_night\", \"faults\": {\"train.leak_bytes\": "
     "\"many\"}}",
     EXPECT, "not an object of numbers"},
    {"{\"stands_for\": \"a test\", \"config\": \"learnable_night\", \"runs\": [{\"start\": \"today\"}]}",
     EXPECT, "not a time"},
    {"{\"stands_for\": \"a test\", \"config\": \"learnable_night\", \"runs\": [{}, {}]}", EXPECT,
     "2 runs are given and 1 expected"},
    {GIVEN, "{\"runs\": []}", "not a list with an entry"},
    {GIVEN, "{\"runs\": [{\"exit\": 0}]}", "'outcome' is missing"},
    {GIVEN, "{\"runs\": [1]}", "not an object"},
};

static void write_night(const char *corpus, const char *name, const char *given, const char *expect)
{
    char path[FILE_PATH_SIZE];
    ck_assert(text_print(path, sizeof path, "%s/%s", corpus, name));
    ck_assert_int_eq(mkdir(path, 0755), 0);
    if (given != NULL)
        support_write(support_path(path, "given.json"), given);
    if (expect != NULL)
        support_write(support_path(path, "expect.json"), expect);
}

START_TEST(test_a_broken_night_is_refused)
{
    char *corpus = support_folder_new();
    Error error = ERROR_INIT;
    write_night(corpus, "night", broken[_i].given, broken[_i].expect);
    CorpusNight *night = corpus_load(corpus, "night", CONFIGS, &error);
    ck_assert_msg(night == NULL, "loaded, though %s", broken[_i].words);
    ck_assert_msg(strstr(error.message, broken[_i].words) != NULL, "%s", error.message);
    support_folder_remove(corpus);
}
END_TEST

START_TEST(test_a_corpus_is_large_enough_and_holds_nothing_else)
{
    char *corpus = support_folder_new();
    Error error = ERROR_INIT;
    FileList found;
    write_night(corpus, "b", GIVEN, EXPECT);
    write_night(corpus, "a", GIVEN, EXPECT);
    support_write(support_path(corpus, "README.md"), "# nights\n");
    ASSERT_OK(corpus_list(corpus, 2, &found, &error), &error);
    ck_assert_uint_eq(found.count, 2);
    ck_assert_str_eq(found.names[0], "a");
    file_list_done(&found);
    ASSERT_FAILS(corpus_list(corpus, 3, &found, &error), &error, ERROR_DATA, "has 2 nights, at least 3");
    support_write(support_path(corpus, "stray.json"), "{}");
    ASSERT_FAILS(corpus_list(corpus, 2, &found, &error), &error, ERROR_DATA, "stray.json");
    CorpusNight *night = corpus_load(corpus, "a", CONFIGS, &error);
    ck_assert_msg(night != NULL, "%s", error.message);
    corpus_free(night);
    support_write(support_path(support_path(corpus, "a"), "notes"), "");
    ck_assert_ptr_null(corpus_load(corpus, "a", CONFIGS, &error));
    ck_assert_msg(strstr(error.message, "no part of a night") != NULL, "%s", error.message);
    support_folder_remove(corpus);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("corpus files");
    TCase *files = tcase_create("files");
    tcase_add_loop_test(files, test_a_broken_night_is_refused, 0, (int)(sizeof broken / sizeof broken[0]));
    tcase_add_test(files, test_a_corpus_is_large_enough_and_holds_nothing_else);
    suite_add_tcase(suite, files);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
