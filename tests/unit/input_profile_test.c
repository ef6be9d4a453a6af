// input_profile_test - evidence on tonight's data: missing, unseen, outside, constant, leaks, forbidden
// columns, drift, schema changes.
#include "input_fixture.h"

#include <math.h>

enum { LINE_SIZE = 200 };

// Rows with index mod 10 = 9 test; a tenth of the rest validates.
static void profile(Bench *bench, const char *header, const char *(*row)(int i, char *to),
                    const char *const sets[3], const Json *reference, Json **ret_evidence, Json **ret_profile)
{
    SCOPED_TEXT file;
    text_init(&file, 1 << 20);
    text_add_format(&file, "%s\n", header);
    char line[LINE_SIZE];
    for (int i = 0; i < 2000; i++)
        text_add_format(&file, "%s\n", row(i, line));
    bench_write(bench, "d.csv", text_string(&file), file.length);
    bench_config(bench, "data.train=d.csv", "split.method=modulo", "split.modulo=10", "split.remainder=9",
                 sets[0], sets[1], sets[1] ? sets[2] : NULL, NULL);
    Dataset *dataset = bench_open(bench);
    ck_assert_msg(dataset != NULL, "%s", bench->error.message);
    Maps *maps = maps_fit(dataset, bench->config, &bench->error);
    ASSERT_OK(
        dataset_profile(dataset, maps, bench->config, reference, ret_evidence, ret_profile, &bench->error),
        &bench->error);
    maps_free(maps);
    dataset_close(dataset);
}

static double number(const Json *evidence, const char *column, const char *key)
{
    const Json *columns = json_get(evidence, "columns");
    for (size_t i = 0; i < json_count(columns); i++)
        if (text_equal(json_text_or(json_get(json_at(columns, i), "name"), ""), column))
            return json_number_or(json_get(json_at(columns, i), key), NAN);
    ck_abort_msg("no column '%s'", column);
    return NAN;
}

static bool constant(const Json *evidence, size_t column)
{
    return json_bool_or(json_get(json_at(json_get(evidence, "columns"), column), "constant"), false);
}

static int noise(int i)
{
    return (int)(((uint32_t)i * 2654435761u >> 8) % 1000);
}

static const char *mixed_row(int i, char *to)
{
    // n: noise, a fifth missing; far: test rows lie outside; same: constant; leak: the target again; id:
    // another word in every row; new: a word of its own in test rows; tells: a word that is the target nine
    // times in ten.
    bool test = i % 10 == 9, y = noise(i) % 2 == 0;
    bool tells = noise(3 * i) % 10 == 0 ? !y : y;
    snprintf(to, LINE_SIZE, "%s%d,%d,4,%d,id%d,%s,%s,%d", i % 5 == 0 ? "NA" : "",
             i % 5 == 0 ? 0 : noise(2 * i), test && i % 20 == 9 ? 5000 : noise(i), y ? 1000 + i : i - 5000, i,
             test    ? "new"
             : i % 3 ? "old"
                     : "older",
             tells ? "yes" : "no", y);
    char *zero = strstr(to, "NA0");
    if (zero)
        memmove(zero + 2, zero + 3, strlen(zero + 3) + 1);
    return to;
}

static const char mixed_header[] = "n,far,same,leak,id,new,tells,y";

