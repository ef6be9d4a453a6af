// spans - the timeline itself: spans in order of adding, bounded, added to from several threads.
#include "timeline_internal.h"

#include <pthread.h>
#include <stdlib.h>

struct Timeline {
    pthread_mutex_t lock;
    Span *spans;
    size_t count, capacity, maximum;
    int64_t dropped;
};

Timeline *timeline_new(size_t maximum_spans)
{
    Timeline *timeline = calloc(1, sizeof *timeline);
    if (timeline != NULL && pthread_mutex_init(&timeline->lock, NULL) != 0) {
        free(timeline);
        return NULL;
    }
    if (timeline != NULL) {
        timeline->maximum = maximum_spans;
    }
    return timeline;
}

void timeline_free(Timeline *timeline)
{
    if (timeline != NULL) {
        pthread_mutex_destroy(&timeline->lock);
        free(timeline->spans);
        free(timeline);
    }
}

static bool has_room(Timeline *timeline)
{
    if (timeline->count < timeline->capacity) {
        return true;
    }
    size_t wanted = timeline->capacity == 0 ? 1024 : timeline->capacity * 2;
    wanted = wanted > timeline->maximum ? timeline->maximum : wanted;
    Span *grown = wanted > timeline->count ? realloc(timeline->spans, wanted * sizeof *grown) : NULL;
    if (grown == NULL) {
        return false;
    }
    timeline->spans = grown;
    timeline->capacity = wanted;
    return true;
}

void timeline_add(Timeline *timeline, const Span *span)
{
    pthread_mutex_lock(&timeline->lock);
    if (has_room(timeline)) {
        timeline->spans[timeline->count++] = *span;
    } else {
        timeline->dropped++;
    }
    pthread_mutex_unlock(&timeline->lock);
}

size_t timeline_count(const Timeline *timeline)
{
    return timeline->count;
}

const Span *timeline_spans(const Timeline *timeline)
{
    return timeline->spans;
}

int64_t timeline_dropped(const Timeline *timeline)
{
    return timeline->dropped;
}

bool span_is_device_work(const Span *span)
{
    static const bool is_work[SPAN_KIND_COUNT] = {
        [SPAN_KERNEL] = true,   [SPAN_COPY_H2D] = true, [SPAN_COPY_D2H] = true,
        [SPAN_COPY_D2D] = true, [SPAN_MEMSET] = true,
    };
    return is_work[span->kind];
}
