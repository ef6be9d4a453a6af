// registry_guard_test - who may act, many at once, and processes killed or failed in the middle of a move.
#include "registry_fixture.h"

#include <grp.h>
#include <signal.h>

static Fixture f;

static void set_up(void)
{
    fixture_three(&f);
}
static void set_up_four(void)
{
    fixture_three(&f);
    fixture_publish(&f, C, RELEASE_MODEL, NULL);
}
static void tear_down(void)
{
    fixture_close(&f);
}

// -- the owner

static const char *stranger(void)
{
    return getuid() == 0 ? "nobody"
                         : "root";   // an account that is not ours: root too acts only when it is the owner
}

static int count_lines(const char *name, const char *words)
{
    SCOPED_TEXT text;
    text_init(&text, 1 << 20);
    support_read(fixture_path(&f, name), &text);
    int lines = 0;
    for (const char *at = text_string(&text); (at = strstr(at, words)); at++)
        lines++;
    return lines;
}

START_TEST(only_the_owner_rolls_back_holds_and_lifts)
{
    PointerRecord record;
    ASSERT_FAILS(registry_rollback(f.registry, stranger(), NULL, "why", &record, &f.error), &f.error,
                 ERROR_DENIED, "rollback is for account");
    ASSERT_FAILS(registry_hold(f.registry, stranger(), "why", &f.error), &f.error, ERROR_DENIED,
                 "hold is for account");
    ASSERT_FAILS(registry_unhold(f.registry, stranger(), NULL, "why", &f.error), &f.error, ERROR_DENIED,
                 "unhold is for");
    ASSERT_FAILS(registry_check_owner(f.registry, "no-such-account-here", "import", &f.error), &f.error,
                 ERROR_CONFIG, "owner");
    ASSERT_OK(registry_check_owner(f.registry, process_account(), "import", &f.error), &f.error);
    fixture_expect_live(&f, B, 3);
    ck_assert_int_eq(count_lines("denied.jsonl", "\"action\":\"rollback\""), 1);
    ck_assert_int_eq(count_lines("denied.jsonl", "\n"), 3);
    ck_assert_int_eq(count_lines("audit.jsonl", "\n"), 0);
    ck_assert(registry_duty_separated(f.registry, stranger()));
    ck_assert(!registry_duty_separated(f.registry, process_account()));
}
END_TEST

START_TEST(a_torn_last_line_does_not_swallow_the_next)
{
    support_write(fixture_path(&f, "denied.jsonl"), "{\"time\":\"2026");
    ASSERT_FAILS(registry_hold(f.registry, stranger(), "why", &f.error), &f.error, ERROR_DENIED,
                 "hold is for account");
    ck_assert_int_eq(count_lines("denied.jsonl", "\n{\"time\":"), 1);
}
END_TEST

static void become_nobody(gid_t group)
{
    if (setgroups(0, NULL) != 0 || setgid(group) != 0 || setuid(65534) != 0)
        _exit(98);
}

static int act_as_nobody(Fixture *own, int number)
{
    (void)number;
    // What sudo and su leave behind must not count.
    static const char *const names[] = {"USER", "LOGNAME", "SUDO_USER", "FEDGATE_OWNER", NULL};
    for (size_t i = 0; names[i]; i++)
        setenv(names[i], "root", 1);
    become_nobody(65534);
    PointerRecord record;
    bool moved = registry_rollback(own->registry, "", NULL, "why", &record, &own->error);
    return moved ? 1 : own->error.kind == ERROR_DENIED ? 0 : 2;
}

START_TEST(another_account_is_refused_whatever_its_environment_says)
{
    if (getuid() != 0) {
        puts("skipped: becoming another account needs root");
        return;
    }
    ck_assert_int_eq(chmod(f.folder, 0755), 0);
    ck_assert_int_eq(chmod(f.home, 0755), 0);
    ck_assert_int_eq(chmod(fixture_path(&f, "denied.jsonl"), 0666), 0);
    ck_assert_int_eq(fixture_wait(fixture_fork(&f, act_as_nobody, 0)), 0);
    ck_assert_int_eq(count_lines("denied.jsonl", "\"actor_uid\":65534"), 1);
    // Where it cannot even write, it is refused all the same.
    ck_assert_int_eq(chmod(fixture_path(&f, "denied.jsonl"), 0600), 0);
    ck_assert_int_eq(fixture_wait(fixture_fork(&f, act_as_nobody, 0)), 0);
    fixture_expect_live(&f, B, 3);
    ck_assert_uint_eq(fixture_count_records(&f), 3);
}
END_TEST

