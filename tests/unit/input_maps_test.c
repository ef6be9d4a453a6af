// input_maps_test - what is learnt from training rows: scales, quantiles, missing values, categories; sealed
// and read back exactly.
#include "input_fixture.h"

#include <fedgate/stats.h>
#include <math.h>

// Rows 0..8 train or validate by the ninth (modulo 10 = 9 tests); share 0.2 of the rest validates.
#define SPLIT_SETS "split.method=modulo", "split.modulo=10", "split.remainder=9", "split.validation=0.2"

static Dataset *open_text(Bench *bench, const Text *file, const char *columns, const char *a, const char *b)
{
    bench_write(bench, "d.csv", text_string(file), file->length);
    bench_config(bench, "data.train=d.csv", SPLIT_SETS, columns, a, a ? b : NULL, NULL);
    Dataset *dataset = bench_open(bench);
    ck_assert_msg(dataset != NULL, "%s", bench->error.message);
    return dataset;
}

static Maps *fit(Bench *bench, const Dataset *dataset)
{
    Maps *maps = maps_fit(dataset, bench->config, &bench->error);
    ck_assert_msg(maps != NULL, "%s", bench->error.message);
    return maps;
}

static Table decode(Bench *bench, const Dataset *dataset, const Maps *maps, Split split)
{
    Table table;
    ASSERT_OK(dataset_decode(dataset, maps, split, bench->ledger, &table, &bench->error), &bench->error);
    return table;
}

START_TEST(standard_inputs_have_mean_0_and_deviation_1_over_training_rows)
{
    Bench bench = bench_new();
    SCOPED_TEXT file;
    text_init(&file, 1 << 20);
    text_add(&file, "a,y\n");
    for (int i = 0; i < 500; i++)
        text_add_format(&file, "%d.25,%d\n", (i * 37) % 501 + (i % 10 == 9 ? 100000 : 0),
                        i % 2);   // test rows far away: they teach nothing
    Dataset *dataset = open_text(&bench, &file, "data.numeric=a", NULL, NULL);
    Maps *maps = fit(&bench, dataset);
    Table table = decode(&bench, dataset, maps, SPLIT_TRAIN);
    double *x = calloc(table.rows, sizeof *x);
    for (size_t i = 0; i < table.rows; i++)
        x[i] = (double)table.x[i];
    ck_assert(fabs(stats_mean(x, table.rows)) < 1e-6 && fabs(stats_variance(x, table.rows) - 1) < 1e-6);
    free(x);
    table_done(&table);
    maps_free(maps);
    dataset_close(dataset);
    bench_done(&bench);
}
END_TEST

START_TEST(quantile_inputs_are_normal_whatever_the_shape)
{
    Bench bench = bench_new();
    SCOPED_TEXT file;
    text_init(&file, 1 << 20);
    text_add(&file, "a,y\n");
    for (int i = 0; i < 5000; i++)
        text_add_format(&file, "%.6g,%d\n", exp((i * 7919 % 5000) / 300.0), i % 2);
    Dataset *dataset = open_text(&bench, &file, "data.numeric=a", "data.transform=quantile-normal", NULL);
    Maps *maps = fit(&bench, dataset);
    for (int s = 0; s < SPLIT_COUNT; s++) {
        Table table = decode(&bench, dataset, maps, (Split)s);
        double *x = calloc(table.rows, sizeof *x);
        for (size_t i = 0; i < table.rows; i++)
            x[i] = (double)table.x[i];
        for (double q = 0.1; q < 0.95; q += 0.1)
            ck_assert_msg(fabs(stats_quantile(x, table.rows, q) - stats_normal_quantile(q)) < 0.1,
                          "%s: quantile %.1f is %.3f", split_name((Split)s), q,
                          stats_quantile(x, table.rows, q));
        for (size_t i = 0; i < table.rows; i++)
            ck_assert(fabs(x[i]) < 3.3);   // half a knot of a thousand from the ends
        free(x);
        table_done(&table);
    }
    maps_free(maps);
    dataset_close(dataset);
    bench_done(&bench);
}
END_TEST

