// parity_step - rung 4: one optimizer step of both arms from the same FP32 state, and how the loss scale of
// the whole training fared.
#include "parity_internal.h"

#include <fedgate/text.h>

typedef struct Step {
    const char *at;
    double update_error, moved, moved_reference, moment_ratio, representable;
    double scale_before, scale_after, scale_expected;
    bool applied;
} Step;

static bool read_step(const Section *list, const Json *item, Step *ret)
{
    Section step;
    int64_t number = 0;
    return section_inside(list, item, &step) && section_text(&step, "at", &ret->at) &&
           section_count(&step, "step", &number) && ladder_error(&step, "update_error", &ret->update_error) &&
           ladder_error(&step, "moved", &ret->moved) &&
           ladder_error(&step, "moved_reference", &ret->moved_reference) &&
           ladder_error(&step, "moment_ratio", &ret->moment_ratio) &&
           ladder_error(&step, "representable", &ret->representable) &&
           ladder_error(&step, "scale_before", &ret->scale_before) &&
           ladder_error(&step, "scale_after", &ret->scale_after) &&
           ladder_error(&step, "scale_expected", &ret->scale_expected) &&
           section_bool(&step, "applied", &ret->applied);
}

static bool possible(const Section *list, const Step *s)
{
    bool shares = !(s->moved > 1) && !(s->moved_reference > 1) && !(s->representable > 1);
    bool sound = shares && s->moved_reference != 0 && s->scale_before != 0 && s->scale_expected != 0;
    if (!sound) {
        finding_set(
            list->finding, OUTCOME_ERROR, NO_FIGURE,
            "step at '%.20s' is impossible: %g of the weights moved, %g in the reference, %g exact in half, "
            "scale %g, expected %g",
            s->at, s->moved, s->moved_reference, s->representable, s->scale_before, s->scale_expected);
    }
    return sound;
}

static void see_step(Ladder *ladder, const Step *s)
{
    bar_see(ladder, BAR_UPDATE, s->update_error, bar_limit(ladder, BAR_UPDATE), "", s->at);
    bar_see(ladder, BAR_UPDATE_EXACT, s->update_error, bar_limit(ladder, BAR_UPDATE_EXACT), "", s->at);
    bar_see(ladder, BAR_MOVED, fabs(s->moved - s->moved_reference), bar_limit(ladder, BAR_MOVED), "", s->at);
    bar_see(ladder, BAR_MOMENT, fabs(s->moment_ratio - 1), bar_limit(ladder, BAR_MOMENT), "", s->at);
    bar_see(ladder, BAR_MASTER, s->representable, bar_limit(ladder, BAR_MASTER), "", s->at);
    bar_see(ladder, BAR_SCALE_STATE, fabs(log2(s->scale_after / s->scale_expected)),
            bar_limit(ladder, BAR_SCALE_STATE), "", s->at);
}

// A factor of 2^k in the first moment is a loss scale at the wrong place.
static bool name_factor(Ladder *ladder, const Step *s)
{
    const double near = 0.25;   // doublings; noise is far below, a clip is rarely a power of two
    double doublings = log2(s->moment_ratio);
    double power = nearbyint(doublings);
    if (!isfinite(doublings) || fabs(doublings - power) > near || power == 0) {
        return false;
    }
    double scale = nearbyint(log2(s->scale_before));
    const char *cause = power == -scale  ? "gradients were unscaled twice"
                        : power == scale ? "gradients were not unscaled"
                                         : "gradients have a wrong scale";
    bar_name_cause(ladder, BAR_MOMENT,
                   "%s: at %.20s they reach the optimizer 2^%.0f times as large as in FP32, scale %g", cause,
                   s->at, power, s->scale_before);
    return true;
}

