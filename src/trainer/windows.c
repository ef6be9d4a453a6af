// windows - which launches are traced: a few stretches of whole launches, spread over the run, so that what
// observing costs stays below a hundredth of it.
//
// A stretch is at least 4 launches and 20 steps: the ring is full when one begins, so copies run from its
// second launch on. One step in 64 is traced, in 4 to 12 stretches: a run of some seconds has them all. A
// short run is traced as densely as 4 stretches with copies ask for, up to half of it; where launches are too
// few for that, stretches are shorter, never under 2 launches, then fewer. None begins where validation, a
// checkpoint or a witness would fall into it, if there is room elsewhere; what the host does there is of no
// step, and the step behind it is left out, as `device_steps` has it apart. The first begins when no
// recording was made for a while. Before each lie three launches that are traced and not kept: a tracer that
// begins stops the device when it meets a recording (0.3 to 0.8 ms on an H200) and makes the host give the
// first two so slowly that the third is late, which says nothing about feeding.
#include "trainer_internal.h"

#include <fedgate/fault.h>

enum {
    WINDOW_STEPS = 20,
    WINDOW_LAUNCHES = 4,
    WINDOW_LAUNCHES_LEAST = 2,
    WINDOW_SHARE = 64,
    WINDOWS_LEAST = 4,
    LAUNCHES_BEFORE = 8,
    WINDOW_LEAD = 3   // launches
};

static int64_t at_least(int64_t value, int64_t least)
{
    return value > least ? value : least;
}

static int64_t at_most(int64_t value, int64_t most)
{
    return value < most ? value : most;
}

void windows_plan(Windows *windows, int64_t done, int64_t left, int64_t launch_steps, int64_t per_epoch)
{
    int64_t launches = at_least(left / launch_steps, 1),
            most = at_least(launches / 2, at_most(launches, WINDOW_LAUNCHES_LEAST)),
            each = at_least(WINDOW_LAUNCHES, (WINDOW_STEPS + launch_steps - 1) / launch_steps);
    if (WINDOWS_LEAST * each > most)
        each = at_most(at_least(most / WINDOWS_LEAST, WINDOW_LAUNCHES_LEAST), most);
    int64_t count = at_least(launches / (WINDOW_SHARE * each), WINDOWS_LEAST);
    count = at_most(at_most(count, TRACE_WINDOWS), most / each);
    int64_t before = at_most(LAUNCHES_BEFORE, launches / 8) * launch_steps,
            lead = at_most(at_least(2 * launches / 3 / count - each, 0), WINDOW_LEAD),
            fit = per_epoch / launch_steps;   // launches between two validations
    if (fit >= WINDOW_LAUNCHES_LEAST && lead + each > fit) {
        each = at_most(each, at_least(fit - WINDOW_LEAD, WINDOW_LAUNCHES_LEAST));
        lead = at_most(lead, fit - each);
    }
    *windows = (Windows){.length = each * launch_steps,
                         .lead = lead * launch_steps,
                         .period = (left - before) / count,
                         .next = done + before,
                         .planned = (size_t)count};
}

// One is late when it waited for two periods, or when there would be no room for it and those that follow.
static bool is_late(const Meter *meter, int64_t step)
{
    const Windows *windows = &meter->windows;
    int64_t left = (int64_t)(windows->planned - windows->count), room = meter->planned - step;
    return step >= windows->next + 2 * windows->period ||
           room < left * (windows->lead + windows->length) + windows->length / 2;
}

bool windows_due(const Meter *meter, int64_t step, int64_t boundary, bool settled)
{
    const Windows *windows = &meter->windows;
    if (windows->open || windows->count >= windows->planned)
        return false;
    // As it is, but not for the end of an epoch, which is given step by step.
    bool taken = step >= windows->next && is_late(meter, step) && boundary - step >= meter->launch_steps / 2;
    bool fits = step >= windows->next && boundary - step >= windows->lead + windows->length;
    return taken || (settled && fits);
}

bool windows_begin(Meter *meter, Device *device, int64_t step, Error *error)
{
    Windows *windows = &meter->windows;
    int64_t begin_ns = clock_monotonic_ns(clock_real());
    windows->at[windows->count] = (TraceWindow){.first = step + windows->lead};
    windows->open = true;
    device_trace_from(device, step + windows->lead);
    device_trace(device, meter->timeline);
    bool good = device_trace_begin(device, error);
    windows->cost_ns += clock_monotonic_ns(clock_real()) - begin_ns;
    return good;
}

bool windows_over(const Meter *meter, int64_t step)
{
    const Windows *windows = &meter->windows;
    return windows->open && step - windows->at[windows->count].first >= windows->length;
}

// The mark of the step that follows ends the window of the last one.
bool windows_end(Meter *meter, Device *device, int64_t step, Error *error)
{
    Windows *windows = &meter->windows;
    TraceWindow *window = &windows->at[windows->count];
    int64_t begin_ns = clock_monotonic_ns(clock_real());
    device_trace(device, meter->timeline);   // a planted fault may have set it aside
    device_mark_step(device, step);
    bool good = device_trace_end(device, &windows->trust, error) &&
                (device_info(device)->traces || device_synchronise(device, error));
    device_trace(device, NULL);
    device_trace_from(device, 0);
    window->from_ns = meter->device_steps.ended_ns[window->first % STEP_ENDED];
    window->to_ns = meter->device_steps.ended_ns[(step - 1) % STEP_ENDED];
    windows->open = false;
    windows->count++;
    windows->next = at_least(windows->next + windows->period, step);
    windows->cost_ns += clock_monotonic_ns(clock_real()) - begin_ns;
    return good;
}

void windows_note(Meter *meter, const Network *network, const FeedBatch *batches, int64_t step, int64_t count,
                  int64_t given_ns)
{
    Windows *windows = &meter->windows;
    TraceWindow *window = &windows->at[windows->count];
    if (!windows->open || step < window->first)
        return;
    for (int64_t i = window->steps == 0 ? 1 : 0; i < count; i++) {
        window->flop +=
            network_flop(network, batches[i].rows, false) + network_flop(network, batches[i].rows, true);
        window->bytes +=
            network_bytes(network, batches[i].rows, false) + network_bytes(network, batches[i].rows, true);
    }
    window->steps += count;
    window->given_ns += given_ns;
}
