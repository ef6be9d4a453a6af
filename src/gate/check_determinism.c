// check_determinism - do replayed steps give the same bits, and did each epoch take each row once?
//
// A row that is dropped or counted twice changes what was trained without changing any bit of a replay, so
// the rows of the last whole epoch are counted and hashed against the training rows.
#include "gate_internal.h"

#include <fedgate/text.h>
#include <stdio.h>
#include <string.h>

enum { REPLAYS_LEAST = 2 };

static bool is_digest(const char *string)
{
    return strlen(string) == 64 && strspn(string, "0123456789abcdef") == 64;
}

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
    if (!section_distinct(replay, array, "name", NULL)) {
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
        if (!is_digest(first)) {
            finding_set(replay->finding, OUTCOME_ERROR, NO_FIGURE, "tensor '%.60s' has no digest but '%.20s'",
                        name, first);
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

// Steps that the run never took cannot have been replayed.
static bool was_trained(const Json *evidence, const Section *determinism, int64_t from, int64_t steps)
{
    int64_t done = json_integer_or(json_find(evidence, "window.done_steps"), INT64_MAX);
    bool trained = from <= done && steps <= done - from;
    if (!trained) {
        finding_set(determinism->finding, OUTCOME_ERROR, (Figure){(double)from, (double)done, "steps", 1},
                    "%lld steps are said to be replayed from step %lld, %lld were done", (long long)steps,
                    (long long)from, (long long)done);
    }
    return trained;
}

static bool judge_replay(const Json *evidence, const Section *determinism, const Json *item, int64_t needed,
                         int64_t *ret_from, int64_t *tensors)
{
    Section replay;
    int64_t steps = 0;
    if (!section_inside(determinism, item, &replay) || !section_count(&replay, "from_step", ret_from) ||
        !section_integer(&replay, "steps", &steps)) {
        return false;
    }
    if (steps < 1) {
        finding_set(determinism->finding, OUTCOME_NOT_MEASURED, NO_FIGURE,
                    "the replay from step %lld repeats no step", (long long)*ret_from);
        return false;
    }
    if (steps < needed) {
        finding_set(determinism->finding, OUTCOME_NOT_MEASURED,
                    (Figure){(double)steps, (double)needed, "steps", 1},
                    "the replay from step %lld repeats %lld steps, %lld are needed", (long long)*ret_from,
                    (long long)steps, (long long)needed);
        return false;
    }
    if (!was_trained(evidence, determinism, *ret_from, steps)) {
        return false;
    }
    char where[32];
    snprintf(where, sizeof where, "step %lld", (long long)*ret_from);
    return same_tensors(&replay, where, tensors);
}

// A replay is as long as the policy asks, or a quarter of the planned run when that is shorter.
static int64_t steps_needed(const Json *evidence, const Config *policy)
{
    int64_t asked = config_integer(policy, "determinism.steps");
    int64_t planned = json_integer_or(json_find(evidence, "window.planned_steps"), INT64_MAX);
    int64_t quarter = planned / 4 > 1 ? planned / 4 : 1;
    return asked < quarter ? asked : quarter;
}

// Every replay compares the tensors of the first one: one left out is one that may differ.
static bool same_names(const Section *determinism, const Json *replays)
{
    const Json *first = json_get(json_at(replays, 0), "tensors");
    for (size_t i = 1; i < json_count(replays); i++) {
        const Json *tensors = json_get(json_at(replays, i), "tensors");
        size_t found = 0;
        for (size_t j = 0; j < json_count(first); j++) {
            for (size_t k = 0; k < json_count(tensors); k++) {
                found += text_equal(json_text_or(json_get(json_at(first, j), "name"), ""),
                                    json_text_or(json_get(json_at(tensors, k), "name"), ""));
            }
        }
        if (found != json_count(first) || found != json_count(tensors)) {
            finding_set(determinism->finding, OUTCOME_ERROR, NO_FIGURE,
                        "replay %zu compares %zu tensors, the first %zu, %zu of the same names", i,
                        json_count(tensors), json_count(first), found);
            return false;
        }
    }
    return true;
}

// The row count of an epoch, and of the profile when it has one: a remainder batch left out shows here.
static bool rows_agree(const Json *evidence, const Section *order, int64_t rows)
{
    int64_t expected = 0;
    if (!section_count(order, "expected_rows", &expected)) {
        return false;
    }
    int64_t profiled = json_integer_or(json_find(evidence, "input.rows.train"), expected);
    if (expected != profiled || expected == 0) {
        finding_set(order->finding, OUTCOME_ERROR, (Figure){(double)expected, (double)profiled, "rows", 1},
                    "an epoch is said to have %lld rows, the data has %lld training rows",
                    (long long)expected, (long long)profiled);
        return false;
    }
    if (rows != expected) {
        finding_set(order->finding, OUTCOME_FAIL, (Figure){(double)rows, (double)expected, "rows", expected},
                    "the last epoch took %lld rows of %lld: rows were %s", (long long)rows,
                    (long long)expected, rows < expected ? "dropped" : "counted twice");
    }
    return rows == expected;
}

// A run of at least one epoch that shows none has lost count of its rows.
static bool too_short_for_an_epoch(const Json *evidence, const Section *order)
{
    int64_t needed = 0;
    int64_t done = json_integer_or(json_find(evidence, "window.done_steps"), INT64_MAX);
    if (!section_count(order, "steps_per_epoch", &needed)) {
        return false;
    }
    if (done >= needed) {
        finding_set(order->finding, OUTCOME_ERROR, (Figure){0, 1, "epochs", 0},
                    "no whole epoch is shown, though an epoch has %lld steps and %lld were done",
                    (long long)needed, (long long)done);
    }
    return done < needed;
}

// What was copied must be what was counted: a slot that is filled again before its copy has ended trains on
// other rows than anybody counted. The staging thread copies at once, and resident rows are never copied.
static bool copied_same(const Json *evidence, const Section *order, const char *digest)
{
    const char *copied = NULL;
    if (!section_has(order, "device_digest") &&
        (from_staging_thread(evidence) || json_bool_or(json_find(evidence, "timeline.resident"), false))) {
        return true;
    }
    if (!section_text(order, "device_digest", &copied)) {
        return false;
    }
    if (!text_equal(copied, digest)) {
        finding_set(
            order->finding, OUTCOME_FAIL, (Figure){1, 0, "digests", 1},
            "the device was given other rows than were counted: digest %.16s came with the copies, %.16s "
            "was counted: a slot was refilled before its copy had ended",
            copied, digest);
        return false;
    }
    return true;
}

// ret_epochs 0: no whole epoch was trained, so no order can be judged.
static bool judge_order(const Json *evidence, const Section *determinism, int64_t *ret_epochs,
                        int64_t *ret_rows)
{
    Section order;
    const char *digest = NULL;
    const char *expected = NULL;
    if (!section_child(determinism, "order", "determinism.order", &order) ||
        !section_count(&order, "epochs", ret_epochs)) {
        return false;
    }
    if (*ret_epochs == 0) {
        return too_short_for_an_epoch(evidence, &order);
    }
    if (!section_count(&order, "rows", ret_rows) || !rows_agree(evidence, &order, *ret_rows) ||
        !section_text(&order, "digest", &digest) || !section_text(&order, "expected_digest", &expected)) {
        return false;
    }
    if (expected[0] == '\0') {
        finding_set(order.finding, OUTCOME_NOT_MEASURED, NO_FIGURE, "the training rows have no digest");
        return false;
    }
    if (!text_equal(digest, expected)) {
        finding_set(
            order.finding, OUTCOME_FAIL, (Figure){1, 0, "digests", *ret_rows},
            "the last epoch took %lld rows, but not each training row once: digest %.16s, of the data "
            "%.16s",
            (long long)*ret_rows, digest, expected);
        return false;
    }
    return copied_same(evidence, &order, digest);
}

void check_determinism(const Json *evidence, const Config *policy, Finding *ret)
{
    Section determinism;
    const Json *replays = NULL;
    if (!section_open(evidence, "determinism", NULL, ret, &determinism) ||
        !section_array(&determinism, "replays", &replays)) {
        return;
    }
    // What was trained on other rows replays to other bits: the cause goes before its consequence.
    Section order = {json_get(determinism.at, "order"), "determinism.order", ret, NULL, SIZE_MAX};
    if (section_has(&order, "device_digest") &&
        !copied_same(evidence, &order, json_text_or(json_get(order.at, "digest"), ""))) {
        return;
    }
    int64_t needed = steps_needed(evidence, policy);
    int64_t tensors = 0;
    int64_t least = INT64_MAX;
    int64_t most = INT64_MIN;
    for (size_t i = 0; i < json_count(replays); i++) {
        int64_t from = 0;
        if (!judge_replay(evidence, &determinism, json_at(replays, i), needed, &from, &tensors)) {
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
    if (count < REPLAYS_LEAST || least != 0 || most == 0) {
        finding_set(ret, OUTCOME_NOT_MEASURED, (Figure){(double)count, REPLAYS_LEAST, "replays", tensors},
                    "%zu replays; one from the start and one from the middle are needed", count);
        return;
    }
    int64_t epochs = 0;
    int64_t rows = 0;
    if (!same_names(&determinism, replays) || !judge_order(evidence, &determinism, &epochs, &rows)) {
        return;
    }
    char taken[96] = "no whole epoch was trained, so no row order was judged";
    if (epochs > 0) {
        snprintf(taken, sizeof taken, "the last of %lld epochs took each of %lld rows once",
                 (long long)epochs, (long long)rows);
    }
    finding_set(ret, OUTCOME_PASS, (Figure){0, 0, "tensors", tensors},
                "%lld tensor digests are the same in %zu replays, from step %lld and up to step %lld; %s",
                (long long)tensors, count, (long long)least, (long long)most, taken);
}
