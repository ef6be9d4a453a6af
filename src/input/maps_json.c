// maps_json - maps as they are sealed in a release, "fedgate.maps/1": what is read back is what was written,
// to the bit.
//
// A category is a text, or {"hex": "..."} when its bytes are not plain UTF-8 text. The number in the schema
// rises when a member is removed or gets another meaning, not when one is added.
#include "input_internal.h"

#include <fedgate/text.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char schema_text[] = "fedgate.maps/1";
enum { CATEGORY_MAX = RECORD_MAX };

static const char *const transform_names[] = {
    [TRANSFORM_STANDARD] = "standard", [TRANSFORM_QUANTILE] = "quantile-normal"};

static Json *numbers_to_json(const double *values, size_t count)
{
    Json *array = json_make_array();
    for (size_t i = 0; i < count; i++)
        json_add_number(array, values[i]);
    return array;
}

// [index, first, last] of every knot that stands for more than one rank.
static Json *ties_to_json(const NumericMap *map)
{
    Json *ties = json_make_array();
    for (size_t i = 0; i < map->knots; i++) {
        if (map->first[i] == map->normal[i] && map->last[i] == map->normal[i])
            continue;
        Json *tie = json_make_array();
        json_add_integer(tie, (int64_t)i);
        json_add_number(tie, map->first[i]);
        json_add_number(tie, map->last[i]);
        json_add(ties, tie);
    }
    return ties;
}

Json *category_to_json(const char *text, size_t length)
{
    SCOPED_TEXT escaped;
    text_init(&escaped, 4 * (size_t)CATEGORY_MAX + 1);
    text_add_escaped(&escaped, text);
    if (escaped.length == length && text_equal(text_string(&escaped), text))
        return json_make_text(text);
    SCOPED_TEXT hex;
    text_init(&hex, 2 * (size_t)CATEGORY_MAX + 1);
    for (size_t i = 0; i < length; i++)
        text_add_format(&hex, "%02x", (unsigned)(unsigned char)text[i]);
    Json *object = json_make_object();
    json_put_text(object, "hex", text_string(&hex));
    return object;
}

Json *maps_to_json(const Maps *maps)
{
    Json *json = json_make_object(), *numeric = json_make_array(), *categorical = json_make_array(),
         *target = json_make_object();
    json_put_text(json, "schema", schema_text);
    json_put_text(json, "task", task_name(maps->task));
    json_put_text(json, "transform", transform_names[maps->transform]);
    for (size_t i = 0; i < maps->numeric_count; i++) {
        const NumericMap *map = &maps->numeric[i];
        Json *row = json_make_object();
        json_put_text(row, "name", map->name);
        json_put_number(row, "mean", map->mean);
        json_put_number(row, "deviation", map->deviation);
        json_put_number(row, "median", map->median);
        json_put_number(row, "low", map->low);
        json_put_number(row, "high", map->high);
        json_put_bool(row, "constant", map->constant);
        json_put_bool(row, "missing_flag", map->flag);
        json_put(row, "knots", numbers_to_json(map->knot, map->knots));
        json_put(row, "normal", numbers_to_json(map->normal, map->knots));
        json_put(row, "ties", ties_to_json(map));
        json_add(numeric, row);
    }
    for (size_t i = 0; i < maps->categorical_count; i++) {
        const CategoryMap *map = &maps->categorical[i];
        Json *row = json_make_object(), *values = json_make_array();
        for (size_t k = 0; k < map->codes.count; k++)
            json_add(values, category_to_json(map->codes.keys[k], map->codes.lengths[k]));
        json_put_text(row, "name", map->name);
        json_put(row, "values", values);
        json_add(categorical, row);
    }
    json_put_number(target, "mean", maps->target_mean);
    json_put_number(target, "deviation", maps->target_deviation);
    json_put(json, "numeric", numeric);
    json_put(json, "categorical", categorical);
    json_put(json, "target", target);
    return json;
}

