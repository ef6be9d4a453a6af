// parity_bars - how far half precision may be from FP32, figure by figure, and where each bar comes from.
//
// u is the unit round-off: 2^-8 in BF16, 2^-11 in FP16, 2^-24 in FP32. A bar is derived first and compared
// with measured figures afterwards; an honest arm stays under it by a factor, a planted fault exceeds it.
#include "parity_internal.h"

#include <fedgate/text.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define U_BF16 0x1p-8
#define U_FP16 0x1p-11
#define IN_U(factor)                                                                                         \
    {                                                                                                        \
        (factor) * U_BF16, (factor)*U_FP16                                                                   \
    }
#define BOTH(value)                                                                                          \
    {                                                                                                        \
        value, value                                                                                         \
    }
#define FROM_EVIDENCE                                                                                        \
    {                                                                                                        \
        NAN, NAN                                                                                             \
    }

const BarInfo parity_bars[BAR_COUNT] = {
    [BAR_PROBE] = {RUNG_REFERENCE, "error of a probe of the FP32 arm", "relative", false, FROM_EVIDENCE,
                   "limit of the probe, at most 1e-4: a fifth of the round-off of TF32 (4.9e-4)"},
    [BAR_OPERATION] =
        {RUNG_OPERATIONS, "error of an operation", "of the norms", false, IN_U(3),
         "3 u: both operands and the result rounded once, by Cauchy-Schwarz never more; sums in "
         "FP32 add little (Higham, Accuracy and Stability, section 3.1)"},
    [BAR_OPERATION_REFERENCE] =
        {RUNG_OPERATIONS, "error of an operation of the FP32 arm", "of the norms", false, FROM_EVIDENCE,
         "4 sqrt(K) 2^-24: four times the typical growth of a sum of K terms in FP32, at most 1e-4; "
         "TF32 and half precision exceed it"},
    [BAR_OPERATION_HALF] =
        {RUNG_OPERATIONS, "largest error of an operation over that of FP32", "times", true, BOTH(16),
         "rounding to FP16 is 2^13 and to BF16 2^16 times coarser than FP32; sums of 65536 "
         "terms in FP32 reach a seventieth of FP16's error"},
    [BAR_OPERATION_EXACT] =
        {RUNG_OPERATIONS, "error of an operation times the root of its length", "of the norms", true,
         IN_U(0.25),
         "one rounding of the result alone errs 0.42 u of it, and the norms of K terms are sqrt(K) times as "
         "large; less, and nothing was rounded"},
    [BAR_LOSS_SUM] =
        {RUNG_OPERATIONS, "error of a loss sum", "relative", false, BOTH(1e-6),
         "terms within a few 2^-24, summed in double; a BF16 accumulator stands still at 256 terms "
         "(pytorch/xla PR 2425)"},
    [BAR_GROWTH] = {RUNG_OPERATIONS, "rms error of long products", "of the rms result", false, IN_U(1),
                    "0.74 u = sqrt(3) x 0.425 u, three roundings of log-uniform mantissas; 64 products give "
                    "0.64 to 0.91 "
                    "u; split sums kept in BF16 reach 1.1 u, a half accumulator 4.5 u"},
    [BAR_GROWTH_HALF] =
        {RUNG_OPERATIONS, "least rms error of long products", "of the rms result", true, IN_U(0.25),
         "one rounded operand alone gives 0.42 u; FP16 under the name of BF16 gives 0.09 u, FP32 "
         "0.0003 u"},
    [BAR_GROWTH_SLOPE] =
        {RUNG_OPERATIONS, "growth of the error with the reduction length", "power", false, BOTH(0.125),
         "0 with FP32 sums, 0.44 to 0.5 with a half accumulator (emulated): a quarter of the "
         "latter"},
    [BAR_GRADIENT] =
        {RUNG_GRADIENTS,
         "error of the gradient",
         "relative",
         false,
         {0.26, 0.149},
         "sqrt(2 e / pi + 2 / 128), e the median's smooth bar: a unit whose sum lies within e of 0 "
         "flips (share atan(e) / pi) and changes whole terms; 2 of 128 more where a gradient rests "
         "on one row"},
    [BAR_GRADIENT_MEDIAN] =
        {RUNG_GRADIENTS,
         "error of the gradient, median tensor",
         "relative",
         false,
         {0.083, 0.035},
         "BF16: e = 4 C^33 2 u, C = 1.03 (TTrace, arXiv 2506.09280, theorem 5.3; bar of "
         "Megatron-LM's test_optimizer_grads_match). FP16: e is 0.0104, flips of ReLU exceed it: "
         "2 sqrt(2 u / pi)"},
    [BAR_GRADIENT_LEAST] =
        {RUNG_GRADIENTS,
         "error of the gradient, nearest tensor",
         "relative",
         false,
         {0.0322, 0.00402},
         "4 C 2 u, C = 1.03 (TTrace, theorem 5.3, at the output layer): no ReLU lies between the last "
         "layer and the loss, so nothing flips there; an error of 7.9 % in all tensors (llm.c) exceeds it"},
    [BAR_GRADIENT_WHOLE] =
        {RUNG_GRADIENTS,
         "error of the gradient, all tensors together",
         "relative",
         false,
         {0.23, 0.082},
         "sqrt(2 e / pi), e the smooth bar of the median: flips alone, a whole gradient rests on no single "
         "row; noise counts at most twice the gradient"},
    [BAR_GRADIENT_EXACT] = {RUNG_GRADIENTS, "least error of the gradient, median tensor", "relative", true,
                            IN_U(0.25),
                            "one rounded operand gives 0.42 u; an arm that rounds nowhere is not half"},
    [BAR_COSINE] = {RUNG_GRADIENTS,
                    "1 - cosine of the gradient",
                    "",
                    false,
                    {0.034, 0.011},
                    "error^2 / 2 at the bar of the error, for gradients of the same length"},
    [BAR_GRADIENT_REFERENCE] =
        {RUNG_GRADIENTS, "error of the FP32 gradient from float64", "relative", false, BOTH(1e-3),
         "FP32 gives 1e-7 to 1e-6, and a unit that flips is asked again on other rows; "
         "twice the round-off of TF32"},
    [BAR_GRADIENT_REFERENCE_MEDIAN] = {RUNG_GRADIENTS,
                                       "error of the FP32 gradient from float64, median tensor", "relative",
                                       false, BOTH(1e-4),
                                       "FP32 gives 1e-7 to 1e-6, TF32 over 4.9e-4 (tensorflow PR 127577)"},
    [BAR_UPDATE] =
        {RUNG_STEP,
         "error of one update",
         "relative",
         false,
         {0.114, 0.065},
         "0.436 of the gradient's bar: of an update on filled moments the newest gradient is (1 - b) / "
         "sqrt((1 - b) / (1 + b)), b = 0.9"},
    [BAR_UPDATE_EXACT] = {RUNG_STEP, "least error of one update", "relative", true, IN_U(0.109),
                          "0.436 of the least error of a gradient, as above"},
    [BAR_MOVED] = {RUNG_STEP, "share of weights that moved, difference", "ratio", false, BOTH(0.01),
                   "FP32 masters lose an update only below 2^-24 of the weight; BF16 masters moved 0 of 768 "
                   "(ml-by-hand PR 85)"},
    [BAR_MOMENT] =
        {RUNG_STEP,
         "first moment's change over the reference's, distance from 1",
         "relative",
         false,
         {0.069, 0.0155},
         "4 C^4 2 u, the smooth error three layers below the output, plus error^2 / 2 of the gradient's bar: "
         "flips turn a gradient, they do not stretch it; a loss scale taken out twice or not at all gives a "
         "power of two (slime PR 1842)"},
    [BAR_MASTER] =
        {RUNG_STEP, "master weights that are exact half values", "ratio", false, BOTH(0.5),
         "an FP32 value is a BF16 value with probability 2^-16, an FP16 value with 2^-13; only zeros "
         "are always (arXiv 1710.03740)"},
    [BAR_SCALE_STATE] = {RUNG_STEP, "loss scale after the step, doublings from what was expected",
                         "doublings", false, BOTH(0), "the rule of the loss scale is exact"},
    [BAR_APPLIED] = {RUNG_SCALE, "steps applied", "steps", true, BOTH(1),
                     "a training without an applied step is none (insightface 2262)"},
    [BAR_SCHEDULE] = {RUNG_SCALE, "steps of the schedule beyond the applied ones", "steps", false, BOTH(0),
                      "the rate may not go on with skipped steps (transformers 11106)"},
    [BAR_SKIPPED] =
        {RUNG_SCALE,
         "share of steps skipped",
         "ratio",
         false,
         {0, 0.05},
         "two skips for a growth each 1000 steps are 0.2 %, plus two for each halving at the start; "
         "Megatron-LM tolerates 1 % of steps outside its bars; BF16 needs no scale"},
    [BAR_LOSS_FINITE] = {RUNG_SCALE, "reports of a training loss that is not finite", "reports", false,
                         BOTH(0),
                         "a loss scale does not touch the forward pass: this is no overflow it could cure "
                         "(insightface 2262)"},
    [BAR_AT_FLOOR] =
        {RUNG_SCALE, "steps skipped at the lowest loss scale", "steps", false, BOTH(0),
         "overflow that no scale takes away is no overflow of the scale (DeepSpeed raises there)"},
    [BAR_TRAJECTORY] = {RUNG_TRAJECTORY, "log ratio of the loss", "", false, FROM_EVIDENCE,
                        "largest ratio among FP32 runs that differ in seed or one ulp, in this block and its "
                        "neighbours; at least 0.0025 (DeepSeek-V3, FP8 against BF16), at most 0.1"},
    [BAR_TRAJECTORY_MEAN] =
        {RUNG_TRAJECTORY, "log ratio of the loss, mean over pairs", "", false, FROM_EVIDENCE,
         "the band over sqrt(pairs), at least 0.0025: a bias of half precision is the same in "
         "all pairs, chance is not"},
    [BAR_TRAJECTORY_BIAS] =
        {RUNG_TRAJECTORY, "log ratio of the loss, proven in the mean over pairs", "", false, BOTH(0.0025),
         "lower bound of its size by paired t at 0.001 over all blocks (Bonferroni); 0.0025 as DeepSeek-V3 "
         "holds between FP8 and BF16"},
    [BAR_METRIC] = {RUNG_METRIC, "bound of the paired difference", "", false, FROM_EVIDENCE,
                    "parity.margin; two one-sided tests (Schuirmann 1987), alpha 0.05 spent over nights"},
    [BAR_TRAINED] = {RUNG_METRIC, "difference of the candidate scored in both arithmetics", "", false,
                     FROM_EVIDENCE, "parity.margin"},
    [BAR_SLICE] = {RUNG_SLICES, "bound of the harm to a slice", "", false, FROM_EVIDENCE,
                   "parity.slice_margin; one-sided paired t at 0.05, proven harm by Holm over slices; slices "
                   "in which one row moves more than 0.02 only by proof"},
};

