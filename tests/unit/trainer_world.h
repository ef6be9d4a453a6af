// trainer_world - a small data set on disk and everything a trainer needs, for the tests of the trainer.
//
// Two numbers, one category of three (a row in ten has none of the training ones), a target of the asked task
// that follows from them with noise. Rows come from a fixed generator: the same file in every test.
#ifndef FEDGATE_TRAINER_WORLD_H
#define FEDGATE_TRAINER_WORLD_H

#include <check.h>
#include <fedgate/file.h>
#include <fedgate/trainer.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORLD_ROWS = 700, WORLD_SETS = 40 };

typedef struct World {
    char folder[64], checkpoints[128];
    Clock *clock;
    Ledger *ledger;
    Config *config;
    Dataset *dataset;
    Maps *maps;
    Device *device;
    int64_t validation_rows;   // of the plan; 0: all stay on the device
} World;

static double world_noise(uint32_t *seed)
{
    double sum = 0;
    for (int i = 0; i < 4; i++) {
        *seed = *seed * 1664525u + 1013904223u;
        sum += (double)(*seed >> 8) / 8388608.0 - 1;
    }
    return sum / 2;
}

static void world_write(const char *path, const char *task)
{
    FILE *stream = fopen(path, "w");
    ck_assert_ptr_nonnull(stream);
    fputs("a,b,c,target\n", stream);
    uint32_t seed = 7;
    for (int i = 0; i < WORLD_ROWS; i++) {
        double a = world_noise(&seed), b = world_noise(&seed);
        int c = (int)((seed >> 16) % 3);
        double value = 2 * a - b + (c == 1) - 0.5 * (c == 2) + a * b + 0.3 * world_noise(&seed);
        fprintf(stream, "%.6f,%.6f,%c,", a, b, 'x' + c);
        if (strcmp(task, "regression") == 0)
            fprintf(stream, "%.6f\n", 100 + 10 * value);
        else if (strcmp(task, "binary") == 0)
            fprintf(stream, "%d\n", value > 0);
        else
            fprintf(stream, "%d\n", value > 1 ? 2 : value > -1 ? 1 : 0);
    }
    ck_assert_int_eq(fclose(stream), 0);
}

// sets: "name=value" texts after the defaults below, NULL at the end.
// backend: NULL: the cpu's.
static inline void world_open_on(World *world, const FedgateBackend *backend, const char *task,
                                 bool simulated, int threads, const char *const *sets)
{
    Error error = ERROR_INIT;
    char data[160], directory[160], asked[64];
    snprintf(world->folder, sizeof world->folder, "/tmp/fedgate-trainer-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(world->folder));
    snprintf(data, sizeof data, "%s/rows.csv", world->folder);
    snprintf(world->checkpoints, sizeof world->checkpoints, "%s/checkpoints", world->folder);
    world_write(data, task);
    snprintf(directory, sizeof directory, "data.directory=%s", world->folder);
    snprintf(asked, sizeof asked, "task=%s", task);
    const char *all[WORLD_SETS] = {"model=world",
                                   directory,
                                   asked,
                                   "data.train=rows.csv",
                                   "data.target=target",
                                   "data.numeric=a,b",
                                   "data.categorical=c",
                                   "train.hidden=8,5",
                                   "train.batch=64",
                                   "train.epochs=4",
                                   "train.learning_rate=0.01",
                                   "train.seed=3"};
    size_t count = 12;
    for (size_t i = 0; sets && sets[i]; i++)
        all[count++] = sets[i];
    world->clock = simulated ? clock_simulated(1796083200000000000) : clock_real();
    world->validation_rows = 0;
    world->ledger = ledger_new();
    world->config = config_load(NULL, all, count, NULL, &error);
    ck_assert_msg(world->config != NULL, "%s", error.message);
    world->dataset = dataset_open(world->config, world->clock, world->ledger, &error);
    ck_assert_msg(world->dataset != NULL, "%s", error.message);
    world->maps = maps_fit(world->dataset, world->config, &error);
    ck_assert_msg(world->maps != NULL, "%s", error.message);
    world->device = device_open_backend(backend ? backend : &fedgate_backend, threads, world->clock,
                                        world->ledger, &error);
    ck_assert_msg(world->device != NULL, "%s", error.message);
}

static inline void world_open(World *world, const char *task, bool simulated, int threads,
                              const char *const *sets)
{
    world_open_on(world, NULL, task, simulated, threads, sets);
}

static inline void world_close(World *world)
{
    Error error = ERROR_INIT;
    device_close(world->device);
    maps_free(world->maps);
    dataset_close(world->dataset);
    config_free(world->config);
    ck_assert_int_eq(ledger_live(world->ledger, LEDGER_DEVICE), 0);
    ck_assert_int_eq(ledger_live(world->ledger, LEDGER_PINNED), 0);
    ck_assert_int_eq(ledger_live(world->ledger, LEDGER_HOST), 0);
    ledger_free(world->ledger);
    clock_free(world->clock);
    ck_assert_msg(file_remove_tree(world->folder, &error), "%s", error.message);
}

static inline Trainer *world_trainer(World *world, int64_t microbatch, TrainWatch watch, void *context)
{
    Error error = ERROR_INIT;
    TrainerSpec spec = {.config = world->config,
                        .dataset = world->dataset,
                        .maps = world->maps,
                        .device = world->device,
                        .clock = world->clock,
                        .ledger = world->ledger,
                        .checkpoints = world->checkpoints,
                        .microbatch = microbatch,
                        .validation_rows = world->validation_rows,
                        .watch = watch,
                        .watch_context = context};
    Trainer *trainer = trainer_open(&spec, &error);
    ck_assert_msg(trainer != NULL, "%s", error.message);
    return trainer;
}

static inline TrainResult world_train(Trainer *trainer, Json *evidence)
{
    Error error = ERROR_INIT;
    TrainResult result;
    ck_assert_msg(trainer_train(trainer, NULL, &result, evidence, &error), "%s", error.message);
    return result;
}

static inline Digest world_digest(const Trainer *trainer)
{
    Error error = ERROR_INIT;
    Digest digest;
    OWNED(Model, model_free) *model = trainer_model(trainer, &error);
    ck_assert_msg(model != NULL, "%s", error.message);
    model_digest(model, &digest);
    return digest;
}

#endif
