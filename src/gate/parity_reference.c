// parity_reference - rung 1: is the reference arm really FP32? The only rung an FP32 night has.
//
// Probes are judged by behaviour, and all that the trainer has must be there: an error that TF32 (unit
// round-off 4.9e-4) would also reach proves nothing, so a probe with a limit that loose is an error, not
// evidence.
#include "parity_internal.h"

#include <fedgate/text.h>

#include <stdio.h>

// What trainer/probe.c asks: each way of multiplying, and a long sum. Any other says nothing known.
static const char *const known[] = {
    "values below TF32 resolution",
    "values below TF32 resolution, one output",
    "values below TF32 resolution, weight gradient",
    "values below TF32 resolution, input gradient",
    "layer",
    "long reduction",
};
enum { KNOWN = sizeof known / sizeof known[0] };
static const double LOOSEST_PROBE = 1e-4;

typedef struct Probe {
    const char *name, *shape, *unit;
    double error, limit;
} Probe;

static bool read_probe(const Section *parity, const Json *item, bool found[static KNOWN], Probe *ret)
{
    Section probe;
    if (!section_inside(parity, item, &probe) || !section_text(&probe, "name", &ret->name) ||
        !section_text(&probe, "shape", &ret->shape) || !section_text(&probe, "unit", &ret->unit) ||
        !section_number(&probe, "error", &ret->error) || !section_number(&probe, "limit", &ret->limit)) {
        return false;
    }
    size_t at = 0;
    while (at < KNOWN && !text_equal(ret->name, known[at])) {
        at++;
    }
    if (at == KNOWN) {
        finding_set(parity->finding, OUTCOME_ERROR, NO_FIGURE, "probe '%.60s' is none that shows FP32",
                    ret->name);
        return false;
    }
    found[at] = true;
    bool tight = ret->limit > 0 && ret->limit <= LOOSEST_PROBE;
    if (!tight) {
        finding_set(parity->finding, OUTCOME_ERROR, (Figure){ret->limit, LOOSEST_PROBE, "", 1},
                    "probe '%.60s' allows an error of %g: over %g it could not tell FP32 from TF32",
                    ret->name, ret->limit, LOOSEST_PROBE);
    }
    return tight;
}

void rung_reference(Ladder *ladder, const Section *parity)
{
    Finding *ret = parity->finding;
    const Json *probes = NULL;
    if (!section_array(parity, "probes", &probes) || !section_distinct(parity, probes, "name", "shape")) {
        return;
    }
    size_t count = json_count(probes);
    Probe worst = {"", "", "", 0, 1};
    bool found[KNOWN] = {false};
    for (size_t i = 0; i < count; i++) {
        Probe probe;
        if (!read_probe(parity, json_at(probes, i), found, &probe)) {
            return;
        }
        char what[128];
        snprintf(what, sizeof what, "error of probe '%.80s'", probe.name);
        Figure figure = {probe.error, probe.limit, probe.unit, (int64_t)count};
        if (probe.error < 0) {
            finding_set(ret, OUTCOME_ERROR, figure, "%s is %g", what, probe.error);
            return;
        }
        bar_see(ladder, BAR_PROBE, probe.error, probe.limit, probe.name, probe.shape);
        if (!require_at_most(ret, figure, what)) {
            ladder->named[RUNG_REFERENCE] = true;
            return;
        }
        worst = probe.error / probe.limit >= worst.error / worst.limit ? probe : worst;
    }
    Figure figure = {worst.error, worst.limit, worst.unit, (int64_t)count};
    for (size_t i = 0; i < KNOWN; i++) {
        if (!found[i]) {
            finding_set(ret, OUTCOME_NOT_MEASURED, figure, "probe '%s' is missing: %zu of %d were asked",
                        known[i], count, KNOWN);
            return;
        }
    }
    if (worst.error == 0) {   // FP32 rounds somewhere: probes without any error did not compute
        finding_set(ret, OUTCOME_NOT_MEASURED, figure, "all %zu probes err by exactly 0: nothing was probed",
                    count);
        return;
    }
    finding_set(ret, OUTCOME_PASS, figure,
                "the reference is FP32: worst of %zu probes '%.60s' errs by %.3g, at most %.3g", count,
                worst.name, worst.error, worst.limit);
}
