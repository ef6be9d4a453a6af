// number - decimal text to the nearest double without locale, fast where it is safe.
//
// Up to 19 digits with a small power of ten are exact in two roundings at most one of which rounds (Clinger
// 1990); everything else goes the slow way through base. Blanks, hex, "nan", "inf" and what single precision
// cannot hold are not numbers: the network computes in it, and squares of such values stay finite in double.
#include "input_internal.h"

#include <fedgate/text.h>
#include <float.h>
#include <math.h>
#include <string.h>

enum { DIGITS_FAST = 19, POWER_FAST = 22, NUMBER_MAX = 512 };

static const double powers_of_ten[POWER_FAST + 1] = {
    1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool number_slow(const char *text, size_t length, double *ret_value)
{
    char copy[NUMBER_MAX];
    if (length >= sizeof copy)
        return false;
    memcpy(copy, text, length);
    copy[length] = '\0';
    double value;
    if (!text_to_double(copy, &value) || !(fabs(value) <= (double)FLT_MAX))
        return false;
    *ret_value = value;
    return true;
}

bool number_parse(const char *text, size_t length, double *ret_value)
{
    const char *p = text, *const end = text + length;
    bool negative = false;
    if (p < end && (*p == '-' || *p == '+'))
        negative = *p++ == '-';
    uint64_t digits = 0;
    int used = 0, exponent = 0, seen = 0;
    for (; p < end && is_digit(*p); p++, seen++) {
        digits = digits * 10 + (uint64_t)(*p - '0');
        used += digits > 0 || used > 0;   // also after the sum has wrapped to 0
    }
    if (p < end && *p == '.')
        for (p++; p < end && is_digit(*p); p++, seen++, exponent--) {
            digits = digits * 10 + (uint64_t)(*p - '0');
            used += digits > 0 || used > 0;
        }
    if (seen == 0)
        return false;
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        bool down = false;
        if (p < end && (*p == '-' || *p == '+'))
            down = *p++ == '-';
        if (p == end)
            return false;
        int power = 0;
        for (; p < end && is_digit(*p); p++)
            power = power < 100000 ? power * 10 + (*p - '0') : power;
        exponent += down ? -power : power;
    }
    if (p != end)
        return false;
    if (used > DIGITS_FAST || digits > (UINT64_C(1) << 53) || exponent < -POWER_FAST || exponent > POWER_FAST)
        return number_slow(text, length, ret_value);
    double value = (double)digits;
    value = exponent < 0 ? value / powers_of_ten[-exponent] : value * powers_of_ten[exponent];
    *ret_value = negative ? -value : value;
    return true;
}
