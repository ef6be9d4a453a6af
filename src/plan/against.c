// against - two plans side by side: which lines move, by how much, and through which term of their formula.
#include "plan_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// A line of one plan, of the other, or of both.
typedef struct Pair {
    const PlanLine *from, *to;
} Pair;
typedef struct Comparison {
    PlanLines from, to;
    Pair pairs[2 * PLAN_LINES];
    size_t count;
} Comparison;

// In the order of the first plan; lines that only the second has come behind the line they follow there.
static void compare(Comparison *comparison)
{
    for (size_t i = 0; i < comparison->from.count; i++) {
        const PlanLine *line = &comparison->from.at[i];
        comparison->pairs[comparison->count++] = (Pair){line, plan_find_line(&comparison->to, line->name)};
    }
    for (size_t i = 0; i < comparison->to.count; i++) {
        const PlanLine *line = &comparison->to.at[i];
        if (plan_find_line(&comparison->from, line->name))
            continue;
        size_t at = comparison->count;
        while (i > 0 && at > 0 &&
               !text_equal((comparison->pairs[at - 1].to ? comparison->pairs[at - 1].to->name : ""),
                           comparison->to.at[i - 1].name))
            at--;
        for (size_t k = comparison->count++; k > at; k--)
            comparison->pairs[k] = comparison->pairs[k - 1];
        comparison->pairs[at] = (Pair){NULL, line};
    }
}

static Comparison *comparison_new(const PlanSide *from, const PlanSide *to)
{
    Comparison *comparison = calloc(1, sizeof *comparison);
    if (!comparison)
        BUG("no memory for %zu bytes of a comparison", sizeof *comparison);
    plan_to_lines(from->plan, from->config, &comparison->from);
    plan_to_lines(to->plan, to->config, &comparison->to);
    compare(comparison);
    return comparison;
}

static bool moves(const Pair *pair)
{
    return !pair->from || !pair->to || !text_equal(pair->from->figure, pair->to->figure);
}

static const PlanLine *either(const Pair *pair)
{
    return pair->from ? pair->from : pair->to;
}

// Terms of both sides by name; "none" where a side has no such term. Returns how many moved.
typedef struct Through {
    const char *name, *from, *to;
} Through;

static const char *figure_of(const PlanLine *line, const char *name)
{
    for (size_t i = 0; line && i < line->term_count; i++)
        if (text_equal(line->terms[i].name, name))
            return line->terms[i].figure;
    return "none";
}

static size_t moved_terms(const Pair *pair, Through ret_terms[static 2 * PLAN_TERMS])
{
    size_t count = 0;
    const PlanLine *const lines[] = {pair->from, pair->to};
    if (pair->from && pair->to && !text_equal(pair->from->formula, pair->to->formula))
        return 0;   // found in another way: terms of the two are not the same
    for (size_t side = 0; side < 2; side++)
        for (size_t i = 0; lines[side] && i < lines[side]->term_count; i++) {
            const char *name = lines[side]->terms[i].name, *before = figure_of(pair->from, name),
                       *after = figure_of(pair->to, name);
            bool seen = side == 1 && !text_equal(before, "none");
            if (!seen && !text_equal(before, after))
                ret_terms[count++] = (Through){name, before, after};
        }
    return count;
}

// -- options

typedef void (*OptionTake)(void *context, const char *name, const char *from, const char *to);

static size_t changed_options(const PlanSide *from, const PlanSide *to, OptionTake take, void *context)
{
    OWNED(Json, json_free) *before = config_to_json(from->config, 0);
    OWNED(Json, json_free) *after = config_to_json(to->config, 0);
    size_t count = 0;
    for (size_t i = 0; i < config_option_count; i++) {
        const char *name = config_options[i].name;
        const Json *a = json_get(before, name), *b = json_get(after, name);
        if (!a || json_same(a, b))
            continue;
        SCOPED_TEXT left;
        SCOPED_TEXT right;
        text_init(&left, 1u << 20);
        text_init(&right, 1u << 20);
        json_write(a, JSON_COMPACT, &left);
        json_write(b, JSON_COMPACT, &right);
        take(context, name, text_string(&left), text_string(&right));
        count++;
    }
    return count;
}

static void print_option(void *context, const char *name, const char *from, const char *to)
{
    text_add_format(context, "  %s: %.60s -> %.60s\n", name, from, to);
}

static void add_option(void *context, const char *name, const char *from, const char *to)
{
    Json *option = json_make_object();
    json_put_text(option, "name", name);
    json_put_text(option, "from", from);
    json_put_text(option, "to", to);
    json_add(context, option);
}

// -- text

static void print_change(const PlanLine *from, const PlanLine *to, Text *out)
{
    double by = to->value - from->value, times = to->value / from->value;
    char figure[FIGURE_SIZE];
    if (!isfinite(by))
        return;
    if (text_equal(to->unit, "bytes") && fabs(by) < 9e18)
        plan_exact_bytes(figure, (int64_t)by);
    else if (by == trunc(by) && fabs(by) < 9e15)
        text_from_count(figure, (int64_t)by);
    else
        plan_number(figure, by);
    text_add_format(out, " (%s%s", by > 0 ? "+" : "", figure);
    if (from->value > 0 && isfinite(times))
        text_add_format(out, ", x %.4g", times);
    text_add(out, ")");
}

