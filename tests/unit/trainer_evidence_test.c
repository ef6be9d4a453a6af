// trainer_evidence_test - what a good run's evidence says, and that each planted fault shows where a real one
// would.
#include "trainer_world.h"

#include "../../src/trainer/trainer_internal.h"

static const char *const long_run[] = {"train.epochs=8", "train.patience=20", "telemetry.window=5", NULL};

typedef struct Run {
    World world;
    Trainer *trainer;
    Json *evidence;
    TrainResult result;
} Run;

static void run_open(Run *run, bool simulated, const char *fault)
{
    Error error = ERROR_INIT;
    if (fault)
        setenv("FEDGATE_FAULT", fault, 1);
    world_open(&run->world, "binary", simulated, 1, long_run);
    run->trainer = world_trainer(&run->world, 0, NULL, NULL);
    run->evidence = json_make_object();
    ck_assert_msg(trainer_rehearse(run->trainer, run->evidence, &error), "%s", error.message);
    ck_assert_msg(trainer_parity_early(run->trainer, run->evidence, &error), "%s", error.message);
    run->result = world_train(run->trainer, run->evidence);
    ck_assert_msg(trainer_replay(run->trainer, run->evidence, &error), "%s", error.message);
}

static void run_close(Run *run)
{
    trainer_free(run->trainer);
    json_free(run->evidence);
    world_close(&run->world);
    unsetenv("FEDGATE_FAULT");
}

static int64_t sum(const Run *run, const char *series, size_t first)
{
    const Json *array = json_find(run->evidence, series);
    ck_assert_msg(json_is_array(array), "%s is missing", series);
    int64_t total = 0;
    for (size_t i = first; i < json_count(array); i++)
        total += json_integer_or(json_at(array, i), -1);
    return total;
}

static const Json *claim(const Run *run, const char *name)
{
    const Json *claims = json_find(run->evidence, "plausible.claims");
    for (size_t i = 0; i < json_count(claims); i++)
        if (strcmp(json_text_or(json_get(json_at(claims, i), "name"), ""), name) == 0)
            return json_at(claims, i);
    return NULL;
}

static int64_t uncovered(const Run *run, size_t step)
{
    static const char *const spans[] = {"loop.steps.wait_ns", "loop.steps.exposed_copy_ns",
                                        "loop.steps.compute_ns", "loop.steps.rest.hand_over",
                                        "loop.steps.rest.bookkeeping"};
    int64_t left = json_integer_or(json_at(json_find(run->evidence, "loop.steps.wall_ns"), step), -1);
    for (size_t i = 0; i < sizeof spans / sizeof spans[0]; i++)
        left -= json_integer_or(json_at(json_find(run->evidence, spans[i]), step), 0);
    return left;
}

static bool replays_agree(const Run *run)
{
    const Json *replays = json_find(run->evidence, "determinism.replays");
    ck_assert_uint_eq(json_count(replays), 2);
    bool same = true;
    for (size_t r = 0; r < 2; r++) {
        const Json *tensors = json_get(json_at(replays, r), "tensors");
        ck_assert_uint_eq(json_count(tensors), run->trainer->network.layout.count);
        for (size_t i = 0; i < json_count(tensors); i++)
            same &= strcmp(json_text_or(json_get(json_at(tensors, i), "first"), "a"),
                           json_text_or(json_get(json_at(tensors, i), "again"), "b")) == 0;
    }
    return same;
}

static bool probes_pass(const Run *run)
{
    const Json *probes = json_find(run->evidence, "parity.probes");
    ck_assert_uint_ge(json_count(probes), 2);
    bool good = true;
    for (size_t i = 0; i < json_count(probes); i++) {
        double limit = json_number_or(json_get(json_at(probes, i), "limit"), 1);
        ck_assert_double_le(limit, 1e-4);
        good &= json_number_or(json_get(json_at(probes, i), "error"), 1) <= limit;
    }
    return good;
}

