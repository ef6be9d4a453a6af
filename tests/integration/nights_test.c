// nights_test - whole nights through the program that a data file cannot say: judged once, revert, roll back,
// resume, stand aside, the same bytes.
//
// The program is the fault build. Durations are modelled on the simulated clock, so that a slow day cannot
// change an outcome; training, sealing, PostgreSQL and the pointer are real. What one night is refused or
// promoted for is in the corpus (fixtures/nights).
#include <fedgate/clock.h>
#include <fedgate/file.h>
#include <fedgate/json.h>
#include <fedgate/process.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support.h"

static char *folder;   // one home per test, below it
static char home[512];

static const char *source(const char *path)
{
    static char buffers[4][1024];
    static int next;
    char *buffer = buffers[next++ % 4];
    ck_assert(text_print(buffer, sizeof buffers[0], "%s/%s", FEDGATE_SOURCE_DIR, path));
    return buffer;
}

// Runs the program on this test's home with the faults given ("" none) and extra arguments.
static void fedgate(SupportRun *run, const char *faults, const char *const *arguments)
{
    const char *all[32] = {NULL};
    size_t n = 0;
    for (; arguments[n] != NULL; n++)
        all[n] = arguments[n];
    all[n++] = "--home";
    all[n++] = home;
    if (faults[0] != '\0')
        ck_assert_int_eq(setenv("FEDGATE_FAULT", faults, 1), 0);
    else
        ck_assert_int_eq(unsetenv("FEDGATE_FAULT"), 0);
    support_run(all, run);
    unsetenv("FEDGATE_FAULT");
}
#define FEDGATE(run, faults, ...) fedgate((run), (faults), (const char *const[]){__VA_ARGS__, NULL})

#define MODEL "clock.model=1"

static void begin(const char *config, const char *data)
{
    folder = support_folder_new();
    ck_assert_int_eq(chmod(folder, 0755), 0);   // the private cluster may belong to a service account
    ck_assert(text_print(home, sizeof home, "%s/home", folder));
    char copy[1024], set[1024];
    SCOPED_TEXT text;
    text_init(&text, 100000);
    support_read(source(config), &text);
    ck_assert(text_print(copy, sizeof copy, "%s/fedgate.yaml", folder));
    ck_assert(text_print(set, sizeof set, "data.directory=%s", source(data)));
    support_write(copy, text_string(&text));
    SupportRun run;
    FEDGATE(&run, "", "init", "--config", copy);
    ck_assert_msg(run.exit_code == 0, "init: %s", text_string(&run.errors));
    support_run_done(&run);
    ck_assert_int_eq(setenv("FEDGATE_SET_DATA__DIRECTORY", source(data), 1), 0);
    ck_assert_int_eq(setenv("FEDGATE_SET_WINDOW__ZONE", "Europe/Berlin", 1), 0);
}

static void begin_learnable(void)
{
    begin("fixtures/configs/learnable_night.yaml", "fixtures/learnable");
}

static void end(void)
{
    support_folder_remove(folder);
    folder = NULL;
}

static Json *read_home(const char *name)
{
    char path[1024];
    Error error = ERROR_INIT;
    ck_assert(text_print(path, sizeof path, "%s/%s", home, name));
    Json *json = json_read_file(path, 64 * 1000 * 1000, &error);
    ck_assert_msg(json != NULL, "%s", error.message);
    return json;
}

// The end of a long output: Check has no room for more.
static const char *tail(const Text *text)
{
    return text_string(text) + (text->length > 1500 ? text->length - 1500 : 0);
}

// The last verdict has this outcome and deciding check; the run ended with this code.
static void expect(const SupportRun *run, int code, const char *outcome, const char *decided_by)
{
    Json *verdict = read_home("last-verdict.json");
    const char *seen = json_text_or(json_get(verdict, "outcome"), "?"),
               *by = json_text_or(json_get(verdict, "decided_by"), "");
    ck_assert_msg(run->exit_code == code && strcmp(seen, outcome) == 0 && strcmp(by, decided_by) == 0,
                  "code %d (expected %d), outcome %s (%s), decided by '%s' (%s): %s\n%s", run->exit_code,
                  code, seen, outcome, by, decided_by, json_text_or(json_get(verdict, "reason"), ""),
                  tail(&run->errors));
    json_free(verdict);
}

static void current(char ret_version[96], char ret_kind[16])
{
    SupportRun run;
    FEDGATE(&run, "", "current", "--format", "json");
    ck_assert_msg(run.exit_code == 0, "%s", text_string(&run.errors));
    Error error = ERROR_INIT;
    Json *json = json_parse(text_string(&run.output), run.output.length, 100000, &error);
    ck_assert_msg(json != NULL, "%s", error.message);
    ck_assert(text_copy(ret_version, 96, json_text_or(json_get(json, "version"), "")));
    ck_assert(text_copy(ret_kind, 16, json_text_or(json_get(json, "kind"), "")));
    json_free(json);
    support_run_done(&run);
}

static void expect_live(const char *kind)
{
    char version[96], seen[16];
    current(version, seen);
    ck_assert_str_eq(seen, kind);
}

// -- promote, the same slot again, the same version again

