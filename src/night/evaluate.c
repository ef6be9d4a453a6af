// evaluate - step 8: the candidate, the rule, the statistical baseline and what is live, on the same test
// rows.
//
// Thresholds come from validation rows, never from test rows; test rows are judged once. Evidence: quality.
// What decisions are worth is in evaluate_decisions.c; calibration, distribution and latency in
// evaluate_beside.c.
#include "evaluate_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const model_names[MODEL_COUNT] = {"candidate", "prior", "rule", "linear", "live"};

static double *new_scores(const Evaluation *e, size_t rows)
{
    return calloc(rows * (size_t)e->width + 1, sizeof(double));
}

static bool begin_scores(Evaluation *e, int which, Error *error)
{
    Scores *scores = &e->models[which];
    scores->test = new_scores(e, e->test.rows);
    scores->validation = new_scores(e, e->validation.rows);
    if (scores->test == NULL || scores->validation == NULL)
        return FAIL(error, ERROR_MEMORY, 0, "could not allocate the scores of model '%s'",
                    model_names[which]);
    return true;
}

static bool score_candidate(Evaluation *e, Error *error)
{
    Scores *scores = &e->models[MODEL_CANDIDATE];
    double mean = 0, deviation = 1;
    maps_target(e->night->maps, &mean, &deviation);
    scores->present = begin_scores(e, MODEL_CANDIDATE, error) &&
                      model_predict(e->child->model, e->child->device, e->night->ledger, &e->test, mean,
                                    deviation, scores->test, error) &&
                      model_predict(e->child->model, e->child->device, e->night->ledger, &e->validation, mean,
                                    deviation, scores->validation, error);
    return scores->present && text_copy(scores->version, sizeof scores->version, e->night->version);
}

static bool score_baseline(Evaluation *e, const Baseline *baseline, int which, const Table *test,
                           const Table *validation, Error *error)
{
    Scores *scores = &e->models[which];
    if (baseline == NULL)
        return true;
    scores->present = begin_scores(e, which, error) &&
                      baseline_predict(baseline, e->night->dataset, SPLIT_TEST, test, scores->test, error) &&
                      baseline_predict(baseline, e->night->dataset, SPLIT_VALIDATION, validation,
                                       scores->validation, error);
    return scores->present || error_prefix(error, "baseline '%s'", model_names[which]);
}

// The live release scores the same rows through its own maps, as it would in service.
static bool score_live_model(Evaluation *e, const char *directory, Error *error)
{
    char path[FILE_PATH_SIZE];
    if (!file_join(path, directory, "maps.json", error))
        return false;
    OWNED(Json, json_free) *json = json_read_file(path, NIGHT_JSON_MAX, error);
    OWNED(Maps, maps_free) *maps = json == NULL ? NULL : maps_from_json(json, error);
    OWNED(Model, model_free) *model = maps == NULL ? NULL : model_load(directory, error);
    Table test = {0}, validation = {0};
    double mean = 0, deviation = 1;
    if (model == NULL)
        return false;
    if (!text_equal(model_task(model), config_text(e->night->config, "task")) ||
        model_outputs(model) != e->width)   // its scores would have another meaning, and another size
        return FAIL(error, ERROR_DATA, 0, "it does %s with %lld outputs, the candidate %s with %d",
                    model_task(model), (long long)model_outputs(model), config_text(e->night->config, "task"),
                    e->width);
    maps_target(maps, &mean, &deviation);
    Scores *scores = &e->models[MODEL_LIVE];
    bool done =
        dataset_decode(e->night->dataset, maps, SPLIT_TEST, e->night->ledger, &test, error) &&
        dataset_decode(e->night->dataset, maps, SPLIT_VALIDATION, e->night->ledger, &validation, error) &&
        begin_scores(e, MODEL_LIVE, error) &&
        model_predict(model, e->child->device, e->night->ledger, &test, mean, deviation, scores->test,
                      error) &&
        model_predict(model, e->child->device, e->night->ledger, &validation, mean, deviation,
                      scores->validation, error);
    table_done(&test);
    table_done(&validation);
    scores->present = done;
    return done;
}

