// gpu.h - what the programs for a machine with a GPU share: arrays on the device that is tested, rounded as
// the cpu back end rounds, and rows of results.
//
// They are run by ops/gpu, never by ctest; with the back end 'cpu' they test themselves anywhere, in minutes.
#ifndef FEDGATE_TESTS_GPU_H
#define FEDGATE_TESTS_GPU_H

#include <fedgate/compute.h>
#include <math.h>

typedef struct Gpu {
    Ledger *ledger;
    Device *device, *cpu;   // tested; reference, whose memory is the host's
    int failures;
} Gpu;

// Opens both, or ends the program with the reason. Results go to the file FEDGATE_RESULTS names, when it
// does.
void gpu_open(Gpu *gpu, const char *backend);
int gpu_close(Gpu *gpu);   // the status of the program
void gpu_need(bool good, const Error *error);   // a failure of a device ends the program

// A line of the table and a row of the results. !(value <= bar) is a failure; bar NAN: a figure, nothing to
// hold.
void gpu_row(Gpu *gpu, const char *name, double value, const char *unit, double bar);

static inline double gpu_worse(double worst, double error)   // NaN is worst, and stays it
{
    return isnan(error) ? INFINITY : error > worst ? error : worst;
}

// Numbers on the tested device, `offset` elements behind an aligned address: the same as bytes of their type
// and as floats on the host.
typedef struct Array {
    FedgateType type;
    int64_t count, bytes, offset;
    void *block, *at;   // device
    void *host, *before;   // bytes: what was fetched last; what `gpu_reset` puts there
    float *plain;
} Array;
Array array_new(Gpu *gpu, FedgateType type, int64_t count, int64_t offset);   // all bits set: NaN
Array array_noise(Gpu *gpu, FedgateType type, int64_t count, int64_t offset, uint64_t key, double scale);
Array array_of(Gpu *gpu, FedgateType type, const float *values, int64_t count);
void array_free(Gpu *gpu, Array *array);
void array_reset(Gpu *gpu, Array *array);
void array_fetch(Gpu *gpu, Array *array);   // into host and plain

// Runs the operation twice on outputs put back to what they were; the results of the second run are fetched.
// Counts bytes that differ between the two.
typedef void (*GpuCall)(Device *device, const void *op);
int64_t gpu_twice(Gpu *gpu, GpuCall call, const void *op, Array *const *outs, int count);

#endif
