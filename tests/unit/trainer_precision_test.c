// trainer_precision_test - the network in FP32, BF16 and FP16: gradients, the step decided on the device,
// loss scale, resuming and replaying, and that each row is trained on once an epoch.
#include "trainer_world.h"

#include "../../src/trainer/trainer_internal.h"

static const char *const precisions[] = {"train.precision=fp32", "train.precision=bf16",
                                         "train.precision=fp16"};
static const FedgateType types[] = {FEDGATE_FP32, FEDGATE_BF16, FEDGATE_FP16};

// -- one network by itself

enum { ROWS = 24, STEPS = 4 };
static const TrainShape shape = {.numeric = 3,
                                 .categorical = 1,
                                 .cardinality = {5},
                                 .embedding = {2},
                                 .hidden = {9, 6},
                                 .layers = 2,
                                 .outputs = 1};
static const Recipe plain = {.rate = 0.01,
                             .final_ratio = 0.1,
                             .decay = 0.01,
                             .beta1 = 0.9,
                             .beta2 = 0.999,
                             .epsilon = 1e-8,
                             .clip = 1,
                             .scale_initial = 1024,
                             .scale_floor = 1,
                             .scale_growth = 1000,
                             .scale_hysteresis = 2,
                             .scale_stop = 20};

typedef struct Bench {
    Ledger *ledger;
    Device *device;
    Network network;
    float numeric[ROWS * 3], target[ROWS];
    int32_t codes[ROWS];
    Rows rows;
} Bench;

static void bench_open(Bench *bench, FedgateType type, const TrainShape *of, const Recipe *recipe)
{
    Error error = ERROR_INIT;
    uint32_t seed = 5;
    *bench = (Bench){.ledger = ledger_new()};
    bench->device = device_open("cpu", 1, clock_real(), bench->ledger, &error);
    ck_assert_msg(bench->device != NULL, "%s", error.message);
    for (int i = 0; i < ROWS; i++) {
        for (int j = 0; j < 3; j++)
            bench->numeric[i * 3 + j] = (float)world_noise(&seed);
        bench->codes[i] = i % 5;
        bench->target[i] = bench->numeric[i * 3] > bench->numeric[i * 3 + 1] ? 1 : 0;
    }
    bench->rows =
        (Rows){.numeric = bench->numeric, .codes = bench->codes, .target = bench->target, .count = ROWS};
    ck_assert_msg(
        network_open(&bench->network, bench->device, of, FEDGATE_LOSS_BINARY, type, ROWS, true, "", &error) &&
            network_set_pace(&bench->network, recipe, STEPS, &error) &&
            network_start(&bench->network, recipe, 17, &error),
        "%s", error.message);
}

static void bench_close(Bench *bench)
{
    network_close(&bench->network);
    ck_assert_int_eq(ledger_live(bench->ledger, LEDGER_DEVICE), 0);
    device_close(bench->device);
    ledger_free(bench->ledger);
}

static void bench_step(Bench *bench, const Recipe *recipe)
{
    network_gradient(&bench->network, recipe, &bench->rows, ROWS, 17, NULL);
    network_update(&bench->network, recipe);
}

static FedgateStepState step_of(Bench *bench)
{
    Error error = ERROR_INIT;
    FedgateStepState step;
    ck_assert(network_read_step(&bench->network, &step, &error));
    return step;
}

static double distance(const float *a, const float *b, int64_t count, double scale)
{
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < count; i++) {
        double d = (double)a[i] * scale - (double)b[i];
        difference += d * d;
        norm += (double)b[i] * (double)b[i];
    }
    return sqrt(difference / norm);
}

// With embeddings and without: assembled and rounded, or read by the first layer as they are.
START_TEST(inputs_that_are_no_finite_numbers_are_counted_in_training_passes_only)
{
    TrainShape of = shape;
    Bench bench;
    if (_i >= 3)
        of.categorical = 0;
    bench_open(&bench, types[_i % 3], &of, &plain);
    bench_step(&bench, &plain);
    ck_assert_int_eq(bench.network.steps->nonfinite, 0);
    bench.numeric[4] = NAN;
    bench.numeric[7] = -INFINITY;
    network_forward(&bench.network, &bench.rows, NULL);
    ck_assert_int_eq(bench.network.steps->nonfinite, 0);
    bench_step(&bench, &plain);
    bench_step(&bench, &plain);
    ck_assert_int_eq(bench.network.steps->nonfinite, 4);
    bench_close(&bench);
}
END_TEST

