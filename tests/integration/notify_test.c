// notify_test - whole nights and who hears of them: posts, what waits, the metrics file; nothing of it
// decides.
//
// The program is the fault build on the simulated clock; the receiver is a thread of the test. All nights
// share one home, each with slots of its own; they are refused by their plan or fail at their data where the
// end alone matters, so that they last no training.
#include "loopback.h"

#include <errno.h>
#include <fedgate/file.h>
#include <fedgate/json.h>
#include <fedgate/process.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MODEL        "clock.model=1"
#define REFUSED      "--set", "device.memory=1MB"
#define SOURCE(path) FEDGATE_SOURCE_DIR "/" path

static const char secret[] = "a-key-of-the-integration-test";

static char *folder;   // of all tests
static char home[512];

typedef struct World {
    Loopback *server;
    Text head, body;
    SupportRun run;
} World;

static const char *in_home(const char *name)
{
    return support_path(home, name);
}

static void set(const char *option, const char *value)
{
    ck_assert_int_eq(setenv(option, value, 1), 0);
}

static void fedgate(World *w, const char *faults, const char *const *arguments)
{
    const char *all[24] = {NULL};
    size_t n = 0;
    for (; arguments[n] != NULL; n++)
        all[n] = arguments[n];
    all[n++] = "--home";
    all[n++] = home;
    support_run_done(&w->run);
    set("FEDGATE_FAULT", faults);
    support_run(all, &w->run);
}
#define FEDGATE(w, faults, ...) fedgate((w), (faults), (const char *const[]){__VA_ARGS__, NULL})

static void notify_url(World *w)
{
    char url[256];
    loopback_url(w->server, "127.0.0.1", url);
    set("FEDGATE_SET_NOTIFY__URL", url);
}

static void restart(World *w, const LoopbackScript *script)
{
    loopback_stop(w->server);
    w->server = loopback_start(script);
    notify_url(w);
}

// The private cluster is most of the time a home takes.
static void make_home(void)
{
    Error error = ERROR_INIT;
    SupportRun run;
    folder = support_folder_new();
    ck_assert_int_eq(chmod(folder, 0755), 0);   // the private cluster may belong to a service account
    ck_assert(text_print(home, sizeof home, "%s/home", folder));
    const char *key = support_path(folder, "key");
    ASSERT_OK(file_write_new(key, secret, sizeof secret - 1, 0600, &error), &error);
    set("FEDGATE_SET_NOTIFY__SECRET_FILE", key);
    set("FEDGATE_SET_NOTIFY__TIMEOUT", "30s");
    set("FEDGATE_SET_DATA__DIRECTORY", SOURCE("fixtures/learnable"));
    set("FEDGATE_SET_WINDOW__ZONE", "Europe/Berlin");
    SUPPORT_RUN(&run, "init", "--home", home, "--config", SOURCE("fixtures/configs/learnable_night.yaml"));
    ck_assert_msg(run.exit_code == 0, "init: %s", text_string(&run.errors));
    support_run_done(&run);
}

static void remove_home(void)
{
    support_folder_remove(folder);
}

static void begin(World *w, const LoopbackScript *script)
{
    *w = (World){.server = loopback_start(script)};
    text_init(&w->head, LOOPBACK_BYTES);
    text_init(&w->body, LOOPBACK_BYTES);
    notify_url(w);
}

static void end(World *w)
{
    support_run_done(&w->run);
    loopback_stop(w->server);
    text_done(&w->head);
    text_done(&w->body);
}

static void expect(const World *w, int code, const char *outcome)
{
    Error error = ERROR_INIT;
    OWNED(Json, json_free) *verdict = json_read_file(in_home("last-verdict.json"), 1 << 20, &error);
    ck_assert_msg(verdict != NULL, "%s", error.message);
    const char *seen = json_text_or(json_get(verdict, "outcome"), "");
    ck_assert_msg(w->run.exit_code == code && strcmp(seen, outcome) == 0, "code %d, outcome %s: %s\n%.1500s",
                  w->run.exit_code, seen, json_text_or(json_get(verdict, "reason"), ""),
                  text_string(&w->run.errors));
}

static size_t count_files(const char *name)
{
    FileList list = {0};
    Error error = ERROR_INIT;
    if (!file_exists(in_home(name)))
        return 0;
    ASSERT_OK(file_list(in_home(name), &list, &error), &error);
    size_t count = list.count;
    file_list_done(&list);
    return count;
}