START_TEST(each_column_says_what_is_odd_about_it)
{
    Bench bench = bench_new();
    Json *evidence, *kept;
    profile(&bench, mixed_header, mixed_row,
            (const char *const[3]){"data.numeric=n,far,same,leak", "data.categorical=id,new,tells",
                                   "data.missing=n=NA"},
            NULL, &evidence, &kept);
    ck_assert_int_eq(json_integer_or(json_find(evidence, "rows.test"), -1), 200);
    ck_assert_int_eq(json_integer_or(json_find(evidence, "rows.validation"), -1), 180);
    ck_assert_int_eq(json_integer_or(json_find(evidence, "rows.train"), -1), 1620);
    ck_assert_int_eq(json_integer_or(json_find(evidence, "rows.bad"), -1), 0);
    ck_assert(fabs(number(evidence, "n", "missing_ratio") - 0.22) < 0.03 &&
              number(evidence, "far", "missing_ratio") == 0);
    ck_assert(fabs(number(evidence, "far", "outside_ratio") - 100.0 / 380) < 1e-9 &&
              number(evidence, "n", "outside_ratio") == 0);
    ck_assert(number(evidence, "far", "max") < 1000 && number(evidence, "far", "min") >= 0 &&
              number(evidence, "far", "deviation") > 100);
    ck_assert(!constant(evidence, 0) && constant(evidence, 2) && !constant(evidence, 4));
    ck_assert(number(evidence, "leak", "single_auc") == 1 && number(evidence, "n", "single_auc") < 0.6 &&
              number(evidence, "same", "single_auc") == 0.5);
    ck_assert(number(evidence, "id", "single_auc") <
              0.6);   // an identifier tells nothing about rows it has not seen
    ck_assert(number(evidence, "tells", "single_auc") > 0.8 &&
              number(evidence, "tells", "single_auc") < 0.95);
    ck_assert(number(evidence, "id", "unseen_ratio") == 1 && number(evidence, "tells", "unseen_ratio") == 0);
    ck_assert(fabs(number(evidence, "new", "unseen_ratio") - 200.0 / 380) < 1e-9);
    ck_assert(number(evidence, "new", "categories") == 2 && number(evidence, "id", "categories") == 1620);
    ck_assert_uint_eq(json_count(json_get(evidence, "forbidden_used")), 0);
    ck_assert_uint_eq(json_count(json_get(evidence, "schema_changes")), 0);
    ck_assert(json_is_null(json_get(evidence, "reference_version")));
    ck_assert(isnan(number(evidence, "n", "drift_psi")));
    json_free(evidence);
    json_free(kept);
    bench_done(&bench);
}
END_TEST

START_TEST(a_forbidden_column_used_is_named)
{
    Bench bench = bench_new();
    Json *evidence, *kept;
    profile(&bench, mixed_header, mixed_row,
            (const char *const[3]){"data.numeric=leak,far", "data.forbidden=leak,id"}, NULL, &evidence,
            &kept);
    ck_assert_uint_eq(json_count(json_get(evidence, "forbidden_used")), 1);
    ck_assert_str_eq(json_text_or(json_at(json_get(evidence, "forbidden_used"), 0), ""), "leak");
    json_free(evidence);
    json_free(kept);
    bench_done(&bench);
}
END_TEST

static const char *early_row(int i, char *to)
{
    snprintf(to, LINE_SIZE, "%d,%d,%s,%d", noise(i), noise(2 * i),
             noise(i) < 300   ? "red"
             : noise(i) < 900 ? "green"
                              : "blue",
             noise(7 * i + 3) % 2);
    return to;
}

static const char *late_row(int i, char *to)   // x moved by two of its ten bins, c has a new word, z stayed
{
    snprintf(to, LINE_SIZE, "%d,%d,%s,%d", noise(i) + 200, noise(2 * i + 1),
             noise(i) < 300   ? "red"
             : noise(i) < 700 ? "green"
                              : "violet",
             noise(7 * i + 3) % 2);
    return to;
}

START_TEST(drift_against_the_reference_is_measured_on_its_bins)
{
    static const char *const sets[3] = {"data.numeric=x,z", "data.categorical=c", NULL};
    Bench bench = bench_new();
    Json *evidence, *early, *late, *same;
    profile(&bench, "x,z,c,y", early_row, sets, NULL, &evidence, &early);
    json_free(evidence);
    profile(&bench, "x,z,c,y", early_row, sets, early, &evidence, &same);
    ck_assert(number(evidence, "x", "drift_psi") == 0 && number(evidence, "z", "drift_psi") == 0 &&
              number(evidence, "c", "drift_psi") == 0);
    json_free(evidence);
    json_put_text(early, "version", "model-1");
    profile(&bench, "x,z,c,y", late_row, sets, early, &evidence, &late);
    ck_assert_str_eq(json_text_or(json_get(evidence, "reference_version"), ""), "model-1");
    ck_assert_msg(number(evidence, "x", "drift_psi") > 0.25, "x drifts by %g",
                  number(evidence, "x", "drift_psi"));
    ck_assert_msg(number(evidence, "z", "drift_psi") < 0.02, "z drifts by %g",
                  number(evidence, "z", "drift_psi"));
    ck_assert_msg(number(evidence, "c", "drift_psi") > 0.25, "c drifts by %g",
                  number(evidence, "c", "drift_psi"));
    json_free(evidence);
    json_free(early);
    json_free(late);
    json_free(same);
    bench_done(&bench);
}
END_TEST

