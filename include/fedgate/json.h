// json.h - JSON values: bounded reading, building, and one canonical way of writing.
//
// Reading takes its maximum at birth, refuses duplicate keys, more than 64 levels and trailing bytes. Writing
// is canonical: keys in the order they were put, no blanks (or two-space indent), doubles in their shortest
// exact form; the same tree always gives the same bytes. JSON has no NaN or infinity: json_put_number writes
// those as the strings "nan", "inf", "-inf" and json_get_number reads the strings back, so that bad evidence
// stays visible as bad. Building never fails visibly: out of host memory while building ends the process with
// code 70, as a kill would, which every protocol on disk survives by design.
#ifndef FEDGATE_JSON_H
#define FEDGATE_JSON_H

#include <fedgate/text.h>

typedef struct Json Json;

// -- make
Json *json_make_object(void);
Json *json_make_array(void);
Json *json_make_text(const char *string);   // NULL gives null; invalid UTF-8 is escaped as \xHH
Json *json_make_number(double value);
Json *json_make_integer(int64_t value);
Json *json_make_bool(bool value);
Json *json_copy_deep(const Json *value);
WARN_UNUSED Json *json_parse(const char *bytes, size_t length, size_t maximum, Error *error);   // ERROR_DATA
// ERROR_IO or ERROR_DATA, path named.
WARN_UNUSED Json *json_read_file(const char *path, size_t maximum, Error *error);

// -- fill; a put on an existing key replaces it; `value` of json_put and json_add is consumed
void json_put(Json *object, const char *key, Json *value);   // NULL value gives null
void json_put_text(Json *object, const char *key, const char *string);
void json_put_number(Json *object, const char *key, double value);
void json_put_integer(Json *object, const char *key, int64_t value);
void json_put_bool(Json *object, const char *key, bool value);
void json_remove(Json *object, const char *key);
void json_add(Json *array, Json *value);
void json_add_integer(Json *array, int64_t value);
void json_add_number(Json *array, double value);
void json_add_text(Json *array, const char *string);

// -- ask; all accept NULL and answer "no"
bool json_is_object(const Json *value);
bool json_is_array(const Json *value);
bool json_is_text(const Json *value);
bool json_is_number(const Json *value);   // integer, real, or the strings "nan" "inf" "-inf"
bool json_is_integer(const Json *value);
bool json_is_bool(const Json *value);
bool json_is_null(const Json *value);     // null itself, not an absent key
size_t json_count(const Json *value);     // members of an object or array, else 0
const Json *json_at(const Json *array, size_t index);
const Json *json_get(const Json *object, const char *key);        // NULL when absent
const Json *json_find(const Json *object, const char *dotted);    // "timeline.steps.copy_ns"
const char *json_key_at(const Json *object, size_t index);   // keys in order; NULL past the end. O(index).
bool json_same(const Json *a, const Json *b);   // deep; member order ignored, 1 and 1.0 differ

// value or fallback when absent or of another type
const char *json_text_or(const Json *value, const char *fallback);
double json_number_or(const Json *value, double fallback);
int64_t json_integer_or(const Json *value, int64_t fallback);
bool json_bool_or(const Json *value, bool fallback);

// required member: false with ERROR_DATA naming key and type found
WARN_UNUSED bool json_get_text(const Json *object, const char *key, const char **ret_string, Error *error);
WARN_UNUSED bool json_get_number(const Json *object, const char *key, double *ret_value, Error *error);
WARN_UNUSED bool json_get_integer(const Json *object, const char *key, int64_t *ret_value, Error *error);
WARN_UNUSED bool json_get_bool(const Json *object, const char *key, bool *ret_value, Error *error);

// -- write
typedef enum JsonStyle { JSON_COMPACT, JSON_INDENTED } JsonStyle;
void json_write(const Json *value, JsonStyle style, Text *out);   // no newline at the end
// Atomic, newline at the end, mode 0640.
WARN_UNUSED bool json_write_file(const Json *value, JsonStyle style, const char *path, Error *error);

// -- free
void json_free(Json *value);   // NULL allowed
OWNED_RELEASE(Json, json_free)

#endif
