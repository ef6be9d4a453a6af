// operations_product - layers forward and backward against float64 on the rounded operands, in every type and
// shape, aligned and not.
#include "operations.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// rows, in, out: edges, odd widths, one output, the layers of Adult, of G1 and G2, of G3
static const int64_t shapes[][3] = {
    {1, 1, 1},       {1, 3, 64},         {1, 64, 3},     {1, 300, 1},       {2, 2, 2},
    {7, 1, 3},       {7, 3, 1},          {7, 64, 300},   {7, 300, 3},       {512, 1, 64},
    {513, 3, 300},   {513, 300, 1},      {1300, 64, 64}, {1300, 63, 65},    {129, 105, 64},
    {256, 32, 256},  {256, 256, 256},    {256, 256, 1},  {512, 105, 64},    {4096, 256, 10},
    {8192, 32, 256}, {8192, 256, 256},   {8192, 256, 1}, {8192, 512, 4096}, {8192, 4096, 1},
    {3, 300000, 1},  {8192, 4096, 4096},
};
static const double sampled_products = 1e7;   // beyond it only every n-th element is compared

// The largest is for aligned parameters alone: its numbers take seconds to make.
static bool skipped(const int64_t shape[static 3], int64_t offset)
{
    return offset > 0 && (double)shape[0] * (double)shape[1] * (double)shape[2] > 1e11;
}

typedef struct Worst {
    double norm, bar;   // largest error over the norms of the operands; over its bar
    int64_t differ, rows, columns, inner;   // bytes between two runs; of the product with the largest `bar`
} Worst;

// y(i, j) = factor sum over k of a(i, k) b(k, j) + bias(j) + before(i, j); then ReLU or the mask.
typedef struct Check {
    const Array *y;
    const float *a, *b, *bias, *before, *mask;
    int64_t rows, columns, inner, a_row, a_inner, b_inner, b_column;
    double factor;
    bool relu;
} Check;

static void check_element(const Check *c, int64_t i, int64_t j, Worst *worst)
{
    double sum = 0, magnitude = 0, aa = 0, bb = 0;
    for (int64_t k = 0; k < c->inner; k++) {
        double a = (double)c->a[i * c->a_row + k * c->a_inner],
               b = (double)c->b[k * c->b_inner + j * c->b_column];
        sum += a * b;
        magnitude += fabs(a * b);
        aa += a * a;
        bb += b * b;
    }
    const int64_t at = i * c->columns + j;
    double extra = c->bias ? (double)c->bias[j] : c->before ? (double)c->before[at] : 0;
    double exact = sum * c->factor + extra, size = sqrt(aa * bb) * c->factor + fabs(extra);
    magnitude = magnitude * c->factor + fabs(extra);
    bool masked = c->mask && !(c->mask[at] > 0);
    exact = masked || (c->relu && exact < 0) ? 0 : exact;
    const double smallest[] = {0x1p-126, 0x1p-126, 0x1p-14}, u = device_type_roundoff(c->y->type);
    double rounding = (2 * sqrt((double)c->inner + 1) + 4) * 0x1p-24 * magnitude,
           bar = masked ? 0 : rounding + u * (1 + u) * fmax(fabs(exact) + rounding, smallest[c->y->type]);
    double error = fabs((double)c->y->plain[at] - exact);
    size = fmax(size, smallest[c->y->type]);   // below it a store rounds by absolute steps
    worst->norm = gpu_worse(worst->norm, error / size);
    double before = worst->bar;
    worst->bar = gpu_worse(before, bar > 0 ? error / bar : error > 0 ? 2 : error);
    if (worst->bar == before)
        return;
    worst->rows = c->rows, worst->columns = c->columns, worst->inner = c->inner;
}

static void check(const Check *c, Worst *worst)
{
    int64_t elements = c->rows * c->columns,
            step = (int64_t)((double)elements * (double)c->inner / sampled_products) + 1;
    for (int64_t at = 0; at < elements; at += step)
        check_element(c, at / c->columns, at % c->columns, worst);
}

