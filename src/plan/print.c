// print - a plan as text: each line is formula = substitution = result, to be checked with a pencil.
#include "plan_internal.h"

#include <fedgate/clock.h>
#include <stdio.h>

// Microbatches whose block table is printed beside the chosen one: one that fits easily and one that often
// does not.
static const int64_t example_microbatches[] = {16, 64};

static void print_line(Text *out, const char *name, const char *format, ...) PRINTF_LIKE(3, 4);
static void print_line(Text *out, const char *name, const char *format, ...)
{
    char line[400];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    text_add_format(out, "  %-13s%s%s\n", name, name[0] ? "= " : "  ", line);
}

static const char *compare(int64_t value, int64_t limit)
{
    return value <= limit ? "<=" : ">";
}

static void print_ratio(char to[static FIGURE_SIZE], double ratio)
{
    char shortest[32];
    text_from_double(shortest, ratio);
    char two[32];
    (void)snprintf(two, sizeof two, "%.2f", ratio);
    double read = 0;
    bool exact = text_to_double(two, &read) && read == ratio;
    (void)snprintf(to, FIGURE_SIZE, "%s", exact ? two : shortest);
}

// -- memory

static void print_accounts(const MemoryPlan *memory, Text *out)
{
    for (size_t i = 0; i < memory->account_count; i++) {
        const PlanAccount *account = &memory->accounts[i];
        char bytes[FIGURE_SIZE], each[FIGURE_SIZE], count[32];
        plan_exact_bytes(bytes, account->bytes);
        text_add_format(out, "  %-20s %s%s", account->name, bytes, account->per_sample ? " a sample" : "");
        plan_exact_bytes(each, account->each);
        text_from_count(count, account->count);
        if (account->count > 1)
            text_add_format(out, " = %s %s x %s", count, account->of, each);
        if (account->assumed)
            text_add(out, " (assumed: no device was asked)");
        text_add_char(out, '\n');
    }
}

static void print_use(const MemoryPlan *memory, int64_t microbatch, Text *out)
{
    char name[32], state[FIGURE_SIZE], sample[FIGURE_SIZE], total[FIGURE_SIZE], budget[FIGURE_SIZE];
    plan_exact_bytes(state, memory->state_bytes);
    plan_exact_bytes(sample, memory->per_sample_bytes);
    plan_exact_bytes(budget, memory->budget_bytes);
    int64_t peak = plan_peak_bytes(memory, microbatch);
    plan_compared_bytes(total, peak, memory->budget_bytes);
    (void)snprintf(name, sizeof name, "%lld use", (long long)microbatch);
    print_line(out, name, "state + %lld x sample = %s + %lld x %s = %s %s %s", (long long)microbatch, state,
               (long long)microbatch, sample, total, compare(peak, memory->budget_bytes), budget);
}

static void print_ledger(const MemoryPlan *memory, Text *out)
{
    char device[FIGURE_SIZE], reserve[FIGURE_SIZE], budget[FIGURE_SIZE], state[FIGURE_SIZE],
        available[FIGURE_SIZE], sample[FIGURE_SIZE];
    plan_exact_bytes(device, memory->device_bytes);
    plan_exact_bytes(budget, memory->budget_bytes);
    plan_exact_bytes(state, memory->state_bytes);
    plan_exact_bytes(available, memory->available_bytes);
    plan_exact_bytes(sample, memory->per_sample_bytes);
    print_ratio(reserve, memory->reserve_ratio);
    text_add(out, "memory ledger (GB = 1e9 bytes)\n");
    print_accounts(memory, out);
    print_line(out, "budget", "device x (1 - reserve) = %s x (1 - %s) = %s", device, reserve, budget);
    print_line(out, "available", "budget - state = %s - %s = %s", budget, state, available);
    print_line(out, "largest", "floor(available / sample) = floor(%s / %s) = %lld samples at most", available,
               sample, (long long)memory->largest_microbatch);
    if (memory->largest_microbatch > 0)
        print_use(memory, memory->largest_microbatch, out);
    if (memory->available_bytes >= 0)
        print_use(memory, memory->largest_microbatch + 1, out);
}

