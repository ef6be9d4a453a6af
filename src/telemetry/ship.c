// ship.c - from the spool into the tables: every row exactly once, whatever is cut, killed or repeated.
//
// A batch is one transaction: the home's epoch read FOR SHARE, the position row locked and compared, COPY per
// kind, the position moved. Only a received COMMIT counts. After a cut the connection, the lock and the
// position are taken anew, so it does not matter whether that COMMIT was done. Beyond the position there are
// no rows, so COPY goes straight into the tables; should it meet a row all the same, the batch is repeated
// through a temporary table with ON CONFLICT DO NOTHING, and a row with other content is ERROR_INCONSISTENT.
// The position holds a checksum over the frames it covers: a spool that is not what was shipped is found. At
// the end the rows are counted in the tables; those missing there are shipped again, once.
#include "telemetry_internal.h"

#include <fedgate/file.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BATCH_ROWS = 20000, BATCH_BYTES = 8 << 20 };

typedef struct Shipment {
    Telemetry *telemetry;
    const char *run;
    char path[FILE_PATH_SIZE];
    int64_t total;   // rows in the spool
    int64_t cut_bytes;   // torn tail cut by this call
    int64_t torn_bytes;   // over the spool's whole life
    int64_t stored;   // rows that were new to the database
    ShipPosition position;   // as the database has it
    bool refill;   // read from the start although the position is further on
    bool careful;   // rows may be there already
    bool moved;   // a batch was stored since the last failure
    // -- the batch
    Text lines[TELEMETRY_KIND_COUNT];   // COPY data of each kind
    int64_t counts[TELEMETRY_KIND_COUNT];
    Text rest;   // scratch of payload.c
    ShipPosition end;   // after its last row
    char version[SPOOL_VERSION_MAXIMUM + 1];
} Shipment;

// -- the spool as it is

static bool read_to_end(SpoolReader *reader, Error *error)
{
    SpoolFrame frame;
    bool any = true;
    while (any) {
        if (!reader_next(reader, &any, &frame, error))
            return false;
    }
    return true;
}

// Counts the rows, cuts a torn tail, and has everything on disk before the database may say that it has it.
static bool look_under_lock(Shipment *shipment, SpoolReader *reader, Error *error)
{
    if (!read_to_end(reader, error) || !reader_cut(reader, &shipment->cut_bytes, error))
        return false;
    if (fdatasync(reader_descriptor(reader)) != 0)
        return FAIL(error, ERROR_IO, errno, "could not sync spool '%s'", shipment->path);
    shipment->total = reader_rows(reader);
    shipment->torn_bytes = reader_torn(reader) + shipment->cut_bytes;
    return true;
}

static bool look(Shipment *shipment, Error *error)
{
    OWNED(SpoolReader, reader_close) *reader = NULL;
    if (!reader_open(shipment->path, shipment->run, &reader, error))
        return false;
    if (flock(reader_descriptor(reader), LOCK_EX) !=
        0)   // released with the reader; appending waits for one reading
        return FAIL(error, ERROR_IO, errno, "could not lock spool '%s'", shipment->path);
    return look_under_lock(shipment, reader, error);
}

// -- one batch

static void clear_batch(Shipment *shipment)
{
    for (unsigned i = 0; i < TELEMETRY_KIND_COUNT; i++) {
        text_clear(&shipment->lines[i]);
        shipment->counts[i] = 0;
    }
}

// Rows that are there already stay; one with other content is named.
static bool store_carefully(Shipment *shipment, TelemetryKind kind, const Text *lines, Error *error)
{
    Client *client = shipment->telemetry->client;
    int64_t inserted = 0, conflict = 0;
    if (!rows_make_staging(client, kind, error) ||
        !rows_stage(client, kind, text_string(lines), lines->length, error) ||
        !rows_store_staged(client, kind, &inserted, error))
        return false;
    shipment->stored += inserted;
    if (inserted == shipment->counts[kind])
        return true;
    if (!rows_first_conflict(client, kind, &conflict, error))
        return false;
    return conflict == 0 || FAIL(error, ERROR_INCONSISTENT, 0,
                                 "row %lld of run '%s' in table '%s' is not the one in the spool",
                                 (long long)conflict, shipment->run, kind_table(kind));
}