// Beside the verdict lies what a person accepts the release by, and both say the same of the rubric.
static void expect_accepted(void)
{
    char name[256];
    Json *verdict = read_home("last-verdict.json");
    ck_assert(text_print(name, sizeof name, "runs/%s/release-evidence.json",
                         json_text_or(json_get(verdict, "run"), "")));
    Json *file = read_home(name);
    ck_assert(json_same(json_get(file, "rubric"), json_get(verdict, "rubric")));
    ck_assert(json_bool_or(json_find(file, "rubric.required_met"), false));
    ck_assert(json_number_or(json_find(file, "rubric.score"), 0) >= 0.8);
    ck_assert(json_number_or(json_find(file, "checkpoint.value"), 0) >= 0.8);
    ck_assert_int_gt(json_integer_or(json_find(file, "worked_example.wall_ns"), 0), 0);
    ck_assert(json_bool_or(json_find(file, "fallback.verified"), false));
    ck_assert(json_number_or(json_find(file, "cost.cost_per_sample"), 0) > 0);
    json_free(file);
    json_free(verdict);
}

// k x k utilities, and how many classes there are is known from the rows only: said before training, not
// after.
START_TEST(test_utilities_that_fit_no_task_end_78)
{
    static const struct {
        const char *sets[6], *words;
    } refused[] = {
        {{"task=binary"}, "option 'quality.utilities' is for task 'multiclass', not 'binary'"},
        {{"task=multiclass", "data.target=weekday", "data.categorical=channel,customer",
          "quality.metric=logloss", "data.labels=mon=0,tue=1,wed=2,thu=3,fri=4,sat=5,sun=6",
          "baseline.rule="},
         "option 'quality.utilities' has 4 numbers, 7 classes need 49"},
    };
    begin_learnable();
    for (size_t i = 0; i < 2; i++) {
        const char *const *sets = refused[i].sets;
        SupportRun run;
        const char *arguments[20] = {"run", "--set", "quality.utilities=1,0,0,1"};
        size_t count = 3;
        for (size_t k = 0; k < 6 && sets[k] != NULL; k++) {
            arguments[count++] = "--set";
            arguments[count++] = sets[k];
        }
        fedgate(&run, MODEL, arguments);
        ck_assert_msg(run.exit_code == 78 && strstr(text_string(&run.errors), refused[i].words) != NULL,
                      "%d: %s", run.exit_code, text_string(&run.errors));
        support_run_done(&run);
    }
    end();
}
END_TEST

START_TEST(test_a_good_first_night_is_promoted_and_judged_once)
{
    begin_learnable();
    SupportRun run;
    FEDGATE(&run, MODEL, "run");
    expect(&run, 0, "promoted", "");
    expect_live("release");
    expect_accepted();
    support_run_done(&run);
    FEDGATE(&run, MODEL, "run");   // no work, same code, and it says so
    ck_assert_int_eq(run.exit_code, 0);
    ck_assert_msg(strstr(text_string(&run.errors), "already judged") != NULL, "%s", text_string(&run.errors));
    support_run_done(&run);
    FEDGATE(&run, MODEL, "run", "--set", "train.seed=2");   // changed since: says so, still no work
    ck_assert_msg(strstr(text_string(&run.errors), "--retry") != NULL, "%s", text_string(&run.errors));
    support_run_done(&run);
    FEDGATE(&run, MODEL, "run", "--retry");   // the same version again: good, already live, nothing moves
    expect(&run, 0, "promoted", "");
    ck_assert_msg(strstr(text_string(&run.errors), "already live") != NULL, "%s", text_string(&run.errors));
    support_run_done(&run);
    FEDGATE(&run, "", "history", "--format", "json");
    Error error = ERROR_INIT;
    Json *history = json_parse(text_string(&run.output), run.output.length, 100000, &error);
    ck_assert_uint_eq(json_count(json_get(history, "moves")), 2);   // adopt, promote
    json_free(history);
    support_run_done(&run);
    FEDGATE(&run, "", "verify");
    ck_assert_msg(run.exit_code == 0, "%s", text_string(&run.output));
    support_run_done(&run);
    FEDGATE(&run, "", "status");
    ck_assert_int_eq(run.exit_code, 2);   // the simulated night is long past: no verdict newer than the age
    support_run_done(&run);
    end();
}
END_TEST

START_TEST(test_quiet_is_silent_when_promoted)
{
    begin_learnable();
    SupportRun run;
    FEDGATE(&run, MODEL, "run", "--quiet");
    expect(&run, 0, "promoted", "");
    ck_assert_msg(run.output.length == 0 && run.errors.length == 0, "printed: %s%s", text_string(&run.output),
                  text_string(&run.errors));
    support_run_done(&run);
    end();
}
END_TEST

// -- revert, roll back

// Adds a byte to a file of the release that is live.
static void corrupt_live(void)
{
    char version[96], kind[16], path[1024];
    current(version, kind);
    ck_assert(text_print(path, sizeof path, "%s/releases/%s/model.safetensors", home, version));
    ck_assert_int_eq(chmod(path, 0640), 0);
    FILE *file = fopen(path, "ab");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fputc('x', file), 'x');
    ck_assert_int_eq(fclose(file), 0);
}

