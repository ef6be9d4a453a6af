// check_decisions - parts of quality that look at acting on a score: what it is worth, and whether a score
// means the share that it says.
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
