// accounts - what a tabular network keeps on the device, account by account, from its shape and precision.
//
// The names of the ledger are those of whoever allocates: `memory` compares planned and measured bytes of
// each. Training keeps FP32 master weights, gradients and two moments of AdamW, early stop the best weights;
// a pass in half precision reads a copy of its own, and beside it lives the FP32 reference arm of the parity
// ladder.
#include "plan_internal.h"

enum { MASTER_BYTES = 4, CODE_BYTES = 4, TARGET_BYTES = 4, LOGIT_BYTES = 4, MOMENTS = 2 };
enum { ALIGNMENT = 64 };   // of each array inside one allocation, as trainer and input cut them

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

static bool is_half(const PlanShape *shape)
{
    return shape->bytes_per_element < MASTER_BYTES;
}

static void add(MemoryPlan *plan, PlanAccount account)
{
    if (plan->account_count == PLAN_ACCOUNTS)
        BUG("more than %d accounts in a plan", PLAN_ACCOUNTS);
    account.bytes = plan_times(account.count, account.each);
    if (account.bytes == 0)
        return;
    plan->accounts[plan->account_count++] = account;
    int64_t *sum = account.per_sample ? &plan->per_sample_bytes : &plan->state_bytes;
    *sum = plan_plus(*sum, account.bytes);
}

void plan_add_declared(MemoryPlan *plan, const char *name, int64_t bytes, bool per_sample)
{
    add(plan, (PlanAccount){name, NULL, 1, bytes, "declared figure", 0, per_sample});
}

// -- activations: each value of a block and its gradient, for each sample of a microbatch

// Elements of one block: the inputs (0), a hidden layer, the logits (layers + 1). A pass in FP32 without
// embeddings reads the batch itself, and only embeddings need the gradient of the inputs.
static int64_t values_of(const PlanShape *shape, size_t block, int64_t element)
{
    if (block > 0)
        return block <= shape->layers ? shape->hidden[block - 1] : shape->outputs;
    return shape->categorical > 0 || element < MASTER_BYTES ? plan_input_width(shape) : 0;
}

static int64_t gradients_of(const PlanShape *shape, size_t block, int64_t element)
{
    return block == 0 && shape->categorical == 0 ? 0 : values_of(shape, block, element);
}

static int64_t value_bytes(const PlanShape *shape, size_t block, int64_t element)
{
    return block == shape->layers + 1 ? LOGIT_BYTES : element;   // logits are FP32 in every precision
}

static int64_t arm_block_bytes(const PlanShape *shape, size_t block, int64_t element)
{
    return plan_plus(plan_times(values_of(shape, block, element), value_bytes(shape, block, element)),
                     plan_times(gradients_of(shape, block, element), element));
}

int64_t plan_block_bytes(const PlanShape *shape, size_t block)
{
    int64_t bytes = arm_block_bytes(shape, block, shape->bytes_per_element);
    return is_half(shape) ? plan_plus(bytes, arm_block_bytes(shape, block, MASTER_BYTES)) : bytes;
}

int64_t plan_row_bytes(const PlanShape *shape)
{
    return shape->numeric * MASTER_BYTES + shape->categorical * CODE_BYTES + TARGET_BYTES;
}

