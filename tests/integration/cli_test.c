// cli - the program's surface: help, names it does not know, configurations, the plan of the brief, exit
// codes on an empty home, and descriptors that are closed or full. No database, no device, no network.
#include "support.h"
#include <fcntl.h>
#include <fedgate/config.h>
#include <fedgate/file.h>
#include <fedgate/gate.h>
#include <fedgate/process.h>
#include <fedgate/registry.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const command_names[] = {
    "init",   "run",     "verdict", "status", "current", "history", "at",   "rollback", "hold",
    "unhold", "pin",     "unpin",   "prune",  "export",  "import",  "plan", "judge",    "inspect",
    "verify", "migrate", "doctor",  "watch",  "pack",    "config",  "help"};
enum { COMMAND_COUNT = sizeof command_names / sizeof command_names[0] };

static const char *const bad_folder = FEDGATE_SOURCE_DIR "/fixtures/configs/bad";

static bool says(const Text *text, const char *words)
{
    return strstr(text_string(text), words) != NULL;
}

START_TEST(help_lists_every_command_and_each_explains_itself)
{
    SupportRun all, one, other;
    SUPPORT_RUN(&all, "help");
    ck_assert_int_eq(all.exit_code, 0);
    size_t listed = 0;
    for (const char *line = text_string(&all.output); line;
         line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        listed += text_starts_with(line, "  ") && line[2] != '-' && line[2] != ' ';
    ck_assert_uint_eq(listed, COMMAND_COUNT);
    SCOPED_TEXT row;
    text_init(&row, 100);
    text_add_format(&row, "\n  %-9s ", command_names[_i]);
    ck_assert_msg(says(&all.output, text_string(&row)), "help does not list %s", command_names[_i]);

    SUPPORT_RUN(&one, "help", command_names[_i]);
    SUPPORT_RUN(&other, command_names[_i], "--help");
    ck_assert_int_eq(one.exit_code, 0);
    ck_assert_int_eq(other.exit_code, 0);
    ck_assert_str_eq(text_string(&one.output), text_string(&other.output));
    text_clear(&row);
    text_add_format(&row, "usage: fedgate %s", command_names[_i]);
    ck_assert_msg(text_starts_with(text_string(&one.output), text_string(&row)), "%s",
                  text_string(&one.output));
    size_t column = 0;
    for (const char *c = text_string(&one.output); *c; c++) {
        column = *c == '\n' ? 0 : column + 1;
        ck_assert_msg(column <= 110, "a line of the help of %s is too wide", command_names[_i]);
    }
    support_run_done(&all);
    support_run_done(&one);
    support_run_done(&other);
}
END_TEST

static const struct {
    const char *arguments[5];
    const char *words, *hint;
} usage_rows[] = {
    {{"verdit"}, "unknown command 'verdit'", "Did you mean 'verdict'?"},
    {{"qqqqqqqq"}, "unknown command 'qqqqqqqq'", "fedgate help"},
    {{"help", "runn"}, "unknown command 'runn'", "Did you mean 'run'?"},
    {{NULL}, "no command given", "fedgate help"},
    {{"run", "--rety"}, "has no option '--rety'", "Did you mean --retry?"},
    {{"--homee", "x"}, "unknown option '--homee'", "Did you mean --home?"},
    {{"run", "-q"}, "unknown option '-q'", "--help"},
    {{"run", "--slot"}, "option '--slot' needs a value", ""},
    {{"run", "--retry=yes"}, "option '--retry' takes no value", ""},
    {{"run", "--slot", "a", "--slot=b"}, "option '--slot' given twice", ""},
    {{"run"}, "command 'run' needs a home", "FEDGATE_HOME"},
    {{"run", "extra"}, "takes at most 0 arguments, 'extra'", ""},
    {{"at"}, "command 'at' needs TIME", ""},
    {{"verdict", "--format", "xml"}, "unknown format 'xml'", ""},
    {{"status", "--format", "html"}, "command 'status' has no format 'html'", ""},
    {{"config", "sampel"}, "config sampel", "Did you mean 'config sample'?"},
    {{"status", "--max-age", "soon"}, "not a duration: 'soon'", ""},
    {{"at", "tomorrow", "--home", "/nonexistent"}, "not a time: 'tomorrow'", "2026-11-30"},
    {{"hold", "--home", "/nonexistent"}, "needs --reason TEXT", ""},
};

START_TEST(usage_errors_end_64_and_suggest_the_nearest_name)
{
    SupportRun run;
    support_run(usage_rows[_i].arguments, &run);
    ck_assert_msg(run.exit_code == 64, "%s ended %d: %s", usage_rows[_i].words, run.exit_code,
                  text_string(&run.errors));
    ck_assert_msg(text_starts_with(text_string(&run.errors), "fedgate: "), "%s", text_string(&run.errors));
    ck_assert_msg(says(&run.errors, usage_rows[_i].words), "%s", text_string(&run.errors));
    ck_assert_msg(says(&run.errors, usage_rows[_i].hint), "%s", text_string(&run.errors));
    ck_assert_uint_eq(run.output.length, 0);
    support_run_done(&run);
}
END_TEST

START_TEST(the_sample_is_a_valid_file_with_every_option)
{
    char *folder = support_folder_new();
    const char *path = support_path(folder, "sample.yaml");
    SupportRun sample, show;
    SUPPORT_RUN(&sample, "config", "sample");
    ck_assert_int_eq(sample.exit_code, 0);
    support_write(path, text_string(&sample.output));
    SUPPORT_RUN(&show, "config", "show", "--config", path);
    ck_assert_msg(show.exit_code == 0, "%s", text_string(&show.errors));
    for (size_t i = 0; i < config_option_count; i++)
        ck_assert_msg(says(&show.output, config_options[i].name), "show leaves out %s",
                      config_options[i].name);
    support_run_done(&sample);
    support_run_done(&show);
    support_folder_remove(folder);
}
END_TEST

START_TEST(a_flag_wins_over_the_environment_and_that_over_the_file)
{
    char *folder = support_folder_new();
    const char *path = support_path(folder, "own.yaml");
    support_write(path, "train:\n  epochs: 5\n  batch: 64\n  patience: 2\n");
    setenv("FEDGATE_SET_TRAIN__EPOCHS", "6", 1);
    setenv("FEDGATE_SET_TRAIN__BATCH", "128", 1);
    SupportRun run;
    SUPPORT_RUN(&run, "config", "show", "--config", path, "--set", "train.epochs=7", "--format", "json");
    unsetenv("FEDGATE_SET_TRAIN__EPOCHS");
    unsetenv("FEDGATE_SET_TRAIN__BATCH");
    ck_assert_msg(run.exit_code == 0, "%s", text_string(&run.errors));
    Error error = ERROR_INIT;
    OWNED(Json, json_free) *object =
        json_parse(text_string(&run.output), run.output.length, 1u << 20, &error);
    ck_assert_msg(object != NULL, "%s", error.message);
    ck_assert_int_eq(json_integer_or(json_get(object, "train.epochs"), 0), 7);
    ck_assert_int_eq(json_integer_or(json_get(object, "train.batch"), 0), 128);
    ck_assert_int_eq(json_integer_or(json_get(object, "train.patience"), 0), 2);
    support_run_done(&run);
    support_folder_remove(folder);
}
END_TEST

// "<file>.yaml:<line>"
static bool names_line(const char *message, const char *file)
{
    for (const char *found = strstr(message, file); found; found = strstr(found + 1, file)) {
        const char *after = found + strlen(file);
        if (after[0] == ':' && after[1] >= '1' && after[1] <= '9')
            return true;
    }
    return false;
}

START_TEST(every_bad_configuration_is_78_with_file_and_line)
{
    FileList list = {0};
    Error error = ERROR_INIT;
    ASSERT_OK(file_list(bad_folder, &list, &error), &error);
    size_t tried = 0;
    for (size_t i = 0; i < list.count; i++) {
        if (!text_ends_with(list.names[i], ".yaml"))
            continue;
        SupportRun run;
        SUPPORT_RUN(&run, "config", "check", "--config", support_path(bad_folder, list.names[i]));
        ck_assert_msg(run.exit_code == 78, "%s ended %d: %s", list.names[i], run.exit_code,
                      text_string(&run.errors));
        ck_assert_msg(names_line(text_string(&run.errors), list.names[i]), "%s: no file and line in: %s",
                      list.names[i], text_string(&run.errors));
        ck_assert_uint_eq(run.output.length, 0);
        support_run_done(&run);
        tried++;
    }
    ck_assert_uint_ge(tried, 20);
    file_list_done(&list);
}
END_TEST

START_TEST(the_configurations_of_the_data_sets_are_valid)
{
    static const char *const names[] = {"adult", "magic_gamma", "california_housing", "bank_marketing"};
    SCOPED_TEXT path;
    text_init(&path, 4096);
    text_add_format(&path, "%s/fixtures/configs/%s.yaml", FEDGATE_SOURCE_DIR, names[_i]);
    SupportRun run;
    SUPPORT_RUN(&run, "config", "check", "--config", text_string(&path));
    ck_assert_msg(run.exit_code == 0, "%s", text_string(&run.errors));
    ck_assert(text_starts_with(text_string(&run.output), "valid: "));
    support_run_done(&run);
}
END_TEST

// The figures of the hand-checked tables; blanks are left out of the comparison, so that the layout may
// change.
static const char *const plan_figures[] = {"21.6",      "18.4",    "54",   "21.56",  "21.90", "14.08",
                                           "4,194,304", "163,840", "25.6", "122.88", "206.25"};

START_TEST(the_plan_prints_the_figures_a_reader_can_check)
{
    SupportRun run;
    SUPPORT_RUN(&run, "plan", "--config", FEDGATE_SOURCE_DIR "/fixtures/configs/ledger-example.yaml");
    ck_assert_msg(run.exit_code == 0, "%s", text_string(&run.errors));
    for (size_t i = 0; i < sizeof plan_figures / sizeof plan_figures[0]; i++)
        ck_assert_msg(says(&run.output, plan_figures[i]), "the plan does not print %s:\n%s", plan_figures[i],
                      text_string(&run.output));
    support_run_done(&run);
}
END_TEST

static const struct {
    const char *microbatch;
    int exit_code;
    const char *figures[7];
} microbatch_rows[] = {
    {"train.microbatch=16", 0, {"1.09", "2.18", "3.26", "4.35", "5.44", "8.64", NULL}},
    {"train.microbatch=64", 10, {"4.35", "8.70", "13.06", "17.41", "21.76", "24.96", NULL}},
};

START_TEST(the_plan_of_a_microbatch_prints_its_blocks_and_refuses_what_does_not_fit)
{
    SupportRun run;
    SUPPORT_RUN(&run, "plan", "--config", FEDGATE_SOURCE_DIR "/fixtures/configs/ledger-example.yaml", "--set",
                microbatch_rows[_i].microbatch);
    ck_assert_msg(run.exit_code == microbatch_rows[_i].exit_code, "ended %d: %s", run.exit_code,
                  text_string(&run.errors));
    for (size_t i = 0; microbatch_rows[_i].figures[i]; i++)
        ck_assert_msg(says(&run.output, microbatch_rows[_i].figures[i]), "the plan does not print %s:\n%s",
                      microbatch_rows[_i].figures[i], text_string(&run.output));
    support_run_done(&run);
}
END_TEST

// One input of the example changed: what moves is in hand-checkable figures, and the rest is counted.
START_TEST(a_plan_against_another_shows_what_moves_and_through_which_term)
{
    const char *example = FEDGATE_SOURCE_DIR "/fixtures/configs/ledger-example.yaml";
    SupportRun run;
    SUPPORT_RUN(&run, "plan", "--config", example, "--against", "memory.per_sample=0.17GB");
    ck_assert_msg(run.exit_code == 0, "%s", text_string(&run.errors));
    static const char *const figures[] = {"54 = floor(18.4 GB / 0.34 GB)",
                                          "108 = floor(18.4 GB / 0.17 GB) (+54, x 2)",
                                          "through sample: 0.34 GB -> 0.17 GB", " lines stay"};
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++)
        ck_assert_msg(says(&run.output, figures[i]), "no %s:\n%s", figures[i], text_string(&run.output));
    support_run_done(&run);
    SUPPORT_RUN(&run, "plan", "--config", example, "--against", example, "--all");   // a file: the same one
    ck_assert_int_eq(run.exit_code, 0);
    ck_assert(says(&run.output, "both configurations say the same") && says(&run.output, "device: 24 GB"));
    support_run_done(&run);
    SUPPORT_RUN(&run, "plan", "--config", example, "--set", "train.microbatch=64", "--against",
                "device.memory=40GB", "--format", "json");
    ck_assert_int_eq(run.exit_code, 10);   // of the first plan; the second would fit
    Error error = ERROR_INIT;
    OWNED(Json, json_free) *json = json_parse(text_string(&run.output), run.output.length, 1u << 20, &error);
    ck_assert_msg(json != NULL, "%s", error.message);
    ck_assert_str_eq(json_text_or(json_get(json, "schema"), ""), "fedgate.plan/1");
    ck_assert(!json_bool_or(json_find(json, "memory.fits"), true));
    ck_assert(json_bool_or(json_find(json, "against.plan.memory.fits"), false));
    ck_assert_uint_gt(json_count(json_find(json, "against.moved")), 4);
    support_run_done(&run);
}
END_TEST

