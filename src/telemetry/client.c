// client.c - the only libpq, with connect.c: one statement, a script, one COPY; every wait ends.
//
// The connection is non-blocking and each wait polls with a deadline of our own, since statement_timeout does
// not help against a server that is stopped. After a time-out the connection is closed and client_is_lost()
// says so. Waits use the real clock also when the night's is simulated: the server lives in real time.
#include "client_internal.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define CLIENT_GRACE_NS INT64_C(5000000000)   // the server's own time-out comes first
enum { CLIENT_COPY_PIECE = 1 << 16 };

struct ClientResult {
    PGresult *result;
};

// SQLSTATE classes and what they mean for a caller; the first that matches wins.
static const struct {
    const char *prefix;
    ErrorKind kind;
} state_kinds[] = {
    {"FG001", ERROR_INCONSISTENT},   // raised by our own functions (migrations/)
    {"22", ERROR_DATA},   // a value that does not fit its column
    {"23", ERROR_DATA},   // a constraint
    {"28", ERROR_DENIED},   // peer map or password
    {"3D", ERROR_CONFIG},   // no such database
    {"3F", ERROR_CONFIG},   // no such schema
    {"42501", ERROR_DENIED},
    {"42", ERROR_CONFIG},   // no such table or column: the schema is not ours
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
void client_clean_message(const char *message, char *to, size_t size)
{
    size_t at = 0;
    for (const char *from = message == NULL ? "" : message; *from != '\0' && at + 1 < size; from++) {
        if (*from == '\n' &&
            (text_starts_with(from + 1, "LINE ") || text_starts_with(from + 1, "CONTEXT:  SQL")))
            break;
        to[at++] = (unsigned char)*from < ' ' ? ' ' : *from;
    }
    while (at > 0 && to[at - 1] == ' ')
        at--;
    to[at] = '\0';
}

void client_drop_connection(Client *client)
{
    PQfinish(client->connection);
    client->connection = NULL;
}

bool client_fail_lost(Client *client, const char *doing, Error *error)
{
    char message[256] = "the connection was closed before";
    if (client->connection != NULL)
        client_clean_message(PQerrorMessage(client->connection), message, sizeof(message));
    client_drop_connection(client);
    return FAIL(error, ERROR_UNAVAILABLE, 0, "lost the database while %s: %s", doing, message);
}

int64_t client_deadline_after(int64_t duration_ns)
{
    return clock_monotonic_ns(clock_real()) + duration_ns;
}

// Waits for the socket; false with an Error when the deadline came first.
bool client_wait_socket(Client *client, short events, int64_t deadline_ns, const char *doing, Error *error)
{
    for (;;) {
        int64_t left_ns = deadline_ns - clock_monotonic_ns(clock_real());
        struct pollfd entry = {.fd = PQsocket(client->connection), .events = events};
        int ready = left_ns <= 0 ? 0 : poll(&entry, 1, (int)(left_ns / 1000000) + 1);
        if (ready > 0)
            return true;
        if (ready < 0 && errno == EINTR)
            continue;
        client_drop_connection(client);
        return FAIL(error, ERROR_UNAVAILABLE, 0, "the database did not answer in time while %s", doing);
    }
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

void client_keep_state(Client *client, const char state[static 6])
{
    memcpy(client->state, state, sizeof(client->state));
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
        if (!client_wait_socket(client, POLLIN | POLLOUT, deadline_ns, doing, error))
            return false;
        if (PQconsumeInput(client->connection) == 0)
            return client_fail_lost(client, doing, error);
    }
    return left == 0 || client_fail_lost(client, doing, error);
}

static bool next_result(Client *client, int64_t deadline_ns, const char *doing, PGresult **ret_result,
                        Error *error)
{
    while (PQisBusy(client->connection) == 1) {
        if (!client_wait_socket(client, POLLIN, deadline_ns, doing, error))
            return false;
        if (PQconsumeInput(client->connection) == 0)
            return client_fail_lost(client, doing, error);
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
    client_clean_message(PQresultErrorMessage(result), message, sizeof(message));
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
        good = client_fail_lost(client, doing, error);
    if (!good) {
        PQclear(last);
        if (client->connection != NULL && PQstatus(client->connection) == CONNECTION_BAD)
            client_drop_connection(client);
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

bool client_query(Client *client, const char *sql, const char *const *values, int count,
                  ClientResult **ret_result, Error *error)
{
    if (!begin_statement(client, error))
        return false;
    int64_t deadline_ns = client_deadline_after(client->statement_ns + CLIENT_GRACE_NS);
    PGresult *result = NULL;
    if (PQsendQueryParams(client->connection, sql, count, NULL, values, NULL, NULL, 0) == 0)
        return client_fail_lost(client, "sending a statement", error);
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
    int64_t deadline_ns = client_deadline_after(10 * client->statement_ns);
    PGresult *result = NULL;
    if (PQsendQuery(client->connection, sql) == 0)
        return client_fail_lost(client, "sending a script", error);
    if (!flush(client, deadline_ns, "sending a script", error) ||
        !collect(client, deadline_ns, "running a script", &result, error))
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
            return client_fail_lost(client, "copying rows", error);
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
    return ended > 0 ? flush(client, deadline_ns, "copying rows", error)
                     : client_fail_lost(client, "copying rows", error);
}

bool client_copy_in(Client *client, const char *sql, const char *bytes, size_t length, Error *error)
{
    if (!begin_statement(client, error))
        return false;
    int64_t deadline_ns = client_deadline_after(client->statement_ns + CLIENT_GRACE_NS);
    PGresult *result = NULL;
    if (PQsendQuery(client->connection, sql) == 0)
        return client_fail_lost(client, "starting a copy", error);
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
