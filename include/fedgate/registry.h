// registry.h - what is live: the chain of pointer records and `current`, on the file system alone.
//
// Commit point: rename of pointers/.tmp-<seq> to pointers/<seq> without replacing. `current` ->
// pointers/<seq> is its projection and can be redone any number of times. A record: {format, seq, previous,
// previous_digest, decision, kind adopt|promote|revert|rollback, from, to, to_kind, actor_uid, actor, reason,
// run, verdict_digest, release_digest, time}; its digest (SHA-256 of record.json) is the next one's
// previous_digest. Beside record.json lies `release` -> ../../releases/<version>. Locks: run.lock (the whole
// night), pointer.lock (decide, rollback, hold, pin, prune, recover), import.lock (one import). No database,
// network or GPU. Everything that may refuse comes before the commit rename.
#ifndef FEDGATE_REGISTRY_H
#define FEDGATE_REGISTRY_H

#include <fedgate/bundle.h>
#include <fedgate/clock.h>
#include <fedgate/file.h>
#include <fedgate/identity.h>

typedef enum MoveKind { MOVE_ADOPT, MOVE_PROMOTE, MOVE_REVERT, MOVE_ROLLBACK } MoveKind;
const char *registry_move_name(MoveKind kind);

typedef struct PointerRecord {
    int64_t seq, previous;   // previous 0: none
    Digest previous_digest, digest;   // digest: of this record's bytes
    char decision[UUID_SIZE];
    MoveKind kind;
    char from[VERSION_SIZE], to[VERSION_SIZE];
    ReleaseKind to_kind;
    int64_t actor_uid;
    char actor[64];
    char reason[256], run[UUID_SIZE];
    Digest verdict_digest, release_digest;
    int64_t wall_ns;
} PointerRecord;

// -- home: releases/ pointers/ bars/ pins/ pruned/ imports/ runs/ spool/ failed/ slots/ run.lock
// pointer.lock import.lock audit.jsonl denied.jsonl home.json {format, id, created, owner}. An existing home
// is completed, never overwritten.
WARN_UNUSED bool registry_create(const char *home, const char *owner, Clock *clock, Error *error);
typedef struct Registry Registry;
// ERROR_CONFIG: not a home (hint: fedgate init).
WARN_UNUSED Registry *registry_open(const char *home, Clock *clock, Error *error);
void registry_close(Registry *registry);
OWNED_RELEASE(Registry, registry_close)
const char *registry_home(const Registry *registry);
const char *registry_home_id(const Registry *registry);

// -- ask (lock-free reads)
// What `current` names; ERROR_INCONSISTENT when it does not name a record although there are some.
WARN_UNUSED bool registry_current(const Registry *registry, bool *ret_any, PointerRecord *ret_record,
                                  Error *error);
// Release directory of `current`; ret_directory[FILE_PATH_SIZE]. ERROR_DATA when nothing is live.
WARN_UNUSED bool registry_current_path(const Registry *registry, char *ret_directory, Error *error);
// Oldest first; the caller frees. Chain verified: ERROR_INCONSISTENT names the first record that differs.
WARN_UNUSED bool registry_history(const Registry *registry, PointerRecord **ret_records, size_t *ret_count,
                                  Error *error);
// Live at that time, by sequence.
WARN_UNUSED bool registry_at(const Registry *registry, int64_t wall_ns, bool *ret_any,
                             PointerRecord *ret_record, Error *error);
// Release promoted or adopted most recently before the current one that still verifies, is not barred and is
// another version; any=false when none.
WARN_UNUSED bool registry_previous_good(const Registry *registry, bool *ret_any,
                                        char ret_version[static VERSION_SIZE], Error *error);
// Named baseline adopted last.
WARN_UNUSED bool registry_baseline(const Registry *registry, bool *ret_any,
                                   char ret_version[static VERSION_SIZE], Error *error);
Json *registry_record_to_json(const PointerRecord *record);   // with "record_digest"

typedef struct HoldState {
    bool held;
    char reason[256], who[64];
    int64_t since_wall_ns;
} HoldState;
WARN_UNUSED bool registry_hold_state(const Registry *registry, HoldState *ret_state, Error *error);
WARN_UNUSED bool registry_is_barred(const Registry *registry, const char *version, bool *ret_barred,
                                    char ret_reason[static 256], Error *error);

// -- owner: kernel identity only. ERROR_DENIED, recorded in denied.jsonl, when getuid() is not the owner's.
// owner: the account of the configuration, or "" for home.json's.
WARN_UNUSED bool registry_check_owner(const Registry *registry, const char *owner, const char *action,
                                      Error *error);
// False when the owner and the home's own account are one.
bool registry_duty_separated(const Registry *registry, const char *owner);

// -- move. Each takes pointer.lock (waits at most 60 s), runs recovery first, and is one commit.
typedef struct MoveRequest {
    MoveKind kind;
    // A directory in releases/. NULL (revert only): last known-good, else the named baseline, else
    // ERROR_INCONSISTENT.
    const char *version;
    int64_t expected_seq;       // head decided against; -1: any. Moved since: ERROR_CONFLICT "baseline moved"
    const char *reason, *run;   // run "" when none
    Digest verdict_digest;
    int64_t deadline_wall_ns;   // nothing after it (ERROR_CONFLICT "deadline passed"); 0: none
} MoveRequest;
// Promote refuses on hold; every kind on a bar (ERROR_CONFLICT) and on a release that does not verify
// (ERROR_DATA). An adopt needs a baseline, and nothing but a baseline live. Not for MOVE_ROLLBACK.
// A message "pointer record 'N' is committed" means that the move happened and recovery finishes it.
WARN_UNUSED bool registry_move(Registry *registry, const MoveRequest *request, PointerRecord *ret_record,
                               Error *error);