START_TEST(a_good_run_on_the_simulated_clock_lasts_what_the_model_says)
{
    Run run;
    run_open(&run, true, NULL);
    int64_t steps = run.result.steps;
    ck_assert_int_eq(steps, run.result.planned_steps);
    ck_assert_uint_eq(json_count(json_find(run.evidence, "loop.steps.index")), (size_t)steps);
    ck_assert_int_eq(sum(&run, "loop.steps.compute_ns", 0), steps * 1000000);
    ck_assert_int_eq(sum(&run, "loop.steps.wait_ns", 1), 0);
    ck_assert_int_eq(sum(&run, "loop.steps.exposed_copy_ns", 1), 0);
    ck_assert_int_eq(sum(&run, "loop.steps.rest.bookkeeping", 0), steps * 5000);
    for (size_t i = 0; i < (size_t)steps; i++)
        ck_assert_int_eq(uncovered(&run, i), 0);
    ck_assert_int_eq(sum(&run, "timeline.steps.hidden_ns", 1), sum(&run, "timeline.steps.copy_ns", 1));
    ck_assert_int_gt(sum(&run, "timeline.steps.copy_ns", 1), 0);
    ck_assert_int_eq(sum(&run, "timeline.steps.starved_ns", 1), 0);
    ck_assert_int_eq(sum(&run, "timeline.steps.pageable_bytes", 0), 0);
    ck_assert_str_eq(json_text_or(json_get(run.evidence, "limiting_stage"), ""), "compute");
    ck_assert_int_eq(json_integer_or(json_get(claim(&run, "training step"), "time_ns"), 0), steps * 1000000);
    ck_assert_int_eq(json_integer_or(json_get(claim(&run, "training step"), "kernel_union_ns"), 0),
                     steps * 1000000);
    ck_assert(json_bool_or(json_find(run.evidence, "memory.rehearsal.ok"), false));
    const Json *live = json_find(run.evidence, "memory.live.bytes");
    ck_assert_int_eq(json_integer_or(json_at(live, 0), 0),
                     json_integer_or(json_at(live, json_count(live) - 1), 1));
    ck_assert_int_eq(json_integer_or(json_find(run.evidence, "plausible.clock.host_ns"), 0),
                     json_integer_or(json_find(run.evidence, "plausible.clock.device_ns"), 1));
    ck_assert(replays_agree(&run) && probes_pass(&run));
    run_close(&run);
}
END_TEST

START_TEST(a_run_on_the_real_clock_measures_every_part_by_itself)
{
    Run run;
    run_open(&run, false, NULL);
    size_t steps = (size_t)run.result.steps, closed = 0;
    ck_assert_uint_eq(json_count(json_find(run.evidence, "loop.steps.wall_ns")), steps);
    for (size_t i = 0; i < steps; i++)
        closed += uncovered(&run, i) >= 0;
    ck_assert_uint_eq(closed,
                      steps);   // no part is counted twice; how small the rest is depends on the machine
    ck_assert_uint_eq(json_count(json_find(run.evidence, "timeline.steps.index")), steps);
    ck_assert_int_gt(sum(&run, "timeline.steps.h2d_bytes", 0), 0);
    for (int i = 0; i < 3; i++) {
        const Json *c = claim(&run, (const char *const[]){"forward", "backward", "training step"}[i]);
        ck_assert_int_ge(json_integer_or(json_get(c, "time_ns"), 0),
                         json_integer_or(json_get(c, "kernel_union_ns"), INT64_MAX));
        ck_assert_int_gt(json_integer_or(json_get(c, "kernel_union_ns"), 0), 0);
        ck_assert_int_eq(json_integer_or(json_get(c, "count"), 0), (int64_t)steps);
    }
    ck_assert_int_eq(json_integer_or(json_find(run.evidence, "timeline.trust.dropped"), 1), 0);
    ck_assert(replays_agree(&run));
    run_close(&run);
}
END_TEST

START_TEST(the_flop_of_a_claim_follow_from_the_shapes)
{
    Run run;
    run_open(&run, true, NULL);
    // forward 2 x rows x (4 x 8 + 8 x 5 + 5 x 1), backward twice that: numbers 2 and an embedding of 2
    double rows = (double)(run.result.samples), one = 2 * rows * (4 * 8 + 8 * 5 + 5);
    ck_assert_double_eq(json_number_or(json_get(claim(&run, "training step"), "flop"), 0), 3 * one);
    run_close(&run);
}
END_TEST

#ifdef FEDGATE_FAULTS

