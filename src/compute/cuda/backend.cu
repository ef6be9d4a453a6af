// backend.cu - the cuda row of the contract: opening, memory, the first failure, and the table itself.
#include "cuda_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OLDEST_MAJOR = 8, EARLY_MAJOR = 9 };   // compute capability: the first with BF16; with early launches

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

// Nothing that waits may be called when the device hangs: the end of the process frees all.
static void close_device(void *handle)
{
    CudaDevice *device = (CudaDevice *)handle;
    if (!device)
        return;
    if (device->compute)
        cuda_drain(device, device->compute, "close");
    if (device->copy)
        cuda_drain(device, device->copy, "close");
    trace_close(device);
    nvml_close(device->nvml);
    pthread_mutex_destroy(&device->queue_lock);
    if (cuda_hangs(device))
        return;
    gemm_close(device->gemm);
    if (device->compute)
        cudaStreamDestroy(device->compute);
    if (device->copy)
        cudaStreamDestroy(device->copy);
    if (device->side)
        cudaStreamDestroy(device->side);
    if (device->forked)
        cudaEventDestroy(device->forked);
    if (device->joined)
        cudaEventDestroy(device->joined);
    free(device);
}

static void name_libraries(const CudaDevice *device, const char *lt, char *ret_libraries, size_t size)
{
    int runtime = 0, supported = 0;
    char driver[80];
    cudaRuntimeGetVersion(&runtime);
    cudaDriverGetVersion(&supported);
    if (!nvml_driver(device->nvml, driver, sizeof driver))
        snprintf(driver, sizeof driver, "for CUDA %d.%d", supported / 1000, supported % 1000 / 10);
    snprintf(ret_libraries, size, "CUDA %d.%d, driver %s, %s", runtime / 1000, runtime % 1000 / 10, driver,
             lt);
}

// What context, libraries and kernels took: as the driver counts this process, else what is used more than
// before, else all that is used.
static int64_t context_bytes(const CudaDevice *device, int64_t total, int64_t left)
{
    const int64_t own = nvml_own(device->nvml);
    int64_t card, used;
    if (own > 0)
        return own;
    if (device->used_before >= 0 && nvml_memory(device->nvml, &card, &used) && used >= device->used_before)
        return used - device->used_before;
    return total - left;
}

static bool describe(CudaDevice *device, const char *lt, FedgateFacts *facts)
{
    cudaDeviceProp properties;
    size_t left = 0, total = 0;
    if (!cuda_good(device, cudaGetDeviceProperties(&properties, device->index), "properties") ||
        !cuda_good(device, cudaMemGetInfo(&left, &total), "memory"))
        return false;
    device->multiprocessors = properties.multiProcessorCount;
    device->programmatic = properties.major >= EARLY_MAJOR;
    snprintf(facts->name, sizeof facts->name, "%.*s", (int)sizeof facts->name - 1, properties.name);
    snprintf(facts->core, sizeof facts->core, "sm_%d%d, %d SM", properties.major, properties.minor,
             properties.multiProcessorCount);
    snprintf(facts->timeline, sizeof facts->timeline, "CUPTI activity, sampled windows");
    name_libraries(device, lt, facts->libraries, sizeof facts->libraries);
    facts->cores = properties.multiProcessorCount;
    facts->threads = 1;
    facts->memory_bytes = (int64_t)total;
    facts->context_bytes = context_bytes(device, (int64_t)total, (int64_t)left);
    facts->workspace_bytes = CUDA_WORKSPACE;
    facts->asynchronous = true;
    facts->types = 1u << FEDGATE_FP32 | 1u << FEDGATE_BF16 | 1u << FEDGATE_FP16;
    return true;
}

// cuBLASLt takes memory at its first product, so there is one before memory is measured: of each type, on
// zeros.
static bool warm_products(CudaDevice *device)
{
    enum { SIDE = 256, BYTES = SIDE * SIDE * 4 };
    char *memory = NULL;
    if (!cuda_good(device, cudaMalloc(&memory, CUDA_WORKSPACE + 3 * BYTES), "first products") ||
        !cuda_good(device, cudaMemsetAsync(memory, 0, CUDA_WORKSPACE + 3 * BYTES, device->compute),
                   "first products"))
        return false;
    cuda_set_workspace(device, memory);
    for (int type = FEDGATE_FP32; type <= FEDGATE_FP16; type++) {
        Product product = {};
        product.type = product.out_type = (FedgateType)type;
        product.m = product.n = product.k = SIDE;
        product.a = memory + CUDA_WORKSPACE;
        product.b = memory + CUDA_WORKSPACE + BYTES;
        product.d = memory + CUDA_WORKSPACE + 2 * BYTES;
        product.alpha = 1;
        gemm_multiply(device, &product);
    }
    bool good = cuda_drain(device, device->compute, "first products") &&
                cuda_good(device, cudaFree(memory), "first products");
    device->workspace = device->scratch = NULL;
    device->counters = NULL;
    return good;
}

