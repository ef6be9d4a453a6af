// network_train - what changes a network: its start, the gradient of a batch, one optimizer step, state in
// and out.
//
// The gradient of a batch is the mean over its rows, whatever the microbatch. Scale, skip and learning rate
// are decided on the device by the step state and the pace table, whose row is the number of applied steps: a
// skipped step advances neither the schedule nor the corrections, and the host learns of it only when it
// asks.
#include "trainer_internal.h"

#include <fedgate/fault.h>
#include <fedgate/hash.h>
#include <fedgate/random.h>
#include <stdlib.h>

// Twice and half are what every half precision recipe uses; 2^24 is where FP32 gradients of 1 still count.
static const double scale_growth = 2, scale_backoff = 0.5, scale_ceiling = 16777216;

bool network_set_pace(Network *network, const Recipe *recipe, int64_t planned, Error *error)
{
    int64_t rows = planned > 0 ? planned : 1, bytes = rows * (int64_t)sizeof(FedgatePace);
    FedgatePace *pace = calloc((size_t)rows, sizeof *pace);
    if (!pace)
        return FAIL(error, ERROR_MEMORY, 0, "could not take memory for the pace of %lld steps",
                    (long long)planned);
    for (int64_t step = 0; step < rows; step++)
        pace[step] = (FedgatePace){
            .rate = (float)schedule_rate(step, planned, recipe->rate, recipe->warmup, recipe->final_ratio),
            .correction1 = (float)(1 / (1 - schedule_power(recipe->beta1, step + 1))),
            .correction2 = (float)(1 / (1 - schedule_power(recipe->beta2, step + 1))),
        };
    bool good = (network->held[HELD_PACE].bytes == bytes || network_hold(network, HELD_PACE, bytes, error)) &&
                device_load(network->device, network->held[HELD_PACE].memory, pace, bytes, error);
    free(pace);
    network->pace = good ? network->held[HELD_PACE].memory : NULL;
    network->pace_count = good ? rows : 0;
    return good;
}

bool network_scales(const Network *network, const Recipe *recipe)
{
    return network->type == FEDGATE_FP16 && recipe->scale_growth > 0;
}

bool network_start(Network *network, const Recipe *recipe, uint64_t seed, Error *error)
{
    int64_t floats = network->layout.floats, bytes = floats * (int64_t)sizeof(float);
    float *weights = malloc((size_t)bytes);
    if (!weights)
        return FAIL(error, ERROR_MEMORY, 0, "could not take memory for the initial weights");
    layout_fill(&network->layout, &network->shape, seed, weights);
    double scale = network->type == FEDGATE_FP16 ? recipe->scale_initial : 1;
    FedgateStepState step = {.scale = scale, .smallest = scale, .patience = recipe->scale_hysteresis};
    bool good = device_load(network->device, network->weights, weights, bytes, error) &&
                device_load(network->device, network->state, &step, sizeof step, error);
    free(weights);
    device_zero(network->device, network->first, bytes);
    device_zero(network->device, network->second, bytes);
    device_zero(network->device, network->sums, SUM_COUNT * (int64_t)sizeof(double));
    network_refresh(network);
    return good;
}

// -- the gradient

static void claim(Meter *meter, Claim which, Interval launched, const Network *network, int64_t rows)
{
    bool backward = which == CLAIM_BACKWARD;
    meter_claim(meter, which, launched, claimed_length(launched), network_flop(network, rows, backward),
                network_bytes(network, rows, backward));
}

static void pass_claimed(Network *network, const Rows *rows, const Dropout *dropout, float scale,
                         bool accumulate, Meter *meter)
{
    Interval forward = {.begin = device_now_ns(network->device)}, backward;
    network_forward(network, rows, dropout);
    network_loss(network, rows, scale, true);
    forward.end = backward.begin = device_now_ns(network->device);
    network_backward(network, rows, dropout, accumulate);
    backward.end = device_now_ns(network->device);
    claim(meter, CLAIM_FORWARD, forward, network, rows->count);
    claim(meter, CLAIM_BACKWARD, backward, network, rows->count);
}