static bool choose(const Json *json, const char *key, const char *const *names, size_t count, int *ret_index,
                   Error *error)
{
    const char *name;
    if (!json_get_text(json, key, &name, error))
        return false;
    for (size_t i = 0; i < count; i++)
        if (text_equal(name, names[i])) {
            *ret_index = (int)i;
            return true;
        }
    return FAIL(error, ERROR_DATA, 0, "'%s' is not a known %s", name, key);
}

static bool finite_from_json(const Json *json, const char *key, double *ret_value, Error *error)
{
    if (!json_get_number(json, key, ret_value, error))
        return false;
    return isfinite(*ret_value) ? true : FAIL(error, ERROR_DATA, 0, "'%s' is not finite", key);
}

static bool name_from_json(const Json *row, char **ret_name, Error *error)
{
    const char *name;
    if (!json_get_text(row, "name", &name, error))
        return false;
    *ret_name = text_duplicate(name);
    return *ret_name ? true : FAIL(error, ERROR_MEMORY, 0, "out of memory");
}

static bool knots_from_json(const Json *row, NumericMap *map, TransformKind transform, Error *error)
{
    const Json *knots = json_get(row, "knots"), *normal = json_get(row, "normal");
    size_t count = json_count(knots);
    bool needed = transform == TRANSFORM_QUANTILE && !map->constant;
    if (!json_is_array(knots) || !json_is_array(normal) || json_count(normal) != count ||
        (needed && count < 2))
        return FAIL(error, ERROR_DATA, 0, "column '%s' has no matching lists of knots and normal values",
                    map->name);
    map->knot = calloc(count + 1, sizeof *map->knot);
    map->normal = calloc(count + 1, sizeof *map->normal);
    map->first = calloc(count + 1, sizeof *map->first);
    map->last = calloc(count + 1, sizeof *map->last);
    if (!map->knot || !map->normal || !map->first || !map->last)
        return FAIL(error, ERROR_MEMORY, 0, "out of memory");
    map->knots = count;
    for (size_t i = 0; i < count; i++) {
        map->knot[i] = json_number_or(json_at(knots, i), NAN);
        map->normal[i] = map->first[i] = map->last[i] = json_number_or(json_at(normal, i), NAN);
        if (!isfinite(map->knot[i]) || !isfinite(map->normal[i]) ||
            (i > 0 && !(map->knot[i] > map->knot[i - 1])))
            return FAIL(error, ERROR_DATA, 0, "column '%s' has a knot out of order or not finite, at %zu",
                        map->name, i);
    }
    const Json *ties = json_get(row, "ties");
    for (size_t t = 0; t < json_count(ties); t++) {
        const Json *tie = json_at(ties, t);
        int64_t at = json_integer_or(json_at(tie, 0), -1);
        double first = json_number_or(json_at(tie, 1), NAN), last = json_number_or(json_at(tie, 2), NAN);
        if (at < 0 || at >= (int64_t)count ||
            !(first <= map->normal[at] && map->normal[at] <= last && isfinite(first) && isfinite(last)))
            return FAIL(error, ERROR_DATA, 0, "column '%s' has a tie that does not enclose its knot, at %zu",
                        map->name, t);
        map->first[at] = first;
        map->last[at] = last;
    }
    return true;
}

