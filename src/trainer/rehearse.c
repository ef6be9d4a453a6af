// rehearse - one full cycle under the budget before the night depends on it: the longest batch, an optimizer
// step, the remainder batch, validation. The state is as before afterwards.
#include "trainer_internal.h"

#include <fedgate/json.h>

static bool cycle(Trainer *trainer, Error *error)
{
    if (trainer_launches(trainer) && !launches_rehearse(trainer, error))
        return false;
    OWNED(Feed, feed_close) *feed = trainer_feed(trainer, &trainer->progress, error);
    FeedBatch batch;
    int64_t wait_ns, exposed_ns;
    int got = feed ? feed_next(feed, &batch, &wait_ns, &exposed_ns, error) : -1;
    if (got < 0)
        return false;
    if (got == 0)
        return FAIL(error, ERROR_DATA, 0, "the input gave no batch to rehearse with");
    int64_t remainder = trainer->train_rows % trainer->batch;
    bool good = trainer_step(trainer, &batch, batch.rows, 0, NULL, error) &&
                (remainder == 0 || remainder > batch.rows ||
                 trainer_step(trainer, &batch, remainder, 0, NULL, error));
    feed_release(feed, &batch);
    double loss;
    return good && trainer_validate(trainer, &loss, error) && device_synchronise(trainer->spec.device, error);
}

bool trainer_rehearse(Trainer *trainer, Json *evidence, Error *error)
{
    int64_t bytes = 3 * trainer_floats(trainer) * (int64_t)sizeof(float);
    float *state = ledger_take(trainer->spec.ledger, LEDGER_HOST, "rehearsal", bytes, error);
    FedgateStepState step;
    bool good = state && network_save(&trainer->network, state, &step, error);
    if (good) {
        good = cycle(trainer, error);
        Error restoring = ERROR_INIT;
        double ignored;
        bool restored = network_load(&trainer->network, state, &step, &restoring) &&
                        network_read_loss(&trainer->network, &ignored, &restoring);
        if (good && !restored) {
            *error = restoring;
            good = false;
        }
        trainer->train_loss_sum = 0;
    }
    ledger_give(trainer->spec.ledger, LEDGER_HOST, "rehearsal", state, bytes);
    Json *rehearsal = json_make_object();
    json_put_bool(rehearsal, "ok", good);
    json_put_integer(rehearsal, "peak_bytes", ledger_peak(trainer->spec.ledger, LEDGER_DEVICE));
    json_put(outcome_section(evidence, "memory"), "rehearsal", rehearsal);
    return good || error_prefix(error, "rehearsal");
}
