// cmd_import - `fedgate import FILE`: a sealed release in; the owner's, and nothing is live by it.
#include "cli.h"

static void print_result(const Invocation *call, const ImportResult *result)
{
    char digest[DIGEST_HEX_SIZE];
    digest_hex(&result->release_digest, digest);
    if (call->json) {
        OWNED(Json, json_free) *object = json_make_object();
        json_put_text(object, "schema", "fedgate.import/1");
        json_put_text(object, "version", result->version);
        json_put_text(object, "release_digest", digest);
        json_put_text(object, "home", result->home);
        json_put_integer(object, "number", result->number);
        json_put_bool(object, "existed", result->existed);
        json_put_bool(object, "was_live", result->was_live);
        output_json(object);
    } else if (!call->quiet) {
        SCOPED_TEXT text;
        text_init(&text, 1024);
        text_add_format(&text, "release %s is %s, digest %s\n", result->version,
                        result->existed ? "here already" : "in, and pinned", digest);
        text_add(&text, result->was_live
                            ? "It was live here before: fedgate rollback --to can name it.\n"
                            : "It is a candidate: a night here that seals the same bytes may promote it.\n");
        output_text(&text);
    }
}

bool cmd_import(const Invocation *call, int *ret_exit, Error *error)
{
    *ret_exit = 0;
    char owner[64];
    ImportResult result;
    OWNED(Registry, registry_close) *registry = call_registry(call, error);
    if (!registry || !call_owner(call, registry, "import", owner, error) ||
        !registry_import(registry, owner, call->arguments[0], &result, error))
        return false;
    print_result(call, &result);
    return true;
}
