// bundle_test - a release is published whole or not at all, and nothing but what was sealed verifies.
#include "support.h"

#include <fedgate/bundle.h>
#include <fedgate/file.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define VERSION "adult-0123456789abcdef"

static char *folder;
static Error error;

static void set_up(void)
{
    folder = support_folder_new();
    error = ERROR_INIT;
    ck_assert_int_eq(mkdir(support_path(folder, "releases"), 0750), 0);
    ck_assert_int_eq(mkdir(support_path(folder, "failed"), 0750), 0);
}

static void tear_down(void)
{
    support_folder_remove(folder);
}

static const char *in(const char *name)
{
    return support_path(folder, name);
}

static ReleaseDraft *seal(const char *run, const char *weights, Digest *ret_digest)
{
    ReleaseDraft *draft = release_begin(in("releases"), run, &error);
    ASSERT_OK(draft != NULL, &error);
    support_write(support_path(release_path(draft), "model.safetensors"), weights);
    support_write(support_path(release_path(draft), "maps.json"), "{}");
    support_write(support_path(release_path(draft), "card.json"), "");   // an empty file is a file too
    ASSERT_OK(release_seal(draft, VERSION, "adult", RELEASE_MODEL, ret_digest, &error), &error);
    return draft;
}

static Digest publish(const char *run, const char *weights)
{
    Digest digest;
    bool existed;
    OWNED(ReleaseDraft, release_free) *draft = seal(run, weights, &digest);
    ASSERT_OK(release_publish(draft, in("releases"), &existed, &error), &error);
    ck_assert(!existed);
    return digest;
}

START_TEST(a_published_release_verifies_and_says_what_it_is)
{
    Digest digest = publish("run-1", "weights");
    ReleaseCheck check;
    ASSERT_OK(release_verify(in("releases/" VERSION), &check, &error), &error);
    ck_assert(check.manifest_read && check.files_complete && check.digests_match);
    ck_assert_int_eq(check.kind, RELEASE_MODEL);
    ck_assert_str_eq(check.version, VERSION);
    ck_assert_uint_eq(check.files, 3);
    ck_assert_uint_eq(check.bytes, 9);
    ck_assert_str_eq(check.problem, "");
    ck_assert(digest_equal(&check.digest, &digest));

    OWNED(Json, json_free) *manifest = NULL;
    Digest again;
    ASSERT_OK(release_read_manifest(in("releases/" VERSION), &manifest, &again, &error), &error);
    ck_assert(digest_equal(&again, &digest));
    ck_assert_str_eq(json_text_or(json_get(manifest, "kind"), ""), "release");
    ck_assert_str_eq(json_text_or(json_get(json_at(json_get(manifest, "files"), 0), "name"), ""),
                     "card.json");
    FileList names;
    ASSERT_OK(file_list(in("releases"), &names, &error), &error);
    ck_assert_uint_eq(names.count, 1);   // no draft is left
    file_list_done(&names);
}
END_TEST

START_TEST(two_runs_of_one_version_seal_the_same_bytes)
{
    Digest one, two;
    OWNED(ReleaseDraft, release_free) *first = seal("run-1", "weights", &one);
    OWNED(ReleaseDraft, release_free) *second = seal("run-2", "weights", &two);
    ck_assert(digest_equal(&one, &two));
    bool existed;
    ASSERT_OK(release_publish(first, in("releases"), &existed, &error), &error);
    ck_assert(!existed);
    ASSERT_OK(release_publish(second, in("releases"), &existed, &error), &error);
    ck_assert(existed);
}
END_TEST

START_TEST(the_same_version_with_other_bytes_is_a_conflict_that_names_the_file)
{
    publish("run-1", "weights");
    Digest digest;
    bool existed;
    OWNED(ReleaseDraft, release_free) *draft = seal("run-2", "weightz", &digest);
    ASSERT_FAILS(release_publish(draft, in("releases"), &existed, &error), &error, ERROR_CONFLICT,
                 "first difference in file 'model.safetensors'");
    ck_assert(file_exists(release_path(draft)));
}
END_TEST

