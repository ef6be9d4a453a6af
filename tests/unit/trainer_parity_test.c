// trainer_parity_test - the evidence of the parity ladder: its figures, that it leaves nothing behind, and
// that every planted fault shows in it.
#include "trainer_world.h"

#include "../../src/trainer/trainer_internal.h"

enum { PAIRS = 3, STEPS = 8 };
static const struct {
    const char *task;
    Metric metric;
} tasks[] = {{"binary", METRIC_AUC}, {"multiclass", METRIC_LOGLOSS}, {"regression", METRIC_RMSE}};
static const char *const precisions[] = {"train.precision=bf16", "train.precision=fp16",
                                         "train.precision=fp32"};
static const char *const roundoffs[] = {"bf16", "fp16"};

typedef struct Ladder {
    World world;
    Trainer *trainer;
    Json *evidence;
    const Json *parity;
    Column column;
    ParitySpec spec;
} Ladder;

static const char *const columns[] = {"c"};

static void ladder_open(Ladder *ladder, int task, const char *precision, int threads, int64_t microbatch,
                        const char *const *sets)
{
    Error error = ERROR_INIT;
    const char *all[16] = {precision, "parity.pairs=3", "parity.steps=8", "train.dropout=0.1"};
    for (size_t i = 0, count = 4; sets && sets[i]; i++)
        all[count++] = sets[i];
    world_open(&ladder->world, tasks[task].task, true, threads, all);
    ladder->trainer = world_trainer(&ladder->world, microbatch, NULL, NULL);
    ladder->evidence = json_make_object();
    ck_assert_msg(dataset_column(ladder->world.dataset, SPLIT_VALIDATION, "c", &ladder->column, &error), "%s",
                  error.message);
    ladder->spec = (ParitySpec){.metric = tasks[task].metric,
                                .slice_names = columns,
                                .slices = &ladder->column,
                                .slice_count = 1,
                                .run = "tonight"};
}

static void ladder_early(Ladder *ladder)
{
    Error error = ERROR_INIT;
    ck_assert_msg(trainer_parity_early(ladder->trainer, ladder->evidence, &error), "%s", error.message);
    ladder->parity = json_get(ladder->evidence, "parity");
}

static void ladder_late(Ladder *ladder)
{
    Error error = ERROR_INIT;
    ck_assert_msg(trainer_parity_late(ladder->trainer, &ladder->spec, ladder->evidence, &error), "%s",
                  error.message);
    ladder->parity = json_get(ladder->evidence, "parity");
}

static void ladder_climb(Ladder *ladder)
{
    ladder_early(ladder);
    world_train(ladder->trainer, ladder->evidence);
    ladder_late(ladder);
}

static void ladder_close(Ladder *ladder)
{
    column_done(&ladder->column);
    json_free(ladder->evidence);
    trainer_free(ladder->trainer);
    world_close(&ladder->world);
}

static double number(const Json *object, const char *key)
{
    return json_number_or(json_find(object, key), (double)NAN);
}

static const Json *entry(const Json *array, const char *key, const char *value)
{
    for (size_t i = 0; i < json_count(array); i++)
        if (strcmp(json_text_or(json_get(json_at(array, i), key), ""), value) == 0)
            return json_at(array, i);
    return NULL;
}

// Largest value of a key in an array; NaN is largest.
static double largest(const Json *array, const char *key)
{
    double worst = -INFINITY;
    for (size_t i = 0; i < json_count(array); i++) {
        double value = number(json_at(array, i), key);
        worst = isnan(worst) || value <= worst ? worst : value;
    }
    return worst;
}

static const Json *tensors(const Ladder *ladder, const char *at)
{
    return json_get(entry(json_get(ladder->parity, "gradients"), "at", at), "tensors");
}

// -- figures

static void check_operations(const Json *parity, double u)
{
    const Json *operations = json_get(parity, "operations"), *growth = json_find(parity, "growth.error");
    ck_assert_uint_ge(json_count(operations), 12);
    for (size_t i = 0; i < json_count(operations); i++) {
        const Json *op = json_at(operations, i);
        const char *name = json_text_or(json_get(op, "name"), "");
        bool sum = strncmp(name, "loss sum", 8) == 0;
        ck_assert_msg(number(op, "error") <= (sum ? 1e-6 : 3 * u), "%s: %g", name, number(op, "error"));
        ck_assert_msg(sum || number(op, "error") >= u / 32, "%s is too exact: %g", name, number(op, "error"));
        ck_assert_msg(number(op, "reference_error") <= 1e-6, "%s: %g", name, number(op, "reference_error"));
    }
    ck_assert_uint_eq(json_count(growth), 4);
    for (size_t i = 0; i < 4; i++)
        ck_assert_double_le(json_number_or(json_at(growth, i), (double)NAN), u);
}

