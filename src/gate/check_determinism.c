// check_determinism - do replayed steps give the same bits, from the start and from the middle?
#include "gate_internal.h"

#include <fedgate/text.h>
#include <stdio.h>

enum { REPLAYS_LEAST = 2 };

// Counts the tensors of one replay; the first that differs is a fail that names it.
static bool same_tensors(const Section *replay, const char *where, int64_t *tensors)
{
    const Json *array = NULL;
    if (!section_array(replay, "tensors", &array)) {
        return false;
    }
    if (json_count(array) == 0) {
        finding_set(replay->finding, OUTCOME_NOT_MEASURED, NO_FIGURE, "the replay from %s compared no tensor",
                    where);
        return false;
    }
    for (size_t i = 0; i < json_count(array); i++) {
        Section tensor;
        const char *name = NULL;
        const char *first = NULL;
        const char *again = NULL;
        if (!section_inside(replay, json_at(array, i), &tensor) || !section_text(&tensor, "name", &name) ||
            !section_text(&tensor, "first", &first) || !section_text(&tensor, "again", &again)) {
            return false;
        }
        if (first[0] == '\0') {
            finding_set(replay->finding, OUTCOME_ERROR, NO_FIGURE, "tensor '%.60s' has an empty digest",
                        name);
            return false;
        }
        if (!text_equal(first, again)) {
            finding_set(replay->finding, OUTCOME_FAIL, (Figure){1, 0, "tensors", *tensors + 1},
                        "tensor '%.60s' differs when replayed from %s: %.12s, again %.12s", name, where,
                        first, again);
            return false;
        }
        ++*tensors;
    }
    return true;
}

static bool judge_replay(const Section *determinism, const Json *item, int64_t *ret_from, int64_t *tensors)
{
    Section replay;
    int64_t steps = 0;
    if (!section_inside(determinism, item, &replay) || !section_integer(&replay, "from_step", ret_from) ||
        !section_integer(&replay, "steps", &steps)) {
        return false;
    }
    if (steps < 1) {
        finding_set(determinism->finding, OUTCOME_NOT_MEASURED, NO_FIGURE,
                    "the replay from step %lld repeats no step", (long long)*ret_from);
        return false;
    }
    char where[32];
    snprintf(where, sizeof where, "step %lld", (long long)*ret_from);
    return same_tensors(&replay, where, tensors);
}

void check_determinism(const Json *evidence, const Config *policy, Finding *ret)
{
    (void)policy;
    Section determinism;
    const Json *replays = NULL;
    if (!section_open(evidence, "determinism", NULL, ret, &determinism) ||
        !section_array(&determinism, "replays", &replays)) {
        return;
    }
    int64_t tensors = 0;
    int64_t least = INT64_MAX;
    int64_t most = INT64_MIN;
    for (size_t i = 0; i < json_count(replays); i++) {
        int64_t from = 0;
        if (!judge_replay(&determinism, json_at(replays, i), &from, &tensors)) {
            return;
        }
        least = from < least ? from : least;
        most = from > most ? from : most;
    }
    Section whole;
    if (section_has(&determinism, "whole_run") &&
        (!section_child(&determinism, "whole_run", "determinism.whole_run", &whole) ||
         !same_tensors(&whole, "a whole second run", &tensors))) {
        return;
    }
    size_t count = json_count(replays);
    if (count < REPLAYS_LEAST || least >= most) {
        finding_set(ret, OUTCOME_NOT_MEASURED, (Figure){(double)count, REPLAYS_LEAST, "replays", tensors},
                    "%zu replays; one from the start and one from the middle are needed", count);
        return;
    }
    finding_set(ret, OUTCOME_PASS, (Figure){0, 0, "tensors", tensors},
                "%lld tensor digests are the same in %zu replays, from step %lld and up to step %lld",
                (long long)tensors, count, (long long)least, (long long)most);
}