// Three roundings deep, each of the unit round-off, with the loss scale taken out of FP16.
START_TEST(gradients_in_half_precision_are_those_of_fp32_but_for_rounding)
{
    Bench half, full;
    const double bound[] = {0, 0.02, 0.0025};
    bench_open(&half, types[_i], &shape, &plain);
    bench_open(&full, FEDGATE_FP32, &shape, &plain);
    network_gradient(&half.network, &plain, &half.rows, ROWS, 17, NULL);
    network_gradient(&full.network, &plain, &full.rows, ROWS, 17, NULL);
    double scale = step_of(&half).scale;
    ck_assert_double_eq(scale, types[_i] == FEDGATE_FP16 ? 1024 : 1);
    double error =
        distance(half.network.gradients, full.network.gradients, full.network.layout.floats, 1 / scale);
    ck_assert_double_le(error, bound[_i]);
    ck_assert(types[_i] == FEDGATE_FP32 || error > bound[_i] / 100);   // it really is another arithmetic
    bench_close(&half);
    bench_close(&full);
}
END_TEST

// Numbers alone: the input is rounded although nothing is embedded.
START_TEST(an_input_of_numbers_alone_is_rounded_too)
{
    TrainShape numbers = shape;
    numbers.categorical = 0;
    Bench bench;
    bench_open(&bench, types[_i], &numbers, &plain);
    for (int64_t i = 0; i < ROWS * 3; i++)
        bench.numeric[i] = 1 + 0x1p-13f;   // 1 in both halves
    float logit[2];
    network_forward(&bench.network, &bench.rows, NULL);
    logit[0] = network_logits(&bench.network)[0];
    for (int64_t i = 0; i < ROWS * 3; i++)
        bench.numeric[i] = 1;
    network_forward(&bench.network, &bench.rows, NULL);
    logit[1] = network_logits(&bench.network)[0];
    ck_assert((memcmp(&logit[0], &logit[1], sizeof *logit) == 0) == (types[_i] != FEDGATE_FP32));
    ck_assert((bench.network.x == NULL) == (types[_i] == FEDGATE_FP32));
    ck_assert(bench.network.dx == NULL);
    bench_close(&bench);
}
END_TEST

static bool pass_is_rounded(Bench *bench)
{
    Error error = ERROR_INIT;
    int64_t count = bench->network.layout.floats, bytes = count * fedgate_type_bytes(bench->network.type);
    void *again = device_take(bench->device, "again", bytes, &error);
    device_cast(bench->device, &(FedgateCast){.to = again,
                                              .from = bench->network.weights,
                                              .to_type = bench->network.type,
                                              .from_type = FEDGATE_FP32,
                                              .count = count});
    bool same = memcmp(again, bench->network.pass, (size_t)bytes) == 0;
    device_give(bench->device, "again", again, bytes);
    return same;
}

START_TEST(the_pass_copy_follows_the_master_weights)
{
    Error error = ERROR_INIT;
    Bench bench;
    Recipe slow = plain;
    slow.rate = 1e-7;   // far below what a half precision weight resolves
    bench_open(&bench, types[_i], &shape, &slow);
    ck_assert(pass_is_rounded(&bench));
    size_t floats = (size_t)bench.network.layout.floats;
    float *state = calloc(3 * floats, sizeof *state);
    FedgateStepState step;
    ck_assert(network_save(&bench.network, state, &step, &error));
    for (int i = 0; i < STEPS; i++)
        bench_step(&bench, &slow);
    ck_assert(pass_is_rounded(&bench));
    size_t moved = 0;
    for (size_t i = 0; i < floats; i++)
        moved += memcmp(&state[i], &bench.network.weights[i], sizeof *state) != 0;
    ck_assert_uint_gt(moved, floats / 2);   // the master weights moved although most of the rounded did not
    ck_assert(network_load(&bench.network, state, &step, &error));
    ck_assert(pass_is_rounded(&bench));
    ck_assert_mem_eq(state, bench.network.weights, floats * sizeof *state);
    ck_assert_int_eq(step_of(&bench).attempted, 0);
    free(state);
    bench_close(&bench);
}
END_TEST

