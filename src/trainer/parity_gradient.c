// parity_gradient - rung 3: gradients of both arms at the same weights on the same rows, tensor by tensor,
// and the reference's against float64.
//
// Without dropout, on a batch of the training. A unit whose sum lies within rounding of 0 switches, and a
// whole term of a gradient with it: below a ReLU the error goes with the square root of the rounding. Where
// the rows of a batch cancel, as they do once training has converged, what is left says little: `noise` is
// the norm of a mean of so many rows that have nothing in common, and errors below it do not matter to a
// step.
#include "parity_internal.h"

#include <fedgate/hash.h>
#include <fedgate/random.h>
#include <math.h>
#include <string.h>

enum { COMPARED_ROWS = 2048, ARBITER_ROWS = 128, ARBITER_LEAST_ROWS = 8, ARBITER_GROUPS = 4 };
static const double arbiter_flop = 4e8;   // a quarter of a second of plain loops
static const double switched = 1e-5;   // more than FP32 errs, 1e-7 to 1e-6, unless a unit switched

typedef struct Gradients {
    float *of[ARM_COUNT];   // unscaled; in the end the reference's are of the few rows of float64
    double *reference, *exact;   // the reference's of all rows; float64's of few
    double square[LAYOUT_PARAMETERS];   // mean squared norm of the gradient of one row
    double reference_error[LAYOUT_PARAMETERS];
    int64_t reference_rows;
} Gradients;

static int64_t arbiter_rows(const Parity *parity, int64_t most)
{
    int64_t rows = (int64_t)(arbiter_flop / (6.0 * (double)trainer_floats(parity->trainer)));
    if (rows < ARBITER_LEAST_ROWS)
        rows = ARBITER_LEAST_ROWS;
    if (rows > ARBITER_ROWS)
        rows = ARBITER_ROWS;
    return rows < most ? rows : most;
}

static bool all_finite(const float *values, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (double)values[i] * 0;
    return sum == 0;   // NaN when any value is not finite
}

// In FP16 the loss scale falls until the gradients are finite, as training lets it.
static bool one_arm(Parity *parity, Arm arm, const float *weights, const Rows *rows, float *ret_gradient,
                    Error *error)
{
    const Recipe *recipe = &parity->recipe;
    Network *network = parity->arm[arm];
    const int64_t floats = network->layout.floats;
    const bool scaled = network->type == FEDGATE_FP16;
    Recipe still = *recipe;
    still.dropout = 0;
    memcpy(parity->state[arm], weights, (size_t)floats * sizeof *weights);   // moments do not matter here
    for (double scale = scaled ? parity->scale : 1;; scale /= 2) {
        FedgateStepState from = {.scale = scale, .smallest = scale};
        if (!network_load(network, parity->state[arm], &from, error))
            return false;
        parity_gradient(parity, arm, &still, rows, parity->trainer->seed);
        if (!device_copy_out(network->device, ret_gradient, network->gradients,
                             floats * (int64_t)sizeof *ret_gradient, error))
            return false;
        bool finite = all_finite(ret_gradient, floats);
        if (finite || !network_scales(network, recipe) || scale <= recipe->scale_floor) {
            for (int64_t i = 0; i < floats; i++)
                ret_gradient[i] = (float)((double)ret_gradient[i] / scale);
            if (scaled)
                parity->scale = scale;
            return true;
        }
    }
}

