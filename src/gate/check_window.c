// check_window - did training reach its planned end inside the window, and did the night?
//
// Early, before the bundle: nothing was stopped, every forecast was inside with its interval, the last one is
// borne out by the blocks of the run, the deadline has not passed.
// Late: the end. Differences of wall times are taken as integers; a double would lose up to 256 ns of them.
#include "gate_internal.h"

#include <fedgate/clock.h>
#include <fedgate/plan.h>
#include <fedgate/text.h>
#include <stdio.h>

static bool stopped(const Section *window)
{
    bool early = false;
    int64_t planned = 0;
    int64_t done = 0;
    const char *end_reason = "planned";
    if (!section_bool(window, "stopped_early", &early) ||
        !section_integer(window, "planned_steps", &planned) ||
        !section_integer(window, "done_steps", &done) ||
        (section_has(window, "end_reason") && !section_text(window, "end_reason", &end_reason))) {
        return true;
    }
    Figure figure = {(double)done, (double)planned, "steps", done};
    bool patience = text_equal(end_reason, "patience") && done > 0 && done <= planned;
    bool whole = planned > 0 && done == planned && text_equal(end_reason, "planned");
    if (early || !(whole || patience)) {
        finding_set(
            window->finding, OUTCOME_FAIL, figure, "training ended at step %lld of %lld, reason '%.20s'%s",
            (long long)done, (long long)planned, end_reason,
            early && !text_equal(end_reason, "loss_scale") ? ": it could not finish inside the window" : "");
        return true;
    }
    return false;
}

enum { BLOCKS_FOR_INTERVAL = 3 };   // of one or two blocks the interval says nothing

typedef struct Forecast {
    int64_t step, at_ns, end_ns, upper_ns, blocks;
    bool inside;
} Forecast;

static bool read_forecast(const Section *window, const Json *item, const Forecast *before, Forecast *ret)
{
    Section forecast;
    if (!section_inside(window, item, &forecast) || !section_count(&forecast, "at_step", &ret->step) ||
        !section_bool(&forecast, "inside", &ret->inside) ||
        !section_count(&forecast, "at_wall_ns", &ret->at_ns) ||
        !section_count(&forecast, "end_wall_ns", &ret->end_ns) ||
        !section_count(&forecast, "end_upper_wall_ns", &ret->upper_ns) ||
        !section_count(&forecast, "blocks", &ret->blocks)) {
        return false;
    }
    bool possible = ret->at_ns <= ret->end_ns && ret->end_ns <= ret->upper_ns && ret->step >= before->step &&
                    ret->at_ns >= before->at_ns;
    if (!possible) {
        finding_set(
            window->finding, OUTCOME_ERROR, NO_FIGURE,
            "the forecast at step %lld, from %lld to %lld and at most %lld ns, is impossible after that "
            "at step %lld",
            (long long)ret->step, (long long)ret->at_ns, (long long)ret->end_ns, (long long)ret->upper_ns,
            (long long)before->step);
    }
    return possible;
}

// Whatever it calls itself: the expected end, and once there are blocks enough the upper end with the
// policy's margin, lie before the deadline.
static bool ends_late(const Forecast *forecast, int64_t deadline, double margin)
{
    double left = (double)(deadline - forecast->end_ns);
    double needed = (double)(forecast->upper_ns - forecast->end_ns) +
                    margin * (double)(forecast->end_ns - forecast->at_ns);
    return forecast->end_ns > deadline || (forecast->blocks >= BLOCKS_FOR_INTERVAL && !(needed <= left));
}

// " (02:30 does not exist on ...)" when the clocks were changed near the deadline, else "".
typedef struct ClockNote {
    char text[128];
} ClockNote;

static ClockNote clock_note(const Section *window)
{
    ClockNote note;
    const char *told = json_text_or(json_get(window->at, "deadline_note"), "");
    if (told[0] == '\0' || !text_print(note.text, sizeof note.text, " (%.120s)", told)) {
        note.text[0] = '\0';
    }
    return note;
}

static bool late(const Section *window, int64_t step, int64_t upper_ns, int64_t deadline, size_t count)
{
    finding_set(
        window->finding, OUTCOME_FAIL,
        (Figure){(double)(deadline - upper_ns) / WALL_NS_PER_S, 0, "s", (int64_t)count},
        "at step %lld the night was forecast to end up to %.1f s %s its deadline%s, too late with its "
        "margin",
        (long long)step, fabs((double)(upper_ns - deadline)) / WALL_NS_PER_S,
        upper_ns > deadline ? "after" : "before", clock_note(window).text);
    return false;
}

static bool forecasts_inside(const Section *window, const Config *policy, Forecast *ret_last)
{
    const Json *forecasts = NULL;
    int64_t deadline = 0;
    if (!section_array(window, "forecasts", &forecasts) ||
        !section_count(window, "deadline_wall_ns", &deadline)) {
        return false;
    }
    size_t count = json_count(forecasts);
    if (count == 0) {
        finding_set(window->finding, OUTCOME_NOT_MEASURED, NO_FIGURE,
                    "the end of the night was never forecast");
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        const Forecast before = *ret_last;
        if (!read_forecast(window, json_at(forecasts, i), &before, ret_last)) {
            return false;
        }
        if (!ret_last->inside || ends_late(ret_last, deadline, config_real(policy, "window.margin"))) {
            return late(window, ret_last->step, ret_last->upper_ns, deadline, count);
        }
    }
    return true;
}

