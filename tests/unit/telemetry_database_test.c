// telemetry_database_test - migrations that are all there or not at all, the views, and a database that is
// away.
#include "telemetry_fixture.h"

// -- migrations

static int migrations_count(void)
{
    Error error = ERROR_INIT;
    FileList list;
    int count = 0;
    ASSERT_OK(file_list(FIXTURE_MIGRATIONS, &list, &error), &error);
    for (size_t i = 0; i < list.count; i++)
        count += text_ends_with(list.names[i], ".sql");
    file_list_done(&list);
    return count;
}

// A copy of the migrations with one more file, or none when name is NULL.
static char *migrations_with(const char *name, const char *sql)
{
    Error error = ERROR_INIT;
    FileList list;
    char *folder = support_folder_new();
    ASSERT_OK(file_list(FIXTURE_MIGRATIONS, &list, &error), &error);
    for (size_t i = 0; i < list.count; i++) {
        char from[FILE_PATH_SIZE], to[FILE_PATH_SIZE];
        ASSERT_OK(file_join(from, FIXTURE_MIGRATIONS, list.names[i], &error), &error);
        ASSERT_OK(file_join(to, folder, list.names[i], &error), &error);
        ASSERT_OK(file_copy_new(from, to, 0644, &error), &error);
    }
    file_list_done(&list);
    if (name != NULL)
        support_write(support_path(folder, name), sql);
    return folder;
}

static const char *next_name(const char *words)
{
    static char name[64];
    ck_assert(text_print(name, sizeof(name), "%04d_%s.sql", migrations_count() + 1, words));
    return name;
}

static void check_applied(Telemetry *telemetry, int expected)
{
    char number[16];
    ck_assert(text_print(number, sizeof(number), "%d", expected));
    ck_assert_str_eq(fixture_ask(telemetry->client, "SELECT count(*) FROM fedgate.schema_migration"), number);
}

START_TEST(migrating_twice_does_nothing_the_second_time)
{
    Error error = ERROR_INIT;
    char url[200];
    int applied = -1;
    fixture_database("twice", url);
    OWNED(Telemetry, telemetry_close) *telemetry = fixture_connect(url);
    ASSERT_FAILS(telemetry_check_schema(telemetry, FIXTURE_MIGRATIONS, &error), &error, ERROR_CONFIG, "0 of");
    ASSERT_OK(telemetry_migrate(telemetry, FIXTURE_MIGRATIONS, &applied, &error), &error);
    ck_assert_int_eq(applied, migrations_count());
    ASSERT_OK(telemetry_migrate(telemetry, FIXTURE_MIGRATIONS, &applied, &error), &error);
    ck_assert_int_eq(applied, 0);
    ASSERT_OK(telemetry_check_schema(telemetry, FIXTURE_MIGRATIONS, &error), &error);
}
END_TEST

START_TEST(of_two_migrators_at_once_one_does_the_work_and_the_other_waits)
{
    Error error = ERROR_INIT;
    char url[200];
    int applied = -1, status = 0;
    fixture_database("contested", url);
    pid_t child = fork();
    Telemetry *telemetry = fixture_connect(url);
    ASSERT_OK(telemetry_migrate(telemetry, FIXTURE_MIGRATIONS, &applied, &error), &error);
    if (child == 0)
        _exit(applied);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(applied + WEXITSTATUS(status), migrations_count());
    check_applied(telemetry, migrations_count());
    telemetry_close(telemetry);
}
END_TEST

START_TEST(a_newer_schema_is_refused_and_nothing_is_written)
{
    Error error = ERROR_INIT;
    char url[200];
    int applied = -1;
    fixture_database("newer", url);
    char *newer = migrations_with(next_name("create_future"), "CREATE TABLE fedgate.future (x int);");
    OWNED(Telemetry, telemetry_close) *telemetry = fixture_connect(url);
    ASSERT_OK(telemetry_migrate(telemetry, newer, &applied, &error), &error);
    ASSERT_FAILS(telemetry_migrate(telemetry, FIXTURE_MIGRATIONS, &applied, &error), &error, ERROR_CONFIG,
                 "newer than this program");
    ASSERT_FAILS(telemetry_check_schema(telemetry, FIXTURE_MIGRATIONS, &error), &error, ERROR_CONFIG,
                 "create_future");
    check_applied(telemetry, migrations_count() + 1);
    support_folder_remove(newer);
}
END_TEST

