// check_fed - how long did steps wait for their batch, and which input stage is the reason?
//
// A wait cannot hide by moving: every rest span whose name begins with "wait" is added to it. Of steps given
// to the device at once an entry has the sums, so that shares need no weights; warm-up is by the length of
// one step.
#include "gate_internal.h"

#include <fedgate/stats.h>
#include <fedgate/text.h>
#include <stdio.h>

static bool add_waits(const Section *steps, double *wait_ns)
{
    Section rest;
    if (!section_child(steps, "rest", "loop.steps.rest", &rest)) {
        return false;
    }
    rest.length = steps->length;
    const char *name = NULL;
    for (size_t i = 0; (name = json_key_at(rest.at, i)) != NULL; i++) {
        const double *span = NULL;
        if (!text_starts_with(name, "wait")) {
            continue;
        }
        if (!section_amounts(&rest, name, &span)) {
            return false;
        }
        for (size_t j = 0; j < steps->length; j++) {
            wait_ns[j] += span[j];
        }
    }
    return true;
}

// Busy time of one item over the threads that share the work: what the slowest stage has most of.
static bool read_stage(const Section *stages, const Json *item, const char **ret_name, double *ret_busy_ns,
                       double *ret_item_ns)
{
    Section stage;
    int64_t items = 0;
    int64_t threads = 0;
    if (!section_inside(stages, item, &stage) || !section_text(&stage, "name", ret_name) ||
        !section_amount(&stage, "busy_ns", ret_busy_ns) || !section_count(&stage, "items", &items) ||
        !section_count(&stage, "threads", &threads)) {
        return false;
    }
    *ret_item_ns = items > 0 && threads > 0 ? *ret_busy_ns / (double)items / (double)threads : 0;
    return true;
}

// Names the limiting stage with its figures; a name that is no stage, or not the slowest, is an error.
static bool name_limit(const Json *evidence, Finding *ret, char ret_text[static 96])
{
    Section top = {evidence, "stages", ret, NULL, SIZE_MAX};
    const Json *stages = NULL;
    const char *limiting = NULL;
    if (!section_array(&top, "stages", &stages) || !section_text(&top, "limiting_stage", &limiting) ||
        !section_distinct(&top, stages, "name", NULL)) {
        return false;
    }
    double slowest = -1;
    double named = -1;
    for (size_t i = 0; i < json_count(stages); i++) {
        const char *name = "";
        double busy_ns = 0;
        double item_ns = 0;
        if (!read_stage(&top, json_at(stages, i), &name, &busy_ns, &item_ns)) {
            return false;
        }
        slowest = item_ns > slowest ? item_ns : slowest;
        if (text_equal(name, limiting) && limiting[0] != '\0') {
            named = item_ns;
            snprintf(ret_text, 96, "limiting stage '%.40s' busy %.3g s", limiting, busy_ns / WALL_NS_PER_S);
        }
    }
    if (named < 0) {
        finding_set(ret, OUTCOME_ERROR, NO_FIGURE, "limiting stage '%.80s' is none of the %zu stages",
                    limiting, json_count(stages));
    } else if (named < slowest) {
        finding_set(ret, OUTCOME_ERROR, (Figure){named, slowest, "ns", 1},
                    "limiting stage '%.40s' takes %.0f ns an item, another takes %.0f ns", limiting, named,
                    slowest);
    }
    return named >= 0 && named >= slowest;
}

static bool longer_than_step(const double *wait, const double *wall, size_t count, Finding *ret)
{
    for (size_t i = 0; i < count; i++) {
        if (!(wall[i] > 0 && wait[i] <= wall[i])) {
            finding_set(ret, OUTCOME_ERROR, NO_FIGURE, "step entry %zu waits %g ns of %g ns", i, wait[i],
                        wall[i]);
            return true;
        }
    }
    return false;
}

// Time of each entry that a share may be of: at most three median steps and what it waited. One absurd length
// would thin out every wait. length_ns: of a step in, of the entry out.
static bool bound_length(const Section *steps, double *length_ns, const double *wait_ns, const double *held,
                         size_t count)
{
    static const double MEDIANS = 3;
    double *sorted = section_scratch(steps, count);
    if (sorted == NULL) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        sorted[i] = length_ns[i];
    }
    double most = MEDIANS * stats_quantile(sorted, count, 0.5);
    for (size_t i = 0; i < count; i++) {
        length_ns[i] = fmin(length_ns[i] * held[i], most * held[i] + wait_ns[i]);
    }
    return true;
}

void check_fed(const Json *evidence, const Config *policy, Finding *ret)
{
    OWNED(Arena, arena_free) *judge = arena_new(JUDGE_MEMORY_BYTES);
    Section steps;
    const double *wall = NULL;
    const double *batch_wait = NULL;
    char stage[96];
    if (!section_open(evidence, "loop.steps", judge, ret, &steps) ||
        !section_amounts(&steps, "wall_ns", &wall) || !section_amounts(&steps, "wait_ns", &batch_wait) ||
        !name_limit(evidence, ret, stage)) {
        return;
    }
    double *wait = section_scratch(&steps, steps.length);
    if (wait == NULL) {
        return;
    }
    for (size_t i = 0; i < steps.length; i++) {
        wait[i] = batch_wait[i];
    }
    size_t warmup = 0;
    const double *held = NULL;
    double total = 0;
    double *length = section_scratch(&steps, steps.length);
    if (length == NULL || !add_waits(&steps, wait) || longer_than_step(wait, wall, steps.length, ret) ||
        !section_held(&steps, &held, &total)) {
        return;
    }
    for (size_t i = 0; i < steps.length; i++) {
        length[i] = wall[i] / held[i];
    }
    if (!count_warmup(&steps, length, steps.length, &warmup)) {
        return;
    }
    size_t count = steps.length - warmup;
    if (!bound_length(&steps, length + warmup, wait + warmup, held + warmup, count)) {
        return;
    }
    double judged = stats_sum(held + warmup, count);
    if (count == 0) {
        finding_set(ret, OUTCOME_NOT_MEASURED, NO_FIGURE, "no step was timed");
        return;
    }
    Figure share = {stats_sum(wait + warmup, count) / stats_sum(length + warmup, count),
                    config_real(policy, "fed.wait"), "ratio", (int64_t)judged};
    char what[160];
    snprintf(what, sizeof what, "batch wait (%s) as a share of step time", stage);
    if (!require_at_most(ret, share, what)) {
        return;
    }
    if (!section_entries(evidence, &steps, held, total)) {
        return;
    }
    bool enough = judged >= STEPS_TO_JUDGE;
    finding_set(ret, enough ? OUTCOME_PASS : OUTCOME_INCONCLUSIVE, share,
                "batch wait is %.2f %% of step time over %.0f steps%s; %s", share.value * 100, judged,
                enough ? "" : ", 20 are needed", stage);
}
