// roofline - attainable = min(P_peak, I x B_mem): peaks of devices, work of a layer and of a step.
#include "plan_internal.h"

#include <fnmatch.h>
#include <string.h>

#define B200 "NVIDIA Blackwell architecture brief (HGX B200, 1000 W), dense"
#define H200 "NVIDIA H200 Tensor Core GPU datasheet (SXM), dense = half of the figure with sparsity"
#define H100 "NVIDIA H100 Tensor Core GPU architecture whitepaper (SXM5), dense"
#define A100 "NVIDIA A100 Tensor Core GPU datasheet, dense"
#define V100 "NVIDIA V100 Tensor Core GPU datasheet"

// Dense rates at the boost clock. A device or precision that is not here is unknown: what depends on it is
// not measured.
static const DevicePeak peaks[] = {
    {"NVIDIA B200", "fp32", 80e12, 8e12, 126e6, B200},
    {"NVIDIA B200", "tf32", 1100e12, 8e12, 126e6, B200},
    {"NVIDIA B200", "bf16", 2250e12, 8e12, 126e6, B200},
    {"NVIDIA B200", "fp16", 2250e12, 8e12, 126e6, B200},
    {"NVIDIA B200", "fp8", 4500e12, 8e12, 126e6, B200},
    {"NVIDIA H200", "fp32", 66.9e12, 4.8e12, 50e6, H200},
    {"NVIDIA H200", "tf32", 494.7e12, 4.8e12, 50e6, H200},
    {"NVIDIA H200", "bf16", 989.4e12, 4.8e12, 50e6, H200},
    {"NVIDIA H200", "fp16", 989.4e12, 4.8e12, 50e6, H200},
    {"NVIDIA H200", "fp8", 1978.9e12, 4.8e12, 50e6, H200},
    {"NVIDIA H100 80GB HBM3", "fp32", 66.9e12, 3.35e12, 50e6, H100},
    {"NVIDIA H100 80GB HBM3", "tf32", 494.7e12, 3.35e12, 50e6, H100},
    {"NVIDIA H100 80GB HBM3", "bf16", 989.4e12, 3.35e12, 50e6, H100},
    {"NVIDIA H100 80GB HBM3", "fp16", 989.4e12, 3.35e12, 50e6, H100},
    {"NVIDIA H100 80GB HBM3", "fp8", 1978.9e12, 3.35e12, 50e6, H100},
    {"NVIDIA A100-SXM4-80GB", "fp32", 19.5e12, 2.039e12, 40e6, A100},
    {"NVIDIA A100-SXM4-80GB", "tf32", 156e12, 2.039e12, 40e6, A100},
    {"NVIDIA A100-SXM4-80GB", "bf16", 312e12, 2.039e12, 40e6, A100},
    {"NVIDIA A100-SXM4-80GB", "fp16", 312e12, 2.039e12, 40e6, A100},
    {"NVIDIA A100-SXM4-40GB", "fp32", 19.5e12, 1.555e12, 40e6, A100},
    {"NVIDIA A100-SXM4-40GB", "tf32", 156e12, 1.555e12, 40e6, A100},
    {"NVIDIA A100-SXM4-40GB", "bf16", 312e12, 1.555e12, 40e6, A100},
    {"NVIDIA A100-SXM4-40GB", "fp16", 312e12, 1.555e12, 40e6, A100},
    {"Tesla V100-SXM2-*", "fp32", 15.7e12, 0.9e12, 6e6, V100},
    {"Tesla V100-SXM2-*", "fp16", 125e12, 0.9e12, 6e6, V100},
};

const DevicePeak *plan_device_peak(const char *device, const char *precision)
{
    for (size_t i = 0; i < sizeof peaks / sizeof peaks[0]; i++)
        if (text_equal(peaks[i].precision, precision) && fnmatch(peaks[i].device, device, 0) == 0)
            return &peaks[i];
    return NULL;
}

