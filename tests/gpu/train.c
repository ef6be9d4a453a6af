// train - whole trainings, fed as at night: on the tested device and on the cpu, the same curve of losses
// within a band, the same bits in two runs; and G1, G2, G3 of design.md section 10 from a data set made here.
// Arguments: the back end, 'cuda' when none is given; the folder of fixtures; 'curves', 'streaming' (G1 to
// G3), 'overhead' (of observing); nothing: the first two.
#include "train.h"

#include <fedgate/file.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EPOCHS = 12, CURVE = 64 };

typedef struct Curve {
    double loss[CURVE];
    int count;
    double seconds;
    int64_t samples, replayed;
    TrainFigures figures;
    Digest digest;
} Curve;

typedef struct World {
    Gpu *gpu;
    Config *config;
    Dataset *dataset;
    Maps *maps;
} World;

static bool watch(void *context, const TrainProgress *progress)
{
    Curve *curve = context;
    if (progress->epoch_ended && curve->count < CURVE)
        curve->loss[curve->count++] = progress->validation_loss;
    return true;
}

static void world_open(World *world, Gpu *gpu, const char *fixtures, const char *precision)
{
    Error error = ERROR_INIT;
    char path[512], directory[512], type[64], epochs[64];
    snprintf(path, sizeof path, "%s/configs/learnable.yaml", fixtures);
    snprintf(directory, sizeof directory, "data.directory=%s/learnable", fixtures);
    snprintf(type, sizeof type, "train.precision=%s", precision);
    snprintf(epochs, sizeof epochs, "train.epochs=%d", EPOCHS);
    const char *sets[] = {directory, type, epochs};
    *world = (World){.gpu = gpu};
    world->config = config_load(path, sets, sizeof sets / sizeof sets[0], NULL, &error);
    gpu_need(world->config != NULL, &error);
    world->dataset = dataset_open(world->config, clock_real(), gpu->ledger, &error);
    gpu_need(world->dataset != NULL, &error);
    world->maps = maps_fit(world->dataset, world->config, &error);
    gpu_need(world->maps != NULL, &error);
}

static void world_close(World *world)
{
    maps_free(world->maps);
    dataset_close(world->dataset);
    config_free(world->config);
}

// Tensors that a replay from the start and from the middle gave other bits; -1: nothing was replayed.
static int64_t count_replayed(const Json *evidence)
{
    const Json *replays = json_get(json_get(evidence, "determinism"), "replays");
    int64_t differ = json_count(replays) > 0 ? 0 : -1;
    for (size_t i = 0; i < json_count(replays); i++) {
        const Json *tensors = json_get(json_at(replays, i), "tensors");
        for (size_t k = 0; k < json_count(tensors); k++)
            differ += !text_equal(json_text_or(json_get(json_at(tensors, k), "first"), "a"),
                                  json_text_or(json_get(json_at(tensors, k), "again"), "b"));
    }
    return differ;
}

static void train(const World *world, Device *device, Curve *ret_curve)
{
    Error error = ERROR_INIT;
    char folder[] = "/tmp/fedgate-gpu-XXXXXX";
    TrainResult result;
    Digest digest;
    *ret_curve = (Curve){0};
    TrainerSpec spec = {.config = world->config,
                        .dataset = world->dataset,
                        .maps = world->maps,
                        .device = device,
                        .clock = clock_real(),
                        .ledger = world->gpu->ledger,
                        .checkpoints = mkdtemp(folder),
                        .watch = watch,
                        .watch_context = ret_curve};
    OWNED(Json, json_free) *evidence = json_make_object();
    OWNED(Trainer, trainer_free) *trainer = trainer_open(&spec, &error);
    gpu_need(trainer != NULL, &error);
    gpu_need(trainer_rehearse(trainer, evidence, &error) && trainer_parity_early(trainer, evidence, &error),
             &error);
    gpu_need(trainer_train(trainer, NULL, &result, evidence, &error), &error);
    gpu_need(trainer_replay(trainer, evidence, &error), &error);
    ret_curve->replayed = count_replayed(evidence);
    OWNED(Model, model_free) *model = trainer_model(trainer, &error);
    gpu_need(model != NULL, &error);
    model_digest(model, &digest);
    ret_curve->digest = digest;
    ret_curve->seconds = result.train_seconds;
    ret_curve->figures = train_figures(evidence);
    ret_curve->samples = result.samples;
    gpu_need(file_remove_tree(folder, &error), &error);
}

// Largest distance of two curves, relative to the first loss; NaN where they have no common length.
static double apart(const Curve *a, const Curve *b)
{
    double worst = a->count == b->count && a->count > 0 ? 0 : (double)NAN;
    for (int i = 0; i < a->count && i < b->count; i++) {
        double distance = fabs(a->loss[i] - b->loss[i]) / fabs(b->loss[0]);
        worst = isnan(worst) ? worst : gpu_worse(worst, distance);
    }
    return worst;
}

static void compare(Gpu *gpu, const char *fixtures, const char *precision, double bar)
{
    char name[96];
    World world;
    Curve first, second, reference;
    world_open(&world, gpu, fixtures, precision);
    train(&world, gpu->device, &first);
    train(&world, gpu->device, &second);
    train(&world, gpu->cpu, &reference);
    printf("validation loss by epoch, %s:", precision);
    for (int i = 0; i < first.count; i++)
        printf(" %.5f/%.5f", first.loss[i], reference.loss[i]);
    putchar('\n');
    snprintf(name, sizeof name, "training in %s, two runs, weights that differ", precision);
    gpu_row(gpu, name, memcmp(&first.digest, &second.digest, sizeof first.digest) != 0, "digests", 0);
    snprintf(name, sizeof name, "training in %s, tensors a replay gave other bits", precision);
    gpu_row(gpu, name, first.replayed < 0 ? INFINITY : (double)first.replayed, "tensors", 0);
    snprintf(name, sizeof name, "training in %s, losses apart from the cpu's", precision);
    gpu_row(gpu, name, apart(&first, &reference), "relative", bar);
    snprintf(name, sizeof name, "training in %s, last loss over the first", precision);
    gpu_row(gpu, name, first.loss[first.count - 1] / first.loss[0], "ratio", 0.97);
    snprintf(name, sizeof name, "training in %s, fed", precision);
    gpu_row(gpu, name, (double)second.samples / second.seconds, "samples/s", NAN);
    snprintf(name, sizeof name, "training in %s", precision);
    train_print(gpu, name, &second.figures);
    world_close(&world);
}

int main(int argc, char **argv)
{
    if (device_pin_environment())
        execv("/proc/self/exe", argv);
    Gpu gpu;
    const char *fixtures = argc > 2 ? argv[2] : "fixtures", *asked = argc > 3 ? argv[3] : "";
    gpu_open(&gpu, argc > 1 ? argv[1] : "cuda");
    if (!*asked || strcmp(asked, "curves") == 0) {
        // Trajectories part as roundings differ; the bands are what another order of sums does on the cpu,
        // with room.
        compare(&gpu, fixtures, "fp32", 0.01);
        compare(&gpu, fixtures, "bf16", 0.03);
        compare(&gpu, fixtures, "fp16", 0.02);
    }
    if (!*asked || strcmp(asked, "streaming") == 0)
        train_works(&gpu);
    if (strcmp(asked, "overhead") == 0)
        train_overhead(&gpu);
    return gpu_close(&gpu);
}
