// warmup - where the steady state begins, from step lengths alone.
#include "timeline_internal.h"

#include <stdlib.h>
#include <string.h>

enum { WARMUP_LEAST = 3, MEDIAN_STEPS = 5 };

static int compare_ns(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int64_t median_ns(int64_t *values, size_t count)
{
    qsort(values, count, sizeof *values, compare_ns);
    return values[(count - 1) / 2];
}

// A later slow stretch is not warm-up, so "stays" is asked of the first half only: what happens after it
// always counts.
size_t timeline_warmup(const int64_t *length_ns, size_t steps)
{
    size_t half = steps / 2;
    if (half <= WARMUP_LEAST) {
        return half;
    }
    int64_t *late = malloc((steps - half) * sizeof *late);
    if (late == NULL) {
        return half;
    }
    memcpy(late, length_ns + half, (steps - half) * sizeof *late);
    int64_t settled = median_ns(late, steps - half);
    free(late);
    size_t first = half;
    while (first > WARMUP_LEAST) {
        int64_t recent[MEDIAN_STEPS];
        memcpy(recent, length_ns + first - 1, sizeof recent);   // first <= half, steps >= 8: always inside
        int64_t difference = median_ns(recent, MEDIAN_STEPS) - settled;
        if ((difference < 0 ? -difference : difference) > settled / 10) {   // a product could overflow
            break;
        }
        first--;
    }
    return first;
}