static void name_cause(Ladder *ladder, const Step *s)
{
    if (!s->applied) {
        finding_set(&ladder->findings[RUNG_STEP], OUTCOME_FAIL, (Figure){0, 1, "steps", 1},
                    "the step at '%.20s' was skipped at loss scale %g: its gradients are not finite", s->at,
                    s->scale_before);
        ladder->named[RUNG_STEP] = true;
    } else if (!(s->representable <= bar_limit(ladder, BAR_MASTER)) && isfinite(s->representable)) {
        bar_name_cause(
            ladder, BAR_MASTER,
            "no FP32 master weights: at %.20s %.2f %% of them are exact %s values, at most %.0f %%; "
            "small updates are rounded away",
            s->at, s->representable * 100, ladder->precision, bar_limit(ladder, BAR_MASTER) * 100);
    } else if (!(fabs(s->moment_ratio - 1) <= bar_limit(ladder, BAR_MOMENT)) && name_factor(ladder, s)) {
        return;
    } else if (s->scale_after != s->scale_expected && isfinite(s->scale_after)) {
        bar_name_cause(ladder, BAR_SCALE_STATE,
                       "the loss scale went from %g to %g at %.20s, its rule says %g", s->scale_before,
                       s->scale_after, s->at, s->scale_expected);
    }
}

void rung_step(Ladder *ladder, const Section *parity)
{
    static const char *const wanted[] = {"start", "trained", "growth"};
    // Only a scale that grows must be seen to.
    bool fixed = !json_bool_or(json_find(ladder->evidence, "parity.scale.grows"), true);
    bool found[3] = {false, false, ladder->half != HALF_FP16 || fixed};
    const Json *steps = NULL;
    Section list;
    if (!ladder_list(parity, "step", "parity.step", &steps, &list) ||
        !section_distinct(&list, steps, "at", NULL)) {
        return;
    }
    for (size_t i = 0; i < json_count(steps); i++) {
        Step step;
        if (!read_step(&list, json_at(steps, i), &step) || !possible(&list, &step)) {
            return;
        }
        see_step(ladder, &step);
        if (!ladder->named[RUNG_STEP]) {
            name_cause(ladder, &step);
        }
        for (size_t k = 0; k < 3; k++) {
            found[k] = found[k] || text_equal(step.at, wanted[k]);
        }
    }
    for (size_t k = 0; k < 3 && parity->finding->outcome == OUTCOME_PASS; k++) {
        if (!found[k]) {
            finding_set(parity->finding, OUTCOME_NOT_MEASURED, NO_FIGURE, "no step was compared at '%s'",
                        wanted[k]);
        }
    }
    sound_step(ladder, &list, steps);
}

// -- the loss scale of the training

static bool read_scale(const Section *parity, ScaleCourse *ret)
{
    Section scale;
    return section_child(parity, "scale", "parity.scale", &scale) &&
           section_amount(&scale, "initial", &ret->initial) && section_amount(&scale, "final", &ret->final) &&
           section_amount(&scale, "smallest", &ret->smallest) &&
           section_count(&scale, "attempted", &ret->attempted) &&
           section_count(&scale, "applied", &ret->applied) &&
           section_count(&scale, "skipped", &ret->skipped) &&
           section_count(&scale, "schedule", &ret->schedule) &&
           section_count(&scale, "at_floor", &ret->at_floor) && section_count(&scale, "grown", &ret->grown) &&
           section_count(&scale, "lowered", &ret->lowered) &&
           section_count(&scale, "longest", &ret->longest) &&
           section_count(&scale, "bad_losses", &ret->bad_losses) &&
           section_bool(&scale, "grows", &ret->grows) && section_bool(&scale, "stopped", &ret->stopped);
}

static bool scale_possible(const Section *parity, const ScaleCourse *s)
{
    if (s->attempted != s->applied + s->skipped) {
        finding_set(parity->finding, OUTCOME_ERROR, NO_FIGURE,
                    "'parity.scale' does not add up: %lld steps attempted, %lld applied and %lld skipped",
                    (long long)s->attempted, (long long)s->applied, (long long)s->skipped);
        return false;
    }
    bool sound = s->smallest >= 1 && s->initial >= s->smallest && s->final >= s->smallest;
    if (sound && !s->grows && (s->grown > 0 || s->final > s->initial)) {
        finding_set(
            parity->finding, OUTCOME_ERROR, NO_FIGURE,
            "'parity.scale' says that the loss scale does not grow, and that it grew %lld times, from "
            "%g to %g",
            (long long)s->grown, s->initial, s->final);
        return false;
    }
    if (!sound) {
        finding_set(parity->finding, OUTCOME_ERROR, (Figure){s->smallest, 1, "", 1},
                    "a loss scale of %g is none: at least 1 and at most where it began (%g) and ended (%g)",
                    s->smallest, s->initial, s->final);
    }
    return sound;
}

