// write - a safetensors file from caller's arrays: header padded to 8 bytes, data contiguous in the order
// given.
#include <fedgate/tensors.h>

#include <errno.h>
#include <fcntl.h>
#include <fedgate/file.h>
#include <fedgate/json.h>
#include <string.h>
#include <unistd.h>

#include "tensors_internal.h"

static bool check_tensors(const Tensor *tensors, size_t count, Error *error)
{
    for (size_t i = 0; i < count; i++) {
        const Tensor *tensor = &tensors[i];
        uint64_t bytes;
        if (tensor->name[0] == '\0' || strcmp(tensor->name, TENSOR_METADATA_KEY) == 0)
            return FAIL(error, ERROR_DATA, 0, "cannot write a tensor named '%s'", tensor->name);
        if (tensor->rank < 0 || tensor->rank > TENSOR_RANK ||
            !tensor_shape_bytes(tensor->type, tensor->shape, tensor->rank, &bytes) || bytes != tensor->bytes)
            return FAIL(error, ERROR_DATA, 0, "shape of tensor '%s' does not give its %llu bytes",
                        tensor->name, (unsigned long long)tensor->bytes);
        for (size_t j = 0; j < i; j++)
            if (strcmp(tensors[j].name, tensor->name) == 0)
                return FAIL(error, ERROR_DATA, 0, "cannot write two tensors named '%s'", tensor->name);
    }
    return true;
}

static Json *describe_tensor(const Tensor *tensor, uint64_t begin)
{
    Json *entry = json_make_object(), *shape = json_make_array(), *offsets = json_make_array();
    for (int i = 0; i < tensor->rank; i++)
        json_add_integer(shape, tensor->shape[i]);
    json_add_integer(offsets, (int64_t)begin);
    json_add_integer(offsets, (int64_t)(begin + tensor->bytes));
    json_put_text(entry, "dtype", tensor_type_name(tensor->type));
    json_put(entry, "shape", shape);
    json_put(entry, "data_offsets", offsets);
    return entry;
}

static bool build_header(const Tensor *tensors, size_t count, const char *const *metadata, Text *out,
                         Error *error)
{
    OWNED(Json, json_free) *header = json_make_object();
    if (metadata && metadata[0]) {
        Json *pairs = json_make_object();
        for (size_t i = 0; metadata[i]; i += 2)
            json_put_text(pairs, metadata[i], metadata[i + 1]);
        json_put(header, TENSOR_METADATA_KEY, pairs);
    }
    uint64_t begin = 0;
    for (size_t i = 0; i < count; i++) {
        json_put(header, tensors[i].name, describe_tensor(&tensors[i], begin));
        begin += tensors[i].bytes;
    }
    json_write(header, JSON_COMPACT, out);
    while (out->length % 8 != 0 && !out->failed)
        text_add_char(out, ' ');
    Error whole = ERROR_INIT;
    return text_ok(out, &whole) ||
           FAIL(error, ERROR_DATA, 0, "header is longer than the limit of %zu bytes", out->maximum);
}

static bool write_all(int fd, const Text *header, const Tensor *tensors, size_t count, Error *error)
{
    uint8_t length[TENSOR_LENGTH_BYTES];
    for (size_t i = 0; i < sizeof length; i++)
        length[i] = (uint8_t)((uint64_t)header->length >> (8 * i));
    if (!file_write_all(fd, length, sizeof length, error) ||
        !file_write_all(fd, header->data, header->length, error))
        return false;
    for (size_t i = 0; i < count; i++)
        if (tensors[i].bytes > 0 && !file_write_all(fd, tensors[i].data, (size_t)tensors[i].bytes, error))
            return false;
    return fsync(fd) == 0 || FAIL(error, ERROR_IO, errno, "could not sync file");
}

static bool sync_parent(const char *path, Error *error)
{
    char parent[FILE_PATH_SIZE];
    const char *slash = strrchr(path, '/');
    if (!text_print(parent, sizeof parent, "%.*s", slash ? (int)(slash - path) + (slash == path) : 1,
                    slash ? path : "."))
        return FAIL(error, ERROR_USAGE, 0, "path is over the limit of %d bytes", FILE_PATH_SIZE - 1);
    return file_sync_directory(parent, error);
}

bool tensors_write_fd(int fd, const Tensor *tensors, size_t count, const char *const *metadata, Error *error)
{
    SCOPED_TEXT header;
    text_init(&header, TENSOR_HEADER_LARGEST);
    return check_tensors(tensors, count, error) && build_header(tensors, count, metadata, &header, error) &&
           write_all(fd, &header, tensors, count, error);
}

bool tensors_write(const char *path, const Tensor *tensors, size_t count, const char *const *metadata,
                   Error *error)
{
    SCOPED_TEXT header;
    text_init(&header, TENSOR_HEADER_MAX);
    if (!check_tensors(tensors, count, error) || !build_header(tensors, count, metadata, &header, error))
        return error_prefix(error, "tensor file '%s'", path);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0640);
    if (fd < 0)
        return FAIL(error, errno == EEXIST ? ERROR_CONFLICT : ERROR_IO, errno,
                    "could not create tensor file '%s'", path);
    bool good = write_all(fd, &header, tensors, count, error);
    if (close(fd) != 0 && good)
        good = FAIL(error, ERROR_IO, errno, "could not close file");
    good = good && sync_parent(path, error);
    if (!good) {
        unlink(path);
        return error_prefix(error, "tensor file '%s'", path);
    }
    return true;
}
