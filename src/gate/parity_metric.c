// parity_metric - rung 6: is the metric of paired seeds equivalent within the margin? Three answers.
//
// Pairs of earlier nights come first and count; each night looks once more at them, so the error of 0.05 is
// spent over looks. No pair of this night may be missing, no seed may count twice.
#include "parity_internal.h"

#include <fedgate/text.h>

static const double ALPHA = 0.05;
static const double MARGIN_ABSOLUTE = 0.005;
static const double MARGIN_RELATIVE = 0.02;
static const double MARGIN_MOST_ABSOLUTE = 0.02;   // as config/check.c refuses it
static const double MARGIN_MOST_RELATIVE = 0.05;
static const double COARSE = 600;   // steps of 1/170 of the margin, below which equal pairs are no chance

typedef struct Pairs {
    size_t count;
    double *reference, *candidate, *difference;
    double *seed;
} Pairs;

double ladder_difference(const MetricInfo *metric, double candidate, double reference)
{
    double better = metric->higher_is_better ? candidate - reference : reference - candidate;
    if (!metric->relative_margin || better == 0) {
        return better;
    }
    return better / fabs(reference);
}

bool ladder_metric(const Ladder *ladder, const Section *parity, Section *ret_metric, Metric *ret_name)
{
    const char *name = NULL;
    const char *decides = NULL;
    bool relative = false;
    bool higher = false;
    Section quality;
    if (!section_child(parity, "metric", "parity.metric", ret_metric) ||
        !section_text(ret_metric, "name", &name) || !section_bool(ret_metric, "relative", &relative) ||
        !section_bool(ret_metric, "higher_is_better", &higher)) {
        return false;
    }
    bool known = stats_find_metric(name, ret_name) && relative == stats_metrics[*ret_name].relative_margin &&
                 higher == stats_metrics[*ret_name].higher_is_better;
    if (!known) {
        finding_set(parity->finding, OUTCOME_ERROR, NO_FIGURE,
                    "'parity.metric' is no metric: '%.20s', %s margin, %s is better", name,
                    relative ? "relative" : "absolute", higher ? "higher" : "lower");
        return false;
    }
    if (!section_open(ladder->evidence, "quality", parity->judge, parity->finding, &quality) ||
        !section_text(&quality, "metric", &decides)) {
        return false;
    }
    if (!text_equal(name, decides)) {
        finding_set(parity->finding, OUTCOME_ERROR, NO_FIGURE,
                    "pairs were compared by '%.20s', the night is decided by '%.20s'", name, decides);
    }
    return text_equal(name, decides);
}

bool parity_pair_tonight(const Json *evidence, const Json *pair)
{
    return text_equal(json_text_or(json_get(pair, "run"), NULL), json_text_or(json_get(evidence, "run"), ""));
}

int64_t parity_pairs_tonight(const Json *evidence, const Json *pairs)
{
    int64_t count = 0;
    for (size_t i = 0; i < json_count(pairs); i++) {
        count += parity_pair_tonight(evidence, json_at(pairs, i));
    }
    return count;
}

// The metric is of the validation rows, all of them, and of enough to tell anything.
static bool rows_sound(const Ladder *ladder, const Section *metric)
{
    Section rows;
    int64_t compared = 0;
    int64_t validation = 0;
    if (!section_count(metric, "rows", &compared) ||
        !section_open(ladder->evidence, "input.rows", metric->judge, metric->finding, &rows) ||
        !section_count(&rows, "validation", &validation)) {
        return false;
    }
    if (compared != validation) {
        finding_set(metric->finding, OUTCOME_ERROR, NO_FIGURE,
                    "pairs were compared on %lld rows, there are %lld for validation", (long long)compared,
                    (long long)validation);
    } else if (compared < METRIC_ROWS_LEAST) {
        finding_set(metric->finding, OUTCOME_NOT_MEASURED,
                    (Figure){(double)compared, METRIC_ROWS_LEAST, "rows", compared},
                    "%lld validation rows are too few to compare a metric on, %d are needed",
                    (long long)compared, METRIC_ROWS_LEAST);
    }
    return compared == validation && compared >= METRIC_ROWS_LEAST;
}

// Each night that adds pairs looks at them once; a look too few would spend its error twice.
static bool looks_sound(const Section *metric, const Json *pairs, int64_t looks)
{
    int64_t runs = 0;
    for (size_t i = 0; i < json_count(pairs); i++) {
        const char *run = json_text_or(json_get(json_at(pairs, i), "run"), "");
        size_t before = 0;
        while (before < i && !text_equal(json_text_or(json_get(json_at(pairs, before), "run"), ""), run)) {
            before++;
        }
        runs += before == i;
    }
    if (looks < 1 || looks < runs) {
        finding_set(metric->finding, OUTCOME_ERROR, NO_FIGURE,
                    looks < 1 ? "'parity.metric.looks' is %lld: this night looks too"
                              : "'parity.metric.looks' is %lld, the pairs are of %lld nights",
                    (long long)looks, (long long)runs);
    }
    return looks >= 1 && looks >= runs;
}

