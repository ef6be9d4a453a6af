// verdict_html - the verdict as one page that needs nothing else: no script, no other file, a few lines of
// CSS.
//
// The words and figures are those of the text (verdict.c, details.c, render.c), in the order of the questions
// at 04:00, and every check, bar and rubric item has its row. A table that is wider than the screen scrolls
// by itself. Nothing is decided here; the same verdict gives the same bytes.
#include "report_internal.h"
#include <stdio.h>

static const char style[] =
    ":root { color-scheme: light dark; --ink: #1b1b1b; --page: #fff; --line: #ccc; --good: #0a6b2d;\n"
    "  --doubt: #8a4b00; --bad: #b00020 }\n"
    "@media (prefers-color-scheme: dark) { :root { --ink: #e8e8e8; --page: #161616; --line: #444;\n"
    "  --good: #7fd99a; --doubt: #ffc266; --bad: #ff8a8f } }\n"
    "body { margin: 0 auto; padding: 1rem; max-width: 75rem; color: var(--ink); background: var(--page);\n"
    "  font: 1rem/1.45 system-ui, sans-serif; overflow-wrap: anywhere }\n"
    "h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2rem }\n"
    "dt { font-weight: 600 } dd { margin: 0 0 .6rem } code { font-size: 1rem }\n"
    ".wide { overflow-x: auto; overflow-wrap: normal }\n"
    "table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums }\n"
    "th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: "
    "top }\n"
    ".figure { text-align: right; white-space: nowrap } .words { min-width: 14rem }\n"
    ".good { color: var(--good) } .doubt { color: var(--doubt) } .bad { color: var(--bad) }\n";

// -- facts: a name and its words

static const char *text_of(const Json *object, const char *key)
{
    return json_text_or(json_get(object, key), "");
}

static void add_fact(Text *out, const char *name, const char *words)
{
    text_add_format(out, "<dt>%s</dt>\n<dd>", name);
    html_add(out, *words ? words : "-");
    text_add(out, "</dd>\n");
}

static void add_title(const Json *verdict, Text *out)
{
    static const char *const classes[] = {[STATUS_OK] = "good",
                                          [STATUS_WARNING] = "doubt",
                                          [STATUS_CRITICAL] = "bad",
                                          [STATUS_UNKNOWN] = "bad"};
    SCOPED_TEXT title;
    text_init(&title, out->maximum);
    render_title(verdict, &title);
    text_add(out, "<title>");
    html_add(out, text_string(&title));
    text_add_format(out, "</title>\n<style>\n%s</style>\n</head>\n<body>\n<main>\n<h1 class=\"%s\">", style,
                    classes[render_status(text_of(verdict, "outcome"))]);
    html_add(out, text_string(&title));
    text_add(out, "</h1>\n");
}

static void add_answers(const Json *verdict, Text *out)
{
    SCOPED_TEXT live, decided, notices;
    text_init(&live, out->maximum);
    text_init(&decided, out->maximum);
    text_init(&notices, out->maximum);
    render_live(verdict, &live);
    render_decided(verdict, &decided);
    render_notices(verdict, &notices);
    const char *good = render_last_good(verdict), *duty = render_duty_note(verdict), *who, *command;
    render_next(verdict, &who, &command);
    text_add(out, "<dl>\n");
    add_fact(out, "Live now", text_string(&live));
    if (good)
        add_fact(out, "Last good", good);
    add_fact(out, "Decided by", text_string(&decided));
    add_fact(out, "Because", text_of(verdict, "reason"));
    if (duty)
        add_fact(out, "Note", duty);
    if (notices.length)
        add_fact(out, "Note", text_string(&notices));
    text_add(out, "<dt>Next</dt>\n<dd>");
    html_add(out, who);
    text_add(out, ": <code>");
    html_add(out, command);
    text_add(out, "</code></dd>\n</dl>\n");
}

