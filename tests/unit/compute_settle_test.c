// compute_settle_test - the decision on a step: growth, backoff, floor, ceiling, patience; and AdamW obeying
// it.
#include "compute_fixture.h"

static FedgateStepState state;
static double square_sum;

static void begin(double scale, int64_t hysteresis)
{
    state = (FedgateStepState){.scale = scale, .smallest = scale, .patience = hysteresis};
}

static FedgateSettle rule(int64_t growth_every, int64_t hysteresis)
{
    return (FedgateSettle){.state = &state,
                           .square_sum = &square_sum,
                           .dynamic = true,
                           .growth = 2,
                           .backoff = .5,
                           .floor = 1,
                           .ceiling = 65536,
                           .growth_every = growth_every,
                           .hysteresis = hysteresis};
}

static void steps(const FedgateSettle *op, const char *text)   // '.': finite, 'x': infinite, 'n': NaN
{
    for (; *text; text++) {
        square_sum = *text == '.' ? 1 : *text == 'x' ? (double)INFINITY : (double)NAN;
        device_settle(device, op);
        ck_assert_int_eq(state.attempted, state.applied + state.skipped);
    }
}

START_TEST(a_finite_step_is_applied_unscaled_and_clipped)
{
    begin(8, 1);
    FedgateSettle op = rule(0, 1);
    square_sum = 64 * 9;   // norm 3, times the scale of 8
    device_settle(device, &op);
    ck_assert_double_eq(state.norm, 3);
    ck_assert_double_eq(state.factor, 1.0 / 8);
    ck_assert_int_eq(state.apply, 1);
    op.clip = 1.5;
    device_settle(device, &op);
    ck_assert_double_eq(state.factor, 1.0 / 16);
    op.clip = 3;   // at the limit
    device_settle(device, &op);
    ck_assert_double_eq(state.factor, 1.0 / 8);
    ck_assert_int_eq(state.pace, 2);
    ck_assert_int_eq(state.applied, 3);
    ck_assert_double_eq(state.scale, 8);
}
END_TEST

START_TEST(the_step_of_a_growth_still_uses_the_old_scale)
{
    begin(4, 1);
    FedgateSettle op = rule(3, 1);
    steps(&op, "..");
    ck_assert_double_eq(state.scale, 4);
    ck_assert_int_eq(state.clean, 2);
    steps(&op, ".");
    ck_assert_double_eq(state.scale, 8);
    ck_assert_double_eq(state.factor, 1.0 / 4);
    ck_assert_int_eq(state.grown, 1);
    ck_assert_int_eq(state.clean, 0);
    steps(&op, "...");
    ck_assert_double_eq(state.scale, 16);
    ck_assert_double_eq(state.smallest, 4);
}
END_TEST

// growth_every, hysteresis, steps; then scale (from 16), grown, lowered, at_floor, longest, in_row, patience
static const struct {
    int64_t growth_every, hysteresis;
    const char *steps;
    double scale, smallest;
    int64_t grown, lowered, at_floor, longest, in_row, patience;
} courses[] = {
    {0, 1, "x", 8, 8, 0, 1, 0, 1, 1, 0},
    {0, 1, "n", 8, 8, 0, 1, 0, 1, 1, 0},
    {0, 1, "xx.x", 2, 2, 0, 3, 0, 2, 1, 0},
    // the second skip since the growth lowers, and so does each one after, however many clean steps lie
    // between
    {0, 2, "x", 16, 16, 0, 0, 0, 1, 1, 1},
    {0, 2, "x...x", 8, 8, 0, 1, 0, 1, 1, 0},
    {0, 2, "x.x.x", 4, 4, 0, 2, 0, 1, 1, 0},
    {0, 3, "xxx", 8, 8, 0, 1, 0, 3, 3, 0},
    // patience comes back with growth alone
    {2, 2, "x..", 32, 16, 1, 0, 0, 1, 0, 2},
    {2, 2, "x..x", 32, 16, 1, 0, 0, 1, 1, 1},
    {2, 2, "x..xx", 16, 16, 1, 1, 0, 2, 2, 0},
    {3, 2, "x..x..x", 4, 4, 0, 2, 0, 1, 1, 0},
    // a skip ends the run of clean steps
    {3, 1, "..x..", 8, 8, 0, 1, 0, 1, 0, 0},
    {3, 1, "..x...", 16, 8, 1, 1, 0, 1, 0, 1},
    // the floor of 1 is reached once and counted after
    {0, 1, "xxxx", 1, 1, 0, 4, 0, 4, 4, 0},
    {0, 1, "xxxxxx", 1, 1, 0, 4, 2, 6, 6, 0},
    {0, 1, "xxxxxx.", 1, 1, 0, 4, 2, 6, 0, 0},
    {0, 1, "xxxxxx.x", 1, 1, 0, 4, 3, 6, 1, 0},
};

