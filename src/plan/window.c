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

void plan_window(const double *block_seconds, size_t blocks, int64_t block_steps, int64_t steps_left,
                 double fixed_seconds, int64_t now_wall_ns, int64_t deadline_wall_ns, double margin_ratio,
                 WindowForecast *ret)
{
    if (blocks == 0 || block_steps <= 0)
        BUG("a forecast from %zu blocks of %lld steps", blocks, (long long)block_steps);
    BatchMean mean;
    stats_batch_mean(block_seconds, blocks, blocks < BATCHES ? blocks : BATCHES, &mean);
    double upper =
        blocks > 1 ? mean.upper : mean.mean;   // one block bounds nothing; what it says is all there is
    double blocks_left = (double)steps_left / (double)block_steps;
    ret->remaining_seconds = mean.mean * blocks_left + fixed_seconds;
    ret->remaining_upper_seconds = upper * blocks_left + fixed_seconds;
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

bool plan_deadline(const Config *config, int64_t start_wall_ns, int64_t *ret_deadline_wall_ns,
                   char ret_slot[static 11], Error *error)
{
    char zone[PLAN_ZONE_SIZE];
    plan_zone(config, zone);
    const char *time = config_text(config, "window.deadline");   // HH:MM, checked when it was read
    int hour = (time[0] - '0') * 10 + time[1] - '0', minute = (time[3] - '0') * 10 + time[4] - '0';
    int64_t named;
    if (!clock_next_local(start_wall_ns, zone, hour, minute, &named, error))
        return error_prefix(error, "option 'window.deadline'");
    double length = config_real(config, "window.length");
    int64_t longest = length > 0 ? instant_after(start_wall_ns, length) : INT64_MAX;
    clock_local_date(named, zone, ret_slot);
    *ret_deadline_wall_ns = longest < named ? longest : named;
    return true;
}
