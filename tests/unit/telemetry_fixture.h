// telemetry_fixture.h - one private cluster for a test file, a database of its own for whoever wants one, and
// a proxy that cuts the link at COMMIT.
#ifndef FEDGATE_TESTS_TELEMETRY_FIXTURE_H
#define FEDGATE_TESTS_TELEMETRY_FIXTURE_H

#include "../../src/telemetry/telemetry_internal.h"
#include "support.h"

#include <fedgate/file.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define FIXTURE_MIGRATIONS FEDGATE_SOURCE_DIR "/migrations"
static const char fixture_version[] = "adult-0123456789abcdef";

static char *fixture_home;   // with a private cluster
static Telemetry *fixture_server;   // keeps it running between the tests

static inline Config *fixture_config(const char *url, const char *timeout)
{
    Error error = ERROR_INIT;
    SCOPED_TEXT given;
    SCOPED_TEXT wait;
    text_init(&given, 1000);
    text_init(&wait, 100);
    text_add_format(&given, "database.url=%s", url);
    text_add_format(&wait, "database.timeout=%s", timeout);
    const char *sets[] = {text_string(&given), text_string(&wait)};
    Config *config = config_load(NULL, sets, 2, NULL, &error);
    ck_assert_msg(config != NULL, "%s", error.message);
    return config;
}

// "" for the private cluster.
static inline Telemetry *fixture_connect(const char *url)
{
    Error error = ERROR_INIT;
    OWNED(Config, config_free) *config = fixture_config(url, "20s");
    Telemetry *telemetry = telemetry_connect(config, fixture_home, clock_real(), &error);
    ck_assert_msg(telemetry != NULL, "%s", error.message);
    return telemetry;
}

static inline void fixture_begin(void)
{
    Error error = ERROR_INIT;
    int applied = 0;
    fixture_home = support_folder_new();
    OWNED(Config, config_free) *config = fixture_config("", "20s");
    ASSERT_OK(telemetry_create(config, fixture_home, clock_real(), &error), &error);
    fixture_server = fixture_connect("");
    ASSERT_OK(telemetry_migrate(fixture_server, FIXTURE_MIGRATIONS, &applied, &error), &error);
    ck_assert_int_ge(applied, 3);
}

static inline void fixture_end(void)
{
    telemetry_close(fixture_server);
    support_folder_remove(fixture_home);
}

// Prints why and returns false when there are no server programs to test with.
static inline bool fixture_possible(const char *suite)
{
    Error error = ERROR_INIT;
    ServerPrograms programs;
    if (programs_find(0, &programs, &error))
        return true;
    printf("%s skipped: %s\n", suite, error.message);
    return false;
}

static inline const char *fixture_socket(void)
{
    return cluster_socket_directory(fixture_server->cluster);
}

static inline Client *fixture_client(const char *database, const char *user)
{
    Error error = ERROR_INIT;
    ClientTarget target = {.url = "",
                           .socket_directory = fixture_socket(),
                           .database = database,
                           .user = user,
                           .application = "fedgate test",
                           .timeout_ns = INT64_C(5000000000)};
    Client *client = client_connect(&target, &error);
    ck_assert_msg(client != NULL, "%s", error.message);
    return client;
}

// An empty database; ret_url[200] leads to it.
static inline void fixture_database(const char *name, char *ret_url)
{
    Error error = ERROR_INIT;
    char sql[200];
    OWNED(Client, client_close) *client = fixture_client("postgres", "postgres");
    ck_assert(text_print(sql, sizeof(sql), "CREATE DATABASE %s OWNER fedgate", name));
    ASSERT_OK(client_query(client, sql, NULL, 0, NULL, &error), &error);
    ck_assert(text_print(ret_url, 200, "host=%s port=5432 user=fedgate dbname=%s", fixture_socket(), name));
}

// First column of the first row of a query.
static inline const char *fixture_ask(Client *client, const char *sql)
{
    static char answer[4][256];
    static unsigned next;
    Error error = ERROR_INIT;
    OWNED(ClientResult, client_result_free) *result = NULL;
    ASSERT_OK(client_query(client, sql, NULL, 0, &result, &error), &error);
    char *to = answer[next++ % 4];
    ck_assert(text_print(to, sizeof(answer[0]), "%s",
                         client_row_count(result) > 0 ? client_text(result, 0, 0) : "(none)"));
    return to;
}

