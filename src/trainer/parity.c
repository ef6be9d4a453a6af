// parity - the parity ladder: half precision against FP32, before training and on what was trained.
//
// Everything here leaves the trainer as it found it: the candidate's arm is its own network, whose weights,
// moments, step state and schedule are put back. Costs follow from counts alone, so the same version makes
// the same evidence.
#include "parity_internal.h"

#include <fedgate/fault.h>
#include <fedgate/hash.h>
#include <math.h>
#include <string.h>

static int64_t state_bytes(const Trainer *trainer)
{
    return 3 * trainer_floats(trainer) * (int64_t)sizeof(float);
}

void *parity_take(Parity *parity, int64_t bytes, Error *error)
{
    if (parity->holds == PARITY_HOLDS)
        BUG("the parity ladder takes host memory more than %d times", PARITY_HOLDS);
    void *memory = ledger_take(parity->trainer->spec.ledger, LEDGER_HOST, "parity", bytes, error);
    parity->held[parity->holds].memory = memory;
    parity->held[parity->holds++].bytes = bytes;
    return memory;
}

// Planted: the arms exchanged, or both the reference's.
static void set_arms(Parity *parity)
{
    Network *own = &parity->trainer->network, *extra = &parity->extra;
    bool swapped = fault_set("parity.swap_arms"), same = fault_set("parity.same_arms");
    parity->arm[ARM_CANDIDATE] = swapped || same ? extra : own;
    parity->arm[ARM_REFERENCE] = swapped ? own : extra;
}

static bool open_ladder(Parity *parity, Trainer *trainer, Error *error)
{
    const Network *own = &trainer->network;
    *parity = (Parity){.trainer = trainer,
                       .half = own->type,
                       .recipe = trainer->recipe,
                       .begun_ns = clock_monotonic_ns(trainer->spec.clock)};
    if (!network_open(&parity->extra, own->device, &own->shape, own->kind, FEDGATE_FP32, own->rows, true,
                      "parity ", error))
        return false;
    set_arms(parity);
    parity->kept = parity_take(parity, state_bytes(trainer), error);
    for (int arm = 0; arm < ARM_COUNT && parity->kept; arm++)
        if (!(parity->state[arm] = parity_take(parity, state_bytes(trainer), error)))
            return false;
    return parity->kept && network_save(&trainer->network, parity->kept, &parity->kept_step, error);
}

static bool restore(Parity *parity, Error *error)
{
    Network *own = &parity->trainer->network;
    double ignored;
    return network_load(own, parity->kept, &parity->kept_step, error) &&
           network_set_pace(own, &parity->trainer->recipe, parity->trainer->planned, error) &&
           network_read_loss(own, &ignored, error);
}

static void close_ladder(Parity *parity)
{
    parity_give_batch(parity);
    network_close(&parity->extra);
    for (size_t i = 0; i < parity->holds; i++)
        ledger_give(parity->trainer->spec.ledger, LEDGER_HOST, "parity", parity->held[i].memory,
                    parity->held[i].bytes);
}

// -- what the rungs share

bool parity_take_batch(Parity *parity, Error *error)
{
    Progress start = {0};
    int64_t wait_ns, exposed_ns;
    parity->feed = trainer_feed(parity->trainer, &start, error);
    int got = parity->feed ? feed_next(parity->feed, &parity->taken, &wait_ns, &exposed_ns, error) : -1;
    if (got <= 0)
        return got == 0 ? FAIL(error, ERROR_DATA, 0, "the input gave no batch to compare with") : false;
    parity->batch = (Rows){.numeric = parity->taken.numeric,
                           .codes = parity->taken.codes,
                           .target = parity->taken.target,
                           .count = parity->taken.rows};
    feed_compute_begins(parity->feed, &parity->taken);
    return true;
}

void parity_give_batch(Parity *parity)
{
    if (parity->feed && parity->batch.count > 0)
        feed_release(parity->feed, &parity->taken);
    feed_close(parity->feed);
    parity->feed = NULL;
    parity->batch = (Rows){0};
}

