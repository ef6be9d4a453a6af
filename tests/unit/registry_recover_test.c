// registry_recover_test - every state a home can be found in has one end, and a second recovery finds nothing
// to do.
#include "registry_fixture.h"

#include <fedgate/fault.h>

static Fixture f;

static void set_up(void)
{
    fixture_three(&f);
}
static void tear_down(void)
{
    fixture_close(&f);
}

static RecoverResult recover(void)
{
    RecoverResult result;
    ASSERT_OK(registry_recover(f.registry, &result, &f.error), &f.error);
    return result;
}

static void expect_settled(const char *version, int64_t seq)
{
    fixture_expect_live(&f, version, seq);
    RecoverResult again = recover();
    ck_assert_str_eq(again.report, "");
    ck_assert(!again.reverted);
    fixture_expect_live(&f, version, seq);
    ck_assert_uint_eq(fixture_count_records(&f), (size_t)seq);
}

static void point_current(const char *target)
{
    ck_assert_int_eq(unlink(fixture_path(&f, "current")), 0);
    if (target)
        ck_assert_int_eq(symlink(target, fixture_path(&f, "current")), 0);
}

START_TEST(a_whole_home_needs_nothing)
{
    expect_settled(B, 3);
}
END_TEST

static void leave(const char *folder, const char *file)
{
    ASSERT_OK(file_make_directories(fixture_path(&f, folder), 0700, &f.error), &f.error);
    if (file)
        support_write(fixture_path(&f, file), "left");
}

START_TEST(what_a_killed_process_was_writing_is_removed)
{
    leave("pointers/.tmp-4", "pointers/.tmp-4/record.json");
    leave("releases/.tmp-run-1", "releases/.tmp-run-1/model.json");
    support_write(fixture_path(&f, "bars/.tmp-x.json-1-0"), "");
    support_write(fixture_path(&f, "slots/.tmp-2026-11-30.json-1-0"), "");
    ck_assert_int_eq(symlink("pointers/4", fixture_path(&f, ".tmp-current-1-0")), 0);
    support_write(fixture_path(&f, ".tmp-last-verdict.json-1-0"), "");
    RecoverResult result = recover();
    static const char *const gone[] = {"pointers/.tmp-4",      "releases/.tmp-run-1",
                                       "bars/.tmp-x.json-1-0", "slots/.tmp-2026-11-30.json-1-0",
                                       ".tmp-current-1-0",     ".tmp-last-verdict.json-1-0"};
    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++) {
        struct stat status;
        ck_assert_msg(lstat(fixture_path(&f, gone[i]), &status) != 0, "'%s' is still there", gone[i]);
        ck_assert_msg(strstr(result.report, gone[i]) != NULL, "'%s' is not in: %s", gone[i], result.report);
    }
    expect_settled(B, 3);
}
END_TEST

START_TEST(a_rollback_beside_a_running_night_leaves_its_draft_alone)
{
    leave("releases/.tmp-run-1", "releases/.tmp-run-1/model.json");
    leave("pointers/.tmp-4", "pointers/.tmp-4/record.json");
    PointerRecord record;
    ASSERT_OK(registry_rollback(f.registry, "", NULL, "why", &record, &f.error), &f.error);
    ck_assert(file_exists(fixture_path(&f, "releases/.tmp-run-1/model.json")));
    ck_assert_int_eq(record.seq, 4);
}
END_TEST

static void spoil_nothing(void) {}
static void make_plain(void)
{
    support_write(fixture_path(&f, "current"), "pointers/2");
}
static void make_folder(void)
{
    ck_assert_int_eq(mkdir(fixture_path(&f, "current"), 0700), 0);
}

static const struct CurrentRow {
    const char *target;   // of the link; NULL: none
    void (*then)(void);
    const char *report;
} current_rows[] = {
    {"pointers/2", spoil_nothing, "finished promotion of '" B "'"},
    {"pointers/1", spoil_nothing, "finished promotion of '" B "'"},
    {NULL, spoil_nothing, "which was missing, from pointer record '3'"},
    {"pointers/9", spoil_nothing, "which named a record that does not exist"},
    {"pointers/0", spoil_nothing, "which was no link to a pointer record"},
    {"pointers/3/", spoil_nothing, "which was no link to a pointer record"},
    {"/etc", spoil_nothing, "which was no link to a pointer record"},
    {"../elsewhere/3", spoil_nothing, "which was no link to a pointer record"},
    {"pointers/../../3", spoil_nothing, "which was no link to a pointer record"},
    {"current", spoil_nothing, "which was no link to a pointer record"},
    {NULL, make_plain, "which was no link to a pointer record"},
    {NULL, make_folder, "which was no link to a pointer record"},
};

