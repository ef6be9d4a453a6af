// registry_import_test - a release out of one home and into another: what is taken, what is refused, what is
// left.
#include "pack_fixture.h"
#include "registry_fixture.h"

#include <grp.h>

#define X "model-00000000000000ff"

static Fixture f, other;   // where it comes from, where it goes
static char file[FILE_PATH_SIZE];
static ExportResult exported;
static ImportResult imported;

static void export(const char *version)
{
    (void)unlink(file);
    ASSERT_OK(registry_export(f.registry, version, file, &exported, &f.error), &f.error);
}

static void set_up(void)
{
    fixture_three(&f);
    fixture_open(&other);
    ck_assert(text_copy(file, sizeof file, support_path(f.folder, "release.tar")));
    export(B);
}
static void tear_down(void)
{
    fixture_close(&f);
    fixture_close(&other);
}

static bool import(void)
{
    return registry_import(other.registry, "", file, &imported, &other.error);
}

static bool there(const char *version)
{
    char name[160];
    ReleaseCheck check;
    snprintf(name, sizeof name, "releases/%s", version);
    if (!file_exists(fixture_path(&other, name)))
        return false;
    ASSERT_OK(release_verify(fixture_path(&other, name), &check, &other.error), &other.error);
    return true;
}

// Refused, and the home is as it was: no release, no draft, no pin.
static void expect_refused(ErrorKind kind, const char *words)
{
    FileList before, after, pins, left;
    Error failed = ERROR_INIT;
    ASSERT_OK(file_list(fixture_path(&other, "releases"), &before, &failed), &failed);
    ASSERT_OK(file_list(fixture_path(&other, "pins"), &pins, &failed), &failed);
    ASSERT_FAILS(import(), &other.error, kind, words);
    ASSERT_OK(file_list(fixture_path(&other, "releases"), &after, &failed), &failed);
    ASSERT_OK(file_list(fixture_path(&other, "pins"), &left, &failed), &failed);
    ck_assert_uint_eq(before.count, after.count);
    ck_assert_uint_eq(pins.count, left.count);
    for (size_t i = 0; i < after.count; i++)
        ck_assert_str_eq(before.names[i], after.names[i]);
    file_list_done(&before);
    file_list_done(&after);
    file_list_done(&pins);
    file_list_done(&left);
}

START_TEST(an_export_is_the_same_bytes_each_time_and_never_over_another_file)
{
    SCOPED_TEXT first, second;
    text_init(&first, PACK_BYTES);
    text_init(&second, PACK_BYTES);
    support_read(file, &first);
    ExportResult again;
    Digest digest;
    uint64_t bytes;
    ASSERT_FAILS(registry_export(f.registry, B, file, &again, &f.error), &f.error, ERROR_CONFLICT,
                 "exists already");
    ASSERT_OK(registry_export(f.registry, B, support_path(f.folder, "again"), &again, &f.error), &f.error);
    support_read(support_path(f.folder, "again"), &second);
    ck_assert_uint_eq(first.length, second.length);
    ck_assert_int_eq(memcmp(first.data, second.data, first.length), 0);
    ASSERT_OK(hash_file(file, &digest, &bytes, &f.error), &f.error);
    ck_assert(digest_equal(&digest, &again.file_digest));
    ck_assert_uint_eq(bytes, again.bytes);
    ck_assert_int_eq(again.number, 3);
    FileList names;
    ASSERT_OK(file_list(f.folder, &names, &f.error), &f.error);
    ck_assert_uint_eq(names.count, 3);   // home, release.tar, again
    file_list_done(&names);
}
END_TEST

