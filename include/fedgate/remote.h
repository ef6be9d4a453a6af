// remote.h - the only libcurl: one bounded request, and the post that tells people of a verdict.
//
// TLS 1.2 or newer with the certificate and its name checked, no redirects, no proxy from the environment, no
// cookies, no other scheme than https (http only to a loopback address). Nothing here decides anything: a
// failed post is an Error the caller reports and keeps for the next run.
#ifndef FEDGATE_REMOTE_H
#define FEDGATE_REMOTE_H

#include <fedgate/config.h>
#include <fedgate/json.h>

enum { REMOTE_ANSWER_MAX = 64 * 1024, REMOTE_BODY_MAX = 256 * 1024 };

typedef struct RemotePost {
    const char *url;
    const char *ca_file;   // NULL or "": the system's certificates
    const char *body;      // JSON text
    const char *id;        // of the event, the same at each attempt: receivers drop what they have seen
    const char *key;       // of the signature; NULL: unsigned
    size_t key_length;
    int64_t timeout_ns;    // of the whole exchange
    int64_t time_s;        // signed with the body, so that an old post cannot be played again
} RemotePost;
// POST with headers Content-Type application/json, Fedgate-Event (id), Fedgate-Timestamp, Fedgate-Signature
// "sha256=<hex>" = HMAC-SHA256(key, timestamp "." body). True for an answer 200 to 299. ret_status: HTTP status,
// 0 when there was none. ret_again: worth another attempt later (no connection, timeout, 408, 425, 429, 5xx).
WARN_UNUSED bool remote_post(const RemotePost *post, int *ret_status, bool *ret_again, Error *error);
// ERROR_CONFIG: not https (or http to a loopback address), a user name, password or fragment in it, too long.
WARN_UNUSED bool remote_check_url(const char *url, Error *error);

#endif
