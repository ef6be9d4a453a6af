// file - reading, writing and renaming single files so that each is old or new, never between.
#include "file_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <fedgate/fault.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool file_join(char *ret_path, const char *directory, const char *name, Error *error)
{
    bool absolute = name[0] == '/' || directory[0] == '\0';
    const char *slash = absolute || text_ends_with(directory, "/") ? "" : "/";
    char path[FILE_PATH_SIZE];
    if (!text_print(path, sizeof path, "%s%s%s", absolute ? "" : directory, slash, name))
        return FAIL(error, ERROR_USAGE, 0, "path '%.64s...' is longer than %d bytes",
                    absolute ? name : directory, FILE_PATH_SIZE - 1);
    memcpy(ret_path, path, strlen(path) + 1);
    return true;
}

bool file_exists(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0;
}

bool file_is_directory(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

bool file_size(const char *path, uint64_t *ret_bytes, Error *error)
{
    struct stat status;
    if (stat(path, &status) != 0)
        return FAIL(error, ERROR_IO, errno, "could not look at file '%s'", path);
    *ret_bytes = (uint64_t)status.st_size;
    return true;
}

bool file_split(const char *path, char ret_directory[static FILE_PATH_SIZE], const char **ret_name,
                Error *error)
{
    const char *slash = strrchr(path, '/');
    size_t length = !slash ? 1 : slash == path ? 1 : (size_t)(slash - path);
    if (length >= FILE_PATH_SIZE)
        return FAIL(error, ERROR_USAGE, 0, "path '%.64s...' is longer than %d bytes", path,
                    FILE_PATH_SIZE - 1);
    memcpy(ret_directory, slash ? path : ".", length);
    ret_directory[length] = '\0';
    *ret_name = slash ? slash + 1 : path;
    return true;
}

// An open regular file. O_NONBLOCK keeps a pipe put in its place from blocking us.
static int open_regular(const char *path, Error *error)
{
    int fd = fault_fires("look") ? (errno = EIO, -1) : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        FAIL(error, ERROR_IO, errno, "could not open file '%s'", path);
        return -1;
    }
    struct stat status;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode))
        return fd;
    close(fd);
    FAIL(error, ERROR_IO, 0, "file '%s' is not a regular file", path);
    return -1;
}

bool file_read(const char *path, Text *out, Error *error)
{
    int fd = open_regular(path, error);
    if (fd < 0)
        return false;
    char block[16 * 1024];
    ssize_t got = 1;
    int code = 0;
    bool over = false;
    while (got != 0 && code == 0 && !out->failed) {
        got = read(fd, block, sizeof block);
        if (got > 0) {
            over = (size_t)got > out->maximum - out->length;
            text_add_bytes(out, block, (size_t)got);
        } else if (got < 0 && errno != EINTR) {
            code = errno;
        }
    }
    close(fd);
    if (code != 0)
        return FAIL(error, ERROR_IO, code, "could not read file '%s'", path);
    if (over)
        return FAIL(error, ERROR_DATA, 0, "file '%s' is larger than the limit of %zu bytes", path,
                    out->maximum);
    return !out->failed || FAIL(error, ERROR_MEMORY, 0, "out of memory while reading file '%s'", path);
}

bool file_pread_all(int fd, void *to, size_t bytes, uint64_t offset, Error *error)
{
    for (size_t have = 0; have < bytes;) {
        ssize_t got = pread(fd, (char *)to + have, bytes - have, (off_t)(offset + have));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return FAIL(error, ERROR_IO, errno, "could not read at offset %llu",
                        (unsigned long long)(offset + have));
        if (got == 0)
            return FAIL(error, ERROR_DATA, 0, "file ends at byte %llu, %zu bytes at offset %llu expected",
                        (unsigned long long)(offset + have), bytes, (unsigned long long)offset);
        have += (size_t)got;
    }
    return true;
}

bool file_write_all(int fd, const void *bytes, size_t length, Error *error)
{
    if (fault_fires("file.write"))
        return FAIL(error, ERROR_IO, ENOSPC, "could not write %zu bytes", length);
    for (size_t done = 0; done < length;) {
        ssize_t put = write(fd, (const char *)bytes + done, length - done);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return FAIL(error, ERROR_IO, errno, "could not write %zu bytes", length - done);
        done += (size_t)put;
    }
    return true;
}

bool file_sync(int fd, const char *path, Error *error)
{
    if (fault_fires("file.sync"))
        return FAIL(error, ERROR_IO, EIO, "could not sync '%s'", path);
    return fsync(fd) == 0 || FAIL(error, ERROR_IO, errno, "could not sync '%s'", path);
}

bool file_sync_directory(const char *path, Error *error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_DIRECTORY);
    if (fd < 0)
        return FAIL(error, ERROR_IO, errno, "could not open directory '%s'", path);
    bool ok = file_sync(fd, path, error);
    close(fd);
    return ok;
}

bool file_sync_parent(const char *path, Error *error)
{
    char directory[FILE_PATH_SIZE];
    const char *name;
    return file_split(path, directory, &name, error) && file_sync_directory(directory, error);
}

// Creates, and gives exactly this mode whatever the umask is.
int file_create(const char *path, mode_t mode, Error *error)
{
    int fd = fault_fires("file.open")
                 ? (errno = EIO, -1)
                 : open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd < 0) {
        FAIL(error, errno == EEXIST ? ERROR_CONFLICT : ERROR_IO, errno,
             errno == EEXIST ? "file '%s' exists already" : "could not create file '%s'", path);
        return -1;
    }
    if (fchmod(fd, mode) == 0)
        return fd;
    FAIL(error, ERROR_IO, errno, "could not set the mode of file '%s'", path);
    close(fd);
    unlink(path);
    return -1;
}

