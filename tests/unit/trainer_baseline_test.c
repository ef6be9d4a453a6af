// trainer_baseline_test - prior, rule and linear regression: what they fit, what a rule may say, and that
// they survive the disk.
#include "trainer_world.h"

#include "../../src/trainer/baseline_internal.h"

static const char *const task_names[] = {"binary", "multiclass", "regression"};

static double *scores(const World *world, const Baseline *baseline, Table *table)
{
    Error error = ERROR_INIT;
    ck_assert(dataset_decode(world->dataset, world->maps, SPLIT_TEST, world->ledger, table, &error));
    double *score = calloc(table->rows * 4, sizeof *score);
    ck_assert_msg(baseline_predict(baseline, world->dataset, SPLIT_TEST, table, score, &error), "%s",
                  error.message);
    return score;
}

static Baseline *fit(const World *world, BaselineKind kind)
{
    Error error = ERROR_INIT;
    Baseline *baseline =
        baseline_fit(kind, world->config, world->dataset, world->maps, world->ledger, &error);
    ck_assert_msg(baseline != NULL, "%s", error.message);
    return baseline;
}

START_TEST(each_baseline_survives_saving_and_loading)
{
    World world;
    Error error = ERROR_INIT;
    BaselineKind kind = (BaselineKind)(_i / 3);
    world_open(&world, task_names[_i % 3], true, 1,
               (const char *const[]){"baseline.rule=c = x -> 1; else -> 0", NULL});
    OWNED(Baseline, baseline_free) *baseline = fit(&world, kind);
    ck_assert_msg(baseline_save(baseline, world.folder, &error), "%s", error.message);
    OWNED(Baseline, baseline_free) *loaded = baseline_load(world.folder, &error);
    ck_assert_msg(loaded != NULL, "%s", error.message);
    Table table, again;
    double *a = scores(&world, baseline, &table), *b = scores(&world, loaded, &again);
    ck_assert_mem_eq(a, b, table.rows * 4 * sizeof *a);
    for (size_t i = 0; i < table.rows && _i % 3 == 1; i++)
        ck_assert_double_eq_tol(a[3 * i] + a[3 * i + 1] + a[3 * i + 2], 1, 1e-12);
    free(a);
    free(b);
    table_done(&table);
    table_done(&again);
    world_close(&world);
}
END_TEST

START_TEST(the_linear_baseline_learns_what_is_linear)
{
    World world;
    world_open(&world, task_names[_i], true, 1, NULL);
    Table table;
    int classes = dataset_classes(world.dataset);
    Metric metric = _i == 2 ? METRIC_RMSE : METRIC_LOGLOSS;
    double value[2];
    for (int k = 0; k < 2; k++) {
        OWNED(Baseline, baseline_free) *baseline = fit(&world, k ? BASELINE_LINEAR : BASELINE_PRIOR);
        double *score = scores(&world, baseline, &table);
        value[k] = stats_metric(metric, (Predictions){score, table.rows, classes}, table.target, NULL);
        free(score);
        table_done(&table);
    }
    ck_assert_double_lt(value[1], 0.6 * value[0]);
    world_close(&world);
}
END_TEST

START_TEST(the_linear_baseline_is_at_its_minimum)
{
    World world;
    Error error = ERROR_INIT;
    world_open(&world, "binary", true, 1, (const char *const[]){"baseline.ridge=0.001", NULL});
    OWNED(Baseline, baseline_free) *baseline = fit(&world, BASELINE_LINEAR);
    Table table;
    ck_assert(dataset_decode(world.dataset, world.maps, SPLIT_TRAIN, world.ledger, &table, &error));
    double *score = calloc(table.rows, sizeof *score),
           *gradient = calloc((size_t)baseline->features, sizeof *gradient);
    linear_scores(baseline, &table, score);
    for (size_t i = 0; i < table.rows; i++) {
        double residual = (score[i] - table.target[i]) / (double)table.rows;
        for (size_t j = 0; j < table.numeric; j++)
            gradient[j] += residual * (double)table.x[i * table.numeric + j];
        gradient[baseline->first[0] + table.codes[i]] += residual;
        gradient[baseline->features - 1] += residual;
    }
    for (int64_t j = 0; j < baseline->features; j++)
        ck_assert_double_eq_tol(gradient[j] + (j + 1 < baseline->features ? 0.001 * baseline->weights[j] : 0),
                                0, 1e-7);
    free(score);
    free(gradient);
    table_done(&table);
    world_close(&world);
}
END_TEST

