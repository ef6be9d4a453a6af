// telemetry_internal.h - what the files of this folder know of one another.
//
// client.c and connect.c are the only ones that speak libpq; rows.c holds every query of the rest of the
// folder, one named function each; cluster.c knows the private server; spool.c and reader.c the file;
// telemetry.c the handle that joins them.
#ifndef FEDGATE_TELEMETRY_INTERNAL_H
#define FEDGATE_TELEMETRY_INTERNAL_H

#include <fedgate/telemetry.h>

#include <sys/types.h>

// -- kinds
const char *kind_table(TelemetryKind kind);
bool kind_may_be_thinned(TelemetryKind kind);
bool kind_find(const char *table, TelemetryKind *ret_kind);

// -- spool frames (reader.c). File: 8 bytes magic, u32 format, u32 zero; then frames {u32 body bytes, u32
// CRC32C over the length and the body}, body = u64 seq, u64 rows dropped so far, u64 torn bytes cut so far,
// then run, version and kind as NUL-terminated strings, then the payload. Integers are little-endian. The
// format number rises when a field is removed or changes its meaning.
enum {
    SPOOL_HEADER_BYTES = 16,
    SPOOL_FRAME_BYTES = 8,
    SPOOL_BODY_FIXED = 24,
    SPOOL_PAYLOAD_MAXIMUM = 1 << 20
};
enum { SPOOL_RUN_LENGTH = 36, SPOOL_VERSION_MAXIMUM = 95 };

typedef struct SpoolFrame {
    int64_t seq, dropped, torn;
    const char *version;   // NUL-terminated; strings are borrowed until the next call of reader_next
    const char *payload;
    size_t payload_length;
    TelemetryKind kind;
    uint32_t crc;
} SpoolFrame;

typedef struct SpoolReader SpoolReader;
bool spool_run_is_valid(const char *run);
bool spool_version_is_valid(const char *version);
void spool_header(unsigned char ret_header[static SPOOL_HEADER_BYTES]);
WARN_UNUSED bool spool_path(const char *home, const char *run, char *ret_path, Error *error);
WARN_UNUSED bool reader_open(const char *path, const char *run, SpoolReader **ret_reader,
                             Error *error);   // ERROR_DATA: not a spool
// The next good frame: ret_any false at the end, which is the end of the file or the first bad frame.
// ERROR_DATA: a whole frame of a kind this program does not know.
WARN_UNUSED bool reader_next(SpoolReader *reader, bool *ret_any, SpoolFrame *ret_frame, Error *error);
uint64_t reader_end(const SpoolReader *reader);   // offset after the last good frame
uint32_t reader_chain(
    const SpoolReader *reader);   // CRC32C over the CRCs of all frames read: equal chains, equal rows
int64_t reader_rows(const SpoolReader *reader);   // frames read
int64_t reader_dropped(const SpoolReader *reader);   // as the last frame says
int64_t reader_torn(const SpoolReader *reader);
// Cuts what follows reader_end(); ret_bytes: how much, 0 when there was nothing. The caller holds the file's
// flock and has read to the end under it, so that no frame of a living writer is taken for a torn one.
WARN_UNUSED bool reader_cut(SpoolReader *reader, int64_t *ret_bytes, Error *error);
int reader_descriptor(const SpoolReader *reader);
void reader_close(SpoolReader *reader);
OWNED_RELEASE(SpoolReader, reader_close)

// -- libpq, as narrow as our use of it (client.c). Every wait is bounded by the client's own clock, so a
// stopped server cannot hold a night; after such a time-out the connection is closed.
typedef struct ClientTarget {
    const char *url;   // libpq connection string; "" for the private server
    const char *socket_directory, *database, *user;   // of the private server
    const char *application;   // shown to whoever waits for us
    int64_t timeout_ns;   // for connecting, and for a statement's lock; statements get at least
                          // CLIENT_STATEMENT_NS
} ClientTarget;
typedef struct Client Client;
typedef struct ClientResult ClientResult;
typedef enum ClientPing {
    CLIENT_PING_READY,
    CLIENT_PING_BUSY,
    CLIENT_PING_NONE
} ClientPing;   // BUSY: starting, stopping or recovering
ClientPing client_ping(const char *socket_directory);
WARN_UNUSED Client *client_connect(const ClientTarget *target,
                                   Error *error);   // waits while the server is starting
