// metrics - a night's end as a Prometheus textfile: families in the order of the verdict, one header each.
#include "report_internal.h"

#include <fedgate/clock.h>
#include <math.h>

typedef struct Label {
    const char *name, *value;
} Label;

typedef struct Family {
    Text *out;
    const char *model, *name, *help;
    bool begun;   // its header is written, before the first value
} Family;

// Backslash, quote and newline are the three the format escapes.
static void add_label(Text *out, const char *name, const char *value)
{
    text_add_format(out, "%s=\"", name);
    for (const char *c = value; *c; c++) {
        if (*c == '\n')
            text_add(out, "\\n");
        else if (*c == '"' || *c == '\\')
            text_add_format(out, "\\%c", *c);
        else
            text_add_char(out, *c);
    }
    text_add_char(out, '"');
}

static void add_value(Family *family, const Label *labels, size_t count, double value)
{
    char number[32];
    if (!isfinite(value))   // not measured
        return;
    if (!family->begun)
        text_add_format(family->out, "# HELP %s %s\n# TYPE %s gauge\n", family->name, family->help,
                        family->name);
    family->begun = true;
    text_from_double(number, value);
    text_add_format(family->out, "%s{", family->name);
    add_label(family->out, "model", family->model);
    for (size_t i = 0; i < count; i++) {
        text_add_char(family->out, ',');
        add_label(family->out, labels[i].name, labels[i].value);
    }
    text_add_format(family->out, "} %s\n", number);
}

static Family begin(Text *out, const char *model, const char *name, const char *help)
{
    return (Family){.out = out, .model = model, .name = name, .help = help};
}

static void add_single(Text *out, const char *model, const char *name, const char *help, double value)
{
    Family family = begin(out, model, name, help);
    add_value(&family, NULL, 0, value);
}

// Whole milliseconds, as the verdict shows them: nanoseconds of this century do not fit into a double.
static double milliseconds_of(const Json *verdict, const char *key)
{
    int64_t wall_ns;
    return clock_parse(json_text_or(json_get(verdict, key), ""), &wall_ns) ? (double)(wall_ns / 1000000)
                                                                           : (double)NAN;
}

static void add_outcome(const Json *verdict, const char *const *words, const char *model, Text *out)
{
    const char *outcome = json_text_or(json_get(verdict, "outcome"), "");
    Family family =
        begin(out, model, "fedgate_night_outcome", "1 for the outcome of the last night, else 0.");
    for (size_t i = 0; words[i] != NULL; i++)
        add_value(&family, &(Label){"outcome", words[i]}, 1, text_equal(outcome, words[i]));
    add_single(out, model, "fedgate_night_exit_code", "Exit code of the last night.",
               json_number_or(json_get(verdict, "exit"), (double)NAN));
}

static void add_times(const Json *verdict, const char *model, Text *out)
{
    double started = milliseconds_of(verdict, "started"), ended = milliseconds_of(verdict, "ended");
    add_single(out, model, "fedgate_night_start_timestamp_seconds", "When the last night began.",
               started / 1e3);
    add_single(out, model, "fedgate_night_end_timestamp_seconds", "When the last night ended.", ended / 1e3);
    add_single(out, model, "fedgate_night_deadline_timestamp_seconds", "Deadline of the last night.",
               milliseconds_of(verdict, "deadline") / 1e3);
    add_single(out, model, "fedgate_night_duration_seconds", "Length of the last night.",
               (ended - started) / 1e3);
}

static void add_steps(const Json *record, const char *model, Text *out)
{
    const Json *seconds = json_get(record, "seconds");
    const char *step;
    Family family = begin(out, model, "fedgate_night_step_duration_seconds", "Length of each step of it.");
    for (size_t i = 0; (step = json_key_at(seconds, i)) != NULL; i++)
        add_value(&family, &(Label){"step", step}, 1, json_number_or(json_get(seconds, step), (double)NAN));
}

