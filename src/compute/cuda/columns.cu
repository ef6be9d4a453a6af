// columns.cu - passes over a matrix that add up its columns: bias gradients, dReLU with the bias gradient of
// the layer below, and the whole backward pass of a layer of one output.
//
// A block owns 32 packs of columns (a tile) and a chunk of rows; its rows of threads walk the chunk, then
// their sums are added. The block that ends last in its tile adds the chunks up. Chunks, and which thread
// adds what, follow from the shape alone, not from alignment.
#include "cuda_element.h"

enum {
    CHUNK_LEAST = 32,   // rows
    CHUNKS_MOST = 128,
    BLOCKS_MOST = 1024,   // but for one chunk
    THREADS_RESIDENT = 1024   // of a multiprocessor, about: what registers leave room for
};

typedef enum Pass { PASS_SUM, PASS_MASK, PASS_OUTER } Pass;

// Rows of threads in a block: an outer product needs more registers.
template <Pass PASS> struct Block {
    enum : int { LINES = PASS == PASS_OUTER ? 8 : 16, THREADS = LINES * CUDA_WARP };
};

template <typename T> struct Columns {
    const T *x;   // the matrix that is read
    T *dx;   // masked in place, or written; outer: may be NULL
    const T *dy, *w;   // outer: a number a row, a number a column
    float *sums, *dx_sums, *dy_sum;   // of x (outer: weighted by dy), of dx, of dy; NULL: not wanted
    int64_t rows, width, chunk;
    int chunks;
    float scale;   // of dx in an outer product
    bool relu, accumulate, whole_w;   // packs of w lie for one access
    float *partial;
    unsigned *counters;
};

template <typename T> struct Shape {
    enum : int {
        COUNT = Pack<T>::COUNT,
        TILE = COUNT * CUDA_WARP,   // columns
        QUADS = TILE / 4
    };
};

template <typename T> struct Sums {   // of one thread's columns
    float x[Pack<T>::COUNT], dx[Pack<T>::COUNT], dy;
};

static __device__ inline int thread_of_block()
{
    return (int)(threadIdx.y * CUDA_WARP + threadIdx.x);
}

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
    sums.dy += slope;
}

// DEPTH rows are read before they are worked on.
template <typename T, Pass PASS, bool WHOLE>
static __device__ inline void walk(const Columns<T> &c, int chunk, int64_t column, int left, Sums<T> &sums)
{
    enum { DEPTH = PASS == PASS_MASK ? 2 : 4 };
    enum { LINES = Block<PASS>::LINES };
    const int64_t first = chunk * c.chunk, step = LINES * c.width;
    const int rows = (int)(first + c.chunk < c.rows ? c.chunk : c.rows - first);
    const int64_t at = (first + threadIdx.y) * c.width + column;
    const T *x = c.x + at, *dy = c.dy + first;
    T *to = c.dx + at;
    Pack<T> w = {};
    if (PASS == PASS_OUTER && c.dx)
        w = load_pack(c.w + column, left, c.whole_w);
    for (int row = (int)threadIdx.y; row < rows;
         row += LINES * DEPTH, x += DEPTH * step, to += DEPTH * step) {
        Pack<T> from[DEPTH], dx[DEPTH];
        float slope[DEPTH] = {};
#pragma unroll
        for (int q = 0; q < DEPTH; q++) {
            if (row + q * LINES >= rows)
                continue;
            from[q] = load_pack(x + q * step, left, WHOLE);
            if (PASS == PASS_MASK)
                dx[q] = load_pack(to + q * step, left, WHOLE);
            if (PASS == PASS_OUTER)
                slope[q] = load_element(dy + row + q * LINES);
        }
#pragma unroll
        for (int q = 0; q < DEPTH; q++) {
            if (row + q * LINES >= rows)
                continue;
            take_row<T, PASS>(c, from[q], dx[q], w, slope[q], sums);
            if (PASS == PASS_MASK || (PASS == PASS_OUTER && c.dx))
                store_pack(to + q * step, dx[q], left, WHOLE);
        }
    }
}