// The last forecast again, from the blocks themselves: stalls, a change of pace and a trend in it.
static bool pace_agrees(const Section *window, const Config *policy, const Forecast *last,
                        char ret_said[static 96])
{
    Section blocks;
    const double *seconds = NULL;
    int64_t steps = 0;
    int64_t planned = 0;
    int64_t deadline = 0;
    // Plan and deadline were read before: their readers' other branch is for a caller that has not.
    if (!section_child(window, "blocks", "window.blocks", &blocks) ||
        !section_count(&blocks, "steps", &steps) || !section_amounts(&blocks, "seconds", &seconds) ||
        !section_count(window, "planned_steps", &planned) ||
        !section_count(window, "deadline_wall_ns", &deadline)) {
        return false;
    }
    if (blocks.length == 0) {
        return true;   // shorter than one block
    }
    if (steps == 0 || last->step > planned || last->blocks > (int64_t)blocks.length) {
        finding_set(window->finding, OUTCOME_ERROR, NO_FIGURE,
                    "%zu blocks of %lld steps cannot bear a forecast at step %lld of %lld", blocks.length,
                    (long long)steps, (long long)last->step, (long long)planned);
        return false;
    }
    WindowForecast again;
    plan_window(seconds, blocks.length, steps, planned - last->step, 0, last->at_ns, deadline,
                config_real(policy, "window.margin"), &again);
    bool inside = blocks.length >= BLOCKS_FOR_INTERVAL ? again.inside : again.end_wall_ns <= deadline;
    if (again.changed_at > 0) {
        snprintf(ret_said, 96, "; slower from block %zu of %zu on", again.changed_at, blocks.length);
    } else if (again.slower_a_block > 0) {
        snprintf(ret_said, 96, "; each block takes %.3g s longer", again.slower_a_block);
    } else if (again.stalled_ratio > 0) {
        snprintf(ret_said, 96, "; %.3g %% of the time in stalls", again.stalled_ratio * 100);
    }
    return inside || late(window, last->step, again.end_upper_wall_ns, deadline, blocks.length);
}

// The texts that people read and the numbers that are judged must mean the same instants.
static bool times_agree(const Section *window)
{
    enum { TEXT_NS = 1000000 };   // the texts end at milliseconds
    const char *started = NULL;
    const char *deadline = NULL;
    int64_t from = 0;
    int64_t until = 0;
    int64_t now = 0;
    int64_t deadline_ns = 0;
    if (!section_text(window, "started", &started) || !section_text(window, "deadline", &deadline) ||
        !section_count(window, "now_wall_ns", &now) ||
        !section_count(window, "deadline_wall_ns", &deadline_ns)) {
        return false;
    }
    bool agree = clock_parse(started, &from) && clock_parse(deadline, &until) && from > 0 && until > from &&
                 deadline_ns >= until && deadline_ns - until < TEXT_NS && now >= from;
    if (!agree) {
        finding_set(window->finding, OUTCOME_ERROR, NO_FIGURE,
                    "started '%.32s', deadline '%.32s', deadline at %lld ns and now at %lld ns do not agree",
                    started, deadline, (long long)deadline_ns, (long long)now);
    }
    return agree;
}

// Seconds left between an instant and the deadline.
static bool before_deadline(const Section *window, const char *key, const char *what, double *ret_left)
{
    int64_t instant = 0;
    int64_t deadline = 0;
    if (!section_integer(window, key, &instant) || !section_integer(window, "deadline_wall_ns", &deadline)) {
        return false;
    }
    int64_t left = 0;
    if (__builtin_sub_overflow(deadline, instant, &left) || instant <= 0) {
        finding_set(window->finding, OUTCOME_ERROR, NO_FIGURE, "'window.%s' is %lld", key,
                    (long long)instant);
        return false;
    }
    *ret_left = (double)left / WALL_NS_PER_S;
    if (left < 0) {
        finding_set(window->finding, OUTCOME_FAIL, (Figure){*ret_left, 0, "s", 1},
                    "%s %.1f s after the deadline%s", what, -*ret_left, clock_note(window).text);
    }
    return left >= 0;
}

void check_window(const Json *evidence, const Config *policy, Finding *ret)
{
    OWNED(Arena, arena_free) *judge = arena_new(JUDGE_MEMORY_BYTES);
    Section window;
    Forecast last = {0};
    double left = NAN;
    char said[96] = "";
    if (section_open(evidence, "window", judge, ret, &window) && !stopped(&window) &&
        forecasts_inside(&window, policy, &last) && pace_agrees(&window, policy, &last, said) &&
        before_deadline(&window, "now_wall_ns", "evaluation ended", &left) && times_agree(&window)) {
        size_t forecasts = json_count(json_get(window.at, "forecasts"));
        finding_set(ret, OUTCOME_PASS, (Figure){left, 0, "s", (int64_t)forecasts},
                    "%.0f s were left before the deadline%s, all %zu forecasts were inside%s", left,
                    clock_note(&window).text, forecasts, said);
    }
}

void check_window_end(const Json *evidence, const Config *policy, Finding *ret)
{
    (void)policy;
    Section window;
    double left = NAN;
    if (section_open(evidence, "window", NULL, ret, &window) &&
        before_deadline(&window, "ended_wall_ns", "the night ended", &left)) {
        int64_t now = json_integer_or(json_get(window.at, "now_wall_ns"), 0);
        int64_t ended = json_integer_or(json_get(window.at, "ended_wall_ns"), 0);
        if (ended < now) {
            finding_set(ret, OUTCOME_ERROR, NO_FIGURE, "the night ended %.3f s before its evaluation did",
                        (double)(now - ended) / WALL_NS_PER_S);
            return;
        }
        finding_set(ret, OUTCOME_PASS, (Figure){left, 0, "s", 1},
                    "the night ended %.0f s before the deadline%s", left, clock_note(&window).text);
    }
}