// What a check measured has its own unit, which is a label.
static void add_checks(const Json *checks, const char *model, Text *out)
{
    static const struct {
        const char *key, *name, *help;
    } figures[] = {
        {NULL, "fedgate_check_passed",
         "1 when the check of the last night passed, 0 when not; absent when it did not apply."},
        {"value", "fedgate_check_value", "Figure that decided a check, in the unit of its label."},
        {"limit", "fedgate_check_limit", "Limit of that figure."},
    };
    for (size_t k = 0; k < sizeof figures / sizeof figures[0]; k++) {
        Family family = begin(out, model, figures[k].name, figures[k].help);
        for (size_t i = 0; i < json_count(checks); i++) {
            const Json *check = json_at(checks, i);
            bool required = json_bool_or(json_get(check, "required"), false);
            Label labels[] = {{"check", json_text_or(json_get(check, "name"), "")},
                              figures[k].key ? (Label){"unit", json_text_or(json_get(check, "unit"), "")}
                                             : (Label){"required", required ? "true" : "false"}};
            bool judged = !text_equal(json_text_or(json_get(check, "outcome"), ""), "not_applicable");
            double value = figures[k].key ? json_number_or(json_get(check, figures[k].key), (double)NAN)
                           : judged       ? (double)render_check_passes(check)
                                          : (double)NAN;
            add_value(&family, labels, 2, value);
        }
    }
}

// A record of a night that never trained holds zeros, which nobody measured.
static double measured(const Json *record, const char *key)
{
    double value = json_number_or(json_get(record, key), (double)NAN);
    return value > 0 ? value : (double)NAN;
}

static void add_training(const Json *record, const char *model, Text *out)
{
    add_single(out, model, "fedgate_device_memory_peak_bytes", "Most device memory of the last night.",
               measured(record, "peak_bytes"));
    add_single(out, model, "fedgate_training_samples_per_second", "Samples trained per second.",
               measured(record, "throughput"));
    Family cost = begin(out, model, "fedgate_training_cost_per_sample",
                        "Cost of one trained sample, in the unit of its label.");
    add_value(&cost, &(Label){"unit", json_text_or(json_get(record, "cost_unit"), "")}, 1,
              measured(record, "cost_per_sample"));
}

static void add_live(const Json *current, const char *model, Text *out)
{
    const char *version = json_text_or(json_get(current, "version"), NULL);
    Label labels[] = {{"version", version}, {"kind", json_text_or(json_get(current, "kind"), "")}};
    Family family = begin(out, model, "fedgate_live_info", "Version that is live, always 1.");
    if (version)
        add_value(&family, labels, 2, 1);
}

static double known(int64_t count)
{
    return count < 0 ? (double)NAN : (double)count;
}

static void add_world(const ReportNight *night, const char *model, Text *out)
{
    add_single(out, model, "fedgate_hold", "1 while promotions are on hold, else 0.", night->held);
    add_single(out, model, "fedgate_telemetry_rows", "Telemetry rows of the last night.", known(night->rows));
    add_single(out, model, "fedgate_telemetry_acknowledged_rows", "Of these, rows the database holds.",
               known(night->acknowledged));
    Family notices = begin(out, model, "fedgate_outbox_notices", "Notices that no receiver has taken.");
    add_value(&notices, &(Label){"state", "waiting"}, 1, known(night->waiting));
    add_value(&notices, &(Label){"state", "refused"}, 1, known(night->refused));
}

void report_metrics(const Json *verdict, const ReportNight *night, Text *out)
{
    const char *model = json_text_or(json_get(verdict, "model"), "");
    add_outcome(verdict, night->outcomes, model, out);
    add_times(verdict, model, out);
    add_steps(night->record, model, out);
    add_checks(json_get(verdict, "checks"), model, out);
    add_training(night->record, model, out);
    add_live(json_get(verdict, "current"), model, out);
    add_world(night, model, out);
}
