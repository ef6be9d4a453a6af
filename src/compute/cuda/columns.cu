// columns.cu - passes over a matrix that add up its columns: bias gradients, dReLU with the bias gradient of
// the layer below, and the whole backward pass of a layer of one output.
//
// A block owns 32 packs of columns and a chunk of rows; its 8 rows of threads walk the chunk, then a tree
// over them. The block that ends last in its columns adds the chunks up. Chunks, and which thread adds what,
// follow from the shape alone, not from alignment.
#include "cuda_element.h"

enum {
    LINES = CUDA_BLOCK / CUDA_WARP,   // rows of threads in a block
    DEPTH = 4,   // rows a thread reads before it works on them
    CHUNK_LEAST = 32,   // rows
    CHUNKS_MOST = 128,
    BLOCKS_MOST = 1024   // but for one chunk
};

typedef enum Pass { PASS_SUM, PASS_MASK, PASS_OUTER } Pass;

template <typename T> struct Columns {
    const T *x;   // the matrix that is read
    T *dx;   // masked in place, or written; outer: may be NULL
    const T *dy, *w;   // outer: a number a row, a number a column
    float *sums, *dx_sums, *dy_sum;   // of x (outer: weighted by dy), of dx, of dy; NULL: not wanted
    int64_t rows, width, chunk;
    int chunks;
    float scale;   // of dx in an outer product
    bool relu, accumulate, whole, whole_w;   // packs of x and dx, of w, lie for one access
    float *partial;
    unsigned *counters;
};

// Adds up over the rows of threads; the first row gets the sums.
template <int COUNT> static __device__ void fold(float (&sum)[COUNT])
{
    __shared__ float part[LINES][COUNT * CUDA_WARP];
    const int x = (int)threadIdx.x, y = (int)threadIdx.y;
    __syncthreads();   // what was folded before has been read
#pragma unroll
    for (int k = 0; k < COUNT; k++)
        part[y][k * CUDA_WARP + x] = sum[k];
    __syncthreads();
    for (int half = LINES / 2; half > 0; half /= 2) {
#pragma unroll
        for (int k = 0; k < COUNT; k++)
            if (y < half)
                part[y][k * CUDA_WARP + x] += part[y + half][k * CUDA_WARP + x];
        __syncthreads();
    }
#pragma unroll
    for (int k = 0; k < COUNT; k++)
        sum[k] = part[0][k * CUDA_WARP + x];
}

template <typename T> struct Sums {   // of one thread's columns
    float x[Pack<T>::COUNT], dx[Pack<T>::COUNT], dy[1];
};

// One row's pack: what it adds, and dx.
template <typename T, Pass PASS>
static __device__ inline void take_row(const Columns<T> &c, const Pack<T> &x, Pack<T> &dx, const Pack<T> &w,
                                       float slope, Sums<T> &sums)
{
#pragma unroll
    for (int k = 0; k < Pack<T>::COUNT; k++) {
        const float value = load_element(&x.at[k]);
        if (PASS == PASS_SUM)
            sums.x[k] += value;
        if (PASS == PASS_MASK && !(value > 0))
            store_element(&dx.at[k], 0);
        if (PASS == PASS_OUTER) {
            const bool open = !c.relu || value > 0;
            sums.x[k] += value * slope;
            store_element(&dx.at[k], open ? slope * load_element(&w.at[k]) * c.scale : 0);
        }
        if (PASS != PASS_SUM)
            sums.dx[k] += load_element(&dx.at[k]);
    }
    sums.dy[0] += slope;
}

