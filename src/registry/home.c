// home - making and opening a home, its paths, and the small files in it.
//
// Where the owner's account is not the one that makes the home, the home and the folders both write belong to
// a group both are in (2770): the group the home already has when it is set-group-id, else the owner's own.
#include "registry_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <fedgate/fault.h>
#include <fedgate/process.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct Folder {
    const char *name;
    mode_t shared_mode;   // where the owner's account writes too: group-writable
} Folder;

// The owner imports into releases/; sticky, so that it takes away or renames nothing of the nightly
// account's.
static const Folder folders[] = {
    {"releases", 03770}, {"pointers", 02770}, {"runs", 02750}, {"spool", 02750},  {"failed", 02750},
    {"slots", 02750},    {"bars", 02770},     {"pins", 02770}, {"pruned", 02770}, {"imports", 02770},
};

// Made here, since whoever appends first must not keep the other account out.
static const char *const shared_files[] = {"run.lock", "pointer.lock", "import.lock", "audit.jsonl",
                                           "denied.jsonl"};

// One that is there keeps its mode and group, unless two accounts must write to it.
static bool make_folder(const char *path, bool shared, mode_t mode, gid_t group, Error *error)
{
    bool existed = file_is_directory(path);
    if (existed && !shared)
        return true;
    struct stat status;
    if (!file_make_directories(path, mode & 0777, error))
        return false;
    if (stat(path, &status) != 0)
        return FAIL(error, ERROR_IO, errno, "could not look at directory '%s'", path);
    if (status.st_uid != process_uid() && process_uid() != 0)
        return true;   // another account made it: completed, never changed
    if (status.st_gid != group && chown(path, (uid_t)-1, group) != 0) {
        FAIL(error, ERROR_CONFIG, 0, "cannot give directory '%s' to group %lld", path, (long long)group);
        return error_hint(error, "Put both accounts into one group, or make the directory with that group "
                                 "and mode 2770 first.");
    }
    if ((status.st_mode & 07777) != mode && chmod(path, mode) != 0)
        return FAIL(error, ERROR_IO, errno, "could not set the mode of directory '%s'", path);
    return true;
}

static bool make_shared_file(const char *path, bool shared, Error *error)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0660);
    if (fd < 0)
        return errno == EEXIST || FAIL(error, ERROR_IO, errno, "could not create file '%s'", path);
    bool done = fchmod(fd, shared ? 0660 : 0640) == 0 ||
                FAIL(error, ERROR_IO, errno, "could not set the mode of '%s'", path);
    close(fd);
    return done;
}

static bool write_home_file(const char *path, const char *owner, Clock *clock, Error *error)
{
    if (file_exists(path))
        return true;
    char id[UUID_SIZE], created[CLOCK_TIME_SIZE];
    clock_uuid7(clock, id);
    clock_format(clock_wall_ns(clock), "", created);
    OWNED(Json, json_free) *home = json_make_object();
    json_put_integer(home, "format", REGISTRY_FORMAT);
    json_put_text(home, "id", id);
    json_put_text(home, "created", created);
    json_put_text(home, "owner", owner);
    return json_write_file(home, JSON_INDENTED, path, error);
}

// Folders above the home are anybody's: the server's account must pass through them.
static bool make_parents(const char *home, Error *error)
{
    char parent[FILE_PATH_SIZE];
    if (!text_copy(parent, sizeof parent, home))
        return FAIL(error, ERROR_USAGE, 0, "path of the home is longer than %d bytes", FILE_PATH_SIZE - 1);
    size_t length = strlen(parent);
    while (length > 1 && parent[length - 1] == '/')
        parent[--length] = '\0';
    char *slash = strrchr(parent, '/');
    if (!slash || slash == parent)
        return true;
    *slash = '\0';
    return file_make_directories(parent, 0755, error);
}

