// verify - a release is whole when the set of its files is the manifest's and every byte hashes to it.
//
// What is hashed is what was opened: one descriptor per file, below one descriptor of the directory.
#include "bundle_internal.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

typedef struct Names {
    const Manifest *manifest;
    bool seen[MANIFEST_FILES_MAXIMUM];
} Names;

static bool tick_name(void *context, const char *name, Error *error)
{
    Names *names = context;
    if (strcmp(name, MANIFEST_NAME) == 0)
        return true;
    for (size_t i = 0; i < names->manifest->count; i++)
        if (strcmp(names->manifest->files[i].name, name) == 0) {
            names->seen[i] = true;
            return true;
        }
    SCOPED_TEXT shown;
    text_init(&shown, 256);
    text_add_escaped(&shown, name);
    return FAIL(error, ERROR_DATA, 0, "file '%.128s' is not in the manifest", text_string(&shown));
}

bool bundle_check_set(int directory_fd, const Manifest *manifest, Error *error)
{
    Names names = {.manifest = manifest};
    if (!bundle_visit_names(directory_fd, tick_name, &names, error))
        return false;
    for (size_t i = 0; i < manifest->count; i++)
        if (!names.seen[i])
            return FAIL(error, ERROR_DATA, 0, "file '%s' is missing", manifest->files[i].name);
    return true;
}

static bool check_bytes(int fd, const ManifestFile *file, uint64_t bytes, bool cold, Error *error)
{
    // The size is compared first, so that a file blown up after sealing is refused unread.
    if (bytes != file->bytes)
        return FAIL(error, ERROR_DATA, 0, "file '%s' has %llu bytes, the manifest says %llu", file->name,
                    (unsigned long long)bytes, (unsigned long long)file->bytes);
    if (cold)
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    Digest found;
    uint64_t hashed;
    if (!hash_fd(fd, &found, &hashed, error))
        return error_prefix(error, "file '%s'", file->name);
    if (hashed != file->bytes || !digest_equal(&found, &file->digest))
        return FAIL(error, ERROR_DATA, 0, "file '%s' differs from its digest in the manifest", file->name);
    return true;
}

typedef bool (*FileCheck)(int fd, const ManifestFile *file, uint64_t bytes, bool cold, Error *error);

static bool check_each(int directory_fd, const Manifest *manifest, FileCheck check, bool cold, Error *error)
{
    for (size_t i = 0; i < manifest->count; i++) {
        int fd;
        uint64_t bytes;
        if (!bundle_open_file(directory_fd, manifest->files[i].name, &fd, &bytes, error))
            return false;
        bool good = !check || check(fd, &manifest->files[i], bytes, cold, error);
        close(fd);
        if (!good)
            return false;
    }
    return true;
}

static bool verify_open(int directory_fd, bool cold, ReleaseCheck *check, Manifest *manifest, Error *error)
{
    if (!manifest_read_at(directory_fd, manifest, NULL, error))
        return false;
    check->manifest_read = true;
    check->kind = manifest->kind;
    check->digest = manifest->digest;
    check->files = manifest->count;
    for (size_t i = 0; i < manifest->count; i++)
        check->bytes += manifest->files[i].bytes;
    if (!text_copy(check->version, sizeof check->version, manifest->version))
        BUG("version '%s' does not fit", manifest->version);

    if (!bundle_check_set(directory_fd, manifest, error) ||
        !check_each(directory_fd, manifest, NULL, false, error))
        return false;
    check->files_complete = true;
    check->digests_match = check_each(directory_fd, manifest, check_bytes, cold, error);
    return check->digests_match;
}

bool bundle_verify(const char *directory, bool cold, ReleaseCheck *ret_check, Manifest *ret_manifest,
                   Error *error)
{
    *ret_check = (ReleaseCheck){.manifest_read = false};
    int fd = bundle_open_directory(directory, error);
    bool whole = fd >= 0 && verify_open(fd, cold, ret_check, ret_manifest, error);
    if (fd >= 0)
        close(fd);
    if (whole)
        return true;
    if (!text_print(ret_check->problem, sizeof ret_check->problem, "%s", error->message))
        memcpy(ret_check->problem + sizeof ret_check->problem - 4, "...", 4);
    const char *slash = strrchr(directory, '/');
    return error_prefix(error, "release '%s'", slash ? slash + 1 : directory);
}

bool release_verify(const char *directory, ReleaseCheck *ret_check, Error *error)
{
    Manifest manifest;
    return bundle_verify(directory, false, ret_check, &manifest, error);
}

bool release_read_manifest(const char *directory, Json **ret_manifest, Digest *ret_digest, Error *error)
{
    int fd = bundle_open_directory(directory, error);
    if (fd < 0)
        return error_prefix(error, "release '%s'", directory);
    Manifest manifest;
    bool done = manifest_read_at(fd, &manifest, ret_manifest, error);
    close(fd);
    if (!done)
        return error_prefix(error, "release '%s'", directory);
    if (ret_digest)
        *ret_digest = manifest.digest;
    return true;
}