START_TEST(test_a_corrupted_live_release_is_reverted_to_the_last_known_good)
{
    begin_learnable();
    SupportRun run;
    char first[96], second[96], now[96], kind[16];
    FEDGATE(&run, MODEL, "run", "--slot", "night-1");
    expect(&run, 0, "promoted", "");
    support_run_done(&run);
    current(first, kind);
    FEDGATE(&run, MODEL, "run", "--slot", "night-2", "--set", "train.seed=2");
    expect(&run, 0, "promoted", "");
    support_run_done(&run);
    current(second, kind);
    ck_assert_str_ne(first, second);
    corrupt_live();
    FEDGATE(&run, MODEL, "run", "--slot", "night-3", "--set", "train.seed=3");
    expect(&run, 12, "reverted", "");
    support_run_done(&run);
    current(now, kind);
    ck_assert_str_eq(now, first);
    FEDGATE(&run, MODEL, "run", "--slot", "night-3", "--set", "train.seed=3");   // judged: same code, no work
    ck_assert_int_eq(run.exit_code, 12);
    support_run_done(&run);
    FEDGATE(&run, MODEL, "run", "--slot", "night-4", "--set", "train.seed=2");   // the rotten one, made again
    expect(&run, 0, "promoted", "");
    support_run_done(&run);
    current(now, kind);
    ck_assert_str_eq(now, second);
    FEDGATE(&run, "", "verify");
    ck_assert_msg(run.exit_code == 0, "%s", text_string(&run.output));
    support_run_done(&run);
    end();
}
END_TEST

START_TEST(test_a_rollback_is_not_undone_by_the_next_night)
{
    begin_learnable();
    SupportRun run;
    char first[96], second[96], now[96], kind[16];
    FEDGATE(&run, MODEL, "run", "--slot", "night-1");
    support_run_done(&run);
    current(first, kind);
    FEDGATE(&run, MODEL, "run", "--slot", "night-2", "--set", "train.seed=2");
    expect(&run, 0, "promoted", "");
    support_run_done(&run);
    current(second, kind);
    FEDGATE(&run, "", "rollback", "--reason", "complaints from the call centre");
    ck_assert_msg(run.exit_code == 0, "%s", text_string(&run.errors));
    support_run_done(&run);
    current(now, kind);
    ck_assert_str_eq(now, first);
    FEDGATE(&run, MODEL, "run", "--slot", "night-3", "--set", "train.seed=2");   // held
    expect(&run, 10, "refused", "");
    support_run_done(&run);
    FEDGATE(&run, "", "unhold", "--reason", "cause found");
    ck_assert_int_eq(run.exit_code, 0);
    support_run_done(&run);
    FEDGATE(&run, MODEL, "run", "--slot", "night-4", "--set", "train.seed=2");   // barred
    expect(&run, 10, "refused", "");
    support_run_done(&run);
    current(now, kind);
    ck_assert_str_eq(now, first);
    FEDGATE(&run, "", "unhold", "--unbar", second, "--reason", "it was the data");
    ck_assert_msg(run.exit_code == 0, "%s", text_string(&run.errors));
    support_run_done(&run);
    FEDGATE(&run, MODEL, "run", "--slot", "night-5", "--set", "train.seed=2");
    expect(&run, 0, "promoted", "");
    support_run_done(&run);
    current(now, kind);
    ck_assert_str_eq(now, second);
    end();
}
END_TEST

// -- one home, one model; what is live must be comparable

START_TEST(test_a_live_version_of_another_task_is_no_comparison)
{
    begin_learnable();
    SupportRun run;
    FEDGATE(&run, MODEL, "run", "--slot", "night-1", "--set", "task=multiclass", "--set",
            "quality.metric=logloss", "--set", "quality.slices=", "--set", "baseline.rule=");
    expect(&run, 0, "promoted", "");
    support_run_done(&run);
    FEDGATE(&run, MODEL, "run", "--slot", "night-2");
    expect(&run, 11, "inconclusive", "quality");
    support_run_done(&run);
    end();
}
END_TEST

START_TEST(test_a_home_serves_one_model)
{
    begin_learnable();
    SupportRun run;
    FEDGATE(&run, MODEL, "run", "--slot", "night-1");
    expect(&run, 0, "promoted", "");
    support_run_done(&run);
    FEDGATE(&run, MODEL, "run", "--slot", "night-2", "--set", "model=another");
    expect(&run, 78, "failed", "");
    support_run_done(&run);
    expect_live("release");
    end();
}
END_TEST

START_TEST(test_status_says_that_the_pointer_moved_since_a_good_verdict)
{
    begin_learnable();
    SupportRun run;
    char now[96], kind[16];
    FEDGATE(&run, "", "run", "--set", "overlap.starved=0.5", "--set", "fed.wait=0.5", "--set",
            "closure.steps=0.5");
    support_run_done(&run);
    current(now, kind);
    if (strcmp(kind, "release") == 0) {   // real clock: a very slow day may refuse
        FEDGATE(&run, "", "rollback", "--reason", "test");
        ck_assert_int_eq(run.exit_code, 0);
        support_run_done(&run);
        FEDGATE(&run, "", "unhold", "--reason", "test");
        support_run_done(&run);
        FEDGATE(&run, "", "status");
        ck_assert_int_eq(run.exit_code, 1);
        ck_assert_msg(strstr(text_string(&run.output), "moved since") != NULL, "%s",
                      text_string(&run.output));
        support_run_done(&run);
    }
    end();
}
END_TEST

