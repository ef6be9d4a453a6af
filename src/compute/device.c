// device - the facade: accounts, errors with words, spans into the timeline; the back end does the rest.
#include <fedgate/compute.h>

#include <fedgate/fault.h>
#include <fedgate/text.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device_internal.h"
#include "load.h"

static const int64_t DEFAULT_TIMEOUT_NS = 60000000000;

struct DeviceRecording {
    void *handle;
    char account[LEDGER_NAME_SIZE];
    int64_t bytes;
};

struct DeviceEvent {
    const FedgateBackend *backend;
    const Device *device;   // gone when the event is freed after it
    void *handle;
};

void device_watch(Device *device, DeviceWatch *watch)
{
    device->watched = pthread_self();
    device->watch = watch;
}

static const SpanKind span_kinds[] = {
    [FEDGATE_SPAN_KERNEL] = SPAN_KERNEL,        [FEDGATE_SPAN_COPY_IN] = SPAN_COPY_H2D,
    [FEDGATE_SPAN_COPY_OUT] = SPAN_COPY_D2H,    [FEDGATE_SPAN_STEP] = SPAN_STEP_MARK,
    [FEDGATE_SPAN_COPY_WITHIN] = SPAN_COPY_D2D, [FEDGATE_SPAN_SET] = SPAN_MEMSET,
};

static int64_t host_now(void *context)
{
    return clock_monotonic_ns(((Device *)context)->clock);
}

static void host_span(void *context, const FedgateSpan *span)
{
    Timeline *timeline = atomic_load_explicit(&((Device *)context)->timeline, memory_order_acquire);
    if (!timeline)
        return;
    Span out = {.kind = span_kinds[span->kind],
                .stream = span->stream,
                .begin = span->begin,
                .end = span->end,
                .launched_ns = span->launched_ns,
                .step = span->step,
                .bytes = span->bytes,
                .pageable = span->pageable,
                .name = span->name};
    if (out.kind == SPAN_STEP_MARK && out.step < ((Device *)context)->marks_from)
        return;
    timeline_add(timeline, &out);
}

void device_trace_from(Device *device, int64_t step)
{
    device->marks_from = step;
}

static bool describe(Device *device, const FedgateFacts *facts)
{
    DeviceInfo *info = &device->info;
    info->cores = facts->cores;
    info->threads = facts->threads;
    info->types = facts->types;
    info->memory_bytes = facts->memory_bytes;
    info->context_bytes = facts->context_bytes;
    info->workspace_bytes = facts->workspace_bytes;
    info->asynchronous = facts->asynchronous;
    info->records = device->backend->replay != NULL;
    info->traces = device->backend->trace_begin != NULL;
    FedgateMemoryUse use;
    if (device_memory(device, &use) && use.used_before > 0)
        info->other_bytes = use.used_before;
    return text_copy(info->backend, sizeof info->backend, device->backend->name) &&
           text_copy(info->name, sizeof info->name, facts->name) &&
           text_copy(info->libraries, sizeof info->libraries, facts->libraries) &&
           text_copy(info->core, sizeof info->core, facts->core) &&
           text_copy(info->timeline, sizeof info->timeline, facts->timeline) &&
           text_copy(info->instruction_set, sizeof info->instruction_set, facts->instruction_set);
}

Device *device_open_backend(const FedgateBackend *backend, int threads, Clock *clock, Ledger *ledger,
                            Error *error)
{
    if (!backend_check(backend, error) || !backend_probe(backend, error))
        return NULL;
    Device *device = calloc(1, sizeof *device);
    if (!device) {
        FAIL(error, ERROR_MEMORY, 0, "could not take memory for a device");
        return NULL;
    }
    *device =
        (Device){.backend = backend, .clock = clock, .ledger = ledger, .lock = PTHREAD_MUTEX_INITIALIZER};
    device->host = (FedgateHost){.context = device,
                                 .modelled = clock_is_simulated(clock),
                                 .now_ns = host_now,
                                 .span = host_span,
                                 .timeout_ns = DEFAULT_TIMEOUT_NS};
#ifdef FEDGATE_FAULTS
    device->host.fault = fault_value;
#endif
    char reason[FEDGATE_REASON_SIZE] = "";
    FedgateFacts facts = {0};
    device->handle = backend->open(0, threads, &device->host, &facts, reason);
    if (!device->handle)
        FAIL(error, ERROR_DEVICE, 0, "could not open device 0 of compute back end '%s': %s", backend->name,
             reason);
    else if (!describe(device, &facts))
        FAIL(error, ERROR_DEVICE, 0, "compute back end '%s' describes its device in too many words",
             backend->name);
    else
        return device;
    device_close(device);
    return NULL;
}

