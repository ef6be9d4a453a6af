// compute_fixture - a cpu device with a ledger around each test, noise in any type, and how close is close.
#ifndef FEDGATE_COMPUTE_FIXTURE_H
#define FEDGATE_COMPUTE_FIXTURE_H

#include <check.h>
#include <fedgate/compute.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static Ledger *ledger;
static Device *device;

static inline Device *open_cpu(int threads)
{
    Error error = ERROR_INIT;
    Device *opened = device_open("cpu", threads, clock_real(), ledger, &error);
    ck_assert_msg(opened != NULL, "%s", error.message);
    return opened;
}

static inline void setup(void)
{
    ledger = ledger_new();
    device = open_cpu(1);
}

static inline void teardown(void)
{
    device_close(device);
    for (int kind = 0; kind < LEDGER_KIND_COUNT; kind++)
        ck_assert_int_eq(ledger_live(ledger, (LedgerKind)kind), 0);
    ledger_free(ledger);
}

static inline void *take_typed(FedgateType type, int64_t count)
{
    Error error = ERROR_INIT;
    void *memory = device_take(device, "test", count * fedgate_type_bytes(type), &error);
    ck_assert_msg(memory != NULL, "%s", error.message);
    return memory;
}

static inline void give_typed(FedgateType type, void *memory, int64_t count)
{
    device_give(device, "test", memory, count * fedgate_type_bytes(type));
}

static inline float *take(int64_t count)
{
    return take_typed(FEDGATE_FP32, count);
}

static inline void give(float *memory, int64_t count)
{
    give_typed(FEDGATE_FP32, memory, count);
}

static inline float *take_noise(int64_t count, uint32_t seed)   // in [-1, 1)
{
    float *memory = take(count);
    for (int64_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        memory[i] = (float)(seed >> 8) / 8388608.0f - 1;
    }
    return memory;
}

static inline void cast(FedgateType from_type, const void *from, FedgateType to_type, void *to, int64_t count)
{
    device_cast(
        device,
        &(FedgateCast){.to = to, .from = from, .to_type = to_type, .from_type = from_type, .count = count});
}

// A matrix twice: in the type, and the same rounded numbers as floats, for the reference.
typedef struct Twin {
    FedgateType type;
    int64_t count;
    void *typed;
    float *plain;
} Twin;

static inline Twin twin_of(FedgateType type, const float *values, int64_t count)
{
    Twin twin = {.type = type, .count = count, .typed = take_typed(type, count), .plain = take(count)};
    cast(FEDGATE_FP32, values, type, twin.typed, count);
    cast(type, twin.typed, FEDGATE_FP32, twin.plain, count);
    return twin;
}

static inline Twin twin_noise(FedgateType type, int64_t count, uint32_t seed)
{
    float *values = take_noise(count, seed);
    Twin twin = twin_of(type, values, count);
    give(values, count);
    return twin;
}

static inline void twin_free(const Twin *twin)
{
    give_typed(twin->type, twin->typed, twin->count);
    give(twin->plain, twin->count);
}

static const double smallest_normal[] = {
    [FEDGATE_FP32] = 0x1p-126, [FEDGATE_BF16] = 0x1p-126, [FEDGATE_FP16] = 0x1p-14};

// Bar of one sum of products: `terms` rounded additions in FP32 of numbers whose magnitudes add up to
// `magnitude` (their errors are random: 2 sqrt(terms) + 4 units), then one store: half a unit of the result,
// or of the smallest normal number when that is larger.
static inline double bar_of(FedgateType store, int64_t terms, double magnitude, double result)
{
    double sum = (2 * sqrt((double)terms) + 4) * 0x1p-24 * magnitude, u = device_type_roundoff(store);
    return sum + u * (1 + u) * fmax(fabs(result) + sum, smallest_normal[store]);
}

static inline int run_suite(Suite *suite)
{
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_ENV);
    int bad = srunner_ntests_failed(r);
    srunner_free(r);
    return bad != 0;
}

#endif
