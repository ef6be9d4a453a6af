// dense.cu - a layer forward and backward: its multiplications, and the kernels around them.
//
// Row-major y = x w is the column-major product of the transposes, so nothing is moved. A layer of one output
// is a dot product and has kernels of its own. Column sums are cut into chunks of rows by the shape alone.
#include "cuda_element.h"

enum { BIAS_ALIGNMENT = 16, ROW_THREADS = CUDA_BLOCK / CUDA_WARP, CHUNK_ROWS = 256, CHUNK_BLOCKS = 1024 };

// -- kernels

template <typename T, typename Y>
__global__ void dot_rows(Y *y, const T *x, const T *w, const T *bias, int64_t rows, int64_t in, bool relu)
{
    int lane = (int)threadIdx.x % CUDA_WARP;
    int64_t warps = (int64_t)gridDim.x * blockDim.x / CUDA_WARP;
    for (int64_t row = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / CUDA_WARP; row < rows;
         row += warps) {
        float sum = 0;
        for (int64_t k = lane; k < in; k += CUDA_WARP)
            sum += load_element(x + row * in + k) * load_element(w + k);
        for (int half = CUDA_WARP / 2; half > 0; half /= 2)
            sum += __shfl_down_sync(0xffffffffu, sum, half);
        if (lane == 0) {
            sum += load_element(bias);
            store_element(y + row, relu && sum < 0 ? 0 : sum);   // NaN stays NaN
        }
    }
}

// Logits of a half precision pass: FP32, with the bias in the type of the pass.
template <typename T> __global__ void add_bias(float *y, const T *bias, int64_t rows, int64_t out, bool relu)
{
    EACH(i, rows * out)
    {
        float value = y[i] + load_element(bias + (i - row_of(i, out) * out));
        y[i] = relu && value < 0 ? 0 : value;
    }
}

// Column sums of dy[rows x out] over a chunk of rows, weighted by row when given (x' dy of one output): a
// block owns 32 columns, its rows of threads walk the chunk, then a tree over them. Chunk c writes to + c x
// out.
template <typename T>
__global__ void column_sums(float *to, const T *dy, const T *weight, int64_t rows, int64_t out, int64_t chunk,
                            bool accumulate)
{
    __shared__ float part[ROW_THREADS][CUDA_WARP];
    const int64_t column = (int64_t)blockIdx.x * CUDA_WARP + threadIdx.x, first = blockIdx.y * chunk,
                  end = first + chunk < rows ? first + chunk : rows;
    float mine = 0;
    if (column < out) {
#pragma unroll 8
        for (int64_t row = first + threadIdx.y; row < end; row += ROW_THREADS)
            mine += load_element(dy + row * out + column) * (weight ? load_element(weight + row) : 1);
    }
    part[threadIdx.y][threadIdx.x] = mine;
    __syncthreads();
    for (int half = ROW_THREADS / 2; half > 0; half /= 2) {
        if ((int)threadIdx.y < half)
            part[threadIdx.y][threadIdx.x] += part[threadIdx.y + half][threadIdx.x];
        __syncthreads();
    }
    float *sum = to + blockIdx.y * out + column;
    if (threadIdx.y == 0 && column < out)
        *sum = accumulate ? *sum + part[0][threadIdx.x] : part[0][threadIdx.x];
}

__global__ void add_chunks(float *sum, const float *partial, int64_t chunks, int64_t out, bool accumulate)
{
    EACH(column, out)
    {
        float total = accumulate ? sum[column] : 0;
        for (int64_t c = 0; c < chunks; c++)
            total += partial[c * out + column];
        sum[column] = total;
    }
}

template <typename T>
__global__ void spread_column(T *dx, const T *x, const T *w, const T *dy, int64_t rows, int64_t in,
                              bool below_relu, float scale)
{
    EACH(i, rows * in)
    {
        int64_t row = row_of(i, in);
        float value = load_element(dy + row) * load_element(w + (i - row * in));
        bool open = !below_relu || load_element(x + i) > 0;
        store_element(dx + i, open ? value * scale : 0);
    }
}

template <typename T>
__global__ void spread_packs(Pack<T> *dx, const Pack<T> *x, const T *w, const T *dy, int64_t rows, int64_t in,
                             bool below_relu, float scale)
{
    const int64_t width = in / Pack<T>::COUNT;
    EACH(i, rows * width)
    {
        const int64_t row = row_of(i, width), column = (i - row * width) * Pack<T>::COUNT;
        const float slope = load_element(dy + row);
        const Pack<T> below = x[i];
        Pack<T> to;
        for (int k = 0; k < Pack<T>::COUNT; k++) {
            bool open = !below_relu || load_element(&below.at[k]) > 0;
            store_element(&to.at[k], open ? slope * load_element(w + column + k) * scale : 0);
        }
        dx[i] = to;
    }
}

template <typename T> __global__ void mask_below(T *dx, const T *x, int64_t count)
{
    EACH(i, count)
    if (!(load_element(x + i) > 0))
        store_element(dx + i, 0);
}

template <typename T> __global__ void mask_packs(Pack<T> *dx, const Pack<T> *x, int64_t packs)
{
    EACH(i, packs)
    {
        const Pack<T> below = x[i];
        Pack<T> value = dx[i];
        for (int k = 0; k < Pack<T>::COUNT; k++)
            if (!(load_element(&below.at[k]) > 0))
                store_element(&value.at[k], 0);
        dx[i] = value;
    }
}