// Owner only. to NULL: the previous good one (a second rollback goes one step further), else the named
// baseline. Bars the release it leaves (a baseline never), sets the hold. Missing, barred or rotten target:
// ERROR_DATA, nothing moves, the hint lists the good ones.
WARN_UNUSED bool registry_rollback(Registry *registry, const char *owner, const char *to, const char *reason,
                                   PointerRecord *ret_record, Error *error);
WARN_UNUSED bool registry_hold(Registry *registry, const char *owner, const char *reason, Error *error);
// With a version only that bar is lifted (ERROR_USAGE when there is none); without, the hold if there is one.
WARN_UNUSED bool registry_unhold(Registry *registry, const char *owner, const char *unbar_version_or_null,
                                 const char *reason, Error *error);

// -- pins: the owner keeps a release from being pruned. ERROR_DATA: there is no such release; unpin of what
// is not pinned is ERROR_USAGE.
WARN_UNUSED bool registry_pin(Registry *registry, const char *owner, const char *version, const char *reason,
                              Error *error);
WARN_UNUSED bool registry_unpin(Registry *registry, const char *owner, const char *version,
                                const char *reason, Error *error);
WARN_UNUSED bool registry_is_pinned(const Registry *registry, const char *version, bool *ret_pinned,
                                    char ret_reason[static 256], Error *error);

// -- prune: the nightly account's (that of the home); takes run.lock (ERROR_BUSY beside a night), then
// pointer.lock. Kept: live, last known-good, good models until `keep`, pinned, named baseline, barred, and
// what a slot that is not judged goes on with. ERROR_INCONSISTENT, nothing touched: the live one does not
// verify. A release is renamed to a tombstone first; recovery finishes a prune that was cut.
enum { PRUNE_KEEP_MINIMUM = 2, PRUNE_KEEP_MAXIMUM = 1000 };
typedef bool (*PruneAcknowledged)(void *context, const char *run, bool *ret_acknowledged, Error *error);
typedef struct PruneRequest {
    int64_t keep;   // good models to go back to
    int64_t runs;   // of older runs only verdict, evidence and record stay; -1: runs are left alone
    PruneAcknowledged acknowledged;   // whether the database has every row of a run; NULL: spools stay
    void *context;
    bool dry_run;
} PruneRequest;
typedef struct PruneEntry {
    char version[VERSION_SIZE];
    uint64_t bytes;
    const char *kept;   // why: "live", "pinned"...; NULL: pruned
} PruneEntry;
typedef struct PruneResult {
    PruneEntry *entries;   // one a release, by name
    size_t count;
    size_t runs, spools;   // runs thinned, spools removed
    uint64_t bytes;        // freed, or to be freed
    char report[1024];     // what recovery did first
} PruneResult;
WARN_UNUSED bool registry_prune(Registry *registry, const PruneRequest *request, PruneResult *ret_result,
                                Error *error);
void registry_prune_done(PruneResult *result);
// Not there because prune removed it; ret_when: on what day.
WARN_UNUSED bool registry_is_pruned(const Registry *registry, const char *version, bool *ret_pruned,
                                    char ret_when[static CLOCK_TIME_SIZE], Error *error);

// -- export and import: bundle.h says what the file is. Its statement {format, home, model, version, kind,
// number, record_digest, release_digest}; number: the last pointer record that made the release live in the
// home it comes from, 0 for never. Nothing is signed: digests find damage, the floor finds an older export
// offered again, neither finds a file made by somebody who knows the format.
typedef struct ExportResult {
    int64_t number;
    Digest release_digest, file_digest;
    uint64_t bytes;
} ExportResult;
// ERROR_CONFLICT when `file` exists; nothing is left of one that failed.
WARN_UNUSED bool registry_export(Registry *registry, const char *version, const char *file,
                                 ExportResult *ret_result, Error *error);
typedef struct ImportResult {
    char version[VERSION_SIZE], home[UUID_SIZE];
    Digest release_digest;
    int64_t number;
    bool existed;     // the same release was there already
    bool was_live;    // in this home: rollback may name it; else a candidate until a night here promotes it
} ImportResult;
// Owner only. Pins what it brings. Refuses a barred version, another model, other bytes than this home made
// live, a number below the highest one imported from that home. Nothing is left of a refused one.
WARN_UNUSED bool registry_import(Registry *registry, const char *owner, const char *file,
                                 ImportResult *ret_result, Error *error);

// -- recover: at each start, repeatable; the caller holds run.lock (drafts in releases/ are removed).
typedef struct RecoverResult {
    bool reverted;   // current did not verify: moved to last known-good or the named baseline (night ends 12)
    PointerRecord record;   // of that move
    char report[1024];      // what was done; empty when nothing
} RecoverResult;
// One defined end per state. ERROR_INCONSISTENT: chain broken, or nothing good is left; nothing changed then.
WARN_UNUSED bool registry_recover(Registry *registry, RecoverResult *ret_result, Error *error);

// -- slots: slots/<slot>.json {slot, run, version, outcome, exit, ended}; the index of judged nights
WARN_UNUSED bool registry_slot_read(const Registry *registry, const char *slot, Json **ret_slot_or_null,
                                    Error *error);
WARN_UNUSED bool registry_slot_write(Registry *registry, const char *slot, const Json *value, Error *error);

#endif
