// telemetry.h - the spool (always the first writer) and PostgreSQL (a mirror, never the source of truth): the only libpq.
//
// Spool: one append-only file per run, framed and checksummed {length, run, seq, version, kind, payload JSON, CRC32C}, synced at
// least once a second and before any decision. The shipper loads it with COPY into a temporary table and INSERT ... ON CONFLICT DO NOTHING,
// with the position row in the same transaction: exactly once, also when the link is cut inside COMMIT. Every row carries version and run.
// A torn tail is cut at the first bad frame and counted. Rows over telemetry.rows are thinned and counted, never a gate metric.
#ifndef FEDGATE_TELEMETRY_H
#define FEDGATE_TELEMETRY_H

#include <fedgate/clock.h>
#include <fedgate/config.h>

// -- row kinds: table, and whether thinning may drop it. Payload keys = columns of the table (migrations/0001_*); other keys go to its
// column `rest`. Counts, bytes and ns are integers; times are RFC 3339 or null, never ""; words of outcomes are those of design.md.
#define TELEMETRY_KINDS(ROW)                                                                                              \
    ROW(RUN, "run", false)               /* the complete run record, once at the end; a first form at the start */        \
    ROW(NIGHT_STEP, "night_step", false) /* step, begun, seconds, outcome */                                              \
    ROW(STEP_WINDOW, "step_window", true)/* first_step, steps, wall_ns, wait_ns, exposed_copy_ns, compute_ns, rest_ns, loss, samples_per_second, live_bytes */ \
    ROW(STAGE, "stage", false)           /* stage, items, bytes, busy_ns, blocked_in_ns, blocked_out_ns, depth_p50, depth_p95, threads */ \
    ROW(CHECK, "check_result", false)    /* name, required, outcome, value, value_limit, unit, n, reason */               \
    ROW(METRIC, "metric", false)         /* model (candidate, live, linear...), split, slice_column, slice_value, metric, value, rows */ \
    ROW(PREDICTION, "prediction_bin", false) /* model, bin, low, high, rows, positives */                                 \
    ROW(INPUT, "input_column", false)    /* name, role, missing_ratio, unseen_ratio, outside_ratio, drift_psi, single_auc */ \
    ROW(MEMORY, "memory_account", false) /* account, kind, planned_bytes, peak_bytes */                                   \
    ROW(VERDICT, "verdict", false)       /* slot, outcome, reason, decided_by, policy_digest, evidence_digest, started, ended, deadline */
typedef enum TelemetryKind {
#define TELEMETRY_ENUM(name, table, thin) TELEMETRY_##name,
    TELEMETRY_KINDS(TELEMETRY_ENUM)
#undef TELEMETRY_ENUM
    TELEMETRY_KIND_COUNT
} TelemetryKind;

// -- spool: <home>/spool/<run>.spool
typedef struct Spool Spool;
WARN_UNUSED Spool *spool_open(const char *home, const char *run, const char *version, int64_t maximum_rows, Error *error);   // continues an existing one after its last good frame
WARN_UNUSED bool spool_append(Spool *spool, TelemetryKind kind, const Json *payload, Error *error);   // syncs when a second has passed
WARN_UNUSED bool spool_sync(Spool *spool, Error *error);
int64_t spool_rows(const Spool *spool);      // rows in the file
int64_t spool_dropped(const Spool *spool);   // thinned; kept in the file, so a resumed run goes on counting
int64_t spool_torn_bytes(const Spool *spool);   // cut from torn tails over the run's whole life
void spool_close(Spool *spool);
OWNED_RELEASE(Spool, spool_close)

// -- database: options database.*. With no URL a private cluster in <home>/pg: initdb with checksums, --locale=C, unix socket only (short folder),
// peer authentication, started when needed and stopped by the last fedgate out; one that a person started is left running; as root it runs under
// database.account. Passwords never appear in messages.
typedef struct Telemetry Telemetry;
WARN_UNUSED Telemetry *telemetry_connect(const Config *config, const char *home, Clock *clock, Error *error);   // starts the private cluster; ERROR_UNAVAILABLE within database.timeout
void telemetry_close(Telemetry *telemetry);   // the last process that uses the private cluster stops it, when fedgate started it
OWNED_RELEASE(Telemetry, telemetry_close)
WARN_UNUSED bool telemetry_create(const Config *config, const char *home, Clock *clock, Error *error);   // `fedgate init`: initdb when there is none
const char *telemetry_where(const Telemetry *telemetry);   // for psql: "host=/… dbname=fedgate user=…", no secret

// migrations/NNNN_verb_object.sql in `directory`: forward only, one transaction each, advisory lock, digests recorded. Database newer than
// the folder, or a changed digest: ERROR_CONFIG with nothing written. ret_applied: how many ran now.
WARN_UNUSED bool telemetry_migrate(Telemetry *telemetry, const char *directory, int *ret_applied, Error *error);
// ERROR_CONFIG when older (naming `fedgate migrate`) or newer than `directory`.
WARN_UNUSED bool telemetry_check_schema(Telemetry *telemetry, const char *directory, Error *error);

// Registers the home for this model (home id, epoch fence) and holds the advisory lock: ERROR_INCONSISTENT when another home serves the model.
WARN_UNUSED bool telemetry_register_home(Telemetry *telemetry, const char *model, const char *home_id, Error *error);

// rows in the spool; acknowledged: counted in the tables after this call; torn_bytes: cut from the spool over its life; complete: all rows
// acknowledged and nothing was cut in this call. The home must be registered.
typedef struct ShipResult { int64_t rows, acknowledged, torn_bytes; bool complete; } ShipResult;
WARN_UNUSED bool telemetry_ship(Telemetry *telemetry, const char *home, const char *run, ShipResult *ret_result, Error *error);   // retries serialization failures
// Every spool left by earlier runs; ret_rows: rows that were new to the database. One odd spool does not keep the others; the first failure is returned.
WARN_UNUSED bool telemetry_ship_all(Telemetry *telemetry, const char *home, int64_t *ret_rows, Error *error);

// The copy of pointer records: insert-only through a function. records: array of the records' JSON, each with "seq" and "record_digest".
// Same seq with another digest: ERROR_INCONSISTENT naming the first.
WARN_UNUSED bool telemetry_mirror_decisions(Telemetry *telemetry, const char *home_id, const Json *records, Error *error);
WARN_UNUSED bool telemetry_decisions(Telemetry *telemetry, const char *home_id, Json **ret_records, Error *error);   // for verify: seq, digest in order

#endif
