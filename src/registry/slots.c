// slots - the index of judged nights: slots/<slot>.json, replaced atomically.
//
// Reading fails closed: something there that is not a slot's file is an error, never a night not judged yet.
#include "registry_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
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

bool list_holds(const FileList *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++)
        if (text_equal(list->names[i], name))
            return true;
    return false;
}

static bool list_add(FileList *list, const char *name, Error *error)
{
    char **names = realloc(list->names, (list->count + 1) * sizeof *names), *copy = text_duplicate(name);
    if (names)
        list->names = names;
    if (!names || !copy) {
        free(copy);
        return FAIL(error, ERROR_MEMORY, 0, "out of memory for the slots");
    }
    list->names[list->count++] = copy;
    return true;
}

// Not judged, and its deadline has not passed: a later run of the slot goes on from what there is.
static bool is_pending(const Registry *registry, const Json *slot)
{
    return !json_bool_or(json_get(slot, "judged"), false) &&
           json_integer_or(json_get(slot, "deadline_wall_ns"), INT64_MAX) >= clock_wall_ns(registry->clock);
}

static bool add_pending(const Registry *registry, const char *file, FileList *versions, FileList *runs,
                        Error *error)
{
    char slot[96];
    OWNED(Json, json_free) *value = NULL;
    if (!text_ends_with(file, ".json") || !text_is_name(file) || !text_copy(slot, sizeof slot, file))
        return true;   // nobody's
    slot[strlen(slot) - strlen(".json")] = '\0';
    if (!registry_slot_read(registry, slot, &value, error))
        return false;
    return !value || !is_pending(registry, value) ||
           (list_add(versions, json_text_or(json_get(value, "version"), ""), error) &&
            list_add(runs, json_text_or(json_get(value, "run"), ""), error));
}

bool slots_pending(const Registry *registry, FileList *ret_versions, FileList *ret_runs, Error *error)
{
    char path[FILE_PATH_SIZE];
    FileList names, versions = {0}, runs = {0};
    if (!registry_path(registry, path, "slots", NULL, error) || !file_list(path, &names, error))
        return false;
    bool good = true;
    for (size_t i = 0; good && i < names.count; i++)
        good = add_pending(registry, names.names[i], &versions, &runs, error);
    file_list_done(&names);
    if (!good) {
        file_list_done(&versions);
        file_list_done(&runs);
        return false;
    }
    *ret_versions = versions;
    *ret_runs = runs;
    return true;
}
