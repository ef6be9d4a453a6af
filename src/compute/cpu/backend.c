// backend - the cpu row of the contract: opening, memory, synchronisation, and the table itself.
#include "cpu_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blas.h"

enum { CPU_ALIGNMENT = 64, CPU_THREADS_MAX = 1024 };

static int device_count(void)
{
    return 1;
}

static void close_device(void *handle)
{
    CpuDevice *device = handle;
    stream_free(device->stream);
    pool_free(device->pool);
    free(device->scratch);
    free(device);
}

static void *take(void *device, FedgateMemory memory, int64_t bytes)
{
    (void)device, (void)memory;
    size_t size = ((size_t)bytes + CPU_ALIGNMENT - 1) / CPU_ALIGNMENT * CPU_ALIGNMENT;
    void *address = aligned_alloc(CPU_ALIGNMENT, size > 0 ? size : CPU_ALIGNMENT);
    if (address)
        memset(address, 0, size);   // touched now: no page fault inside a measured step
    return address;
}

static bool take_scratch(CpuDevice *device, FedgateFacts *ret_facts)
{
    ret_facts->threads = pool_threads(device->pool);
    ret_facts->context_bytes = ret_facts->threads * (int64_t)sizeof *device->scratch;
    device->scratch = take(device, FEDGATE_MEMORY_DEVICE, ret_facts->context_bytes);
    return device->scratch != NULL;
}

static void *open_device(int index, int threads, const FedgateHost *host, FedgateFacts *ret_facts,
                         char *ret_reason)
{
    (void)index;
    cpu_facts(ret_facts);
    snprintf(ret_facts->timeline, sizeof ret_facts->timeline, "cpu staging thread");
    ret_facts->threads = threads > 0 ? threads : ret_facts->cores;
    if (ret_facts->threads > CPU_THREADS_MAX)
        ret_facts->threads = CPU_THREADS_MAX;
    blas_serial();
    CpuDevice *device = calloc(1, sizeof *device);
    if (device) {
        device->host = host;
        device->step = -1;
        device->pool = pool_new(ret_facts->threads);
        device->stream = device->pool ? stream_new(device) : NULL;
        if (device->stream && take_scratch(device, ret_facts))
            return device;
        close_device(device);
    }
    snprintf(ret_reason, FEDGATE_REASON_SIZE, "could not start %d threads with %zu bytes of scratch each",
             ret_facts->threads, sizeof(CpuScratch));
    return NULL;
}

static void give(void *device, FedgateMemory memory, void *address, int64_t bytes)
{
    (void)device, (void)memory, (void)bytes;
    free(address);
}

static bool copy_in(void *device, const FedgateCopy *copy, char *ret_reason)
{
    return stream_copy(((CpuDevice *)device)->stream, copy, ret_reason);
}

static void copy_span(CpuDevice *device, FedgateSpanKind kind, int64_t begin, int64_t bytes, const char *name)
{
    FedgateSpan span = {.kind = kind,
                        .begin = begin,
                        .end = cpu_now(device),
                        .launched_ns = begin,
                        .step = device->step,
                        .bytes = bytes,
                        .pageable = true,
                        .name = name};
    device->host->span(device->host->context, &span);
}

static bool copy_out(void *handle, void *to_host, const void *from, int64_t bytes, char *ret_reason)
{
    (void)ret_reason;
    CpuDevice *device = handle;
    int64_t begin = cpu_now(device);
    memcpy(to_host, from, (size_t)bytes);
    copy_span(device, FEDGATE_SPAN_COPY_OUT, begin, bytes, "copy out");
    return true;
}

static bool load(void *handle, void *to, const void *from_host, int64_t bytes, char *ret_reason)
{
    (void)ret_reason;
    CpuDevice *device = handle;
    int64_t begin = cpu_now(device);
    memcpy(to, from_host, (size_t)bytes);
    copy_span(device, FEDGATE_SPAN_COPY_IN, begin, bytes, "load");
    return true;
}

static bool synchronise(void *device, char *ret_reason)
{
    (void)ret_reason;
    stream_drain(((CpuDevice *)device)->stream);
    return true;
}

void cpu_span(CpuDevice *device, const char *name, int64_t begin)
{
    FedgateSpan span = {.kind = FEDGATE_SPAN_KERNEL,
                        .begin = begin,
                        .end = cpu_now(device),
                        .launched_ns = begin,
                        .step = device->step,
                        .name = name};
    device->host->span(device->host->context, &span);
}

static void mark_step(void *handle, int64_t step)
{
    CpuDevice *device = handle;
    device->step = step;
    int64_t now = cpu_now(device);
    FedgateSpan span = {.kind = FEDGATE_SPAN_STEP,
                        .begin = now,
                        .end = now,
                        .launched_ns = now,
                        .step = step,
                        .name = "step"};
    device->host->span(device->host->context, &span);
}

// Compute is the caller's thread: it waits itself.
static void await(void *device, void *event)
{
    (void)device;
    while (!cpu_event_wait(event, INT64_C(1000000000)))
        continue;
}

static void fetch(void *handle, void *to_pinned, const void *from, int64_t bytes, void *done)
{
    CpuDevice *device = handle;
    int64_t begin = cpu_now(device);
    memcpy(to_pinned, from, (size_t)bytes);
    copy_span(device, FEDGATE_SPAN_COPY_OUT, begin, bytes, "fetch");
    cpu_event_record(device, done);
}

static void zero(void *handle, void *to, int64_t bytes)
{
    int64_t begin = cpu_now(handle);
    memset(to, 0, (size_t)bytes);
    cpu_span(handle, "zero", begin);
}

static void copy(void *handle, void *to, const void *from, int64_t bytes)
{
    int64_t begin = cpu_now(handle);
    memcpy(to, from, (size_t)bytes);
    cpu_span(handle, "copy", begin);
}

const FedgateBackend fedgate_backend = {
    .abi = FEDGATE_BACKEND_ABI,
    .size = sizeof(FedgateBackend),
    .name = "cpu",
    .build = FEDGATE_VERSION,
    .probe = cpu_supported,
    .device_count = device_count,
    .open = open_device,
    .close = close_device,
    .take = take,
    .give = give,
    .event_new = cpu_event_new,
    .event_free = cpu_event_free,
    .event_record = cpu_event_record,
    .event_done = cpu_event_done,
    .event_wait = cpu_event_wait,
    .copy_in = copy_in,
    .copy_out = copy_out,
    .load = load,
    .synchronise = synchronise,
    .await = await,
    .fetch = fetch,
    .mark_step = mark_step,
    .count_nonfinite = cpu_count_nonfinite,
    .zero = zero,
    .copy = copy,
    .gather = cpu_gather,
    .assemble = cpu_assemble,
    .assemble_back = cpu_assemble_back,
    .dense = cpu_dense,
    .dense_back = cpu_dense_back,
    .dropout = cpu_dropout,
    .loss = cpu_loss,
    .score = cpu_score,
    .square_sum = cpu_square_sum,
    .cast = cpu_cast,
    .settle = cpu_settle,
    .adam = cpu_adam,
};