static void check_gradients(const Ladder *ladder, const char *at, double u)
{
    const Json *all = tensors(ladder, at);
    ck_assert_uint_eq(json_count(all), ladder->trainer->network.layout.count);
    for (size_t i = 0; i < json_count(all); i++) {
        const Json *tensor = json_at(all, i);
        double norm = number(tensor, "norm"), scale = fmax(norm, number(tensor, "noise"));
        ck_assert_double_gt(norm, 0);
        ck_assert_double_le(number(tensor, "error") * norm / scale, 2 * sqrt(u));
        ck_assert_double_gt(number(tensor, "error"), u / 100);
        ck_assert_double_le(number(tensor, "reference_error"), 2e-5);
    }
}

static void check_step(const Ladder *ladder, const char *at)
{
    const Json *step = entry(json_get(ladder->parity, "step"), "at", at);
    ck_assert_ptr_nonnull(step);
    ck_assert(json_bool_or(json_get(step, "applied"), false));
    ck_assert_double_le(number(step, "update_error"), 0.3);
    ck_assert_double_gt(number(step, "update_error"), 0);
    ck_assert_double_ge(number(step, "moved"), 0.9);
    ck_assert_double_le(fabs(number(step, "moment_ratio") - 1), 0.05);
    ck_assert_double_le(number(step, "representable"), 0.2);
    ck_assert_double_eq(number(step, "scale_after"), number(step, "scale_expected"));
}

static void check_trajectory(const Json *parity)
{
    const Json *pairs = json_find(parity, "trajectory.pairs");
    ck_assert_uint_eq(json_count(pairs), 3 * PAIRS);
    ck_assert_int_eq(json_integer_or(json_find(parity, "trajectory.steps"), 0), STEPS);
    for (size_t i = 0; i < json_count(pairs); i++) {
        const Json *pair = json_at(pairs, i), *ratio = json_get(pair, "log_ratio");
        bool ulp = strcmp(json_text_or(json_get(pair, "kind"), ""), "ulp") == 0;
        ck_assert_uint_eq(json_count(ratio), STEPS);
        for (size_t k = 0; k < STEPS; k++)
            ck_assert_double_le(fabs(json_number_or(json_at(ratio, k), (double)NAN)), ulp ? 1e-3 : 3);
    }
}

static void check_metric(const Ladder *ladder, int task)
{
    const Json *metric = json_get(ladder->parity, "metric"), *pairs = json_get(metric, "pairs"),
               *slices = json_get(ladder->parity, "slices");
    ck_assert_str_eq(json_text_or(json_get(metric, "name"), ""), stats_metrics[tasks[task].metric].name);
    ck_assert_uint_eq(json_count(pairs), PAIRS);
    for (size_t i = 0; i < PAIRS; i++) {
        const Json *pair = json_at(pairs, i);
        int64_t seed = json_integer_or(json_get(pair, "seed"), 0);
        double reference = number(pair, "reference");
        ck_assert_str_eq(json_text_or(json_get(pair, "run"), ""), "tonight");
        ck_assert_double_le(fabs(number(pair, "candidate") - reference), 0.05 * fabs(reference));
        ck_assert_int_ne(seed, 3);   // the training's own
        for (size_t k = 0; k < i; k++)
            ck_assert_int_ne(seed, json_integer_or(json_get(json_at(pairs, k), "seed"), 0));
    }
    double trained = number(metric, "trained.reference");
    ck_assert_double_le(fabs(number(metric, "trained.candidate") - trained), 0.01 * trained);
    int64_t rows = 0;
    for (size_t i = 0; i < json_count(slices); i++) {
        const Json *slice = json_at(slices, i);
        rows += json_integer_or(json_get(slice, "rows"), 0);
        ck_assert_uint_eq(json_count(json_get(slice, "reference")), PAIRS);
        ck_assert_uint_eq(json_count(json_get(slice, "candidate")), PAIRS);
        ck_assert((json_get(slice, "positives") != NULL) == (task == 0));
    }
    ck_assert_int_eq(rows, json_integer_or(json_get(metric, "rows"), 0));
    ck_assert_int_eq(rows, (int64_t)ladder->trainer->validation.rows);
}

