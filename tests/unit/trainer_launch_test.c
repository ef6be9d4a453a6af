// trainer_launch_test - training by launches on a device that works beside the host: the bits of a run step
// by step, whatever the groups; what is in flight, read back, traced; a device that hangs or fails.
#include "trainer_world.h"

#include "../../src/trainer/launch.h"
#include "async_backend.h"

typedef struct Run {
    World world;
    Trainer *trainer;
    Json *evidence;
    TrainResult result;
    Digest digest;
    AsyncCounts counts;
} Run;

static const AsyncOptions plain = {.records = true, .traces = true};

static bool stop_at(void *context, const TrainProgress *progress)
{
    const int64_t *step = context;
    return *step == 0 || progress->step < *step;
}

// options NULL: on the cpu, step by step. stop: where it is stopped and goes on in a new trainer; 0: nowhere.
static Run run_on(const AsyncOptions *options, const char *task, int64_t microbatch, const char *const *sets,
                  int64_t stop)
{
    Run run = {.evidence = json_make_object()};
    world_open_on(&run.world, options ? async_backend(&fedgate_backend, options) : NULL, task, false, 1,
                  sets);
    run.trainer = world_trainer(&run.world, microbatch, stop_at, &stop);
    if (stop > 0) {
        Json *first = json_make_object();
        ck_assert(world_train(run.trainer, first).stopped_early);
        json_free(first);
        trainer_free(run.trainer);
        stop = 0;
        run.trainer = world_trainer(&run.world, microbatch, NULL, NULL);
    }
    run.result = world_train(run.trainer, run.evidence);
    run.digest = world_digest(run.trainer);
    run.counts = async_counts();
    return run;
}

static void run_close(Run *run)
{
    trainer_free(run->trainer);
    json_free(run->evidence);
    world_close(&run->world);
}

static int64_t number(const Run *run, const char *path)
{
    return json_integer_or(json_find(run->evidence, path), -1);
}

static const Json *claim(const Run *run)
{
    const Json *claims = json_find(run->evidence, "plausible.claims");
    ck_assert_uint_eq(json_count(claims), 1);
    return json_at(claims, 0);
}

static int64_t claimed(const Run *run, const char *key)
{
    return json_integer_or(json_get(claim(run), key), -1);
}

static int64_t sum(const Run *run, const char *series)
{
    const Json *array = json_find(run->evidence, series);
    int64_t total = 0;
    ck_assert_msg(json_is_array(array), "%s is missing", series);
    for (size_t i = 0; i < json_count(array); i++)
        total += json_integer_or(json_at(array, i), -1);
    return total;
}

// -- the same bits

// 32 rows a batch: an epoch of some 560 training rows has 17 whole batches and a remainder.
static const char *const short_batches[] = {"train.batch=32", "train.launch_steps=4", NULL};
static const struct {
    const char *what, *task;
    int64_t microbatch, stop;
    bool cut;   // hardly a group stays whole, or all lie in windows
    const char *sets[8];
} ways[] = {
    {"groups of 1", "binary", 0, 0, false, {"train.launch_steps=1"}},
    {"groups of 2", "multiclass", 0, 0, false, {"train.launch_steps=2"}},
    {"groups of 5", "regression", 0, 0, false, {"train.launch_steps=5"}},
    {"groups as long as an epoch", "binary", 0, 0, true, {"train.launch_steps=64"}},
    {"microbatches", "binary", 16, 0, false, {"train.launch_steps=5"}},
    {"two slots", "binary", 0, 0, false, {"train.launch_steps=4", "input.slots=2", "input.workers=3"}},
    {"checkpoints inside groups", "binary", 0, 0, true, {"train.launch_steps=6", "train.checkpoint_every=5"}},
    {"witnesses inside groups", "binary", 0, 0, true, {"train.launch_steps=8", "determinism.steps=3"}},
    {"an end inside a group", "binary", 0, 0, true, {"train.launch_steps=8", "train.max_steps=29"}},
    {"dropout", "binary", 0, 0, false, {"train.launch_steps=4", "train.dropout=0.3"}},
    {"BF16", "binary", 0, 0, false, {"train.launch_steps=4", "train.precision=bf16"}},
    {"FP16 with skipped steps",
     "binary",
     0,
     0,
     false,
     {"train.launch_steps=4", "train.precision=fp16", "train.scale_initial=16777216",
      "train.learning_rate=0.001"}},
    {"stopped inside a group", "binary", 0, 7, false, {"train.launch_steps=4", "telemetry.window=1"}},
    {"stopped at the end of an epoch",
     "binary",
     0,
     18,
     false,
     {"train.launch_steps=4", "telemetry.window=1"}},
    {"stopped in the third epoch", "binary", 0, 39, false, {"train.launch_steps=5", "train.dropout=0.2"}},
};