// Planted: the reference's weights are rounded to the half type before each pass; the trainer's own rounded
// weights, which the arms renew before they use them, serve as the place.
static void round_reference(Parity *parity)
{
    Network *extra = &parity->extra, *own = &parity->trainer->network;
    FedgateCast cast = {.to = own->pass,
                        .from = extra->weights,
                        .to_type = own->type,
                        .from_type = FEDGATE_FP32,
                        .count = extra->layout.floats};
    device_cast(extra->device, &cast);
    cast = (FedgateCast){.to = extra->weights,
                         .from = own->pass,
                         .to_type = FEDGATE_FP32,
                         .from_type = own->type,
                         .count = extra->layout.floats};
    device_cast(extra->device, &cast);
}

void parity_prepare(Parity *parity, Arm arm)
{
    if (arm == ARM_REFERENCE && parity->arm[arm] == &parity->extra && fault_set("parity.reference_rounded"))
        round_reference(parity);
}

void parity_gradient(Parity *parity, Arm arm, const Recipe *recipe, const Rows *rows, uint64_t seed)
{
    Network *network = parity->arm[arm];
    parity_prepare(parity, arm);
    network_gradient(network, recipe, rows, parity->trainer->microbatch, seed, NULL);
    parity->row_passes += 3 * (double)rows->count;
}

// Modelled time passes as in the loop: a step is forward and backward of a batch.
static int64_t now_ns(Parity *parity)
{
    const Trainer *trainer = parity->trainer;
    int64_t due_ns = (int64_t)(parity->row_passes / (3 * (double)trainer->batch) *
                               (double)(int64_t)fault_value("model.compute_ns", 1e6));
    if (trainer->simulated && due_ns > parity->modelled_ns) {
        clock_advance(trainer->spec.clock, due_ns - parity->modelled_ns);
        parity->modelled_ns = due_ns;
    }
    return clock_monotonic_ns(trainer->spec.clock);
}

bool parity_goes_on(Parity *parity, Error *error)
{
    const TrainerSpec *spec = &parity->trainer->spec;
    now_ns(parity);
    switch (spec->ladder_watch ? spec->ladder_watch(spec->watch_context) : LADDER_GO_ON) {
    case LADDER_GO_ON:
        return true;
    case LADDER_LEAVE:
        parity->left = true;
        return false;
    case LADDER_STOP:
        break;
    }
    return FAIL(error, ERROR_BUSY, 0, "stopped by a signal");
}

// -- before training

enum { WARM_STEPS = 4 };

// Moments are empty at the start: a few steps of the reference fill them, on a schedule of their own whose
// middle is where the step is compared.
static bool warm_up(Parity *parity, ParityStep *step, float *state, Error *error)
{
    Network *reference = &parity->extra;
    if (!network_set_pace(reference, &parity->recipe, 2 * WARM_STEPS, error) ||
        !network_set_pace(&parity->trainer->network, &parity->recipe, 2 * WARM_STEPS, error) ||
        !network_load(reference, parity->kept, &(FedgateStepState){.scale = 1, .smallest = 1}, error))
        return false;
    for (int64_t i = 0; i < WARM_STEPS; i++) {
        network_gradient(reference, &parity->recipe, &parity->batch, parity->trainer->microbatch,
                         parity->trainer->seed, NULL);
        network_update(reference, &parity->recipe);
        parity->row_passes += 3 * (double)parity->batch.count;
    }
    *step = (ParityStep){.at = "start", .step = WARM_STEPS, .steps = 1, .state = state};
    if (!network_save(reference, state, &step->from, error))
        return false;
    step->from.scale = step->from.smallest = parity->scale;
    step->from.patience = parity->recipe.scale_hysteresis;
    return true;
}

static bool climb_early(Parity *parity, Json *section, Error *error)
{
    Json *gradients = json_make_array(), *controls = json_make_array(), *steps = json_make_array();
    json_put(section, "gradients", gradients);
    json_put(section, "controls", controls);
    json_put(section, "step", steps);
    parity->scale = parity->kept_step.scale;
    float *state = parity_take(parity, state_bytes(parity->trainer), error);
    ParityStep step;
    return state &&
           parity_operations(parity->trainer, parity->arm[ARM_CANDIDATE]->type,
                             parity->arm[ARM_REFERENCE]->type, section, error) &&
           parity_goes_on(parity, error) && parity_take_batch(parity, error) &&
           parity_gradients(parity, "start", 0, parity->kept, gradients, controls, error) &&
           parity_goes_on(parity, error) && warm_up(parity, &step, state, error) &&
           parity_step(parity, &step, steps, error);
}

