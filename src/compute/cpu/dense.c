// dense - a layer forward and backward on fixed blocks: 512 rows forward, 128-row panels of the weight
// gradient.
//
// Blocks follow from the shape alone, each is one serial multiplication, and its element pass runs while the
// block is in cache. One output column is a dot product of 16 fixed lanes: a matrix library is slow there.
#include "kernel.h"

#include <stddef.h>
#include <string.h>

#include "blas.h"
#include "cpu_internal.h"

enum { LANES = 16 };

KERNEL void add_bias(float *restrict y, const float *restrict bias, int64_t rows, int64_t out, int relu)
{
    for (int64_t i = 0; i < rows; i++, y += out)
        if (relu)
            for (int64_t j = 0; j < out; j++) {
                float v = y[j] + bias[j];
                y[j] = v < 0 ? 0 : v;   // NaN stays NaN
            }
        else
            for (int64_t j = 0; j < out; j++)
                y[j] += bias[j];
}

KERNEL void dot_rows(float *restrict y, const float *restrict x, const float *restrict w, float bias,
                     int64_t rows, int64_t in, int relu)
{
    for (int64_t i = 0; i < rows; i++, x += in) {
        float lane[LANES] = {0}, sum = bias;
        int64_t k = 0;
        for (; k + LANES <= in; k += LANES)
            for (int l = 0; l < LANES; l++)
                lane[l] += x[k + l] * w[k + l];
        for (; k < in; k++)
            sum += x[k] * w[k];
        for (int l = 0; l < LANES / 2; l++)
            lane[l] += lane[l + LANES / 2];
        for (int l = 0; l < LANES / 2; l++)
            sum += lane[l];
        y[i] = relu && sum < 0 ? 0 : sum;
    }
}

static void dense_block(void *context, int64_t index)
{
    const FedgateDense *op = context;
    int64_t first = index * CPU_BLOCK_ROWS,
            rows = op->rows - first < CPU_BLOCK_ROWS ? op->rows - first : CPU_BLOCK_ROWS;
    const float *x = op->x + first * op->in;
    float *y = op->y + first * op->out;
    if (op->out == 1) {
        dot_rows(y, x, op->w, op->bias[0], rows, op->in, op->relu);
        return;
    }
    blas_multiply(BLAS_PLAIN, BLAS_PLAIN, rows, op->out, op->in, x, op->in, op->w, op->out, 0, y, op->out);
    add_bias(y, op->bias, rows, op->out, op->relu);
}

void cpu_dense(void *handle, const FedgateDense *op)
{
    CpuDevice *device = handle;
    int64_t begin = cpu_now(device);
    FedgateDense copy = *op;
    pool_run(device->pool, (op->rows + CPU_BLOCK_ROWS - 1) / CPU_BLOCK_ROWS, dense_block, &copy);
    cpu_span(device, "dense", begin);
}

KERNEL void column_sums(float *restrict sum, const float *restrict dy, int64_t rows, int64_t out)
{
    for (int64_t i = 0; i < rows; i++, dy += out)
        for (int64_t j = 0; j < out; j++)
            sum[j] += dy[j];
}

KERNEL void add_outer(float *restrict dw, const float *restrict x, const float *restrict dy, int64_t rows,
                      int64_t in)
{
    for (int64_t i = 0; i < rows; i++, x += in)
        for (int64_t j = 0; j < in; j++)
            dw[j] += x[j] * dy[i];
}

KERNEL void spread_column(float *restrict dx, const float *restrict w, const float *restrict dy, int64_t rows,
                          int64_t in)
{
    for (int64_t i = 0; i < rows; i++, dx += in)
        for (int64_t j = 0; j < in; j++)
            dx[j] = dy[i] * w[j];
}

KERNEL void mask_below(float *restrict dx, const float *restrict x, int64_t count, float scale)
{
    if (scale == 1)
        for (int64_t i = 0; i < count; i++)
            dx[i] = x[i] > 0 ? dx[i] : 0;
    else
        for (int64_t i = 0; i < count; i++)
            dx[i] = x[i] > 0 ? dx[i] * scale : 0;
}

static void bias_gradient(const FedgateDenseBack *op)
{
    if (!op->accumulate)
        memset(op->db, 0, (size_t)op->out * sizeof *op->db);
    column_sums(op->db, op->dy, op->rows, op->out);
}

static void weight_panel(const FedgateDenseBack *op, int64_t first, int64_t count)
{
    if (op->out == 1) {
        if (!op->accumulate)
            memset(op->dw, 0, (size_t)op->in * sizeof *op->dw);
        add_outer(op->dw, op->x, op->dy, op->rows, op->in);
        return;
    }
    blas_multiply(BLAS_TRANSPOSED, BLAS_PLAIN, count, op->out, op->rows, op->x + first, op->in, op->dy,
                  op->out, op->accumulate ? 1 : 0, op->dw + first * op->out, op->out);
}

static void input_block(const FedgateDenseBack *op, int64_t first, int64_t rows)
{
    float *dx = op->dx + first * op->in;
    const float *dy = op->dy + first * op->out;
    if (op->out == 1)
        spread_column(dx, op->w, dy, rows, op->in);
    else
        blas_multiply(BLAS_PLAIN, BLAS_TRANSPOSED, rows, op->in, op->out, dy, op->out, op->w, op->out, 0, dx,
                      op->in);
    if (op->below_relu)
        mask_below(dx, op->x + first * op->in, rows * op->in, op->below_scale);
}

typedef struct BackTasks {
    const FedgateDenseBack *op;
    int64_t panel, panels;
} BackTasks;   // panels, then bias, then blocks

static void back_task(void *context, int64_t index)
{
    const BackTasks *tasks = context;
    const FedgateDenseBack *op = tasks->op;
    if (index < tasks->panels) {
        int64_t first = index * tasks->panel;
        weight_panel(op, first, op->in - first < tasks->panel ? op->in - first : tasks->panel);
    } else if (index == tasks->panels) {
        bias_gradient(op);
    } else {
        int64_t first = (index - tasks->panels - 1) * CPU_BLOCK_ROWS;
        input_block(op, first, op->rows - first < CPU_BLOCK_ROWS ? op->rows - first : CPU_BLOCK_ROWS);
    }
}

void cpu_dense_back(void *handle, const FedgateDenseBack *op)
{
    CpuDevice *device = handle;
    int64_t begin = cpu_now(device);
    bool whole = op->out == 1 || op->rows <= CPU_BLOCK_ROWS;
    BackTasks tasks = {.op = op, .panel = whole ? op->in : CPU_PANEL_ROWS};
    tasks.panels = (op->in + tasks.panel - 1) / tasks.panel;
    int64_t blocks = op->dx ? (op->rows + CPU_BLOCK_ROWS - 1) / CPU_BLOCK_ROWS : 0,
            count = tasks.panels + 1 + blocks;
    if (op->rows <= CPU_BLOCK_ROWS)   // waking a thread costs more than such a small task
        for (int64_t i = 0; i < count; i++)
            back_task(&tasks, i);
    else
        pool_run(device->pool, count, back_task, &tasks);
    cpu_span(device, "dense back", begin);
}
