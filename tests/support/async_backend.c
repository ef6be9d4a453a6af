// async_backend - two lanes, each a thread with a queue of commands that hold their operations by value.
#include "async_internal.h"

#include <fedgate/clock.h>
#include <fedgate/error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { QUEUE = 1 << 16 };

const FedgateBackend *async_within;
AsyncOptions async_asked;
AsyncNow async_now;

void async_breach(const char *what)
{
    fprintf(stderr, "async device: %s\n", what);
    abort();
}

void async_last(int64_t ns)
{
    if (ns > 0)
        clock_sleep_ns(clock_real(), ns);
}

static int64_t now_ns(const AsyncDevice *device)
{
    return device->outer->now_ns(device->outer->context);
}

// -- lanes

static void pass(AsyncDevice *device, AsyncEvent *event, int64_t time)
{
    pthread_mutex_lock(&device->lock);
    if (time > event->passed)
        event->passed = time;
    pthread_cond_broadcast(&device->moved);
    pthread_mutex_unlock(&device->lock);
}

static void wait_for(AsyncDevice *device, const AsyncEvent *event, int64_t time)
{
    pthread_mutex_lock(&device->lock);
    while (event->passed < time && !device->closing)
        pthread_cond_wait(&device->moved, &device->lock);
    pthread_mutex_unlock(&device->lock);
}

static void *work(void *context)
{
    Lane *lane = context;
    AsyncDevice *device = lane->device;
    for (;;) {
        pthread_mutex_lock(&device->lock);
        while (lane->done == lane->given && !device->closing)
            pthread_cond_wait(&device->moved, &device->lock);
        bool empty = lane->done == lane->given;
        Command command = lane->queue[lane->done % QUEUE];
        pthread_mutex_unlock(&device->lock);
        if (empty)
            return NULL;
        if (command.after)
            wait_for(device, command.after, command.after_time);
        if (command.run)
            command.run(device, &command);
        if (command.event)
            pass(device, command.event, command.event_time);
        pthread_mutex_lock(&device->lock);
        lane->done++;
        pthread_cond_broadcast(&device->moved);
        pthread_mutex_unlock(&device->lock);
    }
}

// Locked.
static void push(AsyncDevice *device, int which, const Command *command)
{
    Lane *lane = &device->lane[which];
    while (lane->given - lane->done == QUEUE)
        pthread_cond_wait(&device->moved, &device->lock);
    lane->queue[lane->given++ % QUEUE] = *command;
    pthread_cond_broadcast(&device->moved);
}

void async_give(void *handle, const Command *command)
{
    AsyncDevice *device = handle;
    Recording *recording = device->recording;
    if (recording) {
        if (recording->count == recording->capacity) {
            recording->capacity = recording->capacity > 0 ? 2 * recording->capacity : 64;
            recording->list = realloc(recording->list, recording->capacity * sizeof *command);
            if (!recording->list)
                async_breach("no memory for a recording");
        }
        recording->list[recording->count++] = *command;
        return;
    }
    pthread_mutex_lock(&device->lock);
    push(device, LANE_COMPUTE, command);
    pthread_mutex_unlock(&device->lock);
}

void async_not_recording(const AsyncDevice *device)
{
    if (device->recording)
        async_breach("something that is no operation was given while it recorded");
}

// Locked. The time that the event passes next.
static void will_pass(Command *command, AsyncEvent *event)
{
    command->event = event;
    command->event_time = ++event->recorded;
}

void async_drain(AsyncDevice *device, int which)
{
    pthread_mutex_lock(&device->lock);
    int64_t upto = device->lane[which].given;
    while (device->lane[which].done < upto)
        pthread_cond_wait(&device->moved, &device->lock);
    pthread_mutex_unlock(&device->lock);
}

// -- events, copies, reading back

static void *event_new(void *handle)
{
    AsyncEvent *event = calloc(1, sizeof *event);
    if (event)
        event->device = handle;
    return event;
}

static void event_free(void *event)
{
    free(event);
}

