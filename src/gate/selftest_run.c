// selftest_run - planted bad runs: nothing hidden, impossible speed, a leak, other bits, a late end.
#include "selftest_internal.h"

#include <math.h>

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

enum { PLANTED_STEPS = 60, FRAYED = 12 };

// A timeline of steady steps of 1 ms, each with a copy of 0.3 ms, `hidden` ns of it under kernels of 0.4 ms.
static Json *planted_timeline(int64_t hidden, int64_t starved, int64_t pageable, size_t steps)
{
    const struct {
        const char *key;
        int64_t value;
    } series[] = {{"length_ns", 1000000}, {"copy_ns", 300000},          {"hidden_ns", hidden},
                  {"kernel_ns", 400000},  {"busy_ns", 700000 - hidden}, {"starved_ns", starved},
                  {"wait_ns", 0},         {"h2d_bytes", 1000},          {"pageable_bytes", pageable}};
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

static void copies_while_resident(Json *bad)
{
    json_put(bad, "timeline", planted_timeline(300000, 0, 0, PLANTED_STEPS));
    json_put_bool(selftest_open(bad, "timeline", NULL), "resident", true);
}

// Sampled windows that are perfect, and a quarter of the run's time in stalls between them.
static void stalls_between_windows(Json *bad)
{
    const struct {
        const char *key;
        int64_t value;
    } figures[] = {{"count", PLANTED_STEPS}, {"covered", PLANTED_STEPS}, {"apart", 0},
                   {"apart_ns", 0},          {"total_ns", 80000000},     {"median_ns", 1000000},
                   {"longest_ns", 20000000}, {"slow_ns", 20000000}};
    json_put(bad, "timeline", planted_timeline(300000, 0, 0, PLANTED_STEPS));
    Json *steps = selftest_open(bad, "timeline", "device_steps");
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
        json_put_integer(steps, figures[i].key, figures[i].value);
    }
}

static void profiler_slot_taken(Json *bad)
{
    json_put(bad, "timeline", planted_timeline(300000, 0, 0, PLANTED_STEPS));
    Json *reasons = json_make_array();
    json_add_text(reasons, "planted: another profiler holds the slot");
    json_put(selftest_open(bad, "timeline", "trust"), "reasons", reasons);
}

static void no_step_recorded(Json *bad)
{
    json_put(bad, "timeline", planted_timeline(300000, 0, 0, 0));
}

static void always_waiting(Json *bad)
{
    Json *steps = selftest_open(bad, "loop", "steps");
    json_put(steps, "index", rising(0, 1, PLANTED_STEPS));
    json_put(steps, "wall_ns", repeat(1000000, PLANTED_STEPS));
    json_put(steps, "wait_ns", repeat(600000, PLANTED_STEPS));
    json_put(steps, "rest", json_make_object());
}

static void unmeasured_time(Json *bad)
{
    Json *steps = selftest_open(bad, "loop", "steps");
    json_put(steps, "index", rising(0, 1, PLANTED_STEPS));
    const char *const spans[] = {"wait_ns", "exposed_copy_ns", "compute_ns"};
    for (size_t i = 0; i < sizeof spans / sizeof spans[0]; i++) {
        json_put(steps, spans[i], repeat(200000, PLANTED_STEPS));
    }
    json_put(steps, "wall_ns", repeat(1000000, PLANTED_STEPS));
    json_put(steps, "rest", json_make_object());
}

// Spans that add up, in entries that hold no step at all.
static void entries_of_nothing(Json *bad)
{
    unmeasured_time(bad);
    Json *steps = selftest_open(bad, "loop", "steps");
    json_put(steps, "wall_ns", repeat(600000, PLANTED_STEPS));
    json_put(steps, "steps", repeat(0, PLANTED_STEPS));
}

static void residual_span(Json *bad)
{
    unmeasured_time(bad);
    json_put(selftest_open(selftest_open(bad, "loop", "steps"), "rest", NULL), "other",
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
    json_put(selftest_open(bad, "plausible", NULL), "claims", claims);
}

static void faster_than_peak(Json *bad)
{
    plant_claim(bad, 1000, 1000);
}

static void stopped_timer(Json *bad)
{
    plant_claim(bad, 1000, 2000000);
}

static void half_the_work(Json *claim)
{
    json_put_number(claim, "flop", json_number_or(json_get(claim, "flop"), 1) / 2);
}

static void half_of_the_work(Json *bad)
{
    selftest_each(selftest_open(bad, "plausible", NULL), "claims", half_the_work);
}

static void for_ever(Json *claim)
{
    json_put_number(claim, "time_ns", 1e18);
}

static void longer_than_the_run(Json *bad)
{
    selftest_each(selftest_open(bad, "plausible", NULL), "claims", for_ever);
}

static void over_budget(Json *bad)
{
    json_put_integer(selftest_open(bad, "memory", NULL), "measured_peak_bytes", INT64_C(1) << 60);
}

static void leak(Json *bad)
{
    Json *live = selftest_open(bad, "memory", "live");
    json_put(live, "index", rising(0, 1, PLANTED_STEPS));
    json_put(live, "bytes", rising(1000000, 4096, PLANTED_STEPS));
}

// Live bytes as tonight, in an arena that frays.
static void frayed_arena(Json *bad)
{
    Json *memory = selftest_open(bad, "memory", NULL);
    const int64_t live = json_integer_or(json_at(json_find(memory, "live.bytes"), PLANTED_STEPS), 1);
    Json *series = selftest_open(memory, "series", NULL);
    const struct {
        const char *key;
        int64_t first, by;
    } columns[] = {{"index", 0, 0},
                   {"live_bytes", live, 0},
                   {"workspace_bytes", 0, 0},
                   {"arena_peak_bytes", 1, 4096},
                   {"largest_free_bytes", 1, 0},
                   {"driver_bytes", 1, 0},
                   {"module_bytes", 1, 0},
                   {"other_bytes", 1, 0}};
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++) {
        json_put(series, columns[i].key, rising(columns[i].first, i == 0 ? 1 : columns[i].by, FRAYED));
    }
}