static void print_side(const PlanLine *line, Text *out)
{
    SCOPED_TEXT formula;
    text_init(&formula, 4096);
    text_add_format(out, "      %s", line->figure);
    if (plan_write_formula(line, true, &formula))
        text_add_format(out, " = %s", text_string(&formula));
}

static void print_moved(const Pair *pair, Text *out)
{
    SCOPED_TEXT formula;
    text_init(&formula, 4096);
    text_add_format(out, "  %s", either(pair)->name);
    const PlanLine *last = pair->to ? pair->to : pair->from;
    if (plan_write_formula(last, false, &formula))
        text_add_format(out, " = %s", text_string(&formula));
    else if (text_equal(last->formula, "sum"))
        text_add(out, " = sum of its accounts");
    text_add_char(out, '\n');
    if (pair->from) {
        print_side(pair->from, out);
        text_add(out, pair->to ? "\n" : "\n      none\n");
    } else {
        text_add(out, "      none\n");
    }
    if (pair->to) {
        print_side(pair->to, out);
        if (pair->from)
            print_change(pair->from, pair->to, out);
        text_add_char(out, '\n');
    }
    Through terms[2 * PLAN_TERMS];
    size_t count = moved_terms(pair, terms);
    for (size_t i = 0; i < count && pair->from && pair->to; i++)
        text_add_format(out, "      through %s: %s -> %s\n", terms[i].name, terms[i].from, terms[i].to);
}

static size_t print_stays(const Comparison *comparison, bool whole, Text *out)
{
    size_t stays = 0;
    for (size_t i = 0; i < comparison->count; i++)
        stays += !moves(&comparison->pairs[i]);
    text_add_format(out, "\n%zu line%s stay%s%s\n", stays, stays == 1 ? "" : "s", stays == 1 ? "s" : "",
                    whole && stays ? ":" : "");
    for (size_t i = 0; whole && i < comparison->count; i++)
        if (!moves(&comparison->pairs[i]))
            text_add_format(out, "  %s: %s\n", comparison->pairs[i].from->name,
                            comparison->pairs[i].from->figure);
    return stays;
}

void plan_print_against(const PlanSide *from, const PlanSide *to, bool whole, Text *out)
{
    Comparison *comparison = comparison_new(from, to);
    SCOPED_TEXT options;
    SCOPED_TEXT lines;
    text_init(&options, 1u << 20);
    text_init(&lines, 1u << 20);
    size_t changed = changed_options(from, to, print_option, &options), moved = 0;
    for (size_t i = 0; i < comparison->count; i++)
        if (moves(&comparison->pairs[i])) {
            print_moved(&comparison->pairs[i], &lines);
            moved++;
        }
    text_add_format(out, "plan of '%s' against '%s'\n\n", from->name, to->name);
    text_add_format(out, changed ? "options that differ\n%s" : "both configurations say the same%s\n",
                    text_string(&options));
    text_add_format(out, moved ? "\nlines that move\n%s" : "\nno line of the plan moves%s\n",
                    text_string(&lines));
    (void)print_stays(comparison, whole, out);
    if (moved && to->plan->memory.element_bytes)
        text_add(
            out,
            "\nA prediction to be checked: a night with these inputs shows the same bytes in its evidence,\n"
            "account by account (memory.accounts: planned_bytes and peak_bytes).\n");
    free(comparison);
}

// -- JSON

static void put_value(Json *object, const char *key, const PlanLine *line)
{
    if (!line)
        json_put(object, key, NULL);
    else if (isfinite(line->value) && line->value == floor(line->value) && fabs(line->value) < 9e15)
        json_put_integer(object, key, (int64_t)line->value);
    else if (isfinite(line->value))
        json_put_number(object, key, line->value);
    else
        json_put_text(object, key, line->figure);
}

static Json *moved_to_json(const Pair *pair)
{
    Json *object = json_make_object(), *through = json_make_array();
    const PlanLine *last = pair->to ? pair->to : pair->from;
    SCOPED_TEXT formula;
    text_init(&formula, 4096);
    json_put_text(object, "line", last->name);
    json_put_text(object, "unit", last->unit);
    put_value(object, "from", pair->from);
    put_value(object, "to", pair->to);
    bool written = plan_write_formula(last, false, &formula);
    json_put_text(object, "formula",
                  written            ? text_string(&formula)
                  : last->formula[0] ? last->formula
                                     : NULL);
    Through terms[2 * PLAN_TERMS];
    size_t count = moved_terms(pair, terms);
    for (size_t i = 0; i < count; i++) {
        Json *term = json_make_object();
        json_put_text(term, "term", terms[i].name);
        json_put_text(term, "from", terms[i].from);
        json_put_text(term, "to", terms[i].to);
        json_add(through, term);
    }
    json_put(object, "through", through);
    return object;
}

Json *plan_against_to_json(const PlanSide *from, const PlanSide *to)
{
    Comparison *comparison = comparison_new(from, to);
    Json *object = json_make_object(), *options = json_make_array(), *moved = json_make_array(),
         *stays = json_make_array();
    (void)changed_options(from, to, add_option, options);
    for (size_t i = 0; i < comparison->count; i++) {
        const Pair *pair = &comparison->pairs[i];
        if (moves(pair))
            json_add(moved, moved_to_json(pair));
        else
            json_add_text(stays, pair->from->name);
    }
    json_put_text(object, "config", to->name);
    json_put(object, "plan", plan_to_json(to->plan));
    json_put(object, "options", options);
    json_put(object, "moved", moved);
    json_put(object, "stays", stays);
    free(comparison);
    return object;
}
