// card - a module that serves as the cuda back end where no card is: operations of the cpu back end on the
// asynchronous device of the tests, with a driver that counts. Nights run on it as on a GPU.
//
// CARD_TOTAL, CARD_BEFORE: bytes of the card, and held by others before; CARD_HIDDEN: taken by the driver and
// told to nobody; CARD_SILENT: the driver counts nothing; CARD_HANG: this optimizer step of
// the process never ends.
#undef fedgate_backend   // the build renames that of the cpu, which is linked in here
#define fedgate_backend fedgate_cpu_backend
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "async_backend.h"
#undef fedgate_backend

enum { CONTEXT = 3 << 20, WORKSPACE = 1 << 20, RECORDED = 64 << 10 };

// The loader reads these two from the file; the rest is there when it has loaded it.
__attribute__((visibility("default")))
FedgateBackend fedgate_backend = {.abi = FEDGATE_BACKEND_ABI, .size = sizeof fedgate_backend};

static FedgateBackend within;
static _Atomic int64_t taken;

static int64_t number(const char *name, int64_t fallback)
{
    const char *text = getenv(name);
    return text != NULL ? strtoll(text, NULL, 10) : fallback;
}

static int64_t total(void)
{
    return number("CARD_TOTAL", INT64_C(24000000000));
}

static int64_t before(void)
{
    return number("CARD_BEFORE", 0);
}

static void *open_card(int index, int threads, const FedgateHost *host, FedgateFacts *facts, char *reason)
{
    void *device = within.open(index, threads, host, facts, reason);
    snprintf(facts->name, sizeof facts->name, "no card");
    facts->memory_bytes = total();
    facts->context_bytes = CONTEXT;
    facts->workspace_bytes = WORKSPACE;
    taken = 0;
    return device;
}

static void *take(void *device, FedgateMemory memory, int64_t bytes)
{
    if (memory == FEDGATE_MEMORY_PINNED)
        return within.take(device, memory, bytes);
    if (before() + CONTEXT + taken + bytes > total())
        return NULL;
    void *address = within.take(device, memory, bytes);
    taken += address != NULL ? bytes : 0;
    return address;
}

static void give(void *device, FedgateMemory memory, void *address, int64_t bytes)
{
    taken -= memory == FEDGATE_MEMORY_DEVICE ? bytes : 0;
    within.give(device, memory, address, bytes);
}

static void *record_end(void *device, int64_t *ret_bytes, char *reason)
{
    void *recording = within.record_end(device, ret_bytes, reason);
    *ret_bytes = recording != NULL ? RECORDED : 0;
    taken += *ret_bytes;   // kept when it is freed, as drivers do
    return recording;
}

static bool memory(void *device, FedgateMemoryUse *ret_use)
{
    (void)device;
    int64_t own = CONTEXT + taken + number("CARD_HIDDEN", 0);
    *ret_use =
        (FedgateMemoryUse){.total = total(), .used = before() + own, .used_before = before(), .own = own};
    return getenv("CARD_SILENT") == NULL;
}

static void set_workspace(void *device, void *address)
{
    (void)device, (void)address;
}

__attribute__((constructor)) static void fill(void)
{
    const AsyncOptions options = {.records = true, .hang_at = number("CARD_HANG", 0)};
    within = *async_backend(&fedgate_cpu_backend, &options);
    fedgate_backend = within;
    fedgate_backend.name = "cuda";
    fedgate_backend.open = open_card;
    fedgate_backend.take = take;
    fedgate_backend.give = give;
    fedgate_backend.record_end = record_end;
    fedgate_backend.memory = memory;
    fedgate_backend.workspace = set_workspace;
}
