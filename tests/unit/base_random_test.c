// base_random_test - keyed randomness: the same for ever, evenly spread, and permutations that are
// bijections.
#include <check.h>
#include <fedgate/random.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

START_TEST(values_depend_on_key_and_counter_alone_and_never_change)
{
    ck_assert_uint_eq(random_bits(1, 0), 0xdce423fc82c0d5b8u);
    ck_assert_uint_eq(random_bits(1, 1), 0x5e41ab087439611eu);
    ck_assert(random_bits(2, 0) != random_bits(1, 0));
}
END_TEST

START_TEST(units_are_in_range_and_even)
{
    enum { DRAWS = 100000, CELLS = 20 };
    int cells[CELLS] = {0};
    for (uint64_t i = 0; i < DRAWS; i++) {
        double value = random_unit(77, i);
        ck_assert(value >= 0 && value < 1);
        cells[(int)(value * CELLS)]++;
    }
    double chi = 0, expected = (double)DRAWS / CELLS;
    for (int i = 0; i < CELLS; i++)
        chi += (cells[i] - expected) * (cells[i] - expected) / expected;
    ck_assert_double_lt(chi, 43.8);   // 99.9 % point of chi-square with 19 degrees of freedom
}
END_TEST

START_TEST(normals_have_mean_0_and_variance_1)
{
    enum { DRAWS = 100000 };
    double sum = 0, squares = 0, cubes = 0;
    for (uint64_t i = 0; i < DRAWS; i++) {
        double value = random_normal(5, i);
        ck_assert(isfinite(value));
        sum += value;
        squares += value * value;
        cubes += value * value * value;
    }
    ck_assert_double_lt(fabs(sum / DRAWS), 0.013);   // four standard errors
    ck_assert_double_lt(fabs(squares / DRAWS - 1), 0.018);
    ck_assert_double_lt(fabs(cubes / DRAWS), 0.05);
}
END_TEST

static const uint64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 100, 1000, 1023, 1024, 1025, 65537};

START_TEST(a_permutation_meets_every_index_once)
{
    uint64_t count = sizes[_i];
    for (uint64_t key = 0; key < 5; key++) {
        Permutation permutation;
        permutation_init(&permutation, count, key);
        bool *seen = calloc(count, sizeof *seen);
        for (uint64_t i = 0; i < count; i++) {
            uint64_t index = permutation_at(&permutation, i);
            ck_assert_uint_lt(index, count);
            ck_assert(!seen[index]);
            seen[index] = true;
        }
        free(seen);
    }
}
END_TEST

START_TEST(permutations_of_other_keys_share_about_one_position)
{
    enum { COUNT = 10000 };
    Permutation one, two;
    permutation_init(&one, COUNT, 1);
    permutation_init(&two, COUNT, 2);
    int same = 0, fixed = 0, neighbours = 0;
    for (uint64_t i = 0; i < COUNT; i++) {
        same += permutation_at(&one, i) == permutation_at(&two, i);
        fixed += permutation_at(&one, i) == i;
        neighbours += i > 0 && permutation_at(&one, i) == permutation_at(&one, i - 1) + 1;
    }
    ck_assert_int_lt(same, 10);
    ck_assert_int_lt(fixed, 10);
    ck_assert_int_lt(neighbours, 10);
}
END_TEST

START_TEST(every_order_of_three_comes_up_about_equally_often)
{
    int orders[27] = {0};
    for (uint64_t key = 0; key < 6000; key++) {
        Permutation permutation;
        permutation_init(&permutation, 3, key);
        orders[permutation_at(&permutation, 0) * 9 + permutation_at(&permutation, 1) * 3 +
               permutation_at(&permutation, 2)]++;
    }
    for (int i = 0; i < 27; i++)
        ck_assert_msg(orders[i] == 0 || (orders[i] > 500 && orders[i] < 1600), "order %d: %d", i, orders[i]);
}
END_TEST

START_TEST(a_huge_permutation_stays_in_range)
{
    Permutation permutation;
    permutation_init(&permutation, UINT64_MAX, 3);
    ck_assert(permutation_at(&permutation, 0) != permutation_at(&permutation, 1));
    permutation_init(&permutation, (UINT64_C(1) << 40) + 1, 3);
    for (uint64_t i = 0; i < 1000; i++)
        ck_assert_uint_le(permutation_at(&permutation, i), UINT64_C(1) << 40);
}
END_TEST

START_TEST(a_range_of_a_permutation_is_the_same_index_by_index)
{
    static const uint64_t counts[] = {1, 2, 3, 257, 1000, 4097, UINT64_C(1) << 32};
    static uint32_t range[1000];
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++)
        for (uint64_t first = 0; first < 4 && first < counts[c]; first++) {
            Permutation permutation;
            permutation_init(&permutation, counts[c], first + c);
            size_t rows = counts[c] - first < 1000 ? (size_t)(counts[c] - first) : 1000;
            permutation_range(&permutation, first, rows, range);
            for (size_t i = 0; i < rows; i++)
                ck_assert_uint_eq(range[i], permutation_at(&permutation, first + i));
        }
}
END_TEST

static Suite *suite(void)
{
    Suite *made = suite_create("base random");
    TCase *random = tcase_create("random");
    tcase_add_test(random, values_depend_on_key_and_counter_alone_and_never_change);
    tcase_add_test(random, units_are_in_range_and_even);
    tcase_add_test(random, normals_have_mean_0_and_variance_1);
    tcase_add_loop_test(random, a_permutation_meets_every_index_once, 0, sizeof sizes / sizeof sizes[0]);
    tcase_add_test(random, permutations_of_other_keys_share_about_one_position);
    tcase_add_test(random, every_order_of_three_comes_up_about_equally_often);
    tcase_add_test(random, a_huge_permutation_stays_in_range);
    tcase_add_test(random, a_range_of_a_permutation_is_the_same_index_by_index);
    suite_add_tcase(made, random);
    return made;
}

int main(void)
{
    SRunner *runner = srunner_create(suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
