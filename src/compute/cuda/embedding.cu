// embedding.cu - a batch's inputs: numbers and rows of tables beside each other, and the gradient of the
// tables.
//
// The gradient is the cpu back end's to the bit: rows of one code are added in the order of the rows. They
// are found by a stable sort of the rows by code, a feature a block, so that the work grows with rows and not
// with categories. Features go in groups and rows in pieces that fit the scratch.
#include "cuda_element.h"

enum {
    GROUP = 32,   // features in one launch
    PIECE = 65536,   // rows sorted at a time
    SORT_THREADS = 512,
    SORT_WARPS = SORT_THREADS / CUDA_WARP,
    DIGITS = 256,   // values of a digit: 8 bits of a code
    DIGIT_BITS = 8,
    BATCH = 8,   // numbers read before they are added
    CLEARED = 16384,   // elements a block clears, about
    CLEARERS_MOST = 64
};

typedef struct Feature {
    int64_t offset;
    int32_t width, cardinality, column;
} Feature;
typedef struct Group {   // features of the batch from `first` on
    Feature at[GROUP];
    int first, count;
} Group;
typedef struct Row {
    uint32_t code, row;
} Row;

static Group group_of(const FedgateAssemble *op, int64_t first, int64_t most)
{
    Group group;
    group.first = (int)first;
    group.count = (int)least(op->embedding_count - first, most);
    for (int i = 0; i < group.count; i++) {
        const FedgateEmbedding *e = &op->embeddings[first + i];
        group.at[i] = Feature{e->offset, (int32_t)e->width, (int32_t)e->cardinality, (int32_t)e->column};
    }
    return group;
}

// -- forward

static __device__ inline void count_bad(unsigned bad, int64_t *total)
{
    bad = __reduce_add_sync(WHOLE_WARP, bad);
    if (threadIdx.x % CUDA_WARP == 0 && bad > 0 && total)
        atomicAdd((unsigned long long *)total, (unsigned long long)bad);   // whole numbers: any order
}

__global__ void nonfinite(const float *x, int64_t count, int64_t *total)
{
    begin_kernel();
    unsigned bad = 0;
    EACH(i, count)
    bad += !isfinite(x[i]);
    count_bad(bad, total);
}

// x of numbers alone, pack by pack
template <typename T>
__global__ void round_packs(Pack<T> *x, const float *numeric, int64_t packs, int64_t *bad_total)
{
    begin_kernel();
    enum { FOURS = Pack<T>::COUNT / 4 };
    unsigned bad = 0;
    EACH(i, packs)
    {
        Pack<float> from[FOURS];
        Pack<T> to;
#pragma unroll
        for (int f = 0; f < FOURS; f++)
            from[f] = ((const Pack<float> *)numeric)[i * FOURS + f];
#pragma unroll
        for (int k = 0; k < Pack<T>::COUNT; k++) {
            bad += !isfinite(from[k / 4].at[k % 4]);
            store_element(&to.at[k], from[k / 4].at[k % 4]);
        }
        x[i] = to;
    }
    count_bad(bad, bad_total);
}

template <typename T> __global__ void assemble(FedgateAssemble op, Group group)
{
    begin_kernel();
    T *const x = (T *)op.x;
    unsigned bad = 0;
    EACH(i, op.rows * op.width)
    {
        const int64_t row = row_of(i, op.width), j = i - row * op.width;
        if (j < op.numeric_count && group.first == 0) {
            const float number = op.numeric[row * op.numeric_count + j];
            bad += !isfinite(number);
            store_element(x + i, number);
        }
        for (int f = 0; f < group.count; f++) {
            const Feature &e = group.at[f];
            if (j >= e.column && j < e.column + e.width)
                x[i] =
                    ((const T *)
                         op.tables)[e.offset + j - e.column +
                                    (int64_t)op.codes[row * op.embedding_count + group.first + f] * e.width];
        }
    }
    count_bad(bad, op.nonfinite);
}

template <typename T> static void assemble_all(CudaDevice *device, const FedgateAssemble *op)
{
    const int64_t count = op->rows * op->width;
    if (op->embedding_count == 0 && count % Pack<T>::COUNT == 0 && packs_lie(op->x) &&
        packs_lie(op->numeric)) {
        const int64_t packs = count / Pack<T>::COUNT;
        start(device, round_packs<T>, cuda_grid(device, packs), CUDA_BLOCK, (Pack<T> *)op->x, op->numeric,
              packs, op->nonfinite);
        return;
    }
    for (int64_t first = 0; first == 0 || first < op->embedding_count; first += GROUP)
        start(device, assemble<T>, cuda_grid(device, count), CUDA_BLOCK, *op, group_of(op, first, GROUP));
}

void cuda_assemble(void *handle, const FedgateAssemble *op)
{
    CudaDevice *device = (CudaDevice *)handle;
    WITH_TYPE(op->type, (assemble_all<T>(device, op)));
    cuda_launched(device, "assemble");
}

