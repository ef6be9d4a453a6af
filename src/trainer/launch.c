// launch - many steps given to an asynchronous device at once: a group of batches, replayed as a recording
// where nothing falls between its steps, else step by step; the same bits.
//
// A launch is timed part by part on the host: waiting for the device (so that at most two launches are
// ahead), for the batches, handing over, giving, bookkeeping. Nothing in it waits for its own work. What the
// device wrote is fetched behind launches and read when they have passed: digests of rows, when steps ended,
// loss, scale. A recording is made the second time that a slot of the feed comes full.
#include "launch.h"

#include <fedgate/fault.h>
#include <stdlib.h>

enum { LAUNCH_BYTES = 32 << 20, LAUNCH_MOST = 32 };

int trainer_launch_steps(const Config *config, const TrainShape *shape, bool records)
{
    int64_t asked = config_integer(config, "train.launch_steps"),
            bytes = config_integer(config, "train.batch") * (shape->numeric + shape->categorical + 1) *
                    (int64_t)sizeof(float),
            fit = LAUNCH_BYTES / bytes;
    if (!records)
        return 1;
    int64_t steps = asked > 0 ? asked : fit < LAUNCH_MOST ? fit : LAUNCH_MOST;
    return steps < 1 ? 1 : steps < FEED_GROUP ? (int)steps : FEED_GROUP;
}

int trainer_group(const Config *config, const TrainShape *shape, bool records, int64_t train_rows)
{
    int64_t most = trainer_launch_steps(config, shape, records),
            whole = train_rows / config_integer(config, "train.batch"), best;
    if (whole <= most)
        return whole > 0 ? (int)whole : 1;
    best = most;
    for (int64_t steps = most - 1; steps > most / 2 && whole % best > 0; steps--)
        best = whole % steps < whole % best ? steps : best;
    return (int)best;
}

bool trainer_launches(const Trainer *trainer)
{
    return device_info(trainer->spec.device)->asynchronous && !trainer->simulated;
}

