// evaluate_beside - what is measured beside the metrics of step 8: calibration, the distribution of the
// predictions, scoring latency.
#include "evaluate_internal.h"

#include <math.h>

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

// Scoring one row at a time, as a service would.
bool evaluate_put_latency(Evaluation *e, Error *error)
{
    enum { CALLS = 200 };
    double ns[CALLS], score[256], mean = 0, deviation = 1;
    size_t calls = e->test.rows < CALLS ? e->test.rows : CALLS;
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
        ns[i] = (double)(clock_monotonic_ns(e->night->clock) - begun);
    }
    Json *latency = night_section(e->child->evidence, "latency");
    json_put_integer(latency, "calls", (int64_t)calls);
    json_put_integer(latency, "rows_per_call", 1);
    json_put_number(latency, "p50_ns", stats_quantile(ns, calls, 0.5));
    json_put_number(latency, "p99_ns", stats_quantile(ns, calls, 0.99));
    return true;
}
