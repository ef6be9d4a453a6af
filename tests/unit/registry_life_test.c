// registry_life_test - moves that are allowed, moves that are refused, and what is said to have been live.
#include "registry_fixture.h"

static Fixture f;

static void set_up(void)
{
    fixture_open(&f);
}
static void set_up_three(void)
{
    fixture_three(&f);
}
static void tear_down(void)
{
    fixture_close(&f);
}

static PointerRecord rollback(const char *to)
{
    PointerRecord record;
    clock_advance(f.clock, fixture_hour_ns);
    ASSERT_OK(registry_rollback(f.registry, "", to, "it was bad", &record, &f.error), &f.error);
    return record;
}

static void unhold(const char *version)
{
    ASSERT_OK(registry_unhold(f.registry, "", version, "looked at it", &f.error), &f.error);
}

static bool held(void)
{
    HoldState state;
    ASSERT_OK(registry_hold_state(f.registry, &state, &f.error), &f.error);
    return state.held;
}

static bool barred(const char *version)
{
    bool is;
    char reason[256];
    ASSERT_OK(registry_is_barred(f.registry, version, &is, reason, &f.error), &f.error);
    return is;
}

static void expect_previous(const char *version)
{
    bool any;
    char found[VERSION_SIZE];
    ASSERT_OK(registry_previous_good(f.registry, &any, found, &f.error), &f.error);
    ck_assert_int_eq(any, version != NULL);
    if (version)
        ck_assert_str_eq(found, version);
}

START_TEST(a_new_home_has_nothing_live_and_nothing_to_go_back_to)
{
    bool any;
    PointerRecord record;
    char path[FILE_PATH_SIZE], version[VERSION_SIZE];
    ASSERT_OK(registry_current(f.registry, &any, &record, &f.error), &f.error);
    ck_assert(!any);
    ASSERT_OK(registry_baseline(f.registry, &any, version, &f.error), &f.error);
    ck_assert(!any);
    ASSERT_OK(registry_at(f.registry, fixture_begin_ns, &any, &record, &f.error), &f.error);
    ck_assert(!any);
    expect_previous(NULL);
    ck_assert_uint_eq(fixture_count_records(&f), 0);
    ASSERT_FAILS(registry_current_path(f.registry, path, &f.error), &f.error, ERROR_DATA, "nothing is live");
    ASSERT_FAILS(registry_rollback(f.registry, "", NULL, "why", &record, &f.error), &f.error, ERROR_DATA,
                 "nothing is live");
    ck_assert(!fixture_try(&f, MOVE_REVERT, NULL, -1));
    ck_assert_int_eq(f.error.kind, ERROR_INCONSISTENT);
}
END_TEST

START_TEST(a_home_is_completed_but_never_overwritten)
{
    SCOPED_TEXT before, after;
    text_init(&before, 4096);
    text_init(&after, 4096);
    support_read(fixture_path(&f, "home.json"), &before);
    ck_assert_int_eq(rmdir(fixture_path(&f, "bars")), 0);
    ck_assert_int_eq(chmod(f.home, 0700), 0);
    ASSERT_OK(registry_create(f.home, process_account(), f.clock, &f.error), &f.error);
    ck_assert(file_is_directory(fixture_path(&f, "bars")));
    struct stat status;
    ck_assert_int_eq(stat(f.home, &status), 0);
    ck_assert_int_eq(status.st_mode & 07777, 0700);
    ck_assert_str_eq(text_string(&before), support_read(fixture_path(&f, "home.json"), &after));
    ck_assert_uint_eq(strlen(registry_home_id(f.registry)), UUID_SIZE - 1);
    ck_assert_str_eq(registry_home(f.registry), f.home);
    ck_assert(!registry_duty_separated(f.registry, ""));
    ASSERT_FAILS(registry_create(f.home, "no-such-account-here", f.clock, &f.error), &f.error, ERROR_CONFIG,
                 "owner");
}
END_TEST

