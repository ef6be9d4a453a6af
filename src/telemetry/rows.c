// rows.c - every query outside the migrations, one named function each.
//
// Values travel as parameters or as COPY data, never inside a statement; the only text put together is the
// table name of a kind, which comes from TELEMETRY_KINDS. All names are qualified, since search_path is empty
// in our sessions.
#include "telemetry_internal.h"

#include <stdlib.h>
#include <string.h>

#define LOCK_RETRY_NS INT64_C(100000000)
#define LOCK_KEY      "hashtextextended('fedgate ' || $1, 0)"
enum { NUMBER_SIZE = 24 };

static void number_text(char to[static NUMBER_SIZE], int64_t value)
{
    if (!text_print(to, NUMBER_SIZE, "%lld", (long long)value))
        BUG("a 64-bit integer has more than %d digits", NUMBER_SIZE);
}

// -- transactions

bool rows_begin(Client *client, Error *error)
{
    return client_query(client, "BEGIN", NULL, 0, NULL, error);
}

// COMMIT of a failed transaction is answered with ROLLBACK, which is no error to libpq.
bool rows_commit(Client *client, Error *error)
{
    OWNED(ClientResult, client_result_free) *result = NULL;
    if (!client_query(client, "COMMIT", NULL, 0, &result, error))
        return false;
    if (strcmp(client_tag(result), "COMMIT") != 0)
        return FAIL(error, ERROR_UNAVAILABLE, 0, "the database answered %s to COMMIT", client_tag(result));
    return true;
}

void rows_roll_back(Client *client)
{
    Error ignored = ERROR_INIT;   // ignoring: the server does it with the connection
    char state[6];
    memcpy(state, client_state(client), sizeof(state));
    if (!client_query(client, "ROLLBACK", NULL, 0, NULL, &ignored))
        error_clear(&ignored);
    client_keep_state(client, state);
}

// -- advisory locks of the session

bool rows_lock_try(Client *client, const char *name, bool *ret_taken, Error *error)
{
    OWNED(ClientResult, client_result_free) *result = NULL;
    if (!client_query(client, "SELECT pg_try_advisory_lock(" LOCK_KEY ")", &name, 1, &result, error))
        return false;
    *ret_taken = strcmp(client_text(result, 0, 0), "t") == 0;
    return true;
}

bool rows_unlock(Client *client, const char *name, Error *error)
{
    OWNED(ClientResult, client_result_free) *result = NULL;
    if (!client_query(client, "SELECT pg_advisory_unlock(" LOCK_KEY ")", &name, 1, &result, error))
        return false;
    if (strcmp(client_text(result, 0, 0), "t") == 0)
        return true;
    FAIL(error, ERROR_CONFIG, 0, "the advisory lock '%s' was not held by the connection that took it", name);
    return error_hint(error, "Connect fedgate to PostgreSQL directly, not through a transaction pooler.");
}

bool rows_lock_holder(Client *client, const char *name, char *ret_holder, size_t size, Error *error)
{
    OWNED(ClientResult, client_result_free) *result = NULL;
    const char *sql =
        "SELECT coalesce(nullif(a.application_name, ''), 'a connection without a name'), a.pid "
        "FROM pg_locks l JOIN pg_stat_activity a USING (pid), (SELECT " LOCK_KEY " AS key) k "
        "WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 "
        "AND l.classid = ((k.key >> 32) & 4294967295)::oid AND l.objid = (k.key & 4294967295)::oid";
    if (!client_query(client, sql, &name, 1, &result, error))
        return false;
    bool held = client_row_count(result) > 0;
    if (!text_print(ret_holder, size, "%s (backend %s)", held ? client_text(result, 0, 0) : "somebody",
                    held ? client_text(result, 0, 1) : "gone"))
        ret_holder[size - 1] = '\0';
    return true;
}

