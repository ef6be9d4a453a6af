// backend.cu - the cuda row of the contract: opening, memory, the first failure, and the table itself.
#include "cuda_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OLDEST_MAJOR = 8 };   // compute capability 8.0: the first with BF16

// -- failures

void cuda_fail(CudaDevice *device, const char *doing, const char *why)
{
    int well = CUDA_WELL;
    if (!__atomic_compare_exchange_n(&device->health, &well, CUDA_FAILING, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE))
        return;
    snprintf(device->failure, sizeof device->failure, "%s: %s", doing, why);
    __atomic_store_n(&device->health, CUDA_FAILED, __ATOMIC_RELEASE);
}

bool cuda_good(CudaDevice *device, cudaError_t result, const char *doing)
{
    if (result != cudaSuccess)
        cuda_fail(device, doing, cudaGetErrorString(result));
    return result == cudaSuccess;
}

void cuda_launched(CudaDevice *device, const char *kernel)
{
    cuda_good(device, cudaGetLastError(), kernel);
}

bool cuda_failed(const CudaDevice *device, char *ret_reason)
{
    int health = __atomic_load_n(&device->health, __ATOMIC_ACQUIRE);
    if (health != CUDA_WELL)
        snprintf(ret_reason, FEDGATE_REASON_SIZE, "%s",
                 health == CUDA_FAILED ? device->failure : "it fails in another thread");
    return health != CUDA_WELL;
}

unsigned cuda_grid(const CudaDevice *device, int64_t count)
{
    int64_t blocks = (count + CUDA_BLOCK - 1) / CUDA_BLOCK, most = (int64_t)device->multiprocessors * 16;
    return (unsigned)(blocks < 1 ? 1 : blocks < most ? blocks : most);
}

// -- open and close

static bool probe(char *ret_reason)
{
    int count = 0, major = 0;
    cudaError_t result = cudaGetDeviceCount(&count);
    if (result == cudaSuccess && count > 0)
        result = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
    if (result != cudaSuccess)
        snprintf(ret_reason, FEDGATE_REASON_SIZE, "no CUDA device: %s", cudaGetErrorString(result));
    else if (count < 1)
        snprintf(ret_reason, FEDGATE_REASON_SIZE, "no CUDA device: the driver lists none");
    else if (major < OLDEST_MAJOR)
        snprintf(ret_reason, FEDGATE_REASON_SIZE, "compute capability %d.x is below %d.0", major,
                 OLDEST_MAJOR);
    return result == cudaSuccess && count > 0 && major >= OLDEST_MAJOR;
}