static const struct {
    const char *option, *value;
    int exit_code;
    const char *words;
} bad_against[] = {
    {"--against", "fixtures/configs/no-such.yaml", 78, "no-such.yaml"},
    {"--against", FEDGATE_SOURCE_DIR "/fixtures/configs/bad/alias.yaml", 78, "bad/alias.yaml"},
    {"--against", "memory.no_such=1", 78, "memory.no_such"},
    {"--against=", NULL, 78, "plan against ''"},
    {"--all", NULL, 64, "needs '--against'"},
};

START_TEST(a_second_plan_that_cannot_be_made_is_named)
{
    SupportRun run;
    SUPPORT_RUN(&run, "plan", "--config", FEDGATE_SOURCE_DIR "/fixtures/configs/ledger-example.yaml",
                bad_against[_i].option, bad_against[_i].value);
    ck_assert_msg(run.exit_code == bad_against[_i].exit_code, "ended %d: %s", run.exit_code,
                  text_string(&run.errors));
    ck_assert_msg(says(&run.errors, bad_against[_i].words), "no %s: %s", bad_against[_i].words,
                  text_string(&run.errors));
    support_run_done(&run);
}
END_TEST

static char *empty_home(void)
{
    char *folder = support_folder_new();
    Error error = ERROR_INIT;
    ASSERT_OK(registry_create(support_path(folder, "home"), process_account(), clock_real(), &error), &error);
    return folder;
}

