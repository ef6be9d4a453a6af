// nvml.cu - what the driver's management library counts: memory of the card, memory of this process, its
// version.
//
// The toolkit has no header for it, so what is used is declared here, with the versions of its structures. It
// makes no context, so it can say what was used before ours was made. Without it the run time still says how
// much of the card is used.
#include "cuda_internal.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { NVML_SUCCESS = 0, NVML_INSUFFICIENT_SIZE = 7, MOST_PROCESSES = 4096 };

typedef struct NvmlMemory {   // nvmlMemory_v2_t
    unsigned version;
    unsigned long long total, reserved, free, used;
} NvmlMemory;
static const unsigned NVML_MEMORY_VERSION = (unsigned)sizeof(NvmlMemory) | 2u << 24;

typedef struct NvmlProcess {   // nvmlProcessInfo_t of the third version of the call
    unsigned pid;
    unsigned long long used;   // all bits set: not to be said
    unsigned instance, compute_instance;
} NvmlProcess;

struct CudaNvml {
    int (*init)(void);
    int (*shutdown)(void);
    int (*find)(const char *bus, void **ret_device);
    int (*memory)(void *device, NvmlMemory *ret_memory);
    int (*processes)(void *device, unsigned *count, NvmlProcess *ret_processes);
    int (*driver)(char *ret_version, unsigned size);
    void *device;
};

static bool load_functions(CudaNvml *nvml, void *library)
{
    const struct {
        void **to;
        const char *name;
    } rows[] = {
        {(void **)&nvml->init, "nvmlInit_v2"},
        {(void **)&nvml->shutdown, "nvmlShutdown"},
        {(void **)&nvml->find, "nvmlDeviceGetHandleByPciBusId_v2"},
        {(void **)&nvml->memory, "nvmlDeviceGetMemoryInfo_v2"},
        {(void **)&nvml->processes, "nvmlDeviceGetComputeRunningProcesses_v3"},
        {(void **)&nvml->driver, "nvmlSystemGetDriverVersion"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        *rows[i].to = dlsym(library, rows[i].name);
        if (!*rows[i].to)
            return false;
    }
    return true;
}

CudaNvml *nvml_open(int index)
{
    static const char *const names[] = {"libnvidia-ml.so.1"};
    char bus[32], tried[16];
    CudaNvml *nvml = (CudaNvml *)calloc(1, sizeof *nvml);
    void *library = nvml ? cuda_library(names, 1, tried, sizeof tried) : NULL;
    if (library && load_functions(nvml, library) && nvml->init() == NVML_SUCCESS) {
        if (cudaDeviceGetPCIBusId(bus, sizeof bus, index) == cudaSuccess &&
            nvml->find(bus, &nvml->device) == NVML_SUCCESS)
            return nvml;
        nvml->shutdown();
    }
    free(nvml);
    return NULL;
}

void nvml_close(CudaNvml *nvml)
{
    if (nvml)
        nvml->shutdown();
    free(nvml);
}

bool nvml_memory(const CudaNvml *nvml, int64_t *ret_total, int64_t *ret_used)
{
    NvmlMemory memory = {};
    memory.version = NVML_MEMORY_VERSION;
    if (!nvml || nvml->memory(nvml->device, &memory) != NVML_SUCCESS)
        return false;
    *ret_total = (int64_t)memory.total;
    *ret_used = (int64_t)memory.used;
    return true;
}

int64_t nvml_own(const CudaNvml *nvml)
{
    int64_t own = -1;
    unsigned room = 32;
    int result = NVML_INSUFFICIENT_SIZE;
    NvmlProcess *processes = NULL;
    while (nvml && result == NVML_INSUFFICIENT_SIZE && room <= MOST_PROCESSES) {
        unsigned count = room *= 2;
        free(processes);
        processes = (NvmlProcess *)calloc(room, sizeof *processes);
        result = processes ? nvml->processes(nvml->device, &count, processes) : NVML_SUCCESS;
        for (unsigned i = 0; processes && result == NVML_SUCCESS && i < count; i++)
            if (processes[i].pid == (unsigned)getpid() && processes[i].used != ~0ull)
                own = (int64_t)processes[i].used;
    }
    free(processes);
    return own;
}

bool nvml_driver(const CudaNvml *nvml, char *ret_version, unsigned size)
{
    return nvml && nvml->driver(ret_version, size) == NVML_SUCCESS;
}