void client_close(Client *client);
OWNED_RELEASE(Client, client_close)
bool client_is_lost(const Client *client);   // the connection is gone: connect again
bool client_may_retry(const Client *client);   // last failure was a serialization failure or a deadlock
void client_keep_state(Client *client, const char state[static 6]);
const char *client_state(const Client *client);   // SQLSTATE of the last failure, "" when none
const char *client_where(const Client *client);
// One statement with text parameters (NULL is null). ret_result may be NULL when the rows do not matter.
WARN_UNUSED bool client_query(Client *client, const char *sql, const char *const *values, int count,
                              ClientResult **ret_result, Error *error);
WARN_UNUSED bool client_script(Client *client, const char *sql,
                               Error *error);   // several statements, no parameters
bool client_in_transaction(const Client *client);
WARN_UNUSED bool client_copy_in(Client *client, const char *sql, const char *bytes, size_t length,
                                Error *error);   // one COPY ... FROM STDIN
int64_t client_row_count(const ClientResult *result);
int64_t client_changed(const ClientResult *result);   // rows inserted, updated or deleted
const char *client_text(const ClientResult *result, int64_t row, int column);   // "" for null
int64_t client_integer(const ClientResult *result, int64_t row, int column);   // 0 for null
const char *client_tag(const ClientResult *result);   // command tag: "COMMIT"
void client_result_free(ClientResult *result);
OWNED_RELEASE(ClientResult, client_result_free)

// -- payload to COPY line (payload.c)
enum { KIND_COLUMNS_MAXIMUM = 64 };
typedef enum ColumnRole { COLUMN_VALUE, COLUMN_RUN, COLUMN_SEQ, COLUMN_VERSION, COLUMN_REST } ColumnRole;
typedef struct KindColumn {
    char name[64];
    ColumnRole role;
    bool is_json, is_integer;
} KindColumn;
typedef struct KindColumns {
    int count;
    KindColumn column[KIND_COLUMNS_MAXIMUM];
} KindColumns;   // in the table's order
WARN_UNUSED bool payload_add_line(const KindColumns *columns, const char *run, const SpoolFrame *frame,
                                  Text *rest, Text *line,
                                  Error *error);   // rest: scratch

// -- the private server (cluster.c)
typedef struct Cluster Cluster;
WARN_UNUSED Cluster *cluster_start(const Config *config, const char *home,
                                   Error *error);   // starts or adopts it
WARN_UNUSED bool cluster_create(const Config *config, const char *home,
                                Error *error);   // initdb, role and database; repeatable
WARN_UNUSED bool cluster_reach(Cluster *cluster, Error *error);   // again, after the server went away
const char *cluster_socket_directory(const Cluster *cluster);
bool cluster_started(const Cluster *cluster);   // this handle started it
void cluster_close(Cluster *cluster);   // the last fedgate process out stops a server that fedgate started
OWNED_RELEASE(Cluster, cluster_close)

// -- where PostgreSQL's server programs are (programs.c)
typedef struct ServerPrograms {
    char directory[256];
    int major;
} ServerPrograms;
WARN_UNUSED bool programs_find(int wanted_major, ServerPrograms *ret_programs,
                               Error *error);   // 0: the newest

// -- the handle (telemetry.c)
struct Telemetry {
    Cluster *cluster;   // NULL with a URL
    Client *client;   // never NULL; may be lost
    char *url;
    int64_t timeout_ns;
    char application[64];
    char where[512];
    // -- once registered
    char model[65], home_id[65];
    int64_t epoch;   // 0: not registered
    bool knows_columns;   // `columns` were read on this connection
    KindColumns *columns;   // [TELEMETRY_KIND_COUNT], NULL until they were asked for
    pid_t process;   // that connected
};
WARN_UNUSED bool telemetry_reconnect(Telemetry *telemetry, Error *error);   // and takes lock and epoch again
enum { TELEMETRY_TRIES = 5 };
void telemetry_back_off(int attempt);   // doubles from 100 ms, with jitter

