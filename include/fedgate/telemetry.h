// telemetry.h - the spool (always the first writer) and PostgreSQL (a mirror): the only libpq.
//
// Spool: one append-only file per run, framed and checksummed {length, run, seq, version, kind, payload JSON,
// CRC32C}, synced at least once a second and before any decision. The shipper loads it with COPY, the
// position row in the same transaction, ON CONFLICT DO NOTHING where rows may be there: exactly once, also
// when the link is cut inside COMMIT. Every row carries version and run. A torn tail is cut at the first bad
// frame and counted. Rows over telemetry.rows are thinned and counted, never a gate metric.
#ifndef FEDGATE_TELEMETRY_H
#define FEDGATE_TELEMETRY_H

#include <fedgate/clock.h>
#include <fedgate/config.h>

// -- row kinds: table, and whether thinning may drop it. Payload keys are the columns of the table
// (migrations/0001_*); other keys go to its column `rest`. Counts, bytes and ns are integers; times are RFC
// 3339 or null, never ""; words of outcomes are those of design.md.
//   run             the complete run record, once at the end; a first form at the start is allowed
//   night_step      step, begun, seconds, outcome
//   step_window     first_step, steps, wall_ns, wait_ns, exposed_copy_ns, compute_ns, rest_ns, loss,
//                   samples_per_second, live_bytes
//   stage           stage, items, bytes, busy_ns, blocked_in_ns, blocked_out_ns, depth_p50, depth_p95,
//                   depth_max, threads
//   check_result    name, required, outcome, value, value_limit, unit, n, reason
//   metric          model (candidate, live, linear...), split, slice_column, slice_value, metric, value, rows
//   prediction_bin  model, bin, low, high, rows, positives
//   input_column    name, role, missing_ratio, unseen_ratio, outside_ratio, drift_psi, single_auc, constant
//   memory_account  account, kind, planned_bytes, peak_bytes, live_bytes
//   verdict         slot, outcome, reason, decided_by, policy_digest, evidence_digest, started, ended,
//                   deadline
#define TELEMETRY_KINDS(ROW)              \
    ROW(RUN, "run", false)                \
    ROW(NIGHT_STEP, "night_step", false)  \
    ROW(STEP_WINDOW, "step_window", true) \
    ROW(STAGE, "stage", false)            \
    ROW(CHECK, "check_result", false)     \
    ROW(METRIC, "metric", false)          \
    ROW(PREDICTION, "prediction_bin", false) \
    ROW(INPUT, "input_column", false)     \
    ROW(MEMORY, "memory_account", false)  \
    ROW(VERDICT, "verdict", false)
typedef enum TelemetryKind {
#define TELEMETRY_ENUM(name, table, thin) TELEMETRY_##name,
    TELEMETRY_KINDS(TELEMETRY_ENUM)
#undef TELEMETRY_ENUM
    TELEMETRY_KIND_COUNT
} TelemetryKind;

// -- spool: <home>/spool/<run>.spool. A forked child may go on with an open one, and the parent after it.
typedef struct Spool Spool;
// Continues an existing one after its last good frame.
WARN_UNUSED Spool *spool_open(const char *home, const char *run, const char *version, int64_t maximum_rows,
                              Error *error);
// Syncs when a second has passed. On a full disk a row that may be thinned is dropped; any other is ERROR_IO.
WARN_UNUSED bool spool_append(Spool *spool, TelemetryKind kind, const Json *payload, Error *error);
WARN_UNUSED bool spool_sync(Spool *spool, Error *error);
int64_t spool_rows(const Spool *spool);         // rows in the file
int64_t spool_dropped(const Spool *spool);      // thinned; kept in the file, a resumed run goes on counting
int64_t spool_torn_bytes(const Spool *spool);   // cut from torn tails over the run's whole life
void spool_close(Spool *spool);
OWNED_RELEASE(Spool, spool_close)

// -- database: options database.*. With no URL a private cluster in <home>/pg: initdb with checksums,
// --locale=C, unix socket only (short folder), peer authentication, started when needed and stopped by the
// last fedgate out; one that a person started is left running. As root it runs under database.account; the
// home then gets the search bit for others. No message holds a password or a malformed URL.
typedef struct Telemetry Telemetry;
// Starts the private cluster; ERROR_UNAVAILABLE within database.timeout.
WARN_UNUSED Telemetry *telemetry_connect(const Config *config, const char *home, Clock *clock, Error *error);
void telemetry_close(Telemetry *telemetry);
OWNED_RELEASE(Telemetry, telemetry_close)
// `fedgate init`: initdb when there is none, role and database; can be repeated. Nothing with a URL.
WARN_UNUSED bool telemetry_create(const Config *config, const char *home, Clock *clock, Error *error);
// For psql: "host=/... port=5432 dbname=fedgate user=...", no secret.
const char *telemetry_where(const Telemetry *telemetry);

// migrations/NNNN_verb_object.sql in `directory`: forward only, one transaction each, advisory lock, digests
// recorded. Database newer than the folder, or a changed digest: ERROR_CONFIG with nothing written.
// ret_applied: how many ran now.
WARN_UNUSED bool telemetry_migrate(Telemetry *telemetry, const char *directory, int *ret_applied,
                                   Error *error);
// ERROR_CONFIG when older (naming `fedgate migrate`) or newer than `directory`.
WARN_UNUSED bool telemetry_check_schema(Telemetry *telemetry, const char *directory, Error *error);

// Registers the home for this model (home id, epoch fence) and holds the advisory lock until closing:
// ERROR_INCONSISTENT when another home serves the model, ERROR_BUSY naming the holder of the lock.
WARN_UNUSED bool telemetry_register_home(Telemetry *telemetry, const char *model, const char *home_id,
                                         Error *error);

typedef struct ShipResult {
    int64_t rows;           // in the spool
    int64_t acknowledged;   // counted in the tables after this call
    int64_t torn_bytes;     // cut from the spool over its life
    bool complete;          // all rows acknowledged, and nothing was cut in this call
} ShipResult;
// The home must be registered. Retries serialization failures and lost links within database.timeout.
WARN_UNUSED bool telemetry_ship(Telemetry *telemetry, const char *home, const char *run,
                                ShipResult *ret_result, Error *error);
// Every spool left by earlier runs; ret_rows: rows that were new to the database. One odd spool does not keep
// the others; the first failure is returned.
WARN_UNUSED bool telemetry_ship_all(Telemetry *telemetry, const char *home, int64_t *ret_rows, Error *error);

// The copy of pointer records: insert-only through a function. records: array of the records' JSON, in order,
// each with "seq" and "record_digest". A copy that is ahead, or the same seq with another digest:
// ERROR_INCONSISTENT naming the first.
WARN_UNUSED bool telemetry_mirror_decisions(Telemetry *telemetry, const char *home_id, const Json *records,
                                            Error *error);
// For verify: seq and record_digest, in order.
WARN_UNUSED bool telemetry_decisions(Telemetry *telemetry, const char *home_id, Json **ret_records,
                                     Error *error);

#endif