// The post is whole: signed over time and body, of a run this home has, with an id that says which.
static Json *check_post(World *w, size_t index, const char *outcome)
{
    char id[256], timestamp[256], signature[256], own[80];
    loopback_request(w->server, index, &w->head, &w->body);
    loopback_header(&w->head, "Fedgate-Event", id);
    loopback_header(&w->head, "Fedgate-Timestamp", timestamp);
    loopback_header(&w->head, "Fedgate-Signature", signature);
    loopback_signature(secret, sizeof secret - 1, timestamp, text_string(&w->body), own);
    ck_assert_str_eq(signature, own);
    Error error = ERROR_INIT;
    Json *notice = json_parse(text_string(&w->body), w->body.length, LOOPBACK_BYTES, &error);
    ck_assert_msg(notice != NULL, "%s", error.message);
    ck_assert_str_eq(json_text_or(json_get(notice, "schema"), ""), "fedgate.notice/1");
    ck_assert_str_eq(json_text_or(json_get(notice, "id"), ""), id);
    ck_assert_str_eq(json_text_or(json_get(notice, "outcome"), ""), outcome);
    ck_assert_str_eq(json_text_or(json_get(notice, "model"), ""), "learnable");
    const char *run = json_text_or(json_get(notice, "run"), "?");
    ck_assert(text_starts_with(id, run) && strstr(id, outcome) != NULL);
    ck_assert(file_is_directory(support_path(in_home("runs"), run)));
    ck_assert(json_get(notice, "decided_by") && json_get(notice, "version") &&
              json_get(notice, "previous_good") && json_is_text(json_get(notice, "slot")) &&
              json_is_text(json_find(notice, "next.command")) && json_is_text(json_get(notice, "reason")) &&
              json_is_text(json_get(notice, "deadline")) && json_is_text(json_get(notice, "ended")));
    // Nothing of the host.
    static const char *const never[] = {FEDGATE_SOURCE_DIR, secret, "path-token"};
    for (size_t i = 0; i < sizeof never / sizeof never[0]; i++)
        ck_assert_msg(!strstr(text_string(&w->body), never[i]), "%s", text_string(&w->body));
    ck_assert_msg(!strstr(text_string(&w->body), folder), "%s", text_string(&w->body));
    return notice;
}

static void expect_metric(const char *line)
{
    SCOPED_TEXT text;
    text_init(&text, 1 << 20);
    support_read(in_home("metrics.prom"), &text);
    ck_assert_msg(strstr(text_string(&text), line) != NULL, "no '%s' in\n%.3000s", line, text_string(&text));
    support_check_metrics(in_home("metrics.prom"));
}

static const LoopbackScript good = {.answer = LOOPBACK_STATUS("200 OK")};

START_TEST(a_refused_night_is_posted_once_and_its_judged_slot_not_again)
{
    World w;
    begin(&w, &(LoopbackScript){.tls = LOOPBACK_TLS, .answer = LOOPBACK_STATUS("204 No Content")});
    const char *ca = support_path(folder, "ca.pem");
    loopback_save_ca(w.server, ca);
    set("FEDGATE_SET_NOTIFY__CA_FILE", ca);
    FEDGATE(&w, MODEL, "run", "--slot", "told", REFUSED);
    expect(&w, 10, "refused");
    ck_assert_uint_eq(loopback_count(w.server), 1);
    Json *notice = check_post(&w, 0, "refused");
    ck_assert_str_eq(json_text_or(json_get(notice, "decided_by"), ""), "memory");
    ck_assert_str_eq(json_text_or(json_find(notice, "current.kind"), ""), "baseline");
    json_free(notice);
    ck_assert_uint_eq(count_files("outbox"), 0);
    expect_metric("fedgate_night_outcome{model=\"learnable\",outcome=\"refused\"} 1\n");
    expect_metric("fedgate_outbox_notices{model=\"learnable\",state=\"waiting\"} 0\n");
    expect_metric("fedgate_check_passed{model=\"learnable\",check=\"memory\",required=\"true\"} 0\n");
    FEDGATE(&w, MODEL, "run", "--slot", "told", REFUSED);
    ck_assert_int_eq(w.run.exit_code, 10);
    ck_assert_uint_eq(loopback_count(w.server), 1);
    end(&w);
}
END_TEST

