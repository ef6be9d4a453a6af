// read - a safetensors file into memory, with every claim of its header checked before it is used.
//
// The header is read first, capped, and proved against the size of the file before memory for the data is
// taken. A tensor must begin at a multiple of its element size (writers sort or pad for that), so that it can
// be used in place.
#include <fedgate/tensors.h>

#include <errno.h>
#include <fcntl.h>
#include <fedgate/file.h>
#include <fedgate/json.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tensors_internal.h"

struct TensorFile {
    Tensor *tensors;
    size_t count;
    Json *metadata;   // NULL when absent
    uint8_t *data;   // NULL when only the header was read
    uint64_t data_at;   // offset of the data in the file
};

static bool read_offsets(const Json *entry, uint64_t *ret_begin, uint64_t *ret_end, Error *error)
{
    const Json *offsets = json_get(entry, "data_offsets");
    if (!json_is_array(offsets) || json_count(offsets) != 2 || !json_is_integer(json_at(offsets, 0)) ||
        !json_is_integer(json_at(offsets, 1)))
        return FAIL(error, ERROR_DATA, 0, "data_offsets is not a pair of integers");
    int64_t begin = json_integer_or(json_at(offsets, 0), -1), end = json_integer_or(json_at(offsets, 1), -1);
    if (begin < 0 || end < begin)
        return FAIL(error, ERROR_DATA, 0, "data_offsets %lld to %lld run backwards", (long long)begin,
                    (long long)end);
    *ret_begin = (uint64_t)begin;
    *ret_end = (uint64_t)end;
    return true;
}

static bool read_shape(const Json *entry, Tensor *tensor, Error *error)
{
    const Json *shape = json_get(entry, "shape");
    if (!json_is_array(shape))
        return FAIL(error, ERROR_DATA, 0, "shape is not a list");
    if (json_count(shape) > TENSOR_RANK)
        return FAIL(error, ERROR_DATA, 0, "rank %zu is over the limit of %d", json_count(shape), TENSOR_RANK);
    tensor->rank = (int)json_count(shape);
    for (int i = 0; i < tensor->rank; i++) {
        const Json *extent = json_at(shape, (size_t)i);
        tensor->shape[i] = json_integer_or(extent, -1);
        if (!json_is_integer(extent) || tensor->shape[i] < 0)
            return FAIL(error, ERROR_DATA, 0, "shape holds something other than sizes");
    }
    if (!tensor_shape_bytes(tensor->type, tensor->shape, tensor->rank, &tensor->bytes))
        return FAIL(error, ERROR_DATA, 0, "product of the shape overflows");
    return true;
}

// position: end of the tensor before; tensors must follow each other without hole or overlap.
static bool read_entry(const Json *entry, const char *name, uint64_t *position, Tensor *tensor, Error *error)
{
    uint64_t begin = 0, end = 0;
    if (!json_is_object(entry))
        return FAIL(error, ERROR_DATA, 0, "entry is not an object");
    const char *type = json_text_or(json_get(entry, "dtype"), "");
    if (!text_copy(tensor->name, sizeof tensor->name, name))
        return FAIL(error, ERROR_DATA, 0, "name has %zu bytes, over the limit of %d", strlen(name),
                    TENSOR_NAME_SIZE - 1);
    if (!tensor_type_find(type, &tensor->type))
        return FAIL(error, ERROR_DATA, 0, "unknown dtype '%s'", type);
    if (!read_shape(entry, tensor, error) || !read_offsets(entry, &begin, &end, error))
        return false;
    if (begin > *position)
        return FAIL(error, ERROR_DATA, 0, "hole of %llu bytes before it",
                    (unsigned long long)(begin - *position));
    if (begin < *position)
        return FAIL(error, ERROR_DATA, 0, "overlaps the tensor before it by %llu bytes",
                    (unsigned long long)(*position - begin));
    if (end - begin != tensor->bytes)
        return FAIL(error, ERROR_DATA, 0, "%llu bytes of data for a shape of %llu bytes",
                    (unsigned long long)(end - begin), (unsigned long long)tensor->bytes);
    if (begin % tensor_type_size(tensor->type) != 0)
        return FAIL(error, ERROR_DATA, 0, "begins at byte %llu, not a multiple of its element size",
                    (unsigned long long)begin);
    *position = end;
    return true;
}

