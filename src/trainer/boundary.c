// boundary - what lies between two steps: validation and best weights, the loss scale, checkpoints, reports,
// and the reasons to end.
#include "loop.h"

#include <fedgate/fault.h>
#include <math.h>
#include <stdlib.h>

enum { SCALE_LOOK = 16 };   // steps

int64_t loop_now(const Loop *loop)
{
    return clock_monotonic_ns(loop->trainer->spec.clock);
}

int64_t loop_stall_ns(int64_t step)
{
    int64_t every = (int64_t)fault_value("step.stall_every", 0);
    return every > 0 && (step + 1) % every == 0 ? (int64_t)fault_value("step.stall_ns", 0) : 0;
}

static bool leak(Trainer *trainer, Error *error)
{
    int64_t bytes = (int64_t)fault_value("train.leak_bytes", 0);
    if (bytes <= 0)
        return true;
    void **grown = realloc(trainer->leaked, (size_t)(trainer->leaks + 1) * sizeof *grown);
    if (!grown)
        return FAIL(error, ERROR_MEMORY, 0, "could not take memory for a planted leak");
    trainer->leaked = grown;
    trainer->leak_bytes = bytes;
    grown[trainer->leaks] = device_take(trainer->spec.device, "retained", bytes, error);
    return grown[trainer->leaks] && ++trainer->leaks > 0;
}

bool loop_keep_books(Trainer *trainer, int64_t step, Error *error)
{
    meter_live(&trainer->meter, step, ledger_live(trainer->spec.ledger, LEDGER_DEVICE));
    return leak(trainer, error);
}

void loop_note(Loop *loop, const StepTimes *times, int64_t samples)
{
    Block *block = &loop->block;
    meter_step(&loop->trainer->meter, times);
    block->wait_ns += times->wait_ns;
    block->exposed_ns += times->exposed_ns;
    block->compute_ns += times->compute_ns;
    for (int i = 0; i < REST_COUNT; i++)
        block->rest_ns += times->rest_ns[i];
    block->samples += samples;
}

bool loop_ended(const Loop *loop)
{
    return loop->patience_over || loop->trainer->scale_lost;
}

// -- validation

static void keep_best(Trainer *trainer)
{
    device_copy(trainer->spec.device, trainer->best, trainer->network.weights,
                trainer_floats(trainer) * (int64_t)sizeof(float));
}

static bool look_at_validation(Loop *loop, Error *error)
{
    Trainer *trainer = loop->trainer;
    Progress *progress = &trainer->progress;
    double loss;
    int64_t begin = loop_now(loop);
    if (!trainer_validate(trainer, &loss, error))
        return false;
    if (trainer->simulated) {   // forward only: a third of a step for each microbatch
        int64_t pieces = ((int64_t)trainer->validation.rows + trainer->microbatch - 1) / trainer->microbatch;
        clock_advance(trainer->spec.clock, pieces * (trainer->model.compute_ns / 3));
        timeline_add(trainer->meter.timeline, &(Span){.kind = SPAN_KERNEL,
                                                      .begin = begin,
                                                      .end = loop_now(loop),
                                                      .launched_ns = begin,
                                                      .step = progress->step,
                                                      .name = "validation"});
    }
    progress->last_loss = loss;
    if (loss < progress->best_loss || trainer->validation.rows == 0) {
        progress->best_loss = loss;
        progress->best_step = progress->step;
        progress->bad_epochs = 0;
        trainer->has_best = true;
        keep_best(trainer);
    } else {
        progress->bad_epochs++;
    }
    loop->patience_over = progress->bad_epochs >= trainer->patience;
    return true;
}

// The scale is lost when it skipped too many steps in a row: training ends, and the judges see why. Looked at
// where the step number says, so that a resumed run ends where the whole one does; launches see it some steps
// later, when the state that was fetched behind them has arrived.
bool loop_look_at_scale(Trainer *trainer, Error *error)
{
    FedgateStepState step;
    if (!network_scales(&trainer->network, &trainer->recipe))
        return true;
    if (!network_read_step(&trainer->network, &step, error))
        return false;
    trainer->scale_lost = step.longest >= trainer->recipe.scale_stop;
    return true;
}

