// loop - trains to the end, to patience, or until the watch says stop; every step timed part by part.
//
// Inside a step nothing waits on the host but for its batch. Validation, checkpoints and reports lie between
// steps. On a simulated clock the training is real and its durations are those of model_clock.c, so a slow
// day cannot change a test.
#include "trainer_internal.h"

#include <fedgate/fault.h>
#include <fedgate/json.h>
#include <math.h>
#include <stdlib.h>

enum { SCALE_LOOK = 16 };   // steps

typedef struct Loop {
    Trainer *trainer;
    Feed *feed;
    Clerk clerk;
    FeedBatch batch;
    int64_t block_begin_ns, block_first, block_samples;
    int64_t wait_ns, exposed_ns, compute_ns, rest_ns;   // of the steps since the last report
    double train_loss;
    bool stopped, patience_over;
} Loop;

static int64_t now_ns(const Loop *loop)
{
    return clock_monotonic_ns(loop->trainer->spec.clock);
}

// -- one step

static int64_t stall_ns(int64_t step)
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

static bool keep_books(Trainer *trainer, int64_t step, Error *error)
{
    meter_live(&trainer->meter, step, ledger_live(trainer->spec.ledger, LEDGER_DEVICE));
    return leak(trainer, error);
}

static void claim_step(Trainer *trainer, int64_t rows, Interval launched, int64_t length_ns)
{
    const Network *network = &trainer->network;
    meter_claim(&trainer->meter, CLAIM_STEP, launched, length_ns,
                network_flop(network, rows, false) + network_flop(network, rows, true),
                network_bytes(network, rows, false) + network_bytes(network, rows, true));
}

static void trace_step(Trainer *trainer, int64_t step)
{
    if (meter_traces(&trainer->meter, step))
        device_trace(trainer->spec.device, trainer->meter.timeline);
    device_mark_step(trainer->spec.device,
                     step);   // also just after a recorded window: it ends the last step's
    if (!meter_traces(&trainer->meter, step))
        device_trace(trainer->spec.device, NULL);
}

// 1 done, 0 no batch left, -1 error. Each part of the step has its own two readings of the clock.
static int step_measured(Loop *loop, int64_t step, StepTimes *times, Error *error)
{
    Trainer *trainer = loop->trainer;
    bool traced = meter_traces(&trainer->meter, step);
    int64_t wall_begin = now_ns(loop);
    int got = feed_next(loop->feed, &loop->batch, &times->wait_ns, &times->exposed_ns, error);
    if (got <= 0)
        return got;
    trace_step(trainer, step);
    clerk_post(&loop->clerk, &loop->batch);
    int64_t handed = now_ns(loop), unnamed_ns = (int64_t)fault_value("closure.unnamed_ns", 0);
    times->rest_ns[REST_HAND_OVER] = handed - loop->batch.handed_ns;   // from inside feed_next
    clock_sleep_ns(trainer->spec.clock, unnamed_ns);   // planted: between two spans
    // Neighbouring spans share a reading: a processor taken away falls into one of them, not between.
    Interval compute = {.begin = unnamed_ns > 0 ? now_ns(loop) : handed};
    bool good = trainer_batch(trainer, &loop->batch, step, traced ? &trainer->meter : NULL, error);
    compute.end = now_ns(loop);
    times->compute_ns = compute.end - compute.begin;
    clerk_settle(&loop->clerk);
    good = good && keep_books(trainer, step, error);
    if (traced)
        claim_step(trainer, loop->batch.rows, compute, claimed_length(compute));
    if (traced && times->wait_ns > 0)
        timeline_add(trainer->meter.timeline, &(Span){.kind = SPAN_HOST_WAIT,
                                                      .stream = -1,
                                                      .begin = wall_begin,
                                                      .end = wall_begin + times->wait_ns,
                                                      .launched_ns = wall_begin,
                                                      .step = step,
                                                      .name = "wait"});
    clock_sleep_ns(trainer->spec.clock, stall_ns(step));
    int64_t end = now_ns(loop);
    times->rest_ns[REST_BOOKKEEPING] = end - compute.end;
    times->wall_ns = end - wall_begin;
    return good ? 1 : -1;
}