static int64_t up(int64_t bytes)
{
    return bytes > INT64_MAX - ALIGNMENT ? bytes : (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static int64_t padding_of(int64_t rows, int64_t width, int64_t element)
{
    int64_t bytes = plan_times(rows, plan_times(width, element));
    return up(bytes) - bytes;
}

static int64_t arm_padding(const PlanShape *shape, int64_t element, int64_t microbatch)
{
    int64_t padding = 0;
    for (size_t i = 0; i < shape->layers + 2; i++)
        padding += padding_of(microbatch, values_of(shape, i, element), value_bytes(shape, i, element)) +
                   padding_of(microbatch, gradients_of(shape, i, element), element);
    return padding;
}

PlanPadding plan_padding(const PlanShape *shape, int64_t microbatch)
{
    return (PlanPadding){arm_padding(shape, shape->bytes_per_element, microbatch),
                         is_half(shape) ? arm_padding(shape, MASTER_BYTES, microbatch) : 0};
}

PlanPadding plan_most_padding(const PlanShape *shape)
{
    int64_t most = 2 * (int64_t)(shape->layers + 2) * (ALIGNMENT - 1);
    return (PlanPadding){most, is_half(shape) ? most : 0};
}

// -- state

static void add_arm(MemoryPlan *plan, const PlanShape *shape, bool reference)
{
    const int64_t weights = plan_weights(shape);
    static const char *const names[][2] = {{"weights", "parity weights"},
                                           {"gradients", "parity gradients"},
                                           {"optimizer", "parity optimizer"},
                                           {"step state", "parity step state"},
                                           {"pace table", "parity pace table"}};
    const char *name[5];
    for (size_t i = 0; i < sizeof name / sizeof name[0]; i++)
        name[i] = names[i][reference];
    add(plan, (PlanAccount){name[0], name[0], weights, MASTER_BYTES, "parameters", 0, false});
    if (is_half(shape) && !reference)
        add(plan, (PlanAccount){"pass weights", "pass weights", weights, shape->bytes_per_element,
                                "parameters", 0, false});
    add(plan, (PlanAccount){name[1], name[1], weights, MASTER_BYTES, "parameters", 0, false});
    add(plan, (PlanAccount){name[2], name[2], weights, MOMENTS * MASTER_BYTES, "parameters", 0, false});
    if (!reference)
        add(plan,
            (PlanAccount){"best weights", "best weights", weights, MASTER_BYTES, "parameters", 0, false});
    add(plan, (PlanAccount){name[3], name[3], 1, shape->step_bytes, "state", 0, false});
    add(plan, (PlanAccount){name[4], name[3], shape->steps, shape->pace_bytes, "planned steps", 0, false});
    if (reference)
        add(plan,
            (PlanAccount){"parity workspace", "parity workspace", 1, shape->sum_bytes, "sums", 0, false});
}

// Scoring takes a network of its own, forward only, while the trainer's is still there.
static void add_scoring(MemoryPlan *plan, const PlanShape *shape)
{
    const struct {
        const char *name;
        int64_t bytes;
    } parts[] = {{"score weights", shape->score_weights},
                 {"score activations", shape->score_activations},
                 {"score input", shape->score_input},
                 {"score workspace", shape->score_workspace}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        add(plan, (PlanAccount){parts[i].name, parts[i].name, 1, parts[i].bytes, "scoring", 0, false});
}

void plan_add_state(MemoryPlan *plan, const PlanShape *shape, int64_t slots, bool resident,
                    PlanPadding padding, int64_t context_bytes)
{
    int64_t batch = plan->batch;
    int64_t slot = up(plan_times(batch, shape->numeric * MASTER_BYTES)) +
                   up(plan_times(batch, shape->categorical * CODE_BYTES)) +
                   up(plan_times(batch, TARGET_BYTES));
    add_arm(plan, shape, false);
    add(plan, (PlanAccount){"input slots", "input.slots", slots, slot, "slots of a batch", 0, false});
    if (resident)
        add(plan, (PlanAccount){"validation", "validation", shape->validation_rows, plan_row_bytes(shape),
                                "rows", 0, false});
    add(plan, (PlanAccount){"workspace", "workspace", 1, plan_plus(shape->sum_bytes, shape->operand_bytes),
                            "sums and operands", 0, false});
    add(plan, (PlanAccount){"alignment", "activations", 1, padding.own, "rounding up", 0, false});
    if (is_half(shape)) {
        add_arm(plan, shape, true);
        add(plan, (PlanAccount){"parity alignment", "parity activations", 1, padding.reference, "rounding up",
                                0, false});
    }
    add_scoring(plan, shape);
    add(plan, (PlanAccount){"context", NULL, 1, context_bytes, "driver and libraries", 0, false});
}

void plan_add_per_sample(MemoryPlan *plan, const PlanShape *shape, bool resident)
{
    const int64_t element = shape->bytes_per_element;
    int64_t values = 0, reference = 0;
    for (size_t i = 0; i < shape->layers + 2; i++) {
        values = plan_plus(values, plan_plus(values_of(shape, i, element), gradients_of(shape, i, element)));
        reference = plan_plus(
            reference, plan_plus(values_of(shape, i, MASTER_BYTES), gradients_of(shape, i, MASTER_BYTES)));
    }
    // the logits are counted apart, as they do not follow the precision
    add(plan,
        (PlanAccount){"activations", "activations", values - shape->outputs, element, "values", 0, true});
    add(plan, (PlanAccount){"logits", "activations", shape->outputs, LOGIT_BYTES, "values", 0, true});
    if (is_half(shape))
        add(plan, (PlanAccount){"parity activations", "parity activations", reference, MASTER_BYTES, "values",
                                0, true});
    if (!resident && shape->validation_rows > 0)
        add(plan, (PlanAccount){"validation piece", "validation", 1, plan_row_bytes(shape), "row", 0, true});
}