// A step whose gradients overflow leaves no trace but in the counts: the next is bit for bit the first.
START_TEST(a_skipped_step_advances_neither_schedule_nor_correction)
{
    Bench skipped, straight;
    Recipe warm = plain;
    warm.warmup = 0.5;
    bench_open(&skipped, FEDGATE_FP16, &shape, &warm);
    bench_open(&straight, FEDGATE_FP16, &shape, &warm);
    network_gradient(&skipped.network, &warm, &skipped.rows, ROWS, 17, NULL);
    skipped.network.gradients[3] = INFINITY;
    network_update(&skipped.network, &warm);
    FedgateStepState step = step_of(&skipped);
    ck_assert_int_eq(step.skipped, 1);
    ck_assert_int_eq(step.applied, 0);
    size_t bytes = (size_t)skipped.network.layout.floats * sizeof(float);
    ck_assert_mem_eq(skipped.network.weights, straight.network.weights, bytes);
    for (int i = 0; i < 2; i++) {
        bench_step(&skipped, &warm);
        bench_step(&straight, &warm);
        ck_assert_mem_eq(skipped.network.weights, straight.network.weights, bytes);
        ck_assert_mem_eq(skipped.network.first, straight.network.first, bytes);
        ck_assert_mem_eq(skipped.network.second, straight.network.second, bytes);
    }
    ck_assert_int_eq(step_of(&skipped).pace, step_of(&straight).pace);
    ck_assert_int_eq(step_of(&skipped).attempted, 3);
    bench_close(&skipped);
    bench_close(&straight);
}
END_TEST

// In all precisions but a scaled FP16 a step that is not a number is applied, so that the judges see it.
START_TEST(without_a_dynamic_scale_what_is_not_a_number_is_applied)
{
    Bench bench;
    Recipe fixed = plain;
    fixed.scale_growth = 0;
    bench_open(&bench, types[_i], &shape, &fixed);
    network_gradient(&bench.network, &fixed, &bench.rows, ROWS, 17, NULL);
    bench.network.gradients[3] = NAN;
    network_update(&bench.network, &fixed);
    ck_assert_int_eq(step_of(&bench).applied, 1);
    ck_assert(isnan(bench.network.weights[3]));
    bench_close(&bench);
}
END_TEST

START_TEST(bytes_that_must_move_are_half_as_many_in_half_precision)
{
    Bench bench;
    bench_open(&bench, types[_i], &shape, &plain);
    const double e = (double)fedgate_type_bytes(types[_i]), n = ROWS;   // layers 5 x 9, 9 x 6, 6 x 1
    ck_assert_double_eq(network_bytes(&bench.network, ROWS, false),
                        e * (n * 5 + 45 + n * 9) + e * (n * 9 + 54 + n * 6) + e * (n * 6 + 6) + 4 * n);
    ck_assert_double_eq(network_bytes(&bench.network, ROWS, true),
                        2 * e * (n * 5 + n * 9 + n * 9 + n * 6 + n * 6 + n) + (e + 4) * (45 + 54 + 6));
    bench_close(&bench);
}
END_TEST

static int64_t account(const Ledger *ledger, const char *name)
{
    LedgerAccount accounts[LEDGER_ACCOUNTS];
    size_t count = ledger_accounts(ledger, accounts);
    for (size_t i = 0; i < count; i++)
        if (strcmp(accounts[i].name, name) == 0)
            return accounts[i].live_bytes;
    return -1;
}

START_TEST(device_memory_is_named_by_what_it_holds)
{
    Error error = ERROR_INIT;
    Bench bench;
    Network beside;
    bench_open(&bench, types[_i], &shape, &plain);
    const int64_t floats = bench.network.layout.floats, half = types[_i] == FEDGATE_FP32 ? -1 : 2 * floats;
    ck_assert_int_eq(account(bench.ledger, "weights"), 4 * floats);
    ck_assert_int_eq(account(bench.ledger, "pass weights"), half);
    ck_assert_int_eq(account(bench.ledger, "gradients"), 4 * floats);
    ck_assert_int_eq(account(bench.ledger, "optimizer"), 8 * floats);
    ck_assert_int_eq(account(bench.ledger, "step state"),
                     (int64_t)(sizeof(StepBlock) + STEPS * sizeof(FedgatePace)));
    ck_assert(network_open(&beside, bench.device, &shape, FEDGATE_LOSS_BINARY, FEDGATE_FP32, ROWS, true,
                           "parity ", &error));
    ck_assert_int_eq(account(bench.ledger, "parity optimizer"), 8 * floats);
    ck_assert_int_eq(account(bench.ledger, "optimizer"), 8 * floats);
    ck_assert(network_set_pace(&beside, &plain, 9, &error) && network_set_pace(&beside, &plain, 2, &error));
    ck_assert_int_eq(account(bench.ledger, "parity step state"),
                     (int64_t)(sizeof(StepBlock) + 2 * sizeof(FedgatePace)));
    network_close(&beside);
    ledger_set_budget(bench.ledger, LEDGER_DEVICE, ledger_live(bench.ledger, LEDGER_DEVICE) + 20 * floats);
    ck_assert(!network_open(&beside, bench.device, &shape, FEDGATE_LOSS_BINARY, types[_i], ROWS, true,
                            "parity ", &error));
    ck_assert_int_eq(error.kind, ERROR_MEMORY);
    ck_assert(!network_set_pace(&bench.network, &plain, 100000, &error));
    bench_close(&bench);
}
END_TEST

