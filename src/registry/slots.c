// slots - the index of judged nights: slots/<slot>.json, replaced atomically.
#include "registry_internal.h"

static bool slot_path(const Registry *registry, const char *slot, char ret_path[static FILE_PATH_SIZE],
                      Error *error)
{
    char name[96];
    if (!text_is_name(slot) || !text_print(name, sizeof name, "%s.json", slot))
        return FAIL(error, ERROR_USAGE, 0,
                    "slot '%.64s' is not a name: a-z, 0-9, '.', '_' and '-', at most 64", slot);
    return registry_path(registry, ret_path, "slots", name, error);
}

bool registry_slot_read(const Registry *registry, const char *slot, Json **ret_slot_or_null, Error *error)
{
    char path[FILE_PATH_SIZE];
    if (!slot_path(registry, slot, path, error))
        return false;
    if (!file_exists(path)) {
        *ret_slot_or_null = NULL;
        return true;
    }
    Json *value = json_read_file(path, STATE_BYTES_MAXIMUM, error);
    if (!value)
        return error_prefix(error, "slot '%s'", slot);
    *ret_slot_or_null = value;
    return true;
}

bool registry_slot_write(Registry *registry, const char *slot, const Json *value, Error *error)
{
    char path[FILE_PATH_SIZE];
    return slot_path(registry, slot, path, error) &&
           (json_write_file(value, JSON_INDENTED, path, error) || error_prefix(error, "slot '%s'", slot));
}
