// current - the link readers follow: a projection of the top record, made by one rename.
#include "registry_internal.h"

#include <errno.h>
#include <fedgate/fault.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// "pointers/<seq>" exactly as we write it; anything else points outside.
static bool parse_target(const char *target, int64_t *ret_seq)
{
    static const char prefix[] = "pointers/";
    const char *number = target + sizeof prefix - 1;
    return text_starts_with(target, prefix) && number[0] >= '1' && number[0] <= '9' &&
           text_to_int64(number, ret_seq);
}

bool current_look(const Registry *registry, CurrentState *ret_state, int64_t *ret_seq, Error *error)
{
    char path[FILE_PATH_SIZE], target[FILE_PATH_SIZE];
    if (!registry_path(registry, path, "current", NULL, error))
        return false;
    *ret_seq = 0;
    ssize_t length = fault_fires("look") ? (errno = EIO, -1) : readlink(path, target, sizeof target - 1);
    if (length < 0) {
        if (errno != ENOENT && errno != EINVAL)
            return FAIL(error, ERROR_IO, errno, "could not read link '%s'", path);
        *ret_state = errno == ENOENT ? CURRENT_MISSING : CURRENT_FOREIGN;   // EINVAL: not a link
        return true;
    }
    target[length] = '\0';
    if (!parse_target(target, ret_seq)) {
        *ret_seq = 0;
        *ret_state = CURRENT_FOREIGN;
        return true;
    }
    struct stat status;
    if (!registry_path(registry, path, target, NULL, error))
        return false;
    bool there = lstat(path, &status) == 0;
    *ret_state = there && S_ISDIR(status.st_mode) ? CURRENT_SOUND : CURRENT_DANGLING;
    return true;
}

bool current_project(const Registry *registry, int64_t seq, Error *error)
{
    char path[FILE_PATH_SIZE], target[48];
    struct stat status;
    if (!registry_path(registry, path, "current", NULL, error) ||
        !text_print(target, sizeof target, "pointers/%lld", (long long)seq))
        return false;
    // A rename replaces a link and a plain file, but not a directory; an empty one is nobody's loss.
    if (lstat(path, &status) == 0 && S_ISDIR(status.st_mode) && rmdir(path) != 0)
        return FAIL(error, ERROR_INCONSISTENT, 0, "'%s' is a directory that is not empty", path);
    return file_link_replace(path, target, error);
}

static bool has_records(const Registry *registry, bool *ret_any, Error *error)
{
    char path[FILE_PATH_SIZE];
    FileList names;
    if (!registry_path(registry, path, "pointers", NULL, error) || !file_list(path, &names, error))
        return false;
    *ret_any = false;
    for (size_t i = 0; i < names.count; i++)
        *ret_any = *ret_any || (names.names[i][0] >= '1' && names.names[i][0] <= '9');
    file_list_done(&names);
    return true;
}

bool registry_current(const Registry *registry, bool *ret_any, PointerRecord *ret_record, Error *error)
{
    CurrentState state;
    int64_t seq;
    bool any = true;
    if (!current_look(registry, &state, &seq, error))
        return false;
    // A first mover may be between its record and its link: what was missing is looked for again after the
    // records.
    if (state == CURRENT_MISSING &&
        (!has_records(registry, &any, error) || !current_look(registry, &state, &seq, error)))
        return false;
    if (state == CURRENT_MISSING && !any) {
        *ret_any = false;
        return true;
    }
    if (state == CURRENT_SOUND) {
        if (!record_load(registry, seq, ret_record, error))
            return false;
        *ret_any = true;
        return true;
    }
    FAIL(error, ERROR_INCONSISTENT, 0, "'current' %s",
         state == CURRENT_MISSING    ? "is missing although there are records"
         : state == CURRENT_DANGLING ? "names a record that does not exist"
                                     : "is not a link to a pointer record");
    return error_hint(error,
                      "The next 'fedgate run' or 'fedgate rollback' rebuilds it from the last record.");
}

bool registry_current_path(const Registry *registry, char *ret_directory, Error *error)
{
    bool any;
    PointerRecord record;
    if (!registry_current(registry, &any, &record, error))
        return false;
    if (!any)
        return FAIL(error, ERROR_DATA, 0, "nothing is live in '%s'", registry->home);
    char path[FILE_PATH_SIZE];
    if (!registry_path(registry, path, "releases", record.to, error))
        return false;
    memcpy(ret_directory, path, strlen(path) + 1);
    return true;
}
