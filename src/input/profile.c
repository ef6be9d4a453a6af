// profile - what tonight's data looks like, as evidence for the judge `input`: nothing is decided here.
//
// Learnt from training rows, compared on validation and test rows: unseen categories, values outside the
// training range, and how well one column alone tells the classes apart (numbers by rank on training rows;
// categories by their training rate on the other rows, so that an identifier does not look like a leak).
#include "profile_internal.h"

#include <fedgate/stats.h>
#include <fedgate/text.h>
#include <math.h>
#include <stdlib.h>

typedef struct ColumnFill {
    ColumnSet *set;
    const Maps *maps;
    const RowDecoder *decoder;
} ColumnFill;

static bool fill_row(void *context, const RowReader *reader, size_t at, size_t row, Error *error)
{
    ColumnFill *fill = context;
    ColumnSet *set = fill->set;
    const Schema *schema = &reader->dataset->schema;
    for (size_t i = 0; i < fill->maps->numeric_count; i++) {
        size_t field = fill->decoder->numeric_field[i];
        double value;
        bool there = !schema_missing(&schema->columns[field], &reader->fields[field]) &&
                     field_number(&reader->fields[field], &value);
        set->values[i * set->rows + at] = there ? value : NAN;
    }
    for (size_t i = 0; i < fill->maps->categorical_count; i++) {
        size_t field = fill->decoder->category_field[i];
        set->codes[i * set->rows + at] =
            schema_missing(&schema->columns[field], &reader->fields[field])
                ? CODE_MISSING
                : dictionary_find(&fill->maps->categorical[i].codes, reader->fields[field].text,
                                  reader->fields[field].length) +
                      1;
    }
    return schema_label(schema, &reader->fields[schema->target], &set->target[at])
               ? true
               : dataset_fail_row(reader->dataset, row, error, "target changed since the file was opened");
}

bool columns_read(const Dataset *dataset, const Maps *maps, Split split, ColumnSet *ret_set, Error *error)
{
    ColumnSet set = {.rows = dataset_rows(dataset, split), .ledger = dataset->ledger};
    set.bytes = (int64_t)(set.rows * (sizeof(double) * (maps->numeric_count + 1) +
                                      sizeof(int32_t) * maps->categorical_count) +
                          sizeof(double));
    RowDecoder decoder;
    if (!decoder_init(&decoder, dataset, maps, error))
        return false;
    set.target = ledger_take(set.ledger, LEDGER_HOST, "input.profile", set.bytes, error);
    bool good = set.target != NULL;
    if (good) {
        set.values = set.target + set.rows;
        set.codes = (int32_t *)(void *)(set.values + set.rows * maps->numeric_count);
        ColumnFill fill = {&set, maps, &decoder};
        good = reader_visit(dataset, split, fill_row, &fill, error);
    }
    decoder_done(&decoder);
    if (good)
        *ret_set = set;
    else
        columns_done(&set);
    return good;
}

void columns_done(ColumnSet *set)
{
    if (set->target)
        ledger_give(set->ledger, LEDGER_HOST, "input.profile", set->target, set->bytes);
    *set = (ColumnSet){0};
}

// Everything a column's row of evidence is made from.
typedef struct Profile {
    const Maps *maps;
    const Json *reference;
    ColumnSet set[SPLIT_COUNT];
    double *score, *label;   // scratch, as long as all rows
    double *sum, *count;   // scratch, as long as the largest dictionary and its two other codes
} Profile;

static void put_finite(Json *object, const char *key, double value)
{
    if (isfinite(value))
        json_put_number(object, key, value);
}

