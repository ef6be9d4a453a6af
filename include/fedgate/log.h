// log.h - one call is one event: level, dotted stable name, short sentence, typed fields.
//
// Two targets with the same keys: text lines for people, JSON lines (format 1) for files. Every line carries
// run and version once set. Only night and cli log above debug; lower modules return errors. Thread-safe.
#ifndef FEDGATE_LOG_H
#define FEDGATE_LOG_H

#include <fedgate/clock.h>
#include <stdio.h>

typedef enum LogLevel { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR } LogLevel;

typedef struct Log Log;

Log *log_new(Clock *clock);
void log_free(Log *log);
OWNED_RELEASE(Log, log_free)
void log_to_text(Log *log, FILE *stream, LogLevel least);                       // NULL stream: off
WARN_UNUSED bool log_to_file(Log *log, const char *path, Error *error);   // JSON lines appended; all levels
void log_set_identity(Log *log, const char *run, const char *version);          // NULL: unchanged
// Clock of the text lines and offset of the JSON ones; "" is UTC.
void log_set_zone(Log *log, const char *zone);

typedef enum LogFieldType { LOG_TEXT, LOG_INTEGER, LOG_REAL } LogFieldType;
typedef struct LogField {
    const char *key;
    LogFieldType type;
    const char *text;
    int64_t integer;
    double real;
} LogField;
#define LOG_FIELD_TEXT(name, value) ((LogField){.key = (name), .type = LOG_TEXT, .text = (value)})
#define LOG_FIELD_INTEGER(name, value) ((LogField){.key = (name), .type = LOG_INTEGER, .integer = (value)})
#define LOG_FIELD_REAL(name, value) ((LogField){.key = (name), .type = LOG_REAL, .real = (value)})

// log_event(log, LOG_INFO, "gate.check", "overlap pass", LOG_FIELD_REAL("value", 0.87), ...)
void log_fields(Log *log, LogLevel level, const char *name, const char *sentence, const LogField *fields,
                size_t count);
#define log_event(log, level, name, ...) LOG_EVENT_((log), (level), (name), __VA_ARGS__, {0})
// A field without a key is skipped; the last, empty one is there so that an event may have no field at all.
#define LOG_EVENT_(log, level, name, sentence, ...)                                 \
    log_fields((log), (level), (name), (sentence), (const LogField[]){__VA_ARGS__}, \
               sizeof((const LogField[]){__VA_ARGS__}) / sizeof(LogField))
const char *log_level_name(LogLevel level);

#endif
