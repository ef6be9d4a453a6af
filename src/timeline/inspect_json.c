// inspect_json - the entries of "fedgate.inspect/1": one for each device of a trace.
//
// The keys up to `trust` are the contract; what follows says more. Absent figures are null, never 0.
#include "inspect_internal.h"

#include <fedgate/json.h>
#include <math.h>

static void put_ratio(Json *object, const char *key, int64_t part, int64_t whole)
{
    if (whole > 0) {
        json_put_number(object, key, (double)part / (double)whole);
    } else {
        json_put(object, key, NULL);
    }
}

static Json *steps_of(const DeviceReport *device)
{
    Json *rows = json_make_array();
    for (size_t i = 0; i < device->step_count; i++) {
        const StepOverlap *step = &device->steps[i];
        Json *row = json_make_object();
        json_put_integer(row, "index", step->index);
        json_put_integer(row, "length_ns", step->length_ns);
        put_ratio(row, "hidden_ratio", step->hidden_ns, step->copy_ns);
        put_ratio(row, "busy_ratio", step->busy_ns, step->length_ns);
        if (device->waits_marked) {
            json_put_integer(row, "wait_ns", step->wait_ns);
        } else {
            json_put(row, "wait_ns", NULL);
        }
        json_put_integer(row, "begin_ns", step->begin_ns);
        json_put_integer(row, "copy_ns", step->copy_ns);
        json_put_integer(row, "hidden_ns", step->hidden_ns);
        json_put_integer(row, "kernel_ns", step->kernel_ns);
        json_put_integer(row, "busy_ns", step->busy_ns);
        json_put_integer(row, "starved_ns", step->starved_ns);
        json_put_integer(row, "h2d_bytes", step->h2d_bytes);
        json_put_integer(row, "pageable_bytes", step->pageable_bytes);
        json_put_bool(row, "warmup", i < device->warmup);
        json_add(rows, row);
    }
    return rows;
}

static Json *host_steps_of(const DeviceReport *device)
{
    Json *rows = json_make_array();
    for (size_t i = 0; i < device->host_step_count; i++) {
        const HostStep *step = &device->host_steps[i];
        Json *row = json_make_object();
        json_put_integer(row, "index", step->index);
        json_put_integer(row, "length_ns", step->length_ns);
        put_ratio(row, "hidden_ratio", step->hidden_ns, step->copy_ns);
        put_ratio(row, "busy_ratio", step->busy_ns, step->length_ns);
        put_ratio(row, "wait_ratio", device->waits_marked ? step->wait_ns : 0,
                  device->waits_marked ? step->length_ns : 0);
        json_add(rows, row);
    }
    return rows;
}

static size_t listed_gaps(const DeviceReport *device)
{
    return device->starved_count < INSPECT_LISTED_MOST ? device->starved_count : INSPECT_LISTED_MOST;
}

static Json *gaps_of(const DeviceReport *device)
{
    Json *rows = json_make_array();
    for (size_t i = 0; i < listed_gaps(device); i++) {
        Json *row = json_make_object();
        json_put_integer(row, "begin_ns", device->starved[i].begin_ns);
        json_put_integer(row, "length_ns", device->starved[i].length_ns);
        json_put_text(row, "cause", gap_cause_names[device->starved[i].cause]);
        json_add(rows, row);
    }
    return rows;
}

static Json *trust_of(const DeviceReport *device)
{
    Json *trust = json_make_object();
    Json *reasons = json_make_array();
    json_put_integer(trust, "dropped", device->trust.dropped);
    json_put_integer(trust, "zero_timestamps", device->trust.zero_timestamps);
    json_put_integer(trust, "causality", device->trust.causality);
    for (size_t i = 0; i < device->reason_count; i++) {
        json_add_text(reasons, device->reasons[i]);
    }
    json_put(trust, "reasons", reasons);
    return trust;
}

