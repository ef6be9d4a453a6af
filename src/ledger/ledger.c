// ledger - one table of accounts behind one lock; a charge either fits the budget and counts, or changes
// nothing.
//
// Accounts are kept sorted by kind, then name, and are never removed: their peak is part of the evidence.
// Running out of the LEDGER_ACCOUNTS rows is a bug of ours, because account names are fixed in the source.
#include <fedgate/ledger.h>
#include <fedgate/text.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct Ledger {
    pthread_mutex_t lock;
    LedgerAccount accounts[LEDGER_ACCOUNTS];
    size_t count;
    int64_t live_bytes[LEDGER_KIND_COUNT], peak_bytes[LEDGER_KIND_COUNT];
    int64_t budget_bytes[LEDGER_KIND_COUNT];   // 0: none
};

const char *ledger_kind_name(LedgerKind kind)
{
    static const char *const names[LEDGER_KIND_COUNT] = {"device", "pinned", "host"};
    return names[kind];
}

Ledger *ledger_new(void)
{
    Ledger *ledger = calloc(1, sizeof *ledger);
    if (ledger != NULL && pthread_mutex_init(&ledger->lock, NULL) != 0) {
        free(ledger);
        ledger = NULL;
    }
    return ledger;
}

void ledger_free(Ledger *ledger)
{
    if (ledger != NULL) {
        pthread_mutex_destroy(&ledger->lock);
        free(ledger);
    }
}

// Readers take the lock as well, so that a figure is never half of a charge.
static pthread_mutex_t *lock_of(const Ledger *ledger)
{
    return (pthread_mutex_t *)&ledger->lock;
}

static int compare_account(const LedgerAccount *account, LedgerKind kind, const char *name)
{
    return account->kind != kind ? (account->kind < kind ? -1 : 1) : strcmp(account->name, name);
}

// The account, made when new; the lock is held.
static LedgerAccount *find_account(Ledger *ledger, LedgerKind kind, const char *name)
{
    size_t at = 0;
    while (at < ledger->count && compare_account(&ledger->accounts[at], kind, name) < 0) {
        at++;
    }
    LedgerAccount *account = &ledger->accounts[at];
    if (at < ledger->count && compare_account(account, kind, name) == 0) {
        return account;
    }
    if (ledger->count == LEDGER_ACCOUNTS) {
        BUG("more than %d memory accounts, at '%s'", LEDGER_ACCOUNTS, name);
    }
    memmove(account + 1, account, (ledger->count - at) * sizeof *account);
    *account = (LedgerAccount){.kind = kind};
    if (!text_copy(account->name, sizeof account->name, name)) {
        BUG("memory account '%s' is longer than %d bytes", name, LEDGER_NAME_SIZE - 1);
    }
    ledger->count++;
    return account;
}

void ledger_set_budget(Ledger *ledger, LedgerKind kind, int64_t bytes)
{
    pthread_mutex_lock(&ledger->lock);
    ledger->budget_bytes[kind] = bytes;
    pthread_mutex_unlock(&ledger->lock);
}

void ledger_plan(Ledger *ledger, LedgerKind kind, const char *account, int64_t bytes)
{
    pthread_mutex_lock(&ledger->lock);
    find_account(ledger, kind, account)->planned_bytes = bytes;
    pthread_mutex_unlock(&ledger->lock);
}

bool ledger_charge(Ledger *ledger, LedgerKind kind, const char *account, int64_t bytes, Error *error)
{
    if (bytes < 0) {
        BUG("charge of %lld bytes to '%s'", (long long)bytes, account);
    }
    pthread_mutex_lock(&ledger->lock);
    int64_t live = ledger->live_bytes[kind];
    int64_t limit = ledger->budget_bytes[kind] > 0 ? ledger->budget_bytes[kind] : INT64_MAX;
    bool fits = live <= limit && bytes <= limit - live;
    if (fits) {
        LedgerAccount *row = find_account(ledger, kind, account);
        row->live_bytes += bytes;
        row->charges++;
        row->peak_bytes = row->live_bytes > row->peak_bytes ? row->live_bytes : row->peak_bytes;
        live += bytes;
        ledger->live_bytes[kind] = live;
        ledger->peak_bytes[kind] = live > ledger->peak_bytes[kind] ? live : ledger->peak_bytes[kind];
    }
    pthread_mutex_unlock(&ledger->lock);
    return fits || FAIL(error, ERROR_MEMORY, 0,
                        "account '%s' asks %lld bytes of %s memory, %lld of the budget of %lld are live",
                        account, (long long)bytes, ledger_kind_name(kind), (long long)live, (long long)limit);
}

