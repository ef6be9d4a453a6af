// config_test - every layer and every type, and every refusal with its place.
#include <fedgate/config.h>
#include <fedgate/file.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support.h"

static char *folder;

static void setup(void)
{
    folder = support_folder_new();
}
static void teardown(void)
{
    support_folder_remove(folder);
}

static Config *load_text(const char *text, Error *error)
{
    support_write(support_path(folder, "fedgate.yaml"), text);
    return config_load(support_path(folder, "fedgate.yaml"), NULL, 0, NULL, error);
}

static Config *must_load(const char *text)
{
    Error error = ERROR_INIT;
    Config *config = load_text(text, &error);
    ck_assert_msg(config != NULL, "%s", error.message);
    return config;
}

static Config *load_sets(const char *const *sets, size_t count, Error *error)
{
    return config_load(NULL, sets, count, NULL, error);
}

// -- refusals, one file each

static const struct {
    const char *file;
    int line;
    const char *words, *hint;
} bad_files[] = {
    {"alias", 4, "a YAML alias is not allowed", ""},
    {"anchor", 2, "a YAML anchor is not allowed", ""},
    {"tag", 2, "a YAML tag is not allowed", ""},
    {"duplicate-key", 3, "option 'train.epochs' is given twice, first at", ""},
    {"unknown-option", 2, "unknown option 'train.epoch'", "'train.epochs'"},
    {"unknown-section-option", 2, "unknown option 'microbatch'", "'train.microbatch'"},
    {"section-as-value", 1, "unknown option 'train'", "'train' is a section"},
    {"wrong-type", 3, "option 'train.epochs' is 'many', which is not a whole number", ""},
    {"wrong-bool", 2, "option 'data.header' is 'yes', neither true nor false", ""},
    {"out-of-range", 2, "option 'overlap.floor' is '0.2', outside its limits 0.5 to 1 ratio", ""},
    {"not-a-number", 2, "option 'memory.reserve' is 'nan', which is not a finite number", ""},
    {"list-for-value", 2, "option 'train.batch' is a list, it takes one value (integer)", ""},
    {"map-in-list", 4, "an item of 'data.numeric' is not a plain value", ""},
    {"wrong-choice", 2, "option 'split.method' is 'random', not one of hash|file|modulo|time", ""},
    {"bytes-without-unit", 2, "option 'device.memory' is '24gb', not a number of bytes such as 24GB", ""},
    {"half-a-byte", 2, "option 'memory.state' is '0.1KiB', which is not a whole number of bytes", ""},
    {"duration-without-unit", 2, "option 'database.timeout' is '20', not a duration such as", ""},
    {"wrong-time", 2, "option 'window.deadline' is '24:00', not a time of day from 00:00 to 23:59", ""},
    {"wrong-zone", 2, "option 'window.zone'", ""},
    {"empty-policy", 2, "the policy is empty", ""},
    {"required-check-off", 2, "check 'quality' cannot be switched off", "required in every policy"},
    {"unknown-check", 2, "unknown check 'qualitty'", "'quality'"},
    {"unknown-outcome", 2, "unknown outcome 'revertd'", "'reverted'"},
    {"utilities", 2, "3 utilities are no square of at least 2 x 2 classes", ""},
    {"utility-not-a-number", 2, "option 'quality.utilities' is 'much', which is not a finite number", ""},
    {"parity-margin", 2, "option 'parity.margin' is '0.06', outside its limits -1 to 0.05", ""},
    {"parity-margin-negative", 2, "-0.5 is no margin: 0 to 0.05, or -1 for the usual one", ""},
    {"parity-slice-margin", 2, "option 'parity.slice_margin' is '0.2', outside its limits 0 to 0.1", ""},
    {"parity-steps", 2, "4 steps are too short to compare, the limit is at least 8, or 0", ""},
    {"check-twice", 2, "list 'checks.required' has 'window' twice", ""},
    {"password", 2, "a password inside the connection string is not allowed", "passfile=FILE"},
    {"password-in-uri", 2, "a password inside the connection string is not allowed", "passfile=FILE"},
    {"model-name", 1, "'My Model' is not a model name", ""},
    {"labels", 2, "class 1 of 0 to 2 has no token", ""},
    {"label-twice", 2, "token 'no' has two classes", ""},
    {"missing-form", 2, "'?' is not of the form COLUMN=TOKEN", ""},
    {"delimiter", 2, "', ' is neither one character other than a quote nor 'tab'", ""},
    {"empty-item", 2, "an item of list 'data.numeric' is empty", ""},
    {"not-yaml", 3, "cannot read this as YAML", ""},
    {"not-a-mapping", 1, "a configuration is a list of 'name: value' lines", ""},
    {"two-documents", 2, "a second YAML document is not allowed", ""},
    {"too-deep", 1, "nested 17 levels deep, the limit is 16", ""},
    {"complex-key", 1, "a key is not a plain name", ""},
    {"control-character", 2, "option 'owner' is 'a\\x0ab', which has a control character", ""},
    {"null", 2, "a YAML null is not allowed", "quote the word"},
    {"latin1", 2, "cannot read this as YAML: invalid", ""},
    {"nul-byte", 1, "a NUL byte is not allowed", ""},
};
enum { BAD_FILES = sizeof bad_files / sizeof bad_files[0] };

