// memory_causes - what grows while it trains, told by its cause, and the step that would break the budget.
//
// memory.series holds what each part of the memory was between steps. Growth is certain when the slope's
// one-sided 99.9 % bound is above 0, and matters when it is over 1 % of the budget or never once stops.
//   retained        live bytes of accounts grow                                      fail
//   workspace       the scratch accounts make at least half of that growth           fail
//   fragmentation   live bytes do not grow, the arena's high water does, or the      fail
//                   longest free piece shrinks
//   libraries       the driver counts more and more beside context, arena, captures  fail
//   lazy loading    the same, but it has stopped by the second half                  said
//   other process   the card fills, but not by this process                          said
#include "memory_internal.h"

#include <fedgate/stats.h>
#include <fedgate/text.h>
#include <stdio.h>

enum { SERIES_LEAST = 5 };   // readings after the first tenth
static const double GROWTH_SHARE = 0.01, SLOPE_CONFIDENCE = 0.999;

typedef struct Series {
    const double *index, *live, *workspace, *arena, *free, *driver, *modules, *others;   // NULL: not read
    size_t from, count;   // judged: from `from` on
} Series;

static bool never_stops(const double *bytes, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        if (!(bytes[i] > bytes[i - 1])) {
            return false;
        }
    }
    return count > 1;
}

Growth memory_growth(const double *bytes, const double *index, size_t count, double budget)
{
    Trend trend;
    stats_trend(bytes, count, SLOPE_CONFIDENCE, &trend);
    double growth = bytes[count - 1] - bytes[0];
    double steps = index[count - 1] - index[0];
    bool rises = !(trend.slope_lower <= 0) && !(growth <= 0);
    Growth result = {.bytes = growth,
                     .grows = rises && (growth > GROWTH_SHARE * budget || never_stops(bytes, count)),
                     .a_step = steps > 0 ? growth / steps : 0,
                     .breaks_at = INFINITY};
    if (result.grows && result.a_step > 0) {
        result.breaks_at = index[count - 1] + ceil((budget - bytes[count - 1]) / result.a_step);
    }
    return result;
}

void memory_forecast(const Growth *growth, char ret_text[static 64])
{
    if (!(growth->breaks_at < 1e15)) {
        snprintf(ret_text, 64, "%s", "");
        return;
    }
    snprintf(ret_text, 64, "; the budget would break at step %.0f", growth->breaks_at);
}

static bool read_series(const Json *evidence, Section *section, Series *ret)
{
    const struct {
        const char *key;
        const double **to;
        bool of_card;
    } columns[] = {
        {"live_bytes", &ret->live, false},        {"workspace_bytes", &ret->workspace, false},
        {"arena_peak_bytes", &ret->arena, false}, {"largest_free_bytes", &ret->free, false},
        {"driver_bytes", &ret->driver, true},     {"module_bytes", &ret->modules, true},
        {"other_bytes", &ret->others, true},
    };
    const bool cpu = text_equal(json_text_or(json_get(evidence, "device_class"), ""), "cpu");
    *ret = (Series){0};
    if (!section_index(section) || !section_series(section, "index", &ret->index)) {
        return false;
    }
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++) {
        if ((!columns[i].of_card || !cpu) && !section_amounts(section, columns[i].key, columns[i].to)) {
            return false;
        }
    }
    ret->from = section->length / 10 > 0 ? section->length / 10 : section->length > SERIES_LEAST;
    ret->count = section->length - ret->from;
    return true;
}

// The two readings of the live bytes are of one run: what one shows the other must be able to show.
static bool agrees_with_live(const Section *memory, const Section *section, const Series *series,
                             double measured)
{
    const Json *bytes = json_find(memory->at, "live.bytes");
    double least = INFINITY, most = -INFINITY;
    for (size_t i = 0; i < json_count(bytes); i++) {
        double value = json_number_or(json_at(bytes, i), NAN);
        least = fmin(least, value);
        most = fmax(most, value);
    }
    double slack = json_number_or(json_get(memory->at, "validation_bytes"), 0);
    for (size_t i = 0; i < section->length; i++) {
        double live = series->live[i];
        bool possible =
            live <= measured && live >= least - slack && live <= most + slack && series->workspace[i] <= live;
        if (!possible) {
            finding_set(
                memory->finding, OUTCOME_ERROR, (Figure){live, most, "bytes", (int64_t)section->length},
                "the series says %.0f bytes are live at step %.0f, %.0f of them workspace; the readings "
                "at each step lie between %.0f and %.0f",
                live, series->index[i], series->workspace[i], least, most);
            return false;
        }
    }
    return true;
}

