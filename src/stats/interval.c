// interval - one-sided bounds for series in time order: batch means and linear trend.
#include "stats_internal.h"

// Batches are consecutive stretches that differ by at most one element; their means are treated as
// independent.
void stats_batch_mean(const double *x, size_t n, size_t batches, BatchMean *ret)
{
    *ret = (BatchMean){stats_mean(x, n), NAN, NAN, NAN, batches};
    if (batches < 2 || n < batches) {
        return;
    }
    Sum sum = {0};
    Sum squares = {0};
    for (int pass = 0; pass < 2; pass++) {
        double centre = sum_value(sum) / (double)batches;   // used by the second pass only
        for (size_t b = 0; b < batches; b++) {
            size_t begin = n / batches * b + (b < n % batches ? b : n % batches);
            size_t count = n / batches + (b < n % batches);
            double mean = stats_mean(x + begin, count);
            sum_add(pass == 0 ? &sum : &squares, pass == 0 ? mean : (mean - centre) * (mean - centre));
        }
    }
    double variance = sum_value(squares) / (double)(batches - 1);
    ret->standard_error = sqrt(variance / (double)batches);
    double half = stats_t_quantile(0.95, (double)(batches - 1)) * ret->standard_error;
    ret->lower = ret->mean - half;
    ret->upper = ret->mean + half;
}

void stats_trend(const double *x, size_t n, double confidence, Trend *ret)
{
    *ret = (Trend){NAN, NAN, NAN, NAN};
    if (n < 3) {
        return;
    }
    double mean = stats_mean(x, n);
    double centre = (double)(n - 1) / 2;
    Sum cross = {0};
    Sum square = {0};
    for (size_t i = 0; i < n; i++) {
        double t = (double)i - centre;
        sum_add(&cross, t * (x[i] - mean));
        sum_add(&square, t * t);
    }
    double slope = sum_value(cross) / sum_value(square);
    Sum residual = {0};
    for (size_t i = 0; i < n; i++) {
        double rest = x[i] - mean - slope * ((double)i - centre);
        sum_add(&residual, rest * rest);
    }
    double error = sqrt(sum_value(residual) / (double)(n - 2) / sum_value(square));
    double half = stats_t_quantile(confidence, (double)(n - 2)) * error;
    ret->slope = slope;
    ret->slope_lower = slope - half;
    ret->slope_upper = slope + half;
    ret->fall = slope < 0 ? -slope * (double)(n - 1) : slope * 0;   // NaN stays NaN
}