START_TEST(a_bad_file_is_refused_with_file_line_value_and_limit)
{
    char path[FILE_PATH_SIZE], place[FILE_PATH_SIZE + 16];
    Error error = ERROR_INIT;
    ck_assert(text_print(path, sizeof path, FEDGATE_SOURCE_DIR "/fixtures/configs/bad/%s.yaml",
                         bad_files[_i].file));
    ck_assert(text_print(place, sizeof place, "%s:%d: ", path, bad_files[_i].line));
    ck_assert_ptr_null(config_load(path, NULL, 0, NULL, &error));
    ck_assert_int_eq(error.kind, ERROR_CONFIG);
    ck_assert_int_eq(error_exit_code(error.kind), 78);
    ck_assert_msg(text_starts_with(error.message, place), "'%s' does not begin with '%s'", error.message,
                  place);
    ck_assert_msg(strstr(error.message, bad_files[_i].words) != NULL, "'%s' lacks '%s'", error.message,
                  bad_files[_i].words);
    ck_assert_msg(strstr(error.hint, bad_files[_i].hint) != NULL, "hint '%s' lacks '%s'", error.hint,
                  bad_files[_i].hint);
    ck_assert_ptr_null(strstr(error.message, "hunter2"));
}
END_TEST

START_TEST(every_bad_file_has_its_row_here)
{
    FileList list;
    Error error = ERROR_INIT;
    ASSERT_OK(file_list(FEDGATE_SOURCE_DIR "/fixtures/configs/bad", &list, &error), &error);
    ck_assert_uint_eq(list.count, BAD_FILES);
    file_list_done(&list);
}
END_TEST

START_TEST(a_file_that_is_absent_or_too_long_is_a_configuration_error)
{
    Error error = ERROR_INIT;
    ASSERT_FAILS(config_load(support_path(folder, "absent.yaml"), NULL, 0, NULL, &error) != NULL, &error,
                 ERROR_CONFIG, "absent.yaml");
    SCOPED_TEXT text;
    text_init(&text, 1000000);
    while (text.length <= 256000)
        text_add(&text, "# a line that says nothing\n");
    ASSERT_FAILS(load_text(text_string(&text), &error) != NULL, &error, ERROR_CONFIG,
                 "longer than the limit of 256000 bytes");
}
END_TEST

// -- values

