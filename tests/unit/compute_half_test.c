// compute_half_test - the 2-byte types: every value, every tie, both ways, against arithmetic in double.
#include "compute_fixture.h"

enum { VALUES = 65536 };

typedef struct Format {   // of an IEEE-like 2-byte type
    FedgateType type;
    int fraction_bits, bias;
    double largest;
} Format;
static const Format formats[] = {
    {FEDGATE_BF16, 7, 127, 0x1.fep127},
    {FEDGATE_FP16, 10, 15, 65504},
};
enum { FORMATS = sizeof formats / sizeof formats[0] };

// The value that the bits mean, by the definition of the format; independent of the code under test.
static double decode(const Format *format, uint16_t bits)
{
    int exponent_ones = 2 * format->bias + 1, exponent = (bits & 0x7fff) >> format->fraction_bits,
        fraction = bits & ((1 << format->fraction_bits) - 1);
    double magnitude;
    if (exponent == exponent_ones)
        magnitude = fraction ? (double)NAN : (double)INFINITY;
    else if (exponent == 0)
        magnitude = ldexp(fraction, 1 - format->bias - format->fraction_bits);
    else
        magnitude =
            ldexp((1 << format->fraction_bits) + fraction, exponent - format->bias - format->fraction_bits);
    return bits & 0x8000 ? -magnitude : magnitude;
}

// Nearest value of the format, ties to even: the quantum at x divides it, and nearbyint rounds.
static double nearest(const Format *format, double x)
{
    if (x == 0 || !isfinite(x))
        return x;
    int exponent;
    frexp(x, &exponent);
    int lowest = 1 - format->bias - format->fraction_bits;
    exponent = exponent - 1 - format->fraction_bits;
    double quantum = ldexp(1, exponent > lowest ? exponent : lowest),
           rounded = nearbyint(x / quantum) * quantum;
    return fabs(rounded) > format->largest ? copysign((double)INFINITY, x) : rounded;
}

static bool same(double a, double b)
{
    return isnan(a) ? isnan(b) : a == b && signbit(a) == signbit(b);
}

START_TEST(every_value_of_a_type_is_widened_exactly_and_comes_back)
{
    const Format *format = &formats[_i];
    uint16_t *bits = take_typed(format->type, VALUES), *back = take_typed(format->type, VALUES);
    float *wide = take(VALUES);
    for (int i = 0; i < VALUES; i++)
        bits[i] = (uint16_t)i;
    cast(format->type, bits, FEDGATE_FP32, wide, VALUES);
    cast(FEDGATE_FP32, wide, format->type, back, VALUES);
    for (int i = 0; i < VALUES; i++) {
        double value = decode(format, bits[i]);
        if (!same((double)wide[i], value))   // a call of Check for each would be most of the time
            ck_abort_msg("value 0x%04x became %a, not %a", (unsigned)i, (double)wide[i], value);
        unsigned quiet = isnan(value) ? 1u << (format->fraction_bits - 1) : 0;
        if (back[i] != (bits[i] | quiet))
            ck_abort_msg("value 0x%04x came back as 0x%04x", (unsigned)i, (unsigned)back[i]);
    }
    give_typed(format->type, bits, VALUES), give_typed(format->type, back, VALUES), give(wide, VALUES);
}
END_TEST

static void check_narrowing(const Format *format, const float *values, int64_t count)
{
    uint16_t *narrow = take_typed(format->type, count);
    cast(FEDGATE_FP32, values, format->type, narrow, count);
    for (int64_t i = 0; i < count; i++) {
        double expected = nearest(format, (double)values[i]), got = decode(format, narrow[i]);
        if (!same(got, expected))
            ck_abort_msg("%a was rounded to %a, not %a", (double)values[i], got, expected);
    }
    give_typed(format->type, narrow, count);
}

START_TEST(values_ties_and_their_neighbours_are_rounded_to_even)
{
    const Format *format = &formats[_i];
    enum { EACH = 4 };
    float *values = take((int64_t)EACH * VALUES);
    for (int i = 0; i < VALUES; i++) {
        float value = (float)decode(format, (uint16_t)i), next = (float)decode(format, (uint16_t)(i + 1)),
              tie = isfinite(next) ? value / 2 + next / 2 : value;
        if ((i & 0x7fff) == 0x7bff && format->type == FEDGATE_FP16)
            tie = copysignf(65520, value);   // the first number that is nearer to infinity
        values[EACH * i] = value;
        values[EACH * i + 1] = tie;
        values[EACH * i + 2] = nextafterf(tie, 0);
        values[EACH * i + 3] = nextafterf(tie, tie < 0 ? -INFINITY : INFINITY);
    }
    check_narrowing(format, values, (int64_t)EACH * VALUES);
    give(values, (int64_t)EACH * VALUES);
}
END_TEST

START_TEST(any_float_is_rounded_to_the_nearest_value)
{
    enum { COUNT = 1 << 19 };
    float *values = take(COUNT);
    uint32_t bits = 12345;
    for (int i = 0; i < COUNT; i++) {
        bits = bits * 1664525u + 1013904223u;
        uint32_t turned = bits ^ (bits >> 15);
        // every other one near the range of the type, where all its rounding happens
        if (i % 2)
            turned = (turned & 0x807fffffu) | ((100u + (turned >> 23) % 45) << 23);
        memcpy(&values[i], &turned, sizeof turned);
    }
    check_narrowing(&formats[_i], values, COUNT);
    give(values, COUNT);
}
END_TEST

