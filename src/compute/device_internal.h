// device_internal - the open device as the files of the facade share it.
#ifndef FEDGATE_COMPUTE_DEVICE_INTERNAL_H
#define FEDGATE_COMPUTE_DEVICE_INTERNAL_H

#include <fedgate/compute.h>
#include <pthread.h>
#include <stdatomic.h>

#include "arena.h"

typedef struct DeviceBlock {   // one block of the back end and how it is cut; arena NULL: taken singly
    void *memory;
    int64_t bytes;
    DeviceArena *arena;
} DeviceBlock;

struct Device {
    const FedgateBackend *backend;
    void *handle;
    FedgateHost host;
    Clock *clock;
    Ledger *ledger;
    DeviceInfo info;
    _Atomic(Timeline *) timeline;
    int64_t marks_from;   // marks of steps before it are not kept
    DeviceWatch *watch;
    pthread_t watched;   // whose calls it counts
    bool hung;   // the planted hang was there
    struct {
        void *memory;
        int64_t bytes;
        DeviceEvent *passed;
    } staging;   // of copies out; the caller's, NULL: none
    // -- memory.c
    pthread_mutex_t lock;   // of what follows
    bool started;   // memory was taken: the workspace is there, an arena can no longer be set
    void *workspace;
    DeviceBlock block[LEDGER_KIND_COUNT];
    void *zeroed;   // event: a piece is zero before it is given out
};

void device_memory_done(Device *device);   // workspace and blocks back to the back end

// Around each call of the back end that may not come back. The count has one writer, so it needs no locked
// addition.
static inline void count_call(const Device *device)
{
    if (device->watch && pthread_equal(pthread_self(), device->watched))
        atomic_store_explicit(&device->watch->calls,
                              atomic_load_explicit(&device->watch->calls, memory_order_relaxed) + 1,
                              memory_order_relaxed);
}

#define CALL(device, call)        (count_call(device), (device)->backend->call, count_call(device))
#define ASK(device, answer, call) (count_call(device), (answer) = (device)->backend->call, count_call(device))

#endif
