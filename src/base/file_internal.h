// file_internal - steps of publishing a file that file.c and file_tree.c share.
#ifndef FEDGATE_BASE_FILE_INTERNAL_H
#define FEDGATE_BASE_FILE_INTERNAL_H

#include <fedgate/file.h>

// "<directory>/<name>" cut in two; a path without a slash is in ".".
bool file_split(const char *path, char ret_directory[static FILE_PATH_SIZE], const char **ret_name,
                Error *error);

// A name beside `path` that no other process uses: "<directory>/.tmp-<name>-<pid>-<n>".
bool file_temporary_name(const char *path, char ret_path[static FILE_PATH_SIZE], Error *error);

int file_create(const char *path, mode_t mode, Error *error);   // new and empty, to write; -1 on failure
bool file_sync(int fd, const char *path, Error *error);
bool file_sync_parent(const char *path, Error *error);

// Syncs when `ok`, closes, and removes the file on any failure.
bool file_close_synced(int fd, const char *path, bool ok, Error *error);

#endif
