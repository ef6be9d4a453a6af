// check_plausible - could this device have been that fast?
//
// A claim holds when its time covers the kernels launched inside it and its rate stays under min(P_peak, I x
// B_mem), the second term only when the bandwidth is known. What is impossible without any peak is refused
// even when the peak is unknown.
#include "plausible_internal.h"

#include <fedgate/text.h>

enum { CLAIMS_MOST = 8 };

typedef struct Bound {
    double peak_flops, bandwidth;   // bandwidth 0: does not bind
    bool cached;   // for the working set lies in a cache
} Bound;

static bool read_claim(const Section *plausible, const Json *item, Claim *ret)
{
    Section claim;
    if (!section_inside(plausible, item, &claim) || !section_text(&claim, "name", &ret->name) ||
        !section_number(&claim, "flop", &ret->flop) || !section_number(&claim, "bytes", &ret->bytes) ||
        !section_number(&claim, "time_ns", &ret->time_ns) ||
        !section_number(&claim, "kernel_union_ns", &ret->kernel_union_ns) ||
        !section_integer(&claim, "count", &ret->count)) {
        return false;
    }
    bool sound = isfinite(ret->flop) && ret->flop >= 0 && isfinite(ret->bytes) && ret->bytes >= 0 &&
                 ret->count >= 1 && ret->flop + ret->bytes > 0;
    if (!sound) {
        finding_set(plausible->finding, OUTCOME_ERROR, NO_FIGURE,
                    "claim '%.60s' is over %g FLOP, %g bytes, %lld executions", ret->name, ret->flop,
                    ret->bytes, (long long)ret->count);
    }
    return sound;
}

static bool covers_kernels(const Claim *claim, Finding *ret)
{
    bool covers = isfinite(claim->time_ns) && claim->time_ns > 0 && isfinite(claim->kernel_union_ns) &&
                  claim->time_ns >= claim->kernel_union_ns && claim->kernel_union_ns >= 0;
    if (!covers) {
        finding_set(ret, OUTCOME_FAIL, (Figure){claim->time_ns, claim->kernel_union_ns, "ns", claim->count},
                    "'%.60s' claims %g ns, its kernels ran %g ns: the timer was stopped before the device "
                    "had finished",
                    claim->name, claim->time_ns, claim->kernel_union_ns);
    }
    return covers;
}

// Share of the attainable rate that is claimed; above 1 is impossible.
static double claimed_share(const Claim *claim, Bound bound)
{
    double seconds = claim->time_ns / WALL_NS_PER_S;
    double by_peak = claim->flop / seconds / bound.peak_flops;
    double by_memory = bound.bandwidth > 0 ? claim->bytes / seconds / bound.bandwidth : 0;
    return by_peak >= by_memory ? by_peak : by_memory;
}

// The peak must be that of the precision trained in, and on a CPU what its cores could ever do: 6 GHz x 128
// FLOP a cycle is more than any instruction set has.
static bool peak_fits(const Json *evidence, const Section *plausible, double peak_flops)
{
    static const double CORE_FLOPS = 6e9 * 128;
    static const int64_t CORES_MOST = 8192;   // more than one machine has
    const char *precision = NULL;
    const char *trained = json_text_or(json_get(evidence, "precision"), NULL);
    int64_t cores = 0;
    if (!section_text(plausible, "precision", &precision)) {
        return false;
    }
    if (!text_equal(precision, trained)) {
        finding_set(plausible->finding, OUTCOME_ERROR, NO_FIGURE,
                    "the peak is that of '%.20s', trained was in '%.20s'", precision,
                    trained == NULL ? "no precision that is known" : trained);
        return false;
    }
    if (!text_equal(json_text_or(json_get(evidence, "device_class"), ""), "cpu")) {
        return true;
    }
    if (!section_count(plausible, "cores", &cores)) {
        return false;
    }
    bool fits = cores <= CORES_MOST && peak_flops <= (double)cores * CORE_FLOPS;
    if (!fits) {
        finding_set(plausible->finding, OUTCOME_ERROR,
                    (Figure){peak_flops, (double)cores * CORE_FLOPS, "FLOP/s", cores},
                    "a peak of %.4g FLOP/s is more than %lld cores could have, %.4g, of at most %lld",
                    peak_flops, (long long)cores, (double)cores * CORE_FLOPS, (long long)CORES_MOST);
    }
    return fits;
}

