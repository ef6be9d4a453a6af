// tar - the one form in which we write it: POSIX ustar blocks with every field that could vary set to
// nothing.
//
// IEEE Std 1003.1, pax, "ustar Interchange Format". A size that does not fit its eleven octal digits (8 GiB)
// is base-256, as GNU tar and libarchive write and read it.
#include <fedgate/archive.h>

#include <fedgate/text.h>
#include <string.h>

typedef struct TarHeader {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type;
    char link[100], magic[6], version[2], user[32], group[32], major[8], minor[8], prefix[155], rest[12];
} TarHeader;
_Static_assert(sizeof(TarHeader) == ARCHIVE_BLOCK, "a tar header is one block");

static void put_octal(char *field, size_t digits, uint64_t value)
{
    for (size_t i = digits; i-- > 0; value >>= 3)
        field[i] = (char)('0' + (value & 7));
}

static void put_size(char field[static 12], uint64_t bytes)
{
    if (bytes < UINT64_C(1) << 33) {
        put_octal(field, 11, bytes);
        return;
    }
    for (size_t i = 12; i-- > 0; bytes >>= 8)
        field[i] = (char)(bytes & 0xff);
    field[0] = (char)0x80;
}

static uint64_t padding(uint64_t bytes)
{
    return (ARCHIVE_BLOCK - bytes % ARCHIVE_BLOCK) % ARCHIVE_BLOCK;
}

uint64_t archive_member_bytes(uint64_t bytes)
{
    return ARCHIVE_BLOCK + bytes + padding(bytes);
}

bool archive_put_header(ArchiveSink sink, void *context, const char *name, uint64_t bytes, Error *error)
{
    TarHeader header = {.type = '0', .magic = "ustar", .version = {'0', '0'}};
    size_t length = strlen(name);
    if (length == 0 || length > sizeof header.name)
        return FAIL(error, ERROR_USAGE, 0, "name '%.64s' of a member has %zu bytes, 1 to %zu are allowed",
                    name, length, sizeof header.name);
    memcpy(header.name, name, length);
    put_octal(header.mode, 7, 0640);
    put_octal(header.uid, 7, 0);
    put_octal(header.gid, 7, 0);
    put_size(header.size, bytes);
    put_octal(header.mtime, 11, 0);
    put_octal(header.major, 7, 0);
    put_octal(header.minor, 7, 0);
    // The sum counts its own field as blanks; it is written as six digits, NUL, blank.
    memset(header.checksum, ' ', sizeof header.checksum);
    unsigned char block[ARCHIVE_BLOCK];
    memcpy(block, &header, sizeof block);
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof block; i++)
        sum += block[i];
    put_octal(header.checksum, 6, sum);
    header.checksum[6] = '\0';
    return sink(context, &header, sizeof header, error);
}

static const char zeros[2 * ARCHIVE_BLOCK];

bool archive_put_padding(ArchiveSink sink, void *context, uint64_t bytes, Error *error)
{
    return padding(bytes) == 0 || sink(context, zeros, padding(bytes), error);
}

bool archive_put_end(ArchiveSink sink, void *context, Error *error)
{
    return sink(context, zeros, sizeof zeros, error);
}