static void *open_fp32_only(int device, int threads, const FedgateHost *host, FedgateFacts *ret_facts,
                            char *ret_reason)
{
    void *opened = fedgate_backend.open(device, threads, host, ret_facts, ret_reason);
    ret_facts->types = 1u << FEDGATE_FP32;
    return opened;
}

START_TEST(a_back_end_without_the_arithmetic_is_refused)
{
    Error error = ERROR_INIT;
    Ledger *ledger = ledger_new();
    Network network;
    FedgateBackend backend = fedgate_backend;
    backend.open = open_fp32_only;
    Device *device = device_open_backend(&backend, 1, clock_real(), ledger, &error);
    ck_assert_msg(device != NULL, "%s", error.message);
    ck_assert(
        !network_open(&network, device, &shape, FEDGATE_LOSS_BINARY, FEDGATE_BF16, ROWS, true, "", &error));
    ck_assert_int_eq(error.kind, ERROR_UNAVAILABLE);
    ck_assert_msg(strstr(error.message, "'bf16'"), "%s", error.message);
    network_close(&network);
    device_close(device);
    ledger_free(ledger);
}
END_TEST

// -- runs

enum { SETS = 12 };

typedef struct Ended {
    TrainResult result;
    FedgateStepState step;
    Order order;
    float *state;   // weights and moments
    size_t bytes;
    Digest best;
    Json *evidence;
} Ended;

static bool replays_agree(const Json *evidence, size_t expected)
{
    const Json *replays = json_find(evidence, "determinism.replays");
    ck_assert_uint_eq(json_count(replays), expected);
    bool same = true;
    for (size_t r = 0; r < expected; r++) {
        const Json *tensors = json_get(json_at(replays, r), "tensors");
        for (size_t i = 0; i < json_count(tensors); i++)
            same &= strcmp(json_text_or(json_get(json_at(tensors, i), "first"), "a"),
                           json_text_or(json_get(json_at(tensors, i), "again"), "b")) == 0;
    }
    return same;
}

static bool stop_at(void *context, const TrainProgress *progress)
{
    return progress->step < *(const int64_t *)context;
}

// Trains in `task`; stops at `at` and goes on from the checkpoint when at > 0.
static Ended run(const char *task, int precision, const char *const *sets, int64_t at)
{
    Error error = ERROR_INIT;
    World world;
    const char *all[SETS] = {precisions[precision]};
    for (size_t i = 0; sets && sets[i]; i++)
        all[i + 1] = sets[i];
    world_open(&world, task, true, 1, all);
    Ended ended = {.evidence = json_make_object()};
    Trainer *trainer = world_trainer(&world, 0, at > 0 ? stop_at : NULL, &at);
    ended.result = world_train(trainer, ended.evidence);
    if (at > 0) {
        ck_assert_int_eq(ended.result.steps, at);
        trainer_free(trainer);
        json_free(ended.evidence);
        ended.evidence = json_make_object();
        trainer = world_trainer(&world, 0, NULL, NULL);
        ended.result = world_train(trainer, ended.evidence);
        ck_assert_int_eq(ended.result.resumed_from, at);
    }
    ended.bytes = (size_t)(3 * trainer_floats(trainer)) * sizeof(float);
    ended.state = malloc(ended.bytes);
    ck_assert(network_save(&trainer->network, ended.state, &ended.step, &error));
    ended.order = trainer->progress.order;
    ended.best = world_digest(trainer);
    ck_assert_msg(trainer_replay(trainer, ended.evidence, &error), "%s", error.message);
    trainer_free(trainer);
    world_close(&world);
    return ended;
}

