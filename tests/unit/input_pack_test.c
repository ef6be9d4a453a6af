// input_pack_test - packed shards: the same rows, splits, maps, inputs and figures as the text they were made
// from, to the bit; the format by hand; nothing half made.
#include "../../src/input/input_internal.h"   // rows in memory have no public name
#include "input_pack_fixture.h"

#include <sys/stat.h>
#include <unistd.h>

enum { ROWS = 600 };

static Dataset *open_data(Bench *bench)
{
    Dataset *dataset = bench_open(bench);
    ck_assert_msg(dataset != NULL, "%s", bench->error.message);
    return dataset;
}

static void same_text(Json *a, Json *b, const char *what)
{
    SCOPED_TEXT x;
    SCOPED_TEXT y;
    text_init(&x, 64u << 20);
    text_init(&y, 64u << 20);
    json_write(a, JSON_COMPACT, &x);
    json_write(b, JSON_COMPACT, &y);
    ck_assert_msg(strcmp(text_string(&x), text_string(&y)) == 0, "%s differ:\n%s\n%s", what, text_string(&x),
                  text_string(&y));
    json_free(a);
    json_free(b);
}

static void same_table(Bench *bench, const Dataset *a, const Dataset *b, const Maps *maps, Split split)
{
    Table x, y;
    ASSERT_OK(dataset_decode(a, maps, split, bench->ledger, &x, &bench->error), &bench->error);
    ASSERT_OK(dataset_decode(b, maps, split, bench->ledger, &y, &bench->error), &bench->error);
    ck_assert_uint_eq(x.rows, y.rows);
    ck_assert_mem_eq(x.row_id, y.row_id, x.rows * sizeof *x.row_id);
    ck_assert_mem_eq(x.target, y.target, x.rows * sizeof *x.target);
    ck_assert_mem_eq(x.x, y.x, x.rows * x.numeric * sizeof *x.x);
    ck_assert_mem_eq(x.codes, y.codes, x.rows * x.categorical * sizeof *x.codes);
    RowStore *store = rowstore_open(b, maps, split, &bench->error);
    ck_assert_msg(store != NULL, "%s", bench->error.message);
    float target;
    uint64_t id;
    float *numeric = calloc(x.numeric + 1, sizeof *numeric);
    int32_t *codes = calloc(x.categorical + 1, sizeof *codes);
    for (uint32_t i = 0; i < x.rows; i += 17) {
        rowstore_gather(store, &i, 1, numeric, codes, &target, &id);
        ck_assert_mem_eq(numeric, x.x + i * x.numeric, x.numeric * sizeof(float));
        ck_assert_mem_eq(codes, x.codes + i * x.categorical, x.categorical * sizeof(int32_t));
        ck_assert_uint_eq(id, x.row_id[i]);
    }
    free(numeric);
    free(codes);
    rowstore_free(store);
    table_done(&x);
    table_done(&y);
}

static void same_column(Bench *bench, const Dataset *a, const Dataset *b, const char *name)
{
    Column x, y;
    ASSERT_OK(dataset_column(a, SPLIT_TEST, name, &x, &bench->error), &bench->error);
    ASSERT_OK(dataset_column(b, SPLIT_TEST, name, &y, &bench->error), &bench->error);
    ck_assert_uint_eq(x.rows, y.rows);
    for (size_t i = 0; i < x.rows; i++)
        ck_assert(x.numbers[i] == y.numbers[i] ||
                  (x.numbers[i] != x.numbers[i] && y.numbers[i] != y.numbers[i]));
    ck_assert_uint_eq(x.name_count, y.name_count);
    for (size_t i = 0; i < x.name_count; i++)
        ck_assert_str_eq(x.names[i], y.names[i]);
    ck_assert_mem_eq(x.codes, y.codes, x.rows * sizeof *x.codes);
    column_done(&x);
    column_done(&y);
}

