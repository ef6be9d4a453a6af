// graph.cu - recordings: many steps captured from the compute stream as one graph, replayed by one launch.
//
// The stream is captured alone, so the graph is a chain, and its operations sorted by their start are in the
// order given: the number of operations before each mark is all that is needed to cut a replay into steps,
// and nothing runs on the device for it. Events inside are no operation. Loader threads call CUDA meanwhile,
// which the mode of capture allows. Nothing in a step may allocate or wait while it is recorded: plans are
// made by running it once before.
#include "cuda_internal.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static int64_t count_nodes(cudaGraph_t graph)
{
    size_t count = 0;
    return cudaGraphGetNodes(graph, NULL, &count) == cudaSuccess ? (int64_t)count : -1;
}

static void free_graph(CudaGraph *graph)
{
    if (!graph)
        return;
    if (graph->exec)
        cudaGraphExecDestroy(graph->exec);
    free(graph->marks);
    free(graph);
}

bool cuda_record_begin(void *handle, char *ret_reason)
{
    CudaDevice *device = (CudaDevice *)handle;
    if (device->recording || cuda_failed(device, ret_reason)) {
        if (device->recording)
            snprintf(ret_reason, FEDGATE_REASON_SIZE, "one is being made already");
        return false;
    }
    CudaGraph *graph = (CudaGraph *)calloc(1, sizeof *graph);
    if (!graph) {
        snprintf(ret_reason, FEDGATE_REASON_SIZE, "no memory");
        return false;
    }
    cuda_lock_copies(device, true);
    cudaError_t result = cudaStreamBeginCapture(device->compute, cudaStreamCaptureModeThreadLocal);
    if (result == cudaSuccess) {
        device->recording = graph;
        cupti_quiet(true);
        return true;
    }
    cuda_lock_copies(device, false);
    snprintf(ret_reason, FEDGATE_REASON_SIZE, "capture: %s", cudaGetErrorString(result));
    free_graph(graph);
    return false;
}

// The mark goes before the operations that follow, of which none is in the graph yet.
static void mark_recording(CudaDevice *device, int64_t step)
{
    CudaGraph *graph = device->recording;
    cudaStreamCaptureStatus status;
    cudaGraph_t captured = NULL;
    if (graph->count == graph->room) {
        int64_t room = graph->room ? 2 * graph->room : 64;
        TraceMark *marks = (TraceMark *)realloc(graph->marks, (size_t)room * sizeof *marks);
        if (!marks) {
            cuda_fail(device, "mark in a recording", "no memory");
            return;
        }
        graph->marks = marks;
        graph->room = room;
    }
    if (cuda_good(device, cudaStreamGetCaptureInfo(device->compute, &status, NULL, &captured),
                  "mark in a recording"))
        graph->marks[graph->count++] =
            TraceMark{step, captured ? count_nodes(captured) - graph->events : 0};
}

void cuda_mark_step(void *handle, int64_t step)
{
    CudaDevice *device = (CudaDevice *)handle;
    if (device->recording)
        mark_recording(device, step);
    else
        trace_note_step(device, step);
}

// Every node but events must be work that a trace shows, or steps could not be cut by counting.
static bool check_nodes(cudaGraph_t graph, int64_t count, char *ret_reason)
{
    size_t room = (size_t)count;
    cudaGraphNode_t *nodes = (cudaGraphNode_t *)calloc(room + 1, sizeof *nodes);
    bool good = nodes && cudaGraphGetNodes(graph, nodes, &room) == cudaSuccess;
    if (!good)
        snprintf(ret_reason, FEDGATE_REASON_SIZE, "its operations could not be listed");
    for (size_t i = 0; good && i < room; i++) {
        cudaGraphNodeType type = cudaGraphNodeTypeCount;
        good = cudaGraphNodeGetType(nodes[i], &type) == cudaSuccess &&
               (type == cudaGraphNodeTypeKernel || type == cudaGraphNodeTypeMemcpy ||
                type == cudaGraphNodeTypeMemset || type == cudaGraphNodeTypeEventRecord);
        if (!good)
            snprintf(ret_reason, FEDGATE_REASON_SIZE, "it holds a node of type %d, which is no work",
                     (int)type);
    }
    free(nodes);
    return good;
}

// -- sets become kernels: cuBLASLt zeroes flags before products, and a set between two kernels costs 4 us,
// beside a copy 13 (H200), in which nothing computes

static __global__ void clear(char *to, size_t bytes)
{
    for (size_t i = threadIdx.x; i < bytes; i += blockDim.x)
        to[i] = 0;
}

