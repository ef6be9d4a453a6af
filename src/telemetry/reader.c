// reader.c - reading a spool frame by frame: every good frame from the start, and nothing after the first bad
// one.
//
// A frame is good when its length is possible, its CRC matches, its run is the file's and its seq is the next
// one. What follows the last good frame is a torn tail; only reader_cut() removes it, under the file's lock.
#include "telemetry_internal.h"

#include <fedgate/file.h>
#include <fedgate/hash.h>

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READER_BUFFER_BYTES = 4 << 20, SPOOL_FORMAT = 1 };
enum { SPOOL_BODY_MAXIMUM = SPOOL_PAYLOAD_MAXIMUM + 512 };

struct SpoolReader {
    int fd;
    char run[SPOOL_RUN_LENGTH + 1];
    char path[FILE_PATH_SIZE];
    unsigned char *buffer;   // READER_BUFFER_BYTES
    size_t begin, end;   // unread bytes of the buffer
    uint64_t offset;   // of the last good frame's end in the file
    uint32_t chain;
    int64_t rows, dropped, torn;
};

typedef struct KindRow {
    const char *table;
    bool thin;
} KindRow;

static const KindRow kinds[TELEMETRY_KIND_COUNT] = {
#define KIND_ROW(name, table, thin) [TELEMETRY_##name] = {table, thin},
    TELEMETRY_KINDS(KIND_ROW)
#undef KIND_ROW
};

const char *kind_table(TelemetryKind kind)
{
    return kinds[kind].table;
}

bool kind_may_be_thinned(TelemetryKind kind)
{
    return kinds[kind].thin;
}

bool kind_find(const char *table, TelemetryKind *ret_kind)
{
    for (unsigned i = 0; i < TELEMETRY_KIND_COUNT; i++) {
        if (strcmp(kinds[i].table, table) == 0) {
            *ret_kind = (TelemetryKind)i;
            return true;
        }
    }
    return false;
}

bool spool_run_is_valid(const char *run)
{
    if (run == NULL || strlen(run) != SPOOL_RUN_LENGTH)
        return false;
    for (int i = 0; i < SPOOL_RUN_LENGTH; i++) {
        bool hyphen = i == 8 || i == 13 || i == 18 || i == 23;
        if (hyphen ? run[i] != '-' : strchr("0123456789abcdef", run[i]) == NULL)
            return false;
    }
    return true;
}

bool spool_version_is_valid(const char *version)
{
    size_t length = version == NULL ? 0 : strlen(version);
    return length > 0 && length <= SPOOL_VERSION_MAXIMUM &&
           strspn(version, "abcdefghijklmnopqrstuvwxyz0123456789._-") == length;
}

bool spool_path(const char *home, const char *run, char *ret_path, Error *error)
{
    if (!spool_run_is_valid(run))
        return FAIL(error, ERROR_USAGE, 0, "run id '%.64s' is not a lower-case UUID", run == NULL ? "" : run);
    char name[64];
    if (!text_print(name, sizeof(name), "spool/%s.spool", run))
        return FAIL(error, ERROR_INTERNAL, 0, "name of the spool of run '%s' is too long", run);
    return file_join(ret_path, home, name, error);
}

void spool_header(unsigned char ret_header[static SPOOL_HEADER_BYTES])
{
    memset(ret_header, 0, SPOOL_HEADER_BYTES);
    memcpy(ret_header, "fgspool", 7);
    uint32_t format = htole32(SPOOL_FORMAT);
    memcpy(ret_header + 8, &format, sizeof(format));
}

static bool header_check(SpoolReader *reader, Error *error)
{
    struct stat status;
    if (fstat(reader->fd, &status) != 0)
        return FAIL(error, ERROR_IO, errno, "could not look at spool '%s'", reader->path);
    unsigned char found[SPOOL_HEADER_BYTES], expected[SPOOL_HEADER_BYTES];
    spool_header(expected);
    if (status.st_size < SPOOL_HEADER_BYTES)   // killed while it was made: there is nothing in it
        return true;
    if (!file_pread_all(reader->fd, found, sizeof(found), 0, error))
        return error_prefix(error, "spool '%s'", reader->path);
    if (memcmp(found, expected, sizeof(found)) != 0)
        return FAIL(error, ERROR_DATA, 0, "file '%s' is not a spool of format %d", reader->path,
                    SPOOL_FORMAT);
    reader->offset = SPOOL_HEADER_BYTES;
    return true;
}

bool reader_open(const char *path, const char *run, SpoolReader **ret_reader, Error *error)
{
    OWNED(SpoolReader, reader_close) *reader = calloc(1, sizeof(*reader));
    if (reader == NULL)
        return FAIL(error, ERROR_MEMORY, 0, "out of memory for reading spool '%s'", path);
    reader->fd = -1;
    reader->buffer = malloc(READER_BUFFER_BYTES);
    if (reader->buffer == NULL)
        return FAIL(error, ERROR_MEMORY, 0, "out of memory for reading spool '%s'", path);
    if (!text_copy(reader->path, sizeof(reader->path), path) ||
        !text_copy(reader->run, sizeof(reader->run), run))
        return FAIL(error, ERROR_USAGE, 0, "path of spool '%s' is too long", path);
    reader->fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (reader->fd < 0 && (errno == EACCES || errno == EROFS))
        reader->fd =
            open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);   // reading is enough unless there is a torn tail
    if (reader->fd < 0)
        return FAIL(error, ERROR_IO, errno, "could not open spool '%s'", path);
    if (!header_check(reader, error))
        return false;
    *ret_reader = reader;
    reader = NULL;
    return true;
}

