// selftest_parity - planted bad candidates for the parity ladder: what half precision, or a comparison with
// it, does wrong, each at its place in tonight's own evidence.
#include "parity_internal.h"
#include "selftest_internal.h"

#include <fedgate/text.h>

static Json *member(Json *object, const char *key)
{
    return (Json *)(uintptr_t)json_get(object, key);   // ours: the variant is a copy
}

// `change` every object of the array parity.<section>[.<inner>]; none is there: nothing was measured, which
// no judge lets pass.
static void each(Json *bad, const char *section, const char *inner, void (*change)(Json *entry))
{
    Json *at = member(selftest_open(bad, "parity", NULL), section);
    Json *array = inner == NULL ? at : member(at, inner);
    for (size_t i = 0; i < json_count(array); i++) {
        Json *entry = (Json *)(uintptr_t)json_at(array, i);
        if (json_is_object(entry)) {
            change(entry);
        }
    }
}

// -- rung 1, of FP32 nights too

static void plant_probes(Json *bad, size_t count, double error, double limit)
{
    static const char *const names[] = {"layer", "long reduction"};
    Json *probes = json_make_array();
    for (size_t i = 0; i < count; i++) {
        Json *probe = json_make_object();
        json_put_text(probe, "name", names[i]);
        json_put_text(probe, "shape", "1x1x1");
        json_put_text(probe, "unit", "relative");
        json_put_number(probe, "error", error);
        json_put_number(probe, "limit", limit);
        json_add(probes, probe);
    }
    json_put(selftest_open(bad, "parity", NULL), "probes", probes);
}

static void nan_probe(Json *bad)
{
    plant_probes(bad, 2, NAN, 1e-5);
}

static void loose_probe(Json *bad)
{
    plant_probes(bad, 2, 5e-4, 1e-3);
}

static void one_probe(Json *bad)
{
    plant_probes(bad, 1, 1e-7, 1e-5);
}

// -- operations and gradients

static void swap_errors(Json *entry)
{
    double error = json_number_or(json_get(entry, "error"), 0);
    json_put_number(entry, "error", json_number_or(json_get(entry, "reference_error"), 0));
    json_put_number(entry, "reference_error", error);
}

static void swapped_arms(Json *bad)
{
    each(bad, "operations", NULL, swap_errors);
}

static void use_reference(Json *entry)
{
    json_put_number(entry, "error", json_number_or(json_get(entry, "reference_error"), 0));
}

static void never_half(Json *bad)
{
    each(bad, "operations", NULL, use_reference);
}

static void lose_half(Json *entry)
{
    if (text_starts_with(json_text_or(json_get(entry, "name"), ""), "loss sum")) {
        json_put_number(entry, "error", 0.5);
    }
}

static void loss_in_half(Json *bad)
{
    each(bad, "operations", NULL, lose_half);
}

static void plant_gradient(Json *bad, double error, double cosine, double reference_error)
{
    static const char *const places[] = {"start", "trained"};
    Json *gradients = json_make_array();
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        Json *tensor = json_make_object();
        json_put_text(tensor, "name", "planted");
        json_put_number(tensor, "norm", 1);
        json_put_number(tensor, "noise", 0);
        json_put_number(tensor, "error", error);
        json_put_number(tensor, "cosine", cosine);
        json_put_number(tensor, "reference_error", reference_error);
        Json *tensors = json_make_array();
        json_add(tensors, tensor);
        Json *gradient = json_make_object();
        json_put_text(gradient, "at", places[i]);
        json_put_integer(gradient, "step", 0);
        json_put_integer(gradient, "rows", 1);
        json_put(gradient, "tensors", tensors);
        json_add(gradients, gradient);
    }
    json_put(selftest_open(bad, "parity", NULL), "gradients", gradients);
}

static void nan_gradient(Json *bad)
{
    plant_gradient(bad, NAN, NAN, 1e-7);
}

static void wrong_gradient(Json *bad)
{
    plant_gradient(bad, 1.4, 0, 1e-7);
}

static void identical_arms(Json *bad)
{
    plant_gradient(bad, 0, 1, 1e-7);
}

static void rounded_reference(Json *bad)
{
    plant_gradient(bad, 0.02, 0.9999, 0.02);
}

static void no_error(Json *entry)
{
    json_put_number(entry, "error", 0);
}

static void blind_controls(Json *bad)
{
    each(bad, "controls", NULL, no_error);
}

// -- step and scale

static void round_masters(Json *entry)
{
    json_put_number(entry, "representable", 1);
}

static void no_master(Json *bad)
{
    each(bad, "step", NULL, round_masters);
}

