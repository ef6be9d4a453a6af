// json_text - bounded reading and canonical writing of JSON text.
#include "json_internal.h"

#include <fedgate/file.h>
#include <string.h>

enum { JSON_LEVELS = 64, JSON_FILE_BYTES = 1 << 30 };

// `level` containers hold one another, `value` being the innermost so far.
static bool too_deep(json_t *value, int level)
{
    if (json_typeof(value) != JSON_OBJECT && json_typeof(value) != JSON_ARRAY)
        return false;
    if (level > JSON_LEVELS)
        return true;
    for (void *member = json_object_iter(value); member; member = json_object_iter_next(value, member))
        if (too_deep(json_object_iter_value(member), level + 1))
            return true;
    for (size_t i = 0; i < json_array_size(value); i++)
        if (too_deep(json_array_get(value, i), level + 1))
            return true;
    return false;
}

Json *json_parse(const char *bytes, size_t length, size_t maximum, Error *error)
{
    if (length > maximum) {
        FAIL(error, ERROR_DATA, 0, "json text has %zu bytes, the limit is %zu", length, maximum);
        return NULL;
    }
    json_error_t reason;
    json_t *value =
        json_loadb(length > 0 ? bytes : "", length, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &reason);
    if (!value) {
        SCOPED_TEXT shown;
        text_init(&shown, 4 * sizeof reason.text);
        text_add_escaped(&shown, reason.text);
        FAIL(error, ERROR_DATA, 0, "cannot read json text at line %d column %d: %s", reason.line,
             reason.column, text_string(&shown));
        return NULL;
    }
    if (too_deep(value, 1)) {
        json_decref(value);
        FAIL(error, ERROR_DATA, 0, "json text is nested deeper than %d levels", JSON_LEVELS);
        return NULL;
    }
    return (Json *)value;
}

Json *json_read_file(const char *path, size_t maximum, Error *error)
{
    SCOPED_TEXT text;
    text_init(&text, maximum);
    if (!file_read(path, &text, error))
        return NULL;
    Json *value = json_parse(text_string(&text), text.length, maximum, error);
    if (!value)
        error_prefix(error, "file '%s'", path);
    return value;
}

static void write_string(const char *string, size_t length, Text *out)
{
    text_add_char(out, '"');
    for (size_t i = 0; i < length;) {
        size_t plain = i;
        while (plain < length && (unsigned char)string[plain] >= 0x20 && string[plain] != '"' &&
               string[plain] != '\\')
            plain++;
        text_add_bytes(out, string + i, plain - i);
        if (plain < length) {
            char c = string[plain++];
            if (c == '"' || c == '\\')
                text_add_format(out, "\\%c", c);
            else if (c == '\n')
                text_add(out, "\\n");
            else if (c == '\t')
                text_add(out, "\\t");
            else
                text_add_format(out, "\\u%04x", (unsigned)c);
        }
        i = plain;
    }
    text_add_char(out, '"');
}

static void write_real(double value, Text *out)
{
    char digits[32];
    text_from_double(digits, value);
    text_add(out, digits);
    if (!strpbrk(digits, ".e"))
        text_add(out, ".0");   // a real reads back as a real
}

static void write_break(JsonStyle style, int level, Text *out)
{
    if (style == JSON_INDENTED)
        text_add_format(out, "\n%*s", 2 * level, "");
}

static void write_value(json_t *value, JsonStyle style, int level, Text *out);

static void write_object(json_t *object, JsonStyle style, int level, Text *out)
{
    text_add_char(out, '{');
    bool first = true;
    for (void *member = json_object_iter(object); member; member = json_object_iter_next(object, member)) {
        if (!first)
            text_add_char(out, ',');
        first = false;
        write_break(style, level + 1, out);
        const char *key = json_object_iter_key(member);
        write_string(key, strlen(key), out);
        text_add(out, style == JSON_INDENTED ? ": " : ":");
        write_value(json_object_iter_value(member), style, level + 1, out);
    }
    if (!first)
        write_break(style, level, out);
    text_add_char(out, '}');
}

static void write_array(json_t *array, JsonStyle style, int level, Text *out)
{
    text_add_char(out, '[');
    for (size_t i = 0; i < json_array_size(array); i++) {
        if (i > 0)
            text_add_char(out, ',');
        write_break(style, level + 1, out);
        write_value(json_array_get(array, i), style, level + 1, out);
    }
    if (json_array_size(array) > 0)
        write_break(style, level, out);
    text_add_char(out, ']');
}

static void write_value(json_t *value, JsonStyle style, int level, Text *out)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT: write_object(value, style, level, out); break;
    case JSON_ARRAY: write_array(value, style, level, out); break;
    case JSON_STRING: write_string(json_string_value(value), json_string_length(value), out); break;
    case JSON_INTEGER: text_add_format(out, "%lld", (long long)json_integer_value(value)); break;
    case JSON_REAL: write_real(json_real_value(value), out); break;
    case JSON_TRUE: text_add(out, "true"); break;
    case JSON_FALSE: text_add(out, "false"); break;
    case JSON_NULL: text_add(out, "null"); break;
    }
}

void json_write(const Json *value, JsonStyle style, Text *out)
{
    if (value)
        write_value(json_tree(value), style, 0, out);
    else
        text_add(out, "null");
}

bool json_write_file(const Json *value, JsonStyle style, const char *path, Error *error)
{
    SCOPED_TEXT text;
    text_init(&text, JSON_FILE_BYTES);
    json_write(value, style, &text);
    text_add_char(&text, '\n');
    if (!text_ok(&text, error))
        return error_prefix(error, "file '%s'", path);
    return file_write_atomic(path, text.data, text.length, 0640, error);
}
