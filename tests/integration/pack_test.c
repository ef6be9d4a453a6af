// pack_test - `fedgate pack` as a user meets it: nights on text and on shards end in the same model, byte for
// byte; exit codes; what a kill leaves. On Adult too, when the folder of real data is there.
#include <fcntl.h>
#include <fedgate/clock.h>
#include <fedgate/file.h>
#include <fedgate/hash.h>
#include <fedgate/json.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

static bool says(const Text *text, const char *words)
{
    return strstr(text_string(text), words) != NULL;
}

static char *set_of(const char *key, const char *value)
{
    char set[2048];
    ck_assert(text_print(set, sizeof set, "%s=%s", key, value));
    return text_duplicate(set);
}

#ifdef FEDGATE_FAULTS   // modelled durations

typedef struct Home {
    char version[128], release[FILE_PATH_SIZE];
    Json *record;
} Home;

// One promoted night of the configuration in a home of its own.
static Home night_in(const char *folder, const char *name, const char *config, const char *const *sets)
{
    const char *home = support_path(folder, name), *arguments[32] = {"run", "--home", home};
    size_t count = 3;
    SupportRun run;
    SUPPORT_RUN(&run, "init", "--home", home, "--config", config);
    ck_assert_msg(run.exit_code == 0, "%s", text_string(&run.errors));
    support_run_done(&run);
    for (size_t i = 0; sets[i]; i++) {
        arguments[count++] = "--set";
        arguments[count++] = sets[i];
    }
    arguments[count] = NULL;
    ck_assert_int_eq(setenv("FEDGATE_FAULT", "clock.model=1", 1), 0);
    support_run(arguments, &run);
    unsetenv("FEDGATE_FAULT");
    ck_assert_msg(run.exit_code == 0, "%s %s", text_string(&run.output), text_string(&run.errors));
    support_run_done(&run);
    Error error = ERROR_INIT;
    char path[FILE_PATH_SIZE];
    Home made = {0};
    Json *verdict = json_read_file(support_path(home, "last-verdict.json"), 10000000, &error);
    ck_assert_msg(verdict != NULL, "%s", error.message);
    ck_assert(text_copy(made.version, sizeof made.version, json_text_or(json_get(verdict, "version"), "")));
    json_free(verdict);
    ck_assert(text_print(made.release, sizeof made.release, "%s/releases/%s", home, made.version));
    ck_assert(text_print(path, sizeof path, "%s/record.json", made.release));
    made.record = json_read_file(path, 1000000, &error);
    ck_assert_msg(made.record != NULL, "%s", error.message);
    return made;
}

static void same_file(const Home *a, const Home *b, const char *name)
{
    Digest x, y;
    char path[2][FILE_PATH_SIZE];
    Error error = ERROR_INIT;
    ck_assert(text_print(path[0], FILE_PATH_SIZE, "%s/%s", a->release, name));
    ck_assert(text_print(path[1], FILE_PATH_SIZE, "%s/%s", b->release, name));
    ASSERT_OK(hash_file(path[0], &x, NULL, &error) && hash_file(path[1], &y, NULL, &error), &error);
    ck_assert_msg(digest_equal(&x, &y), "%s differs", name);
}

