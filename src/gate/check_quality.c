// check_quality - is the candidate better than the simple ways, and no worse than what is live?
//
// Better than a baseline: the point difference reaches the margin, and the lower one-sided 95 % bound of the
// paired difference is above 0, by its standard error and by the paired bootstrap, which assumes no normal
// distribution. Against live: not worse beyond the live margin. What decisions are worth is judged in
// check_decisions.c. The candidate's own scores must vary, and
// must not be those of something else. Where classes are told apart, decisions have utilities: of the four
// outcomes of acting or not (binary), of k x k (multiclass). Scores of a binary task are calibrated.
#include "gate_internal.h"

#include <fedgate/stats.h>
#include <fedgate/text.h>
#include <stdio.h>

static const double ONE_SIDED_95 = 1.6448536269514722;

typedef struct Rules {
    Metric metric;
    double margin, live_margin;
    bool binary, decides, live_is_same_version;   // decides: decisions have utilities
    int64_t rows;
} Rules;

typedef struct Pair {
    double value_a, value_b, difference, standard_error, lower, upper;
    double drawn_lower, drawn_upper;   // by the bootstrap
    Decisions decisions;
    int64_t rows;
    bool identical, constant;
} Pair;

// The models that a candidate is compared with, in the order of judging.
typedef struct Opponent {
    const char *name;
    bool is_live;
    bool (*needed)(const Section *quality, const Config *policy);
} Opponent;

static bool always(const Section *quality, const Config *policy)
{
    (void)quality;
    (void)policy;
    return true;
}

static bool rule_declared(const Section *quality, const Config *policy)
{
    return config_text(policy, "baseline.rule")[0] != '\0' || json_find(quality->at, "models.rule") != NULL;
}

static bool release_live(const Section *quality, const Config *policy)
{
    (void)policy;
    return text_equal(json_text_or(json_get(quality->at, "live_kind"), ""), "release") ||
           json_find(quality->at, "models.live") != NULL;
}

static const Opponent opponents[] = {
    {"rule", false, rule_declared},
    {"prior", false, always},
    {"linear", false, always},
    {"live", true, release_live},
};

// The rows compared are the test rows of the profile.
static bool read_rows(const Json *evidence, const Section *quality, int64_t *ret_rows)
{
    if (!section_count(quality, "rows", ret_rows)) {
        return false;
    }
    int64_t test = json_integer_or(json_find(evidence, "input.rows.test"), *ret_rows);
    if (test != *ret_rows) {
        finding_set(quality->finding, OUTCOME_ERROR, (Figure){(double)*ret_rows, (double)test, "rows", test},
                    "%lld rows were compared, the data has %lld test rows", (long long)*ret_rows,
                    (long long)test);
    }
    return test == *ret_rows;
}

// The candidate that was compared is the version the evidence is about.
static bool of_this_version(const Json *evidence, const Section *quality, const char *candidate)
{
    const char *version = json_text_or(json_get(evidence, "version"), candidate);
    bool same = text_equal(candidate, version);
    if (candidate[0] == '\0') {
        finding_set(quality->finding, OUTCOME_NOT_MEASURED, NO_FIGURE,
                    "'quality.models.candidate.version' was not measured");
    } else if (!same) {
        finding_set(quality->finding, OUTCOME_ERROR, NO_FIGURE,
                    "the evidence is of version '%.60s', compared was '%.60s'", version, candidate);
    }
    return same && candidate[0] != '\0';
}

// Each task has its metrics; a word that is no task would switch the rules of decisions off.
static bool suits_task(const Json *evidence, const Section *quality, Rules *ret)
{
    static const struct {
        const char *task;
        bool has[METRIC_COUNT];
    } tasks[] = {
        {"binary", {[METRIC_AUC] = true, [METRIC_LOGLOSS] = true, [METRIC_ACCURACY] = true}},
        {"multiclass", {[METRIC_LOGLOSS] = true, [METRIC_ACCURACY] = true}},
        {"regression", {[METRIC_RMSE] = true}},
    };
    Section top = {evidence, "evidence", quality->finding, NULL, SIZE_MAX};
    const char *task = NULL;
    if (!section_text(&top, "task", &task)) {
        return false;
    }
    ret->binary = text_equal(task, "binary");
    ret->decides = ret->binary || text_equal(task, "multiclass");
    for (size_t i = 0; i < sizeof tasks / sizeof tasks[0]; i++) {
        if (text_equal(task, tasks[i].task) && tasks[i].has[ret->metric]) {
            return true;
        }
    }
    finding_set(quality->finding, OUTCOME_ERROR, NO_FIGURE, "task '%.30s' is not judged by metric '%s'", task,
                stats_metrics[ret->metric].name);
    return false;
}

