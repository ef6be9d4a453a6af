// prune - releases that nobody can go back to any more: what is kept is computed first, under the locks, then
// each of the others gets a note, a tombstone's name, and is taken apart.
//
// run.lock is held throughout, so no night is publishing or reading one. pointer.lock is held until the last
// tombstone has its name; taking them apart needs it no more. A release whose note is written but whose name
// stands is whole and kept; a tombstone is finished by the next recovery.
#include "registry_internal.h"

#include <errno.h>
#include <fedgate/process.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// -- notes: pruned/<version>.json says that a release is absent on purpose

bool registry_is_pruned(const Registry *registry, const char *version, bool *ret_pruned,
                        char ret_when[static CLOCK_TIME_SIZE], Error *error)
{
    bool noted;
    char path[FILE_PATH_SIZE];
    OWNED(Json, json_free) *entry = NULL;
    if (!entry_read(registry, "pruned", version, &noted, &entry, error) ||
        !registry_path(registry, path, "releases", version, error))
        return false;
    *ret_pruned = noted && !file_exists(path);
    if (!text_copy(ret_when, CLOCK_TIME_SIZE, json_text_or(json_get(entry, "time"), "an unknown day")))
        ret_when[0] = '\0';
    return true;
}

// A release that came back (trained or imported again) would else be called pruned when it is lost.
bool pruned_forget_present(const Registry *registry, Error *error)
{
    char folder[FILE_PATH_SIZE], path[FILE_PATH_SIZE], version[VERSION_SIZE + 8];
    FileList names;
    if (!registry_path(registry, folder, "pruned", NULL, error))
        return false;
    if (!file_exists(folder))
        return true;
    if (!file_list(folder, &names, error))
        return false;
    bool done = true;
    for (size_t i = 0; done && i < names.count; i++) {
        if (!text_ends_with(names.names[i], ".json") || !text_copy(version, sizeof version, names.names[i]))
            continue;
        version[strlen(version) - strlen(".json")] = '\0';
        done = registry_path(registry, path, "releases", version, error) &&
               (!file_exists(path) ||
                (file_join(path, folder, names.names[i], error) && file_remove(path, error)));
    }
    file_list_done(&names);
    return done;
}

// -- what is kept

typedef struct Keeping {
    const Registry *registry;
    const Chain *chain;
    char (*ways_back)[VERSION_SIZE];
    size_t ways_count;
    FileList pending;
} Keeping;

static bool is_live(const Keeping *keeping, const char *version, bool *ret_kept, Error *error)
{
    (void)error;
    const PointerRecord *top = chain_top(keeping->chain);
    *ret_kept = top && text_equal(top->to, version);
    return true;
}

static bool is_last_good(const Keeping *keeping, const char *version, bool *ret_kept, Error *error)
{
    (void)error;
    *ret_kept = keeping->ways_count > 0 && text_equal(keeping->ways_back[0], version);
    return true;
}

static bool is_more_good(const Keeping *keeping, const char *version, bool *ret_kept, Error *error)
{
    (void)error;
    *ret_kept = false;
    for (size_t i = 1; i < keeping->ways_count && !*ret_kept; i++)
        *ret_kept = text_equal(keeping->ways_back[i], version);
    return true;
}

static bool is_baseline(const Keeping *keeping, const char *version, bool *ret_kept, Error *error)
{
    (void)error;
    const PointerRecord *baseline = target_baseline(keeping->chain);
    *ret_kept = baseline && text_equal(baseline->to, version);
    return true;
}

static bool is_pinned(const Keeping *keeping, const char *version, bool *ret_kept, Error *error)
{
    char reason[256];
    return registry_is_pinned(keeping->registry, version, ret_kept, reason, error);
}

static bool is_barred(const Keeping *keeping, const char *version, bool *ret_kept, Error *error)
{
    char reason[256];
    return registry_is_barred(keeping->registry, version, ret_kept, reason, error);
}

static bool is_pending(const Keeping *keeping, const char *version, bool *ret_kept, Error *error)
{
    (void)error;
    *ret_kept = list_holds(&keeping->pending, version);
    return true;
}

