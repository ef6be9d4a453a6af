// registry_internal.h - the chain in memory and the steps that move it; every function here runs below
// pointer.lock unless it says otherwise.
#ifndef FEDGATE_REGISTRY_INTERNAL_H
#define FEDGATE_REGISTRY_INTERNAL_H

#include <fedgate/registry.h>

enum {
    REGISTRY_FORMAT = 1,
    RECORD_BYTES_MAXIMUM = 8 * 1024,
    STATE_BYTES_MAXIMUM = 64 * 1024,   // home.json, hold.json, bars, slots
    // Every path of ours below a home of this length fits: that joining one fails is excused from tests.
    HOME_PATH_SIZE = FILE_PATH_SIZE - 512,
};

#define PRUNED_PREFIX ".pruned-"   // releases/<prefix><version>: a tombstone, taken apart under run.lock
#define IMPORT_PREFIX ".import-"   // releases/<prefix><id>: written under import.lock

struct Registry {
    char home[FILE_PATH_SIZE];
    char id[UUID_SIZE];
    char owner[64];
    bool shared;   // owner and nightly account differ: what both write is group-writable
    Clock *clock;
};

// Path below the home, at most two names deep; false with ERROR_USAGE when too long.
bool registry_path(const Registry *registry, char ret_path[static FILE_PATH_SIZE], const char *folder,
                   const char *name, Error *error) WARN_UNUSED;
// A JSON object of ours with `format` 1. ERROR_DATA otherwise; *ret_value NULL when there is no file.
bool registry_read_state(const char *path, Json **ret_value, Error *error) WARN_UNUSED;
// One line appended and synced; a torn last line is closed first.
bool registry_append_line(const char *path, const Json *value, Error *error) WARN_UNUSED;
// Text that fits a record: control bytes and bad UTF-8 escaped, cut with "..." on a character.
void registry_clean_text(char *ret_text, size_t size, const char *text);
FileLock *registry_lock_pointer(const Registry *registry, const char *action, Error *error) WARN_UNUSED;

// -- record
void record_render(const PointerRecord *record, Text *out);   // canonical bytes, newline at the end
// Fills everything, digest included. ERROR_DATA when not canonical.
bool record_parse(const char *bytes, size_t length, PointerRecord *ret_record, Error *error) WARN_UNUSED;
// Lock-free. ERROR_INCONSISTENT names the record and what is wrong with it alone.
bool record_load(const Registry *registry, int64_t seq, PointerRecord *ret_record, Error *error) WARN_UNUSED;

// -- chain: records[i].seq == i + 1, each holding the digest of the one before
typedef struct Chain {
    PointerRecord *records;
    size_t count;
} Chain;
bool chain_read(const Registry *registry, Chain *ret_chain, Error *error) WARN_UNUSED;   // lock-free
void chain_done(Chain *chain);
static inline void chain_release_scope(Chain *chain)
{
    chain_done(chain);
}
#define SCOPED_CHAIN __attribute__((cleanup(chain_release_scope))) Chain
const PointerRecord *chain_top(const Chain *chain);   // NULL when empty
const PointerRecord *chain_find(const Chain *chain, const char *version);   // last record naming it, or NULL

// -- current
typedef enum CurrentState { CURRENT_MISSING, CURRENT_SOUND, CURRENT_DANGLING, CURRENT_FOREIGN } CurrentState;
bool current_look(const Registry *registry, CurrentState *ret_state, int64_t *ret_seq,
                  Error *error) WARN_UNUSED;
bool current_project(const Registry *registry, int64_t seq, Error *error) WARN_UNUSED;   // D7; repeatable

// -- targets
// Whole on disk, named by its version, and the same bytes as when it was live before (when it was).
bool target_verify(const Registry *registry, const Chain *chain, const char *version, ReleaseCheck *ret_check,
                   Error *error) WARN_UNUSED;
bool target_is_bad(
    const Error *error);   // after target_verify: the release is bad, as against not being able to look
// registry_previous_good on a chain already read.
bool target_previous_good(const Registry *registry, const Chain *chain, bool *ret_any,
                          char ret_version[static VERSION_SIZE], ReleaseCheck *ret_check,
                          Error *error) WARN_UNUSED;
// Previous good release, else the named baseline; any=false when neither verifies.
bool target_fall_back(const Registry *registry, const Chain *chain, bool *ret_any,
                      char ret_version[static VERSION_SIZE], ReleaseCheck *ret_check,
                      Error *error) WARN_UNUSED;
void target_list_good(const Registry *registry, const Chain *chain, Text *out);   // "a, b" for a hint
// Whole, and not barred.
bool target_is_good(const Registry *registry, const Chain *chain, const char *version, bool *ret_good,
                    ReleaseCheck *ret_check, Error *error) WARN_UNUSED;
