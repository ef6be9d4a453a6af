// cmd_config - `fedgate config show|check|sample|failures|manual`.
#include "cli.h"
#include <fedgate/gate.h>
#include <fedgate/remote.h>
#include <fedgate/report.h>

static void print(void (*write)(Text *out))
{
    SCOPED_TEXT text;
    text_init(&text, 4u << 20);
    write(&text);
    output_text(&text);
}

static bool show(const Invocation *call, Error *error)
{
    OWNED(Config, config_free) *config = call_config(call, error);
    if (!config)
        return false;
    if (call->json) {
        OWNED(Json, json_free) *object = config_to_json(config, 0);
        output_json(object);
        return true;
    }
    SCOPED_TEXT text;
    text_init(&text, 4u << 20);
    config_dump(config, &text);
    output_text(&text);
    return true;
}

static bool check(const Invocation *call, Error *error)
{
    OWNED(Config, config_free) *config = call_config(call, error);
    if (!config || !config_check_needed(config, error) || !gate_check_policy(config, error) ||
        !remote_check_config(config, error))
        return false;
    Digest digest;
    char hex[DIGEST_HEX_SIZE];
    config_policy_digest(config, &digest);
    digest_hex(&digest, hex);
    SCOPED_TEXT text;
    text_init(&text, 64 * 1024);
    if (call->json) {
        OWNED(Json, json_free) *object = json_make_object();
        json_put_text(object, "schema", "fedgate.config_check/1");
        json_put_bool(object, "valid", true);
        json_put_text(object, "file", *config_path(config) ? config_path(config) : NULL);
        json_put_text(object, "policy_digest", hex);
        output_json(object);
    } else if (!call->quiet) {
        text_add_format(&text, "valid: %s, policy %.16s\n",
                        *config_path(config) ? config_path(config) : "defaults", hex);
        output_text(&text);
    }
    return true;
}

static bool sample(const Invocation *call, Error *error)
{
    (void)call, (void)error;
    print(config_sample);
    return true;
}

static bool manual(const Invocation *call, Error *error)
{
    (void)call, (void)error;
    print(config_manual);
    return true;
}

static bool failures(const Invocation *call, Error *error)
{
    (void)error;
    if (call->json) {
        OWNED(Json, json_free) *object = report_failures_json();
        output_json(object);
    } else {
        print(option_value(call, "markdown") ? report_failures_markdown : report_failures_text);
    }
    return true;
}

static const struct { const char *name; bool (*action)(const Invocation *, Error *); } actions[] = {
    {"show", show}, {"check", check}, {"sample", sample}, {"failures", failures}, {"manual", manual}};
enum { ACTION_COUNT = sizeof actions / sizeof actions[0] };

bool cmd_config(const Invocation *call, int *ret_exit, Error *error)
{
    *ret_exit = 0;
    const char *names[ACTION_COUNT];
    for (size_t i = 0; i < ACTION_COUNT; i++) {
        if (text_equal(actions[i].name, call->arguments[0]))
            return actions[i].action(call, error);
        names[i] = actions[i].name;
    }
    const char *nearest = text_nearest(call->arguments[0], names, ACTION_COUNT);
    (void)FAIL(error, ERROR_USAGE, 0, "unknown: 'config %s', known are %s", call->arguments[0],
               call->command->usage);
    return nearest ? error_hint(error, "Did you mean 'config %s'?", nearest) : false;
}
