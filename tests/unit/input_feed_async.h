// input_feed_async - the cpu back end as an asynchronous device: two streams of its own, compute that runs
// when its turn comes, events that pass on the device. Its pace can be set, and it can hang.
//
// One device a process. Only what a feed asks of a device runs on the streams; compute is whatever a test
// gives.
#ifndef FEDGATE_TESTS_INPUT_FEED_ASYNC_H
#define FEDGATE_TESTS_INPUT_FEED_ASYNC_H

#include <check.h>
#include <errno.h>
#include <fedgate/backend_abi.h>
#include <fedgate/clock.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct AsyncEvent {
    int64_t recorded, passed;   // how often
} AsyncEvent;

typedef struct AsyncOp {
    struct AsyncOp *next;
    AsyncEvent *before, *after;   // waits for this record of it; passes that
    int64_t record;
    void (*run)(void *context);
    void *context;
    int64_t wait_ns;
} AsyncOp;

typedef struct AsyncStream {
    pthread_t thread;
    AsyncOp *first, **last;
} AsyncStream;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    AsyncStream stream[2];   // compute, copy
    bool closing, hangs;   // hangs: compute stands still
    int64_t copies_left;   // then the device fails; -1: never
    int64_t copy_ns;   // that a copy takes longer
} async = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .copies_left = -1};

static inline bool async_may_run(const AsyncStream *stream, const AsyncOp *op)
{
    bool stands = async.hangs && stream == &async.stream[0];
    return !stands && (!op->before || op->before->passed >= op->record);
}

static inline void *async_main(void *context)
{
    AsyncStream *stream = context;
    pthread_mutex_lock(&async.lock);
    while (!async.closing) {
        AsyncOp *op = stream->first;
        if (!op || !async_may_run(stream, op)) {
            pthread_cond_wait(&async.changed, &async.lock);
            continue;
        }
        pthread_mutex_unlock(&async.lock);
        if (op->wait_ns > 0)
            clock_sleep_ns(clock_real(), op->wait_ns);
        if (op->run)
            op->run(op->context);
        pthread_mutex_lock(&async.lock);
        stream->first = op->next;
        if (!stream->first)
            stream->last = &stream->first;
        if (op->after)
            op->after->passed++;
        free(op);
        pthread_cond_broadcast(&async.changed);
    }
    pthread_mutex_unlock(&async.lock);
    return NULL;
}

static inline void async_queue(int stream, AsyncOp op)
{
    AsyncOp *queued = malloc(sizeof *queued);
    ck_assert(queued != NULL);
    *queued = op;
    queued->next = NULL;
    pthread_mutex_lock(&async.lock);
    if (op.before)
        queued->record = op.before->recorded;   // as an event stands now
    if (op.after)
        op.after->recorded++;
    *async.stream[stream].last = queued;
    async.stream[stream].last = &queued->next;
    pthread_cond_broadcast(&async.changed);
    pthread_mutex_unlock(&async.lock);
}

// Compute: runs after what was given before, so much later.
static inline void async_give(void (*run)(void *), void *context, int64_t wait_ns)
{
    async_queue(0, (AsyncOp){.run = run, .context = context, .wait_ns = wait_ns});
}

static inline void async_drain(void)
{
    pthread_mutex_lock(&async.lock);
    while (async.stream[0].first || async.stream[1].first)
        pthread_cond_wait(&async.changed, &async.lock);
    pthread_mutex_unlock(&async.lock);
}

static inline void async_hang(bool hangs)
{
    pthread_mutex_lock(&async.lock);
    async.hangs = hangs;
    pthread_cond_broadcast(&async.changed);
    pthread_mutex_unlock(&async.lock);
}

// -- the slots of the contract

static inline void *async_open(int device, int threads, const FedgateHost *host, FedgateFacts *ret_facts,
                               char *ret_reason)
{
    void *handle = fedgate_backend.open(device, threads, host, ret_facts, ret_reason);
    ret_facts->asynchronous = true;
    for (int i = 0; i < 2; i++) {
        async.stream[i].last = &async.stream[i].first;
        ck_assert(pthread_create(&async.stream[i].thread, NULL, async_main, &async.stream[i]) == 0);
    }
    return handle;
}

