// report_details - what stands behind a verdict: rungs with the worst case beside the bar, the rubric; and
// how the verdict's own table makes room.
#include "support.h"
#include <fedgate/report.h>
#include <math.h>
#include <string.h>

static Json *parse(const char *text)
{
    Error error = ERROR_INIT;
    Json *json = json_parse(text, strlen(text), 1u << 20, &error);
    ck_assert_msg(json != NULL, "%s", error.message);
    return json;
}

static const char *const verdict_text =
    "{\"checks\":[{\"name\":\"fed\",\"outcome\":\"pass\"},{\"name\":\"parity\",\"outcome\":\"fail\","
    "\"rungs\":["
    "{\"rung\":\"reference\",\"number\":1,\"name\":\"error of a "
    "probe\",\"outcome\":\"pass\",\"worst\":\"values below "
    "TF32 resolution\",\"at\":\"64x64x64\",\"value\":4.87e-07,\"limit\":4e-06,\"bound\":\"at "
    "most\",\"unit\":\"relative\","
    "\"n\":6},"
    "{\"rung\":\"gradients\",\"number\":3,\"name\":\"cosine of the "
    "gradient\",\"outcome\":\"fail\",\"worst\":\"layer.0\","
    "\"at\":\"\",\"value\":0.5,\"limit\":0.9931,\"bound\":\"at least\",\"unit\":\"\",\"n\":18},"
    "{\"rung\":\"metric\",\"number\":6,\"name\":\"2 pairs cannot "
    "tell\",\"outcome\":\"inconclusive\",\"value\":null,"
    "\"limit\":null,\"unit\":\"\",\"n\":2},"
    "{\"rung\":\"slices\",\"number\":6,\"name\":\"no slices are "
    "declared\",\"outcome\":\"not_applicable\",\"n\":0}]}],"
    "\"rubric\":{\"score\":0.96,\"required_met\":false,\"items\":["
    "{\"name\":\"named "
    "fallback\",\"weight\":4,\"required\":true,\"met\":true,\"how\":\"release-evidence.json\","
    "\"why_not\":null},"
    "{\"name\":\"owner\",\"weight\":2,\"required\":true,\"met\":false,\"how\":\"option "
    "'owner'\",\"why_not\":\"no owner is "
    "named\"}]}}";

static void check_width(const char *text)
{
    size_t column = 0;
    for (const char *c = text; *c; c++) {
        ck_assert_msg(*c == '\n' || (*c >= 0x20 && *c < 0x7f), "byte 0x%02x in: %s", (unsigned char)*c, text);
        column = *c == '\n' ? 0 : column + 1;
        ck_assert_msg(column <= REPORT_COLUMNS, "a line is wider than %d: %s", REPORT_COLUMNS, text);
    }
}

static void expect(const char *out, const char *const *lines, size_t count)
{
    for (size_t i = 0; i < count; i++)
        ck_assert_msg(strstr(out, lines[i]) != NULL, "'%s' is missing in:\n%s", lines[i], out);
}

START_TEST(the_worst_case_stands_beside_its_bar)
{
    OWNED(Json, json_free) *verdict = parse(verdict_text);
    SCOPED_TEXT text;
    text_init(&text, 1u << 20);
    report_verdict_details(verdict, &text);
    const char *out = text_string(&text);
    check_width(out);
    static const char *const lines[] = {
        "\nparity, worst case of each bar beside the bar\n",
        "\n  1   4.87e-07 <=     4e-06 relative       error of a probe: values below TF32\n",
        "  resolution, 64x64x64\n",
        "\n! 3        0.5 >=    0.9931                cosine of the gradient: layer.0\n",
        "\n! 6          -            -                2 pairs cannot tell\n",
        "\nrubric, score 0.96, required items not all met\n",
        "\n     4  named fallback (required): release-evidence.json\n",
        "\n!    2  owner (required): option 'owner'; not met: no owner is named\n",
    };
    expect(out, lines, sizeof lines / sizeof lines[0]);
    ck_assert_ptr_null(strstr(out, "no slices are declared"));   // what does not apply is not shown
    ck_assert_ptr_null(strstr(out, "\nfed"));
}
END_TEST

