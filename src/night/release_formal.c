// release_formal - the tables a reader can check by hand (brief.md), worked tonight by the same code that
// planned and judged this night, beside the figures worked by hand.
//
// Ledger and roofline by src/plan, overlap by src/timeline, closure by its judge. GB = 1e9 bytes.
#include "night_internal.h"

#include <fedgate/timeline.h>
#include <math.h>
#include <stdlib.h>

static const double GB = 1e9;

typedef struct Worked {
    MemoryPlan by_16, by_64, by_plan;   // microbatch 16, 64, chosen by the plan
    Roofline roofline;
    double hidden_ratio, closes, does_not;
} Worked;

// -- the rows: what a person works out, and what the program has

static double budget(const Worked *w)
{
    return (double)w->by_plan.budget_bytes / GB;
}

static double available(const Worked *w)
{
    return (double)w->by_plan.available_bytes / GB;
}

static double largest(const Worked *w)
{
    return (double)w->by_plan.largest_microbatch;
}

static double use(const MemoryPlan *plan, int64_t samples)
{
    return (double)(plan->state_bytes + samples * plan->per_sample_bytes) / GB;
}

static double use_54(const Worked *w)
{
    return use(&w->by_plan, 54);
}

static double use_55(const Worked *w)
{
    return use(&w->by_plan, 55);
}

static double fifth_block(const Worked *w)
{
    double sum = 0;
    for (size_t i = 0; i < w->by_16.block_count; i++)
        sum += (double)w->by_16.blocks[i];
    return sum / GB;
}

static double peak_16(const Worked *w)
{
    return (double)w->by_16.planned_peak_bytes / GB;
}

static double peak_64(const Worked *w)
{
    return (double)w->by_64.planned_peak_bytes / GB;
}

static double refused_64(const Worked *w)
{
    return w->by_64.fits ? 0 : 1;
}

static double microbatch(const Worked *w)
{
    return (double)w->by_plan.microbatch;
}

static double accumulation(const Worked *w)
{
    return (double)w->by_plan.accumulation;
}

static double peak_planned(const Worked *w)
{
    return (double)w->by_plan.planned_peak_bytes / GB;
}

static double ridge(const Worked *w)
{
    return w->roofline.ridge;
}

static double flop(const Worked *w)
{
    return w->roofline.flop;
}

static double bytes(const Worked *w)
{
    return w->roofline.bytes;
}

static double intensity(const Worked *w)
{
    return w->roofline.intensity;
}

static double attainable(const Worked *w)
{
    return w->roofline.attainable / 1e12;
}

static double hidden(const Worked *w)
{
    return w->hidden_ratio;
}

static double closes(const Worked *w)
{
    return w->closes;
}

static double does_not_close(const Worked *w)
{
    return w->does_not;
}

static const struct {
    const char *name, *by_hand, *unit;
    double expected;
    double (*actual)(const Worked *worked);
} rows[] = {
    {"ledger: budget", "24 GB x (1 - 0.10)", "GB", 21.6, budget},
    {"ledger: available", "21.6 GB - 3.2 GB of state", "GB", 18.4, available},
    {"ledger: largest microbatch", "18.4 GB / 0.34 GB a sample, rounded down", "samples", 54, largest},
    {"ledger: 54 samples", "3.2 GB + 54 x 0.34 GB, inside 21.6 GB", "GB", 21.56, use_54},
    {"ledger: 55 samples", "3.2 GB + 55 x 0.34 GB, over 21.6 GB", "GB", 21.90, use_55},
    {"ledger: activations of microbatch 16", "16 x 0.34 GB in five blocks", "GB", 5.44, fifth_block},
    {"ledger: microbatch 16", "3.2 GB + 5.44 GB", "GB", 8.64, peak_16},
    {"ledger: microbatch 64", "3.2 GB + 64 x 0.34 GB", "GB", 24.96, peak_64},
    {"ledger: microbatch 64 is refused", "24.96 GB > 21.6 GB: yes is 1", "", 1, refused_64},
    {"ledger: microbatch of a batch of 256", "largest divisor of 256 up to 54", "samples", 32, microbatch},
    {"ledger: accumulation of a batch of 256", "256 / 32", "steps", 8, accumulation},
    {"ledger: batch of 256", "3.2 GB + 32 x 0.34 GB", "GB", 14.08, peak_planned},
    {"roofline: ridge", "990e12 FLOP/s / 4.8e12 byte/s", "FLOP/byte", 206.25, ridge},
    {"roofline: FLOP of a layer", "2 x 256 x 32 x 256", "FLOP", 4194304, flop},
    {"roofline: bytes of a layer", "(8,192 + 8,192 + 65,536) x 2", "bytes", 163840, bytes},
    {"roofline: intensity", "4,194,304 / 163,840", "FLOP/byte", 25.6, intensity},
    {"roofline: attainable", "min(990, 25.6 x 4.8)", "TFLOP/s", 122.88, attainable},
    {"overlap: copies [0,4) [6,10), kernels [2,8)", "(2 + 2) / 8", "ratio", 0.5, hidden},
    {"closure: 9.999 us of 1 ms missing", "at most 1 % or 2 us: every step closes", "ratio", 1, closes},
    {"closure: 10.001 us of 1 ms missing", "over 1 %: no step closes", "ratio", 0, does_not_close},
};