START_TEST(lbfgs_and_newton_find_the_same_minimum)
{
    World world;
    Error error = ERROR_INIT;
    world_open(&world, "multiclass", true, 1, NULL);
    Table table;
    ck_assert(dataset_decode(world.dataset, world.maps, SPLIT_TRAIN, world.ledger, &table, &error));
    for (size_t i = 0; i < table.rows; i++)
        table.target[i] = table.target[i] > 1;
    OWNED(Baseline, baseline_free) *two =
        fit(&world, BASELINE_LINEAR);   // three classes: its memory serves two outputs as well
    two->outputs = 2;
    memset(two->weights, 0, (size_t)(3 * two->features) * sizeof *two->weights);
    ck_assert(linear_fit(two, &table, 0.001, &error));
    OWNED(Baseline, baseline_free) *one = fit(&world, BASELINE_LINEAR);
    one->outputs = 1;
    one->task = FEDGATE_LOSS_BINARY;
    memset(one->weights, 0, (size_t)(3 * one->features) * sizeof *one->weights);
    ck_assert(
        linear_fit(one, &table, 0.0005,
                   &error));   // two opposite weights u and -u are a difference of 2 u: half the ridge on it
    double *a = calloc(table.rows * 2, sizeof *a), *b = calloc(table.rows, sizeof *b);
    linear_scores(two, &table, a);
    linear_scores(one, &table, b);
    for (size_t i = 0; i < table.rows; i++)
        ck_assert_double_eq_tol(a[2 * i + 1], b[i], 1e-3);
    free(a);
    free(b);
    table_done(&table);
    world_close(&world);
}
END_TEST

START_TEST(a_rule_gives_the_score_of_its_first_matching_clause)
{
    World world;
    Error error = ERROR_INIT;
    world_open(&world, "binary", true, 1,
               (const char *const[]){
                   "baseline.rule=a >= 0.5 -> 0.9; c = \"y\" -> 0.5; c != x -> 0.25; else -> 0.125", NULL});
    OWNED(Baseline, baseline_free) *baseline = fit(&world, BASELINE_RULE);
    Table table;
    Column a, c;
    double *score = scores(&world, baseline, &table);
    ck_assert(dataset_column(world.dataset, SPLIT_TEST, "a", &a, &error) &&
              dataset_column(world.dataset, SPLIT_TEST, "c", &c, &error));
    for (size_t i = 0; i < table.rows; i++) {
        const char *name = c.names[c.codes[i]];
        ck_assert_double_eq(score[i], a.numbers[i] >= 0.5 ? 0.9
                                      : *name == 'y'      ? 0.5
                                      : *name != 'x'      ? 0.25
                                                          : 0.125);
    }
    free(score);
    column_done(&a);
    column_done(&c);
    table_done(&table);
    world_close(&world);
}
END_TEST

static const struct {
    const char *rule, *message;
} wrong_rules[] = {
    {"", "'else -> score' at the end expected"},
    {"a > 1 -> 0.5", "'else -> score' at the end expected"},
    {"else -> 0.5; a > 1 -> 0.2", "the end after 'else' expected"},
    {"a > 1; else -> 0.5", "'->' expected"},
    {"a ~ 1 -> 0.5; else -> 0.5", "'column op value' or 'else' expected"},
    {"a > much -> 0.5; else -> 0.5", "a number expected"},
    {"a > 1 -> high; else -> 0.5", "a score expected"},
    {"a > 1 -> ; else -> 0.5", "a score expected"},
    {" = x -> 0.5; else -> 0.5", "expected"},
    {"c = \"x -> 0.5; else -> 0.5", "expected"},
    {"a > 1 -> 1.5; else -> 0.5", "not a probability"},
    {"a > 1 -> nan; else -> 0.5", "a score expected"},
    {"secret > 1 -> 0.5; else -> 0.5", "'data.forbidden'"},
};

START_TEST(a_wrong_rule_is_refused_with_its_position)
{
    World world;
    Error error = ERROR_INIT;
    world_open(&world, "binary", true, 1, NULL);
    const char *sets[] = {"model=m", "task=binary", "data.forbidden=secret"};
    OWNED(Config, config_free) *config = config_load(NULL, sets, 3, NULL, &error);
    ck_assert(!baseline_check_rule(wrong_rules[_i].rule, config, &error));
    ck_assert_int_eq(error.kind, ERROR_CONFIG);
    ck_assert_msg(strstr(error.message, wrong_rules[_i].message), "%s: %s", wrong_rules[_i].rule,
                  error.message);
    world_close(&world);
}
END_TEST

