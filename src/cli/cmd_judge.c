// cmd_judge - `fedgate judge EVIDENCE...`: the judgement again, from files alone; the same evidence and
// policy, the same bytes.
//
// The policy is that of --config or the home's configuration, with --policy FILE over it. One night, a file
// or a run directory, gives its judgement; several, or a home, a list that compares each with the verdict
// beside it: which would have ended otherwise, and why.
#include "cli.h"
#include "judge_stored.h"

#include <fedgate/report.h>
#include <stdlib.h>

enum { EXIT_UNREADABLE = 65, LIST_TEXT_BYTES = 16 * 1000 * 1000 };

// From good to bad: a night that could not be judged is better than a refused one, and both than none.
static const int exit_order[] = {0, 11, 10, EXIT_UNREADABLE};

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

static bool judge_one(const Invocation *call, const char *path, const Config *policy, int *ret_exit,
                      Error *error)
{
    OWNED(Json, json_free) *evidence = stored_read(path, error);
    if (!evidence)
        return false;
    OWNED(Json, json_free) *judgement = gate_judge(evidence, policy, JUDGE_EARLY);
    SCOPED_TEXT text;
    text_init(&text, 1u << 20);
    if (call->json) {
        output_json(judgement);
    } else {
        report_judgement_text(judgement, &text);
        output_text(&text);
    }
    *ret_exit = gate_exit_code(judgement);
    return true;
}

// One row of the list; ret_exit: 0, 10, 11 by the judgement, 65 when there is nothing to judge.
static Json *judge_row(const StoredNight *night, const Config *policy, int *ret_exit)
{
    Error error = ERROR_INIT;
    *ret_exit = 0;
    bool never_judged = night->of_home && !file_exists(night->evidence);
    OWNED(Json, json_free) *evidence = never_judged ? NULL : stored_read(night->evidence, &error);
    if (evidence) {
        OWNED(Json, json_free) *judgement = gate_judge(evidence, policy, JUDGE_EARLY);
        OWNED(Json, json_free) *verdict = stored_verdict(night->evidence);
        *ret_exit = gate_exit_code(judgement);
        return stored_compare(night->evidence, evidence, judgement, verdict);
    }
    Json *row = json_make_object();
    json_put_text(row, "file", night->evidence);
    json_put_text(row, never_judged ? "skipped" : "error",
                  never_judged ? "the run ended before it had evidence" : error.message);
    *ret_exit = never_judged ? 0 : EXIT_UNREADABLE;
    return row;
}

static void judge_list(const Invocation *call, const StoredNight *nights, size_t count, const Config *policy,
                       int *ret_exit)
{
    OWNED(Json, json_free) *rows = json_make_array();
    *ret_exit = 0;
    for (size_t i = 0; i < count; i++) {
        int code;
        json_add(rows, judge_row(&nights[i], policy, &code));
        *ret_exit = worse(*ret_exit, code);
    }
    SCOPED_TEXT text;
    text_init(&text, LIST_TEXT_BYTES);
    if (call->json) {
        output_json(rows);
    } else {
        report_judged_text(rows, &text);
        output_text(&text);
    }
}

bool cmd_judge(const Invocation *call, int *ret_exit, Error *error)
{
    OWNED(Config, config_free) *policy = policy_of(call, error);
    StoredNight *nights = NULL;
    size_t count = 0;
    if (!policy || !stored_find(call->arguments, call->argument_count, &nights, &count, error))
        return false;
    bool one = call->argument_count == 1 && count == 1 && !nights[0].of_home, good = true;
    if (one)
        good = judge_one(call, nights[0].evidence, policy, ret_exit, error);
    else
        judge_list(call, nights, count, policy, ret_exit);
    free(nights);
    return good;
}
