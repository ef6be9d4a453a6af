// window - when the night will end, from the wall time of whole blocks, and when it must have ended.
#include "plan_internal.h"

#include <fedgate/clock.h>
#include <fedgate/file.h>
#include <math.h>
#include <string.h>

static const double ns_per_second = 1e9;
enum { BATCHES = 10 };   // of the batch-means bound

static int64_t instant_after(int64_t now_ns, double seconds)
{
    double end = (double)now_ns + seconds * ns_per_second;
    if (!(end < 9.2e18))   // also NaN: a forecast that is not a number never ends in time
        return INT64_MAX;
    return now_ns + (int64_t)(seconds * ns_per_second);
}

// -- what the blocks say beside their mean

enum { CHANGE_SIDE = 5 };   // blocks on each side of a change, at least
static const double CHANGE_T = 5, CHANGE_LEAST = 1.1;   // certain, and at least a tenth slower
static const double TREND_CONFIDENCE = 0.999, TREND_LEAST = 0.01, STALL_MEDIANS = 3;

// The split of the blocks in two whose means differ most by Welch's t, when the later one is slower.
static size_t slower_from(const double *x, size_t n)
{
    double sum = stats_sum(x, n), before = 0, best = CHANGE_T;
    double square = 0, square_before = 0;
    size_t at = 0;
    for (size_t i = 0; i < n; i++)
        square += x[i] * x[i];
    for (size_t i = 1; i + CHANGE_SIDE <= n; i++) {
        before += x[i - 1];
        square_before += x[i - 1] * x[i - 1];
        if (i < CHANGE_SIDE)
            continue;
        double a = (double)i, b = (double)(n - i), mean_a = before / a, mean_b = (sum - before) / b;
        double var_a = fmax(square_before / a - mean_a * mean_a, 0) / a,
               var_b = fmax((square - square_before) / b - mean_b * mean_b, 0) / b;
        double t = (mean_b - mean_a) / sqrt(var_a + var_b + 1e-18 * mean_a * mean_a);
        if (t > best && mean_b > CHANGE_LEAST * mean_a) {
            best = t;
            at = i;
        }
    }
    return at;
}

// Seconds a block by which the pace falls, when that is certain and over the blocks more than 1 % of a block.
static double slower_each(const double *x, size_t n)
{
    Trend trend;
    stats_trend(x, n, TREND_CONFIDENCE, &trend);
    bool certain = trend.slope_lower > 0 && trend.slope * (double)(n - 1) > TREND_LEAST * stats_mean(x, n);
    return certain ? trend.slope : 0;
}

static double stalled(const double *x, size_t n)
{
    double sorted[PLAN_PACE_BLOCKS], beyond = 0, sum = stats_sum(x, n);
    if (n > PLAN_PACE_BLOCKS || !(sum > 0))
        return 0;
    memcpy(sorted, x, n * sizeof *x);
    double median = stats_quantile(sorted, n, 0.5);
    for (size_t i = 0; i < n; i++)
        beyond += x[i] > STALL_MEDIANS * median ? x[i] - median : 0;
    return beyond / sum;
}

void plan_window(const double *block_seconds, size_t blocks, int64_t block_steps, int64_t steps_left,
                 double fixed_seconds, int64_t now_wall_ns, int64_t deadline_wall_ns, double margin_ratio,
                 WindowForecast *ret)
{
    if (blocks == 0 || block_steps <= 0)
        BUG("a forecast from %zu blocks of %lld steps", blocks, (long long)block_steps);
    const size_t from = slower_from(block_seconds, blocks), count = blocks - from;
    const double *since = block_seconds + from, blocks_left = (double)steps_left / (double)block_steps;
    BatchMean mean;
    stats_batch_mean(since, count, count < BATCHES ? count : BATCHES, &mean);
    double upper =
        count > 1 ? mean.upper : mean.mean;   // one block bounds nothing; what it says is all there is
    ret->changed_at = from;
    ret->slower_a_block = slower_each(since, count);
    ret->stalled_ratio = stalled(block_seconds, blocks);
    // Along the fitted line, from the middle of the blocks seen to the middle of those to come.
    const double later = ret->slower_a_block * ((double)count + blocks_left) / 2 * blocks_left;
    ret->remaining_seconds = mean.mean * blocks_left + later + fixed_seconds;
    ret->remaining_upper_seconds = upper * blocks_left + later + fixed_seconds;
    ret->end_wall_ns = instant_after(now_wall_ns, ret->remaining_seconds);
    ret->end_upper_wall_ns = instant_after(now_wall_ns, ret->remaining_upper_seconds);
    double with_margin = ret->remaining_upper_seconds + margin_ratio * ret->remaining_seconds;
    ret->inside = isfinite(with_margin) && instant_after(now_wall_ns, with_margin) <= deadline_wall_ns;
}

static bool take_zone(const char *name, char ret_zone[static PLAN_ZONE_SIZE])
{
    Error ignored = ERROR_INIT;   // an unusable name only means: ask the next place
    return name[0] && strlen(name) < PLAN_ZONE_SIZE && clock_zone_check(name, &ignored) &&
           text_copy(ret_zone, PLAN_ZONE_SIZE, name);
}

