// packed_schema - the schema of packed shards: what each column is, they say themselves; an option may say
// the same again, or leave columns out, never contradict.
#include "packed_internal.h"

#include <fedgate/text.h>
#include <stdlib.h>
#include <string.h>

static bool out_of_memory(Error *error)
{
    return FAIL(error, ERROR_MEMORY, 0, "out of memory for the schema");
}

// Columns, and behind them the target, as a header would name them.
static bool name_columns(Schema *schema, const Config *config, const struct PackedFile *packed, Error *error)
{
    Field *names = calloc(packed->column_count + 1, sizeof *names);
    if (!names)
        return out_of_memory(error);
    for (size_t c = 0; c <= packed->column_count; c++) {
        const char *name = c < packed->column_count ? packed->columns[c].name : packed->target;
        names[c] = (Field){.text = name, .length = (uint32_t)strlen(name)};
    }
    bool good = schema_begin(schema, config, names, packed->column_count + 1, error);
    free(names);
    for (size_t c = 0; good && c < packed->column_count; c++) {
        schema->columns[c].packed_number = packed->columns[c].number;
        schema->columns[c].packed_at = packed->columns[c].at;
    }
    return good;
}

static bool check_task(const Schema *schema, const Config *config, const struct PackedFile *packed,
                       Error *error)
{
    const char *target = config_text(config, "data.target"), *row_id = config_text(config, "data.row_id");
    if (schema->task != packed->task)
        return FAIL(error, ERROR_CONFIG, 0, "option 'task' is %s, but the data is packed for %s",
                    task_name(schema->task), task_name(packed->task));
    if (!text_equal(target, packed->target))
        return FAIL(error, ERROR_CONFIG, 0,
                    "option 'data.target' is '%s', but the data is packed with target '%s'", target,
                    packed->target);
    if (*row_id != '\0' && !text_equal(row_id, packed->row_id))
        return FAIL(error, ERROR_CONFIG, 0,
                    "option 'data.row_id' is '%s', but the data is packed with row id '%s'", row_id,
                    *packed->row_id ? packed->row_id : "of the whole record");
    return true;
}

static bool take_roles(Schema *schema, const Config *config, const struct PackedFile *packed, Error *error)
{
    ColumnRole *roles = calloc(schema->count, sizeof *roles);
    if (!roles)
        return out_of_memory(error);
    for (size_t c = 0; c < packed->column_count; c++)
        roles[c] = packed->columns[c].role;
    bool good = schema_give_roles(schema, config, roles, error);
    free(roles);
    for (size_t c = 0; good && c < packed->column_count; c++) {
        ColumnRole role = schema->columns[c].role;
        if ((role == ROLE_NUMERIC && !packed->columns[c].number) ||
            (role == ROLE_CATEGORICAL && packed->columns[c].number))
            good = FAIL(error, ERROR_CONFIG, 0, "column '%s' is %s by its option, but packed as %s",
                        schema->columns[c].name, role_name(role),
                        role_name(packed->columns[c].number ? ROLE_NUMERIC : ROLE_CATEGORICAL));
    }
    for (size_t i = 0; good && i < config_list_count(config, "quality.slices"); i++) {
        const char *name = config_list_text(config, "quality.slices", i);
        size_t at = schema_find(schema, name);
        if (at == SIZE_MAX || schema->columns[at].role != ROLE_CATEGORICAL)
            good = FAIL(error, ERROR_CONFIG, 0,
                        "column '%s' of option 'quality.slices' is not a categorical one", name);
    }
    return good;
}

// What option data.missing says of this column, cut as in schema.c: is `mark` among it?
static bool option_has_mark(const Config *config, const char *column, const char *mark)
{
    for (size_t i = 0; i < config_list_count(config, "data.missing"); i++) {
        const char *item = config_list_text(config, "data.missing", i), *equals = strchr(item, '=');
        size_t length = equals ? (size_t)(equals - item) : 0;
        bool meant = equals && ((length == 1 && *item == '*') ||
                                (strlen(column) == length && memcmp(item, column, length) == 0));
        if (meant && text_equal(equals + 1, mark))
            return true;
    }
    return false;
}

static bool packed_has_mark(const PackedColumn *column, const char *mark)
{
    for (size_t m = 0; m < column->missing_count; m++)
        if (text_equal(column->missing[m].text, mark))
            return true;
    return false;
}

static bool fail_mark(const PackedColumn *column, const char *mark, bool packed, Error *error)
{
    FAIL(error, ERROR_CONFIG, 0,
         "option 'data.missing' and the packed data disagree: '%s' of column '%s' is a %s", mark,
         column->name, packed ? "missing value in the data" : "value there");
    return error_hint(error, "Leave data.missing out, or pack the data again.");
}

static bool take_missing(Schema *schema, const Config *config, const struct PackedFile *packed, Error *error)
{
    size_t items = config_list_count(config, "data.missing");
    for (size_t c = 0; c < packed->column_count; c++) {
        const PackedColumn *column = &packed->columns[c];
        for (size_t m = 0; m < column->missing_count; m++) {
            if (items > 0 && !option_has_mark(config, column->name, column->missing[m].text))
                return fail_mark(column, column->missing[m].text, true, error);
            if (!schema_add_missing(&schema->columns[c], column->missing[m].text, error))
                return false;
        }
        for (size_t i = 0; i < items; i++) {
            const char *equals = strchr(config_list_text(config, "data.missing", i), '=');
            if (equals && option_has_mark(config, column->name, equals + 1) &&
                !packed_has_mark(column, equals + 1))
                return fail_mark(column, equals + 1, false, error);
        }
    }
    return true;
}

// The labels of the option, if there are any, are the packed ones.
static bool take_labels(Schema *schema, const Config *config, const struct PackedFile *packed, Error *error)
{
    if (!schema_read_labels(schema, config, error))
        return false;
    const Dictionary *own = &packed->labels;
    bool same = schema->labels.count == 0 || schema->labels.count == own->count;
    for (size_t i = 0; same && i < schema->labels.count; i++) {
        int32_t at = dictionary_find(own, schema->labels.keys[i], schema->labels.lengths[i]);
        same = at >= 0 && packed->label_class[at] == schema->label_class[i];
    }
    if (!same) {
        FAIL(error, ERROR_CONFIG, 0, "option 'data.labels' gives other classes than the data is packed with");
        return error_hint(error, "Leave data.labels out, or pack the data again.");
    }
    schema->classes = packed->classes;
    return true;
}

bool schema_make_packed(const Config *config, const struct PackedFile *packed, Schema *ret_schema,
                        Error *error)
{
    Schema schema = {0};
    if (!name_columns(&schema, config, packed, error) || !check_task(&schema, config, packed, error) ||
        !take_roles(&schema, config, packed, error) || !take_missing(&schema, config, packed, error) ||
        !take_labels(&schema, config, packed, error) || !schema_end(&schema, config, error)) {
        schema_done(&schema);
        return false;
    }
    *ret_schema = schema;
    return true;
}