template <typename T> static void mask(CudaDevice *device, const FedgateDenseBack *op)
{
    const int64_t count = op->rows * op->in;
    if (packs_lie(op->dx) && packs_lie(op->x) && count % Pack<T>::COUNT == 0)
        mask_packs<<<cuda_grid(device, count / Pack<T>::COUNT), CUDA_BLOCK, 0, device->compute>>>(
            (Pack<T> *)op->dx, (const Pack<T> *)op->x, count / Pack<T>::COUNT);
    else
        mask_below<<<cuda_grid(device, count), CUDA_BLOCK, 0, device->compute>>>((T *)op->dx,
                                                                                 (const T *)op->x, count);
}

template <typename T> static void spread(CudaDevice *device, const FedgateDenseBack *op)
{
    const int64_t count = op->rows * op->in;
    const float scale = op->below_relu ? op->below_scale : 1;
    if (packs_lie(op->dx) && packs_lie(op->x) && op->in % Pack<T>::COUNT == 0)
        spread_packs<<<cuda_grid(device, count / Pack<T>::COUNT), CUDA_BLOCK, 0, device->compute>>>(
            (Pack<T> *)op->dx, (const Pack<T> *)op->x, (const T *)op->w, (const T *)op->dy, op->rows, op->in,
            op->below_relu, scale);
    else
        spread_column<<<cuda_grid(device, count), CUDA_BLOCK, 0, device->compute>>>(
            (T *)op->dx, (const T *)op->x, (const T *)op->w, (const T *)op->dy, op->rows, op->in,
            op->below_relu, scale);
}

// -- forward

static void one_output(CudaDevice *device, const FedgateDense *op)
{
    unsigned blocks = cuda_grid(device, op->rows * CUDA_WARP);
    if (op->y_type == FEDGATE_FP32)
        WITH_TYPE(op->type, (dot_rows<T, float><<<blocks, CUDA_BLOCK, 0, device->compute>>>(
                                (float *)op->y, (const T *)op->x, (const T *)op->w, (const T *)op->bias,
                                op->rows, op->in, op->relu)));
    else
        WITH_TYPE(op->type, (dot_rows<T, T><<<blocks, CUDA_BLOCK, 0, device->compute>>>(
                                (T *)op->y, (const T *)op->x, (const T *)op->w, (const T *)op->bias, op->rows,
                                op->in, op->relu)));
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
        one_output(device, op);
    } else if (fused) {
        product.bias = aligned_bias(device, op);
        gemm_multiply(device, &product);
    } else if (gemm_multiply(device, &product)) {
        WITH_TYPE(op->type,
                  (add_bias<<<cuda_grid(device, op->rows * op->out), CUDA_BLOCK, 0, device->compute>>>(
                      (float *)op->y, (const T *)op->bias, op->rows, op->out, op->relu)));
    }
    cuda_launched(device, "dense");
}

// -- backward

// sum[out] = column sums of dy, weighted by `weight` [rows] when given
static void sum_columns(CudaDevice *device, FedgateType type, float *sum, const void *dy, const void *weight,
                        int64_t rows, int64_t out, bool accumulate)
{
    const dim3 threads(CUDA_WARP, ROW_THREADS);
    int64_t blocks = (out + CUDA_WARP - 1) / CUDA_WARP, chunks = (rows + CHUNK_ROWS - 1) / CHUNK_ROWS,
            most = CHUNK_BLOCKS / blocks, room = CUDA_SCRATCH / (out * (int64_t)sizeof(float));
    chunks = chunks < most ? chunks : most;
    chunks = chunks < room ? chunks : room;
    chunks = chunks > 1 ? chunks : 1;
    int64_t chunk = (rows + chunks - 1) / chunks;
    chunks = (rows + chunk - 1) / chunk;
    float *to = chunks == 1 ? sum : (float *)device->scratch;
    const dim3 grid((unsigned)blocks, (unsigned)chunks);
    WITH_TYPE(type, (column_sums<<<grid, threads, 0, device->compute>>>(
                        to, (const T *)dy, (const T *)weight, rows, out, chunk, chunks == 1 && accumulate)));
    if (chunks > 1)
        add_chunks<<<cuda_grid(device, out), CUDA_BLOCK, 0, device->compute>>>(sum, to, chunks, out,
                                                                               accumulate);
}

static void weight_gradient(CudaDevice *device, const FedgateDenseBack *op)
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
    gemm_multiply(device, &product);
}

// The scale of the mask is part of the product: one rounding at the store.
static void input_gradient(CudaDevice *device, const FedgateDenseBack *op)
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
    if (gemm_multiply(device, &product) && op->below_relu)
        WITH_TYPE(op->type, (mask<T>(device, op)));
}

static void one_output_back(CudaDevice *device, const FedgateDenseBack *op)
{
    sum_columns(device, op->type, op->dw, op->x, op->dy, op->rows, op->in, op->accumulate);
    if (op->dx)
        WITH_TYPE(op->type, (spread<T>(device, op)));
}

void cuda_dense_back(void *handle, const FedgateDenseBack *op)
{
    CudaDevice *device = (CudaDevice *)handle;
    sum_columns(device, op->type, op->db, op->dy, NULL, op->rows, op->out, op->accumulate);
    if (op->out == 1) {
        one_output_back(device, op);
    } else {
        weight_gradient(device, op);
        if (op->dx)
            input_gradient(device, op);
    }
    cuda_launched(device, "dense back");
}