Device *device_open(const char *backend, int threads, Clock *clock, Ledger *ledger, Error *error)
{
    const FedgateBackend *found = backend_find(backend, error);
    return found ? device_open_backend(found, threads, clock, ledger, error) : NULL;
}

void device_close(Device *device)
{
    if (!device)
        return;
    device_memory_done(device);
    if (device->handle)
        device->backend->close(device->handle);
    free(device);
}

void device_set_timeout(Device *device, int64_t timeout_ns)
{
    device->host.timeout_ns = timeout_ns;
}

const DeviceInfo *device_info(const Device *device)
{
    return &device->info;
}

DeviceEvent *device_event_new(Device *device, Error *error)
{
    DeviceEvent *event = calloc(1, sizeof *event);
    if (event) {
        event->backend = device->backend;
        event->device = device;
        event->handle = device->backend->event_new(device->handle);
        if (event->handle)
            return event;
        free(event);
    }
    FAIL(error, ERROR_MEMORY, 0, "could not make a device event");
    return NULL;
}

void device_event_free(DeviceEvent *event)
{
    if (!event)
        return;
    event->backend->event_free(event->handle);
    free(event);
}

void device_record_compute(Device *device, DeviceEvent *event)
{
    CALL(device, event_record(device->handle, event->handle));
}

bool device_event_done(const DeviceEvent *event)
{
    bool passed;
    ASK(event->device, passed, event_done(event->handle));
    return passed;
}

bool device_event_wait(DeviceEvent *event, int64_t timeout_ns, Error *error)
{
    bool passed;
    ASK(event->device, passed, event_wait(event->handle, timeout_ns));
    return passed || FAIL(error, ERROR_DEVICE, 0, "device event has not passed within the limit of %lld ms",
                          (long long)(timeout_ns / 1000000));
}

bool device_copy_in(Device *device, void *to, const void *from, int64_t bytes, int64_t step, bool pageable,
                    DeviceEvent *after, DeviceEvent *done, Error *error)
{
    char reason[FEDGATE_REASON_SIZE] = "";
    FedgateCopy copy = {.to = to,
                        .from = from,
                        .bytes = bytes,
                        .step = step,
                        .pageable = pageable || fault_set("copy.pageable"),
                        .after = after ? after->handle : NULL,
                        .done = done ? done->handle : NULL};
    bool good;
    ASK(device, good, copy_in(device->handle, &copy, reason));
    return good ||
           FAIL(error, ERROR_DEVICE, 0, "could not queue a copy of %lld bytes: %s", (long long)bytes, reason);
}

void device_set_staging(Device *device, void *pinned, int64_t bytes, DeviceEvent *passed)
{
    device->staging.memory = pinned;
    device->staging.bytes = bytes;
    device->staging.passed = passed;
}

// False: a piece did not come in time; the back end's own way then says what is wrong.
static bool copy_staged(Device *device, char *to, const char *from, int64_t bytes)
{
    for (int64_t at = 0, piece; at < bytes; at += piece) {
        bool passed;
        piece = bytes - at < device->staging.bytes ? bytes - at : device->staging.bytes;
        device_fetch(device, device->staging.memory, from + at, piece, device->staging.passed);
        ASK(device, passed, event_wait(device->staging.passed->handle, device->host.timeout_ns));
        if (!passed)
            return false;
        memcpy(to + at, device->staging.memory, (size_t)piece);
    }
    return true;
}

bool device_copy_out(Device *device, void *to_host, const void *from, int64_t bytes, Error *error)
{
    char reason[FEDGATE_REASON_SIZE] = "";
    bool good;
    if (device->staging.memory && copy_staged(device, to_host, from, bytes))
        return true;
    ASK(device, good, copy_out(device->handle, to_host, from, bytes, reason));
    return good || FAIL(error, ERROR_DEVICE, 0, "could not copy %lld bytes from the device: %s",
                        (long long)bytes, reason);
}

bool device_load(Device *device, void *to, const void *from_host, int64_t bytes, Error *error)
{
    char reason[FEDGATE_REASON_SIZE] = "";
    bool good;
    ASK(device, good, load(device->handle, to, from_host, bytes, reason));
    return good || FAIL(error, ERROR_DEVICE, 0, "could not load %lld bytes into the device: %s",
                        (long long)bytes, reason);
}

