// base_process_test - running programs, forking our own work, and knowing this process.
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <fedgate/file.h>
#include <fedgate/process.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const int64_t second_ns = 1000000000;

static ProcessResult run_shell(const char *script, ProcessSpec spec, Text *output, Text *errors)
{
    Error error = ERROR_INIT;
    ProcessResult result;
    spec.argv = (const char *const[]){"sh", "-c", script, NULL};
    spec.output = output;
    spec.errors = errors;
    if (spec.timeout_ns == 0)
        spec.timeout_ns = 60 * second_ns;
    ASSERT_OK(process_run(&spec, &result, &error), &error);
    return result;
}

static int report_lines(void *context, int report_fd)
{
    Error error = ERROR_INIT;
    const char *lines = context;
    return file_write_all(report_fd, lines, strlen(lines), &error) ? 9 : 1;
}

START_TEST(output_errors_and_exit_code_are_captured)
{
    SCOPED_TEXT output, errors;
    text_init(&output, 1000);
    text_init(&errors, 1000);
    ProcessResult result = run_shell("echo out; echo err >&2; exit 7", (ProcessSpec){0}, &output, &errors);
    ck_assert_int_eq(result.exit_code, 7);
    ck_assert_int_eq(result.signal, 0);
    ck_assert(!result.timed_out);
    ck_assert_str_eq(text_string(&output), "out\n");
    ck_assert_str_eq(text_string(&errors), "err\n");
}
END_TEST

START_TEST(both_streams_may_share_a_text_or_be_discarded)
{
    SCOPED_TEXT both;
    text_init(&both, 1000);
    ck_assert_int_eq(run_shell("echo out; echo err >&2", (ProcessSpec){0}, &both, &both).exit_code, 0);
    ck_assert_str_eq(text_string(&both), "out\nerr\n");
    ck_assert_int_eq(run_shell("echo out; echo err >&2", (ProcessSpec){0}, NULL, NULL).exit_code, 0);
    text_clear(&both);
    ck_assert_int_eq(run_shell("echo out; echo err >&2", (ProcessSpec){0}, NULL, &both).exit_code, 0);
    ck_assert_str_eq(text_string(&both), "err\n");
}
END_TEST

START_TEST(output_past_the_maximum_is_dropped_and_said)
{
    SCOPED_TEXT output;
    text_init(&output, 100000);
    ProcessResult result =
        run_shell("yes 0123456789 | head -c 300000; exit 3", (ProcessSpec){0}, &output, NULL);
    ck_assert_int_eq(result.exit_code, 3);   // it was never blocked
    ck_assert_uint_eq(output.length, 100000);
    ck_assert(output.failed);
}
END_TEST

START_TEST(a_signal_is_told_apart_from_an_exit)
{
    ProcessResult result = run_shell("kill -TERM $$", (ProcessSpec){0}, NULL, NULL);
    ck_assert_int_eq(result.exit_code, -1);
    ck_assert_int_eq(result.signal, SIGTERM);
}
END_TEST

START_TEST(a_deadline_kills_the_whole_group)
{
    char *folder = support_folder_new();
    SCOPED_TEXT output;
    text_init(&output, 1000);
    ProcessSpec spec = {.timeout_ns = second_ns / 5, .directory = folder};
    int64_t begin = clock_monotonic_ns(clock_real());
    ProcessResult result = run_shell("sleep 60 & echo $!; trap '' TERM; wait", spec, &output, NULL);
    ck_assert(result.timed_out);
    ck_assert_int_eq(result.signal, SIGKILL);
    ck_assert_int_lt(clock_monotonic_ns(clock_real()) - begin, 50 * second_ns);
    int64_t sleeper = 0;
    output.data[output.length - 1] = '\0';
    ck_assert(text_to_int64(output.data, &sleeper));
    ck_assert(support_process_ends(sleeper));
    support_folder_remove(folder);
}
END_TEST

START_TEST(a_grandchild_with_our_pipe_does_not_hold_us)
{
    SCOPED_TEXT output;
    text_init(&output, 1000);
    int64_t begin = clock_monotonic_ns(clock_real());
    ProcessResult result = run_shell("setsid sleep 30 & echo done", (ProcessSpec){0}, &output, NULL);
    ck_assert_int_eq(result.exit_code, 0);
    ck_assert_str_eq(text_string(&output), "done\n");
    ck_assert_int_lt(clock_monotonic_ns(clock_real()) - begin, 25 * second_ns);
}
END_TEST

