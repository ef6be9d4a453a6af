// base_file_test - files old or new, never between; trees; links.
#include "support.h"

#include <fcntl.h>
#include <fedgate/file.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char *folder;

static void make_folder(void)
{
    folder = support_folder_new();
}

static void remove_folder(void)
{
    support_folder_remove(folder);
}

static const char *in(const char *name)
{
    return support_path(folder, name);
}

static void assert_content(const char *name, const char *expected)
{
    SCOPED_TEXT text;
    text_init(&text, 1 << 20);
    ck_assert_str_eq(support_read(in(name), &text), expected);
}

static void assert_names(const char *directory, const char *expected)
{
    Error error = ERROR_INIT;
    FileList list;
    SCOPED_TEXT text;
    text_init(&text, 4096);
    ASSERT_OK(file_list(directory, &list, &error), &error);
    for (size_t i = 0; i < list.count; i++)
        text_add_format(&text, "%s%s", i > 0 ? " " : "", list.names[i]);
    file_list_done(&list);
    ck_assert_str_eq(text_string(&text), expected);
}

static mode_t mode_of(const char *name)
{
    struct stat status;
    ck_assert_int_eq(stat(in(name), &status), 0);
    return status.st_mode & 07777;
}

START_TEST(paths_are_joined_within_their_limit)
{
    char path[FILE_PATH_SIZE];
    Error error = ERROR_INIT;
    ASSERT_OK(file_join(path, "a", "b/c", &error), &error);
    ck_assert_str_eq(path, "a/b/c");
    ASSERT_OK(file_join(path, "/", "b", &error), &error);
    ck_assert_str_eq(path, "/b");
    ASSERT_OK(file_join(path, "a", "/abs", &error), &error);
    ck_assert_str_eq(path, "/abs");
    ASSERT_OK(file_join(path, path, "x", &error), &error);   // the result may be the directory itself
    ck_assert_str_eq(path, "/abs/x");
    char *longest = malloc(FILE_PATH_SIZE);
    memset(longest, 'n', FILE_PATH_SIZE - 1);
    longest[FILE_PATH_SIZE - 1] = '\0';
    ASSERT_FAILS(file_join(path, "a", longest, &error), &error, ERROR_USAGE, "longer than 4095 bytes");
    ck_assert_str_eq(path, "/abs/x");
    ASSERT_FAILS(file_write_new(longest, "", 0, 0600, &error), &error, ERROR_IO, "could not create");
    free(longest);
}
END_TEST

START_TEST(an_atomic_write_replaces_and_leaves_nothing_beside)
{
    Error error = ERROR_INIT;
    umask(077);
    ASSERT_OK(file_write_atomic(in("f"), "old", 3, 0640, &error), &error);
    ASSERT_OK(file_write_atomic(in("f"), "newer", 5, 0660, &error), &error);
    assert_content("f", "newer");
    ck_assert_uint_eq(mode_of("f"), 0660);   // whatever the umask is
    assert_names(folder, "f");
    uint64_t bytes = 0;
    ASSERT_OK(file_size(in("f"), &bytes, &error), &error);
    ck_assert_uint_eq(bytes, 5);
}
END_TEST

START_TEST(a_failed_atomic_write_keeps_the_old_file_and_no_temporary)
{
    Error error = ERROR_INIT;
    ck_assert_int_eq(mkdir(in("d"), 0755), 0);
    support_write(in("d/x"), "kept");
    ASSERT_FAILS(file_write_atomic(in("d"), "new", 3, 0640, &error), &error, ERROR_IO, "could not rename");
    assert_names(folder, "d");
    ASSERT_FAILS(file_write_atomic(in("none/f"), "new", 3, 0640, &error), &error, ERROR_IO,
                 "could not create");
}
END_TEST

START_TEST(a_temporary_left_by_a_killed_process_of_our_number_is_in_nobodys_way)
{
    Error error = ERROR_INIT;
    char name[64];
    enum { LEFT = 50 };   // more than this process has written so far; not through our own calls, which count
    for (int i = 0; i < LEFT; i++) {
        ck_assert(text_print(name, sizeof name, ".tmp-f-%ld-%d", (long)getpid(), i));
        int fd = open(in(name), O_WRONLY | O_CREAT | O_EXCL, 0600);
        ck_assert_int_ge(fd, 0);
        close(fd);
    }
    ASSERT_OK(file_write_atomic(in("f"), "new", 3, 0640, &error), &error);
    ASSERT_OK(file_link_replace(in("f"), "target", &error), &error);
    FileList list;
    ASSERT_OK(file_list(folder, &list, &error), &error);
    ck_assert_uint_eq(list.count,
                      LEFT + 1);   // left alone: recovery removes them, knowing that nobody writes
    file_list_done(&list);
}
END_TEST

