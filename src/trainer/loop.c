// loop - trains to the end, to patience, or until the watch says stop; every step timed part by part.
//
// Inside a step nothing waits on the host but for its batch; what lies between steps is in boundary.c. An
// asynchronous device is given many steps at once (launch.c). On a simulated clock the training is real and
// its durations are those of model_clock.c, so a slow day cannot change a test.
#include "loop.h"

#include <fedgate/fault.h>
#include <fedgate/json.h>
#include <math.h>
#include <stdlib.h>

// -- one step

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
    int64_t wall_begin = loop_now(loop);
    int got = feed_next(loop->feed, &loop->batch, &times->wait_ns, &times->exposed_ns, error);
    if (got <= 0)
        return got;
    trace_step(trainer, step);
    clerk_post(&loop->clerk, &loop->batch);
    int64_t handed = loop_now(loop), unnamed_ns = (int64_t)fault_value("closure.unnamed_ns", 0);
    times->rest_ns[REST_HAND_OVER] = handed - loop->batch.handed_ns;   // from inside feed_next
    clock_sleep_ns(trainer->spec.clock, unnamed_ns);   // planted: between two spans
    // Neighbouring spans share a reading: a processor taken away falls into one of them, not between.
    Interval compute = {.begin = unnamed_ns > 0 ? loop_now(loop) : handed};
    bool good = trainer_batch(trainer, &loop->batch, step, traced ? &trainer->meter : NULL, error);
    compute.end = loop_now(loop);
    times->compute_ns = compute.end - compute.begin;
    clerk_settle(&loop->clerk);
    good = good && loop_keep_books(trainer, step, error);
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
    clock_sleep_ns(trainer->spec.clock, loop_stall_ns(step));
    int64_t end = loop_now(loop);
    times->rest_ns[REST_BOOKKEEPING] = end - compute.end;
    times->wall_ns = end - wall_begin;
    return good ? 1 : -1;
}

static int step_modelled(Loop *loop, int64_t step, StepTimes *times, Error *error)
{
    Trainer *trainer = loop->trainer;
    int64_t begin = loop_now(loop), ignored_wait, ignored_exposed;
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
    times->rest_ns[REST_BOOKKEEPING] = trainer->model.overhead_ns + loop_stall_ns(step);
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
    return loop_keep_books(trainer, step, error) ? 1 : -1;
}

static int run_step(Loop *loop, Error *error)
{
    Trainer *trainer = loop->trainer;
    StepTimes times = {.index = trainer->progress.step, .steps = 1};
    int got =
        (trainer->simulated ? step_modelled : step_measured)(loop, trainer->progress.step, &times, error);
    if (got <= 0)
        return got;
    loop_note(loop, &times, loop->batch.rows);
    progress_advance(trainer, &loop->batch);
    if (loop->batch.last_of_epoch)
        order_end_epoch(&trainer->progress.order, trainer->train_rows, trainer->order_digest);
    return 1;
}

static bool run_steps(Loop *loop, Error *error)
{
    Trainer *trainer = loop->trainer;
    while (trainer->progress.step < trainer->planned && !loop->stopped && !loop_ended(loop)) {
        int got = run_step(loop, error);
        if (got < 0)
            return error_prefix(error, "training step %lld", (long long)trainer->progress.step);
        if (got == 0)
            break;
        if (!loop_after(loop, error))
            return false;
    }
    return true;
}

static bool run(Loop *loop, Error *error)
{
    Trainer *trainer = loop->trainer;
    loop->patience_over = trainer->progress.bad_epochs >= trainer->patience;
    return witness_look(trainer, error) && loop_look_at_scale(trainer, error) &&
           (loop->launcher ? launches_run : run_steps)(loop, error);
}

// A run that diverged has no candidate: what it last had is delivered, and the judges see what it is.
static void settle_best(Trainer *trainer)
{
    if (!trainer->has_best || (trainer->validation.rows > 0 && !isfinite(trainer->progress.last_loss)))
        device_copy(trainer->spec.device, trainer->best, trainer->network.weights,
                    trainer_floats(trainer) * (int64_t)sizeof(float));
}

