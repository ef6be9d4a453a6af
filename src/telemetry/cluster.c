// cluster.c - the private PostgreSQL server of a home: made once, started when needed, stopped by the last
// fedgate out.
//
// <home>/pg/: data/ (initdb builds it as data.new and one rename makes it appear), .s/ (socket), lock (start
// and stop), users (shared lock of every process that uses the server), started (which server fedgate
// started), server.log. A running server of the same data directory is adopted. Only a server that fedgate
// started is stopped, by the last process that used it, so a handle that started it may close while another
// still works. After kill -9 of the server a start is refused for about two seconds: it is tried again until
// database.timeout; the pid file is never deleted. Paths are given to PostgreSQL's programs through PGDATA
// and the working directory, since pg_ctl uses a shell.
#include "cluster_internal.h"

#include <fedgate/process.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define INITDB_NS INT64_C(300000000000)
#define STOP_NS   INT64_C(30000000000)
#define RETRY_NS  INT64_C(250000000)
enum { OUTPUT_MAXIMUM = 64 * 1024 };

// -- running the server's programs

static bool run_program(const Cluster *cluster, const char *const *arguments, const char *data,
                        int64_t timeout_ns, Text *output, ProcessResult *ret_result, Error *error)
{
    char program[FILE_PATH_SIZE], setting[FILE_PATH_SIZE + 8];
    const char *argv[16] = {program};
    if (!file_join(program, cluster->programs.directory, arguments[0], error))
        return false;
    for (size_t i = 1; arguments[i] != NULL; i++)
        argv[i] = arguments[i];
    if (!text_print(setting, sizeof(setting), "PGDATA=%s", data))
        return FAIL(error, ERROR_USAGE, 0, "path of data directory '%s' is too long", data);
    const char *environment[] = {setting, "PATH=/usr/bin:/bin", "LC_ALL=C", "TZ=UTC", NULL};
    ProcessSpec spec = {.argv = argv,
                        .environment = environment,
                        .directory = cluster->pg,
                        .user = cluster->other_account ? cluster->account : NULL,
                        .timeout_ns = timeout_ns,
                        .output = output,
                        .errors = output};
    return process_run(&spec, ret_result, error);
}

// The last line a program printed that says something; it names the cause.
static const char *last_line(Text *output)
{
    char *data = output->data;
    if (data == NULL)
        return "";
    for (size_t i = output->length; i > 0 && (data[i - 1] == '\n' || data[i - 1] == ' '); i--)
        data[i - 1] = '\0';
    const char *line = strrchr(data, '\n');
    return line == NULL ? data : line + 1;
}

static bool read_version(const Cluster *cluster, int *ret_major, Error *error)
{
    char path[FILE_PATH_SIZE];
    SCOPED_TEXT text;
    text_init(&text, 64);
    if (!file_join(path, cluster->data, "PG_VERSION", error) || !file_read(path, &text, error))
        return error_prefix(error, "private cluster '%s'", cluster->pg);
    int64_t major;
    text.data[strcspn(text_string(&text), "\n.")] = '\0';
    if (!text_to_int64(text_string(&text), &major) || major < 10 || major > 999)
        return FAIL(error, ERROR_DATA, 0, "file '%s' holds no PostgreSQL version", path);
    *ret_major = (int)major;
    return true;
}

static bool find_programs(Cluster *cluster, Error *error)
{
    int major = 0;
    Error other = ERROR_INIT;
    ServerPrograms newest;
    if (!read_version(cluster, &major, error))
        return false;
    if (programs_find(major, &cluster->programs, error))
        return true;
    if (!programs_find(0, &newest, &other))
        return false;
    FAIL(error, ERROR_CONFIG, 0,
         "private cluster '%s' is of PostgreSQL %d, the server found in '%s' is of %d", cluster->pg, major,
         newest.directory, newest.major);
    return error_hint(
        error, "Install PostgreSQL %d again, or bring the data over with pg_upgrade; nothing was touched.",
        major);
}

// -- the running server

