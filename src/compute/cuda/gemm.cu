// gemm.cu - multiplications through cuBLASLt, found at run time; plans made once a shape.
//
// FP32 multiplies in CUBLAS_COMPUTE_32F, which never rounds operands to TF32; BF16 and FP16 sum in FP32, and
// split-K may keep its partial sums in FP32 only. One handle, one stream, one workspace: the same bits from
// run to run. A plan is for pointers as aligned as those it was searched with: parameters lie where the
// layout of the network ends, and a kernel for wide loads would fault on them.
#include "cuda_internal.h"

#include <cublasLt.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GEMM_ALIGNMENT = 256, TILE = 128 };   // bytes; rows and columns a multiprocessor has at a time, about

// What is used of the library, as a table: one row a function.
#define LT_FUNCTIONS(ROW)                                                                                    \
    ROW(cublasLtCreate)                                                                                      \
    ROW(cublasLtDestroy)                                                                                     \
    ROW(cublasLtGetVersion)                                                                                  \
    ROW(cublasLtMatmul)                                                                                      \
    ROW(cublasLtMatmulDescCreate)                                                                            \
    ROW(cublasLtMatmulDescDestroy)                                                                           \
    ROW(cublasLtMatmulDescSetAttribute)                                                                      \
    ROW(cublasLtMatrixLayoutCreate)                                                                          \
    ROW(cublasLtMatrixLayoutDestroy)                                                                         \
    ROW(cublasLtMatmulPreferenceCreate)                                                                      \
    ROW(cublasLtMatmulPreferenceDestroy)                                                                     \
    ROW(cublasLtMatmulPreferenceSetAttribute)                                                                \
    ROW(cublasLtMatmulAlgoGetHeuristic)

typedef struct Lt {
    void *library;
#define ROW(name) decltype(&::name) name;
    LT_FUNCTIONS(ROW)
#undef ROW
} Lt;

typedef struct PlanKey {   // compared as bytes: filled over zeros
    int type, out_type, transpose_a, transpose_b, epilogue, tf32;
    uint32_t a_alignment, b_alignment, d_alignment;
    int64_t m, n, k;
} PlanKey;
typedef struct Plan {
    PlanKey key;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t a, b, d;
    cublasLtMatmulAlgo_t algorithm;
    size_t workspace;
    bool usable;
} Plan;

struct CudaGemm {
    Lt lt;
    cublasLtHandle_t handle;
    Plan plans[CUDA_PLANS];
    int count;
};

