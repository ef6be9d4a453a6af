// baseline - prior, rule and linear regression behind one table: fit, predict, save, load.
#include "baseline_internal.h"

#include <fedgate/file.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BASELINE_FORMAT = 1, BASELINE_JSON_MAX = 64 * 1000 * 1000, BASELINE_SIZE_MAX = 1 << 24 };

static bool out_of_memory(Error *error)
{
    return FAIL(error, ERROR_MEMORY, 0, "could not take memory for a baseline");
}

// -- prior: the share of each class, or the mean

static bool prior_fit(Baseline *baseline, const Config *config, const Table *table, const Maps *maps,
                      Error *error)
{
    (void)config, (void)maps;
    baseline->constant = calloc((size_t)baseline->outputs, sizeof *baseline->constant);
    if (!baseline->constant)
        return out_of_memory(error);
    if (baseline->task != FEDGATE_LOSS_CLASSES)
        baseline->constant[0] = stats_mean(table->target, table->rows);
    for (size_t i = 0; baseline->task == FEDGATE_LOSS_CLASSES && i < table->rows; i++)
        baseline->constant[(size_t)table->target[i]] += 1 / (double)table->rows;
    return true;
}

static bool prior_predict(const Baseline *baseline, const Dataset *dataset, Split split, const Table *table,
                          double *ret_score, Error *error)
{
    (void)dataset, (void)split, (void)error;
    for (size_t i = 0; i < table->rows; i++)
        memcpy(ret_score + i * (size_t)baseline->outputs, baseline->constant,
               (size_t)baseline->outputs * sizeof *ret_score);
    return true;
}

static Json *numbers(const double *values, size_t count)
{
    Json *array = json_make_array();
    for (size_t i = 0; i < count; i++)
        json_add_number(array, values[i]);
    return array;
}

static bool read_numbers(const Json *json, const char *key, size_t count, double **ret_values, Error *error)
{
    const Json *array = json_get(json, key);
    if (!json_is_array(array) || json_count(array) != count)
        return FAIL(error, ERROR_DATA, 0, "'%s' is not a list of %zu numbers", key, count);
    double *values = calloc(count + 1, sizeof *values);
    if (!values)
        return out_of_memory(error);
    for (size_t i = 0; i < count; i++)
        values[i] = json_number_or(json_at(array, i), (double)NAN);
    *ret_values = values;
    return true;
}

static void prior_write(const Baseline *baseline, Json *json)
{
    json_put(json, "constant", numbers(baseline->constant, (size_t)baseline->outputs));
}

static bool prior_read(Baseline *baseline, const Json *json, Error *error)
{
    return read_numbers(json, "constant", (size_t)baseline->outputs, &baseline->constant, error);
}

// -- rule

static bool rule_read_text(Baseline *baseline, const char *text, Error *error)
{
    baseline->rule_text = text_duplicate(text);
    return baseline->rule_text ? rule_parse(text, &baseline->rule, error) : out_of_memory(error);
}

static bool rule_fit(Baseline *baseline, const Config *config, const Table *table, const Maps *maps,
                     Error *error)
{
    (void)table, (void)maps;
    const char *text = config_text(config, "baseline.rule");
    return baseline_check_rule(text, config, error) && rule_read_text(baseline, text, error);
}

static bool clause_matches(const RuleClause *clause, const Column *column, size_t row)
{
    double number = column->numbers[row];
    const char *text = column->codes[row] >= 0 && (size_t)column->codes[row] < column->name_count
                           ? column->names[column->codes[row]]
                           : "";
    bool equal = strcmp(text, clause->value) == 0 || number == clause->number;
    switch (clause->operator) {
    case RULE_EQUAL:
        return equal;
    case RULE_DIFFERENT:
        return !equal && text[0] != '\0';
    case RULE_LESS:
        return number < clause->number;
    case RULE_LESS_EQUAL:
        return number <= clause->number;
    case RULE_MORE:
        return number > clause->number;
    case RULE_MORE_EQUAL:
        return number >= clause->number;
    default:
        return true;
    }
}

// A class gets nine tenths, the other classes share the rest, so that a log loss exists.
static void give_score(const Baseline *baseline, double score, double *ret_score)
{
    if (baseline->task != FEDGATE_LOSS_CLASSES) {
        ret_score[0] = score;
        return;
    }
    for (int64_t k = 0; k < baseline->outputs; k++)
        ret_score[k] = (double)k == score ? 0.9 : 0.1 / (double)(baseline->outputs - 1);
}

