// feeding - accounts of the rows on their way to the device, and of what belongs to the device itself.
//
// A slot of the ring holds a group of batches, copied as one. Pinned memory is the host's and outside the
// budget of the device, but it is planned as exactly: both come from one block, taken before the night.
#include "plan_internal.h"

enum { DIGEST_BYTES = 8 };   // of each batch of a group, beside its rows

static int64_t slot_bytes(const PlanShape *shape, int64_t batch, int64_t group)
{
    const int64_t value = 4;
    int64_t bytes = plan_aligned(plan_times(batch, shape->numeric * value)) +
                    plan_aligned(plan_times(batch, shape->categorical * value)) +
                    plan_aligned(plan_times(batch, value));
    return plan_plus(plan_times(group, bytes), plan_aligned(group * DIGEST_BYTES));
}

static void add(MemoryPlan *plan, const char *name, const char *ledger, int64_t count, int64_t each,
                const char *of, int64_t pieces)
{
    plan_add_account(
        plan, (PlanAccount){
                  .name = name, .ledger = ledger, .count = count, .each = each, .of = of, .pieces = pieces});
}

static void add_pinned(MemoryPlan *plan, const char *name, const char *ledger, int64_t count, int64_t each,
                       const char *of, int64_t pieces)
{
    plan_add_account(plan, (PlanAccount){.name = name,
                                         .ledger = ledger,
                                         .count = count,
                                         .each = each,
                                         .of = of,
                                         .pinned = true,
                                         .pieces = pieces});
}

void plan_add_feeding(MemoryPlan *plan, const PlanShape *shape, int64_t slots, int64_t prefetch)
{
    // Rehearsal, parity and replays stream batch by batch; where rows are resident nothing else fills the
    // ring.
    const int64_t group = shape->group > 0 ? shape->group : 1, slot = slot_bytes(shape, plan->batch, group),
                  held = shape->resident ? 1 : group, ring = slots + (prefetch + held - 1) / held;
    const char *const single = "slots of a batch", *of = group > 1 ? "slots of a group of batches" : single;
    add(plan, "input slots", "input.slots", slots, slot, of, slots);
    add(plan, "resident rows", "input.resident", 1, shape->resident_bytes, "rows", 1);
    add(plan, "resident order", "input.order", 1, shape->order_bytes, "order", 1);
    // The parity ladder takes batches one by one: then the ring has more pieces, though fewer bytes.
    add_pinned(plan, "ring (pinned)", "input.ring", ring, slot_bytes(shape, plan->batch, held),
               held > 1 ? of : single, slots + prefetch);
    add_pinned(plan, "read-back (pinned)", "read-back", 1, shape->read_back_bytes, "launches", 1);
}

static void add_of_device(MemoryPlan *plan, const PlanDevice *device, PlanAccount account)
{
    account.assumed = device->assumed;
    plan_add_account(plan, account);
}

void plan_add_device(MemoryPlan *plan, const PlanDevice *device, int64_t slots)
{
    const PlanAccount workspaces = {.name = "workspaces",
                                    .ledger = "workspaces",
                                    .count = 1,
                                    .each = device->workspace_bytes,
                                    .of = "operations",
                                    .pieces = 1},
                      captures = {.name = "captures",   // the driver's, no piece of the arena
                                  .ledger = "captures",
                                  .count = slots,
                                  .each = device->recording_bytes,
                                  .of = "recordings at most"},
                      context = {.name = "context",
                                 .count = 1,
                                 .each = device->context_bytes,
                                 .of = "driver and libraries"};
    add_of_device(plan, device, workspaces);
    add_of_device(plan, device, captures);
    add_of_device(plan, device, context);
}

static int64_t pieces_of(const MemoryPlan *plan, bool pinned)
{
    int64_t pieces = 0;
    for (size_t i = 0; i < plan->account_count; i++)
        pieces += plan->accounts[i].pinned == pinned ? plan->accounts[i].pieces : 0;
    return pieces;
}

void plan_add_rounding(MemoryPlan *plan, int64_t granule_bytes)
{
    static const char ledger[] = "arena rounding", of[] = "pieces at most";
    const int64_t device = pieces_of(plan, false), pinned = pieces_of(plan, true);
    add(plan, ledger, ledger, device, granule_bytes, of, 0);
    add_pinned(plan, "rounding (pinned)", ledger, pinned, granule_bytes, of, 0);
}