START_TEST(folders_made_above_a_home_let_others_pass)
{
    char home[FILE_PATH_SIZE];
    struct stat status;
    ASSERT_OK(file_join(home, f.folder, "deep/er/home//", &f.error), &f.error);
    ASSERT_OK(registry_create(home, process_account(), f.clock, &f.error), &f.error);
    ck_assert_int_eq(stat(support_path(f.folder, "deep/er"), &status), 0);
    ck_assert_int_eq(status.st_mode & 0777, 0755);
    ck_assert_int_eq(stat(home, &status), 0);
    ck_assert_int_eq(status.st_mode & 0777, 0750);
}
END_TEST

START_TEST(what_is_no_home_is_not_opened)
{
    static const char *const texts[] = {"", "{}", "{\"format\":2}", "{\"format\":1,\"id\":\"x\"}", NULL};
    for (size_t i = 0; texts[i]; i++) {
        support_write(fixture_path(&f, "home.json"), texts[i]);
        ck_assert(registry_open(f.home, f.clock, &f.error) == NULL);
        ck_assert_int_eq(f.error.kind, ERROR_CONFIG);
        ck_assert(strstr(f.error.hint, "fedgate init") != NULL);
        error_clear(&f.error);
    }
    ck_assert(registry_open(f.folder, f.clock, &f.error) == NULL);
    ck_assert_int_eq(f.error.kind, ERROR_CONFIG);
}
END_TEST

START_TEST(a_whole_life_goes_forward_back_and_no_further_than_the_baseline)
{
    fixture_live(&f, MOVE_ADOPT, BASELINE);
    expect_previous(NULL);
    fixture_live(&f, MOVE_PROMOTE, A);
    expect_previous(BASELINE);
    fixture_live(&f, MOVE_PROMOTE, B);
    expect_previous(A);
    fixture_expect_live(&f, B, 3);

    PointerRecord record = rollback(NULL);
    ck_assert_str_eq(record.from, B);
    ck_assert_str_eq(record.to, A);
    ck_assert_int_eq(record.kind, MOVE_ROLLBACK);
    ck_assert_int_eq(record.actor_uid, (int64_t)getuid());
    fixture_expect_live(&f, A, 4);
    ck_assert(held() && barred(B) && !barred(A));
    expect_previous(BASELINE);

    ck_assert(!fixture_try(&f, MOVE_PROMOTE, B, -1));
    support_check_error(&f.error, ERROR_CONFLICT, "promotions are on hold by", "promote");
    error_clear(&f.error);
    unhold(NULL);
    unhold(NULL);   // nothing held: nothing to do
    ck_assert(!held() && barred(B));
    ck_assert(!fixture_try(&f, MOVE_PROMOTE, B, -1));
    support_check_error(&f.error, ERROR_CONFLICT, "version '" B "' is barred: it was bad", "promote");
    error_clear(&f.error);
    unhold(B);
    ck_assert(!barred(B));
    fixture_expect_live(&f, A, 4);

    record = rollback(NULL);   // one step further, not back to B
    ck_assert_str_eq(record.to, BASELINE);
    ck_assert_int_eq(record.to_kind, RELEASE_BASELINE);
    ck_assert(held() && barred(A) && !barred(B));

    ASSERT_FAILS(registry_rollback(f.registry, "", NULL, "again", &record, &f.error), &f.error, ERROR_DATA,
                 "nothing earlier than");
    fixture_expect_live(&f, BASELINE, 5);

    unhold(NULL);
    fixture_live(&f, MOVE_PROMOTE, C);
    expect_previous(B);   // promoted most recently before C, and its bar was lifted
    ck_assert_uint_eq(fixture_count_records(&f), 6);
}
END_TEST

