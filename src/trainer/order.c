// order - proves that each training row was trained on exactly once an epoch: rows and digest as the steps
// took them, beside those of the data set, which are asked without the feed.
#include "trainer_internal.h"

#include <fedgate/hash.h>
#include <fedgate/json.h>

void order_take(Order *order, const FeedBatch *batch)
{
    order->rows += batch->rows;
    order->digest += batch->digest;
}

// The digest that came back from the device is of the rows it was given to compute on. One that is not of the
// batch that was counted goes in mixed: batches that changed places, whole epochs among them, have the same
// sum.
void order_take_device(Order *order, uint64_t counted, uint64_t came)
{
    order->device = true;
    order->device_digest += came == counted ? came : hash_mix(~came);
}

void order_end_epoch(Order *order, int64_t expected_rows, uint64_t expected_digest)
{
    order->epochs++;
    if (!order->differs) {
        order->whole_rows = order->rows;
        order->whole_digest = order->digest;
        order->whole_device_digest = order->device_digest;
        order->differs = order->rows != expected_rows || order->digest != expected_digest ||
                         (order->device && order->device_digest != order->digest);
    }
    order->rows = 0;
    order->digest = 0;
    order->device_digest = 0;
}

void progress_advance(Trainer *trainer, const FeedBatch *batch)
{
    Progress *progress = &trainer->progress;
    progress->step++;
    progress->samples += batch->rows;
    progress->epoch = batch->last_of_epoch ? batch->epoch + 1 : batch->epoch;
    progress->position = batch->last_of_epoch ? 0 : batch->index + 1;
}

// Digests are written as integers: every bit pattern of 64 is one.
Json *order_to_json(const Order *order)
{
    Json *json = json_make_object();
    json_put_integer(json, "rows", order->rows);
    json_put_integer(json, "digest", (int64_t)order->digest);
    json_put_integer(json, "epochs", order->epochs);
    json_put_integer(json, "whole_rows", order->whole_rows);
    json_put_integer(json, "whole_digest", (int64_t)order->whole_digest);
    json_put_bool(json, "differs", order->differs);
    json_put_bool(json, "device", order->device);
    json_put_integer(json, "device_digest", (int64_t)order->device_digest);
    json_put_integer(json, "whole_device_digest", (int64_t)order->whole_device_digest);
    return json;
}

bool order_from_json(const Json *json, Order *ret_order, Error *error)
{
    int64_t digest, whole_digest, device_digest, whole_device_digest;
    Order order;
    if (!json_get_integer(json, "rows", &order.rows, error) ||
        !json_get_integer(json, "digest", &digest, error) ||
        !json_get_integer(json, "epochs", &order.epochs, error) ||
        !json_get_integer(json, "whole_rows", &order.whole_rows, error) ||
        !json_get_integer(json, "whole_digest", &whole_digest, error) ||
        !json_get_bool(json, "differs", &order.differs, error) ||
        !json_get_bool(json, "device", &order.device, error) ||
        !json_get_integer(json, "device_digest", &device_digest, error) ||
        !json_get_integer(json, "whole_device_digest", &whole_device_digest, error))
        return false;
    order.digest = (uint64_t)digest;
    order.whole_digest = (uint64_t)whole_digest;
    order.device_digest = (uint64_t)device_digest;
    order.whole_device_digest = (uint64_t)whole_device_digest;
    *ret_order = order;
    return true;
}

static void put_digest(Json *json, const char *key, uint64_t digest)
{
    char hex[17];
    if (!text_print(hex, sizeof hex, "%016llx", (unsigned long long)digest))
        BUG("64 bits have more than 16 digits");
    json_put_text(json, key, hex);
}

void order_evidence(const Trainer *trainer, Json *evidence)
{
    const Order *order = &trainer->progress.order;
    Json *json = json_make_object();
    json_put_integer(json, "epochs", order->epochs);
    json_put_integer(json, "steps_per_epoch", trainer->per_epoch);
    if (order->epochs > 0) {
        json_put_integer(json, "rows", order->whole_rows);
        json_put_integer(json, "expected_rows", trainer->train_rows);
        put_digest(json, "digest", order->whole_digest);
        put_digest(json, "expected_digest", trainer->order_digest);
        if (order->device)
            put_digest(json, "device_digest", order->whole_device_digest);
    }
    json_put(outcome_section(evidence, "determinism"), "order", json);
}