START_TEST(an_older_schema_is_told_how_to_become_new)
{
    Error error = ERROR_INIT;
    char *newer = migrations_with(next_name("create_future"), "CREATE TABLE fedgate.future (x int);");
    ck_assert(!telemetry_check_schema(fixture_server, newer, &error));
    ck_assert_int_eq(error.kind, ERROR_CONFIG);
    ck_assert_ptr_nonnull(strstr(error.hint, "fedgate migrate"));
    support_folder_remove(newer);
}
END_TEST

START_TEST(a_migration_that_was_changed_is_refused)
{
    Error error = ERROR_INIT;
    int applied = -1;
    char *changed = migrations_with("0001_create_telemetry.sql", "CREATE SCHEMA fedgate; -- changed");
    ASSERT_FAILS(telemetry_migrate(fixture_server, changed, &applied, &error), &error, ERROR_CONFIG,
                 "was changed after it was applied");
    ASSERT_FAILS(telemetry_check_schema(fixture_server, changed, &error), &error, ERROR_CONFIG,
                 "0001_create_telemetry.sql");
    support_folder_remove(changed);
}
END_TEST

typedef struct BadMigration {
    const char *words, *sql, *message;
    ErrorKind kind;
} BadMigration;

static const BadMigration bad_migrations[] = {
    {"break_half", "CREATE TABLE fedgate.half (x int); SELECT 1 FROM fedgate.nowhere;", "break_half",
     ERROR_CONFIG},
    {"break_commit", "CREATE TABLE fedgate.half (x int); ROLLBACK;", "ends its transaction itself",
     ERROR_CONFIG},
    {"Break_Name", "SELECT 1;", "is not named", ERROR_CONFIG},
};

START_TEST(a_migration_that_fails_leaves_nothing_behind)
{
    Error error = ERROR_INIT;
    char url[200], name[32];
    int applied = -1;
    ck_assert(text_print(name, sizeof(name), "bad%d", _i));
    fixture_database(name, url);
    char *bad = migrations_with(next_name(bad_migrations[_i].words), bad_migrations[_i].sql);
    OWNED(Telemetry, telemetry_close) *telemetry = fixture_connect(url);
    ASSERT_OK(telemetry_migrate(telemetry, FIXTURE_MIGRATIONS, &applied, &error), &error);
    ASSERT_FAILS(telemetry_migrate(telemetry, bad, &applied, &error), &error, bad_migrations[_i].kind,
                 bad_migrations[_i].message);
    ck_assert_str_eq(fixture_ask(telemetry->client, "SELECT to_regclass('fedgate.half') IS NULL"), "t");
    check_applied(telemetry, migrations_count());
    ASSERT_OK(telemetry_migrate(telemetry, FIXTURE_MIGRATIONS, &applied, &error),
              &error);   // the lock is free
    support_folder_remove(bad);
}
END_TEST

START_TEST(a_gap_or_an_empty_folder_is_refused)
{
    Error error = ERROR_INIT;
    int applied = -1;
    char *folder = support_folder_new();
    ASSERT_FAILS(telemetry_migrate(fixture_server, folder, &applied, &error), &error, ERROR_CONFIG,
                 "holds no migration");
    support_write(support_path(folder, "0002_create_second.sql"), "SELECT 1;");
    ASSERT_FAILS(telemetry_migrate(fixture_server, folder, &applied, &error), &error, ERROR_CONFIG,
                 "is not named 0001_");
    ASSERT_FAILS(telemetry_migrate(fixture_server, "/nowhere", &applied, &error), &error, ERROR_IO,
                 "migrations");
    support_folder_remove(folder);
}
END_TEST

// -- views

static void spool_row(Spool *spool, TelemetryKind kind, const char *text)
{
    Error error = ERROR_INIT;
    OWNED(Json, json_free) *row = json_parse(text, strlen(text), 10000, &error);
    ck_assert_msg(row != NULL, "%s: %s", text, error.message);
    ASSERT_OK(spool_append(spool, kind, row, &error), &error);
}