double plan_cpu_peak(int cores, const char *instruction_set)
{
    // FP32 FLOP a cycle: lanes x 2 for a multiply and an add x 2 units, except where one unit each multiplies
    // and adds
    static const struct {
        const char *name;
        double flop_per_cycle;
    } sets[] = {{"sse2", 8}, {"avx", 16}, {"avx2", 32}, {"avx512", 64}};
    const double cycles_per_second = 6e9;   // above every clock sold: an upper bound, not a measurement
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++)
        if (text_equal(sets[i].name, instruction_set))
            return cores > 0 ? cores * cycles_per_second * sets[i].flop_per_cycle : 0;
    return 0;
}

void plan_roofline(double flop, double bytes, double peak_flops, double bandwidth, Roofline *ret)
{
    *ret = (Roofline){.flop = flop, .bytes = bytes, .peak_flops = peak_flops, .bandwidth = bandwidth};
    ret->intensity = bytes > 0 ? flop / bytes : 0;
    ret->ridge = bandwidth > 0 ? peak_flops / bandwidth : 0;
    ret->memory_bound = bandwidth > 0 && ret->intensity * bandwidth < peak_flops;
    ret->attainable = ret->memory_bound ? ret->intensity * bandwidth : peak_flops;
}

void plan_roofline_layer(int64_t rows, int64_t in, int64_t out, int64_t element_bytes, double peak_flops,
                         double bandwidth, Roofline *ret)
{
    double m = (double)rows, k = (double)in,
           n = (double)out;   // exact up to 2^53, beyond every layer that fits a device
    plan_roofline(2 * m * k * n, (m * k + k * n + m * n) * (double)element_bytes, peak_flops, bandwidth, ret);
    ret->rows = rows;
    ret->in = in;
    ret->out = out;
    ret->element_bytes = element_bytes;
}

// Operands and results of each product, moved once. Logits and gradients of parameters are FP32 whatever the
// network is; numeric inputs need no gradient.
void plan_pass_work(const PlanShape *shape, bool backward, PassWork *ret)
{
    const double element = (double)shape->bytes_per_element, fp32 = 4;
    double in = (double)plan_input_width(shape);
    *ret = (PassWork){0};
    for (size_t i = 0; i <= shape->layers; i++) {
        const bool last = i == shape->layers, input_gradient = backward && (i > 0 || shape->categorical > 0);
        const double out = (double)(last ? shape->outputs : shape->hidden[i]);
        ret->row_flop += 2 * in * out * (input_gradient ? 2 : 1);
        ret->row_bytes += element * in + (last && !backward ? fp32 : element) * out;
        ret->pass_bytes += (backward ? fp32 : element) * in * out;
        ret->row_bytes += input_gradient ? element * (in + out) : 0;
        ret->pass_bytes += input_gradient ? element * in * out : 0;
        in = out;
    }
}

// Forward, weight gradient and input gradient are one product each; of the first layer's inputs only
// embeddings need a gradient. Both figures are lower bounds of the work, so that an honest claim never looks
// too fast.
void plan_step_work(const PlanShape *shape, int64_t batch, double *ret_flop, double *ret_bytes)
{
    double rows = (double)batch, in = (double)plan_input_width(shape),
           needs_gradient = in - (double)shape->numeric;
    double flop = 0, activations = 0, weights = 0, element = (double)shape->bytes_per_element;
    for (size_t i = 0; i <= shape->layers; i++) {
        double out = (double)(i < shape->layers ? shape->hidden[i] : shape->outputs);
        flop += 2 * rows * out * (in + in + needs_gradient);
        activations += rows * out;
        weights += (in + 1) * out;
        in = needs_gradient = out;
    }
    double inputs = rows * (double)(shape->numeric + shape->categorical + 1);
    *ret_flop = flop;
    // inputs read once, activations written and read, weights and both moments of AdamW read and written in
    // FP32
    *ret_bytes = inputs * 4 + 2 * activations * element + 2 * 3 * weights * 4;
}
