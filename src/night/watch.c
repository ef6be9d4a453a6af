// watch - what the child does every few steps of training: forecast the end, gather telemetry windows, tell
// the parent.
//
// Telling costs the device time: the parent that wakes up may take the processor. So a window is sent when it
// has telemetry.window steps, and progress at most every half second of real time.
#include "night_internal.h"

#include <fedgate/fault.h>
#include <math.h>
#include <signal.h>

static void note_forecast(Child *child, int64_t step, int64_t at_wall_ns, const WindowForecast *forecast)
{
    Json *window = night_section(child->evidence, "window");
    if (!json_is_array(json_get(window, "forecasts")))
        json_put(window, "forecasts", json_make_array());
    Json *forecasts = (Json *)(uintptr_t)json_get(window, "forecasts");
    if (json_count(forecasts) > 2000)
        return;
    Json *entry = json_make_object();
    char text[CLOCK_TIME_SIZE];
    json_put_integer(entry, "at_step", step);
    night_time(child->night, forecast->end_wall_ns, text);
    json_put_text(entry, "end", text);
    night_time(child->night, forecast->end_upper_wall_ns, text);
    json_put_text(entry, "end_upper", text);
    json_put_bool(entry, "inside", forecast->inside);
    json_put_integer(entry, "at_wall_ns", at_wall_ns);
    json_put_integer(entry, "end_wall_ns", forecast->end_wall_ns);
    json_put_integer(entry, "end_upper_wall_ns", forecast->end_upper_wall_ns);
    json_put_integer(entry, "blocks", (int64_t)child->block_count);
    json_add(forecasts, entry);
}

// Expected end from the blocks seen so far; false when the night cannot finish: then training stops here.
static bool forecast_window(Child *child, int64_t step, int64_t planned)
{
    Night *night = child->night;
    int64_t now = clock_wall_ns(night->clock);
    if (now >= night->deadline_wall_ns)
        return false;
    if (child->block_count == 0)
        return true;
    WindowForecast forecast;
    double training =
        stats_mean(child->blocks, child->block_count) / (double)child->block_steps * (double)planned;
    plan_window(child->blocks, child->block_count, child->block_steps, planned - step,
                night_seconds_after_training(night, training), now, night->deadline_wall_ns,
                config_real(night->config, "window.margin"), &forecast);
    if (child->block_count < 3 && forecast.end_wall_ns <= night->deadline_wall_ns)
        forecast.inside =
            true;   // an interval from one or two blocks says nothing yet; the expected end still binds
    note_forecast(child, step, now, &forecast);
    return forecast.end_wall_ns <= night->deadline_wall_ns;
}

static void send_window(Child *child)
{
    const TrainProgress *window = &child->window;
    if (window->block_steps == 0)
        return;
    Json *row = json_make_object(), *message = json_make_object();
    json_put_integer(row, "first_step", window->step - window->block_steps);
    json_put_integer(row, "steps", window->block_steps);
    json_put_integer(row, "wall_ns", (int64_t)llround(window->block_seconds * 1e9));
    json_put_integer(row, "wait_ns", window->wait_ns);
    json_put_integer(row, "exposed_copy_ns", window->exposed_copy_ns);
    json_put_integer(row, "compute_ns", window->compute_ns);
    json_put_integer(row, "rest_ns", window->rest_ns);
    json_put_number(row, "loss", window->train_loss);
    json_put_number(row, "samples_per_second", child->window_samples / window->block_seconds);
    json_put_integer(row, "live_bytes", window->live_bytes);
    json_put_text(message, "event", "row");
    json_put_integer(message, "kind", TELEMETRY_STEP_WINDOW);
    json_put(message, "payload", row);
    child_report(child, message);
    child->window = (TrainProgress){0};
    child->window_samples = 0;
}

static void add_to_window(Child *child, const TrainProgress *progress)
{
    TrainProgress *window = &child->window;
    window->step = progress->step;
    window->block_steps += progress->block_steps;
    window->block_seconds += progress->block_seconds;
    window->wait_ns += progress->wait_ns;
    window->exposed_copy_ns += progress->exposed_copy_ns;
    window->compute_ns += progress->compute_ns;
    window->rest_ns += progress->rest_ns;
    window->train_loss = progress->train_loss;
    window->live_bytes = progress->live_bytes;
    child->window_samples += progress->samples_per_second * progress->block_seconds;
    if (window->block_steps >= config_integer(child->night->config, "telemetry.window"))
        send_window(child);
}

