// stream.cu - events, copies and waiting: what crosses between the host and the two streams.
//
// An event that was not recorded yet has not passed, which CUDA says otherwise. Copies and events are called
// from loader threads, each of which must choose the card first.
#include "cuda_internal.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef struct CudaEvent {
    CudaDevice *device;
    cudaEvent_t event;
    bool recorded;   // atomic
} CudaEvent;

void *cuda_event_new(void *handle)
{
    CudaEvent *event = (CudaEvent *)calloc(1, sizeof *event);
    if (!event)
        return NULL;
    event->device = (CudaDevice *)handle;
    if (cudaEventCreateWithFlags(&event->event, cudaEventDisableTiming) == cudaSuccess)
        return event;
    free(event);
    return NULL;
}

void cuda_event_free(void *handle)
{
    CudaEvent *event = (CudaEvent *)handle;
    if (event)
        cudaEventDestroy(event->event);
    free(event);
}

static bool recorded(const CudaEvent *event)
{
    return __atomic_load_n(&event->recorded, __ATOMIC_ACQUIRE);
}

static bool record(CudaEvent *event, cudaStream_t stream)
{
    bool good = cuda_good(event->device, cudaEventRecord(event->event, stream), "event");
    __atomic_store_n(&event->recorded, good, __ATOMIC_RELEASE);
    return good;
}

void cuda_event_record(void *handle, void *event)
{
    CudaDevice *device = (CudaDevice *)handle;
    CudaEvent *to = (CudaEvent *)event;
    if (!cuda_good(device, cudaSetDevice(device->index), "choice of the device"))
        return;
    if (!device->recording)
        record(to, device->compute);
    else if (cuda_good(device, cudaEventRecordWithFlags(to->event, device->compute, cudaEventRecordExternal),
                       "event in a recording"))
        device->recording->events++;
}

// A failed device passes no event: whoever waits is told at once, and `synchronise` says what failed.
bool cuda_event_done(void *handle)
{
    CudaEvent *event = (CudaEvent *)handle;
    if (!recorded(event))
        return false;
    cudaError_t result = cudaEventQuery(event->event);
    return result == cudaSuccess ||
           (result != cudaErrorNotReady && cuda_good(event->device, result, "event"));
}

// Asks until `done` says so. Without a pause at first: a batch that is nearly there is there sooner than a
// sleeper wakes. The time of a simulated clock stands still while we wait, so there the pauses are counted.
static bool wait_until(const CudaDevice *device, int64_t timeout_ns, bool (*done)(void *), void *asked)
{
    enum { SPIN_NS = 200000, PAUSE_NS = 20000 };
    const FedgateHost *host = device->host;
    const struct timespec pause = {0, PAUSE_NS};
    const int64_t begin = host->now_ns(host->context);
    int64_t paused = 0;
    for (;;) {
        if (done(asked))
            return true;
        int64_t waited = host->modelled ? paused : host->now_ns(host->context) - begin;
        if (waited >= timeout_ns || __atomic_load_n(&device->health, __ATOMIC_ACQUIRE) != CUDA_WELL)
            return false;
        if (waited >= SPIN_NS || host->modelled) {
            ppoll(NULL, 0, &pause, NULL);
            paused += PAUSE_NS;
        }
    }
}

bool cuda_event_wait(void *handle, int64_t timeout_ns)
{
    return wait_until(((CudaEvent *)handle)->device, timeout_ns, cuda_event_done, handle);
}

typedef struct Draining {
    cudaStream_t stream;
    cudaError_t result;
} Draining;

static bool drained(void *asked)
{
    Draining *draining = (Draining *)asked;
    draining->result = cudaStreamQuery(draining->stream);
    return draining->result != cudaErrorNotReady;
}

bool cuda_drain(CudaDevice *device, cudaStream_t stream, const char *doing)
{
    char words[96];
    Draining draining = {stream, cudaSuccess};
    const int64_t timeout_ns = device->host->timeout_ns;
    if (wait_until(device, timeout_ns, drained, &draining))
        return cuda_good(device, draining.result, doing);
    if (__atomic_load_n(&device->health, __ATOMIC_ACQUIRE) == CUDA_WELL) {
        snprintf(words, sizeof words, "no progress for %.3g s: a kernel never ends or the card hangs",
                 (double)timeout_ns / 1e9);
        __atomic_store_n(&device->hangs, true, __ATOMIC_RELEASE);
        cuda_fail(device, doing, words);
    }
    return false;
}

