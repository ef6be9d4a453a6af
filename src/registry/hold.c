// hold - what the owner sets and lifts: hold.json stops every promotion, bars/<version>.json stops one
// version, pins/<version>.json keeps one release from being pruned.
//
// A hold, bar or pin that is there but cannot be read holds (entry.c).
#include "registry_internal.h"

#include <string.h>

bool hold_set(const Registry *registry, const char *reason, Error *error)
{
    OWNED(Json, json_free) *entry = entry_make(registry, "hold", NULL, reason);
    return entry_put(registry, "hold.json", NULL, entry, error);
}

bool hold_clear(const Registry *registry, const char *reason, Error *error)
{
    OWNED(Json, json_free) *entry = entry_make(registry, "unhold", NULL, reason);
    return entry_remove(registry, "hold.json", NULL, entry, error);
}

bool bar_set(const Registry *registry, const char *version, const char *reason, Error *error)
{
    OWNED(Json, json_free) *entry = entry_make(registry, "bar", version, reason);
    return entry_put(registry, "bars", version, entry, error);
}

bool bar_clear(const Registry *registry, const char *version, const char *reason, Error *error)
{
    OWNED(Json, json_free) *entry = entry_make(registry, "unbar", version, reason);
    return entry_remove(registry, "bars", version, entry, error);
}

bool pin_set(const Registry *registry, const char *version, const char *reason, Error *error)
{
    OWNED(Json, json_free) *entry = entry_make(registry, "pin", version, reason);
    return entry_put(registry, "pins", version, entry, error);
}

bool pin_clear(const Registry *registry, const char *version, const char *reason, Error *error)
{
    OWNED(Json, json_free) *entry = entry_make(registry, "unpin", version, reason);
    return entry_remove(registry, "pins", version, entry, error);
}

bool registry_hold_state(const Registry *registry, HoldState *ret_state, Error *error)
{
    bool held;
    OWNED(Json, json_free) *entry = NULL;
    if (!entry_read(registry, "hold.json", NULL, &held, &entry, error))
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

static bool read_reason(const Registry *registry, const char *folder, const char *version,
                        const char *unreadable, bool *ret_there, char ret_reason[static 256], Error *error)
{
    bool there;
    OWNED(Json, json_free) *entry = NULL;
    if (!entry_read(registry, folder, version, &there, &entry, error))
        return false;
    *ret_there = there;
    ret_reason[0] = '\0';
    if (there)
        registry_clean_text(ret_reason, 256, json_text_or(json_get(entry, "reason"), unreadable));
    return true;
}

bool registry_is_barred(const Registry *registry, const char *version, bool *ret_barred,
                        char ret_reason[static 256], Error *error)
{
    return read_reason(registry, "bars", version, "its bar cannot be read", ret_barred, ret_reason, error);
}

bool registry_is_pinned(const Registry *registry, const char *version, bool *ret_pinned,
                        char ret_reason[static 256], Error *error)
{
    return read_reason(registry, "pins", version, "its pin cannot be read", ret_pinned, ret_reason, error);
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

bool registry_pin(Registry *registry, const char *owner, const char *version, const char *reason,
                  Error *error)
{
    OWNED(FileLock, file_lock_release) *lock = hold_begin(registry, owner, "pin", reason, error);
    char path[FILE_PATH_SIZE], when[CLOCK_TIME_SIZE];
    bool pruned;
    if (!lock)
        return false;
    if (!release_is_version(version))
        return FAIL(error, ERROR_USAGE, 0, "'%.96s' is not the name of a version", version);
    if (!registry_path(registry, path, "releases", version, error))
        return false;
    if (file_is_directory(path))
        return pin_set(registry, version, reason, error);
    if (!registry_is_pruned(registry, version, &pruned, when, error))
        return false;
    return pruned ? FAIL(error, ERROR_DATA, 0, "release '%s' was pruned on %s", version, when)
                  : FAIL(error, ERROR_DATA, 0, "there is no release '%s'", version);
}

bool registry_unpin(Registry *registry, const char *owner, const char *version, const char *reason,
                    Error *error)
{
    OWNED(FileLock, file_lock_release) *lock = hold_begin(registry, owner, "unpin", reason, error);
    bool pinned;
    char why[256];
    if (!lock || !registry_is_pinned(registry, version, &pinned, why, error))
        return false;
    if (!pinned)
        return FAIL(error, ERROR_USAGE, 0, "version '%s' is not pinned", version);
    return pin_clear(registry, version, reason, error);
}
