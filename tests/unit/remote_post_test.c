// remote_post_test - one post against a receiver on the loopback address: every answer and every fault of
// TLS.
#include "loopback.h"

#include <fedgate/clock.h>
#include <fedgate/remote.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char key[] = "0123456789abcdef0123456789abcdef";
static const char body[] = "{\"schema\":\"fedgate.notice/1\",\"reason\":\"a \\\"quoted\\\" one\"}";
static const int64_t second_ns = 1000000000;

static RemotePost make_post(const char *url)
{
    return (RemotePost){.url = url,
                        .body = body,
                        .id = "0192f4a0-0000-7000-8000-000000000001-refused-1790000000",
                        .key = key,
                        .key_length = sizeof key - 1,
                        .timeout_ns = 30 * second_ns,
                        .time_s = 1790000000};
}

// Neither path nor query of the address, nor the key, is in a message.
static void assert_discreet(const Error *error)
{
    static const char *const secrets[] = {"path-token", "query-token", "hook", key};
    for (size_t i = 0; i < sizeof secrets / sizeof secrets[0]; i++)
        ck_assert_msg(!strstr(error->message, secrets[i]) && !strstr(error->hint, secrets[i]), "%s; %s",
                      error->message, error->hint);
}

typedef struct Case {
    const char *name;
    LoopbackScript script;
    bool own_ca, taken;
    int status;
    bool again;
    const char *words, *hint;   // of the Error
    int64_t timeout_ns;   // 0: half a minute
} Case;

#define QUIET_REDIRECT(status)                                                                               \
    "HTTP/1.1 " status "\r\nLocation: http://127.0.0.1:1/other\r\nContent-Length: 0\r\n\r\n"

static const Case cases[] = {
    // -- answers
    {"200", {.answer = LOOPBACK_STATUS("200 OK")}, false, true, 200, false, "", "", 0},
    {"204", {.answer = LOOPBACK_STATUS("204 No Content")}, false, true, 204, false, "", "", 0},
    {"301",
     {.answer = QUIET_REDIRECT("301 Moved")},
     false,
     false,
     301,
     false,
     "answered 301",
     "Redirects",
     0},
    {"302",
     {.answer = QUIET_REDIRECT("302 Found")},
     false,
     false,
     302,
     false,
     "answered 302",
     "Redirects",
     0},
    {"307", {.answer = QUIET_REDIRECT("307 Hm")}, false, false, 307, false, "answered 307", "Redirects", 0},
    {"400", {.answer = LOOPBACK_STATUS("400 Bad")}, false, false, 400, false, "answered 400", "will not", 0},
    {"401", {.answer = LOOPBACK_STATUS("401 Who")}, false, false, 401, false, "answered 401", "key", 0},
    {"404",
     {.answer = LOOPBACK_STATUS("404 None")},
     false,
     false,
     404,
     false,
     "answered 404",
     "notify.url",
     0},
    {"408", {.answer = LOOPBACK_STATUS("408 Slow")}, false, false, 408, true, "answered 408", "again", 0},
    {"425", {.answer = LOOPBACK_STATUS("425 Early")}, false, false, 425, true, "answered 425", "again", 0},
    {"429", {.answer = LOOPBACK_STATUS("429 Many")}, false, false, 429, true, "answered 429", "fewer", 0},
    {"500", {.answer = LOOPBACK_STATUS("500 Oops")}, false, false, 500, true, "answered 500", "again", 0},
    {"503", {.answer = LOOPBACK_STATUS("503 Busy")}, false, false, 503, true, "answered 503", "again", 0},
    // -- no answer worth the name
    {"silence", {.answer = NULL}, false, false, 0, true, "timed out", "notify.timeout", 300000000},
    {"slow drip",
     {.answer = LOOPBACK_STATUS("200 OK"), .drip_ns = 200000000},
     false,
     false,
     0,
     true,
     "timed out",
     "notify.timeout",
     500000000},
    {"hang up", {.hang_up = true}, false, false, 0, true, "could not post to host '127.0.0.1'", "", 0},
    {"not HTTP", {.answer = "SSH-2.0-OpenSSH_9.2\r\n"}, false, false, 0, true, "could not post", "", 0},
    {"only 100", {.answer = "HTTP/1.1 100 Continue\r\n\r\n"}, false, false, 0, true, "could not post", "", 0},
    // -- a status is the answer, whatever follows
    {"endless body",
     {.answer = "HTTP/1.1 200 OK\r\n\r\n", .endless = true},
     false,
     true,
     200,
     false,
     "",
     "",
     0},
    {"endless error",
     {.answer = "HTTP/1.1 500 Oops\r\n\r\n", .endless = true},
     false,
     false,
     500,
     true,
     "answered 500",
     "again",
     0},
    // -- TLS
    {"right CA",
     {.tls = LOOPBACK_TLS, .answer = LOOPBACK_STATUS("200 OK")},
     true,
     true,
     200,
     false,
     "",
     "",
     0},
    {"CA not known",
     {.tls = LOOPBACK_TLS, .answer = LOOPBACK_STATUS("200 OK")},
     false,
     false,
     0,
     true,
     "certificate",
     "notify.ca_file",
     0},
    {"other name",
     {.tls = LOOPBACK_TLS_OTHER_NAME, .answer = LOOPBACK_STATUS("200 OK")},
     true,
     false,
     0,
     true,
     "certificate",
     "notify.ca_file",
     0},
    {"expired",
     {.tls = LOOPBACK_TLS_EXPIRED, .answer = LOOPBACK_STATUS("200 OK")},
     true,
     false,
     0,
     true,
     "expired",
     "renew",
     0},
    {"self-signed",
     {.tls = LOOPBACK_TLS_SELF_SIGNED, .answer = LOOPBACK_STATUS("200 OK")},
     false,
     false,
     0,
     true,
     "certificate",
     "notify.ca_file",
     0},
    {"self-signed, another CA",
     {.tls = LOOPBACK_TLS_SELF_SIGNED, .answer = LOOPBACK_STATUS("200 OK")},
     true,
     false,
     0,
     true,
     "certificate",
     "notify.ca_file",
     0},
    {"TLS 1.0",
     {.tls = LOOPBACK_TLS_1_0, .answer = LOOPBACK_STATUS("200 OK")},
     true,
     false,
     0,
     true,
     "could not post",
     "TLS 1.2",
     0},
};

