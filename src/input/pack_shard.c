// pack_shard - one shard: its rows as arrays, figures that describe them, written to a file without a name.
#include "pack_internal.h"

#include <fedgate/text.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char account[] = "input.pack";
enum { TENSORS_MAX = 5, NUMBER_SIZE = 32 };

typedef struct Arrays {
    const Pack *pack;
    char *block;
    int64_t bytes;
    uint64_t *id;
    int64_t *ordinal;
    char *numeric, *target;   // single or double; target int32 for classes
    int32_t *codes;
} Arrays;

size_t pack_row_bytes(const Pack *pack)
{
    return sizeof(uint64_t) + pack->numeric * tensor_type_size(pack->numeric_type) +
           tensor_type_size(pack->target_type) + pack->categorical * sizeof(int32_t);
}

static bool arrays_take(Arrays *arrays, const Pack *pack, size_t rows, Error *error)
{
    arrays->pack = pack;
    arrays->bytes = (int64_t)(rows * (pack_row_bytes(pack) + sizeof *arrays->ordinal));
    arrays->block = ledger_take(pack->spec->ledger, LEDGER_HOST, account, arrays->bytes, error);
    if (!arrays->block)
        return false;
    // Wide ones first, so that each begins at a multiple of its element.
    const bool wide = pack->target_type == TENSOR_F64;
    arrays->id = (uint64_t *)(void *)arrays->block;
    arrays->ordinal = (int64_t *)(void *)(arrays->id + rows);
    char *next = (char *)(arrays->ordinal + rows);
    if (wide) {
        arrays->target = next;
        next += rows * sizeof(double);
    }
    arrays->numeric = next;
    next += rows * pack->numeric * tensor_type_size(pack->numeric_type);
    if (!wide) {
        arrays->target = next;
        next += rows * tensor_type_size(pack->target_type);
    }
    arrays->codes = (int32_t *)(void *)next;
    return true;
}

static void put_number(char *array, TensorType type, size_t at, double value)
{
    if (type == TENSOR_F32)
        ((float *)(void *)array)[at] = isnan(value) ? NAN : (float)value;
    else if (type == TENSOR_F64)
        ((double *)(void *)array)[at] = isnan(value) ? (double)NAN : value;
    else
        ((int32_t *)(void *)array)[at] = (int32_t)value;
}

static double get_number(const char *array, TensorType type, size_t at)
{
    return type == TENSOR_F32 ? (double)((const float *)(const void *)array)[at]
                              : ((const double *)(const void *)array)[at];
}

static bool fill_row(void *context, const RowReader *reader, size_t at, size_t row, Error *error)
{
    Arrays *arrays = context;
    const Pack *pack = arrays->pack;
    const Schema *schema = &pack->dataset->schema;
    size_t number = at * pack->numeric, code = at * pack->categorical;
    for (size_t i = 0; i < pack->count; i++) {
        const PackColumn *own = &pack->columns[i];
        const Field *field = &reader->fields[own->field];
        ptrdiff_t mark = pack_mark(&schema->columns[own->field], field);
        double value = NAN;
        if (own->number && mark < 0 && !number_parse(field->text, field->length, &value))
            return dataset_fail_row(pack->dataset, row, error, "row changed since the file was opened");
        if (own->number)
            put_number(arrays->numeric, pack->numeric_type, number++, value);
        else
            arrays->codes[code++] = mark >= 0 ? (int32_t)(-1 - mark)
                                              : dictionary_find(&own->dictionary, field->text, field->length);
    }
    double target;
    if (!schema_label(schema, &reader->fields[schema->target], &target))
        return dataset_fail_row(pack->dataset, row, error, "target changed since the file was opened");
    put_number(arrays->target, pack->target_type, at, target);
    arrays->id[at] = pack->dataset->rows[row].id;
    arrays->ordinal[at] = pack->dataset->rows[row].ordinal;
    return true;
}

// -- figures: of this shard, for people; nothing is computed from them

static Json *number_figures(const Arrays *arrays, size_t rows, size_t column)
{
    const Pack *pack = arrays->pack;
    double low = INFINITY, high = -INFINITY, mean = 0, squares = 0;
    size_t n = 0;
    for (size_t i = 0; i < rows; i++) {
        double value = get_number(arrays->numeric, pack->numeric_type, i * pack->numeric + column);
        if (isnan(value))
            continue;
        double step = value - mean;   // Welford 1962
        mean += step / (double)++n;
        squares += step * (value - mean);
        low = value < low ? value : low;
        high = value > high ? value : high;
    }
    Json *row = json_make_object();
    json_put_integer(row, "missing", (int64_t)(rows - n));
    if (n == 0)
        return row;
    json_put_number(row, "min", low);
    json_put_number(row, "max", high);
    json_put_number(row, "mean", mean);
    json_put_number(row, "deviation", n > 1 ? sqrt(squares / (double)(n - 1)) : 0);
    return row;
}

static Json *code_figures(const Arrays *arrays, size_t rows, size_t column, size_t texts, Error *error)
{
    int64_t *counts = calloc(texts + 1, sizeof *counts), missing = 0, distinct = 0;
    if (!counts) {
        FAIL(error, ERROR_MEMORY, 0, "out of memory for packing");
        return NULL;
    }
    for (size_t i = 0; i < rows; i++) {
        int32_t code = arrays->codes[i * arrays->pack->categorical + column];
        missing += code < 0;
        if (code >= 0)
            distinct += counts[code]++ == 0;
    }
    Json *row = json_make_object(), *list = json_make_array();
    for (size_t k = 0; k < texts; k++)
        json_add_integer(list, counts[k]);
    free(counts);
    json_put_integer(row, "missing", missing);
    json_put_integer(row, "distinct", distinct);
    json_put(row, "counts", list);
    return row;
}

