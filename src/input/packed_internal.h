// packed_internal - packed shards: what their metadata says, and how their rows become fields. Format
// "fedgate.packed/1": README.md of the project.
#ifndef FEDGATE_PACKED_INTERNAL_H
#define FEDGATE_PACKED_INTERNAL_H

#include "input_internal.h"

#include <fedgate/tensors.h>

#define PACKED_FORMAT "fedgate.packed/1"
#define PACKED_SUFFIX ".safetensors"

typedef struct PackedColumn {
    char *name;
    ColumnRole role;   // at packing; numeric, categorical, or none: kept for rules and the cutoff
    bool number;   // in tensor `numeric`, else in `categorical`
    size_t at;   // its place there
    Missing *missing;   // the mark of code -1, -2...; of NaN the first
    size_t missing_count;
} PackedColumn;

struct PackedFile {
    TensorFile *header;   // metadata; freed once every file is indexed
    size_t rows, numeric, categorical;   // columns of the two tensors
    uint64_t numeric_at, codes_at, target_at, id_at, ordinal_at;   // offsets in the file; ordinal_at 0: none
    TensorType numeric_type, target_type;
    size_t numeric_bytes, codes_bytes, target_bytes;   // of a row
    int64_t first_record;   // number of row 0 among all records of the sources, without tensor `ordinal`
    PackedColumn *columns;
    size_t column_count;
    Dictionary *dictionary;   // [categorical]
    bool borrowed;   // the dictionaries are those of the file before, text by text
    TaskKind task;
    int classes;
    Dictionary labels;
    int32_t *label_class;
    char *target, *row_id, *pack, *part;
    int64_t shard, shards, bad;
    Json *sources, *bad_rows;
};

// -- packed_meta.c. before: the file opened before this one, or NULL.
WARN_UNUSED struct PackedFile *packed_open(const SourceFile *file, const struct PackedFile *before,
                                           Error *error);
void packed_free(struct PackedFile *packed);
size_t packed_row_bytes(const struct PackedFile *packed);   // numeric, codes and target
void missing_done(Missing *missing, size_t count);

// -- packed_schema.c: options may repeat what the files say, never contradict it
WARN_UNUSED bool schema_make_packed(const Config *config, const struct PackedFile *packed, Schema *ret_schema,
                                    Error *error);

// -- packed_scan.c: every array checked, rows indexed
WARN_UNUSED bool packed_scan(Dataset *dataset, const Config *config, Error *error);

// -- packed.c: one row as fields; what they point to lives as long as the dataset
void packed_fields(const Dataset *dataset, const struct PackedFile *packed, const char *numeric,
                   const char *codes, const char *target, Field *fields);

#endif
