// split - which rows train, validate and test: a stable function of the row, never of chance or of the other
// rows.
//
//   hash    by the row id: equal rows fall together, and a row keeps its split from night to night
//   file    test files of their own; validation by the row id
//   modulo  test by the number of the record (left-out ones counted); validation evenly spread over the rest,
//   so that shares are exact time    the last rows in file order are the test, the last of the rest the
//   validation
#include "input_internal.h"

#include <fedgate/hash.h>
#include <fedgate/text.h>
#include <math.h>

static const char *const split_names[SPLIT_COUNT] = {"train", "validation", "test"};
static const uint64_t salt_test = 0x7465737400000001u, salt_validation = 0x76616c6900000001u;

const char *split_name(Split split)
{
    return split_names[split];
}

typedef struct SplitRule {
    uint64_t test_ppm, validation_ppm;   // shares in millionths: integer arithmetic, the same everywhere
    uint64_t modulo, remainder;
    size_t rows, time_test, time_validation;   // time: first row of each
    uint64_t rest;   // modulo: rows so far that are not test
} SplitRule;

static bool hash_below(uint64_t id, uint64_t salt, uint64_t ppm)
{
    return (hash_mix2(id, salt) >> 32) * UINT64_C(1000000) >> 32 < ppm;
}

static Split by_hash(SplitRule *rule, const Dataset *dataset, size_t row)
{
    uint64_t id = dataset->rows[row].id;
    if (hash_below(id, salt_test, rule->test_ppm))
        return SPLIT_TEST;
    return hash_below(id, salt_validation, rule->validation_ppm) ? SPLIT_VALIDATION : SPLIT_TRAIN;
}

static Split by_file(SplitRule *rule, const Dataset *dataset, size_t row)
{
    if (dataset_file_of(dataset, row)->test)
        return SPLIT_TEST;
    return hash_below(dataset->rows[row].id, salt_validation, rule->validation_ppm) ? SPLIT_VALIDATION
                                                                                    : SPLIT_TRAIN;
}

static Split by_modulo(SplitRule *rule, const Dataset *dataset, size_t row)
{
    if (dataset->rows[row].ordinal % rule->modulo == rule->remainder)
        return SPLIT_TEST;
    uint64_t at = rule->rest++;
    bool validation = (at + 1) * rule->validation_ppm / 1000000 > at * rule->validation_ppm / 1000000;
    return validation ? SPLIT_VALIDATION : SPLIT_TRAIN;
}

static Split by_time(SplitRule *rule, const Dataset *dataset, size_t row)
{
    (void)dataset;
    if (row >= rule->time_test)
        return SPLIT_TEST;
    return row >= rule->time_validation ? SPLIT_VALIDATION : SPLIT_TRAIN;
}

static const struct {
    const char *name;
    Split (*choose)(SplitRule *rule, const Dataset *dataset, size_t row);
    bool test_files;
} methods[] = {
    {"hash", by_hash, false},
    {"file", by_file, true},
    {"modulo", by_modulo, false},
    {"time", by_time, false},
};

static bool split_make_rule(const Dataset *dataset, const Config *config, SplitRule *ret_rule, Error *error)
{
    SplitRule rule = {
        .test_ppm = (uint64_t)llround(config_real(config, "split.test") * 1e6),
        .validation_ppm = (uint64_t)llround(config_real(config, "split.validation") * 1e6),
        .modulo = (uint64_t)config_integer(config, "split.modulo"),
        .remainder = (uint64_t)config_integer(config, "split.remainder"),
        .rows = dataset->row_count,
    };
    if (rule.remainder >= rule.modulo)
        return FAIL(error, ERROR_CONFIG, 0,
                    "option 'split.remainder' is %llu, but must be below 'split.modulo' %llu",
                    (unsigned long long)rule.remainder, (unsigned long long)rule.modulo);
    rule.time_test = rule.rows - (size_t)(rule.rows * rule.test_ppm / 1000000);
    rule.time_validation = rule.time_test - (size_t)(rule.time_test * rule.validation_ppm / 1000000);
    *ret_rule = rule;
    return true;
}

bool split_rows(Dataset *dataset, const Config *config, Error *error)
{
    size_t method = 0;
    while (!text_equal(methods[method].name, config_text(config, "split.method")))
        method++;
    bool test_files = config_list_count(config, "data.test") > 0;
    if (test_files != methods[method].test_files)
        return FAIL(error, ERROR_CONFIG, 0,
                    test_files ? "option 'data.test' names files, but 'split.method' is '%s', not 'file'"
                               : "option 'split.method' is '%s', but 'data.test' names no file",
                    methods[method].name);
    SplitRule rule;
    if (!split_make_rule(dataset, config, &rule, error))
        return false;
    int64_t bytes = (int64_t)(dataset->row_count * sizeof(uint32_t));
    for (int s = 0; s < SPLIT_COUNT; s++) {
        dataset->split_rows[s] = ledger_take(dataset->ledger, LEDGER_HOST, "input.split", bytes, error);
        if (!dataset->split_rows[s])
            return false;
    }
    for (size_t row = 0; row < dataset->row_count; row++) {
        Split split = methods[method].choose(&rule, dataset, row);
        dataset->split_rows[split][dataset->split_count[split]++] = (uint32_t)row;
    }
    for (int s = 0; s < SPLIT_COUNT; s++)
        if (dataset->split_count[s] == 0) {
            FAIL(error, ERROR_DATA, 0, "no row of %zu falls into the %s rows", dataset->row_count,
                 split_names[s]);
            return error_hint(error, "There are few rows or few row ids, or option 'split.test' or "
                                     "'split.validation' leaves no room.");
        }
    return true;
}
