// trainer_test - the network's gradients, training that gives the same bits however it is run, resuming,
// early stop, models on disk.
#include "trainer_world.h"

#include "../../src/trainer/trainer_internal.h"

// -- gradients against finite differences of the same network in double arithmetic

enum { TINY_ROWS = 5 };
static const TrainShape tiny = {.numeric = 2,
                                .categorical = 2,
                                .cardinality = {3, 4},
                                .embedding = {2, 3},
                                .hidden = {6, 4},
                                .layers = 2,
                                .outputs = 1};
static const struct {
    FedgateLossKind kind;
    int64_t outputs;
} tasks[] = {{FEDGATE_LOSS_BINARY, 1}, {FEDGATE_LOSS_CLASSES, 3}, {FEDGATE_LOSS_SQUARE, 1}};
static const float tiny_numeric[TINY_ROWS * 2] = {.3f, -1, .8f, .1f, -.4f, .9f, 1.5f, -.2f, .6f, .7f};
static const int32_t tiny_codes[TINY_ROWS * 2] = {1, 3, 2, 0, 1, 1, 2, 2, 1, 3};
static const float tiny_target[TINY_ROWS] = {1, 0, 1, 0, 1};

static double reference_row(const Layout *layout, const TrainShape *shape, FedgateLossKind kind,
                            const double *w, int row)
{
    double value[64], next[64];
    int64_t width = 0;
    for (; width < shape->numeric; width++)
        value[width] = (double)tiny_numeric[row * shape->numeric + width];
    for (int64_t c = 0; c < shape->categorical; c++)
        for (int64_t j = 0; j < shape->embedding[c]; j++)
            value[width++] =
                w[layout->at[c].offset + tiny_codes[row * shape->categorical + c] * shape->embedding[c] + j];
    for (size_t layer = 0; layer <= shape->layers; layer++) {
        int64_t out = layer_out(shape, layer);
        for (int64_t j = 0; j < out; j++) {
            next[j] = w[layout->at[layout_bias(shape, layer)].offset + j];
            for (int64_t k = 0; k < width; k++)
                next[j] += value[k] * w[layout->at[layout_matrix(shape, layer)].offset + k * out + j];
            if (layer < shape->layers && next[j] < 0)
                next[j] = 0;
        }
        memcpy(value, next, sizeof value);
        width = out;
    }
    double target = (double)tiny_target[row], sum = 0;
    switch (kind) {
    case FEDGATE_LOSS_BINARY:
        return log1p(exp(-fabs(value[0]))) + fmax(value[0], 0) - value[0] * target;
    case FEDGATE_LOSS_SQUARE:
        return (value[0] - target) * (value[0] - target);
    case FEDGATE_LOSS_CLASSES:
        break;
    }
    for (int64_t k = 0; k < shape->outputs; k++)
        sum += exp(value[k]);
    return log(sum) - value[(int)target];
}

static double reference_loss(const Layout *layout, const TrainShape *shape, FedgateLossKind kind,
                             const double *w)
{
    double sum = 0;
    for (int row = 0; row < TINY_ROWS; row++)
        sum += reference_row(layout, shape, kind, w, row);
    return sum / TINY_ROWS;
}