static void without_end(Json *account)
{
    json_put_number(account, "planned_bytes", INFINITY);
}

static void planned_without_end(Json *bad)
{
    selftest_each(selftest_open(bad, "memory", NULL), "accounts", without_end);
}

static void live_elsewhere(Json *bad)
{
    json_put(selftest_open(selftest_open(bad, "memory", NULL), "series", NULL), "live_bytes",
             repeat(INT64_MAX / 2, json_count(json_find(bad, "memory.series.index"))));
}

// One bit of tonight's own replays is another.
static void other_tensor(Json *tensor)
{
    json_put_text(tensor, "again", "0000000000000000000000000000000000000000000000000000000000000001");
}

static void other_tensors(Json *replay)
{
    selftest_each(replay, "tensors", other_tensor);
}

static void other_bits(Json *bad)
{
    selftest_each(selftest_open(bad, "determinism", NULL), "replays", other_tensors);
}

static void replay_later(Json *replay)
{
    if (json_integer_or(json_get(replay, "from_step"), 0) > 0) {
        json_put_integer(replay, "from_step", INT64_MAX);
    }
}

static void never_taken(Json *bad)
{
    Json *determinism = selftest_open(bad, "determinism", NULL);
    json_put(bad, "window", json_make_object());
    json_put_integer(selftest_open(bad, "window", NULL), "done_steps", 1);
    selftest_each(determinism, "replays", replay_later);
}

static void row_dropped(Json *bad)
{
    Json *order = selftest_open(bad, "determinism", "order");
    json_put_integer(order, "epochs", 1);
    json_put_integer(order, "rows", 999);
    json_put_integer(order, "expected_rows", 1000);
    json_put_text(order, "digest", "planted");
    json_put_text(order, "expected_digest", "planted");
}

static void copied_other_rows(Json *bad)
{
    json_put_text(selftest_open(bad, "determinism", "order"), "device_digest", "planted");
}

static void inputs_not_finite(Json *bad)
{
    json_put_integer(selftest_open(bad, "loop", NULL), "nonfinite_inputs", 1);
}

static void stopped_early(Json *bad)
{
    json_put_bool(selftest_open(bad, "window", NULL), "stopped_early", true);
}

static void after_deadline(Json *bad)
{
    Json *window = selftest_open(bad, "window", NULL);
    json_put_integer(window, "now_wall_ns", json_integer_or(json_get(window, "deadline_wall_ns"), 1) + 1);
}

static void much_later(Json *forecast)
{
    json_put_integer(forecast, "end_upper_wall_ns", INT64_MAX);
    json_put_integer(forecast, "blocks", 10);
}

static void interval_outside(Json *bad)
{
    selftest_each(selftest_open(bad, "window", NULL), "forecasts", much_later);
}

// Blocks of a day each, of a run that was to take twice the steps.
static void pace_outside(Json *bad)
{
    Json *window = selftest_open(bad, "window", NULL);
    const int64_t done = json_integer_or(json_get(window, "done_steps"), 1);
    json_put_integer(window, "planned_steps", done * 2);
    json_put_text(window, "end_reason", "patience");
    json_put(selftest_open(window, "blocks", NULL), "seconds", repeat(86400, PLANTED_STEPS));
    json_put_integer(selftest_open(window, "blocks", NULL), "steps", 1);
}

const SelftestVariant selftest_of_run[] = {
    {"overlap.exposed", "overlap", no_copy_hidden, false},
    {"overlap.starved", "overlap", device_starves, false},
    {"overlap.pageable", "overlap", all_pageable, false},
    {"overlap.resident", "overlap", copies_while_resident, false},
    {"overlap.between", "overlap", stalls_between_windows, false},
    {"overlap.slot", "overlap", profiler_slot_taken, false},
    {"overlap.empty", "overlap", no_step_recorded, false},
    {"fed.waiting", "fed", always_waiting, false},
    {"plausible.peak", "plausible", faster_than_peak, false},
    {"plausible.timer", "plausible", stopped_timer, false},
    {"plausible.work", "plausible", half_of_the_work, false},
    {"plausible.longer", "plausible", longer_than_the_run, false},
    {"closure.unmeasured", "closure", unmeasured_time, false},
    {"closure.other", "closure", residual_span, false},
    {"closure.entries", "closure", entries_of_nothing, false},
    {"memory.budget", "memory", over_budget, false},
    {"memory.leak", "memory", leak, false},
    {"memory.fragments", "memory", frayed_arena, false},
    {"memory.planned", "memory", planned_without_end, false},
    {"memory.contradicts", "memory", live_elsewhere, false},
    {"determinism.never", "determinism", never_taken, false},
    {"determinism.bits", "determinism", other_bits, false},
    {"determinism.order", "determinism", row_dropped, false},
    {"determinism.copied", "determinism", copied_other_rows, false},
    {"input.nonfinite", "input", inputs_not_finite, false},
    {"window.stopped", "window", stopped_early, false},
    {"window.interval", "window", interval_outside, false},
    {"window.pace", "window", pace_outside, false},
    {"window.deadline", "window", after_deadline, false},
};

const size_t selftest_of_run_count = sizeof selftest_of_run / sizeof selftest_of_run[0];