static const struct {
    const char *name, *key;
    bool is_time;
} facts[] = {
    {"Candidate", "version", false},
    {"Run", "run", false},
    {"Slot", "slot", false},
    {"Started", "started", true},
    {"Ended", "ended", true},
    {"Deadline", "deadline", true},
    {"Policy digest", "policy_digest", false},
    {"Evidence digest", "evidence_digest", false},
    {"Verdict digest", "verdict_digest", false},
    {"Head digest", "head_digest", false},
};

static void add_facts(const Json *verdict, Text *out)
{
    SCOPED_TEXT measured, hidden;
    text_init(&measured, out->maximum);
    text_init(&hidden, out->maximum);
    render_measured(verdict, &measured);
    render_hidden(verdict, &hidden);
    text_add(out, "<h2>Run</h2>\n<dl>\n");
    if (measured.length)
        add_fact(out, "Measured on", text_string(&measured));
    if (hidden.length)
        add_fact(out, "Overlap", text_string(&hidden));
    for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++) {
        char stamp[STAMP_SIZE];
        const char *words = text_of(verdict, facts[i].key);
        if (facts[i].is_time)
            render_stamp(words, stamp);
        add_fact(out, facts[i].name, facts[i].is_time ? stamp : words);
    }
    text_add(out, "</dl>\n");
}

// -- tables: the cells of a row in the order of its columns

enum { MOST_COLUMNS = 8, COUNT_SIZE = 24 };

typedef struct Column {
    const char *title, *class;   // ours, never from a verdict; class "" none
} Column;

static const Column check_columns[] = {{"Check", ""},       {"Required", ""},    {"Outcome", ""},
                                       {"Value", "figure"}, {"Limit", "figure"}, {"Unit", ""},
                                       {"n", "figure"},     {"Reason", "words"}};
static const Column rung_columns[] = {{"#", "figure"},     {"What", "words"}, {"Worst case", "words"},
                                      {"Worst", "figure"}, {"Bar", "figure"}, {"Unit", ""},
                                      {"Source", "words"}, {"Outcome", ""}};
static const Column item_columns[] = {{"Weight", "figure"}, {"Item", "words"}, {"Required", ""},
                                      {"Met", ""},          {"How", "words"},  {"Why not", "words"}};

typedef struct Table {
    const Column *columns;
    size_t count;
    Text *out;
} Table;

static void open_tag(Text *out, const char *tag, const char *class)
{
    text_add_format(out, *class ? "<%s class=\"%s\">" : "<%s>", tag, class);
}

static Table open_table(const char *title, const Column *columns, size_t count, Text *out)
{
    text_add(out, "<h2>");
    html_add(out, title);
    text_add(out, "</h2>\n<div class=\"wide\" role=\"region\" tabindex=\"0\" aria-label=\"");
    html_add(out, title);
    text_add(out, "\">\n<table>\n<thead>\n<tr>");
    for (size_t i = 0; i < count; i++) {
        open_tag(out, "th scope=\"col\"", columns[i].class);
        text_add_format(out, "%s</th>", columns[i].title);
    }
    text_add(out, "</tr>\n</thead>\n<tbody>\n");
    return (Table){.columns = columns, .count = count, .out = out};
}

static void add_row(const Table *table, const char *class, const char *const cells[static MOST_COLUMNS])
{
    open_tag(table->out, "tr", class);
    for (size_t i = 0; i < table->count; i++) {
        open_tag(table->out, "td", table->columns[i].class);
        html_add(table->out, cells[i] && *cells[i] ? cells[i] : "-");
        text_add(table->out, "</td>");
    }
    text_add(table->out, "</tr>\n");
}

static void close_table(const Table *table)
{
    text_add(table->out, "</tbody>\n</table>\n</div>\n");
}

static const char *yes_or_no(bool yes)
{
    return yes ? "yes" : "no";
}

static void count_text(const Json *value, char ret_text[static COUNT_SIZE])
{
    ret_text[0] = '\0';
    if (json_is_integer(value))
        (void)snprintf(ret_text, COUNT_SIZE, "%lld", (long long)json_integer_or(value, 0));
}

