// cupti.cu - CUPTI's activity records: found at run time, switched on and off, buffers handed back and forth.
//
// CUPTI knows one client a process, so what is kept is static. Buffers come and go in its own threads, under
// a lock that is never held while CUPTI is called. It gives times in the host's monotonic clock, because that
// is the clock it is told, once, before anything is enabled: to register it again spoils records.
#include "cuda_cupti.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFER_BYTES = 4 << 20, MOST_BUFFERS = 64 };

#define CUPTI_FUNCTIONS(ROW)                                                                                 \
    ROW(cuptiGetVersion)                                                                                     \
    ROW(cuptiGetResultString)                                                                                \
    ROW(cuptiSubscribe)                                                                                      \
    ROW(cuptiActivityRegisterCallbacks)                                                                      \
    ROW(cuptiActivityRegisterTimestampCallback)                                                              \
    ROW(cuptiActivityEnable)                                                                                 \
    ROW(cuptiActivityDisable)                                                                                \
    ROW(cuptiEnableCallback)                                                                                 \
    ROW(cuptiActivityFlushAll)                                                                               \
    ROW(cuptiActivityGetNextRecord)                                                                          \
    ROW(cuptiActivityGetNumDroppedRecords)                                                                   \
    ROW(cuptiGetStreamIdEx)

// No synchronisation: the host waits here by asking, and each question is a record (4299 in four windows of a
// night, 1 us each).
static const CUpti_ActivityKind kinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                                           CUPTI_ACTIVITY_KIND_MEMSET, CUPTI_ACTIVITY_KIND_OVERHEAD};
// Calls that put work on the device, and no other: they say when it was launched. They are called back rather
// than recorded, which costs no more and needs no other call to be recorded. cuBLASLt launches through the
// driver, where a call of the run time is seen again, under the same number.
static const struct {
    CUpti_CallbackDomain domain;
    CUpti_CallbackId id;
} launches[] = {
    {CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000},
    {CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_v11060},
    {CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000},
    {CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020},
    {CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020},
    {CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel},
    {CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx},
};

typedef struct Buffer {
    uint8_t *bytes;
    size_t valid;
} Buffer;

static struct Tracer {
    bool tried, ready;
    char why_not[128];
#define ROW(name) decltype(&::name) name;
    CUPTI_FUNCTIONS(ROW)
#undef ROW
    CUpti_SubscriberHandle subscriber;
    const FedgateHost *host;   // of the device that traced last; NULL: it is closed
    int64_t last_ns;
    // under the lock
    Buffer full[MOST_BUFFERS];
    uint8_t *idle[MOST_BUFFERS];
    int full_count, idle_count, made;
    int64_t refused;   // requests without a buffer
    TraceCall *calls;
    size_t call_count, call_room;
    bool calls_lost;
} tracer;
static pthread_mutex_t buffers_lock = PTHREAD_MUTEX_INITIALIZER;

// -- what CUPTI calls

static uint64_t CUPTIAPI give_time(void)
{
    const FedgateHost *host = __atomic_load_n(&tracer.host, __ATOMIC_ACQUIRE);
    if (host)
        __atomic_store_n(&tracer.last_ns, host->now_ns(host->context), __ATOMIC_RELAXED);
    return (uint64_t)__atomic_load_n(&tracer.last_ns, __ATOMIC_RELAXED);
}

static void CUPTIAPI give_buffer(uint8_t **buffer, size_t *size, size_t *most_records)
{
    *most_records = 0;
    *buffer = NULL;
    pthread_mutex_lock(&buffers_lock);
    if (tracer.idle_count > 0) {
        *buffer = tracer.idle[--tracer.idle_count];
    } else if (tracer.made < MOST_BUFFERS) {
        *buffer = (uint8_t *)aligned_alloc(64, BUFFER_BYTES);
        tracer.made += *buffer != NULL;
    }
    tracer.refused += *buffer == NULL;
    pthread_mutex_unlock(&buffers_lock);
    *size = *buffer ? BUFFER_BYTES : 0;
}