static void ended_done(Ended *ended)
{
    free(ended->state);
    json_free(ended->evidence);
}

// The first steps of FP16 overflow at 2^24, so that a stop falls between a forgiven skip and the fall of the
// scale, and the scale grows again within the run.
static const char *const changing[] = {"train.scale_initial=16777216",
                                       "train.scale_growth=4",
                                       "train.scale_hysteresis=2",
                                       "telemetry.window=1",
                                       "train.dropout=0.2",
                                       "train.weight_decay=0.1",
                                       "determinism.steps=4",
                                       NULL};
static const int64_t stops[] = {1, 2, 5, 7, 8, 9, 11, 19};
enum { STOPS = sizeof stops / sizeof stops[0] };

START_TEST(a_killed_run_goes_on_as_if_it_had_not_been)
{
    int precision = _i / STOPS;
    Ended whole = run("binary", precision, changing, 0),
          resumed = run("binary", precision, changing, stops[_i % STOPS]);
    ck_assert_uint_eq(whole.bytes, resumed.bytes);
    ck_assert_mem_eq(whole.state, resumed.state, whole.bytes);
    ck_assert_mem_eq(&whole.step, &resumed.step, sizeof whole.step);
    ck_assert_int_eq(whole.order.rows, resumed.order.rows);
    ck_assert(whole.order.digest == resumed.order.digest);
    ck_assert(digest_equal(&whole.best, &resumed.best));
    ck_assert_int_eq(whole.step.attempted, whole.result.steps);
    ck_assert(precision != 2 || (whole.step.lowered > 0 && whole.step.grown > 0));
    ck_assert(replays_agree(whole.evidence, 2) && replays_agree(resumed.evidence, 2));
    ended_done(&whole);
    ended_done(&resumed);
}
END_TEST

START_TEST(a_stop_can_fall_between_a_forgiven_skip_and_the_fall_of_the_scale)
{
    const char *const one[] = {changing[0], changing[1], changing[2], "train.max_steps=1", NULL};
    Ended ended = run("binary", 2, one, 0);
    ck_assert_int_eq(ended.step.skipped, 1);
    ck_assert_int_eq(ended.step.lowered, 0);
    ck_assert_int_eq(ended.step.patience, 1);
    ended_done(&ended);
}
END_TEST

static int64_t figure(const Ended *ended, const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "parity.scale.%s", name);
    return (int64_t)json_number_or(json_find(ended->evidence, path), -1);
}

START_TEST(the_loss_scale_of_a_run_is_told)
{
    Ended ended = run("binary", _i, changing, 0);
    ck_assert((json_find(ended.evidence, "parity.scale") == NULL) == (types[_i] == FEDGATE_FP32));
    if (types[_i] != FEDGATE_FP32) {
        bool scaled = types[_i] == FEDGATE_FP16;
        ck_assert_int_eq(figure(&ended, "initial"), scaled ? 16777216 : 1);
        ck_assert_int_eq(figure(&ended, "attempted"), ended.result.steps);
        ck_assert_int_eq(figure(&ended, "applied") + figure(&ended, "skipped"), ended.result.steps);
        ck_assert_int_eq(figure(&ended, "schedule"), figure(&ended, "applied"));
        ck_assert((figure(&ended, "skipped") > 0) == scaled);
        ck_assert((figure(&ended, "smallest") < figure(&ended, "initial")) == scaled);
        ck_assert_int_eq(figure(&ended, "at_floor"), 0);
        ck_assert(!json_bool_or(json_find(ended.evidence, "parity.scale.stopped"), true));
        ck_assert(!ended.result.scale_lost);
    }
    ended_done(&ended);
}
END_TEST

// A floor at which most batches of one row overflow: four skips in a row come soon.
static const char *const losing[] = {
    "train.batch=1",       "train.scale_initial=65536", "train.scale_floor=65536", "train.scale_stop=4",
    "train.max_steps=200", "telemetry.window=7",        "determinism.steps=4",     NULL};

