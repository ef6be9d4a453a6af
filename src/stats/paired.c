// paired - two models on the same rows: difference, standard error, one-sided bounds.
//
// AUC: DeLong, DeLong and Clarke-Pearson (1988) through the midranks of Sun and Xu (2014), so n log n instead
// of n^2. The variance of the difference is taken from the paired placement differences, which equals Vaa +
// Vbb - 2 Vab. Means over rows: paired differences. Relative differences and RMSE: the delta method on the
// same rows.
#include "stats_internal.h"

#include <stdlib.h>

static const double ONE_SIDED_95 = 1.6448536269514722;

// Mid-ranks (1-based) of the rows listed in order[count], ascending; written at rank[row].
static void midranks(const double *score, const size_t *order, size_t count, double *rank)
{
    for (size_t begin = 0, end = 0; begin < count; begin = end) {
        for (end = begin; end < count && score[order[end]] == score[order[begin]]; end++) {
        }
        for (size_t i = begin; i < end; i++) {
            rank[order[i]] = (double)(begin + end + 1) / 2;
        }
    }
}

// Placement of each row: the share of the other class it beats (ties half). False when memory is short.
static bool placements(const double *score, const double *label01, size_t n, double *ret_placement)
{
    size_t *order = stats_order(score, n);
    size_t *part = malloc(n * sizeof *part);
    double *within = malloc(n * sizeof *within);
    bool ok = order != NULL && part != NULL && within != NULL;
    if (ok) {
        size_t positives = 0;
        for (int side = 0; side < 2; side++) {
            size_t count = 0;
            for (size_t i = 0; i < n; i++) {
                if ((label01[order[i]] > 0.5) == (side == 1)) {
                    part[count++] = order[i];
                }
            }
            midranks(score, part, count, within);
            positives = count;   // of side 1 in the end
        }
        midranks(score, order, n, ret_placement);
        double m = (double)positives;
        double negatives = (double)(n - positives);
        for (size_t i = 0; i < n; i++) {
            double beaten = ret_placement[i] - within[i];
            ret_placement[i] = label01[i] > 0.5 ? beaten / negatives : 1 - beaten / m;
        }
    }
    free(order);
    free(part);
    free(within);
    return ok;
}

static double class_error(const double *a, const double *b, const double *label01, size_t n, bool positive)
{
    Sum sum = {0};
    Sum squares = {0};
    double count = 0;
    for (size_t i = 0; i < n; i++) {
        if ((label01[i] > 0.5) == positive) {
            sum_add(&sum, a[i] - b[i]);
            count++;
        }
    }
    double mean = sum_value(sum) / count;
    for (size_t i = 0; i < n; i++) {
        if ((label01[i] > 0.5) == positive) {
            sum_add(&squares, (a[i] - b[i] - mean) * (a[i] - b[i] - mean));
        }
    }
    return count < 2 ? NAN : sum_value(squares) / (count - 1) / count;
}

static double delong_error(Predictions a, Predictions b, const double *label01)
{
    size_t n = a.rows;
    double *place_a = malloc(n * sizeof *place_a);
    double *place_b = malloc(n * sizeof *place_b);
    double error = NAN;
    if (place_a != NULL && place_b != NULL && placements(a.score, label01, n, place_a) &&
        placements(b.score, label01, n, place_b)) {
        error = sqrt(class_error(place_a, place_b, label01, n, true) +
                     class_error(place_a, place_b, label01, n, false));
    }
    free(place_a);
    free(place_b);
    return error;
}

// Derivatives of the oriented difference by the two row means, so that its variance is that of one weighted
// row value.
static void gradient(Metric metric, double a, double b, double *ret_by_a, double *ret_by_b)
{
    const MetricInfo *info = &stats_metrics[metric];
    double sign = info->higher_is_better ? 1 : -1;
    double by_a = info->relative_margin ? 1 / fabs(b) : 1;   // d difference / d a
    double by_b = info->relative_margin ? -a / (b * fabs(b)) : -1;   // d difference / d b
    double inner_a = metric == METRIC_RMSE ? 1 / (2 * a) : 1;   // d sqrt(mean) / d mean
    double inner_b = metric == METRIC_RMSE ? 1 / (2 * b) : 1;
    *ret_by_a = sign * by_a * inner_a;
    *ret_by_b = sign * by_b * inner_b;
}

static double rows_error(Metric metric, Predictions a, Predictions b, const double *target, double value_a,
                         double value_b)
{
    double by_a = 0;
    double by_b = 0;
    gradient(metric, value_a, value_b, &by_a, &by_b);
    Sum sum = {0};
    Sum squares = {0};
    double mean = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < a.rows; i++) {
            double row = by_a * stats_row_value(metric, a, i, target[i]) +
                         by_b * stats_row_value(metric, b, i, target[i]);
            sum_add(pass == 0 ? &sum : &squares, pass == 0 ? row : (row - mean) * (row - mean));
        }
        mean = sum_value(sum) / (double)a.rows;
    }
    return a.rows < 2 ? NAN : sqrt(sum_value(squares) / (double)(a.rows - 1) / (double)a.rows);
}

static bool same_scores(Predictions a, Predictions b)
{
    bool same = a.classes == b.classes;
    for (size_t i = 0; same && i < a.rows * (size_t)a.classes; i++) {
        same = a.score[i] == b.score[i];
    }
    return same;
}

static bool same_for_all_rows(Predictions a)
{
    for (size_t i = (size_t)a.classes; i < a.rows * (size_t)a.classes; i++) {
        if (!(a.score[i] == a.score[i % (size_t)a.classes])) {
            return false;
        }
    }
    return true;
}

void stats_paired(Metric metric, Predictions a, Predictions b, const double *target, PairedDifference *ret)
{
    *ret = (PairedDifference){NAN, NAN, NAN, NAN, NAN, NAN, a.rows, false, false};
    if (a.rows != b.rows || a.rows == 0) {
        return;
    }
    ret->a = stats_metric(metric, a, target, NULL);
    ret->b = stats_metric(metric, b, target, NULL);
    ret->identical = same_scores(a, b);
    ret->constant = same_for_all_rows(a);
    double sign = stats_metrics[metric].higher_is_better ? 1 : -1;
    ret->difference = sign * (ret->a - ret->b) / (stats_metrics[metric].relative_margin ? fabs(ret->b) : 1);
    if (isfinite(ret->difference)) {
        ret->standard_error = metric == METRIC_AUC ? delong_error(a, b, target)
                                                   : rows_error(metric, a, b, target, ret->a, ret->b);
        ret->lower = ret->difference - ONE_SIDED_95 * ret->standard_error;
        ret->upper = ret->difference + ONE_SIDED_95 * ret->standard_error;
    }
}
