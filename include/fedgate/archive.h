// archive.h - compressed files read whole or not at all: the only libarchive and zlib.
//
// gzip is read through zlib itself, because libarchive checks neither CRC nor length: every member's CRC32
// and ISIZE are proved, all members are read, bytes after the last member are an error naming their offset.
// zstd and tar come with a later issue.
#ifndef FEDGATE_ARCHIVE_H
#define FEDGATE_ARCHIVE_H

#include <fedgate/error.h>
#include <stdint.h>

bool archive_is_gzip(int fd);   // by magic, not by name; false when unreadable

// Unpacks all members of `from_fd` (read by pread from offset 0) to `to_fd`. ERROR_DATA names the compressed
// offset on damage, truncation or trailing bytes; ERROR_MEMORY past maximum_bytes of output. ret_bytes: bytes
// written.
WARN_UNUSED bool archive_unpack_gzip(int from_fd, int to_fd, uint64_t maximum_bytes, uint64_t *ret_bytes,
                                     Error *error);
// For bounded reading of .json.gz traces: `sink` gets blocks in order and may stop by returning false.
typedef bool (*ArchiveSink)(void *context, const void *bytes, uint64_t length, Error *error);
WARN_UNUSED bool archive_stream_gzip(int from_fd, uint64_t maximum_bytes, ArchiveSink sink, void *context,
                                     Error *error);

// -- tar, uncompressed. A member is its header, its bytes, its padding; names are at most 100 bytes.
enum { ARCHIVE_BLOCK = 512, ARCHIVE_NAME_SIZE = 101 };
WARN_UNUSED bool archive_put_header(ArchiveSink sink, void *context, const char *name, uint64_t bytes,
                                    Error *error);
WARN_UNUSED bool archive_put_padding(ArchiveSink sink, void *context, uint64_t bytes, Error *error);
WARN_UNUSED bool archive_put_end(ArchiveSink sink, void *context, Error *error);
// Bytes that a member of this size takes, header and padding included.
uint64_t archive_member_bytes(uint64_t bytes);

typedef struct TarReader TarReader;
// By pread from offset 0; the descriptor stays the caller's.
WARN_UNUSED TarReader *archive_open_tar(int fd, Error *error);
// The next member: a plain file without holes, links or extended attributes. ERROR_DATA names anything else.
WARN_UNUSED bool archive_next(TarReader *reader, bool *ret_any, char ret_name[static ARCHIVE_NAME_SIZE],
                              uint64_t *ret_bytes, Error *error);
// Its bytes, in order and complete.
WARN_UNUSED bool archive_take(TarReader *reader, ArchiveSink sink, void *context, Error *error);
void archive_close_tar(TarReader *reader);   // NULL allowed
OWNED_RELEASE(TarReader, archive_close_tar)

#endif
