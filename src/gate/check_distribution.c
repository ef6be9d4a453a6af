// check_distribution - do the candidate's scores lie where the live version's lie, on the same rows?
//
// Without a live release there is nothing to compare with: not applicable. What says that nothing is live
// must agree with `quality`, or leaving the comparison out would be a way round it.
#include "gate_internal.h"

#include <fedgate/text.h>

typedef struct Shift {
    double psi, difference, deviation;
    int64_t rows;
} Shift;

static bool read_shift(const Section *distribution, Shift *ret)
{
    const char *version = NULL;
    return section_text(distribution, "reference_version", &version) &&
           section_count(distribution, "rows", &ret->rows) &&
           section_number(distribution, "psi", &ret->psi) &&
           section_number(distribution, "mean_difference", &ret->difference) &&
           section_number(distribution, "deviation", &ret->deviation);
}

// The rows compared are those of `quality`, and no index or deviation is below 0.
static bool possible(const Json *evidence, const Section *distribution, const Shift *shift)
{
    int64_t rows = json_integer_or(json_find(evidence, "quality.rows"), shift->rows);
    bool sound = shift->rows > 0 && shift->rows == rows && !(shift->psi < 0) && !(shift->deviation < 0) &&
                 !isinf(shift->deviation);   // any shift is small beside it
    if (!sound) {
        finding_set(distribution->finding, OUTCOME_ERROR, (Figure){shift->psi, NAN, "PSI", shift->rows},
                    "scores of %lld rows, %lld were judged, PSI %.4g, deviation %.4g: impossible",
                    (long long)shift->rows, (long long)rows, shift->psi, shift->deviation);
    }
    return sound;
}

static void judge_shift(const Json *evidence, const Config *policy, const Section *distribution)
{
    Shift shift;
    Finding *ret = distribution->finding;
    if (!read_shift(distribution, &shift) || !possible(evidence, distribution, &shift)) {
        return;
    }
    if (shift.deviation == 0) {
        finding_set(ret, OUTCOME_NOT_MEASURED, (Figure){shift.difference, NAN, "deviations", shift.rows},
                    "the live version gives every row the same score: no shift can be measured against it");
        return;
    }
    Figure psi = {shift.psi, config_real(policy, "distribution.drift"), "PSI", shift.rows};
    double moved = fabs(shift.difference) / shift.deviation;   // NaN when either is
    Figure mean = {moved, config_real(policy, "distribution.mean"), "deviations", shift.rows};
    if (!require_at_most(ret, psi, "shift of the scores (PSI) against the live version") ||
        !require_at_most(ret, mean, "difference of the mean score from the live version's")) {
        return;
    }
    bool psi_is_nearer = psi.value * mean.limit >= mean.value * psi.limit;
    finding_set(ret, OUTCOME_PASS, psi_is_nearer ? psi : mean,
                "PSI %.4g, at most %.4g; mean differs by %.4g deviations, at most %.4g; %lld rows", psi.value,
                psi.limit, mean.value, mean.limit, (long long)shift.rows);
}

void check_distribution(const Json *evidence, const Config *policy, Finding *ret)
{
    Section distribution;
    const char *kind = NULL;
    if (!section_open(evidence, "distribution", NULL, ret, &distribution) ||
        !section_text(&distribution, "live_kind", &kind)) {
        return;
    }
    const char *compared = json_text_or(json_find(evidence, "quality.live_kind"), kind);
    if (!text_equal(kind, compared)) {
        finding_set(ret, OUTCOME_ERROR, NO_FIGURE, "live is '%.20s' here and '%.20s' in 'quality'", kind,
                    compared);
    } else if (text_equal(kind, "release")) {
        judge_shift(evidence, policy, &distribution);
    } else if (text_equal(kind, "none") || text_equal(kind, "baseline")) {
        finding_set(ret, OUTCOME_NOT_APPLICABLE, NO_FIGURE,
                    "no release is live whose scores could be compared");
    } else {
        finding_set(ret, OUTCOME_ERROR, NO_FIGURE, "what is live is of unknown kind '%.40s'", kind);
    }
}
