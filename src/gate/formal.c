// formal - the results that a person has worked by hand (brief.md: ledger, roofline, overlap, closure),
// against what the program made of them tonight.
//
// The figures by hand stand here, in the judge: a night that brings its own would be believed whatever it
// says. Every one of them must have been worked again.
#include "gate_internal.h"

#include <fedgate/text.h>

static const struct {
    const char *name;
    double by_hand;
} formal[] = {
    {"ledger: budget", 21.6},
    {"ledger: available", 18.4},
    {"ledger: largest microbatch", 54},
    {"ledger: 54 samples", 21.56},
    {"ledger: 55 samples", 21.90},
    {"ledger: activations of microbatch 16", 5.44},
    {"ledger: microbatch 16", 8.64},
    {"ledger: microbatch 64", 24.96},
    {"ledger: microbatch 64 is refused", 1},
    {"ledger: microbatch of a batch of 256", 32},
    {"ledger: accumulation of a batch of 256", 8},
    {"ledger: batch of 256", 14.08},
    {"roofline: ridge", 206.25},
    {"roofline: FLOP of a layer", 4194304},
    {"roofline: bytes of a layer", 163840},
    {"roofline: intensity", 25.6},
    {"roofline: attainable", 122.88},
    {"overlap: copies [0,4) [6,10), kernels [2,8)", 0.5},
    {"closure: 9.999 us of 1 ms missing", 1},
    {"closure: 10.001 us of 1 ms missing", 0},
};
enum { FORMAL = sizeof formal / sizeof formal[0] };
static const double ROUNDING = 1e-9;   // relative, of decimal fractions

static bool holds(const Section *release, const Json *item)
{
    Section result;
    const char *name = NULL;
    double actual = NAN;
    if (!section_inside(release, item, &result) || !section_text(&result, "name", &name) ||
        !section_number(&result, "actual", &actual)) {
        return false;
    }
    size_t i = 0;
    while (i < FORMAL && !text_equal(formal[i].name, name)) {
        i++;
    }
    if (i == FORMAL) {
        finding_set(release->finding, OUTCOME_ERROR, NO_FIGURE,
                    "'%.80s' is no result that was worked by hand", name);
        return false;
    }
    bool same = fabs(actual - formal[i].by_hand) <= ROUNDING * formal[i].by_hand;   // NaN is not
    if (!same) {
        finding_set(release->finding, OUTCOME_FAIL, (Figure){actual, formal[i].by_hand, "", 1},
                    "'%.60s' comes out as %.9g, by hand it is %.9g", name, actual, formal[i].by_hand);
    }
    return same;
}

void formal_results_hold(const Json *evidence, const Config *policy, Finding *ret)
{
    (void)policy;
    Section release;
    const Json *results = NULL;
    if (!section_open(evidence, "release", NULL, ret, &release) ||
        !section_array(&release, "formal", &results) || !section_distinct(&release, results, "name", NULL)) {
        return;
    }
    for (size_t i = 0; i < json_count(results); i++) {
        if (!holds(&release, json_at(results, i))) {
            return;
        }
    }
    if (json_count(results) < FORMAL) {
        finding_set(ret, OUTCOME_NOT_MEASURED, (Figure){(double)json_count(results), FORMAL, "results", 1},
                    "%zu results were worked again, %d are worked by hand", json_count(results), FORMAL);
    }
}