static double share_used(const BarInfo *bar, double value, double limit)
{
    if (!isfinite(value)) {
        return INFINITY;
    }
    if (bar->least) {
        return value > 0 ? limit / value : INFINITY;
    }
    return limit > 0 ? value / limit : value <= limit ? 0 : INFINITY;
}

void bar_see(Ladder *ladder, Bar bar, double value, double limit, const char *worst, const char *at)
{
    Reading *reading = &ladder->readings[bar];
    double used = share_used(&parity_bars[bar], value, limit);
    reading->n++;
    if (reading->n > 1 && !(used > reading->used)) {
        return;
    }
    reading->value = value;
    reading->limit = limit;
    reading->used = used;
    reading->outcome = used <= 1 ? OUTCOME_PASS : OUTCOME_FAIL;
    snprintf(reading->worst, sizeof reading->worst, "%s", worst);
    snprintf(reading->at, sizeof reading->at, "%s", at);
}

double bar_limit(const Ladder *ladder, Bar bar)
{
    return parity_bars[bar].limit[ladder->half];
}

bool bar_broken(const Ladder *ladder, Bar bar)
{
    return ladder->readings[bar].outcome != OUTCOME_PASS;   // a pass as long as nothing was shown
}

static Figure figure_of(const Ladder *ladder, Bar bar)
{
    const Reading *reading = &ladder->readings[bar];
    return (Figure){reading->value, reading->limit, parity_bars[bar].unit, reading->n};
}

