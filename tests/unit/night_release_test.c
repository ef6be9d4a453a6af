// night_release_test - what a night puts together for the person who accepts its release, and the shift of
// the scores against the live version's: examples made by hand.
#include "../../src/night/evaluate_internal.h"   // one evaluation, made by hand
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char *home;
static Error error;
static Night night;
static NightOptions options;
static Config *config;

static void set_up(void)
{
    static const char *const sets[] = {"model=m", "data.target=y", "owner=alice"};
    home = support_folder_new();
    error = ERROR_INIT;
    config = config_load(NULL, sets, 3, NULL, &error);
    ck_assert_msg(config != NULL, "%s", error.message);
    options = (NightOptions){.home = home};
    night = (Night){.config = config,
                    .options = &options,
                    .evidence = json_make_object(),
                    .seconds = json_make_object(),
                    .train_result = json_make_object()};
    ck_assert_int_eq(mkdir(support_path(home, "releases"), 0750), 0);
}

static void tear_down(void)
{
    json_free(night.evidence);
    json_free(night.seconds);
    json_free(night.train_result);
    config_free(config);
    support_folder_remove(home);
}

static void put(const char *section, const char *text)
{
    Json *value = json_parse(text, strlen(text), 100000, &error);
    ck_assert_msg(value != NULL, "%s", error.message);
    json_put(night.evidence, section, value);
}

static double number(const char *dotted)
{
    return json_number_or(json_find(night.evidence, dotted), (double)NAN);
}

// -- tables worked by hand

START_TEST(every_hand_checked_result_comes_out)
{
    OWNED(Json, json_free) *results = night_formal_results(&error);
    ck_assert_msg(results != NULL, "%s", error.message);
    static const char *const parts[] = {"ledger: ", "roofline: ", "overlap: ", "closure: "};
    size_t found[4] = {0};
    for (size_t i = 0; i < json_count(results); i++) {
        const Json *result = json_at(results, i);
        const char *name = json_text_or(json_get(result, "name"), "");
        double expected = json_number_or(json_get(result, "expected"), (double)NAN),
               actual = json_number_or(json_get(result, "actual"), (double)NAN),
               tolerance = json_number_or(json_get(result, "tolerance"), (double)NAN);
        ck_assert_msg(fabs(actual - expected) <= tolerance, "%s: %.17g, by hand %.17g", name, actual,
                      expected);
        ck_assert_msg(tolerance <= 1e-9 * fabs(expected), "%s: anything near would do", name);
        ck_assert_str_ne(json_text_or(json_get(result, "by_hand"), ""), "");
        for (size_t p = 0; p < 4; p++)
            found[p] += text_starts_with(name, parts[p]);
    }
    for (size_t p = 0; p < 4; p++)
        ck_assert_msg(found[p] > 0, "no result of %s", parts[p]);
}
END_TEST

// -- the worked example

#define STEPS(wall, compute)                                                                                 \
    "{\"steps\":{\"index\":[0,4,8,12,16],\"wall_ns\":" wall                                                  \
    ",\"wait_ns\":[1,1,1,1,1],\"exposed_copy_ns\":[2,2,2,2,2],"                                              \
    "\"compute_ns\":" compute ",\"rest\":{\"a\":[3,3,3,3,3],\"b\":[4,4,4,4,4]}}}"
#define SEEN(index, copied)                                                                                  \
    "{\"steps\":{\"index\":" index ",\"copy_ns\":" copied ",\"hidden_ns\":" copied "}}"

static const struct {
    const char *loop, *timeline;
    int64_t step, copied;   // step -1: no example
} examples[] = {
    {STEPS("[110,110,110,110,110]", "[100,100,100,100,100]"), SEEN("[0,4,8,12,16]", "[5,6,7,8,9]"), 8, 7},
    {STEPS("[110,110,110,110,110]", "[100,100,100,100,100]"), SEEN("[3,4,5]", "[5,6,7]"), 4, 6},   // sampled
    {STEPS("[110,110,99999,110,110]", "[100,100,100,100,100]"), SEEN("[0,4,8,12,16]", "[5,6,7,8,9]"), 12, 8},
    {STEPS("[110,99999,99999,99999,110]", "[100,100,100,100,100]"), SEEN("[0,8,16]", "[5,7,9]"), 16, 9},
    {STEPS("[99999,99999,99999,99999,99999]", "[100,100,100,100,100]"), SEEN("[0,4,8]", "[5,6,7]"), -1, 0},
    {STEPS("[110,110,110,110,110]", "[100,100,100,100,100]"), SEEN("[1,2,3]", "[5,6,7]"), -1, 0},
    {STEPS("[110,110,110,110,110]", "[100,100,100,100,100]"), "{}", -1, 0},
    {"{}", SEEN("[0,4,8]", "[5,6,7]"), -1, 0},
};

