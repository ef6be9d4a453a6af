// report_internal.h - lines of printable ASCII with a width, figures with their unit, the words that
// text and HTML share; private to src/report.
#ifndef FEDGATE_REPORT_INTERNAL_H
#define FEDGATE_REPORT_INTERNAL_H

#include <fedgate/report.h>

enum { FIGURE_SIZE = 24, STAMP_SIZE = 40 };

// Appends `string` as printable ASCII, other bytes as \xHH, blanks for line ends; at most `columns` wide, a
// cut ends in "...".
void render_cut(Text *out, const char *string, size_t columns);

// Appends "<label padded to indent><string>\n", broken at blanks, following lines indented likewise, at most
// `lines` lines.
void render_wrapped(Text *out, const char *label, size_t indent, const char *string, size_t lines);
size_t render_count_lines(const Text *text);

// A check's value or limit: bytes and seconds carry their unit, other units are left to the reason. "-" when
// there is none.
void render_figure(const Json *value, const char *unit, int digits, char ret_text[static FIGURE_SIZE]);
void render_bytes(double bytes, char ret_text[static FIGURE_SIZE]);

// "2026-11-30T04:12:33.123+01:00" -> "2026-11-30 04:12 +01:00"; another shape stays as it is.
void render_stamp(const char *rfc3339, char ret_text[static STAMP_SIZE]);

void render_check_header(Text *out);
// One line; the reason, cut, only when the check does not pass.
void render_check_row(const Json *check, Text *out);
bool render_check_passes(const Json *check);
bool render_check_required(const Json *check);   // unless it says that it is not

// Of an outcome word alone.
enum { STATUS_OK, STATUS_WARNING, STATUS_CRITICAL, STATUS_UNKNOWN };
int render_status(const char *outcome);

// -- the words of a verdict, as long as they are, appended to `out` as the verdict holds them: the caller
// cuts or escapes.
void render_title(const Json *verdict, Text *out);
void render_live(const Json *verdict, Text *out);
const char *render_last_good(const Json *verdict);   // NULL when it is the live version, or none is named
void render_decided(const Json *verdict, Text *out);
const char *render_duty_note(const Json *verdict);   // NULL when there is nothing to say
void render_notices(const Json *verdict, Text *out);   // likewise nothing
// "NVIDIA H200, CUPTI activity: 12 windows, 1200 of 26000 steps (4.6 %)": nothing when nothing was measured.
void render_measured(const Json *verdict, Text *out);
// "95 % of copy time hidden, kernels run 97 % of the time (the ceiling)": nothing without steps.
void render_hidden(const Json *verdict, Text *out);
void render_next(const Json *verdict, const char **ret_who, const char **ret_command);
void render_rungs_title(const Json *check, Text *out);
const char *render_bound(const Json *rung);   // "<=", ">=" or nothing
void render_worst(const Json *rung, Text *out);
void render_rubric_title(const Json *rubric, Text *out);

// -- HTML. What `string` holds can be neither markup nor end an attribute; control bytes, invalid UTF-8 and
// marks that turn the direction of writing are \xHH, line ends are blanks.
void html_add(Text *out, const char *string);

#endif
