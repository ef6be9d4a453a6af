// check_parity - is the reference arm really FP32? (Rung 1 of the ladder: the only one an FP32 night has.)
//
// Probes are judged by behaviour: an error that TF32 (unit round-off 4.9e-4) would also reach proves nothing,
// so a probe with a limit that loose is an error, not evidence.
#include "gate_internal.h"

#include <fedgate/text.h>
#include <stdio.h>

enum { PROBES_LEAST = 2 };
static const double LOOSEST_PROBE = 1e-4;

typedef struct Probe {
    const char *name, *unit;
    double error, limit;
} Probe;

static bool read_probe(const Section *parity, const Json *item, Probe *ret)
{
    Section probe;
    const char *shape = NULL;
    if (!section_inside(parity, item, &probe) || !section_text(&probe, "name", &ret->name) ||
        !section_text(&probe, "shape", &shape) ||
        !section_text(&probe, "unit", &ret->unit) || !section_number(&probe, "error", &ret->error) ||
        !section_number(&probe, "limit", &ret->limit)) {
        return false;
    }
    bool tight = ret->limit > 0 && ret->limit <= LOOSEST_PROBE;
    if (!tight) {
        finding_set(parity->finding, OUTCOME_ERROR, (Figure){ret->limit, LOOSEST_PROBE, "", 1},
                    "probe '%.60s' allows an error of %g: over %g it could not tell FP32 from TF32",
                    ret->name, ret->limit, LOOSEST_PROBE);
    }
    return tight;
}

static bool is_fp32(const Json *evidence, const Section *parity)
{
    const char *precision = NULL;
    const char *trained = NULL;
    const char *reference = NULL;
    Section top = {evidence, "evidence", parity->finding, NULL, SIZE_MAX};
    if (!section_text(parity, "precision", &precision) || !section_text(&top, "precision", &trained) ||
        !section_text(parity, "reference", &reference)) {
        return false;
    }
    bool same = text_equal(precision, trained) && text_equal(precision, "fp32");
    if (!same) {
        finding_set(parity->finding, OUTCOME_NOT_MEASURED, NO_FIGURE,
                    "trained in '%.20s', probed in '%.20s': only the FP32 rung can be judged", trained,
                    precision);
    }
    return same;
}

void check_parity(const Json *evidence, const Config *policy, Finding *ret)
{
    (void)policy;
    Section parity;
    const Json *probes = NULL;
    if (!section_open(evidence, "parity", NULL, ret, &parity) || !is_fp32(evidence, &parity) ||
        !section_array(&parity, "probes", &probes) ||
        !section_distinct(&parity, probes, "name", "shape")) {
        return;
    }
    size_t count = json_count(probes);
    Probe worst = {"", "", 0, 1};
    for (size_t i = 0; i < count; i++) {
        Probe probe;
        if (!read_probe(&parity, json_at(probes, i), &probe)) {
            return;
        }
        char what[128];
        snprintf(what, sizeof what, "error of probe '%.80s'", probe.name);
        Figure figure = {probe.error, probe.limit, probe.unit, (int64_t)count};
        if (probe.error < 0) {
            finding_set(ret, OUTCOME_ERROR, figure, "%s is %g", what, probe.error);
            return;
        }
        if (!require_at_most(ret, figure, what)) {
            return;
        }
        worst = probe.error / probe.limit >= worst.error / worst.limit ? probe : worst;
    }
    Figure figure = {worst.error, worst.limit, worst.unit, (int64_t)count};
    if (count < PROBES_LEAST) {
        finding_set(ret, OUTCOME_NOT_MEASURED, figure,
                    "%zu probes show that the reference is FP32, %d are needed", count, PROBES_LEAST);
        return;
    }
    if (worst.error == 0) {   // FP32 rounds somewhere: probes without any error did not compute
        finding_set(ret, OUTCOME_NOT_MEASURED, figure, "all %zu probes err by exactly 0: nothing was probed",
                    count);
        return;
    }
    finding_set(ret, OUTCOME_PASS, figure,
                "the reference is FP32: worst of %zu probes '%.60s' errs by %.3g, at most %.3g; rungs 2 to 6 "
                "not applicable",
                count, worst.name, worst.error, worst.limit);
}
