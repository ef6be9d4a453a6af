// telemetry_ship_test - every row arrives exactly once, whatever is cut, killed or repeated; and values
// arrive as they are.
#include "telemetry_fixture.h"

#include <math.h>

static const char home_id[] = "0193-home-of-the-test";

static Telemetry *writer(const char *url, const char *model)
{
    Error error = ERROR_INIT;
    Telemetry *telemetry = fixture_connect(url);
    ASSERT_OK(telemetry_register_home(telemetry, model, home_id, &error), &error);
    return telemetry;
}

static ShipResult ship(Telemetry *telemetry, const char *run)
{
    Error error = ERROR_INIT;
    ShipResult result;
    ASSERT_OK(telemetry_ship(telemetry, fixture_home, run, &result, &error), &error);
    return result;
}

static int64_t stored(const char *run)
{
    char sql[200];
    int64_t rows = -1;
    OWNED(Client, client_close) *client = fixture_client("fedgate", "fedgate");
    ck_assert(text_print(sql, sizeof(sql), "SELECT count(*) FROM fedgate.step_window WHERE run = '%s'", run));
    ck_assert(text_to_int64(fixture_ask(client, sql), &rows));
    return rows;
}

static void execute(const char *sql)
{
    Error error = ERROR_INIT;
    OWNED(Client, client_close) *client = fixture_client("fedgate", "fedgate");
    ASSERT_OK(client_query(client, sql, NULL, 0, NULL, &error), &error);
}

static int64_t stored_decisions(const char *where)
{
    char sql[200];
    int64_t rows = -1;
    OWNED(Client, client_close) *client = fixture_client("fedgate", "fedgate");
    ck_assert(
        text_print(sql, sizeof(sql), "SELECT count(*) FROM fedgate.decision WHERE home_id = '%s'", where));
    ck_assert(text_to_int64(fixture_ask(client, sql), &rows));
    return rows;
}

START_TEST(rows_arrive_once_however_often_they_are_shipped)
{
    char run[UUID_SIZE];
    fixture_run_id(run);
    fixture_spool(run, 0, 20500);   // two batches
    OWNED(Telemetry, telemetry_close) *telemetry = writer("", "once");
    ShipResult result = ship(telemetry, run);
    ck_assert(result.complete && result.rows == 20500 && result.acknowledged == 20500 &&
              result.torn_bytes == 0);
    ck_assert_int_eq(stored(run), 20500);
    result = ship(telemetry, run);
    ck_assert(result.complete && result.acknowledged == 20500);
    ck_assert_int_eq(stored(run), 20500);
    fixture_spool(run, 20500, 10);
    result = ship(telemetry, run);
    ck_assert(result.complete && result.rows == 20510);
    ck_assert_int_eq(stored(run), 20510);
}
END_TEST

START_TEST(all_spools_left_behind_are_shipped_and_an_odd_one_keeps_none)
{
    Error error = ERROR_INIT;
    char runs[3][UUID_SIZE];
    int64_t rows = -1;
    OWNED(Telemetry, telemetry_close) *telemetry = writer("", "all");
    if (!telemetry_ship_all(telemetry, fixture_home, &rows, &error))
        error_clear(&error);   // what other tests left
    for (int i = 0; i < 3; i++) {
        fixture_run_id(runs[i]);
        fixture_spool(runs[i], 0, 7);
    }
    ASSERT_OK(telemetry_ship_all(telemetry, fixture_home, &rows, &error), &error);
    ck_assert_int_eq(rows, 21);
    ASSERT_OK(telemetry_ship_all(telemetry, fixture_home, &rows, &error), &error);
    ck_assert_int_eq(rows, 0);
    support_write(support_path(fixture_home, "spool/01000000-0000-7000-8000-000000000000.spool"),
                  "nothing that is a spool");
    fixture_spool(runs[2], 7, 1);
    ASSERT_FAILS(telemetry_ship_all(telemetry, fixture_home, &rows, &error), &error, ERROR_DATA,
                 "is not a spool");
    ck_assert_int_eq(stored(runs[2]), 8);
    ASSERT_OK(
        file_remove(support_path(fixture_home, "spool/01000000-0000-7000-8000-000000000000.spool"), &error),
        &error);
}
END_TEST

