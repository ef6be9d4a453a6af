// meter - collects the times of steps or launches, what was launched inside each claim, and live memory.
//
// Runs of up to METER_STEPS steps are recorded whole; longer ones in evenly spaced windows. Every span of a
// step has two timestamps of its own: what no span covers stays uncovered, and the closure judge sees it.
#include "trainer_internal.h"

#include <fedgate/json.h>
#include <stdlib.h>

enum { METER_STEPS = 20000, METER_WINDOW = 100, METER_LIVE = 2000, METER_SPANS = 4 * 1000 * 1000 };

static const char *const rest_names[REST_COUNT] = {
    [REST_HAND_OVER] = "hand_over",
    [REST_GIVE] = "give",
    [REST_BOOKKEEPING] = "bookkeeping",
};
bool meter_init(Meter *meter, int64_t planned, int64_t done, int64_t launch_steps, int64_t per_epoch,
                Error *error)
{
    int64_t left = planned > done ? planned - done : 1;
    *meter = (Meter){
        .planned = planned, .window = METER_WINDOW, .live_every = (left + METER_LIVE - 1) / METER_LIVE};
    meter->period =
        left <= METER_STEPS ? METER_WINDOW : METER_WINDOW * ((left + METER_STEPS - 1) / METER_STEPS);
    meter->capacity = (size_t)(left < METER_STEPS ? left : METER_STEPS) + METER_WINDOW;
    if (launch_steps > 0) {
        meter->launch_steps = launch_steps;
        meter->every = (left / launch_steps + METER_STEPS) / METER_STEPS;
        windows_plan(&meter->windows, done, left, launch_steps, per_epoch);
    }
    meter->steps = calloc(meter->capacity, sizeof *meter->steps);
    meter->live_index = calloc(METER_LIVE + 1, sizeof *meter->live_index);
    meter->live_bytes = calloc(METER_LIVE + 1, sizeof *meter->live_bytes);
    meter->timeline = timeline_new(METER_SPANS);
    if (meter->steps && meter->live_index && meter->live_bytes && meter->timeline)
        return true;
    meter_done(meter);
    return FAIL(error, ERROR_MEMORY, 0, "could not take memory to record %lld steps", (long long)left);
}

void meter_done(Meter *meter)
{
    free(meter->steps);
    free(meter->live_index);
    free(meter->live_bytes);
    for (int i = 0; i < CLAIM_COUNT; i++)
        free(meter->claimed[i].at);
    timeline_free(meter->timeline);
    *meter = (Meter){0};
}

bool meter_traces(const Meter *meter, int64_t step)
{
    return step % meter->period < meter->window;
}

void meter_step(Meter *meter, const StepTimes *times)
{
    meter->compute_busy_ns += times->compute_ns;
    meter->compute_items += times->steps;
    meter->waited_ns += times->wait_ns + times->exposed_ns;
    bool kept =
        meter->launch_steps > 0 ? meter->launches++ % meter->every == 0 : meter_traces(meter, times->index);
    if (kept && meter->count < meter->capacity)
        meter->steps[meter->count++] = *times;
}

void meter_claim(Meter *meter, Claim claim, Interval launched, int64_t time_ns, double flop, double bytes)
{
    Claimed *claimed = &meter->claimed[claim];
    if (claimed->count == claimed->capacity) {
        size_t wanted = claimed->capacity > 0 ? 2 * claimed->capacity : 1024;
        Interval *grown = realloc(claimed->at, wanted * sizeof *grown);
        if (!grown)
            return;   // one execution less is claimed, times and figures together
        claimed->at = grown;
        claimed->capacity = wanted;
    }
    claimed->at[claimed->count++] = launched;
    claimed->time_ns += time_ns;
    claimed->flop += flop;
    claimed->bytes += bytes;
}

void meter_live(Meter *meter, int64_t step, int64_t bytes)
{
    if (step % meter->live_every != 0 || meter->live_count > METER_LIVE)
        return;
    meter->live_index[meter->live_count] = step;
    meter->live_bytes[meter->live_count++] = bytes;
}

void meter_put_series(Json *object, const char *key, const void *first, size_t stride, size_t count)
{
    Json *array = json_make_array();
    for (size_t i = 0; i < count; i++)
        json_add_integer(array, *(const int64_t *)(const void *)((const char *)first + i * stride));
    json_put(object, key, array);
}

static void put_loop(const Meter *meter, Json *evidence)
{
    Json *steps = json_make_object(), *rest = json_make_object(), *loop = json_make_object();
    const StepTimes *first = meter->steps;
    meter_put_series(steps, "index", &first->index, sizeof *first, meter->count);
    meter_put_series(steps, "wall_ns", &first->wall_ns, sizeof *first, meter->count);
    meter_put_series(steps, "wait_ns", &first->wait_ns, sizeof *first, meter->count);
    meter_put_series(steps, "exposed_copy_ns", &first->exposed_ns, sizeof *first, meter->count);
    meter_put_series(steps, "compute_ns", &first->compute_ns, sizeof *first, meter->count);
    for (int i = 0; i < REST_COUNT; i++)
        if (i != REST_GIVE || meter->launch_steps > 0)   // a step by itself is given while it computes
            meter_put_series(rest, rest_names[i], &first->rest_ns[i], sizeof *first, meter->count);
    if (meter->launch_steps > 0)
        meter_put_series(steps, "steps", &first->steps, sizeof *first, meter->count);
    json_put(steps, "rest", rest);
    json_put(loop, "steps", steps);
    json_put(evidence, "loop", loop);
}

static void put_live(const Meter *meter, Json *evidence)
{
    Json *live = json_make_object();
    json_put_text(live, "phase", "after the optimizer step");
    meter_put_series(live, "index", meter->live_index, sizeof *meter->live_index, meter->live_count);
    meter_put_series(live, "bytes", meter->live_bytes, sizeof *meter->live_bytes, meter->live_count);
    json_put(outcome_section(evidence, "memory"), "live", live);
}

void meter_clocks(Meter *meter, int64_t host_ns)
{
    if (meter->clock_host_ns[0] == 0) {
        meter->clock_host_ns[0] = host_ns;
        meter->clock_device_ns[0] = meter->device_steps.last_ns;
    }
    meter->clock_host_ns[1] = host_ns;
    meter->clock_device_ns[1] = meter->device_steps.last_ns;
}

bool meter_evidence(const Trainer *trainer, Json *evidence, Error *error)
{
    const Meter *meter = &trainer->meter;
    put_loop(meter, evidence);
    put_live(meter, evidence);
    return meter_put_spans(trainer, evidence, error);
}
