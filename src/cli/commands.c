// commands - the table of commands: one row each, in the order of help.
//
// Adding a command is adding a row here, its name to COMMAND_HANDLERS and a file cmd_<name>.c.
#include "cli.h"

// clang-format off
const Command commands[] = {
    {.name = "init", .usage = "[--owner ACCOUNT]", .handler = cmd_init,
     .summary = "make a home: folders, configuration, database, migrations",
     .more = "With --config FILE that file becomes <home>/fedgate.yaml, else a commented sample does.\n"
             "A configuration that is already there is kept. Can be repeated: what is missing is made.\n",
     .options = {{"owner", "ACCOUNT", "account that alone may roll back and hold (default: this one)"}}},
    {.name = "run", .usage = "[--slot ID] [--retry] [--no-promote]", .handler = cmd_run,
     .summary = "the night: train, measure, judge, promote or refuse",
     .more = "Ends 0 promoted (or passed), 10 refused, 11 could not judge, 12 reverted, 13 inconsistent,\n"
             "64 usage, 65 bad data, 69 unavailable, 70 our bug, 74 I/O, 75 busy, 77 not allowed,\n"
             "78 configuration. A refusal is a successful night of the gate: what was live stays live.\n",
     .options = {{"slot", "ID", "judge under this slot (default: local date of the deadline)"},
                 {"retry", NULL, "judge a slot that was judged already once more"},
                 {"no-promote", NULL, "judge, but leave the pointer alone and the slot open"}}},
    {.name = "verdict", .usage = "[latest|RUN|VERSION] [--format text|json|html]", .maximum = 1,
     .handler = cmd_verdict, .html = true,
     .summary = "what was decided and why; reads files only"},
    {.name = "status", .usage = "[--max-age 26h]", .handler = cmd_status,
     .summary = "one line for monitoring: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN",
     .options = {{"max-age", "DURATION", "oldest verdict that is still good (default 26h)"}}},
    {.name = "current", .usage = "", .handler = cmd_current,
     .summary = "what is live now"},
    {.name = "history", .usage = "", .handler = cmd_history,
     .summary = "every move: who, from, to, why; newest first"},
    {.name = "at", .usage = "TIME", .minimum = 1, .maximum = 2, .handler = cmd_at,
     .summary = "what was live at that time",
     .more = "TIME is RFC 3339 (2026-11-30T04:00:00+01:00), or 'YYYY-MM-DD' or 'YYYY-MM-DD HH:MM' in\n"
             "window.zone.\n"},
    {.name = "rollback", .usage = "[--to VERSION] --reason TEXT", .handler = cmd_rollback,
     .summary = "put an earlier release back and hold; the named owner only",
     .more = "Needs no database, network or GPU. Without --to: the last good release before this one, else\n"
             "the named baseline. Bars the release it leaves, so that no night puts it back.\n",
     .options = {{"to", "VERSION", "release that was live before, or the baseline"},
                 {"reason", "TEXT", "why; kept in the record"}}},
    {.name = "hold", .usage = "--reason TEXT", .handler = cmd_hold,
     .summary = "stop promotions; nights still run and judge; owner only",
     .options = {{"reason", "TEXT", "why; shown in every verdict"}}},
    {.name = "unhold", .usage = "[--unbar VERSION] --reason TEXT", .handler = cmd_unhold,
     .summary = "allow promotions again; owner only",
     .more = "With --unbar only that release's bar is lifted and the hold stays.\n",
     .options = {{"unbar", "VERSION", "lift the bar of this release"},
                 {"reason", "TEXT", "why; kept in the record"}}},
    {.name = "pin", .usage = "VERSION --reason TEXT", .minimum = 1, .maximum = 1, .handler = cmd_pin,
     .summary = "keep a release from being pruned; owner only",
     .options = {{"reason", "TEXT", "why; kept in the record"}}},
    {.name = "unpin", .usage = "VERSION --reason TEXT", .minimum = 1, .maximum = 1, .handler = cmd_unpin,
     .summary = "let prune have a pinned release again; owner only",
     .options = {{"reason", "TEXT", "why; kept in the record"}}},
    {.name = "prune", .usage = "[--keep N] [--runs N] [--spool] [--dry-run]", .handler = cmd_prune,
     .summary = "remove releases nobody can go back to; nightly account only",
     .more = "Kept for ever: what is live, the last known-good, one more good, pinned, named baseline,\n"
             "barred until the bar is lifted, and what a slot that is not judged goes on with. Ends 75\n"
             "while a night runs. Cut at any moment it leaves every release whole or gone; the next start\n"
             "ends it. Candidates in failed/ stay; runs and spools unless --runs or --spool is given.\n",
     .options = {{"keep", "N", "good models to go back to (default and least 2)"},
                 {"runs", "N", "but for the newest N, keep verdict, evidence, record"},
                 {"spool", NULL, "remove spools of which the database has every row"},
                 {"dry-run", NULL, "say what would be removed; change nothing"}}},
    {.name = "export", .usage = "VERSION FILE", .minimum = 2, .maximum = 2, .handler = cmd_export,
     .summary = "a sealed release as one file (tar), the same bytes each time",
     .more = "Holds statement.json, manifest.json and the files of the release. Ends 10 when FILE exists,\n"
             "65 when the release is not whole, not there or pruned. Nothing in it is signed: carry the\n"
             "printed SHA-256 another way when the file passes through other hands.\n"},
    {.name = "import", .usage = "FILE", .minimum = 1, .maximum = 1, .handler = cmd_import,
     .summary = "take an exported release in, pinned and not live; owner only",
     .more = "A release that was live here before can be gone back to (rollback --to); any other is a\n"
             "candidate until a night here seals the same bytes and promotes it. Refused with 65, nothing\n"
             "left: anything but the exact file that export writes, another model, a barred version, an\n"
             "export older than one imported from the same home. Digests find damage, not forgery.\n"},
    {.name = "plan", .usage = "[--against CONFIG|KEY=VALUE] [--all]", .handler = cmd_plan,
     .summary = "memory ledger, roofline and window of a night, with every substitution",
     .more = "Needs no home and no GPU. Ends 10 when it does not fit or cannot end in time.\n"
             "With --against: which lines move, by how much and through which term, when one input is\n"
             "changed (--against train.precision=bf16) or another file is taken; --set holds for both,\n"
             "the exit code is the first plan's. It is a prediction that a night can be held to: its\n"
             "evidence shows planned and measured bytes of each account (memory.accounts).\n",
     .options = {{"against", "CONFIG", "the plan of this file, or of one option changed, beside it"},
                 {"all", NULL, "with --against: show the lines that stay as well"}}},
    {.name = "judge", .usage = "EVIDENCE... [--policy FILE]", .minimum = 1, .maximum = -1,
     .handler = cmd_judge,
     .summary = "repeat judgements from stored evidence, perhaps with another policy",
     .more = "EVIDENCE is an evidence file (.json, .json.gz), a run directory (HOME/runs/RUN) or a home:\n"
             "all its runs. One night: its judgement. Several: a line each beside the verdict stored with\n"
             "it, which would have ended otherwise, and through which check; as JSON an array. Limits are\n"
             "those of --config, else of the home given by --home, and over them --policy.\n"
             "Ends 0 when all pass, 65 when any cannot be read, else 10 when one is refused, else 11. Late\n"
             "checks (telemetry, end of the window) are left out.\n",
     .options = {{"policy", "FILE", "take the judges' limits from this file"}}},
    {.name = "inspect", .usage = "TRACE... [--svg FILE]", .minimum = 1, .maximum = -1,
     .handler = cmd_inspect, .light = true,
     .summary = "stored profiler traces: was copying hidden by computing, step after step?",
     .more = "Reads Kineto and Chrome trace JSON, old and new, plain or .gz, and a night's own\n"
             "timeline.json; needs no home, GPU or network. One entry for each device of a trace. The\n"
             "verdict is that of the check 'overlap' over the steps after warm-up: --set overlap.floor=0.6\n"
             "asks for less. Prints no text that a trace holds. Ends 0 sustained, 10 not sustained, 11\n"
             "cannot tell (inconclusive, no copies, untrusted), 65 not a trace; of several the worst in\n"
             "the order 65, 10, 11, 0.\n",
     .options = {{"svg", "FILE", "draw the timeline of one trace"}}},
    {.name = "verify", .usage = "[VERSION]", .maximum = 1, .handler = cmd_verify,
     .summary = "hash releases again and walk the record of moves; 0 whole, 13 not"},
    {.name = "migrate", .usage = "", .handler = cmd_migrate,
     .summary = "bring the database schema to this program's version"},
    {.name = "doctor", .usage = "", .handler = cmd_doctor,
     .summary = "look at home, configuration, owner, database, disk, data; say what to do"},
    {.name = "watch", .usage = "[--once]", .handler = cmd_watch,
     .summary = "follow a running night from another terminal",
     .options = {{"once", NULL, "print one line and end"}}},
    {.name = "pack", .usage = "[--out DIR] [--shard-rows N] [CSV...]", .maximum = -1, .handler = cmd_pack,
     .summary = "turn CSV files into packed shards (safetensors) that train to the same bits",
     .more = "Reads data.train and data.test as a night would, or the named files in place of data.train,\n"
             "with the columns, labels and missing marks of the configuration; writes\n"
             "train-00000-of-00001.safetensors and so on, all of them or none. Name these in data.train and\n"
             "data.test: the model has the same bits, its version another data digest. The cutoff is\n"
             "applied by the night, not here. Any safetensors reader opens them; see README.md.\n"
             "Ends 0 packed or there already, 10 other shards are there, 64 usage, 65 bad data, 74 I/O,\n"
             "78 configuration.\n",
     .options = {{"out", "DIR", "folder for the shards (default: packed)"},
                 {"shard-rows", "N", "most rows of a shard (default: some 256 MB)"}}},
    {.name = "config", .usage = "show|check|sample|failures|manual", .minimum = 1, .maximum = 1,
     .handler = cmd_config,
     .summary = "configuration: in force, valid, to start from; what can fail",
     .more = "show      every option with its value and where it came from\n"
             "check     read it as a night would; 78 names file, line, value and limit\n"
             "sample    a commented file with every option\n"
             "failures  each check's failure mode, detector, owner, mitigation and stop condition\n"
             "manual    every option as a Markdown table\n",
     .options = {{"markdown", NULL, "failures as the table of ops/runbook.md"}}},
    {.name = "help", .usage = "[COMMAND]", .maximum = 1, .handler = cmd_help,
     .summary = "this, or the help of a command"},
};
// clang-format on

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
