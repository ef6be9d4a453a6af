// parity_sound - figures that no comparison can have given: evidence that contradicts itself, or repeats
// itself where it must differ.
//
// Each part is asked at the end of its rung. What it finds is the producer's error; a bar that does not hold
// goes before it, whatever is undecided goes behind.
#include "parity_internal.h"

#include <fedgate/text.h>

static const double SCALE_MOST = 0x1p24;   // of the rule of the loss scale
static const double SCALE_LEAST = 0.5;   // half of the lowest, where a step across a growth begins
static const double NOISE_MOST =
    16;   // times a gradient; of as many rows as there are, chance leaves about 1
static const double NULL_MOST = 0.5;   // log ratio of two seeds, the median: by then anything would pass

static bool open_to_doubt(const Section *section)
{
    Outcome outcome = section->finding->outcome;
    return outcome == OUTCOME_PASS || outcome == OUTCOME_INCONCLUSIVE || outcome == OUTCOME_NOT_APPLICABLE;
}

static int64_t count_at(const Ladder *ladder, const char *dotted, int64_t otherwise)
{
    return json_integer_or(json_find(ladder->evidence, dotted), otherwise);
}

// -- gradients

// What is asked for has been seen there (rung_gradients, all_tensors).
static const Json *named(const Json *array, const char *key, const char *name)
{
    for (size_t i = 0; i < json_count(array); i++) {
        if (text_equal(json_text_or(json_get(json_at(array, i), key), ""), name)) {
            return json_at(array, i);
        }
    }
    return NULL;
}

// Other weights give another gradient, tensor by tensor; the same figures to the last digit are a copy.
static void copied(const Section *list, const Json *start, const Json *trained)
{
    const Json *tensors = json_get(start, "tensors");
    for (size_t i = 0; i < json_count(tensors) && open_to_doubt(list); i++) {
        const Json *a = json_at(tensors, i);
        const Json *b = named(json_get(trained, "tensors"), "name", json_text_or(json_get(a, "name"), ""));
        bool same = json_number_or(json_get(a, "norm"), 0) != 0 &&
                    json_same(json_get(a, "norm"), json_get(b, "norm")) &&
                    json_same(json_get(a, "error"), json_get(b, "error"));
        if (same) {
            finding_set(
                list->finding, OUTCOME_ERROR, NO_FIGURE,
                "the gradient of '%.60s' has the same figures at the start and trained, to the last digit: "
                "one is a copy",
                json_text_or(json_get(a, "name"), ""));
        }
    }
}

static void in_its_place(const Ladder *ladder, const Section *list, const Json *gradient, int64_t least,
                         int64_t most)
{
    int64_t step = json_integer_or(json_get(gradient, "step"), 0);
    int64_t rows = json_integer_or(json_get(gradient, "rows"), 0);
    int64_t train = count_at(ladder, "input.rows.train", INT64_MAX);
    bool placed = step >= least && step <= most;
    if ((!placed || rows > train) && open_to_doubt(list)) {
        finding_set(list->finding, OUTCOME_ERROR, NO_FIGURE,
                    placed ? "the gradient at %.20s is of %lld rows, there are %lld to train on"
                           : "the gradient at %.20s is of step %lld, of %lld that were done",
                    json_text_or(json_get(gradient, "at"), ""), (long long)(placed ? rows : step),
                    (long long)(placed ? train : most));
    }
}

// The noise of a tensor forgives an error in it; where most gradients drown in it nothing was compared.
static void above_noise(const Section *list, const Json *gradient)
{
    const Json *tensors = json_get(gradient, "tensors");
    double *shares = section_scratch(list, json_count(tensors));
    size_t count = 0;
    for (size_t i = 0; shares != NULL && i < json_count(tensors); i++) {
        double norm = json_number_or(json_get(json_at(tensors, i), "norm"), 0);
        if (norm > 0) {
            shares[count++] = json_number_or(json_get(json_at(tensors, i), "noise"), 0) / norm;
        }
    }
    double median = count == 0 ? 0 : stats_quantile(shares, count, 0.5);
    if (shares != NULL && !(median <= NOISE_MOST) && open_to_doubt(list)) {
        finding_set(list->finding, OUTCOME_NOT_MEASURED,
                    (Figure){median, NOISE_MOST, "times", (int64_t)count},
                    "most gradients at %.20s are under a %.0fth of their noise: nothing was compared",
                    json_text_or(json_get(gradient, "at"), ""), NOISE_MOST);
    }
}

