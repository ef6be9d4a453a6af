// meter_timeline - what a run's timeline says as evidence: overlap step by step, its trust, every step by the
// device's own clock, and the claims that the spans must bear out.
#include "trainer_internal.h"

#include <fedgate/fault.h>
#include <fedgate/json.h>
#include <stdlib.h>

static const char *const claim_names[CLAIM_COUNT] = {
    [CLAIM_FORWARD] = "forward",
    [CLAIM_BACKWARD] = "backward",
    [CLAIM_STEP] = "training step",
};

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

static void put_claim(Json *claims, Claim which, const Claimed *claimed, int64_t kernel_union_ns)
{
    Json *claim = json_make_object();
    json_put_text(claim, "name", claim_names[which]);
    json_put_number(claim, "flop", claimed->flop);
    json_put_number(claim, "bytes", claimed->bytes);
    json_put_integer(claim, "time_ns", claimed->time_ns);
    json_put_integer(claim, "kernel_union_ns", kernel_union_ns);
    json_put_integer(claim, "count", (int64_t)claimed->count);
    json_add(claims, claim);
}

static bool put_claims(const Meter *meter, Json *claims, Error *error)
{
    Interval *scratch = calloc(timeline_count(meter->timeline) + 1, sizeof *scratch);
    if (!scratch)
        return FAIL(error, ERROR_MEMORY, 0, "could not take memory for %zu spans",
                    timeline_count(meter->timeline));
    for (int i = 0; i < CLAIM_COUNT; i++)
        if (meter->claimed[i].count > 0)
            put_claim(claims, (Claim)i, &meter->claimed[i],
                      kernels_inside(meter->timeline, &meter->claimed[i], scratch));
    free(scratch);
    return true;
}

// From the end of a window's first step to the end of its last, by the device's clock. All kernels of the
// steps between the two ran in that time, so they can never be longer than an honest claim.
static void put_window_claims(const Meter *meter, const StepOverlap *steps, size_t count, Json *claims)
{
    const Windows *windows = &meter->windows;
    const bool unsynchronised = fault_set("train.unsynchronised");
    Claimed all = {0};
    int64_t kernel_ns = 0;
    for (size_t w = 0; w < windows->count; w++) {
        const TraceWindow *window = &windows->at[w];
        int64_t length_ns = window->to_ns - window->from_ns;
        if (window->steps < 3 || length_ns <= 0)
            continue;
        for (size_t i = 0; i < count; i++)
            if (steps[i].index > window->first && steps[i].index < window->first + window->steps - 1)
                kernel_ns += steps[i].kernel_ns;
        all.count += (size_t)window->steps - 1;
        all.time_ns += unsynchronised ? window->given_ns : length_ns;   // planted: when the work was given
        all.flop += window->flop;
        all.bytes += window->bytes;
    }
    if (all.count > 0)
        put_claim(claims, CLAIM_STEP, &all, kernel_ns);
}

static bool put_plausible(const Meter *meter, const StepOverlap *steps, size_t count, Json *evidence,
                          Error *error)
{
    const bool launches = meter->launch_steps > 0;
    Json *claims = json_make_array(), *clock = json_make_object(),
         *section = outcome_section(evidence, "plausible");
    json_put(section, "claims", claims);
    json_put(section, "clock", clock);
    json_put_integer(clock, "host_ns",
                     launches ? meter->clock_host_ns[1] - meter->clock_host_ns[0]
                              : meter->host_end_ns - meter->host_begin_ns);
    json_put_integer(clock, "device_ns",
                     launches ? meter->clock_device_ns[1] - meter->clock_device_ns[0]
                              : meter->device_end_ns - meter->device_begin_ns);
    if (launches)
        put_window_claims(meter, steps, count, claims);
    return launches || put_claims(meter, claims, error);
}

// -- timeline

static Json *put_steps(const StepOverlap *first, size_t count)
{
    Json *arrays = json_make_object();
    meter_put_series(arrays, "index", &first->index, sizeof *first, count);
    meter_put_series(arrays, "length_ns", &first->length_ns, sizeof *first, count);
    meter_put_series(arrays, "copy_ns", &first->copy_ns, sizeof *first, count);
    meter_put_series(arrays, "hidden_ns", &first->hidden_ns, sizeof *first, count);
    meter_put_series(arrays, "kernel_ns", &first->kernel_ns, sizeof *first, count);
    meter_put_series(arrays, "busy_ns", &first->busy_ns, sizeof *first, count);
    meter_put_series(arrays, "wait_ns", &first->wait_ns, sizeof *first, count);
    meter_put_series(arrays, "starved_ns", &first->starved_ns, sizeof *first, count);
    meter_put_series(arrays, "h2d_bytes", &first->h2d_bytes, sizeof *first, count);
    meter_put_series(arrays, "pageable_bytes", &first->pageable_bytes, sizeof *first, count);
    return arrays;
}

