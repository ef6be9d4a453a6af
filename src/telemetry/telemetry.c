// telemetry.c - the handle: where the database is, the connection, and the right to write for one model.
//
// Order: connect, migrate or check the schema, register the home, ship. The advisory lock of the model is
// held by the very connection that writes; each registration raises the epoch in the home's row, and every
// shipping transaction reads it FOR SHARE, so a transaction of a client that was thought dead is refused.
// Reconnecting takes the lock again, which proves that the old backend has ended, and goes on only when
// nobody raised the epoch meanwhile.
#include "telemetry_internal.h"

#include <fedgate/fault.h>
#include <fedgate/random.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BACK_OFF_NS INT64_C(100000000)

static Client *open_client(const Telemetry *telemetry, Error *error)
{
    ClientTarget target = {.url = telemetry->url,
                           .socket_directory = "",
                           .database = "fedgate",
                           .user = "fedgate",
                           .application = telemetry->application,
                           .timeout_ns = telemetry->timeout_ns};
    if (telemetry->cluster != NULL)
        target.socket_directory = cluster_socket_directory(telemetry->cluster);
    return client_connect(&target, error);
}

static bool open_all(Telemetry *telemetry, const Config *config, const char *home, Error *error)
{
    telemetry->process = getpid();
    telemetry->timeout_ns = (int64_t)(config_real(config, "database.timeout") * 1e9);
    telemetry->url = text_duplicate(config_text(config, "database.url"));
    if (telemetry->url == NULL)
        return FAIL(error, ERROR_MEMORY, 0, "out of memory for the database connection");
    if (!text_print(telemetry->application, sizeof(telemetry->application), "fedgate pid %d", (int)getpid()))
        return FAIL(error, ERROR_INTERNAL, 0, "application name is too long");
    if (telemetry->url[0] == '\0') {
        telemetry->cluster = cluster_start(config, home, error);
        if (telemetry->cluster == NULL)
            return false;
    }
    telemetry->client = open_client(telemetry, error);
    if (telemetry->client == NULL)
        return false;
    return text_copy(telemetry->where, sizeof(telemetry->where), client_where(telemetry->client)) ||
           FAIL(error, ERROR_INTERNAL, 0, "the database's address is too long");
}

Telemetry *telemetry_connect(const Config *config, const char *home, Clock *clock, Error *error)
{
    (void)clock;   // a server lives in real time, whatever the night's clock is
    if (fault_set("telemetry.down")) {
        FAIL(error, ERROR_UNAVAILABLE, 0,
             "could not connect to the database: planted fault 'telemetry.down'");
        return NULL;
    }
    Telemetry *telemetry = calloc(1, sizeof(*telemetry));
    if (telemetry == NULL) {
        FAIL(error, ERROR_MEMORY, 0, "out of memory for the database connection");
        return NULL;
    }
    if (open_all(telemetry, config, home, error))
        return telemetry;
    telemetry_close(telemetry);
    return NULL;
}

bool telemetry_create(const Config *config, const char *home, Clock *clock, Error *error)
{
    (void)clock;
    return config_text(config, "database.url")[0] != '\0' || cluster_create(config, home, error);
}

const char *telemetry_where(const Telemetry *telemetry)
{
    return telemetry->where;
}

void telemetry_close(Telemetry *telemetry)
{
    if (telemetry == NULL)
        return;
    if (telemetry->process ==
        getpid())   // a forked child shares the connection and must not say goodbye on it
        client_close(telemetry->client);
    cluster_close(telemetry->cluster);
    free(telemetry->columns);
    free(telemetry->url);
    free(telemetry);
}

void telemetry_back_off(int attempt)
{
    int64_t pause_ns = BACK_OFF_NS << (attempt < 6 ? attempt : 6);
    double jitter = random_unit((uint64_t)getpid(), (uint64_t)clock_monotonic_ns(clock_real()));
    clock_sleep_ns(clock_real(), pause_ns / 2 + (int64_t)(jitter * (double)pause_ns / 2));
}

// Takes the lock, then the epoch; expected 0: whatever it is now.
static bool take_over(Telemetry *telemetry, const char *model, const char *home_id, int64_t expected,
                      Error *error)
{
    char lock[80], other[65];
    bool raised = false;
    int64_t epoch = 0;
    if (!text_print(lock, sizeof(lock), "model %s", model))
        return FAIL(error, ERROR_USAGE, 0, "model name '%.80s' is too long", model);
    if (!rows_lock_wait(telemetry->client, lock, telemetry->timeout_ns, error) ||
        !rows_raise_epoch(telemetry->client, model, home_id, expected, &raised, &epoch, error))
        return false;
    if (raised) {
        telemetry->epoch = epoch;
        return true;
    }
    Error ignored = ERROR_INIT;   // ignoring: the lock goes with the connection at the latest
    if (!rows_home_of_model(telemetry->client, model, other, sizeof(other), error))
        return false;
    if (!rows_unlock(telemetry->client, lock, &ignored))
        error_clear(&ignored);
    if (strcmp(other, home_id) == 0)
        return FAIL(error, ERROR_CONFLICT, 0, "model '%s' was taken over by another process of this home",
                    model);
    FAIL(error, ERROR_INCONSISTENT, 0, "model '%s' is served by home '%s', this is home '%s'", model, other,
         home_id);
    return error_hint(
        error, "Give this home another model name or another database; two homes cannot serve one model.");
}

bool telemetry_register_home(Telemetry *telemetry, const char *model, const char *home_id, Error *error)
{
    if (telemetry->epoch > 0 &&
        (strcmp(model, telemetry->model) != 0 || strcmp(home_id, telemetry->home_id) != 0))
        return FAIL(error, ERROR_USAGE, 0, "this connection serves model '%s' already, not '%.64s'",
                    telemetry->model, model);
    if (telemetry->epoch > 0)   // and has the lock
        return true;
    if (!text_copy(telemetry->model, sizeof(telemetry->model), model) || model[0] == '\0')
        return FAIL(error, ERROR_USAGE, 0, "model name '%.80s' is empty or longer than %zu bytes", model,
                    sizeof(telemetry->model) - 1);
    if (!text_copy(telemetry->home_id, sizeof(telemetry->home_id), home_id) || home_id[0] == '\0')
        return FAIL(error, ERROR_USAGE, 0, "home id '%.80s' is empty or longer than %zu bytes", home_id,
                    sizeof(telemetry->home_id) - 1);
    if (client_is_lost(telemetry->client) && !telemetry_reconnect(telemetry, error))
        return false;
    return take_over(telemetry, model, home_id, 0, error);
}

bool telemetry_reconnect(Telemetry *telemetry, Error *error)
{
    if (telemetry->cluster != NULL && !cluster_reach(telemetry->cluster, error))
        return false;
    Client *client = open_client(telemetry, error);
    if (client == NULL)
        return false;
    client_close(telemetry->client);
    telemetry->client = client;
    telemetry->knows_columns = false;
    return telemetry->epoch == 0 ||
           take_over(telemetry, telemetry->model, telemetry->home_id, telemetry->epoch, error);
}
