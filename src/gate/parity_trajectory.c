// parity_trajectory - rung 5: does the loss of half precision stay in the band that FP32 spans by itself?
//
// One changed bit grows like another seed (Summers and Dinneen 2103.04514), so single losses are not
// compared: blocks of steps are, with what FP32 runs do that differ in their seed or by one ulp.
#include "parity_internal.h"

#include <fedgate/text.h>

#include <stdio.h>

enum { NULLS_LEAST = 2, STEPS_LEAST = 8 };   // the producer's shortest run: 8 blocks of one step
static const double BAND_LEAST = 0.0025;
static const double BAND_MOST = 0.1;
static const double BIAS_ALPHA = 0.001;   // over all blocks, as for a trend

typedef struct Series {
    bool candidate;
    const char *kind;
    int64_t seed;
    const double *log_ratio;
} Series;

static bool read_series(const Section *list, const Json *item, size_t *blocks, Series *ret)
{
    static const char *const kinds[] = {"candidate", "ulp", "seed"};
    Section pair;
    if (!section_inside(list, item, &pair) || !section_text(&pair, "kind", &ret->kind) ||
        !section_integer(&pair, "seed", &ret->seed)) {
        return false;
    }
    pair.length = *blocks;
    if (!section_series(&pair, "log_ratio", &ret->log_ratio)) {
        return false;
    }
    *blocks = pair.length;
    ret->candidate = text_equal(ret->kind, kinds[0]);
    bool known = ret->candidate || text_equal(ret->kind, kinds[1]) || text_equal(ret->kind, kinds[2]);
    if (!known || *blocks == 0) {
        finding_set(list->finding, OUTCOME_ERROR, NO_FIGURE,
                    known ? "a series of kind '%.20s' has no block of steps" : "a series is of kind '%.20s'",
                    ret->kind);
    }
    return known && *blocks > 0;
}

typedef struct Course {
    Series *series;
    size_t count, blocks, candidates, seeds;   // seeds: FP32 runs of another seed
    bool nulls_differ, candidates_differ;   // from the run they are compared with
} Course;

static bool read_course(const Section *list, const Json *pairs, Course *ret)
{
    *ret = (Course){.count = json_count(pairs), .blocks = SIZE_MAX};
    ret->series = ladder_room(list, ret->count, sizeof *ret->series);
    if (ret->series == NULL) {
        return false;
    }
    for (size_t i = 0; i < ret->count; i++) {
        if (!read_series(list, json_at(pairs, i), &ret->blocks, &ret->series[i])) {
            return false;
        }
        ret->candidates += ret->series[i].candidate;
        ret->seeds += text_equal(ret->series[i].kind, "seed");
    }
    if (ret->candidates == 0 || ret->seeds < NULLS_LEAST) {
        finding_set(
            list->finding, OUTCOME_NOT_MEASURED, NO_FIGURE,
            "%zu half precision runs and %zu FP32 runs of other seeds span no band: at least 1 and %d "
            "are needed",
            ret->candidates, ret->seeds, NULLS_LEAST);
        return false;
    }
    return true;
}

// A block and its neighbours, so that a block in which all FP32 runs happen to cross does not narrow the
// band.
static double band_at(const Course *course, size_t block)
{
    double band = BAND_LEAST;
    size_t first = block == 0 ? 0 : block - 1;
    for (size_t b = first; b <= block + 1 && b < course->blocks; b++) {
        for (size_t i = 0; i < course->count; i++) {
            band = course->series[i].candidate ? band : fmax(band, fabs(course->series[i].log_ratio[b]));
        }
    }
    return fmin(band, BAND_MOST);
}

static bool nulls_sound(const Section *list, Course *course)
{
    for (size_t i = 0; i < course->count; i++) {
        for (size_t b = 0; b < course->blocks; b++) {
            double size = fabs(course->series[i].log_ratio[b]);
            if (!course->series[i].candidate && !isfinite(size)) {
                finding_set(list->finding, OUTCOME_ERROR, NO_FIGURE,
                            "FP32 itself does not train: log ratio %g in block %zu of seed %lld", size, b,
                            (long long)course->series[i].seed);
                return false;
            }
            bool *differ = course->series[i].candidate ? &course->candidates_differ : &course->nulls_differ;
            *differ = *differ || size != 0;
        }
    }
    if (!course->nulls_differ) {
        finding_set(list->finding, OUTCOME_ERROR, NO_FIGURE,
                    "FP32 runs of other seeds have the same losses: the band is empty");
        return false;
    }
    return true;
}

static void see_block(Ladder *ladder, const Course *course, size_t b)
{
    double band = band_at(course, b);
    double sum = 0;
    char at[64];
    snprintf(at, sizeof at, "in block %zu of %zu", b + 1, course->blocks);
    for (size_t i = 0; i < course->count; i++) {
        if (course->series[i].candidate) {
            char name[32];
            snprintf(name, sizeof name, "seed %lld", (long long)course->series[i].seed);
            bar_see(ladder, BAR_TRAJECTORY, fabs(course->series[i].log_ratio[b]), band, name, at);
            sum += course->series[i].log_ratio[b];
        }
    }
    double mean = sum / (double)course->candidates;
    bar_see(ladder, BAR_TRAJECTORY_MEAN, fabs(mean),
            fmax(BAND_LEAST, band / sqrt((double)course->candidates)), "", at);
}