// Seconds of a block, as if it had had block_steps steps; when the room ends, pairs of blocks become one.
static void add_block(Child *child, const TrainProgress *progress)
{
    enum { ROOM = sizeof child->blocks / sizeof child->blocks[0] };
    if (child->block_count == ROOM) {
        for (size_t i = 0; i < ROOM / 2; i++)
            child->blocks[i] = child->blocks[2 * i] + child->blocks[2 * i + 1];
        child->block_count = ROOM / 2;
        child->block_steps *= 2;
    }
    child->blocks[child->block_count++] =
        progress->block_seconds * (double)child->block_steps / (double)progress->block_steps;
}

static void send_progress(Child *child, const TrainProgress *progress)
{
    Night *night = child->night;
    int64_t now = clock_monotonic_ns(clock_real()), pause_ns = 500000000;
    if (child->progress_sent_ns != 0 && now - child->progress_sent_ns < pause_ns)
        return;
    child->progress_sent_ns = now;
    Json *message = json_make_object();
    json_put_text(message, "event", "progress");
    json_put_integer(message, "step", progress->step);
    json_put_integer(message, "planned_steps", progress->planned_steps);
    json_put_integer(message, "epoch", progress->epoch);
    json_put_text(message, "night_step", "train");
    json_put_integer(message, "night_step_number", 7);
    json_put_integer(message, "night_steps", NIGHT_STEPS);
    json_put_number(message, "train_loss", progress->train_loss);
    json_put_number(message, "validation_loss", progress->validation_loss);
    json_put_number(message, "wait_ratio", progress->wait_ratio);
    json_put_number(message, "samples_per_second", progress->samples_per_second);
    double mean = child->block_count == 0
                      ? 0
                      : stats_mean(child->blocks, child->block_count) / (double)child->block_steps;
    int64_t left_ns = (int64_t)(mean * (double)(progress->planned_steps - progress->step) * 1e9);
    char text[CLOCK_TIME_SIZE];
    night_time(night, clock_wall_ns(night->clock) + left_ns, text);
    json_put_text(message, "forecast_end", text);
    night_time(night, night->deadline_wall_ns, text);
    json_put_text(message, "deadline", text);
    child_report(child, message);
}

bool child_watch(void *context, const TrainProgress *progress)
{
    Child *child = context;
    double kill_step = fault_value("process.kill_step", 0);
    if (kill_step > 0 && (double)progress->step >= kill_step)
        raise(SIGKILL);
    if (progress->block_steps > 0) {
        add_block(child, progress);
        add_to_window(child, progress);
        child_sample_memory(child, progress->step);
    }
    bool finishes = forecast_window(child, progress->step, progress->planned_steps);
    send_progress(child, progress);
    child->stop_for_window = !finishes;
    child->stop_for_signal = child->stop_for_signal || night_interrupted();
    return finishes && !child->stop_for_signal;
}

LadderWord child_watch_ladder(void *context)
{
    Child *child = context;
    if ((double)++child->ladder_asked == fault_value("process.term_parity", 0))
        raise(SIGTERM);
    child->stop_for_signal = child->stop_for_signal || night_interrupted();
    if (child->stop_for_signal)
        return LADDER_STOP;
    return clock_wall_ns(child->night->clock) >= child->night->deadline_wall_ns ? LADDER_LEAVE : LADDER_GO_ON;
}

// Every block with what stalled in it, as the forecasts had them: the judge forecasts again.
static void put_blocks(Child *child)
{
    Json *blocks = night_section(night_section(child->evidence, "window"), "blocks"),
         *seconds = json_make_array();
    for (size_t i = 0; i < child->block_count; i++)
        json_add_number(seconds, child->blocks[i]);
    json_put_integer(blocks, "steps", child->block_steps);
    json_put(blocks, "seconds", seconds);
}

void child_watch_end(Child *child)
{
    send_window(child);
    put_blocks(child);
    child_put_series(child);
}
