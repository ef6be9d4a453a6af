// check - whether the options together describe a night that can run; `plan` and `judge` need less.
#include "config_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool fail_option(const Config *config, const char *name, Error *error, const char *format, ...)
    PRINTF_LIKE(4, 5);
static bool fail_option(const Config *config, const char *name, Error *error, const char *format, ...)
{
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return FAIL(error, ERROR_CONFIG, 0, "%s: option '%s' %s", config_source(config, name), name, text);
}

static bool check_given(const Config *config, Error *error)
{
    for (size_t i = 0; i < config_option_count; i++) {
        const Option *option = &config_options[i];
        const Value *value = &config->values[i];
        bool empty = config_is_list(option->type) ? value->count == 0 : value->text[0] == '\0';
        if (!(option->flags & OPTION_NEEDED) || (value->given && !empty))
            continue;
        (void)FAIL(error, ERROR_CONFIG, 0, "%s: option '%s' is needed and not given (%s)",
                   config->path[0] ? config->path : "configuration", option->name, option->sentence);
        return error_hint(error, "Write '%s: ...' into the configuration.", option->name);
    }
    return true;
}

// -- columns

static const char *const feature_lists[] = {"data.numeric", "data.categorical"};
static const char *const column_lists[] = {"data.numeric", "data.categorical", "data.forbidden",
                                           "quality.slices"};
static const char *const column_names[] = {"data.target", "data.row_id", "data.cutoff_column"};
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *feature_list_of(const Config *config, const char *column)
{
    for (size_t i = 0; i < COUNT(feature_lists); i++)
        if (config_list_has(config, feature_lists[i], column))
            return feature_lists[i];
    return NULL;
}

// Packed shards say what their columns are; options that name none leave it to them.
static bool columns_are_packed(const Config *config)
{
    size_t files = config_list_count(config, "data.train");
    for (size_t i = 0; i < files; i++)
        if (!strstr(config_list_text(config, "data.train", i), ".safetensors"))
            return false;
    return files > 0 && config_list_count(config, "data.numeric") == 0 &&
           config_list_count(config, "data.categorical") == 0;
}

static bool check_features(const Config *config, Error *error)
{
    static const struct {
        const char *name, *why;
    } never[] = {
        {"data.target", "is also a feature; a model that sees its target learns nothing"},
        {"data.row_id", "is also a feature; a row's name predicts only that row"},
    };
    const bool packed = columns_are_packed(config);
    if (!packed &&
        config_list_count(config, "data.numeric") + config_list_count(config, "data.categorical") == 0)
        return fail_option(config, "data.numeric", error,
                           "and 'data.categorical' are both empty, at least 1 feature is needed");
    for (size_t i = 0; i < config_list_count(config, "data.categorical"); i++) {
        const char *column = config_list_text(config, "data.categorical", i);
        if (config_list_has(config, "data.numeric", column))
            return fail_option(config, "data.categorical", error,
                               "names column '%s', which is in 'data.numeric' too", column);
    }
    for (size_t i = 0; i < COUNT(never); i++) {
        const char *column = config_text(config, never[i].name), *list = feature_list_of(config, column);
        if (column[0] && list)
            return fail_option(config, list, error, "names column '%s', but '%s' %s", column, never[i].name,
                               never[i].why);
    }
    for (size_t i = 0; i < config_list_count(config, "data.forbidden"); i++) {
        const char *column = config_list_text(config, "data.forbidden", i),
                   *list = feature_list_of(config, column);
        if (list)
            return fail_option(config, list, error, "names column '%s', which 'data.forbidden' keeps out",
                               column);
        if (text_equal(column, config_text(config, "data.target")))
            return fail_option(config, "data.forbidden", error, "names the target '%s'", column);
    }
    for (size_t i = 0; !packed && i < config_list_count(config, "quality.slices"); i++) {
        const char *column = config_list_text(config, "quality.slices", i);
        if (!config_list_has(config, "data.categorical", column))
            return fail_option(config, "quality.slices", error,
                               "names column '%s', which is not in 'data.categorical'", column);
    }
    return true;
}

