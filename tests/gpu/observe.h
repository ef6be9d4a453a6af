// observe.h - what the parts of gpu_observe share: a small training that is fed as at night, in launches of
// several steps, by recordings or one by one.
#ifndef FEDGATE_TESTS_GPU_OBSERVE_H
#define FEDGATE_TESTS_GPU_OBSERVE_H

#include "gpu.h"

#include "../../src/trainer/trainer_internal.h"

enum { OBSERVE_SLOTS = 3, OBSERVE_AHEAD = 2 };   // batches of launches on the device; launches queued ahead

typedef struct Work {
    const char *name;
    int64_t rows;
    TrainShape shape;
    int group, launches;   // steps of a launch; launches of a round
} Work;

typedef struct Fed {   // a network and what feeds it
    Gpu *gpu;
    const Work *work;
    Network network;
    int64_t slot_bytes, step_floats, next;   // launches so far
    float *pinned[OBSERVE_SLOTS], *heap[OBSERVE_SLOTS], *batch[OBSERVE_SLOTS];
    DeviceEvent *copied[OBSERVE_SLOTS], *freed[OBSERVE_SLOTS];
    DeviceRecording *recording[OBSERVE_SLOTS];
    bool pageable, recorded;   // copies come from memory that is not pinned; launches are replays
} Fed;

void fed_open(Fed *fed, Gpu *gpu, const Work *work);
void fed_close(Fed *fed);
void fed_start(Fed *fed);   // initial weights, step 0
void fed_record(Fed *fed);   // new recordings, instead of those there were
void fed_launch(Fed *fed, int launches);   // returns with the last of them queued
void fed_wait(Fed *fed);

void test_windows(Fed *fed);   // observe_window.c
// Records of a window over recordings that are older than the profiler's start.
void test_first_window(Fed *fed);
double fed_step_us(Fed *fed, bool traced);   // observe_cost.c: median of rounds
void test_memory(Gpu *gpu, const char *when);
void test_faults(Gpu *gpu, const Work *work, const char *backend);   // in a build with planted faults
// Each in a process of its own, before anything of CUDA is called here.
void test_hang(const char *backend, char *ret_words, size_t size);
void test_slot(const char *backend, char *ret_words, size_t size);

#endif
