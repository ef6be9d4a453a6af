// details - what stands behind a verdict, row by row: the rungs of a check with the worst case of each bar
// beside the bar, and the production rubric.
//
// Printed after the verdict, which is whole without it. Nothing is decided here.
#include "report_internal.h"

#include <stdio.h>

static const char *text_of(const Json *row, const char *key)
{
    return json_text_or(json_get(row, key), "");
}

static bool applies(const Json *rung)
{
    return !text_equal(text_of(rung, "outcome"), "not_applicable");
}

const char *render_bound(const Json *rung)
{
    const char *bound = text_of(rung, "bound");
    return text_equal(bound, "at least") ? ">=" : text_equal(bound, "at most") ? "<=" : "";
}

void render_worst(const Json *rung, Text *out)
{
    const char *worst = text_of(rung, "worst"), *at = text_of(rung, "at");
    text_add_format(out, "%s%s%s", worst, *worst && *at ? ", " : "", at);
}

void render_rungs_title(const Json *check, Text *out)
{
    SCOPED_TEXT name;
    text_init(&name, 256);
    render_cut(&name, text_of(check, "name"), 20);
    text_add_format(out, "%s, worst case of each bar beside the bar", text_string(&name));
}

// "! 3    0.08355 <=     0.083 relative      " and, in a column of its own, the bar and its worst case.
static void add_rung(const Json *rung, Text *out)
{
    enum { FIGURES = 43, LINES = 4 };
    const char *unit = text_of(rung, "unit");
    char value[FIGURE_SIZE], limit[FIGURE_SIZE];
    render_figure(json_get(rung, "value"), unit, 4, value);
    render_figure(json_get(rung, "limit"), unit, 4, limit);
    SCOPED_TEXT figures, words, worst, cell;
    text_init(&figures, 1024);
    text_init(&words, 4096);
    text_init(&worst, 4096);
    text_init(&cell, 256);
    render_cut(&cell, unit, 14);
    text_add_format(&figures, "%s %lld %10s %2s %9s %s", render_check_passes(rung) ? " " : "!",
                    (long long)json_integer_or(json_get(rung, "number"), 0), value, render_bound(rung), limit,
                    text_string(&cell));
    text_add(&words, text_of(rung, "name"));
    render_worst(rung, &worst);
    if (worst.length)
        text_add_format(&words, ": %s", text_string(&worst));
    render_wrapped(out, text_string(&figures), FIGURES, text_string(&words), LINES);
}

static void add_rungs(const Json *check, Text *out)
{
    const Json *rungs = json_get(check, "rungs");
    size_t shown = 0;
    for (size_t i = 0; i < json_count(rungs); i++) {
        const Json *rung = json_at(rungs, i);
        if (!applies(rung))
            continue;
        if (shown++ == 0) {
            text_add_char(out, '\n');
            render_rungs_title(check, out);
            text_add(out, "\n  #      WORST          BAR UNIT           WHAT: WORST CASE\n");
        }
        add_rung(rung, out);
    }
}

static void add_item(const Json *item, Text *out)
{
    enum { LABEL = 8, LINES = 3 };
    bool met = json_bool_or(json_get(item, "met"), false);
    char label[32];
    SCOPED_TEXT words;
    text_init(&words, 4096);
    (void)snprintf(label, sizeof label, "%s %4lld", met ? " " : "!",
                   (long long)json_integer_or(json_get(item, "weight"), 0));
    text_add_format(&words, "%s%s: %s", text_of(item, "name"),
                    json_bool_or(json_get(item, "required"), false) ? " (required)" : "",
                    text_of(item, "how"));
    if (!met)
        text_add_format(&words, "; not met: %s", text_of(item, "why_not"));
    render_wrapped(out, label, LABEL, text_string(&words), LINES);
}

void render_rubric_title(const Json *rubric, Text *out)
{
    char score[FIGURE_SIZE];
    render_figure(json_get(rubric, "score"), "ratio", 4, score);
    text_add_format(out, "rubric, score %s, required items %s", score,
                    json_bool_or(json_get(rubric, "required_met"), false) ? "all met" : "not all met");
}

static void add_rubric(const Json *rubric, Text *out)
{
    const Json *items = json_get(rubric, "items");
    if (json_count(items) == 0)
        return;
    text_add_char(out, '\n');
    render_rubric_title(rubric, out);
    text_add(out, "\n  WEIGHT ITEM\n");
    for (size_t i = 0; i < json_count(items); i++)
        add_item(json_at(items, i), out);
}

static void add_measured(const Json *verdict, Text *out)
{
    SCOPED_TEXT measured, hidden;
    text_init(&measured, 4096);
    text_init(&hidden, 4096);
    render_measured(verdict, &measured);
    render_hidden(verdict, &hidden);
    if (hidden.length == 0)
        return;
    text_add_char(out, '\n');
    render_wrapped(out, "Measured on", 13, text_string(&measured), 3);
    render_wrapped(out, "overlap", 13, text_string(&hidden), 3);
}

void report_verdict_details(const Json *verdict, Text *out)
{
    add_measured(verdict, out);
    const Json *checks = json_get(verdict, "checks");
    for (size_t i = 0; i < json_count(checks); i++)
        add_rungs(json_at(checks, i), out);
    add_rubric(json_get(verdict, "rubric"), out);
}
