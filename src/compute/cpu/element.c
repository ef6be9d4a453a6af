// element - the operations that are not multiplications: assembling inputs, dropout, losses, scores, norm,
// AdamW.
//
// Sums run in row order or in fixed lanes; exponentials and logarithms are our own (elementary.h).
#include "kernel.h"

#include <math.h>
#include <string.h>

#include "cpu_internal.h"
#include "elementary.h"

enum { LANES = 16 };

void cpu_assemble(void *handle, const FedgateAssemble *op)
{
    int64_t begin = cpu_now(handle);
    for (int64_t i = 0; i < op->rows; i++) {
        float *row = op->x + i * op->width;
        memcpy(row, op->numeric + i * op->numeric_count, (size_t)op->numeric_count * sizeof *row);
        for (int64_t c = 0; c < op->embedding_count; c++) {
            const FedgateEmbedding *e = &op->embeddings[c];
            const float *vector = op->tables + e->offset + op->codes[i * op->embedding_count + c] * e->width;
            for (int64_t j = 0; j < e->width; j++)
                row[e->column + j] = vector[j];
        }
    }
    cpu_span(handle, "assemble", begin);
}

void cpu_assemble_back(void *handle, const FedgateAssemble *op)
{
    int64_t begin = cpu_now(handle);
    for (int64_t c = 0; c < op->embedding_count && !op->accumulate; c++) {
        const FedgateEmbedding *e = &op->embeddings[c];
        memset(op->tables + e->offset, 0, (size_t)(e->width * e->cardinality) * sizeof *op->tables);
    }
    for (int64_t i = 0; i < op->rows; i++)
        for (int64_t c = 0; c < op->embedding_count; c++) {
            const FedgateEmbedding *e = &op->embeddings[c];
            float *vector = op->tables + e->offset + op->codes[i * op->embedding_count + c] * e->width;
            const float *gradient = op->x + i * op->width + e->column;
            for (int64_t j = 0; j < e->width; j++)
                vector[j] += gradient[j];
        }
    cpu_span(handle, "assemble back", begin);
}

static inline uint32_t mix(uint32_t h)
{
    h = (h ^ (h >> 16)) * 0x7feb352du;
    h = (h ^ (h >> 15)) * 0x846ca68bu;
    return h ^ (h >> 16);
}

KERNEL void drop_row(float *restrict x, int64_t width, uint32_t seed, uint32_t limit, float scale)
{
    for (int64_t j = 0; j < width; j++) {
        uint32_t bits = mix(mix((uint32_t)j + seed) ^ seed) >> 8;
        x[j] = bits < limit ? x[j] * scale : 0;
    }
}

void cpu_dropout(void *handle, const FedgateDropout *op)
{
    int64_t begin = cpu_now(handle);
    uint32_t limit = (uint32_t)(op->keep * 16777216.0f);
    for (int64_t i = 0; i < op->rows; i++) {
        uint64_t row = (op->row + (uint64_t)i) * 0x9e3779b97f4a7c15u + op->key;
        drop_row(op->x + i * op->width, op->width, mix((uint32_t)row) ^ (uint32_t)(row >> 32), limit,
                 1 / op->keep);
    }
    cpu_span(handle, "dropout", begin);
}

static double binary_row(const float *logit, float target, float *gradient, double scale)
{
    double z = (double)logit[0], y = (double)target, e = elementary_exp(z < 0 ? z : -z);
    if (gradient)
        gradient[0] = (float)((elementary_sigmoid(z) - y) * scale);
    return (z < 0 ? 0 : z) - z * y + elementary_log(1 + e);
}

static double square_row(const float *value, float target, float *gradient, double scale)
{
    double difference = (double)value[0] - (double)target;
    if (gradient)
        gradient[0] = (float)(2 * difference * scale);
    return difference * difference;
}

static double largest(const float *logits, int64_t outputs)
{
    double top = (double)logits[0];
    for (int64_t k = 1; k < outputs; k++)
        top = (double)logits[k] > top ? (double)logits[k] : top;
    return top;
}

static double classes_row(const float *logits, int64_t outputs, float target, float *gradient, double scale)
{
    double top = largest(logits, outputs), sum = 0;
    for (int64_t k = 0; k < outputs; k++)
        sum += elementary_exp((double)logits[k] - top);
    int64_t label = target >= 0 && target < (float)outputs ? (int64_t)target : -1;
    for (int64_t k = 0; k < outputs && gradient; k++)
        gradient[k] = (float)((elementary_exp((double)logits[k] - top) / sum - (k == label)) * scale);
    return label < 0 ? (double)NAN : elementary_log(sum) + top - (double)logits[label];
}

void cpu_loss(void *handle, const FedgateLoss *op)
{
    int64_t begin = cpu_now(handle);
    double sum = 0, scale = (double)op->scale;
    for (int64_t i = 0; i < op->rows; i++) {
        const float *logits = op->logits + i * op->outputs;
        float *gradient = op->gradient ? op->gradient + i * op->outputs : NULL;
        switch (op->kind) {
        case FEDGATE_LOSS_BINARY:
            sum += binary_row(logits, op->target[i], gradient, scale);
            break;
        case FEDGATE_LOSS_CLASSES:
            sum += classes_row(logits, op->outputs, op->target[i], gradient, scale);
            break;
        case FEDGATE_LOSS_SQUARE:
            sum += square_row(logits, op->target[i], gradient, scale);
            break;
        }
    }
    *op->loss += sum;
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

KERNEL double sum_squares(const float *restrict x, int64_t count)
{
    double lane[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] += (double)x[i + l] * (double)x[i + l];
    for (; i < count; i++)
        sum += (double)x[i] * (double)x[i];
    for (int l = 0; l < LANES; l++)
        sum += lane[l];
    return sum;
}

void cpu_square_sum(void *handle, const float *x, int64_t count, double *ret_sum)
{
    int64_t begin = cpu_now(handle);
    *ret_sum = sum_squares(x, count);
    cpu_span(handle, "square sum", begin);
}

KERNEL void adam_range(float *restrict w, const float *restrict g, float *restrict m, float *restrict v,
                       int64_t count, const FedgateAdam *op, float scale)
{
    const float rate = op->rate, beta1 = op->beta1, beta2 = op->beta2, rest1 = 1 - beta1, rest2 = 1 - beta2,
                epsilon = op->epsilon;
    const float correction1 = op->correction1, correction2 = op->correction2, shrink = op->rate * op->decay;
    for (int64_t i = 0; i < count; i++) {
        float gradient = g[i] * scale;
        float first = beta1 * m[i] + rest1 * gradient, second = beta2 * v[i] + rest2 * (gradient * gradient);
        m[i] = first;
        v[i] = second;
        w[i] = w[i] - shrink * w[i] - rate * (first * correction1) / (sqrtf(second * correction2) + epsilon);
    }
}

void cpu_adam(void *handle, const FedgateAdam *op)
{
    int64_t begin = cpu_now(handle);
    double norm = op->clip > 0 ? sqrt(*op->square_sum) : 0;
    float scale = norm > (double)op->clip ? (float)((double)op->clip / norm) : 1;
    adam_range(op->weights, op->gradient, op->first, op->second, op->count, op, scale);
    cpu_span(handle, "adam", begin);
}
