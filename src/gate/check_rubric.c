// check_rubric - is what a person needs beside the checks there, and is enough of the whole met?
//
// The production rubric: items with a weight, each met by a check before this one in the table, by what the
// night wrote into `release`, or by both. Passes with every required item and at least rubric.score of the
// weight. An item that could not be told is not a failure of the model: the outcome is then that of the
// item, unless a failure is certain already.
#include "gate_internal.h"

#include <fedgate/text.h>
#include <stdio.h>
#include <string.h>

static const double CHECKPOINT = 0.8;   // least overlap floor of a release (brief.md, row 5)
enum { WALL_SLACK_NS = 2000 };

typedef struct RubricItem {
    const char *name;
    int weight;
    bool required;
    const char *check;   // met when it passes; NULL: no check
    void (*judge)(const Json *evidence, const Config *policy, Finding *ret);   // NULL: the check alone
    const char *how;   // where a person sees it
} RubricItem;

// -- items shown by evidence; each begins as passed

static void checkpoint_kept(const Json *evidence, const Config *policy, Finding *ret)
{
    (void)evidence;
    Figure floor = {config_real(policy, "overlap.floor"), CHECKPOINT, "ratio", 1};
    (void)require_at_least(ret, floor, "the overlap floor of the policy");
}

static int64_t value_at(const Json *evidence, const char *series, int64_t at)
{
    return json_integer_or(json_at(json_find(evidence, series), (size_t)at), -1);
}

static int64_t place_of(const Json *evidence, const char *indices, int64_t step)
{
    const Json *index = json_find(evidence, indices);
    for (size_t i = 0; i < json_count(index); i++) {
        if (json_integer_or(json_at(index, i), -1) == step) {
            return (int64_t)i;
        }
    }
    return -1;
}

// The example must be a step that this night measured, figure for figure.
static bool example_measured(const Json *evidence, const Section *example, int64_t step)
{
    static const struct {
        const char *indices, *series, *key;
    } figures[] = {
        {"loop.steps.index", "loop.steps.wall_ns", "wall_ns"},
        {"loop.steps.index", "loop.steps.wait_ns", "wait_ns"},
        {"loop.steps.index", "loop.steps.exposed_copy_ns", "exposed_copy_ns"},
        {"loop.steps.index", "loop.steps.compute_ns", "compute_ns"},
        {"timeline.steps.index", "timeline.steps.copy_ns", "copy_ns"},
        {"timeline.steps.index", "timeline.steps.hidden_ns", "hidden_ns"},
    };
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
        if (json_count(json_find(evidence, figures[i].indices)) == 0) {
            finding_set(example->finding, OUTCOME_NOT_MEASURED, NO_FIGURE, "no '%s' to find the example in",
                        figures[i].indices);
            return false;
        }
        int64_t place = place_of(evidence, figures[i].indices, step);
        int64_t said = json_integer_or(json_get(example->at, figures[i].key), -1);
        int64_t measured = place < 0 ? -1 : value_at(evidence, figures[i].series, place);
        if (measured < 0 || said != measured) {
            finding_set(example->finding, OUTCOME_FAIL, (Figure){(double)said, (double)measured, "ns", 1},
                        "the example says %lld for '%s' of step %lld, this night measured %s%lld",
                        (long long)said, figures[i].key, (long long)step,
                        measured < 0 ? "no such step: " : "", (long long)measured);
            return false;
        }
    }
    return true;
}

// wait + exposed copy + compute + rest = wall, for one step that a person can add up.
static void example_adds_up(const Json *evidence, const Config *policy, Finding *ret)
{
    (void)policy;
    static const char *const spans[] = {"wait_ns", "exposed_copy_ns", "compute_ns", "rest_ns"};
    Section example;
    int64_t wall = 0, copied = 0, hidden = 0, span = 0, step = 0;
    double sum = 0;   // of spans that may be anything
    if (!section_open(evidence, "release.worked_example", NULL, ret, &example) ||
        !section_count(&example, "step", &step) || !section_count(&example, "wall_ns", &wall) ||
        !section_count(&example, "copy_ns", &copied) || !section_count(&example, "hidden_ns", &hidden)) {
        return;
    }
    for (size_t i = 0; i < sizeof spans / sizeof spans[0]; i++) {
        if (!section_count(&example, spans[i], &span)) {
            return;
        }
        sum += (double)span;
    }
    double slack = fmax((double)wall / 100, WALL_SLACK_NS);
    bool closes = wall > 0 && hidden <= copied && fabs(sum - (double)wall) <= slack;
    if (!closes) {
        finding_set(
            ret, OUTCOME_FAIL, (Figure){sum, (double)wall, "ns", 1},
            "step %lld does not add up: its spans are %.0f ns of %lld, %lld of %lld ns of copies hidden",
            (long long)step, sum, (long long)wall, (long long)hidden, (long long)copied);
        return;
    }
    (void)example_measured(evidence, &example, step);
}