// -- working them

static bool work_ledger(const char *setting, MemoryPlan *ret_plan, Error *error)
{
    const char *const sets[] = {"device.memory=24GB",
                                "memory.reserve=0.1",
                                "memory.state=3.2GB",
                                "memory.blocks=5",
                                "memory.per_sample=0.34GB",
                                "train.batch=256",
                                setting};
    OWNED(Config, config_free) *config = config_load(NULL, sets, sizeof sets / sizeof sets[0], NULL, error);
    return config != NULL && plan_memory(config, NULL, 0, ret_plan, error);
}

static bool work_overlap(double *ret_hidden_ratio, Error *error)
{
    enum { FROM = 1000 };   // a timestamp of 0 is not trusted
    static const Span spans[] = {
        {.kind = SPAN_STEP_MARK, .begin = FROM, .end = FROM + 10, .step = 0},
        {.kind = SPAN_COPY_H2D, .begin = FROM, .end = FROM + 4, .step = 0},
        {.kind = SPAN_COPY_H2D, .begin = FROM + 6, .end = FROM + 10, .step = 0},
        {.kind = SPAN_KERNEL, .stream = 1, .begin = FROM + 2, .end = FROM + 8, .step = 0},
    };
    OWNED(Timeline, timeline_free) *timeline = timeline_new(sizeof spans / sizeof spans[0]);
    if (timeline == NULL)
        return FAIL(error, ERROR_MEMORY, 0, "could not allocate the timeline of an example");
    for (size_t i = 0; i < sizeof spans / sizeof spans[0]; i++)
        timeline_add(timeline, &spans[i]);
    StepOverlap *steps = NULL;
    size_t count = 0;
    TimelineTrust trust;
    if (!timeline_overlap(timeline, &steps, &count, &trust, error))
        return false;
    *ret_hidden_ratio = count == 1 && steps[0].copy_ns > 0
                            ? (double)steps[0].hidden_ns / (double)steps[0].copy_ns
                            : (double)NAN;
    free(steps);
    return true;
}

// Share of 20 steps of 1 ms that close, by the judge, when `missing_ns` of each are measured by nobody.
static double work_closure(const Config *policy, int64_t missing_ns)
{
    enum { STEPS = 20, WALL_NS = 1000000, PART_NS = 200000 };
    OWNED(Json, json_free) *evidence = json_make_object();
    Json *steps = night_section(night_section(evidence, "loop"), "steps");
    const struct {
        const char *key;
        int64_t ns;
    } series[] = {{"wall_ns", WALL_NS},
                  {"wait_ns", PART_NS},
                  {"exposed_copy_ns", PART_NS},
                  {"compute_ns", WALL_NS - 2 * PART_NS - missing_ns}};
    Json *index = json_make_array();
    for (int64_t i = 0; i < STEPS; i++)
        json_add_integer(index, i);
    json_put(steps, "index", index);
    for (size_t s = 0; s < sizeof series / sizeof series[0]; s++) {
        Json *values = json_make_array();
        for (int i = 0; i < STEPS; i++)
            json_add_integer(values, series[s].ns);
        json_put(steps, series[s].key, values);
    }
    json_put(steps, "rest", json_make_object());
    Finding finding = {.value = (double)NAN};
    gate_find_check("closure")->judge(evidence, policy, &finding);
    return finding.value;
}

Json *night_formal_results(Error *error)
{
    Worked worked = {0};
    OWNED(Config, config_free) *defaults =
        config_load(NULL, NULL, 0, NULL, error);   // not the owner's policy
    if (defaults == NULL || !work_ledger("train.microbatch=16", &worked.by_16, error) ||
        !work_ledger("train.microbatch=64", &worked.by_64, error) ||
        !work_ledger("train.microbatch=0", &worked.by_plan, error) ||
        !work_overlap(&worked.hidden_ratio, error))
        return NULL;
    plan_roofline_layer(256, 32, 256, 2, 990e12, 4.8e12, &worked.roofline);
    worked.closes = work_closure(defaults, 9999);
    worked.does_not = work_closure(defaults, 10001);
    Json *results = json_make_array();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        Json *result = json_make_object();
        json_put_text(result, "name", rows[i].name);
        json_put_text(result, "by_hand", rows[i].by_hand);
        json_put_number(result, "expected", rows[i].expected);
        json_put_number(result, "actual", rows[i].actual(&worked));
        json_put_number(result, "tolerance", 1e-12 * rows[i].expected);   // rounding of the decimal fraction
        json_put_text(result, "unit", rows[i].unit);
        json_add(results, result);
    }
    return results;
}
