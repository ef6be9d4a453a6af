// check_latency - is one row scored inside the limits of p50 and p99?
//
// Without a declared limit there is nothing to hold the figures against: shown when the check is not
// required, not measured when it is, for a requirement that nobody stated cannot be met.
#include "gate_internal.h"

#include <fedgate/text.h>
#include <stdio.h>

enum { CALLS_LEAST = 100 };   // for a 99th percentile

typedef struct Latency {
    double p50_ns, p99_ns;
    int64_t calls, rows;
} Latency;

static const struct {
    const char *option, *name;
    bool tail;
} limits[] = {{"latency.p50", "median", false}, {"latency.p99", "99th percentile", true}};
enum { LIMIT_COUNT = sizeof limits / sizeof limits[0] };

static bool read_latency(const Section *section, Latency *ret)
{
    if (!section_count(section, "calls", &ret->calls) ||
        !section_count(section, "rows_per_call", &ret->rows) ||
        !section_number(section, "p50_ns", &ret->p50_ns) ||
        !section_number(section, "p99_ns", &ret->p99_ns)) {
        return false;
    }
    Figure figure = {ret->p99_ns / WALL_NS_PER_S, NAN, "s", ret->calls};
    if (!isfinite(ret->p50_ns) || !isfinite(ret->p99_ns)) {
        finding_set(section->finding, OUTCOME_FAIL, figure,
                    "scoring one row takes %.4g ns (p50), %.4g ns (p99)", ret->p50_ns, ret->p99_ns);
        return false;
    }
    bool sound = ret->rows == 1 && ret->p50_ns >= 0 && ret->p99_ns >= ret->p50_ns;
    if (!sound) {
        finding_set(section->finding, OUTCOME_ERROR, figure,
                    "%lld rows a call, p50 %.4g ns, p99 %.4g ns: one row a call is wanted, and p99 above p50",
                    (long long)ret->rows, ret->p50_ns, ret->p99_ns);
    }
    return sound;
}

static bool enough(const Section *section, const Latency *latency)
{
    bool resolved = latency->calls >= CALLS_LEAST;
    bool moved = !(latency->p99_ns == 0);
    Figure figure = {latency->p99_ns / WALL_NS_PER_S, NAN, "s", latency->calls};
    if (!resolved) {
        finding_set(section->finding, OUTCOME_NOT_MEASURED, figure,
                    "%lld calls were timed, a 99th percentile needs %d", (long long)latency->calls,
                    CALLS_LEAST);
    } else if (!moved) {
        finding_set(section->finding, OUTCOME_NOT_MEASURED, figure,
                    "%lld calls took no time at all: the clock stood still", (long long)latency->calls);
    }
    return resolved && moved;
}

static void no_limit(const Section *section, const Config *policy)
{
    bool required = config_list_has(policy, "checks.required", "latency");
    double p50 = json_number_or(json_get(section->at, "p50_ns"), NAN) / WALL_NS_PER_S;
    double p99 = json_number_or(json_get(section->at, "p99_ns"), NAN) / WALL_NS_PER_S;
    finding_set(section->finding, required ? OUTCOME_NOT_MEASURED : OUTCOME_NOT_APPLICABLE,
                (Figure){p99, NAN, "s", json_integer_or(json_get(section->at, "calls"), 0)},
                "no limit is declared (latency.p50, latency.p99); measured p50 %.4g s, p99 %.4g s%s", p50,
                p99, required ? "; declare one or leave the check out" : "");
}

void check_latency(const Json *evidence, const Config *policy, Finding *ret)
{
    Section section;
    Latency latency;
    if (!section_open(evidence, "latency", NULL, ret, &section)) {
        return;
    }
    if (!(config_real(policy, "latency.p50") > 0) && !(config_real(policy, "latency.p99") > 0)) {
        no_limit(&section, policy);
        return;
    }
    if (!read_latency(&section, &latency)) {
        return;
    }
    Figure nearest = NO_FIGURE;
    for (size_t i = 0; i < LIMIT_COUNT; i++) {
        double value = (limits[i].tail ? latency.p99_ns : latency.p50_ns) / WALL_NS_PER_S;
        Figure figure = {value, config_real(policy, limits[i].option), "s", latency.calls};
        char what[64];
        snprintf(what, sizeof what, "%s of scoring one row", limits[i].name);
        if (figure.limit > 0 && !require_at_most(ret, figure, what)) {
            return;
        }
        bool nearer = isnan(nearest.value) || figure.value * nearest.limit > nearest.value * figure.limit;
        nearest = figure.limit > 0 && nearer ? figure : nearest;
    }
    if (enough(&section, &latency)) {
        finding_set(ret, OUTCOME_PASS, nearest,
                    "one row is scored in %.4g s (p50) and %.4g s (p99); nearest limit %.4g s",
                    latency.p50_ns / WALL_NS_PER_S, latency.p99_ns / WALL_NS_PER_S, nearest.limit);
    }
}
