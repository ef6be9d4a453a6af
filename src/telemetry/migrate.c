// migrate.c - bringing the schema to the newest of migrations/: forward only, one transaction each, all or
// nothing.
//
// Under an advisory lock, so a second migrator waits and then finds nothing to do. What is applied must be a
// prefix of the folder with the same names and digests; otherwise nothing is written at all.
#include "telemetry_internal.h"

#include <fedgate/file.h>
#include <fedgate/hash.h>

#include <stdlib.h>
#include <string.h>

enum { MIGRATION_MAXIMUM_BYTES = 4 << 20, MIGRATION_NAME_SIZE = 96, MIGRATION_DIGITS = 4 };
static const char migrate_lock[] = "migrate";

typedef struct Migration {
    char name[MIGRATION_NAME_SIZE];   // "0001_create_releases.sql"
    char sha256[DIGEST_HEX_SIZE];
    char *sql;
} Migration;

typedef struct MigrationList {
    Migration *rows;   // rows[i] has number i + 1
    int count;
} MigrationList;

static void list_done(MigrationList *list)
{
    for (int i = 0; i < list->count; i++)
        free(list->rows[i].sql);
    free(list->rows);
}
#define SCOPED_MIGRATIONS __attribute__((cleanup(list_done))) MigrationList

// NNNN_verb_object.sql; the number, or 0.
static int number_of(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
    size_t length = strlen(name);
    if (length < MIGRATION_DIGITS + 6 || length >= MIGRATION_NAME_SIZE || !text_ends_with(name, ".sql") ||
        strspn(name, "0123456789") != MIGRATION_DIGITS || name[MIGRATION_DIGITS] != '_' ||
        strspn(name + MIGRATION_DIGITS, letters) != length - MIGRATION_DIGITS - 4)
        return 0;
    return (int)strtol(name, NULL, 10);
}

static bool read_one(const char *directory, const char *name, Migration *migration, Error *error)
{
    char path[FILE_PATH_SIZE];
    SCOPED_TEXT text;
    text_init(&text, MIGRATION_MAXIMUM_BYTES);
    if (!file_join(path, directory, name, error) || !file_read(path, &text, error))
        return false;
    Digest digest;
    hash_bytes(text_string(&text), text.length, &digest);
    digest_hex(&digest, migration->sha256);
    if (strlen(text_string(&text)) != text.length)
        return FAIL(error, ERROR_CONFIG, 0, "migration '%s' holds a zero byte", path);
    memcpy(migration->name, name, strlen(name) + 1);   // number_of() has limited it
    migration->sql = text_duplicate(text_string(&text));
    return migration->sql != NULL || FAIL(error, ERROR_MEMORY, 0, "out of memory for migration '%s'", path);
}

static bool fill_list(const char *directory, const FileList *files, MigrationList *list, Error *error)
{
    for (size_t i = 0; i < files->count; i++) {
        const char *name = files->names[i];
        if (!text_ends_with(name, ".sql"))
            continue;
        if (number_of(name) != list->count + 1)
            return FAIL(error, ERROR_CONFIG, 0,
                        "migration '%s' in '%s' is not named %04d_verb_object.sql as the next one must be",
                        name, directory, list->count + 1);
        if (!read_one(directory, name, &list->rows[list->count], error))
            return false;
        list->count++;
    }
    if (list->count == 0)
        return FAIL(error, ERROR_CONFIG, 0, "directory '%s' holds no migration", directory);
    return true;
}

static bool read_list(const char *directory, MigrationList *list, Error *error)
{
    FileList files = {NULL, 0};
    if (!file_list(directory, &files, error))
        return error_prefix(error, "migrations");
    list->rows = calloc(files.count + 1, sizeof(*list->rows));
    bool good = list->rows != NULL ||
                FAIL(error, ERROR_MEMORY, 0, "out of memory for the migrations in '%s'", directory);
    good = good && fill_list(directory, &files, list, error);
    file_list_done(&files);
    return good;
}