static bool score_live(Evaluation *e, Json *invalid, Error *error)
{
    Night *night = e->night;
    e->live_kind = !night->has_head                          ? "none"
                   : night->head.to_kind == RELEASE_BASELINE ? "baseline"
                                                             : "release";
    if (strcmp(e->live_kind, "release") != 0)
        return true;
    char name[2 * VERSION_SIZE], directory[FILE_PATH_SIZE];
    Error failed = ERROR_INIT;
    // By its name: `current` may have moved since the night began.
    if (!text_print(name, sizeof name, "releases/%s", night->head.to) ||
        !file_join(directory, night->options->home, name, error) ||
        !text_copy(e->models[MODEL_LIVE].version, sizeof e->models[MODEL_LIVE].version, night->head.to))
        return false;
    if (score_live_model(e, directory, &failed))
        return true;
    SCOPED_TEXT reason;   // it cannot score tonight's rows: the comparison is void, which the judge must know
    text_init(&reason, 2000);
    text_add_format(&reason, "live version '%s' cannot score these rows: %s", night->head.to, failed.message);
    json_add_text(invalid, text_string(&reason));
    e->models[MODEL_LIVE].present = false;
    return true;
}

Predictions evaluate_predictions(const Evaluation *e, const double *score, size_t rows)
{
    return (Predictions){.score = score, .rows = rows, .classes = e->width};
}

static void put_model(Evaluation *e, Json *models, int which)
{
    Scores *scores = &e->models[which];
    Json *entry = json_make_object();
    if (scores->version[0] != '\0')
        json_put_text(entry, "version", scores->version);
    Predictions p = evaluate_predictions(e, scores->test, e->test.rows);
    for (int m = 0; m < METRIC_COUNT; m++) {
        bool defined = e->regression ? m == METRIC_RMSE
                       : e->binary   ? m != METRIC_RMSE
                                     : m == METRIC_LOGLOSS || m == METRIC_ACCURACY;
        if (defined)
            json_put_number(entry, stats_metrics[m].name, stats_metric((Metric)m, p, e->test.target, NULL));
    }
    if (!e->regression) {
        scores->utility = evaluate_utility(e, scores);
        json_put_number(entry, "utility", scores->utility);
    }
    json_put(models, model_names[which], entry);
}

static Json *pair_json(const PairedDifference *pair)
{
    Json *json = json_make_object();
    json_put_number(json, "value_a", pair->a);
    json_put_number(json, "value_b", pair->b);
    json_put_number(json, "difference", pair->difference);
    json_put_number(json, "standard_error", pair->standard_error);
    json_put_number(json, "lower", pair->lower);
    json_put_number(json, "upper", pair->upper);
    json_put_integer(json, "rows", (int64_t)pair->rows);
    json_put_bool(json, "identical", pair->identical);
    json_put_bool(json, "constant", pair->constant);
    return json;
}

// The difference of the decisions' worth, row by row.
static bool put_utility(const Evaluation *e, const Scores *candidate, const Scores *other, Json *json,
                        Error *error)
{
    size_t rows = e->test.rows;
    double *gain = calloc(2 * rows + 1, sizeof *gain);
    if (gain == NULL)
        return FAIL(error, ERROR_MEMORY, 0, "could not allocate the utilities of %zu rows", rows);
    evaluate_row_utilities(e, candidate, gain);
    evaluate_row_utilities(e, other, gain + rows);
    for (size_t i = 0; i < rows; i++)
        gain[i] -= gain[rows + i];
    json_put_number(json, "utility_a", candidate->utility);
    json_put_number(json, "utility_b", other->utility);
    json_put_number(json, "utility_difference", stats_mean(gain, rows));
    json_put_number(json, "utility_standard_error", sqrt(stats_variance(gain, rows) / (double)rows));
    free(gain);
    return true;
}