// The planted fault copy.serial: the copy waits for the compute queued so far, and later compute for the
// copy.
static cudaError_t take_turns(CudaDevice *device, bool before)
{
    cudaEvent_t event;
    cudaError_t result = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    if (result != cudaSuccess)
        return result;
    result = cudaEventRecord(event, before ? device->compute : device->copy);
    if (result == cudaSuccess)
        result = cudaStreamWaitEvent(before ? device->copy : device->compute, event, 0);
    cudaEventDestroy(event);   // freed when it has passed
    return result;
}

static cudaError_t queue_copy(CudaDevice *device, const FedgateCopy *copy, cudaStream_t stream)
{
    CudaEvent *after = (CudaEvent *)copy->after;
    cudaError_t result = cudaSuccess;
    // The caller has recorded `after` by now: the loader asks for a copy when the compute before it is
    // queued.
    if (after)
        result = recorded(after) ? cudaStreamWaitEvent(stream, after->event, 0) : cudaErrorNotReady;
    if (result == cudaSuccess && device->serial)
        result = take_turns(device, true);
    if (result == cudaSuccess)
        result = cudaMemcpyAsync(copy->to, copy->from, (size_t)copy->bytes, cudaMemcpyHostToDevice, stream);
    if (result == cudaSuccess && device->serial)
        result = take_turns(device, false);
    return result;
}

bool cuda_copy_in(void *handle, const FedgateCopy *copy, char *ret_reason)
{
    CudaDevice *device = (CudaDevice *)handle;
    CudaEvent *done = (CudaEvent *)copy->done;
    const cudaStream_t stream = device->on_compute ? device->compute : device->copy;
    if (done)
        __atomic_store_n(&done->recorded, false, __ATOMIC_RELEASE);
    cudaError_t result = cudaSetDevice(device->index);
    pthread_mutex_lock(&device->queue_lock);
    const int64_t begin = trace_now(device);
    if (result == cudaSuccess)
        result = queue_copy(device, copy, stream);
    trace_note_copy(device, copy, begin);
    bool good = cuda_good(device, result, "copy in") && (!done || record(done, stream));
    pthread_mutex_unlock(&device->queue_lock);
    return good || !cuda_failed(device, ret_reason);
}

static bool copy_and_wait(CudaDevice *device, void *to, const void *from, int64_t bytes, cudaMemcpyKind kind,
                          const char *doing, char *ret_reason)
{
    // Memory that is not pinned makes the call itself wait, without end, so it comes when nothing is left to
    // wait for.
    if (cuda_drain(device, device->compute, doing) &&
        cuda_good(device, cudaMemcpyAsync(to, from, (size_t)bytes, kind, device->compute), doing))
        cuda_drain(device, device->compute, doing);
    return !cuda_failed(device, ret_reason);
}

bool cuda_copy_out(void *handle, void *to_host, const void *from, int64_t bytes, char *ret_reason)
{
    return copy_and_wait((CudaDevice *)handle, to_host, from, bytes, cudaMemcpyDeviceToHost, "copy out",
                         ret_reason);
}

bool cuda_load(void *handle, void *to, const void *from_host, int64_t bytes, char *ret_reason)
{
    return copy_and_wait((CudaDevice *)handle, to, from_host, bytes, cudaMemcpyHostToDevice, "load",
                         ret_reason);
}

bool cuda_synchronise(void *handle, char *ret_reason)
{
    CudaDevice *device = (CudaDevice *)handle;
    if (cuda_drain(device, device->copy, "copy stream"))
        cuda_drain(device, device->compute, "compute stream");
    return !cuda_failed(device, ret_reason);
}

// A copy's event counts from the moment the copy was queued.
void cuda_await(void *handle, void *event)
{
    CudaDevice *device = (CudaDevice *)handle;
    if (recorded((CudaEvent *)event))
        cuda_good(device, cudaStreamWaitEvent(device->compute, ((CudaEvent *)event)->event, 0), "await");
    else
        cuda_fail(device, "await", "the event was never recorded");
}

void cuda_fetch(void *handle, void *to_pinned, const void *from, int64_t bytes, void *done)
{
    CudaDevice *device = (CudaDevice *)handle;
    cuda_good(device,
              cudaMemcpyAsync(to_pinned, from, (size_t)bytes, cudaMemcpyDeviceToHost, device->compute),
              "fetch");
    record((CudaEvent *)done, device->compute);
}

void cuda_zero(void *handle, void *to, int64_t bytes)
{
    CudaDevice *device = (CudaDevice *)handle;
    if (bytes > 0)
        cuda_good(device, cudaMemsetAsync(to, 0, (size_t)bytes, device->compute), "zero");
}

void cuda_copy(void *handle, void *to, const void *from, int64_t bytes)
{
    CudaDevice *device = (CudaDevice *)handle;
    if (bytes > 0)
        cuda_good(device, cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDeviceToDevice, device->compute),
                  "copy");
}