// What a planted fault looks at or does in a step cannot be recorded.
static bool steps_singly(void)
{
    static const char *const names[] = {"quality.shuffle_labels", "train.nan_step", "train.unscale_twice",
                                        "step.synchronise"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (fault_set(names[i]))
            return true;
    return false;
}

static void launcher_close(Launcher *launcher)
{
    if (!launcher)
        return;
    Error ignored = ERROR_INIT;
    (void)!device_synchronise(launcher->device, &ignored);
    for (int i = 0; i < LAUNCH_SLOTS; i++)
        device_record_free(launcher->device, launcher->recording[i]);
    launcher_give_read_back(launcher);
    free(launcher);
}

Launcher *launcher_open(Loop *loop, Error *error)
{
    Trainer *trainer = loop->trainer;
    Device *device = trainer->spec.device;
    FedgateStepState state;
    Launcher *launcher = calloc(1, sizeof *launcher);
    if (!launcher) {
        FAIL(error, ERROR_MEMORY, 0, "could not take memory for launches");
        return NULL;
    }
    *launcher = (Launcher){.loop = loop,
                           .trainer = trainer,
                           .device = device,
                           .records = device_info(device)->records && !steps_singly(),
                           .apart = true,
                           .step = trainer->progress.step,
                           .timeout_ns = (int64_t)(config_real(trainer->config, "device.timeout") * 1e9)};
    bool good =
        network_read_step(&trainer->network, &state, error) && launcher_take_read_back(launcher, error);
    if (good) {
        launcher->attempted = launcher->seen = launcher->fetched = state.attempted;
        return launcher;
    }
    launcher_close(launcher);
    return NULL;
}

// A device that hangs keeps what it was given: waiting for it, or taking it away, would hang as well. Kept
// with the trainer, and given back should the device have gone on by the time that the trainer is freed.
void launches_end(Loop *loop)
{
    Trainer *trainer = loop->trainer;
    if (trainer->network.abandoned) {
        trainer->left.launcher = loop->launcher;
        trainer->left.feed = loop->feed;
    } else {
        launcher_close(loop->launcher);
        feed_close(loop->feed);
    }
    loop->launcher = NULL;
    loop->feed = NULL;
}

void launches_free_left(Trainer *trainer)
{
    Launcher *launcher = trainer->left.launcher;
    if (!launcher || !device_event_done(launcher->launch[(launcher->given - 1) % LAUNCHES].passed))
        return;
    trainer->network.abandoned = false;
    launcher_close(launcher);
    feed_close(trainer->left.feed);
}

// -- giving

static int64_t first_step(const Launcher *launcher)
{
    return launcher->trainer->progress.step;
}

// Remembers how the next step of the device stands to the one before it: a step behind work of the host on
// its boundary, or behind a start, says nothing about the steady state.
static void note_step(Launcher *launcher, bool apart)
{
    launcher->apart_at[launcher->attempted % STEP_ENDED] = apart;
    launcher->attempted++;
}

// Before a window, where a tracer that begins disturbs device and host.
static bool disturbed(const Launcher *launcher, int64_t step)
{
    const Windows *windows = &launcher->trainer->meter.windows;
    return windows->open && step < windows->at[windows->count].first;
}

static bool give_singly(Launcher *launcher, int64_t from, int64_t to, Error *error)
{
    Trainer *trainer = launcher->trainer;
    bool warm = launcher->warm < LAUNCHES_WARM, synchronise = fault_set("step.synchronise");
    for (int64_t k = from; k < to; k++) {
        const FeedBatch *batch = &launcher->group.batch[k];
        int64_t step = first_step(launcher) + k - from;
        device_mark_step(launcher->device, step);
        if (!trainer_batch(trainer, batch, step, NULL, error) ||
            (synchronise && !device_synchronise(launcher->device, error)))
            return false;
        for (int i = 0; i < trainer_times(trainer, batch); i++)
            note_step(launcher, warm || disturbed(launcher, step) || (launcher->apart && k == from));
        if (k == 0) {
            feed_group_mark(launcher->loop->feed, &launcher->group);
            feed_group_begun(launcher->loop->feed, &launcher->group);
        }
    }
    launcher->warm++;
    return true;
}

static bool record(Launcher *launcher, Error *error)
{
    Trainer *trainer = launcher->trainer;
    const FeedGroup *group = &launcher->group;
    bool good = device_record_begin(launcher->device, error);
    if (!good)
        return false;
    for (int64_t k = 0; good && k < group->count; k++) {
        device_mark_step(launcher->device, first_step(launcher) + k);
        good = trainer_step(trainer, &group->batch[k], group->batch[k].rows, first_step(launcher) + k, NULL,
                            error);
        if (k == 0)
            feed_group_mark(launcher->loop->feed, group);
    }
    DeviceRecording *recording = device_record_end(launcher->device, "captures", error);
    if (!good)
        device_record_free(launcher->device, recording);
    else
        launcher->recording[group->slot] = recording;
    return good && recording;
}

static bool give_recorded(Launcher *launcher, Error *error)
{
    Trainer *trainer = launcher->trainer;
    const FeedGroup *group = &launcher->group;
    bool fresh = !launcher->recording[group->slot];
    if (fresh && !record(launcher, error))
        return false;
    launcher->fresh = fresh ? launcher->given : launcher->fresh;
    device_replay(launcher->device, launcher->recording[group->slot], first_step(launcher));
    feed_group_begun(launcher->loop->feed, group);
    for (int64_t k = 0; k < group->count; k++) {
        order_take(&trainer->progress.order, &group->batch[k]);
        note_step(launcher,
                  disturbed(launcher, first_step(launcher) + k) || (k == 0 && (launcher->apart || fresh)));
    }
    return true;
}

// Up to where the next thing lies that is done between two steps.
static int64_t piece_end(const Launcher *launcher)
{
    int64_t left = trainer_next_boundary(launcher->trainer) - first_step(launcher),
            end = launcher->group.count;
    return !launcher->rehearses && left < end - launcher->at ? launcher->at + left : end;
}

static bool give(Launcher *launcher, int64_t to, Error *error)
{
    const FeedGroup *group = &launcher->group;
    bool whole = group->full && launcher->at == 0 && to == group->count && group->slot < LAUNCH_SLOTS;
    // None is made inside a window, where the device would stand still meanwhile.
    bool seen = whole && launcher->eager[group->slot] &&
                (launcher->recording[group->slot] || !launcher->trainer->meter.windows.open);
    bool good = launcher->records && seen ? give_recorded(launcher, error)
                                          : give_singly(launcher, launcher->at, to, error);
    launcher->apart = false;
    if (whole && !launcher->eager[group->slot]) {
        launcher->eager[group->slot] = true;
        launcher->fresh = launcher->given;
    }
    return good;
}

// -- one launch

static bool keep_books(Launcher *launcher, int64_t steps, Error *error)
{
    for (int64_t k = 0; k < steps; k++)
        if (!loop_keep_books(launcher->trainer, first_step(launcher) + k, error))
            return false;
    for (int64_t k = 0; k < steps; k++)
        clock_sleep_ns(launcher->trainer->spec.clock, loop_stall_ns(first_step(launcher) + k));
    return true;
}

static void trace_wait(const Launcher *launcher, int64_t begin_ns, int64_t wait_ns)
{
    const Meter *meter = &launcher->trainer->meter;
    if (meter->windows.open && wait_ns > 0)
        timeline_add(meter->timeline, &(Span){.kind = SPAN_HOST_WAIT,
                                              .stream = -1,
                                              .begin = begin_ns,
                                              .end = begin_ns + wait_ns,
                                              .launched_ns = begin_ns,
                                              .step = first_step(launcher),
                                              .name = "wait"});
}

// Takes the next group when all batches of the last were given. 1, 0 at the end, -1 error.
static int take_group(Launcher *launcher, StepTimes *times, int64_t *handed_ns, Error *error)
{
    if (launcher->at < launcher->group.count)
        return 1;
    int64_t begin_ns = *handed_ns;
    launcher->group.count = launcher->at = 0;
    int got =
        feed_next_group(launcher->loop->feed, &launcher->group, &times->wait_ns, &times->exposed_ns, error);
    if (got <= 0)
        return got;
    trace_wait(launcher, begin_ns, times->wait_ns);
    *handed_ns = launcher->group.batch[0].handed_ns;
    return 1;
}

static int64_t advance(Launcher *launcher, int64_t to)
{
    Trainer *trainer = launcher->trainer;
    int64_t samples = trainer->progress.samples;
    for (; launcher->at < to; launcher->at++)
        progress_advance(trainer, &launcher->group.batch[launcher->at]);
    launcher->loop->batch = launcher->group.batch[to - 1];
    return trainer->progress.samples - samples;
}

// Each part of a launch has two readings of the clock of its own.
static int launch_next(Launcher *launcher, Error *error)
{
    Loop *loop = launcher->loop;
    const int64_t unnamed_ns = (int64_t)fault_value("closure.unnamed_ns", 0);
    StepTimes times = {.index = first_step(launcher)};
    int64_t begin = loop_now(loop);
    if (!launcher_throttle(launcher, error))
        return -1;
    int64_t handed = loop_now(loop);
    times.compute_ns = handed - begin;
    int got = take_group(launcher, &times, &handed, error);
    if (got <= 0)
        return got;
    int64_t to = piece_end(launcher), steps = to - launcher->at, given = loop_now(loop);
    times.rest_ns[REST_HAND_OVER] = given - handed;
    clock_sleep_ns(launcher->trainer->spec.clock, unnamed_ns);   // planted: between two spans
    given = unnamed_ns > 0 ? loop_now(loop) : given;
    bool good = give(launcher, to, error);
    if (good)
        launcher_fetch(launcher, to);
    if (good && to == launcher->group.count)
        feed_group_given(loop->feed, &launcher->group);
    int64_t booked = loop_now(loop);
    times.rest_ns[REST_GIVE] = booked - given;
    launcher_read(launcher);
    good = good && keep_books(launcher, steps, error);
    windows_note(&launcher->trainer->meter, &launcher->trainer->network, &launcher->group.batch[launcher->at],
                 first_step(launcher), steps, booked - given);
    int64_t end = loop_now(loop);
    times.rest_ns[REST_BOOKKEEPING] = end - booked;
    times.wall_ns = end - begin;
    times.steps = steps;
    int64_t samples = good ? advance(launcher, to) : 0;
    loop_note(loop, &times, samples);
    return good ? 1 : -1;
}

// -- all of them

// Boundaries read what only a passed launch has said: rows of an epoch, counts of a checkpoint.
static bool settle_boundary(Launcher *launcher, int64_t boundary, Error *error)
{
    Trainer *trainer = launcher->trainer;
    if (trainer->progress.step != boundary && !launcher->loop->batch.last_of_epoch)
        return true;
    launcher->apart = true;
    if (!launcher_drain(launcher, error))
        return false;
    if (trainer->meter.windows.open)
        device_mark_step(launcher->device, -1);
    if (launcher->loop->batch.last_of_epoch)
        order_end_epoch(&trainer->progress.order, trainer->train_rows, trainer->order_digest);
    return true;
}

// Every slot has its recording, or none was made for so long that none will be: a slot may always hold the
// end of an epoch. Groups that a boundary cut are given to their end first.
static bool settled(const Launcher *launcher)
{
    int64_t slots = config_integer(launcher->trainer->config, "input.slots");
    bool all = launcher->given - launcher->fresh >= 2 * slots;
    if (launcher->at < launcher->group.count)
        return false;
    for (int64_t i = 0; launcher->records && !all && i < slots && i < LAUNCH_SLOTS; i++)
        if (!launcher->recording[i])
            return false;
    return true;
}

// Where a window may run to undisturbed; where none is as short as an epoch, it begins with one.
static int64_t undisturbed(const Trainer *trainer)
{
    const Windows *windows = &trainer->meter.windows;
    bool longer = windows->lead + windows->length > trainer->per_epoch;
    return longer && trainer->progress.position == 0 ? INT64_MAX : trainer_next_boundary(trainer);
}

static bool observe(Launcher *launcher, Error *error)
{
    Trainer *trainer = launcher->trainer;
    if (windows_due(&trainer->meter, first_step(launcher), undisturbed(trainer), settled(launcher))) {
        launcher->apart = true;   // what was given before would be seen in part
        return launcher_drain(launcher, error) &&
               windows_begin(&trainer->meter, launcher->device, first_step(launcher), error);
    }
    if (!windows_over(&trainer->meter, first_step(launcher)))
        return true;
    launcher->apart = true;
    return launcher_drain(launcher, error) &&
           windows_end(&trainer->meter, launcher->device, first_step(launcher), error);
}

bool launches_run(Loop *loop, Error *error)
{
    Trainer *trainer = loop->trainer;
    Launcher *launcher = loop->launcher;
    while (trainer->progress.step < trainer->planned && !loop->stopped && !loop_ended(loop)) {
        int64_t boundary = trainer_next_boundary(trainer);
        int got = observe(launcher, error) ? launch_next(launcher, error) : -1;
        if (got < 0)
            return error_prefix(error, "training step %lld", (long long)trainer->progress.step);
        if (got == 0)
            break;
        launcher_tell(launcher);
        if (launcher->warm <= LAUNCHES_WARM && !launcher_drain(launcher, error))
            return false;
        if (!settle_boundary(launcher, boundary, error) || !loop_after(loop, error))
            return error_prefix(error, "after training step %lld", (long long)trainer->progress.step);
    }
    return launcher_drain(launcher, error) &&
           (!trainer->meter.windows.open ||
            windows_end(&trainer->meter, launcher->device, first_step(launcher), error));
}

// Under the budget before the night depends on it: every slot filled, given and recorded.
bool launches_rehearse(Trainer *trainer, Error *error)
{
    const Progress progress = trainer->progress;
    Loop loop = {.trainer = trainer};
    bool good = meter_init(&trainer->meter, 1, 0, trainer->group, trainer->per_epoch, error) &&
                (loop.feed = trainer_feed_training(trainer, &progress, error)) != NULL &&
                (loop.launcher = launcher_open(&loop, error)) != NULL;
    if (good)
        loop.launcher->rehearses = true;
    int64_t launches = 2 * config_integer(trainer->config, "input.slots");
    for (int64_t i = 0; good && i < launches; i++) {
        int got = launch_next(loop.launcher, error);
        launcher_tell(loop.launcher);
        good = got >= 0;
        if (got <= 0 || trainer->progress.step == trainer->planned)
            break;
    }
    good = good && launcher_drain(loop.launcher, error);
    launches_end(&loop);
    meter_done(&trainer->meter);
    trainer->progress = progress;
    return good;
}
