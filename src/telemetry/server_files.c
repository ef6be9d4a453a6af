// server_files.c - what fedgate writes for the private server, and what the server writes for us.
#include "cluster_internal.h"

#include <fedgate/process.h>

#include <string.h>

enum { LOG_MAXIMUM = 16 << 20 };

bool server_write_settings(const Cluster *cluster, Error *error)
{
    char path[FILE_PATH_SIZE];
    SCOPED_TEXT text;
    text_init(&text, 16 * 1024);
    text_add(&text,
             "# Written by fedgate at every start of the server.\nlisten_addresses = ''\nport = 5432\n");
    text_add_format(&text, "unix_socket_directories = '%s'\nunix_socket_permissions = 0700\n",
                    cluster->socket);
    text_add(
        &text,
        "fsync = on\nsynchronous_commit = on\nfull_page_writes = on\nmax_connections = 20\nshared_buffers = "
        "'64MB'\n"
        "max_wal_size = '512MB'\njit = off\nlog_min_messages = warning\nlog_line_prefix = '%m [%p] %a '\n"
        "log_timezone = 'UTC'\ntimezone = 'UTC'\nlc_messages = 'C'\n");
    return text_ok(&text, error) && file_join(path, cluster->data, "fedgate.conf", error) &&
           file_write_atomic(path, text_string(&text), text.length, 0644, error);
}

// Peer authentication through one map: root, the server's account and the account the home belongs to.
bool server_write_access(const Cluster *cluster, const char *data, Error *error)
{
    static const char access_text[] =
        "# Local connections of mapped accounts only.\nlocal all all peer map=fedgate\n";
    char path[FILE_PATH_SIZE];
    SCOPED_TEXT map;
    text_init(&map, 4096);
    const char *accounts[] = {"root", cluster->account, process_account()};
    for (size_t i = 0; i < sizeof(accounts) / sizeof(accounts[0]); i++)
        text_add_format(&map, "fedgate \"%s\" fedgate\nfedgate \"%s\" postgres\n", accounts[i], accounts[i]);
    return text_ok(&map, error) && file_join(path, data, "pg_hba.conf", error) &&
           file_write_atomic(path, access_text, sizeof(access_text) - 1, 0644, error) &&
           file_join(path, data, "pg_ident.conf", error) &&
           file_write_atomic(path, text_string(&map), map.length, 0644, error);
}

bool server_add_include(const char *data, Error *error)
{
    char path[FILE_PATH_SIZE];
    SCOPED_TEXT text;
    text_init(&text, 1 << 20);
    if (!file_join(path, data, "postgresql.conf", error) || !file_read(path, &text, error))
        return false;
    text_add(&text, "\ninclude_if_exists = 'fedgate.conf'\n");
    return text_ok(&text, error) && file_write_atomic(path, text_string(&text), text.length, 0644, error);
}

bool server_read_pid_file(const Cluster *cluster, PidFile *ret_file)
{
    char path[FILE_PATH_SIZE];
    Error ignored = ERROR_INIT;   // ignoring: no file, no server
    SCOPED_TEXT text;
    text_init(&text, sizeof(ret_file->text) - 1);
    if (!file_join(path, cluster->data, "postmaster.pid", &ignored) || !file_read(path, &text, &ignored) ||
        !text_copy(ret_file->text, sizeof(ret_file->text), text_string(&text)))
        return false;
    char *rest = ret_file->text;
    for (int i = 0; i < PID_FILE_LINES; i++) {
        char *line = strsep(&rest, "\n");
        ret_file->line[i] = line == NULL ? "" : line;
    }
    return true;
}

static bool started_path(const Cluster *cluster, char *ret_path, Error *error)
{
    return file_join(ret_path, cluster->pg, "started", error);
}

// Which server is ours to stop: its pid and start time, so a later server of the same pid is not taken for
// it.
bool server_note_started(const Cluster *cluster, Error *error)
{
    PidFile file;
    char path[FILE_PATH_SIZE], content[128];
    if (!server_read_pid_file(cluster, &file))
        return FAIL(error, ERROR_UNAVAILABLE, 0, "private server of '%s' has left no postmaster.pid",
                    cluster->pg);
    if (!text_print(content, sizeof(content), "%s %s\n", file.line[0], file.line[2]))
        return FAIL(error, ERROR_DATA, 0, "postmaster.pid of '%s' is not understood", cluster->pg);
    return started_path(cluster, path, error) &&
           file_write_atomic(path, content, strlen(content), 0644, error);
}

bool server_is_ours(const Cluster *cluster)
{
    PidFile file;
    char path[FILE_PATH_SIZE], expected[128];
    Error ignored = ERROR_INIT;   // ignoring: without the note the server is somebody else's
    SCOPED_TEXT text;
    text_init(&text, sizeof(expected));
    return started_path(cluster, path, &ignored) && file_read(path, &text, &ignored) &&
           server_read_pid_file(cluster, &file) &&
           text_print(expected, sizeof(expected), "%s %s\n", file.line[0], file.line[2]) &&
           strcmp(expected, text_string(&text)) == 0;
}

void server_turn_log(const Cluster *cluster)
{
    char path[FILE_PATH_SIZE], old[FILE_PATH_SIZE];
    uint64_t bytes;
    Error ignored = ERROR_INIT;   // ignoring: a long log is no reason not to start
    if (file_join(path, cluster->pg, "server.log", &ignored) &&
        file_join(old, cluster->pg, "server.log.old", &ignored) && file_size(path, &bytes, &ignored) &&
        bytes > LOG_MAXIMUM && !file_rename_over(path, old, &ignored))
        error_clear(&ignored);
}
