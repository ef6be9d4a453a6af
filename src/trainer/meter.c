// meter - collects the times of steps, what was launched inside each claim, and live memory; turns them into
// evidence.
//
// Runs of up to METER_STEPS steps are recorded whole; longer ones in evenly spaced windows. Every span of a
// step has two timestamps of its own: what no span covers stays uncovered, and the closure judge sees it.
#include "trainer_internal.h"

#include <fedgate/json.h>
#include <stdlib.h>

enum { METER_STEPS = 20000, METER_WINDOW = 100, METER_LIVE = 2000, METER_SPANS = 4 * 1000 * 1000 };

static const char *const rest_names[REST_COUNT] = {
    [REST_HAND_OVER] = "hand_over",
    [REST_BOOKKEEPING] = "bookkeeping",
};
static const char *const claim_names[CLAIM_COUNT] = {
    [CLAIM_FORWARD] = "forward",
    [CLAIM_BACKWARD] = "backward",
    [CLAIM_STEP] = "training step",
};

bool meter_init(Meter *meter, int64_t planned, int64_t done, Error *error)
{
    int64_t left = planned > done ? planned - done : 1;
    *meter = (Meter){
        .planned = planned, .window = METER_WINDOW, .live_every = (left + METER_LIVE - 1) / METER_LIVE};
    meter->period =
        left <= METER_STEPS ? METER_WINDOW : METER_WINDOW * ((left + METER_STEPS - 1) / METER_STEPS);
    meter->capacity = (size_t)(left < METER_STEPS ? left : METER_STEPS) + METER_WINDOW;
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
    meter->compute_items++;
    meter->waited_ns += times->wait_ns + times->exposed_ns;
    if (meter_traces(meter, times->index) && meter->count < meter->capacity)
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

// Kernels come in the order of their launch, as claims do: one walk through both.
static int64_t kernels_inside(const Timeline *timeline, const Claimed *claimed, Interval *scratch)
{
    const Span *spans = timeline_spans(timeline);
    size_t kept = 0, claim = 0;
    for (size_t i = 0; i < timeline_count(timeline); i++) {
        if (spans[i].kind != SPAN_KERNEL)
            continue;
        while (claim < claimed->count && claimed->at[claim].end < spans[i].launched_ns)
            claim++;
        if (claim < claimed->count && spans[i].launched_ns >= claimed->at[claim].begin)
            scratch[kept++] = (Interval){spans[i].begin, spans[i].end};
    }
    return interval_length(scratch, interval_union(scratch, kept));
}

static bool put_plausible(const Meter *meter, Json *evidence, Error *error)
{
    Interval *scratch = calloc(timeline_count(meter->timeline) + 1, sizeof *scratch);
    if (!scratch)
        return FAIL(error, ERROR_MEMORY, 0, "could not take memory for %zu spans",
                    timeline_count(meter->timeline));
    Json *claims = json_make_array();
    for (int i = 0; i < CLAIM_COUNT; i++) {
        const Claimed *claimed = &meter->claimed[i];
        if (claimed->count == 0)
            continue;
        Json *claim = json_make_object();
        json_put_text(claim, "name", claim_names[i]);
        json_put_number(claim, "flop", claimed->flop);
        json_put_number(claim, "bytes", claimed->bytes);
        json_put_integer(claim, "time_ns", claimed->time_ns);
        json_put_integer(claim, "kernel_union_ns", kernels_inside(meter->timeline, claimed, scratch));
        json_put_integer(claim, "count", (int64_t)claimed->count);
        json_add(claims, claim);
    }
    free(scratch);
    Json *clock = json_make_object();
    json_put_integer(clock, "host_ns", meter->host_end_ns - meter->host_begin_ns);
    json_put_integer(clock, "device_ns", meter->device_end_ns - meter->device_begin_ns);
    Json *section = outcome_section(evidence, "plausible");
    json_put(section, "claims", claims);
    json_put(section, "clock", clock);
    return true;
}

static void put_series(Json *object, const char *key, const void *first, size_t stride, size_t count)
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
    put_series(steps, "index", &first->index, sizeof *first, meter->count);
    put_series(steps, "wall_ns", &first->wall_ns, sizeof *first, meter->count);
    put_series(steps, "wait_ns", &first->wait_ns, sizeof *first, meter->count);
    put_series(steps, "exposed_copy_ns", &first->exposed_ns, sizeof *first, meter->count);
    put_series(steps, "compute_ns", &first->compute_ns, sizeof *first, meter->count);
    for (int i = 0; i < REST_COUNT; i++)
        put_series(rest, rest_names[i], &first->rest_ns[i], sizeof *first, meter->count);
    json_put(steps, "rest", rest);
    json_put(loop, "steps", steps);
    json_put(evidence, "loop", loop);
}

static bool put_timeline(const Meter *meter, Json *evidence, Error *error)
{
    StepOverlap *steps = NULL;
    size_t count = 0;
    TimelineTrust trust = {0};
    if (!timeline_overlap(meter->timeline, &steps, &count, &trust, error))
        return false;
    Json *timeline = json_make_object(), *arrays = json_make_object(), *trusted = json_make_object(),
         *reasons = json_make_array();
    json_put_text(timeline, "source", "cpu staging thread");
    json_put_bool(timeline, "resident", false);
    json_put_bool(timeline, "step_marks", true);
    const StepOverlap none = {0}, *first = steps ? steps : &none;   // no step was recorded: empty series
    put_series(arrays, "index", &first->index, sizeof *first, count);
    put_series(arrays, "length_ns", &first->length_ns, sizeof *first, count);
    put_series(arrays, "copy_ns", &first->copy_ns, sizeof *first, count);
    put_series(arrays, "hidden_ns", &first->hidden_ns, sizeof *first, count);
    put_series(arrays, "kernel_ns", &first->kernel_ns, sizeof *first, count);
    put_series(arrays, "busy_ns", &first->busy_ns, sizeof *first, count);
    put_series(arrays, "wait_ns", &first->wait_ns, sizeof *first, count);
    put_series(arrays, "starved_ns", &first->starved_ns, sizeof *first, count);
    put_series(arrays, "h2d_bytes", &first->h2d_bytes, sizeof *first, count);
    put_series(arrays, "pageable_bytes", &first->pageable_bytes, sizeof *first, count);
    free(steps);
    json_put(timeline, "steps", arrays);
    json_put_integer(trusted, "dropped", trust.dropped);
    json_put_integer(trusted, "zero_timestamps", trust.zero_timestamps);
    json_put_integer(trusted, "causality", trust.causality);
    if (trust.reason[0] != '\0')
        json_add_text(reasons, trust.reason);
    json_put(trusted, "reasons", reasons);
    json_put(timeline, "trust", trusted);
    json_put(evidence, "timeline", timeline);
    return true;
}

static void put_live(const Meter *meter, Json *evidence)
{
    Json *live = json_make_object();
    json_put_text(live, "phase", "after the optimizer step");
    put_series(live, "index", meter->live_index, sizeof *meter->live_index, meter->live_count);
    put_series(live, "bytes", meter->live_bytes, sizeof *meter->live_bytes, meter->live_count);
    json_put(outcome_section(evidence, "memory"), "live", live);
}

bool meter_evidence(const Meter *meter, Json *evidence, Error *error)
{
    put_loop(meter, evidence);
    put_live(meter, evidence);
    return put_plausible(meter, evidence, error) && put_timeline(meter, evidence, error);
}
