// move - the one way the pointer moves: record written beside, synced, renamed (commit), then `current`
// follows.
//
// Everything that may refuse comes before the rename of the record. After it the move has happened: a failure
// is reported, nothing is undone, and the next recovery finishes or reverts by what is on disk.
#include "registry_internal.h"

#include <errno.h>
#include <fedgate/fault.h>
#include <fedgate/process.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void registry_step(void)
{
    static int steps;
    double last = fault_value("registry.step", 0);
    if (last > 0 && ++steps == (int)last)
        raise(SIGKILL);
}

static bool fill_record(const Registry *registry, const Chain *chain, const Move *move, PointerRecord *record,
                        Error *error)
{
    const PointerRecord *top = chain_top(chain);
    *record = (PointerRecord){
        .seq = top ? top->seq + 1 : 1,
        .previous = top ? top->seq : 0,
        .kind = move->kind,
        .to_kind = move->check->kind,
        .actor_uid = (int64_t)process_uid(),
        .verdict_digest = move->verdict_digest,
        .release_digest = move->check->digest,
        .wall_ns = clock_wall_ns(registry->clock) / 1000000 * 1000000,   // as the record keeps it
    };
    if (top) {
        record->previous_digest = top->digest;
        memcpy(record->from, top->to, sizeof record->from);
    }
    clock_uuid7(registry->clock, record->decision);
    registry_clean_text(record->actor, sizeof record->actor, process_account());
    registry_clean_text(record->reason, sizeof record->reason, move->reason ? move->reason : "");
    if (!text_copy(record->to, sizeof record->to, move->to))
        BUG("version '%s' does not fit", move->to);
    return text_copy(record->run, sizeof record->run, move->run ? move->run : "") ||
           FAIL(error, ERROR_USAGE, 0, "run '%.64s' is longer than %d bytes", move->run, UUID_SIZE - 1);
}

static bool render_checked(PointerRecord *record, Text *bytes, Error *error)
{
    record_render(record, bytes);
    PointerRecord again;
    if (!text_ok(bytes, error) || !record_parse(bytes->data, bytes->length, &again, error))
        return error_prefix(error, "pointer record '%lld'", (long long)record->seq);
    record->digest = again.digest;
    return true;
}

static bool write_record(const Registry *registry, const char *directory, PointerRecord *record, Error *error)
{
    SCOPED_TEXT bytes;
    text_init(&bytes, RECORD_BYTES_MAXIMUM);
    char path[FILE_PATH_SIZE], target[VERSION_SIZE + 32];
    if (!render_checked(record, &bytes, error) || !file_join(path, directory, "record.json", error))
        return false;
    registry_step();
    // The other account must be able to remove what a killed mover left; a record is protected by its owner's
    // uid.
    if (fault_fires("file.directory"))
        return FAIL(error, ERROR_IO, EIO, "could not make directory '%s'", directory);
    if (mkdir(directory, 0750) != 0 || (registry->shared && chmod(directory, 02770) != 0))
        return FAIL(error, ERROR_IO, errno, "could not make directory '%s'", directory);
    registry_step();
    if (!file_write_new(path, bytes.data, bytes.length, 0640, error))
        return false;
    registry_step();
    if (!file_join(path, directory, "release", error) ||
        !text_print(target, sizeof target, "../../releases/%s", record->to))
        return false;
    if (fault_fires("file.link") ? (errno = EIO, true) : symlink(target, path) != 0)
        return FAIL(error, ERROR_IO, errno, "could not create link '%s'", path);
    registry_step();
    return file_sync_directory(directory, error);
}

