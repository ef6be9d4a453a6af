// loopback - a receiver of posts on 127.0.0.1 for tests: HTTP or HTTPS in a thread, with the faults of real
// ones.
//
// It serves one connection after the other, at most LOOPBACK_CONNECTIONS, none longer than LOOPBACK_PATIENCE
// seconds, and keeps what it was sent. Keys and certificates are made when it starts and never leave it.
#ifndef FEDGATE_TESTS_LOOPBACK_H
#define FEDGATE_TESTS_LOOPBACK_H

#include "support.h"

enum { LOOPBACK_CONNECTIONS = 64, LOOPBACK_PATIENCE = 20, LOOPBACK_BYTES = 1024 * 1024 };

typedef enum LoopbackTls {
    LOOPBACK_PLAIN,
    LOOPBACK_TLS,   // certificate for localhost and 127.0.0.1, signed by the CA of this server
    LOOPBACK_TLS_OTHER_NAME,
    LOOPBACK_TLS_EXPIRED,
    LOOPBACK_TLS_SELF_SIGNED,   // right name, signed by itself
    LOOPBACK_TLS_1_0,   // right certificate, no newer protocol
} LoopbackTls;

#define LOOPBACK_STATUS(status) "HTTP/1.1 " status "\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

typedef struct LoopbackScript {
    LoopbackTls tls;
    const char *answer;   // raw bytes once a request is whole; NULL: silence until the other side leaves
    int64_t drip_ns;   // pause after each byte of the answer
    bool endless;   // bytes of a body without end follow the answer
    bool hang_up;   // closes the connection without reading
} LoopbackScript;

typedef struct Loopback Loopback;
Loopback *loopback_start(const LoopbackScript *script);
void loopback_stop(Loopback *server);   // NULL allowed; joins the thread
int loopback_port(const Loopback *server);
void loopback_url(const Loopback *server, const char *host, char ret_url[static 256]);   // with a secret path
void loopback_save_ca(const Loopback *server, const char *path);   // PEM
void loopback_answer(Loopback *server, const char *answer);   // from the next request on; a literal

size_t loopback_count(Loopback *server);   // whole requests so far
size_t loopback_connections(Loopback *server);
// Both Texts are cleared first. The head ends with its last line end.
void loopback_request(Loopback *server, size_t index, Text *ret_head, Text *ret_body);
// Value of a header line, "" when missing; ends the test when it is there twice.
void loopback_header(const Text *head, const char *name, char ret_value[static 256]);
// What a receiver computes: "sha256=<hex>", by OpenSSL's own HMAC.
void loopback_signature(const char *key, size_t key_length, const char *timestamp, const char *body,
                        char ret_signature[static 80]);

#endif
