// parity_gradients - rung 3: the gradient of each tensor, at the start and at the trained candidate.
//
// Three comparisons: half arm against FP32 arm, FP32 arm against float64, and two that must fail. A tensor
// whose gradient is 0 in both arms (a unit that is off, a category not in the batch) is counted, not
// compared. Where the rows of a batch cancel, the gradient left is smaller than the noise of rows that have
// nothing in common: an error counts by the larger of both, and what is left has no direction to compare.
#include "parity_internal.h"

#include <fedgate/text.h>

// What all tensors of one checkpoint say together.
typedef struct Checkpoint {
    const char *at;
    double *errors, *counted, *reference_errors;   // of the tensors compared; counted: by the noise
    size_t compared;
    bool differ;   // somewhere, the two arms
    bool undirected;   // a gradient inside its noise errs beyond the bar: nothing is known of its direction
    double furthest;   // largest |error / reference_error - 1|
    double least;   // smallest error, noise counted
    double square, of_square;   // of all differences and all gradients
} Checkpoint;

static const double NOISE_COUNTS = 2;   // times the gradient, where all tensors are taken together

typedef struct Tensor {
    const char *name;
    double norm, noise, error, cosine, reference;
} Tensor;

static bool impossible(const Section *list, const Tensor *t)
{
    double sine = sqrt(fmax(0, 1 - t->cosine * t->cosine));
    double least = t->cosine > 0 || isnan(t->cosine) ? sine : 1;   // no vector at this angle is nearer
    bool wrong = fabs(t->cosine) > 1 + 1e-9 ||
                 t->error < least * (1 - 1e-6) - 1e-6;   // a sine keeps half of the digits
    if (wrong) {
        finding_set(list->finding, OUTCOME_ERROR, NO_FIGURE,
                    "gradient of '%.60s' is impossible: error %g at cosine %g", t->name, t->error, t->cosine);
    }
    return wrong;
}

static bool read_tensor(const Section *list, const Json *item, Tensor *ret)
{
    Section tensor;
    *ret = (Tensor){.cosine = 1};
    if (!section_inside(list, item, &tensor) || !section_text(&tensor, "name", &ret->name) ||
        !ladder_error(&tensor, "norm", &ret->norm) || !section_amount(&tensor, "noise", &ret->noise) ||
        !ladder_error(&tensor, "error", &ret->error) ||
        !ladder_error(&tensor, "reference_error", &ret->reference)) {
        return false;
    }
    if (ret->norm == 0) {
        return true;   // no direction: cosine is not asked for
    }
    return section_number(&tensor, "cosine", &ret->cosine) && !impossible(list, ret);
}

static void see_tensor(Ladder *ladder, const Tensor *t, Checkpoint *checkpoint)
{
    if (t->norm == 0 && t->error == 0) {
        return;
    }
    bool sound = isfinite(t->norm) && t->norm > 0;   // no error is relative to another norm
    double error = sound ? t->error * (t->norm / fmax(t->norm, t->noise)) : NAN;
    bar_see(ladder, BAR_GRADIENT, error, bar_limit(ladder, BAR_GRADIENT), t->name, checkpoint->at);
    if (!(t->norm < t->noise) && t->norm != 0) {
        bar_see(ladder, BAR_COSINE, 1 - t->cosine, bar_limit(ladder, BAR_COSINE), t->name, checkpoint->at);
    } else if (!(error <= bar_limit(ladder, BAR_GRADIENT))) {
        checkpoint->undirected = true;
    }
    bar_see(ladder, BAR_GRADIENT_REFERENCE, t->reference, bar_limit(ladder, BAR_GRADIENT_REFERENCE), t->name,
            checkpoint->at);
    checkpoint->errors[checkpoint->compared] = t->error;
    checkpoint->counted[checkpoint->compared] = error;
    if (!isnan(checkpoint->least) && !(error > checkpoint->least)) {   // one that is not a number stays
        checkpoint->least = error;
    }
    double size = fmax(t->norm, fmin(t->noise, NOISE_COUNTS * t->norm));
    checkpoint->square += t->error * t->error * t->norm * t->norm;
    checkpoint->of_square += size * size;
    checkpoint->reference_errors[checkpoint->compared++] = t->reference;
    checkpoint->differ = checkpoint->differ || t->error != 0;
    checkpoint->furthest = fmax(checkpoint->furthest, fabs(t->error / t->reference - 1));
}