// Also in microbatches, which arms share.
START_TEST(every_rung_has_its_figures)
{
    Ladder ladder;
    int task = _i / 2, half = _i % 2;
    ladder_open(&ladder, task, precisions[half], 2, half ? 16 : 0, NULL);
    ladder_climb(&ladder);
    FedgateType type;
    ck_assert(device_type_find(roundoffs[half], &type));
    double u = device_type_roundoff(type);
    const Json *parity = ladder.parity, *controls = json_get(parity, "controls");
    ck_assert_str_eq(json_text_or(json_get(parity, "precision"), ""), roundoffs[half]);
    check_operations(parity, u);
    check_gradients(&ladder, "start", u);
    check_gradients(&ladder, "trained", u);
    ck_assert_double_ge(number(entry(controls, "name", "shuffled gradient"), "error"), 0.5);
    ck_assert_double_eq(number(entry(controls, "name", "zeroed gradient"), "error"), 1);
    check_step(&ladder, "start");
    check_step(&ladder, "trained");
    ck_assert_uint_eq(json_count(json_get(parity, "step")), half ? 3 : 2);
    if (half) {
        check_step(&ladder, "growth");
        const Json *growth = entry(json_get(parity, "step"), "at", "growth");
        ck_assert_double_eq(number(growth, "scale_after"), 2 * number(growth, "scale_before"));
    }
    check_trajectory(parity);
    check_metric(&ladder, task);
    ck_assert_double_gt(number(parity, "training_seconds"), 0);
    ladder_close(&ladder);
}
END_TEST

START_TEST(an_fp32_night_shows_only_that_its_arm_is_fp32)
{
    Ladder ladder;
    ladder_open(&ladder, 0, precisions[2], 1, 0, NULL);
    ladder_climb(&ladder);
    const Json *probes = json_get(ladder.parity, "probes");
    ck_assert_uint_eq(json_count(ladder.parity), 3);   // with precision and reference
    ck_assert_uint_ge(json_count(probes), 4);
    for (size_t i = 0; i < json_count(probes); i++)
        ck_assert_double_le(number(json_at(probes, i), "error"), number(json_at(probes, i), "limit"));
    ladder_close(&ladder);
}
END_TEST

// The loss scale that a run begins with may be too high for its first gradients: it falls as in training.
START_TEST(a_loss_scale_that_overflows_is_lowered_until_the_step_is_applied)
{
    Ladder ladder;
    const char *const sets[] = {"train.scale_initial=16777216", NULL};
    ladder_open(&ladder, 0, precisions[1], 1, 0, sets);
    ladder_early(&ladder);
    check_gradients(&ladder, "start", 0x1p-11);
    check_step(&ladder, "start");
    const Json *step = entry(json_get(ladder.parity, "step"), "at", "start");
    ck_assert_double_lt(number(step, "scale_before"), 16777216);
    ladder_close(&ladder);
}
END_TEST

static const struct {
    const char *initial, *growth;
    double before, grows;   // at "growth"; before 0: where training left it
} scales[] = {
    {"train.scale_initial=1", "train.scale_growth=100", 0.5, 2},   // below the floor
    {"train.scale_initial=65536", "train.scale_growth=100", 32768, 2},
    {"train.scale_initial=65536", "train.scale_growth=1", 0, 4},   // in each of the two steps
    {"train.scale_initial=16777216", "train.scale_growth=1", 8388608, 2},   // the ceiling
};

