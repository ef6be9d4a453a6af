// cmd_current - `fedgate current`: what `current` names and the hold; `fedgate at TIME`: what it named then.
#include "cli.h"
#include <fedgate/report.h>

static void print_live(const Invocation *call, const PointerRecord *record, const HoldState *hold)
{
    if (call->json) {
        OWNED(Json, json_free) *object = report_current_json(record, hold);
        output_json(object);
        return;
    }
    SCOPED_TEXT text;
    text_init(&text, 64 * 1024);
    report_current_text(record, hold, &text);
    output_text(&text);
}

bool cmd_current(const Invocation *call, int *ret_exit, Error *error)
{
    *ret_exit = 0;
    OWNED(Registry, registry_close) *registry = call_registry(call, error);
    PointerRecord record;
    HoldState hold;
    bool any;
    if (!registry || !registry_current(registry, &any, &record, error) ||
        !registry_hold_state(registry, &hold, error))
        return false;
    print_live(call, any ? &record : NULL, &hold);
    return true;
}

bool cmd_at(const Invocation *call, int *ret_exit, Error *error)
{
    *ret_exit = 0;
    char when[64];
    bool two = call->argument_count > 1;
    if (!text_print(when, sizeof when, "%s%s%s", call->arguments[0], two ? " " : "",
                    two ? call->arguments[1] : ""))
        return FAIL(error, ERROR_USAGE, 0, "not a time: '%s'", call->arguments[0]);
    int64_t wall_ns;
    if (!clock_parse(when, &wall_ns)) {   // only a local time needs the configuration and its zone
        OWNED(Config, config_free) *config = call_config(call, error);
        if (!config || !parse_instant(when, config_text(config, "window.zone"), &wall_ns, error))
            return false;
    }
    OWNED(Registry, registry_close) *registry = call_registry(call, error);
    PointerRecord record;
    bool any;
    if (!registry || !registry_at(registry, wall_ns, &any, &record, error))
        return false;
    print_live(call, any ? &record : NULL, NULL);
    return true;
}
