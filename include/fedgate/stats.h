// stats.h - pure statistics: numbers in, numbers out; no clock, no files, no fast-math, NaN in gives NaN out.
//
// Scores and labels are arrays of n rows in the same row order. Ties are handled exactly. Summation is in the
// order given with compensated (Neumaier) addition, so results do not depend on threads.
#ifndef FEDGATE_STATS_H
#define FEDGATE_STATS_H

#include <fedgate/error.h>
#include <stddef.h>
#include <stdint.h>

typedef enum Metric { METRIC_AUC, METRIC_LOGLOSS, METRIC_ACCURACY, METRIC_RMSE, METRIC_COUNT } Metric;
typedef struct MetricInfo {
    const char *name;
    bool higher_is_better;
    bool relative_margin;   // margins are relative (loss, RMSE) or absolute (AUC, accuracy)
    double margin, live_margin;   // defaults of design.md section 4
} MetricInfo;
extern const MetricInfo stats_metrics[METRIC_COUNT];
bool stats_find_metric(const char *name, Metric *ret_metric);

// Predictions of one model on one set of rows. classes = 1: binary score in [0,1] or regression value; else
// row-major [n x classes].
typedef struct Predictions {
    const double *score;
    size_t rows;
    int classes;
} Predictions;

// NaN when undefined (one class only for AUC, no rows, a NaN score). target: class index or regression value.
double stats_metric(Metric metric, Predictions predictions, const double *target,
                    const double *weight_or_null);
double stats_auc(const double *score, const double *label01,
                 size_t n);   // P(score+ > score-) + P(equal)/2 (Mann-Whitney)

// Paired comparison of two models on the same rows. difference is oriented so that positive = `a` is better,
// in the metric's own unit (relative to b's value when the metric's margins are relative).
typedef struct PairedDifference {
    double a, b;   // metric values
    double difference;
    double standard_error;
    double lower, upper;   // one-sided 95 % bounds: difference -/+ 1.6448536 standard errors
    size_t rows;
    bool identical;   // every score equal: an invalid comparison
    bool constant;   // a's scores have no variance
} PairedDifference;
// AUC by DeLong's covariance (1988; fast ranks of Sun and Xu 2014); losses and accuracy by the paired per-row
// difference; RMSE by the delta method.
void stats_paired(Metric metric, Predictions a, Predictions b, const double *target, PairedDifference *ret);

// Decision utility per row: benefit_tp for each positive acted on, minus cost_fp for each negative acted on,
// over n.
double stats_utility(const double *score, const double *label01, size_t n, double threshold,
                     double benefit_tp, double cost_fp);
double stats_best_threshold(const double *score, const double *label01, size_t n, double benefit_tp,
                            double cost_fp);   // smallest of the best

// The whole cost matrix of a binary decision; the two functions above are its case cost_fn = benefit_tn = 0.
typedef struct DecisionUtility {
    double benefit_tp, cost_fp, cost_fn, benefit_tn;
} DecisionUtility;
double stats_decision_utility(const double *score, const double *label01, size_t n, double threshold,
                              const DecisionUtility *utility);
double stats_decision_threshold(const double *score, const double *label01, size_t n,
                                const DecisionUtility *utility);
// k >= 2 classes: mean utility[true x k + decided] when each row takes the decision of largest expected
// utility under its probabilities, the first among equals; utility NULL: 1 when right, else 0.
double stats_class_utility(Predictions predictions, const double *target, const double *utility);

// Calibration: expected calibration error over equal-count bins, and the bins themselves.
enum { CALIBRATION_BINS = 10 };
typedef struct Calibration {
    double ece;
    double mean_score[CALIBRATION_BINS], positive_rate[CALIBRATION_BINS];
    size_t rows[CALIBRATION_BINS];
} Calibration;
void stats_calibration(const double *score, const double *label01, size_t n, Calibration *ret);

// Population stability index of two histograms over the same bins, 1e-4 floor on shares.
double stats_psi(const double *expected, const double *actual, size_t bins);

