// commands - the table of commands: one row each, in the order of help.
//
// Adding a command is adding a row here, its name to COMMAND_HANDLERS and a file cmd_<name>.c.
#include "cli.h"

const Command commands[] = {
    {"init", "[--owner ACCOUNT]", "make a home: folders, configuration, database, migrations",
     "With --config FILE that file becomes <home>/fedgate.yaml, else a commented sample does.\n"
     "A configuration that is already there is kept. Can be repeated: what is missing is made.\n",
     0, 0, {{"owner", "ACCOUNT", "account that alone may roll back, hold and unhold (default: this one)"}}, cmd_init},
    {"run", "[--slot ID] [--retry] [--no-promote]", "the night: train, measure, judge, promote or refuse",
     "Ends 0 promoted (or passed), 10 refused, 11 could not judge, 12 reverted, 13 inconsistent,\n"
     "64 usage, 65 bad data, 69 unavailable, 70 our bug, 74 I/O, 75 busy, 77 not allowed, 78 configuration.\n"
     "A refusal is a successful night of the gate: what was live stays live.\n",
     0, 0, {{"slot", "ID", "judge under this slot (default: local date of the deadline)"},
            {"retry", NULL, "judge a slot that was judged already once more"},
            {"no-promote", NULL, "judge, but leave the pointer alone and the slot open"}}, cmd_run},
    {"verdict", "[latest|RUN|VERSION]", "what was decided and why; reads files only", NULL, 0, 1, {{0}}, cmd_verdict},
    {"status", "[--max-age 26h]", "one line for monitoring: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN", NULL,
     0, 0, {{"max-age", "DURATION", "oldest verdict that is still good (default 26h)"}}, cmd_status},
    {"current", "", "what is live now", NULL, 0, 0, {{0}}, cmd_current},
    {"history", "", "every move: who, from, to, why; newest first", NULL, 0, 0, {{0}}, cmd_history},
    {"at", "TIME", "what was live at that time",
     "TIME is RFC 3339 (2026-11-30T04:00:00+01:00), or 'YYYY-MM-DD' or 'YYYY-MM-DD HH:MM' in window.zone.\n",
     1, 2, {{0}}, cmd_at},
    {"rollback", "[--to VERSION] --reason TEXT", "put an earlier release back and hold; the named owner only",
     "Needs no database, network or GPU. Without --to: the last good release before this one, else the\n"
     "named baseline. Bars the release it leaves, so that no night puts it back.\n",
     0, 0, {{"to", "VERSION", "release that was live before, or the baseline"}, {"reason", "TEXT", "why; kept in the record"}}, cmd_rollback},
    {"hold", "--reason TEXT", "stop promotions; nights still run and judge; owner only", NULL,
     0, 0, {{"reason", "TEXT", "why; shown in every verdict"}}, cmd_hold},
    {"unhold", "[--unbar VERSION] --reason TEXT", "allow promotions again; owner only",
     "With --unbar only that release's bar is lifted and the hold stays.\n",
     0, 0, {{"unbar", "VERSION", "lift the bar of this release"}, {"reason", "TEXT", "why; kept in the record"}}, cmd_unhold},
    {"plan", "", "memory ledger, roofline and window of a night, with every substitution",
     "Needs no home and no GPU. Ends 10 when the plan does not fit.\n", 0, 0, {{0}}, cmd_plan},
    {"judge", "EVIDENCE... [--policy FILE]", "repeat judgements from stored evidence, perhaps with another policy",
     "Ends 0 when all pass, 10 when one is refused, else 11. Late checks (telemetry, end) are left out.\n",
     1, -1, {{"policy", "FILE", "take the judges' limits from this file"}}, cmd_judge},
    {"verify", "[VERSION]", "hash releases again and walk the record of moves; 0 whole, 13 not", NULL, 0, 1, {{0}}, cmd_verify},
    {"migrate", "", "bring the database schema to this program's version", NULL, 0, 0, {{0}}, cmd_migrate},
    {"doctor", "", "look at home, configuration, owner, database, disk, data; say what to do", NULL, 0, 0, {{0}}, cmd_doctor},
    {"watch", "[--once]", "follow a running night from another terminal", NULL,
     0, 0, {{"once", NULL, "print one line and end"}}, cmd_watch},
    {"config", "show|check|sample|failures|manual", "configuration: in force, valid, to start from; what can fail",
     "show      every option with its value and where it came from\n"
     "check     read it as a night would; 78 names file, line, value and limit\n"
     "sample    a commented file with every option\n"
     "failures  each check's failure mode, detector, owner, mitigation, stop (--markdown: the table of the runbook)\n"
     "manual    every option as a Markdown table\n",
     1, 1, {{"markdown", NULL, "failures as a Markdown table"}}, cmd_config},
    {"help", "[COMMAND]", "this, or the help of a command", NULL, 0, 1, {{0}}, cmd_help},
};

const size_t command_count = sizeof commands / sizeof commands[0];

const Command *command_find(const char *name)
{
    for (size_t i = 0; i < command_count; i++)
        if (text_equal(commands[i].name, name))
            return &commands[i];
    return NULL;
}

bool command_unknown(const char *name, Error *error)
{
    const char *candidates[64];
    size_t count = 0;
    for (size_t i = 0; i < command_count && count < 64; i++)
        candidates[count++] = commands[i].name;
    const char *nearest = text_nearest(name, candidates, count);
    (void)FAIL(error, ERROR_USAGE, 0, "unknown command '%s'", name);
    if (nearest)
        return error_hint(error, "Did you mean '%s'?", nearest);
    return error_hint(error, "Try 'fedgate help'.");
}