START_TEST(a_grandchild_that_floods_our_pipe_does_not_hold_us)
{
    SCOPED_TEXT output;
    text_init(&output, 100);
    int64_t begin = clock_monotonic_ns(clock_real());
    ProcessSpec spec = {.timeout_ns = 30 * second_ns};
    ProcessResult result =
        run_shell("setsid timeout 40 yes & for i in 1 2 3 4; do echo x; done; exit 5", spec, &output, NULL);
    ck_assert_int_eq(result.exit_code, 5);
    ck_assert(!result.timed_out);
    ck_assert_int_lt(clock_monotonic_ns(clock_real()) - begin, 25 * second_ns);
}
END_TEST

START_TEST(children_are_waited_for_although_their_signal_was_ignored)
{
    Error error = ERROR_INIT;
    signal(SIGCHLD, SIG_IGN);
    ck_assert_int_eq(run_shell("exit 3", (ProcessSpec){0}, NULL, NULL).exit_code, 3);
    signal(SIGCHLD, SIG_IGN);
    OWNED(Process, process_free) *child = process_fork(report_lines, "x\n", &error);
    ProcessResult result;
    ASSERT_OK(process_wait(child, 20 * second_ns, &result, &error), &error);
    ck_assert_int_eq(result.exit_code, 9);
}
END_TEST

START_TEST(the_longest_timeout_is_no_timeout)
{
    ProcessSpec spec = {.timeout_ns = INT64_MAX};
    ck_assert_int_eq(run_shell("exit 3", spec, NULL, NULL).exit_code, 3);
}
END_TEST

START_TEST(a_program_gets_no_descriptor_of_ours_and_only_the_environment_it_is_given)
{
    SCOPED_TEXT output;
    text_init(&output, 10000);
    int extra = open("/dev/null", O_RDONLY);   // not close-on-exec
    ck_assert_int_ge(extra, 3);
    setenv("FEDGATE_TEST_SECRET", "hidden", 1);
    ProcessSpec spec = {.environment = (const char *const[]){"ONLY=this", "PATH=/usr/bin:/bin", NULL}};
    run_shell("ls /proc/self/fd | wc -l; echo $ONLY$FEDGATE_TEST_SECRET; cat; pwd", spec, &output, NULL);
    char first = text_string(&output)[0];
    ck_assert_msg(first == '4', "%s", text_string(&output));   // 0, 1, 2 and the folder ls reads
    ck_assert_ptr_nonnull(strstr(text_string(&output), "\nthis\n"));
    spec = (ProcessSpec){.directory = "/"};
    text_clear(&output);
    run_shell("pwd; echo $FEDGATE_TEST_SECRET", spec, &output, NULL);
    ck_assert_str_eq(text_string(&output), "/\nhidden\n");
    close(extra);
}
END_TEST

START_TEST(what_cannot_be_started_is_said)
{
    Error error = ERROR_INIT;
    ProcessResult result = {.exit_code = 42};
    setenv("PATH", "/usr/bin:/bin",
           1);   // a folder that may not be searched would turn "not found" into "denied"
    ProcessSpec spec = {.argv = (const char *const[]){"fedgate-no-such-program", NULL}};
    ASSERT_FAILS(process_run(&spec, &result, &error), &error, ERROR_UNAVAILABLE,
                 "could not start program 'fedgate-no-such-program': No such file");
    spec.argv = (const char *const[]){"/etc/passwd", NULL};
    ASSERT_FAILS(process_run(&spec, &result, &error), &error, ERROR_DENIED,
                 "'/etc/passwd': Permission denied");
    spec = (ProcessSpec){.argv = (const char *const[]){"true", NULL}, .directory = "/no/such/folder"};
    ASSERT_FAILS(process_run(&spec, &result, &error), &error, ERROR_UNAVAILABLE, "No such file");
    spec = (ProcessSpec){.argv = (const char *const[]){"true", NULL}, .user = "no such account"};
    ASSERT_FAILS(process_run(&spec, &result, &error), &error, ERROR_CONFIG,
                 "unknown account 'no such account'");
    ck_assert_int_eq(result.exit_code, 42);   // untouched by failure
}
END_TEST