static bool start_once(Cluster *cluster, int64_t left_ns, Text *output, bool *ret_started, Error *error)
{
    char seconds[16];
    int64_t whole = left_ns / 1000000000 + 1;
    if (!text_print(seconds, sizeof(seconds), "%lld", (long long)whole))
        return FAIL(error, ERROR_INTERNAL, 0, "waiting time of %lld s is too long", (long long)whole);
    const char *arguments[] = {"pg_ctl", "start", "-s", "-w", "-t", seconds, "-l", "server.log", NULL};
    ProcessResult result;
    if (!folder_make(cluster, cluster->socket, error) || !server_write_settings(cluster, error) ||
        !run_program(cluster, arguments, cluster->data, left_ns + INT64_C(5000000000), output, &result,
                     error))
        return false;
    *ret_started = result.exit_code == 0;
    return !*ret_started || server_note_started(cluster, error);
}

// Under the start lock: adopt a server that answers, wait for one that is starting, else start our own.
static bool reach_server(Cluster *cluster, Error *error)
{
    int64_t deadline_ns = clock_monotonic_ns(clock_real()) + cluster->timeout_ns;
    bool started = false;
    SCOPED_TEXT output;
    text_init(&output, OUTPUT_MAXIMUM);
    for (;;) {
        PidFile file;
        const char *socket =
            server_read_pid_file(cluster, &file) && file.line[4][0] == '/' ? file.line[4] : cluster->socket;
        ClientPing ping = client_ping(socket);
        if (ping == CLIENT_PING_READY)
            return text_copy(cluster->socket, sizeof(cluster->socket), socket) ||
                   FAIL(error, ERROR_DATA, 0, "socket folder of private cluster '%s' is too long",
                        cluster->pg);
        int64_t left_ns = deadline_ns - clock_monotonic_ns(clock_real());
        text_clear(&output);
        if (ping == CLIENT_PING_NONE && left_ns > 0 &&
            !start_once(cluster, left_ns, &output, &started, error))
            return false;
        cluster->started = cluster->started || started;
        if (started)
            return true;
        if (clock_monotonic_ns(clock_real()) + RETRY_NS > deadline_ns)
            break;
        clock_sleep_ns(clock_real(), RETRY_NS);
    }
    FAIL(error, ERROR_UNAVAILABLE, 0,
         "could not start the private PostgreSQL server of '%s' within %.0f s: %.200s", cluster->pg,
         (double)cluster->timeout_ns / 1e9, last_line(&output));
    return error_hint(error, "Look at '%s/server.log'.", cluster->pg);
}

// A lock file in the server's folder that the server's account can open too, whoever came first.
static bool give_away(const Cluster *cluster, const char *path, Error *error)
{
    if (cluster->other_account && lchown(path, cluster->uid, cluster->gid) != 0)
        return FAIL(error, ERROR_IO, errno, "could not give file '%s' to account '%s'", path,
                    cluster->account);
    return true;
}

static FileLock *lock_server(const Cluster *cluster, int64_t timeout_ns, Error *error)
{
    char path[FILE_PATH_SIZE], content[64];
    if (!file_join(path, cluster->pg, "lock", error) ||
        !text_print(content, sizeof(content), "pid %d", (int)getpid()))
        return NULL;
    OWNED(FileLock, file_lock_release) *lock = file_lock_wait(path, content, timeout_ns, error);
    if (lock == NULL || !give_away(cluster, path, error))
        return NULL;
    FileLock *taken = lock;
    lock = NULL;
    return taken;
}

static bool join_users(Cluster *cluster, Error *error)
{
    char path[FILE_PATH_SIZE];
    if (!file_join(path, cluster->pg, "users", error))
        return false;
    cluster->users = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (cluster->users < 0)
        return FAIL(error, ERROR_IO, errno, "could not open file '%s'", path);
    if (!give_away(cluster, path, error))
        return false;
    if (flock(cluster->users, LOCK_SH) != 0)
        return FAIL(error, ERROR_IO, errno, "could not lock file '%s'", path);
    return true;
}

static Cluster *cluster_new(const Config *config, const char *home, Error *error)
{
    Cluster *cluster = calloc(1, sizeof(*cluster));
    if (cluster == NULL) {
        FAIL(error, ERROR_MEMORY, 0, "out of memory for the private cluster");
        return NULL;
    }
    cluster->users = -1;
    cluster->process = getpid();
    cluster->timeout_ns = (int64_t)(config_real(config, "database.timeout") * 1e9);
    if (folders_prepare(cluster, config, home, error))
        return cluster;
    free(cluster);
    return NULL;
}