static void call_dense(Device *device, const void *op)
{
    device_dense(device, op);
}

static void call_back(Device *device, const void *op)
{
    device_dense_back(device, op);
}

static void forward(Gpu *gpu, FedgateType type, FedgateType y_type, bool relu, int64_t offset, Worst *ret)
{
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0] && !skipped(shapes[s], offset); s++) {
        const int64_t rows = shapes[s][0], in = shapes[s][1], out = shapes[s][2];
        Array x = array_noise(gpu, type, rows * in, 0, 1, 1),
              w = array_noise(gpu, type, in * out, offset, 2, 1),
              bias = array_noise(gpu, type, out, offset, 3, 1), y = array_new(gpu, y_type, rows * out, 0);
        FedgateDense op = {type, y_type, x.at, w.at, bias.at, y.at, rows, in, out, relu};
        ret->differ += gpu_twice(gpu, call_dense, &op, (Array *[]){&y}, 1);
        check(&(Check){.y = &y,
                       .a = x.plain,
                       .b = w.plain,
                       .bias = bias.plain,
                       .rows = rows,
                       .columns = out,
                       .inner = in,
                       .a_row = in,
                       .a_inner = 1,
                       .b_inner = out,
                       .b_column = 1,
                       .factor = 1,
                       .relu = relu},
              ret);
        array_free(gpu, &x), array_free(gpu, &w), array_free(gpu, &bias), array_free(gpu, &y);
    }
}

typedef struct Back {
    Worst dw, db, dx, sums;
} Back;

typedef struct BackArrays {
    Array x, w, dy, dw, db, dx, sums;
} BackArrays;

static void check_back(const FedgateDenseBack *op, const BackArrays *a, Back *ret)
{
    static const float ones[1] = {1};   // a row of ones, of stride 0
    Check c = {.y = &a->dw,
               .a = a->x.plain,
               .b = a->dy.plain,
               .rows = op->in,
               .columns = op->out,
               .inner = op->rows};
    c.a_row = 1, c.a_inner = op->in, c.b_inner = op->out, c.b_column = 1, c.factor = 1;
    c.before = op->accumulate ? a->dw.before : NULL;
    check(&c, &ret->dw);
    c.y = &a->db, c.a = ones, c.a_row = 0, c.a_inner = 0, c.rows = 1;
    c.before = op->accumulate ? a->db.before : NULL;
    check(&c, &ret->db);
    c = (Check){.y = &a->dx, .a = a->dy.plain, .b = a->w.plain, .rows = op->rows, .columns = op->in};
    c.inner = op->out, c.a_row = op->out, c.a_inner = 1, c.b_inner = 1, c.b_column = op->out;
    c.mask = op->below_relu ? a->x.plain : NULL;
    c.factor = op->below_relu ? (double)op->below_scale : 1;
    check(&c, &ret->dx);
    // of what is stored: the sums of the layer below are those of its dy
    c = (Check){.y = &a->sums, .a = ones, .b = a->dx.plain, .rows = 1, .columns = op->in, .inner = op->rows};
    c.b_inner = op->in, c.b_column = 1, c.factor = 1;
    c.before = op->accumulate ? a->sums.before : NULL;
    check(&c, &ret->sums);
}

static Array gradient_array(Gpu *gpu, bool accumulate, int64_t count, int64_t offset, uint64_t key)
{
    return accumulate ? array_noise(gpu, FEDGATE_FP32, count, offset, key, 1)
                      : array_new(gpu, FEDGATE_FP32, count, offset);
}

