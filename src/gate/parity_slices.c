// parity_slices - rung 6, slice by slice: does half precision harm any of them beyond the margin?
//
// Three answers from paired differences. The upper bound of the harm lies inside the margin: no harm; all
// slices must answer so, hence no correction for their number (intersection-union, Berger 1982). Harm beyond
// the margin is proven, by Holm over all slices: fail. Else undecided. What is not a number in half precision
// is harm at any size.
//
// A slice is too small when a single row moves its metric by more than the usual margin: a positive that
// falls below all negatives costs 1 / positives of AUC, a row 1 / rows of accuracy and of a mean loss. There
// chance of one row and harm are the same within the margin, so it is not asked for a bound; but harm beyond
// what one row can do is proven in a slice of any size.
#include "parity_internal.h"

#include <fedgate/text.h>

static const double ALPHA = 0.05;

typedef struct Slice {
    const char *column, *value;
    int64_t rows, positives;   // positives -1: not a binary task
    const double *reference, *candidate;   // NULL: the metric is not defined on these rows
    size_t pairs;
} Slice;

static bool read_slice(const Section *list, const Json *item, Metric name, Slice *ret)
{
    Section slice;
    *ret = (Slice){.positives = -1};
    if (!section_inside(list, item, &slice) || !section_text(&slice, "column", &ret->column) ||
        !section_text(&slice, "value", &ret->value) || !section_count(&slice, "rows", &ret->rows) ||
        ((name == METRIC_AUC || section_has(&slice, "positives")) &&
         !section_count(&slice, "positives", &ret->positives))) {
        return false;
    }
    if (ret->positives > ret->rows) {
        finding_set(list->finding, OUTCOME_ERROR, NO_FIGURE,
                    "slice %.40s '%.40s' has %lld positives in %lld rows", ret->column, ret->value,
                    (long long)ret->positives, (long long)ret->rows);
        return false;
    }
    bool one_class = name == METRIC_AUC && (ret->positives == 0 || ret->positives == ret->rows);
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

// A class is missing, so that no arm has an AUC; in one arm only, the arm is broken.
static bool undefined(const Slice *slice)
{
    bool all = slice->positives == 0 || slice->positives == slice->rows;
    for (size_t i = 0; i < slice->pairs; i++) {
        all = all && isnan(slice->reference[i]) && isnan(slice->candidate[i]);
    }
    return all;
}

// Rows of which a single one is the metric's step at its coarsest.
static int64_t resolving_rows(Metric name, const Slice *slice)
{
    int64_t negatives = slice->rows - slice->positives;
    int64_t fewer = slice->positives < negatives ? slice->positives : negatives;
    return name == METRIC_AUC ? fewer : slice->rows;
}

// Differences cannot be known better than the metric's smallest step.
static double least_deviation(Metric name, const Slice *slice)
{
    double positives = (double)slice->positives;
    double negatives = (double)slice->rows - positives;
    double quantum = name == METRIC_AUC && slice->positives > 0 && negatives > 0
                         ? 0.5 / (positives * negatives)
                     : name == METRIC_ACCURACY ? 1 / (double)slice->rows
                                               : 0;
    return quantum / sqrt(12);
}

typedef struct Harms {
    const Slice *slices;
    size_t count;
    double *mean, *bound, *p;   // of the harm: mean, upper bound, p-value of at most the limit
    double *limit;   // the margin; in a small slice, what one row can do when that is more
    double *told;   // the smallest margin within which no harm can be told, at the power declared
    bool *resolved;
    int64_t small;
} Harms;

static bool judge_slice(const Section *list, Metric name, const Slice *slice, double margin, Harms *harms)
{
    const MetricInfo *metric = &stats_metrics[name];
    size_t at = harms->count;
    double *harm = section_scratch(list, slice->pairs);
    if (harm == NULL) {
        return false;
    }
    for (size_t i = 0; i < slice->pairs; i++) {
        harm[i] = -ladder_difference(metric, slice->candidate[i], slice->reference[i]);
        if (!isfinite(harm[i])) {
            finding_set(list->finding, OUTCOME_FAIL, (Figure){slice->candidate[i], NAN, "", slice->rows},
                        "%s of slice %.40s '%.40s' is %g in half precision and %g in FP32", metric->name,
                        slice->column, slice->value, slice->candidate[i], slice->reference[i]);
            return false;
        }
    }
    int64_t rows = resolving_rows(name, slice);
    double freedom = (double)(slice->pairs - 1);
    double deviation = fmax(sqrt(stats_variance(harm, slice->pairs)), least_deviation(name, slice));
    double error = deviation / sqrt((double)slice->pairs);
    harms->resolved[at] = rows >= METRIC_ROWS_LEAST;
    harms->limit[at] = harms->resolved[at] ? margin : fmax(margin, 1 / (double)(rows > 0 ? rows : 1));
    harms->mean[at] = stats_mean(harm, slice->pairs);
    harms->bound[at] = harms->mean[at] + stats_t_quantile(1 - ALPHA, freedom) * error;
    harms->told[at] = fmax(stats_least_margin(deviation, slice->pairs, ALPHA, PARITY_POWER),
                           1 / (double)(rows > 0 ? rows : 1));
    double room = harms->limit[at] - harms->mean[at];
    harms->p[at] = error > 0 ? stats_t_cdf(room / error, freedom) : room >= 0 ? 1 : 0;
    harms->small += !harms->resolved[at];
    harms->count++;
    return true;
}

static bool measure_slices(const Ladder *ladder, const Section *list, Metric name, Slice *slices,
                           const Json *array, int64_t tonight, Harms *ret)
{
    double margin = config_real(ladder->policy, "parity.slice_margin");
    for (size_t i = 0; i < json_count(array); i++) {
        Slice *slice = &slices[ret->count];
        if (!read_slice(list, json_at(array, i), name, slice)) {
            return false;
        }
        if (slice->reference == NULL || undefined(slice)) {
            ret->small++;
            continue;
        }
        if (slice->pairs < 2 || (int64_t)slice->pairs != tonight) {
            finding_set(list->finding, OUTCOME_ERROR, NO_FIGURE,
                        "slice %.40s '%.40s' has %zu pairs, this night ran %lld", slice->column, slice->value,
                        slice->pairs, (long long)tonight);
            return false;
        }
        if (!judge_slice(list, name, slice, margin, ret)) {
            return false;
        }
    }
    return true;
}

static void say_harm(Ladder *ladder, const Section *list, const Harms *harms, size_t i, bool proven)
{
    const Slice *slice = &harms->slices[i];
    Figure figure = {harms->mean[i], harms->limit[i], "", (int64_t)slice->pairs};
    if (proven) {
        finding_set(list->finding, OUTCOME_FAIL, figure,
                    "slice %.40s '%.40s' is harmed by %.3g in %zu pairs, at most %.3g (p %.2g, Holm over %zu "
                    "slices)",
                    slice->column, slice->value, harms->mean[i], slice->pairs, harms->limit[i], harms->p[i],
                    harms->count);
        ladder->named[RUNG_SLICES] = true;
        return;
    }
    finding_set(list->finding, OUTCOME_INCONCLUSIVE, figure,
                "slice %.40s '%.40s' is harmed by %.3g, at most %.3g in %zu pairs: not surely within %.3g",
                slice->column, slice->value, harms->mean[i], harms->bound[i], slice->pairs, harms->limit[i]);
}

static void see_harms(Ladder *ladder, const Section *list, const Harms *harms, bool *rejected)
{
    Reading *reading = &ladder->readings[BAR_SLICE];
    stats_holm(harms->p, harms->count, ALPHA, rejected);
    for (size_t i = 0; i < harms->count; i++) {
        bool inside = harms->bound[i] <= harms->limit[i];
        if (harms->resolved[i] || rejected[i]) {
            bar_see(ladder, BAR_SLICE, fmax(0, harms->bound[i]), harms->limit[i], harms->slices[i].value,
                    harms->slices[i].column);
        }
        if (rejected[i] && list->finding->outcome != OUTCOME_FAIL) {
            say_harm(ladder, list, harms, i, true);
        } else if (harms->resolved[i] && !inside && list->finding->outcome == OUTCOME_PASS) {
            say_harm(ladder, list, harms, i, false);
        }
    }
    if (reading->n > 0) {   // over the margin without proof is not a fail
        reading->outcome = list->finding->outcome;
    }
}

// What a person must know of a slice that was found unharmed: how small a harm would have shown.
static void put_told(Ladder *ladder, const Harms *harms)
{
    for (size_t i = 0; i < harms->count; i++) {
        if (!harms->resolved[i]) {
            continue;
        }
        ladder->resolved = fmax(ladder->resolved, harms->told[i]);
        if (ladder->slices != NULL) {
            Json *row = json_make_object();
            json_put_text(row, "name", "smallest margin that can be told");
            json_put_text(row, "worst", harms->slices[i].value);
            json_put_text(row, "at", harms->slices[i].column);
            json_put_number(row, "value", harms->told[i]);
            json_put_number(row, "limit", harms->limit[i]);
            json_put_integer(row, "n", (int64_t)harms->slices[i].pairs);
            json_add(ladder->slices, row);
        }
    }
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
    if (!section_array(parity, "slices", &array) || !ladder_metric(ladder, parity, &metric, &name) ||
        !section_covers(parity, ladder->policy, array) ||
        !section_distinct(&list, array, "column", "value")) {
        return;
    }
    size_t count = json_count(array);
    Slice *slices = ladder_room(&list, count, sizeof *slices);
    bool *rejected = ladder_room(&list, count, sizeof *rejected);
    Harms harms = {.slices = slices,
                   .mean = section_scratch(&list, count),
                   .bound = section_scratch(&list, count),
                   .p = section_scratch(&list, count),
                   .limit = section_scratch(&list, count),
                   .told = section_scratch(&list, count),
                   .resolved = ladder_room(&list, count, sizeof(bool))};
    if (slices == NULL || rejected == NULL || harms.mean == NULL || harms.bound == NULL || harms.p == NULL ||
        harms.limit == NULL || harms.told == NULL || harms.resolved == NULL) {
        return;
    }
    int64_t tonight = parity_pairs_tonight(ladder->evidence, json_get(metric.at, "pairs"));
    if (measure_slices(ladder, &list, name, slices, array, tonight, &harms)) {
        see_harms(ladder, &list, &harms, rejected);
        put_told(ladder, &harms);
        if (ladder->readings[BAR_SLICE].n == 0) {
            finding_set(list.finding, OUTCOME_NOT_APPLICABLE, NO_FIGURE,
                        "%lld slices are too small to tell anything", (long long)harms.small);
        }
        sound_slices(ladder, &list, array, name);
    }
}