static void sets_of(size_t way, const char *extra, const char **ret_sets)
{
    size_t count = 0;
    ret_sets[count++] = "train.batch=32";
    ret_sets[count++] = "train.patience=20";
    for (size_t i = 0; ways[way].sets[i]; i++)
        ret_sets[count++] = ways[way].sets[i];
    if (extra)
        ret_sets[count++] = extra;
    ret_sets[count] = NULL;
}

START_TEST(launches_give_the_bits_of_single_steps)
{
    const char *sets[12];
    sets_of((size_t)_i, NULL, sets);
    Run alone = run_on(NULL, ways[_i].task, ways[_i].microbatch, sets, 0);
    Run launched = run_on(&plain, ways[_i].task, ways[_i].microbatch, sets, ways[_i].stop);
    ck_assert_msg(digest_equal(&alone.digest, &launched.digest), "%s: other bits", ways[_i].what);
    ck_assert_int_eq(launched.result.steps, alone.result.steps);
    ck_assert_int_eq(launched.result.run_samples, alone.result.run_samples);
    ck_assert_double_eq(launched.result.best_validation_loss, alone.result.best_validation_loss);
    ck_assert(ways[_i].cut || launched.counts.replays > 0);
    ck_assert_int_le(launched.counts.recordings, ways[_i].stop > 0 ? 6 : 3);   // one a slot
    if (ways[_i].stop == 0)
        ck_assert_int_eq(sum(&launched, "loop.steps.steps"), launched.result.steps);
    const Json *order = json_find(launched.evidence, "determinism.order");
    if (launched.result.epochs > 0)
        ck_assert_str_eq(json_text_or(json_get(order, "digest"), "a"),
                         json_text_or(json_get(order, "device_digest"), "b"));
    run_close(&alone);
    run_close(&launched);
}
END_TEST

START_TEST(a_device_that_records_nothing_trains_to_the_same_bits)
{
    const AsyncOptions bare = {0};
    Run alone = run_on(NULL, "binary", 0, short_batches, 0),
        eager = run_on(&bare, "binary", 0, short_batches, 0);
    ck_assert(digest_equal(&alone.digest, &eager.digest));
    ck_assert_int_eq(eager.counts.replays, 0);
    ck_assert_int_eq(eager.trainer->group, 1);
    run_close(&alone);
    run_close(&eager);
}
END_TEST

START_TEST(resident_rows_train_to_the_same_bits_and_are_not_copied)
{
    const char *const sets[] = {"train.batch=32", "train.launch_steps=4", "input.resident=true", NULL};
    Run streamed = run_on(NULL, "binary", 0, short_batches, 0), alone = run_on(NULL, "binary", 0, sets, 0),
        launched = run_on(&plain, "binary", 0, sets, 0);
    ck_assert(digest_equal(&streamed.digest, &alone.digest));
    ck_assert(digest_equal(&streamed.digest, &launched.digest));
    ck_assert(json_bool_or(json_find(launched.evidence, "timeline.resident"), false));
    ck_assert_int_eq(sum(&launched, "timeline.steps.h2d_bytes"), 0);
    ck_assert_int_eq(sum(&alone, "timeline.steps.h2d_bytes"), 0);
    ck_assert_uint_eq(json_count(json_find(launched.evidence, "timeline.sampled_windows")),
                      (size_t)launched.counts.traces);
    ck_assert_int_gt(launched.counts.replays, 0);
    run_close(&streamed);
    run_close(&alone);
    run_close(&launched);
}
END_TEST

// A replay runs step by step: what was replayed from recordings is proved by it.
START_TEST(replayed_steps_agree_with_what_was_recorded)
{
    Error error = ERROR_INIT;
    Run run = run_on(&plain, "binary", 0, short_batches, 0);
    ck_assert_msg(trainer_replay(run.trainer, run.evidence, &error), "%s", error.message);
    const Json *replays = json_find(run.evidence, "determinism.replays");
    ck_assert_uint_eq(json_count(replays), 2);
    for (size_t r = 0; r < 2; r++) {
        const Json *tensors = json_get(json_at(replays, r), "tensors");
        for (size_t i = 0; i < json_count(tensors); i++)
            ck_assert_str_eq(json_text_or(json_get(json_at(tensors, i), "first"), "a"),
                             json_text_or(json_get(json_at(tensors, i), "again"), "b"));
    }
    run_close(&run);
}
END_TEST

