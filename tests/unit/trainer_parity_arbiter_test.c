// trainer_parity_arbiter_test - the float64 network against finite differences of its own loss, losses worked
// by hand, the norms of single rows, and how far a product is from float64.
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../src/trainer/bench.h"
#include "../../src/trainer/parity_internal.h"

enum { ROWS = 5 };
static const TrainShape tiny = {.numeric = 2,
                                .categorical = 2,
                                .cardinality = {3, 4},
                                .embedding = {2, 3},
                                .hidden = {6, 4},
                                .layers = 2,
                                .outputs = 1};
static const float numeric[ROWS * 2] = {.3f, -1, .8f, .1f, -.4f, .9f, 1.5f, -.2f, .6f, .7f};
static const int32_t codes[ROWS * 2] = {1, 3, 2, 0, 1, 1, 2, 2, 1, 3};
static const float target[ROWS] = {1, 0, 1, 0, 1};
static const HostRows all_rows = {.numeric = numeric, .codes = codes, .target = target, .count = ROWS};
static const struct {
    FedgateLossKind kind;
    int64_t outputs;
} tasks[] = {{FEDGATE_LOSS_BINARY, 1}, {FEDGATE_LOSS_CLASSES, 3}, {FEDGATE_LOSS_SQUARE, 1}};

typedef struct Net {
    TrainShape shape;
    Layout layout;
    FedgateLossKind kind;
    float *weights;
    double *gradient;
    double square[LAYOUT_PARAMETERS];
} Net;

static void net_open(Net *net, int task)
{
    *net = (Net){.shape = tiny, .kind = tasks[task].kind};
    net->shape.outputs = tasks[task].outputs;
    layout_init(&net->layout, &net->shape);
    net->weights = calloc((size_t)net->layout.floats, sizeof *net->weights);
    net->gradient = calloc((size_t)net->layout.floats, sizeof *net->gradient);
    layout_fill(&net->layout, &net->shape, 11, net->weights);
}

static void net_close(Net *net)
{
    free(net->weights);
    free(net->gradient);
}

static double loss_of(Net *net, const HostRows *rows)
{
    Error error = ERROR_INIT;
    double loss;
    ck_assert(arbiter_gradient(&net->layout, &net->shape, net->kind, net->weights, rows, net->gradient,
                               net->square, &loss, &error));
    return loss;
}

START_TEST(every_gradient_is_the_slope_of_the_loss)
{
    Net net;
    net_open(&net, _i);
    (void)loss_of(&net, &all_rows);
    double *gradient = calloc((size_t)net.layout.floats, sizeof *gradient);
    memcpy(gradient, net.gradient, (size_t)net.layout.floats * sizeof *gradient);
    for (int64_t i = 0; i < net.layout.floats; i++) {
        const float kept = net.weights[i], h = 0x1p-12f;
        net.weights[i] = kept + h;
        double above = (double)net.weights[i], up = loss_of(&net, &all_rows);
        net.weights[i] = kept - h;
        double below = (double)net.weights[i], down = loss_of(&net, &all_rows);
        net.weights[i] = kept;
        ck_assert_double_eq_tol(gradient[i], (up - down) / (above - below), 1e-6);
    }
    free(gradient);
    net_close(&net);
}
END_TEST

START_TEST(a_loss_is_what_its_formula_says)
{
    double gradient[3];
    // log(1 + e^2), log(1 + e^-2), and their slopes 1 / (1 + e^-2) and that less 1
    double z = 2;
    ck_assert_double_eq_tol(arbiter_loss(FEDGATE_LOSS_BINARY, &z, 1, 0, gradient), 2.1269280110429727, 1e-15);
    ck_assert_double_eq_tol(gradient[0], 0.8807970779778823, 1e-15);
    ck_assert_double_eq_tol(arbiter_loss(FEDGATE_LOSS_BINARY, &z, 1, 1, gradient), 0.1269280110429726, 1e-15);
    ck_assert_double_eq_tol(gradient[0], -0.11920292202211755, 1e-15);
    z = -800;   // where a naive exponential is infinite
    ck_assert_double_eq(arbiter_loss(FEDGATE_LOSS_BINARY, &z, 1, 1, gradient), 800);
    z = 3;
    ck_assert_double_eq(arbiter_loss(FEDGATE_LOSS_SQUARE, &z, 1, 1, gradient), 4);
    ck_assert_double_eq(gradient[0], 4);
    const double even[] = {1, 1, 1};
    ck_assert_double_eq_tol(arbiter_loss(FEDGATE_LOSS_CLASSES, even, 3, 2, gradient), 1.0986122886681098,
                            1e-15);
    ck_assert_double_eq_tol(gradient[0], 1 / 3.0, 1e-15);
    ck_assert_double_eq_tol(gradient[2], -2 / 3.0, 1e-15);
}
END_TEST

