// stream - the copy stream: a staging thread that copies in order, and the events that order it against
// compute.
//
// Compute runs in the caller's thread, so a point of the compute stream has passed as soon as it is recorded.
// One lock serves all events of a device. Threads are woken only when one waits for just that: a wake-up
// costs the caller as much as a small kernel.
#include "cpu_internal.h"

#include <fedgate/clock.h>
#include <fedgate/fault.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { STREAM_QUEUE = 256 };

struct Stream {
    CpuDevice *device;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t given, passed;   // a copy was queued; an event passed or the queue ran empty
    int waiting;   // threads in `passed`
    bool started, closing;
    struct {
        FedgateCopy copy;
        int64_t launched_ns;
    } queue[STREAM_QUEUE];   // ring
    size_t first, count;
};

typedef struct CpuEvent {
    Stream *stream;
    bool passed;   // under the stream's lock
} CpuEvent;

static void copy_now(Stream *stream, const FedgateCopy *copy, int64_t launched_ns)
{
    CpuDevice *device = stream->device;
    int64_t begin = cpu_now(device), slow_ns = (int64_t)fault_value("copy.slow_ns", 0);
    memcpy(copy->to, copy->from, (size_t)copy->bytes);
    if (slow_ns > 0 && !device->host->modelled)
        clock_sleep_ns(clock_real(), slow_ns);
    FedgateSpan span = {.kind = FEDGATE_SPAN_COPY_IN,
                        .stream = 1,
                        .begin = begin,
                        .end = cpu_now(device),
                        .launched_ns = launched_ns,
                        .step = copy->step,
                        .bytes = copy->bytes,
                        .pageable = copy->pageable,
                        .name = "copy"};
    device->host->span(device->host->context, &span);
}

// Locked.
static void announce(Stream *stream)
{
    if (stream->waiting > 0)
        pthread_cond_broadcast(&stream->passed);
}

// Locked. Waits until something has passed; until NULL: without limit. False when the time is over.
static bool await(Stream *stream, const struct timespec *until)
{
    stream->waiting++;
    int late = until ? pthread_cond_clockwait(&stream->passed, &stream->lock, CLOCK_MONOTONIC, until)
                     : pthread_cond_wait(&stream->passed, &stream->lock);
    stream->waiting--;
    return late == 0;
}

static void *stage(void *context)
{
    Stream *stream = context;
    pthread_mutex_lock(&stream->lock);
    for (;;) {
        while (stream->count == 0 && !stream->closing)
            pthread_cond_wait(&stream->given, &stream->lock);
        if (stream->count == 0)
            break;
        FedgateCopy copy = stream->queue[stream->first].copy;
        int64_t launched_ns = stream->queue[stream->first].launched_ns;
        CpuEvent *after = copy.after, *done = copy.done;
        while (after && !after->passed && !stream->closing)
            await(stream, NULL);
        bool give_up = after && !after->passed;
        pthread_mutex_unlock(&stream->lock);
        if (!give_up)
            copy_now(stream, &copy, launched_ns);
        pthread_mutex_lock(&stream->lock);
        stream->first = (stream->first + 1) % STREAM_QUEUE;
        stream->count--;
        if (done)
            done->passed = !give_up;
        announce(stream);
    }
    pthread_mutex_unlock(&stream->lock);
    return NULL;
}

Stream *stream_new(CpuDevice *device)
{
    Stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return NULL;
    stream->device = device;
    pthread_mutex_init(&stream->lock, NULL);
    pthread_cond_init(&stream->given, NULL);
    pthread_cond_init(&stream->passed, NULL);
    stream->started = pthread_create(&stream->thread, NULL, stage, stream) == 0;
    if (stream->started)
        return stream;
    stream_free(stream);
    return NULL;
}

void stream_free(Stream *stream)
{
    if (!stream)
        return;
    pthread_mutex_lock(&stream->lock);
    stream->closing = true;
    pthread_cond_broadcast(&stream->given);
    pthread_cond_broadcast(&stream->passed);
    pthread_mutex_unlock(&stream->lock);
    if (stream->started)
        pthread_join(stream->thread, NULL);
    pthread_mutex_destroy(&stream->lock);
    pthread_cond_destroy(&stream->given);
    pthread_cond_destroy(&stream->passed);
    free(stream);
}

bool stream_copy(Stream *stream, const FedgateCopy *copy, char *ret_reason)
{
    CpuEvent *done = copy->done;
    pthread_mutex_lock(&stream->lock);
    bool room = stream->count < STREAM_QUEUE;
    if (room) {
        size_t last = (stream->first + stream->count++) % STREAM_QUEUE;
        stream->queue[last].copy = *copy;
        stream->queue[last].launched_ns = cpu_now(stream->device);
        if (done)
            done->passed = false;
        if (stream->count == 1)
            pthread_cond_signal(&stream->given);
    }
    pthread_mutex_unlock(&stream->lock);
    if (!room)
        snprintf(ret_reason, FEDGATE_REASON_SIZE, "the copy queue is at its limit of %d", STREAM_QUEUE);
    return room;
}

void stream_drain(Stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    while (stream->count > 0)
        await(stream, NULL);
    pthread_mutex_unlock(&stream->lock);
}

void *cpu_event_new(void *device)
{
    CpuEvent *event = calloc(1, sizeof *event);
    if (event)
        event->stream = ((CpuDevice *)device)->stream;
    return event;
}

void cpu_event_free(void *event)
{
    free(event);
}

void cpu_event_record(void *device, void *event)
{
    Stream *stream = ((CpuDevice *)device)->stream;
    pthread_mutex_lock(&stream->lock);
    ((CpuEvent *)event)->passed = true;
    announce(stream);
    pthread_mutex_unlock(&stream->lock);
}

bool cpu_event_done(void *event)
{
    Stream *stream = ((CpuEvent *)event)->stream;
    pthread_mutex_lock(&stream->lock);
    bool passed = ((CpuEvent *)event)->passed;
    pthread_mutex_unlock(&stream->lock);
    return passed;
}

bool cpu_event_wait(void *event, int64_t timeout_ns)
{
    CpuEvent *waited = event;
    Stream *stream = waited->stream;
    int64_t until_ns = clock_monotonic_ns(clock_real()) + timeout_ns;
    struct timespec until = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
    pthread_mutex_lock(&stream->lock);
    while (!waited->passed && await(stream, &until))
        continue;
    bool passed = waited->passed;
    pthread_mutex_unlock(&stream->lock);
    return passed;
}
