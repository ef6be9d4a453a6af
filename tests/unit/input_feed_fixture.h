// input_feed_fixture - a data set of a thousand rows with a device and the spec of a feed over it, and all
// that a consumer sees.
#ifndef FEDGATE_TESTS_INPUT_FEED_FIXTURE_H
#define FEDGATE_TESTS_INPUT_FEED_FIXTURE_H

#include "input_fixture.h"

#include <fedgate/compute.h>
#include <fedgate/hash.h>

enum {
    ROWS = 1000,
    BATCH = 64
};   // modulo 5 leaves 800 rows, a tenth of which validate: 720 train, a last batch of 16

typedef struct FeedBench {
    Bench bench;
    Device *device;
    Dataset *dataset;
    Maps *maps;
    FeedSpec spec;
} FeedBench;

static inline FeedBench feed_bench_on(const FedgateBackend *backend, const char *set)
{
    FeedBench b = {.bench = bench_new()};
    SCOPED_TEXT file;
    text_init(&file, 1 << 20);
    text_add(&file, "id,a,b,c,y\n");
    for (int i = 0; i < ROWS; i++)
        text_add_format(&file, "%d,%d.5,%s,\"%c, x\",%d\n", i, i, i % 7 == 0 ? "NA" : "3", 'p' + i % 5,
                        i % 2);
    bench_write(&b.bench, "d.csv", text_string(&file), file.length);
    bench_config(&b.bench, "data.train=d.csv", "data.numeric=a,b", "data.categorical=c", "data.missing=b=NA",
                 "data.row_id=id", "split.method=modulo", "split.validation=0.1", set, NULL);
    b.dataset = bench_open(&b.bench);
    ck_assert_msg(b.dataset != NULL, "%s", b.bench.error.message);
    b.maps = maps_fit(b.dataset, b.bench.config, &b.bench.error);
    b.device = device_open_backend(backend, 1, clock_real(), b.bench.ledger, &b.bench.error);
    ck_assert_msg(b.maps && b.device, "%s", b.bench.error.message);
    b.spec = (FeedSpec){.dataset = b.dataset,
                        .maps = b.maps,
                        .device = b.device,
                        .clock = clock_real(),
                        .ledger = b.bench.ledger,
                        .split = SPLIT_TRAIN,
                        .batch = BATCH,
                        .seed = 7,
                        .shuffle = true,
                        .epochs = 3,
                        .workers = 2,
                        .prefetch = 4,
                        .slots = 3};
    return b;
}

static inline FeedBench feed_bench(const char *set)
{
    return feed_bench_on(&fedgate_backend, set);
}

static inline void feed_bench_done(FeedBench *b)
{
    maps_free(b->maps);
    dataset_close(b->dataset);
    device_close(b->device);
    bench_done(&b->bench);
}

// Everything a consumer sees, batch after batch.
typedef struct Seen {
    size_t batches, rows, wrong;   // wrong: digests that are not on the device as they were counted
    uint64_t digest;   // over ids and bytes of every batch, in order
    uint64_t epoch_digest[8];
    int64_t epoch_rows[8];
    uint64_t ids[8192];
} Seen;

// Reads the device's memory, which is the host's here. Bytes that are never compared may lie between
// sections.
static inline void take_batch(const Maps *maps, const FeedBatch *batch, Seen *seen)
{
    size_t rows = (size_t)batch->rows;
    const void *parts[] = {batch->row_id, batch->numeric, batch->codes, batch->target};
    size_t bytes[] = {rows * 8, rows * maps_numeric(maps) * 4, rows * maps_categorical(maps) * 4, rows * 4};
    for (size_t p = 0; p < 4; p++)
        seen->digest = hash_mix2(seen->digest, hash_row(parts[p], bytes[p]));
    memcpy(seen->ids + seen->rows, batch->row_id, bytes[0]);
    seen->wrong += *batch->device_digest != batch->digest;
    seen->rows += rows;
    seen->batches++;
}

#endif
