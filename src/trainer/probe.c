// probe - shows by behaviour that the FP32 arm computes in FP32: values that TF32 or BF16 would round away,
// and long sums.
//
// Errors are scaled by the norms of the operands, so a limit means the same for every shape. TF32 keeps 10
// bits of mantissa: its error on these operands is some 3e-4, hundreds of times every limit here.
#include "trainer_internal.h"

#include <fedgate/fault.h>
#include <fedgate/json.h>
#include <fedgate/random.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct Probe {
    const char *name;
    int64_t rows, in, out;
    bool fine;   // operands 1 + k 2^-12: a 10-bit mantissa cannot hold them
    double limit;
} Probe;

// A sum of n products in single precision errs by some sqrt(n) 2^-24 of its norm when the roundings are
// independent; four times that.
static const Probe probes[] = {
    {"values below TF32 resolution", 64, 64, 64, true, 4e-6},
    {"values below TF32 resolution, one output", 64, 64, 1, true, 4e-6},
    {"layer", 256, 256, 256, false, 4e-6},
    {"long reduction", 4, 32768, 4, false, 6e-5},
};

static float planted(float value)
{
    if (!fault_set("parity.tf32"))
        return value;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits = (bits + 0x1000u) & ~0x1fffu;
    memcpy(&value, &bits, sizeof bits);
    return value;
}

static void fill(float *values, int64_t count, uint64_t key, bool fine)
{
    for (int64_t i = 0; i < count; i++) {
        double unit = random_unit(key, (uint64_t)i);
        values[i] = fine ? 1 + (float)(int)(unit * 2047) / 4096.0f : (float)(2 * unit - 1);
    }
}

static void round_planted(const float *from, float *to, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = planted(from[i]);
}

// Largest |y - exact| over the norms of the row of x and the column of w.
static double scaled_error(const Probe *probe, const float *x, const float *w, const float *y)
{
    double worst = 0;
    for (int64_t i = 0; i < probe->rows; i++)
        for (int64_t j = 0; j < probe->out; j++) {
            double exact = 0, row = 0, column = 0;
            for (int64_t k = 0; k < probe->in; k++) {
                double a = (double)x[i * probe->in + k], b = (double)w[k * probe->out + j];
                exact += a * b;
                row += a * a;
                column += b * b;
            }
            double error = fabs((double)y[i * probe->out + j] - exact) / sqrt(row * column);
            worst = error <= worst ? worst : error;   // NaN is worst
        }
    return worst;
}

static bool run_probe(Trainer *trainer, const Probe *probe, uint64_t key, Json *probes_json, Error *error)
{
    Device *device = trainer->spec.device;
    Ledger *ledger = trainer->spec.ledger;
    int64_t xs = probe->rows * probe->in, ws = probe->in * probe->out, ys = probe->rows * probe->out,
            floats = xs + ws + ys + probe->out;
    int64_t bytes = floats * (int64_t)sizeof(float);
    float *host = ledger_take(ledger, LEDGER_HOST, "probe", 2 * bytes, error);
    float *memory = host ? device_take(device, "workspace", bytes, error) : NULL;
    bool good = memory != NULL;
    if (good) {
        float *given = host + floats;
        fill(host, xs + ws, key, probe->fine);
        round_planted(host, given, xs + ws);
        good = device_load(device, memory, given, (xs + ws) * (int64_t)sizeof(float), error);
    }
    if (good) {
        device_dense(device, &(FedgateDense){.x = memory,
                                             .w = memory + xs,
                                             .bias = memory + xs + ws + ys,
                                             .y = memory + xs + ws,
                                             .rows = probe->rows,
                                             .in = probe->in,
                                             .out = probe->out});
        good = device_copy_out(device, host + xs + ws, memory + xs + ws, ys * (int64_t)sizeof(float), error);
    }
    if (good) {
        char shape[64];
        snprintf(shape, sizeof shape, "%lldx%lldx%lld", (long long)probe->rows, (long long)probe->in,
                 (long long)probe->out);
        Json *json = json_make_object();
        json_put_text(json, "name", probe->name);
        json_put_text(json, "shape", shape);
        json_put_number(json, "error", scaled_error(probe, host, host + xs, host + xs + ws));
        json_put_number(json, "limit", probe->limit);
        json_put_text(json, "unit", "of the operands' norms");
        json_add(probes_json, json);
    }
    device_give(device, "workspace", memory, bytes);
    ledger_give(ledger, LEDGER_HOST, "probe", host, 2 * bytes);
    return good;
}

bool trainer_probe_reference(Trainer *trainer, Json *evidence, Error *error)
{
    Json *parity = json_make_object(), *array = json_make_array();
    json_put_text(parity, "precision", device_info(trainer->spec.device)->precision);
    json_put_text(parity, "reference", "float64");
    bool good = true;
    for (size_t i = 0; good && i < sizeof probes / sizeof probes[0]; i++)
        good = run_probe(trainer, &probes[i], 0x70726f6265u + i, array, error) ||
               error_prefix(error, "probe '%s'", probes[i].name);
    json_put(parity, "probes", array);
    json_put(evidence, "parity", parity);
    return good;
}
