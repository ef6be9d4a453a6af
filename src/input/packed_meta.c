// packed_meta - the header of a packed shard: tensors and metadata, each claim checked before it is used.
#include "packed_internal.h"

#include <fedgate/text.h>
#include <stdlib.h>
#include <string.h>

enum { JSON_MAX = 100 * 1000 * 1000, SHARDS_MAX = 100000 };

static bool out_of_memory(Error *error)
{
    return FAIL(error, ERROR_MEMORY, 0, "out of memory for the description of a packed shard");
}

void missing_done(Missing *missing, size_t count)
{
    for (size_t i = 0; missing && i < count; i++)
        free(missing[i].text);
    free(missing);
}

void packed_free(struct PackedFile *packed)
{
    if (!packed)
        return;
    tensors_free(packed->header);
    for (size_t c = 0; packed->columns && c < packed->column_count; c++) {
        free(packed->columns[c].name);
        missing_done(packed->columns[c].missing, packed->columns[c].missing_count);
    }
    free(packed->columns);
    for (size_t i = 0; packed->dictionary && !packed->borrowed && i < packed->categorical; i++)
        dictionary_done(&packed->dictionary[i]);
    if (!packed->borrowed)
        free(packed->dictionary);
    dictionary_done(&packed->labels);
    free(packed->label_class);
    free(packed->target);
    free(packed->row_id);
    free(packed->pack);
    free(packed->part);
    json_free(packed->sources);
    json_free(packed->bad_rows);
    free(packed);
}

size_t packed_row_bytes(const struct PackedFile *packed)
{
    return packed->numeric_bytes + packed->codes_bytes + packed->target_bytes;
}

// -- metadata: texts, numbers as text, JSON as text

static bool meta_text(const struct PackedFile *packed, const char *key, const char **ret_text, Error *error)
{
    *ret_text = tensors_metadata(packed->header, key);
    return *ret_text
               ? true
               : FAIL(error, ERROR_DATA, 0, "metadata '%s' is missing: not made by `fedgate pack`", key);
}

static bool meta_copy(const struct PackedFile *packed, const char *key, char **ret_copy, Error *error)
{
    const char *text;
    if (!meta_text(packed, key, &text, error))
        return false;
    *ret_copy = text_duplicate(text);
    return *ret_copy ? true : out_of_memory(error);
}

static bool meta_integer(const struct PackedFile *packed, const char *key, int64_t least, int64_t most,
                         int64_t *ret_value, Error *error)
{
    const char *text;
    if (!meta_text(packed, key, &text, error))
        return false;
    if (!text_to_int64(text, ret_value) || *ret_value < least || *ret_value > most)
        return FAIL(error, ERROR_DATA, 0, "metadata '%s' is '%.40s', not a whole number from %lld to %lld",
                    key, text, (long long)least, (long long)most);
    return true;
}

static Json *meta_json(const struct PackedFile *packed, const char *key, bool array, Error *error)
{
    const char *text;
    if (!meta_text(packed, key, &text, error))
        return NULL;
    Json *json = json_parse(text, strlen(text), JSON_MAX, error);
    if (json && (array ? json_is_array(json) : json_is_object(json)))
        return json;
    if (json)
        FAIL(error, ERROR_DATA, 0, "it is not %s", array ? "a list" : "an object");
    json_free(json);
    error_prefix(error, "metadata '%s'", key);
    return NULL;
}

// -- columns and dictionaries

static bool read_missing(const Json *marks, PackedColumn *column, Error *error)
{
    column->missing = calloc(json_count(marks) + 1, sizeof *column->missing);
    if (!column->missing)
        return out_of_memory(error);
    Dictionary seen = {0};
    bool good = json_is_array(marks) ? true : FAIL(error, ERROR_DATA, 0, "its missing marks are not a list");
    for (size_t i = 0; good && i < json_count(marks); i++)
        good = category_from_json(json_at(marks, i), &seen, error);
    for (size_t i = 0; good && i < seen.count; i++) {
        char *text = text_duplicate(seen.keys[i]);
        good = text ? true : out_of_memory(error);
        if (text)
            column->missing[column->missing_count++] = (Missing){text, strlen(text)};
    }
    dictionary_done(&seen);
    return good;
}

static bool read_column(const Json *row, struct PackedFile *packed, PackedColumn *column, Error *error)
{
    static const ColumnRole roles[] = {ROLE_NONE, ROLE_NUMERIC, ROLE_CATEGORICAL};
    const char *name, *role, *stored;
    if (!json_get_text(row, "name", &name, error) || !json_get_text(row, "role", &role, error) ||
        !json_get_text(row, "stored", &stored, error))
        return false;
    if (*name == '\0')
        return FAIL(error, ERROR_DATA, 0, "a column has no name");
    for (size_t c = 0; c + 1 < packed->column_count; c++)
        if (text_equal(packed->columns[c].name, name))
            return FAIL(error, ERROR_DATA, 0, "column '%s' is named twice", name);
    if (!(column->name = text_duplicate(name)))
        return out_of_memory(error);
    column->number = text_equal(stored, "numeric");
    if (!column->number && !text_equal(stored, "categorical"))
        return FAIL(error, ERROR_DATA, 0, "column '%s' is stored as '%.40s', not numeric or categorical",
                    name, stored);
    size_t r = 0;
    while (r < sizeof roles / sizeof roles[0] && !text_equal(role_name(roles[r]), role))
        r++;
    if (r == sizeof roles / sizeof roles[0] || (roles[r] == ROLE_NUMERIC && !column->number) ||
        (roles[r] == ROLE_CATEGORICAL && column->number))
        return FAIL(error, ERROR_DATA, 0, "column '%s' has the role '%.40s', but is stored as %s", name, role,
                    stored);
    column->role = roles[r];
    column->at = column->number ? packed->numeric++ : packed->categorical++;
    return read_missing(json_get(row, "missing"), column, error) || error_prefix(error, "column '%s'", name);
}

