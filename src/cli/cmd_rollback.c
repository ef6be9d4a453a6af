// cmd_rollback - `fedgate rollback`, `hold`, `unhold`: the owner's three commands; each needs the file system
// alone.
#include "cli.h"
#include <fedgate/report.h>

static bool take_reason(const Invocation *call, const char **ret_reason, Error *error)
{
    const char *reason = option_value(call, "reason");
    if (!reason || !*reason) {
        (void)FAIL(error, ERROR_USAGE, 0, "command '%s' needs --reason TEXT", call->command->name);
        return error_hint(error, "The reason is kept in the record; on-call and auditors read it.");
    }
    *ret_reason = reason;
    return true;
}

static bool print_state(const Invocation *call, const Registry *registry, Error *error)
{
    PointerRecord record;
    HoldState hold;
    bool any;
    if (!registry_current(registry, &any, &record, error) || !registry_hold_state(registry, &hold, error))
        return false;
    if (call->json) {
        OWNED(Json, json_free) *object = report_current_json(any ? &record : NULL, &hold);
        output_json(object);
    } else if (!call->quiet) {
        SCOPED_TEXT text;
        text_init(&text, 64 * 1024);
        report_current_text(any ? &record : NULL, &hold, &text);
        output_text(&text);
    }
    return true;
}

bool cmd_rollback(const Invocation *call, int *ret_exit, Error *error)
{
    *ret_exit = 0;
    const char *reason;
    char owner[64];
    PointerRecord record;
    OWNED(Registry, registry_close) *registry = NULL;
    return take_reason(call, &reason, error) && (registry = call_registry(call, error)) != NULL &&
           call_owner(call, registry, "rollback", owner, error) &&
           registry_rollback(registry, owner, option_value(call, "to"), reason, &record, error) &&
           print_state(call, registry, error);
}

bool cmd_hold(const Invocation *call, int *ret_exit, Error *error)
{
    *ret_exit = 0;
    const char *reason;
    char owner[64];
    OWNED(Registry, registry_close) *registry = NULL;
    return take_reason(call, &reason, error) && (registry = call_registry(call, error)) != NULL &&
           call_owner(call, registry, "hold", owner, error) &&
           registry_hold(registry, owner, reason, error) && print_state(call, registry, error);
}

bool cmd_unhold(const Invocation *call, int *ret_exit, Error *error)
{
    *ret_exit = 0;
    const char *reason;
    char owner[64];
    OWNED(Registry, registry_close) *registry = NULL;
    return take_reason(call, &reason, error) && (registry = call_registry(call, error)) != NULL &&
           call_owner(call, registry, "unhold", owner, error) &&
           registry_unhold(registry, owner, option_value(call, "unbar"), reason, error) &&
           print_state(call, registry, error);
}
