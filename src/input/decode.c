// decode - rows to network inputs through the maps, and raw columns for rules and slices.
#include "input_internal.h"

#include <fedgate/text.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char table_account[] = "input.table";

bool decoder_init(RowDecoder *decoder, const Dataset *dataset, const Maps *maps, Error *error)
{
    *decoder = (RowDecoder){.dataset = dataset, .maps = maps};
    decoder->numeric_field = calloc(maps->numeric_count + 1, sizeof *decoder->numeric_field);
    decoder->category_field = calloc(maps->categorical_count + 1, sizeof *decoder->category_field);
    const char *gone = NULL;
    if (!decoder->numeric_field || !decoder->category_field) {
        decoder_done(decoder);
        return FAIL(error, ERROR_MEMORY, 0, "out of memory");
    }
    for (size_t i = 0; i < maps->numeric_count; i++)
        if ((decoder->numeric_field[i] = schema_find(&dataset->schema, maps->numeric[i].name)) == SIZE_MAX)
            gone = maps->numeric[i].name;
    for (size_t i = 0; i < maps->categorical_count; i++)
        if ((decoder->category_field[i] = schema_find(&dataset->schema, maps->categorical[i].name)) ==
            SIZE_MAX)
            gone = maps->categorical[i].name;
    if (!gone)
        return true;
    decoder_done(decoder);
    return FAIL(error, ERROR_DATA, 0, "column '%s' of the maps is not in the data", gone);
}

void decoder_done(RowDecoder *decoder)
{
    free(decoder->numeric_field);
    free(decoder->category_field);
    *decoder = (RowDecoder){0};
}

bool decoder_row(const RowDecoder *decoder, const Field *fields, size_t row, float *x, int32_t *codes,
                 double *ret_target, Error *error)
{
    const Maps *maps = decoder->maps;
    const Schema *schema = &decoder->dataset->schema;
    float *flag = x + maps->numeric_count;
    for (size_t i = 0; i < maps->numeric_count; i++) {
        const NumericMap *map = &maps->numeric[i];
        size_t at = decoder->numeric_field[i];
        double value = map->median;
        bool missing = schema_missing(&schema->columns[at], &fields[at]);
        if (!missing && !number_parse(fields[at].text, fields[at].length, &value))
            return dataset_fail_row(decoder->dataset, row, error, "column '%s' holds '%.*s', not a number",
                                    map->name, (int)(fields[at].length < 60 ? fields[at].length : 60),
                                    fields[at].text);
        x[i] = (float)numeric_apply(map, maps->transform, value);
        if (map->flag)
            *flag++ = missing ? 1.0f : 0.0f;
    }
    for (size_t i = 0; i < maps->categorical_count; i++) {
        size_t at = decoder->category_field[i];
        // Code 0 is the unknown slot: missing, rare, never seen in training.
        codes[i] = schema_missing(&schema->columns[at], &fields[at])
                       ? 0
                       : dictionary_find(&maps->categorical[i].codes, fields[at].text, fields[at].length) + 1;
    }
    if (!schema_label(schema, &fields[schema->target], ret_target))
        return dataset_fail_row(decoder->dataset, row, error, "target changed since the file was opened");
    return true;
}

typedef struct TableFill {
    const RowDecoder *decoder;
    Table *table;
} TableFill;

static bool table_row(void *context, const RowReader *reader, size_t at, size_t row, Error *error)
{
    TableFill *fill = context;
    Table *table = fill->table;
    table->row_id[at] = reader->dataset->rows[row].id;
    return decoder_row(fill->decoder, reader->fields, row, table->x + at * table->numeric,
                       table->codes + at * table->categorical, &table->target[at], error);
}

// One block: row ids, targets, inputs, codes.
static bool table_take(Table *table, Error *error)
{
    size_t row_bytes = sizeof(uint64_t) + sizeof(double) + table->numeric * sizeof(float) +
                       table->categorical * sizeof(int32_t);
    table->bytes = (int64_t)(table->rows * row_bytes + 64);
    table->row_id = ledger_take(table->ledger, LEDGER_HOST, table_account, table->bytes, error);
    if (!table->row_id)
        return false;
    table->target = (double *)(void *)(table->row_id + table->rows);
    table->x = (float *)(void *)(table->target + table->rows);
    table->codes = (int32_t *)(void *)(table->x + table->rows * table->numeric);
    return true;
}