static bool check_metadata(const Json *metadata, Error *error)
{
    if (!json_is_object(metadata))
        return FAIL(error, ERROR_DATA, 0, "metadata is not an object");
    for (size_t i = 0; i < json_count(metadata); i++)
        if (!json_is_text(json_get(metadata, json_key_at(metadata, i))))
            return FAIL(error, ERROR_DATA, 0, "metadata '%s' is not a text", json_key_at(metadata, i));
    return true;
}

static bool read_header(TensorFile *file, const Json *header, uint64_t data_bytes, Error *error)
{
    if (!json_is_object(header))
        return FAIL(error, ERROR_DATA, 0, "header is not an object");
    if (json_count(header) > TENSOR_COUNT_MAX)
        return FAIL(error, ERROR_DATA, 0, "%zu tensors are over the limit of %d", json_count(header),
                    TENSOR_COUNT_MAX);
    file->tensors = calloc(json_count(header) + 1, sizeof *file->tensors);
    if (!file->tensors)
        return FAIL(error, ERROR_MEMORY, 0, "could not take memory for %zu tensors", json_count(header));
    uint64_t position = 0;
    for (size_t i = 0; i < json_count(header); i++) {
        const char *name = json_key_at(header, i);
        const Json *entry = json_get(header, name);
        if (strcmp(name, TENSOR_METADATA_KEY) == 0) {
            if (!check_metadata(entry, error))
                return false;
            file->metadata = json_copy_deep(entry);
        } else if (!read_entry(entry, name, &position, &file->tensors[file->count++], error))
            return error_prefix(error, "tensor '%s'", name);
    }
    if (position < data_bytes)
        return FAIL(error, ERROR_DATA, 0, "%llu bytes after the last tensor",
                    (unsigned long long)(data_bytes - position));
    if (position > data_bytes)
        return FAIL(error, ERROR_DATA, 0, "file ends %llu bytes before the last tensor",
                    (unsigned long long)(position - data_bytes));
    return true;
}

// The file as a reader sees it: its size, and a way to its bytes.
typedef struct Bytes {
    TensorReadAt read;
    const void *context;
    uint64_t size;
} Bytes;

static bool read_length(const Bytes *bytes, uint64_t maximum, uint64_t *ret_length, Error *error)
{
    uint8_t prefix[TENSOR_LENGTH_BYTES];
    uint64_t length = 0;
    if (bytes->size < sizeof prefix)
        return FAIL(error, ERROR_DATA, 0, "%llu bytes are too few for a header length",
                    (unsigned long long)bytes->size);
    if (!bytes->read(bytes->context, prefix, sizeof prefix, 0, error))
        return false;
    for (size_t i = 0; i < sizeof prefix; i++)
        length |= (uint64_t)prefix[i] << (8 * i);
    if (length > maximum)
        return FAIL(error, ERROR_DATA, 0, "header of %llu bytes is over the limit of %llu",
                    (unsigned long long)length, (unsigned long long)maximum);
    if (length > bytes->size - sizeof prefix)
        return FAIL(error, ERROR_DATA, 0, "header of %llu bytes is longer than the file",
                    (unsigned long long)length);
    *ret_length = length;
    return true;
}

static bool index_bytes(TensorFile *file, const Bytes *bytes, uint64_t maximum, Error *error)
{
    uint64_t length = 0;
    if (!read_length(bytes, maximum, &length, error))
        return false;
    char *text = malloc((size_t)length + 1);
    if (!text)
        return FAIL(error, ERROR_MEMORY, 0, "could not take %llu bytes for the header",
                    (unsigned long long)length);
    OWNED(Json, json_free) *header = NULL;
    if (bytes->read(bytes->context, text, (size_t)length, TENSOR_LENGTH_BYTES, error))
        header = json_parse(text, (size_t)length, (size_t)maximum, error);
    free(text);
    file->data_at = TENSOR_LENGTH_BYTES + length;
    if (!header || !read_header(file, header, bytes->size - file->data_at, error))
        return error_prefix(error, "header");
    uint64_t at = file->data_at;
    for (size_t i = 0; i < file->count; at += file->tensors[i++].bytes)
        file->tensors[i].offset = at;
    return true;
}