// Of a GPU only the table of the program is believed: a card it does not know has no bound but the policy's,
// and a figure above its row is no figure of that card, whoever says it.
static bool card_fits(const Json *evidence, const Section *plausible, bool declared, double *peak_flops)
{
    const char *device = NULL;
    if (text_equal(json_text_or(json_get(evidence, "device_class"), ""), "cpu")) {
        return true;
    }
    if (!section_text(plausible, "device", &device)) {
        return false;
    }
    const DevicePeak *row = plan_device_peak(device, json_text_or(json_get(plausible->at, "precision"), ""));
    if (row == NULL) {
        *peak_flops = declared ? *peak_flops : 0;
    } else if (*peak_flops > row->peak_flops) {
        finding_set(plausible->finding, OUTCOME_ERROR, (Figure){*peak_flops, row->peak_flops, "FLOP/s", 1},
                    "a peak of %.4g FLOP/s is more than '%.60s' has, %.4g", *peak_flops, device,
                    row->peak_flops);
        return false;
    }
    return true;
}

// The policy's declared figures go before those the run found.
static bool read_bound(const Json *evidence, const Section *plausible, const Config *policy, Bound *ret)
{
    if (!section_number(plausible, "peak_flops", &ret->peak_flops) ||
        !section_number(plausible, "bandwidth", &ret->bandwidth)) {
        return false;
    }
    double declared_peak = config_real(policy, "device.peak_flops");
    double declared_bandwidth = config_real(policy, "device.bandwidth");
    ret->peak_flops = declared_peak > 0 ? declared_peak : ret->peak_flops;
    ret->bandwidth = declared_bandwidth > 0 ? declared_bandwidth : ret->bandwidth;
    bool sound =
        isfinite(ret->peak_flops) && ret->peak_flops >= 0 && isfinite(ret->bandwidth) && ret->bandwidth >= 0;
    if (!sound) {
        finding_set(plausible->finding, OUTCOME_ERROR, NO_FIGURE,
                    "peak %g FLOP/s and bandwidth %g bytes/s cannot bound a claim", ret->peak_flops,
                    ret->bandwidth);
    }
    return sound && peak_fits(evidence, plausible, ret->peak_flops) &&
           card_fits(evidence, plausible, declared_peak > 0, &ret->peak_flops);
}

static bool clocks_agree(const Section *plausible, const Config *policy, double *ret_run_ns)
{
    Section clock;
    double host = NAN;
    double device = NAN;
    if (!section_child(plausible, "clock", "plausible.clock", &clock) ||
        !section_number(&clock, "host_ns", &host) || !section_number(&clock, "device_ns", &device)) {
        return false;
    }
    // Two readings a moment apart, each as late as the scheduler lets it be: of a short run that is a share.
    static const double READINGS_NS = 8e6, SHARE_MOST = 0.1;
    double share =
        fmax(config_real(policy, "plausible.clock"), fmin(SHARE_MOST, READINGS_NS / fmax(host, 1)));
    Figure figure = {host > 0 ? fabs(host - device) / host : NAN, share, "ratio", 1};
    *ret_run_ns = host * (1 + share);
    return require_at_most(plausible->finding, figure, "disagreement of host and device clock");
}

// A claim longer than the run is no measurement: time added to it makes any rate look possible.
static bool inside_run(const Section *plausible, const Claim *claim, double run_ns)
{
    bool inside = claim->time_ns <= run_ns;
    if (!inside) {
        finding_set(plausible->finding, OUTCOME_ERROR, (Figure){claim->time_ns, run_ns, "ns", claim->count},
                    "'%.60s' claims %g ns of a run of %g ns", claim->name, claim->time_ns, run_ns);
    }
    return inside;
}

// A working set that the last cache holds is moved at that cache's bandwidth, which nobody tells.
static void level_of(const Json *evidence, const Section *plausible, const Config *policy, double working_set,
                     Bound *bound)
{
    const DevicePeak *row = plan_device_peak(json_text_or(json_get(plausible->at, "device"), ""),
                                             json_text_or(json_get(evidence, "precision"), ""));
    bool cached = row != NULL && working_set <= row->cache_bytes;
    bound->cached = cached && bound->bandwidth > 0 && !(config_real(policy, "device.bandwidth") > 0);
    bound->bandwidth = bound->cached ? 0 : bound->bandwidth;
}

