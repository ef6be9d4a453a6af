// plan_internal.h - what the files of this module share: saturating byte counts and figures in people's
// units.
#ifndef FEDGATE_PLAN_INTERNAL_H
#define FEDGATE_PLAN_INTERNAL_H

#include <fedgate/plan.h>

// Absurd options must end in "does not fit", never in a wrapped number.
int64_t plan_times(int64_t a, int64_t b);
int64_t plan_plus(int64_t a, int64_t b);

int64_t plan_peak_bytes(const MemoryPlan *plan, int64_t microbatch);   // state + microbatch x per_sample
// Cumulative bytes up to and with block `index` of `count` equal blocks.
int64_t plan_equal_blocks(int64_t bytes, size_t count, size_t index);
int64_t plan_input_width(const PlanShape *shape);   // numeric inputs and embeddings of one sample
int64_t plan_weights(const PlanShape *shape);   // numbers in matrices, biases and embeddings

enum { FIGURE_SIZE = 48 };
// "21.6 GB", "0.34 GB", "532 B": every digit.
void plan_exact_bytes(char to[static FIGURE_SIZE], int64_t bytes);
// "21.90 GB": two decimals, half away from zero.
void plan_round_bytes(char to[static FIGURE_SIZE], int64_t bytes);
// Rounded, or exact where rounding would hide on which side of the limit it is.
void plan_compared_bytes(char to[static FIGURE_SIZE], int64_t bytes, int64_t limit);
void plan_number(char to[static FIGURE_SIZE], double value);   // six digits: "206.25", "unknown" for 0
void plan_rate(char to[static FIGURE_SIZE], double value, const char *unit);   // "122.88 TFLOP/s"

#endif