template <typename T, Pass PASS>
static __device__ inline void walk(const Columns<T> &c, int chunk, int64_t column, int64_t left,
                                   Sums<T> &sums)
{
    const int64_t first = chunk * c.chunk, end = first + c.chunk < c.rows ? first + c.chunk : c.rows;
    Pack<T> w = {};
    if (PASS == PASS_OUTER && c.dx)
        w = load_pack(c.w + column, left, c.whole_w);
    for (int64_t begin = first + threadIdx.y; begin < end; begin += LINES * DEPTH) {
        Pack<T> x[DEPTH], dx[DEPTH];
        float slope[DEPTH] = {};
#pragma unroll
        for (int q = 0; q < DEPTH; q++) {
            const int64_t row = begin + q * LINES;
            if (row >= end)
                continue;
            x[q] = load_pack(c.x + row * c.width + column, left, c.whole);
            if (PASS == PASS_MASK)
                dx[q] = load_pack(c.dx + row * c.width + column, left, c.whole);
            if (PASS == PASS_OUTER)
                slope[q] = load_element(c.dy + row);
        }
#pragma unroll
        for (int q = 0; q < DEPTH; q++) {
            const int64_t row = begin + q * LINES;
            if (row >= end)
                continue;
            take_row<T, PASS>(c, x[q], dx[q], w, slope[q], sums);
            if (PASS == PASS_MASK || (PASS == PASS_OUTER && c.dx))
                store_pack(c.dx + row * c.width + column, dx[q], left, c.whole);
        }
    }
}

// Where chunk `chunk` of sum `which` (x, dx) of this block's columns lies, as one number a column.
template <typename T> static __device__ inline float *partial_at(const Columns<T> &c, int which, int chunk)
{
    const int64_t tile = Pack<T>::COUNT * CUDA_WARP;
    return c.partial + ((int64_t)which * c.chunks + chunk) * gridDim.x * tile + blockIdx.x * tile;
}

template <typename T> static __device__ inline float *dy_partial(const Columns<T> &c)
{
    return partial_at(c, 2, 0) - blockIdx.x * Pack<T>::COUNT * CUDA_WARP;
}

// Folds one kind of sum and leaves it: in its place when there is but one chunk, else among the partial sums.
template <typename T>
static __device__ void leave(const Columns<T> &c, float (&sum)[Pack<T>::COUNT], float *to, int which,
                             int chunk, int64_t column, int64_t left)
{
    fold<Pack<T>::COUNT>(sum);
    if (threadIdx.y > 0)
        return;
#pragma unroll
    for (int k = 0; k < Pack<T>::COUNT; k++)
        if (c.chunks > 1)
            partial_at(c, which, chunk)[k * CUDA_WARP + threadIdx.x] = sum[k];
        else if (k < left)
            to[column + k] = c.accumulate ? to[column + k] + sum[k] : sum[k];
}

template <typename T>
static __device__ void add_chunks(const Columns<T> &c, float *to, int which, int64_t column, int64_t left)
{
    float sum[Pack<T>::COUNT] = {};
    for (int chunk = (int)threadIdx.y; chunk < c.chunks; chunk += LINES)
#pragma unroll
        for (int k = 0; k < Pack<T>::COUNT; k++)
            sum[k] += __ldcg(partial_at(c, which, chunk) + k * CUDA_WARP + threadIdx.x);
    fold<Pack<T>::COUNT>(sum);
#pragma unroll
    for (int k = 0; k < Pack<T>::COUNT; k++)
        if (threadIdx.y == 0 && k < left)
            to[column + k] = c.accumulate ? to[column + k] + sum[k] : sum[k];
}