START_TEST(a_link_cut_inside_commit_loses_and_doubles_nothing)
{
    static const ProxyCut cuts[] = {PROXY_BEFORE, PROXY_AFTER};
    char run[UUID_SIZE], url[300];
    char *folder = support_folder_new();
    Proxy proxy;
    fixture_run_id(run);
    fixture_spool(run, 0, 20500);
    proxy_begin(&proxy, folder, cuts[_i % 2], 1 + _i / 2);
    ck_assert(text_print(url, sizeof(url), "host=%s port=5432 user=fedgate dbname=fedgate", folder));
    Telemetry *telemetry = writer(url, "cut");
    ShipResult result = ship(telemetry, run);
    ck_assert(result.complete && result.acknowledged == 20500);
    ck_assert_int_ge(*proxy.commits, 2);
    telemetry_close(telemetry);
    proxy_end(&proxy);
    ck_assert_int_eq(stored(run), 20500);
    support_folder_remove(folder);
}
END_TEST

START_TEST(a_backend_that_is_terminated_is_replaced)
{
    char run[UUID_SIZE];
    fixture_run_id(run);
    fixture_spool(run, 0, 5);
    OWNED(Telemetry, telemetry_close) *telemetry = writer("", "terminated");
    ck_assert_int_eq(ship(telemetry, run).acknowledged, 5);
    int64_t epoch = telemetry->epoch;
    fixture_spool(run, 5, 5);
    OWNED(Client, client_close) *client = fixture_client("postgres", "postgres");
    char sql[200];
    ck_assert(
        text_print(sql, sizeof(sql),
                   "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '%s'",
                   telemetry->application));
    ck_assert_str_eq(fixture_ask(client, sql), "t");
    ck_assert_int_eq(ship(telemetry, run).acknowledged, 10);
    ck_assert_int_gt(telemetry->epoch, epoch);
    ck_assert_int_eq(stored(run), 10);
}
END_TEST

START_TEST(a_shipper_that_was_overtaken_writes_nothing)
{
    Error error = ERROR_INIT;
    char run[UUID_SIZE];
    ShipResult result;
    fixture_run_id(run);
    fixture_spool(run, 0, 5);
    OWNED(Telemetry, telemetry_close) *telemetry = writer("", "fence");
    execute("UPDATE fedgate.home SET epoch = epoch + 1 WHERE model = 'fence'");
    ASSERT_FAILS(telemetry_ship(telemetry, fixture_home, run, &result, &error), &error, ERROR_CONFLICT,
                 "another shipper");
    ck_assert_int_eq(stored(run), 0);
}
END_TEST

START_TEST(rows_deleted_from_the_database_are_filled_up_again)
{
    char run[UUID_SIZE], sql[200];
    fixture_run_id(run);
    fixture_spool(run, 0, 50);
    OWNED(Telemetry, telemetry_close) *telemetry = writer("", "refill");
    ship(telemetry, run);
    ck_assert(text_print(sql, sizeof(sql),
                         "DELETE FROM fedgate.step_window WHERE run = '%s' AND seq %% 3 = 0", run));
    execute(sql);
    ShipResult result = ship(telemetry, run);
    ck_assert(result.complete && result.acknowledged == 50);
    ck_assert_int_eq(stored(run), 50);
}
END_TEST

START_TEST(a_position_that_was_lost_is_found_again_without_doubling_rows)
{
    char run[UUID_SIZE], sql[200];
    fixture_run_id(run);
    fixture_spool(run, 0, 50);
    OWNED(Telemetry, telemetry_close) *telemetry = writer("", "position");
    ship(telemetry, run);
    ck_assert(text_print(sql, sizeof(sql), "DELETE FROM fedgate.spool_position WHERE run = '%s'", run));
    execute(sql);
    fixture_spool(run, 50, 5);
    ShipResult result = ship(telemetry, run);
    ck_assert(result.complete && result.acknowledged == 55);
    ck_assert_int_eq(stored(run), 55);
}
END_TEST

