// tensors_internal - what reader and writer share.
#ifndef FEDGATE_TENSORS_INTERNAL_H
#define FEDGATE_TENSORS_INTERNAL_H

#include <fedgate/tensors.h>

enum {
    TENSOR_HEADER_MAX = 1000 * 1000,   // of weights and checkpoints
    TENSOR_HEADER_LARGEST = 100 * 1000 * 1000,   // the safetensors library reads no longer one
    TENSOR_COUNT_MAX = 10000,
    TENSOR_LENGTH_BYTES = 8,
};
#define TENSOR_METADATA_KEY "__metadata__"

bool tensor_type_find(const char *name, TensorType *ret_type);
bool tensor_shape_bytes(TensorType type, const int64_t *shape, int rank,
                        uint64_t *ret_bytes);   // false on overflow

#endif
