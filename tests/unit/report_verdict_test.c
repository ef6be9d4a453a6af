// report_verdict - the verdict in 24 lines of 79 ASCII columns whatever is in it, its sentence, the judgement
// table.
#include "support.h"
#include <fedgate/report.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {
    "overlap", "fed",   "closure", "plausible", "memory", "parity",       "determinism", "window",
    "quality", "input", "cost",    "latency",   "rubric", "distribution", "telemetry",   "extra"};

static Json *make_check(const char *name, const char *outcome, double value, double limit, const char *reason)
{
    Json *check = json_make_object();
    json_put_text(check, "name", name);
    json_put_bool(check, "required", true);
    json_put_text(check, "outcome", outcome);
    if (isnan(value)) {
        json_put(check, "value", NULL);
        json_put(check, "limit", NULL);
    } else {
        json_put_number(check, "value", value);
        json_put_number(check, "limit", limit);
    }
    json_put_text(check, "unit", "ratio");
    json_put_integer(check, "n", 160);
    json_put_text(check, "reason", reason);
    return check;
}

static Json *make_verdict(const char *outcome, const char *decided_by, size_t checks, size_t failing)
{
    Json *verdict = json_make_object(), *array = json_make_array(), *current = json_make_object(),
         *next = json_make_object();
    json_put_text(verdict, "schema", "fedgate.verdict/1");
    json_put_text(verdict, "model", "adult");
    json_put_text(verdict, "slot", "2026-11-30");
    json_put_text(verdict, "run", "0193a5b0-1111-7222-8333-444455556666");
    json_put_text(verdict, "version", "adult-3f2a9c41d07be865");
    json_put_text(verdict, "outcome", outcome);
    json_put_text(verdict, "decided_by", decided_by);
    json_put_text(verdict, "reason", "31 % of copy time hidden, 80 % wanted");
    json_put_text(current, "version", "adult-0123456789abcdef");
    json_put_text(current, "kind", "baseline");
    json_put_text(current, "since", "2026-11-29T04:12:33.123+01:00");
    json_put(verdict, "current", current);
    json_put_text(verdict, "previous_good", "adult-fedcba9876543210");
    for (size_t i = 0; i < checks; i++)
        json_add(array, i < failing
                            ? make_check(names[i], "fail", 0.31, 0.8, "31 % of copy time hidden, 80 % wanted")
                            : make_check(names[i], "pass", 0.97, 0.8, "fine"));
    json_put(verdict, "checks", array);
    json_put_text(next, "who", "ML engineer");
    json_put_text(next, "command", "fedgate verdict latest --format json");
    json_put(verdict, "next", next);
    json_put_text(verdict, "ended", "2026-11-30T03:12:01.000+01:00");
    json_put_text(verdict, "deadline", "2026-11-30T06:00:00.000+01:00");
    return verdict;
}

static void check_shape(const char *text, size_t most_lines)
{
    size_t lines = 0, column = 0;
    for (const char *c = text; *c; c++) {
        ck_assert_msg(*c == '\n' || (*c >= 0x20 && *c < 0x7f), "byte 0x%02x in: %s", (unsigned char)*c, text);
        column = *c == '\n' ? 0 : column + 1;
        lines += *c == '\n';
        ck_assert_msg(column <= REPORT_COLUMNS, "a line is wider than %d: %s", REPORT_COLUMNS, text);
    }
    ck_assert_uint_eq(column, 0);
    ck_assert_msg(lines <= most_lines, "%zu lines, at most %zu wanted:\n%s", lines, most_lines, text);
}

static const char *render(const Json *verdict, Text *text)
{
    text_init(text, 1u << 20);
    report_verdict_text(verdict, text);
    return text_string(text);
}

START_TEST(a_refusal_answers_the_questions_in_order)
{
    OWNED(Json, json_free) *verdict = make_verdict("refused", "overlap", 11, 1);
    SCOPED_TEXT text;
    const char *out = render(verdict, &text);
    check_shape(out, REPORT_VERDICT_LINES);
    ck_assert(text_starts_with(out, "REFUSED  adult  slot 2026-11-30\nLive now:   adult-0123456789abcdef "
                                    "(baseline) since 2026-11-29 04:12 +01:00\n"));
    static const char *const order[] = {
        "Live now:",  "Last good:", "Decided by: overlap fail, value 0.31, limit 0.8 ratio, n 160",
        "Because:",   "CHECK",      "! overlap",
        "Candidate:", "Ended:",     "Next:       ML engineer: fedgate verdict"};
    const char *from = out;
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        const char *found = strstr(from, order[i]);
        ck_assert_msg(found != NULL, "'%s' is missing or too early in:\n%s", order[i], out);
        from = found;
    }
}
END_TEST

