// error - composing error messages in a fixed struct, and ending the program on a bug of ours.
#include <fedgate/error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct ErrorRow {
    const char *name;
    int exit_code;
    bool retry;
} ErrorRow;

static const ErrorRow error_rows[] = {
#define ERROR_ROW(name, exit_code, retry) {#name, exit_code, retry},
    ERROR_KINDS(ERROR_ROW)
#undef ERROR_ROW
};

enum { ERROR_ROW_COUNT = sizeof error_rows / sizeof error_rows[0] };

static bool code_is_errno(ErrorKind kind)
{
    return kind == ERROR_IO || kind == ERROR_BUSY || kind == ERROR_DENIED || kind == ERROR_UNAVAILABLE;
}

// Copies what fits; a cut ends in "..." and never inside a UTF-8 sequence.
static void copy_cut(char *to, size_t to_size, const char *from)
{
    size_t length = strlen(from);
    if (length < to_size) {
        memcpy(to, from, length + 1);
        return;
    }
    size_t keep = to_size - 4;
    while (keep > 0 && ((unsigned char)from[keep] & 0xc0) == 0x80)
        keep--;
    memcpy(to, from, keep);
    memcpy(to + keep, "...", 4);
}

bool error_set(Error *error, ErrorKind kind, int code, const char *origin, const char *format, ...)
{
    if (!error)
        return false;
    // Formatted apart, because the arguments may point into this very error. Twice the room, so that a cut
    // shows.
    char text[2 * sizeof error->message];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length < 0)
        text[0] = '\0';
    size_t used = strlen(text);
    if (code != 0 && code_is_errno(kind)) {
        char reason[128];
        snprintf(text + used, sizeof text - used, ": %s", strerror_r(code, reason, sizeof reason));
    }
    error->kind = kind;
    error->code = code;
    error->origin = origin;
    error->hint[0] = '\0';
    copy_cut(error->message, sizeof error->message, text);
    return false;
}

bool (error_prefix)(Error *error, const char *format, ...)
{
    if (!error)
        return false;
    char prefix[sizeof error->message];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(prefix, sizeof prefix, format, arguments);
    va_end(arguments);
    if (length < 0)
        return false;
    char text[2 * sizeof error->message + 2];
    snprintf(text, sizeof text, "%s: %s", prefix, error->message);
    copy_cut(error->message, sizeof error->message, text);
    return false;
}

bool (error_hint)(Error *error, const char *format, ...)
{
    if (!error)
        return false;
    char text[2 * sizeof error->hint];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    copy_cut(error->hint, sizeof error->hint, length < 0 ? "" : text);
    return false;
}

void error_clear(Error *error)
{
    if (error)
        *error = ERROR_INIT;
}

static const ErrorRow *row_of(ErrorKind kind)
{
    if ((unsigned)kind >= ERROR_ROW_COUNT)
        BUG("unknown error kind %d", (int)kind);
    return &error_rows[kind];
}

int error_exit_code(ErrorKind kind)
{
    return row_of(kind)->exit_code;
}

const char *error_kind_name(ErrorKind kind)
{
    static const char *const names[] = {"none",        "conflict", "inconsistent", "usage",    "data",
                                        "unavailable", "device",   "memory",       "internal", "io",
                                        "busy",        "denied",   "config"};
    _Static_assert(sizeof names / sizeof names[0] == ERROR_ROW_COUNT, "one name per error kind");
    return names[row_of(kind) - error_rows];
}

bool error_worth_retry(ErrorKind kind)
{
    return row_of(kind)->retry;
}

void error_bug(const char *origin, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "fedgate: bug at %s: ", origin);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    abort();
}
