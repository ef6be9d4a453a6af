// plan_against_test - two plans side by side: what moves, by how much, through which term, and what stays.
#include <fedgate/plan.h>

#include <math.h>
#include <string.h>

#include "support.h"

static const char example[] = FEDGATE_SOURCE_DIR "/fixtures/configs/ledger-example.yaml";
static const int64_t hidden[] = {256, 128};
static const PlanShape shape = {.numeric = 32,
                                .hidden = hidden,
                                .layers = 2,
                                .outputs = 1,
                                .bytes_per_element = 4,
                                .steps = 1000,
                                .step_bytes = 128,
                                .pace_bytes = 12,
                                .validation_rows = 1024,
                                .sum_bytes = 16};

static char shown[200000];
static Json *json;

static void compare(const PlanShape *own_shape, const char *set, const PlanShape *other_shape,
                    const char *other_set, bool whole)
{
    Error error = ERROR_INIT;
    NightPlan own, other;
    SCOPED_TEXT out;
    text_init(&out, sizeof shown - 1);
    OWNED(Config, config_free) *from =
        config_load(own_shape ? NULL : example, &set, set ? 1 : 0, NULL, &error);
    ck_assert_msg(from != NULL, "%s", error.message);
    OWNED(Config, config_free) *to =
        config_load(other_shape ? NULL : example, &other_set, other_set ? 1 : 0, NULL, &error);
    ck_assert_msg(to != NULL, "%s", error.message);
    ASSERT_OK(plan_night(from, own_shape, 0, NULL, &own, &error), &error);
    ASSERT_OK(plan_night(to, other_shape, 0, NULL, &other, &error), &error);
    const PlanSide left = {&own, from, "own.yaml"}, right = {&other, to, "other.yaml"};
    plan_print_against(&left, &right, whole, &out);
    ck_assert(text_copy(shown, sizeof shown, text_string(&out)));
    json_free(json);
    json = plan_against_to_json(&left, &right);
}

static void drop(void)
{
    json_free(json);
    json = NULL;
}

static void expect(const char *const *words)
{
    for (size_t i = 0; words[i]; i++)
        ck_assert_msg(strstr(shown, words[i]) != NULL, "no '%s' in:\n%s", words[i], shown);
}
#define EXPECT(...) expect((const char *const[]){__VA_ARGS__, NULL})

static const Json *moved(const char *line)
{
    const Json *array = json_get(json, "moved");
    for (size_t i = 0; i < json_count(array); i++)
        if (strcmp(json_text_or(json_get(json_at(array, i), "line"), ""), line) == 0)
            return json_at(array, i);
    return NULL;
}

static void expect_moved(const char *line, int64_t from, int64_t to, const char *through)
{
    const Json *found = moved(line);
    ck_assert_msg(found != NULL, "line '%s' does not move:\n%s", line, shown);
    ck_assert_int_eq(json_integer_or(json_get(found, "from"), -1), from);
    ck_assert_int_eq(json_integer_or(json_get(found, "to"), -1), to);
    const Json *terms = json_get(found, "through");
    ck_assert_uint_eq(json_count(terms), through ? 1 : 0);
    if (through)
        ck_assert_str_eq(json_text_or(json_get(json_at(terms, 0), "term"), ""), through);
}

// -- the brief's example, one input changed; every figure by hand