// Makes at least `bytes` unread bytes available when the file has them; ret_available says how many there
// are.
static bool fill(SpoolReader *reader, size_t bytes, size_t *ret_available, Error *error)
{
    while (reader->end - reader->begin < bytes) {
        if (reader->begin > 0) {
            memmove(reader->buffer, reader->buffer + reader->begin, reader->end - reader->begin);
            reader->end -= reader->begin;
            reader->begin = 0;
        }
        off_t from = (off_t)(reader->offset + reader->end);
        ssize_t got =
            pread(reader->fd, reader->buffer + reader->end, READER_BUFFER_BYTES - reader->end, from);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return FAIL(error, ERROR_IO, errno, "could not read spool '%s' at offset %lld", reader->path,
                        (long long)from);
        if (got == 0)
            break;
        reader->end += (size_t)got;
    }
    *ret_available = reader->end - reader->begin;
    return true;
}

static uint32_t read_u32(const unsigned char *from)
{
    uint32_t value;
    memcpy(&value, from, sizeof(value));
    return le32toh(value);
}

static int64_t read_i64(const unsigned char *from)
{
    uint64_t value;
    memcpy(&value, from, sizeof(value));
    return (int64_t)le64toh(value);
}

// Splits a body whose CRC is right; false when it does not belong here.
static bool split_body(const SpoolReader *reader, const unsigned char *body, size_t length, SpoolFrame *frame,
                       const char **ret_kind)
{
    frame->seq = read_i64(body);
    frame->dropped = read_i64(body + 8);
    frame->torn = read_i64(body + 16);
    const char *fields[3];
    size_t at = SPOOL_BODY_FIXED;
    for (int i = 0; i < 3; i++) {
        const unsigned char *end = at < length ? memchr(body + at, '\0', length - at) : NULL;
        if (end == NULL)
            return false;
        fields[i] = (const char *)body + at;
        at = (size_t)(end - body) + 1;
    }
    frame->version = fields[1];
    frame->payload = (const char *)body + at;
    frame->payload_length = length - at;
    *ret_kind = fields[2];
    return frame->seq == reader->rows + 1 && strcmp(fields[0], reader->run) == 0 &&
           spool_version_is_valid(frame->version) && frame->payload_length >= 2;
}

bool reader_next(SpoolReader *reader, bool *ret_any, SpoolFrame *ret_frame, Error *error)
{
    *ret_any = false;
    size_t available;
    if (reader->offset < SPOOL_HEADER_BYTES)
        return true;
    if (!fill(reader, SPOOL_FRAME_BYTES, &available, error))
        return false;
    if (available < SPOOL_FRAME_BYTES)
        return true;
    size_t length = read_u32(reader->buffer + reader->begin);
    if (length <= SPOOL_BODY_FIXED || length > SPOOL_BODY_MAXIMUM)
        return true;
    if (!fill(reader, SPOOL_FRAME_BYTES + length, &available, error))
        return false;
    if (available < SPOOL_FRAME_BYTES + length)
        return true;
    const unsigned char *frame = reader->buffer + reader->begin, *body = frame + SPOOL_FRAME_BYTES;
    uint32_t crc = hash_crc32c(hash_crc32c(0, frame, 4), body, length);
    const char *kind;
    if (crc != read_u32(frame + 4) || !split_body(reader, body, length, ret_frame, &kind))
        return true;
    if (!kind_find(kind, &ret_frame->kind))
        return FAIL(error, ERROR_DATA, 0, "row %lld of spool '%s' is of unknown kind '%.40s'",
                    (long long)ret_frame->seq, reader->path, kind);
    ret_frame->crc = crc;
    reader->chain = hash_crc32c(reader->chain, frame + 4, 4);
    reader->rows = ret_frame->seq;
    reader->dropped = ret_frame->dropped;
    reader->torn = ret_frame->torn;
    reader->begin += SPOOL_FRAME_BYTES + length;
    reader->offset += SPOOL_FRAME_BYTES + length;
    *ret_any = true;
    return true;
}

bool reader_cut(SpoolReader *reader, int64_t *ret_bytes, Error *error)
{
    struct stat status;
    if (fstat(reader->fd, &status) != 0)
        return FAIL(error, ERROR_IO, errno, "could not look at spool '%s'", reader->path);
    int64_t torn = (int64_t)status.st_size - (int64_t)reader->offset;
    if (torn > 0 && ftruncate(reader->fd, (off_t)reader->offset) != 0)
        return FAIL(error, ERROR_IO, errno, "could not cut the torn tail of spool '%s' at offset %llu",
                    reader->path, (unsigned long long)reader->offset);
    *ret_bytes = torn > 0 ? torn : 0;
    return true;
}

uint64_t reader_end(const SpoolReader *reader)
{
    return reader->offset;
}

uint32_t reader_chain(const SpoolReader *reader)
{
    return reader->chain;
}

int64_t reader_rows(const SpoolReader *reader)
{
    return reader->rows;
}

int64_t reader_dropped(const SpoolReader *reader)
{
    return reader->dropped;
}

int64_t reader_torn(const SpoolReader *reader)
{
    return reader->torn;
}

int reader_descriptor(const SpoolReader *reader)
{
    return reader->fd;
}

void reader_close(SpoolReader *reader)
{
    if (reader == NULL)
        return;
    if (reader->fd >= 0)
        close(reader->fd);
    free(reader->buffer);
    free(reader);
}
