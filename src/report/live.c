// live - what is live, every move, and the status line of the monitoring.
#include "report_internal.h"
#include <stdio.h>
#include <string.h>

// Instants without a configuration at hand are shown in UTC.
static void stamp_of(int64_t wall_ns, char ret_text[static STAMP_SIZE])
{
    char time[CLOCK_TIME_SIZE];
    clock_format(wall_ns, "", time);
    render_stamp(time, ret_text);
}

void report_current_text(const PointerRecord *record, const HoldState *hold, Text *out)
{
    char since[STAMP_SIZE];
    if (record) {
        stamp_of(record->wall_ns, since);
        SCOPED_TEXT line;
        text_init(&line, 1024);
        text_add_format(&line, "%s (%s) since %s", record->to, release_kind_name(record->to_kind), since);
        render_wrapped(out, "Live now:", 12, text_string(&line), 2);
        text_clear(&line);
        text_add_format(&line, "%s #%lld by %s: %s", registry_move_name(record->kind), (long long)record->seq,
                        record->actor, record->reason);
        render_wrapped(out, "Moved by:", 12, text_string(&line), 4);
    } else {
        text_add(out, "Live now:   nothing yet\n");
    }
    if (hold && hold->held) {
        SCOPED_TEXT line;
        text_init(&line, 1024);
        stamp_of(hold->since_wall_ns, since);
        text_add_format(&line, "by %s since %s: %s", hold->who, since, hold->reason);
        render_wrapped(out, "On hold:", 12, text_string(&line), 4);
    }
}

static Json *hold_to_json(const HoldState *hold)
{
    Json *object = json_make_object();
    json_put_bool(object, "held", hold && hold->held);
    if (hold && hold->held) {
        char since[CLOCK_TIME_SIZE];
        clock_format(hold->since_wall_ns, "", since);
        json_put_text(object, "who", hold->who);
        json_put_text(object, "reason", hold->reason);
        json_put_text(object, "since", since);
    }
    return object;
}

Json *report_current_json(const PointerRecord *record, const HoldState *hold)
{
    Json *object = json_make_object();
    json_put_text(object, "schema", "fedgate.current/1");
    json_put_text(object, "version", record ? record->to : NULL);
    json_put_text(object, "kind", record ? release_kind_name(record->to_kind) : NULL);
    char since[CLOCK_TIME_SIZE];
    if (record)
        clock_format(record->wall_ns, "", since);
    json_put_text(object, "since", record ? since : NULL);
    json_put(object, "seq", record ? json_make_integer(record->seq) : NULL);
    json_put_text(object, "run", record && *record->run ? record->run : NULL);
    json_put(object, "hold", hold_to_json(hold));
    return object;
}

void report_history_text(const PointerRecord *records, size_t count, Text *out)
{
    if (count == 0)
        text_add(out, "no move yet: nothing was ever live\n");
    for (size_t i = count; i > 0; i--) {
        const PointerRecord *record = &records[i - 1];
        char when[STAMP_SIZE], label[32];
        stamp_of(record->wall_ns, when);
        snprintf(label, sizeof label, "#%lld", (long long)record->seq);
        SCOPED_TEXT line;
        text_init(&line, 1024);
        text_add_format(&line, "%-8s  %s  by %s (uid %lld)", registry_move_name(record->kind), when,
                        record->actor, (long long)record->actor_uid);
        render_wrapped(out, label, 6, text_string(&line), 1);
        render_wrapped(out, "", 6, *record->from ? record->from : "nothing", 1);
        text_clear(&line);
        text_add_format(&line, "-> %s (%s)", record->to, release_kind_name(record->to_kind));
        render_wrapped(out, "", 6, text_string(&line), 2);
        render_wrapped(out, "", 6, *record->reason ? record->reason : "-", 4);
    }
}

Json *report_history_json(const PointerRecord *records, size_t count)
{
    Json *object = json_make_object(), *moves = json_make_array();
    json_put_text(object, "schema", "fedgate.history/1");
    for (size_t i = count; i > 0; i--)
        json_add(moves, registry_record_to_json(&records[i - 1]));
    json_put(object, "moves", moves);
    return object;
}

static const char *const status_words[] = {"OK", "WARNING", "CRITICAL", "UNKNOWN"};

static const struct {
    const char *outcome;
    int status;
} status_rows[] = {
    {"promoted", STATUS_OK},          {"passed", STATUS_OK},         {"refused", STATUS_WARNING},
    {"inconclusive", STATUS_WARNING}, {"reverted", STATUS_CRITICAL}, {"inconsistent", STATUS_CRITICAL},
    {"failed", STATUS_CRITICAL},
};

int render_status(const char *outcome)
{
    for (size_t i = 0; i < sizeof status_rows / sizeof status_rows[0]; i++)
        if (text_equal(status_rows[i].outcome, outcome))
            return status_rows[i].status;
    return STATUS_UNKNOWN;
}

static void add_age(int64_t age_ns, Text *out)
{
    int64_t minutes = age_ns / INT64_C(60000000000);
    if (minutes < 120)
        text_add_format(out, "%lld min", (long long)minutes);
    else
        text_add_format(out, "%lld h", (long long)(minutes / 60));
}

int report_status(const Json *verdict, const HoldState *hold, const char *moved, int64_t now_wall_ns,
                  int64_t max_age_ns, Text *out)
{
    // A clock set back by minutes is a fact of life; a verdict from further ahead says that one of the two is
    // wrong.
    const int64_t ahead_ns = INT64_C(300) * 1000000000;
    int64_t ended_ns;
    SCOPED_TEXT line;
    text_init(&line, 4096);
    int status;
    if (!verdict) {
        status = STATUS_CRITICAL;
        text_add(&line, "no verdict yet");
    } else if (!clock_parse(json_text_or(json_get(verdict, "ended"), ""), &ended_ns)) {
        status = STATUS_UNKNOWN;
        text_add(&line, "last verdict has no readable end");
    } else if (ended_ns > now_wall_ns + ahead_ns) {
        status = STATUS_UNKNOWN;
        text_add_format(&line, "last verdict ended in the future: %s",
                        json_text_or(json_get(verdict, "ended"), ""));
    } else {
        int64_t age_ns = now_wall_ns > ended_ns ? now_wall_ns - ended_ns : 0;
        status = render_status(json_text_or(json_get(verdict, "outcome"), ""));
        if (hold && hold->held && status == STATUS_OK) {
            status = STATUS_WARNING;
            text_add_format(&line, "on hold by %s (%s); ", hold->who, hold->reason);
        }
        if (moved) {
            status = status == STATUS_OK ? STATUS_WARNING : status;
            text_add_format(&line, "moved since the last verdict: %s; ", moved);
        }
        if (age_ns > max_age_ns) {
            status = STATUS_CRITICAL;
            text_add(&line, "last verdict is ");
            add_age(age_ns, &line);
            text_add(&line, " old, limit ");
            add_age(max_age_ns, &line);
            text_add(&line, "; ");
        }
        report_verdict_sentence(verdict, &line);
        const char *device = json_text_or(json_find(verdict, "measured.device"), NULL);
        if (device)
            text_add_format(&line, "; measured on %s", device);
    }
    text_add_format(out, "FEDGATE %s - ", status_words[status]);
    render_cut(out, text_string(&line), 600);
    text_add_char(out, '\n');
    return status;
}
