// memory_nights_test - the plan of a night against its ledger: every account to the byte in each precision,
// the prediction of `plan --against`, and the budget to the last tensor.
//
// The program is the fault build, on the simulated clock. What parity or quality say of the nights is not
// looked at here, only `memory`.
#include <fedgate/clock.h>
#include <fedgate/file.h>
#include <fedgate/json.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "support.h"

static char *folder;
static char home[512], data[512];

static void begin(void)
{
    folder = support_folder_new();
    ck_assert_int_eq(chmod(folder, 0755), 0);   // the private cluster may belong to a service account
    ck_assert(text_print(home, sizeof home, "%s/home", folder));
    ck_assert(text_print(data, sizeof data, "%s/fixtures/learnable", FEDGATE_SOURCE_DIR));
    ck_assert_int_eq(setenv("FEDGATE_SET_DATA__DIRECTORY", data, 1), 0);
    ck_assert_int_eq(setenv("FEDGATE_SET_TRAIN__EPOCHS", "4", 1), 0);
    ck_assert_int_eq(setenv("FEDGATE_SET_PARITY__PAIRS", "2", 1), 0);
    ck_assert_int_eq(unsetenv("FEDGATE_FAULT"), 0);
    SupportRun run;
    SUPPORT_RUN(&run, "init", "--home", home, "--config",
                FEDGATE_SOURCE_DIR "/fixtures/configs/learnable_night.yaml");
    ck_assert_msg(run.exit_code == 0, "init: %s", text_string(&run.errors));
    support_run_done(&run);
}

static void end(void)
{
    support_folder_remove(folder);
    folder = NULL;
}

static Json *read_file(const char *name)
{
    char path[1024];
    Error error = ERROR_INIT;
    ck_assert(text_print(path, sizeof path, "%s/%s", home, name));
    Json *json = json_read_file(path, 64 * 1000 * 1000, &error);
    ck_assert_msg(json != NULL, "%s", error.message);
    return json;
}

enum { SETS = 6 };
typedef struct Sets {
    const char *at[SETS];
} Sets;

static void run_program(const char *const *words, const Sets *sets, SupportRun *run)
{
    const char *all[32] = {NULL};
    size_t n = 0;
    for (; words[n]; n++)
        all[n] = words[n];
    all[n++] = "--home";
    all[n++] = home;
    for (size_t i = 0; i < SETS && sets->at[i]; i++) {
        all[n++] = "--set";
        all[n++] = sets->at[i];
    }
    support_run(all, run);
}

static Json *plan_of(const Sets *sets, const char *against)
{
    const char *words[] = {"plan", "--format", "json", against ? "--against" : NULL, against, NULL};
    SupportRun run;
    Error error = ERROR_INIT;
    run_program(words, sets, &run);
    Json *json = json_parse(text_string(&run.output), run.output.length, 1u << 20, &error);
    ck_assert_msg(json != NULL, "plan ended %d: %s", run.exit_code, text_string(&run.errors));
    support_run_done(&run);
    return json;
}

// A night's evidence; ret_check: what `memory` said.
static Json *night(const char *faults, const Sets *sets, char ret_outcome[32], char ret_reason[512])
{
    SupportRun run;
    char name[256];
    ck_assert_int_eq(setenv("FEDGATE_FAULT", faults, 1), 0);
    run_program((const char *const[]){"run", "--retry", NULL}, sets, &run);
    unsetenv("FEDGATE_FAULT");
    OWNED(Json, json_free) *verdict = read_file("last-verdict.json");
    const Json *checks = json_get(verdict, "checks"), *found = NULL;
    for (size_t i = 0; i < json_count(checks); i++)
        if (strcmp(json_text_or(json_get(json_at(checks, i), "name"), ""), "memory") == 0)
            found = json_at(checks, i);
    ck_assert_msg(found != NULL, "no check in the verdict, ended %d: %s", run.exit_code,
                  text_string(&run.errors));
    support_run_done(&run);
    ck_assert(text_copy(ret_outcome, 32, json_text_or(json_get(found, "outcome"), "")));
    ck_assert(text_copy(ret_reason, 512, json_text_or(json_get(found, "reason"), "")));
    ck_assert(
        text_print(name, sizeof name, "runs/%s/evidence.json", json_text_or(json_get(verdict, "run"), "")));
    return read_file(name);
}

