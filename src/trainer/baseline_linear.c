// baseline_linear - logistic, softmax or least squares regression on the transformed numbers and one-hot
// categories.
//
// It is meant to be strong: the network must beat a regression that has converged. Binary and least squares
// by Newton's method on the normal equations; softmax, and what is too wide for those, by L-BFGS. Mean loss
// plus half the ridge times the squared weights, the constant term free.
#include "baseline_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NEWTON_FEATURES = 2000, NEWTON_ROUNDS = 50, LBFGS_ROUNDS = 2000 };
static const double newton_work = 4e9, tolerance = 1e-8, lbfgs_tolerance = 1e-6;

typedef struct Fit {
    const Baseline *baseline;
    const Table *table;
    double ridge, mean, deviation;
    double *score;
} Fit;

// Indices and values of what is not zero in a row: numbers, one category a column, the constant term.
typedef struct Active {
    size_t count;
    size_t *index;
    double *value;
} Active;

static size_t active_count(const Baseline *baseline)
{
    return (size_t)(baseline->numeric + baseline->categorical + 1);
}

static void activate(const Baseline *baseline, const Table *table, size_t row, Active *active)
{
    size_t count = 0;
    for (size_t i = 0; i < table->numeric; i++, count++) {
        active->index[count] = i;
        active->value[count] = (double)table->x[row * table->numeric + i];
    }
    for (size_t i = 0; i < table->categorical; i++, count++) {
        active->index[count] = (size_t)(baseline->first[i] + table->codes[row * table->categorical + i]);
        active->value[count] = 1;
    }
    active->index[count] = (size_t)baseline->features - 1;
    active->value[count] = 1;
    active->count = count + 1;
}

static bool active_take(const Baseline *baseline, Active *active, Error *error)
{
    *active = (Active){.index = calloc(active_count(baseline), sizeof *active->index),
                       .value = calloc(active_count(baseline), sizeof *active->value)};
    return (active->index && active->value) ||
           FAIL(error, ERROR_MEMORY, 0, "could not take memory for a row of %zu features",
                active_count(baseline));
}

static void active_give(Active *active)
{
    free(active->index);
    free(active->value);
}

static double weighted(const double *weights, const Active *active)
{
    double sum = 0;
    for (size_t i = 0; i < active->count; i++)
        sum += weights[active->index[i]] * active->value[i];
    return sum;
}

// Loss of one row given its outputs; residual[k] = derivative by output k.
static double row_loss(FedgateLossKind task, int64_t outputs, double *z, double target, double *ret_residual)
{
    if (task == FEDGATE_LOSS_SQUARE) {
        ret_residual[0] = z[0] - target;
        return 0.5 * ret_residual[0] * ret_residual[0];
    }
    if (task == FEDGATE_LOSS_BINARY) {
        double e = exp(-fabs(z[0]));
        ret_residual[0] = (z[0] < 0 ? e / (1 + e) : 1 / (1 + e)) - target;
        return fmax(z[0], 0) - z[0] * target + log1p(e);
    }
    double top = z[0], sum = 0;
    for (int64_t k = 1; k < outputs; k++)
        top = fmax(top, z[k]);
    double label = z[(size_t)target] - top;
    for (int64_t k = 0; k < outputs; k++)
        sum += z[k] = exp(z[k] - top);
    for (int64_t k = 0; k < outputs; k++)
        ret_residual[k] = z[k] / sum - (k == (int64_t)target);
    return log(sum) - label;
}

typedef struct Context {
    Fit *fit;
    Active *active;
    double *z, *residual;
} Context;

static double ridge_term(const Fit *fit, const double *weights, double *gradient)
{
    const Baseline *baseline = fit->baseline;
    double sum = 0;
    for (int64_t k = 0; k < baseline->outputs; k++)
        for (int64_t i = 0; i + 1 < baseline->features; i++) {
            double w = weights[k * baseline->features + i];
            sum += 0.5 * fit->ridge * w * w;
            gradient[k * baseline->features + i] += fit->ridge * w;
        }
    return sum;
}

static double objective(void *context, const double *weights, double *ret_gradient)
{
    Context *c = context;
    const Baseline *baseline = c->fit->baseline;
    const Table *table = c->fit->table;
    size_t width = (size_t)baseline->features;
    double sum = 0, n = (double)table->rows;
    memset(ret_gradient, 0, (size_t)baseline->outputs * width * sizeof *ret_gradient);
    for (size_t row = 0; row < table->rows; row++) {
        activate(baseline, table, row, c->active);
        for (int64_t k = 0; k < baseline->outputs; k++)
            c->z[k] = weighted(weights + (size_t)k * width, c->active);
        double target = (table->target[row] - c->fit->mean) / c->fit->deviation;
        sum += row_loss(baseline->task, baseline->outputs, c->z, target, c->residual);
        for (int64_t k = 0; k < baseline->outputs; k++)
            for (size_t i = 0; i < c->active->count; i++)
                ret_gradient[(size_t)k * width + c->active->index[i]] +=
                    c->residual[k] * c->active->value[i] / n;
    }
    return sum / n + ridge_term(c->fit, weights, ret_gradient);
}

