// prune_runs - files of old runs and spools that the database has: only where the caller asks for it.
//
// Runs are ordered by their names (UUIDv7), never by age. A run keeps everything while a release of it is
// there, its failed candidate is kept, its slot is open, or its spool is not acknowledged. Of the others the
// verdict, the evidence and the record of the run stay for ever: `judge` repeats that night from them.
#include "registry_internal.h"

#include <string.h>
#include <sys/stat.h>

static const char *const run_files[] = {"verdict.json",         "verdict.txt",    "verdict.html",
                                        "evidence.json",        "judgement.json", "run.json",
                                        "release-evidence.json"};

static bool stays(const char *name)
{
    for (size_t i = 0; i < sizeof run_files / sizeof run_files[0]; i++)
        if (text_equal(run_files[i], name))
            return true;
    return false;
}

static bool exists(const Registry *registry, const char *folder, const char *name, const char *ending,
                   bool *ret_exists, Error *error)
{
    char file[128], path[FILE_PATH_SIZE];
    if (!text_print(file, sizeof file, "%s%s", name, ending) ||
        !registry_path(registry, path, folder, file, error))
        return false;
    *ret_exists = file_exists(path);
    return true;
}

static bool is_needed(const Registry *registry, const Chain *chain, const FileList *pending, const char *run,
                      bool *ret_needed, Error *error)
{
    if (!exists(registry, "failed", run, "", ret_needed, error))
        return false;
    if (!*ret_needed && !exists(registry, "spool", run, ".spool", ret_needed, error))
        return false;
    *ret_needed = *ret_needed || list_holds(pending, run);
    for (size_t i = 0; i < chain->count && !*ret_needed; i++)
        if (text_equal(chain->records[i].run, run) &&
            !exists(registry, "releases", chain->records[i].to, "", ret_needed, error))
            return false;
    return true;
}

// Bytes of a tree of plain files, one level of folders deep: what a run is made of.
static uint64_t count_bytes(const char *path)
{
    struct stat status;
    FileList names;
    Error ignored = ERROR_INIT;
    if (lstat(path, &status) != 0)
        return 0;
    if (!S_ISDIR(status.st_mode) || !file_list(path, &names, &ignored))
        return S_ISREG(status.st_mode) ? (uint64_t)status.st_size : 0;
    uint64_t bytes = 0;
    char inner[FILE_PATH_SIZE];
    for (size_t i = 0; i < names.count; i++)
        if (text_print(inner, sizeof inner, "%s/%s", path, names.names[i]) && lstat(inner, &status) == 0 &&
            S_ISREG(status.st_mode))
            bytes += (uint64_t)status.st_size;
    file_list_done(&names);
    return bytes;
}

static bool thin_run(const Registry *registry, const char *run, bool dry_run, PruneResult *result,
                     Error *error)
{
    char directory[FILE_PATH_SIZE], path[FILE_PATH_SIZE];
    FileList names;
    if (!registry_path(registry, directory, "runs", run, error))
        return false;
    if (!file_is_directory(directory))
        return true;   // nobody's
    if (!file_list(directory, &names, error))
        return false;
    bool done = true, any = false;
    for (size_t i = 0; done && i < names.count; i++) {
        if (stays(names.names[i]))
            continue;
        any = true;
        registry_step();
        done = file_join(path, directory, names.names[i], error);
        result->bytes += done ? count_bytes(path) : 0;
        done = done && (dry_run || file_remove_tree(path, error));
    }
    file_list_done(&names);
    result->runs += done && any;
    return done;
}

static bool thin_runs(const Registry *registry, const Chain *chain, const FileList *pending,
                      const PruneRequest *request, PruneResult *result, Error *error)
{
    char path[FILE_PATH_SIZE];
    FileList names;
    if (!registry_path(registry, path, "runs", NULL, error) || !file_list(path, &names, error))
        return false;
    bool good = true;
    for (size_t i = 0; good && (int64_t)(names.count - i) > request->runs; i++) {
        bool needed;
        if (!text_is_name(names.names[i]))
            continue;
        good = is_needed(registry, chain, pending, names.names[i], &needed, error) &&
               (needed || thin_run(registry, names.names[i], request->dry_run, result, error));
    }
    file_list_done(&names);
    return good;
}

static bool drop_spool(const char *path, const char *run, const PruneRequest *request, PruneResult *result,
                       Error *error)
{
    bool acknowledged = false;
    if (!request->acknowledged(request->context, run, &acknowledged, error))
        return error_prefix(error, "spool of run '%s'", run);
    if (!acknowledged)
        return true;
    registry_step();
    result->bytes += count_bytes(path);
    result->spools++;
    return request->dry_run || file_remove(path, error);
}

static bool drop_spools(const Registry *registry, const FileList *pending, const PruneRequest *request,
                        PruneResult *result, Error *error)
{
    char folder[FILE_PATH_SIZE], path[FILE_PATH_SIZE], run[UUID_SIZE + 8];
    FileList names;
    if (!registry_path(registry, folder, "spool", NULL, error) || !file_list(folder, &names, error))
        return false;
    bool good = true;
    for (size_t i = 0; good && i < names.count; i++) {
        if (!text_ends_with(names.names[i], ".spool") || !text_copy(run, sizeof run, names.names[i]))
            continue;
        run[strlen(run) - strlen(".spool")] = '\0';
        good = list_holds(pending, run) || (file_join(path, folder, names.names[i], error) &&
                                            drop_spool(path, run, request, result, error));
    }
    file_list_done(&names);
    return good && (request->dry_run || file_sync_directory(folder, error));
}

bool prune_runs(const Registry *registry, const Chain *chain, const PruneRequest *request,
                PruneResult *result, Error *error)
{
    FileList versions = {0}, pending = {0};
    bool good = slots_pending(registry, &versions, &pending, error) &&
                (!request->acknowledged || drop_spools(registry, &pending, request, result, error)) &&
                (request->runs < 0 || thin_runs(registry, chain, &pending, request, result, error));
    file_list_done(&versions);
    file_list_done(&pending);
    return good;
}
