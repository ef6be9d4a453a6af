// report_html - the page of a verdict: valid, whole and alone whatever the verdict holds or lacks; its words
// are those of the text.
#include "support.h"
#include <ctype.h>
#include <fedgate/report.h>
#include <string.h>

static const char verdict_json[] =
    "{\"schema\":\"fedgate.verdict/1\",\"model\":\"adult\",\"slot\":\"2026-11-30\","
    "\"run\":\"0193a5b0-1111-7222-8333-444455556666\",\"version\":\"adult-3f2a9c41d07be865\","
    "\"outcome\":\"refused\",\"decided_by\":\"overlap\",\"reason\":\"31 % of copy time hidden, 80 % wanted\","
    "\"current\":{\"version\":\"adult-0123456789abcdef\",\"kind\":\"baseline\","
    "\"since\":\"2026-11-29T04:12:33.123+01:00\"},\"previous_good\":\"adult-fedcba9876543210\",\"checks\":["
    "{\"name\":\"overlap\",\"required\":true,\"outcome\":\"fail\",\"value\":0.31,\"limit\":0.8,\"unit\":"
    "\"ratio\","
    "\"n\":160,\"reason\":\"31 % of copy time hidden, 80 % wanted\",\"evidence\":\"timeline.json\"},"
    "{\"name\":\"memory\",\"required\":true,\"outcome\":\"pass\",\"value\":1234567,\"limit\":2e9,"
    "\"unit\":\"bytes\",\"n\":3,\"reason\":\"gr\\u00f6\\u00dfer\",\"evidence\":\"ledger.json\"},"
    "{\"name\":\"cost\",\"required\":false,\"outcome\":\"not_measured\",\"value\":\"nan\",\"limit\":null,"
    "\"unit\":\"\",\"n\":0,\"reason\":\"no price\",\"evidence\":\"\"},"
    "{\"name\":\"parity\",\"required\":true,\"outcome\":\"pass\",\"value\":4.87e-07,\"limit\":4e-06,"
    "\"unit\":\"relative\",\"n\":6,\"reason\":\"inside\",\"rungs\":[{\"rung\":\"reference\",\"number\":1,"
    "\"name\":\"error of a probe\",\"outcome\":\"pass\",\"worst\":\"below TF32\",\"at\":\"64x64x64\","
    "\"value\":4.87e-07,\"limit\":4e-06,\"bound\":\"at "
    "most\",\"unit\":\"relative\",\"source\":\"2^-18\",\"n\":6},"
    "{\"rung\":\"slices\",\"number\":6,\"name\":\"no slices are "
    "declared\",\"outcome\":\"not_applicable\"}]}],"
    "\"rubric\":{\"score\":0.96,\"required_met\":false,\"items\":[{\"name\":\"owner\",\"weight\":2,"
    "\"required\":true,\"met\":false,\"how\":\"option 'owner'\",\"why_not\":\"no owner is named\"}]},"
    "\"policy_digest\":\"aa11\",\"evidence_digest\":\"bb22\",\"verdict_digest\":\"cc33\","
    "\"next\":{\"who\":\"ML engineer\",\"command\":\"fedgate verdict latest --format json\"},"
    "\"started\":\"2026-11-30T01:00:00.000+01:00\",\"ended\":\"2026-11-30T03:12:01.000+01:00\","
    "\"deadline\":\"2026-11-30T06:00:00.000+01:00\",\"duty_separated\":false,"
    "\"notices\":{\"waiting\":2,\"problem\":\"refused: 503\"}}";

static Json *parse_verdict(void)
{
    Error error = ERROR_INIT;
    Json *verdict = json_parse(verdict_json, sizeof verdict_json - 1, sizeof verdict_json, &error);
    ck_assert_msg(verdict != NULL, "%s", error.message);
    return verdict;
}

static const char *render(const Json *verdict, Text *text)
{
    Error error = ERROR_INIT;
    text_init(text, 1u << 20);
    report_verdict_html(verdict, text);
    ASSERT_OK(text_ok(text, &error), &error);
    return text_string(text);
}

// -- a page is whole: tags balance, attributes are quoted, what is no tag is escaped, text holds no control
// byte

enum { DEEPEST = 16, NAME = 16 };

static const char *const references[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};