void sound_gradients(const Ladder *ladder, const Section *list, const Json *gradients)
{
    const Json *start = named(gradients, "at", "start");
    const Json *trained = named(gradients, "at", "trained");
    in_its_place(ladder, list, start, 0, 0);
    in_its_place(ladder, list, trained, 1, count_at(ladder, "window.done_steps", INT64_MAX));
    copied(list, start, trained);
    above_noise(list, start);
    above_noise(list, trained);
}

// -- one step, and the loss scale

static bool is_scale(double scale)
{
    int exponent = 0;
    return scale >= SCALE_LEAST && scale <= SCALE_MOST && frexp(scale, &exponent) == 0.5;
}

void sound_step(const Ladder *ladder, const Section *list, const Json *steps)
{
    int64_t done = count_at(ladder, "window.done_steps", INT64_MAX);
    for (size_t i = 0; i < json_count(steps) && open_to_doubt(list); i++) {
        const Json *step = json_at(steps, i);
        const char *at = json_text_or(json_get(step, "at"), "");
        double before = json_number_or(json_get(step, "scale_before"), 0);
        double expected = json_number_or(json_get(step, "scale_expected"), 0);
        int64_t number = json_integer_or(json_get(step, "step"), 0);
        bool scaled = ladder->half == HALF_FP16;
        bool sound = scaled ? is_scale(before) && is_scale(expected) : before == 1 && expected == 1;
        bool grown = expected == 2 * before;
        bool ruled = !scaled || grown || (expected == before && !text_equal(at, "growth"));
        if (!sound || !ruled) {
            finding_set(list->finding, OUTCOME_ERROR, NO_FIGURE,
                        sound
                            ? "the step at '%.20s' expects the loss scale %g to become %g: no growth is that"
                            : "the step at '%.20s' has a loss scale of %g, expected %g: none in %.10s",
                        at, before, expected, ladder->precision);
        } else if (number > done) {
            finding_set(list->finding, OUTCOME_ERROR, NO_FIGURE,
                        "the step at '%.20s' is number %lld, the training did %lld", at, (long long)number,
                        (long long)done);
        }
    }
}

// By the rule each growth doubles and each fall halves, between 1 and 2^24.
void sound_scale(const Ladder *ladder, const Section *scale, const ScaleCourse *s)
{
    int64_t growth = config_integer(ladder->policy, "train.scale_growth");
    double begin = ladder->half == HALF_FP16 ? config_real(ladder->policy, "train.scale_initial") : 1;
    bool values = is_scale(s->final) && is_scale(s->smallest);   // the policy's is one
    bool counts = s->lowered <= s->skipped && s->longest <= s->skipped && s->grown * growth <= s->applied;
    bool course = s->final == ldexp(s->initial, (int)(s->grown - s->lowered)) &&
                  s->smallest >= ldexp(s->initial, (int)-s->lowered);
    if (s->initial != begin || !values) {
        finding_set(
            scale->finding, OUTCOME_ERROR, NO_FIGURE,
            "the loss scale is said to go from %g by %g to %g: it begins at %g in %.10s, in powers of two",
            s->initial, s->smallest, s->final, begin, ladder->precision);
    } else if (!counts || !course) {
        finding_set(
            scale->finding, OUTCOME_ERROR, NO_FIGURE,
            "'parity.scale' contradicts itself: from %g by %g to %g, grown %lld and lowered %lld times in "
            "%lld steps with %lld skipped, %lld in a row",
            s->initial, s->smallest, s->final, (long long)s->grown, (long long)s->lowered,
            (long long)s->attempted, (long long)s->skipped, (long long)s->longest);
    }
}

// -- trajectory

static bool of_kind(const Json *series, const char *kind)
{
    return text_equal(json_text_or(json_get(series, "kind"), ""), kind);
}

static double ratio_at(const Json *series, size_t block)
{
    return json_number_or(json_at(json_get(series, "log_ratio"), block), NAN);
}

