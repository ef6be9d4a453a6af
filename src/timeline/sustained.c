// sustained - was copy time hidden by kernels, in step after step? The one rule for evidence and traces.
//
// A step counts as hidden when what it exposes is under 1 % of its length; then its ratio is 1, here and in
// the mean. Time is judged with a step's length counted as at most 10 medians, so that one absurd length
// cannot thin out what the others starve or expose.
#include <fedgate/timeline.h>

#include <fedgate/stats.h>
#include <math.h>
#include <string.h>

enum { BATCHES = 10, LONGEST_MEDIANS = 10 };
static const double SMALL_EXPOSED = 0.01, TREND_FALL = 0.01, TREND_CONFIDENCE = 0.999;

const struct OverlapRuleInfo overlap_rules[OVERLAP_RULE_COUNT] = {
    [OVERLAP_STEPS] = {"share of steps that hide their copies", true},
    [OVERLAP_BOUND] = {"lower bound of the mean hidden share of copy time", true},
    [OVERLAP_BULK] = {"share of the steps with copies that hide them", true},
    [OVERLAP_STARVED] = {"time without device work", false},
    [OVERLAP_PAGEABLE] = {"share of bytes copied from pageable memory", false},
    [OVERLAP_TREND] = {"fall of the hidden share of copy time over the run", false},
};

const char *overlap_word(OverlapWord word)
{
    static const char *const words[] = {"sustained", "not_sustained", "inconclusive", "no_copies",
                                        "untrusted"};
    return words[word];
}

bool overlap_holds(const OverlapRuling *ruling, OverlapRule rule)
{
    double value = ruling->value[rule];
    double limit = ruling->limit[rule];
    return isfinite(value) && (overlap_rules[rule].at_least ? value >= limit : value <= limit);
}

double overlap_time(const double *length, size_t count, double *scratch)
{
    if (count == 0) {
        return 0;
    }
    memcpy(scratch, length, count * sizeof *scratch);
    double most = stats_quantile(scratch, count, 0.5) * LONGEST_MEDIANS;
    for (size_t i = 0; i < count; i++) {
        scratch[i] = length[i] > most ? most : length[i];
    }
    return stats_sum(scratch, count);
}

static void hidden_ratios(const OverlapSeries *s, double floor, double *ret_ratio, OverlapRuling *ret)
{
    for (size_t i = 0; i < s->count; i++) {
        bool small = s->copy[i] - s->hidden[i] < SMALL_EXPOSED * s->length[i];
        ret_ratio[i] = small ? 1 : s->hidden[i] / s->copy[i];
        ret->reached += ret_ratio[i] >= floor;
        ret->copying += s->copy[i] > 0;
    }
}

static void put(OverlapRuling *ret, OverlapRule rule, double value, double limit, size_t n)
{
    ret->value[rule] = value;
    ret->limit[rule] = limit;
    ret->n[rule] = n;
}

// Bulk copies in a few steps would drown among steps that copy nothing: what is exposed over the run must be
// small, or the steps that do copy hide their copies in the same share.
static double bulk_share(const OverlapSeries *s, double floor, const double *ratio, double time,
                         const OverlapRuling *ret)
{
    double exposed = stats_sum(s->copy, s->count) - stats_sum(s->hidden, s->count);
    size_t reached = 0;
    for (size_t i = 0; i < s->count; i++) {
        reached += s->copy[i] > 0 && ratio[i] >= floor;
    }
    return exposed < SMALL_EXPOSED * time ? 1 : (double)reached / (double)ret->copying;
}

// A fall that may be chance counts as none; one that is no number does not hold.
static double certain_fall(const double *ratio, size_t count)
{
    Trend trend;
    stats_trend(ratio, count, TREND_CONFIDENCE, &trend);
    return trend.slope_upper >= 0 ? 0 : trend.fall;
}

static OverlapWord word_of(const OverlapRuling *ruling)
{
    if (ruling->few) {
        return overlap_holds(ruling, OVERLAP_STEPS) ? OVERLAP_INCONCLUSIVE : OVERLAP_NOT_SUSTAINED;
    }
    for (int rule = 0; rule < OVERLAP_RULE_COUNT; rule++) {
        if (!overlap_holds(ruling, (OverlapRule)rule)) {
            return OVERLAP_NOT_SUSTAINED;
        }
    }
    return OVERLAP_SUSTAINED;
}

void overlap_judge(const OverlapSeries *s, const OverlapLimits *limits, double *scratch, OverlapRuling *ret)
{
    *ret = (OverlapRuling){.steps = s->count, .few = s->count < OVERLAP_LEAST_STEPS};
    double copy = stats_sum(s->copy, s->count);
    double length = stats_sum(s->length, s->count);
    double *ratio = scratch;
    hidden_ratios(s, limits->floor, ratio, ret);
    double time = overlap_time(s->length, s->count, scratch + s->count);
    size_t missing = ret->few ? OVERLAP_LEAST_STEPS - s->count : 0;   // were all of them perfect
    BatchMean mean;
    stats_batch_mean(ratio, s->count, BATCHES, &mean);
    put(ret, OVERLAP_STEPS, (double)(ret->reached + missing) / (double)(s->count + missing), limits->steps,
        s->count);
    put(ret, OVERLAP_BOUND, mean.lower, limits->floor, s->count);
    put(ret, OVERLAP_BULK, bulk_share(s, limits->floor, ratio, time, ret), limits->steps, ret->copying);
    put(ret, OVERLAP_STARVED, stats_sum(s->starved, s->count) / time, limits->starved, s->count);
    put(ret, OVERLAP_PAGEABLE, stats_sum(s->pageable, s->count) / stats_sum(s->bytes, s->count),
        limits->pageable, s->count);
    put(ret, OVERLAP_TREND, certain_fall(ratio, s->count), TREND_FALL, s->count);
    ret->hidden_share = stats_sum(s->hidden, s->count) / copy;
    ret->kernel_share = stats_sum(s->kernel, s->count) / length;
    ret->exposed_share = (copy - stats_sum(s->hidden, s->count)) / length;
    ret->word = copy > 0 ? word_of(ret) : OVERLAP_NO_COPIES;
}
