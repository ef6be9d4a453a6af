// selftest - each night the gate is shown known-bad candidates made from tonight's own evidence; it must
// refuse them all.
//
// A variant names its check, copies the sections that check reads, and spoils them. It counts as refused when
// its check does not pass. One whole candidate that fails everything is judged as well, so that the lattice
// is proven with the judges.
#include "gate_internal.h"

#include <fedgate/text.h>
#include <stdio.h>

#include <string.h>

// -- spoiling. Variants write whole sections where the night may not have measured one, so that they are
// always bad.

static Json *repeat(int64_t value, size_t count)
{
    Json *array = json_make_array();
    for (size_t i = 0; i < count; i++) {
        json_add_integer(array, value);
    }
    return array;
}

static Json *rising(int64_t first, int64_t by, size_t count)
{
    Json *array = json_make_array();
    for (size_t i = 0; i < count; i++) {
        json_add_integer(array, first + by * (int64_t)i);
    }
    return array;
}

enum { PLANTED_STEPS = 60 };

// A timeline of steady steps of 1 ms, each with a copy of 0.3 ms, `hidden` ns of it under kernels of 0.4 ms.
static Json *planted_timeline(int64_t hidden, int64_t starved, int64_t pageable, size_t steps)
{
    const struct {
        const char *key;
        int64_t value;
    } series[] = {
        {"length_ns", 1000000},   {"copy_ns", 300000},         {"hidden_ns", hidden}, {"kernel_ns", 400000},
        {"busy_ns", 700000 - hidden}, {"starved_ns", starved}, {"wait_ns", 0},        {"h2d_bytes", 1000},
        {"pageable_bytes", pageable}};
    Json *timeline = json_make_object();
    Json *columns = json_make_object();
    for (size_t i = 0; i < sizeof series / sizeof series[0]; i++) {
        json_put(columns, series[i].key, repeat(series[i].value, steps));
    }
    json_put(columns, "index", rising(0, 1, steps));
    Json *trust = json_make_object();
    json_put_integer(trust, "dropped", 0);
    json_put_integer(trust, "zero_timestamps", 0);
    json_put_integer(trust, "causality", 0);
    json_put(trust, "reasons", json_make_array());
    json_put_bool(timeline, "resident", false);
    json_put_bool(timeline, "step_marks", true);
    json_put(timeline, "steps", columns);
    json_put(timeline, "trust", trust);
    return timeline;
}

static void no_copy_hidden(Json *bad)
{
    json_put(bad, "timeline", planted_timeline(0, 0, 0, PLANTED_STEPS));
}

static void device_starves(Json *bad)
{
    json_put(bad, "timeline", planted_timeline(300000, 600000, 0, PLANTED_STEPS));
}

static void all_pageable(Json *bad)
{
    json_put(bad, "timeline", planted_timeline(300000, 0, 1000, PLANTED_STEPS));
}

static void no_step_recorded(Json *bad)
{
    json_put(bad, "timeline", planted_timeline(300000, 0, 0, 0));
}

// The member `key` of the object at `dotted`, for writing; sections on the way are made when absent.
static Json *open_object(Json *root, const char *first, const char *second)
{
    const char *path[] = {first, second};
    Json *at = root;
    for (size_t i = 0; i < 2 && path[i] != NULL; i++) {
        if (!json_is_object(json_get(at, path[i]))) {
            json_put(at, path[i], json_make_object());
        }
        at = (Json *)(uintptr_t)json_get(at, path[i]);   // ours: the variant is a copy
    }
    return at;
}

static void always_waiting(Json *bad)
{
    Json *steps = open_object(bad, "loop", "steps");
    json_put(steps, "index", rising(0, 1, PLANTED_STEPS));
    json_put(steps, "wall_ns", repeat(1000000, PLANTED_STEPS));
    json_put(steps, "wait_ns", repeat(600000, PLANTED_STEPS));
    json_put(steps, "rest", json_make_object());
}

static void unmeasured_time(Json *bad)
{
    Json *steps = open_object(bad, "loop", "steps");
    json_put(steps, "index", rising(0, 1, PLANTED_STEPS));
    const char *const spans[] = {"wait_ns", "exposed_copy_ns", "compute_ns"};
    for (size_t i = 0; i < sizeof spans / sizeof spans[0]; i++) {
        json_put(steps, spans[i], repeat(200000, PLANTED_STEPS));
    }
    json_put(steps, "wall_ns", repeat(1000000, PLANTED_STEPS));
    json_put(steps, "rest", json_make_object());
}

static void residual_span(Json *bad)
{
    unmeasured_time(bad);
    json_put(open_object(open_object(bad, "loop", "steps"), "rest", NULL), "other",
             repeat(400000, PLANTED_STEPS));
}

