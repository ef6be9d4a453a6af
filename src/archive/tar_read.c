// tar_read - what is in a tar, asked of libarchive; nothing of it is written to disk by that library.
//
// Only the tar reader is switched on, no filter, so nothing is decompressed. Blocks must follow each other
// without holes, so that what is taken is never more than what was read.
#include <fedgate/archive.h>
#include <fedgate/text.h>

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TAR_READ_BLOCK = 64 * 1024 };

struct TarReader {
    struct archive *archive;
    int fd;
    uint64_t offset;   // of the next byte to read
    int read_errno;   // of a read that failed; 0: what is wrong is the content
    char name[ARCHIVE_NAME_SIZE];
    uint64_t bytes;
    unsigned char block[TAR_READ_BLOCK];
};

static ssize_t read_block(struct archive *archive, void *context, const void **ret_block)
{
    TarReader *reader = context;
    ssize_t got;
    do
        got = pread(reader->fd, reader->block, sizeof reader->block, (off_t)reader->offset);
    while (got < 0 && errno == EINTR);
    if (got < 0) {
        reader->read_errno = errno;
        archive_set_error(archive, errno, "could not read");
        return ARCHIVE_FATAL;
    }
    reader->offset += (uint64_t)got;
    *ret_block = reader->block;
    return got;
}

// What libarchive says, made safe to print; a read that failed is ours, everything else is the file's.
static bool refuse(const TarReader *reader, Error *error)
{
    if (reader->read_errno != 0)
        return FAIL(error, ERROR_IO, reader->read_errno, "could not read archive");
    SCOPED_TEXT said;
    text_init(&said, 256);
    const char *message = archive_error_string(reader->archive);
    text_add_escaped(&said, message ? message : "it ends too early");
    return FAIL(error, ERROR_DATA, 0, "archive is damaged: %s", text_string(&said));
}

TarReader *archive_open_tar(int fd, Error *error)
{
    TarReader *reader = calloc(1, sizeof *reader);
    if (!reader) {   // excused: no allocation fails in a test
        FAIL(error, ERROR_MEMORY, 0, "out of memory for an archive");
        return NULL;
    }
    reader->fd = fd;
    reader->archive = archive_read_new();
    if (reader->archive && archive_read_support_format_tar(reader->archive) == ARCHIVE_OK &&
        archive_read_set_read_callback(reader->archive, read_block) == ARCHIVE_OK &&
        archive_read_set_callback_data(reader->archive, reader) == ARCHIVE_OK &&
        archive_read_open1(reader->archive) == ARCHIVE_OK)
        return reader;
    if (reader->archive)
        refuse(reader, error);
    else   // excused: no allocation fails in a test
        FAIL(error, ERROR_MEMORY, 0, "out of memory for an archive");
    archive_close_tar(reader);
    return NULL;
}

void archive_close_tar(TarReader *reader)
{
    if (!reader)
        return;
    archive_read_free(reader->archive);   // NULL allowed
    free(reader);
}

static const struct {
    unsigned type;
    const char *noun;
} entry_types[] = {
    {AE_IFLNK, "a link"},   {AE_IFDIR, "a directory"}, {AE_IFCHR, "a device"},
    {AE_IFBLK, "a device"}, {AE_IFIFO, "a fifo"},      {AE_IFSOCK, "a socket"},
};

// Why this member is not a plain file without tricks; NULL when it is one.
static const char *find_trick(struct archive_entry *entry)
{
    for (size_t i = 0; i < sizeof entry_types / sizeof entry_types[0]; i++)
        if (archive_entry_filetype(entry) == entry_types[i].type)
            return entry_types[i].noun;
    if (archive_entry_hardlink(entry))
        return "a hard link";
    if (archive_entry_filetype(entry) != AE_IFREG || archive_entry_symlink(entry))
        return "not a plain file";
    if (archive_entry_sparse_count(entry) > 0)
        return "a file with holes";
    if (archive_entry_xattr_count(entry) > 0 || archive_entry_acl_types(entry) != 0)
        return "a file with extended attributes";
    return !archive_entry_size_is_set(entry) || archive_entry_size(entry) < 0 ? "a file without a size"
                                                                              : NULL;
}

bool archive_next(TarReader *reader, bool *ret_any, char ret_name[static ARCHIVE_NAME_SIZE],
                  uint64_t *ret_bytes, Error *error)
{
    struct archive_entry *entry;
    int status = archive_read_next_header(reader->archive, &entry);
    if (status == ARCHIVE_EOF) {
        *ret_any = false;
        return true;
    }
    // A warning says that something could not be understood: an unknown key, a name in no known encoding.
    if (status != ARCHIVE_OK)
        return refuse(reader, error);
    const char *name = archive_entry_pathname(entry), *trick = find_trick(entry);
    SCOPED_TEXT shown;
    text_init(&shown, 1024);
    text_add_escaped(&shown, name ? name : "");
    if (trick)
        return FAIL(error, ERROR_DATA, 0, "member '%.96s' of the archive is %s", text_string(&shown), trick);
    if (!name || !text_copy(reader->name, sizeof reader->name, name))
        return FAIL(error, ERROR_DATA, 0, "member '%.96s' of the archive has a name of over %d bytes",
                    text_string(&shown), ARCHIVE_NAME_SIZE - 1);
    reader->bytes = (uint64_t)archive_entry_size(entry);
    memcpy(ret_name, reader->name, sizeof reader->name);
    *ret_bytes = reader->bytes;
    *ret_any = true;
    return true;
}

bool archive_take(TarReader *reader, ArchiveSink sink, void *context, Error *error)
{
    uint64_t taken = 0;
    for (;;) {
        const void *bytes;
        size_t length;
        la_int64_t offset;
        int status = archive_read_data_block(reader->archive, &bytes, &length, &offset);
        if (status == ARCHIVE_EOF)
            break;
        if (status != ARCHIVE_OK)
            return refuse(reader, error);
        // excused: without holes libarchive gives each block where the last one ended
        if (offset < 0 || (uint64_t)offset != taken || length > reader->bytes - taken)
            return FAIL(error, ERROR_DATA, 0, "member '%s' of the archive has holes", reader->name);
        taken += length;
        if (length > 0 && !sink(context, bytes, length, error))
            return false;
    }
    return taken == reader->bytes ||
           FAIL(error, ERROR_DATA, 0, "member '%s' of the archive is cut short", reader->name);
}
