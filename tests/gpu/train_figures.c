// train_figures - the evidence of a training as a few figures.
#include "train.h"

#include <fedgate/json.h>
#include <stdio.h>

static double sum(const Json *evidence, const char *series)
{
    const Json *array = json_find(evidence, series);
    double total = json_is_array(array) && json_count(array) > 0 ? 0 : (double)NAN;
    for (size_t i = 0; i < json_count(array); i++)
        total += json_number_or(json_at(array, i), (double)NAN);
    return total;
}

static double number(const Json *evidence, const char *path)
{
    return json_number_or(json_find(evidence, path), (double)NAN);
}

TrainFigures train_figures(const Json *evidence)
{
    double length = sum(evidence, "timeline.steps.length_ns"), copy = sum(evidence, "timeline.steps.copy_ns"),
           hidden = sum(evidence, "timeline.steps.hidden_ns"),
           traced = (double)json_count(json_find(evidence, "timeline.steps.index"));
    return (TrainFigures){
        .wait = sum(evidence, "loop.steps.wait_ns") / sum(evidence, "loop.steps.wall_ns"),
        .hidden = hidden / copy,
        .busy = sum(evidence, "timeline.steps.kernel_ns") / length,
        .starved = sum(evidence, "timeline.steps.starved_ns") / length,
        .median_us = number(evidence, "timeline.device_steps.median_ns") / 1e3,
        .p99_us = number(evidence, "timeline.device_steps.p99_ns") / 1e3,
        .longest_us = number(evidence, "timeline.device_steps.longest_ns") / 1e3,
        .slow = number(evidence, "timeline.device_steps.slow_ns") /
                number(evidence, "timeline.device_steps.total_ns"),
        .steady_ns = number(evidence, "timeline.device_steps.total_ns") /
                     number(evidence, "timeline.device_steps.covered"),
        .exposed_us = (copy - hidden) / traced / 1e3,
        .traced = traced,
        .observed = number(evidence, "timeline.observation_ns") / 1e9,
    };
}

void train_print(Gpu *gpu, const char *name, const TrainFigures *figures)
{
    const struct {
        const char *what, *unit;
        double value;
    } rows[] = {{"batch wait", "share", figures->wait},
                {"copy time hidden by kernels", "share", figures->hidden},
                {"exposed copy of a step", "us", figures->exposed_us},
                {"kernels busy (ceiling of hiding)", "share", figures->busy},
                {"without device work", "share", figures->starved},
                {"median step by the device's clock", "us", figures->median_us},
                {"99th percentile step", "us", figures->p99_us},
                {"longest step", "us", figures->longest_us},
                {"time in steps over 3 medians", "share", figures->slow},
                {"traced steps", "steps", figures->traced},
                {"host time spent on windows", "s", figures->observed}};
    char line[160];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (!isnan(rows[i].value)) {
            snprintf(line, sizeof line, "%s: %s", name, rows[i].what);
            gpu_row(gpu, line, rows[i].value, rows[i].unit, NAN);
        }
}
