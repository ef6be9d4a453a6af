// cmd_inspect - `fedgate inspect TRACE...`: was copying hidden by computing in stored profiler traces? 0 yes,
// 10 no, 11 it cannot be told, 65 not a trace; of several files the worst in the order 65, 10, 11, 0.
//
// A file that is no trace is named on stderr and the others are still judged.
#include "cli.h"
#include <fedgate/timeline.h>

enum { EXIT_REFUSED = 10, EXIT_UNKNOWN = 11, EXIT_DATA = 65 };

typedef struct Session {
    const Invocation *call;
    OverlapLimits limits;
    Json *traces;
    const char *picture;   // --svg
    int exit_code, trouble;   // trouble: of files that could not be read at all
} Session;

// 65 goes before 10, 10 before 11, 11 before 0.
static int worse(int a, int b)
{
    static const int order[] = {EXIT_DATA, EXIT_REFUSED, EXIT_UNKNOWN};
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++)
        if (a == order[i] || b == order[i])
            return order[i];
    return 0;
}

static int exit_of(const Inspection *inspection)
{
    static const int codes[] = {
        [OVERLAP_SUSTAINED] = 0,
        [OVERLAP_NOT_SUSTAINED] = EXIT_REFUSED,
        [OVERLAP_INCONCLUSIVE] = EXIT_UNKNOWN,
        [OVERLAP_NO_COPIES] = EXIT_UNKNOWN,
        [OVERLAP_UNTRUSTED] = EXIT_UNKNOWN,
    };
    int code = 0;
    for (size_t i = 0; i < inspection_count(inspection); i++)
        code = worse(code, codes[inspection_word(inspection, i)]);
    return code;
}

static bool draw(const Session *session, const Inspection *inspection, Error *error)
{
    SCOPED_TEXT text;
    text_init(&text, 65u << 20);
    inspection_draw(inspection, &text);
    return text_ok(&text, error) &&
           file_write_atomic(session->picture, text_string(&text), text.length, 0644, error);
}

static bool inspect_file(Session *session, const char *path, Error *error)
{
    Error own = ERROR_INIT;
    OWNED(Inspection, inspection_free) *inspection = trace_inspect(path, &session->limits, &own);
    if (!inspection) {
        output_error(&own);
        if (own.kind == ERROR_DATA)
            session->exit_code = EXIT_DATA;
        else
            session->trouble = error_exit_code(own.kind);
        return true;
    }
    int code = exit_of(inspection);
    session->exit_code = worse(session->exit_code, code);
    if (session->call->json) {
        inspection_put_json(inspection, session->traces);
    } else if (!session->call->quiet || code != 0) {
        SCOPED_TEXT text;
        text_init(&text, 1u << 20);
        inspection_print(inspection, &text);
        output_text(&text);
    }
    return !session->picture || draw(session, inspection, error);
}

bool cmd_inspect(const Invocation *call, int *ret_exit, Error *error)
{
    OWNED(Config, config_free) *policy = call_config(call, error);
    if (!policy)
        return false;
    Session session = {
        .call = call,
        .limits = {.floor = config_real(policy, "overlap.floor"),
                   .steps = config_real(policy, "overlap.steps"),
                   .starved = config_real(policy, "overlap.starved"),
                   .pageable = config_real(policy, "overlap.pageable")},
        .picture = option_value(call, "svg"),
    };
    if (session.picture && call->argument_count > 1)
        return FAIL(error, ERROR_USAGE, 0, "option '--svg' draws one trace, %zu were given",
                    call->argument_count);
    OWNED(Json, json_free) *object = json_make_object();
    session.traces = json_make_array();
    json_put_text(object, "schema", "fedgate.inspect/1");
    json_put(object, "traces", session.traces);
    for (size_t i = 0; i < call->argument_count; i++)
        if (!inspect_file(&session, call->arguments[i], error))
            return false;
    *ret_exit = session.exit_code != EXIT_DATA && session.trouble ? session.trouble : session.exit_code;
    if (call->json && (!call->quiet || *ret_exit != 0))
        output_json(object);
    return true;
}