template <typename T, Pass PASS> __global__ void __launch_bounds__(CUDA_BLOCK) columns(Columns<T> c)
{
    const int64_t column = ((int64_t)blockIdx.x * CUDA_WARP + threadIdx.x) * Pack<T>::COUNT,
                  left = c.width - column;
    // what a product wrote last is in the cache still, and what is masked last is for the next product
    const int chunk = PASS == PASS_MASK ? c.chunks - 1 - (int)blockIdx.y : (int)blockIdx.y;
    const bool slopes = PASS == PASS_OUTER && blockIdx.x == 0 && c.dy_sum;
    Sums<T> sums = {};
    if (left > 0)
        walk<T, PASS>(c, chunk, column, left, sums);
    if (PASS != PASS_MASK)
        leave(c, sums.x, c.sums, 0, chunk, column, left);
    if (PASS != PASS_SUM && c.dx_sums)
        leave(c, sums.dx, c.dx_sums, 1, chunk, column, left);
    if (slopes) {
        fold<1>(sums.dy);
        if (threadIdx.y == 0 && threadIdx.x == 0 && c.chunks > 1)
            dy_partial(c)[chunk] = sums.dy[0];
        else if (threadIdx.y == 0 && threadIdx.x == 0)
            *c.dy_sum = c.accumulate ? *c.dy_sum + sums.dy[0] : sums.dy[0];
    }
    if (c.chunks == 1 || (PASS == PASS_MASK && !c.dx_sums) ||
        !last_block(c.counters + blockIdx.x, (unsigned)c.chunks))
        return;
    if (PASS != PASS_MASK)
        add_chunks(c, c.sums, 0, column, left);
    if (PASS != PASS_SUM && c.dx_sums)
        add_chunks(c, c.dx_sums, 1, column, left);
    if (slopes) {
        float sum[1] = {};
        for (int chunk = (int)threadIdx.y; chunk < c.chunks; chunk += LINES)
            sum[0] += __ldcg(dy_partial(c) + chunk);
        fold<1>(sum);
        if (threadIdx.y == 0 && threadIdx.x == 0)
            *c.dy_sum = c.accumulate ? *c.dy_sum + sum[0] : sum[0];
    }
}

template <typename T, Pass PASS> static void launch(CudaDevice *device, Columns<T> c)
{
    const int64_t packs = (c.width + Pack<T>::COUNT - 1) / Pack<T>::COUNT,
                  tiles = (packs + CUDA_WARP - 1) / CUDA_WARP, most = BLOCKS_MOST / tiles;
    int64_t chunks = least((c.rows + CHUNK_LEAST - 1) / CHUNK_LEAST, CHUNKS_MOST);
    chunks = least(chunks, most > 1 ? most : 1);
    c.chunk = (c.rows + chunks - 1) / chunks;
    c.chunks = (int)((c.rows + c.chunk - 1) / c.chunk);
    c.whole = c.width % Pack<T>::COUNT == 0 && packs_lie(c.x) && packs_lie(c.dx);
    c.whole_w = c.width % Pack<T>::COUNT == 0 && packs_lie(c.w);
    c.partial = (float *)device->scratch;
    c.counters = device->counters;
    columns<T, PASS>
        <<<dim3((unsigned)tiles, (unsigned)c.chunks), dim3(CUDA_WARP, LINES), 0, device->compute>>>(c);
}

void columns_sum(CudaDevice *device, FedgateType type, const void *x, int64_t rows, int64_t width,
                 bool accumulate, float *sums)
{
    WITH_TYPE(type, {
        Columns<T> c = {};
        c.x = (const T *)x;
        c.sums = sums;
        c.rows = rows;
        c.width = width;
        c.accumulate = accumulate;
        launch<T, PASS_SUM>(device, c);
    });
}

template <typename T> static Columns<T> columns_of(const FedgateDenseBack *op)
{
    Columns<T> c = {};
    c.x = (const T *)op->x;
    c.dx = (T *)op->dx;
    c.dx_sums = op->dx ? op->dx_sums : NULL;
    c.rows = op->rows;
    c.width = op->in;
    c.accumulate = op->accumulate;
    return c;
}

void columns_mask(CudaDevice *device, const FedgateDenseBack *op)
{
    WITH_TYPE(op->type, (launch<T, PASS_MASK>(device, columns_of<T>(op))));
}

void columns_outer(CudaDevice *device, const FedgateDenseBack *op)
{
    WITH_TYPE(op->type, {
        Columns<T> c = columns_of<T>(op);
        c.dy = (const T *)op->dy;
        c.w = (const T *)op->w;
        c.sums = op->dw;
        c.dy_sum = op->db;
        c.relu = op->below_relu;
        c.scale = op->below_relu ? op->below_scale : 1;
        launch<T, PASS_OUTER>(device, c);
    });
}
