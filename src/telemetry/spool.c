// spool.c - the first writer of every row: one append-only file per run, whole frames or nothing.
//
// A child forked while a spool is open may go on with it, as may the parent afterwards: each process uses a
// descriptor of its own, frames are appended under a lock of the file, and whoever finds that the file has
// grown reads the new frames first, so seq stays without gaps. After a failed fsync the handle refuses
// everything: the kernel may have dropped the pages and reports it once.
#include "telemetry_internal.h"

#include <fedgate/file.h>
#include <fedgate/hash.h>

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define SYNC_INTERVAL_NS INT64_C(1000000000)
enum { SPOOL_MODE = 0640 };

struct Spool {
    int fd;
    pid_t process;   // that opened fd
    char path[FILE_PATH_SIZE];
    char run[SPOOL_RUN_LENGTH + 1];
    char version[SPOOL_VERSION_MAXIMUM + 1];
    int64_t maximum_rows;
    uint64_t end;   // after the last good frame
    int64_t rows, dropped, torn;
    int64_t synced_ns;   // when it was synced last
    bool dirty, dead;   // dead: an fsync failed
    Text frame;   // reused
};

// Reads the file as it is, cuts a torn tail and takes over its counts. The caller holds the file's lock.
static bool continue_file(Spool *spool, Error *error)
{
    OWNED(SpoolReader, reader_close) *reader = NULL;
    if (!reader_open(spool->path, spool->run, &reader, error))
        return false;
    SpoolFrame frame;
    bool any = true;
    while (any) {
        if (!reader_next(reader, &any, &frame, error))
            return false;
    }
    int64_t cut = 0;
    if (!reader_cut(reader, &cut, error))
        return false;
    spool->end = reader_end(reader);
    spool->rows = reader_rows(reader);
    spool->dropped = reader_dropped(reader) > spool->dropped ? reader_dropped(reader) : spool->dropped;
    spool->torn = reader_torn(reader) + cut;
    return true;
}

static bool open_descriptor(Spool *spool, Error *error)
{
    spool->process = getpid();
    spool->fd = open(spool->path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, SPOOL_MODE);
    if (spool->fd < 0)
        return FAIL(error, ERROR_IO, errno, "could not open spool '%s'", spool->path);
    return true;
}

// The header and the name are on disk before the first row.
static bool begin_file(Spool *spool, const char *directory, Error *error)
{
    unsigned char header[SPOOL_HEADER_BYTES];
    spool_header(header);
    if (!file_write_all(spool->fd, header, sizeof(header), error))
        return error_prefix(error, "spool '%s'", spool->path);
    if (fsync(spool->fd) != 0)
        return FAIL(error, ERROR_IO, errno, "could not sync spool '%s'", spool->path);
    spool->end = sizeof(header);
    return file_sync_directory(directory, error);
}

static bool lock_file(Spool *spool, Error *error)
{
    if (flock(spool->fd, LOCK_EX) != 0)
        return FAIL(error, ERROR_IO, errno, "could not lock spool '%s'", spool->path);
    return true;
}

static void unlock_file(Spool *spool)
{
    (void)flock(spool->fd, LOCK_UN);   // released with the descriptor at the latest
}

static bool open_file(Spool *spool, const char *home, Error *error)
{
    char directory[FILE_PATH_SIZE];
    if (!spool_path(home, spool->run, spool->path, error) || !file_join(directory, home, "spool", error) ||
        !file_make_directory(directory, 0750, error) || !open_descriptor(spool, error) ||
        !lock_file(spool, error))
        return false;
    bool good = continue_file(spool, error) && (spool->end > 0 || begin_file(spool, directory, error));
    unlock_file(spool);
    return good;
}

Spool *spool_open(const char *home, const char *run, const char *version, int64_t maximum_rows, Error *error)
{
    if (!spool_run_is_valid(run)) {
        FAIL(error, ERROR_USAGE, 0, "run id '%.64s' is not a lower-case UUID", run == NULL ? "" : run);
        return NULL;
    }
    if (!spool_version_is_valid(version)) {
        FAIL(error, ERROR_DATA, 0, "version '%.96s' has other characters than a-z 0-9 . _ -, or more than %d",
             version == NULL ? "" : version, SPOOL_VERSION_MAXIMUM);
        return NULL;
    }
    Spool *spool = calloc(1, sizeof(*spool));
    if (spool == NULL) {
        FAIL(error, ERROR_MEMORY, 0, "out of memory for the spool of run '%s'", run);
        return NULL;
    }
    spool->fd = -1;
    spool->maximum_rows = maximum_rows;
    spool->synced_ns = clock_monotonic_ns(clock_real());
    text_init(&spool->frame, SPOOL_PAYLOAD_MAXIMUM + 1024);
    memcpy(spool->run, run, strlen(run) + 1);   // lengths are checked above
    memcpy(spool->version, version, strlen(version) + 1);
    if (open_file(spool, home, error))
        return spool;
    spool_close(spool);
    return NULL;
}

static void put_u32(char *to, uint32_t value)
{
    value = htole32(value);
    memcpy(to, &value, sizeof(value));
}

