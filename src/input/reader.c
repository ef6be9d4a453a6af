// reader - rows to fields: from the file's bytes in memory, else by positioned reads, neighbours in one. One
// reader per thread.
#include "input_internal.h"

#include <stdlib.h>
#include <string.h>

enum {
    VISIT_ROWS = 4096,   // rows read at once when a whole split is visited
    GAP_BYTES = 16 * 1024,   // bytes that may lie between two rows of one read
    READ_BYTES = 1 << 20,
};

bool reader_init(RowReader *reader, const Dataset *dataset, size_t rows_at_once, Error *error)
{
    *reader = (RowReader){.dataset = dataset, .row_capacity = rows_at_once};
    reader->place = calloc(rows_at_once, sizeof *reader->place);
    reader->fields = calloc(dataset->schema.count, sizeof *reader->fields);
    reader->scratch = malloc(dataset->longest_record + 1);
    if (reader->place && reader->fields && reader->scratch)
        return true;
    reader_done(reader);
    return FAIL(error, ERROR_MEMORY, 0, "out of memory for reading rows");
}

void reader_done(RowReader *reader)
{
    free(reader->buffer);
    free(reader->place);
    free(reader->fields);
    free(reader->scratch);
    *reader = (RowReader){0};
}

// Rows from `first` on that lie close together in one file; their bytes are [ret_begin, ret_end).
static size_t group_end(const RowReader *reader, const uint32_t *rows, size_t first, size_t count,
                        uint64_t *ret_begin, uint64_t *ret_end)
{
    const Dataset *dataset = reader->dataset;
    const SourceFile *file = dataset_file_of(dataset, rows[first]);
    const RowEntry *entry = &dataset->rows[rows[first]];
    *ret_begin = entry->offset;
    *ret_end = entry->offset + entry->length;
    size_t next = first + 1;
    for (; next < count; next++) {
        entry = &dataset->rows[rows[next]];
        if (rows[next] < file->first_row || rows[next] >= file->first_row + file->rows ||
            entry->offset < *ret_end || entry->offset - *ret_end > GAP_BYTES ||
            entry->offset + entry->length - *ret_begin > READ_BYTES)
            break;
        *ret_end = entry->offset + entry->length;
    }
    return next;
}

static bool reader_grow(RowReader *reader, size_t need, Error *error)
{
    if (need <= reader->capacity)
        return true;
    size_t capacity = need + need / 2;
    char *grown = realloc(reader->buffer, capacity);
    if (!grown)
        return FAIL(error, ERROR_MEMORY, 0, "out of memory for %zu bytes of rows", capacity);
    reader->buffer = grown;
    reader->capacity = capacity;
    return true;
}

bool reader_fetch(RowReader *reader, const uint32_t *rows, size_t count, Error *error)
{
    const Dataset *dataset = reader->dataset;
    size_t used = 0;
    for (size_t first = 0; first < count;) {
        uint64_t begin, end;
        size_t next = group_end(reader, rows, first, count, &begin, &end);
        size_t length = (size_t)(end - begin);
        const SourceFile *file = dataset_file_of(dataset, rows[first]);
        if (file->memory) {
            for (size_t i = first; i < next; i++) {
                reader->place[i] = (size_t)dataset->rows[rows[i]].offset;
                reader->read_bytes += dataset->rows[rows[i]].length;
            }
            first = next;
            continue;
        }
        if (!reader_grow(reader, used + length, error))
            return false;
        if (!file_pread_all(file->fd, reader->buffer + used, length, begin, error))
            return error_prefix(error, "data file '%s', row %u", file->path, rows[first]);
        for (size_t i = first; i < next; i++)
            reader->place[i] = used + (size_t)(dataset->rows[rows[i]].offset - begin);
        used += length;
        reader->read_bytes += (int64_t)length;
        reader->reads++;
        first = next;
    }
    return true;
}

bool reader_split(RowReader *reader, const uint32_t *rows, size_t at, Error *error)
{
    const Dataset *dataset = reader->dataset;
    CsvFault fault;
    const SourceFile *file = dataset_file_of(dataset, rows[at]);
    const char *record = (file->memory ? file->memory : reader->buffer) + reader->place[at];
    size_t count = csv_split(&dataset->schema.format, record, dataset->rows[rows[at]].length, reader->fields,
                             dataset->schema.count, reader->scratch, &fault);
    if (fault == CSV_FINE && count == dataset->schema.count)
        return true;
    return dataset_fail_row(dataset, rows[at], error, "record changed since the file was opened");
}

bool reader_visit(const Dataset *dataset, Split split, RowVisit visit, void *context, Error *error)
{
    RowReader reader;
    if (!reader_init(&reader, dataset, VISIT_ROWS, error))
        return false;
    const uint32_t *rows = dataset->split_rows[split];
    size_t count = dataset->split_count[split];
    bool good = true;
    for (size_t first = 0; good && first < count; first += VISIT_ROWS) {
        size_t now = count - first < VISIT_ROWS ? count - first : VISIT_ROWS;
        good = reader_fetch(&reader, rows + first, now, error);
        for (size_t i = 0; good && i < now; i++)
            good = reader_split(&reader, rows + first, i, error) &&
                   visit(context, &reader, first + i, rows[first + i], error);
    }
    reader_done(&reader);
    return good;
}