// Adds a byte to a file of the release that is live.
static void corrupt_live(void)
{
    const char *path = in_home("current/release/model.safetensors");
    ck_assert_int_eq(chmod(path, 0640), 0);
    FILE *file = fopen(path, "ab");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fputc('x', file), 'x');
    ck_assert_int_eq(fclose(file), 0);
}

START_TEST(a_promoted_night_is_not_posted_a_reverted_one_is)
{
    World w;
    begin(&w, &good);
    FEDGATE(&w, MODEL, "run", "--slot", "good-1");
    expect(&w, 0, "promoted");
    ck_assert_uint_eq(loopback_connections(w.server), 0);
    expect_metric("fedgate_night_outcome{model=\"learnable\",outcome=\"promoted\"} 1\n");
    expect_metric("fedgate_night_exit_code{model=\"learnable\"} 0\n");
    expect_metric(",kind=\"release\"} 1\n");
    expect_metric("fedgate_hold{model=\"learnable\"} 0\n");
    expect_metric("fedgate_training_samples_per_second{model=\"learnable\"} ");
    struct stat status;
    ck_assert(stat(in_home("metrics.prom"), &status) == 0 && (status.st_mode & 0777) == 0644);
    corrupt_live();
    FEDGATE(&w, MODEL, "run", "--slot", "good-2");
    expect(&w, 12, "reverted");
    ck_assert_uint_eq(loopback_count(w.server), 1);
    json_free(check_post(&w, 0, "reverted"));
    expect_metric("fedgate_night_outcome{model=\"learnable\",outcome=\"reverted\"} 1\n");
    end(&w);
}
END_TEST

START_TEST(a_silent_receiver_changes_nothing_and_the_next_night_delivers_the_same)
{
    World w;
    begin(&w, &(LoopbackScript){.answer = NULL});
    set("FEDGATE_SET_NOTIFY__TIMEOUT", "300ms");
    FEDGATE(&w, MODEL, "run", "--slot", "silent-1", REFUSED);
    expect(&w, 10, "refused");
    ck_assert_uint_eq(count_files("outbox"), 1);
    ck_assert_msg(strstr(text_string(&w.run.output), "1 notice no receiver has taken yet") != NULL, "%s",
                  text_string(&w.run.output));
    expect_metric("fedgate_outbox_notices{model=\"learnable\",state=\"waiting\"} 1\n");
    Json *first = check_post(&w, 0, "refused");
    SCOPED_TEXT body;
    text_init(&body, LOOPBACK_BYTES);
    text_add(&body, text_string(&w.body));
    FEDGATE(&w, "", "doctor");
    ck_assert_msg(strstr(text_string(&w.run.output), "outbox: 1 waiting, 0 refused") != NULL, "%s",
                  text_string(&w.run.output));
    set("FEDGATE_SET_NOTIFY__TIMEOUT", "30s");
    restart(&w, &good);
    FEDGATE(&w, MODEL, "run", "--slot", "silent-2", REFUSED);
    expect(&w, 10, "refused");
    ck_assert_uint_eq(loopback_count(w.server), 2);   // tonight's, then the one that waited
    json_free(check_post(&w, 0, "refused"));
    Json *again = check_post(&w, 1, "refused");
    ck_assert(json_same(first, again));
    ck_assert_str_eq(text_string(&w.body), text_string(&body));
    ck_assert_uint_eq(count_files("outbox"), 0);
    json_free(first);
    json_free(again);
    end(&w);
}
END_TEST

START_TEST(a_night_killed_before_the_post_has_its_verdict_and_is_told_of_by_the_next)
{
    World w;
    begin(&w, &good);
    FEDGATE(&w, MODEL ",notify.kill=1", "run", "--slot", "killed-1", REFUSED);
    ck_assert_int_eq(w.run.signal, 9);
    ck_assert_uint_eq(loopback_connections(w.server), 0);
    ck_assert_uint_eq(count_files("outbox"), 1);
    FEDGATE(&w, MODEL, "run", "--slot", "killed-1", REFUSED);   // judged: the verdict stands
    expect(&w, 10, "refused");
    FEDGATE(&w, MODEL, "run", "--slot", "killed-2", REFUSED);
    ck_assert_uint_eq(loopback_count(w.server), 2);
    Json *notice = check_post(&w, 1, "refused");
    ck_assert_str_eq(json_text_or(json_get(notice, "slot"), ""), "killed-1");
    json_free(notice);
    end(&w);
}
END_TEST

