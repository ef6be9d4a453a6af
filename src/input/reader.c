// reader - rows to fields: from the file's bytes in memory, else by positioned reads, neighbours in one. One
// reader per thread.
#include "packed_internal.h"

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

// Where a row lies among the rows of its file; a packed file is thought of as rows that follow each other.
static uint64_t begin_of(const SourceFile *file, const RowEntry *entry)
{
    return file->packed ? entry->offset * entry->length : entry->offset;
}

// Rows from `first` on that lie close together in one file; their bytes are [ret_begin, ret_end).
static size_t group_end(const RowReader *reader, const uint32_t *rows, size_t first, size_t count,
                        uint64_t *ret_begin, uint64_t *ret_end)
{
    const Dataset *dataset = reader->dataset;
    const SourceFile *file = dataset_file_of(dataset, rows[first]);
    const RowEntry *entry = &dataset->rows[rows[first]];
    *ret_begin = begin_of(file, entry);
    *ret_end = *ret_begin + entry->length;
    size_t next = first + 1;
    for (; next < count; next++) {
        entry = &dataset->rows[rows[next]];
        uint64_t begin = begin_of(file, entry);
        if (rows[next] < file->first_row || rows[next] >= file->first_row + file->rows || begin < *ret_end ||
            begin - *ret_end > GAP_BYTES || begin + entry->length - *ret_begin > READ_BYTES)
            break;
        *ret_end = begin + entry->length;
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

// The three arrays of packed rows `row` to `end` of a file, one behind the other at `used`.
static bool read_packed(RowReader *reader, const SourceFile *file, uint64_t row, uint64_t end, size_t used,
                        RowPlace *ret_place, Error *error)
{
    const struct PackedFile *packed = file->packed;
    const struct {
        uint64_t at;
        size_t bytes;
        size_t *place;
    } arrays[] = {
        {packed->numeric_at, packed->numeric_bytes, &ret_place->record},
        {packed->codes_at, packed->codes_bytes, &ret_place->codes},
        {packed->target_at, packed->target_bytes, &ret_place->target},
    };
    for (size_t a = 0; a < sizeof arrays / sizeof arrays[0]; a++) {
        size_t length = (size_t)(end - row) * arrays[a].bytes;
        *arrays[a].place = used;
        if (length > 0 &&
            !source_read(file, reader->buffer + used, length, arrays[a].at + row * arrays[a].bytes, error))
            return false;
        used += length;
        reader->reads += length > 0;
    }
    return true;
}

static RowPlace packed_place(const struct PackedFile *packed, RowPlace first, uint64_t row)
{
    return (RowPlace){first.record + (size_t)row * packed->numeric_bytes,
                      first.codes + (size_t)row * packed->codes_bytes,
                      first.target + (size_t)row * packed->target_bytes};
}

// Rows [first, next) lie together in bytes [begin, end); what is not in memory goes into the buffer at
// `used`.
static bool fetch_group(RowReader *reader, const uint32_t *rows, size_t first, size_t next, uint64_t begin,
                        uint64_t end, size_t used, Error *error)
{
    const RowEntry *entries = reader->dataset->rows;
    const SourceFile *file = dataset_file_of(reader->dataset, rows[first]);
    const struct PackedFile *packed = file->packed;
    RowPlace place = {.record = used};
    uint64_t row = 0;   // of the first one that was read, in a packed file
    if (file->memory) {
        place = packed ? (RowPlace){(size_t)packed->numeric_at, (size_t)packed->codes_at,
                                    (size_t)packed->target_at}
                       : (RowPlace){0};
        begin = 0;
    } else if (packed) {
        row = begin / entries[rows[first]].length;
        if (!read_packed(reader, file, row, end / entries[rows[first]].length, used, &place, error))
            return false;
    } else {
        if (!file_pread_all(file->fd, reader->buffer + used, (size_t)(end - begin), begin, error))
            return false;
        reader->reads++;
    }
    for (size_t i = first; i < next; i++) {
        const RowEntry *entry = &entries[rows[i]];
        reader->place[i] = packed ? packed_place(packed, place, entry->offset - row)
                                  : (RowPlace){.record = place.record + (size_t)(entry->offset - begin)};
        reader->read_bytes += file->memory ? entry->length : 0;
    }
    return true;
}

bool reader_fetch(RowReader *reader, const uint32_t *rows, size_t count, Error *error)
{
    size_t used = 0;
    for (size_t first = 0; first < count;) {
        uint64_t begin, end;
        size_t next = group_end(reader, rows, first, count, &begin, &end);
        const SourceFile *file = dataset_file_of(reader->dataset, rows[first]);
        size_t length = file->memory ? 0 : (size_t)(end - begin);
        if (!reader_grow(reader, used + length, error))
            return false;
        if (!fetch_group(reader, rows, first, next, begin, end, used, error))
            return error_prefix(error, "data file '%s', row %u", file->path, rows[first]);
        reader->read_bytes += (int64_t)length;
        used += length;
        first = next;
    }
    return true;
}

bool reader_split(RowReader *reader, const uint32_t *rows, size_t at, Error *error)
{
    const Dataset *dataset = reader->dataset;
    CsvFault fault;
    const SourceFile *file = dataset_file_of(dataset, rows[at]);
    const char *base = file->memory ? file->memory : reader->buffer;
    const RowPlace *place = &reader->place[at];
    if (file->packed) {
        packed_fields(dataset, file->packed, base + place->record, base + place->codes, base + place->target,
                      reader->fields);
        return true;
    }
    size_t count = csv_split(&dataset->schema.format, base + place->record, dataset->rows[rows[at]].length,
                             reader->fields, dataset->schema.count, reader->scratch, &fault);
    if (fault == CSV_FINE && count == dataset->schema.count)
        return true;
    return dataset_fail_row(dataset, rows[at], error, "record changed since the file was opened");
}

// rows NULL: the rows of the dataset from `begin` on.
static bool visit_rows(const Dataset *dataset, const uint32_t *rows, size_t begin, size_t count,
                       RowVisit visit, void *context, Error *error)
{
    RowReader reader;
    uint32_t block[VISIT_ROWS];
    if (!reader_init(&reader, dataset, VISIT_ROWS, error))
        return false;
    bool good = true;
    for (size_t first = 0; good && first < count; first += VISIT_ROWS) {
        size_t now = count - first < VISIT_ROWS ? count - first : VISIT_ROWS;
        for (size_t i = 0; i < now; i++)
            block[i] = rows ? rows[first + i] : (uint32_t)(begin + first + i);
        good = reader_fetch(&reader, block, now, error);
        for (size_t i = 0; good && i < now; i++)
            good =
                reader_split(&reader, block, i, error) && visit(context, &reader, first + i, block[i], error);
    }
    reader_done(&reader);
    return good;
}

bool reader_visit(const Dataset *dataset, Split split, RowVisit visit, void *context, Error *error)
{
    return visit_rows(dataset, dataset->split_rows[split], 0, dataset->split_count[split], visit, context,
                      error);
}

bool reader_visit_range(const Dataset *dataset, size_t first, size_t count, RowVisit visit, void *context,
                        Error *error)
{
    return visit_rows(dataset, NULL, first, count, visit, context, error);
}
