// stats_test - every figure against brute force, a closed form, or a published table.
#include <fedgate/stats.h>

#include <check.h>
#include <math.h>
#include <stdlib.h>

// A small linear congruential generator: the same numbers on every machine.
static uint64_t state = 1;

static double next_uniform(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 11) / 9007199254740992.0;
}

static void assert_near(double value, double wanted, double tolerance)
{
    ck_assert_msg(fabs(value - wanted) <= tolerance, "%.12g is not %.12g within %g", value, wanted,
                  tolerance);
}

enum { ROWS = 160 };

typedef struct Sample {
    double a[ROWS], b[ROWS], label[ROWS];
} Sample;

// Scores rounded to 1 / levels, so that ties of every size occur.
static void make_sample(int levels, Sample *ret)
{
    state = (uint64_t)levels;
    for (int i = 0; i < ROWS; i++) {
        ret->label[i] = next_uniform() < 0.3;
        ret->a[i] = floor(levels * (0.4 * ret->label[i] + 0.6 * next_uniform())) / levels;
        ret->b[i] = floor(levels * (0.2 * ret->label[i] + 0.5 * next_uniform() + 0.3 * ret->a[i])) / levels;
    }
}

static double wins(double positive, double negative)
{
    return positive > negative ? 1 : positive == negative ? 0.5 : 0;
}

static double brute_auc(const double *score, const double *label)
{
    double won = 0;
    double pairs = 0;
    for (int i = 0; i < ROWS; i++) {
        for (int j = 0; j < ROWS; j++) {
            if (label[i] > 0.5 && label[j] < 0.5) {
                won += wins(score[i], score[j]);
                pairs++;
            }
        }
    }
    return won / pairs;
}

// DeLong's variance of the difference by its definition: structural components of each model, full
// covariance.
static double brute_delong(const Sample *s)
{
    double component[2][ROWS] = {{0}};
    double count[2] = {0, 0};
    const double *scores[2] = {s->a, s->b};
    for (int i = 0; i < ROWS; i++) {
        count[s->label[i] > 0.5]++;
    }
    for (int m = 0; m < 2; m++) {
        for (int i = 0; i < ROWS; i++) {
            for (int j = 0; j < ROWS; j++) {
                if (s->label[i] > 0.5 && s->label[j] < 0.5) {
                    component[m][i] += wins(scores[m][i], scores[m][j]) / count[0];
                    component[m][j] += wins(scores[m][i], scores[m][j]) / count[1];
                }
            }
        }
    }
    double variance = 0;
    for (int side = 0; side < 2; side++) {
        double mean[2] = {0, 0};
        for (int m = 0; m < 2; m++) {
            for (int i = 0; i < ROWS; i++) {
                mean[m] += (s->label[i] > 0.5) == (side == 1) ? component[m][i] / count[side] : 0;
            }
        }
        double covariance[3] = {0, 0, 0};   // aa, bb, ab
        for (int i = 0; i < ROWS; i++) {
            if ((s->label[i] > 0.5) == (side == 1)) {
                double da = component[0][i] - mean[0];
                double db = component[1][i] - mean[1];
                covariance[0] += da * da / (count[side] - 1);
                covariance[1] += db * db / (count[side] - 1);
                covariance[2] += da * db / (count[side] - 1);
            }
        }
        variance += (covariance[0] + covariance[1] - 2 * covariance[2]) / count[side];
    }
    return sqrt(variance);
}

static const int tie_levels[] = {3, 10, 100, 1000000};

START_TEST(auc_and_delong_equal_their_definitions)
{
    Sample s;
    make_sample(tie_levels[_i], &s);
    assert_near(stats_auc(s.a, s.label, ROWS), brute_auc(s.a, s.label), 1e-14);
    PairedDifference d;
    stats_paired(METRIC_AUC, (Predictions){s.a, ROWS, 1}, (Predictions){s.b, ROWS, 1}, s.label, &d);
    assert_near(d.a, brute_auc(s.a, s.label), 1e-14);
    assert_near(d.b, brute_auc(s.b, s.label), 1e-14);
    assert_near(d.difference, d.a - d.b, 1e-14);
    assert_near(d.standard_error, brute_delong(&s), 1e-12);
    assert_near(d.lower, d.difference - 1.6448536269514722 * d.standard_error, 1e-12);
    assert_near(d.upper, d.difference + 1.6448536269514722 * d.standard_error, 1e-12);
    ck_assert(!d.identical && !d.constant);
}
END_TEST

