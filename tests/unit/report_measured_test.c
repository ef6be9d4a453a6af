// report_measured - on what a night was measured and how much of it was seen: in the verdict, behind it, on
// the page and in the status line.
#include "support.h"
#include <fedgate/report.h>
#include <string.h>

typedef struct Case {
    const char *measured;   // JSON; "" none
    const char *line, *hidden, *status;   // "" not there
} Case;

static const Case cases[] = {
    {"{\"device\":\"NVIDIA H200\",\"source\":\"CUPTI activity\",\"resident\":false,\"windows\":12,"
     "\"steps_seen\":1200,\"steps_done\":26000,\"seen_ratio\":0.046153,\"hidden_ratio\":0.981,"
     "\"kernel_ratio\":0.9934}",
     "NVIDIA H200, CUPTI activity: 12 windows, 1200 of 26000 steps",
     "98.10 % of copy time is hidden; kernels run 99.34 % of the time, the ceiling",
     "; measured on NVIDIA H200"},
    {"{\"device\":\"cpu\",\"source\":\"cpu staging "
     "thread\",\"resident\":true,\"windows\":1,\"steps_seen\":344,"
     "\"steps_done\":344,\"seen_ratio\":1,\"kernel_ratio\":0.5}",
     "cpu, cpu staging thread: 1 window, 344 of 344 steps (100 %)", "nothing was copied; kernels run 50.00 %",
     "; measured on cpu"},
    {"{\"device\":\"cpu\"}", "cpu", "", "; measured on cpu"},   // refused before anything ran
    {"{\"device\":\"cpu\",\"source\":\"s\",\"seen_ratio\":\"nan\"}", "cpu, s", "", "; measured on cpu"},
    {"{\"windows\":3,\"seen_ratio\":1}", "", "", ""},
    {"7", "", "", ""},
    {"", "", "", ""},
};

static Json *make_verdict(const char *measured)
{
    SCOPED_TEXT text;
    text_init(&text, 10000);
    text_add_format(&text,
                    "{\"outcome\":\"promoted\",\"model\":\"m\",\"slot\":\"s\",\"reason\":\"good\",\"ended\":"
                    "\"2026-12-01T04:00:00.000+00:00\",\"checks\":[]%s%s}",
                    *measured ? ",\"measured\":" : "", measured);
    Error error = ERROR_INIT;
    Json *verdict = json_parse(text_string(&text), text.length, 10000, &error);
    ck_assert_msg(verdict != NULL, "%s", error.message);
    return verdict;
}

// Wrapped lines are one again; `words` "" may not be there in any form of `label`.
static void expect(const Text *text, const char *label, const char *words)
{
    SCOPED_TEXT flat;
    text_init(&flat, 1u << 20);
    for (const char *c = text_string(text); *c; c++)
        if (*c != '\n' && (*c != ' ' || (flat.length > 0 && flat.data[flat.length - 1] != ' ')))
            text_add_char(&flat, *c);
        else if (*c == '\n' && flat.length > 0 && flat.data[flat.length - 1] != ' ')
            text_add_char(&flat, ' ');
    const char *found = strstr(text_string(&flat), *words ? words : label);
    ck_assert_msg((found != NULL) == (*words != '\0'), "'%s' in:\n%s", *words ? words : label,
                  text_string(text));
}

START_TEST(the_device_and_what_was_seen_are_said)
{
    const Case *row = &cases[_i];
    OWNED(Json, json_free) *verdict = make_verdict(row->measured);
    SCOPED_TEXT text;
    text_init(&text, 1u << 20);
    report_verdict_text(verdict, &text);
    expect(&text, "Measured:", row->line);
    text_clear(&text);
    report_verdict_details(verdict, &text);
    expect(&text, "overlap", row->hidden);
    text_clear(&text);
    report_verdict_html(verdict, &text);
    expect(&text, "Measured on", row->line);
    expect(&text, "Overlap", row->hidden);
    text_clear(&text);
    ck_assert_int_eq(
        report_status(verdict, NULL, NULL, INT64_C(1796097600000000000), INT64_C(93600000000000), &text), 0);
    expect(&text, "measured on", row->status);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("report_measured");
    TCase *tests = tcase_create("measured");
    tcase_add_loop_test(tests, the_device_and_what_was_seen_are_said, 0, sizeof cases / sizeof cases[0]);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