START_TEST(each_answer_and_each_fault_has_its_meaning)
{
    const Case *row = &cases[_i];
    char *folder = support_folder_new(), url[256];
    const char *ca = support_path(folder, "ca.pem");
    Loopback *server = loopback_start(&row->script);
    loopback_url(server, "127.0.0.1", url);
    RemotePost post = make_post(url);
    if (row->own_ca) {
        loopback_save_ca(server, ca);
        post.ca_file = ca;
    }
    post.timeout_ns = row->timeout_ns > 0 ? row->timeout_ns : post.timeout_ns;
    Error error = ERROR_INIT;
    int status = -1;
    bool again = !row->again;
    int64_t begun = clock_monotonic_ns(clock_real());
    bool taken = remote_post(&post, &status, &again, &error);
    double seconds = (double)(clock_monotonic_ns(clock_real()) - begun) / 1e9;
    ck_assert_msg(taken == row->taken && status == row->status && again == row->again,
                  "%s: taken %d, status %d, again %d: %s", row->name, taken, status, again, error.message);
    if (!taken) {
        support_check_error(&error, ERROR_UNAVAILABLE, row->words, row->name);
        ck_assert_msg(strstr(error.hint, row->hint) != NULL, "%s: hint '%s'", row->name, error.hint);
        ck_assert_msg(strstr(error.message, "'127.0.0.1'") != NULL, "%s", error.message);
        assert_discreet(&error);
    } else {
        ck_assert_int_eq(error.kind, ERROR_NONE);
    }
    ck_assert_msg(seconds < 60, "%s took %.1f s", row->name, seconds);   // no hang; not a measure of speed
    ck_assert_uint_eq(loopback_connections(server), 1);   // nothing is followed or tried twice
    loopback_stop(server);
    support_folder_remove(folder);
}
END_TEST

START_TEST(a_port_nobody_listens_on_is_tried_again_later)
{
    const LoopbackScript script = {.answer = LOOPBACK_STATUS("200 OK")};
    char url[256];
    Loopback *server = loopback_start(&script);
    loopback_url(server, "127.0.0.1", url);
    loopback_stop(server);
    RemotePost post = make_post(url);
    Error error = ERROR_INIT;
    int status;
    bool again;
    ck_assert(!remote_post(&post, &status, &again, &error));
    ck_assert_int_eq(status, 0);
    ck_assert(again);
    assert_discreet(&error);
    support_check_error(&error, ERROR_UNAVAILABLE, "127.0.0.1", "refused connection");
}
END_TEST