START_TEST(auc_of_known_arrays)
{
    const double score[] = {0.1, 0.4, 0.35, 0.8};
    const double label[] = {0, 0, 1, 1};
    assert_near(stats_auc(score, label, 4), 0.75, 0);
    const double same[] = {0.5, 0.5, 0.5, 0.5};
    assert_near(stats_auc(same, label, 4), 0.5, 0);
    const double weight[] = {1, 3, 1, 1};   // the second row three times
    assert_near(stats_metric(METRIC_AUC, (Predictions){score, 4, 1}, label, weight), 5.0 / 8, 1e-15);
}
END_TEST

START_TEST(undefined_metrics_are_not_numbers)
{
    const double score[] = {0.1, NAN, 0.35};
    const double fine[] = {0.1, 0.2, 0.3};
    const double outside[] = {0.1, 1.2, -0.3};
    const double label[] = {0, 1, 0};
    const double ones[] = {1, 1, 1};
    const double bad_class[] = {0, 0.5, 2};
    const double nothing[] = {0, 0, 0};
    ck_assert(isnan(stats_auc(score, label, 3)));
    ck_assert(isnan(stats_auc(fine, ones, 3)));
    ck_assert(isnan(stats_auc(fine, score, 3)));
    ck_assert(isnan(stats_auc(fine, label, 0)));
    for (int m = 0; m < METRIC_COUNT; m++) {
        ck_assert(isnan(stats_metric((Metric)m, (Predictions){score, 3, 1}, label, NULL)));
        ck_assert(isnan(stats_metric((Metric)m, (Predictions){fine, 0, 1}, label, NULL)));
        ck_assert(isnan(stats_metric((Metric)m, (Predictions){fine, 3, 1}, label, nothing)));
        ck_assert(isnan(stats_metric((Metric)m, (Predictions){fine, 3, 0}, label, NULL)));
    }
    ck_assert(isnan(stats_metric(METRIC_LOGLOSS, (Predictions){outside, 3, 1}, label, NULL)));
    ck_assert(isnan(stats_metric(METRIC_LOGLOSS, (Predictions){fine, 3, 1}, bad_class, NULL)));
    ck_assert(isnan(stats_metric(METRIC_AUC, (Predictions){fine, 1, 3}, label, NULL)));
}
END_TEST

START_TEST(losses_of_known_arrays)
{
    const double score[] = {0.25, 0.5, 1, 0};
    const double label[] = {0, 1, 1, 1};
    assert_near(stats_metric(METRIC_LOGLOSS, (Predictions){score, 3, 1}, label, NULL),
                (-log(0.75) - log(0.5) + 0) / 3, 1e-15);
    assert_near(stats_metric(METRIC_LOGLOSS, (Predictions){score + 3, 1, 1}, label + 3, NULL), -log(1e-15),
                1e-12);
    assert_near(stats_metric(METRIC_ACCURACY, (Predictions){score, 4, 1}, label, NULL), 0.75, 0);
    const double weight[] = {0, 0, 0, 1};
    assert_near(stats_metric(METRIC_ACCURACY, (Predictions){score, 4, 1}, label, weight), 0, 0);
    const double classes[] = {0.2, 0.5, 0.3, 0.6, 0.3, 0.1};
    const double target[] = {1, 2};
    assert_near(stats_metric(METRIC_LOGLOSS, (Predictions){classes, 2, 3}, target, NULL),
                (-log(0.5) - log(0.1)) / 2, 1e-15);
    assert_near(stats_metric(METRIC_ACCURACY, (Predictions){classes, 2, 3}, target, NULL), 0.5, 0);
    const double values[] = {1, 2, 5};
    const double truth[] = {1, 4, 1};
    assert_near(stats_metric(METRIC_RMSE, (Predictions){values, 3, 1}, truth, NULL), sqrt(20.0 / 3), 1e-15);
}
END_TEST

// The delta method against a bootstrap over rows: both see the same rows, so they agree within the
// bootstrap's own noise.
static const Metric row_metrics[] = {METRIC_LOGLOSS, METRIC_ACCURACY, METRIC_RMSE};

