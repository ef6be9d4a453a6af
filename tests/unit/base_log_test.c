// base_log_test - one event, two targets with the same keys.
#include "support.h"

#include <fedgate/json.h>
#include <fedgate/log.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static char *folder;
static Clock *simulated;
static Log *log_made;
static FILE *stream;
static char *streamed;
static size_t streamed_size;

static void begin(void)
{
    int64_t wall_ns = 0;
    folder = support_folder_new();
    ck_assert(clock_parse("2026-11-30T02:14:07.512Z", &wall_ns));
    simulated = clock_simulated(wall_ns);
    log_made = log_new(simulated);
    stream = open_memstream(&streamed, &streamed_size);
    ck_assert(log_made && stream);
}

static void end(void)
{
    log_free(log_made);
    fclose(stream);
    free(streamed);
    clock_free(simulated);
    support_folder_remove(folder);
}

START_TEST(a_text_line_says_time_level_name_sentence_and_pairs)
{
    log_to_text(log_made, stream, LOG_INFO);
    log_set_identity(log_made, NULL, "adult-3f2a9c41d07be865");
    log_event(log_made, LOG_DEBUG, "below", "not shown");
    log_event(log_made, LOG_INFO, "gate.check", "overlap pass", LOG_FIELD_REAL("value", 0.87),
              LOG_FIELD_INTEGER("n", 20), LOG_FIELD_TEXT("by", "a b"), LOG_FIELD_TEXT("none", NULL));
    log_event(log_made, LOG_WARN, "plain", "no fields");
    ck_assert_str_eq(streamed,
                     "02:14:07.512 info  gate.check  overlap pass  value=0.87 n=20 by=\"a b\" none=\"\""
                     " version=adult-3f2a9c41d07be865\n"
                     "02:14:07.512 warn  plain  no fields  version=adult-3f2a9c41d07be865\n");
}
END_TEST

START_TEST(one_event_stays_one_line_whatever_is_in_it)
{
    log_to_text(log_made, stream, LOG_DEBUG);
    log_event(log_made, LOG_ERROR, "x", "two\nlines", LOG_FIELD_TEXT("k", "\x1b[31m\r\n"));
    ck_assert_str_eq(streamed, "02:14:07.512 error x  two\\x0alines  k=\\x1b[31m\\x0d\\x0a\n");
}
END_TEST

START_TEST(a_value_cannot_pass_for_a_pair)
{
    log_to_text(log_made, stream, LOG_DEBUG);
    log_event(log_made, LOG_ERROR, "x", "y", LOG_FIELD_TEXT("k", "a\" run=\"b"));
    ck_assert_str_eq(streamed, "02:14:07.512 error x  y  k=\"a\\\" run=\\\"b\"\n");
}
END_TEST

START_TEST(the_zone_of_the_owner_is_shown)
{
    log_to_text(log_made, stream, LOG_DEBUG);
    log_set_zone(log_made, "Europe/Berlin");
    log_event(log_made, LOG_INFO, "x", "y");
    ck_assert_str_eq(streamed, "03:14:07.512 info  x  y\n");
}
END_TEST

START_TEST(the_file_has_every_level_as_json_with_a_format)
{
    Error error = ERROR_INIT;
    const char *path = support_path(folder, "log.jsonl");
    ASSERT_OK(log_to_file(log_made, path, &error), &error);
    log_event(log_made, LOG_DEBUG, "a.b", "deep");
    log_set_identity(log_made, "0192-run", "v-1");
    log_set_identity(log_made, NULL, NULL);   // unchanged
    log_event(log_made, LOG_INFO, "c", "d", LOG_FIELD_REAL("bad", NAN), LOG_FIELD_INTEGER("n", 3),
              LOG_FIELD_TEXT("t", "x\ny"));
    SCOPED_TEXT text;
    text_init(&text, 10000);
    ck_assert_str_eq(
        support_read(path, &text),
        "{\"format\":1,\"time\":\"2026-11-30T02:14:07.512+00:00\",\"level\":\"debug\",\"event\":\"a.b\","
        "\"sentence\":\"deep\",\"run\":null,\"version\":null}\n"
        "{\"format\":1,\"time\":\"2026-11-30T02:14:07.512+00:00\",\"level\":\"info\",\"event\":\"c\","
        "\"sentence\":\"d\",\"bad\":\"nan\",\"n\":3,\"t\":\"x\\ny\",\"run\":\"0192-run\",\"version\":\"v-1\"}"
        "\n");
    // A second log appends; a folder or a link in the way is refused and the old file stays in use.
    ASSERT_FAILS(log_to_file(log_made, folder, &error), &error, ERROR_IO, "could not open log file");
    ASSERT_OK(log_to_file(log_made, path, &error), &error);
    log_event(log_made, LOG_INFO, "e", "f");
    size_t lines = 0;
    for (const char *at = support_read(path, &text); *at; at++)
        lines += *at == '\n';
    ck_assert_uint_eq(lines, 3);
}
END_TEST

static void *log_many(void *context)
{
    for (int i = 0; i < 200; i++)
        log_event(context, LOG_INFO, "thread", "a line that must stay whole", LOG_FIELD_INTEGER("i", i));
    return NULL;
}

START_TEST(lines_of_several_threads_stay_whole)
{
    Error error = ERROR_INIT;
    pthread_t threads[4];
    const char *path = support_path(folder, "log.jsonl");
    ASSERT_OK(log_to_file(log_made, path, &error), &error);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, log_many, log_made), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    SCOPED_TEXT text;
    text_init(&text, 1 << 20);
    support_read(path, &text);
    size_t lines = 0;
    char *state = NULL;
    for (char *line = strtok_r(text.data, "\n", &state); line; line = strtok_r(NULL, "\n", &state), lines++) {
        OWNED(Json, json_free) *record = json_parse(line, strlen(line), 4096, &error);
        ck_assert_msg(record != NULL, "%s in %s", error.message, line);
    }
    ck_assert_uint_eq(lines, 800);
}
END_TEST

START_TEST(no_log_and_no_target_are_fine)
{
    log_event(NULL, LOG_ERROR, "x", "y");
    log_event(log_made, LOG_ERROR, "x", "y");
    log_to_text(log_made, stream, LOG_DEBUG);
    log_to_text(log_made, NULL, LOG_DEBUG);
    log_event(log_made, LOG_ERROR, "x", "y");
    fflush(stream);
    ck_assert_uint_eq(streamed_size, 0);
    log_free(NULL);
    ck_assert_str_eq(log_level_name(LOG_WARN), "warn");
    ck_assert_str_eq(log_level_name((LogLevel)42), "error");
}
END_TEST

static Suite *suite(void)
{
    Suite *made = suite_create("base log");
    TCase *events = tcase_create("log");
    tcase_add_checked_fixture(events, begin, end);
    tcase_add_test(events, a_text_line_says_time_level_name_sentence_and_pairs);
    tcase_add_test(events, one_event_stays_one_line_whatever_is_in_it);
    tcase_add_test(events, a_value_cannot_pass_for_a_pair);
    tcase_add_test(events, the_zone_of_the_owner_is_shown);
    tcase_add_test(events, the_file_has_every_level_as_json_with_a_format);
    tcase_add_test(events, lines_of_several_threads_stay_whole);
    tcase_add_test(events, no_log_and_no_target_are_fine);
    suite_add_tcase(made, events);
    return made;
}

int main(void)
{
    SRunner *runner = srunner_create(suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
