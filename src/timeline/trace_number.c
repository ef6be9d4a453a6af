// trace_number - decimal numbers of a trace to integers, exactly: no double ever holds a time.
#include "trace_internal.h"

#include <string.h>

enum { DIGITS_MOST = 19, EXPONENT_MOST = 400 };   // 19 digits fit 64 bits

typedef struct Decimal {
    uint64_t digits;   // value = digits x 10^power, cut behind DIGITS_MOST significant digits
    int power;
    bool negative, whole_form;   // whole_form: neither point nor exponent
    bool above_half;   // the first digit that was cut is 5 or more; never more than one unit of `digits` is
                       // lost
} Decimal;

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static const char *read_digits(const char *from, const char *end, bool fraction, int *significant,
                               Decimal *decimal)
{
    for (; from < end && is_digit(*from); from++) {
        int digit = *from - '0';
        if (*significant < DIGITS_MOST) {
            decimal->digits = decimal->digits * 10 + (uint64_t)digit;
            *significant += decimal->digits != 0;
            decimal->power -= fraction;
        } else {
            decimal->above_half |= *significant == DIGITS_MOST && digit >= 5;
            (*significant)++;
            decimal->power += !fraction;
        }
    }
    return from;
}

static const char *read_exponent(const char *from, const char *end, Decimal *decimal)
{
    bool negative = from < end && *from == '-';
    from += from < end && (*from == '-' || *from == '+');
    if (from >= end || !is_digit(*from)) {
        return NULL;
    }
    int exponent = 0;
    for (; from < end && is_digit(*from); from++) {
        exponent = exponent < EXPONENT_MOST ? exponent * 10 + (*from - '0') : exponent;
    }
    decimal->power += negative ? -exponent : exponent;
    return from;
}

static bool read_decimal(const char *from, const char *end, Decimal *ret)
{
    *ret = (Decimal){.whole_form = true};
    ret->negative = from < end && *from == '-';
    from += ret->negative;
    int significant = 0;
    const char *first = from;
    from = read_digits(from, end, false, &significant, ret);
    if (from == first || (*first == '0' && from > first + 1)) {
        return false;
    }
    if (from < end && *from == '.') {
        ret->whole_form = false;
        const char *point = ++from;
        from = read_digits(from, end, true, &significant, ret);
        if (from == point) {
            return false;
        }
    }
    if (from < end && (*from == 'e' || *from == 'E')) {
        ret->whole_form = false;
        from = read_exponent(from + 1, end, ret);
    }
    return from == end;
}

// digits x 10^power as an integer, rounded half up in size; false beyond TRACE_TIME_MOST.
static bool scaled(const Decimal *decimal, int power, int64_t *ret)
{
    uint64_t value = decimal->digits;
    bool up = power == 0 && decimal->above_half;
    for (; power > 0 && value != 0; power--) {
        if (value > (uint64_t)TRACE_TIME_MOST / 10) {
            return false;
        }
        value *= 10;
    }
    for (; power < 0 && (value != 0 || up); power++) {
        up = value % 10 >= 5;
        value /= 10;
    }
    value += up;
    if (value > (uint64_t)TRACE_TIME_MOST) {
        return false;
    }
    *ret = decimal->negative ? -(int64_t)value : (int64_t)value;
    return true;
}

bool number_to_ns(const char *from, const char *end, int64_t *ret_ns)
{
    Decimal decimal;
    return read_decimal(from, end, &decimal) && scaled(&decimal, decimal.power + 3, ret_ns);
}

bool number_to_whole(const char *from, const char *end, int64_t *ret_value)
{
    Decimal decimal;
    return read_decimal(from, end, &decimal) && decimal.whole_form &&
           scaled(&decimal, decimal.power, ret_value);
}