START_TEST(the_example_is_a_step_of_this_night_that_adds_up)
{
    put("loop", examples[_i].loop);
    put("timeline", examples[_i].timeline);
    ck_assert_msg(night_put_release(&night, &error), "%s", error.message);
    const Json *example = json_find(night.evidence, "release.worked_example");
    if (examples[_i].step < 0) {
        ck_assert(json_is_null(example));
        return;
    }
    ck_assert_int_eq(json_integer_or(json_get(example, "step"), -1), examples[_i].step);
    ck_assert_int_eq(json_integer_or(json_get(example, "copy_ns"), -1), examples[_i].copied);
    ck_assert_int_eq(json_integer_or(json_get(example, "rest_ns"), -1), 7);
    ck_assert_int_eq(json_integer_or(json_find(example, "rest.b"), -1), 4);
    ck_assert_str_eq(json_text_or(json_get(example, "sum"), ""),
                     "wait 1 + exposed copy 2 + compute 100 + rest 7 = 110 ns, wall 110 ns");
}
END_TEST

// -- fallback and owner

static Digest seal_live(const char *weights)
{
    Digest digest;
    bool existed = false;
    OWNED(ReleaseDraft, release_free) *draft = release_begin(support_path(home, "releases"), "run-1", &error);
    ck_assert_msg(draft != NULL, "%s", error.message);
    support_write(support_path(release_path(draft), "model.safetensors"), weights);
    ck_assert_msg(release_seal(draft, "m-0123456789abcdef", "m", RELEASE_MODEL, &digest, &error) &&
                      release_publish(draft, support_path(home, "releases"), &existed, &error),
                  "%s", error.message);
    return digest;
}

START_TEST(the_fallback_is_hashed_again)
{
    night.head = (PointerRecord){.to_kind = RELEASE_MODEL, .release_digest = seal_live("weights")};
    ck_assert(text_copy(night.head.to, sizeof night.head.to, "m-0123456789abcdef"));
    ck_assert(night_put_release(&night, &error));
    ck_assert(json_is_null(json_find(night.evidence, "release.fallback")));   // nothing was live
    night.has_head = true;
    ck_assert(night_put_release(&night, &error));
    const Json *fallback = json_find(night.evidence, "release.fallback");
    ck_assert(json_bool_or(json_get(fallback, "verified"), false));
    ck_assert_str_eq(json_text_or(json_get(fallback, "kind"), ""), "release");
    ck_assert(json_is_null(json_get(fallback, "problem")));

    night.head.release_digest.bytes[0] ^= 1;   // whole, but not what was promoted
    ck_assert(night_put_release(&night, &error));
    fallback = json_find(night.evidence, "release.fallback");
    ck_assert(!json_bool_or(json_get(fallback, "verified"), true));
    ck_assert_str_ne(json_text_or(json_get(fallback, "problem"), ""), "");
    night.head.release_digest.bytes[0] ^= 1;

    support_write(support_path(home, "releases/m-0123456789abcdef/model.safetensors"), "rotten!");
    ck_assert(night_put_release(&night, &error));
    fallback = json_find(night.evidence, "release.fallback");
    ck_assert(!json_bool_or(json_get(fallback, "verified"), true));
    ck_assert_ptr_nonnull(strstr(json_text_or(json_get(fallback, "problem"), ""), "model.safetensors"));
}
END_TEST