START_TEST(every_gradient_agrees_with_finite_differences_in_double)
{
    Error error = ERROR_INIT;
    Ledger *ledger = ledger_new();
    Device *device = device_open("cpu", 1, clock_real(), ledger, &error);
    TrainShape shape = tiny;
    shape.outputs = tasks[_i].outputs;
    Network network;
    ck_assert(
        network_open(&network, device, &shape, tasks[_i].kind, FEDGATE_FP32, TINY_ROWS, true, "", &error));
    const Layout *layout = &network.layout;
    double *w = calloc((size_t)layout->floats, sizeof *w);
    const Recipe recipe = {0};
    ck_assert(network_start(&network, &recipe, 11, &error));
    for (int64_t i = 0; i < layout->floats; i++)
        w[i] = (double)(network.weights[i] +=
                        0.05f * (float)((i * 7) % 5 - 2));   // no zero bias, no zero unknown slot
    Rows rows = {.numeric = tiny_numeric, .codes = tiny_codes, .target = tiny_target, .count = TINY_ROWS};
    network_forward(&network, &rows, NULL);
    network_loss(&network, &rows, 1.0f / TINY_ROWS, true);
    network_backward(&network, &rows, NULL, false);
    double loss;
    ck_assert(network_read_loss(&network, &loss, &error));
    ck_assert_double_eq_tol(loss / TINY_ROWS, reference_loss(layout, &shape, tasks[_i].kind, w), 1e-6);
    for (int64_t i = 0; i < layout->floats; i++) {
        double kept = w[i], side[2];
        for (int s = 0; s < 2; s++) {
            w[i] = kept + (s ? 1e-6 : -1e-6);
            side[s] = reference_loss(layout, &shape, tasks[_i].kind, w);
        }
        w[i] = kept;
        ck_assert_double_eq_tol((double)network.gradients[i], (side[1] - side[0]) / 2e-6, 2e-5);
    }
    free(w);
    network_close(&network);
    device_close(device);
    ledger_free(ledger);
}
END_TEST

// -- the same bits

static const char *const task_names[] = {"binary", "multiclass", "regression"};
static const char *const precision_sets[] = {"train.precision=fp32", "train.precision=bf16",
                                             "train.precision=fp16"};

static const struct {
    const char *what;
    bool simulated;
    int threads;
    const char *sets[4];
} ways[] = {
    {"one thread", false, 1, {NULL}},
    {"three compute threads", false, 3, {NULL}},
    {"three loaders, other queue lengths",
     false,
     2,
     {"input.workers=3", "input.prefetch=2", "input.slots=2", NULL}},
    {"the simulated clock", true, 1, {NULL}},
    {"more checkpoints", false, 1, {"train.checkpoint_every=3", NULL}},
};

START_TEST(a_run_gives_the_same_bits_however_it_is_run)
{
    Digest first;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        World world;
        const char *sets[8] = {precision_sets[_i / 3], "train.scale_initial=16777216"};
        for (size_t k = 0; ways[i].sets[k]; k++)
            sets[k + 2] = ways[i].sets[k];
        world_open(&world, task_names[_i % 3], ways[i].simulated, ways[i].threads, sets);
        Trainer *trainer = world_trainer(&world, 0, NULL, NULL);
        Json *evidence = json_make_object();
        TrainResult result = world_train(trainer, evidence);
        ck_assert_int_eq(result.steps, result.planned_steps);
        Digest digest = world_digest(trainer);
        if (i == 0)
            first = digest;
        ck_assert_msg(digest_equal(&digest, &first), "%s gives other bits", ways[i].what);
        json_free(evidence);
        trainer_free(trainer);
        world_close(&world);
    }
}
END_TEST

START_TEST(another_seed_gives_another_model)
{
    Digest digest[2];
    for (int i = 0; i < 2; i++) {
        World world;
        world_open(&world, "binary", true, 1,
                   (const char *const[]){i ? "train.seed=4" : "train.seed=5", NULL});
        Trainer *trainer = world_trainer(&world, 0, NULL, NULL);
        Json *evidence = json_make_object();
        world_train(trainer, evidence);
        digest[i] = world_digest(trainer);
        json_free(evidence);
        trainer_free(trainer);
        world_close(&world);
    }
    ck_assert(!digest_equal(&digest[0], &digest[1]));
}
END_TEST

START_TEST(accumulated_microbatches_agree_with_the_whole_batch)
{
    double loss[2];
    for (int i = 0; i < 2; i++) {
        World world;
        world_open(&world, "binary", true, 1, (const char *const[]){"train.max_steps=6", NULL});
        Trainer *trainer = world_trainer(&world, i ? 16 : 64, NULL, NULL);
        Json *evidence = json_make_object();
        loss[i] = world_train(trainer, evidence).best_validation_loss;
        json_free(evidence);
        trainer_free(trainer);
        world_close(&world);
    }
    ck_assert_double_eq_tol(loss[0], loss[1], 1e-4);
}
END_TEST

