// check_memory - did plan and run stay in the budget, does anything grow, is every byte explained?
//
// A leak: live bytes at the same phase of each step rise for certain (one-sided 99.9 % bound of the slope
// above 0) and the rise matters (over 1 % of the budget) or never once stops. A cache that fills in the first
// steps is warm-up, not a leak.
#include "gate_internal.h"

#include <fedgate/stats.h>
#include <fedgate/text.h>

enum { LIVE_WARMUP = 3, LIVE_LEAST = 10, LIVE_WARMUP_SHARE = 10 };
static const double GROWTH_SHARE = 0.01, SLOPE_CONFIDENCE = 0.999;

// The budget of the policy, or of the smaller device that was really there. The evidence must agree with its
// own arithmetic.
static bool read_budget(const Section *memory, const Config *policy, double *ret_budget)
{
    double device = NAN;
    double reserve = NAN;
    double budget = NAN;
    if (!section_number(memory, "device_bytes", &device) || !section_number(memory, "reserve", &reserve) ||
        !section_number(memory, "budget_bytes", &budget)) {
        return false;
    }
    if (!(fabs(device * (1 - reserve) - budget) <= 1)) {
        finding_set(memory->finding, OUTCOME_ERROR, (Figure){budget, device * (1 - reserve), "bytes", 0},
                    "the budget of %.0f bytes is not %.0f x (1 - %g)", budget, device, reserve);
        return false;
    }
    double free_share = 1 - config_real(policy, "memory.reserve");
    *ret_budget = floor((double)config_integer(policy, "device.memory") * free_share);
    double physical = NAN;
    if (section_has(memory, "physical_bytes")) {
        if (!section_number(memory, "physical_bytes", &physical)) {
            return false;
        }
        *ret_budget =
            physical * free_share >= *ret_budget ? *ret_budget : floor(physical * free_share);   // NaN binds
    }
    return true;
}

static bool within_budget(const Section *memory, const char *key, double budget, const char *what,
                          double *ret_peak)
{
    if (!section_number(memory, key, ret_peak)) {
        return false;
    }
    if (*ret_peak <= 0) {   // nothing runs in no memory
        finding_set(memory->finding, OUTCOME_ERROR, NO_FIGURE, "'memory.%s' is %g", key, *ret_peak);
        return false;
    }
    return require_at_most(memory->finding, (Figure){*ret_peak, budget, "bytes", 1}, what);
}

// The peaks of the device accounts, the context and the unexplained rest must be able to make up the measured
// peak.
static bool reconciled(const Section *memory, const Config *policy, double budget, double measured)
{
    const Json *accounts = NULL;
    double context = NAN;
    double unexplained = NAN;
    if (!section_array(memory, "accounts", &accounts) || !section_number(memory, "context_bytes", &context) ||
        !section_number(memory, "unexplained_bytes", &unexplained)) {
        return false;
    }
    Figure rest = {fabs(unexplained), config_real(policy, "memory.unexplained") * budget, "bytes",
                   (int64_t)json_count(accounts)};
    if (!require_at_most(memory->finding, rest, "memory that no account explains")) {
        return false;
    }
    bool sound = isfinite(context) && context >= 0 && context <= budget;
    if (!sound) {
        finding_set(memory->finding, OUTCOME_ERROR, NO_FIGURE, "'memory.context_bytes' is %g", context);
        return false;
    }
    if (!section_distinct(memory, accounts, "name", "kind")) {
        return false;
    }
    size_t of_device = 0;
    double explained = context + fabs(unexplained);
    for (size_t i = 0; i < json_count(accounts); i++) {
        Section account;
        const char *name = NULL;
        const char *kind = NULL;
        double peak = NAN;
        if (!section_inside(memory, json_at(accounts, i), &account) ||
            !section_text(&account, "name", &name) ||
            !section_text(&account, "kind", &kind) || !section_number(&account, "peak_bytes", &peak)) {
            return false;
        }
        bool device = text_equal(kind, "device");
        bool possible = isfinite(peak) && peak >= 0 && !(device && peak > measured) &&
                        (device || text_equal(kind, "pinned") || text_equal(kind, "host"));
        if (!possible) {
            finding_set(memory->finding, OUTCOME_ERROR, (Figure){peak, measured, "bytes", rest.n},
                        "account '%.60s' of kind '%.20s' peaks at %g bytes, the device in all at %.0f", name,
                        kind, peak, measured);
            return false;
        }
        of_device += device;
        explained += device ? peak : 0;
    }
    if (of_device == 0) {
        finding_set(memory->finding, OUTCOME_NOT_MEASURED, NO_FIGURE, "no account of device memory was kept");
        return false;
    }
    if (!(explained >= measured)) {
        finding_set(memory->finding, OUTCOME_ERROR, (Figure){measured, explained, "bytes", rest.n},
                    "the accounts explain at most %.0f bytes of the measured peak of %.0f", explained,
                    measured);
        return false;
    }
    return true;
}

