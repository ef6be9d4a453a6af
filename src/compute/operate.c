// operate - operations of the contract handed to the back end, and the names of types.
#include <string.h>

#include "device_internal.h"
#include "settle.h"

void device_zero(Device *device, void *to, int64_t bytes)
{
    CALL(device, zero(device->handle, to, bytes));
}

void device_copy(Device *device, void *to, const void *from, int64_t bytes)
{
    CALL(device, copy(device->handle, to, from, bytes));
}

void device_gather(Device *device, const FedgateGather *op)
{
    CALL(device, gather(device->handle, op));
}

void device_assemble(Device *device, const FedgateAssemble *op)
{
    CALL(device, assemble(device->handle, op));
}

void device_assemble_back(Device *device, const FedgateAssemble *op)
{
    CALL(device, assemble_back(device->handle, op));
}

void device_dense(Device *device, const FedgateDense *op)
{
    CALL(device, dense(device->handle, op));
}

void device_dense_back(Device *device, const FedgateDenseBack *op)
{
    CALL(device, dense_back(device->handle, op));
}

void device_dropout(Device *device, const FedgateDropout *op)
{
    CALL(device, dropout(device->handle, op));
}

void device_loss(Device *device, const FedgateLoss *op)
{
    CALL(device, loss(device->handle, op));
}

void device_score(Device *device, const FedgateScore *op)
{
    CALL(device, score(device->handle, op));
}

void device_square_sum(Device *device, const float *x, int64_t count, double *ret_sum)
{
    CALL(device, square_sum(device->handle, x, count, ret_sum));
}

void device_cast(Device *device, const FedgateCast *op)
{
    CALL(device, cast(device->handle, op));
}

void device_settle(Device *device, const FedgateSettle *op)
{
    CALL(device, settle(device->handle, op));
}

void device_settle_on_host(const FedgateSettle *op)
{
    settle_step(op);
}

void device_adam(Device *device, const FedgateAdam *op)
{
    CALL(device, adam(device->handle, op));
}

void device_count_nonfinite(Device *device, const float *x, int64_t count, int64_t *total)
{
    CALL(device, count_nonfinite(device->handle, x, count, total));
}

static const struct {
    const char *name;
    double roundoff;
} types[] = {
    [FEDGATE_FP32] = {"fp32", 0x1p-24},
    [FEDGATE_BF16] = {"bf16", 0x1p-8},
    [FEDGATE_FP16] = {"fp16", 0x1p-11},
};

const char *device_type_name(FedgateType type)
{
    return types[type].name;
}

bool device_type_find(const char *name, FedgateType *ret_type)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strcmp(types[i].name, name) == 0) {
            *ret_type = (FedgateType)i;
            return true;
        }
    return false;
}

double device_type_roundoff(FedgateType type)
{
    return types[type].roundoff;
}
