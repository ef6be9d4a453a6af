// cmd_verify - `fedgate verify [VERSION]`: hashes again what is stored and walks the chain of moves; 0 or 13.
#include "cli.h"
#include <fedgate/night.h>

bool cmd_verify(const Invocation *call, int *ret_exit, Error *error)
{
    const char *home = NULL;
    if (!call_home(call, &home, error))
        return false;
    OWNED(Config, config_free) *config = call_config(call, error);
    if (!config)
        return false;
    SCOPED_TEXT report;
    text_init(&report, 16u << 20);
    if (!night_verify(config, home, call->argument_count ? call->arguments[0] : NULL, clock_real(), &report,
                      ret_exit, error))
        return false;
    if (call->json) {
        OWNED(Json, json_free) *object = json_make_object();
        json_put_text(object, "schema", "fedgate.verify/1");
        json_put_bool(object, "whole", *ret_exit == 0);
        json_put_text(object, "report", text_string(&report));
        output_json(object);
    } else if (!call->quiet || *ret_exit != 0) {
        output_text(&report);
    }
    return true;
}
