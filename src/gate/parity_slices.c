// parity_slices - rung 6, slice by slice: does half precision harm any of them beyond the margin?
//
// A paired one-sided t-test for each slice, corrected for their number by Holm. What is not a number in half
// precision is harm at any size; slices too small to tell anything are counted.
#include "parity_internal.h"

#include <fedgate/text.h>

static const double ALPHA = 0.05;

typedef struct Slice {
    const char *column, *value;
    int64_t rows, positives;   // positives -1: not a binary task
    const double *reference, *candidate;   // NULL: the metric is not defined on these rows
    size_t pairs;
} Slice;

static bool read_slice(const Section *list, const Json *item, Slice *ret)
{
    Section slice;
    *ret = (Slice){.positives = -1};
    if (!section_inside(list, item, &slice) || !section_text(&slice, "column", &ret->column) ||
        !section_text(&slice, "value", &ret->value) || !section_count(&slice, "rows", &ret->rows) ||
        (section_has(&slice, "positives") && !section_count(&slice, "positives", &ret->positives))) {
        return false;
    }
    if (ret->positives > ret->rows) {
        finding_set(list->finding, OUTCOME_ERROR, NO_FIGURE,
                    "slice %.40s '%.40s' has %lld positives in %lld rows", ret->column, ret->value,
                    (long long)ret->positives, (long long)ret->rows);
        return false;
    }
    bool one_class = ret->positives == 0 || ret->positives == ret->rows;
    if (ret->rows == 0 || (one_class && !section_has(&slice, "reference"))) {
        return true;
    }
    if (!section_series(&slice, "reference", &ret->reference) ||
        !section_series(&slice, "candidate", &ret->candidate)) {
        return false;
    }
    ret->pairs = slice.length;
    return true;
}

// Undefined in both arms for want of rows of a class; in one arm only, the arm is broken.
static bool undefined(const Slice *slice)
{
    bool all = true;
    for (size_t i = 0; i < slice->pairs; i++) {
        all = all && isnan(slice->reference[i]) && isnan(slice->candidate[i]);
    }
    return all;
}

typedef struct Harms {
    const Slice *slices;
    size_t count;
    double *mean, *p;   // of the difference (positive: half precision is better), of harm beyond the margin
    int64_t small;
} Harms;

// p-value of harm up to the margin; NaN when it cannot be told.
static double test_harm(const double *difference, size_t pairs, double margin, double *ret_mean)
{
    *ret_mean = stats_mean(difference, pairs);
    double error = sqrt(stats_variance(difference, pairs) / (double)pairs);
    return stats_t_cdf((*ret_mean + margin) / error, (double)(pairs - 1));
}

static bool judge_slice(const Section *list, const MetricInfo *metric, const Slice *slice, double margin,
                        double *ret_mean, double *ret_p)
{
    double *difference = section_scratch(list, slice->pairs);
    if (difference == NULL) {
        return false;
    }
    for (size_t i = 0; i < slice->pairs; i++) {
        difference[i] = ladder_difference(metric, slice->candidate[i], slice->reference[i]);
        if (!isfinite(difference[i])) {
            finding_set(list->finding, OUTCOME_FAIL, (Figure){slice->candidate[i], NAN, "", slice->rows},
                        "%s of slice %.40s '%.40s' is %g in half precision and %g in FP32", metric->name,
                        slice->column, slice->value, slice->candidate[i], slice->reference[i]);
            return false;
        }
    }
    *ret_p = test_harm(difference, slice->pairs, margin, ret_mean);
    return true;
}