START_TEST(a_lost_scale_ends_the_run_and_says_so)
{
    Ended whole = run("regression", 2, losing, 0), resumed = run("regression", 2, losing, 7);
    ck_assert(whole.result.scale_lost && !whole.result.stopped_early);
    ck_assert_int_lt(whole.result.steps, whole.result.planned_steps);
    ck_assert_int_eq(whole.result.steps, resumed.result.steps);
    ck_assert(resumed.result.scale_lost);
    ck_assert_mem_eq(whole.state, resumed.state, whole.bytes);
    ck_assert(json_bool_or(json_find(whole.evidence, "parity.scale.stopped"), false));
    ck_assert_int_ge(figure(&whole, "longest"), 4);
    ck_assert_int_gt(figure(&whole, "at_floor"), 0);
    ck_assert_int_eq(figure(&whole, "smallest"), 65536);
    ended_done(&whole);
    ended_done(&resumed);
    const char *const fixed[] = {
        losing[0], losing[1], losing[2], losing[3], losing[4], "train.scale_growth=0", NULL};
    Ended without = run("regression", 2, fixed, 0);   // nothing is skipped without a dynamic scale
    ck_assert(!without.result.scale_lost);
    ck_assert_int_eq(figure(&without, "skipped"), 0);
    ck_assert_int_eq(without.result.steps, without.result.planned_steps);
    ended_done(&without);
}
END_TEST

START_TEST(validation_is_in_the_arithmetic_of_the_passes_and_the_model_in_fp32)
{
    World world;
    Error error = ERROR_INIT;
    world_open(&world, "binary", true, 1, (const char *const[]){precisions[_i], NULL});
    Trainer *trainer = world_trainer(&world, 0, NULL, NULL);
    Json *evidence = json_make_object();
    double told = world_train(trainer, evidence).best_validation_loss;
    Table table;
    OWNED(Model, model_free) *model = trainer_model(trainer, &error);
    ck_assert(dataset_decode(world.dataset, world.maps, SPLIT_VALIDATION, world.ledger, &table, &error));
    double *score = calloc(table.rows, sizeof *score);
    ck_assert(model_predict(model, world.device, world.ledger, &table, 0, 1, score, &error));
    Predictions predictions = {.score = score, .rows = table.rows, .classes = 1};
    double difference = fabs(stats_metric(METRIC_LOGLOSS, predictions, table.target, NULL) - told);
    ck_assert_double_lt(difference, 0.01);
    ck_assert((difference > 1e-6) == (types[_i] != FEDGATE_FP32));
    free(score);
    table_done(&table);
    json_free(evidence);
    trainer_free(trainer);
    world_close(&world);
}
END_TEST

// -- each row once an epoch

static bool order_agrees(const Ended *ended)
{
    const Json *order = json_find(ended->evidence, "determinism.order");
    const char *digest = json_text_or(json_get(order, "digest"), "a");
    return json_integer_or(json_get(order, "rows"), -1) ==
               json_integer_or(json_get(order, "expected_rows"), -2) &&
           strcmp(digest, json_text_or(json_get(order, "expected_digest"), "b")) == 0;
}

static int64_t whole_epochs(const Ended *ended)
{
    return json_integer_or(json_find(ended->evidence, "determinism.order.epochs"), -1);
}

START_TEST(each_row_is_trained_on_once_an_epoch_also_over_a_restart)
{
    const char *const short_windows[] = {"telemetry.window=1", NULL};
    Ended whole = run("binary", 0, short_windows, 0), resumed = run("binary", 0, short_windows, 13);
    ck_assert(order_agrees(&whole) && order_agrees(&resumed));
    ck_assert_int_eq(whole_epochs(&whole), 4);
    ck_assert_int_eq(whole_epochs(&resumed), 4);
    ended_done(&whole);
    ended_done(&resumed);
    Ended part = run("binary", 0, (const char *const[]){"train.max_steps=5", NULL}, 0);
    ck_assert_int_eq(whole_epochs(&part), 0);
    ck_assert(json_find(part.evidence, "determinism.order.rows") == NULL);
    ended_done(&part);
}
END_TEST

START_TEST(an_epoch_that_differs_stays_the_one_that_is_told)
{
    const uint64_t expected = 36;
    FeedBatch batch = {.rows = 3, .digest = expected};
    Order order = {0};
    order_take(&order, &batch);
    order_end_epoch(&order, 3, expected);
    ck_assert(!order.differs);
    batch.digest = 35;   // one row twice instead of another
    order_take(&order, &batch);
    order_end_epoch(&order, 3, expected);
    ck_assert(order.differs);
    batch.digest = expected;
    order_take(&order, &batch);
    order_end_epoch(&order, 3, expected);
    ck_assert_int_eq(order.epochs, 3);
    ck_assert(order.differs && order.whole_digest != expected && order.whole_rows == 3);
}
END_TEST