static void event_record(void *handle, void *event)
{
    AsyncDevice *device = handle;
    Command command = {0};
    if (device->recording) {
        command.event = event;
        async_give(device, &command);
        return;
    }
    pthread_mutex_lock(&device->lock);
    will_pass(&command, event);
    push(device, LANE_COMPUTE, &command);
    pthread_mutex_unlock(&device->lock);
}

static bool has_passed(const AsyncEvent *event)
{
    return event->recorded > 0 && event->passed == event->recorded && !async_now.failed;
}

static bool event_done(void *handle)
{
    AsyncEvent *event = handle;
    pthread_mutex_lock(&event->device->lock);
    bool passed = has_passed(event);
    pthread_mutex_unlock(&event->device->lock);
    return passed;
}

static bool event_wait(void *handle, int64_t timeout_ns)
{
    AsyncEvent *event = handle;
    AsyncDevice *device = event->device;
    int64_t until_ns = clock_monotonic_ns(clock_real()) + timeout_ns;
    struct timespec until = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
    async_now.waits++;
    pthread_mutex_lock(&device->lock);
    while (!has_passed(event) && !async_now.failed &&
           pthread_cond_clockwait(&device->moved, &device->lock, CLOCK_MONOTONIC, &until) == 0)
        continue;
    bool passed = has_passed(event);
    pthread_mutex_unlock(&device->lock);
    return passed;
}

static void await(void *handle, void *event)
{
    AsyncDevice *device = handle;
    Command command = {.after = event};
    async_not_recording(device);
    pthread_mutex_lock(&device->lock);
    command.after_time = command.after->recorded;
    if (command.after_time == 0)
        async_breach("an event is waited for that was never recorded");
    push(device, LANE_COMPUTE, &command);
    pthread_mutex_unlock(&device->lock);
}

static void run_copy_in(AsyncDevice *device, const Command *command)
{
    const FedgateCopy *copy = &command->op.copy;
    int64_t begin = now_ns(device);
    async_now.copies++;
    memcpy(copy->to, copy->from, (size_t)copy->bytes);
    async_last(async_asked.copy_ns);
    async_span(device, &(FedgateSpan){.kind = FEDGATE_SPAN_COPY_IN,
                                      .stream = 1,
                                      .begin = begin,
                                      .end = now_ns(device),
                                      .launched_ns = command->launched_ns,
                                      .step = copy->step,
                                      .bytes = copy->bytes,
                                      .pageable = copy->pageable,
                                      .name = "copy"});
}

// Loader threads give copies at any time, also while the training thread records.
static bool copy_in(void *handle, const FedgateCopy *copy, char *ret_reason)
{
    (void)ret_reason;
    AsyncDevice *device = handle;
    Command command = {
        .run = run_copy_in, .op.copy = *copy, .after = copy->after, .launched_ns = now_ns(device)};
    pthread_mutex_lock(&device->lock);
    if (command.after) {
        command.after_time = command.after->recorded;
        if (command.after_time == 0)
            async_breach("a copy waits for an event that was never recorded");
    }
    if (copy->done)
        will_pass(&command, copy->done);
    push(device, LANE_COPY, &command);
    pthread_mutex_unlock(&device->lock);
    return true;
}

static void run_move(AsyncDevice *device, const Command *command)
{
    (void)device;
    memcpy(command->op.move.to, command->op.move.from, (size_t)command->op.move.bytes);
}

static void fetch(void *handle, void *to_pinned, const void *from, int64_t bytes, void *done)
{
    AsyncDevice *device = handle;
    Command command = {.run = run_move, .op.move = {to_pinned, from, bytes}};
    async_not_recording(device);
    async_now.fetches++;
    pthread_mutex_lock(&device->lock);
    will_pass(&command, done);
    push(device, LANE_COMPUTE, &command);
    pthread_mutex_unlock(&device->lock);
}

static bool failed(char *ret_reason)
{
    if (async_now.failed)
        snprintf(ret_reason, FEDGATE_REASON_SIZE, "planted failure");
    return async_now.failed;
}

static bool move_and_wait(void *device, void *to, const void *from, int64_t bytes, char *ret_reason)
{
    async_not_recording(device);
    async_give(device, &(Command){.run = run_move, .op.move = {to, from, bytes}});
    async_drain(device, LANE_COMPUTE);
    return !failed(ret_reason);
}