static bool put_pair(Evaluation *e, const Bootstrap *bootstrap, Json *pairs, int which, Error *error)
{
    PairedDifference pair = {0};
    const Scores *candidate = &e->models[MODEL_CANDIDATE], *other = &e->models[which];
    stats_paired(e->metric, evaluate_predictions(e, candidate->test, e->test.rows),
                 evaluate_predictions(e, other->test, e->test.rows), e->test.target, &pair);
    Json *json = pair_json(&pair);
    json_put_text(json, "against", model_names[which]);
    json_put_text(json, "margin_kind", stats_metrics[e->metric].relative_margin ? "relative" : "absolute");
    json_add(pairs, json);
    return (e->regression || put_utility(e, candidate, other, json, error)) &&
           evaluate_put_bootstrap(bootstrap, e, which, json, error);
}

static bool put_pairs(Evaluation *e, Json *pairs, Error *error)
{
    Bootstrap *bootstrap = evaluate_bootstrap_new(e, error);
    bool good = bootstrap != NULL;
    for (int m = MODEL_PRIOR; good && m < MODEL_COUNT; m++)
        good = !e->models[m].present || put_pair(e, bootstrap, pairs, m, error);
    evaluate_bootstrap_free(bootstrap);
    return good;
}

// -- slices: every value of every declared column; the judge says which are large enough

static bool put_slice(Evaluation *e, Json *slices, const char *column, const Column *values, int32_t code,
                      Error *error)
{
    int reference = e->models[MODEL_LIVE].present ? MODEL_LIVE : MODEL_LINEAR;
    size_t rows = 0, width = (size_t)e->width, positives = 0;
    for (size_t i = 0; i < values->rows; i++)
        rows += values->codes[i] == code;
    double *a = calloc(rows * width + 1, sizeof *a), *b = calloc(rows * width + 1, sizeof *b),
           *target = calloc(rows + 1, sizeof *target);
    bool allocated = a != NULL && b != NULL && target != NULL;
    if (allocated && rows > 0) {
        size_t k = 0;
        for (size_t i = 0; i < values->rows; i++) {
            if (values->codes[i] != code)
                continue;
            memcpy(a + k * width, e->models[MODEL_CANDIDATE].test + i * width, width * sizeof *a);
            memcpy(b + k * width, e->models[reference].test + i * width, width * sizeof *b);
            target[k] = e->test.target[i];
            positives += target[k] == 1.0;
            k++;
        }
        PairedDifference pair = {0};
        stats_paired(e->metric, evaluate_predictions(e, a, rows), evaluate_predictions(e, b, rows), target,
                     &pair);
        Json *json = json_make_object();
        json_put_text(json, "column", column);
        json_put_text(json, "value", values->names[code]);
        json_put_integer(json, "rows", (int64_t)rows);
        if (e->binary)
            json_put_integer(json, "positives", (int64_t)positives);
        json_put_number(json, "candidate", pair.a);
        json_put_number(json, "reference", pair.b);
        json_put_text(json, "reference_name", model_names[reference]);
        json_put_number(json, "difference", pair.difference);
        json_put_number(json, "lower", pair.lower);
        json_put_number(json, "upper", pair.upper);
        json_add(slices, json);
    }
    free(a);
    free(b);
    free(target);
    return allocated || FAIL(error, ERROR_MEMORY, 0, "could not allocate a slice of column '%s'", column);
}

static bool put_slices(Evaluation *e, Json *slices, Error *error)
{
    for (size_t c = 0; c < config_list_count(e->night->config, "quality.slices"); c++) {
        const char *name = config_list_text(e->night->config, "quality.slices", c);
        Column values = {0};
        if (!dataset_column(e->night->dataset, SPLIT_TEST, name, &values, error))
            return error_prefix(error, "slice column '%s'", name);
        bool done = true;
        for (size_t code = 0; done && code < values.name_count; code++)
            done = put_slice(e, slices, name, &values, (int32_t)code, error);
        column_done(&values);
        if (!done)
            return false;
    }
    return true;
}