bool rows_lock_wait(Client *client, const char *name, int64_t timeout_ns, Error *error)
{
    int64_t deadline_ns = clock_monotonic_ns(clock_real()) + timeout_ns;
    for (;;) {
        bool taken = false;
        if (!rows_lock_try(client, name, &taken, error))
            return false;
        if (taken)
            return true;
        if (clock_monotonic_ns(clock_real()) + LOCK_RETRY_NS > deadline_ns)
            break;
        clock_sleep_ns(clock_real(), LOCK_RETRY_NS);
    }
    char holder[128];
    if (!rows_lock_holder(client, name, holder, sizeof(holder), error))
        return false;
    return FAIL(error, ERROR_BUSY, 0, "database lock '%s' is held by %s", name, holder);
}

bool rows_name_session(Client *client, const char *application, Error *error)
{
    return client_query(client, "SELECT set_config('application_name', $1, false)", &application, 1, NULL,
                        error);
}

// -- schema

bool rows_schema_exists(Client *client, bool *ret_exists, Error *error)
{
    OWNED(ClientResult, client_result_free) *result = NULL;
    if (!client_query(client, "SELECT to_regclass('fedgate.schema_migration') IS NOT NULL", NULL, 0, &result,
                      error))
        return false;
    *ret_exists = strcmp(client_text(result, 0, 0), "t") == 0;
    return true;
}

bool rows_migrations(Client *client, ClientResult **ret_result, Error *error)
{
    return client_query(client, "SELECT number, name, sha256 FROM fedgate.schema_migration ORDER BY number",
                        NULL, 0, ret_result, error);
}

bool rows_add_migration(Client *client, int number, const char *name, const char *sha256, Error *error)
{
    char text[NUMBER_SIZE];
    number_text(text, number);
    const char *values[] = {text, name, sha256};
    return client_query(client,
                        "INSERT INTO fedgate.schema_migration (number, name, sha256) VALUES ($1, $2, $3)",
                        values, 3, NULL, error);
}

bool rows_make_database(Client *client, Error *error)
{
    OWNED(ClientResult, client_result_free) *role = NULL;
    OWNED(ClientResult, client_result_free) *database = NULL;
    if (!client_query(client, "SELECT 1 FROM pg_roles WHERE rolname = 'fedgate'", NULL, 0, &role, error) ||
        !client_query(client, "SELECT 1 FROM pg_database WHERE datname = 'fedgate'", NULL, 0, &database,
                      error))
        return false;
    if (client_row_count(role) == 0 &&
        !client_query(client, "CREATE ROLE fedgate LOGIN", NULL, 0, NULL, error))
        return false;
    return client_row_count(database) > 0 ||
           client_query(client, "CREATE DATABASE fedgate OWNER fedgate", NULL, 0, NULL, error);
}

// -- home and fence

bool rows_raise_epoch(Client *client, const char *model, const char *home_id, int64_t expected,
                      bool *ret_raised, int64_t *ret_epoch, Error *error)
{
    OWNED(ClientResult, client_result_free) *result = NULL;
    char text[NUMBER_SIZE];
    number_text(text, expected);
    const char *values[] = {model, home_id, text};
    const char *sql =
        "INSERT INTO fedgate.home AS h (model, id, epoch) VALUES ($1, $2, 1) ON CONFLICT (model) DO UPDATE "
        "SET epoch = h.epoch + 1, seen = now() WHERE h.id = excluded.id AND $3::bigint IN (0, h.epoch) "
        "RETURNING epoch";
    if (!client_query(client, sql, values, 3, &result, error))
        return false;
    *ret_raised = client_row_count(result) == 1;
    if (*ret_raised)
        *ret_epoch = client_integer(result, 0, 0);
    return true;
}

bool rows_home_of_model(Client *client, const char *model, char *ret_home_id, size_t size, Error *error)
{
    OWNED(ClientResult, client_result_free) *result = NULL;
    if (!client_query(client, "SELECT id FROM fedgate.home WHERE model = $1", &model, 1, &result, error))
        return false;
    if (!text_copy(ret_home_id, size, client_row_count(result) > 0 ? client_text(result, 0, 0) : ""))
        return FAIL(error, ERROR_DATA, 0, "id of the home that serves model '%s' is too long", model);
    return true;
}

