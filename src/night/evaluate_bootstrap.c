// evaluate_bootstrap - how far the difference of two models moves when the test rows are drawn again.
//
// Paired bootstrap (Efron 1979): each replicate draws as many rows as there are, with replacement, the same
// rows for every model, and works out metric and utility again; the bounds are the 5 % and 95 % quantiles of
// the replicates' differences. It assumes no normal distribution, which the bounds beside it do. Draws follow
// from the version and the counter alone.
#include "evaluate_internal.h"

#include <fedgate/hash.h>
#include <fedgate/random.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { REPLICATES_LEAST = 100, REPLICATES_MOST = 400 };
static const double ROWS_DRAWN_MOST = 2e7;   // a second or so

typedef struct Resampled {   // one model
    size_t *order;   // rows by score, AUC only
    double *value;   // of the metric, a row
    double *gain;   // utility a row
    double *metric, *utility;   // of each replicate
} Resampled;

struct Bootstrap {
    Metric metric;
    size_t rows, replicates;
    uint32_t *weight;
    Resampled model[MODEL_COUNT];
};

typedef struct Scored {
    double score;
    size_t row;
} Scored;

static int compare_scored(const void *a, const void *b)
{
    const Scored *x = a, *y = b;
    return x->score != y->score ? (x->score > y->score) - (x->score < y->score)
                                : (x->row > y->row) - (x->row < y->row);
}

static bool sort_rows(const double *score, size_t rows, size_t *ret_order)
{
    Scored *scored = calloc(rows + 1, sizeof *scored);
    if (scored == NULL)
        return false;
    for (size_t i = 0; i < rows; i++)
        scored[i] = (Scored){score[i], i};
    qsort(scored, rows, sizeof *scored, compare_scored);
    for (size_t i = 0; i < rows; i++)
        ret_order[i] = scored[i].row;
    free(scored);
    return true;
}

// Mann-Whitney over the rows drawn; NaN when they are of one class, or a score is not a number.
static double drawn_auc(const Bootstrap *b, const double *score, const size_t *order, const double *target)
{
    double below = 0, wins = 0, positives = 0;
    for (size_t begin = 0, end = 0; begin < b->rows; begin = end) {
        double here[2] = {0};
        if (isnan(score[order[begin]]))   // equal to nothing, not even itself
            return NAN;
        for (; end < b->rows && score[order[end]] == score[order[begin]]; end++)
            here[target[order[end]] > 0.5] += b->weight[order[end]];
        wins += here[1] * (below + here[0] / 2);
        below += here[0];
        positives += here[1];
    }
    return wins / (positives * below);
}

static double drawn_mean(const Bootstrap *b, const double *value)
{
    double sum = 0;
    for (size_t i = 0; i < b->rows; i++)
        sum += b->weight[i] * value[i];
    return sum / (double)b->rows;
}

static void draw(Bootstrap *b, uint64_t key, size_t replicate)
{
    memset(b->weight, 0, b->rows * sizeof *b->weight);
    for (size_t i = 0; i < b->rows; i++) {
        uint64_t bits = random_bits(key, replicate * b->rows + i) >> 32;
        b->weight[bits * b->rows >> 32]++;
    }
}

// The metric of a single row, squared for RMSE, so that means of rows make the metric.
static void row_values(const Evaluation *e, const Scores *scores, double *ret_value)
{
    for (size_t i = 0; i < e->test.rows; i++) {
        Predictions one = {.score = scores->test + i * (size_t)e->width, .rows = 1, .classes = e->width};
        double value = stats_metric(e->metric, one, e->test.target + i, NULL);
        ret_value[i] = e->metric == METRIC_RMSE ? value * value : value;
    }
}

static bool take_model(Bootstrap *b, const Evaluation *e, int which)
{
    Resampled *model = &b->model[which];
    const Scores *scores = &e->models[which];
    const bool ranks = b->metric == METRIC_AUC;
    model->order = ranks ? calloc(b->rows + 1, sizeof *model->order) : NULL;
    model->value = ranks ? NULL : calloc(b->rows + 1, sizeof *model->value);
    model->gain = calloc(b->rows + 1, sizeof *model->gain);
    model->metric = calloc(b->replicates + 1, sizeof *model->metric);
    model->utility = calloc(b->replicates + 1, sizeof *model->utility);
    if ((ranks ? (void *)model->order : (void *)model->value) == NULL || model->gain == NULL ||
        model->metric == NULL || model->utility == NULL ||
        (ranks && !sort_rows(scores->test, b->rows, model->order)))
        return false;
    if (!ranks)
        row_values(e, scores, model->value);
    if (!e->regression)
        evaluate_row_utilities(e, scores, model->gain);
    return true;
}