static void fallback_verified(const Json *evidence, const Config *policy, Finding *ret)
{
    (void)policy;
    Section fallback;
    const char *kind = NULL, *version = NULL;
    bool verified = false;
    if (!section_open(evidence, "release.fallback", NULL, ret, &fallback) ||
        !section_text(&fallback, "kind", &kind) || !section_text(&fallback, "version", &version) ||
        !section_bool(&fallback, "verified", &verified)) {
        return;
    }
    const char *live = json_text_or(json_find(evidence, "quality.live_kind"), "");
    const char *compared = json_text_or(json_find(evidence, "quality.models.live.version"), NULL);
    bool known = text_equal(kind, "release") || text_equal(kind, "baseline");
    if (!verified || version[0] == '\0') {
        finding_set(ret, OUTCOME_FAIL, NO_FIGURE,
                    "what stays live on a refusal, %.20s '%.60s', does not verify", kind, version);
    } else if (!known || (text_equal(live, "release") && !text_equal(compared, version))) {
        finding_set(ret, OUTCOME_ERROR, NO_FIGURE,
                    "what stays live on a refusal is %.20s '%.60s', compared was with %.20s '%.60s'", kind,
                    version, live, compared == NULL ? "" : compared);
    }
}

static void named(const Json *evidence, const char *key, Finding *ret)
{
    Section release;
    const char *text = NULL;
    if (section_open(evidence, "release", NULL, ret, &release) && section_text(&release, key, &text) &&
        text[0] == '\0') {
        finding_set(ret, OUTCOME_FAIL, NO_FIGURE, "no %s is named", key);
    }
}

static void owner_named(const Json *evidence, const Config *policy, Finding *ret)
{
    (void)policy;
    named(evidence, "owner", ret);
}

static void simulated(const Json *evidence, const Config *policy, Finding *ret)
{
    (void)policy;
    Section simulation;
    (void)section_open(evidence, "release.simulation", NULL, ret, &simulation);
}

static void measured(const Json *evidence, const char *dotted, const char *key, Finding *ret)
{
    Section section;
    double value = NAN;
    if (section_open(evidence, dotted, NULL, ret, &section) && section_number(&section, key, &value) &&
        !(isfinite(value) && value >= 0)) {
        finding_set(ret, OUTCOME_FAIL, (Figure){value, NAN, "", 1}, "'%s.%s' is %g", dotted, key, value);
    }
}

static void latency_known(const Json *evidence, const Config *policy, Finding *ret)
{
    (void)policy;
    measured(evidence, "latency", "p99_ns", ret);
}

static void cost_known(const Json *evidence, const Config *policy, Finding *ret)
{
    (void)policy;
    measured(evidence, "cost", "cost_per_sample", ret);
}

static const RubricItem items[] = {
    {"overlap checkpoint", 12, true, "overlap", checkpoint_kept,
     "check 'overlap' with a floor of at least 80 % of copy time"},
    {"input keeps up", 4, false, "fed", NULL, "check 'fed'"},
    {"possible timing", 6, true, "plausible", NULL, "check 'plausible'"},
    {"time adds up", 4, false, "closure", NULL, "check 'closure'"},
    {"memory budget", 10, true, "memory", NULL, "check 'memory'"},
    {"precision parity", 10, true, "parity", NULL, "check 'parity' and its rungs"},
    {"same bits again", 6, false, "determinism", NULL, "check 'determinism'"},
    {"completion window", 10, true, "window", NULL, "check 'window'"},
    {"worth its complexity", 10, true, "quality", NULL, "check 'quality': rule, baseline, live, slices"},
    {"sound data", 5, false, "input", NULL, "check 'input'"},
    {"scores where they were", 2, false, "distribution", NULL, "check 'distribution'"},
    {"worked example", 3, true, NULL, example_adds_up,
     "release-evidence.json: one step of this night, its spans added up"},
    {"hand-checked results", 4, true, NULL, formal_results_hold,
     "release-evidence.json: ledger, roofline, overlap, closure against figures worked by hand"},
    {"named fallback", 6, true, NULL, fallback_verified,
     "release-evidence.json: what stays live on a refusal, verified from disk"},
    {"owner", 2, true, NULL, owner_named, "option 'owner': who may roll back"},
    {"scoring latency known", 1, false, NULL, latency_known, "evidence 'latency': p50 and p99 of one row"},
    {"cost known", 1, false, NULL, cost_known, "evidence 'cost': cost per trained sample"},
    {"simulation", 4, false, NULL, simulated, "output of the simulation, when a night has one"},
};
enum { ITEMS = sizeof items / sizeof items[0] };

