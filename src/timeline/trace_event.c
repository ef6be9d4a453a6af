// trace_event - one event of a Chrome trace, read where it lies in memory; what no figure needs is skipped.
//
// Keys may come in any order and may be escaped. Values that are skipped may be of any form, also the NaN and
// N/A that profilers write; a needed one of another type, or one that is there twice, makes the event bad,
// and bad events of the device are counted as lost.
#include "trace_internal.h"

#include <string.h>

enum { WORD_SIZE = 32 };

typedef struct Word {   // a short text without its escapes; longer ones are cut, and then equal to nothing
    char bytes[WORD_SIZE];
    size_t length;
} Word;

typedef struct Reader {
    const char *at, *end;
    TraceEvent *event;
    bool phase_seen, category_seen, complete;   // complete: "ph" is "X"
} Reader;

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'                     ? c - '0'
           : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
                                                    : -1;
}

// "\u0041" and the like; what is no ASCII becomes '?', which no known word holds.
static char unescaped(const char **from, const char *end)
{
    const char *at = *from;
    char c = at < end ? *at : '?';
    *from = at + 1;
    if (c != 'u') {
        return c == '"' || c == '\\' || c == '/' ? c : '?';
    }
    int value = 0;
    for (int i = 1; i <= 4; i++) {
        int digit = at + i < end ? hex_digit(at[i]) : -1;
        value = digit < 0 || value < 0 ? -1 : value * 16 + digit;
    }
    *from = end - at > 5 ? at + 5 : end;
    return value > 0 && value < 128 ? (char)value : '?';
}

static size_t copy_text(char *to, size_t most, const char *from, const char *end, bool escaped)
{
    size_t length = 0;
    if (!escaped) {
        length = (size_t)(end - from) < most ? (size_t)(end - from) : most;
        memcpy(to, from, length);
        return length;
    }
    while (from < end && length < most) {
        char c = *from++;
        to[length++] = c == '\\' ? unescaped(&from, end) : c;
    }
    return length;
}

static Word word_of(const char *from, const char *end, bool escaped)
{
    Word word;
    word.length = copy_text(word.bytes, sizeof word.bytes, from, end, escaped);
    return word;
}

static bool word_is(const Word *word, const char *text, size_t length)
{
    return word->length == length && memcmp(word->bytes, text, length) == 0;
}
#define WORD_IS(word, text) word_is(word, text, sizeof text - 1)

