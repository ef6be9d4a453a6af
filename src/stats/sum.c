// sum - sums, moments, order and quantiles; the same input gives the same bits.
#include "stats_internal.h"

#include <stdlib.h>

double stats_sum(const double *x, size_t n)
{
    Sum sum = {0};
    for (size_t i = 0; i < n; i++) {
        sum_add(&sum, x[i]);
    }
    return sum_value(sum);
}

double stats_mean(const double *x, size_t n)
{
    return n == 0 ? NAN : stats_sum(x, n) / (double)n;
}

double stats_variance(const double *x, size_t n)
{
    if (n < 2) {
        return NAN;
    }
    double mean = stats_mean(x, n);
    Sum sum = {0};
    for (size_t i = 0; i < n; i++) {
        sum_add(&sum, (x[i] - mean) * (x[i] - mean));
    }
    return sum_value(sum) / (double)(n - 1);
}

bool stats_any_nan(const double *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (isnan(x[i])) {
            return true;
        }
    }
    return false;
}

typedef struct Keyed {
    double score;
    size_t row;
} Keyed;

static int compare_keyed(const void *a, const void *b)
{
    const Keyed *x = a;
    const Keyed *y = b;
    if (x->score != y->score) {
        return x->score < y->score ? -1 : 1;
    }
    return (x->row > y->row) - (x->row < y->row);
}

size_t *stats_order(const double *score, size_t n)
{
    Keyed *keyed = n > SIZE_MAX / sizeof *keyed ? NULL : malloc((n + (n == 0)) * sizeof *keyed);
    size_t *order = keyed == NULL ? NULL : malloc((n + (n == 0)) * sizeof *order);
    if (order != NULL) {
        for (size_t i = 0; i < n; i++) {
            keyed[i] = (Keyed){score[i], i};
        }
        qsort(keyed, n, sizeof *keyed, compare_keyed);
        for (size_t i = 0; i < n; i++) {
            order[i] = keyed[i].row;
        }
    }
    free(keyed);
    return order;
}

static int compare_double(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

double stats_quantile(double *x, size_t n, double q)
{
    if (n == 0 || !(q >= 0 && q <= 1) || stats_any_nan(x, n)) {
        return NAN;
    }
    qsort(x, n, sizeof *x, compare_double);
    double position = q * (double)(n - 1);
    size_t below = (size_t)position;
    size_t above = below + 1 < n ? below + 1 : below;
    double share = position - (double)below;
    return share == 0 ? x[below] : x[below] + share * (x[above] - x[below]);
}
