// remote_outbox_test - notices that wait: the same bytes until somebody takes them, bounded in count, age and
// time.
#include "loopback.h"

#include <fedgate/clock.h>
#include <fedgate/file.h>
#include <fedgate/process.h>
#include <fedgate/remote.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const int64_t second_ns = 1000000000;
static const char secret[] = "an-outbox-key-of-enough-bytes";

typedef struct World {
    char *folder, outbox[FILE_PATH_SIZE], url[256];
    Loopback *server;
    RemoteTarget target;
    OutboxResult result;
    Text report, head, body;
    Error error;
} World;

static void world_open(World *w, const LoopbackScript *script)
{
    *w = (World){.folder = support_folder_new(), .server = loopback_start(script), .error = ERROR_INIT};
    ASSERT_OK(file_join(w->outbox, w->folder, "outbox", &w->error), &w->error);
    loopback_url(w->server, "127.0.0.1", w->url);
    w->target = (RemoteTarget){.url = w->url, .ca_file = "", .timeout_ns = 30 * second_ns};
    memcpy(w->target.key, secret, sizeof secret - 1);
    w->target.key_length = sizeof secret - 1;
    text_init(&w->report, 100000);
    text_init(&w->head, LOOPBACK_BYTES);
    text_init(&w->body, LOOPBACK_BYTES);
}

static void world_close(World *w)
{
    loopback_stop(w->server);
    text_done(&w->report);
    text_done(&w->head);
    text_done(&w->body);
    support_folder_remove(w->folder);
}

static void put(World *w, const char *id, const char *body)
{
    ASSERT_OK(remote_outbox_put(w->outbox, id, body, &w->error), &w->error);
}

static void send_all(World *w, const char *first, Clock *clock)
{
    text_clear(&w->report);
    ASSERT_OK(remote_outbox_send(w->outbox, &w->target, first, clock, &w->result, &w->report, &w->error),
              &w->error);
}

// Sent, waiting, refused and dropped of the last call, and what is on disk.
static void expect(World *w, int sent, int waiting, int refused, int dropped)
{
    const OutboxResult *r = &w->result;
    ck_assert_msg(r->sent == sent && r->waiting == waiting && r->refused == refused && r->dropped == dropped,
                  "sent %d, waiting %d, refused %d, dropped %d: %s", r->sent, r->waiting, r->refused,
                  r->dropped, text_string(&w->report));
    int on_disk, kept;
    ASSERT_OK(remote_outbox_count(w->outbox, &on_disk, &kept, &w->error), &w->error);
    ck_assert_int_eq(on_disk, waiting);
}

static void expect_request(World *w, size_t index, const char *id, const char *body)
{
    char event[256], signature[256], timestamp[256], own[80];
    loopback_request(w->server, index, &w->head, &w->body);
    loopback_header(&w->head, "Fedgate-Event", event);
    ck_assert_str_eq(event, id);
    ck_assert_str_eq(text_string(&w->body), body);
    loopback_header(&w->head, "Fedgate-Timestamp", timestamp);
    loopback_header(&w->head, "Fedgate-Signature", signature);
    loopback_signature(secret, sizeof secret - 1, timestamp, body, own);
    ck_assert_str_eq(signature, own);
}

static const LoopbackScript good = {.answer = LOOPBACK_STATUS("200 OK")};

START_TEST(a_notice_that_was_not_taken_is_posted_again_with_the_same_id_and_bytes)
{
    World w;
    world_open(&w, &(LoopbackScript){.answer = LOOPBACK_STATUS("503 Busy")});
    static const char body[] = "{\"id\":\"n1\", \"reason\":\"\\u00e9 as it was\"}\n";
    put(&w, "n1", body);
    send_all(&w, "n1", clock_real());
    expect(&w, 0, 1, 0, 0);
    ck_assert_msg(strstr(w.result.problem, "answered 503") && strstr(text_string(&w.report), "'n1'"), "%s",
                  text_string(&w.report));
    loopback_answer(w.server, LOOPBACK_STATUS("204 Gone well"));
    send_all(&w, NULL, clock_real());
    expect(&w, 1, 0, 0, 0);
    ck_assert_str_eq(w.result.problem, "");
    ck_assert_str_eq(text_string(&w.report), "");
    ck_assert_uint_eq(loopback_count(w.server), 2);
    expect_request(&w, 0, "n1", body);
    expect_request(&w, 1, "n1", body);
    send_all(&w, NULL, clock_real());   // nothing is left
    expect(&w, 0, 0, 0, 0);
    ck_assert_uint_eq(loopback_count(w.server), 2);
    world_close(&w);
}
END_TEST

