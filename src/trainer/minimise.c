// minimise - limited-memory BFGS with a backtracking line search, and Cholesky's factorisation: plain double,
// fixed order.
#include "baseline_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HISTORY = 12, BACKTRACKS = 40 };

typedef struct Memory {
    double *s[HISTORY], *y[HISTORY], rho[HISTORY];
    size_t held, next;
} Memory;

static double dot(const double *a, const double *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

static double largest(const double *x, size_t n)
{
    double top = 0;
    for (size_t i = 0; i < n; i++)
        top = fabs(x[i]) <= top ? top : fabs(x[i]);
    return top;
}

// direction = - (approximate inverse Hessian) gradient, by the two loops of Nocedal (1980).
static void direction_of(const Memory *memory, const double *gradient, double *direction, size_t n)
{
    double alpha[HISTORY];
    memcpy(direction, gradient, n * sizeof *direction);
    for (size_t k = 0; k < memory->held; k++) {
        size_t i = (memory->next + HISTORY - 1 - k) % HISTORY;
        alpha[i] = memory->rho[i] * dot(memory->s[i], direction, n);
        for (size_t j = 0; j < n; j++)
            direction[j] -= alpha[i] * memory->y[i][j];
    }
    if (memory->held > 0) {
        size_t last = (memory->next + HISTORY - 1) % HISTORY;
        double scale = 1 / (memory->rho[last] * dot(memory->y[last], memory->y[last], n));
        for (size_t j = 0; j < n; j++)
            direction[j] *= scale;
    }
    for (size_t k = memory->held; k-- > 0;) {
        size_t i = (memory->next + HISTORY - 1 - k) % HISTORY;
        double beta = memory->rho[i] * dot(memory->y[i], direction, n);
        for (size_t j = 0; j < n; j++)
            direction[j] += (alpha[i] - beta) * memory->s[i][j];
    }
    for (size_t j = 0; j < n; j++)
        direction[j] = -direction[j];
}

static void remember(Memory *memory, const double *step, const double *old, const double *now, size_t n)
{
    double *s = memory->s[memory->next], *y = memory->y[memory->next];
    memcpy(s, step, n * sizeof *s);
    for (size_t i = 0; i < n; i++)
        y[i] = now[i] - old[i];
    double curvature = dot(s, y, n);
    if (!(curvature > 1e-300))
        return;
    memory->rho[memory->next] = 1 / curvature;
    memory->next = (memory->next + 1) % HISTORY;
    memory->held += memory->held < HISTORY;
}

bool lbfgs_minimise(LbfgsValue value, void *context, double *x, size_t n, double tolerance, int iterations,
                    Error *error)
{
    double *block = calloc((2 * HISTORY + 5) * n + 1, sizeof *block);
    if (!block)
        return FAIL(error, ERROR_MEMORY, 0, "could not take memory for %zu weights of a baseline", n);
    Memory memory = {0};
    for (size_t i = 0; i < HISTORY; i++) {
        memory.s[i] = block + 2 * i * n;
        memory.y[i] = block + (2 * i + 1) * n;
    }
    double *gradient = block + 2 * HISTORY * n, *direction = gradient + n, *trial = direction + n,
           *trial_gradient = trial + n, *step = trial_gradient + n;
    double now = value(context, x, gradient);
    for (int round = 0; round < iterations && largest(gradient, n) > tolerance; round++) {
        direction_of(&memory, gradient, direction, n);
        double slope = dot(direction, gradient, n),
               length = memory.held > 0 ? 1 : 1 / (1 + sqrt(dot(gradient, gradient, n))), found = NAN;
        for (int back = 0; back < BACKTRACKS; back++, length /= 2) {
            for (size_t i = 0; i < n; i++)
                trial[i] = x[i] + (step[i] = length * direction[i]);
            found = value(context, trial, trial_gradient);
            if (found <= now + 1e-4 * length * slope)
                break;
            found = NAN;
        }
        if (!isfinite(found))
            break;   // no further descent in double precision
        remember(&memory, step, gradient, trial_gradient, n);
        memcpy(x, trial, n * sizeof *x);
        memcpy(gradient, trial_gradient, n * sizeof *gradient);
        now = found;
    }
    double left = largest(gradient, n);
    free(block);
    return left <= 100 * tolerance ||
           FAIL(error, ERROR_DATA, 0, "fit has not converged: gradient %g, limit %g", left, tolerance);
}

bool cholesky_solve(double *a, double *b, size_t n)
{
    for (size_t j = 0; j < n; j++) {
        double pivot = a[j * n + j] - dot(a + j * n, a + j * n, j);
        if (!(pivot > 0))
            return false;
        a[j * n + j] = sqrt(pivot);
        for (size_t i = j + 1; i < n; i++)
            a[i * n + j] = (a[i * n + j] - dot(a + i * n, a + j * n, j)) / a[j * n + j];
    }
    for (size_t i = 0; i < n; i++)
        b[i] = (b[i] - dot(a + i * n, b, i)) / a[i * n + i];
    for (size_t i = n; i-- > 0;) {
        double sum = b[i];
        for (size_t k = i + 1; k < n; k++)
            sum -= a[k * n + i] * b[k];
        b[i] = sum / a[i * n + i];
    }
    return true;
}
