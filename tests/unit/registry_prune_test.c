// registry_prune_test - what a prune keeps, what it removes, and what is said of a release that is gone.
#include "registry_fixture.h"

#define D "model-000000000000000d"
#define E "model-000000000000000e"
#define X "model-00000000000000ff"

static Fixture f;
static PruneResult result;

// Records 1 adopt baseline, 2 to 6 promote A to E.
static void set_up(void)
{
    fixture_three(&f);
    fixture_live(&f, MOVE_PROMOTE, C);
    fixture_live(&f, MOVE_PROMOTE, D);
    fixture_live(&f, MOVE_PROMOTE, E);
}
static void tear_down(void)
{
    registry_prune_done(&result);
    fixture_close(&f);
}

static bool prune(int64_t keep, bool dry_run)
{
    const PruneRequest request = {.keep = keep, .runs = -1, .dry_run = dry_run};
    registry_prune_done(&result);
    return registry_prune(f.registry, &request, &result, &f.error);
}

static const char *why(const char *version)
{
    for (size_t i = 0; i < result.count; i++)
        if (text_equal(result.entries[i].version, version))
            return result.entries[i].kept ? result.entries[i].kept : "pruned";
    return "absent";
}

static bool there(const char *version)
{
    char name[160];
    snprintf(name, sizeof name, "releases/%s", version);
    return file_exists(fixture_path(&f, name));
}

static void expect_whole(const char *version)
{
    char name[160];
    ReleaseCheck check;
    snprintf(name, sizeof name, "releases/%s", version);
    ASSERT_OK(release_verify(fixture_path(&f, name), &check, &f.error), &f.error);
}

static bool pruned(const char *version)
{
    bool gone;
    char when[CLOCK_TIME_SIZE];
    ASSERT_OK(registry_is_pruned(f.registry, version, &gone, when, &f.error), &f.error);
    return gone;
}