START_TEST(row_metric_errors_agree_with_a_bootstrap)
{
    enum { REPEATS = 1500 };
    Metric metric = row_metrics[_i];
    static Sample s;
    static Sample again;
    make_sample(1000, &s);
    for (int i = 0; i < ROWS; i++) {
        s.a[i] = 0.02 + 0.96 * s.a[i];
        s.b[i] = 0.02 + 0.96 * s.b[i];
    }
    PairedDifference d;
    stats_paired(metric, (Predictions){s.a, ROWS, 1}, (Predictions){s.b, ROWS, 1}, s.label, &d);
    double sign = stats_metrics[metric].higher_is_better ? 1 : -1;
    assert_near(d.difference, sign * (d.a - d.b) / (stats_metrics[metric].relative_margin ? d.b : 1), 1e-12);
    static double differences[REPEATS];
    for (int r = 0; r < REPEATS; r++) {
        for (int i = 0; i < ROWS; i++) {
            int row = (int)(next_uniform() * ROWS);
            again.a[i] = s.a[row];
            again.b[i] = s.b[row];
            again.label[i] = s.label[row];
        }
        PairedDifference e;
        stats_paired(metric, (Predictions){again.a, ROWS, 1}, (Predictions){again.b, ROWS, 1}, again.label,
                     &e);
        differences[r] = e.difference;
    }
    double bootstrap = sqrt(stats_variance(differences, REPEATS));
    assert_near(d.standard_error / bootstrap, 1, 0.12);
}
END_TEST

START_TEST(identical_and_constant_predictions_are_told)
{
    const double a[] = {0.2, 0.4, 0.6, 0.8};
    const double c[] = {0.5, 0.5, 0.5, 0.5};
    const double label[] = {0, 1, 0, 1};
    const double not_a_number[] = {0.2, NAN, 0.6, 0.8};
    PairedDifference d;
    stats_paired(METRIC_AUC, (Predictions){a, 4, 1}, (Predictions){a, 4, 1}, label, &d);
    ck_assert(d.identical && !d.constant);
    assert_near(d.difference, 0, 0);
    assert_near(d.standard_error, 0, 0);
    stats_paired(METRIC_AUC, (Predictions){c, 4, 1}, (Predictions){a, 4, 1}, label, &d);
    ck_assert(!d.identical && d.constant);
    stats_paired(METRIC_AUC, (Predictions){not_a_number, 4, 1}, (Predictions){not_a_number, 4, 1}, label, &d);
    ck_assert(!d.identical && isnan(d.difference) && isnan(d.lower));
    stats_paired(METRIC_AUC, (Predictions){a, 4, 1}, (Predictions){a, 3, 1}, label, &d);
    ck_assert(isnan(d.difference));
    stats_paired(METRIC_RMSE, (Predictions){a, 1, 1}, (Predictions){c, 1, 1}, label, &d);
    ck_assert(isnan(d.standard_error) && isnan(d.lower));
    const double two[] = {0.5, 0.5, 0.9, 0.1, 0.2, 0.8};   // three rows of two classes
    stats_paired(METRIC_LOGLOSS, (Predictions){two, 3, 2}, (Predictions){a, 3, 1}, label, &d);
    ck_assert(!d.identical && !d.constant);
}
END_TEST

START_TEST(one_positive_row_has_no_delong_error)
{
    const double a[] = {0.2, 0.4, 0.6};
    const double b[] = {0.3, 0.1, 0.6};
    const double label[] = {0, 1, 0};
    PairedDifference d;
    stats_paired(METRIC_AUC, (Predictions){a, 3, 1}, (Predictions){b, 3, 1}, label, &d);
    ck_assert(isfinite(d.difference) && isnan(d.standard_error) && isnan(d.lower));
}
END_TEST

START_TEST(utility_counts_decisions)
{
    const double score[] = {0.9, 0.8, 0.8, 0.2};
    const double label[] = {1, 0, 1, 1};
    assert_near(stats_utility(score, label, 4, 0.5, 3, 2), (2 * 3 - 2) / 4.0, 0);
    assert_near(stats_utility(score, label, 4, 2, 3, 2), 0, 0);
    ck_assert(isnan(stats_utility(score, label, 4, NAN, 3, 2)));
    ck_assert(isnan(stats_utility(score, label, 0, 0.5, 3, 2)));
}
END_TEST

