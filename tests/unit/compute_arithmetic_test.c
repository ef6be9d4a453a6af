// compute_arithmetic_test - layers forward and backward in all three types against float64 on the rounded
// operands, with bars scaled by the operands; the same bits for any number of threads; and what must fail it.
#include "compute_fixture.h"

static const FedgateType types[] = {FEDGATE_FP32, FEDGATE_BF16, FEDGATE_FP16};
enum { TYPES = sizeof types / sizeof types[0] };

// rows, in, out: one block or several, remainders of blocks and tiles, one output, odd widths
static const int64_t shapes[][3] = {
    {1, 1, 1},      {1, 3, 64},    {1, 64, 3},    {1, 300, 1},    {1, 300, 300}, {7, 1, 3},     {7, 3, 1},
    {7, 64, 64},    {7, 300, 3},   {7, 3, 300},   {7, 64, 300},   {512, 1, 64},  {512, 64, 1},  {512, 3, 3},
    {512, 300, 64}, {513, 1, 1},   {513, 3, 300}, {513, 300, 1},  {513, 64, 64}, {7, 300, 300}, {1300, 1, 3},
    {1300, 300, 3}, {1300, 64, 1}, {1300, 3, 64}, {1300, 64, 64},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

typedef struct Layer {   // operands, results, and what float64 makes of the operands
    FedgateType type;
    int64_t rows, in, out;
    Twin x, w, bias, dy;
} Layer;

static Layer layer_of(FedgateType type, int64_t rows, int64_t in, int64_t out)
{
    return (Layer){.type = type,
                   .rows = rows,
                   .in = in,
                   .out = out,
                   .x = twin_noise(type, rows * in, 1),
                   .w = twin_noise(type, in * out, 2),
                   .bias = twin_noise(type, out, 3),
                   .dy = twin_noise(type, rows * out, 4)};
}

static void layer_free(const Layer *l)
{
    twin_free(&l->x), twin_free(&l->w), twin_free(&l->bias), twin_free(&l->dy);
}

// Sum of products with the sum of their magnitudes.
typedef struct Sum {
    double value, magnitude;
} Sum;

static void sum_add(Sum *sum, double a, double b)
{
    sum->value += a * b;
    sum->magnitude += fabs(a * b);
}

static double number(FedgateType type, const void *at, int64_t index)
{
    float value;
    cast(type, (const char *)at + index * fedgate_type_bytes(type), FEDGATE_FP32, &value, 1);
    return (double)value;
}

// Elements of a result of `type` outside their bars. keep and factor, when there is a mask: a result is
// factor x sum where keep is above 0, and exactly 0 elsewhere.
static int64_t count_outside(FedgateType type, const void *result, const Sum *sums, int64_t count,
                             int64_t terms, const float *keep, double factor)
{
    int64_t outside = 0;
    float *got = take(count);
    cast(type, result, FEDGATE_FP32, got, count);
    for (int64_t i = 0; i < count; i++) {
        bool masked = keep && !(keep[i] > 0);
        double expected = masked ? 0 : factor * sums[i].value,
               bar = masked ? 0 : bar_of(type, terms, factor * sums[i].magnitude, expected);
        outside += !(fabs((double)got[i] - expected) <= bar);
    }
    give(got, count);
    return outside;
}

// -- forward

static int64_t forward_outside(Device *on, const Layer *l, FedgateType y_type, bool relu)
{
    int64_t count = l->rows * l->out;
    void *y = take_typed(y_type, count);
    Sum *sums = calloc((size_t)count, sizeof *sums);
    device_dense(on, &(FedgateDense){.type = l->type,
                                     .y_type = y_type,
                                     .x = l->x.typed,
                                     .w = l->w.typed,
                                     .bias = l->bias.typed,
                                     .y = y,
                                     .rows = l->rows,
                                     .in = l->in,
                                     .out = l->out,
                                     .relu = relu});
    for (int64_t i = 0; i < l->rows; i++) {
        Sum *row = sums + i * l->out;
        for (int64_t j = 0; j < l->out; j++)
            sum_add(&row[j], (double)l->bias.plain[j], 1);
        for (int64_t k = 0; k < l->in; k++)
            for (int64_t j = 0; j < l->out; j++)
                sum_add(&row[j], (double)l->x.plain[i * l->in + k], (double)l->w.plain[k * l->out + j]);
    }
    for (int64_t i = 0; i < count && relu; i++)
        sums[i].value = sums[i].value < 0 ? 0 : sums[i].value;
    int64_t outside = count_outside(y_type, y, sums, count, l->in + 1, NULL, 1);
    free(sums);
    give_typed(y_type, y, count);
    return outside;
}

START_TEST(a_dense_layer_agrees_with_float64)
{
    for (size_t t = 0; t < TYPES; t++) {
        Layer l = layer_of(types[t], shapes[_i][0], shapes[_i][1], shapes[_i][2]);
        int64_t outside = forward_outside(device, &l, l.type, true),
                of_logits = forward_outside(device, &l, FEDGATE_FP32, false);
        ck_assert_msg(outside == 0 && of_logits == 0, "%s: %lld elements and %lld logits outside",
                      device_type_name(l.type), (long long)outside, (long long)of_logits);
        layer_free(&l);
    }
}
END_TEST

// -- backward

typedef struct Gradients {
    void *dx;
    float *dw, *db;
} Gradients;

static Gradients gradients_of(const Layer *l)
{
    return (Gradients){take_typed(l->type, l->rows * l->in), take(l->in * l->out), take(l->out)};
}

static void gradients_free(const Gradients *g, const Layer *l)
{
    give_typed(l->type, g->dx, l->rows * l->in), give(g->dw, l->in * l->out), give(g->db, l->out);
}

static void backward(Device *on, const Layer *l, const Gradients *g, bool accumulate, float below_scale)
{
    device_dense_back(on, &(FedgateDenseBack){.type = l->type,
                                              .x = l->x.typed,
                                              .w = l->w.typed,
                                              .dy = l->dy.typed,
                                              .dx = g->dx,
                                              .dw = g->dw,
                                              .db = g->db,
                                              .rows = l->rows,
                                              .in = l->in,
                                              .out = l->out,
                                              .accumulate = accumulate,
                                              .below_relu = below_scale > 0,
                                              .below_scale = below_scale});
}

static void parameter_sums(const Layer *l, Sum *dw, Sum *db)
{
    for (int64_t i = 0; i < l->rows; i++) {
        const float *dy = l->dy.plain + i * l->out;
        for (int64_t j = 0; j < l->out; j++)
            sum_add(&db[j], (double)dy[j], 1);
        for (int64_t k = 0; k < l->in; k++)
            for (int64_t j = 0; j < l->out; j++)
                sum_add(&dw[k * l->out + j], (double)l->x.plain[i * l->in + k], (double)dy[j]);
    }
}

static void input_sums(const Layer *l, Sum *dx)
{
    for (int64_t i = 0; i < l->rows; i++)
        for (int64_t k = 0; k < l->in; k++)
            for (int64_t j = 0; j < l->out; j++)
                sum_add(&dx[i * l->in + k], (double)l->dy.plain[i * l->out + j],
                        (double)l->w.plain[k * l->out + j]);
}

static int64_t backward_outside(Device *on, const Layer *l)
{
    int64_t inputs = l->rows * l->in, weights = l->in * l->out, outside = 0;
    Gradients g = gradients_of(l);
    Sum *dx = calloc((size_t)inputs, sizeof *dx), *dw = calloc((size_t)weights, sizeof *dw),
        *db = calloc((size_t)l->out, sizeof *db);
    parameter_sums(l, dw, db);
    input_sums(l, dx);
    backward(on, l, &g, false, 0);
    outside += count_outside(l->type, g.dx, dx, inputs, l->out, NULL, 1);
    outside += count_outside(FEDGATE_FP32, g.dw, dw, weights, l->rows, NULL, 1);
    outside += count_outside(FEDGATE_FP32, g.db, db, l->out, l->rows, NULL, 1);
    backward(on, l, &g, true, 1.25f);   // adds to the first
    outside += count_outside(l->type, g.dx, dx, inputs, l->out + 1, l->x.plain, 1.25);
    outside += count_outside(FEDGATE_FP32, g.dw, dw, weights, 2 * l->rows, NULL, 2);
    outside += count_outside(FEDGATE_FP32, g.db, db, l->out, 2 * l->rows, NULL, 2);
    free(dx), free(dw), free(db);
    gradients_free(&g, l);
    return outside;
}

START_TEST(the_gradients_of_a_layer_agree_with_float64)
{
    for (size_t t = 0; t < TYPES; t++) {
        Layer l = layer_of(types[t], shapes[_i][0], shapes[_i][1], shapes[_i][2]);
        int64_t outside = backward_outside(device, &l);
        ck_assert_msg(outside == 0, "%s: %lld elements outside", device_type_name(l.type),
                      (long long)outside);
        layer_free(&l);
    }
}
END_TEST

// The bias gradient of the layer below comes with dx: the bits that layer would have made of it itself.
START_TEST(column_sums_of_dx_are_the_bias_gradient_of_the_layer_below)
{
    for (size_t t = 0; t < TYPES; t++)
        for (int accumulate = 0; accumulate < 2; accumulate++) {
            Layer l = layer_of(types[t], shapes[_i][0], shapes[_i][1], shapes[_i][2]);
            Gradients g = gradients_of(&l);
            float *sums = take(l.in), *expected = take(l.in), *below = take(l.in);
            for (int64_t j = 0; j < l.in; j++)
                sums[j] = expected[j] = (float)j;
            FedgateDenseBack op = {.type = l.type,
                                   .x = l.x.typed,
                                   .w = l.w.typed,
                                   .dy = l.dy.typed,
                                   .dx = g.dx,
                                   .dw = g.dw,
                                   .rows = l.rows,
                                   .in = l.in,
                                   .out = l.out,
                                   .accumulate = accumulate > 0,
                                   .below_relu = true,
                                   .below_scale = 1.25f,
                                   .dx_sums = sums};
            g.db[0] = 77;
            device_dense_back(device, &op);   // without db, which stays
            ck_assert_float_eq(g.db[0], 77);
            // a layer of one input whose dy is that dx
            op = (FedgateDenseBack){.type = l.type,
                                    .x = l.dy.typed,
                                    .dy = g.dx,
                                    .dw = below,
                                    .db = expected,
                                    .rows = l.rows,
                                    .in = 1,
                                    .out = l.in,
                                    .accumulate = accumulate > 0};
            device_dense_back(device, &op);
            ck_assert_mem_eq(sums, expected, (size_t)l.in * sizeof *sums);
            expected[l.in - 1] += 1;   // such a comparison sees one wrong sum
            ck_assert_mem_ne(sums, expected, (size_t)l.in * sizeof *sums);
            give(sums, l.in), give(expected, l.in), give(below, l.in);
            gradients_free(&g, &l);
            layer_free(&l);
        }
}
END_TEST

START_TEST(an_unwanted_gradient_of_the_input_is_left_out)
{
    Layer l = layer_of(types[_i], 600, 40, 20);
    Gradients g = gradients_of(&l), parameters = gradients_of(&l), only = parameters;
    only.dx = NULL;
    backward(device, &l, &g, false, 0);
    backward(device, &l, &only, false, 0);
    ck_assert_mem_eq(g.dw, only.dw, (size_t)(l.in * l.out) * 4);
    ck_assert_mem_eq(g.db, only.db, (size_t)l.out * 4);
    gradients_free(&g, &l), gradients_free(&parameters, &l), layer_free(&l);
}
END_TEST

// -- threads

// rows, in, out: several blocks, panels and tiles; one output
static const int64_t wide[][3] = {{1700, 290, 270}, {1700, 150, 1}};

START_TEST(any_number_of_threads_gives_the_same_bits)
{
    const int64_t *shape = wide[_i / TYPES];
    Layer l = layer_of(types[_i % TYPES], shape[0], shape[1], shape[2]);
    int64_t bytes = fedgate_type_bytes(l.type);
    void *y[3];
    Gradients g[3];
    for (int t = 0; t < 3; t++) {
        Device *other = open_cpu(t + 1);
        ck_assert_int_eq(device_info(other)->threads, t + 1);
        ck_assert_int_eq(device_info(other)->context_bytes, (t + 1) * device_info(device)->context_bytes);
        y[t] = take_typed(l.type, l.rows * l.out);
        g[t] = gradients_of(&l);
        device_dense(other, &(FedgateDense){.type = l.type,
                                            .y_type = l.type,
                                            .x = l.x.typed,
                                            .w = l.w.typed,
                                            .bias = l.bias.typed,
                                            .y = y[t],
                                            .rows = l.rows,
                                            .in = l.in,
                                            .out = l.out,
                                            .relu = true});
        backward(other, &l, &g[t], false, 1);
        device_close(other);
        ck_assert_mem_eq(y[t], y[0], (size_t)(l.rows * l.out * bytes));
        ck_assert_mem_eq(g[t].dx, g[0].dx, (size_t)(l.rows * l.in * bytes));
        ck_assert_mem_eq(g[t].dw, g[0].dw, (size_t)(l.in * l.out) * 4);
        ck_assert_mem_eq(g[t].db, g[0].db, (size_t)l.out * 4);
    }
    for (int t = 0; t < 3; t++)
        give_typed(l.type, y[t], l.rows * l.out), gradients_free(&g[t], &l);
    layer_free(&l);
}
END_TEST

// -- hard numbers

START_TEST(outputs_that_cancel_keep_the_error_of_their_terms)
{
    Layer l = layer_of(types[_i], 40, 300, 5);
    for (int64_t i = 0; i < l.rows; i++)   // the second half takes the first away again
        for (int64_t k = 0; k < l.in / 2; k++)
            l.x.plain[i * l.in + k + l.in / 2] = -l.x.plain[i * l.in + k];
    for (int64_t k = 0; k < l.in / 2; k++)
        for (int64_t j = 0; j < l.out; j++)
            l.w.plain[(k + l.in / 2) * l.out + j] = l.w.plain[k * l.out + j];
    memset(l.bias.plain, 0, (size_t)l.out * 4);
    cast(FEDGATE_FP32, l.x.plain, l.type, l.x.typed, l.x.count);
    cast(FEDGATE_FP32, l.w.plain, l.type, l.w.typed, l.w.count);
    cast(FEDGATE_FP32, l.bias.plain, l.type, l.bias.typed, l.out);
    ck_assert_int_eq(forward_outside(device, &l, l.type, false), 0);
    ck_assert_int_eq(forward_outside(device, &l, FEDGATE_FP32, false), 0);
    layer_free(&l);
}
END_TEST

static double one_output(FedgateType type, FedgateType y_type, float x, float w, int64_t in, bool relu)
{
    float xs[64], ws[128], zero[2] = {0};
    for (int64_t k = 0; k < in; k++)
        xs[k] = x, ws[2 * k] = ws[2 * k + 1] = w;
    Twin a = twin_of(type, xs, in), b = twin_of(type, ws, 2 * in), bias = twin_of(type, zero, 2);
    float y[2] = {0};
    device_dense(device, &(FedgateDense){.type = type,
                                         .y_type = y_type,
                                         .x = a.typed,
                                         .w = b.typed,
                                         .bias = bias.typed,
                                         .y = y,
                                         .rows = 1,
                                         .in = in,
                                         .out = 2,
                                         .relu = relu});
    twin_free(&a), twin_free(&b), twin_free(&bias);
    return number(y_type, y, 1);
}

START_TEST(large_numbers_are_summed_in_fp32_and_overflow_where_they_are_stored)
{
    // 4 x 200 x 200 = 160000: over the range of FP16, not of BF16 (rounded to 8 bits) or of FP32
    ck_assert_double_eq(one_output(FEDGATE_FP16, FEDGATE_FP16, 200, 200, 4, false), (double)INFINITY);
    ck_assert_double_eq(one_output(FEDGATE_FP16, FEDGATE_FP16, 200, -200, 4, false), (double)-INFINITY);
    ck_assert_double_eq(one_output(FEDGATE_FP16, FEDGATE_FP32, 200, 200, 4, false), 160000);
    ck_assert_double_eq(one_output(FEDGATE_BF16, FEDGATE_BF16, 200, 200, 4, false), 159744);
    ck_assert_double_eq(one_output(FEDGATE_FP32, FEDGATE_FP32, 200, 200, 4, false), 160000);
    // an infinite operand stays infinite, a small one stays subnormal: 2^-12 x 2^-12 is the last bit of FP16
    ck_assert_double_eq(one_output(FEDGATE_FP16, FEDGATE_FP16, 70000, 1, 1, true), (double)INFINITY);
    ck_assert_double_eq(one_output(FEDGATE_FP16, FEDGATE_FP16, 0x1p-12f, 0x1p-12f, 1, true), 0x1p-24);
    ck_assert_double_eq(one_output(FEDGATE_FP16, FEDGATE_FP16, 0x1p-13f, 0x1p-13f, 1, true), 0);
}
END_TEST

START_TEST(not_a_number_passes_through_relu_mask_and_sums)
{
    FedgateType type = types[_i];
    for (int relu = 0; relu < 2; relu++)
        ck_assert(isnan(one_output(type, type, NAN, 1, 3, relu)));
    Layer l = layer_of(type, 5, 3, 2), one = layer_of(type, 5, 3, 1);
    Layer *const layers[] = {&l, &one};
    for (size_t i = 0; i < 2; i++) {
        Layer *now = layers[i];
        const float nan = NAN, positive = 1;
        int64_t bytes = fedgate_type_bytes(type), out = now->out;
        cast(FEDGATE_FP32, &nan, type, (char *)now->dy.typed + 2 * out * bytes, 1);   // row 2
        cast(FEDGATE_FP32, &positive, type, (char *)now->x.typed + 2 * now->in * bytes, 1);
        Gradients g = gradients_of(now);
        backward(device, now, &g, false, 1.5f);
        ck_assert(isnan(number(type, g.dx, 2 * now->in)));
        ck_assert(isnan(g.dw[0]) && isnan(g.db[0]));
        ck_assert(!isnan(number(type, g.dx, 0)));
        gradients_free(&g, now), layer_free(now);
    }
}
END_TEST

// -- what must fail the comparison

static void dense_with_one_error(void *handle, const FedgateDense *op)
{
    fedgate_backend.dense(handle, op);
    int64_t bytes = fedgate_type_bytes(op->y_type), at = (op->rows / 2) * op->out + op->out / 3;
    uint32_t bits = 0;
    void *element = (char *)op->y + at * bytes;
    memcpy(&bits, element, (size_t)bytes);
    bits += op->y_type == FEDGATE_FP32 ? 2048 : 4;   // 2^-12, or 4 units of the last place
    memcpy(element, &bits, (size_t)bytes);
}

START_TEST(one_wrong_element_fails_the_comparison)
{
    Error error = ERROR_INIT;
    FedgateBackend wrapped = fedgate_backend;
    wrapped.dense = dense_with_one_error;
    Device *other = device_open_backend(&wrapped, 1, clock_real(), ledger, &error);
    ck_assert_ptr_nonnull(other);
    Layer l = layer_of(types[_i], 64, 16, 30);
    ck_assert_int_eq(forward_outside(device, &l, l.type, false), 0);
    ck_assert_int_eq(forward_outside(other, &l, l.type, false), 1);
    device_close(other);
    layer_free(&l);
}
END_TEST

#ifdef FEDGATE_FAULTS
// fault, type it acts on, type it leaves alone
static const struct {
    const char *fault;
    FedgateType hit, spared;
} planted[] = {
    {"compute.tf32=1", FEDGATE_FP32, FEDGATE_BF16},
    {"compute.bf16_sums=1", FEDGATE_BF16, FEDGATE_FP16},
    {"compute.fp16_sums=1", FEDGATE_FP16, FEDGATE_BF16},
};

START_TEST(a_planted_fault_of_the_arithmetic_fails_the_comparison)
{
    for (int64_t out = 1; out <= 20; out += 19) {   // the dot product and the multiplication
        Layer hit = layer_of(planted[_i].hit, 600, 300, out),
              spared = layer_of(planted[_i].spared, 600, 300, out);
        ck_assert_int_eq(forward_outside(device, &hit, FEDGATE_FP32, false), 0);
        setenv("FEDGATE_FAULT", planted[_i].fault, 1);
        ck_assert_int_gt(forward_outside(device, &hit, FEDGATE_FP32, false), 100);
        ck_assert_int_gt(backward_outside(device, &hit), 100);
        ck_assert_int_eq(forward_outside(device, &spared, FEDGATE_FP32, false), 0);
        ck_assert_int_eq(backward_outside(device, &spared), 0);
        unsetenv("FEDGATE_FAULT");
        layer_free(&hit), layer_free(&spared);
    }
}
END_TEST
#endif

static Suite *suite(void)
{
    Suite *s = suite_create("compute_arithmetic");
    TCase *t = tcase_create("layers");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, a_dense_layer_agrees_with_float64, 0, SHAPES);
    tcase_add_loop_test(t, the_gradients_of_a_layer_agree_with_float64, 0, SHAPES);
    tcase_add_loop_test(t, column_sums_of_dx_are_the_bias_gradient_of_the_layer_below, 0, SHAPES);
    tcase_add_loop_test(t, an_unwanted_gradient_of_the_input_is_left_out, 0, TYPES);
    tcase_add_loop_test(t, any_number_of_threads_gives_the_same_bits, 0,
                        (int)(sizeof wide / sizeof wide[0]) * TYPES);
    tcase_add_loop_test(t, outputs_that_cancel_keep_the_error_of_their_terms, 0, TYPES);
    tcase_add_test(t, large_numbers_are_summed_in_fp32_and_overflow_where_they_are_stored);
    tcase_add_loop_test(t, not_a_number_passes_through_relu_mask_and_sums, 0, TYPES);
    tcase_add_loop_test(t, one_wrong_element_fails_the_comparison, 0, TYPES);
#ifdef FEDGATE_FAULTS
    tcase_add_loop_test(t, a_planted_fault_of_the_arithmetic_fails_the_comparison, 0,
                        sizeof planted / sizeof planted[0]);
#endif
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return run_suite(suite());
}
