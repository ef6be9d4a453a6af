// check_window - did training reach its planned end inside the window, and did the night?
//
// Early, before the bundle: nothing was stopped, every forecast was inside, the deadline has not passed.
// Late: the end. Differences of wall times are taken as integers; a double would lose up to 256 ns of them.
#include "gate_internal.h"

#include <fedgate/clock.h>
#include <fedgate/text.h>

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

// A forecast that calls itself inside while its expected end is not. Where no end is told, its word counts.
static bool ends_late(const Section *window, const Json *forecast)
{
    int64_t end = 0;
    int64_t deadline = json_integer_or(json_get(window->at, "deadline_wall_ns"), 0);
    return clock_parse(json_text_or(json_get(forecast, "end"), ""), &end) && end > deadline;
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

static bool forecasts_inside(const Section *window)
{
    const Json *forecasts = NULL;
    if (!section_array(window, "forecasts", &forecasts)) {
        return false;
    }
    size_t count = json_count(forecasts);
    if (count == 0) {
        finding_set(window->finding, OUTCOME_NOT_MEASURED, NO_FIGURE,
                    "the end of the night was never forecast");
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        Section forecast;
        int64_t step = 0;
        bool inside = false;
        if (!section_inside(window, json_at(forecasts, i), &forecast) ||
            !section_count(&forecast, "at_step", &step) || !section_bool(&forecast, "inside", &inside)) {
            return false;
        }
        if (!inside || ends_late(window, forecast.at)) {
            finding_set(window->finding, OUTCOME_FAIL, (Figure){NAN, NAN, "s", (int64_t)count},
                        "at step %lld the night was forecast to end by %.40s, after its deadline%s",
                        (long long)step,
                        json_text_or(json_get(forecast.at, "end_upper"), "a time not recorded"),
                        clock_note(window).text);
            return false;
        }
    }
    return true;
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
    (void)policy;
    Section window;
    double left = NAN;
    if (section_open(evidence, "window", NULL, ret, &window) && !stopped(&window) &&
        forecasts_inside(&window) && before_deadline(&window, "now_wall_ns", "evaluation ended", &left) &&
        times_agree(&window)) {
        size_t forecasts = json_count(json_get(window.at, "forecasts"));
        finding_set(ret, OUTCOME_PASS, (Figure){left, 0, "s", (int64_t)forecasts},
                    "%.0f s were left before the deadline%s, all %zu forecasts were inside", left,
                    clock_note(&window).text, forecasts);
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