static int open_as_nobody(Fixture *own, int number)
{
    (void)number;
    become_nobody(65534);
    bool opened = registry_open(own->home, own->clock, &own->error) != NULL;
    return opened ? 1 : own->error.kind == ERROR_DENIED && own->error.hint[0] == '\0' ? 0 : 2;
}

START_TEST(a_home_closed_to_an_account_is_not_called_no_home)
{
    if (getuid() != 0) {
        puts("skipped: becoming another account needs root");
        return;
    }
    ck_assert_int_eq(chmod(f.folder, 0755), 0);
    ck_assert_int_eq(chmod(f.home, 0755), 0);   // home.json is closed
    ck_assert_int_eq(fixture_wait(fixture_fork(&f, open_as_nobody, 0)), 0);
    ck_assert_int_eq(chmod(f.home, 0700), 0);
    ck_assert_int_eq(fixture_wait(fixture_fork(&f, open_as_nobody, 0)), 0);
}
END_TEST

static int roll_back_as_owner(Fixture *own, int number)
{
    (void)number;
    struct stat status;
    if (stat(own->home, &status) != 0)
        return 97;
    become_nobody(status.st_gid);
    umask(027);
    PointerRecord record;
    if (registry_rollback(own->registry, "", NULL, "why", &record, &own->error))
        return 0;
    fprintf(stderr, "%s\n", own->error.message);
    return 1;
}

START_TEST(an_owner_with_an_account_of_its_own_moves_what_the_nightly_account_made)
{
    if (getuid() != 0) {
        puts("skipped: two accounts need root");
        return;
    }
    ck_assert_int_eq(chmod(f.folder, 0755), 0);
    Fixture g = f;
    ASSERT_OK(file_join(g.home, f.folder, "shared", &g.error), &g.error);
    ASSERT_OK(registry_create(g.home, "nobody", g.clock, &g.error), &g.error);
    g.registry = registry_open(g.home, g.clock, &g.error);
    ASSERT_OK(g.registry != NULL, &g.error);
    struct stat status;
    ck_assert_int_eq(stat(g.home, &status), 0);
    ck_assert_int_eq(status.st_mode & 07777, 02770);
    ck_assert(registry_duty_separated(g.registry, ""));
    fixture_live(&g, MOVE_ADOPT, BASELINE);
    fixture_live(&g, MOVE_PROMOTE, A);
    // A nightly process killed in the middle of its own record must not stop the owner.
    ck_assert_int_eq(mkdir(support_path(g.home, "pointers/.tmp-3"), 0700), 0);
    ck_assert_int_eq(fixture_wait(fixture_fork(&g, roll_back_as_owner, 0)), 0);
    fixture_expect_live(&g, BASELINE, 3);
    ck_assert_uint_eq(fixture_count_records(&g), 3);   // and the nightly account believes the owner's record
    PointerRecord record;
    ASSERT_FAILS(registry_rollback(g.registry, "", NULL, "why", &record, &g.error), &g.error, ERROR_DENIED,
                 "'nobody' only");
    ck_assert(!fixture_try(&g, MOVE_PROMOTE, A, -1));
    support_check_error(&g.error, ERROR_CONFLICT, "on hold by 'nobody'", "promote");
    registry_close(g.registry);
}
END_TEST

// -- many at once

static int promote_c(Fixture *own, int expected_seq)
{
    if (fixture_try(own, MOVE_PROMOTE, C, expected_seq))
        return 0;
    return own->error.kind == ERROR_CONFLICT && strstr(own->error.message, "baseline moved") ? 1 : 2;
}

enum { MOVERS = 8 };

START_TEST(of_eight_movers_at_once_exactly_one_wins_each_sequence)
{
    for (int round = 3; round < 6; round++) {
        pid_t children[MOVERS];
        int ended[3] = {0};
        for (int i = 0; i < MOVERS; i++)
            children[i] = fixture_fork(&f, promote_c, round);
        for (int i = 0; i < MOVERS; i++) {
            int code = fixture_wait(children[i]);
            ck_assert_int_le(code, 1);
            ended[code]++;
        }
        ck_assert_int_eq(ended[0], 1);
        fixture_expect_live(&f, C, round + 1);
    }
}
END_TEST

