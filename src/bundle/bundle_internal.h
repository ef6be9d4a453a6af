// bundle_internal.h - the manifest in memory, shared by writing, reading and verifying.
#ifndef FEDGATE_BUNDLE_INTERNAL_H
#define FEDGATE_BUNDLE_INTERNAL_H

#include <fedgate/bundle.h>
#include <fedgate/file.h>
#include <fedgate/identity.h>

enum {
    MANIFEST_FORMAT = 1,
    MANIFEST_FILES_MAXIMUM = 64,
    MANIFEST_BYTES_MAXIMUM = 64 * 1024,
    MANIFEST_NAME_SIZE = 65,
};
#define MANIFEST_NAME               "manifest.json"
#define STATEMENT_NAME              "statement.json"   // of a packed release; never in a release
#define MANIFEST_FILE_BYTES_MAXIMUM (INT64_C(1) << 42)   // 4 TiB: a sum of 64 of them cannot overflow

typedef struct ManifestFile {
    char name[MANIFEST_NAME_SIZE];
    uint64_t bytes;
    Digest digest;
} ManifestFile;

// Files are sorted bytewise by name, each once; the manifest itself is never among them.
typedef struct Manifest {
    char version[VERSION_SIZE];
    char model[MANIFEST_NAME_SIZE];
    ReleaseKind kind;
    ManifestFile files[MANIFEST_FILES_MAXIMUM];
    size_t count;
    Digest digest;   // of the bytes on disk
} Manifest;

void manifest_render(const Manifest *manifest, Text *out);
// ERROR_DATA when the bytes are not what manifest_render would write for them.
bool manifest_read_at(int directory_fd, Manifest *ret_manifest, Json **ret_json_or_null,
                      Error *error) WARN_UNUSED;
// The same of bytes in memory, at most MANIFEST_BYTES_MAXIMUM.
bool manifest_parse(const char *bytes, size_t length, Manifest *ret_manifest, Json **ret_json_or_null,
                    Error *error) WARN_UNUSED;
// Name of the first file that one has and the other has not, or has with other bytes; NULL when they agree.
const char *manifest_first_difference(const Manifest *a, const Manifest *b);

int bundle_open_directory(const char *path, Error *error);   // -1 on failure; never through a link
// Opens a plain file of the directory without following links or waiting on a fifo. ERROR_DATA: anything
// else.
bool bundle_open_file(int directory_fd, const char *name, int *ret_fd, uint64_t *ret_bytes,
                      Error *error) WARN_UNUSED;

// Every name in the directory but "." and ".."; stops when `visit` returns false (which has set the error).
typedef bool (*BundleVisit)(void *context, const char *name, Error *error);
bool bundle_visit_names(int directory_fd, BundleVisit visit, void *context, Error *error) WARN_UNUSED;

// The directory holds the manifest and the files it names, and nothing else.
bool bundle_check_set(int directory_fd, const Manifest *manifest, Error *error) WARN_UNUSED;

// release_verify; `cold` drops the page cache first, so that what is hashed comes from the disk where the
// kernel lets it.
bool bundle_verify(const char *directory, bool cold, ReleaseCheck *ret_check, Manifest *ret_manifest,
                   Error *error) WARN_UNUSED;

#endif