static bool never_stops(const double *bytes, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        if (!(bytes[i] > bytes[i - 1])) {
            return false;
        }
    }
    return true;
}

// The live bytes can never be more than the peak, nor none after warm-up.
static bool within_peak(const Section *memory, const double *bytes, size_t skipped, size_t count,
                        double measured)
{
    for (size_t i = 0; i < count; i++) {
        if (!(bytes[i] <= measured && (bytes[i] > 0 || i < skipped))) {
            finding_set(memory->finding, OUTCOME_ERROR, (Figure){bytes[i], measured, "bytes", (int64_t)count},
                        "%.0f bytes are live at reading %zu, the peak is %.0f", bytes[i], i,
                        measured);
            return false;
        }
    }
    return true;
}

static bool settles(const Section *memory, double budget, double measured)
{
    Section live;
    const double *bytes = NULL;
    if (!section_child(memory, "live", "memory.live", &live) || !section_amounts(&live, "bytes", &bytes)) {
        return false;
    }
    size_t skipped =
        live.length / LIVE_WARMUP_SHARE > LIVE_WARMUP ? live.length / LIVE_WARMUP_SHARE : LIVE_WARMUP;
    size_t count = live.length > skipped ? live.length - skipped : 0;
    if (count < LIVE_LEAST) {
        finding_set(memory->finding, OUTCOME_INCONCLUSIVE,
                    (Figure){(double)count, LIVE_LEAST, "steps", (int64_t)count},
                    "live memory was read at %zu steps after warm-up, %d are needed to see growth", count,
                    LIVE_LEAST);
        return false;
    }
    bytes += skipped;
    Trend trend;
    stats_trend(bytes, count, SLOPE_CONFIDENCE, &trend);
    double growth = bytes[count - 1] - bytes[0];
    bool rises = !(trend.slope_lower <= 0);
    bool leaks = rises && (growth > GROWTH_SHARE * budget || never_stops(bytes, count));
    if (leaks) {
        finding_set(memory->finding, OUTCOME_FAIL,
                    (Figure){growth, GROWTH_SHARE * budget, "bytes", (int64_t)count},
                    "live memory grows by %.0f bytes over %zu steps, %.1f a step: something is kept", growth,
                    count, trend.slope);
    }
    return !leaks && section_index(&live) &&
           within_peak(memory, bytes - skipped, skipped, live.length, measured);
}

static bool rehearsed(const Section *memory, double budget)
{
    Section rehearsal;
    bool ok = false;
    double peak = NAN;
    if (!section_child(memory, "rehearsal", "memory.rehearsal", &rehearsal) ||
        !section_bool(&rehearsal, "ok", &ok)) {
        return false;
    }
    if (!ok) {
        finding_set(memory->finding, OUTCOME_FAIL, NO_FIGURE,
                    "the rehearsal of one full cycle did not fit the budget of %.0f bytes", budget);
        return false;
    }
    return within_budget(&rehearsal, "peak_bytes", budget, "peak of the rehearsal", &peak);
}

void check_memory(const Json *evidence, const Config *policy, Finding *ret)
{
    OWNED(Arena, arena_free) *judge = arena_new(JUDGE_MEMORY_BYTES);
    Section memory;
    double budget = NAN;
    double planned = NAN;
    double measured = NAN;
    if (section_open(evidence, "memory", judge, ret, &memory) && read_budget(&memory, policy, &budget) &&
        within_budget(&memory, "planned_peak_bytes", budget, "planned peak", &planned) &&
        (!section_has(&memory, "rehearsal") ||
         rehearsed(&memory, budget)) &&   // a failed one ended the night
        within_budget(&memory, "measured_peak_bytes", budget, "measured peak", &measured) &&
        rehearsed(&memory, budget) && reconciled(&memory, policy, budget, measured) &&
        settles(&memory, budget, measured)) {
        finding_set(
            ret, OUTCOME_PASS, (Figure){fmax(planned, measured), budget, "bytes", 1},
            "peak is %.4g GB measured, %.4g GB planned, of a budget of %.4g GB; live memory does not grow",
            measured / 1e9, planned / 1e9, budget / 1e9);
    }
}
