// maps - what is learnt from training rows and nothing else: scales, quantiles, medians, categories, target
// scale.
#include "input_internal.h"

#include <fedgate/stats.h>
#include <fedgate/text.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Fit {
    const Dataset *dataset;
    size_t rows;
    const size_t *numeric_field, *category_field;   // the schema's
    double *values;   // [numeric][rows], NaN where missing
    double *target;   // [rows]
    Dictionary *seen;   // [categorical]
    size_t numeric, categorical;
} Fit;

static bool out_of_memory(Error *error)
{
    return FAIL(error, ERROR_MEMORY, 0, "out of memory for the maps of the training rows");
}

static bool fit_row(void *context, const RowReader *reader, size_t at, size_t row, Error *error)
{
    Fit *fit = context;
    const Schema *schema = &fit->dataset->schema;
    (void)row;
    for (size_t i = 0; i < fit->numeric; i++) {
        const Field *field = &reader->fields[fit->numeric_field[i]];
        double value;
        if (schema_missing(&schema->columns[fit->numeric_field[i]], field) || !field_number(field, &value))
            value = NAN;
        fit->values[i * fit->rows + at] = value;
    }
    for (size_t i = 0; i < fit->categorical; i++) {
        const Field *field = &reader->fields[fit->category_field[i]];
        int32_t code;
        if (!schema_missing(&schema->columns[fit->category_field[i]], field) &&
            !dictionary_add(&fit->seen[i], field->text, field->length, 1, &code))
            return out_of_memory(error);
    }
    return schema_label(schema, &reader->fields[schema->target], &fit->target[at])
               ? true
               : dataset_fail_row(fit->dataset, row, error, "target changed since the file was opened");
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Value of the knot `i` of `steps` equal steps through the sorted values.
static double knot_value(const double *sorted, size_t n, size_t i, size_t steps)
{
    double place = (double)i * (double)(n - 1) / (double)steps;
    size_t low = (size_t)place, high = low + 1 < n ? low + 1 : low;
    return sorted[low] + (place - (double)low) * (sorted[high] - sorted[low]);
}

static double rank_normal(double rank, size_t steps)
{
    double share = rank / (double)steps, edge = 0.5 / (double)(steps + 1);
    return stats_normal_quantile(share < edge ? edge : share > 1 - edge ? 1 - edge : share);
}

// Knots at equal steps of the sorted values; a value that covers several knots stands once, at the middle of
// its ranks, so that a column of mostly zeros maps them to where most of them are; what lies just above it
// begins at the last of its ranks. Ends stay half a step inside 0 and 1.
static bool fit_quantiles(NumericMap *map, const double *sorted, size_t n, size_t wanted, Error *error)
{
    size_t steps = (wanted < n ? wanted : n) - 1;
    map->knot = calloc(steps + 1, sizeof *map->knot);
    map->normal = calloc(steps + 1, sizeof *map->normal);
    map->first = calloc(steps + 1, sizeof *map->first);
    map->last = calloc(steps + 1, sizeof *map->last);
    if (!map->knot || !map->normal || !map->first || !map->last)
        return out_of_memory(error);
    for (size_t i = 0; i <= steps;) {
        double value = knot_value(sorted, n, i, steps);
        size_t last = i;
        while (last < steps && knot_value(sorted, n, last + 1, steps) <= value)
            last++;
        map->knot[map->knots] = value;
        map->normal[map->knots] = rank_normal(((double)i + (double)last) / 2, steps);
        map->first[map->knots] = rank_normal((double)i, steps);
        map->last[map->knots++] = rank_normal((double)last, steps);
        i = last + 1;
    }
    return true;
}

static bool fit_numeric(NumericMap *map, double *values, size_t rows, TransformKind transform,
                        size_t quantiles, Error *error)
{
    size_t n = 0;
    for (size_t i = 0; i < rows; i++)
        if (!isnan(values[i]))
            values[n++] = values[i];
    map->flag = n > 0 && n < rows;
    map->constant = true;
    if (n == 0)
        return true;
    map->mean = stats_mean(values, n);
    map->deviation = n > 1 ? sqrt(stats_variance(values, n)) : 0;
    qsort(values, n, sizeof *values, compare_doubles);
    map->low = values[0];
    map->high = values[n - 1];
    map->median = stats_quantile(values, n, 0.5);
    map->constant = !(map->high > map->low) || !(map->deviation > 0);
    if (map->constant || transform != TRANSFORM_QUANTILE)
        return true;
    return fit_quantiles(map, values, n, quantiles, error);
}

double numeric_apply(const NumericMap *map, TransformKind transform, double value)
{
    if (map->constant)
        return 0;
    if (transform == TRANSFORM_STANDARD)
        return (value - map->mean) / map->deviation;
    const double *knot = map->knot;
    size_t last = map->knots - 1;
    if (value <= knot[0])
        return map->normal[0];
    if (value >= knot[last])
        return map->normal[last];
    size_t low = 0, length = last;   // knot[low] <= value < knot[low + length]
    while (length > 1) {
        size_t half = length / 2;
        low += knot[low + half] <= value ? half : 0;
        length -= half;
    }
    if (value == knot[low])
        return map->normal[low];
    double part = (value - knot[low]) / (knot[low + 1] - knot[low]);
    return map->last[low] + part * (map->first[low + 1] - map->last[low]);
}

static bool fit_prepare(Fit *fit, Maps *maps, const Dataset *dataset, Error *error)
{
    const Schema *schema = &dataset->schema;
    fit->dataset = dataset;
    fit->rows = dataset_rows(dataset, SPLIT_TRAIN);
    fit->numeric = schema->numeric_count;
    fit->categorical = schema->categorical_count;
    fit->numeric_field = schema->numeric;
    fit->category_field = schema->categorical;
    maps->numeric = calloc(fit->numeric + 1, sizeof *maps->numeric);
    maps->categorical = calloc(fit->categorical + 1, sizeof *maps->categorical);
    fit->values = calloc(fit->numeric * fit->rows + 1, sizeof *fit->values);
    fit->target = calloc(fit->rows + 1, sizeof *fit->target);
    fit->seen = calloc(fit->categorical + 1, sizeof *fit->seen);
    if (!maps->numeric || !maps->categorical || !fit->values || !fit->target || !fit->seen)
        return out_of_memory(error);
    for (; maps->numeric_count < fit->numeric; maps->numeric_count++) {
        const char *name = schema->columns[schema->numeric[maps->numeric_count]].name;
        if (!(maps->numeric[maps->numeric_count].name = text_duplicate(name)))
            return out_of_memory(error);
    }
    for (; maps->categorical_count < fit->categorical; maps->categorical_count++) {
        const char *name = schema->columns[schema->categorical[maps->categorical_count]].name;
        if (!(maps->categorical[maps->categorical_count].name = text_duplicate(name)))
            return out_of_memory(error);
    }
    return true;
}

static bool fit_all(Fit *fit, Maps *maps, const Config *config, Error *error)
{
    if (!reader_visit(fit->dataset, SPLIT_TRAIN, fit_row, fit, error))
        return false;
    size_t quantiles = (size_t)config_integer(config, "data.quantiles");
    for (size_t i = 0; i < fit->numeric; i++) {
        if (!fit_numeric(&maps->numeric[i], fit->values + i * fit->rows, fit->rows, maps->transform,
                         quantiles, error))
            return false;
        maps->flag_count += maps->numeric[i].flag;
    }
    for (size_t i = 0; i < fit->categorical; i++)
        if (!dictionary_sorted(&fit->seen[i], config_integer(config, "data.rare"),
                               &maps->categorical[i].codes))
            return out_of_memory(error);
    maps->target_deviation = 1;
    if (maps->task != TASK_REGRESSION)
        return true;
    maps->target_mean = stats_mean(fit->target, fit->rows);
    double deviation = fit->rows > 1 ? sqrt(stats_variance(fit->target, fit->rows)) : 0;
    if (!(deviation > 0))
        return FAIL(error, ERROR_DATA, 0, "target column has the same value in every training row");
    maps->target_deviation = deviation;
    return true;
}

Maps *maps_fit(const Dataset *dataset, const Config *config, Error *error)
{
    Maps *maps = calloc(1, sizeof *maps);
    if (!maps) {
        out_of_memory(error);
        return NULL;
    }
    maps->task = dataset->schema.task;
    maps->transform = text_equal(config_text(config, "data.transform"), "quantile-normal")
                          ? TRANSFORM_QUANTILE
                          : TRANSFORM_STANDARD;
    Fit fit = {0};
    int64_t bytes =
        (int64_t)((dataset->schema.numeric_count + 1) * dataset_rows(dataset, SPLIT_TRAIN) * sizeof(double));
    bool good = ledger_charge(dataset->ledger, LEDGER_HOST, "input.fit", bytes, error);
    if (good) {
        good = fit_prepare(&fit, maps, dataset, error) && fit_all(&fit, maps, config, error);
        ledger_return(dataset->ledger, LEDGER_HOST, "input.fit", bytes);
    }
    for (size_t i = 0; fit.seen && i < fit.categorical; i++)
        dictionary_done(&fit.seen[i]);
    free(fit.seen);
    free(fit.values);
    free(fit.target);
    if (good)
        return maps;
    maps_free(maps);
    return NULL;
}

void maps_free(Maps *maps)
{
    if (!maps)
        return;
    for (size_t i = 0; i < maps->numeric_count; i++) {
        free(maps->numeric[i].name);
        free(maps->numeric[i].knot);
        free(maps->numeric[i].normal);
        free(maps->numeric[i].first);
        free(maps->numeric[i].last);
    }
    for (size_t i = 0; i < maps->categorical_count; i++) {
        free(maps->categorical[i].name);
        dictionary_done(&maps->categorical[i].codes);
    }
    free(maps->numeric);
    free(maps->categorical);
    free(maps);
}

size_t maps_numeric(const Maps *maps)
{
    return maps->numeric_count + maps->flag_count;
}

size_t maps_categorical(const Maps *maps)
{
    return maps->categorical_count;
}

int64_t maps_cardinality(const Maps *maps, size_t column)
{
    return (int64_t)maps->categorical[column].codes.count + 1;
}

void maps_target(const Maps *maps, double *ret_mean, double *ret_deviation)
{
    *ret_mean = maps->target_mean;
    *ret_deviation = maps->target_deviation;
}