static bool read_rules(const Json *evidence, const Section *quality, const Config *policy, Rules *ret)
{
    const char *metric = NULL;
    const char *live_kind = NULL;
    if (!section_text(quality, "metric", &metric) || !section_text(quality, "live_kind", &live_kind)) {
        return false;
    }
    const char *wanted = config_text(policy, "quality.metric");
    if (!stats_find_metric(metric, &ret->metric)) {
        finding_set(quality->finding, OUTCOME_ERROR, NO_FIGURE, "metric '%.40s' is unknown", metric);
        return false;
    }
    if (wanted[0] != '\0' && !text_equal(wanted, metric)) {
        finding_set(quality->finding, OUTCOME_NOT_MEASURED, NO_FIGURE,
                    "the policy decides by '%.20s', measured was '%.20s'", wanted, metric);
        return false;
    }
    static const char *const kinds[] = {"none", "baseline", "release"};
    bool known =
        text_equal(live_kind, kinds[0]) || text_equal(live_kind, kinds[1]) || text_equal(live_kind, kinds[2]);
    if (!known) {
        finding_set(quality->finding, OUTCOME_ERROR, NO_FIGURE, "what is live is of unknown kind '%.40s'",
                    live_kind);
        return false;
    }
    const MetricInfo *info = &stats_metrics[ret->metric];
    double margin = config_real(policy, "quality.margin");
    double live_margin = config_real(policy, "quality.live_margin");
    ret->margin = margin < 0 ? info->margin : margin;
    ret->live_margin = live_margin < 0 ? info->live_margin : live_margin;
    const char *candidate = json_text_or(json_find(quality->at, "models.candidate.version"), "");
    const char *live = json_text_or(json_find(quality->at, "models.live.version"), "");
    ret->live_is_same_version = candidate[0] != '\0' && text_equal(candidate, live);
    return read_rows(evidence, quality, &ret->rows) && of_this_version(evidence, quality, candidate) &&
           suits_task(evidence, quality, ret);
}

// Of a pair that was not compared row by row there are no draws; too few show no 5 % quantile.
static bool read_draws(const Section *pair, Pair *ret)
{
    enum { REPLICATES_LEAST = 100 };
    Section drawn;
    int64_t replicates = 0;
    if (!section_child(pair, "bootstrap", "quality.pairs.bootstrap", &drawn) ||
        !section_count(&drawn, "replicates", &replicates) ||
        !section_number(&drawn, "lower", &ret->drawn_lower) ||
        !section_number(&drawn, "upper", &ret->drawn_upper)) {
        return false;
    }
    if (replicates < REPLICATES_LEAST) {
        finding_set(pair->finding, OUTCOME_NOT_MEASURED,
                    (Figure){(double)replicates, REPLICATES_LEAST, "draws", ret->rows},
                    "the rows were drawn again %lld times, %d are needed for a bound", (long long)replicates,
                    REPLICATES_LEAST);
    }
    return replicates >= REPLICATES_LEAST;
}

static bool read_pair(const Section *quality, const Json *item, const Rules *rules, Pair *ret)
{
    Section pair;
    *ret = (Pair){.drawn_lower = NAN, .drawn_upper = NAN};
    return section_inside(quality, item, &pair) && section_number(&pair, "value_a", &ret->value_a) &&
           section_number(&pair, "value_b", &ret->value_b) &&
           section_number(&pair, "difference", &ret->difference) &&
           section_number(&pair, "standard_error", &ret->standard_error) &&
           section_number(&pair, "lower", &ret->lower) && section_number(&pair, "upper", &ret->upper) &&
           section_integer(&pair, "rows", &ret->rows) && section_bool(&pair, "identical", &ret->identical) &&
           section_bool(&pair, "constant", &ret->constant) && read_draws(&pair, ret) &&
           (!rules->decides || read_decisions(&pair, &ret->decisions));
}

// A value that the metric cannot have; not a number is left to the rules.
static bool outside(const MetricInfo *info, double value)
{
    return value < 0 || (info->higher_is_better && value > 1);
}