// -- resuming

static bool stop_at(void *context, const TrainProgress *progress)
{
    return progress->step < *(const int64_t *)context;
}

// With 64 rows a batch and some 500 training rows an epoch has eight steps: stops inside, at and after
// epochs.
static const int64_t stops[] = {1, 2, 5, 8, 9, 16, 19};

START_TEST(a_stopped_run_resumes_to_the_same_bits)
{
    static const char *const every_step[] = {"telemetry.window=1", "train.dropout=0.2", "train.patience=2",
                                             NULL};
    Digest whole, resumed;
    for (int run = 0; run < 2; run++) {
        World world;
        world_open(&world, "binary", true, 1, every_step);
        Json *evidence = json_make_object(), *again = json_make_object();
        int64_t at = stops[_i];
        Trainer *trainer = world_trainer(&world, 0, run ? stop_at : NULL, &at);
        TrainResult result = world_train(trainer, evidence);
        if (run == 1) {
            ck_assert(result.stopped_early);
            ck_assert_int_eq(result.steps, at);
            trainer_free(trainer);
            trainer = world_trainer(&world, 0, NULL, NULL);
            result = world_train(trainer, again);
            ck_assert_int_eq(result.resumed_from, at);
        }
        ck_assert(!result.stopped_early);
        *(run ? &resumed : &whole) = world_digest(trainer);
        json_free(evidence);
        json_free(again);
        trainer_free(trainer);
        world_close(&world);
    }
    ck_assert(digest_equal(&whole, &resumed));
}
END_TEST

static void damage(const World *world, const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s/state.safetensors", world->checkpoints, name);
    FILE *stream = fopen(path, "r+b");
    ck_assert_ptr_nonnull(stream);
    fseek(stream, -1, SEEK_END);
    int last = fgetc(stream);
    fseek(stream, -1, SEEK_END);
    fputc(last ^ 1, stream);
    fclose(stream);
}

START_TEST(a_damaged_checkpoint_gives_way_to_the_one_before_and_one_of_another_run_to_none)
{
    World world;
    int64_t at = 6;
    world_open(&world, "binary", true, 1,
               (const char *const[]){"telemetry.window=1", "train.checkpoint_every=2", NULL});
    Json *evidence = json_make_object();
    Trainer *trainer = world_trainer(&world, 0, stop_at, &at);
    world_train(trainer, evidence);
    trainer_free(trainer);
    damage(&world, "step-000000000006");
    trainer = world_trainer(&world, 0, NULL, NULL);
    Json *again = json_make_object();
    ck_assert_int_eq(world_train(trainer, again).resumed_from, 4);
    trainer_free(trainer);
    json_free(again);
    trainer = world_trainer(&world, 32, NULL, NULL);   // other bits, so another run
    again = json_make_object();
    ck_assert_int_eq(world_train(trainer, again).resumed_from, 0);
    trainer_free(trainer);
    json_free(again);
    json_free(evidence);
    world_close(&world);
}
END_TEST

// -- schedule

static const struct {
    int64_t step, planned;
    double warmup, final, rate;
} rates[] = {
    {0, 100, 0, 0.1, 1},        {50, 100, 0, 0.1, 0.55},
    {100, 100, 0, 0.1, 0.1},    {25, 100, 0, 0, 0.85355339059327373},
    {0, 100, 0.1, 0, 1.0 / 11}, {9, 100, 0.1, 0, 10.0 / 11},
    {10, 100, 0.1, 0, 1},       {55, 100, 0.1, 0.2, 0.6},
    {500, 100, 0, 0.25, 0.25},
};

START_TEST(the_rate_rises_and_falls_by_the_schedule)
{
    ck_assert_double_eq_tol(
        schedule_rate(rates[_i].step, rates[_i].planned, 1, rates[_i].warmup, rates[_i].final),
        rates[_i].rate, 1e-15);
}
END_TEST

