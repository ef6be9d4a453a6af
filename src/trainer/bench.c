// bench - operands of one operation of a device in any of its types, and how far a product is from float64.
#include "bench.h"

#include <fedgate/random.h>
#include <math.h>
#include <stdlib.h>

enum { STAGED = 16384, ALIGNMENT = 64 };   // values rounded at a time

bool bench_open(Bench *bench, Device *device, Ledger *ledger, Error *error)
{
    *bench = (Bench){.device = device, .ledger = ledger, .error = error};
    bench->host = ledger_take(ledger, LEDGER_HOST, "parity", BENCH_BYTES, error);
    bench->memory = bench->host ? device_take(device, "workspace", BENCH_BYTES, error) : NULL;
    bench->failed = !bench->memory;
    return bench->memory != NULL;
}

void bench_close(Bench *bench)
{
    device_give(bench->device, "workspace", bench->memory, BENCH_BYTES);
    ledger_give(bench->ledger, LEDGER_HOST, "parity", bench->host, BENCH_BYTES);
}

void bench_clear(Bench *bench)
{
    bench->memory_used = bench->host_used = 0;
}

bool bench_ok(const Bench *bench)
{
    return !bench->failed;
}

static void *cut(char *block, int64_t *used, int64_t bytes)
{
    void *at = block + *used;
    *used += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (*used > BENCH_BYTES)
        BUG("an operation of the parity ladder needs %lld bytes", (long long)*used);
    return at;
}

float *bench_host(Bench *bench, int64_t count)
{
    return cut(bench->host, &bench->host_used, count * (int64_t)sizeof(float));
}

float *bench_random(Bench *bench, int64_t count, uint64_t key, float scale)
{
    float *values = bench_host(bench, count);
    for (int64_t i = 0; i < count; i++)
        values[i] = scale * (float)(2 * random_unit(key, (uint64_t)i) - 1);
    return values;
}

void *bench_room(Bench *bench, FedgateType type, int64_t count)
{
    return cut(bench->memory, &bench->memory_used, count * fedgate_type_bytes(type));
}

// By pieces through a stage of FP32: the whole in both types would need half as much again.
void *bench_put(Bench *bench, FedgateType type, const float *values, int64_t count)
{
    char *to = bench_room(bench, type, count);
    if (type == FEDGATE_FP32) {
        bench->failed = bench->failed || !device_load(bench->device, to, values,
                                                      count * (int64_t)sizeof *values, bench->error);
        return to;
    }
    int64_t kept = bench->memory_used;
    float *stage = bench_room(bench, FEDGATE_FP32, STAGED);
    for (int64_t first = 0; first < count && !bench->failed; first += STAGED) {
        int64_t piece = count - first < STAGED ? count - first : STAGED;
        bench->failed =
            !device_load(bench->device, stage, values + first, piece * (int64_t)sizeof *values, bench->error);
        if (!bench->failed)
            device_cast(bench->device, &(FedgateCast){.to = to + first * fedgate_type_bytes(type),
                                                      .from = stage,
                                                      .to_type = type,
                                                      .from_type = FEDGATE_FP32,
                                                      .count = piece});
    }
    bench->failed = bench->failed || !device_synchronise(bench->device, bench->error);
    bench->memory_used = kept;   // the stage is free again
    return to;
}

float *bench_get(Bench *bench, FedgateType type, const void *from, int64_t count)
{
    float *to = bench_host(bench, count);
    const void *wide = from;
    if (type != FEDGATE_FP32 && !bench->failed) {
        void *room = bench_room(bench, FEDGATE_FP32, count);
        device_cast(
            bench->device,
            &(FedgateCast){
                .to = room, .from = from, .to_type = FEDGATE_FP32, .from_type = type, .count = count});
        wide = room;
    }
    bench->failed =
        bench->failed || !device_copy_out(bench->device, to, wide, count * (int64_t)sizeof *to, bench->error);
    return to;
}

// -- float64

static double exact_value(const Product *product, int64_t i, int64_t j)
{
    double sum = 0;
    for (int64_t k = 0; k < product->inner; k++)
        sum += (double)product->a[i * product->a_row + k * product->a_inner] *
               (double)product->b[k * product->b_inner + j * product->b_column];
    return sum * product->factor + (product->bias ? (double)product->bias[j] : 0);
}

static double norm_of(const float *values, int64_t count, int64_t stride)
{
    double sum = 0;
    for (int64_t k = 0; k < count; k++)
        sum += (double)values[k * stride] * (double)values[k * stride];
    return sqrt(sum);
}

double bench_worse(double worst, double error)
{
    return isnan(worst) || error <= worst ? worst : error;
}

ProductError product_error(const Product *product)
{
    double worst = 0, errors = 0, squares = 0;
    for (int64_t j = 0; j < product->columns; j++) {
        double column = norm_of(product->b + j * product->b_column, product->inner, product->b_inner);
        for (int64_t i = 0; i < product->rows; i++) {
            int64_t at = i * product->columns + j;
            bool masked = product->mask && !(product->mask[at] > 0);
            double exact = masked ? 0 : exact_value(product, i, j),
                   error = fabs((double)product->y[at] - exact),
                   row = norm_of(product->a + i * product->a_row, product->inner, product->a_inner);
            worst = bench_worse(worst, error / (row * column * product->factor));
            errors += error * error;
            squares += exact * exact;
        }
    }
    return (ProductError){worst, sqrt(errors / squares)};
}
