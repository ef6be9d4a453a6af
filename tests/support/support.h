// support - what tests share: fresh folders, assertions on Error, golden files, and running the program
// itself.
//
// Everything here ends the test (ck_abort) when it cannot do its part; nothing returns an error to handle.
#ifndef FEDGATE_TESTS_SUPPORT_H
#define FEDGATE_TESTS_SUPPORT_H

#include <check.h>
#include <fedgate/error.h>
#include <fedgate/text.h>
#include <stdint.h>

// `call` is true and left the Error alone, or the test fails with the Error's own words.
#define ASSERT_OK(call, error)                                                                          \
    do {                                                                                                \
        bool support_ok_ = (call);                                                                      \
        ck_assert_msg(support_ok_, "%s failed: %s [%s]", #call, (error)->message, (error)->origin);     \
        ck_assert_msg((error)->kind == ERROR_NONE, "%s set an error: %s", #call, (error)->message);     \
    } while (0)

// `call` is false, its Error is of this kind and its message contains `words`. The Error is cleared for the
// next call.
#define ASSERT_FAILS(call, error, expected, words)                                                      \
    do {                                                                                                \
        bool support_ok_ = (call);                                                                      \
        ck_assert_msg(!support_ok_, "%s passed, '%s' expected", #call, (words));                        \
        support_check_error((error), (expected), (words), #call);                                       \
        error_clear(error);                                                                             \
    } while (0)

void support_check_error(const Error *error, ErrorKind expected, const char *words, const char *call);

// A fresh folder of this test's own. Below $TMPDIR, else /tmp. The caller frees the path; remove deletes the
// tree too.
char *support_folder_new(void);
void support_folder_remove(char *folder);   // NULL allowed; frees the path

// A path below `folder`, in one of eight rotating buffers: good for the arguments of one call.
const char *support_path(const char *folder, const char *name);

// Within ten seconds the process is gone, or a zombie until init reaps it.
bool support_process_ends(int64_t id);

void support_write(const char *path, const char *content);
const char *support_read(const char *path,
                         Text *out);   // clears `out` first, which is initialised with its maximum

// Equal to the golden file, byte for byte; FEDGATE_GOLDEN=write in the environment rewrites the file instead.
void support_compare_golden(const char *golden_path, const char *text);

// The textfile is clean by promtool; says that it skipped when that (package prometheus) is not installed.
void support_check_metrics(const char *path);

// Runs the program under test ($FEDGATE_PROGRAM) with these arguments, NULL-terminated, without its own name.
typedef struct SupportRun {
    int exit_code;   // -1 when ended by a signal
    int signal;
    Text output, errors;
} SupportRun;

void support_run(const char *const *arguments, SupportRun *ret_run);
void support_run_in(const char *directory, const char *const *environment, const char *const *arguments,
                    SupportRun *ret_run);   // either may be NULL: ours
void support_run_done(SupportRun *run);
#define SUPPORT_RUN(run, ...) support_run((const char *const[]){__VA_ARGS__, NULL}, (run))

#endif