static bool read_columns(struct PackedFile *packed, Error *error)
{
    OWNED(Json, json_free) *rows = meta_json(packed, "columns", true, error);
    if (!rows)
        return false;
    size_t count = json_count(rows);
    if (count == 0 || count > COLUMNS_MAX)
        return FAIL(error, ERROR_DATA, 0, "metadata 'columns' has %zu columns, not 1 to %d", count,
                    COLUMNS_MAX);
    packed->columns = calloc(count, sizeof *packed->columns);
    if (!packed->columns)
        return out_of_memory(error);
    for (size_t i = 0; i < count; i++)
        if (!read_column(json_at(rows, i), packed, &packed->columns[packed->column_count++], error))
            return error_prefix(error, "metadata 'columns'");
    return true;
}

static bool read_dictionaries(struct PackedFile *packed, const struct PackedFile *before, Error *error)
{
    const char *text, *earlier = before ? tensors_metadata(before->header, "dictionaries") : NULL;
    if (!meta_text(packed, "dictionaries", &text, error))
        return false;
    if (before && text_equal(text, earlier) && before->categorical == packed->categorical) {
        packed->dictionary = before->dictionary;
        packed->borrowed = true;
        return true;
    }
    OWNED(Json, json_free) *lists = meta_json(packed, "dictionaries", true, error);
    if (!lists)
        return false;
    if (json_count(lists) != packed->categorical)
        return FAIL(error, ERROR_DATA, 0, "metadata 'dictionaries' has %zu lists for %zu categorical columns",
                    json_count(lists), packed->categorical);
    packed->dictionary = calloc(packed->categorical + 1, sizeof *packed->dictionary);
    if (!packed->dictionary)
        return out_of_memory(error);
    for (size_t i = 0; i < packed->categorical; i++) {
        const Json *list = json_at(lists, i);
        if (!json_is_array(list))
            return FAIL(error, ERROR_DATA, 0, "metadata 'dictionaries' holds something other than lists");
        for (size_t k = 0; k < json_count(list); k++)
            if (!category_from_json(json_at(list, k), &packed->dictionary[i], error))
                return error_prefix(error, "metadata 'dictionaries', list %zu", i);
    }
    return true;
}

// [[token, class]...]
static bool read_labels(struct PackedFile *packed, Error *error)
{
    OWNED(Json, json_free) *pairs = meta_json(packed, "labels", true, error);
    if (!pairs)
        return false;
    size_t count = json_count(pairs);
    packed->label_class = calloc(count + 1, sizeof *packed->label_class);
    if (!packed->label_class)
        return out_of_memory(error);
    for (size_t i = 0; i < count; i++) {
        const Json *pair = json_at(pairs, i), *class = json_at(pair, 1);
        int64_t value = json_integer_or(class, -1);
        if (!json_is_array(pair) || json_count(pair) != 2 || !json_is_integer(class) || value < 0 ||
            value >= packed->classes)
            return FAIL(error, ERROR_DATA, 0,
                        "metadata 'labels' has a pair that is not a text and a class below %d",
                        packed->classes);
        if (!category_from_json(json_at(pair, 0), &packed->labels, error))
            return error_prefix(error, "metadata 'labels'");
        packed->label_class[i] = (int32_t)value;
    }
    return true;
}

static bool read_task(struct PackedFile *packed, Error *error)
{
    const char *task;
    int64_t classes;
    if (!meta_text(packed, "task", &task, error) ||
        !meta_integer(packed, "classes", 0, CLASSES_MAX, &classes, error))
        return false;
    packed->classes = (int)classes;
    for (int t = TASK_BINARY; t <= TASK_REGRESSION; t++)
        if (text_equal(task_name((TaskKind)t), task)) {
            packed->task = (TaskKind)t;
            return read_labels(packed, error);
        }
    return FAIL(error, ERROR_DATA, 0, "metadata 'task' is '%.40s', which is no task", task);
}