START_TEST(the_owner_is_the_configuration_s_else_the_home_s)
{
    ck_assert(night_put_release(&night, &error));
    ck_assert_str_eq(json_text_or(json_find(night.evidence, "release.owner"), ""), "alice");
    static const char *const sets[] = {"model=m", "data.target=y"};
    OWNED(Config, config_free) *nobody = config_load(NULL, sets, 2, NULL, &error);
    night.config = nobody;
    ck_assert(night_put_release(&night, &error));
    ck_assert_str_eq(json_text_or(json_find(night.evidence, "release.owner"), "?"), "");
    support_write(support_path(home, "home.json"), "{\"format\":1,\"owner\":\"bob\"}");
    ck_assert(night_put_release(&night, &error));
    ck_assert_str_eq(json_text_or(json_find(night.evidence, "release.owner"), ""), "bob");
    ck_assert(json_is_null(json_find(night.evidence, "release.simulation")));
    night.config = config;
}
END_TEST

// -- cost: 30 s for 15,000 samples, at 36 an hour

// An interrupted start of the same run was paid for too.
START_TEST(cost_is_of_all_starts_of_the_run)
{
    json_put_number(night.seconds, "train", 60);
    json_put_integer(night.train_result, "run_samples", 1000);
    json_put_integer(night.train_result, "samples", 500);   // since it was resumed
    night.spent_seconds = 40;
    OWNED(Json, json_free) *cost = json_make_object();
    night_put_cost(&night, cost);
    ck_assert_double_eq(json_number_or(json_get(cost, "device_seconds"), 0), 100);
    ck_assert_int_eq(json_integer_or(json_get(cost, "samples"), 0), 1000);
}
END_TEST

START_TEST(cost_is_device_seconds_at_the_declared_rate)
{
    json_put_number(night.seconds, "train", 20);
    json_put_number(night.seconds, "parity", 10);
    ck_assert(night_put_release(&night, &error));
    ck_assert(isnan(number("cost.cost_per_sample")));   // nothing was trained
    json_put_integer(night.train_result, "run_samples", 15000);
    ck_assert(night_put_release(&night, &error));
    ck_assert_double_eq(number("cost.device_seconds"), 30);
    ck_assert_double_eq_tol(number("cost.cost_per_sample"), 0.002, 1e-15);
    ck_assert_str_eq(json_text_or(json_find(night.evidence, "cost.unit"), ""), "device second");
    static const char *const sets[] = {"model=m", "data.target=y", "cost.device_hour=36", "cost.limit=1"};
    OWNED(Config, config_free) *rated = config_load(NULL, sets, 4, NULL, &error);
    night.config = rated;
    ck_assert(night_put_release(&night, &error));
    ck_assert_double_eq_tol(number("cost.cost_per_sample"), 30 * 0.01 / 15000, 1e-15);
    ck_assert_str_eq(json_text_or(json_find(night.evidence, "cost.unit"), ""), "currency");
    Finding finding = {0};
    gate_find_check("cost")->judge(night.evidence, rated, &finding);   // producer and judge agree
    ck_assert_msg(finding.outcome == OUTCOME_PASS, "%s", finding.reason);
    night.config = config;
}
END_TEST

// -- shift of the scores

enum { ROWS = 1000 };

static Json *shift_of(double *live, double *scores, int width, Child *child)
{
    static char version[] = "m-1";
    child->evidence = json_make_object();
    child->night = &night;
    Evaluation e = {.child = child, .night = &night, .width = width, .live_kind = "release"};
    e.test.rows = ROWS;
    e.models[MODEL_CANDIDATE] = (Scores){.present = true, .test = scores};
    e.models[MODEL_LIVE] = (Scores){.present = true, .test = live};
    ck_assert(text_copy(e.models[MODEL_LIVE].version, sizeof e.models[MODEL_LIVE].version, version));
    ck_assert_msg(evaluate_put_shift(&e, &error), "%s", error.message);
    return child->evidence;
}

static double shown(const Json *evidence, const char *key)
{
    return json_number_or(json_get(json_get(evidence, "distribution"), key), -1);
}

static double tenth(int row, int shift)   // 1000 rows in ten equal bins; shift moves whole bins
{
    return ((row + shift * (ROWS / 10)) % ROWS) / (double)ROWS;
}

START_TEST(the_same_scores_do_not_shift)
{
    double live[ROWS], scores[ROWS];
    Child child = {0};
    for (int i = 0; i < ROWS; i++) {
        live[i] = tenth(i, 0);
        scores[i] = tenth(i, 3);   // in another order: the same distribution
    }
    OWNED(Json, json_free) *evidence = shift_of(live, scores, 1, &child);
    ck_assert_double_eq_tol(shown(evidence, "psi"), 0, 1e-12);
    ck_assert_double_eq_tol(shown(evidence, "mean_difference"), 0, 1e-12);
    ck_assert_double_eq_tol(shown(evidence, "deviation"),
                            sqrt((ROWS * ROWS - 1) / 12.0 * ROWS / (ROWS - 1)) / ROWS, 1e-9);
}
END_TEST