static bool prepare(CudaDevice *device, char *ret_lt, size_t lt_size, char *ret_reason)
{
    int64_t total;
    device->nvml = nvml_open(device->index);
    if (!nvml_memory(device->nvml, &total, &device->used_before))
        device->used_before = -1;
    if (cuda_good(device, cudaSetDevice(device->index), "choice of the device") &&
        cuda_good(device, cudaStreamCreateWithFlags(&device->compute, cudaStreamNonBlocking), "stream") &&
        cuda_good(device, cudaStreamCreateWithFlags(&device->copy, cudaStreamNonBlocking), "stream") &&
        cuda_good(device, cudaStreamCreateWithFlags(&device->side, cudaStreamNonBlocking), "stream") &&
        cuda_good(device, cudaEventCreateWithFlags(&device->forked, cudaEventDisableTiming), "event") &&
        cuda_good(device, cudaEventCreateWithFlags(&device->joined, cudaEventDisableTiming), "event"))
        device->gemm = gemm_open(ret_lt, lt_size, ret_reason);
    return device->gemm && warm_products(device);
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
    device->pageable = cuda_fault(device, "copy.pageable", 0) != 0;
    device->on_compute = cuda_fault(device, "copy.compute_stream", 0) != 0;
    device->serial = cuda_fault(device, "copy.serial", 0) != 0;
    pthread_mutex_init(&device->queue_lock, NULL);
    if (prepare(device, lt, sizeof lt, ret_reason) && describe(device, lt, ret_facts))
        return device;
    cuda_failed(device, ret_reason);
    close_device(device);
    return NULL;
}

// -- memory

static void *take_pinned(const CudaDevice *device, size_t size)
{
    enum { ALIGNMENT = 4096 };
    void *address = NULL;
    if (device->pageable)
        address = aligned_alloc(ALIGNMENT, (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    else if (cudaHostAlloc(&address, size, cudaHostAllocDefault) != cudaSuccess)
        cudaGetLastError();   // none left is an answer here, not a failure of the device
    if (address)
        memset(address, 0, size);
    return address;
}

// Zeroed when this returns: a copy on the other stream may follow at once.
static void *take(void *handle, FedgateMemory memory, int64_t bytes)
{
    CudaDevice *device = (CudaDevice *)handle;
    const size_t size = bytes > 0 ? (size_t)bytes : 1;
    void *address = NULL;
    if (memory == FEDGATE_MEMORY_PINNED)
        return take_pinned(device, size);
    if (cuda_hangs(device) || cudaMalloc(&address, size) != cudaSuccess) {
        cudaGetLastError();
        return NULL;
    }
    if (cuda_good(device, cudaMemsetAsync(address, 0, size, device->compute), "zero"))
        cuda_drain(device, device->compute, "zero");
    return address;
}

static void give(void *handle, FedgateMemory memory, void *address, int64_t bytes)
{
    (void)bytes;
    CudaDevice *device = (CudaDevice *)handle;
    if (memory == FEDGATE_MEMORY_PINNED && device->pageable)
        free(address);
    else if (!cuda_hangs(device))
        cuda_good(device, memory == FEDGATE_MEMORY_DEVICE ? cudaFree(address) : cudaFreeHost(address),
                  "free");
}

static void workspace(void *handle, void *memory)
{
    cuda_set_workspace((CudaDevice *)handle, memory);
}

static bool memory_use(void *handle, FedgateMemoryUse *ret_use)
{
    CudaDevice *device = (CudaDevice *)handle;
    FedgateMemoryUse use = {0, 0, device->used_before, nvml_own(device->nvml)};
    size_t left = 0, total = 0;
    if (!nvml_memory(device->nvml, &use.total, &use.used)) {
        if (cudaMemGetInfo(&left, &total) != cudaSuccess)
            return false;
        use.total = (int64_t)total;
        use.used = (int64_t)(total - left);
    }
    *ret_use = use;
    return true;
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
    workspace,
    memory_use,
    cuda_record_begin,
    cuda_record_end,
    cuda_replay,
    cuda_record_free,
    cuda_trace_begin,
    cuda_trace_end,
};
