// cmd_watch - `fedgate watch`: follows progress.json of the run that holds run.lock until the lock is free.
//
// Reads only. The lock's content is what its holder wrote for people; the run's id is found in it by its
// shape.
#include "cli.h"
#include <ctype.h>
#include <fedgate/report.h>
#include <string.h>
#include <unistd.h>

enum { PROGRESS_BYTES = 1000 * 1000 };
static const int64_t pause_ns = INT64_C(1000000000);

static bool is_uuid(const char *text)
{
    for (int i = 0; i < UUID_SIZE - 1; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash ? text[i] != '-' : !isxdigit((unsigned char)text[i]))
            return false;
    }
    return true;
}

static bool find_run(const char *content, char ret_run[static UUID_SIZE])
{
    size_t length = strlen(content);
    for (size_t i = 0; i + UUID_SIZE - 1 <= length; i++)
        if (is_uuid(content + i))
            return text_print(ret_run, UUID_SIZE, "%.36s", content + i);
    return false;
}

// The line of the running night; an unreadable or missing progress file is a night that has only begun.
static void describe(const char *home, const char *content, bool as_json, Text *out)
{
    char run[UUID_SIZE], path[FILE_PATH_SIZE];
    Error none = ERROR_INIT;
    OWNED(Json, json_free) *progress = NULL;
    if (find_run(content, run) && text_print(path, sizeof path, "%s/runs/%s/progress.json", home, run) &&
        file_exists(path))
        progress = json_read_file(path, PROGRESS_BYTES, &none);
    if (!progress)
        progress = json_make_object();
    if (as_json)
        json_write(progress, JSON_COMPACT, out);
    else
        report_progress(progress, out);
}

bool cmd_watch(const Invocation *call, int *ret_exit, Error *error)
{
    *ret_exit = 0;
    OWNED(Registry, registry_close) *registry = call_registry(call, error);
    char lock[FILE_PATH_SIZE], content[1024];
    if (!registry || !file_join(lock, registry_home(registry), "run.lock", error))
        return false;
    bool in_place = isatty(STDOUT_FILENO) == 1 && !call->json;
    SCOPED_TEXT last;
    text_init(&last, 1u << 20);
    for (bool first = true;; first = false) {
        bool held;
        if (!file_lock_look(lock, &held, content, sizeof content, error))
            return false;
        SCOPED_TEXT line;
        text_init(&line, 1u << 20);
        if (held)
            describe(registry_home(registry), content, call->json, &line);
        else if (first && !call->json)
            text_add(&line, "no night is running; see: fedgate verdict");
        if (line.length && !text_equal(text_string(&line), text_string(&last))) {
            SCOPED_TEXT shown;
            text_init(&shown, 2u << 20);
            text_add_format(&shown, in_place && held ? "\r\033[K%s" : "%s\n", text_string(&line));
            output_text(&shown);
            text_clear(&last);
            text_add(&last, text_string(&line));
        }
        if (output_failed() || !held || option_value(call, "once"))
            break;
        clock_sleep_ns(clock_real(), pause_ns);
    }
    if (in_place && last.length) {
        SCOPED_TEXT end;
        text_init(&end, 8);
        text_add(&end, "\n");
        output_text(&end);
    }
    return true;
}
