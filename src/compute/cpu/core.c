// core - which OpenBLAS kernels run, pinned by the environment before the library is loaded, and what the
// machine is.
//
// Debian's OpenBLAS 0.3.21 chooses kernels by its own table of processors and knows no newer one, and other
// kernels give other bits. So the core type follows the instruction set alone: SkylakeX with AVX-512 (BW, DQ,
// VL), Haswell with AVX2 and FMA, Nehalem below. The name read back from the library is what is recorded,
// whatever was asked for.
#include <fedgate/compute.h>

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "blas.h"
#include "cpu_internal.h"

// "L2 size" and "block factor" change the blocking and so the bits; NULL: must not be set
static const char *const fixed_variables[][2] = {
    {"OPENBLAS_L2_SIZE", "512"},
    {"OPENBLAS_NUM_THREADS", "1"},
    {"OPENBLAS_BLOCK_FACTOR", NULL},
    {"OPENBLAS_MAIN_FREE", NULL},
};

static const char *choose_core(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return "SkylakeX";
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return "Haswell";
    return "Nehalem";
#else
    return NULL;
#endif
}

static bool pin(const char *name, const char *value)
{
    const char *now = getenv(name);
    if (value ? now && strcmp(now, value) == 0 : now == NULL)
        return false;
    return value ? setenv(name, value, 1) == 0 : unsetenv(name) == 0;
}

bool device_pin_environment(void)
{
    bool changed = pin("OPENBLAS_CORETYPE", choose_core());
    for (size_t i = 0; i < sizeof fixed_variables / sizeof fixed_variables[0]; i++)
        changed |= pin(fixed_variables[i][0], fixed_variables[i][1]);
    return changed;
}

// What each core type's float kernels use; others are unknown, and so is then their peak.
static const char *const core_sets[][2] = {
    {"SkylakeX", "avx512"}, {"Cooperlake", "avx512"}, {"SapphireRapids", "avx512"}, {"Haswell", "avx2"},
    {"Zen", "avx2"},        {"Excavator", "avx2"},    {"Sandybridge", "avx"},       {"Bulldozer", "avx"},
    {"Piledriver", "avx"},  {"Steamroller", "avx"},   {"Nehalem", "sse2"},          {"Prescott", "sse2"},
    {"Core2", "sse2"},      {"Penryn", "sse2"},       {"Dunnington", "sse2"},       {"Barcelona", "sse2"},
};

static const char *instruction_set(const char *core)
{
    for (size_t i = 0; i < sizeof core_sets / sizeof core_sets[0]; i++)
        if (strcasecmp(core_sets[i][0], core) == 0)
            return core_sets[i][1];
    return "";
}

static void processor_name(char ret_name[static 64])
{
    snprintf(ret_name, 64, "processor");
#if defined(__x86_64__)
    unsigned words[12];
    for (unsigned i = 0; i < 3; i++)
        if (!__get_cpuid(0x80000002u + i, &words[4 * i], &words[4 * i + 1], &words[4 * i + 2],
                         &words[4 * i + 3]))
            return;
    char brand[sizeof words + 1];
    memcpy(brand, words, sizeof words);
    brand[sizeof words] = '\0';
    const char *begin = brand + strspn(brand, " ");
    size_t length = strlen(begin);
    while (length > 0 && begin[length - 1] == ' ')
        length--;
    if (length > 0)
        snprintf(ret_name, 64, "%.*s", (int)length, begin);
#endif
}

bool cpu_supported(char *ret_reason)
{
    float a[4] = {1, 2, 3, 4}, c[4] = {0};
    blas_multiply(BLAS_PLAIN, BLAS_PLAIN, 2, 2, 2, a, 2, a, 2, 0, c, 2);
    bool good = c[0] == 7 && c[1] == 10 && c[2] == 15 && c[3] == 22;
    if (!good)
        snprintf(ret_reason, FEDGATE_REASON_SIZE, "OpenBLAS core %s multiplies wrongly on this processor",
                 blas_core());
    return good;
}

void cpu_facts(FedgateFacts *ret_facts)
{
    char processor[64], version[64] = "";
    processor_name(processor);
    sscanf(blas_config(), "OpenBLAS %63s", version);
    snprintf(ret_facts->name, sizeof ret_facts->name, "%s (%s)", processor, blas_core());
    snprintf(ret_facts->libraries, sizeof ret_facts->libraries, "openblas %s core %s", version, blas_core());
    snprintf(ret_facts->core, sizeof ret_facts->core, "%s", blas_core());
    snprintf(ret_facts->instruction_set, sizeof ret_facts->instruction_set, "%s",
             instruction_set(blas_core()));
    ret_facts->types = 1u << FEDGATE_FP32 | 1u << FEDGATE_BF16 | 1u << FEDGATE_FP16;
    cpu_set_t set;
    ret_facts->cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    ret_facts->memory_bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * (int64_t)sysconf(_SC_PAGESIZE);
}
