// import - a packed release into the home: unpacked beside, checked against what this home knows, then given
// its name by one rename. It is not live by that: rollback may name it when it was live here before, and a
// night here may promote it when it seals the same bytes; every other way into `current` stays shut.
//
// Order: import.lock, unpacking beside (long, under no other lock), then pointer.lock, every check, the audit
// line, the floor, the pin, the rename. Killed before the rename there is a floor or a pin for something that
// is not there, which harms nobody and lets the same file in again; recovery removes what lies beside.
#include "registry_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct Import {
    Registry *registry;
    char releases[FILE_PATH_SIZE], staging[FILE_PATH_SIZE];
    Statement statement;
    ReleaseCheck check;
} Import;

static FileLock *lock_imports(const Registry *registry, Error *error)
{
    char path[FILE_PATH_SIZE], content[128], since[CLOCK_TIME_SIZE];
    clock_format(clock_wall_ns(registry->clock), "", since);
    if (!registry_path(registry, path, "import.lock", NULL, error) ||
        !text_print(content, sizeof content, "import of process %ld since %s", (long)getpid(), since))
        return NULL;
    return file_lock_try(path, content, error);
}

static bool any_leftover(const Registry *registry, bool *ret_any, Error *error)
{
    char path[FILE_PATH_SIZE];
    FileList names;
    if (!registry_path(registry, path, "releases", NULL, error) || !file_list(path, &names, error))
        return false;
    *ret_any = false;
    for (size_t i = 0; i < names.count; i++)
        *ret_any = *ret_any || text_starts_with(names.names[i], IMPORT_PREFIX);
    file_list_done(&names);
    return true;
}

bool import_remove_leftovers(const Registry *registry, RecoverResult *result, Error *error)
{
    bool any;
    if (!any_leftover(registry, &any, error))
        return false;
    if (!any)
        return true;
    OWNED(FileLock, file_lock_release) *lock = lock_imports(registry, error);
    if (lock)
        return recover_remove(registry, "releases", IMPORT_PREFIX, result, error);
    if (error->kind != ERROR_BUSY)
        return false;
    error_clear(error);   // one is running: what lies there is its own
    return true;
}

// -- what this home knows against it

// The chain of this home is the floor for what comes from itself: the record must say the same.
static bool check_own(const Chain *chain, const Statement *statement, Error *error)
{
    const PointerRecord *record = statement->number > 0 && statement->number <= (int64_t)chain->count
                                      ? &chain->records[statement->number - 1]
                                      : NULL;
    bool same = record ? digest_equal(&record->digest, &statement->record_digest) &&
                             text_equal(record->to, statement->version)
                       : statement->number == 0 && !chain_find(chain, statement->version);
    return same || FAIL(error, ERROR_DATA, 0,
                        "its statement names pointer record '%lld' of this home, which says otherwise",
                        (long long)statement->number);
}

static bool check_floor(const Registry *registry, const Statement *statement, Error *error)
{
    bool there;
    OWNED(Json, json_free) *floor = NULL;
    Digest digest = {{0}};
    if (!entry_read(registry, "imports", statement->home, &there, &floor, error))
        return false;
    if (!there)
        return true;
    int64_t number = json_integer_or(json_get(floor, "number"), INT64_MAX);   // unreadable: nothing passes
    if (statement->number < number) {
        FAIL(error, ERROR_DATA, 0, "its number %lld is older than the floor %lld of home '%s'",
             (long long)statement->number, (long long)number, statement->home);
        return error_hint(error,
                          "A newer release of that home was imported before; export one from it afresh.");
    }
    bool same = statement->number > number || number == 0 ||
                (digest_parse(json_text_or(json_get(floor, "release_digest"), ""), &digest) &&
                 digest_equal(&digest, &statement->release_digest));
    return same ||
           FAIL(error, ERROR_DATA, 0, "another release of number %lld of home '%s' was imported before",
                (long long)number, statement->home);
}

static bool check_model(const Registry *registry, const Chain *chain, const Statement *statement,
                        Error *error)
{
    char path[FILE_PATH_SIZE];
    OWNED(Json, json_free) *manifest = NULL;
    const PointerRecord *top = chain_top(chain);
    Error ignored = ERROR_INIT;
    if (!top)
        return true;
    // What is live may be what this import mends: where it cannot be read there is nothing to compare with.
    if (!registry_path(registry, path, "releases", top->to, error))
        return false;
    if (!release_read_manifest(path, &manifest, NULL, &ignored))
        return true;
    const char *model = json_text_or(json_get(manifest, "model"), "");
    return text_equal(model, statement->model) ||
           FAIL(error, ERROR_DATA, 0, "it is of model '%s', this home serves '%s'", statement->model, model);
}

static bool check_known(const Import *import, const Chain *chain, Error *error)
{
    const Statement *statement = &import->statement;
    const PointerRecord *known = chain_find(chain, statement->version);
    bool barred;
    char reason[256];
    if (!registry_is_barred(import->registry, statement->version, &barred, reason, error))
        return false;
    if (barred)
        return FAIL(error, ERROR_DATA, 0, "version '%s' is barred: %s", statement->version, reason);
    if (known && !digest_equal(&known->release_digest, &import->check.digest))
        return FAIL(error, ERROR_DATA, 0, "it is not the release that pointer record '%lld' made live",
                    (long long)known->seq);
    return check_model(import->registry, chain, statement, error) &&
           (text_equal(statement->home, import->registry->id)
                ? check_own(chain, statement, error)
                : check_floor(import->registry, statement, error));
}

// -- taking its name

