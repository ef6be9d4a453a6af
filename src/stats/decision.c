// decision - what predictions are worth: utility of acting on them, calibration, shift of their distribution.
#include "stats_internal.h"

#include <stdlib.h>

double stats_decision_utility(const double *score, const double *label01, size_t n, double threshold,
                              const DecisionUtility *utility)
{
    if (n == 0 || stats_any_nan(score, n) || stats_any_nan(label01, n) || isnan(threshold)) {
        return NAN;
    }
    double count[2][2] = {{0}};   // positive, acted on
    for (size_t i = 0; i < n; i++) {
        count[label01[i] > 0.5][score[i] >= threshold]++;
    }
    double acted = count[1][1] * utility->benefit_tp - count[0][1] * utility->cost_fp;
    double left = count[0][0] * utility->benefit_tn - count[1][0] * utility->cost_fn;
    return (acted + left) / (double)n;
}

double stats_utility(const double *score, const double *label01, size_t n, double threshold,
                     double benefit_tp, double cost_fp)
{
    return stats_decision_utility(score, label01, n, threshold,
                                  &(DecisionUtility){benefit_tp, cost_fp, 0, 0});
}

// Candidates are every distinct score and, for acting on nobody, the next number above the largest. Utilities
// are compared as whole counts, so equal ones are equal exactly and the later, smaller threshold wins.
double stats_best_threshold(const double *score, const double *label01, size_t n, double benefit_tp,
                            double cost_fp)
{
    size_t *order =
        n == 0 || stats_any_nan(score, n) || stats_any_nan(label01, n) ? NULL : stats_order(score, n);
    if (order == NULL) {
        return NAN;
    }
    double best = nextafter(score[order[n - 1]], INFINITY);
    double best_utility = 0;
    double right = 0;
    double wrong = 0;
    for (size_t end = n; end > 0;) {
        double here = score[order[end - 1]];
        for (; end > 0 && score[order[end - 1]] == here; end--) {
            *(label01[order[end - 1]] > 0.5 ? &right : &wrong) += 1;
        }
        double utility = right * benefit_tp - wrong * cost_fp;
        if (utility >= best_utility) {
            best = here;
            best_utility = utility;
        }
    }
    free(order);
    return best;
}

// Acting on a positive gains its benefit and saves the cost of missing it; the rest is the same for every
// threshold.
double stats_decision_threshold(const double *score, const double *label01, size_t n,
                                const DecisionUtility *utility)
{
    return stats_best_threshold(score, label01, n, utility->benefit_tp + utility->cost_fn,
                                utility->cost_fp + utility->benefit_tn);
}

static double gain(const double *utility, int classes, int truth, int decided)
{
    return utility == NULL ? truth == decided : utility[truth * classes + decided];
}

// The decision of largest expected utility, the first among equals.
static int decide(const double *probability, int classes, const double *utility)
{
    int best = 0;
    double best_expected = -INFINITY;
    for (int d = 0; d < classes; d++) {
        double expected = 0;
        for (int c = 0; c < classes; c++) {
            expected += probability[c] * gain(utility, classes, c, d);
        }
        if (expected > best_expected) {
            best = d;
            best_expected = expected;
        }
    }
    return best;
}

double stats_class_utility(Predictions p, const double *target, const double *utility)
{
    Sum sum = {0};
    for (size_t i = 0; i < p.rows; i++) {
        const double *row = p.score + i * (size_t)p.classes;
        bool sound = target[i] >= 0 && target[i] < p.classes && target[i] == floor(target[i]) &&
                     !stats_any_nan(row, (size_t)p.classes);
        if (!sound) {
            return NAN;
        }
        sum_add(&sum, gain(utility, p.classes, (int)target[i], decide(row, p.classes, utility)));
    }
    return p.rows == 0 ? NAN : sum_value(sum) / (double)p.rows;
}

// Equal scores share their mean label, so the order of rows within a tie cannot invent miscalibration.
static void average_ties(const double *score, const size_t *order, size_t n, double *label)
{
    for (size_t begin = 0, end = 0; begin < n; begin = end) {
        Sum sum = {0};
        for (end = begin; end < n && score[order[end]] == score[order[begin]]; end++) {
            sum_add(&sum, label[order[end]]);
        }
        for (size_t i = begin; i < end; i++) {
            label[order[i]] = sum_value(sum) / (double)(end - begin);
        }
    }
}

void stats_calibration(const double *score, const double *label01, size_t n, Calibration *ret)
{
    *ret = (Calibration){.ece = NAN};
    bool usable = n > 0 && !stats_any_nan(score, n) && !stats_any_nan(label01, n);
    size_t *order = usable ? stats_order(score, n) : NULL;
    double *label = order == NULL ? NULL : malloc(n * sizeof *label);
    if (label != NULL) {
        for (size_t i = 0; i < n; i++) {
            label[i] = label01[i];
        }
        average_ties(score, order, n, label);
        Sum gap = {0};
        for (size_t b = 0; b < CALIBRATION_BINS; b++) {
            size_t begin = n * b / CALIBRATION_BINS;
            size_t end = n * (b + 1) / CALIBRATION_BINS;
            Sum scores = {0};
            Sum labels = {0};
            for (size_t i = begin; i < end; i++) {
                sum_add(&scores, score[order[i]]);
                sum_add(&labels, label[order[i]]);
            }
            ret->rows[b] = end - begin;
            ret->mean_score[b] = sum_value(scores) / (double)(end - begin);
            ret->positive_rate[b] = sum_value(labels) / (double)(end - begin);
            sum_add(&gap, fabs(sum_value(scores) - sum_value(labels)));
        }
        ret->ece = sum_value(gap) / (double)n;
    }
    free(label);
    free(order);
}

double stats_psi(const double *expected, const double *actual, size_t bins)
{
    const double least = 1e-4;
    double expected_sum = stats_sum(expected, bins);
    double actual_sum = stats_sum(actual, bins);
    if (!(expected_sum > 0) || !(actual_sum > 0)) {
        return NAN;
    }
    Sum sum = {0};
    for (size_t i = 0; i < bins; i++) {
        double e = expected[i] / expected_sum;
        double a = actual[i] / actual_sum;
        e = e < least ? least : e;
        a = a < least ? least : a;
        sum_add(&sum, (a - e) * log(a / e));
    }
    return sum_value(sum);
}

double stats_relative_error(const float *a, const double *reference, size_t n)
{
    Sum difference = {0};
    Sum norm = {0};
    for (size_t i = 0; i < n; i++) {
        double d = (double)a[i] - reference[i];
        sum_add(&difference, d * d);
        sum_add(&norm, reference[i] * reference[i]);
    }
    double numerator = sqrt(sum_value(difference));
    double denominator = sqrt(sum_value(norm));
    if (denominator == 0) {
        return numerator == 0 ? 0 : NAN;
    }
    return numerator / denominator;
}

double stats_cosine(const float *a, const double *reference, size_t n)
{
    Sum dot = {0};
    Sum square_a = {0};
    Sum square_b = {0};
    for (size_t i = 0; i < n; i++) {
        sum_add(&dot, (double)a[i] * reference[i]);
        sum_add(&square_a, (double)a[i] * (double)a[i]);
        sum_add(&square_b, reference[i] * reference[i]);
    }
    double norm = sqrt(sum_value(square_a)) * sqrt(sum_value(square_b));
    return norm > 0 ? sum_value(dot) / norm : NAN;
}