// float bits, bf16 bits, fp16 bits
static const struct {
    uint32_t wide;
    uint16_t bf16, fp16;
} corners[] = {
    {0x00000000, 0x0000, 0x0000}, {0x80000000, 0x8000, 0x8000},
    {0x3f800000, 0x3f80, 0x3c00}, {0x477fe000, 0x4780, 0x7bff},   // 65504
    {0x477fefff, 0x4780, 0x7bff}, {0x477ff000, 0x4780, 0x7c00},   // 65520: infinity
    {0x7f7fffff, 0x7f80, 0x7c00}, {0x7f7f7fff, 0x7f7f, 0x7c00},
    {0xff800000, 0xff80, 0xfc00}, {0x33800000, 0x3380, 0x0001},   // 2^-24
    {0x33000000, 0x3300, 0x0000},   // 2^-25: a tie with 0
    {0x33000001, 0x3300, 0x0001}, {0x33c00000, 0x33c0, 0x0002},   // 1.5 x 2^-24: to even
    {0x387fe000, 0x3880, 0x0400},   // rounds up to the smallest normal number
    {0x387fdfff, 0x3880, 0x03ff}, {0x00000001, 0x0000, 0x0000},
    {0x00008000, 0x0000, 0x0000}, {0x00018000, 0x0002, 0x0000},   // subnormal of bf16
    {0x7f800001, 0x7fc0, 0x7e00},   // a signalling NaN
    {0xffc01234, 0xffc0, 0xfe00}, {0x7fffffff, 0x7fff, 0x7fff},
};

START_TEST(corners_have_their_bits)
{
    uint16_t bf16, fp16;
    float value;
    memcpy(&value, &corners[_i].wide, sizeof value);
    cast(FEDGATE_FP32, &value, FEDGATE_BF16, &bf16, 1);
    cast(FEDGATE_FP32, &value, FEDGATE_FP16, &fp16, 1);
    ck_assert_uint_eq(bf16, corners[_i].bf16);
    ck_assert_uint_eq(fp16, corners[_i].fp16);
}
END_TEST

START_TEST(a_cast_goes_between_any_two_types_and_stops_at_its_count)
{
    enum { COUNT = 2500 };
    float *values = take_noise(COUNT, 3), *wide = take(COUNT);
    uint16_t *bf16 = take_typed(FEDGATE_BF16, COUNT), *fp16 = take_typed(FEDGATE_FP16, COUNT);
    cast(FEDGATE_FP32, values, FEDGATE_FP32, wide, COUNT);
    ck_assert_mem_eq(values, wide, COUNT * sizeof *wide);
    cast(FEDGATE_FP32, values, FEDGATE_BF16, bf16, COUNT - 1);
    ck_assert_uint_eq(bf16[COUNT - 1], 0);
    cast(FEDGATE_BF16, bf16, FEDGATE_FP16, fp16, COUNT);
    for (int i = 0; i < COUNT - 1; i++)
        ck_assert_double_eq(decode(&formats[1], fp16[i]),
                            nearest(&formats[1], nearest(&formats[0], (double)values[i])));
    give(values, COUNT), give(wide, COUNT);
    give_typed(FEDGATE_BF16, bf16, COUNT), give_typed(FEDGATE_FP16, fp16, COUNT);
}
END_TEST

START_TEST(types_have_names_and_round_offs)
{
    static const FedgateType types[] = {FEDGATE_FP32, FEDGATE_BF16, FEDGATE_FP16};
    static const char *const names[] = {"fp32", "bf16", "fp16"};
    for (size_t i = 0; i < 3; i++) {
        FedgateType found = FEDGATE_FP32;
        ck_assert_str_eq(device_type_name(types[i]), names[i]);
        ck_assert(device_type_find(names[i], &found));
        ck_assert_int_eq(found, types[i]);
        // 1 + u is a tie that goes back to 1; a little more does not
        double u = device_type_roundoff(types[i]);
        float above = (float)(1 + 1.5 * u), tie = (float)(1 + u);
        Twin rounded = twin_of(types[i], (float[]){tie, above}, 2);
        ck_assert_double_eq((double)rounded.plain[0], types[i] == FEDGATE_FP32 ? (double)tie : 1);
        ck_assert_double_eq((double)rounded.plain[1], 1 + 2 * u);
        twin_free(&rounded);
    }
    FedgateType untouched = FEDGATE_FP16;
    ck_assert(!device_type_find("tf32", &untouched));
    ck_assert_int_eq(untouched, FEDGATE_FP16);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("compute_half");
    TCase *t = tcase_create("types");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, every_value_of_a_type_is_widened_exactly_and_comes_back, 0, FORMATS);
    tcase_add_loop_test(t, values_ties_and_their_neighbours_are_rounded_to_even, 0, FORMATS);
    tcase_add_loop_test(t, any_float_is_rounded_to_the_nearest_value, 0, FORMATS);
    tcase_add_loop_test(t, corners_have_their_bits, 0, sizeof corners / sizeof corners[0]);
    tcase_add_test(t, a_cast_goes_between_any_two_types_and_stops_at_its_count);
    tcase_add_test(t, types_have_names_and_round_offs);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return run_suite(suite());
}
