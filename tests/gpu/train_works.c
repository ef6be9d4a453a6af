// train_works - G1, G2 and G3 of design.md section 10, fed from rows in memory that were read from a file
// made here, streaming and resident; and what observing costs, observed and unobserved runs in turn.
//
// Checkpoints and replays are put out of the way, which a night does not do: figures to set beside programs
// that have neither. The steady rate leaves out steps beside validation; the whole run has everything.
#include "train.h"

#include <fedgate/file.h>
#include <fedgate/random.h>
#include <fedgate/text.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Work {
    const char *name, *hidden, *rate;
    int columns, rows, batch, steps;
    double flop;   // of a sample, forward and backward: 6 x multiply-adds, as the peers count
} Work;
// Rates of learning are the peers'. At theirs the products of G3 take a tenth less time than at a tenth of
// it, which is `slowly`: the card is at its limit of power, and zeros, as of units that died, draw less.
static const Work all_works[] = {
    {"G1", "256,256", "0.001", 32, 1048576, 256, 30000, 6.0 * (32 * 256 + 256 * 256 + 256)},
    {"G2", "256,256", "0.001", 32, 1048576, 8192, 12000, 6.0 * (32 * 256 + 256 * 256 + 256)},
    {"G3", "4096,4096,4096,4096", "0.001", 512, 196608, 8192, 400,
     6.0 * (512.0 * 4096 + 3 * 4096.0 * 4096 + 4096)},
    {"G3 slowly", "4096,4096,4096,4096", "0.0001", 512, 196608, 8192, 400,
     6.0 * (512.0 * 4096 + 3 * 4096.0 * 4096 + 4096)},
};
enum {
    PAIRS = 5,
    COLUMNS_MOST = 512,
    SETS = 24,
    NAMES_SIZE = 8192,
    WORKS = sizeof all_works / sizeof all_works[0]
};

typedef struct Place {
    char folder[64], names[NAMES_SIZE];
    const Work *of;
} Place;

// Texts of normal numbers, of three digits and a sign: making and reading rows is not what is measured.
enum { TEXTS = 4096, TEXT_SIZE = 8, TEXT_BITS = 12 };
typedef struct Texts {
    char text[TEXTS][TEXT_SIZE];
    size_t length[TEXTS];
    double value[TEXTS];
} Texts;

static Texts *make_texts(void)
{
    Texts *texts = malloc(sizeof *texts);
    for (size_t i = 0; texts && i < TEXTS; i++) {
        texts->value[i] = random_normal(1, i);
        texts->length[i] = (size_t)snprintf(texts->text[i], TEXT_SIZE, "%d,", (int)(texts->value[i] * 100));
    }
    return texts;
}

// The label is what the first two numbers decide.
static void write_row(FILE *stream, const Texts *texts, const Work *work, uint64_t row)
{
    char line[TEXT_SIZE * COLUMNS_MOST], *at = line;
    double first[2] = {0, 0};
    for (int i = 0; i < work->columns; i++) {
        const size_t which = random_bits(row + 1, (uint64_t)i) >> (64 - TEXT_BITS);
        memcpy(at, texts->text[which], TEXT_SIZE);
        at += texts->length[which];
        if (i < 2)
            first[i] = texts->value[which];
    }
    fwrite(line, 1, (size_t)(at - line), stream);
    fputs(first[0] > first[1] ? "1\n" : "0\n", stream);
}

static void make_rows(Place *place, const Work *work)
{
    Error error = ERROR_INIT;
    char path[128];
    SCOPED_TEXT names;
    *place = (Place){.folder = "/tmp/fedgate-works-XXXXXX", .of = work};
    gpu_need(mkdtemp(place->folder) != NULL, &error);
    snprintf(path, sizeof path, "%s/rows.csv", place->folder);
    FILE *stream = fopen(path, "w");
    Texts *texts = make_texts();
    if (!stream || !texts)
        fputs("no file for rows\n", stderr), exit(1);
    text_init(&names, sizeof place->names - 1);
    for (int i = 0; i < work->columns; i++)
        text_add_format(&names, "%sc%d", i > 0 ? "," : "", i);
    gpu_need(text_copy(place->names, sizeof place->names, text_string(&names)), &error);
    fprintf(stream, "%s,y\n", place->names);
    for (int row = 0; row < work->rows; row++)
        write_row(stream, texts, work, (uint64_t)row);
    free(texts);
    fclose(stream);
}