static void spool_night(const char *run)
{
    Error error = ERROR_INIT;
    OWNED(Spool, spool_close) *spool = spool_open(fixture_home, run, "seen-0123456789abcdef", 1000, &error);
    ck_assert_ptr_nonnull(spool);
    spool_row(spool, TELEMETRY_RUN,
              "{\"model\":\"seen\",\"slot\":\"2026-11-30\",\"started\":\"2026-11-30T01:00:00.000+01:00\"}");
    spool_row(spool, TELEMETRY_NIGHT_STEP,
              "{\"step\":\"train\",\"begun\":\"2026-11-30T01:00:00.000+01:00\",\"seconds\":30.0,\"outcome\":"
              "\"done\"}");
    spool_row(spool, TELEMETRY_NIGHT_STEP,
              "{\"step\":\"judge\",\"begun\":\"2026-11-30T01:00:30.000+01:00\",\"seconds\":10.0,\"outcome\":"
              "\"done\"}");
    spool_row(spool, TELEMETRY_STEP_WINDOW,
              "{\"first_step\":0,\"steps\":10,\"wall_ns\":1000,\"wait_ns\":40,\"exposed_copy_ns\":10,"
              "\"loss\":0.5}");
    spool_row(spool, TELEMETRY_STEP_WINDOW,
              "{\"first_step\":10,\"steps\":10,\"wall_ns\":1000,\"wait_ns\":60,\"exposed_copy_ns\":30,"
              "\"loss\":0.25}");
    spool_row(spool, TELEMETRY_STAGE,
              "{\"stage\":\"decode\",\"items\":100,\"busy_ns\":750000000,\"blocked_in_ns\":200000000,"
              "\"blocked_out_ns\":50000000,\"threads\":2}");
    spool_row(spool, TELEMETRY_CHECK,
              "{\"name\":\"overlap\",\"required\":true,\"outcome\":\"pass\",\"value\":0.9,\"value_limit\":0."
              "8,\"unit\":\"ratio\",\"n\":null}");
    spool_row(spool, TELEMETRY_CHECK,
              "{\"name\":\"quality\",\"required\":true,\"outcome\":\"fail\",\"value\":\"nan\",\"reason\":"
              "\"not better\"}");
    spool_row(spool, TELEMETRY_METRIC,
              "{\"model\":\"candidate\",\"split\":\"test\",\"slice_column\":\"\",\"slice_value\":\"\","
              "\"metric\":\"auc\",\"value\":0.91,\"rows\":100}");
    spool_row(spool, TELEMETRY_METRIC,
              "{\"model\":\"candidate\",\"split\":\"test\",\"slice_column\":\"sex\",\"slice_value\":\"Male\","
              "\"metric\":\"auc\",\"value\":0.8,\"rows\":60}");
    spool_row(spool, TELEMETRY_METRIC,
              "{\"model\":\"candidate\",\"split\":\"test\",\"slice_column\":\"sex\",\"slice_value\":"
              "\"Female\",\"metric\":\"auc\",\"value\":0.95,\"rows\":40}");
    spool_row(spool, TELEMETRY_PREDICTION,
              "{\"model\":\"candidate\",\"bin\":0,\"low\":0.0,\"high\":0.5,\"rows\":75,\"positives\":5}");
    spool_row(spool, TELEMETRY_PREDICTION,
              "{\"model\":\"candidate\",\"bin\":1,\"low\":0.5,\"high\":1.0,\"rows\":25,\"positives\":20}");
    spool_row(spool, TELEMETRY_INPUT,
              "{\"name\":\"age\",\"role\":\"numeric\",\"missing_ratio\":0.01,\"drift_psi\":0.02,\"min\":17}");
    spool_row(spool, TELEMETRY_INPUT,
              "{\"name\":\"job\",\"role\":\"categorical\",\"missing_ratio\":0.05,\"unseen_ratio\":0.001,"
              "\"drift_psi\":0.2}");
    spool_row(spool, TELEMETRY_MEMORY,
              "{\"account\":\"weights\",\"kind\":\"device\",\"planned_bytes\":1000,\"peak_bytes\":1100}");
    spool_row(spool, TELEMETRY_RUN,
              "{\"model\":\"seen\",\"slot\":\"2026-11-30\",\"started\":\"2026-11-30T01:00:00.000+01:00\","
              "\"throughput\":1234.5,\"shapes\":{\"hidden\":[32]},\"seconds\":{\"train\":30}}");
    spool_row(spool, TELEMETRY_VERDICT,
              "{\"slot\":\"2026-11-30\",\"outcome\":\"refused\",\"reason\":\"quality "
              "failed\",\"decided_by\":\"quality\",\"started\":\"2026-11-30T01:00:00.000+01:00\",\"ended\":"
              "\"2026-11-30T01:01:00.000+01:00\"}");
}

