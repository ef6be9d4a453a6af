// trace_read - a trace file in one pass: plain or gzip, an object with "traceEvents" or a bare array.
//
// Blocks of bytes are laid into a window, in which each event is read whole; what is behind the last whole
// event waits for the next block. So memory is bounded by the window and the records kept. What stands beside
// the events at the top is skipped without being held. Offsets in messages are of the unpacked bytes.
#include "trace_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <fedgate/archive.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { READ_BLOCK = 256 * 1024, WINDOW_FIRST = 2 * READ_BLOCK, WINDOW_MOST = 4 * 1024 * 1024 };

typedef enum Place {
    AT_START,
    AT_KEY,   // in the object: a key, or its end
    IN_VALUE,   // in a skipped object or array at the top
    AFTER_VALUE,   // a comma, or the end of the object
    AT_EVENT,
    AFTER_EVENT,
    AT_END
} Place;

typedef struct TraceReader {
    TraceStore *store;
    char *window;
    size_t length, capacity;   // bytes in the window
    uint64_t offset;   // of the window's first byte in the trace
    Place place;
    ScanSkip skip;
    bool in_object, found;   // the outermost value is an object; it held "traceEvents"
    Error *error;
} TraceReader;

typedef enum Step { STEP_ON, STEP_CUT, STEP_BROKEN } Step;

static Step broken(TraceReader *reader, const char *at, const char *what)
{
    (void)FAIL(reader->error, ERROR_DATA, 0, "%s at offset %llu", what,
               (unsigned long long)(reader->offset + (uint64_t)(at - reader->window)));
    return STEP_BROKEN;
}

static Step skip_value(TraceReader *reader, const char **at, const char *end)
{
    bool bad = false;
    const char *after = event_skip_value(*at, end, &bad);
    if (bad) {
        return broken(reader, *at, "not JSON");
    }
    *at = after == NULL ? *at : after;
    return after == NULL ? STEP_CUT : STEP_ON;
}

typedef enum TopKey { KEY_OTHER, KEY_EVENTS, KEY_DROPPED } TopKey;   // dropped: our own traces say it

static TopKey key_of(const char *from, size_t length)
{
    static const char events[] = "traceEvents";
    static const char dropped[] = "dropped";
    if (length == sizeof events - 1 && memcmp(from, events, length) == 0) {
        return KEY_EVENTS;
    }
    return length == sizeof dropped - 1 && memcmp(from, dropped, length) == 0 ? KEY_DROPPED : KEY_OTHER;
}

static Step read_value(TraceReader *reader, TopKey key, const char **at, const char *end)
{
    if (key == KEY_EVENTS && **at != '[') {
        return broken(reader, *at, "not a trace: 'traceEvents' is no array");
    }
    if (key == KEY_EVENTS) {
        reader->found = true;
        reader->place = AT_EVENT;
        (*at)++;
        return STEP_ON;
    }
    if (**at == '{' || **at == '[') {
        reader->skip = (ScanSkip){0};
        reader->place = IN_VALUE;
        return STEP_ON;
    }
    const char *from = *at;
    Step step = skip_value(reader, at, end);
    int64_t dropped = 0;
    if (step == STEP_ON && key == KEY_DROPPED && number_to_whole(from, *at, &dropped)) {
        reader->store->dropped += dropped >= 0 && dropped < INT32_MAX ? dropped : 1;
    }
    reader->place = AFTER_VALUE;
    return step;
}

// A member of the outermost object, up to its value. A cut leaves *at where the key begins.
static Step read_member(TraceReader *reader, const char **at, const char *end)
{
    const char *key = *at;
    bool escaped;
    if (*key == '}') {
        reader->place = AT_END;
        (*at)++;
        return STEP_ON;
    }
    if (*key != '"') {
        return broken(reader, key, "not JSON");
    }
    const char *quote = scan_string(key + 1, end, &escaped);
    const char *colon = quote == NULL ? end : scan_blanks(quote + 1, end);
    const char *value = colon < end ? scan_blanks(colon + 1, end) : end;
    if (value == end) {
        return STEP_CUT;
    }
    if (*colon != ':') {
        return broken(reader, colon, "not JSON");
    }
    TopKey top = key_of(key + 1, (size_t)(quote - key - 1));
    if (top == KEY_EVENTS && reader->found) {
        return broken(reader, key, "not a trace: 'traceEvents' is there twice");
    }
    const char *after = value;
    Step step = read_value(reader, top, &after, end);
    reader->place = step == STEP_CUT ? AT_KEY : reader->place;
    *at = step == STEP_CUT ? key : after;
    return step;
}