START_TEST(powers_and_cosines_need_no_library)
{
    ck_assert_double_eq_tol(schedule_power(0.9, 37), pow(0.9, 37), 1e-15);
    ck_assert_double_eq(schedule_power(0.999, 0), 1);
    for (int i = 0; i <= 64; i++)
        ck_assert_double_eq_tol(schedule_cosine(i / 64.0), cos(3.141592653589793 * i / 64.0), 3e-16);
}
END_TEST

// -- early stop and the model

START_TEST(patience_ends_the_run_and_the_best_weights_are_kept)
{
    World world;
    Error error = ERROR_INIT;
    world_open(&world, "binary", true, 1,
               (const char *const[]){"train.epochs=60", "train.patience=2", "train.learning_rate=0.05",
                                     "train.hidden=32,32", NULL});
    Trainer *trainer = world_trainer(&world, 0, NULL, NULL);
    Json *evidence = json_make_object();
    TrainResult result = world_train(trainer, evidence);
    ck_assert_int_lt(result.steps, result.planned_steps);
    ck_assert(!result.stopped_early);
    Table table;
    OWNED(Model, model_free) *model = trainer_model(trainer, &error);
    ck_assert(dataset_decode(world.dataset, world.maps, SPLIT_VALIDATION, world.ledger, &table, &error));
    double *score = calloc(table.rows, sizeof *score);
    ck_assert(model_predict(model, world.device, world.ledger, &table, 0, 1, score, &error));
    Predictions predictions = {.score = score, .rows = table.rows, .classes = 1};
    ck_assert_double_eq_tol(stats_metric(METRIC_LOGLOSS, predictions, table.target, NULL),
                            result.best_validation_loss, 1e-6);
    free(score);
    table_done(&table);
    json_free(evidence);
    trainer_free(trainer);
    world_close(&world);
}
END_TEST

START_TEST(a_model_is_saved_loaded_and_predicts_the_same)
{
    World world;
    Error error = ERROR_INIT;
    world_open(&world, task_names[_i], true, 2, NULL);
    Trainer *trainer = world_trainer(&world, 0, NULL, NULL);
    Json *evidence = json_make_object();
    world_train(trainer, evidence);
    OWNED(Model, model_free) *model = trainer_model(trainer, &error);
    char folder[2][128];
    for (int i = 0; i < 2; i++) {
        snprintf(folder[i], sizeof folder[i], "%s/model%d", world.folder, i);
        ck_assert(file_make_directory(folder[i], 0750, &error));
        ck_assert_msg(model_save(model, folder[i], &error), "%s", error.message);
    }
    OWNED(Model, model_free) *loaded = model_load(folder[0], &error);
    ck_assert_msg(loaded != NULL, "%s", error.message);
    Table table;
    double mean, deviation;
    maps_target(world.maps, &mean, &deviation);
    ck_assert(dataset_decode(world.dataset, world.maps, SPLIT_TEST, world.ledger, &table, &error));
    double *score = calloc(table.rows * 3, sizeof *score), *again = calloc(table.rows * 3, sizeof *again);
    ck_assert(model_predict(model, world.device, world.ledger, &table, mean, deviation, score, &error));
    ck_assert(model_predict(loaded, world.device, world.ledger, &table, mean, deviation, again, &error));
    ck_assert_mem_eq(score, again, table.rows * 3 * sizeof *score);
    int classes = dataset_classes(world.dataset);
    Predictions predictions = {.score = score, .rows = table.rows, .classes = classes};
    if (_i == 2)
        ck_assert_double_lt(stats_metric(METRIC_RMSE, predictions, table.target, NULL), 9);
    else
        ck_assert_double_gt(stats_metric(METRIC_ACCURACY, predictions, table.target, NULL), 0.75);
    table.codes[0] = 99;
    ck_assert(!model_predict(model, world.device, world.ledger, &table, mean, deviation, again, &error));
    ck_assert_int_eq(error.kind, ERROR_DATA);
    table.numeric = 1;
    ck_assert(!model_predict(model, world.device, world.ledger, &table, mean, deviation, again, &error));
    free(score);
    free(again);
    table.numeric = 2;
    table_done(&table);
    json_free(evidence);
    trainer_free(trainer);
    world_close(&world);
}
END_TEST