static int device_count(void)
{
    int count = 0;
    return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

static void close_device(void *handle)
{
    CudaDevice *device = (CudaDevice *)handle;
    if (!device)
        return;
    if (device->compute)
        cudaStreamSynchronize(device->compute);
    if (device->copy)
        cudaStreamSynchronize(device->copy);
    gemm_close(device->gemm);
    cudaFree(device->workspace);
    if (device->compute)
        cudaStreamDestroy(device->compute);
    if (device->copy)
        cudaStreamDestroy(device->copy);
    free(device);
}

// What the driver counts as used on the card when everything is open: context, libraries and scratch of ours,
// and whatever other programs hold.
static bool describe(CudaDevice *device, const char *lt, FedgateFacts *facts)
{
    cudaDeviceProp properties;
    int driver = 0, runtime = 0;
    size_t left = 0, total = 0;
    if (!cuda_good(device, cudaGetDeviceProperties(&properties, device->index), "properties") ||
        !cuda_good(device, cudaDriverGetVersion(&driver), "driver version") ||
        !cuda_good(device, cudaRuntimeGetVersion(&runtime), "runtime version") ||
        !cuda_good(device, cudaMemGetInfo(&left, &total), "memory"))
        return false;
    device->multiprocessors = properties.multiProcessorCount;
    snprintf(facts->name, sizeof facts->name, "%.*s", (int)sizeof facts->name - 1, properties.name);
    snprintf(facts->core, sizeof facts->core, "sm_%d%d, %d SM", properties.major, properties.minor,
             properties.multiProcessorCount);
    snprintf(facts->libraries, sizeof facts->libraries, "CUDA driver %d, runtime %d, %s", driver, runtime,
             lt);
    facts->cores = properties.multiProcessorCount;
    facts->threads = 1;
    facts->memory_bytes = (int64_t)total;
    facts->context_bytes = (int64_t)(total - left);
    facts->asynchronous = true;
    facts->masks = true;
    facts->types = 1u << FEDGATE_FP32 | 1u << FEDGATE_BF16 | 1u << FEDGATE_FP16;
    return true;
}

static bool prepare(CudaDevice *device, char *ret_lt, size_t lt_size, char *ret_reason)
{
    if (cuda_good(device, cudaSetDevice(device->index), "choice of the device") &&
        cuda_good(device, cudaStreamCreateWithFlags(&device->compute, cudaStreamNonBlocking), "stream") &&
        cuda_good(device, cudaStreamCreateWithFlags(&device->copy, cudaStreamNonBlocking), "stream") &&
        cuda_good(device, cudaMalloc(&device->workspace, CUDA_WORKSPACE), "workspace") &&
        cuda_good(device, cudaMemset(device->workspace, 0, CUDA_WORKSPACE), "workspace")) {
        cuda_set_workspace(device, device->workspace);
        device->gemm = gemm_open(ret_lt, lt_size, ret_reason);
    }
    return device->gemm != NULL;
}

static void *open_device(int index, int threads, const FedgateHost *host, FedgateFacts *ret_facts,
                         char *ret_reason)
{
    (void)threads;
    char lt[64];
    CudaDevice *device = (CudaDevice *)calloc(1, sizeof *device);
    if (!device)
        return NULL;
    device->host = host;
    device->index = index;
    if (prepare(device, lt, sizeof lt, ret_reason) && describe(device, lt, ret_facts))
        return device;
    cuda_failed(device, ret_reason);
    close_device(device);
    return NULL;
}

// -- memory

// Zeroed when this returns: a copy on the other stream may follow at once.
static void *take(void *handle, FedgateMemory memory, int64_t bytes)
{
    CudaDevice *device = (CudaDevice *)handle;
    void *address = NULL;
    size_t size = bytes > 0 ? (size_t)bytes : 1;
    cudaError_t result = memory == FEDGATE_MEMORY_DEVICE
                             ? cudaMalloc(&address, size)
                             : cudaHostAlloc(&address, size, cudaHostAllocDefault);
    if (result != cudaSuccess) {
        cudaGetLastError();   // none left is an answer here, not a failure of the device
        return NULL;
    }
    if (memory == FEDGATE_MEMORY_PINNED) {
        memset(address, 0, size);
    } else {
        cuda_good(device, cudaMemsetAsync(address, 0, size, device->compute), "zero");
        cuda_good(device, cudaStreamSynchronize(device->compute), "zero");
    }
    return address;
}

static void give(void *handle, FedgateMemory memory, void *address, int64_t bytes)
{
    (void)bytes;
    CudaDevice *device = (CudaDevice *)handle;
    cuda_good(device, memory == FEDGATE_MEMORY_DEVICE ? cudaFree(address) : cudaFreeHost(address), "free");
}

extern "C" const FedgateBackend fedgate_backend = {
    FEDGATE_BACKEND_ABI,
    sizeof(FedgateBackend),
    "cuda",
    FEDGATE_VERSION,
    probe,
    device_count,
    open_device,
    close_device,
    take,
    give,
    cuda_event_new,
    cuda_event_free,
    cuda_event_record,
    cuda_event_done,
    cuda_event_wait,
    cuda_copy_in,
    cuda_copy_out,
    cuda_load,
    cuda_synchronise,
    cuda_await,
    cuda_fetch,
    cuda_mark_step,
    cuda_count_nonfinite,
    cuda_zero,
    cuda_copy,
    cuda_gather,
    cuda_assemble,
    cuda_assemble_back,
    cuda_dense,
    cuda_dense_back,
    cuda_dropout,
    cuda_loss,
    cuda_score,
    cuda_square_sum,
    cuda_cast,
    cuda_settle,
    cuda_adam,
    NULL,   // now_ns: the host's clock
    NULL,   // workspace
    NULL,   // memory
    cuda_record_begin,
    cuda_record_end,
    cuda_replay,
    cuda_record_free,
    NULL,   // traces
    NULL,
};
