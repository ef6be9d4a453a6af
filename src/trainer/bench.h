// bench - operands of one operation of a device in any of its types, and how far a product is from float64.
//
// One block of device memory and one of host memory, cut anew for each operation. A call that fails is
// remembered and said by bench_ok; what follows it then does nothing.
#ifndef FEDGATE_TRAINER_BENCH_H
#define FEDGATE_TRAINER_BENCH_H

#include <fedgate/compute.h>

enum { BENCH_BYTES = 1280 * 1024 };   // of each block; the longest reductions need 1 MiB

typedef struct Bench {
    Device *device;
    Ledger *ledger;
    char *memory, *host;
    int64_t memory_used, host_used;
    Error *error;
    bool failed;
} Bench;
bool bench_open(Bench *bench, Device *device, Ledger *ledger, Error *error);
void bench_close(Bench *bench);
void bench_clear(Bench *bench);   // what was cut is free again
bool bench_ok(const Bench *bench);

float *bench_host(Bench *bench, int64_t count);
float *bench_random(Bench *bench, int64_t count, uint64_t key, float scale);   // uniform within +-scale
void *bench_room(Bench *bench, FedgateType type, int64_t count);   // device memory
void *bench_put(Bench *bench, FedgateType type, const float *values,
                int64_t count);   // rounded by the device
float *bench_get(Bench *bench, FedgateType type, const void *from, int64_t count);

// y(i, j) = sum over k of a(i, k) b(k, j) + bias(j): strides say how a and b lie, so that x w, x' dy and dy
// w' are one. Where mask (of y's shape) is not above 0 the exact value is 0.
typedef struct Product {
    const float *a, *b, *bias, *mask, *y;
    int64_t rows, inner, columns;
    int64_t a_row, a_inner, b_inner, b_column;
    double factor;
} Product;
typedef struct ProductError {
    double worst;   // largest |y - exact| over the norms of a's row and b's column
    double rms;   // rms error over rms of the exact values
} ProductError;
ProductError product_error(const Product *product);
double bench_worse(double worst, double error);   // the larger; NaN is largest and stays

// -- operations that rung 2 measures: the error against float64, NaN when the bench has failed
typedef struct Operation Operation;
struct Operation {
    const char *name;
    double (*run)(Bench *bench, FedgateType type, const Operation *operation);
    int64_t rows, in, out, reduction;
    float scale;   // of the operands
    int which;   // of those that one function measures
};
enum { KEY_X = 0x70780000, KEY_W = 0x70770000, KEY_Y = 0x70790000, KEY_BIAS = 0x70620000 };
enum { ASSEMBLE_WIDTH = 12, ASSEMBLE_FLOATS = 33 };   // of the inputs that are assembled, of their tables
double run_assemble(Bench *bench, FedgateType type, const Operation *op);
double run_embedding_gradient(Bench *bench, FedgateType type, const Operation *op);
double run_zero_gradient(Bench *bench, FedgateType type, const Operation *op);
double run_loss_sum(Bench *bench, FedgateType type, const Operation *op);   // which: FedgateLossKind

#endif
