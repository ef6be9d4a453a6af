// histogram - the profile kept with a run, "fedgate.profile/1", and drift of tonight's training rows against
// an older one.
//
// Numbers fall into ten bins with as many training values each, categories into the commonest ones and
// "everything else", so that an index of many rare categories does not drift by chance alone.
#include "profile_internal.h"

#include <fedgate/stats.h>
#include <fedgate/text.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char profile_schema[] = "fedgate.profile/1";
enum { NUMBER_BINS = 10, CATEGORY_BINS = 50 };

static size_t bin_of(const double *edges, size_t count, double value)
{
    size_t bin = 0;
    while (bin < count && edges[bin] <= value)
        bin++;
    return bin;
}

// shares[edge_count + 2]: bins, then missing.
static void number_shares(const double *edges, size_t edge_count, const double *values, size_t rows,
                          double *ret_shares)
{
    for (size_t b = 0; b < edge_count + 2; b++)
        ret_shares[b] = 0;
    for (size_t i = 0; i < rows; i++)
        ret_shares[isnan(values[i]) ? edge_count + 1 : bin_of(edges, edge_count, values[i])]++;
    for (size_t b = 0; b < edge_count + 2; b++)
        ret_shares[b] /= (double)rows;
}

static Json *numbers(const double *values, size_t count)
{
    Json *array = json_make_array();
    for (size_t i = 0; i < count; i++)
        json_add_number(array, values[i]);
    return array;
}

static bool profile_numeric(const NumericMap *map, const double *values, size_t rows, Json *column,
                            Error *error)
{
    double edges[NUMBER_BINS - 1] = {0}, shares[NUMBER_BINS + 1];
    double *present = malloc((rows + 1) * sizeof *present);
    if (!present)
        return FAIL(error, ERROR_MEMORY, 0, "out of memory for the profile");
    size_t n = 0;
    for (size_t i = 0; i < rows; i++)
        if (!isnan(values[i]))
            present[n++] = values[i];
    for (size_t e = 0; n > 0 && e < NUMBER_BINS - 1; e++)
        edges[e] = stats_quantile(present, n, (double)(e + 1) / NUMBER_BINS);
    free(present);
    number_shares(edges, NUMBER_BINS - 1, values, rows, shares);
    json_put_text(column, "name", map->name);
    json_put_text(column, "role", role_name(ROLE_NUMERIC));
    json_put(column, "edges", numbers(edges, NUMBER_BINS - 1));
    json_put(column, "shares", numbers(shares, NUMBER_BINS + 1));
    return true;
}

typedef struct Ranked {
    int64_t count;
    size_t key;
} Ranked;

static int compare_ranked(const void *a, const void *b)
{
    const Ranked *x = a, *y = b;
    return x->count != y->count ? (x->count < y->count) - (x->count > y->count)
                                : (x->key > y->key) - (x->key < y->key);
}

static bool profile_category(const CategoryMap *map, const int32_t *codes, size_t rows, Json *column,
                             Error *error)
{
    size_t keys = map->codes.count;
    Ranked *ranked = calloc(keys + 1, sizeof *ranked);
    if (!ranked)
        return FAIL(error, ERROR_MEMORY, 0, "out of memory for the profile");
    double missing = 0, shares[CATEGORY_BINS + 2], rest = 0;
    for (size_t k = 0; k < keys; k++)
        ranked[k].key = k;
    for (size_t i = 0; i < rows; i++) {
        missing += codes[i] == CODE_MISSING;
        rest += codes[i] == 0;
        if (codes[i] > 0)
            ranked[codes[i] - 1].count++;
    }
    qsort(ranked, keys, sizeof *ranked, compare_ranked);
    Json *values = json_make_array();
    size_t kept = keys < CATEGORY_BINS ? keys : CATEGORY_BINS;
    for (size_t k = 0; k < keys; k++)
        if (k < kept) {
            json_add_text(values, map->codes.keys[ranked[k].key]);
            shares[k] = (double)ranked[k].count / (double)rows;
        } else {
            rest += (double)ranked[k].count;
        }
    shares[kept] = rest / (double)rows;
    shares[kept + 1] = missing / (double)rows;
    free(ranked);
    json_put_text(column, "name", map->name);
    json_put_text(column, "role", role_name(ROLE_CATEGORICAL));
    json_put(column, "values", values);
    json_put(column, "shares", numbers(shares, kept + 2));
    return true;
}

