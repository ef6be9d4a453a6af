// selftest_model - planted bad models and releases: worse, copied, not a number, shifted, dear, unexplained.
#include "selftest_internal.h"

// Every pair gets the same spoiled member, and what it must agree with.
static void spoil_pairs(Json *bad, bool identical, double value, double difference)
{
    Json *quality = selftest_open(bad, "quality", NULL);
    Json *pairs = json_make_array();
    const char *const against[] = {"rule", "prior", "linear", "live"};
    for (size_t i = 0; i < sizeof against / sizeof against[0]; i++) {
        Json *pair = json_make_object();
        json_put_text(pair, "against", against[i]);
        json_put_number(pair, "value_a", value);
        json_put_number(pair, "value_b", 0.7);
        json_put_number(pair, "difference", difference);
        json_put_number(pair, "standard_error", 0);
        json_put_number(pair, "lower", difference);
        json_put_number(pair, "upper", difference);
        json_put_integer(pair, "rows", 1000);
        json_put_bool(pair, "identical", identical);
        json_put_bool(pair, "constant", false);
        json_put_number(pair, "utility_a", 0.1);
        json_put_number(pair, "utility_b", 0.1);
        json_put_number(pair, "utility_difference", 0);
        json_put_number(pair, "utility_standard_error", 0);
        Json *drawn = selftest_open(pair, "bootstrap", NULL);
        json_put_integer(drawn, "replicates", 1000);
        json_put_number(drawn, "lower", difference);
        json_put_number(drawn, "upper", difference);
        json_put_number(drawn, "utility_lower", 0);
        json_put_number(drawn, "utility_upper", 0);
        json_add(pairs, pair);
    }
    json_put_text(bad, "task", "binary");
    json_put_integer(quality, "rows", 1000);
    json_put_text(quality, "metric", "auc");
    json_put_text(quality, "live_kind", "none");
    json_put(quality, "pairs", pairs);
    json_remove(quality, "models");
    json_put_text(selftest_open(selftest_open(quality, "models", NULL), "candidate", NULL), "version",
                  json_text_or(json_get(bad, "version"), "planted"));
    json_remove(quality, "invalid");
    json_put(quality, "slices", json_make_array());
}

static void nan_metric(Json *bad)
{
    spoil_pairs(bad, false, NAN, NAN);
}

static void copy_of_baseline(Json *bad)
{
    spoil_pairs(bad, true, 0.7, 0);
}

static void no_better(Json *bad)
{
    spoil_pairs(bad, false, 0.7, 0);
}

// Tonight's own pairs, when the rows drawn again say that it was chance, or when decisions got worse.
static void chance(Json *pair)
{
    json_put_number(selftest_open(pair, "bootstrap", NULL), "lower", -1);
}

static void by_chance(Json *bad)
{
    selftest_each(selftest_open(bad, "quality", NULL), "pairs", chance);
}

static void worse(Json *pair)
{
    const double other = json_number_or(json_get(pair, "utility_b"), 0);
    json_put_number(pair, "utility_a", other - 1e6);
    json_put_number(pair, "utility_b", other);
    json_put_number(pair, "utility_difference", -1e6);
    json_put_number(pair, "utility_standard_error", 0);
    json_put_number(selftest_open(pair, "bootstrap", NULL), "utility_lower", -1e6);
    json_put_number(selftest_open(pair, "bootstrap", NULL), "utility_upper", -1e6);
}

static void worse_decisions(Json *bad)
{
    json_put_text(bad, "task", "binary");
    selftest_each(selftest_open(bad, "quality", NULL), "pairs", worse);
}

// One slice of the candidate is not a number, where its reference has a figure.
static void nan_slice(Json *bad)
{
    Json *slice = json_make_object();
    json_put_text(slice, "column", "planted");
    json_put_text(slice, "value", "planted");
    json_put_number(slice, "candidate", NAN);
    json_put_number(slice, "reference", 0.7);
    Json *slices = json_make_array();
    json_add(slices, slice);
    json_put(selftest_open(bad, "quality", NULL), "slices", slices);
}

static void shift_scores(Json *bad, double psi, double difference)
{
    Json *distribution = selftest_open(bad, "distribution", NULL);
    json_remove(bad, "quality");
    json_put_text(distribution, "live_kind", "release");
    json_put_text(distribution, "reference_version", "planted");
    json_put_integer(distribution, "rows", 1000);
    json_put_number(distribution, "psi", psi);
    json_put_number(distribution, "mean_difference", difference);
    json_put_number(distribution, "deviation", 1);
}

static void scores_moved(Json *bad)
{
    shift_scores(bad, 100, 100);
}

static void scores_unknown(Json *bad)
{
    shift_scores(bad, 0, NAN);
}

static void plant_latency(Json *bad, double p50_ns, double p99_ns)
{
    Json *latency = selftest_open(bad, "latency", NULL);
    json_put_integer(latency, "calls", 1000);
    json_put_integer(latency, "rows_per_call", 1);
    json_put_number(latency, "p50_ns", p50_ns);
    json_put_number(latency, "p99_ns", p99_ns);
}