// The scale is that of this training, and of the rule that the policy gives.
static bool scale_of_training(const Ladder *ladder, const Section *parity, const ScaleCourse *s)
{
    Section window;
    int64_t done = 0;
    if (!section_open(ladder->evidence, "window", parity->judge, parity->finding, &window) ||
        !section_count(&window, "done_steps", &done)) {
        return false;
    }
    if (s->attempted != done) {
        finding_set(parity->finding, OUTCOME_ERROR, NO_FIGURE,
                    "'parity.scale' is of %lld steps, the training did %lld", (long long)s->attempted,
                    (long long)done);
        return false;
    }
    bool asked = ladder->half == HALF_FP16 && config_integer(ladder->policy, "train.scale_growth") > 0;
    if (s->grows != asked) {
        finding_set(parity->finding, OUTCOME_ERROR, NO_FIGURE,
                    "'parity.scale.grows' is %s, train.scale_growth in %s asks for %s",
                    s->grows ? "true" : "false", ladder->precision, asked ? "true" : "false");
    }
    return s->grows == asked;
}

static void name_scale_cause(Ladder *ladder, const ScaleCourse *s)
{
    if (s->applied == 0) {
        bar_name_cause(ladder, BAR_APPLIED, "0 of %lld steps applied: the loss scale fell from %g to %g",
                       (long long)s->attempted, s->initial, s->smallest);
    } else if (s->stopped) {
        bar_name_cause(
            ladder, BAR_APPLIED,
            "training stopped because step after step was skipped: %lld of %lld applied, loss scale %g",
            (long long)s->applied, (long long)s->attempted, s->final);
    } else if (s->bad_losses > 0) {
        bar_name_cause(ladder, BAR_LOSS_FINITE,
                       "the training loss was not a number in %lld reports: no loss scale cures that",
                       (long long)s->bad_losses);
    } else if (s->at_floor > 0) {
        bar_name_cause(
            ladder, BAR_AT_FLOOR,
            "%lld steps were skipped at the lowest loss scale (%g): the gradients themselves are not "
            "finite",
            (long long)s->at_floor, s->smallest);
    } else if (s->schedule != s->applied) {
        bar_name_cause(ladder, BAR_SCHEDULE,
                       "the learning rate went on for %lld steps, %lld were applied: skipped steps move it",
                       (long long)s->schedule, (long long)s->applied);
    }
}

void rung_scale(Ladder *ladder, const Section *parity)
{
    ScaleCourse s;
    if (!read_scale(parity, &s) || !scale_possible(parity, &s)) {
        return;
    }
    double off = fabs((double)(s.schedule - s.applied));
    bar_see(ladder, BAR_APPLIED, (double)s.applied, bar_limit(ladder, BAR_APPLIED), "", "");
    bar_see(ladder, BAR_SCHEDULE, off, bar_limit(ladder, BAR_SCHEDULE), "", "");
    bar_see(ladder, BAR_SKIPPED, s.attempted == 0 ? 0 : (double)s.skipped / (double)s.attempted,
            bar_limit(ladder, BAR_SKIPPED), "", "");
    bar_see(ladder, BAR_LOSS_FINITE, (double)s.bad_losses, bar_limit(ladder, BAR_LOSS_FINITE), "", "");
    bar_see(ladder, BAR_AT_FLOOR, (double)s.at_floor, bar_limit(ladder, BAR_AT_FLOOR), "", "");
    name_scale_cause(ladder, &s);
    if (parity->finding->outcome == OUTCOME_PASS) {
        if (scale_of_training(ladder, parity, &s)) {
            sound_scale(ladder, parity, &s);
        }
    }
}