bool rows_check_epoch(Client *client, const char *model, const char *home_id, int64_t epoch, Error *error)
{
    OWNED(ClientResult, client_result_free) *result = NULL;
    const char *values[] = {model, home_id};
    if (!client_query(client, "SELECT epoch FROM fedgate.home WHERE model = $1 AND id = $2 FOR SHARE", values,
                      2, &result, error))
        return false;
    int64_t found = client_row_count(result) > 0 ? client_integer(result, 0, 0) : 0;
    if (found == epoch)
        return true;
    return FAIL(error, ERROR_CONFLICT, 0,
                "model '%s' is served by another shipper: epoch %lld expected, %lld found", model,
                (long long)epoch, (long long)found);
}

// -- shipping

bool rows_position(Client *client, const char *run, bool lock, ShipPosition *ret_position, Error *error)
{
    OWNED(ClientResult, client_result_free) *result = NULL;
    const char *sql = lock ? "SELECT seq, bytes, chain FROM fedgate.spool_position WHERE run = $1 FOR UPDATE"
                           : "SELECT seq, bytes, chain FROM fedgate.spool_position WHERE run = $1";
    if (!client_query(client, sql, &run, 1, &result, error))
        return false;
    *ret_position = (ShipPosition){.any = client_row_count(result) > 0};
    if (ret_position->any) {
        ret_position->seq = client_integer(result, 0, 0);
        ret_position->bytes = client_integer(result, 0, 1);
        ret_position->chain = (uint32_t)client_integer(result, 0, 2);
    }
    return true;
}

bool rows_set_position(Client *client, const char *run, const char *version, const ShipPosition *position,
                       Error *error)
{
    char seq[NUMBER_SIZE], bytes[NUMBER_SIZE], chain[NUMBER_SIZE];
    number_text(seq, position->seq);
    number_text(bytes, position->bytes);
    number_text(chain, (int64_t)position->chain);
    const char *values[] = {run, version, seq, bytes, chain};
    const char *sql =
        "INSERT INTO fedgate.spool_position (run, version, seq, bytes, chain) VALUES ($1, $2, $3, $4, $5) "
        "ON CONFLICT (run) DO UPDATE SET version = excluded.version, seq = excluded.seq, bytes = "
        "excluded.bytes, "
        "chain = excluded.chain, moved = now()";
    return client_query(client, sql, values, 5, NULL, error);
}

static ColumnRole role_of(const char *name)
{
    static const struct {
        const char *name;
        ColumnRole role;
    } roles[] = {
        {"run", COLUMN_RUN}, {"seq", COLUMN_SEQ}, {"version", COLUMN_VERSION}, {"rest", COLUMN_REST}};
    for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++) {
        if (strcmp(name, roles[i].name) == 0)
            return roles[i].role;
    }
    return COLUMN_VALUE;
}

bool rows_columns(Client *client, TelemetryKind kind, KindColumns *ret_columns, Error *error)
{
    const char *table = kind_table(kind);
    OWNED(ClientResult, client_result_free) *result = NULL;
    const char *sql =
        "SELECT attname, atttypid = 'jsonb'::regtype, atttypid = 'bigint'::regtype FROM pg_attribute "
        "WHERE attrelid = ('fedgate.' || quote_ident($1))::regclass AND attnum > 0 AND NOT attisdropped "
        "ORDER BY attnum";
    if (!client_query(client, sql, &table, 1, &result, error))
        return false;
    int64_t count = client_row_count(result);
    if (count == 0 || count > KIND_COLUMNS_MAXIMUM)
        return FAIL(error, ERROR_CONFIG, 0, "table '%s' has %lld columns, the limit is %d", table,
                    (long long)count, KIND_COLUMNS_MAXIMUM);
    for (int64_t i = 0; i < count; i++) {
        KindColumn *column = &ret_columns->column[i];
        if (!text_copy(column->name, sizeof(column->name), client_text(result, i, 0)))
            return FAIL(error, ERROR_CONFIG, 0, "a column of table '%s' has too long a name", table);
        column->role = role_of(column->name);
        column->is_json = client_text(result, i, 1)[0] == 't';
        column->is_integer = client_text(result, i, 2)[0] == 't';
    }
    ret_columns->count = (int)count;
    return true;
}