// -- the database away, a second run, an interrupted run

START_TEST(test_without_a_database_the_slot_waits_and_resumes_at_shipping)
{
    begin_learnable();
    SupportRun run;
    FEDGATE(&run, MODEL ",telemetry.down=1", "run");
    expect(&run, 11, "inconclusive", "telemetry");
    expect_live("baseline");
    support_run_done(&run);
    Json *before = read_home("last-verdict.json");
    FEDGATE(&run, MODEL ",model.night_start=1764550000", "run");   // three quarters of an hour later
    expect(&run, 0, "promoted", "");
    Json *after = read_home("last-verdict.json");
    ck_assert_str_eq(json_text_or(json_get(before, "run"), "a"),
                     json_text_or(json_get(after, "run"), "b"));   // no training again
    expect_live("release");
    char name[128];
    ck_assert(text_print(name, sizeof name, "runs/%s/run.json", json_text_or(json_get(after, "run"), "")));
    Json *record =
        read_home(name);   // the figures are those of the night that trained, the end is this one's
    ck_assert_str_eq(json_text_or(json_get(record, "outcome"), ""), "promoted");
    ck_assert_str_ne(json_text_or(json_get(record, "hardware"), ""), "");
    ck_assert_int_gt(json_integer_or(json_get(record, "steps"), 0), 0);
    ck_assert(json_number_or(json_get(record, "step_seconds"), 0) > 0);
    json_free(record);
    json_free(before);
    json_free(after);
    support_run_done(&run);
    end();
}
END_TEST

START_TEST(test_a_second_run_is_refused_and_names_the_holder)
{
    begin_learnable();
    char path[1024];
    Error error = ERROR_INIT;
    ck_assert(text_print(path, sizeof path, "%s/run.lock", home));
    FileLock *lock = file_lock_try(path, "pid 4711, run test, since today", &error);
    ck_assert_msg(lock != NULL, "%s", error.message);
    SupportRun run;
    FEDGATE(&run, MODEL, "run");
    ck_assert_int_eq(run.exit_code, 75);
    ck_assert_msg(strstr(text_string(&run.errors), "4711") != NULL, "%s", text_string(&run.errors));
    support_run_done(&run);
    file_lock_release(lock);
    end();
}
END_TEST

static Json *read_run(const char *file)
{
    char name[256];
    Json *verdict = read_home("last-verdict.json");
    ck_assert(text_print(name, sizeof name, "runs/%s/%s", json_text_or(json_get(verdict, "run"), ""), file));
    json_free(verdict);
    return read_home(name);
}

static double sum_of(const Json *numbers)
{
    double sum = 0;
    for (size_t i = 0; i < json_count(numbers); i++)
        sum += json_number_or(json_get(numbers, json_key_at(numbers, i)), 0);
    return sum;
}

// Device seconds of the start that broke off and of this one, over the samples of the whole run.
static void expect_cost_of_both(double spent, int64_t samples)
{
    Json *evidence = read_run("evidence.json"), *record = read_run("run.json");
    double seconds = json_number_or(json_find(evidence, "cost.device_seconds"), 0);
    ck_assert_double_gt(spent, 0);
    ck_assert_double_le(seconds, spent + sum_of(json_get(record, "seconds")) + 1e-6);
    ck_assert_double_ge(seconds, spent);
    ck_assert_int_eq(json_integer_or(json_find(evidence, "cost.samples"), 0), samples);
    json_free(evidence);
    json_free(record);
}

// Samples of a night that nothing interrupts.
static int64_t samples_of_a_whole_night(const char *const *arguments)
{
    SupportRun run;
    fedgate(&run, MODEL, arguments);
    expect(&run, 0, "passed", "");
    support_run_done(&run);
    Json *evidence = read_run("evidence.json");
    int64_t samples = json_integer_or(json_find(evidence, "cost.samples"), 0);
    ck_assert_int_gt(samples, 0);
    json_free(evidence);
    return samples;
}

static double spent_so_far(void)
{
    Json *spent = read_run("spent.json");
    double seconds = json_number_or(json_get(spent, "device_seconds"), 0);
    json_free(spent);
    return seconds;
}

// Training is over and checkpointed: the rerun of the slot only goes on after it, with what was measured.
START_TEST(test_a_signal_in_late_parity_ends_75_and_the_rerun_does_not_train_again)
{
    begin_learnable();
    SupportRun run;
    int64_t samples = samples_of_a_whole_night(
        (const char *const[]){"run", "--no-promote", "--slot", "a", "--set", "train.precision=bf16", NULL});
    FEDGATE(&run, MODEL ",process.term_parity=20", "run", "--slot", "b", "--set", "train.precision=bf16");
    expect(&run, 75, "failed", "");
    ck_assert_msg(strstr(text_string(&run.errors), "in 'parity late'") != NULL, "%s", tail(&run.errors));
    support_run_done(&run);
    double spent = spent_so_far();
    FEDGATE(&run, MODEL, "run", "--slot", "b", "--set", "train.precision=bf16");
    expect(&run, 0, "promoted", "");
    support_run_done(&run);
    expect_cost_of_both(spent, samples);
    Json *record = read_run("run.json"), *evidence = read_run("evidence.json");
    ck_assert(json_number_or(json_find(record, "seconds.train"), 1) <
              json_number_or(json_find(evidence, "parity.training_seconds"), 0) / 2);
    ck_assert_int_eq((int64_t)json_count(json_find(evidence, "loop.steps.index")),
                     json_integer_or(json_find(evidence, "window.done_steps"), 0));
    json_free(record);
    json_free(evidence);
    end();
}
END_TEST

