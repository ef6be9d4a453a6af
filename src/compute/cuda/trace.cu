// trace.cu - sampled windows: what is noted while one is open, and CUPTI's records as spans.
//
// What cannot be had is no failure: the window then says why it is not to be trusted. The steps are cut by
// ../trace_window.h, from notes of the host's calls and the records' own order: nothing is added to what
// runs.
#include "cuda_cupti.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES = 512, NAME_SIZE = 96, NAME_PLACES = 1024 };

typedef struct Name {
    const char *given, *readable;
} Name;

static char names[NAMES][NAME_SIZE];   // static, because spans keep them
static int name_count;

struct CudaTrace {   // what was noted in the open window
    pthread_mutex_t lock;
    TraceNote *notes;
    TraceCopy *copies;
    TraceMark *marks;   // of replays, one after the other
    size_t note_count, copy_count, mark_count, note_room, copy_room, mark_room;
    bool lost, copies_before;
    const char *why_not;   // NULL: CUPTI records
    uint32_t compute_id, copy_id;   // CUPTI's numbers of the streams
    Name place[NAME_PLACES];
};

// -- notes, made while a window is open

template <typename T> static bool make_room(T **list, size_t *room, size_t wanted)
{
    if (wanted <= *room)
        return true;
    size_t more = wanted > 2 * *room ? wanted + 256 : 2 * *room;
    T *grown = (T *)realloc(*list, more * sizeof **list);
    if (!grown)
        return false;
    *list = grown;
    *room = more;
    return true;
}

int64_t trace_now(const CudaDevice *device)
{
    return trace_open(device) ? device->host->now_ns(device->host->context) : 0;
}

static void add_note(CudaDevice *device, const TraceNote *note)
{
    CudaTrace *trace = device->trace;
    trace->lost = trace->lost || !make_room(&trace->notes, &trace->note_room, trace->note_count + 1);
    if (!trace->lost)
        trace->notes[trace->note_count++] = *note;
}

void trace_note_step(CudaDevice *device, int64_t step)
{
    if (!trace_open(device))
        return;
    TraceNote note = {};
    note.begin = note.end = trace_now(device);
    note.step = step;
    add_note(device, &note);
}

// The marks are copied, for the recording may be freed before the window ends.
void trace_note_replay(CudaDevice *device, const CudaGraph *graph, int64_t first_step, int64_t begin)
{
    CudaTrace *trace = device->trace;
    if (!trace_open(device))
        return;
    const size_t count = (size_t)graph->count;
    trace->lost = trace->lost || !make_room(&trace->marks, &trace->mark_room, trace->mark_count + count);
    if (trace->lost)
        return;
    if (count > 0)
        memcpy(trace->marks + trace->mark_count, graph->marks, count * sizeof *graph->marks);
    trace->mark_count += count;
    TraceNote note = {};
    note.begin = begin;
    note.end = trace_now(device);
    note.step = first_step;
    note.replay = true;
    note.mark_count = graph->count;
    note.operations = graph->operations;
    add_note(device, &note);
}

void trace_note_copy(CudaDevice *device, const FedgateCopy *copy, int64_t begin)
{
    CudaTrace *trace = device->trace;
    if (begin == 0 || !trace_open(device))
        return;
    pthread_mutex_lock(&trace->lock);
    bool good = make_room(&trace->copies, &trace->copy_room, trace->copy_count + 1);
    if (good)
        trace->copies[trace->copy_count++] = TraceCopy{begin, trace_now(device), copy->step, copy->bytes};
    trace->lost = trace->lost || !good;
    pthread_mutex_unlock(&trace->lock);
}

// -- a window

static bool make_trace(CudaDevice *device)
{
    if (!device->trace) {
        device->trace = (CudaTrace *)calloc(1, sizeof *device->trace);
        if (device->trace)
            pthread_mutex_init(&device->trace->lock, NULL);
    }
    CudaTrace *trace = device->trace;
    if (trace) {
        trace->note_count = trace->copy_count = trace->mark_count = 0;
        trace->lost = false;
        memset(trace->place, 0, sizeof trace->place);
    }
    return trace != NULL;
}