static Step read_event(TraceReader *reader, const char **at, const char *end)
{
    TraceEvent event;
    if (**at == ']') {
        reader->place = reader->in_object ? AFTER_VALUE : AT_END;
        (*at)++;
        return STEP_ON;
    }
    if (**at != '{') {   // no event, whatever it is
        Step step = skip_value(reader, at, end);
        reader->store->dropped += step == STEP_ON;
        reader->place = step == STEP_ON ? AFTER_EVENT : reader->place;
        return step;
    }
    const char *after;
    EventResult result = event_read(*at + 1, end, &event, &after);
    if (result == EVENT_BROKEN) {
        return broken(reader, after, "not JSON");
    }
    if (result == EVENT_CUT) {
        return STEP_CUT;
    }
    store_add(reader->store, &event);
    reader->place = AFTER_EVENT;
    *at = after;
    return STEP_ON;
}

static Step read_start(TraceReader *reader, const char **at)
{
    if (**at != '{' && **at != '[') {
        return broken(reader, *at, "not a trace: neither an object nor an array");
    }
    reader->in_object = **at == '{';
    reader->found = !reader->in_object;
    reader->place = reader->in_object ? AT_KEY : AT_EVENT;
    (*at)++;
    return STEP_ON;
}

static Step read_separator(TraceReader *reader, Place after_comma, char close, Place after_close,
                           const char **at)
{
    if (**at != ',' && **at != close) {
        return broken(reader, *at, "not JSON");
    }
    reader->place = **at == ',' ? after_comma : after_close;
    (*at)++;
    return STEP_ON;
}

static Step read_on(TraceReader *reader, const char **at, const char *end)
{
    if (reader->place == IN_VALUE) {
        const char *after = scan_skip(&reader->skip, *at, end);
        *at = after == NULL ? end : after;   // what was skipped need not be kept
        reader->place = after == NULL ? IN_VALUE : AFTER_VALUE;
        return after == NULL ? STEP_CUT : STEP_ON;
    }
    *at = scan_blanks(*at, end);
    if (*at == end) {
        return STEP_CUT;
    }
    switch (reader->place) {
    case AT_START:
        return read_start(reader, at);
    case AT_KEY:
        return read_member(reader, at, end);
    case AFTER_VALUE:
        return read_separator(reader, AT_KEY, '}', AT_END, at);
    case AT_EVENT:
        return read_event(reader, at, end);
    case AFTER_EVENT:
        return read_separator(reader, AT_EVENT, ']', reader->in_object ? AFTER_VALUE : AT_END, at);
    default:
        return broken(reader, *at, "bytes behind the end of the trace");
    }
}

// Reads what lies whole in the window, and moves the rest to its front.
static bool read_window(TraceReader *reader)
{
    const char *at = reader->window;
    const char *end = at + reader->length;
    Step step = STEP_ON;
    while (step == STEP_ON) {
        step = read_on(reader, &at, end);
    }
    if (step == STEP_BROKEN) {
        return false;
    }
    size_t used = (size_t)(at - reader->window);
    memmove(reader->window, at, reader->length - used);
    reader->length -= used;
    reader->offset += used;
    return true;
}