static bool start(Cluster *cluster, Error *error)
{
    if (!file_is_directory(cluster->data)) {
        FAIL(error, ERROR_CONFIG, 0, "home '%s' has no private cluster", cluster->home);
        return error_hint(error, "Run fedgate init, or give database.url.");
    }
    if (!find_programs(cluster, error))
        return false;
    OWNED(FileLock, file_lock_release) *lock = lock_server(cluster, cluster->timeout_ns, error);
    if (lock == NULL)
        return false;
    server_turn_log(cluster);
    return join_users(cluster, error) && reach_server(cluster, error);
}

Cluster *cluster_start(const Config *config, const char *home, Error *error)
{
    Cluster *cluster = cluster_new(config, home, error);
    if (cluster == NULL || start(cluster, error))
        return cluster;
    cluster_close(cluster);
    return NULL;
}

bool cluster_reach(Cluster *cluster, Error *error)
{
    OWNED(FileLock, file_lock_release) *lock = lock_server(cluster, cluster->timeout_ns, error);
    return lock != NULL && reach_server(cluster, error);
}

const char *cluster_socket_directory(const Cluster *cluster)
{
    return cluster->socket;
}

bool cluster_started(const Cluster *cluster)
{
    return cluster->started;
}

static void stop_when_last(const Cluster *cluster)
{
    Error ignored =
        ERROR_INIT;   // ignoring: a server that still runs is adopted by the next process and stopped by it
    ProcessResult result;
    const char *arguments[] = {"pg_ctl", "stop", "-s", "-w", "-m", "fast", "-t", "30", NULL};
    OWNED(FileLock, file_lock_release) *lock = lock_server(cluster, STOP_NS, &ignored);
    if (lock == NULL || flock(cluster->users, LOCK_EX | LOCK_NB) != 0 || !server_is_ours(cluster))
        return;
    if (!run_program(cluster, arguments, cluster->data, STOP_NS + INT64_C(5000000000), NULL, &result,
                     &ignored))
        error_clear(&ignored);
}

void cluster_close(Cluster *cluster)
{
    if (cluster == NULL)
        return;
    if (cluster->users >= 0) {
        if (cluster->process == getpid())
            stop_when_last(cluster);
        close(cluster->users);
    }
    free(cluster);
}

// -- making it

static bool make_data(Cluster *cluster, Error *error)
{
    char fresh[FILE_PATH_SIZE];
    SCOPED_TEXT output;
    text_init(&output, OUTPUT_MAXIMUM);
    ProcessResult result;
    const char *arguments[] = {"initdb",
                               "--data-checksums",
                               "--locale=C",
                               "--encoding=UTF8",
                               "--auth-local=peer",
                               "--auth-host=reject",
                               "--username=postgres",
                               "--no-instructions",
                               NULL};
    if (!programs_find(0, &cluster->programs, error) || !file_join(fresh, cluster->pg, "data.new", error) ||
        !file_remove_tree(fresh, error) ||
        !run_program(cluster, arguments, fresh, INITDB_NS, &output, &result, error))
        return false;
    if (result.exit_code != 0)
        return FAIL(error, ERROR_UNAVAILABLE, 0,
                    "could not make the private cluster '%s': initdb says %.300s", cluster->pg,
                    result.timed_out ? "nothing for too long" : last_line(&output));
    return server_write_access(cluster, fresh, error) && server_add_include(fresh, error) &&
           file_rename_new(fresh, cluster->data, error) && file_sync_directory(cluster->pg, error);
}

static bool make_database(const Cluster *cluster, Error *error)
{
    ClientTarget target = {.url = "",
                           .socket_directory = cluster->socket,
                           .database = "postgres",
                           .user = "postgres",
                           .application = "fedgate init",
                           .timeout_ns = cluster->timeout_ns};
    OWNED(Client, client_close) *client = client_connect(&target, error);
    return client != NULL && rows_make_database(client, error);
}

bool cluster_create(const Config *config, const char *home, Error *error)
{
    OWNED(Cluster, cluster_close) *cluster = cluster_new(config, home, error);
    if (cluster == NULL || !folder_make(cluster, cluster->pg, error))
        return false;
    OWNED(FileLock, file_lock_release) *lock = lock_server(cluster, INITDB_NS, error);
    if (lock == NULL || (!file_is_directory(cluster->data) && !make_data(cluster, error)))
        return false;
    file_lock_release(lock);
    lock = NULL;
    return start(cluster, error) && make_database(cluster, error);
}
