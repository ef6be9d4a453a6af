// corpus_test - the corpus of nights: each folder of fixtures/nights that is a small run goes through the
// program and is compared with its expectation. Stored evidence is corpus_judged's.
//
//   corpus_test            every night
//   corpus_test 1/2        the first of two shares of them
//   corpus_test NAME       one night
//
// Every night has a fresh home with a private cluster of its own (a copy of one made home), the simulated
// clock and modelled durations. All that differs is printed, not only the first of it.
#include <fedgate/clock.h>
#include <fedgate/process.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "corpus.h"
#include "support.h"

static FileList names;
static char nights_folder[FILE_PATH_SIZE], configs_folder[FILE_PATH_SIZE];
static char *folder;   // of all homes
static size_t share = 1, shares = 1;

// -- a home: made once, copied for each night

static void make_home(void)
{
    char home[FILE_PATH_SIZE], config[FILE_PATH_SIZE];
    folder = support_folder_new();
    ck_assert_int_eq(chmod(folder, 0755), 0);   // the private cluster may belong to a service account
    ck_assert(text_print(home, sizeof home, "%s/template", folder));
    ck_assert(text_print(config, sizeof config, "%s/learnable_night.yaml", configs_folder));
    SupportRun run;
    SUPPORT_RUN(&run, "init", "--home", home, "--config", config);
    ck_assert_msg(run.exit_code == 0, "init: %s", text_string(&run.errors));
    support_run_done(&run);
}

static void remove_homes(void)
{
    support_folder_remove(folder);
}

static void copy_home(const char *home)
{
    char from[FILE_PATH_SIZE];
    ck_assert(text_print(from, sizeof from, "%s/template", folder));
    ProcessSpec spec = {.argv = (const char *[]){"cp", "-a", from, home, NULL}};
    ProcessResult result;
    Error error = ERROR_INIT;
    ck_assert_msg(process_run(&spec, &result, &error), "%s", error.message);
    ck_assert_int_eq(result.exit_code, 0);
}

// -- one run of a night

enum { ARGUMENTS_MAX = 60, VALUE_SIZE = 64 };

typedef struct Arguments {
    const char *list[ARGUMENTS_MAX + 1];
    size_t count;

} Arguments;

static void add_argument(Arguments *arguments, const char *argument)
{
    ck_assert_uint_lt(arguments->count, ARGUMENTS_MAX);
    arguments->list[arguments->count++] = argument;
}

static const char *value_text(const Json *value, char buffer[static VALUE_SIZE])
{
    if (json_is_bool(value))
        return json_bool_or(value, false) ? "true" : "false";
    if (!json_is_number(value))
        return json_text_or(value, "");
    text_from_double(buffer, json_number_or(value, 0));
    return buffer;
}

static void add_settings(Arguments *arguments, char (*store)[512], const Json *settings)
{
    char buffer[VALUE_SIZE];
    for (size_t i = 0; i < json_count(settings); i++) {
        const char *key = json_key_at(settings, i);
        char *setting = store[arguments->count];
        ck_assert(
            text_print(setting, sizeof store[0], "%s=%s", key, value_text(json_get(settings, key), buffer)));
        add_argument(arguments, "--set");
        add_argument(arguments, setting);
    }
}

static void add_faults(Text *list, const Json *faults)
{
    char buffer[VALUE_SIZE];
    for (size_t i = 0; i < json_count(faults); i++) {
        const char *key = json_key_at(faults, i);
        text_add_format(list, ",%s=%s", key, value_text(json_get(faults, key), buffer));
    }
}

static void plant_faults(const CorpusNight *night, const Json *given)
{
    SCOPED_TEXT list;
    text_init(&list, 4000);
    text_add(&list, "clock.model=1");
    int64_t start_ns;
    if (clock_parse(json_text_or(json_get(given, "start"), ""), &start_ns))
        text_add_format(&list, ",model.night_start=%lld", (long long)(start_ns / 1000000000));
    add_faults(&list, json_get(night->given, "faults"));
    add_faults(&list, json_get(given, "faults"));
    ck_assert_int_eq(setenv("FEDGATE_FAULT", text_string(&list), 1), 0);
}

static void run_once(const CorpusNight *night, size_t index, const char *home, SupportRun *run)
{
    const Json *given = json_at(json_get(night->given, "runs"), index);
    static char store[ARGUMENTS_MAX][512];
    Arguments arguments = {0};
    char zone[128];
    ck_assert(text_print(zone, sizeof zone, "window.zone=%s",
                         json_text_or(json_get(night->given, "zone"), "Europe/Berlin")));
    const char *const fixed[] = {"run", "--home", home, "--config", night->config, "--set", zone};
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        add_argument(&arguments, fixed[i]);
    const char *slot = json_text_or(json_get(given, "slot"), NULL);
    if (slot != NULL) {
        add_argument(&arguments, "--slot");
        add_argument(&arguments, slot);
    }
    if (json_bool_or(json_get(given, "retry"), false))
        add_argument(&arguments, "--retry");
    add_settings(&arguments, store, json_get(night->given, "set"));
    add_settings(&arguments, store, json_get(given, "set"));
    plant_faults(night, given);
    support_run(arguments.list, run);
    ck_assert_int_eq(unsetenv("FEDGATE_FAULT"), 0);
}