// One byte outside tags, or inside an attribute. No ck_assert for each: it writes to a file, also when it
// holds.
static void check_text(const char *c, const char *page)
{
    bool known = *c == '\n' || (!iscntrl((unsigned char)*c) && !strchr("<>\"'&", *c));
    for (size_t i = 0; *c == '&' && i < sizeof references / sizeof references[0]; i++)
        known = known || text_starts_with(c, references[i]);
    if (!known)
        ck_abort_msg("byte 0x%02x at '%.20s' in:\n%s", (unsigned char)*c, c, page);
}

// At '<'; returns behind '>'. Fills name, "/name" of an end.
static const char *read_tag(const char *c, char name[static NAME], const char *page)
{
    size_t length = 0;
    for (c++; length + 1 < NAME && (islower((unsigned char)*c) || isdigit((unsigned char)*c) || *c == '/');
         c++)
        name[length++] = *c;
    name[length] = '\0';
    if (length == 0)
        ck_abort_msg("a bare '<' before '%.20s' in:\n%s", c, page);
    while (*c == ' ') {
        for (c++; islower((unsigned char)*c) || *c == '-'; c++)
            ;
        if (!text_starts_with(c, "=\""))
            ck_abort_msg("an attribute without quotes at '%.20s' in:\n%s", c, page);
        for (c += 2; *c && *c != '"'; c++)
            check_text(c, page);
        c += *c == '"';
    }
    if (*c != '>')
        ck_abort_msg("a tag that does not end at '%.20s' in:\n%s", c, page);
    return c + 1;
}

static void check_page(const char *page)
{
    static const char doctype[] = "<!DOCTYPE html>\n";
    char open[DEEPEST][NAME] = {""}, name[NAME];
    size_t depth = 0, pages = 0;
    ck_assert_msg(text_starts_with(page, doctype), "%s", page);
    for (const char *c = page + sizeof doctype - 1; *c;) {
        if (*c != '<') {
            check_text(c++, page);
            continue;
        }
        c = read_tag(c, name, page);
        if (text_equal(name, "meta"))
            continue;
        if (name[0] != '/') {
            ck_assert_uint_lt(depth + 1, DEEPEST);
            pages += depth == 0;
            memcpy(open[++depth], name, NAME);
        } else if (depth == 0 || !text_equal(open[depth--], name + 1)) {
            ck_abort_msg("<%s> ends nothing before '%.20s' in:\n%s", name, c, page);
        }
    }
    ck_assert_uint_eq(depth, 0);
    ck_assert_uint_eq(pages, 1);
    ck_assert_msg(text_ends_with(page, "</html>\n"), "%s", page);
}

// -- the verdict with one value changed

typedef enum Change { REMOVED, TO_NULL, TO_TEXT, TO_NUMBER, TO_ARRAY, TO_OBJECT, CHANGES } Change;

static Json *changed(Change change)
{
    switch (change) {
    case TO_TEXT:
        return json_make_text("</td><script>alert(\"x\" + 'y')</script>&amp;\n\x1b[2J");
    case TO_NUMBER:
        return json_make_number(1e308);
    case TO_ARRAY: {
        Json *array = json_make_array();
        json_add(array, NULL);
        json_add_text(array, "<");
        return array;
    }
    case TO_OBJECT: {
        Json *object = json_make_object();
        json_put_text(object, "name", "<");
        return object;
    }
    default:
        return json_make_text(NULL);
    }
}

// A copy in which the `*left`-th value is changed; NULL stands for a removed one. `*left` is below 0 when it
// was reached.
static Json *copy_changed(const Json *value, Change change, int *left)
{
    if ((*left)-- == 0)
        return change == REMOVED ? NULL : changed(change);
    if (!json_is_object(value) && !json_is_array(value))
        return json_copy_deep(value);
    Json *copy = json_is_object(value) ? json_make_object() : json_make_array();
    for (size_t i = 0; i < json_count(value); i++) {
        const char *key = json_is_object(value) ? json_key_at(value, i) : NULL;
        bool removed = *left == 0 && change == REMOVED;
        Json *member = copy_changed(key ? json_get(value, key) : json_at(value, i), change, left);
        if (removed)
            continue;
        if (key)
            json_put(copy, key, member);
        else
            json_add(copy, member);
    }
    return copy;
}

