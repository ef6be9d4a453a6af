// witness - remembers moments of the run while it trains, and replays them afterwards: same state and order,
// same bits.
//
// One moment is the start. The other lies in the middle: a new one is begun whenever the number of steps has
// doubled, and replaces the last once it is complete, so that a run that stops early has one too. Moments
// travel in checkpoints.
#include "trainer_internal.h"

#include <fedgate/fault.h>
#include <fedgate/json.h>
#include <math.h>
#include <string.h>

static const char account[] = "replay";

static int64_t bytes_of(const Trainer *trainer, int64_t parts)
{
    return parts * trainer_floats(trainer) * (int64_t)sizeof(float);
}

static void drop(Trainer *trainer, WitnessKind kind)
{
    Witness *witness = &trainer->witness[kind];
    ledger_give(trainer->spec.ledger, LEDGER_HOST, account, witness->state, bytes_of(trainer, 3));
    ledger_give(trainer->spec.ledger, LEDGER_HOST, account, witness->after, bytes_of(trainer, 1));
    *witness = (Witness){0};
}

bool witness_take(Trainer *trainer, WitnessKind kind, bool with_state, Error *error)
{
    Witness *witness = &trainer->witness[kind];
    witness->after = ledger_take(trainer->spec.ledger, LEDGER_HOST, account, bytes_of(trainer, 1), error);
    if (witness->after && with_state)
        witness->state = ledger_take(trainer->spec.ledger, LEDGER_HOST, account, bytes_of(trainer, 3), error);
    witness->taken = witness->after && (witness->state || !with_state);
    return witness->taken;
}

static bool begin(Trainer *trainer, WitnessKind kind, Error *error)
{
    Witness *witness = &trainer->witness[kind];
    if (!witness_take(trainer, kind, kind != WITNESS_START, error))
        return false;
    witness->from = trainer->progress;
    if (kind == WITNESS_START)   // also of a run that was resumed before it had ended
        witness->from = (Progress){.best_loss = INFINITY, .last_loss = NAN};
    return kind == WITNESS_START || network_save(&trainer->network, witness->state, &witness->step, error);
}

static bool end(Trainer *trainer, WitnessKind kind, Error *error)
{
    Witness *witness = &trainer->witness[kind];
    if (!witness->taken || witness->ended ||
        trainer->progress.step != witness->from.step + trainer->witness_steps)
        return true;
    witness->ended = device_copy_out(trainer->network.device, witness->after, trainer->network.weights,
                                     bytes_of(trainer, 1), error);
    if (witness->ended && kind == WITNESS_PENDING) {
        drop(trainer, WITNESS_MIDDLE);
        trainer->witness[WITNESS_MIDDLE] = *witness;
        *witness = (Witness){0};
    }
    return trainer->witness[kind == WITNESS_PENDING ? WITNESS_MIDDLE : kind].ended;
}

bool witness_look(Trainer *trainer, Error *error)
{
    int64_t step = trainer->progress.step;
    if (trainer->witness_steps == 0) {
        int64_t quarter = trainer->planned / 4 > 0 ? trainer->planned / 4 : 1,
                asked = config_integer(trainer->config, "determinism.steps");
        trainer->witness_steps = asked < quarter ? asked : quarter;
        trainer->witness_next = step > trainer->witness_steps ? step : trainer->witness_steps;
    }
    if (!end(trainer, WITNESS_START, error) || !end(trainer, WITNESS_PENDING, error))
        return false;
    if (step < trainer->witness_steps && !trainer->witness[WITNESS_START].taken)
        return begin(trainer, WITNESS_START, error);
    if (step < trainer->witness_next || trainer->witness[WITNESS_PENDING].taken)
        return true;
    trainer->witness_next = 2 * step;
    return begin(trainer, WITNESS_PENDING, error);
}

int64_t witness_next(const Trainer *trainer)
{
    int64_t next = trainer->witness[WITNESS_PENDING].taken ? INT64_MAX : trainer->witness_next;
    for (int kind = 0; kind < WITNESS_COUNT; kind++) {
        const Witness *witness = &trainer->witness[kind];
        int64_t end = witness->from.step + trainer->witness_steps;
        if (witness->taken && !witness->ended && end > trainer->progress.step && end < next)
            next = end;
    }
    return next;
}