START_TEST(the_loss_scale_is_expected_by_its_own_rule)
{
    Ladder ladder;
    const char *const sets[] = {scales[_i].initial, scales[_i].growth, "train.batch=512",
                                "train.learning_rate=0.0001", NULL};
    ladder_open(&ladder, 0, precisions[1], 1, 0, sets);
    ladder_climb(&ladder);
    const Json *steps = json_get(ladder.parity, "step"), *growth = entry(steps, "at", "growth");
    ck_assert_uint_eq(json_count(steps), 3);
    for (size_t i = 0; i < 3; i++) {
        const Json *step = json_at(steps, i);
        ck_assert_double_eq(number(step, "scale_after"), number(step, "scale_expected"));
        ck_assert(json_bool_or(json_get(step, "applied"), false));
    }
    double before = number(growth, "scale_before");
    ck_assert(scales[_i].before == 0 || before == scales[_i].before);
    ck_assert_double_eq(number(growth, "scale_after"), scales[_i].grows * before);
    ladder_close(&ladder);
}
END_TEST

// A floor no scale can go below: what is not finite is shown, not left out.
START_TEST(gradients_that_no_scale_makes_finite_are_told)
{
    Ladder ladder;
    const char *const sets[] = {"train.scale_initial=16777216", "train.scale_growth=0", NULL};
    ladder_open(&ladder, 0, precisions[1], 1, 0, sets);
    ladder_early(&ladder);
    ck_assert(!isfinite(largest(tensors(&ladder, "start"), "error")));
    ladder_close(&ladder);
}
END_TEST

START_TEST(steps_follow_from_counts_and_parity_is_shorter_than_the_training)
{
    Ladder ladder;
    const char *const sets[] = {"parity.steps=0", "parity.pairs=2", "train.epochs=60", "train.patience=60",
                                NULL};
    ladder_open(&ladder, 0, precisions[0], 1, 0, sets);
    int64_t begun = clock_monotonic_ns(ladder.world.clock);
    ladder_early(&ladder);
    ck_assert_int_gt(clock_monotonic_ns(ladder.world.clock), begun);
    world_train(ladder.trainer, ladder.evidence);
    ladder_late(&ladder);
    int64_t steps = json_integer_or(json_find(ladder.parity, "trajectory.steps"), 0);
    ck_assert_int_gt(steps, 8);
    ck_assert_int_eq(steps % 8, 0);
    ck_assert_uint_eq(json_count(json_find(ladder.parity, "trajectory.pairs")), 3 * 2);   // as many ulp runs
    ck_assert_double_le(number(ladder.parity, "seconds"), number(ladder.parity, "training_seconds"));
    ladder_close(&ladder);
}
END_TEST

START_TEST(a_short_training_still_has_steps_and_never_more_than_its_own)
{
    Ladder ladder;
    const char *const sets[] = {_i ? "parity.steps=1000" : "parity.steps=0", "train.max_steps=10", NULL};
    ladder_open(&ladder, 0, precisions[0], 1, 0, sets);
    ladder_climb(&ladder);
    ck_assert_int_eq(json_integer_or(json_find(ladder.parity, "trajectory.steps"), 0), _i ? 10 : 8);
    ladder_close(&ladder);
}
END_TEST

// A training too short for LEAST_STEPS: perturbed runs go first, pairs never, and the evidence says what it
// took.
START_TEST(a_short_training_has_fewer_perturbed_runs_and_says_that_parity_was_longer)
{
    static const struct {
        const char *epochs;
        size_t ulps;
        bool longer;
    } cases[] = {{"train.epochs=4", 2, true}, {"train.epochs=400", 4, false}};
    Ladder ladder;
    const char *const sets[] = {"parity.steps=0", "parity.pairs=6", cases[_i].epochs, "train.patience=400",
                                NULL};
    ladder_open(&ladder, 0, precisions[0], 1, 0, sets);
    ladder_climb(&ladder);
    const Json *pairs = json_find(ladder.parity, "trajectory.pairs");
    ck_assert_uint_eq(json_count(pairs), 6 + cases[_i].ulps + 6);
    ck_assert_uint_eq(json_count(json_find(ladder.parity, "metric.pairs")), 6);
    ck_assert((number(ladder.parity, "share") > 1) == cases[_i].longer);
    ladder_close(&ladder);
}
END_TEST

// -- seeds follow from the rows that each split has, not only from the files

static int64_t first_seed(const char *split)
{
    Ladder ladder;
    const char *const sets[] = {split, NULL};
    ladder_open(&ladder, 0, precisions[0], 1, 0, sets);
    ladder_climb(&ladder);
    int64_t seed = json_integer_or(json_get(json_at(json_find(ladder.parity, "metric.pairs"), 0), "seed"), 0);
    ladder_close(&ladder);
    return seed;
}