START_TEST(what_is_not_there_or_not_whole_is_not_exported)
{
    const char *to = support_path(f.folder, "other.tar");
    char longer[FILE_PATH_SIZE];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    ExportResult result;
    ASSERT_FAILS(registry_export(f.registry, X, to, &result, &f.error), &f.error, ERROR_DATA, "no release");
    ASSERT_FAILS(registry_export(f.registry, "../x", to, &result, &f.error), &f.error, ERROR_USAGE,
                 "not the");
    ASSERT_FAILS(registry_export(f.registry, A, longer, &result, &f.error), &f.error, ERROR_USAGE, "longer");
    ASSERT_FAILS(registry_export(f.registry, A, support_path(f.folder, "no/where"), &result, &f.error),
                 &f.error, ERROR_IO, "could not create file");
    fixture_rot(&f, A);
    ASSERT_FAILS(registry_export(f.registry, A, to, &result, &f.error), &f.error, ERROR_DATA,
                 "differs from its digest");
    ck_assert(!file_exists(to));
    ASSERT_OK(file_remove_tree(fixture_path(&f, "releases/" A), &f.error), &f.error);
    fixture_publish(&f, A, RELEASE_MODEL, "other bytes");
    ASSERT_FAILS(registry_export(f.registry, A, to, &result, &f.error), &f.error, ERROR_DATA,
                 "is not the one that pointer record '2' made live");
    ck_assert_int_eq(unlink(fixture_path(&f, "releases/" A "/manifest.json")), 0);
    ASSERT_FAILS(registry_export(f.registry, A, to, &result, &f.error), &f.error, ERROR_DATA,
                 "manifest.json");
}
END_TEST

START_TEST(a_file_in_the_working_folder_is_written_too)
{
    ExportResult result;
    char before[FILE_PATH_SIZE];
    ck_assert_ptr_nonnull(getcwd(before, sizeof before));
    ck_assert_int_eq(chdir(f.folder), 0);
    ASSERT_OK(registry_export(f.registry, A, "plain.tar", &result, &f.error), &f.error);
    ck_assert(file_exists(support_path(f.folder, "plain.tar")));
    ck_assert_int_eq(chdir(before), 0);
}
END_TEST

START_TEST(an_imported_release_is_whole_pinned_and_not_live)
{
    ASSERT_OK(import(), &other.error);
    ck_assert(there(B));
    ck_assert(!imported.existed && !imported.was_live);
    ck_assert_str_eq(imported.version, B);
    ck_assert_str_eq(imported.home, registry_home_id(f.registry));
    ck_assert_int_eq(imported.number, 3);
    ck_assert(digest_equal(&imported.release_digest, &exported.release_digest));
    bool any, pinned;
    PointerRecord record;
    char reason[256];
    ASSERT_OK(registry_current(other.registry, &any, &record, &other.error), &other.error);
    ck_assert(!any);
    ASSERT_OK(registry_is_pinned(other.registry, B, &pinned, reason, &other.error), &other.error);
    ck_assert(pinned && strstr(reason, "imported: number 3 of home") != NULL);
    RecoverResult result;
    ASSERT_OK(registry_recover(other.registry, &result, &other.error), &other.error);
    ck_assert_str_eq(result.report, "");
    ASSERT_OK(import(), &other.error);   // once more: it is there
    ck_assert(imported.existed);
    // It was never live here: a rollback cannot name it, a promotion by a night can.
    fixture_live(&other, MOVE_ADOPT, BASELINE);
    ASSERT_FAILS(registry_rollback(other.registry, "", B, "why", &record, &other.error), &other.error,
                 ERROR_DATA, "was never live here");
    ASSERT_OK(fixture_try(&other, MOVE_PROMOTE, B, -1), &other.error);
    fixture_expect_live(&other, B, 2);
}
END_TEST

START_TEST(a_pruned_release_comes_back_and_can_be_gone_back_to)
{
    fixture_live(&f, MOVE_PROMOTE, C);
    fixture_live(&f, MOVE_PROMOTE, X);
    export(A);
    ck_assert_int_eq(exported.number, 2);
    PruneResult result;
    const PruneRequest request = {.keep = 2, .runs = -1};
    ASSERT_OK(registry_prune(f.registry, &request, &result, &f.error), &f.error);
    registry_prune_done(&result);
    ck_assert(!file_exists(fixture_path(&f, "releases/" A)));
    ASSERT_OK(registry_import(f.registry, "", file, &imported, &f.error), &f.error);
    ck_assert(imported.was_live);
    PointerRecord record;
    ASSERT_OK(registry_rollback(f.registry, "", A, "it was the better one", &record, &f.error), &f.error);
    fixture_expect_live(&f, A, 6);
    ck_assert(!file_exists(fixture_path(&f, "imports/x")));
}
END_TEST

