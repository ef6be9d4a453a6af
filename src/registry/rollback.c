// rollback - the owner's way back: a new, higher record naming a release that was live before, a bar and a
// hold.
//
// Bar and hold are set before the record: killed between them, nothing can be promoted and the pointer has
// not moved, which the owner sees. The other order would leave a moment in which the next night puts the bad
// release back.
#include "registry_internal.h"

static bool refuse(const Registry *registry, const Chain *chain, Error *error)
{
    SCOPED_TEXT good;
    text_init(&good, 160);
    target_list_good(registry, chain, &good);
    if (good.length)
        return error_hint(error, "Nothing moved; releases that can be gone back to: %s.", text_string(&good));
    return error_hint(error, "Nothing moved; no earlier release can be gone back to.");
}

static bool check_named(const Registry *registry, const Chain *chain, const char *to, ReleaseCheck *ret_check,
                        Error *error)
{
    bool barred;
    char reason[256];
    if (!chain_find(chain, to))
        return FAIL(error, ERROR_DATA, 0, "version '%s' was never live here", to);
    if (!registry_is_barred(registry, to, &barred, reason, error))
        return false;
    if (barred)
        return FAIL(error, ERROR_DATA, 0, "version '%s' is barred: %s", to, reason);
    return target_verify(registry, chain, to, ret_check, error);
}

static bool choose(const Registry *registry, const Chain *chain, const char *to,
                   char ret_version[static VERSION_SIZE], ReleaseCheck *ret_check, Error *error)
{
    const PointerRecord *top = chain_top(chain);
    if (!top)
        return FAIL(error, ERROR_DATA, 0, "nothing is live in '%s'", registry->home);
    if (to) {
        if (!release_is_version(to) || !text_copy(ret_version, VERSION_SIZE, to))
            return FAIL(error, ERROR_USAGE, 0, "'%.96s' is not the name of a version", to);
        if (text_equal(to, top->to))
            return FAIL(error, ERROR_USAGE, 0, "version '%s' is already live", to);
        return check_named(registry, chain, ret_version, ret_check, error) || refuse(registry, chain, error);
    }
    bool any;
    if (!target_fall_back(registry, chain, &any, ret_version, ret_check, error))
        return false;
    return any ||
           (FAIL(error, ERROR_DATA, 0, "nothing earlier than '%s' verifies and is not barred", top->to),
            refuse(registry, chain, error));
}

typedef struct Brake {
    bool set_bar, set_hold;   // set by us, so ours to undo
} Brake;

static bool brake(const Registry *registry, const PointerRecord *left, const char *reason, Brake *brake_set,
                  Error *error)
{
    HoldState hold;
    bool barred;
    char why[256];
    if (!registry_hold_state(registry, &hold, error) ||
        !registry_is_barred(registry, left->to, &barred, why, error))
        return false;
    // A named baseline is never barred: it is what is left when nothing else is.
    if (!barred && left->to_kind != RELEASE_BASELINE) {
        if (!bar_set(registry, left->to, reason, error))
            return false;
        brake_set->set_bar = true;
    }
    if (!hold.held) {
        if (!hold_set(registry, reason, error))
            return false;
        brake_set->set_hold = true;
    }
    return true;
}

static void unbrake(const Registry *registry, const PointerRecord *left, const Brake *brake_set)
{
    static const char reason[] = "undone: the rollback could not be committed";
    Error ignored =
        ERROR_INIT;   // a bar or a hold that stays is on the safe side, and audit.jsonl says why it is there
    if (brake_set->set_hold && !hold_clear(registry, reason, &ignored))
        error_clear(&ignored);
    if (brake_set->set_bar && !bar_clear(registry, left->to, reason, &ignored))
        error_clear(&ignored);
}

bool registry_rollback(Registry *registry, const char *owner, const char *to, const char *reason,
                       PointerRecord *ret_record, Error *error)
{
    OWNED(FileLock, file_lock_release) *lock = hold_begin(registry, owner, "rollback", reason, error);
    if (!lock)
        return false;
    SCOPED_CHAIN chain = {.records = NULL};
    RecoverResult recovered;
    ReleaseCheck check;
    char version[VERSION_SIZE];
    if (!recover_locked(registry, RECOVER_PROJECT, &chain, &recovered, error) ||
        !choose(registry, &chain, to, version, &check, error))
        return false;
    const PointerRecord *left = chain_top(&chain);
    const Move move = {.kind = MOVE_ROLLBACK, .to = version, .reason = reason, .run = "", .check = &check};
    Brake brake_set = {.set_bar = false};
    bool committed = false;
    if (brake(registry, left, reason, &brake_set, error) &&
        move_commit(registry, &chain, &move, ret_record, &committed, error))
        return true;
    if (!committed)
        unbrake(registry, left, &brake_set);
    return false;
}