START_TEST(a_page_is_whole_with_any_value_missing_or_of_another_kind)
{
    OWNED(Json, json_free) *verdict = parse_verdict();
    int values = 0;
    for (int left = -1; left < 0; values++) {
        left = values;
        OWNED(Json, json_free) *other = copy_changed(verdict, (Change)_i, &left);
        SCOPED_TEXT text;
        const char *page = render(other, &text);
        check_page(page);
        ck_assert_ptr_null(strstr(page, "<script"));
    }
    ck_assert_int_gt(values, 80);
}
END_TEST

// Every text in it becomes a hostile one.
static Json *copy_hostile(const Json *value, const char *hostile)
{
    if (json_is_text(value))
        return json_make_text(hostile);
    if (!json_is_object(value) && !json_is_array(value))
        return json_copy_deep(value);
    Json *copy = json_is_object(value) ? json_make_object() : json_make_array();
    for (size_t i = 0; i < json_count(value); i++) {
        const char *key = json_is_object(value) ? json_key_at(value, i) : NULL;
        if (key)
            json_put(copy, key, copy_hostile(json_get(value, key), hostile));
        else
            json_add(copy, copy_hostile(json_at(value, i), hostile));
    }
    return copy;
}

static const char *const hostile_texts[] = {
    "<script>alert(1)</script>",
    "\" onmouseover=\"alert(1)\" x=\"",
    "' onmouseover='alert(1)",
    "</title></style></td></dd></table></main></body></html><!-- <![CDATA[",
    "&lt;b&gt; &#60;b&#62; & &;",
    "\x01\x1b[2J\x7f\r\t\n\xc2\x85",
    "\xff<\xc3",
    "a\xe2\x80\xae"
    "b\xe2\x81\xa6"
    "c\xd8\x9c"
    "d\xe2\x80\xa8",
    "",
};

START_TEST(no_text_of_a_verdict_becomes_markup)
{
    OWNED(Json, json_free) *verdict = parse_verdict();
    OWNED(Json, json_free) *hostile = copy_hostile(verdict, hostile_texts[_i]);
    SCOPED_TEXT text;
    const char *page = render(hostile, &text);
    check_page(page);
    static const char *const never[] = {"<script",  "<b>",      "<!--",    "\xe2\x80",
                                        "\xe2\x81", "\xd8\x9c", "\xc2\x85"};
    for (size_t i = 0; i < sizeof never / sizeof never[0]; i++)
        ck_assert_msg(strstr(page, never[i]) == NULL, "'%s' in:\n%s", never[i], page);
    ck_assert_ptr_null(strstr(strstr(page, "<body>"), "<style"));
}
END_TEST

START_TEST(what_was_escaped_reads_as_it_was)
{
    OWNED(Json, json_free) *verdict = parse_verdict();
    json_put_text(verdict, "reason",
                  "a<b && \"c\" > 'd'\ngr\xc3\xb6\xc3\x9f"
                  "er\x1b");
    SCOPED_TEXT text;
    ck_assert_ptr_nonnull(strstr(render(verdict, &text),
                                 "<dd>a&lt;b &amp;&amp; &quot;c&quot; &gt; &#39;d&#39; "
                                 "gr\xc3\xb6\xc3\x9f"
                                 "er\\x1b</dd>"));
}
END_TEST

