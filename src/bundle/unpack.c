// unpack - a packed release from anybody: what it may hold is known before a file of it is written.
//
// Order: statement and manifest (small, capped) are read into memory; the manifest gives every name and size,
// and with them the length of the whole file, which must be exactly that. So nothing is written that the file
// does not hold, and nothing can follow its end. Files are made beneath one fresh directory. At the end the
// release is verified from disk and packed again: the file must be that, byte for byte, so whatever its
// reader may have made of odd headers (extensions, holes, owners, times), nothing but the one form is taken.
#include "bundle_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <fedgate/fault.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct Unpacking {
    int from_fd, directory_fd;
    TarReader *reader;
    Manifest manifest;
    Text *statement;
    Text manifest_bytes;
} Unpacking;

// A new file of this directory itself: no link is followed, nothing outside is reached. Names are flat, so
// where the kernel lacks openat2, O_NOFOLLOW with O_EXCL says the same.
static int create_beneath(int directory_fd, const char *name, Error *error)
{
    enum { FLAGS = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC };
    struct open_how how = {
        .flags = FLAGS, .mode = 0640, .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV};
    int fd = -1;
    if (fault_fires("file.open")) {
        errno = EIO;
    } else {
        fd = (int)syscall(SYS_openat2, directory_fd, name, &how, sizeof how);
        if (fd < 0 && (errno == ENOSYS || errno == EPERM))   // excused: every kernel we build on has it
            fd = openat(directory_fd, name, FLAGS, 0640);
    }
    if (fd < 0)
        FAIL(error, ERROR_IO, errno, "could not create file '%s'", name);
    else if (fchmod(fd, 0640) != 0) {   // excused: our own new file; whatever the umask was
        FAIL(error, ERROR_IO, errno, "could not set the mode of file '%s'", name);
        close(fd);
        fd = -1;
    }
    return fd;
}

static bool to_text(void *context, const void *bytes, uint64_t length, Error *error)
{
    Text *text = context;
    text_add_bytes(text, bytes, (size_t)length);
    return text_ok(text, error);
}

static bool to_file(void *context, const void *bytes, uint64_t length, Error *error)
{
    return file_write_all(*(const int *)context, bytes, (size_t)length, error);
}

// The next member, which must have this name. Its size is the caller's to judge.
static bool expect(const Unpacking *unpacking, const char *name, uint64_t *ret_bytes, Error *error)
{
    char found[ARCHIVE_NAME_SIZE];
    bool any;
    if (!archive_next(unpacking->reader, &any, found, ret_bytes, error))
        return false;
    if (!any)
        return FAIL(error, ERROR_DATA, 0, "archive ends where member '%s' is expected", name);
    if (text_equal(found, name))
        return true;
    SCOPED_TEXT shown;
    text_init(&shown, 512);
    text_add_escaped(&shown, found);
    return FAIL(error, ERROR_DATA, 0, "archive holds member '%s' where '%s' is expected", text_string(&shown),
                name);
}

static bool take_text(const Unpacking *unpacking, const char *name, size_t maximum, Text *ret_text,
                      Error *error)
{
    uint64_t bytes;
    if (!expect(unpacking, name, &bytes, error))
        return false;
    if (bytes == 0 || bytes > maximum)
        return FAIL(error, ERROR_DATA, 0, "member '%s' has %llu bytes, 1 to %zu are allowed", name,
                    (unsigned long long)bytes, maximum);
    return archive_take(unpacking->reader, to_text, ret_text, error);
}

// Before anything is written: the length of the whole file follows from the manifest.
static bool check_length(const Unpacking *unpacking, Error *error)
{
    struct stat status;
    if (fstat(unpacking->from_fd, &status) != 0)   // excused: a descriptor that was just read
        return FAIL(error, ERROR_IO, errno, "could not look at the archive");
    uint64_t expected = archive_member_bytes(unpacking->statement->length) +
                        archive_member_bytes(unpacking->manifest_bytes.length) + 2 * ARCHIVE_BLOCK;
    for (size_t i = 0; i < unpacking->manifest.count; i++)
        expected += archive_member_bytes(unpacking->manifest.files[i].bytes);
    return (uint64_t)status.st_size == expected ||
           FAIL(error, ERROR_DATA, 0, "archive has %llu bytes, its manifest makes it %llu",
                (unsigned long long)status.st_size, (unsigned long long)expected);
}

static bool take_file(const Unpacking *unpacking, const ManifestFile *file, Error *error)
{
    uint64_t bytes;
    if (!expect(unpacking, file->name, &bytes, error))
        return false;
    if (bytes != file->bytes)
        return FAIL(error, ERROR_DATA, 0, "member '%s' has %llu bytes, the manifest says %llu", file->name,
                    (unsigned long long)bytes, (unsigned long long)file->bytes);
    int fd = create_beneath(unpacking->directory_fd, file->name, error);
    if (fd < 0)
        return false;
    bool done = archive_take(unpacking->reader, to_file, &fd, error);
    close(fd);
    return done;
}