START_TEST(best_threshold_is_the_smallest_of_the_best)
{
    const double score[] = {0.9, 0.8, 0.8, 0.2, 0.1};
    const double label[] = {1, 0, 1, 1, 0};
    // utilities: >= 0.9: 1, >= 0.8: 1, >= 0.2: 2, >= 0.1: 1
    assert_near(stats_best_threshold(score, label, 5, 1, 1), 0.2, 0);
    assert_near(stats_best_threshold(score, label, 3, 1, 1), 0.8, 0);   // 1 at 0.9 and 1 at 0.8: the smaller
    const double none[] = {0, 0, 0, 0, 0};
    double above = stats_best_threshold(score, none, 5, 1, 1);
    ck_assert(above > 0.9);
    assert_near(stats_utility(score, none, 5, above, 1, 1), 0, 0);
    ck_assert(isnan(stats_best_threshold(score, label, 0, 1, 1)));
    const double bad[] = {NAN, 1};
    ck_assert(isnan(stats_best_threshold(bad, label, 2, 1, 1)));
}
END_TEST

START_TEST(calibration_bins_equal_counts_and_ignores_order_in_ties)
{
    enum { N = 1000 };
    static double score[N];
    static double label[N];
    for (int i = 0; i < N; i++) {
        score[i] = 0.5;
        label[i] = i < N / 2;   // sorted by label: naive bins would see 0 and 1
    }
    Calibration c;
    stats_calibration(score, label, N, &c);
    assert_near(c.ece, 0, 1e-12);
    for (int i = 0; i < N; i++) {
        score[i] = (double)i / N;
        label[i] = 1;
    }
    stats_calibration(score, label, N, &c);
    assert_near(c.ece, 1 - 0.4995, 1e-12);
    ck_assert_uint_eq(c.rows[9], 100);
    assert_near(c.positive_rate[3], 1, 0);
    assert_near(c.mean_score[0], 0.0495, 1e-12);
    stats_calibration(score, label, 0, &c);
    ck_assert(isnan(c.ece));
}
END_TEST

START_TEST(psi_is_zero_for_equal_shares_and_floors_empty_bins)
{
    const double a[] = {10, 30, 60};
    const double same[] = {1, 3, 6};
    const double moved[] = {60, 30, 10};
    const double empty[] = {0, 40, 60};
    const double none[] = {0, 0, 0};
    assert_near(stats_psi(a, same, 3), 0, 1e-12);
    assert_near(stats_psi(a, moved, 3), 2 * 0.5 * log(6), 1e-12);
    assert_near(stats_psi(a, empty, 3), (1e-4 - 0.1) * log(1e-4 / 0.1) + 0.1 * log(0.4 / 0.3), 1e-12);
    ck_assert(isnan(stats_psi(a, none, 3)) && isnan(stats_psi(none, a, 3)));
}
END_TEST

START_TEST(batch_means_of_a_known_series)
{
    double x[20];
    for (int i = 0; i < 20; i++) {
        x[i] = i;
    }
    BatchMean m;
    stats_batch_mean(x, 20, 10, &m);
    // batch means 0.5, 2.5 .. 18.5: variance 4 x 82.5 / 9
    assert_near(m.mean, 9.5, 1e-12);
    assert_near(m.standard_error, sqrt(4 * 82.5 / 9 / 10), 1e-12);
    assert_near(m.lower, 9.5 - 1.8331129326536335 * m.standard_error, 1e-6);
    assert_near(m.upper, 9.5 + 1.8331129326536335 * m.standard_error, 1e-6);
    stats_batch_mean(x, 9, 10, &m);
    ck_assert(isnan(m.lower) && isnan(m.upper) && m.mean == 4);
    stats_batch_mean(x, 13, 10, &m);
    ck_assert(isfinite(m.lower));
    x[4] = NAN;
    stats_batch_mean(x, 20, 10, &m);
    ck_assert(isnan(m.mean) && isnan(m.lower));
    stats_batch_mean(x, 20, 1, &m);
    ck_assert(isnan(m.lower));
}
END_TEST