START_TEST(other_rows_of_the_same_file_are_other_pairs)
{
    int64_t seed = first_seed("split.validation=0.1");
    ck_assert_int_eq(seed, first_seed("split.validation=0.1"));
    ck_assert_int_ne(seed, first_seed("split.validation=0.2"));
}
END_TEST

START_TEST(a_slice_of_one_class_has_no_auc)
{
    Ladder ladder;
    ladder_open(&ladder, 0, precisions[0], 1, 0, NULL);
    ladder_early(&ladder);
    world_train(ladder.trainer, ladder.evidence);
    const double *target = ladder.trainer->validation.target;   // the column is made to follow the target
    for (size_t i = 0; i < ladder.column.rows; i++)
        ladder.column.codes[i] = target[i] == 1.0 ? 1 : (int32_t)(i % 2 ? 0 : 2);
    ladder_late(&ladder);
    const Json *slices = json_get(ladder.parity, "slices");
    ck_assert_uint_eq(json_count(slices), 3);
    for (size_t i = 0; i < 3; i++) {
        ck_assert_ptr_null(json_get(json_at(slices, i), "candidate"));
        ck_assert_ptr_null(json_get(json_at(slices, i), "reference"));
    }
    ladder_close(&ladder);
}
END_TEST

// -- nothing is left behind

static char *evidence_text(const Ladder *ladder)
{
    Text text;
    text_init(&text, 10000000);
    json_write(ladder->parity, JSON_COMPACT, &text);
    return text_take(&text);
}

START_TEST(the_same_version_makes_the_same_evidence_for_any_number_of_threads)
{
    char *text[2];
    for (int i = 0; i < 2; i++) {
        Ladder ladder;
        ladder_open(&ladder, 1, precisions[_i], i ? 3 : 1, 0, NULL);
        ladder_climb(&ladder);
        text[i] = evidence_text(&ladder);
        ladder_close(&ladder);
    }
    ck_assert_str_eq(text[0], text[1]);
    free(text[0]);
    free(text[1]);
}
END_TEST

START_TEST(training_after_the_early_rungs_gives_the_same_bits_as_without_them)
{
    Digest digest[2];
    for (int i = 0; i < 2; i++) {
        Ladder ladder;
        ladder_open(&ladder, 2, precisions[_i], 1, 0, NULL);
        if (i > 0)
            ladder_early(&ladder);
        TrainResult result = world_train(ladder.trainer, ladder.evidence);
        ck_assert(isfinite(result.best_validation_loss));
        digest[i] = world_digest(ladder.trainer);
        ladder_close(&ladder);
    }
    ck_assert(digest_equal(&digest[0], &digest[1]));
}
END_TEST

static float *state_of(const Ladder *ladder, FedgateStepState *ret_step)
{
    Error error = ERROR_INIT;
    float *state = calloc((size_t)(3 * trainer_floats(ladder->trainer)), sizeof *state);
    ck_assert(network_save(&ladder->trainer->network, state, ret_step, &error));
    return state;
}

START_TEST(the_late_rungs_change_neither_the_model_nor_the_state)
{
    Ladder ladder;
    Error error = ERROR_INIT;
    FedgateStepState step[2];
    ladder_open(&ladder, 0, precisions[_i], 1, 0, NULL);
    ladder_early(&ladder);
    world_train(ladder.trainer, ladder.evidence);
    Digest before = world_digest(ladder.trainer);
    float *state = state_of(&ladder, &step[0]);
    int64_t live = ledger_live(ladder.world.ledger, LEDGER_DEVICE);
    ladder_late(&ladder);
    float *after = state_of(&ladder, &step[1]);
    Digest digest = world_digest(ladder.trainer);
    ck_assert(digest_equal(&before, &digest));
    ck_assert_mem_eq(state, after, (size_t)(3 * trainer_floats(ladder.trainer)) * sizeof *state);
    ck_assert_mem_eq(&step[0], &step[1], sizeof step[0]);
    ck_assert_int_eq(ladder.trainer->network.pace_count, ladder.trainer->planned);
    ck_assert_int_eq(ledger_live(ladder.world.ledger, LEDGER_DEVICE), live);
    ck_assert_msg(trainer_replay(ladder.trainer, ladder.evidence, &error), "%s", error.message);
    free(state);
    free(after);
    ladder_close(&ladder);
}
END_TEST

