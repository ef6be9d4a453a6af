// overlap_device - every step by the device's own clock, so that a stall between two sampled windows is seen.
//
// A run that is sampled in windows tells of the rest only how long its steps took. Steps longer than three
// times the median may take no more of that time than gaps without work may take of a window. What the
// windows say of their own steps must agree with it.
#include "gate_internal.h"

#include <fedgate/stats.h>
#include <fedgate/text.h>
#include <stdio.h>
#include <string.h>

static const double SLOW_TIMES = 3, LEAST_SEEN = 0.95, MOST_APART = 0.5;
static const double BINS = 0.1;   // lengths may be told by their mean in narrow bins
// Recording makes steps longer, and windows are cut at other events than the clock is read at.
static const double MEDIANS_APART = 4, SUMS_APART = 0.05;

typedef struct DeviceSteps {
    int64_t count, covered, apart, apart_ns, total_ns, median_ns, longest_ns, slow_ns;
} DeviceSteps;

static bool read_device_steps(const Section *timeline, DeviceSteps *ret)
{
    const struct {
        const char *key;
        int64_t *value;
    } fields[] = {{"count", &ret->count},           {"covered", &ret->covered},
                  {"apart", &ret->apart},           {"apart_ns", &ret->apart_ns},
                  {"total_ns", &ret->total_ns},     {"median_ns", &ret->median_ns},
                  {"longest_ns", &ret->longest_ns}, {"slow_ns", &ret->slow_ns}};
    Section section;
    if (!section_child(timeline, "device_steps", "timeline.device_steps", &section)) {
        return false;
    }
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (!section_count(&section, fields[i].key, fields[i].value)) {
            return false;
        }
    }
    return true;
}

// A sum is as large as its largest part, and what is slow is longer than it may be.
static bool possible(const DeviceSteps *s, Finding *ret)
{
    double median = (double)s->median_ns;
    double longest = (double)s->longest_ns;
    bool fits = (double)s->covered + (double)s->apart <= (double)s->count && s->slow_ns <= s->total_ns &&
                s->median_ns <= s->longest_ns && s->longest_ns <= s->total_ns &&
                (double)s->total_ns <= longest * (double)s->covered && (s->covered == 0 || median > 0) &&
                (s->slow_ns == 0 || longest > SLOW_TIMES * median) &&
                (s->slow_ns >= s->longest_ns || longest <= (SLOW_TIMES + BINS) * median);
    if (!fits) {
        finding_set(
            ret, OUTCOME_ERROR, NO_FIGURE,
            "the device's clock is impossible: %lld lengths of %lld steps, %lld ns, median %lld, longest "
            "%lld, slow %lld",
            (long long)s->covered, (long long)s->count, (long long)s->total_ns, (long long)s->median_ns,
            (long long)s->longest_ns, (long long)s->slow_ns);
    }
    return fits;
}

// Steps that nobody timed may have been the slow ones.
static bool enough(const Json *evidence, const DeviceSteps *s, Finding *ret)
{
    int64_t done = json_integer_or(json_find(evidence, "window.done_steps"), s->count);
    int64_t before = json_integer_or(json_get(evidence, "resumed_from_step"), 0);
    double seen = (double)s->count / (double)(done - before);
    if (s->covered == 0 || !(seen >= LEAST_SEEN)) {
        finding_set(ret, OUTCOME_NOT_MEASURED, (Figure){seen, LEAST_SEEN, "ratio", s->count},
                    "the device's clock was read at the end of %lld of %lld steps", (long long)s->count,
                    (long long)(done - before));
        return false;
    }
    double known = ((double)s->covered + (double)s->apart) / (double)s->count;
    if (!(known >= LEAST_SEEN)) {
        finding_set(ret, OUTCOME_NOT_MEASURED, (Figure){known, LEAST_SEEN, "ratio", s->count},
                    "the device's clock tells the length of %lld of %lld steps",
                    (long long)s->covered + (long long)s->apart, (long long)s->count);
        return false;
    }
    double apart = (double)s->apart / (double)s->count;
    if (!(apart <= MOST_APART)) {
        finding_set(ret, OUTCOME_NOT_MEASURED, (Figure){apart, MOST_APART, "ratio", s->count},
                    "%lld of %lld steps lie beside validation, a checkpoint or the edge of a window",
                    (long long)s->apart, (long long)s->count);
        return false;
    }
    return true;
}

// The steps in the windows are among those that the device timed: two accounts of one run must agree.
static bool agrees(const Section *timeline, const double *window_ns, size_t count, const DeviceSteps *s,
                   Finding *ret)
{
    double *lengths = section_scratch(timeline, count);
    if (lengths == NULL || count == 0) {
        return lengths != NULL;
    }
    memcpy(lengths, window_ns, count * sizeof *lengths);
    double median = stats_quantile(lengths, count, 0.5);
    double sum = stats_sum(window_ns, count);
    double timed = ((double)s->total_ns + (double)s->apart_ns) * (1 + SUMS_APART);
    bool fits = median <= MEDIANS_APART * (double)s->median_ns &&
                (double)s->median_ns <= MEDIANS_APART * median && sum <= timed && count <= (size_t)s->count;
    if (!fits) {
        finding_set(
            ret, OUTCOME_ERROR, NO_FIGURE,
            "windows and the device's clock contradict each other: %zu steps of %.0f ns in all, median "
            "%.0f, in the windows; %lld of %lld ns, median %lld, by the clock",
            count, sum, median, (long long)s->count, (long long)s->total_ns + (long long)s->apart_ns,
            (long long)s->median_ns);
    }
    return fits;
}

static void judge_between(const Json *evidence, const Section *timeline, const double *window_ns,
                          size_t window_steps, const Config *policy, Finding *ret)
{
    Section own = *timeline;
    own.finding = ret;
    DeviceSteps steps;
    if (!read_device_steps(&own, &steps) || !possible(&steps, ret) || !enough(evidence, &steps, ret)) {
        return;
    }
    Figure slow = {(double)steps.slow_ns / (double)steps.total_ns, config_real(policy, "overlap.starved"),
                   "ratio", steps.covered};
    if (require_at_most(ret, slow, "device time in steps longer than 3 x the median, windows or not") &&
        agrees(&own, window_ns, window_steps, &steps, ret)) {
        finding_set(ret, OUTCOME_PASS, slow,
                    "; of %lld steps by the device's clock %.2f %% of the time is slow",
                    (long long)steps.covered, slow.value * 100);
    }
}

void judge_device_steps(const Json *evidence, const Section *timeline, const double *window_ns, size_t steps,
                        const Config *policy, Finding *ret)
{
    Finding between = {0};
    if (ret->outcome == OUTCOME_ERROR || ret->outcome == OUTCOME_FAIL ||
        (from_staging_thread(evidence) && !section_has(timeline, "device_steps"))) {
        return;
    }
    judge_between(evidence, timeline, window_ns, steps, policy, &between);
    if (between.outcome == OUTCOME_FAIL || between.outcome == OUTCOME_ERROR ||
        (between.outcome == OUTCOME_NOT_MEASURED && ret->outcome == OUTCOME_PASS)) {
        *ret = between;
    } else if (between.outcome == OUTCOME_PASS && ret->outcome == OUTCOME_PASS) {
        size_t length = strlen(ret->reason);
        (void)snprintf(ret->reason + length, sizeof ret->reason - length, "%s", between.reason);
    }
}