static int compare_numbers(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double either_way(double auc)
{
    return auc < 0.5 ? 1 - auc : auc;
}

// The larger share of the training rows and of the others, so that a column that vanishes in the test rows
// shows.
static double worse_share(size_t train, size_t train_rows, size_t other, size_t other_rows)
{
    double a = train_rows > 0 ? (double)train / (double)train_rows : 0,
           b = other_rows > 0 ? (double)other / (double)other_rows : 0;
    return a > b ? a : b;
}

static size_t other_rows(const Profile *profile)
{
    return profile->set[SPLIT_VALIDATION].rows + profile->set[SPLIT_TEST].rows;
}

// By the values that are there, or by being there at all when that tells more: a figure that only one class
// has knows the answer too.
static double numeric_auc(const Profile *profile, const double *values)
{
    const ColumnSet *train = &profile->set[SPLIT_TRAIN];
    size_t n = 0;
    for (size_t i = 0; i < train->rows; i++)
        if (!isnan(values[i])) {
            profile->score[n] = values[i];
            profile->label[n++] = train->target[i];
        }
    double by_value = either_way(stats_auc(profile->score, profile->label, n));
    for (size_t i = 0; i < train->rows; i++)
        profile->score[i] = isnan(values[i]) ? 0 : 1;
    double by_presence = either_way(stats_auc(profile->score, train->target, train->rows));
    return by_value >= by_presence ? by_value : by_presence;
}

// How much of a name a column is: distinct values as a share of the rows that have one, and the share of
// steps from row to row, in file order, that all go one way.
static void put_naming(const Profile *profile, const double *values, Json *row)
{
    const ColumnSet *train = &profile->set[SPLIT_TRAIN];
    size_t n = 0, distinct = 0, up = 0, down = 0;
    for (size_t i = 0; i < train->rows; i++) {
        if (isnan(values[i]))
            continue;
        up += n > 0 && values[i] > profile->score[n - 1];
        down += n > 0 && values[i] < profile->score[n - 1];
        profile->score[n++] = values[i];
    }
    qsort(profile->score, n, sizeof *profile->score, compare_numbers);
    for (size_t i = 0; i < n; i++)
        distinct += i == 0 || profile->score[i] > profile->score[i - 1];
    json_put_number(row, "distinct_ratio", n > 0 ? (double)distinct / (double)n : 0);
    json_put_number(row, "order_ratio", n > 1 ? (double)(up > down ? up : down) / (double)(n - 1) : 0);
}

static Json *numeric_row(const Profile *profile, size_t at)
{
    const NumericMap *map = &profile->maps->numeric[at];
    double slack = (map->high - map->low) / 2;
    size_t missing[2] = {0}, outside = 0, present = 0;
    for (int s = 0; s < SPLIT_COUNT; s++) {
        const ColumnSet *set = &profile->set[s];
        const double *values = set->values + at * set->rows;
        for (size_t i = 0; i < set->rows; i++) {
            bool gone = isnan(values[i]);
            missing[s != SPLIT_TRAIN] += gone;
            present += s != SPLIT_TRAIN && !gone;
            outside += s != SPLIT_TRAIN && !gone &&
                       !(values[i] >= map->low - slack && values[i] <= map->high + slack);
        }
    }
    const ColumnSet *train = &profile->set[SPLIT_TRAIN];
    const double *values = train->values + at * train->rows;
    Json *row = json_make_object();
    json_put_text(row, "name", map->name);
    json_put_text(row, "role", role_name(ROLE_NUMERIC));
    json_put_number(row, "missing_ratio",
                    worse_share(missing[0], train->rows, missing[1], other_rows(profile)));
    json_put_number(row, "unseen_ratio", 0);
    json_put_number(row, "outside_ratio", present > 0 ? (double)outside / (double)present : 0);
    json_put_bool(row, "constant", map->constant);
    if (profile->maps->task == TASK_BINARY)
        put_finite(row, "single_auc", numeric_auc(profile, values));
    put_naming(profile, values, row);
    if (profile->reference)
        put_finite(row, "drift_psi",
                   histogram_drift_numeric(profile->reference, map->name, values, train->rows));
    json_put_number(row, "min", map->low);
    json_put_number(row, "max", map->high);
    json_put_number(row, "mean", map->mean);
    json_put_number(row, "deviation", map->deviation);
    json_put_integer(row, "categories", 0);
    return row;
}

// Target rate by category on training rows (one row of the mean added to each), judged on the other rows.
static double category_auc(const Profile *profile, size_t at)
{
    const ColumnSet *train = &profile->set[SPLIT_TRAIN];
    size_t codes = profile->maps->categorical[at].codes.count + 2, n = 0;   // missing, unknown, the known
    double *sum = profile->sum, *count = profile->count, mean = stats_mean(train->target, train->rows);
    for (size_t k = 0; k < codes; k++)
        sum[k] = count[k] = 0;
    for (size_t i = 0; i < train->rows; i++) {
        size_t code = (size_t)(train->codes[at * train->rows + i] + 1);
        sum[code] += train->target[i];
        count[code]++;
    }
    for (int s = SPLIT_VALIDATION; s < SPLIT_COUNT; s++) {
        const ColumnSet *set = &profile->set[s];
        for (size_t i = 0; i < set->rows; i++) {
            size_t code = (size_t)(set->codes[at * set->rows + i] + 1);
            profile->score[n] = (sum[code] + mean) / (count[code] + 1);
            profile->label[n++] = set->target[i];
        }
    }
    return either_way(stats_auc(profile->score, profile->label, n));
}

static Json *category_row(const Profile *profile, size_t at)
{
    const CategoryMap *map = &profile->maps->categorical[at];
    size_t missing[2] = {0}, unseen = 0;
    for (int s = 0; s < SPLIT_COUNT; s++) {
        const ColumnSet *set = &profile->set[s];
        const int32_t *codes = set->codes + at * set->rows;
        for (size_t i = 0; i < set->rows; i++) {
            missing[s != SPLIT_TRAIN] += codes[i] == CODE_MISSING;
            unseen += s != SPLIT_TRAIN && codes[i] == 0;
        }
    }
    const ColumnSet *train = &profile->set[SPLIT_TRAIN];
    Json *row = json_make_object();
    json_put_text(row, "name", map->name);
    json_put_text(row, "role", role_name(ROLE_CATEGORICAL));
    json_put_number(row, "missing_ratio",
                    worse_share(missing[0], train->rows, missing[1], other_rows(profile)));
    json_put_number(row, "unseen_ratio",
                    other_rows(profile) > 0 ? (double)unseen / (double)other_rows(profile) : 0);
    json_put_number(row, "outside_ratio", 0);
    json_put_bool(row, "constant", map->codes.count + (missing[0] > 0) < 2);
    if (profile->maps->task == TASK_BINARY)
        put_finite(row, "single_auc", category_auc(profile, at));
    json_put_number(row, "distinct_ratio",
                    train->rows > missing[0] ? (double)map->codes.count / (double)(train->rows - missing[0])
                                             : 0);
    if (profile->reference)
        put_finite(
            row, "drift_psi",
            histogram_drift_category(profile->reference, map, train->codes + at * train->rows, train->rows));
    json_put_integer(row, "categories", (int64_t)map->codes.count);
    return row;
}

static Json *forbidden_used(const Dataset *dataset)
{
    Json *used = json_make_array();
    for (size_t c = 0; c < dataset->schema.count; c++) {
        const SchemaColumn *column = &dataset->schema.columns[c];
        if (column->forbidden && (column->role == ROLE_NUMERIC || column->role == ROLE_CATEGORICAL))
            json_add_text(used, column->name);
    }
    return used;
}

// -- the label against the reference: how often, and which way round

static void put_label(const Profile *profile, Json *evidence)
{
    const Maps *maps = profile->maps;
    const Json *reference = profile->reference;
    Json *target = histogram_target(maps, &profile->set[SPLIT_TRAIN]);
    if (reference != NULL)
        json_put(target, "reference", json_copy_deep(json_get(reference, "target")));
    json_put(evidence, "target", target);
    if (reference == NULL || maps->task != TASK_BINARY)
        return;
    double dot = 0, own = 0, theirs = 0;
    int64_t columns = 0;
    for (size_t i = 0; i < maps->numeric_count + maps->categorical_count; i++) {
        double now, was;
        if (!histogram_separations(reference, maps, &profile->set[SPLIT_TRAIN], i, &now, &was))
            continue;
        dot += now * was;
        own += now * now;
        theirs += was * was;
        columns++;
    }
    Json *polarity = json_make_object();
    json_put_integer(polarity, "columns", columns);
    if (columns > 0)
        put_finite(polarity, "cosine", own > 0 ? dot / sqrt(own * theirs) : 0);
    json_put(evidence, "polarity", polarity);
}

static Json *make_evidence(const Dataset *dataset, const Profile *profile)
{
    Json *evidence = json_make_object(), *rows = json_make_object(), *columns = json_make_array(),
         *target = json_make_object();
    for (int s = 0; s < SPLIT_COUNT; s++) {
        json_put_integer(rows, split_name((Split)s), (int64_t)profile->set[s].rows);
        json_put_number(target, split_name((Split)s),
                        stats_mean(profile->set[s].target, profile->set[s].rows));
    }
    json_put_integer(rows, "after_cutoff", dataset->after_cutoff);
    json_put_integer(rows, "bad", dataset->bad);
    for (size_t i = 0; i < profile->maps->numeric_count; i++)
        json_add(columns, numeric_row(profile, i));
    for (size_t i = 0; i < profile->maps->categorical_count; i++)
        json_add(columns, category_row(profile, i));
    json_put(evidence, "rows", rows);
    json_put(evidence, "target_mean", target);
    json_put(evidence, "columns", columns);
    json_put(evidence, "forbidden_used", forbidden_used(dataset));
    json_put(evidence, "schema_changes", histogram_changes(profile->reference, profile->maps));
    put_label(profile, evidence);
    json_put_text(evidence, "reference_version", json_text_or(json_get(profile->reference, "version"), NULL));
    return evidence;
}

// One class teaches nothing, and no metric can tell models apart on it: said here in the words of the data,
// before a GPU starts, not as a metric that is not a number at the end of the night.
static bool check_classes(const Dataset *dataset, const Profile *profile, Error *error)
{
    static const Split needed[] = {SPLIT_TRAIN, SPLIT_TEST};
    const Schema *schema = &dataset->schema;
    for (size_t i = 0; schema->task != TASK_REGRESSION && i < sizeof needed / sizeof needed[0]; i++) {
        const ColumnSet *set = &profile->set[needed[i]];
        size_t same = 0;
        while (same < set->rows && set->target[same] == set->target[0])
            same++;
        if (same == set->rows)
            return FAIL(error, ERROR_DATA, 0, "target column '%s' is of class %.0f in all %zu %s rows",
                        schema->columns[schema->target].name, set->target[0], set->rows,
                        split_name(needed[i]));
    }
    return true;
}

bool dataset_profile(const Dataset *dataset, const Maps *maps, const Config *config,
                     const Json *reference_profile_or_null, Json **ret_evidence, Json **ret_profile,
                     Error *error)
{
    Profile profile = {.maps = maps,
                       .reference =
                           json_is_object(reference_profile_or_null) ? reference_profile_or_null : NULL};
    size_t rows = 0, codes = 0;
    bool good = true;
    for (size_t i = 0; i < maps->categorical_count; i++)
        codes = maps->categorical[i].codes.count > codes ? maps->categorical[i].codes.count : codes;
    for (int s = 0; good && s < SPLIT_COUNT; s++) {
        good = columns_read(dataset, maps, (Split)s, &profile.set[s], error);
        rows += profile.set[s].rows;
    }
    good = good && check_classes(dataset, &profile, error);
    profile.score = good ? calloc(rows + 1, sizeof(double)) : NULL;
    profile.label = good ? calloc(rows + 1, sizeof(double)) : NULL;
    profile.sum = good ? calloc(codes + 2, sizeof(double)) : NULL;
    profile.count = good ? calloc(codes + 2, sizeof(double)) : NULL;
    if (good && (!profile.score || !profile.label || !profile.sum || !profile.count))
        good = FAIL(error, ERROR_MEMORY, 0, "out of memory for the profile");
    Json *kept = NULL;
    if (good && histogram_profile(maps, &profile.set[SPLIT_TRAIN], &kept, error)) {
        Json *evidence = make_evidence(dataset, &profile), *slices = json_make_array();
        good = profile_slices(dataset, config, &profile.set[SPLIT_TEST], slices, error);
        json_put(evidence, "slices", slices);
        json_put(evidence, "split", profile_split(dataset, config));
        if (good) {
            *ret_evidence = evidence;
            *ret_profile = kept;
        } else {
            json_free(evidence);
            json_free(kept);
        }
    } else {
        good = false;
    }
    free(profile.score);
    free(profile.label);
    free(profile.sum);
    free(profile.count);
    for (int s = 0; s < SPLIT_COUNT; s++)
        columns_done(&profile.set[s]);
    return good;
}