// One checkpoint as a whole: is the reference FP32, and were two arms compared at all?
static void judge_checkpoint(Ladder *ladder, const Section *list, const Checkpoint *c)
{
    if (c->compared == 0) {
        finding_set(list->finding, OUTCOME_NOT_MEASURED, NO_FIGURE, "no gradient at %.20s differs from 0",
                    c->at);
        return;
    }
    double median = stats_quantile(c->reference_errors, c->compared, 0.5);
    bar_see(ladder, BAR_GRADIENT_REFERENCE_MEDIAN, median, bar_limit(ladder, BAR_GRADIENT_REFERENCE_MEDIAN),
            "", c->at);
    bar_see(ladder, BAR_GRADIENT_MEDIAN, stats_quantile(c->counted, c->compared, 0.5),
            bar_limit(ladder, BAR_GRADIENT_MEDIAN), "", c->at);
    bar_see(ladder, BAR_GRADIENT_EXACT, stats_quantile(c->errors, c->compared, 0.5),
            bar_limit(ladder, BAR_GRADIENT_EXACT), "", c->at);
    bar_see(ladder, BAR_GRADIENT_LEAST, c->least, bar_limit(ladder, BAR_GRADIENT_LEAST), "", c->at);
    bar_see(ladder, BAR_GRADIENT_WHOLE, sqrt(c->square / c->of_square), bar_limit(ladder, BAR_GRADIENT_WHOLE),
            "", c->at);
    bool coarse = !(median <= bar_limit(ladder, BAR_GRADIENT_REFERENCE_MEDIAN));
    const double same = 0.01;   // an FP32 arm and float64 are the same seen from half precision
    if (!c->differ) {
        bar_name_cause(ladder, BAR_GRADIENT,
                       "both arms give the same gradient to the last bit at %.20s: nothing was compared",
                       c->at);
    } else if (coarse && isfinite(median) && c->furthest <= same) {
        bar_name_cause(
            ladder, BAR_GRADIENT_REFERENCE_MEDIAN,
            "the arms are swapped: at %.20s the reference errs by %.3g from float64, at most %.3g, and "
            "the half arm lies where float64 does",
            c->at, median, bar_limit(ladder, BAR_GRADIENT_REFERENCE_MEDIAN));
    } else if (coarse && isfinite(median)) {
        bar_name_cause(
            ladder, BAR_GRADIENT_REFERENCE_MEDIAN,
            "the reference is not FP32: its gradients at %.20s err by %.3g from float64, at most %.3g", c->at,
            median, bar_limit(ladder, BAR_GRADIENT_REFERENCE_MEDIAN));
    } else if (median == 0) {   // FP32 rounds somewhere
        finding_set(list->finding, OUTCOME_NOT_MEASURED, NO_FIGURE,
                    "the FP32 gradient at %.20s errs by exactly 0 from float64: it was not compared", c->at);
    }
}

static bool measure_checkpoint(Ladder *ladder, const Section *list, const Json *item, const char **ret_at,
                               bool *undirected)
{
    Section gradient;
    const Json *tensors = NULL;
    int64_t step = 0;
    int64_t rows = 0;
    if (!section_inside(list, item, &gradient) || !section_text(&gradient, "at", ret_at) ||
        !section_count(&gradient, "step", &step) || !section_count(&gradient, "rows", &rows) ||
        !section_array(&gradient, "tensors", &tensors) ||
        !section_distinct(&gradient, tensors, "name", NULL)) {
        return false;
    }
    if (rows == 0) {
        finding_set(list->finding, OUTCOME_NOT_MEASURED, NO_FIGURE, "the gradient at %.20s is of no rows",
                    *ret_at);
        return false;
    }
    size_t count = json_count(tensors);
    Checkpoint checkpoint = {.at = *ret_at,
                             .errors = section_scratch(list, count),
                             .counted = section_scratch(list, count),
                             .reference_errors = section_scratch(list, count),
                             .least = INFINITY};
    if (checkpoint.errors == NULL || checkpoint.counted == NULL || checkpoint.reference_errors == NULL) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        Tensor tensor;
        if (!read_tensor(list, json_at(tensors, i), &tensor)) {
            return false;
        }
        see_tensor(ladder, &tensor, &checkpoint);
    }
    judge_checkpoint(ladder, list, &checkpoint);
    *undirected = *undirected || checkpoint.undirected;
    return list->finding->outcome == OUTCOME_PASS;
}

