// element.cu - the operations element by element: dropout, norm, the step's decision, AdamW, casts.
//
// Every element is written by one thread and every sum has one order. Compiled without fused multiply-add, so
// that these are the same roundings as the cpu back end's: its bits, but for the order of long sums.
#include "cuda_element.h"

#include "settle.h"

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
    begin_kernel();
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
    WITH_TYPE(op->type,
              (start(device, drop<T>, cuda_grid(device, op->rows * op->width), CUDA_BLOCK, (T *)op->x,
                     op->rows, op->width, op->key, op->layer, op->state, op->row, limit, 1 / op->keep)));
    cuda_launched(device, "dropout");
}

// -- the step

enum {
    SQUARES_THREAD = 8,   // elements a thread has at a time, a block's width apart
    SQUARES_STRIP = CUDA_BLOCK * SQUARES_THREAD,
    ADAM_STRIP = CUDA_BLOCK * 4
};

static __device__ int64_t device_clock()
{
    uint64_t ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return (int64_t)ns;
}

// hang_from: planted, the step from which on a decision never ends; below 0: none.
static __device__ void decide(const FedgateSettle &op, int64_t hang_from)
{
    while (hang_from >= 0 && op.state->attempted >= hang_from)
        asm volatile("nanosleep.u32 1000;");
    FedgateStepState state = *op.state;   // read at once, written at once
    double square_sum = *op.square_sum;
    FedgateSettle here = op;
    here.state = &state;
    here.square_sum = &square_sum;
    if (op.ended_ns)
        op.ended_ns[state.attempted % op.ended_count] = device_clock();
    settle_step(&here);
    *op.state = state;
}

// *to = sum of squares; then the decision on the step, when op has a state.
__global__ void squares(const float *x, int64_t count, double *to, double *partial, unsigned *counter,
                        FedgateSettle op, int64_t hang_from)
{
    begin_kernel();
    double sum = 0;
    for (int64_t begin = (int64_t)blockIdx.x * SQUARES_STRIP; begin < count;
         begin += (int64_t)gridDim.x * SQUARES_STRIP) {
        float value[SQUARES_THREAD];
#pragma unroll
        for (int k = 0; k < SQUARES_THREAD; k++) {
            const int64_t i = begin + k * CUDA_BLOCK + threadIdx.x;
            value[k] = i < count ? x[i] : 0;
        }
#pragma unroll
        for (int k = 0; k < SQUARES_THREAD; k++)
            sum += (double)value[k] * (double)value[k];
    }
    if (!grid_sum(sum, partial, counter, &sum))
        return;
    *to = sum;
    if (op.state)
        decide(op, hang_from);
}

static void launch_squares(CudaDevice *device, const float *x, int64_t count, double *to,
                           const FedgateSettle &op, int64_t hang_from)
{
    start(device, squares, reduction_grid(count, SQUARES_STRIP), CUDA_BLOCK, x, count, to,
          (double *)device->scratch, device->counters, op, hang_from);
}

void cuda_square_sum(void *handle, const float *x, int64_t count, double *ret_sum)
{
    CudaDevice *device = (CudaDevice *)handle;
    launch_squares(device, x, count, ret_sum, FedgateSettle{}, -1);
    cuda_launched(device, "square sum");
}

__global__ void decide_alone(FedgateSettle op, int64_t hang_from)
{
    begin_kernel();
    decide(op, hang_from);
}

