// cuda_element - what kernels share: elements of any type, the loop over them, sums of a block.
#ifndef FEDGATE_CUDA_ELEMENT_H
#define FEDGATE_CUDA_ELEMENT_H

#include "cuda_internal.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

// one overload a type, so that kernels are written once as templates
static __device__ inline float load_element(const float *at)
{
    return *at;
}
static __device__ inline float load_element(const __nv_bfloat16 *at)
{
    return __bfloat162float(*at);
}
static __device__ inline float load_element(const __half *at)
{
    return __half2float(*at);
}
static __device__ inline void store_element(float *at, float x)
{
    *at = x;
}
static __device__ inline void store_element(__nv_bfloat16 *at, float x)
{
    *at = __float2bfloat16_rn(x);
}
static __device__ inline void store_element(__half *at, float x)
{
    *at = __float2half_rn(x);
}

// 16 bytes of elements: what one thread reads and writes at a time where addresses allow it.
enum { PACK_BYTES = 16 };
template <typename T> struct alignas(PACK_BYTES) Pack {
    enum : int64_t { COUNT = PACK_BYTES / sizeof(T) };
    T at[COUNT];
};
static inline bool packs_lie(const void *address)
{
    return (uintptr_t)address % PACK_BYTES == 0;
}

// Elements i of a grid-stride loop.
#define EACH(i, count)                                                                                       \
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < (count);                            \
         i += (int64_t)gridDim.x * blockDim.x)

// i / width; a division of 64 bits is as long as the rest of an element
static __device__ inline int64_t row_of(int64_t i, int64_t width)
{
    return i < INT32_MAX ? (int64_t)((uint32_t)i / (uint32_t)width) : i / width;
}

// Sum of one number a thread of a block of CUDA_BLOCK, as a tree; every thread gets it.
static __device__ inline double block_sum(double x)
{
    __shared__ double lane[CUDA_BLOCK];
    lane[threadIdx.x] = x;
    __syncthreads();
    for (int half = CUDA_BLOCK / 2; half > 0; half /= 2) {
        if ((int)threadIdx.x < half)
            lane[threadIdx.x] += lane[threadIdx.x + half];
        __syncthreads();
    }
    return lane[0];
}

static __global__ void add_partials(const double *partial, int count, double *to, bool accumulate)
{
    double sum = 0;
    for (int i = (int)threadIdx.x; i < count; i += CUDA_BLOCK)
        sum += partial[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        *to = accumulate ? *to + sum : sum;
}

static inline unsigned reduction_grid(int64_t count)
{
    int64_t blocks = (count + CUDA_BLOCK - 1) / CUDA_BLOCK;
    int64_t most = CUDA_PARTIALS;
    return (unsigned)(blocks < 1 ? 1 : blocks < most ? blocks : most);
}

// Runs the statement with T the element type of `type`.
#define WITH_TYPE(type, ...)                                                                                 \
    do {                                                                                                     \
        if ((type) == FEDGATE_BF16) {                                                                        \
            typedef __nv_bfloat16 T;                                                                         \
            __VA_ARGS__;                                                                                     \
        } else if ((type) == FEDGATE_FP16) {                                                                 \
            typedef __half T;                                                                                \
            __VA_ARGS__;                                                                                     \
        } else {                                                                                             \
            typedef float T;                                                                                 \
            __VA_ARGS__;                                                                                     \
        }                                                                                                    \
    } while (0)

#endif
