// input_internal - what the files of this module share: CSV fields, source files, schema, dataset, maps, row
// decoding.
#ifndef FEDGATE_INPUT_INTERNAL_H
#define FEDGATE_INPUT_INTERNAL_H

#include <fedgate/file.h>
#include <fedgate/input.h>
#include <sys/stat.h>

enum {
    RECORD_MAX = 1 << 20,   // longest record, bytes: an unclosed quote cannot swallow a file
    COLUMNS_MAX = 4096,
    CLASSES_MAX = 10000,
    BAD_PLACES = 20,   // bad rows named in the description
};

// -- csv.c
typedef struct CsvFormat {
    char delimiter;
    bool trim;
} CsvFormat;
// A field of a packed row says what it is instead of how it was written.
typedef enum FieldKind { FIELD_TEXT, FIELD_NUMBER, FIELD_CODE } FieldKind;
typedef struct Field {
    const char *text;   // of a number: NULL, or the mark when it is missing
    uint32_t length;
    bool quoted;
    uint8_t kind;
    union {
        double number;   // FIELD_NUMBER: NaN when missing
        int32_t code;   // FIELD_CODE: index in the dictionary of its file and column, negative when missing
    };
} Field;
typedef enum CsvFault { CSV_FINE, CSV_OPEN_QUOTE, CSV_TEXT_AFTER_QUOTE, CSV_NUL_BYTE } CsvFault;
const char *csv_fault_text(CsvFault fault);
// Finds the end of the record at `bytes`. False: more bytes are needed (never when `last`). ret_record leaves
// out CR LF, ret_consumed has them.
bool csv_next(const CsvFormat *format, const char *bytes, size_t available, bool last, size_t *ret_record,
              size_t *ret_consumed);
// Cuts a record into fields; returns how many there are, filling at most `max`. scratch: at least `length`
// bytes, holds unescaped fields.
size_t csv_split(const CsvFormat *format, const char *record, size_t length, Field *fields, size_t max,
                 char *scratch, CsvFault *ret_fault);

// -- number.c: correctly rounded, locale-free; the whole field or false; "nan" and "inf" are not numbers
bool number_parse(const char *text, size_t length, double *ret_value);

// -- dictionary.c: byte strings to dense codes in order of arrival
typedef struct Dictionary {
    char **keys;
    uint32_t *lengths;
    int64_t *counts;
    uint64_t *hashes;
    size_t count, capacity;
    int32_t *slots;
    size_t slot_count;   // code or -1; a power of two
} Dictionary;
WARN_UNUSED bool dictionary_add(Dictionary *dictionary, const char *text, size_t length, int64_t times,
                                int32_t *ret_code);   // false: out of memory
int32_t dictionary_find(const Dictionary *dictionary, const char *text, size_t length);   // -1 when absent
void dictionary_done(Dictionary *dictionary);
WARN_UNUSED bool dictionary_sorted(const Dictionary *from, int64_t least_count,
                                   Dictionary *ret_sorted);   // keys in byte order, rare ones left out

// -- source.c: files opened once; read by pread through the same descriptors until the dataset is closed
typedef struct SourceFile {
    char *path, *name;   // name: without folder
    bool test, gzip;
    bool shard;   // packed, by its name
    int fd;   // of the plain bytes: the file itself, or the unnamed copy of an unpacked one
    uint64_t stored_bytes, bytes;
    char *memory;   // the plain bytes, when they fit into the share of input.host_memory; fd is then -1 for
                    // gzip
    Digest digest;   // of the plain bytes
    struct timespec changed, modified;   // plain files only: at opening
    struct PackedFile *packed;   // packed_internal.h; NULL: text
    size_t first_row, rows;
    int64_t bad;   // rows left out as malformed
} SourceFile;
// memory_left: the bytes are kept in memory when there are no more of them than this; charged to account
// "input.files".
WARN_UNUSED bool source_open(const char *path, bool test, int64_t memory_left, Ledger *ledger,
                             SourceFile *ret_file, Error *error);
void source_done(SourceFile *file, Ledger *ledger);
WARN_UNUSED bool source_read(const SourceFile *file, void *to, size_t length, uint64_t offset, Error *error);
WARN_UNUSED bool source_same(const SourceFile *file, Error *error);
uint64_t source_line(const SourceFile *file,
                     uint64_t offset);   // 1-based line of the byte at offset; for messages

