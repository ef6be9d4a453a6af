// scan - one pass over every file: finds the records, proves each row readable, keeps offset, length and id
// of the good ones.
//
// A row is bad when its fields are not the schema's, a number is not a number, or it holds a NUL byte; bad
// rows beyond data.bad_rows end the night. An unknown label is an error at once. Blank lines at the end of a
// file are not rows, between rows they are bad. Rows after the cutoff are left out and counted. Nothing else
// leaves a row out.
#include "input_internal.h"

#include <errno.h>
#include <fedgate/hash.h>
#include <fedgate/text.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SCAN_BLOCK = 4 << 20 };

typedef struct Scan {
    Dataset *dataset;
    const Config *config;
    size_t file;
    char *buffer;   // SCAN_BLOCK + RECORD_MAX
    size_t begin, end;   // bytes of the buffer not yet used
    uint64_t offset, line;   // of buffer[begin] in the file
    uint32_t records;   // data records so far, in all files, bad ones too
    bool at_end, raw;   // raw: lines to skip, quotes mean nothing
    Field *fields;
    char *scratch;
    int64_t blank_lines;
    uint64_t blank_line;   // seen since the last record
    bool ordered;   // split by time on a declared column: rows must not go back
    RowOrder order;
} Scan;

static SourceFile *scan_file_of(const Scan *scan)
{
    return &scan->dataset->files[scan->file];
}

static bool scan_cut(const Scan *scan, size_t *ret_record, size_t *ret_consumed)
{
    const char *bytes = scan->buffer + scan->begin;
    size_t available = scan->end - scan->begin;
    if (available == 0)
        return false;
    if (!scan->raw)
        return csv_next(&scan->dataset->schema.format, bytes, available, scan->at_end, ret_record,
                        ret_consumed);
    const char *newline = memchr(bytes, '\n', available);
    *ret_consumed = *ret_record = newline ? (size_t)(newline - bytes) + 1 : available;
    return newline || scan->at_end;
}

static bool scan_too_long(const Scan *scan, Error *error)
{
    return FAIL(error, ERROR_DATA, 0,
                "data file '%s', line %llu: record is longer than %d bytes; is a quote not closed?",
                scan->dataset->files[scan->file].path, (unsigned long long)scan->line, RECORD_MAX);
}

// Next record; ret_got false at the end of the file. Lines are counted on the way.
static bool scan_next(Scan *scan, const char **ret_record, size_t *ret_length, uint64_t *ret_offset,
                      uint64_t *ret_line, bool *ret_got, Error *error)
{
    const SourceFile *file = scan_file_of(scan);
    size_t record = 0, consumed = 0;
    while (!scan_cut(scan, &record, &consumed)) {
        size_t left = scan->end - scan->begin;
        if (scan->at_end) {
            *ret_got = false;
            return true;
        }
        if (left > RECORD_MAX)
            return scan_too_long(scan, error);
        memmove(scan->buffer, scan->buffer + scan->begin, left);
        uint64_t at = scan->offset + left;
        size_t want = SCAN_BLOCK < file->bytes - at ? SCAN_BLOCK : (size_t)(file->bytes - at);
        if (!source_read(file, scan->buffer + left, want, at, error))
            return error_prefix(error, "data file '%s'", file->path);
        scan->begin = 0;
        scan->end = left + want;
        scan->at_end = at + want == file->bytes;
    }
    if (record > RECORD_MAX)
        return scan_too_long(scan, error);
    const char *bytes = scan->buffer + scan->begin;
    *ret_record = bytes;
    *ret_length = record;
    *ret_offset = scan->offset;
    *ret_line = scan->line;
    *ret_got = true;
    for (const char *p = bytes, *end = bytes + consumed;
         p && (p = memchr(p, '\n', (size_t)(end - p))) != NULL; p++)
        scan->line++;
    scan->begin += consumed;
    scan->offset += consumed;
    return true;
}

PRINTF_LIKE(4, 5)
static bool scan_bad(Scan *scan, uint64_t line, Error *error, const char *format, ...)
{
    BadPlace place = {.line = line, .test = scan_file_of(scan)->test};
    va_list values;
    va_start(values, format);
    vsnprintf(place.reason, sizeof place.reason, format, values);
    va_end(values);
    snprintf(place.file, sizeof place.file, "%s", scan_file_of(scan)->name);
    scan_file_of(scan)->bad++;
    if (index_bad(scan->dataset, &place, error))
        return true;
    return error_prefix(error, "data file '%s', line %llu", scan_file_of(scan)->path,
                        (unsigned long long)line);
}

