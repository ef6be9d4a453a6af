// report_internal.h - lines of printable ASCII with a width, figures with their unit; private to src/report.
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

#endif