static Json *exposed_of(const DeviceReport *device)
{
    Json *rows = json_make_array();
    for (size_t i = 0; i < device->exposed_count && i < INSPECT_LISTED_MOST; i++) {
        const ExposedCopy *copy = &device->exposed[i];
        Json *row = json_make_object();
        json_put_integer(row, "begin_ns", copy->begin_ns);
        json_put_integer(row, "length_ns", copy->length_ns);
        json_put_integer(row, "exposed_ns", copy->exposed_ns);
        json_put_integer(row, "bytes", copy->bytes);
        json_put_integer(row, "stream", copy->stream);
        json_put_text(row, "memory", memory_names[copy->memory]);
        json_put_text(row, "cause", exposed_cause_names[copy->cause]);
        json_add(rows, row);
    }
    return rows;
}

static Json *copies_of(const DeviceReport *device)
{
    Json *rows = json_make_array();
    for (size_t kind = 0; kind < INSPECT_COPY_KINDS; kind++) {
        for (size_t memory = 0; memory < MEMORY_KIND_COUNT; memory++) {
            const CopyTotal *total = &device->totals[kind][memory];
            if (total->count == 0) {
                continue;
            }
            Json *row = json_make_object();
            json_put_text(row, "direction", copy_names[kind]);
            json_put_text(row, "memory", memory_names[memory]);
            json_put_integer(row, "count", total->count);
            json_put_integer(row, "bytes", total->bytes);
            json_put_integer(row, "time_ns", total->ns);
            put_ratio(row, "bytes_per_ns", total->bytes, total->ns);
            json_add(rows, row);
        }
    }
    return rows;
}

static Json *synchronisations_of(const CallFigures *calls)
{
    Json *rows = json_make_array();
    for (size_t i = 0; i < SYNC_NONE; i++) {
        if (calls->sync_count[i] > 0) {
            Json *row = json_make_object();
            json_put_text(row, "of", sync_names[i]);
            json_put_integer(row, "count", calls->sync_count[i]);
            json_put_integer(row, "time_ns", calls->sync_ns[i]);
            json_add(rows, row);
        }
    }
    return rows;
}

// Host-to-device copies of at least 1 MiB beside their calls, and copies to the host.
static Json *calls_of(const CallFigures *calls)
{
    Json *object = json_make_object();
    json_put(object, "synchronisations", synchronisations_of(calls));
    json_put_integer(object, "batch_waits", calls->wait_count);
    json_put_integer(object, "batch_wait_ns", calls->wait_ns);
    json_put_integer(object, "large_copies", calls->large);
    put_ratio(object, "large_call_per_copy_time", calls->large_call_ns, calls->large_copy_ns);
    json_put_number(object, "large_call_median_ns", calls->large_call_median_ns);
    json_put_number(object, "large_copy_median_ns", calls->large_copy_median_ns);
    json_put_integer(object, "large_call_longest_ns", calls->large_call_longest_ns);
    json_put_integer(object, "h2d_called", calls->h2d);
    json_put_integer(object, "h2d_inside_call", calls->h2d_inside);
    json_put_integer(object, "h2d_from_100us", calls->medium);
    json_put_integer(object, "h2d_from_100us_under_half_hidden", calls->medium_exposed);
    json_put_integer(object, "d2h_called", calls->d2h);
    json_put_integer(object, "d2h_inside_call", calls->d2h_inside);
    json_put_integer(object, "d2h_call_longest_ns", calls->d2h_call_longest_ns);
    json_put_integer(object, "async_host_copies", calls->async_copies);
    json_put_integer(object, "async_host_copies_pageable", calls->async_pageable);
    json_put_integer(object, "operations_without_call", calls->uncorrelated);
    json_put_integer(object, "memory_calls_after_warmup", calls->memory_count);
    json_put_integer(object, "memory_calls_after_warmup_ns", calls->memory_ns);
    return object;
}

static Json *rules_of(const DeviceReport *device)
{
    static const char *const names[OVERLAP_RULE_COUNT] = {"steps",   "bound",    "bulk",
                                                          "starved", "pageable", "trend"};
    Json *rows = json_make_array();
    for (int i = 0; i < OVERLAP_RULE_COUNT && device->ruling.steps > 0; i++) {
        Json *row = json_make_object();
        json_put_text(row, "rule", names[i]);
        double value = device->ruling.value[i];
        json_put(row, "value", isfinite(value) ? json_make_number(value) : NULL);
        json_put_number(row, "limit", device->ruling.limit[i]);
        json_put_integer(row, "n", (int64_t)device->ruling.n[i]);
        json_put_bool(row, "holds", overlap_holds(&device->ruling, (OverlapRule)i));
        json_add(rows, row);
    }
    return rows;
}