START_TEST(many_equal_values_map_to_the_middle_of_their_ranks_in_order)
{
    Bench bench = bench_new();
    SCOPED_TEXT file;
    text_init(&file, 1 << 20);
    text_add(&file, "a,y\n");
    for (int i = 0; i < 2000; i++)
        text_add_format(&file, "%d,%d\n", i % 8 == 0 ? 1 + i : 0, i % 2);
    Dataset *dataset = open_text(&bench, &file, "data.numeric=a", "data.transform=quantile-normal", NULL);
    Maps *maps = fit(&bench, dataset);
    Table table = decode(&bench, dataset, maps, SPLIT_TRAIN);
    Column column;
    ASSERT_OK(dataset_column(dataset, SPLIT_TRAIN, "a", &column, &bench.error), &bench.error);
    for (size_t i = 0; i < table.rows; i++) {
        if (column.numbers[i] == 0)
            ck_assert_msg(fabs((double)table.x[i] - stats_normal_quantile(0.875 / 2)) < 0.02,
                          "zero maps to %f", (double)table.x[i]);
        else
            ck_assert((double)table.x[i] > 1);
        for (size_t j = 0; j < table.rows; j += 97)
            ck_assert((column.numbers[i] > column.numbers[j]) == (table.x[i] > table.x[j]) ||
                      table.x[i] == table.x[j]);
    }
    column_done(&column);
    table_done(&table);
    maps_free(maps);
    dataset_close(dataset);
    bench_done(&bench);
}
END_TEST

START_TEST(a_missing_number_becomes_the_median_and_raises_its_flag)
{
    static const char *const transforms[] = {"data.transform=standard", "data.transform=quantile-normal"};
    Bench bench = bench_new();
    SCOPED_TEXT file;
    text_init(&file, 1 << 20);
    text_add(&file, "a,b,c,d,y\n");
    for (int i = 0; i < 1000;
         i++)   // a has missing values, b never, c is constant, d is missing in test rows only
        text_add_format(&file, "%s%d,%d,5,%s,%d\n", i % 4 == 1 ? "?" : "", i % 4 == 1 ? 0 : i % 101, i,
                        i % 10 == 9 ? "" : "7.5", i % 2);
    for (char *p = strstr(file.data, "?0"); p; p = strstr(p, "?0"))
        memmove(p + 1, p + 2, strlen(p + 2) + 1);
    file.length = strlen(file.data);
    Dataset *dataset =
        open_text(&bench, &file, "data.numeric=a,b,c,d", "data.missing=a=?,d=", transforms[_i]);
    Maps *maps = fit(&bench, dataset);
    ck_assert_uint_eq(maps_numeric(maps), 5);
    for (int s = 0; s < SPLIT_COUNT; s++) {
        Table table = decode(&bench, dataset, maps, (Split)s);
        Column column;
        ASSERT_OK(dataset_column(dataset, (Split)s, "a", &column, &bench.error), &bench.error);
        float median = NAN;
        for (size_t i = 0; i < table.rows; i++) {
            const float *x = table.x + 5 * i;
            bool missing = isnan(column.numbers[i]);
            ck_assert(x[4] == (missing ? 1.0f : 0.0f));
            ck_assert(x[2] == 0 && x[3] == 0);   // constant columns carry nothing
            if (missing && isnan(median))
                median = x[0];
            ck_assert(!missing || x[0] == median);
            ck_assert(missing || column.numbers[i] != 50 || isnan(median) ||
                      fabs((double)(x[0] - median)) < 0.1);
        }
        column_done(&column);
        table_done(&table);
    }
    Json *json = maps_to_json(maps);
    ck_assert(json_bool_or(json_get(json_at(json_get(json, "numeric"), 2), "constant"), false));
    json_free(json);
    maps_free(maps);
    dataset_close(dataset);
    bench_done(&bench);
}
END_TEST