START_TEST(current_follows_the_last_record_whatever_it_was)
{
    const struct CurrentRow *row = &current_rows[_i];
    point_current(row->target);
    row->then();
    bool any;
    PointerRecord record;
    if (_i >= 2) {   // a reader is told, not misled
        ck_assert(!registry_current(f.registry, &any, &record, &f.error));
        ck_assert_int_eq(f.error.kind, ERROR_INCONSISTENT);
        error_clear(&f.error);
    }
    RecoverResult result = recover();
    ck_assert_msg(strstr(result.report, row->report) != NULL, "%d: %s", _i, result.report);
    expect_settled(B, 3);
}
END_TEST

START_TEST(a_full_folder_in_place_of_current_is_left_to_the_owner)
{
    point_current(NULL);
    make_folder();
    support_write(fixture_path(&f, "current/x"), "");
    RecoverResult result;
    ASSERT_FAILS(registry_recover(f.registry, &result, &f.error), &f.error, ERROR_INCONSISTENT,
                 "directory that is not empty");
}
END_TEST

START_TEST(a_first_adoption_cut_before_its_link_is_finished)
{
    Fixture g;
    fixture_open(&g);
    fixture_live(&g, MOVE_ADOPT, BASELINE);
    ck_assert_int_eq(unlink(fixture_path(&g, "current")), 0);
    RecoverResult result;
    ASSERT_OK(registry_recover(g.registry, &result, &g.error), &g.error);
    ck_assert_str_eq(result.report, "finished adoption of '" BASELINE "'");
    fixture_close(&g);
}
END_TEST

START_TEST(a_move_finds_the_switch_unfinished_and_finishes_it_first)
{
    point_current("pointers/2");
    fixture_publish(&f, C, RELEASE_MODEL, NULL);
    ASSERT_OK(fixture_try(&f, MOVE_PROMOTE, C, 3), &f.error);
    expect_settled(C, 4);
}
END_TEST

// -- a bad release under the last record

static void remove_release(const char *version)
{
    char name[160];
    snprintf(name, sizeof name, "releases/%s", version);
    ASSERT_OK(file_remove_tree(fixture_path(&f, name), &f.error), &f.error);
}

static void rot_b(void)
{
    fixture_rot(&f, B);
}
static void lose_b(void)
{
    remove_release(B);
}
static void swap_b(void)   // whole in itself, but not what was made live
{
    remove_release(B);
    fixture_publish(&f, B, RELEASE_MODEL, "other bytes");
}
static void rot_b_half_switched(void)
{
    rot_b();
    point_current("pointers/2");
}
static void rot_b_no_current(void)
{
    rot_b();
    point_current(NULL);
}
static void rot_b_and_a(void)
{
    rot_b();
    fixture_rot(&f, A);
}
static void rot_b_bar_a(void)
{
    rot_b();
    support_write(fixture_path(&f, "bars/" A ".json"), "{\"format\":1,\"reason\":\"outcomes\"}");
}

static const struct RevertRow {
    void (*spoil)(void);
    const char *to, *report;
} revert_rows[] = {
    {rot_b, A, "reverted to '" A "': release '" B "': file 'model.json' differs from its digest"},
    {lose_b, A, "directory is missing"},
    {swap_b, A, "is not the one that pointer record '3' made live"},
    {rot_b_half_switched, A, "reverted to '" A "'"},
    {rot_b_no_current, A, "reverted to '" A "'"},
    {rot_b_and_a, BASELINE, "reverted to '" BASELINE "'"},
    {rot_b_bar_a, BASELINE, "reverted to '" BASELINE "'"},
};

START_TEST(a_live_release_that_does_not_verify_is_reverted_once)
{
    const struct RevertRow *row = &revert_rows[_i];
    row->spoil();
    RecoverResult result = recover();
    ck_assert(result.reverted);
    ck_assert_int_eq(result.record.kind, MOVE_REVERT);
    ck_assert_str_eq(result.record.from, B);
    ck_assert_str_eq(result.record.to, row->to);
    ck_assert_msg(strstr(result.report, row->report) != NULL, "%s", result.report);
    ck_assert_msg(strstr(result.record.reason, "does not verify") != NULL, "%s", result.record.reason);
    expect_settled(row->to, 4);
}
END_TEST

