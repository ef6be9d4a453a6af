// check_label - parts of input that look past single limits: columns that name rows, the label against the
// live version's data, and a split that is by time when time was declared.
#include "gate_internal.h"

#include <fedgate/text.h>

// A category with nearly as many values as rows, or a number that counts the rows in their order, names the
// row: what is learnt from it is the row itself.
bool judge_naming(const Section *column, const Config *policy, const char *name, bool numeric)
{
    static const double ONE_WAY = 0.99;   // of the steps from row to row
    double distinct = NAN;
    double ordered = 1;
    if (!section_amount(column, "distinct_ratio", &distinct) ||
        (numeric && !section_amount(column, "order_ratio", &ordered))) {
        return false;
    }
    double limit = config_real(policy, "input.identifier");
    if (distinct > 1 || ordered > 1) {
        finding_set(column->finding, OUTCOME_ERROR, (Figure){distinct, 1, "ratio", 1},
                    "column '%.48s' has %g distinct values a row, %g of them in order", name, distinct,
                    ordered);
        return false;
    }
    bool names = distinct >= limit && ordered >= ONE_WAY;
    if (names) {
        finding_set(column->finding, OUTCOME_FAIL, (Figure){distinct, limit, "ratio", 1},
                    "column '%.48s' names rows: %.4g of its values are distinct%s, from %.4g on it is an "
                    "identifier",
                    name, distinct, numeric ? " and they count the rows" : "", limit);
    }
    return !names;
}

// Half the sum of what the shares of the classes differ by.
static bool class_shift(const Section *target, const Json *reference, double *ret_shift)
{
    const Json *shares = NULL;
    const Json *were = json_get(reference, "shares");
    if (!section_array(target, "shares", &shares)) {
        return false;
    }
    size_t count = json_count(shares) > json_count(were) ? json_count(shares) : json_count(were);
    double sum = 0, all = 0, all_were = 0;
    for (size_t i = 0; i < count; i++) {
        double share = i < json_count(shares) ? json_number_or(json_at(shares, i), NAN) : 0;
        double was = i < json_count(were) ? json_number_or(json_at(were, i), NAN) : 0;
        sum += fabs(share - was) / 2;
        all += share;
        all_were += was;
    }
    bool sound = fabs(all - 1) <= 1e-6 && fabs(all_were - 1) <= 1e-6;
    if (!sound) {
        finding_set(target->finding, OUTCOME_ERROR, (Figure){all, 1, "ratio", (int64_t)count},
                    "the shares of the classes are %.6g in all, those of the live version's data %.6g", all,
                    all_were);
    }
    *ret_shift = sum;
    return sound;
}

static bool base_rate_holds(const Section *input, const Config *policy, bool classes)
{
    Section target;
    Section reference;
    double mean = NAN;
    double was = NAN;
    double deviation = NAN;
    double shift = NAN;
    if (!section_child(input, "target", "input.target", &target) ||
        !section_child(&target, "reference", "input.target.reference", &reference) ||
        (classes && !class_shift(&target, reference.at, &shift)) ||
        (!classes && (!section_number(&target, "mean", &mean) || !section_number(&reference, "mean", &was) ||
                      !section_amount(&reference, "deviation", &deviation)))) {
        return false;
    }
    shift = classes ? shift : mean == was ? 0 : fabs(mean - was) / deviation;
    return require_at_most(
        input->finding,
        (Figure){shift, config_real(policy, "input.target_shift"), classes ? "ratio" : "deviations", 1},
        classes ? "change of the classes' shares against the live version's data"
                : "change of the target's mean against the live version's data");
}

// The columns that told the classes apart then, tell them apart the same way round now.
static bool polarity_holds(const Section *input, bool separable)
{
    Section polarity;
    int64_t columns = 0;
    double cosine = NAN;
    if (!section_child(input, "polarity", "input.polarity", &polarity) ||
        !section_count(&polarity, "columns", &columns)) {
        return false;
    }
    if (columns == 0) {
        if (separable) {
            finding_set(input->finding, OUTCOME_NOT_MEASURED, NO_FIGURE,
                        "no column was compared with how it told the classes apart before");
        }
        return !separable;
    }
    if (!section_number(&polarity, "cosine", &cosine)) {
        return false;
    }
    bool holds = cosine > 0;   // NaN is not
    if (!holds) {
        finding_set(input->finding, OUTCOME_FAIL, (Figure){cosine, 0, "cosine", columns},
                    "%lld columns tell the classes apart the other way round than in the live version's data "
                    "(cosine %.3g): the labels look swapped",
                    (long long)columns, cosine);
    }
    return holds;
}

bool judge_label(const Section *input, const Config *policy, const char *task, bool separable)
{
    bool binary = text_equal(task, "binary");
    return base_rate_holds(input, policy, !text_equal(task, "regression")) &&
           (!binary || polarity_holds(input, separable));
}

static bool read_range(const Section *split, const char *key, int64_t ret_range[static 2])
{
    const Json *range = NULL;
    if (!section_array(split, key, &range)) {
        return false;
    }
    for (size_t i = 0; i < 2; i++) {
        ret_range[i] = json_integer_or(json_at(range, i), -1);
    }
    bool sound = json_count(range) == 2 && ret_range[0] >= 0 && ret_range[1] >= ret_range[0];
    if (!sound) {
        finding_set(split->finding, OUTCOME_ERROR, NO_FIGURE, "'%s.%s' is not a first and a last record",
                    split->name, key);
    }
    return sound;
}

bool judge_split(const Section *input, const Config *policy)
{
    Section split;
    const char *method = NULL;
    int64_t train[2], validation[2], test[2];
    if (!section_child(input, "split", "input.split", &split) || !section_text(&split, "method", &method) ||
        !read_range(&split, "train", train) || !read_range(&split, "validation", validation) ||
        !read_range(&split, "test", test)) {
        return false;
    }
    const char *declared = config_text(policy, "split.method");
    if (!text_equal(method, declared)) {
        finding_set(input->finding, OUTCOME_ERROR, NO_FIGURE,
                    "rows were split by '%.20s', declared is '%.20s'", method, declared);
        return false;
    }
    bool in_order = train[1] < validation[0] && validation[1] < test[0];
    if (text_equal(method, "time") && !in_order) {
        finding_set(
            input->finding, OUTCOME_FAIL, (Figure){(double)train[1], (double)test[0], "records", 1},
            "a split by time, yet training ends at record %lld, validation at %lld, and test begins at "
            "%lld",
            (long long)train[1], (long long)validation[1], (long long)test[0]);
        return false;
    }
    return true;
}
