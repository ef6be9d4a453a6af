// log - one event to two targets: a text line for people, a JSON line for files.
#include <errno.h>
#include <fcntl.h>
#include <fedgate/json.h>
#include <fedgate/log.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// JSON lines carry this number; it moves when a key is removed or changes its meaning, not when one is added.
enum { LOG_FORMAT = 1, LOG_LINE_BYTES = 64 * 1024 };

struct Log {
    Clock *clock;
    pthread_mutex_t mutex;   // guards everything below and keeps lines whole
    FILE *stream;
    LogLevel least;
    int fd;   // JSON lines, -1 when off
    char zone[64];
    char run[64];
    char version[128];
};

Log *log_new(Clock *clock)
{
    Log *log = calloc(1, sizeof *log);
    if (!log)
        return NULL;
    log->clock = clock;
    log->fd = -1;
    pthread_mutex_init(&log->mutex, NULL);
    return log;
}

void log_free(Log *log)
{
    if (!log)
        return;
    if (log->fd >= 0)
        close(log->fd);
    pthread_mutex_destroy(&log->mutex);
    free(log);
}

void log_to_text(Log *log, FILE *stream, LogLevel least)
{
    pthread_mutex_lock(&log->mutex);
    log->stream = stream;
    log->least = least;
    pthread_mutex_unlock(&log->mutex);
}

bool log_to_file(Log *log, const char *path, Error *error)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0640);
    if (fd < 0)
        return FAIL(error, ERROR_IO, errno, "could not open log file '%s'", path);
    pthread_mutex_lock(&log->mutex);
    int old = log->fd;
    log->fd = fd;
    pthread_mutex_unlock(&log->mutex);
    if (old >= 0)
        close(old);
    return true;
}

// Keeps what fits: an identity is only a label here.
static void set_label(char *to, size_t size, const char *from)
{
    if (from && !text_copy(to, size, from))
        to[0] = '\0';
}

void log_set_identity(Log *log, const char *run, const char *version)
{
    pthread_mutex_lock(&log->mutex);
    set_label(log->run, sizeof log->run, run);
    set_label(log->version, sizeof log->version, version);
    pthread_mutex_unlock(&log->mutex);
}

void log_set_zone(Log *log, const char *zone)
{
    pthread_mutex_lock(&log->mutex);
    set_label(log->zone, sizeof log->zone, zone);
    pthread_mutex_unlock(&log->mutex);
}

const char *log_level_name(LogLevel level)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    return (unsigned)level < sizeof names / sizeof names[0] ? names[level] : "error";
}

// A value with a blank, a quote or nothing in it is quoted and its quotes are escaped, so that no value can
// pass for a pair and the pairs can be cut apart again.
static void add_pair(Text *line, const char *key, const char *value)
{
    bool bare = *value != '\0' && !strpbrk(value, " =\"");
    SCOPED_TEXT shown;
    text_init(&shown, LOG_LINE_BYTES);
    text_add_escaped(&shown, value);
    text_add_format(line, " %s=%s", key, bare ? "" : "\"");
    for (const char *c = text_string(&shown); *c; c++) {
        if (*c == '"')
            text_add_char(line, '\\');
        text_add_char(line, *c);
    }
    if (!bare)
        text_add_char(line, '"');
}

static void field_as_text(const LogField *field, Text *out)
{
    char number[32];
    switch (field->type) {
    case LOG_TEXT: text_add(out, field->text ? field->text : ""); break;
    case LOG_INTEGER: text_add_format(out, "%lld", (long long)field->integer); break;
    case LOG_REAL: text_from_double(number, field->real); text_add(out, number); break;
    }
}

static void write_text(Log *log, const char *time, LogLevel level, const char *name, const char *sentence,
                       const LogField *fields, size_t count)
{
    SCOPED_TEXT line;
    text_init(&line, LOG_LINE_BYTES);
    text_add_format(&line, "%.12s %-5s %s  ", strchr(time, 'T') + 1, log_level_name(level), name);
    text_add_escaped(&line, sentence);
    const char *gap = " ";   // two blanks before the first pair
    for (size_t i = 0; i < count; i++) {
        if (!fields[i].key)
            continue;
        SCOPED_TEXT value;
        text_init(&value, LOG_LINE_BYTES);
        field_as_text(&fields[i], &value);
        text_add(&line, gap);
        add_pair(&line, fields[i].key, text_string(&value));
        gap = "";
    }
    if (log->run[0])
        text_add(&line, gap), add_pair(&line, "run", log->run), gap = "";
    if (log->version[0])
        text_add(&line, gap), add_pair(&line, "version", log->version);
    text_add_char(&line, '\n');
    fwrite(text_string(&line), 1, line.length, log->stream);
    fflush(log->stream);
}

static void write_json(Log *log, const char *time, LogLevel level, const char *name, const char *sentence,
                       const LogField *fields, size_t count)
{
    OWNED(Json, json_free) *record = json_make_object();
    json_put_integer(record, "format", LOG_FORMAT);
    json_put_text(record, "time", time);
    json_put_text(record, "level", log_level_name(level));
    json_put_text(record, "event", name);
    json_put_text(record, "sentence", sentence);
    for (size_t i = 0; i < count; i++) {
        const LogField *field = &fields[i];
        if (!field->key)
            continue;
        switch (field->type) {
        case LOG_TEXT: json_put_text(record, field->key, field->text); break;
        case LOG_INTEGER: json_put_integer(record, field->key, field->integer); break;
        case LOG_REAL: json_put_number(record, field->key, field->real); break;
        }
    }
    json_put(record, "run", json_make_text(log->run[0] ? log->run : NULL));
    json_put(record, "version", json_make_text(log->version[0] ? log->version : NULL));
    SCOPED_TEXT line;
    text_init(&line, LOG_LINE_BYTES);
    json_write(record, JSON_COMPACT, &line);
    text_add_char(&line, '\n');
    // One write per line keeps lines of several processes whole; a failing log never stops a night: ignoring.
    if (!line.failed && write(log->fd, line.data, line.length) < 0)
        return;
}

void log_fields(Log *log, LogLevel level, const char *name, const char *sentence, const LogField *fields,
                size_t count)
{
    if (!log)
        return;
    pthread_mutex_lock(&log->mutex);
    char time[CLOCK_TIME_SIZE];
    clock_format(clock_wall_ns(log->clock), log->zone, time);
    if (log->stream && level >= log->least)
        write_text(log, time, level, name, sentence, fields, count);
    if (log->fd >= 0)
        write_json(log, time, level, name, sentence, fields, count);
    pthread_mutex_unlock(&log->mutex);
}