START_TEST(an_account_is_dropped_to_with_its_groups_or_refused)
{
    Error error = ERROR_INIT;
    uid_t uid = 0;
    gid_t gid = 0;
    if (!process_find_account("nobody", &uid, &gid, &error))
        return;   // not every system has it
    SCOPED_TEXT output;
    text_init(&output, 1000);
    ProcessResult result;
    ProcessSpec spec = {.argv = (const char *const[]){"sh", "-c", "id -u; id -g; id -G", NULL},
                        .directory = "/",
                        .user = "nobody",
                        .output = &output};
    if (process_uid() != 0) {
        ASSERT_FAILS(process_run(&spec, &result, &error), &error, ERROR_DENIED, "could not start");
        return;
    }
    ASSERT_OK(process_run(&spec, &result, &error), &error);
    char expected[64];
    ck_assert(text_print(expected, sizeof expected, "%u\n%u\n%u\n", uid, gid, gid));
    ck_assert_str_eq(text_string(&output), expected);
}
END_TEST

START_TEST(a_forked_child_reports_lines_and_a_code)
{
    Error error = ERROR_INIT;
    char line[32];
    OWNED(Process, process_free) *child = process_fork(report_lines, "first\n\nlast\nno newline", &error);
    ck_assert_ptr_nonnull(child);
    ck_assert_int_eq(process_read_line(child, line, sizeof line, 20 * second_ns, &error), 1);
    ck_assert_str_eq(line, "first");
    ck_assert_int_eq(process_read_line(child, line, sizeof line, 20 * second_ns, &error), 1);
    ck_assert_str_eq(line, "");
    ck_assert_int_eq(process_read_line(child, line, sizeof line, 20 * second_ns, &error), 1);
    ck_assert_str_eq(line, "last");
    ck_assert_int_eq(process_read_line(child, line, sizeof line, 20 * second_ns, &error),
                     -1);   // a cut line is none
    ProcessResult result;
    ASSERT_OK(process_wait(child, 20 * second_ns, &result, &error), &error);
    ck_assert_int_eq(result.exit_code, 9);
    ASSERT_OK(process_wait(child, 0, &result, &error), &error);   // asked again: the same answer
    ck_assert_int_eq(result.exit_code, 9);
    process_signal(child, SIGTERM);   // nobody there any more
}
END_TEST

START_TEST(a_line_longer_than_the_room_is_bad_data)
{
    Error error = ERROR_INIT;
    char line[8];
    OWNED(Process, process_free) *child = process_fork(report_lines, "12345678\n", &error);
    ck_assert_int_eq(process_read_line(child, line, sizeof line, 20 * second_ns, &error), -2);
    ck_assert_int_eq(error.kind, ERROR_DATA);
    ck_assert_ptr_nonnull(strstr(error.message, "longer than 7 bytes"));
}
END_TEST

static int report_much(void *context, int report_fd)
{
    Error error = ERROR_INIT;
    char line[64];
    (void)context;
    for (int i = 0; i < 20000; i++)
        if (!text_print(line, sizeof line, "line %d of many\n", i) ||
            !file_write_all(report_fd, line, strlen(line), &error))
            return 1;
    return 0;
}

START_TEST(many_lines_pass_in_order)
{
    Error error = ERROR_INIT;
    char line[64], expected[64];
    OWNED(Process, process_free) *child = process_fork(report_much, NULL, &error);
    for (int i = 0; i < 20000; i++) {
        ck_assert_int_eq(process_read_line(child, line, sizeof line, 20 * second_ns, &error), 1);
        ck_assert(text_print(expected, sizeof expected, "line %d of many", i));
        ck_assert_str_eq(line, expected);
    }
    ck_assert_int_eq(process_read_line(child, line, sizeof line, 20 * second_ns, &error), -1);
}
END_TEST

static int sleep_long(void *context, int report_fd)
{
    (void)context;
    (void)report_fd;
    clock_sleep_ns(clock_real(), 60 * second_ns);
    return 0;
}

START_TEST(waiting_for_a_child_has_an_end)
{
    Error error = ERROR_INIT;
    char line[8];
    Process *child = process_fork(sleep_long, NULL, &error);
    ck_assert_int_eq(process_read_line(child, line, sizeof line, second_ns / 20, &error), 0);
    ProcessResult result;
    ASSERT_OK(process_wait(child, second_ns / 20, &result, &error), &error);
    ck_assert(result.timed_out);
    ck_assert_int_eq(result.signal, SIGKILL);
    process_free(child);
    child = process_fork(sleep_long, NULL, &error);
    process_signal(child, SIGTERM);   // whatever handler we had, the child has none
    ASSERT_OK(process_wait(child, 20 * second_ns, &result, &error), &error);
    ck_assert_int_eq(result.signal, SIGTERM);
    process_free(child);
    child = process_fork(sleep_long, NULL, &error);
    pid_t id = process_id(child);
    process_free(child);
    ck_assert_int_eq(kill(id, 0), -1);   // killed and reaped
    ck_assert_int_eq(errno, ESRCH);
    process_free(NULL);
}
END_TEST

