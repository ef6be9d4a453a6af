// memory - the ledger before the run: the state, what each sample adds, what fits.
#include "plan_internal.h"

#include <string.h>

__extension__ typedef __int128 Wide;

int64_t plan_times(int64_t a, int64_t b)
{
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;   // both are never negative here
}

int64_t plan_plus(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

int64_t plan_peak_bytes(const MemoryPlan *plan, int64_t microbatch)
{
    return plan_plus(plan->state_bytes, plan_times(microbatch, plan->per_sample_bytes));
}

int64_t plan_equal_blocks(int64_t bytes, size_t count, size_t index)
{
    return (int64_t)((Wide)bytes * (Wide)(index + 1) / (Wide)count);
}

int64_t plan_input_width(const PlanShape *shape)
{
    int64_t width = shape->numeric;
    for (int64_t i = 0; i < shape->categorical; i++)
        width = plan_plus(width, shape->embedding[i]);
    return width;
}

int64_t plan_weights(const PlanShape *shape)
{
    int64_t count = 0, in = plan_input_width(shape);
    for (int64_t i = 0; i < shape->categorical; i++)
        count = plan_plus(count, plan_times(shape->cardinality[i], shape->embedding[i]));
    for (size_t i = 0; i <= shape->layers; i++) {
        int64_t out = i < shape->layers ? shape->hidden[i] : shape->outputs;
        count = plan_plus(count, plan_times(plan_plus(in, 1), out));   // + 1: the bias
        in = out;
    }
    return count;
}

static void add_account(MemoryPlan *plan, const char *name, int64_t bytes, bool per_sample)
{
    if (plan->account_count == PLAN_ACCOUNTS)
        BUG("more than %d accounts in a plan", PLAN_ACCOUNTS);
    plan->accounts[plan->account_count++] = (PlanAccount){name, bytes, per_sample};
    int64_t *sum = per_sample ? &plan->per_sample_bytes : &plan->state_bytes;
    *sum = plan_plus(*sum, bytes);
}

enum { MASTER_BYTES = 4, CODE_BYTES = 4, TARGET_BYTES = 4, MOMENTS = 2 };

static int64_t activations_of(const PlanShape *shape, int64_t width)
{
    return plan_times(2 * shape->bytes_per_element, width);   // each value and its gradient
}

// AdamW keeps FP32 masters, gradients and two moments; early stop keeps the best weights beside them.
static void add_state(MemoryPlan *plan, const PlanShape *shape, int64_t context_bytes)
{
    int64_t weights = plan_weights(shape);
    add_account(plan, "weights", plan_times(MASTER_BYTES, weights), false);
    if (shape->bytes_per_element < MASTER_BYTES)
        add_account(plan, "weights of the pass", plan_times(shape->bytes_per_element, weights), false);
    add_account(plan, "gradients", plan_times(MASTER_BYTES, weights), false);
    add_account(plan, "optimizer", plan_times(MOMENTS * MASTER_BYTES, weights), false);
    add_account(plan, "best weights", plan_times(MASTER_BYTES, weights), false);
    add_account(plan, "context", context_bytes, false);
}

static void add_per_sample(MemoryPlan *plan, const PlanShape *shape, int64_t slots)
{
    int64_t row = shape->numeric * MASTER_BYTES + shape->categorical * CODE_BYTES + TARGET_BYTES;
    int64_t width = plan_plus(plan_input_width(shape), shape->outputs);
    for (size_t i = 0; i < shape->layers; i++)
        width = plan_plus(width, shape->hidden[i]);
    add_account(plan, "input", plan_times(slots, row), true);
    add_account(plan, "activations", activations_of(shape, width), true);
}

static void fill_blocks(MemoryPlan *plan, const PlanShape *shape, int64_t asked_blocks)
{
    int64_t activations = plan_times(plan->microbatch, plan->per_sample_bytes), cumulative = 0;
    bool by_layer = asked_blocks == 0 && shape && plan->account_count > 0 &&
                    plan->accounts[plan->account_count - 1].per_sample;
    size_t count = by_layer ? shape->layers + 2 : (size_t)asked_blocks;
    for (size_t i = 0; i < count && i < PLAN_BLOCKS; i++) {
        int64_t bytes = 0;
        if (!by_layer)
            bytes = plan_equal_blocks(activations, count, i) - cumulative;
        else if (i == 0)   // the batch's slots and the first layer's inputs
            bytes = plan_times(plan->microbatch, plan_plus(plan->accounts[plan->account_count - 2].bytes,
                                                           activations_of(shape, plan_input_width(shape))));
        else
            bytes =
                plan_times(plan->microbatch,
                           activations_of(shape, i <= shape->layers ? shape->hidden[i - 1] : shape->outputs));
        cumulative = plan_plus(cumulative, bytes);
        plan->blocks[i] = bytes;
        plan->resident[i] = cumulative <= plan->available_bytes;
        plan->block_count = i + 1;
    }
}

static int64_t largest_divisor(int64_t batch, int64_t most)
{
    int64_t divisor = most < batch ? most : batch;
    while (divisor > 1 && batch % divisor != 0)
        divisor--;
    return divisor < 1 ? 1 : divisor;
}

static void refuse(MemoryPlan *plan, int64_t asked)
{
    char peak[FIGURE_SIZE], budget[FIGURE_SIZE], state[FIGURE_SIZE];
    plan_compared_bytes(peak, plan->planned_peak_bytes, plan->budget_bytes);
    plan_exact_bytes(budget, plan->budget_bytes);
    plan_exact_bytes(state, plan->state_bytes);
    bool written = true;
    if (plan->available_bytes < 0)
        written = text_print(plan->refusal, sizeof plan->refusal,
                             "the state alone needs %s, the budget is %s", state, budget);
    else if (asked != 0 && plan->batch % asked != 0)
        written = text_print(plan->refusal, sizeof plan->refusal,
                             "microbatch %lld does not divide the batch of %lld", (long long)asked,
                             (long long)plan->batch);
    else if (!(plan->planned_peak_bytes <= plan->budget_bytes))
        written =
            text_print(plan->refusal, sizeof plan->refusal, "microbatch %lld needs %s, the budget is %s",
                       (long long)plan->microbatch, peak, budget);
    if (!written)
        BUG("a refusal longer than %zu bytes", sizeof plan->refusal);
    plan->fits = plan->refusal[0] == '\0';
}

// Reserve to nine decimals in integers, so that 24 GB x (1 - 0.1) is 21.6 GB on every machine; rounded down.
static int64_t budget_of(int64_t device_bytes, double reserve_ratio)
{
    const int64_t billion = 1000000000;
    int64_t kept = billion - (int64_t)(reserve_ratio * (double)billion + 0.5);
    return (int64_t)((Wide)device_bytes * kept / billion);
}

static bool fill_accounts(MemoryPlan *plan, const Config *config, const PlanShape *shape,
                          int64_t context_bytes, Error *error)
{
    int64_t state = config_integer(config, "memory.state"),
            per_sample = config_integer(config, "memory.per_sample");
    if (!shape && (state == 0 || per_sample == 0)) {
        (void)FAIL(error, ERROR_CONFIG, 0,
                   "a plan without a data set needs 'memory.state' and 'memory.per_sample'");
        return error_hint(error, "Give both, or name the data in data.train and its columns.");
    }
    if (shape && (shape->layers + 2 > PLAN_BLOCKS || shape->bytes_per_element <= 0))
        return FAIL(error, ERROR_CONFIG, 0, "a model of %zu hidden layers is more than the limit of %d",
                    shape->layers, PLAN_BLOCKS - 2);
    if (state)
        add_account(plan, "state (declared)", state, false);
    else
        add_state(plan, shape, context_bytes);
    if (per_sample)
        add_account(plan, "sample (declared)", per_sample, true);
    else
        add_per_sample(plan, shape, config_integer(config, "input.slots"));
    return true;
}

bool plan_memory(const Config *config, const PlanShape *shape, int64_t context_bytes, MemoryPlan *ret_plan,
                 Error *error)
{
    MemoryPlan plan = {0};
    int64_t asked = config_integer(config, "train.microbatch");
    plan.device_bytes = config_integer(config, "device.memory");
    plan.reserve_ratio = config_real(config, "memory.reserve");
    plan.budget_bytes = budget_of(plan.device_bytes, plan.reserve_ratio);
    plan.batch = config_integer(config, "train.batch");
    if (!fill_accounts(&plan, config, shape, context_bytes, error))
        return false;
    plan.available_bytes = plan.budget_bytes - plan.state_bytes;
    if (plan.available_bytes > 0)
        plan.largest_microbatch = plan.available_bytes / plan.per_sample_bytes;
    plan.microbatch = asked ? asked : largest_divisor(plan.batch, plan.largest_microbatch);
    plan.accumulation = plan.batch % plan.microbatch == 0 ? plan.batch / plan.microbatch : 0;
    plan.planned_peak_bytes = plan_peak_bytes(&plan, plan.microbatch);
    refuse(&plan, asked);
    bool computed = config_integer(config, "memory.per_sample") == 0;
    fill_blocks(&plan, computed ? shape : NULL, config_integer(config, "memory.blocks"));
    *ret_plan = plan;
    return true;
}