static bool seed_new(const Section *list, const Pairs *pairs, size_t i)
{
    for (size_t k = 0; k < i; k++) {
        if (pairs->seed[k] == pairs->seed[i]) {
            finding_set(list->finding, OUTCOME_ERROR, NO_FIGURE,
                        "seed %.0f stands in two pairs: the same run may not count twice", pairs->seed[i]);
            return false;
        }
    }
    return true;
}

static bool read_pair(const Section *list, const Json *item, const MetricInfo *metric, Pairs *pairs, size_t i)
{
    Section pair;
    const char *run = NULL;
    int64_t seed = 0;
    if (!section_inside(list, item, &pair) || !section_integer(&pair, "seed", &seed) ||
        !section_text(&pair, "run", &run) || !section_number(&pair, "reference", &pairs->reference[i]) ||
        !section_number(&pair, "candidate", &pairs->candidate[i])) {
        return false;
    }
    pairs->seed[i] = (double)seed;   // below 2^53 (trainer), so exact
    pairs->difference[i] = ladder_difference(metric, pairs->candidate[i], pairs->reference[i]);
    if (!isfinite(pairs->difference[i])) {
        finding_set(list->finding, OUTCOME_FAIL, (Figure){pairs->candidate[i], NAN, "", 1},
                    "%s of seed %lld is %g in half precision and %g in FP32", metric->name, (long long)seed,
                    pairs->candidate[i], pairs->reference[i]);
        return false;
    }
    return seed_new(list, pairs, i);
}

static bool read_pairs(const Section *list, const Json *array, const MetricInfo *metric, Pairs *ret)
{
    ret->count = json_count(array);
    double **columns[] = {&ret->reference, &ret->candidate, &ret->difference, &ret->seed};
    for (size_t c = 0; c < sizeof columns / sizeof columns[0]; c++) {
        *columns[c] = section_scratch(list, ret->count);
        if (*columns[c] == NULL) {
            return false;
        }
    }
    for (size_t i = 0; i < ret->count; i++) {
        if (!read_pair(list, json_at(array, i), metric, ret, i)) {
            return false;
        }
    }
    return true;
}

// Pairs that cannot answer, whatever the margin. A metric that moves in coarse steps may honestly be the same
// in all pairs: its floor answers then, and the other rungs tell whether two arms were compared.
static bool nothing_varies(Ladder *ladder, const Section *list, const MetricInfo *metric, const Pairs *pairs,
                           bool coarse)
{
    bool flat =
        stats_all_equal(pairs->reference, pairs->count) || stats_all_equal(pairs->candidate, pairs->count);
    bool same = stats_all_equal(pairs->difference, pairs->count);
    bool void_of_test = pairs->count >= 2 && (flat || (same && !(coarse && pairs->difference[0] == 0)));
    if (void_of_test) {
        finding_set(
            list->finding, OUTCOME_FAIL, (Figure){pairs->difference[0], NAN, "", (int64_t)pairs->count},
            flat ? "%s has zero variance: it is the same for every seed (%zu pairs); let a finer metric "
                   "decide (quality.metric), such as a loss"
            : pairs->difference[0] == 0
                ? "%s is the same in both arms in every pair: nothing was compared (%zu pairs)"
                : "%s has zero variance: it differs by the same in every pair (%zu pairs)",
            metric->name, pairs->count);
        ladder->named[RUNG_METRIC] = true;
    }
    return void_of_test;
}

static bool enough(const Ladder *ladder, const Section *list, const Json *array)
{
    int64_t tonight = parity_pairs_tonight(ladder->evidence, array);
    int64_t declared = config_integer(ladder->policy, "parity.pairs");
    if (tonight < declared) {
        finding_set(list->finding, OUTCOME_NOT_MEASURED,
                    (Figure){(double)tonight, (double)declared, "pairs", tonight},
                    "%lld of the %lld declared pairs were run this night", (long long)tonight,
                    (long long)declared);
    }
    return tonight >= declared;
}

// A metric that moves in steps cannot be known better than its step; relative like the differences.
static bool read_floor(const Section *section, const MetricInfo *metric, const Pairs *pairs,
                       double *ret_floor)
{
    double quantum = 0;
    if (!section_amount(section, "quantum", &quantum)) {
        return false;
    }
    double unit = metric->relative_margin ? fabs(stats_mean(pairs->reference, pairs->count)) : 1;
    *ret_floor = quantum == 0 ? 0 : quantum / unit / sqrt(12);
    return true;
}