static bool measure_controls(Ladder *ladder, const Section *parity)
{
    static const char *const wanted[] = {"shuffled gradient", "zeroed gradient"};
    bool found[2] = {false, false};
    const Json *controls = NULL;
    Section list;
    if (!ladder_list(parity, "controls", "parity.controls", &controls, &list) ||
        !section_distinct(&list, controls, "name", NULL)) {
        return false;
    }
    for (size_t i = 0; i < json_count(controls); i++) {
        Section control;
        const char *name = NULL;
        double error = NAN;
        if (!section_inside(&list, json_at(controls, i), &control) ||
            !section_text(&control, "name", &name) || !section_number(&control, "error", &error)) {
            return false;
        }
        double bar = bar_limit(ladder, BAR_GRADIENT);
        if (!(isfinite(error) && error > bar)) {
            finding_set(parity->finding, OUTCOME_ERROR, (Figure){error, bar, "relative", 1},
                        "the comparison cannot fail: control '%.60s' errs by %.3g, more than %.3g expected",
                        name, error, bar);
            return false;
        }
        found[0] = found[0] || text_equal(name, wanted[0]);
        found[1] = found[1] || text_equal(name, wanted[1]);
    }
    if (!found[0] || !found[1]) {
        finding_set(parity->finding, OUTCOME_NOT_MEASURED, NO_FIGURE,
                    "control '%s' is missing: nothing shows that the comparison can fail",
                    found[0] ? wanted[1] : wanted[0]);
        return false;
    }
    return true;
}

// The direction held and the length did not: a factor, not noise.
static void name_scale(Ladder *ladder)
{
    const Reading *error = &ladder->readings[BAR_GRADIENT];
    bool straight = bar_broken(ladder, BAR_GRADIENT) && !bar_broken(ladder, BAR_COSINE);
    if (straight && isfinite(error->value)) {
        bar_name_cause(
            ladder, BAR_GRADIENT,
            "gradient of '%.40s' %.20s has the right direction and the wrong length: error %.5g, at most "
            "%.3g; a loss scale taken out twice or not at all does that",
            error->worst, error->at, error->value, error->limit);
    }
}

// Both arrays hold the same names, as often as they hold names at all.
static bool same_names(const Section *list, const Json *a, const Json *b, const char *where)
{
    size_t found = 0;
    for (size_t i = 0; i < json_count(a); i++) {
        for (size_t k = 0; k < json_count(b); k++) {
            found += text_equal(json_text_or(json_get(json_at(a, i), "name"), ""),
                                json_text_or(json_get(json_at(b, k), "name"), ""));
        }
    }
    bool same = found == json_count(a) && found == json_count(b);
    if (!same) {
        finding_set(list->finding, OUTCOME_ERROR, NO_FIGURE,
                    "gradients of %zu tensors at the start and %zu %s, %zu of the same names", json_count(a),
                    json_count(b), where, found);
    }
    return same;
}

// Every tensor of the model at every place: one left out is one that may be wrong.
static bool all_tensors(const Ladder *ladder, const Section *list, const Json *gradients)
{
    const Json *first = json_get(json_at(gradients, 0), "tensors");
    const Json *replayed =
        json_get(json_at(json_find(ladder->evidence, "determinism.replays"), 0), "tensors");
    for (size_t i = 1; i < json_count(gradients); i++) {
        const Json *other = json_at(gradients, i);
        if (!same_names(list, first, json_get(other, "tensors"), json_text_or(json_get(other, "at"), ""))) {
            return false;
        }
    }
    return replayed == NULL || same_names(list, first, replayed, "replayed");
}

static bool direction_seen(const Ladder *ladder, const Section *parity)
{
    if (ladder->readings[BAR_COSINE].n == 0) {
        finding_set(parity->finding, OUTCOME_NOT_MEASURED, NO_FIGURE,
                    "every gradient is smaller than its noise: no direction was compared");
    }
    return ladder->readings[BAR_COSINE].n > 0;
}

void rung_gradients(Ladder *ladder, const Section *parity)
{
    static const char *const wanted[] = {"start", "trained"};
    bool found[2] = {false, false};
    bool undirected = false;
    const Json *gradients = NULL;
    Section list;
    if (!ladder_list(parity, "gradients", "parity.gradients", &gradients, &list) ||
        !section_distinct(&list, gradients, "at", NULL)) {
        return;
    }
    for (size_t i = 0; i < json_count(gradients); i++) {
        const char *at = NULL;
        if (!measure_checkpoint(ladder, &list, json_at(gradients, i), &at, &undirected)) {
            return;
        }
        found[0] = found[0] || text_equal(at, wanted[0]);
        found[1] = found[1] || text_equal(at, wanted[1]);
    }
    if (!undirected) {
        name_scale(ladder);
    }
    if (found[0] && found[1]) {
        if (measure_controls(ladder, parity) && all_tensors(ladder, &list, gradients) &&
            direction_seen(ladder, parity)) {
            sound_gradients(ladder, &list, gradients);
        }
    } else if (parity->finding->outcome == OUTCOME_PASS) {
        finding_set(parity->finding, OUTCOME_NOT_MEASURED, NO_FIGURE, "gradients at '%s' were not compared",
                    found[0] ? wanted[1] : wanted[0]);
    }
}
