// post - one bounded request through libcurl: what it may speak to, how it is signed, what its answer means.
//
// The total timeout is libcurl's own and holds from name lookup to the end of the answer, without signals, so
// it works beside other threads. The global state of libcurl is made once and lives as long as the process.
#include "remote_internal.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static pthread_once_t library_once = PTHREAD_ONCE_INIT;
static bool library_ready;

static void start_library(void)
{
    library_ready = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
}

bool remote_start_library(Error *error)
{
    pthread_once(&library_once, start_library);
    return library_ready || FAIL(error, ERROR_UNAVAILABLE, 0, "could not start libcurl");
}

// -- the address

static bool is_loopback(const char *host)
{
    struct in_addr v4;
    struct in6_addr v6;
    char inside[INET6_ADDRSTRLEN];
    size_t length = strlen(host);
    if (text_equal(host, "localhost"))   // libcurl never looks this name up
        return true;
    if (inet_pton(AF_INET, host, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == 127;
    return host[0] == '[' && text_print(inside, sizeof inside, "%.*s", (int)length - 2, host + 1) &&
           inet_pton(AF_INET6, inside, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

static bool has_part(CURLU *url, CURLUPart part)
{
    char *text = NULL;
    bool has = curl_url_get(url, part, &text, 0) == CURLUE_OK;
    curl_free(text);
    return has;
}

static bool check_parts(CURLU *url, char ret_host[static REMOTE_HOST_SIZE], Error *error)
{
    char *scheme = NULL, *host = NULL;
    bool whole = curl_url_get(url, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
                 curl_url_get(url, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
                 text_copy(ret_host, REMOTE_HOST_SIZE, host);
    bool https = text_equal(scheme, "https"), http = text_equal(scheme, "http");
    curl_free(scheme);
    curl_free(host);
    if (!whole)
        return FAIL(error, ERROR_CONFIG, 0, "the address has no host of at most %d bytes",
                    REMOTE_HOST_SIZE - 1);
    if (has_part(url, CURLUPART_USER) || has_part(url, CURLUPART_PASSWORD)) {
        (void)FAIL(error, ERROR_CONFIG, 0, "the address of host '%s' holds a user name or password",
                   ret_host);
        return error_hint(error, "Posts are signed with the key in notify.secret_file; name that instead.");
    }
    if (has_part(url, CURLUPART_FRAGMENT))
        return FAIL(error, ERROR_CONFIG, 0, "the address of host '%s' holds a fragment, which is never sent",
                    ret_host);
    if (https || (http && is_loopback(ret_host)))
        return true;
    (void)FAIL(error, ERROR_CONFIG, 0, "the address of host '%s' is not https", ret_host);
    return error_hint(error, "Plain http is allowed to localhost, 127.0.0.0/8 and [::1] only.");
}

// The caller frees. What is checked here is what libcurl is given: nothing is read twice.
static CURLU *parse_url(const char *url, char ret_host[static REMOTE_HOST_SIZE], Error *error)
{
    if (!remote_start_library(error))
        return NULL;
    if (strnlen(url, REMOTE_URL_MAX + 1) > REMOTE_URL_MAX) {
        (void)FAIL(error, ERROR_CONFIG, 0, "the address is longer than the limit of %d bytes",
                   REMOTE_URL_MAX);
        return NULL;
    }
    CURLU *parsed = curl_url();
    if (!parsed) {
        (void)FAIL(error, ERROR_MEMORY, 0, "could not allocate an address");
        return NULL;
    }
    CURLUcode code = curl_url_set(parsed, CURLUPART_URL, url, CURLU_NON_SUPPORT_SCHEME);
    if (code != CURLUE_OK)
        (void)FAIL(error, ERROR_CONFIG, 0, "the address is not one of the form https://HOST/PATH: %s",
                   curl_url_strerror(code));
    if (code == CURLUE_OK && check_parts(parsed, ret_host, error))
        return parsed;
    curl_url_cleanup(parsed);
    return NULL;
}

bool remote_find_host(const char *url, char ret_host[static REMOTE_HOST_SIZE], Error *error)
{
    CURLU *parsed = parse_url(url, ret_host, error);
    curl_url_cleanup(parsed);
    return parsed != NULL;
}

bool remote_check_url(const char *url, Error *error)
{
    char host[REMOTE_HOST_SIZE];
    return remote_find_host(url, host, error);
}

// -- the answer

// Nobody reads the answer; one that does not end is cut off.
static size_t throw_away(char *bytes, size_t size, size_t count, void *taken)
{
    (void)bytes;
    *(size_t *)taken += size * count;
    return *(size_t *)taken > REMOTE_ANSWER_MAX ? 0 : size * count;
}

static const struct {
    int from, to;
    bool again;
    const char *hint;
} answers[] = {
    {300, 399, false, "Redirects are not followed: put the final address into notify.url."},
    {401, 403, false, "Compare notify.secret_file with the receiver's key, and the clocks of both machines."},
    {408, 408, true, "The receiver was too slow; the next run posts again."},
    {425, 425, true, "The receiver asks to wait; the next run posts again."},
    {429, 429, true, "The receiver asks for fewer posts; the next run posts again."},
    {400, 499, false, "The receiver will not take this notice; look at notify.url and the receiver's log."},
    {500, 599, true, "The receiver failed; the next run posts again."},
};

static bool fail_status(const char *host, int status, bool *ret_again, Error *error)
{
    (void)FAIL(error, ERROR_UNAVAILABLE, 0, "host '%s' answered %d to the notice", host, status);
    *ret_again = false;
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++)
        if (status >= answers[i].from && status <= answers[i].to) {
            *ret_again = answers[i].again;
            return error_hint(error, "%s", answers[i].hint);
        }
    return false;
}

static const struct {
    CURLcode code;
    const char *hint;
} failures[] = {
    {CURLE_COULDNT_RESOLVE_HOST, "Look at the host in notify.url, and at the name service of this machine."},
    {CURLE_COULDNT_CONNECT, "Look whether the receiver runs and this machine may reach it."},
    {CURLE_OPERATION_TIMEDOUT, "Look at the receiver; notify.timeout bounds one post."},
    {CURLE_PEER_FAILED_VERIFICATION,
     "Name the certificates that signed the receiver's in notify.ca_file, or renew the receiver's."},
    {CURLE_SSL_CACERT_BADFILE, "notify.ca_file must hold certificates in PEM form."},
    {CURLE_SSL_CONNECT_ERROR, "The receiver must speak TLS 1.2 or newer at this address."},
};

static bool fail_exchange(const char *host, CURLcode code, const char *detail, Error *error)
{
    SCOPED_TEXT shown;   // it may quote what the other side sent
    text_init(&shown, 256);
    text_add_escaped(&shown, detail[0] != '\0' ? detail : curl_easy_strerror(code));
    (void)FAIL(error, ERROR_UNAVAILABLE, 0, "could not post to host '%s': %s", host,
               shown.failed ? curl_easy_strerror(code) : text_string(&shown));
    for (size_t i = 0; i < sizeof failures / sizeof failures[0]; i++)
        if (failures[i].code == code)
            return error_hint(error, "%s", failures[i].hint);
    return false;
}

// -- the request

typedef struct Exchange {
    CURLU *url;
    CURL *easy;
    struct curl_slist *headers;
    size_t taken;   // bytes of the answer
    char detail[CURL_ERROR_SIZE];
} Exchange;

static bool add_header(Exchange *exchange, const char *format, ...) PRINTF_LIKE(2, 3);
static bool add_header(Exchange *exchange, const char *format, ...)
{
    char line[256];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    struct curl_slist *longer =
        length > 0 && (size_t)length < sizeof line ? curl_slist_append(exchange->headers, line) : NULL;
    if (longer)
        exchange->headers = longer;
    return longer != NULL;
}

static bool add_signature(Exchange *exchange, const RemotePost *post)
{
    SCOPED_TEXT covered;
    text_init(&covered, REMOTE_BODY_MAX + 64);
    text_add_format(&covered, "%lld.", (long long)post->time_s);
    text_add(&covered, post->body);
    if (covered.failed)
        return false;
    Digest digest;
    char hex[DIGEST_HEX_SIZE];
    hash_hmac(post->key, post->key_length, text_string(&covered), covered.length, &digest);
    digest_hex(&digest, hex);
    return add_header(exchange, "Fedgate-Signature: sha256=%s", hex);
}

// The empty Expect keeps libcurl from asking first, which costs a round trip or a second of silence.
static bool add_headers(Exchange *exchange, const RemotePost *post)
{
    return add_header(exchange, "Content-Type: application/json") && add_header(exchange, "Expect:") &&
           add_header(exchange, "Fedgate-Event: %s", post->id) &&
           add_header(exchange, "Fedgate-Timestamp: %lld", (long long)post->time_s) &&
           (!post->key || add_signature(exchange, post));
}

// A curl_easy_setopt per line, each the reason for one sentence of the header.
static bool configure(Exchange *exchange, const RemotePost *post)
{
    CURL *easy = exchange->easy;
    long timeout_ms = (long)(post->timeout_ns / 1000000);
    bool own = post->ca_file && post->ca_file[0] != '\0';
#define SET(option, value) (curl_easy_setopt(easy, CURLOPT_##option, (value)) == CURLE_OK)
    bool set = SET(CURLU, exchange->url) && SET(PROTOCOLS_STR, "https,http") && SET(FOLLOWLOCATION, 0L) &&
               SET(PROXY, "") && SET(NOPROXY, "*") && SET(NETRC, (long)CURL_NETRC_IGNORED) &&
               SET(HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) && SET(HTTP09_ALLOWED, 0L) &&
               SET(SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2) && SET(SSL_VERIFYPEER, 1L) &&
               SET(SSL_VERIFYHOST, 2L) && SET(NOSIGNAL, 1L) &&
               SET(TIMEOUT_MS, timeout_ms > 0 ? timeout_ms : 1L) &&
               SET(CONNECTTIMEOUT_MS, timeout_ms > 0 ? timeout_ms : 1L) &&
               SET(QUICK_EXIT, 1L) &&   // a name lookup that hangs is not waited for
               SET(USERAGENT, "fedgate/" FEDGATE_VERSION) && SET(HTTPHEADER, exchange->headers) &&
               SET(POST, 1L) && SET(POSTFIELDS, post->body) && SET(POSTFIELDSIZE, (long)strlen(post->body)) &&
               SET(ERRORBUFFER, exchange->detail) && SET(WRITEFUNCTION, throw_away) &&
               SET(WRITEDATA, &exchange->taken) && SET(HEADERFUNCTION, throw_away) &&
               SET(HEADERDATA, &exchange->taken);
    // One's own certificates replace the system's: both the file and the folder libcurl was built with.
    return set && (!own || (SET(CAINFO, post->ca_file) && SET(CAPATH, NULL)));
#undef SET
}

static bool exchange_post(Exchange *exchange, const RemotePost *post, const char *host, int *ret_status,
                          bool *ret_again, Error *error)
{
    exchange->easy = curl_easy_init();
    if (!exchange->easy || !add_headers(exchange, post) || !configure(exchange, post))
        return FAIL(error, ERROR_MEMORY, 0, "could not prepare a post to host '%s'", host);
    CURLcode code = curl_easy_perform(exchange->easy);
    long status = 0;
    (void)curl_easy_getinfo(exchange->easy, CURLINFO_RESPONSE_CODE, &status);
    if (status < 200)
        return fail_exchange(host, code, exchange->detail, error);
    *ret_status = (int)status;
    return status < 300 || fail_status(host, (int)status, ret_again, error);
}

bool remote_post(const RemotePost *post, int *ret_status, bool *ret_again, Error *error)
{
    *ret_status = 0;
    *ret_again = false;
    if (!text_is_name(post->id))   // it becomes a header line
        return FAIL(error, ERROR_INTERNAL, 0, "the id of a notice is not a name");
    if (strnlen(post->body, REMOTE_BODY_MAX + 1) > REMOTE_BODY_MAX)
        return FAIL(error, ERROR_INTERNAL, 0, "a notice is longer than the limit of %d bytes",
                    REMOTE_BODY_MAX);
    char host[REMOTE_HOST_SIZE];
    Exchange exchange = {.url = parse_url(post->url, host, error)};
    if (!exchange.url)
        return false;
    *ret_again = true;   // until an answer says otherwise
    bool taken = exchange_post(&exchange, post, host, ret_status, ret_again, error);
    *ret_again = *ret_again && !taken;
    curl_easy_cleanup(exchange.easy);
    curl_slist_free_all(exchange.headers);
    curl_url_cleanup(exchange.url);
    return taken;
}
