// trace_store - what is kept of a trace: operations of devices, calls and ranges of processes.
//
// Bounded: a record beyond TRACE_RECORDS_MOST, or of a device or process beyond TRACE_OWNERS_MOST, is counted
// as dropped, and a trace with dropped records is not trusted.
#include "trace_internal.h"

#include <stdlib.h>
#include <string.h>

#define COPY_BYTES_MOST (INT64_C(1) << 40)   // of one copy: so many records never overflow a sum

void store_init(TraceStore *store)
{
    *store = (TraceStore){
        .ops.size = sizeof(TraceOp),
        .calls.size = sizeof(TraceCall),
        .steps.size = sizeof(TraceRange),
        .waits.size = sizeof(TraceRange),
        .marks.size = sizeof(TraceRange),
        .bytes_most = TRACE_BYTES_MOST,
    };
}

void store_done(TraceStore *store)
{
    TraceList *lists[] = {&store->ops, &store->calls, &store->steps, &store->waits, &store->marks};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        free(lists[i]->items);
    }
    store_init(store);
}

static void *list_add(TraceStore *store, TraceList *list)
{
    if (list->count == list->capacity) {
        size_t wanted = list->capacity == 0 ? 256 : list->capacity * 2;
        void *grown = wanted <= TRACE_RECORDS_MOST ? realloc(list->items, wanted * list->size) : NULL;
        if (grown == NULL) {
            store->dropped++;
            return NULL;
        }
        list->items = grown;
        list->capacity = wanted;
    }
    return (char *)list->items + list->size * list->count++;
}

// The number of this key among the first TRACE_OWNERS_MOST; false for one more.
static bool find_owner(uint64_t *keys, size_t *count, uint64_t key, size_t *ret)
{
    size_t i = 0;
    while (i < *count && keys[i] != key) {
        i++;
    }
    if (i == *count) {
        if (*count == TRACE_OWNERS_MOST) {
            return false;
        }
        keys[(*count)++] = key;
    }
    *ret = i;
    return true;
}

static bool find_process(TraceStore *store, const TraceEvent *event, uint8_t *ret)
{
    size_t index = 0;
    bool found = find_owner(store->process_keys, &store->processes, event->process, &index);
    store->dropped += !found;
    *ret = (uint8_t)index;
    return found;
}

// Merged traces hold devices of one number in several lanes, so lane and number name a device together.
static bool find_device(TraceStore *store, const TraceEvent *event, uint8_t *ret)
{
    size_t before = store->devices;
    size_t index = 0;
    uint64_t key = event->process ^ ((uint64_t)event->device * UINT64_C(0x9e3779b97f4a7c15));
    bool found = find_owner(store->device_keys, &store->devices, key, &index);
    store->dropped += !found;
    if (store->devices > before) {
        store->device_numbers[index] = event->device;
    }
    *ret = (uint8_t)index;
    return found;
}

static const struct {
    const char *text;
    SpanKind direction;
} directions[] = {
    {"HtoD", SPAN_COPY_H2D}, {"HtoA", SPAN_COPY_H2D}, {"DtoH", SPAN_COPY_D2H}, {"AtoH", SPAN_COPY_D2H},
    {"DtoD", SPAN_COPY_D2D}, {"PtoP", SPAN_COPY_D2D}, {"HtoH", SPAN_COPY_D2D}, {"AtoA", SPAN_COPY_D2D},
    {"AtoD", SPAN_COPY_D2D}, {"DtoA", SPAN_COPY_D2D},
};

static SpanKind direction_of(TraceStore *store, const TraceEvent *event)
{
    if (event->direction != SPAN_KIND_COUNT) {
        return event->direction;
    }
    for (size_t i = 0; i < sizeof directions / sizeof directions[0]; i++) {
        if (strstr(event->name, directions[i].text) != NULL) {
            return directions[i].direction;
        }
    }
    store->directionless++;
    return SPAN_COPY_D2D;
}

// "Memcpy HtoD (Pageable -> Device)": the host's side is left of the arrow, of a copy to the host right of
// it.
static MemoryKind memory_of(const TraceEvent *event, SpanKind direction)
{
    if ((event->has & HAS_PAGEABLE) != 0) {
        return event->pageable ? MEMORY_PAGEABLE : MEMORY_PINNED;
    }
    const char *side = strchr(event->name, direction == SPAN_COPY_D2H ? '>' : '(');
    if (side == NULL) {
        return MEMORY_UNKNOWN;
    }
    const char *pageable = strstr(side, "Pageable");
    const char *pinned = strstr(side, "Pinned");
    const char *arrow = direction == SPAN_COPY_D2H ? NULL : strstr(side, "->");
    if (pageable != NULL && (arrow == NULL || pageable < arrow)) {
        return MEMORY_PAGEABLE;
    }
    return pinned != NULL && (arrow == NULL || pinned < arrow) ? MEMORY_PINNED : MEMORY_UNKNOWN;
}

