// verdict - the verdict as text (24 lines by 80) and as one sentence; the judgement table of `judge`.
//
// The order is that of the questions at 04:00: what happened, what is live, which check decided and by how
// much, the whole table, what to type next and who. Lines are counted, never assumed: the table gives way by
// folding passing checks.
#include "report_internal.h"
#include <ctype.h>
#include <math.h>
#include <string.h>

enum { LABEL = 12 };

static const char *member_text(const Json *object, const char *key, const char *fallback)
{
    return json_text_or(json_get(object, key), fallback);
}

static const Json *find_check(const Json *checks, const char *name)
{
    for (size_t i = 0; i < json_count(checks); i++)
        if (text_equal(member_text(json_at(checks, i), "name", ""), name))
            return json_at(checks, i);
    return NULL;
}

static size_t count_required_passes(const Json *checks)
{
    size_t passes = 0;
    for (size_t i = 0; i < json_count(checks); i++)
        passes += json_bool_or(json_get(json_at(checks, i), "required"), false) &&
                  render_check_passes(json_at(checks, i));
    return passes;
}

void render_title(const Json *verdict, Text *out)
{
    for (const char *c = member_text(verdict, "outcome", "no outcome"); *c; c++)
        text_add_char(out, (char)toupper((unsigned char)*c));
    text_add_format(out, "  %s  slot %s", member_text(verdict, "model", "?"),
                    member_text(verdict, "slot", "?"));
}

static void add_title(const Json *verdict, Text *out)
{
    SCOPED_TEXT title;
    text_init(&title, 1024);
    render_title(verdict, &title);
    render_cut(out, text_string(&title), REPORT_COLUMNS);
    text_add_char(out, '\n');
}

void render_live(const Json *verdict, Text *out)
{
    const Json *current = json_get(verdict, "current");
    const char *version = member_text(current, "version", NULL);
    if (version) {
        char since[STAMP_SIZE];
        render_stamp(member_text(current, "since", ""), since);
        text_add_format(out, "%s (%s) since %s", version, member_text(current, "kind", "?"), since);
    } else {
        text_add(out,
                 member_text(current, "problem", NULL) ? "unknown: `current` cannot be read" : "nothing");
    }
}

const char *render_last_good(const Json *verdict)
{
    const char *good = member_text(verdict, "previous_good", NULL);
    return text_equal(good, json_text_or(json_find(verdict, "current.version"), NULL)) ? NULL : good;
}

static void add_live(const Json *verdict, Text *out)
{
    SCOPED_TEXT line;
    text_init(&line, 1024);
    render_live(verdict, &line);
    render_wrapped(out, "Live now:", LABEL, text_string(&line), 2);
    const char *good = render_last_good(verdict);
    if (good)
        render_wrapped(out, "Last good:", LABEL, good, 1);
}

void render_decided(const Json *verdict, Text *out)
{
    const Json *checks = json_get(verdict, "checks");
    const char *name = member_text(verdict, "decided_by", NULL);
    const Json *check = name ? find_check(checks, name) : NULL;
    if (name) {
        const char *unit = member_text(check, "unit", "");
        char value[FIGURE_SIZE], limit[FIGURE_SIZE];
        render_figure(json_get(check, "value"), unit, 8, value);   // all digits: near misses must show
        render_figure(json_get(check, "limit"), unit, 8, limit);
        text_add_format(out, "%s %s, value %s, limit %s", name, member_text(check, "outcome", ""), value,
                        limit);
        if (*unit && !text_equal(unit, "bytes") && !text_equal(unit, "s"))
            text_add_format(out, " %s", unit);
        if (json_is_integer(json_get(check, "n")) && json_integer_or(json_get(check, "n"), 0) > 0)
            text_add_format(out, ", n %lld", (long long)json_integer_or(json_get(check, "n"), 0));
    } else if (json_count(checks) > 0) {
        text_add_format(out, "no check: %zu required checks pass", count_required_passes(checks));
    } else {
        text_add(out, "no check: none was judged");
    }
}

static void add_decided(const Json *verdict, Text *out)
{
    SCOPED_TEXT line;
    text_init(&line, 1024);
    render_decided(verdict, &line);
    render_wrapped(out, "Decided by:", LABEL, text_string(&line), 1);
    render_wrapped(out, "Because:", LABEL, member_text(verdict, "reason", "-"), 3);
}

