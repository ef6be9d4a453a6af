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

void plan_add_account(MemoryPlan *plan, PlanAccount account)
{
    if (plan->account_count == PLAN_ACCOUNTS)
        BUG("more than %d accounts in a plan", PLAN_ACCOUNTS);
    account.bytes = plan_times(account.count, account.each);
    if (account.bytes == 0)
        return;
    plan->accounts[plan->account_count++] = account;
    int64_t *sum = account.pinned       ? &plan->pinned_bytes
                   : account.per_sample ? &plan->per_sample_bytes
                                        : &plan->state_bytes;
    *sum = plan_plus(*sum, account.bytes);
}

void plan_add_declared(MemoryPlan *plan, const char *name, int64_t bytes, bool per_sample)
{
    plan_add_account(
        plan,
        (PlanAccount){
            .name = name, .count = 1, .each = bytes, .of = "declared figure", .per_sample = per_sample});
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

int64_t plan_aligned(int64_t bytes)
{
    return bytes > INT64_MAX - ALIGNMENT ? bytes : (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static int64_t padding_of(int64_t rows, int64_t width, int64_t element)
{
    int64_t bytes = plan_times(rows, plan_times(width, element));
    return plan_aligned(bytes) - bytes;
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
    int64_t arrays = 2 * (int64_t)(shape->layers + 2), most = arrays * (ALIGNMENT - 1);
    return (PlanPadding){most, is_half(shape) ? most : 0};
}

// -- state

// One account of the ledger under its own name, taken in so many pieces.
static void add(MemoryPlan *plan, const char *name, int64_t count, int64_t each, const char *of,
                int64_t pieces)
{
    plan_add_account(
        plan, (PlanAccount){
                  .name = name, .ledger = name, .count = count, .each = each, .of = of, .pieces = pieces});
}

// A further line of an account that another one names.
static void add_to(MemoryPlan *plan, const char *ledger, PlanAccount account)
{
    account.ledger = ledger;
    plan_add_account(plan, account);
}

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
    add(plan, name[0], weights, MASTER_BYTES, "parameters", 1);
    if (is_half(shape) && !reference)
        add(plan, "pass weights", weights, shape->bytes_per_element, "parameters", 1);
    add(plan, name[1], weights, MASTER_BYTES, "parameters", 1);
    add(plan, name[2], weights, MOMENTS * MASTER_BYTES, "parameters", MOMENTS);
    if (!reference)
        add(plan, "best weights", weights, MASTER_BYTES, "parameters", 1);
    add(plan, name[3], 1, shape->step_bytes, "state", 1);
    add_to(plan, name[3],
           (PlanAccount){.name = name[4],
                         .count = shape->steps,
                         .each = shape->pace_bytes,
                         .of = "planned steps",
                         .pieces = 1});
    if (reference)
        add(plan, "parity workspace", 1, shape->sum_bytes, "sums", 1);
}

// Scoring takes a network of its own, forward only, while the trainer's is still there.
static void add_scoring(MemoryPlan *plan, const PlanShape *shape)
{
    const struct {
        const char *name;
        int64_t bytes, pieces;
    } parts[] = {{"score weights", shape->score_weights, 1},
                 {"score activations", shape->score_activations, 1},
                 {"score input", shape->score_input, 2},   // numbers, codes
                 {"score workspace", shape->score_workspace, 2}};   // sums, scores
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        add(plan, parts[i].name, 1, parts[i].bytes, "scoring", parts[i].pieces);
}

enum { TABLE_PIECES = 3 };   // numbers, codes, targets

void plan_add_state(MemoryPlan *plan, const PlanShape *shape, bool resident, PlanPadding padding)
{
    add_arm(plan, shape, false);
    if (resident)
        add(plan, "validation", shape->validation_rows, plan_row_bytes(shape), "rows", TABLE_PIECES);
    add(plan, "workspace", 1, plan_plus(shape->sum_bytes, shape->operand_bytes), "sums and operands", 2);
    add_to(plan, "activations",
           (PlanAccount){.name = "alignment", .count = 1, .each = padding.own, .of = "rounding up"});
    if (is_half(shape)) {
        add_arm(plan, shape, true);
        add_to(plan, "parity activations",
               (PlanAccount){
                   .name = "parity alignment", .count = 1, .each = padding.reference, .of = "rounding up"});
    }
    add_scoring(plan, shape);
}

static void add_sample(MemoryPlan *plan, const char *name, const char *ledger, int64_t count, int64_t each,
                       const char *of, int64_t pieces)
{
    plan_add_account(plan, (PlanAccount){.name = name,
                                         .ledger = ledger,
                                         .count = count,
                                         .each = each,
                                         .of = of,
                                         .per_sample = true,
                                         .pieces = pieces});
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
    add_sample(plan, "activations", "activations", values - shape->outputs, element, "values", 1);
    add_sample(plan, "logits", "activations", shape->outputs, LOGIT_BYTES, "values", 0);
    if (is_half(shape))
        add_sample(plan, "parity activations", "parity activations", reference, MASTER_BYTES, "values", 1);
    if (!resident && shape->validation_rows > 0)
        add_sample(plan, "validation piece", "validation", 1, plan_row_bytes(shape), "row", TABLE_PIECES);
}
