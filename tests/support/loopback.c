// loopback - see loopback.h.
#include "loopback_internal.h"

#include <arpa/inet.h>
#include <fedgate/clock.h>
#include <fedgate/hash.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { POLL_MS = 20 };

struct Loopback {
    LoopbackScript script;
    int listener, port;
    SSL_CTX *context;   // NULL: plain
    X509 *authority;
    pthread_t thread;
    atomic_bool stop;
    pthread_mutex_t lock;   // over what follows, and script.answer
    Text heads[LOOPBACK_CONNECTIONS], bodies[LOOPBACK_CONNECTIONS];
    size_t requests, connections;
};

typedef struct Stream {
    int fd;
    SSL *ssl;   // NULL: plain
} Stream;

static ssize_t stream_read(const Stream *stream, char *bytes, size_t size)
{
    return stream->ssl ? SSL_read(stream->ssl, bytes, (int)size) : recv(stream->fd, bytes, size, 0);
}

static bool stream_write(const Stream *stream, const char *bytes, size_t length)
{
    ssize_t put = stream->ssl ? SSL_write(stream->ssl, bytes, (int)length)
                              : send(stream->fd, bytes, length, MSG_NOSIGNAL);
    return put == (ssize_t)length;
}

// A request whole: head up to the empty line, then as many bytes as it says.
static bool read_request(const Stream *stream, Text *head, Text *body)
{
    SCOPED_TEXT all;
    text_init(&all, LOOPBACK_BYTES);
    size_t head_length = 0, wanted = 0;
    while (head_length == 0 || all.length < head_length + wanted) {
        char block[4096];
        ssize_t got = stream_read(stream, block, sizeof block);
        if (got <= 0)
            return false;
        text_add_bytes(&all, block, (size_t)got);
        const char *empty = strstr(text_string(&all), "\r\n\r\n");
        if (head_length == 0 && empty) {
            head_length = (size_t)(empty - text_string(&all)) + 4;
            text_add_bytes(head, text_string(&all), head_length - 2);
            char length[256];
            loopback_header(head, "Content-Length", length);
            wanted = (size_t)strtoul(length, NULL, 10);
        }
        if (all.failed)
            return false;
    }
    text_add_bytes(body, text_string(&all) + head_length, wanted);
    return true;
}

static bool other_left(const Loopback *server, const Stream *stream)
{
    struct pollfd look = {.fd = stream->fd, .events = POLLIN};
    char byte;
    return atomic_load(&server->stop) ||
           (poll(&look, 1, POLL_MS) == 1 && recv(stream->fd, &byte, 1, MSG_PEEK) <= 0);
}

static void answer(Loopback *server, const Stream *stream, const char *bytes)
{
    int64_t end = clock_monotonic_ns(clock_real()) + LOOPBACK_PATIENCE * INT64_C(1000000000);
    size_t length = bytes ? strlen(bytes) : 0, step = server->script.drip_ns > 0 ? 1 : length;
    for (size_t at = 0; at < length; at += step) {
        if (!stream_write(stream, bytes + at, step) || atomic_load(&server->stop))
            return;
        if (server->script.drip_ns > 0)
            clock_sleep_ns(clock_real(), server->script.drip_ns);
    }
    char block[4096];
    memset(block, 'x', sizeof block);
    while (server->script.endless && clock_monotonic_ns(clock_real()) < end && !atomic_load(&server->stop) &&
           stream_write(stream, block, sizeof block))
        continue;
    while (!bytes && clock_monotonic_ns(clock_real()) < end && !other_left(server, stream))
        continue;
}

static void keep_request(Loopback *server, Text *head, Text *body, const char **ret_answer)
{
    pthread_mutex_lock(&server->lock);
    server->heads[server->requests] = *head;
    server->bodies[server->requests++] = *body;
    *ret_answer = server->script.answer;
    pthread_mutex_unlock(&server->lock);
}

static void serve(Loopback *server, int fd)
{
    Stream stream = {.fd = fd};
    Text head, body;
    const char *bytes = NULL;
    text_init(&head, LOOPBACK_BYTES);
    text_init(&body, LOOPBACK_BYTES);
    if (server->context) {
        stream.ssl = SSL_new(server->context);
        SSL_set_fd(stream.ssl, fd);
    }
    if ((!stream.ssl || SSL_accept(stream.ssl) == 1) && read_request(&stream, &head, &body)) {
        keep_request(server, &head, &body, &bytes);
        answer(server, &stream, bytes);
    } else {
        text_done(&head);
        text_done(&body);
    }
    if (stream.ssl && bytes)
        SSL_shutdown(stream.ssl);
    SSL_free(stream.ssl);
}

