// async_backend.h - a device that works beside the host, for tests without a GPU: the operations of another
// back end, run in order by a thread, with copies on a second one.
//
// It is strict where a GPU is silent: nothing but operations and marks may be given while it records, an
// event that is waited for was recorded. A breach ends the program.
#ifndef FEDGATE_TESTS_ASYNC_BACKEND_H
#define FEDGATE_TESTS_ASYNC_BACKEND_H

#include <fedgate/backend_abi.h>

typedef struct AsyncOptions {
    bool records, traces;
    int64_t operation_ns;   // each operation lasts so much longer
    int64_t copy_ns;   // each copy likewise
    int64_t hang_at;   // this settle (1 is the first) never ends before async_release; 0: none
    int64_t fail_at;   // from this settle on the device has failed; 0: never
    FedgateTraceTrust trust;   // of every trace
} AsyncOptions;
typedef struct AsyncCounts {
    int64_t operations, replays, recordings, fetches, waits, copies, traces;
    int64_t ahead;   // most replays given and not yet run
} AsyncCounts;

// One at a time: the back end stays as it is until the next call.
const FedgateBackend *async_backend(const FedgateBackend *inner, const AsyncOptions *options);
AsyncCounts async_counts(void);   // since that call
void async_release(void);   // what hangs goes on, what failed is well again

#endif
