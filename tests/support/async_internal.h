// async_internal.h - what the files of the asynchronous device share.
#ifndef FEDGATE_TESTS_ASYNC_INTERNAL_H
#define FEDGATE_TESTS_ASYNC_INTERNAL_H

#include "async_backend.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

enum { LANE_COMPUTE, LANE_COPY, LANE_COUNT };
enum { ASYNC_SPANS = 1 << 18 };   // most of a trace

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
    bool mark;   // of a step; op.step is its number
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

typedef struct AsyncNow {
    _Atomic int64_t operations, replays, recordings, fetches, waits, copies, traces, run, ahead;
    _Atomic int64_t begin_ns;   // of the operation that runs
    _Atomic bool released, failed;
} AsyncNow;
extern const FedgateBackend *async_within;   // whose operations these are
extern AsyncOptions async_asked;
extern AsyncNow async_now;

void async_breach(const char *what);
void async_not_recording(const AsyncDevice *device);
void async_give(void *device, const Command *command);   // to the compute lane, or into the recording
void async_drain(AsyncDevice *device, int lane);
void async_last(int64_t ns);
void async_span(void *context, const FedgateSpan *span);   // of the inner device or a copy

void async_set_operations(FedgateBackend *backend);   // async_operations.c
void async_set_records(FedgateBackend *backend);   // async_record.c

#endif
