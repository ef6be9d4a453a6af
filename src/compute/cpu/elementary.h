// elementary - exp and log from plain double arithmetic: the C library's choose other code on other machines,
// ours do not.
//
// Errors stay under 1e-15 relative (exp) and 2e-16 absolute near 1 (log). NaN gives NaN.
#ifndef FEDGATE_CPU_ELEMENTARY_H
#define FEDGATE_CPU_ELEMENTARY_H

#include <stdint.h>
#include <string.h>

static inline double elementary_exp(double x)
{
    static const double terms[] = {1.0 / 6227020800,
                                   1.0 / 479001600,
                                   1.0 / 39916800,
                                   1.0 / 3628800,
                                   1.0 / 362880,
                                   1.0 / 40320,
                                   1.0 / 5040,
                                   1.0 / 720,
                                   1.0 / 120,
                                   1.0 / 24,
                                   1.0 / 6,
                                   0.5,
                                   1,
                                   1};
    const double shift = 6755399441055744.0;   // 1.5 * 2^52: adding it rounds to an integer in the low bits
    x = x < -708 ? -708 : x;
    x = x > 708 ? 708 : x;
    double rounded = x * 1.4426950408889634 + shift;
    int64_t bits;
    memcpy(&bits, &rounded, sizeof bits);
    double n = rounded - shift;
    double r = (x - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10;
    double p = terms[0];
    for (int i = 1; i < 14; i++)
        p = p * r + terms[i];
    uint64_t power = (uint64_t)(bits + 1023) << 52;
    double scale;
    memcpy(&scale, &power, sizeof scale);
    return p * scale + (x - x);
}

// x > 0 and normal
static inline double elementary_log(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int64_t exponent =
        (int64_t)((bits - 0x3fe6a09e667f3bcdu) >> 52);   // so that the mantissa lies in [sqrt(1/2), sqrt(2))
    exponent = exponent >= 2048 ? exponent - 4096 : exponent;
    bits -= (uint64_t)exponent << 52;
    double m;
    memcpy(&m, &bits, sizeof m);
    double s = (m - 1) / (m + 1), s2 = s * s, p = 0;
    for (int i = 25; i >= 1; i -= 2)
        p = p * s2 + 1.0 / i;
    return (double)exponent * 0.6931471805599453 + 2 * s * p + (x - x);
}

static inline double elementary_sigmoid(double z)
{
    double e = elementary_exp(z < 0 ? z : -z);
    return z < 0 ? e / (1 + e) : 1 / (1 + e);
}

#endif
