// decode - rows to network inputs through the maps, and raw columns for rules and slices.
#include "packed_internal.h"

#include <fedgate/text.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char table_account[] = "input.table";

static int32_t *recode_table(const Dictionary *from, const Dictionary *to)
{
    int32_t *table = malloc((from->count + 1) * sizeof *table);
    for (size_t k = 0; table && k < from->count; k++)
        table[k] = dictionary_find(to, from->keys[k], from->lengths[k]) + 1;
    return table;
}

// A table for each packed column instead of a search for each of its values; files of one dictionary share.
static bool decoder_recode(RowDecoder *decoder, Error *error)
{
    const Dataset *dataset = decoder->dataset;
    size_t width = decoder->maps->categorical_count;
    decoder->recode = calloc(dataset->file_count * width + 1, sizeof *decoder->recode);
    if (!decoder->recode)
        return FAIL(error, ERROR_MEMORY, 0, "out of memory");
    for (size_t i = 0; i < width; i++) {
        const SchemaColumn *column = &dataset->schema.columns[decoder->category_field[i]];
        for (size_t f = 0; !column->packed_number && f < dataset->file_count; f++) {
            int32_t **table = &decoder->recode[f * width + i];
            const Dictionary *own = dataset->files[f].packed->dictionary;
            if (f > 0 && dataset->files[f - 1].packed->dictionary == own)
                *table = table[-(ptrdiff_t)width];
            else
                *table = recode_table(&own[column->packed_at], &decoder->maps->categorical[i].codes);
            if (!*table)
                return FAIL(error, ERROR_MEMORY, 0, "out of memory");
        }
    }
    return true;
}

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
    bool good = gone ? FAIL(error, ERROR_DATA, 0, "column '%s' of the maps is not in the data", gone)
                     : !dataset->files[0].packed || decoder_recode(decoder, error);
    if (!good)
        decoder_done(decoder);
    return good;
}

void decoder_done(RowDecoder *decoder)
{
    size_t width = decoder->recode ? decoder->maps->categorical_count : 0;
    for (size_t t = 0; t < width * (width > 0 ? decoder->dataset->file_count : 0); t++)
        if (t < width || decoder->recode[t] != decoder->recode[t - width])
            free(decoder->recode[t]);
    free(decoder->recode);
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
        if (!missing && !field_number(&fields[at], &value))
            return dataset_fail_row(decoder->dataset, row, error, "column '%s' holds '%.*s', not a number",
                                    map->name, field_shown(&fields[at]), fields[at].text);
        x[i] = (float)numeric_apply(map, maps->transform, value);
        if (map->flag)
            *flag++ = missing ? 1.0f : 0.0f;
    }
    size_t file =
        decoder->recode ? (size_t)(dataset_file_of(decoder->dataset, row) - decoder->dataset->files) : 0;
    for (size_t i = 0; i < maps->categorical_count; i++) {
        const Field *field = &fields[decoder->category_field[i]];
        // Code 0 is the unknown slot: missing, rare, never seen in training.
        if (schema_missing(&schema->columns[decoder->category_field[i]], field))
            codes[i] = 0;
        else if (field->kind == FIELD_CODE)
            codes[i] = decoder->recode[file * maps->categorical_count + i][field->code];
        else
            codes[i] = dictionary_find(&maps->categorical[i].codes, field->text, field->length) + 1;
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
    bool number =
        !schema_missing(&reader->dataset->schema.columns[fill->field], field) && field_number(field, &value);
    fill->column->numbers[at] = number ? value : NAN;
    char buffer[32];
    size_t length;
    const char *text = field_text(field, buffer, &length);
    if (!dictionary_add(&fill->seen, text, length, 1, &fill->column->codes[at]))
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
