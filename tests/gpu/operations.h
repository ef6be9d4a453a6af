// operations.h - what the parts of gpu_operations share: an operation on both devices, and its rows.
#ifndef FEDGATE_TESTS_OPERATIONS_H
#define FEDGATE_TESTS_OPERATIONS_H

#include "gpu.h"

void test_products(Gpu *gpu);   // operations_product.c
void test_probes(Gpu *gpu);   // operations_probe.c
void test_inputs(Gpu *gpu);   // operations_input.c
void test_elements(Gpu *gpu);   // operations_element.c
void test_losses(Gpu *gpu);   // operations_loss.c
void test_recordings(Gpu *gpu);   // operations_record.c

// Runs the operation on the tested device and on the cpu, whose memory is the host's: elements of the arrays,
// which are in and out, that are not the cpu's to the bit. NaN is NaN, whatever its bits.
typedef void (*Both)(Device *device, void *const *at, const void *how);
enum { BOTH_ARRAYS = 8 };
int64_t operations_differing(Gpu *gpu, Both run, const void *how, Array *arrays, int count);
void operations_equal_row(Gpu *gpu, const char *name, FedgateType type, int64_t differ);
// A comparison must see what is wrong: a row that fails unless it did.
void operations_seen_row(Gpu *gpu, const char *what, bool seen);

// Distance from the expected number, relative beyond 1.
double operations_off(double value, double expected);

#endif