static Json *put_windows(const Windows *windows, const StepOverlap *steps, size_t count)
{
    Json *array = json_make_array();
    for (size_t w = 0; w < windows->count; w++) {
        const TraceWindow *window = &windows->at[w];
        int64_t begin_ns = 0, length_ns = 0, starved_ns = 0;
        for (size_t i = 0; i < count; i++) {
            if (steps[i].index < window->first || steps[i].index >= window->first + window->steps)
                continue;
            begin_ns = length_ns == 0 ? steps[i].begin_ns : begin_ns;
            length_ns += steps[i].length_ns;
            starved_ns += steps[i].starved_ns;
        }
        if (length_ns == 0)
            continue;
        Json *json = json_make_object();
        json_put_integer(json, "begin_ns", begin_ns);
        json_put_integer(json, "length_ns", length_ns);
        json_put_integer(json, "starved_ns", starved_ns);
        json_add(array, json);
    }
    return array;
}

static Json *put_trust(const TimelineTrust *trust, const FedgateTraceTrust *traced)
{
    Json *json = json_make_object(), *reasons = json_make_array();
    json_put_integer(json, "dropped", trust->dropped + traced->dropped);
    json_put_integer(json, "zero_timestamps", trust->zero_timestamps + traced->zero_timestamps);
    json_put_integer(json, "causality", trust->causality + traced->causality);
    if (trust->reason[0] != '\0')
        json_add_text(reasons, trust->reason);
    if (traced->reason[0] != '\0')
        json_add_text(reasons, traced->reason);
    json_put(json, "reasons", reasons);
    return json;
}

// What the profiler says of itself, in the windows.
static Json *put_observer(const FedgateTraceTrust *traced)
{
    Json *json = json_make_object();
    json_put_integer(json, "overheads", traced->overheads);
    json_put_integer(json, "overhead_ns", traced->overhead_ns);
    return json;
}

bool meter_put_spans(const Trainer *trainer, Json *evidence, Error *error)
{
    const Meter *meter = &trainer->meter;
    StepOverlap *steps = NULL;
    size_t count = 0;
    TimelineTrust trust = {0};
    if (!timeline_overlap(meter->timeline, &steps, &count, &trust, error))
        return false;
    const StepOverlap none = {0};   // no step was recorded: empty series
    Json *timeline = json_make_object();
    json_put_text(timeline, "source", device_info(trainer->spec.device)->timeline);
    json_put_bool(timeline, "resident",   // modelled copies are none of resident rows
                  !trainer->simulated && config_bool(trainer->config, "input.resident"));
    json_put_bool(timeline, "step_marks", true);
    json_put(timeline, "steps", put_steps(steps ? steps : &none, count));
    json_put(timeline, "trust", put_trust(&trust, &meter->windows.trust));
    if (meter->launch_steps > 0) {
        json_put(timeline, "sampled_windows", put_windows(&meter->windows, steps, count));
        json_put(timeline, "device_steps", device_steps_evidence(&meter->device_steps));
        json_put_integer(timeline, "observation_ns", meter->windows.cost_ns);
        json_put(timeline, "observer", put_observer(&meter->windows.trust));
    }
    json_put(evidence, "timeline", timeline);
    bool good = put_plausible(meter, steps, count, evidence, error);
    free(steps);
    return good;
}

// Of launches the host sees only how long it waited: what kernels take of the traced steps stands for all.
int64_t meter_compute_busy(const Meter *meter)
{
    StepOverlap *steps = NULL;
    size_t count = 0;
    TimelineTrust trust;
    Error ignored = ERROR_INIT;
    if (meter->launch_steps == 0 || !timeline_overlap(meter->timeline, &steps, &count, &trust, &ignored))
        return meter->compute_busy_ns;
    double kernel_ns = 0;
    for (size_t i = 0; i < count; i++)
        kernel_ns += (double)steps[i].kernel_ns;
    free(steps);
    return count > 0 ? (int64_t)(kernel_ns / (double)count * (double)meter->compute_items)
                     : meter->compute_busy_ns;
}
