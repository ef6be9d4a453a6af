// loss - losses of rows with their gradients, and scores.
//
// Sums run in row order, in double; exponentials and logarithms are our own (elementary.h). A gradient is
// computed in double, made a float, then rounded to its type.
#include "kernel.h"

#include <fedgate/fault.h>
#include <math.h>

#include "cpu_internal.h"
#include "elementary.h"
#include "half.h"

typedef struct Slope {   // where the gradient of a row goes
    FedgateType type;
    void *gradient;   // NULL: not wanted
    int64_t first;
    double scale;
} Slope;

static void slope_put(const Slope *slope, int64_t k, double value)
{
    if (slope->gradient)
        half_put(slope->type, slope->gradient, slope->first + k, (float)(value * slope->scale));
}

static double binary_row(const float *logit, float target, const Slope *slope)
{
    double z = (double)logit[0], y = (double)target, e = elementary_exp(z < 0 ? z : -z);
    slope_put(slope, 0, elementary_sigmoid(z) - y);
    return (z < 0 ? 0 : z) - z * y + elementary_log(1 + e);
}

static double square_row(const float *value, float target, const Slope *slope)
{
    double difference = (double)value[0] - (double)target;
    slope_put(slope, 0, 2 * difference);
    return difference * difference;
}

static double largest(const float *logits, int64_t outputs)
{
    double top = (double)logits[0];
    for (int64_t k = 1; k < outputs; k++)
        top = (double)logits[k] > top ? (double)logits[k] : top;
    return top;
}

static double classes_row(const float *logits, int64_t outputs, float target, const Slope *slope)
{
    double top = largest(logits, outputs), sum = 0;
    for (int64_t k = 0; k < outputs; k++)
        sum += elementary_exp((double)logits[k] - top);
    int64_t label = target >= 0 && target < (float)outputs ? (int64_t)target : -1;
    for (int64_t k = 0; k < outputs && slope->gradient; k++)
        slope_put(slope, k, elementary_exp((double)logits[k] - top) / sum - (k == label));
    return label < 0 ? (double)NAN : elementary_log(sum) + top - (double)logits[label];
}

static double row_loss(const FedgateLoss *op, int64_t i, const Slope *slope)
{
    const float *logits = op->logits + i * op->outputs;
    switch (op->kind) {
    case FEDGATE_LOSS_BINARY:
        return binary_row(logits, op->target[i], slope);
    case FEDGATE_LOSS_CLASSES:
        return classes_row(logits, op->outputs, op->target[i], slope);
    case FEDGATE_LOSS_SQUARE:
        return square_row(logits, op->target[i], slope);
    }
    return (double)NAN;
}

// The planted fault: what a sum of losses in the type of the passes would be.
static double sum_in_bf16(const FedgateLoss *op, Slope slope)
{
    float sum = half_from_bf16(half_to_bf16((float)*op->loss));
    for (int64_t i = 0; i < op->rows; i++, slope.first += op->outputs)
        sum = half_from_bf16(half_to_bf16(sum + (float)row_loss(op, i, &slope)));
    return (double)sum;
}

void cpu_loss(void *handle, const FedgateLoss *op)
{
    int64_t begin = cpu_now(handle);
    Slope slope = {.type = op->gradient_type,
                   .gradient = op->gradient,
                   .scale = (double)op->scale * (op->state ? op->state->scale : 1)};
    if (fault_set("compute.metric_bf16")) {
        *op->loss = sum_in_bf16(op, slope);
    } else {
        double sum = 0;
        for (int64_t i = 0; i < op->rows; i++, slope.first += op->outputs)
            sum += row_loss(op, i, &slope);
        *op->loss += sum;
    }
    cpu_span(handle, "loss", begin);
}

static void class_scores(const float *logits, int64_t outputs, double *score)
{
    double top = largest(logits, outputs), sum = 0;
    for (int64_t k = 0; k < outputs; k++)
        sum += score[k] = elementary_exp((double)logits[k] - top);
    for (int64_t k = 0; k < outputs; k++)
        score[k] /= sum;
}

void cpu_score(void *handle, const FedgateScore *op)
{
    int64_t begin = cpu_now(handle);
    for (int64_t i = 0; i < op->rows; i++) {
        const float *logits = op->logits + i * op->outputs;
        switch (op->kind) {
        case FEDGATE_LOSS_BINARY:
            op->score[i] = elementary_sigmoid((double)logits[0]);
            break;
        case FEDGATE_LOSS_CLASSES:
            class_scores(logits, op->outputs, op->score + i * op->outputs);
            break;
        case FEDGATE_LOSS_SQUARE:
            op->score[i] = (double)logits[0];
            break;
        }
    }
    cpu_span(handle, "score", begin);
}