static void add_number(Json *section, const char *name, double more)
{
    json_put_number(section, name, json_number_or(json_get(section, name), 0) + more);
}

// Runs `climb`, puts everything back whatever came of it, and adds what was spent.
static bool on_ladder(Trainer *trainer, const ParitySpec *spec, bool (*climb)(Parity *, Json *, Error *),
                      Json *section, Error *error)
{
    Parity parity;
    bool good = open_ladder(&parity, trainer, error);
    if (good) {
        parity.spec = spec;
        good = climb(&parity, section, error) || parity.left;
        Error restoring = ERROR_INIT;
        parity_give_batch(&parity);
        if (!restore(&parity, &restoring) && good) {
            *error = restoring;
            good = false;
        }
    }
    close_ladder(&parity);
    add_number(section, "seconds", (double)(now_ns(&parity) - parity.begun_ns) / 1e9);
    add_number(section, "row_passes", parity.row_passes);
    return good || error_prefix(error, "parity");
}

bool trainer_parity_early(Trainer *trainer, Json *evidence, Error *error)
{
    Json *section = json_make_object();
    json_put(evidence, "parity", section);
    json_put_text(section, "precision", device_type_name(trainer->network.type));
    json_put_text(section, "reference", "float64");
    if (!parity_probes(trainer, section, error))
        return error_prefix(error, "parity");
    return trainer->network.type == FEDGATE_FP32 || on_ladder(trainer, NULL, climb_early, section, error);
}

// -- after training

static Json *array_of(Json *section, const char *name)
{
    Json *array = (Json *)(uintptr_t)json_get(section, name);
    if (!array) {
        array = json_make_array();
        json_put(section, name, array);
    }
    return array;
}

// In the middle of the schedule: at its end the rate may be so small that the update drowns in the rounding
// of the master weights themselves.
static bool step_trained(Parity *parity, Json *steps, Error *error)
{
    Trainer *trainer = parity->trainer;
    for (int arm = 0; arm < ARM_COUNT; arm++)
        if (!network_set_pace(parity->arm[arm], &parity->recipe, trainer->planned, error))
            return false;
    ParityStep step = {.at = "trained",
                       .step = trainer->progress.step,
                       .steps = 1,
                       .state = parity->kept,
                       .from = parity->kept_step};
    step.from.applied = step.from.attempted = trainer->planned / 2;
    step.from.clean = 0;
    if (!parity_step(parity, &step, steps, error))
        return false;
    if (!network_scales(parity->arm[ARM_CANDIDATE], &parity->recipe))
        return true;
    // The scale grows in the first step, the second is taken with the new one. It begins at half of what this
    // model's gradients bear, even when that is below the floor, which only a skip asks for.
    step.at = "growth";
    step.steps = 2;
    step.from.scale = parity->scale / 2;
    step.from.clean = parity->recipe.scale_growth - 1;
    return parity_step(parity, &step, steps, error);
}

static bool climb_late(Parity *parity, Json *section, Error *error)
{
    Trainer *trainer = parity->trainer;
    int64_t bytes = trainer_floats(trainer) * (int64_t)sizeof(float);
    float *best = parity_take(parity, bytes, error);
    parity->scale = parity->kept_step.scale;
    if (!best || !device_copy_out(trainer->spec.device, best, trainer->best, bytes, error) ||
        !parity_goes_on(parity, error) || !parity_take_batch(parity, error) ||
        !parity_gradients(parity, "trained", trainer->progress.best_step, best,
                          array_of(section, "gradients"), NULL, error) ||
        !parity_goes_on(parity, error) || !step_trained(parity, array_of(section, "step"), error))
        return false;
    parity_give_batch(parity);
    return parity_pairs(parity, best, section, error);
}

bool trainer_parity_late(Trainer *trainer, const ParitySpec *spec, Json *evidence, Error *error)
{
    if (trainer->network.type == FEDGATE_FP32)
        return true;
    Json *section = outcome_section(evidence, "parity");
    const Meter *meter = &trainer->meter;
    bool good = on_ladder(trainer, spec, climb_late, section, error);
    json_put_number(section, "training_seconds", (double)(meter->host_end_ns - meter->host_begin_ns) / 1e9);
    json_put_number(section, "share",
                    json_number_or(json_get(section, "row_passes"), 0) / parity_training_passes(trainer));
    return good;
}
