// telemetry_cluster_test - the private server: made once, adopted, stopped by the last one out, and every way
// it cannot run.
#include "telemetry_fixture.h"

#include <sys/stat.h>

static char *own_home;   // with a private cluster that nothing keeps running between the tests

static Telemetry *connect_own(Error *error)
{
    OWNED(Config, config_free) *config = fixture_config("", "20s");
    return telemetry_connect(config, own_home, clock_real(), error);
}

static void own_begin(void)
{
    Error error = ERROR_INIT;
    own_home = support_folder_new();
    OWNED(Config, config_free) *config = fixture_config("", "20s");
    ASSERT_OK(telemetry_create(config, own_home, clock_real(), &error), &error);
}

static void own_end(void)
{
    support_folder_remove(own_home);
}

static bool own_runs(void)
{
    return file_exists(support_path(own_home, "pg/data/postmaster.pid"));
}

START_TEST(the_last_one_out_stops_the_server)
{
    Error error = ERROR_INIT;
    ck_assert(!own_runs());   // making the home left none running
    Telemetry *first = connect_own(&error);
    ck_assert_msg(first != NULL, "%s", error.message);
    ck_assert(cluster_started(first->cluster));
    Telemetry *second = connect_own(&error);
    ck_assert_msg(second != NULL, "%s", error.message);
    ck_assert(!cluster_started(second->cluster));
    telemetry_close(first);
    ck_assert(own_runs());
    ck_assert_str_eq(
        fixture_ask(second->client, "SELECT current_setting('data_checksums') || current_setting('fsync')"),
        "onon");
    ck_assert_str_eq(
        fixture_ask(second->client, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user"), "f");
    ck_assert_str_eq(fixture_ask(second->client, "SELECT current_setting('listen_addresses')"), "");
    telemetry_close(second);
    ck_assert(!own_runs());
}
END_TEST

START_TEST(making_a_home_twice_keeps_what_is_there)
{
    Error error = ERROR_INIT;
    OWNED(Config, config_free) *config = fixture_config("", "20s");
    struct stat before, after;
    ck_assert_int_eq(stat(support_path(own_home, "pg/data"), &before), 0);
    ASSERT_OK(telemetry_create(config, own_home, clock_real(), &error), &error);
    ck_assert_int_eq(stat(support_path(own_home, "pg/data"), &after), 0);
    ck_assert_uint_eq(before.st_ino, after.st_ino);
    ck_assert(!own_runs());
}
END_TEST

START_TEST(a_server_that_a_person_started_is_left_running)
{
    Error error = ERROR_INIT;
    OWNED(Telemetry, telemetry_close) *keeper = connect_own(&error);
    ck_assert_msg(keeper != NULL, "%s", error.message);
    ASSERT_OK(file_remove(support_path(own_home, "pg/started"), &error),
              &error);   // what fedgate notes when it starts one
    pid_t server = fixture_server_id(own_home);
    telemetry_close(keeper);
    keeper = NULL;
    ck_assert(own_runs());
    ck_assert_int_eq(kill(server, SIGINT), 0);
    for (int i = 0; i < 100 && own_runs(); i++)
        clock_sleep_ns(clock_real(), 100000000);
    ck_assert(!own_runs());
}
END_TEST

START_TEST(no_descriptor_of_ours_reaches_the_server)
{
    Error error = ERROR_INIT;
    OWNED(FileLock, file_lock_release) *lock =
        file_lock_try(support_path(own_home, "run.lock"), "this test", &error);
    ck_assert_ptr_nonnull(lock);
    Telemetry *telemetry = connect_own(&error);
    ck_assert_msg(telemetry != NULL, "%s", error.message);
    file_lock_release(lock);
    lock = file_lock_try(support_path(own_home, "run.lock"), "this test again", &error);
    ck_assert_msg(lock != NULL, "%s", error.message);
    telemetry_close(telemetry);
}
END_TEST

START_TEST(a_cluster_of_another_version_is_refused_with_both_versions)
{
    Error error = ERROR_INIT;
    ServerPrograms programs;
    char words[32], content[16];
    ASSERT_OK(programs_find(0, &programs, &error), &error);
    ck_assert(text_print(words, sizeof(words), "is of %d", programs.major) &&
              text_print(content, sizeof(content), "%d\n", programs.major));
    support_write(support_path(own_home, "pg/data/PG_VERSION"), "99\n");
    Telemetry *telemetry = connect_own(&error);
    support_write(support_path(own_home, "pg/data/PG_VERSION"), content);
    ck_assert_ptr_null(telemetry);
    ck_assert_ptr_nonnull(strstr(error.message, "PostgreSQL 99"));
    ASSERT_FAILS(telemetry != NULL, &error, ERROR_CONFIG, words);
}
END_TEST

START_TEST(a_home_without_a_cluster_is_told_to_make_one)
{
    Error error = ERROR_INIT;
    char *keep = own_home;
    own_home = support_folder_new();
    ck_assert_ptr_null(connect_own(&error));
    ck_assert_ptr_nonnull(strstr(error.hint, "fedgate init"));
    ASSERT_FAILS(false, &error, ERROR_CONFIG, "has no private cluster");
    support_folder_remove(own_home);
    own_home = keep;
}
END_TEST

START_TEST(a_long_path_gets_a_short_socket_folder)
{
    Error error = ERROR_INIT;
    char *folder = support_folder_new();
    ck_assert_int_eq(chmod(folder, 0755), 0);
    char deep[FILE_PATH_SIZE];
    ASSERT_OK(file_join(deep, folder,
                        "a folder, with 'quotes' \"$(and)\" a name/that goes on and on until no socket/path "
                        "of a hundred and seven bytes can hold it",
                        &error),
              &error);
    ASSERT_OK(file_make_directories(deep, 0755, &error), &error);
    OWNED(Config, config_free) *config = fixture_config("", "20s");
    ASSERT_OK(telemetry_create(config, deep, clock_real(), &error), &error);
    Telemetry *telemetry = telemetry_connect(config, deep, clock_real(), &error);
    ck_assert_msg(telemetry != NULL, "%s", error.message);
    ck_assert(text_starts_with(telemetry_where(telemetry), "host=/tmp/fedgate-"));
    char socket[200];
    ck_assert(text_copy(socket, sizeof(socket), cluster_socket_directory(telemetry->cluster)));
    telemetry_close(telemetry);
    ASSERT_OK(file_remove_tree(socket, &error), &error);
    support_folder_remove(folder);
}
END_TEST

START_TEST(a_folder_that_the_service_account_cannot_pass_is_named)
{
    if (geteuid() != 0)
        return;   // then the server runs as ourselves
    Error error = ERROR_INIT;
    char *folder = support_folder_new();   // 0700
    char home[FILE_PATH_SIZE];
    ASSERT_OK(file_join(home, folder, "below", &error), &error);
    ASSERT_OK(file_make_directory(home, 0700, &error), &error);
    OWNED(Config, config_free) *config = fixture_config("", "20s");
    ASSERT_FAILS(telemetry_create(config, home, clock_real(), &error), &error, ERROR_CONFIG, folder);
    ck_assert(!file_exists(support_path(home, "pg")));
    support_folder_remove(folder);
}
END_TEST

static const char *const bad_accounts[] = {"root", "no-such-account-here"};

START_TEST(an_account_that_cannot_run_the_server_is_refused)
{
    if (geteuid() != 0)
        return;
    Error error = ERROR_INIT;
    char *folder = support_folder_new();
    SCOPED_TEXT setting;
    text_init(&setting, 200);
    text_add_format(&setting, "database.account=%s", bad_accounts[_i]);
    const char *sets[] = {text_string(&setting)};
    OWNED(Config, config_free) *config = config_load(NULL, sets, 1, NULL, &error);
    ck_assert_ptr_nonnull(config);
    ck_assert(!telemetry_create(config, folder, clock_real(), &error));
    ck_assert_ptr_nonnull(strstr(error.hint, "database.account"));
    ASSERT_FAILS(false, &error, ERROR_CONFIG, bad_accounts[_i]);
    support_folder_remove(folder);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("telemetry_cluster");
    TCase *own = tcase_create("own");
    tcase_add_unchecked_fixture(own, own_begin, own_end);
    tcase_add_test(own, the_last_one_out_stops_the_server);
    tcase_add_test(own, making_a_home_twice_keeps_what_is_there);
    tcase_add_test(own, a_server_that_a_person_started_is_left_running);
    tcase_add_test(own, no_descriptor_of_ours_reaches_the_server);
    tcase_add_test(own, a_cluster_of_another_version_is_refused_with_both_versions);
    tcase_add_test(own, a_home_without_a_cluster_is_told_to_make_one);
    tcase_add_test(own, a_long_path_gets_a_short_socket_folder);
    tcase_add_test(own, a_folder_that_the_service_account_cannot_pass_is_named);
    tcase_add_loop_test(own, an_account_that_cannot_run_the_server_is_refused, 0,
                        sizeof(bad_accounts) / sizeof(bad_accounts[0]));
    suite_add_tcase(s, own);
    return s;
}

int main(void)
{
    if (!fixture_possible("telemetry_cluster"))
        return 0;
    SRunner *runner = srunner_create(suite());
    srunner_run_all(runner, CK_ENV);
    int bad = srunner_ntests_failed(runner);
    srunner_free(runner);
    return bad != 0;
}