START_TEST(tonights_goes_first_and_then_the_oldest)
{
    World w;
    world_open(&w, &good);
    put(&w, "2-b", "b");
    put(&w, "1-a", "a");
    put(&w, "9-now", "now");
    support_write(support_path(w.outbox, "README"), "somebody's note");   // not ours: left alone
    support_write(support_path(w.outbox, ".tmp-x.json-1-1"), "torn");
    send_all(&w, "9-now", clock_real());
    expect(&w, 3, 0, 0, 0);
    expect_request(&w, 0, "9-now", "now");
    expect_request(&w, 1, "1-a", "a");
    expect_request(&w, 2, "2-b", "b");
    ck_assert(file_exists(support_path(w.outbox, "README")));
    world_close(&w);
}
END_TEST

START_TEST(what_the_receiver_will_never_take_is_kept_aside_and_does_not_block_others)
{
    static const char *const answers[] = {LOOPBACK_STATUS("400 Bad"), LOOPBACK_STATUS("401 Who"),
                                          "HTTP/1.1 302 Found\r\nLocation: https://127.0.0.1:1/\r\n\r\n"};
    World w;
    world_open(&w, &good);
    loopback_answer(w.server, answers[_i]);
    put(&w, "n1", "{}");
    put(&w, "n2", "{}");
    send_all(&w, "n2", clock_real());
    expect(&w, 0, 0, 2, 0);
    ck_assert(file_exists(support_path(w.outbox, "n1.refused.json")));
    ck_assert_msg(strstr(text_string(&w.report), "kept as 'n1.refused.json'") != NULL, "%s",
                  text_string(&w.report));
    loopback_answer(w.server, LOOPBACK_STATUS("200 OK"));
    send_all(&w, NULL, clock_real());   // never by itself
    expect(&w, 0, 0, 0, 0);
    ck_assert_int_eq(rename(support_path(w.outbox, "n1.refused.json"), support_path(w.outbox, "n1.json")), 0);
    send_all(&w, NULL, clock_real());   // but when a person says so
    expect(&w, 1, 0, 0, 0);
    world_close(&w);
}
END_TEST

START_TEST(without_any_answer_the_round_ends_and_everything_waits)
{
    World w;
    world_open(&w, &(LoopbackScript){.answer = NULL});
    w.target.timeout_ns = second_ns / 5;
    for (int i = 0; i < 5; i++) {
        char id[8];
        ck_assert(text_print(id, sizeof id, "n%d", i));
        put(&w, id, "{}");
    }
    send_all(&w, "n4", clock_real());
    expect(&w, 0, 5, 0, 0);
    ck_assert_uint_eq(loopback_count(w.server), 1);
    world_close(&w);
}
END_TEST

START_TEST(a_round_has_a_limit_of_posts_and_of_time)
{
    World w;
    world_open(&w, &(LoopbackScript){.answer = LOOPBACK_STATUS("500 Oops")});
    for (int i = 0; i < OUTBOX_ATTEMPTS + 3; i++) {
        char id[8];
        ck_assert(text_print(id, sizeof id, "n%02d", i));
        put(&w, id, "{}");
    }
    send_all(&w, NULL, clock_real());
    expect(&w, 0, OUTBOX_ATTEMPTS + 3, 0, 0);
    ck_assert_uint_eq(loopback_count(w.server), OUTBOX_ATTEMPTS);
    loopback_stop(w.server);
    w.server = loopback_start(
        &(LoopbackScript){.answer = "HTTP/1.1 500 Oops\r\n\r\nx", .drip_ns = 10000000});   // 0.22 s an answer
    loopback_url(w.server, "127.0.0.1", w.url);
    w.target.timeout_ns = second_ns * 3 / 10;
    send_all(&w, NULL, clock_real());
    ck_assert_uint_le(loopback_count(w.server), 5);   // three timeouts are 0.9 s
    expect(&w, 0, OUTBOX_ATTEMPTS + 3, 0, 0);
    world_close(&w);
}
END_TEST

