// cmd_prune - `fedgate prune`: removes releases nobody can go back to; files of runs and spools only when
// asked.
#include "cli.h"
#include <fedgate/telemetry.h>

// The database is asked once, when the first spool is looked at; every row of a run must be in it.
typedef struct Database {
    const Config *config;
    const Registry *registry;
    Telemetry *telemetry;
} Database;

static bool acknowledged(void *context, const char *run, bool *ret_acknowledged, Error *error)
{
    Database *database = context;
    const char *home = registry_home(database->registry);
    ShipResult shipped;
    if (!database->telemetry) {
        char migrations[FILE_PATH_SIZE];
        database->telemetry = telemetry_connect(database->config, home, clock_real(), error);
        if (!database->telemetry || !share_migrations(migrations, error) ||
            !telemetry_check_schema(database->telemetry, migrations, error) ||
            !telemetry_register_home(database->telemetry, config_text(database->config, "model"),
                                     registry_home_id(database->registry), error))
            return false;
    }
    if (!telemetry_ship(database->telemetry, home, run, &shipped, error))
        return false;
    *ret_acknowledged = shipped.complete && shipped.acknowledged == shipped.rows;
    return true;
}

static bool take_count(const Invocation *call, const char *option, int64_t fallback, int64_t minimum,
                       int64_t *ret_count, Error *error)
{
    const char *text = option_value(call, option);
    *ret_count = fallback;
    return !text || (text_to_int64(text, ret_count) && *ret_count >= minimum && *ret_count <= 1000000) ||
           FAIL(error, ERROR_USAGE, 0, "option '--%s' is '%.32s', wanted is a whole number from %lld", option,
                text, (long long)minimum);
}

static size_t count_pruned(const PruneResult *result)
{
    size_t pruned = 0;
    for (size_t i = 0; i < result->count; i++)
        pruned += result->entries[i].kept == NULL;
    return pruned;
}

static void print_text(const PruneResult *result, bool dry_run)
{
    SCOPED_TEXT text;
    text_init(&text, 1 << 20);
    size_t pruned = count_pruned(result);
    char bytes[32];
    if (result->report[0])
        text_add_format(&text, "recovery: %s\n", result->report);
    for (size_t i = 0; i < result->count; i++) {
        const PruneEntry *entry = &result->entries[i];
        text_from_count(bytes, (int64_t)entry->bytes);
        text_add_format(&text, "%-6s  %s  %s bytes%s%s\n", entry->kept ? "kept" : "pruned", entry->version,
                        bytes, entry->kept ? ", " : "", entry->kept ? entry->kept : "");
    }
    text_from_count(bytes, (int64_t)result->bytes);
    text_add_format(&text, "%s%zu kept, %zu pruned", dry_run ? "would be: " : "", result->count - pruned,
                    pruned);
    if (result->runs > 0 || result->spools > 0)
        text_add_format(&text, ", %zu runs thinned, %zu spools removed", result->runs, result->spools);
    text_add_format(&text, ", %s bytes freed\n", bytes);
    output_text(&text);
}

static void print_json(const PruneResult *result, bool dry_run)
{
    OWNED(Json, json_free) *object = json_make_object();
    Json *rows = json_make_array();
    json_put_text(object, "schema", "fedgate.prune/1");
    json_put_bool(object, "dry_run", dry_run);
    for (size_t i = 0; i < result->count; i++) {
        Json *row = json_make_object();
        json_put_text(row, "version", result->entries[i].version);
        json_put_integer(row, "bytes", (int64_t)result->entries[i].bytes);
        json_put_text(row, "kept", result->entries[i].kept);
        json_add(rows, row);
    }
    json_put(object, "releases", rows);
    json_put_integer(object, "pruned", (int64_t)count_pruned(result));
    json_put_integer(object, "runs", (int64_t)result->runs);
    json_put_integer(object, "spools", (int64_t)result->spools);
    json_put_integer(object, "bytes", (int64_t)result->bytes);
    json_put_text(object, "recovered", result->report);
    output_json(object);
}

bool cmd_prune(const Invocation *call, int *ret_exit, Error *error)
{
    *ret_exit = 0;
    PruneRequest request = {.dry_run = option_value(call, "dry-run") != NULL};
    if (!take_count(call, "keep", PRUNE_KEEP_MINIMUM, PRUNE_KEEP_MINIMUM, &request.keep, error) ||
        !take_count(call, "runs", -1, 0, &request.runs, error))
        return false;
    OWNED(Registry, registry_close) *registry = call_registry(call, error);
    OWNED(Config, config_free) *config = NULL;
    Database database = {.registry = registry};
    if (!registry)
        return false;
    if (option_value(call, "spool")) {
        if (!(config = call_config(call, error)))
            return false;
        database.config = config;
        request.acknowledged = acknowledged;
        request.context = &database;
    }
    PruneResult result;
    bool done = registry_prune(registry, &request, &result, error);
    telemetry_close(database.telemetry);
    if (!done)
        return false;
    if (call->json)
        print_json(&result, request.dry_run);
    else if (!call->quiet)
        print_text(&result, request.dry_run);
    registry_prune_done(&result);
    return true;
}