START_TEST(rows_that_the_device_had_otherwise_than_the_host_counted_them_differ)
{
    FeedBatch batch = {.rows = 3, .digest = 36};
    Order order = {0};
    for (uint64_t had = 36; had > 34; had--) {
        order_take(&order, &batch);
        order_take_device(&order, batch.digest, had);
        order_end_epoch(&order, 3, 36);
        ck_assert(order.differs == (had != 36));
    }
    ck_assert(order.whole_digest == 36 && order.whole_device_digest != 36 && order.whole_rows == 3);
}
END_TEST

// Two batches that changed places have the sum of what was counted, and are no less wrong.
START_TEST(batches_that_changed_places_on_the_device_differ)
{
    const FeedBatch batches[] = {{.rows = 3, .digest = 36}, {.rows = 4, .digest = 64}};
    Order order = {0};
    for (int i = 0; i < 2; i++) {
        order_take(&order, &batches[i]);
        order_take_device(&order, batches[i].digest, batches[1 - i].digest);
    }
    order_end_epoch(&order, 7, 100);
    ck_assert(order.differs && order.whole_digest == 100 && order.whole_device_digest != 100);
}
END_TEST

#ifdef FEDGATE_FAULTS

START_TEST(a_remainder_that_is_dropped_or_counted_twice_shows)
{
    setenv("FEDGATE_FAULT", _i == 1 ? "train.remainder=1" : "train.remainder=2", 1);
    Ended ended = run("binary", 0, (const char *const[]){"telemetry.window=1", NULL}, 11);
    unsetenv("FEDGATE_FAULT");
    const Json *order = json_find(ended.evidence, "determinism.order");
    int64_t rows = json_integer_or(json_get(order, "rows"), -1),
            expected = json_integer_or(json_get(order, "expected_rows"), -1);
    ck_assert_int_eq(rows, _i == 1 ? expected / 64 * 64 : expected + expected % 64);
    ck_assert(!order_agrees(&ended));
    ck_assert(replays_agree(ended.evidence, 2));   // the replay does the same: only the order tells
    ended_done(&ended);
}
END_TEST

START_TEST(gradients_unscaled_twice_show_in_fp16_alone)
{
    Bench good, bad;
    Recipe growing = plain;
    growing.scale_growth = 1;   // the scale of the next step is another: only this step's may be used
    bench_open(&good, types[_i], &shape, &growing);
    bench_open(&bad, types[_i], &shape, &growing);
    bench_step(&good, &growing);
    setenv("FEDGATE_FAULT", "train.unscale_twice=1", 1);
    bench_step(&bad, &growing);
    unsetenv("FEDGATE_FAULT");
    double scale = types[_i] == FEDGATE_FP16 ? 1024 : 1;
    int64_t floats = good.network.layout.floats;
    ck_assert_double_lt(distance(bad.network.first, good.network.first, floats, scale), 1e-6);
    ck_assert((memcmp(bad.network.weights, good.network.weights, (size_t)floats * sizeof(float)) != 0) ==
              (types[_i] == FEDGATE_FP16));
    bench_close(&good);
    bench_close(&bad);
}
END_TEST

START_TEST(missing_master_weights_show_in_half_precision_alone)
{
    Bench bench;
    bench_open(&bench, types[_i], &shape, &plain);
    setenv("FEDGATE_FAULT", "train.no_master=1", 1);
    bench_step(&bench, &plain);
    unsetenv("FEDGATE_FAULT");
    size_t rounded = 0, floats = (size_t)bench.network.layout.floats;
    for (size_t i = 0; i < floats; i++) {
        uint32_t bits;
        memcpy(&bits, &bench.network.weights[i], sizeof bits);
        rounded += (bits & 0xfffu) == 0;   // what neither half can hold
    }
    ck_assert((rounded == floats) == (types[_i] != FEDGATE_FP32));
    ck_assert(pass_is_rounded(&bench));
    bench_close(&bench);
}
END_TEST

