// config_test - every layer, every type, every refusal with its place; and that the sample says what the table says.
#include <fedgate/config.h>
#include <fedgate/file.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support.h"

static char *folder;

static void setup(void) { folder = support_folder_new(); }
static void teardown(void) { support_folder_remove(folder); }

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

static Config *load_sets(const char *const *sets, size_t count, Error *error) { return config_load(NULL, sets, count, NULL, error); }

// -- refusals, one file each

static const struct { const char *file; int line; const char *words, *hint; } bad_files[] = {
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
    {"check-of-a-later-issue", 2, "unknown check 'latency'", ""},
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
    {"nul-byte", 1, "a NUL byte is not allowed", ""},
};
enum { BAD_FILES = sizeof bad_files / sizeof bad_files[0] };

START_TEST(a_bad_file_is_refused_with_file_line_value_and_limit)
{
    char path[FILE_PATH_SIZE], place[FILE_PATH_SIZE + 16];
    Error error = ERROR_INIT;
    ck_assert(text_print(path, sizeof path, FEDGATE_SOURCE_DIR "/fixtures/configs/bad/%s.yaml", bad_files[_i].file));
    ck_assert(text_print(place, sizeof place, "%s:%d: ", path, bad_files[_i].line));
    ck_assert_ptr_null(config_load(path, NULL, 0, NULL, &error));
    ck_assert_int_eq(error.kind, ERROR_CONFIG);
    ck_assert_int_eq(error_exit_code(error.kind), 78);
    ck_assert_msg(text_starts_with(error.message, place), "'%s' does not begin with '%s'", error.message, place);
    ck_assert_msg(strstr(error.message, bad_files[_i].words) != NULL, "'%s' lacks '%s'", error.message, bad_files[_i].words);
    ck_assert_msg(strstr(error.hint, bad_files[_i].hint) != NULL, "hint '%s' lacks '%s'", error.hint, bad_files[_i].hint);
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
    ASSERT_FAILS(config_load(support_path(folder, "absent.yaml"), NULL, 0, NULL, &error) != NULL, &error, ERROR_CONFIG, "absent.yaml");
    SCOPED_TEXT text;
    text_init(&text, 1000000);
    while (text.length <= 256000)
        text_add(&text, "# a line that says nothing\n");
    ASSERT_FAILS(load_text(text_string(&text), &error) != NULL, &error, ERROR_CONFIG, "longer than the limit of 256000 bytes");
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

static const struct { const char *set; bool good; const char *words; } set_rows[] = {
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
    {"train.hidden=1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", false, "33 items, the limit is 32"},
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
};

START_TEST(a_set_flag_is_checked_like_the_file)
{
    Error error = ERROR_INIT;
    OWNED(Config, config_free) *config = load_sets(&set_rows[_i].set, 1, &error);
    ck_assert_msg((config != NULL) == set_rows[_i].good, "--set %s: %s", set_rows[_i].set, error.message);
    if (config)
        return;
    ck_assert_int_eq(error.kind, ERROR_CONFIG);
    ck_assert_msg(strstr(error.message, set_rows[_i].words) != NULL, "'%s' lacks '%s'", error.message, set_rows[_i].words);
    ck_assert_msg(text_starts_with(error.message, "--set: "), "%s", error.message);
}
END_TEST

START_TEST(a_long_value_is_cut_in_its_message)
{
    char set[5000] = "owner=";
    Error error = ERROR_INIT;
    memset(set + 6, 'x', 4100);
    const char *sets[] = {set};
    ASSERT_FAILS(load_sets(sets, 1, &error) != NULL, &error, ERROR_CONFIG, "is 4100 bytes long, the limit is 4000");
    memcpy(set, "task=", 5);
    memset(set + 5, 'y', 300);
    set[305] = '\0';
    ASSERT_FAILS(load_sets(sets, 1, &error) != NULL, &error, ERROR_CONFIG, "yyy...', not one of");
}
END_TEST

// -- layers

START_TEST(flags_win_over_environment_over_file_over_default)
{
    support_write(support_path(folder, "fedgate.yaml"), "train: {epochs: 3, batch: 32, seed: 7}\n");
    char *environment[] = {"HOME=/", "FEDGATE_HOME=/x", "FEDGATE_SET_TRAIN__EPOCHS=4", "FEDGATE_SET_TRAIN__LEARNING_RATE=0.5", "FEDGATE_SET_TRAIN__BATCH=64", NULL};
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
    char *unknown[] = {"FEDGATE_SET_TRAIN__EPOCH=4", NULL}, *lower[] = {"FEDGATE_SET_train__epochs=4", NULL}, *wrong[] = {"FEDGATE_SET_TRAIN__EPOCHS=x", NULL};
    ck_assert_ptr_null(config_load(NULL, NULL, 0, unknown, &error));
    ck_assert_str_eq(error.message, "FEDGATE_SET_TRAIN__EPOCH: unknown option 'train.epoch'");
    ck_assert_str_eq(error.hint, "Did you mean 'train.epochs'?");
    error_clear(&error);
    ASSERT_FAILS(config_load(NULL, NULL, 0, lower, &error) != NULL, &error, ERROR_CONFIG, "does not name an option");
    ASSERT_FAILS(config_load(NULL, NULL, 0, wrong, &error) != NULL, &error, ERROR_CONFIG, "FEDGATE_SET_TRAIN__EPOCHS: option 'train.epochs' is 'x'");
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
    OWNED(Config, config_free) *moved = config_load(support_path(folder, "fedgate.yaml"), sets, 1, NULL, &error);
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

// -- what run needs

#define COMPLETE "model: m\ntask: binary\ndata: {train: [a.csv], target: y, numeric: [a, b], categorical: [c]"
static const struct { const char *text, *words; } needed_rows[] = {
    {COMPLETE "}\n", NULL},
    {"task: binary\n", "option 'model' is needed and not given"},
    {"model:\n", "option 'model' is needed and not given"},
    {"model: m\ndata: {target: y, numeric: [a]}\n", "option 'data.train' is needed"},
    {"model: m\ndata: {train: [a.csv], numeric: [a]}\n", "option 'data.target' is needed"},
    {"model: m\ndata: {train: [a.csv], target: y}\n", "at least 1 feature is needed"},
    {"model: m\ndata: {train: [a.csv], target: y, numeric: [y]}\n", "'data.target' is also a feature"},
    {"model: m\ndata: {train: [a.csv], target: y, numeric: [a, i], row_id: i}\n", "'data.row_id' is also a feature"},
    {"model: m\ndata: {train: [a.csv], target: y, numeric: [a], categorical: [a]}\n", "which is in 'data.numeric' too"},
    {COMPLETE ", forbidden: [b]}\n", "names column 'b', which 'data.forbidden' keeps out"},
    {COMPLETE ", forbidden: [y]}\n", "names the target 'y'"},
    {COMPLETE ", columns: [a, b, c, y]}\n", "but 'data.header' says that the file does"},
    {COMPLETE ", header: false}\n", "no column has a name"},
    {COMPLETE ", header: false, columns: [a, bb, c, y]}\n", "names column 'b', which 'data.columns' does not have"},
    {COMPLETE ", header: false, columns: [a, b, c, z]}\n", "option 'data.target' names column 'y'"},
    {COMPLETE ", header: false, columns: [a, b, c, y]}\n", NULL},
    {COMPLETE ", missing: ['a=?', '*=', 'y=NA']}\n", NULL},
    {COMPLETE ", missing: ['d=?']}\n", "names column 'd', which no other option uses"},
    {COMPLETE "}\nquality: {slices: [a]}\n", "not in 'data.categorical'"},
    {COMPLETE "}\nquality: {slices: [c], metric: auc}\n", NULL},
    {COMPLETE "}\nquality: {metric: rmse}\n", "is 'rmse', which a binary task does not have"},
    {COMPLETE "}\nsplit: {method: file}\n", "is 'file', which needs 'data.test'"},
    {COMPLETE ", test: [b.csv]}\n", "is given, but 'split.method' is 'hash'"},
    {COMPLETE ", test: [b.csv]}\nsplit: {method: file}\n", NULL},
    {COMPLETE "}\nsplit: {method: modulo, modulo: 4, remainder: 4}\n", "is 4, the limit is under 'split.modulo' = 4"},
    {COMPLETE "}\nsplit: {method: modulo, modulo: 4, remainder: 3}\n", NULL},
    {COMPLETE ", cutoff: 5}\n", "without 'data.cutoff_column'"},
    {COMPLETE ", cutoff_column: a}\n", "without 'data.cutoff'"},
    {COMPLETE ", labels: ['n=0', 'y=1', 'maybe=2']}\n", "a binary task has 0 and 1"},
    {COMPLETE ", labels: ['n=0', 'y=1', 'n.=0']}\n", NULL},
    {"model: m\ntask: multiclass\ndata: {train: [a.csv], target: y, numeric: [a], labels: ['n=0']}\n", "at least 2 are needed"},
    {"model: m\ntask: multiclass\ndata: {train: [a.csv], target: y, numeric: [a]}\nquality: {metric: auc}\n", "a multiclass task does not have"},
    {"model: m\ntask: regression\ndata: {train: [a.csv], target: y, numeric: [a], labels: ['n=0', 'y=1']}\n", "the task is regression"},
    {COMPLETE "}\nbaseline: {name: rule}\n", "which needs 'baseline.rule'"},
    {COMPLETE "}\nbaseline: {name: rule, rule: 'a > 1 -> 0.9; else -> 0.1'}\n", NULL},
};

START_TEST(options_that_do_not_make_a_night_together_are_refused)
{
    Error error = ERROR_INIT;
    OWNED(Config, config_free) *config = must_load(needed_rows[_i].text);
    if (needed_rows[_i].words)
        ASSERT_FAILS(config_check_needed(config, &error), &error, ERROR_CONFIG, needed_rows[_i].words);
    else
        ASSERT_OK(config_check_needed(config, &error), &error);
}
END_TEST

static const char *const fixture_configs[] = {"adult", "bank_marketing", "california_housing", "magic_gamma"};

START_TEST(the_configurations_of_the_four_data_sets_are_whole)
{
    char path[FILE_PATH_SIZE];
    Error error = ERROR_INIT;
    ck_assert(text_print(path, sizeof path, FEDGATE_SOURCE_DIR "/fixtures/configs/%s.yaml", fixture_configs[_i]));
    OWNED(Config, config_free) *config = config_load(path, NULL, 0, NULL, &error);
    ck_assert_msg(config != NULL, "%s", error.message);
    ASSERT_OK(config_check_needed(config, &error), &error);
}
END_TEST

// -- policy

START_TEST(a_policy_file_replaces_limits_and_nothing_else)
{
    Error error = ERROR_INIT;
    OWNED(Config, config_free) *base = must_load("train: {epochs: 3}\noverlap: {floor: 0.9, steps: 0.99}\n");
    support_write(support_path(folder, "policy.yaml"), "train: {epochs: 9}\noverlap: {floor: 0.7}\n");
    OWNED(Config, config_free) *tried = config_load_policy(base, support_path(folder, "policy.yaml"), &error);
    ck_assert_msg(tried != NULL, "%s", error.message);
    ck_assert_double_eq(config_real(tried, "overlap.floor"), 0.7);
    ck_assert_double_eq(config_real(tried, "overlap.steps"), 0.99);
    ck_assert_int_eq(config_integer(tried, "train.epochs"), 3);
    ck_assert_uint_eq(config_list_count(tried, "train.hidden"), 2);
    ck_assert_int_eq(config_list_integer(tried, "train.hidden", 0), 256);
    Digest a, b, c;
    config_policy_digest(base, &a);
    config_policy_digest(tried, &b);
    ck_assert(!digest_equal(&a, &b));
    OWNED(Config, config_free) *same = must_load("overlap: {steps: 0.990, floor: 9e-1}\ntrain: {epochs: 4}\n");
    config_policy_digest(same, &c);
    ck_assert(digest_equal(&a, &c));   // how a limit was written, and what is no policy, do not enter
    support_write(support_path(folder, "policy.yaml"), "train: {epochs: none}\n");
    ASSERT_FAILS(config_load_policy(base, support_path(folder, "policy.yaml"), &error) != NULL, &error, ERROR_CONFIG, "'train.epochs' is 'none'");
    support_write(support_path(folder, "policy.yaml"), "checks: {required: [overlap]}\n");
    ASSERT_FAILS(config_load_policy(base, support_path(folder, "policy.yaml"), &error) != NULL, &error, ERROR_CONFIG, "cannot be switched off");
}
END_TEST

// -- showing

START_TEST(a_secret_is_never_shown)
{
    Error error = ERROR_INIT;
    OWNED(Config, config_free) *config = must_load("database: {url: 'host=hidden-place'}\n");
    SCOPED_TEXT out;
    text_init(&out, 1000000);
    config_dump(config, &out);
    OWNED(Json, json_free) *all = config_to_json(config, 0);
    json_write(all, JSON_INDENTED, &out);
    OWNED(Json, json_free) *secrets = config_to_json(config, OPTION_SECRET);
    json_write(secrets, JSON_INDENTED, &out);
    ck_assert(text_ok(&out, &error));
    ck_assert_ptr_null(strstr(text_string(&out), "hidden-place"));
    ck_assert_ptr_nonnull(strstr(text_string(&out), "database.url = (secret)  # "));
    ck_assert_str_eq(config_text(config, "database.url"), "host=hidden-place");
    ASSERT_FAILS(load_text("database: {url: \"host=hidden-\\nplace\"}\n", &error) != NULL, &error, ERROR_CONFIG, "'(secret)'");
}
END_TEST

// Takes the '#' away before every option, as a person would who wants everything spelt out.
static void uncomment(const Text *sample, Text *out)
{
    bool at_start = true;
    for (const char *c = text_string(sample); *c; c++) {
        if (!(at_start && *c == '#' && c[1] != ' '))
            text_add_char(out, *c);
        at_start = *c == '\n';
    }
}

START_TEST(the_sample_loads_as_it_is_and_spelt_out_to_the_defaults)
{
    SCOPED_TEXT sample, spelt, a, b;
    text_init(&sample, 200000);
    text_init(&spelt, 200000);
    text_init(&a, 200000);
    text_init(&b, 200000);
    config_sample(&sample);
    uncomment(&sample, &spelt);
    ck_assert(!sample.failed && !spelt.failed);
    OWNED(Config, config_free) *as_is = must_load(text_string(&sample));
    OWNED(Config, config_free) *whole = must_load(text_string(&spelt));
    OWNED(Json, json_free) *one = config_to_json(as_is, 0);
    OWNED(Json, json_free) *two = config_to_json(whole, 0);
    json_write(one, JSON_COMPACT, &a);
    json_write(two, JSON_COMPACT, &b);
    ck_assert_str_eq(text_string(&a), text_string(&b));
    size_t given = 0;
    for (size_t i = 0; i < config_option_count; i++) {
        ck_assert(!config_given(as_is, config_options[i].name));
        given += config_given(whole, config_options[i].name);
    }
    ck_assert_uint_eq(given, config_option_count - 2);   // model and data.target have no default to spell out
    ck_assert_int_eq(config_integer(as_is, "device.memory"), 24000000000);   // the example of the brief
    ck_assert_double_eq(config_real(as_is, "memory.reserve"), 0.1);
}
END_TEST

START_TEST(a_dump_reads_back_to_the_same_values)
{
    OWNED(Config, config_free) *config = must_load(
        "data: {labels: ['<=50K=0', '>50K=1'], missing: ['*=\\\\\"x'], delimiter: \"\\t\", train: [-odd.csv]}\nowner: 'true story: #1'\n");
    SCOPED_TEXT dump, again, a, b;
    text_init(&dump, 200000);
    text_init(&again, 200000);
    text_init(&a, 200000);
    text_init(&b, 200000);
    config_dump(config, &dump);
    for (char *line = strtok(dump.data, "\n"); line; line = strtok(NULL, "\n")) {
        char *equals = strstr(line, " = ");
        ck_assert_ptr_nonnull(equals);
        text_add_bytes(&again, line, (size_t)(equals - line));
        text_add_format(&again, ": %s\n", equals + 3);
    }
    OWNED(Config, config_free) *copy = must_load(text_string(&again));
    OWNED(Json, json_free) *one = config_to_json(config, 0);
    OWNED(Json, json_free) *two = config_to_json(copy, 0);
    json_write(one, JSON_COMPACT, &a);
    json_write(two, JSON_COMPACT, &b);
    ck_assert_str_eq(text_string(&a), text_string(&b));
}
END_TEST

START_TEST(the_table_is_sound)
{
    SCOPED_TEXT manual, help;
    text_init(&manual, 200000);
    text_init(&help, 10000);
    config_manual(&manual);
    for (size_t i = 0; i < config_option_count; i++) {
        const Option *option = &config_options[i];
        char cell[128];
        ck_assert_msg(config_find_option(option->name) == option, "option '%s' is there twice", option->name);
        ck_assert_str_eq(config_nearest(option->name), option->name);
        ck_assert_msg((option->type == OPTION_CHOICE) == (option->choices != NULL), "%s", option->name);
        ck_assert_msg(option->min <= option->max, "%s", option->name);
        ck_assert_msg(option->sentence[0] && option->unit, "%s", option->name);
        ck_assert_msg((option->flags & (OPTION_IDENTITY | OPTION_POLICY)) != (OPTION_IDENTITY | OPTION_POLICY), "%s", option->name);
        ck_assert(text_print(cell, sizeof cell, "| `%s` |", option->name));
        ck_assert_ptr_nonnull(strstr(text_string(&manual), cell));
        text_clear(&help);
        config_help_option(option, &help);
        ck_assert_msg(text_starts_with(text_string(&help), option->name), "%s", option->name);
    }
    ck_assert_ptr_null(config_find_option("train"));
    ck_assert_ptr_null(config_nearest("zzzzzzzzzzzz"));
    ck_assert_str_eq(config_nearest("training.epochs"), "train.epochs");
    ck_assert_str_eq(config_nearest("deadlin"), "window.deadline");
}
END_TEST

START_TEST(help_says_type_default_range_and_unit)
{
    SCOPED_TEXT help;
    text_init(&help, 10000);
    config_help_option(config_find_option("train.batch"), &help);
    config_help_option(config_find_option("quality.metric"), &help);
    config_help_option(config_find_option("model"), &help);
    ck_assert_ptr_nonnull(strstr(text_string(&help), "train.batch  integer, default 256, 1 to 1048576 samples: global batch"));
    ck_assert_ptr_nonnull(strstr(text_string(&help), "quality.metric  choice, default empty, auc or logloss or accuracy or rmse: metric"));
    ck_assert_ptr_nonnull(strstr(text_string(&help), "model  text, needed: name"));
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
    tcase_add_loop_test(tests, options_that_do_not_make_a_night_together_are_refused, 0, sizeof needed_rows / sizeof needed_rows[0]);
    tcase_add_loop_test(tests, the_configurations_of_the_four_data_sets_are_whole, 0, 4);
    tcase_add_test(tests, a_policy_file_replaces_limits_and_nothing_else);
    tcase_add_test(tests, a_secret_is_never_shown);
    tcase_add_test(tests, the_sample_loads_as_it_is_and_spelt_out_to_the_defaults);
    tcase_add_test(tests, a_dump_reads_back_to_the_same_values);
    tcase_add_test(tests, the_table_is_sound);
    tcase_add_test(tests, help_says_type_default_range_and_unit);
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
