// memory - what a device gives out: charged to accounts, zeroed, and after device_set_arena cut from one
// block.
//
// Accounts are charged what was asked. What pieces of an arena are rounded up by is an account of its own, so
// that the ledger's sum is what the arena holds and the budget binds both. The workspace of the back end is
// the first piece, taken when the first memory is wanted, so that an arena can hold it too.
#include <fedgate/text.h>
#include <string.h>

#include "device_internal.h"

static const char workspaces[] = "workspaces", rounding[] = "arena rounding";   // accounts

static FedgateMemory memory_of(LedgerKind kind)
{
    return kind == LEDGER_DEVICE ? FEDGATE_MEMORY_DEVICE : FEDGATE_MEMORY_PINNED;
}

// -- one block

// What the card has left, for a refusal; "" where the driver cannot say.
static void say_card(Device *device, LedgerKind kind, char *to, size_t size)
{
    FedgateMemoryUse use;
    to[0] = '\0';
    if (kind == LEDGER_DEVICE && device_memory(device, &use) && use.total >= 0 && use.used >= 0 &&
        !text_print(to, size, ": %lld of the card's %lld are free, other programs held %lld when it opened",
                    (long long)(use.total - use.used), (long long)use.total, (long long)use.used_before))
        to[0] = '\0';
}

static bool set_block(Device *device, LedgerKind kind, int64_t bytes, Error *error)
{
    char card[160];
    DeviceBlock *block = &device->block[kind];
    if (bytes <= 0)
        return true;
    bytes = bytes / ARENA_GRANULE * ARENA_GRANULE;
    block->arena = device_arena_new(bytes);
    if (!block->arena)
        return FAIL(error, ERROR_MEMORY, 0, "could not take memory for an arena");
    ASK(device, block->memory, take(device->handle, memory_of(kind), bytes));
    block->bytes = bytes;
    if (block->memory)
        return true;
    say_card(device, kind, card, sizeof card);
    return FAIL(error, ERROR_MEMORY, 0, "could not take an arena of %lld bytes of %s memory%s",
                (long long)bytes, ledger_kind_name(kind), card);
}

static void drop_block(Device *device, LedgerKind kind)
{
    DeviceBlock *block = &device->block[kind];
    if (block->memory)
        CALL(device, give(device->handle, memory_of(kind), block->memory, block->bytes));
    device_arena_free(block->arena);
    *block = (DeviceBlock){0};
}

bool device_set_arena(Device *device, int64_t device_bytes, int64_t pinned_bytes, Error *error)
{
    pthread_mutex_lock(&device->lock);
    if (device->started || device->block[LEDGER_DEVICE].arena || device->block[LEDGER_PINNED].arena)
        BUG("an arena is set before any memory is taken, and once");
    bool good = set_block(device, LEDGER_DEVICE, device_bytes, error) &&
                set_block(device, LEDGER_PINNED, pinned_bytes, error);
    if (good && !device->zeroed && !(device->zeroed = device->backend->event_new(device->handle)))
        good = FAIL(error, ERROR_MEMORY, 0, "could not make the event of an arena");
    if (!good) {
        drop_block(device, LEDGER_DEVICE);
        drop_block(device, LEDGER_PINNED);
    }
    pthread_mutex_unlock(&device->lock);
    return good;
}

bool device_arena(Device *device, LedgerKind kind, DeviceArenaUse *ret_use)
{
    const DeviceBlock *block = &device->block[kind];
    if (!block->arena)
        return false;
    *ret_use = device_arena_use(block->arena);
    return true;
}

// -- pieces of it

static bool over_the_arena(DeviceArena *arena, LedgerKind kind, const char *account, int64_t bytes,
                           Error *error)
{
    DeviceArenaUse use = device_arena_use(arena);
    return FAIL(error, ERROR_MEMORY, 0,
                "account '%s' asks %lld bytes of %s memory, of the arena of %lld are %lld free, the longest "
                "piece %lld",
                account, (long long)bytes, ledger_kind_name(kind), (long long)use.bytes,
                (long long)(use.bytes - use.live), (long long)use.largest_free);
}

// Zero when this returns: a copy on the other stream may follow at once.
static bool zero_piece(Device *device, LedgerKind kind, void *piece, int64_t bytes, Error *error)
{
    if (kind != LEDGER_DEVICE) {
        memset(piece, 0, (size_t)bytes);   // the host's to touch
        return true;
    }
    CALL(device, zero(device->handle, piece, bytes));
    if (!device->info.asynchronous)
        return true;
    bool passed;
    pthread_mutex_lock(&device->lock);
    CALL(device, event_record(device->handle, device->zeroed));
    ASK(device, passed, event_wait(device->zeroed, device->host.timeout_ns));
    pthread_mutex_unlock(&device->lock);
    char reason[FEDGATE_REASON_SIZE] = "the device did not zero it in time";
    if (!passed)
        (void)!device->backend->synchronise(device->handle, reason);
    return passed || FAIL(error, ERROR_DEVICE, 0, "could not zero %lld bytes of device memory: %s",
                          (long long)bytes, reason);
}

