// selftest_internal.h - planted bad candidates: what is spoiled, and the tables of it.
#ifndef FEDGATE_GATE_SELFTEST_INTERNAL_H
#define FEDGATE_GATE_SELFTEST_INTERNAL_H

#include "gate_internal.h"

typedef struct SelftestVariant {
    const char *name, *check;
    void (*spoil)(Json *bad);   // bad: a copy of the sections that the check reads
    bool half;   // not shown in FP32 nights, whose evidence has no such part
} SelftestVariant;

extern const SelftestVariant selftest_of_run[];   // device, time, memory, bits
extern const size_t selftest_of_run_count;
extern const SelftestVariant selftest_of_parity[];
extern const size_t selftest_of_parity_count;
extern const SelftestVariant selftest_of_model[];   // data, scores, cost, release
extern const size_t selftest_of_model_count;

// The member `second` of the member `first` (second NULL: `first` itself) for writing; made when absent.
Json *selftest_open(Json *root, const char *first, const char *second);

// `change` every object of the array `key` of `object`; without one nothing was measured, which no judge
// passes.
void selftest_each(Json *object, const char *key, void (*change)(Json *entry));

#endif
