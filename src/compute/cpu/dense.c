// dense - a layer forward and backward on fixed blocks: 512 rows forward, 128-row panels of the weight
// gradient.
//
// Blocks follow from the shape alone and their element pass runs while they are in cache. In FP32 operands
// are read where they lie and each block is one serial multiplication; 2-byte operands are widened tile by
// tile into the scratch of the thread, summed in FP32 across tiles, and rounded once, at the store. One
// output column is a dot product of 16 fixed lanes: a matrix library is slow there.
#include "dense_kernels.h"

#include <fedgate/fault.h>
#include <stddef.h>

#include "blas.h"
#include "cpu_internal.h"
#include "half.h"

enum { COARSE_DEPTH = 16 };   // terms between the roundings of the planted coarse sums

typedef struct Plan {   // how an operation of one type is cut
    CpuDevice *device;
    FedgateType type;
    bool copied;   // operands go through the scratch
    bool tf32, coarse;   // planted
    int64_t block;   // rows of a forward product, at most
    int64_t tile;   // columns of a product, at most
    int64_t depth;   // terms of a sum in one multiplication, at most
} Plan;

static Plan plan_of(CpuDevice *device, FedgateType type)
{
    Plan plan = {.device = device, .type = type};
    plan.tf32 = type == FEDGATE_FP32 && fault_set("compute.tf32");
    plan.coarse = (type == FEDGATE_BF16 && fault_set("compute.bf16_sums")) ||
                  (type == FEDGATE_FP16 && fault_set("compute.fp16_sums"));
    plan.copied = type != FEDGATE_FP32 || plan.tf32;
    plan.block = plan.copied ? CPU_TILE : CPU_BLOCK_ROWS;
    plan.tile = plan.copied ? CPU_TILE : INT64_MAX;
    plan.depth = plan.coarse ? COARSE_DEPTH : plan.tile;
    return plan;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

typedef struct View {   // FP32 numbers of a part of a matrix
    const float *at;
    int64_t stride;
} View;
typedef struct Part {
    int64_t row, column, rows, columns;
} Part;

static View view(const Plan *plan, const void *matrix, int64_t stride, Part part, float *scratch)
{
    const char *from = half_at(plan->type, matrix, part.row * stride + part.column);
    if (!plan->copied)
        return (View){(const float *)(const void *)from, stride};
    bool whole = part.columns == stride;   // its rows follow one another
    int64_t runs = whole ? 1 : part.rows, length = whole ? part.rows * part.columns : part.columns;
    for (int64_t i = 0; i < runs; i++) {
        const void *run = half_at(plan->type, from, i * stride);
        if (plan->tf32)
            half_copy_tf32(run, length, scratch + i * length);
        else
            half_widen(plan->type, run, length, scratch + i * length);
    }
    return (View){scratch, part.columns};
}

static void coarsen(const Plan *plan, float *c, int64_t stride, int64_t rows, int64_t columns)
{
    for (int64_t i = 0; i < rows && plan->coarse; i++)
        half_round(plan->type, c + i * stride, columns);
}

static void store(FedgateType type, View c, int64_t rows, int64_t columns, void *to, int64_t stride)
{
    for (int64_t i = 0; i < rows; i++)
        half_narrow(type, c.at + i * c.stride, columns, (char *)to + i * stride * fedgate_type_bytes(type));
}

typedef struct Operand {   // a row-major matrix as it lies, and how it is multiplied
    const void *at;
    int64_t stride;
    BlasOrder order;
} Operand;

static View view_operand(const Plan *plan, const Operand *operand, Part part, float *scratch)
{
    Part turned = {part.column, part.row, part.columns, part.rows};
    return view(plan, operand->at, operand->stride, operand->order == BLAS_PLAIN ? part : turned, scratch);
}

// c = the part of a b, sums over k terms; added to c when add.
static void multiply(const Plan *plan, CpuScratch *scratch, const Operand *a, const Operand *b, Part part,
                     int64_t k, bool add, float *c, int64_t stride)
{
    for (int64_t first = 0; first < k; first += least(plan->depth, k)) {
        int64_t terms = least(plan->depth, k - first);
        View x = view_operand(plan, a, (Part){part.row, first, part.rows, terms}, scratch->a),
             y = view_operand(plan, b, (Part){first, part.column, terms, part.columns}, scratch->b);
        blas_multiply(a->order, b->order, part.rows, part.columns, terms, x.at, x.stride, y.at, y.stride,
                      add || first > 0 ? 1 : 0, c, stride);
        coarsen(plan, c, stride, part.rows, part.columns);
    }
}

// -- forward

typedef struct Forward {
    const FedgateDense *op;
    Plan plan;
} Forward;

static void dot(const Plan *plan, CpuScratch *scratch, const FedgateDense *op, Part part, float bias,
                float *y)
{
    for (int64_t i = 0; i < part.rows; i++)
        y[i] = bias;
    for (int64_t first = 0; first < op->in; first += least(plan->depth, op->in)) {
        int64_t terms = least(plan->depth, op->in - first);
        View x = view(plan, op->x, op->in, (Part){part.row, first, part.rows, terms}, scratch->a),
             w = view(plan, op->w, 1, (Part){first, 0, terms, 1}, scratch->b);
        dot_rows(y, x.at, x.stride, w.at, part.rows, terms);
        coarsen(plan, y, 1, part.rows, 1);
    }
    if (op->relu)
        clamp(y, part.rows);
}

static void dense_part(const Plan *plan, CpuScratch *scratch, const FedgateDense *op, Part part)
{
    bool direct = op->y_type == FEDGATE_FP32;
    int64_t at = part.row * op->out + part.column, stride = direct ? op->out : part.columns;
    float *c = direct ? (float *)op->y + at : scratch->c;
    const float *bias = half_at(op->type, op->bias, part.column);
    if (op->type != FEDGATE_FP32) {
        half_widen(op->type, bias, part.columns, scratch->bias);
        bias = scratch->bias;
    }
    if (op->out == 1) {
        dot(plan, scratch, op, part, bias[0], c);
    } else {
        Operand x = {op->x, op->in, BLAS_PLAIN}, w = {op->w, op->out, BLAS_PLAIN};
        multiply(plan, scratch, &x, &w, part, op->in, false, c, stride);
        add_bias(c, stride, bias, part.rows, part.columns, op->relu);
    }
    if (!direct)
        store(op->y_type, (View){c, stride}, part.rows, part.columns,
              (char *)op->y + at * fedgate_type_bytes(op->y_type), op->out);
}

static void dense_block(void *context, int64_t index, int worker)
{
    const Forward *forward = context;
    const FedgateDense *op = forward->op;
    const Plan *plan = &forward->plan;
    int64_t first = index * plan->block, rows = least(op->rows - first, plan->block);
    for (int64_t column = 0; column < op->out; column += least(plan->tile, op->out))
        dense_part(plan, &plan->device->scratch[worker], op,
                   (Part){first, column, rows, least(op->out - column, plan->tile)});
}

void cpu_dense(void *handle, const FedgateDense *op)
{
    CpuDevice *device = handle;
    int64_t begin = cpu_now(device);
    Forward forward = {op, plan_of(device, op->type)};
    int64_t blocks = (op->rows + forward.plan.block - 1) / forward.plan.block;
    if (op->rows <= CPU_BLOCK_ROWS)   // waking a thread costs more than such a small task
        for (int64_t i = 0; i < blocks; i++)
            dense_block(&forward, i, 0);
    else
        pool_run(device->pool, blocks, dense_block, &forward);
    cpu_span(device, "dense", begin);
}

// -- backward

typedef struct Backward {
    const FedgateDenseBack *op;
    Plan plan;
    int64_t panel, panels;
} Backward;   // panels, then bias, then blocks

// sums = column sums of the matrix, rows in their order
static void sum_columns(const Backward *backward, CpuScratch *scratch, const void *matrix, int64_t width,
                        float *sums)
{
    const FedgateDenseBack *op = backward->op;
    Plan plan = backward->plan;
    plan.copied = op->type != FEDGATE_FP32;   // sums, not multiplications
    if (!op->accumulate)
        memset(sums, 0, (size_t)width * sizeof *sums);
    for (int64_t row = 0; row < op->rows; row += least(plan.depth, op->rows))
        for (int64_t column = 0; column < width; column += least(plan.tile, width)) {
            Part part = {row, column, least(op->rows - row, plan.depth), least(width - column, plan.tile)};
            View at = view(&plan, matrix, width, part, scratch->a);
            column_sums(sums + column, at.at, at.stride, part.rows, part.columns);
            coarsen(&plan, sums + column, 0, 1, part.columns);
        }
}

static void outer(const Plan *plan, CpuScratch *scratch, const FedgateDenseBack *op)
{
    if (!op->accumulate)
        memset(op->dw, 0, (size_t)op->in * sizeof *op->dw);
    for (int64_t row = 0; row < op->rows; row += least(plan->depth, op->rows))
        for (int64_t column = 0; column < op->in; column += least(plan->tile, op->in)) {
            Part part = {row, column, least(op->rows - row, plan->depth), least(op->in - column, plan->tile)};
            View x = view(plan, op->x, op->in, part, scratch->a),
                 dy = view(plan, op->dy, 1, (Part){row, 0, part.rows, 1}, scratch->b);
            add_outer(op->dw + column, x.at, x.stride, dy.at, part.rows, part.columns);
            coarsen(plan, op->dw + column, 0, 1, part.columns);
        }
}

static void weight_panel(const Plan *plan, CpuScratch *scratch, const FedgateDenseBack *op, int64_t first,
                         int64_t count)
{
    if (op->out == 1) {
        outer(plan, scratch, op);
        return;
    }
    Operand x = {op->x, op->in, BLAS_TRANSPOSED}, dy = {op->dy, op->out, BLAS_PLAIN};
    for (int64_t column = 0; column < op->out; column += least(plan->tile, op->out))
        multiply(plan, scratch, &x, &dy, (Part){first, column, count, least(op->out - column, plan->tile)},
                 op->rows, op->accumulate, op->dw + first * op->out + column, op->out);
}

static void input_part(const Plan *plan, CpuScratch *scratch, const FedgateDenseBack *op, Part part)
{
    bool direct = op->type == FEDGATE_FP32;
    int64_t at = part.row * op->in + part.column, stride = direct ? op->in : part.columns;
    float *c = direct ? (float *)op->dx + at : scratch->c;
    if (op->out == 1) {
        View dy = view(plan, op->dy, 1, (Part){part.row, 0, part.rows, 1}, scratch->a),
             w = view(plan, op->w, 1, (Part){part.column, 0, part.columns, 1}, scratch->b);
        spread_column(c, stride, w.at, dy.at, part.rows, part.columns);
    } else {
        Operand dy = {op->dy, op->out, BLAS_PLAIN}, w = {op->w, op->out, BLAS_TRANSPOSED};
        multiply(plan, scratch, &dy, &w, part, op->out, false, c, stride);
    }
    if (op->below_relu) {
        View x = view(plan, op->x, op->in, part, scratch->a);
        mask_below(c, stride, x.at, x.stride, part.rows, part.columns, op->below_scale);
    }
    if (!direct)
        store(op->type, (View){c, stride}, part.rows, part.columns,
              (char *)op->dx + at * fedgate_type_bytes(op->type), op->in);
}

static void back_task(void *context, int64_t index, int worker)
{
    const Backward *backward = context;
    const FedgateDenseBack *op = backward->op;
    const Plan *plan = &backward->plan;
    CpuScratch *scratch = &plan->device->scratch[worker];
    if (index < backward->panels) {
        int64_t first = index * backward->panel;
        weight_panel(plan, scratch, op, first, least(op->in - first, backward->panel));
    } else if (index == backward->panels) {
        if (op->db)
            sum_columns(backward, scratch, op->dy, op->out, op->db);
    } else {
        int64_t first = (index - backward->panels - 1) * plan->block;
        for (int64_t column = 0; column < op->in; column += least(plan->tile, op->in))
            input_part(plan, scratch, op,
                       (Part){first, column, least(op->rows - first, plan->block),
                              least(op->in - column, plan->tile)});
    }
}

void cpu_dense_back(void *handle, const FedgateDenseBack *op)
{
    CpuDevice *device = handle;
    int64_t begin = cpu_now(device);
    Backward backward = {.op = op, .plan = plan_of(device, op->type)};
    const Plan *plan = &backward.plan;
    bool small = op->rows <= CPU_BLOCK_ROWS;
    backward.panel = op->out == 1 ? op->in : least(op->in, small ? plan->tile : CPU_PANEL_ROWS);
    backward.panels = (op->in + backward.panel - 1) / backward.panel;
    int64_t blocks = op->dx ? (op->rows + plan->block - 1) / plan->block : 0,
            count = backward.panels + 1 + blocks;
    if (small)   // waking a thread costs more than such a small task
        for (int64_t i = 0; i < count; i++)
            back_task(&backward, i, 0);
    else
        pool_run(device->pool, count, back_task, &backward);
    if (op->dx && op->dx_sums)
        sum_columns(&backward, &device->scratch[0], op->dx, op->in, op->dx_sums);
    cpu_span(device, "dense back", begin);
}