START_TEST(rehearsal_and_parity_leave_a_launched_run_as_it_was)
{
    Error error = ERROR_INIT;
    const char *const sets[] = {"train.batch=32", "train.launch_steps=4", "train.precision=bf16", NULL};
    Run alone = run_on(NULL, "binary", 0, sets, 0);
    World world;
    world_open_on(&world, async_backend(&fedgate_backend, &plain), "binary", false, 1, sets);
    Trainer *trainer = world_trainer(&world, 0, NULL, NULL);
    OWNED(Json, json_free) *evidence = json_make_object();
    ck_assert_msg(trainer_rehearse(trainer, evidence, &error), "%s", error.message);
    ck_assert_int_gt(async_counts().replays, 0);   // recordings are under the budget too
    int64_t peak = ledger_peak(world.ledger, LEDGER_DEVICE);
    ck_assert_msg(trainer_parity_early(trainer, evidence, &error), "%s", error.message);
    world_train(trainer, evidence);
    Digest digest = world_digest(trainer);
    ck_assert(digest_equal(&digest, &alone.digest));
    ck_assert_int_ge(peak, json_integer_or(json_find(evidence, "memory.live.bytes.0"), 0));
    trainer_free(trainer);
    world_close(&world);
    run_close(&alone);
}
END_TEST

// -- what is known of a run

START_TEST(the_watch_sees_every_step_and_its_loss_once)
{
    const char *const sets[] = {"train.batch=32", "train.launch_steps=4", "telemetry.window=8", NULL};
    Run run = run_on(&plain, "binary", 0, sets, 0);
    ck_assert_int_eq(sum(&run, "loop.steps.steps"), run.result.steps);
    ck_assert_int_le(run.counts.ahead, LAUNCHES_AHEAD);
    run_close(&run);
}
END_TEST

typedef struct Seen {
    int64_t steps, last, epochs;
    double worst;
} Seen;

static bool note(void *context, const TrainProgress *progress)
{
    Seen *seen = context;
    ck_assert_int_ge(progress->step, seen->last);   // also when it is told late
    seen->steps += progress->block_steps;
    seen->last = progress->step;
    seen->epochs += progress->epoch_ended;
    seen->worst = fmax(seen->worst, progress->train_loss);
    return true;
}

START_TEST(reports_come_late_but_whole)
{
    const char *const sets[] = {"train.batch=32", "train.launch_steps=4", "telemetry.window=3", NULL};
    World world;
    Seen seen = {0};
    world_open_on(&world, async_backend(&fedgate_backend, &plain), "binary", false, 1, sets);
    Trainer *trainer = world_trainer(&world, 0, note, &seen);
    OWNED(Json, json_free) *evidence = json_make_object();
    TrainResult result = world_train(trainer, evidence);
    ck_assert_int_eq(seen.steps, result.steps);
    ck_assert_int_eq(seen.epochs, 4);
    ck_assert(isfinite(seen.worst) && seen.worst < 2);
    trainer_free(trainer);
    world_close(&world);
}
END_TEST

START_TEST(every_step_of_a_run_has_its_time_and_windows_bear_out_the_claims)
{
    const char *const sets[] = {"train.batch=16", "train.launch_steps=4", "train.epochs=16",
                                "train.patience=20", NULL};
    Run run = run_on(&plain, "binary", 0, sets, 0);
    ck_assert_int_eq(number(&run, "timeline.device_steps.count"), run.result.steps);
    ck_assert_int_eq(number(&run, "timeline.device_steps.covered") +
                         number(&run, "timeline.device_steps.apart"),
                     run.result.steps);
    ck_assert_int_gt(number(&run, "timeline.device_steps.median_ns"), 0);
    ck_assert_int_ge(number(&run, "timeline.device_steps.longest_ns"),
                     number(&run, "timeline.device_steps.p99_ns") * 9 / 10);
    ck_assert_int_ge(run.counts.traces, 4);
    size_t traced = json_count(json_find(run.evidence, "timeline.steps.index")),
           windows = json_count(json_find(run.evidence, "timeline.sampled_windows"));
    ck_assert_uint_eq(windows, (size_t)run.counts.traces);
    ck_assert_uint_ge(traced, windows * 20);
    ck_assert_int_eq(number(&run, "timeline.trust.causality"), 0);
    ck_assert_int_eq(claimed(&run, "count"), (int64_t)(traced - windows));
    ck_assert_int_gt(claimed(&run, "kernel_union_ns"), 0);
    ck_assert_int_ge(claimed(&run, "time_ns"), claimed(&run, "kernel_union_ns"));
    int64_t host = number(&run, "plausible.clock.host_ns"),
            device = number(&run, "plausible.clock.device_ns");
    ck_assert_int_gt(host, 0);
    ck_assert_int_lt(llabs(host - device), host / 5);
    ck_assert_str_eq(json_text_or(json_find(run.evidence, "timeline.source"), ""), "async lanes");
    run_close(&run);
}
END_TEST