static void shrink_moment(Json *entry)
{
    json_put_number(entry, "moment_ratio", 0x1p-16);
}

static void unscaled_twice(Json *bad)
{
    each(bad, "step", NULL, shrink_moment);
}

static void nothing_applied(Json *bad)
{
    Json *scale = selftest_open(bad, "parity", "scale");
    int64_t done = json_integer_or(json_get(scale, "attempted"), 0);
    json_put_integer(scale, "attempted", done);
    json_put_integer(scale, "skipped", done);
    json_put_integer(scale, "applied", 0);
    json_put_integer(scale, "schedule", 0);
}

// -- trajectory, metric, slices

static void missing_rung(Json *bad)
{
    json_remove(selftest_open(bad, "parity", NULL), "trajectory");
}

static void double_loss(Json *entry)
{
    Json *ratios = json_make_array();
    for (size_t i = 0; i < json_count(json_get(entry, "log_ratio")); i++) {
        json_add_number(ratios, 0.7);
    }
    if (text_equal(json_text_or(json_get(entry, "kind"), ""), "candidate")) {
        json_put(entry, "log_ratio", ratios);
    } else {
        json_free(ratios);
    }
}

static void other_course(Json *bad)
{
    each(bad, "trajectory", "pairs", double_loss);
}

static void same_value(Json *entry)
{
    json_put_number(entry, "reference", 0.75);
    json_put_number(entry, "candidate", 0.75);
}

static void flat_metric(Json *bad)
{
    each(bad, "metric", "pairs", same_value);
}

static void halve(Json *entry)
{
    json_put_number(entry, "candidate", 0.5 * json_number_or(json_get(entry, "reference"), 0));
}

static void worse_metric(Json *bad)
{
    each(bad, "metric", "pairs", halve);
}

static void same_seed(Json *entry)
{
    json_put_integer(entry, "seed", 1);
}

static void seed_twice(Json *bad)
{
    each(bad, "metric", "pairs", same_seed);
}

static void few_pairs(Json *bad)
{
    Json *metric = selftest_open(bad, "parity", "metric");
    Json *pairs = json_make_array();
    if (json_count(json_get(metric, "pairs")) > 0) {
        json_add(pairs, json_copy_deep(json_at(json_get(metric, "pairs"), 0)));
    }
    json_put(metric, "pairs", pairs);
}

static void nan_slice(Json *bad)
{
    Json *parity = selftest_open(bad, "parity", NULL);
    int64_t pairs = parity_pairs_tonight(bad, json_find(parity, "metric.pairs"));
    Json *slice = json_make_object();
    json_put_text(slice, "column", "planted");
    json_put_text(slice, "value", "planted");
    json_put_integer(slice, "rows", 1000);
    json_put_integer(slice, "positives", 500);
    json_put(slice, "reference", json_make_array());
    json_put(slice, "candidate", json_make_array());
    for (int64_t i = 0; i < pairs; i++) {
        json_add_number(member(slice, "reference"), 0.75);
        json_add_number(member(slice, "candidate"), NAN);
    }
    if (!json_is_array(json_get(parity, "slices"))) {
        json_put(parity, "slices", json_make_array());
    }
    json_add(member(parity, "slices"), slice);
}

const SelftestVariant selftest_of_parity[] = {
    {"parity.nan", "parity", nan_probe, false},
    {"parity.loose", "parity", loose_probe, false},
    {"parity.one_probe", "parity", one_probe, false},
    {"parity.swapped", "parity", swapped_arms, true},
    {"parity.never_half", "parity", never_half, true},
    {"parity.loss_in_half", "parity", loss_in_half, true},
    {"parity.nan_gradient", "parity", nan_gradient, true},
    {"parity.wrong_gradient", "parity", wrong_gradient, true},
    {"parity.identical", "parity", identical_arms, true},
    {"parity.rounded_reference", "parity", rounded_reference, true},
    {"parity.blind", "parity", blind_controls, true},
    {"parity.no_master", "parity", no_master, true},
    {"parity.unscaled_twice", "parity", unscaled_twice, true},
    {"parity.nothing_applied", "parity", nothing_applied, true},
    {"parity.missing_rung", "parity", missing_rung, true},
    {"parity.other_course", "parity", other_course, true},
    {"parity.flat_metric", "parity", flat_metric, true},
    {"parity.worse_metric", "parity", worse_metric, true},
    {"parity.seed_twice", "parity", seed_twice, true},
    {"parity.few_pairs", "parity", few_pairs, true},
    {"parity.nan_slice", "parity", nan_slice, true},
};

const size_t selftest_of_parity_count = sizeof selftest_of_parity / sizeof selftest_of_parity[0];