static const struct KeepRule {
    const char *why;
    bool (*keeps)(const Keeping *keeping, const char *version, bool *ret_kept, Error *error);
} keep_rules[] = {
    {"live", is_live},
    {"last known-good", is_last_good},
    {"one more good", is_more_good},
    {"named baseline", is_baseline},
    {"pinned", is_pinned},
    {"barred", is_barred},
    {"its slot is open", is_pending},
};

static bool look(const Keeping *keeping, const char *releases, PruneEntry *entry, Error *error)
{
    char path[FILE_PATH_SIZE], file[FILE_PATH_SIZE];
    FileList names;
    for (size_t i = 0; i < sizeof keep_rules / sizeof keep_rules[0] && !entry->kept; i++) {
        bool kept;
        if (!keep_rules[i].keeps(keeping, entry->version, &kept, error))
            return false;
        entry->kept = kept ? keep_rules[i].why : NULL;
    }
    if (!file_join(path, releases, entry->version, error) || !file_list(path, &names, error))
        return false;
    struct stat status;
    for (size_t i = 0; i < names.count; i++)
        if (text_print(file, sizeof file, "%s/%s", path, names.names[i]) && lstat(file, &status) == 0)
            entry->bytes += (uint64_t)status.st_size;
    file_list_done(&names);
    return true;
}