static bool fail_column(const Config *config, const char *name, const char *column, Error *error)
{
    const Value *columns = config_value(config, "data.columns", TYPE_BIT(OPTION_LIST));
    (void)fail_option(config, name, error, "names column '%s', which 'data.columns' does not have", column);
    const char *nearest = text_nearest(column, columns->items, columns->count);
    return nearest ? error_hint(error, "Did you mean '%s'?", nearest) : false;
}

// With a header the names are checked when the file is read; without one everything is known here.
static bool check_columns(const Config *config, Error *error)
{
    bool header = config_bool(config, "data.header"), named = config_list_count(config, "data.columns") > 0;
    if (header && named)
        return fail_option(config, "data.columns", error,
                           "names columns, but 'data.header' says that the file does");
    if (!header && !named)
        return fail_option(config, "data.header", error,
                           "is false and 'data.columns' is empty, so no column has a name");
    if (header)
        return true;
    for (size_t i = 0; i < COUNT(column_names); i++) {
        const char *column = config_text(config, column_names[i]);
        if (column[0] && !config_list_has(config, "data.columns", column))
            return fail_column(config, column_names[i], column, error);
    }
    for (size_t i = 0; i < COUNT(column_lists); i++)
        for (size_t k = 0; k < config_list_count(config, column_lists[i]); k++) {
            const char *column = config_list_text(config, column_lists[i], k);
            if (!config_list_has(config, "data.columns", column))
                return fail_column(config, column_lists[i], column, error);
        }
    return true;
}

// A misspelt column here would leave a missing-value token in the data as if it were a value.
static bool check_missing_columns(const Config *config, Error *error)
{
    for (size_t i = 0; !columns_are_packed(config) && i < config_list_count(config, "data.missing"); i++) {
        const char *item = config_list_text(config, "data.missing", i);
        char column[CONFIG_TEXT_BYTES + 1];
        if (!text_print(column, sizeof column, "%.*s", (int)strcspn(item, "="), item))
            return fail_option(config, "data.missing", error, "has a column name longer than %d bytes",
                               CONFIG_TEXT_BYTES);
        bool known = text_equal(column, "*") || feature_list_of(config, column) ||
                     config_list_has(config, "data.forbidden", column);
        for (size_t k = 0; k < COUNT(column_names) && !known; k++)
            known = text_equal(column, config_text(config, column_names[k]));
        if (!known)
            return fail_option(config, "data.missing", error, "names column '%s', which no other option uses",
                               column);
    }
    return true;
}

// -- sections

static bool check_split(const Config *config, Error *error)
{
    const char *method = config_text(config, "split.method");
    bool file = text_equal(method, "file"), has_test = config_list_count(config, "data.test") > 0;
    if (file && !has_test)
        return fail_option(config, "split.method", error, "is 'file', which needs 'data.test'");
    if (!file && has_test)
        return fail_option(config, "data.test", error, "is given, but 'split.method' is '%s', not 'file'",
                           method);
    int64_t modulo = config_integer(config, "split.modulo"),
            remainder = config_integer(config, "split.remainder");
    if (text_equal(method, "modulo") && remainder >= modulo)
        return fail_option(config, "split.remainder", error,
                           "is %lld, the limit is under 'split.modulo' = %lld", (long long)remainder,
                           (long long)modulo);
    return true;
}

static bool check_cutoff(const Config *config, Error *error)
{
    bool value = config_text(config, "data.cutoff")[0] != '\0',
         column = config_text(config, "data.cutoff_column")[0] != '\0';
    if (value && !column)
        return fail_option(config, "data.cutoff", error, "is given without 'data.cutoff_column'");
    if (column && !value)
        return fail_option(config, "data.cutoff_column", error, "is given without 'data.cutoff'");
    return true;
}

