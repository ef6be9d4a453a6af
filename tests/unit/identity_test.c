// identity_test - what changes the result changes the version, nothing else does, and both say so.
#include <fedgate/identity.h>

#include <string.h>
#include <unistd.h>

#include "support.h"

static const MachineClass machine = {"cpu", "haswell", "openblas 0.3.21 haswell", "some cpu", 2};
static const Digest trainer = {{1, 2, 3}}, data = {{4, 5, 6}};

static Json *record_of(const char *set, const MachineClass *on)
{
    const char *sets[] = {"model=adult", set};
    Error error = ERROR_INIT;
    OWNED(Config, config_free) *config = config_load(NULL, sets, set ? 2 : 1, NULL, &error);
    ck_assert_msg(config != NULL, "%s", error.message);
    return identity_record(config, &trainer, &data, on);
}

START_TEST(the_record_has_its_keys_in_order)
{
    static const char *const keys[] = {"format", "model", "trainer",   "options",
                                       "data",   "seed",  "precision", "machine"};
    OWNED(Json, json_free) *record = record_of(NULL, &machine);
    ck_assert_uint_eq(json_count(record), sizeof keys / sizeof keys[0]);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        ck_assert_str_eq(json_key_at(record, i), keys[i]);
    ck_assert_str_eq(json_text_or(json_get(record, "format"), ""), "fedgate.identity/1");
    ck_assert_uint_eq(json_count(json_get(record, "machine")),
                      3);   // cores and host belong to the run, not to the version
}
END_TEST

START_TEST(the_version_is_the_model_and_sixteen_digits_of_the_digest)
{
    char version[VERSION_SIZE], expected[VERSION_SIZE], hex[DIGEST_HEX_SIZE];
    SCOPED_TEXT bytes;
    Digest digest, own;
    text_init(&bytes, 100000);
    OWNED(Json, json_free) *record = record_of(NULL, &machine);
    json_write(record, JSON_COMPACT, &bytes);
    hash_bytes(text_string(&bytes), bytes.length, &own);
    identity_digest(record, &digest);
    ck_assert(digest_equal(&digest, &own));
    digest_hex(&own, hex);
    ck_assert(text_print(expected, sizeof expected, "adult-%.16s", hex));
    identity_version(record, version);
    ck_assert_str_eq(version, expected);
    ck_assert(identity_is_version(version));
}
END_TEST

static const struct {
    const char *set, *field, *a, *b;
} differences[] = {
    {NULL, NULL, NULL, NULL},
    {"train.seed=2", "seed", "1", "2"},
    {"train.batch=128", "options.train.batch", "256", "128"},
    {"train.hidden=64", "options.train.hidden", "[256,128]", "[64]"},
    {"train.learning_rate=0.002", "options.train.learning_rate", "0.001", "0.002"},
    {"machine.class=rack7", "options.machine.class", "\"\"", "\"rack7\""},
    {"train.microbatch=64", NULL, NULL, NULL},   // how it is computed, not what
    {"input.workers=7", NULL, NULL, NULL},
    {"device.threads=3", NULL, NULL, NULL},
    {"overlap.floor=0.9", NULL, NULL, NULL},   // policy has a digest of its own
    {"data.directory=/elsewhere", NULL, NULL, NULL},
    {"database.url=host=db", NULL, NULL, NULL},
    {"train.batch=256", NULL, NULL, NULL},   // spelt out, same value
};

START_TEST(what_changes_the_result_changes_the_version_and_is_named)
{
    char before[VERSION_SIZE], after[VERSION_SIZE];
    SCOPED_TEXT field, a, b;
    text_init(&field, 1000);
    text_init(&a, 1000);
    text_init(&b, 1000);
    OWNED(Json, json_free) *one = record_of(NULL, &machine);
    OWNED(Json, json_free) *two = record_of(differences[_i].set, &machine);
    identity_version(one, before);
    identity_version(two, after);
    bool differs = identity_difference(one, two, &field, &a, &b);
    ck_assert_int_eq(differs, differences[_i].field != NULL);
    ck_assert_int_eq(differs, strcmp(before, after) != 0);
    if (!differs)
        return;
    ck_assert_str_eq(text_string(&field), differences[_i].field);
    ck_assert_str_eq(text_string(&a), differences[_i].a);
    ck_assert_str_eq(text_string(&b), differences[_i].b);
}
END_TEST