START_TEST(the_scale_follows_its_rule)
{
    begin(16, courses[_i].hysteresis);
    FedgateSettle op = rule(courses[_i].growth_every, courses[_i].hysteresis);
    steps(&op, courses[_i].steps);
    ck_assert_double_eq(state.scale, courses[_i].scale);
    ck_assert_double_eq(state.smallest, courses[_i].smallest);
    ck_assert_int_eq(state.grown, courses[_i].grown);
    ck_assert_int_eq(state.lowered, courses[_i].lowered);
    ck_assert_int_eq(state.at_floor, courses[_i].at_floor);
    ck_assert_int_eq(state.longest, courses[_i].longest);
    ck_assert_int_eq(state.in_row, courses[_i].in_row);
    ck_assert_int_eq(state.patience, courses[_i].patience);
}
END_TEST

START_TEST(a_floor_between_two_scales_is_met_exactly_and_so_is_the_ceiling)
{
    begin(16, 1);
    FedgateSettle op = rule(1, 1);
    op.floor = 5, op.ceiling = 20;
    steps(&op, "xx");
    ck_assert_double_eq(state.scale, 5);
    ck_assert_int_eq(state.lowered, 2);
    steps(&op, "..");
    ck_assert_double_eq(state.scale, 20);
    ck_assert_int_eq(state.grown, 2);
    steps(&op, "...");
    ck_assert_double_eq(state.scale, 20);
    ck_assert_int_eq(state.grown, 2);
    ck_assert_int_eq(state.patience, 1);
}
END_TEST

START_TEST(without_a_dynamic_scale_not_a_number_is_applied_for_the_judges_to_see)
{
    begin(1, 1);
    FedgateSettle op = rule(1, 1);
    op.dynamic = false, op.clip = 1;
    steps(&op, "nx.");
    ck_assert_int_eq(state.applied, 3);
    ck_assert_int_eq(state.skipped, 0);
    ck_assert_double_eq(state.scale, 1);
    ck_assert_int_eq(state.grown, 0);
    steps(&op, "n");
    ck_assert_int_eq(state.apply, 1);
    ck_assert(isnan(state.norm));
}
END_TEST

enum { COUNT = 5000 };
typedef struct Optimizer {
    float *weights, *gradient, *first, *second;
    uint16_t *pass;
    FedgatePace pace[3];
    FedgateAdam op;
} Optimizer;

static Optimizer optimizer(FedgateType type)
{
    Optimizer o = {.weights = take_noise(COUNT, 1),
                   .gradient = take_noise(COUNT, 2),
                   .first = take_noise(COUNT, 3),
                   .second = take(COUNT),
                   .pass = take_typed(type, COUNT),
                   .pace = {{.01f, 10, 100}, {.02f, 5, 50}, {.03f, 2, 20}}};
    o.op = (FedgateAdam){.weights = o.weights,
                         .first = o.first,
                         .second = o.second,
                         .gradient = o.gradient,
                         .pass = o.pass,
                         .pass_type = type,
                         .count = COUNT,
                         .beta1 = .9f,
                         .beta2 = .99f,
                         .epsilon = 1e-8f,
                         .decay = .1f,
                         .decayed = COUNT,
                         .pace_count = 3,
                         .state = &state};
    return o;
}

static void optimizer_free(Optimizer *o, FedgateType type)
{
    give(o->weights, COUNT), give(o->gradient, COUNT), give(o->first, COUNT), give(o->second, COUNT);
    give_typed(type, o->pass, COUNT);
}

// pace in the state, row of the table that holds
static const struct {
    int64_t pace, row;
} paces[] = {{0, 0}, {1, 1}, {2, 2}, {7, 2}};