static bool covers_run(const Json *evidence, const Section *memory, const Section *section,
                       const Series *series)
{
    double done = json_number_or(json_find(evidence, "window.done_steps"), INFINITY);
    if (section->length == 0) {
        finding_set(memory->finding, OUTCOME_NOT_MEASURED, NO_FIGURE,
                    "memory was never read while it trained");
        return false;
    }
    double last = series->index[section->length - 1];
    if (!(last <= done)) {
        finding_set(memory->finding, OUTCOME_ERROR, (Figure){last, done, "steps", (int64_t)section->length},
                    "memory is said to have been read at step %.0f, %.0f were done", last, done);
    }
    return last <= done;
}

static bool fails(const Section *memory, const Growth *growth, double budget, size_t count, const char *cause)
{
    if (growth->grows) {
        char when[64];
        memory_forecast(growth, when);
        finding_set(memory->finding, OUTCOME_FAIL,
                    (Figure){growth->bytes, GROWTH_SHARE * budget, "bytes", (int64_t)count},
                    "%s: %.0f bytes over %zu readings, %.1f a step%s", cause, growth->bytes, count,
                    growth->a_step, when);
    }
    return growth->grows;
}

// The longest free piece falls where live bytes do not rise: what is free lies in pieces.
static bool fragments(const Section *memory, const Series *s, double budget)
{
    double *fallen = section_scratch(memory, s->count);
    if (fallen == NULL) {
        return true;
    }
    for (size_t i = 0; i < s->count; i++) {
        fallen[i] = s->free[s->from] - s->free[s->from + i];
    }
    Growth high = memory_growth(s->arena + s->from, s->index + s->from, s->count, budget);
    Growth free_falls = memory_growth(fallen, s->index + s->from, s->count, s->free[s->from]);
    return fails(memory, &high, budget, s->count,
                 "fragmentation: the arena's high water rises, its live bytes do not") ||
           fails(memory, &free_falls, s->free[s->from], s->count,
                 "fragmentation: the longest free piece of the arena shrinks, its live bytes do not grow");
}

// Modules that load when they are first used stop loading.
static bool libraries_grow(const Section *memory, const Series *s, double budget, char ret_said[static 96])
{
    Growth all = memory_growth(s->modules + s->from, s->index + s->from, s->count, budget);
    size_t half = s->from + s->count / 2;
    Growth late = memory_growth(s->modules + half, s->index + half, s->from + s->count - half, budget);
    double rest = s->modules[s->from + s->count - 1] - s->modules[half];
    bool stopped = !(rest > 0);
    if (stopped && s->modules[half] > s->modules[0]) {
        snprintf(ret_said, 96, "; modules loaded lazily took %.4g MB, then no more",
                 (s->modules[half] - s->modules[0]) / 1e6);
    }
    return !stopped && (fails(memory, &all, budget, s->count,
                              "libraries: the driver counts more and more beside the arena") ||
                        fails(memory, &late, budget, s->count / 2,
                              "libraries: the driver goes on taking memory beside the arena"));
}

bool memory_causes(const Json *evidence, const Section *memory, double budget, double measured,
                   char ret_said[static 96])
{
    Section section;
    Series s;
    ret_said[0] = '\0';
    if (!section_child(memory, "series", "memory.series", &section) || !read_series(evidence, &section, &s) ||
        !covers_run(evidence, memory, &section, &s) || !agrees_with_live(memory, &section, &s, measured)) {
        return false;
    }
    if (s.count < SERIES_LEAST) {
        return true;   // too few to tell causes; the readings at each step have told of growth
    }
    if (fragments(memory, &s, budget) ||
        (s.modules != NULL && libraries_grow(memory, &s, budget, ret_said))) {
        return false;
    }
    if (s.others != NULL && s.others[s.from + s.count - 1] - s.others[s.from] > GROWTH_SHARE * budget) {
        snprintf(ret_said, 96, "; other processes took %.4g GB more of the card meanwhile",
                 (s.others[s.from + s.count - 1] - s.others[s.from]) / 1e9);
    }
    return true;
}

// Scratch that makes at least half of what the live bytes grew by is the cause.
const char *memory_growing_part(const Json *evidence, double growth)
{
    const Json *workspace = json_find(evidence, "memory.series.workspace_bytes");
    size_t count = json_count(workspace);
    double by = count > 1 ? json_number_or(json_at(workspace, count - 1), NAN) -
                                json_number_or(json_at(workspace, 0), NAN)
                          : 0;
    return by >= growth / 2 && growth > 0 ? "workspace" : "retained";
}
