// check_closure - do the separately measured spans of a step add up to its wall time?
//
// Steps that were given to the device at once are one entry, with one reading for each span: it closes within
// the same bound as a single step, and counts as the steps it holds.
#include "gate_internal.h"

#include <fedgate/text.h>

#include <strings.h>

static const double LEAST_TOLERANCE_NS = 2000;

// Names that would turn an unmeasured remainder into a measured span.
static const char *const vague_names[] = {"",          "other", "others",  "rest",   "residual",
                                          "remainder", "misc",  "unknown", "unnamed"};

static bool vague(const char *name)
{
    for (size_t i = 0; i < sizeof vague_names / sizeof vague_names[0]; i++) {
        if (strcasecmp(name, vague_names[i]) == 0) {
            return true;
        }
    }
    return false;
}

static bool add_series(Section *section, const char *key, double *sum)
{
    const double *span = NULL;
    if (!section_amounts(section, key, &span)) {
        return false;
    }
    for (size_t i = 0; i < section->length; i++) {
        sum[i] += span[i];
    }
    return true;
}

static bool add_spans(Section *steps, double *sum)
{
    Section rest;
    if (!add_series(steps, "wait_ns", sum) || !add_series(steps, "exposed_copy_ns", sum) ||
        !add_series(steps, "compute_ns", sum) || !section_child(steps, "rest", "loop.steps.rest", &rest)) {
        return false;
    }
    rest.length = steps->length;
    const char *name = NULL;
    for (size_t i = 0; (name = json_key_at(rest.at, i)) != NULL; i++) {
        if (vague(name)) {
            finding_set(steps->finding, OUTCOME_ERROR, NO_FIGURE,
                        "the step has a span named '%s', which was not measured as itself", name);
            return false;
        }
        if (!add_series(&rest, name, sum)) {
            return false;
        }
    }
    return true;
}

void check_closure(const Json *evidence, const Config *policy, Finding *ret)
{
    OWNED(Arena, arena_free) *judge = arena_new(JUDGE_MEMORY_BYTES);
    Section steps;
    const double *wall = NULL;
    const double *held = NULL;
    double total = 0;
    if (!section_open(evidence, "loop.steps", judge, ret, &steps) ||
        !section_amounts(&steps, "wall_ns", &wall)) {
        return;
    }
    double *sum = section_scratch(&steps, steps.length);
    if (sum == NULL || !add_spans(&steps, sum)) {
        return;
    }
    if (steps.length == 0) {
        finding_set(ret, OUTCOME_NOT_MEASURED, NO_FIGURE, "no step was timed");
        return;
    }
    if (!section_held(&steps, &held, &total)) {
        return;
    }
    double tolerance = config_real(policy, "closure.tolerance");
    double closed = 0;
    double worst = 0;
    for (size_t i = 0; i < steps.length; i++) {
        double allowed = fmax(tolerance * wall[i], LEAST_TOLERANCE_NS);
        double gap = fabs(sum[i] - wall[i]);
        closed += gap <= allowed ? held[i] : 0;
        worst = gap > worst ? gap : worst;
    }
    Figure share = {closed / total, config_real(policy, "closure.steps"), "ratio", (int64_t)total};
    if (require_at_least(ret, share, "share of steps whose spans add up to their wall time")) {
        if (!section_entries(evidence, &steps, held, total)) {
            return;
        }
        bool enough = total >= STEPS_TO_JUDGE;
        finding_set(ret, enough ? OUTCOME_PASS : OUTCOME_INCONCLUSIVE, share,
                    "the spans of %.0f of %.0f steps add up to their wall time, worst difference %.3g us%s",
                    closed, total, worst / 1000, enough ? "" : "; 20 steps are needed");
    }
}