void cuda_count_nonfinite(void *handle, const float *x, int64_t count, int64_t *total)
{
    CudaDevice *device = (CudaDevice *)handle;
    start(device, nonfinite, cuda_grid(device, count), CUDA_BLOCK, x, count, total);
    cuda_launched(device, "count nonfinite");
}

__global__ void gather(FedgateGather op)
{
    begin_kernel();
    const int64_t width = op.numeric_count + op.code_count + 1;
    EACH(i, op.rows * width)
    {
        const int64_t row = row_of(i, width), j = i - row * width, from = op.index[row];
        if (j < op.numeric_count)
            op.numeric[row * op.numeric_count + j] = op.from_numeric[from * op.numeric_count + j];
        else if (j < op.numeric_count + op.code_count)
            op.codes[row * op.code_count + j - op.numeric_count] =
                op.from_codes[from * op.code_count + j - op.numeric_count];
        else
            op.target[row] = op.from_target[from];
    }
}

void cuda_gather(void *handle, const FedgateGather *op)
{
    CudaDevice *device = (CudaDevice *)handle;
    const int64_t width = op->numeric_count + op->code_count + 1;
    start(device, gather, cuda_grid(device, op->rows * width), CUDA_BLOCK, *op);
    cuda_launched(device, "gather");
}

// -- backward: sort

static __host__ __device__ inline int digits_of(int32_t cardinality)
{
    int digits = 1;
    for (int64_t top = (int64_t)cardinality - 1; top >= DIGITS; top /= DIGITS)
        digits++;
    return digits;
}

typedef struct Sorting {   // a piece of the batch's rows
    const int32_t *codes;   // of its first row
    int64_t features, first_row;
    int rows;
    Row *scratch;   // 2 x rows for each feature of the group: digit d is sorted into half d mod 2
} Sorting;

static __device__ inline Row *sorted_rows(const Sorting &s, int feature, int digit)
{
    return s.scratch + ((int64_t)feature * 2 + digit % 2) * s.rows;
}

static __device__ inline Row row_before(const Sorting &s, const Group &group, int digit, int i)
{
    const int feature = (int)blockIdx.x;
    if (digit > 0)
        return sorted_rows(s, feature, digit - 1)[i];
    return Row{(uint32_t)s.codes[(int64_t)i * s.features + group.first + feature], (uint32_t)i};
}

// Places before each digit's first: counts, then their running sum by the first warp.
static __device__ void place_digits(const Sorting &s, const Group &group, int digit, int *place)
{
    const int t = (int)threadIdx.x;
    for (int d = t; d < DIGITS; d += SORT_THREADS)
        place[d] = 0;
    __syncthreads();
    for (int i = t; i < s.rows; i += SORT_THREADS)
        atomicAdd(&place[row_before(s, group, digit, i).code >> (digit * DIGIT_BITS) & (DIGITS - 1)], 1);
    __syncthreads();
    if (t < CUDA_WARP) {
        enum { EACH_LANE = DIGITS / CUDA_WARP };
        int sum = 0, before;
        for (int k = 0; k < EACH_LANE; k++)
            sum += place[t * EACH_LANE + k];
        before = sum;
        for (int step = 1; step < CUDA_WARP; step *= 2) {
            const int other = __shfl_up_sync(WHOLE_WARP, before, step);
            before += t >= step ? other : 0;
        }
        before -= sum;
        for (int k = 0; k < EACH_LANE; k++) {
            const int count = place[t * EACH_LANE + k];
            place[t * EACH_LANE + k] = before;
            before += count;
        }
    }
    __syncthreads();
}

// Tile after tile in the order of the rows: a row's place is after those of its digit in tiles, warps and
// lanes before it.
static __device__ void sort_digit(const Sorting &s, const Group &group, int digit)
{
    __shared__ int place[DIGITS], count[SORT_WARPS][DIGITS];
    const int t = (int)threadIdx.x, warp = t / CUDA_WARP, lane = t % CUDA_WARP;
    Row *const to = sorted_rows(s, (int)blockIdx.x, digit);
    place_digits(s, group, digit, place);
    for (int begin = 0; begin < s.rows; begin += SORT_THREADS) {
        for (int k = t; k < SORT_WARPS * DIGITS; k += SORT_THREADS)
            (&count[0][0])[k] = 0;
        __syncthreads();
        const bool mine = begin + t < s.rows;
        const Row row = mine ? row_before(s, group, digit, begin + t) : Row{};
        const int d = mine ? (int)(row.code >> (digit * DIGIT_BITS) & (DIGITS - 1)) : DIGITS;
        const unsigned alike = __match_any_sync(WHOLE_WARP, d),
                       before = (unsigned)__popc(alike & ((1u << lane) - 1));
        if (mine && before == 0)
            count[warp][d] = __popc(alike);
        __syncthreads();
        if (t < DIGITS) {
            int next = place[t];
            for (int w = 0; w < SORT_WARPS; w++) {
                const int here = count[w][t];
                count[w][t] = next;
                next += here;
            }
            place[t] = next;
        }
        __syncthreads();
        if (mine)
            to[count[warp][d] + (int)before] = row;
        __syncthreads();
    }
}

