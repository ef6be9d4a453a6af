// section - reads one section of the evidence; what is missing or malformed becomes the finding.
#include "gate_internal.h"

#include <fedgate/text.h>
#include <fedgate/timeline.h>

static bool absent(const Section *section, const char *key)
{
    finding_set(section->finding, OUTCOME_NOT_MEASURED, NO_FIGURE, "'%s.%s' was not measured", section->name,
                key);
    return false;
}

static bool malformed(const Section *section, const char *key, const char *wanted)
{
    finding_set(section->finding, OUTCOME_ERROR, NO_FIGURE, "'%s.%s' is not %s", section->name, key, wanted);
    return false;
}

bool section_has(const Section *section, const char *key)
{
    const Json *value = json_get(section->at, key);
    return value != NULL && !json_is_null(value);
}

bool section_open(const Json *evidence, const char *dotted, Arena *judge, Finding *ret, Section *ret_section)
{
    const Json *at = json_find(evidence, dotted);
    *ret_section = (Section){at, dotted, ret, judge, SIZE_MAX};
    if (at == NULL || json_is_null(at)) {
        finding_set(ret, OUTCOME_NOT_MEASURED, NO_FIGURE, "'%s' was not measured", dotted);
        return false;
    }
    if (!json_is_object(at)) {
        finding_set(ret, OUTCOME_ERROR, NO_FIGURE, "'%s' is not an object", dotted);
        return false;
    }
    return true;
}

bool section_inside(const Section *outer, const Json *item, Section *ret_section)
{
    *ret_section = (Section){item, outer->name, outer->finding, outer->judge, SIZE_MAX};
    if (!json_is_object(item)) {
        finding_set(outer->finding, OUTCOME_ERROR, NO_FIGURE, "an entry of '%s' is not an object",
                    outer->name);
        return false;
    }
    return true;
}

bool section_child(const Section *outer, const char *key, const char *dotted, Section *ret_section)
{
    *ret_section = (Section){json_get(outer->at, key), dotted, outer->finding, outer->judge, SIZE_MAX};
    if (!section_has(outer, key)) {
        return absent(outer, key);
    }
    return json_is_object(ret_section->at) || malformed(outer, key, "an object");
}

bool section_number(const Section *section, const char *key, double *ret_value)
{
    if (!section_has(section, key)) {
        return absent(section, key);
    }
    const Json *value = json_get(section->at, key);
    if (!json_is_number(value)) {
        return malformed(section, key, "a number");
    }
    *ret_value = json_number_or(value, NAN);
    return true;
}

bool section_integer(const Section *section, const char *key, int64_t *ret_value)
{
    if (!section_has(section, key)) {
        return absent(section, key);
    }
    const Json *value = json_get(section->at, key);
    if (!json_is_integer(value)) {
        return malformed(section, key, "an integer");
    }
    *ret_value = json_integer_or(value, 0);
    return true;
}

bool section_amount(const Section *section, const char *key, double *ret_value)
{
    if (!section_number(section, key, ret_value)) {
        return false;
    }
    bool sound = isfinite(*ret_value) && *ret_value >= 0;
    if (!sound) {
        finding_set(section->finding, OUTCOME_ERROR, NO_FIGURE, "'%s.%s' is %g", section->name, key,
                    *ret_value);
    }
    return sound;
}

bool section_count(const Section *section, const char *key, int64_t *ret_value)
{
    if (!section_integer(section, key, ret_value)) {
        return false;
    }
    if (*ret_value < 0) {
        finding_set(section->finding, OUTCOME_ERROR, NO_FIGURE, "'%s.%s' is %lld", section->name, key,
                    (long long)*ret_value);
    }
    return *ret_value >= 0;
}

bool section_bool(const Section *section, const char *key, bool *ret_value)
{
    if (!section_has(section, key)) {
        return absent(section, key);
    }
    const Json *value = json_get(section->at, key);
    if (!json_is_bool(value)) {
        return malformed(section, key, "true or false");
    }
    *ret_value = json_bool_or(value, false);
    return true;
}

bool section_text(const Section *section, const char *key, const char **ret_string)
{
    if (!section_has(section, key)) {
        return absent(section, key);
    }
    const Json *value = json_get(section->at, key);
    if (!json_is_text(value)) {
        return malformed(section, key, "a text");
    }
    *ret_string = json_text_or(value, "");
    return true;
}

bool section_array(const Section *section, const char *key, const Json **ret_array)
{
    if (!section_has(section, key)) {
        return absent(section, key);
    }
    *ret_array = json_get(section->at, key);
    return json_is_array(*ret_array) || malformed(section, key, "an array");
}

double *section_scratch(const Section *section, size_t count)
{
    double *values =
        section->judge == NULL ? NULL : arena_take_array(section->judge, count + 1, sizeof *values);
    if (values == NULL) {
        finding_set(section->finding, OUTCOME_ERROR, NO_FIGURE,
                    "%zu numbers of '%s' do not fit the memory of the judge", count, section->name);
    }
    return values;
}

bool section_series(Section *section, const char *key, const double **ret_values)
{
    const Json *array = NULL;
    if (!section_array(section, key, &array)) {
        return false;
    }
    size_t count = json_count(array);
    if (section->length != SIZE_MAX && section->length != count) {
        return malformed(section, key, "as long as the other arrays of its section");
    }
    double *values = section_scratch(section, count);
    if (values == NULL) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        const Json *value = json_at(array, i);
        if (!json_is_number(value)) {
            return malformed(section, key, "an array of numbers");
        }
        values[i] = json_number_or(value, NAN);
    }
    section->length = count;
    *ret_values = values;
    return true;
}

