// parity_operations - rung 2: single operations against float64, scaled by the norms of their operands.
//
// Two questions at once: is the half arm good enough, and is it half at all? An arm that claims BF16 and errs
// like FP32 never ran in BF16, and a comparison with it says nothing.
#include "parity_internal.h"

#include <fedgate/text.h>

#include <stdio.h>

enum { GROWTH_LEAST = 3 };
static const double GROWTH_SPAN =
    16;   // longest over shortest reduction: sqrt growth then shows as a factor 4
static const double U_FP32 = 0x1p-24;
static const double REFERENCE_MOST =
    1e-4;   // as of a probe: a fifth of TF32's round-off, whatever the length

// What a pass does (trainer/parity_operations.c); an operation that is not compared may be wrong.
static const char *const wanted[] = {
    "dense",
    "dense, one output",
    "dense, large values",
    "dense, cancelling outputs",
    "weight gradient",
    "bias gradient",
    "input gradient with mask",
    "assemble",
    "embedding gradient",
    "optimizer, zero gradient",
    "loss sum, binary",
    "loss sum, classes",
    "loss sum, square",
};

typedef struct Operation {
    const char *name, *shape;
    int64_t reduction;
    double error, reference;
} Operation;

static bool read_operation(const Section *list, const Json *item, Operation *ret)
{
    Section op;
    bool read = section_inside(list, item, &op) && section_text(&op, "name", &ret->name) &&
                section_text(&op, "shape", &ret->shape) && section_count(&op, "reduction", &ret->reduction) &&
                ladder_error(&op, "error", &ret->error) &&
                ladder_error(&op, "reference_error", &ret->reference);
    if (read && ret->reduction == 0) {
        finding_set(list->finding, OUTCOME_ERROR, NO_FIGURE, "operation '%.60s' reduces nothing: length 0",
                    ret->name);
        return false;
    }
    return read;
}

static void see_operation(Ladder *ladder, const Operation *op, double *best)
{
    double reference_limit = fmin(4 * sqrt((double)op->reduction) * U_FP32, REFERENCE_MOST);
    bar_see(ladder, BAR_OPERATION, op->error, bar_limit(ladder, BAR_OPERATION), op->name, op->shape);
    bar_see(ladder, BAR_OPERATION_REFERENCE, op->reference, reference_limit, op->name, op->shape);
    bar_see(ladder, BAR_OPERATION_EXACT, op->error * sqrt((double)op->reduction),
            bar_limit(ladder, BAR_OPERATION_EXACT), op->name, op->shape);
    if (isfinite(op->error)) {
        *best = fmax(*best, op->error / fmax(op->reference, U_FP32));
    } else {   // bad, but not for being FP32
        *best = fmax(*best, bar_limit(ladder, BAR_OPERATION_HALF));
    }
}

static bool measure_operations(Ladder *ladder, const Section *parity, double *ret_best)
{
    const Json *operations = NULL;
    Section list;
    if (!ladder_list(parity, "operations", "parity.operations", &operations, &list) ||
        !section_distinct(&list, operations, "name", "shape")) {
        return false;
    }
    int64_t sums = 0;
    for (size_t i = 0; i < json_count(operations); i++) {
        Operation op;
        if (!read_operation(&list, json_at(operations, i), &op)) {
            return false;
        }
        if (!text_starts_with(op.name, "loss sum")) {
            see_operation(ladder, &op, ret_best);
            continue;
        }
        bar_see(ladder, BAR_LOSS_SUM, op.error, bar_limit(ladder, BAR_LOSS_SUM), op.name, op.shape);
        bar_see(ladder, BAR_LOSS_SUM, op.reference, bar_limit(ladder, BAR_LOSS_SUM), op.name, "in FP32");
        sums++;
    }
    if (sums == 0 || ladder->readings[BAR_OPERATION].n == 0) {
        finding_set(parity->finding, OUTCOME_NOT_MEASURED, NO_FIGURE, "'parity.operations' holds no %s",
                    sums == 0 ? "'loss sum'" : "product");
        return false;
    }
    bar_see(ladder, BAR_OPERATION_HALF, *ret_best, bar_limit(ladder, BAR_OPERATION_HALF), "", "");
    return true;
}