START_TEST(types_are_read_exactly)
{
    OWNED(Config, config_free) *config = must_load(
        "train: {hidden: [64, 32], learning_rate: 3e-4, seed: 9007199254740991, time_limit: 90min}\n"
        "device.memory: 24 GiB\n"
        "memory: {per_sample: 0.34GB, state: 1.5kB}\n"
        "data: {header: false, columns: [a, 'b, c'], delimiter: \"\\t\", trim: true}\n"
        "window: {deadline: 05:30, zone: Europe/Berlin}\n");
    ck_assert_uint_eq(config_list_count(config, "train.hidden"), 2);
    ck_assert_int_eq(config_list_integer(config, "train.hidden", 1), 32);
    ck_assert_str_eq(config_list_text(config, "train.hidden", 0), "64");
    ck_assert_double_eq(config_real(config, "train.learning_rate"), 3e-4);
    ck_assert_int_eq(config_integer(config, "train.seed"), 9007199254740991);
    ck_assert_double_eq(config_real(config, "train.time_limit"), 5400);
    ck_assert_int_eq(config_integer(config, "device.memory"), INT64_C(24) << 30);
    ck_assert_int_eq(config_integer(config, "memory.per_sample"), 340000000);
    ck_assert_int_eq(config_integer(config, "memory.state"), 1500);
    ck_assert(!config_bool(config, "data.header"));
    ck_assert(config_bool(config, "data.trim"));
    ck_assert_str_eq(config_list_text(config, "data.columns", 1), "b, c");
    ck_assert(config_list_has(config, "data.columns", "a"));
    ck_assert(!config_list_has(config, "data.columns", "b"));
    ck_assert_str_eq(config_text(config, "data.delimiter"), "\t");
    ck_assert_str_eq(config_text(config, "window.deadline"), "05:30");
    ck_assert_str_eq(config_text(config, "window.zone"), "Europe/Berlin");
    ck_assert_double_eq(config_real(config, "train.batch"), 256);   // an integer may be asked for as a number
}
END_TEST

static const struct {
    const char *set;
    bool good;
    const char *words;
} set_rows[] = {
    {"train.epochs=1", true, ""},
    {"train.epochs=0", false, "outside its limits 1 to 100000 epochs"},
    {"train.epochs=100001", false, "outside its limits"},
    {"train.epochs= 5", false, "not a whole number"},
    {"train.epochs=", false, "not a whole number"},
    {"train.epochs", false, "not of the form name=value"},
    {"=5", false, "unknown option ''"},
    {"device.memory=9223372036854775807", false, "not a number of bytes"},
    {"device.memory=999999999999999999TiB", false, "more bytes than can be counted"},
    {"device.memory=2000TB", false, "outside its limits"},
    {"device.memory=-1GB", false, "not a number of bytes"},
    {"device.memory=1.2.3GB", false, "not a number of bytes"},
    {"device.memory=1000000B", true, ""},
    {"window.length=500ms", true, ""},
    {"window.length=0", true, ""},
    {"window.length=1e9h", false, "outside its limits"},
    {"window.length=h", false, "not a duration"},
    {"window.deadline=6:00", false, "not a time of day"},
    {"window.deadline=23:59", true, ""},
    {"window.deadline=23:60", false, "not a time of day"},
    {"window.deadline=2x:00", false, "not a time of day"},
    {"train.hidden=64, 32 ,16", true, ""},
    {"train.hidden=64,,16", false, "is '', which is not a whole number"},
    {"train.hidden=1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", false,
     "33 items, the limit is 32"},
    {"data.numeric=a,a", false, "has 'a' twice"},
    {"data.numeric=", true, ""},
    {"model=", true, ""},
    {"data.labels=<=50K=0,>50K=1", true, ""},
    {"data.labels=yes", false, "not of the form TOKEN=CLASS"},
    {"data.delimiter=tab", true, ""},
    {"data.delimiter=\"", false, "neither one character"},
    {"database.url=host=db passfile=/run/pass sslmode=verify-full", true, ""},
    {"database.url=postgresql://gate@db:5432/gate", true, ""},
    {"database.url=postgresql://db/gate?password=x", false, "a password inside"},
    {"database.url=host=db password = x", false, "a password inside"},
    {"quality.metric=", true, ""},
    {"quality.metric=f1", false, "not one of auc|logloss|accuracy|rmse"},
    {"window.zone=", true, ""},
    {"memory.reserve=1e400", false, "which is not a finite number"},
    {"memory.reserve=0x0.1", false, "which is not a finite number"},
    {"train.learning_rate=nan", false, "which is not a finite number"},
    {"train.epochs=1_000", false, "which is not a whole number"},
    {"train.epochs=0x10", false, "which is not a whole number"},
    {"train.epochs=10.0", false, "which is not a whole number"},
    {"train.epochs=99999999999999999999", false, "which is not a whole number"},
    {"window.length=1e308h", false, "outside its limits"},
    {"window.length=1e999s", false, "not a duration"},
    {"window.length=-1s", false, "outside its limits"},
    {"train.\xd0\xb5pochs=5", false, "unknown option"},
    {"model=\xd0\xb0" "dult", false, "is not a model name"},
    {"owner=a\xff", false, "is 'a\\xff', which has a control character or is not UTF-8"},
    {"owner=a\xc2\x9b" "31m", false, "which has a control character"},
    {"owner=J\xc3\xb6rg", true, ""},
    {"data.numeric=a\rb", false, "which has a control character"},
};

