// dense_kernels - the element loops of a layer, in FP32; rows of a matrix lie `stride` apart.
#ifndef FEDGATE_CPU_DENSE_KERNELS_H
#define FEDGATE_CPU_DENSE_KERNELS_H

#include "kernel.h"

#include <stdint.h>

enum { DOT_LANES = 16 };

KERNEL void add_bias(float *restrict y, int64_t stride, const float *restrict bias, int64_t rows, int64_t out,
                     int relu)
{
    for (int64_t i = 0; i < rows; i++, y += stride)
        if (relu)
            for (int64_t j = 0; j < out; j++) {
                float v = y[j] + bias[j];
                y[j] = v < 0 ? 0 : v;   // NaN stays NaN
            }
        else
            for (int64_t j = 0; j < out; j++)
                y[j] += bias[j];
}

// adds to y
KERNEL void dot_rows(float *restrict y, const float *restrict x, int64_t stride, const float *restrict w,
                     int64_t rows, int64_t in)
{
    for (int64_t i = 0; i < rows; i++, x += stride) {
        float lane[DOT_LANES] = {0}, sum = y[i];
        int64_t k = 0;
        for (; k + DOT_LANES <= in; k += DOT_LANES)
            for (int l = 0; l < DOT_LANES; l++)
                lane[l] += x[k + l] * w[k + l];
        for (; k < in; k++)
            sum += x[k] * w[k];
        for (int l = 0; l < DOT_LANES / 2; l++)
            lane[l] += lane[l + DOT_LANES / 2];
        for (int l = 0; l < DOT_LANES / 2; l++)
            sum += lane[l];
        y[i] = sum;
    }
}

KERNEL void clamp(float *y, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        y[i] = y[i] < 0 ? 0 : y[i];   // NaN stays NaN
}

KERNEL void column_sums(float *restrict sum, const float *restrict dy, int64_t stride, int64_t rows,
                        int64_t out)
{
    for (int64_t i = 0; i < rows; i++, dy += stride)
        for (int64_t j = 0; j < out; j++)
            sum[j] += dy[j];
}

KERNEL void add_outer(float *restrict dw, const float *restrict x, int64_t stride, const float *restrict dy,
                      int64_t rows, int64_t in)
{
    for (int64_t i = 0; i < rows; i++, x += stride)
        for (int64_t j = 0; j < in; j++)
            dw[j] += x[j] * dy[i];
}

KERNEL void spread_column(float *restrict dx, int64_t stride, const float *restrict w,
                          const float *restrict dy, int64_t rows, int64_t in)
{
    for (int64_t i = 0; i < rows; i++, dx += stride)
        for (int64_t j = 0; j < in; j++)
            dx[j] = dy[i] * w[j];
}

KERNEL void mask_below(float *restrict dx, int64_t stride, const float *restrict x, int64_t x_stride,
                       int64_t rows, int64_t in, float scale)
{
    for (int64_t i = 0; i < rows; i++, dx += stride, x += x_stride)
        if (scale == 1)
            for (int64_t j = 0; j < in; j++)
                dx[j] = x[j] > 0 ? dx[j] : 0;
        else
            for (int64_t j = 0; j < in; j++)
                dx[j] = x[j] > 0 ? dx[j] * scale : 0;
}

#endif
