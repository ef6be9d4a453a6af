// parity_trajectory - rung 5: does the loss of half precision stay in the band that FP32 spans by itself?
//
// One changed bit grows like another seed (Summers and Dinneen 2103.04514), so single losses are not
// compared: blocks of steps are, with what FP32 runs do that differ in their seed or by one ulp.
#include "parity_internal.h"

#include <fedgate/text.h>

#include <stdio.h>

enum { NULLS_LEAST = 2 };
static const double BAND_LEAST = 0.0025;
static const double BAND_MOST = 0.1;

typedef struct Series {
    bool candidate;
    int64_t seed;
    const double *log_ratio;
} Series;

static bool read_series(const Section *list, const Json *item, size_t *blocks, Series *ret)
{
    static const char *const kinds[] = {"candidate", "ulp", "seed"};
    Section pair;
    const char *kind = NULL;
    if (!section_inside(list, item, &pair) || !section_text(&pair, "kind", &kind) ||
        !section_integer(&pair, "seed", &ret->seed)) {
        return false;
    }
    pair.length = *blocks;
    if (!section_series(&pair, "log_ratio", &ret->log_ratio)) {
        return false;
    }
    *blocks = pair.length;
    ret->candidate = text_equal(kind, kinds[0]);
    bool known = ret->candidate || text_equal(kind, kinds[1]) || text_equal(kind, kinds[2]);
    if (!known || *blocks == 0) {
        finding_set(list->finding, OUTCOME_ERROR, NO_FIGURE,
                    known ? "a series of kind '%.20s' has no block of steps" : "a series is of kind '%.20s'",
                    kind);
    }
    return known && *blocks > 0;
}

typedef struct Course {
    Series *series;
    size_t count, blocks, candidates;
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
    }
    if (ret->candidates == 0 || ret->count - ret->candidates < NULLS_LEAST) {
        finding_set(list->finding, OUTCOME_NOT_MEASURED, NO_FIGURE,
                    "%zu half precision runs and %zu FP32 runs span no band: at least 1 and %d are needed",
                    ret->candidates, ret->count - ret->candidates, NULLS_LEAST);
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
        !read_course(&list, pairs, &course) || !nulls_sound(&list, &course)) {
        return;
    }
    for (size_t b = 0; b < course.blocks; b++) {
        see_block(ladder, &course, b);
    }
    if (!course.candidates_differ) {
        bar_name_cause(
            ladder, BAR_TRAJECTORY,
            "both arms have the same losses to the last bit in all %zu blocks: nothing was compared",
            course.blocks);
    }
}