void network_gradient(Network *network, const Recipe *recipe, const Rows *batch, int64_t microbatch,
                      uint64_t seed, Meter *meter)
{
    const TrainShape *shape = &network->shape;
    const float scale = (float)(1 / (double)batch->count);
    Dropout dropout = {.keep = 1 - (float)recipe->dropout,
                       .key = hash_mix2(seed, 0x64726f70u)};   // the device mixes in the step
    for (int64_t first = 0; first < batch->count; first += microbatch) {
        Rows rows = {.numeric = batch->numeric + first * shape->numeric,
                     .codes = batch->codes + first * shape->categorical,
                     .target = batch->target + first,
                     .first = batch->first + first,
                     .count = batch->count - first < microbatch ? batch->count - first : microbatch};
        if (meter) {
            pass_claimed(network, &rows, &dropout, scale, first > 0, meter);
            continue;
        }
        network_forward(network, &rows, &dropout);
        network_loss(network, &rows, scale, true);
        network_backward(network, &rows, &dropout, first > 0);
    }
}

// -- the update

// Planted: the gradients of this step are divided by its loss scale once more. A device that fails shows it
// by itself.
static void plant_unscale(Network *network, double scale)
{
    FedgateStepState step;
    Error ignored = ERROR_INIT;
    if (!fault_set("train.unscale_twice") || !network_read_step(network, &step, &ignored))
        return;
    step.factor /= scale;
    (void)!device_load(network->device, network->state, &step, sizeof step, &ignored);
}

static double scale_now(Network *network)
{
    FedgateStepState step;
    Error ignored = ERROR_INIT;
    return fault_set("train.unscale_twice") && network_read_step(network, &step, &ignored) ? step.scale : 1;
}

FedgateSettle network_rule(const Network *network, const Recipe *recipe)
{
    return (FedgateSettle){.state = network->state,
                           .square_sum = &network->sums[SUM_SQUARES],
                           .clip = recipe->clip,
                           .dynamic = network_scales(network, recipe),
                           .growth = scale_growth,
                           .backoff = scale_backoff,
                           .floor = recipe->scale_floor,
                           .ceiling = scale_ceiling,
                           .growth_every = recipe->scale_growth,
                           .hysteresis = recipe->scale_hysteresis,
                           .gradient = network->gradients,
                           .gradient_count = network->layout.floats,
                           .ended_ns = network->steps ? network->steps->ended_ns : NULL,
                           .ended_count = STEP_ENDED};
}

static void settle(Network *network, const Recipe *recipe)
{
    double scale = scale_now(network);   // settling may already raise that of the next step
    FedgateSettle rule = network_rule(network, recipe);
    device_settle(network->device, &rule);
    plant_unscale(network, scale);
}

void network_update(Network *network, const Recipe *recipe)
{
    const Layout *layout = &network->layout;
    const bool half = network->type != FEDGATE_FP32;
    settle(network, recipe);
    FedgateAdam op = {.weights = network->weights,
                      .gradient = network->gradients,
                      .first = network->first,
                      .second = network->second,
                      .pass = half ? network->pass : NULL,
                      .pass_type = network->type,
                      .count = layout->floats,
                      .decayed = layout->decayed,   // the biases do not
                      .decay = (float)recipe->decay,
                      .beta1 = (float)recipe->beta1,
                      .beta2 = (float)recipe->beta2,
                      .epsilon = (float)recipe->epsilon,
                      .pace = network->pace,
                      .pace_count = network->pace_count,
                      .state = network->state};
    device_adam(network->device, &op);
    if (half && fault_set("train.no_master"))
        device_cast(network->device, &(FedgateCast){.to = network->weights,
                                                    .from = network->pass,
                                                    .to_type = FEDGATE_FP32,
                                                    .from_type = network->type,
                                                    .count = layout->floats});
}

// -- state

bool network_read_step(Network *network, FedgateStepState *ret_step, Error *error)
{
    return device_copy_out(network->device, ret_step, network->state, sizeof *ret_step, error);
}

bool network_save(Network *network, float *ret_state, FedgateStepState *ret_step, Error *error)
{
    int64_t floats = network->layout.floats, bytes = floats * (int64_t)sizeof(float);
    return device_copy_out(network->device, ret_state, network->weights, bytes, error) &&
           device_copy_out(network->device, ret_state + floats, network->first, bytes, error) &&
           device_copy_out(network->device, ret_state + 2 * floats, network->second, bytes, error) &&
           network_read_step(network, ret_step, error);
}

bool network_load(Network *network, const float *state, const FedgateStepState *step, Error *error)
{
    int64_t floats = network->layout.floats, bytes = floats * (int64_t)sizeof(float);
    if (!device_load(network->device, network->weights, state, bytes, error) ||
        !device_load(network->device, network->first, state + floats, bytes, error) ||
        !device_load(network->device, network->second, state + 2 * floats, bytes, error) ||
        !device_load(network->device, network->state, step, sizeof *step, error))
        return false;
    network_refresh(network);
    return true;
}