static void *take_piece(Device *device, LedgerKind kind, const char *account, int64_t bytes, Error *error)
{
    const DeviceBlock *block = &device->block[kind];
    const int64_t more = arena_round(bytes) - bytes;
    if (!ledger_charge(device->ledger, kind, rounding, more, error))
        return NULL;
    int64_t offset = device_arena_take(block->arena, bytes);
    void *piece = offset < 0 ? NULL : (char *)block->memory + offset;
    if (piece && zero_piece(device, kind, piece, bytes, error))
        return piece;
    if (piece)
        device_arena_give(block->arena, offset, bytes);
    else
        (void)over_the_arena(block->arena, kind, account, bytes, error);
    ledger_return(device->ledger, kind, rounding, more);
    return NULL;
}

static void *take_singly(Device *device, LedgerKind kind, const char *account, int64_t bytes, Error *error)
{
    void *memory;
    ASK(device, memory, take(device->handle, memory_of(kind), bytes));
    if (!memory)
        FAIL(error, ERROR_MEMORY, 0, "could not take %lld bytes of %s memory for account '%s'",
             (long long)bytes, ledger_kind_name(kind), account);
    return memory;
}

static void *take_charged(Device *device, LedgerKind kind, const char *account, int64_t bytes, Error *error)
{
    if (!ledger_charge(device->ledger, kind, account, bytes, error))
        return NULL;
    void *memory = device->block[kind].arena ? take_piece(device, kind, account, bytes, error)
                                             : take_singly(device, kind, account, bytes, error);
    if (!memory)
        ledger_return(device->ledger, kind, account, bytes);
    return memory;
}

// -- the workspace, then whatever is asked

static bool start(Device *device, Error *error)
{
    const int64_t bytes = device->info.workspace_bytes;
    pthread_mutex_lock(&device->lock);
    bool first = !device->started;
    device->started = true;
    pthread_mutex_unlock(&device->lock);
    if (!first || bytes <= 0 || !device->backend->workspace)
        return true;
    device->workspace = take_charged(device, LEDGER_DEVICE, workspaces, bytes, error);
    if (device->workspace)
        CALL(device, workspace(device->handle, device->workspace));
    else
        device->started = false;
    return device->workspace != NULL;
}

static void *take(Device *device, LedgerKind kind, const char *account, int64_t bytes, Error *error)
{
    return start(device, error) ? take_charged(device, kind, account, bytes, error) : NULL;
}

static void give(Device *device, LedgerKind kind, const char *account, void *memory, int64_t bytes)
{
    const DeviceBlock *block = &device->block[kind];
    if (!memory)
        return;
    if (block->arena) {
        device_arena_give(block->arena, (char *)memory - (char *)block->memory, bytes);
        ledger_return(device->ledger, kind, rounding, arena_round(bytes) - bytes);
    } else {
        CALL(device, give(device->handle, memory_of(kind), memory, bytes));
    }
    ledger_return(device->ledger, kind, account, bytes);
}

void *device_take(Device *device, const char *account, int64_t bytes, Error *error)
{
    return take(device, LEDGER_DEVICE, account, bytes, error);
}

void device_give(Device *device, const char *account, void *memory, int64_t bytes)
{
    give(device, LEDGER_DEVICE, account, memory, bytes);
}

void *device_take_pinned(Device *device, const char *account, int64_t bytes, Error *error)
{
    return take(device, LEDGER_PINNED, account, bytes, error);
}

void device_give_pinned(Device *device, const char *account, void *memory, int64_t bytes)
{
    give(device, LEDGER_PINNED, account, memory, bytes);
}

void device_memory_done(Device *device)
{
    give(device, LEDGER_DEVICE, workspaces, device->workspace, device->info.workspace_bytes);
    if (device->zeroed)
        device->backend->event_free(device->zeroed);
    drop_block(device, LEDGER_DEVICE);
    drop_block(device, LEDGER_PINNED);
    pthread_mutex_destroy(&device->lock);
}

bool device_memory(Device *device, FedgateMemoryUse *ret_use)
{
    return device->backend->memory && device->backend->memory(device->handle, ret_use);
}