// How many are applied; ERROR_CONFIG when they are no prefix of the folder.
static bool compare(Client *client, const char *directory, const MigrationList *list, int *ret_applied,
                    Error *error)
{
    bool exists = false;
    OWNED(ClientResult, client_result_free) *result = NULL;
    *ret_applied = 0;
    if (!rows_schema_exists(client, &exists, error))
        return false;
    if (!exists)
        return true;
    if (!rows_migrations(client, &result, error))
        return false;
    int64_t applied = client_row_count(result);
    for (int64_t i = 0; i < applied; i++) {
        const char *name = client_text(result, i, 1);
        if (i >= list->count) {
            FAIL(error, ERROR_CONFIG, 0,
                 "the database's schema is newer than this program: it has migration '%.90s', '%s' ends at "
                 "'%s'",
                 name, directory, list->rows[list->count - 1].name);
            return error_hint(error, "Use the newer fedgate, or another database; nothing was written.");
        }
        if (client_integer(result, i, 0) != i + 1 || strcmp(name, list->rows[i].name) != 0)
            return FAIL(error, ERROR_CONFIG, 0, "the database has migration '%.90s' where '%s' has '%s'",
                        name, directory, list->rows[i].name);
        if (strcmp(client_text(result, i, 2), list->rows[i].sha256) != 0) {
            FAIL(error, ERROR_CONFIG, 0,
                 "migration '%s' was changed after it was applied: sha256 %.12s... applied, %.12s... in '%s'",
                 name, client_text(result, i, 2), list->rows[i].sha256, directory);
            return error_hint(error,
                              "Restore the file and write a further migration instead; nothing was written.");
        }
    }
    *ret_applied = (int)applied;
    return true;
}

static bool apply(Client *client, int number, const Migration *migration, Error *error)
{
    if (!rows_begin(client, error))
        return false;
    bool good = client_script(client, migration->sql, error);
    if (good && !client_in_transaction(client))
        good = FAIL(error, ERROR_CONFIG, 0, "the script ends its transaction itself");
    good = good && rows_add_migration(client, number, migration->name, migration->sha256, error) &&
           rows_commit(client, error);
    if (!good && !client_is_lost(client))
        rows_roll_back(client);
    return good || error_prefix(error, "migration '%s'", migration->name);
}

static bool apply_missing(Client *client, const char *directory, const MigrationList *list, int *ret_applied,
                          Error *error)
{
    int applied;
    if (!compare(client, directory, list, &applied, error))
        return false;
    *ret_applied = 0;
    for (int i = applied; i < list->count; i++) {
        if (!apply(client, i + 1, &list->rows[i], error))
            return false;
        ++*ret_applied;
    }
    return true;
}

bool telemetry_migrate(Telemetry *telemetry, const char *directory, int *ret_applied, Error *error)
{
    SCOPED_MIGRATIONS list = {NULL, 0};
    int applied = 0;
    if (!read_list(directory, &list, error) ||
        (client_is_lost(telemetry->client) && !telemetry_reconnect(telemetry, error)) ||
        !rows_lock_wait(telemetry->client, migrate_lock, telemetry->timeout_ns, error))
        return false;
    bool good = apply_missing(telemetry->client, directory, &list, &applied, error);
    if (!good) {
        Error ignored =
            ERROR_INIT;   // ignoring: the first error counts, and the lock goes with the connection
        if (!rows_unlock(telemetry->client, migrate_lock, &ignored))
            error_clear(&ignored);
        return false;
    }
    if (!rows_unlock(telemetry->client, migrate_lock, error))
        return false;
    *ret_applied = applied;
    return true;
}

bool telemetry_check_schema(Telemetry *telemetry, const char *directory, Error *error)
{
    SCOPED_MIGRATIONS list = {NULL, 0};
    int applied;
    if (!read_list(directory, &list, error) ||
        (client_is_lost(telemetry->client) && !telemetry_reconnect(telemetry, error)) ||
        !compare(telemetry->client, directory, &list, &applied, error))
        return false;
    if (applied == list.count)
        return true;
    FAIL(error, ERROR_CONFIG, 0, "the database's schema is too old: %d of %d migrations are applied", applied,
         list.count);
    return error_hint(error, "Run fedgate migrate.");
}
