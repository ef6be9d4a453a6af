// trace_window - joins records, calls and notes; cuts replays into steps; doubts what does not add up.
#include "trace_window.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Device times are mapped to the host's clock between two readings; past this they cannot be of one clock.
static const int64_t CLOCK_SLACK_NS = 50000;

typedef struct Step {
    int64_t step, first, last;   // begin of its first operation, end of its last
} Step;
typedef struct Cut {
    TraceWindow *window;
    Step *steps;   // one entry a mark, in order
    size_t count;
    size_t *entry;   // [notes]: the first entry of the note, or the one that was current
    int64_t missing, replayed;   // records; those of replays among them
    const char *lost;   // what the first call without a record launched
    int64_t short_step;   // first of the first replay that has records too few or too many
} Cut;

void trace_doubt(FedgateTraceTrust *trust, const char *format, ...)
{
    va_list values;
    if (trust->reason[0])
        return;
    va_start(values, format);
    vsnprintf(trust->reason, sizeof trust->reason, format, values);
    va_end(values);
}

static int by_correlation(const void *a, const void *b)
{
    const TraceWork *x = (const TraceWork *)a, *y = (const TraceWork *)b;
    if (x->correlation != y->correlation)
        return x->correlation < y->correlation ? -1 : 1;
    return (x->span.begin > y->span.begin) - (x->span.begin < y->span.begin);
}

static int calls_by_correlation(const void *a, const void *b)
{
    const TraceCall *x = (const TraceCall *)a, *y = (const TraceCall *)b;
    if (x->correlation != y->correlation)
        return x->correlation < y->correlation ? -1 : 1;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

// -- notes

static bool list_steps(Cut *cut)
{
    const TraceWindow *window = cut->window;
    size_t room = 1;
    for (size_t i = 0; i < window->note_count; i++)
        room += window->notes[i].replay ? (size_t)window->notes[i].mark_count : 1;
    cut->steps = (Step *)calloc(room, sizeof *cut->steps);
    cut->entry = (size_t *)calloc(window->note_count + 1, sizeof *cut->entry);
    if (!cut->steps || !cut->entry)
        return false;
    for (size_t i = 0; i < window->note_count; i++) {
        const TraceNote *note = &window->notes[i];
        int64_t marks = note->replay ? note->mark_count : 1;
        cut->entry[i] = cut->count;
        for (int64_t k = 0; k < marks; k++) {
            int64_t step = note->step + (k > 0 ? note->marks[k].step - note->marks[0].step : 0);
            if (k == 0 && cut->count > 0 && cut->steps[cut->count - 1].step == step)
                cut->entry[i]--;   // marked again: the same step goes on
            else
                cut->steps[cut->count++] = (Step){step, INT64_MAX, 0};
        }
    }
    return true;
}

// The note that was last when the call began; -1: none.
static int64_t find_note(const TraceWindow *window, int64_t called)
{
    size_t low = 0, high = window->note_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (window->notes[middle].begin <= called)
            low = middle + 1;
        else
            high = middle;
    }
    return (int64_t)low - 1;
}

static const TraceCopy *find_copy(const TraceWindow *window, int64_t called, int64_t bytes)
{
    for (size_t i = 0; i < window->copy_count; i++) {
        const TraceCopy *copy = &window->copies[i];
        if (copy->begin <= called && called <= copy->end && copy->bytes == bytes)
            return copy;
    }
    return NULL;
}

// -- works

static void put_in_step(Cut *cut, int64_t entry, TraceWork *work)
{
    Step *step = &cut->steps[entry];
    work->span.step = step->step;
    if (work->span.begin <= 0 || work->span.end < work->span.begin)
        return;
    step->first = work->span.begin < step->first ? work->span.begin : step->first;
    step->last = work->span.end > step->last ? work->span.end : step->last;
}

// Operations of one replay, sorted: the place of each says its step. Those before the first mark belong to
// what was marked before.
static void cut_replay(Cut *cut, size_t note_index, TraceWork *works, size_t count)
{
    const TraceNote *note = &cut->window->notes[note_index];
    int64_t mark = -1, first = (int64_t)cut->entry[note_index];
    if ((int64_t)count != note->operations) {
        int64_t off = llabs((long long)(note->operations - (int64_t)count));
        cut->short_step = cut->replayed == 0 ? note->step : cut->short_step;
        cut->missing += off;
        cut->replayed += off;
        return;
    }
    for (size_t i = 0; i < count; i++) {
        while (mark + 1 < note->mark_count && note->marks[mark + 1].before <= (int64_t)i)
            mark++;
        if (first + mark >= 0)
            put_in_step(cut, first + mark, &works[i]);
    }
}

