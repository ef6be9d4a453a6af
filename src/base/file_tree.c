// file_tree - directories: making, listing, syncing and removing them; links are never followed.
#include "file_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fedgate/fault.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool file_make_directory(const char *path, mode_t mode, Error *error)
{
    struct stat status;
    if (fault_fires("file.directory"))
        return FAIL(error, ERROR_IO, EIO, "could not make directory '%s'", path);
    if (mkdir(path, mode & 0777) != 0) {
        int code = errno;
        if (code == EEXIST && stat(path, &status) == 0 && S_ISDIR(status.st_mode))
            return true;
        return FAIL(error, ERROR_IO, code, "could not make directory '%s'", path);
    }
    // Exactly this mode whatever the umask is; the group bit inherited from the parent stays.
    if (stat(path, &status) != 0 || chmod(path, mode | (status.st_mode & S_ISGID)) != 0)
        return FAIL(error, ERROR_IO, errno, "could not set the mode of directory '%s'", path);
    return true;
}

bool file_make_directories(const char *path, mode_t mode, Error *error)
{
    char partial[FILE_PATH_SIZE];
    if (!text_copy(partial, sizeof partial, path))
        return FAIL(error, ERROR_USAGE, 0, "path '%.64s...' is longer than %d bytes", path,
                    FILE_PATH_SIZE - 1);
    for (char *slash = strchr(partial + (partial[0] == '/'), '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (partial[0] != '\0' && !file_is_directory(partial) && !file_make_directory(partial, mode, error))
            return false;
        *slash = '/';
    }
    return file_is_directory(path) || file_make_directory(path, mode, error);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool add_name(FileList *list, size_t *capacity, const char *name)
{
    if (list->count == *capacity) {
        size_t grown = *capacity > 0 ? *capacity * 2 : 16;
        char **names = realloc(list->names, grown * sizeof *names);
        if (!names)
            return false;
        list->names = names;
        *capacity = grown;
    }
    list->names[list->count] = text_duplicate(name);
    return list->names[list->count] && ++list->count > 0;
}

// Takes over `fd`. The names are complete before anything is done to the directory.
static bool list_open(int fd, const char *path, FileList *ret_list, Error *error)
{
    DIR *directory = fdopendir(fd);
    if (!directory) {
        int code = errno;
        close(fd);
        return FAIL(error, ERROR_IO, code, "could not read directory '%s'", path);
    }
    FileList list = {0};
    size_t capacity = 0;
    bool ok = true;
    while (ok) {
        errno = 0;
        struct dirent *entry = readdir(directory);
        if (!entry && errno != 0)
            ok = FAIL(error, ERROR_IO, errno, "could not read directory '%s'", path);
        if (!entry)
            break;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        ok = add_name(&list, &capacity, entry->d_name) ||
             FAIL(error, ERROR_MEMORY, 0, "out of memory while reading directory '%s'", path);
    }
    closedir(directory);
    if (!ok) {
        file_list_done(&list);
        return false;
    }
    if (list.count > 1)
        qsort(list.names, list.count, sizeof *list.names, compare_names);
    *ret_list = list;
    return true;
}

bool file_list(const char *directory, FileList *ret_list, Error *error)
{
    int fd = fault_fires("look") ? (errno = EIO, -1) : open(directory, O_RDONLY | O_CLOEXEC | O_DIRECTORY);
    if (fd < 0)
        return FAIL(error, ERROR_IO, errno, "could not open directory '%s'", directory);
    return list_open(fd, directory, ret_list, error);
}

void file_list_done(FileList *list)
{
    if (!list)
        return;
    for (size_t i = 0; i < list->count; i++)
        free(list->names[i]);
    free(list->names);
    *list = (FileList){0};
}

// What to do with each entry of a tree, children first. `parent` is an open directory.
typedef bool (*VisitEntry)(int parent, const char *name, const struct stat *status, Error *error);

static bool walk(int parent, const char *name, int level, VisitEntry visit, Error *error)
{
    enum { LEVELS = 64 };   // each level holds one descriptor
    struct stat status;
    if (level > LEVELS)
        return FAIL(error, ERROR_DATA, 0, "directory '%s' is nested deeper than %d levels", name, LEVELS);
    if (fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) != 0)
        return FAIL(error, ERROR_IO, errno, "could not look at '%s'", name);
    if (S_ISDIR(status.st_mode)) {
        int fd = openat(parent, name, O_RDONLY | O_CLOEXEC | O_DIRECTORY | O_NOFOLLOW);
        if (fd < 0)
            return FAIL(error, ERROR_IO, errno, "could not open directory '%s'", name);
        FileList list = {0};
        int listed = dup(fd);
        bool ok = listed < 0 ? FAIL(error, ERROR_IO, errno, "could not open directory '%s'", name)
                             : list_open(listed, name, &list, error);
        for (size_t i = 0; ok && i < list.count; i++)
            ok = walk(fd, list.names[i], level + 1, visit, error);
        file_list_done(&list);
        close(fd);
        if (!ok)
            return false;
    }
    return visit(parent, name, &status, error);
}

static bool sync_entry(int parent, const char *name, const struct stat *status, Error *error)
{
    if (!S_ISREG(status->st_mode) && !S_ISDIR(status->st_mode))
        return true;
    int fd = openat(parent, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return FAIL(error, ERROR_IO, errno, "could not open '%s' to sync it", name);
    bool ok = file_sync(fd, name, error);
    close(fd);
    return ok;
}

bool file_sync_tree(const char *path, Error *error)
{
    return walk(AT_FDCWD, path, 0, sync_entry, error) || error_prefix(error, "tree '%s'", path);
}

static bool remove_entry(int parent, const char *name, const struct stat *status, Error *error)
{
    if (fault_fires("file.remove"))
        return FAIL(error, ERROR_IO, EIO, "could not remove '%s'", name);
    if (unlinkat(parent, name, S_ISDIR(status->st_mode) ? AT_REMOVEDIR : 0) == 0 || errno == ENOENT)
        return true;
    return FAIL(error, ERROR_IO, errno, "could not remove '%s'", name);
}

bool file_remove_tree(const char *path, Error *error)
{
    struct stat status;
    if (lstat(path, &status) != 0 && errno == ENOENT)
        return true;
    return walk(AT_FDCWD, path, 0, remove_entry, error) || error_prefix(error, "tree '%s'", path);
}