START_TEST(rollbacks_in_a_row_go_one_step_further_each_time)
{
    static const char *const ways[] = {A, BASELINE};
    HoldState state;
    PointerRecord record;
    for (size_t i = 0; i < 2; i++) {
        record = rollback(NULL);
        ck_assert_str_eq(record.to, ways[i]);
        ck_assert(held() && barred(record.from));
        ck_assert_int_eq(record.seq, 4 + (int64_t)i);
    }
    ASSERT_OK(registry_hold_state(f.registry, &state, &f.error), &f.error);
    ck_assert_int_eq(state.since_wall_ns, fixture_begin_ns + 4 * fixture_hour_ns);   // the first one's hold
    ASSERT_FAILS(registry_rollback(f.registry, "", NULL, "again", &record, &f.error), &f.error, ERROR_DATA,
                 "nothing earlier than");
    ck_assert(!barred(BASELINE));
    // What was left is barred: neither a rollback nor a night goes there before the owner lifts it.
    ASSERT_FAILS(registry_rollback(f.registry, "", B, "back", &record, &f.error), &f.error, ERROR_DATA,
                 "barred");
    unhold(B);
    ASSERT_OK(registry_rollback(f.registry, "", B, "it was not B", &record, &f.error), &f.error);
    fixture_expect_live(&f, B, 6);
    expect_previous(BASELINE);   // A is still barred
}
END_TEST

START_TEST(a_move_whose_words_do_not_fit_is_refused)
{
    char run[64];
    memset(run, 'r', sizeof run - 1);
    run[sizeof run - 1] = '\0';
    MoveRequest request = {.kind = MOVE_REVERT, .version = A, .expected_seq = -1, .run = run};
    PointerRecord record;
    ASSERT_FAILS(registry_move(f.registry, &request, &record, &f.error), &f.error, ERROR_USAGE,
                 "is longer than");
    request.run = NULL;   // neither run nor reason
    ASSERT_OK(registry_move(f.registry, &request, &record, &f.error), &f.error);
    ck_assert_str_eq(record.reason, "");
    ck_assert_str_eq(record.run, "");
    ASSERT_FAILS(registry_hold(f.registry, "", NULL, &f.error), &f.error, ERROR_USAGE, "hold needs a reason");
    char home[FILE_PATH_SIZE];
    memset(home, 'h', sizeof home - 1);
    home[sizeof home - 1] = '\0';
    ck_assert(registry_open(home, f.clock, &f.error) == NULL);
    support_check_error(&f.error, ERROR_CONFIG, "path of the home is longer than 3583 bytes", "open");
}
END_TEST

START_TEST(a_rollback_to_the_baseline_bars_the_release_but_never_the_baseline)
{
    rollback(BASELINE);
    fixture_expect_live(&f, BASELINE, 4);
    ck_assert(barred(B) && !barred(A));
    rollback(A);   // forward again is a rollback too: it names what was live before
    fixture_expect_live(&f, A, 5);
    ck_assert(!barred(BASELINE));
}
END_TEST

START_TEST(a_rollback_to_what_is_absent_rotten_barred_or_live_moves_nothing)
{
    PointerRecord record;
    fixture_publish(&f, C, RELEASE_MODEL, NULL);
    ASSERT_FAILS(registry_rollback(f.registry, "", C, "why", &record, &f.error), &f.error, ERROR_DATA,
                 "was never live here");
    ASSERT_FAILS(registry_rollback(f.registry, "", B, "why", &record, &f.error), &f.error, ERROR_USAGE,
                 "already live");
    ASSERT_FAILS(registry_rollback(f.registry, "", "../x", "why", &record, &f.error), &f.error, ERROR_USAGE,
                 "not the name");
    ASSERT_FAILS(registry_rollback(f.registry, "", A, "", &record, &f.error), &f.error, ERROR_USAGE,
                 "needs a reason");
    fixture_rot(&f, A);
    ck_assert(!registry_rollback(f.registry, "", A, "why", &record, &f.error));
    support_check_error(&f.error, ERROR_DATA, "differs from its digest", "rollback");
    ck_assert_msg(strstr(f.error.hint, "gone back to: " BASELINE ".") != NULL, "%s", f.error.hint);
    error_clear(&f.error);
    fixture_expect_live(&f, B, 3);
    ck_assert(!held() && !barred(B));
    ASSERT_OK(registry_rollback(f.registry, "", NULL, "why", &record, &f.error),
              &f.error);   // past the rotten one
    ck_assert_str_eq(record.to, BASELINE);
    ASSERT_FAILS(registry_rollback(f.registry, "", B, "why", &record, &f.error), &f.error, ERROR_DATA,
                 "is barred: why");
}
END_TEST