static void slow_score(Json *bad)
{
    plant_latency(bad, 1e15, 1e15);
}

static void latency_unknown(Json *bad)
{
    plant_latency(bad, 1, NAN);
}

static void plant_cost(Json *bad, double device_seconds)
{
    Json *cost = selftest_open(bad, "cost", NULL);
    json_put_number(cost, "device_seconds", device_seconds);
    json_put_integer(cost, "samples", 1);
    json_put_number(cost, "rate_per_hour", 0);
    json_put_number(cost, "cost_per_sample", device_seconds);
}

static void dear_night(Json *bad)
{
    plant_cost(bad, 1e15);
}

static void cost_unknown(Json *bad)
{
    plant_cost(bad, NAN);
}

static void wrong_arithmetic(Json *bad)
{
    Json *formal = json_make_array(), *result = json_make_object();
    json_put_text(result, "name", "ledger: largest microbatch");
    json_put_number(result, "actual", 55);
    json_add(formal, result);
    json_put(selftest_open(bad, "release", NULL), "formal", formal);
}

static void rotten_fallback(Json *bad)
{
    json_put_bool(selftest_open(bad, "release", "fallback"), "verified", false);
}

static void leaking_column(Json *bad)
{
    Json *column = json_make_object();
    json_put_text(column, "name", "planted");
    json_put_text(column, "role", "numeric");
    json_put_bool(column, "constant", true);
    json_put_number(column, "missing_ratio", NAN);
    Json *columns = json_make_array();
    json_add(columns, column);
    json_put(selftest_open(bad, "input", NULL), "columns", columns);
}

static void is_name(Json *column)
{
    json_put_number(column, "distinct_ratio", 1);
    json_put_number(column, "order_ratio", 1);
}

static void names_rows(Json *bad)
{
    selftest_each(selftest_open(bad, "input", NULL), "columns", is_name);
}

static Json *two_shares(double one)
{
    Json *target = json_make_object(), *shares = json_make_array();
    json_put_number(target, "mean", one);
    json_put_number(target, "deviation", 0.1);
    json_add_number(shares, 1 - one);
    json_add_number(shares, one);
    json_put(target, "shares", shares);
    return target;
}

static void undrifted(Json *column)
{
    json_put_number(column, "drift_psi", 0);
}

// Tonight's own data beside a live version's from which only the label differs.
static void plant_label(Json *bad, double was, double cosine)
{
    Json *input = selftest_open(bad, "input", NULL), *target = two_shares(0.5);
    json_put_text(bad, "task", "binary");
    json_put_text(input, "reference_version", "planted");
    json_put(target, "reference", two_shares(was));
    json_put(input, "target", target);
    json_put_integer(selftest_open(input, "polarity", NULL), "columns", 3);
    json_put_number(selftest_open(input, "polarity", NULL), "cosine", cosine);
    selftest_each(input, "columns", undrifted);
}

static void labels_swapped(Json *bad)
{
    plant_label(bad, 0.5, -1);
}

static void other_base_rate(Json *bad)
{
    plant_label(bad, 0.0, 1);
}

static void split_otherwise(Json *bad)
{
    json_put_text(selftest_open(selftest_open(bad, "input", NULL), "split", NULL), "method", "planted");
}

static void rows_lost(Json *bad)
{
    Json *telemetry = selftest_open(bad, "telemetry", NULL);
    json_put_integer(telemetry, "rows", 100);
    json_put_integer(telemetry, "acknowledged", 99);
}

const SelftestVariant selftest_of_model[] = {
    {"quality.nan", "quality", nan_metric, false},
    {"quality.copy", "quality", copy_of_baseline, false},
    {"quality.no_better", "quality", no_better, false},
    {"quality.chance", "quality", by_chance, false},
    {"quality.decisions", "quality", worse_decisions, false},
    {"quality.slice", "quality", nan_slice, false},
    {"input.column", "input", leaking_column, false},
    {"input.names", "input", names_rows, false},
    {"input.swapped", "input", labels_swapped, false},
    {"input.base_rate", "input", other_base_rate, false},
    {"input.split", "input", split_otherwise, false},
    {"distribution.shift", "distribution", scores_moved, false},
    {"distribution.nan", "distribution", scores_unknown, false},
    {"cost.dear", "cost", dear_night, false},
    {"cost.nan", "cost", cost_unknown, false},
    {"latency.slow", "latency", slow_score, false},
    {"latency.nan", "latency", latency_unknown, false},
    {"rubric.formal", "rubric", wrong_arithmetic, false},
    {"rubric.fallback", "rubric", rotten_fallback, false},
    {"telemetry.lost", "telemetry", rows_lost, false},
};

const size_t selftest_of_model_count = sizeof selftest_of_model / sizeof selftest_of_model[0];