bool section_amounts(Section *section, const char *key, const double **ret_values)
{
    if (!section_series(section, key, ret_values)) {
        return false;
    }
    for (size_t i = 0; i < section->length; i++) {
        double value = (*ret_values)[i];
        if (!(isfinite(value) && value >= 0)) {
            finding_set(section->finding, OUTCOME_ERROR, NO_FIGURE, "'%s.%s' holds %g at entry %zu",
                        section->name, key, value, i);
            return false;
        }
    }
    return true;
}

bool section_index(Section *section)
{
    const double *index = NULL;
    if (!section_amounts(section, "index", &index)) {
        return false;
    }
    for (size_t i = 1; i < section->length; i++) {
        if (!(index[i] > index[i - 1])) {
            finding_set(section->finding, OUTCOME_ERROR, NO_FIGURE,
                        "'%s.index' does not rise at entry %zu: step %.0f after step %.0f", section->name, i,
                        index[i], index[i - 1]);
            return false;
        }
    }
    return true;
}

bool from_staging_thread(const Json *evidence)
{
    return text_equal(json_text_or(json_find(evidence, "timeline.source"), ""), "cpu staging thread");
}

bool section_held(Section *section, const double **ret_steps, double *ret_total)
{
    const double *given = NULL;
    double total = 0;
    if (section_has(section, "steps") && !section_series(section, "steps", &given)) {
        return false;
    }
    double *steps = section_scratch(section, section->length);
    if (steps == NULL) {
        return false;
    }
    for (size_t i = 0; i < section->length; i++) {
        steps[i] = given == NULL ? 1 : given[i];
        bool whole = isfinite(steps[i]) && steps[i] >= 1 && steps[i] == floor(steps[i]);
        if (!whole) {
            finding_set(section->finding, OUTCOME_ERROR, NO_FIGURE, "entry %zu of '%s' holds %g steps", i,
                        section->name, steps[i]);
            return false;
        }
        total += steps[i];
    }
    *ret_steps = steps;
    *ret_total = total;
    return true;
}

bool section_entries(const Json *evidence, Section *section, const double *steps, double total)
{
    const double *index = NULL;
    if (!section_index(section) || !section_amounts(section, "index", &index)) {
        return false;
    }
    for (size_t i = 0; i + 1 < section->length; i++) {
        if (!(index[i] + steps[i] <= index[i + 1])) {
            finding_set(section->finding, OUTCOME_ERROR, NO_FIGURE,
                        "entry %zu of '%s' holds %.0f steps from step %.0f on, the next begins at step %.0f",
                        i, section->name, steps[i], index[i], index[i + 1]);
            return false;
        }
    }
    double done = json_number_or(json_find(evidence, "window.done_steps"), INFINITY) -
                  json_number_or(json_get(evidence, "resumed_from_step"), 0);
    if (!(total <= done)) {
        finding_set(section->finding, OUTCOME_ERROR, (Figure){total, done, "steps", (int64_t)section->length},
                    "the entries of '%s' hold %.0f steps, %.0f were done", section->name, total, done);
    }
    return total <= done;
}

static const char *named(const Json *array, size_t i, const char *key)
{
    return key == NULL ? "" : json_text_or(json_get(json_at(array, i), key), NULL);
}

bool section_distinct(const Section *section, const Json *array, const char *key, const char *second)
{
    for (size_t i = 1; i < json_count(array); i++) {
        const char *name = named(array, i, key);
        for (size_t j = 0; name != NULL && j < i; j++) {
            if (text_equal(named(array, j, key), name) &&
                text_equal(named(array, j, second), named(array, i, second))) {
                finding_set(section->finding, OUTCOME_ERROR, NO_FIGURE, "'%s' holds %s '%.60s' twice",
                            section->name, key, name);
                return false;
            }
        }
    }
    return true;
}

bool count_warmup(const Section *section, const double *length_ns, size_t steps, size_t *ret_warmup)
{
    _Static_assert(sizeof(int64_t) == sizeof(double), "scratch numbers have room for integers");
    int64_t *whole = (int64_t *)(void *)section_scratch(section, steps);
    if (whole == NULL) {
        return false;
    }
    for (size_t i = 0; i < steps; i++) {
        whole[i] = length_ns[i] < 9e18 ? (int64_t)length_ns[i] : INT64_MAX;
    }
    *ret_warmup = timeline_warmup(whole, steps);
    return true;
}

bool section_covers(const Section *section, const Config *policy, const Json *slices)
{
    for (size_t i = 0; i < config_list_count(policy, "quality.slices"); i++) {
        const char *column = config_list_text(policy, "quality.slices", i);
        size_t found = 0;
        for (size_t k = 0; k < json_count(slices); k++) {
            found += text_equal(json_text_or(json_get(json_at(slices, k), "column"), ""), column);
        }
        if (found == 0) {
            finding_set(section->finding, OUTCOME_NOT_MEASURED, NO_FIGURE,
                        "'%s.slices' holds no slice of column '%.80s'", section->name, column);
            return false;
        }
    }
    return true;
}
