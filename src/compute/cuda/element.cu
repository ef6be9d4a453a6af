// element.cu - the operations element by element: assembling inputs, dropout, norm, the step's decision,
// AdamW, casts.
//
// Every element is written by one thread and every sum has one order. Compiled without fused multiply-add, so
// that these are the same roundings as the cpu back end's: its bits, but for the order of long sums.
#include "cuda_element.h"

#include "settle.h"

// -- inputs

template <typename T>
__global__ void assemble_numeric(T *x, int64_t rows, int64_t width, const float *numeric, int64_t columns)
{
    EACH(i, rows * columns)
    {
        int64_t row = row_of(i, columns);
        store_element(x + row * width + (i - row * columns), numeric[i]);
    }
}

template <typename T>
__global__ void assemble_embedding(T *x, int64_t rows, int64_t width, const int32_t *codes, int64_t features,
                                   int64_t feature, const T *table, FedgateEmbedding e)
{
    EACH(i, rows * e.width)
    {
        int64_t row = row_of(i, e.width), j = i - row * e.width;
        x[row * width + e.column + j] = table[codes[row * features + feature] * e.width + j];
    }
}

__global__ void nonfinite(const float *x, int64_t count, int64_t *total)
{
    unsigned long long bad = 0;
    EACH(i, count)
    bad += !isfinite(x[i]);
    bad = (unsigned long long)block_sum((double)bad);
    if (threadIdx.x == 0 && bad > 0)
        atomicAdd((unsigned long long *)total, bad);   // of whole numbers: any order is the same
}

void cuda_count_nonfinite(void *handle, const float *x, int64_t count, int64_t *total)
{
    CudaDevice *device = (CudaDevice *)handle;
    nonfinite<<<cuda_grid(device, count), CUDA_BLOCK, 0, device->compute>>>(x, count, total);
    cuda_launched(device, "count nonfinite");
}

__global__ void gather(FedgateGather op)
{
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
    gather<<<cuda_grid(device, op->rows * width), CUDA_BLOCK, 0, device->compute>>>(*op);
    cuda_launched(device, "gather");
}

void cuda_assemble(void *handle, const FedgateAssemble *op)
{
    CudaDevice *device = (CudaDevice *)handle;
    WITH_TYPE(op->type, {
        if (op->numeric_count > 0)
            assemble_numeric<<<cuda_grid(device, op->rows * op->numeric_count), CUDA_BLOCK, 0,
                               device->compute>>>((T *)op->x, op->rows, op->width, op->numeric,
                                                  op->numeric_count);
        for (int64_t c = 0; c < op->embedding_count; c++) {
            FedgateEmbedding e = op->embeddings[c];
            assemble_embedding<<<cuda_grid(device, op->rows * e.width), CUDA_BLOCK, 0, device->compute>>>(
                (T *)op->x, op->rows, op->width, op->codes, op->embedding_count, c,
                (const T *)op->tables + e.offset, e);
        }
    });
    cuda_launched(device, "assemble");
    if (op->nonfinite)
        cuda_count_nonfinite(device, op->numeric, op->rows * op->numeric_count, op->nonfinite);
}

// A block owns a code and walks all rows in their order, a tile of codes at a time: the order of the cpu back
// end. Every block reads every code, so a table of many categories wants the rows sorted by code first.
template <typename T>
__global__ void embedding_gradient(float *gradient, const T *dx, int64_t rows, int64_t width,
                                   const int32_t *codes, int64_t features, int64_t feature,
                                   FedgateEmbedding e, bool accumulate)
{
    __shared__ int found[CUDA_BLOCK];
    for (int64_t code = blockIdx.x; code < e.cardinality; code += gridDim.x) {
        for (int64_t j0 = 0; j0 < e.width; j0 += CUDA_BLOCK) {
            int64_t j = j0 + threadIdx.x;
            float sum = accumulate && j < e.width ? gradient[code * e.width + j] : 0;
            for (int64_t first = 0; first < rows; first += CUDA_BLOCK) {
                int64_t mine = first + threadIdx.x;
                found[threadIdx.x] = mine < rows && codes[mine * features + feature] == code;
                if (__syncthreads_or(found[threadIdx.x]))
                    for (int k = 0; k < CUDA_BLOCK && j < e.width; k++)
                        if (found[k])
                            sum += load_element(dx + (first + k) * width + e.column + j);
                __syncthreads();
            }
            if (j < e.width)
                gradient[code * e.width + j] = sum;
        }
    }
}