static void add_op(TraceStore *store, const TraceEvent *event)
{
    static const SpanKind kinds[] = {[EVENT_KERNEL] = SPAN_KERNEL, [EVENT_MEMSET] = SPAN_MEMSET};
    uint8_t device = 0;
    TraceOp *op = find_device(store, event, &device) ? list_add(store, &store->ops) : NULL;
    if (op == NULL) {
        return;
    }
    SpanKind kind = event->kind == EVENT_COPY ? direction_of(store, event) : kinds[event->kind];
    int64_t stream = event->stream;
    *op = (TraceOp){
        .begin = event->begin_ns,
        .end = event->begin_ns + event->length_ns,
        .correlation = event->correlation,
        .bytes = (event->has & HAS_BYTES) != 0 ? event->bytes : 0,
        .launched_ns = event->launched_ns,
        .stream =
            stream >= INT32_MIN && stream <= INT32_MAX ? (int32_t)stream : (int32_t)(stream & 0x7fffffff),
        .device = device,
        .kind = (uint8_t)kind,
        .memory = (uint8_t)(event->kind == EVENT_COPY ? memory_of(event, kind) : MEMORY_UNKNOWN),
        .communication = event->kind == EVENT_KERNEL && strncmp(event->name, "nccl", 4) == 0,
    };
}

static const struct {
    const char *text;
    CallClass class;
    SyncCall sync;
} call_words[] = {
    // the first that the name holds
    {"StreamSynchronize", CALL_SYNC, SYNC_STREAM},
    {"DeviceSynchronize", CALL_SYNC, SYNC_DEVICE},
    {"EventSynchronize", CALL_SYNC, SYNC_EVENT},
    {"CtxSynchronize", CALL_SYNC, SYNC_CONTEXT},
    {"Memcpy", CALL_COPY, SYNC_NONE},
    {"Malloc", CALL_MEMORY, SYNC_NONE},
    {"HostAlloc", CALL_MEMORY, SYNC_NONE},
    {"MemAlloc", CALL_MEMORY, SYNC_NONE},
    {"HostRegister", CALL_MEMORY, SYNC_NONE},
    {"Free", CALL_MEMORY, SYNC_NONE},
    {"Launch", CALL_LAUNCH, SYNC_NONE},
};

static void add_call(TraceStore *store, const TraceEvent *event)
{
    uint8_t process = 0;
    TraceCall *call = find_process(store, event, &process) ? list_add(store, &store->calls) : NULL;
    if (call == NULL) {
        return;
    }
    *call = (TraceCall){
        .begin = event->begin_ns,
        .end = event->begin_ns + event->length_ns,
        .correlation = event->correlation,
        .process = process,
        .class = CALL_OTHER,
        .sync = SYNC_NONE,
        .async = strstr(event->name, "Async") != NULL,
    };
    for (size_t i = 0; i < sizeof call_words / sizeof call_words[0]; i++) {
        if (strstr(event->name, call_words[i].text) != NULL) {
            call->class = (uint8_t)call_words[i].class;
            call->sync = (uint8_t)call_words[i].sync;
            return;
        }
    }
}

static void put_range(TraceStore *store, TraceList *list, const TraceEvent *event, uint8_t owner,
                      int64_t index)
{
    TraceRange *range = list_add(store, list);
    if (range != NULL) {
        *range = (TraceRange){event->begin_ns, event->begin_ns + event->length_ns, index, owner};
    }
}

static void add_range(TraceStore *store, const TraceEvent *event)
{
    static const char step[] = "ProfilerStep#";
    uint8_t owner = 0;
    int64_t index = -1;
    if (strncmp(event->name, step, sizeof step - 1) == 0) {
        const char *digits = event->name + sizeof step - 1;
        if (!number_to_whole(digits, digits + strlen(digits), &index) || index < 0) {
            store->dropped++;
        } else if (find_process(store, event, &owner)) {
            put_range(store, &store->steps, event, owner, index);
        }
    } else if (strstr(event->name, "__next__") != NULL && find_process(store, event, &owner)) {
        put_range(store, &store->waits, event, owner, -1);
    }
}

static void add_mark(TraceStore *store, const TraceEvent *event)
{
    uint8_t owner = 0;
    if ((event->has & HAS_STEP) == 0) {
        store->dropped++;
    } else if (find_device(store, event, &owner)) {
        put_range(store, &store->marks, event, owner, event->step);
    }
}

// What has an end before its begin stays so on a device, where it shows as broken causality.
static bool is_usable(const TraceEvent *event)
{
    bool timed = (event->has & (HAS_BEGIN | HAS_LENGTH)) == (HAS_BEGIN | HAS_LENGTH) && !event->bad;
    bool on_device = event->kind == EVENT_KERNEL || event->kind == EVENT_COPY || event->kind == EVENT_MEMSET;
    return timed && event->begin_ns + event->length_ns <= TRACE_TIME_MOST &&
           event->begin_ns + event->length_ns >= -TRACE_TIME_MOST && event->bytes >= 0 &&
           event->bytes <= COPY_BYTES_MOST && (on_device || event->length_ns >= 0);
}

void store_add(TraceStore *store, const TraceEvent *event)
{
    store->events++;
    if (event->kind == EVENT_OTHER) {
        return;
    }
    if (!is_usable(event)) {
        store->dropped++;
        return;
    }
    switch (event->kind) {
    case EVENT_KERNEL:
    case EVENT_COPY:
    case EVENT_MEMSET:
        add_op(store, event);
        break;
    case EVENT_CALL:
        add_call(store, event);
        break;
    case EVENT_MARK:
        add_mark(store, event);
        break;
    case EVENT_WAIT: {
        uint8_t owner = 0;
        if (find_process(store, event, &owner)) {
            put_range(store, &store->waits, event, owner, event->step);
        }
        break;
    }
    default:
        add_range(store, event);
        break;
    }
}
