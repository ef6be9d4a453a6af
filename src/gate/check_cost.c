// check_cost - is the night cheap enough for the samples it trained?
//
// cost per sample = device seconds x rate / 3600 / samples, with the rate of the policy, so that another rate
// can be tried on a stored night; without a rate it is device seconds per sample, and so is the limit. What
// the producer wrote must follow from its own rate.
#include "gate_internal.h"

#include <fedgate/text.h>

static const double SECONDS_PER_HOUR = 3600;

typedef struct Cost {
    double device_seconds, per_sample, rate_per_hour;
    int64_t samples;
} Cost;

static double per_sample(double device_seconds, double rate_per_hour, int64_t samples)
{
    double factor = rate_per_hour > 0 ? rate_per_hour / SECONDS_PER_HOUR : 1;
    return device_seconds * factor / (double)samples;
}

static bool read_cost(const Section *section, Cost *ret)
{
    if (!section_number(section, "device_seconds", &ret->device_seconds) ||
        !section_count(section, "samples", &ret->samples) ||
        !section_number(section, "cost_per_sample", &ret->per_sample) ||
        !section_amount(section, "rate_per_hour", &ret->rate_per_hour)) {
        return false;
    }
    Figure figure = {ret->per_sample, NAN, "", ret->samples};
    if (ret->samples == 0 || ret->device_seconds == 0) {
        finding_set(section->finding, OUTCOME_NOT_MEASURED, figure,
                    "%lld samples trained in %.4g device seconds: no cost can be told",
                    (long long)ret->samples, ret->device_seconds);
        return false;
    }
    double expected = per_sample(ret->device_seconds, ret->rate_per_hour, ret->samples);
    bool follows = ret->device_seconds > 0 &&
                   fabs(expected - ret->per_sample) <= 1e-6 * fabs(expected);   // NaN does not
    if (!follows) {
        finding_set(section->finding, OUTCOME_ERROR, figure,
                    "cost per sample %.6g does not follow from %.6g device seconds, %.4g an hour and %lld "
                    "samples",
                    ret->per_sample, ret->device_seconds, ret->rate_per_hour, (long long)ret->samples);
    }
    return follows;
}

void check_cost(const Json *evidence, const Config *policy, Finding *ret)
{
    Section section;
    Cost cost;
    if (!section_open(evidence, "cost", NULL, ret, &section) || !read_cost(&section, &cost)) {
        return;
    }
    double rate = config_real(policy, "cost.device_hour");
    double limit = config_real(policy, "cost.limit");
    bool required = config_list_has(policy, "checks.required", "cost");
    const char *unit = rate > 0 ? "currency" : "device s";
    Figure figure = {per_sample(cost.device_seconds, rate, cost.samples), limit > 0 ? limit : NAN, unit,
                     cost.samples};
    if (!(limit > 0)) {
        finding_set(ret, required ? OUTCOME_NOT_MEASURED : OUTCOME_NOT_APPLICABLE, figure,
                    "no limit is declared (cost.limit); a sample costs %.4g %s%s", figure.value, unit,
                    required ? "; declare one or leave the check out" : "");
    } else if (require_at_most(ret, figure, "cost of a sample")) {
        finding_set(ret, OUTCOME_PASS, figure, "a sample costs %.4g %s, at most %.4g; %.4g device seconds",
                    figure.value, unit, limit, cost.device_seconds);
    }
}