START_TEST(a_trace_says_what_spoils_it)
{
    AsyncOptions options = plain;
    options.trust = (FedgateTraceTrust){.dropped = 2, .reason = "another profiler has the slot"};
    Run run = run_on(&options, "binary", 0, short_batches, 0);
    ck_assert_int_eq(number(&run, "timeline.trust.dropped"), 2 * run.counts.traces);
    ck_assert_str_eq(json_text_or(json_at(json_find(run.evidence, "timeline.trust.reasons"), 0), ""),
                     "another profiler has the slot");
    run_close(&run);
}
END_TEST

// Steps and launch; how many windows of what length, from which step on, each behind how many not kept.
static const struct {
    int64_t left, launch, length, begin, lead;
    size_t count;
} plans[] = {
    {60, 1, 7, 7, 3, 4},
    {60, 4, 8, 4, 4, 3},
    {60, 14, 28, 0, 0, 1},
    {60, 20, 40, 0, 0, 1},
    {60, 64, 64, 0, 0, 1},
    {500, 1, 20, 8, 3, 4},
    {500, 4, 20, 32, 12, 4},
    {500, 14, 56, 56, 14, 4},
    {500, 20, 60, 60, 20, 4},
    {500, 64, 128, 0, 128, 1},
    {3000, 1, 20, 8, 3, 4},
    {3000, 4, 20, 32, 12, 4},
    {3000, 14, 56, 112, 42, 4},
    {3000, 20, 80, 160, 60, 4},
    {3000, 64, 256, 320, 192, 4},
    {100000, 1, 20, 8, 3, 12},
    {100000, 4, 20, 32, 12, 12},
    {100000, 14, 56, 112, 42, 12},
    {100000, 20, 80, 160, 60, 12},
    {100000, 64, 256, 512, 192, 6},
    {1380, 28, 112, 168, 84, 4},
    {8, 8, 8, 0, 0, 1},
    {1, 1, 1, 0, 0, 1},
};

// Rows of 6 batches each; batches, most steps of a launch, steps that it gets.
static const struct {
    int64_t batches, most;
    int group;
} groups[] = {{114, 32, 19}, {184, 32, 23}, {64, 32, 32}, {31, 32, 31}, {1, 32, 1},
              {0, 32, 1},    {67, 32, 22},  {5, 4, 4},    {6, 4, 3},    {9, 1, 1}};

START_TEST(a_launch_leaves_few_batches_over)
{
    World world;
    TrainShape shape;
    char most[40];
    snprintf(most, sizeof most, "train.launch_steps=%d", (int)groups[_i].most);
    const char *const sets[] = {most, "train.batch=6", NULL};
    world_open(&world, "binary", false, 1, sets);
    trainer_shape(world.config, world.maps, &shape);
    ck_assert_int_eq(trainer_group(world.config, &shape, true, groups[_i].batches * 6 + 5), groups[_i].group);
    ck_assert_int_eq(trainer_group(world.config, &shape, false, groups[_i].batches * 6 + 5), 1);
    world_close(&world);
}
END_TEST

// Between two validations, where an epoch is short: 12 epochs of so many steps.
START_TEST(windows_fit_into_an_epoch)
{
    static const struct {
        int64_t epoch, launch, lead, length;
    } fits[] = {{115, 19, 57, 57}, {81, 20, 40, 40}, {60, 20, 20, 40}, {40, 20, 0, 40}, {400, 20, 60, 80}};
    for (size_t i = 0; i < sizeof fits / sizeof fits[0]; i++) {
        Windows windows;
        windows_plan(&windows, 0, 12 * fits[i].epoch, fits[i].launch, fits[i].epoch);
        ck_assert_int_eq(windows.lead, fits[i].lead);
        ck_assert_int_eq(windows.length, fits[i].length);
        ck_assert_int_le(windows.lead + windows.length, fits[i].epoch);
    }
}
END_TEST