static bool ends_token(char c)
{
    return c == ',' || c == '}' || c == ']' || c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

// A number, or a word such as true, NaN or N/A.
static const char *token_end(const char *from, const char *end, bool *ret_broken)
{
    const char *at = from;
    while (at < end && !ends_token(*at)) {
        *ret_broken = *ret_broken || *at == '"' || *at == '{' || *at == '[' || *at == ':' || *at < ' ';
        at++;
    }
    *ret_broken = *ret_broken || (at == from && at < end);
    return at < end && !*ret_broken ? at : NULL;
}

const char *event_skip_value(const char *from, const char *end, bool *ret_broken)
{
    if (*from == '"') {
        bool escaped;
        const char *quote = scan_string(from + 1, end, &escaped);
        return quote == NULL ? NULL : quote + 1;
    }
    if (*from == '{' || *from == '[') {
        return scan_skip(&(ScanSkip){0}, from, end);
    }
    return token_end(from, end, ret_broken);
}

static const struct Category {
    const char *name;
    size_t length;
    EventKind kind;
    SpanKind direction;
} categories[] = {
#define CATEGORY(name, kind, direction)                                                                      \
    {                                                                                                        \
        name, sizeof name - 1, kind, direction                                                               \
    }
    CATEGORY("kernel", EVENT_KERNEL, SPAN_KERNEL),
    CATEGORY("gpu_memcpy", EVENT_COPY, SPAN_KIND_COUNT),
    CATEGORY("memcpy", EVENT_COPY, SPAN_KIND_COUNT),
    CATEGORY("gpu_memset", EVENT_MEMSET, SPAN_MEMSET),
    CATEGORY("memset", EVENT_MEMSET, SPAN_MEMSET),
    CATEGORY("cuda_runtime", EVENT_CALL, SPAN_KIND_COUNT),
    CATEGORY("cuda_driver", EVENT_CALL, SPAN_KIND_COUNT),
    CATEGORY("runtime", EVENT_CALL, SPAN_KIND_COUNT),
    CATEGORY("driver", EVENT_CALL, SPAN_KIND_COUNT),
    CATEGORY("cpu_op", EVENT_RANGE, SPAN_KIND_COUNT),
    CATEGORY("operator", EVENT_RANGE, SPAN_KIND_COUNT),
    CATEGORY("user_annotation", EVENT_RANGE, SPAN_KIND_COUNT),
    CATEGORY("copy_h2d", EVENT_COPY, SPAN_COPY_H2D),
    CATEGORY("copy_d2h", EVENT_COPY, SPAN_COPY_D2H),
    CATEGORY("copy_d2d", EVENT_COPY, SPAN_COPY_D2D),
    CATEGORY("step", EVENT_MARK, SPAN_STEP_MARK),
    CATEGORY("host_wait", EVENT_WAIT, SPAN_HOST_WAIT),
};

static void set_category(Reader *reader, Word *word)
{
    for (size_t i = 0; i < word->length; i++) {
        char c = word->bytes[i];
        word->bytes[i] = c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
    }
    reader->event->bad |= reader->category_seen;
    reader->category_seen = true;
    reader->event->kind = EVENT_OTHER;
    for (size_t i = 0; i < sizeof categories / sizeof categories[0]; i++) {
        if (word_is(word, categories[i].name, categories[i].length)) {
            reader->event->kind = categories[i].kind;
            reader->event->direction = categories[i].direction;
            return;
        }
    }
}

// Steps and batch waits are two names among very many operators.
static bool is_wanted_range(const TraceEvent *event)
{
    static const char step[] = "ProfilerStep#";
    static const char loader[] = "enumerate(DataLoader)#";
    return strncmp(event->name, step, sizeof step - 1) == 0 ||
           strncmp(event->name, loader, sizeof loader - 1) == 0;
}

static bool is_unwanted(const Reader *reader)
{
    const TraceEvent *event = reader->event;
    return (reader->phase_seen && !reader->complete) ||
           (reader->category_seen &&
            (event->kind == EVENT_OTHER ||
             (event->kind == EVENT_RANGE && (event->has & HAS_NAME) != 0 && !is_wanted_range(event))));
}

static void note(TraceEvent *event, uint32_t bit, bool good)
{
    event->bad |= !good || (event->has & bit) != 0;
    event->has |= bit;
}

static uint64_t hash_of(const char *from, const char *end)
{
    uint64_t hash = UINT64_C(14695981039346656037);   // FNV-1a
    for (; from < end; from++) {
        hash = (hash ^ (unsigned char)*from) * UINT64_C(1099511628211);
    }
    return hash;
}

// A lane may be a number or a text; the stream of a device that names none is its lane.
static void set_thread(TraceEvent *event, const char *from, const char *end)
{
    event->thread = hash_of(from, end);
    int64_t lane = 0;
    if ((event->has & HAS_STREAM) == 0) {
        event->stream = number_to_whole(from, end, &lane) ? lane : (int64_t)(event->thread & 0x7fffffff);
    }
}

static void set_outer(Reader *reader, const Word *key, const char *from, const char *end, bool text,
                      bool escaped)
{
    TraceEvent *event = reader->event;
    if (WORD_IS(key, "ts")) {
        note(event, HAS_BEGIN, !text && number_to_ns(from, end, &event->begin_ns));
    } else if (WORD_IS(key, "dur")) {
        note(event, HAS_LENGTH, !text && number_to_ns(from, end, &event->length_ns));
    } else if (WORD_IS(key, "pid")) {
        event->process = hash_of(from, end);
    } else if (WORD_IS(key, "tid")) {
        set_thread(event, from, end);
    } else if (WORD_IS(key, "ph")) {
        event->bad |= reader->phase_seen;
        reader->phase_seen = true;
        reader->complete = text && end - from == 1 && *from == 'X';
    } else if (WORD_IS(key, "cat")) {
        Word word = word_of(from, end, escaped);
        word.length = text ? word.length : 0;
        set_category(reader, &word);
    } else if (WORD_IS(key, "name")) {
        note(event, HAS_NAME, text);
        event->name[text ? copy_text(event->name, sizeof event->name - 1, from, end, escaped) : 0] = '\0';
    }
}

static const struct Argument {
    const char *key;
    size_t length;
    uint32_t bit;
    size_t offset;
} arguments[] = {
#define ARGUMENT(key, bit, field)                                                                            \
    {                                                                                                        \
        key, sizeof key - 1, bit, offsetof(TraceEvent, field)                                                \
    }
    ARGUMENT("correlation", HAS_CORRELATION, correlation),
    ARGUMENT("bytes", HAS_BYTES, bytes),
    ARGUMENT("stream", HAS_STREAM, stream),
    ARGUMENT("device", HAS_DEVICE, device),
    ARGUMENT("step", HAS_STEP, step),
};

static void set_argument(TraceEvent *event, const Word *key, const char *from, const char *end, bool text)
{
    for (size_t i = 0; i < sizeof arguments / sizeof arguments[0]; i++) {
        if (word_is(key, arguments[i].key, arguments[i].length)) {
            int64_t value = -1;
            bool good = !text && number_to_whole(from, end, &value);
            note(event, arguments[i].bit, good);
            memcpy((char *)event + arguments[i].offset, &value, sizeof value);
            return;
        }
    }
    if (WORD_IS(key, "pageable")) {
        event->pageable = end - from == 4 && *from == 't';
        note(event, HAS_PAGEABLE, !text && (end - from == 4 || end - from == 5));
    } else if (WORD_IS(key, "launched")) {
        note(event, HAS_LAUNCHED, !text && number_to_ns(from, end, &event->launched_ns));
    }
}

// All that is wanted of this event's arguments is there.
static bool is_full(const TraceEvent *event)
{
    static const uint32_t wanted[EVENT_WAIT + 1] = {
        [EVENT_KERNEL] = HAS_CORRELATION | HAS_STREAM | HAS_DEVICE,
        [EVENT_COPY] = HAS_CORRELATION | HAS_STREAM | HAS_DEVICE | HAS_BYTES,
        [EVENT_MEMSET] = HAS_CORRELATION | HAS_STREAM | HAS_DEVICE,
        [EVENT_CALL] = HAS_CORRELATION,
        [EVENT_MARK] = HAS_STEP,
    };
    return event->kind == EVENT_RANGE ||
           (wanted[event->kind] != 0 && (event->has & wanted[event->kind]) == wanted[event->kind]);
}

static EventResult read_members(Reader *reader, bool outer);

static EventResult read_value(Reader *reader, const Word *key, bool outer)
{
    const char *from = reader->at;
    bool text = *from == '"';
    bool escaped = false;
    bool broken = false;
    if (outer && *from == '{' && WORD_IS(key, "args") && !is_full(reader->event)) {
        reader->at = from + 1;
        return read_members(reader, false);
    }
    const char *after =
        text ? scan_string(from + 1, reader->end, &escaped) : event_skip_value(from, reader->end, &broken);
    if (after == NULL) {
        return broken ? EVENT_BROKEN : EVENT_CUT;
    }
    reader->at = after + text;
    if (outer) {
        set_outer(reader, key, from + text, after, text, escaped);
    } else {
        set_argument(reader->event, key, from + text, after, text);
    }
    return EVENT_READ;
}

static EventResult skip_rest(Reader *reader)
{
    ScanSkip skip = {.depth = 1};
    const char *after = scan_skip(&skip, reader->at, reader->end);
    reader->at = after == NULL ? reader->at : after;
    return after == NULL ? EVENT_CUT : EVENT_READ;
}

// The next byte that is no blank; false at the end of the bytes.
static bool next_byte(Reader *reader, char *ret)
{
    reader->at = scan_blanks(reader->at, reader->end);
    *ret = reader->at < reader->end ? *reader->at : '\0';
    return reader->at < reader->end;
}

// "key": up to the first byte of the value.
static EventResult read_key(Reader *reader, Word *ret_key)
{
    char c;
    bool escaped;
    if (!next_byte(reader, &c)) {
        return EVENT_CUT;
    }
    if (c != '"') {
        return EVENT_BROKEN;
    }
    const char *quote = scan_string(reader->at + 1, reader->end, &escaped);
    if (quote == NULL) {
        return EVENT_CUT;
    }
    *ret_key = word_of(reader->at + 1, quote, escaped);
    reader->at = quote + 1;
    if (!next_byte(reader, &c)) {
        return EVENT_CUT;
    }
    if (c != ':') {
        return EVENT_BROKEN;
    }
    reader->at++;
    return next_byte(reader, &c) ? EVENT_READ : EVENT_CUT;
}

// Members of an object, from behind its brace to behind its end; an event, or its arguments.
static EventResult read_members(Reader *reader, bool outer)
{
    char c;
    if (next_byte(reader, &c) && c == '}') {
        reader->at++;
        return EVENT_READ;
    }
    for (;;) {
        Word key;
        EventResult result = read_key(reader, &key);
        result = result == EVENT_READ ? read_value(reader, &key, outer) : result;
        if (result != EVENT_READ) {
            return result;
        }
        if (outer ? is_unwanted(reader) : is_full(reader->event)) {
            reader->event->kind = outer ? EVENT_OTHER : reader->event->kind;
            return skip_rest(reader);
        }
        if (!next_byte(reader, &c)) {
            return EVENT_CUT;
        }
        if (c != ',' && c != '}') {
            return EVENT_BROKEN;
        }
        reader->at++;
        if (c == '}') {
            return EVENT_READ;
        }
    }
}

EventResult event_read(const char *from, const char *end, TraceEvent *ret, const char **ret_at)
{
    memset(ret, 0, offsetof(TraceEvent, name));
    ret->name[0] = '\0';
    memset((char *)ret + offsetof(TraceEvent, begin_ns), 0, sizeof *ret - offsetof(TraceEvent, begin_ns));
    ret->correlation = ret->device = ret->step = -1;
    Reader reader = {.at = from, .end = end, .event = ret};
    EventResult result = read_members(&reader, true);
    *ret_at = reader.at;
    if (!reader.complete) {
        ret->kind = EVENT_OTHER;
    }
    return result;
}