// Anything that is not a version's directory is not ours to remove.
static bool is_release(const char *releases, const char *name)
{
    char path[FILE_PATH_SIZE];
    struct stat status;
    return release_is_version(name) && text_print(path, sizeof path, "%s/%s", releases, name) &&
           lstat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static bool look_at_all(const Keeping *keeping, const char *releases, PruneResult *result, Error *error)
{
    FileList names;
    if (!file_list(releases, &names, error))
        return false;
    result->entries = calloc(names.count + 1, sizeof *result->entries);
    bool good =
        result->entries || FAIL(error, ERROR_MEMORY, 0, "out of memory for %zu releases", names.count);
    for (size_t i = 0; good && i < names.count; i++) {
        PruneEntry *entry = &result->entries[result->count];
        if (!is_release(releases, names.names[i]) ||
            !text_copy(entry->version, sizeof entry->version, names.names[i]))
            continue;
        good = look(keeping, releases, entry, error);
        result->count += good;
        result->bytes += good && !entry->kept ? entry->bytes : 0;
    }
    file_list_done(&names);
    return good;
}

static bool choose(Keeping *keeping, int64_t keep, const char *releases, PruneResult *result, Error *error)
{
    FileList runs = {0};
    keeping->ways_back = calloc((size_t)keep + 1, sizeof *keeping->ways_back);
    bool good = keeping->ways_back
                    ? target_ways_back(keeping->registry, keeping->chain, (size_t)keep, keeping->ways_back,
                                       &keeping->ways_count, error) &&
                          slots_pending(keeping->registry, &keeping->pending, &runs, error) &&
                          look_at_all(keeping, releases, result, error)
                    : FAIL(error, ERROR_MEMORY, 0, "out of memory for %lld releases", (long long)keep);
    file_list_done(&runs);
    file_list_done(&keeping->pending);
    free(keeping->ways_back);
    return good;
}

// -- removing

static bool bury(const Registry *registry, const char *releases, const PruneEntry *pruned, Error *error)
{
    char path[FILE_PATH_SIZE], tombstone[FILE_PATH_SIZE], name[VERSION_SIZE + 16];
    OWNED(Json, json_free) *entry =
        entry_make(registry, "prune", pruned->version, "nobody can go back to it any more");
    json_put_integer(entry, "bytes", (int64_t)pruned->bytes);
    if (!text_print(name, sizeof name, PRUNED_PREFIX "%s", pruned->version) ||
        !file_join(path, releases, pruned->version, error) || !file_join(tombstone, releases, name, error))
        return false;
    registry_step();
    if (!entry_put(registry, "pruned", pruned->version, entry, error))
        return false;
    registry_step();
    return file_rename_new(path, tombstone, error);
}

static bool bury_all(const Registry *registry, const char *releases, const PruneResult *result, Error *error)
{
    for (size_t i = 0; i < result->count; i++)
        if (!result->entries[i].kept && !bury(registry, releases, &result->entries[i], error))
            return error_prefix(error, "release '%s' stays", result->entries[i].version);
    registry_step();
    return file_sync_directory(releases, error);
}

// Without recovery in a rehearsal, which changes nothing.
static bool read_chain(const Registry *registry, bool dry_run, Chain *chain, RecoverResult *recovered,
                       Error *error)
{
    *recovered = (RecoverResult){.reverted = false};
    if (dry_run)
        return chain_read(registry, chain, error);
    return recover_locked(registry, RECOVER_PROJECT, chain, recovered, error) &&
           recover_drafts(registry, recovered, error);
}

static bool check_live(const Registry *registry, const Chain *chain, Error *error)
{
    ReleaseCheck check;
    const PointerRecord *top = chain_top(chain);
    if (!top || target_verify(registry, chain, top->to, &check, error))
        return true;
    error->kind = ERROR_INCONSISTENT;
    error_hint(error, "Nothing was pruned; the next 'fedgate run' goes back to a good release first.");
    return error_prefix(error, "what is live does not verify");
}

// Under both locks; pointer.lock is given back when every tombstone has its name.
static bool prune_locked(const Registry *registry, const PruneRequest *request, FileLock **pointer,
                         PruneResult *result, Error *error)
{
    SCOPED_CHAIN chain = {.records = NULL};
    RecoverResult recovered;
    Keeping keeping = {.registry = registry, .chain = &chain};
    char releases[FILE_PATH_SIZE];
    if (!registry_path(registry, releases, "releases", NULL, error) ||
        !read_chain(registry, request->dry_run, &chain, &recovered, error) ||
        !check_live(registry, &chain, error))
        return false;
    memcpy(result->report, recovered.report, sizeof result->report);
    if (!choose(&keeping, request->keep, releases, result, error) ||
        (!request->dry_run && !bury_all(registry, releases, result, error)))
        return false;
    file_lock_release(*pointer);
    *pointer = NULL;
    RecoverResult ignored = {.reverted = false};
    return (request->dry_run || recover_remove(registry, "releases", PRUNED_PREFIX, &ignored, error)) &&
           prune_runs(registry, &chain, request, result, error);
}

static bool check_account(const Registry *registry, Error *error)
{
    struct stat status;
    if (stat(registry->home, &status) != 0)
        return FAIL(error, ERROR_IO, errno, "could not look at home '%s'", registry->home);
    if (status.st_uid == process_uid())
        return true;
    char account[32];
    if (!text_print(account, sizeof account, "uid %lld", (long long)status.st_uid))
        BUG("a uid does not fit");
    owner_record_denial(registry, account, "prune");
    FAIL(error, ERROR_DENIED, 0, "prune is for the account of the home (%s) only, this is account '%s'",
         account, process_account());
    return error_hint(error, "Run it as the nightly account; the attempt was recorded.");
}

bool registry_prune(Registry *registry, const PruneRequest *request, PruneResult *ret_result, Error *error)
{
    char path[FILE_PATH_SIZE], content[128], since[CLOCK_TIME_SIZE];
    if (request->keep < PRUNE_KEEP_MINIMUM || request->keep > PRUNE_KEEP_MAXIMUM || request->runs < -1)
        return FAIL(error, ERROR_USAGE, 0, "%lld releases to keep, %d to %d are allowed",
                    (long long)request->keep, PRUNE_KEEP_MINIMUM, PRUNE_KEEP_MAXIMUM);
    clock_format(clock_wall_ns(registry->clock), "", since);
    if (!check_account(registry, error) || !registry_path(registry, path, "run.lock", NULL, error) ||
        !text_print(content, sizeof content, "prune of process %ld since %s", (long)getpid(), since))
        return false;
    OWNED(FileLock, file_lock_release) *run = file_lock_try(path, content, error);
    if (!run)
        return error_prefix(error, "home '%s' is busy", registry->home);
    OWNED(FileLock, file_lock_release) *pointer = registry_lock_pointer(registry, "prune", error);
    PruneResult result = {.entries = NULL};
    if (!pointer || !prune_locked(registry, request, &pointer, &result, error)) {
        registry_prune_done(&result);
        return false;
    }
    *ret_result = result;
    return true;
}

void registry_prune_done(PruneResult *result)
{
    free(result->entries);
    *result = (PruneResult){.entries = NULL};
}
