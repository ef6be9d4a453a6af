// cmd_verdict - `fedgate verdict [latest|RUN|VERSION] [--format html]`: reads verdict files only, no database
// and no lock.
#include "cli.h"
#include <fedgate/report.h>

enum { VERDICT_BYTES = 16 * 1000 * 1000, TEXT_BYTES = 1 << 20, HTML_BYTES = 1 << 28 };

static Json *read_verdict(const char *home, const char *name, Error *error)
{
    char path[FILE_PATH_SIZE];
    return file_join(path, home, name, error) ? json_read_file(path, VERDICT_BYTES, error) : NULL;
}

// The newest run of this version: run ids are in order of time.
static Json *find_by_version(const char *home, const char *version, Error *error)
{
    char runs[FILE_PATH_SIZE];
    FileList list = {0};
    if (!file_join(runs, home, "runs", error) || !file_list(runs, &list, error))
        return NULL;
    Json *found = NULL;
    for (size_t i = list.count; i > 0 && !found; i--) {
        char name[FILE_PATH_SIZE];
        Error unreadable = ERROR_INIT;
        if (!text_print(name, sizeof name, "runs/%s/verdict.json", list.names[i - 1]))
            continue;
        Json *verdict =
            read_verdict(home, name, &unreadable);   // a run without verdict was cut off: not this one
        if (verdict && text_equal(json_text_or(json_get(verdict, "version"), ""), version))
            found = verdict;
        else
            json_free(verdict);
    }
    file_list_done(&list);
    if (!found)
        (void)FAIL(error, ERROR_DATA, 0, "no run of version '%s' has a verdict in home '%s'", version, home);
    return found;
}

static Json *find_verdict(const char *home, const char *which, Error *error)
{
    char name[FILE_PATH_SIZE];
    if (text_equal(which, "latest")) {
        if (!file_join(name, home, "last-verdict.json", error))
            return NULL;
        if (!file_exists(name)) {
            (void)FAIL(error, ERROR_UNAVAILABLE, 0, "no verdict yet in home '%s'", home);
            (void)error_hint(error, "Run a night first: fedgate run.");
            return NULL;
        }
        return json_read_file(name, VERDICT_BYTES, error);
    }
    if (!text_is_name(which)) {
        (void)FAIL(error, ERROR_USAGE, 0, "not a run or version: '%s'", which);
        return NULL;
    }
    if (!text_print(name, sizeof name, "%s/runs/%s/verdict.json", home, which)) {
        (void)FAIL(error, ERROR_USAGE, 0, "path of home '%s' is too long", home);
        return NULL;
    }
    return file_exists(name) ? json_read_file(name, VERDICT_BYTES, error)
                             : find_by_version(home, which, error);
}

bool cmd_verdict(const Invocation *call, int *ret_exit, Error *error)
{
    *ret_exit = 0;
    OWNED(Registry, registry_close) *registry = call_registry(call, error);
    if (!registry)
        return false;
    OWNED(Json, json_free) *verdict =
        find_verdict(registry_home(registry), call->argument_count ? call->arguments[0] : "latest", error);
    if (!verdict)
        return false;
    if (call->json) {
        output_json(verdict);
        return true;
    }
    SCOPED_TEXT text, moved;
    text_init(&text, call->html ? HTML_BYTES : TEXT_BYTES);
    text_init(&moved, 1024);
    if (!call_refresh_live(registry, verdict, &moved,
                           error))   // a person reads this to know what is live now
        return false;
    if (call->html) {
        report_verdict_html(verdict, &text);
        if (!text_ok(&text, error))
            return false;
    } else {
        report_verdict_text(verdict, &text);
        report_verdict_details(verdict, &text);
    }
    output_text(&text);
    return true;
}
