// check_slices - is any slice that is large enough worse than its reference beyond the margin?
//
// A slice is judged by the upper bound of its difference: worse means that even the bound lies below the
// margin. Slices that are too small, or that hold fewer than two rows of a class when the metric ranks
// classes, are counted, not judged; but a figure that only the candidate lacks is a fail in a slice of any
// size.
#include "gate_internal.h"

#include <fedgate/text.h>

enum { CLASS_LEAST = 2 };

typedef struct Slice {
    const char *column, *value, *reference;
    int64_t rows, positives;
    double difference, lower, upper;
} Slice;

static bool read_slice(const Section *quality, const Json *item, bool counts_classes, Slice *ret)
{
    Section slice;
    return section_inside(quality, item, &slice) && section_text(&slice, "column", &ret->column) &&
           section_text(&slice, "value", &ret->value) &&
           section_text(&slice, "reference_name", &ret->reference) &&
           section_count(&slice, "rows", &ret->rows) &&
           (!counts_classes || section_count(&slice, "positives", &ret->positives)) &&
           section_number(&slice, "difference", &ret->difference) &&
           section_number(&slice, "lower", &ret->lower) && section_number(&slice, "upper", &ret->upper);
}

// A slice is part of the rows, and its bounds lie round its difference; a class it lacks has no figures.
static bool possible(const Section *quality, const Slice *s, bool counts_classes, int64_t rows)
{
    double off = (s->upper - s->difference) - (s->difference - s->lower);
    bool sound = s->rows <= rows && !(counts_classes && s->positives > s->rows) &&
                 !(fabs(off) > 1e-6 * (1 + fabs(s->difference))) && !(s->upper < s->difference);
    if (!sound) {
        finding_set(quality->finding, OUTCOME_ERROR, (Figure){s->difference, NAN, "", s->rows},
                    "slice %.40s '%.40s' is impossible: %lld of %lld rows, difference %.4g from %.4g to %.4g",
                    s->column, s->value, (long long)s->rows, (long long)rows, s->difference, s->lower,
                    s->upper);
    }
    return sound;
}

// The slices of a column are all its values: together they are the test rows.
static bool all_rows_sliced(const Section *quality, const Json *slices, int64_t rows)
{
    for (size_t i = 0; i < json_count(slices); i++) {
        const char *column = json_text_or(json_get(json_at(slices, i), "column"), "");
        double sum = 0;
        for (size_t j = 0; j < json_count(slices); j++) {
            const Json *slice = json_at(slices, j);
            bool same = text_equal(json_text_or(json_get(slice, "column"), ""), column);
            sum += same ? json_number_or(json_get(slice, "rows"), 0) : 0;
        }
        if (sum != (double)rows) {
            finding_set(quality->finding, OUTCOME_ERROR, (Figure){sum, (double)rows, "rows", rows},
                        "the slices of column '%.60s' hold %.0f rows, %lld were judged", column, sum,
                        (long long)rows);
            return false;
        }
    }
    return true;
}

