// memory - the ledger before the run: the state, what each sample adds, what fits.
#include "plan_internal.h"

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

static void fill_blocks(MemoryPlan *plan, const PlanShape *shape, int64_t asked_blocks)
{
    int64_t activations = plan_times(plan->microbatch, plan->per_sample_bytes), cumulative = 0;
    bool by_layer = asked_blocks == 0 && shape != NULL;
    size_t count = by_layer ? shape->layers + 2 : (size_t)asked_blocks;
    for (size_t i = 0; i < count && i < PLAN_BLOCKS; i++) {
        int64_t bytes = by_layer ? plan_times(plan->microbatch, plan_block_bytes(shape, i))
                                 : plan_equal_blocks(activations, count, i) - cumulative;
        if (by_layer && i == 0 && plan->validation_rows < shape->validation_rows)
            bytes = plan_plus(bytes, plan->validation_bytes);   // the piece stands beside the inputs
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

static const PlanAccount *largest_account(const MemoryPlan *plan)
{
    const PlanAccount *largest = NULL;
    for (size_t i = 0; i < plan->account_count; i++)
        if (!plan->accounts[i].per_sample && !plan->accounts[i].pinned &&
            (!largest || plan->accounts[i].bytes > largest->bytes))
            largest = &plan->accounts[i];
    return largest;
}

static bool refuse_state(MemoryPlan *plan, int64_t context_bytes)
{
    char state[FIGURE_SIZE], budget[FIGURE_SIZE], part[FIGURE_SIZE];
    const PlanAccount *largest = largest_account(plan);
    plan_exact_bytes(state, context_bytes > plan->budget_bytes ? context_bytes : plan->state_bytes);
    plan_exact_bytes(budget, plan->budget_bytes);
    if (context_bytes > plan->budget_bytes)
        return text_print(plan->refusal, sizeof plan->refusal,
                          "driver and libraries alone take %s, the budget is %s; take a larger device or a "
                          "smaller memory.reserve",
                          state, budget);
    plan_exact_bytes(part, largest->bytes);
    return text_print(plan->refusal, sizeof plan->refusal,
                      "the state alone needs %s, the budget is %s; its largest part is '%s' with %s", state,
                      budget, largest->name, part);
}

static bool refuse_samples(MemoryPlan *plan)
{
    char peak[FIGURE_SIZE], budget[FIGURE_SIZE], rows[FIGURE_SIZE], of_rows[2 * FIGURE_SIZE] = "", what[80];
    plan_compared_bytes(peak, plan->planned_peak_bytes, plan->budget_bytes);
    plan_exact_bytes(budget, plan->budget_bytes);
    plan_exact_bytes(rows, plan->validation_bytes);
    bool by_rows = plan->planned_peak_bytes - plan->validation_bytes <= plan->budget_bytes;
    bool written = !by_rows || text_print(of_rows, sizeof of_rows, " (%s of them validation rows)", rows);
    written =
        written && (plan->largest_microbatch == 0
                        ? text_print(what, sizeof what, "no sample fits beside the state")
                        : text_print(what, sizeof what, "at most %lld samples fit, lower train.microbatch",
                                     (long long)plan->largest_microbatch));
    return written &&
           text_print(plan->refusal, sizeof plan->refusal, "microbatch %lld needs %s%s, the budget is %s; %s",
                      (long long)plan->microbatch, peak, of_rows, budget, what);
}

static void refuse(MemoryPlan *plan, int64_t context_bytes)
{
    bool written = true;
    plan->refusal[0] = '\0';
    if (plan->available_bytes < 0)
        written = refuse_state(plan, context_bytes);
    else if (plan->asked && plan->batch % plan->microbatch != 0)
        written = text_print(plan->refusal, sizeof plan->refusal,
                             "microbatch %lld does not divide the batch of %lld", (long long)plan->microbatch,
                             (long long)plan->batch);
    else if (!(plan->planned_peak_bytes <= plan->budget_bytes))
        written = refuse_samples(plan);
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

static bool check_figures(const Config *config, const PlanShape *shape, Error *error)
{
    if (!shape &&
        (config_integer(config, "memory.state") == 0 || config_integer(config, "memory.per_sample") == 0)) {
        (void)FAIL(error, ERROR_CONFIG, 0,
                   "a plan without a data set needs 'memory.state' and 'memory.per_sample'");
        return error_hint(error, "Give both, or name the data in data.train and its columns.");
    }
    if (shape && (shape->layers + 2 > PLAN_BLOCKS || shape->bytes_per_element <= 0))
        return FAIL(error, ERROR_CONFIG, 0, "a model of %zu hidden layers is more than the limit of %d",
                    shape->layers, PLAN_BLOCKS - 2);
    return true;
}

typedef struct Given {
    const Config *config;
    const PlanShape *shape;
    PlanDevice device;
} Given;

static void add_computed_state(MemoryPlan *plan, const Given *given, bool resident, PlanPadding padding)
{
    const int64_t slots = config_integer(given->config, "input.slots");
    plan_add_state(plan, given->shape, resident, padding);
    plan_add_feeding(plan, given->shape, slots, config_integer(given->config, "input.prefetch"));
    plan_add_device(plan, &given->device, slots);
}

// One try: accounts, then the microbatch that they allow.
static MemoryPlan lay_out(const Given *given, bool resident, PlanPadding padding)
{
    MemoryPlan plan = {0};
    const Config *config = given->config;
    int64_t asked = config_integer(config, "train.microbatch"),
            state = config_integer(config, "memory.state"),
            per_sample = config_integer(config, "memory.per_sample");
    plan.device_bytes = config_integer(config, "device.memory");
    plan.reserve_ratio = config_real(config, "memory.reserve");
    plan.budget_bytes = budget_of(plan.device_bytes, plan.reserve_ratio);
    plan.batch = config_integer(config, "train.batch");
    plan.asked = asked != 0;
    plan.element_bytes = given->shape && !per_sample ? given->shape->bytes_per_element : 0;
    if (state)
        plan_add_declared(&plan, "state (declared)", state, false);
    else
        add_computed_state(&plan, given, resident, padding);
    if (per_sample)
        plan_add_declared(&plan, "sample (declared)", per_sample, true);
    else
        plan_add_per_sample(&plan, given->shape, resident);
    if (!state)
        plan_add_rounding(&plan, given->device.granule_bytes);
    plan.available_bytes = plan.budget_bytes - plan.state_bytes;
    if (plan.available_bytes > 0)
        plan.largest_microbatch = plan.available_bytes / plan.per_sample_bytes;
    plan.microbatch = asked ? asked : largest_divisor(plan.batch, plan.largest_microbatch);
    plan.accumulation = plan.batch % plan.microbatch == 0 ? plan.batch / plan.microbatch : 0;
    plan.planned_peak_bytes = plan_peak_bytes(&plan, plan.microbatch);
    return plan;
}

// Validation rows stay on the device when there is room, else they come a microbatch at a time.
static bool rows_stay(const MemoryPlan *piecewise, const PlanShape *shape)
{
    enum { RESIDENT_SHARE = 4 };   // at most this part of what is left: the rest is for what nobody foresaw
    int64_t left = piecewise->budget_bytes - piecewise->planned_peak_bytes,
            table = plan_times(shape->validation_rows, plan_row_bytes(shape));
    return shape->validation_rows <= piecewise->microbatch || (left > 0 && table <= left / RESIDENT_SHARE);
}

static void note_validation(MemoryPlan *plan, const PlanShape *shape, bool resident)
{
    plan->validation_rows = resident ? shape->validation_rows : plan->microbatch;
    for (size_t i = 0; i < plan->account_count; i++)
        if (plan->accounts[i].ledger && text_equal(plan->accounts[i].ledger, "validation"))
            plan->validation_bytes =
                plan_times(plan->accounts[i].bytes, plan->accounts[i].per_sample ? plan->microbatch : 1);
}

bool plan_memory(const Config *config, const PlanShape *shape, const PlanDevice *device, MemoryPlan *ret_plan,
                 Error *error)
{
    const Given given = {config, shape, device ? *device : (PlanDevice){0}};
    if (!check_figures(config, shape, error))
        return false;
    bool resident = false;
    MemoryPlan plan;
    if (!shape) {
        plan = lay_out(&given, false, (PlanPadding){0, 0});
    } else {
        const PlanPadding most = plan_most_padding(shape);
        plan = lay_out(&given, false, most);
        resident = rows_stay(&plan, shape);
        plan = lay_out(&given, resident, most);
        MemoryPlan exact = lay_out(&given, resident, plan_padding(shape, plan.microbatch));
        if (exact.microbatch ==
            plan.microbatch)   // else the bytes saved by rounding less let another one fit
            plan = exact;
        note_validation(&plan, shape, resident);
    }
    refuse(&plan, given.device.context_bytes);
    bool computed = config_integer(config, "memory.per_sample") == 0;
    fill_blocks(&plan, computed ? shape : NULL, config_integer(config, "memory.blocks"));
    *ret_plan = plan;
    return true;
}

int64_t plan_ledger_bytes(const MemoryPlan *plan, const char *account)
{
    int64_t bytes = 0;
    for (size_t i = 0; i < plan->account_count; i++)
        if (!plan->accounts[i].pinned && plan->accounts[i].ledger &&
            text_equal(plan->accounts[i].ledger, account))
            bytes = plan_plus(bytes, plan_times(plan->accounts[i].bytes,
                                                plan->accounts[i].per_sample ? plan->microbatch : 1));
    return bytes;
}