START_TEST(a_failed_night_is_told_without_its_paths_also_with_no_room_for_an_outbox)
{
    World w;
    begin(&w, &good);
    char missing[FILE_PATH_SIZE];
    ck_assert(text_print(missing, sizeof missing, "%s/no such folder", folder));
    set("FEDGATE_SET_DATA__DIRECTORY", missing);
    ck_assert(rmdir(in_home("outbox")) == 0 || errno == ENOENT);
    support_write(in_home("outbox"), "in the way");
    FEDGATE(&w, MODEL, "run", "--slot", "failed");
    expect(&w, w.run.exit_code, "failed");
    ck_assert_int_ge(w.run.exit_code, 64);
    ck_assert_uint_eq(loopback_count(w.server), 1);
    Json *notice = check_post(&w, 0, "failed");
    ck_assert_msg(strstr(json_text_or(json_get(notice, "reason"), ""), "'visits.csv'") != NULL, "%s",
                  json_text_or(json_get(notice, "reason"), ""));
    json_free(notice);
    expect_metric("fedgate_night_outcome{model=\"learnable\",outcome=\"failed\"} 1\n");
    ck_assert_int_eq(unlink(in_home("outbox")), 0);
    end(&w);
}
END_TEST

START_TEST(what_cannot_be_told_is_found_before_the_night)
{
    World w;
    begin(&w, &good);
    size_t runs = count_files("runs");
    ck_assert_int_eq(chmod(support_path(folder, "key"), 0644), 0);
    static const char *const commands[][2] = {{"run", NULL}, {"config", "check"}, {"doctor", NULL}};
    for (size_t i = 0; i < 3; i++) {
        fedgate(&w, "", (const char *const[]){commands[i][0], commands[i][1], NULL});
        ck_assert_msg(w.run.exit_code == 78, "%s ended %d: %s", commands[i][0], w.run.exit_code,
                      text_string(&w.run.errors));
        ck_assert_msg(strstr(text_string(&w.run.errors), "mode 0644") ||
                          strstr(text_string(&w.run.output), "mode 0644"),
                      "%s", text_string(&w.run.errors));
    }
    ck_assert_uint_eq(count_files("runs"), runs);
    ck_assert_uint_eq(loopback_connections(w.server), 0);
    ck_assert_int_eq(chmod(support_path(folder, "key"), 0600), 0);
    end(&w);
}
END_TEST

START_TEST(outcomes_that_are_not_asked_for_are_not_posted_and_metrics_go_where_they_are_wanted)
{
    World w;
    begin(&w, &good);
    char path[FILE_PATH_SIZE];
    ck_assert(text_print(path, sizeof path, "%s/textfile.prom", folder));
    (void)unlink(in_home("metrics.prom"));
    set("FEDGATE_SET_NOTIFY__ON", "reverted,inconsistent");
    set("FEDGATE_SET_NOTIFY__METRICS_FILE", path);
    FEDGATE(&w, MODEL, "run", "--slot", "other-1", REFUSED);
    expect(&w, 10, "refused");
    ck_assert_uint_eq(loopback_connections(w.server), 0);
    support_check_metrics(path);
    ck_assert(!file_exists(in_home("metrics.prom")));
    set("FEDGATE_SET_NOTIFY__METRICS_FILE", "/proc/no/such/place.prom");   // cannot be written: only said
    FEDGATE(&w, MODEL, "run", "--slot", "other-2", REFUSED);
    expect(&w, 10, "refused");
    end(&w);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("notify");
    TCase *part = tcase_create("nights");
    tcase_add_unchecked_fixture(part, make_home, remove_home);
    tcase_add_test(part, a_refused_night_is_posted_once_and_its_judged_slot_not_again);
    tcase_add_test(part, a_silent_receiver_changes_nothing_and_the_next_night_delivers_the_same);
    tcase_add_test(part, a_night_killed_before_the_post_has_its_verdict_and_is_told_of_by_the_next);
    tcase_add_test(part, a_failed_night_is_told_without_its_paths_also_with_no_room_for_an_outbox);
    tcase_add_test(part, what_cannot_be_told_is_found_before_the_night);
    tcase_add_test(part, outcomes_that_are_not_asked_for_are_not_posted_and_metrics_go_where_they_are_wanted);
    tcase_add_test(part, a_promoted_night_is_not_posted_a_reverted_one_is);
    suite_add_tcase(suite, part);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
