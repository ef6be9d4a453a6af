// corpus_files_test - a corpus that proves less than it seems to is refused: a night without an expectation,
// a misspelt key, a stray file, too few nights, a change that takes nothing, a public failure that stands
// nowhere.
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "corpus.h"
#include "corpus_change.h"
#include "support.h"

#define CONFIGS FEDGATE_SOURCE_DIR "/fixtures/configs"
#define GIVEN   "{\"stands_for\": \"a test\", \"config\": \"learnable_night\"}"
#define EXPECT                                                                                               \
    "{\"runs\": [{\"exit\": 0, \"outcome\": \"promoted\", \"decided_by\": null, \"reason\": \"\", "          \
    "\"live\": \"run 1\"}]}"
#define STORED(more) "{\"stands_for\": \"a test\", \"evidence\": \"night\", " more "}"
#define JUDGED                                                                                               \
    "{\"runs\": [{\"exit\": 10, \"outcome\": \"refused\", \"decided_by\": \"overlap\", \"reason\": \"\"}]}"

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
    {GIVEN, "{\"runs\": [{\"exit\": 0, \"outcome\": \"promoted\", \"decided_by\": null, \"reason\": \"\"}]}",
     "'live' is missing"},
    {STORED("\"changes\": [{}]"), EXPECT, "'live' is not for a night that is not run"},
    {STORED("\"set\": {}"), JUDGED, "changes nothing of evidence 'night'"},
    {STORED("\"changes\": []"), JUDGED, "not a list of objects"},
    {STORED("\"changes\": [{}], \"faults\": {}"), JUDGED, "unknown key 'faults'"},
    {STORED("\"changes\": [{}], \"runs\": [{}]"), JUDGED, "unknown key 'runs'"},
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

// -- changes of evidence

#define BEFORE                                                                                               \
    "{\"a\": {\"n\": [1, 2, 3, 4], \"m\": [10, 20, 30, 40], \"x\": 1.5}, \"l\": [{\"k\": \"u\", \"j\": "     \
    "\"v\", \"w\": 1}, {\"k\": \"u\", \"w\": 2}]}"

static const struct {
    const char *change, *path, *after;   // what stands at `path` afterwards, or the words of a refusal
} changes[] = {
    {"{\"at\": \"a.n[*]\", \"factor\": 2.5}", "a.n", "[3,5,8,10]"},
    {"{\"at\": \"a.n[1:3]\", \"value\": 0}", "a.n", "[1,0,0,4]"},
    {"{\"at\": \"a.n[::2]\", \"add\": 1}", "a.n", "[2,2,4,4]"},
    {"{\"at\": \"a.n[-1]\", \"add\": -1}", "a.n", "[1,2,3,3]"},
    {"{\"at\": \"a.n[-2:]\", \"remove\": true}", "a.n", "[1,2]"},
    {"{\"at\": \"a.n[1:]\", \"ramp\": 10}", "a.n", "[1,2,13,24]"},
    {"{\"at\": \"a.n[*]\", \"share\": {\"of\": \"a.m\", \"factor\": 0.1}}", "a.n", "[1,2,3,4]"},
    {"{\"at\": \"a.n[0]\", \"copy\": \"a.m[3]\"}", "a.n", "[40,2,3,4]"},
    {"{\"at\": \"a.n\", \"append\": null}", "a.n", "[1,2,3,4,null]"},
    {"{\"at\": \"a.x\", \"factor\": 2}", "a.x", "3.0"},
    {"{\"at\": \"a.new\", \"new\": \"nan\"}", "a.new", "\"nan\""},
    {"{\"at\": \"l[k=u&j=v].w\", \"value\": 7}", "l",
     "[{\"k\":\"u\",\"j\":\"v\",\"w\":7},{\"k\":\"u\",\"w\":2}]"},
    {"{\"at\": \"l[k=u].w\", \"remove\": true}", "l", "[{\"k\":\"u\",\"j\":\"v\"},{\"k\":\"u\"}]"},
    {"{\"at\": \"a.y\", \"value\": 1}", NULL, "takes nothing"},
    {"{\"at\": \"a.x\", \"new\": 1}", NULL, "takes nothing"},
    {"{\"at\": \"a.n[9]\", \"value\": 1}", NULL, "takes nothing"},
    {"{\"at\": \"l[k=z].w\", \"value\": 1}", NULL, "takes nothing"},
    {"{\"at\": \"a\", \"factor\": 1}", NULL, "does not fit"},
    {"{\"at\": \"a.x\", \"double\": 1}", NULL, "not one operation"},
    {"{\"at\": \"a.x\", \"add\": 1, \"factor\": 1}", NULL, "not one operation"},
    {"{\"at\": \"a.n[*]\", \"copy\": \"a.m[*]\"}", NULL, "not one place"},
    {"{\"at\": \"a.n[1:2:3:4]\", \"value\": 1}", NULL, "cannot be read"},
    {"{\"at\": \"a.n[\", \"value\": 1}", NULL, "cannot be read"},
    {"{\"at\": \"\", \"value\": 1}", NULL, "a path is empty"},
};

