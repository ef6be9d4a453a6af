// report.h - what people read: the verdict on a phone at 04:00, the status line, history, failures. Renders, never decides.
//
// Text is ASCII, at most 80 columns; the verdict fits 24 lines. Every text escapes control bytes found in names and reasons.
#ifndef FEDGATE_REPORT_H
#define FEDGATE_REPORT_H

#include <fedgate/gate.h>
#include <fedgate/registry.h>

// verdict: "fedgate.verdict/1" (design.md section 2)
void report_verdict_text(const Json *verdict, Text *out);    // live now, outcome, deciding check with value and limit, all checks, what to type next
void report_verdict_sentence(const Json *verdict, Text *out);   // one line without newline: the last line on stderr
void report_current_text(const PointerRecord *record_or_null, const HoldState *hold, Text *out);
void report_history_text(const PointerRecord *records, size_t count, Text *out);   // newest first
Json *report_history_json(const PointerRecord *records, size_t count);   // { schema "fedgate.history/1", moves [] }
Json *report_current_json(const PointerRecord *record_or_null, const HoldState *hold);   // { schema "fedgate.current/1", version kind since seq hold }

// `status`: 0 OK promoted; 1 WARNING refused, inconclusive, hold; 2 CRITICAL reverted, failed, inconsistent, or no verdict newer than
// max_age; 3 UNKNOWN. One line "FEDGATE OK - ..." with Nagios-style exit code.
int report_status(const Json *verdict_or_null, const HoldState *hold, int64_t now_wall_ns, int64_t max_age_ns, Text *out);

void report_failures_text(Text *out);   // `config failures`: each check's mode, detector, owner, mitigation, stop
void report_failures_markdown(Text *out);   // for ops/runbook.md
void report_judgement_text(const Json *judgement, Text *out);   // `judge`: the check table and the sentence

// Progress of a running night: one line of at most 79 columns (step, loss, wait share, forecast against deadline).
void report_progress(const Json *progress, Text *out);

#endif
