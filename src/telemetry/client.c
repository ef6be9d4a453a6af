// client.c - the only libpq: connect, one statement, a script, one COPY; every wait ends.
//
// The connection is non-blocking and each wait polls with a deadline of our own, since statement_timeout does not help
// against a server that is stopped. After a time-out the connection is closed and client_is_lost() says so. Waits use
// the real clock also when the night's is simulated: the server lives in real time. Passwords come from a passfile, which only libpq reads.
#include "telemetry_internal.h"

#include <errno.h>
#include <libpq-fe.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define CLIENT_STATEMENT_NS INT64_C(60000000000)   // least time a statement gets: a batch of COPY on a slow disk
#define CLIENT_GRACE_NS INT64_C(5000000000)        // the server's own time-out comes first
#define CLIENT_RETRY_NS INT64_C(100000000)
enum { CLIENT_COPY_PIECE = 1 << 16, CLIENT_CHECK_INTERVAL_SINCE = 140000 };

struct Client {
    PGconn *connection;   // NULL once lost
    int64_t statement_ns;
    char state[6];
    char where[512];
};

struct ClientResult {
    PGresult *result;
};

// SQLSTATE classes and what they mean for a caller; the first that matches wins.
static const struct { const char *prefix; ErrorKind kind; } state_kinds[] = {
    {"FG001", ERROR_INCONSISTENT},   // raised by our own functions (migrations/)
    {"22", ERROR_DATA},              // a value that does not fit its column
    {"23", ERROR_DATA},              // a constraint
    {"28", ERROR_DENIED},            // peer map or password
    {"3D", ERROR_CONFIG},            // no such database
    {"42501", ERROR_DENIED},
    {"42", ERROR_CONFIG},            // no such table or column: the schema is not ours
    {"0A", ERROR_CONFIG},
};

static ErrorKind kind_of_state(const char *state)
{
    for (size_t i = 0; i < sizeof(state_kinds) / sizeof(state_kinds[0]); i++) {
        if (strncmp(state, state_kinds[i].prefix, strlen(state_kinds[i].prefix)) == 0)
            return state_kinds[i].kind;
    }
    return ERROR_UNAVAILABLE;   // connection, resources, time-outs, shutdown, rolled back by the server
}

// libpq's text on one line, cut at the first line that only repeats the statement.
static void clean_message(const char *message, char *to, size_t size)
{
    size_t at = 0;
    for (const char *from = message == NULL ? "" : message; *from != '\0' && at + 1 < size; from++) {
        if (*from == '\n' && (text_starts_with(from + 1, "LINE ") || text_starts_with(from + 1, "CONTEXT:  SQL")))
            break;
        to[at++] = (unsigned char)*from < ' ' ? ' ' : *from;
    }
    while (at > 0 && to[at - 1] == ' ')
        at--;
    to[at] = '\0';
}

static void drop_connection(Client *client)
{
    PQfinish(client->connection);
    client->connection = NULL;
}

static bool fail_lost(Client *client, const char *doing, Error *error)
{
    char message[256] = "the connection was closed before";
    if (client->connection != NULL)
        clean_message(PQerrorMessage(client->connection), message, sizeof(message));
    drop_connection(client);
    return FAIL(error, ERROR_UNAVAILABLE, 0, "lost the database while %s: %s", doing, message);
}

static int64_t deadline_after(int64_t duration_ns)
{
    return clock_monotonic_ns(clock_real()) + duration_ns;
}

// Waits for the socket; false with an Error when the deadline came first.
static bool wait_socket(Client *client, short events, int64_t deadline_ns, const char *doing, Error *error)
{
    for (;;) {
        int64_t left_ns = deadline_ns - clock_monotonic_ns(clock_real());
        struct pollfd entry = {.fd = PQsocket(client->connection), .events = events};
        int ready = left_ns <= 0 ? 0 : poll(&entry, 1, (int)(left_ns / 1000000) + 1);
        if (ready > 0)
            return true;
        if (ready < 0 && errno == EINTR)
            continue;
        drop_connection(client);
        return FAIL(error, ERROR_UNAVAILABLE, 0, "the database did not answer in time while %s", doing);
    }
}

// -- connecting

typedef struct Parameters {
    const char *keys[24], *values[24];
    int count;
} Parameters;

static void add_parameter(Parameters *parameters, const char *key, const char *value)
{
    parameters->keys[parameters->count] = key;
    parameters->values[parameters->count] = value;
    parameters->count++;
    parameters->keys[parameters->count] = NULL;
}

