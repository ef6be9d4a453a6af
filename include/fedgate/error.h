// error.h - failure as a value: what could not be done, to which thing, why, and what to do next.
//
// Every function that can fail returns bool (or a pointer, NULL on failure), takes an Error last and sets it
// exactly when it fails. An Error is the caller's stack struct of fixed size: nothing is allocated, so
// running out of memory is reportable too. Callers add context going up with error_prefix(); only cli and
// night log. Wording: lower case, no full stop, single quotes round names, the kind of object before its
// name, value and limit both shown; "could not" when it may pass later, "cannot" when it never will; a hint
// is a full sentence.
#ifndef FEDGATE_ERROR_H
#define FEDGATE_ERROR_H

#include <stdarg.h>
#include <stdbool.h>

#define WARN_UNUSED __attribute__((warn_unused_result))
#define PRINTF_LIKE(string, first) __attribute__((format(printf, string, first)))

// name, exit code of the program (design.md section 2), whether the same call may pass later
#define ERROR_KINDS(ROW)                                                                                   \
    ROW(NONE, 0, false)                                                                                    \
    ROW(CONFLICT, 10, false)     /* somebody moved what we expected to find, or took the name */           \
    ROW(INCONSISTENT, 13, false) /* records disagree; the owner must act */                                \
    ROW(USAGE, 64, false)                                                                                  \
    ROW(DATA, 65, false)       /* bad input data, damaged file, failed digest */                           \
    ROW(UNAVAILABLE, 69, true) /* something needed is not there: database, device, package */              \
    ROW(DEVICE, 69, true)      /* the compute device failed or does not fit */                             \
    ROW(MEMORY, 69, true)      /* the host ran out of memory, or a declared cap was reached */             \
    ROW(INTERNAL, 70, false)   /* our own bug, caught */                                                   \
    ROW(IO, 74, true)                                                                                      \
    ROW(BUSY, 75, true)                                                                                    \
    ROW(DENIED, 77, false)                                                                                 \
    ROW(CONFIG, 78, false)

typedef enum ErrorKind {
#define ERROR_ENUM(name, exit_code, retry) ERROR_##name,
    ERROR_KINDS(ERROR_ENUM)
#undef ERROR_ENUM
} ErrorKind;

typedef struct Error {
    ErrorKind kind;      // what a caller may branch on
    int code;            // errno, CURLcode...; 0 when none (an SQLSTATE goes into the text)
    const char *origin;  // file:line that first raised it
    char message[512];   // grows by prefixes; a cut ends in "..."
    char hint[256];      // a full sentence, or empty
} Error;

#define ERROR_INIT ((Error){ERROR_NONE, 0, "", "", ""})

#define FEDGATE_STRING_(x) #x
#define FEDGATE_STRING(x) FEDGATE_STRING_(x)
#define FEDGATE_HERE __FILE__ ":" FEDGATE_STRING(__LINE__)

// Raises: sets every field and returns false, so that `return FAIL(error, ERROR_IO, errno, "could not ...")`
// reads as one statement. A nonzero code that is an errno (kinds IO, BUSY, DENIED, UNAVAILABLE) adds its
// words.
#define FAIL(error, kind, code, ...) \
    error_false(error_set((error), (kind), (code), FEDGATE_HERE, __VA_ARGS__))

// Says false where the compiler sees it, which then knows that no path uses what a failed call left unset.
static inline bool error_false(bool set)
{
    (void)set;
    return false;
}

bool error_set(Error *error, ErrorKind kind, int code, const char *origin, const char *format, ...)
    PRINTF_LIKE(5, 6);

// Puts "<text>: " before the message; returns false, for use while returning.
bool error_prefix(Error *error, const char *format, ...) PRINTF_LIKE(2, 3);

// Sets the hint; returns false.
bool error_hint(Error *error, const char *format, ...) PRINTF_LIKE(2, 3);

#define error_prefix(...) error_false(error_prefix(__VA_ARGS__))
#define error_hint(...) error_false(error_hint(__VA_ARGS__))

void error_clear(Error *error);

int error_exit_code(ErrorKind kind);
const char *error_kind_name(ErrorKind kind);   // "io", "config"
bool error_worth_retry(ErrorKind kind);

// A bug of ours: prints place and text on stderr and aborts. Never for bad input or a failing world.
#define BUG(...) error_bug(FEDGATE_HERE, __VA_ARGS__)
_Noreturn void error_bug(const char *origin, const char *format, ...) PRINTF_LIKE(2, 3);

// Declares a variable released at the end of its scope: OWNED(Registry, registry) *r = NULL; calls
// registry_free. The module declares the releaser with OWNED_RELEASE(Type, function) once, after its
// free/close function.
#define OWNED_RELEASE(Type, release)                           \
    static inline void fedgate_release_##release(Type **owned) \
    {                                                          \
        release(*owned);                                       \
    }
#define OWNED(Type, release) __attribute__((cleanup(fedgate_release_##release))) Type

#endif