static bool shows_pageable(const Run *run)
{
    return sum(run, "timeline.steps.pageable_bytes", 1) == sum(run, "timeline.steps.h2d_bytes", 1);
}
static bool shows_serial(const Run *run)
{
    return sum(run, "timeline.steps.hidden_ns", 1) == 0 && sum(run, "loop.steps.exposed_copy_ns", 1) > 0;
}
static bool shows_slow_copy(const Run *run)
{
    return sum(run, "loop.steps.exposed_copy_ns", 2) > 0;
}
static bool shows_wait(const Run *run)
{
    return sum(run, "loop.steps.wait_ns", 1) > sum(run, "loop.steps.compute_ns", 1) &&
           strcmp(json_text_or(json_get(run->evidence, "limiting_stage"), ""), "decode") == 0;
}
static bool shows_stall(const Run *run)
{
    return sum(run, "timeline.steps.starved_ns", 1) >= 5 * 9000000 && uncovered(run, 4) == 0;
}
static bool shows_nan(const Run *run)
{
    return isnan(run->trainer->progress.last_loss) &&
           isnan(run->trainer->best[run->trainer->network.layout.at[1].offset]);
}
static bool shows_leak(const Run *run)
{
    const Json *live = json_find(run->evidence, "memory.live.bytes");
    size_t count = json_count(live);
    return json_integer_or(json_at(live, count - 1), 0) - json_integer_or(json_at(live, 0), 0) ==
           (int64_t)(count - 1) * 4096;
}
static bool shows_unsynchronised(const Run *run)
{
    const Json *c = claim(run, "training step");
    return json_integer_or(json_get(c, "time_ns"), 0) < json_integer_or(json_get(c, "kernel_union_ns"), 0);
}
static bool shows_perturbed(const Run *run)
{
    return !replays_agree(run);
}
static bool shows_tf32(const Run *run)
{
    return !probes_pass(run);
}
static bool shows_extra(const Run *run)
{
    return json_integer_or(json_find(run->evidence, "memory.measured_peak_bytes"), 0) > 10000000;
}
static bool shows_unnamed(const Run *run)
{
    return uncovered(run, 3) == 70000;
}
static bool shows_shuffled(const Run *run)
{
    return run->result.best_validation_loss > 0.6;
}
static bool shows_refilled(const Run *run)
{
    const Json *order = json_find(run->evidence, "determinism.order");
    return strcmp(json_text_or(json_get(order, "digest"), "none"),
                  json_text_or(json_get(order, "device_digest"), "lost")) != 0;
}

static const struct {
    const char *fault;
    bool (*shows)(const Run *);
} faults[] = {
    {"copy.pageable=1", shows_pageable},
    {"copy.serial=1", shows_serial},
    {"copy.slow_ns=3000000", shows_slow_copy},
    {"feed.refill_early=1", shows_refilled},
    {"decode.slow_ns=5000000", shows_wait},
    {"step.stall_every=5,step.stall_ns=9000000", shows_stall},
    {"train.nan_step=20", shows_nan},
    {"train.leak_bytes=4096", shows_leak},
    {"train.unsynchronised=1", shows_unsynchronised},
    {"determinism.perturb=1", shows_perturbed},
    {"compute.tf32=1", shows_tf32},
    {"memory.extra_bytes=10000000", shows_extra},
    {"closure.unnamed_ns=70000", shows_unnamed},
    {"quality.shuffle_labels=1", shows_shuffled},
};

START_TEST(a_planted_fault_shows_where_a_real_one_would)
{
    Run good, bad;
    run_open(&good, true, NULL);
    ck_assert_msg(!faults[_i].shows(&good), "%s shows in a good run", faults[_i].fault);
    run_close(&good);
    run_open(&bad, true, faults[_i].fault);
    ck_assert_msg(faults[_i].shows(&bad), "%s does not show", faults[_i].fault);
    run_close(&bad);
}
END_TEST

// What the real path must show too, without a bound on speed.
static bool shows_real_unnamed(const Run *run)
{
    return uncovered(run, 3) >= 3000000;
}
static bool shows_real_stall(const Run *run)
{
    return sum(run, "loop.steps.rest.bookkeeping", 0) >= 5 * 9000000;
}
static const struct {
    const char *fault;
    bool (*shows)(const Run *);
} real_faults[] = {
    {"copy.pageable=1", shows_pageable},
    {"feed.refill_early=1", shows_refilled},
    {"step.stall_every=5,step.stall_ns=9000000", shows_real_stall},
    {"train.nan_step=20", shows_nan},
    {"train.leak_bytes=4096", shows_leak},
    {"train.unsynchronised=1", shows_unsynchronised},
    {"closure.unnamed_ns=3000000", shows_real_unnamed},
    {"quality.shuffle_labels=1", shows_shuffled},
};

START_TEST(a_planted_fault_acts_on_the_real_clock_too)
{
    Run run;
    run_open(&run, false, real_faults[_i].fault);
    ck_assert_msg(real_faults[_i].shows(&run), "%s does not show", real_faults[_i].fault);
    run_close(&run);
}
END_TEST

#endif

START_TEST(a_rehearsal_that_does_not_fit_is_refused_and_says_so)
{
    World world;
    Error error = ERROR_INIT;
    world_open(&world, "binary", true, 1, NULL);
    Trainer *trainer = world_trainer(&world, 0, NULL, NULL);
    ledger_set_budget(world.ledger, LEDGER_DEVICE, ledger_live(world.ledger, LEDGER_DEVICE) + 100);
    Json *evidence = json_make_object();
    ck_assert(!trainer_rehearse(trainer, evidence, &error));
    ck_assert_int_eq(error.kind, ERROR_MEMORY);
    ck_assert(!json_bool_or(json_find(evidence, "memory.rehearsal.ok"), true));
    ledger_set_budget(world.ledger, LEDGER_DEVICE, 0);
    json_free(evidence);
    trainer_free(trainer);
    world_close(&world);
}
END_TEST