static bool check_task(const Config *config, Error *error)
{
    static const struct {
        const char *metric, *tasks;
    } fits[] = {
        {"", "binary multiclass regression"}, {"auc", "binary"},      {"logloss", "binary multiclass"},
        {"accuracy", "binary multiclass"},    {"rmse", "regression"},
    };
    const char *task = config_text(config, "task"), *metric = config_text(config, "quality.metric");
    for (size_t i = 0; i < COUNT(fits); i++)
        if (text_equal(fits[i].metric, metric) && !strstr(fits[i].tasks, task))
            return fail_option(config, "quality.metric", error, "is '%s', which a %s task does not have",
                               metric, task);
    int64_t classes = 0;
    for (size_t i = 0; i < config_list_count(config, "data.labels"); i++) {
        int64_t class_index = 0;
        (void)text_to_int64(strrchr(config_list_text(config, "data.labels", i), '=') + 1, &class_index);
        classes = class_index + 1 > classes ? class_index + 1 : classes;
    }
    if (classes && text_equal(task, "regression"))
        return fail_option(config, "data.labels", error, "is given, but the task is regression");
    if (classes && text_equal(task, "binary") && classes != 2)
        return fail_option(config, "data.labels", error, "has classes up to %lld, a binary task has 0 and 1",
                           (long long)(classes - 1));
    if (classes == 1)
        return fail_option(config, "data.labels", error, "has 1 class, at least 2 are needed");
    return true;
}

static bool check_scale(const Config *config, Error *error)
{
    static const char *const powers[] = {"train.scale_initial", "train.scale_floor"};
    for (size_t i = 0; i < COUNT(powers); i++) {
        double scale = config_real(config, powers[i]);
        if (scale != (double)(1LL << (int)nearbyint(log2(scale))))
            return fail_option(config, powers[i], error, "is %g, no power of two: scaling would round",
                               scale);
    }
    double initial = config_real(config, powers[0]), floor = config_real(config, powers[1]);
    if (initial < floor)
        return fail_option(config, powers[0], error, "is %g, under 'train.scale_floor' = %g", initial, floor);
    return true;
}

// Acting must be worth something else than not acting, or every model decides equally well.
static bool check_decisions(const Config *config, Error *error)
{
    double positive = config_real(config, "quality.benefit_tp") + config_real(config, "quality.cost_fn"),
           negative = config_real(config, "quality.cost_fp") + config_real(config, "quality.benefit_tn");
    size_t count = config_list_count(config, "quality.utilities"), side = 0, moving = 0;
    if (positive == 0 && negative == 0)
        return fail_option(config, "quality.benefit_tp", error,
                           "and the other utilities make acting and not acting worth the same for every row");
    if (config_real(config, "quality.threshold") == 0)
        return fail_option(config, "quality.threshold", error,
                           "is 0: every row would be acted on, whatever the model");
    while (side * side < count)
        side++;
    for (size_t i = 0; i < count; i++)
        moving += config_list_real(config, "quality.utilities", i) !=
                  config_list_real(config, "quality.utilities", i - i % side);
    if (count > 0 && moving == 0)
        return fail_option(config, "quality.utilities", error,
                           "makes every decision worth the same for each class");
    return true;
}

static bool check_baseline(const Config *config, Error *error)
{
    if (text_equal(config_text(config, "baseline.name"), "rule") &&
        config_text(config, "baseline.rule")[0] == '\0')
        return fail_option(config, "baseline.name", error, "is 'rule', which needs 'baseline.rule'");
    return true;
}

// An absolute margin of a metric between 0 and 1 is worth more than a relative one of the same number.
static bool check_parity(const Config *config, Error *error)
{
    const double most = 0.02;
    const char *metric = config_text(config, "quality.metric"), *task = config_text(config, "task");
    bool absolute = text_equal(metric, "auc") || text_equal(metric, "accuracy") ||
                    (metric[0] == '\0' && text_equal(task, "binary"));   // decided by auc
    double margin = config_real(config, "parity.margin");
    if (absolute && margin > most)
        return fail_option(config, "parity.margin", error, "is %g, for auc and accuracy the limit is %g",
                           margin, most);
    return true;
}

bool config_check_needed(const Config *config, Error *error)
{
    static bool (*const parts[])(const Config *, Error *) = {
        check_given, check_features, check_columns,   check_missing_columns, check_split,  check_cutoff,
        check_task,  check_baseline, check_decisions, check_scale,           check_parity,
    };
    for (size_t i = 0; i < COUNT(parts); i++)
        if (!parts[i](config, error))
            return false;
    return true;
}
