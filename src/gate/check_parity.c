// check_parity - does the precision used give the model that FP32 gives? The ladder of design.md section 4.
//
// Every rung is judged, whatever those before it found; the worst decides, among equals one that names a
// cause, then the first. An FP32 night has the first rung only.
#include "parity_internal.h"

#include <fedgate/text.h>

#include <stdio.h>

static const struct {
    int number;   // of design.md section 4
    const char *name;
    void (*measure)(Ladder *ladder, const Section *parity);
} rungs[RUNG_COUNT] = {
    [RUNG_REFERENCE] = {1, "reference", rung_reference},
    [RUNG_OPERATIONS] = {2, "operations", rung_operations},
    [RUNG_GRADIENTS] = {3, "gradients", rung_gradients},
    [RUNG_STEP] = {4, "step", rung_step},
    [RUNG_SCALE] = {4, "scale", rung_scale},
    [RUNG_TRAJECTORY] = {5, "trajectory", rung_trajectory},
    [RUNG_METRIC] = {6, "metric", rung_metric},
    [RUNG_SLICES] = {6, "slices", rung_slices},
};

static const char *const halves[HALF_COUNT] = {[HALF_BF16] = "bf16", [HALF_FP16] = "fp16"};

// FP32 has no other rung: evidence of one is of another precision. (The loss scale is told of every night.)
static bool fp32_alone(const Section *parity)
{
    static const char *const higher[] = {"operations", "growth",     "gradients", "controls",
                                         "step",       "trajectory", "metric",    "slices"};
    for (size_t i = 0; i < sizeof higher / sizeof higher[0]; i++) {
        if (section_has(parity, higher[i])) {
            finding_set(
                parity->finding, OUTCOME_ERROR, NO_FIGURE,
                "'parity.%s' is there in a night that is said to be FP32: something else was compared",
                higher[i]);
            return false;
        }
    }
    return true;
}

// HALF_COUNT: FP32. False: the finding says why nothing can be judged.
static bool read_precision(Ladder *ladder, const Section *parity)
{
    const char *trained = NULL;
    const char *reference = NULL;
    Section top = {ladder->evidence, "evidence", parity->finding, NULL, SIZE_MAX};
    if (!section_text(parity, "precision", &ladder->precision) ||
        !section_text(&top, "precision", &trained) || !section_text(parity, "reference", &reference)) {
        return false;
    }
    bool known = text_equal(trained, "fp32");
    ladder->half = HALF_COUNT;
    for (int half = 0; half < HALF_COUNT; half++) {
        if (text_equal(trained, halves[half])) {
            ladder->half = (Half)half;
            known = true;
        }
    }
    bool same = text_equal(ladder->precision, trained);
    if (!same || !known) {
        finding_set(parity->finding, OUTCOME_NOT_MEASURED, NO_FIGURE,
                    same ? "trained in '%.20s', probed in '%.20s': there are no bars for it"
                         : "trained in '%.20s', probed in '%.20s'",
                    trained, ladder->precision);
    }
    if (same && known && !text_equal(reference, "float64")) {
        finding_set(parity->finding, OUTCOME_ERROR, NO_FIGURE, "the arbiter is '%.20s', float64 is meant",
                    reference);
        return false;
    }
    return same && known && (ladder->half != HALF_COUNT || fp32_alone(parity));
}

// ret_slices: an array for the rows of single slices, or NULL.
static void climb(Ladder *ladder, const Json *evidence, const Config *policy, Arena *judge, Json *ret_slices)
{
    Section parity;
    *ladder = (Ladder){
        .evidence = evidence, .policy = policy, .judge = judge, .half = HALF_COUNT, .slices = ret_slices};
    bool open = section_open(evidence, "parity", judge, &ladder->findings[RUNG_REFERENCE], &parity) &&
                read_precision(ladder, &parity);
    for (int rung = 0; rung < RUNG_COUNT; rung++) {
        Finding *finding = &ladder->findings[rung];
        parity.finding = finding;
        if (open && (rung == RUNG_REFERENCE || ladder->half != HALF_COUNT)) {
            finding_set(finding, OUTCOME_PASS, NO_FIGURE, "%s", "");
            rungs[rung].measure(ladder, &parity);
            ladder_settle(ladder, (Rung)rung);
        } else if (rung != RUNG_REFERENCE) {
            bool fp32 = text_equal(json_text_or(json_get(evidence, "precision"), ""), "fp32");
            finding_set(finding, fp32 ? OUTCOME_NOT_APPLICABLE : OUTCOME_NOT_MEASURED, NO_FIGURE,
                        fp32 ? "an FP32 night has rung 1 only" : "not judged: rung 1 says why");
        }
    }
}

// -- what decided

static Outcome rank(const Finding *finding)
{
    return finding->outcome == OUTCOME_NOT_APPLICABLE ? OUTCOME_PASS : finding->outcome;
}

static Rung deciding(const Ladder *ladder)
{
    int worst = RUNG_REFERENCE;
    for (int rung = 1; rung < RUNG_COUNT; rung++) {
        Outcome here = rank(&ladder->findings[rung]);
        Outcome before = rank(&ladder->findings[worst]);
        bool worse = here > before || (here == before && ladder->named[rung] && !ladder->named[worst]);
        worst = worse ? rung : worst;
    }
    return (Rung)worst;
}

