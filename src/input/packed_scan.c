// packed_scan - one pass over packed shards: sets of shards whole, every value in its range, rows indexed.
//
// A row has the id and the record number it had in its text, so that it falls into the same split. What was
// bad when it was packed is counted as if it were found now.
#include "packed_internal.h"

#include <fedgate/text.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 1 << 20 };

typedef struct PackedScan {
    Dataset *dataset;
    SourceFile *file;
    char *buffer;
    size_t block_rows;
    Field *fields;
    RowOrder order;
    bool ordered;
    int64_t latest;   // record number of the row before, in this file
} PackedScan;

static bool same_meta(const struct PackedFile *a, const struct PackedFile *b)
{
    static const char *const keys[] = {"columns", "task", "classes", "labels", "target", "row_id"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (!text_equal(tensors_metadata(a->header, keys[i]), tensors_metadata(b->header, keys[i])))
            return false;
    return true;
}

static bool open_all(Dataset *dataset, Error *error)
{
    for (size_t i = 0; i < dataset->file_count; i++) {
        SourceFile *file = &dataset->files[i];
        file->packed = packed_open(file, i > 0 ? dataset->files[i - 1].packed : NULL, error);
        if (!file->packed)
            return error_prefix(error, "data file '%s'", file->path);
        if (!same_meta(file->packed, dataset->files[0].packed))
            return FAIL(error, ERROR_DATA, 0, "data file '%s' has other columns or classes than '%s'",
                        file->path, dataset->files[0].path);
    }
    return true;
}

// The shards of one pack follow each other without a gap: one left out would be rows left out in silence.
static bool check_sets(const Dataset *dataset, Error *error)
{
    for (size_t i = 0; i < dataset->file_count; i++) {
        const struct PackedFile *own = dataset->files[i].packed,
                                *before = i > 0 ? dataset->files[i - 1].packed : NULL,
                                *after = i + 1 < dataset->file_count ? dataset->files[i + 1].packed : NULL;
        bool follows = before && text_equal(before->pack, own->pack) && text_equal(before->part, own->part) &&
                       before->shard + 1 == own->shard;
        bool followed = after && text_equal(after->pack, own->pack) && text_equal(after->part, own->part) &&
                        after->shard == own->shard + 1;
        int64_t missing = own->shard > 0 && !follows                  ? own->shard - 1
                          : own->shard + 1 < own->shards && !followed ? own->shard + 1
                                                                      : -1;
        if (missing >= 0)
            return FAIL(error, ERROR_DATA, 0,
                        "data file '%s' is shard %lld of %lld, but shard %lld is not %s it",
                        dataset->files[i].path, (long long)own->shard, (long long)own->shards,
                        (long long)missing, missing < own->shard ? "before" : "after");
    }
    return true;
}

static bool count_bad(Dataset *dataset, const SourceFile *file, Error *error)
{
    const struct PackedFile *packed = file->packed;
    for (int64_t i = 0; i < packed->bad; i++) {
        const Json *row = json_at(packed->bad_rows, (size_t)i);   // the first ones are named
        BadPlace place = {.line = (uint64_t)json_integer_or(json_get(row, "line"), 0), .test = file->test};
        snprintf(place.file, sizeof place.file, "%s", json_text_or(json_get(row, "file"), file->name));
        snprintf(place.reason, sizeof place.reason, "%s",
                 json_text_or(json_get(row, "reason"), "left out when the data was packed"));
        if (!index_bad(dataset, &place, error))
            return error_prefix(error, "data file '%s', packed from '%s', line %llu", file->path, place.file,
                                (unsigned long long)place.line);
    }
    return true;
}

// -- values

static bool check_value(const SchemaColumn *column, const Field *field, size_t dictionary_count, Error *error)
{
    if (field->kind == FIELD_NUMBER) {
        if (isnan(field->number) && column->missing_count == 0)
            return FAIL(error, ERROR_DATA, 0, "column '%s' holds NaN, but has no missing mark", column->name);
        if (!isnan(field->number) && !(fabs(field->number) <= (double)FLT_MAX))
            return FAIL(error, ERROR_DATA, 0, "column '%s' holds %g, not a number within +-3.4e38",
                        column->name, field->number);
        return true;
    }
    if (field->code >= 0 && (size_t)field->code >= dictionary_count)
        return FAIL(error, ERROR_DATA, 0, "column '%s' holds code %d, but its dictionary has %zu texts",
                    column->name, field->code, dictionary_count);
    if (field->code < 0 && (size_t)(-1 - (int64_t)field->code) >= column->missing_count)
        return FAIL(error, ERROR_DATA, 0, "column '%s' holds code %d, but has %zu missing marks",
                    column->name, field->code, column->missing_count);
    return true;
}

static bool check_target(Schema *schema, double target, Error *error)
{
    const char *name = schema->columns[schema->target].name;
    int limit = schema->task == TASK_BINARY                       ? 2
                : schema->labels.count > 0 || schema->classes > 0 ? schema->classes
                                                                  : CLASSES_MAX;
    if (schema->task == TASK_REGRESSION)
        return fabs(target) <= (double)FLT_MAX
                   ? true
                   : FAIL(error, ERROR_DATA, 0, "target '%s' is %g, not a number within +-3.4e38", name,
                          target);
    return target >= 0 && target < limit
               ? true
               : FAIL(error, ERROR_DATA, 0, "target '%s' is %.0f, not a class from 0 to %d", name, target,
                      limit - 1);
}

// ret_good false: counted as bad.
static bool check_row(PackedScan *scan, uint64_t row, bool *ret_good, Error *error)
{
    Dataset *dataset = scan->dataset;
    Schema *schema = &dataset->schema;
    *ret_good = true;
    for (size_t c = 0; c < schema->count; c++) {
        const SchemaColumn *column = &schema->columns[c];
        if (c == schema->target
                ? !check_target(schema, scan->fields[c].number, error)
                : !check_value(
                      column, &scan->fields[c],
                      column->packed_number ? 0 : scan->file->packed->dictionary[column->packed_at].count,
                      error))
            return false;
    }
    if (schema->cutoff == SIZE_MAX)
        return true;
    const Field *cutoff = &scan->fields[schema->cutoff];
    if (!schema_missing(&schema->columns[schema->cutoff], cutoff) &&
        (cutoff->kind == FIELD_NUMBER || cutoff->length > 0))
        return true;
    BadPlace place = {.line = row, .test = scan->file->test};
    snprintf(place.file, sizeof place.file, "%s", scan->file->name);
    snprintf(place.reason, sizeof place.reason, "column '%.60s', which the cutoff is compared with, is empty",
             schema->columns[schema->cutoff].name);
    *ret_good = false;
    return index_bad(dataset, &place, error);
}

static bool take_row(PackedScan *scan, uint64_t row, uint64_t id, int64_t ordinal, Error *error)
{
    Dataset *dataset = scan->dataset;
    bool good;
    if (ordinal <= scan->latest || ordinal > UINT32_MAX)
        return FAIL(error, ERROR_DATA, 0, "record number %lld does not rise from %lld", (long long)ordinal,
                    (long long)scan->latest);
    scan->latest = ordinal;
    if (!check_row(scan, row, &good, error))
        return false;
    if (!good)
        return true;
    if (index_after_cutoff(dataset, scan->fields)) {
        dataset->after_cutoff++;
        return true;
    }
    if (scan->ordered && !index_in_order(dataset, &scan->order, scan->fields, error))
        return false;
    RowEntry entry = {.offset = row,
                      .id = id,
                      .length = (uint32_t)packed_row_bytes(scan->file->packed),
                      .ordinal = (uint32_t)ordinal};
    return index_row(dataset, &entry, error);
}

// -- blocks of rows

typedef struct Block {
    const char *numeric, *codes, *target, *id, *ordinal;
} Block;

static bool read_block(PackedScan *scan, uint64_t row, size_t rows, Block *ret_block, Error *error)
{
    const struct PackedFile *packed = scan->file->packed;
    const struct {
        uint64_t at;
        size_t bytes;
        const char **to;
    } arrays[] = {
        {packed->numeric_at, packed->numeric_bytes, &ret_block->numeric},
        {packed->codes_at, packed->codes_bytes, &ret_block->codes},
        {packed->target_at, packed->target_bytes, &ret_block->target},
        {packed->id_at, sizeof(uint64_t), &ret_block->id},
        {packed->ordinal_at, packed->ordinal_at ? sizeof(int64_t) : 0, &ret_block->ordinal},
    };
    char *to = scan->buffer;
    for (size_t a = 0; a < sizeof arrays / sizeof arrays[0]; a++) {
        size_t length = rows * arrays[a].bytes;
        if (length > 0 && !source_read(scan->file, to, length, arrays[a].at + row * arrays[a].bytes, error))
            return false;
        *arrays[a].to = to;
        to += length;
    }
    return true;
}

static bool scan_block(PackedScan *scan, uint64_t first, size_t rows, Error *error)
{
    const struct PackedFile *packed = scan->file->packed;
    Block block;
    if (!read_block(scan, first, rows, &block, error))
        return false;
    for (size_t i = 0; i < rows; i++) {
        uint64_t id;
        int64_t ordinal = packed->first_record + (int64_t)(first + i);
        memcpy(&id, block.id + i * sizeof id, sizeof id);
        if (packed->ordinal_at)
            memcpy(&ordinal, block.ordinal + i * sizeof ordinal, sizeof ordinal);
        packed_fields(scan->dataset, packed, block.numeric + i * packed->numeric_bytes,
                      block.codes + i * packed->codes_bytes, block.target + i * packed->target_bytes,
                      scan->fields);
        if (!take_row(scan, first + i, id, ordinal, error))
            return error_prefix(error, "row %llu", (unsigned long long)(first + i));
    }
    return true;
}

static bool scan_file(PackedScan *scan, Error *error)
{
    SourceFile *file = scan->file;
    size_t row_bytes = packed_row_bytes(file->packed) + sizeof(uint64_t) + sizeof(int64_t);
    scan->block_rows = BLOCK_BYTES / row_bytes + 1;
    free(scan->buffer);
    scan->buffer = malloc(scan->block_rows * row_bytes);
    if (!scan->buffer)
        return FAIL(error, ERROR_MEMORY, 0, "out of memory for reading packed rows");
    scan->latest = -1;
    file->first_row = scan->dataset->row_count;
    for (size_t row = 0; row < file->packed->rows; row += scan->block_rows) {
        size_t left = file->packed->rows - row;
        if (!scan_block(scan, row, left < scan->block_rows ? left : scan->block_rows, error))
            return false;
    }
    file->rows = scan->dataset->row_count - file->first_row;
    if (packed_row_bytes(file->packed) > scan->dataset->longest_record)
        scan->dataset->longest_record = packed_row_bytes(file->packed);
    return true;
}

bool packed_scan(Dataset *dataset, const Config *config, Error *error)
{
    if (!open_all(dataset, error) || !check_sets(dataset, error))
        return false;
    if (!schema_make_packed(config, dataset->files[0].packed, &dataset->schema, error))
        return error_prefix(error, "data file '%s'", dataset->files[0].path);
    PackedScan scan = {.dataset = dataset, .fields = calloc(dataset->schema.count, sizeof(Field))};
    bool good = scan.fields ? true : FAIL(error, ERROR_MEMORY, 0, "out of memory for reading packed rows");
    scan.ordered =
        text_equal(config_text(config, "split.method"), "time") && dataset->schema.cutoff != SIZE_MAX;
    for (size_t i = 0; good && i < dataset->file_count; i++) {
        scan.file = &dataset->files[i];
        good = count_bad(dataset, scan.file, error) &&
               (scan_file(&scan, error) || error_prefix(error, "data file '%s'", scan.file->path));
    }
    for (size_t i = 0; i < dataset->file_count; i++) {   // a dictionary may be as long as its file
        tensors_free(dataset->files[i].packed->header);
        dataset->files[i].packed->header = NULL;
    }
    free(scan.buffer);
    free(scan.fields);
    free(scan.order.latest);
    return good;
}
