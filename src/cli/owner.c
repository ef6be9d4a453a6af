// owner - whose word counts for hold, unhold, rollback, pin, unpin and import.
//
// The account comes from <home>/fedgate.yaml alone: never from --config, --set or the environment, with which
// a caller could name itself. A file the caller owns (or that others can write) could be a forgery too, so
// the account recorded in the home at `init` must then agree. A configuration that cannot be read does not
// stop a rollback: the recorded account decides.
#include "cli.h"
#include <sys/stat.h>
#include <unistd.h>

static bool could_be_forged(const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0)
        return true;
    return (status.st_uid == getuid() && status.st_uid != 0) || (status.st_mode & S_IWOTH) != 0;
}

bool call_owner(const Invocation *call, const Registry *registry, const char *action,
                char ret_owner[static 64], Error *error)
{
    ret_owner[0] = '\0';
    char path[FILE_PATH_SIZE];
    if (!file_join(path, registry_home(registry), "fedgate.yaml", error))
        return false;
    if (file_exists(path)) {
        Error broken = ERROR_INIT;
        OWNED(Config, config_free) *config = config_load(path, NULL, 0, NULL, &broken);
        if (!config) {
            if (!call->quiet)
                fprintf(stderr,
                        "fedgate: ignoring the configuration, the account recorded in the home decides: %s\n",
                        broken.message);
        } else if (!text_copy(ret_owner, 64, config_text(config, "owner"))) {
            return FAIL(error, ERROR_CONFIG, 0, "name of the owner in '%s' is longer than 63 bytes", path);
        }
    }
    if (!registry_check_owner(registry, ret_owner, action, error))
        return false;
    return !*ret_owner || !could_be_forged(path) || registry_check_owner(registry, "", action, error);
}
