// schema - what each column is: role, missing tokens, labels, from the options data.* and the header.
#include "input_internal.h"

#include <fedgate/fault.h>
#include <fedgate/text.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const char *const role_names[] = {
    [ROLE_NONE] = "unused",
    [ROLE_NUMERIC] = "numeric",
    [ROLE_CATEGORICAL] = "categorical",
    [ROLE_TARGET] = "target",
};

const char *role_name(ColumnRole role)
{
    return role_names[role];
}

size_t schema_find(const Schema *schema, const char *name)
{
    for (size_t i = 0; i < schema->count; i++)
        if (text_equal(schema->columns[i].name, name))
            return i;
    return SIZE_MAX;
}

static bool out_of_memory(Error *error)
{
    return FAIL(error, ERROR_MEMORY, 0, "out of memory for the schema");
}

static bool schema_name_columns(Schema *schema, const Config *config, const Field *header,
                                size_t header_count, Error *error)
{
    size_t count = header ? header_count : config_list_count(config, "data.columns");
    if (count == 0)
        return FAIL(error, ERROR_CONFIG, 0, "data.header is false and data.columns names no column");
    if (count > COLUMNS_MAX)
        return FAIL(error, ERROR_DATA, 0, "data has %zu columns, more than %d", count, COLUMNS_MAX);
    schema->columns = calloc(count, sizeof *schema->columns);
    if (!schema->columns)
        return out_of_memory(error);
    schema->count = count;
    for (size_t i = 0; i < count; i++) {
        char **name = &schema->columns[i].name;
        *name = header ? strndup(header[i].text, header[i].length)
                       : text_duplicate(config_list_text(config, "data.columns", i));
        if (!*name)
            return out_of_memory(error);
        if (**name != '\0' && schema_find(schema, *name) != i)
            return FAIL(error, ERROR_DATA, 0, "column '%s' is named twice in the header", *name);
    }
    return true;
}

// The column an option names; an absent one is bad data, with the nearest name as a hint.
static bool schema_need(const Schema *schema, const char *option, const char *name, size_t *ret_column,
                        Error *error)
{
    size_t at = schema_find(schema, name);
    if (at != SIZE_MAX) {
        *ret_column = at;
        return true;
    }
    FAIL(error, ERROR_DATA, 0, "column '%s' of option '%s' is not in the data", name, option);
    const char **names = calloc(schema->count, sizeof *names);
    for (size_t i = 0; names && i < schema->count; i++)
        names[i] = schema->columns[i].name;
    const char *nearest = names ? text_nearest(name, names, schema->count) : NULL;
    if (nearest)
        error_hint(error, "Did you mean column '%s'?", nearest);
    else if (schema->count == 1)
        error_hint(error, "The data has one column, '%.60s': is option 'data.delimiter' right?",
                   schema->columns[0].name);
    free(names);
    return false;
}

static bool schema_give_role(Schema *schema, const char *option, const char *name, ColumnRole role,
                             Error *error)
{
    size_t at = SIZE_MAX;
    if (!schema_need(schema, option, name, &at, error))
        return false;
    ColumnRole old = schema->columns[at].role;
    if (old != ROLE_NONE)
        return FAIL(error, ERROR_CONFIG, 0, "column '%s' of option '%s' is already %s", name, option,
                    role_name(old));
    schema->columns[at].role = role;
    return true;
}

static bool schema_give_roles(Schema *schema, const Config *config, Error *error)
{
    static const struct {
        const char *option;
        ColumnRole role;
    } lists[] = {
        {"data.numeric", ROLE_NUMERIC},
        {"data.categorical", ROLE_CATEGORICAL},
    };
    const char *target = config_text(config, "data.target");
    if (!schema_give_role(schema, "data.target", target, ROLE_TARGET, error))
        return false;
    schema->target = schema_find(schema, target);
    size_t features = 0;
    for (size_t l = 0; l < sizeof lists / sizeof lists[0]; l++) {
        size_t count = config_list_count(config, lists[l].option);
        for (size_t i = 0; i < count; i++)
            if (!schema_give_role(schema, lists[l].option, config_list_text(config, lists[l].option, i),
                                  lists[l].role, error))
                return false;
        features += count;
    }
    if (features == 0)
        return FAIL(
            error, ERROR_CONFIG, 0,
            "options 'data.numeric' and 'data.categorical' name no column: there is nothing to learn from");
    for (size_t i = 0; i < config_list_count(config, "data.forbidden"); i++) {
        size_t at = schema_find(schema, config_list_text(config, "data.forbidden", i));
        if (at != SIZE_MAX)
            schema->columns[at].forbidden = true;
    }
    static const struct {
        const char *option;
        size_t place;
    } places[] = {
        {"data.row_id", offsetof(Schema, row_id)},
        {"data.cutoff_column", offsetof(Schema, cutoff)},
    };
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        const char *name = config_text(config, places[i].option);
        size_t *place = (size_t *)(void *)((char *)schema + places[i].place);
        if (*name != '\0' && !schema_need(schema, places[i].option, name, place, error))
            return false;
    }
    return true;
}

