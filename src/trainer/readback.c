// readback - what the device wrote behind its launches, fetched into pinned memory without waiting and read
// when the launch has passed; and the wait for that, which has a limit.
#include "launch.h"

#include <fedgate/fault.h>

enum { BLOCK_STEPS = 16, STAGING_BYTES = 1 << 20 };
static const char account[] = "read-back";

int64_t trainer_read_back_bytes(void)
{
    return LAUNCHES * (int64_t)sizeof(ReadBack) + STAGING_BYTES;
}

bool launcher_take_read_back(Launcher *launcher, Error *error)
{
    launcher->back = device_take_pinned(launcher->device, account, trainer_read_back_bytes(), error);
    for (int i = 0; launcher->back && i < LAUNCHES; i++) {
        launcher->launch[i].back = &launcher->back[i];
        launcher->launch[i].passed = device_event_new(launcher->device, error);
        if (!launcher->launch[i].passed)
            return false;
    }
    if (!launcher->back || !(launcher->staged = device_event_new(launcher->device, error)))
        return false;
    device_set_staging(launcher->device, launcher->back + LAUNCHES, STAGING_BYTES, launcher->staged);
    return true;
}

void launcher_give_read_back(Launcher *launcher)
{
    device_set_staging(launcher->device, NULL, 0, NULL);
    device_event_free(launcher->staged);
    for (int i = 0; i < LAUNCHES; i++)
        device_event_free(launcher->launch[i].passed);
    device_give_pinned(launcher->device, account, launcher->back, trainer_read_back_bytes());
}

static Launch *launch_at(Launcher *launcher, int64_t number)
{
    return &launcher->launch[number % LAUNCHES];
}

static Launch *launch_next_of(Launcher *launcher)
{
    if (launcher->given - launcher->told >= LAUNCHES)
        BUG("%lld launches were given and not told of", (long long)(launcher->given - launcher->told));
    return launch_at(launcher, launcher->given);
}

// Long before the ring of times comes round, for a lost scale must end the run soon; at once where times are
// used.
static bool block_due(const Launcher *launcher)
{
    return launcher->attempted - launcher->fetched >= BLOCK_STEPS || launcher->warm <= LAUNCHES_WARM ||
           launcher->trainer->meter.windows.open;
}

static void fetch_block(Launcher *launcher, Launch *launch)
{
    device_fetch(launcher->device, &launch->back->block, launcher->trainer->network.steps,
                 sizeof launch->back->block, launch->passed);
    launch->fetched = true;
    launcher->fetched = launcher->attempted;
}

void launcher_fetch(Launcher *launcher, int64_t to)
{
    Launch *launch = launch_next_of(launcher);
    const FeedBatch *first = &launcher->group.batch[launcher->at];
    launch->step = launcher->trainer->progress.step + to - launcher->at;
    launch->attempted = launcher->attempted;
    launch->fetched = false;
    launch->digests = first->device_digest ? to - launcher->at : 0;
    for (int64_t i = 0; i < launch->digests; i++)
        launch->counted[i] = first[i].digest;
    if (launch->digests > 0)
        device_fetch(launcher->device, launch->back->digest, first->device_digest,
                     launch->digests * (int64_t)sizeof *first->device_digest, launch->passed);
    if (block_due(launcher))
        fetch_block(launcher, launch);
    if (!launch->fetched && launch->digests == 0)
        device_record_compute(launcher->device, launch->passed);
    launcher->given++;
}

// The loss of the steps so far, told with the launch that is given next; its sum begins again on the device.
void launcher_ask_loss(Launcher *launcher, const Block *block)
{
    Network *network = &launcher->trainer->network;
    Launch *launch = launch_next_of(launcher);
    device_fetch(launcher->device, &launch->back->loss, &network->sums[SUM_LOSS], sizeof launch->back->loss,
                 launch->passed);
    device_zero(launcher->device, &network->sums[SUM_LOSS], sizeof network->sums[SUM_LOSS]);
    launch->asked = true;
    launch->block = *block;
}

// A launch of no step, for what was not fetched or told of yet.
static void fetch_rest(Launcher *launcher)
{
    Launch *launch = launch_next_of(launcher);
    if (launcher->attempted == launcher->fetched && !launch->asked)
        return;
    launch->step = launcher->trainer->progress.step;
    launch->attempted = launcher->attempted;
    launch->digests = 0;
    fetch_block(launcher, launch);
    launcher->given++;
}

// -- waiting

static bool fail_hung(Launcher *launcher, const Launch *launch, int64_t waited_ns, Error *error)
{
    launcher->trainer->network.abandoned = true;
    if (waited_ns < launcher->timeout_ns && !device_synchronise(launcher->device, error))
        return false;   // it did not hang, it failed
    return FAIL(error, ERROR_DEVICE, 0, "device made no progress for %.3g s, before the end of step %lld",
                (double)waited_ns / 1e9, (long long)launch->step);
}

static bool wait_until(Launcher *launcher, int64_t ahead, Error *error)
{
    while (launcher->given - launcher->passed > ahead) {
        const Launch *launch = launch_at(launcher, launcher->passed);
        Error late = ERROR_INIT;
        int64_t begin_ns = loop_now(launcher->loop);
        if (!device_event_wait(launch->passed, launcher->timeout_ns, &late))
            return fail_hung(launcher, launch, loop_now(launcher->loop) - begin_ns, error);
        launcher->passed++;
    }
    return true;
}

bool launcher_throttle(Launcher *launcher, Error *error)
{
    return wait_until(launcher, LAUNCHES_AHEAD - 1, error);
}

// -- reading

static void read_ends(Launcher *launcher, const Launch *launch)
{
    const StepBlock *block = &launch->back->block;
    Trainer *trainer = launcher->trainer;
    for (; launcher->seen < launch->attempted; launcher->seen++) {
        int64_t at = launcher->seen % STEP_ENDED;
        device_steps_add(&trainer->meter.device_steps, launcher->step++, block->ended_ns[at],
                         launcher->apart_at[at]);
    }
    if (network_scales(&trainer->network, &trainer->recipe))
        trainer->scale_lost = block->state.longest >= trainer->recipe.scale_stop;
}

void launcher_read(Launcher *launcher)
{
    for (; launcher->read < launcher->passed; launcher->read++) {
        const Launch *launch = launch_at(launcher, launcher->read);
        if (launch->fetched)
            read_ends(launcher, launch);
        for (int64_t i = 0; i < launch->digests; i++)
            order_take_device(&launcher->trainer->progress.order, launch->counted[i],
                              launch->back->digest[i]);
    }
}

void launcher_tell(Launcher *launcher)
{
    for (; launcher->told < launcher->read; launcher->told++) {
        Launch *launch = launch_at(launcher, launcher->told);
        if (launch->asked)
            loop_tell(launcher->loop, &launch->block, launch->back->loss, false);
        launch->asked = false;
    }
}

bool launcher_drain(Launcher *launcher, Error *error)
{
    bool moved = launcher->attempted > launcher->seen;
    fetch_rest(launcher);
    if (!wait_until(launcher, 0, error))
        return false;
    int64_t now_ns = loop_now(launcher->loop);
    launcher_read(launcher);
    if (moved)
        meter_clocks(&launcher->trainer->meter, now_ns);
    launcher_tell(launcher);
    return true;
}