static void same_everything(Bench *bench, const Dataset *text, const Dataset *packed)
{
    for (int s = 0; s < SPLIT_COUNT; s++) {
        ck_assert_uint_eq(dataset_rows(text, (Split)s), dataset_rows(packed, (Split)s));
        ck_assert_uint_eq(dataset_row_digest(text, (Split)s), dataset_row_digest(packed, (Split)s));
    }
    ck_assert_int_eq(dataset_classes(text), dataset_classes(packed));
    Maps *x = maps_fit(text, bench->config, &bench->error),
         *y = maps_fit(packed, bench->config, &bench->error);
    ck_assert_msg(x && y, "%s", bench->error.message);
    same_text(maps_to_json(x), maps_to_json(y), "maps");
    for (int s = 0; s < SPLIT_COUNT; s++)
        same_table(bench, text, packed, x, (Split)s);
    Json *evidence[2] = {0}, *profile[2] = {0};
    ASSERT_OK(dataset_profile(text, x, bench->config, NULL, &evidence[0], &profile[0], &bench->error),
              &bench->error);
    ASSERT_OK(dataset_profile(packed, x, bench->config, NULL, &evidence[1], &profile[1], &bench->error),
              &bench->error);
    same_text(evidence[0], evidence[1], "evidence");
    same_text(profile[0], profile[1], "profiles");
    maps_free(x);
    maps_free(y);
}

// -- the same data

static const struct {
    size_t kind;
    int64_t shard_rows;
    const char *split[4];
    bool memory;   // of the files
} ways[] = {
    {0, 0, {"split.method=hash"}, true},
    {0, 7, {"split.method=hash"}, true},
    {0, 100, {"split.method=modulo", "split.modulo=4", "split.remainder=1"}, false},
    {0, 599, {"split.method=time"}, true},
    {0, 1, {"split.method=modulo"}, false},
    {1, 0, {"split.method=hash"}, false},
    {1, 250, {"split.method=modulo"}, true},
    {2, 0, {"split.method=hash"}, true},
    {2, 33, {"split.method=time"}, false},
    {3, 0, {"split.method=hash"}, true},
    {3, 201, {"split.method=modulo"}, false},
};

START_TEST(packed_rows_are_the_rows_of_the_text)
{
    const Kind *kind = &kinds[ways[_i].kind];
    Bench bench = bench_new();
    char train[8192], test[8192];
    // One shard a row makes as many files: fewer of them then.
    int rows = ways[_i].shard_rows == 1 ? 120 : ROWS;
    write_kind(&bench, kind, "d.csv", 0, rows);
    const char *const *split = ways[_i].split;
    KIND_CONFIG(&bench, kind, "data.train=d.csv", "input.open_files=512", split[0],
                split[1] ? split[1] : split[0], split[2] ? split[2] : split[0]);
    Dataset *text = open_data(&bench);
    Json *report = pack_kind(&bench, ways[_i].shard_rows, train, test);
    ck_assert_int_eq(json_integer_or(json_get(report, "rows"), 0), rows);
    json_free(report);
    KIND_CONFIG(&bench, kind, train, "input.open_files=512", split[0], split[1] ? split[1] : split[0],
                split[2] ? split[2] : split[0],
                ways[_i].memory ? "input.host_memory=1GB" : "input.host_memory=1MB");
    Dataset *packed = open_data(&bench);
    ck_assert(dataset_rows_in_memory(packed, false));
    if (!ways[_i].memory) {   // small files are in memory whatever the share: as if they were not
        for (size_t i = 0; i < packed->file_count; i++) {
            ledger_give(bench.ledger, LEDGER_HOST, "input.files", packed->files[i].memory,
                        (int64_t)packed->files[i].bytes);
            packed->files[i].memory = NULL;
        }
    }
    same_everything(&bench, text, packed);
    if (ways[_i].kind == 0) {
        same_column(&bench, text, packed, "job");
        same_column(&bench, text, packed, "age");
        same_column(&bench, text, packed, "day");
    }
    Digest a, b;
    dataset_digest(text, &a);
    dataset_digest(packed, &b);
    ck_assert(!digest_equal(&a, &b));
    dataset_close(text);
    dataset_close(packed);
    bench_done(&bench);
}
END_TEST

