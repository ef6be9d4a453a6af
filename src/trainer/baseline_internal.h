// baseline_internal - the three baselines behind one table.
#ifndef FEDGATE_BASELINE_INTERNAL_H
#define FEDGATE_BASELINE_INTERNAL_H

#include <fedgate/json.h>
#include <fedgate/trainer.h>

#include "trainer_internal.h"

enum { RULE_CLAUSES = 64 };
typedef enum RuleOperator {
    RULE_EQUAL,
    RULE_DIFFERENT,
    RULE_LESS,
    RULE_LESS_EQUAL,
    RULE_MORE,
    RULE_MORE_EQUAL,
    RULE_ELSE,
    RULE_OPERATOR_COUNT
} RuleOperator;
typedef struct RuleClause {
    char column[128], value[128];
    RuleOperator operator;
    double number, score;
} RuleClause;   // number: NaN when value is none
typedef struct Rule {
    RuleClause clauses[RULE_CLAUSES];
    size_t count;
} Rule;

struct Baseline {
    BaselineKind kind;
    FedgateLossKind task;
    int64_t outputs;   // 1, or k classes
    double *constant;   // prior: [outputs]
    char *rule_text;
    Rule rule;
    // linear: outputs x features weights in the order numeric, one-hot by column, constant term
    int64_t numeric, categorical, features;
    int64_t *first;   // [categorical + 1]: feature of code 0 of a column
    double *weights;
};

bool rule_parse(const char *text, Rule *ret_rule, Error *error);   // ERROR_CONFIG with the position

// Fits and applies a generalised linear model in double, in row order: the same bits every time.
bool linear_fit(Baseline *baseline, const Table *table, double ridge, Error *error);
void linear_scores(const Baseline *baseline, const Table *table, double *ret_score);

// Minimises a smooth convex function; value(context, x, gradient) returns f and fills the gradient.
typedef double (*LbfgsValue)(void *context, const double *x, double *ret_gradient);
bool lbfgs_minimise(LbfgsValue value, void *context, double *x, size_t count, double tolerance,
                    int iterations, Error *error);
// Solves a x = b for a symmetric positive definite a (row-major, lower triangle read; overwritten). False
// when it is not.
bool cholesky_solve(double *a, double *b, size_t n);

#endif