START_TEST(windows_follow_from_the_planned_steps)
{
    Windows windows;
    windows_plan(&windows, 1000, plans[_i].left, plans[_i].launch, plans[_i].left);
    ck_assert_int_eq(windows.length, plans[_i].length);
    ck_assert_int_eq(windows.next, 1000 + plans[_i].begin);
    ck_assert_int_eq(windows.lead, plans[_i].lead);
    ck_assert_uint_eq(windows.planned, plans[_i].count);
}
END_TEST

START_TEST(steps_between_windows_show_their_stalls)
{
    DeviceSteps *steps = calloc(1, sizeof *steps);
    int64_t at = 1000;
    for (int64_t i = 0; i < 1000; i++)
        device_steps_add(steps, i, at += i % 100 == 99 ? 40000 : 1000, false);
    device_steps_add(steps, 1000, at += 5000000, true);   // validation lay before it
    OWNED(Json, json_free) *json = device_steps_evidence(steps);
    ck_assert_int_eq(json_integer_or(json_get(json, "count"), 0), 1001);
    ck_assert_int_eq(json_integer_or(json_get(json, "covered"), 0), 999);
    ck_assert_int_eq(json_integer_or(json_get(json, "median_ns"), 0), 1000);
    ck_assert_int_eq(json_integer_or(json_get(json, "longest_ns"), 0), 40000);
    ck_assert_int_eq(json_integer_or(json_get(json, "slow_ns"), 0), 400000);
    ck_assert_int_eq(json_integer_or(json_get(json, "total_ns"), 0), 989000 + 400000);
    ck_assert_int_eq(json_integer_or(json_get(json, "apart_ns"), 0), 5000000);
    free(steps);
}
END_TEST

// Seen when what was fetched behind a launch has arrived: some steps late, never by the host's luck.
START_TEST(a_lost_scale_ends_the_run_some_steps_later)
{
    const char *const sets[] = {"train.batch=1",           "train.launch_steps=4",
                                "train.precision=fp16",    "train.scale_initial=65536",
                                "train.scale_floor=65536", "train.scale_stop=4",
                                "train.max_steps=300",     "telemetry.window=7",
                                "determinism.steps=4",     NULL};
    Run alone = run_on(NULL, "regression", 0, sets, 0), launched = run_on(&plain, "regression", 0, sets, 0),
        again = run_on(&plain, "regression", 0, sets, 0);
    ck_assert(alone.result.scale_lost && launched.result.scale_lost);
    ck_assert_int_lt(launched.result.steps, launched.result.planned_steps);
    ck_assert_int_le(launched.result.steps, alone.result.steps + 16 + 3 * 4);
    ck_assert_int_eq(launched.result.steps, again.result.steps);
    ck_assert(digest_equal(&launched.digest, &again.digest));
    ck_assert_int_eq(number(&launched, "parity.scale.attempted"), launched.result.steps);
    run_close(&alone);
    run_close(&launched);
    run_close(&again);
}
END_TEST

// -- a device that does not go on

static const struct {
    AsyncOptions options;
    const char *message;
} broken[] = {
    {{.records = true, .hang_at = 30}, "no progress"},
    {{.records = true, .fail_at = 30}, "planted failure"},
};

START_TEST(a_device_that_hangs_or_fails_ends_the_run_in_time)
{
    const char *const sets[] = {"train.batch=32", "train.launch_steps=4", "device.timeout=0.3s", NULL};
    World world;
    Error error = ERROR_INIT;
    TrainResult result;
    world_open_on(&world, async_backend(&fedgate_backend, &broken[_i].options), "binary", false, 1, sets);
    Trainer *trainer = world_trainer(&world, 0, NULL, NULL);
    OWNED(Json, json_free) *evidence = json_make_object();
    int64_t begin_ns = clock_monotonic_ns(clock_real());
    ck_assert(!trainer_train(trainer, NULL, &result, evidence, &error));
    ck_assert_int_lt(clock_monotonic_ns(clock_real()) - begin_ns, INT64_C(20000000000));
    ck_assert_int_eq(error.kind, ERROR_DEVICE);
    ck_assert_msg(strstr(error.message, broken[_i].message), "%s", error.message);
    ck_assert(trainer->network.abandoned);
    async_release();   // what it was given was not taken away from under it
    Error ignored = ERROR_INIT;
    (void)!device_synchronise(world.device, &ignored);
    trainer_free(trainer);
    world_close(&world);
}
END_TEST