START_TEST(the_receiver_can_prove_who_sent_what_and_when)
{
    const LoopbackScript script = {.answer = LOOPBACK_STATUS("200 OK")};
    char url[256], value[256], signature[80];
    Loopback *server = loopback_start(&script);
    loopback_url(server, "localhost", url);
    RemotePost post = make_post(url);
    Error error = ERROR_INIT;
    int status;
    bool again;
    ASSERT_OK(remote_post(&post, &status, &again, &error), &error);
    SCOPED_TEXT head, got;
    text_init(&head, LOOPBACK_BYTES);
    text_init(&got, LOOPBACK_BYTES);
    loopback_request(server, 0, &head, &got);
    ck_assert_str_eq(text_string(&got), body);
    ck_assert(text_starts_with(text_string(&head), "POST /hook/path-token?key=query-token HTTP/1.1\r\n"));
    loopback_signature(key, sizeof key - 1, "1790000000", body, signature);
    static const char *const want[][2] = {
        {"Content-Type", "application/json"},
        {"Fedgate-Timestamp", "1790000000"},
        {"User-Agent", "fedgate/0.1.0"},
        {"Expect", ""},
        {"Cookie", ""},
        {"Authorization", ""},
        {"Fedgate-Event", "0192f4a0-0000-7000-8000-000000000001-refused-1790000000"},
    };
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        loopback_header(&head, want[i][0], value);
        ck_assert_str_eq(value, want[i][1]);
    }
    loopback_header(&head, "Fedgate-Signature", value);
    ck_assert_str_eq(value, signature);
    loopback_signature(key, sizeof key - 2, "1790000000", body,
                       signature);   // another key, another signature
    ck_assert_str_ne(value, signature);
    post.key = NULL;   // no key, no signature
    ASSERT_OK(remote_post(&post, &status, &again, &error), &error);
    loopback_request(server, 1, &head, &got);
    loopback_header(&head, "Fedgate-Signature", value);
    ck_assert_str_eq(value, "");
    loopback_stop(server);
}
END_TEST

START_TEST(the_environment_has_no_say)
{
    const LoopbackScript script = {.answer = LOOPBACK_STATUS("200 OK")};
    static const char *const proxies[] = {"http_proxy", "HTTPS_PROXY", "https_proxy", "all_proxy",
                                          "ALL_PROXY"};
    char url[256], value[256], *folder = support_folder_new();
    for (size_t i = 0; i < sizeof proxies / sizeof proxies[0]; i++)
        ck_assert_int_eq(setenv(proxies[i], "http://127.0.0.1:1", 1), 0);
    ck_assert_int_eq(setenv("HOME", folder, 1), 0);
    support_write(support_path(folder, ".netrc"), "machine localhost login somebody password secret\n");
    support_write(support_path(folder, ".curlrc"), "user-agent = other\n");
    Loopback *server = loopback_start(&script);
    loopback_url(server, "localhost", url);
    RemotePost post = make_post(url);
    Error error = ERROR_INIT;
    int status;
    bool again;
    ASSERT_OK(remote_post(&post, &status, &again, &error), &error);
    SCOPED_TEXT head, got;
    text_init(&head, LOOPBACK_BYTES);
    text_init(&got, LOOPBACK_BYTES);
    loopback_request(server, 0, &head, &got);
    loopback_header(&head, "Authorization", value);
    ck_assert_str_eq(value, "");
    loopback_stop(server);
    support_folder_remove(folder);
}
END_TEST

