// step - one optimizer step on a batch of the feed, and the planted faults of its targets and its timer.
#include "trainer_internal.h"

#include <fedgate/fault.h>
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

int64_t claimed_length(Interval launched)
{
    const int64_t launch_ns =
        1000;   // planted: the timer is stopped when the work is given, not when it is done
    int64_t length = launched.end - launched.begin;
    return fault_set("train.unsynchronised") && length > launch_ns ? launch_ns : length;
}

bool trainer_step(Trainer *trainer, const FeedBatch *batch, int64_t count, int64_t step, Meter *meter,
                  Error *error)
{
    const float *target;
    if (!plant_target(trainer, batch, step, &target, error))
        return false;
    Rows rows = {.numeric = batch->numeric, .codes = batch->codes, .target = target, .count = count};
    network_gradient(&trainer->network, &trainer->recipe, &rows, trainer->microbatch, trainer->seed, meter);
    network_update(&trainer->network, &trainer->recipe);
    return true;
}

// Planted: the remainder batch of an epoch is dropped (1) or counted twice (2).
int trainer_times(const Trainer *trainer, const FeedBatch *batch)
{
    bool remainder = batch->last_of_epoch && batch->rows < trainer->batch;
    int planted = remainder ? (int)fault_value("train.remainder", 0) : 0;
    return planted == 1 ? 0 : planted == 2 ? 2 : 1;
}

// Launches bring back behind them what was copied (readback.c); here it is asked for.
static bool take_order(Trainer *trainer, const FeedBatch *batch, Error *error)
{
    Device *device = trainer->network.device;
    uint64_t came;
    order_take(&trainer->progress.order, batch);
    if (device_info(device)->asynchronous || !batch->device_digest)
        return true;
    if (!device_copy_out(device, &came, batch->device_digest, sizeof came, error))
        return false;
    order_take_device(&trainer->progress.order, batch->digest, came);
    return true;
}

bool trainer_batch(Trainer *trainer, const FeedBatch *batch, int64_t step, Meter *meter, Error *error)
{
    for (int i = 0; i < trainer_times(trainer, batch); i++) {
        if (!trainer_step(trainer, batch, batch->rows, step, meter, error) ||
            !take_order(trainer, batch, error))
            return false;
    }
    return true;
}