START_TEST(a_validation_over_the_budget_is_found_by_the_rehearsal)
{
    World world;
    Error error = ERROR_INIT;
    world_open(&world, "binary", true, 1, (const char *const[]){precisions[_i], NULL});
    Trainer *trainer = world_trainer(&world, 0, NULL, NULL);
    Json *evidence = json_make_object();
    ledger_set_budget(world.ledger, LEDGER_DEVICE, ledger_live(world.ledger, LEDGER_DEVICE) + 100000);
    ck_assert_msg(trainer_rehearse(trainer, evidence, &error), "%s", error.message);
    setenv("FEDGATE_FAULT", "memory.validation_bytes=200000", 1);
    ck_assert(!trainer_rehearse(trainer, evidence, &error));
    unsetenv("FEDGATE_FAULT");
    ck_assert_int_eq(error.kind, ERROR_MEMORY);
    ck_assert_msg(strstr(error.message, "validation"), "%s", error.message);
    ck_assert(!json_bool_or(json_find(evidence, "memory.rehearsal.ok"), true));
    ck_assert_int_eq(trainer->progress.step, 0);
    json_free(evidence);
    trainer_free(trainer);
    world_close(&world);
}
END_TEST

#endif

START_TEST(a_rehearsal_gives_back_the_state_of_the_step_too)
{
    World world;
    Error error = ERROR_INIT;
    world_open(&world, "binary", true, 1,
               (const char *const[]){precisions[2], "train.scale_initial=16777216", NULL});
    Trainer *trainer = world_trainer(&world, 0, NULL, NULL);
    FedgateStepState before, after;
    ck_assert(network_read_step(&trainer->network, &before, &error));
    Json *evidence = json_make_object();
    ck_assert_msg(trainer_rehearse(trainer, evidence, &error), "%s", error.message);
    ck_assert(network_read_step(&trainer->network, &after, &error));
    ck_assert_mem_eq(&before, &after, sizeof before);
    json_free(evidence);
    trainer_free(trainer);
    world_close(&world);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("trainer precision");
    TCase *t = tcase_create("network");
    tcase_add_loop_test(t, inputs_that_are_no_finite_numbers_are_counted_in_training_passes_only, 0, 6);
    tcase_add_loop_test(t, gradients_in_half_precision_are_those_of_fp32_but_for_rounding, 0, 3);
    tcase_add_loop_test(t, an_input_of_numbers_alone_is_rounded_too, 0, 3);
    tcase_add_loop_test(t, the_pass_copy_follows_the_master_weights, 0, 3);
    tcase_add_test(t, a_skipped_step_advances_neither_schedule_nor_correction);
    tcase_add_loop_test(t, without_a_dynamic_scale_what_is_not_a_number_is_applied, 0, 3);
    tcase_add_loop_test(t, bytes_that_must_move_are_half_as_many_in_half_precision, 0, 3);
    tcase_add_loop_test(t, device_memory_is_named_by_what_it_holds, 0, 3);
    tcase_add_test(t, a_back_end_without_the_arithmetic_is_refused);
    suite_add_tcase(s, t);
    t = tcase_create("runs");
    tcase_add_loop_test(t, a_killed_run_goes_on_as_if_it_had_not_been, 0, 3 * STOPS);
    tcase_add_test(t, a_stop_can_fall_between_a_forgiven_skip_and_the_fall_of_the_scale);
    tcase_add_loop_test(t, the_loss_scale_of_a_run_is_told, 0, 3);
    tcase_add_test(t, a_lost_scale_ends_the_run_and_says_so);
    tcase_add_loop_test(t, validation_is_in_the_arithmetic_of_the_passes_and_the_model_in_fp32, 0, 3);
    tcase_add_test(t, each_row_is_trained_on_once_an_epoch_also_over_a_restart);
    tcase_add_test(t, an_epoch_that_differs_stays_the_one_that_is_told);
    tcase_add_test(t, rows_that_the_device_had_otherwise_than_the_host_counted_them_differ);
    tcase_add_test(t, batches_that_changed_places_on_the_device_differ);
    tcase_add_test(t, a_rehearsal_gives_back_the_state_of_the_step_too);
#ifdef FEDGATE_FAULTS
    tcase_add_loop_test(t, a_remainder_that_is_dropped_or_counted_twice_shows, 1, 3);
    tcase_add_loop_test(t, gradients_unscaled_twice_show_in_fp16_alone, 0, 3);
    tcase_add_loop_test(t, missing_master_weights_show_in_half_precision_alone, 0, 3);
    tcase_add_loop_test(t, a_validation_over_the_budget_is_found_by_the_rehearsal, 0, 3);
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
