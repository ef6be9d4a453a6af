// operations_loss - losses with their gradients, scores and norms: within a few units of float64.
#include "operations.h"

#include <fedgate/random.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Judged {
    double sum, gradient, score;
    int64_t differ;
} Judged;

static void judge_loss(Gpu *gpu, FedgateLossKind kind, FedgateType type, int64_t rows, int64_t outputs,
                       Judged *ret)
{
    Error error = ERROR_INIT;
    double zero = 0, there[2], here = 0, *scores = calloc((size_t)(rows * outputs), sizeof *scores),
           *got = calloc((size_t)(rows * outputs), sizeof *got);
    Array logits = array_noise(gpu, FEDGATE_FP32, rows * outputs, 0, 71, 20),
          gradient = array_new(gpu, type, rows * outputs, 0);
    float *label = malloc((size_t)rows * sizeof *label);
    for (int64_t i = 0; i < rows; i++)
        label[i] = kind == FEDGATE_LOSS_SQUARE
                       ? (float)random_unit(72, (uint64_t)i)
                       : (float)(int)(random_unit(72, (uint64_t)i) * (double)(outputs > 1 ? outputs : 2));
    Array target = array_of(gpu, FEDGATE_FP32, label, rows);
    double *sum = device_take(gpu->device, "test", sizeof *sum, &error),
           *score = device_take(gpu->device, "test", rows * outputs * (int64_t)sizeof *score, &error);
    FedgateLoss op = {kind, logits.at, target.at,       type, gradient.at, sum,
                      rows, outputs,   1 / (float)rows, NULL};
    for (int pass = 0; pass < 2; pass++) {
        gpu_need(device_load(gpu->device, sum, &zero, sizeof zero, &error), &error);
        device_loss(gpu->device, &op);
        gpu_need(device_copy_out(gpu->device, &there[pass], sum, sizeof zero, &error), &error);
    }
    array_fetch(gpu, &gradient);
    device_score(gpu->device, &(FedgateScore){kind, logits.at, score, rows, outputs});
    gpu_need(device_copy_out(gpu->device, got, score, rows * outputs * (int64_t)sizeof *got, &error), &error);
    Array expected = array_new(gpu, type, rows * outputs, 0);
    op = (FedgateLoss){kind, logits.plain, target.plain,    type, expected.host, &here,
                       rows, outputs,      1 / (float)rows, NULL};
    device_loss(gpu->cpu, &op);
    device_score(gpu->cpu, &(FedgateScore){kind, logits.plain, scores, rows, outputs});
    device_cast(gpu->cpu, &(FedgateCast){expected.plain, expected.host, FEDGATE_FP32, type, rows * outputs});
    ret->sum = gpu_worse(ret->sum, operations_off(there[0], here));
    ret->differ += memcmp(&there[0], &there[1], sizeof zero) != 0;
    for (int64_t i = 0; i < rows * outputs; i++) {
        double e = (double)expected.plain[i], d = fabs((double)gradient.plain[i] - e);
        double units = d == 0 ? 0
                              : d / (device_type_roundoff(type) * 2 *
                                     fmax(fabs(e), type == FEDGATE_FP16 ? 0x1p-14 : 0x1p-126));
        ret->gradient = gpu_worse(ret->gradient, units);
        ret->score = gpu_worse(ret->score, operations_off(got[i], scores[i]));
    }
    device_give(gpu->device, "test", sum, sizeof *sum);
    device_give(gpu->device, "test", score, rows * outputs * (int64_t)sizeof *score);
    array_free(gpu, &logits), array_free(gpu, &gradient), array_free(gpu, &target),
        array_free(gpu, &expected);
    free(label), free(scores), free(got);
}

static void losses(Gpu *gpu, FedgateType type)
{
    static const char *const names[] = {"binary", "classes", "square"};
    char text[96];
    for (int kind = 0; kind < 3; kind++) {
        Judged judged = {0};
        judge_loss(gpu, (FedgateLossKind)kind, type, 1, kind == 1 ? 3 : 1, &judged);
        judge_loss(gpu, (FedgateLossKind)kind, type, 8191, kind == 1 ? 10 : 1, &judged);
        snprintf(text, sizeof text, "loss %s %s, sum off the cpu's", names[kind], device_type_name(type));
        gpu_row(gpu, text, judged.sum, "relative", 1e-12);
        snprintf(text, sizeof text, "loss %s %s, gradient off the cpu's", names[kind],
                 device_type_name(type));
        gpu_row(gpu, text, judged.gradient, "units", 1);
        snprintf(text, sizeof text, "scores %s %s, off the cpu's", names[kind], device_type_name(type));
        gpu_row(gpu, text, judged.score, "relative", 1e-13);
        gpu->failures += judged.differ > 0;
    }
}

static void norms(Gpu *gpu)
{
    Error error = ERROR_INIT;
    double worst = 0, there, here, *sum = device_take(gpu->device, "test", sizeof *sum, &error);
    for (int64_t count = 1; count < 40000000; count = count * 17 + 3) {
        Array x = array_noise(gpu, FEDGATE_FP32, count, 1, 81, 5);
        device_square_sum(gpu->device, x.at, count, sum);
        gpu_need(device_copy_out(gpu->device, &there, sum, sizeof there, &error), &error);
        device_square_sum(gpu->cpu, x.plain, count, &here);
        worst = gpu_worse(worst, operations_off(there / here, 1));
        array_free(gpu, &x);
    }
    gpu_row(gpu, "square sum off the cpu's", worst, "relative", 1e-12);
    device_give(gpu->device, "test", sum, sizeof *sum);
}

void test_losses(Gpu *gpu)
{
    for (int t = 0; t < 3; t++)
        losses(gpu, (FedgateType)t);
    norms(gpu);
}