START_TEST(half_the_bytes_a_sample_hold_twice_the_samples)
{
    compare(NULL, NULL, NULL, "memory.per_sample=0.17GB", false);
    EXPECT("plan of 'own.yaml' against 'other.yaml'", "memory.per_sample: 340000000 -> 170000000",
           "  largest microbatch = floor(available / sample)\n"
           "      54 = floor(18.4 GB / 0.34 GB)\n"
           "      108 = floor(18.4 GB / 0.17 GB) (+54, x 2)\n"
           "      through sample: 0.34 GB -> 0.17 GB\n",
           "      32 = largest divisor of 256 that is at most 54\n"
           "      64 = largest divisor of 256 that is at most 108 (+32, x 2)\n",
           "      8 = 256 / 32\n      4 = 256 / 64 (-4, x 0.5)\n");
    expect_moved("sample", 340000000, 170000000, "sample (declared)");
    expect_moved("largest microbatch", 54, 108, "sample");
    expect_moved("microbatch", 32, 64, "largest microbatch");
    expect_moved("accumulation", 8, 4, "microbatch");
    // 32 x 0.34 = 64 x 0.17: the peak stays 14.08 GB
    ck_assert_ptr_null(moved("activations"));
    ck_assert_ptr_null(moved("peak"));
    ck_assert_ptr_null(moved("state"));
    ck_assert_ptr_null(moved("attainable"));
    ck_assert_ptr_null(strstr(shown, "0.34 GB a sample"));
    ck_assert_ptr_nonnull(strstr(shown, " lines stay\n"));
}
END_TEST

START_TEST(a_larger_device_moves_the_budget_and_what_follows)
{
    compare(NULL, NULL, NULL, "device.memory=40GB", false);
    expect_moved("device", 24000000000, 40000000000, NULL);
    expect_moved("budget", 21600000000, 36000000000, "device");
    expect_moved("available", 18400000000, 32800000000, "budget");
    expect_moved("largest microbatch", 54, 96, "available");   // 32.8 / 0.34 = 96.47
    expect_moved("microbatch", 32, 64, "largest microbatch");
    expect_moved("peak", 14080000000, 24960000000, "activations");
    EXPECT("24 GB x (1 - 0.1)", "40 GB x (1 - 0.1)", "(+16 GB, x 1.667)", "96 = floor(32.8 GB / 0.34 GB)",
           "24.96 GB = 3.2 GB + 21.76 GB");
    ck_assert_ptr_null(moved("memory"));   // fits on both
}
END_TEST

START_TEST(a_microbatch_that_does_not_fit_is_refused_on_its_side)
{
    compare(NULL, NULL, NULL, "train.microbatch=64", false);
    expect_moved("microbatch", 32, 64, NULL);
    EXPECT("train.microbatch: 0 -> 64", "      fits\n",
           "refused: microbatch 64 needs 24.96 GB, the budget is 21.6 GB; at most 54 samples fit",
           "24.96 GB = 3.2 GB + 21.76 GB (+10.88 GB, x 1.773)", "-3.36 GB = 21.6 GB - 24.96 GB");
    ck_assert_ptr_null(moved("largest microbatch"));
}
END_TEST

START_TEST(the_layer_of_the_example_doubles_its_intensity_at_half_the_bytes)
{
    compare(NULL, NULL, NULL, "plan.intensity_bytes=4", false);
    expect_moved("bytes moved", 163840, 327680, "bytes of each");
    EXPECT("163,840 = (256 x 32 + 32 x 256 + 256 x 256) x 2 B", "25.6 = 4,194,304 / 163,840",
           "12.8 = 4,194,304 / 327,680", "122.88 TFLOP/s = min(990 TFLOP/s, 25.6 x 4.8 TB/s)",
           "61.44 TFLOP/s = min(990 TFLOP/s, 12.8 x 4.8 TB/s)");
    ck_assert_ptr_null(moved("ridge"));
    ck_assert_ptr_null(moved("FLOP"));
}
END_TEST

// -- a model's own plan