START_TEST(test_a_change_does_what_it_says_or_is_refused)
{
    Error error = ERROR_INIT;
    SCOPED_TEXT is;
    text_init(&is, 10000);
    OWNED(Json, json_free) *before = json_parse(BEFORE, strlen(BEFORE), 10000, &error);
    const char *text = changes[_i].change;
    OWNED(Json, json_free) *change = json_parse(text, strlen(text), 10000, &error);
    ck_assert_msg(before != NULL && change != NULL, "%s", error.message);
    OWNED(Json, json_free) *after = corpus_change(before, change, &error);
    if (changes[_i].path == NULL) {
        ck_assert_msg(after == NULL && strstr(error.message, changes[_i].after) != NULL, "%s: %s", text,
                      error.message);
        return;
    }
    ck_assert_msg(after != NULL, "%s: %s", text, error.message);
    json_write(json_find(after, changes[_i].path), JSON_COMPACT, &is);
    ck_assert_str_eq(text_string(&is), changes[_i].after);
}
END_TEST

// -- the public failures of the four reference files: each stands somewhere

static const struct {
    const char *name;
    int failures;
} references[] = {{"gates", 44}, {"overlap", 42}, {"parity_memory", 52}, {"loaders", 47}};

enum { FAILURES_MOST = 60, TABLE_MAX = 200000, SOURCE_MAX = 2000000 };

static void assert_night(const char *name)
{
    char path[FILE_PATH_SIZE];
    ck_assert(text_print(path, sizeof path, "%s/fixtures/nights/%s", FEDGATE_SOURCE_DIR, name));
    ck_assert_msg(file_is_directory(path), "failures.tsv: there is no night '%s'", name);
}

static void assert_test(const char *name)
{
    const char *slash = strchr(name, '/');
    char path[FILE_PATH_SIZE], line[256];
    SCOPED_TEXT source;
    text_init(&source, SOURCE_MAX);
    ck_assert_msg(slash != NULL, "failures.tsv: '%s' is not PROGRAM/CASE", name);
    const char *const kinds[] = {"unit", "integration"};
    for (size_t i = 0; i < 2; i++) {
        ck_assert(text_print(path, sizeof path, "%s/tests/%s/%.*s.c", FEDGATE_SOURCE_DIR, kinds[i],
                             (int)(slash - name), name));
        if (file_exists(path))
            (void)support_read(path, &source);
    }
    ck_assert(text_print(line, sizeof line, "START_TEST(%s)", slash + 1));
    ck_assert_msg(strstr(text_string(&source), line) != NULL, "failures.tsv: there is no test '%s'", name);
}

static void assert_places(char *places)
{
    static const struct {
        const char *word;
        void (*check)(const char *name);
    } kinds[] = {{"night ", assert_night}, {"test ", assert_test}};
    if (strncmp(places, "cannot: ", 8) == 0) {
        ck_assert_msg(strlen(places) > 30, "'%s' is no reason", places);
        return;
    }
    for (char *rest = places, *place; (place = strsep(&rest, ";")) != NULL;) {
        size_t kind = 0;
        place += strspn(place, " ");
        while (kind < 2 && strncmp(place, kinds[kind].word, strlen(kinds[kind].word)) != 0)
            kind++;
        ck_assert_msg(kind < 2, "failures.tsv: '%s' is no night, test or reason", place);
        kinds[kind].check(place + strlen(kinds[kind].word));
    }
}

START_TEST(test_every_public_failure_stands_somewhere)
{
    SCOPED_TEXT table;
    text_init(&table, TABLE_MAX);
    bool seen[4][FAILURES_MOST] = {{false}};
    char *copy = text_duplicate(support_read(FEDGATE_SOURCE_DIR "/fixtures/nights/failures.tsv", &table));
    for (char *rest = copy, *line; (line = strsep(&rest, "\n")) != NULL;) {
        if (line[0] == '\0' || line[0] == '#')
            continue;
        const char *reference = strsep(&line, "\t"), *number = strsep(&line, "\t"),
                   *words = strsep(&line, "\t");
        ck_assert_msg(words != NULL && line != NULL && words[0] != '\0', "failures.tsv: '%s' is cut",
                      reference);
        size_t r = 0;
        while (r < 4 && strcmp(references[r].name, reference) != 0)
            r++;
        long n = strtol(number, NULL, 10);
        ck_assert_msg(r < 4 && n >= 1 && n <= references[r].failures && !seen[r][n],
                      "failures.tsv: '%s %s' is unknown or stands there twice", reference, number);
        seen[r][n] = true;
        assert_places(line);
    }
    for (size_t r = 0; r < 4; r++)
        for (int n = 1; n <= references[r].failures; n++)
            ck_assert_msg(seen[r][n], "failures.tsv: %s %d stands nowhere", references[r].name, n);
    free(copy);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("corpus files");
    TCase *files = tcase_create("files");
    tcase_add_loop_test(files, test_a_broken_night_is_refused, 0, (int)(sizeof broken / sizeof broken[0]));
    tcase_add_test(files, test_a_corpus_is_large_enough_and_holds_nothing_else);
    tcase_add_loop_test(files, test_a_change_does_what_it_says_or_is_refused, 0,
                        (int)(sizeof changes / sizeof changes[0]));
    tcase_add_test(files, test_every_public_failure_stands_somewhere);
    suite_add_tcase(suite, files);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
