// input_pack_fixture - a CSV data set with the quirks of real ones, packed, and both opened side by side.
#ifndef FEDGATE_TESTS_INPUT_PACK_FIXTURE_H
#define FEDGATE_TESTS_INPUT_PACK_FIXTURE_H

#include "input_fixture.h"

// A way to have data: its columns and what the configuration says of them.
typedef struct Kind {
    const char *name, *header;
    void (*row)(Text *csv, int i);
    const char *sets[14];
} Kind;

static inline void row_binary(Text *csv, int i)
{
    static const char *const jobs[] = {"\"Exec, senior\"", "?", "Sales", "\"say \"\"hi\"\"\"", "caf\xe9", ""};
    text_add_format(csv, "id-%d,%d,%d.%02d,%s,%s,2026-%02d-%02d,%s\n", i, 17 + i * 7 % 60, i % 13,
                    i * 37 % 100,
                    i % 9 == 4 ? "?"
                    : i % 2    ? "1e-3"
                               : "-0",
                    jobs[i % 6], 1 + i / 60, 1 + i % 60 / 2, i % 3 == 0 ? ">50K" : "<=50K");
}

static inline void row_multiclass(Text *csv, int i)
{
    text_add_format(csv, "%d,%d,k%d,%d\n", i, i * i % 97, i % 5, i % 4);
}

static inline void row_regression(Text *csv, int i)
{
    text_add_format(csv, "%d,%d.5,%s,%d.%d\n", i, i * 31 % 101, i % 7 ? "a" : "b", i * 17 % 50, i % 10);
}

// All its numbers are single-precision numbers.
static inline void row_single(Text *csv, int i)
{
    text_add_format(csv, "%d,%d,%d\n", i * 7 % 200, i % 5 ? i % 90 - 45 : 0, i % 2);
}

static const Kind kinds[] = {
    {"binary",
     "id,age,gain,hours,job,day,income",
     row_binary,
     {"data.target=income", "data.row_id=id", "data.labels=<=50K=0,>50K=1", "data.numeric=age,hours,gain",
      "data.categorical=job", "data.missing=hours=?,job=?,job=", "data.cutoff_column=day",
      "data.cutoff=2026-09-20"}},
    {"multiclass",
     "n,m,k,y",
     row_multiclass,
     {"data.numeric=m", "data.categorical=k", "task=multiclass", "quality.metric=accuracy"}},
    {"regression",
     "n,a,b,y",
     row_regression,
     {"data.numeric=a,n", "data.categorical=b", "task=regression", "quality.metric=rmse"}},
    {"single", "a,b,y", row_single, {"data.numeric=b,a"}},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static inline void write_kind(const Bench *bench, const Kind *kind, const char *file, int first, int rows)
{
    SCOPED_TEXT csv;
    text_init(&csv, 16u << 20);
    text_add_format(&csv, "%s\n", kind->header);
    for (int i = first; i < first + rows; i++)
        kind->row(&csv, i);
    bench_write(bench, file, csv.data, csv.length);
}

// The kind's options, then these; a later one of the same name wins.
static inline void kind_config(Bench *bench, const Kind *kind, const char *const *more)
{
    const char *sets[64];
    char directory[FILE_PATH_SIZE];
    size_t count = 0;
    snprintf(directory, sizeof directory, "data.directory=%s", bench->folder);
    sets[count++] = "model=test";
    sets[count++] = "data.target=y";
    sets[count++] = directory;
    for (size_t i = 0; i < 14 && kind->sets[i]; i++)
        sets[count++] = kind->sets[i];
    for (; more && *more; more++)
        sets[count++] = *more;
    config_free(bench->config);
    bench->config = config_load(NULL, sets, count, NULL, &bench->error);
    ck_assert_msg(bench->config != NULL, "%s", bench->error.message);
}
#define KIND_CONFIG(bench, kind, ...) kind_config(bench, kind, (const char *const[]){__VA_ARGS__, NULL})

// Packs what the configuration names into folder "p" of the bench. ret_train and ret_test: options that name
// the shards, "data.test=" when there are none.
static inline Json *pack_kind(Bench *bench, int64_t shard_rows, char ret_train[static 8192],
                              char ret_test[static 8192])
{
    PackSpec spec = {.config = bench->config,
                     .clock = clock_real(),
                     .ledger = bench->ledger,
                     .directory = support_path(bench->folder, "p"),
                     .shard_rows = shard_rows};
    Json *report = NULL;
    ASSERT_OK(dataset_pack(&spec, &report, &bench->error), &bench->error);
    snprintf(ret_train, 8192, "data.train=");
    snprintf(ret_test, 8192, "data.test=");
    const Json *shards = json_get(report, "shards");
    for (size_t i = 0; i < json_count(shards); i++) {
        const Json *shard = json_at(shards, i);
        char *list = strcmp(json_text_or(json_get(shard, "part"), ""), "test") == 0 ? ret_test : ret_train;
        size_t used = strlen(list);
        snprintf(list + used, 8192 - used, "%sp/%s", list[used - 1] == '=' ? "" : ",",
                 json_text_or(json_get(shard, "name"), ""));
    }
    return report;
}

#endif