static int mixed(Fixture *own, int number)
{
    PointerRecord record;
    if (number % 2 == 0)
        return fixture_try(own, MOVE_REVERT, number % 4 == 0 ? A : C, -1) ? 0 : 2;
    return registry_rollback(own->registry, "", NULL, "why", &record, &own->error) ||
                   own->error.kind == ERROR_DATA
               ? 0
               : 2;
}

START_TEST(rollbacks_and_moves_at_once_leave_one_chain)
{
    pid_t children[MOVERS];
    for (int i = 0; i < MOVERS; i++)
        children[i] = fixture_fork(&f, mixed, i);
    for (int i = 0; i < MOVERS; i++)
        (void)fixture_wait(children[i]);   // a bar set by one may refuse another: only the chain is judged
    PointerRecord *records;
    size_t count;
    ASSERT_OK(registry_history(f.registry, &records, &count, &f.error), &f.error);
    fixture_expect_live(&f, records[count - 1].to, (int64_t)count);
    free(records);
    RecoverResult result;
    ASSERT_OK(registry_recover(f.registry, &result, &f.error), &f.error);
    ck_assert_str_eq(result.report, "");
}
END_TEST

// -- killed and failed in the middle

// After recovery the pointer names what was live or what was to be, the chain holds, and nothing is left
// over.
static void expect_old_or_new(const char *old, const char *new)
{
    RecoverResult result;
    ASSERT_OK(registry_recover(f.registry, &result, &f.error), &f.error);
    ck_assert(!result.reverted);
    bool any;
    PointerRecord record;
    ASSERT_OK(registry_current(f.registry, &any, &record, &f.error), &f.error);
    ck_assert(any);
    ck_assert_msg(text_equal(record.to, old) || text_equal(record.to, new), "'%s' is live", record.to);
    ck_assert_uint_eq(fixture_count_records(&f), (size_t)record.seq);
    ASSERT_OK(registry_recover(f.registry, &result, &f.error), &f.error);
    ck_assert_str_eq(result.report, "");
}

static int move_for_ever(Fixture *own, int number)
{
    (void)number;
    for (int i = 0;; i++)
        if (!fixture_try(own, MOVE_REVERT, i % 2 ? A : B, -1))
            return 1;
}

START_TEST(a_mover_killed_at_any_moment_leaves_old_or_new)
{
    for (int round = 0; round < 12; round++) {
        pid_t child = fixture_fork(&f, move_for_ever, 0);
        clock_sleep_ns(clock_real(), (5 + 7 * round % 40) * INT64_C(1000000));
        ck_assert_int_eq(kill(child, SIGKILL), 0);
        ck_assert_int_eq(fixture_wait(child), 128 + SIGKILL);
        RecoverResult result;
        ASSERT_OK(registry_recover(f.registry, &result, &f.error), &f.error);
        ck_assert(!result.reverted);
        bool any;
        PointerRecord record;
        ASSERT_OK(registry_current(f.registry, &any, &record, &f.error), &f.error);
        ck_assert(any);
        ck_assert_uint_eq(fixture_count_records(&f), (size_t)record.seq);
    }
    expect_old_or_new(A, B);
}
END_TEST

#ifdef FEDGATE_FAULTS
static bool promote_once(Fixture *own)
{
    return fixture_try(own, MOVE_PROMOTE, C, -1);
}

static bool roll_back_once(Fixture *own)
{
    PointerRecord record;
    return registry_rollback(own->registry, "", NULL, "why", &record, &own->error);
}

static const struct FaultRow {
    const char *point;
    bool (*work)(Fixture *own);
    const char *to;
} fault_rows[] = {
    {"registry.step", promote_once, C},    {"registry.step", roll_back_once, A},
    {"file.sync.fail", promote_once, C},   {"file.sync.fail", roll_back_once, A},
    {"file.rename.fail", promote_once, C}, {"file.rename.fail", roll_back_once, A},
    {"file.write.fail", promote_once, C},  {"file.write.fail", roll_back_once, A},
    {"file.open.fail", promote_once, C},   {"file.link.fail", promote_once, C},
};

// In a program of its own, since fault points count the calls of a process: 0 moved, 1 refused, 2 result and
// error disagree.
static int work_here(const char *row, const char *home)
{
    Fixture own = {.clock = clock_real(), .error = ERROR_INIT};
    own.registry = registry_open(home, own.clock, &own.error);
    if (!own.registry)
        return 99;
    bool moved = fault_rows[row[0] - '0'].work(&own);
    int code = moved != (own.error.kind == ERROR_NONE) ? 2 : !moved;
    registry_close(own.registry);
    return code;
}

