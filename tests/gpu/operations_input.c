// operations_input - what goes into a network: gathered rows, assembled inputs, numbers that are none, the
// gradient of the tables. The bits of the cpu back end.
#include "operations.h"

#include <fedgate/random.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TABLES_MOST = 40 };

// Batches: `rows` rows of `numeric` numbers and `tables` codes; codes of table t below cardinality[t mod 4],
// in a kind of their own.
typedef enum Kind { KIND_MIXED, KIND_ONE_CODE, KIND_EACH_ONCE } Kind;
typedef struct Case {
    const char *name;
    int64_t rows, numeric;
    int tables;
    int32_t cardinality[4], width[4];
    Kind kind;
} Case;
static const Case cases[] = {
    {"mixed", 1000, 5, 2, {7, 400}, {3, 17}, KIND_MIXED},
    {"numbers alone", 8192, 32, 0, {0}, {0}, KIND_MIXED},
    {"odd numbers alone", 77, 13, 0, {0}, {0}, KIND_MIXED},
    {"one row", 1, 1, 1, {1}, {2}, KIND_MIXED},
    {"no numbers", 513, 0, 3, {2, 256, 257}, {1, 40, 16}, KIND_MIXED},
    {"100000 categories", 8192, 3, 2, {100000, 3}, {8, 2}, KIND_MIXED},
    {"100000 categories, each once", 8191, 0, 1, {100000}, {5}, KIND_EACH_ONCE},
    {"all rows one category", 8192, 0, 2, {70000, 2}, {16, 33}, KIND_ONE_CODE},
    {"40 tables", 300, 2, TABLES_MOST, {5, 300, 2, 17}, {2, 8, 1, 16}, KIND_MIXED},
    {"70000 rows", 70000, 1, 2, {9, 90000}, {4, 6}, KIND_MIXED},
};

typedef struct Inputs {
    Device *device;
    FedgateType type;
    const Case *of;
    FedgateEmbedding embeddings[TABLES_MOST];
    int64_t floats, width;   // of all tables; of a row
    int32_t *host, *there;   // codes
    int64_t *bad_there, bad_host;
    bool accumulate;
} Inputs;

static int64_t code_bytes(const Inputs *how)
{
    return how->of->rows * how->of->tables * (int64_t)sizeof *how->host;
}

static int32_t code_of(const Case *c, int64_t row, int table)
{
    const int32_t cardinality = c->cardinality[table % 4];
    switch (c->kind) {
    case KIND_ONE_CODE:
        return cardinality - 1;
    case KIND_EACH_ONCE:
        return (int32_t)(row * 7919 % cardinality);
    case KIND_MIXED:
        break;
    }
    return (int32_t)(random_unit(41 + (uint64_t)table, (uint64_t)row) * cardinality);
}

static void open_inputs(Gpu *gpu, Inputs *how)
{
    Error error = ERROR_INIT;
    const Case *c = how->of;
    how->floats = 0, how->width = c->numeric;
    for (int t = 0; t < c->tables; t++) {
        how->embeddings[t] =
            (FedgateEmbedding){how->floats, c->width[t % 4], c->cardinality[t % 4], how->width};
        how->floats += how->embeddings[t].width * how->embeddings[t].cardinality;
        how->width += how->embeddings[t].width;
    }
    how->host = malloc((size_t)code_bytes(how) + 1);
    for (int64_t i = 0; i < c->rows * c->tables; i++)
        how->host[i] = code_of(c, i / c->tables, (int)(i % c->tables));
    how->there = device_take(gpu->device, "test", code_bytes(how), &error);
    how->bad_there = device_take(gpu->device, "test", sizeof *how->bad_there, &error);
    gpu_need(how->there && how->bad_there &&
                 device_load(gpu->device, how->there, how->host, code_bytes(how), &error),
             &error);
}

static void close_inputs(Gpu *gpu, Inputs *how)
{
    device_give(gpu->device, "test", how->there, code_bytes(how));
    device_give(gpu->device, "test", how->bad_there, sizeof *how->bad_there);
    free(how->host);
}

static FedgateAssemble inputs_of(Device *device, const Inputs *how)
{
    const bool tested = device == how->device;
    return (FedgateAssemble){.type = how->type,
                             .rows = how->of->rows,
                             .width = how->width,
                             .numeric_count = how->of->numeric,
                             .codes = tested ? how->there : how->host,
                             .embeddings = how->embeddings,
                             .embedding_count = how->of->tables,
                             .accumulate = how->accumulate};
}

