// memory_internal.h - growth of memory, its cause, and when it would break the budget.
#ifndef FEDGATE_GATE_MEMORY_INTERNAL_H
#define FEDGATE_GATE_MEMORY_INTERNAL_H

#include "gate_internal.h"

typedef struct Growth {
    double bytes, a_step;   // from the first reading to the last
    bool grows;   // for certain, and so that it matters
    double breaks_at;   // step at which the budget would be passed; INFINITY: never
} Growth;
// bytes[count], count at least 3, read at the steps index[count].
Growth memory_growth(const double *bytes, const double *index, size_t count, double budget);
// "; the budget would break at step 4000", or "".
void memory_forecast(const Growth *growth, char ret_text[static 64]);
// False: something grows, or the series cannot be judged; the finding says it. ret_said: what a passing
// reason adds.
bool memory_causes(const Json *evidence, const Section *memory, double budget, double measured,
                   char ret_said[static 96]);
// "workspace" or "retained": which part of the live bytes it was that grew by so much.
const char *memory_growing_part(const Json *evidence, double growth);

#endif
