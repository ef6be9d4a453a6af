// stats_internal.h - compensated addition and ranks shared by the files of src/stats.
#ifndef FEDGATE_STATS_INTERNAL_H
#define FEDGATE_STATS_INTERNAL_H

#include <fedgate/stats.h>
#include <math.h>

// Neumaier's sum: the carry keeps what the running sum rounds away. Infinite and NaN sums ignore the carry.
typedef struct Sum {
    double total, carry;
} Sum;

static inline void sum_add(Sum *sum, double value)
{
    double next = sum->total + value;
    if (fabs(sum->total) >= fabs(value)) {
        sum->carry += (sum->total - next) + value;
    } else {
        sum->carry += (value - next) + sum->total;
    }
    sum->total = next;
}

static inline double sum_value(Sum sum)
{
    return isfinite(sum.total) ? sum.total + sum.carry : sum.total;
}

// Row numbers in ascending order of score, equal scores in row order; the caller frees. NULL when out of
// memory.
size_t *stats_order(const double *score, size_t n);

bool stats_any_nan(const double *x, size_t n);

// One row of a metric that is a mean over rows: loss, squared error, or 1 when right. Not for METRIC_AUC.
double stats_row_value(Metric metric, Predictions predictions, size_t row, double target);

#endif