START_TEST(a_pin_that_a_killed_import_left_is_no_hindrance)
{
    support_write(fixture_path(&other, "pins/" B ".json"), "{\"format\":1,\"reason\":\"cut\"}");
    ASSERT_OK(import(), &other.error);
    ck_assert(there(B));
    bool pinned;
    char reason[256];
    ASSERT_OK(registry_is_pinned(other.registry, B, &pinned, reason, &other.error), &other.error);
    ck_assert_str_eq(reason, "cut");
}
END_TEST

START_TEST(only_the_owner_imports)
{
    const char *stranger = getuid() == 0 ? "nobody" : "root";
    ASSERT_FAILS(registry_import(other.registry, stranger, file, &imported, &other.error), &other.error,
                 ERROR_DENIED, "import is for account");
    ck_assert(!there(B));
    OWNED(FileLock, file_lock_release) *lock =
        file_lock_try(fixture_path(&other, "import.lock"), "somebody", &other.error);
    ASSERT_OK(lock != NULL, &other.error);
    ASSERT_FAILS(import(), &other.error, ERROR_BUSY, "is held by somebody");
}
END_TEST

START_TEST(what_is_no_file_or_no_export_is_refused)
{
    ck_assert_int_eq(unlink(file), 0);
    expect_refused(ERROR_IO, "could not open file");
    ck_assert_int_eq(mkdir(file, 0700), 0);
    expect_refused(ERROR_DATA, "not a regular file");
    ck_assert_int_eq(rmdir(file), 0);
    ck_assert_int_eq(mkfifo(file, 0600), 0);
    expect_refused(ERROR_DATA, "not a regular file");
    ck_assert_int_eq(unlink(file), 0);
    support_write(file, "this is no export at all");
    expect_refused(ERROR_DATA, "archive is damaged");
}
END_TEST

START_TEST(an_older_export_offered_again_is_refused)
{
    char older[FILE_PATH_SIZE];
    ck_assert(text_copy(older, sizeof older, support_path(f.folder, "older.tar")));
    export(A);
    ck_assert_int_eq(rename(file, older), 0);
    export(B);
    ASSERT_OK(import(), &other.error);
    ck_assert_int_eq(rename(older, file), 0);
    expect_refused(ERROR_DATA, "number 2 is older than the floor 3");
    // A rollback there makes the same release newer than the one it left.
    PointerRecord record;
    ASSERT_OK(registry_rollback(f.registry, "", A, "B is bad", &record, &f.error), &f.error);
    export(A);
    ck_assert_int_eq(exported.number, 4);
    ASSERT_OK(import(), &other.error);
    export(B);   // still number 3
    ASSERT_OK(file_remove_tree(fixture_path(&other, "releases/" B), &other.error), &other.error);
    expect_refused(ERROR_DATA, "number 3 is older than the floor 4");
    // A floor that cannot be read lets nothing pass.
    char floor[128];
    snprintf(floor, sizeof floor, "imports/%s.json", registry_home_id(f.registry));
    support_write(fixture_path(&other, floor), "torn");
    expect_refused(ERROR_DATA, "is older than the floor");
}
END_TEST

START_TEST(a_release_that_was_never_live_is_number_zero)
{
    fixture_publish(&f, X, RELEASE_MODEL, NULL);
    export(X);
    ck_assert_int_eq(exported.number, 0);
    ASSERT_OK(import(), &other.error);
    fixture_publish(&f, C, RELEASE_MODEL, NULL);
    export(C);   // two of number 0 are no contradiction
    ASSERT_OK(import(), &other.error);
    export(B);
    ASSERT_OK(import(), &other.error);
    export(X);
    ASSERT_OK(file_remove_tree(fixture_path(&other, "releases/" X), &other.error), &other.error);
    expect_refused(ERROR_DATA, "number 0 is older than the floor 3");
    // In its own home too it comes back, as the candidate it was.
    ASSERT_OK(file_remove_tree(fixture_path(&f, "releases/" X), &f.error), &f.error);
    ASSERT_OK(registry_import(f.registry, "", file, &imported, &f.error), &f.error);
    ck_assert(!imported.was_live);
}
END_TEST