// -- reports

Block loop_end_block(Loop *loop)
{
    const Trainer *trainer = loop->trainer;
    int64_t now_ns = loop_now(loop);
    Block block = loop->block;
    block.step = trainer->progress.step;
    block.epoch = trainer->progress.epoch;
    block.elapsed_ns = now_ns - block.begin_ns;
    block.live_bytes = ledger_live(trainer->spec.ledger, LEDGER_DEVICE);
    loop->block = (Block){.begin_ns = now_ns, .first = block.step};
    return block;
}

void loop_tell(Loop *loop, const Block *block, double loss_sum, bool epoch_ended)
{
    Trainer *trainer = loop->trainer;
    double seconds = (double)block->elapsed_ns / 1e9;
    if (block->samples > 0)
        loop->train_loss = loss_sum / (double)block->samples;
    trainer->progress.bad_losses += !isfinite(loss_sum);
    int64_t spans_ns = block->wait_ns + block->exposed_ns + block->compute_ns + block->rest_ns;
    TrainProgress seen = {
        .step = block->step,
        .planned_steps = trainer->planned,
        .epoch = block->epoch,
        .train_loss = loop->train_loss,
        .validation_loss = trainer->progress.last_loss,
        .wait_ratio = spans_ns > 0 ? (double)block->wait_ns / (double)spans_ns : 0,
        .hidden_ratio = (double)NAN,
        .samples_per_second = seconds > 0 ? (double)block->samples / seconds : 0,
        .live_bytes = block->live_bytes,
        .block_seconds = seconds,
        .block_steps = block->step - block->first,
        .wait_ns = block->wait_ns,
        .exposed_copy_ns = block->exposed_ns,
        .compute_ns = block->compute_ns,
        .rest_ns = block->rest_ns,
        .epoch_ended = epoch_ended,
    };
    if (trainer->spec.watch && !trainer->spec.watch(trainer->spec.watch_context, &seen))
        loop->stopped = true;
}

static bool report(Loop *loop, bool epoch_ended, Error *error)
{
    Trainer *trainer = loop->trainer;
    double sum = 0;
    if (!network_read_loss(&trainer->network, &sum, error))
        return false;
    Block block = loop_end_block(loop);
    sum += trainer->train_loss_sum;
    trainer->train_loss_sum = 0;
    loop_tell(loop, &block, sum, epoch_ended);
    loop->block.begin_ns = loop_now(loop);   // what the watch did belongs to no block
    return true;
}

static bool report_due(const Loop *loop)
{
    return loop->trainer->progress.step - loop->block.first >=
           config_integer(loop->trainer->config, "telemetry.window");
}

static void look_at_time(Loop *loop, bool last)
{
    const Trainer *trainer = loop->trainer;
    double limit = config_real(trainer->config, "train.time_limit");
    if (limit > 0 && (double)(loop_now(loop) - trainer->begun_ns) / 1e9 > limit && !last && !loop_ended(loop))
        loop->stopped = true;
}

bool loop_after(Loop *loop, Error *error)
{
    Trainer *trainer = loop->trainer;
    const Progress *progress = &trainer->progress;
    bool last = progress->step == trainer->planned, settled = loop->batch.last_of_epoch || last;
    if (!witness_look(trainer, error) || (settled && !look_at_validation(loop, error)))
        return false;
    bool scale_due = settled || (!loop->launcher && progress->step % SCALE_LOOK == 0);
    if (scale_due && !loop_look_at_scale(trainer, error))
        return false;
    bool due = progress->step % config_integer(trainer->config, "train.checkpoint_every") == 0;
    if (due && !last && !loop_ended(loop) && !checkpoint_begin(trainer, error))
        return false;
    if (settled || (report_due(loop) && !loop->launcher)) {
        if (!report(loop, loop->batch.last_of_epoch, error))
            return false;
    } else if (report_due(loop)) {
        Block block = loop_end_block(loop);
        launcher_ask_loss(loop->launcher, &block);
    }
    look_at_time(loop, last);
    return true;
}