static void add_i64(Text *text, int64_t value)
{
    uint64_t bytes = htole64((uint64_t)value);
    text_add_bytes(text, (const char *)&bytes, sizeof(bytes));
}

static bool make_frame(Spool *spool, TelemetryKind kind, const Json *payload, Error *error)
{
    Text *frame = &spool->frame;
    text_clear(frame);
    text_add_bytes(frame, "\0\0\0\0\0\0\0", SPOOL_FRAME_BYTES);
    add_i64(frame, spool->rows + 1);
    add_i64(frame, spool->dropped);
    add_i64(frame, spool->torn);
    text_add_bytes(frame, spool->run, strlen(spool->run) + 1);
    text_add_bytes(frame, spool->version, strlen(spool->version) + 1);
    text_add_bytes(frame, kind_table(kind), strlen(kind_table(kind)) + 1);
    size_t payload_begin = frame->length;
    json_write(payload, JSON_COMPACT, frame);
    if (frame->failed || frame->length - payload_begin > SPOOL_PAYLOAD_MAXIMUM)
        return FAIL(error, ERROR_DATA, 0, "telemetry row of kind '%s' is over the limit of %d bytes",
                    kind_table(kind), SPOOL_PAYLOAD_MAXIMUM);
    uint32_t length = (uint32_t)(frame->length - SPOOL_FRAME_BYTES);
    put_u32(frame->data, length);
    uint32_t crc = hash_crc32c(hash_crc32c(0, frame->data, 4), frame->data + SPOOL_FRAME_BYTES, length);
    put_u32(frame->data + 4, crc);
    return true;
}

// What another process of this night appended meanwhile is read before we number our own row.
static bool catch_up(Spool *spool, Error *error)
{
    struct stat status;
    if (fstat(spool->fd, &status) != 0)
        return FAIL(error, ERROR_IO, errno, "could not look at spool '%s'", spool->path);
    if ((uint64_t)status.st_size < spool->end)
        return FAIL(error, ERROR_DATA, 0, "spool '%s' has %lld bytes, %llu were written", spool->path,
                    (long long)status.st_size, (unsigned long long)spool->end);
    return (uint64_t)status.st_size == spool->end || continue_file(spool, error);
}

static bool append_locked(Spool *spool, TelemetryKind kind, const Json *payload, Error *error)
{
    if (!catch_up(spool, error))
        return false;
    if (kind_may_be_thinned(kind) && spool->rows >= spool->maximum_rows) {
        spool->dropped++;
        return true;
    }
    if (!make_frame(spool, kind, payload, error))
        return false;
    if (!file_write_all(spool->fd, spool->frame.data, spool->frame.length, error)) {
        bool full = error->code == ENOSPC || error->code == EDQUOT;
        if (ftruncate(spool->fd, (off_t)spool->end) != 0 || !full || !kind_may_be_thinned(kind))
            return error_prefix(error, "spool '%s'", spool->path);
        error_clear(error);   // ignoring: the disk is full, training goes on, and the loss is counted
        spool->dropped++;
        return true;
    }
    spool->end += spool->frame.length;
    spool->rows++;
    spool->dirty = true;
    return true;
}

// A descriptor inherited through fork shares its lock with the parent's, so it excludes nobody.
static bool own_descriptor(Spool *spool, Error *error)
{
    if (spool->dead)
        return FAIL(error, ERROR_IO, 0, "spool '%s' could not be synced before and is not trusted any more",
                    spool->path);
    if (spool->process == getpid())
        return true;
    close(spool->fd);
    spool->fd = -1;
    return open_descriptor(spool, error);
}

bool spool_append(Spool *spool, TelemetryKind kind, const Json *payload, Error *error)
{
    if ((unsigned)kind >= TELEMETRY_KIND_COUNT || !json_is_object(payload))
        BUG("telemetry row is no object of a known kind");
    if (!own_descriptor(spool, error) || !lock_file(spool, error))
        return false;
    bool good = append_locked(spool, kind, payload, error);
    unlock_file(spool);
    if (!good)
        return false;
    if (clock_monotonic_ns(clock_real()) - spool->synced_ns < SYNC_INTERVAL_NS)
        return true;
    return spool_sync(spool, error);
}

bool spool_sync(Spool *spool, Error *error)
{
    if (!own_descriptor(spool, error))
        return false;
    if (spool->dirty && fdatasync(spool->fd) != 0) {
        spool->dead = true;
        return FAIL(error, ERROR_IO, errno, "could not sync spool '%s'", spool->path);
    }
    spool->dirty = false;
    spool->synced_ns = clock_monotonic_ns(clock_real());
    return true;
}

int64_t spool_rows(const Spool *spool)
{
    return spool->rows;
}

int64_t spool_dropped(const Spool *spool)
{
    return spool->dropped;
}

int64_t spool_torn_bytes(const Spool *spool)
{
    return spool->torn;
}

void spool_close(Spool *spool)
{
    if (spool == NULL)
        return;
    if (spool->fd >= 0) {
        if (spool->dirty && !spool->dead && spool->process == getpid())
            (void)fdatasync(
                spool
                    ->fd);   // ignoring a failure: a caller that needs the rows on disk has called spool_sync
        close(spool->fd);
    }
    text_done(&spool->frame);
    free(spool);
}