static void plant_claim(Json *bad, int64_t time_ns, int64_t kernel_union_ns)
{
    Json *claim = json_make_object();
    json_put_text(claim, "name", "planted");
    json_put_number(claim, "flop", 1e24);
    json_put_number(claim, "bytes", 1);
    json_put_integer(claim, "time_ns", time_ns);
    json_put_integer(claim, "kernel_union_ns", kernel_union_ns);
    json_put_integer(claim, "count", 1);
    Json *claims = json_make_array();
    json_add(claims, claim);
    json_put(open_object(bad, "plausible", NULL), "claims", claims);
}

static void faster_than_peak(Json *bad)
{
    plant_claim(bad, 1000, 1000);
}

static void stopped_timer(Json *bad)
{
    plant_claim(bad, 1000, 2000000);
}

static void over_budget(Json *bad)
{
    json_put_integer(open_object(bad, "memory", NULL), "measured_peak_bytes", INT64_C(1) << 60);
}

static void leak(Json *bad)
{
    Json *live = open_object(bad, "memory", "live");
    json_put(live, "index", rising(0, 1, PLANTED_STEPS));
    json_put(live, "bytes", rising(1000000, 4096, PLANTED_STEPS));
}

static void nan_probe(Json *bad)
{
    Json *probes = json_make_array();
    for (int i = 0; i < 2; i++) {
        Json *probe = json_make_object();
        json_put_text(probe, "name", i == 0 ? "planted" : "planted again");
        json_put_text(probe, "shape", "1x1x1");
        json_put_text(probe, "unit", "relative");
        json_put_number(probe, "error", NAN);
        json_put_number(probe, "limit", 1e-5);
        json_add(probes, probe);
    }
    json_put(open_object(bad, "parity", NULL), "probes", probes);
}

static void other_bits(Json *bad)
{
    static const char *const digests[] = {"0000000000000000000000000000000000000000000000000000000000000000",
                                          "0000000000000000000000000000000000000000000000000000000000000001"};
    Json *replays = json_make_array();
    for (int64_t i = 0; i < 2; i++) {
        Json *tensor = json_make_object();
        json_put_text(tensor, "name", "planted");
        json_put_text(tensor, "first", digests[0]);
        json_put_text(tensor, "again", digests[i]);
        Json *tensors = json_make_array();
        json_add(tensors, tensor);
        Json *replay = json_make_object();
        json_put_integer(replay, "from_step", i);
        json_put_integer(replay, "steps", INT64_MAX);
        json_put(replay, "tensors", tensors);
        json_add(replays, replay);
    }
    json_put(open_object(bad, "determinism", NULL), "replays", replays);
}

static void stopped_early(Json *bad)
{
    json_put_bool(open_object(bad, "window", NULL), "stopped_early", true);
}

static void after_deadline(Json *bad)
{
    Json *window = open_object(bad, "window", NULL);
    json_put_integer(window, "now_wall_ns", json_integer_or(json_get(window, "deadline_wall_ns"), 1) + 1);
}

// Every pair gets the same spoiled member, and what it must agree with.
static void spoil_pairs(Json *bad, bool identical, double value, double difference)
{
    Json *quality = open_object(bad, "quality", NULL);
    Json *pairs = json_make_array();
    const char *const against[] = {"rule", "prior", "linear", "live"};
    for (size_t i = 0; i < sizeof against / sizeof against[0]; i++) {
        Json *pair = json_make_object();
        json_put_text(pair, "against", against[i]);
        json_put_number(pair, "value_a", value);
        json_put_number(pair, "value_b", 0.7);
        json_put_number(pair, "difference", difference);
        json_put_number(pair, "standard_error", 0);
        json_put_number(pair, "lower", difference);
        json_put_number(pair, "upper", difference);
        json_put_integer(pair, "rows", 1000);
        json_put_bool(pair, "identical", identical);
        json_put_bool(pair, "constant", false);
        json_put_number(pair, "utility_a", 0.1);
        json_put_number(pair, "utility_b", 0.1);
        json_add(pairs, pair);
    }
    json_put_text(bad, "task", "binary");
    json_put_integer(quality, "rows", 1000);
    json_put_text(quality, "metric", "auc");
    json_put_text(quality, "live_kind", "none");
    json_put(quality, "pairs", pairs);
    json_remove(quality, "models");
    json_remove(quality, "invalid");
    json_put(quality, "slices", json_make_array());
}

static void nan_metric(Json *bad)
{
    spoil_pairs(bad, false, NAN, NAN);
}

static void copy_of_baseline(Json *bad)
{
    spoil_pairs(bad, true, 0.7, 0);
}

static void no_better(Json *bad)
{
    spoil_pairs(bad, false, 0.7, 0);
}

static void leaking_column(Json *bad)
{
    Json *column = json_make_object();
    json_put_text(column, "name", "planted");
    json_put_text(column, "role", "numeric");
    json_put_bool(column, "constant", true);
    json_put_number(column, "missing_ratio", NAN);
    Json *columns = json_make_array();
    json_add(columns, column);
    json_put(open_object(bad, "input", NULL), "columns", columns);
}

