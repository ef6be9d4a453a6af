// cmd_run - `fedgate run`: the night; verdict on stdout, its sentence as the last line on stderr.
//
// With --quiet nothing at all is printed when the night ended 0, so that cron mails only what needs a person
// (a verdict that could not be written does); else the verdict goes to stderr before the sentence.
#include "cli.h"
#include <fedgate/gate.h>
#include <fedgate/night.h>
#include <fedgate/report.h>
#include <unistd.h>

static void print_verdict(const Invocation *call, const Json *verdict)
{
    SCOPED_TEXT text;
    text_init(&text, 1u << 20);
    if (call->quiet) {
        report_verdict_text(verdict, &text);
        fputs(text_string(&text), stderr);
    } else if (call->json) {
        output_json(verdict);
    } else {
        report_verdict_text(verdict, &text);
        output_text(&text);
    }
}

bool cmd_run(const Invocation *call, int *ret_exit, Error *error)
{
    const char *home = NULL;
    if (!call_home(call, &home, error))
        return false;
    OWNED(Registry, registry_close) *registry =
        call_registry(call, error);   // not a home: said before anything else
    if (!registry)
        return false;
    OWNED(Config, config_free) *config = call_config(call, error);
    if (!config || !config_check_needed(config, error) || !gate_check_policy(config, error))
        return false;
    char migrations[FILE_PATH_SIZE];
    if (!share_migrations(migrations, error))
        return false;
    NightOptions options = {
        .home = home,
        .slot = option_value(call, "slot"),
        .retry = option_value(call, "retry") != NULL,
        .no_promote = option_value(call, "no-promote") != NULL,
        .quiet = call->quiet,
        .migrations = migrations,
        .terminal = !call->quiet && isatty(STDERR_FILENO) == 1,
    };
    NightResult result = {0};
    if (!night_run(config, &options, clock_real(), &result, error))
        return false;
    *ret_exit = result.exit_code;
    if (!call->quiet || result.exit_code != 0 || result.unwritten) {
        if (result.verdict)
            print_verdict(call, result.verdict);
        fflush(stdout);
        fprintf(stderr, "%s\n", result.sentence);
    }
    night_result_done(&result);
    return true;
}