START_TEST(a_rollback_from_a_rotten_release_is_one_move)
{
    fixture_rot(&f, B);
    PointerRecord record = rollback(NULL);
    ck_assert_str_eq(record.to, A);
    ck_assert_int_eq(record.seq, 4);
    ck_assert_int_eq(record.kind, MOVE_ROLLBACK);
}
END_TEST

START_TEST(what_was_live_at_a_time_is_found_by_sequence)
{
    static const struct {
        int64_t after_ns;
        const char *version;
    } rows[] = {
        {-1, NULL}, {0, NULL}, {1, BASELINE}, {2, A}, {3, B}, {100, B},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bool any;
        PointerRecord record;
        ASSERT_OK(registry_at(f.registry, fixture_begin_ns + rows[i].after_ns * fixture_hour_ns, &any,
                              &record, &f.error),
                  &f.error);
        ck_assert_int_eq(any, rows[i].version != NULL);
        if (any)
            ck_assert_str_eq(record.to, rows[i].version);
    }
    // The clock steps back two hours: the newer record wins at a time both cover.
    clock_advance(f.clock, -3 * fixture_hour_ns);
    fixture_live(&f, MOVE_PROMOTE, C);
    bool any;
    PointerRecord record;
    ASSERT_OK(registry_at(f.registry, fixture_begin_ns + 3 * fixture_hour_ns, &any, &record, &f.error),
              &f.error);
    ck_assert_str_eq(record.to, C);
    fixture_expect_live(&f, C, 4);
}
END_TEST

START_TEST(a_decision_against_an_older_head_is_refused)
{
    fixture_publish(&f, C, RELEASE_MODEL, NULL);
    ck_assert(!fixture_try(&f, MOVE_PROMOTE, C, 2));
    support_check_error(&f.error, ERROR_CONFLICT,
                        "baseline moved: expected pointer record '2', the last one is '3'", "promote");
    error_clear(&f.error);
    ck_assert(!fixture_try(&f, MOVE_PROMOTE, C, 0));
    error_clear(&f.error);
    ASSERT_OK(fixture_try(&f, MOVE_PROMOTE, C, 3), &f.error);
}
END_TEST

START_TEST(nothing_is_promoted_after_its_deadline)
{
    fixture_publish(&f, C, RELEASE_MODEL, NULL);
    PointerRecord record;
    MoveRequest request = {.kind = MOVE_PROMOTE,
                           .version = C,
                           .expected_seq = -1,
                           .reason = "late",
                           .run = "",
                           .deadline_wall_ns = clock_wall_ns(f.clock) - 1};
    ASSERT_FAILS(registry_move(f.registry, &request, &record, &f.error), &f.error, ERROR_CONFLICT,
                 "deadline passed");
    fixture_expect_live(&f, B, 3);
    request.deadline_wall_ns = clock_wall_ns(f.clock);
    ASSERT_OK(registry_move(f.registry, &request, &record, &f.error), &f.error);
}
END_TEST

START_TEST(each_kind_of_move_asks_for_its_kind_of_target)
{
    fixture_publish(&f, C, RELEASE_MODEL, NULL);
    fixture_publish(&f, "base-0000000000000001", RELEASE_BASELINE, NULL);
    ck_assert(!fixture_try(&f, MOVE_ADOPT, "base-0000000000000001", -1));
    support_check_error(&f.error, ERROR_CONFLICT, "cannot adopt a baseline while release '" B "' is live",
                        "adopt");
    error_clear(&f.error);
    ck_assert(!fixture_try(&f, MOVE_PROMOTE, NULL, -1));
    support_check_error(&f.error, ERROR_USAGE, "promote needs a version", "promote");
    error_clear(&f.error);
    ck_assert(!fixture_try(&f, MOVE_PROMOTE, "a/../../b", -1));
    support_check_error(&f.error, ERROR_USAGE, "not the name of a version", "promote");
    error_clear(&f.error);
    rollback(BASELINE);
    ck_assert(!fixture_try(&f, MOVE_ADOPT, C, -1));
    support_check_error(&f.error, ERROR_USAGE, "is not a baseline", "adopt");
    error_clear(&f.error);
    ASSERT_OK(fixture_try(&f, MOVE_ADOPT, "base-0000000000000001", -1),
              &f.error);   // from one baseline to the next
    bool any;
    char version[VERSION_SIZE];
    ASSERT_OK(registry_baseline(f.registry, &any, version, &f.error), &f.error);
    ck_assert_str_eq(version, "base-0000000000000001");
}
END_TEST

