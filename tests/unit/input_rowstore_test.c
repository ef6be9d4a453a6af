// input_rowstore_test - rows decoded once into memory: the same bits as decoding the text, whatever the
// threads, charged and capped.
#include "../../src/input/input_internal.h"   // a store has no public name
#include "input_fixture.h"

enum { ROWS = 12000 };

// Numbers, missing ones, categories, and a tail of rows that no block of the threads ends on.
static void write_rows(const Bench *bench)
{
    SCOPED_TEXT csv;
    text_init(&csv, 4u << 20);
    text_add(&csv, "id,a,b,c,d,y\n");
    for (int i = 0; i < ROWS; i++)
        text_add_format(&csv, "r%d,%d.%d,%s,k%d,%s,%s\n", i, i * 7 % 91, i % 10, i % 11 == 0 ? "?" : "1e-3",
                        i % 17, i % 13 == 0 ? "" : "\"x,\"\"y\"\"\"", i % 3 == 0 ? "1" : "0");
    bench_write(bench, "rows.csv", csv.data, csv.length);
}

static void open_rows(Bench *bench, const char *workers, const char *memory, Dataset **ret_dataset,
                      Maps **ret_maps)
{
    bench_config(bench, "data.train=rows.csv", "data.row_id=id", "data.numeric=a,b", "data.categorical=c,d",
                 "data.missing=b=?,d=", workers, memory, NULL);
    *ret_dataset = bench_open(bench);
    ck_assert_msg(*ret_dataset != NULL, "%s", bench->error.message);
    *ret_maps = maps_fit(*ret_dataset, bench->config, &bench->error);
    ck_assert_msg(*ret_maps != NULL, "%s", bench->error.message);
}

typedef struct Gathered {
    size_t numeric, categorical;
    float *x, *target;
    int32_t *codes;
    uint64_t *row_id;
} Gathered;

static Gathered gather(const RowStore *store, const Maps *maps, const uint32_t *numbers, size_t count)
{
    Gathered to = {.numeric = maps_numeric(maps), .categorical = maps_categorical(maps)};
    to.x = calloc(count * to.numeric + 1, sizeof(float));
    to.codes = calloc(count * to.categorical + 1, sizeof(int32_t));
    to.target = calloc(count, sizeof(float));
    to.row_id = calloc(count, sizeof(uint64_t));
    rowstore_gather(store, numbers, count, to.x, to.codes, to.target, to.row_id);
    return to;
}

static void gathered_done(Gathered *from)
{
    free(from->x);
    free(from->codes);
    free(from->target);
    free(from->row_id);
}

static const char *const workers[] = {"input.workers=1", "input.workers=2", "input.workers=7"};

START_TEST(a_row_in_memory_is_the_row_of_the_text)
{
    Bench bench = bench_new();
    write_rows(&bench);
    Dataset *dataset;
    Maps *maps;
    open_rows(&bench, workers[_i], "input.host_memory=64MB", &dataset, &maps);
    for (int s = 0; s < SPLIT_COUNT; s++) {
        RowStore *store = rowstore_open(dataset, maps, (Split)s, &bench.error);
        ck_assert_msg(store != NULL, "%s", bench.error.message);
        Table table;
        ASSERT_OK(dataset_decode(dataset, maps, (Split)s, bench.ledger, &table, &bench.error), &bench.error);
        uint32_t *numbers = calloc(table.rows, sizeof *numbers);
        for (size_t i = 0; i < table.rows; i++)   // a stride that visits each row once, far apart
            numbers[i] = (uint32_t)(i * 2503 % table.rows);
        Gathered got = gather(store, maps, numbers, table.rows);
        ck_assert_uint_eq(got.numeric, 3);   // a flag for b
        for (size_t i = 0; i < table.rows; i++) {
            size_t row = numbers[i];
            ck_assert_mem_eq(got.x + i * got.numeric, table.x + row * got.numeric,
                             got.numeric * sizeof(float));
            ck_assert_mem_eq(got.codes + i * got.categorical, table.codes + row * got.categorical,
                             got.categorical * sizeof(int32_t));
            ck_assert(got.target[i] == (float)table.target[row]);
            ck_assert_uint_eq(got.row_id[i], table.row_id[row]);
        }
        gathered_done(&got);
        free(numbers);
        table_done(&table);
        rowstore_free(store);
    }
    maps_free(maps);
    dataset_close(dataset);
    bench_done(&bench);
}
END_TEST

