// half - the 2-byte types: bfloat16 and IEEE half, to and from float by integer arithmetic alone.
//
// Rounding is to nearest, ties to even, for every input: subnormals are kept, FP16 overflows to infinity, NaN
// stays NaN (quiet, sign kept). The same bits on every instruction set; loops over these are vectorised, so
// that nothing depends on the processor's own conversions. Round to nearest must be the mode of the thread.
#ifndef FEDGATE_CPU_HALF_H
#define FEDGATE_CPU_HALF_H

#include <fedgate/backend_abi.h>
#include <string.h>

static inline uint32_t half_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float half_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline float half_from_bf16(uint16_t x)
{
    return half_float((uint32_t)x << 16);
}

static inline uint16_t half_to_bf16(float x)
{
    uint32_t bits = half_bits(x), rounded = (bits + 0x7fffu + ((bits >> 16) & 1)) >> 16;
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? (bits >> 16) | 0x40u : rounded);
}

static inline float half_from_fp16(uint16_t x)
{
    uint32_t magnitude = (uint32_t)(x & 0x7fff) << 13, sign = (uint32_t)(x & 0x8000) << 16;
    // exponent from bias 15 to 127; all ones stay all ones; a subnormal is 2^-14 (1 + m) less 2^-14, exactly
    uint32_t normal = magnitude + (magnitude >= 0x0f800000u ? 0x70000000u : 0x38000000u);
    uint32_t subnormal = half_bits(half_float(magnitude + 0x38800000u) - half_float(0x38800000u));
    return half_float(sign | (magnitude < 0x00800000u ? subnormal : normal));
}

static inline uint16_t half_to_fp16(float x)
{
    uint32_t bits = half_bits(x), sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
    uint32_t normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1)) >> 13;
    normal = normal > 0x7c00u ? 0x7c00u : normal;
    // below 2^-14 the addition of 0.5, whose last place is 2^-24, rounds
    uint32_t subnormal = half_bits(half_float(magnitude) + 0.5f) - 0x3f000000u;
    uint32_t finite = magnitude < 0x38800000u ? subnormal : normal;
    return (uint16_t)(sign | (magnitude > 0x7f800000u ? 0x7e00u | ((magnitude >> 13) & 0x1ffu) : finite));
}

// 11 significant bits in a float, as NVIDIA's TF32 rounds its operands.
static inline float half_round_tf32(float x)
{
    uint32_t bits = half_bits(x);
    return (bits & 0x7f800000u) == 0x7f800000u ? x
                                               : half_float((bits + 0xfffu + ((bits >> 13) & 1)) & ~0x1fffu);
}

// one element
static inline float half_get(FedgateType type, const void *from, int64_t index)
{
    if (type == FEDGATE_FP32)
        return ((const float *)from)[index];
    uint16_t x = ((const uint16_t *)from)[index];
    return type == FEDGATE_BF16 ? half_from_bf16(x) : half_from_fp16(x);
}

static inline void half_put(FedgateType type, void *to, int64_t index, float x)
{
    if (type == FEDGATE_FP32)
        ((float *)to)[index] = x;
    else
        ((uint16_t *)to)[index] = type == FEDGATE_BF16 ? half_to_bf16(x) : half_to_fp16(x);
}

static inline const void *half_at(FedgateType type, const void *base, int64_t index)
{
    return (const char *)base + index * fedgate_type_bytes(type);
}

// runs of elements; neither may overlap the other
void half_widen(FedgateType type, const void *from, int64_t count, float *to);
void half_narrow(FedgateType type, const float *from, int64_t count, void *to);
void half_round(FedgateType type, float *x, int64_t count);   // in place: to the type and back
void half_copy_tf32(const float *from, int64_t count, float *to);

#endif