// All of the lowest tenth moved into the highest: 2 of 10 bins change, PSI = (0.2 - 0.1) ln 2 + (0.1 - 1e-4)
// ln 1000.
START_TEST(a_tenth_that_moved_is_measured)
{
    double live[ROWS], scores[ROWS];
    Child child = {0};
    for (int i = 0; i < ROWS; i++) {
        live[i] = tenth(i, 0);
        scores[i] = live[i] < 0.1 ? 0.95 : live[i];
    }
    OWNED(Json, json_free) *evidence = shift_of(live, scores, 1, &child);
    ck_assert_double_eq_tol(shown(evidence, "psi"), 0.1 * log(2) + (0.1 - 1e-4) * log(1000), 1e-3);
    ck_assert_double_eq_tol(shown(evidence, "mean_difference"), 0.1 * (0.95 - 0.0495), 1e-9);
}
END_TEST

START_TEST(of_several_scores_the_worst_is_shown)
{
    static double live[3 * ROWS], scores[3 * ROWS];
    Child child = {0};
    for (int i = 0; i < ROWS; i++) {
        for (int c = 0; c < 3; c++) {
            live[3 * i + c] = tenth(i, c);
            scores[3 * i + c] = tenth(i, c) + (c == 1 ? 0.5 : 0);
        }
    }
    OWNED(Json, json_free) *evidence = shift_of(live, scores, 3, &child);
    ck_assert_double_eq_tol(shown(evidence, "mean_difference"), 0.5, 1e-9);
    ck_assert_double_gt(shown(evidence, "psi"), 1);
    scores[0] = (double)NAN;   // in the first column only: nothing may hide it
    json_free(evidence);
    evidence = shift_of(live, scores, 3, &child);
    ck_assert(isnan(json_number_or(json_find(evidence, "distribution.psi"), 0)));
    ck_assert(isnan(json_number_or(json_find(evidence, "distribution.mean_difference"), 0)));
}
END_TEST

START_TEST(a_constant_live_version_has_no_deviation)
{
    double live[ROWS], scores[ROWS];
    Child child = {0};
    for (int i = 0; i < ROWS; i++) {
        live[i] = 0.5;
        scores[i] = tenth(i, 0);
    }
    OWNED(Json, json_free) *evidence = shift_of(live, scores, 1, &child);
    ck_assert_double_eq(shown(evidence, "deviation"), 0);
}
END_TEST

START_TEST(nothing_live_is_said)
{
    Child child = {.evidence = json_make_object(), .night = &night};
    Evaluation e = {.child = &child, .night = &night, .width = 1, .live_kind = "baseline"};
    ck_assert(evaluate_put_shift(&e, &error));
    ck_assert_str_eq(json_text_or(json_find(child.evidence, "distribution.live_kind"), ""), "baseline");
    ck_assert_uint_eq(json_count(json_get(child.evidence, "distribution")), 1);
    json_free(child.evidence);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("night_release");
    TCase *t = tcase_create("release");
    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_add_test(t, every_hand_checked_result_comes_out);
    tcase_add_loop_test(t, the_example_is_a_step_of_this_night_that_adds_up, 0,
                        (int)(sizeof examples / sizeof examples[0]));
    tcase_add_test(t, the_fallback_is_hashed_again);
    tcase_add_test(t, the_owner_is_the_configuration_s_else_the_home_s);
    tcase_add_test(t, cost_is_of_all_starts_of_the_run);
    tcase_add_test(t, cost_is_device_seconds_at_the_declared_rate);
    tcase_add_test(t, the_same_scores_do_not_shift);
    tcase_add_test(t, a_tenth_that_moved_is_measured);
    tcase_add_test(t, of_several_scores_the_worst_is_shown);
    tcase_add_test(t, a_constant_live_version_has_no_deviation);
    tcase_add_test(t, nothing_live_is_said);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    SRunner *runner = srunner_create(suite());
    srunner_run_all(runner, CK_ENV);
    int bad = srunner_ntests_failed(runner);
    srunner_free(runner);
    return bad != 0;
}