START_TEST(what_is_too_old_or_too_many_is_dropped_and_said)
{
    World w;
    world_open(&w, &good);
    w.target.url = "";   // nowhere: nothing is posted, everything ages
    Clock *later = clock_simulated(clock_wall_ns(clock_real()) + (OUTBOX_DAYS + 1) * 86400 * second_ns);
    for (int i = 0; i < OUTBOX_MOST + 2; i++) {
        char id[8];
        ck_assert(text_print(id, sizeof id, "n%02d", i));
        put(&w, id, "{}");
    }
    support_write(support_path(w.outbox, "old.refused.json"), "{}");
    send_all(&w, NULL, clock_real());
    expect(&w, 0, OUTBOX_MOST, 0, 2);
    ck_assert(!file_exists(support_path(w.outbox, "n00.json")) &&
              !file_exists(support_path(w.outbox, "n01.json")) &&
              file_exists(support_path(w.outbox, "n02.json")));
    ck_assert_msg(strstr(text_string(&w.report), "notice 'n01' was dropped: more than 64"), "%s",
                  text_string(&w.report));
    send_all(&w, NULL, later);
    expect(&w, 0, 0, 0, OUTBOX_MOST + 1);
    ck_assert_msg(strstr(text_string(&w.report), "notice 'old' was dropped: nobody took it"), "%s",
                  text_string(&w.report));
    ck_assert_uint_eq(loopback_connections(w.server), 0);
    clock_free(later);
    world_close(&w);
}
END_TEST

START_TEST(a_missing_outbox_is_empty_and_an_unreadable_one_is_an_error)
{
    World w;
    world_open(&w, &good);
    send_all(&w, "n1", clock_real());   // `first` without a file: said, not fatal
    ck_assert_msg(strstr(text_string(&w.report), "could not open file"), "%s", text_string(&w.report));
    int waiting, refused;
    ASSERT_OK(remote_outbox_count(w.outbox, &waiting, &refused, &w.error), &w.error);
    ck_assert(waiting == 0 && refused == 0);
    support_write(w.outbox, "a file where the folder should be");
    ASSERT_FAILS(remote_outbox_put(w.outbox, "n1", "{}", &w.error), &w.error, ERROR_IO, "outbox");
    ASSERT_FAILS(remote_outbox_count(w.outbox, &waiting, &refused, &w.error), &w.error, ERROR_IO, "outbox");
    ASSERT_FAILS(remote_outbox_send(w.outbox, &w.target, NULL, clock_real(), &w.result, &w.report, &w.error),
                 &w.error, ERROR_IO, "outbox");
    ASSERT_FAILS(remote_outbox_put(w.outbox, "../n1", "{}", &w.error), &w.error, ERROR_INTERNAL, "a name");
    world_close(&w);
}
END_TEST

START_TEST(a_process_killed_between_writing_and_posting_leaves_a_whole_notice)
{
    World w;
    world_open(&w, &good);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        Error error = ERROR_INIT;
        _exit(remote_outbox_put(w.outbox, "n1", "{\"whole\":true}", &error) ? 42 : 1);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 42);
    send_all(&w, NULL, clock_real());
    expect(&w, 1, 0, 0, 0);
    expect_request(&w, 0, "n1", "{\"whole\":true}");
    world_close(&w);
}
END_TEST

// -- options

static Config *configure(const char *const *sets, size_t count)
{
    Error error = ERROR_INIT;
    Config *config = config_load(NULL, sets, count, NULL, &error);
    ck_assert_msg(config != NULL, "%s", error.message);
    return config;
}

// A file of `content` with this mode, as the option; the error's words, NULL: fine.
static void check_file(const char *option, const char *content, size_t length, mode_t mode, const char *words)
{
    char *folder = support_folder_new(), set[FILE_PATH_SIZE + 64];
    const char *path = support_path(folder, "file");
    Error error = ERROR_INIT;
    if (content)
        ASSERT_OK(file_write_new(path, content, length, mode, &error), &error);
    ck_assert(text_print(set, sizeof set, "%s=%s", option, path));
    OWNED(Config, config_free) *config =
        configure((const char *const[]){set, "notify.url=https://h.invalid/"}, 2);
    RemoteTarget target;
    if (words) {
        ASSERT_FAILS(remote_target_read(config, &target, &error), &error, ERROR_CONFIG, words);
        ck_assert(!remote_check_config(config, &error));
        ck_assert_msg(strstr(error.message, option) != NULL, "%s", error.message);
        ck_assert_msg(length == 0 || !strstr(error.message, content), "%s", error.message);
    } else {
        ASSERT_OK(remote_check_config(config, &error), &error);
        ASSERT_OK(remote_target_read(config, &target, &error), &error);
        ck_assert_str_eq(target.host, "h.invalid");
        remote_target_done(&target);
    }
    support_folder_remove(folder);
}

