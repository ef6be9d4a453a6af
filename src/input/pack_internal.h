// pack_internal - writing packed shards: what is learnt from the rows first, one shard, all of them made
// visible at once.
#ifndef FEDGATE_PACK_INTERNAL_H
#define FEDGATE_PACK_INTERNAL_H

#include "packed_internal.h"

typedef struct PackColumn {
    size_t field;   // column of the CSV
    ColumnRole role;
    bool number;
    Dictionary dictionary;   // of all rows, in byte order; for those that are no numbers
} PackColumn;

typedef struct PackShard {
    char name[64];
    const char *part;
    size_t first, rows;   // of the dataset
    int64_t index, count;   // of its part
    int fd;   // unnamed until all are published
    uint64_t bytes;
    Digest digest;
    bool kept;   // the same file is there already
} PackShard;

typedef struct Pack {
    const PackSpec *spec;
    Dataset *dataset;
    PackColumn *columns;   // numeric, categorical, then those kept for rules and the cutoff
    size_t count, numeric, categorical;   // of columns; of each tensor
    TensorType numeric_type, target_type;
    char *columns_text, *dictionaries_text, *labels_text, *sources_text, *bad_text[2];   // metadata as JSON
    char pack[DIGEST_HEX_SIZE];
    PackShard *shards;
    size_t shard_count;
} Pack;

// -- pack_look.c: which columns, how wide, which texts
WARN_UNUSED bool pack_look(Pack *pack, Error *error);
ptrdiff_t pack_mark(const SchemaColumn *column, const Field *field);   // index of its missing mark, or -1

// -- pack_meta.c: what is the same for all shards
WARN_UNUSED bool pack_describe(Pack *pack, Error *error);
WARN_UNUSED char *pack_text_of(Json *json, Error *error);   // consumes json; the caller frees

// -- pack_shard.c: one shard into an unnamed file
WARN_UNUSED bool pack_shard(const Pack *pack, PackShard *shard, Error *error);
size_t pack_row_bytes(const Pack *pack);   // with row id

// -- pack_publish.c
WARN_UNUSED bool pack_publish(const Pack *pack, Error *error);

#endif
