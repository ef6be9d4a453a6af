// check_overlap - was the device kept busy while the next batch was copied, and did it stay so?
//
// Order: trust, shape of the evidence, then the rules from coarse to fine. A step counts as hidden when
// enough of its copy time is under kernels, or when what is exposed is under 1 % of the step; then its ratio
// is 1, here and in the mean.
#include "gate_internal.h"

#include <fedgate/stats.h>

enum { BATCHES = 10, WINDOW_MOST = 100 };
static const double SMALL_EXPOSED = 0.01, TREND_FALL = 0.01, TREND_CONFIDENCE = 0.999;

typedef struct Steps {
    const double *index, *length, *copy, *hidden, *kernel, *busy, *starved, *bytes, *pageable;
    size_t count;
} Steps;

static bool trusted(const Section *timeline)
{
    static const char *const counts[] = {"dropped", "zero_timestamps", "causality"};
    Section trust;
    const Json *reasons = NULL;
    if (!section_child(timeline, "trust", "timeline.trust", &trust) ||
        !section_array(&trust, "reasons", &reasons)) {
        return false;
    }
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        double count = NAN;
        if (!section_number(&trust, counts[i], &count)) {
            return false;
        }
        if (count != 0) {
            finding_set(trust.finding, OUTCOME_ERROR, (Figure){count, 0, "records", 0},
                        "the timeline cannot be trusted: %s is %g", counts[i], count);
            return false;
        }
    }
    if (json_count(reasons) > 0) {
        finding_set(trust.finding, OUTCOME_ERROR, NO_FIGURE, "the timeline cannot be trusted: %s",
                    json_text_or(json_at(reasons, 0), "a reason that is not a text"));
    }
    return json_count(reasons) == 0;
}

static bool possible(const Steps *s, Finding *ret)
{
    for (size_t i = 0; i < s->count; i++) {
        bool fits = s->length[i] > 0 && s->hidden[i] <= s->copy[i] && s->hidden[i] <= s->kernel[i] &&
                    s->copy[i] + s->kernel[i] - s->hidden[i] <= s->busy[i] &&
                    s->busy[i] + s->starved[i] <= s->length[i] && s->pageable[i] <= s->bytes[i];
        if (!fits) {
            finding_set(ret, OUTCOME_ERROR, NO_FIGURE,
                        "step entry %zu is impossible: length %g ns, busy %g, kernels %g, copies %g, hidden "
                        "%g, starved %g, %g of %g bytes pageable",
                        i, s->length[i], s->busy[i], s->kernel[i], s->copy[i], s->hidden[i], s->starved[i],
                        s->pageable[i], s->bytes[i]);
            return false;
        }
    }
    return true;
}

// Reads the steps and leaves out the warm-up.
static bool read_steps(const Section *timeline, Steps *ret)
{
    Section section;
    bool marked = false;
    if (!section_bool(timeline, "step_marks", &marked) ||
        !section_child(timeline, "steps", "timeline.steps", &section)) {
        return false;
    }
    if (!section_index(&section) || !section_amounts(&section, "index", &ret->index) ||
        !section_amounts(&section, "length_ns", &ret->length) ||
        !section_amounts(&section, "copy_ns", &ret->copy) ||
        !section_amounts(&section, "hidden_ns", &ret->hidden) ||
        !section_amounts(&section, "kernel_ns", &ret->kernel) ||
        !section_amounts(&section, "busy_ns", &ret->busy) ||
        !section_amounts(&section, "starved_ns", &ret->starved) ||
        !section_amounts(&section, "h2d_bytes", &ret->bytes) ||
        !section_amounts(&section, "pageable_bytes", &ret->pageable)) {
        return false;
    }
    ret->count = section.length;
    if (!marked || ret->count == 0) {
        finding_set(section.finding, OUTCOME_NOT_MEASURED, NO_FIGURE,
                    marked ? "no step was recorded on the device" : "the timeline has no step marks");
        return false;
    }
    size_t warmup = 0;
    if (!possible(ret, section.finding) || !count_warmup(&section, ret->length, ret->count, &warmup)) {
        return false;
    }
    const double **series[] = {&ret->index, &ret->length,  &ret->copy,  &ret->hidden,  &ret->kernel,
                               &ret->busy,  &ret->starved, &ret->bytes, &ret->pageable};
    for (size_t i = 0; i < sizeof series / sizeof series[0]; i++) {
        *series[i] += warmup;
    }
    ret->count -= warmup;
    return true;
}

// How many steps from this one on are one stretch: a step number that is missing ends it, and so does its
// length, for a long average hides much.
static size_t stretch(const Steps *s, size_t from)
{
    size_t i = from + 1;
    while (i < s->count && i - from < WINDOW_MOST && !(s->index[i] > s->index[i - 1] + 1)) {
        i++;
    }
    return i - from;
}

