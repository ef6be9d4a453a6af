// zone - reading the tz database.
#include "zone_internal.h"

#include <endian.h>
#include <fedgate/file.h>
#include <fedgate/text.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { ZONE_NAME_SIZE = 64, ZONE_FILE_BYTES = 256 * 1024, ZONE_LIST_BYTES = 4 * 1024 * 1024 };

struct Zone {
    struct Zone *next;
    char name[ZONE_NAME_SIZE];
    ZoneSpans spans;
};

static pthread_mutex_t zones_mutex = PTHREAD_MUTEX_INITIALIZER;
static Zone *zones;   // every zone asked for so far

static const char *database(void)
{
    const char *folder = getenv("TZDIR");
    return folder && *folder ? folder : "/usr/share/zoneinfo";
}

bool zone_add_span(ZoneSpans *spans, int64_t begin, int32_t offset)
{
    if (spans->count > 0 && spans->at[spans->count - 1].offset == offset)
        return true;   // only the name or the daylight flag changed
    if (spans->count == spans->capacity) {
        size_t capacity = spans->capacity > 0 ? spans->capacity * 2 : 64;
        ZoneSpan *grown = realloc(spans->at, capacity * sizeof *grown);
        if (!grown)
            return false;
        spans->at = grown;
        spans->capacity = capacity;
    }
    spans->at[spans->count++] = (ZoneSpan){begin, offset};
    return true;
}

static uint32_t read_u32(const char *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return be32toh(value);
}

static int64_t read_i64(const char *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return (int64_t)be64toh(value);
}

enum { HEADER_BYTES = 44, TYPE_BYTES = 6 };

typedef struct Counts {
    size_t utc_flags, standard_flags, leaps, transitions, types, characters;
} Counts;

static bool read_header(const char *at, size_t left, Counts *ret_counts)
{
    if (left < HEADER_BYTES || memcmp(at, "TZif", 4) != 0 || at[4] < '2')
        return false;
    *ret_counts = (Counts){read_u32(at + 20), read_u32(at + 24), read_u32(at + 28),
                           read_u32(at + 32), read_u32(at + 36), read_u32(at + 40)};
    return true;
}

static size_t block_bytes(const Counts *c, size_t time_bytes)
{
    return c->transitions * (time_bytes + 1) + c->types * TYPE_BYTES + c->characters +
           c->leaps * (time_bytes + 4) + c->standard_flags + c->utc_flags;
}

// The second, 64-bit block: instants, their types, the types; then the rule between two newlines.
static bool read_spans(const char *bytes, size_t length, ZoneSpans *spans)
{
    Counts counts;
    if (!read_header(bytes, length, &counts))
        return false;
    size_t second = HEADER_BYTES + block_bytes(&counts, 4);
    if (second > length || !read_header(bytes + second, length - second, &counts))
        return false;
    const char *times = bytes + second + HEADER_BYTES;
    size_t block = block_bytes(&counts, 8);
    if (block > length - second - HEADER_BYTES || counts.types == 0)
        return false;
    const char *kinds = times + counts.transitions * 8, *types = kinds + counts.transitions;
    if (!zone_add_span(spans, INT64_MIN, (int32_t)read_u32(types)))
        return false;
    for (size_t i = 0; i < counts.transitions; i++) {
        size_t kind = (unsigned char)kinds[i];
        if (kind >= counts.types ||
            !zone_add_span(spans, read_i64(times + i * 8), (int32_t)read_u32(types + kind * TYPE_BYTES)))
            return false;
    }
    const char *footer = times + block, *end = bytes + length;
    char rule[128];
    const char *newline =
        footer < end && *footer == '\n' ? memchr(footer + 1, '\n', (size_t)(end - footer - 1)) : NULL;
    size_t size = newline ? (size_t)(newline - footer - 1) : 0;
    if (!newline || size >= sizeof rule)
        return false;
    memcpy(rule, footer + 1, size);
    rule[size] = '\0';
    return size == 0 || zone_add_rule(spans, rule);
}