#ifdef FEDGATE_FAULTS
START_TEST(a_failed_fork_is_said_and_leaves_nothing_open)
{
    Error error = ERROR_INIT;
    int before = process_open_files();
    setenv("FEDGATE_FAULT", "process.fork.fail=1", 1);
    ASSERT_FAILS(process_fork(sleep_long, NULL, &error) != NULL, &error, ERROR_UNAVAILABLE, "could not fork");
    setenv("FEDGATE_FAULT", "process.fork.fail=2", 1);
    ProcessResult result;
    ProcessSpec spec = {.argv = (const char *const[]){"true", NULL}};
    ASSERT_FAILS(process_run(&spec, &result, &error), &error, ERROR_UNAVAILABLE,
                 "could not fork for program 'true'");
    unsetenv("FEDGATE_FAULT");
    ck_assert_int_eq(process_open_files(), before);
}
END_TEST
#endif

START_TEST(this_process_is_known_from_the_kernel)
{
    setenv("USER", "somebody-else", 1);
    setenv("LOGNAME", "somebody-else", 1);
    ck_assert_str_ne(process_account(), "somebody-else");
    Error error = ERROR_INIT;
    uid_t uid;
    gid_t gid;
    if (process_find_account(process_account(), &uid, &gid, &error))
        ck_assert_uint_eq(uid, process_uid());
    ck_assert_int_gt(process_peak_bytes(), 0);
    ck_assert_int_gt(process_resident_bytes(), 0);
    ck_assert_int_ge(process_threads(), 1);
    int before = process_open_files();
    int fd = open("/dev/null", O_RDONLY);
    ck_assert_int_eq(process_open_files(), before + 1);
    close(fd);
}
END_TEST

START_TEST(accounts_are_found_by_name_and_number)
{
    Error error = ERROR_INIT;
    uid_t uid = 42;
    gid_t gid = 42;
    ASSERT_OK(process_find_account("root", &uid, &gid, &error), &error);
    ck_assert_uint_eq(uid, 0);
    uid = 42;
    ASSERT_OK(process_find_account("0", &uid, &gid, &error), &error);
    ck_assert_uint_eq(uid, 0);
    ASSERT_FAILS(process_find_account("-1", &uid, &gid, &error), &error, ERROR_CONFIG,
                 "unknown account '-1'");
    ASSERT_FAILS(process_find_account("4294967295", &uid, &gid, &error), &error, ERROR_CONFIG,
                 "unknown account");
}
END_TEST

static Suite *suite(void)
{
    Suite *made = suite_create("base process");
    TCase *run = tcase_create("run");
    tcase_add_test(run, output_errors_and_exit_code_are_captured);
    tcase_add_test(run, both_streams_may_share_a_text_or_be_discarded);
    tcase_add_test(run, output_past_the_maximum_is_dropped_and_said);
    tcase_add_test(run, a_signal_is_told_apart_from_an_exit);
    tcase_add_test(run, a_deadline_kills_the_whole_group);
    tcase_add_test(run, a_grandchild_with_our_pipe_does_not_hold_us);
    tcase_add_test(run, a_grandchild_that_floods_our_pipe_does_not_hold_us);
    tcase_add_test(run, children_are_waited_for_although_their_signal_was_ignored);
    tcase_add_test(run, the_longest_timeout_is_no_timeout);
    tcase_add_test(run, a_program_gets_no_descriptor_of_ours_and_only_the_environment_it_is_given);
    tcase_add_test(run, what_cannot_be_started_is_said);
    tcase_add_test(run, an_account_is_dropped_to_with_its_groups_or_refused);
    suite_add_tcase(made, run);
    TCase *fork = tcase_create("fork");
    tcase_add_test(fork, a_forked_child_reports_lines_and_a_code);
    tcase_add_test(fork, a_line_longer_than_the_room_is_bad_data);
    tcase_add_test(fork, many_lines_pass_in_order);
    tcase_add_test(fork, waiting_for_a_child_has_an_end);
#ifdef FEDGATE_FAULTS
    tcase_add_test(fork, a_failed_fork_is_said_and_leaves_nothing_open);
#endif
    suite_add_tcase(made, fork);
    TCase *self = tcase_create("self");
    tcase_add_test(self, this_process_is_known_from_the_kernel);
    tcase_add_test(self, accounts_are_found_by_name_and_number);
    suite_add_tcase(made, self);
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