bool device_synchronise(Device *device, Error *error)
{
    char reason[FEDGATE_REASON_SIZE] = "";
    bool good;
    ASK(device, good, synchronise(device->handle, reason));
    return good || FAIL(error, ERROR_DEVICE, 0, "device failed: %s", reason);
}

void device_await(Device *device, DeviceEvent *event)
{
    CALL(device, await(device->handle, event->handle));
}

void device_fetch(Device *device, void *to_pinned, const void *from, int64_t bytes, DeviceEvent *done)
{
    CALL(device, fetch(device->handle, to_pinned, from, bytes, done->handle));
}

// -- recordings

// The planted call does not come back: until a signal comes, or never.
static void begin_step(Device *device, int64_t step)
{
    if (device->watch && step >= 0)
        atomic_store_explicit(&device->watch->step, step, memory_order_relaxed);
    double hang = fault_value("device.hang_step", -1);
    if (device->hung || hang < 0 || (double)step < hang)
        return;
    device->hung = true;
    count_call(device);
    do
        pause();
    while (fault_set("device.hang_deaf"));
    count_call(device);
}

bool device_record_begin(Device *device, Error *error)
{
    char reason[FEDGATE_REASON_SIZE] = "";
    if (!device->backend->record_begin)
        return FAIL(error, ERROR_UNAVAILABLE, 0, "compute back end '%s' records nothing",
                    device->info.backend);
    bool good;
    ASK(device, good, record_begin(device->handle, reason));
    return good || FAIL(error, ERROR_DEVICE, 0, "could not begin a recording: %s", reason);
}

DeviceRecording *device_record_end(Device *device, const char *account, Error *error)
{
    char reason[FEDGATE_REASON_SIZE] = "";
    int64_t bytes = 0;
    void *handle;
    ASK(device, handle, record_end(device->handle, &bytes, reason));
    if (!handle) {
        FAIL(error, ERROR_DEVICE, 0, "could not make a recording: %s", reason);
        return NULL;
    }
    DeviceRecording *recording = calloc(1, sizeof *recording);
    if (recording && text_copy(recording->account, sizeof recording->account, account) &&
        ledger_charge(device->ledger, LEDGER_DEVICE, account, bytes, error)) {
        recording->handle = handle;
        recording->bytes = bytes;
        return recording;
    }
    if (!recording)
        FAIL(error, ERROR_MEMORY, 0, "could not take memory for a recording");
    CALL(device, record_free(device->handle, handle));
    free(recording);
    return NULL;
}

void device_replay(Device *device, DeviceRecording *recording, int64_t first_step)
{
    begin_step(device, first_step);
    CALL(device, replay(device->handle, recording->handle, first_step));
}

void device_record_free(Device *device, DeviceRecording *recording)
{
    if (!recording)
        return;
    CALL(device, record_free(device->handle, recording->handle));
    ledger_return(device->ledger, LEDGER_DEVICE, recording->account, recording->bytes);
    free(recording);
}

// -- steps and traces

bool device_trace_begin(Device *device, Error *error)
{
    char reason[FEDGATE_REASON_SIZE] = "";
    bool good = true;
    if (device->backend->trace_begin)
        ASK(device, good, trace_begin(device->handle, reason));
    return good || FAIL(error, ERROR_DEVICE, 0, "could not begin a trace: %s", reason);
}

bool device_trace_end(Device *device, FedgateTraceTrust *trust, Error *error)
{
    char reason[FEDGATE_REASON_SIZE] = "";
    FedgateTraceTrust seen = {0};
    if (!device->backend->trace_end)
        return true;
    bool good;
    ASK(device, good, trace_end(device->handle, &seen, reason));
    if (!good)
        return FAIL(error, ERROR_DEVICE, 0, "could not end a trace: %s", reason);
    trust->dropped += seen.dropped;
    trust->zero_timestamps += seen.zero_timestamps;
    trust->causality += seen.causality;
    trust->overheads += seen.overheads;
    trust->overhead_ns += seen.overhead_ns;
    return !seen.reason[0] || trust->reason[0] ||
           text_copy(trust->reason, sizeof trust->reason, seen.reason) ||
           FAIL(error, ERROR_DEVICE, 0, "a trace says too much about its trust");
}

void device_mark_step(Device *device, int64_t step)
{
    begin_step(device, step);
    CALL(device, mark_step(device->handle, step));
}

void device_trace(Device *device, Timeline *timeline)
{
    atomic_store_explicit(&device->timeline, timeline, memory_order_release);
}

int64_t device_now_ns(Device *device)
{
    return device->backend->now_ns ? device->backend->now_ns(device->handle) : host_now(device);
}
