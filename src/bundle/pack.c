// pack - a release as one file: header, bytes and padding of each member, hashed on the way out.
#include "bundle_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum { PACK_BLOCK = 256 * 1024 };

static bool put_bytes(ArchiveSink sink, void *context, const char *name, const char *bytes, size_t length,
                      Error *error)
{
    return archive_put_header(sink, context, name, length, error) && sink(context, bytes, length, error) &&
           archive_put_padding(sink, context, length, error);
}

// What was hashed is what was given out: one read of one descriptor.
static bool put_open_file(int fd, const ManifestFile *file, Hash *hash, char *block, ArchiveSink sink,
                          void *context, Error *error)
{
    for (uint64_t done = 0; done < file->bytes;) {
        uint64_t left = file->bytes - done;
        size_t length = left < PACK_BLOCK ? (size_t)left : PACK_BLOCK;
        if (!file_pread_all(fd, block, length, done, error) || !sink(context, block, length, error))
            return false;
        hash_add(hash, block, length);
        done += length;
    }
    return true;
}

static bool put_file(int directory_fd, const ManifestFile *file, char *block, ArchiveSink sink, void *context,
                     Error *error)
{
    int fd;
    uint64_t bytes;
    if (!bundle_open_file(directory_fd, file->name, &fd, &bytes, error))
        return false;
    Hash *hash = hash_begin();
    Digest found;
    bool good =
        bytes == file->bytes || FAIL(error, ERROR_DATA, 0, "file '%s' has %llu bytes, not %llu", file->name,
                                     (unsigned long long)bytes, (unsigned long long)file->bytes);
    good = good && archive_put_header(sink, context, file->name, file->bytes, error) &&
           put_open_file(fd, file, hash, block, sink, context, error) &&
           archive_put_padding(sink, context, file->bytes, error);
    hash_end(hash, &found);
    close(fd);
    return good &&
           (digest_equal(&found, &file->digest) ||
            FAIL(error, ERROR_DATA, 0, "file '%s' differs from its digest in the manifest", file->name));
}

static bool put_all(int directory_fd, const char *statement, size_t length, char *block, ArchiveSink sink,
                    void *context, Error *error)
{
    Manifest manifest;
    SCOPED_TEXT bytes;
    text_init(&bytes, MANIFEST_BYTES_MAXIMUM);
    if (!manifest_read_at(directory_fd, &manifest, NULL, error) ||
        !bundle_check_set(directory_fd, &manifest, error))
        return false;
    manifest_render(&manifest, &bytes);
    if (!text_ok(&bytes, error) || !put_bytes(sink, context, STATEMENT_NAME, statement, length, error) ||
        !put_bytes(sink, context, MANIFEST_NAME, bytes.data, bytes.length, error))
        return false;
    for (size_t i = 0; i < manifest.count; i++)
        if (!put_file(directory_fd, &manifest.files[i], block, sink, context, error))
            return false;
    return archive_put_end(sink, context, error);
}

bool release_pack(const char *directory, const char *statement, size_t length, ArchiveSink sink,
                  void *context, Error *error)
{
    char *block = malloc(PACK_BLOCK);
    if (!block)   // excused: no allocation fails in a test
        return FAIL(error, ERROR_MEMORY, 0, "out of memory for packing a release");
    int fd = bundle_open_directory(directory, error);
    bool done = fd >= 0 && put_all(fd, statement, length, block, sink, context, error);
    if (fd >= 0)
        close(fd);
    free(block);
    return done || error_prefix(error, "release");
}