START_TEST(new_files_and_names_never_replace)
{
    Error error = ERROR_INIT;
    ASSERT_OK(file_write_new(in("a"), "1", 1, 0600, &error), &error);
    ASSERT_FAILS(file_write_new(in("a"), "2", 1, 0600, &error), &error, ERROR_CONFLICT, "exists already");
    assert_content("a", "1");
    ASSERT_OK(file_copy_new(in("a"), in("b"), 0644, &error), &error);
    ASSERT_FAILS(file_copy_new(in("a"), in("b"), 0644, &error), &error, ERROR_CONFLICT, "exists already");
    ASSERT_FAILS(file_copy_new(folder, in("q"), 0644, &error), &error, ERROR_IO, "not a regular file");
    ASSERT_FAILS(file_rename_new(in("a"), in("b"), &error), &error, ERROR_CONFLICT, "exists already");
    ASSERT_OK(file_rename_new(in("a"), in("c"), &error), &error);
    assert_names(folder, "b c");
    ASSERT_FAILS(file_rename_new(in("a"), in("d"), &error), &error, ERROR_IO, "could not rename");
    ASSERT_OK(file_rename_over(in("c"), in("b"), &error), &error);
    assert_names(folder, "b");
}
END_TEST

START_TEST(a_directory_is_renamed_only_to_a_free_name)
{
    Error error = ERROR_INIT;
    ASSERT_OK(file_make_directory(in("one"), 0750, &error), &error);
    ASSERT_OK(file_make_directory(in("two"), 0750, &error), &error);   // empty: plain rename would replace it
    ASSERT_FAILS(file_rename_new(in("one"), in("two"), &error), &error, ERROR_CONFLICT, "exists already");
    ASSERT_OK(file_rename_new(in("one"), in("three"), &error), &error);
    assert_names(folder, "three two");
}
END_TEST

START_TEST(writers_do_not_follow_links)
{
    Error error = ERROR_INIT;
    support_write(in("target"), "safe");
    ck_assert_int_eq(symlink("target", in("link")), 0);
    ASSERT_FAILS(file_write_new(in("link"), "x", 1, 0600, &error), &error, ERROR_CONFLICT, "exists already");
    ASSERT_OK(file_write_atomic(in("link"), "own", 3, 0600, &error), &error);   // replaces the link itself
    assert_content("target", "safe");
    assert_content("link", "own");
}
END_TEST

START_TEST(a_link_moves_in_one_step)
{
    Error error = ERROR_INIT;
    char target[64];
    ASSERT_OK(file_link_replace(in("current"), "pointers/1", &error), &error);
    ASSERT_OK(file_link_replace(in("current"), "pointers/2", &error), &error);
    ASSERT_OK(file_link_read(in("current"), target, sizeof target, &error), &error);
    ck_assert_str_eq(target, "pointers/2");
    assert_names(folder, "current");
    ASSERT_FAILS(file_link_read(in("current"), target, 5, &error), &error, ERROR_DATA, "longer than 4 bytes");
    ASSERT_FAILS(file_link_read(in("none"), target, 5, &error), &error, ERROR_IO, "could not read link");
    ck_assert(!file_exists(in("current")));   // dangling
    ASSERT_FAILS(file_link_replace(in("none/current"), "x", &error), &error, ERROR_IO,
                 "could not create link");
}
END_TEST

START_TEST(reading_is_bounded_and_takes_only_regular_files)
{
    Error error = ERROR_INIT;
    support_write(in("f"), "12345");
    SCOPED_TEXT text;
    text_init(&text, 5);
    ASSERT_OK(file_read(in("f"), &text, &error), &error);
    text_done(&text);
    text_init(&text, 4);
    ASSERT_FAILS(file_read(in("f"), &text, &error), &error, ERROR_DATA, "limit of 4 bytes");
    ASSERT_FAILS(file_read(folder, &text, &error), &error, ERROR_IO, "not a regular file");
    ck_assert_int_eq(mkfifo(in("pipe"), 0600), 0);
    ASSERT_FAILS(file_read(in("pipe"), &text, &error), &error, ERROR_IO, "not a regular file");
    ASSERT_FAILS(file_read(in("none"), &text, &error), &error, ERROR_IO, "No such file");
    uint64_t bytes;
    ASSERT_FAILS(file_size(in("none"), &bytes, &error), &error, ERROR_IO, "No such file");
}
END_TEST