static void tamper_extra_byte(void)
{
    support_write(fixture_path(&f, "releases/" C "/model.json"), C "x");
}
static void tamper_missing(void)
{
    ck_assert_int_eq(unlink(fixture_path(&f, "releases/" C "/model.json")), 0);
}
static void tamper_extra_file(void)
{
    support_write(fixture_path(&f, "releases/" C "/x.json"), "");
}
static void tamper_link(void)
{
    tamper_missing();
    ck_assert_int_eq(symlink("/etc/hostname", fixture_path(&f, "releases/" C "/model.json")), 0);
}
static void tamper_fifo(void)
{
    tamper_missing();
    ck_assert_int_eq(mkfifo(fixture_path(&f, "releases/" C "/model.json"), 0600), 0);
}
static void tamper_name(void)
{
    ASSERT_OK(file_remove_tree(fixture_path(&f, "releases/" C), &f.error), &f.error);
    ck_assert_int_eq(rename(fixture_path(&f, "releases/" A), fixture_path(&f, "releases/" C)), 0);
}

static const struct Tampering {
    void (*tamper)(void);
    const char *words;
} tamperings[] = {
    {tamper_extra_byte, "bytes, the manifest says"},
    {tamper_missing, "is missing"},
    {tamper_extra_file, "not in the manifest"},
    {tamper_link, "not a plain file"},
    {tamper_fifo, "not a plain file"},
    {tamper_name, "holds version '" A "'"},
};

START_TEST(a_tampered_release_is_not_promoted)
{
    fixture_publish(&f, C, RELEASE_MODEL, NULL);
    tamperings[_i].tamper();
    ck_assert(!fixture_try(&f, MOVE_PROMOTE, C, -1));
    support_check_error(&f.error, ERROR_DATA, tamperings[_i].words, "promote");
    error_clear(&f.error);
    fixture_expect_live(&f, B, 3);
}
END_TEST

START_TEST(a_version_that_was_live_with_other_bytes_is_not_promoted)
{
    ASSERT_OK(file_remove_tree(fixture_path(&f, "releases/" A), &f.error), &f.error);
    fixture_publish(&f, A, RELEASE_MODEL, "other bytes");
    ck_assert(!fixture_try(&f, MOVE_PROMOTE, A, -1));
    support_check_error(&f.error, ERROR_DATA, "is not the one that pointer record '2' made live", "promote");
}
END_TEST

START_TEST(a_revert_asked_for_goes_to_the_last_known_good)
{
    ASSERT_OK(fixture_try(&f, MOVE_REVERT, NULL, 3), &f.error);
    fixture_expect_live(&f, A, 4);
    ck_assert(!held() && !barred(B));
    ASSERT_OK(fixture_try(&f, MOVE_REVERT, BASELINE, -1), &f.error);
    fixture_expect_live(&f, BASELINE, 5);
}
END_TEST