static int step_modelled(Loop *loop, int64_t step, StepTimes *times, Error *error)
{
    Trainer *trainer = loop->trainer;
    int64_t begin = now_ns(loop), ignored_wait, ignored_exposed;
    int got = feed_next(loop->feed, &loop->batch, &ignored_wait, &ignored_exposed, error);
    if (got <= 0)
        return got;
    clerk_post(&loop->clerk, &loop->batch);
    clerk_settle(&loop->clerk);
    if (!trainer_batch(trainer, &loop->batch, step, NULL, error))
        return -1;
    ModelStep modelled;
    model_clock_step(&trainer->model, begin, &modelled);
    times->wait_ns = modelled.load_end > begin ? modelled.load_end - begin : 0;
    times->exposed_ns = modelled.compute_begin - begin - times->wait_ns;
    times->compute_ns = modelled.compute_end - modelled.compute_begin;
    times->rest_ns[REST_BOOKKEEPING] = trainer->model.overhead_ns + stall_ns(step);
    times->wall_ns = times->wait_ns + times->exposed_ns + times->compute_ns +
                     times->rest_ns[REST_BOOKKEEPING] + (int64_t)fault_value("closure.unnamed_ns", 0);
    const TrainShape *shape = &trainer->network.shape;
    if (meter_traces(&trainer->meter, step)) {
        Interval launched = {modelled.compute_begin, modelled.compute_end};
        model_clock_trace(&trainer->model, &modelled, step,
                          loop->batch.rows * (shape->numeric + shape->categorical + 1) *
                              (int64_t)sizeof(float),
                          trainer->meter.timeline);
        claim_step(trainer, loop->batch.rows, launched, claimed_length(launched));
    }
    clock_advance(trainer->spec.clock, times->wall_ns);
    return keep_books(trainer, step, error) ? 1 : -1;
}

static int run_step(Loop *loop, Error *error)
{
    Trainer *trainer = loop->trainer;
    StepTimes times = {.index = trainer->progress.step};
    int got =
        (trainer->simulated ? step_modelled : step_measured)(loop, trainer->progress.step, &times, error);
    if (got <= 0)
        return got;
    meter_step(&trainer->meter, &times);
    loop->wait_ns += times.wait_ns;
    loop->exposed_ns += times.exposed_ns;
    loop->compute_ns += times.compute_ns;
    for (int i = 0; i < REST_COUNT; i++)
        loop->rest_ns += times.rest_ns[i];
    loop->block_samples += loop->batch.rows;
    Progress *progress = &trainer->progress;
    progress->step++;
    progress->samples += loop->batch.rows;
    progress->epoch = loop->batch.last_of_epoch ? loop->batch.epoch + 1 : loop->batch.epoch;
    progress->position = loop->batch.last_of_epoch ? 0 : loop->batch.index + 1;
    if (loop->batch.last_of_epoch)
        order_end_epoch(&progress->order, trainer->train_rows, trainer->order_digest);
    return 1;
}

// -- between steps