void render_measured(const Json *verdict, Text *out)
{
    const Json *measured = json_get(verdict, "measured");
    const char *device = member_text(measured, "device", NULL),
               *source = member_text(measured, "source", NULL);
    if (device)
        text_add_format(out, "%s%s%s", device, source ? ", " : "", source ? source : "");
    double seen = json_number_or(json_get(measured, "seen_ratio"), NAN);
    int64_t windows = json_integer_or(json_get(measured, "windows"), 0);
    if (device && source && isfinite(seen))
        text_add_format(out, ": %lld window%s, %lld of %lld steps (%.3g %%)%s", (long long)windows,
                        windows == 1 ? "" : "s",
                        (long long)json_integer_or(json_get(measured, "steps_seen"), 0),
                        (long long)json_integer_or(json_get(measured, "steps_done"), 0), seen * 100,
                        json_bool_or(json_get(measured, "resident"), false) ? ", data resident" : "");
}

void render_hidden(const Json *verdict, Text *out)
{
    const Json *measured = json_get(verdict, "measured");
    double hidden = json_number_or(json_get(measured, "hidden_ratio"), NAN),
           kernels = json_number_or(json_get(measured, "kernel_ratio"), NAN);
    if (!isfinite(kernels))
        return;
    if (isfinite(hidden))
        text_add_format(out, "%.2f %% of copy time is hidden; ", hidden * 100);
    else
        text_add(out, "nothing was copied; ");
    text_add_format(out, "kernels run %.2f %% of the time%s", kernels * 100,
                    isfinite(hidden) ? ", the ceiling of what can hide" : "");
}

static void add_identity(const Json *verdict, Text *out)
{
    render_wrapped(out, "Candidate:", LABEL, member_text(verdict, "version", "none"), 1);
    char ended[STAMP_SIZE], deadline[STAMP_SIZE];
    render_stamp(member_text(verdict, "ended", ""), ended);
    render_stamp(member_text(verdict, "deadline", ""), deadline);
    SCOPED_TEXT line;
    text_init(&line, 1024);
    text_add_format(&line, "%s, deadline %s", ended, deadline);
    render_wrapped(out, "Ended:", LABEL, text_string(&line), 1);
    render_wrapped(out, "Run:", LABEL, member_text(verdict, "run", "none"), 1);
    text_clear(&line);
    render_measured(verdict, &line);
    if (line.length)
        render_wrapped(out, "Measured:", LABEL, text_string(&line), 2);
}

const char *render_duty_note(const Json *verdict)
{
    return json_bool_or(json_get(verdict, "duty_separated"), true)
               ? NULL
               : "owner and nightly account are one: separation of duty is off";
}

void render_notices(const Json *verdict, Text *out)
{
    int64_t waiting = json_integer_or(json_find(verdict, "notices.waiting"), 0);
    if (waiting > 0)
        text_add_format(out, "%lld notice%s no receiver has taken yet: %s", (long long)waiting,
                        waiting == 1 ? "" : "s", member_text(json_get(verdict, "notices"), "problem", "-"));
}

void render_next(const Json *verdict, const char **ret_who, const char **ret_command)
{
    const Json *next = json_get(verdict, "next");
    const char *command = member_text(next, "command", "");
    *ret_who = member_text(next, "who", "nobody");
    *ret_command = *command ? command : "nothing to do";
}

static void add_next(const Json *verdict, Text *out)
{
    const char *duty = render_duty_note(verdict), *who, *command;
    if (duty)
        render_wrapped(out, "Note:", LABEL, duty, 1);
    SCOPED_TEXT line;
    text_init(&line, 1024);
    render_notices(verdict, &line);
    if (line.length)
        render_wrapped(out, "Note:", LABEL, text_string(&line), 2);
    text_clear(&line);
    render_next(verdict, &who, &command);
    text_add_format(&line, "%s: %s", who, command);
    render_wrapped(out, "Next:", LABEL, text_string(&line), 2);
}

