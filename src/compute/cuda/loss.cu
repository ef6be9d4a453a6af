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

template <typename T>
__global__ void losses(FedgateLossKind kind, const float *logits, const float *target, T *gradient,
                       int64_t rows, int64_t outputs, double scale, const FedgateStepState *state,
                       double *partial)
{
    double sum = 0, scaled = state ? scale * state->scale : scale;
    EACH(i, rows)
    sum += row_loss(kind, logits + i * outputs, target[i], gradient ? gradient + i * outputs : (T *)0,
                    outputs, scaled);
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        partial[blockIdx.x] = sum;
}

void cuda_loss(void *handle, const FedgateLoss *op)
{
    CudaDevice *device = (CudaDevice *)handle;
    double *partial = (double *)device->scratch;
    unsigned blocks = reduction_grid(op->rows);
    WITH_TYPE(op->gradient_type, (losses<<<blocks, CUDA_BLOCK, 0, device->compute>>>(
                                     op->kind, op->logits, op->target, (T *)op->gradient, op->rows,
                                     op->outputs, (double)op->scale, op->state, partial)));
    add_partials<<<1, CUDA_BLOCK, 0, device->compute>>>(partial, (int)blocks, op->loss, true);
    cuda_launched(device, "loss");
}

__global__ void scores(FedgateLossKind kind, const float *logits, double *score, int64_t rows,
                       int64_t outputs)
{
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
    scores<<<cuda_grid(device, op->rows), CUDA_BLOCK, 0, device->compute>>>(op->kind, op->logits, op->score,
                                                                            op->rows, op->outputs);
    cuda_launched(device, "score");
}
