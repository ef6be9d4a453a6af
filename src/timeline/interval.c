// interval - exact set arithmetic on half-open intervals of integer nanoseconds.
#include <fedgate/timeline.h>

#include <stdlib.h>

static int compare_begin(const void *a, const void *b)
{
    const Interval *x = a;
    const Interval *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

size_t interval_union(Interval *intervals, size_t count)
{
    size_t ordered = 1;
    while (ordered < count && intervals[ordered - 1].begin <= intervals[ordered].begin) {
        ordered++;
    }
    if (ordered < count) {
        qsort(intervals, count, sizeof *intervals, compare_begin);
    }
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        Interval next = intervals[i];
        if (next.begin >= next.end) {
            continue;
        }
        if (kept > 0 && next.begin <= intervals[kept - 1].end) {
            if (next.end > intervals[kept - 1].end) {
                intervals[kept - 1].end = next.end;
            }
        } else {
            intervals[kept++] = next;
        }
    }
    return kept;
}

int64_t interval_length(const Interval *sorted_disjoint, size_t count)
{
    int64_t length = 0;
    for (size_t i = 0; i < count; i++) {
        length += sorted_disjoint[i].end - sorted_disjoint[i].begin;
    }
    return length;
}

int64_t interval_overlap(const Interval *a, size_t a_count, const Interval *b, size_t b_count)
{
    int64_t length = 0;
    for (size_t i = 0, j = 0; i < a_count && j < b_count;) {
        int64_t begin = a[i].begin > b[j].begin ? a[i].begin : b[j].begin;
        int64_t end = a[i].end < b[j].end ? a[i].end : b[j].end;
        length += end > begin ? end - begin : 0;
        if (a[i].end < b[j].end) {
            i++;
        } else {
            j++;
        }
    }
    return length;
}

// The first interval that ends after the window begins is found by bisection, so clipping many windows stays
// cheap.
size_t interval_clip(const Interval *from, size_t count, Interval window, Interval *ret_clipped)
{
    size_t low = 0;
    size_t high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (from[middle].end <= window.begin) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    size_t kept = 0;
    for (; low < count && from[low].begin < window.end; low++) {
        Interval clipped = from[low];
        clipped.begin = clipped.begin < window.begin ? window.begin : clipped.begin;
        clipped.end = clipped.end > window.end ? window.end : clipped.end;
        ret_clipped[kept++] = clipped;
    }
    return kept;
}