START_TEST(categories_are_sorted_and_unknown_missing_and_rare_ones_share_code_0)
{
    static const char *const values[] = {"pear",    "apple", "007", "7", "?", "pear ", "\"fig, \"\"dry\"\"\"",
                                         "caf\xe9", "pear"};
    static const struct {
        const char *name;
        int32_t code;
    } expected[] = {
        {"007", 1},  {"7", 2},     {"apple", 3}, {"caf\xe9", 4}, {"fig, \"dry\"", 5},
        {"pear", 6}, {"pear ", 7}, {"?", 0},     {"rare", 0},
    };
    Bench bench = bench_new();
    SCOPED_TEXT file;
    text_init(&file, 1 << 20);
    text_add(&file, "c,y\n");
    for (int i = 0; i < 1000; i++)   // "never" stands in test rows only, "rare" in two training rows
        text_add_format(&file, "%s,%d\n",
                        i == 10 || i == 21 ? "rare"
                        : i % 10 == 9      ? (i % 20 == 9 ? "never" : "pear")
                                           : values[i % 10],
                        i % 2);
    Dataset *dataset = open_text(&bench, &file, "data.categorical=c", "data.missing=c=?", "data.rare=3");
    Maps *maps = fit(&bench, dataset);
    ck_assert_int_eq(maps_cardinality(maps, 0), 8);
    Table table = decode(&bench, dataset, maps, SPLIT_TRAIN);
    Column column;
    ASSERT_OK(dataset_column(dataset, SPLIT_TRAIN, "c", &column, &bench.error), &bench.error);
    for (size_t e = 0; e < sizeof expected / sizeof expected[0]; e++)
        for (size_t i = 0; i < table.rows; i++)
            if (text_equal(column.names[column.codes[i]], expected[e].name))
                ck_assert_msg(table.codes[i] == expected[e].code, "'%s' has code %d", expected[e].name,
                              table.codes[i]);
    column_done(&column);
    table_done(&table);
    table = decode(&bench, dataset, maps, SPLIT_TEST);
    for (size_t i = 0; i < table.rows; i++)
        ck_assert_int_eq(table.codes[i], i % 2 == 0 ? 0 : 6);
    table_done(&table);
    maps_free(maps);
    dataset_close(dataset);
    bench_done(&bench);
}
END_TEST

// -- sealed and read back

START_TEST(maps_are_read_back_exactly_as_written)
{
    static const char *const tasks[] = {"task=multiclass", "task=regression"};
    Bench bench = bench_new();
    SCOPED_TEXT file;
    text_init(&file, 1 << 20);
    text_add(&file, "a,b,c,y\n");
    for (int i = 0; i < 1000; i++)
        text_add_format(&file, "%.17g,%s,%s,%d\n", sin(i) / 3,
                        i % 5 == 0 ? ""
                        : i % 2    ? "1e-7"
                                   : "3",
                        i % 3 == 0   ? "caf\xe9"
                        : i % 3 == 1 ? "tab\there"
                                     : "plain \xc3\xa9",
                        i % 3);
    bench_write(&bench, "d.csv", text_string(&file), file.length);
    bench_config(&bench, "data.train=d.csv", SPLIT_SETS, "data.numeric=a,b", "data.categorical=c",
                 "data.missing=b=", tasks[_i / 2],
                 _i % 2 ? "data.transform=quantile-normal" : "data.transform=standard", NULL);
    Dataset *dataset = bench_open(&bench);
    ck_assert_msg(dataset != NULL, "%s", bench.error.message);
    ck_assert_int_eq(dataset_classes(dataset), _i / 2 == 0 ? 3 : 1);
    Maps *maps = fit(&bench, dataset);
    OWNED(Json, json_free) *written = maps_to_json(maps);
    SCOPED_TEXT bytes, again;
    text_init(&bytes, 1 << 20);
    text_init(&again, 1 << 20);
    json_write(written, JSON_COMPACT, &bytes);
    OWNED(Json, json_free) *parsed = json_parse(text_string(&bytes), bytes.length, 1 << 20, &bench.error);
    Maps *copy = maps_from_json(parsed, &bench.error);
    ck_assert_msg(copy != NULL, "%s", bench.error.message);
    OWNED(Json, json_free) *rewritten = maps_to_json(copy);
    json_write(rewritten, JSON_COMPACT, &again);
    ck_assert_str_eq(text_string(&bytes), text_string(&again));
    double mean[2], deviation[2];
    maps_target(maps, &mean[0], &deviation[0]);
    maps_target(copy, &mean[1], &deviation[1]);
    ck_assert(mean[0] == mean[1] && deviation[0] == deviation[1]);
    Table x = decode(&bench, dataset, maps, SPLIT_TEST), y = decode(&bench, dataset, copy, SPLIT_TEST);
    ck_assert_int_eq(memcmp(x.x, y.x, x.rows * x.numeric * sizeof *x.x), 0);
    ck_assert_int_eq(memcmp(x.codes, y.codes, x.rows * sizeof *x.codes), 0);
    table_done(&x);
    table_done(&y);
    maps_free(maps);
    maps_free(copy);
    dataset_close(dataset);
    bench_done(&bench);
}
END_TEST

