// entry - small state files about one thing each: hold.json, bars/, pins/, pruned/, imports/.
//
// Each change is a line of audit.jsonl first: a line without its change can be explained, a change without
// its line cannot. Reading fails closed: an entry that is there but cannot be read is there.
#include "registry_internal.h"

#include <fedgate/process.h>

Json *entry_make(const Registry *registry, const char *action, const char *version, const char *reason)
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

bool entry_audit(const Registry *registry, const Json *entry, Error *error)
{
    char path[FILE_PATH_SIZE];
    return registry_path(registry, path, "audit.jsonl", NULL, error) &&
           registry_append_line(path, entry, error);
}

bool entry_path(const Registry *registry, const char *folder, const char *name,
                char ret_path[static FILE_PATH_SIZE], Error *error)
{
    char file[VERSION_SIZE + 8];
    if (!name)
        return registry_path(registry, ret_path, folder, NULL, error);
    if (!release_is_version(name) || !text_print(file, sizeof file, "%s.json", name))
        return FAIL(error, ERROR_USAGE, 0, "'%.96s' is not the name of a version", name);
    return registry_path(registry, ret_path, folder, file, error);
}

// A home made before this folder was known has it from its first entry on.
static bool make_folder(const Registry *registry, const char *folder, Error *error)
{
    char path[FILE_PATH_SIZE];
    return registry_path(registry, path, folder, NULL, error) &&
           (file_is_directory(path) || file_make_directory(path, registry->shared ? 0770 : 0750, error));
}

bool entry_put(const Registry *registry, const char *folder, const char *name, const Json *entry,
               Error *error)
{
    char path[FILE_PATH_SIZE];
    return entry_path(registry, folder, name, path, error) &&
           (!name || make_folder(registry, folder, error)) && entry_audit(registry, entry, error) &&
           json_write_file(entry, JSON_INDENTED, path, error);
}

bool entry_remove(const Registry *registry, const char *folder, const char *name, const Json *entry,
                  Error *error)
{
    char path[FILE_PATH_SIZE], parent[FILE_PATH_SIZE];
    return entry_path(registry, folder, name, path, error) && entry_audit(registry, entry, error) &&
           file_remove(path, error) && registry_path(registry, parent, name ? folder : "", NULL, error) &&
           file_sync_directory(parent, error);
}

bool entry_read(const Registry *registry, const char *folder, const char *name, bool *ret_there,
                Json **ret_entry, Error *error)
{
    char path[FILE_PATH_SIZE];
    *ret_entry = NULL;
    if (!entry_path(registry, folder, name, path, error))
        return false;
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