// Every record length from 12 bytes to over two cache lines, so that every tail of the copies is used.
START_TEST(columns_of_any_number_are_gathered_whole)
{
    Bench bench = bench_new();
    int columns = _i + 1;
    char numeric[1024] = "data.numeric=";
    SCOPED_TEXT csv;
    text_init(&csv, 1u << 20);
    text_add(&csv, "y");
    for (int c = 0; c < columns; c++) {
        text_add_format(&csv, ",n%d", c);
        size_t used = strlen(numeric);
        ck_assert(text_print(numeric + used, sizeof numeric - used, "%sn%d", c ? "," : "", c));
    }
    for (int i = 0; i < 300; i++) {
        text_add_format(&csv, "\n%d", i % 2);
        for (int c = 0; c < columns; c++)
            text_add_format(&csv, ",%d", i * 31 + c * c);
    }
    text_add(&csv, "\n");
    bench_write(&bench, "wide.csv", csv.data, csv.length);
    bench_config(&bench, "data.train=wide.csv", numeric, NULL);
    Dataset *dataset = bench_open(&bench);
    ck_assert_msg(dataset != NULL, "%s", bench.error.message);
    Maps *maps = maps_fit(dataset, bench.config, &bench.error);
    RowStore *store = rowstore_open(dataset, maps, SPLIT_TRAIN, &bench.error);
    ck_assert_msg(store != NULL, "%s", bench.error.message);
    Table table;
    ASSERT_OK(dataset_decode(dataset, maps, SPLIT_TRAIN, bench.ledger, &table, &bench.error), &bench.error);
    uint32_t numbers[2] = {(uint32_t)table.rows - 1, 3};
    Gathered got = gather(store, maps, numbers, 2);
    for (size_t i = 0; i < 2; i++)
        ck_assert_mem_eq(got.x + i * got.numeric, table.x + numbers[i] * got.numeric,
                         got.numeric * sizeof(float));
    ck_assert(got.target[0] == (float)table.target[numbers[0]] && got.row_id[1] == table.row_id[3]);
    gathered_done(&got);
    table_done(&table);
    rowstore_free(store);
    maps_free(maps);
    dataset_close(dataset);
    bench_done(&bench);
}
END_TEST

START_TEST(a_regression_target_is_scaled_as_in_a_batch)
{
    Bench bench = bench_new();
    SCOPED_TEXT csv;
    text_init(&csv, 1u << 20);
    text_add(&csv, "a,y\n");
    for (int i = 0; i < 400; i++)
        text_add_format(&csv, "%d,%d.25\n", i, i % 37);
    bench_write(&bench, "r.csv", csv.data, csv.length);
    bench_config(&bench, "data.train=r.csv", "data.numeric=a", "task=regression", "quality.metric=rmse",
                 NULL);
    Dataset *dataset = bench_open(&bench);
    ck_assert_msg(dataset != NULL, "%s", bench.error.message);
    Maps *maps = maps_fit(dataset, bench.config, &bench.error);
    RowStore *store = rowstore_open(dataset, maps, SPLIT_TEST, &bench.error);
    Table table;
    ASSERT_OK(dataset_decode(dataset, maps, SPLIT_TEST, bench.ledger, &table, &bench.error), &bench.error);
    double mean, deviation;
    maps_target(maps, &mean, &deviation);
    ck_assert(deviation > 1);
    uint32_t number = (uint32_t)table.rows / 2;
    Gathered got = gather(store, maps, &number, 1);
    ck_assert(got.target[0] == (float)((table.target[number] - mean) / deviation));
    gathered_done(&got);
    table_done(&table);
    rowstore_free(store);
    maps_free(maps);
    dataset_close(dataset);
    bench_done(&bench);
}
END_TEST

