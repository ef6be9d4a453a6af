// overlap - copy, kernel, idle and wait time of each step, cut at the step marks on the device.
//
// A mark begins where the first device operation of its step begins. The window ends at the mark of step + 1,
// or, when that step has none, at the mark's own end; a mark that is followed by neither has no window. Marks
// of one step count once, at their earliest. Spans without timestamps take no part; the trust says how many
// there were.
#include "timeline_internal.h"

#include <stdlib.h>

enum { STARVED_LEAST_NS = 5000, STARVED_SHARE = 50 };   // 2 % of the median step = median / 50

typedef OverlapWork Work;
typedef IntervalSet Union;

typedef bool (*SpanFilter)(const Span *span);

static bool is_copy(const Span *span)
{
    return span->kind == SPAN_COPY_H2D;
}

static bool is_kernel(const Span *span)
{
    return span->kind == SPAN_KERNEL;
}

static bool is_wait(const Span *span)
{
    return span->kind == SPAN_HOST_WAIT;
}

static bool collect(const Timeline *timeline, SpanFilter wanted, Union *ret)
{
    const Span *spans = timeline_spans(timeline);
    size_t count = timeline_count(timeline);
    ret->intervals = malloc((count + 1) * sizeof *ret->intervals);
    if (ret->intervals == NULL) {
        return false;
    }
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (wanted(&spans[i])) {
            ret->intervals[kept++] = (Interval){spans[i].begin, spans[i].end};
        }
    }
    ret->count = interval_union(ret->intervals, kept);
    return true;
}

static int compare_mark(const void *a, const void *b)
{
    const Span *x = a;
    const Span *y = b;
    if (x->step != y->step) {
        return x->step < y->step ? -1 : 1;
    }
    return (x->begin > y->begin) - (x->begin < y->begin);
}

// Windows from the marks, in step order; *ret_steps must hold one entry per span. A window that would end
// before it begins (a later step marked earlier) breaks causality.
static size_t cut_windows(const Timeline *timeline, Span *marks, StepOverlap *steps, int64_t *ret_disorder)
{
    const Span *spans = timeline_spans(timeline);
    size_t count = 0;
    for (size_t i = 0; i < timeline_count(timeline); i++) {
        if (spans[i].kind == SPAN_STEP_MARK && spans[i].step >= 0) {
            marks[count++] = spans[i];
        }
    }
    qsort(marks, count, sizeof *marks, compare_mark);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && marks[i].step == marks[i - 1].step) {
            continue;
        }
        size_t next = i + 1;
        while (next < count && marks[next].step == marks[i].step) {
            next++;
        }
        bool followed = next < count && marks[next].step == marks[i].step + 1;
        int64_t end = followed ? marks[next].begin : marks[i].end;
        if (followed && end < marks[i].begin) {
            (*ret_disorder)++;
        } else if (end > marks[i].begin) {
            steps[kept++] = (StepOverlap){
                .index = marks[i].step, .begin_ns = marks[i].begin, .length_ns = end - marks[i].begin};
        }
    }
    return kept;
}

static int64_t median_length(const StepOverlap *steps, size_t count, int64_t *scratch)
{
    for (size_t i = 0; i < count; i++) {
        scratch[i] = steps[i].length_ns;
    }
    return median_ns(scratch, count);
}

// Starvation gaps: where the recorded stretches (adjoining windows joined) hold no device work for long
// enough. A gap across a step boundary is one gap; one across an unrecorded stretch is not.
static void find_starved(const StepOverlap *steps, size_t count, int64_t median, Work *work)
{
    int64_t share = median / STARVED_SHARE + (median % STARVED_SHARE != 0);
    work->starved_least_ns = share > STARVED_LEAST_NS ? share : STARVED_LEAST_NS;
    Interval *stretches = work->scratch_a;
    for (size_t i = 0; i < count; i++) {
        stretches[i] = (Interval){steps[i].begin_ns, steps[i].begin_ns + steps[i].length_ns};
    }
    size_t stretch_count = interval_union(stretches, count);
    for (size_t i = 0; i < stretch_count; i++) {
        work_find_gaps(work, stretches[i], work->starved_least_ns);
    }
}

void work_find_gaps(OverlapWork *work, Interval stretch, int64_t least_ns)
{
    size_t inside = interval_clip(work->busy.intervals, work->busy.count, stretch, work->scratch_b);
    int64_t from = stretch.begin;
    for (size_t j = 0; j <= inside; j++) {
        int64_t to = j < inside ? work->scratch_b[j].begin : stretch.end;
        if (to > from && to - from >= least_ns) {
            work->gaps.intervals[work->gaps.count++] = (Interval){from, to};
        }
        from = j < inside ? work->scratch_b[j].end : from;
    }
}