static void run_assemble(Device *device, void *const *at, const void *given)
{
    Inputs *how = (Inputs *)(uintptr_t)given;
    FedgateAssemble op = inputs_of(device, how);
    op.x = at[0], op.numeric = at[1], op.tables = at[2];
    op.nonfinite = device == how->device ? how->bad_there : &how->bad_host;
    device_assemble(device, &op);
}

static void run_assemble_back(Device *device, void *const *at, const void *given)
{
    FedgateAssemble op = inputs_of(device, given);
    op.x = at[0], op.gradient = at[1];
    device_assemble_back(device, &op);
}

static double bad_apart(Gpu *gpu, Inputs *how)
{
    Error error = ERROR_INIT;
    int64_t there, none = 0;
    gpu_need(device_copy_out(gpu->device, &there, how->bad_there, sizeof there, &error) &&
                 device_load(gpu->device, how->bad_there, &none, sizeof none, &error),
             &error);
    const double apart = fabs((double)(there - how->bad_host));
    how->bad_host = 0;
    return apart;
}

// Numbers with every 97th spoilt, from a place that is aligned and from one that is not.
static void forward(Gpu *gpu, Inputs *how, int64_t offset, int64_t *differ, double *bad)
{
    static const float spoilt[] = {NAN, INFINITY, -INFINITY};
    const int64_t numbers = how->of->rows * how->of->numeric;
    Array arrays[] = {array_new(gpu, how->type, how->of->rows * how->width, 0),
                      array_noise(gpu, FEDGATE_FP32, numbers, offset, 42, 3),
                      array_noise(gpu, how->type, how->floats, offset, 43, 1)};
    for (int64_t i = 0; i < numbers; i += 97)
        ((float *)arrays[1].before)[i] = spoilt[i % 3];
    *differ += operations_differing(gpu, run_assemble, how, arrays, 3);
    *bad += bad_apart(gpu, how);
    for (int i = 0; i < 3; i++)
        array_free(gpu, &arrays[i]);
}

static int64_t backward(Gpu *gpu, Inputs *how, bool accumulate)
{
    Array arrays[] = {array_noise(gpu, how->type, how->of->rows * how->width, 0, 44, 1),
                      array_noise(gpu, FEDGATE_FP32, how->floats, 1, 45, 1)};
    how->accumulate = accumulate;
    const int64_t differ = operations_differing(gpu, run_assemble_back, how, arrays, 2);
    array_free(gpu, &arrays[0]), array_free(gpu, &arrays[1]);
    return differ;
}

// Two rows of one code in the other order give other bits now and then: the comparison must see it.
static void judge_order(Gpu *gpu)
{
    Inputs how = {.device = gpu->device, .type = FEDGATE_FP32, .of = &cases[7]};
    open_inputs(gpu, &how);
    Array arrays[] = {array_noise(gpu, how.type, how.of->rows * how.width, 0, 44, 1),
                      array_noise(gpu, FEDGATE_FP32, how.floats, 0, 45, 1)};
    array_reset(gpu, &arrays[0]), array_reset(gpu, &arrays[1]);
    run_assemble_back(gpu->device, (void *[]){arrays[0].at, arrays[1].at}, &how);
    array_fetch(gpu, &arrays[1]);
    float *x = arrays[0].before;
    for (int64_t i = 0; i < how.width; i++) {   // the first and the last row change places
        const int64_t last = (how.of->rows - 1) * how.width + i;
        const float kept = x[i];
        x[i] = x[last], x[last] = kept;
    }
    run_assemble_back(gpu->cpu, (void *[]){x, arrays[1].before}, &how);
    operations_seen_row(gpu, "another order of rows",
                        memcmp(arrays[1].host, arrays[1].before, (size_t)arrays[1].bytes) != 0);
    array_free(gpu, &arrays[0]), array_free(gpu, &arrays[1]);
    close_inputs(gpu, &how);
}