// Five minutes to the deadline (06:00 in Berlin); parity of many pairs after a training of a minute takes
// longer than the forecast thought.
START_TEST(test_a_deadline_in_late_parity_is_refused_by_the_window)
{
    begin_learnable();
    SupportRun run;
    FEDGATE(&run, MODEL ",model.night_start=1764564900,model.compute_ns=1000000000", "run", "--set",
            "train.precision=bf16", "--set", "train.epochs=2", "--set", "parity.pairs=64");
    expect(&run, 10, "refused", "window");
    support_run_done(&run);
    Json *evidence = read_run("evidence.json");
    int64_t done = json_integer_or(json_find(evidence, "window.done_steps"), 0);
    ck_assert_int_gt(done, 0);
    ck_assert_int_eq(done, json_integer_or(json_find(evidence, "window.planned_steps"), 0));
    ck_assert(!json_bool_or(json_find(evidence, "window.stopped_early"), true));
    ck_assert_ptr_null(json_find(evidence, "parity.metric"));
    ck_assert_ptr_nonnull(json_find(evidence, "quality"));
    json_free(evidence);
    end();
}
END_TEST

START_TEST(test_a_killed_training_resumes_from_its_checkpoint)
{
    begin_learnable();
    int64_t samples = samples_of_a_whole_night((const char *const[]){"run", "--no-promote", "--slot", "whole",
                                                                     "--set", "train.checkpoint_every=20",
                                                                     "--set", "telemetry.window=20", NULL});
    SupportRun run;
    FEDGATE(&run, MODEL ",process.kill_step=60", "run", "--set", "train.checkpoint_every=20", "--set",
            "telemetry.window=20");
    expect(&run, 69, "failed", "");
    support_run_done(&run);
    double spent = spent_so_far();
    FEDGATE(&run, MODEL, "run", "--set", "train.checkpoint_every=20", "--set", "telemetry.window=20");
    expect(&run, 0, "promoted", "");
    Json *verdict = read_home("last-verdict.json");
    char name[256];
    ck_assert(
        text_print(name, sizeof name, "runs/%s/evidence.json", json_text_or(json_get(verdict, "run"), "")));
    Json *evidence = read_home(name);
    ck_assert_int_ge(json_integer_or(json_get(evidence, "resumed_from_step"), 0), 20);
    expect_cost_of_both(spent, samples);
    json_free(evidence);
    json_free(verdict);
    support_run_done(&run);
    end();
}
END_TEST

// -- the device hangs, or is none

// A device call that never comes back: the child is named dead with its step, nothing moves, nothing stays
// locked, and the slot goes on from the checkpoint. On the real clock: the call is given up after
// device.timeout and a margin, which no honest call of this small model takes on a slow machine either.
START_TEST(test_a_device_that_hangs_ends_69_and_the_slot_goes_on)
{
    static const struct {
        const char *faults, *words;
    } hangs[] = {{"device.hang_step=60", "ended when asked to"},
                 {"device.hang_step=60,device.hang_deaf=1", "Killed"}};
    begin_learnable();
    SupportRun run;
    FEDGATE(&run, hangs[_i].faults, "run", "--slot", "a", "--set", "device.timeout=4s", "--set",
            "train.checkpoint_every=20");
    expect(&run, 69, "failed", "");
    const char *said = text_string(&run.errors), *word = strstr(said, "training process (pid ");
    ck_assert_msg(word != NULL && strstr(word, "in step 'train', training step 6") != NULL &&
                      strstr(word, hangs[_i].words) != NULL,
                  "%s", tail(&run.errors));
    ck_assert(support_process_ends(strtol(word + strlen("training process (pid "), NULL, 10)));
    support_run_done(&run);
    expect_live("baseline");
    FEDGATE(&run, MODEL, "run", "--slot", "a", "--set", "train.checkpoint_every=20");
    expect(&run, 0, "promoted", "");
    support_run_done(&run);
    Json *evidence = read_run("evidence.json");
    ck_assert_int_ge(json_integer_or(json_get(evidence, "resumed_from_step"), 0), 20);
    json_free(evidence);
    end();
}
END_TEST

// -- nights on a card that is none (tests/backends/card.c): several steps a launch, sampled windows, the
// device's clock. The clock is the real one, so what depends on speed is not looked at.

static void begin_card(const char *name, const char *value)
{
    begin_learnable();
    int64_t hour = clock_wall_ns(clock_real()) / INT64_C(3600000000000) % 24;
    ck_assert_int_eq(setenv("FEDGATE_SET_WINDOW__ZONE", "Etc/UTC", 1), 0);   // far from any deadline
    ck_assert_int_eq(setenv("FEDGATE_SET_WINDOW__DEADLINE", hour < 12 ? "18:00" : "06:00", 1), 0);
    ck_assert_int_eq(setenv("FEDGATE_SET_DEVICE__BACKEND", "cuda", 1), 0);
    ck_assert_int_eq(setenv("FEDGATE_SET_DEVICE__PEAK_FLOPS", "1e13", 1), 0);
    ck_assert_int_eq(setenv("FEDGATE_SET_TRAIN__EPOCHS", "8", 1), 0);
    ck_assert_int_eq(setenv("FEDGATE_BACKENDS", FEDGATE_BINARY_DIR "/tests/backends/card", 1), 0);
    if (name != NULL)
        ck_assert_int_eq(setenv(name, value, 1), 0);
}

