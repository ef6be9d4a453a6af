// async_record - recordings are lists of commands; a trace keeps spans until it ends.
#include "async_internal.h"

#include <stdio.h>
#include <stdlib.h>

static bool record_begin(void *handle, char *ret_reason)
{
    AsyncDevice *device = handle;
    async_not_recording(device);
    device->recording = calloc(1, sizeof *device->recording);
    if (device->recording)
        device->recording->first_mark = -1;
    else
        snprintf(ret_reason, FEDGATE_REASON_SIZE, "no memory");
    return device->recording != NULL;
}

static void *record_end(void *handle, int64_t *ret_bytes, char *ret_reason)
{
    (void)ret_reason;
    AsyncDevice *device = handle;
    Recording *recording = device->recording;
    if (!recording)
        async_breach("a recording ends that did not begin");
    device->recording = NULL;
    async_now.recordings++;
    *ret_bytes = (int64_t)recording->count * 64;
    return recording;
}

// One lane passes them in the order in which they were given: the next time is the one that comes.
static void pass_event(AsyncDevice *device, AsyncEvent *event)
{
    pthread_mutex_lock(&device->lock);
    event->passed++;
    pthread_cond_broadcast(&device->moved);
    pthread_mutex_unlock(&device->lock);
}

static void run_replay(AsyncDevice *device, const Command *command)
{
    const Recording *recording = command->op.replay.recording;
    for (size_t i = 0; i < recording->count; i++) {
        Command one = recording->list[i];
        if (one.mark)
            one.op.step += command->op.replay.first - recording->first_mark;
        if (one.event)
            pass_event(device, one.event);
        else
            one.run(device, &one);
    }
    async_now.run++;
}

static void replay(void *handle, void *recording, int64_t first_step)
{
    AsyncDevice *device = handle;
    async_not_recording(device);
    async_now.replays++;
    int64_t ahead = async_now.replays - async_now.run;
    if (ahead > async_now.ahead)
        async_now.ahead = ahead;
    const Recording *given = recording;
    pthread_mutex_lock(&device->lock);
    for (size_t i = 0; i < given->count; i++)
        if (given->list[i].event)
            given->list[i].event->recorded++;
    pthread_mutex_unlock(&device->lock);
    async_give(device, &(Command){.run = run_replay, .op.replay = {recording, first_step}});
}

static void run_free(AsyncDevice *device, const Command *command)
{
    (void)device;
    free(command->op.replay.recording->list);
    free(command->op.replay.recording);
}

static void record_free(void *device, void *recording)
{
    async_not_recording(device);
    async_give(device, &(Command){.run = run_free, .op.replay.recording = recording});
}

void async_span(void *context, const FedgateSpan *span)
{
    AsyncDevice *device = context;
    FedgateSpan whole = *span;
    if (whole.kind == FEDGATE_SPAN_KERNEL)   // the longer part of it lies before the inner operation
        whole.begin = whole.launched_ns = async_now.begin_ns;
    if (!async_asked.traces) {
        device->outer->span(device->outer->context, &whole);
        return;
    }
    pthread_mutex_lock(&device->lock);
    if (device->tracing && device->span_count < ASYNC_SPANS)
        device->spans[device->span_count++] = whole;
    pthread_mutex_unlock(&device->lock);
}

static bool trace_begin(void *handle, char *ret_reason)
{
    (void)ret_reason;
    AsyncDevice *device = handle;
    if (device->tracing)
        async_breach("a trace begins in a trace");
    device->tracing = true;
    async_now.traces++;
    return true;
}

static bool trace_end(void *handle, FedgateTraceTrust *ret_trust, char *ret_reason)
{
    (void)ret_reason;
    AsyncDevice *device = handle;
    if (!device->tracing)
        async_breach("a trace ends that did not begin");
    async_drain(device, LANE_COMPUTE);
    device->tracing = false;
    pthread_mutex_lock(&device->lock);
    for (size_t i = 0; i < device->span_count; i++)
        device->outer->span(device->outer->context, &device->spans[i]);
    device->span_count = 0;
    pthread_mutex_unlock(&device->lock);
    *ret_trust = async_asked.trust;
    return true;
}

void async_set_records(FedgateBackend *backend)
{
    const bool records = async_asked.records, traces = async_asked.traces;
    backend->record_begin = records ? record_begin : NULL;
    backend->record_end = records ? record_end : NULL;
    backend->replay = records ? replay : NULL;
    backend->record_free = records ? record_free : NULL;
    backend->trace_begin = traces ? trace_begin : NULL;
    backend->trace_end = traces ? trace_end : NULL;
}