#ifdef FEDGATE_FAULTS
START_TEST(a_live_release_on_a_bad_sector_is_reverted_too)
{
    char fault[64];
    snprintf(fault, sizeof fault, "release.sector.fail=%ld", fault_calls_made("release.sector") + 1);
    setenv("FEDGATE_FAULT", fault, 1);
    RecoverResult result = recover();
    unsetenv("FEDGATE_FAULT");
    ck_assert(result.reverted);
    ck_assert_str_eq(result.record.to, A);
    expect_settled(A, 4);
}
END_TEST
#endif

START_TEST(with_nothing_good_left_nothing_is_changed)
{
    rot_b_and_a();
    fixture_rot(&f, BASELINE);
    RecoverResult result;
    for (int i = 0; i < 2; i++)
        ASSERT_FAILS(registry_recover(f.registry, &result, &f.error), &f.error, ERROR_INCONSISTENT,
                     "neither an earlier release nor the named baseline is good");
    ck_assert_uint_eq(fixture_count_records(&f), 3);
    fixture_expect_live(&f, B, 3);
    ck_assert(!fixture_try(&f, MOVE_REVERT, NULL, -1));
    support_check_error(&f.error, ERROR_INCONSISTENT, "no named baseline verifies", "revert");
    error_clear(&f.error);
    PointerRecord record;
    ck_assert(!registry_rollback(f.registry, "", NULL, "why", &record, &f.error));
    support_check_error(&f.error, ERROR_DATA, "nothing earlier than", "rollback");
    ck_assert_str_eq(f.error.hint, "Nothing moved; no earlier release can be gone back to.");
    error_clear(&f.error);
    ck_assert_uint_eq(fixture_count_records(&f), 3);
}
END_TEST

START_TEST(a_promotion_against_a_live_release_that_rotted_is_refused_after_the_revert)
{
    fixture_publish(&f, C, RELEASE_MODEL, NULL);
    rot_b();
    ck_assert(!fixture_try(&f, MOVE_PROMOTE, C, -1));
    support_check_error(&f.error, ERROR_CONFLICT, "baseline moved: reverted to '" A "'", "promote");
    error_clear(&f.error);
    expect_settled(A, 4);
}
END_TEST

// -- a chain that does not hold: nothing is touched

static void edit_record(const char *seq, const char *from, const char *to)
{
    char name[64];
    snprintf(name, sizeof name, "pointers/%s/record.json", seq);
    SCOPED_TEXT text;
    text_init(&text, 65536);
    support_read(fixture_path(&f, name), &text);
    char *at = strstr(text.data, from);
    ck_assert_ptr_nonnull(at);
    SCOPED_TEXT edited;
    text_init(&edited, 65536);
    text_add_bytes(&edited, text.data, (size_t)(at - text.data));
    text_add(&edited, to);
    text_add(&edited, at + strlen(from));
    support_write(fixture_path(&f, name), text_string(&edited));
}

static void move_record(const char *from, const char *to)
{
    char source[64];
    snprintf(source, sizeof source, "pointers/%s", from);
    ck_assert_int_eq(rename(fixture_path(&f, source), fixture_path(&f, to)), 0);
}