// The trigger fails its first two rows; sequences do not roll back.
START_TEST(a_serialization_failure_is_tried_again)
{
    Error error = ERROR_INIT;
    char run[UUID_SIZE];
    fixture_run_id(run);
    fixture_spool(run, 0, 5);
    OWNED(Telemetry, telemetry_close) *telemetry = writer("", "again");
    OWNED(Client, client_close) *client = fixture_client("fedgate", "fedgate");
    ASSERT_OK(
        client_script(client,
                      "CREATE SEQUENCE fedgate.turn; CREATE FUNCTION fedgate.fail_twice() RETURNS trigger "
                      "LANGUAGE plpgsql AS $$ BEGIN IF nextval('fedgate.turn') < 3 THEN RAISE EXCEPTION "
                      "'planted' USING ERRCODE = '40001'; END IF; RETURN NEW; END $$; "
                      "CREATE TRIGGER fail_twice BEFORE INSERT ON fedgate.step_window "
                      "FOR EACH STATEMENT EXECUTE FUNCTION fedgate.fail_twice()",
                      &error),
        &error);
    ShipResult result = ship(telemetry, run);
    ck_assert(result.complete && result.acknowledged == 5);
    ck_assert_int_eq(strcmp(fixture_ask(client, "SELECT last_value FROM fedgate.turn"), "3"), 0);
    ASSERT_OK(
        client_script(client, "DROP FUNCTION fedgate.fail_twice CASCADE; DROP SEQUENCE fedgate.turn", &error),
        &error);
}
END_TEST

START_TEST(a_row_that_differs_in_the_database_is_named)
{
    Error error = ERROR_INIT;
    ShipResult result;
    char run[UUID_SIZE], sql[200];
    fixture_run_id(run);
    fixture_spool(run, 0, 50);
    OWNED(Telemetry, telemetry_close) *telemetry = writer("", "differs");
    ship(telemetry, run);
    ck_assert(text_print(sql, sizeof(sql),
                         "UPDATE fedgate.step_window SET loss = 0 WHERE run = '%s' AND seq = 7", run));
    execute(sql);
    ck_assert(
        text_print(sql, sizeof(sql), "DELETE FROM fedgate.step_window WHERE run = '%s' AND seq = 9", run));
    execute(sql);
    ASSERT_FAILS(telemetry_ship(telemetry, fixture_home, run, &result, &error), &error, ERROR_INCONSISTENT,
                 "row 7 of run");
}
END_TEST

START_TEST(a_spool_from_an_old_backup_or_with_other_rows_is_refused)
{
    Error error = ERROR_INIT;
    ShipResult result;
    char run[UUID_SIZE], path[FILE_PATH_SIZE];
    fixture_run_id(run);
    fixture_spool(run, 0, 5);
    OWNED(Telemetry, telemetry_close) *telemetry = writer("", "backup");
    ASSERT_OK(spool_path(fixture_home, run, path, &error), &error);
    uint64_t five;
    ASSERT_OK(file_size(path, &five, &error), &error);
    fixture_spool(run, 5, 5);
    ship(telemetry, run);
    ck_assert_int_eq(truncate(path, (off_t)five), 0);
    ASSERT_FAILS(telemetry_ship(telemetry, fixture_home, run, &result, &error), &error, ERROR_INCONSISTENT,
                 "has 10 rows");
    fixture_spool(run, 100, 6);
    ASSERT_FAILS(telemetry_ship(telemetry, fixture_home, run, &result, &error), &error, ERROR_INCONSISTENT,
                 "are not those");
    ck_assert_int_eq(stored(run), 10);
}
END_TEST