static const struct {
    const char *arguments[5];
    int exit_code;
    const char *output, *errors;
} empty_rows[] = {
    {{"verdict"}, 69, "", "no verdict yet"},
    {{"verdict", "m-0000000000000000"}, 65, "", "no run of version 'm-0000000000000000'"},
    {{"verdict", "../x"}, 64, "", "not a run or version"},
    {{"status"}, 2, "FEDGATE CRITICAL - no verdict yet", ""},
    {{"current"}, 0, "nothing yet", ""},
    {{"current", "--format", "json"}, 0, "\"version\": null", ""},
    {{"history"}, 0, "no move yet", ""},
    {{"history", "--format", "json"}, 0, "\"moves\": []", ""},
    {{"at", "2026-11-30T04:00:00+01:00"}, 0, "nothing yet", ""},
    {{"at", "2026-11-30", "04:00"}, 0, "nothing yet", ""},
    {{"rollback", "--reason", "because"}, 65, "", ""},
    {{"watch"}, 0, "no night is running", ""},
    {{"watch", "--once", "--format", "json"}, 0, "", ""},
    {{"judge", "/nonexistent/evidence.json"}, 74, "", "/nonexistent/evidence.json"},
    {{"run"}, 78, "", "model"},
};

START_TEST(an_empty_home_has_an_answer_to_every_question)
{
    char *folder = empty_home();
    setenv("FEDGATE_HOME", support_path(folder, "home"), 1);
    SupportRun run;
    support_run(empty_rows[_i].arguments, &run);
    unsetenv("FEDGATE_HOME");
    ck_assert_msg(run.exit_code == empty_rows[_i].exit_code, "%s ended %d: %s%s", empty_rows[_i].arguments[0],
                  run.exit_code, text_string(&run.output), text_string(&run.errors));
    ck_assert_msg(says(&run.output, empty_rows[_i].output), "%s", text_string(&run.output));
    ck_assert_msg(says(&run.errors, empty_rows[_i].errors), "%s", text_string(&run.errors));
    support_run_done(&run);
    support_folder_remove(folder);
}
END_TEST

