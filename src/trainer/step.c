// step - one optimizer step: microbatches forward and backward, the gradient norm, AdamW; and the planted
// faults of a step.
//
// The gradient of a batch is the mean over its rows, whatever the microbatch; the remainder batch of an epoch
// is a mean over fewer.
#include "trainer_internal.h"

#include <fedgate/fault.h>
#include <fedgate/hash.h>
#include <fedgate/random.h>
#include <math.h>
#include <stdlib.h>

// Planted: targets of the batch shuffled among its rows, or not a number at all. Not traced: a real fault of
// this kind copies nothing.
static bool plant_target(Trainer *trainer, const FeedBatch *batch, int64_t step, const float **ret_target,
                         Error *error)
{
    bool shuffle = fault_set("quality.shuffle_labels");
    double nan_step = fault_value("train.nan_step", 0);
    *ret_target = batch->target;
    if (!shuffle && !(nan_step > 0 && (double)(step + 1) == nan_step))
        return true;
    int64_t bytes = batch->rows * (int64_t)sizeof(float);
    float *target = malloc((size_t)bytes);
    if (!target)
        return FAIL(error, ERROR_MEMORY, 0, "could not take memory for planted targets");
    device_trace(trainer->network.device, NULL);
    bool good = device_copy_out(trainer->network.device, target, batch->target, bytes, error);
    for (int64_t i = batch->rows - 1; good && i > 0 && shuffle; i--) {
        int64_t j =
            (int64_t)(random_bits(trainer->seed, (uint64_t)(step * batch->rows + i)) % (uint64_t)(i + 1));
        float kept = target[i];
        target[i] = target[j];
        target[j] = kept;
    }
    for (int64_t i = 0; i < batch->rows && !shuffle; i++)
        target[i] = NAN;
    good = good && device_load(trainer->network.device, trainer->planted, target, bytes, error);
    free(target);
    *ret_target = trainer->planted;
    return good;
}

static void optimize(Trainer *trainer, int64_t step)
{
    Network *network = &trainer->network;
    const Recipe *recipe = &trainer->recipe;
    const Layout *layout = &network->layout;
    double rate = schedule_rate(step, trainer->planned, recipe->rate, recipe->warmup, recipe->final_ratio);
    float clip = (float)recipe->clip;
    if (clip > 0)
        device_square_sum(network->device, network->gradients, layout->floats, &network->sums[SUM_SQUARES]);
    FedgateAdam op = {.rate = (float)rate,
                      .beta1 = (float)recipe->beta1,
                      .beta2 = (float)recipe->beta2,
                      .epsilon = (float)recipe->epsilon,
                      .correction1 = (float)(1 / (1 - schedule_power(recipe->beta1, step + 1))),
                      .clip = clip,
                      .correction2 = (float)(1 / (1 - schedule_power(recipe->beta2, step + 1))),
                      .square_sum = &network->sums[SUM_SQUARES]};
    for (int part = 0; part < 2; part++) {   // what decays, then the biases
        int64_t begin = part ? layout->decayed : 0;
        op.weights = network->weights + begin;
        op.gradient = network->gradients + begin;
        op.first = network->moments + begin;
        op.second = network->moments + layout->floats + begin;
        op.count = part ? layout->floats - layout->decayed : layout->decayed;
        op.decay = part ? 0 : (float)recipe->decay;
        device_adam(network->device, &op);
    }
}

int64_t claimed_length(Interval launched)
{
    const int64_t launch_ns =
        1000;   // planted: the timer is stopped when the work is given, not when it is done
    int64_t length = launched.end - launched.begin;
    return fault_set("train.unsynchronised") && length > launch_ns ? launch_ns : length;
}

static void claim(Meter *meter, Claim which, Interval launched, const Network *network, int64_t rows)
{
    bool backward = which == CLAIM_BACKWARD;
    meter_claim(meter, which, launched, claimed_length(launched), network_flop(network, rows, backward),
                network_bytes(network, rows, backward));
}

bool trainer_step(Trainer *trainer, const FeedBatch *batch, int64_t count, int64_t step, Meter *meter,
                  Error *error)
{
    Network *network = &trainer->network;
    const TrainShape *shape = &network->shape;
    const float *target;
    if (!plant_target(trainer, batch, step, &target, error))
        return false;
    Dropout dropout = {.keep = 1 - (float)trainer->recipe.dropout,
                       .key = random_bits(hash_mix2(trainer->seed, 0x64726f70u), (uint64_t)step)};
    for (int64_t first = 0; first < count; first += trainer->microbatch) {
        Rows rows = {.numeric = batch->numeric + first * shape->numeric,
                     .codes = batch->codes + first * shape->categorical,
                     .target = target + first,
                     .first = first,
                     .count = count - first < trainer->microbatch ? count - first : trainer->microbatch};
        Interval forward = {.begin = device_now_ns(network->device)}, backward;
        network_forward(network, &rows, &dropout);
        network_loss(network, &rows, (float)(1 / (double)count), true);
        forward.end = backward.begin = device_now_ns(network->device);
        network_backward(network, &rows, &dropout, first > 0);
        backward.end = device_now_ns(network->device);
        if (meter) {
            claim(meter, CLAIM_FORWARD, forward, network, rows.count);
            claim(meter, CLAIM_BACKWARD, backward, network, rows.count);
        }
    }
    optimize(trainer, step);
    return true;
}
