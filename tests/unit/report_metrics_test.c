// report_metrics_test - the textfile of a night by its format: names, headers once, no series twice, no NaN.
#include "support.h"

#include <ctype.h>
#include <fedgate/report.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const words[] = {"promoted", "passed",       "refused", "inconclusive",
                                    "reverted", "inconsistent", "failed",  NULL};

static void add_check(Json *checks, const char *name, const char *outcome, double value, const char *unit)
{
    Json *check = json_make_object();
    json_put_text(check, "name", name);
    json_put_bool(check, "required", strcmp(name, "cost") != 0);
    json_put_text(check, "outcome", outcome);
    json_put_number(check, "value", value);
    json_put_number(check, "limit", 0.8);
    json_put_text(check, "unit", unit);
    json_add(checks, check);
}

static Json *make_verdict(const char *model)
{
    Json *verdict = json_make_object(), *checks = json_make_array(), *current = json_make_object();
    json_put_text(verdict, "model", model);
    json_put_text(verdict, "outcome", "refused");
    json_put_integer(verdict, "exit", 10);
    json_put_text(verdict, "started", "2026-11-30T01:00:00.000+01:00");
    json_put_text(verdict, "ended", "2026-11-30T03:12:01.250+01:00");
    json_put_text(verdict, "deadline", "2026-11-30T06:00:00.000+01:00");
    add_check(checks, "overlap", "fail", 0.31, "ratio");
    add_check(checks, "memory", "pass", 123456789, "bytes");
    add_check(checks, "parity", "not_applicable", (double)NAN, "");
    add_check(checks, "quality", "error", (double)INFINITY, "a \"quoted\"\\\nunit");
    add_check(checks, "cost", "not_measured", (double)NAN, "currency");
    json_put(verdict, "checks", checks);
    json_put_text(current, "version", "adult-0123456789abcdef");
    json_put_text(current, "kind", "release");
    json_put(verdict, "current", current);
    return verdict;
}

static Json *make_record(void)
{
    Json *record = json_make_object(), *seconds = json_make_object();
    json_put_number(seconds, "lock", 0.25);
    json_put_number(seconds, "train", 4000);
    json_put(record, "seconds", seconds);
    json_put_integer(record, "peak_bytes", 1000000);
    json_put_number(record, "throughput", 123456.5);
    json_put_number(record, "cost_per_sample", 1.25e-7);
    json_put_text(record, "cost_unit", "device second");
    return record;
}

// -- the format, by its own description: families whole, one header each, values after it

static bool is_metric_name(const char *name, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (!(islower((unsigned char)name[i]) || name[i] == '_' ||
              (i > 0 && isdigit((unsigned char)name[i]))))
            return false;
    return length > 0;
}

// Past the labels of a value line: name="value" pairs with the three escapes, the same name once.
static const char *skip_labels(const char *at)
{
    SCOPED_TEXT seen;
    text_init(&seen, 10000);
    ck_assert_int_eq(*at, '{');
    do {
        char key[64];
        size_t length = strspn(++at, "abcdefghijklmnopqrstuvwxyz_");
        ck_assert_msg(length > 0 && at[length] == '=' && at[length + 1] == '"', "label at '%s'", at);
        ck_assert(text_print(key, sizeof key, ",%.*s,", (int)length, at));
        ck_assert_msg(!strstr(text_string(&seen), key), "label %s twice", key);
        text_add(&seen, key);
        for (at += length + 2; *at != '"'; at++) {
            ck_assert_msg(*at != '\0' && *at != '\n', "a label without end");
            if (*at == '\\')
                ck_assert_msg(*++at == 'n' || *at == '"' || *at == '\\', "escape \\%c", *at);
        }
        at++;
    } while (*at == ',');
    ck_assert_int_eq(*at, '}');
    return at + 1;
}

static void check_value(const char *line, const char *family)
{
    size_t length = strcspn(line, "{ ");
    ck_assert_msg(is_metric_name(line, length) && strlen(family) == length &&
                      strncmp(line, family, length) == 0,
                  "'%s' outside its family '%s'", line, family);
    const char *number = skip_labels(line + length);
    double value;
    ck_assert_msg(*number == ' ' && text_to_double(number + 1, &value), "no finite value, or a time: '%s'",
                  line);
}

static size_t check_format(const Text *metrics)
{
    SCOPED_TEXT series;
    text_init(&series, 1u << 20);
    char *copy = text_duplicate(text_string(metrics)), *rest = copy;
    ck_assert_ptr_nonnull(copy);
    ck_assert_msg(text_ends_with(copy, "\n"), "no newline at the end");
    char family[128] = "";
    size_t values = 0;
    while (*rest) {
        char *line = rest, *end = strchr(rest, '\n'), name[128], head[160];
        *end = '\0';
        rest = end + 1;
        if (text_starts_with(line, "# HELP ")) {
            ck_assert_int_eq(sscanf(line, "# HELP %127s", name), 1);
            ck_assert(text_print(head, sizeof head, "\nH %s\n", name));
            ck_assert_msg(!strstr(text_string(&series), head), "family %s twice", name);
            text_add(&series, head);
            ck_assert_msg(is_metric_name(name, strlen(name)) && text_starts_with(name, "fedgate_") &&
                              strlen(line) > strlen(name) + 9,
                          "%s", line);
            ck_assert(text_copy(family, sizeof family, name));
            ck_assert(text_print(head, sizeof head, "# TYPE %s gauge\n", name));
            ck_assert_msg(text_starts_with(rest, head), "no TYPE after '%s'", line);
            rest += strlen(head);
            continue;
        }
        check_value(line, family);
        *strrchr(line, ' ') = '\0';
        SCOPED_TEXT key;
        text_init(&key, 4096);
        text_add_format(&key, "\nS %s\n", line);
        ck_assert_msg(!strstr(text_string(&series), text_string(&key)), "series %s twice", line);
        text_add(&series, text_string(&key));
        values++;
    }
    free(copy);
    return values;
}