START_TEST(a_barred_version_is_refused)
{
    support_write(fixture_path(&other, "bars/" B ".json"), "{\"format\":1,\"reason\":\"outcomes\"}");
    expect_refused(ERROR_DATA, "is barred: outcomes");
}
END_TEST

START_TEST(another_model_or_other_bytes_are_refused)
{
    fixture_live(&other, MOVE_ADOPT, BASELINE);
    char name[] = "other-model";
    OWNED(ReleaseDraft, release_free) *draft = release_begin(fixture_path(&f, "releases"), "run", &f.error);
    Digest digest;
    bool existed;
    support_write(support_path(release_path(draft), "model.json"), "x");
    ASSERT_OK(release_seal(draft, X, name, RELEASE_MODEL, &digest, &f.error), &f.error);
    ASSERT_OK(release_publish(draft, fixture_path(&f, "releases"), &existed, &f.error), &f.error);
    export(X);
    expect_refused(ERROR_DATA, "of model 'other-model', this home serves 'model'");
    // The same version with other bytes lies here already, live or not.
    export(B);
    fixture_publish(&other, B, RELEASE_MODEL, "other bytes");
    expect_refused(ERROR_CONFLICT, "is here already, with other bytes");
    fixture_rot(&other, B);
    expect_refused(ERROR_CONFLICT, "is here already, release");
    ASSERT_OK(file_remove_tree(fixture_path(&other, "releases/" B), &other.error), &other.error);
    fixture_publish(&other, B, RELEASE_MODEL, "other bytes");
    ASSERT_OK(fixture_try(&other, MOVE_PROMOTE, B, -1), &other.error);
    ASSERT_OK(file_remove_tree(fixture_path(&other, "releases/" B), &other.error), &other.error);
    expect_refused(ERROR_DATA, "not the release that pointer record '2' made live");
    // What is live cannot be read: there is no model to compare with, and the mending release comes in.
    export(A);
    ASSERT_OK(import(), &other.error);
    ck_assert(there(A));
}
END_TEST

// -- statements that say something else

static const struct StatementRow {
    const char *from, *to, *words;
} statement_rows[] = {
    {"{\"format\":1", "{\"format\":2", "format is 2"},
    {"{\"format\":1", "{\"format\":\"1\"", "format"},
    {"\"format\":1,", "", "statement"},
    {"\"format\":1,", "\"format\":1,\"note\":2,", "not in canonical form"},
    {"\"number\":3", "\"number\":-3", "number -3 is below 0"},
    {"\"number\":3", "\"number\":\"3\"", "number"},
    {"\"number\":3,", "", "number"},
    {"\"model\":\"model\"", "\"model\":\"mo/del\"", "model 'mo/del' is not a name"},
    {"\"model\":\"model\",", "", "model"},
    {"\"version\":\"" B "\"", "\"version\":\"../x\"", "not the name of a version"},
    {"\"version\":\"" B "\"", "\"version\":\"" A "\"", "is about another release"},
    {"\"kind\":\"release\"", "\"kind\":\"baseline\"", "is about another release"},
    {"\"kind\":\"release\"", "\"kind\":\"other\"", "kind 'other' is unknown"},
    {"\"home\":\"", "\"home\":\"../", "is not the id of a home"},
    {"\"home\":\"", "\"home\":\"x", "is not the id of a home"},
    {"\"release_digest\":\"", "\"release_digest\":\"0", "not a SHA-256 digest"},
    {"\"record_digest\":\"", "\"record_digest\":\"0", "not a SHA-256 digest"},
    {"\"record_digest\"", "\"other_digest\"", "record_digest"},
    {"}\n", "}", "not in canonical form"},
    {"{", "[", "statement"},
};

