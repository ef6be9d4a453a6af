// cmd_migrate - `fedgate migrate`: the schema forward to this program's version; a newer one is 78 with
// nothing written.
#include "cli.h"
#include <fedgate/telemetry.h>

bool cmd_migrate(const Invocation *call, int *ret_exit, Error *error)
{
    *ret_exit = 0;
    OWNED(Registry, registry_close) *registry = call_registry(call, error);
    if (!registry)
        return false;
    OWNED(Config, config_free) *config = call_config(call, error);
    char migrations[FILE_PATH_SIZE];
    if (!config || !share_migrations(migrations, error))
        return false;
    const char *home = registry_home(registry);
    if (!telemetry_create(config, home, clock_real(), error))
        return false;
    OWNED(Telemetry, telemetry_close) *telemetry = telemetry_connect(config, home, clock_real(), error);
    int applied;
    if (!telemetry || !telemetry_migrate(telemetry, migrations, &applied, error))
        return false;
    SCOPED_TEXT text;
    text_init(&text, 16384);
    if (applied)
        text_add_format(&text, "%d migrations applied\n", applied);
    else
        text_add(&text, "nothing to do: the schema is up to date\n");
    text_add_format(&text, "psql \"%s\"\n", telemetry_where(telemetry));
    if (!call->quiet)
        output_text(&text);
    return true;
}