// -- a budget that the second network breaks: by account, at every place where memory is taken

START_TEST(a_budget_without_room_for_the_reference_refuses_and_leaves_the_trainer_as_it_was)
{
    Ladder ladder;
    ladder_open(&ladder, 0, precisions[0], 1, 0, NULL);
    Ledger *ledger = ladder.world.ledger;
    int64_t live = ledger_live(ledger, LEDGER_DEVICE);
    bool good = false;
    for (int64_t room = 1; !good; room *= 2) {
        Error error = ERROR_INIT;
        FedgateStepState step[2];
        float *before = state_of(&ladder, &step[0]), *after;
        ledger_set_budget(ledger, LEDGER_DEVICE, live + room);
        good = trainer_parity_early(ladder.trainer, ladder.evidence, &error);
        ck_assert_msg(good || error.kind == ERROR_MEMORY, "%s", error.message);
        ck_assert(good || strstr(error.message, "parity"));
        after = state_of(&ladder, &step[1]);
        ck_assert_mem_eq(before, after, (size_t)(3 * trainer_floats(ladder.trainer)) * sizeof *before);
        ck_assert_mem_eq(&step[0], &step[1], sizeof step[0]);
        ck_assert_int_eq(ledger_live(ledger, LEDGER_DEVICE), live);
        ck_assert_int_le(room, 1 << 24);
        free(before);
        free(after);
    }
    ledger_set_budget(ledger, LEDGER_DEVICE, 0);
    world_train(ladder.trainer, ladder.evidence);
    Digest before = world_digest(ladder.trainer);
    live = ledger_live(ledger, LEDGER_DEVICE);
    good = false;
    for (int64_t room = 1; !good; room *= 2) {
        Error error = ERROR_INIT;
        ledger_set_budget(ledger, LEDGER_DEVICE, live + room);
        good = trainer_parity_late(ladder.trainer, &ladder.spec, ladder.evidence, &error);
        ck_assert_msg(good || error.kind == ERROR_MEMORY, "%s", error.message);
        Digest after = world_digest(ladder.trainer);
        ck_assert(digest_equal(&before, &after));
        ck_assert_int_eq(ledger_live(ledger, LEDGER_DEVICE), live);
        ck_assert_int_le(room, 1 << 24);
    }
    ledger_set_budget(ledger, LEDGER_DEVICE, 0);
    ladder_close(&ladder);
}
END_TEST

// -- a ladder that is ended: at each place where it asks

typedef struct Word {
    LadderWord word;
    int64_t asked, at;
} Word;

static LadderWord say(void *context)
{
    Word *word = context;
    return ++word->asked == word->at ? word->word : LADDER_GO_ON;
}

START_TEST(an_ended_ladder_leaves_out_what_is_missing_and_everything_as_it_was)
{
    Ladder ladder;
    Word word = {.word = _i ? LADDER_STOP : LADDER_LEAVE};
    ladder_open(&ladder, 0, precisions[1], 1, 0, NULL);
    ladder.trainer->spec.ladder_watch = say;
    ladder.trainer->spec.watch_context = &word;
    world_train(ladder.trainer, ladder.evidence);
    Digest before = world_digest(ladder.trainer);
    int64_t live[LEDGER_KIND_COUNT];
    for (int kind = 0; kind < LEDGER_KIND_COUNT; kind++)
        live[kind] = ledger_live(ladder.world.ledger, (LedgerKind)kind);
    bool ended = true;
    for (word.at = 1; ended; word.at += 1 + word.at) {
        Error error = ERROR_INIT;
        word.asked = 0;
        json_free(ladder.evidence);
        ladder.evidence = json_make_object();
        bool good = trainer_parity_early(ladder.trainer, ladder.evidence, &error) &&
                    trainer_parity_late(ladder.trainer, &ladder.spec, ladder.evidence, &error);
        ended = word.asked >= word.at;
        ck_assert_msg(good == !(ended && _i), "ask %lld: %s", (long long)word.at, error.message);
        ck_assert(good ? error.kind == ERROR_NONE : error.kind == ERROR_BUSY);
        if (ended && word.at > 2)
            ck_assert_ptr_null(json_find(ladder.evidence, "parity.metric"));
        Digest after = world_digest(ladder.trainer);
        ck_assert(digest_equal(&before, &after));
        for (int kind = 0; kind < LEDGER_KIND_COUNT; kind++)
            ck_assert_int_eq(ledger_live(ladder.world.ledger, (LedgerKind)kind), live[kind]);
    }
    ck_assert_int_gt(word.at, 10);
    ladder_close(&ladder);
}
END_TEST