bool dataset_decode(const Dataset *dataset, const Maps *maps, Split split, Ledger *ledger, Table *ret_table,
                    Error *error)
{
    RowDecoder decoder;
    if (!decoder_init(&decoder, dataset, maps, error))
        return false;
    Table table = {.rows = dataset_rows(dataset, split),
                   .numeric = maps_numeric(maps),
                   .categorical = maps->categorical_count,
                   .ledger = ledger};
    TableFill fill = {&decoder, &table};
    bool good = table_take(&table, error) && reader_visit(dataset, split, table_row, &fill, error);
    decoder_done(&decoder);
    if (good)
        *ret_table = table;
    else
        table_done(&table);
    return good;
}

void table_done(Table *table)
{
    if (table->row_id)
        ledger_give(table->ledger, LEDGER_HOST, table_account, table->row_id, table->bytes);
    *table = (Table){0};
}

typedef struct ColumnFill {
    size_t field;
    Column *column;
    Dictionary seen;
} ColumnFill;

static bool column_row(void *context, const RowReader *reader, size_t at, size_t row, Error *error)
{
    (void)row;
    ColumnFill *fill = context;
    const Field *field = &reader->fields[fill->field];
    double value;
    bool number = !schema_missing(&reader->dataset->schema.columns[fill->field], field) &&
                  number_parse(field->text, field->length, &value);
    fill->column->numbers[at] = number ? value : NAN;
    if (!dictionary_add(&fill->seen, field->text, field->length, 1, &fill->column->codes[at]))
        return FAIL(error, ERROR_MEMORY, 0, "out of memory");
    return true;
}

// Names in byte order, so that codes do not depend on which row came first.
static bool column_sort(Column *column, const Dictionary *seen, Error *error)
{
    Dictionary sorted;
    if (!dictionary_sorted(seen, 0, &sorted))
        return FAIL(error, ERROR_MEMORY, 0, "out of memory");
    column->names = calloc(sorted.count + 1, sizeof *column->names);
    bool good = column->names != NULL;
    for (; good && column->name_count < sorted.count; column->name_count++)
        good = (column->names[column->name_count] = text_duplicate(sorted.keys[column->name_count])) != NULL;
    for (size_t i = 0; good && i < column->rows; i++) {
        size_t code = (size_t)column->codes[i];
        column->codes[i] = dictionary_find(&sorted, seen->keys[code], seen->lengths[code]);
    }
    dictionary_done(&sorted);
    return good ? true : FAIL(error, ERROR_MEMORY, 0, "out of memory");
}

bool dataset_column(const Dataset *dataset, Split split, const char *name, Column *ret_column, Error *error)
{
    size_t at = schema_find(&dataset->schema, name);
    if (at == SIZE_MAX)
        return FAIL(error, ERROR_DATA, 0, "column '%s' is not in the data", name);
    Column column = {.rows = dataset_rows(dataset, split)};
    column.numbers = calloc(column.rows + 1, sizeof *column.numbers);
    column.codes = calloc(column.rows + 1, sizeof *column.codes);
    ColumnFill fill = {.field = at, .column = &column};
    bool good = column.numbers && column.codes ? true : FAIL(error, ERROR_MEMORY, 0, "out of memory");
    good = good && reader_visit(dataset, split, column_row, &fill, error) &&
           column_sort(&column, &fill.seen, error);
    dictionary_done(&fill.seen);
    if (good)
        *ret_column = column;
    else
        column_done(&column);
    return good;
}

void column_done(Column *column)
{
    free(column->numbers);
    free(column->codes);
    for (size_t i = 0; i < column->name_count; i++)
        free(column->names[i]);
    free(column->names);
    *column = (Column){0};
}