#define SHAPE "\"cardinality\": [], \"embedding\": [], \"hidden\": [2], \"outputs\": 1"
static const struct {
    const char *what, *json, *message;
} hostile[] = {
    {"not JSON", "{", "model.json"},
    {"another format", "{\"format\": 2, \"kind\": \"mlp\", \"task\": \"binary\", \"numeric\": 1, " SHAPE "}",
     "format 2"},
    {"another kind", "{\"format\": 1, \"kind\": \"tree\", \"task\": \"binary\", \"numeric\": 1, " SHAPE "}",
     "kind 'tree'"},
    {"unknown task", "{\"format\": 1, \"kind\": \"mlp\", \"task\": \"dream\", \"numeric\": 1, " SHAPE "}",
     "unknown task 'dream'"},
    {"no input", "{\"format\": 1, \"kind\": \"mlp\", \"task\": \"binary\", \"numeric\": 0, " SHAPE "}",
     "contradict"},
    {"negative input", "{\"format\": 1, \"kind\": \"mlp\", \"task\": \"binary\", \"numeric\": -1, " SHAPE "}",
     "contradict"},
    {"classes without outputs",
     "{\"format\": 1, \"kind\": \"mlp\", \"task\": \"multiclass\", \"numeric\": 1, " SHAPE "}", "contradict"},
    {"a width of nothing",
     "{\"format\": 1, \"kind\": \"mlp\", \"task\": \"binary\", \"numeric\": 1, \"cardinality\": [], "
     "\"embedding\": [], "
     "\"hidden\": [0], \"outputs\": 1}",
     "outside 1 to"},
    {"tensors missing", "{\"format\": 1, \"kind\": \"mlp\", \"task\": \"binary\", \"numeric\": 1, " SHAPE "}",
     "model.safetensors"},
};

START_TEST(a_model_that_contradicts_itself_is_not_loaded)
{
    char folder[] = "/tmp/fedgate-model-XXXXXX", path[128];
    Error error = ERROR_INIT;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/model.json", folder);
    ck_assert(file_write_new(path, hostile[_i].json, strlen(hostile[_i].json), 0640, &error));
    ck_assert_msg(model_load(folder, &error) == NULL, "%s was accepted", hostile[_i].what);
    ck_assert_msg(strstr(error.message, hostile[_i].message), "%s: %s", hostile[_i].what, error.message);
    ck_assert(file_remove_tree(folder, &error));
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("trainer");
    TCase *t = tcase_create("network");
    tcase_add_loop_test(t, every_gradient_agrees_with_finite_differences_in_double, 0, 3);
    tcase_add_loop_test(t, the_rate_rises_and_falls_by_the_schedule, 0, sizeof rates / sizeof rates[0]);
    tcase_add_test(t, powers_and_cosines_need_no_library);
    suite_add_tcase(s, t);
    t = tcase_create("runs");
    tcase_add_loop_test(t, a_run_gives_the_same_bits_however_it_is_run, 0, 9);
    tcase_add_test(t, another_seed_gives_another_model);
    tcase_add_test(t, accumulated_microbatches_agree_with_the_whole_batch);
    tcase_add_loop_test(t, a_stopped_run_resumes_to_the_same_bits, 0, sizeof stops / sizeof stops[0]);
    tcase_add_test(t, a_damaged_checkpoint_gives_way_to_the_one_before_and_one_of_another_run_to_none);
    tcase_add_test(t, patience_ends_the_run_and_the_best_weights_are_kept);
    suite_add_tcase(s, t);
    t = tcase_create("models");
    tcase_add_loop_test(t, a_model_is_saved_loaded_and_predicts_the_same, 0, 3);
    tcase_add_loop_test(t, a_model_that_contradicts_itself_is_not_loaded, 0,
                        sizeof hostile / sizeof hostile[0]);
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