// Reads every field that will be used later. ret_good false: counted as bad.
static bool scan_check_fields(Scan *scan, uint64_t line, bool *ret_good, Error *error)
{
    Schema *schema = &scan->dataset->schema;
    *ret_good = false;
    for (size_t c = 0; c < schema->count; c++) {
        const SchemaColumn *column = &schema->columns[c];
        const Field *field = &scan->fields[c];
        double value;
        if (column->role == ROLE_NUMERIC && !schema_missing(column, field) &&
            !number_parse(field->text, field->length, &value))
            return scan_bad(scan, line, error, "column '%s' holds '%.*s', not a number within +-3.4e38",
                            column->name, field_shown(field), field->text);
        if (c == schema->cutoff && (field->length == 0 || schema_missing(column, field)))
            return scan_bad(scan, line, error, "column '%s', which the cutoff is compared with, is empty",
                            column->name);
    }
    const Field *label = &scan->fields[schema->target];
    double target;
    if (!schema_label(schema, label, &target)) {
        FAIL(error, ERROR_DATA, 0,
             "data file '%s', line %llu: target column '%s' holds '%.*s', which is not %s",
             scan_file_of(scan)->path, (unsigned long long)line, schema->columns[schema->target].name,
             field_shown(label), label->text,
             schema->task == TASK_REGRESSION ? "a number within +-3.4e38"
             : schema->labels.count > 0      ? "in option 'data.labels'"
                                             : "a class number");
        return error_hint(error, "Name every label as TOKEN=CLASS in option 'data.labels'.");
    }
    if (schema->task == TASK_MULTICLASS && (int)target + 1 > schema->classes)
        schema->classes = (int)target + 1;
    *ret_good = true;
    return true;
}

// Fields of a header or a row, into scan->fields.
static size_t scan_split(Scan *scan, const char *record, size_t length, size_t max, CsvFault *ret_fault)
{
    size_t count =
        csv_split(&scan->dataset->schema.format, record, length, scan->fields, max, scan->scratch, ret_fault);
    if (*ret_fault == CSV_FINE && memchr(record, '\0', length))
        *ret_fault = CSV_NUL_BYTE;
    return count;
}

static bool scan_row(Scan *scan, const char *record, size_t length, uint64_t offset, uint64_t line,
                     Error *error)
{
    Dataset *dataset = scan->dataset;
    Schema *schema = &dataset->schema;
    CsvFault fault;
    uint32_t ordinal = scan->records++;
    size_t count = scan_split(scan, record, length, schema->count, &fault);
    if (fault == CSV_OPEN_QUOTE)   // nobody can say how many rows it swallowed, so no tolerance covers it
        return FAIL(error, ERROR_DATA, 0, "data file '%s', line %llu: %s", scan_file_of(scan)->path,
                    (unsigned long long)line, csv_fault_text(fault));
    if (fault != CSV_FINE)
        return scan_bad(scan, line, error, "%s", csv_fault_text(fault));
    if (count != schema->count)
        return scan_bad(scan, line, error, "record has %zu fields, not %zu", count, schema->count);
    bool good;
    if (!scan_check_fields(scan, line, &good, error))
        return false;
    if (!good)
        return true;
    if (index_after_cutoff(dataset, scan->fields)) {
        dataset->after_cutoff++;
        return true;
    }
    if (scan->ordered && !index_in_order(dataset, &scan->order, scan->fields, error))
        return error_prefix(error, "data file '%s', line %llu", scan_file_of(scan)->path,
                            (unsigned long long)line);
    const Field whole = {.text = record, .length = (uint32_t)length};
    const Field *id = schema->row_id == SIZE_MAX ? &whole : &scan->fields[schema->row_id];
    if (length > dataset->longest_record)
        dataset->longest_record = length;
    RowEntry row = {.offset = offset,
                    .id = hash_row(id->text, id->length),
                    .length = (uint32_t)length,
                    .ordinal = ordinal};
    return index_row(dataset, &row, error);
}

// Blank lines turn out to be bad rows only when a record follows.
static bool scan_blank_lines(Scan *scan, Error *error)
{
    for (; scan->blank_lines > 0; scan->blank_lines--, scan->blank_line++)
        if (!scan_bad(scan, scan->blank_line, error, "line is empty"))
            return false;
    return true;
}