static const Json *reference_column(const Json *reference, const char *name)
{
    const Json *columns = json_get(reference, "columns");
    for (size_t i = 0; i < json_count(columns); i++)
        if (text_equal(json_text_or(json_get(json_at(columns, i), "name"), ""), name))
            return json_at(columns, i);
    return NULL;
}

// -- the label

Json *histogram_target(const Maps *maps, const ColumnSet *set)
{
    Json *target = json_make_object();
    json_put_number(target, "mean", stats_mean(set->target, set->rows));
    json_put_number(target, "deviation", sqrt(stats_variance(set->target, set->rows)));
    if (maps->task == TASK_REGRESSION)
        return target;
    size_t classes = 2;
    for (size_t i = 0; i < set->rows; i++)
        classes = set->target[i] >= (double)classes ? (size_t)set->target[i] + 1 : classes;
    double *shares = calloc(classes, sizeof *shares);
    for (size_t i = 0; shares != NULL && i < set->rows; i++)
        shares[(size_t)set->target[i]] += 1 / (double)set->rows;
    if (shares != NULL)   // else they are missing, and the judge cannot tell
        json_put(target, "shares", numbers(shares, classes));
    free(shares);
    return target;
}

// 2 AUC - 1 of values that are there, NaN where they are not.
static double separation(const double *values, const double *target, size_t rows)
{
    double *score = calloc(2 * rows + 1, sizeof *score), result = NAN;
    size_t n = 0;
    for (size_t i = 0; score != NULL && i < rows; i++)
        if (!isnan(values[i])) {
            score[n] = values[i];
            score[rows + n++] = target[i];
        }
    if (score != NULL)
        result = 2 * stats_auc(score, score + rows, n) - 1;
    free(score);
    return result;
}

static double category_separation(const int32_t *codes, int32_t code, const double *target, size_t rows)
{
    double *score = calloc(rows + 1, sizeof *score), result = NAN;
    for (size_t i = 0; score != NULL && i < rows; i++)
        score[i] = codes[i] == code;
    if (score != NULL)
        result = separation(score, target, rows);
    free(score);
    return result;
}

static void put_separation(Json *column, double value)
{
    if (isfinite(value))
        json_put_number(column, "separation", value);
}

bool histogram_separations(const Json *reference, const Maps *maps, const ColumnSet *train, size_t at,
                           double *ret_now, double *ret_was)
{
    const double least = 0.05;   // below it the sign may be chance
    const bool numeric = at < maps->numeric_count;
    const size_t c = numeric ? at : at - maps->numeric_count;
    const Json *column =
        reference_column(reference, numeric ? maps->numeric[c].name : maps->categorical[c].name);
    double was = json_number_or(json_get(column, "separation"), NAN), now = NAN;
    if (!(fabs(was) >= least))
        return false;
    if (numeric) {
        now = separation(train->values + c * train->rows, train->target, train->rows);
    } else {
        const char *commonest = json_text_or(json_at(json_get(column, "values"), 0), "");
        int32_t key = dictionary_find(&maps->categorical[c].codes, commonest, strlen(commonest));
        if (key >= 0)
            now = category_separation(train->codes + c * train->rows, key + 1, train->target, train->rows);
    }
    *ret_now = now;
    *ret_was = was;
    return isfinite(now);
}

bool histogram_profile(const Maps *maps, const ColumnSet *train, Json **ret_profile, Error *error)
{
    Json *profile = json_make_object(), *columns = json_make_array();
    json_put_text(profile, "schema", profile_schema);
    json_put_integer(profile, "rows", (int64_t)train->rows);
    json_put(profile, "target", histogram_target(maps, train));
    bool good = true, binary = maps->task == TASK_BINARY;
    for (size_t i = 0; good && i < maps->numeric_count; i++) {
        Json *column = json_make_object();
        good =
            profile_numeric(&maps->numeric[i], train->values + i * train->rows, train->rows, column, error);
        if (binary)
            put_separation(column, separation(train->values + i * train->rows, train->target, train->rows));
        json_add(columns, column);
    }
    for (size_t i = 0; good && i < maps->categorical_count; i++) {
        Json *column = json_make_object();
        const int32_t *codes = train->codes + i * train->rows;
        good = profile_category(&maps->categorical[i], codes, train->rows, column, error);
        const char *commonest = json_text_or(json_at(json_get(column, "values"), 0), "");
        int32_t key = dictionary_find(&maps->categorical[i].codes, commonest, strlen(commonest));
        if (good && binary && key >= 0)
            put_separation(column, category_separation(codes, key + 1, train->target, train->rows));
        json_add(columns, column);
    }
    json_put(profile, "columns", columns);
    if (good)
        *ret_profile = profile;
    else
        json_free(profile);
    return good;
}