START_TEST(the_key_comes_from_a_closed_file_of_this_account)
{
    static const char option[] = "notify.secret_file";
    char large[REMOTE_KEY_MAX + 3];
    memset(large, 'k', sizeof large);
    check_file(option, secret, sizeof secret - 1, 0600, NULL);
    check_file(option, secret, sizeof secret - 1, 0400, NULL);
    check_file(option, "1234567890123456\n", 17, 0600, NULL);
    check_file(option, "123456789012345\n", 16, 0600, "key of 15 bytes");
    check_file(option, "", 0, 0600, "key of 0 bytes");
    check_file(option, large, REMOTE_KEY_MAX, 0600, NULL);
    large[REMOTE_KEY_MAX] = '\n';
    check_file(option, large, REMOTE_KEY_MAX + 1, 0600, NULL);
    large[REMOTE_KEY_MAX] = 'k';
    large[REMOTE_KEY_MAX + 2] = '\0';
    check_file(option, large, REMOTE_KEY_MAX + 1, 0600, "at least 4097 bytes");
    check_file(option, secret, sizeof secret - 1, 0640, "mode 0640");
    check_file(option, secret, sizeof secret - 1, 0604, "mode 0604");
    check_file(option, secret, sizeof secret - 1, 0620, "mode 0620");
    check_file(option, NULL, 0, 0, "could not open");
    Error error = ERROR_INIT;
    OWNED(Config, config_free) *folder = configure((const char *const[]){"notify.secret_file=/tmp"}, 1);
    ck_assert(!remote_check_config(folder, &error));
    support_check_error(&error, ERROR_CONFIG, "not a regular file", "folder as key");
}
END_TEST

START_TEST(a_key_file_of_another_account_is_not_used)
{
    if (process_uid() != 0)   // only root can give a file away
        return;
    char *folder = support_folder_new(), set[FILE_PATH_SIZE + 64];
    const char *path = support_path(folder, "key");
    Error error = ERROR_INIT;
    ASSERT_OK(file_write_new(path, secret, sizeof secret - 1, 0600, &error), &error);
    ck_assert_int_eq(chown(path, 12345, (gid_t)-1), 0);
    ck_assert(text_print(set, sizeof set, "notify.secret_file=%s", path));
    OWNED(Config, config_free) *config = configure((const char *const[]){set}, 1);
    ASSERT_FAILS(remote_check_config(config, &error), &error, ERROR_CONFIG, "belongs to account 12345");
    support_folder_remove(folder);
}
END_TEST

START_TEST(certificates_are_readable_pem)
{
    static const char option[] = "notify.ca_file", der[] = "0\202\001\n\002\202\001\001";
    Loopback *server = loopback_start(&(LoopbackScript){.tls = LOOPBACK_TLS});
    char *folder = support_folder_new();
    const char *path = support_path(folder, "ca.pem");
    loopback_save_ca(server, path);
    loopback_stop(server);
    SCOPED_TEXT pem;
    text_init(&pem, 100000);
    support_read(path, &pem);
    check_file(option, text_string(&pem), pem.length, 0644, NULL);
    check_file(option, der, sizeof der - 1, 0644, "no certificate in PEM");
    check_file(option, "", 0, 0644, "no certificate in PEM");
    check_file(option, NULL, 0, 0, "could not open");
    support_folder_remove(folder);
}
END_TEST

START_TEST(no_address_is_nowhere_and_a_bad_one_names_the_option)
{
    Error error = ERROR_INIT;
    RemoteTarget target;
    OWNED(Config, config_free) *none = configure(NULL, 0);
    ASSERT_OK(remote_target_read(none, &target, &error), &error);
    ck_assert(target.url[0] == '\0' && target.key_length == 0);
    OWNED(Config, config_free) *bad =
        configure((const char *const[]){"notify.url=http://example.com/tok"}, 1);
    ASSERT_FAILS(remote_check_config(bad, &error), &error, ERROR_CONFIG,
                 "--set: option 'notify.url': the address of host 'example.com' is not https");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("remote_outbox");
    TCase *part = tcase_create("outbox");
    tcase_add_test(part, a_notice_that_was_not_taken_is_posted_again_with_the_same_id_and_bytes);
    tcase_add_test(part, tonights_goes_first_and_then_the_oldest);
    tcase_add_loop_test(part, what_the_receiver_will_never_take_is_kept_aside_and_does_not_block_others, 0,
                        3);
    tcase_add_test(part, without_any_answer_the_round_ends_and_everything_waits);
    tcase_add_test(part, a_round_has_a_limit_of_posts_and_of_time);
    tcase_add_test(part, what_is_too_old_or_too_many_is_dropped_and_said);
    tcase_add_test(part, a_missing_outbox_is_empty_and_an_unreadable_one_is_an_error);
    tcase_add_test(part, a_process_killed_between_writing_and_posting_leaves_a_whole_notice);
    tcase_add_test(part, the_key_comes_from_a_closed_file_of_this_account);
    tcase_add_test(part, a_key_file_of_another_account_is_not_used);
    tcase_add_test(part, certificates_are_readable_pem);
    tcase_add_test(part, no_address_is_nowhere_and_a_bad_one_names_the_option);
    suite_add_tcase(suite, part);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