static int work_with_fault(int row, int n)
{
    char list[64];
    snprintf(list, sizeof list, "%s=%d", fault_rows[row].point, n);
    const char number[] = {(char)('0' + row), '\0'};
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        setenv("FEDGATE_FAULT", list, 1);
        execl("/proc/self/exe", "registry_guard_test", "--work", number, f.home, (char *)NULL);
        _exit(98);
    }
    int code = fixture_wait(child);
    ck_assert_msg(code <= 1 || code == 128 + SIGKILL, "%s ended with %d", list, code);
    return code;
}

// Advances the fault point until none fires any more.
START_TEST(a_move_killed_or_failed_at_each_step_leaves_old_or_new)
{
    const struct FaultRow *row = &fault_rows[_i];
    int fired = 0;
    for (int n = 1;; n++) {
        ck_assert_int_lt(n, 100);
        int code = work_with_fault(_i, n);
        bool any;
        PointerRecord record;
        ASSERT_OK(registry_current(f.registry, &any, &record, &f.error),
                  &f.error);   // readers are never without one
        ck_assert(any);
        expect_old_or_new(B, row->to);
        if (code == 0)
            break;
        fired++;
        tear_down();
        set_up_four();
    }
    printf("%s: %d faults\n", row->point, fired);
    ck_assert_int_gt(fired, 0);
    fixture_expect_live(&f, row->to, 4);
}
END_TEST

START_TEST(a_rollback_that_failed_before_its_commit_leaves_neither_bar_nor_hold)
{
    // The third rename is that of the record: bar and hold are each written atomically before it.
    ck_assert_int_eq(work_with_fault(5, 3), 1);
    fixture_expect_live(&f, B, 3);
    ck_assert(!file_exists(fixture_path(&f, "hold.json")));
    ck_assert(!file_exists(fixture_path(&f, "bars/" B ".json")));
    ck_assert_int_eq(count_lines("audit.jsonl", "undone"), 2);
}
END_TEST
#endif

static Suite *suite(void)
{
    Suite *s = suite_create("registry_guard");
    TCase *owner = tcase_create("owner");
    tcase_add_checked_fixture(owner, set_up, tear_down);
    tcase_add_test(owner, only_the_owner_rolls_back_holds_and_lifts);
    tcase_add_test(owner, a_torn_last_line_does_not_swallow_the_next);
    tcase_add_test(owner, another_account_is_refused_whatever_its_environment_says);
    tcase_add_test(owner, a_home_closed_to_an_account_is_not_called_no_home);
    tcase_add_test(owner, an_owner_with_an_account_of_its_own_moves_what_the_nightly_account_made);
    suite_add_tcase(s, owner);
    TCase *many = tcase_create("many");
    tcase_set_timeout(many, 120);   // hundreds of syncs; a slow disk is no failure
    tcase_add_checked_fixture(many, set_up_four, tear_down);
    tcase_add_test(many, of_eight_movers_at_once_exactly_one_wins_each_sequence);
    tcase_add_test(many, rollbacks_and_moves_at_once_leave_one_chain);
    tcase_add_test(many, a_mover_killed_at_any_moment_leaves_old_or_new);
#ifdef FEDGATE_FAULTS
    tcase_add_loop_test(many, a_move_killed_or_failed_at_each_step_leaves_old_or_new, 0,
                        (int)(sizeof fault_rows / sizeof fault_rows[0]));
    tcase_add_test(many, a_rollback_that_failed_before_its_commit_leaves_neither_bar_nor_hold);
#else
    puts("registry_guard: kills at each step are tested in a build with FEDGATE_FAULTS");
#endif
    suite_add_tcase(s, many);
    return s;
}

int main(int count, char **arguments)
{
#ifdef FEDGATE_FAULTS
    if (count == 4 && text_equal(arguments[1], "--work"))
        return work_here(arguments[2], arguments[3]);
#else
    (void)count;
    (void)arguments;
#endif
    SRunner *r = srunner_create(suite());
    srunner_run_all(r, CK_ENV);
    int bad = srunner_ntests_failed(r);
    srunner_free(r);
    return bad != 0;
}