static void break_reason(void)
{
    edit_record("2", "\"reason\":\"test\"", "\"reason\":\"tesT\"");
}
static void break_blank(void)
{
    edit_record("2", "\"reason\":", "\"reason\": ");
}
static void break_key(void)
{
    edit_record("2", "\"reason\":\"test\",", "");
}
static void break_extra_key(void)
{
    edit_record("2", "\"reason\"", "\"note\":1,\"reason\"");
}
static void break_kind(void)
{
    edit_record("2", "\"promote\"", "\"promoted\"");
}
static void break_to_kind(void)
{
    edit_record("2", "\"release\",\"actor_uid\"", "\"model\",\"actor_uid\"");
}
static void break_to(void)
{
    edit_record("2", "\"to\":\"" A "\"", "\"to\":\"../x\"");
}
static void break_format(void)
{
    edit_record("2", "\"format\":1", "\"format\":2");
}
static void break_time(void)
{
    edit_record("2", "+00:00", "");
}
static void break_digest(void)
{
    edit_record("2", "\"release_digest\":\"", "\"release_digest\":\"x");
}
static void break_long(void)
{
    char reason[400];
    memset(reason, 'x', sizeof reason - 1);
    reason[sizeof reason - 1] = '\0';
    edit_record("2", "\"reason\":\"test", reason);
    edit_record("2", "xxx", "\"reason\":\"xxx");
}
static void break_seq(void)
{
    edit_record("2", "\"seq\":2", "\"seq\":3");
}
static void break_previous(void)
{
    edit_record("2", "\"previous\":1", "\"previous\":0");
}
static void break_from(void)
{
    edit_record("3", "\"from\":\"" A "\"", "\"from\":\"" C "\"");
}
static void break_actor(void)
{
    edit_record("3", "\"actor_uid\":", "\"actor_uid\":7");
}
static void break_empty(void)
{
    support_write(fixture_path(&f, "pointers/2/record.json"), "");
}
static void break_missing(void)
{
    ck_assert_int_eq(unlink(fixture_path(&f, "pointers/2/record.json")), 0);
}
static void break_link(void)
{
    break_missing();
    ck_assert_int_eq(symlink("../3/record.json", fixture_path(&f, "pointers/2/record.json")), 0);
}
static void break_fifo(void)
{
    break_missing();
    ck_assert_int_eq(mkfifo(fixture_path(&f, "pointers/2/record.json"), 0600), 0);
}
static void break_huge(void)
{
    ck_assert_int_eq(truncate(fixture_path(&f, "pointers/2/record.json"), 1 << 30), 0);
}
static void break_release(void)
{
    ck_assert_int_eq(unlink(fixture_path(&f, "pointers/2/release")), 0);
    ck_assert_int_eq(symlink("../../releases/" B, fixture_path(&f, "pointers/2/release")), 0);
}
static void break_no_release(void)
{
    ck_assert_int_eq(unlink(fixture_path(&f, "pointers/3/release")), 0);
}
static void break_gap(void)
{
    move_record("2", "elsewhere");
}
static void break_first(void)
{
    move_record("1", "elsewhere");
}
static void break_twice(void)
{
    move_record("2", "pointers/02");
}
static void break_zero(void)
{
    ck_assert_int_eq(mkdir(fixture_path(&f, "pointers/0"), 0700), 0);
}
static void break_range(void)
{
    ck_assert_int_eq(mkdir(fixture_path(&f, "pointers/99999999999999999999"), 0700), 0);
}
static void break_file(void)
{
    break_gap();
    support_write(fixture_path(&f, "pointers/2"), "");
}
static void break_all_gone(void)
{
    move_record("1", "gone1");
    move_record("2", "gone2");
    move_record("3", "gone3");
}

static const struct BreakRow {
    void (*spoil)(void);
    const char *words;
} break_rows[] = {
    {break_reason, "pointer record '3' follows a record of digest"},
    {break_blank, "pointer record '2': record.json: not in canonical form"},
    {break_key, "pointer record '2': record.json: "},
    {break_extra_key, "pointer record '2': record.json: not in canonical form"},
    {break_kind, "kind 'promoted' is unknown"},
    {break_to_kind, "to_kind 'model' is unknown"},
    {break_to, "to '../x' is not the name of a version"},
    {break_format, "format is 2, this program reads 1"},
    {break_time, "is not RFC 3339"},
    {break_digest, "release_digest is not a SHA-256 digest"},
    {break_long, "reason is longer than 255 bytes"},
    {break_seq, "pointer record '2': record.json holds sequence 3"},
    {break_previous, "pointer record '2': its previous sequence is 0"},
    {break_from, "pointer record '3' moves from '" C "', live was '" A "'"},
    {break_actor, "names uid 7"},
    {break_empty, "pointer record '2': record.json"},
    {break_missing, "pointer record '2': record.json is missing"},
    {break_link, "pointer record '2': record.json is missing or a link"},
    {break_fifo, "pointer record '2': record.json is not a plain file"},
    {break_huge, "pointer record '2': record.json is not a plain file of at most"},
    {break_release, "pointer record '2': its link 'release' does not name release '" A "'"},
    {break_no_release, "pointer record '3': its link 'release'"},
    {break_gap, "pointer record '2' is missing, record '3' is there"},
    {break_first, "pointer record '1' is missing, record '2' is there"},
    {break_twice, "pointer record '02' is not the name of a sequence"},
    {break_zero, "pointer record '0' is not the name of a sequence"},
    {break_range, "is not the name of a sequence"},
    {break_file, "pointer record '2': it is not a directory"},
    {break_all_gone, "there is no pointer record"},
};

