// lock - advisory whole-file locks that end with the process that took them.
#include "lock_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <fedgate/clock.h>
#include <fedgate/file.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOCK_CONTENT_SIZE = 512 };
static const int64_t lock_pause_ns = 10 * 1000000;
static const int64_t lock_look_ns = 50 * 1000000;   // file_lock_look holds a lock for an instant: outlast it

struct FileLock {
    FileLock *next;
    int fd;
    pid_t owner;   // a forked child has the struct but not the lock
};

static pthread_mutex_t locks_mutex = PTHREAD_MUTEX_INITIALIZER;
static FileLock *locks;   // held by this process

void lock_list_hold(void)
{
    pthread_mutex_lock(&locks_mutex);
}

void lock_list_drop(void)
{
    pthread_mutex_unlock(&locks_mutex);
}

void lock_list_forget(void)
{
    for (FileLock *lock = locks; lock; lock = lock->next) {
        close(lock->fd);
        lock->fd = -1;
    }
    locks = NULL;
}

// The holder's line, control bytes made visible; empty when there is none.
static void read_content(int fd, char *ret_content, size_t size)
{
    char raw[LOCK_CONTENT_SIZE];
    ssize_t length = pread(fd, raw, sizeof raw - 1, 0);
    raw[length > 0 ? length : 0] = '\0';
    raw[strcspn(raw, "\n")] = '\0';
    SCOPED_TEXT shown;
    text_init(&shown, size - 1);
    text_add_escaped(&shown, raw);
    memcpy(ret_content, text_string(&shown), shown.length + 1);
}

static bool write_content(int fd, const char *path, const char *content, Error *error)
{
    if (ftruncate(fd, 0) != 0)
        return FAIL(error, ERROR_IO, errno, "could not empty lock file '%s'", path);
    if (content &&
        (!file_write_all(fd, content, strlen(content), error) || !file_write_all(fd, "\n", 1, error)))
        return error_prefix(error, "lock file '%s'", path);
    return true;
}

// Until the end of the timeout, or held.
static bool take_lock(int fd, const char *path, int64_t timeout_ns, Error *error)
{
    Clock *clock = clock_real();
    int64_t end_ns;
    if (__builtin_add_overflow(clock_monotonic_ns(clock), timeout_ns, &end_ns))
        end_ns = INT64_MAX;
    while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno == EINTR)
            continue;
        if (errno != EWOULDBLOCK)
            return FAIL(error, ERROR_IO, errno, "could not lock file '%s'", path);
        if (clock_monotonic_ns(clock) >= end_ns) {
            char holder[LOCK_CONTENT_SIZE];
            read_content(fd, holder, sizeof holder);
            return FAIL(error, ERROR_BUSY, 0, "lock '%s' is held by %s", path,
                        holder[0] ? holder : "another process");
        }
        clock_sleep_ns(clock, lock_pause_ns);
    }
    return true;
}

// Nothing but a regular file: the mode of a device put in its place would be changed, a pipe would make us
// wait.
static int open_lock(const char *path, int flags, Error *error)
{
    int fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0660);
    if (fd < 0) {
        FAIL(error, errno == EACCES ? ERROR_DENIED : ERROR_IO, errno, "could not open lock file '%s'", path);
        return -1;
    }
    struct stat status;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode))
        return fd;
    close(fd);
    FAIL(error, ERROR_IO, 0, "lock file '%s' is not a regular file", path);
    return -1;
}

FileLock *file_lock_wait(const char *path, const char *content, int64_t timeout_ns, Error *error)
{
    int fd = open_lock(path, O_RDWR | O_CREAT, error);
    if (fd < 0)
        return NULL;
    // Whatever the umask is: the owner's account and the nightly one both take it. Ignoring a refusal: it is
    // another's file.
    if (fchmod(fd, 0660) != 0)
        errno = 0;
    FileLock *lock = calloc(1, sizeof *lock);
    bool ok = lock || FAIL(error, ERROR_MEMORY, 0, "out of memory for lock '%s'", path);
    ok = ok && take_lock(fd, path, timeout_ns, error) && write_content(fd, path, content, error);
    if (!ok) {
        close(fd);
        free(lock);
        return NULL;
    }
    lock->fd = fd;
    lock->owner = getpid();
    lock_list_hold();
    lock->next = locks;
    locks = lock;
    lock_list_drop();
    return lock;
}

FileLock *file_lock_try(const char *path, const char *content, Error *error)
{
    return file_lock_wait(path, content, lock_look_ns, error);
}

bool file_lock_rewrite(FileLock *lock, const char *content, Error *error)
{
    if (lseek(lock->fd, 0, SEEK_SET) != 0)
        return FAIL(error, ERROR_IO, errno, "could not go to the begin of a lock file");
    return write_content(lock->fd, "held", content, error);
}

void file_lock_release(FileLock *lock)
{
    if (!lock)
        return;
    lock_list_hold();
    for (FileLock **at = &locks; *at; at = &(*at)->next) {
        if (*at == lock) {
            *at = lock->next;
            break;
        }
    }
    lock_list_drop();
    if (lock->fd >= 0) {
        // Closing alone would leave the lock to a child forked elsewhere; unlocking in such a child would
        // take it from us.
        if (lock->owner == getpid())
            flock(lock->fd, LOCK_UN);
        close(lock->fd);
    }
    free(lock);
}

bool file_lock_look(const char *path, bool *ret_held, char *ret_content, size_t size, Error *error)
{
    struct stat status;
    if (lstat(path, &status) != 0 && errno == ENOENT) {
        *ret_held = false;
        ret_content[0] = '\0';
        return true;
    }
    int fd = open_lock(path, O_RDONLY, error);
    if (fd < 0)
        return false;
    bool taken = flock(fd, LOCK_SH | LOCK_NB) == 0;
    int code = taken ? 0 : errno;
    if (taken)
        flock(fd, LOCK_UN);
    if (taken || code == EWOULDBLOCK)
        read_content(fd, ret_content, size);
    close(fd);
    if (!taken && code != EWOULDBLOCK)
        return FAIL(error, ERROR_IO, code, "could not look at lock '%s'", path);
    *ret_held = !taken;
    return true;
}
