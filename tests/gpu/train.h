// train.h - what a training's evidence says in figures, and the works that gpu_train measures.
#ifndef FEDGATE_TESTS_GPU_TRAIN_H
#define FEDGATE_TESTS_GPU_TRAIN_H

#include "gpu.h"

#include <fedgate/trainer.h>

typedef struct TrainFigures {
    double wait, hidden, busy, starved;   // shares: of host time, of copy time, of traced time
    double median_us, p99_us, longest_us, slow;   // steps by the device's clock; share of time in slow ones
    double steady_ns;   // mean step that lies beside no other work; NaN: not known
    double exposed_us, traced, observed;   // of the mean step; traced steps; host seconds spent on windows
} TrainFigures;
TrainFigures train_figures(const Json *evidence);   // NaN: not measured
void train_print(Gpu *gpu, const char *name, const TrainFigures *figures);

void train_works(Gpu *gpu);   // train_works.c
void train_overhead(Gpu *gpu);   // observed and unobserved runs in turn

#endif
