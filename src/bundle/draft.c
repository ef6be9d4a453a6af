// draft - a release being written: begun beside, sealed, published by one rename, or moved to failed/.
//
// A draft whose sync failed is dead: nothing is retried on its files, publish refuses it, and free removes
// it.
#include "bundle_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <fedgate/fault.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct ReleaseDraft {
    char path[FILE_PATH_SIZE];
    char run[MANIFEST_NAME_SIZE];
    bool sealed;
    bool gone;   // published or moved: no longer ours to remove
    Manifest manifest;
};

ReleaseDraft *release_begin(const char *releases, const char *run, Error *error)
{
    ReleaseDraft *draft = calloc(1, sizeof *draft);
    if (!draft) {
        FAIL(error, ERROR_MEMORY, 0, "out of memory for a release draft");
        return NULL;
    }
    draft->gone = true;   // until its directory exists
    char name[sizeof draft->run + 8];
    if (!text_is_name(run) || !text_copy(draft->run, sizeof draft->run, run) ||
        !text_print(name, sizeof name, ".tmp-%s", run)) {
        FAIL(error, ERROR_USAGE, 0, "run '%.64s' is not a name", run);
        goto failed;
    }
    // A draft of the same run can only be left by an attempt that was killed: the run lock allows one at a
    // time.
    if (!file_join(draft->path, releases, name, error) || !file_remove_tree(draft->path, error))
        goto failed;
    if (mkdir(draft->path, 0700) != 0) {
        FAIL(error, ERROR_IO, errno, "could not make directory '%s'", draft->path);
        goto failed;
    }
    draft->gone = false;
    return draft;
failed:
    release_free(draft);
    return NULL;
}

const char *release_path(const ReleaseDraft *draft)
{
    return draft->path;
}

typedef struct Sealing {
    int directory_fd;
    Manifest *manifest;
} Sealing;

static bool add_file(void *context, const char *name, Error *error)
{
    Sealing *sealing = context;
    Manifest *manifest = sealing->manifest;
    if (!text_is_name(name) || strcmp(name, MANIFEST_NAME) == 0)
        return FAIL(error, ERROR_USAGE, 0, "file name '%.64s' is not allowed in a release", name);
    if (manifest->count == MANIFEST_FILES_MAXIMUM)
        return FAIL(error, ERROR_USAGE, 0, "more than %d files in a release", MANIFEST_FILES_MAXIMUM);
    ManifestFile *file = &manifest->files[manifest->count];
    int fd;
    uint64_t bytes;
    if (!bundle_open_file(sealing->directory_fd, name, &fd, &bytes, error))
        return false;
    bool done = bytes <= (uint64_t)MANIFEST_FILE_BYTES_MAXIMUM
                    ? hash_fd(fd, &file->digest, &file->bytes, error)
                    : FAIL(error, ERROR_USAGE, 0, "file '%s' has %llu bytes, the limit is %lld", name,
                           (unsigned long long)bytes, (long long)MANIFEST_FILE_BYTES_MAXIMUM);
    // The owner's account reads releases through the group; whatever umask the writer had must not keep it
    // out.
    if (done && fchmod(fd, 0640) != 0)
        done = FAIL(error, ERROR_IO, errno, "could not set the mode of file '%s'", name);
    close(fd);
    if (!done || !text_copy(file->name, sizeof file->name, name))
        return false;
    manifest->count++;
    return true;
}

static int compare_files(const void *a, const void *b)
{
    return strcmp(((const ManifestFile *)a)->name, ((const ManifestFile *)b)->name);
}

static bool list_files(const char *path, Manifest *manifest, Error *error)
{
    int fd = bundle_open_directory(path, error);
    if (fd < 0)
        return false;
    Sealing sealing = {.directory_fd = fd, .manifest = manifest};
    bool done = bundle_visit_names(fd, add_file, &sealing, error);
    struct stat status;
    if (done && (fstat(fd, &status) != 0 ||
                 fchmod(fd, 0750 | (status.st_mode & S_ISGID)) != 0))   // files keep the group
        done = FAIL(error, ERROR_IO, errno, "could not set the mode of directory '%s'", path);
    close(fd);
    if (done && manifest->count == 0)
        done = FAIL(error, ERROR_USAGE, 0, "release '%s' has no files", manifest->version);
    if (done)
        qsort(manifest->files, manifest->count, sizeof manifest->files[0], compare_files);
    return done;
}

