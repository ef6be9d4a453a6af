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

static const char *const task_names[] = {
    [TASK_BINARY] = "binary",
    [TASK_MULTICLASS] = "multiclass",
    [TASK_REGRESSION] = "regression",
};

const char *task_name(TaskKind task)
{
    return task_names[task];
}

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

typedef struct FeatureList {
    const char *option;
    ColumnRole role;
    size_t **columns, *count;
} FeatureList;

static bool schema_list_features(Schema *schema, const Config *config, const FeatureList *list,
                                 const ColumnRole *roles, Error *error)
{
    size_t wanted = config_list_count(config, list->option);
    size_t *columns = *list->columns = calloc(wanted + schema->count + 1, sizeof *columns);
    if (!columns)
        return out_of_memory(error);
    for (size_t i = 0; i < wanted; i++) {
        const char *name = config_list_text(config, list->option, i);
        if (!schema_give_role(schema, list->option, name, list->role, error))
            return false;
        columns[(*list->count)++] = schema_find(schema, name);
    }
    for (size_t c = 0; roles && c < schema->count; c++)
        if (roles[c] == list->role) {
            schema->columns[c].role = list->role;
            columns[(*list->count)++] = c;
        }
    return true;
}

bool schema_give_roles(Schema *schema, const Config *config, const ColumnRole *roles, Error *error)
{
    const FeatureList lists[] = {
        {"data.numeric", ROLE_NUMERIC, &schema->numeric, &schema->numeric_count},
        {"data.categorical", ROLE_CATEGORICAL, &schema->categorical, &schema->categorical_count},
    };
    const char *target = config_text(config, "data.target");
    size_t named = config_list_count(config, "data.numeric") + config_list_count(config, "data.categorical");
    if (*target == '\0')
        return FAIL(error, ERROR_CONFIG, 0, "option 'data.target' names no column");
    if (!schema_give_role(schema, "data.target", target, ROLE_TARGET, error))
        return false;
    schema->target = schema_find(schema, target);
    for (size_t l = 0; l < sizeof lists / sizeof lists[0]; l++)
        if (!schema_list_features(schema, config, &lists[l], named == 0 ? roles : NULL, error))
            return false;
    if (schema->numeric_count + schema->categorical_count == 0)
        return FAIL(
            error, ERROR_CONFIG, 0,
            "options 'data.numeric' and 'data.categorical' name no column: there is nothing to learn from");
    for (size_t i = 0; i < config_list_count(config, "data.forbidden"); i++) {
        size_t at = schema_find(schema, config_list_text(config, "data.forbidden", i));
        if (at != SIZE_MAX)
            schema->columns[at].forbidden = true;
    }
    return true;
}

bool schema_find_place(const Schema *schema, const Config *config, const char *option, size_t *ret_column,
                       Error *error)
{
    const char *name = config_text(config, option);
    return *name == '\0' || schema_need(schema, option, name, ret_column, error);
}

bool schema_add_missing(SchemaColumn *column, const char *token, Error *error)
{
    Missing *grown = realloc(column->missing, (column->missing_count + 1) * sizeof *grown);
    char *copy = text_duplicate(token);
    if (grown)
        column->missing = grown;
    if (!grown || !copy) {
        free(copy);
        return out_of_memory(error);
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
                !schema_add_missing(&schema->columns[c], equals + 1, error))
                return false;
    }
    return true;
}

// TOKEN=CLASS, cut at the last '=' so that a token may hold one.
bool schema_read_labels(Schema *schema, const Config *config, Error *error)
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

bool schema_end(Schema *schema, const Config *config, Error *error)
{
    const char *cutoff = config_text(config, "data.cutoff");
    if (!schema_find_place(schema, config, "data.cutoff_column", &schema->cutoff, error))
        return false;
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

bool schema_begin(Schema *schema, const Config *config, const Field *header, size_t header_count,
                  Error *error)
{
    *schema = (Schema){.target = SIZE_MAX, .row_id = SIZE_MAX, .cutoff = SIZE_MAX};
    for (int t = TASK_BINARY; t <= TASK_REGRESSION; t++)
        if (text_equal(config_text(config, "task"), task_names[t]))
            schema->task = (TaskKind)t;
    return schema_format(config, &schema->format, error) &&
           schema_name_columns(schema, config, header, header_count, error);
}

bool schema_make(const Config *config, const Field *header, size_t header_count, Schema *ret_schema,
                 Error *error)
{
    Schema schema;
    if (!schema_begin(&schema, config, header, header_count, error) ||
        !schema_give_roles(&schema, config, NULL, error) || !schema_read_missing(&schema, config, error) ||
        !schema_read_labels(&schema, config, error) ||
        !schema_find_place(&schema, config, "data.row_id", &schema.row_id, error) ||
        !schema_end(&schema, config, error)) {
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
    free(schema->numeric);
    free(schema->categorical);
    dictionary_done(&schema->labels);
    *schema = (Schema){0};
}