int64_t set_inside(const IntervalSet *set, Interval window, Interval *scratch)
{
    return interval_length(scratch, interval_clip(set->intervals, set->count, window, scratch));
}

static void measure_step(Work *work, StepOverlap *step)
{
    Interval window = {step->begin_ns, step->begin_ns + step->length_ns};
    size_t copies = interval_clip(work->copies.intervals, work->copies.count, window, work->scratch_a);
    size_t kernels = interval_clip(work->kernels.intervals, work->kernels.count, window, work->scratch_b);
    step->copy_ns = interval_length(work->scratch_a, copies);
    step->kernel_ns = interval_length(work->scratch_b, kernels);
    step->hidden_ns = interval_overlap(work->scratch_a, copies, work->scratch_b, kernels);
    step->busy_ns = set_inside(&work->busy, window, work->scratch_a);
    step->wait_ns = set_inside(&work->waits, window, work->scratch_a);
    step->starved_ns = set_inside(&work->gaps, window, work->scratch_a);
}

static int compare_begin(const void *a, const void *b)
{
    const StepOverlap *x = a;
    const StepOverlap *y = b;
    return (x->begin_ns > y->begin_ns) - (x->begin_ns < y->begin_ns);
}

// The bytes of a copy belong to the window in which it begins.
static void count_bytes(const Timeline *timeline, StepOverlap *steps, size_t count)
{
    const Span *spans = timeline_spans(timeline);
    for (size_t i = 0; i < timeline_count(timeline); i++) {
        if (!is_copy(&spans[i])) {
            continue;
        }
        size_t low = 0;
        size_t high = count;
        while (low < high) {
            size_t middle = low + (high - low) / 2;
            if (steps[middle].begin_ns <= spans[i].begin) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        StepOverlap *step = low == 0 ? NULL : &steps[low - 1];
        if (step != NULL && spans[i].begin < step->begin_ns + step->length_ns) {
            step->h2d_bytes += spans[i].bytes;
            step->pageable_bytes += spans[i].pageable ? spans[i].bytes : 0;
        }
    }
}

void work_done(OverlapWork *work)
{
    Interval *owned[] = {work->copies.intervals, work->kernels.intervals, work->busy.intervals,
                         work->waits.intervals,  work->gaps.intervals,    work->scratch_a,
                         work->scratch_b};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) {
        free(owned[i]);
    }
}

static bool work_init(const Timeline *timeline, OverlapWork *work)
{
    size_t room = 2 * timeline_count(timeline) + 2;   // every gap lies before an operation or ends a stretch
    *work = (Work){.gaps.intervals = malloc(room * sizeof(Interval)),
                   .scratch_a = malloc(room * sizeof(Interval)),
                   .scratch_b = malloc(room * sizeof(Interval))};
    return work->gaps.intervals != NULL && work->scratch_a != NULL && work->scratch_b != NULL &&
           collect(timeline, is_copy, &work->copies) && collect(timeline, is_kernel, &work->kernels) &&
           collect(timeline, span_is_device_work, &work->busy) && collect(timeline, is_wait, &work->waits);
}

bool timeline_measure(const Timeline *timeline, OverlapWork *work, StepOverlap **ret_steps, size_t *ret_count,
                      TimelineTrust *ret_trust, Error *error)
{
    size_t spans = timeline_count(timeline);
    StepOverlap *steps = malloc((spans + 1) * sizeof *steps);
    Span *marks = malloc((spans + 1) * sizeof *marks);
    int64_t *lengths = malloc((spans + 1) * sizeof *lengths);
    bool ok = work_init(timeline, work) && steps != NULL && marks != NULL && lengths != NULL;
    if (ok) {
        int64_t disorder = 0;
        size_t count = cut_windows(timeline, marks, steps, &disorder);
        timeline_check_trust(timeline, disorder, ret_trust);
        qsort(steps, count, sizeof *steps, compare_begin);
        if (count > 0) {
            find_starved(steps, count, median_length(steps, count, lengths), work);
        }
        for (size_t i = 0; i < count; i++) {
            measure_step(work, &steps[i]);
        }
        count_bytes(timeline, steps, count);
        *ret_steps = steps;
        *ret_count = count;
    } else {
        free(steps);
        (void)FAIL(error, ERROR_MEMORY, 0, "could not allocate the overlap of %zu spans", spans);
    }
    free(marks);
    free(lengths);
    return ok;
}

bool timeline_overlap(const Timeline *timeline, StepOverlap **ret_steps, size_t *ret_count,
                      TimelineTrust *ret_trust, Error *error)
{
    OverlapWork work;
    bool ok = timeline_measure(timeline, &work, ret_steps, ret_count, ret_trust, error);
    work_done(&work);
    return ok;
}