// -- named queries (rows.c); all inside schema fedgate
typedef struct ShipPosition {
    bool any;
    int64_t seq, bytes;
    uint32_t chain;
} ShipPosition;
WARN_UNUSED bool rows_begin(Client *client, Error *error);
WARN_UNUSED bool rows_commit(Client *client, Error *error);   // false unless the server said COMMIT
void rows_roll_back(Client *client);   // client_state() stays that of the failure before
WARN_UNUSED bool rows_lock_try(Client *client, const char *name, bool *ret_taken,
                               Error *error);   // session advisory lock
WARN_UNUSED bool rows_unlock(Client *client, const char *name, Error *error);
WARN_UNUSED bool rows_lock_holder(Client *client, const char *name, char *ret_holder, size_t size,
                                  Error *error);
WARN_UNUSED bool rows_lock_wait(Client *client, const char *name, int64_t timeout_ns,
                                Error *error);   // ERROR_BUSY names the holder
WARN_UNUSED bool rows_name_session(Client *client, const char *application, Error *error);
WARN_UNUSED bool rows_schema_exists(Client *client, bool *ret_exists, Error *error);
WARN_UNUSED bool rows_migrations(Client *client, ClientResult **ret_result,
                                 Error *error);   // number, name, sha256
WARN_UNUSED bool rows_add_migration(Client *client, int number, const char *name, const char *sha256,
                                    Error *error);
WARN_UNUSED bool rows_raise_epoch(Client *client, const char *model, const char *home_id, int64_t expected,
                                  bool *ret_raised, int64_t *ret_epoch, Error *error);   // expected 0: any
WARN_UNUSED bool rows_home_of_model(Client *client, const char *model, char *ret_home_id, size_t size,
                                    Error *error);
WARN_UNUSED bool rows_check_epoch(Client *client, const char *model, const char *home_id, int64_t epoch,
                                  Error *error);   // FOR SHARE
WARN_UNUSED bool rows_position(Client *client, const char *run, bool lock, ShipPosition *ret_position,
                               Error *error);
WARN_UNUSED bool rows_set_position(Client *client, const char *run, const char *version,
                                   const ShipPosition *position, Error *error);
WARN_UNUSED bool rows_columns(Client *client, TelemetryKind kind, KindColumns *ret_columns, Error *error);
// Straight into the table: a row that is there already fails with 23505.
WARN_UNUSED bool rows_copy(Client *client, TelemetryKind kind, const char *bytes, size_t length,
                           Error *error);
// Through a temporary table, emptied at COMMIT, with ON CONFLICT DO NOTHING; costs four times as much.
WARN_UNUSED bool rows_make_staging(Client *client, TelemetryKind kind, Error *error);
WARN_UNUSED bool rows_stage(Client *client, TelemetryKind kind, const char *bytes, size_t length,
                            Error *error);
WARN_UNUSED bool rows_store_staged(Client *client, TelemetryKind kind, int64_t *ret_inserted, Error *error);
WARN_UNUSED bool rows_first_conflict(Client *client, TelemetryKind kind, int64_t *ret_seq,
                                     Error *error);   // 0: none
WARN_UNUSED bool rows_count(Client *client, const char *run, int64_t up_to_seq, int64_t *ret_rows,
                            Error *error);   // in all tables
WARN_UNUSED bool rows_decisions(Client *client, const char *home_id, ClientResult **ret_result,
                                Error *error);   // seq, record_digest
WARN_UNUSED bool rows_add_decision(Client *client, const char *home_id, const char *record, Error *error);
WARN_UNUSED bool rows_make_database(Client *client,
                                    Error *error);   // role and database `fedgate` when they are missing

#endif