// Later entries win over what the URL says only where the gate depends on them.
static void fill_parameters(const ClientTarget *target, Parameters *parameters)
{
    add_parameter(parameters, "connect_timeout", "10");
    add_parameter(parameters, "keepalives_idle", "30");
    add_parameter(parameters, "keepalives_interval", "10");
    add_parameter(parameters, "keepalives_count", "3");
    add_parameter(parameters, "tcp_user_timeout", "30000");
    add_parameter(parameters, "fallback_application_name", target->application);
    if (target->url[0] != '\0') {
        add_parameter(parameters, "dbname", target->url);
    } else {
        add_parameter(parameters, "host", target->socket_directory);
        add_parameter(parameters, "port", "5432");
        add_parameter(parameters, "dbname", target->database);
        add_parameter(parameters, "user", target->user);
    }
    add_parameter(parameters, "client_encoding", "UTF8");
    add_parameter(parameters, "target_session_attrs", "read-write");
}

// libpq repeats pieces of a malformed connection string in its message, so that message is never shown.
static bool check_url(const char *url, Error *error)
{
    if (url[0] == '\0')
        return true;
    PQconninfoOption *options = PQconninfoParse(url, NULL);
    if (options != NULL) {
        PQconninfoFree(options);
        return true;
    }
    FAIL(error, ERROR_CONFIG, 0, "option 'database.url' is not a libpq connection string");
    return error_hint(error, "Write it as host=... dbname=... user=... or postgresql://user@host/database.");
}

ClientPing client_ping(const char *socket_directory)
{
    const char *keys[] = {"host", "port", "dbname", "user", "connect_timeout", NULL};
    const char *values[] = {socket_directory, "5432", "fedgate", "fedgate", "2", NULL};
    PGPing ping = PQpingParams(keys, values, 0);
    return ping == PQPING_OK ? CLIENT_PING_READY : ping == PQPING_REJECT ? CLIENT_PING_BUSY : CLIENT_PING_NONE;
}

static bool connect_once(Client *client, const Parameters *parameters, int64_t deadline_ns, Error *error)
{
    client->connection = PQconnectStartParams(parameters->keys, parameters->values, 1);
    if (client->connection == NULL)
        return FAIL(error, ERROR_MEMORY, 0, "out of memory for a database connection");
    PostgresPollingStatusType status = PGRES_POLLING_WRITING;
    while (PQstatus(client->connection) != CONNECTION_BAD && status != PGRES_POLLING_OK && status != PGRES_POLLING_FAILED) {
        if (!wait_socket(client, status == PGRES_POLLING_READING ? POLLIN : POLLOUT, deadline_ns, "connecting", error))
            return false;
        status = PQconnectPoll(client->connection);
    }
    if (PQstatus(client->connection) == CONNECTION_OK)
        return true;
    char message[384];
    clean_message(PQerrorMessage(client->connection), message, sizeof(message));
    drop_connection(client);
    return FAIL(error, ERROR_UNAVAILABLE, 0, "could not connect to the database: %s", message);
}

static bool connect_until(Client *client, const ClientTarget *target, Error *error)
{
    Parameters parameters = {.count = 0};
    fill_parameters(target, &parameters);
    int64_t deadline_ns = deadline_after(target->timeout_ns);
    while (!connect_once(client, &parameters, deadline_ns, error)) {
        bool time_left = clock_monotonic_ns(clock_real()) + CLIENT_RETRY_NS < deadline_ns;
        if (!time_left || PQpingParams(parameters.keys, parameters.values, 1) != PQPING_REJECT)
            return false;
        error_clear(error);   // ignoring: the server is there and is starting up or recovering
        clock_sleep_ns(clock_real(), CLIENT_RETRY_NS);
    }
    return true;
}

// Limits of the session. client_connection_check_interval makes the backend of a killed client give up within a second
// instead of committing later.
static bool set_up_session(Client *client, int64_t timeout_ns, Error *error)
{
    char statement[32], lock[32];
    const char *values[] = {statement, lock};
    int64_t lock_ns = timeout_ns < CLIENT_STATEMENT_NS ? timeout_ns : CLIENT_STATEMENT_NS;
    client->statement_ns = timeout_ns > CLIENT_STATEMENT_NS ? timeout_ns : CLIENT_STATEMENT_NS;
    if (!text_print(statement, sizeof(statement), "%lldms", (long long)(client->statement_ns / 1000000)) ||
        !text_print(lock, sizeof(lock), "%lldms", (long long)(lock_ns / 1000000)))
        return FAIL(error, ERROR_INTERNAL, 0, "time-out of %lld ns is too long", (long long)timeout_ns);
    const char *common = "SELECT set_config('search_path', '', false), set_config('statement_timeout', $1, false), "
                         "set_config('lock_timeout', $2, false), set_config('synchronous_commit', 'on', false), "
                         "set_config('idle_in_transaction_session_timeout', '60s', false), "
                         "set_config('timezone', 'UTC', false), set_config('datestyle', 'ISO', false), "
                         "set_config('extra_float_digits', '1', false), set_config('client_min_messages', 'warning', false)";
    if (!client_query(client, common, values, 2, NULL, error))
        return false;
    if (PQserverVersion(client->connection) < CLIENT_CHECK_INTERVAL_SINCE)
        return true;
    return client_query(client, "SELECT set_config('client_connection_check_interval', '1s', false)", NULL, 0, NULL, error);
}

