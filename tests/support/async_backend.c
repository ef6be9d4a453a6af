// async_backend - two lanes, each a thread with a queue of commands that hold their operations by value.
#include "async_backend.h"

#include <fedgate/clock.h>
#include <fedgate/error.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LANE_COMPUTE, LANE_COPY, LANE_COUNT };
enum { QUEUE = 1 << 16, SPANS = 1 << 18 };

typedef struct AsyncDevice AsyncDevice;
typedef struct AsyncEvent {
    AsyncDevice *device;
    int64_t recorded, passed;   // times; under the device's lock
} AsyncEvent;

typedef struct Command Command;
typedef void (*Run)(AsyncDevice *device, const Command *command);
struct Command {
    Run run;
    union {
        FedgateGather gather;
        FedgateAssemble assemble;
        FedgateDense dense;
        FedgateDenseBack dense_back;
        FedgateDropout dropout;
        FedgateLoss loss;
        FedgateScore score;
        FedgateCast cast;
        FedgateSettle settle;
        FedgateAdam adam;
        FedgateCopy copy;
        struct {
            void *to;
            const void *from;
            int64_t bytes;
        } move;
        struct {
            const float *x;
            int64_t count;
            void *total;
        } sum;
        int64_t step;
        struct {
            struct Recording *recording;
            int64_t first;
        } replay;
    } op;
    AsyncEvent *event, *after;   // passes behind it; is waited for before it
    int64_t event_time, after_time, launched_ns;
};

typedef struct Recording {
    Command *list;
    size_t count, capacity;
    int64_t first_mark;
} Recording;

typedef struct Lane {
    AsyncDevice *device;
    pthread_t thread;
    Command *queue;   // ring
    int64_t given, done;
} Lane;

struct AsyncDevice {
    const FedgateHost *outer;
    FedgateHost host;   // of the inner device
    void *inner;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    Lane lane[LANE_COUNT];
    bool closing;
    Recording *recording;
    _Atomic bool tracing;
    FedgateSpan *spans;
    size_t span_count;
    int64_t settles;
};

static const FedgateBackend *within;
static AsyncOptions asked;
static struct {
    _Atomic int64_t operations, replays, recordings, fetches, waits, copies, traces, run, ahead;
    _Atomic bool released, failed;
} now;