static double norm_square(const Net *net, size_t parameter)
{
    const Parameter *at = &net->layout.at[parameter];
    double sum = 0;
    for (int64_t i = 0; i < (at->columns > 0 ? at->rows * at->columns : at->rows); i++)
        sum += net->gradient[at->offset + i] * net->gradient[at->offset + i];
    return sum;
}

START_TEST(the_norms_of_single_rows_are_those_of_their_own_gradients)
{
    Net net;
    net_open(&net, _i);
    double square[LAYOUT_PARAMETERS] = {0};
    for (int64_t row = 0; row < ROWS; row++) {
        HostRows one = {
            .numeric = numeric + row * 2, .codes = codes + row * 2, .target = target + row, .count = 1};
        (void)loss_of(&net, &one);
        for (size_t i = 0; i < net.layout.count; i++)
            square[i] += norm_square(&net, i) / ROWS;
    }
    (void)loss_of(&net, &all_rows);
    for (size_t i = 0; i < net.layout.count; i++)
        ck_assert_double_eq_tol(net.square[i], square[i], 1e-12 * square[i]);
    net_close(&net);
}
END_TEST

// -- products

static const float a[] = {1, 2, 3, -1, 0.5f, 2}, b[] = {2, 1, -1, 0, 4, 1};   // 2 x 3, 3 x 2

static Product product_of(const float *y)
{
    return (Product){.a = a,
                     .b = b,
                     .y = y,
                     .rows = 2,
                     .inner = 3,
                     .columns = 2,
                     .a_row = 3,
                     .a_inner = 1,
                     .b_inner = 2,
                     .b_column = 1,
                     .factor = 1};
}

START_TEST(an_error_is_measured_by_the_norms_of_row_and_column)
{
    const float exact[] = {12, 4, 5.5f, 1}, off[] = {12, 4, 5.5f, 1.5f};
    Product product = product_of(exact);
    ck_assert_double_eq(product_error(&product).worst, 0);
    ck_assert_double_eq(product_error(&product).rms, 0);
    product.y = off;   // row (-1, 0.5, 2), column (1, 0, 1)
    ck_assert_double_eq_tol(product_error(&product).worst, 0.5 / sqrt(5.25 * 2), 1e-15);
    ck_assert_double_eq_tol(product_error(&product).rms, 0.5 / sqrt(144 + 16 + 30.25 + 1), 1e-15);
}
END_TEST

START_TEST(a_bias_a_mask_and_a_factor_belong_to_the_exact_value)
{
    const float bias[] = {1, -1}, mask[] = {1, 0, -1, 2}, y[] = {25, 0, 0, 1};
    Product product = product_of(y);
    product.bias = bias;
    product.mask = mask;
    product.factor = 2;
    ck_assert_double_eq(product_error(&product).worst, 0);
    const float leaking[] = {25, 1e-3f, 0, 1};   // where the mask is off nothing may come through
    product.y = leaking;
    ck_assert_double_gt(product_error(&product).worst, 1e-5);
}
END_TEST

START_TEST(a_result_that_is_not_a_number_is_the_worst_wherever_it_stands)
{
    for (int i = 0; i < 4; i++) {
        float y[] = {12, 4, 5.5f, 100};
        y[i] = NAN;
        Product product = product_of(y);
        ck_assert(isnan(product_error(&product).worst));
        ck_assert(isnan(product_error(&product).rms));
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("trainer_parity_arbiter");
    TCase *t = tcase_create("arbiter");
    tcase_add_loop_test(t, every_gradient_is_the_slope_of_the_loss, 0, 3);
    tcase_add_test(t, a_loss_is_what_its_formula_says);
    tcase_add_loop_test(t, the_norms_of_single_rows_are_those_of_their_own_gradients, 0, 3);
    tcase_add_test(t, an_error_is_measured_by_the_norms_of_row_and_column);
    tcase_add_test(t, a_bias_a_mask_and_a_factor_belong_to_the_exact_value);
    tcase_add_test(t, a_result_that_is_not_a_number_is_the_worst_wherever_it_stands);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    SRunner *r = srunner_create(suite());
    srunner_run_all(r, CK_ENV);
    int bad = srunner_ntests_failed(r);
    srunner_free(r);
    return bad != 0;
}