START_TEST(what_nobody_can_go_back_to_goes_and_the_rest_stays)
{
    ASSERT_OK(prune(2, false), &f.error);
    static const char *const rows[][2] = {{E, "live"},          {D, "last known-good"},
                                          {C, "one more good"}, {B, "pruned"},
                                          {A, "pruned"},        {BASELINE, "named baseline"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ck_assert_str_eq(why(rows[i][0]), rows[i][1]);
        bool gone = text_equal(rows[i][1], "pruned");
        ck_assert_int_eq(there(rows[i][0]), !gone);
        ck_assert_int_eq(pruned(rows[i][0]), gone);
        if (!gone)
            expect_whole(rows[i][0]);
    }
    ck_assert_uint_eq(result.count, 6);
    ck_assert_uint_gt(result.bytes, 100);
    ck_assert_uint_eq(fixture_count_records(&f), 6);   // the chain holds
    fixture_expect_live(&f, E, 6);
    RecoverResult recovered;
    ASSERT_OK(registry_recover(f.registry, &recovered, &f.error), &f.error);
    ck_assert_str_eq(recovered.report, "");
    ASSERT_OK(prune(2, false), &f.error);   // repeated, it does no more
    ck_assert_uint_eq(result.count, 4);
    ck_assert_uint_eq(result.bytes, 0);
}
END_TEST

START_TEST(a_rehearsal_says_the_same_and_changes_nothing)
{
    support_write(fixture_path(&f, ".tmp-x"), "");
    ASSERT_OK(prune(2, true), &f.error);
    ck_assert_str_eq(why(A), "pruned");
    ck_assert_str_eq(why(B), "pruned");
    ck_assert(there(A) && there(B) && !pruned(A));
    ck_assert(file_exists(fixture_path(&f, ".tmp-x")));
    ck_assert(!file_exists(fixture_path(&f, "pruned/" A ".json")));
    ASSERT_OK(prune(2, false), &f.error);
    ck_assert(!there(A) && strstr(result.report, ".tmp-x") != NULL);
}
END_TEST

START_TEST(more_are_kept_when_asked)
{
    ASSERT_OK(prune(4, false), &f.error);
    ck_assert_str_eq(why(A), "one more good");
    ck_assert_str_eq(why(B), "one more good");
    static const int64_t wrong[] = {1, 0, -1, 1001};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        ASSERT_FAILS(prune(wrong[i], false), &f.error, ERROR_USAGE, "2 to 1000 are allowed");
    const PruneRequest request = {.keep = 2, .runs = -2};
    ASSERT_FAILS(registry_prune(f.registry, &request, &result, &f.error), &f.error, ERROR_USAGE, "allowed");
}
END_TEST

START_TEST(a_pinned_release_stays_until_it_is_unpinned)
{
    bool pinned;
    char reason[256];
    ASSERT_OK(registry_pin(f.registry, "", A, "the auditors look at it", &f.error), &f.error);
    ASSERT_OK(registry_is_pinned(f.registry, A, &pinned, reason, &f.error), &f.error);
    ck_assert(pinned);
    ck_assert_str_eq(reason, "the auditors look at it");
    ASSERT_OK(prune(2, false), &f.error);
    ck_assert_str_eq(why(A), "pinned");
    ck_assert(there(A) && !there(B));
    support_write(fixture_path(&f, "pins/" A ".json"), "torn");   // a pin that cannot be read keeps
    ASSERT_OK(prune(2, false), &f.error);
    ck_assert(there(A));
    ASSERT_OK(registry_unpin(f.registry, "", A, "they have seen it", &f.error), &f.error);
    ASSERT_FAILS(registry_unpin(f.registry, "", A, "again", &f.error), &f.error, ERROR_USAGE,
                 "is not pinned");
    ASSERT_OK(prune(2, false), &f.error);
    ck_assert(!there(A));
    SCOPED_TEXT audit;
    text_init(&audit, 1 << 20);
    support_read(fixture_path(&f, "audit.jsonl"), &audit);
    static const char *const actions[] = {"\"action\":\"pin\"", "\"action\":\"unpin\"",
                                          "\"action\":\"prune\""};
    for (size_t i = 0; i < 3; i++)
        ck_assert_msg(strstr(text_string(&audit), actions[i]) != NULL, "%s", actions[i]);
}
END_TEST

START_TEST(only_what_is_there_is_pinned_and_only_by_the_owner)
{
    const char *other = getuid() == 0 ? "nobody" : "root";
    ASSERT_FAILS(registry_pin(f.registry, "", X, "why", &f.error), &f.error, ERROR_DATA,
                 "there is no release");
    ASSERT_FAILS(registry_pin(f.registry, "", "../x", "why", &f.error), &f.error, ERROR_USAGE,
                 "not the name");
    ASSERT_FAILS(registry_unpin(f.registry, "", "../x", "why", &f.error), &f.error, ERROR_USAGE,
                 "not the name");
    ASSERT_FAILS(registry_pin(f.registry, "", A, "", &f.error), &f.error, ERROR_USAGE, "pin needs a reason");
    ASSERT_FAILS(registry_pin(f.registry, other, A, "why", &f.error), &f.error, ERROR_DENIED, "pin is for");
    ASSERT_FAILS(registry_unpin(f.registry, other, A, "why", &f.error), &f.error, ERROR_DENIED,
                 "unpin is for");
    SCOPED_TEXT denied;
    text_init(&denied, 1 << 20);
    support_read(fixture_path(&f, "denied.jsonl"), &denied);
    ck_assert(strstr(text_string(&denied), "\"action\":\"unpin\"") != NULL);
    ASSERT_OK(prune(2, false), &f.error);
    ASSERT_FAILS(registry_pin(f.registry, "", A, "why", &f.error), &f.error, ERROR_DATA, "was pruned on 20");
}
END_TEST

START_TEST(a_barred_release_stays_until_the_bar_is_lifted)
{
    PointerRecord record;
    ASSERT_OK(registry_rollback(f.registry, "", A, "all of them were bad", &record, &f.error), &f.error);
    fixture_expect_live(&f, A, 7);
    ASSERT_OK(prune(2, false), &f.error);
    ck_assert_str_eq(why(E), "barred");
    ck_assert_str_eq(why(A), "live");
    ck_assert_str_eq(why(BASELINE), "last known-good");
    // Older than A there is no good model: the newest that may still be gone to are kept instead.
    ck_assert_str_eq(why(D), "one more good");
    ck_assert_str_eq(why(C), "one more good");
    ck_assert_str_eq(why(B), "pruned");
    ASSERT_OK(registry_rollback(f.registry, "", D, "D after all", &record, &f.error), &f.error);
    ASSERT_OK(prune(2, false), &f.error);
    ck_assert_str_eq(why(A), "barred");   // left by the second rollback
    ASSERT_OK(registry_unhold(f.registry, "", E, "cleared", &f.error), &f.error);
    ASSERT_OK(registry_unhold(f.registry, "", A, "cleared", &f.error), &f.error);
    ASSERT_OK(prune(2, false), &f.error);
    ck_assert_str_eq(why(C), "last known-good");
    ck_assert_str_eq(why(A), "one more good");
    ck_assert_str_eq(why(E), "pruned");
}
END_TEST

START_TEST(a_release_that_does_not_verify_is_no_way_back)
{
    fixture_rot(&f, D);
    fixture_rot(&f, B);
    ASSERT_OK(prune(2, false), &f.error);
    ck_assert_str_eq(why(C), "last known-good");
    ck_assert_str_eq(why(A), "one more good");
    ck_assert(!there(D) && !there(B));
}
END_TEST

START_TEST(nothing_is_pruned_while_what_is_live_does_not_verify)
{
    fixture_rot(&f, E);
    ASSERT_FAILS(prune(2, false), &f.error, ERROR_INCONSISTENT, "what is live does not verify");
    ck_assert(there(A) && there(B) && there(E));
    ck_assert_int_eq(rename(fixture_path(&f, "pointers/3"), fixture_path(&f, "away")), 0);
    ASSERT_FAILS(prune(2, false), &f.error, ERROR_INCONSISTENT, "pointer record '3' is missing");
    ASSERT_FAILS(prune(2, true), &f.error, ERROR_INCONSISTENT, "pointer record '3' is missing");
    ck_assert(there(A) && there(B));
}
END_TEST

START_TEST(a_candidate_stays_as_long_as_its_slot_is_open)
{
    OWNED(Json, json_free) *slot = json_make_object();
    fixture_publish(&f, X, RELEASE_MODEL, NULL);
    json_put_text(slot, "run", "run-x");
    json_put_text(slot, "version", X);
    json_put_bool(slot, "judged", false);
    json_put_integer(slot, "deadline_wall_ns", clock_wall_ns(f.clock) + fixture_hour_ns);
    ASSERT_OK(registry_slot_write(f.registry, "2026-11-30", slot, &f.error), &f.error);
    support_write(fixture_path(&f, "slots/README"), "nobody's");
    support_write(fixture_path(&f, "slots/No Slot.json"), "nobody's");
    ASSERT_OK(prune(2, false), &f.error);
    ck_assert_str_eq(why(X), "its slot is open");
    clock_advance(f.clock, 2 * fixture_hour_ns);
    ASSERT_OK(prune(2, false), &f.error);
    ck_assert_str_eq(why(X), "pruned");
    fixture_publish(&f, X, RELEASE_MODEL, NULL);
    ck_assert(!pruned(X));
    json_put_bool(slot, "judged", true);
    json_put_integer(slot, "deadline_wall_ns", INT64_MAX);
    ASSERT_OK(registry_slot_write(f.registry, "2026-11-30", slot, &f.error), &f.error);
    ASSERT_OK(prune(2, false), &f.error);
    ck_assert_str_eq(why(X), "pruned");
    fixture_publish(&f, X, RELEASE_MODEL, NULL);
    support_write(fixture_path(&f, "slots/2026-12-01.json"), "torn");   // cannot be looked at: nothing goes
    ASSERT_FAILS(prune(2, false), &f.error, ERROR_DATA, "slot '2026-12-01'");
    ck_assert(there(X));
}
END_TEST

START_TEST(candidates_do_not_use_up_the_places_of_good_ones)
{
    for (int i = 0; i < 20; i++) {
        char version[VERSION_SIZE], failed[64];
        snprintf(version, sizeof version, "model-%016x", 0xf00 + i);
        fixture_publish(&f, version, RELEASE_MODEL, NULL);
        snprintf(failed, sizeof failed, "failed/run-%d", i);
        ck_assert_int_eq(mkdir(fixture_path(&f, failed), 0750), 0);
    }
    ASSERT_OK(prune(2, false), &f.error);
    ck_assert_uint_eq(result.count, 26);
    ck_assert(there(E) && there(D) && there(C) && there(BASELINE) && !there(B));
    ck_assert(!there("model-0000000000000f00"));
    ck_assert(file_exists(fixture_path(&f, "failed/run-19")));   // evidence stays
}
END_TEST

START_TEST(before_anything_is_live_candidates_go_and_drafts_of_imports_stay)
{
    Fixture g;
    fixture_open(&g);
    fixture_publish(&g, A, RELEASE_MODEL, NULL);
    support_write(support_path(g.home, "releases/file"), "nobody's");
    ck_assert_int_eq(symlink("/etc", support_path(g.home, "releases/link")), 0);
    ck_assert_int_eq(mkdir(support_path(g.home, "releases/Not-a-version"), 0750), 0);
    const PruneRequest request = {.keep = 2, .runs = -1};
    ASSERT_OK(registry_prune(g.registry, &request, &result, &g.error), &g.error);
    ck_assert_uint_eq(result.count, 1);
    ck_assert(!file_exists(support_path(g.home, "releases/" A)));
    ck_assert(file_exists(support_path(g.home, "releases/file")));
    ck_assert(file_exists(support_path(g.home, "releases/link")));
    ck_assert(file_exists(support_path(g.home, "releases/Not-a-version")));
    fixture_close(&g);
}
END_TEST

START_TEST(a_home_made_before_pins_were_known_is_pruned_too)
{
    static const char *const folders[] = {"pins", "pruned", "imports"};
    for (size_t i = 0; i < 3; i++)
        ck_assert_int_eq(rmdir(fixture_path(&f, folders[i])), 0);
    ck_assert_int_eq(unlink(fixture_path(&f, "import.lock")), 0);
    RecoverResult recovered;
    ASSERT_OK(registry_recover(f.registry, &recovered, &f.error), &f.error);
    ck_assert_str_eq(recovered.report, "");
    ASSERT_OK(registry_pin(f.registry, "", A, "why", &f.error), &f.error);
    ASSERT_OK(prune(2, false), &f.error);
    ck_assert(there(A) && !there(B) && pruned(B));
}
END_TEST

START_TEST(while_a_night_runs_nothing_is_pruned)
{
    OWNED(FileLock, file_lock_release) *run =
        file_lock_try(fixture_path(&f, "run.lock"), "pid 7, run abc", &f.error);
    ASSERT_OK(run != NULL, &f.error);
    ASSERT_FAILS(prune(2, false), &f.error, ERROR_BUSY, "is held by pid 7, run abc");
    ck_assert(there(A));
}
END_TEST

START_TEST(only_the_account_of_the_home_prunes)
{
    if (getuid() != 0) {
        puts("skipped: giving a home to another account needs root");
        return;
    }
    ck_assert_int_eq(chown(f.home, 65534, (gid_t)-1), 0);
    ASSERT_FAILS(prune(2, false), &f.error, ERROR_DENIED, "prune is for the account of the home (uid 65534)");
    ck_assert(there(A));
    SCOPED_TEXT denied;
    text_init(&denied, 1 << 20);
    support_read(fixture_path(&f, "denied.jsonl"), &denied);
    ck_assert(strstr(text_string(&denied), "\"action\":\"prune\"") != NULL);
}
END_TEST

START_TEST(a_release_that_was_pruned_is_not_called_rotten)
{
    PointerRecord record;
    ExportResult exported;
    ASSERT_OK(prune(2, false), &f.error);
    ck_assert(!registry_rollback(f.registry, "", A, "why", &record, &f.error));
    support_check_error(&f.error, ERROR_DATA, "release '" A "' was pruned on 20", "rollback");
    ck_assert_msg(strstr(f.error.hint, "gone back to: ") && !strstr(f.error.hint, A), "%s", f.error.hint);
    error_clear(&f.error);
    ck_assert(!fixture_try(&f, MOVE_REVERT, B, -1));
    support_check_error(&f.error, ERROR_DATA, "was pruned on 20", "revert");
    error_clear(&f.error);
    ASSERT_FAILS(registry_export(f.registry, A, fixture_path(&f, "out"), &exported, &f.error), &f.error,
                 ERROR_DATA, "was pruned on 20");
    // One that came back and is then lost is lost.
    fixture_publish(&f, A, RELEASE_MODEL, NULL);
    RecoverResult recovered;
    ASSERT_OK(registry_recover(f.registry, &recovered, &f.error), &f.error);
    ck_assert(!file_exists(fixture_path(&f, "pruned/" A ".json")));
    ASSERT_OK(file_remove_tree(fixture_path(&f, "releases/" A), &f.error), &f.error);
    ck_assert(!pruned(A));
    ck_assert(!registry_rollback(f.registry, "", A, "why", &record, &f.error));
    support_check_error(&f.error, ERROR_DATA, "directory is missing", "rollback");
    error_clear(&f.error);
    support_write(fixture_path(&f, "pruned/" B ".json"), "torn");
    ck_assert(pruned(B));
    support_write(
        fixture_path(&f, "pruned/" B ".json"),
        "{\"format\":1,\"time\":\"a time that is longer than any time that there is to be written\"}");
    ck_assert(pruned(B));
}
END_TEST

START_TEST(a_prune_cut_after_the_tombstone_is_finished_by_recovery)
{
    ck_assert_int_eq(rename(fixture_path(&f, "releases/" A), fixture_path(&f, "releases/.pruned-" A)), 0);
    support_write(fixture_path(&f, "pruned/.tmp-x.json-1-0"), "");
    support_write(fixture_path(&f, "pruned/README"), "nobody's");
    RecoverResult recovered;
    ASSERT_OK(registry_recover(f.registry, &recovered, &f.error), &f.error);
    ck_assert_msg(strstr(recovered.report, "finished pruning of 'releases/.pruned-" A "'") != NULL, "%s",
                  recovered.report);
    ck_assert(!file_exists(fixture_path(&f, "releases/.pruned-" A)));
    ck_assert(!file_exists(fixture_path(&f, "pruned/.tmp-x.json-1-0")));
    ASSERT_OK(registry_recover(f.registry, &recovered, &f.error), &f.error);
    ck_assert_str_eq(recovered.report, "");
}
END_TEST

// -- runs and spools

static void make_run(const char *run, const char *folder)
{
    char name[160];
    snprintf(name, sizeof name, "runs/%s/%s", run, folder);
    ASSERT_OK(file_make_directories(fixture_path(&f, name), 0750, &f.error), &f.error);
    static const char *const files[] = {"verdict.json", "evidence.json", "run.json", "timeline.json",
                                        "log.jsonl"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        snprintf(name, sizeof name, "runs/%s/%s", run, files[i]);
        support_write(fixture_path(&f, name), "0123456789");
    }
    snprintf(name, sizeof name, "runs/%s/%s/weights", run, folder);
    support_write(fixture_path(&f, name), "0123456789");
}

static bool has(const char *run, const char *file)
{
    char name[160];
    snprintf(name, sizeof name, "runs/%s/%s", run, file);
    return file_exists(fixture_path(&f, name));
}

// Of run-1 the database has everything, of run-2 not; it is not there for run-9.
static bool ask_database(void *context, const char *run, bool *ret_acknowledged, Error *error)
{
    (*(int *)context)++;
    if (text_equal(run, "run-9"))
        return FAIL(error, ERROR_UNAVAILABLE, 0, "no database");
    *ret_acknowledged = text_equal(run, "run-1");
    return true;
}

START_TEST(old_runs_keep_verdict_and_evidence_and_only_when_asked)
{
    static const char *const runs[] = {"run-1", "run-2", "run-3", "run-4", "run-5", "run-6"};
    for (size_t i = 0; i < 6; i++)
        make_run(runs[i], "candidate");
    ck_assert_int_eq(mkdir(fixture_path(&f, "failed/run-3"), 0750), 0);
    support_write(fixture_path(&f, "runs/file"), "nobody's");
    support_write(fixture_path(&f, "spool/run-1.spool"), "0123456789");
    support_write(fixture_path(&f, "spool/run-2.spool"), "0123456789");
    support_write(fixture_path(&f, "spool/README"), "");
    OWNED(Json, json_free) *slot = json_make_object();
    json_put_text(slot, "run", "run-4");
    ASSERT_OK(registry_slot_write(f.registry, "2026-11-30", slot, &f.error), &f.error);
    ASSERT_OK(prune(2, false), &f.error);
    ck_assert(has("run-1", "timeline.json") && file_exists(fixture_path(&f, "spool/run-1.spool")));

    int asked = 0;
    PruneRequest request = {
        .keep = 2, .runs = 1, .acknowledged = ask_database, .context = &asked, .dry_run = true};
    for (int round = 0; round < 2; round++) {
        registry_prune_done(&result);
        ASSERT_OK(registry_prune(f.registry, &request, &result, &f.error), &f.error);
        ck_assert_uint_eq(result.spools, 1);
        request.dry_run = false;
        if (round == 0)
            ck_assert(has("run-5", "timeline.json") && file_exists(fixture_path(&f, "spool/run-1.spool")));
    }
    ck_assert_int_eq(asked, 4);
    ck_assert_uint_eq(result.runs, 2);
    ck_assert(!file_exists(fixture_path(&f, "spool/run-1.spool")));
    ck_assert(file_exists(fixture_path(&f, "spool/run-2.spool")));
    ck_assert(!has("run-1", "candidate") && !has("run-1", "timeline.json") && !has("run-5", "log.jsonl"));
    ck_assert(has("run-1", "verdict.json") && has("run-1", "evidence.json") && has("run-1", "run.json"));
    ck_assert(has("run-2", "candidate/weights"));   // not acknowledged
    ck_assert(has("run-3", "candidate/weights"));   // its failed candidate is kept
    ck_assert(has("run-4", "candidate/weights"));   // its slot is open
    ck_assert(has("run-6", "candidate/weights"));   // the newest
    registry_prune_done(&result);
    ASSERT_OK(registry_prune(f.registry, &request, &result, &f.error), &f.error);
    ck_assert_uint_eq(result.runs, 0);
}
END_TEST

START_TEST(the_run_of_a_release_that_is_there_keeps_everything)
{
    clock_advance(f.clock, fixture_hour_ns);
    fixture_publish(&f, X, RELEASE_MODEL, NULL);
    const MoveRequest request = {
        .kind = MOVE_PROMOTE, .version = X, .expected_seq = -1, .reason = "test", .run = "run-1"};
    PointerRecord record;
    ASSERT_OK(registry_move(f.registry, &request, &record, &f.error), &f.error);
    make_run("run-1", "candidate");
    make_run("run-2", "candidate");
    const PruneRequest thin = {.keep = 2, .runs = 0};
    ASSERT_OK(registry_prune(f.registry, &thin, &result, &f.error), &f.error);
    ck_assert(has("run-1", "candidate/weights") && !has("run-2", "candidate/weights"));
}
END_TEST

START_TEST(without_the_database_no_spool_goes)
{
    int asked = 0;
    support_write(fixture_path(&f, "spool/run-9.spool"), "");
    const PruneRequest request = {.keep = 2, .runs = -1, .acknowledged = ask_database, .context = &asked};
    ASSERT_FAILS(registry_prune(f.registry, &request, &result, &f.error), &f.error, ERROR_UNAVAILABLE,
                 "spool of run 'run-9': no database");
    ck_assert(file_exists(fixture_path(&f, "spool/run-9.spool")));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("registry_prune");
    TCase *t = tcase_create("prune");
    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_add_test(t, what_nobody_can_go_back_to_goes_and_the_rest_stays);
    tcase_add_test(t, a_rehearsal_says_the_same_and_changes_nothing);
    tcase_add_test(t, more_are_kept_when_asked);
    tcase_add_test(t, a_pinned_release_stays_until_it_is_unpinned);
    tcase_add_test(t, only_what_is_there_is_pinned_and_only_by_the_owner);
    tcase_add_test(t, a_barred_release_stays_until_the_bar_is_lifted);
    tcase_add_test(t, a_release_that_does_not_verify_is_no_way_back);
    tcase_add_test(t, nothing_is_pruned_while_what_is_live_does_not_verify);
    tcase_add_test(t, a_candidate_stays_as_long_as_its_slot_is_open);
    tcase_add_test(t, candidates_do_not_use_up_the_places_of_good_ones);
    tcase_add_test(t, before_anything_is_live_candidates_go_and_drafts_of_imports_stay);
    tcase_add_test(t, a_home_made_before_pins_were_known_is_pruned_too);
    tcase_add_test(t, while_a_night_runs_nothing_is_pruned);
    tcase_add_test(t, only_the_account_of_the_home_prunes);
    tcase_add_test(t, a_release_that_was_pruned_is_not_called_rotten);
    tcase_add_test(t, a_prune_cut_after_the_tombstone_is_finished_by_recovery);
    tcase_add_test(t, old_runs_keep_verdict_and_evidence_and_only_when_asked);
    tcase_add_test(t, the_run_of_a_release_that_is_there_keeps_everything);
    tcase_add_test(t, without_the_database_no_spool_goes);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int bad = srunner_ntests_failed(r);
    srunner_free(r);
    return bad != 0;
}