START_TEST(a_damaged_release_under_the_same_name_is_not_taken_for_done)
{
    publish("run-1", "weights");
    support_write(in("releases/" VERSION "/maps.json"), "[]");
    Digest digest;
    bool existed;
    OWNED(ReleaseDraft, release_free) *draft = seal("run-2", "weights", &digest);
    ASSERT_FAILS(release_publish(draft, in("releases"), &existed, &error), &error, ERROR_DATA,
                 "already published and damaged");
    ck_assert_int_eq(unlink(in("releases/" VERSION "/manifest.json")), 0);
    ASSERT_FAILS(release_publish(draft, in("releases"), &existed, &error), &error, ERROR_DATA,
                 "already published and damaged");
}
END_TEST

START_TEST(a_draft_touched_after_its_seal_is_not_published)
{
    Digest digest;
    bool existed;
    OWNED(ReleaseDraft, release_free) *draft = seal("run-1", "weights", &digest);
    support_write(support_path(release_path(draft), "model.safetensors"), "weights!");
    ASSERT_FAILS(release_publish(draft, in("releases"), &existed, &error), &error, ERROR_DATA, "has 8 bytes");
    ck_assert(!file_exists(in("releases/" VERSION)));
}
END_TEST

START_TEST(a_draft_whose_manifest_was_replaced_is_not_published)
{
    Digest digest, other;
    bool existed;
    OWNED(ReleaseDraft, release_free) *draft = seal("run-1", "weights", &digest);
    OWNED(ReleaseDraft, release_free) *second = seal("run-2", "weightz", &other);
    ck_assert_int_eq(rename(support_path(release_path(second), "manifest.json"),
                            support_path(release_path(draft), "manifest.json")),
                     0);
    ck_assert_int_eq(rename(support_path(release_path(second), "model.safetensors"),
                            support_path(release_path(draft), "model.safetensors")),
                     0);
    ASSERT_FAILS(release_publish(draft, in("releases"), &existed, &error), &error, ERROR_DATA,
                 "manifest changed after sealing");
}
END_TEST

START_TEST(a_refused_draft_moves_to_failed_and_a_dropped_one_leaves_nothing)
{
    Digest digest;
    OWNED(ReleaseDraft, release_free) *draft = seal("run-1", "weights", &digest);
    ASSERT_OK(release_move_failed(draft, in("failed"), &error), &error);
    ReleaseCheck check;
    ASSERT_OK(release_verify(in("failed/run-1"), &check, &error), &error);
    release_free(seal("run-2", "weights", &digest));
    ck_assert(!file_exists(in("releases/.tmp-run-2")));
    OWNED(ReleaseDraft, release_free) *again = seal("run-1", "weights", &digest);
    ASSERT_FAILS(release_move_failed(again, in("failed"), &error), &error, ERROR_CONFLICT, "failed/run-1");
}
END_TEST

START_TEST(a_draft_left_by_a_killed_attempt_of_the_run_is_begun_afresh)
{
    ck_assert_int_eq(mkdir(in("releases/.tmp-run-1"), 0700), 0);
    support_write(in("releases/.tmp-run-1/old.json"), "old");
    publish("run-1", "weights");
    ck_assert(!file_exists(in("releases/" VERSION "/old.json")));
}
END_TEST

