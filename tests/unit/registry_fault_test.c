// registry_fault_test - every call that changes a home fails, or is where the process dies, one after the
// other; what is left is looked at before and after recovery, and recovery is cut short in the same way.
//
// The number of calls of an undisturbed run says how far each loop goes. A worker is a program of its own,
// since fault points count the calls of a process.
#include "pack_fixture.h"
#include "registry_fixture.h"

#include <fedgate/fault.h>
#include <signal.h>

#ifdef FEDGATE_FAULTS

#define D "model-000000000000000d"
#define X "model-00000000000000ff"

static Fixture f;
static char folder_template[FILE_PATH_SIZE];   // a home made once, copied for each fault
static char packed[FILE_PATH_SIZE];   // an export of X, from another home

// -- the work, each on a fresh home: records 1 adopt baseline, 2 to 5 promote A to D

static bool prune(Fixture *own)
{
    const PruneRequest request = {.keep = 2, .runs = -1};
    PruneResult result;
    if (!registry_prune(own->registry, &request, &result, &own->error))
        return false;
    registry_prune_done(&result);
    return true;
}

static bool has_all(void *context, const char *run, bool *ret_acknowledged, Error *error)
{
    (void)context;
    (void)run;
    (void)error;
    *ret_acknowledged = true;
    return true;
}

static bool thin(Fixture *own)
{
    const PruneRequest request = {.keep = 4, .runs = 1, .acknowledged = has_all};
    PruneResult result;
    if (!registry_prune(own->registry, &request, &result, &own->error))
        return false;
    registry_prune_done(&result);
    return true;
}

static void make_runs(void)
{
    static const char *const files[] = {"runs/run-1/verdict.json", "runs/run-1/timeline.json",
                                        "runs/run-1/candidate/weights", "runs/run-2/timeline.json",
                                        "spool/run-1.spool"};
    ASSERT_OK(file_make_directories(fixture_path(&f, "runs/run-1/candidate"), 0750, &f.error), &f.error);
    ASSERT_OK(file_make_directories(fixture_path(&f, "runs/run-2"), 0750, &f.error), &f.error);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        support_write(fixture_path(&f, files[i]), "0123456789");
}

static bool pin(Fixture *own)
{
    return registry_pin(own->registry, "", A, "why", &own->error) &&
           registry_unpin(own->registry, "", A, "why", &own->error);
}

// No assertion may be made in a worker, so no support_path either.
static bool export(Fixture *own)
{
    ExportResult result;
    char to[FILE_PATH_SIZE];
    return file_join(to, own->home, "failed/out", &own->error) &&
           registry_export(own->registry, D, to, &result, &own->error);
}

static bool import(Fixture *own)
{
    ImportResult result;
    char from[FILE_PATH_SIZE];
    return file_join(from, own->home, "failed/in", &own->error) &&
           registry_import(own->registry, "", from, &result, &own->error);
}

static bool promote(Fixture *own)
{
    return fixture_try(own, MOVE_PROMOTE, C, -1);
}

static bool roll_back(Fixture *own)
{
    PointerRecord record;
    return registry_rollback(own->registry, "", NULL, "why", &record, &own->error);
}

static bool recover(Fixture *own)
{
    RecoverResult result;
    return registry_recover(own->registry, &result, &own->error);
}

// A home with something of everything to put right.
static void leave_all(void)
{
    static const char *const folders[] = {"releases/.tmp-run-1", "releases/.import-x", "releases/.pruned-" X,
                                          "pointers/.tmp-6"};
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        ck_assert_int_eq(mkdir(fixture_path(&f, folders[i]), 0700), 0);
        support_write(support_path(fixture_path(&f, folders[i]), "x"), "");
    }
    ck_assert_int_eq(unlink(fixture_path(&f, "current")), 0);
    support_write(fixture_path(&f, "pruned/" A ".json"), "{\"format\":1}");
    support_write(fixture_path(&f, "bars/.tmp-x"), "");
}

static void rot_live(void)
{
    fixture_rot(&f, D);
}

static void nothing(void) {}

static const struct WorkRow {
    const char *name;
    bool (*work)(Fixture *own);
    void (*before)(void);
    const char *live[2];   // afterwards one of these
    bool reverts;
} work_rows[] = {
    {"prune", prune, nothing, {D, D}, false},        {"prune of runs", thin, make_runs, {D, D}, false},
    {"pin and unpin", pin, nothing, {D, D}, false},  {"export", export, nothing, {D, D}, false},
    {"import", import, nothing, {D, D}, false},      {"promote", promote, nothing, {D, C}, false},
    {"rollback", roll_back, nothing, {D, C}, false}, {"recovery", recover, leave_all, {D, D}, false},
    {"revert", recover, rot_live, {C, C}, true},
};
enum { WORK_COUNT = sizeof work_rows / sizeof work_rows[0] };
static const char *const modes[] = {"call.fail", "call.fail_from", "call.kill", "registry.step", "look.fail"};
enum { MODE_COUNT = sizeof modes / sizeof modes[0] };

// -- a home for each