START_TEST(what_is_not_a_home_is_78_and_status_unknown)
{
    char *folder = support_folder_new();
    SupportRun run;
    SUPPORT_RUN(&run, "current", "--home", folder);
    ck_assert_int_eq(run.exit_code, 78);
    ck_assert_msg(says(&run.errors, "hint: "), "%s", text_string(&run.errors));
    support_run_done(&run);
    SUPPORT_RUN(&run, "status", "--home", folder);
    ck_assert_int_eq(run.exit_code, 3);
    ck_assert(text_starts_with(text_string(&run.output), "FEDGATE UNKNOWN - "));
    support_run_done(&run);
    support_folder_remove(folder);
}
END_TEST

START_TEST(hold_and_unhold_show_in_current_and_need_the_owner)
{
    char *folder = empty_home();
    const char *home = support_path(folder, "home");
    SupportRun run;
    SUPPORT_RUN(&run, "hold", "--home", home, "--reason", "looking");
    ck_assert_msg(run.exit_code == 0, "%s", text_string(&run.errors));
    ck_assert(says(&run.output, "On hold:"));
    support_run_done(&run);
    SUPPORT_RUN(&run, "current", "--home", home);
    ck_assert(says(&run.output, "looking"));
    support_run_done(&run);
    // Another account named by the home's own configuration: neither flag nor another file makes the caller
    // the owner.
    support_write(support_path(home, "fedgate.yaml"), "owner: nobody\n");
    support_write(support_path(folder, "mine.yaml"), "owner: root\n");
    SUPPORT_RUN(&run, "unhold", "--home", home, "--reason", "mine", "--config",
                support_path(folder, "mine.yaml"), "--set", "owner=root");
    ck_assert_msg(run.exit_code == 77, "ended %d: %s", run.exit_code, text_string(&run.errors));
    support_run_done(&run);
    // A configuration that cannot be read does not stop the owner recorded in the home.
    support_write(support_path(home, "fedgate.yaml"), "owner: [\n");
    SUPPORT_RUN(&run, "unhold", "--home", home, "--reason", "done");
    ck_assert_msg(run.exit_code == 0, "%s", text_string(&run.errors));
    ck_assert(says(&run.errors, "ignoring the configuration"));
    support_run_done(&run);
    support_folder_remove(folder);
}
END_TEST

