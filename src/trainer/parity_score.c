// parity_score - rung 6: the metric of an arm's scores on the validation rows, whole and by slice, each arm
// in its own arithmetic.
#include "bench.h"
#include "parity_internal.h"

#include <fedgate/fault.h>
#include <math.h>
#include <string.h>

enum { SCORE_ROWS = 512 };   // at a time, as the scoring of a model

static size_t outputs_of(const Parity *parity)
{
    return (size_t)parity->trainer->network.shape.outputs;
}

bool scorer_open(Scorer *scorer, Parity *parity, Error *error)
{
    const Trainer *trainer = parity->trainer;
    const size_t rows = trainer->validation.rows, outputs = outputs_of(parity);
    *scorer = (Scorer){.spec = parity->spec};
    for (size_t c = 0; c < scorer->spec->slice_count; c++)
        scorer->slices += scorer->spec->slices[c].name_count;
    const int64_t row_bytes = (int64_t)(outputs * sizeof(double));
    scorer->device_rows = trainer->network.rows < SCORE_ROWS ? trainer->network.rows : SCORE_ROWS;
    if (scorer->device_rows * row_bytes > BENCH_BYTES)   // what the plan holds for it
        scorer->device_rows = BENCH_BYTES / row_bytes;
    scorer->device_bytes = scorer->device_rows * row_bytes;
    scorer->score = parity_take(parity, (int64_t)((2 * outputs + 1) * rows * sizeof(double)) + 1, error);
    if (!scorer->score)
        return false;
    scorer->slice_score = scorer->score + rows * outputs;
    scorer->slice_target = scorer->slice_score + rows * outputs;
    scorer->device_score = device_take(trainer->spec.device, "workspace", scorer->device_bytes, error);
    return scorer->device_score != NULL;
}

void scorer_close(Scorer *scorer, Parity *parity)
{
    device_give(parity->trainer->spec.device, "workspace", scorer->device_score, scorer->device_bytes);
}

static bool score_rows(Scorer *scorer, Parity *parity, Arm arm, Error *error)
{
    Trainer *trainer = parity->trainer;
    Network *network = parity->arm[arm];
    const int64_t rows = (int64_t)trainer->validation.rows, outputs = network->shape.outputs;
    parity_prepare(parity, arm);
    for (int64_t first = 0; first < rows; first += scorer->device_rows) {
        Rows piece;
        if (!parity_goes_on(parity, error))
            return false;
        int64_t count = rows - first < scorer->device_rows ? rows - first : scorer->device_rows;
        if (!trainer_validation_rows(trainer, first, count, &piece, error))
            return false;
        network_forward(network, &piece, NULL);
        device_score(network->device, &(FedgateScore){.kind = network->kind,
                                                      .logits = network_logits(network),
                                                      .score = scorer->device_score,
                                                      .rows = count,
                                                      .outputs = outputs});
        if (!device_copy_out(network->device, scorer->score + first * outputs, scorer->device_score,
                             count * outputs * (int64_t)sizeof(double), error))
            return false;
    }
    double mean = 0, deviation = 1;
    maps_target(trainer->spec.maps, &mean, &deviation);   // 0 and 1 but for regression
    for (int64_t i = 0; i < rows * outputs; i++)
        scorer->score[i] = scorer->score[i] * deviation + mean;
    parity->row_passes += (double)rows;
    return true;
}

static double metric_of(const Parity *parity, const double *score, const double *target, size_t rows)
{
    Predictions predictions = {.score = score, .rows = rows, .classes = (int)outputs_of(parity)};
    return stats_metric(parity->spec->metric, predictions, target, NULL);
}

static double slice_metric(const Scorer *scorer, const Parity *parity, const Column *column, int32_t code,
                           bool planted_nan)
{
    const size_t outputs = outputs_of(parity);
    const double *target = parity->trainer->validation.target;
    size_t rows = 0;
    for (size_t i = 0; i < column->rows; i++) {
        if (column->codes[i] != code)
            continue;
        for (size_t k = 0; k < outputs; k++)
            scorer->slice_score[rows * outputs + k] =
                planted_nan ? (double)NAN : scorer->score[i * outputs + k];
        scorer->slice_target[rows++] = target[i];
    }
    return metric_of(parity, scorer->slice_score, scorer->slice_target, rows);
}

bool scorer_run(Scorer *scorer, Parity *parity, Arm arm, double *ret_metric, double *ret_slices, Error *error)
{
    const Trainer *trainer = parity->trainer;
    if (!score_rows(scorer, parity, arm, error))
        return false;
    *ret_metric = metric_of(parity, scorer->score, trainer->validation.target, trainer->validation.rows);
    bool planted = arm == ARM_CANDIDATE && fault_set("parity.nan_slice");
    for (size_t c = 0, at = 0; ret_slices && c < scorer->spec->slice_count; c++) {
        const Column *column = &scorer->spec->slices[c];
        for (size_t code = 0; code < column->name_count; code++, at++)
            ret_slices[at] = slice_metric(scorer, parity, column, (int32_t)code, planted && at == 0);
    }
    return true;
}

static bool is_binary(const Parity *parity)
{
    return parity->trainer->network.kind == FEDGATE_LOSS_BINARY;
}

// AUC moves by half a pair when a tie appears, accuracy by a row; losses move by what a double can hold.
double scorer_quantum(const Parity *parity)
{
    const Table *table = &parity->trainer->validation;
    double positives = 0, rows = (double)table->rows;
    for (size_t i = 0; i < table->rows; i++)
        positives += table->target[i] == 1.0;
    switch (parity->spec->metric) {
    case METRIC_AUC:
        return 0.5 / (positives * (rows - positives));
    case METRIC_ACCURACY:
        return 1 / rows;
    default:
        return 0;
    }
}

static Json *series(const double *values, size_t pairs, size_t stride)
{
    Json *array = json_make_array();
    for (size_t i = 0; i < pairs; i++)
        json_add_number(array, values[i * stride]);
    return array;
}

static void put_slice(const Scorer *scorer, const Parity *parity, size_t c, size_t code, size_t at,
                      size_t pairs, const double *const values[ARM_COUNT], Json *slices)
{
    const Column *column = &scorer->spec->slices[c];
    int64_t rows = 0, positives = 0;
    for (size_t i = 0; i < column->rows; i++)
        if (column->codes[i] == (int32_t)code) {
            rows++;
            positives += parity->trainer->validation.target[i] == 1.0;
        }
    if (rows == 0)
        return;
    Json *slice = json_make_object();
    json_put_text(slice, "column", scorer->spec->slice_names[c]);
    json_put_text(slice, "value", column->names[code]);
    json_put_integer(slice, "rows", rows);
    if (is_binary(parity))
        json_put_integer(slice, "positives", positives);
    bool defined = parity->spec->metric != METRIC_AUC || (positives > 0 && positives < rows);
    if (defined) {
        json_put(slice, "reference", series(values[ARM_REFERENCE] + at, pairs, scorer->slices));
        json_put(slice, "candidate", series(values[ARM_CANDIDATE] + at, pairs, scorer->slices));
    }
    json_add(slices, slice);
}

void scorer_put_slices(const Scorer *scorer, const Parity *parity, size_t pairs,
                       const double *const values[ARM_COUNT], Json *slices)
{
    for (size_t c = 0, at = 0; c < scorer->spec->slice_count; c++)
        for (size_t code = 0; code < scorer->spec->slices[c].name_count; code++, at++)
            put_slice(scorer, parity, c, code, at, pairs, values, slices);
}
