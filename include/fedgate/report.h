// report.h - what people read: the verdict at 04:00 on a phone, the status line, history, failures.
//
// Renders, never decides. Text is ASCII, at most 79 columns; the verdict fits 24 lines. Bytes outside
// printable ASCII in names and reasons come out as \xHH, so a label can neither break a line nor move a
// terminal's cursor.
#ifndef FEDGATE_REPORT_H
#define FEDGATE_REPORT_H

#include <fedgate/gate.h>
#include <fedgate/registry.h>

enum { REPORT_COLUMNS = 79, REPORT_VERDICT_LINES = 24 };

// -- verdict: "fedgate.verdict/1" (design.md section 2). Optional keys: `duty_separated` (bool), false adds
// the note that owner and nightly account are one; `notices` {waiting, problem}, what no receiver has taken;
// `measured` {device source resident windows steps_seen steps_done seen_ratio hidden_ratio kernel_ratio},
// each optional: on what and how much of the run the timeline saw, the share of copy time under kernels and,
// its ceiling, of all time.
// With more checks than fit, passing ones share a line; what does not pass never does. The sentence is one
// line without newline: the last line on stderr.
void report_verdict_text(const Json *verdict, Text *out);
void report_verdict_sentence(const Json *verdict, Text *out);
// Behind it, as long as it takes: rungs of the checks that have them, worst case beside each bar; the rubric.
void report_verdict_details(const Json *verdict, Text *out);
// All of it, and every check with its reason, as one HTML5 page without script or other files; UTF-8.
void report_verdict_html(const Json *verdict, Text *out);
// `judge`: the check table, every reason that does not pass, the sentence.
void report_judgement_text(const Json *judgement, Text *out);
// `judge` of several nights: rows { slot run then judgement otherwise changed[] }, or { file error }, or
// { file skipped }; a line each, which checks changed, the counts.
void report_judged_text(const Json *rows, Text *out);

// -- what is live. Records are oldest first, as registry_history gives them, and shown newest first.
// JSON: { schema "fedgate.current/1", version kind since seq run hold },
// { schema "fedgate.history/1", moves [] }
void report_current_text(const PointerRecord *record_or_null, const HoldState *hold, Text *out);
Json *report_current_json(const PointerRecord *record_or_null, const HoldState *hold);
void report_history_text(const PointerRecord *records, size_t count, Text *out);
Json *report_history_json(const PointerRecord *records, size_t count);

// -- `status`: 0 OK promoted or passed; 1 WARNING refused, inconclusive, hold; 2 CRITICAL reverted, failed,
// inconsistent, or no verdict newer than max_age; 3 UNKNOWN: a verdict that cannot be read. One line with
// newline.
// moved: what changed the pointer since that verdict ("rollback #5 by root"), NULL when nothing did; never OK
// then.
int report_status(const Json *verdict_or_null, const HoldState *hold, const char *moved_or_null,
                  int64_t now_wall_ns, int64_t max_age_ns, Text *out);

// -- failure modes of the check table
void report_failures_text(Text *out);       // `config failures`
void report_failures_markdown(Text *out);   // ops/runbook.md
Json *report_failures_json(void);           // { schema "fedgate.failures/1", failures [] }

// -- metrics: a Prometheus textfile of a night's end (text format 0.0.4), without time stamps. Gauges named
// fedgate_*, in base units, each labelled with its model; what was not measured is left out.
typedef struct ReportNight {
    const char *const *outcomes;   // every word an outcome can be, NULL at the end
    const Json *record;   // of the run: seconds, peak_bytes, throughput, cost_per_sample, cost_unit; or NULL
    bool held;            // promotions are on hold
    int64_t rows, acknowledged;   // of telemetry; -1: not known
    int waiting, refused;         // notices in the outbox; -1: not known
} ReportNight;
void report_metrics(const Json *verdict, const ReportNight *night, Text *out);

// -- progress of a running night: one line of at most 79 columns without newline. Keys of progress.json, all
// optional: night_step (name), night_step_number, night_steps; step, planned_steps, train_loss,
// validation_loss, wait_ratio (as in TrainProgress); forecast_end, deadline (RFC 3339); outcome once the
// night ended.
void report_progress(const Json *progress, Text *out);

#endif