// Blocks (f, 0) sort feature f; the others clear its table.
__global__ void __launch_bounds__(SORT_THREADS) sort_rows(Sorting s, Group group, float *gradient)
{
    begin_kernel();
    const Feature &e = group.at[blockIdx.x];
    if (blockIdx.y > 0) {
        const int64_t count = (int64_t)e.width * e.cardinality;
        for (int64_t i = (int64_t)(blockIdx.y - 1) * blockDim.x + threadIdx.x; i < count;
             i += (int64_t)(gridDim.y - 1) * blockDim.x)
            gradient[e.offset + i] = 0;
        return;
    }
    for (int digit = 0; digit < digits_of(e.cardinality); digit++)
        sort_digit(s, group, digit);
}

// -- backward: sums. A warp looks at a place among the sorted rows; where a code begins, it adds the code's
// rows up.

template <typename T>
static __device__ inline float add_rows(float sum, const T *dx, int64_t width, Row mine, int count, bool here)
{
    for (int begin = 0; begin < count; begin += BATCH) {
        float value[BATCH];
#pragma unroll
        for (int k = 0; k < BATCH; k++) {
            const int64_t row = __shfl_sync(WHOLE_WARP, mine.row, (begin + k) % CUDA_WARP);
            value[k] = here && begin + k < count ? load_element(dx + row * width) : 0;
        }
#pragma unroll
        for (int k = 0; k < BATCH; k++)
            if (begin + k < count)
                sum += value[k];
    }
    return sum;
}

template <typename T>
__global__ void add_codes(Sorting s, Group group, const T *dx, int64_t width, float *gradient,
                          bool accumulate)
{
    begin_kernel();
    const Feature &e = group.at[blockIdx.y];
    const int lane = (int)threadIdx.x % CUDA_WARP,
              first = (int)(((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / CUDA_WARP);
    const Row *const sorted = sorted_rows(s, (int)blockIdx.y, digits_of(e.cardinality) - 1);
    if (first >= s.rows)
        return;
    const uint32_t code = sorted[first].code;
    if (first > 0 && sorted[first - 1].code == code)
        return;
    for (int j = lane; j - lane < e.width; j += CUDA_WARP) {
        const bool here = j < e.width;
        float *const to = gradient + e.offset + (int64_t)code * e.width + j;
        const T *const from = dx + s.first_row * width + e.column + j;
        float sum = accumulate && here ? *to : 0;
        for (int at = first, count = CUDA_WARP; count == CUDA_WARP; at += CUDA_WARP) {
            const Row mine = at + lane < s.rows ? sorted[at + lane] : Row{~code, 0};
            count = __popc(__ballot_sync(WHOLE_WARP, mine.code == code));
            sum = add_rows(sum, from, width, mine, count, here);
        }
        if (here)
            *to = sum;
    }
}

static unsigned clearers(const Group &group)
{
    int64_t most = 0;
    for (int i = 0; i < group.count; i++) {
        const int64_t blocks = ((int64_t)group.at[i].width * group.at[i].cardinality + CLEARED - 1) / CLEARED;
        most = blocks > most ? blocks : most;
    }
    return (unsigned)least(most, CLEARERS_MOST);
}

template <typename T>
static void piece_back(CudaDevice *device, const FedgateAssemble *op, int64_t first_row, int64_t rows)
{
    const int64_t most = least(CUDA_SCRATCH / (2 * rows * (int64_t)sizeof(Row)), GROUP);
    const bool accumulate = op->accumulate || first_row > 0;
    const Sorting sorting = {op->codes + first_row * op->embedding_count, op->embedding_count, first_row,
                             (int)rows, (Row *)device->scratch};
    const unsigned blocks = (unsigned)((rows * CUDA_WARP + CUDA_BLOCK - 1) / CUDA_BLOCK);
    for (int64_t first = 0; first < op->embedding_count; first += most) {
        const Group group = group_of(op, first, most);
        const dim3 sorters((unsigned)group.count, accumulate ? 1 : 1 + clearers(group)),
            adders(blocks, (unsigned)group.count);
        start(device, sort_rows, sorters, SORT_THREADS, sorting, group, op->gradient);
        start(device, add_codes<T>, adders, CUDA_BLOCK, sorting, group, (const T *)op->x, op->width,
              op->gradient, accumulate);
    }
}

void cuda_assemble_back(void *handle, const FedgateAssemble *op)
{
    CudaDevice *device = (CudaDevice *)handle;
    for (int64_t row = 0; row < op->rows; row += PIECE) {
        const int64_t rows = least(op->rows - row, PIECE);
        WITH_TYPE(op->type, (piece_back<T>(device, op, row, rows)));
    }
    cuda_launched(device, "assemble back");
}
