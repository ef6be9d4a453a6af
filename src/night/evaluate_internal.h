// evaluate_internal.h - the scores of one evaluation (step 8), shared by its two files.
#ifndef FEDGATE_NIGHT_EVALUATE_INTERNAL_H
#define FEDGATE_NIGHT_EVALUATE_INTERNAL_H

#include "night_internal.h"

enum { MODEL_CANDIDATE, MODEL_PRIOR, MODEL_RULE, MODEL_LINEAR, MODEL_LIVE, MODEL_COUNT };

typedef struct Scores {
    bool present;
    double *test, *validation;   // [rows x width]
    double utility;
    char version[VERSION_SIZE];
} Scores;

typedef struct Evaluation {
    Child *child;
    Night *night;
    Metric metric;
    bool binary, regression;
    int width;   // scores per row
    Table test, validation;   // in the candidate's maps
    Scores models[MODEL_COUNT];
    const char *live_kind;
} Evaluation;

Predictions evaluate_predictions(const Evaluation *e, const double *score, size_t rows);

// evaluate_decisions.c
double evaluate_threshold(const Evaluation *e,
                          const Scores *scores);   // declared, or best on validation rows
double evaluate_utility(const Evaluation *e, const Scores *scores);   // a row, on test rows

void evaluate_row_utilities(const Evaluation *e, const Scores *scores, double *ret_gain);   // of each row

// evaluate_bootstrap.c
typedef struct Bootstrap Bootstrap;
Bootstrap *evaluate_bootstrap_new(const Evaluation *e, Error *error);   // of all models present
void evaluate_bootstrap_free(Bootstrap *bootstrap);   // NULL allowed
// Bounds of the difference between the candidate and another model, into `pair`.
WARN_UNUSED bool evaluate_put_bootstrap(const Bootstrap *bootstrap, const Evaluation *e, int which,
                                        Json *pair, Error *error);

// evaluate_beside.c
void evaluate_put_calibration(Evaluation *e, Json *quality);
void evaluate_put_distribution(Evaluation *e);
WARN_UNUSED bool evaluate_put_shift(Evaluation *e, Error *error);
WARN_UNUSED bool evaluate_put_latency(Evaluation *e, Error *error);

#endif
