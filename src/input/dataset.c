// dataset - the snapshot of a night's data: its files, its good rows and their splits, fixed from opening to
// closing.
#include "packed_internal.h"

#include <fedgate/hash.h>
#include <fedgate/text.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum {
    FILES_SPARE = 32,   // descriptors the rest of the night may need: logs, spool, database, checkpoints
    FILES_SHARE = 4,   // one part in so many of input.host_memory may hold files
};

const SourceFile *dataset_file_of(const Dataset *dataset, size_t row)
{
    size_t low = 0, high = dataset->file_count - 1;
    while (low < high) {
        size_t middle = (low + high + 1) / 2;
        if (dataset->files[middle].first_row <= row)
            low = middle;
        else
            high = middle - 1;
    }
    return &dataset->files[low];
}

bool dataset_fail_row(const Dataset *dataset, size_t row, Error *error, const char *format, ...)
{
    char text[320];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    const SourceFile *file = dataset_file_of(dataset, row);
    uint64_t at = dataset->rows[row].offset;
    return FAIL(error, ERROR_DATA, 0, "data file '%s', %s %llu: %s", file->path,
                file->packed ? "row" : "line",
                (unsigned long long)(file->packed ? at : source_line(file, at)), text);
}

int64_t dataset_host_bytes(const Dataset *dataset)
{
    return dataset->memory_bytes + (int64_t)(dataset->row_capacity * sizeof *dataset->rows +
                                             dataset->row_count * SPLIT_COUNT * sizeof(uint32_t));
}

bool dataset_rows_in_memory(const Dataset *dataset, bool device_asynchronous)
{
    return dataset->rows_choice == ROWS_MEMORY ||
           (dataset->rows_choice == ROWS_AUTO && (device_asynchronous || dataset->files[0].packed));
}

static bool check_file_limit(size_t files, int64_t cap, Error *error)
{
    struct rlimit limit;
    if ((int64_t)files > cap)
        return FAIL(error, ERROR_CONFIG, 0,
                    "data has %zu files, more than the %lld of option 'input.open_files'", files,
                    (long long)cap);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        files + FILES_SPARE > limit.rlim_cur) {
        FAIL(error, ERROR_UNAVAILABLE, 0, "data has %zu files, but this process may have only %llu open",
             files, (unsigned long long)limit.rlim_cur);
        return error_hint(error, "Raise the limit of open files (ulimit -n) to at least %zu.",
                          files + FILES_SPARE);
    }
    return true;
}

static bool open_files(Dataset *dataset, const Config *config, Error *error)
{
    static const struct {
        const char *option;
        bool test;
    } lists[] = {{"data.train", false}, {"data.test", true}};
    size_t count = config_list_count(config, "data.train") + config_list_count(config, "data.test");
    int64_t begin_ns = clock_monotonic_ns(dataset->clock);
    if (config_list_count(config, "data.train") == 0)
        return FAIL(error, ERROR_CONFIG, 0, "option 'data.train' names no file");
    if (!check_file_limit(count, dataset->files_cap, error))
        return false;
    dataset->files = calloc(count, sizeof *dataset->files);
    if (!dataset->files)
        return FAIL(error, ERROR_MEMORY, 0, "out of memory");
    for (size_t l = 0; l < sizeof lists / sizeof lists[0]; l++)
        for (size_t i = 0; i < config_list_count(config, lists[l].option); i++) {
            SourceFile *file = &dataset->files[dataset->file_count];
            int64_t left = dataset->host_cap_bytes / FILES_SHARE - dataset->memory_bytes;
            if (!source_open(config_list_text(config, lists[l].option, i), lists[l].test, left,
                             dataset->ledger, file, error))
                return false;
            dataset->file_count++;
            dataset->memory_bytes += file->memory ? (int64_t)file->bytes : 0;
            dataset->storage_bytes += (int64_t)file->stored_bytes;
        }
    dataset->storage_ns = clock_monotonic_ns(dataset->clock) - begin_ns;
    return true;
}

static bool copy_forbidden(Dataset *dataset, const Config *config, Error *error)
{
    size_t count = config_list_count(config, "data.forbidden");
    dataset->forbidden = calloc(count + 1, sizeof *dataset->forbidden);
    for (; dataset->forbidden && dataset->forbidden_count < count; dataset->forbidden_count++) {
        char *name = text_duplicate(config_list_text(config, "data.forbidden", dataset->forbidden_count));
        if (!name)
            break;
        dataset->forbidden[dataset->forbidden_count] = name;
    }
    return dataset->forbidden && dataset->forbidden_count == count
               ? true
               : FAIL(error, ERROR_MEMORY, 0, "out of memory");
}

// All files are packed shards or none is: their rows are told apart by what only the one kind has.
static bool same_kind(const Dataset *dataset, bool *ret_packed, Error *error)
{
    const SourceFile *first = &dataset->files[0];
    for (size_t i = 0; i < dataset->file_count; i++)
        if (dataset->files[i].shard != first->shard)
            return FAIL(error, ERROR_CONFIG, 0, "data file '%s' is %s, but '%s' is %s", first->path,
                        first->shard ? "a packed shard" : "text", dataset->files[i].path,
                        first->shard ? "text" : "a packed shard");
    *ret_packed = first->shard;
    return true;
}

