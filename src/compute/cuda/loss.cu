// loss.cu - losses of rows with their gradients, and scores.
//
// Row by row in double from FP32 logits; a gradient is computed in double, made a float, then rounded to its
// type. exp and log are the toolkit's, so the last bits differ from the cpu back end's.
#include "cuda_element.h"

static __device__ double sigmoid(double z)
{
    double e = exp(z < 0 ? z : -z);
    return z < 0 ? e / (1 + e) : 1 / (1 + e);
}

static __device__ double largest(const float *logits, int64_t outputs)
{
    double top = (double)logits[0];
    for (int64_t k = 1; k < outputs; k++)
        top = (double)logits[k] > top ? (double)logits[k] : top;
    return top;
}

template <typename T>
static __device__ double classes_row(const float *logits, float target, T *gradient, int64_t outputs,
                                     double scale)
{
    double top = largest(logits, outputs), sum = 0;
    for (int64_t k = 0; k < outputs; k++)
        sum += exp((double)logits[k] - top);
    int64_t label = target >= 0 && target < (float)outputs ? (int64_t)target : -1;
    for (int64_t k = 0; k < outputs && gradient; k++)
        store_element(gradient + k, (float)((exp((double)logits[k] - top) / sum - (k == label)) * scale));
    return label < 0 ? nan("") : log(sum) + top - (double)logits[label];
}

template <typename T>
static __device__ double row_loss(FedgateLossKind kind, const float *logits, float target, T *gradient,
                                  int64_t outputs, double scale)
{
    double z = (double)logits[0], y = (double)target;
    switch (kind) {
    case FEDGATE_LOSS_BINARY:
        if (gradient)
            store_element(gradient, (float)((sigmoid(z) - y) * scale));
        return (z < 0 ? 0 : z) - z * y + log(1 + exp(z < 0 ? z : -z));
    case FEDGATE_LOSS_SQUARE:
        if (gradient)
            store_element(gradient, (float)(2 * (z - y) * scale));
        return (z - y) * (z - y);
    case FEDGATE_LOSS_CLASSES:
        return classes_row(logits, target, gradient, outputs, scale);
    }
    return nan("");
}

template <typename T> static __device__ double take_row(const FedgateLoss &op, int64_t i, double scale)
{
    return row_loss(op.kind, op.logits + i * op.outputs, op.target[i],
                    op.gradient ? (T *)op.gradient + i * op.outputs : (T *)0, op.outputs, scale);
}

static __device__ double scale_of(const FedgateLoss &op)
{
    return op.state ? (double)op.scale * op.state->scale : (double)op.scale;
}

template <typename T> __global__ void losses(FedgateLoss op, double *partial, unsigned *counter)
{
    begin_kernel();
    double sum = 0, scale = scale_of(op);
    EACH(i, op.rows)
    sum += take_row<T>(op, i, scale);
    if (grid_sum(sum, partial, counter, &sum))
        *op.loss += sum;
}

// Planted: the sum is kept in BF16, row after row.
template <typename T> __global__ void losses_in_bf16(FedgateLoss op)
{
    begin_kernel();
    __shared__ double row[CUDA_BLOCK];
    const double scale = scale_of(op);
    float sum = __bfloat162float(__float2bfloat16_rn((float)*op.loss));
    for (int64_t first = 0; first < op.rows; first += CUDA_BLOCK) {
        const int64_t left = op.rows - first;
        row[threadIdx.x] = threadIdx.x < left ? take_row<T>(op, first + threadIdx.x, scale) : 0;
        __syncthreads();
        for (int k = 0; k < CUDA_BLOCK && k < left && threadIdx.x == 0; k++)
            sum = __bfloat162float(__float2bfloat16_rn(sum + (float)row[k]));
        __syncthreads();
    }
    if (threadIdx.x == 0)
        *op.loss = (double)sum;
}

void cuda_loss(void *handle, const FedgateLoss *op)
{
    CudaDevice *device = (CudaDevice *)handle;
    if (cuda_fault(device, "compute.metric_bf16", 0) > 0)
        WITH_TYPE(op->gradient_type, (start(device, losses_in_bf16<T>, 1, CUDA_BLOCK, *op)));
    else
        WITH_TYPE(op->gradient_type, (start(device, losses<T>, reduction_grid(op->rows, CUDA_BLOCK),
                                            CUDA_BLOCK, *op, (double *)device->scratch, device->counters)));
    cuda_launched(device, "loss");
}

__global__ void scores(FedgateLossKind kind, const float *logits, double *score, int64_t rows,
                       int64_t outputs)
{
    begin_kernel();
    EACH(i, rows)
    {
        const float *row = logits + i * outputs;
        if (kind == FEDGATE_LOSS_BINARY)
            score[i] = sigmoid((double)row[0]);
        else if (kind == FEDGATE_LOSS_SQUARE)
            score[i] = (double)row[0];
        else {
            double top = largest(row, outputs), sum = 0;
            for (int64_t k = 0; k < outputs; k++)
                sum += score[i * outputs + k] = exp((double)row[k] - top);
            for (int64_t k = 0; k < outputs; k++)
                score[i * outputs + k] /= sum;
        }
    }
}

void cuda_score(void *handle, const FedgateScore *op)
{
    CudaDevice *device = (CudaDevice *)handle;
    start(device, scores, cuda_grid(device, op->rows), CUDA_BLOCK, op->kind, op->logits, op->score, op->rows,
          op->outputs);
    cuda_launched(device, "score");
}