// -- what it came to, beside what was expected

typedef struct Seen {
    const CorpusNight *night;
    size_t run;
    Text *differences, *said;   // said: what each run came to, one line a run
    char versions[16][96];   // of the candidate of each run so far
} Seen;

static void differ(Seen *seen, const char *what, const char *is, const char *expected)
{
    text_add_format(seen->differences, "  run %zu: %s is '%s', expected '%s'\n", seen->run + 1, what, is,
                    expected);
}

static void compare_text(Seen *seen, const char *what, const char *is, const char *expected)
{
    if (strcmp(is, expected) != 0)
        differ(seen, what, is, expected);
}

static Json *read_json(const char *home, const char *name)
{
    char path[FILE_PATH_SIZE];
    Error error = ERROR_INIT;
    ck_assert(file_join(path, home, name, &error));
    Json *json = json_read_file(path, 64000000, &error);
    ck_assert_msg(json != NULL, "%s", error.message);
    return json;
}

static void compare_checks(Seen *seen, const Json *verdict, const Json *expected)
{
    const Json *checks = json_get(verdict, "checks");
    for (size_t i = 0; i < json_count(expected); i++) {
        const char *name = json_key_at(expected, i), *outcome = "no such check", *reason = "";
        for (size_t k = 0; k < json_count(checks); k++)
            if (text_equal(json_text_or(json_get(json_at(checks, k), "name"), ""), name)) {
                outcome = json_text_or(json_get(json_at(checks, k), "outcome"), "?");
                reason = json_text_or(json_get(json_at(checks, k), "reason"), "");
            }
        const char *want = json_text_or(json_get(expected, name), "");
        if (strcmp(outcome, want) != 0)
            text_add_format(seen->differences, "  run %zu: check '%s' is '%s', expected '%s': %s\n",
                            seen->run + 1, name, outcome, want, reason);
    }
}

static void compare_evidence(Seen *seen, const char *home, const Json *verdict, const Json *expected)
{
    const Json *values = json_get(expected, "evidence"), *counts = json_get(expected, "counts");
    char name[128], is[VALUE_SIZE], want[VALUE_SIZE];
    if (values == NULL && counts == NULL)
        return;
    ck_assert(
        text_print(name, sizeof name, "runs/%s/evidence.json", json_text_or(json_get(verdict, "run"), "")));
    OWNED(Json, json_free) *evidence = read_json(home, name);
    for (size_t i = 0; i < json_count(values); i++) {
        const char *key = json_key_at(values, i);
        compare_text(seen, key, value_text(json_find(evidence, key), is),
                     value_text(json_get(values, key), want));
    }
    for (size_t i = 0; i < json_count(counts); i++) {
        const char *key = json_key_at(counts, i);
        text_from_double(is, (double)json_count(json_find(evidence, key)));
        compare_text(seen, key, is, value_text(json_get(counts, key), want));
    }
}

// Names the run whose version is live. One that was judged good again is that of several runs: the expected.
static void name_run(const Seen *seen, const char *version, const char *expected,
                     char ret_live[static CORPUS_NAME_SIZE])
{
    ck_assert(text_copy(ret_live, CORPUS_NAME_SIZE, "a version of no run"));
    for (size_t i = 0; i <= seen->run && strcmp(ret_live, expected) != 0; i++)
        if (strcmp(seen->versions[i], version) == 0)
            ck_assert(text_print(ret_live, CORPUS_NAME_SIZE, "run %zu", i + 1));
}

static void compare_live(Seen *seen, const char *home, const char *expected)
{
    SupportRun run;
    SUPPORT_RUN(&run, "current", "--format", "json", "--home", home);
    Error error = ERROR_INIT;
    OWNED(Json, json_free) *current = json_parse(text_string(&run.output), run.output.length, 100000, &error);
    ck_assert_msg(current != NULL, "current: %s %s", error.message, text_string(&run.errors));
    support_run_done(&run);
    const char *version = json_text_or(json_get(current, "version"), "");
    char live[CORPUS_NAME_SIZE] = "nothing";
    if (text_equal(json_text_or(json_get(current, "kind"), ""), "baseline"))
        ck_assert(text_copy(live, sizeof live, "baseline"));
    else if (version[0] != '\0')
        name_run(seen, version, expected, live);
    compare_text(seen, "what is live", live, expected);
}