// Adds numbers of `lines` lines of a tile in the order of the lines: thread t gets that of column t.
static __device__ inline float fold(const float *part, int lines, int tile)
{
    float sum = 0;
    __syncthreads();
    if (thread_of_block() < tile)
        for (int line = 0; line < lines; line++)
            sum += part[line * tile + thread_of_block()];
    __syncthreads();
    return sum;
}

static __device__ inline void put(float *to, float sum, bool accumulate)
{
    *to = accumulate ? *to + sum : sum;
}

// Where sum `which` (x, dx) of this block's tile lies in a chunk.
template <typename T> static __device__ inline float *partial_at(const Columns<T> &c, int which, int chunk)
{
    enum { TILE = Shape<T>::TILE };
    return c.partial + (((int64_t)which * c.chunks + chunk) * gridDim.x + blockIdx.x) * TILE;
}

template <typename T> static __device__ inline float *dy_partial(const Columns<T> &c)
{
    return c.partial + (int64_t)2 * c.chunks * gridDim.x * Shape<T>::TILE;
}

// Adds the lines up and leaves their sum: in its place when there is but one chunk, else among the partial
// sums.
template <typename T, Pass PASS>
static __device__ void leave(const Columns<T> &c, const float (&mine)[Pack<T>::COUNT], float *part, float *to,
                             int which, int chunk)
{
    enum { COUNT = Pack<T>::COUNT, TILE = Shape<T>::TILE };
    const int64_t column = (int64_t)blockIdx.x * TILE + thread_of_block();
#pragma unroll
    for (int k = 0; k < COUNT; k += 4)
        *(float4 *)(part + (int)threadIdx.y * TILE + (int)threadIdx.x * COUNT + k) =
            float4{mine[k], mine[k + 1], mine[k + 2], mine[k + 3]};
    const float sum = fold(part, Block<PASS>::LINES, TILE);
    if (thread_of_block() >= TILE)
        return;
    if (c.chunks > 1)
        partial_at(c, which, chunk)[thread_of_block()] = sum;
    else if (column < c.width)
        put(to + column, sum, c.accumulate);
}

// One block waits for all of it, so both sums and many chunks are on their way at a time.
template <typename T, Pass PASS>
static __device__ void add_chunks(const Columns<T> &c, float *part, float *const (&to)[2])
{
    enum {
        TILE = Shape<T>::TILE,
        QUADS = Shape<T>::QUADS,
        GROUPS = Block<PASS>::THREADS / QUADS
    };   // of threads
    const int quad = thread_of_block() % QUADS, group = thread_of_block() / QUADS;
    const int64_t column = (int64_t)blockIdx.x * TILE + thread_of_block();
    float4 sum[2] = {};
#pragma unroll
    for (int which = 0; which < 2; which++) {
        if (!to[which])
            continue;
#pragma unroll 8
        for (int chunk = group; chunk < c.chunks; chunk += GROUPS) {
            const float4 more = __ldcg((const float4 *)partial_at(c, which, chunk) + quad);
            sum[which].x += more.x, sum[which].y += more.y, sum[which].z += more.z, sum[which].w += more.w;
        }
    }
#pragma unroll
    for (int which = 0; which < 2; which++) {
        if (!to[which])
            continue;
        ((float4 *)part)[group * QUADS + quad] = sum[which];
        const float total = fold(part, GROUPS, TILE);
        if (thread_of_block() < TILE && column < c.width)
            put(to[which] + column, total, c.accumulate);
    }
}

