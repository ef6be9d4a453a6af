// cmd_history - `fedgate history`: every move, newest first; a broken chain is 13 and names the first record
// that differs.
#include "cli.h"
#include <fedgate/report.h>
#include <stdlib.h>

bool cmd_history(const Invocation *call, int *ret_exit, Error *error)
{
    *ret_exit = 0;
    OWNED(Registry, registry_close) *registry = call_registry(call, error);
    PointerRecord *records = NULL;
    size_t count = 0;
    if (!registry || !registry_history(registry, &records, &count, error))
        return false;
    if (call->json) {
        OWNED(Json, json_free) *object = report_history_json(records, count);
        output_json(object);
    } else {
        SCOPED_TEXT text;
        text_init(&text, 64u << 20);
        report_history_text(records, count, &text);
        output_text(&text);
    }
    free(records);
    return true;
}