static bool column_add_missing(SchemaColumn *column, const char *token)
{
    Missing *grown = realloc(column->missing, (column->missing_count + 1) * sizeof *grown);
    char *copy = text_duplicate(token);
    if (grown)
        column->missing = grown;
    if (!grown || !copy) {
        free(copy);
        return false;
    }
    grown[column->missing_count++] = (Missing){copy, strlen(copy)};
    return true;
}

// COLUMN=TOKEN, cut at the first '='; COLUMN '*' stands for every column but the target.
static bool schema_read_missing(Schema *schema, const Config *config, Error *error)
{
    for (size_t i = 0; i < config_list_count(config, "data.missing"); i++) {
        const char *item = config_list_text(config, "data.missing", i);
        const char *equals = strchr(item, '=');
        char name[256];
        if (!equals || !text_print(name, sizeof name, "%.*s", (int)(equals - item), item))
            return FAIL(error, ERROR_CONFIG, 0, "item '%s' of option 'data.missing' is not COLUMN=TOKEN",
                        item);
        bool every = text_equal(name, "*");
        size_t only = SIZE_MAX;
        if (!every && !schema_need(schema, "data.missing", name, &only, error))
            return false;
        for (size_t c = 0; c < schema->count; c++)
            if ((every ? c != schema->target : c == only) &&
                !column_add_missing(&schema->columns[c], equals + 1))
                return out_of_memory(error);
    }
    return true;
}

// TOKEN=CLASS, cut at the last '=' so that a token may hold one.
static bool schema_read_labels(Schema *schema, const Config *config, Error *error)
{
    size_t count = config_list_count(config, "data.labels");
    if (count == 0)
        return true;
    if (schema->task == TASK_REGRESSION)
        return FAIL(error, ERROR_CONFIG, 0, "option 'data.labels' has no meaning for a regression task");
    schema->label_class = calloc(count, sizeof *schema->label_class);
    bool *seen = calloc(count, sizeof *seen);
    bool good = schema->label_class && seen ? true : out_of_memory(error);
    int64_t classes = 0;
    for (size_t i = 0; good && i < count; i++) {
        const char *item = config_list_text(config, "data.labels", i), *equals = strrchr(item, '=');
        int64_t class;
        int32_t code;
        if (!equals || !text_to_int64(equals + 1, &class) || class < 0 || class >= (int64_t)count)
            good = FAIL(error, ERROR_CONFIG, 0,
                        "item '%s' of option 'data.labels' is not TOKEN=CLASS with a class from 0 to %zu",
                        item, count - 1);
        else if (dictionary_find(&schema->labels, item, (size_t)(equals - item)) >= 0)
            good = FAIL(error, ERROR_CONFIG, 0, "label '%.*s' is given twice in option 'data.labels'",
                        (int)(equals - item), item);
        else if (!dictionary_add(&schema->labels, item, (size_t)(equals - item), 0, &code))
            good = out_of_memory(error);
        else {
            schema->label_class[code] = (int32_t) class;
            seen[class] = true;
            classes = class + 1 > classes ? class + 1 : classes;
        }
    }
    for (int64_t c = 0; good && c < classes; c++)
        if (!seen[c])
            good = FAIL(error, ERROR_CONFIG, 0,
                        "option 'data.labels' names class %lld but no label of class %lld",
                        (long long)classes - 1, (long long)c);
    free(seen);
    if (good && (classes < 2 || (schema->task == TASK_BINARY && classes != 2)))
        return FAIL(error, ERROR_CONFIG, 0, "option 'data.labels' names %lld classes, but the task is %s",
                    (long long)classes, config_text(config, "task"));
    schema->classes = (int)classes;
    return good;
}

