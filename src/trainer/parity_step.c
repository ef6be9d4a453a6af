// parity_step - rung 4: one optimizer step of both arms from the same FP32 state, weights and moments, so
// that nothing but the arithmetic of the pass and the loss scale can tell them apart.
#include "parity_internal.h"

#include <math.h>
#include <string.h>

enum { SCALE_TRIES = 64 };   // from 2^24 down to 1, with the skips that are forgiven

typedef struct Outcome {
    double scale_before, scale_expected;
    bool applied;
    FedgateStepState after;
} Outcome;

static bool take_steps(Parity *parity, Arm arm, const ParityStep *step, const FedgateStepState *from,
                       Outcome *ret, Error *error)
{
    Network *network = parity->arm[arm];
    if (!network_load(network, step->state, from, error))
        return false;
    for (int64_t i = 0; i < step->steps; i++) {
        parity_gradient(parity, arm, &parity->recipe, &parity->batch, parity->trainer->seed);
        network_update(network, &parity->recipe);
    }
    if (!network_save(network, parity->state[arm], &ret->after, error))
        return false;
    ret->scale_before = from->scale;
    ret->applied = ret->after.applied == from->applied + step->steps;
    return true;
}

// What the rule itself makes of as many steps whose gradients are finite.
static double expected_scale(const Parity *parity, const Network *network, const ParityStep *step,
                             const FedgateStepState *from)
{
    FedgateStepState state = *from;
    double finite = 1;
    FedgateSettle rule = network_rule(network, &parity->recipe);
    rule.state = &state;
    rule.square_sum = &finite;
    for (int64_t i = 0; i < step->steps; i++)
        device_settle_on_host(&rule);
    return state.scale;
}

// A step that is skipped because the scale is still too high is taken again with the one that the skip left,
// as training does with its next batch.
static bool run_arm(Parity *parity, Arm arm, const ParityStep *step, Outcome *ret, Error *error)
{
    const Network *network = parity->arm[arm];
    FedgateStepState from = step->from;
    if (network->type != FEDGATE_FP16)
        from.scale = from.smallest = 1;
    for (int tries = 0; tries < SCALE_TRIES; tries++) {
        if (!take_steps(parity, arm, step, &from, ret, error))
            return false;
        ret->scale_expected = expected_scale(parity, network, step, &from);
        if (ret->applied || ret->after.at_floor > from.at_floor || step->steps > 1)
            break;
        from.scale = ret->after.scale;
        from.patience = ret->after.patience;
    }
    if (network->type == FEDGATE_FP16 && ret->applied && step->steps == 1)
        parity->scale = ret->scale_before;
    return true;
}

static bool is_value_of(FedgateType type, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (type == FEDGATE_BF16)
        return (bits & 0xffffu) == 0;
    double size = fabs((double)value);
    if (size < 0x1p-14)   // subnormal in FP16: multiples of 2^-24
        return size * 0x1p24 == floor(size * 0x1p24);
    return (bits & 0x1fffu) == 0 && size <= 65504;
}

static double change_norm(const float *after, const float *before, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        double change = (double)after[i] - (double)before[i];
        sum += change * change;
    }
    return sqrt(sum);
}

static double moved_share(const float *after, const float *before, int64_t count)
{
    int64_t moved = 0;
    for (int64_t i = 0; i < count; i++)
        moved += after[i] != before[i];
    return (double)moved / (double)count;
}

static double representable_share(FedgateType type, const float *weights, int64_t count)
{
    int64_t exact = 0;
    for (int64_t i = 0; i < count; i++)
        exact += is_value_of(type, weights[i]);
    return (double)exact / (double)count;
}

static Json *figures(const Parity *parity, const ParityStep *step, const Outcome *outcome)
{
    const int64_t floats = trainer_floats(parity->trainer);
    const float *half = parity->state[ARM_CANDIDATE], *reference = parity->state[ARM_REFERENCE],
                *before = step->state;
    Json *json = json_make_object();
    json_put_text(json, "at", step->at);
    json_put_integer(json, "step", step->step);
    // both updates begin at the same weights, so their difference is that of the weights
    json_put_number(json, "update_error",
                    change_norm(half, reference, floats) / change_norm(reference, before, floats));
    json_put_number(json, "moved", moved_share(half, before, floats));
    json_put_number(json, "moved_reference", moved_share(reference, before, floats));
    json_put_number(json, "moment_ratio",
                    change_norm(half + floats, before + floats, floats) /
                        change_norm(reference + floats, before + floats, floats));
    json_put_number(json, "representable", representable_share(parity->half, half, floats));
    json_put_number(json, "scale_before", outcome->scale_before);
    json_put_number(json, "scale_after", outcome->after.scale);
    json_put_number(json, "scale_expected", outcome->scale_expected);
    json_put_bool(json, "applied", outcome->applied);
    return json;
}

bool parity_step(Parity *parity, const ParityStep *step, Json *steps, Error *error)
{
    Outcome outcome, reference;
    if (!run_arm(parity, ARM_CANDIDATE, step, &outcome, error) ||
        !run_arm(parity, ARM_REFERENCE, step, &reference, error))
        return error_prefix(error, "step at '%s'", step->at);
    json_add(steps, figures(parity, step, &outcome));
    return true;
}