START_TEST(a_torn_tail_is_cut_reported_and_not_complete_the_first_time)
{
    Error error = ERROR_INIT;
    char run[UUID_SIZE], path[FILE_PATH_SIZE];
    uint64_t bytes;
    fixture_run_id(run);
    fixture_spool(run, 0, 5);
    ASSERT_OK(spool_path(fixture_home, run, path, &error), &error);
    ASSERT_OK(file_size(path, &bytes, &error), &error);
    ck_assert_int_eq(truncate(path, (off_t)bytes - 3), 0);
    OWNED(Telemetry, telemetry_close) *telemetry = writer("", "torn");
    ShipResult result = ship(telemetry, run);
    ck_assert(!result.complete && result.rows == 4 && result.acknowledged == 4 && result.torn_bytes > 0);
    ck_assert(ship(telemetry, run).complete);
}
END_TEST

START_TEST(figures_that_are_no_numbers_and_names_that_look_like_sql_arrive_as_they_are)
{
    Error error = ERROR_INIT;
    char run[UUID_SIZE], sql[400];
    fixture_run_id(run);
    static const double figures[] = {0.1, NAN, INFINITY, -INFINITY, 5e-324, 1.7976931348623157e308};
    static const char *const texts[] = {"0.1",       "NaN",    "Infinity",
                                        "-Infinity", "5e-324", "1.7976931348623157e+308"};
    const char *name = "'; DROP TABLE fedgate.metric; --\t\\N\n\"\\";
    OWNED(Spool, spool_close) *spool = spool_open(fixture_home, run, fixture_version, 1000, &error);
    for (size_t i = 0; i < 6; i++) {
        OWNED(Json, json_free) *row = json_make_object();
        json_put_text(row, "model", name);
        json_put_text(row, "metric", "auc");
        json_put_number(row, "value", figures[i]);
        json_put_text(row, "unknown_key", name);
        ASSERT_OK(spool_append(spool, TELEMETRY_METRIC, row, &error), &error);
    }
    OWNED(Telemetry, telemetry_close) *telemetry = writer("", "values");
    ck_assert(ship(telemetry, run).complete);
    OWNED(Client, client_close) *client = fixture_client("fedgate", "fedgate");
    for (size_t i = 0; i < 6; i++) {
        ck_assert(text_print(sql, sizeof(sql),
                             "SELECT value FROM fedgate.metric WHERE run = '%s' AND seq = %zu", run, i + 1));
        ck_assert_str_eq(fixture_ask(client, sql), texts[i]);
    }
    ck_assert(
        text_print(sql, sizeof(sql), "SELECT model FROM fedgate.metric WHERE run = '%s' AND seq = 1", run));
    ck_assert_str_eq(fixture_ask(client, sql), name);
    ck_assert(text_print(sql, sizeof(sql),
                         "SELECT rest ->> 'unknown_key' FROM fedgate.metric WHERE run = '%s' AND seq = 1",
                         run));
    ck_assert_str_eq(fixture_ask(client, sql), name);
}
END_TEST

START_TEST(a_value_that_does_not_fit_its_column_is_an_error_that_names_the_kind)
{
    Error error = ERROR_INIT;
    ShipResult result;
    char run[UUID_SIZE];
    fixture_run_id(run);
    OWNED(Spool, spool_close) *spool = spool_open(fixture_home, run, fixture_version, 1000, &error);
    OWNED(Json, json_free) *row = json_make_object();
    json_put_text(row, "name", "overlap");
    json_put_bool(row, "required", true);
    json_put_text(row, "outcome", _i == 0 ? "perhaps" : "pass");
    json_put_text(row, "value", _i == 0 ? "nan" : "many");
    ASSERT_OK(spool_append(spool, TELEMETRY_CHECK, row, &error), &error);
    OWNED(Telemetry, telemetry_close) *telemetry = writer("", "misfit");
    ASSERT_FAILS(telemetry_ship(telemetry, fixture_home, run, &result, &error), &error, ERROR_DATA,
                 "kind 'check_result'");
}
END_TEST

// -- one home for a model