// Step D6. The record is committed when this returns true or *ret_committed is set.
static bool commit_record(const Registry *registry, PointerRecord *record, bool *ret_committed, Error *error)
{
    char name[32], temporary[FILE_PATH_SIZE], final[FILE_PATH_SIZE], parent[FILE_PATH_SIZE];
    if (!text_print(name, sizeof name, ".tmp-%lld", (long long)record->seq) ||
        !registry_path(registry, temporary, "pointers", name, error) ||
        !registry_path(registry, final, "pointers", name + strlen(".tmp-"), error) ||
        !registry_path(registry, parent, "pointers", NULL, error))
        return false;
    if (write_record(registry, temporary, record, error)) {
        registry_step();
        *ret_committed = file_rename_new(temporary, final, error);
    }
    if (!*ret_committed) {
        Error ignored = ERROR_INIT;
        if (!file_remove_tree(temporary, &ignored))
            error_clear(&ignored);   // the next recovery removes it
        if (error->kind == ERROR_CONFLICT)   // excused: the chain was read under the lock
            return error_prefix(error, "baseline moved");
        return false;
    }
    registry_step();
    return file_sync_directory(parent, error);
}

// Step D7's end: what readers now see is what was decided. That it is not is excused from tests: it takes
// somebody who writes beside us without the lock.
static bool confirm(const Registry *registry, const PointerRecord *record, Error *error)
{
    PointerRecord live;
    Digest manifest;
    OWNED(Json, json_free) *ignored = NULL;
    bool any;
    char path[FILE_PATH_SIZE];
    if (!registry_current(registry, &any, &live, error))
        return false;
    if (!any || live.seq != record->seq || !digest_equal(&live.digest, &record->digest))
        return FAIL(error, ERROR_INCONSISTENT, 0, "'current' does not name pointer record '%lld'",
                    (long long)record->seq);
    if (!registry_path(registry, path, "releases", record->to, error) ||
        !release_read_manifest(path, &ignored, &manifest, error))
        return false;
    return digest_equal(&manifest, &record->release_digest) ||
           FAIL(error, ERROR_DATA, 0, "release '%s' changed while it was made live", record->to);
}

bool move_commit(const Registry *registry, const Chain *chain, const Move *move, PointerRecord *ret_record,
                 bool *ret_committed, Error *error)
{
    PointerRecord record;
    *ret_committed = false;
    if (!fill_record(registry, chain, move, &record, error))
        return false;
    if (!commit_record(registry, &record, ret_committed, error)) {
        if (*ret_committed)
            error_prefix(error, "pointer record '%lld' is written, 'current' does not follow it yet",
                         (long long)record.seq);
        return false;
    }
    registry_step();
    if (!current_project(registry, record.seq, error))
        return error_prefix(error, "pointer record '%lld' is committed", (long long)record.seq);
    registry_step();
    if (!confirm(registry, &record, error))
        return error_prefix(error, "pointer record '%lld' is committed", (long long)record.seq);
    *ret_record = record;
    return true;
}

// What each kind of move asks for besides a target that verifies and is not barred.
typedef struct MoveRule {
    RecoverMode recover;
    bool baseline_only;   // its target is a named baseline
    bool respects_hold;
    bool may_leave_release;   // what is live may be a release, not just nothing or a baseline
    bool chooses;   // without a version: the last known-good
} MoveRule;

static const MoveRule move_rules[] = {
    [MOVE_ADOPT] = {.recover = RECOVER_REVERT, .baseline_only = true},
    [MOVE_PROMOTE] = {.recover = RECOVER_REVERT, .respects_hold = true, .may_leave_release = true},
    [MOVE_REVERT] = {.recover = RECOVER_PROJECT, .may_leave_release = true, .chooses = true},
};

