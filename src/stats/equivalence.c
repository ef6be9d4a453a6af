// equivalence - are two arms the same within a margin, and which of many slices are harmed?
//
// Two one-sided tests at level alpha (Schuirmann 1987) are the same as asking whether the 1 - 2 alpha
// interval of the mean paired difference lies inside (-margin, +margin). Failing to find a difference is no
// answer here.
#include "stats_internal.h"

bool stats_all_equal(const double *x, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        if (x[i] != x[0]) {
            return false;
        }
    }
    return true;
}

static bool all_finite(const double *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(x[i])) {
            return false;
        }
    }
    return true;
}

static bool positive(double x)
{
    return isfinite(x) && x > 0;
}

void stats_equivalence(const double *difference, size_t pairs, double margin, double alpha,
                       double deviation_floor, EquivalenceTest *ret)
{
    *ret = (EquivalenceTest){EQUIVALENCE_VOID, NAN, NAN, NAN, NAN, NAN, margin, alpha, pairs, SIZE_MAX};
    bool sound = pairs >= 2 && all_finite(difference, pairs) && positive(margin) && alpha > 0 &&
                 alpha < 0.5 && isfinite(deviation_floor) && deviation_floor >= 0;
    if (!sound) {
        return;
    }
    double deviation = sqrt(stats_variance(difference, pairs));
    ret->mean = stats_mean(difference, pairs);
    ret->deviation = deviation < deviation_floor ? deviation_floor : deviation;
    ret->half_width = stats_t_quantile(1 - alpha, (double)(pairs - 1)) * ret->deviation / sqrt((double)pairs);
    ret->lower = ret->mean - ret->half_width;
    ret->upper = ret->mean + ret->half_width;
    ret->needed = stats_pairs_needed(ret->deviation, margin, alpha, 0.8);
    if (stats_all_equal(difference, pairs)) {
        return;   // no variance: the figures are shown, but they are no test
    }
    bool inside = ret->lower > -margin && ret->upper < margin;
    bool outside = ret->lower > margin || ret->upper < -margin;
    ret->answer = inside ? EQUIVALENCE_HELD : outside ? EQUIVALENCE_BROKEN : EQUIVALENCE_UNDECIDED;
}

double stats_alpha_of_look(double alpha, int64_t look)
{
    return look < 1 ? NAN : alpha * 6 / (M_PI * M_PI * (double)look * (double)look);
}

// At zero true difference both tests reject with power 1 - b when margin = (t(1 - alpha) + t(1 - b / 2)) x
// deviation / sqrt(n); the normal quantiles start the search a few pairs too low (8.6 (deviation /
// margin)^2).
size_t stats_pairs_needed(double deviation, double margin, double alpha, double power)
{
    const double most = 1e9;
    bool sound = isfinite(deviation) && deviation >= 0 && positive(margin) && alpha > 0 && alpha < 0.5 &&
                 power > 0 && power < 1;
    if (!sound) {
        return SIZE_MAX;
    }
    double ratio = deviation / margin;
    double wanted = 1 - (1 - power) / 2;
    double z = stats_normal_quantile(1 - alpha) + stats_normal_quantile(wanted);
    double n = fmax(2, ceil(z * z * ratio * ratio));
    if (!(n <= most)) {
        return SIZE_MAX;
    }
    for (bool enough = false; !enough; n += enough ? 0 : 1) {
        double t = stats_t_quantile(1 - alpha, n - 1) + stats_t_quantile(wanted, n - 1);
        enough = n >= t * t * ratio * ratio;
    }
    return (size_t)n;
}

// One-sided, at no harm: the bound mean + t(1 - alpha) s / sqrt(n) stays inside the margin in a share `power`
// of nights when the mean, itself within t(power) s / sqrt(n), leaves room for it.
double stats_least_margin(double deviation, size_t pairs, double alpha, double power)
{
    bool sound = pairs >= 2 && isfinite(deviation) && deviation >= 0 && alpha > 0 && alpha < 0.5 &&
                 power > 0.5 && power < 1;
    if (!sound) {
        return NAN;
    }
    double freedom = (double)(pairs - 1);
    return (stats_t_quantile(1 - alpha, freedom) + stats_t_quantile(power, freedom)) * deviation /
           sqrt((double)pairs);
}

// The step-down takes the smallest p-value that is left against alpha / (hypotheses left) until one holds.
void stats_holm(const double *p, size_t n, double alpha, bool *ret_rejected)
{
    for (size_t i = 0; i < n; i++) {
        ret_rejected[i] = false;
    }
    for (size_t left = n; left > 0; left--) {
        size_t least = n;
        double smallest = INFINITY;
        for (size_t i = 0; i < n; i++) {
            double value = p[i] >= 0 && p[i] <= 1 ? p[i] : -1;   // no p-value: rejected first
            if (!ret_rejected[i] && value < smallest) {
                least = i;
                smallest = value;
            }
        }
        if (smallest > alpha / (double)left) {
            return;
        }
        ret_rejected[least] = true;
    }
}

double stats_power_slope(const double *x, const double *y, size_t n)
{
    Sum sum_x = {0};
    Sum sum_y = {0};
    for (size_t i = 0; i < n; i++) {
        if (!(x[i] > 0) || !(y[i] > 0)) {
            return NAN;
        }
        sum_add(&sum_x, log(x[i]));
        sum_add(&sum_y, log(y[i]));
    }
    Sum cross = {0};
    Sum square = {0};
    for (size_t i = 0; i < n; i++) {
        double from_mean = log(x[i]) - sum_value(sum_x) / (double)n;
        sum_add(&cross, from_mean * (log(y[i]) - sum_value(sum_y) / (double)n));
        sum_add(&square, from_mean * from_mean);
    }
    return sum_value(square) > 0 ? sum_value(cross) / sum_value(square) : NAN;
}