static bool make_folders(const char *home, bool shared, gid_t group, Error *error)
{
    char path[FILE_PATH_SIZE];
    if (!make_parents(home, error) || !make_folder(home, shared, shared ? 02770 : 0750, group, error))
        return false;
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        mode_t mode = shared ? folders[i].shared_mode : 0750;
        if (!file_join(path, home, folders[i].name, error) || !make_folder(path, shared, mode, group, error))
            return false;
    }
    for (size_t i = 0; i < sizeof shared_files / sizeof shared_files[0]; i++)
        if (!file_join(path, home, shared_files[i], error) || !make_shared_file(path, shared, error))
            return false;
    return true;
}

bool registry_create(const char *home, const char *owner, Clock *clock, Error *error)
{
    uid_t uid;
    gid_t group;
    if (strlen(owner) >= sizeof((Registry *)NULL)->owner)
        return FAIL(error, ERROR_CONFIG, 0, "owner '%.64s...' is too long for an account", owner);
    if (!process_find_account(owner, &uid, &group, error))
        return error_prefix(error, "owner");
    bool shared = uid != process_uid();
    struct stat status;
    bool there = stat(home, &status) == 0;
    if (!shared)
        group = there ? status.st_gid : getegid();
    else if (there && (status.st_mode & S_ISGID))
        group = status.st_gid;

    char path[FILE_PATH_SIZE];
    return make_folders(home, shared, group, error) && file_join(path, home, "home.json", error) &&
           write_home_file(path, owner, clock, error) && file_sync_directory(home, error);
}

static bool read_home_file(Registry *registry, Error *error)
{
    char path[FILE_PATH_SIZE];
    OWNED(Json, json_free) *home = NULL;
    const char *id, *owner;
    if (!registry_path(registry, path, "home.json", NULL, error) || !registry_read_state(path, &home, error))
        return false;
    if (!home)
        return FAIL(error, ERROR_DATA, 0, "it has no home.json");
    if (!json_get_text(home, "id", &id, error) || !json_get_text(home, "owner", &owner, error))
        return error_prefix(error, "home.json");
    if (!text_copy(registry->id, sizeof registry->id, id) ||
        !text_copy(registry->owner, sizeof registry->owner, owner))
        return FAIL(error, ERROR_DATA, 0, "home.json: id or owner is too long");
    if (!registry_path(registry, path, "pointers", NULL, error))
        return false;
    return file_is_directory(path) || FAIL(error, ERROR_DATA, 0, "it has no folder 'pointers'");
}

Registry *registry_open(const char *home, Clock *clock, Error *error)
{
    Registry *registry = calloc(1, sizeof *registry);
    if (!registry) {
        FAIL(error, ERROR_MEMORY, 0, "out of memory for a registry");
        return NULL;
    }
    registry->clock = clock;
    if (!text_copy(registry->home, HOME_PATH_SIZE, home)) {
        FAIL(error, ERROR_CONFIG, 0, "path of the home is longer than %d bytes", HOME_PATH_SIZE - 1);
        goto failed;
    }
    if (!read_home_file(registry, error)) {
        if (error->kind == ERROR_IO && error->code == EACCES)
            error->kind = ERROR_DENIED;   // another account's home
        if (error->kind == ERROR_DATA) {   // else it may be one: it could not be looked at
            error->kind = ERROR_CONFIG;
            error_prefix(error, "'%s' is not a home", home);
            error_hint(error, "Make one with: fedgate init --home DIR.");
        }
        goto failed;
    }
    struct stat status;
    registry->shared = stat(home, &status) == 0 && (status.st_mode & S_ISGID) && (status.st_mode & S_IWGRP);
    return registry;
failed:
    registry_close(registry);
    return NULL;
}

void registry_close(Registry *registry)
{
    free(registry);
}

const char *registry_home(const Registry *registry)
{
    return registry->home;
}

const char *registry_home_id(const Registry *registry)
{
    return registry->id;
}

