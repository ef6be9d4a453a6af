// dense.cu - a layer forward and backward: its multiplications, and what stands around them.
//
// Row-major y = x w is the column-major product of the transposes, so nothing is moved. A layer of one output
// is a dot product and has kernels of its own. Bias and ReLU are in the product's epilogue; the mask of the
// ReLU below and the bias gradients are one pass of ours over what a product left (columns.cu): cuBLASLt's
// epilogues for them are second kernels too, and slower ones (README.md has the figures).
#include "cuda_element.h"

enum { BIAS_ALIGNMENT = 16 };

// -- kernels

template <typename T> struct Dot {
    const T *x, *w, *bias;
    int64_t rows, in;
    bool relu, whole_x, whole_w;   // packs lie for one access
};

// A warp a row; a lane adds every 32nd pack.
template <typename T, typename Y> __global__ void dot_rows(Y *y, Dot<T> op)
{
    begin_kernel();
    const int lane = (int)threadIdx.x % CUDA_WARP;
    const int64_t warps = (int64_t)gridDim.x * blockDim.x / CUDA_WARP;
    for (int64_t row = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / CUDA_WARP; row < op.rows;
         row += warps) {
        float sum = 0;
#pragma unroll 4
        for (int64_t at = lane * Pack<T>::COUNT; at < op.in; at += CUDA_WARP * Pack<T>::COUNT) {
            const Pack<T> x = load_pack(op.x + row * op.in + at, op.in - at, op.whole_x),
                          w = load_pack(op.w + at, op.in - at, op.whole_w);
#pragma unroll
            for (int k = 0; k < Pack<T>::COUNT; k++)
                sum += load_element(&x.at[k]) * load_element(&w.at[k]);
        }
        for (int half = CUDA_WARP / 2; half > 0; half /= 2)
            sum += __shfl_down_sync(WHOLE_WARP, sum, half);
        if (lane == 0) {
            sum += load_element(op.bias);
            store_element(y + row, op.relu && sum < 0 ? 0 : sum);   // NaN stays NaN
        }
    }
}

// Logits of a half precision pass: FP32, with the bias in the type of the pass.
template <typename T> __global__ void add_bias(float *y, const T *bias, int64_t rows, int64_t out, bool relu)
{
    begin_kernel();
    EACH(i, rows * out)
    {
        float value = y[i] + load_element(bias + (i - row_of(i, out) * out));
        y[i] = relu && value < 0 ? 0 : value;
    }
}

// -- forward

template <typename T> static void one_output(CudaDevice *device, const FedgateDense *op)
{
    const unsigned blocks = cuda_grid(device, op->rows * CUDA_WARP);
    const bool packs = op->in % Pack<T>::COUNT == 0;
    const Dot<T> dot = {
        (const T *)op->x, (const T *)op->w, (const T *)op->bias,       op->rows,
        op->in,           op->relu,         packs && packs_lie(op->x), packs && packs_lie(op->w)};
    if (op->y_type == FEDGATE_FP32)
        start(device, dot_rows<T, float>, blocks, CUDA_BLOCK, (float *)op->y, dot);
    else
        start(device, dot_rows<T, T>, blocks, CUDA_BLOCK, (T *)op->y, dot);
}

// The epilogue reads 16 bytes of the bias at a time: one that lies otherwise is copied.
static const void *aligned_bias(CudaDevice *device, const FedgateDense *op)
{
    size_t bytes = (size_t)(op->out * fedgate_type_bytes(op->type));
    if ((uintptr_t)op->bias % BIAS_ALIGNMENT == 0 || bytes > CUDA_SCRATCH)
        return op->bias;
    cuda_good(device,
              cudaMemcpyAsync(device->scratch, op->bias, bytes, cudaMemcpyDeviceToDevice, device->compute),
              "copy of a bias");
    return device->scratch;
}

void cuda_dense(void *handle, const FedgateDense *op)
{
    CudaDevice *device = (CudaDevice *)handle;
    bool fused = op->y_type == op->type;
    Product product = {};
    product.type = op->type;
    product.out_type = op->y_type;
    product.m = op->out;
    product.n = op->rows;
    product.k = op->in;
    product.a = op->w;
    product.b = op->x;
    product.d = op->y;
    product.alpha = 1;
    product.relu = fused && op->relu;
    if (op->out == 1) {
        WITH_TYPE(op->type, (one_output<T>(device, op)));
    } else if (fused) {
        product.bias = aligned_bias(device, op);
        gemm_multiply(device, &product);
    } else if (gemm_multiply(device, &product)) {
        WITH_TYPE(op->type, (start(device, add_bias<T>, cuda_grid(device, op->rows * op->out), CUDA_BLOCK,
                                   (float *)op->y, (const T *)op->bias, op->rows, op->out, op->relu)));
    }
    cuda_launched(device, "dense");
}

// -- backward

static Product weight_gradient(const FedgateDenseBack *op)
{
    Product product = {};
    product.type = op->type;
    product.out_type = FEDGATE_FP32;
    product.transpose_b = true;
    product.m = op->out;
    product.n = op->in;
    product.k = op->rows;
    product.a = op->dy;
    product.b = op->x;
    product.d = op->dw;
    product.alpha = 1;
    product.beta = op->accumulate ? 1 : 0;
    return product;
}

// The scale of the mask is part of the product: one rounding at the store.
static Product input_gradient(const FedgateDenseBack *op)
{
    Product product = {};
    product.type = product.out_type = op->type;
    product.transpose_a = true;
    product.m = op->in;
    product.n = op->rows;
    product.k = op->out;
    product.a = op->w;
    product.b = op->dy;
    product.d = op->dx;
    product.alpha = op->below_relu ? op->below_scale : 1;
    return product;
}

void cuda_dense_back(void *handle, const FedgateDenseBack *op)
{
    CudaDevice *device = (CudaDevice *)handle;
    if (op->out == 1) {
        columns_outer(device, op);
    } else {
        if (op->db)
            columns_sum(device, op->type, op->dy, op->rows, op->out, op->accumulate, op->db);
        const Product weights = weight_gradient(op), inputs = input_gradient(op);
        const bool forked = op->dx && gemm_fork(device, &weights, &inputs);
        if ((forked || gemm_multiply(device, &weights)) && op->dx && gemm_multiply(device, &inputs)) {
            if (op->below_relu)
                columns_mask(device, op);
            else if (op->dx_sums)
                columns_sum(device, op->type, op->dx, op->rows, op->in, op->accumulate, op->dx_sums);
        }
        if (forked)
            gemm_join(device);
    }
    cuda_launched(device, "dense back");
}