static void put_more(const Inspection *inspection, const DeviceReport *device, Json *entry)
{
    Json *notes = json_make_array();
    json_put_integer(entry, "devices", (int64_t)inspection->store.devices);
    if (device->number >= 0) {
        json_put_integer(entry, "device", device->number);
    } else {
        json_put(entry, "device", NULL);
    }
    json_put_integer(entry, "warmup_steps", (int64_t)device->warmup);
    json_put_number(entry, "floor", inspection->limits.floor);
    json_put(entry, "rules", rules_of(device));
    for (size_t i = 0; i < device->note_count; i++) {
        json_add_text(notes, device->notes[i]);
    }
    json_put(entry, "notes", notes);
    json_put(entry, "host_steps", host_steps_of(device));
    json_put_integer(entry, "events", inspection->store.events);
    json_put_integer(entry, "kernels", device->kernels);
    json_put_integer(entry, "communication_kernels", device->communication);
    json_put_integer(entry, "zero_length_kernels", device->empty);
    json_put_integer(entry, "copies", device->copies);
    json_put_integer(entry, "memsets", device->memsets);
    json_put_integer(entry, "streams", device->streams);
    json_put_integer(entry, "kernel_busy_without_communication_ns", device->own_kernel_ns);
    json_put_integer(entry, "h2d_hidden_without_communication_ns", device->h2d_hidden_own_ns);
    json_put_integer(entry, "pageable_h2d_ns", device->pageable_ns);
    json_put_integer(entry, "pageable_by_ratio", device->pageable_by_ratio);
    json_put(entry, "copy_totals", copies_of(device));
    json_put_integer(entry, "starved_ns", device->starved_ns);
    json_put_integer(entry, "starved_count", (int64_t)device->starved_count);
    json_put_integer(entry, "starved_least_ns", device->work.starved_least_ns);
    json_put_integer(entry, "idle_gaps", device->gaps);
    json_put_integer(entry, "idle_gap_longest_ns", device->gap_longest_ns);
    json_put_integer(entry, "idle_gaps_from_1ms", device->gaps_long);
    json_put_integer(entry, "idle_gaps_from_1ms_ns", device->gaps_long_ns);
    json_put(entry, "exposed_copies", exposed_of(device));
    json_put_integer(entry, "exposed_copies_count", (int64_t)device->exposed_count);
    json_put_integer(entry, "small_copies", device->small_copies);
    json_put_integer(entry, "small_copies_exposed_ns", device->small_exposed_ns);
    json_put(entry, "calls", calls_of(&device->calls));
}

static Json *entry_of(const Inspection *inspection, const DeviceReport *device)
{
    Json *entry = json_make_object();
    json_put_text(entry, "file", inspection->path);
    json_put_text(entry, "verdict", overlap_word(device->word));
    json_put_text(entry, "reason", device->reason);
    json_put(entry, "steps", steps_of(device));
    json_put_integer(entry, "span_ns", device->span_ns);
    json_put_integer(entry, "kernel_busy_ns", device->kernel_ns);
    json_put_integer(entry, "any_busy_ns", device->busy_ns);
    put_ratio(entry, "idle_ratio", device->span_ns - device->busy_ns, device->span_ns);
    put_ratio(entry, "idle_kernels_ratio", device->span_ns - device->kernel_ns, device->span_ns);
    json_put_integer(entry, "h2d_ns", device->h2d_ns);
    json_put_integer(entry, "h2d_hidden_ns", device->h2d_hidden_ns);
    put_ratio(entry, "hidden_ratio", device->h2d_hidden_ns, device->h2d_ns);
    json_put_integer(entry, "h2d_bytes", device->h2d_bytes);
    json_put_integer(entry, "pageable_h2d_bytes", device->pageable_bytes);
    json_put(entry, "gaps", gaps_of(device));
    json_put(entry, "trust", trust_of(device));
    put_more(inspection, device, entry);
    return entry;
}

void inspection_put_json(const Inspection *inspection, Json *traces)
{
    for (size_t i = 0; i < inspection->device_count; i++) {
        json_add(traces, entry_of(inspection, &inspection->devices[i]));
    }
}
