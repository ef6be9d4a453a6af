// schedule - learning rate by step: a linear rise over the warm-up, then half a cosine down to the final
// share.
#include "trainer_internal.h"

// sin(pi/2 - pi t) by its series on [-pi/2, pi/2]: 1e-16 there, and no C library whose last bit depends on
// the processor.
double schedule_cosine(double turns)
{
    double x = 1.5707963267948966 - 3.141592653589793 * turns, square = x * x, term = x, sum = x;
    for (int k = 1; k <= 11; k++) {
        term *= -square / (double)(2 * k * (2 * k + 1));
        sum += term;
    }
    return sum;
}

double schedule_power(double base, int64_t exponent)
{
    double result = 1;
    for (; exponent > 0; exponent /= 2) {
        if (exponent % 2 == 1)
            result *= base;
        base *= base;
    }
    return result;
}

double schedule_rate(int64_t step, int64_t planned, double peak, double warmup_ratio, double final_ratio)
{
    double warm = warmup_ratio * (double)planned, done = (double)step;
    if (done < warm)
        return peak * (done + 1) / (warm + 1);
    double left = (double)planned - warm;
    double turns = left > 0 ? (done - warm) / left : 0;
    return peak * (final_ratio + (1 - final_ratio) * 0.5 * (1 + schedule_cosine(turns < 1 ? turns : 1)));
}
