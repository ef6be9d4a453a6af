// cmd_judge - `fedgate judge EVIDENCE...`: the judgement again, from files alone; the same evidence and
// policy, the same bytes.
//
// The policy is that of --config or the home's configuration, with --policy FILE over it. One evidence file
// gives the bare judgement as JSON, several an array naming each file.
#include "cli.h"
#include <fedgate/gate.h>
#include <fedgate/report.h>

// From good to bad: a night that could not be judged is better than a refused one.
static const int exit_order[] = {0, 11, 10};

static int worse(int a, int b)
{
    for (size_t i = sizeof exit_order / sizeof exit_order[0]; i > 0; i--)
        if (a == exit_order[i - 1] || b == exit_order[i - 1])
            return exit_order[i - 1];
    BUG("judgement ended %d and %d", a, b);
}

static Config *policy_of(const Invocation *call, Error *error)
{
    Config *config = call_config(call, error);
    const char *file = option_value(call, "policy");
    if (config && file) {
        Config *policy = config_load_policy(config, file, error);
        config_free(config);
        config = policy;
    }
    if (config && !gate_check_policy(config, error)) {
        config_free(config);
        config = NULL;
    }
    return config;
}

static Json *judge_file(const char *path, const Config *policy, Error *error)
{
    OWNED(Json, json_free) *evidence = json_read_file(path, EVIDENCE_MAX_BYTES, error);
    if (!evidence)
        return NULL;
    const char *schema = json_text_or(json_get(evidence, "schema"), "");
    if (!text_equal(schema, EVIDENCE_SCHEMA)) {
        (void)FAIL(error, ERROR_DATA, 0, "file '%s' is not evidence: its schema is '%.60s', wanted '%s'",
                   path, schema, EVIDENCE_SCHEMA);
        return NULL;
    }
    return gate_judge(evidence, policy, JUDGE_EARLY);
}

static void print_one(const Invocation *call, const char *path, const Json *judgement)
{
    SCOPED_TEXT text;
    text_init(&text, 1u << 20);
    if (call->argument_count > 1)
        text_add_format(&text, "%s\n", path);
    report_judgement_text(judgement, &text);
    output_text(&text);
}

bool cmd_judge(const Invocation *call, int *ret_exit, Error *error)
{
    OWNED(Config, config_free) *policy = policy_of(call, error);
    if (!policy)
        return false;
    OWNED(Json, json_free) *all = json_make_array();
    int exit_code = 0;
    for (size_t i = 0; i < call->argument_count; i++) {
        const char *path = call->arguments[i];
        OWNED(Json, json_free) *judgement = judge_file(path, policy, error);
        if (!judgement)
            return false;
        exit_code = worse(exit_code, gate_exit_code(judgement));
        if (!call->json) {
            print_one(call, path, judgement);
        } else if (call->argument_count == 1) {
            output_json(judgement);
        } else {
            Json *row = json_make_object();
            json_put_text(row, "file", path);
            json_put(row, "judgement", json_copy_deep(judgement));
            json_add(all, row);
        }
    }
    if (call->json && call->argument_count > 1)
        output_json(all);
    *ret_exit = exit_code;
    return true;
}