static bool check_allowed(const Registry *registry, const MoveRule *rule, const MoveRequest *request,
                          const char *version, Error *error)
{
    HoldState hold;
    bool barred;
    char reason[256];
    if (!registry_hold_state(registry, &hold, error) ||
        !registry_is_barred(registry, version, &barred, reason, error))
        return false;
    if (rule->respects_hold && hold.held)
        return FAIL(error, ERROR_CONFLICT, 0, "promotions are on hold by '%s': %s", hold.who, hold.reason);
    if (barred)
        return FAIL(error, ERROR_CONFLICT, 0, "version '%s' is barred: %s", version, reason);
    int64_t now_ns = clock_wall_ns(registry->clock);
    if (request->deadline_wall_ns != 0 && now_ns > request->deadline_wall_ns) {
        char now[CLOCK_TIME_SIZE], deadline[CLOCK_TIME_SIZE];
        clock_format(now_ns, "", now);
        clock_format(request->deadline_wall_ns, "", deadline);
        return FAIL(error, ERROR_CONFLICT, 0, "deadline passed: it is %s, the deadline was %s", now,
                    deadline);
    }
    return true;
}

static bool check_head(const Chain *chain, const RecoverResult *recovered, const MoveRule *rule,
                       int64_t expected_seq, Error *error)
{
    const PointerRecord *top = chain_top(chain);
    int64_t seq = top ? top->seq : 0;
    if (recovered->reverted)
        return FAIL(error, ERROR_CONFLICT, 0, "baseline moved: %s", recovered->report);
    if (expected_seq >= 0 && expected_seq != seq)
        return FAIL(error, ERROR_CONFLICT, 0,
                    "baseline moved: expected pointer record '%lld', the last one is '%lld'",
                    (long long)expected_seq, (long long)seq);
    if (!rule->may_leave_release && top && top->to_kind != RELEASE_BASELINE)
        return FAIL(error, ERROR_CONFLICT, 0, "cannot adopt a baseline while release '%s' is live", top->to);
    return true;
}

static bool choose_target(const Registry *registry, const Chain *chain, const MoveRequest *request,
                          char ret_version[static VERSION_SIZE], ReleaseCheck *ret_check, Error *error)
{
    if (request->version) {
        if (!release_is_version(request->version) || !text_copy(ret_version, VERSION_SIZE, request->version))
            return FAIL(error, ERROR_USAGE, 0, "'%.96s' is not the name of a version", request->version);
        return target_verify(registry, chain, ret_version, ret_check, error);
    }
    bool any;
    if (!target_fall_back(registry, chain, &any, ret_version, ret_check, error))
        return false;
    return any || FAIL(error, ERROR_INCONSISTENT, 0, "no earlier release and no named baseline verifies");
}

static bool move_locked(const Registry *registry, const MoveRequest *request, PointerRecord *ret_record,
                        Error *error)
{
    const MoveRule *rule = &move_rules[request->kind];
    SCOPED_CHAIN chain = {.records = NULL};
    RecoverResult recovered;
    ReleaseCheck check;
    char version[VERSION_SIZE];
    if (!recover_locked(registry, rule->recover, &chain, &recovered, error) ||
        !check_head(&chain, &recovered, rule, request->expected_seq, error) ||
        !choose_target(registry, &chain, request, version, &check, error))
        return false;
    if (rule->baseline_only && check.kind != RELEASE_BASELINE)
        return FAIL(error, ERROR_USAGE, 0, "release '%s' is not a baseline and cannot be adopted", version);
    if (!check_allowed(registry, rule, request, version,
                       error))   // last, since hashing may have outlasted the deadline
        return false;
    const Move move = {.kind = request->kind,
                       .to = version,
                       .reason = request->reason,
                       .run = request->run,
                       .check = &check,
                       .verdict_digest = request->verdict_digest};
    bool committed;
    return move_commit(registry, &chain, &move, ret_record, &committed, error);
}

bool registry_move(Registry *registry, const MoveRequest *request, PointerRecord *ret_record, Error *error)
{
    if (request->kind == MOVE_ROLLBACK)
        BUG("a rollback goes through registry_rollback");
    if (!request->version && !move_rules[request->kind].chooses)
        return FAIL(error, ERROR_USAGE, 0, "%s needs a version", registry_move_name(request->kind));
    OWNED(FileLock, file_lock_release) *lock =
        registry_lock_pointer(registry, registry_move_name(request->kind), error);
    return lock && move_locked(registry, request, ret_record, error);
}