// Rows in table order; of the passing checks the first `passes_left` get one, the others are named in
// `folded`.
static void lay_table(const Json *checks, size_t rows_left, size_t passes_left, Text *rows, Text *folded)
{
    text_clear(rows);
    text_clear(folded);
    for (size_t i = 0; i < json_count(checks); i++) {
        const Json *check = json_at(checks, i);
        bool passed = render_check_passes(check);
        if (rows_left > 0 && (!passed || passes_left > 0)) {
            render_check_row(check, rows);
            rows_left--;
            passes_left -= passed;
            continue;
        }
        if (folded->length)
            text_add(folded, " ");
        text_add(folded, member_text(check, "name", "?"));
        if (!passed)
            text_add(folded, "(!)");
        else if (text_equal(member_text(check, "outcome", ""), "not_applicable"))
            text_add(folded, "(n/a)");
    }
}

// When not every check has room for a row, as many passing ones as needed share a line at the end, or two.
static void add_table(const Json *checks, size_t room, Text *out)
{
    size_t count = json_count(checks), failing = 0, lines = count < room ? 0 : 1;
    if (count == 0 || room < 3)
        return;
    SCOPED_TEXT rows, folded;
    text_init(&rows, 64 * 1024);
    text_init(&folded, 4096);
    for (size_t i = 0; i < count; i++)
        failing += !render_check_passes(json_at(checks, i));
    for (;; lines++) {
        size_t left = room - 1 - lines;
        lay_table(checks, left, left > failing ? left - failing : 0, &rows, &folded);
        if (folded.length <= REPORT_COLUMNS - LABEL || lines == 2 || failing + 3 > room)
            break;
    }
    render_check_header(out);
    text_add(out, text_string(&rows));
    if (folded.length)
        render_wrapped(out, "  pass:", LABEL, text_string(&folded), lines);
}

void report_verdict_text(const Json *verdict, Text *out)
{
    SCOPED_TEXT head, tail;
    text_init(&head, 64 * 1024);
    text_init(&tail, 64 * 1024);
    add_title(verdict, &head);
    add_live(verdict, &head);
    add_decided(verdict, &head);
    add_identity(verdict, &tail);
    add_next(verdict, &tail);
    size_t used = render_count_lines(&head) + render_count_lines(&tail);
    text_add(out, text_string(&head));
    add_table(json_get(verdict, "checks"), used < REPORT_VERDICT_LINES ? REPORT_VERDICT_LINES - used : 0,
              out);
    text_add(out, text_string(&tail));
}

void report_verdict_sentence(const Json *verdict, Text *out)
{
    SCOPED_TEXT line;
    text_init(&line, 4096);
    text_add_format(&line, "%s %s slot %s: ", member_text(verdict, "outcome", "no outcome"),
                    member_text(verdict, "model", "?"), member_text(verdict, "slot", "?"));
    const char *decided_by = member_text(verdict, "decided_by", NULL);
    const char *reason = member_text(verdict, "reason", "no reason given");
    if (decided_by && !text_starts_with(reason, decided_by))
        text_add_format(&line, "%s: ", decided_by);
    text_add(&line, reason);
    const Json *current = json_get(verdict, "current");
    const char *unnamed = member_text(current, "problem", NULL) ? "unknown" : "nothing";
    text_add_format(&line, "; live: %s", member_text(current, "version", unnamed));
    render_cut(out, text_string(&line), 600);
}

void report_judgement_text(const Json *judgement, Text *out)
{
    const Json *checks = json_get(judgement, "checks");
    render_check_header(out);
    for (size_t i = 0; i < json_count(checks); i++)
        render_check_row(json_at(checks, i), out);
    for (size_t i = 0; i < json_count(checks); i++) {
        const Json *check = json_at(checks, i);
        if (!render_check_passes(check))
            render_wrapped(out, member_text(check, "name", "?"), 13, member_text(check, "reason", "-"), 4);
    }
    const char *decided_by = member_text(judgement, "decided_by", NULL);
    SCOPED_TEXT line;
    text_init(&line, 4096);
    text_add_format(&line, "%s%s%s: %s", member_text(judgement, "outcome", "no outcome"),
                    decided_by ? ", decided by " : "", decided_by ? decided_by : "",
                    member_text(judgement, "reason", "-"));
    render_wrapped(out, "Judgement:", LABEL, text_string(&line), 8);
}
