// ledger.h - memory accounts by kind and owner: live, peak, budget. Device, pinned and large host memory is
// charged here by whoever allocates it, so the memory gate and the budget read one set of numbers.
// Thread-safe.
#ifndef FEDGATE_LEDGER_H
#define FEDGATE_LEDGER_H

#include <fedgate/json.h>
#include <stddef.h>
#include <stdint.h>

typedef enum LedgerKind { LEDGER_DEVICE, LEDGER_PINNED, LEDGER_HOST, LEDGER_KIND_COUNT } LedgerKind;
enum { LEDGER_ACCOUNTS = 64, LEDGER_NAME_SIZE = 32 };

typedef struct LedgerAccount {
    char name[LEDGER_NAME_SIZE];
    LedgerKind kind;
    int64_t live_bytes, peak_bytes, charges;   // charges: how many times it grew
    int64_t planned_bytes;   // 0: not planned
} LedgerAccount;

typedef struct Ledger Ledger;

Ledger *ledger_new(void);
void ledger_free(Ledger *ledger);
OWNED_RELEASE(Ledger, ledger_free)
void ledger_set_budget(Ledger *ledger, LedgerKind kind, int64_t bytes);   // 0: none
void ledger_plan(Ledger *ledger, LedgerKind kind, const char *account, int64_t bytes);

// ERROR_MEMORY naming account, bytes asked, live and budget when the kind's budget would be exceeded: nothing
// is charged then.
WARN_UNUSED bool ledger_charge(Ledger *ledger, LedgerKind kind, const char *account, int64_t bytes,
                               Error *error);
void ledger_return(Ledger *ledger, LedgerKind kind, const char *account,
                   int64_t bytes);   // BUG when more than live

int64_t ledger_live(const Ledger *ledger, LedgerKind kind);
int64_t ledger_peak(const Ledger *ledger, LedgerKind kind);   // highest sum of the kind, not the sum of peaks
int64_t ledger_budget(const Ledger *ledger, LedgerKind kind);
size_t ledger_accounts(const Ledger *ledger,
                       LedgerAccount ret_accounts[static LEDGER_ACCOUNTS]);   // by kind, then name
const char *ledger_kind_name(LedgerKind kind);
// [ { name kind planned_bytes peak_bytes live_bytes } ], as the evidence holds them (memory.accounts).
Json *ledger_to_json(const Ledger *ledger);

// Allocation charged in one step: zeroed, 64-byte aligned; NULL with ERROR_MEMORY.
WARN_UNUSED void *ledger_take(Ledger *ledger, LedgerKind kind, const char *account, int64_t bytes,
                              Error *error);
void ledger_give(Ledger *ledger, LedgerKind kind, const char *account, void *memory,
                 int64_t bytes);   // NULL memory allowed

#endif
