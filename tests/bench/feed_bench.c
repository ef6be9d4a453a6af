// feed_bench - rows delivered from memory, shuffled, to a consumer that only takes; JSON rows, never a pass
// or fail.
//
// 32 numeric columns and a target: 132 bytes a row. Rows are made up, decoded once and fed as in a night, by
// 1, 2, 4 ... workers up to the argument (default: processors). On the cpu device the copy is a memcpy by the
// staging thread, so two thirds of the bytes moved are the device's; `fill` leaves it out: a device that
// copies nothing. The ratio is to what one thread copies with memcpy in blocks of a batch, out of cache.
#include <fedgate/file.h>
#include <fedgate/json.h>
#include <fedgate/random.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../src/input/input_internal.h"

enum { COLUMNS = 32, ROWS = 400000, ROUNDS = 4 };
static const int64_t row_bytes = (COLUMNS + 1) * (int64_t)sizeof(float);
static const double round_seconds = 0.4;

static double seconds(void)
{
    return (double)clock_monotonic_ns(clock_real()) / 1e9;
}

static void row(const char *name, const char *unit, double value)
{
    SCOPED_TEXT text;
    OWNED(Json, json_free) *json = json_make_object();
    text_init(&text, 4096);
    json_put_text(json, "case", name);
    json_put_text(json, "unit", unit);
    json_put_number(json, "value", value);
    json_put_text(json, "device", "cpu");
    json_put_text(json, "commit", getenv("FEDGATE_COMMIT"));
    json_write(json, JSON_COMPACT, &text);
    puts(text_string(&text));
    fflush(stdout);
}

// -- a device that copies nothing: events pass as they do, bytes stay where they are

static bool copies;

static bool copy_in(void *device, const FedgateCopy *copy, char *ret_reason)
{
    FedgateCopy small = *copy;
    small.bytes = copies ? copy->bytes : 64;
    return fedgate_backend.copy_in(device, &small, ret_reason);
}

static bool open_data(const char *folder, Ledger *ledger, Config **ret_config, Dataset **ret_dataset,
                      Error *error)
{
    char path[FILE_PATH_SIZE], directory[FILE_PATH_SIZE + 32];
    SCOPED_TEXT numeric;
    text_init(&numeric, 4096);
    snprintf(path, sizeof path, "%s/rows.csv", folder);
    snprintf(directory, sizeof directory, "data.directory=%s", folder);
    FILE *file = fopen(path, "w");
    if (!file)
        return FAIL(error, ERROR_IO, 0, "could not write '%s'", path);
    text_add(&numeric, "data.numeric=");
    for (int c = 0; c < COLUMNS; c++) {
        fprintf(file, "x%d,", c);
        text_add_format(&numeric, "%sx%d", c > 0 ? "," : "", c);
    }
    fputs("y\n", file);
    for (uint64_t i = 0; i < ROWS; i++) {
        uint64_t bits = random_bits(1, i);
        for (int c = 0; c < COLUMNS; c++)
            fprintf(file, "%d,", (int)(bits >> c & 31));
        fprintf(file, "%d\n", (int)(bits & 1));
    }
    fclose(file);
    const char *sets[] = {"model=bench",           "data.target=y",     "data.train=rows.csv",
                          "split.method=modulo",   "split.modulo=100",  "split.remainder=99",
                          "split.validation=0.01", "input.rows=memory", "input.host_memory=8GB",
                          "input.workers=8",       directory,           text_string(&numeric)};
    *ret_config = config_load(NULL, sets, sizeof sets / sizeof sets[0], NULL, error);
    *ret_dataset = *ret_config ? dataset_open(*ret_config, clock_real(), ledger, error) : NULL;
    unlink(path);
    return *ret_dataset != NULL;
}