START_TEST(names_that_do_not_belong_into_paths_are_refused)
{
    Digest digest;
    ck_assert(release_begin(in("releases"), "../x", &error) == NULL);
    ck_assert_int_eq(error.kind, ERROR_USAGE);
    error_clear(&error);
    ck_assert(release_begin(in("nowhere"), "run-1", &error) == NULL);
    ck_assert_int_eq(error.kind, ERROR_IO);
    error_clear(&error);
    OWNED(ReleaseDraft, release_free) *draft = release_begin(in("releases"), "run-1", &error);
    ASSERT_OK(draft != NULL, &error);
    ASSERT_FAILS(release_seal(draft, VERSION, "adult", RELEASE_MODEL, &digest, &error), &error, ERROR_USAGE,
                 "has no files");
    ASSERT_FAILS(release_seal(draft, "..", "adult", RELEASE_MODEL, &digest, &error), &error, ERROR_USAGE,
                 "not the name of a version");
    ASSERT_FAILS(release_seal(draft, VERSION, "a/b", RELEASE_MODEL, &digest, &error), &error, ERROR_USAGE,
                 "not a name");
    support_write(support_path(release_path(draft), "Model.BIN"), "x");
    ASSERT_FAILS(release_seal(draft, VERSION, "adult", RELEASE_MODEL, &digest, &error), &error, ERROR_USAGE,
                 "'Model.BIN'");
    static const char *const versions[] = {"", "-rf", "a/b", "..", "a..b", "A", "a\nb", NULL};
    for (size_t i = 0; versions[i]; i++)
        ck_assert_msg(!release_is_version(versions[i]), "'%s' passed", versions[i]);
    ck_assert(!release_is_version(NULL));
    ck_assert(release_is_version(VERSION));
    ck_assert(release_is_version("baseline-prior"));
}
END_TEST

START_TEST(what_is_not_a_plain_file_cannot_be_sealed)
{
    Digest digest;
    OWNED(ReleaseDraft, release_free) *draft = release_begin(in("releases"), "run-1", &error);
    ASSERT_OK(draft != NULL, &error);
    ck_assert_int_eq(symlink("/etc/passwd", support_path(release_path(draft), "model.json")), 0);
    ASSERT_FAILS(release_seal(draft, VERSION, "adult", RELEASE_MODEL, &digest, &error), &error, ERROR_DATA,
                 "not a plain file");
}
END_TEST

START_TEST(a_release_has_at_most_sixty_four_files)
{
    Digest digest;
    OWNED(ReleaseDraft, release_free) *draft = release_begin(in("releases"), "run-1", &error);
    ASSERT_OK(draft != NULL, &error);
    for (int i = 0; i < 65; i++) {
        char name[32];
        snprintf(name, sizeof name, "file-%d.json", i);
        FILE *file = fopen(support_path(release_path(draft), name), "w");
        ck_assert_ptr_nonnull(file);
        fclose(file);
    }
    ASSERT_FAILS(release_seal(draft, VERSION, "adult", RELEASE_MODEL, &digest, &error), &error, ERROR_USAGE,
                 "more than 64 files");
}
END_TEST

// -- every way to spoil a published release