void witness_done(Trainer *trainer)
{
    for (int kind = 0; kind < WITNESS_COUNT; kind++)
        drop(trainer, (WitnessKind)kind);
}

// -- replay

static bool replay_steps(Trainer *trainer, const Witness *witness, Error *error)
{
    OWNED(Feed, feed_close) *feed = trainer_feed(trainer, &witness->from, error);
    for (int64_t i = 0; feed && i < trainer->witness_steps; i++) {
        FeedBatch batch;
        int64_t wait_ns, exposed_ns;
        int got = feed_next(feed, &batch, &wait_ns, &exposed_ns, error);
        if (got <= 0)
            return got == 0 ? FAIL(error, ERROR_INTERNAL, 0, "the replay has no batch for step %lld",
                                   (long long)(witness->from.step + i))
                            : false;
        feed_compute_begins(feed, &batch);
        if (!trainer_batch(trainer, &batch, witness->from.step + i, NULL, error))
            return false;
        feed_release(feed, &batch);
    }
    return feed != NULL;
}

static Json *compare(const Trainer *trainer, const float *first, const float *again)
{
    const Layout *layout = &trainer->network.layout;
    Json *tensors = json_make_array();
    for (size_t i = 0; i < layout->count; i++) {
        Digest digest;
        char hex[DIGEST_HEX_SIZE];
        Json *tensor = json_make_object();
        json_put_text(tensor, "name", layout->at[i].name);
        layout_digest(layout, first, i, &digest);
        digest_hex(&digest, hex);
        json_put_text(tensor, "first", hex);
        layout_digest(layout, again, i, &digest);
        digest_hex(&digest, hex);
        json_put_text(tensor, "again", hex);
        json_add(tensors, tensor);
    }
    return tensors;
}

static bool replay(Trainer *trainer, const Witness *witness, float *scratch, Json *replays, Error *error)
{
    Network *network = &trainer->network;
    bool good = witness->state ? network_load(network, witness->state, &witness->step, error)
                               : network_start(network, &trainer->recipe, trainer->seed, error);
    if (!good || !replay_steps(trainer, witness, error) ||
        !device_copy_out(trainer->network.device, scratch, trainer->network.weights, bytes_of(trainer, 1),
                         error))
        return error_prefix(error, "replay from step %lld", (long long)witness->from.step);
    if (fault_set("determinism.perturb")) {
        uint32_t bits;
        memcpy(&bits, scratch, sizeof bits);
        bits ^= 1;
        memcpy(scratch, &bits, sizeof bits);
    }
    Json *entry = json_make_object();
    json_put_integer(entry, "from_step", witness->from.step);
    json_put_integer(entry, "steps", trainer->witness_steps);
    json_put(entry, "tensors", compare(trainer, witness->after, scratch));
    json_add(replays, entry);
    return true;
}

bool trainer_replay(Trainer *trainer, Json *evidence, Error *error)
{
    Ledger *ledger = trainer->spec.ledger;
    float *kept = ledger_take(ledger, LEDGER_HOST, account, bytes_of(trainer, 3), error);
    float *scratch = kept ? ledger_take(ledger, LEDGER_HOST, account, bytes_of(trainer, 1), error) : NULL;
    Json *replays = json_make_array();
    FedgateStepState step;
    const Order order = trainer->progress.order;
    bool good = scratch && network_save(&trainer->network, kept, &step, error);
    for (int kind = WITNESS_START; good && kind <= WITNESS_MIDDLE; kind++)
        if (trainer->witness[kind].ended)
            good = replay(trainer, &trainer->witness[kind], scratch, replays, error);
    good = good && network_load(&trainer->network, kept, &step, error);
    trainer->progress.order = order;
    ledger_give(ledger, LEDGER_HOST, account, scratch, bytes_of(trainer, 1));
    ledger_give(ledger, LEDGER_HOST, account, kept, bytes_of(trainer, 3));
    json_put(outcome_section(evidence, "determinism"), "replays", replays);
    return good;
}
