// check_overlap - was the device kept busy while the next batch was copied, and did it stay so?
//
// Order: trust, shape of the evidence, then the rules from coarse to fine. The rules of copies are those of
// src/timeline/sustained.c, which a stored trace is judged by as well.
#include "gate_internal.h"

#include <fedgate/stats.h>
#include <fedgate/timeline.h>
#include <stdio.h>

enum { WINDOW_MOST = 100 };
static const double LEAST_SEEN = 0.95, BYTES_PER_NS_MOST = 1e4, BEHIND_WINDOWS_NS = 1e6;
static const double WINDOWS_MOST = 2;   // times the steps recorded in them

typedef struct Steps {
    const double *index, *length, *copy, *hidden, *kernel, *busy, *starved, *bytes, *pageable;
    size_t count;
    size_t recorded;   // warm-up included, here and below
    double recorded_ns;
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
    const double *wait = NULL;   // shown only
    if (section_has(&section, "wait_ns") && !section_amounts(&section, "wait_ns", &wait)) {
        return false;
    }
    ret->count = section.length;
    ret->recorded = section.length;
    ret->recorded_ns = stats_sum(ret->length, ret->count);
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
    double *scratch = section_scratch(timeline, s->count);
    if (scratch == NULL) {
        return;
    }
    for (size_t at = 0; recorded ? count < json_count(windows) : at < s->count; count++) {
        double share = NAN;
        if (!starved_share(timeline, windows, s, count, &at, &share, &covered)) {
            return;
        }
        worst.value = share > worst.value ? share : worst.value;
    }
    worst.n = (int64_t)count;
    // Windows may not be shorter than the steps in them or far longer, nor hide what the steps starve.
    Figure steps = {stats_sum(s->starved, s->count) / overlap_time(s->length, s->count, scratch), worst.limit,
                    "ratio", (int64_t)s->count};
    if (!require_at_most(ret, worst, "time without device work in the worst sampled window") ||
        !require_at_most(ret, steps, "time without device work over all steps")) {
        return;
    }
    double judged = stats_sum(s->length, s->count);
    if (count > 0 && (covered < judged || covered > WINDOWS_MOST * s->recorded_ns)) {
        finding_set(ret, OUTCOME_ERROR, worst, "the sampled windows last %.0f ns, the steps in them %.0f",
                    covered, judged);
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

static void judge_few(const OverlapRuling *ruling, Figure figure, Finding *ret)
{
    bool lost = ruling->word == OVERLAP_NOT_SUSTAINED;
    finding_set(ret, lost ? OUTCOME_FAIL : OUTCOME_INCONCLUSIVE, figure,
                lost ? "%zu of %zu steps after warm-up hide their copies: %d steps could no longer pass"
                     : "%zu of %zu steps after warm-up hide their copies, %d steps are needed",
                ruling->reached, ruling->steps, OVERLAP_LEAST_STEPS);
}

static Figure figure_of(const OverlapRuling *ruling, OverlapRule rule)
{
    return (Figure){ruling->value[rule], ruling->limit[rule], "ratio", (int64_t)ruling->n[rule]};
}

static void judge_copies(const Section *timeline, const Steps *s, const Config *policy, Finding *ret)
{
    const OverlapLimits limits = {
        .floor = config_real(policy, "overlap.floor"),
        .steps = config_real(policy, "overlap.steps"),
        .starved = config_real(policy, "overlap.starved"),
        .pageable = config_real(policy, "overlap.pageable"),
    };
    const OverlapSeries series = {s->length,  s->copy,  s->hidden,   s->kernel,
                                  s->starved, s->bytes, s->pageable, s->count};
    double *scratch = section_scratch(timeline, 2 * s->count);
    if (scratch == NULL) {
        return;
    }
    OverlapRuling ruling;
    overlap_judge(&series, &limits, scratch, &ruling);
    if (ruling.few) {
        judge_few(&ruling, figure_of(&ruling, OVERLAP_STEPS), ret);
        return;
    }
    for (int i = 0; i < OVERLAP_RULE_COUNT; i++) {
        OverlapRule rule = (OverlapRule)i;
        Figure figure = figure_of(&ruling, rule);
        if (overlap_rules[rule].at_least ? !require_at_least(ret, figure, overlap_rules[rule].what)
                                         : !require_at_most(ret, figure, overlap_rules[rule].what)) {
            return;
        }
    }
    // Bulk copies lie in few steps: their share of copy time may be low while all of it is short.
    char bulk[96] = "";
    if (ruling.copying < ruling.steps) {
        (void)snprintf(bulk, sizeof bulk, "; %zu of the steps hold copies, exposed for %.2f %% of the time",
                       ruling.copying, ruling.exposed_share * 100);
    }
    // While no kernel runs no copy can hide, so their share of the time is the ceiling.
    finding_set(
        ret, OUTCOME_PASS, figure_of(&ruling, OVERLAP_BOUND),
        "%.2f %% of copy time is hidden, %zu of %zu steps reach %.0f %%%s; kernels run %.2f %% of the time",
        ruling.hidden_share * 100, ruling.reached, ruling.steps, limits.floor * 100, bulk,
        ruling.kernel_share * 100);
}

// The steps are those of this run; the staging thread records all of them. Bytes are counted where a copy
// begins and its time where it runs, which may be behind the end of a window: so much is allowed. Makes a
// pass worse, nothing better.
static void judge_of_the_run(const Json *evidence, const Steps *s, Finding *ret)
{
    double done = json_number_or(json_find(evidence, "window.done_steps"), INFINITY);
    double before = json_number_or(json_get(evidence, "resumed_from_step"), 0);
    if (s->index[s->count - 1] > done) {
        finding_set(ret, OUTCOME_ERROR, NO_FIGURE, "step %.0f was recorded, %.0f were done",
                    s->index[s->count - 1], done);
        return;
    }
    double seen = (double)s->recorded / (done - before);
    if (from_staging_thread(evidence) && isfinite(done) && !(seen >= LEAST_SEEN)) {
        finding_set(ret, OUTCOME_NOT_MEASURED, (Figure){seen, LEAST_SEEN, "ratio", (int64_t)s->recorded},
                    "%zu of %.0f steps were recorded", s->recorded, done - before);
        return;
    }
    double bytes = stats_sum(s->bytes, s->count);
    double most = BYTES_PER_NS_MOST * (stats_sum(s->copy, s->count) + BEHIND_WINDOWS_NS);
    if (!(bytes <= most)) {
        finding_set(ret, OUTCOME_ERROR, (Figure){bytes, most, "bytes", (int64_t)s->count},
                    "%.4g bytes were copied in %.0f ns, which no device can", bytes,
                    stats_sum(s->copy, s->count));
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
    if (ret->outcome == OUTCOME_PASS) {
        judge_of_the_run(evidence, &steps, ret);
    }
    judge_device_steps(evidence, &timeline, steps.length, steps.count, policy, ret);
}