// The named check of the last verdict ended so, for a reason with these words.
static void expect_check(const Json *verdict, const char *name, const char *outcome, const char *words)
{
    const Json *checks = json_get(verdict, "checks");
    for (size_t i = 0; i < json_count(checks); i++) {
        const Json *check = json_at(checks, i);
        if (strcmp(json_text_or(json_get(check, "name"), ""), name) != 0)
            continue;
        const char *seen = json_text_or(json_get(check, "outcome"), "?"),
                   *reason = json_text_or(json_get(check, "reason"), "?");
        ck_assert_msg(strcmp(seen, outcome) == 0 && strstr(reason, words) != NULL, "%s is %s: %s", name, seen,
                      reason);
        return;
    }
    ck_abort_msg("no check '%s'", name);
}

START_TEST(test_a_night_on_a_card_says_what_only_a_card_can)
{
    begin_card(NULL, NULL);
    SupportRun run;
    FEDGATE(&run, "", "run");
    Json *verdict = read_home("last-verdict.json"), *evidence = read_run("evidence.json"),
         *record = read_run("run.json"), *identity = read_run("record.json");
    static const char *const passes[] = {"determinism", "input", "memory"};
    for (size_t i = 0; i < sizeof passes / sizeof passes[0]; i++)
        expect_check(verdict, passes[i], "pass", "");
    ck_assert_str_eq(json_text_or(json_get(evidence, "device_class"), ""), "no card");
    ck_assert_str_eq(json_text_or(json_find(verdict, "measured.device"), ""), "no card");
    ck_assert_int_gt(json_integer_or(json_find(verdict, "measured.windows"), 0), 0);
    ck_assert_int_ge(json_integer_or(json_find(evidence, "timeline.device_steps.count"), 0),
                     json_integer_or(json_find(evidence, "window.done_steps"), INT64_MAX));
    ck_assert_int_eq(json_integer_or(json_find(evidence, "loop.nonfinite_inputs"), -1), 0);
    ck_assert_str_eq(json_text_or(json_find(evidence, "determinism.order.device_digest"), "a"),
                     json_text_or(json_find(evidence, "determinism.order.digest"), "b"));
    ck_assert_str_eq(json_text_or(json_find(identity, "machine.backend"), ""), "cuda");
    ck_assert(strstr(json_text_or(json_find(identity, "machine.device"), ""), "no card, ") != NULL);
    ck_assert_str_ne(json_text_or(json_get(record, "driver"), ""), "");
    json_free(identity);
    json_free(record);
    json_free(evidence);
    json_free(verdict);
    support_run_done(&run);
    end();
}
END_TEST

// Nothing is copied in the steady state, and the night says so; what streams beside the training has its
// place.
START_TEST(test_a_night_with_resident_rows_is_judged_by_its_substitute)
{
    begin_card(NULL, NULL);
    SupportRun run;
    FEDGATE(&run, "", "run", "--set", "input.resident=true");
    Json *verdict = read_home("last-verdict.json"), *evidence = read_run("evidence.json");
    static const char *const passes[] = {"determinism", "input", "memory"};
    for (size_t i = 0; i < sizeof passes / sizeof passes[0]; i++)
        expect_check(verdict, passes[i], "pass", "");
    ck_assert(json_bool_or(json_find(evidence, "timeline.resident"), false));
    const Json *copied = json_find(evidence, "timeline.steps.h2d_bytes"),
               *checks = json_get(verdict, "checks");
    for (size_t i = 0; i < json_count(copied); i++)
        ck_assert_int_eq(json_integer_or(json_at(copied, i), -1), 0);
    const char *overlap =
        json_text_or(json_get(json_at(checks, 0), "outcome"), "?");   // by speed, pass or fail
    ck_assert_msg(strcmp(overlap, "pass") == 0 || strcmp(overlap, "fail") == 0, "%s: %s", overlap,
                  json_text_or(json_get(json_at(checks, 0), "reason"), "?"));
    json_free(evidence);
    json_free(verdict);
    support_run_done(&run);
    end();
}
END_TEST

START_TEST(test_a_slot_refilled_early_is_refused_by_what_was_copied)
{
    begin_card(NULL, NULL);
    SupportRun run;
    FEDGATE(&run, "feed.refill_early=1", "run");
    ck_assert_int_eq(run.exit_code, 10);
    Json *verdict = read_home("last-verdict.json");
    expect_check(verdict, "determinism", "fail", "a slot was refilled before its copy had ended");
    json_free(verdict);
    support_run_done(&run);
    expect_live("baseline");
    end();
}
END_TEST

