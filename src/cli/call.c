// call - what most commands begin with: home, configuration, registry, migrations; times as people type them.
#include "cli.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool call_home(const Invocation *call, const char **ret_home, Error *error)
{
    if (!call->home) {
        (void)FAIL(error, ERROR_USAGE, 0, "command '%s' needs a home, none was given", call->command->name);
        return error_hint(error, "Give --home DIR or set FEDGATE_HOME.");
    }
    *ret_home = call->home;
    return true;
}

Config *call_config(const Invocation *call, Error *error)
{
    char path[FILE_PATH_SIZE];
    const char *file = call->config_path;
    if (!file && call->home) {
        if (!file_join(path, call->home, "fedgate.yaml", error))
            return NULL;
        file = file_exists(path) ? path : NULL;
    }
    return config_load(file, call->sets, call->set_count, environ, error);
}

Registry *call_registry(const Invocation *call, Error *error)
{
    const char *home = NULL;
    if (!call_home(call, &home, error))
        return NULL;
    return registry_open(home, clock_real(), error);
}

bool call_refresh_live(const Registry *registry, Json *verdict, Text *moved, Error *error)
{
    PointerRecord record;
    bool any;
    if (!registry_current(registry, &any, &record, error))
        return false;
    const char *then = json_text_or(json_find(verdict, "current.version"), "");
    if (!any || text_equal(then, record.to))
        return true;
    char since[CLOCK_TIME_SIZE];
    clock_format(record.wall_ns, "", since);
    Json *current = json_make_object();
    json_put_text(current, "version", record.to);
    json_put_text(current, "kind", release_kind_name(record.to_kind));
    json_put_text(current, "since", since);
    json_put(verdict, "current", current);
    text_add_format(moved, "%s #%lld by %s: %s", registry_move_name(record.kind), (long long)record.seq,
                    record.actor, record.reason);
    return true;
}

static bool holds_migrations(const char *directory)
{
    FileList list = {0};
    Error ignored = ERROR_INIT;
    if (!file_is_directory(directory) || !file_list(directory, &list, &ignored))
        return false;
    bool found = false;
    for (size_t i = 0; i < list.count && !found; i++)
        found = text_starts_with(list.names[i], "0001_") && text_ends_with(list.names[i], ".sql");
    file_list_done(&list);
    return found;
}

// FEDGATE_SHARE, then the installed place beside the program, then the source tree the program was built
// inside.
bool share_migrations(char *ret_directory, Error *error)
{
    const char *share = getenv("FEDGATE_SHARE");
    if (share && *share) {
        if (!file_join(ret_directory, share, "migrations", error))
            return false;
        if (holds_migrations(ret_directory))
            return true;
        return FAIL(error, ERROR_UNAVAILABLE, 0, "folder '%s' of FEDGATE_SHARE holds no migrations",
                    ret_directory);
    }
    char program[FILE_PATH_SIZE];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = '\0';
    bool installed = true;
    for (char *slash = strrchr(program, '/'); slash; slash = strrchr(program, '/')) {
        *slash = '\0';
        if (!file_join(ret_directory, program, installed ? "../share/fedgate/migrations" : "migrations",
                       error))
            return false;
        if (holds_migrations(ret_directory))
            return true;
        if (!file_join(ret_directory, program, "migrations", error))
            return false;
        if (holds_migrations(ret_directory))
            return true;
        installed = false;
    }
    (void)FAIL(error, ERROR_UNAVAILABLE, 0, "could not find the folder of migrations beside the program");
    return error_hint(error, "Set FEDGATE_SHARE to the folder that holds 'migrations'.");
}

bool parse_duration(const char *text, int64_t *ret_ns, Error *error)
{
    static const struct {
        const char *suffix;
        double seconds;
    } units[] = {{"ms", 0.001}, {"min", 60}, {"s", 1}, {"h", 3600}, {"d", 86400}};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        char number[32];
        double value;
        size_t length = strlen(text), suffix = strlen(units[i].suffix);
        if (!text_ends_with(text, units[i].suffix) || length - suffix >= sizeof number)
            continue;
        memcpy(number, text, length - suffix);
        number[length - suffix] = '\0';
        if (!text_to_double(number, &value))
            continue;
        double ns = value * units[i].seconds * 1e9;
        if (ns > 0 && ns <= 3.2e18) {
            *ret_ns = (int64_t)ns;
            return true;
        }
    }
    return FAIL(error, ERROR_USAGE, 0, "not a duration: '%s', wanted one such as 90s, 15min, 26h or 2d",
                text);
}

static bool parse_local(const char *text, const char *zone, int64_t *ret_wall_ns, Error *error)
{
    size_t length = strlen(text);
    char date[11], midnight[CLOCK_TIME_SIZE], minute_utc[CLOCK_TIME_SIZE];
    if ((length != 10 && length != 16) || (length == 16 && text[10] != ' ' && text[10] != 'T'))
        return false;
    memcpy(date, text, 10);
    date[10] = '\0';
    int64_t day_ns, time_ns;
    if (!text_print(midnight, sizeof midnight, "%sT00:00:00Z", date) || !clock_parse(midnight, &day_ns) ||
        !text_print(minute_utc, sizeof minute_utc, "%sT%s:00Z", date, length == 16 ? text + 11 : "00:00") ||
        !clock_parse(minute_utc, &time_ns))
        return false;
    int64_t minutes = (time_ns - day_ns) / INT64_C(60000000000);
    // Zones reach 14 hours ahead of UTC: the wanted date begins at most so long before UTC's.
    int64_t at_ns = day_ns - INT64_C(26) * 3600 * 1000000000;
    for (int day = 0; day < 4; day++) {
        char local[11];
        if (!clock_next_local(at_ns, zone, (int)(minutes / 60), (int)(minutes % 60), &at_ns, error))
            return false;
        clock_local_date(at_ns, zone, local);
        if (text_equal(local, date)) {
            *ret_wall_ns = at_ns;
            return true;
        }
    }
    return false;
}

bool parse_instant(const char *text, const char *zone, int64_t *ret_wall_ns, Error *error)
{
    if (clock_parse(text, ret_wall_ns) || parse_local(text, zone, ret_wall_ns, error))
        return true;
    if (error->kind != ERROR_NONE)
        return false;
    (void)FAIL(error, ERROR_USAGE, 0, "not a time: '%s'", text);
    return error_hint(error, "Write 2026-11-30T04:00:00+01:00, 2026-11-30 or '2026-11-30 04:00'.");
}