// -- memory that was refused is asked for again, not believed to be there

START_TEST(a_pace_table_that_was_refused_is_taken_when_there_is_room)
{
    Ladder ladder;
    Error error = ERROR_INIT;
    ladder_open(&ladder, 0, precisions[0], 1, 0, NULL);
    Network *network = &ladder.trainer->network;
    Ledger *ledger = ladder.world.ledger;
    ledger_set_budget(ledger, LEDGER_DEVICE, ledger_live(ledger, LEDGER_DEVICE));
    for (int i = 0; i < 2; i++) {
        error = ERROR_INIT;
        ck_assert(!network_set_pace(network, &ladder.trainer->recipe, 100000, &error));
        ck_assert_int_eq(error.kind, ERROR_MEMORY);
        ck_assert_int_eq(network->held[HELD_PACE].bytes, 0);
    }
    ledger_set_budget(ledger, LEDGER_DEVICE, 0);
    ck_assert(network_set_pace(network, &ladder.trainer->recipe, 100000, &error));
    ladder_close(&ladder);
}
END_TEST

#ifdef FEDGATE_FAULTS

// -- planted faults

static bool shows_tf32(const Ladder *ladder)
{
    const Json *probes = json_get(ladder->parity, "probes");
    for (size_t i = 0; i < json_count(probes); i++)
        if (!(number(json_at(probes, i), "error") <= number(json_at(probes, i), "limit")))
            return true;
    return false;
}
static bool shows_half_sums(const Ladder *ladder)
{
    const Json *error = json_find(ladder->parity, "growth.error");
    return json_number_or(json_at(error, 3), 0) > 2 * json_number_or(json_at(error, 0), INFINITY);
}
static bool shows_metric(const Ladder *ladder)
{
    return number(entry(json_get(ladder->parity, "operations"), "name", "loss sum, binary"), "error") > 1e-3;
}
static bool shows_unscaled(const Ladder *ladder)
{
    return number(entry(json_get(ladder->parity, "step"), "at", "trained"), "moment_ratio") < 0.9;
}
static bool shows_no_master(const Ladder *ladder)
{
    return number(entry(json_get(ladder->parity, "step"), "at", "trained"), "representable") == 1;
}
static bool shows_coarse_reference(const Ladder *ladder)
{
    return largest(tensors(ladder, "start"), "reference_error") > 1e-4 &&
           largest(tensors(ladder, "trained"), "reference_error") > 1e-4;
}
static bool shows_swapped(const Ladder *ladder)
{
    const Json *dense = entry(json_get(ladder->parity, "operations"), "name", "dense");
    return shows_coarse_reference(ladder) && number(dense, "error") < number(dense, "reference_error");
}
static bool shows_same(const Ladder *ladder)
{
    const Json *pairs = json_find(ladder->parity, "metric.pairs");
    for (size_t i = 0; i < json_count(pairs); i++)
        if (number(json_at(pairs, i), "reference") != number(json_at(pairs, i), "candidate"))
            return false;
    return largest(tensors(ladder, "start"), "error") == 0 &&
           largest(tensors(ladder, "trained"), "error") == 0;
}
static bool shows_flat(const Ladder *ladder)
{
    const Json *pairs = json_find(ladder->parity, "metric.pairs");
    double first = number(json_at(pairs, 0), "reference");
    bool flat = true;
    for (size_t i = 0; i < json_count(pairs); i++)
        flat = flat && number(json_at(pairs, i), "reference") == first &&
               number(json_at(pairs, i), "candidate") == first;
    return flat;
}
static bool shows_one_slice(const Ladder *ladder)
{
    const Json *slices = json_get(ladder->parity, "slices"),
               *pairs = json_find(ladder->parity, "metric.pairs");
    size_t bad = 0;
    for (size_t i = 0; i < json_count(slices); i++)
        if (isnan(json_number_or(json_at(json_get(json_at(slices, i), "candidate"), 0), 0)))
            bad++;
    return bad == 1 && isfinite(number(json_at(pairs, 0), "candidate"));
}

