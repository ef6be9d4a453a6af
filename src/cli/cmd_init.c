// cmd_init - `fedgate init`: a home with folders, configuration, database and schema; completes what is
// missing.
#include "cli.h"
#include <fedgate/process.h>
#include <fedgate/telemetry.h>

static bool place_config(const Invocation *call, const char *home, Text *done, Error *error)
{
    char path[FILE_PATH_SIZE];
    if (!file_join(path, home, "fedgate.yaml", error))
        return false;
    if (file_exists(path)) {
        text_add_format(done, "kept   %s%s\n", path, call->config_path ? " (--config was not copied)" : "");
        return true;
    }
    if (call->config_path) {
        if (!file_copy_new(call->config_path, path, 0640, error))
            return error_prefix(error, "configuration '%s'", call->config_path);
    } else {
        SCOPED_TEXT sample;
        text_init(&sample, 1u << 20);
        config_sample(&sample);
        if (!text_ok(&sample, error) ||
            !file_write_new(path, text_string(&sample), sample.length, 0640, error))
            return false;
    }
    text_add_format(done, "wrote  %s\n", path);
    return true;
}

static bool prepare_database(const Config *config, const char *home, Text *done, Error *error)
{
    char migrations[FILE_PATH_SIZE];
    int applied;
    if (!share_migrations(migrations, error) || !telemetry_create(config, home, clock_real(), error))
        return false;
    OWNED(Telemetry, telemetry_close) *telemetry = telemetry_connect(config, home, clock_real(), error);
    if (!telemetry || !telemetry_migrate(telemetry, migrations, &applied, error))
        return false;
    text_add_format(done, "ready  database, %d migrations applied now\n", applied);
    return true;
}

bool cmd_init(const Invocation *call, int *ret_exit, Error *error)
{
    *ret_exit = 0;
    const char *home, *owner = option_value(call, "owner");
    if (!call_home(call, &home, error))
        return false;
    uid_t uid;
    gid_t gid;
    if (owner && !process_find_account(owner, &uid, &gid, error))
        return false;
    // Read before anything is made: a configuration that is refused leaves no half-made home behind. One that
    // is already in the home stays in force, whatever --config says.
    Invocation in_force = *call;
    char kept[FILE_PATH_SIZE];
    if (!file_join(kept, home, "fedgate.yaml", error))
        return false;
    if (file_exists(kept))
        in_force.config_path = NULL;
    OWNED(Config, config_free) *config = call_config(&in_force, error);
    if (!config)
        return false;
    if (!owner)
        owner = *config_text(config, "owner") ? config_text(config, "owner") : process_account();
    SCOPED_TEXT done;
    text_init(&done, 64 * 1024);
    if (!registry_create(home, owner, clock_real(), error))
        return false;
    text_add_format(&done, "ready  home %s, owner %s\n", home, owner);
    bool ok = place_config(call, home, &done, error) && prepare_database(config, home, &done, error);
    if (ok && !config_given(config, "model"))
        text_add_format(&done, "next   set model and data in %s, then: fedgate run --home %s\n", kept, home);
    else if (ok)
        text_add_format(&done, "next   fedgate run --home %s\n", home);
    if (!call->quiet)
        output_text(&done);
    return ok;
}