static const struct {
    const char *url, *words;   // words "": allowed
} addresses[] = {
    {"https://hooks.example.com/services/T0/B0/token?x=1", ""},
    {"HTTPS://Hooks.Example.com", ""},
    {"https://192.0.2.1:8443/", ""},
    {"http://localhost:9/x", ""},
    {"http://127.0.0.1/x", ""},
    {"http://127.8.9.10:1/x", ""},
    {"http://127.1/x", ""},
    {"http://[::1]:9/x", ""},
    {"http://hooks.example.com/x", "is not https"},
    {"http://192.0.2.1/x", "is not https"},
    {"http://0.0.0.0/x", "is not https"},
    {"http://[::]/x", "is not https"},
    {"http://[::ffff:127.0.0.1]/x", "is not https"},
    {"http://127.0.0.1.example.com/x", "is not https"},
    {"http://localhost.example.com/x", "is not https"},
    {"http://2130706434.example.com/x", "is not https"},
    {"ftp://127.0.0.1/x", "is not https"},
    {"file:///etc/passwd", "has no host"},
    {"https://somebody@example.com/x", "user name or password"},
    {"https://somebody:word@example.com/x", "user name or password"},
    {"https://:word@example.com/x", "user name or password"},
    {"https://example.com/x#part", "fragment"},
    {"https://", "the form https"},
    {"hooks.example.com/x", "the form https"},
    {"https://example.com/x\r\nX-Injected: 1", "the form https"},
    {"https://exa mple.com/", "the form https"},
    {"", "the form https"},
};

START_TEST(only_safe_addresses_are_allowed_and_others_are_never_connected_to)
{
    const char *url = addresses[_i].url, *words = addresses[_i].words;
    Error error = ERROR_INIT;
    if (words[0] == '\0') {
        ASSERT_OK(remote_check_url(url, &error), &error);
        return;
    }
    ck_assert_msg(!remote_check_url(url, &error), "'%s' is allowed", url);
    support_check_error(&error, ERROR_CONFIG, words, url);
    ck_assert_msg(!strstr(error.message, "somebody") && !strstr(error.message, "word@"), "%s", error.message);
    RemotePost post = make_post(url);
    int status = -1;
    bool again = true;
    error_clear(&error);
    ck_assert(!remote_post(&post, &status, &again, &error));
    ck_assert_int_eq(error.kind, ERROR_CONFIG);
    ck_assert(status == 0 && !again);
}
END_TEST

START_TEST(what_could_break_a_header_or_the_limits_is_not_sent)
{
    const LoopbackScript script = {.answer = LOOPBACK_STATUS("200 OK")};
    char url[256];
    Loopback *server = loopback_start(&script);
    loopback_url(server, "127.0.0.1", url);
    RemotePost post = make_post(url);
    Error error = ERROR_INIT;
    int status;
    bool again;
    static const char *const ids[] = {"a\r\nX-Injected: 1", "a b", "", "../a", "A", "a\nb"};
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        post.id = ids[i];
        ASSERT_FAILS(remote_post(&post, &status, &again, &error), &error, ERROR_INTERNAL, "not a name");
        ck_assert(!again);
    }
    char *large = malloc(REMOTE_BODY_MAX + 2), *long_url = malloc(REMOTE_URL_MAX + 2);
    ck_assert(large && long_url);
    memset(large, 'x', REMOTE_BODY_MAX + 1);
    large[REMOTE_BODY_MAX + 1] = '\0';
    post = make_post(url);
    post.body = large;
    ASSERT_FAILS(remote_post(&post, &status, &again, &error), &error, ERROR_INTERNAL,
                 "longer than the limit");
    memset(long_url, 'x', REMOTE_URL_MAX + 1);
    memcpy(long_url, "https://", 8);
    long_url[REMOTE_URL_MAX + 1] = '\0';
    ASSERT_FAILS(remote_check_url(long_url, &error), &error, ERROR_CONFIG, "longer than the limit");
    ck_assert_uint_eq(loopback_connections(server), 0);
    large[REMOTE_BODY_MAX] = '\0';   // the limit itself fits
    post.body = large;
    ASSERT_OK(remote_post(&post, &status, &again, &error), &error);
    free(large);
    free(long_url);
    loopback_stop(server);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("remote_post");
    TCase *part = tcase_create("post");
    tcase_add_loop_test(part, each_answer_and_each_fault_has_its_meaning, 0, sizeof cases / sizeof cases[0]);
    tcase_add_test(part, a_port_nobody_listens_on_is_tried_again_later);
    tcase_add_test(part, the_receiver_can_prove_who_sent_what_and_when);
    tcase_add_test(part, the_environment_has_no_say);
    tcase_add_loop_test(part, only_safe_addresses_are_allowed_and_others_are_never_connected_to, 0,
                        sizeof addresses / sizeof addresses[0]);
    tcase_add_test(part, what_could_break_a_header_or_the_limits_is_not_sent);
    suite_add_tcase(suite, part);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
