// config_show_test - policy of another file, secrets, sample, dump and help: what the table says about
// itself.
#include <fedgate/config.h>
#include <fedgate/file.h>

#include <string.h>

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
    OWNED(Config, config_free) *same =
        must_load("overlap: {steps: 0.990, floor: 9e-1}\ntrain: {epochs: 4}\n");
    config_policy_digest(same, &c);
    ck_assert(digest_equal(&a, &c));   // how a limit was written, and what is no policy, do not enter
    support_write(support_path(folder, "policy.yaml"), "train: {epochs: none}\n");
    ASSERT_FAILS(config_load_policy(base, support_path(folder, "policy.yaml"), &error) != NULL, &error,
                 ERROR_CONFIG, "'train.epochs' is 'none'");
    support_write(support_path(folder, "policy.yaml"), "checks: {required: [overlap]}\n");
    ASSERT_FAILS(config_load_policy(base, support_path(folder, "policy.yaml"), &error) != NULL, &error,
                 ERROR_CONFIG, "cannot be switched off");
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
    ASSERT_FAILS(load_text("database: {url: \"host=hidden-\\nplace\"}\n", &error) != NULL, &error,
                 ERROR_CONFIG, "'(secret)'");
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
    OWNED(Config, config_free) *config =
        must_load("data: {labels: ['<=50K=0', '>50K=1'], missing: ['*=\\\\\"x'], delimiter: \"\\t\", train: "
                  "[-odd.csv]}\nowner: 'true story: #1'\n");
    SCOPED_TEXT dump, again, a, b;
    text_init(&dump, 200000);
    text_init(&again, 200000);
    text_init(&a, 200000);
    text_init(&b, 200000);
    config_dump(config, &dump);
    char *state = NULL;
    for (char *line = strtok_r(dump.data, "\n", &state); line; line = strtok_r(NULL, "\n", &state)) {
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
        ck_assert_msg((option->flags & (OPTION_IDENTITY | OPTION_POLICY)) !=
                          (OPTION_IDENTITY | OPTION_POLICY),
                      "%s", option->name);
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
    ck_assert_ptr_nonnull(
        strstr(text_string(&help), "train.batch  integer, default 256, 1 to 1048576 samples: global batch"));
    ck_assert_ptr_nonnull(
        strstr(text_string(&help),
               "quality.metric  choice, default empty, auc or logloss or accuracy or rmse: metric"));
    ck_assert_ptr_nonnull(strstr(text_string(&help), "model  text, needed: name"));
}
END_TEST

START_TEST(a_list_is_taken_as_it_is_shown)
{
    static const char *const forms[] = {"data.numeric=a, b c", "data.numeric=[a, b c]",
                                        "data.numeric= [ \"a\" , \"b c\" ] "};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        Error error = ERROR_INIT;
        OWNED(Config, config_free) *config = config_load(NULL, &forms[i], 1, NULL, &error);
        ck_assert_msg(config != NULL, "%s", error.message);
        ck_assert_uint_eq(config_list_count(config, "data.numeric"), 2);
        ck_assert_str_eq(config_list_text(config, "data.numeric", 0), "a");
        ck_assert_str_eq(config_list_text(config, "data.numeric", 1), "b c");
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("config shown");
    TCase *tests = tcase_create("config shown");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_policy_file_replaces_limits_and_nothing_else);
    tcase_add_test(tests, a_secret_is_never_shown);
    tcase_add_test(tests, the_sample_loads_as_it_is_and_spelt_out_to_the_defaults);
    tcase_add_test(tests, a_dump_reads_back_to_the_same_values);
    tcase_add_test(tests, the_table_is_sound);
    tcase_add_test(tests, help_says_type_default_range_and_unit);
    tcase_add_test(tests, a_list_is_taken_as_it_is_shown);
    suite_add_tcase(suite, tests);
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