// The profile of the data counted the same slices before there was a model: none is left out, none is
// smaller.
static bool as_profiled(const Json *evidence, const Section *quality, const Config *policy,
                        const Json *slices, bool counts_classes)
{
    const Json *profiled = json_find(evidence, "input.slices");
    if (config_list_count(policy, "quality.slices") == 0) {
        return true;
    }
    if (!json_is_array(profiled)) {
        finding_set(quality->finding, OUTCOME_NOT_MEASURED, NO_FIGURE,
                    "the rows of the slices were not counted apart from their judging ('input.slices')");
        return false;
    }
    size_t found = 0;
    for (size_t i = 0; i < json_count(slices); i++) {
        const Json *slice = json_at(slices, i);
        bool known = false;
        for (size_t j = 0; j < json_count(profiled) && !known; j++) {
            const Json *other = json_at(profiled, j);
            known = text_equal(json_text_or(json_get(slice, "column"), ""),
                               json_text_or(json_get(other, "column"), "?")) &&
                    text_equal(json_text_or(json_get(slice, "value"), ""),
                               json_text_or(json_get(other, "value"), "?")) &&
                    json_integer_or(json_get(slice, "rows"), -1) ==
                        json_integer_or(json_get(other, "rows"), -2) &&
                    (!counts_classes || json_integer_or(json_get(slice, "positives"), -1) ==
                                            json_integer_or(json_get(other, "positives"), -2));
        }
        found += known;
        if (!known) {
            finding_set(quality->finding, OUTCOME_ERROR, NO_FIGURE,
                        "slice %.40s '%.40s' of %lld rows is none that the profile of the data counted",
                        json_text_or(json_get(slice, "column"), "?"),
                        json_text_or(json_get(slice, "value"), "?"),
                        (long long)json_integer_or(json_get(slice, "rows"), 0));
            return false;
        }
    }
    if (found != json_count(profiled)) {
        finding_set(quality->finding, OUTCOME_ERROR,
                    (Figure){(double)found, (double)json_count(profiled), "slices", (int64_t)found},
                    "%zu slices were compared, the profile of the data counted %zu", found,
                    json_count(profiled));
    }
    return found == json_count(profiled);
}

bool judge_slice_numbers(const Section *quality)
{
    const Json *slices = json_get(quality->at, "slices");   // its form is judge_slices' to judge
    for (size_t i = 0; i < json_count(slices); i++) {
        const Json *slice = json_at(slices, i);
        const Json *candidate = json_get(slice, "candidate");
        double reference = json_number_or(json_get(slice, "reference"), NAN);
        if (json_is_number(candidate) && !isfinite(json_number_or(candidate, NAN)) && isfinite(reference)) {
            finding_set(quality->finding, OUTCOME_FAIL,
                        (Figure){NAN, NAN, "", json_integer_or(json_get(slice, "rows"), 0)},
                        "slice %.40s '%.40s': the candidate's metric is %g, that of '%.16s' %.4g",
                        json_text_or(json_get(slice, "column"), "?"),
                        json_text_or(json_get(slice, "value"), "?"), json_number_or(candidate, NAN),
                        json_text_or(json_get(slice, "reference_name"), "?"), reference);
            return false;
        }
    }
    return true;
}

bool judge_slices(const Json *evidence, const Section *quality, const Config *policy, bool counts_classes,
                  int64_t *ret_judged, int64_t *ret_small)
{
    const Json *slices = NULL;
    if (config_list_count(policy, "quality.slices") == 0 && !section_has(quality, "slices")) {
        return true;
    }
    int64_t rows = 0;
    if (!section_array(quality, "slices", &slices) || !section_count(quality, "rows", &rows) ||
        !section_covers(quality, policy, slices) || !section_distinct(quality, slices, "column", "value")) {
        return false;
    }
    double least = -config_real(policy, "quality.slice_margin");
    int64_t enough = config_integer(policy, "quality.slice_rows");
    for (size_t i = 0; i < json_count(slices); i++) {
        Slice s;
        if (!read_slice(quality, json_at(slices, i), counts_classes, &s) ||
            !possible(quality, &s, counts_classes, rows)) {
            return false;
        }
        bool resolved =
            s.rows >= enough &&
            (!counts_classes || (s.positives >= CLASS_LEAST && s.rows - s.positives >= CLASS_LEAST));
        *(resolved ? ret_judged : ret_small) += 1;
        bool holds = isfinite(s.difference) && isfinite(s.upper) && s.upper >= least;
        if (resolved && !holds) {
            finding_set(quality->finding, OUTCOME_FAIL, (Figure){s.difference, least, "", s.rows},
                        "slice %.40s '%.40s' differs by %.4g from '%.16s', at most %.4g with 95 %% "
                        "confidence, %.4g is allowed",
                        s.column, s.value, s.difference, s.reference, s.upper, least);
            return false;
        }
    }
    return all_rows_sliced(quality, slices, rows) &&
           as_profiled(evidence, quality, policy, slices, counts_classes);
}