static void make_template(void)
{
    Fixture other;
    ExportResult exported;
    fixture_open(&other);
    fixture_publish(&other, X, RELEASE_MODEL, NULL);
    fixture_three(&f);
    fixture_live(&f, MOVE_PROMOTE, C);
    fixture_live(&f, MOVE_PROMOTE, D);
    ck_assert(text_copy(folder_template, sizeof folder_template, f.home));
    ck_assert(text_copy(packed, sizeof packed, fixture_path(&f, "failed/in")));
    ASSERT_OK(registry_export(other.registry, X, packed, &exported, &other.error), &other.error);
    fixture_close(&other);
}

static void set_up(void)
{
    make_template();
}

static void tear_down(void)
{
    fixture_close(&f);
}

// Copies a tree as it is; nothing is synced, since no power is cut here.
static void copy_tree(const char *from, const char *to)
{
    ProcessResult result;
    const char *const argv[] = {"cp", "-a", from, to, NULL};
    const ProcessSpec spec = {.argv = argv, .timeout_ns = INT64_C(60) * 1000000000};
    ASSERT_OK(process_run(&spec, &result, &f.error), &f.error);
    ck_assert_int_eq(result.exit_code, 0);
}

static void renew(const struct WorkRow *row)
{
    registry_close(f.registry);
    ck_assert(text_copy(f.home, sizeof f.home, support_path(f.folder, "copy")));
    ASSERT_OK(file_remove_tree(f.home, &f.error), &f.error);
    copy_tree(folder_template, f.home);
    f.registry = registry_open(f.home, f.clock, &f.error);
    ASSERT_OK(f.registry != NULL, &f.error);
    row->before();
}

// -- one disturbed run: 0 done, 1 refused, 2 result and error disagree

static int work_here(int row, bool look, const char *home, const char *count_file)
{
    Fixture own = {.clock = clock_real(), .error = ERROR_INIT};
    if (!text_copy(own.home, sizeof own.home, home))
        return 99;
    own.registry = registry_open(home, own.clock, &own.error);
    if (!own.registry)
        return own.error.kind == ERROR_NONE ? 2 : 1;
    bool done = work_rows[row].work(&own);
    int code = done != (own.error.kind == ERROR_NONE) ? 2 : !done;
    registry_close(own.registry);
    char calls[32];
    snprintf(calls, sizeof calls, "%ld", fault_calls_made(look ? "look" : NULL));
    unsetenv("FEDGATE_FAULT");
    Error failed = ERROR_INIT;
    return file_write_atomic(count_file, calls, strlen(calls), 0600, &failed) ? code : 97;
}

static int run_work(int row, const char *mode, long n)
{
    char list[64], number[16];
    snprintf(list, sizeof list, "%s=%ld", mode, n);
    snprintf(number, sizeof number, "%d", row);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        if (n > 0)
            setenv("FEDGATE_FAULT", list, 1);
        execl("/proc/self/exe", "registry_fault_test", mode[0] == 'l' ? "--look" : "--work", number, f.home,
              support_path(f.folder, "calls"), (char *)NULL);
        _exit(98);
    }
    int code = fixture_wait(child);
    ck_assert_msg(code <= 1 || code == 128 + SIGKILL, "%s, %s ended with %d", work_rows[row].name, list,
                  code);
    return code;
}

static long count_calls(int row, const char *mode)
{
    SCOPED_TEXT text;
    int64_t calls;
    text_init(&text, 64);
    renew(&work_rows[row]);
    ck_assert_int_eq(run_work(row, mode, 0), 0);
    ck_assert(text_to_int64(support_read(support_path(f.folder, "calls"), &text), &calls));
    ck_assert_int_gt(calls, 1);
    return (long)calls;
}

// -- the invariant

static void expect_free(const char *lock)
{
    bool held;
    char content[256];
    ASSERT_OK(file_lock_look(fixture_path(&f, lock), &held, content, sizeof content, &f.error), &f.error);
    ck_assert_msg(!held, "%s is held by %s", lock, content);
}

static bool list_has(const FileList *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++)
        if (text_equal(list->names[i], name))
            return true;
    return false;
}

// Every release under its name is whole; with `settled` nothing else lies beside.
static void expect_releases(const struct WorkRow *row, bool settled)
{
    static const char *const kept[] = {BASELINE, C, D};
    FileList names;
    char name[160];
    ReleaseCheck check;
    ASSERT_OK(file_list(fixture_path(&f, "releases"), &names, &f.error), &f.error);
    for (size_t i = 0; i < names.count; i++) {
        ck_assert_msg(!settled || names.names[i][0] != '.', "'%s' is left", names.names[i]);
        if (names.names[i][0] == '.' || (row->reverts && text_equal(names.names[i], D)))
            continue;
        snprintf(name, sizeof name, "releases/%s", names.names[i]);
        ASSERT_OK(release_verify(fixture_path(&f, name), &check, &f.error), &f.error);
    }
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
        ck_assert_msg(list_has(&names, kept[i]), "'%s' is gone", kept[i]);
    file_list_done(&names);
}