static void spoil_byte(void)
{
    support_write(in("releases/" VERSION "/maps.json"), "[]");
}
static void spoil_extra_byte(void)
{
    support_write(in("releases/" VERSION "/maps.json"), "{} ");
}
static void spoil_cut(void)
{
    ck_assert_int_eq(truncate(in("releases/" VERSION "/maps.json"), 1), 0);
}
static void spoil_huge(void)
{
    ck_assert_int_eq(truncate(in("releases/" VERSION "/maps.json"), (off_t)1 << 40), 0);
}
static void spoil_missing(void)
{
    ck_assert_int_eq(unlink(in("releases/" VERSION "/maps.json")), 0);
}
static void spoil_extra(void)
{
    support_write(in("releases/" VERSION "/readme"), "");
}
static void spoil_odd_name(void)
{
    support_write(in("releases/" VERSION "/a\033[2Jb"), "");
}
static void spoil_folder(void)
{
    ck_assert_int_eq(mkdir(in("releases/" VERSION "/more"), 0755), 0);
}
static void spoil_link(void)
{
    ck_assert_int_eq(rename(in("releases/" VERSION "/maps.json"), in("maps.json")), 0);
    ck_assert_int_eq(symlink("../../maps.json", in("releases/" VERSION "/maps.json")), 0);
}
static void spoil_fifo(void)
{
    spoil_missing();
    ck_assert_int_eq(mkfifo(in("releases/" VERSION "/maps.json"), 0600), 0);
}
static void spoil_file_by_folder(void)
{
    spoil_missing();
    ck_assert_int_eq(mkdir(in("releases/" VERSION "/maps.json"), 0700), 0);
}
static void spoil_release_by_link(void)
{
    ck_assert_int_eq(rename(in("releases/" VERSION), in("elsewhere")), 0);
    ck_assert_int_eq(symlink("../elsewhere", in("releases/" VERSION)), 0);
}
static void spoil_release_by_file(void)
{
    spoil_release_by_link();
    ck_assert_int_eq(unlink(in("releases/" VERSION)), 0);
    support_write(in("releases/" VERSION), "");
}
static void spoil_release_gone(void)
{
    spoil_release_by_link();
    ck_assert_int_eq(unlink(in("releases/" VERSION)), 0);
}
static void manifest(const char *text)
{
    support_write(in("releases/" VERSION "/manifest.json"), text);
}
static void spoil_no_manifest(void)
{
    ck_assert_int_eq(unlink(in("releases/" VERSION "/manifest.json")), 0);
}
static void spoil_manifest_link(void)
{
    spoil_no_manifest();
    ck_assert_int_eq(symlink("/dev/zero", in("releases/" VERSION "/manifest.json")), 0);
}
static void spoil_manifest_empty(void)
{
    manifest("");
}
static void spoil_manifest_huge(void)
{
    ck_assert_int_eq(truncate(in("releases/" VERSION "/manifest.json"), 1 << 20), 0);
}
static void spoil_manifest_format(void)
{
    manifest("{\"format\":2}");
}
static void spoil_manifest_list(void)
{
    manifest("[]");
}

// clang-format off
#define HEAD \
    "{\"format\":1,\"version\":\"" VERSION "\",\"kind\":\"release\",\"model\":\"adult\",\"files\":["
#define ROW(name, size) "{\"name\":\"" name "\",\"size\":" size ",\"sha256\":\"" HEX "\"}"
#define HEX "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
// clang-format on
static void spoil_manifest_compact(void)
{
    manifest(HEAD ROW("card.json", "0") "]}");
}
static void spoil_manifest_no_files(void)
{
    manifest(HEAD "]}");
}
static void spoil_manifest_twice(void)
{
    manifest(HEAD ROW("card.json", "0") "," ROW("card.json", "0") "]}");
}
static void spoil_manifest_escape(void)
{
    manifest(HEAD ROW("../card.json", "0") "]}");
}
static void spoil_manifest_self(void)
{
    manifest(HEAD ROW("manifest.json", "0") "]}");
}
static void spoil_manifest_negative(void)
{
    manifest(HEAD ROW("card.json", "-1") "]}");
}
static void spoil_manifest_digest(void)
{
    manifest(HEAD "{\"name\":\"card.json\",\"size\":0,\"sha256\":\"e3\"}]}");
}
static void spoil_manifest_size_text(void)
{
    manifest(HEAD ROW("card.json", "\"0\"") "]}");
}
static void spoil_manifest_kind(void)
{
    manifest("{\"format\":1,\"version\":\"" VERSION
             "\",\"kind\":\"other\",\"model\":\"adult\",\"files\":[]}");
}
static void spoil_manifest_version(void)
{
    manifest("{\"format\":1,\"version\":\"../x\",\"kind\":\"release\",\"model\":\"adult\",\"files\":[]}");
}
static void spoil_manifest_model(void)
{
    manifest("{\"format\":1,\"version\":\"" VERSION "\",\"kind\":\"release\",\"model\":\"\",\"files\":[]}");
}