static bool measure_growth(Ladder *ladder, const Section *parity)
{
    Section growth;
    const double *reduction = NULL;
    const double *error = NULL;
    if (!section_child(parity, "growth", "parity.growth", &growth) ||
        !section_amounts(&growth, "reduction", &reduction) || !section_series(&growth, "error", &error)) {
        return false;
    }
    size_t count = growth.length;
    for (size_t i = 0; i < count; i++) {
        bool sound = reduction[i] > (i == 0 ? 0 : reduction[i - 1]) && !(error[i] < 0);
        if (!sound) {
            finding_set(parity->finding, OUTCOME_ERROR, NO_FIGURE,
                        "'parity.growth' is impossible at entry %zu: error %g at reduction length %g", i,
                        error[i], reduction[i]);
            return false;
        }
        char at[64];
        snprintf(at, sizeof at, "at length %.0f", reduction[i]);
        bar_see(ladder, BAR_GROWTH, error[i], bar_limit(ladder, BAR_GROWTH), "", at);
        bar_see(ladder, BAR_GROWTH_HALF, error[i], bar_limit(ladder, BAR_GROWTH_HALF), "", at);
    }
    if (count < GROWTH_LEAST || reduction[count - 1] < GROWTH_SPAN * reduction[0]) {
        finding_set(parity->finding, OUTCOME_NOT_MEASURED, NO_FIGURE,
                    "%zu reduction lengths cannot show growth: at least %d are needed, the longest %g times "
                    "the shortest",
                    count, GROWTH_LEAST, GROWTH_SPAN);
        return false;
    }
    bar_see(ladder, BAR_GROWTH_SLOPE, stats_power_slope(reduction, error, count),
            bar_limit(ladder, BAR_GROWTH_SLOPE), "", "");
    return true;
}

static void name_cause(Ladder *ladder, double best)
{
    const Reading *readings = ladder->readings;
    bool exact = bar_broken(ladder, BAR_OPERATION_HALF) || bar_broken(ladder, BAR_GROWTH_HALF);
    bool reference_coarse = bar_broken(ladder, BAR_OPERATION_REFERENCE);
    if (exact && reference_coarse && best < 1 / bar_limit(ladder, BAR_OPERATION_HALF)) {
        bar_name_cause(
            ladder, BAR_OPERATION_REFERENCE,
            "the arms are swapped: '%.40s' errs by %.3g in the FP32 arm, at most %.3g, while the arm "
            "that claims %s errs like FP32",
            readings[BAR_OPERATION_REFERENCE].worst, readings[BAR_OPERATION_REFERENCE].value,
            readings[BAR_OPERATION_REFERENCE].limit, ladder->precision);
    } else if (reference_coarse) {
        bar_name_cause(ladder, BAR_OPERATION_REFERENCE,
                       "the reference is not FP32: operation '%.40s' errs by %.3g of the norms, at most %.3g",
                       readings[BAR_OPERATION_REFERENCE].worst, readings[BAR_OPERATION_REFERENCE].value,
                       readings[BAR_OPERATION_REFERENCE].limit);
    } else if (bar_broken(ladder, BAR_OPERATION_HALF)) {
        bar_name_cause(
            ladder, BAR_OPERATION_HALF,
            "the arm that claims %s computes like FP32: its errors are at most %.3g times those of "
            "FP32, at least %.3g expected",
            ladder->precision, best, readings[BAR_OPERATION_HALF].limit);
    } else if (bar_broken(ladder, BAR_GROWTH_HALF) && isfinite(readings[BAR_GROWTH_HALF].value)) {
        bar_name_cause(ladder, BAR_GROWTH_HALF,
                       "the arm that claims %s is more exact than it can be: long products err by %.3g, at "
                       "least %.3g expected",
                       ladder->precision, readings[BAR_GROWTH_HALF].value, readings[BAR_GROWTH_HALF].limit);
    } else if (bar_broken(ladder, BAR_GROWTH_SLOPE) && isfinite(readings[BAR_GROWTH_SLOPE].value)) {
        bar_name_cause(ladder, BAR_GROWTH_SLOPE,
                       "sums are accumulated in half precision: the error grows with the length to the power "
                       "%.3g, at most %.3g",
                       readings[BAR_GROWTH_SLOPE].value, readings[BAR_GROWTH_SLOPE].limit);
    } else if (bar_broken(ladder, BAR_LOSS_SUM) && isfinite(readings[BAR_LOSS_SUM].value)) {
        bar_name_cause(ladder, BAR_LOSS_SUM,
                       "the loss is accumulated in reduced precision: '%.40s' errs by %.3g, at most %.3g",
                       readings[BAR_LOSS_SUM].worst, readings[BAR_LOSS_SUM].value,
                       readings[BAR_LOSS_SUM].limit);
    }
}

static void all_operations(const Section *parity)
{
    const Json *operations = json_get(parity->at, "operations");
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0] && parity->finding->outcome == OUTCOME_PASS;
         i++) {
        size_t found = 0;
        for (size_t k = 0; k < json_count(operations); k++) {
            found += text_equal(json_text_or(json_get(json_at(operations, k), "name"), ""), wanted[i]);
        }
        if (found == 0) {
            finding_set(parity->finding, OUTCOME_NOT_MEASURED, NO_FIGURE, "operation '%s' was not compared",
                        wanted[i]);
        }
    }
}

void rung_operations(Ladder *ladder, const Section *parity)
{
    double best = 0;
    if (measure_operations(ladder, parity, &best) && measure_growth(ladder, parity)) {
        name_cause(ladder, best);
        all_operations(parity);
    }
}
