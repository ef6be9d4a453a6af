// stats_error_test - the errors that the tests of equivalence promise, by simulated nights of a fixed seed,
// and Holm against the closed testing it stands for.
#include <fedgate/stats.h>

#include <check.h>
#include <malloc.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

static uint64_t state;

static double uniform(void)   // splitmix64, in (0, 1)
{
    uint64_t z = (state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return ((double)((z ^ (z >> 31)) >> 11) + 0.5) * 0x1p-53;
}

static double normal(void)
{
    double radius = sqrt(-2 * log(uniform()));
    return radius * cos(2 * M_PI * uniform());
}

static void draw(double *x, size_t n, double mean, double deviation)
{
    for (size_t i = 0; i < n; i++) {
        x[i] = mean + deviation * normal();
    }
}

enum { NIGHTS = 1000, PAIRS = 8, LOOKS = 5 };

// Share of nights that are found equivalent.
static double share_held(size_t pairs, double mean, double deviation, double margin, double alpha)
{
    double x[64];
    size_t held = 0;
    ck_assert_uint_le(pairs, 64);
    for (int night = 0; night < NIGHTS; night++) {
        EquivalenceTest test;
        draw(x, pairs, mean, deviation);
        stats_equivalence(x, pairs, margin, alpha, 0, &test);
        held += test.answer == EQUIVALENCE_HELD;
    }
    return (double)held / NIGHTS;
}

static const double spread = 3.5 * 0.5 / 31.6;   // 3.5 standard errors of a share of 1000, at most

// A difference of just the margin passes in at most one night of twenty, on either side.
START_TEST(a_difference_of_the_margin_passes_with_the_error_declared)
{
    state = 1;
    for (int side = -1; side <= 1; side += 2) {
        double share = share_held(PAIRS, side, 0.5, 1, 0.05);
        ck_assert_msg(share <= 0.05 + spread / 2 && share >= 0.025, "%g", share);
    }
    ck_assert(share_held(PAIRS, 1.5, 0.5, 1, 0.05) < 0.005);
}
END_TEST

// However often the same pairs are looked at while they grow, all looks together err in one of twenty.
START_TEST(looks_spend_one_error_together)
{
    state = 2;
    int passed = 0;
    for (int night = 0; night < NIGHTS; night++) {
        double x[PAIRS * LOOKS];
        bool held = false;
        draw(x, PAIRS * LOOKS, 1, 0.5);
        for (int look = 1; look <= LOOKS; look++) {
            EquivalenceTest test;
            stats_equivalence(x, (size_t)(PAIRS * look), 1, stats_alpha_of_look(0.05, look), 0, &test);
            held = held || test.answer == EQUIVALENCE_HELD;
        }
        passed += held;
    }
    double share = (double)passed / NIGHTS;
    ck_assert_msg(share <= 0.05 + spread / 2 && share > 0.01, "%g", share);
    double spent = 0;
    for (int64_t look = 1; look <= 100000; look++) {
        spent += stats_alpha_of_look(0.05, look);
    }
    ck_assert(spent < 0.05 && spent > 0.0499);
}
END_TEST

// As many pairs as are said to be needed reach the power; two fewer do not, once there are some.
START_TEST(the_pairs_needed_reach_the_power)
{
    static const double ratios[] = {0.4, 0.8, 1.2, 1.6};
    state = 3;
    for (size_t i = 0; i < sizeof ratios / sizeof ratios[0]; i++) {
        size_t needed = stats_pairs_needed(ratios[i], 1, 0.05, 0.8);
        double share = share_held(needed, 0, ratios[i], 1, 0.05);
        ck_assert_msg(share > 0.8 - 2 * spread, "%zu pairs at %g: %g", needed, ratios[i], share);
        ck_assert(needed < 8 || share_held(needed - 3, 0, ratios[i], 1, 0.05) < share);
    }
}
END_TEST

// In a harmless slice the bound of the harm lies inside the smallest margin with the power declared.
START_TEST(the_least_margin_is_told_with_its_power)
{
    static const size_t pairs[] = {4, 8, 24};
    state = 4;
    for (size_t k = 0; k < sizeof pairs / sizeof pairs[0]; k++) {
        size_t n = pairs[k];
        double margin = stats_least_margin(0.3, n, 0.05, 0.8);
        double t = stats_t_quantile(0.95, (double)(n - 1));
        int inside = 0;
        for (int night = 0; night < NIGHTS; night++) {
            double x[24];
            draw(x, n, 0, 0.3);
            inside += stats_mean(x, n) + t * sqrt(stats_variance(x, n) / (double)n) <= margin;
        }
        double share = (double)inside / NIGHTS;
        ck_assert_msg(share > 0.74 && share < 0.86, "%zu pairs: %g", n, share);
    }
    double eight = (1.894578605061305 + 0.8960296443130286) * 0.3 / sqrt(8);   // t(0.95, 7) and t(0.8, 7)
    ck_assert(fabs(stats_least_margin(0.3, 8, 0.05, 0.8) - eight) < 1e-9);
    ck_assert(stats_least_margin(0, 8, 0.05, 0.8) == 0);
}
END_TEST

static const struct {
    double deviation;
    size_t pairs;
    double alpha, power;
} unsound[] = {
    {0.3, 1, 0.05, 0.8}, {-0.1, 8, 0.05, 0.8}, {NAN, 8, 0.05, 0.8}, {INFINITY, 8, 0.05, 0.8},
    {0.3, 8, 0, 0.8},    {0.3, 8, 0.5, 0.8},   {0.3, 8, NAN, 0.8},  {0.3, 8, 0.05, 0.5},
    {0.3, 8, 0.05, 1},   {0.3, 8, 0.05, NAN},
};

START_TEST(nothing_is_told_from_nothing)
{
    ck_assert(isnan(
        stats_least_margin(unsound[_i].deviation, unsound[_i].pairs, unsound[_i].alpha, unsound[_i].power)));
    ck_assert(isfinite(stats_least_margin(0.3, 2, 0.49, 0.51)));
}
END_TEST

// Holm rejects what every Bonferroni test of a set that holds it rejects (closed testing).
START_TEST(holm_is_closed_testing)
{
    enum { MOST = 7 };
    state = 5;
    for (int night = 0; night < 500; night++) {
        double p[MOST];
        bool rejected[MOST];
        size_t n = 1 + (size_t)(uniform() * MOST);
        for (size_t i = 0; i < n; i++) {
            p[i] = i > 0 && uniform() < 0.2 ? p[i - 1] : pow(10, -3.5 * uniform());
        }
        stats_holm(p, n, 0.05, rejected);
        for (size_t i = 0; i < n; i++) {
            bool wanted = true;
            for (unsigned set = 1; set < 1u << n; set++) {
                double least = 1;
                int size = 0;
                for (size_t k = 0; k < n; k++) {
                    if (set >> k & 1) {
                        least = fmin(least, p[k]);
                        size++;
                    }
                }
                wanted = wanted && (!(set >> i & 1) || least <= 0.05 / size);
            }
            ck_assert_msg(rejected[i] == wanted, "p[%zu] = %g of %zu", i, p[i], n);
        }
    }
}
END_TEST

#ifndef __SANITIZE_ADDRESS__   // whose shadow needs the address space
// Memory that ends at every possible place gives no number, never a wrong one.
START_TEST(short_memory_gives_no_number)
{
    enum { ROWS = 30000, KIB = 1024, MOST = 3000 };
    double *score = malloc(ROWS * sizeof *score);
    double *other = malloc(ROWS * sizeof *other);
    double *label = malloc(ROWS * sizeof *label);
    ck_assert(score != NULL && other != NULL && label != NULL);
    state = 6;
    for (size_t i = 0; i < ROWS; i++) {
        label[i] = uniform() < 0.5;
        score[i] = label[i] + normal();
        other[i] = label[i] + normal();
    }
    double auc = stats_auc(score, label, ROWS);
    size_t none = 0;
    size_t whole = 0;
    ck_assert(mallopt(M_MMAP_THRESHOLD, 64 * KIB) == 1);   // so that nothing freed is taken again
    for (int kib = 0; kib <= MOST; kib += 60) {
        struct rlimit before;
        FILE *statm = fopen("/proc/self/statm", "r");
        unsigned long pages = 0;
        ck_assert(statm != NULL && fscanf(statm, "%lu", &pages) == 1 && getrlimit(RLIMIT_AS, &before) == 0);
        fclose(statm);
        struct rlimit tight = {(rlim_t)pages * 4096 + (rlim_t)kib * KIB, before.rlim_max};
        ck_assert(setrlimit(RLIMIT_AS, &tight) == 0);
        PairedDifference paired;
        double one = stats_auc(score, label, ROWS);
        stats_paired(METRIC_AUC, (Predictions){score, ROWS, 1}, (Predictions){other, ROWS, 1}, label,
                     &paired);
        ck_assert(setrlimit(RLIMIT_AS, &before) == 0);
        ck_assert(isnan(one) || one == auc);
        ck_assert(!isfinite(paired.standard_error) || (paired.standard_error > 1e-4 && paired.a == auc));
        none += isnan(paired.standard_error) ? 1 : 0;
        whole += isfinite(paired.standard_error) ? 1 : 0;
    }
    ck_assert(none > 0 && whole > 0);
    free(score);
    free(other);
    free(label);
}
END_TEST
#endif

static Suite *suite(void)
{
    Suite *s = suite_create("stats_error");
    TCase *t = tcase_create("errors");
    tcase_set_timeout(t, 60);   // with sanitisers
    tcase_add_test(t, a_difference_of_the_margin_passes_with_the_error_declared);
    tcase_add_test(t, looks_spend_one_error_together);
    tcase_add_test(t, the_pairs_needed_reach_the_power);
    tcase_add_test(t, the_least_margin_is_told_with_its_power);
    tcase_add_loop_test(t, nothing_is_told_from_nothing, 0, sizeof unsound / sizeof unsound[0]);
    tcase_add_test(t, holm_is_closed_testing);
#ifndef __SANITIZE_ADDRESS__
    tcase_add_test(t, short_memory_gives_no_number);
#endif
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    SRunner *r = srunner_create(suite());
    srunner_run_all(r, CK_ENV);
    int bad = srunner_ntests_failed(r);
    srunner_free(r);
    return bad != 0;
}