// Test files of their own, trailing dots in their labels as Adult's has, malformed rows in both, a cutoff
// that moves after packing.
START_TEST(files_bad_rows_and_the_cutoff_stay_what_they_were)
{
    const Kind *kind = &kinds[0];
    Bench bench = bench_new();
    char train[8192], test[8192];
    SCOPED_TEXT csv;
    text_init(&csv, 1u << 20);
    for (int part = 0; part < 2; part++) {
        text_clear(&csv);
        text_add_format(&csv, "%s\n", kind->header);
        for (int i = 0; i < 300; i++) {
            if (i % 100 == 50)
                text_add(&csv, part ? "too,short\n" : "id,not a number,1,1,x,2026-01-01,>50K\n");
            kind->row(&csv, part * 300 + i);
            if (part)
                csv.length--, text_add(&csv, ".\n");
        }
        bench_write(&bench, part ? "test.csv" : "train.csv", csv.data, csv.length);
    }
    const char *labels = "data.labels=<=50K=0,>50K=1,<=50K.=0,>50K.=1";
    KIND_CONFIG(&bench, kind, labels, "data.train=train.csv", "data.test=test.csv", "split.method=file",
                "data.bad_rows=6");
    Json *report = pack_kind(&bench, 90, train, test);
    ck_assert_int_eq(json_integer_or(json_get(report, "bad"), 0), 6);
    ck_assert_uint_eq(json_count(json_get(report, "shards")), 8);
    json_free(report);
    const char *cutoffs[] = {"data.cutoff=2026-08-15", "data.cutoff=2026-12-31"};
    for (size_t i = 0; i < 2; i++) {
        KIND_CONFIG(&bench, kind, labels, "data.train=train.csv", "data.test=test.csv", "split.method=file",
                    "data.bad_rows=6", cutoffs[i]);
        Dataset *text = open_data(&bench);
        KIND_CONFIG(&bench, kind, labels, train, test, "split.method=file", "data.bad_rows=6", cutoffs[i]);
        Dataset *packed = open_data(&bench);
        same_everything(&bench, text, packed);
        Json *x = dataset_describe(text), *y = dataset_describe(packed);
        static const char *const same[] = {"rows", "bad", "bad_rows", "after_cutoff", "cutoff"};
        for (size_t k = 0; k < sizeof same / sizeof same[0]; k++)
            same_text(json_copy_deep(json_get(x, same[k])), json_copy_deep(json_get(y, same[k])), same[k]);
        const Json *file = json_at(json_get(y, "files"), 0);
        ck_assert_str_eq(json_text_or(json_get(file, "name"), ""), "train-00000-of-00004.safetensors");
        ck_assert_uint_eq(strlen(json_text_or(json_get(file, "pack"), "")), 64);
        ck_assert_str_eq(json_text_or(json_get(json_at(json_get(file, "packed_from"), 1), "name"), ""),
                         "test.csv");
        json_free(x);
        json_free(y);
        dataset_close(text);
        dataset_close(packed);
    }
    KIND_CONFIG(&bench, kind, labels, train, test, "split.method=file", "data.bad_rows=5");
    ck_assert_ptr_null(bench_open(&bench));
    ck_assert_int_eq(bench.error.kind, ERROR_DATA);
    ck_assert_msg(strstr(bench.error.message, "packed from 'test.csv'") &&
                      strstr(bench.error.hint, "number 6"),
                  "%s (%s)", bench.error.message, bench.error.hint);
    bench_done(&bench);
}
END_TEST