static void place_works(Cut *cut, TraceWork *works, size_t count, int64_t called)
{
    const TraceWindow *window = cut->window;
    const bool in = works[0].span.kind == FEDGATE_SPAN_COPY_IN;
    const TraceCopy *copy = in ? find_copy(window, called, works[0].span.bytes) : NULL;
    const int64_t found = copy ? -1 : find_note(window, called);
    for (size_t i = 0; i < count; i++) {
        works[i].span.launched_ns = called;
        works[i].span.step = copy ? copy->step : -1;
    }
    if (found < 0)
        return;
    const TraceNote *note = &window->notes[found];
    if (note->replay && called <= note->end) {
        cut_replay(cut, (size_t)found, works, count);
        return;
    }
    // What follows a replay one by one belongs to its last step.
    int64_t entry = (int64_t)cut->entry[found] + (note->replay ? note->mark_count - 1 : 0);
    for (size_t i = 0; i < count && entry >= 0; i++)
        put_in_step(cut, entry, &works[i]);
}

// Calls with this correlation, which lie together; several when one call makes another.
static size_t skip_call(const TraceWindow *window, size_t call)
{
    uint32_t correlation = window->calls[call].correlation;
    while (call < window->call_count && window->calls[call].correlation == correlation)
        call++;
    return call;
}

static size_t lose_call(Cut *cut, size_t call)
{
    cut->missing++;
    if (!cut->lost)
        cut->lost = cut->window->calls[call].name ? cut->window->calls[call].name : "a call";
    return skip_call(cut->window, call);
}

// Works and calls are sorted by correlation: a merge.
static void join(Cut *cut)
{
    TraceWindow *window = cut->window;
    size_t call = 0;
    for (size_t i = 0, end; i < window->work_count; i = end) {
        const uint32_t correlation = window->works[i].correlation;
        for (end = i + 1; end < window->work_count && window->works[end].correlation == correlation;)
            end++;
        while (call < window->call_count && window->calls[call].correlation < correlation)
            call = lose_call(cut, call);
        if (call < window->call_count && window->calls[call].correlation == correlation) {
            place_works(cut, &window->works[i], end - i, window->calls[call].begin);
            call = skip_call(window, call);
        } else {
            for (size_t k = i; k < end; k++)
                window->works[k].span.step = -1, window->works[k].span.launched_ns = 0;
        }
    }
    while (call < window->call_count)
        call = lose_call(cut, call);
}

// Operations without a call were launched before the window when they lie before all others of their stream;
// else the record of a call is missing.
static int64_t count_astray(const TraceWindow *window)
{
    int64_t first[2] = {INT64_MAX, INT64_MAX}, astray = 0;
    for (size_t i = 0; i < window->work_count; i++) {
        const FedgateSpan *span = &window->works[i].span;
        int64_t *earliest = &first[span->stream != 0];
        if (span->launched_ns != 0 && span->begin > 0 && span->begin < *earliest)
            *earliest = span->begin;
    }
    for (size_t i = 0; i < window->work_count; i++) {
        const FedgateSpan *span = &window->works[i].span;
        astray += span->launched_ns == 0 && span->begin > first[span->stream != 0];
    }
    return astray + (window->call_count == 0 && window->note_count > 0 ? (int64_t)window->work_count : 0);
}

static const char *first_astray(const TraceWindow *window)
{
    for (size_t i = 0; i < window->work_count; i++)
        if (window->works[i].span.launched_ns == 0 && window->works[i].span.name)
            return window->works[i].span.name;
    return "an operation";
}

// -- giving

// A record without a time tells nothing and is not given; a time before its cause is given without the cause,
// so that it is counted once.
static int64_t give_works(const TraceWindow *window, void (*give)(void *, const FedgateSpan *), void *context,
                          FedgateTraceTrust *trust)
{
    int64_t late = 0;
    for (size_t i = 0; i < window->work_count; i++) {
        FedgateSpan span = window->works[i].span;
        if (span.begin <= 0 || span.end <= 0) {
            trust->zero_timestamps++;
            continue;
        }
        if (span.end < span.begin) {
            trust->causality++;
            continue;
        }
        if (span.begin < span.launched_ns) {
            trust->causality++;
            span.launched_ns = 0;
        }
        late += span.end > window->synced_ns + CLOCK_SLACK_NS;
        give(context, &span);
    }
    return late;
}

