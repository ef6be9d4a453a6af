// parity_internal.h - the parity ladder: its rungs, their bars, and what each rung found.
//
// A rung reads its part of the evidence and shows every figure to a bar (`bar_see`), which keeps the worst
// one. What cannot be read, or proves nothing, goes into the rung's finding by the readers of section.c.
// Afterwards `ladder_settle` lets a bar that does not hold outrank what is missing behind it.
#ifndef FEDGATE_GATE_PARITY_INTERNAL_H
#define FEDGATE_GATE_PARITY_INTERNAL_H

#include "gate_internal.h"

#include <fedgate/stats.h>

typedef enum Rung {
    RUNG_REFERENCE,
    RUNG_OPERATIONS,
    RUNG_GRADIENTS,
    RUNG_STEP,
    RUNG_SCALE,
    RUNG_TRAJECTORY,
    RUNG_METRIC,
    RUNG_SLICES,
    RUNG_COUNT
} Rung;

typedef enum Half { HALF_BF16, HALF_FP16, HALF_COUNT } Half;

typedef enum Bar {
    BAR_PROBE,
    BAR_OPERATION,
    BAR_OPERATION_REFERENCE,
    BAR_OPERATION_HALF,
    BAR_OPERATION_EXACT,
    BAR_LOSS_SUM,
    BAR_GROWTH,
    BAR_GROWTH_HALF,
    BAR_GROWTH_SLOPE,
    BAR_GRADIENT,
    BAR_GRADIENT_MEDIAN,
    BAR_GRADIENT_LEAST,
    BAR_GRADIENT_WHOLE,
    BAR_GRADIENT_EXACT,
    BAR_COSINE,
    BAR_GRADIENT_REFERENCE,
    BAR_GRADIENT_REFERENCE_MEDIAN,
    BAR_UPDATE,
    BAR_UPDATE_EXACT,
    BAR_MOVED,
    BAR_MOMENT,
    BAR_MASTER,
    BAR_SCALE_STATE,
    BAR_APPLIED,
    BAR_SCHEDULE,
    BAR_SKIPPED,
    BAR_LOSS_FINITE,
    BAR_AT_FLOOR,
    BAR_TRAJECTORY,
    BAR_TRAJECTORY_MEAN,
    BAR_TRAJECTORY_BIAS,
    BAR_METRIC,
    BAR_TRAINED,
    BAR_SLICE,
    BAR_COUNT
} Bar;

typedef struct BarInfo {
    Rung rung;
    const char *name, *unit;
    bool least;   // the value must reach the limit; else it may not exceed it
    double limit[HALF_COUNT];   // NaN: comes with the evidence or from the policy
    const char *source;
} BarInfo;
extern const BarInfo parity_bars[BAR_COUNT];

// The worst figure that a bar has been shown.
typedef struct Reading {
    double value, limit;
    double used;   // share of what is allowed; above 1 the bar does not hold, infinite when no figure
    Outcome outcome;
    char worst[64], at[48];
    int64_t n;   // figures shown
} Reading;

typedef struct Ladder {
    const Json *evidence;
    const Config *policy;
    Arena *judge;
    const char *precision;   // "bf16"
    Half half;
    Reading readings[BAR_COUNT];
    Finding findings[RUNG_COUNT];
    bool named[RUNG_COUNT];   // the finding names a cause, not only a figure
    size_t pairs_needed;   // for the declared power at no difference; 0: not asked
    Json *slices;   // rows of the table, one a slice that can be told; NULL: nobody asks
    double resolved;   // the coarsest margin of those slices; 0: none
} Ladder;

// The loss scale of a whole training.
typedef struct ScaleCourse {
    double initial, final, smallest;
    int64_t attempted, applied, skipped, schedule, at_floor, grown, lowered, longest, bad_losses;
    bool grows, stopped;
} ScaleCourse;

// -- bars (parity_bars.c)
void bar_see(Ladder *ladder, Bar bar, double value, double limit, const char *worst, const char *at);
double bar_limit(const Ladder *ladder, Bar bar);
bool bar_broken(const Ladder *ladder, Bar bar);
// The rung fails by this bar, for a cause that is known.
void bar_name_cause(Ladder *ladder, Bar bar, const char *format, ...) PRINTF_LIKE(3, 4);
// "error of the gradient 'w1' trained": what a bar measures and where its worst figure is.
void bar_place(Bar bar, const Reading *reading, char *to, size_t size);
// The bar that does not hold by most becomes the finding, unless a fail stands there already.
void ladder_settle(Ladder *ladder, Rung rung);
// The worst bar, among equals the one nearest to (or furthest over) its limit, of one rung or of all
// (RUNG_COUNT); NULL when none was shown a figure.
const Reading *ladder_nearest(const Ladder *ladder, Rung rung, Bar *ret_bar);

// -- reading
// The array `key` of parity with at least one entry; its entries are read through *ret_list, named `dotted`.
bool ladder_list(const Section *parity, const char *key, const char *dotted, const Json **ret_array,
                 Section *ret_list);
// Room for count + 1 entries, zeroed; NULL, with the finding written, when memory is short.
void *ladder_room(const Section *section, size_t count, size_t size);
// A number that is not below 0; NaN and infinity are left to its bar.
bool ladder_error(const Section *section, const char *key, double *ret_value);
// By how much the candidate is better; relative to the reference where the metric's margins are.
double ladder_difference(const MetricInfo *metric, double candidate, double reference);
// The metric rung's metric, which is the one that decides the night.
bool ladder_metric(const Ladder *ladder, const Section *parity, Section *ret_metric, Metric *ret_name);
// Of the metric's pairs, those of this run.
bool parity_pair_tonight(const Json *evidence, const Json *pair);
int64_t parity_pairs_tonight(const Json *evidence, const Json *pairs);
// Power that the numbers of pairs needed and the smallest margins are given for.
#define PARITY_POWER 0.8
enum { ULPS_LEAST = 2 };   // FP32 runs that begin one ulp off
// Rows below which one row moves a metric by more than 0.02, so that nothing finer can be told.
enum { METRIC_ROWS_LEAST = 50 };

// -- figures that no comparison can have given (parity_sound.c); written only over a pass or what is
// undecided
void sound_gradients(const Ladder *ladder, const Section *list, const Json *gradients);
void sound_step(const Ladder *ladder, const Section *list, const Json *steps);
void sound_scale(const Ladder *ladder, const Section *scale, const ScaleCourse *s);
void sound_trajectory(const Ladder *ladder, const Section *list, const Json *pairs, int64_t steps,
                      size_t blocks);
void sound_metric(const Ladder *ladder, const Section *metric, Metric name);
void sound_slices(const Ladder *ladder, const Section *list, const Json *slices, Metric name);

// -- rungs, in order; the first also judges FP32 nights
void rung_reference(Ladder *ladder, const Section *parity);
void rung_operations(Ladder *ladder, const Section *parity);
void rung_gradients(Ladder *ladder, const Section *parity);
void rung_step(Ladder *ladder, const Section *parity);
void rung_scale(Ladder *ladder, const Section *parity);
void rung_trajectory(Ladder *ladder, const Section *parity);
void rung_metric(Ladder *ladder, const Section *parity);
void rung_slices(Ladder *ladder, const Section *parity);

#endif