static void CUPTIAPI keep_buffer(CUcontext, uint32_t, uint8_t *buffer, size_t, size_t valid)
{
    pthread_mutex_lock(&buffers_lock);
    if (valid > 0)
        tracer.full[tracer.full_count++] = Buffer{buffer, valid};
    else
        tracer.idle[tracer.idle_count++] = buffer;
    pthread_mutex_unlock(&buffers_lock);
}

static thread_local bool quiet;   // this thread records: what it launches does not run now

// cuBLASLt clears a workspace of no bytes before some of its kernels in half precision: a call, and no work.
static bool moves_nothing(CUpti_CallbackDomain domain, CUpti_CallbackId id, const CUpti_CallbackData *call)
{
    if (domain != CUPTI_CB_DOMAIN_RUNTIME_API)
        return false;
    if (id == CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020)
        return ((const cudaMemsetAsync_v3020_params *)call->functionParams)->count == 0;
    return id == CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020 &&
           ((const cudaMemcpyAsync_v3020_params *)call->functionParams)->count == 0;
}

// A call counts when it comes back and succeeded: one that fails and is made again in another way, as the
// libraries do, launches nothing. Results of both domains are 0 when good.
static void CUPTIAPI note_call(void *, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *data)
{
    const CUpti_CallbackData *call = (const CUpti_CallbackData *)data;
    if (quiet)
        return;
    if (call->callbackSite == CUPTI_API_ENTER) {
        *call->correlationData = (uint64_t)give_time();
        return;
    }
    if (*(const int *)call->functionReturnValue != 0 || moves_nothing(domain, id, call))
        return;
    const char *name = call->symbolName ? call->symbolName : call->functionName;
    pthread_mutex_lock(&buffers_lock);
    if (tracer.call_count == tracer.call_room) {
        const size_t room = tracer.call_room ? 2 * tracer.call_room : 4096;
        TraceCall *calls = (TraceCall *)realloc(tracer.calls, room * sizeof *calls);
        if (calls) {
            tracer.calls = calls;
            tracer.call_room = room;
        }
    }
    if (tracer.call_count < tracer.call_room)
        tracer.calls[tracer.call_count++] =
            TraceCall{(int64_t)*call->correlationData, call->correlationId, name};
    else
        tracer.calls_lost = true;
    pthread_mutex_unlock(&buffers_lock);
}

void cupti_quiet(bool on)
{
    quiet = on;
}

// -- starting it, once

static bool refuse(const char *what, CUptiResult result)
{
    const char *words = NULL;
    if (tracer.cuptiGetResultString)
        tracer.cuptiGetResultString(result, &words);
    snprintf(tracer.why_not, sizeof tracer.why_not, "%s: %s", what, words ? words : "unknown error");
    return false;
}