static TensorFile *new_file(Error *error)
{
    TensorFile *file = calloc(1, sizeof *file);
    if (!file)
        FAIL(error, ERROR_MEMORY, 0, "could not take memory for a file object");
    return file;
}

TensorFile *tensors_index(TensorReadAt read, const void *context, uint64_t file_bytes, Error *error)
{
    TensorFile *file = new_file(error);
    if (file && index_bytes(file, &(Bytes){read, context, file_bytes}, TENSOR_HEADER_LARGEST, error))
        return file;
    tensors_free(file);
    return NULL;
}

static bool read_by_descriptor(const void *context, void *to, size_t bytes, uint64_t offset, Error *error)
{
    return file_pread_all(*(const int *)context, to, bytes, offset, error);
}

static bool read_open_file(TensorFile *file, int fd, uint64_t maximum_bytes, Error *error)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return FAIL(error, ERROR_IO, errno, "could not look at it");
    if (!S_ISREG(status.st_mode))
        return FAIL(error, ERROR_DATA, 0, "not a regular file");
    const Bytes bytes = {read_by_descriptor, &fd, (uint64_t)status.st_size};
    if (bytes.size > maximum_bytes)
        return FAIL(error, ERROR_DATA, 0, "%llu bytes are over the limit of %llu",
                    (unsigned long long)bytes.size, (unsigned long long)maximum_bytes);
    if (!index_bytes(file, &bytes, TENSOR_HEADER_MAX, error))
        return false;
    uint64_t data_bytes = bytes.size - file->data_at;
    if (posix_memalign((void **)&file->data, 64, (size_t)data_bytes + 1) != 0) {
        file->data = NULL;
        return FAIL(error, ERROR_MEMORY, 0, "could not take %llu bytes", (unsigned long long)data_bytes);
    }
    for (size_t i = 0; i < file->count; i++)
        file->tensors[i].data = file->data + (file->tensors[i].offset - file->data_at);
    return file_pread_all(fd, file->data, (size_t)data_bytes, file->data_at, error);
}

TensorFile *tensors_read(const char *path, uint64_t maximum_bytes, Error *error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        FAIL(error, ERROR_IO, errno, "could not open tensor file '%s'", path);
        return NULL;
    }
    TensorFile *file = new_file(error);
    bool good = file && read_open_file(file, fd, maximum_bytes, error);
    close(fd);
    if (!good) {
        tensors_free(file);
        error_prefix(error, "tensor file '%s'", path);
        return NULL;
    }
    return file;
}

size_t tensors_count(const TensorFile *file)
{
    return file->count;
}

const Tensor *tensors_at(const TensorFile *file, size_t index)
{
    return index < file->count ? &file->tensors[index] : NULL;
}

const Tensor *tensors_find(const TensorFile *file, const char *name)
{
    for (size_t i = 0; i < file->count; i++)
        if (strcmp(file->tensors[i].name, name) == 0)
            return &file->tensors[i];
    return NULL;
}

const Tensor *tensors_need(const TensorFile *file, const char *name, TensorType type, int rank,
                           const int64_t *shape, Error *error)
{
    const Tensor *tensor = tensors_find(file, name);
    bool good = true;
    if (!tensor)
        good = FAIL(error, ERROR_DATA, 0, "tensor '%s' is missing", name);
    else if (tensor->type != type)
        good = FAIL(error, ERROR_DATA, 0, "tensor '%s' has dtype %s, not %s", name,
                    tensor_type_name(tensor->type), tensor_type_name(type));
    else if (tensor->rank != rank)
        good = FAIL(error, ERROR_DATA, 0, "tensor '%s' has rank %d, not %d", name, tensor->rank, rank);
    for (int i = 0; good && i < rank; i++)
        if (shape[i] >= 0 && tensor->shape[i] != shape[i])
            good = FAIL(error, ERROR_DATA, 0, "tensor '%s' has extent %lld in dimension %d, not %lld", name,
                        (long long)tensor->shape[i], i, (long long)shape[i]);
    return good ? tensor : NULL;
}

const char *tensors_metadata(const TensorFile *file, const char *key)
{
    const Json *value = json_get(file->metadata, key);
    return value ? json_text_or(value, NULL) : NULL;
}

void tensors_free(TensorFile *file)
{
    if (!file)
        return;
    free(file->tensors);
    json_free(file->metadata);
    free(file->data);
    free(file);
}