static bool exact_gradient(Parity *parity, const float *weights, const Rows *rows, double *ret_gradient,
                           double *ret_square, Error *error)
{
    const Network *network = &parity->trainer->network;
    const TrainShape *shape = &network->shape;
    Ledger *ledger = parity->trainer->spec.ledger;
    int64_t numeric = rows->count * shape->numeric, codes = rows->count * shape->categorical,
            bytes = (numeric + codes + rows->count) * (int64_t)sizeof(float);
    float *x = ledger_take(ledger, LEDGER_HOST, "parity", bytes, error);
    if (!x)
        return false;
    float *target = x + numeric;
    int32_t *code = (int32_t *)(void *)(target + rows->count);
    HostRows host = {.numeric = x, .codes = code, .target = target, .count = rows->count};
    double ignored;
    bool good = (numeric == 0 ||
                 device_copy_out(network->device, x, rows->numeric, numeric * (int64_t)sizeof *x, error)) &&
                (codes == 0 ||
                 device_copy_out(network->device, code, rows->codes, codes * (int64_t)sizeof *code, error)) &&
                device_copy_out(network->device, target, rows->target, rows->count * (int64_t)sizeof *target,
                                error) &&
                arbiter_gradient(&network->layout, shape, network->kind, weights, &host, ret_gradient,
                                 ret_square, &ignored, error);
    ledger_give(ledger, LEDGER_HOST, "parity", x, bytes);
    return good;
}

// -- figures

static int64_t length_of(const Parameter *parameter)
{
    return parameter->columns > 0 ? parameter->rows * parameter->columns : parameter->rows;
}

static double norm_of(const double *values, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += values[i] * values[i];
    return sqrt(sum);
}

static void put_tensors(const Parity *parity, const Gradients *gradients, int64_t rows, Json *tensors)
{
    const Layout *layout = &parity->trainer->network.layout;
    for (size_t i = 0; i < layout->count; i++) {
        const Parameter *at = &layout->at[i];
        const size_t count = (size_t)length_of(at);
        const double *reference = gradients->reference + at->offset;
        const double norm = norm_of(reference, (int64_t)count);
        Json *tensor = json_make_object();
        json_put_text(tensor, "name", at->name);
        json_put_number(tensor, "norm", norm);
        json_put_number(tensor, "noise", sqrt(gradients->square[i] / (double)rows));
        json_put_number(tensor, "error",
                        stats_relative_error(gradients->of[ARM_CANDIDATE] + at->offset, reference, count));
        if (norm != 0)   // else there is no direction
            json_put_number(tensor, "cosine",
                            stats_cosine(gradients->of[ARM_CANDIDATE] + at->offset, reference, count));
        json_put_number(tensor, "reference_error", gradients->reference_error[i]);
        json_add(tensors, tensor);
    }
}

static void put_control(Json *controls, const char *name, const Parity *parity, const float *changed,
                        const double *reference)
{
    Json *control = json_make_object();
    json_put_text(control, "name", name);
    json_put_number(control, "error",
                    stats_relative_error(changed, reference, (size_t)trainer_floats(parity->trainer)));
    json_add(controls, control);
}

// Comparisons that must fail: each tensor's gradient in another order, and none at all. Destroys the
// candidate's.
static void put_controls(const Parity *parity, const Gradients *gradients, Json *controls)
{
    const Layout *layout = &parity->trainer->network.layout;
    float *changed = parity->state[ARM_CANDIDATE];   // the weights in it were used
    for (size_t i = 0; i < layout->count; i++) {
        Permutation order;
        permutation_init(&order, (uint64_t)length_of(&layout->at[i]),
                         hash_mix2(parity->trainer->seed, 0x73687566u + i));
        for (uint64_t k = 0; k < order.count; k++)
            changed[layout->at[i].offset + (int64_t)permutation_at(&order, k)] =
                gradients->of[ARM_CANDIDATE][layout->at[i].offset + (int64_t)k];
    }
    put_control(controls, "shuffled gradient", parity, changed, gradients->reference);
    memset(changed, 0, (size_t)layout->floats * sizeof *changed);
    put_control(controls, "zeroed gradient", parity, changed, gradients->reference);
}

// Of the few rows; the largest. A result that is not a number stays one.
static double reference_errors(const Parity *parity, const Gradients *gradients,
                               double ret_errors[static LAYOUT_PARAMETERS])
{
    const Layout *layout = &parity->trainer->network.layout;
    double largest = 0;
    for (size_t i = 0; i < layout->count; i++) {
        const Parameter *at = &layout->at[i];
        ret_errors[i] = stats_relative_error(gradients->of[ARM_REFERENCE] + at->offset,
                                             gradients->exact + at->offset, (size_t)length_of(at));
        if (!isnan(largest) && !(ret_errors[i] <= largest))
            largest = ret_errors[i];
    }
    return largest;
}