// Planted: the scores of the first value of the first declared slice column are lost.
static bool lose_slice(Evaluation *e, Error *error)
{
    const char *name = config_list_text(e->night->config, "quality.slices", 0);
    Column values = {0};
    if (!dataset_column(e->night->dataset, SPLIT_TEST, name, &values, error))
        return false;
    for (size_t i = 0; i < values.rows * (size_t)e->width; i++) {
        if (values.codes[i / (size_t)e->width] == 0)
            e->models[MODEL_CANDIDATE].test[i] = (double)NAN;
    }
    column_done(&values);
    return true;
}

static bool evaluate(Evaluation *e, Error *error)
{
    Night *night = e->night;
    Json *quality = night_section(e->child->evidence, "quality"), *models = json_make_object(),
         *pairs = json_make_array();
    Json *slices = json_make_array(), *invalid = json_make_array();
    json_put(quality, "models", models);
    json_put(quality, "pairs", pairs);
    json_put(quality, "slices", slices);
    json_put(quality, "invalid", invalid);
    const Baseline *const *baselines = (const Baseline *const *)night->baselines;
    if (!dataset_decode(night->dataset, night->maps, SPLIT_TEST, night->ledger, &e->test, error) ||
        !dataset_decode(night->dataset, night->maps, SPLIT_VALIDATION, night->ledger, &e->validation,
                        error) ||
        !score_candidate(e, error) ||
        !score_baseline(e, baselines[BASELINE_PRIOR], MODEL_PRIOR, &e->test, &e->validation, error) ||
        !score_baseline(e, baselines[BASELINE_RULE], MODEL_RULE, &e->test, &e->validation, error) ||
        !score_baseline(e, baselines[BASELINE_LINEAR], MODEL_LINEAR, &e->test, &e->validation, error) ||
        !score_live(e, invalid, error))
        return false;
    if (fault_set("quality.copy_baseline")) {
        memcpy(e->models[MODEL_CANDIDATE].test, e->models[MODEL_LINEAR].test,
               e->test.rows * (size_t)e->width * sizeof(double));
        memcpy(e->models[MODEL_CANDIDATE].validation, e->models[MODEL_LINEAR].validation,
               e->validation.rows * (size_t)e->width * sizeof(double));
    }
    if (fault_set("score.nan_slice") && !lose_slice(e, error))
        return false;
    json_put_text(quality, "metric", stats_metrics[e->metric].name);
    json_put_bool(quality, "higher_is_better", stats_metrics[e->metric].higher_is_better);
    json_put_bool(quality, "relative", stats_metrics[e->metric].relative_margin);
    json_put_integer(quality, "rows", (int64_t)e->test.rows);
    json_put_text(quality, "live_kind", e->live_kind);
    for (int m = 0; m < MODEL_COUNT; m++) {
        if (e->models[m].present)
            put_model(e, models, m);
    }
    if (!put_pairs(e, pairs, error))
        return false;
    if (e->binary)
        evaluate_put_calibration(e, quality);
    evaluate_put_distribution(e);
    return evaluate_put_shift(e, error) && put_slices(e, slices, error) && evaluate_put_latency(e, error);
}

bool child_metric(const Night *night, Metric *ret_metric, Error *error)
{
    const char *task = config_text(night->config, "task"),
               *metric = config_text(night->config, "quality.metric");
    if (metric[0] == '\0')
        metric = strcmp(task, "binary") == 0 ? "auc" : strcmp(task, "regression") == 0 ? "rmse" : "logloss";
    return stats_find_metric(metric, ret_metric) ||
           FAIL(error, ERROR_CONFIG, 0, "unknown metric '%s'", metric);
}

bool child_evaluate(Child *child, Error *error)
{
    Night *night = child->night;
    const char *task = config_text(night->config, "task");
    Evaluation e = {.child = child,
                    .night = night,
                    .binary = strcmp(task, "binary") == 0,
                    .regression = strcmp(task, "regression") == 0,
                    .width = dataset_classes(night->dataset)};
    if (!child_metric(night, &e.metric, error) || !dataset_still_same(night->dataset, error))
        return false;
    bool done = evaluate(&e, error);
    for (int m = 0; m < MODEL_COUNT; m++) {
        free(e.models[m].test);
        free(e.models[m].validation);
    }
    table_done(&e.test);
    table_done(&e.validation);
    return done;
}