START_TEST(the_record_says_everything_and_reads_back)
{
    PointerRecord *records;
    size_t count;
    ASSERT_OK(registry_history(f.registry, &records, &count, &f.error), &f.error);
    ck_assert_uint_eq(count, 3);
    ck_assert_int_eq(records[2].previous, 2);
    ck_assert(digest_equal(&records[2].previous_digest, &records[1].digest));
    ck_assert_str_eq(records[1].from, BASELINE);
    ck_assert_str_eq(records[0].actor, process_account());
    ck_assert_int_eq(records[0].wall_ns, fixture_begin_ns + fixture_hour_ns);
    ck_assert_str_eq(registry_move_name(records[0].kind), "adopt");
    OWNED(Json, json_free) *json = registry_record_to_json(&records[2]);
    char hex[DIGEST_HEX_SIZE];
    digest_hex(&records[2].digest, hex);
    ck_assert_str_eq(json_text_or(json_get(json, "record_digest"), ""), hex);
    ck_assert_str_eq(json_text_or(json_get(json, "to_kind"), ""), "release");

    // The digest is of the bytes on disk, so sha256sum shows it too.
    Digest file;
    ASSERT_OK(hash_file(fixture_path(&f, "pointers/3/record.json"), &file, NULL, &f.error), &f.error);
    ck_assert(digest_equal(&file, &records[2].digest));
    free(records);
    char path[FILE_PATH_SIZE];
    ASSERT_OK(registry_current_path(f.registry, path, &f.error), &f.error);
    ck_assert_str_eq(path, fixture_path(&f, "releases/" B));
    ck_assert(
        file_exists(fixture_path(&f, "current/release/manifest.json")));   // what a plain reader follows
}
END_TEST

START_TEST(a_reason_of_any_bytes_becomes_one_sound_record)
{
    char reason[2000];
    memset(reason, 'x', sizeof reason);
    memcpy(reason, "\033[2J\n\xff \"q\" ", 11);
    memcpy(reason + 230, "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4",
           20);
    reason[sizeof reason - 1] = '\0';
    fixture_publish(&f, C, RELEASE_MODEL, NULL);
    const MoveRequest request = {
        .kind = MOVE_PROMOTE, .version = C, .expected_seq = -1, .reason = reason, .run = ""};
    PointerRecord record;
    ASSERT_OK(registry_move(f.registry, &request, &record, &f.error), &f.error);
    ck_assert_uint_eq(fixture_count_records(&f), 4);
    ck_assert_msg(text_ends_with(record.reason, "..."), "%s", record.reason);
    ASSERT_FAILS(registry_hold(f.registry, "", reason, &f.error), &f.error, ERROR_USAGE, "the limit is 255");
}
END_TEST

START_TEST(a_hold_is_the_owners_and_leaves_its_trail)
{
    ASSERT_OK(registry_hold(f.registry, "", "audit week", &f.error), &f.error);
    HoldState state;
    ASSERT_OK(registry_hold_state(f.registry, &state, &f.error), &f.error);
    ck_assert(state.held);
    ck_assert_str_eq(state.reason, "audit week");
    ck_assert_str_eq(state.who, process_account());
    ck_assert_int_eq(state.since_wall_ns, clock_wall_ns(f.clock));
    unhold(NULL);
    ASSERT_FAILS(registry_unhold(f.registry, "", B, "x", &f.error), &f.error, ERROR_USAGE, "is not barred");
    SCOPED_TEXT trail;
    text_init(&trail, 65536);
    support_read(fixture_path(&f, "audit.jsonl"), &trail);
    ck_assert_ptr_nonnull(
        strstr(text_string(&trail), "\"action\":\"hold\",\"version\":null,\"reason\":\"audit week\""));
    ck_assert_ptr_nonnull(strstr(text_string(&trail), "\"action\":\"unhold\""));
}
END_TEST

START_TEST(a_hold_or_bar_that_cannot_be_read_holds)
{
    fixture_publish(&f, C, RELEASE_MODEL, NULL);
    support_write(fixture_path(&f, "hold.json"), "");
    ck_assert(held());
    ck_assert(!fixture_try(&f, MOVE_PROMOTE, C, -1));
    ck_assert_int_eq(f.error.kind, ERROR_CONFLICT);
    error_clear(&f.error);
    unhold(NULL);
    ck_assert_int_eq(mkdir(fixture_path(&f, "bars/" C ".json"), 0700), 0);
    ck_assert(!fixture_try(&f, MOVE_PROMOTE, C, -1));
    support_check_error(&f.error, ERROR_CONFLICT, "its bar cannot be read", "promote");
}
END_TEST

