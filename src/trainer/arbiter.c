// arbiter - the whole network in plain float64 on the host, forward and backward: what both arms are measured
// by.
//
// Written from the formulas and sharing no code with network.c or a back end, so that a mistake there is not
// repeated here. Dropout is left out. Slow on purpose: a few rows are enough to tell 1e-6 from 1e-3.
#include "parity_internal.h"

#include <math.h>
#include <stdlib.h>

typedef struct Arbiter {
    const Layout *layout;
    const TrainShape *shape;
    const float *weights;
    double *value[SHAPE_LAYERS + 2], *back[SHAPE_LAYERS + 2];   // inputs of each layer, then the logits
    double *gradient, *square;   // square: of each parameter, summed over rows
} Arbiter;

static int64_t width_of(const Arbiter *arbiter, size_t level)
{
    return level == 0 ? arbiter->layout->width : layer_out(arbiter->shape, level - 1);
}

double arbiter_loss(FedgateLossKind kind, const double *logits, int64_t outputs, double target,
                    double *ret_gradient)
{
    double z = logits[0], top = z, sum = 0;
    switch (kind) {
    case FEDGATE_LOSS_BINARY:
        ret_gradient[0] = 1 / (1 + exp(-z)) - target;
        return log1p(exp(-fabs(z))) + fmax(z, 0) - z * target;
    case FEDGATE_LOSS_SQUARE:
        ret_gradient[0] = 2 * (z - target);
        return (z - target) * (z - target);
    case FEDGATE_LOSS_CLASSES:
        break;
    }
    for (int64_t k = 1; k < outputs; k++)
        top = fmax(top, logits[k]);
    for (int64_t k = 0; k < outputs; k++)
        sum += exp(logits[k] - top);
    for (int64_t k = 0; k < outputs; k++)
        ret_gradient[k] = exp(logits[k] - top) / sum - (k == (int64_t)target);
    return log(sum) + top - logits[(int64_t)target];
}

static void read_row(const Arbiter *arbiter, const HostRows *rows, int64_t row)
{
    const TrainShape *shape = arbiter->shape;
    double *input = arbiter->value[0];
    for (int64_t i = 0; i < shape->numeric; i++)
        *input++ = (double)rows->numeric[row * shape->numeric + i];
    for (int64_t c = 0; c < shape->categorical; c++) {
        const float *vector = arbiter->weights + arbiter->layout->at[c].offset +
                              rows->codes[row * shape->categorical + c] * shape->embedding[c];
        for (int64_t j = 0; j < shape->embedding[c]; j++)
            *input++ = (double)vector[j];
    }
}

static void forward(const Arbiter *arbiter)
{
    for (size_t i = 0; i <= arbiter->shape->layers; i++) {
        int64_t in = width_of(arbiter, i), out = width_of(arbiter, i + 1);
        const float *w = arbiter->weights + arbiter->layout->at[layout_matrix(arbiter->shape, i)].offset,
                    *bias = arbiter->weights + arbiter->layout->at[layout_bias(arbiter->shape, i)].offset;
        double *y = arbiter->value[i + 1];
        for (int64_t j = 0; j < out; j++)
            y[j] = (double)bias[j];
        for (int64_t k = 0; k < in; k++, w += out)
            for (int64_t j = 0; j < out; j++)
                y[j] += arbiter->value[i][k] * (double)w[j];
        for (int64_t j = 0; j < out && i < arbiter->shape->layers; j++)
            y[j] = y[j] > 0 ? y[j] : 0;
    }
}

static double square_of(const double *values, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += values[i] * values[i];
    return sum;
}

// Adds this row's gradients; back[layers + 1] holds that of the logits. That of a matrix is the product of x
// and dy, and so is its norm.
static void backward(const Arbiter *arbiter)
{
    for (size_t i = arbiter->shape->layers + 1; i-- > 0;) {
        int64_t in = width_of(arbiter, i), out = width_of(arbiter, i + 1);
        int64_t at = arbiter->layout->at[layout_matrix(arbiter->shape, i)].offset;
        const double *x = arbiter->value[i], *dy = arbiter->back[i + 1];
        double *db = arbiter->gradient + arbiter->layout->at[layout_bias(arbiter->shape, i)].offset;
        double bias_square = square_of(dy, out);
        arbiter->square[layout_bias(arbiter->shape, i)] += bias_square;
        arbiter->square[layout_matrix(arbiter->shape, i)] += square_of(x, in) * bias_square;
        for (int64_t j = 0; j < out; j++)
            db[j] += dy[j];
        for (int64_t k = 0; k < in; k++) {
            double *dw = arbiter->gradient + at + k * out, sum = 0;
            const float *w = arbiter->weights + at + k * out;
            for (int64_t j = 0; j < out; j++) {
                dw[j] += x[k] * dy[j];
                sum += dy[j] * (double)w[j];
            }
            arbiter->back[i][k] = i > 0 && !(x[k] > 0) ? 0 : sum;
        }
    }
}

static void backward_embeddings(const Arbiter *arbiter, const HostRows *rows, int64_t row)
{
    const TrainShape *shape = arbiter->shape;
    const double *dx = arbiter->back[0] + shape->numeric;
    for (int64_t c = 0; c < shape->categorical; c++) {
        double *vector = arbiter->gradient + arbiter->layout->at[c].offset +
                         rows->codes[row * shape->categorical + c] * shape->embedding[c];
        arbiter->square[c] += square_of(dx, shape->embedding[c]);
        for (int64_t j = 0; j < shape->embedding[c]; j++)
            vector[j] += *dx++;
    }
}

bool arbiter_gradient(const Layout *layout, const TrainShape *shape, FedgateLossKind kind,
                      const float *weights, const HostRows *rows, double *ret_gradient, double *ret_square,
                      double *ret_loss, Error *error)
{
    Arbiter arbiter = {
        .layout = layout, .shape = shape, .weights = weights, .gradient = ret_gradient, .square = ret_square};
    int64_t widths = 0, last = shape->outputs;
    for (size_t i = 0; i <= shape->layers + 1; i++)
        widths += width_of(&arbiter, i);
    double *memory = calloc((size_t)(2 * widths) + 1, sizeof *memory), *at = memory, loss = 0;
    if (!memory)
        return FAIL(error, ERROR_MEMORY, 0, "could not take memory for the float64 network");
    for (size_t i = 0; i <= shape->layers + 1; i++) {
        arbiter.value[i] = at;
        arbiter.back[i] = at + widths;
        at += width_of(&arbiter, i);
    }
    for (int64_t i = 0; i < layout->floats; i++)
        ret_gradient[i] = 0;
    for (size_t i = 0; i < layout->count; i++)
        ret_square[i] = 0;
    for (int64_t row = 0; row < rows->count; row++) {
        double *dy = arbiter.back[shape->layers + 1];
        read_row(&arbiter, rows, row);
        forward(&arbiter);
        loss += arbiter_loss(kind, arbiter.value[shape->layers + 1], last, (double)rows->target[row], dy);
        backward(&arbiter);
        backward_embeddings(&arbiter, rows, row);
    }
    free(memory);
    for (int64_t i = 0; i < layout->floats; i++)
        ret_gradient[i] /= (double)rows->count;
    for (size_t i = 0; i < layout->count; i++)
        ret_square[i] /= (double)rows->count;
    *ret_loss = loss / (double)rows->count;
    return true;
}