// FP32 runs are compared in a circle, each with the next: what they lose on the way they win back.
static void circle_closes(const Section *list, const Json *pairs, size_t blocks)
{
    const double rounding = 1e-9;
    for (size_t block = 0; block < blocks && open_to_doubt(list); block++) {
        double sum = 0;
        for (size_t i = 0; i < json_count(pairs); i++) {
            sum += of_kind(json_at(pairs, i), "seed") ? ratio_at(json_at(pairs, i), block) : 0;
        }
        if (!(fabs(sum) <= rounding)) {
            finding_set(list->finding, OUTCOME_ERROR, (Figure){fabs(sum), rounding, "", 1},
                        "the FP32 runs, compared in a circle, differ by %.3g from themselves in block %zu",
                        sum, block + 1);
        }
    }
}

static void not_too_wide(const Section *list, const Json *pairs, size_t blocks)
{
    double *sizes = section_scratch(list, json_count(pairs) * blocks);
    size_t count = 0;
    for (size_t i = 0; sizes != NULL && i < json_count(pairs); i++) {
        for (size_t block = 0; block < blocks && of_kind(json_at(pairs, i), "seed"); block++) {
            sizes[count++] = fabs(ratio_at(json_at(pairs, i), block));
        }
    }
    double median = count == 0 ? 0 : stats_quantile(sizes, count, 0.5);
    if (sizes != NULL && !(median <= NULL_MOST) && open_to_doubt(list)) {
        finding_set(
            list->finding, OUTCOME_NOT_MEASURED, (Figure){median, NULL_MOST, "", (int64_t)count},
            "FP32 runs of other seeds differ by %.3g, more than %g: in a band as wide nothing can fail",
            median, NULL_MOST);
    }
}

void sound_trajectory(const Ladder *ladder, const Section *list, const Json *pairs, int64_t steps,
                      size_t blocks)
{
    int64_t planned = count_at(ladder, "window.planned_steps", INT64_MAX);
    size_t candidates = 0;
    size_t seeds = 0;
    size_t ulps = 0;
    size_t strangers = 0;   // FP32 runs of a seed that no half precision run has
    for (size_t i = 0; i < json_count(pairs); i++) {
        const Json *series = json_at(pairs, i);
        bool known = false;
        for (size_t k = 0; k < json_count(pairs); k++) {
            known = known || (of_kind(json_at(pairs, k), "candidate") &&
                              json_same(json_get(json_at(pairs, k), "seed"), json_get(series, "seed")));
        }
        candidates += of_kind(series, "candidate");
        seeds += of_kind(series, "seed");
        ulps += of_kind(series, "ulp");
        strangers += !known;
    }
    if (!open_to_doubt(list)) {
        return;
    }
    if (steps > planned) {
        finding_set(list->finding, OUTCOME_ERROR, NO_FIGURE, "runs of %lld steps, a training has %lld",
                    (long long)steps, (long long)planned);
    } else if (strangers > 0 || seeds != candidates) {
        finding_set(
            list->finding, OUTCOME_ERROR, NO_FIGURE,
            "%zu FP32 runs are compared with the next beside %zu half precision runs, %zu of other seeds",
            seeds, candidates, strangers);
    } else if (ulps < ULPS_LEAST) {
        finding_set(list->finding, OUTCOME_NOT_MEASURED, NO_FIGURE,
                    "%zu FP32 runs begin one ulp off, %d are needed", ulps, ULPS_LEAST);
    }
    circle_closes(list, pairs, blocks);
    not_too_wide(list, pairs, blocks);
}

// -- metric and slices

static bool in_range(Metric name, double value)
{
    return value >= 0 && (value <= 1 || (name != METRIC_AUC && name != METRIC_ACCURACY));
}

static void out_of_range(const Section *section, Metric name, double value)
{
    if (!in_range(name, value) && open_to_doubt(section)) {
        finding_set(section->finding, OUTCOME_ERROR, NO_FIGURE, "%s of %g is none", stats_metrics[name].name,
                    value);
    }
}

// Positives among the validation rows, by the profile of the input; -1: it does not say.
static int64_t positives_of(const Ladder *ladder)
{
    double mean = json_number_or(json_find(ladder->evidence, "input.target_mean.validation"), NAN);
    double rows = (double)count_at(ladder, "input.rows.validation", 0);
    return mean >= 0 && mean <= 1 ? (int64_t)nearbyint(mean * rows) : -1;
}

