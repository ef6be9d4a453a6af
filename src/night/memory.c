// memory - what a plan asks of the device and of the machine around it, and the plan in the ledger.
#include "night_internal.h"

#include <math.h>

// Device memory that the driver takes for one recording: read before and after, so in the pages it hands out.
// Assumed until a night has measured it: account "captures".
static const int64_t RECORDING_BYTES = 4 << 20;

PlanDevice night_plan_device(const DeviceInfo *device)
{
    return (PlanDevice){.context_bytes = device->context_bytes,
                        .workspace_bytes = device->workspace_bytes,
                        .recording_bytes = device->records ? RECORDING_BYTES : 0,
                        .granule_bytes = DEVICE_GRANULE,
                        .assumed = device->name[0] == '\0'};
}

// How the rows of the training split come to this device, as the trainer opens its feed.
void night_plan_feeding(const Config *config, const DeviceInfo *device, size_t train_rows, PlanShape *shape)
{
    const TrainShape train = {.numeric = shape->numeric, .categorical = shape->categorical};
    const bool launches = device->asynchronous;
    shape->group = launches ? trainer_group(config, &train, device->records, (int64_t)train_rows) : 1;
    shape->resident = launches && config_bool(config, "input.resident");
    shape->read_back_bytes = launches ? trainer_fixed_bytes().read_back : 0;
    const FeedSpec spec = {.batch = config_integer(config, "train.batch"),
                           .group = (int)shape->group,
                           .resident = shape->resident,
                           .epochs = trainer_epochs(config, (int64_t)train_rows),
                           .slots = (int)config_integer(config, "input.slots"),
                           .prefetch = (int)config_integer(config, "input.prefetch")};
    const FeedMemory memory =
        feed_memory(&spec, (size_t)shape->numeric, (size_t)shape->categorical, train_rows);
    shape->resident_bytes = memory.rows;
    shape->order_bytes = memory.order;
}

static void refuse(MemoryPlan *plan, const char *why, int64_t there, const char *what)
{
    plan->fits = false;
    if (!text_print(plan->refusal, sizeof plan->refusal,
                    "planned peak is %.4g GB, %s of which %.4g may be used: %s",
                    (double)plan->planned_peak_bytes / 1e9, why, (double)there / 1e9, what))
        BUG("refusal of %lld bytes too long", (long long)plan->planned_peak_bytes);
}

void night_bound_by_machine(const Config *config, const DeviceInfo *device, MemoryPlan *plan)
{
    char why[160];
    const double kept = 1 - config_real(config, "memory.reserve");
    const int64_t there = (int64_t)floor((double)device->memory_bytes * kept),
                  left = device->memory_bytes - device->other_bytes;
    if (!plan->fits || device->memory_bytes <= 0)
        return;
    if (plan->planned_peak_bytes > there) {
        if (!text_print(why, sizeof why, "the device has %.4g GB", (double)device->memory_bytes / 1e9))
            why[0] = '\0';
        refuse(plan, why, there, "smaller train.microbatch, train.hidden, or another machine");
    } else if (plan->planned_peak_bytes > left) {
        if (!text_print(why, sizeof why, "other programs hold %.4g GB of the device's %.4g GB,",
                        (double)device->other_bytes / 1e9, (double)device->memory_bytes / 1e9))
            why[0] = '\0';
        refuse(plan, why, left, "end what else uses the device, or take another one");
    }
}

// What is live is scored too and may be larger. The plan itself does not look at it: its microbatch changes
// the bits, and these may not depend on what is live.
static void plan_live_scores(Night *night)
{
    char name[2 * VERSION_SIZE], directory[FILE_PATH_SIZE];
    Error ignored = ERROR_INIT;   // evaluation says why a live release cannot be scored
    if (!night->has_head || night->head.to_kind != RELEASE_MODEL ||
        !text_print(name, sizeof name, "releases/%s", night->head.to) ||
        !file_join(directory, night->options->home, name, &ignored))
        return;
    OWNED(Model, model_free) *model = model_load(directory, &ignored);
    if (model == NULL)
        return;
    TrainShape shape;
    ScoreBytes bytes;
    model_shape(model, &shape);
    trainer_score_bytes(&shape, &bytes);
    const struct {
        const char *account;
        int64_t bytes;
    } parts[] = {{"score weights", bytes.weights},
                 {"score activations", bytes.activations},
                 {"score input", bytes.input},
                 {"score workspace", bytes.workspace}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (parts[i].bytes > plan_ledger_bytes(&night->plan.memory, parts[i].account))
            ledger_plan(night->ledger, LEDGER_DEVICE, parts[i].account, parts[i].bytes);
}

void night_plan_accounts(Night *night)
{
    const MemoryPlan *plan = &night->plan.memory;
    int64_t left = plan->budget_bytes - night->device.context_bytes;   // the ledger does not see the context
    ledger_set_budget(night->ledger, LEDGER_DEVICE, left > 0 ? left : 1);
    for (size_t i = 0; i < plan->account_count; i++) {
        const PlanAccount *account = &plan->accounts[i];
        if (account->ledger != NULL && account->pinned)
            ledger_plan(night->ledger, LEDGER_PINNED, account->ledger, account->bytes);
        else if (account->ledger != NULL)   // several lines of the plan may be charged to one account
            ledger_plan(night->ledger, LEDGER_DEVICE, account->ledger,
                        plan_ledger_bytes(plan, account->ledger));
    }
    plan_live_scores(night);
}