static void *server_main(void *context)
{
    Loopback *server = context;
    struct timeval patience = {.tv_sec = LOOPBACK_PATIENCE};
    while (!atomic_load(&server->stop) && server->connections < LOOPBACK_CONNECTIONS) {
        struct pollfd look = {.fd = server->listener, .events = POLLIN};
        if (poll(&look, 1, POLL_MS) != 1)
            continue;
        int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            continue;
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
        pthread_mutex_lock(&server->lock);
        server->connections++;
        pthread_mutex_unlock(&server->lock);
        if (!server->script.hang_up)
            serve(server, fd);
        close(fd);
    }
    return NULL;
}

Loopback *loopback_start(const LoopbackScript *script)
{
    Loopback *server = calloc(1, sizeof *server);
    ck_assert_ptr_nonnull(server);
    server->script = *script;
    signal(SIGPIPE, SIG_IGN);   // SSL_write to one who left
    if (script->tls != LOOPBACK_PLAIN)
        server->context = loopback_context(script->tls, &server->authority);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert(server->listener >= 0 &&
              bind(server->listener, (struct sockaddr *)&address, sizeof address) == 0 &&
              listen(server->listener, 16) == 0 &&
              getsockname(server->listener, (struct sockaddr *)&address, &size) == 0);
    server->port = ntohs(address.sin_port);
    ck_assert_int_eq(pthread_mutex_init(&server->lock, NULL), 0);
    ck_assert_int_eq(pthread_create(&server->thread, NULL, server_main, server), 0);
    return server;
}

void loopback_stop(Loopback *server)
{
    if (!server)
        return;
    atomic_store(&server->stop, true);
    ck_assert_int_eq(pthread_join(server->thread, NULL), 0);
    close(server->listener);
    for (size_t i = 0; i < server->requests; i++) {
        text_done(&server->heads[i]);
        text_done(&server->bodies[i]);
    }
    SSL_CTX_free(server->context);
    X509_free(server->authority);
    pthread_mutex_destroy(&server->lock);
    free(server);
}

int loopback_port(const Loopback *server)
{
    return server->port;
}

void loopback_url(const Loopback *server, const char *host, char ret_url[static 256])
{
    ck_assert(text_print(ret_url, 256, "http%s://%s:%d/hook/path-token?key=query-token",
                         server->script.tls == LOOPBACK_PLAIN ? "" : "s", host, server->port));
}

void loopback_save_ca(const Loopback *server, const char *path)
{
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(PEM_write_X509(file, server->authority), 1);
    ck_assert_int_eq(fclose(file), 0);
}

void loopback_answer(Loopback *server, const char *bytes)
{
    pthread_mutex_lock(&server->lock);
    server->script.answer = bytes;
    pthread_mutex_unlock(&server->lock);
}

static size_t read_count(Loopback *server, const size_t *count)
{
    pthread_mutex_lock(&server->lock);
    size_t value = *count;
    pthread_mutex_unlock(&server->lock);
    return value;
}

size_t loopback_count(Loopback *server)
{
    return read_count(server, &server->requests);
}

size_t loopback_connections(Loopback *server)
{
    return read_count(server, &server->connections);
}

void loopback_request(Loopback *server, size_t index, Text *ret_head, Text *ret_body)
{
    ck_assert_uint_lt(index, loopback_count(server));   // what is there does not change any more
    text_clear(ret_head);
    text_clear(ret_body);
    text_add(ret_head, text_string(&server->heads[index]));
    text_add(ret_body, text_string(&server->bodies[index]));
}

void loopback_header(const Text *head, const char *name, char ret_value[static 256])
{
    char start[128];
    ck_assert(text_print(start, sizeof start, "\r\n%s: ", name));
    const char *at = strcasestr(text_string(head), start);
    ret_value[0] = '\0';
    if (!at)
        return;
    const char *value = at + strlen(start);
    ck_assert_msg(strcasestr(value, start) == NULL, "header %s twice", name);
    ck_assert(text_print(ret_value, 256, "%.*s", (int)strcspn(value, "\r\n"), value));
}

void loopback_signature(const char *key, size_t key_length, const char *timestamp, const char *body,
                        char ret_signature[static 80])
{
    SCOPED_TEXT covered;
    text_init(&covered, LOOPBACK_BYTES);
    text_add(&covered, timestamp);
    text_add(&covered, ".");
    text_add(&covered, body);
    Digest digest;
    char hex[DIGEST_HEX_SIZE];
    size_t length = 0;
    ck_assert_ptr_nonnull(EVP_Q_mac(NULL, "HMAC", NULL, "SHA256", NULL, key, key_length,
                                    (const unsigned char *)text_string(&covered), covered.length,
                                    digest.bytes, sizeof digest.bytes, &length));
    ck_assert_uint_eq(length, sizeof digest.bytes);
    digest_hex(&digest, hex);
    ck_assert(text_print(ret_signature, 80, "sha256=%s", hex));
}