static void ignore_notice(void *context, const char *message)
{
    (void)context;
    (void)message;   // libpq would print it on stderr
}

static bool open_session(Client *client, const ClientTarget *target, Error *error)
{
    if (!check_url(target->url, error) || !connect_until(client, target, error))
        return false;
    (void)PQsetNoticeProcessor(client->connection, ignore_notice, NULL);
    if (PQsetnonblocking(client->connection, 1) != 0)
        return fail_lost(client, "preparing the connection", error);
    const char *host = PQhost(client->connection), *database = PQdb(client->connection), *user = PQuser(client->connection);
    if (!text_print(client->where, sizeof(client->where), "host=%s port=%s dbname=%s user=%s", host == NULL ? "" : host,
                    PQport(client->connection), database, user))
        return FAIL(error, ERROR_CONFIG, 0, "the connection's host, database and user are longer than %zu bytes",
                    sizeof(client->where));
    return set_up_session(client, target->timeout_ns, error);
}

Client *client_connect(const ClientTarget *target, Error *error)
{
    Client *client = calloc(1, sizeof(*client));
    if (client == NULL) {
        FAIL(error, ERROR_MEMORY, 0, "out of memory for a database connection");
        return NULL;
    }
    if (open_session(client, target, error))
        return client;
    client_close(client);
    return NULL;
}

void client_close(Client *client)
{
    if (client == NULL)
        return;
    PQfinish(client->connection);
    free(client);
}

bool client_is_lost(const Client *client)
{
    return client->connection == NULL || PQstatus(client->connection) == CONNECTION_BAD;
}

bool client_may_retry(const Client *client)
{
    return strcmp(client->state, "40001") == 0 || strcmp(client->state, "40P01") == 0;
}

const char *client_state(const Client *client)
{
    return client->state;
}

const char *client_where(const Client *client)
{
    return client->where;
}

bool client_in_transaction(const Client *client)
{
    return client->connection != NULL && PQtransactionStatus(client->connection) == PQTRANS_INTRANS;
}

// -- statements

static bool flush(Client *client, int64_t deadline_ns, const char *doing, Error *error)
{
    int left;
    while ((left = PQflush(client->connection)) == 1) {
        if (!wait_socket(client, POLLIN | POLLOUT, deadline_ns, doing, error))
            return false;
        if (PQconsumeInput(client->connection) == 0)
            return fail_lost(client, doing, error);
    }
    return left == 0 || fail_lost(client, doing, error);
}

static bool next_result(Client *client, int64_t deadline_ns, const char *doing, PGresult **ret_result, Error *error)
{
    while (PQisBusy(client->connection) == 1) {
        if (!wait_socket(client, POLLIN, deadline_ns, doing, error))
            return false;
        if (PQconsumeInput(client->connection) == 0)
            return fail_lost(client, doing, error);
    }
    *ret_result = PQgetResult(client->connection);
    return true;
}

static bool fail_result(Client *client, const PGresult *result, Error *error)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    char message[384];
    if (!text_copy(client->state, sizeof(client->state), state == NULL ? "" : state))
        client->state[0] = '\0';
    clean_message(PQresultErrorMessage(result), message, sizeof(message));
    ErrorKind kind = kind_of_state(client->state);
    return FAIL(error, kind, 0, "the database says %s (SQLSTATE %s)", message, client->state);
}

// All results of what was sent; the last good one is kept, the first bad one is the error.
static bool collect(Client *client, int64_t deadline_ns, const char *doing, PGresult **ret_last, Error *error)
{
    PGresult *result = NULL, *last = NULL;
    bool good = true;
    for (;;) {
        if (!next_result(client, deadline_ns, doing, &result, error)) {
            PQclear(last);
            return false;
        }
        if (result == NULL)
            break;
        ExecStatusType status = PQresultStatus(result);
        if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK || status == PGRES_COPY_IN) {
            PQclear(last);
            last = result;
            if (status == PGRES_COPY_IN)
                break;   // nothing more comes until the data was sent
            continue;
        }
        if (good)
            good = fail_result(client, result, error);
        PQclear(result);
    }
    if (good && last == NULL)
        good = fail_lost(client, doing, error);
    if (!good) {
        PQclear(last);
        if (client->connection != NULL && PQstatus(client->connection) == CONNECTION_BAD)
            drop_connection(client);
        return false;
    }
    *ret_last = last;
    return true;
}

