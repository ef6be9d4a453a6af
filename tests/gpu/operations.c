// operations - every operation of a back end in every type and many shapes against float64 and the cpu back
// end, each run twice. Arguments: the back end, 'cuda' when none is given; a part.
#include "gpu.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *name;
    void (*run)(Gpu *gpu);
} parts[] = {{"elements", test_elements}, {"probes", test_probes}, {"products", test_products}};

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