static bool name_is_safe(const char *name)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+-/";
    size_t length = strlen(name);
    return length < ZONE_NAME_SIZE && name[0] != '/' && strspn(name, allowed) == length;
}

static bool read_zone(Zone *zone)
{
    if (text_equal(zone->name, "UTC"))
        return zone_add_span(&zone->spans, INT64_MIN, 0);   // also without a tz database
    char path[FILE_PATH_SIZE];
    Error ignored = ERROR_INIT;
    SCOPED_TEXT text;
    text_init(&text, ZONE_FILE_BYTES);
    return file_join(path, database(), zone->name, &ignored) && !file_is_directory(path) &&
           file_read(path, &text, &ignored) && read_spans(text_string(&text), text.length, &zone->spans);
}

// tzdata.zi lists every name: "Z <name> ..." for a zone, "L <target> <name>" for a second name of one.
static void suggest_name(const char *name, Error *error)
{
    char path[FILE_PATH_SIZE];
    Error ignored = ERROR_INIT;
    SCOPED_TEXT text;
    text_init(&text, ZONE_LIST_BYTES);
    if (!file_join(path, database(), "tzdata.zi", &ignored) || !file_read(path, &text, &ignored) ||
        text.length == 0) {
        error_hint(error, "Names look like 'Europe/Berlin' or 'UTC'.");
        return;
    }
    char best[ZONE_NAME_SIZE] = "UTC", *state = NULL;
    int best_distance = text_distance(name, best);
    for (char *line = strtok_r(text.data, "\n", &state); line; line = strtok_r(NULL, "\n", &state)) {
        char found[ZONE_NAME_SIZE], *rest = NULL;
        char kind = line[0];
        char *word = (kind == 'Z' || kind == 'L') && line[1] == ' ' ? strtok_r(line + 2, " ", &rest) : NULL;
        if (word && kind == 'L')
            word = strtok_r(NULL, " ", &rest);
        if (!word || !text_copy(found, sizeof found, word) || text_distance(name, found) >= best_distance)
            continue;
        best_distance = text_distance(name, found);
        memcpy(best, found, sizeof best);
    }
    error_hint(error, "The nearest known name is '%s'.", best);
}

const Zone *zone_find(const char *name, Error *error)
{
    if (!name || *name == '\0')
        name = "UTC";
    if (!name_is_safe(name)) {
        FAIL(error, ERROR_CONFIG, 0, "unknown time zone '%.80s'", name);
        error_hint(error, "Names look like 'Europe/Berlin' or 'UTC'.");
        return NULL;
    }
    pthread_mutex_lock(&zones_mutex);
    Zone *zone = zones;
    while (zone && strcmp(zone->name, name) != 0)
        zone = zone->next;
    if (!zone && (zone = calloc(1, sizeof *zone))) {
        memcpy(zone->name, name, strlen(name) + 1);
        if (read_zone(zone)) {
            zone->next = zones;
            zones = zone;
        } else {
            free(zone->spans.at);
            free(zone);
            zone = NULL;
        }
    }
    pthread_mutex_unlock(&zones_mutex);
    if (!zone) {
        FAIL(error, ERROR_CONFIG, 0, "unknown time zone '%s'", name);
        if (error)
            suggest_name(name, error);
    }
    return zone;
}

size_t zone_span_count(const Zone *zone)
{
    return zone->spans.count;
}

size_t zone_span_at(const Zone *zone, int64_t seconds)
{
    size_t low = 0, high = zone->spans.count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (zone->spans.at[middle].begin <= seconds)
            low = middle;
        else
            high = middle;
    }
    return low;
}

int64_t zone_span_begin(const Zone *zone, size_t span)
{
    return zone->spans.at[span].begin;
}

int32_t zone_span_offset(const Zone *zone, size_t span)
{
    return zone->spans.at[span].offset;
}
