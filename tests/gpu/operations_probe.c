// operations_probe - what an arithmetic must show by behaviour: FP32 that is no TF32, sums of half precision
// kept in FP32 however long, NaN that is seen, FP16 that overflows visibly.
#include "operations.h"

#include <fedgate/random.h>
#include <stdio.h>
#include <stdlib.h>

static Array fine(Gpu *gpu, int64_t count, uint64_t key)   // 1 + k 2^-12: TF32 keeps 10 bits of mantissa
{
    float *values = malloc((size_t)count * sizeof *values);
    for (int64_t i = 0; i < count; i++)
        values[i] = 1 + (float)(int)(random_unit(key, (uint64_t)i) * 2047) / 4096.0f;
    Array array = array_of(gpu, FEDGATE_FP32, values, count);
    free(values);
    return array;
}

// Largest |y - a b| over the norms of the operands; strides as in operations_product.c.
typedef struct Strided {
    const float *at;
    int64_t outer, inner;
} Strided;

static double product_error(const Array *y, Strided a, Strided b, int64_t rows, int64_t columns,
                            int64_t inner)
{
    double worst = 0;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            double sum = 0, aa = 0, bb = 0;
            for (int64_t k = 0; k < inner; k++) {
                double x = (double)a.at[i * a.outer + k * a.inner],
                       w = (double)b.at[j * b.outer + k * b.inner];
                sum += x * w, aa += x * x, bb += w * w;
            }
            double error = fabs((double)y->plain[i * columns + j] - sum) / sqrt(aa * bb);
            worst = gpu_worse(worst, error);
        }
    return worst;
}

static void no_tf32(Gpu *gpu, int64_t rows, int64_t in, int64_t out)
{
    char name[96];
    const double bar = (2 * sqrt((double)(in > rows ? in : rows)) + 4) * 0x1p-24;   // TF32: some 3e-4
    Array x = fine(gpu, rows * in, 11), w = fine(gpu, in * out, 12), dy = fine(gpu, rows * out, 13);
    float *none = calloc((size_t)out, sizeof *none);
    Array bias = array_of(gpu, FEDGATE_FP32, none, out), y = array_new(gpu, FEDGATE_FP32, rows * out, 0),
          dw = array_new(gpu, FEDGATE_FP32, in * out, 0), db = array_new(gpu, FEDGATE_FP32, out, 0),
          dx = array_new(gpu, FEDGATE_FP32, rows * in, 0);
    free(none);
    device_dense(gpu->device, &(FedgateDense){FEDGATE_FP32, FEDGATE_FP32, x.at, w.at, bias.at, y.at, rows, in,
                                              out, false});
    device_dense_back(gpu->device, &(FedgateDenseBack){.x = x.at,
                                                       .w = w.at,
                                                       .dy = dy.at,
                                                       .dx = dx.at,
                                                       .dw = dw.at,
                                                       .db = db.at,
                                                       .rows = rows,
                                                       .in = in,
                                                       .out = out,
                                                       .below_scale = 1});
    array_fetch(gpu, &y), array_fetch(gpu, &dw), array_fetch(gpu, &dx);
    snprintf(name, sizeof name, "no TF32, forward %lldx%lldx%lld", (long long)rows, (long long)in,
             (long long)out);
    gpu_row(gpu, name,
            product_error(&y, (Strided){x.plain, in, 1}, (Strided){w.plain, 1, out}, rows, out, in),
            "of norms", bar);
    snprintf(name, sizeof name, "no TF32, weights %lldx%lldx%lld", (long long)rows, (long long)in,
             (long long)out);
    gpu_row(gpu, name,
            product_error(&dw, (Strided){x.plain, 1, in}, (Strided){dy.plain, 1, out}, in, out, rows),
            "of norms", bar);
    snprintf(name, sizeof name, "no TF32, inputs %lldx%lldx%lld", (long long)rows, (long long)in,
             (long long)out);
    gpu_row(gpu, name,
            product_error(&dx, (Strided){dy.plain, out, 1}, (Strided){w.plain, out, 1}, rows, in, out),
            "of norms", bar);
    array_free(gpu, &x), array_free(gpu, &w), array_free(gpu, &dy), array_free(gpu, &bias);
    array_free(gpu, &y), array_free(gpu, &dw), array_free(gpu, &db), array_free(gpu, &dx);
}

// Weight gradients (stored in FP32, so that nothing but the sums shows) of few elements over K rows: split-K
// is what a library does here, and 8 partial sums in BF16 would cost 4e-3.
static double long_sum(Gpu *gpu, FedgateType type, int64_t rows)
{
    const int64_t in = 16, out = 16;
    Array x = array_noise(gpu, type, rows * in, 0, 21, 1), dy = array_noise(gpu, type, rows * out, 0, 22, 1),
          w = array_noise(gpu, type, in * out, 0, 23, 1), dw = array_new(gpu, FEDGATE_FP32, in * out, 0),
          db = array_new(gpu, FEDGATE_FP32, out, 0);
    device_dense_back(gpu->device, &(FedgateDenseBack){.type = type,
                                                       .x = x.at,
                                                       .w = w.at,
                                                       .dy = dy.at,
                                                       .dw = dw.at,
                                                       .db = db.at,
                                                       .rows = rows,
                                                       .in = in,
                                                       .out = out});
    array_fetch(gpu, &dw);
    double worst = product_error(&dw, (Strided){x.plain, 1, in}, (Strided){dy.plain, 1, out}, in, out, rows);
    array_free(gpu, &x), array_free(gpu, &dy), array_free(gpu, &w), array_free(gpu, &dw),
        array_free(gpu, &db);
    return worst;
}

