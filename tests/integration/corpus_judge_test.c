// corpus_judge_test - `fedgate judge` on many stored nights: a home, run directories, files; beside the
// verdicts they have, with the same policy and with another.
#include <sys/stat.h>

#include "corpus_evidence.h"

#define NIGHT "learnable-fp32-2"

static GoodNight nights[GOOD_MOST];
static char *folder;
static char home[FILE_PATH_SIZE], config[FILE_PATH_SIZE], policy_file[FILE_PATH_SIZE];

static const char *run_path(const char *run, const char *name)
{
    static char paths[4][FILE_PATH_SIZE];
    static size_t next;
    char *path = paths[next++ % 4];
    ck_assert(text_print(path, FILE_PATH_SIZE, "%s/runs/%s%s%s", home, run, name[0] ? "/" : "", name));
    return path;
}

static void write_json(const Json *json, const char *path)
{
    Error error = ERROR_INIT;
    ASSERT_OK(json_write_file(json, JSON_INDENTED, path, &error), &error);
}

// A run with the verdict its judgement makes, but for `late`: what it said after the judgement, NULL nothing.
static void write_run(const char *run, const char *outcome, const char *decided_by, const char *late)
{
    Error error = ERROR_INIT;
    const GoodNight *night = good_find(nights, good_list(nights), NIGHT);
    ck_assert_int_eq(mkdir(run_path(run, ""), 0755), 0);
    OWNED(Json, json_free) *evidence = good_read(NIGHT);
    OWNED(Config, config_free) *policy = good_policy(night, NULL, NULL, &error);
    OWNED(Json, json_free) *judgement = gate_judge(evidence, policy, JUDGE_EARLY);
    OWNED(Json, json_free) *verdict = json_make_object();
    json_put_text(verdict, "schema", "fedgate.verdict/1");
    json_put_text(verdict, "outcome", outcome);
    json_put_text(verdict, "decided_by", decided_by);
    json_put_text(verdict, "reason", late ? late : "every required check passes");
    json_put(verdict, "checks", json_copy_deep(json_get(judgement, "checks")));
    json_put(verdict, "policy_digest", json_copy_deep(json_get(judgement, "policy_digest")));
    if (late != NULL) {
        Json *check = json_make_object();
        json_put_text(check, "name", "telemetry");
        json_put_bool(check, "required", true);
        json_put_text(check, "outcome", "not_measured");
        json_add((Json *)(uintptr_t)json_get(verdict, "checks"), check);
    }
    write_json(evidence, run_path(run, "evidence.json"));
    write_json(verdict, run_path(run, "verdict.json"));
}

static void make_home(void)
{
    folder = support_folder_new();
    ck_assert(text_print(home, sizeof home, "%s/home", folder));
    ck_assert_int_eq(mkdir(home, 0755), 0);
    ck_assert_int_eq(mkdir(support_path(home, "runs"), 0755), 0);
    const GoodNight *night = good_find(nights, good_list(nights), NIGHT);
    ck_assert_msg(night != NULL, "there is no night '%s'", NIGHT);
    ck_assert(text_print(config, sizeof config, "%s/%s.yaml", CONFIGS_FOLDER, night->config));
    ck_assert(text_print(policy_file, sizeof policy_file, "%s/policy.yaml", folder));
    support_write(policy_file, "overlap:\n  floor: 0.9\nquality:\n  margin: 0.9\n");
    write_run("01-promoted", "promoted", NULL, NULL);
    write_run("02-held", "refused", NULL, NULL);
    write_run("03-no-database", "inconclusive", "telemetry", "telemetry: 0 of 97 rows acknowledged");
    ck_assert_int_eq(mkdir(run_path("04-failed", ""), 0755), 0);
}

static void remove_home(void)
{
    support_folder_remove(folder);
}

static Json *list_of(SupportRun *run)
{
    Error error = ERROR_INIT;
    Json *list = json_parse(text_string(&run->output), run->output.length, EVIDENCE_MAX_BYTES, &error);
    ck_assert_msg(list != NULL, "%s: %s", error.message, text_string(&run->errors));
    support_run_done(run);
    return list;
}

static bool says(const SupportRun *run, const char *words)
{
    return strstr(text_string(&run->output), words) != NULL;
}

START_TEST(with_the_same_policy_nothing_ends_otherwise)
{
    SupportRun run;
    SUPPORT_RUN(&run, "judge", home, "--config", config);
    ck_assert_msg(run.exit_code == 0, "%s%s", text_string(&run.output), text_string(&run.errors));
    ck_assert(says(&run, "4 nights: 3 as before, 0 would have ended otherwise (*), 0 without a verdict"));
    ck_assert(says(&run, "0 could not be read, 1 ended before they had evidence"));
    ck_assert(!says(&run, "\n* "));
    const char *text = text_string(&run.output);
    for (size_t begin = 0, length; text[begin] != '\0'; begin += length + 1) {
        length = strcspn(text + begin, "\n");
        ck_assert_uint_le(length, 79);
    }
    support_run_done(&run);
}
END_TEST