START_TEST(an_optimizer_step_takes_its_pace_and_factor_from_the_device)
{
    Optimizer o = optimizer(FEDGATE_BF16);
    float before[COUNT], first[COUNT];
    memcpy(before, o.weights, sizeof before);
    memcpy(first, o.first, sizeof first);
    o.op.pace = o.pace;
    state = (FedgateStepState){.factor = 1.0 / 1024, .apply = 1, .pace = paces[_i].pace};
    device_adam(device, &o.op);
    const FedgatePace *pace = &o.pace[paces[_i].row];
    for (int i = 0; i < COUNT; i++) {
        double gradient = (double)o.gradient[i] / 1024, m = .9 * (double)first[i] + .1 * gradient,
               v = .01 * gradient * gradient;
        double move = (double)pace->rate *
                      ((double)pace->correction1 * m / (sqrt((double)pace->correction2 * v) + 1e-8) +
                       .1 * (double)before[i]);
        ck_assert_double_eq_tol((double)o.weights[i], (double)before[i] - move, 1e-5 * (1 + fabs(move)));
    }
    Twin rounded = twin_of(FEDGATE_BF16, o.weights, COUNT);
    ck_assert_mem_eq(o.pass, rounded.typed, COUNT * sizeof(uint16_t));
    twin_free(&rounded);
    optimizer_free(&o, FEDGATE_BF16);
}
END_TEST

START_TEST(a_skipped_step_changes_nothing)
{
    Optimizer o = optimizer(FEDGATE_FP16), old = optimizer(FEDGATE_FP16);
    o.op.pace = o.pace;
    o.gradient[17] = INFINITY;
    begin(16, 1);
    FedgateSettle op = rule(0, 1);
    device_square_sum(device, o.gradient, COUNT, &square_sum);
    device_settle(device, &op);
    device_adam(device, &o.op);
    ck_assert_mem_eq(o.weights, old.weights, COUNT * sizeof(float));
    ck_assert_mem_eq(o.first, old.first, COUNT * sizeof(float));
    ck_assert_mem_eq(o.second, old.second, COUNT * sizeof(float));
    ck_assert_mem_eq(o.pass, old.pass, COUNT * sizeof(uint16_t));
    op.dynamic = false;   // the same step where nothing may be skipped
    device_settle(device, &op);
    device_adam(device, &o.op);
    ck_assert(isnan(o.weights[17]));
    optimizer_free(&o, FEDGATE_FP16), optimizer_free(&old, FEDGATE_FP16);
}
END_TEST

START_TEST(the_pass_copy_may_be_left_out_or_be_the_weights)
{
    Optimizer o = optimizer(FEDGATE_BF16), other = optimizer(FEDGATE_BF16);
    state = (FedgateStepState){.factor = 1, .apply = 1};
    o.op.pace = o.pace, other.op.pace = other.pace;
    o.op.pass = NULL;
    other.op.pass = other.weights, other.op.pass_type = FEDGATE_FP32;
    device_adam(device, &o.op);
    device_adam(device, &other.op);
    ck_assert_mem_eq(o.weights, other.weights, COUNT * sizeof(float));
    ck_assert_uint_eq(o.pass[0], 0);
    optimizer_free(&o, FEDGATE_BF16), optimizer_free(&other, FEDGATE_BF16);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("compute_settle");
    TCase *t = tcase_create("settle");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, a_finite_step_is_applied_unscaled_and_clipped);
    tcase_add_test(t, the_step_of_a_growth_still_uses_the_old_scale);
    tcase_add_loop_test(t, the_scale_follows_its_rule, 0, sizeof courses / sizeof courses[0]);
    tcase_add_test(t, a_floor_between_two_scales_is_met_exactly_and_so_is_the_ceiling);
    tcase_add_test(t, without_a_dynamic_scale_not_a_number_is_applied_for_the_judges_to_see);
    tcase_add_loop_test(t, an_optimizer_step_takes_its_pace_and_factor_from_the_device, 0,
                        sizeof paces / sizeof paces[0]);
    tcase_add_test(t, a_skipped_step_changes_nothing);
    tcase_add_test(t, the_pass_copy_may_be_left_out_or_be_the_weights);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return run_suite(suite());
}