static void print_blocks(const MemoryPlan *memory, int64_t microbatch, size_t count, Text *out)
{
    char state[FIGURE_SIZE], sample[FIGURE_SIZE], activations[FIGURE_SIZE], available[FIGURE_SIZE],
        total[FIGURE_SIZE], budget[FIGURE_SIZE];
    int64_t bytes = plan_times(microbatch, memory->per_sample_bytes),
            peak = plan_peak_bytes(memory, microbatch);
    plan_exact_bytes(state, memory->state_bytes);
    plan_exact_bytes(sample, memory->per_sample_bytes);
    plan_exact_bytes(available, memory->available_bytes);
    plan_exact_bytes(budget, memory->budget_bytes);
    plan_exact_bytes(activations, bytes);
    plan_compared_bytes(total, peak, memory->budget_bytes);
    text_add_format(out, "\nactivations of microbatch %lld in %zu equal blocks\n", (long long)microbatch,
                    count);
    print_line(out, "activations", "%lld x %s = %s, a block is 1/%zu of it", (long long)microbatch, sample,
               activations, count);
    for (size_t i = 0; i < count; i++) {
        int64_t cumulative = plan_equal_blocks(bytes, count, i);
        char name[32], figure[FIGURE_SIZE];
        (void)snprintf(name, sizeof name, "block %zu", i + 1);
        plan_compared_bytes(figure, cumulative, memory->available_bytes);
        print_line(out, name, "%zu/%zu x %s = %s cumulative %s %s: %s", i + 1, count, activations, figure,
                   compare(cumulative, memory->available_bytes), available,
                   cumulative <= memory->available_bytes ? "resident" : "not resident");
    }
    print_line(out, "total", "state + activations = %s + %s = %s %s %s: %s", state, activations, total,
               compare(peak, memory->budget_bytes), budget,
               peak <= memory->budget_bytes ? "fits" : "refused");
}

static void print_layers_of_memory(const MemoryPlan *memory, Text *out)
{
    if (memory->block_count == 0)
        return;
    text_add_format(out, "\nactivations of microbatch %lld by layer\n", (long long)memory->microbatch);
    int64_t cumulative = 0;
    for (size_t i = 0; i < memory->block_count; i++) {
        char name[32], own[FIGURE_SIZE], sum[FIGURE_SIZE];
        cumulative = plan_plus(cumulative, memory->blocks[i]);
        (void)snprintf(name, sizeof name,
                       i == 0                         ? "input"
                       : i + 1 == memory->block_count ? "output"
                                                      : "hidden %zu",
                       i);
        plan_round_bytes(own, memory->blocks[i]);
        plan_round_bytes(sum, cumulative);
        print_line(out, name, "%s, cumulative %s: %s", own, sum,
                   memory->resident[i] ? "resident" : "not resident");
    }
}

static void print_accumulation(const MemoryPlan *memory, const Config *config, Text *out)
{
    long long batch = memory->batch, microbatch = memory->microbatch, largest = memory->largest_microbatch,
              asked = config_integer(config, "train.microbatch");
    text_add(out, "\naccumulation (the global batch keeps its size)\n");
    if (asked)
        print_line(out, "microbatch", "%lld, as train.microbatch asks", microbatch);
    else
        print_line(out, "microbatch", "largest divisor of %lld that is at most %lld = %lld", batch, largest,
                   microbatch);
    if (!asked && largest > 0 && largest < batch && batch % largest != 0)
        print_line(out, "", "(%lld does not divide %lld)", largest, batch);
    if (memory->accumulation)
        print_line(out, "steps", "batch / microbatch = %lld / %lld = %lld: %lld = %lld x %lld", batch,
                   microbatch, (long long)memory->accumulation, batch, microbatch,
                   (long long)memory->accumulation);
    print_use(memory, memory->microbatch, out);
    text_add_format(out, "  %s%s\n", memory->fits ? "fits" : "refused: ", memory->refusal);
}

// -- roofline

static void print_work(const Roofline *roofline, const char *intensity, Text *out)
{
    char flop[32], bytes[32];
    text_from_count(flop, (int64_t)roofline->flop);
    text_from_count(bytes, (int64_t)roofline->bytes);
    if (roofline->rows) {
        long long rows = roofline->rows, in = roofline->in, outs = roofline->out;
        char input[32], weights[32], output[32];
        text_from_count(input, rows * in);
        text_from_count(weights, in * outs);
        text_from_count(output, rows * outs);
        text_add_format(out, "  one layer %lld x %lld -> %lld\n", rows, in, outs);
        print_line(out, "FLOP", "2 x rows x in x out = 2 x %lld x %lld x %lld = %s", rows, in, outs, flop);
        print_line(out, "bytes", "(rows x in + in x out + rows x out) x element");
        print_line(out, "", "= (%s + %s + %s) x %lld = %s", input, weights, output,
                   (long long)roofline->element_bytes, bytes);
    } else {
        text_add(out, "  one training step, lower bounds from the model's shapes\n");
        print_line(out, "FLOP", "%s", flop);
        print_line(out, "bytes", "%s", bytes);
    }
    print_line(out, "I", "FLOP / bytes = %s / %s = %s FLOP/byte", flop, bytes, intensity);
}