static void say_pass(const Ladder *ladder, Finding *ret)
{
    Bar bar = BAR_COUNT;
    const Reading *nearest = ladder_nearest(ladder, RUNG_COUNT, &bar);
    const Reading *metric = &ladder->readings[BAR_METRIC];
    Figure figure = {metric->value, metric->limit, metric->worst, metric->n};
    int64_t steps = json_integer_or(json_find(ladder->evidence, "parity.trajectory.steps"), 0);
    int64_t done = json_integer_or(json_find(ladder->evidence, "window.done_steps"), 0);
    char place[200];
    char told[64] = "";
    bar_place(bar, nearest, place, sizeof place);
    if (ladder->resolved > 0) {
        snprintf(told, sizeof told, "; no slice is harmed by as much as %.3g", ladder->resolved);
    }
    finding_set(
        ret, OUTCOME_PASS, figure,
        "%s gives the model of FP32: %s within %.3g, margin %.3g (%lld pairs, %zu needed) after %lld of "
        "%lld steps%s; nearest its bar: %s, %.3g of %.3g",
        ladder->precision, metric->worst, metric->value, metric->limit, (long long)metric->n,
        ladder->pairs_needed, (long long)steps, (long long)done, told, place, nearest->value, nearest->limit);
}

static void say(const Ladder *ladder, Finding *ret)
{
    Rung rung = deciding(ladder);
    const Finding *found = &ladder->findings[rung];
    Figure figure = {found->value, found->limit, found->unit, found->n};
    bool fp32 = ladder->half == HALF_COUNT;
    if (rank(found) != OUTCOME_PASS) {
        finding_set(ret, found->outcome, figure, "%s%s%s", fp32 ? "" : rungs[rung].name, fp32 ? "" : ": ",
                    found->reason);
    } else if (fp32) {
        finding_set(ret, OUTCOME_PASS, figure, "%s; rungs 2 to 6 not applicable", found->reason);
    } else {
        say_pass(ladder, ret);
    }
}

void check_parity(const Json *evidence, const Config *policy, Finding *ret)
{
    OWNED(Arena, arena_free) *judge = arena_new(JUDGE_MEMORY_BYTES);
    Ladder ladder;
    climb(&ladder, evidence, policy, judge, NULL);
    say(&ladder, ret);
}

// -- for people

static void put_figure(Json *row, const char *key, double value)
{
    json_put(row, key, isnan(value) ? NULL : json_make_number(value));
}

static Json *row_of(Rung rung, const char *name, Outcome outcome)
{
    Json *row = json_make_object();
    json_put_text(row, "rung", rungs[rung].name);
    json_put_integer(row, "number", rungs[rung].number);
    json_put_text(row, "name", name);
    json_put_text(row, "outcome", gate_outcome_name(outcome));
    return row;
}

static Json *bar_row(const Ladder *ladder, Bar bar)
{
    const BarInfo *info = &parity_bars[bar];
    const Reading *reading = &ladder->readings[bar];
    Json *row = row_of(info->rung, info->name, reading->outcome);
    json_put_text(row, "worst", reading->worst);
    json_put_text(row, "at", reading->at);
    put_figure(row, "value", reading->value);
    put_figure(row, "limit", reading->limit);
    json_put_text(row, "bound", info->least ? "at least" : "at most");
    json_put_text(row, "unit", info->unit);
    json_put_text(row, "source", info->source);
    json_put_integer(row, "n", reading->n);
    return row;
}

// Of one slice: not a bar, so that it decides nothing; over its limit it explains what is undecided.
static Json *slice_row(const Json *told)
{
    bool fine = json_number_or(json_get(told, "value"), NAN) <= json_number_or(json_get(told, "limit"), NAN);
    Json *row = row_of(RUNG_SLICES, json_text_or(json_get(told, "name"), ""),
                       fine ? OUTCOME_PASS : OUTCOME_NOT_APPLICABLE);
    static const char *const keys[] = {"worst", "at", "value", "limit", "n"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        json_put(row, keys[i], json_copy_deep(json_get(told, keys[i])));
    }
    json_put_text(row, "bound", "at most");
    json_put_text(row, "unit", "");
    json_put_text(row, "source",
                  "one-sided paired t at 0.05 with power 0.8, at no harm; at least one row's step");
    return row;
}

Json *parity_table(const Json *evidence, const Config *policy)
{
    OWNED(Arena, arena_free) *judge = arena_new(JUDGE_MEMORY_BYTES);
    Ladder ladder;
    OWNED(Json, json_free) *slices = json_make_array();
    climb(&ladder, evidence, policy, judge, slices);
    Json *table = json_make_array();
    for (int rung = 0; rung < RUNG_COUNT; rung++) {
        Outcome shown = OUTCOME_PASS;
        size_t rows = 0;
        for (int bar = 0; bar < BAR_COUNT; bar++) {
            if (parity_bars[bar].rung == (Rung)rung && ladder.readings[bar].n > 0) {
                json_add(table, bar_row(&ladder, (Bar)bar));
                shown = ladder.readings[bar].outcome > shown ? ladder.readings[bar].outcome : shown;
                rows++;
            }
        }
        const Finding *finding = &ladder.findings[rung];
        if (rows == 0 || finding->outcome > shown) {   // what no bar shows
            Json *row = row_of((Rung)rung, finding->reason, finding->outcome);
            put_figure(row, "value", finding->value);
            put_figure(row, "limit", finding->limit);
            json_put_text(row, "unit", finding->unit);
            json_put_integer(row, "n", finding->n);
            json_add(table, row);
        }
    }
    for (size_t i = 0; i < json_count(slices); i++) {
        json_add(table, slice_row(json_at(slices, i)));
    }
    return table;
}