static bool numeric_from_json(const Json *row, NumericMap *map, TransformKind transform, Error *error)
{
    if (!name_from_json(row, &map->name, error) || !finite_from_json(row, "mean", &map->mean, error) ||
        !finite_from_json(row, "deviation", &map->deviation, error) ||
        !finite_from_json(row, "median", &map->median, error) ||
        !finite_from_json(row, "low", &map->low, error) ||
        !finite_from_json(row, "high", &map->high, error) ||
        !json_get_bool(row, "constant", &map->constant, error) ||
        !json_get_bool(row, "missing_flag", &map->flag, error))
        return false;
    if (!map->constant && !(map->deviation > 0))
        return FAIL(error, ERROR_DATA, 0, "column '%s' has deviation %g", map->name, map->deviation);
    return knots_from_json(row, map, transform, error);
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool category_from_json(const Json *value, Dictionary *codes, Error *error)
{
    const char *text = json_text_or(value, NULL), *hex = json_text_or(json_get(value, "hex"), NULL);
    size_t length = text ? strlen(text) : hex ? strlen(hex) / 2 : 0;
    char *bytes = malloc(length + 1);
    if (!bytes)
        return FAIL(error, ERROR_MEMORY, 0, "out of memory");
    bool good = text || hex;
    if (text)
        memcpy(bytes, text, length);
    else
        for (size_t i = 0; good && i < length; i++) {
            int high = hex_digit(hex[2 * i]), low = hex_digit(hex[2 * i + 1]);
            good = high >= 0 && low >= 0;
            bytes[i] = (char)(high * 16 + low);
        }
    size_t expected = codes->count;
    int32_t code = -1;
    if (!good)
        FAIL(error, ERROR_DATA, 0, "category %zu is neither a text nor hex", expected);
    else if (!dictionary_add(codes, bytes, length, 1, &code))
        good = FAIL(error, ERROR_MEMORY, 0, "out of memory");
    else if (code != (int32_t)expected)
        good = FAIL(error, ERROR_DATA, 0, "category %zu is there twice", expected);
    free(bytes);
    return good;
}

static bool fill_from_json(Maps *maps, const Json *json, Error *error)
{
    const char *schema;
    const char *const task_names[] = {task_name(TASK_BINARY), task_name(TASK_MULTICLASS),
                                      task_name(TASK_REGRESSION)};
    int task = 0, transform = 0;
    if (!json_get_text(json, "schema", &schema, error))
        return false;
    if (!text_equal(schema, schema_text))
        return FAIL(error, ERROR_DATA, 0, "maps have schema '%s', this program reads '%s'", schema,
                    schema_text);
    if (!choose(json, "task", task_names, sizeof task_names / sizeof task_names[0], &task, error) ||
        !choose(json, "transform", transform_names, sizeof transform_names / sizeof transform_names[0],
                &transform, error))
        return false;
    maps->task = (TaskKind)task;
    maps->transform = (TransformKind)transform;
    const Json *numeric = json_get(json, "numeric"), *categorical = json_get(json, "categorical"),
               *target = json_get(json, "target");
    if (!finite_from_json(target, "mean", &maps->target_mean, error) ||
        !finite_from_json(target, "deviation", &maps->target_deviation, error))
        return false;
    maps->numeric = calloc(json_count(numeric) + 1, sizeof *maps->numeric);
    maps->categorical = calloc(json_count(categorical) + 1, sizeof *maps->categorical);
    if (!maps->numeric || !maps->categorical)
        return FAIL(error, ERROR_MEMORY, 0, "out of memory");
    for (size_t i = 0; i < json_count(numeric); i++) {
        maps->numeric_count++;
        if (!numeric_from_json(json_at(numeric, i), &maps->numeric[i], maps->transform, error))
            return false;
        maps->flag_count += maps->numeric[i].flag;
    }
    for (size_t i = 0; i < json_count(categorical); i++) {
        CategoryMap *map = &maps->categorical[i];
        maps->categorical_count++;
        if (!name_from_json(json_at(categorical, i), &map->name, error))
            return false;
        const Json *values = json_get(json_at(categorical, i), "values");
        for (size_t k = 0; k < json_count(values); k++)
            if (!category_from_json(json_at(values, k), &map->codes, error))
                return error_prefix(error, "column '%s'", map->name);
    }
    return true;
}

Maps *maps_from_json(const Json *json, Error *error)
{
    Maps *maps = calloc(1, sizeof *maps);
    if (!maps) {
        FAIL(error, ERROR_MEMORY, 0, "out of memory");
        return NULL;
    }
    if (fill_from_json(maps, json, error))
        return maps;
    error_prefix(error, "maps");
    maps_free(maps);
    return NULL;
}