// Pairs share weights, rows and order, so what all of them lose alike is no chance; single runs may wander as
// far as the band. The size of their mean that is proven, by the t of both tails over all blocks.
static void see_bias(Ladder *ladder, const Section *list, const Course *course, size_t b)
{
    size_t count = 0;
    double *ratios = section_scratch(list, course->candidates);
    for (size_t i = 0; ratios != NULL && i < course->count; i++) {
        if (course->series[i].candidate) {
            ratios[count++] = course->series[i].log_ratio[b];
        }
    }
    if (count < 2) {
        return;
    }
    char at[64];
    snprintf(at, sizeof at, "in block %zu of %zu", b + 1, course->blocks);
    double error = sqrt(stats_variance(ratios, count) / (double)count);
    double t = stats_t_quantile(1 - BIAS_ALPHA / (2 * (double)course->blocks), (double)(count - 1));
    double proven = fabs(stats_mean(ratios, count)) - t * error;
    bar_see(ladder, BAR_TRAJECTORY_BIAS, proven < 0 ? 0 : proven, bar_limit(ladder, BAR_TRAJECTORY_BIAS), "",
            at);
}

static bool seeds_distinct(const Section *list, const Course *course)
{
    for (size_t i = 0; i < course->count; i++) {
        for (size_t k = 0; k < i; k++) {
            const Series *a = &course->series[i];
            const Series *b = &course->series[k];
            if (a->seed == b->seed && text_equal(a->kind, b->kind)) {
                finding_set(list->finding, OUTCOME_ERROR, NO_FIGURE,
                            "two series of kind '%.20s' have seed %lld", a->kind, (long long)a->seed);
                return false;
            }
        }
    }
    return true;
}

// The runs whose losses are compared are those whose metric is: a run left out is one that may have left the
// band. Without pairs the metric's own rung says so.
static void runs_of_metric(const Ladder *ladder, const Section *list, const Course *course)
{
    const Json *pairs = json_find(ladder->evidence, "parity.metric.pairs");
    int64_t tonight = parity_pairs_tonight(ladder->evidence, pairs);
    size_t found = 0;
    for (size_t i = 0; i < course->count; i++) {
        for (size_t k = 0; course->series[i].candidate && k < json_count(pairs); k++) {
            found += parity_pair_tonight(ladder->evidence, json_at(pairs, k)) &&
                     json_integer_or(json_get(json_at(pairs, k), "seed"), -1) == course->series[i].seed;
        }
    }
    bool same = found == course->candidates && (int64_t)found == tonight;
    if (json_count(pairs) > 0 && !same && list->finding->outcome == OUTCOME_PASS) {
        finding_set(list->finding, OUTCOME_ERROR, NO_FIGURE,
                    "losses of %zu half precision runs and metrics of %lld pairs, %zu with the same seed",
                    course->candidates, (long long)tonight, found);
    }
}

// Blocks of `block` steps over all of them, the last perhaps shorter.
static bool blocks_cover(const Section *list, const Course *course, int64_t steps, int64_t block)
{
    if (steps < STEPS_LEAST) {
        finding_set(list->finding, OUTCOME_NOT_MEASURED, (Figure){(double)steps, STEPS_LEAST, "steps", 1},
                    "runs of %lld steps are too short to compare losses or metrics, at least %d are needed: "
                    "option parity.steps, or a longer training",
                    (long long)steps, STEPS_LEAST);
        return false;
    }
    bool cover = block >= 1 && (int64_t)course->blocks == steps / block + (steps % block > 0);
    if (!cover) {
        finding_set(list->finding, OUTCOME_ERROR, NO_FIGURE,
                    "%zu blocks of %lld steps are not the %lld steps of 'parity.trajectory'", course->blocks,
                    (long long)block, (long long)steps);
    }
    return cover;
}

void rung_trajectory(Ladder *ladder, const Section *parity)
{
    Section trajectory;
    Section list;
    const Json *pairs = NULL;
    int64_t steps = 0;
    int64_t block = 0;
    Course course;
    if (!section_child(parity, "trajectory", "parity.trajectory", &trajectory) ||
        !section_count(&trajectory, "steps", &steps) || !section_count(&trajectory, "block", &block) ||
        !ladder_list(&trajectory, "pairs", "parity.trajectory.pairs", &pairs, &list) ||
        !read_course(&list, pairs, &course) || !blocks_cover(&list, &course, steps, block) ||
        !seeds_distinct(&list, &course) || !nulls_sound(&list, &course)) {
        return;
    }
    for (size_t b = 0; b < course.blocks; b++) {
        see_block(ladder, &course, b);
        see_bias(ladder, &list, &course, b);
    }
    if (!course.candidates_differ) {
        bar_name_cause(
            ladder, BAR_TRAJECTORY,
            "both arms have the same losses to the last bit in all %zu blocks: nothing was compared",
            course.blocks);
    }
    runs_of_metric(ladder, &list, &course);
    sound_trajectory(ladder, &list, pairs, steps, course.blocks);
}