// Mean with one-sided 95 % bounds by `batches` (10) batch means in order, Student t; NaN bounds when n <
// batches.
typedef struct BatchMean {
    double mean, lower, upper, standard_error;
    size_t batches;
} BatchMean;
void stats_batch_mean(const double *x, size_t n, size_t batches, BatchMean *ret);

// Least squares slope over the index with its one-sided bounds at the given confidence (0.999, 0.95) from the
// residuals, taken as independent. fall = -slope x (n - 1) when the slope is negative, else 0.
typedef struct Trend {
    double slope, slope_upper, slope_lower, fall;
} Trend;
void stats_trend(const double *x, size_t n, double confidence, Trend *ret);

double stats_sum(const double *x, size_t n);
bool stats_all_equal(const double *x, size_t n);   // true of none; false with a NaN among several
double stats_mean(const double *x, size_t n);
double stats_variance(const double *x, size_t n);   // n - 1
double stats_quantile(double *x, size_t n, double q);   // type 7; reorders x
double stats_t_quantile(double confidence, double freedom);   // one-sided Student t; exact to 1e-6
double stats_normal_quantile(double p);   // Acklam with one Newton step, 1e-9
double stats_normal_cdf(double z);

// -- equivalence: two one-sided tests (Schuirmann 1987) on paired differences, with three answers
typedef enum Equivalence {
    EQUIVALENCE_HELD,   // the (1 - 2 alpha) interval lies inside (-margin, +margin)
    EQUIVALENCE_BROKEN,   // it lies outside
    EQUIVALENCE_UNDECIDED,   // neither: more pairs are needed
    EQUIVALENCE_VOID   // nothing to test: fewer than 2 pairs, a value not finite, all equal, margin not above
                       // 0, alpha outside (0, 0.5), a floor below 0
} Equivalence;
typedef struct EquivalenceTest {
    Equivalence answer;
    double mean, deviation;   // of the differences; deviation at least the floor
    double half_width, lower, upper;   // of the interval
    double margin, alpha;
    size_t pairs, needed;   // needed for power 0.8 at zero true difference and this deviation
} EquivalenceTest;
// deviation_floor: a metric that moves in steps q cannot have less than q / sqrt(12).
void stats_equivalence(const double *difference, size_t pairs, double margin, double alpha,
                       double deviation_floor, EquivalenceTest *ret);
// Error spent at the nth look at accumulating pairs: alpha x 6 / (pi^2 n^2); the sum over all looks is alpha
// (Basel sum; Bonferroni over looks, so nothing is assumed of how they depend on each other). NaN below
// look 1.
double stats_alpha_of_look(double alpha, int64_t look);
// Smallest n with n >= ((t(1 - alpha) + t(1 - (1 - power) / 2)) deviation / margin)^2, t with n - 1 degrees
// of freedom (Chow, Shao and Wang, Sample Size Calculations in Clinical Research, equivalence of paired
// means); about 8.6 (deviation / margin)^2 + 2 at alpha 0.05 and power 0.8. SIZE_MAX: no number is enough, or
// NaN.
size_t stats_pairs_needed(double deviation, double margin, double alpha, double power);
// Smallest margin within which paired differences of this deviation show, one-sided at alpha and with this
// power, that there is no harm: (t(1 - alpha) + t(power)) deviation / sqrt(pairs). NaN: none can be told.
double stats_least_margin(double deviation, size_t pairs, double alpha, double power);
// Holm (1979): which of n hypotheses with these p-values are rejected at family error alpha. NaN, and what is
// not in 0..1, is rejected: in a test for harm, what cannot be told is harm.
void stats_holm(const double *p, size_t n, double alpha, bool *ret_rejected);
double stats_t_cdf(double t, double freedom);   // P(T <= t), by the incomplete beta function; 1e-13
// Slope of ln y over ln x by least squares; NaN with fewer than 2 points or a value not above 0.
double stats_power_slope(const double *x, const double *y, size_t n);

// ||a - b|| / ||b||, in double; NaN when b is 0 and a is not, 0 when both are.
double stats_relative_error(const float *a, const double *reference, size_t n);
double stats_cosine(const float *a, const double *reference, size_t n);

#endif