START_TEST(another_policy_shows_which_nights_and_through_which_check)
{
    SupportRun run;
    SUPPORT_RUN(&run, "judge", home, "--config", config, "--policy", policy_file, "--format", "json");
    ck_assert_int_eq(run.exit_code, 10);
    OWNED(Json, json_free) *list = list_of(&run);
    ck_assert_uint_eq(json_count(list), 4);
    for (size_t i = 0; i < 3; i++) {
        const Json *row = json_at(list, i), *changed = json_get(row, "changed");
        ck_assert_str_eq(json_text_or(json_find(row, "then.outcome"), ""), "pass");
        ck_assert_str_eq(json_text_or(json_find(row, "judgement.outcome"), ""), "refuse");
        ck_assert(json_bool_or(json_get(row, "otherwise"), false));
        ck_assert_str_eq(json_text_or(json_get(json_at(changed, 0), "name"), ""), "quality");
        ck_assert_str_eq(json_text_or(json_get(json_at(changed, 0), "now"), ""), "fail");
        ck_assert_ptr_nonnull(strstr(json_text_or(json_get(json_at(changed, 0), "reason"), ""), "0.9"));
    }
    ck_assert_str_eq(json_text_or(json_get(json_at(list, 3), "skipped"), ""),
                     "the run ended before it had evidence");
    SUPPORT_RUN(&run, "judge", home, "--config", config, "--policy", policy_file);
    ck_assert(says(&run, "\n* night-2"));
    ck_assert(says(&run, "quality pass -> fail: "));
    ck_assert(says(&run, "3 would have ended otherwise"));
    support_run_done(&run);
}
END_TEST

START_TEST(the_same_evidence_and_policy_give_the_same_bytes)
{
    SupportRun first, second;
    SUPPORT_RUN(&first, "judge", home, "--config", config, "--policy", policy_file, "--format", "json");
    SUPPORT_RUN(&second, "judge", home, "--config", config, "--policy", policy_file, "--format", "json");
    ck_assert_str_eq(text_string(&first.output), text_string(&second.output));
    support_run_done(&first);
    support_run_done(&second);
}
END_TEST

START_TEST(what_cannot_be_read_is_named_and_the_others_are_judged)
{
    SupportRun run;
    const char *cut = support_path(folder, "cut.json.gz"), *other = support_path(folder, "other.json");
    char good[FILE_PATH_SIZE];
    ck_assert(text_print(good, sizeof good, "%s/" NIGHT ".json.gz", GOOD_FOLDER));
    support_write(cut, "\x1f\x8b\x08");
    support_write(other, "{\"schema\": \"fedgate.evidence/0\"}");
    SUPPORT_RUN(&run, "judge", good, run_path("01-promoted", ""), cut, other, "nowhere.json", "--config",
                config);
    ck_assert_int_eq(run.exit_code, 65);
    ck_assert(says(&run, "cut.json.gz"));
    ck_assert(says(&run, "fedgate.evidence/0"));
    ck_assert(says(&run, "nowhere.json"));
    ck_assert(says(&run, "5 nights: 1 as before, 0 would have ended otherwise (*), 1 without a verdict"));
    ck_assert(says(&run, "3 could not be read"));
    support_run_done(&run);
    SUPPORT_RUN(&run, "judge", cut, "--config", config);
    ck_assert_int_eq(run.exit_code, 65);
    ck_assert_ptr_nonnull(strstr(text_string(&run.errors), "cut.json.gz"));
    support_run_done(&run);
    SUPPORT_RUN(&run, "judge", folder, "--config", config);
    ck_assert_int_eq(run.exit_code, 64);
    ck_assert_ptr_nonnull(strstr(text_string(&run.errors), "neither a run nor a home"));
    support_run_done(&run);
}
END_TEST

START_TEST(a_run_directory_alone_gives_its_judgement)
{
    SupportRun run;
    SUPPORT_RUN(&run, "judge", run_path("03-no-database", ""), "--config", config, "--format", "json");
    ck_assert_int_eq(run.exit_code, 0);
    OWNED(Json, json_free) *judgement = list_of(&run);
    ck_assert_str_eq(json_text_or(json_get(judgement, "schema"), ""), "fedgate.judgement/1");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("corpus judge");
    TCase *all = tcase_create("nights");
    tcase_set_timeout(all, 120);
    tcase_add_checked_fixture(all, make_home, remove_home);
    tcase_add_test(all, with_the_same_policy_nothing_ends_otherwise);
    tcase_add_test(all, another_policy_shows_which_nights_and_through_which_check);
    tcase_add_test(all, the_same_evidence_and_policy_give_the_same_bytes);
    tcase_add_test(all, what_cannot_be_read_is_named_and_the_others_are_judged);
    tcase_add_test(all, a_run_directory_alone_gives_its_judgement);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