typedef struct Ran {
    double seconds, samples, steps;
    TrainFigures figures;
} Ran;

static Config *configure(const Place *place, const Work *work, const char *precision, bool resident)
{
    Error error = ERROR_INIT;
    static char text[SETS][NAMES_SIZE + 64];
    const char *sets[SETS];
    int count = 0;
    const struct {
        const char *name, *value;
        int number;
    } asked[] = {{"model", "works", 0},
                 {"task", "binary", 0},
                 {"data.directory", place->folder, 0},
                 {"data.train", "rows.csv", 0},
                 {"data.target", "y", 0},
                 {"data.numeric", place->names, 0},
                 {"split.test", "0.01", 0},
                 {"split.validation", "0.01", 0},
                 {"train.hidden", work->hidden, 0},
                 {"train.precision", precision, 0},
                 {"train.learning_rate", work->rate, 0},
                 {"train.batch", NULL, work->batch},
                 {"train.max_steps", NULL, work->steps},
                 {"train.epochs", "100000", 0},
                 {"train.patience", "100000", 0},
                 {"train.checkpoint_every", "1000000000", 0},
                 {"determinism.steps", "100000", 0},
                 {"telemetry.window", "1000000", 0},
                 {"input.rows", "memory", 0},
                 {"input.workers", "12", 0},
                 {"input.prefetch", "8", 0},
                 {"input.host_memory", "32GB", 0},
                 {"input.resident", resident ? "true" : "false", 0}};
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        if (asked[i].value)
            snprintf(text[count], sizeof text[count], "%s=%s", asked[i].name, asked[i].value);
        else
            snprintf(text[count], sizeof text[count], "%s=%d", asked[i].name, asked[i].number);
        sets[count] = text[count];
        count++;
    }
    Config *config = config_load(NULL, sets, (size_t)count, NULL, &error);
    gpu_need(config != NULL, &error);
    return config;
}

// Where the timelines go, one after the other: FEDGATE_TRACES, a folder; without it none is kept.
static const char *trace_file(void)
{
    static char path[256];
    static int runs;
    const char *folder = getenv("FEDGATE_TRACES");
    if (folder)
        snprintf(path, sizeof path, "%s/run%d.json", folder, runs++);
    return folder ? path : NULL;
}

static Ran run_once(Gpu *gpu, const Dataset *dataset, const Maps *maps, const Config *config, bool unsampled)
{
    Error error = ERROR_INIT;
    char folder[] = "/tmp/fedgate-gpu-XXXXXX";
    TrainResult result;
    TrainerSpec spec = {.config = config,
                        .dataset = dataset,
                        .maps = maps,
                        .device = gpu->device,
                        .clock = clock_real(),
                        .ledger = gpu->ledger,
                        .checkpoints = mkdtemp(folder),
                        .unsampled = unsampled};
    OWNED(Json, json_free) *evidence = json_make_object();
    OWNED(Trainer, trainer_free) *trainer = trainer_open(&spec, &error);
    gpu_need(trainer != NULL, &error);
    // As at night, the rehearsal comes first: the remainder's products are looked for there.
    gpu_need(trainer_rehearse(trainer, evidence, &error), &error);
    gpu_need(trainer_train(trainer, trace_file(), &result, evidence, &error), &error);
    gpu_need(file_remove_tree(folder, &error), &error);
    return (Ran){.seconds = result.train_seconds,
                 .samples = (double)result.samples,
                 .steps = (double)result.steps,
                 .figures = train_figures(evidence)};
}