static const char *class_of(const Json *check)
{
    return render_check_passes(check) ? "" : render_check_required(check) ? "bad" : "doubt";
}

static void add_check(const Table *table, const Json *check)
{
    const char *unit = text_of(check, "unit");
    char value[FIGURE_SIZE], limit[FIGURE_SIZE], n[COUNT_SIZE];
    render_figure(json_get(check, "value"), unit, 4, value);
    render_figure(json_get(check, "limit"), unit, 4, limit);
    count_text(json_get(check, "n"), n);
    const char *const cells[MOST_COLUMNS] = {text_of(check, "name"),
                                             yes_or_no(render_check_required(check)),
                                             text_of(check, "outcome"),
                                             value,
                                             limit,
                                             unit,
                                             n,
                                             text_of(check, "reason")};
    add_row(table, class_of(check), cells);
}

static void add_rung(const Table *table, const Json *rung)
{
    const char *unit = text_of(rung, "unit");
    char number[COUNT_SIZE], value[FIGURE_SIZE], limit[FIGURE_SIZE], bar[FIGURE_SIZE + 4];
    count_text(json_get(rung, "number"), number);
    render_figure(json_get(rung, "value"), unit, 4, value);
    render_figure(json_get(rung, "limit"), unit, 4, limit);
    (void)snprintf(bar, sizeof bar, "%s%s%s", render_bound(rung), *render_bound(rung) ? " " : "", limit);
    SCOPED_TEXT worst;
    text_init(&worst, table->out->maximum);
    render_worst(rung, &worst);
    const char *const cells[MOST_COLUMNS] = {
        number, text_of(rung, "name"),   text_string(&worst),     value, bar,
        unit,   text_of(rung, "source"), text_of(rung, "outcome")};
    add_row(table, class_of(rung), cells);
}

static void add_item(const Table *table, const Json *item)
{
    bool met = json_bool_or(json_get(item, "met"), false);
    char weight[COUNT_SIZE];
    count_text(json_get(item, "weight"), weight);
    const bool required = json_bool_or(json_get(item, "required"), false);
    const char *const cells[MOST_COLUMNS] = {weight,         text_of(item, "name"), yes_or_no(required),
                                             yes_or_no(met), text_of(item, "how"),  text_of(item, "why_not")};
    add_row(table, met ? "" : required ? "bad" : "doubt", cells);
}

#define COLUMNS(of) of, sizeof of / sizeof of[0]

static void add_rows(const Json *rows, void (*add)(const Table *, const Json *), const Table *table)
{
    for (size_t i = 0; i < json_count(rows); i++)
        add(table, json_at(rows, i));
    close_table(table);
}

static void add_tables(const Json *verdict, Text *out)
{
    const Json *checks = json_get(verdict, "checks"), *rubric = json_get(verdict, "rubric");
    const Json *items = json_get(rubric, "items");
    if (json_count(checks) > 0) {
        Table table = open_table("Checks", COLUMNS(check_columns), out);
        add_rows(checks, add_check, &table);
    }
    for (size_t i = 0; i < json_count(checks); i++) {
        const Json *check = json_at(checks, i), *rungs = json_get(check, "rungs");
        if (json_count(rungs) == 0)
            continue;
        SCOPED_TEXT title;
        text_init(&title, 256);
        render_rungs_title(check, &title);
        Table table = open_table(text_string(&title), COLUMNS(rung_columns), out);
        add_rows(rungs, add_rung, &table);
    }
    if (json_count(items) > 0) {
        SCOPED_TEXT title;
        text_init(&title, 256);
        render_rubric_title(rubric, &title);
        Table table = open_table(text_string(&title), COLUMNS(item_columns), out);
        add_rows(items, add_item, &table);
    }
}

void report_verdict_html(const Json *verdict, Text *out)
{
    text_add(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                  "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    add_title(verdict, out);
    add_answers(verdict, out);
    add_tables(verdict, out);
    add_facts(verdict, out);
    text_add(out, "</main>\n</body>\n</html>\n");
}