static inline void fixture_spool(const char *run, int64_t first, int64_t rows)
{
    Error error = ERROR_INIT;
    OWNED(Spool, spool_close) *spool = spool_open(fixture_home, run, fixture_version, 10000000, &error);
    ck_assert_msg(spool != NULL, "%s", error.message);
    for (int64_t i = first; i < first + rows; i++) {
        OWNED(Json, json_free) *row = json_make_object();
        json_put_integer(row, "first_step", i);
        json_put_integer(row, "steps", 1);
        json_put_number(row, "loss", 1.0 / (double)(i + 1));
        ASSERT_OK(spool_append(spool, TELEMETRY_STEP_WINDOW, row, &error), &error);
    }
    ASSERT_OK(spool_sync(spool, &error), &error);
}

static inline void fixture_run_id(char *ret_run)
{
    clock_uuid7(clock_real(), ret_run);
}

static inline pid_t fixture_server_id(const char *home)
{
    SCOPED_TEXT text;
    int64_t id = 0;
    text_init(&text, 10000);
    support_read(support_path(home, "pg/data/postmaster.pid"), &text);
    text.data[strcspn(text_string(&text), "\n")] = '\0';
    ck_assert(text_to_int64(text_string(&text), &id));
    ck_assert_int_gt(id, 1);
    return (pid_t)id;
}

// -- a proxy on a socket of its own that forwards to the server and cuts one connection at its Nth COMMIT

typedef enum ProxyCut {
    PROXY_BEFORE,
    PROXY_AFTER
} ProxyCut;   // before the server sees it, after it answered
typedef struct Proxy {
    char folder[200];
    pid_t process;
    volatile int *commits;   // shared: COMMITs seen
    ProxyCut cut;
    int at;
} Proxy;

static inline int proxy_socket(const char *folder, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (!text_print(address->sun_path, sizeof(address->sun_path), "%s/.s.PGSQL.5432", folder))
        _exit(9);
    return socket(AF_UNIX, SOCK_STREAM, 0);
}

static inline void proxy_forward(const Proxy *proxy, int client, const char *server_folder)
{
    static const char commit[] = "\0COMMIT";   // in a Parse message, after the statement's empty name
    struct sockaddr_un address;
    int server = proxy_socket(server_folder, &address);
    bool ending = false;
    char bytes[65536];
    if (connect(server, (struct sockaddr *)&address, sizeof(address)) != 0)
        return;
    for (;;) {
        struct pollfd entries[2] = {{client, POLLIN, 0}, {server, POLLIN, 0}};
        if (poll(entries, 2, 10000) <= 0)
            return;
        for (int i = 0; i < 2; i++) {
            ssize_t got = entries[i].revents == 0 ? -1 : read(entries[i].fd, bytes, sizeof(bytes));
            if (entries[i].revents == 0)
                continue;
            if (got <= 0 || (i == 1 && ending))
                return;   // the server has answered the COMMIT: the client never hears of it
            if (i == 0 && memmem(bytes, (size_t)got, commit, sizeof(commit)) != NULL &&
                ++*proxy->commits == proxy->at) {
                if (proxy->cut == PROXY_BEFORE)
                    return;
                ending = true;
            }
            if (write(entries[1 - i].fd, bytes, (size_t)got) != got)
                return;
        }
    }
}

static inline void proxy_serve(const Proxy *proxy, const char *server_folder, int listener)
{
    signal(SIGCHLD, SIG_IGN);
    for (;;) {
        int client = accept(listener, NULL, NULL);
        if (client >= 0 && fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            close(listener);
            proxy_forward(proxy, client, server_folder);
            _exit(0);
        }
        close(client);
    }
}

static inline void proxy_begin(Proxy *proxy, const char *folder, ProxyCut cut, int at)
{
    struct sockaddr_un address;
    *proxy = (Proxy){.cut = cut, .at = at};
    ck_assert(text_copy(proxy->folder, sizeof(proxy->folder), folder));
    proxy->commits = mmap(NULL, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int listener = proxy_socket(folder, &address);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
    ck_assert_int_eq(listen(listener, 8), 0);
    proxy->process = fork();
    if (proxy->process == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        proxy_serve(proxy, fixture_socket(), listener);
    }
    close(listener);
}

static inline void proxy_end(Proxy *proxy)
{
    kill(proxy->process, SIGKILL);
    waitpid(proxy->process, NULL, 0);
    munmap((void *)proxy->commits, sizeof(int));
}

#endif