static bool write_manifest(const char *directory, Manifest *manifest, Error *error)
{
    SCOPED_TEXT bytes;
    text_init(&bytes, MANIFEST_BYTES_MAXIMUM);
    manifest_render(manifest, &bytes);
    char path[FILE_PATH_SIZE];
    if (!text_ok(&bytes, error) || !file_join(path, directory, MANIFEST_NAME, error) ||
        !file_write_new(path, bytes.data, bytes.length, 0640, error))
        return false;
    hash_bytes(bytes.data, bytes.length, &manifest->digest);
    return true;
}

// Planted fault: the release is touched after it was sealed.
static bool plant_extra_byte(const ReleaseDraft *draft, Error *error)
{
    if (!fault_set("release.extra_byte"))
        return true;
    char path[FILE_PATH_SIZE];
    if (!file_join(path, draft->path, draft->manifest.files[0].name, error))
        return false;
    int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
    bool done = fd >= 0 && file_write_all(fd, "x", 1, error);
    if (fd >= 0)
        close(fd);
    return done;
}

bool release_seal(ReleaseDraft *draft, const char *version, const char *model, ReleaseKind kind,
                  Digest *ret_digest, Error *error)
{
    if (draft->sealed || draft->gone)
        BUG("release of run '%s' is sealed twice", draft->run);
    Manifest *manifest = &draft->manifest;
    *manifest = (Manifest){.kind = kind};
    if (!release_is_version(version) || !text_copy(manifest->version, sizeof manifest->version, version))
        return FAIL(error, ERROR_USAGE, 0, "version '%.96s' is not the name of a version", version);
    if (!text_is_name(model) || !text_copy(manifest->model, sizeof manifest->model, model))
        return FAIL(error, ERROR_USAGE, 0, "model '%.64s' is not a name", model);
    if (!list_files(draft->path, manifest, error) || !write_manifest(draft->path, manifest, error) ||
        !file_sync_tree(draft->path, error) || !plant_extra_byte(draft, error))
        return error_prefix(error, "release '%s'", version);
    draft->sealed = true;
    *ret_digest = manifest->digest;
    return true;
}

// The name is taken: the same bytes are no conflict, but they must be whole and their name on disk.
static bool compare_existing(const ReleaseDraft *draft, const char *path, const char *releases, Error *error)
{
    ReleaseCheck check;
    Manifest existing;
    Error problem = ERROR_INIT;
    bool whole = bundle_verify(path, false, &check, &existing, &problem);
    if (!whole && !check.manifest_read) {
        *error = problem;
        return error_prefix(error, "already published and damaged");
    }
    const char *difference = manifest_first_difference(&draft->manifest, &existing);
    if (difference)
        return FAIL(error, ERROR_CONFLICT, 0,
                    "release '%s' is already sealed with other bytes, first difference in file '%s'",
                    draft->manifest.version, difference);
    if (!whole) {
        *error = problem;
        return error_prefix(error, "already published and damaged");
    }
    return file_sync_directory(releases, error);
}

bool release_publish(ReleaseDraft *draft, const char *releases, bool *ret_existed, Error *error)
{
    if (!draft->sealed || draft->gone)
        BUG("release of run '%s' is published without a seal", draft->run);
    ReleaseCheck check;
    Manifest found;
    if (!bundle_verify(draft->path, true, &check, &found, error))
        return false;
    if (!digest_equal(&found.digest, &draft->manifest.digest))
        return FAIL(error, ERROR_DATA, 0, "release '%s': the manifest changed after sealing",
                    draft->manifest.version);
    char path[FILE_PATH_SIZE];
    if (!file_join(path, releases, draft->manifest.version, error))
        return false;
    if (file_rename_new(draft->path, path, error)) {
        draft->gone = true;
        *ret_existed = false;
        return file_sync_directory(releases, error);
    }
    if (error->kind != ERROR_CONFLICT)
        return false;
    error_clear(error);
    if (!compare_existing(draft, path, releases, error))
        return false;
    *ret_existed = true;
    return true;
}

bool release_move_failed(ReleaseDraft *draft, const char *failed, Error *error)
{
    char path[FILE_PATH_SIZE];
    if (!file_join(path, failed, draft->run, error) || !file_rename_new(draft->path, path, error))
        return false;
    draft->gone = true;
    return file_sync_directory(failed, error);
}

void release_free(ReleaseDraft *draft)
{
    if (!draft)
        return;
    Error ignored = ERROR_INIT;
    if (!draft->gone && !file_remove_tree(draft->path, &ignored))
        error_clear(&ignored);   // what stays is removed by the next recovery
    free(draft);
}