static void compare(Seen *seen, const char *home, const SupportRun *run)
{
    const Json *expected = json_at(json_get(seen->night->expect, "runs"), seen->run);
    OWNED(Json, json_free) *verdict = read_json(home, "last-verdict.json");
    const char *reason = json_text_or(json_get(verdict, "reason"), ""),
               *words = json_text_or(json_get(expected, "reason"), "");
    size_t before = seen->differences->length;
    text_add_format(seen->said, "    %s: %s\n", json_text_or(json_get(verdict, "outcome"), "?"), reason);
    ck_assert(text_copy(seen->versions[seen->run], sizeof seen->versions[0],
                        json_text_or(json_get(verdict, "version"), "")));
    int64_t code = json_integer_or(json_get(expected, "exit"), -1);
    if (run->exit_code != code)
        text_add_format(seen->differences, "  run %zu: exit code is %d, expected %lld\n", seen->run + 1,
                        run->exit_code, (long long)code);
    compare_text(seen, "outcome", json_text_or(json_get(verdict, "outcome"), "?"),
                 json_text_or(json_get(expected, "outcome"), "?"));
    compare_text(seen, "decided_by", json_text_or(json_get(verdict, "decided_by"), "null"),
                 json_text_or(json_get(expected, "decided_by"), "null"));
    if (strstr(reason, words) == NULL)
        differ(seen, "reason", reason, words);
    compare_checks(seen, verdict, json_get(expected, "checks"));
    compare_evidence(seen, home, verdict, expected);
    compare_live(seen, home, json_text_or(json_get(expected, "live"), ""));
    if (seen->differences->length > before) {
        const char *errors = text_string(&run->errors);
        text_add_format(seen->differences, "  run %zu said: ...%s\n", seen->run + 1,
                        errors + (run->errors.length > 1000 ? run->errors.length - 1000 : 0));
    }
}

static void run_night(const CorpusNight *night)
{
    char home[FILE_PATH_SIZE];
    ck_assert(text_print(home, sizeof home, "%s/%s", folder, night->name));
    int64_t begun = clock_monotonic_ns(clock_real());
    SCOPED_TEXT differences;
    SCOPED_TEXT said;
    text_init(&differences, 100000);
    text_init(&said, 100000);
    Seen seen = {.night = night, .differences = &differences, .said = &said};
    ck_assert_uint_le(night->runs, sizeof seen.versions / sizeof seen.versions[0]);
    copy_home(home);
    for (seen.run = 0; seen.run < night->runs; seen.run++) {
        SupportRun run;
        run_once(night, seen.run, home, &run);
        compare(&seen, home, &run);
        support_run_done(&run);
    }
    double seconds = (double)(clock_monotonic_ns(clock_real()) - begun) / 1e9;
    printf("%s %s, %.1f s\n%s%s", differences.length > 0 ? "DIFFERS" : "as expected:", night->name, seconds,
           text_string(&said), text_string(&differences));
    fflush(stdout);
    ck_assert_msg(differences.length == 0, "night '%s' (%s) differs", night->name,
                  json_text_or(json_get(night->given, "stands_for"), ""));
    char *own = text_duplicate(home);
    support_folder_remove(own);
}

START_TEST(test_a_night_ends_as_expected)
{
    Error error = ERROR_INIT;
    CorpusNight *night = corpus_load(nights_folder, names.names[_i], configs_folder, &error);
    ck_assert_msg(night != NULL, "%s", error.message);
    if ((size_t)_i % shares == share - 1)
        run_night(night);
    corpus_free(night);
}
END_TEST

// -- which of them

static bool choose(const char *argument, int *ret_begin, int *ret_end)
{
    *ret_begin = 0;
    *ret_end = (int)names.count;
    if (argument == NULL)
        return true;
    if (sscanf(argument, "%zu/%zu", &share, &shares) == 2)
        return share >= 1 && share <= shares;
    share = shares = 1;
    for (size_t i = 0; i < names.count; i++)
        if (strcmp(names.names[i], argument) == 0) {
            *ret_begin = (int)i;
            *ret_end = (int)i + 1;
            return true;
        }
    return false;
}

// Of all nights those that are run; the others are freed.
static bool keep_runs(Error *error)
{
    size_t kept = 0;
    bool good = true;
    for (size_t i = 0; i < names.count; i++) {
        CorpusNight *night = good ? corpus_load(nights_folder, names.names[i], configs_folder, error) : NULL;
        good = night != NULL;
        char *name = names.names[i];
        if (good && !night->stored)
            names.names[kept++] = name;
        else
            free(name);
        corpus_free(night);
    }
    names.count = kept;
    return good;
}

int main(int argc, char **argv)
{
    Error error = ERROR_INIT;
    int begin, end;
    if (!text_print(nights_folder, sizeof nights_folder, "%s/fixtures/nights", FEDGATE_SOURCE_DIR) ||
        !text_print(configs_folder, sizeof configs_folder, "%s/fixtures/configs", FEDGATE_SOURCE_DIR) ||
        !corpus_list(nights_folder, CORPUS_LEAST, &names, &error) || !keep_runs(&error) ||
        !choose(argc > 1 ? argv[1] : NULL, &begin, &end)) {
        fprintf(stderr, "corpus_test: %s\n", error.message[0] ? error.message : "no such night");
        return 1;
    }
    Suite *suite = suite_create("corpus");
    TCase *nights = tcase_create("nights");
    tcase_set_timeout(nights, 300);
    tcase_add_unchecked_fixture(nights, make_home, remove_homes);
    tcase_add_loop_test(nights, test_a_night_ends_as_expected, begin, end);
    suite_add_tcase(suite, nights);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    file_list_done(&names);
    return failed != 0;
}
