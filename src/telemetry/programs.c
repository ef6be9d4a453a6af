// programs.c - finding PostgreSQL's server programs: the distribution's versioned folders, then PATH.
#include "telemetry_internal.h"

#include <fedgate/file.h>
#include <fedgate/process.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VERSIONED_ROOT "/usr/lib/postgresql"

static bool has_programs(const char *directory)
{
    static const char *const needed[] = {"initdb", "pg_ctl", "postgres"};
    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
        char path[FILE_PATH_SIZE];
        if (!text_print(path, sizeof(path), "%s/%s", directory, needed[i]) || access(path, X_OK) != 0)
            return false;
    }
    return true;
}

// Asks the program itself: "postgres (PostgreSQL) 15.20 (...)". 0 when it does not say.
static int ask_major(const char *directory)
{
    char program[FILE_PATH_SIZE];
    SCOPED_TEXT output;
    text_init(&output, 4096);
    Error ignored = ERROR_INIT;   // ignoring: a folder whose program does not answer is passed over
    ProcessResult result;
    if (!text_print(program, sizeof(program), "%s/postgres", directory))
        return 0;
    const char *argv[] = {program, "--version", NULL};
    ProcessSpec spec = {.argv = argv, .timeout_ns = INT64_C(10000000000), .output = &output};
    if (!process_run(&spec, &result, &ignored) || result.exit_code != 0)
        return 0;
    const char *digits = strpbrk(text_string(&output), "0123456789");
    return digits == NULL ? 0 : (int)strtol(digits, NULL, 10);
}

static void keep_better(ServerPrograms *best, const char *directory, int major, int wanted_major)
{
    if (major > best->major && (wanted_major == 0 || major == wanted_major) && has_programs(directory) &&
        text_copy(best->directory, sizeof(best->directory), directory))
        best->major = major;
}

static void look_in_versions(int wanted_major, ServerPrograms *best)
{
    FileList list = {NULL, 0};
    Error ignored = ERROR_INIT;   // ignoring: another distribution keeps them elsewhere
    if (!file_list(VERSIONED_ROOT, &list, &ignored))
        return;
    for (size_t i = 0; i < list.count; i++) {
        char directory[FILE_PATH_SIZE];
        int64_t major;
        if (text_to_int64(list.names[i], &major) && major > 0 && major < 1000 &&
            text_print(directory, sizeof(directory), VERSIONED_ROOT "/%s/bin", list.names[i]))
            keep_better(best, directory, (int)major, wanted_major);
    }
    file_list_done(&list);
}

static void look_in_path(int wanted_major, ServerPrograms *best)
{
    char *path = text_duplicate(getenv("PATH"));
    char *rest = path;
    for (char *directory = strsep(&rest, ":"); directory != NULL; directory = strsep(&rest, ":")) {
        if (directory[0] == '/' && has_programs(directory))
            keep_better(best, directory, ask_major(directory), wanted_major);
    }
    free(path);
}

bool programs_find(int wanted_major, ServerPrograms *ret_programs, Error *error)
{
    ServerPrograms best = {.major = 0};
    look_in_versions(wanted_major, &best);
    if (best.major == 0)
        look_in_path(wanted_major, &best);
    if (best.major > 0) {
        *ret_programs = best;
        return true;
    }
    if (wanted_major == 0)
        FAIL(error, ERROR_UNAVAILABLE, 0,
             "could not find initdb, pg_ctl and postgres in '" VERSIONED_ROOT "/*/bin' or in PATH");
    else
        FAIL(error, ERROR_UNAVAILABLE, 0,
             "could not find initdb, pg_ctl and postgres of version %d in '" VERSIONED_ROOT
             "/%d/bin' or in PATH",
             wanted_major, wanted_major);
    return error_hint(error, "Install the distribution's PostgreSQL server package, or give database.url.");
}
