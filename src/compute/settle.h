// settle - the decision on one optimizer step, as plain arithmetic on its state, for any back end.
//
// The dynamic loss scale follows Megatron's rule: `patience` counts skipped steps down from `hysteresis` and
// is restored only when the scale grows; a skip that brings it to 0, and each one after, lowers the scale. So
// hysteresis 1 lowers at every skip and 2 forgives one.
#ifndef FEDGATE_COMPUTE_SETTLE_H
#define FEDGATE_COMPUTE_SETTLE_H

#include <fedgate/backend_abi.h>
#include <math.h>

#ifdef __CUDACC__
#define SETTLE static __host__ __device__ inline
#else
#define SETTLE static inline
#endif

SETTLE void settle_skip(const FedgateSettle *op)
{
    FedgateStepState *state = op->state;
    state->apply = 0;
    state->factor = 0;
    state->clean = 0;
    state->skipped++;
    state->in_row++;
    if (state->in_row > state->longest)
        state->longest = state->in_row;
    if (state->patience > 0)
        state->patience--;
    if (state->scale <= op->floor)
        state->at_floor++;
    else if (state->patience == 0) {
        double lower = state->scale * op->backoff;
        state->scale = lower > op->floor ? lower : op->floor;
        state->lowered++;
    }
}

SETTLE void settle_apply(const FedgateSettle *op)
{
    FedgateStepState *state = op->state;
    state->apply = 1;
    state->factor = (op->clip > 0 && state->norm > op->clip ? op->clip / state->norm : 1) / state->scale;
    state->pace = state->applied++;
    state->in_row = 0;
    state->clean++;
    if (!op->dynamic || op->growth_every <= 0 || state->clean < op->growth_every)
        return;
    state->clean = 0;
    state->patience = op->hysteresis;
    double higher = state->scale * op->growth;
    higher = higher < op->ceiling ? higher : op->ceiling;
    if (higher > state->scale) {
        state->scale = higher;
        state->grown++;
    }
}

SETTLE void settle_step(const FedgateSettle *op)
{
    FedgateStepState *state = op->state;
    state->attempted++;
    state->norm = sqrt(*op->square_sum) / state->scale;
    if (op->dynamic && !isfinite(*op->square_sum))
        settle_skip(op);
    else
        settle_apply(op);
    if (state->scale < state->smallest)
        state->smallest = state->scale;
}

#endif
