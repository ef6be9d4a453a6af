// plausible_internal.h - claims of work and time, shared by the two files of the judge `plausible`.
#ifndef FEDGATE_GATE_PLAUSIBLE_INTERNAL_H
#define FEDGATE_GATE_PLAUSIBLE_INTERNAL_H

#include "gate_internal.h"

#include <fedgate/plan.h>

typedef struct Claim {
    const char *name;
    double flop, bytes, time_ns, kernel_union_ns;
    int64_t count;
} Claim;

// Every claim's FLOP and bytes are those of the declared shape, which is the policy's; false, with the error,
// when one is not. ret_working_set: bytes that a step moves, so at most so many are in use at once.
bool work_follows(const Json *evidence, const Section *plausible, const Config *policy, const Claim *claims,
                  size_t count, double *ret_working_set);

#endif
