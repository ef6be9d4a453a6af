// outcome - what a finished run says of its input stages and of its memory accounts.
#include "trainer_internal.h"

#include <fedgate/json.h>

Json *outcome_section(Json *evidence, const char *name)
{
    Json *section = (Json *)(uintptr_t)json_get(evidence, name);
    if (!section) {
        section = json_make_object();
        json_put(evidence, name, section);
    }
    return section;
}

static double item_ns(const Json *stage)
{
    double items = json_number_or(json_get(stage, "items"), 0),
           threads = json_number_or(json_get(stage, "threads"), 1);
    return items > 0 ? json_number_or(json_get(stage, "busy_ns"), 0) / items / threads : 0;
}

// On the simulated clock the input's own durations are those of the model: loading counts as decoding.
static void model_stages(const Trainer *trainer, Json *stages)
{
    for (size_t i = 0; trainer->simulated && i < json_count(stages); i++) {
        Json *stage = (Json *)(uintptr_t)json_at(stages, i);
        const char *name = json_text_or(json_get(stage, "name"), "");
        int64_t items = json_integer_or(json_get(stage, "items"), 0);
        bool decode = text_equal(name, "decode"), copy = text_equal(name, "copy");
        json_put_integer(stage, "busy_ns",
                         items * (decode ? trainer->model.load_ns
                                  : copy ? trainer->model.copy_ns
                                         : 0));
    }
}

// The input's stages, then compute; the slowest by busy time of one item over its threads limits.
void outcome_stages(const Trainer *trainer, const Feed *feed, Json *evidence)
{
    const Meter *meter = &trainer->meter;
    const char *ignored = "";
    Json *stages = feed_stages(feed, &ignored), *compute = json_make_object();
    model_stages(trainer, stages);
    json_put(evidence, "resources", feed_resources(feed));
    static const char *const none[] = {"bytes", "blocked_out_ns", "depth_p50", "depth_p95", "depth_max"};
    json_put_text(compute, "name", "compute");
    json_put_integer(compute, "items", meter->compute_items);
    json_put_integer(compute, "busy_ns", meter_compute_busy(meter));
    json_put_integer(compute, "blocked_in_ns", meter->waited_ns);
    json_put_integer(compute, "threads", 1);
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        json_put_integer(compute, none[i], 0);
    json_add(stages, compute);
    const char *limiting = "compute";
    double slowest = item_ns(compute);
    for (size_t i = 0; i + 1 < json_count(stages); i++) {
        const Json *stage = json_at(stages, i);
        if (item_ns(stage) > slowest) {
            slowest = item_ns(stage);
            limiting = json_text_or(json_get(stage, "name"), "");
        }
    }
    json_put_text(evidence, "limiting_stage", limiting);
    json_put(evidence, "stages", stages);
}

void outcome_accounts(const Trainer *trainer, Json *evidence)
{
    Json *memory = outcome_section(evidence, "memory");
    json_put(memory, "accounts", ledger_to_json(trainer->spec.ledger));
    json_put_integer(memory, "measured_peak_bytes",
                     ledger_peak(trainer->spec.ledger, LEDGER_DEVICE) +
                         device_info(trainer->spec.device)->context_bytes);
}

// How the loss scale fared. The schedule is where the pace stands, not a copy of the applied steps: a
// schedule that went on with a skipped step shows.
bool outcome_scale(Trainer *trainer, Json *evidence, Error *error)
{
    Network *network = &trainer->network;
    FedgateStepState step;
    if (network->type == FEDGATE_FP32)
        return true;
    if (!network_read_step(network, &step, error))
        return false;
    Json *scale = json_make_object();
    json_put_number(scale, "initial", network->type == FEDGATE_FP16 ? trainer->recipe.scale_initial : 1);
    json_put_number(scale, "final", step.scale);
    json_put_number(scale, "smallest", step.smallest);
    json_put_integer(scale, "attempted", step.attempted);
    json_put_integer(scale, "applied", step.applied);
    json_put_integer(scale, "skipped", step.skipped);
    json_put_integer(scale, "schedule", step.applied > 0 ? step.pace + 1 : 0);
    json_put_integer(scale, "longest", step.longest);
    json_put_integer(scale, "at_floor", step.at_floor);
    json_put_integer(scale, "grown", step.grown);
    json_put_integer(scale, "lowered", step.lowered);
    json_put_integer(scale, "bad_losses", trainer->progress.bad_losses);
    json_put_bool(scale, "grows", network->type == FEDGATE_FP16 && trainer->recipe.scale_growth > 0);
    json_put_bool(scale, "stopped", trainer->scale_lost);
    json_put(outcome_section(evidence, "parity"), "scale", scale);
    return true;
}