START_TEST(a_second_home_for_one_model_is_refused)
{
    Error error = ERROR_INIT;
    telemetry_close(writer("", "single"));
    OWNED(Telemetry, telemetry_close) *other = fixture_connect("");
    ASSERT_FAILS(telemetry_register_home(other, "single", "another home", &error), &error, ERROR_INCONSISTENT,
                 home_id);
    ASSERT_OK(telemetry_register_home(other, "single", home_id, &error), &error);
    ck_assert_int_eq(other->epoch, 2);
}
END_TEST

START_TEST(while_one_process_serves_a_model_the_next_one_is_told_who)
{
    Error error = ERROR_INIT;
    OWNED(Telemetry, telemetry_close) *first = writer("", "busy");
    OWNED(Config, config_free) *config = fixture_config("", "1s");
    OWNED(Telemetry, telemetry_close) *second = telemetry_connect(config, fixture_home, clock_real(), &error);
    ck_assert_ptr_nonnull(second);
    ASSERT_FAILS(telemetry_register_home(second, "busy", home_id, &error), &error, ERROR_BUSY,
                 first->application);
}
END_TEST

// -- the copy of the pointer records

static Json *records_of(int count, int64_t odd_seq)
{
    Json *records = json_make_array();
    char digest[65], previous[65];
    memset(previous, '0', 64);
    previous[64] = '\0';
    for (int64_t seq = 1; seq <= count; seq++) {
        Json *record = json_make_object();
        ck_assert(
            text_print(digest, sizeof(digest), "%064llx", (unsigned long long)(seq * 11 + (seq == odd_seq))));
        json_put_integer(record, "seq", seq);
        json_put_integer(record, "previous", seq - 1);
        json_put_text(record, "previous_digest", previous);
        json_put_text(record, "decision", digest);
        json_put_text(record, "kind", seq == 1 ? "adopt" : "promote");
        json_put_text(record, "from", seq == 1 ? "" : fixture_version);
        json_put_text(record, "to", fixture_version);
        json_put_text(record, "to_kind", "release");
        json_put_integer(record, "actor_uid", 1000);
        json_put_text(record, "time", "2026-11-30T04:00:00.000+01:00");
        json_put_text(record, "record_digest", digest);
        json_add(records, record);
        memcpy(previous, digest, sizeof(previous));
    }
    return records;
}

START_TEST(pointer_records_are_copied_once_and_told_back)
{
    Error error = ERROR_INIT;
    OWNED(Telemetry, telemetry_close) *telemetry = writer("", "copied");
    OWNED(Json, json_free) *two = records_of(2, 0);
    OWNED(Json, json_free) *three = records_of(3, 0);
    OWNED(Json, json_free) *copies = NULL;
    ASSERT_OK(telemetry_mirror_decisions(telemetry, "copied", two, &error), &error);
    ASSERT_OK(telemetry_mirror_decisions(telemetry, "copied", three, &error), &error);
    ASSERT_OK(telemetry_mirror_decisions(telemetry, "copied", three, &error), &error);
    ASSERT_OK(telemetry_decisions(telemetry, "copied", &copies, &error), &error);
    ck_assert_uint_eq(json_count(copies), 3);
    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(json_integer_or(json_get(json_at(copies, i), "seq"), 0), (int64_t)i + 1);
        ck_assert_str_eq(json_text_or(json_get(json_at(copies, i), "record_digest"), "a"),
                         json_text_or(json_get(json_at(three, i), "record_digest"), "b"));
    }
}
END_TEST