static void resample(Bootstrap *b, const Evaluation *e)
{
    Digest digest;
    hash_bytes(e->night->version, strlen(e->night->version), &digest);
    uint64_t key;
    memcpy(&key, &digest, sizeof key);
    for (size_t r = 0; r < b->replicates; r++) {
        draw(b, key, r);
        for (int m = 0; m < MODEL_COUNT; m++) {
            Resampled *model = &b->model[m];
            if (!e->models[m].present)
                continue;
            double value = b->metric == METRIC_AUC
                               ? drawn_auc(b, e->models[m].test, model->order, e->test.target)
                               : drawn_mean(b, model->value);
            model->metric[r] = b->metric == METRIC_RMSE ? sqrt(value) : value;
            model->utility[r] = drawn_mean(b, model->gain);
        }
    }
}

Bootstrap *evaluate_bootstrap_new(const Evaluation *e, Error *error)
{
    Bootstrap *b = calloc(1, sizeof *b);
    bool good = b != NULL;
    if (good) {
        double most = floor(ROWS_DRAWN_MOST / (double)e->test.rows);
        b->metric = e->metric;
        b->rows = e->test.rows;
        b->replicates = (size_t)fmin(REPLICATES_MOST, fmax(REPLICATES_LEAST, most));
        b->weight = calloc(b->rows + 1, sizeof *b->weight);
        good = b->weight != NULL;
    }
    for (int m = 0; good && m < MODEL_COUNT; m++)
        good = !e->models[m].present || take_model(b, e, m);
    if (good) {
        resample(b, e);
        return b;
    }
    evaluate_bootstrap_free(b);
    (void)FAIL(error, ERROR_MEMORY, 0, "could not allocate the draws of %zu test rows", e->test.rows);
    return NULL;
}

void evaluate_bootstrap_free(Bootstrap *b)
{
    for (int m = 0; b != NULL && m < MODEL_COUNT; m++) {
        free(b->model[m].order);
        free(b->model[m].value);
        free(b->model[m].gain);
        free(b->model[m].metric);
        free(b->model[m].utility);
    }
    if (b != NULL)
        free(b->weight);
    free(b);
}

static void put_bounds(Json *json, const char *lower, const char *upper, double *differences, size_t count)
{
    bool known = !isnan(stats_sum(differences, count));   // a draw of one class has no AUC
    json_put_number(json, lower, known ? stats_quantile(differences, count, 0.05) : (double)NAN);
    json_put_number(json, upper, known ? stats_quantile(differences, count, 0.95) : (double)NAN);
}

bool evaluate_put_bootstrap(const Bootstrap *b, const Evaluation *e, int which, Json *pair, Error *error)
{
    const MetricInfo *info = &stats_metrics[b->metric];
    const Resampled *candidate = &b->model[MODEL_CANDIDATE], *other = &b->model[which];
    double *differences = calloc(b->replicates + 1, sizeof *differences);
    if (differences == NULL)
        return FAIL(error, ERROR_MEMORY, 0, "could not allocate %zu differences", b->replicates);
    Json *json = night_section(pair, "bootstrap");
    json_put_integer(json, "replicates", (int64_t)b->replicates);
    for (size_t r = 0; r < b->replicates; r++)
        differences[r] = (info->higher_is_better ? 1 : -1) * (candidate->metric[r] - other->metric[r]) /
                         (info->relative_margin ? fabs(other->metric[r]) : 1);
    put_bounds(json, "lower", "upper", differences, b->replicates);
    for (size_t r = 0; !e->regression && r < b->replicates; r++)
        differences[r] = candidate->utility[r] - other->utility[r];
    if (!e->regression)
        put_bounds(json, "utility_lower", "utility_upper", differences, b->replicates);
    free(differences);
    return true;
}