Dataset *dataset_open_rows(const Config *config, Clock *clock, Ledger *ledger, bool packing, Error *error)
{
    Dataset *dataset = calloc(1, sizeof *dataset);
    if (!dataset) {
        FAIL(error, ERROR_MEMORY, 0, "out of memory");
        return NULL;
    }
    dataset->clock = clock;
    dataset->ledger = ledger;
    dataset->packing = packing;
    dataset->has_header = config_bool(config, "data.header");
    dataset->bad_allowed = config_integer(config, "data.bad_rows");
    dataset->host_cap_bytes = config_integer(config, "input.host_memory");
    dataset->files_cap = config_integer(config, "input.open_files");
    dataset->workers = (int)config_integer(config, "input.workers");
    const char *rows = config_text(config, "input.rows");
    dataset->rows_choice = text_equal(rows, "text")     ? ROWS_TEXT
                           : text_equal(rows, "memory") ? ROWS_MEMORY
                                                        : ROWS_AUTO;
    bool packed = false;
    if (copy_forbidden(dataset, config, error) && open_files(dataset, config, error) &&
        same_kind(dataset, &packed, error) &&
        (packed ? packed_scan(dataset, config, error) : scan_files(dataset, config, error)))
        return dataset;
    dataset_close(dataset);
    return NULL;
}

Dataset *dataset_open(const Config *config, Clock *clock, Ledger *ledger, Error *error)
{
    Dataset *dataset = dataset_open_rows(config, clock, ledger, false, error);
    if (dataset && split_rows(dataset, config, error) &&
        (dataset->schema.task != TASK_MULTICLASS || dataset->schema.classes >= 2 ||
         FAIL(error, ERROR_DATA, 0, "target column has one class only")))
        return dataset;
    dataset_close(dataset);
    return NULL;
}

void dataset_close(Dataset *dataset)
{
    if (!dataset)
        return;
    for (int s = 0; s < SPLIT_COUNT; s++)
        ledger_give(dataset->ledger, LEDGER_HOST, "input.split", dataset->split_rows[s],
                    (int64_t)(dataset->row_count * sizeof(uint32_t)));
    if (dataset->row_capacity > 0)
        ledger_return(dataset->ledger, LEDGER_HOST, "input.index",
                      (int64_t)(dataset->row_capacity * sizeof *dataset->rows));
    free(dataset->rows);
    for (size_t i = 0; i < dataset->file_count; i++) {
        packed_free(dataset->files[i].packed);
        source_done(&dataset->files[i], dataset->ledger);
    }
    free(dataset->files);
    for (size_t i = 0; i < dataset->forbidden_count; i++)
        free(dataset->forbidden[i]);
    free(dataset->forbidden);
    schema_done(&dataset->schema);
    free(dataset);
}

void dataset_digest(const Dataset *dataset, Digest *ret_digest)
{
    Hash *hash = hash_begin();
    if (hash)
        hash_add_string(hash, "fedgate.dataset/1");
    for (size_t i = 0; hash && i < dataset->file_count; i++) {
        const SourceFile *file = &dataset->files[i];
        char size[32];
        if (!text_print(size, sizeof size, "%llu", (unsigned long long)file->bytes))
            BUG("a size does not fit");
        hash_add_string(hash, file->test ? "test" : "train");
        hash_add_string(hash, file->name);
        hash_add_string(hash, size);
        hash_add(hash, file->digest.bytes, sizeof file->digest.bytes);
    }
    hash_end(hash, ret_digest);
}

Json *dataset_describe(const Dataset *dataset)
{
    Json *description = json_make_object(), *files = json_make_array(), *rows = json_make_object(),
         *places = json_make_array();
    for (size_t i = 0; i < dataset->file_count; i++) {
        const SourceFile *file = &dataset->files[i];
        char hex[DIGEST_HEX_SIZE];
        digest_hex(&file->digest, hex);
        Json *row = json_make_object();
        json_put_text(row, "name", file->name);
        json_put_text(row, "role", file->test ? "test" : "train");
        json_put_integer(row, "stored_bytes", (int64_t)file->stored_bytes);
        json_put_integer(row, "bytes", (int64_t)file->bytes);
        json_put_text(row, "sha256", hex);
        json_put_integer(row, "rows", (int64_t)file->rows);
        if (file->packed) {
            json_put_text(row, "pack", file->packed->pack);
            json_put(row, "packed_from", json_copy_deep(file->packed->sources));
        }
        json_add(files, row);
    }
    for (int s = 0; s < SPLIT_COUNT; s++)
        json_put_integer(rows, split_name((Split)s), (int64_t)dataset->split_count[s]);
    for (int64_t i = 0; i < dataset->bad && i < BAD_PLACES; i++) {
        Json *place = json_make_object();
        json_put_text(place, "file", dataset->places[i].file);
        json_put_integer(place, "line", (int64_t)dataset->places[i].line);
        json_put_text(place, "reason", dataset->places[i].reason);
        json_add(places, place);
    }
    json_put(description, "files", files);
    json_put(description, "rows", rows);
    json_put_integer(description, "bad", dataset->bad);
    json_put(description, "bad_rows", places);
    json_put_integer(description, "after_cutoff", dataset->after_cutoff);
    json_put_text(description, "cutoff", dataset->schema.cutoff_value ? dataset->schema.cutoff_value : "");
    return description;
}

size_t dataset_rows(const Dataset *dataset, Split split)
{
    return dataset->split_count[split];
}

uint64_t dataset_row_digest(const Dataset *dataset, Split split)
{
    uint64_t digest = 0;
    for (size_t i = 0; i < dataset->split_count[split]; i++)
        digest += hash_mix(dataset->rows[dataset->split_rows[split][i]].id);
    return digest;
}

int dataset_classes(const Dataset *dataset)
{
    return dataset->schema.task == TASK_MULTICLASS ? dataset->schema.classes : 1;
}

bool dataset_still_same(const Dataset *dataset, Error *error)
{
    for (size_t i = 0; i < dataset->file_count; i++)
        if (!source_same(&dataset->files[i], error))
            return false;
    return true;
}