// The share of one recorded stretch without device work. Where stretches are not recorded, *at is the step
// that the next one begins with.
static bool starved_share(const Section *timeline, const Json *windows, const Steps *s, size_t i, size_t *at,
                          double *ret_share, double *covered)
{
    double length = NAN;
    double starved = NAN;
    Section window;
    if (!json_is_array(windows)) {
        size_t steps = stretch(s, *at);
        length = stats_sum(s->length + *at, steps);
        starved = stats_sum(s->starved + *at, steps);
        *at += steps;
    } else if (!section_inside(timeline, json_at(windows, i), &window) ||
               !section_number(&window, "length_ns", &length) ||
               !section_number(&window, "starved_ns", &starved)) {
        return false;
    }
    bool sound = length > 0 && starved >= 0 && starved <= length;
    if (!sound) {
        finding_set(timeline->finding, OUTCOME_ERROR, NO_FIGURE, "sampled window %zu starves %g ns of %g", i,
                    starved, length);
    }
    *ret_share = starved / length;
    *covered += length;
    return sound;
}

// The substitute of a run whose data is resident: no recorded stretch starves.
static void judge_resident(const Section *timeline, const Steps *s, const Config *policy, Finding *ret)
{
    const Json *windows = json_get(timeline->at, "sampled_windows");
    bool recorded = json_is_array(windows);
    Figure worst = {0, config_real(policy, "overlap.starved"), "ratio", 0};
    double covered = 0;
    size_t count = 0;
    for (size_t at = 0; recorded ? count < json_count(windows) : at < s->count; count++) {
        double share = NAN;
        if (!starved_share(timeline, windows, s, count, &at, &share, &covered)) {
            return;
        }
        worst.value = share > worst.value ? share : worst.value;
    }
    worst.n = (int64_t)count;
    // Windows may not be shorter than the steps in them, nor hide what the steps starve.
    Figure steps = {stats_sum(s->starved, s->count) / stats_sum(s->length, s->count), worst.limit, "ratio",
                    (int64_t)s->count};
    if (!require_at_most(ret, worst, "time without device work in the worst sampled window") ||
        !require_at_most(ret, steps, "time without device work over all steps")) {
        return;
    }
    if (count > 0 && covered < stats_sum(s->length, s->count)) {
        finding_set(ret, OUTCOME_ERROR, worst, "the sampled windows last %.0f ns, the steps in them %.0f",
                    covered, stats_sum(s->length, s->count));
        return;
    }
    if (s->count < STEPS_TO_JUDGE || count == 0) {
        finding_set(ret, OUTCOME_INCONCLUSIVE, worst, "%zu steps after warm-up in %zu windows, %d are needed",
                    s->count, count, STEPS_TO_JUDGE);
        return;
    }
    finding_set(ret, OUTCOME_PASS, worst,
                "data is resident and nothing is copied; at most %.2f %% of any of %zu windows is without "
                "device work",
                worst.value * 100, count);
}

// Bulk copies in a few steps would drown among steps that copy nothing: what is exposed over the run must be
// small, or the steps that do copy hide their copies in the same share.
static bool judge_bulk(const Steps *s, const double *ratio, const Config *policy, Finding *ret)
{
    double exposed = stats_sum(s->copy, s->count) - stats_sum(s->hidden, s->count);
    double floor = config_real(policy, "overlap.floor");
    size_t copying = 0;
    size_t reached = 0;
    for (size_t i = 0; i < s->count; i++) {
        copying += s->copy[i] > 0;
        reached += s->copy[i] > 0 && ratio[i] >= floor;
    }
    Figure share = {(double)reached / (double)copying, config_real(policy, "overlap.steps"), "ratio",
                    (int64_t)copying};
    return exposed < SMALL_EXPOSED * stats_sum(s->length, s->count) ||
           require_at_least(ret, share, "share of the steps with copies that hide them");
}

// Effective hidden ratio of each step; returns how many reach the floor.
static size_t hidden_ratios(const Steps *s, double floor, double *ret_ratio)
{
    size_t reached = 0;
    for (size_t i = 0; i < s->count; i++) {
        bool small = s->copy[i] - s->hidden[i] < SMALL_EXPOSED * s->length[i];
        ret_ratio[i] = small ? 1 : s->hidden[i] / s->copy[i];
        reached += ret_ratio[i] >= floor;
    }
    return reached;
}