START_TEST(every_check_has_a_row_when_there_are_eleven)
{
    OWNED(Json, json_free) *verdict = make_verdict("promoted", NULL, 11, 0);
    SCOPED_TEXT text;
    const char *out = render(verdict, &text);
    check_shape(out, REPORT_VERDICT_LINES);
    for (size_t i = 0; i < 11; i++) {
        SCOPED_TEXT row;
        text_init(&row, 100);
        text_add_format(&row, "\n  %s ", names[i]);
        ck_assert_msg(strstr(out, text_string(&row)) != NULL, "no row for %s in:\n%s", names[i], out);
    }
    ck_assert_ptr_nonnull(strstr(out, "no check: 11 required checks pass"));
    ck_assert_ptr_nonnull(strstr(out, "PROMOTED"));
}
END_TEST

START_TEST(what_fails_never_folds)
{
    OWNED(Json, json_free) *verdict = make_verdict("refused", "overlap", 16, 9);
    SCOPED_TEXT text;
    const char *out = render(verdict, &text);
    check_shape(out, REPORT_VERDICT_LINES);
    for (size_t i = 0; i < 9; i++) {
        SCOPED_TEXT row;
        text_init(&row, 100);
        text_add_format(&row, "\n! %s ", names[i]);
        ck_assert_msg(strstr(out, text_string(&row)) != NULL, "no row for %s in:\n%s", names[i], out);
    }
    ck_assert_ptr_nonnull(strstr(out, "pass:"));
}
END_TEST