static char *figures_text(const Arrays *arrays, size_t rows, Error *error)
{
    const Pack *pack = arrays->pack;
    Json *figures = json_make_object();
    for (size_t i = 0, number = 0, code = 0; i < pack->count; i++) {
        const PackColumn *own = &pack->columns[i];
        Json *row = own->number ? number_figures(arrays, rows, number++)
                                : code_figures(arrays, rows, code++, own->dictionary.count, error);
        if (!row) {
            json_free(figures);
            return NULL;
        }
        json_put(figures, pack->dataset->schema.columns[own->field].name, row);
    }
    return pack_text_of(figures, error);
}

// -- the file

static Tensor tensor_of(const char *name, TensorType type, size_t rows, size_t columns, const void *data)
{
    Tensor tensor = {
        .type = type, .shape = {(int64_t)rows, (int64_t)columns}, .rank = columns > 0 ? 2 : 1, .data = data};
    tensor.bytes = rows * (columns > 0 ? columns : 1) * tensor_type_size(type);
    if (columns == 0)
        tensor.shape[1] = 0;
    if (!text_copy(tensor.name, sizeof tensor.name, name))
        BUG("tensor name '%s' does not fit", name);
    return tensor;
}

static size_t list_tensors(const Arrays *arrays, size_t rows, Tensor ret_tensors[static TENSORS_MAX])
{
    const Pack *pack = arrays->pack;
    size_t count = 0;
    const Tensor target = tensor_of("target", pack->target_type, rows, 0, arrays->target);
    bool gaps = false;
    for (size_t i = 0; i < rows; i++)
        gaps |= arrays->ordinal[i] != arrays->ordinal[0] + (int64_t)i;
    ret_tensors[count++] = tensor_of("row_id", TENSOR_U64, rows, 0, arrays->id);
    if (gaps)   // rows were left out between
        ret_tensors[count++] = tensor_of("ordinal", TENSOR_I64, rows, 0, arrays->ordinal);
    if (pack->target_type == TENSOR_F64)
        ret_tensors[count++] = target;
    if (pack->numeric > 0)
        ret_tensors[count++] = tensor_of("numeric", pack->numeric_type, rows, pack->numeric, arrays->numeric);
    if (pack->target_type != TENSOR_F64)
        ret_tensors[count++] = target;
    if (pack->categorical > 0)
        ret_tensors[count++] = tensor_of("categorical", TENSOR_I32, rows, pack->categorical, arrays->codes);
    return count;
}

static int64_t bad_of_part(const Dataset *dataset, bool test)
{
    int64_t bad = 0;
    for (size_t i = 0; i < dataset->file_count; i++)
        bad += dataset->files[i].test == test ? dataset->files[i].bad : 0;
    return bad;
}

static bool write_shard(const Arrays *arrays, PackShard *shard, const char *figures, Error *error)
{
    const Pack *pack = arrays->pack;
    const Schema *schema = &pack->dataset->schema;
    const bool test = text_equal(shard->part, "test"), first = shard->index == 0;
    char classes[NUMBER_SIZE], index[NUMBER_SIZE], count[NUMBER_SIZE], record[NUMBER_SIZE], bad[NUMBER_SIZE];
    if (!text_print(classes, sizeof classes, "%d", schema->classes) ||
        !text_print(index, sizeof index, "%lld", (long long)shard->index) ||
        !text_print(count, sizeof count, "%lld", (long long)shard->count) ||
        !text_print(record, sizeof record, "%lld", (long long)arrays->ordinal[0]) ||
        !text_print(bad, sizeof bad, "%lld", first ? (long long)bad_of_part(pack->dataset, test) : 0))
        BUG("a number does not fit");
    const char *row_id = config_text(pack->spec->config, "data.row_id");
    const char *metadata[] = {
        "format",       PACKED_FORMAT,
        "task",         task_name(schema->task),
        "target",       schema->columns[schema->target].name,
        "classes",      classes,
        "labels",       pack->labels_text,
        "row_id",       row_id,
        "columns",      pack->columns_text,
        "sources",      pack->sources_text,
        "pack",         pack->pack,
        "part",         shard->part,
        "shard",        index,
        "shards",       count,
        "first_record", record,
        "bad",          bad,
        "bad_rows",     first ? pack->bad_text[test] : "[]",
        "statistics",   figures,
        "dictionaries", pack->dictionaries_text,
        NULL,
    };
    Tensor tensors[TENSORS_MAX];
    if (tensors_write_fd(shard->fd, tensors, list_tensors(arrays, shard->rows, tensors), metadata, error))
        return hash_fd(shard->fd, &shard->digest, &shard->bytes, error);
    return error->kind == ERROR_DATA   // the length of the header is all it can refuse
               ? error_hint(error, "Is an identifier among data.categorical? So many texts cannot be packed.")
               : false;
}

bool pack_shard(const Pack *pack, PackShard *shard, Error *error)
{
    Arrays arrays = {0};
    bool good = arrays_take(&arrays, pack, shard->rows, error) &&
                reader_visit_range(pack->dataset, shard->first, shard->rows, fill_row, &arrays, error);
    char *figures = good ? figures_text(&arrays, shard->rows, error) : NULL;
    good = figures && file_temporary(pack->spec->directory, &shard->fd, error) &&
           write_shard(&arrays, shard, figures, error);
    free(figures);
    ledger_give(pack->spec->ledger, LEDGER_HOST, account, arrays.block, arrays.bytes);
    return good ? true : error_prefix(error, "packed shard '%s'", shard->name);
}