void trace_close(CudaDevice *device)
{
    CudaTrace *trace = device->trace;
    cupti_forget(device->host);
    if (!trace)
        return;
    free(trace->notes);
    free(trace->copies);
    free(trace->marks);
    pthread_mutex_destroy(&trace->lock);
    free(trace);
}

// What is queued before this and runs later is not recorded.
bool cuda_trace_begin(void *handle, char *ret_reason)
{
    CudaDevice *device = (CudaDevice *)handle;
    if (trace_open(device) || cuda_failed(device, ret_reason) || !make_trace(device)) {
        if (!cuda_failed(device, ret_reason))
            snprintf(ret_reason, FEDGATE_REASON_SIZE, "%s",
                     device->trace ? "a window is open already" : "no memory");
        return false;
    }
    CudaTrace *trace = device->trace;
    // Copies ahead end before it begins, or the steps beside them could not be told to be hiding them.
    pthread_mutex_lock(&device->queue_lock);
    trace->copies_before = !cuda_drain(device, device->copy, "copies before a window");
    trace->why_not = cupti_begin(device->host);
    if (!trace->why_not &&
        !(cupti_stream(device->compute, &trace->compute_id) && cupti_stream(device->copy, &trace->copy_id)))
        trace->why_not = "CUPTI knows not all streams";
    __atomic_store_n(&device->tracing, true, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&device->queue_lock);
    return true;
}

// -- records

// CUPTI's name is of one kernel for the whole window; the readable one stays.
static const char *keep_name(CudaTrace *trace, const char *given)
{
    char readable[NAME_SIZE];
    if (!given)
        return "kernel";
    Name *name = &trace->place[((uintptr_t)given >> 4) % NAME_PLACES];
    if (name->given == given)
        return name->readable;
    trace_readable_name(given, readable, sizeof readable);
    int i = 0;
    while (i < name_count && strcmp(names[i], readable) != 0)
        i++;
    if (i == NAMES)
        return "kernel";
    if (i == name_count)
        memcpy(names[name_count++], readable, sizeof readable);
    *name = Name{given, names[i]};
    return names[i];
}

static int32_t stream_of(const CudaTrace *trace, uint32_t id, uint32_t graph)
{
    return graph != 0 || id == trace->compute_id ? 0 : id == trace->copy_id ? 1 : 2;
}

static TraceWork read_kernel(CudaTrace *trace, const CUpti_ActivityKernel10 *record)
{
    TraceWork work = {};
    work.correlation = record->correlationId;
    work.span.kind = FEDGATE_SPAN_KERNEL;
    work.span.stream = stream_of(trace, record->streamId, record->graphId);
    work.span.begin = (int64_t)record->start;
    work.span.end = (int64_t)record->end;
    work.span.name = keep_name(trace, record->name);
    return work;
}

static TraceWork read_copy(const CudaTrace *trace, const CUpti_ActivityMemcpy6 *record)
{
    const bool in = record->copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD;
    const bool out = record->copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOH;
    TraceWork work = {};
    work.correlation = record->correlationId;
    work.span.kind = in ? FEDGATE_SPAN_COPY_IN : out ? FEDGATE_SPAN_COPY_OUT : FEDGATE_SPAN_COPY_WITHIN;
    work.span.stream = stream_of(trace, record->streamId, record->graphId);
    work.span.begin = (int64_t)record->start;
    work.span.end = (int64_t)record->end;
    work.span.bytes = (int64_t)record->bytes;
    work.span.pageable = (in && record->srcKind == CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE) ||
                         (out && record->dstKind == CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE);
    work.span.name = in ? "copy to device" : out ? "copy from device" : "copy within device";
    return work;
}