// -- schema.c
typedef enum ColumnRole { ROLE_NONE, ROLE_NUMERIC, ROLE_CATEGORICAL, ROLE_TARGET } ColumnRole;
const char *role_name(ColumnRole role);   // "unused"
typedef struct Missing {
    char *text;
    size_t length;
} Missing;
typedef struct SchemaColumn {
    char *name;
    ColumnRole role;
    bool forbidden;
    bool dropped;   // planted fault: every value reads as missing
    bool packed_number;   // packed files: in tensor `numeric`, else in `categorical`
    size_t packed_at;   // and which column there
    Missing *missing;
    size_t missing_count;
} SchemaColumn;
typedef enum TaskKind { TASK_BINARY, TASK_MULTICLASS, TASK_REGRESSION } TaskKind;
const char *task_name(TaskKind task);
typedef struct Schema {
    CsvFormat format;
    TaskKind task;
    SchemaColumn *columns;
    size_t count;
    size_t target, row_id, cutoff;   // SIZE_MAX: none
    char *cutoff_value;
    Dictionary labels;
    int32_t *label_class;   // declared tokens; empty: the tokens are class numbers
    int classes;   // of the declared labels, or seen
    size_t *numeric, *categorical;   // columns of the features, in declared order
    size_t numeric_count, categorical_count;
} Schema;
WARN_UNUSED bool schema_format(const Config *config, CsvFormat *ret_format, Error *error);
// header: fields of the first record, NULL when data.columns names them.
WARN_UNUSED bool schema_make(const Config *config, const Field *header, size_t header_count,
                             Schema *ret_schema, Error *error);
// Its parts, for packed files. roles: what the columns are where the options name none.
WARN_UNUSED bool schema_begin(Schema *schema, const Config *config, const Field *header, size_t header_count,
                              Error *error);
WARN_UNUSED bool schema_give_roles(Schema *schema, const Config *config, const ColumnRole *roles_or_null,
                                   Error *error);
WARN_UNUSED bool schema_add_missing(SchemaColumn *column, const char *token, Error *error);
WARN_UNUSED bool schema_read_labels(Schema *schema, const Config *config, Error *error);
WARN_UNUSED bool schema_find_place(const Schema *schema, const Config *config, const char *option,
                                   size_t *ret_column, Error *error);   // left alone when the option is empty
WARN_UNUSED bool schema_end(Schema *schema, const Config *config, Error *error);   // cutoff
void schema_done(Schema *schema);
size_t schema_find(const Schema *schema, const char *name);   // SIZE_MAX when absent

// -- field.c: what a field means to a schema, however it is stored
bool schema_missing(const SchemaColumn *column, const Field *field);
// Class index or regression value of a label field; false when it is none.
bool schema_label(const Schema *schema, const Field *field, double *ret_target);
int schema_compare(const Field *a, const char *b, size_t b_length);   // numbers as numbers, else as text
bool field_number(const Field *field, double *ret_value);   // false: not a number
// A number is written in its shortest exact form into `buffer`.
const char *field_text(const Field *field, char buffer[static 32], size_t *ret_length);

// -- dataset.c
typedef struct RowEntry {
    uint64_t offset, id;
    uint32_t length, ordinal;
} RowEntry;   // ordinal: number of the record, left-out ones counted too
typedef struct BadPlace {
    char file[96];   // its name without folder
    bool test;   // a file of data.test
    uint64_t line;
    char reason[160];
} BadPlace;
typedef enum RowsChoice { ROWS_AUTO, ROWS_TEXT, ROWS_MEMORY } RowsChoice;
struct Dataset {
    Schema schema;
    SourceFile *files;
    size_t file_count;
    RowEntry *rows;
    size_t row_count, row_capacity;
    uint32_t *split_rows[SPLIT_COUNT];
    size_t split_count[SPLIT_COUNT];   // row numbers, ascending
    bool packing;   // for `fedgate pack`: all rows, whatever the cutoff, in no split
    int64_t bad, bad_allowed, after_cutoff;
    BadPlace places[BAD_PLACES];
    size_t longest_record;
    bool has_header;
    char **forbidden;
    size_t forbidden_count;
    int64_t host_cap_bytes, files_cap, memory_bytes;   // memory_bytes: of files kept in memory
    int64_t storage_bytes, storage_ns;   // read at opening
    int workers;   // input.workers
    RowsChoice rows_choice;
    Ledger *ledger;
    Clock *clock;
};
// What the dataset holds in memory by itself: files and index.
int64_t dataset_host_bytes(const Dataset *dataset);
// Option input.rows: whether a feed takes its rows from a RowStore (else it decodes each batch anew).
bool dataset_rows_in_memory(const Dataset *dataset, bool device_asynchronous);
// Files opened and rows indexed, not split.
WARN_UNUSED Dataset *dataset_open_rows(const Config *config, Clock *clock, Ledger *ledger, bool packing,
                                       Error *error);
const SourceFile *dataset_file_of(const Dataset *dataset, size_t row);
// Raises ERROR_DATA "file 'x', line n: <text>" for a row.
bool dataset_fail_row(const Dataset *dataset, size_t row, Error *error, const char *format, ...)
    PRINTF_LIKE(4, 5);

// -- index.c: good rows in the order they are found
WARN_UNUSED bool index_row(Dataset *dataset, const RowEntry *row, Error *error);
// Counts a bad row; false when it is one too many.
WARN_UNUSED bool index_bad(Dataset *dataset, const BadPlace *place, Error *error);
bool index_after_cutoff(const Dataset *dataset, const Field *fields);
typedef struct RowOrder {
    char *latest;
    size_t length, capacity;
} RowOrder;
// Rows of a split by time must not go back in the declared column.
WARN_UNUSED bool index_in_order(const Dataset *dataset, RowOrder *order, const Field *fields, Error *error);
int field_shown(const Field *field);   // how many bytes of its text a message has

