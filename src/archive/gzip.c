// gzip - reading .gz whole or not at all, through zlib itself.
//
// zlib's gzip mode proves CRC32 and ISIZE of each member; what it does not do is done here: every member is
// read, anything after the last one is an error, and an end of file inside a member is damage. Offsets in
// messages are of the compressed file.
#include <fedgate/archive.h>
#include <fedgate/file.h>

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

enum {
    GZIP_BLOCK = 256 * 1024,   // bytes of each of the two buffers
    GZIP_WINDOW = 15 + 16,   // largest window, gzip format only
};

typedef struct GzipReader {
    int fd;
    uint64_t read_bytes;   // compressed bytes taken from the file so far
    uint64_t written_bytes, maximum_bytes;
    z_stream stream;
    ArchiveSink sink;
    void *context;
    unsigned char *in, *out;
} GzipReader;

// Offset of the first compressed byte that inflate has not consumed.
static uint64_t gzip_offset(const GzipReader *reader)
{
    return reader->read_bytes - reader->stream.avail_in;
}

// Refills the input buffer when it is empty; ret_end: nothing is left in the file.
static bool gzip_fill(GzipReader *reader, bool *ret_end, Error *error)
{
    *ret_end = false;
    if (reader->stream.avail_in > 0)
        return true;
    ssize_t got;
    do
        got = pread(reader->fd, reader->in, GZIP_BLOCK, (off_t)reader->read_bytes);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return FAIL(error, ERROR_IO, errno, "could not read compressed file at offset %llu",
                    (unsigned long long)reader->read_bytes);
    reader->read_bytes += (uint64_t)got;
    reader->stream.next_in = reader->in;
    reader->stream.avail_in = (uInt)got;
    *ret_end = got == 0;
    return true;
}

static bool gzip_hand_over(GzipReader *reader, Error *error)
{
    uint64_t length = GZIP_BLOCK - reader->stream.avail_out;
    if (length == 0)
        return true;
    if (reader->written_bytes + length > reader->maximum_bytes)
        return FAIL(error, ERROR_MEMORY, 0, "compressed file unpacks to more than the limit of %llu bytes",
                    (unsigned long long)reader->maximum_bytes);
    reader->written_bytes += length;
    return reader->sink(reader->context, reader->out, length, error);
}

// One member, from its header to its trailer.
static bool gzip_member(GzipReader *reader, Error *error)
{
    z_stream *stream = &reader->stream;
    for (;;) {
        bool end;
        if (!gzip_fill(reader, &end, error))
            return false;
        if (end)
            return FAIL(error, ERROR_DATA, 0,
                        "compressed file is cut short: it ends inside a gzip member at offset %llu",
                        (unsigned long long)reader->read_bytes);
        stream->next_out = reader->out;
        stream->avail_out = GZIP_BLOCK;
        int status = inflate(stream, Z_NO_FLUSH);
        if (status == Z_MEM_ERROR)
            return FAIL(error, ERROR_MEMORY, 0, "out of memory while unpacking a compressed file");
        // Z_BUF_ERROR only says that no progress was possible with the bytes at hand.
        if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
            return FAIL(error, ERROR_DATA, 0, "compressed file is damaged before offset %llu: %s",
                        (unsigned long long)gzip_offset(reader),
                        stream->msg ? stream->msg : "not a gzip stream");
        if (!gzip_hand_over(reader, error))
            return false;
        if (status == Z_STREAM_END)
            return true;
    }
}

static bool gzip_all_members(GzipReader *reader, Error *error)
{
    for (size_t member = 0;; member++) {
        bool end;
        if (!gzip_fill(reader, &end, error))
            return false;
        if (end && member == 0)
            return FAIL(error, ERROR_DATA, 0, "compressed file is empty");
        if (end)
            return true;
        uint64_t begin = gzip_offset(reader);
        if (member > 0 && reader->stream.next_in[0] != 0x1f)
            return FAIL(error, ERROR_DATA, 0,
                        "compressed file has bytes after its last gzip member, at offset %llu",
                        (unsigned long long)begin);
        if (inflateReset(&reader->stream) != Z_OK)
            return FAIL(error, ERROR_INTERNAL, 0, "could not reset the gzip reader");
        if (!gzip_member(reader, error))
            return error_prefix(error, "gzip member %zu at offset %llu", member + 1,
                                (unsigned long long)begin);
    }
}

bool archive_stream_gzip(int from_fd, uint64_t maximum_bytes, ArchiveSink sink, void *context, Error *error)
{
    GzipReader reader = {.fd = from_fd, .maximum_bytes = maximum_bytes, .sink = sink, .context = context};
    reader.in = malloc(GZIP_BLOCK);
    reader.out = malloc(GZIP_BLOCK);
    bool good = false;
    if (!reader.in || !reader.out || inflateInit2(&reader.stream, GZIP_WINDOW) != Z_OK) {
        FAIL(error, ERROR_MEMORY, 0, "out of memory for unpacking a compressed file");
    } else {
        good = gzip_all_members(&reader, error);
        inflateEnd(&reader.stream);
    }
    free(reader.in);
    free(reader.out);
    return good;
}

typedef struct FdSink {
    int fd;
    uint64_t bytes;
} FdSink;

static bool sink_to_fd(void *context, const void *bytes, uint64_t length, Error *error)
{
    FdSink *sink = context;
    if (!file_write_all(sink->fd, bytes, length, error))
        return false;
    sink->bytes += length;
    return true;
}

bool archive_unpack_gzip(int from_fd, int to_fd, uint64_t maximum_bytes, uint64_t *ret_bytes, Error *error)
{
    FdSink sink = {.fd = to_fd};
    if (!archive_stream_gzip(from_fd, maximum_bytes, sink_to_fd, &sink, error))
        return false;
    *ret_bytes = sink.bytes;
    return true;
}

bool archive_is_gzip(int fd)
{
    unsigned char magic[2];
    return pread(fd, magic, sizeof magic, 0) == (ssize_t)sizeof magic && magic[0] == 0x1f && magic[1] == 0x8b;
}