static bool load_functions(Lt *lt, char *ret_reason)
{
#define ROW(name)                                                                                            \
    lt->name = (decltype(lt->name))dlsym(lt->library, #name);                                                \
    if (!lt->name) {                                                                                         \
        snprintf(ret_reason, FEDGATE_REASON_SIZE, "cuBLASLt has no function '%s'", #name);                   \
        return false;                                                                                        \
    }
    LT_FUNCTIONS(ROW)
#undef ROW
    return true;
}

CudaGemm *gemm_open(char *ret_libraries, size_t size, char *ret_reason)
{
    static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
    CudaGemm *gemm = (CudaGemm *)calloc(1, sizeof *gemm);
    char tried[FEDGATE_REASON_SIZE - 40];
    if (!gemm)
        return NULL;
    gemm->lt.library = cuda_library(names, 2, tried, sizeof tried);
    if (!gemm->lt.library)
        snprintf(ret_reason, FEDGATE_REASON_SIZE, "cuBLASLt is not found; tried %.180s", tried);
    else if (load_functions(&gemm->lt, ret_reason)) {
        if (gemm->lt.cublasLtCreate(&gemm->handle) == CUBLAS_STATUS_SUCCESS) {
            const size_t version = gemm->lt.cublasLtGetVersion();
            snprintf(ret_libraries, size, "cuBLASLt %zu.%zu.%zu", version / 10000, version / 100 % 100,
                     version % 100);
            return gemm;
        }
        snprintf(ret_reason, FEDGATE_REASON_SIZE, "cuBLASLt could not be started");
    }
    gemm_close(gemm);
    return NULL;
}

static void plan_done(const Lt *lt, Plan *plan)
{
    if (plan->operation)
        lt->cublasLtMatmulDescDestroy(plan->operation);
    cublasLtMatrixLayout_t layouts[] = {plan->a, plan->b, plan->d};
    for (int i = 0; i < 3; i++)
        if (layouts[i])
            lt->cublasLtMatrixLayoutDestroy(layouts[i]);
}

void gemm_close(CudaGemm *gemm)
{
    if (!gemm)
        return;
    for (int i = 0; i < gemm->count; i++)
        plan_done(&gemm->lt, &gemm->plans[i]);
    if (gemm->handle)
        gemm->lt.cublasLtDestroy(gemm->handle);
    free(gemm);   // the library stays loaded: its threads may outlive the handle
}

// -- plans

static cudaDataType_t data_type(int type)
{
    return type == FEDGATE_BF16 ? CUDA_R_16BF : type == FEDGATE_FP16 ? CUDA_R_16F : CUDA_R_32F;
}

static bool describe(const Lt *lt, Plan *plan)
{
    const PlanKey *key = &plan->key;
    cublasOperation_t a = key->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N,
                      b = key->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtEpilogue_t epilogue = (cublasLtEpilogue_t)key->epilogue;
    int64_t a_rows = key->transpose_a ? key->k : key->m, a_columns = key->transpose_a ? key->m : key->k;
    int64_t b_rows = key->transpose_b ? key->n : key->k, b_columns = key->transpose_b ? key->k : key->n;
    const cublasComputeType_t compute = key->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    return lt->cublasLtMatmulDescCreate(&plan->operation, compute, CUDA_R_32F) == 0 &&
           lt->cublasLtMatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_TRANSA, &a, sizeof a) ==
               0 &&
           lt->cublasLtMatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_TRANSB, &b, sizeof b) ==
               0 &&
           lt->cublasLtMatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                              sizeof epilogue) == 0 &&
           lt->cublasLtMatrixLayoutCreate(&plan->a, data_type(key->type), (uint64_t)a_rows,
                                          (uint64_t)a_columns, a_rows) == 0 &&
           lt->cublasLtMatrixLayoutCreate(&plan->b, data_type(key->type), (uint64_t)b_rows,
                                          (uint64_t)b_columns, b_rows) == 0 &&
           lt->cublasLtMatrixLayoutCreate(&plan->d, data_type(key->out_type), (uint64_t)key->m,
                                          (uint64_t)key->n, key->m) == 0;
}

typedef struct Preference {
    cublasLtMatmulPreferenceAttributes_t attribute;
    const void *value;
    size_t size;
} Preference;

static bool prefer(const Lt *lt, cublasLtMatmulPreference_t preference, const PlanKey *key)
{
    // In place or in the type of the output, partial sums of split-K would be added in half precision; and
    // its reduction rounds the sum to the type of the output before an epilogue adds the bias (seen on an
    // H200 with cuBLASLt 13.1, in BF16: two roundings).
    static const uint64_t workspace = CUDA_GEMM_WORKSPACE;
    const uint32_t reductions = key->epilogue == CUBLASLT_EPILOGUE_DEFAULT
                                    ? CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
                                    : CUBLASLT_REDUCTION_SCHEME_NONE;
    const Preference wanted[] = {
        {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace},
        {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions, sizeof reductions},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &key->a_alignment, sizeof key->a_alignment},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &key->b_alignment, sizeof key->b_alignment},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &key->d_alignment, sizeof key->d_alignment},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &key->d_alignment, sizeof key->d_alignment},
    };
    for (const Preference &p : wanted)
        if (lt->cublasLtMatmulPreferenceSetAttribute(preference, p.attribute, p.value, p.size) != 0)
            return false;
    return true;
}

static bool search(CudaGemm *gemm, Plan *plan)
{
    const Lt *lt = &gemm->lt;
    cublasLtMatmulPreference_t preference = NULL;
    cublasLtMatmulHeuristicResult_t found;
    int count = 0;
    bool good = lt->cublasLtMatmulPreferenceCreate(&preference) == 0 && prefer(lt, preference, &plan->key) &&
                lt->cublasLtMatmulAlgoGetHeuristic(gemm->handle, plan->operation, plan->a, plan->b, plan->d,
                                                   plan->d, preference, 1, &found, &count) == 0 &&
                count > 0;
    if (preference)
        lt->cublasLtMatmulPreferenceDestroy(preference);
    if (good) {
        plan->algorithm = found.algo;
        plan->workspace = found.workspaceSize;
    }
    return good;
}