static bool store_kind(Shipment *shipment, TelemetryKind kind, Error *error)
{
    const Text *lines = &shipment->lines[kind];
    if (!text_ok(lines, error))
        return false;
    if (shipment->careful)
        return store_carefully(shipment, kind, lines, error);
    if (!rows_copy(shipment->telemetry->client, kind, text_string(lines), lines->length, error))
        return false;
    shipment->stored += shipment->counts[kind];
    return true;
}

static bool store_kinds(Shipment *shipment, Error *error)
{
    for (unsigned i = 0; i < TELEMETRY_KIND_COUNT; i++) {
        if (shipment->counts[i] > 0 && !store_kind(shipment, (TelemetryKind)i, error))
            return false;
    }
    return true;
}

static bool store_in_transaction(Shipment *shipment, Error *error)
{
    Telemetry *telemetry = shipment->telemetry;
    ShipPosition now;
    if (!rows_check_epoch(telemetry->client, telemetry->model, telemetry->home_id, telemetry->epoch, error) ||
        !rows_position(telemetry->client, shipment->run, true, &now, error))
        return false;
    if (now.seq != shipment->position.seq)
        return FAIL(error, ERROR_CONFLICT, 0,
                    "position of run '%s' moved from %lld to %lld while it was shipped", shipment->run,
                    (long long)shipment->position.seq, (long long)now.seq);
    if (!store_kinds(shipment, error))
        return false;
    return shipment->end.seq <= now.seq ||
           rows_set_position(telemetry->client, shipment->run, shipment->version, &shipment->end, error);
}

static bool store_batch(Shipment *shipment, Error *error)
{
    Client *client = shipment->telemetry->client;
    int64_t stored_before = shipment->stored;
    if (!rows_begin(client, error))
        return false;
    if (!store_in_transaction(shipment, error) || !rows_commit(client, error)) {
        if (!client_is_lost(client))
            rows_roll_back(client);
        shipment->stored = stored_before;
        return false;
    }
    if (shipment->end.seq > shipment->position.seq)
        shipment->position = shipment->end;
    shipment->moved = true;
    clear_batch(shipment);
    return true;
}

// -- the whole spool

// Reads what is shipped already and proves that it is what was shipped.
static bool skip_shipped(const Shipment *shipment, SpoolReader *reader, Error *error)
{
    SpoolFrame frame;
    bool any = true;
    while (any && reader_rows(reader) < shipment->position.seq) {
        if (!reader_next(reader, &any, &frame, error))
            return false;
    }
    const ShipPosition *shipped = &shipment->position;
    if (reader_rows(reader) < shipped->seq) {
        FAIL(error, ERROR_INCONSISTENT, 0, "the database has %lld rows of run '%s', its spool %lld",
             (long long)shipped->seq, shipment->run, (long long)reader_rows(reader));
        return error_hint(error, "The home may come from an old backup; nothing was written.");
    }
    if (shipped->seq > 0 &&
        (reader_chain(reader) != shipped->chain || (int64_t)reader_end(reader) != shipped->bytes))
        return FAIL(error, ERROR_INCONSISTENT, 0,
                    "the first %lld rows of the spool of run '%s' are not those that were shipped",
                    (long long)shipped->seq, shipment->run);
    return true;
}

static bool ship_from(Shipment *shipment, SpoolReader *reader, Error *error)
{
    SpoolFrame frame;
    bool any = true;
    int64_t rows = 0;
    clear_batch(shipment);
    while (reader_rows(reader) < shipment->total) {
        if (!reader_next(reader, &any, &frame, error))
            return false;
        if (!any)
            return FAIL(error, ERROR_DATA, 0, "spool '%s' ended at row %lld of %lld", shipment->path,
                        (long long)reader_rows(reader), (long long)shipment->total);
        memcpy(shipment->version, frame.version, strlen(frame.version) + 1);   // the reader has limited it
        if (!payload_add_line(&shipment->telemetry->columns[frame.kind], shipment->run, &frame,
                              &shipment->rest, &shipment->lines[frame.kind], error))
            return false;
        shipment->counts[frame.kind]++;
        shipment->end = (ShipPosition){true, frame.seq, (int64_t)reader_end(reader), reader_chain(reader)};
        rows++;
        if (rows < BATCH_ROWS && shipment->lines[frame.kind].length < BATCH_BYTES &&
            frame.seq < shipment->total)
            continue;
        if (!store_batch(shipment, error))
            return false;
        rows = 0;
    }
    return true;
}

