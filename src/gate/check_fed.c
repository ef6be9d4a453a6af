// check_fed - how long did steps wait for their batch, and which input stage is the reason?
//
// A wait cannot hide by moving: every rest span whose name begins with "wait" is added to it.
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

// Names the limiting stage with its figures; a name that is no stage is an error.
static bool name_limit(const Json *evidence, Finding *ret, char ret_text[static 96])
{
    Section top = {evidence, "evidence", ret, NULL, SIZE_MAX};
    const Json *stages = NULL;
    const char *limiting = NULL;
    if (!section_array(&top, "stages", &stages) || !section_text(&top, "limiting_stage", &limiting)) {
        return false;
    }
    for (size_t i = 0; i < json_count(stages); i++) {
        const Json *stage = json_at(stages, i);
        if (text_equal(json_text_or(json_get(stage, "name"), ""), limiting) && limiting[0] != '\0') {
            double busy = json_number_or(json_get(stage, "busy_ns"), NAN) / WALL_NS_PER_S;
            snprintf(ret_text, 96, "limiting stage '%.40s' busy %.3g s", limiting, busy);
            return true;
        }
    }
    finding_set(ret, OUTCOME_ERROR, NO_FIGURE, "limiting stage '%.80s' is none of the %zu stages", limiting,
                json_count(stages));
    return false;
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
    if (!add_waits(&steps, wait) || longer_than_step(wait, wall, steps.length, ret) ||
        !count_warmup(&steps, wall, steps.length, &warmup)) {
        return;
    }
    size_t count = steps.length - warmup;
    if (count == 0) {
        finding_set(ret, OUTCOME_NOT_MEASURED, NO_FIGURE, "no step was timed");
        return;
    }
    Figure share = {stats_sum(wait + warmup, count) / stats_sum(wall + warmup, count),
                    config_real(policy, "fed.wait"), "ratio", (int64_t)count};
    char what[160];
    snprintf(what, sizeof what, "batch wait (%s) as a share of step time", stage);
    if (!require_at_most(ret, share, what)) {
        return;
    }
    bool enough = count >= STEPS_TO_JUDGE;
    finding_set(ret, enough ? OUTCOME_PASS : OUTCOME_INCONCLUSIVE, share,
                "batch wait is %.2f %% of step time over %zu steps%s; %s", share.value * 100, count,
                enough ? "" : ", 20 are needed", stage);
}