// The step in which a metric moves follows from the rows; a coarser one would let equal arms pass.
static void right_step(const Ladder *ladder, const Section *metric, Metric name)
{
    double rows = (double)count_at(ladder, "input.rows.validation", 0);
    double positives = (double)positives_of(ladder);
    double quantum = json_number_or(json_get(metric->at, "quantum"), NAN);
    double right = name == METRIC_AUC        ? 0.5 / (positives * (rows - positives))
                   : name == METRIC_ACCURACY ? 1 / rows
                                             : 0;
    if (name == METRIC_AUC && positives < 0) {
        finding_set(metric->finding, OUTCOME_NOT_MEASURED, NO_FIGURE,
                    "'input.target_mean.validation' was not measured: nothing says how fine auc is");
    } else if (!isfinite(right) || !(fabs(quantum - right) <= 1e-6 * right)) {
        finding_set(metric->finding, OUTCOME_ERROR, (Figure){quantum, right, "", (int64_t)rows},
                    "%s is said to move in steps of %.6g, on these %lld rows it moves in %.6g",
                    stats_metrics[name].name, quantum, (long long)rows, right);
    }
}

void sound_metric(const Ladder *ladder, const Section *metric, Metric name)
{
    static const char *const arms[] = {"reference", "candidate"};
    const Json *pairs = json_get(metric->at, "pairs");
    for (size_t arm = 0; arm < 2; arm++) {
        for (size_t i = 0; i < json_count(pairs); i++) {
            out_of_range(metric, name, json_number_or(json_get(json_at(pairs, i), arms[arm]), NAN));
        }
        out_of_range(metric, name, json_number_or(json_get(json_get(metric->at, "trained"), arms[arm]), NAN));
    }
    if (open_to_doubt(metric)) {
        right_step(ladder, metric, name);
    }
}

// Every row has one value in a column: its slices hold all rows, and all positives. One left out, or made
// small, shows.
static void adds_up(const Ladder *ladder, const Section *list, const Json *slices, const char *column)
{
    int64_t rows = 0;
    int64_t positives = 0;
    int64_t all = count_at(ladder, "input.rows.validation", -1);
    bool binary = false;
    for (size_t i = 0; i < json_count(slices); i++) {
        const Json *slice = json_at(slices, i);
        if (text_equal(json_text_or(json_get(slice, "column"), ""), column)) {
            rows += json_integer_or(json_get(slice, "rows"), 0);
            positives += json_integer_or(json_get(slice, "positives"), 0);
            binary = binary || json_get(slice, "positives") != NULL;
        }
    }
    int64_t expected = positives_of(ladder);
    if (all < 0) {
        finding_set(list->finding, OUTCOME_NOT_MEASURED, NO_FIGURE,
                    "'input.rows.validation' was not measured");
    } else if (rows != all) {
        finding_set(list->finding, OUTCOME_ERROR, NO_FIGURE,
                    "slices of column '%.40s' hold %lld rows, there are %lld for validation", column,
                    (long long)rows, (long long)all);
    } else if (binary && positives != expected) {
        finding_set(list->finding, OUTCOME_ERROR, NO_FIGURE,
                    "slices of column '%.40s' hold %lld positives, the input has %lld among these rows",
                    column, (long long)positives, (long long)expected);
    }
}

void sound_slices(const Ladder *ladder, const Section *list, const Json *slices, Metric name)
{
    static const char *const arms[] = {"reference", "candidate"};
    for (size_t i = 0; i < json_count(slices) && open_to_doubt(list); i++) {
        const Json *slice = json_at(slices, i);
        for (size_t arm = 0; arm < 2; arm++) {
            const Json *values = json_get(slice, arms[arm]);
            for (size_t k = 0; k < json_count(values); k++) {
                double value = json_number_or(json_at(values, k), NAN);
                out_of_range(list, name, isnan(value) ? 0 : value);   // undefined in a slice of one class
            }
        }
        if (open_to_doubt(list)) {
            adds_up(ladder, list, slices, json_text_or(json_get(slice, "column"), ""));
        }
    }
}