// What prune leaves to go back to: the last known-good (perhaps a baseline), then good models until there are
// `models` of them; nearest way back first, then those newer than what is live. ret_versions[models + 1].
bool target_ways_back(const Registry *registry, const Chain *chain, size_t models,
                      char (*ret_versions)[VERSION_SIZE], size_t *ret_count, Error *error) WARN_UNUSED;
const PointerRecord *target_baseline(const Chain *chain);   // named baseline adopted last; NULL: none

// -- move
void registry_step(void);   // planted fault: the process is killed at its Nth step of changing the home
typedef struct Move {
    MoveKind kind;
    const char *to, *reason, *run;
    const ReleaseCheck *check;   // of the verified target
    Digest verdict_digest;
} Move;
// D6 and D7. *ret_committed true once the record's rename is done, also when something after it failed.
bool move_commit(const Registry *registry, const Chain *chain, const Move *move, PointerRecord *ret_record,
                 bool *ret_committed, Error *error) WARN_UNUSED;

// -- recover
typedef enum RecoverMode {
    RECOVER_PROJECT,   // before the owner's own move: temps and `current` only, a bad target is left to that
                       // move
    RECOVER_REVERT,   // a target that does not verify is reverted
} RecoverMode;
bool recover_locked(const Registry *registry, RecoverMode mode, Chain *ret_chain, RecoverResult *ret_result,
                    Error *error) WARN_UNUSED;

// -- entries: <folder>/<name>.json, or the file <folder> itself when name is NULL
Json *entry_make(const Registry *registry, const char *action, const char *version, const char *reason);
bool entry_audit(const Registry *registry, const Json *entry, Error *error) WARN_UNUSED;
bool entry_path(const Registry *registry, const char *folder, const char *name,
                char ret_path[static FILE_PATH_SIZE], Error *error) WARN_UNUSED;
bool entry_put(const Registry *registry, const char *folder, const char *name, const Json *entry,
               Error *error) WARN_UNUSED;
bool entry_remove(const Registry *registry, const char *folder, const char *name, const Json *entry,
                  Error *error) WARN_UNUSED;
// *ret_there with *ret_entry NULL: there, but not readable as what it should be.
bool entry_read(const Registry *registry, const char *folder, const char *name, bool *ret_there,
                Json **ret_entry, Error *error) WARN_UNUSED;

// -- hold, bars and pins
// What every change by the owner begins with: a reason, the owner's account, pointer.lock. NULL on failure.
FileLock *hold_begin(const Registry *registry, const char *owner, const char *action, const char *reason,
                     Error *error) WARN_UNUSED;
bool hold_set(const Registry *registry, const char *reason, Error *error) WARN_UNUSED;
bool hold_clear(const Registry *registry, const char *reason, Error *error) WARN_UNUSED;
bool bar_set(const Registry *registry, const char *version, const char *reason, Error *error) WARN_UNUSED;
bool bar_clear(const Registry *registry, const char *version, const char *reason, Error *error) WARN_UNUSED;
bool pin_set(const Registry *registry, const char *version, const char *reason, Error *error) WARN_UNUSED;
bool pin_clear(const Registry *registry, const char *version, const char *reason, Error *error) WARN_UNUSED;

// Removes what is below `folder` and begins with `prefix`, reporting it; a folder that is not there is empty.
bool recover_remove(const Registry *registry, const char *folder, const char *prefix, RecoverResult *result,
                    Error *error) WARN_UNUSED;
bool recover_drafts(const Registry *registry, RecoverResult *result,
                    Error *error) WARN_UNUSED;   // what is written under run.lock

bool pruned_forget_present(const Registry *registry, Error *error) WARN_UNUSED;
// What an import that is no longer running left; nothing while one runs.
bool import_remove_leftovers(const Registry *registry, RecoverResult *result, Error *error) WARN_UNUSED;

// -- statement of a packed release
typedef struct Statement {
    char home[UUID_SIZE], model[65], version[VERSION_SIZE];
    ReleaseKind kind;
    int64_t number;   // of the last record that made it live in that home; 0: never
    Digest record_digest, release_digest;
} Statement;
void statement_render(const Statement *statement, Text *out);
bool statement_parse(const Text *bytes, Statement *ret_statement, Error *error) WARN_UNUSED;   // ERROR_DATA

// -- slots and runs
// Slots not judged whose deadline has not passed: their runs and versions go on to be needed. Free with
// file_list_done.
bool slots_pending(const Registry *registry, FileList *ret_versions, FileList *ret_runs,
                   Error *error) WARN_UNUSED;
bool list_holds(const FileList *list, const char *name);
// Files of old runs and acknowledged spools, as `request` says; below run.lock.
bool prune_runs(const Registry *registry, const Chain *chain, const PruneRequest *request,
                PruneResult *result, Error *error) WARN_UNUSED;

// -- owner
void owner_record_denial(const Registry *registry, const char *allowed, const char *action);
bool owner_uid(const Registry *registry, const char *owner, uid_t *ret_uid, gid_t *ret_gid,
               Error *error) WARN_UNUSED;

#endif
