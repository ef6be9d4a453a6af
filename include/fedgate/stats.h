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
double stats_mean(const double *x, size_t n);
double stats_variance(const double *x, size_t n);   // n - 1
double stats_quantile(double *x, size_t n, double q);   // type 7; reorders x
double stats_t_quantile(double confidence, double freedom);   // one-sided Student t; exact to 1e-6
double stats_normal_quantile(double p);   // Acklam with one Newton step, 1e-9
double stats_normal_cdf(double z);

// ||a - b|| / ||b||, in double; NaN when b is 0 and a is not, 0 when both are.
double stats_relative_error(const float *a, const double *reference, size_t n);
double stats_cosine(const float *a, const double *reference, size_t n);

#endif