static void answer(Ladder *ladder, const Section *list, const MetricInfo *metric, const EquivalenceTest *test)
{
    double bound = fmax(fabs(test->lower), fabs(test->upper));
    Figure figure = {bound, test->margin, metric->relative_margin ? "relative" : metric->name,
                     (int64_t)test->pairs};
    bool coarse = test->answer == EQUIVALENCE_VOID && test->mean == 0 && bound < test->margin;
    Reading *reading = &ladder->readings[BAR_METRIC];
    bar_see(ladder, BAR_METRIC, bound, test->margin, metric->name, "");
    reading->n = figure.n;
    if (test->answer == EQUIVALENCE_UNDECIDED) {
        reading->outcome = OUTCOME_INCONCLUSIVE;
        finding_set(
            list->finding, OUTCOME_INCONCLUSIVE, figure,
            "%s differs by %.3g +- %.3g in %zu pairs, not surely within %.3g: about %zu pairs are needed",
            metric->name, test->mean, test->half_width, test->pairs, test->margin, test->needed);
    } else if (test->answer == EQUIVALENCE_BROKEN) {
        finding_set(list->finding, OUTCOME_FAIL, figure,
                    "%s differs by %.3g +- %.3g in %zu pairs, outside the margin of %.3g", metric->name,
                    test->mean, test->half_width, test->pairs, test->margin);
    } else if (test->answer == EQUIVALENCE_VOID && !coarse) {
        reading->outcome = OUTCOME_ERROR;
        finding_set(list->finding, OUTCOME_ERROR, figure,
                    "no number of pairs can show that %s is the same within %.3g", metric->name,
                    test->margin);
    }
}

static bool see_trained(Ladder *ladder, const Section *section, const MetricInfo *metric, double margin)
{
    Section trained;
    double reference = NAN;
    double candidate = NAN;
    if (!section_child(section, "trained", "parity.metric.trained", &trained) ||
        !section_number(&trained, "reference", &reference) ||
        !section_number(&trained, "candidate", &candidate)) {
        return false;
    }
    bar_see(ladder, BAR_TRAINED, fabs(ladder_difference(metric, candidate, reference)), margin, metric->name,
            "");
    return true;
}

static double margin_of(const Ladder *ladder, const MetricInfo *metric)
{
    double margin = config_real(ladder->policy, "parity.margin");
    double usual = metric->relative_margin ? MARGIN_RELATIVE : MARGIN_ABSOLUTE;
    return margin < 0 ? usual : margin;
}

// A wider margin is no margin: half precision would be another model.
static bool margin_sound(const Section *metric, const MetricInfo *info, double margin)
{
    double most = info->relative_margin ? MARGIN_MOST_RELATIVE : MARGIN_MOST_ABSOLUTE;
    if (!(margin <= most)) {
        finding_set(metric->finding, OUTCOME_ERROR, (Figure){margin, most, "", 1},
                    "parity.margin is %g, for %s at most %g", margin, info->name, most);
    }
    return margin <= most;
}

// Good nights before may not outvote this one: its own pairs must keep the margin in the mean.
static bool tonight_holds(Ladder *ladder, const Section *list, const Json *array, const MetricInfo *metric,
                          const Pairs *pairs, double margin)
{
    double sum = 0;
    int64_t count = 0;
    for (size_t i = 0; i < pairs->count; i++) {
        bool tonight = parity_pair_tonight(ladder->evidence, json_at(array, i));
        sum += tonight ? pairs->difference[i] : 0;
        count += tonight;
    }
    double mean = sum / (double)count;
    bool holds = count == (int64_t)pairs->count || fabs(mean) <= margin;   // alone, the test itself tells
    if (!holds) {
        finding_set(list->finding, OUTCOME_FAIL, (Figure){fabs(mean), margin, metric->name, count},
                    "%s of tonight's %lld pairs differs by %.3g, margin %.3g, whatever earlier nights say",
                    metric->name, (long long)count, mean, margin);
        ladder->named[RUNG_METRIC] = true;
    }
    return holds;
}

void rung_metric(Ladder *ladder, const Section *parity)
{
    Section section;
    Section list;
    Metric name = METRIC_COUNT;
    const Json *array = NULL;
    Pairs pairs;
    int64_t looks = 0;
    double floor = 0;
    if (!ladder_metric(ladder, parity, &section, &name) || !section_count(&section, "looks", &looks) ||
        !ladder_list(&section, "pairs", "parity.metric.pairs", &array, &list) ||
        !read_pairs(&list, array, &stats_metrics[name], &pairs) ||
        !read_floor(&section, &stats_metrics[name], &pairs, &floor)) {
        return;
    }
    double margin = margin_of(ladder, &stats_metrics[name]);
    if (nothing_varies(ladder, &list, &stats_metrics[name], &pairs, floor >= margin / COARSE) ||
        !enough(ladder, &list, array)) {
        return;
    }
    if (!looks_sound(&section, array, looks) || !rows_sound(ladder, &section) ||
        !margin_sound(&section, &stats_metrics[name], margin)) {
        return;
    }
    EquivalenceTest test;
    if (!tonight_holds(ladder, &list, array, &stats_metrics[name], &pairs, margin)) {
        return;
    }
    stats_equivalence(pairs.difference, pairs.count, margin, stats_alpha_of_look(ALPHA, looks), floor, &test);
    ladder->pairs_needed = test.needed;
    if (see_trained(ladder, &section, &stats_metrics[name], margin)) {
        answer(ladder, &list, &stats_metrics[name], &test);
        sound_metric(ladder, &section, name);
    }
}
