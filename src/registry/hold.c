// hold - the owner's brake: hold.json stops every promotion, bars/<version>.json stops one version.
//
// Each change is written to audit.jsonl first: an entry without its change can be explained, a change without
// its entry cannot. Reading fails closed: a hold or bar that is there but cannot be read holds.
#include "registry_internal.h"

#include <errno.h>
#include <fedgate/process.h>
#include <string.h>
#include <sys/stat.h>

static Json *make_entry(const Registry *registry, const char *action, const char *version, const char *reason)
{
    char time[CLOCK_TIME_SIZE];
    clock_format(clock_wall_ns(registry->clock), "", time);
    Json *entry = json_make_object();
    json_put_integer(entry, "format", REGISTRY_FORMAT);
    json_put_text(entry, "time", time);
    json_put_text(entry, "action", action);
    json_put_text(entry, "version", version);
    json_put_text(entry, "reason", reason);
    json_put_integer(entry, "actor_uid", (int64_t)process_uid());
    json_put_text(entry, "actor", process_account());
    return entry;
}

static bool audit(const Registry *registry, const Json *entry, Error *error)
{
    char path[FILE_PATH_SIZE];
    return registry_path(registry, path, "audit.jsonl", NULL, error) &&
           registry_append_line(path, entry, error);
}

static bool bar_path(const Registry *registry, const char *version, char ret_path[static FILE_PATH_SIZE],
                     Error *error)
{
    char name[VERSION_SIZE + 8];
    if (!release_is_version(version) || !text_print(name, sizeof name, "%s.json", version))
        return FAIL(error, ERROR_USAGE, 0, "'%.96s' is not the name of a version", version);
    return registry_path(registry, ret_path, "bars", name, error);
}

static bool write_entry(const Registry *registry, const char *path, const char *action, const char *version,
                        const char *reason, Error *error)
{
    OWNED(Json, json_free) *entry = make_entry(registry, action, version, reason);
    return audit(registry, entry, error) && json_write_file(entry, JSON_INDENTED, path, error);
}

static bool remove_entry(const Registry *registry, const char *path, const char *folder, const char *action,
                         const char *version, const char *reason, Error *error)
{
    char parent[FILE_PATH_SIZE];
    OWNED(Json, json_free) *entry = make_entry(registry, action, version, reason);
    return audit(registry, entry, error) && file_remove(path, error) &&
           registry_path(registry, parent, folder, NULL, error) && file_sync_directory(parent, error);
}

bool hold_set(const Registry *registry, const char *reason, Error *error)
{
    char path[FILE_PATH_SIZE];
    return registry_path(registry, path, "hold.json", NULL, error) &&
           write_entry(registry, path, "hold", NULL, reason, error);
}

bool hold_clear(const Registry *registry, const char *reason, Error *error)
{
    char path[FILE_PATH_SIZE];
    return registry_path(registry, path, "hold.json", NULL, error) &&
           remove_entry(registry, path, "", "unhold", NULL, reason, error);
}

bool bar_set(const Registry *registry, const char *version, const char *reason, Error *error)
{
    char path[FILE_PATH_SIZE];
    return bar_path(registry, version, path, error) &&
           write_entry(registry, path, "bar", version, reason, error);
}

bool bar_clear(const Registry *registry, const char *version, const char *reason, Error *error)
{
    char path[FILE_PATH_SIZE];
    return bar_path(registry, version, path, error) &&
           remove_entry(registry, path, "bars", "unbar", version, reason, error);
}

// *ret_there with *ret_entry NULL: there, but not readable as what it should be.
static bool read_entry(const char *path, bool *ret_there, Json **ret_entry, Error *error)
{
    *ret_entry = NULL;
    if (registry_read_state(path, ret_entry, error)) {
        *ret_there = *ret_entry != NULL;
        return true;
    }
    if (error->kind != ERROR_DATA)
        return false;
    error_clear(error);
    *ret_there = true;
    return true;
}

bool registry_hold_state(const Registry *registry, HoldState *ret_state, Error *error)
{
    char path[FILE_PATH_SIZE];
    bool held;
    OWNED(Json, json_free) *entry = NULL;
    if (!registry_path(registry, path, "hold.json", NULL, error) || !read_entry(path, &held, &entry, error))
        return false;
    *ret_state = (HoldState){.held = held};
    if (!held)
        return true;
    registry_clean_text(ret_state->reason, sizeof ret_state->reason,
                        json_text_or(json_get(entry, "reason"), "hold.json cannot be read"));
    registry_clean_text(ret_state->who, sizeof ret_state->who, json_text_or(json_get(entry, "actor"), ""));
    if (!clock_parse(json_text_or(json_get(entry, "time"), ""), &ret_state->since_wall_ns))
        ret_state->since_wall_ns = 0;
    return true;
}

bool registry_is_barred(const Registry *registry, const char *version, bool *ret_barred,
                        char ret_reason[static 256], Error *error)
{
    char path[FILE_PATH_SIZE];
    bool barred;
    OWNED(Json, json_free) *entry = NULL;
    if (!bar_path(registry, version, path, error) || !read_entry(path, &barred, &entry, error))
        return false;
    *ret_barred = barred;
    ret_reason[0] = '\0';
    if (barred)
        registry_clean_text(ret_reason, 256,
                            json_text_or(json_get(entry, "reason"), "its bar cannot be read"));
    return true;
}

FileLock *hold_begin(const Registry *registry, const char *owner, const char *action, const char *reason,
                     Error *error)
{
    if (!reason || !reason[0]) {
        FAIL(error, ERROR_USAGE, 0, "%s needs a reason", action);
        return NULL;
    }
    if (strlen(reason) >= sizeof((PointerRecord *)NULL)->reason) {
        FAIL(error, ERROR_USAGE, 0, "the reason has %zu bytes, the limit is %zu", strlen(reason),
             sizeof((PointerRecord *)NULL)->reason - 1);
        return NULL;
    }
    if (!registry_check_owner(registry, owner, action, error))
        return NULL;
    return registry_lock_pointer(registry, action, error);
}

bool registry_hold(Registry *registry, const char *owner, const char *reason, Error *error)
{
    OWNED(FileLock, file_lock_release) *lock = hold_begin(registry, owner, "hold", reason, error);
    return lock && hold_set(registry, reason, error);
}

bool registry_unhold(Registry *registry, const char *owner, const char *unbar_version_or_null,
                     const char *reason, Error *error)
{
    OWNED(FileLock, file_lock_release) *lock = hold_begin(registry, owner, "unhold", reason, error);
    if (!lock)
        return false;
    if (!unbar_version_or_null) {
        HoldState state;
        if (!registry_hold_state(registry, &state, error))
            return false;
        return !state.held || hold_clear(registry, reason, error);   // nothing held: nothing to do
    }
    bool barred;
    char why[256];
    if (!registry_is_barred(registry, unbar_version_or_null, &barred, why, error))
        return false;
    if (!barred)
        return FAIL(error, ERROR_USAGE, 0, "version '%s' is not barred", unbar_version_or_null);
    return bar_clear(registry, unbar_version_or_null, reason, error);
}