static bool load_functions(void *library)
{
#define ROW(name)                                                                                            \
    tracer.name = (decltype(tracer.name))dlsym(library, #name);                                              \
    if (!tracer.name) {                                                                                      \
        snprintf(tracer.why_not, sizeof tracer.why_not, "CUPTI has no function '%s'", #name);                \
        return false;                                                                                        \
    }
    CUPTI_FUNCTIONS(ROW)
#undef ROW
    return true;
}

// The slot is taken for good: whoever else wants it later is refused, and who has it now is known.
static bool take_slot(void)
{
    CUptiResult result = tracer.cuptiSubscribe(&tracer.subscriber, note_call, NULL);
    if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)
        snprintf(tracer.why_not, sizeof tracer.why_not, "another profiler holds CUPTI's slot");
    else if (result != CUPTI_SUCCESS)
        refuse("CUPTI gives no slot", result);
    return result == CUPTI_SUCCESS;
}

static bool start(void)
{
    static const char *const files[] = {"libcupti.so.13"};
    char tried[400];
    uint32_t version = 0;
    void *library = cuda_library(files, 1, tried, sizeof tried);
    if (!library) {
        snprintf(tracer.why_not, sizeof tracer.why_not, "CUPTI is not found; tried %.100s", tried);
        return false;
    }
    if (!load_functions(library))
        return false;
    CUptiResult result = tracer.cuptiGetVersion(&version);
    if (result == CUPTI_SUCCESS && version < CUPTI_API_VERSION) {
        snprintf(tracer.why_not, sizeof tracer.why_not, "CUPTI is of version %u, older than %d", version,
                 CUPTI_API_VERSION);
        return false;
    }
    if (result != CUPTI_SUCCESS || !take_slot())
        return result == CUPTI_SUCCESS ? false : refuse("CUPTI has no version", result);
    result = tracer.cuptiActivityRegisterTimestampCallback(give_time);
    if (result == CUPTI_SUCCESS)
        result = tracer.cuptiActivityRegisterCallbacks(give_buffer, keep_buffer);
    return result == CUPTI_SUCCESS || refuse("CUPTI takes no callbacks", result);
}

// All kinds and callbacks on, or all off; false leaves words.
static bool switch_kinds(bool on)
{
    CUptiResult result = CUPTI_SUCCESS, first = CUPTI_SUCCESS;
    for (CUpti_ActivityKind kind : kinds) {
        result = on ? tracer.cuptiActivityEnable(kind) : tracer.cuptiActivityDisable(kind);
        first = first == CUPTI_SUCCESS ? result : first;
    }
    for (const auto &launch : launches) {
        result = tracer.cuptiEnableCallback(on, tracer.subscriber, launch.domain, launch.id);
        first = first == CUPTI_SUCCESS ? result : first;
    }
    return first == CUPTI_SUCCESS || refuse(on ? "CUPTI enables not all" : "CUPTI disables not all", first);
}

const char *cupti_begin(const FedgateHost *host)
{
    __atomic_store_n(&tracer.host, host, __ATOMIC_RELEASE);
    if (!tracer.tried) {
        tracer.tried = true;
        tracer.ready = start();
    }
    if (tracer.ready && switch_kinds(true))
        return NULL;
    return tracer.why_not;
}

void cupti_forget(const FedgateHost *host)
{
    if (__atomic_load_n(&tracer.host, __ATOMIC_ACQUIRE) == host)
        __atomic_store_n(&tracer.host, (const FedgateHost *)NULL, __ATOMIC_RELEASE);
}

bool cupti_stream(cudaStream_t stream, uint32_t *ret_id)
{
    return tracer.ready && tracer.cuptiGetStreamIdEx(NULL, stream, 0, ret_id) == CUPTI_SUCCESS;
}

// What came in; the buffers go back to be filled again.
static int take_full(Buffer *full, CuptiCalls *ret_calls, FedgateTraceTrust *trust)
{
    pthread_mutex_lock(&buffers_lock);
    const int count = tracer.full_count;
    memcpy(full, tracer.full, (size_t)count * sizeof *full);
    *ret_calls = CuptiCalls{tracer.calls, tracer.call_count};
    trust->dropped += tracer.refused;
    if (tracer.calls_lost)
        trace_doubt(trust, "no memory for all calls");
    tracer.full_count = 0;
    tracer.refused = 0;
    tracer.calls = NULL;
    tracer.call_count = tracer.call_room = 0;
    tracer.calls_lost = false;
    pthread_mutex_unlock(&buffers_lock);
    return count;
}

CuptiCalls cupti_end(void (*each)(void *, const CUpti_Activity *), void *context, FedgateTraceTrust *trust)
{
    Buffer full[MOST_BUFFERS];
    CuptiCalls calls = {NULL, 0};
    size_t dropped = 0;
    if (!tracer.ready)
        return calls;
    if (!switch_kinds(false))
        trace_doubt(trust, "%s", tracer.why_not);
    if (tracer.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) != CUPTI_SUCCESS)
        trace_doubt(trust, "CUPTI did not hand over its records");
    const int count = take_full(full, &calls, trust);
    for (int i = 0; i < count; i++) {
        CUpti_Activity *record = NULL;
        while (tracer.cuptiActivityGetNextRecord(full[i].bytes, full[i].valid, &record) == CUPTI_SUCCESS)
            each(context, record);
    }
    if (tracer.cuptiActivityGetNumDroppedRecords(NULL, 0, &dropped) == CUPTI_SUCCESS)
        trust->dropped += (int64_t)dropped;
    pthread_mutex_lock(&buffers_lock);
    for (int i = 0; i < count; i++)
        tracer.idle[tracer.idle_count++] = full[i].bytes;
    pthread_mutex_unlock(&buffers_lock);
    return calls;
}
