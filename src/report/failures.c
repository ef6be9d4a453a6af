// failures - each check's failure mode with detector, owner, mitigation and stop condition.
#include "report_internal.h"

// One row per column of a failure mode, so that text, Markdown and JSON cannot drift apart.
static const struct { const char *key, *label; size_t offset; } columns[] = {
    {"mode", "fails as:", offsetof(FailureMode, mode)},
    {"detector", "detector:", offsetof(FailureMode, detector)},
    {"owner", "owner:", offsetof(FailureMode, owner)},
    {"mitigation", "mitigation:", offsetof(FailureMode, mitigation)},
    {"stop", "stop:", offsetof(FailureMode, stop)},
};
enum { COLUMN_COUNT = sizeof columns / sizeof columns[0] };

static const char *column_text(const FailureMode *failure, size_t column)
{
    const char *text = *(const char *const *)((const char *)failure + columns[column].offset);
    return text ? text : "-";
}

void report_failures_text(Text *out)
{
    for (size_t i = 0; i < gate_check_count; i++) {
        const GateCheck *check = &gate_checks[i];
        if (i)
            text_add_char(out, '\n');
        render_wrapped(out, check->name, 14, check->question, 4);
        for (size_t c = 0; c < COLUMN_COUNT; c++) {
            SCOPED_TEXT label;
            text_init(&label, 64);
            text_add_format(&label, "  %s", columns[c].label);
            render_wrapped(out, text_string(&label), 14, column_text(&check->failure, c), 8);
        }
    }
}

static void add_cell(Text *out, const char *string)
{
    text_add(out, " ");
    for (const char *c = string; *c; c++) {
        if (*c == '|')
            text_add_char(out, '\\');
        text_add_char(out, *c == '\n' ? ' ' : *c);
    }
    text_add(out, " |");
}

void report_failures_markdown(Text *out)
{
    text_add(out, "| check | question | failure mode | detector | owner | mitigation | stop condition |\n");
    text_add(out, "|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < gate_check_count; i++) {
        text_add(out, "|");
        add_cell(out, gate_checks[i].name);
        add_cell(out, gate_checks[i].question);
        for (size_t c = 0; c < COLUMN_COUNT; c++)
            add_cell(out, column_text(&gate_checks[i].failure, c));
        text_add_char(out, '\n');
    }
}

Json *report_failures_json(void)
{
    Json *object = json_make_object(), *failures = json_make_array();
    json_put_text(object, "schema", "fedgate.failures/1");
    for (size_t i = 0; i < gate_check_count; i++) {
        Json *row = json_make_object();
        json_put_text(row, "check", gate_checks[i].name);
        json_put_text(row, "question", gate_checks[i].question);
        for (size_t c = 0; c < COLUMN_COUNT; c++)
            json_put_text(row, columns[c].key, column_text(&gate_checks[i].failure, c));
        json_add(failures, row);
    }
    json_put(object, "failures", failures);
    return object;
}