typedef struct DamageCase {
    const char *key;
    const char *value;
    const char *words;
} DamageCase;
static const DamageCase damage_cases[] = {
    {"schema", "\"fedgate.maps/9\"", "schema 'fedgate.maps/9'"},
    {"task", "\"guess\"", "'guess' is not a known task"},
    {"transform", "3", "transform"},
    {"target", "{\"mean\":0,\"deviation\":\"nan\"}", "'deviation' is not finite"},
    {"target", "null", "mean"},
    {"numeric", "[{\"name\":\"a\"}]", "mean"},
    {"numeric",
     "[{\"name\":\"a\",\"mean\":0.0,\"deviation\":0.0,\"median\":0.0,\"low\":0.0,\"high\":1.0,\"constant\":"
     "false,\"missing_flag\":false,"
     "\"knots\":[],\"normal\":[]}]",
     "column 'a' has deviation 0"},
    {"numeric",
     "[{\"name\":\"a\",\"mean\":0.0,\"deviation\":1.0,\"median\":0.0,\"low\":0.0,\"high\":1.0,\"constant\":"
     "false,\"missing_flag\":false,"
     "\"knots\":[1.0,1.0],\"normal\":[0.0,1.0]}]",
     "knot out of order"},
    {"numeric",
     "[{\"name\":\"a\",\"mean\":0.0,\"deviation\":1.0,\"median\":0.0,\"low\":0.0,\"high\":1.0,\"constant\":"
     "false,\"missing_flag\":false,"
     "\"knots\":[1.0],\"normal\":[0.0]}]",
     "no matching lists of knots"},
    {"numeric",
     "[{\"name\":\"a\",\"mean\":0.0,\"deviation\":1.0,\"median\":0.0,\"low\":0.0,\"high\":1.0,\"constant\":"
     "false,\"missing_flag\":false,"
     "\"knots\":[1.0,2.0],\"normal\":[0.0,1.0],\"ties\":[[1,2.0,3.0]]}]",
     "tie that does not enclose"},
    {"categorical", "[{\"name\":\"c\",\"values\":[\"x\",\"x\"]}]", "column 'c': category 1 is there twice"},
    {"categorical", "[{\"name\":\"c\",\"values\":[{\"hex\":\"0g\"}]}]", "neither a text nor hex"},
};