static bool rule_predict(const Baseline *baseline, const Dataset *dataset, Split split, const Table *table,
                         double *ret_score, Error *error)
{
    bool *done = calloc(table->rows + 1, sizeof *done);
    if (!done)
        return out_of_memory(error);
    bool good = true;
    for (size_t i = 0; good && i < baseline->rule.count;
         i++) {   // clause by clause: one column in memory at a time
        const RuleClause *clause = &baseline->rule.clauses[i];
        Column column = {0};
        good = clause->operator== RULE_ELSE || dataset_column(dataset, split, clause->column, &column, error);
        if (good && clause->operator!= RULE_ELSE && column.rows != table->rows)
            good = FAIL(error, ERROR_DATA, 0, "column '%s' has %zu rows, the table %zu", clause->column,
                        column.rows, table->rows);
        for (size_t row = 0; good && row < table->rows; row++)
            if (!done[row] && (clause->operator== RULE_ELSE || clause_matches(clause, &column, row))) {
                give_score(baseline, clause->score, ret_score + row * (size_t)baseline->outputs);
                done[row] = true;
            }
        column_done(&column);
    }
    free(done);
    return good;
}

static void rule_write(const Baseline *baseline, Json *json)
{
    json_put_text(json, "rule", baseline->rule_text);
}

static bool rule_read(Baseline *baseline, const Json *json, Error *error)
{
    const char *text;
    return json_get_text(json, "rule", &text, error) && rule_read_text(baseline, text, error);
}

// -- linear

static bool place_features(Baseline *baseline, const int64_t *cardinality, Error *error)
{
    baseline->first = calloc((size_t)baseline->categorical + 1, sizeof *baseline->first);
    if (!baseline->first)
        return out_of_memory(error);
    baseline->first[0] = baseline->numeric;
    for (int64_t i = 0; i < baseline->categorical; i++)
        baseline->first[i + 1] = baseline->first[i] + cardinality[i];
    baseline->features = baseline->first[baseline->categorical] + 1;
    return true;
}

static bool linear_fit_table(Baseline *baseline, const Config *config, const Table *table, const Maps *maps,
                             Error *error)
{
    baseline->numeric = (int64_t)table->numeric;
    baseline->categorical = (int64_t)table->categorical;
    int64_t *cardinality = calloc(table->categorical + 1, sizeof *cardinality);
    for (size_t i = 0; cardinality && i < table->categorical; i++)
        cardinality[i] = maps_cardinality(maps, i);
    bool good = cardinality ? place_features(baseline, cardinality, error) : out_of_memory(error);
    free(cardinality);
    if (!good)
        return false;
    baseline->weights = calloc((size_t)(baseline->outputs * baseline->features), sizeof *baseline->weights);
    return baseline->weights ? linear_fit(baseline, table, config_real(config, "baseline.ridge"), error)
                             : out_of_memory(error);
}

static bool linear_predict(const Baseline *baseline, const Dataset *dataset, Split split, const Table *table,
                           double *ret_score, Error *error)
{
    (void)dataset, (void)split;
    if ((int64_t)table->numeric != baseline->numeric || (int64_t)table->categorical != baseline->categorical)
        return FAIL(error, ERROR_DATA, 0,
                    "baseline takes %lld numeric and %lld categorical inputs, the table has %zu and %zu",
                    (long long)baseline->numeric, (long long)baseline->categorical, table->numeric,
                    table->categorical);
    for (size_t i = 0; i < table->rows * table->categorical; i++) {
        size_t column = i % table->categorical;
        if (table->codes[i] < 0 || table->codes[i] >= baseline->first[column + 1] - baseline->first[column])
            return FAIL(error, ERROR_DATA, 0, "row %zu has a code outside the baseline's categories",
                        i / table->categorical);
    }
    linear_scores(baseline, table, ret_score);
    return true;
}

static void linear_write(const Baseline *baseline, Json *json)
{
    Json *cardinality = json_make_array();
    for (int64_t i = 0; i < baseline->categorical; i++)
        json_add_integer(cardinality, baseline->first[i + 1] - baseline->first[i]);
    json_put_integer(json, "numeric", baseline->numeric);
    json_put(json, "cardinality", cardinality);
    json_put(json, "weights", numbers(baseline->weights, (size_t)(baseline->outputs * baseline->features)));
}

static bool linear_read(Baseline *baseline, const Json *json, Error *error)
{
    const Json *array = json_get(json, "cardinality");
    if (!json_get_integer(json, "numeric", &baseline->numeric, error))
        return false;
    baseline->categorical = (int64_t)json_count(array);
    int64_t *cardinality = calloc((size_t)baseline->categorical + 1, sizeof *cardinality), sum = 0;
    bool good = cardinality && json_is_array(array) && baseline->numeric >= 0 &&
                baseline->numeric < BASELINE_SIZE_MAX;
    for (int64_t i = 0; good && i < baseline->categorical; i++) {
        cardinality[i] = json_integer_or(json_at(array, (size_t)i), 0);
        good = cardinality[i] > 0 && (sum += cardinality[i]) < BASELINE_SIZE_MAX;
    }
    good = good ? place_features(baseline, cardinality, error)
                : FAIL(error, ERROR_DATA, 0, "sizes of the linear baseline make no sense");
    free(cardinality);
    return good && read_numbers(json, "weights", (size_t)(baseline->outputs * baseline->features),
                                &baseline->weights, error);
}

// -- the table

