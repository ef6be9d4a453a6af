// connect.c - reaching a server: parameters, waiting while it starts, and the limits of a session.
//
// The URL is never repeated in a message, since libpq quotes pieces of a malformed one; a password comes from
// a passfile, which only libpq reads.
#include "client_internal.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

// The least time a statement gets: a batch of COPY on a slow disk.
#define CLIENT_STATEMENT_NS INT64_C(60000000000)
#define CLIENT_RETRY_NS     INT64_C(100000000)
enum { CLIENT_CHECK_INTERVAL_SINCE = 140000 };

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
    return ping == PQPING_OK       ? CLIENT_PING_READY
           : ping == PQPING_REJECT ? CLIENT_PING_BUSY
                                   : CLIENT_PING_NONE;
}

static bool connect_once(Client *client, const Parameters *parameters, int64_t deadline_ns, Error *error)
{
    client->connection = PQconnectStartParams(parameters->keys, parameters->values, 1);
    if (client->connection == NULL)
        return FAIL(error, ERROR_MEMORY, 0, "out of memory for a database connection");
    PostgresPollingStatusType status = PGRES_POLLING_WRITING;
    while (PQstatus(client->connection) != CONNECTION_BAD && status != PGRES_POLLING_OK &&
           status != PGRES_POLLING_FAILED) {
        if (!client_wait_socket(client, status == PGRES_POLLING_READING ? POLLIN : POLLOUT, deadline_ns,
                                "connecting", error))
            return false;
        status = PQconnectPoll(client->connection);
    }
    if (PQstatus(client->connection) == CONNECTION_OK)
        return true;
    char message[384];
    client_clean_message(PQerrorMessage(client->connection), message, sizeof(message));
    client_drop_connection(client);
    return FAIL(error, ERROR_UNAVAILABLE, 0, "could not connect to the database: %s", message);
}

static bool connect_until(Client *client, const ClientTarget *target, Error *error)
{
    Parameters parameters = {.count = 0};
    fill_parameters(target, &parameters);
    int64_t deadline_ns = client_deadline_after(target->timeout_ns);
    while (!connect_once(client, &parameters, deadline_ns, error)) {
        bool time_left = clock_monotonic_ns(clock_real()) + CLIENT_RETRY_NS < deadline_ns;
        if (!time_left || PQpingParams(parameters.keys, parameters.values, 1) != PQPING_REJECT)
            return false;
        error_clear(error);   // ignoring: the server is there and is starting up or recovering
        clock_sleep_ns(clock_real(), CLIENT_RETRY_NS);
    }
    return true;
}

// Limits of the session. client_connection_check_interval makes the backend of a killed client give up within
// a second instead of committing later.
static bool set_up_session(Client *client, int64_t timeout_ns, Error *error)
{
    char statement[32], lock[32];
    const char *values[] = {statement, lock};
    int64_t lock_ns = timeout_ns < CLIENT_STATEMENT_NS ? timeout_ns : CLIENT_STATEMENT_NS;
    client->statement_ns = timeout_ns > CLIENT_STATEMENT_NS ? timeout_ns : CLIENT_STATEMENT_NS;
    if (!text_print(statement, sizeof(statement), "%lldms", (long long)(client->statement_ns / 1000000)) ||
        !text_print(lock, sizeof(lock), "%lldms", (long long)(lock_ns / 1000000)))
        return FAIL(error, ERROR_INTERNAL, 0, "time-out of %lld ns is too long", (long long)timeout_ns);
    const char *common =
        "SELECT set_config('search_path', '', false), set_config('statement_timeout', $1, false), "
        "set_config('lock_timeout', $2, false), set_config('synchronous_commit', 'on', false), "
        "set_config('idle_in_transaction_session_timeout', '60s', false), "
        "set_config('timezone', 'UTC', false), set_config('datestyle', 'ISO', false), "
        "set_config('extra_float_digits', '1', false), set_config('client_min_messages', 'warning', false)";
    if (!client_query(client, common, values, 2, NULL, error))
        return false;
    if (PQserverVersion(client->connection) < CLIENT_CHECK_INTERVAL_SINCE)
        return true;
    return client_query(client, "SELECT set_config('client_connection_check_interval', '1s', false)", NULL, 0,
                        NULL, error);
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
        return client_fail_lost(client, "preparing the connection", error);
    const char *host = PQhost(client->connection), *database = PQdb(client->connection),
               *user = PQuser(client->connection);
    if (!text_print(client->where, sizeof(client->where), "host=%s port=%s dbname=%s user=%s",
                    host == NULL ? "" : host, PQport(client->connection), database, user))
        return FAIL(error, ERROR_CONFIG, 0,
                    "the connection's host, database and user are longer than %zu bytes",
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