static bool add_clear(cudaGraph_t graph, cudaGraphNode_t set, const cudaMemsetParams &what)
{
    enum { MOST = 16 };
    cudaGraphNode_t before[MOST], after[MOST], node;
    size_t before_count = MOST, after_count = MOST, bytes = what.width * what.elementSize;
    char *to = (char *)what.dst;
    void *arguments[] = {&to, &bytes};
    cudaKernelNodeParams params = {};
    params.func = (void *)clear;
    params.gridDim = dim3(1);
    params.blockDim = dim3(CUDA_BLOCK);
    params.kernelParams = arguments;
    if (cudaGraphNodeGetDependencies(set, before, NULL, &before_count) != cudaSuccess ||
        cudaGraphNodeGetDependentNodes(set, after, NULL, &after_count) != cudaSuccess ||
        cudaGraphAddKernelNode(&node, graph, before, before_count, &params) != cudaSuccess)
        return false;
    for (size_t i = 0; i < after_count; i++)
        if (cudaGraphAddDependencies(graph, &node, &after[i], NULL, 1) != cudaSuccess) {
            cudaGraphDestroyNode(node);
            return false;
        }
    return cudaGraphDestroyNode(set) == cudaSuccess;
}

// Where it does not work out, a set stays what it was.
static void clear_by_kernels(cudaGraph_t graph, int64_t count)
{
    enum { MOST_BYTES = 16384 };
    size_t room = (size_t)count;
    cudaGraphNode_t *nodes = (cudaGraphNode_t *)calloc(room + 1, sizeof *nodes);
    bool good = nodes && cudaGraphGetNodes(graph, nodes, &room) == cudaSuccess;
    for (size_t i = 0; good && i < room; i++) {
        cudaGraphNodeType type = cudaGraphNodeTypeCount;
        cudaMemsetParams what = {};
        if (cudaGraphNodeGetType(nodes[i], &type) == cudaSuccess && type == cudaGraphNodeTypeMemset &&
            cudaGraphMemsetNodeGetParams(nodes[i], &what) == cudaSuccess && what.value == 0 &&
            what.height == 1 && what.width * what.elementSize <= MOST_BYTES)
            good = add_clear(graph, nodes[i], what);
    }
    free(nodes);
    cudaGetLastError();   // of what did not work out
}

// What the driver took for it is what is free less afterwards: an upload now, so that no first launch is
// slow.
static bool make_executable(CudaDevice *device, CudaGraph *graph, cudaGraph_t captured, int64_t *ret_bytes,
                            char *ret_reason)
{
    size_t before = 0, after = 0, total = 0;
    cudaError_t result = cudaMemGetInfo(&before, &total);
    if (result == cudaSuccess)
        result = cudaGraphInstantiate(&graph->exec, captured, 0);
    if (result == cudaSuccess)
        result = cudaGraphUpload(graph->exec, device->compute);
    if (result == cudaSuccess && !cuda_drain(device, device->compute, "upload of a recording"))
        return !cuda_failed(device, ret_reason);
    if (result == cudaSuccess)
        result = cudaMemGetInfo(&after, &total);
    if (result != cudaSuccess)
        snprintf(ret_reason, FEDGATE_REASON_SIZE, "instantiation: %s", cudaGetErrorString(result));
    *ret_bytes = before > after ? (int64_t)(before - after) : 0;
    return result == cudaSuccess;
}

void *cuda_record_end(void *handle, int64_t *ret_bytes, char *ret_reason)
{
    CudaDevice *device = (CudaDevice *)handle;
    CudaGraph *graph = device->recording;
    cudaGraph_t captured = NULL;
    if (!graph) {
        snprintf(ret_reason, FEDGATE_REASON_SIZE, "none was begun");
        return NULL;
    }
    cudaError_t result = cudaStreamEndCapture(device->compute, &captured);
    device->recording = NULL;
    cupti_quiet(false);
    cuda_lock_copies(device, false);
    bool good = result == cudaSuccess && !cuda_failed(device, ret_reason);
    if (result != cudaSuccess && !cuda_failed(device, ret_reason))
        snprintf(ret_reason, FEDGATE_REASON_SIZE, "capture: %s", cudaGetErrorString(result));
    if (good) {
        const int64_t nodes = count_nodes(captured);
        graph->operations = nodes - graph->events;
        clear_by_kernels(captured, nodes);
        good = check_nodes(captured, nodes, ret_reason) &&
               make_executable(device, graph, captured, ret_bytes, ret_reason);
    }
    if (captured)
        cudaGraphDestroy(captured);
    if (good)
        return graph;
    free_graph(graph);
    return NULL;
}

void cuda_replay(void *handle, void *recording, int64_t first_step)
{
    CudaDevice *device = (CudaDevice *)handle;
    const CudaGraph *graph = (const CudaGraph *)recording;
    const int64_t begin = trace_now(device);
    cuda_good(device, cudaGraphLaunch(graph->exec, device->compute), "replay");
    trace_note_replay(device, graph, first_step, begin);
}

void cuda_record_free(void *handle, void *recording)
{
    const CudaDevice *device = (const CudaDevice *)handle;
    if (!cuda_hangs(device))
        free_graph((CudaGraph *)recording);
}