#ifdef FEDGATE_FAULTS

static Run run_planted(const char *fault, const char *const *sets)
{
    setenv("FEDGATE_FAULT", fault, 1);
    Run run = run_on(&plain, "binary", 0, sets, 0);
    unsetenv("FEDGATE_FAULT");
    return run;
}

START_TEST(planted_faults_of_single_steps_are_not_recorded)
{
    static const char *const faults[] = {"step.synchronise=1", "train.nan_step=20",
                                         "quality.shuffle_labels=1"};
    Run run = run_planted(faults[_i], short_batches);
    ck_assert_int_eq(run.counts.replays, 0);
    ck_assert_int_eq(run.result.steps, run.result.planned_steps);
    run_close(&run);
}
END_TEST

START_TEST(a_timer_stopped_at_the_launch_claims_less_than_its_kernels)
{
    AsyncOptions slow = plain;
    slow.operation_ns = 20000;
    setenv("FEDGATE_FAULT", "train.unsynchronised=1", 1);
    Run run =
        run_on(&slow, "binary", 0, (const char *const[]){"train.batch=32", "train.max_steps=70", NULL}, 0);
    unsetenv("FEDGATE_FAULT");
    ck_assert_int_lt(claimed(&run, "time_ns"), claimed(&run, "kernel_union_ns"));
    run_close(&run);
}
END_TEST

START_TEST(a_slot_that_is_filled_early_shows_in_the_digest_of_the_device)
{
    AsyncOptions slow = plain;
    slow.copy_ns = 3000000;
    // Codes of another group may be out of range where the two are laid out differently: numbers only.
    const char *const sets[] = {"train.batch=32", "train.launch_steps=4", "data.categorical=", NULL};
    setenv("FEDGATE_FAULT", "feed.refill_early=1", 1);
    Run run = run_on(&slow, "binary", 0, sets, 0);
    unsetenv("FEDGATE_FAULT");
    const Json *order = json_find(run.evidence, "determinism.order");
    ck_assert_str_ne(json_text_or(json_get(order, "digest"), "a"),
                     json_text_or(json_get(order, "device_digest"), "a"));
    run_close(&run);
}
END_TEST

#endif

static Suite *suite(void)
{
    Suite *s = suite_create("trainer launches");
    TCase *t = tcase_create("bits");
    tcase_add_loop_test(t, launches_give_the_bits_of_single_steps, 0, sizeof ways / sizeof ways[0]);
    tcase_add_test(t, a_device_that_records_nothing_trains_to_the_same_bits);
    tcase_add_test(t, resident_rows_train_to_the_same_bits_and_are_not_copied);
    tcase_add_test(t, replayed_steps_agree_with_what_was_recorded);
    tcase_add_test(t, rehearsal_and_parity_leave_a_launched_run_as_it_was);
    suite_add_tcase(s, t);
    t = tcase_create("evidence");
    tcase_add_test(t, the_watch_sees_every_step_and_its_loss_once);
    tcase_add_test(t, reports_come_late_but_whole);
    tcase_add_test(t, every_step_of_a_run_has_its_time_and_windows_bear_out_the_claims);
    tcase_add_test(t, a_trace_says_what_spoils_it);
    tcase_add_test(t, a_lost_scale_ends_the_run_some_steps_later);
    tcase_add_test(t, windows_fit_into_an_epoch);
    tcase_add_loop_test(t, windows_follow_from_the_planned_steps, 0, sizeof plans / sizeof plans[0]);
    tcase_add_loop_test(t, a_launch_leaves_few_batches_over, 0, (int)(sizeof groups / sizeof groups[0]));
    tcase_add_test(t, steps_between_windows_show_their_stalls);
    suite_add_tcase(s, t);
    t = tcase_create("failures");
    tcase_set_timeout(t, 30);
    tcase_add_loop_test(t, a_device_that_hangs_or_fails_ends_the_run_in_time, 0,
                        sizeof broken / sizeof broken[0]);
#ifdef FEDGATE_FAULTS
    tcase_add_loop_test(t, planted_faults_of_single_steps_are_not_recorded, 0, 3);
    tcase_add_test(t, a_timer_stopped_at_the_launch_claims_less_than_its_kernels);
    tcase_add_test(t, a_slot_that_is_filled_early_shows_in_the_digest_of_the_device);
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
