// folders.c - where the private server lives: its account, its folder, and a socket folder short enough.
//
// The server refuses to run as root: as root it runs under the account that owns <home>/pg, at first
// database.account. Every folder above must then be searchable by that account; the home itself gets the
// search bit for others when it is ours, any other folder is named. A Unix socket path ends at 107 bytes, and
// a folder with characters that PostgreSQL's lists or libpq's host lists give a meaning to cannot hold the
// socket: then it goes into a short folder of its own.
#include "cluster_internal.h"

#include <fedgate/hash.h>
#include <fedgate/process.h>

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SOCKET_PATH_MAXIMUM = 107, GROUPS_MAXIMUM = 256 };
#define SOCKET_NAME "/.s.PGSQL.5432"

static bool account_name(uid_t uid, char *ret_name, size_t size)
{
    struct passwd entry, *found = NULL;
    char buffer[4096];
    if (getpwuid_r(uid, &entry, buffer, sizeof(buffer), &found) == 0 && found != NULL)
        return text_copy(ret_name, size, found->pw_name);
    return text_print(ret_name, size, "%u", (unsigned)uid);
}

static bool choose_account(Cluster *cluster, const Config *config, Error *error)
{
    struct stat status;
    bool there = lstat(cluster->pg, &status) == 0;
    if (there && !S_ISDIR(status.st_mode))
        return FAIL(error, ERROR_CONFIG, 0, "'%s' is no directory", cluster->pg);
    if (process_uid() != 0) {
        cluster->uid = process_uid();
        cluster->gid = getgid();
        if (!account_name(cluster->uid, cluster->account, sizeof(cluster->account)))
            return FAIL(error, ERROR_INTERNAL, 0, "name of account %u is too long", (unsigned)cluster->uid);
        if (!there || status.st_uid == cluster->uid)
            return true;
        char owner[64] = "";
        (void)account_name(status.st_uid, owner, sizeof(owner));
        FAIL(error, ERROR_DENIED, 0, "private cluster '%s' belongs to account '%s', this is '%s'",
             cluster->pg, owner, cluster->account);
        return error_hint(error, "Run this as '%s' or as root.", owner);
    }
    const char *wanted = config_text(config, "database.account");
    if (there && status.st_uid != 0) {
        if (!account_name(status.st_uid, cluster->account, sizeof(cluster->account)))
            return FAIL(error, ERROR_INTERNAL, 0, "name of account %u is too long", (unsigned)status.st_uid);
    } else if (!text_copy(cluster->account, sizeof(cluster->account), wanted)) {
        return FAIL(error, ERROR_CONFIG, 0, "option 'database.account' is longer than %zu bytes",
                    sizeof(cluster->account) - 1);
    }
    if (!process_find_account(cluster->account, &cluster->uid, &cluster->gid, error))
        return error_hint(
            error, "Name an existing account other than root in database.account, or give database.url.");
    if (cluster->uid != 0)
        return true;
    FAIL(error, ERROR_CONFIG, 0, "PostgreSQL refuses to run as root, and option 'database.account' is '%s'",
         cluster->account);
    return error_hint(error, "Name an account other than root in database.account, or give database.url.");
}

static bool may_search(const Cluster *cluster, const struct stat *status, const gid_t *groups,
                       int group_count)
{
    if (status->st_uid == cluster->uid)
        return (status->st_mode & S_IXUSR) != 0;
    for (int i = 0; i < group_count; i++) {
        if (groups[i] == status->st_gid)
            return (status->st_mode & S_IXGRP) != 0;
    }
    return (status->st_mode & S_IXOTH) != 0;
}

// Every folder from / down to the home lets the server's account pass.
static bool check_way(const Cluster *cluster, Error *error)
{
    gid_t groups[GROUPS_MAXIMUM];
    int count = GROUPS_MAXIMUM;
    if (getgrouplist(cluster->account, cluster->gid, groups, &count) < 0)
        return FAIL(error, ERROR_CONFIG, 0, "account '%s' is in more than %d groups", cluster->account,
                    GROUPS_MAXIMUM);
    char path[FILE_PATH_SIZE];
    for (const char *end = cluster->home;; end++) {
        end += strcspn(end, "/");
        size_t length = end == cluster->home ? 1 : (size_t)(end - cluster->home);
        memcpy(path, cluster->home, length);
        path[length] = '\0';
        struct stat status;
        if (stat(path, &status) != 0)
            return FAIL(error, ERROR_IO, errno, "could not look at directory '%s'", path);
        bool is_home = *end == '\0';
        if (!may_search(cluster, &status, groups, count) &&
            !(is_home && status.st_uid == process_uid() &&
              chmod(path, (status.st_mode & 07777) | S_IXOTH) == 0)) {
            FAIL(error, ERROR_CONFIG, 0,
                 "directory '%s' does not let account '%s', which runs the private cluster, pass", path,
                 cluster->account);
            return error_hint(
                error, "Choose a home outside '%s' with --home, or another account in database.account.",
                path);
        }
        if (is_home)
            return true;
    }
}

bool folder_make(const Cluster *cluster, const char *path, Error *error)
{
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return FAIL(error, ERROR_IO, errno, "could not make directory '%s'", path);
    struct stat status;
    if (lstat(path, &status) != 0)
        return FAIL(error, ERROR_IO, errno, "could not look at directory '%s'", path);
    if (status.st_uid != cluster->uid && status.st_uid == 0 && process_uid() == 0 &&
        S_ISDIR(status.st_mode)) {
        if (lchown(path, cluster->uid, cluster->gid) != 0 || lstat(path, &status) != 0)
            return FAIL(error, ERROR_IO, errno, "could not give directory '%s' to account '%s'", path,
                        cluster->account);
    }
    if (!S_ISDIR(status.st_mode) || status.st_uid != cluster->uid || (status.st_mode & 0077) != 0)
        return FAIL(error, ERROR_DENIED, 0, "'%s' is not a directory of account '%s' alone", path,
                    cluster->account);
    return true;
}

static bool name_socket_folder(Cluster *cluster, Error *error)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._+-";
    if (text_print(cluster->socket, sizeof(cluster->socket), "%s/.s", cluster->pg) &&
        strlen(cluster->socket) + strlen(SOCKET_NAME) <= SOCKET_PATH_MAXIMUM &&
        strspn(cluster->socket, plain) == strlen(cluster->socket))
        return true;
    Digest digest;
    char hex[DIGEST_HEX_SIZE];
    hash_bytes(cluster->home, strlen(cluster->home), &digest);
    digest_hex(&digest, hex);
    if (!text_print(cluster->socket, sizeof(cluster->socket), "/tmp/fedgate-%.16s", hex))
        return FAIL(error, ERROR_INTERNAL, 0, "name of the socket folder is too long");
    return true;
}

bool folders_prepare(Cluster *cluster, const Config *config, const char *home, Error *error)
{
    char *real = realpath(home, NULL);
    if (real == NULL)
        return FAIL(error, ERROR_IO, errno, "could not find home '%s'", home);
    bool fits = text_copy(cluster->home, sizeof(cluster->home), real);
    free(real);
    if (!fits || !file_join(cluster->pg, cluster->home, "pg", error) ||
        !file_join(cluster->data, cluster->pg, "data", error))
        return fits ? false : FAIL(error, ERROR_USAGE, 0, "path of home '%s' is too long", home);
    if (!choose_account(cluster, config, error))
        return false;
    cluster->other_account = process_uid() == 0;
    if (cluster->other_account && !check_way(cluster, error))
        return false;
    return name_socket_folder(cluster, error);
}