START_TEST(a_chain_that_does_not_hold_stops_everything_and_names_the_record)
{
    const struct BreakRow *row = &break_rows[_i];
    row->spoil();
    leave("pointers/.tmp-4", NULL);
    char before[FILE_PATH_SIZE], after[FILE_PATH_SIZE];
    ASSERT_OK(file_link_read(fixture_path(&f, "current"), before, sizeof before, &f.error), &f.error);
    RecoverResult result;
    ASSERT_FAILS(registry_recover(f.registry, &result, &f.error), &f.error, ERROR_INCONSISTENT, row->words);
    PointerRecord *records;
    size_t count;
    if (row->spoil != break_all_gone)
        ASSERT_FAILS(registry_history(f.registry, &records, &count, &f.error), &f.error, ERROR_INCONSISTENT,
                     row->words);
    ck_assert(!fixture_try(&f, MOVE_PROMOTE, A, -1));
    ck_assert_int_eq(f.error.kind, ERROR_INCONSISTENT);
    error_clear(&f.error);
    PointerRecord record;
    ck_assert(!registry_rollback(f.registry, "", NULL, "why", &record, &f.error));
    ck_assert_int_eq(f.error.kind, ERROR_INCONSISTENT);
    error_clear(&f.error);
    ASSERT_OK(file_link_read(fixture_path(&f, "current"), after, sizeof after, &f.error), &f.error);
    ck_assert_str_eq(before, after);
    ck_assert(file_is_directory(fixture_path(&f, "pointers/.tmp-4")));
    ck_assert(!file_exists(fixture_path(&f, "pointers/4")));
    ck_assert(!file_exists(fixture_path(&f, "hold.json")));
}
END_TEST

START_TEST(a_record_that_belongs_to_another_account_is_not_believed)
{
    if (getuid() != 0) {
        puts("skipped: giving a file to another account needs root");
        return;
    }
    ck_assert_int_eq(chown(fixture_path(&f, "pointers/3/record.json"), 65534, (gid_t)-1), 0);
    RecoverResult result;
    ASSERT_FAILS(registry_recover(f.registry, &result, &f.error), &f.error, ERROR_INCONSISTENT,
                 "belongs to uid 65534");
}
END_TEST

START_TEST(what_is_not_a_record_in_pointers_is_nobodys)
{
    support_write(fixture_path(&f, "pointers/README"), "");
    leave("pointers/3.orig", NULL);
    expect_settled(B, 3);
    ck_assert(file_exists(fixture_path(&f, "pointers/README")));
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("registry_recover");
    TCase *states = tcase_create("states");
    tcase_add_checked_fixture(states, set_up, tear_down);
    tcase_add_test(states, a_whole_home_needs_nothing);
    tcase_add_test(states, what_a_killed_process_was_writing_is_removed);
    tcase_add_test(states, a_rollback_beside_a_running_night_leaves_its_draft_alone);
    tcase_add_loop_test(states, current_follows_the_last_record_whatever_it_was, 0,
                        (int)(sizeof current_rows / sizeof current_rows[0]));
    tcase_add_test(states, a_full_folder_in_place_of_current_is_left_to_the_owner);
    tcase_add_test(states, a_first_adoption_cut_before_its_link_is_finished);
    tcase_add_test(states, a_move_finds_the_switch_unfinished_and_finishes_it_first);
    tcase_add_loop_test(states, a_live_release_that_does_not_verify_is_reverted_once, 0,
                        (int)(sizeof revert_rows / sizeof revert_rows[0]));
#ifdef FEDGATE_FAULTS
    tcase_add_test(states, a_live_release_on_a_bad_sector_is_reverted_too);
#endif
    tcase_add_test(states, with_nothing_good_left_nothing_is_changed);
    tcase_add_test(states, a_promotion_against_a_live_release_that_rotted_is_refused_after_the_revert);
    tcase_add_loop_test(states, a_chain_that_does_not_hold_stops_everything_and_names_the_record, 0,
                        (int)(sizeof break_rows / sizeof break_rows[0]));
    tcase_add_test(states, a_record_that_belongs_to_another_account_is_not_believed);
    tcase_add_test(states, what_is_not_a_record_in_pointers_is_nobodys);
    suite_add_tcase(s, states);
    return s;
}

int main(void)
{
    SRunner *r = srunner_create(suite());
    srunner_run_all(r, CK_ENV);
    int bad = srunner_ntests_failed(r);
    srunner_free(r);
    return bad != 0;
}