static void expect_line(const Text *metrics, const char *line)
{
    ck_assert_msg(strstr(text_string(metrics), line) != NULL, "no '%s' in\n%.3000s", line,
                  text_string(metrics));
}

static void make_metrics(const char *model, const Json *record, Text *out)
{
    OWNED(Json, json_free) *verdict = make_verdict(model);
    const ReportNight night = {words, record, .held = true, .rows = 100, .acknowledged = 99, .waiting = 2};
    text_init(out, 1u << 20);
    report_metrics(verdict, &night, out);
    ck_assert(!out->failed);
}

START_TEST(a_nights_end_is_clean_and_whole)
{
    SCOPED_TEXT out;
    OWNED(Json, json_free) *record = make_record();
    make_metrics("adult", record, &out);
    check_format(&out);
    static const char *const lines[] = {
        "\nfedgate_night_outcome{model=\"adult\",outcome=\"refused\"} 1\n",
        "\nfedgate_night_outcome{model=\"adult\",outcome=\"promoted\"} 0\n",
        "\nfedgate_night_exit_code{model=\"adult\"} 10\n",
        "\nfedgate_night_end_timestamp_seconds{model=\"adult\"} 1796004721.25\n",
        "\nfedgate_night_duration_seconds{model=\"adult\"} 7921.25\n",
        "\nfedgate_night_step_duration_seconds{model=\"adult\",step=\"train\"} 4000\n",
        "\nfedgate_check_passed{model=\"adult\",check=\"overlap\",required=\"true\"} 0\n",
        "\nfedgate_check_passed{model=\"adult\",check=\"memory\",required=\"true\"} 1\n",
        "\nfedgate_check_passed{model=\"adult\",check=\"cost\",required=\"false\"} 0\n",
        "\nfedgate_check_value{model=\"adult\",check=\"overlap\",unit=\"ratio\"} 0.31\n",
        "\nfedgate_check_limit{model=\"adult\",check=\"quality\",unit=\"a \\\"quoted\\\"\\\\\\nunit\"} 0.8\n",
        "\nfedgate_device_memory_peak_bytes{model=\"adult\"} 1000000\n",
        "\nfedgate_training_samples_per_second{model=\"adult\"} 123456.5\n",
        "\nfedgate_training_cost_per_sample{model=\"adult\",unit=\"device second\"} 1.25e-07\n",
        "\nfedgate_live_info{model=\"adult\",version=\"adult-0123456789abcdef\",kind=\"release\"} 1\n",
        "\nfedgate_hold{model=\"adult\"} 1\n",
        "\nfedgate_telemetry_acknowledged_rows{model=\"adult\"} 99\n",
        "\nfedgate_outbox_notices{model=\"adult\",state=\"waiting\"} 2\n",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        expect_line(&out, lines[i]);
    // What is not finite or did not apply is left out, and nothing else.
    ck_assert_ptr_null(strstr(text_string(&out), "check_passed{model=\"adult\",check=\"parity\""));
    ck_assert_ptr_null(strstr(text_string(&out), "check_value{model=\"adult\",check=\"quality\""));
    ck_assert_ptr_null(strstr(text_string(&out), "check_value{model=\"adult\",check=\"parity\""));
}
END_TEST

START_TEST(a_night_that_never_trained_leaves_out_what_nobody_measured)
{
    SCOPED_TEXT out;
    OWNED(Json, json_free) *verdict = json_make_object(), *record = json_make_object();
    json_put_text(verdict, "model", "adult");
    json_put_text(verdict, "outcome", "failed");
    json_put_integer(record, "peak_bytes", 0);
    json_put_number(record, "throughput", 0);
    json_put_number(record, "cost_per_sample", (double)NAN);
    const ReportNight night = {words, record, false, -1, -1, -1, -1};
    text_init(&out, 1u << 20);
    report_metrics(verdict, &night, &out);
    ck_assert_uint_eq(check_format(&out), 8);   // seven outcomes and the hold
    expect_line(&out, "fedgate_night_outcome{model=\"adult\",outcome=\"failed\"} 1\n");
}
END_TEST

START_TEST(labels_cannot_break_out)
{
    SCOPED_TEXT out;
    make_metrics("a\"} 1\n# HELP x\\", NULL, &out);
    check_format(&out);
    expect_line(&out, "model=\"a\\\"} 1\\n# HELP x\\\\\"");
}
END_TEST

START_TEST(promtool_finds_nothing)
{
    char *folder = support_folder_new();
    const char *path = support_path(folder, "metrics.prom");
    OWNED(Json, json_free) *record = make_record();
    SCOPED_TEXT out;
    make_metrics("adult", record, &out);
    support_write(path, text_string(&out));
    support_check_metrics(path);
    support_folder_remove(folder);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("report_metrics");
    TCase *part = tcase_create("metrics");
    tcase_add_test(part, a_nights_end_is_clean_and_whole);
    tcase_add_test(part, a_night_that_never_trained_leaves_out_what_nobody_measured);
    tcase_add_test(part, labels_cannot_break_out);
    tcase_add_test(part, promtool_finds_nothing);
    suite_add_tcase(suite, part);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
