// operations - every operation of a back end in every type and many shapes against float64 and the cpu back
// end, each run twice. Arguments: the back end, 'cuda' when none is given; a part.
#include "operations.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *name;
    void (*run)(Gpu *gpu);
} parts[] = {{"inputs", test_inputs}, {"elements", test_elements}, {"losses", test_losses},
             {"probes", test_probes}, {"products", test_products}, {"recordings", test_recordings}};

int64_t operations_differing(Gpu *gpu, Both run, const void *how, Array *arrays, int count)
{
    void *device[BOTH_ARRAYS] = {NULL}, *host[BOTH_ARRAYS] = {NULL};
    int64_t differ = 0;
    for (int i = 0; i < count; i++) {
        array_reset(gpu, &arrays[i]);
        device[i] = arrays[i].at;
        host[i] = arrays[i].before;
    }
    run(gpu->device, device, how);
    run(gpu->cpu, host, how);
    for (int i = 0; i < count; i++) {
        array_fetch(gpu, &arrays[i]);
        float *expected = malloc((size_t)arrays[i].count * sizeof *expected);
        device_cast(gpu->cpu,
                    &(FedgateCast){expected, host[i], FEDGATE_FP32, arrays[i].type, arrays[i].count});
        for (int64_t k = 0; k < arrays[i].count; k++)
            differ += memcmp(&arrays[i].plain[k], &expected[k], sizeof *expected) != 0 &&
                      !(isnan(arrays[i].plain[k]) && isnan(expected[k]));
        free(expected);
    }
    return differ;
}

void operations_equal_row(Gpu *gpu, const char *name, FedgateType type, int64_t differ)
{
    char text[96];
    snprintf(text, sizeof text, "%s %s, not the cpu's bits", name, device_type_name(type));
    gpu_row(gpu, text, (double)differ, "elements", 0);
}

void operations_seen_row(Gpu *gpu, const char *what, bool seen)
{
    char text[96];
    snprintf(text, sizeof text, "%s is not seen", what);
    gpu_row(gpu, text, seen ? 0 : 1, "of 1", 0);
}

double operations_off(double value, double expected)
{
    double difference = fabs(value - expected) / fmax(fabs(expected), 1);
    return isnan(value) && isnan(expected) ? 0 : isnan(difference) ? INFINITY : difference;
}

int main(int argc, char **argv)
{
    if (device_pin_environment())
        execv("/proc/self/exe", argv);
    Gpu gpu;
    gpu_open(&gpu, argc > 1 ? argv[1] : "cuda");
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (argc < 3 || strcmp(argv[2], parts[i].name) == 0)
            parts[i].run(&gpu);
    return gpu_close(&gpu);
}