// After a failed sync the pages may be gone although a second sync would succeed: the file goes, nothing is
// retried.
bool file_close_synced(int fd, const char *path, bool ok, Error *error)
{
    ok = ok && file_sync(fd, path, error);
    if (close(fd) != 0 && ok)
        ok = FAIL(error, ERROR_IO, errno, "could not close file '%s'", path);
    if (!ok)
        unlink(path);
    return ok;
}

bool file_write_new(const char *path, const void *bytes, size_t length, mode_t mode, Error *error)
{
    int fd = file_create(path, mode, error);
    if (fd < 0)
        return false;
    bool ok = file_write_all(fd, bytes, length, error) || error_prefix(error, "file '%s'", path);
    return file_close_synced(fd, path, ok, error);
}

bool file_temporary_name(const char *path, char ret_path[static FILE_PATH_SIZE], Error *error)
{
    static atomic_uint counter;
    char directory[FILE_PATH_SIZE];
    const char *name;
    if (!file_split(path, directory, &name, error))
        return false;
    struct stat status;
    // One left by a killed process may bear our number: numbers repeat, in a container every night.
    do {
        if (!text_print(ret_path, FILE_PATH_SIZE, "%s/.tmp-%s-%ld-%u", directory, name, (long)getpid(),
                        atomic_fetch_add(&counter, 1)))
            return FAIL(error, ERROR_USAGE, 0, "path '%.64s...' is longer than %d bytes", path,
                        FILE_PATH_SIZE - 1);
    } while (lstat(ret_path, &status) == 0);
    return true;
}

bool file_write_atomic(const char *path, const void *bytes, size_t length, mode_t mode, Error *error)
{
    char temporary[FILE_PATH_SIZE];
    if (!file_temporary_name(path, temporary, error) ||
        !file_write_new(temporary, bytes, length, mode, error))
        return false;
    if (!file_rename_over(temporary, path, error)) {
        unlink(temporary);
        return false;
    }
    return file_sync_parent(path, error);
}

bool file_rename_over(const char *from, const char *to, Error *error)
{
    if (fault_fires("file.rename"))
        return FAIL(error, ERROR_IO, EIO, "could not rename '%s' to '%s'", from, to);
    return rename(from, to) == 0 || FAIL(error, ERROR_IO, errno, "could not rename '%s' to '%s'", from, to);
}

bool file_rename_new(const char *from, const char *to, Error *error)
{
    if (fault_fires("file.rename"))
        return FAIL(error, ERROR_IO, EIO, "could not rename '%s' to '%s'", from, to);
    int code = renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0 ? 0 : errno;
    struct stat status;
    if (code == EINVAL || code == ENOSYS) {
        // A file system without the flag: our callers hold a lock, so looking first is enough there.
        code = lstat(to, &status) == 0 ? EEXIST : rename(from, to) == 0 ? 0 : errno;
    }
    if (code == EEXIST)
        return FAIL(error, ERROR_CONFLICT, EEXIST, "'%s' exists already", to);
    return code == 0 || FAIL(error, ERROR_IO, code, "could not rename '%s' to '%s'", from, to);
}

bool file_link_replace(const char *link_path, const char *target, Error *error)
{
    char temporary[FILE_PATH_SIZE];
    if (!file_temporary_name(link_path, temporary, error))
        return false;
    if (fault_fires("file.link") ? (errno = EIO, true) : symlink(target, temporary) != 0)
        return FAIL(error, ERROR_IO, errno, "could not create link '%s'", temporary);
    if (!file_rename_over(temporary, link_path, error)) {
        unlink(temporary);
        return false;
    }
    return file_sync_parent(link_path, error);
}

bool file_link_read(const char *link_path, char *ret_target, size_t size, Error *error)
{
    char target[FILE_PATH_SIZE];
    ssize_t length = readlink(link_path, target, sizeof target - 1);
    if (length < 0)
        return FAIL(error, ERROR_IO, errno, "could not read link '%s'", link_path);
    if ((size_t)length >= size)
        return FAIL(error, ERROR_DATA, 0, "target of link '%s' is longer than %zu bytes", link_path,
                    size - 1);
    memcpy(ret_target, target, (size_t)length);
    ret_target[length] = '\0';
    return true;
}

bool file_copy_new(const char *from, const char *to, mode_t mode, Error *error)
{
    int source = open_regular(from, error);
    if (source < 0)
        return false;
    int fd = file_create(to, mode, error);
    bool ok = fd >= 0;
    char block[64 * 1024];
    ssize_t got = 0;
    while (ok && (got = read(source, block, sizeof block)) != 0) {
        if (got > 0)
            ok = file_write_all(fd, block, (size_t)got, error) || error_prefix(error, "file '%s'", to);
        else if (errno != EINTR)
            ok = FAIL(error, ERROR_IO, errno, "could not read file '%s'", from);
    }
    close(source);
    return fd >= 0 && file_close_synced(fd, to, ok, error);
}

bool file_remove(const char *path, Error *error)
{
    if (fault_fires("file.remove"))
        return FAIL(error, ERROR_IO, EIO, "could not remove file '%s'", path);
    return unlink(path) == 0 || errno == ENOENT ||
           FAIL(error, ERROR_IO, errno, "could not remove file '%s'", path);
}

bool file_temporary(const char *directory, int *ret_fd, Error *error)
{
    int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0) {
        char path[FILE_PATH_SIZE];
        if (!file_join(path, directory, ".tmp-XXXXXX", error))
            return false;
        fd = mkostemp(path, O_CLOEXEC);
        if (fd >= 0)
            unlink(path);
    }
    if (fd < 0)
        return FAIL(error, ERROR_IO, errno, "could not create a temporary file in '%s'", directory);
    *ret_fd = fd;
    return true;
}
