// launches_judged_test - what training by launches puts into evidence, before the judges: a good run is
// understood by all of them, and the faults that only launches can have are refused by the right one.
//
// The device is that of tests/support/async_backend.h. How busy it is depends on the machine, so nothing is
// asked of the figures themselves: a judge may call a slow run slow, never malformed or unmeasured.
#include "../unit/trainer_world.h"

#include "async_backend.h"

#include <fedgate/gate.h>

typedef struct Judged {
    World world;
    Trainer *trainer;
    Json *evidence;
} Judged;

static const AsyncOptions usual = {.records = true, .traces = true, .operation_ns = 20000};

static Json *widths(const int64_t *values, size_t count)
{
    Json *array = json_make_array();
    for (size_t i = 0; i < count; i++)
        json_add_integer(array, values[i]);
    return array;
}

static Json *shape_of(const Judged *judged)
{
    static TrainShape shape;
    Json *json = json_make_object();
    trainer_shape(judged->world.config, judged->world.maps, &shape);
    json_put_integer(json, "numeric", shape.numeric);
    json_put(json, "embedding", widths(shape.embedding, (size_t)shape.categorical));
    json_put(json, "hidden", widths(shape.hidden, shape.layers));
    json_put_integer(json, "outputs", shape.outputs);
    json_put_integer(json, "element_bytes", 4);
    json_put_integer(json, "batch", config_integer(judged->world.config, "train.batch"));
    return json;
}

// What a night adds to the sections that the trainer makes.
static void complete(Judged *judged, const TrainResult *result)
{
    Json *window = json_make_object(),
         *plausible = (Json *)(uintptr_t)json_get(judged->evidence, "plausible");
    json_put_integer(window, "planned_steps", result->planned_steps);
    json_put_integer(window, "done_steps", result->steps);
    json_put(judged->evidence, "window", window);
    json_put_integer(judged->evidence, "resumed_from_step", result->resumed_from);
    json_put_text(judged->evidence, "precision", "fp32");
    json_put_text(judged->evidence, "device_class", "NVIDIA H200");
    json_put_text(plausible, "device", "NVIDIA H200");
    json_put_text(plausible, "precision", "fp32");
    json_put(plausible, "shape", shape_of(judged));
    json_put_number(plausible, "peak_flops", 5e13);
    json_put_number(plausible, "bandwidth", 0);
}

static Judged judged_open(const AsyncOptions *options, const char *fault, const char *const *sets)
{
    Error error = ERROR_INIT;
    Judged judged = {.evidence = json_make_object()};
    if (fault)
        setenv("FEDGATE_FAULT", fault, 1);
    world_open_on(&judged.world, async_backend(&fedgate_backend, options), "binary", false, 1, sets);
    judged.trainer = world_trainer(&judged.world, 0, NULL, NULL);
    TrainResult result = world_train(judged.trainer, judged.evidence);
    ck_assert_msg(trainer_replay(judged.trainer, judged.evidence, &error), "%s", error.message);
    complete(&judged, &result);
    unsetenv("FEDGATE_FAULT");
    return judged;
}

static void judged_close(Judged *judged)
{
    trainer_free(judged->trainer);
    json_free(judged->evidence);
    world_close(&judged->world);
}

static Finding judge(const Judged *judged, const char *name)
{
    Finding finding = {0};
    const GateCheck *check = gate_find_check(name);
    ck_assert_ptr_nonnull(check);
    check->judge(judged->evidence, judged->world.config, &finding);
    return finding;
}

static const char *const streaming[] = {"train.batch=32", "train.launch_steps=4", "train.epochs=8",
                                        "train.patience=20", NULL};
static const char *const resident[] = {"train.batch=32",    "train.launch_steps=4", "train.epochs=8",
                                       "train.patience=20", "input.resident=true",  NULL};
static const char *const *const feedings[] = {streaming, resident};

START_TEST(judges_understand_what_launches_measured)
{
    static const char *const names[] = {"overlap", "fed", "plausible", "closure"};
    Judged judged = judged_open(&usual, NULL, feedings[_i]);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        Finding finding = judge(&judged, names[i]);
        ck_assert_msg(finding.outcome == OUTCOME_PASS || finding.outcome == OUTCOME_FAIL, "%s: %s, %s",
                      names[i], gate_outcome_name(finding.outcome), finding.reason);
    }
    Finding finding = judge(&judged, "determinism");
    ck_assert_msg(finding.outcome == OUTCOME_PASS, "%s", finding.reason);
    judged_close(&judged);
}
END_TEST

START_TEST(an_untrusted_trace_is_no_evidence)
{
    AsyncOptions options = usual;
    options.trust.dropped = 1;
    Judged judged = judged_open(&options, NULL, streaming);
    Finding finding = judge(&judged, "overlap");
    ck_assert_msg(finding.outcome == OUTCOME_ERROR && strstr(finding.reason, "dropped"), "%s",
                  finding.reason);
    judged_close(&judged);
}
END_TEST

#ifdef FEDGATE_FAULTS

static const struct {
    const char *fault, *check;
    int64_t copy_ns;
    const char *sets[6];
} planted[] = {
    {"train.unsynchronised=1", "plausible", 0, {"train.batch=32", "train.launch_steps=4"}},
    // Codes of another group may be out of range where the two are laid out differently: numbers only.
    {"feed.refill_early=1",
     "determinism",
     3000000,
     {"train.batch=32", "train.launch_steps=4", "data.categorical="}},
    {"determinism.perturb=1", "determinism", 0, {"train.batch=32", "train.launch_steps=4"}},
};

START_TEST(a_fault_of_launches_is_refused_by_the_right_judge)
{
    AsyncOptions options = usual;
    options.copy_ns = planted[_i].copy_ns;
    Judged judged = judged_open(&options, planted[_i].fault, planted[_i].sets);
    Finding finding = judge(&judged, planted[_i].check);
    ck_assert_msg(finding.outcome == OUTCOME_FAIL, "%s: %s, %s", planted[_i].fault,
                  gate_outcome_name(finding.outcome), finding.reason);
    judged_close(&judged);
}
END_TEST

#endif

static Suite *suite(void)
{
    Suite *s = suite_create("launches judged");
    TCase *t = tcase_create("judges");
    tcase_add_loop_test(t, judges_understand_what_launches_measured, 0, 2);
    tcase_add_test(t, an_untrusted_trace_is_no_evidence);
#ifdef FEDGATE_FAULTS
    tcase_add_loop_test(t, a_fault_of_launches_is_refused_by_the_right_judge, 0,
                        sizeof planted / sizeof planted[0]);
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