static const Json *account(const Json *evidence, const char *name)
{
    const Json *accounts = json_find(evidence, "memory.accounts");
    for (size_t i = 0; i < json_count(accounts); i++)
        if (strcmp(json_text_or(json_get(json_at(accounts, i), "name"), ""), name) == 0)
            return json_at(accounts, i);
    return NULL;
}

static int64_t peak_of(const Json *evidence, const char *name)
{
    return json_integer_or(json_get(account(evidence, name), "peak_bytes"), 0);
}

static bool is_of(const Json *account, const char *kind, const char *name)
{
    return strcmp(json_text_or(json_get(account, "kind"), ""), kind) == 0 &&
           (name == NULL || strcmp(json_text_or(json_get(account, "name"), ""), name) == 0);
}

// Each account of the device to the byte, and together with the context the planned peak. What pieces of the
// arena are rounded up by, and recordings, are planned as the most they may take. Pinned memory likewise.
static void expect_as_planned(const Json *evidence)
{
    const Json *memory = json_get(evidence, "memory"), *accounts = json_get(memory, "accounts");
    int64_t sum = json_integer_or(json_get(memory, "context_bytes"), -1), pinned_sum = 0, rounded = 0;
    size_t devices = 0;
    for (size_t i = 0; i < json_count(accounts); i++) {
        const Json *item = json_at(accounts, i);
        bool device = is_of(item, "device", NULL), pinned = is_of(item, "pinned", NULL);
        if (!device && !pinned)
            continue;
        const char *name = json_text_or(json_get(item, "name"), "");
        int64_t planned = json_integer_or(json_get(item, "planned_bytes"), -1),
                peak = json_integer_or(json_get(item, "peak_bytes"), -2);
        bool rounding = strcmp(name, "arena rounding") == 0,
             bound = rounding || strcmp(name, "captures") == 0;
        ck_assert_msg(bound ? peak >= 0 && peak <= planned : planned == peak,
                      "account '%s': planned %lld, took %lld bytes", name, (long long)planned,
                      (long long)peak);
        rounded += rounding;
        *(device ? &sum : &pinned_sum) += planned;
        devices += device;
    }
    ck_assert_uint_gt(devices, 8);
    ck_assert_int_eq(rounded, 2);   // of both arenas
    ck_assert_int_eq(sum, json_integer_or(json_get(memory, "planned_peak_bytes"), -1));
    ck_assert_int_le(json_integer_or(json_get(memory, "measured_peak_bytes"), INT64_MAX), sum);
    ck_assert_int_eq(json_integer_or(json_find(memory, "pinned_arena.bytes"), -1), pinned_sum / 512 * 512);
    ck_assert_int_le(json_integer_or(json_find(memory, "arena.peak_bytes"), INT64_MAX), sum);
    ck_assert_int_gt(json_integer_or(json_find(memory, "arena.most_pieces"), 0), 8);
}

static const Json *moved(const Json *plan, const char *line)
{
    const Json *array = json_find(plan, "against.moved");
    for (size_t i = 0; i < json_count(array); i++)
        if (strcmp(json_text_or(json_get(json_at(array, i), "line"), ""), line) == 0)
            return json_at(array, i);
    return NULL;
}

START_TEST(each_account_is_as_planned_in_each_precision_and_as_predicted)
{
    static const char *const precisions[] = {"fp32", "bf16", "fp16"};
    char outcome[32], reason[512], set[64];
    Json *evidence[3];
    begin();
    for (size_t i = 0; i < 3; i++) {
        ck_assert(text_print(set, sizeof set, "train.precision=%s", precisions[i]));
        evidence[i] = night("clock.model=1", &(Sets){{set}}, outcome, reason);
        ck_assert_msg(strcmp(outcome, "pass") == 0, "%s: %s: %s", precisions[i], outcome, reason);
        expect_as_planned(evidence[i]);
    }
    ck_assert_ptr_null(account(evidence[0], "parity weights"));
    ck_assert_ptr_nonnull(account(evidence[1], "parity weights"));
    // what `plan --against` said of half precision, the ledgers of the two nights show
    OWNED(Json, json_free) *plan = plan_of(&(Sets){{"train.precision=fp32"}}, "train.precision=bf16");
    int64_t microbatch = json_integer_or(json_find(plan, "memory.microbatch"), 0);
    const Json *line = moved(plan, "activations a sample");
    ck_assert_ptr_nonnull(line);
    int64_t saved =
        (json_integer_or(json_get(line, "from"), 0) - json_integer_or(json_get(line, "to"), 0)) * microbatch;
    ck_assert_int_gt(saved, 0);
    ck_assert_int_eq(peak_of(evidence[0], "activations") - peak_of(evidence[1], "activations"), saved);
    ck_assert_int_eq(peak_of(evidence[1], "pass weights"),
                     json_integer_or(json_get(moved(plan, "pass weights"), "to"), -1));
    ck_assert_ptr_null(moved(plan, "weights"));
    ck_assert_int_eq(peak_of(evidence[0], "weights"), peak_of(evidence[1], "weights"));
    for (size_t i = 0; i < 3; i++)
        json_free(evidence[i]);
    end();
}
END_TEST