START_TEST(names_find_their_baseline)
{
    BaselineKind kind;
    for (int i = 0; i < BASELINE_COUNT; i++) {
        ck_assert(baseline_find(baseline_name((BaselineKind)i), &kind));
        ck_assert_int_eq((int)kind, i);
    }
    ck_assert(!baseline_find("guess", &kind));
}
END_TEST

static const struct {
    const char *what, *json, *message;
} hostile[] = {
    {"another format",
     "{\"format\": 9, \"kind\": \"prior\", \"task\": \"binary\", \"outputs\": 1, \"constant\": [0.5]}",
     "format 9"},
    {"another kind", "{\"format\": 1, \"kind\": \"guess\", \"task\": \"binary\", \"outputs\": 1}",
     "kind 'guess'"},
    {"too few outputs",
     "{\"format\": 1, \"kind\": \"prior\", \"task\": \"multiclass\", \"outputs\": 1, \"constant\": [0.5]}",
     "1 outputs"},
    {"constant missing", "{\"format\": 1, \"kind\": \"prior\", \"task\": \"binary\", \"outputs\": 1}",
     "'constant'"},
    {"weights of another length",
     "{\"format\": 1, \"kind\": \"linear\", \"task\": \"binary\", \"outputs\": 1, \"numeric\": 2, "
     "\"cardinality\": [3], "
     "\"weights\": [1, 2]}",
     "'weights' is not a list of 6"},
    {"sizes of nonsense",
     "{\"format\": 1, \"kind\": \"linear\", \"task\": \"binary\", \"outputs\": 1, \"numeric\": 2, "
     "\"cardinality\": [-3], "
     "\"weights\": []}",
     "make no sense"},
    {"rule of nonsense",
     "{\"format\": 1, \"kind\": \"rule\", \"task\": \"binary\", \"outputs\": 1, \"rule\": \"a\"}",
     "expected"},
};

START_TEST(a_baseline_that_contradicts_itself_is_not_loaded)
{
    char folder[] = "/tmp/fedgate-baseline-XXXXXX", path[128];
    Error error = ERROR_INIT;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/baseline.json", folder);
    ck_assert(file_write_new(path, hostile[_i].json, strlen(hostile[_i].json), 0640, &error));
    ck_assert_msg(baseline_load(folder, &error) == NULL, "%s was accepted", hostile[_i].what);
    ck_assert_msg(strstr(error.message, hostile[_i].message), "%s: %s", hostile[_i].what, error.message);
    ck_assert(file_remove_tree(folder, &error));
}
END_TEST

START_TEST(cholesky_solves_and_knows_when_it_cannot)
{
    double a[9] = {4, 0, 0, 2, 5, 0, 1, 3, 6}, b[3] = {4 + 4 + 3, 2 + 10 + 9, 1 + 6 + 18};
    ck_assert(cholesky_solve(a, b, 3));
    for (int i = 0; i < 3; i++)
        ck_assert_double_eq_tol(b[i], i + 1, 1e-14);
    double indefinite[4] = {1, 0, 2, 1}, c[2] = {1, 1};
    ck_assert(!cholesky_solve(indefinite, c, 2));
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("trainer baselines");
    TCase *t = tcase_create("baselines");
    tcase_add_loop_test(t, each_baseline_survives_saving_and_loading, 0, 9);
    tcase_add_loop_test(t, the_linear_baseline_learns_what_is_linear, 0, 3);
    tcase_add_test(t, the_linear_baseline_is_at_its_minimum);
    tcase_add_test(t, lbfgs_and_newton_find_the_same_minimum);
    tcase_add_test(t, a_rule_gives_the_score_of_its_first_matching_clause);
    tcase_add_loop_test(t, a_wrong_rule_is_refused_with_its_position, 0,
                        sizeof wrong_rules / sizeof wrong_rules[0]);
    tcase_add_test(t, names_find_their_baseline);
    tcase_add_loop_test(t, a_baseline_that_contradicts_itself_is_not_loaded, 0,
                        sizeof hostile / sizeof hostile[0]);
    tcase_add_test(t, cholesky_solves_and_knows_when_it_cannot);
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
