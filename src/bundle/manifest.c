// manifest - the list that seals a release: one canonical form, read back only in that form.
//
// Keys in order: format, version, kind, model, files [{name, size, sha256}]. A manifest that says the same in
// other bytes is refused, so that one release has one digest and nothing can hide in keys that nobody reads.
#include "bundle_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const kind_names[] = {[RELEASE_MODEL] = "release", [RELEASE_BASELINE] = "baseline"};

const char *release_kind_name(ReleaseKind kind)
{
    return kind_names[kind];
}

bool release_find_kind(const char *name, ReleaseKind *ret_kind)
{
    for (size_t i = 0; i < sizeof kind_names / sizeof kind_names[0]; i++)
        if (text_equal(name, kind_names[i])) {
            *ret_kind = (ReleaseKind)i;
            return true;
        }
    return false;
}

bool release_is_version(const char *text)
{
    return text && (identity_is_version(text) || text_is_name(text)) && strlen(text) < VERSION_SIZE &&
           !text_equal(text, "..") && !strchr(text, '/');
}

void manifest_render(const Manifest *manifest, Text *out)
{
    OWNED(Json, json_free) *root = json_make_object();
    json_put_integer(root, "format", MANIFEST_FORMAT);
    json_put_text(root, "version", manifest->version);
    json_put_text(root, "kind", release_kind_name(manifest->kind));
    json_put_text(root, "model", manifest->model);
    Json *files = json_make_array();
    for (size_t i = 0; i < manifest->count; i++) {
        const ManifestFile *file = &manifest->files[i];
        char hex[DIGEST_HEX_SIZE];
        digest_hex(&file->digest, hex);
        Json *row = json_make_object();
        json_put_text(row, "name", file->name);
        json_put_integer(row, "size", (int64_t)file->bytes);
        json_put_text(row, "sha256", hex);
        json_add(files, row);
    }
    json_put(root, "files", files);
    json_write(root, JSON_INDENTED, out);
    text_add_char(out, '\n');
}

static bool parse_file(const Json *row, const char *previous, ManifestFile *ret_file, Error *error)
{
    const char *name, *hex;
    int64_t bytes;
    if (!json_get_text(row, "name", &name, error) || !json_get_integer(row, "size", &bytes, error) ||
        !json_get_text(row, "sha256", &hex, error))
        return false;
    if (!text_is_name(name) || text_equal(name, MANIFEST_NAME) ||
        !text_copy(ret_file->name, sizeof ret_file->name, name))
        return FAIL(error, ERROR_DATA, 0, "file name '%.64s' is not allowed in a release", name);
    if (strcmp(previous, name) >= 0)
        return FAIL(error, ERROR_DATA, 0, "file '%s' is listed twice or out of order", name);
    if (bytes < 0 || bytes > MANIFEST_FILE_BYTES_MAXIMUM)
        return FAIL(error, ERROR_DATA, 0, "file '%s' is listed with %lld bytes, the limit is %lld", name,
                    (long long)bytes, (long long)MANIFEST_FILE_BYTES_MAXIMUM);
    if (!digest_parse(hex, &ret_file->digest))
        return FAIL(error, ERROR_DATA, 0, "file '%s' is listed without a SHA-256 digest", name);
    ret_file->bytes = (uint64_t)bytes;
    return true;
}

