// element - the operations element by element: assembling inputs, dropout, norm, AdamW.
//
// Sums run in row order or in fixed lanes. 2-byte elements are widened a run at a time and rounded at the
// store.
#include "kernel.h"

#include <fedgate/random.h>
#include <math.h>
#include <string.h>

#include "cpu_internal.h"
#include "half.h"
#include "settle.h"

enum { LANES = 16, RUN = 512, STRIP = 4096 };   // elements at a time, while in cache

static int64_t nonfinite(const float *x, int64_t count)
{
    int64_t bad = 0;
    for (int64_t i = 0; i < count; i++)
        bad += !isfinite(x[i]);
    return bad;
}

void cpu_count_nonfinite(void *handle, const float *x, int64_t count, int64_t *total)
{
    int64_t begin = cpu_now(handle);
    *total += nonfinite(x, count);
    cpu_span(handle, "count nonfinite", begin);
}

void cpu_gather(void *handle, const FedgateGather *op)
{
    int64_t begin = cpu_now(handle), numeric = op->numeric_count, codes = op->code_count;
    for (int64_t i = 0; i < op->rows; i++) {
        const int64_t from = op->index[i];
        for (int64_t j = 0; j < numeric; j++)
            op->numeric[i * numeric + j] = op->from_numeric[from * numeric + j];
        for (int64_t j = 0; j < codes; j++)
            op->codes[i * codes + j] = op->from_codes[from * codes + j];
        op->target[i] = op->from_target[from];
    }
    cpu_span(handle, "gather", begin);
}

void cpu_assemble(void *handle, const FedgateAssemble *op)
{
    int64_t begin = cpu_now(handle), bytes = fedgate_type_bytes(op->type);
    for (int64_t i = 0; i < op->rows; i++) {
        char *row = (char *)op->x + i * op->width * bytes;
        half_narrow(op->type, op->numeric + i * op->numeric_count, op->numeric_count, row);
        for (int64_t c = 0; c < op->embedding_count; c++) {
            const FedgateEmbedding *e = &op->embeddings[c];
            int64_t code = op->codes[i * op->embedding_count + c];
            memcpy(row + e->column * bytes, half_at(op->type, op->tables, e->offset + code * e->width),
                   (size_t)(e->width * bytes));
        }
    }
    if (op->nonfinite)
        *op->nonfinite += nonfinite(op->numeric, op->rows * op->numeric_count);
    cpu_span(handle, "assemble", begin);
}

void cpu_assemble_back(void *handle, const FedgateAssemble *op)
{
    int64_t begin = cpu_now(handle);
    for (int64_t c = 0; c < op->embedding_count && !op->accumulate; c++) {
        const FedgateEmbedding *e = &op->embeddings[c];
        memset(op->gradient + e->offset, 0, (size_t)(e->width * e->cardinality) * sizeof *op->gradient);
    }
    for (int64_t i = 0; i < op->rows; i++)
        for (int64_t c = 0; c < op->embedding_count; c++) {
            const FedgateEmbedding *e = &op->embeddings[c];
            float *vector = op->gradient + e->offset + op->codes[i * op->embedding_count + c] * e->width;
            int64_t first = i * op->width + e->column;
            for (int64_t j = 0; j < e->width; j++)
                vector[j] += half_get(op->type, op->x, first + j);
        }
    cpu_span(handle, "assemble back", begin);
}

static inline uint32_t mix(uint32_t h)
{
    h = (h ^ (h >> 16)) * 0x7feb352du;
    h = (h ^ (h >> 15)) * 0x846ca68bu;
    return h ^ (h >> 16);
}

KERNEL void drop_run(float *x, int64_t first, int64_t count, uint32_t seed, uint32_t limit, float scale)
{
    for (int64_t j = 0; j < count; j++) {
        uint32_t bits = mix(mix((uint32_t)(first + j) + seed) ^ seed) >> 8;
        x[j] = bits < limit ? x[j] * scale : 0;
    }
}

static void drop_row(const FedgateDropout *op, int64_t i, uint32_t seed, uint32_t limit)
{
    char *row = (char *)op->x + i * op->width * fedgate_type_bytes(op->type);
    if (op->type == FEDGATE_FP32) {
        drop_run((float *)op->x + i * op->width, 0, op->width, seed, limit, 1 / op->keep);
        return;
    }
    float run[RUN];
    for (int64_t first = 0; first < op->width; first += RUN) {
        int64_t count = op->width - first < RUN ? op->width - first : RUN;
        void *at = row + first * fedgate_type_bytes(op->type);
        half_widen(op->type, at, count, run);
        drop_run(run, first, count, seed, limit, 1 / op->keep);
        half_narrow(op->type, run, count, at);
    }
}

void cpu_dropout(void *handle, const FedgateDropout *op)
{
    int64_t begin = cpu_now(handle);
    uint32_t limit = (uint32_t)(op->keep * 16777216.0f);
    uint64_t key = op->state ? random_bits(op->key, (uint64_t)op->state->attempted) + op->layer : op->key;
    for (int64_t i = 0; i < op->rows; i++) {
        uint64_t row = (op->row + (uint64_t)i) * 0x9e3779b97f4a7c15u + key;
        drop_row(op, i, mix((uint32_t)row) ^ (uint32_t)(row >> 32), limit);
    }
    cpu_span(handle, "dropout", begin);
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
                       int64_t count, float decay, const FedgateAdam *op, const FedgatePace *pace,
                       float scale)
{
    const float rate = pace->rate, beta1 = op->beta1, beta2 = op->beta2, rest1 = 1 - beta1, rest2 = 1 - beta2,
                epsilon = op->epsilon;
    const float correction1 = pace->correction1, correction2 = pace->correction2, shrink = rate * decay;
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
    int64_t last = op->pace_count - 1, row = op->state->pace < last ? op->state->pace : last;
    float scale = (float)op->state->factor;
    for (int64_t i = 0, count; i < op->count && op->state->apply; i += count) {
        int64_t end = i < op->decayed ? op->decayed : op->count;   // a strip decays or does not
        count = end - i < STRIP ? end - i : STRIP;
        adam_range(op->weights + i, op->gradient + i, op->first + i, op->second + i, count,
                   i < op->decayed ? op->decay : 0, op, &op->pace[row], scale);
        if (op->pass && op->pass != op->weights)
            half_narrow(op->pass_type, op->weights + i, count,
                        (char *)op->pass + i * fedgate_type_bytes(op->pass_type));
    }
    cpu_span(handle, "adam", begin);
}

void cpu_settle(void *handle, const FedgateSettle *op)
{
    int64_t begin = cpu_now(handle);
    if (op->gradient)
        *op->square_sum = sum_squares(op->gradient, op->gradient_count);
    if (op->ended_ns)
        op->ended_ns[op->state->attempted % op->ended_count] = begin;
    settle_step(op);
    cpu_span(handle, "settle", begin);
}