bool registry_path(const Registry *registry, char ret_path[static FILE_PATH_SIZE], const char *folder,
                   const char *name, Error *error)
{
    char path[FILE_PATH_SIZE];
    if (!file_join(path, registry->home, folder, error))
        return false;
    if (name && name[0])
        return file_join(ret_path, path, name, error);
    memcpy(ret_path, path, strlen(path) + 1);
    return true;
}

bool registry_read_state(const char *path, Json **ret_value, Error *error)
{
    struct stat status;
    if (fault_fires("look"))
        return FAIL(error, ERROR_IO, EIO, "could not look at file '%s'", path);
    if (lstat(path, &status) != 0) {
        if (errno != ENOENT && errno != ENOTDIR)
            return FAIL(error, ERROR_IO, errno, "could not look at file '%s'", path);
        *ret_value = NULL;
        return true;
    }
    if (!S_ISREG(status.st_mode))
        return FAIL(error, ERROR_DATA, 0, "'%s' is not a plain file", path);
    OWNED(Json, json_free) *value = json_read_file(path, STATE_BYTES_MAXIMUM, error);
    if (!value)
        return false;
    if (json_integer_or(json_get(value, "format"), 0) != REGISTRY_FORMAT)
        return FAIL(error, ERROR_DATA, 0, "file '%s' is not of format %d", path, REGISTRY_FORMAT);
    *ret_value = value;
    value = NULL;
    return true;
}

static bool append_bytes(int fd, const char *path, const Text *line, Error *error)
{
    struct stat status;
    char last = '\n';
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode))
        return FAIL(error, ERROR_IO, 0, "'%s' is not a plain file", path);
    if (status.st_size > 0 && pread(fd, &last, 1, status.st_size - 1) != 1)
        return FAIL(error, ERROR_IO, errno, "could not read file '%s'", path);
    if (last != '\n' && !file_write_all(fd, "\n", 1, error))
        return error_prefix(error, "file '%s'", path);
    if (!file_write_all(fd, line->data, line->length, error))
        return error_prefix(error, "file '%s'", path);
    return fsync(fd) == 0 || FAIL(error, ERROR_IO, errno, "could not sync '%s'", path);
}

bool registry_append_line(const char *path, const Json *value, Error *error)
{
    SCOPED_TEXT line;
    text_init(&line, STATE_BYTES_MAXIMUM);
    json_write(value, JSON_COMPACT, &line);
    text_add_char(&line, '\n');
    if (!text_ok(&line, error))
        return false;
    int fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0660);
    if (fd < 0)
        return FAIL(error, ERROR_IO, errno, "could not open file '%s'", path);
    bool done = append_bytes(fd, path, &line, error);
    close(fd);
    return done;
}

void registry_clean_text(char *ret_text, size_t size, const char *text)
{
    SCOPED_TEXT clean;
    text_init(&clean, STATE_BYTES_MAXIMUM);
    text_add_escaped(&clean, text);
    if (text_copy(ret_text, size, text_string(&clean)))
        return;
    size_t length = size - 4;
    while (length > 0 &&
           ((unsigned char)text_string(&clean)[length] & 0xc0) == 0x80)   // not inside a character
        length--;
    memcpy(ret_text, text_string(&clean), length);
    memcpy(ret_text + length, "...", 4);
}

FileLock *registry_lock_pointer(const Registry *registry, const char *action, Error *error)
{
    static const int64_t wait_ns = INT64_C(60) * 1000000000;
    char path[FILE_PATH_SIZE], content[128], since[CLOCK_TIME_SIZE];
    clock_format(clock_wall_ns(registry->clock), "", since);
    if (!registry_path(registry, path, "pointer.lock", NULL, error) ||
        !text_print(content, sizeof content, "%s of process %ld since %s", action, (long)getpid(), since))
        return NULL;
    return file_lock_wait(path, content, wait_ns, error);
}
