// pack_publish - finished shards get their names, all of them or none; what is there already is compared,
// never written over.
//
// A shard has no name until it is whole and synced, so a pack that is killed leaves nothing behind.
#include "pack_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <fedgate/text.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COPY_BYTES = 1 << 20 };

static bool is_shard_name(const char *name)
{
    return (text_starts_with(name, "train-") || text_starts_with(name, "test-")) &&
           text_ends_with(name, PACKED_SUFFIX);
}

static PackShard *shard_named(const Pack *pack, const char *name)
{
    for (size_t i = 0; i < pack->shard_count; i++)
        if (text_equal(pack->shards[i].name, name))
            return &pack->shards[i];
    return NULL;
}

static bool compare(const Pack *pack, PackShard *shard, const char *path, Error *error)
{
    Digest digest;
    uint64_t bytes;
    if (!hash_file(path, &digest, &bytes, error))
        return false;
    if (bytes == shard->bytes && digest_equal(&digest, &shard->digest)) {
        shard->kept = true;
        return true;
    }
    FAIL(error, ERROR_CONFLICT, 0, "packed shard '%s' is there already and holds other bytes", path);
    return error_hint(error, "Give an empty folder, or remove the shards in '%.180s'.",
                      pack->spec->directory);
}

// Shards of another pack beside ours would be trained on together some day.
static bool look_at_folder(const Pack *pack, Error *error)
{
    FileList list = {0};
    if (!file_list(pack->spec->directory, &list, error))
        return false;
    bool good = true;
    for (size_t i = 0; good && i < list.count; i++) {
        char path[FILE_PATH_SIZE];
        PackShard *shard = shard_named(pack, list.names[i]);
        good = file_join(path, pack->spec->directory, list.names[i], error);
        if (good && shard)
            good = compare(pack, shard, path, error);
        else if (good && is_shard_name(list.names[i])) {
            good = FAIL(error, ERROR_CONFLICT, 0, "folder '%s' holds '%s' of another pack",
                        pack->spec->directory, list.names[i]);
            error_hint(error, "Give an empty folder, or remove the shards that are there.");
        }
    }
    file_list_done(&list);
    return good;
}

// For file systems whose unnamed files cannot be given a name: a copy beside, then renamed.
static bool copy_to_name(int fd, const char *path, Error *error)
{
    char beside[FILE_PATH_SIZE];
    if (!text_print(beside, sizeof beside, "%s.tmp-%ld", path, (long)getpid()))
        return FAIL(error, ERROR_USAGE, 0, "path '%.64s...' is longer than %d bytes", path,
                    FILE_PATH_SIZE - 1);
    int to = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0640);
    if (to < 0)
        return FAIL(error, ERROR_IO, errno, "could not create '%s'", beside);
    char *block = malloc(COPY_BYTES);
    struct stat status;
    bool good = block && fstat(fd, &status) == 0
                    ? true
                    : FAIL(error, ERROR_IO, errno, "could not copy to '%s'", beside);
    for (off_t at = 0; good && at < status.st_size; at += COPY_BYTES) {
        size_t length = status.st_size - at < COPY_BYTES ? (size_t)(status.st_size - at) : COPY_BYTES;
        good = file_pread_all(fd, block, length, (uint64_t)at, error) &&
               file_write_all(to, block, length, error);
    }
    free(block);
    if (good && fsync(to) != 0)
        good = FAIL(error, ERROR_IO, errno, "could not sync '%s'", beside);
    close(to);
    good = good && file_rename_new(beside, path, error);
    if (!good)
        unlink(beside);
    return good;
}

static bool give_name(int fd, const char *path, Error *error)
{
    char own[64];
    if (fchmod(fd, 0640) != 0 || !text_print(own, sizeof own, "/proc/self/fd/%d", fd))
        return FAIL(error, ERROR_IO, errno, "could not prepare '%s'", path);
    if (linkat(AT_FDCWD, own, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0)
        return true;
    if (errno == EEXIST)
        return FAIL(error, ERROR_CONFLICT, 0, "packed shard '%s' was made by somebody else meanwhile", path);
    return copy_to_name(fd, path, error);
}

static bool name_all(const Pack *pack, size_t *ret_named, Error *error)
{
    for (*ret_named = 0; *ret_named < pack->shard_count; ++*ret_named) {
        PackShard *shard = &pack->shards[*ret_named];
        char path[FILE_PATH_SIZE];
        if (!shard->kept && (!file_join(path, pack->spec->directory, shard->name, error) ||
                             !give_name(shard->fd, path, error)))
            return false;
    }
    return file_sync_directory(pack->spec->directory, error);
}

bool pack_publish(const Pack *pack, Error *error)
{
    size_t named = 0;
    if (!look_at_folder(pack, error))
        return false;
    if (name_all(pack, &named, error))
        return true;
    for (size_t i = 0; i < named; i++) {
        char path[FILE_PATH_SIZE];
        Error ignored = ERROR_INIT;
        if (!pack->shards[i].kept && file_join(path, pack->spec->directory, pack->shards[i].name, &ignored))
            unlink(path);
    }
    return false;
}