// -- the end

static bool save(Loop *loop, Error *error)
{
    Trainer *trainer = loop->trainer;
    bool moved = trainer->progress.step > trainer->resumed.step;
    // Whatever ends the night after this, its slot does not train again.
    return (!(loop->stopped || moved) || checkpoint_begin(trainer, error)) && checkpoint_end(trainer, error);
}

static bool put_evidence(Loop *loop, const char *trace_path, Json *evidence, Error *error)
{
    Trainer *trainer = loop->trainer;
    const Meter *meter = &trainer->meter;
    bool moved = trainer->progress.step > trainer->resumed.step;
    outcome_stages(trainer, loop->feed, evidence);
    clerk_close(&loop->clerk);
    feed_close(loop->feed);   // its staging thread may still be adding a copy: only then is the timeline read
    loop->feed = NULL;
    if (!device_synchronise(trainer->spec.device, error) || !meter_evidence(trainer, evidence, error) ||
        (trace_path && moved &&
         !timeline_export_chrome(meter->timeline, "fedgate training", trace_path, error)))
        return false;
    json_put_integer(outcome_section(evidence, "loop"), "nonfinite_inputs", trainer->progress.nonfinite);
    outcome_accounts(trainer, evidence);
    order_evidence(trainer, evidence);
    return outcome_scale(trainer, evidence, error);
}

static bool finish(Loop *loop, const char *trace_path, TrainResult *ret_result, Json *evidence, Error *error)
{
    Trainer *trainer = loop->trainer;
    Meter *meter = &trainer->meter;
    const Progress *progress = &trainer->progress;
    if (!trainer->simulated && !loop->launcher)
        trace_step(trainer, progress->step);   // ends the window of the last step
    meter->host_end_ns = loop_now(loop);
    meter->device_end_ns = device_now_ns(trainer->spec.device);
    settle_best(trainer);
    device_trace(trainer->spec.device, NULL);
    if (!trainer_count_nonfinite(trainer, error) || !save(loop, error) ||
        !put_evidence(loop, trace_path, evidence, error))
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

static bool open_loop(Loop *loop, Error *error)
{
    Trainer *trainer = loop->trainer;
    const Progress *progress = &trainer->progress;
    const bool launches = trainer_launches(trainer);
    device_zero(trainer->spec.device, &trainer->network.steps->nonfinite, sizeof(int64_t));
    if (!meter_init(&trainer->meter, trainer->planned, progress->step, launches ? trainer->group : 0,
                    trainer->per_epoch, error))
        return false;
    if (trainer->spec.unsampled)
        trainer->meter.windows.planned = 0;
    *loop = (Loop){.trainer = trainer, .train_loss = (double)NAN, .block.first = progress->step};
    trainer->begun_ns = loop_now(loop);
    model_clock_init(&trainer->model, trainer->begun_ns, config_integer(trainer->config, "input.workers"),
                     config_integer(trainer->config, "input.prefetch"));
    loop->feed = trainer_feed_training(trainer, progress, error);
    if (!loop->feed)
        return false;
    trainer->meter.host_begin_ns = loop->block.begin_ns = loop_now(loop);
    trainer->meter.device_begin_ns = device_now_ns(trainer->spec.device);
    if (launches)
        return (loop->launcher = launcher_open(loop, error)) != NULL;
    return clerk_open(&loop->clerk, loop->feed, !trainer->simulated, error);
}

bool trainer_train(Trainer *trainer, const char *trace_path, TrainResult *ret_result, Json *evidence,
                   Error *error)
{
    Loop loop = {.trainer = trainer};
    bool good = checkpoint_resume(trainer, error) && open_loop(&loop, error) && run(&loop, error) &&
                finish(&loop, trace_path, ret_result, evidence, error);
    Error ignored = ERROR_INIT;
    device_trace(trainer->spec.device, NULL);
    clerk_close(&loop.clerk);
    launches_end(&loop);
    return good || (checkpoint_end(trainer, &ignored) && false);
}
