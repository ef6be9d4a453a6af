// export - a release out of the home as one file; it reads without a lock, since a release is never
// rewritten.
#include "registry_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <fedgate/fault.h>
#include <string.h>
#include <unistd.h>

typedef struct Output {
    int fd;
    Hash *hash;
    uint64_t bytes;
} Output;

static bool put(void *context, const void *bytes, uint64_t length, Error *error)
{
    Output *output = context;
    hash_add(output->hash, bytes, (size_t)length);
    output->bytes += length;
    registry_step();
    return file_write_all(output->fd, bytes, (size_t)length, error);
}

// Everything the statement says, from the release and the chain alone: the same state, the same bytes.
static bool describe(const Registry *registry, const Chain *chain, const char *version, const char *directory,
                     Statement *ret_statement, Error *error)
{
    OWNED(Json, json_free) *manifest = NULL;
    Statement statement = {.number = 0};
    const PointerRecord *known = chain_find(chain, version);
    if (!release_read_manifest(directory, &manifest, &statement.release_digest, error))
        return false;
    if (known && !digest_equal(&known->release_digest, &statement.release_digest))
        return FAIL(error, ERROR_DATA, 0, "release '%s' is not the one that pointer record '%lld' made live",
                    version, (long long)known->seq);
    if (known) {
        statement.number = known->seq;
        statement.record_digest = known->digest;
    }
    // excused: a manifest that was read is of a known kind, and its names fit
    if (!text_copy(statement.home, sizeof statement.home, registry->id) ||
        !text_copy(statement.version, sizeof statement.version, version) ||
        !text_copy(statement.model, sizeof statement.model, json_text_or(json_get(manifest, "model"), "")) ||
        !release_find_kind(json_text_or(json_get(manifest, "kind"), ""), &statement.kind))
        return FAIL(error, ERROR_INTERNAL, 0, "release '%s' cannot be described", version);
    *ret_statement = statement;
    return true;
}

static bool write_file(const char *directory, const Statement *statement, const char *path,
                       ExportResult *result, Error *error)
{
    SCOPED_TEXT bytes;
    text_init(&bytes, RELEASE_STATEMENT_MAXIMUM);
    statement_render(statement, &bytes);
    if (!text_ok(&bytes, error))
        return false;
    Output output = {.fd = fault_fires("file.open")
                               ? (errno = EIO, -1)
                               : open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0640)};
    if (output.fd < 0)
        return FAIL(error, ERROR_IO, errno, "could not create file '%s'", path);
    output.hash = hash_begin();
    bool done = release_pack(directory, bytes.data, bytes.length, put, &output, error);
    hash_end(output.hash, &result->file_digest);
    result->bytes = output.bytes;
    if (close(output.fd) != 0 && done)   // excused: no file system of a test reports what it wrote only here
        done = FAIL(error, ERROR_IO, errno, "could not close file '%s'", path);
    return done && file_sync_tree(path, error);
}

static bool sync_parent(const char *file, Error *error)
{
    char folder[FILE_PATH_SIZE];
    const char *slash = strrchr(file, '/');
    if (!slash)
        return file_sync_directory(".", error);
    return text_print(folder, sizeof folder, "%.*s", slash == file ? 1 : (int)(slash - file), file) &&
           file_sync_directory(folder, error);
}

static bool export_release(const Registry *registry, const Chain *chain, const char *version,
                           const char *directory, const char *file, ExportResult *result, Error *error)
{
    char temporary[FILE_PATH_SIZE];
    Statement statement;
    if (!text_print(temporary, sizeof temporary, "%s.tmp-%ld", file, (long)getpid()))
        return FAIL(error, ERROR_USAGE, 0, "path '%.64s...' is longer than %d bytes", file,
                    FILE_PATH_SIZE - 32);
    if (!describe(registry, chain, version, directory, &statement, error) || !file_remove(temporary, error))
        return false;
    result->number = statement.number;
    result->release_digest = statement.release_digest;
    bool named = false;
    if (write_file(directory, &statement, temporary, result, error)) {
        registry_step();
        named = file_rename_new(temporary, file, error);
    }
    if (named && sync_parent(file, error))
        return true;
    Error ignored = ERROR_INIT;   // nothing is left of what may not be whole after a power cut
    if (!file_remove(named ? file : temporary, &ignored))
        error_clear(&ignored);
    return false;
}

bool registry_export(Registry *registry, const char *version, const char *file, ExportResult *ret_result,
                     Error *error)
{
    SCOPED_CHAIN chain = {.records = NULL};
    char directory[FILE_PATH_SIZE], when[CLOCK_TIME_SIZE];
    bool pruned;
    ExportResult result = {.number = 0};
    if (!release_is_version(version))
        return FAIL(error, ERROR_USAGE, 0, "'%.96s' is not the name of a version", version);
    if (!chain_read(registry, &chain, error) ||
        !registry_path(registry, directory, "releases", version, error) ||
        !registry_is_pruned(registry, version, &pruned, when, error))
        return false;
    if (pruned)
        return FAIL(error, ERROR_DATA, 0, "release '%s' was pruned on %s", version, when);
    if (!file_is_directory(directory))
        return FAIL(error, ERROR_DATA, 0, "there is no release '%s'", version);
    if (!export_release(registry, &chain, version, directory, file, &result, error))
        return false;
    *ret_result = result;
    return true;
}
