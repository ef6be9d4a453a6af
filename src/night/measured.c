// measured - on what the figures of a night were measured, and how much of it was seen: member `measured` of
// the verdict, for people. What the evidence does not hold is left out.
#include "night_internal.h"

#include <math.h>

static double sum_of(const Json *steps, const char *key)
{
    const Json *array = json_get(steps, key);
    double sum = 0;
    for (size_t i = 0; i < json_count(array); i++)
        sum += json_number_or(json_at(array, i), NAN);
    return sum;
}

// Recorded stretches; without a list of them each run of consecutive steps is one.
static int64_t count_windows(const Json *timeline, const Json *index)
{
    const Json *windows = json_get(timeline, "sampled_windows");
    if (json_is_array(windows))
        return (int64_t)json_count(windows);
    int64_t count = json_count(index) > 0;
    for (size_t i = 1; i < json_count(index); i++)
        count += json_integer_or(json_at(index, i), 0) > json_integer_or(json_at(index, i - 1), 0) + 1;
    return count;
}

static void put_share(Json *measured, const char *key, double part, double whole)
{
    if (whole > 0 && isfinite(part / whole))
        json_put_number(measured, key, part / whole);
}

Json *night_measured(const Night *night)
{
    const Json *timeline = json_get(night->evidence, "timeline"), *steps = json_get(timeline, "steps"),
               *index = json_get(steps, "index");
    const char *class = json_text_or(json_get(night->evidence, "device_class"), NULL);
    Json *measured = json_make_object();
    json_put_text(measured, "device", class);
    if (!json_is_array(index))
        return measured;
    int64_t done = json_integer_or(json_find(night->evidence, "window.done_steps"), 0) -
                   json_integer_or(json_get(night->evidence, "resumed_from_step"), 0);
    json_put_text(measured, "source", json_text_or(json_get(timeline, "source"), NULL));
    json_put_bool(measured, "resident", json_bool_or(json_get(timeline, "resident"), false));
    json_put_integer(measured, "windows", count_windows(timeline, index));
    json_put_integer(measured, "steps_seen", (int64_t)json_count(index));
    json_put_integer(measured, "steps_done", done);
    put_share(measured, "seen_ratio", (double)json_count(index), (double)done);
    put_share(measured, "hidden_ratio", sum_of(steps, "hidden_ns"), sum_of(steps, "copy_ns"));
    put_share(measured, "kernel_ratio", sum_of(steps, "kernel_ns"), sum_of(steps, "length_ns"));
    return measured;
}
