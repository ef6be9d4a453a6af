// type - element types of safetensors, and the digest of one tensor.
#include <fedgate/tensors.h>

#include <string.h>

#include "tensors_internal.h"

static const struct {
    const char *name;
    size_t bytes;
} type_rows[TENSOR_TYPE_COUNT] = {
    [TENSOR_F32] = {"F32", 4}, [TENSOR_F64] = {"F64", 8}, [TENSOR_BF16] = {"BF16", 2},
    [TENSOR_F16] = {"F16", 2}, [TENSOR_I32] = {"I32", 4}, [TENSOR_I64] = {"I64", 8},
    [TENSOR_U64] = {"U64", 8}, [TENSOR_U8] = {"U8", 1},
};

size_t tensor_type_size(TensorType type)
{
    if (type >= TENSOR_TYPE_COUNT)
        BUG("tensor type %d is unknown", (int)type);
    return type_rows[type].bytes;
}

const char *tensor_type_name(TensorType type)
{
    if (type >= TENSOR_TYPE_COUNT)
        BUG("tensor type %d is unknown", (int)type);
    return type_rows[type].name;
}

bool tensor_type_find(const char *name, TensorType *ret_type)
{
    for (int i = 0; i < TENSOR_TYPE_COUNT; i++)
        if (strcmp(type_rows[i].name, name) == 0) {
            *ret_type = (TensorType)i;
            return true;
        }
    return false;
}

bool tensor_shape_bytes(TensorType type, const int64_t *shape, int rank, uint64_t *ret_bytes)
{
    uint64_t bytes = tensor_type_size(type);
    for (int i = 0; i < rank; i++)
        if (shape[i] < 0 || __builtin_mul_overflow(bytes, (uint64_t)shape[i], &bytes))
            return false;
    *ret_bytes = bytes;
    return true;
}

static void add_number(Hash *hash, uint64_t value)
{
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(value >> (8 * i));
    hash_add(hash, bytes, sizeof bytes);
}

void tensor_digest(const Tensor *tensor, Digest *ret_digest)
{
    Hash *hash = hash_begin();
    if (hash) {
        hash_add_string(hash, tensor->name);
        hash_add_string(hash, tensor_type_name(tensor->type));
        add_number(hash, (uint64_t)tensor->rank);
        for (int i = 0; i < tensor->rank; i++)
            add_number(hash, (uint64_t)tensor->shape[i]);
        hash_add(hash, tensor->data, (size_t)tensor->bytes);
    }
    hash_end(hash, ret_digest);
}
