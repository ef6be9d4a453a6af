// pack_fixture.h - a packed release in memory, taken apart into members and put together again.
#ifndef FEDGATE_PACK_FIXTURE_H
#define FEDGATE_PACK_FIXTURE_H

#include "support.h"

#include <fcntl.h>
#include <fedgate/archive.h>
#include <fedgate/file.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PACK_MEMBERS = 16, PACK_BYTES = 4 << 20 };

typedef struct PackMember {
    char name[ARCHIVE_NAME_SIZE];
    Text bytes;
} PackMember;

typedef struct Pack {
    PackMember members[PACK_MEMBERS];
    size_t count;
} Pack;

__attribute__((unused)) static bool pack_sink(void *context, const void *bytes, uint64_t length, Error *error)
{
    Text *to = context;
    text_add_bytes(to, bytes, (size_t)length);
    return text_ok(to, error);
}

__attribute__((unused)) static void pack_add(Pack *pack, const char *name, const char *bytes, size_t length)
{
    PackMember *member = &pack->members[pack->count++];
    ck_assert_uint_le(pack->count, PACK_MEMBERS);
    ck_assert(text_copy(member->name, sizeof member->name, name));
    text_init(&member->bytes, PACK_BYTES);
    text_add_bytes(&member->bytes, bytes, length);
}

__attribute__((unused)) static void pack_done(Pack *pack)
{
    for (size_t i = 0; i < pack->count; i++)
        text_done(&pack->members[i].bytes);
    pack->count = 0;
}

__attribute__((unused)) static void pack_load(Pack *pack, const char *path)
{
    Error error = ERROR_INIT;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    OWNED(TarReader, archive_close_tar) *reader = archive_open_tar(fd, &error);
    ASSERT_OK(reader != NULL, &error);
    pack->count = 0;
    for (;;) {
        char name[ARCHIVE_NAME_SIZE];
        uint64_t bytes;
        bool any;
        ASSERT_OK(archive_next(reader, &any, name, &bytes, &error), &error);
        if (!any)
            break;
        pack_add(pack, name, "", 0);
        ASSERT_OK(archive_take(reader, pack_sink, &pack->members[pack->count - 1].bytes, &error), &error);
    }
    close(fd);
}

// The members as they are now, each in the one form.
__attribute__((unused)) static void pack_render(const Pack *pack, Text *out)
{
    Error error = ERROR_INIT;
    for (size_t i = 0; i < pack->count; i++) {
        const PackMember *member = &pack->members[i];
        ASSERT_OK(archive_put_header(pack_sink, out, member->name, member->bytes.length, &error), &error);
        text_add_bytes(out, text_string(&member->bytes), member->bytes.length);
        ASSERT_OK(archive_put_padding(pack_sink, out, member->bytes.length, &error), &error);
    }
    ASSERT_OK(archive_put_end(pack_sink, out, &error), &error);
}

__attribute__((unused)) static void pack_write_bytes(const char *path, const Text *bytes)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
    Error error = ERROR_INIT;
    ck_assert_int_ge(fd, 0);
    ASSERT_OK(file_write_all(fd, text_string(bytes), bytes->length, &error), &error);
    close(fd);
}

__attribute__((unused)) static void pack_save(const Pack *pack, const char *path)
{
    SCOPED_TEXT bytes;
    text_init(&bytes, PACK_BYTES);
    pack_render(pack, &bytes);
    pack_write_bytes(path, &bytes);
}

// Every `from` in a member becomes `to`; there is at least one.
__attribute__((unused)) static void pack_edit(Pack *pack, size_t index, const char *from, const char *to)
{
    Text *bytes = &pack->members[index].bytes;
    SCOPED_TEXT before;
    text_init(&before, PACK_BYTES);
    text_add_bytes(&before, text_string(bytes), bytes->length);
    text_clear(bytes);
    const char *at = text_string(&before), *found;
    ck_assert_ptr_nonnull(strstr(at, from));
    for (; (found = strstr(at, from)) != NULL; at = found + strlen(from)) {
        text_add_bytes(bytes, at, (size_t)(found - at));
        text_add(bytes, to);
    }
    text_add(bytes, at);
}

#endif