static const char *const run_id = "0193a5b0-1111-7222-8333-444455556666";

START_TEST(watch_shows_the_night_that_holds_the_lock)
{
    char *folder = empty_home();
    const char *home = support_path(folder, "home");
    SCOPED_TEXT name;
    text_init(&name, 4096);
    text_add_format(&name, "%s/runs/%s", home, run_id);
    Error error = ERROR_INIT;
    ASSERT_OK(file_make_directories(text_string(&name), 0700, &error), &error);
    support_write(support_path(text_string(&name), "progress.json"),
                  "{\"night_step\": \"train\", \"step\": 7, \"planned_steps\": 40}");
    text_clear(&name);
    text_add_format(&name, "pid 1, run %s, since now", run_id);
    FileLock *lock = file_lock_try(support_path(home, "run.lock"), text_string(&name), &error);
    ck_assert_msg(lock != NULL, "%s", error.message);
    SupportRun run;
    SUPPORT_RUN(&run, "watch", "--once", "--home", home);
    ck_assert_int_eq(run.exit_code, 0);
    ck_assert_str_eq(text_string(&run.output), "train  step 7/40\n");
    support_run_done(&run);
    file_lock_release(lock);
    support_folder_remove(folder);
}
END_TEST

START_TEST(a_verdict_is_found_by_latest_run_and_version)
{
    char *folder = empty_home();
    const char *home = support_path(folder, "home");
    static const char verdict[] = "{\"model\": \"m\", \"slot\": \"2026-11-30\", \"outcome\": \"promoted\", "
                                  "\"version\": \"m-00000000000000aa\", \"reason\": \"all pass\", "
                                  "\"ended\": \"2026-11-30T04:00:00.000+01:00\"}";
    SCOPED_TEXT name;
    text_init(&name, 4096);
    text_add_format(&name, "%s/runs/%s", home, run_id);
    Error error = ERROR_INIT;
    ASSERT_OK(file_make_directories(text_string(&name), 0700, &error), &error);
    support_write(support_path(text_string(&name), "verdict.json"), verdict);
    support_write(support_path(home, "last-verdict.json"), verdict);
    const char *const which[] = {"latest", run_id, "m-00000000000000aa"};
    for (size_t i = 0; i < 3; i++) {
        SupportRun run;
        SUPPORT_RUN(&run, "verdict", which[i], "--home", home);
        ck_assert_msg(run.exit_code == 0, "%s: %s", which[i], text_string(&run.errors));
        ck_assert(text_starts_with(text_string(&run.output), "PROMOTED  m  slot 2026-11-30\n"));
        support_run_done(&run);
        SUPPORT_RUN(&run, "verdict", which[i], "--home", home, "--format", "html");
        ck_assert_msg(run.exit_code == 0, "%s: %s", which[i], text_string(&run.errors));
        ck_assert(text_starts_with(text_string(&run.output), "<!DOCTYPE html>\n"));
        ck_assert(says(&run.output, "PROMOTED  m  slot 2026-11-30</h1>"));
        ck_assert(text_ends_with(text_string(&run.output), "</html>\n"));
        support_run_done(&run);
    }
    support_write(support_path(home, "last-verdict.json"), "{\"outcome\": ");
    SupportRun run;
    SUPPORT_RUN(&run, "verdict", "--home", home);
    ck_assert_int_eq(run.exit_code, 65);
    support_run_done(&run);
    SUPPORT_RUN(&run, "status", "--home", home);
    ck_assert_int_eq(run.exit_code, 3);
    support_run_done(&run);
    support_folder_remove(folder);
}
END_TEST

