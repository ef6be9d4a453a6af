// child_memory - the arena of the training process, and what its memory was: accounts, arena, and what the
// driver or the process used beside them.
#include "night_internal.h"

#include <string.h>

static const char captures[] = "captures";   // recordings: the driver's memory, outside the arena

typedef struct Planned {
    int64_t device, captures, pinned;
} Planned;

static Planned planned_bytes(const Night *night)
{
    LedgerAccount accounts[LEDGER_ACCOUNTS];
    Planned planned = {0};
    size_t count = ledger_accounts(night->ledger, accounts);
    for (size_t i = 0; i < count; i++) {
        const LedgerAccount *account = &accounts[i];
        if (account->kind == LEDGER_PINNED)
            planned.pinned += account->planned_bytes;
        else if (account->kind == LEDGER_DEVICE && text_equal(account->name, captures))
            planned.captures += account->planned_bytes;
        else if (account->kind == LEDGER_DEVICE)
            planned.device += account->planned_bytes;
    }
    return planned;
}

// The arena holds the plan and room beside it, so that a small leak is seen as growth at the end of the night
// instead of ending it: as much as the plan or 16 MiB, whichever is more, but no more than nobody need
// explain and never beyond the budget. A card that others have filled may have room for the plan alone.
bool child_set_arena(Child *child, Error *error)
{
    const int64_t least = 16 << 20;
    const Night *night = child->night;
    const Planned planned = planned_bytes(night);
    const double share = config_real(night->config, "memory.unexplained");
    const int64_t budget = ledger_budget(night->ledger, LEDGER_DEVICE) - planned.captures,
                  unexplained = (int64_t)(share * (double)night->plan.memory.budget_bytes),
                  wanted = planned.device > least ? planned.device : least,
                  room = wanted < unexplained ? wanted : unexplained,
                  bytes = planned.device < budget - room ? planned.device + room : budget;
    Error full = ERROR_INIT;
    if (device_set_arena(child->device, bytes, planned.pinned, &full))
        return true;
    return device_set_arena(child->device, planned.device < budget ? planned.device : budget, planned.pinned,
                            error);
}

// -- what the driver counts, looked at after each step of the night; the most is kept

void child_look_at_driver(Child *child)
{
    FedgateMemoryUse use;
    if (child->device == NULL || !device_memory(child->device, &use))
        return;
    int64_t own = use.own > 0                             ? use.own
                  : use.used >= 0 && use.used_before >= 0 ? use.used - use.used_before
                                                          : -1;
    if (own > child->driver_own_bytes) {
        child->driver_own_bytes = own;
        child->driver_by_process = use.own > 0;
        child->driver = use;
    }
}

// -- series: what each part of the memory does while it trains

// Live bytes of the device accounts that are scratch of operations, and of recordings.
static void live_parts(const Night *night, int64_t *ret_workspace, int64_t *ret_captures)
{
    LedgerAccount accounts[LEDGER_ACCOUNTS];
    size_t count = ledger_accounts(night->ledger, accounts);
    *ret_workspace = *ret_captures = 0;
    for (size_t i = 0; i < count; i++) {
        if (accounts[i].kind != LEDGER_DEVICE)
            continue;
        *ret_workspace += strstr(accounts[i].name, "workspace") != NULL ? accounts[i].live_bytes : 0;
        *ret_captures += text_equal(accounts[i].name, captures) ? accounts[i].live_bytes : 0;
    }
}

static void thin(MemorySeries *series)
{
    for (size_t i = 0; i < series->count / 2; i++)
        memcpy(series->at[i], series->at[2 * i], sizeof series->at[i]);
    series->count /= 2;
    series->every *= 2;
}

// The driver is asked at most every tenth of a second: it takes as long as many steps.
void child_sample_memory(Child *child, int64_t step)
{
    enum { PAUSE_NS = 100000000 };
    MemorySeries *series = &child->series;
    const int64_t now_ns = clock_monotonic_ns(clock_real());
    series->every = series->every > 0 ? series->every : 1;
    if (child->device == NULL || series->seen++ % series->every != 0 ||
        (series->driver && now_ns - series->looked_ns < PAUSE_NS))
        return;
    if (series->count == SERIES_MOST)
        thin(series);
    int64_t *at = series->at[series->count++], recorded = 0;
    DeviceArenaUse arena = {0};
    FedgateMemoryUse use;
    at[SERIES_STEP] = step;
    at[SERIES_LIVE] = ledger_live(child->night->ledger, LEDGER_DEVICE);
    live_parts(child->night, &at[SERIES_WORKSPACE], &recorded);
    series->arena = device_arena(child->device, LEDGER_DEVICE, &arena);
    at[SERIES_ARENA] = arena.peak;
    at[SERIES_FREE] = arena.largest_free;
    series->driver = device_memory(child->device, &use);
    series->looked_ns = now_ns;
    if (!series->driver)
        return;
    int64_t own = use.own > 0 ? use.own : use.used - use.used_before;
    at[SERIES_DRIVER] = own;
    at[SERIES_MODULES] = own - arena.bytes - recorded;   // context, modules, workspaces of libraries
    at[SERIES_OTHERS] = use.used - own;
}