static bool scan_header(Scan *scan, Error *error)
{
    Schema *schema = &scan->dataset->schema;
    const char *record;
    size_t length;
    uint64_t offset, line;
    bool got;
    if (!scan_next(scan, &record, &length, &offset, &line, &got, error))
        return false;
    if (!got)
        return FAIL(error, ERROR_DATA, 0, "data file '%s' has no header", scan_file_of(scan)->path);
    CsvFault fault;
    size_t count = scan_split(scan, record, length, COLUMNS_MAX, &fault);
    if (fault != CSV_FINE || count > COLUMNS_MAX)
        return FAIL(error, ERROR_DATA, 0, "data file '%s', line %llu: header cannot be read: %s",
                    scan_file_of(scan)->path, (unsigned long long)line,
                    fault != CSV_FINE ? csv_fault_text(fault) : "too many columns");
    if (scan->file == 0)
        return schema_make(scan->config, scan->fields, count, schema, error)
                   ? true
                   : error_prefix(error, "data file '%s'", scan_file_of(scan)->path);
    bool same = count == schema->count;
    for (size_t c = 0; same && c < count; c++)
        same = strlen(schema->columns[c].name) == scan->fields[c].length &&
               memcmp(schema->columns[c].name, scan->fields[c].text, scan->fields[c].length) == 0;
    return same ? true
                : FAIL(error, ERROR_DATA, 0, "data file '%s' has another header than '%s'",
                       scan_file_of(scan)->path, scan->dataset->files[0].path);
}

// Byte order mark, declared lines, header.
static bool scan_top(Scan *scan, Error *error)
{
    const SourceFile *file = scan_file_of(scan);
    static const char mark[] = {'\xEF', '\xBB', '\xBF'};
    char first[sizeof mark];
    scan->begin = scan->end = 0;
    scan->offset = 0;
    scan->line = 1;
    scan->at_end = file->bytes == 0;
    scan->blank_lines = 0;
    if (file->bytes >= sizeof mark) {
        if (!source_read(file, first, sizeof first, 0, error))
            return error_prefix(error, "data file '%s'", file->path);
        if (memcmp(first, mark, sizeof mark) == 0)
            scan->offset = sizeof mark;
        scan->at_end = file->bytes == scan->offset;
    }
    int64_t skip = config_integer(scan->config, file->test ? "data.test_skip_lines" : "data.skip_lines");
    const char *record;
    size_t length;
    uint64_t offset, line;
    scan->raw = true;
    for (bool got = true; skip > 0 && got; skip--)
        if (!scan_next(scan, &record, &length, &offset, &line, &got, error))
            return false;
    scan->raw = false;
    if (scan->dataset->has_header)
        return scan_header(scan, error);
    return scan->file > 0 || schema_make(scan->config, NULL, 0, &scan->dataset->schema, error);
}

static bool scan_one_file(Scan *scan, Error *error)
{
    SourceFile *file = scan_file_of(scan);
    if (!scan_top(scan, error))
        return false;
    file->first_row = scan->dataset->row_count;
    for (;;) {
        const char *record;
        size_t length;
        uint64_t offset, line;
        bool got;
        if (!scan_next(scan, &record, &length, &offset, &line, &got, error))
            return false;
        if (!got)
            break;
        if (length == 0) {
            if (scan->blank_lines++ == 0)
                scan->blank_line = line;
            continue;
        }
        if (!scan_blank_lines(scan, error) || !scan_row(scan, record, length, offset, line, error))
            return false;
    }
    file->rows = scan->dataset->row_count - file->first_row;
    if (file->rows == 0)
        return FAIL(error, ERROR_DATA, 0, "data file '%s' has no usable row", file->path);
    return true;
}

bool scan_files(Dataset *dataset, const Config *config, Error *error)
{
    Scan scan = {
        .dataset = dataset,
        .config = config,
        .buffer = malloc(SCAN_BLOCK + RECORD_MAX + 1),
        .fields = malloc(COLUMNS_MAX * sizeof(Field)),
        .scratch = malloc(SCAN_BLOCK + RECORD_MAX + 1),
    };
    bool good = scan.buffer && scan.fields && scan.scratch
                    ? schema_format(config, &dataset->schema.format, error)
                    : FAIL(error, ERROR_MEMORY, 0, "out of memory for reading data files");
    scan.ordered = !dataset->packing && text_equal(config_text(config, "split.method"), "time") &&
                   *config_text(config, "data.cutoff_column") != '\0';
    for (scan.file = 0; good && scan.file < dataset->file_count; scan.file++)
        good = scan_one_file(&scan, error);
    free(scan.buffer);
    free(scan.fields);
    free(scan.scratch);
    free(scan.order.latest);
    return good;
}