START_TEST(a_short_file_is_bad_data)
{
    Error error = ERROR_INIT;
    char bytes[8];
    support_write(in("f"), "12345");
    int fd = open(in("f"), O_RDONLY);
    ASSERT_OK(file_pread_all(fd, bytes, 2, 3, &error), &error);
    ck_assert_int_eq(memcmp(bytes, "45", 2), 0);
    ASSERT_FAILS(file_pread_all(fd, bytes, 4, 3, &error), &error, ERROR_DATA, "file ends at byte 5");
    close(fd);
    ASSERT_FAILS(file_pread_all(-1, bytes, 4, 3, &error), &error, ERROR_IO, "could not read");
    ASSERT_FAILS(file_write_all(-1, bytes, 4, &error), &error, ERROR_IO, "could not write 4 bytes");
    fd = open("/dev/full", O_WRONLY);
    if (fd >= 0) {
        ASSERT_FAILS(file_write_all(fd, bytes, 4, &error), &error, ERROR_IO, "No space left");
        close(fd);
    }
}
END_TEST

START_TEST(trees_are_made_listed_synced_and_removed)
{
    Error error = ERROR_INIT;
    umask(077);
    ASSERT_OK(file_make_directories(in("a/b/c"), 0750, &error), &error);
    ASSERT_OK(file_make_directories(in("a/b/c"), 0750, &error), &error);
    ASSERT_OK(file_make_directory(in("g"), 02770, &error), &error);
    ck_assert_uint_eq(mode_of("a/b"), 0750);
    ck_assert_uint_eq(mode_of("g"), 02770);
    ASSERT_OK(file_make_directory(in("g/inner"), 0750, &error), &error);
    ck_assert_uint_eq(mode_of("g/inner") & 0777, 0750);
    support_write(in("a/b/f"), "x");
    support_write(in("outside"), "safe");
    ck_assert_int_eq(symlink("../outside", in("a/link")), 0);
    ck_assert_int_eq(symlink("..", in("a/up")), 0);
    ASSERT_OK(file_sync_tree(in("a"), &error), &error);
    assert_names(in("a"), "b link up");
    ASSERT_OK(file_remove_tree(in("a"), &error), &error);
    ASSERT_OK(file_remove_tree(in("a"), &error), &error);
    assert_content("outside", "safe");
    assert_names(folder, "g outside");
    ASSERT_OK(file_remove(in("outside"), &error), &error);
    ASSERT_OK(file_remove(in("outside"), &error), &error);
    ASSERT_FAILS(file_remove(in("g"), &error), &error, ERROR_IO, "could not remove");
}
END_TEST

START_TEST(directories_in_the_way_are_named)
{
    Error error = ERROR_INIT;
    FileList list;
    support_write(in("f"), "x");
    ASSERT_FAILS(file_make_directory(in("f"), 0750, &error), &error, ERROR_IO, "/f'");
    ASSERT_FAILS(file_make_directories(in("f/g"), 0750, &error), &error, ERROR_IO, "/f'");
    ASSERT_FAILS(file_list(in("f"), &list, &error), &error, ERROR_IO, "could not open directory");
    ASSERT_FAILS(file_sync_directory(in("none"), &error), &error, ERROR_IO, "could not open directory");
    ASSERT_FAILS(file_sync_tree(in("none"), &error), &error, ERROR_IO, "tree '");
    ck_assert(file_is_directory(folder) && !file_is_directory(in("f")) && file_exists(in("f")));
}
END_TEST

START_TEST(a_tree_deeper_than_64_levels_is_refused_and_not_half_walked)
{
    Error error = ERROR_INIT;
    SCOPED_TEXT path;
    text_init(&path, 1000);
    text_add(&path, "deep");
    for (int i = 0; i < 70; i++)
        text_add(&path, "/d");
    ASSERT_OK(file_make_directories(in(text_string(&path)), 0750, &error), &error);
    ASSERT_FAILS(file_sync_tree(in("deep"), &error), &error, ERROR_DATA, "deeper than 64 levels");
    // Peeled from below, so that the folder can be removed.
    while (path.length > 4) {
        ck_assert_int_eq(rmdir(in(text_string(&path))), 0);
        path.data[path.length -= 2] = '\0';
    }
}
END_TEST

