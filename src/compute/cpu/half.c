// half - runs of 2-byte elements to and from float, and the operation that casts between types.
#include "kernel.h"

#include "half.h"

#include "cpu_internal.h"

enum { CHUNK = 1024 };

KERNEL void widen_bf16(const uint16_t *restrict from, int64_t count, float *restrict to)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = half_from_bf16(from[i]);
}

KERNEL void widen_fp16(const uint16_t *restrict from, int64_t count, float *restrict to)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = half_from_fp16(from[i]);
}

KERNEL void narrow_bf16(const float *restrict from, int64_t count, uint16_t *restrict to)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = half_to_bf16(from[i]);
}

KERNEL void narrow_fp16(const float *restrict from, int64_t count, uint16_t *restrict to)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = half_to_fp16(from[i]);
}

void half_widen(FedgateType type, const void *from, int64_t count, float *to)
{
    switch (type) {
    case FEDGATE_FP32:
        memcpy(to, from, (size_t)count * sizeof *to);
        break;
    case FEDGATE_BF16:
        widen_bf16(from, count, to);
        break;
    case FEDGATE_FP16:
        widen_fp16(from, count, to);
        break;
    }
}

void half_narrow(FedgateType type, const float *from, int64_t count, void *to)
{
    switch (type) {
    case FEDGATE_FP32:
        memcpy(to, from, (size_t)count * sizeof *from);
        break;
    case FEDGATE_BF16:
        narrow_bf16(from, count, to);
        break;
    case FEDGATE_FP16:
        narrow_fp16(from, count, to);
        break;
    }
}

void half_round(FedgateType type, float *x, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        x[i] = type == FEDGATE_BF16   ? half_from_bf16(half_to_bf16(x[i]))
               : type == FEDGATE_FP16 ? half_from_fp16(half_to_fp16(x[i]))
                                      : x[i];
}

void half_copy_tf32(const float *from, int64_t count, float *to)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = half_round_tf32(from[i]);
}

void cpu_cast(void *handle, const FedgateCast *op)
{
    int64_t begin = cpu_now(handle);
    float chunk[CHUNK];
    for (int64_t i = 0; i < op->count; i += CHUNK) {
        int64_t count = op->count - i < CHUNK ? op->count - i : CHUNK;
        half_widen(op->from_type, half_at(op->from_type, op->from, i), count, chunk);
        half_narrow(op->to_type, chunk, count, (char *)op->to + i * fedgate_type_bytes(op->to_type));
    }
    cpu_span(handle, "cast", begin);
}
