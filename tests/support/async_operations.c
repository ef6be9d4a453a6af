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
OPERATION(dense, dense, FedgateDense)
OPERATION(dense_back, dense_back, FedgateDenseBack)
OPERATION(dropout, dropout, FedgateDropout)
OPERATION(loss, loss, FedgateLoss)
OPERATION(score, score, FedgateScore)
OPERATION(cast, cast, FedgateCast)
OPERATION(adam, adam, FedgateAdam)
#undef OPERATION

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
    if (command->op.step >= 0)
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