START_TEST(a_temporary_file_has_no_name)
{
    Error error = ERROR_INIT;
    int fd = -1;
    ASSERT_OK(file_temporary(folder, &fd, &error), &error);
    ASSERT_OK(file_write_all(fd, "x", 1, &error), &error);
    ck_assert_int_ne(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
    assert_names(folder, "");
    close(fd);
    ASSERT_FAILS(file_temporary(in("none"), &fd, &error), &error, ERROR_IO, "temporary file");
}
END_TEST

#ifdef FEDGATE_FAULTS
#include <fedgate/fault.h>

// Every step of an atomic write is made to fail once: the file is old or new, and an error is said.
START_TEST(whatever_fails_the_file_is_old_or_new)
{
    static const char *const points[] = {"file.open.fail=1", "file.write.fail=1", "file.sync.fail=1",
                                         "file.sync.fail=2", "file.rename.fail=1", "file.link.fail=1"};
    Error error = ERROR_INIT;
    int fd = open(in("f"), O_WRONLY | O_CREAT, 0600);   // not through our own calls, which are counted
    ck_assert_int_eq((int)write(fd, "old", 3), 3);
    close(fd);
    setenv("FEDGATE_FAULT", points[_i], 1);
    bool link = strstr(points[_i], "link") != NULL;
    bool ok =
        link ? file_link_replace(in("l"), "f", &error) : file_write_atomic(in("f"), "new", 3, 0640, &error);
    ck_assert_msg(!ok && error.kind == ERROR_IO, "%s never fired", points[_i]);
    unsetenv("FEDGATE_FAULT");
    SCOPED_TEXT text;
    text_init(&text, 100);
    support_read(in("f"), &text);
    ck_assert(text_equal(text_string(&text), "old") || text_equal(text_string(&text), "new"));
    FileList list;
    ASSERT_OK((error_clear(&error), file_list(folder, &list, &error)), &error);
    for (size_t i = 0; i < list.count; i++)
        ck_assert_msg(!text_starts_with(list.names[i], ".tmp-"), "%s left behind", list.names[i]);
    file_list_done(&list);
}
END_TEST

START_TEST(a_misspelt_fault_is_refused_with_the_nearest_name)
{
    Error error = ERROR_INIT;
    setenv("FEDGATE_FAULT", "copy.pageable=1,train.nan_step=20", 1);
    ASSERT_OK(fault_check(&error), &error);
    ck_assert(fault_set("copy.pageable") && !fault_set("copy.serial"));
    ck_assert_double_eq(fault_value("train.nan_step", 0), 20);
    ck_assert_double_eq(fault_value("copy.slow_ns", 7), 7);
    setenv("FEDGATE_FAULT", "copy.pagable=1", 1);
    ck_assert(!fault_check(&error));
    ck_assert_str_eq(error.hint, "Did you mean 'copy.pageable'?");
    error_clear(&error);
    setenv("FEDGATE_FAULT", "copy.pageable", 1);
    ASSERT_FAILS(fault_check(&error), &error, ERROR_CONFIG, "name=number");
    setenv("FEDGATE_FAULT", "copy.pageable=yes", 1);
    ASSERT_FAILS(fault_check(&error), &error, ERROR_CONFIG, "name=number");
    unsetenv("FEDGATE_FAULT");
    ASSERT_OK(fault_check(&error), &error);
}
END_TEST

START_TEST(a_fault_without_a_row_is_a_bug)
{
    fault_set("no.such_fault");
}
END_TEST
#endif

static Suite *suite(void)
{
    Suite *made = suite_create("base file");
    TCase *files = tcase_create("file");
    tcase_add_checked_fixture(files, make_folder, remove_folder);
    tcase_add_test(files, paths_are_joined_within_their_limit);
    tcase_add_test(files, an_atomic_write_replaces_and_leaves_nothing_beside);
    tcase_add_test(files, a_failed_atomic_write_keeps_the_old_file_and_no_temporary);
    tcase_add_test(files, a_temporary_left_by_a_killed_process_of_our_number_is_in_nobodys_way);
    tcase_add_test(files, new_files_and_names_never_replace);
    tcase_add_test(files, a_directory_is_renamed_only_to_a_free_name);
    tcase_add_test(files, writers_do_not_follow_links);
    tcase_add_test(files, a_link_moves_in_one_step);
    tcase_add_test(files, reading_is_bounded_and_takes_only_regular_files);
    tcase_add_test(files, a_short_file_is_bad_data);
    tcase_add_test(files, trees_are_made_listed_synced_and_removed);
    tcase_add_test(files, directories_in_the_way_are_named);
    tcase_add_test(files, a_tree_deeper_than_64_levels_is_refused_and_not_half_walked);
    tcase_add_test(files, a_temporary_file_has_no_name);
#ifdef FEDGATE_FAULTS
    tcase_add_loop_test(files, whatever_fails_the_file_is_old_or_new, 0, 6);
    TCase *faults = tcase_create("fault");   // no folder to leave behind
    tcase_add_test(faults, a_misspelt_fault_is_refused_with_the_nearest_name);
    tcase_add_test_raise_signal(faults, a_fault_without_a_row_is_a_bug, 6);
    suite_add_tcase(made, faults);
#endif
    suite_add_tcase(made, files);
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