static bool parse_manifest(const Json *root, Manifest *ret_manifest, Error *error)
{
    int64_t format;
    const char *version, *kind, *model;
    if (!json_get_integer(root, "format", &format, error))
        return false;
    if (format != MANIFEST_FORMAT)
        return FAIL(error, ERROR_DATA, 0, "format is %lld, this program reads %d", (long long)format,
                    MANIFEST_FORMAT);
    if (!json_get_text(root, "version", &version, error) || !json_get_text(root, "kind", &kind, error) ||
        !json_get_text(root, "model", &model, error))
        return false;
    if (!release_is_version(version) ||
        !text_copy(ret_manifest->version, sizeof ret_manifest->version, version))
        return FAIL(error, ERROR_DATA, 0, "version '%.96s' is not the name of a version", version);
    if (!release_find_kind(kind, &ret_manifest->kind))
        return FAIL(error, ERROR_DATA, 0, "kind '%.32s' is neither release nor baseline", kind);
    if (!text_is_name(model) || !text_copy(ret_manifest->model, sizeof ret_manifest->model, model))
        return FAIL(error, ERROR_DATA, 0, "model '%.64s' is not a name", model);

    const Json *files = json_get(root, "files");
    ret_manifest->count = json_count(files);
    if (!json_is_array(files) || ret_manifest->count == 0 || ret_manifest->count > MANIFEST_FILES_MAXIMUM)
        return FAIL(error, ERROR_DATA, 0, "%zu files are listed, 1 to %d are allowed", ret_manifest->count,
                    MANIFEST_FILES_MAXIMUM);
    const char *previous = "";
    for (size_t i = 0; i < ret_manifest->count; i++) {
        if (!parse_file(json_at(files, i), previous, &ret_manifest->files[i], error))
            return false;
        previous = ret_manifest->files[i].name;
    }
    return true;
}

static bool check_canonical(const Manifest *manifest, const char *bytes, size_t length, Error *error)
{
    SCOPED_TEXT again;
    text_init(&again, MANIFEST_BYTES_MAXIMUM);
    manifest_render(manifest, &again);
    if (!text_ok(&again, error))
        return false;
    if (again.length != length || memcmp(again.data, bytes, length) != 0)
        return FAIL(error, ERROR_DATA, 0, "not in canonical form");
    return true;
}

static bool read_bytes(int directory_fd, char *to, size_t *ret_length, Error *error)
{
    int fd;
    uint64_t bytes;
    if (!bundle_open_file(directory_fd, MANIFEST_NAME, &fd, &bytes, error))
        return false;
    bool done = bytes <= MANIFEST_BYTES_MAXIMUM
                    ? file_pread_all(fd, to, (size_t)bytes, 0, error)
                    : FAIL(error, ERROR_DATA, 0, "%llu bytes long, the limit is %d",
                           (unsigned long long)bytes, MANIFEST_BYTES_MAXIMUM);
    close(fd);
    *ret_length = (size_t)bytes;
    return done;
}

bool manifest_parse(const char *bytes, size_t length, Manifest *ret_manifest, Json **ret_json_or_null,
                    Error *error)
{
    OWNED(Json, json_free) *root = json_parse(bytes, length, MANIFEST_BYTES_MAXIMUM, error);
    if (!root || !parse_manifest(root, ret_manifest, error) ||
        !check_canonical(ret_manifest, bytes, length, error))
        return error_prefix(error, "manifest");
    hash_bytes(bytes, length, &ret_manifest->digest);
    if (ret_json_or_null) {
        *ret_json_or_null = root;
        root = NULL;
    }
    return true;
}

bool manifest_read_at(int directory_fd, Manifest *ret_manifest, Json **ret_json_or_null, Error *error)
{
    char bytes[MANIFEST_BYTES_MAXIMUM];
    size_t length;
    if (!read_bytes(directory_fd, bytes, &length, error))
        return error_prefix(error, "manifest");
    return manifest_parse(bytes, length, ret_manifest, ret_json_or_null, error);
}

const char *manifest_first_difference(const Manifest *a, const Manifest *b)
{
    for (size_t i = 0; i < a->count || i < b->count; i++) {
        if (i == a->count)
            return b->files[i].name;
        if (i == b->count)
            return a->files[i].name;
        int order = strcmp(a->files[i].name, b->files[i].name);
        if (order != 0)
            return order < 0 ? a->files[i].name : b->files[i].name;
        if (a->files[i].bytes != b->files[i].bytes || !digest_equal(&a->files[i].digest, &b->files[i].digest))
            return a->files[i].name;
    }
    return digest_equal(&a->digest, &b->digest) ? NULL : MANIFEST_NAME;
}
