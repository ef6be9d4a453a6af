// metric - the metrics a model is judged by; undefined is NaN, never a number that looks good.
#include "stats_internal.h"

#include <stdlib.h>
#include <string.h>

const MetricInfo stats_metrics[METRIC_COUNT] = {
    [METRIC_AUC] = {"auc", true, false, 0.001, 0.01},
    [METRIC_LOGLOSS] = {"logloss", false, true, 0.01, 0.03},
    [METRIC_ACCURACY] = {"accuracy", true, false, 0.001, 0.01},
    [METRIC_RMSE] = {"rmse", false, true, 0.01, 0.03},
};

bool stats_find_metric(const char *name, Metric *ret_metric)
{
    for (int m = 0; name != NULL && m < METRIC_COUNT; m++) {
        if (strcmp(stats_metrics[m].name, name) == 0) {
            *ret_metric = (Metric)m;
            return true;
        }
    }
    return false;
}

// Mann-Whitney with ties at one half, from one ascending pass: every positive beats the negatives below its
// tie group and half of those in it. NaN when a class is missing, a score or weight is NaN, or memory is
// short.
static double weighted_auc(const double *score, const double *label01, const double *weight, size_t n)
{
    if (stats_any_nan(score, n) || stats_any_nan(label01, n)) {
        return NAN;
    }
    size_t *order = stats_order(score, n);
    if (order == NULL) {
        return NAN;
    }
    Sum won = {0};
    Sum positives = {0};
    Sum negatives = {0};
    for (size_t begin = 0, end = 0; begin < n; begin = end) {
        Sum tied[2] = {{0, 0}, {0, 0}};
        for (end = begin; end < n && score[order[end]] == score[order[begin]]; end++) {
            sum_add(&tied[label01[order[end]] > 0.5], weight == NULL ? 1 : weight[order[end]]);
        }
        double up = sum_value(tied[1]);
        double down = sum_value(tied[0]);
        sum_add(&won, up * (sum_value(negatives) + down / 2));
        sum_add(&positives, up);
        sum_add(&negatives, down);
    }
    free(order);
    double pairs = sum_value(positives) * sum_value(negatives);
    return pairs > 0 ? sum_value(won) / pairs : NAN;
}

double stats_auc(const double *score, const double *label01, size_t n)
{
    return weighted_auc(score, label01, NULL, n);
}

static double probability_loss(double probability)
{
    if (!(probability >= 0 && probability <= 1)) {
        return NAN;
    }
    return -log(probability < 1e-15 ? 1e-15 : probability);   // a certain error costs 34.5, not infinity
}

static bool class_of(double target, int classes, int *ret_class)
{
    if (!(target >= 0 && target < classes) || target != floor(target)) {
        return false;
    }
    *ret_class = (int)target;
    return true;
}

// Loss of one row, lower is better; NaN when the row is unusable. For METRIC_ACCURACY 1 when right.
double stats_row_value(Metric metric, Predictions p, size_t row, double target)
{
    const double *score = p.score + row * (size_t)p.classes;
    int wanted = 0;
    if (metric == METRIC_RMSE) {
        return (score[0] - target) * (score[0] - target);
    }
    if (!class_of(target, p.classes == 1 ? 2 : p.classes, &wanted)) {
        return NAN;
    }
    if (metric == METRIC_LOGLOSS) {
        return p.classes == 1 ? probability_loss(wanted == 1 ? score[0] : 1 - score[0])
                              : probability_loss(score[wanted]);
    }
    if (stats_any_nan(score, (size_t)p.classes)) {
        return NAN;
    }
    if (p.classes == 1) {
        return (score[0] >= 0.5) == (wanted == 1) ? 1 : 0;
    }
    int best = 0;
    for (int c = 1; c < p.classes; c++) {
        best = score[c] > score[best] ? c : best;
    }
    return best == wanted ? 1 : 0;
}

double stats_metric(Metric metric, Predictions p, const double *target, const double *weight_or_null)
{
    if (p.rows == 0 || p.classes < 1) {
        return NAN;
    }
    if (metric == METRIC_AUC) {
        return p.classes == 1 ? weighted_auc(p.score, target, weight_or_null, p.rows) : NAN;
    }
    Sum sum = {0};
    Sum weights = {0};
    for (size_t i = 0; i < p.rows; i++) {
        double weight = weight_or_null == NULL ? 1 : weight_or_null[i];
        sum_add(&sum, weight * stats_row_value(metric, p, i, target[i]));
        sum_add(&weights, weight);
    }
    double mean = sum_value(weights) > 0 ? sum_value(sum) / sum_value(weights) : NAN;
    return metric == METRIC_RMSE ? sqrt(mean) : mean;
}