static bool make_room(TraceReader *reader)
{
    if (reader->capacity - reader->length >= READ_BLOCK) {
        return true;
    }
    size_t wanted = reader->capacity == 0 ? WINDOW_FIRST : reader->capacity * 2;
    if (wanted > WINDOW_MOST) {
        return FAIL(reader->error, ERROR_DATA, 0,
                    "an event is longer than the limit of %d bytes at offset %llu", WINDOW_MOST - READ_BLOCK,
                    (unsigned long long)reader->offset);
    }
    // One byte more: an escape at the very end is stepped over as two bytes.
    char *grown = realloc(reader->window, wanted + 1);
    if (grown == NULL) {
        return FAIL(reader->error, ERROR_MEMORY, 0, "out of memory for %zu bytes of a trace", wanted);
    }
    reader->window = grown;
    reader->capacity = wanted;
    return true;
}

static bool take_block(void *context, const void *bytes, uint64_t length, Error *error)
{
    TraceReader *reader = context;
    const char *from = bytes;
    (void)error;   // ours is kept apart from that of the unpacking
    while (length > 0) {
        size_t part = length < READ_BLOCK ? (size_t)length : READ_BLOCK;
        if (reader->offset + reader->length + part > reader->store->bytes_most) {
            return FAIL(reader->error, ERROR_DATA, 0, "longer than the limit of %llu bytes",
                        (unsigned long long)reader->store->bytes_most);
        }
        if (!make_room(reader)) {
            return false;
        }
        memcpy(reader->window + reader->length, from, part);
        reader->length += part;
        from += part;
        length -= part;
        if (!read_window(reader)) {
            return false;
        }
    }
    return true;
}

static bool read_plain(TraceReader *reader, int fd)
{
    for (;;) {
        if (!make_room(reader)) {
            return false;
        }
        ssize_t got = read(fd, reader->window + reader->length, READ_BLOCK);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return FAIL(reader->error, ERROR_IO, errno, "could not read it");
        }
        if (got == 0) {
            return true;
        }
        reader->length += (size_t)got;
        if (reader->offset + reader->length > reader->store->bytes_most) {
            return FAIL(reader->error, ERROR_DATA, 0, "longer than the limit of %llu bytes",
                        (unsigned long long)reader->store->bytes_most);
        }
        if (!read_window(reader)) {
            return false;
        }
    }
}

static bool finish(TraceReader *reader)
{
    uint64_t end = reader->offset + reader->length;
    if (reader->place == AT_START) {
        return FAIL(reader->error, ERROR_DATA, 0, "not a trace: it holds nothing");
    }
    if (reader->place != AT_END) {
        return FAIL(reader->error, ERROR_DATA, 0, "cut short: it ends at offset %llu",
                    (unsigned long long)end);
    }
    if (!reader->found) {
        return FAIL(reader->error, ERROR_DATA, 0, "not a trace: it has no array 'traceEvents'");
    }
    return true;
}

static bool read_gzip(TraceReader *reader, int fd)
{
    Error unpacking = ERROR_INIT;
    if (archive_stream_gzip(fd, UINT64_MAX, take_block, reader, &unpacking)) {
        return true;
    }
    if (reader->error->kind == ERROR_NONE) {
        *reader->error = unpacking;
    }
    return false;
}

bool trace_read(const char *path, TraceStore *store, Error *error)
{
    Error own = ERROR_INIT;
    TraceReader reader = {.store = store, .error = &own};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return FAIL(error, ERROR_IO, errno, "could not open trace '%s'", path);
    }
    bool good = (archive_is_gzip(fd) ? read_gzip(&reader, fd) : read_plain(&reader, fd)) && finish(&reader);
    (void)close(fd);
    free(reader.window);
    if (!good) {
        *error = own;
        return error_prefix(error, "trace '%s'", path);
    }
    return true;
}

bool trace_read_bytes(const char *bytes, size_t length, size_t block, TraceStore *store, Error *error)
{
    Error own = ERROR_INIT;
    TraceReader reader = {.store = store, .error = &own};
    bool good = true;
    for (size_t at = 0; good && at < length; at += block) {
        good = take_block(&reader, bytes + at, length - at < block ? length - at : block, error);
    }
    good = good && finish(&reader);
    free(reader.window);
    if (!good) {
        *error = own;
    }
    return good;
}