START_TEST(a_statement_that_is_not_ours_is_refused)
{
    Pack pack;
    pack_load(&pack, file);
    pack_edit(&pack, 0, statement_rows[_i].from, statement_rows[_i].to);
    pack_save(&pack, file);
    pack_done(&pack);
    expect_refused(ERROR_DATA, statement_rows[_i].words);
}
END_TEST

static const struct OwnRow {
    const char *version, *from, *to;
} own_rows[] = {
    {B, "\"number\":3", "\"number\":2"},   // another release's record
    {B, "\"number\":3", "\"number\":9"},   // a record that is not there
    {B, "\"number\":3", "\"number\":0"},   // it was live
    {B, "\"record_digest\":\"", "\"record_digest\":\"0000"},
};

// The home it comes from knows better than any floor.
START_TEST(a_statement_that_this_homes_own_record_denies_is_refused)
{
    const struct OwnRow *row = &own_rows[_i];
    char digest[DIGEST_HEX_SIZE];
    Pack pack;
    pack_load(&pack, file);
    if (_i == 3) {
        char *at = strstr(pack.members[0].bytes.data, row->from);
        ck_assert_ptr_nonnull(at);
        memset(digest, '0', sizeof digest);
        memcpy(at + strlen(row->from), digest, 64);
    } else {
        pack_edit(&pack, 0, row->from, row->to);
    }
    pack_save(&pack, file);
    pack_done(&pack);
    ASSERT_OK(file_remove_tree(fixture_path(&f, "releases/" B), &f.error), &f.error);
    ASSERT_FAILS(registry_import(f.registry, "", file, &imported, &f.error), &f.error, ERROR_DATA,
                 "of this home, which says otherwise");
    ck_assert(!file_exists(fixture_path(&f, "releases/" B)));
}
END_TEST

START_TEST(two_releases_of_one_number_contradict_each_other)
{
    ASSERT_OK(import(), &other.error);
    export(A);
    Pack pack;
    pack_load(&pack, file);
    pack_edit(&pack, 0, "\"number\":2", "\"number\":3");
    pack_save(&pack, file);
    pack_done(&pack);
    expect_refused(ERROR_DATA, "another release of number 3");
}
END_TEST

START_TEST(what_a_killed_import_left_goes_and_a_running_one_stays)
{
    RecoverResult result;
    ck_assert_int_eq(mkdir(fixture_path(&other, "releases/.import-abc"), 0700), 0);
    support_write(fixture_path(&other, "releases/.import-abc/model.json"), "left");
    FileLock *lock = file_lock_try(fixture_path(&other, "import.lock"), "an import", &other.error);
    ASSERT_OK(lock != NULL, &other.error);
    ASSERT_OK(registry_recover(other.registry, &result, &other.error), &other.error);
    ck_assert_str_eq(result.report, "");
    ck_assert(file_exists(fixture_path(&other, "releases/.import-abc")));
    file_lock_release(lock);
    ASSERT_OK(registry_recover(other.registry, &result, &other.error), &other.error);
    ck_assert_str_eq(result.report, "removed leftover 'releases/.import-abc'");
    ck_assert_int_eq(mkdir(fixture_path(&other, "releases/.import-abc"), 0700), 0);
    ASSERT_OK(import(), &other.error);   // the next import takes it away as well
    ck_assert(!file_exists(fixture_path(&other, "releases/.import-abc")));
    ck_assert_int_eq(mkdir(fixture_path(&other, "releases/.import-abc"), 0700), 0);
    ck_assert_int_eq(unlink(fixture_path(&other, "import.lock")), 0);
    ck_assert_int_eq(mkdir(fixture_path(&other, "import.lock"), 0700), 0);
    ck_assert(!registry_recover(other.registry, &result, &other.error));
    error_clear(&other.error);
}
END_TEST

// -- an owner with an account of its own