START_TEST(a_refusal_answers_the_questions_in_order)
{
    OWNED(Json, json_free) *verdict = parse_verdict();
    SCOPED_TEXT text, again;
    const char *page = render(verdict, &text);
    check_page(page);
    static const char *const order[] = {
        "<h1 class=\"doubt\">REFUSED  adult  slot 2026-11-30</h1>",
        "<dt>Live now</dt>\n<dd>adult-0123456789abcdef (baseline) since 2026-11-29 04:12 +01:00</dd>",
        "<dt>Last good</dt>\n<dd>adult-fedcba9876543210</dd>",
        "<dt>Decided by</dt>\n<dd>overlap fail, value 0.31, limit 0.8 ratio, n 160</dd>",
        "<dt>Because</dt>\n<dd>31 % of copy time hidden, 80 % wanted</dd>",
        "separation of duty is off",
        "2 notices no receiver has taken yet: refused: 503",
        "<dt>Next</dt>\n<dd>ML engineer: <code>fedgate verdict latest --format json</code></dd>",
        "<h2>Checks</h2>\n<div class=\"wide\"",
        "<tr class=\"bad\"><td>overlap</td><td>yes</td><td>fail</td><td class=\"figure\">0.31</td>",
        "<tr><td>memory</td><td>yes</td><td>pass</td><td class=\"figure\">1.235 MB</td><td "
        "class=\"figure\">2 GB</td>",
        "<tr class=\"doubt\"><td>cost</td><td>no</td><td>not_measured</td><td class=\"figure\">nan</td>"
        "<td class=\"figure\">-</td><td>-</td><td class=\"figure\">0</td><td class=\"words\">no "
        "price</td></tr>",
        "aria-label=\"parity, worst case of each bar beside the bar\"",
        "<tr><td class=\"figure\">1</td><td class=\"words\">error of a probe</td><td class=\"words\">below "
        "TF32, "
        "64x64x64</td><td class=\"figure\">4.87e-07</td><td class=\"figure\">&lt;= "
        "4e-06</td><td>relative</td>"
        "<td class=\"words\">2^-18</td><td>pass</td></tr>",
        "no slices are declared",
        "<h2>rubric, score 0.96, required items not all met</h2>",
        "<tr class=\"bad\"><td class=\"figure\">2</td><td class=\"words\">owner</td><td>yes</td><td>no</td>",
        "<td class=\"words\">option &#39;owner&#39;</td><td class=\"words\">no owner is named</td>",
        "<dt>Candidate</dt>\n<dd>adult-3f2a9c41d07be865</dd>",
        "<dt>Run</dt>\n<dd>0193a5b0-1111-7222-8333-444455556666</dd>",
        "<dt>Started</dt>\n<dd>2026-11-30 01:00 +01:00</dd>",
        "<dt>Deadline</dt>\n<dd>2026-11-30 06:00 +01:00</dd>",
        "<dd>aa11</dd>",
        "<dd>bb22</dd>",
        "<dd>cc33</dd>"};
    const char *from = page;
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        const char *found = strstr(from, order[i]);
        ck_assert_msg(found != NULL, "'%s' is missing or too early in:\n%s", order[i], page);
        from = found;
    }
    ck_assert_str_eq(page, render(verdict, &again));
}
END_TEST

START_TEST(a_page_needs_nothing_else)
{
    OWNED(Json, json_free) *verdict = parse_verdict();
    SCOPED_TEXT text;
    const char *page = render(verdict, &text);
    static const char *const outside[] = {"http",    "src=",    "href",  "url(",
                                          "@import", "<script", "<link", "on="};
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++)
        ck_assert_msg(strstr(page, outside[i]) == NULL, "'%s' in:\n%s", outside[i], page);
    ck_assert_ptr_nonnull(strstr(page, "prefers-color-scheme: dark"));
    ck_assert_ptr_nonnull(strstr(page, "name=\"viewport\""));
}
END_TEST

START_TEST(nothing_at_all_is_still_a_page)
{
    OWNED(Json, json_free) *empty = _i == 0 ? NULL : _i == 1 ? json_make_text(NULL) : json_make_object();
    SCOPED_TEXT text;
    const char *page = render(empty, &text);
    check_page(page);
    static const char *const words[] = {"<h1 class=\"bad\">NO OUTCOME  ?  slot ?</h1>", "<dd>nothing</dd>",
                                        "none was judged", "nobody: <code>nothing to do</code>"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        ck_assert_msg(strstr(page, words[i]) != NULL, "'%s' is missing in:\n%s", words[i], page);
    ck_assert_ptr_null(strstr(page, "<table"));
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("report_html");
    TCase *t = tcase_create("html");
    tcase_add_test(t, a_refusal_answers_the_questions_in_order);
    tcase_add_test(t, a_page_needs_nothing_else);
    tcase_add_test(t, what_was_escaped_reads_as_it_was);
    tcase_add_loop_test(t, no_text_of_a_verdict_becomes_markup, 0,
                        (int)(sizeof hostile_texts / sizeof hostile_texts[0]));
    tcase_add_loop_test(t, a_page_is_whole_with_any_value_missing_or_of_another_kind, 0, CHANGES);
    tcase_add_loop_test(t, nothing_at_all_is_still_a_page, 0, 3);
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
