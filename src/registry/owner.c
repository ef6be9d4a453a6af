// owner - who may act: the account the kernel names, against the account the configuration names. Nothing
// else counts.
//
// Neither environment nor arguments are looked at. A refusal is recorded in denied.jsonl; not being able to
// record it does not turn it into consent.
#include "registry_internal.h"

#include <fedgate/process.h>
#include <sys/stat.h>

bool owner_uid(const Registry *registry, const char *owner, uid_t *ret_uid, gid_t *ret_gid, Error *error)
{
    const char *name = owner && owner[0] ? owner : registry->owner;
    return process_find_account(name, ret_uid, ret_gid, error) || error_prefix(error, "owner");
}

void owner_record_denial(const Registry *registry, const char *allowed, const char *action)
{
    char path[FILE_PATH_SIZE], time[CLOCK_TIME_SIZE];
    clock_format(clock_wall_ns(registry->clock), "", time);
    OWNED(Json, json_free) *line = json_make_object();
    json_put_text(line, "time", time);
    json_put_text(line, "action", action);
    json_put_integer(line, "actor_uid", (int64_t)process_uid());
    json_put_text(line, "actor", process_account());
    json_put_text(line, "owner", allowed);
    Error ignored = ERROR_INIT;   // somebody outside the group cannot even write here
    if (!registry_path(registry, path, "denied.jsonl", NULL, &ignored) ||
        !registry_append_line(path, line, &ignored))
        error_clear(&ignored);
}

bool registry_check_owner(const Registry *registry, const char *owner, const char *action, Error *error)
{
    const char *name = owner && owner[0] ? owner : registry->owner;
    uid_t uid;
    gid_t group;
    if (!owner_uid(registry, name, &uid, &group, error))
        return false;
    if (uid == process_uid())
        return true;
    owner_record_denial(registry, name, action);
    FAIL(error, ERROR_DENIED, 0, "%s is for account '%s' only, this is account '%s'", action, name,
         process_account());
    return error_hint(error, "Run it as the owner's account; the attempt was recorded.");
}

bool registry_duty_separated(const Registry *registry, const char *owner)
{
    uid_t uid;
    gid_t group;
    struct stat status;
    Error ignored = ERROR_INIT;
    return owner_uid(registry, owner, &uid, &group, &ignored) && stat(registry->home, &status) == 0 &&
           status.st_uid != uid;
}