static int import_as_nobody(Fixture *own, int number)
{
    (void)number;
    struct stat status;
    if (stat(own->home, &status) != 0 || setgroups(0, NULL) != 0 || setgid(status.st_gid) != 0 ||
        setuid(65534) != 0)
        return 98;
    umask(077);
    if (rename(support_path(own->home, "releases/" A), support_path(own->home, "releases/moved")) == 0)
        return 97;   // sticky: what the nightly account made stays
    return registry_import(own->registry, "", file, &imported, &own->error) ? 0 : 1;
}

START_TEST(the_owners_account_imports_and_the_nightly_account_prunes_it)
{
    if (getuid() != 0) {
        puts("skipped: becoming another account needs root");
        return;
    }
    Fixture g = {.folder = support_folder_new(), .clock = f.clock, .error = ERROR_INIT};
    ck_assert_int_eq(chmod(g.folder, 0755), 0);
    ck_assert_int_eq(chmod(f.folder, 0755), 0);
    ck_assert_int_eq(chmod(file, 0644), 0);
    ASSERT_OK(file_join(g.home, g.folder, "home", &g.error), &g.error);
    ASSERT_OK(registry_create(g.home, "nobody", g.clock, &g.error), &g.error);
    g.registry = registry_open(g.home, g.clock, &g.error);
    ASSERT_OK(g.registry != NULL, &g.error);
    fixture_live(&g, MOVE_ADOPT, BASELINE);
    fixture_publish(&g, A, RELEASE_MODEL, NULL);
    ck_assert_int_eq(fixture_wait(fixture_fork(&g, import_as_nobody, 0)), 0);
    struct stat status;
    ck_assert_int_eq(stat(support_path(g.home, "releases/" B), &status), 0);
    ck_assert_int_eq(status.st_uid, 65534);
    ck_assert_int_eq(status.st_mode & 07777, 02770);
    PruneResult result;
    const PruneRequest request = {.keep = 2, .runs = -1};
    ASSERT_OK(registry_prune(g.registry, &request, &result, &g.error), &g.error);
    registry_prune_done(&result);
    ck_assert(file_exists(support_path(g.home, "releases/" B)));   // pinned
    ck_assert(!file_exists(support_path(g.home, "releases/" A)));
    registry_close(g.registry);
    support_folder_remove(g.folder);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("registry_import");
    TCase *t = tcase_create("import");
    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_add_test(t, an_export_is_the_same_bytes_each_time_and_never_over_another_file);
    tcase_add_test(t, what_is_not_there_or_not_whole_is_not_exported);
    tcase_add_test(t, a_file_in_the_working_folder_is_written_too);
    tcase_add_test(t, an_imported_release_is_whole_pinned_and_not_live);
    tcase_add_test(t, a_pruned_release_comes_back_and_can_be_gone_back_to);
    tcase_add_test(t, a_pin_that_a_killed_import_left_is_no_hindrance);
    tcase_add_test(t, only_the_owner_imports);
    tcase_add_test(t, what_is_no_file_or_no_export_is_refused);
    tcase_add_test(t, an_older_export_offered_again_is_refused);
    tcase_add_test(t, a_release_that_was_never_live_is_number_zero);
    tcase_add_test(t, a_barred_version_is_refused);
    tcase_add_test(t, another_model_or_other_bytes_are_refused);
    tcase_add_loop_test(t, a_statement_that_is_not_ours_is_refused, 0,
                        (int)(sizeof statement_rows / sizeof statement_rows[0]));
    tcase_add_loop_test(t, a_statement_that_this_homes_own_record_denies_is_refused, 0,
                        (int)(sizeof own_rows / sizeof own_rows[0]));
    tcase_add_test(t, two_releases_of_one_number_contradict_each_other);
    tcase_add_test(t, what_a_killed_import_left_goes_and_a_running_one_stays);
    tcase_add_test(t, the_owners_account_imports_and_the_nightly_account_prunes_it);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int bad = srunner_ntests_failed(r);
    srunner_free(r);
    return bad != 0;
}