START_TEST(a_set_flag_is_checked_like_the_file)
{
    Error error = ERROR_INIT;
    OWNED(Config, config_free) *config = load_sets(&set_rows[_i].set, 1, &error);
    ck_assert_msg((config != NULL) == set_rows[_i].good, "--set %s: %s", set_rows[_i].set, error.message);
    if (config)
        return;
    ck_assert_int_eq(error.kind, ERROR_CONFIG);
    ck_assert_msg(strstr(error.message, set_rows[_i].words) != NULL, "'%s' lacks '%s'", error.message,
                  set_rows[_i].words);
    ck_assert_msg(text_starts_with(error.message, "--set: "), "%s", error.message);
}
END_TEST

START_TEST(a_long_value_is_cut_in_its_message)
{
    char set[5000] = "owner=";
    Error error = ERROR_INIT;
    memset(set + 6, 'x', 4100);
    const char *sets[] = {set};
    ASSERT_FAILS(load_sets(sets, 1, &error) != NULL, &error, ERROR_CONFIG,
                 "is 4100 bytes long, the limit is 4000");
    memcpy(set, "task=", 5);
    memset(set + 5, 'y', 300);
    set[305] = '\0';
    ASSERT_FAILS(load_sets(sets, 1, &error) != NULL, &error, ERROR_CONFIG, "yyy...', not one of");
    memcpy(set, "data.directory=", 15);
    memset(set + 15, 'z', 3999);
    set[15 + 3999] = '\0';
    const char *deep[] = {
        set, "data.train=yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy"
             "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy"};
    ASSERT_FAILS(load_sets(deep, 2, &error) != NULL, &error, ERROR_CONFIG, "longer than 4095 bytes");
}
END_TEST

// -- layers

START_TEST(flags_win_over_environment_over_file_over_default)
{
    support_write(support_path(folder, "fedgate.yaml"), "train: {epochs: 3, batch: 32, seed: 7}\n");
    char *environment[] = {"HOME=/",
                           "FEDGATE_HOME=/x",
                           "FEDGATE_SET_TRAIN__EPOCHS=4",
                           "FEDGATE_SET_TRAIN__LEARNING_RATE=0.5",
                           "FEDGATE_SET_TRAIN__BATCH=64",
                           NULL};
    const char *sets[] = {"train.epochs=5", "train.epochs=6"};
    Error error = ERROR_INIT;
    const char *path = support_path(folder, "fedgate.yaml");
    OWNED(Config, config_free) *config = config_load(path, sets, 2, environment, &error);
    ck_assert_msg(config != NULL, "%s", error.message);
    ck_assert_int_eq(config_integer(config, "train.epochs"), 6);
    ck_assert_int_eq(config_integer(config, "train.batch"), 64);
    ck_assert_int_eq(config_integer(config, "train.seed"), 7);
    ck_assert_double_eq(config_real(config, "train.learning_rate"), 0.5);
    ck_assert_str_eq(config_source(config, "train.epochs"), "--set");
    ck_assert_str_eq(config_source(config, "train.batch"), "FEDGATE_SET_TRAIN__BATCH");
    ck_assert(text_ends_with(config_source(config, "train.seed"), "fedgate.yaml:1"));
    ck_assert_str_eq(config_source(config, "train.patience"), "default");
    ck_assert(config_given(config, "train.seed"));
    ck_assert(!config_given(config, "train.patience"));
    ck_assert_str_eq(config_path(config), path);
}
END_TEST