START_TEST(options_may_leave_the_columns_to_the_shards)
{
    Bench bench = bench_new();
    char train[8192], test[8192], directory[FILE_PATH_SIZE];
    write_kind(&bench, &kinds[0], "d.csv", 0, ROWS);
    KIND_CONFIG(&bench, &kinds[0], "data.train=d.csv");
    Dataset *text = open_data(&bench);
    json_free(pack_kind(&bench, 250, train, test));
    snprintf(directory, sizeof directory, "data.directory=%s", bench.folder);
    const char *sets[] = {"model=test",
                          directory,
                          train,
                          "data.target=income",
                          "quality.slices=job",
                          "data.cutoff_column=day",
                          "data.cutoff=2026-09-20"};
    config_free(bench.config);
    bench.config = config_load(NULL, sets, 7, NULL, &bench.error);
    ck_assert_msg(bench.config != NULL, "%s", bench.error.message);
    Dataset *packed = open_data(&bench);
    same_everything(&bench, text, packed);
    dataset_close(packed);
    // Fewer of them in another order, as from the text.
    dataset_close(text);
    KIND_CONFIG(&bench, &kinds[0], "data.train=d.csv", "data.numeric=gain,age",
                "data.categorical=", "data.missing=");
    text = open_data(&bench);
    KIND_CONFIG(&bench, &kinds[0], train, "data.numeric=gain,age", "data.categorical=", "data.missing=");
    packed = open_data(&bench);
    same_everything(&bench, text, packed);
    dataset_close(text);
    dataset_close(packed);
    bench_done(&bench);
}
END_TEST

static const struct {
    const char *set, *words;
} contradictions[] = {
    {"data.target=age", "packed with target 'income'"},
    {"data.row_id=day", "packed with row id 'id'"},
    {"task=multiclass", "packed for binary"},
    {"data.labels=<=50K=1,>50K=0", "other classes"},
    {"data.labels=no=0,yes=1", "other classes"},
    {"data.missing=hours=?", "'?' of column 'job' is a missing value in the data"},
    {"data.missing=hours=?,job=?,job=,age=0", "'0' of column 'age' is a value there"},
    {"data.missing=*=?", "disagree"},
    {"data.categorical=job,age", "packed as numeric"},
    {"data.numeric=age,hours,gain,day", "packed as categorical"},
    {"data.categorical=nowhere", "column 'nowhere'"},
    {"data.cutoff_column=hour", "column 'hour'"},
};

START_TEST(an_option_that_contradicts_the_shards_is_refused)
{
    Bench bench = bench_new();
    char train[8192], test[8192];
    write_kind(&bench, &kinds[0], "d.csv", 0, 200);
    KIND_CONFIG(&bench, &kinds[0], "data.train=d.csv");
    json_free(pack_kind(&bench, 0, train, test));
    bool target = strstr(contradictions[_i].set, "data.target") ||
                  strstr(contradictions[_i].set, "categorical=job,age");
    bool task = strstr(contradictions[_i].set, "task") != NULL;
    KIND_CONFIG(&bench, &kinds[0], train, target ? "data.numeric=hours" : train,
                task ? "quality.metric=accuracy" : train, contradictions[_i].set);
    Dataset *dataset = bench_open(&bench);
    ck_assert_msg(dataset == NULL, "%s was taken", contradictions[_i].set);
    ck_assert_msg(strstr(bench.error.message, contradictions[_i].words), "%s: %s", contradictions[_i].set,
                  bench.error.message);
    ck_assert(bench.error.kind == ERROR_CONFIG || bench.error.kind == ERROR_DATA);
    bench_done(&bench);
}
END_TEST

