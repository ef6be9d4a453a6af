// feed_stages - what the stages did: items, bytes, busy and blocked time, depth of the queue each hands over
// to; and resources held.
//
// Counted per batch taken by the consumer, so the figures of one night do not depend on how far the workers
// were ahead when it ended. Batches are made in pinned memory, so pinning takes no time. copy.busy_ns is only
// the part the host waited for; the trainer knows the rest from the device's timeline. On a simulated clock
// the times are modelled.
#include "feed_internal.h"

#include <fedgate/fault.h>
#include <fedgate/process.h>
#include <fedgate/text.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

// Share of one modelled load (fault model.load_ns) that each stage takes.
static const struct {
    const char *name;
    double modelled;
} stages[STAGE_COUNT] = {
    [STAGE_READ] = {"read", 0.2},       [STAGE_DECODE] = {"decode", 0.6}, [STAGE_AUGMENT] = {"augment", 0.0},
    [STAGE_COLLATE] = {"collate", 0.1}, [STAGE_PIN] = {"pin", 0.1},       [STAGE_COPY] = {"copy", 0.0},
};

const char *stage_name(Stage stage)
{
    return stages[stage].name;
}

void feed_depth(Feed *feed, Stage stage, int64_t depth)
{
    if (!feed->simulated)
        feed->depth[stage][depth < DEPTH_MAX ? depth : DEPTH_MAX]++;
}

static int64_t depth_quantile(const int64_t counts[static DEPTH_MAX + 1], double share)
{
    int64_t total = 0, below = 0;
    for (int d = 0; d <= DEPTH_MAX; d++)
        total += counts[d];
    for (int d = 0; d <= DEPTH_MAX; d++) {
        below += counts[d];
        if (total > 0 && (double)below >= share * (double)total)
            return d;
    }
    return 0;
}

static int64_t busy_ns(const Feed *feed, Stage stage)
{
    const StageMeter *meter = &feed->meter[stage];
    if (!feed->simulated)
        return meter->busy_ns;
    double modelled = stage == STAGE_COPY ? fault_value("model.copy_ns", 0)
                                          : stages[stage].modelled * fault_value("model.load_ns", 0);
    return (int64_t)((double)meter->items * modelled);
}

Json *feed_stages(const Feed *feed, const char **ret_limiting)
{
    Json *array = json_make_array();
    const char *limiting = "";
    pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&feed->lock;   // workers book what they waited
    pthread_mutex_lock(lock);
    double slowest = -1;
    for (int s = 0; s < STAGE_COUNT; s++) {
        const StageMeter *meter = &feed->meter[s];
        int threads = s <= STAGE_PIN ? feed->spec.workers : 1;   // copying goes one group at a time
        Json *row = json_make_object();
        json_put_text(row, "name", stages[s].name);
        json_put_integer(row, "items", meter->items);
        json_put_integer(row, "bytes", meter->bytes);
        json_put_integer(row, "busy_ns", busy_ns(feed, (Stage)s));
        json_put_integer(row, "blocked_in_ns", meter->blocked_in_ns);
        json_put_integer(row, "blocked_out_ns", meter->blocked_out_ns);
        json_put_integer(row, "depth_p50", depth_quantile(feed->depth[s], 0.5));
        json_put_integer(row, "depth_p95", depth_quantile(feed->depth[s], 0.95));
        json_put_integer(row, "depth_max", depth_quantile(feed->depth[s], 1));
        json_put_integer(row, "threads", threads);
        if (s == STAGE_COPY && feed->spec.resident)   // the declared substitute: gathered on the device
            json_put_bool(row, "resident", true);
        json_add(array, row);
        double each =
            meter->items > 0 ? (double)busy_ns(feed, (Stage)s) / (double)meter->items / threads : -1;
        if (each > slowest) {
            slowest = each;
            limiting = stages[s].name;
        }
    }
    pthread_mutex_unlock(lock);
    *ret_limiting = limiting;
    return array;
}

Json *feed_resources(const Feed *feed)
{
    const Dataset *dataset = feed->spec.dataset;
    const StageMeter *read = &feed->meter[STAGE_READ];
    struct rlimit limit = {0};
    getrlimit(RLIMIT_NOFILE, &limit);
    Json *json = json_make_object();
    json_put_integer(json, "host_bytes",
                     ledger_live(feed->spec.ledger, LEDGER_HOST) +
                         ledger_live(feed->spec.ledger, LEDGER_PINNED));
    json_put_integer(json, "host_cap_bytes", dataset->host_cap_bytes);
    json_put_integer(json, "resident_bytes", process_resident_bytes());
    json_put_integer(json, "open_files", process_open_files());
    json_put_integer(json, "data_files", (int64_t)dataset->file_count);
    json_put_integer(json, "open_files_cap", dataset->files_cap);
    json_put_integer(json, "open_files_limit",
                     limit.rlim_cur == RLIM_INFINITY ? INT64_MAX : (int64_t)limit.rlim_cur);
    json_put_integer(json, "threads", feed->spec.workers);
    json_put_integer(json, "processors", sysconf(_SC_NPROCESSORS_ONLN));
    // Files in memory were read once, at opening; the others are read batch by batch.
    bool read_whole = dataset->memory_bytes > 0;
    int64_t storage_bytes = read_whole ? dataset->storage_bytes : read->bytes,
            storage_ns = read_whole ? dataset->storage_ns : busy_ns(feed, STAGE_READ);
    json_put_integer(json, "device_rows_bytes", feed->memory.rows + feed->memory.order);
    json_put_integer(json, "files_in_memory_bytes", dataset->memory_bytes);
    json_put_integer(json, "storage_bytes", storage_bytes);
    json_put_number(json, "storage_bytes_per_second",
                    storage_ns > 0 && !feed->simulated ? (double)storage_bytes * 1e9 / (double)storage_ns
                                                       : 0);
    return json;
}