START_TEST(a_label_cannot_break_a_line_or_move_the_cursor)
{
    OWNED(Json, json_free) *verdict = make_verdict("refused", "overlap", 11, 11);
    char *hostile = malloc(5001);
    ck_assert_ptr_nonnull(hostile);
    for (int i = 0; i < 5000; i++)
        hostile[i] = "\033[2J\r\nx \t"[i % 9];
    hostile[5000] = '\0';
    static const char *const keys[] = {"model",         "slot",  "run",      "version",   "reason",
                                       "previous_good", "ended", "deadline", "decided_by"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        json_put_text(verdict, keys[i], hostile);
    Json *checks = json_make_array();
    for (size_t i = 0; i < 11; i++)
        json_add(checks, make_check(hostile, hostile, 0.1, 0.2,
                                    "gr\xc3\xb6\xc3\x9f"
                                    "er"));
    json_put(verdict, "checks", checks);
    Json *next = json_make_object();
    json_put_text(next, "who", hostile);
    json_put_text(next, "command", hostile);
    json_put(verdict, "next", next);
    SCOPED_TEXT text, sentence;
    check_shape(render(verdict, &text), REPORT_VERDICT_LINES);
    text_init(&sentence, 8192);
    report_verdict_sentence(verdict, &sentence);
    ck_assert_ptr_null(strchr(text_string(&sentence), '\n'));
    ck_assert_ptr_null(strchr(text_string(&sentence), '\033'));
    ck_assert_uint_le(sentence.length, 600);
    free(hostile);
}
END_TEST

START_TEST(half_a_verdict_is_still_readable)
{
    OWNED(Json, json_free) *empty = json_make_object();
    SCOPED_TEXT text;
    const char *out = render(empty, &text);
    check_shape(out, REPORT_VERDICT_LINES);
    ck_assert_ptr_nonnull(strstr(out, "Live now:   nothing"));
    ck_assert_ptr_nonnull(strstr(out, "none was judged"));
}
END_TEST

START_TEST(separation_of_duty_that_is_off_is_said)
{
    OWNED(Json, json_free) *verdict = make_verdict("promoted", NULL, 11, 0);
    SCOPED_TEXT without, with;
    ck_assert_ptr_null(strstr(render(verdict, &without), "separation of duty"));
    json_put_bool(verdict, "duty_separated", false);
    const char *out = render(verdict, &with);
    check_shape(out, REPORT_VERDICT_LINES);
    ck_assert_ptr_nonnull(strstr(out, "separation of duty is off"));
}
END_TEST

START_TEST(figures_carry_bytes_seconds_and_what_is_not_a_number)
{
    OWNED(Json, json_free) *verdict = make_verdict("refused", "memory", 0, 0);
    Json *checks = json_make_array();
    Json *memory = make_check("memory", "fail", 24.96e9, 21.6e9, "too much"),
         *window = make_check("window", "pass", 12.5, 60, "");
    Json *quality = make_check("quality", "fail", 0, 0.001, "loss is not a number"),
         *fed = make_check("fed", "not_measured", NAN, NAN, "no steps");
    json_put_text(memory, "unit", "bytes");
    json_put_text(window, "unit", "s");
    json_put_text(quality, "value", "nan");
    json_add(checks, memory);
    json_add(checks, window);
    json_add(checks, quality);
    json_add(checks, fed);
    json_put(verdict, "checks", checks);
    SCOPED_TEXT text;
    const char *out = render(verdict, &text);
    ck_assert_ptr_nonnull(strstr(out, "value 24.96 GB, limit 21.6 GB"));
    ck_assert_ptr_nonnull(strstr(out, "12.5 s"));
    ck_assert_ptr_nonnull(strstr(out, "nan       0.001"));
    ck_assert_ptr_nonnull(strstr(out, "not_measured           -           -  no steps"));
}
END_TEST

START_TEST(the_sentence_says_outcome_check_reason_and_what_is_live)
{
    OWNED(Json, json_free) *verdict = make_verdict("refused", "overlap", 1, 1);
    SCOPED_TEXT text;
    text_init(&text, 8192);
    report_verdict_sentence(verdict, &text);
    ck_assert_str_eq(text_string(&text), "refused adult slot 2026-11-30: overlap: 31 % of copy time hidden, "
                                         "80 % wanted; live: adult-0123456789abcdef");
}
END_TEST

START_TEST(a_judgement_prints_every_reason_that_does_not_pass)
{
    OWNED(Json, json_free) *judgement = make_verdict("refuse", "overlap", 3, 2);
    SCOPED_TEXT text;
    text_init(&text, 1u << 20);
    report_judgement_text(judgement, &text);
    const char *out = text_string(&text);
    check_shape(out, 100);
    ck_assert_ptr_nonnull(strstr(out, "\nfed          31 % of copy time hidden, 80 % wanted\n"));
    ck_assert_ptr_nonnull(strstr(out, "Judgement:  refuse, decided by overlap: 31 % of copy"));
    ck_assert_ptr_null(strstr(out, "\nclosure"));
}
END_TEST

START_TEST(a_notice_that_waits_is_said_inside_the_24_lines)
{
    OWNED(Json, json_free) *verdict = make_verdict("refused", "overlap", 16, 16);
    Json *notices = json_make_object();
    json_put_integer(notices, "waiting", 2);
    json_put_text(notices, "problem", "host 'hooks.example.com' answered 503 to the notice");
    json_put(verdict, "notices", notices);
    SCOPED_TEXT text;
    text_init(&text, 100000);
    report_verdict_text(verdict, &text);
    size_t lines = 0;
    for (const char *c = text_string(&text); *c; c++)
        lines += *c == '\n';
    ck_assert_uint_le(lines, REPORT_VERDICT_LINES);
    ck_assert_msg(strstr(text_string(&text), "Note:       2 notices no receiver has taken yet: host") != NULL,
                  "%s", text_string(&text));
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("report_verdict");
    TCase *t = tcase_create("verdict");
    tcase_add_test(t, a_notice_that_waits_is_said_inside_the_24_lines);
    tcase_add_test(t, a_refusal_answers_the_questions_in_order);
    tcase_add_test(t, every_check_has_a_row_when_there_are_eleven);
    tcase_add_test(t, what_fails_never_folds);
    tcase_add_test(t, a_label_cannot_break_a_line_or_move_the_cursor);
    tcase_add_test(t, half_a_verdict_is_still_readable);
    tcase_add_test(t, separation_of_duty_that_is_off_is_said);
    tcase_add_test(t, figures_carry_bytes_seconds_and_what_is_not_a_number);
    tcase_add_test(t, the_sentence_says_outcome_check_reason_and_what_is_live);
    tcase_add_test(t, a_judgement_prints_every_reason_that_does_not_pass);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    SRunner *runner = srunner_create(suite());
    srunner_run_all(runner, CK_ENV);
    int bad = srunner_ntests_failed(runner);
    srunner_free(runner);
    return bad != 0;
}