// The tables' columns are asked for once a connection.
static bool prepare_tables(Telemetry *telemetry, Error *error)
{
    if (telemetry->columns == NULL)
        telemetry->columns = calloc(TELEMETRY_KIND_COUNT, sizeof(*telemetry->columns));
    if (telemetry->columns == NULL)
        return FAIL(error, ERROR_MEMORY, 0, "out of memory for the columns of the telemetry tables");
    for (unsigned i = 0; i < TELEMETRY_KIND_COUNT && !telemetry->knows_columns; i++) {
        if (!rows_columns(telemetry->client, (TelemetryKind)i, &telemetry->columns[i], error))
            return false;
    }
    telemetry->knows_columns = true;
    return true;
}

static bool ship_once(Shipment *shipment, Error *error)
{
    Telemetry *telemetry = shipment->telemetry;
    if (client_is_lost(telemetry->client) && !telemetry_reconnect(telemetry, error))
        return false;
    if (!prepare_tables(telemetry, error) ||
        !rows_position(telemetry->client, shipment->run, false, &shipment->position, error))
        return false;
    OWNED(SpoolReader, reader_close) *shipped = NULL;
    OWNED(SpoolReader, reader_close) *from_start = NULL;
    if (!reader_open(shipment->path, shipment->run, &shipped, error) ||
        !skip_shipped(shipment, shipped, error))
        return false;
    if (!shipment->refill)
        return ship_from(shipment, shipped, error);
    return reader_open(shipment->path, shipment->run, &from_start, error) &&
           ship_from(shipment, from_start, error);
}

// Ships, then counts in the tables; rows that are missing there are shipped again, once.
static bool ship_and_count(Shipment *shipment, int64_t *ret_acknowledged, Error *error)
{
    int64_t counted = 0;
    Client *const *client = &shipment->telemetry->client;   // a reconnection replaces it
    if (!ship_once(shipment, error) ||
        !rows_count(*client, shipment->run, shipment->position.seq, &counted, error))
        return false;
    if (counted < shipment->position.seq && !shipment->refill) {
        shipment->refill = shipment->careful = true;
        if (!ship_once(shipment, error) ||
            !rows_count(*client, shipment->run, shipment->position.seq, &counted, error))
            return false;
    }
    if (counted != shipment->position.seq)
        return FAIL(error, ERROR_INCONSISTENT, 0,
                    "the database says it has %lld rows of run '%s', its tables hold %lld",
                    (long long)shipment->position.seq, shipment->run, (long long)counted);
    *ret_acknowledged = counted;
    return true;
}

// Rows beyond the position are there only after a restore; then the dearer way is taken, once.
static bool meets_rows(Shipment *shipment)
{
    if (shipment->careful || strcmp(client_state(shipment->telemetry->client), "23505") != 0)
        return false;
    shipment->careful = true;
    return true;
}

static bool ship_until_done(Shipment *shipment, int64_t *ret_acknowledged, Error *error)
{
    int64_t give_up_ns = clock_monotonic_ns(clock_real()) + shipment->telemetry->timeout_ns;
    for (int attempt = 0; !ship_and_count(shipment, ret_acknowledged, error); attempt++) {
        const Client *client = shipment->telemetry->client;
        int64_t now_ns = clock_monotonic_ns(clock_real());
        if (shipment->moved) {
            attempt = 0;
            give_up_ns = now_ns + shipment->telemetry->timeout_ns;
        }
        shipment->moved = false;
        bool again = client_is_lost(client) || client_may_retry(client) || meets_rows(shipment);
        if (attempt + 1 >= TELEMETRY_TRIES || now_ns > give_up_ns || !again ||
            error->kind == ERROR_INCONSISTENT || error->kind == ERROR_CONFLICT)
            return false;
        error_clear(error);   // ignoring: the position is read again, whether or not that COMMIT was done
        telemetry_back_off(attempt);
    }
    return true;
}