static bool synchronise(void *device, char *ret_reason)
{
    async_not_recording(device);
    async_drain(device, LANE_COPY);
    async_drain(device, LANE_COMPUTE);
    return !failed(ret_reason);
}

// -- opening

static int64_t host_now(void *context)
{
    return now_ns(context);
}

static void close_device(void *handle)
{
    AsyncDevice *device = handle;
    async_now.released = true;
    if (device->lane[LANE_COMPUTE].queue)
        async_drain(device, LANE_COMPUTE);
    pthread_mutex_lock(&device->lock);
    device->closing = true;
    pthread_cond_broadcast(&device->moved);
    pthread_mutex_unlock(&device->lock);
    for (int i = 0; i < LANE_COUNT; i++) {
        if (device->lane[i].device)
            pthread_join(device->lane[i].thread, NULL);
        free(device->lane[i].queue);
    }
    if (device->inner)
        async_within->close(device->inner);
    pthread_cond_destroy(&device->moved);
    pthread_mutex_destroy(&device->lock);
    free(device->spans);
    free(device);
}

static void *open_device(int index, int threads, const FedgateHost *host, FedgateFacts *ret_facts,
                         char *ret_reason)
{
    AsyncDevice *device = calloc(1, sizeof *device);
    if (!device)
        return NULL;
    device->outer = host;
    device->host = *host;
    device->host.context = device;
    device->host.now_ns = host_now;
    device->host.span = async_span;
    pthread_mutex_init(&device->lock, NULL);
    pthread_cond_init(&device->moved, NULL);
    device->spans = calloc(ASYNC_SPANS, sizeof *device->spans);
    device->inner = async_within->open(index, threads, &device->host, ret_facts, ret_reason);
    bool good = device->spans && device->inner;
    for (int i = 0; good && i < LANE_COUNT; i++) {
        Lane *lane = &device->lane[i];
        lane->queue = calloc(QUEUE, sizeof *lane->queue);
        lane->device = device;
        good = lane->queue && pthread_create(&lane->thread, NULL, work, lane) == 0;
        if (!good)
            lane->device = NULL;
    }
    if (!good) {
        close_device(device);
        return NULL;
    }
    ret_facts->asynchronous = true;
    snprintf(ret_facts->timeline, sizeof ret_facts->timeline, "async lanes");
    return device;
}

static void *take(void *handle, FedgateMemory memory, int64_t bytes)
{
    return async_within->take(((AsyncDevice *)handle)->inner, memory, bytes);
}

static void give_back(void *handle, FedgateMemory memory, void *address, int64_t bytes)
{
    async_within->give(((AsyncDevice *)handle)->inner, memory, address, bytes);
}

const FedgateBackend *async_backend(const FedgateBackend *inner, const AsyncOptions *options)
{
    static FedgateBackend backend;
    async_within = inner;
    async_asked = *options;
    async_now.operations = async_now.replays = async_now.recordings = async_now.fetches = async_now.waits =
        async_now.copies = async_now.traces = 0;
    async_now.run = async_now.ahead = 0;
    async_now.released = async_now.failed = false;
    backend = *inner;
    backend.name = "async";
    backend.open = open_device;
    backend.close = close_device;
    backend.take = take;
    backend.give = give_back;
    backend.event_new = event_new;
    backend.event_free = event_free;
    backend.event_record = event_record;
    backend.event_done = event_done;
    backend.event_wait = event_wait;
    backend.copy_in = copy_in;
    backend.copy_out = move_and_wait;
    backend.load = move_and_wait;
    backend.synchronise = synchronise;
    backend.await = await;
    backend.fetch = fetch;
    async_set_operations(&backend);
    async_set_records(&backend);
    return &backend;
}

AsyncCounts async_counts(void)
{
    return (AsyncCounts){.operations = async_now.operations,
                         .replays = async_now.replays,
                         .recordings = async_now.recordings,
                         .fetches = async_now.fetches,
                         .waits = async_now.waits,
                         .copies = async_now.copies,
                         .traces = async_now.traces,
                         .ahead = async_now.ahead};
}

void async_release(void)
{
    async_now.released = true;
    async_now.failed = false;
}
