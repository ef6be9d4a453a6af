// async_operations - operations are commands that hold their arguments by value; the inner device runs them.
#include "async_internal.h"

#include <fedgate/clock.h>
#include <string.h>

static void begin_operation(void)
{
    async_now.operations++;
    async_now.begin_ns = clock_monotonic_ns(clock_real());
    async_last(async_asked.operation_ns);
}

#define OPERATION(slot, member, Type)                                                                        \
    static void run_##slot(AsyncDevice *device, const Command *command)                                      \
    {                                                                                                        \
        begin_operation();                                                                                   \
        async_within->slot(device->inner, &command->op.member);                                              \
    }                                                                                                        \
    static void give_##slot(void *device, const Type *op)                                                    \
    {                                                                                                        \
        async_give(device, &(Command){.run = run_##slot, .op.member = *op});                                 \
    }
OPERATION(gather, gather, FedgateGather)
OPERATION(assemble, assemble, FedgateAssemble)
OPERATION(assemble_back, assemble, FedgateAssemble)
OPERATION(dropout, dropout, FedgateDropout)
OPERATION(loss, loss, FedgateLoss)
OPERATION(score, score, FedgateScore)
OPERATION(cast, cast, FedgateCast)
OPERATION(adam, adam, FedgateAdam)
#undef OPERATION

static bool positive(FedgateType type, const void *values, int64_t at)
{
    if (type == FEDGATE_FP32)
        return ((const float *)values)[at] > 0;
    uint16_t bits = ((const uint16_t *)values)[at];
    return bits != 0 && bits < 0x8000;   // NaN counts as positive: its mask bit is nobody's business
}

static void run_dense(AsyncDevice *device, const Command *command)
{
    FedgateDense op = command->op.dense;
    uint8_t *mask = op.mask;
    op.mask = NULL;
    begin_operation();
    async_within->dense(device->inner, &op);
    for (int64_t i = 0; mask && i < op.rows; i++) {
        uint8_t *row = mask + i * fedgate_mask_bytes(1, op.out);
        memset(row, 0, (size_t)fedgate_mask_bytes(1, op.out));
        for (int64_t j = 0; j < op.out; j++)
            if (positive(op.y_type, op.y, i * op.out + j))
                row[j / 8] |= (uint8_t)(1u << j % 8);
    }
}

static void run_dense_back(AsyncDevice *device, const Command *command)
{
    FedgateDenseBack op = command->op.dense_back;
    const uint8_t *mask = op.mask;
    op.mask = NULL;
    begin_operation();
    for (int64_t i = 0; mask && op.below_relu && i < op.rows; i++)
        for (int64_t j = 0; j < op.in; j++)
            if (positive(op.type, op.x, i * op.in + j) !=
                ((mask[i * fedgate_mask_bytes(1, op.in) + j / 8] >> j % 8) & 1))
                async_breach("a mask differs from the rows it stands for");
    async_within->dense_back(device->inner, &op);
}

static void give_dense(void *device, const FedgateDense *op)
{
    async_give(device, &(Command){.run = run_dense, .op.dense = *op});
}

static void give_dense_back(void *device, const FedgateDenseBack *op)
{
    async_give(device, &(Command){.run = run_dense_back, .op.dense_back = *op});
}

static void run_settle(AsyncDevice *device, const Command *command)
{
    begin_operation();
    device->settles++;
    if (async_asked.fail_at > 0 && device->settles >= async_asked.fail_at && !async_now.released) {
        async_now.failed = true;
        pthread_mutex_lock(&device->lock);
        pthread_cond_broadcast(&device->moved);
        pthread_mutex_unlock(&device->lock);
    }
    while (device->settles == async_asked.hang_at && !async_now.released)
        clock_sleep_ns(clock_real(), 1000000);
    async_within->settle(device->inner, &command->op.settle);
}

static void give_settle(void *device, const FedgateSettle *op)
{
    async_give(device, &(Command){.run = run_settle, .op.settle = *op});
}

static void run_zero(AsyncDevice *device, const Command *command)
{
    begin_operation();
    async_within->zero(device->inner, command->op.move.to, command->op.move.bytes);
}

static void give_zero(void *device, void *to, int64_t bytes)
{
    async_give(device, &(Command){.run = run_zero, .op.move = {.to = to, .bytes = bytes}});
}

static void run_copy(AsyncDevice *device, const Command *command)
{
    begin_operation();
    async_within->copy(device->inner, command->op.move.to, command->op.move.from, command->op.move.bytes);
}

static void give_copy(void *device, void *to, const void *from, int64_t bytes)
{
    async_give(device, &(Command){.run = run_copy, .op.move = {to, from, bytes}});
}

static void run_square_sum(AsyncDevice *device, const Command *command)
{
    begin_operation();
    async_within->square_sum(device->inner, command->op.sum.x, command->op.sum.count, command->op.sum.total);
}

static void give_square_sum(void *device, const float *x, int64_t count, double *ret_sum)
{
    async_give(device, &(Command){.run = run_square_sum, .op.sum = {x, count, ret_sum}});
}

static void run_count(AsyncDevice *device, const Command *command)
{
    begin_operation();
    async_within->count_nonfinite(device->inner, command->op.sum.x, command->op.sum.count,
                                  command->op.sum.total);
}

static void give_count(void *device, const float *x, int64_t count, int64_t *total)
{
    async_give(device, &(Command){.run = run_count, .op.sum = {x, count, total}});
}

static void run_mark(AsyncDevice *device, const Command *command)
{
    async_within->mark_step(device->inner, command->op.step);
}

static void give_mark(void *handle, int64_t step)
{
    AsyncDevice *device = handle;
    if (device->recording && device->recording->first_mark < 0)
        device->recording->first_mark = step;
    async_give(device, &(Command){.run = run_mark, .op.step = step, .mark = true});
}

void async_set_operations(FedgateBackend *backend)
{
    backend->mark_step = give_mark;
    backend->count_nonfinite = give_count;
    backend->zero = give_zero;
    backend->copy = give_copy;
    backend->gather = give_gather;
    backend->assemble = give_assemble;
    backend->assemble_back = give_assemble_back;
    backend->dense = give_dense;
    backend->dense_back = give_dense_back;
    backend->dropout = give_dropout;
    backend->loss = give_loss;
    backend->score = give_score;
    backend->square_sum = give_square_sum;
    backend->cast = give_cast;
    backend->settle = give_settle;
    backend->adam = give_adam;
}
