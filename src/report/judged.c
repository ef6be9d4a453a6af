// judged - many stored nights judged again: a line each, why those that would end otherwise would, the
// counts.
#include "report_internal.h"

#include <string.h>

enum { SLOT_COLUMNS = 18, RUN_COLUMNS = 8, THEN_COLUMNS = 24 };
enum { RUN_COLUMN = 21, THEN_COLUMN = 30, NOW_COLUMN = 55 };   // where they begin
enum { ROW_MAX = 1024, WHY_INDENT = 4, WHY_LINES = 3 };

static const char *member(const Json *object, const char *key, const char *fallback)
{
    return json_text_or(json_get(object, key), fallback);
}

static void pad(size_t begin, size_t columns, Text *out)
{
    while (out->length < begin + columns)
        text_add(out, " ");
}

// "pass", "refuse, overlap"; "-" when nobody judged.
static void add_outcome(const Json *judged, Text *out)
{
    char said[64];
    const char *decided = member(judged, "decided_by", NULL), *outcome = member(judged, "outcome", "-");
    bool by = decided && !text_equal(outcome, "pass");
    if (text_print(said, sizeof said, "%.20s%s%.20s", outcome, by ? ", " : "", by ? decided : ""))
        render_cut(out, said, THEN_COLUMNS);
}

static void add_row(const Json *row, Text *out)
{
    const char *run = member(row, "run", "-");
    size_t begin = out->length, length = strlen(run);
    text_add(out, json_bool_or(json_get(row, "otherwise"), false) ? "* " : "  ");
    render_cut(out, member(row, "slot", "-"), SLOT_COLUMNS);
    pad(begin, RUN_COLUMN, out);
    render_cut(out, length > RUN_COLUMNS ? run + length - RUN_COLUMNS : run, RUN_COLUMNS);
    pad(begin, THEN_COLUMN, out);
    add_outcome(json_get(row, "then"), out);
    pad(begin, NOW_COLUMN, out);
    add_outcome(json_get(row, "judgement"), out);
    text_add(out, "\n");
}

static void add_why(const Json *row, Text *out)
{
    const Json *changed = json_get(row, "changed");
    SCOPED_TEXT line;
    text_init(&line, ROW_MAX);
    for (size_t i = 0; i < json_count(changed); i++) {
        const Json *check = json_at(changed, i);
        text_clear(&line);
        text_add_format(&line, "%s %s -> %s: %s", member(check, "name", "?"), member(check, "then", "?"),
                        member(check, "now", "?"), member(check, "reason", "-"));
        render_wrapped(out, "", WHY_INDENT, text_string(&line), WHY_LINES);
    }
}

// An error names its file itself.
static void add_unjudged(const Json *row, Text *out)
{
    SCOPED_TEXT line;
    text_init(&line, 2 * ROW_MAX);
    const char *said = member(row, "error", NULL);
    if (said)
        text_add(&line, said);
    else
        text_add_format(&line, "%s: %s", member(row, "file", "?"), member(row, "skipped", "-"));
    render_wrapped(out, "", WHY_INDENT, text_string(&line), WHY_LINES);
}

void report_judged_text(const Json *rows, Text *out)
{
    size_t same = 0, otherwise = 0, alone = 0, errors = 0, skipped = 0;
    text_add(out, "  slot               run      then                     now\n");
    for (size_t i = 0; i < json_count(rows); i++) {
        const Json *row = json_at(rows, i);
        bool bad = json_get(row, "error") != NULL, never = json_get(row, "skipped") != NULL;
        errors += bad;
        skipped += never;
        if (bad || never) {
            add_unjudged(row, out);
            continue;
        }
        const Json *differs = json_get(row, "otherwise");
        otherwise += json_bool_or(differs, false);
        same += json_is_bool(differs) && !json_bool_or(differs, false);
        alone += !json_is_bool(differs);
        add_row(row, out);
        add_why(row, out);
    }
    text_add_format(out,
                    "%zu nights: %zu as before, %zu would have ended otherwise (*), %zu without a verdict",
                    json_count(rows), same, otherwise, alone);
    text_add_format(out, "\n%zu could not be read, %zu ended before they had evidence\n", errors, skipped);
}