static void report(Gpu *gpu, const Work *work, const char *how, const Ran *ran)
{
    char name[96], line[160];
    snprintf(name, sizeof name, "%s bf16 %s", work->name, how);
    double steady = ran->samples / ran->steps / ran->figures.steady_ns * 1e9,
           whole = ran->samples / ran->seconds;
    snprintf(line, sizeof line, "%s, steady", name);
    gpu_row(gpu, line, steady, "samples/s", NAN);
    snprintf(line, sizeof line, "%s, whole run", name);
    gpu_row(gpu, line, whole, "samples/s", NAN);
    snprintf(line, sizeof line, "%s, steady: multiplications", name);
    gpu_row(gpu, line, steady * work->flop / 1e12, "TFLOP/s", NAN);
    train_print(gpu, name, &ran->figures);
}

typedef struct Data {
    Place place;
    Config *config;
    Dataset *dataset;
    Maps *maps;
} Data;

// One file for all works of its shape.
static void data_open(Gpu *gpu, Data *data, const Work *work)
{
    Error error = ERROR_INIT;
    make_rows(&data->place, work);
    data->config = configure(&data->place, work, "bf16", false);
    data->dataset = dataset_open(data->config, clock_real(), gpu->ledger, &error);
    gpu_need(data->dataset != NULL, &error);
    data->maps = maps_fit(data->dataset, data->config, &error);
    gpu_need(data->maps != NULL, &error);
}

static void data_close(Data *data)
{
    Error error = ERROR_INIT;
    maps_free(data->maps);
    dataset_close(data->dataset);
    config_free(data->config);
    gpu_need(file_remove_tree(data->place.folder, &error), &error);
}

static Ran train_once(Gpu *gpu, const Data *data, const Work *work, bool resident, bool unsampled)
{
    Config *config = configure(&data->place, work, "bf16", resident);
    Ran ran = run_once(gpu, data->dataset, data->maps, config, unsampled);
    config_free(config);
    return ran;
}

// Where the program tests itself, without a GPU, everything is small.
static void choose(const Gpu *gpu, Work *ret_works)
{
    memcpy(ret_works, all_works, sizeof all_works);
    for (size_t i = 0; i < WORKS && !device_info(gpu->device)->asynchronous; i++) {
        ret_works[i].hidden = "32,32";
        ret_works[i].rows = 2048;
        ret_works[i].batch = 128;
        ret_works[i].steps = 60;
    }
}

void train_works(Gpu *gpu)
{
    Data data;
    Work works[WORKS];
    choose(gpu, works);
    for (size_t i = 0; i < WORKS; i++) {
        if (i == 0 || works[i].columns != works[i - 1].columns)
            data_open(gpu, &data, &works[i]);
        for (int resident = 0; resident < 2; resident++) {
            Ran ran = train_once(gpu, &data, &works[i], resident, false);
            report(gpu, &works[i], resident ? "resident" : "streaming", &ran);
        }
        if (i + 1 == WORKS || works[i].columns != works[i + 1].columns)
            data_close(&data);
    }
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void train_overhead(Gpu *gpu)
{
    Data data;
    Work works[WORKS];
    choose(gpu, works);
    data_open(gpu, &data, &works[0]);
    for (size_t i = 0; i < 2; i++) {
        char line[160];
        double ratio[PAIRS];
        (void)train_once(gpu, &data, &works[i], false, true);
        for (int k = 0; k < PAIRS; k++) {
            bool first = k % 2 == 0;   // the order changes, so that a drift falls on both
            Ran a = train_once(gpu, &data, &works[i], false, first),
                b = train_once(gpu, &data, &works[i], false, !first);
            ratio[k] = first ? b.seconds / a.seconds : a.seconds / b.seconds;
        }
        qsort(ratio, PAIRS, sizeof *ratio, by_size);
        snprintf(line, sizeof line, "%s bf16: observed over unobserved, median of %d pairs, less 1",
                 works[i].name, PAIRS);
        gpu_row(gpu, line, ratio[PAIRS / 2] - 1, "share", 0.01);
        printf("    smallest %.4f, largest %.4f\n", ratio[0] - 1, ratio[PAIRS - 1] - 1);
    }
    data_close(&data);
}