// The reference against float64. A unit whose sum lies within FP32 rounding of 0 switches, in one comparison
// of some fifty, and every tensor below it errs as if the arm rounded. Other rows tell them apart: an arm
// that rounds errs on all, a unit switches in all groups once in millions.
static bool ask_arbiter(Parity *parity, const float *weights, const Rows *rows, Gradients *gradients,
                        Error *error)
{
    const TrainShape *shape = &parity->trainer->network.shape;
    double errors[LAYOUT_PARAMETERS], least = INFINITY;
    Rows few = *rows;
    few.count = arbiter_rows(parity, rows->count > ARBITER_GROUPS ? rows->count / ARBITER_GROUPS : 1);
    gradients->reference_rows = few.count;
    for (int group = 0; group < ARBITER_GROUPS && few.first + few.count <= rows->first + rows->count;
         group++) {
        if (!one_arm(parity, ARM_REFERENCE, weights, &few, gradients->of[ARM_REFERENCE], error) ||
            !exact_gradient(parity, weights, &few, gradients->exact, gradients->square, error))
            return false;
        double largest = reference_errors(parity, gradients, errors);
        if (group == 0 || !(largest >= least))
            memcpy(gradients->reference_error, errors, sizeof errors);
        if (!(largest > switched))
            return true;
        least = largest;
        few.numeric += few.count * shape->numeric;
        few.codes += few.count * shape->categorical;
        few.target += few.count;
        few.first += few.count;
    }
    return true;
}

static bool compare(Parity *parity, const float *weights, Gradients *gradients, Json *entry, Json *controls,
                    Error *error)
{
    Rows rows = parity->batch;
    if (rows.count > COMPARED_ROWS)
        rows.count = COMPARED_ROWS;
    for (int arm = 0; arm < ARM_COUNT; arm++)
        if (!one_arm(parity, (Arm)arm, weights, &rows, gradients->of[arm], error))
            return false;
    for (int64_t i = 0; i < trainer_floats(parity->trainer); i++)
        gradients->reference[i] = (double)gradients->of[ARM_REFERENCE][i];
    if (!ask_arbiter(parity, weights, &rows, gradients, error))
        return false;
    Json *tensors = json_make_array();
    put_tensors(parity, gradients, rows.count, tensors);
    json_put_integer(entry, "rows", rows.count);
    json_put_integer(entry, "reference_rows", gradients->reference_rows);
    json_put(entry, "tensors", tensors);
    if (controls)
        put_controls(parity, gradients, controls);
    return true;
}

bool parity_gradients(Parity *parity, const char *at, int64_t step, const float *weights, Json *array,
                      Json *controls, Error *error)
{
    const int64_t floats = trainer_floats(parity->trainer),
                  bytes = floats * (int64_t)(2 * sizeof(float) + 2 * sizeof(double));
    Ledger *ledger = parity->trainer->spec.ledger;
    double *memory = ledger_take(ledger, LEDGER_HOST, "parity", bytes, error);
    if (!memory)
        return false;
    Gradients gradients = {.reference = memory, .exact = memory + floats};
    gradients.of[ARM_CANDIDATE] = (float *)(void *)(memory + 2 * floats);
    gradients.of[ARM_REFERENCE] = gradients.of[ARM_CANDIDATE] + floats;
    Json *entry = json_make_object();
    json_put_text(entry, "at", at);
    json_put_integer(entry, "step", step);
    bool good = compare(parity, weights, &gradients, entry, controls, error);
    json_add(array, entry);
    ledger_give(ledger, LEDGER_HOST, "parity", memory, bytes);
    return good || error_prefix(error, "gradients at '%s'", at);
}