// -- scan.c: index of every good row; bad rows counted against the tolerance
WARN_UNUSED bool scan_files(Dataset *dataset, const Config *config, Error *error);

// -- split.c
WARN_UNUSED bool split_rows(Dataset *dataset, const Config *config, Error *error);

// -- reader.c: rows to parsed fields. One per thread.
typedef struct RowPlace {
    size_t record;   // text, or the numbers of a packed row
    size_t codes, target;   // packed rows only
} RowPlace;
typedef struct RowReader {
    const Dataset *dataset;
    char *buffer;
    size_t capacity;   // bytes of the rows read last
    RowPlace *place;   // [row_capacity] in the buffer, or in the row's file when that is in memory
    size_t row_capacity;
    Field *fields;   // [columns] of the row split last
    char *scratch;
    int64_t read_bytes, reads;
} RowReader;
WARN_UNUSED bool reader_init(RowReader *reader, const Dataset *dataset, size_t rows_at_once, Error *error);
void reader_done(RowReader *reader);
WARN_UNUSED bool reader_fetch(RowReader *reader, const uint32_t *rows, size_t count,
                              Error *error);   // count <= rows_at_once
WARN_UNUSED bool reader_split(RowReader *reader, const uint32_t *rows, size_t at,
                              Error *error);   // fields of the row fetched as number `at`
// Calls `visit` for each row of a split in row order with reader->fields set.
typedef bool (*RowVisit)(void *context, const RowReader *reader, size_t at_in_split, size_t row,
                         Error *error);
WARN_UNUSED bool reader_visit(const Dataset *dataset, Split split, RowVisit visit, void *context,
                              Error *error);
// The same for rows [first, first + count) of the dataset, whatever their split; at counts from `first`.
WARN_UNUSED bool reader_visit_range(const Dataset *dataset, size_t first, size_t count, RowVisit visit,
                                    void *context, Error *error);

// -- rowstore.c: the rows of a split as the network takes them, decoded once: in memory, charged to account
// "input.rows". For feeds that take every row each epoch. Immutable, any thread.
typedef struct RowStore RowStore;
WARN_UNUSED RowStore *rowstore_open(const Dataset *dataset, const Maps *maps, Split split, Error *error);
void rowstore_free(RowStore *store);
OWNED_RELEASE(RowStore, rowstore_free)
int64_t rowstore_bytes(const RowStore *store);   // of "input.rows" that this store took
// Rows by their number in the split. numeric [count x numeric inputs], codes [count x categorical], target as
// FeedBatch.target, row_id [count]. What the dataset was opened with must stay until the store is freed.
void rowstore_gather(const RowStore *store, const uint32_t *numbers, size_t count, float *ret_numeric,
                     int32_t *ret_codes, float *ret_target, uint64_t *ret_row_id);

// -- maps.c
typedef enum TransformKind { TRANSFORM_STANDARD, TRANSFORM_QUANTILE } TransformKind;
typedef struct NumericMap {
    char *name;
    double mean, deviation, median, low, high;   // of the training values that are not missing
    bool constant, flag;   // flag: an input that says "missing" follows the numeric ones
    // Quantile: distinct values ascending; normal quantile of the middle, first and last rank of each (the
    // same but for ties).
    size_t knots;
    double *knot, *normal, *first, *last;
} NumericMap;
typedef struct CategoryMap {
    char *name;
    Dictionary codes;
} CategoryMap;   // code of a key = its index + 1
struct Maps {
    TaskKind task;
    TransformKind transform;
    NumericMap *numeric;
    size_t numeric_count, flag_count;
    CategoryMap *categorical;
    size_t categorical_count;
    double target_mean, target_deviation;
};
// -- maps_json.c: a category as JSON, whatever its bytes
Json *category_to_json(const char *text, size_t length);
WARN_UNUSED bool category_from_json(const Json *value, Dictionary *codes,
                                    Error *error);   // ERROR_DATA when it is there twice
double numeric_apply(const NumericMap *map, TransformKind transform, double value);   // value is finite

// -- decode.c: maps bound to the columns of a dataset
typedef struct RowDecoder {
    const Dataset *dataset;
    const Maps *maps;
    size_t *numeric_field, *category_field;
    int32_t **recode;   // packed: [file x categorical] code of the file -> of the maps; files may share one
} RowDecoder;
WARN_UNUSED bool decoder_init(RowDecoder *decoder, const Dataset *dataset, const Maps *maps, Error *error);
void decoder_done(RowDecoder *decoder);
// x [numeric inputs], codes [categorical]; target as in Table.
WARN_UNUSED bool decoder_row(const RowDecoder *decoder, const Field *fields, size_t row, float *x,
                             int32_t *codes, double *ret_target, Error *error);

#endif
