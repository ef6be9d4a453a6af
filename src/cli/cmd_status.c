// cmd_status - `fedgate status`: one line and a Nagios exit code; what cannot be read is UNKNOWN (3), never
// an error code.
#include "cli.h"
#include <fedgate/report.h>

enum { VERDICT_BYTES = 16 * 1000 * 1000, STATUS_UNKNOWN = 3 };

static bool look(const Invocation *call, int64_t max_age_ns, Text *line, int *ret_status, Error *error)
{
    OWNED(Registry, registry_close) *registry = call_registry(call, error);
    char path[FILE_PATH_SIZE];
    HoldState hold;
    if (!registry || !registry_hold_state(registry, &hold, error) ||
        !file_join(path, registry_home(registry), "last-verdict.json", error))
        return false;
    OWNED(Json, json_free) *verdict = NULL;
    if (file_exists(path) && !(verdict = json_read_file(path, VERDICT_BYTES, error)))
        return false;
    SCOPED_TEXT moved;
    text_init(&moved, 1024);
    if (verdict && !call_refresh_live(registry, verdict, &moved, error))
        return false;
    *ret_status = report_status(verdict, &hold, moved.length > 0 ? text_string(&moved) : NULL,
                                clock_wall_ns(clock_real()), max_age_ns, line);
    return true;
}

bool cmd_status(const Invocation *call, int *ret_exit, Error *error)
{
    const char *age = option_value(call, "max-age");
    int64_t max_age_ns;
    if (!parse_duration(age ? age : "26h", &max_age_ns, error))
        return error_prefix(error, "option '--max-age'");
    SCOPED_TEXT line;
    text_init(&line, 64 * 1024);
    Error unknown = ERROR_INIT;
    if (!look(call, max_age_ns, &line, ret_exit, &unknown)) {
        *ret_exit = STATUS_UNKNOWN;
        text_clear(&line);
        text_add(&line, "FEDGATE UNKNOWN - ");
        text_add_escaped(&line, unknown.message);
        text_add_char(&line, '\n');
    }
    if (call->json) {
        static const char *const words[] = {"OK", "WARNING", "CRITICAL", "UNKNOWN"};
        OWNED(Json, json_free) *object = json_make_object();
        json_put_text(object, "schema", "fedgate.status/1");
        json_put_text(object, "status", words[*ret_exit]);
        json_put_integer(object, "code", *ret_exit);
        if (line.length > 0 && line.data[line.length - 1] == '\n')
            line.data[--line.length] = '\0';
        json_put_text(object, "line", text_string(&line));
        output_json(object);
    } else if (!call->quiet || *ret_exit != 0) {
        output_text(&line);
    }
    return true;
}