static bool measure_slices(const Ladder *ladder, const Section *list, const MetricInfo *metric, Slice *slices,
                           const Json *array, int64_t tonight, Harms *ret)
{
    int64_t enough = config_integer(ladder->policy, "quality.slice_rows");
    double margin = config_real(ladder->policy, "parity.slice_margin");
    for (size_t i = 0; i < json_count(array); i++) {
        Slice *slice = &slices[ret->count];
        if (!read_slice(list, json_at(array, i), slice)) {
            return false;
        }
        if (slice->reference == NULL || (slice->rows < enough && undefined(slice))) {
            ret->small++;
            continue;
        }
        if (slice->pairs < 2 || (int64_t)slice->pairs != tonight) {
            finding_set(list->finding, OUTCOME_ERROR, NO_FIGURE,
                        "slice %.40s '%.40s' has %zu pairs, this night ran %lld", slice->column, slice->value,
                        slice->pairs, (long long)tonight);
            return false;
        }
        if (!judge_slice(list, metric, slice, margin, &ret->mean[ret->count], &ret->p[ret->count])) {
            return false;
        }
        bool resolved = slice->rows >= enough;
        ret->small += !resolved;
        ret->count += resolved;
    }
    return true;
}

static void see_harms(Ladder *ladder, const Section *list, const Harms *harms, bool *rejected)
{
    double margin = config_real(ladder->policy, "parity.slice_margin");
    stats_holm(harms->p, harms->count, ALPHA, rejected);
    for (size_t i = 0; i < harms->count; i++) {
        double harm = fmax(0, -harms->mean[i]);
        bar_see(ladder, BAR_SLICE, harm, margin, harms->slices[i].value, harms->slices[i].column);
        if (rejected[i] && list->finding->outcome == OUTCOME_PASS) {
            finding_set(
                list->finding, OUTCOME_FAIL, (Figure){harm, margin, "", (int64_t)harms->slices[i].pairs},
                "slice %.40s '%.40s' is harmed by %.3g in %zu pairs, at most %.3g (p %.2g, Holm over %zu "
                "slices)",
                harms->slices[i].column, harms->slices[i].value, harm, harms->slices[i].pairs, margin,
                harms->p[i], harms->count);
            ladder->named[RUNG_SLICES] = true;
        }
    }
    // A mean over the margin by chance is no harm: only the test decides.
    ladder->readings[BAR_SLICE].outcome = list->finding->outcome;
}

static bool covered(const Ladder *ladder, const Section *list, const Json *array)
{
    for (size_t i = 0; i < config_list_count(ladder->policy, "quality.slices"); i++) {
        const char *column = config_list_text(ladder->policy, "quality.slices", i);
        size_t found = 0;
        for (size_t k = 0; k < json_count(array); k++) {
            found += text_equal(json_text_or(json_get(json_at(array, k), "column"), ""), column);
        }
        if (found == 0) {
            finding_set(list->finding, OUTCOME_NOT_MEASURED, NO_FIGURE,
                        "no slice of column '%.80s' was compared", column);
            return false;
        }
    }
    return true;
}

void rung_slices(Ladder *ladder, const Section *parity)
{
    Section metric;
    Section list = *parity;
    Metric name = METRIC_COUNT;
    const Json *array = NULL;
    if (config_list_count(ladder->policy, "quality.slices") == 0 && !section_has(parity, "slices")) {
        finding_set(parity->finding, OUTCOME_NOT_APPLICABLE, NO_FIGURE, "no slice is declared");
        return;
    }
    list.name = "parity.slices";
    if (!section_array(parity, "slices", &array) || !ladder_metric(parity, &metric, &name) ||
        !covered(ladder, &list, array) || !section_distinct(&list, array, "column", "value")) {
        return;
    }
    size_t count = json_count(array);
    Slice *slices = ladder_room(&list, count, sizeof *slices);
    bool *rejected = ladder_room(&list, count, sizeof *rejected);
    Harms harms = {slices, 0, ladder_room(&list, count, sizeof(double)),
                   ladder_room(&list, count, sizeof(double)), 0};
    if (slices == NULL || rejected == NULL || harms.mean == NULL || harms.p == NULL) {
        return;
    }
    int64_t tonight = ladder_pairs_tonight(ladder, json_get(metric.at, "pairs"));
    if (measure_slices(ladder, &list, &stats_metrics[name], slices, array, tonight, &harms)) {
        see_harms(ladder, &list, &harms, rejected);
        if (harms.count == 0) {
            finding_set(list.finding, OUTCOME_NOT_APPLICABLE, NO_FIGURE,
                        "%lld slices are too small to tell anything", (long long)harms.small);
        }
    }
}