static void backward(Gpu *gpu, FedgateType type, bool accumulate, bool relu, int64_t offset, Back *ret)
{
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0] && !skipped(shapes[s], offset); s++) {
        const int64_t rows = shapes[s][0], in = shapes[s][1], out = shapes[s][2];
        BackArrays a = {.x = array_noise(gpu, type, rows * in, 0, 5, 1),
                        .w = array_noise(gpu, type, in * out, offset, 6, 1),
                        .dy = array_noise(gpu, type, rows * out, 0, 7, 1),
                        .dx = array_new(gpu, type, rows * in, 0),
                        .dw = gradient_array(gpu, accumulate, in * out, offset, 8),
                        .db = gradient_array(gpu, accumulate, out, offset, 9),
                        .sums = gradient_array(gpu, accumulate, in, offset, 10)};
        FedgateDenseBack op = {.type = type,
                               .x = a.x.at,
                               .w = a.w.at,
                               .dy = a.dy.at,
                               .dx = a.dx.at,
                               .dw = a.dw.at,
                               .db = a.db.at,
                               .rows = rows,
                               .in = in,
                               .out = out,
                               .accumulate = accumulate,
                               .below_relu = relu,
                               .below_scale = relu ? 1.25f : 1,
                               .dx_sums = a.sums.at};
        ret->dw.differ += gpu_twice(gpu, call_back, &op, (Array *[]){&a.dw, &a.db, &a.dx, &a.sums}, 4);
        check_back(&op, &a, ret);
        array_free(gpu, &a.x), array_free(gpu, &a.w), array_free(gpu, &a.dy), array_free(gpu, &a.dx);
        array_free(gpu, &a.dw), array_free(gpu, &a.db), array_free(gpu, &a.sums);
    }
}

// What is not wanted is left alone, and the rest comes out the same.
static void partly(Gpu *gpu, FedgateType type)
{
    enum { ROWS = 700, IN = 96, OUT = 40 };
    int64_t differ = 0;
    for (int64_t out = 1; out <= OUT; out += OUT - 1) {
        Array x = array_noise(gpu, type, ROWS * IN, 0, 5, 1), w = array_noise(gpu, type, IN * out, 0, 6, 1),
              dy = array_noise(gpu, type, ROWS * out, 0, 7, 1),
              dw = array_new(gpu, FEDGATE_FP32, IN * out, 0), db = array_new(gpu, FEDGATE_FP32, out, 0),
              dx = array_new(gpu, type, ROWS * IN, 0);
        FedgateDenseBack op = {.type = type,
                               .x = x.at,
                               .w = w.at,
                               .dy = dy.at,
                               .dx = dx.at,
                               .dw = dw.at,
                               .db = db.at,
                               .rows = ROWS,
                               .in = IN,
                               .out = out,
                               .below_scale = 1};
        device_dense_back(gpu->device, &op);
        array_fetch(gpu, &dw), array_fetch(gpu, &dx);
        void *kept = memcpy(malloc((size_t)dw.bytes), dw.host, (size_t)dw.bytes);
        array_reset(gpu, &db), array_reset(gpu, &dx);
        op.db = NULL, op.dx = NULL;
        device_dense_back(gpu->device, &op);
        array_fetch(gpu, &dw), array_fetch(gpu, &dx), array_fetch(gpu, &db);
        differ += memcmp(kept, dw.host, (size_t)dw.bytes) != 0;
        differ += memcmp(db.before, db.host, (size_t)db.bytes) != 0;
        differ += memcmp(dx.before, dx.host, (size_t)dx.bytes) != 0;
        free(kept);
        array_free(gpu, &x), array_free(gpu, &w), array_free(gpu, &dy);
        array_free(gpu, &dw), array_free(gpu, &db), array_free(gpu, &dx);
    }
    char text[64];
    snprintf(text, sizeof text, "gradients partly wanted, %s", device_type_name(type));
    gpu_row(gpu, text, (double)differ, "differ", 0);
}

