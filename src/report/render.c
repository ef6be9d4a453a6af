// render - the pieces every text is made of: cut and wrapped lines, figures, a row of the check table.
#include "report_internal.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static bool is_printable(unsigned char byte)
{
    return byte >= 0x20 && byte < 0x7f;
}

static size_t ascii_width(const char *string)
{
    size_t width = 0;
    for (const char *c = string; *c; c++)
        width += is_printable((unsigned char)*c) || *c == '\n' ? 1 : 4;
    return width;
}

static void add_ascii(Text *out, unsigned char byte)
{
    if (is_printable(byte))
        text_add_char(out, (char)byte);
    else if (byte == '\n')
        text_add_char(out, ' ');
    else
        text_add_format(out, "\\x%02x", byte);
}

void render_cut(Text *out, const char *string, size_t columns)
{
    bool whole = ascii_width(string) <= columns;
    size_t room = whole || columns < 3 ? columns : columns - 3;
    for (const char *c = string; *c; c++) {
        size_t width = is_printable((unsigned char)*c) || *c == '\n' ? 1 : 4;
        if (width > room)
            break;
        add_ascii(out, (unsigned char)*c);
        room -= width;
    }
    if (!whole && columns >= 3)
        text_add(out, "...");
}

void render_wrapped(Text *out, const char *label, size_t indent, const char *string, size_t lines)
{
    SCOPED_TEXT ascii;
    text_init(&ascii, 8192);
    render_cut(&ascii, string, 4096);
    const char *rest = text_string(&ascii);
    size_t width = REPORT_COLUMNS - indent;
    for (size_t line = 0; line < lines && (line == 0 || *rest); line++) {
        text_add_format(out, "%-*s", (int)indent, line == 0 ? label : "");
        size_t length = strlen(rest);
        if (length > width && line + 1 < lines) {
            length = width;
            while (length > width / 2 && rest[length] != ' ')
                length--;
            if (rest[length] != ' ')
                length = width;
            text_add_bytes(out, rest, length);
        } else {
            render_cut(out, rest, width);
        }
        text_add_char(out, '\n');
        rest += length;
        while (*rest == ' ')
            rest++;
    }
}

size_t render_count_lines(const Text *text)
{
    size_t lines = 0;
    for (const char *c = text_string(text); *c; c++)
        lines += *c == '\n';
    return lines;
}

void render_bytes(double bytes, char ret_text[static FIGURE_SIZE])
{
    static const struct {
        double size;
        const char *unit;
    } scales[] = {{1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}};
    for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++)
        if (fabs(bytes) >= scales[i].size) {
            snprintf(ret_text, FIGURE_SIZE, "%.4g %s", bytes / scales[i].size, scales[i].unit);
            return;
        }
    snprintf(ret_text, FIGURE_SIZE, "%.4g B", bytes);
}

static void add_seconds(double seconds, char ret_text[static FIGURE_SIZE])
{
    static const struct {
        double from, size;
        const char *unit;
    } scales[] = {{7200, 3600, "h"}, {120, 60, "min"}, {0, 1, "s"}};
    size_t scale = 0;
    while (scale < 2 && !(fabs(seconds) >= scales[scale].from))
        scale++;
    snprintf(ret_text, FIGURE_SIZE, "%.4g %s", seconds / scales[scale].size, scales[scale].unit);
}

void render_figure(const Json *value, const char *unit, int digits, char ret_text[static FIGURE_SIZE])
{
    if (!json_is_number(value)) {
        snprintf(ret_text, FIGURE_SIZE, "-");
        return;
    }
    double number = json_number_or(value, NAN);
    if (text_equal(unit, "bytes") && isfinite(number))
        render_bytes(number, ret_text);
    else if ((text_equal(unit, "s") || text_equal(unit, "seconds")) && isfinite(number))
        add_seconds(number, ret_text);
    else
        snprintf(ret_text, FIGURE_SIZE, "%.*g", digits, number);
}

void render_stamp(const char *rfc3339, char ret_text[static STAMP_SIZE])
{
    int64_t wall_ns;
    size_t length = strlen(rfc3339);
    if (clock_parse(rfc3339, &wall_ns) && length >= 22 && length < CLOCK_TIME_SIZE) {
        const char *offset = rfc3339[length - 1] == 'Z' ? "Z" : rfc3339 + length - 6;
        snprintf(ret_text, STAMP_SIZE, "%.10s %.5s %s", rfc3339, rfc3339 + 11, offset);
        return;
    }
    SCOPED_TEXT ascii;
    text_init(&ascii, STAMP_SIZE);
    render_cut(&ascii, rfc3339, STAMP_SIZE - 1);
    snprintf(ret_text, STAMP_SIZE, "%s", *rfc3339 ? text_string(&ascii) : "-");
}

void render_check_header(Text *out)
{
    text_add(out, "  CHECK        OUTCOME            VALUE       LIMIT\n");
}

bool render_check_passes(const Json *check)
{
    Outcome outcome;
    return gate_find_outcome(json_text_or(json_get(check, "outcome"), ""), &outcome) &&
           (outcome == OUTCOME_PASS || outcome == OUTCOME_NOT_APPLICABLE);
}

bool render_check_required(const Json *check)
{
    return json_bool_or(json_get(check, "required"), true);
}

void render_check_row(const Json *check, Text *out)
{
    const char *unit = json_text_or(json_get(check, "unit"), "");
    bool required = render_check_required(check);
    char value[FIGURE_SIZE], limit[FIGURE_SIZE];
    render_figure(json_get(check, "value"), unit, 4, value);
    render_figure(json_get(check, "limit"), unit, 4, limit);

    SCOPED_TEXT row;
    text_init(&row, 1024);
    text_add(&row, render_check_passes(check) ? "  " : required ? "! " : "? ");
    SCOPED_TEXT cell;
    text_init(&cell, 256);
    render_cut(&cell, json_text_or(json_get(check, "name"), "(no name)"), 12);
    text_add_format(&row, "%-13s", text_string(&cell));
    text_clear(&cell);
    render_cut(&cell, json_text_or(json_get(check, "outcome"), "(none)"), 14);
    text_add_format(&row, "%-14s %9s   %9s", text_string(&cell), value, limit);
    if (!required)
        text_add(&row, "  optional");
    else if (!render_check_passes(check) ||
             text_equal(json_text_or(json_get(check, "outcome"), ""), "not_applicable")) {
        text_add(&row, "  ");
        size_t used = row.length;
        if (used < REPORT_COLUMNS)
            render_cut(&row, json_text_or(json_get(check, "reason"), ""), REPORT_COLUMNS - used);
    }
    render_cut(out, text_string(&row), REPORT_COLUMNS);
    text_add_char(out, '\n');
}