static void breach(const char *what)
{
    fprintf(stderr, "async device: %s\n", what);
    abort();
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

static void give(void *handle, const Command *command)
{
    AsyncDevice *device = handle;
    Recording *recording = device->recording;
    if (recording) {
        if (recording->count == recording->capacity) {
            recording->capacity = recording->capacity > 0 ? 2 * recording->capacity : 64;
            recording->list = realloc(recording->list, recording->capacity * sizeof *command);
            if (!recording->list)
                breach("no memory for a recording");
        }
        recording->list[recording->count++] = *command;
        return;
    }
    pthread_mutex_lock(&device->lock);
    push(device, LANE_COMPUTE, command);
    pthread_mutex_unlock(&device->lock);
}

static void not_recording(const AsyncDevice *device)
{
    if (device->recording)
        breach("something that is no operation was given while it recorded");
}

// Locked. The time that the event passes next.
static void will_pass(Command *command, AsyncEvent *event)
{
    command->event = event;
    command->event_time = ++event->recorded;
}

static void drain(AsyncDevice *device, int which)
{
    pthread_mutex_lock(&device->lock);
    int64_t upto = device->lane[which].given;
    while (device->lane[which].done < upto)
        pthread_cond_wait(&device->moved, &device->lock);
    pthread_mutex_unlock(&device->lock);
}

// -- operations

static void last(int64_t ns)
{
    if (ns > 0)
        clock_sleep_ns(clock_real(), ns);
}

static void begin_operation(void)
{
    now.operations++;
    last(asked.operation_ns);
}

#define OPERATION(slot, member, Type)                                                                        \
    static void run_##slot(AsyncDevice *device, const Command *command)                                      \
    {                                                                                                        \
        begin_operation();                                                                                   \
        within->slot(device->inner, &command->op.member);                                                    \
    }                                                                                                        \
    static void give_##slot(void *device, const Type *op)                                                    \
    {                                                                                                        \
        give(device, &(Command){.run = run_##slot, .op.member = *op});                                       \
    }
OPERATION(gather, gather, FedgateGather)
OPERATION(assemble, assemble, FedgateAssemble)
OPERATION(assemble_back, assemble, FedgateAssemble)
OPERATION(dropout, dropout, FedgateDropout)
OPERATION(loss, loss, FedgateLoss)
OPERATION(score, score, FedgateScore)
OPERATION(cast, cast, FedgateCast)
OPERATION(adam, adam, FedgateAdam)
#undef OPERATION

static bool positive(FedgateType type, const void *values, int64_t at)
{
    if (type == FEDGATE_FP32)
        return ((const float *)values)[at] > 0;
    uint16_t bits = ((const uint16_t *)values)[at];
    return bits != 0 && bits < 0x8000;   // NaN counts as positive: its mask bit is nobody's business
}

static void run_dense(AsyncDevice *device, const Command *command)
{
    FedgateDense op = command->op.dense;
    uint8_t *mask = op.mask;
    op.mask = NULL;
    begin_operation();
    within->dense(device->inner, &op);
    for (int64_t i = 0; mask && i < op.rows; i++) {
        uint8_t *row = mask + i * fedgate_mask_bytes(1, op.out);
        memset(row, 0, (size_t)fedgate_mask_bytes(1, op.out));
        for (int64_t j = 0; j < op.out; j++)
            if (positive(op.y_type, op.y, i * op.out + j))
                row[j / 8] |= (uint8_t)(1u << j % 8);
    }
}

static void run_dense_back(AsyncDevice *device, const Command *command)
{
    FedgateDenseBack op = command->op.dense_back;
    const uint8_t *mask = op.mask;
    op.mask = NULL;
    begin_operation();
    for (int64_t i = 0; mask && op.below_relu && i < op.rows; i++)
        for (int64_t j = 0; j < op.in; j++)
            if (positive(op.type, op.x, i * op.in + j) !=
                ((mask[i * fedgate_mask_bytes(1, op.in) + j / 8] >> j % 8) & 1))
                breach("a mask differs from the rows it stands for");
    within->dense_back(device->inner, &op);
}

static void give_dense(void *device, const FedgateDense *op)
{
    give(device, &(Command){.run = run_dense, .op.dense = *op});
}

static void give_dense_back(void *device, const FedgateDenseBack *op)
{
    give(device, &(Command){.run = run_dense_back, .op.dense_back = *op});
}

static void run_settle(AsyncDevice *device, const Command *command)
{
    begin_operation();
    device->settles++;
    if (asked.fail_at > 0 && device->settles >= asked.fail_at && !now.released) {
        now.failed = true;
        pthread_mutex_lock(&device->lock);
        pthread_cond_broadcast(&device->moved);
        pthread_mutex_unlock(&device->lock);
    }
    while (device->settles == asked.hang_at && !now.released)
        clock_sleep_ns(clock_real(), 1000000);
    within->settle(device->inner, &command->op.settle);
}

static void give_settle(void *device, const FedgateSettle *op)
{
    give(device, &(Command){.run = run_settle, .op.settle = *op});
}

static void run_zero(AsyncDevice *device, const Command *command)
{
    begin_operation();
    within->zero(device->inner, command->op.move.to, command->op.move.bytes);
}

static void give_zero(void *device, void *to, int64_t bytes)
{
    give(device, &(Command){.run = run_zero, .op.move = {.to = to, .bytes = bytes}});
}

static void run_copy(AsyncDevice *device, const Command *command)
{
    begin_operation();
    within->copy(device->inner, command->op.move.to, command->op.move.from, command->op.move.bytes);
}

static void give_copy(void *device, void *to, const void *from, int64_t bytes)
{
    give(device, &(Command){.run = run_copy, .op.move = {to, from, bytes}});
}

static void run_square_sum(AsyncDevice *device, const Command *command)
{
    begin_operation();
    within->square_sum(device->inner, command->op.sum.x, command->op.sum.count, command->op.sum.total);
}

static void give_square_sum(void *device, const float *x, int64_t count, double *ret_sum)
{
    give(device, &(Command){.run = run_square_sum, .op.sum = {x, count, ret_sum}});
}

static void run_count(AsyncDevice *device, const Command *command)
{
    begin_operation();
    within->count_nonfinite(device->inner, command->op.sum.x, command->op.sum.count, command->op.sum.total);
}

static void give_count(void *device, const float *x, int64_t count, int64_t *total)
{
    give(device, &(Command){.run = run_count, .op.sum = {x, count, total}});
}

static void run_mark(AsyncDevice *device, const Command *command)
{
    within->mark_step(device->inner, command->op.step);
}

static void give_mark(void *handle, int64_t step)
{
    AsyncDevice *device = handle;
    if (device->recording && device->recording->first_mark < 0)
        device->recording->first_mark = step;
    give(device, &(Command){.run = run_mark, .op.step = step});
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
    not_recording(device);
    pthread_mutex_lock(&device->lock);
    will_pass(&command, event);
    push(device, LANE_COMPUTE, &command);
    pthread_mutex_unlock(&device->lock);
}

static bool has_passed(const AsyncEvent *event)
{
    return event->recorded > 0 && event->passed == event->recorded && !now.failed;
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
    now.waits++;
    pthread_mutex_lock(&device->lock);
    while (!has_passed(event) && !now.failed &&
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
    not_recording(device);
    pthread_mutex_lock(&device->lock);
    command.after_time = command.after->recorded;
    if (command.after_time == 0)
        breach("an event is waited for that was never recorded");
    push(device, LANE_COMPUTE, &command);
    pthread_mutex_unlock(&device->lock);
}

static void report_span(void *context, const FedgateSpan *span)
{
    AsyncDevice *device = context;
    FedgateSpan whole = *span;
    if (whole.kind == FEDGATE_SPAN_KERNEL)   // the longer part of it lies before the inner operation
        whole.begin = whole.launched_ns = whole.begin - asked.operation_ns;
    if (!asked.traces) {
        device->outer->span(device->outer->context, &whole);
        return;
    }
    pthread_mutex_lock(&device->lock);
    if (device->tracing && device->span_count < SPANS)
        device->spans[device->span_count++] = whole;
    pthread_mutex_unlock(&device->lock);
}

static void run_copy_in(AsyncDevice *device, const Command *command)
{
    const FedgateCopy *copy = &command->op.copy;
    int64_t begin = now_ns(device);
    now.copies++;
    memcpy(copy->to, copy->from, (size_t)copy->bytes);
    last(asked.copy_ns);
    report_span(device, &(FedgateSpan){.kind = FEDGATE_SPAN_COPY_IN,
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
            breach("a copy waits for an event that was never recorded");
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
    not_recording(device);
    now.fetches++;
    pthread_mutex_lock(&device->lock);
    will_pass(&command, done);
    push(device, LANE_COMPUTE, &command);
    pthread_mutex_unlock(&device->lock);
}

static bool failed(char *ret_reason)
{
    if (now.failed)
        snprintf(ret_reason, FEDGATE_REASON_SIZE, "planted failure");
    return now.failed;
}

static bool move_and_wait(void *device, void *to, const void *from, int64_t bytes, char *ret_reason)
{
    not_recording(device);
    give(device, &(Command){.run = run_move, .op.move = {to, from, bytes}});
    drain(device, LANE_COMPUTE);
    return !failed(ret_reason);
}

static bool synchronise(void *device, char *ret_reason)
{
    not_recording(device);
    drain(device, LANE_COPY);
    drain(device, LANE_COMPUTE);
    return !failed(ret_reason);
}

// -- recordings and traces

static bool record_begin(void *handle, char *ret_reason)
{
    AsyncDevice *device = handle;
    not_recording(device);
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
        breach("a recording ends that did not begin");
    device->recording = NULL;
    now.recordings++;
    *ret_bytes = (int64_t)recording->count * 64;
    return recording;
}

static void run_replay(AsyncDevice *device, const Command *command)
{
    const Recording *recording = command->op.replay.recording;
    for (size_t i = 0; i < recording->count; i++) {
        Command one = recording->list[i];
        if (one.run == run_mark)
            one.op.step += command->op.replay.first - recording->first_mark;
        one.run(device, &one);
    }
    now.run++;
}

static void replay(void *handle, void *recording, int64_t first_step)
{
    AsyncDevice *device = handle;
    not_recording(device);
    now.replays++;
    int64_t ahead = now.replays - now.run;
    if (ahead > now.ahead)
        now.ahead = ahead;
    give(device, &(Command){.run = run_replay, .op.replay = {recording, first_step}});
}

static void run_free(AsyncDevice *device, const Command *command)
{
    (void)device;
    free(command->op.replay.recording->list);
    free(command->op.replay.recording);
}

static void record_free(void *device, void *recording)
{
    not_recording(device);
    give(device, &(Command){.run = run_free, .op.replay.recording = recording});
}

static bool trace_begin(void *handle, char *ret_reason)
{
    (void)ret_reason;
    AsyncDevice *device = handle;
    if (device->tracing)
        breach("a trace begins in a trace");
    device->tracing = true;
    now.traces++;
    return true;
}

static bool trace_end(void *handle, FedgateTraceTrust *ret_trust, char *ret_reason)
{
    (void)ret_reason;
    AsyncDevice *device = handle;
    if (!device->tracing)
        breach("a trace ends that did not begin");
    drain(device, LANE_COMPUTE);
    device->tracing = false;
    pthread_mutex_lock(&device->lock);
    for (size_t i = 0; i < device->span_count; i++)
        device->outer->span(device->outer->context, &device->spans[i]);
    device->span_count = 0;
    pthread_mutex_unlock(&device->lock);
    *ret_trust = asked.trust;
    return true;
}

// -- opening

static int64_t host_now(void *context)
{
    return now_ns(context);
}

static void close_device(void *handle)
{
    AsyncDevice *device = handle;
    now.released = true;
    if (device->lane[LANE_COMPUTE].queue)
        drain(device, LANE_COMPUTE);
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
        within->close(device->inner);
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
    device->host.span = report_span;
    pthread_mutex_init(&device->lock, NULL);
    pthread_cond_init(&device->moved, NULL);
    device->spans = calloc(SPANS, sizeof *device->spans);
    device->inner = within->open(index, threads, &device->host, ret_facts, ret_reason);
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
    ret_facts->masks = asked.masks;
    snprintf(ret_facts->timeline, sizeof ret_facts->timeline, "async lanes");
    return device;
}

static void *take(void *handle, FedgateMemory memory, int64_t bytes)
{
    return within->take(((AsyncDevice *)handle)->inner, memory, bytes);
}

static void give_back(void *handle, FedgateMemory memory, void *address, int64_t bytes)
{
    within->give(((AsyncDevice *)handle)->inner, memory, address, bytes);
}

const FedgateBackend *async_backend(const FedgateBackend *inner, const AsyncOptions *options)
{
    static FedgateBackend backend;
    within = inner;
    asked = *options;
    now.operations = now.replays = now.recordings = now.fetches = now.waits = now.copies = now.traces = 0;
    now.run = now.ahead = 0;
    now.released = now.failed = false;
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
    backend.mark_step = give_mark;
    backend.count_nonfinite = give_count;
    backend.zero = give_zero;
    backend.copy = give_copy;
    backend.gather = give_gather;
    backend.assemble = give_assemble;
    backend.assemble_back = give_assemble_back;
    backend.dense = give_dense;
    backend.dense_back = give_dense_back;
    backend.dropout = give_dropout;
    backend.loss = give_loss;
    backend.score = give_score;
    backend.square_sum = give_square_sum;
    backend.cast = give_cast;
    backend.settle = give_settle;
    backend.adam = give_adam;
    backend.record_begin = asked.records ? record_begin : NULL;
    backend.record_end = asked.records ? record_end : NULL;
    backend.replay = asked.records ? replay : NULL;
    backend.record_free = asked.records ? record_free : NULL;
    backend.trace_begin = asked.traces ? trace_begin : NULL;
    backend.trace_end = asked.traces ? trace_end : NULL;
    return &backend;
}

AsyncCounts async_counts(void)
{
    return (AsyncCounts){.operations = now.operations,
                         .replays = now.replays,
                         .recordings = now.recordings,
                         .fetches = now.fetches,
                         .waits = now.waits,
                         .copies = now.copies,
                         .traces = now.traces,
                         .ahead = now.ahead};
}

void async_release(void)
{
    now.released = true;
    now.failed = false;
}