// The pair must add up to itself; values that are not finite are left to the rules, which refuse them.
static bool adds_up(const Section *quality, const char *against, const Pair *pair, const Rules *rules)
{
    const MetricInfo *info = &stats_metrics[rules->metric];
    double sign = info->higher_is_better ? 1 : -1;
    double difference =
        sign * (pair->value_a - pair->value_b) / (info->relative_margin ? fabs(pair->value_b) : 1);
    double lower = pair->difference - ONE_SIDED_95 * pair->standard_error;
    double slack = 1e-3 * pair->standard_error + 1e-9;
    double upper = pair->difference + ONE_SIDED_95 * pair->standard_error;
    bool wrong = fabs(difference - pair->difference) > 1e-6 * (1 + fabs(difference)) ||
                 fabs(lower - pair->lower) > slack || fabs(upper - pair->upper) > slack ||
                 pair->standard_error < 0 || pair->drawn_lower > pair->drawn_upper || pair->rows <= 0 ||
                 pair->rows != rules->rows || outside(info, pair->value_a) || outside(info, pair->value_b);
    if (wrong) {
        finding_set(
            quality->finding, OUTCOME_ERROR, (Figure){pair->difference, difference, "", pair->rows},
            "the pair against '%s' does not add up: %.6g against %.6g, difference %.6g, lower bound %.6g",
            against, pair->value_a, pair->value_b, pair->difference, pair->lower);
    }
    return !wrong;
}

static bool comparable(const Section *quality, const Opponent *opponent, const Pair *pair, const Rules *rules)
{
    bool copied = pair->identical && !(opponent->is_live && rules->live_is_same_version);
    if (pair->constant || copied) {
        finding_set(quality->finding, OUTCOME_FAIL, (Figure){pair->value_a, NAN, "", pair->rows},
                    pair->constant
                        ? "invalid comparison with '%s': the candidate gives every row the same score"
                        : "invalid comparison with '%s': the scores are identical",
                    opponent->name);
    }
    return !pair->constant && !copied;
}

static bool good_enough(const Section *quality, const Config *policy, const Opponent *opponent,
                        const Pair *pair, const Rules *rules)
{
    const char *metric = stats_metrics[rules->metric].name;
    char what[160];
    snprintf(what, sizeof what, "%s %.5g against %.5g of '%s': difference", metric, pair->value_a,
             pair->value_b, opponent->name);
    Figure figure = {pair->difference, opponent->is_live ? -rules->live_margin : rules->margin, "",
                     pair->rows};
    if (!isfinite(pair->value_a) || !isfinite(pair->value_b)) {
        finding_set(quality->finding, OUTCOME_FAIL, figure, "%s cannot be compared with '%s': %g against %g",
                    metric, opponent->name, pair->value_a, pair->value_b);
        return false;
    }
    if (!require_at_least(quality->finding, figure, what)) {
        return false;
    }
    double lower = pair->lower <= pair->drawn_lower ? pair->lower : pair->drawn_lower;
    bool certain = isfinite(pair->lower) && isfinite(pair->upper) && isfinite(pair->standard_error) &&
                   isfinite(pair->drawn_lower) && isfinite(pair->drawn_upper) &&
                   (opponent->is_live || lower > 0);
    if (!certain) {
        finding_set(quality->finding, OUTCOME_FAIL, (Figure){lower, 0, "", pair->rows},
                    "%s %.4g, its lower 95 %% bounds %.4g and, rows drawn again, %.4g must be above 0", what,
                    pair->difference, pair->lower, pair->drawn_lower);
        return false;
    }
    const double slack = rules->live_margin * largest_utility(policy, rules->binary);
    return !rules->decides ||
           judge_decisions(quality, opponent->name, opponent->is_live, slack, &pair->decisions, pair->rows);
}

static const Json *find_pair(const Json *pairs, const char *against)
{
    for (size_t i = 0; i < json_count(pairs); i++) {
        if (text_equal(json_text_or(json_get(json_at(pairs, i), "against"), ""), against)) {
            return json_at(pairs, i);
        }
    }
    return NULL;
}

static bool declared_invalid(const Section *quality)
{
    const Json *invalid = NULL;
    if (!section_has(quality, "invalid")) {
        return false;
    }
    if (!section_array(quality, "invalid", &invalid)) {
        return true;
    }
    if (json_count(invalid) > 0) {
        finding_set(quality->finding, OUTCOME_ERROR, NO_FIGURE, "the comparison is void: %s",
                    json_text_or(json_at(invalid, 0), "a reason that is not a text"));
    }
    return json_count(invalid) > 0;
}