typedef struct ViewRow {
    const char *sql, *answer;
} ViewRow;

static const ViewRow views[] = {
    {"SELECT outcome || ' by ' || decided_by FROM fedgate.latest_verdict WHERE model = 'seen'",
     "refused by quality"},
    {"SELECT string_agg(number || ' ' || step || ' ' || share, ', ' ORDER BY number) FROM "
     "fedgate.night_steps WHERE model = 'seen'",
     "1 train 0.75, 2 judge 0.25"},
    {"SELECT string_agg(name || ' ' || outcome || ' ' || value, ', ' ORDER BY name) FROM "
     "fedgate.checks_by_night WHERE slot = '2026-11-30' AND model = 'seen'",
     "overlap pass 0.9, quality fail NaN"},
    {"SELECT stage || ' ' || busy_ratio FROM fedgate.stage_timings_by_night WHERE model = 'seen'",
     "decode 0.75"},
    {"SELECT account || ' ' || over_plan_bytes FROM fedgate.memory_ledger WHERE model = 'seen'",
     "weights 100"},
    {"SELECT throughput FROM fedgate.run_record WHERE model = 'seen'", "1234.5"},
    {"SELECT count(*) FROM fedgate.version_life WHERE model = 'seen'", "1"},
    {"SELECT checks_not_passed || ' ' || night_seconds || ' ' || wait_ratio || ' ' || last_loss FROM "
     "fedgate.version_life WHERE model = 'seen'",
     "quality 60 0.05 0.25"},
    {"SELECT input_columns || ' ' || worst_missing_ratio || ' ' || most_drifted_column FROM "
     "fedgate.version_life WHERE model = 'seen'",
     "2 0.05 job"},
    {"SELECT predictions || ' ' || prediction_mean || ' ' || positive_ratio FROM fedgate.version_life WHERE "
     "model = 'seen'",
     "100 0.375 0.25"},
    {"SELECT (test_metrics ->> 'auc') || ' ' || slices || ' ' || worst_slice FROM fedgate.version_life WHERE "
     "model = 'seen'",
     "0.91 2 sex = Male"},
    {"SELECT runs || ' ' || promotions || ' ' || live FROM fedgate.version_life WHERE model = 'seen'",
     "1 0 false"},
    {"SELECT rest ->> 'min' FROM fedgate.input_column WHERE name = 'age'", "17"},
    {"SELECT count(*) FROM fedgate.live_version", "0"},
};

START_TEST(the_views_tell_a_night)
{
    Error error = ERROR_INIT;
    char run[UUID_SIZE];
    ShipResult result;
    fixture_run_id(run);
    spool_night(run);
    OWNED(Telemetry, telemetry_close) *telemetry = fixture_connect("");
    ASSERT_OK(telemetry_register_home(telemetry, "seen", "a home", &error), &error);
    ASSERT_OK(telemetry_ship(telemetry, fixture_home, run, &result, &error), &error);
    ck_assert(result.complete);
    for (size_t i = 0; i < sizeof(views) / sizeof(views[0]); i++)
        ck_assert_msg(strcmp(fixture_ask(telemetry->client, views[i].sql), views[i].answer) == 0,
                      "%s gives %s", views[i].sql, fixture_ask(telemetry->client, views[i].sql));
}
END_TEST

// -- reaching a server

typedef struct BadUrl {
    const char *url, *words;
    ErrorKind kind;
} BadUrl;

static const BadUrl bad_urls[] = {
    {"host=/nowhere dbname=x user=y", "could not connect", ERROR_UNAVAILABLE},
    {"postgresql://y@127.0.0.1:1/x", "could not connect", ERROR_UNAVAILABLE},
    {"dbname hunter2", "is not a libpq connection string", ERROR_CONFIG},
    {"postgresql://y@[hunter2/x", "is not a libpq connection string", ERROR_CONFIG},
};

START_TEST(a_database_that_cannot_be_reached_is_said_so_without_repeating_the_url)
{
    Error error = ERROR_INIT;
    OWNED(Config, config_free) *config = fixture_config(bad_urls[_i].url, "2s");
    ck_assert_ptr_null(telemetry_connect(config, fixture_home, clock_real(), &error));
    ck_assert_ptr_null(strstr(error.message, "hunter2"));
    ck_assert_ptr_null(strstr(error.hint, "hunter2"));
    ASSERT_FAILS(false, &error, bad_urls[_i].kind, bad_urls[_i].words);
}
END_TEST

