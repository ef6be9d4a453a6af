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

// -- accounts.c
int64_t plan_input_width(const PlanShape *shape);   // numeric inputs and embeddings of one sample
int64_t plan_weights(const PlanShape *shape);   // numbers in matrices, biases and embeddings
// A sample's: inputs, hidden layers, logits.
int64_t plan_block_bytes(const PlanShape *shape, size_t block);
typedef struct PlanPadding {   // bytes that arrays inside one allocation are rounded up by
    int64_t own, reference;
} PlanPadding;
PlanPadding plan_padding(const PlanShape *shape, int64_t microbatch);
PlanPadding plan_most_padding(const PlanShape *shape);   // for whatever microbatch
void plan_add_account(MemoryPlan *plan, PlanAccount account);   // its bytes and their sum; not of 0 bytes
void plan_add_declared(MemoryPlan *plan, const char *name, int64_t bytes, bool per_sample);
// resident: all validation rows stay on the device.
void plan_add_state(MemoryPlan *plan, const PlanShape *shape, bool resident, PlanPadding padding);
void plan_add_per_sample(MemoryPlan *plan, const PlanShape *shape, bool resident);
int64_t plan_aligned(int64_t bytes);   // up to a cache line, as arrays inside one allocation are cut
int64_t plan_row_bytes(const PlanShape *shape);   // one row of a table on the device

// -- feeding.c: rows on their way, and what belongs to the device itself. plan->batch is set.
void plan_add_feeding(MemoryPlan *plan, const PlanShape *shape, int64_t slots, int64_t prefetch);
void plan_add_device(MemoryPlan *plan, const PlanDevice *device, int64_t slots);
// Last: what pieces of an arena are rounded up by, at most; of the device's memory and of pinned memory.
void plan_add_rounding(MemoryPlan *plan, int64_t granule_bytes);

// -- figures.c

enum { FIGURE_SIZE = 48 };
// "21.6 GB", "0.34 GB", "532 B": every digit.
void plan_exact_bytes(char to[static FIGURE_SIZE], int64_t bytes);
// "21.90 GB": two decimals, half away from zero.
void plan_round_bytes(char to[static FIGURE_SIZE], int64_t bytes);
// Rounded, or exact where rounding would hide on which side of the limit it is.
void plan_compared_bytes(char to[static FIGURE_SIZE], int64_t bytes, int64_t limit);
void plan_number(char to[static FIGURE_SIZE], double value);   // six digits: "206.25", "unknown" for 0
void plan_rate(char to[static FIGURE_SIZE], double value, const char *unit);   // "122.88 TFLOP/s"

// -- lines.c: a plan as lines, each the result of a formula over terms; figures are exact, so that two plans
// differ where their figures do
enum { PLAN_LINES = 96, PLAN_TERMS = PLAN_ACCOUNTS, LINE_SIZE = 40 };
typedef struct PlanTerm {
    char name[LINE_SIZE], figure[FIGURE_SIZE];
} PlanTerm;
typedef struct PlanLine {
    char name[LINE_SIZE];
    const char *unit;   // "bytes", "samples"; "" a text
    double value;   // NAN: a text, or unknown
    char figure[sizeof((MemoryPlan){0}.refusal) + 16];
    const char *formula;   // %1 to %9 stand for terms; "sum" of all terms; "" an input
    PlanTerm terms[PLAN_TERMS];
    size_t term_count;
} PlanLine;
typedef struct PlanLines {
    PlanLine at[PLAN_LINES];
    size_t count;
} PlanLines;
void plan_to_lines(const NightPlan *plan, const Config *config, PlanLines *ret_lines);
const PlanLine *plan_find_line(const PlanLines *lines, const char *name);   // NULL: not in this plan
// The formula with the names, or with the figures, of its terms; false when there is nothing to put in.
bool plan_write_formula(const PlanLine *line, bool figures, Text *out);

#endif