static bool schema_fill(Schema *schema, const Config *config, const Field *header, size_t header_count,
                        Error *error)
{
    if (!schema_name_columns(schema, config, header, header_count, error) ||
        !schema_give_roles(schema, config, error) || !schema_read_missing(schema, config, error) ||
        !schema_read_labels(schema, config, error))
        return false;
    const char *cutoff = config_text(config, "data.cutoff");
    if (*cutoff != '\0' && schema->cutoff == SIZE_MAX)
        return FAIL(error, ERROR_CONFIG, 0, "option 'data.cutoff' needs 'data.cutoff_column'");
    if (*cutoff != '\0' && !(schema->cutoff_value = text_duplicate(cutoff)))
        return out_of_memory(error);
    double dropped = fault_value("input.drop_column", -1);
    if (dropped >= 0 && dropped < (double)schema->count)
        schema->columns[(size_t)dropped].dropped = schema->columns[(size_t)dropped].role != ROLE_TARGET;
    return true;
}

bool schema_format(const Config *config, CsvFormat *ret_format, Error *error)
{
    const char *delimiter = config_text(config, "data.delimiter");
    bool tab = text_equal(delimiter, "tab");
    if (!tab && (strlen(delimiter) != 1 || strchr("\"\r\n", delimiter[0])))
        return FAIL(error, ERROR_CONFIG, 0,
                    "option 'data.delimiter' must be one character or 'tab', not '%s'", delimiter);
    *ret_format = (CsvFormat){tab ? '\t' : delimiter[0], config_bool(config, "data.trim")};
    return true;
}

bool schema_make(const Config *config, const Field *header, size_t header_count, Schema *ret_schema,
                 Error *error)
{
    static const struct {
        const char *name;
        TaskKind task;
    } tasks[] = {
        {"binary", TASK_BINARY},
        {"multiclass", TASK_MULTICLASS},
        {"regression", TASK_REGRESSION},
    };
    Schema schema = {.target = SIZE_MAX, .row_id = SIZE_MAX, .cutoff = SIZE_MAX};
    for (size_t i = 0; i < sizeof tasks / sizeof tasks[0]; i++)
        if (text_equal(config_text(config, "task"), tasks[i].name))
            schema.task = tasks[i].task;
    if (!schema_format(config, &schema.format, error))
        return false;
    if (!schema_fill(&schema, config, header, header_count, error)) {
        schema_done(&schema);
        return false;
    }
    *ret_schema = schema;
    return true;
}

void schema_done(Schema *schema)
{
    for (size_t c = 0; c < schema->count; c++) {
        for (size_t m = 0; m < schema->columns[c].missing_count; m++)
            free(schema->columns[c].missing[m].text);
        free(schema->columns[c].missing);
        free(schema->columns[c].name);
    }
    free(schema->columns);
    free(schema->cutoff_value);
    free(schema->label_class);
    dictionary_done(&schema->labels);
    *schema = (Schema){0};
}

bool schema_missing(const SchemaColumn *column, const Field *field)
{
    for (size_t i = 0; i < column->missing_count; i++)
        if (column->missing[i].length == field->length &&
            memcmp(column->missing[i].text, field->text, field->length) == 0)
            return true;
    return column->dropped;
}

bool schema_label(const Schema *schema, const Field *field, double *ret_target)
{
    if (schema->labels.count > 0) {
        int32_t code = dictionary_find(&schema->labels, field->text, field->length);
        if (code >= 0)
            *ret_target = schema->label_class[code];
        return code >= 0;
    }
    double value;
    if (!number_parse(field->text, field->length, &value))
        return false;
    if (schema->task != TASK_REGRESSION &&
        (value < 0 || value != floor(value) || value >= (schema->task == TASK_BINARY ? 2 : CLASSES_MAX)))
        return false;
    *ret_target = value;
    return true;
}

int schema_compare(const Field *a, const char *b, size_t b_length)
{
    double x, y;
    if (number_parse(a->text, a->length, &x) && number_parse(b, b_length, &y))
        return (x > y) - (x < y);
    int order = memcmp(a->text, b, a->length < b_length ? a->length : b_length);
    return order != 0 ? order : (a->length > b_length) - (a->length < b_length);
}
