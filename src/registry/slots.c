// slots - the index of judged nights: slots/<slot>.json, replaced atomically.
//
// Reading fails closed: something there that is not a slot's file is an error, never a night not judged yet.
#include "registry_internal.h"

#include <errno.h>
#include <sys/stat.h>

static bool slot_path(const Registry *registry, const char *slot, char ret_path[static FILE_PATH_SIZE],
                      Error *error)
{
    char name[96];
    if (!text_is_name(slot) || !text_print(name, sizeof name, "%s.json", slot))
        return FAIL(error, ERROR_USAGE, 0,
                    "slot '%.64s' is not a name: a-z, 0-9, '.', '_' and '-', at most 64", slot);
    return registry_path(registry, ret_path, "slots", name, error);
}

static bool check_slot(const Json *value, Error *error)
{
    const char *run = json_text_or(json_get(value, "run"), "");
    return text_is_name(run) || FAIL(error, ERROR_DATA, 0, "its run '%.64s' is not a name", run);
}

bool registry_slot_read(const Registry *registry, const char *slot, Json **ret_slot_or_null, Error *error)
{
    char path[FILE_PATH_SIZE];
    struct stat status;
    if (!slot_path(registry, slot, path, error))
        return false;
    if (lstat(path, &status) != 0) {
        if (errno != ENOENT)
            return FAIL(error, ERROR_IO, errno, "could not look at file '%s'", path);
        *ret_slot_or_null = NULL;
        return true;
    }
    OWNED(Json, json_free) *value = NULL;
    if (!S_ISREG(status.st_mode))
        FAIL(error, ERROR_DATA, 0, "'%s' is not a plain file", path);
    else
        value = json_read_file(path, STATE_BYTES_MAXIMUM, error);
    if (!value || !check_slot(value, error)) {
        error_hint(error, "Move '%s' away to have this night judged afresh.", path);
        return error_prefix(error, "slot '%s'", slot);
    }
    *ret_slot_or_null = value;
    value = NULL;
    return true;
}

bool registry_slot_write(Registry *registry, const char *slot, const Json *value, Error *error)
{
    char path[FILE_PATH_SIZE];
    return slot_path(registry, slot, path, error) &&
           (json_write_file(value, JSON_INDENTED, path, error) || error_prefix(error, "slot '%s'", slot));
}
