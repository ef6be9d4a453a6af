// check_decisions - parts of quality that look at acting on a score: what it is worth, and whether a score
// means the share that it says.
//
// Decisions against a baseline ("likewise", design.md section 4): that the model is better is what the
// declared metric proves, with margin and bound; its decisions must not undo it. A point alone cannot tell,
// for its sign is chance when the two decide alike. So they fail when they are certainly worse (upper 95 %
// bound of the paired difference below 0), and when it is not shown that they are not worse by more than the
// margin that live is given (lower bound below it): too few rows to tell is no pass. Against live: not worse
// beyond the margin; a difference that chance alone makes (upper bound not below 0) may reach twice of it,
// for live is the best of the nights before, and on 1,500 rows two honest seeds differ by the margin.
#include "gate_internal.h"

#include <fedgate/text.h>
#include <stdio.h>

enum { CALIBRATION_ROWS = 500 };   // with fewer, 50 a bin, an error of 0.1 is what chance alone makes

double largest_utility(const Config *policy, bool binary)
{
    static const char *const options[] = {"quality.benefit_tp", "quality.cost_fp", "quality.cost_fn",
                                          "quality.benefit_tn"};
    double largest = 0;
    for (size_t i = 0; binary && i < sizeof options / sizeof options[0]; i++) {
        largest = fmax(largest, fabs(config_real(policy, options[i])));
    }
    size_t count = binary ? 0 : config_list_count(policy, "quality.utilities");
    for (size_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs(config_list_real(policy, "quality.utilities", i)));
    }
    return binary || count > 0 ? largest : 1;
}

bool read_decisions(const Section *pair, Decisions *ret)
{
    Section drawn;
    return section_number(pair, "utility_a", &ret->candidate) &&
           section_number(pair, "utility_b", &ret->other) &&
           section_number(pair, "utility_difference", &ret->difference) &&
           section_number(pair, "utility_standard_error", &ret->standard_error) &&
           section_child(pair, "bootstrap", "quality.pairs.bootstrap", &drawn) &&
           section_number(&drawn, "utility_lower", &ret->drawn_lower) &&
           section_number(&drawn, "utility_upper", &ret->drawn_upper);
}

// NaN is left to the rules, which refuse it.
static bool decisions_add_up(const Section *quality, const char *against, const Decisions *d, int64_t rows)
{
    double difference = d->candidate - d->other;
    bool wrong = fabs(difference - d->difference) > 1e-9 * (1 + fabs(difference)) || d->standard_error < 0 ||
                 d->drawn_lower > d->drawn_upper;
    if (wrong) {
        finding_set(quality->finding, OUTCOME_ERROR, (Figure){d->difference, difference, "utility", rows},
                    "decisions against '%s' do not add up: %.6g against %.6g, difference %.6g, error %.3g, "
                    "drawn from %.6g to %.6g",
                    against, d->candidate, d->other, d->difference, d->standard_error, d->drawn_lower,
                    d->drawn_upper);
    }
    return !wrong;
}

bool judge_decisions(const Section *quality, const char *against, bool live, double slack, const Decisions *d,
                     int64_t rows)
{
    const double one_sided_95 = 1.6448536269514722;
    char what[160];
    if (!decisions_add_up(quality, against, d, rows)) {
        return false;
    }
    snprintf(what, sizeof what, "decision utility a row %.5g against %.5g of '%s': difference", d->candidate,
             d->other, against);
    double lower = fmin(d->difference - one_sided_95 * d->standard_error, d->drawn_lower);
    double upper = fmax(d->difference + one_sided_95 * d->standard_error, d->drawn_upper);
    bool bounded = isfinite(d->standard_error) && isfinite(d->drawn_lower) && isfinite(d->drawn_upper);
    Figure point = {d->difference, bounded && upper >= 0 ? -2 * slack : -slack, "utility", rows};
    if (live || !isfinite(d->difference)) {
        return require_at_least(quality->finding, point, what);
    }
    bool holds = bounded && upper >= 0 && lower >= -slack;
    if (!holds) {
        finding_set(quality->finding, OUTCOME_FAIL,
                    (Figure){upper >= 0 ? lower : upper, upper >= 0 ? -slack : 0, "utility", rows},
                    "%s %.4g, with 95 %% confidence from %.4g to %.4g: %s", what, d->difference, lower, upper,
                    bounded && !(upper >= 0) ? "the decisions are worse"
                                             : "it is not shown that they are no worse than the margin");
    }
    return holds;
}

bool judge_calibration(const Section *quality, const Config *policy, int64_t rows, char ret_said[static 64])
{
    double limit = config_real(policy, "quality.calibration");
    Section calibration;
    double ece = NAN;
    if (!(limit > 0)) {
        return true;
    }
    if (!section_child(quality, "calibration", "quality.calibration", &calibration) ||
        !section_number(&calibration, "ece", &ece)) {
        return false;
    }
    Figure figure = {ece, limit, "ratio", rows};
    if (ece < 0 || ece > 1) {
        finding_set(quality->finding, OUTCOME_ERROR, figure, "the calibration error is %g", ece);
        return false;
    }
    if (rows < CALIBRATION_ROWS && isfinite(ece)) {
        snprintf(ret_said, 64, "; %lld rows are too few for calibration", (long long)rows);
        return true;
    }
    snprintf(ret_said, 64, "; calibration error %.3g", ece);
    return require_at_most(quality->finding, figure, "expected calibration error");
}