void bar_name_cause(Ladder *ladder, Bar bar, const char *format, ...)
{
    char cause[sizeof(((Finding *)NULL)->reason)];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(cause, sizeof cause, format, arguments);
    va_end(arguments);
    ladder->readings[bar].outcome = OUTCOME_FAIL;
    finding_set(&ladder->findings[parity_bars[bar].rung], OUTCOME_FAIL, figure_of(ladder, bar), "%s", cause);
    ladder->named[parity_bars[bar].rung] = true;
}

const Reading *ladder_nearest(const Ladder *ladder, Rung rung, Bar *ret_bar)
{
    const Reading *nearest = NULL;
    for (int bar = 0; bar < BAR_COUNT; bar++) {
        const Reading *reading = &ladder->readings[bar];
        bool asked = reading->n > 0 && (rung == RUNG_COUNT || parity_bars[bar].rung == rung);
        if (asked && (nearest == NULL || reading->outcome > nearest->outcome ||
                      (reading->outcome == nearest->outcome && reading->used > nearest->used))) {
            nearest = reading;
            *ret_bar = (Bar)bar;
        }
    }
    return nearest;
}

void bar_place(Bar bar, const Reading *reading, char *to, size_t size)
{
    snprintf(to, size, reading->worst[0] == '\0' ? "%s%s%s%s" : "%s '%s'%s%s", parity_bars[bar].name,
             reading->worst, reading->at[0] == '\0' ? "" : " ", reading->at);
}