void cuda_settle(void *handle, const FedgateSettle *op)
{
    CudaDevice *device = (CudaDevice *)handle;
    const int64_t hang_from = (int64_t)cuda_fault(device, "compute.hang_step", -1);
    if (op->gradient)
        launch_squares(device, op->gradient, op->gradient_count, op->square_sum, *op, hang_from);
    else
        start(device, decide_alone, 1, 1, *op, hang_from);
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

// Four floats a lane of the 128 from `base` on. Where they do not lie for that, or end before, lanes read
// side by side and change places through the warp's memory.
typedef struct Fours {
    float *line;   // the warp's: 128 floats
    int64_t base, count;
    int lane;
} Fours;

static __device__ inline bool at_once(const Fours &f, const void *array)
{
    return (uintptr_t)array % sizeof(float4) == 0 && f.base + 4 * CUDA_WARP <= f.count;
}

static __device__ inline float4 load_fours(const Fours &f, const float *array)
{
    if (at_once(f, array))
        return ((const float4 *)(array + f.base))[f.lane];
#pragma unroll
    for (int i = f.lane; i < 4 * CUDA_WARP; i += CUDA_WARP)
        f.line[i] = f.base + i < f.count ? array[f.base + i] : 0;
    __syncwarp();
    const float4 four = ((const float4 *)f.line)[f.lane];
    __syncwarp();
    return four;
}

static __device__ inline void store_fours(const Fours &f, float *array, float4 four)
{
    if (at_once(f, array)) {
        ((float4 *)(array + f.base))[f.lane] = four;
        return;
    }
    ((float4 *)f.line)[f.lane] = four;
    __syncwarp();
#pragma unroll
    for (int i = f.lane; i < 4 * CUDA_WARP; i += CUDA_WARP)
        if (f.base + i < f.count)
            array[f.base + i] = f.line[i];
    __syncwarp();
}

template <typename T> struct alignas(4 * sizeof(T)) Four {
    T at[4];
};

template <typename T> static __device__ inline void store_pass(const Fours &f, T *pass, float4 w)
{
    const int64_t at = f.base + 4 * f.lane;
    Four<T> four;
    store_element(&four.at[0], w.x), store_element(&four.at[1], w.y);
    store_element(&four.at[2], w.z), store_element(&four.at[3], w.w);
    if ((uintptr_t)pass % sizeof four == 0 && at + 4 <= f.count) {
        *(Four<T> *)(pass + at) = four;
        return;
    }
#pragma unroll
    for (int k = 0; k < 4; k++)
        if (at + k < f.count)
            pass[at + k] = four.at[k];
}

template <typename T> __global__ void __launch_bounds__(CUDA_BLOCK) adam(FedgateAdam op)
{
    __shared__ __align__(16) float lines[CUDA_BLOCK * 4];
    begin_kernel();
    const bool apply = op.state->apply;
    const AdamStep step = adam_step(op);
    Fours f = {lines + threadIdx.x / CUDA_WARP * CUDA_WARP * 4, 0, op.count, (int)threadIdx.x % CUDA_WARP};
    for (int64_t begin = (int64_t)blockIdx.x * ADAM_STRIP; begin < op.count;
         begin += (int64_t)gridDim.x * ADAM_STRIP) {
        f.base = begin + threadIdx.x / CUDA_WARP * CUDA_WARP * 4;
        const int64_t i = f.base + 4 * f.lane;
        const float4 g = load_fours(f, op.gradient);
        float4 w = load_fours(f, op.weights), first = load_fours(f, op.first),
               second = load_fours(f, op.second);
        if (!apply)   // asked for beside the rest, not before it
            return;
        w.x = adam_weight(op, step, i, g.x, &first.x, &second.x, w.x);
        w.y = adam_weight(op, step, i + 1, g.y, &first.y, &second.y, w.y);
        w.z = adam_weight(op, step, i + 2, g.z, &first.z, &second.z, w.z);
        w.w = adam_weight(op, step, i + 3, g.w, &first.w, &second.w, w.w);
        store_fours(f, op.first, first);
        store_fours(f, op.second, second);
        store_fours(f, op.weights, w);
        if (op.pass)
            store_pass(f, (T *)op.pass, w);
    }
}

void cuda_adam(void *handle, const FedgateAdam *op)
{
    CudaDevice *device = (CudaDevice *)handle;
    const unsigned blocks = cuda_grid(device, (op->count + 3) / 4);
    WITH_TYPE(op->pass_type, (start(device, adam<T>, blocks, CUDA_BLOCK, *op)));
    cuda_launched(device, "adam");
}

// -- casts

template <typename To, typename From> __global__ void cast(To *to, const From *from, int64_t count)
{
    begin_kernel();
    EACH(i, count)
    store_element(to + i, load_element(from + i));
}

template <typename From> static void cast_from(CudaDevice *device, const FedgateCast *op)
{
    WITH_TYPE(op->to_type, (start(device, cast<T, From>, cuda_grid(device, op->count), CUDA_BLOCK,
                                  (T *)op->to, (const From *)op->from, op->count)));
}

void cuda_cast(void *handle, const FedgateCast *op)
{
    CudaDevice *device = (CudaDevice *)handle;
    WITH_TYPE(op->from_type, (cast_from<T>(device, op)));
    cuda_launched(device, "cast");
}