static void inputs(Gpu *gpu, FedgateType type, const Case *c)
{
    char name[64];
    int64_t differ = 0;
    double bad = 0;
    Inputs how = {.device = gpu->device, .type = type, .of = c};
    open_inputs(gpu, &how);
    forward(gpu, &how, 0, &differ, &bad);
    forward(gpu, &how, 1, &differ, &bad);
    snprintf(name, sizeof name, "inputs, %s,", c->name);
    operations_equal_row(gpu, name, type, differ);
    snprintf(name, sizeof name, "inputs, %s, %s, spoilt numbers miscounted", c->name, device_type_name(type));
    gpu_row(gpu, name, bad, "numbers", 0);
    if (c->tables > 0) {
        snprintf(name, sizeof name, "embedding gradient, %s,", c->name);
        operations_equal_row(gpu, name, type, backward(gpu, &how, false));
        snprintf(name, sizeof name, "embedding gradient, added, %s,", c->name);
        operations_equal_row(gpu, name, type, backward(gpu, &how, true));
    }
    close_inputs(gpu, &how);
}

// -- gather and the count by itself

enum { TABLE_ROWS = 5000, TAKEN = 1537, NUMBERS = 7, CODES = 3 };

static void run_gather(Device *device, void *const *at, const void *how)
{
    (void)how;
    device_gather(device, &(FedgateGather){.numeric = at[0],
                                           .codes = at[1],
                                           .target = at[2],
                                           .from_numeric = at[3],
                                           .from_codes = at[4],
                                           .from_target = at[5],
                                           .index = at[6],
                                           .rows = TAKEN,
                                           .numeric_count = NUMBERS,
                                           .code_count = CODES});
}

// Codes and row numbers are 4 bytes that travel as they are.
static Array whole_numbers(Gpu *gpu, int64_t count, uint64_t key, double below)
{
    Array array = array_new(gpu, FEDGATE_FP32, count, 0);
    for (int64_t i = 0; i < count; i++)
        ((uint32_t *)array.before)[i] = (uint32_t)(random_unit(key, (uint64_t)i) * below);
    return array;
}

static void gathers(Gpu *gpu)
{
    Array arrays[] = {array_new(gpu, FEDGATE_FP32, TAKEN * NUMBERS, 0),
                      array_new(gpu, FEDGATE_FP32, TAKEN * CODES, 0),
                      array_new(gpu, FEDGATE_FP32, TAKEN, 0),
                      array_noise(gpu, FEDGATE_FP32, TABLE_ROWS * NUMBERS, 0, 46, 1),
                      whole_numbers(gpu, TABLE_ROWS * CODES, 47, 1000),
                      array_noise(gpu, FEDGATE_FP32, TABLE_ROWS, 0, 48, 1),
                      whole_numbers(gpu, TAKEN, 49, TABLE_ROWS)};
    operations_equal_row(gpu, "gathered rows", FEDGATE_FP32,
                         operations_differing(gpu, run_gather, NULL, arrays, 7));
    ((uint32_t *)arrays[6].before)[TAKEN - 1] ^= 1;   // what the tested device then has is another row
    array_fetch(gpu, &arrays[0]);
    run_gather(gpu->cpu,
               (void *[]){arrays[0].before, arrays[1].before, arrays[2].before, arrays[3].before,
                          arrays[4].before, arrays[5].before, arrays[6].before},
               NULL);
    operations_seen_row(gpu, "another row",
                        memcmp(arrays[0].host, arrays[0].before, (size_t)arrays[0].bytes) != 0);
    for (int i = 0; i < 7; i++)
        array_free(gpu, &arrays[i]);
}

static void counts(Gpu *gpu)
{
    Error error = ERROR_INIT;
    int64_t there, here = 5, *total = device_take(gpu->device, "test", sizeof *total, &error);
    Array x = array_noise(gpu, FEDGATE_FP32, 1000003, 1, 50, 1);
    for (int64_t i = 0; i < x.count; i += 1 + i % 1000)
        ((float *)x.before)[i] = i % 2 ? NAN : -INFINITY;
    array_reset(gpu, &x);
    gpu_need(total && device_load(gpu->device, total, &here, sizeof here, &error), &error);
    device_count_nonfinite(gpu->device, x.at, x.count, total);
    device_count_nonfinite(gpu->cpu, x.before, x.count, &here);
    gpu_need(device_copy_out(gpu->device, &there, total, sizeof there, &error), &error);
    gpu_row(gpu, "numbers that are none, miscounted", fabs((double)(there - here)), "numbers", 0);
    operations_seen_row(gpu, "one number more", here + 1 != there && here > 5);
    device_give(gpu->device, "test", total, sizeof *total);
    array_free(gpu, &x);
}

void test_inputs(Gpu *gpu)
{
    for (int t = 0; t < 3; t++)
        for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++)
            inputs(gpu, (FedgateType)t, &cases[c]);
    judge_order(gpu);
    gathers(gpu);
    counts(gpu);
}