static bool read_numbers(const Json *array, double *to, size_t count)
{
    if (json_count(array) != count)
        return false;
    for (size_t i = 0; i < count; i++)
        to[i] = json_number_or(json_at(array, i), NAN);
    return true;
}

double histogram_drift_numeric(const Json *reference, const char *name, const double *values, size_t rows)
{
    const Json *column = reference_column(reference, name);
    double edges[NUMBER_BINS - 1], expected[NUMBER_BINS + 1], actual[NUMBER_BINS + 1];
    if (!read_numbers(json_get(column, "edges"), edges, NUMBER_BINS - 1) ||
        !read_numbers(json_get(column, "shares"), expected, NUMBER_BINS + 1))
        return NAN;
    number_shares(edges, NUMBER_BINS - 1, values, rows, actual);
    return stats_psi(expected, actual, NUMBER_BINS + 1);
}

double histogram_drift_category(const Json *reference, const CategoryMap *map, const int32_t *codes,
                                size_t rows)
{
    const Json *column = reference_column(reference, map->name), *names = json_get(column, "values");
    size_t kept = json_count(names);
    double expected[CATEGORY_BINS + 2], actual[CATEGORY_BINS + 2] = {0};
    if (kept > CATEGORY_BINS || !read_numbers(json_get(column, "shares"), expected, kept + 2))
        return NAN;
    size_t *bin = malloc((map->codes.count + 1) * sizeof *bin);   // of each code
    if (!bin)
        return NAN;
    for (size_t code = 0; code <= map->codes.count; code++)
        bin[code] = kept;
    for (size_t k = 0; k < kept; k++) {
        const char *name = json_text_or(json_at(names, k), "");
        int32_t key = dictionary_find(&map->codes, name, strlen(name));
        if (key >= 0)
            bin[key + 1] = k;
    }
    for (size_t i = 0; i < rows; i++)
        actual[codes[i] == CODE_MISSING ? kept + 1 : bin[codes[i]]]++;
    free(bin);
    for (size_t b = 0; b < kept + 2; b++)
        actual[b] /= (double)rows;
    return stats_psi(expected, actual, kept + 2);
}

static void note_change(Json *changes, const char *name, const char *was, const char *is)
{
    char text[400];
    if (text_print(text, sizeof text, "column '%.200s' was %s, is %s", name, was, is))
        json_add_text(changes, text);
}

Json *histogram_changes(const Json *reference, const Maps *maps)
{
    Json *changes = json_make_array();
    if (!json_is_object(reference))
        return changes;
    const Json *columns = json_get(reference, "columns");
    for (size_t i = 0; i < maps->numeric_count + maps->categorical_count; i++) {
        bool numeric = i < maps->numeric_count;
        const char *name = numeric ? maps->numeric[i].name : maps->categorical[i - maps->numeric_count].name;
        const char *is = role_name(numeric ? ROLE_NUMERIC : ROLE_CATEGORICAL);
        const char *was = json_text_or(json_get(reference_column(reference, name), "role"), "absent");
        if (!text_equal(was, is))
            note_change(changes, name, was, is);
    }
    for (size_t i = 0; i < json_count(columns); i++) {
        const char *name = json_text_or(json_get(json_at(columns, i), "name"), "");
        bool found = false;
        for (size_t n = 0; n < maps->numeric_count; n++)
            found |= text_equal(maps->numeric[n].name, name);
        for (size_t c = 0; c < maps->categorical_count; c++)
            found |= text_equal(maps->categorical[c].name, name);
        if (!found)
            note_change(changes, name, json_text_or(json_get(json_at(columns, i), "role"), "there"),
                        "absent");
    }
    return changes;
}