// The driver answers, the kernel does not end: the child waits for device.timeout and says so itself.
START_TEST(test_a_kernel_that_never_ends_ends_69)
{
    begin_card("CARD_HANG", "200");
    SupportRun run;
    FEDGATE(&run, "", "run", "--set", "device.timeout=3s");
    expect(&run, 69, "failed", "");
    ck_assert_msg(strstr(text_string(&run.errors), "device made no progress for 3 s") != NULL, "%s",
                  tail(&run.errors));
    support_run_done(&run);
    expect_live("baseline");
    ck_assert_int_eq(unsetenv("CARD_HANG"), 0);
    FEDGATE(&run, "", "run", "--no-promote");   // nothing stayed locked, and the slot is open
    ck_assert_msg(run.exit_code != 69 && run.exit_code != 75, "%d: %s", run.exit_code, tail(&run.errors));
    support_run_done(&run);
    end();
}
END_TEST

// Closing a device may hang as well: what was said counts, but a night is not good whose device does not let
// go.
START_TEST(test_a_device_that_does_not_close_ends_69)
{
    begin_learnable();
    SupportRun run;
    FEDGATE(&run, MODEL ",process.hang_end=1", "run", "--set", "device.timeout=2s");
    expect(&run, 69, "failed", "");
    ck_assert_msg(strstr(text_string(&run.errors), "was ended by signal 9") != NULL, "%s", tail(&run.errors));
    support_run_done(&run);
    expect_live("baseline");
    end();
}
END_TEST

// One broken module of tests/backends in the place of the cuda back end.
static void use_module(const char *how)
{
    SCOPED_TEXT module;
    text_init(&module, 10 * 1000 * 1000);
    char from[1024], to[1024];
    ck_assert(text_print(from, sizeof from, "%s/tests/backends/%s/fedgate_fake.so", FEDGATE_BINARY_DIR, how));
    ck_assert(text_print(to, sizeof to, "%s/fedgate_cuda.so", folder));
    Error error = ERROR_INIT;
    ck_assert_msg(file_read(from, &module, &error), "%s", error.message);
    ck_assert_msg(file_write_atomic(to, text_string(&module), module.length, 0644, &error), "%s",
                  error.message);
    ck_assert_int_eq(setenv("FEDGATE_BACKENDS", folder, 1), 0);
}

START_TEST(test_a_device_that_is_not_there_ends_69_before_any_work)
{
    static const struct {
        const char *how, *words;
    } modules[] = {{"abi", "is refused: contract 1"},
                   {"cuda_unsupported", "is unsupported here: no device of this kind"},
                   {"cuda_crash", "could not be asked: its process ended with signal 6"}};
    begin_learnable();
    use_module(modules[_i].how);
    SupportRun run;
    FEDGATE(&run, MODEL, "run", "--set", "device.backend=cuda");
    expect(&run, 69, "failed", "");
    ck_assert_msg(strstr(text_string(&run.errors), modules[_i].words) != NULL, "%s", tail(&run.errors));
    support_run_done(&run);
    FEDGATE(&run, "", "doctor", "--set", "device.backend=cuda");
    ck_assert_int_eq(run.exit_code, 69);
    ck_assert_msg(strstr(text_string(&run.output), modules[_i].words) != NULL, "%s",
                  text_string(&run.output));
    support_run_done(&run);
    // A plan needs no device: what follows from it is declared or assumed, and said to be.
    SUPPORT_RUN(&run, "plan", "--config", source("fixtures/configs/learnable_night.yaml"), "--set",
                "device.backend=cuda", "--set", "device.peak_flops=1e12");
    ck_assert_msg(run.exit_code == 0 && strstr(text_string(&run.errors), "the device was not asked") != NULL,
                  "%d: %s", run.exit_code, text_string(&run.errors));
    support_run_done(&run);
    ck_assert_int_eq(unsetenv("FEDGATE_BACKENDS"), 0);
    end();
}
END_TEST

START_TEST(test_no_promote_passes_and_leaves_the_slot_open)
{
    begin_learnable();
    SupportRun run;
    FEDGATE(&run, MODEL, "run", "--no-promote");
    expect(&run, 0, "passed", "");
    expect_live("baseline");
    support_run_done(&run);
    FEDGATE(&run, MODEL, "run");
    expect(&run, 0, "promoted", "");
    support_run_done(&run);
    end();
}
END_TEST

// -- reproducible

START_TEST(test_two_runs_of_one_version_seal_the_same_bytes_and_other_bytes_are_refused)
{
    begin_learnable();
    SupportRun run;
    FEDGATE(&run, MODEL, "run", "--no-promote");
    expect(&run, 0, "passed", "");
    support_run_done(&run);
    FEDGATE(&run, MODEL ",release.other_bytes=1", "run", "--retry");
    expect(&run, 10, "refused", "determinism");
    support_run_done(&run);
    FEDGATE(&run, MODEL, "run", "--retry", "--set", "input.workers=3", "--set", "device.threads=2");
    expect(&run, 0, "promoted", "");
    support_run_done(&run);
    end();
}
END_TEST

