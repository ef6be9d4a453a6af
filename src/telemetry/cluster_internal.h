// cluster_internal.h - what cluster.c, folders.c and server_files.c share about the private server.
#ifndef FEDGATE_TELEMETRY_CLUSTER_INTERNAL_H
#define FEDGATE_TELEMETRY_CLUSTER_INTERNAL_H

#include "telemetry_internal.h"

#include <fedgate/file.h>

struct Cluster {
    char home[FILE_PATH_SIZE], pg[FILE_PATH_SIZE], data[FILE_PATH_SIZE];   // real paths
    char socket[FILE_PATH_SIZE];   // folder of the socket
    char account[64];   // that the server runs under
    uid_t uid;
    gid_t gid;
    bool other_account;   // we are root and the server is not
    bool started;   // by this handle
    ServerPrograms programs;
    int users;   // shared lock held while the server is in use; -1 when not
    pid_t process;   // that made this handle; a forked child must not stop the server
    int64_t timeout_ns;
};

// Fills the paths and the account, and checks that the account can reach the home. Makes nothing.
WARN_UNUSED bool folders_prepare(Cluster *cluster, const Config *config, const char *home, Error *error);
// A directory of mode 0700 that belongs to the server's account; an existing one must be just that.
WARN_UNUSED bool folder_make(const Cluster *cluster, const char *path, Error *error);

// -- server_files.c
enum { PID_FILE_LINES = 8 };
// postmaster.pid: pid, data directory, start time, port, socket folder, address, shared memory, status
typedef struct PidFile {
    char text[8192];
    const char *line[PID_FILE_LINES];
} PidFile;
WARN_UNUSED bool server_write_settings(const Cluster *cluster, Error *error);   // fedgate.conf
// Who may connect as whom, into a data directory that no server uses yet.
WARN_UNUSED bool server_write_access(const Cluster *cluster, const char *data, Error *error);
WARN_UNUSED bool server_add_include(const char *data, Error *error);   // of fedgate.conf
bool server_read_pid_file(const Cluster *cluster, PidFile *ret_file);
// Which server is ours to stop: its pid and start time, so a later server of the same pid is not taken for
// it.
WARN_UNUSED bool server_note_started(const Cluster *cluster, Error *error);
bool server_is_ours(const Cluster *cluster);
void server_turn_log(const Cluster *cluster);   // keeps one old log when it has grown long

#endif