static bool begin_statement(Client *client, Error *error)
{
    client->state[0] = '\0';
    if (client->connection == NULL)
        return FAIL(error, ERROR_UNAVAILABLE, 0, "the database connection is closed");
    return true;
}

bool client_query(Client *client, const char *sql, const char *const *values, int count, ClientResult **ret_result, Error *error)
{
    if (!begin_statement(client, error))
        return false;
    int64_t deadline_ns = deadline_after(client->statement_ns + CLIENT_GRACE_NS);
    PGresult *result = NULL;
    if (PQsendQueryParams(client->connection, sql, count, NULL, values, NULL, NULL, 0) == 0)
        return fail_lost(client, "sending a statement", error);
    if (!flush(client, deadline_ns, "sending a statement", error) ||
        !collect(client, deadline_ns, "waiting for a statement", &result, error))
        return false;
    ClientResult *wrapped = ret_result == NULL ? NULL : malloc(sizeof(*wrapped));
    if (wrapped == NULL) {
        PQclear(result);
        return ret_result == NULL || FAIL(error, ERROR_MEMORY, 0, "out of memory for a result");
    }
    wrapped->result = result;
    *ret_result = wrapped;
    return true;
}

bool client_script(Client *client, const char *sql, Error *error)
{
    if (!begin_statement(client, error))
        return false;
    int64_t deadline_ns = deadline_after(10 * client->statement_ns);
    PGresult *result = NULL;
    if (PQsendQuery(client->connection, sql) == 0)
        return fail_lost(client, "sending a script", error);
    if (!flush(client, deadline_ns, "sending a script", error) || !collect(client, deadline_ns, "running a script", &result, error))
        return false;
    PQclear(result);
    return true;
}

static bool put_pieces(Client *client, const char *bytes, size_t length, int64_t deadline_ns, Error *error)
{
    while (length > 0) {
        size_t piece = length < CLIENT_COPY_PIECE ? length : CLIENT_COPY_PIECE;
        int queued = PQputCopyData(client->connection, bytes, (int)piece);
        if (queued < 0)
            return fail_lost(client, "copying rows", error);
        if (!flush(client, deadline_ns, "copying rows", error))
            return false;
        if (queued > 0) {
            bytes += piece;
            length -= piece;
        }
    }
    int ended;
    while ((ended = PQputCopyEnd(client->connection, NULL)) == 0) {
        if (!flush(client, deadline_ns, "copying rows", error))
            return false;
    }
    return ended > 0 ? flush(client, deadline_ns, "copying rows", error) : fail_lost(client, "copying rows", error);
}

bool client_copy_in(Client *client, const char *sql, const char *bytes, size_t length, Error *error)
{
    if (!begin_statement(client, error))
        return false;
    int64_t deadline_ns = deadline_after(client->statement_ns + CLIENT_GRACE_NS);
    PGresult *result = NULL;
    if (PQsendQuery(client->connection, sql) == 0)
        return fail_lost(client, "starting a copy", error);
    if (!flush(client, deadline_ns, "starting a copy", error) ||
        !collect(client, deadline_ns, "starting a copy", &result, error))
        return false;
    PQclear(result);
    if (!put_pieces(client, bytes, length, deadline_ns, error) ||
        !collect(client, deadline_ns, "ending a copy", &result, error))
        return false;
    PQclear(result);
    return true;
}

// -- results

int64_t client_row_count(const ClientResult *result)
{
    return PQntuples(result->result);
}

int64_t client_changed(const ClientResult *result)
{
    int64_t changed = 0;
    return text_to_int64(PQcmdTuples(result->result), &changed) ? changed : 0;
}

const char *client_text(const ClientResult *result, int64_t row, int column)
{
    return PQgetvalue(result->result, (int)row, column);
}

int64_t client_integer(const ClientResult *result, int64_t row, int column)
{
    int64_t value = 0;
    return text_to_int64(client_text(result, row, column), &value) ? value : 0;
}

const char *client_tag(const ClientResult *result)
{
    return PQcmdStatus(result->result);
}

void client_result_free(ClientResult *result)
{
    if (result == NULL)
        return;
    PQclear(result->result);
    free(result);
}