START_TEST(trend_of_a_line_and_of_noise)
{
    double x[50];
    for (int i = 0; i < 50; i++) {
        x[i] = 3 - 0.01 * i;
    }
    Trend t;
    stats_trend(x, 50, 0.999, &t);
    assert_near(t.slope, -0.01, 1e-12);
    assert_near(t.slope_upper, -0.01, 1e-9);
    assert_near(t.fall, 0.49, 1e-9);
    for (int i = 0; i < 50; i++) {
        x[i] = i % 2;
    }
    stats_trend(x, 50, 0.999, &t);
    ck_assert(t.slope_lower < 0 && t.slope_upper > 0 && t.fall >= 0);
    const double four[] = {1, 2, 2, 4};   // slope 0.9, residuals 0.1 0.2 -0.7 0.4
    stats_trend(four, 4, 0.95, &t);
    assert_near(t.slope, 0.9, 1e-12);
    assert_near(t.slope_upper - t.slope, 2.919985580353726 * sqrt(0.7 / 2 / 5), 1e-6);
    stats_trend(four, 2, 0.95, &t);
    ck_assert(isnan(t.slope) && isnan(t.fall));
    x[7] = NAN;
    stats_trend(x, 50, 0.999, &t);
    ck_assert(isnan(t.slope) && isnan(t.fall));
}
END_TEST

static const struct {
    double confidence, freedom, value;   // published tables, and R's qt
} t_rows[] = {
    {0.95, 1, 6.313751514675043},
    {0.95, 9, 1.8331129326536335},
    {0.975, 10, 2.2281388519649385},
    {0.999, 1, 318.30883898555044},
    {0.999, 18, 3.610484884825},
    {0.95, 100, 1.6602343260657506},
    {0.9995, 4, 8.610301581379267},
    {0.95, 1e6, 1.644855150},
    {0.05, 9, -1.8331129326536335},
    {0.95, 1e9, 1.6448536269514722},
    {0.5, 7, 0},
};

START_TEST(student_quantiles_match_tables)
{
    assert_near(stats_t_quantile(t_rows[_i].confidence, t_rows[_i].freedom), t_rows[_i].value,
                1e-6 * (1 + fabs(t_rows[_i].value)));
}
END_TEST

START_TEST(normal_quantiles_invert_the_distribution)
{
    assert_near(stats_normal_quantile(0.975), 1.959963984540054, 1e-9);
    assert_near(stats_normal_quantile(0.001), -3.090232306167813, 1e-9);
    assert_near(stats_normal_quantile(1e-10), -6.361340902404056, 1e-9);
    for (double p = 0.0005; p < 1; p += 0.0101) {
        assert_near(stats_normal_cdf(stats_normal_quantile(p)), p, 1e-13);
    }
    ck_assert(stats_normal_quantile(0) == -INFINITY && stats_normal_quantile(1) == INFINITY);
    ck_assert(isnan(stats_normal_quantile(NAN)) && isnan(stats_normal_quantile(1.5)));
    ck_assert(isnan(stats_t_quantile(0.95, 0)) && isnan(stats_t_quantile(1, 3)) &&
              isnan(stats_t_quantile(0.9, NAN)));
}
END_TEST

START_TEST(sums_keep_what_plain_addition_loses)
{
    const double x[] = {1, 1e100, 1, -1e100};
    assert_near(stats_sum(x, 4), 2, 0);
    const double big[] = {INFINITY, 1};
    ck_assert(stats_sum(big, 2) == INFINITY);
    ck_assert(isnan(stats_mean(x, 0)) && isnan(stats_variance(x, 1)));
    const double y[] = {2, 4, 4, 6};
    assert_near(stats_variance(y, 4), 8.0 / 3, 1e-15);
}
END_TEST

START_TEST(quantiles_interpolate)
{
    double x[] = {4, 1, 3, 2};
    assert_near(stats_quantile(x, 4, 0.5), 2.5, 0);
    assert_near(stats_quantile(x, 4, 0), 1, 0);
    assert_near(stats_quantile(x, 4, 1), 4, 0);
    assert_near(stats_quantile(x, 4, 0.25), 1.75, 1e-15);
    ck_assert(isnan(stats_quantile(x, 0, 0.5)) && isnan(stats_quantile(x, 4, 1.5)));
    x[2] = NAN;
    ck_assert(isnan(stats_quantile(x, 4, 0.5)));
}
END_TEST

