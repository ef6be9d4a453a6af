// support - see support.h.
#include "support.h"

#include <fedgate/file.h>
#include <fedgate/process.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUPPORT_BYTES = 16 * 1024 * 1024 };
static const int64_t program_limit_ns = INT64_C(110) * 1000000000;

void support_check_error(const Error *error, ErrorKind expected, const char *words, const char *call)
{
    ck_assert_msg(error->kind == expected, "%s failed as '%s' (%s), '%s' expected", call,
                  error_kind_name(error->kind), error->message, error_kind_name(expected));
    ck_assert_msg(strstr(error->message, words) != NULL, "%s failed with '%s', which does not say '%s'", call,
                  error->message, words);
}

char *support_folder_new(void)
{
    const char *root = getenv("TMPDIR");
    char path[FILE_PATH_SIZE];
    ck_assert(text_print(path, sizeof path, "%s/fedgate-test-XXXXXX", root && *root ? root : "/tmp"));
    ck_assert_msg(mkdtemp(path) != NULL, "could not make a folder like %s", path);
    char *folder = text_duplicate(path);
    ck_assert_ptr_nonnull(folder);
    return folder;
}

void support_folder_remove(char *folder)
{
    if (!folder)
        return;
    Error error = ERROR_INIT;
    ck_assert_msg(file_remove_tree(folder, &error), "%s", error.message);
    free(folder);
}

const char *support_path(const char *folder, const char *name)
{
    static char paths[8][FILE_PATH_SIZE];
    static unsigned next;
    Error error = ERROR_INIT;
    char *path = paths[next++ % 8];
    ck_assert_msg(file_join(path, folder, name, &error), "%s", error.message);
    return path;
}

bool support_process_ends(int64_t id)
{
    char path[64];
    ck_assert(text_print(path, sizeof path, "/proc/%lld/stat", (long long)id));
    for (int tries = 0; tries < 1000; tries++) {
        SCOPED_TEXT state;
        text_init(&state, 4096);
        Error ignored = ERROR_INIT;
        if (!file_read(path, &state, &ignored) || strstr(text_string(&state), ") Z"))
            return true;
        clock_sleep_ns(clock_real(), 10 * 1000000);
    }
    return false;
}

void support_write(const char *path, const char *content)
{
    Error error = ERROR_INIT;
    ck_assert_msg(file_write_atomic(path, content, strlen(content), 0644, &error), "%s", error.message);
}

const char *support_read(const char *path, Text *out)
{
    Error error = ERROR_INIT;
    text_clear(out);
    ck_assert_msg(file_read(path, out, &error), "%s", error.message);
    return text_string(out);
}

void support_compare_golden(const char *golden_path, const char *text)
{
    if (text_equal(getenv("FEDGATE_GOLDEN"), "write")) {
        support_write(golden_path, text);
        return;
    }
    SCOPED_TEXT golden;
    text_init(&golden, SUPPORT_BYTES);
    support_read(golden_path, &golden);
    const char *want = text_string(&golden);
    size_t line = 1, at = 0;
    for (; want[at] && want[at] == text[at]; at++)
        line += want[at] == '\n';
    ck_assert_msg(want[at] == text[at], "differs from %s in line %zu: '%.60s' instead of '%.60s'",
                  golden_path, line, text + at, want + at);
}

void support_check_metrics(const char *path)
{
    enum { NOT_INSTALLED = 99 };
    const char *argv[] = {"sh", "-c",
                          "command -v promtool >/dev/null || exit 99; exec promtool check metrics <\"$0\"",
                          path, NULL};
    SCOPED_TEXT said;
    text_init(&said, 100000);
    const ProcessSpec spec = {.argv = argv, .timeout_ns = program_limit_ns, .output = &said, .errors = &said};
    ProcessResult result;
    Error error = ERROR_INIT;
    ck_assert_msg(process_run(&spec, &result, &error), "%s", error.message);
    if (result.exit_code == NOT_INSTALLED)
        fprintf(stderr, "skipped: promtool (package prometheus) is not installed\n");
    else
        ck_assert_msg(result.exit_code == 0 && said.length == 0, "%s", text_string(&said));
}

void support_run_in(const char *directory, const char *const *environment, const char *const *arguments,
                    SupportRun *ret_run)
{
    const char *program = getenv("FEDGATE_PROGRAM");
    ck_assert_msg(program != NULL, "FEDGATE_PROGRAM does not name the program to test");
    const char *argv[64] = {program};
    size_t count = 0;
    for (; arguments[count]; count++) {
        ck_assert_uint_lt(count, 62);
        argv[count + 1] = arguments[count];
    }
    *ret_run = (SupportRun){0};
    text_init(&ret_run->output, SUPPORT_BYTES);
    text_init(&ret_run->errors, SUPPORT_BYTES);
    ProcessSpec spec = {.argv = argv,
                        .environment = environment,
                        .directory = directory,
                        .timeout_ns = program_limit_ns,
                        .output = &ret_run->output,
                        .errors = &ret_run->errors};
    ProcessResult result;
    Error error = ERROR_INIT;
    ck_assert_msg(process_run(&spec, &result, &error), "%s", error.message);
    ck_assert_msg(!result.timed_out, "fedgate %s was still running after 110 s",
                  count > 0 ? arguments[0] : "");
    ret_run->exit_code = result.exit_code;
    ret_run->signal = result.signal;
}

void support_run(const char *const *arguments, SupportRun *ret_run)
{
    support_run_in(NULL, NULL, arguments, ret_run);
}

void support_run_done(SupportRun *run)
{
    if (!run)
        return;
    text_done(&run->output);
    text_done(&run->errors);
}
