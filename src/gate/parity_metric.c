// parity_metric - rung 6: is the metric of paired seeds equivalent within the margin? Three answers.
//
// Pairs of earlier nights come first and count; each night looks once more at them, so the error of 0.05 is
// spent over looks. No pair of this night may be missing, no seed may count twice.
#include "parity_internal.h"

#include <fedgate/text.h>

static const double ALPHA = 0.05;
static const double MARGIN_ABSOLUTE = 0.005;
static const double MARGIN_RELATIVE = 0.02;
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

bool ladder_metric(const Section *parity, Section *ret_metric, Metric *ret_name)
{
    const char *name = NULL;
    bool relative = false;
    bool higher = false;
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
    }
    return known;
}

int64_t ladder_pairs_tonight(const Ladder *ladder, const Json *pairs)
{
    const char *run = json_text_or(json_get(ladder->evidence, "run"), "");
    int64_t count = 0;
    for (size_t i = 0; i < json_count(pairs); i++) {
        count += text_equal(json_text_or(json_get(json_at(pairs, i), "run"), NULL), run);
    }
    return count;
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

static bool constant(const double *x, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        if (x[i] != x[0]) {
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
    bool flat = constant(pairs->reference, pairs->count) || constant(pairs->candidate, pairs->count);
    bool same = constant(pairs->difference, pairs->count);
    bool void_of_test = pairs->count >= 2 && (flat || (same && !(coarse && pairs->difference[0] == 0)));
    if (void_of_test) {
        finding_set(list->finding, OUTCOME_FAIL,
                    (Figure){pairs->difference[0], NAN, "", (int64_t)pairs->count},
                    flat ? "%s has zero variance: it is the same for every seed (%zu pairs)"
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
    int64_t tonight = ladder_pairs_tonight(ladder, array);
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

void rung_metric(Ladder *ladder, const Section *parity)
{
    Section section;
    Section list;
    Metric name = METRIC_COUNT;
    const Json *array = NULL;
    Pairs pairs;
    int64_t looks = 0;
    double floor = 0;
    if (!ladder_metric(parity, &section, &name) || !section_count(&section, "looks", &looks) ||
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
    if (looks < 1) {
        finding_set(parity->finding, OUTCOME_ERROR, NO_FIGURE,
                    "'parity.metric.looks' is %lld: this night looks too", (long long)looks);
        return;
    }
    EquivalenceTest test;
    stats_equivalence(pairs.difference, pairs.count, margin, stats_alpha_of_look(ALPHA, looks), floor, &test);
    if (see_trained(ladder, &section, &stats_metrics[name], margin)) {
        answer(ladder, &list, &stats_metrics[name], &test);
    }
}