// Lower triangle of the Hessian: curvature of the loss by its output, times the outer product of the active
// features.
static void hessian(Context *c, const double *weights, double *ret_h)
{
    const Baseline *baseline = c->fit->baseline;
    const Table *table = c->fit->table;
    size_t width = (size_t)baseline->features;
    memset(ret_h, 0, width * width * sizeof *ret_h);
    for (size_t row = 0; row < table->rows; row++) {
        activate(baseline, table, row, c->active);
        double e = exp(-fabs(weighted(weights, c->active))),
               curvature = baseline->task == FEDGATE_LOSS_SQUARE ? 1 : e / ((1 + e) * (1 + e));
        curvature /= (double)table->rows;
        for (size_t i = 0; i < c->active->count; i++)   // indices rise, so j <= i fills the lower triangle
            for (size_t j = 0; j <= i; j++)
                ret_h[c->active->index[i] * width + c->active->index[j]] +=
                    curvature * c->active->value[i] * c->active->value[j];
    }
    for (size_t i = 0; i < width; i++)
        ret_h[i * width + i] += i + 1 < width ? c->fit->ridge + 1e-12 : 1e-12;
}

static double largest(const double *x, size_t n)
{
    double top = 0;
    for (size_t i = 0; i < n; i++)
        top = fabs(x[i]) <= top ? top : fabs(x[i]);
    return top;
}

// A Newton step, halved until it descends enough; false when none does.
static bool descend(Context *c, double *weights, double *gradient, const double *step, double *trial,
                    double *trial_gradient, double *value)
{
    size_t n = (size_t)c->fit->baseline->features;
    double slope = 0, length = 1;
    for (size_t i = 0; i < n; i++)
        slope -= gradient[i] * step[i];
    for (int back = 0; back < 30; back++, length /= 2) {
        for (size_t i = 0; i < n; i++)
            trial[i] = weights[i] - length * step[i];
        double found = objective(c, trial, trial_gradient);
        if (found <= *value + 1e-4 * length * slope) {
            memcpy(weights, trial, n * sizeof *weights);
            memcpy(gradient, trial_gradient, n * sizeof *gradient);
            *value = found;
            return true;
        }
    }
    return false;
}

static bool newton(Context *c, double *weights, Error *error)
{
    size_t n = (size_t)c->fit->baseline->features;
    double *block = calloc(n * n + 4 * n, sizeof *block);
    if (!block)
        return FAIL(error, ERROR_MEMORY, 0, "could not take memory for normal equations of %zu features", n);
    double *gradient = block + n * n, *step = gradient + n, *trial = step + n, *trial_gradient = trial + n;
    double value = objective(c, weights, gradient);
    for (int round = 0; round < NEWTON_ROUNDS && largest(gradient, n) > tolerance; round++) {
        hessian(c, weights, block);
        memcpy(step, gradient, n * sizeof *step);
        if (!cholesky_solve(block, step, n) ||
            !descend(c, weights, gradient, step, trial, trial_gradient, &value))
            break;
    }
    double left = largest(gradient, n), limit = 1000 * tolerance;   // rounding may end the line search early
    free(block);
    return left <= limit ||
           FAIL(error, ERROR_DATA, 0, "fit has not converged: gradient %g, limit %g", left, limit);
}

bool linear_fit(Baseline *baseline, const Table *table, double ridge, Error *error)
{
    Fit fit = {.baseline = baseline, .table = table, .ridge = ridge, .deviation = 1};
    size_t width = (size_t)baseline->features, last = width - 1, outputs = (size_t)baseline->outputs;
    if (baseline->task == FEDGATE_LOSS_SQUARE) {   // solved in units of the target's deviation, so that the
                                                   // ridge means the same
        fit.mean = stats_mean(table->target, table->rows);
        double variance = table->rows > 1 ? stats_variance(table->target, table->rows) : 0;
        fit.deviation = variance > 0 ? sqrt(variance) : 1;
    }
    Active active;
    double *z = calloc(2 * outputs, sizeof *z);
    bool good = active_take(baseline, &active, error) &&
                (z || FAIL(error, ERROR_MEMORY, 0, "could not take memory for %zu outputs", outputs));
    if (good) {
        Context context = {&fit, &active, z, z + outputs};
        double work = (double)table->rows * (double)active_count(baseline) * (double)active_count(baseline);
        bool narrow = outputs == 1 && width <= NEWTON_FEATURES && work <= newton_work;
        good = narrow ? newton(&context, baseline->weights, error)
                      : lbfgs_minimise(objective, &context, baseline->weights, outputs * width,
                                       lbfgs_tolerance, LBFGS_ROUNDS, error);
    }
    for (size_t i = 0; good && baseline->task == FEDGATE_LOSS_SQUARE && i < width; i++)
        baseline->weights[i] = baseline->weights[i] * fit.deviation + (i == last ? fit.mean : 0);
    active_give(&active);
    free(z);
    return good;
}

void linear_scores(const Baseline *baseline, const Table *table, double *ret_score)
{
    size_t width = (size_t)baseline->features;
    for (size_t row = 0; row < table->rows; row++)
        for (int64_t k = 0; k < baseline->outputs; k++) {
            const double *w = baseline->weights + (size_t)k * width;
            double z = w[width - 1];
            for (size_t i = 0; i < table->numeric; i++)
                z += w[i] * (double)table->x[row * table->numeric + i];
            for (size_t i = 0; i < table->categorical; i++)
                z += w[baseline->first[i] + table->codes[row * table->categorical + i]];
            ret_score[row * (size_t)baseline->outputs + (size_t)k] = z;
        }
    for (size_t row = 0; row < table->rows && baseline->task != FEDGATE_LOSS_SQUARE; row++) {
        double *score = ret_score + row * (size_t)baseline->outputs;
        if (baseline->task == FEDGATE_LOSS_BINARY) {
            score[0] = 1 / (1 + exp(-score[0]));
            continue;
        }
        double top = score[0], sum = 0;
        for (int64_t k = 1; k < baseline->outputs; k++)
            top = fmax(top, score[k]);
        for (int64_t k = 0; k < baseline->outputs; k++)
            sum += score[k] = exp(score[k] - top);
        for (int64_t k = 0; k < baseline->outputs; k++)
            score[k] /= sum;
    }
}