static inline void async_close(void *device)
{
    pthread_mutex_lock(&async.lock);
    async.closing = true;
    pthread_cond_broadcast(&async.changed);
    pthread_mutex_unlock(&async.lock);
    for (int i = 0; i < 2; i++) {
        pthread_join(async.stream[i].thread, NULL);
        for (AsyncOp *op = async.stream[i].first, *next; op; op = next) {
            next = op->next;
            free(op);
        }
    }
    fedgate_backend.close(device);
}

static inline void *async_event_new(void *device)
{
    (void)device;
    return calloc(1, sizeof(AsyncEvent));
}

static inline void async_event_record(void *device, void *event)
{
    (void)device;
    async_queue(0, (AsyncOp){.after = event});
}

static inline bool async_event_wait(void *handle, int64_t timeout_ns)
{
    AsyncEvent *event = handle;
    int64_t until_ns = clock_monotonic_ns(clock_real()) + timeout_ns;
    struct timespec until = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
    pthread_mutex_lock(&async.lock);
    while ((event->recorded == 0 || event->passed < event->recorded) && timeout_ns > 0 &&
           pthread_cond_clockwait(&async.changed, &async.lock, CLOCK_MONOTONIC, &until) != ETIMEDOUT)
        continue;
    bool passed = event->recorded > 0 && event->passed == event->recorded;
    pthread_mutex_unlock(&async.lock);
    return passed;
}

static inline bool async_event_done(void *event)
{
    return async_event_wait(event, 0);
}

static inline void async_copy_now(void *context)
{
    FedgateCopy *copy = context;
    memcpy(copy->to, copy->from, (size_t)copy->bytes);
    free(copy);
}

static inline bool async_copy_in(void *device, const FedgateCopy *copy, char *ret_reason)
{
    (void)device;
    if (async.copies_left == 0) {   // under the lock of the feed
        snprintf(ret_reason, FEDGATE_REASON_SIZE, "the device has failed");
        return false;
    }
    async.copies_left -= async.copies_left > 0;
    FedgateCopy *kept = malloc(sizeof *kept);
    ck_assert(kept != NULL);
    *kept = *copy;
    async_queue(1, (AsyncOp){.before = copy->after,
                             .after = copy->done,
                             .run = async_copy_now,
                             .context = kept,
                             .wait_ns = async.copy_ns});
    return true;
}

static inline void async_await(void *device, void *event)
{
    (void)device;
    async_queue(0, (AsyncOp){.before = event});
}

static inline bool async_load(void *device, void *to, const void *from_host, int64_t bytes, char *ret_reason)
{
    async_drain();
    return fedgate_backend.load(device, to, from_host, bytes, ret_reason);
}

static inline bool async_synchronise(void *device, char *ret_reason)
{
    async_drain();
    return fedgate_backend.synchronise(device, ret_reason);
}

typedef struct AsyncGather {
    void *device;
    FedgateGather op;
} AsyncGather;

static inline void async_gather_now(void *context)
{
    AsyncGather *gather = context;
    fedgate_backend.gather(gather->device, &gather->op);
    free(gather);
}

static inline void async_gather(void *device, const FedgateGather *op)
{
    AsyncGather *kept = malloc(sizeof *kept);
    ck_assert(kept != NULL);
    *kept = (AsyncGather){device, *op};
    async_give(async_gather_now, kept, 0);
}

static inline FedgateBackend async_backend(void)
{
    FedgateBackend backend = fedgate_backend;
    backend.open = async_open;
    backend.close = async_close;
    backend.event_new = async_event_new;
    backend.event_free = free;
    backend.event_record = async_event_record;
    backend.event_done = async_event_done;
    backend.event_wait = async_event_wait;
    backend.copy_in = async_copy_in;
    backend.await = async_await;
    backend.load = async_load;
    backend.synchronise = async_synchronise;
    backend.gather = async_gather;
    return backend;
}

#endif
