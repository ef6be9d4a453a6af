// tensors.h - safetensors files: named arrays with dtype and shape, 8-byte little-endian header length, JSON
// header, data.
//
// Writer: header padded with blanks to a multiple of 8, tensors in the order added, offsets contiguous, file
// synced and never written over. Reader: header <= 1 MB (100 MB, the limit of the safetensors library, where
// only the header is read), no duplicate names, checked products, offsets in order without holes or overlap,
// last end = file end, shape x size = bytes; each violation has its own message (ERROR_DATA). Files may be
// larger than 4 GiB.
#ifndef FEDGATE_TENSORS_H
#define FEDGATE_TENSORS_H

#include <fedgate/error.h>
#include <fedgate/hash.h>
#include <stddef.h>
#include <stdint.h>

typedef enum TensorType {
    TENSOR_F32,
    TENSOR_F64,
    TENSOR_BF16,
    TENSOR_F16,
    TENSOR_I32,
    TENSOR_I64,
    TENSOR_U64,
    TENSOR_U8,
    TENSOR_TYPE_COUNT
} TensorType;
enum { TENSOR_RANK = 4, TENSOR_NAME_SIZE = 64 };

typedef struct Tensor {
    char name[TENSOR_NAME_SIZE];
    TensorType type;
    int64_t shape[TENSOR_RANK];
    int rank;
    const void *data;   // writer: caller's; reader: owned by the file object, NULL when only indexed
    uint64_t bytes;
    uint64_t offset;   // reader: of its first byte in the file
} Tensor;
size_t tensor_type_size(TensorType type);
const char *tensor_type_name(TensorType type);   // "F32"
void tensor_digest(const Tensor *tensor, Digest *ret_digest);   // name, type, shape and bytes

// metadata: pairs key, value, NULL at the end; may be NULL. The file must not exist (O_EXCL); mode 0640.
WARN_UNUSED bool tensors_write(const char *path, const Tensor *tensors, size_t count,
                               const char *const *metadata, Error *error);
// The same into an open, empty file, synced; header at most 100 MB.
WARN_UNUSED bool tensors_write_fd(int fd, const Tensor *tensors, size_t count, const char *const *metadata,
                                  Error *error);

typedef struct TensorFile TensorFile;
WARN_UNUSED TensorFile *tensors_read(const char *path, uint64_t maximum_bytes,
                                     Error *error);   // whole file in memory
// Header only, through the caller's way to the bytes of the file; the caller names the file in the error.
typedef bool (*TensorReadAt)(const void *context, void *to, size_t bytes, uint64_t offset, Error *error);
WARN_UNUSED TensorFile *tensors_index(TensorReadAt read, const void *context, uint64_t file_bytes,
                                      Error *error);
size_t tensors_count(const TensorFile *file);
const Tensor *tensors_at(const TensorFile *file, size_t index);
const Tensor *tensors_find(const TensorFile *file, const char *name);
WARN_UNUSED const Tensor *tensors_need(const TensorFile *file, const char *name, TensorType type, int rank,
                                       const int64_t *shape, Error *error);   // shape -1 = any
const char *tensors_metadata(const TensorFile *file, const char *key);   // NULL when absent
void tensors_free(TensorFile *file);
OWNED_RELEASE(TensorFile, tensors_free)

#endif