static void rows_lost(Json *bad)
{
    Json *telemetry = open_object(bad, "telemetry", NULL);
    json_put_integer(telemetry, "rows", 100);
    json_put_integer(telemetry, "acknowledged", 99);
}

static const struct {
    const char *name, *check;
    void (*spoil)(Json *bad);   // NULL: the sections are left out altogether
} variants[] = {
    {"overlap.exposed", "overlap", no_copy_hidden},
    {"overlap.starved", "overlap", device_starves},
    {"overlap.pageable", "overlap", all_pageable},
    {"overlap.empty", "overlap", no_step_recorded},
    {"fed.waiting", "fed", always_waiting},
    {"plausible.peak", "plausible", faster_than_peak},
    {"plausible.timer", "plausible", stopped_timer},
    {"closure.unmeasured", "closure", unmeasured_time},
    {"closure.other", "closure", residual_span},
    {"memory.budget", "memory", over_budget},
    {"memory.leak", "memory", leak},
    {"parity.nan", "parity", nan_probe},
    {"determinism.bits", "determinism", other_bits},
    {"window.stopped", "window", stopped_early},
    {"window.deadline", "window", after_deadline},
    {"quality.nan", "quality", nan_metric},
    {"quality.copy", "quality", copy_of_baseline},
    {"quality.no_better", "quality", no_better},
    {"input.column", "input", leaking_column},
    {"telemetry.lost", "telemetry", rows_lost},
    {"overlap.absent", "overlap", NULL},
    {"fed.absent", "fed", NULL},
    {"plausible.absent", "plausible", NULL},
    {"closure.absent", "closure", NULL},
    {"memory.absent", "memory", NULL},
    {"parity.absent", "parity", NULL},
    {"determinism.absent", "determinism", NULL},
    {"window.absent", "window", NULL},
    {"quality.absent", "quality", NULL},
    {"input.absent", "input", NULL},
    {"telemetry.absent", "telemetry", NULL},
};

// The sections a check reads, and nothing else of the evidence.
static Json *copy_sections(const Json *evidence, const char *sections)
{
    Json *copy = json_make_object();
    char name[64];
    while (*sections != '\0') {
        size_t length = strcspn(sections, " ");
        snprintf(name, sizeof name, "%.*s", (int)length, sections);
        if (json_get(evidence, name) != NULL) {
            json_put(copy, name, json_copy_deep(json_get(evidence, name)));
        }
        sections += length + strspn(sections + length, " ");
    }
    return copy;
}

static bool record(bool refused, const char *name, Json *refused_names, Json *passed_names)
{
    json_add_text(refused ? refused_names : passed_names, name);
    return refused;
}

bool gate_self_test_of(JudgeCall judge, const Json *evidence, const Config *policy, Json *ret_refused,
                       Json *ret_passed)
{
    bool all_refused = true;
    for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++) {
        const GateCheck *check = gate_find_check(variants[i].check);
        Json *bad = variants[i].spoil == NULL ? json_make_object() : copy_sections(evidence, check->evidence);
        if (variants[i].spoil != NULL) {
            variants[i].spoil(bad);
        }
        Finding finding;
        judge(check, bad, policy, JUDGE_EARLY, &finding);
        // What the policy itself declares not applicable (telemetry.required: false) is no pass of a bad
        // candidate.
        bool refused = finding.outcome != OUTCOME_PASS;
        all_refused = record(refused, variants[i].name, ret_refused, ret_passed) && all_refused;
        json_free(bad);
    }
    return all_refused;
}

bool gate_self_test(const Json *evidence, const Config *policy, Json *ret_refused, Json *ret_passed)
{
    bool all_refused = gate_self_test_of(gate_run_check, evidence, policy, ret_refused, ret_passed);
    Json *nothing = json_make_object();   // sound but for its checks, so that the lattice must refuse it
    json_put_text(nothing, "schema", EVIDENCE_SCHEMA);
    static const char *const identity[] = {"model", "run", "version", "device_class"};
    for (size_t i = 0; i < sizeof identity / sizeof identity[0]; i++) {
        json_put_text(nothing, identity[i], "planted");
    }
    json_put(nothing, "selftest", json_make_object());
    json_put(open_object(nothing, "selftest", NULL), "passed", json_make_array());
    json_put(open_object(nothing, "selftest", NULL), "refused", json_make_array());
    json_add_text((Json *)(uintptr_t)json_find(nothing, "selftest.refused"), "planted");
    Json *judgement = gate_judge(nothing, policy, JUDGE_WHOLE);
    bool refused = gate_exit_code(judgement) != 0;
    json_free(judgement);
    json_free(nothing);
    return record(refused, "candidate.empty", ret_refused, ret_passed) && all_refused;
}
