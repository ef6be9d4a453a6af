// config_night_test - options that are right one by one and do not make a night together are refused.
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

// -- what run needs

#define COMPLETE "model: m\ntask: binary\ndata: {train: [a.csv], target: y, numeric: [a, b], categorical: [c]"
static const struct {
    const char *text, *words;
} needed_rows[] = {
    {COMPLETE "}\n", NULL},
    {"task: binary\n", "option 'model' is needed and not given"},
    {"model:\n", "option 'model' is needed and not given"},
    {"model: m\ndata: {target: y, numeric: [a]}\n", "option 'data.train' is needed"},
    {"model: m\ndata: {train: [a.csv], numeric: [a]}\n", "option 'data.target' is needed"},
    {"model: m\ndata: {train: [a.csv], target: y}\n", "at least 1 feature is needed"},
    {"model: m\ndata: {train: [a.csv], target: y, numeric: [y]}\n", "'data.target' is also a feature"},
    {"model: m\ndata: {train: [a.csv], target: y, numeric: [a, i], row_id: i}\n",
     "'data.row_id' is also a feature"},
    {"model: m\ndata: {train: [a.csv], target: y, numeric: [a], categorical: [a]}\n",
     "which is in 'data.numeric' too"},
    {COMPLETE "}\nquality: {benefit_tp: 0, cost_fp: 0}\n", "acting and not acting worth the same"},
    {COMPLETE "}\nquality: {benefit_tp: 1, cost_fn: -1, cost_fp: 0}\n", "worth the same"},
    {COMPLETE "}\nquality: {benefit_tp: 0, cost_fp: 1}\n", NULL},
    {COMPLETE "}\ntrain: {scale_initial: 3}\n", "is 3, no power of two"},
    {COMPLETE "}\ntrain: {scale_initial: 2, scale_floor: 1024}\n", "under 'train.scale_floor' = 1024"},
    {COMPLETE "}\ntrain: {scale_initial: 1024, scale_floor: 1024}\n", NULL},
    {COMPLETE "}\nquality: {threshold: 0}\n", "is 0: every row would be acted on"},
    {COMPLETE "}\nquality: {utilities: [1, 1, 0, 0]}\n", "makes every decision worth the same"},
    {COMPLETE "}\nquality: {utilities: [1, 0, 0, 1]}\n", NULL},
    {COMPLETE "}\nparity: {margin: 0.03}\n",
     "option 'parity.margin' is 0.03, for auc and accuracy the limit is 0.02"},
    {COMPLETE "}\nparity: {margin: 0.03}\nquality: {metric: accuracy}\n",
     "for auc and accuracy the limit is 0.02"},
    {COMPLETE "}\nparity: {margin: 0.03}\nquality: {metric: logloss}\n", NULL},
    {COMPLETE "}\nparity: {margin: 0.02}\n", NULL},
    {COMPLETE ", forbidden: [b]}\n", "names column 'b', which 'data.forbidden' keeps out"},
    {COMPLETE ", forbidden: [y]}\n", "names the target 'y'"},
    {COMPLETE ", columns: [a, b, c, y]}\n", "but 'data.header' says that the file does"},
    {COMPLETE ", header: false}\n", "no column has a name"},
    {COMPLETE ", header: false, columns: [a, bb, c, y]}\n",
     "names column 'b', which 'data.columns' does not have"},
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
    {COMPLETE "}\nsplit: {method: modulo, modulo: 4, remainder: 4}\n",
     "is 4, the limit is under 'split.modulo' = 4"},
    {COMPLETE "}\nsplit: {method: modulo, modulo: 4, remainder: 3}\n", NULL},
    {COMPLETE ", cutoff: 5}\n", "without 'data.cutoff_column'"},
    {COMPLETE ", cutoff_column: a}\n", "without 'data.cutoff'"},
    {COMPLETE ", labels: ['n=0', 'y=1', 'maybe=2']}\n", "a binary task has 0 and 1"},
    {COMPLETE ", labels: ['n=0', 'y=1', 'n.=0']}\n", NULL},
    {"model: m\ntask: multiclass\ndata: {train: [a.csv], target: y, numeric: [a], labels: ['n=0']}\n",
     "at least 2 are needed"},
    {"model: m\ntask: multiclass\ndata: {train: [a.csv], target: y, numeric: [a]}\nquality: {metric: auc}\n",
     "a multiclass task does not have"},
    {"model: m\ntask: regression\ndata: {train: [a.csv], target: y, numeric: [a], labels: ['n=0', 'y=1']}\n",
     "the task is regression"},
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
    ck_assert(
        text_print(path, sizeof path, FEDGATE_SOURCE_DIR "/fixtures/configs/%s.yaml", fixture_configs[_i]));
    OWNED(Config, config_free) *config = config_load(path, NULL, 0, NULL, &error);
    ck_assert_msg(config != NULL, "%s", error.message);
    ASSERT_OK(config_check_needed(config, &error), &error);
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("config of a night");
    TCase *tests = tcase_create("config of a night");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, options_that_do_not_make_a_night_together_are_refused, 0,
                        sizeof needed_rows / sizeof needed_rows[0]);
    tcase_add_loop_test(tests, the_configurations_of_the_four_data_sets_are_whole, 0, 4);
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
