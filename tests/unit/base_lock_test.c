// base_lock_test - locks refuse at once, name their holder, and end with the process that took them.
#include "support.h"

#include <fedgate/clock.h>
#include <fedgate/file.h>
#include <fedgate/process.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const int64_t second_ns = 1000000000;
static char *folder;

static void make_folder(void)
{
    folder = support_folder_new();
}

static void remove_folder(void)
{
    support_folder_remove(folder);
}

static const char *lock_path(void)
{
    return support_path(folder, "run.lock");
}

START_TEST(a_second_holder_is_refused_within_a_second_and_told_the_first)
{
    Error error = ERROR_INIT;
    FileLock *first = file_lock_try(lock_path(), "run 0192 of account nightly\x1b", &error);
    ck_assert_ptr_nonnull(first);
    int64_t begin = clock_monotonic_ns(clock_real());
    ASSERT_FAILS(file_lock_try(lock_path(), "other", &error) != NULL, &error, ERROR_BUSY,
                 "held by run 0192 of account nightly\\x1b");
    ck_assert_int_lt(clock_monotonic_ns(clock_real()) - begin, second_ns);
    file_lock_release(first);
    FileLock *second = file_lock_try(lock_path(), "other", &error);
    ck_assert_ptr_nonnull(second);
    file_lock_release(second);
    file_lock_release(NULL);
    ck_assert(file_exists(lock_path()));   // never unlinked
}
END_TEST

START_TEST(looking_does_not_disturb)
{
    Error error = ERROR_INIT;
    bool held = true;
    char holder[64];
    ASSERT_OK(file_lock_look(lock_path(), &held, holder, sizeof holder, &error), &error);
    ck_assert(!held);
    ck_assert(!file_exists(lock_path()));
    OWNED(FileLock, file_lock_release) *lock = file_lock_try(lock_path(), "me", &error);
    ASSERT_OK(file_lock_look(lock_path(), &held, holder, sizeof holder, &error), &error);
    ck_assert(held);
    ck_assert_str_eq(holder, "me");
    struct stat status;
    ck_assert_int_eq(stat(lock_path(), &status), 0);
    ck_assert_uint_eq(status.st_mode & 0777, 0660);
}
END_TEST

START_TEST(a_lock_is_never_taken_through_a_link_or_on_anything_but_a_file)
{
    Error error = ERROR_INIT;
    support_write(support_path(folder, "victim"), "kept");
    ck_assert_int_eq(symlink("victim", lock_path()), 0);
    ASSERT_FAILS(file_lock_try(lock_path(), "me", &error) != NULL, &error, ERROR_IO,
                 "could not open lock file");
    bool held;
    char holder[8];
    ASSERT_FAILS(file_lock_look(lock_path(), &held, holder, sizeof holder, &error), &error, ERROR_IO,
                 "run.lock");
    ck_assert_int_eq(unlink(lock_path()), 0);
    ck_assert_int_eq(mkfifo(lock_path(), 0600), 0);   // looking does not wait for somebody to write into it
    ASSERT_FAILS(file_lock_look(lock_path(), &held, holder, sizeof holder, &error), &error, ERROR_IO,
                 "not a regular file");
    ASSERT_FAILS(file_lock_try(lock_path(), "me", &error) != NULL, &error, ERROR_IO, "not a regular file");
    struct stat status;
    ck_assert_int_eq(stat(lock_path(), &status), 0);
    ck_assert_uint_eq(status.st_mode & 0777, 0600);   // left as it was
}
END_TEST

// Takes the lock, says so, and holds it until killed.
static int hold_lock(void *context, int report_fd)
{
    Error error = ERROR_INIT;
    FileLock *lock = file_lock_try(context, "child", &error);
    if (!lock || !file_write_all(report_fd, "held\n", 5, &error))
        return 1;
    clock_sleep_ns(clock_real(), 60 * second_ns);
    return 0;
}

START_TEST(a_killed_holder_leaves_the_lock_free)
{
    Error error = ERROR_INIT;
    char path[FILE_PATH_SIZE], line[16];
    ck_assert(text_copy(path, sizeof path, lock_path()));
    Process *child = process_fork(hold_lock, path, &error);
    ck_assert_ptr_nonnull(child);
    ck_assert_int_eq(process_read_line(child, line, sizeof line, 20 * second_ns, &error), 1);
    ASSERT_FAILS(file_lock_try(path, "me", &error) != NULL, &error, ERROR_BUSY, "held by child");
    ck_assert_ptr_null(file_lock_wait(path, "me", second_ns / 10, &error));
    error_clear(&error);
    process_free(child);   // SIGKILL
    FileLock *lock = file_lock_wait(path, "me", 10 * second_ns, &error);
    ck_assert_msg(lock != NULL, "%s", error.message);
    file_lock_release(lock);
}
END_TEST