// The largest element, wrong by four roundings, by all of itself, or no number: over the bar each time.
static void judge_check(Gpu *gpu, FedgateType type)
{
    enum { ROWS = 64, IN = 96, OUT = 33, WRONGS = 3 };
    const double rounding = fmax(device_type_roundoff(type), 2 * sqrt(IN) * 0x1p-24);
    const float factor[WRONGS] = {(float)(1 + 8 * rounding), 0, NAN};
    Array x = array_noise(gpu, type, ROWS * IN, 0, 1, 1), w = array_noise(gpu, type, IN * OUT, 0, 2, 1),
          bias = array_noise(gpu, type, OUT, 0, 3, 1), y = array_new(gpu, type, ROWS * OUT, 0);
    FedgateDense op = {type, type, x.at, w.at, bias.at, y.at, ROWS, IN, OUT, false};
    device_dense(gpu->device, &op);
    array_fetch(gpu, &y);
    Check c = {.y = &y, .a = x.plain, .b = w.plain, .bias = bias.plain, .rows = ROWS, .columns = OUT};
    c.inner = IN, c.a_row = IN, c.a_inner = 1, c.b_inner = OUT, c.b_column = 1, c.factor = 1;
    int64_t at = 0;
    for (int64_t i = 1; i < y.count; i++)
        at = fabsf(y.plain[i]) > fabsf(y.plain[at]) ? i : at;
    const float kept = y.plain[at];
    for (int k = 0; k < WRONGS; k++) {
        Worst worst = {0};
        y.plain[at] = kept * factor[k];
        check(&c, &worst);
        operations_seen_row(gpu, "a wrong element of a product", worst.bar > 1);
    }
    array_free(gpu, &x), array_free(gpu, &w), array_free(gpu, &bias), array_free(gpu, &y);
}

static void rows_of(Gpu *gpu, const char *name, const char *variant, FedgateType type, const Worst *worst)
{
    char text[96];
    snprintf(text, sizeof text, "%s %s%s error", name, device_type_name(type), variant);
    gpu_row(gpu, text, worst->norm, "of norms", NAN);
    snprintf(text, sizeof text, "%s %s%s of its bar", name, device_type_name(type), variant);
    gpu_row(gpu, text, worst->bar, "ratio", 1);
    if (!(worst->bar <= 1))
        printf("    worst in %lld x %lld, sums of %lld\n", (long long)worst->rows, (long long)worst->columns,
               (long long)worst->inner);
}

void test_products(Gpu *gpu)
{
    static const FedgateType types[] = {FEDGATE_FP32, FEDGATE_BF16, FEDGATE_FP16};
    int64_t differ = 0;
    for (int t = 0; t < 3; t++) {
        partly(gpu, types[t]);
        judge_check(gpu, types[t]);
    }
    for (int t = 0; t < 3; t++)
        for (int64_t offset = 0; offset < 2; offset++) {   // parameters lie where the layout puts them
            const char *variant = offset ? " unaligned" : "";
            Worst hidden = {0}, logits = {0};
            Back first = {0}, more = {0};
            forward(gpu, types[t], types[t], true, offset, &hidden);
            forward(gpu, types[t], FEDGATE_FP32, false, offset, &logits);
            backward(gpu, types[t], false, false, offset, &first);
            backward(gpu, types[t], true, true, offset, &more);
            differ += hidden.differ + logits.differ + first.dw.differ + more.dw.differ;
            rows_of(gpu, "layer", variant, types[t], &hidden);
            rows_of(gpu, "logits", variant, types[t], &logits);
            rows_of(gpu, "weight gradient", variant, types[t], &first.dw);
            rows_of(gpu, "weight gradient, added", variant, types[t], &more.dw);
            rows_of(gpu, "bias gradient", variant, types[t], &first.db);
            rows_of(gpu, "bias gradient, added", variant, types[t], &more.db);
            rows_of(gpu, "input gradient", variant, types[t], &first.dx);
            rows_of(gpu, "input gradient, masked", variant, types[t], &more.dx);
            rows_of(gpu, "bias gradient below", variant, types[t], &first.sums);
            rows_of(gpu, "bias gradient below, masked and added", variant, types[t], &more.sums);
        }
    gpu_row(gpu, "products: bytes that differ between two runs", (double)differ, "bytes", 0);
}