static bool look_at_validation(Loop *loop, Error *error)
{
    Trainer *trainer = loop->trainer;
    Progress *progress = &trainer->progress;
    double loss;
    int64_t begin = now_ns(loop);
    if (!trainer_validate(trainer, &loss, error))
        return false;
    if (trainer->simulated) {   // forward only: a third of a step for each microbatch
        int64_t pieces = ((int64_t)trainer->validation.rows + trainer->microbatch - 1) / trainer->microbatch;
        clock_advance(trainer->spec.clock, pieces * (trainer->model.compute_ns / 3));
        timeline_add(trainer->meter.timeline, &(Span){.kind = SPAN_KERNEL,
                                                      .begin = begin,
                                                      .end = now_ns(loop),
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
        device_copy(trainer->spec.device, trainer->best, trainer->network.weights,
                    trainer_floats(trainer) * (int64_t)sizeof(float));
    } else {
        progress->bad_epochs++;
    }
    loop->patience_over = progress->bad_epochs >= trainer->patience;
    return true;
}

static bool report(Loop *loop, bool epoch_ended, Error *error)
{
    Trainer *trainer = loop->trainer;
    const Progress *progress = &trainer->progress;
    double sum = 0;
    if (!network_read_loss(&trainer->network, &sum, error))
        return false;
    int64_t steps = progress->step - loop->block_first, elapsed_ns = now_ns(loop) - loop->block_begin_ns;
    double seconds = (double)elapsed_ns / 1e9;
    loop->train_loss = loop->block_samples > 0 ? (sum + trainer->train_loss_sum) / (double)loop->block_samples
                                               : loop->train_loss;
    trainer->progress.bad_losses += !isfinite(sum + trainer->train_loss_sum);
    int64_t spans_ns = loop->wait_ns + loop->exposed_ns + loop->compute_ns + loop->rest_ns;
    TrainProgress seen = {
        .step = progress->step,
        .planned_steps = trainer->planned,
        .epoch = progress->epoch,
        .train_loss = loop->train_loss,
        .validation_loss = progress->last_loss,
        .wait_ratio = spans_ns > 0 ? (double)loop->wait_ns / (double)spans_ns : 0,
        .hidden_ratio = (double)NAN,
        .samples_per_second = seconds > 0 ? (double)loop->block_samples / seconds : 0,
        .live_bytes = ledger_live(trainer->spec.ledger, LEDGER_DEVICE),
        .block_seconds = seconds,
        .block_steps = steps,
        .wait_ns = loop->wait_ns,
        .exposed_copy_ns = loop->exposed_ns,
        .compute_ns = loop->compute_ns,
        .rest_ns = loop->rest_ns,
        .epoch_ended = epoch_ended,
    };
    if (trainer->spec.watch && !trainer->spec.watch(trainer->spec.watch_context, &seen))
        loop->stopped = true;
    trainer->train_loss_sum = 0;
    loop->block_first = progress->step;
    loop->block_samples = loop->wait_ns = loop->exposed_ns = loop->compute_ns = loop->rest_ns = 0;
    loop->block_begin_ns = now_ns(loop);
    return true;
}

// The scale is lost when it skipped too many steps in a row: training ends, and the judges see why. Looked at
// where the step number says, so that a resumed run ends where the whole one does.
static bool look_at_scale(Trainer *trainer, Error *error)
{
    FedgateStepState step;
    if (!network_scales(&trainer->network, &trainer->recipe))
        return true;
    if (!network_read_step(&trainer->network, &step, error))
        return false;
    trainer->scale_lost = step.longest >= trainer->recipe.scale_stop;
    return true;
}

static bool ended(const Loop *loop)
{
    return loop->patience_over || loop->trainer->scale_lost;
}

static bool after_step(Loop *loop, Error *error)
{
    Trainer *trainer = loop->trainer;
    const Progress *progress = &trainer->progress;
    bool epoch_ended = loop->batch.last_of_epoch, last = progress->step == trainer->planned;
    if (!witness_look(trainer, error) || ((epoch_ended || last) && !look_at_validation(loop, error)))
        return false;
    if ((progress->step % SCALE_LOOK == 0 || epoch_ended || last) && !look_at_scale(trainer, error))
        return false;
    bool due = progress->step % config_integer(trainer->config, "train.checkpoint_every") == 0;
    if (due && !last && !ended(loop) && !checkpoint_begin(trainer, error))
        return false;
    bool window = progress->step - loop->block_first >= config_integer(trainer->config, "telemetry.window");
    if ((window || epoch_ended || last) && !report(loop, epoch_ended, error))
        return false;
    double limit = config_real(trainer->config, "train.time_limit");
    if (limit > 0 && (double)(now_ns(loop) - trainer->begun_ns) / 1e9 > limit && !last && !ended(loop))
        loop->stopped = true;
    return true;
}

static bool run_steps(Loop *loop, Error *error)
{
    Trainer *trainer = loop->trainer;
    loop->patience_over = trainer->progress.bad_epochs >= trainer->patience;
    if (!witness_look(trainer, error) || !look_at_scale(trainer, error))
        return false;
    while (trainer->progress.step < trainer->planned && !loop->stopped && !ended(loop)) {
        int got = run_step(loop, error);
        if (got < 0)
            return error_prefix(error, "training step %lld", (long long)trainer->progress.step);
        if (got == 0)
            break;
        if (!after_step(loop, error))
            return false;
    }
    return true;
}

// A run that diverged has no candidate: what it last had is delivered, and the judges see what it is.
static void settle_best(Trainer *trainer)
{
    if (!trainer->has_best || (trainer->validation.rows > 0 && !isfinite(trainer->progress.last_loss)))
        device_copy(trainer->spec.device, trainer->best, trainer->network.weights,
                    trainer_floats(trainer) * (int64_t)sizeof(float));
}

// -- the end

static bool finish(Loop *loop, const char *trace_path, TrainResult *ret_result, Json *evidence, Error *error)
{
    Trainer *trainer = loop->trainer;
    Meter *meter = &trainer->meter;
    const Progress *progress = &trainer->progress;
    if (!trainer->simulated)
        trace_step(trainer, progress->step);   // ends the window of the last step
    meter->host_end_ns = now_ns(loop);
    meter->device_end_ns = device_now_ns(trainer->spec.device);
    settle_best(trainer);
    device_trace(trainer->spec.device, NULL);
    // Whatever ends the night after this, its slot does not train again.
    bool moved = progress->step > trainer->resumed.step;
    if (((loop->stopped || moved) && !checkpoint_begin(trainer, error)) || !checkpoint_end(trainer, error))
        return false;
    outcome_stages(trainer, loop->feed, evidence);
    clerk_close(&loop->clerk);
    feed_close(loop->feed);   // its staging thread may still be adding a copy: only then is the timeline read
    loop->feed = NULL;
    if (!device_synchronise(trainer->spec.device, error) || !meter_evidence(meter, evidence, error) ||
        (trace_path && moved &&
         !timeline_export_chrome(meter->timeline, "fedgate training", trace_path, error)))
        return false;
    outcome_accounts(trainer, evidence);
    order_evidence(trainer, evidence);
    if (!outcome_scale(trainer, evidence, error))
        return false;
    *ret_result = (TrainResult){
        .steps = progress->step,
        .planned_steps = trainer->planned,
        .epochs = progress->epoch,
        .resumed_from = trainer->resumed.step,
        .stopped_early = loop->stopped,
        .best_validation_loss = progress->best_loss,
        .train_seconds = (double)(meter->host_end_ns - meter->host_begin_ns) / 1e9,
        .samples = progress->samples - trainer->resumed.samples,
        .run_samples = progress->samples,
        .peak_bytes = ledger_peak(trainer->spec.ledger, LEDGER_DEVICE),
        .scale_lost = trainer->scale_lost,
    };
    return true;
}

bool trainer_train(Trainer *trainer, const char *trace_path, TrainResult *ret_result, Json *evidence,
                   Error *error)
{
    if (!checkpoint_resume(trainer, error) ||
        !meter_init(&trainer->meter, trainer->planned, trainer->progress.step, error))
        return false;
    Loop loop = {.trainer = trainer, .block_first = trainer->progress.step, .train_loss = (double)NAN};
    trainer->begun_ns = now_ns(&loop);
    model_clock_init(&trainer->model, trainer->begun_ns, config_integer(trainer->config, "input.workers"),
                     config_integer(trainer->config, "input.prefetch"));
    loop.feed = trainer_feed(trainer, &trainer->progress, error);
    if (!loop.feed)
        return false;
    trainer->meter.host_begin_ns = loop.block_begin_ns = now_ns(&loop);
    trainer->meter.device_begin_ns = device_now_ns(trainer->spec.device);
    bool good = clerk_open(&loop.clerk, loop.feed, !trainer->simulated, error) && run_steps(&loop, error) &&
                finish(&loop, trace_path, ret_result, evidence, error);
    Error ignored = ERROR_INIT;
    device_trace(trainer->spec.device, NULL);
    clerk_close(&loop.clerk);
    feed_close(loop.feed);
    return good || (checkpoint_end(trainer, &ignored) && false);
}