// /etc/localtime decides what the system's own clock shows; /etc/timezone is a copy that may be stale.
static bool zone_of_link(char ret_zone[static PLAN_ZONE_SIZE])
{
    char target[FILE_PATH_SIZE];
    Error ignored = ERROR_INIT;
    if (!file_link_read("/etc/localtime", target, sizeof target, &ignored))
        return false;
    const char *folder = strstr(target, "zoneinfo/");
    return folder && take_zone(folder + strlen("zoneinfo/"), ret_zone);
}

static bool zone_of_file(char ret_zone[static PLAN_ZONE_SIZE])
{
    SCOPED_TEXT bytes;
    text_init(&bytes, 1000);
    Error ignored = ERROR_INIT;
    if (!file_read("/etc/timezone", &bytes, &ignored))
        return false;
    char name[PLAN_ZONE_SIZE];
    return text_print(name, sizeof name, "%.*s", (int)strcspn(text_string(&bytes), " \t\r\n"),
                      text_string(&bytes)) &&
           take_zone(name, ret_zone);
}

void plan_zone(const Config *config, char ret_zone[static PLAN_ZONE_SIZE])
{
    if (take_zone(config_text(config, "window.zone"), ret_zone) || zone_of_link(ret_zone) ||
        zone_of_file(ret_zone))
        return;
    memcpy(ret_zone, "UTC", sizeof "UTC");
}

typedef struct Named {
    int hour, minute;
} Named;

static Named named_time(const Config *config)
{
    const char *time = config_text(config, "window.deadline");   // HH:MM, checked when it was read
    return (Named){(time[0] - '0') * 10 + time[1] - '0', (time[3] - '0') * 10 + time[4] - '0'};
}

bool plan_deadline(const Config *config, int64_t start_wall_ns, int64_t *ret_deadline_wall_ns,
                   char ret_slot[static 11], Error *error)
{
    char zone[PLAN_ZONE_SIZE];
    plan_zone(config, zone);
    const Named time = named_time(config);
    int64_t named;
    if (!clock_next_local(start_wall_ns, zone, time.hour, time.minute, &named, error))
        return error_prefix(error, "option 'window.deadline'");
    double length = config_real(config, "window.length");
    int64_t longest = length > 0 ? instant_after(start_wall_ns, length) : INT64_MAX;
    clock_local_date(named, zone, ret_slot);
    *ret_deadline_wall_ns = longest < named ? longest : named;
    return true;
}

enum { LOCAL_MINUTE = sizeof "2026-11-30T04:00" - 1, HOUR_OF_DAY = sizeof "2026-11-30T" - 1 };

// The same minute of the same day again, at one of the shifts that zones make.
static bool comes_twice(int64_t wall_ns, const char *zone)
{
    static const int shifts_min[] = {20, 30, 60, 120, 180};
    char first[CLOCK_TIME_SIZE], later[CLOCK_TIME_SIZE];
    clock_format(wall_ns, zone, first);
    for (size_t i = 0; i < sizeof shifts_min / sizeof shifts_min[0]; i++) {
        clock_format(wall_ns + (int64_t)shifts_min[i] * 60 * 1000000000, zone, later);
        if (strncmp(first, later, LOCAL_MINUTE) == 0)
            return true;
    }
    return false;
}

void plan_deadline_note(const Config *config, int64_t deadline_wall_ns, char ret_note[static PLAN_NOTE_SIZE])
{
    const int64_t hour_ns = 3600 * INT64_C(1000000000);
    char zone[PLAN_ZONE_SIZE], local[CLOCK_TIME_SIZE];
    const char *time = config_text(config, "window.deadline");
    const Named named = named_time(config);
    Error ignored = ERROR_INIT;
    int64_t at = 0, before = 0;
    ret_note[0] = '\0';
    plan_zone(config, zone);
    // Of the named time itself: window.length may have ended the night earlier. The day before has 23 to 25
    // hours.
    if (!clock_next_local(deadline_wall_ns - 1, zone, named.hour, named.minute, &at, &ignored) ||
        !clock_next_local(at - 26 * hour_ns, zone, named.hour, named.minute, &before, &ignored))
        return;
    clock_format(at, zone, local);
    double hours = (double)(at - before) / (double)hour_ns;
    bool written = true;
    if (strncmp(local + HOUR_OF_DAY, time, 5) != 0)
        written = text_print(ret_note, PLAN_NOTE_SIZE,
                             "%s does not exist on %.10s: the first instant after the gap", time, local);
    else if (comes_twice(at, zone))
        written = text_print(ret_note, PLAN_NOTE_SIZE, "%s comes twice on %.10s: the first of the two", time,
                             local);
    else if (hours < 24 || hours > 24)
        written =
            text_print(ret_note, PLAN_NOTE_SIZE, "%g hours after the deadline of the day before", hours);
    if (!written)
        ret_note[0] = '\0';
}