START_TEST(judge_ends_with_the_worst_and_refuses_what_is_no_evidence)
{
    char *folder = support_folder_new();
    const char *empty = support_path(folder, "empty.json"), *other = support_path(folder, "other.json");
    const char *policy = support_path(folder, "policy.yaml"), *bad = support_path(folder, "bad.yaml");
    support_write(empty, "{\"schema\": \"fedgate.evidence/1\"}");
    support_write(other, "{\"schema\": \"fedgate.evidence/0\"}");
    support_write(policy, "overlap:\n  floor: 0.9\n");
    support_write(bad, "checks:\n  required: [overlap]\n");
    SupportRun run;
    SUPPORT_RUN(&run, "judge", empty, "--policy", policy);
    ck_assert_msg(run.exit_code == 11, "ended %d: %s", run.exit_code, text_string(&run.errors));
    ck_assert(says(&run.output, "! overlap      not_measured"));
    support_run_done(&run);
    SUPPORT_RUN(&run, "judge", empty, empty, "--format", "json");
    ck_assert_int_eq(run.exit_code, 11);
    ck_assert(text_starts_with(text_string(&run.output), "["));
    support_run_done(&run);
    SUPPORT_RUN(&run, "judge", other);
    ck_assert_int_eq(run.exit_code, 65);
    ck_assert(says(&run.errors, "fedgate.evidence/0"));
    support_run_done(&run);
    SUPPORT_RUN(&run, "judge", empty, "--policy", bad);
    ck_assert_int_eq(run.exit_code, 78);
    support_run_done(&run);
    support_folder_remove(folder);
}
END_TEST