static TraceWork read_set(const CudaTrace *trace, const CUpti_ActivityMemset4 *record)
{
    TraceWork work = {};
    work.correlation = record->correlationId;
    work.span.kind = FEDGATE_SPAN_SET;
    work.span.stream = stream_of(trace, record->streamId, record->graphId);
    work.span.begin = (int64_t)record->start;
    work.span.end = (int64_t)record->end;
    work.span.bytes = (int64_t)record->bytes;
    work.span.name = "set";
    return work;
}

typedef struct Reading {
    CudaTrace *trace;
    FedgateTraceTrust *trust;
    TraceWork *works;
    size_t count, room;
    bool lost;
} Reading;

static void add_work(Reading *to, const TraceWork &work)
{
    to->lost = to->lost || !make_room(&to->works, &to->room, to->count + 1);
    if (!to->lost)
        to->works[to->count++] = work;
}

// The profiler's own time.
static void count_overhead(FedgateTraceTrust *trust, const CUpti_ActivityOverhead3 *record)
{
    trust->overheads++;
    trust->overhead_ns += (int64_t)(record->end - record->start);
}

static void read_record(void *context, const CUpti_Activity *record)
{
    Reading *to = (Reading *)context;
    if (record->kind == CUPTI_ACTIVITY_KIND_KERNEL || record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
        add_work(to, read_kernel(to->trace, (const CUpti_ActivityKernel10 *)record));
    else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY)
        add_work(to, read_copy(to->trace, (const CUpti_ActivityMemcpy6 *)record));
    else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET)
        add_work(to, read_set(to->trace, (const CUpti_ActivityMemset4 *)record));
    else if (record->kind == CUPTI_ACTIVITY_KIND_OVERHEAD)
        count_overhead(to->trust, (const CUpti_ActivityOverhead3 *)record);
}

static void give_spans(CudaDevice *device, const Reading *reading, const CuptiCalls *calls, int64_t synced,
                       FedgateTraceTrust *trust)
{
    CudaTrace *trace = device->trace;
    TraceWindow window = {};
    size_t marks = 0;
    for (size_t i = 0; i < trace->note_count; i++)
        if (trace->notes[i].replay) {
            trace->notes[i].marks = trace->marks + marks;
            marks += (size_t)trace->notes[i].mark_count;
        }
    window.works = reading->works;
    window.work_count = reading->count;
    window.calls = calls->at;
    window.call_count = calls->count;
    window.notes = trace->notes;
    window.note_count = trace->note_count;
    window.copies = trace->copies;
    window.copy_count = trace->copy_count;
    window.synced_ns = synced;
    window.copies_before = trace->copies_before;
    if (!trace_window_spans(&window, device->host->span, device->host->context, trust) || reading->lost ||
        trace->lost)
        trace_doubt(trust, "no memory for all records");
}

bool cuda_trace_end(void *handle, FedgateTraceTrust *ret_trust, char *ret_reason)
{
    CudaDevice *device = (CudaDevice *)handle;
    if (!trace_open(device)) {
        snprintf(ret_reason, FEDGATE_REASON_SIZE, "no window is open");
        return false;
    }
    // No copy is queued meanwhile, so that when all has ended nothing is half recorded.
    FedgateTraceTrust trust = {};
    Reading reading = {};
    reading.trace = device->trace;
    reading.trust = &trust;
    if (device->trace->why_not)
        trace_doubt(&trust, "%s", device->trace->why_not);
    pthread_mutex_lock(&device->queue_lock);
    const bool good = cuda_synchronise(handle, ret_reason);
    const int64_t synced = trace_now(device);
    __atomic_store_n(&device->tracing, false, __ATOMIC_RELEASE);
    CuptiCalls calls = cupti_end(read_record, &reading, &trust);
    pthread_mutex_unlock(&device->queue_lock);
    if (good && !device->trace->why_not)
        give_spans(device, &reading, &calls, synced, &trust);
    free(reading.works);
    free(calls.at);
    if (good)
        *ret_trust = trust;
    return good;
}