void ladder_settle(Ladder *ladder, Rung rung)
{
    Finding *finding = &ladder->findings[rung];
    Bar bar = BAR_COUNT;
    const Reading *nearest = ladder_nearest(ladder, rung, &bar);
    if (nearest == NULL || finding->outcome == OUTCOME_FAIL) {
        return;
    }
    Figure figure = figure_of(ladder, bar);
    if (nearest->outcome == OUTCOME_FAIL) {
        char what[200];
        bar_place(bar, nearest, what, sizeof what);
        (void)(parity_bars[bar].least ? require_at_least(finding, figure, what)
                                      : require_at_most(finding, figure, what));
    } else if (finding->outcome == OUTCOME_PASS && finding->reason[0] == '\0') {
        finding_set(finding, OUTCOME_PASS, figure, "%s", parity_bars[bar].name);
    }
}

bool ladder_list(const Section *parity, const char *key, const char *dotted, const Json **ret_array,
                 Section *ret_list)
{
    if (!section_array(parity, key, ret_array)) {
        return false;
    }
    *ret_list = *parity;
    ret_list->name = dotted;
    ret_list->length = SIZE_MAX;
    if (json_count(*ret_array) == 0) {
        finding_set(parity->finding, OUTCOME_NOT_MEASURED, NO_FIGURE, "'%s' is empty: nothing was compared",
                    dotted);
        return false;
    }
    return true;
}

void *ladder_room(const Section *section, size_t count, size_t size)
{
    void *room = section->judge == NULL ? NULL : arena_take_array(section->judge, count + 1, size);
    if (room == NULL) {
        finding_set(section->finding, OUTCOME_ERROR, NO_FIGURE,
                    "%zu entries of '%s' do not fit the memory of the judge", count, section->name);
    }
    return room;
}

bool ladder_error(const Section *section, const char *key, double *ret_value)
{
    if (!section_number(section, key, ret_value)) {
        return false;
    }
    if (*ret_value < 0) {
        finding_set(section->finding, OUTCOME_ERROR, NO_FIGURE, "'%s.%s' is %g", section->name, key,
                    *ret_value);
        return false;
    }
    return true;
}