typedef struct Inherited {
    FileLock *lock;
    const char *path;
} Inherited;

// Releases what it inherited, asks whether the parent still holds it, then stays alive with the report pipe
// open.
static int release_inherited(void *context, int report_fd)
{
    Inherited *inherited = context;
    Error error = ERROR_INIT;
    bool held = false;
    char holder[64];
    file_lock_release(inherited->lock);
    bool ok = file_lock_look(inherited->path, &held, holder, sizeof holder, &error) && held;
    if (!file_write_all(report_fd, ok ? "held\n" : "lost\n", 5, &error))
        return 1;
    clock_sleep_ns(clock_real(), 60 * second_ns);
    return 0;
}

START_TEST(a_child_neither_frees_nor_keeps_its_parents_lock)
{
    Error error = ERROR_INIT;
    char path[FILE_PATH_SIZE], line[16];
    ck_assert(text_copy(path, sizeof path, lock_path()));
    Inherited inherited = {file_lock_try(path, "parent", &error), path};
    ck_assert_ptr_nonnull(inherited.lock);
    Process *child = process_fork(release_inherited, &inherited, &error);
    ck_assert_ptr_nonnull(child);
    ck_assert_int_eq(process_read_line(child, line, sizeof line, 20 * second_ns, &error), 1);
    ck_assert_str_eq(line, "held");
    file_lock_release(inherited.lock);
    FileLock *again = file_lock_try(path, "next", &error);   // although the child lives on
    ck_assert_msg(again != NULL, "%s", error.message);
    file_lock_release(again);
    process_free(child);
}
END_TEST

// A night that is killed: its child must not hold the lock against the next night.
static int die_holding(void *context, int report_fd)
{
    Error error = ERROR_INIT;
    char line[16];
    FileLock *lock = file_lock_try(context, "night", &error);
    Inherited inherited = {lock, context};
    Process *grandchild = lock ? process_fork(release_inherited, &inherited, &error) : NULL;
    if (!grandchild || process_read_line(grandchild, line, sizeof line, 20 * second_ns, &error) != 1)
        return 1;
    char report[64];
    if (!text_print(report, sizeof report, "%ld\n", (long)process_id(grandchild)) ||
        !file_write_all(report_fd, report, strlen(report), &error))
        return 1;
    clock_sleep_ns(clock_real(), 60 * second_ns);
    return 0;
}

START_TEST(a_killed_night_takes_its_child_and_its_lock_with_it)
{
    Error error = ERROR_INIT;
    char path[FILE_PATH_SIZE], line[64];
    int64_t grandchild = 0;
    ck_assert(text_copy(path, sizeof path, lock_path()));
    Process *night = process_fork(die_holding, path, &error);
    ck_assert_ptr_nonnull(night);
    ck_assert_int_eq(process_read_line(night, line, sizeof line, 20 * second_ns, &error), 1);
    ck_assert(text_to_int64(line, &grandchild));
    process_free(night);
    FileLock *lock = file_lock_try(path, "next", &error);
    ck_assert_msg(lock != NULL, "%s", error.message);
    file_lock_release(lock);
    ck_assert(support_process_ends(grandchild));
}
END_TEST

static Suite *suite(void)
{
    Suite *made = suite_create("base lock");
    TCase *locks = tcase_create("lock");
    tcase_add_checked_fixture(locks, make_folder, remove_folder);
    tcase_add_test(locks, a_second_holder_is_refused_within_a_second_and_told_the_first);
    tcase_add_test(locks, looking_does_not_disturb);
    tcase_add_test(locks, a_lock_is_never_taken_through_a_link_or_on_anything_but_a_file);
    tcase_add_test(locks, a_killed_holder_leaves_the_lock_free);
    tcase_add_test(locks, a_child_neither_frees_nor_keeps_its_parents_lock);
    tcase_add_test(locks, a_killed_night_takes_its_child_and_its_lock_with_it);
    suite_add_tcase(made, locks);
    return made;
}

int main(void)
{
    SRunner *runner = srunner_create(suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
