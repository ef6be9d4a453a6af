// device_steps - how long every step of a run lasted by the device's own clock, which it writes when a step
// is decided: what the traced windows cannot see shows here.
//
// Durations lie in bins of a 64th of an octave; a bin keeps the sum of what is in it, so medians are true to
// about a hundredth and sums exact. A step behind a boundary or a start is counted apart.
#include "trainer_internal.h"

#include <fedgate/json.h>
#include <math.h>

enum { SLOW_TIMES = 3 };   // medians

static size_t bin_of(int64_t ns)
{
    double octave = log2((double)(ns > 1 ? ns : 1));
    size_t bin = (size_t)(octave * STEP_BINS);
    return bin < (size_t)STEP_OCTAVES * STEP_BINS ? bin : (size_t)STEP_OCTAVES * STEP_BINS - 1;
}

void device_steps_add(DeviceSteps *steps, int64_t step, int64_t ended_ns, bool apart)
{
    bool follows = steps->count > 0 && step == steps->last_step + 1 && ended_ns > steps->last_ns;
    int64_t ns = ended_ns - steps->last_ns;
    steps->count++;
    steps->last_step = step;
    steps->last_ns = ended_ns;
    steps->ended_ns[step % STEP_ENDED] = ended_ns;
    if (!follows && !apart)
        return;
    if (apart) {
        steps->apart++;
        steps->apart_ns += follows ? ns : 0;
        return;
    }
    size_t bin = bin_of(ns);
    steps->covered++;
    steps->total_ns += ns;
    steps->longest_step = ns > steps->longest_ns ? step : steps->longest_step;
    steps->longest_ns = ns > steps->longest_ns ? ns : steps->longest_ns;
    steps->bin[bin].count++;
    steps->bin[bin].ns += ns;
}

// Mean of the bin that holds the step of this rank.
static int64_t ranked_ns(const DeviceSteps *steps, int64_t rank)
{
    int64_t below = 0;
    for (size_t i = 0; i < (size_t)STEP_OCTAVES * STEP_BINS; i++) {
        below += steps->bin[i].count;
        if (below > rank)
            return steps->bin[i].ns / steps->bin[i].count;
    }
    return 0;
}

static int64_t slow_ns(const DeviceSteps *steps, int64_t median_ns)
{
    int64_t slow = 0;
    for (size_t i = 0; i < (size_t)STEP_OCTAVES * STEP_BINS; i++)
        if (steps->bin[i].count > 0 && steps->bin[i].ns / steps->bin[i].count > SLOW_TIMES * median_ns)
            slow += steps->bin[i].ns;
    return slow;
}

Json *device_steps_evidence(const DeviceSteps *steps)
{
    Json *json = json_make_object();
    int64_t median = ranked_ns(steps, (steps->covered - 1) / 2);
    json_put_integer(json, "count", steps->count);
    json_put_integer(json, "covered", steps->covered);
    json_put_integer(json, "apart", steps->apart);
    json_put_integer(json, "apart_ns", steps->apart_ns);
    json_put_integer(json, "total_ns", steps->total_ns);
    json_put_integer(json, "median_ns", median);
    json_put_integer(json, "p99_ns", ranked_ns(steps, (steps->covered - 1) * 99 / 100));
    json_put_integer(json, "longest_ns", steps->longest_ns);
    json_put_integer(json, "longest_step", steps->longest_step);
    json_put_integer(json, "slow_ns", slow_ns(steps, median));
    return json;
}