START_TEST(nothing_to_show_prints_nothing)
{
    static const char *const empty[] = {
        "{}",
        "{\"checks\":[{\"name\":\"fed\"}],\"rubric\":{\"score\":null,\"required_met\":null,\"items\":[]}}",
        "{\"checks\":[{\"name\":\"parity\",\"rungs\":[{\"outcome\":\"not_applicable\"}]}]}"};
    OWNED(Json, json_free) *verdict = parse(empty[_i]);
    SCOPED_TEXT text;
    text_init(&text, 1000);
    report_verdict_details(verdict, &text);
    ck_assert_str_eq(text_string(&text), "");
}
END_TEST

START_TEST(half_a_rung_is_still_readable)
{
    OWNED(Json, json_free) *verdict = parse("{\"checks\":[{\"rungs\":[{\"name\":\"gr\\u00f6\\u00df\\u001b[2J "
                                            "er\",\"unit\":\"a unit that is far too "
                                            "long for its column\"},{}]}],\"rubric\":{\"items\":[{}]}}");
    SCOPED_TEXT text;
    text_init(&text, 10000);
    report_verdict_details(verdict, &text);
    check_width(text_string(&text));
    ck_assert_ptr_null(strchr(text_string(&text), '\033'));
}
END_TEST

// -- the verdict's table

static Json *verdict_of(size_t passing, size_t failing)
{
    Json *verdict = json_make_object(), *checks = json_make_array();
    for (size_t i = 0; i < passing + failing; i++) {
        Json *check = json_make_object();
        SCOPED_TEXT name;
        text_init(&name, 100);
        text_add_format(&name, "%s%zu", i < passing ? "good" : "bad", i);
        json_put_text(check, "name", text_string(&name));
        json_put_bool(check, "required", true);
        json_put_text(check, "outcome", i < passing ? "pass" : "fail");
        json_add(checks, check);
    }
    json_put(verdict, "checks", checks);
    return verdict;
}

static const struct {
    size_t passing, failing, shown;   // passing checks with a row of their own
} tables[] = {{11, 0, 11}, {15, 0, 15}, {14, 1, 14}, {10, 5, 10}, {16, 3, 11}, {4, 14, 0}, {27, 3, 10}};

START_TEST(as_many_passing_checks_as_fit_keep_their_row)
{
    OWNED(Json, json_free) *verdict = verdict_of(tables[_i].passing, tables[_i].failing);
    SCOPED_TEXT text;
    text_init(&text, 1u << 20);
    report_verdict_text(verdict, &text);
    const char *out = text_string(&text);
    check_width(out);
    size_t lines = 0, good = 0, bad = 0;
    for (const char *c = out; *c; c++)
        lines += *c == '\n';
    for (const char *row = strstr(out, "\n  good"); row != NULL; row = strstr(row + 1, "\n  good"))
        good++;
    for (const char *row = strstr(out, "\n! bad"); row != NULL; row = strstr(row + 1, "\n! bad"))
        bad++;
    ck_assert_msg(lines <= REPORT_VERDICT_LINES, "%zu lines:\n%s", lines, out);
    ck_assert_msg(good == tables[_i].shown && bad == tables[_i].failing, "%zu good, %zu bad:\n%s", good, bad,
                  out);
    for (size_t i = 0; i < tables[_i].passing; i++) {   // the others are named
        SCOPED_TEXT name;
        text_init(&name, 100);
        text_add_format(&name, "good%zu", i);
        ck_assert_ptr_nonnull(strstr(out, text_string(&name)));
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("report_details");
    TCase *t = tcase_create("details");
    tcase_add_test(t, the_worst_case_stands_beside_its_bar);
    tcase_add_loop_test(t, nothing_to_show_prints_nothing, 0, 3);
    tcase_add_test(t, half_a_rung_is_still_readable);
    tcase_add_loop_test(t, as_many_passing_checks_as_fit_keep_their_row, 0,
                        (int)(sizeof tables / sizeof tables[0]));
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
