// remote.h - the only libcurl: one bounded request, and the posts that tell people of a verdict.
//
// TLS 1.2 or newer with the certificate and its name checked, no redirects, no proxy from the environment, no
// cookies, no other scheme than https (http only to a loopback address). Nothing here decides anything: a
// failed post is an Error the caller reports and keeps for the next run. No message holds more of an address
// than its host.
#ifndef FEDGATE_REMOTE_H
#define FEDGATE_REMOTE_H

#include <fedgate/clock.h>
#include <fedgate/config.h>
#include <fedgate/json.h>

enum {
    REMOTE_ANSWER_MAX = 64 * 1024,
    REMOTE_BODY_MAX = 256 * 1024,
    REMOTE_URL_MAX = 2000,
    REMOTE_HOST_SIZE = 256,
    REMOTE_KEY_MIN = 16,
    REMOTE_KEY_MAX = 4096
};

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
// "sha256=<hex>" = HMAC-SHA256(key, timestamp "." body). True for an answer 200 to 299, whatever becomes of
// its text. Set in any case: ret_status, HTTP status, 0 when there was none; ret_again, worth another attempt
// later (no answer, 408, 425, 429, 5xx).
WARN_UNUSED bool remote_post(const RemotePost *post, int *ret_status, bool *ret_again, Error *error);
// ERROR_CONFIG: not https (or http to a loopback address), a user name, password or fragment in it, too long.
WARN_UNUSED bool remote_check_url(const char *url, Error *error);

// -- where notices go: the options notify.*
typedef struct RemoteTarget {
    const char *url;       // "": nowhere; borrowed from the configuration, as ca_file
    const char *ca_file;
    char host[REMOTE_HOST_SIZE];
    char key[REMOTE_KEY_MAX];
    size_t key_length;     // 0: unsigned
    int64_t timeout_ns;
} RemoteTarget;
// ERROR_CONFIG (78): a bad address; a key file that is missing, no regular file, another account's, readable
// by others, too short or too long; certificates that cannot be read.
WARN_UNUSED bool remote_target_read(const Config *config, RemoteTarget *ret_target, Error *error);
void remote_target_done(RemoteTarget *target);   // forgets the key
// The same without keeping anything: before a night, for `config check`.
WARN_UNUSED bool remote_check_config(const Config *config, Error *error);

// -- outbox: <folder>/<id>.json is a body not yet taken, byte for byte as it is posted; <id>.refused.json one
// the receiver will never take (kept to be looked at; renamed back it is posted again). An id is a name that
// sorts by time. Held by the run lock; reading counts needs none.
enum { OUTBOX_MOST = 64, OUTBOX_ATTEMPTS = 16, OUTBOX_DAYS = 30 };

typedef struct OutboxResult {
    int sent, refused, dropped;   // in this call
    int waiting;                  // after it
    char problem[512];            // of the last post that failed; "" when none did
} OutboxResult;
// Atomic and synced; the folder is made when missing. The same id again replaces the body.
WARN_UNUSED bool remote_outbox_put(const char *folder, const char *id, const char *body, Error *error);
// Posts `first` (may be NULL), then the oldest, at most OUTBOX_ATTEMPTS within three timeouts; ends early at
// a post without any answer. Drops what is older than OUTBOX_DAYS by `clock` or over OUTBOX_MOST. What became
// of a notice, if anything but sent, is appended to `report`, one line each. False: the folder could not be
// read. A folder that is missing is empty.
WARN_UNUSED bool remote_outbox_send(const char *folder, const RemoteTarget *target, const char *first,
                                    Clock *clock, OutboxResult *ret_result, Text *report, Error *error);
WARN_UNUSED bool remote_outbox_count(const char *folder, int *ret_waiting, int *ret_refused, Error *error);

#endif