static bool read_part(struct PackedFile *packed, Error *error)
{
    if (!meta_copy(packed, "target", &packed->target, error) ||
        !meta_copy(packed, "row_id", &packed->row_id, error) ||
        !meta_copy(packed, "pack", &packed->pack, error) ||
        !meta_copy(packed, "part", &packed->part, error) ||
        !meta_integer(packed, "shards", 1, SHARDS_MAX, &packed->shards, error) ||
        !meta_integer(packed, "shard", 0, packed->shards - 1, &packed->shard, error) ||
        !meta_integer(packed, "first_record", 0, UINT32_MAX, &packed->first_record, error) ||
        !meta_integer(packed, "bad", 0, UINT32_MAX, &packed->bad, error) ||
        !(packed->sources = meta_json(packed, "sources", true, error)) ||
        !(packed->bad_rows = meta_json(packed, "bad_rows", true, error)))
        return false;
    for (size_t c = 0; c < packed->column_count; c++)
        if (text_equal(packed->columns[c].name, packed->target))
            return FAIL(error, ERROR_DATA, 0, "target '%s' is a column too", packed->target);
    return true;
}

// -- tensors

// Rows must agree; ret_at 0 where an optional tensor is not there.
static bool find_tensor(struct PackedFile *packed, const char *name, unsigned types, int rank,
                        int64_t columns, uint64_t *ret_at, TensorType *ret_type, Error *error)
{
    const Tensor *tensor = tensors_find(packed->header, name);
    if (!tensor)
        return FAIL(error, ERROR_DATA, 0, "tensor '%s' is missing", name);
    if (!(types & 1u << tensor->type))
        return FAIL(error, ERROR_DATA, 0, "tensor '%s' has dtype %s", name, tensor_type_name(tensor->type));
    if (tensor->rank != rank)
        return FAIL(error, ERROR_DATA, 0, "tensor '%s' has rank %d, not %d", name, tensor->rank, rank);
    if (tensor->shape[0] != (int64_t)packed->rows)
        return FAIL(error, ERROR_DATA, 0, "tensor '%s' has %lld rows, but 'row_id' has %zu", name,
                    (long long)tensor->shape[0], packed->rows);
    if (rank == 2 && tensor->shape[1] != columns)
        return FAIL(error, ERROR_DATA, 0, "tensor '%s' has %lld columns, but the metadata %lld", name,
                    (long long)tensor->shape[1], (long long)columns);
    *ret_at = tensor->offset;
    *ret_type = tensor->type;
    return true;
}

#define BIT(type) (1u << (type))

static bool find_tensors(struct PackedFile *packed, Error *error)
{
    TensorType ignored;
    const Tensor *id = tensors_find(packed->header, "row_id");
    const unsigned targets =
        packed->task == TASK_REGRESSION ? BIT(TENSOR_F32) | BIT(TENSOR_F64) : BIT(TENSOR_I32);
    packed->rows = id && id->rank == 1 ? (size_t)id->shape[0] : 0;
    if (packed->rows > UINT32_MAX / 2)
        return FAIL(error, ERROR_DATA, 0, "%zu rows are more than %u", packed->rows, UINT32_MAX / 2);
    packed->numeric_type = TENSOR_F32;
    if (!find_tensor(packed, "row_id", BIT(TENSOR_U64), 1, 0, &packed->id_at, &ignored, error) ||
        !find_tensor(packed, "target", targets, 1, 0, &packed->target_at, &packed->target_type, error) ||
        (packed->numeric > 0 &&
         !find_tensor(packed, "numeric", BIT(TENSOR_F32) | BIT(TENSOR_F64), 2, (int64_t)packed->numeric,
                      &packed->numeric_at, &packed->numeric_type, error)) ||
        (packed->categorical > 0 &&
         !find_tensor(packed, "categorical", BIT(TENSOR_I32), 2, (int64_t)packed->categorical,
                      &packed->codes_at, &ignored, error)) ||
        (tensors_find(packed->header, "ordinal") &&
         !find_tensor(packed, "ordinal", BIT(TENSOR_I64), 1, 0, &packed->ordinal_at, &ignored, error)))
        return false;
    if (packed->rows == 0)
        return FAIL(error, ERROR_DATA, 0, "it has no rows");
    packed->numeric_bytes = packed->numeric * tensor_type_size(packed->numeric_type);
    packed->codes_bytes = packed->categorical * sizeof(int32_t);
    packed->target_bytes = tensor_type_size(packed->target_type);
    return true;
}

static bool read_source(const void *context, void *to, size_t bytes, uint64_t offset, Error *error)
{
    return source_read(context, to, bytes, offset, error);
}

struct PackedFile *packed_open(const SourceFile *file, const struct PackedFile *before, Error *error)
{
    struct PackedFile *packed = calloc(1, sizeof *packed);
    if (!packed) {
        out_of_memory(error);
        return NULL;
    }
    const char *format = "";
    packed->header = tensors_index(read_source, file, file->bytes, error);
    bool good = packed->header && meta_text(packed, "format", &format, error);
    if (good && !text_equal(format, PACKED_FORMAT))
        good = FAIL(error, ERROR_DATA, 0, "its format is '%.40s', this program reads '" PACKED_FORMAT "'",
                    format);
    if (good && read_columns(packed, error) && read_dictionaries(packed, before, error) &&
        read_task(packed, error) && read_part(packed, error) && find_tensors(packed, error))
        return packed;
    packed_free(packed);
    return NULL;
}
