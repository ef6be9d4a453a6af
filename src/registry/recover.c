// recover - one defined end for whatever an earlier process left half done; repeating it changes nothing
// more.
//
// The chain is read first: when it is broken nothing is touched. Then temporaries go, and `current` follows
// the last record if that record's release is whole; if not, one revert to the last known-good or the named
// baseline, or stop.
#include "registry_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const move_nouns[] = {
    [MOVE_ADOPT] = "adoption",
    [MOVE_PROMOTE] = "promotion",
    [MOVE_REVERT] = "revert",
    [MOVE_ROLLBACK] = "rollback",
};

static void report(RecoverResult *result, const char *format, ...) PRINTF_LIKE(2, 3);

static void report(RecoverResult *result, const char *format, ...)
{
    size_t length = strlen(result->report);
    if (length > 0 && length + 3 < sizeof result->report) {
        memcpy(result->report + length, "; ", 3);
        length += 2;
    }
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(result->report + length, sizeof result->report - length, format, arguments);
    va_end(arguments);
}

typedef struct Leftover {
    const char *folder, *prefix;
} Leftover;

// Written under pointer.lock, which we hold.
static const Leftover pointer_leftovers[] = {
    {"pointers", ".tmp-"}, {"bars", ".tmp-"},     {"pins", ".tmp-"},       {"pruned", ".tmp-"},
    {"imports", ".tmp-"},  {"", ".tmp-current-"}, {"", ".tmp-hold.json-"},
};

// Written under run.lock, which the caller of registry_recover holds.
static const Leftover run_leftovers[] = {
    {"releases", ".tmp-"}, {"releases", PRUNED_PREFIX}, {"slots", ".tmp-"}, {"", ".tmp-"}};

bool recover_remove(const Registry *registry, const char *folder, const char *prefix, RecoverResult *result,
                    Error *error)
{
    char parent[FILE_PATH_SIZE], path[FILE_PATH_SIZE];
    FileList names;
    if (!registry_path(registry, parent, folder, NULL, error))
        return false;
    if (!file_exists(parent))
        return true;   // a home made before this folder was known
    if (!file_list(parent, &names, error))
        return false;
    bool done = true;
    for (size_t i = 0; done && i < names.count; i++) {
        if (!text_starts_with(names.names[i], prefix))
            continue;
        registry_step();
        // An empty folder first: a record's is closed to the other account until its first file is written.
        done = file_join(path, parent, names.names[i], error) &&
               (rmdir(path) == 0 || file_remove_tree(path, error));
        if (done)
            report(result, "%s '%s%s%s'",
                   text_equal(prefix, PRUNED_PREFIX) ? "finished pruning of" : "removed leftover", folder,
                   folder[0] ? "/" : "", names.names[i]);
    }
    file_list_done(&names);
    return done;
}

static bool remove_leftovers(const Registry *registry, const Leftover *leftovers, size_t count,
                             RecoverResult *result, Error *error)
{
    for (size_t i = 0; i < count; i++)
        if (!recover_remove(registry, leftovers[i].folder, leftovers[i].prefix, result, error))
            return false;
    return true;
}

static bool follow(const Registry *registry, const PointerRecord *top, CurrentState state, int64_t seq,
                   RecoverResult *result, Error *error)
{
    if (state == CURRENT_SOUND && seq == top->seq)
        return true;
    if (!current_project(registry, top->seq, error))
        return false;
    if (state == CURRENT_SOUND || (state == CURRENT_MISSING && top->seq == 1))
        report(result, "finished %s of '%s'", move_nouns[top->kind], top->to);
    else
        report(result, "rebuilt 'current', which %s, from pointer record '%lld' ('%s')",
               state == CURRENT_MISSING    ? "was missing"
               : state == CURRENT_DANGLING ? "named a record that does not exist"
                                           : "was no link to a pointer record",
               (long long)top->seq, top->to);
    return true;
}

// The target of the last record is bad: one step back, then stop.
static bool revert(const Registry *registry, Chain *chain, const Error *problem, RecoverResult *result,
                   Error *error)
{
    ReleaseCheck check;
    char version[VERSION_SIZE], reason[600];
    bool any;
    if (!target_fall_back(registry, chain, &any, version, &check, error))
        return false;
    if (!any) {
        FAIL(error, ERROR_INCONSISTENT, 0,
             "%s, and neither an earlier release nor the named baseline is good", problem->message);
        return error_hint(
            error, "Nothing was changed: restore a release from a backup into 'releases/', then run again.");
    }
    if (!text_print(reason, sizeof reason, "live release does not verify: %s", problem->message))
        BUG("reason does not fit");
    const Move move = {.kind = MOVE_REVERT, .to = version, .reason = reason, .run = "", .check = &check};
    bool committed;
    if (!move_commit(registry, chain, &move, &result->record, &committed, error))
        return false;
    result->reverted = true;
    report(result, "reverted to '%s': %s", version, problem->message);
    chain_done(chain);
    return chain_read(registry, chain, error);
}

static bool settle(const Registry *registry, RecoverMode mode, Chain *chain, RecoverResult *result,
                   Error *error)
{
    CurrentState state;
    int64_t seq;
    const PointerRecord *top = chain_top(chain);
    if (!current_look(registry, &state, &seq, error))
        return false;
    if (!top && state != CURRENT_MISSING) {
        FAIL(error, ERROR_INCONSISTENT, 0, "'current' is there, but there is no pointer record");
        return error_hint(
            error,
            "Nothing was changed: restore 'pointers/' from a backup, or remove 'current' to begin anew.");
    }
    if (!remove_leftovers(registry, pointer_leftovers, sizeof pointer_leftovers / sizeof pointer_leftovers[0],
                          result, error))
        return false;
    if (!top || (mode == RECOVER_PROJECT && state == CURRENT_SOUND && seq == top->seq))
        return true;
    ReleaseCheck check;
    if (target_verify(registry, chain, top->to, &check, error))
        return follow(registry, top, state, seq, result, error);
    if (!target_is_bad(error))
        return false;
    Error problem = *error;
    error_clear(error);
    return mode == RECOVER_PROJECT || revert(registry, chain, &problem, result, error);
}

bool recover_locked(const Registry *registry, RecoverMode mode, Chain *ret_chain, RecoverResult *ret_result,
                    Error *error)
{
    *ret_result = (RecoverResult){.reverted = false};
    Chain chain;
    if (!chain_read(registry, &chain, error))
        return false;
    if (!settle(registry, mode, &chain, ret_result, error)) {
        chain_done(&chain);
        return false;
    }
    *ret_chain = chain;
    return true;
}

bool recover_drafts(const Registry *registry, RecoverResult *result, Error *error)
{
    return remove_leftovers(registry, run_leftovers, sizeof run_leftovers / sizeof run_leftovers[0], result,
                            error) &&
           pruned_forget_present(registry, error) && import_remove_leftovers(registry, result, error);
}

bool registry_recover(Registry *registry, RecoverResult *ret_result, Error *error)
{
    OWNED(FileLock, file_lock_release) *lock = registry_lock_pointer(registry, "recovery", error);
    SCOPED_CHAIN chain = {.records = NULL};
    return lock && recover_locked(registry, RECOVER_REVERT, &chain, ret_result, error) &&
           recover_drafts(registry, ret_result, error);
}
