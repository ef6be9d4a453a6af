// cuda_element - what kernels share: elements of any type, the loop over them, sums of a block and of a grid.
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
    enum : int { COUNT = PACK_BYTES / sizeof(T) };
    T at[COUNT];
};
static inline bool packs_lie(const void *address)
{
    return (uintptr_t)address % PACK_BYTES == 0;
}

// The pack at `at`, of which `left` elements are there; the others become 0. whole: it lies at an address for
// one access and is complete.
template <typename T> static __device__ inline Pack<T> load_pack(const T *at, int64_t left, bool whole)
{
    if (whole)
        return *(const Pack<T> *)at;
    Pack<T> pack;
#pragma unroll
    for (int k = 0; k < Pack<T>::COUNT; k++)
        if (k < left)
            pack.at[k] = at[k];
        else
            store_element(&pack.at[k], 0);
    return pack;
}

template <typename T> static __device__ inline void store_pack(T *at, Pack<T> pack, int64_t left, bool whole)
{
    if (whole) {
        *(Pack<T> *)at = pack;
        return;
    }
#pragma unroll
    for (int k = 0; k < Pack<T>::COUNT; k++)
        if (k < left)
            at[k] = pack.at[k];
}

static inline int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
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

enum : unsigned { WHOLE_WARP = 0xffffffffu };

// First in every kernel of ours: it may have been launched before what it waits for had ended, and lets the
// next one be launched so.
static __device__ inline void begin_kernel()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// Starts a kernel on the compute stream, early where the card can.
template <typename... Given, typename... Args>
static inline void start(const CudaDevice *device, void (*kernel)(Given...), dim3 blocks, dim3 threads,
                         Args... args)
{
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = blocks;
    config.blockDim = threads;
    config.stream = device->compute;
    config.attrs = &early;
    config.numAttrs = device->programmatic ? 1 : 0;
    cudaLaunchKernelEx(&config, kernel, (Given)args...);
}

// Sum of one number a thread of a block of CUDA_BLOCK, as a tree; every thread gets it.
static __device__ inline double block_sum(double x)
{
    __shared__ double warp[CUDA_BLOCK / CUDA_WARP];
    for (int half = CUDA_WARP / 2; half > 0; half /= 2)
        x += __shfl_xor_sync(WHOLE_WARP, x, half);
    __syncthreads();   // the sum before this one has been read
    if (threadIdx.x % CUDA_WARP == 0)
        warp[threadIdx.x / CUDA_WARP] = x;
    __syncthreads();
    double sum = 0;
    for (int w = 0; w < CUDA_BLOCK / CUDA_WARP; w++)
        sum += warp[w];
    return sum;
}

// True in that one of `blocks` blocks which gets here last; it sees what the others wrote before (past its
// first-level cache: read it by __ldcg). The counter, a whole number, is 0 again then.
static __device__ inline bool last_block(unsigned *counter, unsigned blocks)
{
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0 && threadIdx.y == 0)
        last = atomicInc(counter, blocks - 1) == blocks - 1;
    __syncthreads();
    __threadfence();
    return last;
}

// Sum of one number a thread of a grid of CUDA_BLOCK threads a block, by blocks, then over them in an order
// of its own: true in one thread of the grid, which gets it.
static __device__ inline bool grid_sum(double x, double *partial, unsigned *counter, double *ret_sum)
{
    x = block_sum(x);
    if (gridDim.x > 1) {
        if (threadIdx.x == 0)
            partial[blockIdx.x] = x;
        if (!last_block(counter, gridDim.x))
            return false;
        x = 0;
        for (unsigned i = threadIdx.x; i < gridDim.x; i += CUDA_BLOCK)
            x += __ldcg(partial + i);
        x = block_sum(x);
    }
    *ret_sum = x;
    return threadIdx.x == 0;
}

// Blocks of a sum over count elements, from the shape alone: `each` elements a block, at most CUDA_PARTIALS.
static inline unsigned reduction_grid(int64_t count, int64_t each)
{
    const int64_t blocks = (count + each - 1) / each;
    return (unsigned)(blocks < 1 ? 1 : least(blocks, CUDA_PARTIALS));
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
