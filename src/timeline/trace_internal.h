// trace_internal.h - reading a stored trace: bytes to events, events to records of devices and processes.
//
// One pass: trace_read.c takes the bytes in blocks and finds the events, trace_event.c reads one event that
// lies whole in memory, trace_store.c keeps what the figures need. No text of a trace is kept: names are
// classified while they are read, so nothing in a trace can come out again.
#ifndef FEDGATE_TRACE_INTERNAL_H
#define FEDGATE_TRACE_INTERNAL_H

#include <fedgate/error.h>
#include <fedgate/timeline.h>
#include <stdint.h>

// -- trace_scan.c: over bytes, as fast as they come
typedef struct ScanSkip {
    uint64_t depth;   // open brackets
    bool in_string, escaped;   // the next byte is inside a string; after a backslash
} ScanSkip;
// Moves on to just behind the bracket that closes the last open one, or NULL at the end of the bytes, and can
// then go on with those that follow. Which kind of bracket closes which is not looked at.
const char *scan_skip(ScanSkip *skip, const char *from, const char *end);
// From behind an opening quote to the closing one; NULL when it is not there. ret_escaped: holds a backslash.
const char *scan_string(const char *from, const char *end, bool *ret_escaped);
const char *scan_blanks(const char *from, const char *end);

// -- trace_number.c: decimals, exactly
// JSON's form of a number in microseconds to integer ns, rounded half up behind the third decimal; false when
// it is none, or beyond TRACE_TIME_MOST either way.
#define TRACE_TIME_MOST ((INT64_C(1) << 62) - 1)   // differences of two never overflow
bool number_to_ns(const char *from, const char *end, int64_t *ret_ns);
bool number_to_whole(const char *from, const char *end, int64_t *ret_value);   // "1.0" is none

// -- trace_event.c
typedef enum EventKind {
    EVENT_OTHER,   // not looked at
    EVENT_KERNEL,
    EVENT_COPY,
    EVENT_MEMSET,
    EVENT_CALL,   // CUDA runtime or driver
    EVENT_RANGE,   // operators and annotations of the host: steps and batch waits
    EVENT_MARK,   // our own step marks
    EVENT_WAIT,   // our own host waits
} EventKind;
enum { EVENT_NAME_SIZE = 96 };
typedef struct TraceEvent {
    EventKind kind;
    SpanKind direction;   // of our own copies; SPAN_KIND_COUNT: the name says it
    char name[EVENT_NAME_SIZE];   // its begin, to be classified
    int64_t begin_ns, length_ns, correlation, bytes, stream, device, step, launched_ns;
    uint64_t process, thread;   // hashes
    bool pageable;
    uint32_t has;   // bits of EventField
    bool bad;   // a field that is needed is missing, twice there, or of another type or size
} TraceEvent;
enum {
    HAS_BEGIN = 1,
    HAS_LENGTH = 2,
    HAS_CORRELATION = 4,
    HAS_BYTES = 8,
    HAS_STREAM = 16,
    HAS_DEVICE = 32,
    HAS_STEP = 64,
    HAS_PAGEABLE = 128,
    HAS_LAUNCHED = 256,
    HAS_NAME = 512,
};
typedef enum EventResult { EVENT_READ, EVENT_CUT, EVENT_BROKEN } EventResult;
// from: behind the opening brace. EVENT_CUT: the bytes end inside it. *ret_at: behind the event, or where it
// is broken.
EventResult event_read(const char *from, const char *end, TraceEvent *ret, const char **ret_at);
// One value of any kind, skipped. NULL: the bytes end first, or *ret_broken.
const char *event_skip_value(const char *from, const char *end, bool *ret_broken);

// -- trace_store.c
enum { TRACE_OWNERS_MOST = 64, TRACE_RECORDS_MOST = 4 * 1000 * 1000 };
#define TRACE_BYTES_MOST (UINT64_C(4) << 30)   // a file that unpacks to more is refused
typedef enum CallClass {
    CALL_OTHER,
    CALL_SYNC,
    CALL_COPY,
    CALL_MEMORY,
    CALL_LAUNCH,
    CALL_CLASS_COUNT
} CallClass;
typedef enum SyncCall { SYNC_STREAM, SYNC_DEVICE, SYNC_EVENT, SYNC_CONTEXT, SYNC_NONE } SyncCall;
typedef enum MemoryKind { MEMORY_UNKNOWN, MEMORY_PINNED, MEMORY_PAGEABLE, MEMORY_KIND_COUNT } MemoryKind;
typedef struct TraceOp {   // of a device
    int64_t begin, end, correlation, bytes;   // correlation -1: none
    int64_t launched_ns;   // our own traces say it; 0 unknown
    int32_t stream;
    uint8_t device, kind, memory;   // index; SpanKind; MemoryKind of the host's side
    bool communication;   // a kernel of NCCL
} TraceOp;
typedef struct TraceCall {   // of a process
    int64_t begin, end, correlation;
    uint8_t process, class, sync;
    bool async;
} TraceCall;
typedef struct TraceRange {   // a step or a wait of a process, or a mark on a device
    int64_t begin, end, index;
    uint8_t owner;
} TraceRange;
typedef struct TraceList {
    void *items;
    size_t count, capacity, size;
} TraceList;
typedef struct TraceStore {
    TraceList ops, calls, steps, waits, marks;   // TraceOp, TraceCall, TraceRange x 3
    uint64_t device_keys[TRACE_OWNERS_MOST], process_keys[TRACE_OWNERS_MOST];
    int64_t device_numbers[TRACE_OWNERS_MOST];   // -1 when the trace does not say
    size_t devices, processes;
    int64_t events, dropped;   // dropped: events that are needed and could not be used
    int64_t directionless;   // copies of which nobody says from where to where
    uint64_t bytes_most;   // of the trace, unpacked
} TraceStore;
void store_init(TraceStore *store);
void store_done(TraceStore *store);
void store_add(TraceStore *store, const TraceEvent *event);

// -- trace_read.c
WARN_UNUSED bool trace_read(const char *path, TraceStore *store, Error *error);
// The same from memory, in blocks of this size: for tests and the fuzzer.
WARN_UNUSED bool trace_read_bytes(const char *bytes, size_t length, size_t block, TraceStore *store,
                                  Error *error);

#endif