#ifdef FEDGATE_FAULTS
START_TEST(the_planted_fault_makes_the_database_unavailable)
{
    Error error = ERROR_INIT;
    OWNED(Config, config_free) *config = fixture_config("", "20s");
    setenv("FEDGATE_FAULT", "telemetry.down=1", 1);
    Telemetry *telemetry = telemetry_connect(config, fixture_home, clock_real(), &error);
    unsetenv("FEDGATE_FAULT");
    ASSERT_FAILS(telemetry != NULL, &error, ERROR_UNAVAILABLE, "telemetry.down");
}
END_TEST
#endif

START_TEST(a_server_that_does_not_answer_is_given_up)
{
    Error error = ERROR_INIT;
    char url[200];
    ck_assert(
        text_print(url, sizeof(url), "host=%s port=5432 user=fedgate dbname=fedgate", fixture_socket()));
    OWNED(Config, config_free) *config = fixture_config(url, "1s");
    pid_t server = fixture_server_id(fixture_home);
    ck_assert_int_eq(kill(server, SIGSTOP), 0);
    Telemetry *telemetry = telemetry_connect(config, fixture_home, clock_real(), &error);
    kill(server, SIGCONT);
    ASSERT_FAILS(telemetry != NULL, &error, ERROR_UNAVAILABLE, "did not answer in time");
}
END_TEST

START_TEST(after_kill_nine_the_server_is_started_again_and_shipping_goes_on)
{
    Error error = ERROR_INIT;
    char run[UUID_SIZE];
    ShipResult result;
    fixture_run_id(run);
    fixture_spool(run, 0, 10);
    Telemetry *telemetry = fixture_connect("");
    ASSERT_OK(telemetry_register_home(telemetry, "killed", "a home", &error), &error);
    ASSERT_OK(telemetry_ship(telemetry, fixture_home, run, &result, &error), &error);
    fixture_spool(run, 10, 10);
    ck_assert_int_eq(kill(fixture_server_id(fixture_home), SIGKILL), 0);
    ASSERT_OK(telemetry_ship(telemetry, fixture_home, run, &result, &error), &error);
    ck_assert(result.complete && result.acknowledged == 20);
    telemetry_close(telemetry);
    telemetry = fixture_connect("");
    ck_assert_str_eq(
        fixture_ask(telemetry->client, "SELECT count(*) FROM fedgate.spool_position WHERE seq = 20"), "1");
    telemetry_close(telemetry);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("telemetry_database");
    TCase *shared = tcase_create("shared");
    tcase_add_unchecked_fixture(shared, fixture_begin, fixture_end);
    tcase_add_test(shared, the_views_tell_a_night);
    tcase_add_test(shared, migrating_twice_does_nothing_the_second_time);
    tcase_add_test(shared, of_two_migrators_at_once_one_does_the_work_and_the_other_waits);
    tcase_add_test(shared, a_newer_schema_is_refused_and_nothing_is_written);
    tcase_add_test(shared, an_older_schema_is_told_how_to_become_new);
    tcase_add_test(shared, a_migration_that_was_changed_is_refused);
    tcase_add_loop_test(shared, a_migration_that_fails_leaves_nothing_behind, 0,
                        sizeof(bad_migrations) / sizeof(bad_migrations[0]));
    tcase_add_test(shared, a_gap_or_an_empty_folder_is_refused);
    tcase_add_loop_test(shared, a_database_that_cannot_be_reached_is_said_so_without_repeating_the_url, 0,
                        sizeof(bad_urls) / sizeof(bad_urls[0]));
#ifdef FEDGATE_FAULTS
    tcase_add_test(shared, the_planted_fault_makes_the_database_unavailable);
#endif
    tcase_add_test(shared, a_server_that_does_not_answer_is_given_up);
    tcase_add_test(shared, after_kill_nine_the_server_is_started_again_and_shipping_goes_on);
    suite_add_tcase(s, shared);
    return s;
}

int main(void)
{
    if (!fixture_possible("telemetry_database"))
        return 0;
    SRunner *runner = srunner_create(suite());
    srunner_run_all(runner, CK_ENV);
    int bad = srunner_ntests_failed(runner);
    srunner_free(runner);
    return bad != 0;
}