#ifndef __SANITIZE_ADDRESS__   // its allocator keeps what was freed: more than half of so small a budget
// The smallest device that holds this night: its planned peak, found as a person would.
static int64_t smallest_device(Sets *sets, size_t at, char set[static 64])
{
    int64_t bytes = 100000000;
    for (int i = 0; i < 8; i++) {
        ck_assert(text_print(set, 64, "device.memory=%lld", (long long)bytes));
        sets->at[at] = set;
        OWNED(Json, json_free) *plan = plan_of(sets, NULL);
        int64_t peak = json_integer_or(json_find(plan, "memory.planned_peak_bytes"), 0);
        if (peak == bytes)
            break;
        bytes =
            peak;   // fewer validation rows stay on a smaller device, and a piece of them costs more or less
    }
    return bytes;
}

START_TEST(a_budget_that_is_full_to_the_byte_passes_and_one_tensor_more_does_not)
{
    char outcome[32], reason[512], set[64];
    // wide, so that half the budget is more than the heap of the program, which no account explains
    Sets sets = {{"train.hidden=1024,512", "memory.reserve=0", "train.microbatch=64",
                  "memory.unexplained=0.5", "device.threads=1"}};
    begin();
    int64_t bytes = smallest_device(&sets, 5, set);
    Json *evidence = night("clock.model=1", &sets, outcome, reason);
    ck_assert_msg(strcmp(outcome, "pass") == 0, "%s: %s", outcome, reason);
    ck_assert_int_eq(json_integer_or(json_find(evidence, "memory.planned_peak_bytes"), 0), bytes);
    expect_as_planned(evidence);
    json_free(evidence);
    json_free(night("clock.model=1,memory.extra_bytes=4", &sets, outcome, reason));
    ck_assert_msg(strcmp(outcome, "fail") == 0 && strstr(reason, "account 'unplanned' took 4 bytes") != NULL,
                  "%s: %s", outcome, reason);
    ck_assert(text_print(set, sizeof set, "device.memory=%lld", (long long)bytes - 1));
    json_free(night("clock.model=1", &sets, outcome, reason));
    ck_assert_msg(strcmp(outcome, "fail") == 0 && strstr(reason, "refused before training") != NULL, "%s: %s",
                  outcome, reason);
    end();
}
END_TEST
#endif

// A leak that fits the arena ends the night as growth; one that does not ends it at once, and as a refusal
// too, not as a device without memory.
START_TEST(a_leak_is_refused_inside_the_arena_and_at_its_end)
{
    static const struct {
        const char *fault, *reason;
    } leaks[] = {
        {"clock.model=1,train.leak_bytes=100000", "account 'retained' keeps what no plan names"},
        {"clock.model=1,train.leak_bytes=6000000",
         "account 'retained' asks 6000000 bytes of device memory, of the arena of "},
    };
    char outcome[32], reason[512];
    const Sets sets = {{NULL}};
    begin();
    for (size_t i = 0; i < sizeof leaks / sizeof leaks[0]; i++) {
        OWNED(Json, json_free) *evidence = night(leaks[i].fault, &sets, outcome, reason);
        ck_assert_msg(strcmp(outcome, "fail") == 0 && strstr(reason, leaks[i].reason) != NULL, "%s: %s",
                      outcome, reason);
        OWNED(Json, json_free) *verdict = read_file("last-verdict.json");
        ck_assert_str_eq(json_text_or(json_get(verdict, "outcome"), ""), "refused");
        ck_assert_str_eq(json_text_or(json_get(verdict, "decided_by"), ""), "memory");
        ck_assert_int_ge(peak_of(evidence, "retained"), 2 * 6000000 * (int64_t)i);
    }
    end();
}
END_TEST