START_TEST(half_precision_halves_the_passes_and_brings_the_reference_arm)
{
    PlanShape half = shape;
    half.bytes_per_element = 2;
    compare(&shape, "train.precision=fp32", &half, "train.precision=bf16", false);
    EXPECT("train.precision: \"fp32\" -> \"bf16\"", "  element of a pass = bytes of precision\n",
           "      4 B = bytes of fp32\n      2 B = bytes of bf16 (-2 B, x 0.5)\n",
           "  activations a sample = values x bytes of each\n", "      through bytes of each: 4 B -> 2 B\n",
           "  pass weights = parameters x bytes of each\n      none\n      82.946 kB = 41,473 x 2 B\n",
           "account by account (memory.accounts");
    ck_assert_ptr_null(moved("weights"));   // masters stay FP32
    ck_assert_ptr_null(moved("optimizer"));
    const Json *arm = moved("parity weights");
    ck_assert_ptr_nonnull(arm);
    ck_assert(json_is_null(json_get(arm, "from")));
    ck_assert_int_eq(json_integer_or(json_get(arm, "to"), 0), 41473 * 4);
    // lines stand where a reader looks for them: the pass behind the masters
    ck_assert(strstr(shown, "  pass weights =") < strstr(shown, "  parity weights ="));
    compare(&half, "train.precision=bf16", &shape, "train.precision=fp32", false);
    ck_assert(json_is_null(json_get(moved("parity weights"), "to")));
}
END_TEST

START_TEST(wider_layers_move_the_parameters)
{
    static const int64_t wide[] = {512, 128};
    PlanShape wider = shape;
    wider.hidden = wide;
    compare(&shape, NULL, &wider, "train.hidden=512,128", false);
    EXPECT("through parameters: 41,473 -> 82,689", "through values: ");
    ck_assert_ptr_null(moved("input slots"));
}
END_TEST

START_TEST(one_plan_twice_moves_nothing)
{
    compare(NULL, NULL, NULL, NULL, false);
    EXPECT("both configurations say the same", "no line of the plan moves");
    ck_assert_uint_eq(json_count(json_get(json, "moved")), 0);
    ck_assert_uint_gt(json_count(json_get(json, "stays")), 20);
    compare(NULL, NULL, NULL, "train.seed=2", false);
    EXPECT("options that differ\n  train.seed: 1 -> 2\n", "no line of the plan moves");
}
END_TEST

START_TEST(the_lines_that_stay_are_counted_or_shown)
{
    compare(NULL, NULL, NULL, "memory.reserve=0.2", false);
    ck_assert_ptr_null(strstr(shown, "  device: 24 GB"));
    compare(NULL, NULL, NULL, "memory.reserve=0.2", true);
    EXPECT(" lines stay:\n", "  device: 24 GB\n", "  ridge: 206.25\n");
    char count[64];
    ck_assert(text_print(count, sizeof count, "\n%zu lines stay:", json_count(json_get(json, "stays"))));
    EXPECT(count);
    ck_assert_uint_eq(json_count(json_get(json, "moved")), 5);   // reserve, budget, available, largest, left
    expect_moved("largest microbatch", 54, 47, "available");   // 24 x 0.8 - 3.2 = 16; / 0.34 = 47.06
    ck_assert_str_eq(json_text_or(json_find(json, "plan.schema"), ""), "fedgate.plan/1");
    ck_assert_str_eq(json_text_or(json_get(json_at(json_get(json, "options"), 0), "name"), ""),
                     "memory.reserve");
    for (const char *line = shown; *line; line = strchr(line, '\n') + 1)
        ck_assert_msg(strcspn(line, "\n") <= 110, "%.*s", (int)strcspn(line, "\n"), line);
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("plan against");
    TCase *tests = tcase_create("plan against");
    tcase_add_checked_fixture(tests, NULL, drop);
    tcase_add_test(tests, half_the_bytes_a_sample_hold_twice_the_samples);
    tcase_add_test(tests, a_larger_device_moves_the_budget_and_what_follows);
    tcase_add_test(tests, a_microbatch_that_does_not_fit_is_refused_on_its_side);
    tcase_add_test(tests, the_layer_of_the_example_doubles_its_intensity_at_half_the_bytes);
    tcase_add_test(tests, half_precision_halves_the_passes_and_brings_the_reference_arm);
    tcase_add_test(tests, wider_layers_move_the_parameters);
    tcase_add_test(tests, one_plan_twice_moves_nothing);
    tcase_add_test(tests, the_lines_that_stay_are_counted_or_shown);
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