START_TEST(trainer_data_and_machine_are_part_of_it_and_cores_are_not)
{
    Error error = ERROR_INIT;
    const char *sets[] = {"model=adult"};
    const Digest other = {{9}};
    MachineClass elsewhere = machine, wider = machine;
    SCOPED_TEXT field, a, b;
    text_init(&field, 1000);
    text_init(&a, 1000);
    text_init(&b, 1000);
    OWNED(Config, config_free) *config = config_load(NULL, sets, 1, NULL, &error);
    ck_assert_ptr_nonnull(config);
    ck_assert(text_copy(elsewhere.libraries, sizeof elsewhere.libraries, "openblas 0.3.22 haswell"));
    wider.cores = 64;
    ck_assert(text_copy(wider.host_cpu, sizeof wider.host_cpu, "another cpu"));
    OWNED(Json, json_free) *base = identity_record(config, &trainer, &data, &machine);
    OWNED(Json, json_free) *program = identity_record(config, &other, &data, &machine);
    OWNED(Json, json_free) *rows = identity_record(config, &trainer, &other, &machine);
    OWNED(Json, json_free) *moved = identity_record(config, &trainer, &data, &elsewhere);
    OWNED(Json, json_free) *cores = identity_record(config, &trainer, &data, &wider);
    ck_assert(identity_difference(base, program, &field, &a, &b));
    ck_assert_str_eq(text_string(&field), "trainer");
    ck_assert(identity_difference(base, rows, &field, &a, &b));
    ck_assert_str_eq(text_string(&field), "data");
    ck_assert(identity_difference(base, moved, &field, &a, &b));
    ck_assert_str_eq(text_string(&field), "machine.libraries");
    ck_assert(!identity_difference(base, cores, &field, &a, &b));
    ck_assert_str_eq(text_string(&field), "");
}
END_TEST

START_TEST(a_field_only_one_record_has_is_absent_in_the_other)
{
    SCOPED_TEXT field, a, b;
    text_init(&field, 1000);
    text_init(&a, 1000);
    text_init(&b, 1000);
    OWNED(Json, json_free) *one = record_of(NULL, &machine);
    OWNED(Json, json_free) *two = json_copy_deep(one);
    json_put_integer(two, "later", 1);
    ck_assert(identity_difference(one, two, &field, &a, &b));
    ck_assert_str_eq(text_string(&field), "later");
    ck_assert_str_eq(text_string(&a), "absent");
    ck_assert_str_eq(text_string(&b), "1");
    ck_assert(identity_difference(two, one, &field, &a, &b));
    ck_assert_str_eq(text_string(&a), "1");
    ck_assert_str_eq(text_string(&b), "absent");
}
END_TEST

static const struct {
    const char *text;
    bool good;
} shapes[] = {
    {"adult-0123456789abcdef", true},
    {"a-b.c_d-0123456789abcdef", true},
    {"adult-0123456789abcde", false},
    {"adult-0123456789abcdeF", false},
    {"adult-0123456789abcdeg", false},
    {"-0123456789abcdef", false},
    {"0123456789abcdef", false},
    {"../x-0123456789abcdef", false},
    {"a/b-0123456789abcdef", false},
    {"a..b-0123456789abcdef", false},
    {"Adult-0123456789abcdef", false},
    {"adult-0123456789abcdef ", false},
    {"adult_0123456789abcdef", false},
    {"", false},
    {NULL, false},
    {"aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffgggg-0123456789abcdef", true},
    {"aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffggggh-0123456789abcdef", false},
    {"aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffgggggggggghhhhhhhhhhiiii-0123456789abcdef",
     false},
};

START_TEST(only_the_shape_of_a_version_may_become_a_path)
{
    ck_assert_msg(identity_is_version(shapes[_i].text) == shapes[_i].good, "'%s'",
                  shapes[_i].text ? shapes[_i].text : "(null)");
}
END_TEST

START_TEST(the_program_digest_is_that_of_its_file)
{
    Digest program, file;
    Error error = ERROR_INIT;
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    ck_assert_int_gt(length, 0);
    path[length] = '\0';
    ASSERT_OK(identity_trainer_digest("", &program, &error), &error);
    ASSERT_OK(hash_file(path, &file, NULL, &error), &error);
    ck_assert(digest_equal(&program, &file));
}
END_TEST

START_TEST(the_module_of_the_back_end_is_part_of_the_trainer)
{
    char *folder = support_folder_new();
    const char *module = support_path(folder, "module.so");
    Digest alone, with, other;
    Error error = ERROR_INIT;
    ASSERT_OK(identity_trainer_digest("", &alone, &error), &error);
    support_write(module, "one");
    ASSERT_OK(identity_trainer_digest(module, &with, &error), &error);
    ck_assert(!digest_equal(&alone, &with));
    support_write(module, "two");
    ASSERT_OK(identity_trainer_digest(module, &other, &error), &error);
    ck_assert(!digest_equal(&with, &other));
    ASSERT_FAILS(identity_trainer_digest(support_path(folder, "gone.so"), &other, &error), &error, ERROR_IO,
                 "module of the back end");
    support_folder_remove(folder);
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("identity");
    TCase *tests = tcase_create("identity");
    tcase_add_test(tests, the_record_has_its_keys_in_order);
    tcase_add_test(tests, the_version_is_the_model_and_sixteen_digits_of_the_digest);
    tcase_add_loop_test(tests, what_changes_the_result_changes_the_version_and_is_named, 0,
                        sizeof differences / sizeof differences[0]);
    tcase_add_test(tests, trainer_data_and_machine_are_part_of_it_and_cores_are_not);
    tcase_add_test(tests, a_field_only_one_record_has_is_absent_in_the_other);
    tcase_add_loop_test(tests, only_the_shape_of_a_version_may_become_a_path, 0,
                        sizeof shapes / sizeof shapes[0]);
    tcase_add_test(tests, the_program_digest_is_that_of_its_file);
    tcase_add_test(tests, the_module_of_the_back_end_is_part_of_the_trainer);
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
