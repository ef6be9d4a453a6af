// target - where notices go and with which key: the options notify.*, checked before a night and read at its
// end.
//
// The key comes from a file only. Whoever can read it can make posts that look like ours, so the file must be
// the account's own or root's, and closed to everybody else.
#include "remote_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <fedgate/file.h>
#include <fedgate/process.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool check_key_file(int fd, const char *path, Error *error)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return FAIL(error, ERROR_CONFIG, 0, "could not look at file '%s': %s", path, strerror(errno));
    if (!S_ISREG(status.st_mode))
        return FAIL(error, ERROR_CONFIG, 0, "file '%s' is not a regular file", path);
    if (status.st_uid != process_uid() && status.st_uid != 0) {
        (void)FAIL(error, ERROR_CONFIG, 0, "file '%s' belongs to account %lld, not to this one or root", path,
                   (long long)status.st_uid);
        return error_hint(error, "Give it to the account that runs the night.");
    }
    if (status.st_mode & (S_IRWXG | S_IRWXO)) {
        (void)FAIL(error, ERROR_CONFIG, 0, "file '%s' has mode %04o, others may read or change it", path,
                   (unsigned)(status.st_mode & 07777));
        return error_hint(error, "Close it: chmod 600.");
    }
    return true;
}

// One newline at the end is an editor's, not the key's.
static bool read_key(int fd, const char *path, RemoteTarget *target, Error *error)
{
    char bytes[REMOTE_KEY_MAX + 2];   // newline, and one byte that tells of more
    size_t length = 0;
    ssize_t got = 1;
    while (got > 0 && length < sizeof bytes) {
        got = read(fd, bytes + length, sizeof bytes - length);
        if (got < 0 && errno == EINTR)
            got = 1;
        else if (got > 0)
            length += (size_t)got;
    }
    int code = errno;
    length -= length > 0 && bytes[length - 1] == '\n';
    bool fits = got >= 0 && length >= REMOTE_KEY_MIN && length <= REMOTE_KEY_MAX;
    if (fits) {
        memcpy(target->key, bytes, length);
        target->key_length = length;
    }
    explicit_bzero(bytes, sizeof bytes);
    if (got < 0)
        return FAIL(error, ERROR_CONFIG, 0, "could not read file '%s': %s", path, strerror(code));
    if (fits)
        return true;
    (void)FAIL(error, ERROR_CONFIG, 0, "file '%s' holds a key of %s%zu bytes, the limits are %d and %d", path,
               length > REMOTE_KEY_MAX ? "at least " : "", length, REMOTE_KEY_MIN, REMOTE_KEY_MAX);
    return error_hint(error, "Make one: head -c 32 /dev/urandom | base64 >FILE.");
}

static bool read_key_file(const char *path, RemoteTarget *target, Error *error)
{
    if (path[0] == '\0')
        return true;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return FAIL(error, ERROR_CONFIG, 0, "could not open file '%s': %s", path, strerror(errno));
    bool read = check_key_file(fd, path, error) && read_key(fd, path, target, error);
    close(fd);
    return read;
}

static bool check_certificates(const char *path, Error *error)
{
    if (path[0] == '\0')
        return true;
    Error failed = ERROR_INIT;
    SCOPED_TEXT text;
    text_init(&text, 4 * 1000 * 1000);
    if (!file_read(path, &text, &failed))
        return FAIL(error, ERROR_CONFIG, 0, "%s", failed.message);
    if (strstr(text_string(&text), "-----BEGIN CERTIFICATE-----"))
        return true;
    (void)FAIL(error, ERROR_CONFIG, 0, "file '%s' holds no certificate in PEM form", path);
    return error_hint(error, "Convert it: openssl x509 -inform DER -in FILE -out FILE.pem.");
}

static bool fail_option(const Config *config, const char *option, Error *error)
{
    return error_prefix(error, "%s: option '%s'", config_source(config, option), option);
}

bool remote_target_read(const Config *config, RemoteTarget *ret_target, Error *error)
{
    RemoteTarget target = {.url = config_text(config, "notify.url"),
                           .ca_file = config_text(config, "notify.ca_file"),
                           .timeout_ns = (int64_t)(config_real(config, "notify.timeout") * 1e9)};
    if (target.url[0] != '\0' && !remote_find_host(target.url, target.host, error))
        return fail_option(config, "notify.url", error);
    if (!check_certificates(target.ca_file, error))
        return fail_option(config, "notify.ca_file", error);
    if (!read_key_file(config_text(config, "notify.secret_file"), &target, error))
        return fail_option(config, "notify.secret_file", error);
    *ret_target = target;
    remote_target_done(&target);
    return true;
}

void remote_target_done(RemoteTarget *target)
{
    if (target)
        explicit_bzero(target->key, sizeof target->key);
}

bool remote_check_config(const Config *config, Error *error)
{
    RemoteTarget target;
    if (!remote_target_read(config, &target, error))
        return false;
    remote_target_done(&target);
    return true;
}