// `shape` has the table's name as its only conversions; a kind's name is ours.
#define TABLE_SQL(sql, shape, ...)                                                                           \
    if (!text_print((sql), sizeof(sql), shape, __VA_ARGS__))                                                 \
    BUG("statement for a row kind is too long")

bool rows_make_staging(Client *client, TelemetryKind kind, Error *error)
{
    char sql[512];
    TABLE_SQL(sql, "CREATE TEMPORARY TABLE IF NOT EXISTS staged_%s (LIKE fedgate.%s) ON COMMIT DELETE ROWS",
              kind_table(kind), kind_table(kind));
    return client_script(client, sql, error);
}

bool rows_copy(Client *client, TelemetryKind kind, const char *bytes, size_t length, Error *error)
{
    char sql[512];
    TABLE_SQL(sql, "COPY fedgate.%s FROM STDIN", kind_table(kind));
    return client_copy_in(client, sql, bytes, length, error) ||
           error_prefix(error, "telemetry rows of kind '%s'", kind_table(kind));
}

bool rows_stage(Client *client, TelemetryKind kind, const char *bytes, size_t length, Error *error)
{
    char sql[512];
    TABLE_SQL(sql, "COPY pg_temp.staged_%s FROM STDIN", kind_table(kind));
    return client_copy_in(client, sql, bytes, length, error) ||
           error_prefix(error, "telemetry rows of kind '%s'", kind_table(kind));
}

bool rows_store_staged(Client *client, TelemetryKind kind, int64_t *ret_inserted, Error *error)
{
    char sql[512];
    OWNED(ClientResult, client_result_free) *result = NULL;
    TABLE_SQL(sql, "INSERT INTO fedgate.%s SELECT * FROM pg_temp.staged_%s ON CONFLICT (run, seq) DO NOTHING",
              kind_table(kind), kind_table(kind));
    if (!client_query(client, sql, NULL, 0, &result, error))
        return error_prefix(error, "telemetry rows of kind '%s'", kind_table(kind));
    *ret_inserted = client_changed(result);
    return true;
}

bool rows_first_conflict(Client *client, TelemetryKind kind, int64_t *ret_seq, Error *error)
{
    char sql[512];
    OWNED(ClientResult, client_result_free) *result = NULL;
    TABLE_SQL(sql,
              "SELECT min(s.seq) FROM pg_temp.staged_%s s JOIN fedgate.%s t USING (run, seq) "
              "WHERE to_jsonb(t) IS DISTINCT FROM to_jsonb(s)",
              kind_table(kind), kind_table(kind));
    if (!client_query(client, sql, NULL, 0, &result, error))
        return false;
    *ret_seq = client_integer(result, 0, 0);
    return true;
}

bool rows_count(Client *client, const char *run, int64_t up_to_seq, int64_t *ret_rows, Error *error)
{
    char number[NUMBER_SIZE], sql[2048] = "SELECT 0";
    number_text(number, up_to_seq);
    size_t used = strlen(sql);
    for (unsigned i = 0; i < TELEMETRY_KIND_COUNT; i++) {
        if (!text_print(sql + used, sizeof(sql) - used,
                        " + (SELECT count(*) FROM fedgate.%s WHERE run = $1 AND seq <= $2)",
                        kind_table((TelemetryKind)i)))
            BUG("statement that counts %d tables is too long", (int)TELEMETRY_KIND_COUNT);
        used += strlen(sql + used);
    }
    const char *values[] = {run, number};
    OWNED(ClientResult, client_result_free) *result = NULL;
    if (!client_query(client, sql, values, 2, &result, error))
        return false;
    *ret_rows = client_integer(result, 0, 0);
    return true;
}

// -- decisions

bool rows_decisions(Client *client, const char *home_id, ClientResult **ret_result, Error *error)
{
    return client_query(client,
                        "SELECT seq, record_digest FROM fedgate.decision WHERE home_id = $1 ORDER BY seq",
                        &home_id, 1, ret_result, error);
}

bool rows_add_decision(Client *client, const char *home_id, const char *record, Error *error)
{
    const char *values[] = {home_id, record};
    return client_query(client, "SELECT fedgate.record_decision($1, $2::jsonb)", values, 2, NULL, error);
}