// With copies unrecorded, nothing is known of hiding before the first that is recorded begins: copies run in
// the order they were queued.
static int64_t known_from(const TraceWindow *window)
{
    int64_t from = INT64_MAX;
    if (!window->copies_before)
        return 0;
    for (size_t i = 0; i < window->work_count; i++)
        if (window->works[i].span.stream != 0 && window->works[i].span.begin < from)
            from = window->works[i].span.begin;
    return from;
}

static void give_steps(const Cut *cut, void (*give)(void *, const FedgateSpan *), void *context)
{
    int64_t before = 0, from = known_from(cut->window);
    for (size_t i = 0; i < cut->count; i++) {
        const Step *step = &cut->steps[i];
        bool empty = step->first == INT64_MAX;
        FedgateSpan span = {.kind = FEDGATE_SPAN_STEP, .step = step->step};
        span.begin = empty ? before : step->first;
        span.end = empty ? before : step->last;
        const bool apart = step->step < 0 || (i > 0 && cut->steps[i - 1].step < 0);
        if (span.begin > 0 && span.begin >= from && !apart)
            give(context, &span);
        before = span.end;
    }
}

static void doubt_missing(const Cut *cut, FedgateTraceTrust *trust)
{
    char name[56] = "";
    if (cut->missing == 0)
        return;
    if (cut->lost)
        trace_readable_name(cut->lost, name, sizeof name);
    if (cut->replayed > 0)
        trace_doubt(trust,
                    "%lld records of device operations are missing: %lld of replays, first at step %lld",
                    (long long)cut->missing, (long long)cut->replayed, (long long)cut->short_step);
    else
        trace_doubt(trust, "%lld records of device operations are missing, the first of %s",
                    (long long)cut->missing, name);
}

bool trace_window_spans(TraceWindow *window, void (*give)(void *, const FedgateSpan *), void *context,
                        FedgateTraceTrust *trust)
{
    Cut cut = {.window = window};
    bool good = list_steps(&cut);
    if (good) {
        if (window->work_count > 0)
            qsort(window->works, window->work_count, sizeof *window->works, by_correlation);
        if (window->call_count > 0)
            qsort(window->calls, window->call_count, sizeof *window->calls, calls_by_correlation);
        join(&cut);
        int64_t astray = count_astray(window);
        int64_t late = give_works(window, give, context, trust);
        give_steps(&cut, give, context);
        doubt_missing(&cut, trust);
        if (astray > 0)
            trace_doubt(trust, "%lld device operations have no launch, the first %.60s", (long long)astray,
                        first_astray(window));
        if (late > 0)
            trace_doubt(trust, "%lld operations end after the host saw their end: the clocks do not agree",
                        (long long)late);
        if (cut.count > 0 && window->work_count == 0)
            trace_doubt(trust, "steps were marked and no operation was recorded");
    }
    free(cut.steps);
    free(cut.entry);
    return good;
}

// -- names

static size_t add_identifier(const char *from, size_t length, char *to, size_t used, size_t size)
{
    static const char separator[] = "::";
    size_t gap = used > 0 ? sizeof separator - 1 : 0;
    if (used + gap + length + 1 > size)
        return used;
    memcpy(to + used, separator, gap);
    memcpy(to + used + gap, from, length);
    to[used + gap + length] = '\0';
    return used + gap + length;
}

// <source-name> is a length and as many letters, several inside N; template arguments or parameters end what
// is wanted.
void trace_readable_name(const char *name, char *ret_name, size_t size)
{
    const char *at = name;
    size_t used = 0;
    bool more = strncmp(name, "_Z", 2) == 0;
    if (more)
        at += 2;
    const bool nested = more && *at == 'N';
    at += more && (*at == 'N' || *at == 'L');
    while (more && *at >= '1' && *at <= '9') {
        char *end = NULL;
        unsigned long length = strtoul(at, &end, 10);
        if (length > strlen(end))
            break;
        if (strncmp(end, "_GLOBAL__N", 10) != 0)
            used = add_identifier(end, length, ret_name, used, size);
        at = end + length;
        more = nested;
    }
    if (used == 0)
        snprintf(ret_name, size, "%s", name);
}