static const struct {
    const char *fault;
    int precision;
    bool (*shows)(const Ladder *);
} faults[] = {
    {"compute.tf32=1", 0, shows_tf32},
    {"compute.bf16_sums=1", 0, shows_half_sums},
    {"compute.fp16_sums=1", 1, shows_half_sums},
    {"compute.metric_bf16=1", 0, shows_metric},
    {"train.unscale_twice=1", 1, shows_unscaled},
    {"train.no_master=1", 0, shows_no_master},
    {"train.no_master=1", 1, shows_no_master},
    {"parity.swap_arms=1", 0, shows_swapped},
    {"parity.swap_arms=1", 1, shows_swapped},
    {"parity.same_arms=1", 0, shows_same},
    {"parity.same_arms=1", 1, shows_same},
    {"parity.flat_metric=1", 0, shows_flat},
    {"parity.nan_slice=1", 0, shows_one_slice},
    {"parity.reference_rounded=1", 0, shows_coarse_reference},
    {"parity.reference_rounded=1", 1, shows_coarse_reference},
};
enum { FAULT_COUNT = sizeof faults / sizeof faults[0] };

START_TEST(a_planted_fault_shows_in_its_rung)
{
    for (int i = 0; i < 2; i++) {
        Ladder ladder;
        if (i > 0)
            setenv("FEDGATE_FAULT", faults[_i].fault, 1);
        ladder_open(&ladder, 0, precisions[faults[_i].precision], 1, 0, NULL);
        ladder_climb(&ladder);
        ck_assert_msg(faults[_i].shows(&ladder) == (i > 0), "%s: %s", faults[_i].fault,
                      i ? "does not show" : "shows in a good run");
        unsetenv("FEDGATE_FAULT");
        ladder_close(&ladder);
    }
}
END_TEST

#endif

static Suite *suite(void)
{
    Suite *s = suite_create("trainer_parity");
    TCase *t = tcase_create("evidence");
    tcase_add_loop_test(t, every_rung_has_its_figures, 0, 6);
    tcase_add_test(t, an_fp32_night_shows_only_that_its_arm_is_fp32);
    tcase_add_test(t, a_loss_scale_that_overflows_is_lowered_until_the_step_is_applied);
    tcase_add_test(t, gradients_that_no_scale_makes_finite_are_told);
    tcase_add_test(t, steps_follow_from_counts_and_parity_is_shorter_than_the_training);
    tcase_add_loop_test(t, a_short_training_still_has_steps_and_never_more_than_its_own, 0, 2);
    tcase_add_loop_test(t, a_short_training_has_fewer_perturbed_runs_and_says_that_parity_was_longer, 0, 2);
    tcase_add_test(t, other_rows_of_the_same_file_are_other_pairs);
    tcase_add_loop_test(t, the_loss_scale_is_expected_by_its_own_rule, 0, 4);
    tcase_add_test(t, a_slice_of_one_class_has_no_auc);
    suite_add_tcase(s, t);
    t = tcase_create("state");
    tcase_set_timeout(t, 60);   // with sanitisers
    tcase_add_loop_test(t, the_same_version_makes_the_same_evidence_for_any_number_of_threads, 0, 2);
    tcase_add_loop_test(t, training_after_the_early_rungs_gives_the_same_bits_as_without_them, 0, 3);
    tcase_add_loop_test(t, the_late_rungs_change_neither_the_model_nor_the_state, 0, 3);
    tcase_add_test(t, a_budget_without_room_for_the_reference_refuses_and_leaves_the_trainer_as_it_was);
    tcase_add_loop_test(t, an_ended_ladder_leaves_out_what_is_missing_and_everything_as_it_was, 0, 2);
    tcase_add_test(t, a_pace_table_that_was_refused_is_taken_when_there_is_room);
    suite_add_tcase(s, t);
#ifdef FEDGATE_FAULTS
    t = tcase_create("faults");
    tcase_add_loop_test(t, a_planted_fault_shows_in_its_rung, 0, FAULT_COUNT);
    suite_add_tcase(s, t);
#endif
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