START_TEST(records_that_differ_or_are_missing_in_the_home_are_inconsistent_and_nothing_is_written)
{
    Error error = ERROR_INIT;
    OWNED(Telemetry, telemetry_close) *telemetry = writer("", "odd");
    OWNED(Json, json_free) *two = records_of(2, 0);
    OWNED(Json, json_free) *odd = records_of(4, 2);
    OWNED(Json, json_free) *broken = records_of(4, 3);
    OWNED(Json, json_free) *one = records_of(1, 0);
    ASSERT_OK(telemetry_mirror_decisions(telemetry, "odd", two, &error), &error);
    ASSERT_FAILS(telemetry_mirror_decisions(telemetry, "odd", odd, &error), &error, ERROR_INCONSISTENT,
                 "pointer record 2 differs");
    ASSERT_FAILS(telemetry_mirror_decisions(telemetry, "odd", one, &error), &error, ERROR_INCONSISTENT,
                 "has pointer record 2");
    json_put_text((Json *)json_at(broken, 2), "previous_digest", "of something else");
    ASSERT_FAILS(telemetry_mirror_decisions(telemetry, "odd", broken, &error), &error, ERROR_INCONSISTENT,
                 "does not continue");
    ck_assert_int_eq(stored_decisions("odd"), 2);
}
END_TEST

static const char *const changes[] = {
    "UPDATE fedgate.decision SET reason = 'better'",
    "DELETE FROM fedgate.decision",
    "TRUNCATE fedgate.decision",
    "INSERT INTO fedgate.decision SELECT * FROM fedgate.decision",
};

START_TEST(copied_records_are_never_changed)
{
    Error error = ERROR_INIT;
    OWNED(Telemetry, telemetry_close) *telemetry = writer("", "kept");
    OWNED(Json, json_free) *one = records_of(1, 0);
    ASSERT_OK(telemetry_mirror_decisions(telemetry, "kept", one, &error), &error);
    OWNED(Client, client_close) *client = fixture_client("fedgate", "postgres");
    ck_assert(!client_query(client, changes[_i], NULL, 0, NULL, &error));
    ck_assert_str_eq(client_state(client), _i == 3 ? "23505" : "FG002");
    ck_assert_int_eq(stored_decisions("kept"), 1);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("telemetry_ship");
    TCase *rows = tcase_create("rows");
    tcase_add_unchecked_fixture(rows, fixture_begin, fixture_end);
    tcase_add_test(rows, rows_arrive_once_however_often_they_are_shipped);
    tcase_add_loop_test(rows, a_link_cut_inside_commit_loses_and_doubles_nothing, 0, 4);
    tcase_add_test(rows, a_backend_that_is_terminated_is_replaced);
    tcase_add_test(rows, a_shipper_that_was_overtaken_writes_nothing);
    tcase_add_test(rows, rows_deleted_from_the_database_are_filled_up_again);
    tcase_add_test(rows, a_position_that_was_lost_is_found_again_without_doubling_rows);
    tcase_add_test(rows, a_serialization_failure_is_tried_again);
    tcase_add_test(rows, a_torn_tail_is_cut_reported_and_not_complete_the_first_time);
    tcase_add_test(rows, figures_that_are_no_numbers_and_names_that_look_like_sql_arrive_as_they_are);
    tcase_add_test(rows, a_second_home_for_one_model_is_refused);
    tcase_add_test(rows, while_one_process_serves_a_model_the_next_one_is_told_who);
    tcase_add_test(rows, pointer_records_are_copied_once_and_told_back);
    tcase_add_test(rows,
                   records_that_differ_or_are_missing_in_the_home_are_inconsistent_and_nothing_is_written);
    tcase_add_loop_test(rows, copied_records_are_never_changed, 0, sizeof(changes) / sizeof(changes[0]));
    tcase_add_test(rows, all_spools_left_behind_are_shipped_and_an_odd_one_keeps_none);
    tcase_add_test(rows, a_row_that_differs_in_the_database_is_named);
    tcase_add_test(rows, a_spool_from_an_old_backup_or_with_other_rows_is_refused);
    tcase_add_loop_test(rows, a_value_that_does_not_fit_its_column_is_an_error_that_names_the_kind, 0, 2);
    suite_add_tcase(s, rows);
    return s;
}

int main(void)
{
    if (!fixture_possible("telemetry_ship"))
        return 0;
    SRunner *runner = srunner_create(suite());
    srunner_run_all(runner, CK_ENV);
    int bad = srunner_ntests_failed(runner);
    srunner_free(runner);
    return bad != 0;
}