void ledger_return(Ledger *ledger, LedgerKind kind, const char *account, int64_t bytes)
{
    pthread_mutex_lock(&ledger->lock);
    LedgerAccount *row = find_account(ledger, kind, account);
    if (bytes < 0 || bytes > row->live_bytes) {
        BUG("account '%s' returns %lld bytes, %lld are live", account, (long long)bytes,
            (long long)row->live_bytes);
    }
    row->live_bytes -= bytes;
    ledger->live_bytes[kind] -= bytes;
    pthread_mutex_unlock(&ledger->lock);
}

static int64_t read_figure(const Ledger *ledger, const int64_t *figure)
{
    pthread_mutex_lock(lock_of(ledger));
    int64_t value = *figure;
    pthread_mutex_unlock(lock_of(ledger));
    return value;
}

int64_t ledger_live(const Ledger *ledger, LedgerKind kind)
{
    return read_figure(ledger, &ledger->live_bytes[kind]);
}

int64_t ledger_peak(const Ledger *ledger, LedgerKind kind)
{
    return read_figure(ledger, &ledger->peak_bytes[kind]);
}

int64_t ledger_budget(const Ledger *ledger, LedgerKind kind)
{
    return read_figure(ledger, &ledger->budget_bytes[kind]);
}

size_t ledger_accounts(const Ledger *ledger, LedgerAccount ret_accounts[static LEDGER_ACCOUNTS])
{
    pthread_mutex_lock(lock_of(ledger));
    size_t count = ledger->count;
    memcpy(ret_accounts, ledger->accounts, count * sizeof *ret_accounts);
    pthread_mutex_unlock(lock_of(ledger));
    return count;
}

Json *ledger_to_json(const Ledger *ledger)
{
    LedgerAccount accounts[LEDGER_ACCOUNTS];
    size_t count = ledger_accounts(ledger, accounts);
    Json *array = json_make_array();
    for (size_t i = 0; i < count; i++) {
        Json *account = json_make_object();
        json_put_text(account, "name", accounts[i].name);
        json_put_text(account, "kind", ledger_kind_name(accounts[i].kind));
        json_put_integer(account, "planned_bytes", accounts[i].planned_bytes);
        json_put_integer(account, "peak_bytes", accounts[i].peak_bytes);
        json_put_integer(account, "live_bytes", accounts[i].live_bytes);
        json_add(array, account);
    }
    return array;
}

enum { LEDGER_ALIGNMENT = 64 };

void *ledger_take(Ledger *ledger, LedgerKind kind, const char *account, int64_t bytes, Error *error)
{
    if (!ledger_charge(ledger, kind, account, bytes, error)) {
        return NULL;
    }
    void *memory = NULL;
    if (posix_memalign(&memory, LEDGER_ALIGNMENT, bytes > 0 ? (size_t)bytes : LEDGER_ALIGNMENT) != 0) {
        ledger_return(ledger, kind, account, bytes);
        (void)FAIL(error, ERROR_MEMORY, 0, "could not allocate %lld bytes for account '%s'", (long long)bytes,
                   account);
        return NULL;
    }
    memset(memory, 0, (size_t)bytes);
    return memory;
}

void ledger_give(Ledger *ledger, LedgerKind kind, const char *account, void *memory, int64_t bytes)
{
    if (memory != NULL) {
        ledger_return(ledger, kind, account, bytes);
        free(memory);
    }
}