START_TEST(text_and_shards_do_not_mix_and_sets_are_whole)
{
    Bench bench = bench_new();
    char train[8192], test[8192];
    write_kind(&bench, &kinds[3], "d.csv", 0, 300);
    KIND_CONFIG(&bench, &kinds[3], "data.train=d.csv");
    json_free(pack_kind(&bench, 100, train, test));
    static const struct {
        const char *set, *words;
    } rows[] = {
        {"data.train=p/train-00000-of-00003.safetensors,d.csv", "is text"},
        {"data.train=p/train-00000-of-00003.safetensors,p/train-00002-of-00003.safetensors",
         "shard 1 is not after"},
        {"data.train=p/train-00001-of-00003.safetensors,p/train-00002-of-00003.safetensors",
         "shard 0 is not before"},
        {"data.train=p/train-00000-of-00003.safetensors,p/train-00001-of-00003.safetensors",
         "shard 2 is not after"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        KIND_CONFIG(&bench, &kinds[3], rows[i].set);
        error_clear(&bench.error);
        ck_assert_ptr_null(bench_open(&bench));
        ck_assert_msg(strstr(bench.error.message, rows[i].words), "%s", bench.error.message);
    }
    error_clear(&bench.error);
    KIND_CONFIG(&bench, &kinds[3], train);
    PackSpec spec = {bench.config, clock_real(), bench.ledger, support_path(bench.folder, "q"), 0};
    Json *report = NULL;
    ASSERT_FAILS(dataset_pack(&spec, &report, &bench.error), &bench.error, ERROR_USAGE, "packed already");
    bench_done(&bench);
}
END_TEST

// -- the file

static uint64_t little_endian(const unsigned char *bytes)
{
    uint64_t value = 0;
    for (int i = 7; i >= 0; i--)
        value = value << 8 | bytes[i];
    return value;
}

// Read as any other program would: length, header, arrays.
START_TEST(the_format_is_plain_safetensors)
{
    Bench bench = bench_new();
    char train[8192], test[8192];
    write_kind(&bench, &kinds[3], "d.csv", 0, 50);
    KIND_CONFIG(&bench, &kinds[3], "data.train=d.csv");
    json_free(pack_kind(&bench, 0, train, test));
    SCOPED_TEXT file;
    text_init(&file, 1u << 20);
    ASSERT_OK(
        file_read(support_path(bench.folder, "p/train-00000-of-00001.safetensors"), &file, &bench.error),
        &bench.error);
    const unsigned char *bytes = (const unsigned char *)file.data;
    uint64_t length = little_endian(bytes);
    ck_assert_uint_eq(length % 8, 0);
    Json *header = json_parse(file.data + 8, length, 1u << 20, &bench.error);
    ck_assert_msg(header != NULL, "%s", bench.error.message);
    ck_assert_str_eq(json_text_or(json_find(header, "__metadata__.format"), ""), "fedgate.packed/1");
    ck_assert_str_eq(json_text_or(json_find(header, "__metadata__.bad"), ""), "0");
    const Json *numeric = json_get(header, "numeric");
    ck_assert_str_eq(json_text_or(json_get(numeric, "dtype"), ""), "F32");
    ck_assert_int_eq(json_integer_or(json_at(json_get(numeric, "shape"), 0), 0), 50);
    ck_assert_int_eq(json_integer_or(json_at(json_get(numeric, "shape"), 1), 0), 2);
    int64_t at = json_integer_or(json_at(json_get(numeric, "data_offsets"), 0), -1);
    float first[4];
    memcpy(first, bytes + 8 + length + at, sizeof first);
    const float expected[4] = {0, 0, -44, 7};   // b, a of rows 0 and 1
    ck_assert_mem_eq(first, expected, sizeof first);
    ck_assert_str_eq(json_text_or(json_find(header, "target.dtype"), ""), "I32");
    ck_assert_str_eq(json_text_or(json_find(header, "row_id.dtype"), ""), "U64");
    ck_assert_ptr_null(json_get(header, "ordinal"));
    ck_assert_ptr_null(json_get(header, "categorical"));
    Json *figures = json_parse(json_text_or(json_find(header, "__metadata__.statistics"), ""),
                               strlen(json_text_or(json_find(header, "__metadata__.statistics"), "")),
                               1u << 20, &bench.error);
    ck_assert(json_number_or(json_find(figures, "a.max"), 0) == 196);
    ck_assert_int_eq(json_integer_or(json_find(figures, "a.missing"), -1), 0);
    json_free(figures);
    json_free(header);
    bench_done(&bench);
}
END_TEST

static Json *pack_into(Bench *bench, const char *folder, int64_t shard_rows, bool good, ErrorKind kind,
                       const char *words)
{
    PackSpec spec = {bench->config, clock_real(), bench->ledger, support_path(bench->folder, folder),
                     shard_rows};
    Json *report = NULL;
    if (good)
        ASSERT_OK(dataset_pack(&spec, &report, &bench->error), &bench->error);
    else
        ASSERT_FAILS(dataset_pack(&spec, &report, &bench->error), &bench->error, kind, words);
    return report;
}

START_TEST(the_same_pack_is_the_same_bytes_and_another_is_refused)
{
    Bench bench = bench_new();
    write_kind(&bench, &kinds[0], "d.csv", 0, 400);
    KIND_CONFIG(&bench, &kinds[0], "data.train=d.csv");
    Json *a = pack_into(&bench, "p", 150, true, ERROR_NONE, ""),
         *b = pack_into(&bench, "q", 150, true, ERROR_NONE, "");
    for (size_t i = 0; i < 3; i++)
        ck_assert_str_eq(json_text_or(json_get(json_at(json_get(a, "shards"), i), "sha256"), "a"),
                         json_text_or(json_get(json_at(json_get(b, "shards"), i), "sha256"), "b"));
    json_free(a);
    json_free(b);
    // Once more into the same folder: kept. One missing: made again beside the others.
    ck_assert_int_eq(unlink(support_path(bench.folder, "p/train-00001-of-00003.safetensors")), 0);
    a = pack_into(&bench, "p", 150, true, ERROR_NONE, "");
    for (size_t i = 0; i < 3; i++)
        ck_assert_int_eq(json_bool_or(json_get(json_at(json_get(a, "shards"), i), "kept"), i == 1), i != 1);
    json_free(a);
    pack_into(&bench, "p", 100, false, ERROR_CONFLICT, "of another pack");
    write_kind(&bench, &kinds[0], "d.csv", 1, 400);
    pack_into(&bench, "p", 150, false, ERROR_CONFLICT, "holds other bytes");
    FileList list = {0};
    ASSERT_OK(file_list(support_path(bench.folder, "p"), &list, &bench.error), &bench.error);
    ck_assert_uint_eq(list.count, 3);
    file_list_done(&list);
    bench_done(&bench);
}
END_TEST

START_TEST(a_pack_that_fails_leaves_nothing)
{
    Bench bench = bench_new();
    write_kind(&bench, &kinds[3], "d.csv", 0, 100);
    FILE *stream = fopen(support_path(bench.folder, "d.csv"), "ab");
    fputs("1,x,0\n", stream);
    fclose(stream);
    KIND_CONFIG(&bench, &kinds[3], "data.train=d.csv");
    pack_into(&bench, "p", 10, false, ERROR_DATA, "line 102: column 'b' holds 'x'");
    ck_assert(!file_exists(support_path(bench.folder, "p")));
    // A folder where one name is taken by something else: the others are not made either.
    write_kind(&bench, &kinds[3], "d.csv", 0, 100);
    ck_assert_int_eq(mkdir(support_path(bench.folder, "p"), 0755), 0);
    ck_assert_int_eq(mkdir(support_path(bench.folder, "p/train-00001-of-00002.safetensors"), 0755), 0);
    PackSpec spec = {bench.config, clock_real(), bench.ledger, support_path(bench.folder, "p"), 50};
    Json *report = NULL;
    ck_assert(!dataset_pack(&spec, &report, &bench.error));
    ck_assert(!file_exists(support_path(bench.folder, "p/train-00000-of-00002.safetensors")));
    ck_assert_ptr_null(report);
    error_clear(&bench.error);
    // The folder cannot be made.
    support_write(support_path(bench.folder, "plain"), "x");
    pack_into(&bench, "plain/p", 0, false, ERROR_IO, "plain");
    bench_done(&bench);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("input pack");
    TCase *t = tcase_create("pack");
    tcase_add_loop_test(t, packed_rows_are_the_rows_of_the_text, 0, sizeof ways / sizeof ways[0]);
    tcase_add_test(t, files_bad_rows_and_the_cutoff_stay_what_they_were);
    tcase_add_test(t, options_may_leave_the_columns_to_the_shards);
    tcase_add_loop_test(t, an_option_that_contradicts_the_shards_is_refused, 0,
                        sizeof contradictions / sizeof contradictions[0]);
    tcase_add_test(t, text_and_shards_do_not_mix_and_sets_are_whole);
    tcase_add_test(t, the_format_is_plain_safetensors);
    tcase_add_test(t, the_same_pack_is_the_same_bytes_and_another_is_refused);
    tcase_add_test(t, a_pack_that_fails_leaves_nothing);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    SRunner *r = srunner_create(suite());
    srunner_run_all(r, CK_ENV);
    int bad = srunner_ntests_failed(r);
    srunner_free(r);
    return bad != 0;
}
