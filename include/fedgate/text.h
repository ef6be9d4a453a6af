// text.h - growable text with a maximum given at birth, and the few string helpers everyone needs.
//
// A Text never grows past its maximum: the append that would do so is dropped, `failed` is set and stays set,
// and text_ok() reports it once at the end. Bytes are kept NUL-terminated. Host allocation failure sets
// `failed` too.
#ifndef FEDGATE_TEXT_H
#define FEDGATE_TEXT_H

#include <fedgate/error.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Text {
    char *data;      // NUL-terminated once anything was appended; use text_string()
    size_t length;   // bytes without the NUL
    size_t capacity;
    size_t maximum;  // bytes, never exceeded
    bool failed;     // an append was dropped
} Text;

void text_init(Text *text, size_t maximum);
void text_done(Text *text);    // frees; NULL and zeroed structs allowed
void text_clear(Text *text);   // length 0, failed cleared, memory kept

void text_add(Text *text, const char *string);
void text_add_bytes(Text *text, const char *bytes, size_t length);
void text_add_format(Text *text, const char *format, ...) PRINTF_LIKE(2, 3);
void text_add_char(Text *text, char c);

const char *text_string(const Text *text);               // borrowed, never NULL
WARN_UNUSED bool text_ok(const Text *text, Error *error);  // false when an append was dropped
char *text_take(Text *text);   // the caller frees; NULL when failed; text is empty after

static inline void text_release_scope(Text *text) { text_done(text); }
#define SCOPED_TEXT __attribute__((cleanup(text_release_scope))) Text

// Copies with NUL; false (and an empty result) when it does not fit.
WARN_UNUSED bool text_copy(char *to, size_t to_size, const char *from);
// snprintf that reports truncation as false.
WARN_UNUSED bool text_print(char *to, size_t to_size, const char *format, ...) PRINTF_LIKE(3, 4);
char *text_duplicate(const char *string);   // the caller frees; NULL when out of memory or string is NULL

bool text_equal(const char *a, const char *b);            // NULL-safe
bool text_starts_with(const char *string, const char *prefix);
bool text_ends_with(const char *string, const char *suffix);

// Whole string or false: blanks before or after, a sign alone, overflow, hex and trailing bytes are refused.
// text_to_double accepts "nan"/"inf" only when it says so itself: it does not; both are refused.
bool text_to_int64(const char *string, int64_t *ret_value);
bool text_to_double(const char *string, double *ret_value);

// Shortest decimal (15 to 17 digits) that reads back to the same double; "nan", "inf", "-inf" otherwise. At
// least 32 bytes.
void text_from_double(char to[static 32], double value);

// 1234567 -> "1,234,567". At least 32 bytes.
void text_from_count(char to[static 32], int64_t value);

// Edit distance (insert, delete, replace, swap), capped at 16; for "did you mean".
int text_distance(const char *a, const char *b);

// The candidate nearest to `word` within a third of its length (at least 2 edits), or NULL.
// candidates[count].
const char *text_nearest(const char *word, const char *const *candidates, size_t count);

// Writes `string` with control bytes, DEL and invalid UTF-8 as \xHH so that one record stays one line.
void text_add_escaped(Text *text, const char *string);

// True for names we put into paths, SQL keys and metrics: [a-z0-9][a-z0-9._-]{0,63} and no "..".
bool text_is_name(const char *string);

#endif