// A module of tests/backends stands for a card and its driver; the clock is the real one, as launches need
// it. What other checks say of a card that is none is not looked at.
static const struct {
    const char *what, *faults;
    const char *total, *before, *hidden;   // bytes of the card
    bool silent;
    const char *outcome, *reason;
} cards[] = {
    {"honest", "", "141000000000", "500000000", "0", false, "pass", "live memory does not grow"},
    {"memory that nobody asked for", "", "141000000000", "0", "216000001", false, "fail",
     "memory that no account explains"},
    {"a driver that does not count", "", "141000000000", "0", "0", true, "not_measured", "unexplained_bytes"},
    {"filled by others", "", "24000000000", "23999000000", "0", false, "fail", "other programs hold 24 GB"},
    {"one tensor more than the budget, and the card has room", "memory.extra_bytes=21600000000",
     "141000000000", "0", "0", false, "fail", "account 'unplanned' asks 21600000000 bytes of device memory"},
};

// Nights on the real clock must not meet their deadline.
static void far_deadline(void)
{
    int64_t hour = clock_wall_ns(clock_real()) / INT64_C(3600000000000) % 24;
    ck_assert_int_eq(setenv("FEDGATE_SET_WINDOW__ZONE", "Etc/UTC", 1), 0);
    ck_assert_int_eq(setenv("FEDGATE_SET_WINDOW__DEADLINE", hour < 12 ? "18:00" : "06:00", 1), 0);
}

START_TEST(a_card_is_held_to_its_plan_and_to_its_driver)
{
    char outcome[32], reason[512];
    const Sets sets = {{"device.backend=cuda", "train.precision=bf16", "train.epochs=12"}};
    begin();
    far_deadline();
    ck_assert_int_eq(setenv("FEDGATE_BACKENDS", FEDGATE_BINARY_DIR "/tests/backends/card", 1), 0);
    ck_assert_int_eq(setenv("CARD_TOTAL", cards[_i].total, 1), 0);
    ck_assert_int_eq(setenv("CARD_BEFORE", cards[_i].before, 1), 0);
    ck_assert_int_eq(setenv("CARD_HIDDEN", cards[_i].hidden, 1), 0);
    if (cards[_i].silent)
        ck_assert_int_eq(setenv("CARD_SILENT", "1", 1), 0);
    OWNED(Json, json_free) *evidence = night(cards[_i].faults, &sets, outcome, reason);
    ck_assert_msg(strcmp(outcome, cards[_i].outcome) == 0 && strstr(reason, cards[_i].reason) != NULL,
                  "%s: %s: %s", cards[_i].what, outcome, reason);
    if (strcmp(outcome, "pass") == 0) {
        expect_as_planned(evidence);
        const Json *driver = json_find(evidence, "memory.driver");
        ck_assert_int_gt(json_integer_or(json_get(driver, "captures_bytes"), 0), 0);   // it was recorded
        ck_assert_int_eq(json_integer_or(json_find(evidence, "memory.unexplained_bytes"), -1), 0);
        ck_assert_int_eq(peak_of(evidence, "workspaces"), 1 << 20);
    }
    end();
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("memory nights");
    TCase *tests = tcase_create("memory nights");
    tcase_set_timeout(tests, 280);
    tcase_add_test(tests, each_account_is_as_planned_in_each_precision_and_as_predicted);
#ifndef __SANITIZE_ADDRESS__
    tcase_add_test(tests, a_budget_that_is_full_to_the_byte_passes_and_one_tensor_more_does_not);
#endif
    tcase_add_test(tests, a_leak_is_refused_inside_the_arena_and_at_its_end);
    tcase_add_loop_test(tests, a_card_is_held_to_its_plan_and_to_its_driver, 0,
                        sizeof cards / sizeof cards[0]);
    suite_add_tcase(suite, tests);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(suite());
    srunner_run_all(runner, CK_ENV);
    int bad = srunner_ntests_failed(runner);
    srunner_free(runner);
    return bad != 0;
}