static const struct {
    const char *name;
    bool (*fit)(Baseline *, const Config *, const Table *, const Maps *, Error *);
    bool (*predict)(const Baseline *, const Dataset *, Split, const Table *, double *, Error *);
    void (*write)(const Baseline *, Json *);
    bool (*read)(Baseline *, const Json *, Error *);
} rows[BASELINE_COUNT] = {
    [BASELINE_PRIOR] = {"prior", prior_fit, prior_predict, prior_write, prior_read},
    [BASELINE_RULE] = {"rule", rule_fit, rule_predict, rule_write, rule_read},
    [BASELINE_LINEAR] = {"linear", linear_fit_table, linear_predict, linear_write, linear_read},
};

const char *baseline_name(BaselineKind kind)
{
    return rows[kind].name;
}

bool baseline_find(const char *name, BaselineKind *ret_kind)
{
    for (int i = 0; i < BASELINE_COUNT; i++)
        if (strcmp(rows[i].name, name) == 0) {
            *ret_kind = (BaselineKind)i;
            return true;
        }
    return false;
}

Baseline *baseline_fit(BaselineKind kind, const Config *config, const Dataset *dataset, const Maps *maps,
                       Ledger *ledger, Error *error)
{
    Baseline *baseline = calloc(1, sizeof *baseline);
    if (!baseline) {
        out_of_memory(error);
        return NULL;
    }
    baseline->kind = kind;
    baseline->outputs = dataset_classes(dataset);
    Table table = {0};
    bool good = loss_kind_find(config_text(config, "task"), &baseline->task) ||
                FAIL(error, ERROR_CONFIG, 0, "task '%s' is unknown", config_text(config, "task"));
    good = good && dataset_decode(dataset, maps, SPLIT_TRAIN, ledger, &table, error);
    if (good && table.rows == 0)
        good = FAIL(error, ERROR_DATA, 0, "no training row is left for baseline '%s'", baseline_name(kind));
    good = good && rows[kind].fit(baseline, config, &table, maps, error);
    table_done(&table);
    if (good)
        return baseline;
    error_prefix(error, "baseline '%s'", baseline_name(kind));
    baseline_free(baseline);
    return NULL;
}

bool baseline_predict(const Baseline *baseline, const Dataset *dataset, Split split, const Table *table,
                      double *ret_score, Error *error)
{
    return rows[baseline->kind].predict(baseline, dataset, split, table, ret_score, error);
}

bool baseline_save(const Baseline *baseline, const char *directory, Error *error)
{
    char path[FILE_PATH_SIZE];
    OWNED(Json, json_free) *json = json_make_object();
    SCOPED_TEXT text;
    text_init(&text, BASELINE_JSON_MAX);
    json_put_integer(json, "format", BASELINE_FORMAT);
    json_put_text(json, "kind", baseline_name(baseline->kind));
    json_put_text(json, "task", loss_kind_name(baseline->task));
    json_put_integer(json, "outputs", baseline->outputs);
    rows[baseline->kind].write(baseline, json);
    json_write(json, JSON_INDENTED, &text);
    text_add_char(&text, '\n');
    return text_ok(&text, error) && file_join(path, directory, "baseline.json", error) &&
           file_write_new(path, text.data, text.length, 0640, error);
}

static bool read_baseline(Baseline *baseline, const Json *json, Error *error)
{
    int64_t format;
    const char *kind, *task;
    if (!json_get_integer(json, "format", &format, error) || !json_get_text(json, "kind", &kind, error) ||
        !json_get_text(json, "task", &task, error) ||
        !json_get_integer(json, "outputs", &baseline->outputs, error))
        return false;
    if (format != BASELINE_FORMAT || !baseline_find(kind, &baseline->kind) ||
        !loss_kind_find(task, &baseline->task))
        return FAIL(error, ERROR_DATA, 0, "kind '%s' of format %lld for task '%s' is unknown", kind,
                    (long long)format, task);
    bool outputs = baseline->task == FEDGATE_LOSS_CLASSES ? baseline->outputs >= 2 : baseline->outputs == 1;
    if (!outputs || baseline->outputs > BASELINE_SIZE_MAX)
        return FAIL(error, ERROR_DATA, 0, "%lld outputs for task '%s'", (long long)baseline->outputs, task);
    return rows[baseline->kind].read(baseline, json, error);
}

Baseline *baseline_load(const char *directory, Error *error)
{
    char path[FILE_PATH_SIZE];
    if (!file_join(path, directory, "baseline.json", error))
        return NULL;
    OWNED(Json, json_free) *json = json_read_file(path, BASELINE_JSON_MAX, error);
    if (!json)
        return NULL;
    Baseline *baseline = calloc(1, sizeof *baseline);
    bool good = baseline
                    ? read_baseline(baseline, json, error) || error_prefix(error, "baseline file '%s'", path)
                    : out_of_memory(error);
    if (good)
        return baseline;
    baseline_free(baseline);
    return NULL;
}

void baseline_free(Baseline *baseline)
{
    if (!baseline)
        return;
    free(baseline->constant);
    free(baseline->rule_text);
    free(baseline->first);
    free(baseline->weights);
    free(baseline);
}
