// evaluate_beside - what is measured beside the metrics of step 8: calibration, the distribution of the
// predictions and its shift against the live version's, scoring latency.
#include "evaluate_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void evaluate_put_calibration(Evaluation *e, Json *quality)
{
    const Scores *candidate = &e->models[MODEL_CANDIDATE];
    Calibration calibration;
    stats_calibration(candidate->test, e->test.target, e->test.rows, &calibration);
    Json *json = json_make_object(), *bins = json_make_array();
    json_put_number(json, "ece", calibration.ece);
    for (int b = 0; b < CALIBRATION_BINS; b++) {
        Json *bin = json_make_object();
        json_put_number(bin, "mean_score", calibration.mean_score[b]);
        json_put_number(bin, "positive_rate", calibration.positive_rate[b]);
        json_put_integer(bin, "rows", (int64_t)calibration.rows[b]);
        json_add(bins, bin);
    }
    json_put(json, "bins", bins);
    json_put(quality, "calibration", json);
    json_put_number(quality, "threshold", evaluate_threshold(e, candidate));
}

enum { PREDICTION_BINS = 10 };

// Distribution of the candidate's scores on test rows: ten equal bins of [0, 1], or of the range for
// regression.
void evaluate_put_distribution(Evaluation *e)
{
    const double *score = e->models[MODEL_CANDIDATE].test;
    double low = 0, high = 1;
    if (e->regression) {
        low = high = score[0];
        for (size_t i = 0; i < e->test.rows; i++) {
            low = fmin(low, score[i]);
            high = fmax(high, score[i]);
        }
    }
    int64_t rows[PREDICTION_BINS] = {0}, positives[PREDICTION_BINS] = {0};
    for (size_t i = 0; i < e->test.rows; i++) {
        double position =
            high > low ? (score[i * (size_t)e->width] - low) / (high - low) * PREDICTION_BINS : 0;
        int bin = position >= PREDICTION_BINS ? PREDICTION_BINS - 1 : position > 0 ? (int)position : 0;
        rows[bin]++;
        positives[bin] += e->test.target[i] == 1.0;
    }
    Json *bins = json_make_array();
    for (int b = 0; b < PREDICTION_BINS; b++) {
        Json *bin = json_make_object();
        json_put_text(bin, "model", "candidate");
        json_put_integer(bin, "bin", b);
        json_put_number(bin, "low", low + (high - low) * b / PREDICTION_BINS);
        json_put_number(bin, "high", low + (high - low) * (b + 1) / PREDICTION_BINS);
        json_put_integer(bin, "rows", rows[b]);
        json_put_integer(bin, "positives", positives[b]);
        json_add(bins, bin);
    }
    json_put(night_section(e->child->evidence, "prediction"), "bins", bins);
}

// -- shift against the live version: PSI over ten bins of equal counts of its scores, difference of the means

typedef struct Shift {
    double psi, difference, deviation;
} Shift;

// Bins are cut at the live scores' own tenths; equal scores fall into one bin on both sides.
static double shift_psi(const double *live, const double *scores, double *sorted, size_t rows)
{
    double edges[PREDICTION_BINS - 1], expected[PREDICTION_BINS] = {0}, actual[PREDICTION_BINS] = {0};
    if (!isfinite(stats_sum(live, rows)) || !isfinite(stats_sum(scores, rows)))
        return (double)NAN;
    for (int k = 1; k < PREDICTION_BINS; k++)
        edges[k - 1] = stats_quantile(sorted, rows, (double)k / PREDICTION_BINS);
    for (size_t i = 0; i < rows; i++) {
        int of_live = 0, of_candidate = 0;
        for (int k = 0; k < PREDICTION_BINS - 1; k++) {
            of_live += live[i] >= edges[k];
            of_candidate += scores[i] >= edges[k];
        }
        expected[of_live]++;
        actual[of_candidate]++;
    }
    return stats_psi(expected, actual, PREDICTION_BINS);
}

