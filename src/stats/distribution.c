// distribution - the normal and Student distributions: cumulative and quantile functions.
#include "stats_internal.h"

double stats_normal_cdf(double z)
{
    return 0.5 * erfc(-z * M_SQRT1_2);
}

// P. J. Acklam's rational approximation (relative error 1.15e-9), improved by one Halley step.
static double acklam(double p)
{
    static const double a[] = {-3.969683028665376e+01, 2.209460984245205e+02,  -2.759285104469687e+02,
                               1.383577518672690e+02,  -3.066479806614716e+01, 2.506628277459239e+00};
    static const double b[] = {-5.447609879822406e+01, 1.615858368580409e+02, -1.556989798598866e+02,
                               6.680131188771972e+01, -1.328068155288572e+01};
    static const double c[] = {-7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e+00,
                               -2.549732539343734e+00, 4.374664141464968e+00,  2.938163982698783e+00};
    static const double d[] = {7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00,
                               3.754408661907416e+00};
    if (p < 0.02425) {
        double q = sqrt(-2 * log(p));
        return (((((c[0] * q + c[1]) * q + c[2]) * q + c[3]) * q + c[4]) * q + c[5]) /
               ((((d[0] * q + d[1]) * q + d[2]) * q + d[3]) * q + 1);
    }
    double q = p - 0.5;
    double r = q * q;
    return (((((a[0] * r + a[1]) * r + a[2]) * r + a[3]) * r + a[4]) * r + a[5]) * q /
           (((((b[0] * r + b[1]) * r + b[2]) * r + b[3]) * r + b[4]) * r + 1);
}

double stats_normal_quantile(double p)
{
    if (!(p >= 0 && p <= 1)) {
        return NAN;
    }
    if (p == 0 || p == 1) {
        return p == 0 ? -INFINITY : INFINITY;
    }
    if (p > 0.5) {
        return -stats_normal_quantile(1 - p);   // the lower tail keeps its digits
    }
    double z = acklam(p);
    double error = stats_normal_cdf(z) - p;
    double step = error * sqrt(2 * M_PI) * exp(z * z / 2);
    return z - step / (1 + z * step / 2);
}

// Continued fraction of the incomplete beta function by Lentz's method; converges fast for x below (a + 1) /
// (a + b + 2).
static double beta_fraction(double a, double b, double x)
{
    const double tiny =
        1e-300;   // guards of the method: no argument of ours is known to reach one, or the last m
    double c = 1;
    double d = 1 - (a + b) * x / (a + 1);
    d = 1 / (fabs(d) < tiny ? tiny : d);
    double h = d;
    for (int m = 1; m <= 10000; m++) {
        double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        d = 1 + even * d;
        c = 1 + even / c;
        d = 1 / (fabs(d) < tiny ? tiny : d);
        c = fabs(c) < tiny ? tiny : c;
        h *= d * c;
        double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        d = 1 + odd * d;
        c = 1 + odd / c;
        d = 1 / (fabs(d) < tiny ? tiny : d);
        c = fabs(c) < tiny ? tiny : c;
        h *= d * c;
        if (fabs(d * c - 1) < 1e-15) {
            break;
        }
    }
    return h;
}

// I_x(a, b) with y = 1 - x given as well, because a caller may know it with more digits.
static double incomplete_beta(double a, double b, double x, double y)
{
    if (x <= 0 || y <= 0) {
        return x <= 0 ? 0 : 1;
    }
    int sign = 0;
    double log_x = x < y ? log(x) : log1p(-y);
    double log_y = x < y ? log1p(-x) : log(y);
    double front =
        exp(lgamma_r(a + b, &sign) - lgamma_r(a, &sign) - lgamma_r(b, &sign) + a * log_x + b * log_y);
    if (x < (a + 1) / (a + b + 2)) {
        return front * beta_fraction(a, b, x) / a;
    }
    return 1 - front * beta_fraction(b, a, y) / b;
}

enum { NORMAL_FROM = 10000000 };   // degrees of freedom from which Student's t is the normal within 1e-6

// P(T > t) = I_x(v/2, 1/2) / 2 with x = v / (v + t^2).
double stats_t_cdf(double t, double freedom)
{
    if (isnan(t) || !(freedom > 0)) {
        return NAN;
    }
    if (freedom > NORMAL_FROM || isinf(t)) {
        return stats_normal_cdf(t);
    }
    double all = freedom + t * t;
    double tail =
        incomplete_beta(freedom / 2, 0.5, freedom / all, t * t / all) / 2;   // 0 when all is infinite
    return t > 0 ? 1 - tail : tail;
}

// The tail probability is monotone in x, so the quantile is a bisection on x, until no double lies between.
double stats_t_quantile(double confidence, double freedom)
{
    if (!(confidence > 0 && confidence < 1) || !(freedom > 0)) {
        return NAN;
    }
    if (confidence < 0.5) {
        return -stats_t_quantile(1 - confidence, freedom);
    }
    if (freedom > NORMAL_FROM) {
        return stats_normal_quantile(confidence);
    }
    double low = 0;
    double high = 1;
    for (double middle = 0.5; middle > low && middle < high; middle = low + (high - low) / 2) {
        if (incomplete_beta(freedom / 2, 0.5, middle, 1 - middle) < 2 * (1 - confidence)) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return sqrt(freedom * (1 - high) / high);
}