static const struct Spoiling {
    const char *what;
    void (*spoil)(void);
    const char *problem;
} spoilings[] = {
    {"a changed byte", spoil_byte, "file 'maps.json' differs from its digest"},
    {"an extra byte", spoil_extra_byte, "file 'maps.json' has 3 bytes, the manifest says 2"},
    {"a cut file", spoil_cut, "file 'maps.json' has 1 bytes"},
    {"a file blown up to a terabyte", spoil_huge, "has 1099511627776 bytes"},
    {"a missing file", spoil_missing, "file 'maps.json' is missing"},
    {"an extra file", spoil_extra, "file 'readme' is not in the manifest"},
    {"an extra file with escape codes in its name", spoil_odd_name,
     "file 'a\\x1b[2Jb' is not in the manifest"},
    {"a folder", spoil_folder, "file 'more' is not in the manifest"},
    {"a link in place of a file", spoil_link, "file 'maps.json' is not a plain file"},
    {"a fifo in place of a file", spoil_fifo, "file 'maps.json' is not a plain file"},
    {"a folder in place of a file", spoil_file_by_folder, "file 'maps.json' is not a plain file"},
    {"a link in place of the release", spoil_release_by_link, "not a directory"},
    {"a file in place of the release", spoil_release_by_file, "not a directory"},
    {"no release", spoil_release_gone, "directory is missing"},
    {"no manifest", spoil_no_manifest, "file 'manifest.json' is missing"},
    {"a link in place of the manifest", spoil_manifest_link, "file 'manifest.json' is not a plain file"},
    {"an empty manifest", spoil_manifest_empty, "manifest"},
    {"a manifest over the limit", spoil_manifest_huge, "1048576 bytes long, the limit is 65536"},
    {"a manifest of another format", spoil_manifest_format, "format is 2, this program reads 1"},
    {"a manifest that is no object", spoil_manifest_list, "manifest"},
    {"a manifest in another form", spoil_manifest_compact, "not in canonical form"},
    {"a manifest without files", spoil_manifest_no_files, "0 files are listed"},
    {"a manifest with a file twice", spoil_manifest_twice, "file 'card.json' is listed twice"},
    {"a manifest with a path", spoil_manifest_escape, "'../card.json' is not allowed"},
    {"a manifest listing itself", spoil_manifest_self, "'manifest.json' is not allowed"},
    {"a manifest with a negative size", spoil_manifest_negative, "listed with -1 bytes"},
    {"a manifest with a short digest", spoil_manifest_digest, "without a SHA-256 digest"},
    {"a manifest with a size in quotes", spoil_manifest_size_text, "size"},
    {"a manifest of an unknown kind", spoil_manifest_kind, "kind 'other'"},
    {"a manifest with a path as version", spoil_manifest_version, "version '../x'"},
    {"a manifest without a model", spoil_manifest_model, "model ''"},
};

START_TEST(a_spoiled_release_is_refused_and_the_problem_is_named)
{
    const struct Spoiling *row = &spoilings[_i];
    publish("run-1", "weights");
    row->spoil();
    ReleaseCheck check;
    ck_assert_msg(!release_verify(in("releases/" VERSION), &check, &error), "%s passed", row->what);
    ck_assert_msg(error.kind == ERROR_DATA, "%s: %s", row->what, error.message);
    ck_assert_msg(strstr(check.problem, row->problem) != NULL, "%s: '%s'", row->what, check.problem);
    ck_assert_msg(strstr(error.message, VERSION) != NULL, "%s: '%s'", row->what, error.message);
    ck_assert(!check.digests_match);
}
END_TEST

#ifdef FEDGATE_FAULTS
// In a program of its own, since fault points count the calls of a process: 0 published, 1 refused, 2 result
// and error disagree.
static int publish_here(const char *releases)
{
    Digest digest;
    bool existed;
    OWNED(ReleaseDraft, release_free) *draft = release_begin(releases, "run-1", &error);
    char path[FILE_PATH_SIZE];
    bool done = draft && file_join(path, release_path(draft), "maps.json", &error) &&
                file_write_new(path, "{}", 2, 0640, &error) &&
                release_seal(draft, VERSION, "adult", RELEASE_MODEL, &digest, &error) &&
                release_publish(draft, releases, &existed, &error);
    return done != (error.kind == ERROR_NONE) ? 2 : !done;
}