// The identity of a version: all of it is the same but the digest of the data.
static void differ_by_data_only(Home *a, Home *b)
{
    ck_assert_str_ne(a->version, b->version);
    ck_assert_str_ne(json_text_or(json_get(a->record, "data"), ""),
                     json_text_or(json_get(b->record, "data"), ""));
    json_remove(a->record, "data");
    json_remove(b->record, "data");
    ck_assert(json_same(a->record, b->record));
    static const char *const files[] = {"model.safetensors", "model.json", "maps.json"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        same_file(a, b, files[i]);
    json_free(a->record);
    json_free(b->record);
}

static char *open_folder(void)
{
    char *folder = support_folder_new();
    ck_assert_int_eq(chmod(folder, 0755), 0);
    return folder;
}

START_TEST(a_night_on_shards_makes_the_model_of_the_text)
{
    char *folder = open_folder();
    const char *config = FEDGATE_SOURCE_DIR "/fixtures/configs/learnable.yaml";
    char *text = set_of("data.directory", FEDGATE_SOURCE_DIR "/fixtures/learnable");
    char *packed = set_of("data.directory", support_path(folder, "packed"));
    SupportRun run;
    SUPPORT_RUN(&run, "pack", "--config", config, "--set", text, "--out", support_path(folder, "packed"),
                "--shard-rows", "2500");
    ck_assert_msg(run.exit_code == 0, "%s", text_string(&run.errors));
    ck_assert(says(&run.output, "packed 6000 rows, 9 columns and the target"));
    support_run_done(&run);
    const char *const few = "train.epochs=30";
    const char *train = "data.train=[train-00000-of-00003.safetensors,train-00001-of-00003.safetensors,"
                        "train-00002-of-00003.safetensors]";
    Home a = night_in(folder, "a", config, (const char *const[]){text, few, NULL});
    Home b = night_in(folder, "b", config, (const char *const[]){packed, train, few, NULL});
    differ_by_data_only(&a, &b);
    free(text);
    free(packed);
    support_folder_remove(folder);
}
END_TEST

static const char *data_folder(void)
{
    static char path[1024];
    const char *given = getenv("FEDGATE_REAL_DATA");
    if (given)
        return given;
    ck_assert(text_print(path, sizeof path, "%s/../shared/data", FEDGATE_SOURCE_DIR));
    return file_is_directory(path) ? path : NULL;
}

START_TEST(adult_on_shards_is_adult)
{
    const char *data = data_folder();
    if (!data) {
        printf("pack_test: no folder of real data, Adult passed over\n");
        return;
    }
    char *folder = open_folder();
    const char *config = FEDGATE_SOURCE_DIR "/fixtures/configs/adult.yaml";
    char *text = set_of("data.directory", support_path(data, "adult"));
    char *packed = set_of("data.directory", support_path(folder, "packed"));
    SupportRun run;
    SUPPORT_RUN(&run, "pack", "--config", config, "--set", text, "--out", support_path(folder, "packed"));
    ck_assert_msg(run.exit_code == 0, "%s", text_string(&run.errors));
    support_run_done(&run);
    const char *const few = "train.epochs=2";
    Home a = night_in(folder, "a", config, (const char *const[]){text, few, NULL});
    Home b = night_in(folder, "b", config,
                      (const char *const[]){packed, "data.train=train-00000-of-00001.safetensors",
                                            "data.test=test-00000-of-00001.safetensors", few, NULL});
    differ_by_data_only(&a, &b);
    free(text);
    free(packed);
    support_folder_remove(folder);
}
END_TEST

#endif

// -- the command

static const char csv_config[] = "model: m\ntask: binary\n"
                                 "data: {train: [d.csv], target: y, numeric: [a]}\n";

static void write_csv(const char *folder, const char *name, int rows, const char *last)
{
    SCOPED_TEXT csv;
    text_init(&csv, 64u << 20);
    text_add(&csv, "a,b,y\n");
    for (int i = 0; i < rows; i++)
        text_add_format(&csv, "%d,%d,%d\n", i, i % 7, i % 2);
    text_add(&csv, last);
    support_write(support_path(folder, name), text_string(&csv));
}

static const struct {
    const char *arguments[8];
    int code;
    const char *words;
} ends[] = {
    {{"--config", "c.yaml", "--out", "o"}, 0, "train: [train-00000-of-00001.safetensors]"},
    {{"--config", "c.yaml", "--out", "o", "e.csv", "d.csv"},
     0,
     "packed 150 rows, 1 columns and the target from 2"},
    {{"--config", "c.yaml", "--out", "o", "--shard-rows", "30"}, 0, "train-00003-of-00004.safetensors"},
    {{"--config", "c.yaml", "--quiet"}, 0, ""},
    {{"--config", "c.yaml", "--out", "o", "--shard-rows", "0"}, 64, "not a whole number from 1"},
    {{"--config", "c.yaml", "--out", "o", "--shard-rows", "1e3"}, 64, "not a whole number from 1"},
    {{"--config", "c.yaml", "--outt", "o"}, 64, "Did you mean --out?"},
    {{"--config", "c.yaml", "a,b.csv"}, 64, "has a comma"},
    {{"--config", "c.yaml", "absent.csv"}, 65, "does not exist"},
    {{"--config", "c.yaml", "bad.csv"}, 65, "line 52: column 'a' holds 'x'"},
    {{"--config", "c.yaml", "--out", "taken"},
     10,
     "holds 'train-00000-of-00007.safetensors' of another pack"},
    {{"--config", "c.yaml", "--out", "d.csv/o"}, 74, "d.csv"},
    {{"--config", "absent.yaml", "--out", "o"}, 78, "absent.yaml"},
    {{"d.csv"}, 78, "option 'data.target' names no column"},
};

START_TEST(each_end_has_its_code)
{
    char *folder = support_folder_new();
    support_write(support_path(folder, "c.yaml"), csv_config);
    write_csv(folder, "d.csv", 100, "");
    write_csv(folder, "e.csv", 50, "");
    write_csv(folder, "bad.csv", 50, "x,1,0\n");
    ck_assert_int_eq(mkdir(support_path(folder, "taken"), 0755), 0);
    support_write(support_path(folder, "taken/train-00000-of-00007.safetensors"), "x");
    const char *arguments[10] = {"pack"};
    for (size_t i = 0; i < 8; i++)
        arguments[i + 1] = ends[_i].arguments[i];
    SupportRun run;
    support_run_in(folder, NULL, arguments, &run);
    ck_assert_msg(run.exit_code == ends[_i].code, "%d: %s%s", run.exit_code, text_string(&run.output),
                  text_string(&run.errors));
    ck_assert_msg(says(ends[_i].code == 0 ? &run.output : &run.errors, ends[_i].words), "%s%s",
                  text_string(&run.output), text_string(&run.errors));
    if (ends[_i].code != 0)
        ck_assert(!file_exists(support_path(folder, "o")) && !file_exists(support_path(folder, "packed")));
    support_run_done(&run);
    support_folder_remove(folder);
}
END_TEST

START_TEST(the_report_can_be_read_by_programs)
{
    char *folder = support_folder_new();
    support_write(support_path(folder, "c.yaml"), csv_config);
    write_csv(folder, "d.csv", 100, "");
    SupportRun run;
    support_run_in(folder, NULL,
                   (const char *const[]){"pack", "--config", "c.yaml", "--format", "json", NULL}, &run);
    Error error = ERROR_INIT;
    Json *report = json_parse(text_string(&run.output), run.output.length, 1u << 20, &error);
    ck_assert_msg(report != NULL, "%s", error.message);
    const Json *shard = json_at(json_get(report, "shards"), 0);
    uint64_t bytes;
    Digest digest, named;
    ASSERT_OK(
        hash_file(support_path(folder, "packed/train-00000-of-00001.safetensors"), &digest, &bytes, &error),
        &error);
    ck_assert(digest_parse(json_text_or(json_get(shard, "sha256"), ""), &named) &&
              digest_equal(&digest, &named));
    ck_assert_int_eq(json_integer_or(json_get(shard, "bytes"), 0), (int64_t)bytes);
    ck_assert(!json_bool_or(json_get(shard, "kept"), true));
    json_free(report);
    support_run_done(&run);
    support_folder_remove(folder);
}
END_TEST

// Whenever the kill comes, there are no shards, or all of them whole, and nothing else.
START_TEST(a_killed_pack_leaves_no_half)
{
    char *folder = support_folder_new();
    const char *program = getenv("FEDGATE_PROGRAM");
    support_write(support_path(folder, "c.yaml"), csv_config);
    write_csv(folder, "d.csv", 40000, "");
    ck_assert_int_eq(mkdir(support_path(folder, "o"), 0755), 0);
    for (int wait_ms = 5; wait_ms <= 160; wait_ms *= 2) {
        pid_t child = fork();
        if (child == 0) {
            int null = open("/dev/null", O_RDWR);
            if (chdir(folder) != 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0)
                _exit(120);
            execl(program, program, "pack", "--config", "c.yaml", "--out", "o", "--shard-rows", "10000",
                  (char *)NULL);
            _exit(121);
        }
        ck_assert_int_gt(child, 0);
        clock_sleep_ns(clock_real(), (int64_t)wait_ms * 1000000);
        kill(child, SIGKILL);
        int status;
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        FileList list = {0};
        Error error = ERROR_INIT;
        ASSERT_OK(file_list(support_path(folder, "o"), &list, &error), &error);
        for (size_t i = 0; i < list.count; i++)
            ck_assert_msg(text_ends_with(list.names[i], "-of-00004.safetensors"), "'%s' was left",
                          list.names[i]);
        file_list_done(&list);
    }
    // What was left, if anything, is taken as it is: whole shards are kept, the others made.
    SupportRun run;
    support_run_in(
        folder, NULL,
        (const char *const[]){"pack", "--config", "c.yaml", "--out", "o", "--shard-rows", "10000", NULL},
        &run);
    ck_assert_msg(run.exit_code == 0, "%s", text_string(&run.errors));
    support_run_done(&run);
    support_folder_remove(folder);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("pack");
    TCase *t = tcase_create("pack");
    tcase_add_loop_test(t, each_end_has_its_code, 0, sizeof ends / sizeof ends[0]);
    tcase_add_test(t, the_report_can_be_read_by_programs);
    tcase_add_test(t, a_killed_pack_leaves_no_half);
#ifdef FEDGATE_FAULTS
    tcase_add_test(t, a_night_on_shards_makes_the_model_of_the_text);
    tcase_add_test(t, adult_on_shards_is_adult);
#endif
    suite_add_tcase(s, t);
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