START_TEST(a_rehearsal_leaves_the_run_as_it_was)
{
    Digest digest[2];
    for (int i = 0; i < 2; i++) {
        World world;
        Error error = ERROR_INIT;
        world_open(&world, "regression", true, 1, NULL);
        Trainer *trainer = world_trainer(&world, 0, NULL, NULL);
        Json *evidence = json_make_object();
        ck_assert(i == 0 || trainer_rehearse(trainer, evidence, &error));
        world_train(trainer, evidence);
        digest[i] = world_digest(trainer);
        json_free(evidence);
        trainer_free(trainer);
        world_close(&world);
    }
    ck_assert(digest_equal(&digest[0], &digest[1]));
}
END_TEST

// All at once, pieces of a microbatch, of less (never below one), of more.
static const struct {
    int64_t asked, held;
} pieces[] = {{0, 0}, {16, 16}, {5, 16}, {20, 20}};

START_TEST(validation_in_pieces_gives_the_same_loss)
{
    double loss[sizeof pieces / sizeof pieces[0]];
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        World world;
        world_open(&world, "binary", true, 1, NULL);
        Error error = ERROR_INIT;
        world.validation_rows = pieces[i].asked;
        Trainer *trainer = world_trainer(&world, 16, NULL, NULL);
        ck_assert(pieces[i].held == 0 || trainer->table_rows == pieces[i].held);
        ck_assert(trainer_validate(trainer, &loss[i], &error));
        ck_assert_double_eq(loss[i], loss[0]);
        trainer_free(trainer);
        world_close(&world);
    }
}
END_TEST

static bool count_calls(void *context, const TrainProgress *progress)
{
    int64_t *seen = context;
    seen[0]++;
    seen[1] += progress->block_steps;
    seen[2] += progress->epoch_ended;
    return true;
}

START_TEST(the_watch_sees_every_step_once_and_every_end_of_an_epoch)
{
    World world;
    int64_t seen[3] = {0};
    world_open(&world, "binary", true, 1, (const char *const[]){"telemetry.window=3", NULL});
    Trainer *trainer = world_trainer(&world, 0, count_calls, seen);
    Json *evidence = json_make_object();
    TrainResult result = world_train(trainer, evidence);
    ck_assert_int_eq(seen[1], result.steps);
    ck_assert_int_eq(seen[2], 4);
    ck_assert_int_eq(seen[0], 4 * 3);   // eight steps an epoch: 3, 3, 2
    json_free(evidence);
    trainer_free(trainer);
    world_close(&world);
}
END_TEST

START_TEST(a_time_limit_stops_the_run_with_a_checkpoint)
{
    World world;
    world_open(&world, "binary", true, 1, (const char *const[]){"train.time_limit=10ms", NULL});
    Trainer *trainer = world_trainer(&world, 0, NULL, NULL);
    Json *evidence = json_make_object();
    TrainResult result = world_train(trainer, evidence);
    ck_assert(result.stopped_early);
    ck_assert_int_lt(result.steps, 20);
    trainer_free(trainer);
    trainer = world_trainer(&world, 0, NULL, NULL);
    Json *again = json_make_object();
    ck_assert_int_eq(world_train(trainer, again).resumed_from, result.steps);
    json_free(again);
    json_free(evidence);
    trainer_free(trainer);
    world_close(&world);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("trainer evidence");
    TCase *t = tcase_create("evidence");
    tcase_add_test(t, a_good_run_on_the_simulated_clock_lasts_what_the_model_says);
    tcase_add_test(t, a_run_on_the_real_clock_measures_every_part_by_itself);
    tcase_add_test(t, the_flop_of_a_claim_follow_from_the_shapes);
#ifdef FEDGATE_FAULTS
    tcase_add_loop_test(t, a_planted_fault_shows_where_a_real_one_would, 0, sizeof faults / sizeof faults[0]);
    tcase_add_loop_test(t, a_planted_fault_acts_on_the_real_clock_too, 0,
                        sizeof real_faults / sizeof real_faults[0]);
#endif
    tcase_add_test(t, a_rehearsal_that_does_not_fit_is_refused_and_says_so);
    tcase_add_test(t, a_rehearsal_leaves_the_run_as_it_was);
    tcase_add_test(t, validation_in_pieces_gives_the_same_loss);
    tcase_add_test(t, the_watch_sees_every_step_once_and_every_end_of_an_epoch);
    tcase_add_test(t, a_time_limit_stops_the_run_with_a_checkpoint);
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
