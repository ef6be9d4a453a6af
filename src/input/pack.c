// pack - CSV files to packed shards: read once and proved as a night would, looked at, written, published.
//
// The cutoff is the night's to apply and is not applied here. What comes out depends on the files, the
// options data.* and the rows of a shard alone: the same bytes each time.
#include "pack_internal.h"

#include <fedgate/text.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    SHARD_BYTES = 256 << 20,
    FILES_SPARE = 32,   // descriptors beside those of the shards
};

static size_t rows_of_part(const Dataset *dataset, bool test, size_t *ret_first)
{
    size_t rows = 0;
    *ret_first = SIZE_MAX;
    for (size_t i = 0; i < dataset->file_count; i++)
        if (dataset->files[i].test == test) {
            *ret_first = *ret_first == SIZE_MAX ? dataset->files[i].first_row : *ret_first;
            rows += dataset->files[i].rows;
        }
    return rows;
}

static bool check_descriptors(size_t shards, size_t files, Error *error)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
        shards + files + FILES_SPARE <= limit.rlim_cur)
        return true;
    FAIL(error, ERROR_USAGE, 0, "%zu shards need more open files than the %llu this process may have", shards,
         (unsigned long long)limit.rlim_cur);
    return error_hint(error, "Give more --shard-rows, or raise the limit of open files (ulimit -n).");
}

// Part by part: numbers of shards are known before the first is written, so that each can say of how many it
// is.
static bool plan_shards(Pack *pack, Error *error)
{
    static const char *const parts[] = {"train", "test"};
    const Dataset *dataset = pack->dataset;
    size_t most = pack->spec->shard_rows > 0 ? (size_t)pack->spec->shard_rows
                                             : SHARD_BYTES / pack_row_bytes(pack),
           first[2], rows[2], count[2];
    most = most > 0 ? most : 1;
    for (size_t p = 0; p < 2; p++) {
        rows[p] = rows_of_part(dataset, p == 1, &first[p]);
        count[p] = rows[p] / most + (rows[p] % most > 0);
    }
    if (!check_descriptors(count[0] + count[1], dataset->file_count, error))
        return false;
    pack->shards = calloc(count[0] + count[1] + 1, sizeof *pack->shards);
    if (!pack->shards)
        return FAIL(error, ERROR_MEMORY, 0, "out of memory for packing");
    for (size_t p = 0; p < 2; p++)
        for (size_t i = 0; i < count[p]; i++) {
            PackShard *shard = &pack->shards[pack->shard_count++];
            size_t left = rows[p] - i * most;
            *shard = (PackShard){.part = parts[p],
                                 .first = first[p] + i * most,
                                 .rows = left < most ? left : most,
                                 .index = (int64_t)i,
                                 .count = (int64_t)count[p],
                                 .fd = -1};
            if (!text_print(shard->name, sizeof shard->name, "%s-%05zu-of-%05zu" PACKED_SUFFIX, parts[p], i,
                            count[p]))
                return FAIL(error, ERROR_USAGE, 0, "%zu shards are too many", count[p]);
        }
    return true;
}

static bool check_sources(const Dataset *dataset, Error *error)
{
    for (size_t i = 0; i < dataset->file_count; i++)
        if (dataset->files[i].packed)
            return FAIL(error, ERROR_USAGE, 0, "data file '%s' is packed already", dataset->files[i].path);
    return true;
}

static Json *make_report(const Pack *pack)
{
    Json *report = json_make_object(), *shards = json_make_array();
    for (size_t i = 0; i < pack->shard_count; i++) {
        const PackShard *shard = &pack->shards[i];
        char hex[DIGEST_HEX_SIZE];
        digest_hex(&shard->digest, hex);
        Json *row = json_make_object();
        json_put_text(row, "name", shard->name);
        json_put_text(row, "part", shard->part);
        json_put_integer(row, "rows", (int64_t)shard->rows);
        json_put_integer(row, "bytes", (int64_t)shard->bytes);
        json_put_text(row, "sha256", hex);
        json_put_bool(row, "kept", shard->kept);
        json_add(shards, row);
    }
    json_put_text(report, "directory", pack->spec->directory);
    json_put_text(report, "pack", pack->pack);
    json_put_integer(report, "files", (int64_t)pack->dataset->file_count);
    json_put_integer(report, "rows", (int64_t)pack->dataset->row_count);
    json_put_integer(report, "bad", pack->dataset->bad);
    json_put_integer(report, "columns", (int64_t)pack->count);
    json_put(report, "shards", shards);
    return report;
}

static bool pack_all(Pack *pack, Error *error)
{
    const PackSpec *spec = pack->spec;
    pack->dataset = dataset_open_rows(spec->config, spec->clock, spec->ledger, true, error);
    if (!pack->dataset || !check_sources(pack->dataset, error) || !pack_look(pack, error) ||
        !pack_describe(pack, error) || !plan_shards(pack, error) ||
        !file_make_directories(spec->directory, 0755, error))
        return false;
    for (size_t i = 0; i < pack->shard_count; i++)
        if (!pack_shard(pack, &pack->shards[i], error))
            return false;
    return dataset_still_same(pack->dataset, error) && pack_publish(pack, error);
}

static void pack_done(Pack *pack)
{
    for (size_t i = 0; i < pack->shard_count; i++)
        if (pack->shards[i].fd >= 0)
            close(pack->shards[i].fd);
    free(pack->shards);
    for (size_t i = 0; i < pack->count; i++)
        dictionary_done(&pack->columns[i].dictionary);
    free(pack->columns);
    free(pack->columns_text);
    free(pack->dictionaries_text);
    free(pack->labels_text);
    free(pack->sources_text);
    free(pack->bad_text[0]);
    free(pack->bad_text[1]);
    dataset_close(pack->dataset);
}

bool dataset_pack(const PackSpec *spec, Json **ret_report, Error *error)
{
    Pack pack = {.spec = spec};
    bool there = file_is_directory(spec->directory);
    bool good = pack_all(&pack, error);
    if (good)
        *ret_report = make_report(&pack);
    else if (!there)
        (void)rmdir(spec->directory);   // made by us, and empty unless somebody else came
    pack_done(&pack);
    return good;
}
