// probe - rung 1: shows by behaviour that the FP32 arm computes in FP32, with values that TF32 or BF16 would
// round away, and long sums.
//
// The operations are the device's own, as the network calls them. Errors are scaled by the norms of the
// operands, so a limit means the same for every shape. TF32 keeps 10 bits of mantissa: its error on these
// operands is some 3e-4, hundreds of times every limit here.
#include "bench.h"
#include "parity_internal.h"

#include <fedgate/random.h>
#include <stdio.h>

typedef enum ProbeOf { PROBE_FORWARD, PROBE_WEIGHTS, PROBE_INPUTS } ProbeOf;
typedef struct Probe {
    const char *name;
    ProbeOf of;
    int64_t rows, in, out;
    bool fine;   // operands 1 + k 2^-12: a 10-bit mantissa cannot hold them
    double limit;
} Probe;

// A sum of n products in single precision errs by some sqrt(n) 2^-24 of its norm when the roundings are
// independent; four times that.
static const Probe probes[] = {
    {"values below TF32 resolution", PROBE_FORWARD, 64, 64, 64, true, 4e-6},
    {"values below TF32 resolution, one output", PROBE_FORWARD, 64, 64, 1, true, 4e-6},
    {"values below TF32 resolution, weight gradient", PROBE_WEIGHTS, 64, 64, 64, true, 4e-6},
    {"values below TF32 resolution, input gradient", PROBE_INPUTS, 64, 64, 64, true, 4e-6},
    {"layer", PROBE_FORWARD, 128, 256, 128, false, 4e-6},
    {"long reduction", PROBE_FORWARD, 4, 32768, 4, false, 6e-5},
};

static float *operand(Bench *bench, const Probe *probe, int64_t count, uint64_t key)
{
    float *values = bench_host(bench, count);
    for (int64_t i = 0; i < count; i++) {
        double unit = random_unit(key, (uint64_t)i);
        values[i] = probe->fine ? 1 + (float)(int)(unit * 2047) / 4096.0f : (float)(2 * unit - 1);
    }
    return values;
}

static Product forward(Bench *bench, const Probe *probe, const float *x, const float *w)
{
    const int64_t rows = probe->rows, in = probe->in, out = probe->out;
    float *bias = bench_host(bench, out);
    for (int64_t j = 0; j < out; j++)
        bias[j] = 0;
    void *y = bench_room(bench, FEDGATE_FP32, rows * out);
    device_dense(bench->device, &(FedgateDense){.x = bench_put(bench, FEDGATE_FP32, x, rows * in),
                                                .w = bench_put(bench, FEDGATE_FP32, w, in * out),
                                                .bias = bench_put(bench, FEDGATE_FP32, bias, out),
                                                .y = y,
                                                .rows = rows,
                                                .in = in,
                                                .out = out});
    return (Product){.a = x,
                     .b = w,
                     .y = bench_get(bench, FEDGATE_FP32, y, rows * out),
                     .rows = rows,
                     .inner = in,
                     .columns = out,
                     .a_row = in,
                     .a_inner = 1,
                     .b_inner = out,
                     .b_column = 1,
                     .factor = 1};
}

static Product backward(Bench *bench, const Probe *probe, const float *x, const float *w)
{
    const int64_t rows = probe->rows, in = probe->in, out = probe->out;
    const float *dy = operand(bench, probe, rows * out, 0x6479u);
    float *dw = bench_room(bench, FEDGATE_FP32, in * out), *dx = bench_room(bench, FEDGATE_FP32, rows * in),
          *db = bench_room(bench, FEDGATE_FP32, out);
    device_dense_back(bench->device, &(FedgateDenseBack){.x = bench_put(bench, FEDGATE_FP32, x, rows * in),
                                                         .w = bench_put(bench, FEDGATE_FP32, w, in * out),
                                                         .dy = bench_put(bench, FEDGATE_FP32, dy, rows * out),
                                                         .dx = dx,
                                                         .dw = dw,
                                                         .db = db,
                                                         .rows = rows,
                                                         .in = in,
                                                         .out = out,
                                                         .below_scale = 1});
    if (probe->of == PROBE_WEIGHTS)
        return (Product){.a = x,
                         .b = dy,
                         .y = bench_get(bench, FEDGATE_FP32, dw, in * out),
                         .rows = in,
                         .inner = rows,
                         .columns = out,
                         .a_row = 1,
                         .a_inner = in,
                         .b_inner = out,
                         .b_column = 1,
                         .factor = 1};
    return (Product){.a = dy,
                     .b = w,
                     .y = bench_get(bench, FEDGATE_FP32, dx, rows * in),
                     .rows = rows,
                     .inner = out,
                     .columns = in,
                     .a_row = out,
                     .a_inner = 1,
                     .b_inner = 1,
                     .b_column = out,
                     .factor = 1};
}

static bool run_probe(Bench *bench, const Probe *probe, uint64_t key, Json *array)
{
    bench_clear(bench);
    const float *x = operand(bench, probe, probe->rows * probe->in, 2 * key),
                *w = operand(bench, probe, probe->in * probe->out, 2 * key + 1);
    Product product = (probe->of == PROBE_FORWARD ? forward : backward)(bench, probe, x, w);
    if (!bench_ok(bench))
        return error_prefix(bench->error, "probe '%s'", probe->name);
    char shape[64];
    snprintf(shape, sizeof shape, "%lldx%lldx%lld", (long long)probe->rows, (long long)probe->in,
             (long long)probe->out);
    Json *json = json_make_object();
    json_put_text(json, "name", probe->name);
    json_put_text(json, "shape", shape);
    json_put_number(json, "error", product_error(&product).worst);
    json_put_number(json, "limit", probe->limit);
    json_put_text(json, "unit", "of the operands' norms");
    json_add(array, json);
    return true;
}

bool parity_probes(Trainer *trainer, Json *parity, Error *error)
{
    Bench bench;
    Json *array = json_make_array();
    bool good = bench_open(&bench, trainer->spec.device, trainer->spec.ledger, error);
    for (size_t i = 0; good && i < sizeof probes / sizeof probes[0]; i++)
        good = run_probe(&bench, &probes[i], 0x70726f6265u + i, array);
    bench_close(&bench);
    json_put(parity, "probes", array);
    return good;
}