// Fails the Nth call of a point until none fires: publishing is then done, before that nothing is under the
// name.
START_TEST(a_failing_file_system_leaves_no_release_under_the_name)
{
    static const char *const points[] = {"file.sync", "file.rename", "file.write", "file.open"};
    for (int n = 1; n < 100; n++) {
        char list[64];
        snprintf(list, sizeof list, "%s.fail=%d", points[_i], n);
        pid_t child = fork();
        if (child == 0) {
            setenv("FEDGATE_FAULT", list, 1);
            execl("/proc/self/exe", "bundle_test", "--publish", in("releases"), (char *)NULL);
            _exit(98);
        }
        int status;
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert(WIFEXITED(status) && WEXITSTATUS(status) <= 1);
        if (WEXITSTATUS(status) == 0) {
            ck_assert_int_gt(n, 1);
            return;
        }
        ck_assert(!file_exists(in("releases/.tmp-run-1")));
        if (file_exists(in("releases/" VERSION))) {   // the rename was done, syncing its parent failed:
                                                      // whole, not trusted
            ReleaseCheck check;
            ASSERT_OK(release_verify(in("releases/" VERSION), &check, &error), &error);
            ASSERT_OK(file_remove_tree(in("releases/" VERSION), &error), &error);
        }
    }
    ck_abort_msg("the faults never ended");
}
END_TEST

START_TEST(the_planted_extra_byte_is_found_before_publishing)
{
    Digest digest;
    bool existed;
    setenv("FEDGATE_FAULT", "release.extra_byte=1", 1);
    OWNED(ReleaseDraft, release_free) *draft = seal("run-1", "weights", &digest);
    unsetenv("FEDGATE_FAULT");
    ASSERT_FAILS(release_publish(draft, in("releases"), &existed, &error), &error, ERROR_DATA,
                 "file 'card.json' has 1 bytes, the manifest says 0");
}
END_TEST
#endif

static Suite *suite(void)
{
    Suite *s = suite_create("bundle");
    TCase *life = tcase_create("life");
    tcase_add_checked_fixture(life, set_up, tear_down);
    tcase_add_test(life, a_published_release_verifies_and_says_what_it_is);
    tcase_add_test(life, two_runs_of_one_version_seal_the_same_bytes);
    tcase_add_test(life, the_same_version_with_other_bytes_is_a_conflict_that_names_the_file);
    tcase_add_test(life, a_damaged_release_under_the_same_name_is_not_taken_for_done);
    tcase_add_test(life, a_draft_touched_after_its_seal_is_not_published);
    tcase_add_test(life, a_draft_whose_manifest_was_replaced_is_not_published);
    tcase_add_test(life, a_refused_draft_moves_to_failed_and_a_dropped_one_leaves_nothing);
    tcase_add_test(life, a_draft_left_by_a_killed_attempt_of_the_run_is_begun_afresh);
    tcase_add_test(life, names_that_do_not_belong_into_paths_are_refused);
    tcase_add_test(life, what_is_not_a_plain_file_cannot_be_sealed);
    tcase_add_test(life, a_release_has_at_most_sixty_four_files);
    tcase_add_loop_test(life, a_spoiled_release_is_refused_and_the_problem_is_named, 0,
                        (int)(sizeof spoilings / sizeof spoilings[0]));
#ifdef FEDGATE_FAULTS
    tcase_add_test(life, the_planted_extra_byte_is_found_before_publishing);
    tcase_add_loop_test(life, a_failing_file_system_leaves_no_release_under_the_name, 0, 4);
#endif
    suite_add_tcase(s, life);
    return s;
}

int main(int count, char **arguments)
{
#ifdef FEDGATE_FAULTS
    if (count == 3 && text_equal(arguments[1], "--publish")) {
        error = ERROR_INIT;
        return publish_here(arguments[2]);
    }
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