static void expect_no_leftovers(const char *folder)
{
    FileList names;
    ASSERT_OK(file_list(fixture_path(&f, folder), &names, &f.error), &f.error);
    for (size_t i = 0; i < names.count; i++)
        ck_assert_msg(!text_starts_with(names.names[i], ".tmp-"), "'%s/%s' is left", folder, names.names[i]);
    file_list_done(&names);
}

// An export is there whole or not at all.
static void expect_export(void)
{
    Digest found;
    static Digest whole;
    static bool known;
    if (!file_exists(fixture_path(&f, "failed/out")))
        return;
    ASSERT_OK(hash_file(fixture_path(&f, "failed/out"), &found, NULL, &f.error), &f.error);
    if (!known)
        whole = found;
    known = true;
    ck_assert(digest_equal(&whole, &found));
}

static void expect_before_recovery(const struct WorkRow *row)
{
    bool any;
    PointerRecord record;
    if (row->before != leave_all) {
        ASSERT_OK(registry_current(f.registry, &any, &record, &f.error), &f.error);
        ck_assert(any);
    }
    expect_releases(row, false);
    expect_export();
    if (row->work == thin)   // what may be judged again, and what nobody asked to go
        ck_assert(file_exists(fixture_path(&f, "runs/run-1/verdict.json")) &&
                  file_exists(fixture_path(&f, "runs/run-2/timeline.json")));
}

static void expect_settled(const struct WorkRow *row)
{
    static const char *const locks[] = {"run.lock", "pointer.lock", "import.lock"};
    static const char *const folders[] = {"", "pointers", "bars", "pins", "pruned", "imports", "slots"};
    RecoverResult result;
    bool any;
    PointerRecord record;
    ASSERT_OK(registry_recover(f.registry, &result, &f.error), &f.error);
    ck_assert(row->reverts || !result.reverted);
    ASSERT_OK(registry_current(f.registry, &any, &record, &f.error), &f.error);
    ck_assert(any);
    ck_assert_msg(text_equal(record.to, row->live[0]) || text_equal(record.to, row->live[1]), "'%s' is live",
                  record.to);
    ck_assert_uint_eq(fixture_count_records(&f), (size_t)record.seq);
    expect_releases(row, true);
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
        expect_no_leftovers(folders[i]);
    for (size_t i = 0; i < sizeof locks / sizeof locks[0]; i++)
        expect_free(locks[i]);
    ASSERT_OK(registry_recover(f.registry, &result, &f.error), &f.error);
    ck_assert_str_eq(result.report, "");
}

// Recovery itself dies at each of its calls, until one run of it comes through.
static long recover_dying(const struct WorkRow *after)
{
    int row = 0;
    while (work_rows[row].work != recover)
        row++;
    for (long n = 1;; n++) {
        ck_assert_int_lt(n, 200);
        int code = run_work(row, n % 2 ? "call.kill" : "registry.step", (n + 1) / 2);
        expect_before_recovery(after);
        if (code == 0)
            return n - 1;
    }
}

START_TEST(whatever_call_fails_or_is_the_last_the_home_is_whole)
{
    int row = _i / MODE_COUNT, mode = _i % MODE_COUNT;
    long calls = count_calls(row, modes[mode]), points = 0, compound = 0;
    for (long n = 1; n <= calls; n++) {
        renew(&work_rows[row]);
        int code = run_work(row, modes[mode], n);
        if (mode == 3 && code == 0)
            break;   // fewer steps than calls
        points++;
        expect_before_recovery(&work_rows[row]);
        if (code == 128 + SIGKILL && n % 3 == 0)
            compound += recover_dying(&work_rows[row]);
        expect_settled(&work_rows[row]);
    }
    printf("%s, %s: %ld points, %ld in the recovery after them\n", work_rows[row].name, modes[mode], points,
           compound);
    ck_assert(points > 0 || work_rows[row].work == pin);   // which has no step of its own
}
END_TEST
#endif

int main(int count, char **arguments)
{
#ifdef FEDGATE_FAULTS
    int64_t row;
    if (count == 5 && text_starts_with(arguments[1], "--") && text_to_int64(arguments[2], &row))
        return work_here((int)row, text_equal(arguments[1], "--look"), arguments[3], arguments[4]);
    if (access("/dev/shm", W_OK) == 0)
        setenv("TMPDIR", "/dev/shm", 0);   // no power is cut here: nothing has to wait for a disk
    Suite *s = suite_create("registry_fault");
    TCase *t = tcase_create("faults");
    tcase_set_timeout(t, 240);   // hundreds of homes copied and synced; a slow disk is no failure
    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_add_loop_test(t, whatever_call_fails_or_is_the_last_the_home_is_whole, 0, WORK_COUNT * MODE_COUNT);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int bad = srunner_ntests_failed(r);
    srunner_free(r);
    return bad != 0;
#else
    (void)count;
    (void)arguments;
    puts("registry_fault: faults are tested in a build with FEDGATE_FAULTS");
    return 0;
#endif
}