static double fastest_claim(const Claim *claims, size_t count, Bound bound, Claim *ret_fastest)
{
    double worst = -1;
    for (size_t i = 0; i < count; i++) {
        double share = claimed_share(&claims[i], bound);
        if (!(share <= worst)) {
            worst = share;
            *ret_fastest = claims[i];
        }
    }
    return worst;
}

// What can be told is told; without a claim, a peak, a kernel or a FLOP there is nothing to hold against.
static bool can_tell(const Claim *claims, size_t count, Bound bound, Finding *ret)
{
    double kernels = 0, flop = 0;
    for (size_t i = 0; i < count; i++) {
        kernels += claims[i].kernel_union_ns;
        flop += claims[i].flop;
    }
    const char *why = count == 0              ? "no rate was claimed"
                      : bound.peak_flops == 0 ? "the peak of this device is unknown, and a guess is no bound"
                      : !(flop > 0)           ? "no claim says how many FLOP it did"
                      : !(kernels > 0) ? "no kernel was recorded inside a claim, so that no time can be "
                                         "doubted"
                                       : NULL;
    if (why != NULL) {
        finding_set(ret, OUTCOME_NOT_MEASURED, NO_FIGURE, "%s", why);
    }
    return why == NULL;
}

static void say_fastest(const Json *evidence, const Claim *fastest, double worst, size_t count, Bound bound,
                        Finding *ret)
{
    // The bound of a CPU is that of its FP32 instructions, which compute half precision as well.
    const char *precision = json_text_or(json_get(evidence, "precision"), "fp32");
    bool emulated = text_equal(json_text_or(json_get(evidence, "device_class"), ""), "cpu") &&
                    !text_equal(precision, "fp32");
    char memory[48] = "";
    if (bound.bandwidth > 0) {
        figure_text(bound.bandwidth, "bytes/s", memory);
    }
    bool holds = isfinite(worst) && worst <= 1;
    finding_set(ret, holds ? OUTCOME_PASS : OUTCOME_FAIL, (Figure){worst, 1, "ratio", (int64_t)count},
                "%s '%.60s' is %.4g FLOP/s, %.2f %% of what %.4g FLOP/s%s%s allow%s%.8s%s%s",
                holds ? "the fastest claim" : "impossible: claim", fastest->name,
                fastest->flop / fastest->time_ns * WALL_NS_PER_S, worst * 100, bound.peak_flops,
                memory[0] == '\0' ? "" : " and ", memory, emulated ? "; " : "", emulated ? precision : "",
                emulated ? " is emulated in fp32" : "",
                bound.cached ? "; the step's data fits the last cache" : "");
}

void check_plausible(const Json *evidence, const Config *policy, Finding *ret)
{
    OWNED(Arena, arena_free) *judge = arena_new(JUDGE_MEMORY_BYTES);
    Section plausible;
    const Json *items = NULL;
    Bound bound = {0};
    Claim claims[CLAIMS_MOST];
    double run_ns = NAN;
    double working_set = NAN;
    if (!section_open(evidence, "plausible", judge, ret, &plausible) ||
        !section_array(&plausible, "claims", &items) || !section_distinct(&plausible, items, "name", NULL) ||
        !read_bound(evidence, &plausible, policy, &bound)) {
        return;
    }
    size_t count = json_count(items);
    if (count > CLAIMS_MOST) {
        finding_set(ret, OUTCOME_ERROR, NO_FIGURE, "%zu rates are claimed, at most %d can be", count,
                    CLAIMS_MOST);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (!read_claim(&plausible, json_at(items, i), &claims[i]) || !covers_kernels(&claims[i], ret)) {
            return;
        }
    }
    if (!clocks_agree(&plausible, policy, &run_ns)) {
        return;
    }
    Claim fastest = {"", 0, 0, 1, 0, 0};
    const Bound by_peak = {.peak_flops = bound.peak_flops};
    double worst = fastest_claim(claims, count, by_peak, &fastest);
    if (bound.peak_flops > 0 && !(worst <= 1)) {
        say_fastest(evidence, &fastest, worst, count, by_peak, ret);   // impossible, whatever else is wrong
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (!inside_run(&plausible, &claims[i], run_ns)) {
            return;
        }
    }
    if (!can_tell(claims, count, bound, ret) ||
        !work_follows(evidence, &plausible, policy, claims, count, &working_set)) {
        return;
    }
    level_of(evidence, &plausible, policy, working_set, &bound);
    worst = fastest_claim(claims, count, bound, &fastest);
    say_fastest(evidence, &fastest, worst, count, bound, ret);
}