// The figures of a model that `models` shows are those of the pair: a pair with its sides swapped, or of
// another model, shows here.
static bool shown_alike(const Section *quality, const char *name, double value, double utility,
                        const Rules *rules)
{
    const Json *model = json_get(json_get(quality->at, "models"), name);
    const char *metric = stats_metrics[rules->metric].name;
    double shown = json_number_or(json_get(model, metric), NAN);
    double shown_utility = json_number_or(json_get(model, "utility"), NAN);
    bool alike = fabs(shown - value) <= 1e-9 * (1 + fabs(value)) &&
                 (!rules->decides || fabs(shown_utility - utility) <= 1e-9 * (1 + fabs(utility)));
    if (!alike) {
        finding_set(quality->finding, model == NULL ? OUTCOME_NOT_MEASURED : OUTCOME_ERROR,
                    (Figure){value, shown, "", rules->rows},
                    "model '%s' is shown with %s %.6g and utility %.6g, compared with %.6g and %.6g", name,
                    metric, shown, shown_utility, value, utility);
    }
    return alike;
}

// Judges every opponent; the pair with the least room over its limit is the one to show.
static bool judge_pairs(const Section *quality, const Config *policy, const Rules *rules,
                        Finding *ret_nearest)
{
    const Json *pairs = NULL;
    if (!section_array(quality, "pairs", &pairs) || !section_distinct(quality, pairs, "against", NULL)) {
        return false;
    }
    double least_room = INFINITY;
    for (size_t i = 0; i < sizeof opponents / sizeof opponents[0]; i++) {
        const Opponent *opponent = &opponents[i];
        const Json *item = find_pair(pairs, opponent->name);
        if (item == NULL && !opponent->needed(quality, policy)) {
            continue;
        }
        if (item == NULL) {
            finding_set(quality->finding, OUTCOME_NOT_MEASURED, NO_FIGURE,
                        "the candidate was not compared with '%s'", opponent->name);
            return false;
        }
        Pair pair;
        if (!read_pair(quality, item, rules, &pair) || !comparable(quality, opponent, &pair, rules) ||
            !adds_up(quality, opponent->name, &pair, rules) ||
            !good_enough(quality, policy, opponent, &pair, rules) ||
            !shown_alike(quality, "candidate", pair.value_a, pair.decisions.candidate, rules) ||
            !shown_alike(quality, opponent->name, pair.value_b, pair.decisions.other, rules)) {
            return false;
        }
        Figure figure = {pair.difference, opponent->is_live ? -rules->live_margin : rules->margin, "",
                         pair.rows};
        if (figure.value - figure.limit < least_room) {
            least_room = figure.value - figure.limit;
            finding_set(ret_nearest, OUTCOME_PASS, figure,
                        "%s %.5g against %.5g of '%s', difference %.4g, at least %.4g",
                        stats_metrics[rules->metric].name, pair.value_a, pair.value_b, opponent->name,
                        figure.value, figure.limit);
        }
    }
    return true;
}

// What is live is told in four places; what contradicts itself is no comparison with it.
static bool one_live(const Json *evidence, const Section *quality)
{
    static const char *const told[] = {"quality.models.live.version", "input.reference_version",
                                       "distribution.reference_version"};
    const bool release = text_equal(json_text_or(json_get(quality->at, "live_kind"), ""), "release");
    const char *first = json_text_or(json_find(evidence, told[0]), NULL);
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++) {
        const char *version = json_text_or(json_find(evidence, told[i]), NULL);
        if (version != NULL && (!release || !text_equal(version, first))) {
            finding_set(quality->finding, OUTCOME_ERROR, NO_FIGURE, "'%s' is '%.60s', but live is %s '%.60s'",
                        told[i], version, release ? "the release" : "no release,",
                        release && first != NULL ? first : "");
            return false;
        }
    }
    return true;
}

void check_quality(const Json *evidence, const Config *policy, Finding *ret)
{
    Section quality;
    Rules rules;
    Finding nearest = {0};
    int64_t judged = 0;
    int64_t small = 0;
    char calibration[64] = "";
    if (!section_open(evidence, "quality", NULL, ret, &quality) || declared_invalid(&quality) ||
        !read_rules(evidence, &quality, policy, &rules) || !judge_slice_numbers(&quality) ||
        !judge_pairs(&quality, policy, &rules, &nearest) || !one_live(evidence, &quality) ||
        !judge_slices(evidence, &quality, policy, rules.metric == METRIC_AUC, &judged, &small) ||
        (rules.binary && !judge_calibration(&quality, policy, rules.rows, calibration))) {
        return;
    }
    Figure figure = {nearest.value, nearest.limit, nearest.unit, nearest.n};
    finding_set(ret, OUTCOME_PASS, figure, "%s; %lld slices hold, %lld too small to judge%s", nearest.reason,
                (long long)judged, (long long)small, calibration);
}
