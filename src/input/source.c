// source - one data file: opened once, unpacked when it is gzip, digested, and proved unchanged at the end.
//
// Small enough files stay in memory (and the digest is of exactly those bytes), larger ones are read through
// the descriptor all night.
#include "input_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <fedgate/archive.h>
#include <fedgate/text.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_BLOCK = 64 * 1024 };
static const char account[] = "input.files";
static const uint64_t unpacked_max_bytes = UINT64_C(64) << 30;

static const char *scratch_directory(void)
{
    const char *directory = getenv("TMPDIR");
    return directory && *directory ? directory : "/tmp";
}

static bool same_time(struct timespec a, struct timespec b)
{
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

// Replaces the descriptor by one of an unnamed file with the plain bytes.
static bool source_unpack(SourceFile *file, Error *error)
{
    int plain;
    if (!file_temporary(scratch_directory(), &plain, error))
        return error_prefix(error, "unpacking");
    uint64_t bytes = 0;
    bool good = archive_unpack_gzip(file->fd, plain, unpacked_max_bytes, &bytes, error);
    close(file->fd);
    file->fd = plain;
    return good;
}

static bool source_read_all(SourceFile *file, int64_t memory_left, Ledger *ledger, Error *error)
{
    struct stat status;
    if (fstat(file->fd, &status) != 0)
        return FAIL(error, ERROR_IO, errno, "could not look at its plain bytes");
    if (status.st_size > memory_left)
        return hash_fd(file->fd, &file->digest, &file->bytes, error);
    file->bytes = (uint64_t)status.st_size;
    file->memory = ledger_take(ledger, LEDGER_HOST, account, status.st_size, error);
    if (!file->memory || !file_pread_all(file->fd, file->memory, file->bytes, 0, error))
        return false;
    hash_bytes(file->memory, file->bytes, &file->digest);
    if (file->gzip) {   // the unnamed copy is not needed any more
        close(file->fd);
        file->fd = -1;
    }
    return true;
}

bool source_read(const SourceFile *file, void *to, size_t length, uint64_t offset, Error *error)
{
    if (!file->memory)
        return file_pread_all(file->fd, to, length, offset, error);
    if (offset + length > file->bytes)
        return FAIL(error, ERROR_DATA, 0, "file has %llu bytes, but byte %llu is wanted",
                    (unsigned long long)file->bytes, (unsigned long long)(offset + length));
    memcpy(to, file->memory + offset, length);
    return true;
}

static bool source_fill(SourceFile *file, const char *path, int64_t memory_left, Ledger *ledger, Error *error)
{
    const char *slash = strrchr(path, '/');
    file->path = text_duplicate(path);
    file->name = text_duplicate(slash ? slash + 1 : path);
    if (!file->path || !file->name)
        return FAIL(error, ERROR_MEMORY, 0, "out of memory");
    file->shard = text_ends_with(path, ".safetensors") || text_ends_with(path, ".safetensors.gz");
    // A pipe put in the place of a file does not block us: it is opened, looked at, and refused.
    file->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file->fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ENXIO))
        return FAIL(error, ERROR_DATA, 0, "data file '%s' %s", path,
                    errno == ENXIO ? "is not a regular file" : "does not exist");
    if (file->fd < 0)
        return FAIL(error, errno == EACCES ? ERROR_DENIED : ERROR_IO, errno, "could not open data file '%s'",
                    path);
    struct stat status;
    if (fstat(file->fd, &status) != 0)
        return FAIL(error, ERROR_IO, errno, "could not look at data file '%s'", path);
    if (!S_ISREG(status.st_mode))
        return FAIL(error, ERROR_DATA, 0, "data file '%s' is not a regular file", path);
    file->stored_bytes = (uint64_t)status.st_size;
    file->changed = status.st_ctim;
    file->modified = status.st_mtim;
    file->gzip = archive_is_gzip(file->fd);
    if (file->gzip && !source_unpack(file, error))
        return error_prefix(error, "data file '%s'", path);
    if (!source_read_all(file, memory_left, ledger, error))
        return error_prefix(error, "data file '%s'", path);
    return true;
}

bool source_open(const char *path, bool test, int64_t memory_left, Ledger *ledger, SourceFile *ret_file,
                 Error *error)
{
    SourceFile file = {.test = test, .fd = -1};
    if (!source_fill(&file, path, memory_left, ledger, error)) {
        source_done(&file, ledger);
        return false;
    }
    *ret_file = file;
    return true;
}

void source_done(SourceFile *file, Ledger *ledger)
{
    ledger_give(ledger, LEDGER_HOST, account, file->memory, (int64_t)file->bytes);
    if (file->fd >= 0)
        close(file->fd);
    free(file->path);
    free(file->name);
    *file = (SourceFile){.fd = -1};
}

bool source_same(const SourceFile *file, Error *error)
{
    if (file->gzip)
        return true;   // the unpacked copy is ours alone
    struct stat status;
    if (fstat(file->fd, &status) != 0)
        return FAIL(error, ERROR_IO, errno, "could not look at data file '%s'", file->path);
    if ((uint64_t)status.st_size == file->bytes && same_time(status.st_ctim, file->changed) &&
        same_time(status.st_mtim, file->modified))
        return true;
    // Touched, linked or renamed is not changed: the bytes decide.
    Digest digest;
    uint64_t bytes;
    if (!hash_fd(file->fd, &digest, &bytes, error))
        return error_prefix(error, "data file '%s'", file->path);
    if (bytes != file->bytes || !digest_equal(&digest, &file->digest))
        return FAIL(error, ERROR_DATA, 0,
                    "data file '%s' changed while it was in use: %llu bytes now, %llu when opened",
                    file->path, (unsigned long long)bytes, (unsigned long long)file->bytes);
    return true;
}

uint64_t source_line(const SourceFile *file, uint64_t offset)
{
    char *block = malloc(LINE_BLOCK);
    uint64_t line = 1;
    for (uint64_t at = 0; block && at < offset;) {
        size_t want = offset - at < LINE_BLOCK ? (size_t)(offset - at) : LINE_BLOCK;
        Error ignored = ERROR_INIT;
        if (!source_read(file, block, want, at, &ignored))
            break;
        for (size_t i = 0; i < want; i++)
            line += block[i] == '\n';
        at += want;
    }
    free(block);
    return line;
}
