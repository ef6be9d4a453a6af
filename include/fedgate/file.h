// file.h - files that are old or new, never between; directories synced; locks that cannot be inherited.
//
// Order for publishing: write beside, fsync file, fsync directory, rename, fsync parent. A failed fsync is
// never retried on that file: the temporary is removed and ERROR_IO returned. Every open uses O_CLOEXEC;
// writers O_NOFOLLOW. Paths are at most FILE_PATH_SIZE - 1 bytes; longer is ERROR_USAGE naming the limit.
#ifndef FEDGATE_FILE_H
#define FEDGATE_FILE_H

#include <fedgate/text.h>
#include <sys/types.h>

enum { FILE_PATH_SIZE = 4096 };

// ret_path[FILE_PATH_SIZE] = "<directory>/<name>"; an absolute name stays as it is.
WARN_UNUSED bool file_join(char *ret_path, const char *directory, const char *name, Error *error);

bool file_exists(const char *path);        // follows links
bool file_is_directory(const char *path);
WARN_UNUSED bool file_size(const char *path, uint64_t *ret_bytes, Error *error);

// Reads a regular file; ERROR_DATA when over the Text's maximum, ERROR_IO otherwise.
WARN_UNUSED bool file_read(const char *path, Text *out, Error *error);
// Short file is ERROR_DATA.
WARN_UNUSED bool file_pread_all(int fd, void *to, size_t bytes, uint64_t offset, Error *error);
// EINTR and short writes looped.
WARN_UNUSED bool file_write_all(int fd, const void *bytes, size_t length, Error *error);

// Temp + fsync + rename over + fsync parent.
WARN_UNUSED bool file_write_atomic(const char *path, const void *bytes, size_t length, mode_t mode,
                                   Error *error);
// O_EXCL + fsync; ERROR_CONFLICT when it exists.
WARN_UNUSED bool file_write_new(const char *path, const void *bytes, size_t length, mode_t mode,
                                Error *error);
// renameat2 NOREPLACE; ERROR_CONFLICT when `to` exists; parents not synced.
WARN_UNUSED bool file_rename_new(const char *from, const char *to, Error *error);
WARN_UNUSED bool file_rename_over(const char *from, const char *to, Error *error);
// Symlink replaced by rename, parent synced.
WARN_UNUSED bool file_link_replace(const char *link_path, const char *target, Error *error);
WARN_UNUSED bool file_link_read(const char *link_path, char *ret_target, size_t size, Error *error);
// O_EXCL, synced.
WARN_UNUSED bool file_copy_new(const char *from, const char *to, mode_t mode, Error *error);
WARN_UNUSED bool file_sync_directory(const char *path, Error *error);
WARN_UNUSED bool file_sync_tree(const char *path, Error *error);   // every file, then directories bottom up
// Existing directory is fine.
WARN_UNUSED bool file_make_directory(const char *path, mode_t mode, Error *error);
WARN_UNUSED bool file_make_directories(const char *path, mode_t mode, Error *error);   // parents too
WARN_UNUSED bool file_remove(const char *path, Error *error);        // missing is fine
WARN_UNUSED bool file_remove_tree(const char *path, Error *error);   // never follows links; missing is fine
// Unnamed, O_TMPFILE or unlinked at once.
WARN_UNUSED bool file_temporary(const char *directory, int *ret_fd, Error *error);

// Names in a directory, sorted bytewise, without "." and "..". Free with file_list_done.
typedef struct FileList { char **names; size_t count; } FileList;
WARN_UNUSED bool file_list(const char *directory, FileList *ret_list, Error *error);
void file_list_done(FileList *list);

// Advisory whole-file lock (flock): never unlinked, close-on-exec, content is only for people.
typedef struct FileLock FileLock;
// ERROR_BUSY at once when held, the holder's content in the message. `content` (one line) is written when
// taken.
WARN_UNUSED FileLock *file_lock_try(const char *path, const char *content, Error *error);
WARN_UNUSED FileLock *file_lock_wait(const char *path, const char *content, int64_t timeout_ns, Error *error);
// The holder writes something else about itself.
WARN_UNUSED bool file_lock_rewrite(FileLock *lock, const char *content, Error *error);
// NULL allowed; in a forked child closes without unlocking the parent's.
void file_lock_release(FileLock *lock);
OWNED_RELEASE(FileLock, file_lock_release)
// For status and watch: whether somebody holds it now, and what the holder wrote.
WARN_UNUSED bool file_lock_look(const char *path, bool *ret_held, char *ret_content, size_t size,
                                Error *error);

#endif
