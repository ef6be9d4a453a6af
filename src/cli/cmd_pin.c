// cmd_pin - `fedgate pin VERSION`, `unpin VERSION`: the owner keeps a release from being pruned, or no
// longer.
#include "cli.h"

static bool change(const Invocation *call, bool pinned, Error *error)
{
    const char *version = call->arguments[0], *reason = option_value(call, "reason");
    const char *action = pinned ? "pin" : "unpin";
    char owner[64];
    if (!reason || !*reason) {
        (void)FAIL(error, ERROR_USAGE, 0, "command '%s' needs --reason TEXT", action);
        return error_hint(error, "The reason is kept in the record; on-call and auditors read it.");
    }
    OWNED(Registry, registry_close) *registry = call_registry(call, error);
    if (!registry || !call_owner(call, registry, action, owner, error) ||
        !(pinned ? registry_pin(registry, owner, version, reason, error)
                 : registry_unpin(registry, owner, version, reason, error)))
        return false;
    SCOPED_TEXT text;
    text_init(&text, 512);
    text_add_format(&text, "%s %s\n", version,
                    pinned ? "is pinned: no prune removes it" : "is pinned no more");
    OWNED(Json, json_free) *object = json_make_object();
    json_put_text(object, "schema", "fedgate.pin/1");
    json_put_text(object, "version", version);
    json_put_bool(object, "pinned", pinned);
    if (call->json)
        output_json(object);
    else if (!call->quiet)
        output_text(&text);
    return true;
}

bool cmd_pin(const Invocation *call, int *ret_exit, Error *error)
{
    *ret_exit = 0;
    return change(call, true, error);
}

bool cmd_unpin(const Invocation *call, int *ret_exit, Error *error)
{
    *ret_exit = 0;
    return change(call, false, error);
}