void child_put_series(Child *child)
{
    static const char *const names[SERIES_COLUMNS] = {
        "index",        "live_bytes",   "workspace_bytes", "arena_peak_bytes", "largest_free_bytes",
        "driver_bytes", "module_bytes", "other_bytes"};
    const MemorySeries *series = &child->series;
    Json *json = night_section(night_section(child->evidence, "memory"), "series");
    for (int c = 0; c < SERIES_COLUMNS; c++) {
        if ((c == SERIES_ARENA || c == SERIES_FREE) && !series->arena)
            continue;
        if (c >= SERIES_DRIVER && !series->driver)
            continue;
        Json *column = json_make_array();
        for (size_t i = 0; i < series->count; i++)
            json_add_integer(column, series->at[i][c]);
        json_put(json, names[c], column);
    }
}

static int64_t captures_peak(const Night *night)
{
    LedgerAccount accounts[LEDGER_ACCOUNTS];
    size_t count = ledger_accounts(night->ledger, accounts);
    for (size_t i = 0; i < count; i++)
        if (accounts[i].kind == LEDGER_DEVICE && text_equal(accounts[i].name, captures))
            return accounts[i].peak_bytes;
    return 0;
}

static void note_arena(Child *child, Json *memory)
{
    DeviceArenaUse use;
    static const struct {
        LedgerKind kind;
        const char *name;
    } kinds[] = {{LEDGER_DEVICE, "arena"}, {LEDGER_PINNED, "pinned_arena"}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (child->device == NULL || !device_arena(child->device, kinds[i].kind, &use))
            continue;
        Json *arena = night_section(memory, kinds[i].name);
        json_put_integer(arena, "bytes", use.bytes);
        json_put_integer(arena, "peak_bytes", use.peak);
        json_put_integer(arena, "live_bytes", use.live);
        json_put_integer(arena, "largest_free_bytes", use.largest_free);
        json_put_integer(arena, "most_pieces", use.most_pieces);
    }
}

static int64_t arena_bytes(Child *child, LedgerKind kind)
{
    DeviceArenaUse use;
    return child->device != NULL && device_arena(child->device, kind, &use) ? use.bytes : 0;
}

// A card: what its driver counts for this process beside context, arena and recordings.
static void note_driver(Child *child, Json *memory, int64_t context)
{
    if (child->driver_own_bytes <= 0)
        return;   // the judge says that it is missing
    int64_t arena = arena_bytes(child, LEDGER_DEVICE), recordings = captures_peak(child->night);
    Json *driver = night_section(memory, "driver");
    json_put_text(driver, "source", child->driver_by_process ? "process" : "card before and after");
    json_put_integer(driver, "own_bytes", child->driver_own_bytes);
    json_put_integer(driver, "arena_bytes", arena);
    json_put_integer(driver, "captures_bytes", recordings);
    json_put_integer(driver, "total_bytes", child->driver.total);
    json_put_integer(driver, "used_bytes", child->driver.used);
    json_put_integer(driver, "before_bytes", child->driver.used_before);
    json_put_integer(memory, "unexplained_bytes", child->driver_own_bytes - context - arena - recordings);
}

// The host's own processor: its device memory is the process's. What neither the arenas, the accounts of host
// memory nor the process before training explain is unexplained. A kind's highest sum counts, not the sum of
// its accounts' peaks, which lie in different phases; what was live before is in the process before. Below 0
// when pages were charged that nobody touched: the judge takes its size.
static int64_t since_context(Child *child)
{
    int64_t bytes = 0;
    for (int kind = 0; kind < LEDGER_KIND_COUNT; kind++) {
        int64_t arena = arena_bytes(child, (LedgerKind)kind);
        bytes += arena > 0 ? arena
                           : ledger_peak(child->night->ledger, (LedgerKind)kind) - child->context_live[kind];
    }
    return bytes;
}

void child_note_memory(Child *child)
{
    const Night *night = child->night;
    Json *memory = night_section(child->evidence, "memory");
    const int64_t context = child->device == NULL ? 0 : device_info(child->device)->context_bytes,
                  peak = process_peak_bytes();
    json_put(memory, "accounts",
             ledger_to_json(night->ledger));   // with evaluation and the later rungs of parity
    if (json_get(memory, "measured_peak_bytes") != NULL)
        json_put_integer(memory, "measured_peak_bytes", ledger_peak(night->ledger, LEDGER_DEVICE) + context);
    json_put_integer(memory, "process_peak_bytes", peak);
    json_put_integer(memory, "process_context_bytes", child->context_bytes);
    json_put_integer(memory, "context_bytes", context);
    note_arena(child, memory);
    child_look_at_driver(child);
    if (night_on_cpu(night))
        json_put_integer(memory, "unexplained_bytes",
                         peak - child->context_bytes - context - since_context(child));
    else
        note_driver(child, memory, context);
}