START_TEST(damaged_maps_are_refused)
{
    const DamageCase *c = &damage_cases[_i];
    Error error = ERROR_INIT;
    static const char base[] =
        "{\"schema\":\"fedgate.maps/"
        "1\",\"task\":\"binary\",\"transform\":\"quantile-normal\",\"numeric\":[],\"categorical\":[],"
        "\"target\":{\"mean\":0.0,\"deviation\":1.0}}";
    OWNED(Json, json_free) *json = json_parse(base, sizeof base - 1, 10000, &error);
    Maps *maps = maps_from_json(json, &error);
    ck_assert_msg(maps != NULL, "%s", error.message);
    maps_free(maps);
    json_put(json, c->key, json_parse(c->value, strlen(c->value), 10000, &error));
    ASSERT_FAILS(maps_from_json(json, &error) != NULL, &error, ERROR_DATA, c->words);
}
END_TEST

START_TEST(a_column_of_the_maps_that_is_gone_is_named)
{
    Bench bench = bench_new();
    bench_write(&bench, "d.csv",
                "a,b,y\n1,2,0\n2,5,1\n3,4,0\n4,4,1\n5,1,0\n6,1,0\n7,2,1\n8,8,0\n9,9,1\n10,0,0\n", 67);
    bench_config(&bench, "data.train=d.csv", SPLIT_SETS, "data.numeric=a,b", NULL);
    Dataset *dataset = bench_open(&bench);
    ck_assert_msg(dataset != NULL, "%s", bench.error.message);
    Maps *maps = fit(&bench, dataset);
    dataset_close(dataset);
    bench_write(&bench, "e.csv", "a,y\n1,0\n2,1\n3,0\n4,1\n5,0\n6,0\n7,1\n8,0\n9,1\n10,0\n", 45);
    bench_config(&bench, "data.train=e.csv", SPLIT_SETS, "data.numeric=a", NULL);
    dataset = bench_open(&bench);
    ck_assert_msg(dataset != NULL, "%s", bench.error.message);
    Table table;
    ASSERT_FAILS(dataset_decode(dataset, maps, SPLIT_TEST, bench.ledger, &table, &bench.error), &bench.error,
                 ERROR_DATA, "column 'b' of the maps is not in the data");
    Column column;
    ASSERT_FAILS(dataset_column(dataset, SPLIT_TEST, "b", &column, &bench.error), &bench.error, ERROR_DATA,
                 "column 'b' is not in the data");
    maps_free(maps);
    dataset_close(dataset);
    bench_done(&bench);
}
END_TEST

START_TEST(a_regression_target_that_never_changes_is_refused)
{
    Bench bench = bench_new();
    bench_write(&bench, "d.csv", "a,y\n1,3\n2,3\n3,3\n4,3\n5,3\n6,3\n7,3\n8,3\n9,3\n10,3\n", 45);
    bench_config(&bench, "data.train=d.csv", SPLIT_SETS, "data.numeric=a", "task=regression", NULL);
    Dataset *dataset = bench_open(&bench);
    ck_assert_msg(dataset != NULL, "%s", bench.error.message);
    ASSERT_FAILS(maps_fit(dataset, bench.config, &bench.error) != NULL, &bench.error, ERROR_DATA,
                 "same value in every training row");
    dataset_close(dataset);
    bench_done(&bench);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("input maps");
    TCase *t = tcase_create("maps");
    tcase_add_test(t, standard_inputs_have_mean_0_and_deviation_1_over_training_rows);
    tcase_add_test(t, quantile_inputs_are_normal_whatever_the_shape);
    tcase_add_test(t, many_equal_values_map_to_the_middle_of_their_ranks_in_order);
    tcase_add_loop_test(t, a_missing_number_becomes_the_median_and_raises_its_flag, 0, 2);
    tcase_add_test(t, categories_are_sorted_and_unknown_missing_and_rare_ones_share_code_0);
    tcase_add_loop_test(t, maps_are_read_back_exactly_as_written, 0, 4);
    tcase_add_loop_test(t, damaged_maps_are_refused, 0, sizeof damage_cases / sizeof damage_cases[0]);
    tcase_add_test(t, a_column_of_the_maps_that_is_gone_is_named);
    tcase_add_test(t, a_regression_target_that_never_changes_is_refused);
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