START_TEST(what_does_not_fit_is_refused_before_it_is_taken)
{
    Bench bench = bench_new();
    write_rows(&bench);
    Dataset *dataset;
    Maps *maps;
    open_rows(&bench, "input.workers=2", "input.host_memory=1MB", &dataset, &maps);
    int64_t before = ledger_peak(bench.ledger, LEDGER_HOST);
    dataset->host_cap_bytes = dataset_host_bytes(dataset) + 100000;
    RowStore *store = rowstore_open(dataset, maps, SPLIT_TRAIN, &bench.error);
    ck_assert_ptr_null(store);
    ck_assert_int_eq(bench.error.kind, ERROR_MEMORY);
    ck_assert_msg(strstr(bench.error.message, "'input.host_memory'"), "%s", bench.error.message);
    ck_assert_int_eq(ledger_peak(bench.ledger, LEDGER_HOST), before);
    // A second store counts what the first one holds.
    dataset->host_cap_bytes = dataset_host_bytes(dataset) + 400000;
    error_clear(&bench.error);
    store = rowstore_open(dataset, maps, SPLIT_TRAIN, &bench.error);
    ck_assert_msg(store != NULL, "%s", bench.error.message);
    ck_assert_int_gt(rowstore_bytes(store), 200000);
    ck_assert_ptr_null(rowstore_open(dataset, maps, SPLIT_TRAIN, &bench.error));
    rowstore_free(store);
    maps_free(maps);
    dataset_close(dataset);
    bench_done(&bench);
}
END_TEST

START_TEST(a_row_that_changed_on_disk_is_named)
{
    Bench bench = bench_new();
    write_rows(&bench);
    Dataset *dataset;
    Maps *maps;
    open_rows(&bench, "input.workers=3", "input.host_memory=1MB", &dataset, &maps);
    dataset->host_cap_bytes = 64 << 20;
    ck_assert_ptr_null(dataset->files[0].memory);   // read through the descriptor
    SCOPED_TEXT junk;
    text_init(&junk, 4u << 20);
    for (uint64_t i = 0; i < dataset->files[0].bytes; i++)
        text_add_char(&junk, 'x');
    FILE *stream = fopen(support_path(bench.folder, "rows.csv"), "wb");
    fwrite(junk.data, 1, junk.length, stream);
    fclose(stream);
    RowStore *store = rowstore_open(dataset, maps, SPLIT_TRAIN, &bench.error);
    ck_assert(store == NULL);
    ck_assert_int_eq(bench.error.kind, ERROR_DATA);
    ck_assert_msg(strstr(bench.error.message, "line 1"), "%s", bench.error.message);
    maps_free(maps);
    dataset_close(dataset);
    bench_done(&bench);
}
END_TEST

static const struct {
    const char *option;
    bool asynchronous, memory;
} choices[] = {
    {"input.rows=auto", false, false}, {"input.rows=auto", true, true},    {"input.rows=text", true, false},
    {"input.rows=text", false, false}, {"input.rows=memory", false, true}, {"input.rows=memory", true, true},
};

START_TEST(the_option_decides)
{
    Bench bench = bench_new();
    write_rows(&bench);
    Dataset *dataset;
    Maps *maps;
    open_rows(&bench, "input.workers=1", choices[_i].option, &dataset, &maps);
    ck_assert_int_eq(dataset_rows_in_memory(dataset, choices[_i].asynchronous), choices[_i].memory);
    maps_free(maps);
    dataset_close(dataset);
    bench_done(&bench);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("input rowstore");
    TCase *t = tcase_create("rowstore");
    tcase_add_loop_test(t, a_row_in_memory_is_the_row_of_the_text, 0, 3);
    tcase_add_loop_test(t, columns_of_any_number_are_gathered_whole, 0, 40);
    tcase_add_test(t, a_regression_target_is_scaled_as_in_a_batch);
    tcase_add_test(t, what_does_not_fit_is_refused_before_it_is_taken);
    tcase_add_test(t, a_row_that_changed_on_disk_is_named);
    tcase_add_loop_test(t, the_option_decides, 0, sizeof choices / sizeof choices[0]);
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