static void print_roofline(const NightPlan *plan, Text *out)
{
    const Roofline *roofline = &plan->roofline;
    char intensity[FIGURE_SIZE], peak[FIGURE_SIZE], band[FIGURE_SIZE], ridge[FIGURE_SIZE],
        attainable[FIGURE_SIZE], product[FIGURE_SIZE];
    plan_number(intensity, roofline->intensity);
    plan_rate(peak, roofline->peak_flops, "FLOP/s");
    plan_rate(band, roofline->bandwidth, "B/s");
    plan_number(ridge, roofline->ridge);
    plan_rate(attainable, roofline->attainable, "FLOP/s");
    plan_rate(product, roofline->intensity * roofline->bandwidth, "FLOP/s");
    text_add(out, "\nroofline: attainable = min(P_peak, I x B_mem)\n");
    if (!(roofline->peak_flops > 0)) {
        print_line(out, "P_peak", "unknown for this device and precision: not measured, not guessed");
        print_work(roofline, intensity, out);
        return;
    }
    print_line(out, "P_peak", "%s", peak);
    print_line(out, "", "(%s)", plan->peak_source);
    if (roofline->bandwidth > 0) {
        print_line(out, "B_mem", "%s", band);
        print_line(out, "ridge", "P_peak / B_mem = %s / %s = %s FLOP/byte", peak, band, ridge);
    } else {
        print_line(out, "B_mem", "unknown: only P_peak binds");
    }
    print_work(roofline, intensity, out);
    if (!(roofline->bandwidth > 0)) {
        print_line(out, "attainable", "P_peak = %s", attainable);
        return;
    }
    print_line(out, "attainable", "min(%s, %s FLOP/byte x %s) = min(%s, %s)", peak, intensity, band, peak,
               product);
    print_line(out, "", "= %s: %s", attainable, roofline->memory_bound ? "memory-bound" : "compute-bound");
    if (roofline->memory_bound)
        print_line(out, "", "when its operands come from device memory; then a claim above it is refused");
}

static void print_layers(const NightPlan *plan, Text *out)
{
    if (plan->layer_count == 0)
        return;
    text_add(out, "\nforward pass by layer: FLOP = 2 x rows x in x out, I = FLOP / bytes\n");
    for (size_t i = 0; i < plan->layer_count; i++) {
        const Roofline *layer = &plan->layers[i];
        char flop[32], intensity[FIGURE_SIZE], attainable[FIGURE_SIZE];
        text_from_count(flop, (int64_t)layer->flop);
        plan_number(intensity, layer->intensity);
        plan_rate(attainable, layer->attainable, "FLOP/s");
        text_add_format(out, "  %lld x %lld -> %lld: FLOP %s, I %s", (long long)layer->rows,
                        (long long)layer->in, (long long)layer->out, flop, intensity);
        text_add_format(out, layer->peak_flops > 0 ? ", attainable %s\n" : "\n", attainable);
    }
}

static void print_window(const NightPlan *plan, const Config *config, Text *out)
{
    char count[32], zone[PLAN_ZONE_SIZE], deadline[CLOCK_TIME_SIZE];
    if (plan->steps == 0 && plan->deadline_wall_ns == 0)
        return;
    text_add(out, "\nwindow\n");
    text_from_count(count, plan->steps);
    if (plan->steps)
        print_line(out, "steps", "%s at most, in %lld epochs", count, (long long)plan->epochs);
    if (plan->forecast_seconds > 0)
        print_line(out, "forecast", "%.1f s", plan->forecast_seconds);
    plan_zone(config, zone);
    clock_format(plan->deadline_wall_ns, zone, deadline);
    if (plan->deadline_wall_ns)
        print_line(out, "deadline", "%s (%s in %s)", deadline, config_text(config, "window.deadline"), zone);
    char note[PLAN_NOTE_SIZE];
    plan_deadline_note(config, plan->deadline_wall_ns, note);
    if (note[0])
        print_line(out, "", "(%s)", note);
}

void plan_print(const NightPlan *plan, const Config *config, Text *out)
{
    const MemoryPlan *memory = &plan->memory;
    print_ledger(memory, out);
    size_t blocks = (size_t)config_integer(config, "memory.blocks");
    if (blocks == 0) {
        print_layers_of_memory(memory, out);
    } else {
        print_blocks(memory, memory->microbatch, blocks, out);
        for (size_t i = 0; i < sizeof example_microbatches / sizeof example_microbatches[0]; i++)
            if (example_microbatches[i] != memory->microbatch)
                print_blocks(memory, example_microbatches[i], blocks, out);
    }
    print_accumulation(memory, config, out);
    if (plan->has_roofline)
        print_roofline(plan, out);
    print_layers(plan, out);
    print_window(plan, config, out);
}