// Rows a second, for some time; 0: no more.
static double rate(Feed *feed, Error *error)
{
    enum { STOCK = 8 };   // groups that may have been made before
    static FeedGroup group;
    int64_t wait_ns, exposed_ns, rows = 0;
    double begin = 0, now = 0;
    for (int64_t groups = 0; groups < STOCK || now - begin < round_seconds; groups++) {
        if (feed_next_group(feed, &group, &wait_ns, &exposed_ns, error) != 1)
            return 0;
        for (int64_t i = 0; i < group.count && groups >= STOCK; i++)
            rows += group.batch[i].rows;
        feed_group_given(feed, &group);
        now = seconds();
        begin = groups < STOCK ? now : begin;
    }
    return (double)rows / (now - begin);
}

static double memcpy_rate(int64_t block)   // bytes a second
{
    const int64_t total = INT64_C(256) << 20;
    char *from = malloc((size_t)total), *to = malloc((size_t)total);
    double best = 0;
    memset(from, 1, (size_t)total);
    memset(to, 2, (size_t)total);
    for (int i = 0; i < 5; i++) {
        double begin = seconds();
        for (int64_t at = 0; at + block <= total; at += block)
            memcpy(to + at, from + at, (size_t)block);
        double now = (double)(total / block * block) / (seconds() - begin);
        best = now > best ? now : best;
    }
    free(from);
    free(to);
    return best;
}

static bool run_workers(const FeedSpec *spec, double copied, Error *error)
{
    static const char *const what[] = {"fill", "copied"};
    OWNED(Feed, feed_close) *feed = feed_open(spec, error);
    double best[2] = {0, 0};
    for (int i = 0; feed && i < 2 * ROUNDS; i++) {   // in turns: the machine may be shared
        copies = i % 2 == 1;
        double seen = rate(feed, error);
        if (seen <= 0)
            return false;
        best[i % 2] = seen > best[i % 2] ? seen : best[i % 2];
    }
    for (int i = 0; i < 2; i++) {
        char name[64];
        snprintf(name, sizeof name, "feed.%lld.%d.%s", (long long)spec->batch, spec->workers, what[i]);
        row(name, "rows/s", best[i]);
        row(name, "bytes/s", best[i] * (double)row_bytes);
        row(name, "ratio to memcpy", best[i] * (double)row_bytes / copied);
    }
    return feed != NULL;
}

static bool run(FeedSpec spec, int64_t batch, int group, int workers, Error *error)
{
    char name[64];
    double copied = memcpy_rate(batch * row_bytes);
    snprintf(name, sizeof name, "feed.%lld.memcpy", (long long)batch);
    row(name, "bytes/s", copied);
    spec.batch = batch;
    spec.group = group;
    for (spec.workers = 1; spec.workers <= workers; spec.workers *= 2)
        if (!run_workers(&spec, copied, error))
            return false;
    return true;
}

int main(int argc, char **argv)
{
    Error error = ERROR_INIT;
    int64_t workers = sysconf(_SC_NPROCESSORS_ONLN);   // the only argument
    char folder[] = "/tmp/feed_bench_XXXXXX";
    FedgateBackend backend = fedgate_backend;
    backend.copy_in = copy_in;
    if ((argc > 1 && !text_to_int64(argv[1], &workers)) || workers < 1 || !mkdtemp(folder))
        return 1;
    OWNED(Ledger, ledger_free) *ledger = ledger_new();
    OWNED(Device, device_close) *device = device_open_backend(&backend, 1, clock_real(), ledger, &error);
    Config *config = NULL;
    Dataset *dataset = NULL;
    bool good = device && open_data(folder, ledger, &config, &dataset, &error);
    Maps *maps = good ? maps_fit(dataset, config, &error) : NULL;
    if (maps) {
        FeedSpec spec = {.dataset = dataset,
                         .maps = maps,
                         .device = device,
                         .clock = clock_real(),
                         .ledger = ledger,
                         .split = SPLIT_TRAIN,
                         .seed = 1,
                         .shuffle = true,
                         .epochs = INT64_C(1) << 40,
                         .prefetch = 4,
                         .slots = 3};
        good = run(spec, 256, 32, (int)workers, &error) && run(spec, 8192, 4, (int)workers, &error);
    }
    if (!good || !maps)
        fprintf(stderr, "feed_bench: %s\n", error.message);
    maps_free(maps);
    dataset_close(dataset);
    config_free(config);
    rmdir(folder);
    return good && maps ? 0 : 1;
}
