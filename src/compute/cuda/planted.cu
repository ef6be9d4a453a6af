// planted.cu - what planted faults do: half precision where FP32 and FP64 belong.
#include "cuda_element.h"

enum { COARSE_DEPTH = 16 };   // terms between the roundings of the planted coarse sums, as on the cpu

static __device__ inline float coarse(float x)
{
    return __bfloat162float(__float2bfloat16_rn(x));
}

static __device__ inline void put(FedgateType type, void *d, int64_t at, float x)
{
    if (type == FEDGATE_FP32)
        ((float *)d)[at] = x;
    else
        store_element((__nv_bfloat16 *)d + at, x);
}

__global__ void coarse_product(Product p)
{
    const __nv_bfloat16 *a = (const __nv_bfloat16 *)p.a, *b = (const __nv_bfloat16 *)p.b,
                        *bias = (const __nv_bfloat16 *)p.bias;
    EACH(at, p.m * p.n)
    {
        const int64_t j = at / p.m, i = at - j * p.m;
        float sum = 0;
        for (int64_t k = 0; k < p.k; k++) {
            sum += load_element(p.transpose_a ? a + i * p.k + k : a + k * p.m + i) *
                   load_element(p.transpose_b ? b + k * p.n + j : b + j * p.k + k);
            if (k % COARSE_DEPTH == COARSE_DEPTH - 1)
                sum = coarse(sum);
        }
        sum = coarse(sum) * p.alpha + (bias ? load_element(bias + i) : 0);
        if (p.beta != 0)
            sum = coarse(sum + p.beta * ((const float *)p.d)[at]);
        put(p.out_type, p.d, at, p.relu && sum < 0 ? 0 : sum);
    }
}

// Also called while the device opens, when it does not know its multiprocessors yet.
bool planted_coarse(CudaDevice *device, const Product *product)
{
    const unsigned blocks = reduction_grid(product->m * product->n, CUDA_BLOCK);
    coarse_product<<<blocks, CUDA_BLOCK, 0, device->compute>>>(*product);
    cuda_launched(device, "planted product");
    return true;
}
