// pack_look - what must be known before the first shard is written: which columns are packed, whether single
// precision holds every number exactly, every text of a category.
#include "pack_internal.h"

#include <ctype.h>
#include <fedgate/text.h>
#include <stdlib.h>
#include <string.h>

static bool out_of_memory(Error *error)
{
    return FAIL(error, ERROR_MEMORY, 0, "out of memory for packing");
}

ptrdiff_t pack_mark(const SchemaColumn *column, const Field *field)
{
    for (size_t m = 0; m < column->missing_count; m++)
        if (column->missing[m].length == field->length &&
            memcmp(column->missing[m].text, field->text, field->length) == 0)
            return (ptrdiff_t)m;
    return -1;
}

// -- columns

static bool is_part_of_name(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

// The rule is the trainer's to read; a column it only seems to name is packed for nothing.
static bool rule_names(const char *rule, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = rule; length > 0 && (at = strstr(at, name)) != NULL; at++)
        if ((at == rule || !is_part_of_name(at[-1])) && !is_part_of_name(at[length]))
            return true;
    return false;
}

static bool choose_columns(Pack *pack, Error *error)
{
    const Schema *schema = &pack->dataset->schema;
    const char *rule = config_text(pack->spec->config, "baseline.rule");
    pack->columns = calloc(schema->count + 1, sizeof *pack->columns);
    if (!pack->columns)
        return out_of_memory(error);
    for (size_t i = 0; i < schema->numeric_count; i++)
        pack->columns[pack->count++] = (PackColumn){schema->numeric[i], ROLE_NUMERIC, true, {0}};
    for (size_t i = 0; i < schema->categorical_count; i++)
        pack->columns[pack->count++] = (PackColumn){schema->categorical[i], ROLE_CATEGORICAL, false, {0}};
    for (size_t c = 0; c < schema->count; c++)
        if (schema->columns[c].role == ROLE_NONE &&
            (c == schema->cutoff || rule_names(rule, schema->columns[c].name)))
            pack->columns[pack->count++] = (PackColumn){c, ROLE_NONE, true, {0}};
    return true;
}

// -- first pass: numbers

// Kept as a number only when the number gives the text back, the mark of a missing one too.
static bool is_canonical(const SchemaColumn *column, const Field *field)
{
    double value;
    char text[32];
    ptrdiff_t mark = pack_mark(column, field);
    if (mark >= 0)
        return mark == 0;
    if (!number_parse(field->text, field->length, &value))
        return false;
    text_from_double(text, value);
    return strlen(text) == field->length && memcmp(text, field->text, field->length) == 0;
}

static bool fits_single(double value)
{
    return (double)(float)value == value;
}

static bool look_numbers(void *context, const RowReader *reader, size_t at, size_t row, Error *error)
{
    Pack *pack = context;
    const Schema *schema = &pack->dataset->schema;
    (void)at;
    for (size_t i = 0; i < pack->count; i++) {
        PackColumn *own = &pack->columns[i];
        const SchemaColumn *column = &schema->columns[own->field];
        const Field *field = &reader->fields[own->field];
        double value;
        if (!own->number)
            continue;
        if (own->role == ROLE_NONE && !is_canonical(column, field))
            own->number = false;
        else if (pack_mark(column, field) < 0 && number_parse(field->text, field->length, &value) &&
                 !fits_single(value))
            pack->numeric_type = TENSOR_F64;
    }
    double target;
    if (!schema_label(schema, &reader->fields[schema->target], &target))
        return dataset_fail_row(pack->dataset, row, error, "target changed since the file was opened");
    if (schema->task == TASK_REGRESSION && !fits_single(target))
        pack->target_type = TENSOR_F64;
    return true;
}

// -- second pass: texts

static bool look_texts(void *context, const RowReader *reader, size_t at, size_t row, Error *error)
{
    Pack *pack = context;
    (void)at;
    (void)row;
    for (size_t i = 0; i < pack->count; i++) {
        PackColumn *own = &pack->columns[i];
        const Field *field = &reader->fields[own->field];
        int32_t code;
        if (!own->number && pack_mark(&pack->dataset->schema.columns[own->field], field) < 0 &&
            !dictionary_add(&own->dictionary, field->text, field->length, 1, &code))
            return out_of_memory(error);
    }
    return true;
}

static bool sort_texts(Pack *pack, Error *error)
{
    for (size_t i = 0; i < pack->count; i++) {
        Dictionary sorted;
        if (!dictionary_sorted(&pack->columns[i].dictionary, 0, &sorted))
            return out_of_memory(error);
        dictionary_done(&pack->columns[i].dictionary);
        pack->columns[i].dictionary = sorted;
    }
    return true;
}

bool pack_look(Pack *pack, Error *error)
{
    Dataset *dataset = pack->dataset;
    pack->numeric_type = TENSOR_F32;
    pack->target_type = dataset->schema.task == TASK_REGRESSION ? TENSOR_F32 : TENSOR_I32;
    if (!choose_columns(pack, error) ||
        !reader_visit_range(dataset, 0, dataset->row_count, look_numbers, pack, error))
        return false;
    for (size_t i = 0; i < pack->count; i++)
        *(pack->columns[i].number ? &pack->numeric : &pack->categorical) += 1;
    return pack->categorical == 0 ||
           (reader_visit_range(dataset, 0, dataset->row_count, look_texts, pack, error) &&
            sort_texts(pack, error));
}
