// cmd_history - `fedgate history`: every move, newest first; a broken chain is 13 and names the first record
// that differs.
#include "cli.h"
#include <fedgate/report.h>
#include <stdlib.h>

// Versions that were live and are pruned, each once.
static bool list_pruned(const Registry *registry, const PointerRecord *records, size_t count,
                        Json *ret_pruned, Text *ret_text, Error *error)
{
    for (size_t i = 0; i < count; i++) {
        bool seen = false, pruned;
        char when[CLOCK_TIME_SIZE];
        for (size_t k = 0; k < i && !seen; k++)
            seen = text_equal(records[k].to, records[i].to);
        if (seen)
            continue;
        if (!registry_is_pruned(registry, records[i].to, &pruned, when, error))
            return false;
        if (!pruned)
            continue;
        Json *row = json_make_object();
        json_put_text(row, "version", records[i].to);
        json_put_text(row, "time", when);
        json_add(ret_pruned, row);
        text_add_format(ret_text, "pruned on %s: %s\n", when, records[i].to);
    }
    return true;
}

bool cmd_history(const Invocation *call, int *ret_exit, Error *error)
{
    *ret_exit = 0;
    OWNED(Registry, registry_close) *registry = call_registry(call, error);
    PointerRecord *records = NULL;
    size_t count = 0;
    if (!registry || !registry_history(registry, &records, &count, error))
        return false;
    Json *pruned = json_make_array();
    SCOPED_TEXT text;
    text_init(&text, 64u << 20);
    report_history_text(records, count, &text);
    OWNED(Json, json_free) *object = report_history_json(records, count);
    bool done = list_pruned(registry, records, count, pruned, &text, error);
    json_put(object, "pruned", pruned);
    free(records);
    if (done && call->json)
        output_json(object);
    else if (done)
        output_text(&text);
    return done;
}