static bool judge_few(size_t steps, size_t reached, const Config *policy, Finding *ret)
{
    if (steps >= STEPS_TO_JUDGE) {
        return true;
    }
    double best =
        (double)(reached + STEPS_TO_JUDGE - steps) / STEPS_TO_JUDGE;   // were all missing steps perfect
    Figure figure = {best, config_real(policy, "overlap.steps"), "ratio", (int64_t)steps};
    bool lost = best < figure.limit;
    finding_set(ret, lost ? OUTCOME_FAIL : OUTCOME_INCONCLUSIVE, figure,
                lost ? "%zu of %zu steps after warm-up hide their copies: %d steps could no longer pass"
                     : "%zu of %zu steps after warm-up hide their copies, %d steps are needed",
                reached, steps, STEPS_TO_JUDGE);
    return false;
}

static bool judge_trend(const double *ratio, size_t count, Finding *ret)
{
    Trend trend;
    stats_trend(ratio, count, TREND_CONFIDENCE, &trend);
    bool falls = !(trend.slope_upper >= 0) && !(trend.fall <= TREND_FALL);   // a NaN falls
    if (falls) {
        finding_set(ret, OUTCOME_FAIL, (Figure){trend.fall, TREND_FALL, "ratio", (int64_t)count},
                    "the hidden share of copy time falls by %.2f %% over the run, %.2f %% may be chance",
                    trend.fall * 100, TREND_FALL * 100);
    }
    return !falls;
}

static void judge_copies(const Section *timeline, const Steps *s, const Config *policy, Finding *ret)
{
    double floor = config_real(policy, "overlap.floor");
    int64_t n = (int64_t)s->count;
    double *ratio = section_scratch(timeline, s->count);
    if (ratio == NULL) {
        return;
    }
    size_t reached = hidden_ratios(s, floor, ratio);
    if (!judge_few(s->count, reached, policy, ret)) {
        return;
    }
    BatchMean mean;
    stats_batch_mean(ratio, s->count, BATCHES, &mean);
    double copy = stats_sum(s->copy, s->count);
    double bytes = stats_sum(s->bytes, s->count);
    Figure steps = {(double)reached / (double)n, config_real(policy, "overlap.steps"), "ratio", n};
    Figure pageable = {stats_sum(s->pageable, s->count) / bytes, config_real(policy, "overlap.pageable"),
                       "ratio", n};
    Figure starved = {stats_sum(s->starved, s->count) / stats_sum(s->length, s->count),
                      config_real(policy, "overlap.starved"), "ratio", n};
    Figure bound = {mean.lower, floor, "ratio", n};
    if (require_at_least(ret, steps, "share of steps that hide their copies") &&
        require_at_least(ret, bound, "lower bound of the mean hidden share of copy time") &&
        judge_bulk(s, ratio, policy, ret) && require_at_most(ret, starved, "time without device work") &&
        require_at_most(ret, pageable, "share of bytes copied from pageable memory") &&
        judge_trend(ratio, s->count, ret)) {
        // While no kernel runs no copy can hide, so their share of the time is the ceiling.
        finding_set(ret, OUTCOME_PASS, bound,
                    "%.2f %% of copy time is hidden, %zu of %zu steps reach %.0f %%; kernels run %.2f %% of "
                    "the time",
                    stats_sum(s->hidden, s->count) / copy * 100, reached, s->count, floor * 100,
                    stats_sum(s->kernel, s->count) / stats_sum(s->length, s->count) * 100);
    }
}

void check_overlap(const Json *evidence, const Config *policy, Finding *ret)
{
    OWNED(Arena, arena_free) *judge = arena_new(JUDGE_MEMORY_BYTES);
    Section timeline;
    Steps steps;
    bool resident = false;
    if (!section_open(evidence, "timeline", judge, ret, &timeline) || !trusted(&timeline) ||
        !section_bool(&timeline, "resident", &resident) || !read_steps(&timeline, &steps)) {
        return;
    }
    double copied = stats_sum(steps.copy, steps.count) + stats_sum(steps.bytes, steps.count);
    double copy = stats_sum(steps.copy, steps.count);
    if (copied > 0 && !(copy > 0)) {
        finding_set(ret, OUTCOME_ERROR, NO_FIGURE, "%.0f bytes were copied in no time", copied);
    } else if (copied > 0 && resident) {
        finding_set(ret, OUTCOME_ERROR, (Figure){copied - copy, 0, "bytes", (int64_t)steps.count},
                    "the data is said to lie on the device, but %.0f bytes were copied to it after warm-up",
                    copied - copy);
        return;
    } else if (copied > 0) {
        judge_copies(&timeline, &steps, policy, ret);
    } else if (resident) {
        judge_resident(&timeline, &steps, policy, ret);
    } else {
        finding_set(ret, OUTCOME_NOT_APPLICABLE, (Figure){NAN, NAN, "", (int64_t)steps.count},
                    "nothing was copied to the device, and the data was not declared resident");
    }
    judge_device_steps(evidence, &timeline, policy, ret);
}
