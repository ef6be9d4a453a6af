// model_clock - what a step lasts on the simulated clock: loading, copy and compute as a tandem queue, from
// declared durations.
//
// Batch b is loaded by worker b mod workers once batch b - prefetch was taken; copied after it is loaded,
// after the copy before it, and when the compute of batch b - 1 begins (planted fault copy.serial: when it
// ends); computed when the host has it.
#include "trainer_internal.h"

#include <fedgate/fault.h>

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

void model_clock_init(ModelClock *model, int64_t now_ns, int64_t workers, int64_t prefetch)
{
    *model = (ModelClock){
        .load_ns = (int64_t)(fault_value("model.load_ns", 100e3) + fault_value("decode.slow_ns", 0)),
        .copy_ns = (int64_t)(fault_value("model.copy_ns", 20e3) + fault_value("copy.slow_ns", 0)),
        .compute_ns = (int64_t)fault_value("model.compute_ns", 1e6),
        .overhead_ns = (int64_t)fault_value("model.step_overhead_ns", 5e3),
        .workers = workers < MODEL_WORKERS ? workers : MODEL_WORKERS,
        .prefetch = prefetch < MODEL_PREFETCH ? prefetch : MODEL_PREFETCH,
        .serial = fault_set("copy.serial"),
        .pageable = fault_set("copy.pageable"),
        .copy_free_ns = now_ns,
        .compute_begin_ns = now_ns,
        .compute_end_ns = now_ns,
    };
    for (int i = 0; i < MODEL_WORKERS; i++)
        model->free_ns[i] = now_ns;
    for (int i = 0; i < MODEL_PREFETCH; i++)
        model->taken_ns[i] = now_ns;
}

void model_clock_step(ModelClock *model, int64_t now_ns, ModelStep *ret_step)
{
    int64_t *worker = &model->free_ns[model->batch % model->workers],
            *taken = &model->taken_ns[model->batch % model->prefetch];
    ModelStep step = {.load_end = later(*worker, *taken) + model->load_ns};
    int64_t slot = model->serial ? model->compute_end_ns : model->compute_begin_ns;
    if (model->serial && model->batch > 0)
        slot = later(slot, now_ns);
    step.copy_begin = later(later(step.load_end, slot), model->copy_free_ns);
    step.copy_end = step.copy_begin + model->copy_ns;
    step.compute_begin = later(now_ns, step.copy_end);
    step.compute_end = step.compute_begin + model->compute_ns;
    *worker = step.load_end;
    *taken = step.copy_begin;
    model->copy_free_ns = step.copy_end;
    model->compute_begin_ns = step.compute_begin;
    model->compute_end_ns = step.compute_end;
    model->batch++;
    *ret_step = step;
}

void model_clock_trace(const ModelClock *model, const ModelStep *modelled, int64_t step, int64_t bytes,
                       Timeline *timeline)
{
    Span mark = {.kind = SPAN_STEP_MARK,
                 .begin = modelled->compute_begin,
                 .end = modelled->compute_begin,
                 .launched_ns = modelled->compute_begin,
                 .step = step,
                 .name = "step"};
    Span copy = {.kind = SPAN_COPY_H2D,
                 .stream = 1,
                 .begin = modelled->copy_begin,
                 .end = modelled->copy_end,
                 .launched_ns = modelled->copy_begin,
                 .step = step,
                 .bytes = bytes,
                 .pageable = model->pageable,
                 .name = "copy"};
    Span kernel = mark;
    kernel.kind = SPAN_KERNEL;
    kernel.end = modelled->compute_end;
    timeline_add(timeline, &copy);
    timeline_add(timeline, &mark);
    timeline_add(timeline, &kernel);
}