static Shift shift_of(const double *live, const double *scores, double *sorted, size_t rows)
{
    memcpy(sorted, live, rows * sizeof *sorted);
    return (Shift){.psi = shift_psi(live, scores, sorted, rows),
                   .difference = stats_mean(scores, rows) - stats_mean(live, rows),
                   .deviation = sqrt(stats_variance(live, rows))};
}

static double moved(const Shift *shift)
{
    return shift->difference == 0 ? 0 : fabs(shift->difference) / shift->deviation;
}

// Of several scores a row, classes or not, the worst index and the worst mean; what is not a number is worst.
static void worst_shift(const Evaluation *e, double *columns, Shift *ret)
{
    size_t rows = e->test.rows, width = (size_t)e->width;
    for (size_t c = 0; c < width; c++) {
        double *live = columns, *scores = columns + rows, *sorted = columns + 2 * rows;
        for (size_t i = 0; i < rows; i++) {
            live[i] = e->models[MODEL_LIVE].test[i * width + c];
            scores[i] = e->models[MODEL_CANDIDATE].test[i * width + c];
        }
        Shift shift = shift_of(live, scores, sorted, rows);
        if (c == 0 || (!isnan(ret->psi) && !(shift.psi <= ret->psi)))
            ret->psi = shift.psi;
        if (c == 0 || (!isnan(moved(ret)) && !(moved(&shift) <= moved(ret)))) {
            ret->difference = shift.difference;
            ret->deviation = shift.deviation;
        }
    }
}

bool evaluate_put_shift(Evaluation *e, Error *error)
{
    Json *distribution = night_section(e->child->evidence, "distribution");
    json_put_text(distribution, "live_kind", e->live_kind);
    if (!e->models[MODEL_LIVE].present)
        return true;
    double *columns = calloc(3 * e->test.rows + 1, sizeof *columns);
    if (columns == NULL)
        return FAIL(error, ERROR_MEMORY, 0, "could not allocate the scores of the live version");
    Shift shift = {0};
    worst_shift(e, columns, &shift);
    free(columns);
    json_put_text(distribution, "reference_version", e->models[MODEL_LIVE].version);
    json_put_integer(distribution, "rows", (int64_t)e->test.rows);
    json_put_number(distribution, "psi", shift.psi);
    json_put_number(distribution, "mean_difference", shift.difference);
    json_put_number(distribution, "deviation", shift.deviation);
    return true;
}

// Scoring one row at a time, as a service would.
bool evaluate_put_latency(Evaluation *e, Error *error)
{
    enum { CALLS = 200 };
    double ns[CALLS], score[256], mean = 0, deviation = 1;
    size_t calls = e->test.rows < CALLS ? e->test.rows : CALLS;
    int64_t slow_ns = (int64_t)fault_value("score.slow_ns", 0);
    maps_target(e->night->maps, &mean, &deviation);
    if (e->width > 256)
        return true;
    for (size_t i = 0; i < calls; i++) {
        Table row = {.rows = 1,
                     .numeric = e->test.numeric,
                     .categorical = e->test.categorical,
                     .x = e->test.x + i * e->test.numeric,
                     .codes = e->test.codes + i * e->test.categorical,
                     .target = e->test.target + i,
                     .row_id = e->test.row_id + i};
        int64_t begun = clock_monotonic_ns(e->night->clock);
        if (!model_predict(e->child->model, e->child->device, e->night->ledger, &row, mean, deviation, score,
                           error))
            return false;
        if (slow_ns > 0)
            clock_sleep_ns(e->night->clock, slow_ns);
        ns[i] = (double)(clock_monotonic_ns(e->night->clock) - begun);
    }
    Json *latency = night_section(e->child->evidence, "latency");
    json_put_integer(latency, "calls", (int64_t)calls);
    json_put_integer(latency, "rows_per_call", 1);
    json_put_number(latency, "p50_ns", stats_quantile(ns, calls, 0.5));
    json_put_number(latency, "p99_ns", stats_quantile(ns, calls, 0.99));
    return true;
}