// The sum of dy, in the blocks of the first tile: every thread of a line has its line's.
template <typename T, Pass PASS>
static __device__ void leave_slopes(const Columns<T> &c, float mine, float *part, int chunk)
{
    if (threadIdx.x == 0)
        part[threadIdx.y] = mine;
    const float sum = fold(part, Block<PASS>::LINES, 1);
    if (thread_of_block() > 0)
        return;
    if (c.chunks > 1)
        dy_partial(c)[chunk] = sum;
    else
        put(c.dy_sum, sum, c.accumulate);
}

template <typename T> static __device__ void add_slopes(const Columns<T> &c)
{
    float sum = 0;
    if (thread_of_block() >= CUDA_WARP)
        return;
    for (int chunk = (int)threadIdx.x; chunk < c.chunks; chunk += CUDA_WARP)
        sum += __ldcg(dy_partial(c) + chunk);
    for (int half = CUDA_WARP / 2; half > 0; half /= 2)
        sum += __shfl_down_sync(WHOLE_WARP, sum, half);
    if (threadIdx.x == 0)
        put(c.dy_sum, sum, c.accumulate);
}

template <typename T, Pass PASS, bool WHOLE>
__global__ void __launch_bounds__(Block<PASS>::THREADS, THREADS_RESIDENT / Block<PASS>::THREADS -
                                                            (PASS == PASS_OUTER)) columns(Columns<T> c)
{
    begin_kernel();
    __shared__ __align__(16) float part[Block<PASS>::LINES * Shape<T>::TILE];
    const int64_t column = ((int64_t)blockIdx.x * CUDA_WARP + threadIdx.x) * Pack<T>::COUNT,
                  left = c.width - column;
    // what a product wrote last is in the cache still, and what is masked last is for the next product
    const int chunk = PASS == PASS_MASK ? c.chunks - 1 - (int)blockIdx.y : (int)blockIdx.y;
    const bool slopes = PASS == PASS_OUTER && blockIdx.x == 0 && c.dy_sum;
    Sums<T> sums = {};
    if (left > 0)
        walk<T, PASS, WHOLE>(c, chunk, column, (int)(left < Pack<T>::COUNT ? left : Pack<T>::COUNT), sums);
    if (PASS != PASS_MASK)
        leave<T, PASS>(c, sums.x, part, c.sums, 0, chunk);
    if (PASS != PASS_SUM && c.dx_sums)
        leave<T, PASS>(c, sums.dx, part, c.dx_sums, 1, chunk);
    if (slopes)
        leave_slopes<T, PASS>(c, sums.dy, part, chunk);
    if (c.chunks == 1 || (PASS == PASS_MASK && !c.dx_sums) ||
        !last_block(c.counters + blockIdx.x, (unsigned)c.chunks))
        return;
    add_chunks<T, PASS>(c, part, {PASS != PASS_MASK ? c.sums : NULL, PASS != PASS_SUM ? c.dx_sums : NULL});
    if (slopes)
        add_slopes(c);
}

template <typename T, Pass PASS> static void launch(CudaDevice *device, Columns<T> c)
{
    const int64_t tiles = (c.width + Shape<T>::TILE - 1) / Shape<T>::TILE, most = BLOCKS_MOST / tiles;
    int64_t chunks = least((c.rows + CHUNK_LEAST - 1) / CHUNK_LEAST, CHUNKS_MOST);
    chunks = least(chunks, most > 1 ? most : 1);
    c.chunk = (c.rows + chunks - 1) / chunks;
    c.chunks = (int)((c.rows + c.chunk - 1) / c.chunk);
    c.whole_w = c.width % Pack<T>::COUNT == 0 && packs_lie(c.w);
    c.partial = (float *)device->scratch;
    c.counters = device->counters;
    const bool whole = c.width % Pack<T>::COUNT == 0 && packs_lie(c.x) && packs_lie(c.dx);
    const dim3 grid((unsigned)tiles, (unsigned)c.chunks), threads(CUDA_WARP, Block<PASS>::LINES);
    if (whole)
        start(device, columns<T, PASS, true>, grid, threads, c);
    else
        start(device, columns<T, PASS, false>, grid, threads, c);
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