// A forward pass over K inputs, stored in the type: its error is that of the one rounding.
static double long_layer(Gpu *gpu, FedgateType type, int64_t in)
{
    const int64_t rows = 16, out = 16;
    Array x = array_noise(gpu, type, rows * in, 0, 24, 1), w = array_noise(gpu, type, in * out, 0, 25, 1);
    float none[16] = {0};
    Array bias = array_of(gpu, type, none, out), y = array_new(gpu, type, rows * out, 0);
    device_dense(gpu->device, &(FedgateDense){type, type, x.at, w.at, bias.at, y.at, rows, in, out, false});
    array_fetch(gpu, &y);
    double error = 0, square = 0;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < out; j++) {
            double sum = 0;
            for (int64_t k = 0; k < in; k++)
                sum += (double)x.plain[i * in + k] * (double)w.plain[k * out + j];
            error += pow((double)y.plain[i * out + j] - sum, 2), square += sum * sum;
        }
    array_free(gpu, &x), array_free(gpu, &w), array_free(gpu, &bias), array_free(gpu, &y);
    return sqrt(error / square);
}

static void growth(Gpu *gpu, FedgateType type)
{
    static const int64_t lengths[] = {256, 4096, 65536};
    char name[96];
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "sums of %lld in %s", (long long)lengths[i], device_type_name(type));
        gpu_row(gpu, name, long_sum(gpu, type, lengths[i]), "of norms",
                (2 * sqrt((double)lengths[i]) + 4) * 0x1p-24);
    }
    double small = long_layer(gpu, type, lengths[0]), large = long_layer(gpu, type, lengths[2]);
    snprintf(name, sizeof name, "layer of %lld to one of %lld in %s, rms error", (long long)lengths[2],
             (long long)lengths[0], device_type_name(type));
    gpu_row(gpu, name, large / small, "ratio", type == FEDGATE_FP32 ? NAN : 1.3);
}

// What a NaN in one input does to its row of a layer: 1 it is there, 0 it is hidden.
static double nan_shows(Gpu *gpu, FedgateType type, int64_t rows, int64_t in, int64_t out, bool relu)
{
    float *values = calloc((size_t)(rows * in), sizeof *values);
    values[3 * in + 5] = NAN;
    Array x = array_of(gpu, type, values, rows * in), w = array_noise(gpu, type, in * out, 0, 31, 1),
          bias = array_noise(gpu, type, out, 0, 32, 1), y = array_new(gpu, type, rows * out, 0);
    device_dense(gpu->device, &(FedgateDense){type, type, x.at, w.at, bias.at, y.at, rows, in, out, relu});
    array_fetch(gpu, &y);
    free(values);
    bool shown = true, elsewhere = false;
    for (int64_t i = 0; i < rows * out; i++)
        i / out == 3 ? (shown &= isnan(y.plain[i])) : (elsewhere |= isnan(y.plain[i]));
    array_free(gpu, &x), array_free(gpu, &w), array_free(gpu, &bias), array_free(gpu, &y);
    return elsewhere ? NAN : shown;
}

static void overflow(Gpu *gpu, bool relu)
{
    const int64_t rows = 4, in = 64, out = 8;
    float x[4 * 64], w[64 * 8], bias[8] = {0};
    for (int i = 0; i < 4 * 64; i++)
        x[i] = 200;
    for (int i = 0; i < 64 * 8; i++)
        w[i] = 200;
    Array ax = array_of(gpu, FEDGATE_FP16, x, rows * in), aw = array_of(gpu, FEDGATE_FP16, w, in * out),
          ab = array_of(gpu, FEDGATE_FP16, bias, out), y = array_new(gpu, FEDGATE_FP16, rows * out, 0);
    device_dense(gpu->device,
                 &(FedgateDense){FEDGATE_FP16, FEDGATE_FP16, ax.at, aw.at, ab.at, y.at, rows, in, out, relu});
    array_fetch(gpu, &y);
    int finite = 0;
    for (int64_t i = 0; i < rows * out; i++)
        finite += !isinf(y.plain[i]);
    gpu_row(gpu,
            relu ? "fp16 overflow behind a ReLU that is not infinity" : "fp16 overflow that is not infinity",
            finite, "elements", 0);
    array_free(gpu, &ax), array_free(gpu, &aw), array_free(gpu, &ab), array_free(gpu, &y);
}

void test_probes(Gpu *gpu)
{
    char name[96];
    no_tf32(gpu, 64, 64, 64);
    no_tf32(gpu, 64, 64, 1);
    no_tf32(gpu, 256, 256, 256);
    no_tf32(gpu, 4, 32768, 4);
    for (int t = 0; t < 3; t++)
        growth(gpu, (FedgateType)t);
    static const int64_t layers[][3] = {
        {8, 32, 1}, {8, 32, 64}, {256, 256, 256}, {8192, 256, 256}, {1024, 512, 4096}};
    for (int t = 0; t < 3; t++)
        for (int i = 0; i < 5; i++)
            for (int relu = 0; relu < 2; relu++) {
                const int64_t *layer = layers[i];
                snprintf(name, sizeof name, "NaN hidden by %lldx%lldx%lld%s, %s", (long long)layer[0],
                         (long long)layer[1], (long long)layer[2], relu ? " with ReLU" : "",
                         device_type_name((FedgateType)t));
                gpu_row(gpu, name, 1 - nan_shows(gpu, (FedgateType)t, layer[0], layer[1], layer[2], relu > 0),
                        "of 1", relu ? NAN : 0);
            }
    overflow(gpu, false);
    overflow(gpu, true);
}