START_TEST(columns_that_came_went_or_changed_role_are_named)
{
    Bench bench = bench_new();
    Json *evidence, *before, *after;
    profile(&bench, "x,z,c,y", early_row,
            (const char *const[3]){"data.numeric=x,z", "data.categorical=c", NULL}, NULL, &evidence, &before);
    json_free(evidence);
    profile(&bench, "x,z,w,y", early_row,
            (const char *const[3]){"data.numeric=x", "data.categorical=z,w", NULL}, before, &evidence,
            &after);
    const Json *changes = json_get(evidence, "schema_changes");
    ck_assert_uint_eq(json_count(changes), 3);
    ck_assert_str_eq(json_text_or(json_at(changes, 0), ""), "column 'z' was numeric, is categorical");
    ck_assert_str_eq(json_text_or(json_at(changes, 1), ""), "column 'w' was absent, is categorical");
    ck_assert_str_eq(json_text_or(json_at(changes, 2), ""), "column 'c' was categorical, is absent");
    json_free(evidence);
    json_free(before);
    json_free(after);
    bench_done(&bench);
}
END_TEST

#ifdef FEDGATE_FAULTS
START_TEST(a_planted_lost_column_shows_as_missing_and_constant)
{
    Bench bench = bench_new();
    Json *evidence, *kept;
    setenv("FEDGATE_FAULT", "input.drop_column=1", 1);
    profile(&bench, "x,z,c,y", early_row,
            (const char *const[3]){"data.numeric=x,z", "data.categorical=c", NULL}, NULL, &evidence, &kept);
    unsetenv("FEDGATE_FAULT");
    ck_assert(number(evidence, "z", "missing_ratio") == 1 && constant(evidence, 1));
    ck_assert(number(evidence, "x", "missing_ratio") == 0 && !constant(evidence, 0));
    json_free(evidence);
    json_free(kept);
    bench_done(&bench);
}
END_TEST
#endif

START_TEST(rows_of_one_class_are_refused)
{
    static const struct {
        const char *file, *words;
    } cases[] = {
        {"a,y\n1,0\n2,1\n3,1\n4,1\n5,1\n6,1\n", "target column 'y' is of class 1 in all 2 test rows"},
        {"a,y\n1,0\n2,1\n3,1\n4,0\n5,1\n6,0\n", "target column 'y' is of class 0 in all 2 train rows"},
    };
    Bench bench = bench_new();
    bench_write(&bench, "d.csv", cases[_i].file, strlen(cases[_i].file));
    bench_config(&bench, "data.train=d.csv", "data.numeric=a", "split.method=modulo", "split.modulo=3",
                 "split.remainder=2", "split.validation=0.5", NULL);
    Dataset *dataset = bench_open(&bench);
    ck_assert_msg(dataset != NULL, "%s", bench.error.message);
    Maps *maps = maps_fit(dataset, bench.config, &bench.error);
    Json *evidence, *kept;
    ASSERT_FAILS(dataset_profile(dataset, maps, bench.config, NULL, &evidence, &kept, &bench.error),
                 &bench.error, ERROR_DATA, cases[_i].words);
    maps_free(maps);
    dataset_close(dataset);
    bench_done(&bench);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("input profile");
    TCase *t = tcase_create("profile");
    tcase_add_test(t, each_column_says_what_is_odd_about_it);
    tcase_add_test(t, a_forbidden_column_used_is_named);
    tcase_add_test(t, drift_against_the_reference_is_measured_on_its_bins);
    tcase_add_test(t, columns_that_came_went_or_changed_role_are_named);
    tcase_add_loop_test(t, rows_of_one_class_are_refused, 0, 2);
#ifdef FEDGATE_FAULTS
    tcase_add_test(t, a_planted_lost_column_shows_as_missing_and_constant);
#endif
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
