// windows - which launches are traced: a few stretches of whole launches, spread over the run, so that what
// observing costs stays below a hundredth of it.
//
// A stretch is at least 4 launches and 20 steps: the ring is full when one begins, so copies run from its
// second launch on. One step in 64 is traced, in 4 to 12 stretches: a run of some seconds has them all. A
// short run is traced as densely as 4 stretches with copies ask for, up to half of it; where launches are too
// few for that, stretches are shorter, never under 2 launches, then fewer. None begins where validation, a
// checkpoint or a witness would fall into it, if there is room elsewhere; what the host does there is of no
// step, and the step behind it is left out, as `device_steps` has it apart. The first begins when no
// recording was made for a while; before it lies a stretch of as many launches as slots that is not kept,
// because a tracer stops the device when it meets a recording for the first time (0.4 ms on an H200).
#include "trainer_internal.h"

#include <fedgate/fault.h>

enum {
    WINDOW_STEPS = 20,
    WINDOW_LAUNCHES = 4,
    WINDOW_LAUNCHES_LEAST = 2,
    WINDOW_SHARE = 64,
    WINDOWS_LEAST = 4,
    LAUNCHES_BEFORE = 8,
    WINDOW_PRIME = 4
};

static int64_t at_least(int64_t value, int64_t least)
{
    return value > least ? value : least;
}

static int64_t at_most(int64_t value, int64_t most)
{
    return value < most ? value : most;
}

void windows_plan(Windows *windows, int64_t done, int64_t left, int64_t launch_steps)
{
    int64_t launches = at_least(left / launch_steps, 1),
            most = at_least(launches / 2, at_most(launches, WINDOW_LAUNCHES_LEAST)),
            each = at_least(WINDOW_LAUNCHES, (WINDOW_STEPS + launch_steps - 1) / launch_steps);
    if (WINDOWS_LEAST * each > most)
        each = at_most(at_least(most / WINDOWS_LEAST, WINDOW_LAUNCHES_LEAST), most);
    int64_t count = at_least(launches / (WINDOW_SHARE * each), WINDOWS_LEAST);
    count = at_most(at_most(count, TRACE_WINDOWS), most / each);
    int64_t before = at_most(LAUNCHES_BEFORE, launches / 8), prime = WINDOW_PRIME;
    if (2 * prime > launches - before - count * each)   // a short run has none to spare
        prime = 0;
    before = (before + prime) * launch_steps;
    *windows = (Windows){.length = each * launch_steps,
                         .prime = prime * launch_steps,
                         .primed = prime == 0,
                         .period = (left - before) / count,
                         .next = done + before,
                         .planned = (size_t)count};
}

// One is late when it waited for two periods, or when there would be no room for it and those that follow.
static bool is_late(const Meter *meter, int64_t step)
{
    const Windows *windows = &meter->windows;
    int64_t left = (int64_t)(windows->planned - windows->count), room = meter->planned - step;
    return step >= windows->next + 2 * windows->period || room < left * windows->length + windows->length / 2;
}

bool windows_due(const Meter *meter, int64_t step, int64_t boundary, bool settled)
{
    const Windows *windows = &meter->windows;
    if (windows->open || windows->count >= windows->planned)
        return false;
    // As it is, but not for the end of an epoch, which is given step by step.
    bool taken = step >= windows->next && is_late(meter, step) && boundary - step >= meter->launch_steps / 2;
    if (!settled && !taken)
        return false;
    if (!windows->primed && step >= windows->next - windows->prime)
        return true;
    if (step < windows->next)
        return false;
    return boundary - step >= windows->length || taken;
}

bool windows_begin(Meter *meter, Device *device, int64_t step, Error *error)
{
    Windows *windows = &meter->windows;
    int64_t begin_ns = clock_monotonic_ns(clock_real());
    windows->priming = !windows->primed && device_info(device)->traces;
    windows->primed |= !windows->priming;   // where nothing is traced nothing is met for the first time
    windows->priming_from = step;
    if (!windows->priming)
        windows->at[windows->count] = (TraceWindow){.first = step};
    windows->open = true;
    device_trace(device, windows->priming ? NULL : meter->timeline);
    bool good = device_trace_begin(device, error);
    windows->cost_ns += clock_monotonic_ns(clock_real()) - begin_ns;
    return good;
}

bool windows_over(const Meter *meter, int64_t step)
{
    const Windows *windows = &meter->windows;
    if (windows->priming)
        return step - windows->priming_from >= windows->prime;
    return windows->open && step - windows->at[windows->count].first >= windows->length;
}

static bool end_priming(Windows *windows, Device *device, Error *error)
{
    FedgateTraceTrust ignored = {0};   // nothing of it is kept
    windows->open = windows->priming = false;
    windows->primed = true;
    return device_trace_end(device, &ignored, error);
}

// The mark of the step that follows ends the window of the last one.
bool windows_end(Meter *meter, Device *device, int64_t step, Error *error)
{
    Windows *windows = &meter->windows;
    TraceWindow *window = &windows->at[windows->count];
    int64_t begin_ns = clock_monotonic_ns(clock_real());
    if (windows->priming) {
        bool primed = end_priming(windows, device, error);
        windows->cost_ns += clock_monotonic_ns(clock_real()) - begin_ns;
        return primed;
    }
    device_trace(device, meter->timeline);   // a planted fault may have set it aside
    device_mark_step(device, step);
    bool good = device_trace_end(device, &windows->trust, error) &&
                (device_info(device)->traces || device_synchronise(device, error));
    device_trace(device, NULL);
    window->from_ns = meter->device_steps.ended_ns[window->first % STEP_ENDED];
    window->to_ns = meter->device_steps.ended_ns[(step - 1) % STEP_ENDED];
    windows->open = false;
    windows->count++;
    windows->next = at_least(windows->next + windows->period, step);
    windows->cost_ns += clock_monotonic_ns(clock_real()) - begin_ns;
    return good;
}

void windows_note(Meter *meter, const Network *network, const FeedBatch *batches, int64_t count,
                  int64_t given_ns)
{
    Windows *windows = &meter->windows;
    if (!windows->open || windows->priming)
        return;
    TraceWindow *window = &windows->at[windows->count];
    for (int64_t i = window->steps == 0 ? 1 : 0; i < count; i++) {
        window->flop +=
            network_flop(network, batches[i].rows, false) + network_flop(network, batches[i].rows, true);
        window->bytes +=
            network_bytes(network, batches[i].rows, false) + network_bytes(network, batches[i].rows, true);
    }
    window->steps += count;
    window->given_ns += given_ns;
}