static void judge_item(const RubricItem *item, const Json *evidence, const Config *policy,
                       const Finding *before, Finding *ret)
{
    *ret = (Finding){OUTCOME_PASS, NAN, NAN, "", 1, ""};
    if (item->check != NULL) {
        const GateCheck *check = gate_find_check(item->check);
        const Finding *found = &before[check - gate_checks];
        if (!gate_counts_as_pass(check, found->outcome)) {
            bool applies = found->outcome != OUTCOME_NOT_APPLICABLE;
            finding_set(ret, applies ? found->outcome : OUTCOME_NOT_MEASURED,
                        (Figure){found->value, found->limit, found->unit, found->n}, "check '%s' is %s",
                        item->check, gate_outcome_name(found->outcome));
            return;
        }
    }
    if (item->judge != NULL) {
        item->judge(evidence, policy, ret);
    }
}

typedef struct Score {
    int total, met, open;   // weights; open: neither met nor failed
    bool required_met;
    const RubricItem *worst;   // required and not met, the worst and then the first
    Finding why;
} Score;

static void add_up(const Finding findings[ITEMS], Score *ret)
{
    *ret = (Score){.required_met = true, .why = {.outcome = OUTCOME_PASS}};
    for (size_t i = 0; i < ITEMS; i++) {
        bool met = findings[i].outcome == OUTCOME_PASS;
        ret->total += items[i].weight;
        ret->met += met ? items[i].weight : 0;
        ret->open += !met && findings[i].outcome != OUTCOME_FAIL ? items[i].weight : 0;
        if (met || !items[i].required) {
            continue;
        }
        ret->required_met = false;
        if (findings[i].outcome > ret->why.outcome) {
            ret->worst = &items[i];
            ret->why = findings[i];
        }
    }
}

static void judge_items(const Json *evidence, const Config *policy, const Finding *before,
                        Finding ret_findings[ITEMS])
{
    for (size_t i = 0; i < ITEMS; i++) {
        judge_item(&items[i], evidence, policy, before, &ret_findings[i]);
    }
}

void check_rubric(const Json *evidence, const Config *policy, const Finding *before, Finding *ret)
{
    Finding findings[ITEMS];
    Score score;
    judge_items(evidence, policy, before, findings);
    add_up(findings, &score);
    Figure figure = {(double)score.met / score.total, config_real(policy, "rubric.score"), "ratio", ITEMS};
    Figure most = {(double)(score.met + score.open) / score.total, figure.limit, "ratio", ITEMS};
    if (!score.required_met && score.why.outcome == OUTCOME_FAIL) {
        finding_set(ret, OUTCOME_FAIL, figure, "required item '%s' is not met: %.160s", score.worst->name,
                    score.why.reason);
    } else if (require_at_least(ret, most, "the score of the rubric, counting what was not measured,")) {
        if (!score.required_met) {
            finding_set(ret, score.why.outcome, figure, "required item '%s' cannot be told: %.160s",
                        score.worst->name, score.why.reason);
        } else if (!(figure.value >= figure.limit)) {
            finding_set(ret, OUTCOME_NOT_MEASURED, figure,
                        "%d of %d points are met, %d more were not measured", score.met, score.total,
                        score.open);
        } else {
            finding_set(ret, OUTCOME_PASS, figure, "%d of %d points of %d items, every required item met",
                        score.met, score.total, ITEMS);
        }
    }
}

Json *rubric_to_json(const Json *evidence, const Config *policy, const Finding *before)
{
    Finding findings[ITEMS];
    Score score;
    judge_items(evidence, policy, before, findings);
    add_up(findings, &score);
    Json *rubric = json_make_object(), *array = json_make_array();
    json_put_number(rubric, "score", (double)score.met / score.total);
    json_put_bool(rubric, "required_met", score.required_met);
    json_put(rubric, "items", array);
    for (size_t i = 0; i < ITEMS; i++) {
        Json *item = json_make_object();
        json_put_text(item, "name", items[i].name);
        json_put_integer(item, "weight", items[i].weight);
        json_put_bool(item, "required", items[i].required);
        json_put_bool(item, "met", findings[i].outcome == OUTCOME_PASS);
        json_put_text(item, "how", items[i].how);
        json_put_text(item, "why_not", findings[i].outcome == OUTCOME_PASS ? NULL : findings[i].reason);
        json_add(array, item);
    }
    return rubric;
}
