// client_internal.h - what client.c and connect.c share; the only place that includes libpq.
#ifndef FEDGATE_TELEMETRY_CLIENT_INTERNAL_H
#define FEDGATE_TELEMETRY_CLIENT_INTERNAL_H

#include "telemetry_internal.h"

#include <libpq-fe.h>

struct Client {
    PGconn *connection;   // NULL once lost
    int64_t statement_ns;
    char state[6];
    char where[512];
};

int64_t client_deadline_after(int64_t duration_ns);
// Waits for the socket; false with an Error, and the connection closed, when the deadline came first.
WARN_UNUSED bool client_wait_socket(Client *client, short events, int64_t deadline_ns, const char *doing,
                                    Error *error);
void client_drop_connection(Client *client);
bool client_fail_lost(Client *client, const char *doing, Error *error);   // closes it too; false
void client_clean_message(const char *message, char *to, size_t size);   // libpq's text on one line

#endif