START_TEST(an_environment_variable_that_names_no_option_is_refused)
{
    Error error = ERROR_INIT;
    char *unknown[] = {"FEDGATE_SET_TRAIN__EPOCH=4", NULL}, *lower[] = {"FEDGATE_SET_train__epochs=4", NULL},
         *wrong[] = {"FEDGATE_SET_TRAIN__EPOCHS=x", NULL}, *broken[] = {"FEDGATE_SET_A\nB=1", NULL},
         *nothing[] = {"FEDGATE_SET_=1", NULL};
    ck_assert_ptr_null(config_load(NULL, NULL, 0, unknown, &error));
    ck_assert_str_eq(error.message, "FEDGATE_SET_TRAIN__EPOCH: unknown option 'train.epoch'");
    ck_assert_str_eq(error.hint, "Did you mean 'train.epochs'?");
    error_clear(&error);
    ASSERT_FAILS(config_load(NULL, NULL, 0, lower, &error) != NULL, &error, ERROR_CONFIG,
                 "does not name an option");
    ASSERT_FAILS(config_load(NULL, NULL, 0, broken, &error) != NULL, &error, ERROR_CONFIG,
                 "'FEDGATE_SET_A\\x0aB' does not name an option");
    ASSERT_FAILS(config_load(NULL, NULL, 0, nothing, &error) != NULL, &error, ERROR_CONFIG,
                 "unknown option ''");
    ASSERT_FAILS(config_load(NULL, NULL, 0, wrong, &error) != NULL, &error, ERROR_CONFIG,
                 "FEDGATE_SET_TRAIN__EPOCHS: option 'train.epochs' is 'x'");
}
END_TEST

START_TEST(paths_start_at_the_file_or_at_the_data_folder)
{
    char expected[FILE_PATH_SIZE], working[FILE_PATH_SIZE];
    Error error = ERROR_INIT;
    OWNED(Config, config_free) *beside = must_load("data: {train: [a.csv, /b.csv, \"c,d.csv\"]}\n");
    ck_assert(text_print(expected, sizeof expected, "%s/a.csv", folder));
    ck_assert_str_eq(config_list_text(beside, "data.train", 0), expected);
    ck_assert_str_eq(config_list_text(beside, "data.train", 1), "/b.csv");
    ck_assert_str_eq(config_text(beside, "data.directory"), "");
    const char *sets[] = {"data.directory=elsewhere"};
    OWNED(Config, config_free) *moved =
        config_load(support_path(folder, "fedgate.yaml"), sets, 1, NULL, &error);
    ck_assert_ptr_nonnull(moved);
    ck_assert_ptr_nonnull(getcwd(working, sizeof working));
    ck_assert(text_print(expected, sizeof expected, "%s/elsewhere/c,d.csv", working));
    ck_assert_str_eq(config_list_text(moved, "data.train", 2), expected);
    const char *flags[] = {"data.train=x.csv"};
    OWNED(Config, config_free) *flagged = load_sets(flags, 1, &error);
    ck_assert_ptr_nonnull(flagged);
    ck_assert(text_print(expected, sizeof expected, "%s/x.csv", working));
    ck_assert_str_eq(config_list_text(flagged, "data.train", 0), expected);
}
END_TEST

START_TEST(asking_for_what_is_not_there_is_a_bug)
{
    Error error = ERROR_INIT;
    Config *config = load_sets(NULL, 0, &error);
    ck_assert_ptr_nonnull(config);
    if (_i == 0)
        (void)config_integer(config, "train.epoch");
    else if (_i == 1)
        (void)config_integer(config, "model");
    else
        (void)config_list_text(config, "train.hidden", 2);
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("config");
    TCase *tests = tcase_create("config");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, a_bad_file_is_refused_with_file_line_value_and_limit, 0, BAD_FILES);
    tcase_add_test(tests, every_bad_file_has_its_row_here);
    tcase_add_test(tests, a_file_that_is_absent_or_too_long_is_a_configuration_error);
    tcase_add_test(tests, types_are_read_exactly);
    tcase_add_loop_test(tests, a_set_flag_is_checked_like_the_file, 0, sizeof set_rows / sizeof set_rows[0]);
    tcase_add_test(tests, a_long_value_is_cut_in_its_message);
    tcase_add_test(tests, flags_win_over_environment_over_file_over_default);
    tcase_add_test(tests, an_environment_variable_that_names_no_option_is_refused);
    tcase_add_test(tests, paths_start_at_the_file_or_at_the_data_folder);
    suite_add_tcase(suite, tests);
    TCase *bugs = tcase_create("bugs");
    tcase_add_loop_test_raise_signal(bugs, asking_for_what_is_not_there_is_a_bug, 6, 0, 3);
    suite_add_tcase(suite, bugs);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(suite());
    srunner_run_all(runner, CK_ENV);
    int bad = srunner_ntests_failed(runner);
    srunner_free(runner);
    return bad != 0;
}