void cuda_assemble_back(void *handle, const FedgateAssemble *op)
{
    CudaDevice *device = (CudaDevice *)handle;
    WITH_TYPE(op->type, {
        for (int64_t c = 0; c < op->embedding_count; c++) {
            FedgateEmbedding e = op->embeddings[c];
            unsigned blocks = e.cardinality < 65535 ? (unsigned)e.cardinality : 65535u;
            embedding_gradient<<<blocks, CUDA_BLOCK, 0, device->compute>>>(
                op->gradient + e.offset, (const T *)op->x, op->rows, op->width, op->codes,
                op->embedding_count, c, e, op->accumulate);
        }
    });
    cuda_launched(device, "assemble back");
}

// -- dropout: the same bits of the same key and position as every back end

static __device__ inline uint32_t mix(uint32_t h)
{
    h = (h ^ (h >> 16)) * 0x7feb352du;
    h = (h ^ (h >> 15)) * 0x846ca68bu;
    return h ^ (h >> 16);
}

// random_bits and hash_mix of the host: the finaliser of splitmix64
static __device__ inline uint64_t mix_bits(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

template <typename T>
__global__ void drop(T *x, int64_t rows, int64_t width, uint64_t key, uint64_t layer,
                     const FedgateStepState *state, uint64_t first_row, uint32_t limit, float scale)
{
    if (state)
        key =
            mix_bits(mix_bits(key + 0x9e3779b97f4a7c15u) + (uint64_t)state->attempted * 0x9e3779b97f4a7c15u) +
            layer;
    EACH(i, rows * width)
    {
        int64_t row = row_of(i, width);
        uint64_t mixed = (first_row + (uint64_t)row) * 0x9e3779b97f4a7c15u + key;
        uint32_t seed = mix((uint32_t)mixed) ^ (uint32_t)(mixed >> 32);
        uint32_t bits = mix(mix((uint32_t)(i - row * width) + seed) ^ seed) >> 8;
        store_element(x + i, bits < limit ? load_element(x + i) * scale : 0);
    }
}

void cuda_dropout(void *handle, const FedgateDropout *op)
{
    CudaDevice *device = (CudaDevice *)handle;
    uint32_t limit = (uint32_t)(op->keep * 16777216.0f);
    WITH_TYPE(op->type, (drop<<<cuda_grid(device, op->rows * op->width), CUDA_BLOCK, 0, device->compute>>>(
                            (T *)op->x, op->rows, op->width, op->key, op->layer, op->state, op->row, limit,
                            1 / op->keep)));
    cuda_launched(device, "dropout");
}

// -- the step

__global__ void squares(const float *x, int64_t count, double *partial)
{
    double sum = 0;
    EACH(i, count)
    sum += (double)x[i] * (double)x[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        partial[blockIdx.x] = sum;
}

void cuda_square_sum(void *handle, const float *x, int64_t count, double *ret_sum)
{
    CudaDevice *device = (CudaDevice *)handle;
    double *partial = (double *)device->scratch;
    unsigned blocks = reduction_grid(count);
    squares<<<blocks, CUDA_BLOCK, 0, device->compute>>>(x, count, partial);
    add_partials<<<1, CUDA_BLOCK, 0, device->compute>>>(partial, (int)blocks, ret_sum, false);
    cuda_launched(device, "square sum");
}

static __device__ int64_t device_clock()
{
    uint64_t ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return (int64_t)ns;
}

__global__ void decide(FedgateSettle op)
{
    if (op.ended_ns)
        op.ended_ns[op.state->attempted % op.ended_count] = device_clock();
    settle_step(&op);
}

void cuda_settle(void *handle, const FedgateSettle *op)
{
    CudaDevice *device = (CudaDevice *)handle;
    if (op->gradient)
        cuda_square_sum(handle, op->gradient, op->gradient_count, op->square_sum);
    decide<<<1, 1, 0, device->compute>>>(*op);
    cuda_launched(device, "settle");
}

typedef struct AdamStep {   // what is the same for every weight
    float scale, rate, shrink, correction1, correction2;
} AdamStep;

static __device__ AdamStep adam_step(const FedgateAdam &op)
{
    const int64_t last = op.pace_count - 1;
    const FedgatePace pace = op.pace[op.state->pace < last ? op.state->pace : last];
    return AdamStep{(float)op.state->factor, pace.rate, pace.rate * op.decay, pace.correction1,
                    pace.correction2};
}

static __device__ float adam_weight(const FedgateAdam &op, const AdamStep &step, int64_t i, float given,
                                    float *first, float *second, float w)
{
    const float shrink = i < op.decayed ? step.shrink : 0;
    const float gradient = given * step.scale;
    *first = op.beta1 * *first + (1 - op.beta1) * gradient;
    *second = op.beta2 * *second + (1 - op.beta2) * (gradient * gradient);
    return w - shrink * w -
           step.rate * (*first * step.correction1) / (sqrtf(*second * step.correction2) + op.epsilon);
}

template <typename T> __global__ void adam(FedgateAdam op, int64_t begin)
{
    if (!op.state->apply)
        return;
    const AdamStep step = adam_step(op);
    EACH(k, op.count - begin)
    {
        const int64_t i = begin + k;
        float first = op.first[i], second = op.second[i];
        float w = adam_weight(op, step, i, op.gradient[i], &first, &second, op.weights[i]);
        op.first[i] = first;
        op.second[i] = second;
        op.weights[i] = w;
        if (op.pass)
            store_element((T *)op.pass + i, w);
    }
}

// Four elements from a place that may lie anywhere: the second moments begin where the first end.
template <typename T> struct alignas(4 * sizeof(T)) Four {
    T at[4];
};

template <typename T> static __device__ Four<T> load_four(const T *from)
{
    if ((uintptr_t)from % sizeof(Four<T>) == 0)
        return *(const Four<T> *)from;
    return Four<T>{{from[0], from[1], from[2], from[3]}};
}

template <typename T> static __device__ void store_four(T *to, const Four<T> &four)
{
    if ((uintptr_t)to % sizeof(Four<T>) == 0)
        *(Four<T> *)to = four;
    else
        for (int k = 0; k < 4; k++)
            to[k] = four.at[k];
}

template <typename T> __global__ void adam_fours(FedgateAdam op, int64_t fours)
{
    if (!op.state->apply)
        return;
    const AdamStep step = adam_step(op);
    EACH(i, fours)
    {
        const Four<float> gradient = load_four(op.gradient + 4 * i);
        Four<float> first = load_four(op.first + 4 * i), second = load_four(op.second + 4 * i),
                    w = load_four(op.weights + 4 * i);
        Four<T> pass;
        for (int k = 0; k < 4; k++) {
            w.at[k] = adam_weight(op, step, 4 * i + k, gradient.at[k], &first.at[k], &second.at[k], w.at[k]);
            store_element(&pass.at[k], w.at[k]);
        }
        store_four(op.first + 4 * i, first);
        store_four(op.second + 4 * i, second);
        store_four(op.weights + 4 * i, w);
        if (op.pass)
            store_four((T *)op.pass + 4 * i, pass);
    }
}

template <typename T> static void adam_launch(CudaDevice *device, const FedgateAdam *op)
{
    const int64_t fours = op->count / 4;
    if (fours > 0)
        adam_fours<T><<<cuda_grid(device, fours), CUDA_BLOCK, 0, device->compute>>>(*op, fours);
    if (4 * fours < op->count)
        adam<T><<<1, CUDA_BLOCK, 0, device->compute>>>(*op, 4 * fours);
}

void cuda_adam(void *handle, const FedgateAdam *op)
{
    CudaDevice *device = (CudaDevice *)handle;
    WITH_TYPE(op->pass_type, (adam_launch<T>(device, op)));
    cuda_launched(device, "adam");
}

// -- casts

template <typename To, typename From> __global__ void cast(To *to, const From *from, int64_t count)
{
    EACH(i, count)
    store_element(to + i, load_element(from + i));
}

template <typename From> static void cast_from(CudaDevice *device, const FedgateCast *op)
{
    WITH_TYPE(op->to_type, (cast<<<cuda_grid(device, op->count), CUDA_BLOCK, 0, device->compute>>>(
                               (T *)op->to, (const From *)op->from, op->count)));
}

void cuda_cast(void *handle, const FedgateCast *op)
{
    CudaDevice *device = (CudaDevice *)handle;
    WITH_TYPE(op->from_type, (cast_from<T>(device, op)));
    cuda_launched(device, "cast");
}