static bool raise_floor(const Registry *registry, const Statement *statement, Error *error)
{
    char hex[DIGEST_HEX_SIZE];
    digest_hex(&statement->release_digest, hex);
    OWNED(Json, json_free) *entry = entry_make(registry, "import", statement->version, NULL);
    json_put_text(entry, "home", statement->home);
    json_put_integer(entry, "number", statement->number);
    json_put_text(entry, "release_digest", hex);
    return text_equal(statement->home, registry->id)
               ? entry_audit(registry, entry, error)
               : entry_put(registry, "imports", statement->home, entry, error);
}

static bool name_it(const Import *import, const char *path, Error *error)
{
    // The nightly account, whose prune is, must be able to take apart what the owner's account brought.
    if (import->registry->shared && chmod(import->staging, 02770) != 0)
        return FAIL(error, ERROR_IO, errno, "could not set the mode of '%s'", import->staging);
    registry_step();
    if (!file_rename_new(import->staging, path, error))
        return false;
    registry_step();
    if (file_sync_directory(import->releases, error))
        return true;
    Error ignored = ERROR_INIT;   // a name that may be gone after a power cut is taken back
    if (!file_rename_new(path, import->staging, &ignored))
        error_clear(&ignored);
    return false;
}

static bool take_name(const Import *import, const char *path, Error *error)
{
    const Registry *registry = import->registry;
    const Statement *statement = &import->statement;
    char reason[256], why[256];
    bool pinned;
    if (!text_print(reason, sizeof reason, "imported: number %lld of home %s", (long long)statement->number,
                    statement->home))
        BUG("reason does not fit");
    registry_step();
    if (!raise_floor(registry, statement, error) ||
        !registry_is_pinned(registry, statement->version, &pinned, why, error))
        return false;
    registry_step();
    if ((pinned || pin_set(registry, statement->version, reason, error)) && name_it(import, path, error))
        return true;
    Error ignored = ERROR_INIT;   // a pin that stays keeps nothing
    if (!pinned && !pin_clear(registry, statement->version, "undone: the import failed", &ignored))
        error_clear(&ignored);
    return false;
}

static bool import_locked(Import *import, ImportResult *result, Error *error)
{
    OWNED(FileLock, file_lock_release) *lock = registry_lock_pointer(import->registry, "import", error);
    SCOPED_CHAIN chain = {.records = NULL};
    RecoverResult recovered;
    ReleaseCheck there;
    char path[FILE_PATH_SIZE];
    if (!lock || !recover_locked(import->registry, RECOVER_PROJECT, &chain, &recovered, error) ||
        !check_known(import, &chain, error) ||
        !file_join(path, import->releases, import->statement.version, error))
        return false;
    result->was_live = chain_find(&chain, import->statement.version) != NULL;
    result->existed = file_exists(path);
    if (!result->existed)
        return take_name(import, path, error);
    Error problem = ERROR_INIT;
    if (release_verify(path, &there, &problem) && digest_equal(&there.digest, &import->check.digest))
        return true;
    FAIL(error, ERROR_CONFLICT, 0, "release '%s' is here already, %s", import->statement.version,
         problem.kind == ERROR_NONE ? "with other bytes" : problem.message);
    return error_hint(error, "The nightly account can move '%s' away, then import again.", path);
}

static bool check_statement(const Import *import, Error *error)
{
    const Statement *statement = &import->statement;
    return (text_equal(statement->version, import->check.version) &&
            digest_equal(&statement->release_digest, &import->check.digest) &&
            statement->kind == import->check.kind) ||
           FAIL(error, ERROR_DATA, 0, "its statement is about another release");
}

static bool import_open(Import *import, int fd, ImportResult *result, Error *error)
{
    char id[UUID_SIZE], name[UUID_SIZE + 16];
    SCOPED_TEXT statement;
    text_init(&statement, RELEASE_STATEMENT_MAXIMUM);
    RecoverResult ignored = {.reverted = false};
    clock_uuid7(import->registry->clock, id);
    if (!registry_path(import->registry, import->releases, "releases", NULL, error) ||
        !text_print(name, sizeof name, IMPORT_PREFIX "%s", id) ||
        !file_join(import->staging, import->releases, name, error) ||
        !recover_remove(import->registry, "releases", IMPORT_PREFIX, &ignored, error) ||
        !release_unpack(fd, import->staging, &statement, &import->check, error))
        return false;
    bool done = statement_parse(&statement, &import->statement, error) && check_statement(import, error) &&
                import_locked(import, result, error);
    Error left = ERROR_INIT;   // gone when it got its name; else nothing of it stays
    if (!file_remove_tree(import->staging, &left))
        error_clear(&left);
    return done;
}

bool registry_import(Registry *registry, const char *owner, const char *file, ImportResult *ret_result,
                     Error *error)
{
    Import import = {.registry = registry};
    ImportResult result = {.existed = false};
    struct stat status;
    if (!registry_check_owner(registry, owner, "import", error))
        return false;
    OWNED(FileLock, file_lock_release) *lock = lock_imports(registry, error);
    if (!lock)
        return false;
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return FAIL(error, ERROR_IO, errno, "could not open file '%s'", file);
    bool done = (fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) ||
                FAIL(error, ERROR_DATA, 0, "it is not a regular file");
    done = done && import_open(&import, fd, &result, error);
    close(fd);
    if (!done)
        return error_prefix(error, "import of '%s'", file);
    memcpy(result.version, import.statement.version, sizeof result.version);
    memcpy(result.home, import.statement.home, sizeof result.home);
    result.number = import.statement.number;
    result.release_digest = import.check.digest;
    *ret_result = result;
    return true;
}
