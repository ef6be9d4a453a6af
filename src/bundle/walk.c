// walk - opening what lies in a release directory: plain files only, no links, no waiting.
#include "bundle_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fedgate/fault.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int bundle_open_directory(const char *path, Error *error)
{
    int fd = fault_fires("look") ? (errno = EACCES, -1)
                                 : open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0)
        return fd;
    if (errno == ENOENT)
        FAIL(error, ERROR_DATA, 0, "directory is missing");
    else if (errno == ENOTDIR || errno == ELOOP)
        FAIL(error, ERROR_DATA, 0, "not a directory");
    else
        FAIL(error, ERROR_IO, errno, "could not open directory '%s'", path);
    return -1;
}

bool bundle_open_file(int directory_fd, const char *name, int *ret_fd, uint64_t *ret_bytes, Error *error)
{
    int fd = fault_fires("look") ? (errno = EACCES, -1)
             : fault_fires("release.sector")
                 ? (errno = EIO, -1)
                 : openat(directory_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) {
        if (errno == ENOENT)
            return FAIL(error, ERROR_DATA, 0, "file '%s' is missing", name);
        if (errno == ELOOP || errno == ENXIO)   // a link; a socket or a device without a driver
            return FAIL(error, ERROR_DATA, 0, "file '%s' is not a plain file", name);
        return FAIL(error, ERROR_IO, errno, "could not open file '%s'", name);
    }
    struct stat status;
    if (fstat(fd, &status) != 0) {
        FAIL(error, ERROR_IO, errno, "could not look at file '%s'", name);
        close(fd);
        return false;
    }
    if (!S_ISREG(status.st_mode)) {
        close(fd);
        return FAIL(error, ERROR_DATA, 0, "file '%s' is not a plain file", name);
    }
    *ret_fd = fd;
    *ret_bytes = (uint64_t)status.st_size;
    return true;
}

bool bundle_visit_names(int directory_fd, BundleVisit visit, void *context, Error *error)
{
    int own = openat(directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = own < 0 ? NULL : fdopendir(own);
    if (!stream) {
        FAIL(error, ERROR_IO, errno, "could not list the directory");
        if (own >= 0)
            close(own);
        return false;
    }
    bool going = true;
    while (going) {
        errno = 0;
        const struct dirent *entry = readdir(stream);
        if (!entry) {
            if (errno != 0)
                going = FAIL(error, ERROR_IO, errno, "could not list the directory");
            break;
        }
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            going = visit(context, entry->d_name, error);
    }
    closedir(stream);
    return going;
}