static bool write_manifest(const Unpacking *unpacking, Error *error)
{
    int fd = create_beneath(unpacking->directory_fd, MANIFEST_NAME, error);
    if (fd < 0)
        return false;
    bool done = file_write_all(fd, unpacking->manifest_bytes.data, unpacking->manifest_bytes.length, error);
    close(fd);
    return done;
}

static bool take_files(Unpacking *unpacking, Error *error)
{
    for (size_t i = 0; i < unpacking->manifest.count; i++)
        if (!take_file(unpacking, &unpacking->manifest.files[i], error))
            return false;
    char name[ARCHIVE_NAME_SIZE];
    uint64_t bytes;
    bool any;
    if (!archive_next(unpacking->reader, &any, name, &bytes, error))
        return false;
    // excused: the length was compared, so a member too many can only stand where zeros end the archive early
    if (any)
        return FAIL(error, ERROR_DATA, 0, "archive holds member '%s' after the last file", name);
    return write_manifest(unpacking, error);
}

typedef struct Comparison {
    int fd;
    uint64_t offset;
} Comparison;

static bool compare(void *context, const void *bytes, uint64_t length, Error *error)
{
    Comparison *comparison = context;
    const char *expected = bytes;
    char found[16 * 1024];
    for (uint64_t done = 0; done < length;) {
        size_t part = length - done < sizeof found ? (size_t)(length - done) : sizeof found;
        if (!file_pread_all(comparison->fd, found, part, comparison->offset, error))
            return false;
        if (memcmp(found, expected + done, part) != 0)
            return FAIL(error, ERROR_DATA, 0, "archive is not in the one form, first near byte %llu",
                        (unsigned long long)comparison->offset);
        done += part;
        comparison->offset += part;
    }
    return true;
}

// Files and directory synced and verified from disk, and the archive what we would write of them.
static bool finish(const Unpacking *unpacking, const char *directory, ReleaseCheck *ret_check, Error *error)
{
    Comparison comparison = {.fd = unpacking->from_fd};
    Manifest found;
    struct stat status;
    if (fstat(unpacking->directory_fd, &status) != 0 ||
        fchmod(unpacking->directory_fd, 0750 | (status.st_mode & S_ISGID)) != 0)   // excused: ours, just made
        return FAIL(error, ERROR_IO, errno, "could not set the mode of directory '%s'", directory);
    return file_sync_tree(directory, error) && bundle_verify(directory, true, ret_check, &found, error) &&
           release_pack(directory, unpacking->statement->data, unpacking->statement->length, compare,
                        &comparison, error);
}

static bool unpack(Unpacking *unpacking, const char *directory, ReleaseCheck *ret_check, Error *error)
{
    if (!take_text(unpacking, STATEMENT_NAME, RELEASE_STATEMENT_MAXIMUM, unpacking->statement, error) ||
        !take_text(unpacking, MANIFEST_NAME, MANIFEST_BYTES_MAXIMUM, &unpacking->manifest_bytes, error) ||
        !manifest_parse(unpacking->manifest_bytes.data, unpacking->manifest_bytes.length,
                        &unpacking->manifest, NULL, error) ||
        !check_length(unpacking, error))
        return false;
    if (mkdir(directory, 0700) != 0)
        return FAIL(error, errno == EACCES ? ERROR_DENIED : ERROR_IO, errno, "could not make directory '%s'",
                    directory);
    unpacking->directory_fd = bundle_open_directory(directory, error);
    bool done = unpacking->directory_fd >= 0 && take_files(unpacking, error) &&
                finish(unpacking, directory, ret_check, error);
    if (unpacking->directory_fd >= 0)
        close(unpacking->directory_fd);
    Error ignored = ERROR_INIT;   // what stays is removed by the next recovery
    if (!done && !file_remove_tree(directory, &ignored))
        error_clear(&ignored);
    return done;
}

bool release_unpack(int from_fd, const char *directory, Text *ret_statement, ReleaseCheck *ret_check,
                    Error *error)
{
    OWNED(TarReader, archive_close_tar) *reader = archive_open_tar(from_fd, error);
    if (!reader)
        return false;
    Unpacking unpacking = {
        .from_fd = from_fd, .directory_fd = -1, .reader = reader, .statement = ret_statement};
    text_init(&unpacking.manifest_bytes, MANIFEST_BYTES_MAXIMUM);
    bool done = unpack(&unpacking, directory, ret_check, error);
    text_done(&unpacking.manifest_bytes);
    return done;
}
