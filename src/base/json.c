// json - building JSON trees and asking them.
#include "json_internal.h"
#include "text_internal.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

static _Noreturn void end_without_memory(void)
{
    static const char message[] = "fedgate: out of memory\n";
    ssize_t written = write(STDERR_FILENO, message, sizeof message - 1);
    (void)written;
    _exit(70);
}

json_t *json_need(json_t *value)
{
    if (!value)
        end_without_memory();
    return value;
}

// `string` with ill-formed UTF-8 escaped; `room` holds the copy when one was necessary.
static const char *well_formed(const char *string, Text *room)
{
    const char *at = string;
    for (size_t length; (length = text_sequence_length(at)) > 0;)
        at += length;
    if (*at == '\0')
        return string;
    text_init(room, SIZE_MAX / 2);
    text_add_valid(room, string);
    if (room->failed)
        end_without_memory();
    return text_string(room);
}

Json *json_make_object(void)
{
    return (Json *)json_need(json_object());
}

Json *json_make_array(void)
{
    return (Json *)json_need(json_array());
}

Json *json_make_text(const char *string)
{
    if (!string)
        return (Json *)json_null();
    SCOPED_TEXT room = {0};
    return (Json *)json_need(json_string_nocheck(well_formed(string, &room)));
}

Json *json_make_number(double value)
{
    if (isfinite(value))
        return (Json *)json_need(json_real(value));
    return json_make_text(isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
}

Json *json_make_integer(int64_t value)
{
    return (Json *)json_need(json_integer(value));
}

Json *json_make_bool(bool value)
{
    return (Json *)(value ? json_true() : json_false());
}

Json *json_copy_deep(const Json *value)
{
    return value ? (Json *)json_need(json_deep_copy(json_tree(value))) : NULL;
}

void json_put(Json *object, const char *key, Json *value)
{
    if (!json_is_object(object))
        BUG("json member '%s' put into something that is not an object", key);
    SCOPED_TEXT room = {0};
    json_t *member = value ? json_tree(value) : json_null();
    if (json_object_set_new_nocheck(json_tree(object), well_formed(key, &room), member) != 0)
        end_without_memory();
}

void json_put_text(Json *object, const char *key, const char *string)
{
    json_put(object, key, json_make_text(string));
}

void json_put_number(Json *object, const char *key, double value)
{
    json_put(object, key, json_make_number(value));
}

void json_put_integer(Json *object, const char *key, int64_t value)
{
    json_put(object, key, json_make_integer(value));
}

void json_put_bool(Json *object, const char *key, bool value)
{
    json_put(object, key, json_make_bool(value));
}

void json_remove(Json *object, const char *key)
{
    json_object_del(json_tree(object), key);
}

void json_add(Json *array, Json *value)
{
    if (!json_is_array(array))
        BUG("json value added to something that is not an array");
    if (json_array_append_new(json_tree(array), value ? json_tree(value) : json_null()) != 0)
        end_without_memory();
}

void json_add_integer(Json *array, int64_t value)
{
    json_add(array, json_make_integer(value));
}

void json_add_number(Json *array, double value)
{
    json_add(array, json_make_number(value));
}

void json_add_text(Json *array, const char *string)
{
    json_add(array, json_make_text(string));
}

void json_free(Json *value)
{
    json_decref(json_tree(value));
}

static bool has_type(const Json *value, json_type type)
{
    return value && json_typeof(json_tree(value)) == type;
}

bool json_is_object(const Json *value) { return has_type(value, JSON_OBJECT); }
bool json_is_array(const Json *value) { return has_type(value, JSON_ARRAY); }
bool json_is_text(const Json *value) { return has_type(value, JSON_STRING); }
bool json_is_integer(const Json *value) { return has_type(value, JSON_INTEGER); }
bool json_is_bool(const Json *value) { return has_type(value, JSON_TRUE) || has_type(value, JSON_FALSE); }
bool json_is_null(const Json *value) { return has_type(value, JSON_NULL); }

static bool read_number(const Json *value, double *ret_number)
{
    static const struct {
        const char *text;
        double value;
    } named[] = {{"nan", NAN}, {"inf", INFINITY}, {"-inf", -INFINITY}};
    if (json_is_integer(value))
        return *ret_number = (double)json_integer_value(json_tree(value)), true;
    if (has_type(value, JSON_REAL))
        return *ret_number = json_real_value(json_tree(value)), true;
    for (size_t i = 0; json_is_text(value) && i < sizeof named / sizeof named[0]; i++)
        if (strcmp(json_string_value(json_tree(value)), named[i].text) == 0)
            return *ret_number = named[i].value, true;
    return false;
}

bool json_is_number(const Json *value)
{
    double ignored;
    return read_number(value, &ignored);
}

size_t json_count(const Json *value)
{
    return json_is_object(value) ? json_object_size(json_tree(value)) : json_array_size(json_tree(value));
}

const Json *json_at(const Json *array, size_t index)
{
    return (const Json *)json_array_get(json_tree(array), index);
}

const Json *json_get(const Json *object, const char *key)
{
    return (const Json *)json_object_get(json_tree(object), key);
}

const Json *json_find(const Json *object, const char *dotted)
{
    char key[256];
    const Json *at = object;
    while (at) {
        size_t length = strcspn(dotted, ".");
        if (length >= sizeof key)
            return NULL;
        memcpy(key, dotted, length);
        key[length] = '\0';
        at = json_get(at, key);
        if (dotted[length] == '\0')
            return at;
        dotted += length + 1;
    }
    return NULL;
}

const char *json_key_at(const Json *object, size_t index)
{
    void *member = json_object_iter(json_tree(object));
    while (member && index-- > 0)
        member = json_object_iter_next(json_tree(object), member);
    return member ? json_object_iter_key(member) : NULL;
}

bool json_same(const Json *a, const Json *b)
{
    return a == b || json_equal(json_tree(a), json_tree(b)) == 1;
}

const char *json_text_or(const Json *value, const char *fallback)
{
    return json_is_text(value) ? json_string_value(json_tree(value)) : fallback;
}

double json_number_or(const Json *value, double fallback)
{
    double number;
    return read_number(value, &number) ? number : fallback;
}

int64_t json_integer_or(const Json *value, int64_t fallback)
{
    return json_is_integer(value) ? json_integer_value(json_tree(value)) : fallback;
}

bool json_bool_or(const Json *value, bool fallback)
{
    return json_is_bool(value) ? has_type(value, JSON_TRUE) : fallback;
}

static bool refuse_member(const Json *member, const char *key, const char *wanted, Error *error)
{
    static const char *const names[] = {"an object", "an array", "a text", "an integer",
                                        "a number",  "true",     "false",  "null"};
    if (!member)
        return FAIL(error, ERROR_DATA, 0, "json member '%s' is missing, expected %s", key, wanted);
    return FAIL(error, ERROR_DATA, 0, "json member '%s' is %s, expected %s", key,
                names[json_typeof(json_tree(member))], wanted);
}

bool json_get_text(const Json *object, const char *key, const char **ret_string, Error *error)
{
    const Json *member = json_get(object, key);
    if (!json_is_text(member))
        return refuse_member(member, key, "a text", error);
    *ret_string = json_text_or(member, "");
    return true;
}

bool json_get_number(const Json *object, const char *key, double *ret_value, Error *error)
{
    const Json *member = json_get(object, key);
    return read_number(member, ret_value) || refuse_member(member, key, "a number", error);
}

bool json_get_integer(const Json *object, const char *key, int64_t *ret_value, Error *error)
{
    const Json *member = json_get(object, key);
    if (!json_is_integer(member))
        return refuse_member(member, key, "an integer", error);
    *ret_value = json_integer_or(member, 0);
    return true;
}

bool json_get_bool(const Json *object, const char *key, bool *ret_value, Error *error)
{
    const Json *member = json_get(object, key);
    if (!json_is_bool(member))
        return refuse_member(member, key, "true or false", error);
    *ret_value = json_bool_or(member, false);
    return true;
}