// Runs the program with the standard descriptors replaced: -1 closes one, else a path is opened on it.
static int run_with(const char *output_path, bool close_all, const char *const *arguments)
{
    const char *argv[8] = {getenv("FEDGATE_PROGRAM")};
    for (size_t i = 0; arguments[i] && i < 6; i++)
        argv[i + 1] = arguments[i];
    ck_assert_ptr_nonnull(argv[0]);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        if (close_all) {
            for (int fd = 0; fd <= 2; fd++)
                close(fd);
        } else if (output_path) {
            int fd = open(output_path, O_WRONLY);
            if (fd < 0 || dup2(fd, 1) < 0)
                _exit(99);
        } else {
            close(1);
        }
        execv(argv[0], (char *const *)(uintptr_t)argv);
        _exit(98);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

START_TEST(closed_descriptors_break_nothing)
{
    static const char *const help[] = {"help", NULL}, *const sample[] = {"config", "sample", NULL},
                             *const wrong[] = {"wrong", NULL};
    ck_assert_int_eq(run_with(NULL, false, help), 0);
    ck_assert_int_eq(run_with(NULL, true, sample), 0);
    ck_assert_int_eq(run_with(NULL, true, wrong), 64);
    char *folder = empty_home();
    const char *const current[] = {"current", "--home", support_path(folder, "home"), NULL};
    ck_assert_int_eq(run_with(NULL, true, current), 0);
    support_folder_remove(folder);
}
END_TEST

START_TEST(a_full_standard_output_is_74)
{
    static const char *const sample[] = {"config", "sample", NULL};
    if (access("/dev/full", W_OK) != 0)
        return;
    ck_assert_int_eq(run_with("/dev/full", false, sample), 74);
}
END_TEST

START_TEST(the_runbook_holds_the_table_of_failure_modes)
{
    SupportRun run;
    SUPPORT_RUN(&run, "config", "failures", "--markdown");
    ck_assert_int_eq(run.exit_code, 0);
    ck_assert_uint_gt(run.output.length, 1000);
    SCOPED_TEXT runbook;
    text_init(&runbook, 1u << 20);
    ck_assert_msg(strstr(support_read(FEDGATE_SOURCE_DIR "/ops/runbook.md", &runbook),
                         text_string(&run.output)) != NULL,
                  "ops/runbook.md does not hold what 'fedgate config failures --markdown' prints");
    support_run_done(&run);
}
END_TEST

// -- releases: pin, prune, export, import, and what is said of one that was pruned

static void make_live(const char *home, MoveKind kind, const char *version)
{
    Error error = ERROR_INIT;
    Digest digest;
    bool existed;
    PointerRecord record;
    const char *releases = support_path(home, "releases");
    OWNED(Registry, registry_close) *registry = registry_open(home, clock_real(), &error);
    ASSERT_OK(registry != NULL, &error);
    OWNED(ReleaseDraft, release_free) *draft = release_begin(releases, version, &error);
    ASSERT_OK(draft != NULL, &error);
    support_write(support_path(release_path(draft), "model.json"), version);
    ASSERT_OK(release_seal(draft, version, "m", kind == MOVE_ADOPT ? RELEASE_BASELINE : RELEASE_MODEL,
                           &digest, &error),
              &error);
    ASSERT_OK(release_publish(draft, releases, &existed, &error), &error);
    const MoveRequest request = {.kind = kind, .version = version, .expected_seq = -1, .reason = "test"};
    ASSERT_OK(registry_move(registry, &request, &record, &error), &error);
}

static void expect_run(const char *home, const char *const *words, int code, const char *output,
                       const char *errors)
{
    const char *arguments[12] = {0};
    size_t count = 0;
    for (; words[count]; count++)
        arguments[count] = words[count];
    arguments[count++] = "--home";
    arguments[count] = home;
    SupportRun run;
    support_run(arguments, &run);
    ck_assert_msg(run.exit_code == code, "%s ended %d: %s", words[0], run.exit_code,
                  text_string(&run.errors));
    ck_assert_msg(says(&run.output, output), "%s said %s", words[0], text_string(&run.output));
    ck_assert_msg(says(&run.errors, errors), "%s said %s", words[0], text_string(&run.errors));
    support_run_done(&run);
}
#define EXPECT_RUN(home, code, output, errors, ...)                                                          \
    expect_run(home, (const char *const[]){__VA_ARGS__, NULL}, code, output, errors)

START_TEST(releases_are_pinned_pruned_exported_and_imported)
{
    char *folder = empty_home(), *second = empty_home();
    char home[FILE_PATH_SIZE], other[FILE_PATH_SIZE], file[FILE_PATH_SIZE];
    Error error = ERROR_INIT;
    ASSERT_OK(file_join(home, folder, "home", &error) && file_join(other, second, "home", &error) &&
                  file_join(file, folder, "release.tar", &error),
              &error);
    static const char a[] = "m-000000000000000a", b[] = "m-000000000000000b";
    static const char *const later[] = {"m-000000000000000c", "m-000000000000000d", "m-000000000000000e"};
    make_live(home, MOVE_ADOPT, "m-0000000000000001");
    make_live(home, MOVE_PROMOTE, a);
    make_live(home, MOVE_PROMOTE, b);
    for (size_t i = 0; i < 3; i++)
        make_live(home, MOVE_PROMOTE, later[i]);
    EXPECT_RUN(home, 64, "", "needs --reason TEXT", "pin", a);
    EXPECT_RUN(home, 0, "is pinned: no prune removes it", "", "pin", b, "--reason", "the auditors");
    EXPECT_RUN(home, 65, "", "there is no release", "pin", "m-00000000000000ff", "--reason", "x");
    EXPECT_RUN(home, 0, "number 2,", "", "export", a, file);
    EXPECT_RUN(home, 10, "", "exists already", "export", a, file);
    EXPECT_RUN(home, 64, "", "whole number from 2", "prune", "--keep", "1");
    EXPECT_RUN(home, 64, "", "whole number from 0", "prune", "--runs", "few");
    EXPECT_RUN(home, 0, "would be: 5 kept, 1 pruned", "", "prune", "--dry-run");
    EXPECT_RUN(home, 0, "\"pruned\": 1", "", "prune", "--format", "json");
    EXPECT_RUN(home, 0, "5 kept, 0 pruned", "", "prune", "--runs", "5");
    EXPECT_RUN(home, 65, "", "was pruned on 20", "export", a, "elsewhere.tar");
    EXPECT_RUN(home, 65, "", "was pruned on 20", "rollback", "--to", a, "--reason", "x");
    EXPECT_RUN(home, 0, "pruned on 20", "", "history");
    EXPECT_RUN(home, 0, "\"pruned\": [\n    {", "", "history", "--format", "json");
    EXPECT_RUN(home, 0, "note  release m-000000000000000a: pruned on 20", "", "verify");
    EXPECT_RUN(home, 0, "It was live here before", "", "import", file);
    EXPECT_RUN(home, 0, "It was live here before", "", "import", file);
    EXPECT_RUN(home, 0, "m-000000000000000a", "", "rollback", "--to", a, "--reason", "x");
    EXPECT_RUN(home, 0, "\"pinned\": false", "", "unpin", b, "--reason", "seen", "--format", "json");
    EXPECT_RUN(home, 64, "", "is not pinned", "unpin", b, "--reason", "seen");
    EXPECT_RUN(other, 0, "\"was_live\": false", "", "import", file, "--format", "json");
    EXPECT_RUN(other, 0, "1 kept, 0 pruned", "", "prune");
    EXPECT_RUN(other, 65, "", "archive is damaged", "import", FEDGATE_SOURCE_DIR "/README.md");
    EXPECT_RUN(home, 0, "\"number\": 3", "", "export", b, support_path(folder, "b.tar"), "--format", "json");
    support_folder_remove(folder);
    support_folder_remove(second);
}
END_TEST

START_TEST(the_version_is_printed)
{
    SupportRun run;
    SUPPORT_RUN(&run, "--version");
    ck_assert_int_eq(run.exit_code, 0);
    ck_assert_str_eq(text_string(&run.output), "fedgate " FEDGATE_VERSION "\n");
    support_run_done(&run);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("cli");
    TCase *t = tcase_create("surface");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, help_lists_every_command_and_each_explains_itself, 0, COMMAND_COUNT);
    tcase_add_loop_test(t, usage_errors_end_64_and_suggest_the_nearest_name, 0,
                        sizeof usage_rows / sizeof usage_rows[0]);
    tcase_add_test(t, the_sample_is_a_valid_file_with_every_option);
    tcase_add_test(t, a_flag_wins_over_the_environment_and_that_over_the_file);
    tcase_add_test(t, every_bad_configuration_is_78_with_file_and_line);
    tcase_add_loop_test(t, the_configurations_of_the_data_sets_are_valid, 0, 4);
    tcase_add_test(t, the_plan_prints_the_figures_a_reader_can_check);
    tcase_add_test(t, a_plan_against_another_shows_what_moves_and_through_which_term);
    tcase_add_loop_test(t, a_second_plan_that_cannot_be_made_is_named, 0,
                        sizeof bad_against / sizeof bad_against[0]);
    tcase_add_loop_test(t, the_plan_of_a_microbatch_prints_its_blocks_and_refuses_what_does_not_fit, 0, 2);
    tcase_add_loop_test(t, an_empty_home_has_an_answer_to_every_question, 0,
                        sizeof empty_rows / sizeof empty_rows[0]);
    tcase_add_test(t, what_is_not_a_home_is_78_and_status_unknown);
    tcase_add_test(t, hold_and_unhold_show_in_current_and_need_the_owner);
    tcase_add_test(t, watch_shows_the_night_that_holds_the_lock);
    tcase_add_test(t, a_verdict_is_found_by_latest_run_and_version);
    tcase_add_test(t, judge_ends_with_the_worst_and_refuses_what_is_no_evidence);
    tcase_add_test(t, closed_descriptors_break_nothing);
    tcase_add_test(t, a_full_standard_output_is_74);
    tcase_add_test(t, the_runbook_holds_the_table_of_failure_modes);
    tcase_add_test(t, releases_are_pinned_pruned_exported_and_imported);
    tcase_add_test(t, the_version_is_printed);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    unsetenv("FEDGATE_HOME");
    setenv("FEDGATE_SHARE", FEDGATE_SOURCE_DIR, 1);
    SRunner *runner = srunner_create(suite());
    srunner_run_all(runner, CK_ENV);
    int bad = srunner_ntests_failed(runner);
    srunner_free(runner);
    return bad != 0;
}