START_TEST(vector_errors)
{
    const float a[] = {3, 4.5F};
    const double b[] = {3, 4};
    const double zero[] = {0, 0};
    const float none[] = {0, 0};
    assert_near(stats_relative_error(a, b, 2), 0.1, 1e-15);
    ck_assert(isnan(stats_relative_error(a, zero, 2)));
    assert_near(stats_relative_error(none, zero, 2), 0, 0);
    assert_near(stats_cosine(a, b, 2), (9 + 18) / (5 * sqrt(9 + 20.25)), 1e-15);
    ck_assert(isnan(stats_cosine(none, b, 2)));
}
END_TEST

START_TEST(not_a_number_anywhere_gives_none_back)
{
    double bad[] = {0.5, NAN};
    double fine[] = {0.5, 0.6};
    Calibration c;
    ck_assert(isnan(stats_utility(bad, fine, 2, 0.5, 1, 1)) && isnan(stats_utility(fine, bad, 2, 0.5, 1, 1)));
    ck_assert(isnan(stats_best_threshold(fine, bad, 2, 1, 1)));
    stats_calibration(bad, fine, 2, &c);
    ck_assert(isnan(c.ece));
    stats_calibration(fine, bad, 2, &c);
    ck_assert(isnan(c.ece));
    ck_assert(isnan(stats_quantile(fine, 2, NAN)) && isnan(stats_quantile(fine, 2, -1)));
    ck_assert(isnan(stats_psi(bad, fine, 2)) && isnan(stats_sum(bad, 2)) && isnan(stats_variance(bad, 2)));
    const double shares[] = {0, 1};   // an empty bin on the expected side has its floor too
    assert_near(stats_psi(shares, fine, 2),
                (0.5 / 1.1 - 1e-4) * log(0.5 / 1.1 / 1e-4) + (0.6 / 1.1 - 1) * log(0.6 / 1.1), 1e-12);
    PairedDifference d;
    stats_paired(METRIC_AUC, (Predictions){fine, 0, 1}, (Predictions){fine, 0, 1}, fine, &d);
    ck_assert(isnan(d.difference) && !d.identical);
}
END_TEST

START_TEST(metrics_are_found_by_name)
{
    for (int m = 0; m < METRIC_COUNT; m++) {
        Metric found = METRIC_COUNT;
        ck_assert(stats_find_metric(stats_metrics[m].name, &found) && (int)found == m);
    }
    Metric none;
    ck_assert(!stats_find_metric("f1", &none) && !stats_find_metric(NULL, &none));
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("stats");
    TCase *c = tcase_create("all");
    tcase_add_loop_test(c, auc_and_delong_equal_their_definitions, 0,
                        sizeof tie_levels / sizeof tie_levels[0]);
    tcase_add_test(c, auc_of_known_arrays);
    tcase_add_test(c, undefined_metrics_are_not_numbers);
    tcase_add_test(c, losses_of_known_arrays);
    tcase_add_loop_test(c, row_metric_errors_agree_with_a_bootstrap, 0, 3);
    tcase_add_test(c, identical_and_constant_predictions_are_told);
    tcase_add_test(c, one_positive_row_has_no_delong_error);
    tcase_add_test(c, utility_counts_decisions);
    tcase_add_test(c, best_threshold_is_the_smallest_of_the_best);
    tcase_add_test(c, calibration_bins_equal_counts_and_ignores_order_in_ties);
    tcase_add_test(c, psi_is_zero_for_equal_shares_and_floors_empty_bins);
    tcase_add_test(c, batch_means_of_a_known_series);
    tcase_add_test(c, trend_of_a_line_and_of_noise);
    tcase_add_loop_test(c, student_quantiles_match_tables, 0, sizeof t_rows / sizeof t_rows[0]);
    tcase_add_test(c, normal_quantiles_invert_the_distribution);
    tcase_add_test(c, sums_keep_what_plain_addition_loses);
    tcase_add_test(c, quantiles_interpolate);
    tcase_add_test(c, vector_errors);
    tcase_add_test(c, not_a_number_anywhere_gives_none_back);
    tcase_add_test(c, metrics_are_found_by_name);
    suite_add_tcase(s, c);
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