static Plan *find_plan(CudaGemm *gemm, const PlanKey *key)
{
    for (int i = 0; i < gemm->count; i++)
        if (memcmp(&gemm->plans[i].key, key, sizeof *key) == 0)
            return &gemm->plans[i];
    if (gemm->count == CUDA_PLANS) {   // more shapes than a night has: the oldest goes
        plan_done(&gemm->lt, &gemm->plans[0]);
        memmove(&gemm->plans[0], &gemm->plans[1], (CUDA_PLANS - 1) * sizeof gemm->plans[0]);
        gemm->count--;
    }
    Plan *plan = &gemm->plans[gemm->count++];
    memset(plan, 0, sizeof *plan);
    plan->key = *key;
    plan->usable = describe(&gemm->lt, plan) && search(gemm, plan);
    return plan;
}

static uint32_t alignment_of(const void *address)
{
    uintptr_t bits = (uintptr_t)address | GEMM_ALIGNMENT;
    return (uint32_t)(bits & (~bits + 1));
}

static PlanKey key_of(const Product *p)
{
    PlanKey key;
    memset(&key, 0, sizeof key);
    key.type = p->type;
    key.out_type = p->out_type;
    key.transpose_a = p->transpose_a;
    key.transpose_b = p->transpose_b;
    key.epilogue = p->bias   ? p->relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS
                   : p->relu ? CUBLASLT_EPILOGUE_RELU
                             : CUBLASLT_EPILOGUE_DEFAULT;
    key.a_alignment = alignment_of(p->a);
    key.b_alignment = alignment_of(p->b);
    key.d_alignment = alignment_of(p->d);
    key.m = p->m;
    key.n = p->n;
    key.k = p->k;
    return key;
}

static bool refuse(CudaDevice *device, const Product *p, const char *why, int status)
{
    char words[160];
    snprintf(words, sizeof words, "%s %d for %lld x %lld x %lld of type %d", why, status, (long long)p->m,
             (long long)p->n, (long long)p->k, (int)p->type);
    cuda_fail(device, "multiply", words);
    return false;
}

static bool is_coarse(const CudaDevice *device, const Product *p)
{
    return p->type == FEDGATE_BF16 && cuda_fault(device, "compute.bf16_sums", 0) > 0;
}

static Plan *plan_of(CudaDevice *device, const Product *p)
{
    PlanKey key = key_of(p);
    key.tf32 = p->type == FEDGATE_FP32 && cuda_fault(device, "compute.tf32", 0) > 0;
    Plan *plan = find_plan(device->gemm, &key);
    if (!plan->usable)
        refuse(device, p, "cuBLASLt knows no way, epilogue", key.epilogue);
    return plan->usable ? plan : NULL;
}

static bool run(CudaDevice *device, const Plan *plan, const Product *p, void *workspace, cudaStream_t stream)
{
    const CudaGemm *gemm = device->gemm;
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    if (p->bias)
        status = gemm->lt.cublasLtMatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                                         &p->bias, sizeof p->bias);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = gemm->lt.cublasLtMatmul(gemm->handle, plan->operation, &p->alpha, p->a, plan->a, p->b,
                                         plan->b, &p->beta, p->d, plan->d, p->d, plan->d, &plan->algorithm,
                                         workspace, plan->workspace, stream);
    return status == CUBLAS_STATUS_SUCCESS || refuse(device, p, "cuBLASLt status", (int)status);
}

bool gemm_multiply(CudaDevice *device, const Product *p)
{
    if (is_coarse(device, p))
        return planted_coarse(device, p);
    const Plan *plan = plan_of(device, p);
    return plan && run(device, plan, p, device->workspace, device->compute);
}

bool gemm_fork(CudaDevice *device, const Product *beside, const Product *p)
{
    const int64_t most = (int64_t)device->multiprocessors * TILE * TILE;
    if (!device->recording || is_coarse(device, p) || p->m * p->n > 2 * most || beside->m * beside->n > most)
        return false;
    const Plan *plan = plan_of(device, p);
    const size_t at = plan ? (plan->workspace + GEMM_ALIGNMENT - 1) / GEMM_ALIGNMENT * GEMM_ALIGNMENT : 0;
    const Plan *other = plan_of(device, beside);   // may move the first one
    if (!plan || !other || at + other->workspace > CUDA_GEMM_WORKSPACE)
        return false;
    return cuda_good(device, cudaEventRecord(device->forked, device->compute), "fork") &&
           cuda_good(device, cudaStreamWaitEvent(device->side, device->forked, 0), "fork") &&
           run(device, other, beside, (char *)device->workspace + at, device->side);
}

void gemm_join(CudaDevice *device)
{
    if (cuda_good(device, cudaEventRecord(device->joined, device->side), "join"))
        cuda_good(device, cudaStreamWaitEvent(device->compute, device->joined, 0), "join");
}