START_TEST(test_judging_stored_evidence_again_gives_the_same_bytes)
{
    begin_learnable();
    SupportRun run, first, second;
    FEDGATE(&run, MODEL, "run");
    expect(&run, 0, "promoted", "");
    support_run_done(&run);
    Json *verdict = read_home("last-verdict.json");
    char path[1024];
    ck_assert(text_print(path, sizeof path, "%s/runs/%s/evidence.json", home,
                         json_text_or(json_get(verdict, "run"), "")));
    FEDGATE(&first, "", "judge", path, "--format", "json");
    FEDGATE(&second, "", "judge", path, "--format", "json");
    ck_assert_msg(first.exit_code == 0, "%s%s", text_string(&first.output), text_string(&first.errors));
    ck_assert_str_eq(text_string(&first.output), text_string(&second.output));
    json_free(verdict);
    support_run_done(&first);
    support_run_done(&second);
    end();
}
END_TEST

// A machine under load takes the processor away between two readings of the clock, but not three nights in a
// row.
START_TEST(test_a_night_on_the_real_clock_ends_in_a_complete_verdict_that_closes)
{
    begin("fixtures/configs/learnable.yaml", "fixtures/learnable");
    bool closed = false;
    for (int night = 1; night <= 3 && !closed; night++) {
        char slot[32], name[256];
        ck_assert(text_print(slot, sizeof slot, "night-%d", night));
        SupportRun run;
        FEDGATE(&run, "", "run", "--slot", slot);
        ck_assert_msg(run.exit_code == 0 || run.exit_code == 10, "%d: %s", run.exit_code, tail(&run.errors));
        support_run_done(&run);
        Json *verdict = read_home("last-verdict.json");
        const Json *checks = json_get(verdict, "checks");
        ck_assert_uint_eq(json_count(checks), 15);
        for (size_t i = 0; i < json_count(checks); i++) {
            const char *outcome = json_text_or(json_get(json_at(checks, i), "outcome"), "");
            ck_assert_str_ne(outcome, "not_measured");
            ck_assert_str_ne(outcome, "error");
            if (strcmp(json_text_or(json_get(json_at(checks, i), "name"), ""), "closure") == 0)
                closed = strcmp(outcome, "pass") == 0;
        }
        ck_assert(text_print(name, sizeof name, "runs/%s/evidence.json",
                             json_text_or(json_get(verdict, "run"), "")));
        Json *evidence = read_home(name);
        const Json *used = json_get(evidence, "resources");   // watched, with their caps
        ck_assert_int_gt(json_integer_or(json_get(used, "open_files"), 0), 0);
        ck_assert_int_gt(json_integer_or(json_get(used, "host_bytes"), 0), 0);
        ck_assert_int_le(json_integer_or(json_get(used, "host_bytes"), INT64_MAX),
                         json_integer_or(json_get(used, "host_cap_bytes"), 0));
        ck_assert(json_number_or(json_get(used, "storage_bytes_per_second"), 0) > 0);
        json_free(evidence);
        json_free(verdict);
    }
    ck_assert(closed);
    end();
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("nights");
    TCase *nights = tcase_create("nights");
    tcase_set_timeout(nights, 300);
    tcase_add_test(nights, test_a_good_first_night_is_promoted_and_judged_once);
    tcase_add_test(nights, test_utilities_that_fit_no_task_end_78);
    tcase_add_test(nights, test_quiet_is_silent_when_promoted);
    tcase_add_test(nights, test_a_corrupted_live_release_is_reverted_to_the_last_known_good);
    tcase_add_test(nights, test_a_rollback_is_not_undone_by_the_next_night);
    tcase_add_test(nights, test_a_live_version_of_another_task_is_no_comparison);
    tcase_add_test(nights, test_a_home_serves_one_model);
    tcase_add_test(nights, test_status_says_that_the_pointer_moved_since_a_good_verdict);
    tcase_add_test(nights, test_without_a_database_the_slot_waits_and_resumes_at_shipping);
    tcase_add_test(nights, test_a_second_run_is_refused_and_names_the_holder);
    tcase_add_test(nights, test_a_killed_training_resumes_from_its_checkpoint);
    tcase_add_test(nights, test_a_signal_in_late_parity_ends_75_and_the_rerun_does_not_train_again);
    tcase_add_test(nights, test_a_deadline_in_late_parity_is_refused_by_the_window);
    tcase_add_test(nights, test_no_promote_passes_and_leaves_the_slot_open);
    tcase_add_test(nights, test_two_runs_of_one_version_seal_the_same_bytes_and_other_bytes_are_refused);
    tcase_add_test(nights, test_judging_stored_evidence_again_gives_the_same_bytes);
    tcase_add_test(nights, test_a_night_on_the_real_clock_ends_in_a_complete_verdict_that_closes);
    suite_add_tcase(suite, nights);
    TCase *device = tcase_create("device");
    tcase_set_timeout(device, 300);
    tcase_add_loop_test(device, test_a_device_that_hangs_ends_69_and_the_slot_goes_on, 0, 2);
    tcase_add_test(device, test_a_device_that_does_not_close_ends_69);
    tcase_add_test(device, test_a_night_on_a_card_says_what_only_a_card_can);
    tcase_add_test(device, test_a_night_with_resident_rows_is_judged_by_its_substitute);
    tcase_add_test(device, test_a_slot_refilled_early_is_refused_by_what_was_copied);
    tcase_add_test(device, test_a_kernel_that_never_ends_ends_69);
    tcase_add_loop_test(device, test_a_device_that_is_not_there_ends_69_before_any_work, 0, 3);
    suite_add_tcase(suite, device);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
