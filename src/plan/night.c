// night - the parts of a night's plan put together from the options and a shape, and the plan as JSON.
#include "plan_internal.h"

#include <stdio.h>

// Declared figures win over the table; each says where it came from.
static void take_peak(const Config *config, const DevicePeak *peak, NightPlan *plan, double *ret_flops,
                      double *ret_bandwidth)
{
    double flops = config_real(config, "device.peak_flops"),
           bandwidth = config_real(config, "device.bandwidth");
    const char *source = peak ? peak->source : "unknown";
    if (flops > 0)
        (void)snprintf(plan->peak_source, sizeof plan->peak_source, "declared: device.peak_flops");
    else
        (void)snprintf(plan->peak_source, sizeof plan->peak_source, "%s", source);
    *ret_flops = flops > 0 ? flops : peak ? peak->peak_flops : 0;
    *ret_bandwidth = bandwidth > 0 ? bandwidth : peak ? peak->bandwidth : 0;
}

static void fill_layers(NightPlan *plan, const PlanShape *shape, int64_t rows, double flops, double bandwidth)
{
    int64_t in = plan_input_width(shape);
    for (size_t i = 0; i <= shape->layers && i < PLAN_BLOCKS; i++) {
        int64_t out = i < shape->layers ? shape->hidden[i] : shape->outputs;
        plan_roofline_layer(rows, in, out, shape->bytes_per_element, flops, bandwidth, &plan->layers[i]);
        plan->layer_count = i + 1;
        in = out;
    }
}

bool plan_night(const Config *config, const PlanShape *shape, const PlanDevice *device,
                const DevicePeak *peak, NightPlan *ret_plan, Error *error)
{
    NightPlan plan = {0};
    double flops, bandwidth, step_bytes;
    if (!plan_memory(config, shape, device, &plan.memory, error))
        return false;
    (void)snprintf(plan.precision, sizeof plan.precision, "%s", config_text(config, "train.precision"));
    take_peak(config, peak, &plan, &flops, &bandwidth);
    int64_t rows = config_integer(config, "plan.intensity_rows"),
            in = config_integer(config, "plan.intensity_in");
    int64_t out = config_integer(config, "plan.intensity_out");
    if (in > 0 && out > 0) {
        plan.has_roofline = true;
        plan_roofline_layer(rows ? rows : plan.memory.batch, in, out,
                            config_integer(config, "plan.intensity_bytes"), flops, bandwidth, &plan.roofline);
    }
    if (shape) {
        plan_step_work(shape, plan.memory.batch, &plan.step_flop, &step_bytes);
        fill_layers(&plan, shape, plan.memory.microbatch, flops, bandwidth);
        if (!plan.has_roofline)
            plan_roofline(plan.step_flop, step_bytes, flops, bandwidth, &plan.roofline);
        plan.has_roofline = true;
    }
    *ret_plan = plan;
    return true;
}

static Json *memory_to_json(const MemoryPlan *memory)
{
    Json *object = json_make_object(), *accounts = json_make_array(), *blocks = json_make_array();
    json_put_integer(object, "device_bytes", memory->device_bytes);
    json_put_number(object, "reserve", memory->reserve_ratio);
    json_put_integer(object, "budget_bytes", memory->budget_bytes);
    json_put_integer(object, "state_bytes", memory->state_bytes);
    json_put_integer(object, "available_bytes", memory->available_bytes);
    json_put_integer(object, "per_sample_bytes", memory->per_sample_bytes);
    json_put_integer(object, "pinned_bytes", memory->pinned_bytes);
    json_put_integer(object, "largest_microbatch", memory->largest_microbatch);
    json_put_integer(object, "batch", memory->batch);
    json_put_integer(object, "microbatch", memory->microbatch);
    json_put_integer(object, "accumulation", memory->accumulation);
    json_put_integer(object, "planned_peak_bytes", memory->planned_peak_bytes);
    json_put_bool(object, "fits", memory->fits);
    json_put_text(object, "refusal", memory->fits ? NULL : memory->refusal);
    for (size_t i = 0; i < memory->account_count; i++) {
        Json *account = json_make_object();
        json_put_text(account, "name", memory->accounts[i].name);
        json_put_integer(account, "bytes", memory->accounts[i].bytes);
        json_put_bool(account, "per_sample", memory->accounts[i].per_sample);
        if (memory->accounts[i].pinned)
            json_put_bool(account, "pinned", true);
        if (memory->accounts[i].assumed)
            json_put_bool(account, "assumed", true);
        json_add(accounts, account);
    }
    json_put(object, "accounts", accounts);
    for (size_t i = 0; i < memory->block_count; i++) {
        Json *block = json_make_object();
        json_put_integer(block, "bytes", memory->blocks[i]);
        json_put_bool(block, "resident", memory->resident[i]);
        json_add(blocks, block);
    }
    json_put(object, "blocks", blocks);
    return object;
}

// What is unknown is null, never 0.
static void put_known(Json *object, const char *key, double value)
{
    if (value > 0)
        json_put_number(object, key, value);
    else
        json_put(object, key, NULL);
}

static Json *roofline_to_json(const Roofline *roofline)
{
    Json *object = json_make_object();
    if (roofline->rows) {
        json_put_integer(object, "rows", roofline->rows);
        json_put_integer(object, "in", roofline->in);
        json_put_integer(object, "out", roofline->out);
        json_put_integer(object, "element_bytes", roofline->element_bytes);
    }
    json_put_number(object, "flop", roofline->flop);
    json_put_number(object, "bytes", roofline->bytes);
    json_put_number(object, "intensity", roofline->intensity);
    put_known(object, "peak_flops", roofline->peak_flops);
    put_known(object, "bandwidth", roofline->bandwidth);
    put_known(object, "ridge", roofline->ridge);
    put_known(object, "attainable", roofline->attainable);
    json_put_bool(object, "memory_bound", roofline->memory_bound);
    return object;
}

Json *plan_to_json(const NightPlan *plan)
{
    Json *object = json_make_object(), *layers = json_make_array();
    json_put_text(object, "schema", "fedgate.plan/1");
    json_put(object, "memory", memory_to_json(&plan->memory));
    json_put_text(object, "precision", plan->precision);
    json_put(object, "roofline", plan->has_roofline ? roofline_to_json(&plan->roofline) : NULL);
    json_put_text(object, "peak_source", plan->peak_source);
    for (size_t i = 0; i < plan->layer_count; i++)
        json_add(layers, roofline_to_json(&plan->layers[i]));
    json_put(object, "layers", layers);
    json_put_integer(object, "steps", plan->steps);
    json_put_integer(object, "epochs", plan->epochs);
    put_known(object, "step_flop", plan->step_flop);
    put_known(object, "forecast_seconds", plan->forecast_seconds);
    if (plan->deadline_wall_ns)
        json_put_integer(object, "deadline_wall_ns", plan->deadline_wall_ns);
    else
        json_put(object, "deadline_wall_ns", NULL);
    return object;
}
