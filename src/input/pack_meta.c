// pack_meta - the metadata every shard of a pack carries: columns, dictionaries, labels, sources, bad rows;
// and the digest that tells one pack from another.
#include "pack_internal.h"

#include <fedgate/text.h>
#include <stdlib.h>
#include <string.h>

enum { META_MAX = 100 * 1000 * 1000 };

char *pack_text_of(Json *json, Error *error)
{
    SCOPED_TEXT text;
    text_init(&text, META_MAX);
    json_write(json, JSON_COMPACT, &text);
    json_free(json);
    char *copy = text_take(&text);
    if (!copy) {
        FAIL(error, ERROR_DATA, 0, "metadata is longer than %d bytes", META_MAX);
        error_hint(error,
                   "Is an identifier among data.categorical? A column of very many texts cannot be packed.");
    }
    return copy;
}

static Json *columns_json(const Pack *pack)
{
    Json *rows = json_make_array();
    for (size_t i = 0; i < pack->count; i++) {
        const PackColumn *own = &pack->columns[i];
        const SchemaColumn *column = &pack->dataset->schema.columns[own->field];
        Json *row = json_make_object(), *marks = json_make_array();
        for (size_t m = 0; m < column->missing_count; m++)
            json_add(marks, category_to_json(column->missing[m].text, column->missing[m].length));
        json_put_text(row, "name", column->name);
        json_put_text(row, "role", role_name(own->role));
        json_put_text(row, "stored", role_name(own->number ? ROLE_NUMERIC : ROLE_CATEGORICAL));
        json_put(row, "missing", marks);
        json_add(rows, row);
    }
    return rows;
}

static Json *dictionaries_json(const Pack *pack)
{
    Json *lists = json_make_array();
    for (size_t i = 0; i < pack->count; i++) {
        const Dictionary *dictionary = &pack->columns[i].dictionary;
        Json *list = json_make_array();
        for (size_t k = 0; k < dictionary->count; k++)
            json_add(list, category_to_json(dictionary->keys[k], dictionary->lengths[k]));
        if (pack->columns[i].number)
            json_free(list);
        else
            json_add(lists, list);
    }
    return lists;
}

static Json *labels_json(const Schema *schema)
{
    Json *pairs = json_make_array();
    for (size_t i = 0; i < schema->labels.count; i++) {
        Json *pair = json_make_array();
        json_add(pair, category_to_json(schema->labels.keys[i], schema->labels.lengths[i]));
        json_add_integer(pair, schema->label_class[i]);
        json_add(pairs, pair);
    }
    return pairs;
}

static Json *sources_json(const Dataset *dataset)
{
    Json *rows = json_make_array();
    for (size_t i = 0; i < dataset->file_count; i++) {
        const SourceFile *file = &dataset->files[i];
        char hex[DIGEST_HEX_SIZE];
        digest_hex(&file->digest, hex);
        Json *row = json_make_object();
        json_put_text(row, "name", file->name);
        json_put_text(row, "part", file->test ? "test" : "train");
        json_put_integer(row, "bytes", (int64_t)file->bytes);
        json_put_text(row, "sha256", hex);
        json_put_integer(row, "rows", (int64_t)file->rows);
        json_put_integer(row, "bad", file->bad);
        json_add(rows, row);
    }
    return rows;
}

static Json *bad_json(const Dataset *dataset, bool test)
{
    Json *rows = json_make_array();
    for (int64_t i = 0; i < dataset->bad && i < BAD_PLACES; i++) {
        const BadPlace *place = &dataset->places[i];
        if (place->test != test)
            continue;
        Json *row = json_make_object();
        json_put_text(row, "file", place->file);
        json_put_integer(row, "line", (int64_t)place->line);
        json_put_text(row, "reason", place->reason);
        json_add(rows, row);
    }
    return rows;
}

static bool pack_identify(Pack *pack, Error *error)
{
    char rows[32];
    Hash *hash = hash_begin();
    if (!hash || !text_print(rows, sizeof rows, "%lld", (long long)pack->spec->shard_rows)) {
        hash_abort(hash);
        return FAIL(error, ERROR_MEMORY, 0, "out of memory for packing");
    }
    hash_add_string(hash, PACKED_FORMAT);
    hash_add_string(hash, pack->columns_text);
    hash_add_string(hash, pack->dictionaries_text);
    hash_add_string(hash, pack->labels_text);
    hash_add_string(hash, pack->sources_text);
    hash_add_string(hash, rows);
    Digest digest;
    hash_end(hash, &digest);
    digest_hex(&digest, pack->pack);
    return true;
}

bool pack_describe(Pack *pack, Error *error)
{
    const Dataset *dataset = pack->dataset;
    return (pack->columns_text = pack_text_of(columns_json(pack), error)) != NULL &&
           (pack->dictionaries_text = pack_text_of(dictionaries_json(pack), error)) != NULL &&
           (pack->labels_text = pack_text_of(labels_json(&dataset->schema), error)) != NULL &&
           (pack->sources_text = pack_text_of(sources_json(dataset), error)) != NULL &&
           (pack->bad_text[0] = pack_text_of(bad_json(dataset, false), error)) != NULL &&
           (pack->bad_text[1] = pack_text_of(bad_json(dataset, true), error)) != NULL &&
           pack_identify(pack, error);
}