START_TEST(a_judged_slot_is_found_again)
{
    OWNED(Json, json_free) *slot = json_make_object();
    json_put_text(slot, "outcome", "promoted");
    json_put_text(slot, "run", "0190a7c0-0000-7000-8000-000000000001");
    Json *found;
    ASSERT_OK(registry_slot_read(f.registry, "2026-11-30", &found, &f.error), &f.error);
    ck_assert_ptr_null(found);
    ASSERT_OK(registry_slot_write(f.registry, "2026-11-30", slot, &f.error), &f.error);
    ASSERT_OK(registry_slot_read(f.registry, "2026-11-30", &found, &f.error), &f.error);
    ck_assert(json_same(slot, found));
    json_free(found);
    ASSERT_FAILS(registry_slot_read(f.registry, "../home", &found, &f.error), &f.error, ERROR_USAGE,
                 "slot '../home'");
    static const struct {
        const char *content, *words;
    } damaged[] = {
        {"{", "slot 'cut'"},
        {"{\"outcome\":\"promoted\"}", "slot 'cut': its run '' is not a name"},
        {"{\"run\":\"../releases\"}", "slot 'cut': its run '../releases' is not a name"},
    };
    for (size_t i = 0; i < sizeof damaged / sizeof damaged[0]; i++) {
        support_write(fixture_path(&f, "slots/cut.json"), damaged[i].content);
        ASSERT_FAILS(registry_slot_read(f.registry, "cut", &found, &f.error), &f.error, ERROR_DATA,
                     damaged[i].words);
    }
    // Neither is an unjudged night: a link to nothing, a folder.
    ck_assert_int_eq(symlink("nowhere", fixture_path(&f, "slots/link.json")), 0);
    ASSERT_FAILS(registry_slot_read(f.registry, "link", &found, &f.error), &f.error, ERROR_DATA,
                 "is not a plain file");
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("registry_life");
    TCase *fresh = tcase_create("fresh home");
    tcase_add_checked_fixture(fresh, set_up, tear_down);
    tcase_add_test(fresh, a_new_home_has_nothing_live_and_nothing_to_go_back_to);
    tcase_add_test(fresh, a_home_is_completed_but_never_overwritten);
    tcase_add_test(fresh, folders_made_above_a_home_let_others_pass);
    tcase_add_test(fresh, what_is_no_home_is_not_opened);
    tcase_add_test(fresh, a_whole_life_goes_forward_back_and_no_further_than_the_baseline);
    suite_add_tcase(s, fresh);
    TCase *three = tcase_create("three records");
    tcase_add_checked_fixture(three, set_up_three, tear_down);
    tcase_add_test(three, a_rollback_to_what_is_absent_rotten_barred_or_live_moves_nothing);
    tcase_add_test(three, a_move_whose_words_do_not_fit_is_refused);
    tcase_add_test(three, rollbacks_in_a_row_go_one_step_further_each_time);
    tcase_add_test(three, a_rollback_to_the_baseline_bars_the_release_but_never_the_baseline);
    tcase_add_test(three, a_rollback_from_a_rotten_release_is_one_move);
    tcase_add_test(three, what_was_live_at_a_time_is_found_by_sequence);
    tcase_add_test(three, a_decision_against_an_older_head_is_refused);
    tcase_add_test(three, nothing_is_promoted_after_its_deadline);
    tcase_add_test(three, each_kind_of_move_asks_for_its_kind_of_target);
    tcase_add_loop_test(three, a_tampered_release_is_not_promoted, 0,
                        (int)(sizeof tamperings / sizeof tamperings[0]));
    tcase_add_test(three, a_version_that_was_live_with_other_bytes_is_not_promoted);
    tcase_add_test(three, a_revert_asked_for_goes_to_the_last_known_good);
    tcase_add_test(three, the_record_says_everything_and_reads_back);
    tcase_add_test(three, a_reason_of_any_bytes_becomes_one_sound_record);
    tcase_add_test(three, a_hold_is_the_owners_and_leaves_its_trail);
    tcase_add_test(three, a_hold_or_bar_that_cannot_be_read_holds);
    tcase_add_test(three, a_judged_slot_is_found_again);
    suite_add_tcase(s, three);
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