static bool ship(Telemetry *telemetry, const char *home, const char *run, ShipResult *ret_result,
                 int64_t *ret_stored, Error *error)
{
    Shipment shipment = {.telemetry = telemetry, .run = run};
    int64_t acknowledged = 0;
    if (telemetry->epoch == 0)
        BUG("telemetry is shipped before the home is registered");
    text_init(&shipment.rest, SPOOL_PAYLOAD_MAXIMUM);
    for (unsigned i = 0; i < TELEMETRY_KIND_COUNT; i++)
        text_init(&shipment.lines[i], BATCH_BYTES + 4 * (size_t)SPOOL_PAYLOAD_MAXIMUM);
    bool good = spool_path(home, run, shipment.path, error) && look(&shipment, error) &&
                ship_until_done(&shipment, &acknowledged, error);
    for (unsigned i = 0; i < TELEMETRY_KIND_COUNT; i++)
        text_done(&shipment.lines[i]);
    text_done(&shipment.rest);
    if (!good)
        return error_prefix(error, "telemetry of run '%.40s'", run);
    *ret_result = (ShipResult){.rows = shipment.total,
                               .acknowledged = acknowledged,
                               .torn_bytes = shipment.torn_bytes,
                               .complete = acknowledged == shipment.total && shipment.cut_bytes == 0};
    *ret_stored = shipment.stored;
    return true;
}

bool telemetry_ship(Telemetry *telemetry, const char *home, const char *run, ShipResult *ret_result,
                    Error *error)
{
    int64_t stored;
    return ship(telemetry, home, run, ret_result, &stored, error);
}

// A spool that ends where its position does needs no second look.
static bool is_shipped(Telemetry *telemetry, const char *path, const char *run, bool *ret_shipped,
                       Error *error)
{
    ShipPosition position;
    uint64_t bytes;
    if ((client_is_lost(telemetry->client) && !telemetry_reconnect(telemetry, error)) ||
        !file_size(path, &bytes, error) || !rows_position(telemetry->client, run, false, &position, error))
        return false;
    *ret_shipped = bytes <= SPOOL_HEADER_BYTES || (position.any && (uint64_t)position.bytes == bytes);
    return true;
}

static bool ship_named(Telemetry *telemetry, const char *home, const char *name, int64_t *rows, Error *error)
{
    char run[SPOOL_RUN_LENGTH + 1], path[FILE_PATH_SIZE];
    bool shipped = false;
    ShipResult result;
    int64_t stored = 0;
    if (!text_ends_with(name, ".spool") || strlen(name) != SPOOL_RUN_LENGTH + strlen(".spool"))
        return true;
    memcpy(run, name, SPOOL_RUN_LENGTH);
    run[SPOOL_RUN_LENGTH] = '\0';
    if (!spool_run_is_valid(run))
        return true;
    if (!spool_path(home, run, path, error) || !is_shipped(telemetry, path, run, &shipped, error))
        return false;
    if (!shipped && !ship(telemetry, home, run, &result, &stored, error))
        return false;
    *rows += stored;
    return true;
}

bool telemetry_ship_all(Telemetry *telemetry, const char *home, int64_t *ret_rows, Error *error)
{
    char directory[FILE_PATH_SIZE];
    FileList list = {NULL, 0};
    int64_t rows = 0;
    if (!file_join(directory, home, "spool", error))
        return false;
    if (file_is_directory(directory) && !file_list(directory, &list, error))
        return false;
    bool good = true;
    for (size_t i = 0; i < list.count && !client_is_lost(telemetry->client); i++) {
        Error failed =
            ERROR_INIT;   // one odd spool does not keep the others; the first failure is the answer
        if (ship_named(telemetry, home, list.names[i], &rows, &failed))
            continue;
        if (good)
            *error = failed;
        good = false;
    }
    file_list_done(&list);
    if (good)
        *ret_rows = rows;
    return good;
}
