// process_fork - our own work in a child, with a pipe on which it reports lines.
#include "lock_internal.h"
#include "process_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// After SIGKILL: a process that is stuck in a driver ends when the driver lets it go, which may be never.
static const int64_t killed_ns = INT64_C(10000000000);

struct Process {
    pid_t id;
    int report_fd;   // -1 after its end
    bool ended;
    int status;
    size_t begin, end;   // unread bytes of the buffer
    char buffer[64 * 1024];
};

// The copied stdio buffers were emptied before the fork; _exit keeps the parent's exit handlers from running
// here.
static _Noreturn void run_child(ProcessWork work, void *context, int report_fd, pid_t parent)
{
    lock_list_forget();
    lock_list_drop();
    process_enter_child(parent);
    int code = work(context, report_fd);
    fflush(NULL);
    _exit(code);
}

Process *process_fork(ProcessWork work, void *context, Error *error)
{
    int ends[2];
    Process *process = calloc(1, sizeof *process);
    if (!process) {
        FAIL(error, ERROR_MEMORY, 0, "out of memory for a child process");
        return NULL;
    }
    if (pipe2(ends, O_CLOEXEC) != 0) {
        FAIL(error, ERROR_IO, errno, "could not make a pipe for a child process");
        free(process);
        return NULL;
    }
    fflush(NULL);
    pid_t parent = getpid();
    lock_list_hold();
    pid_t id = process_fork_quietly();
    if (id == 0) {
        close(ends[0]);
        run_child(work, context, ends[1], parent);
    }
    int code = errno;
    lock_list_drop();
    close(ends[1]);
    if (id < 0) {
        close(ends[0]);
        free(process);
        FAIL(error, ERROR_UNAVAILABLE, code, "could not fork a child process");
        return NULL;
    }
    setpgid(id, id);   // also here, so that the group exists before anybody kills it
    process->id = id;
    process->report_fd = ends[0];
    return process;
}

// Takes a whole line out of the buffer: 1 taken, 0 none there, -2 longer than the caller's room.
static int take_line(Process *process, char *ret_line, size_t size, Error *error)
{
    char *first = process->buffer + process->begin;
    size_t have = process->end - process->begin;
    char *newline = memchr(first, '\n', have);
    size_t length = newline ? (size_t)(newline - first) : have;
    if (length >= size || (!newline && have == sizeof process->buffer)) {
        FAIL(error, ERROR_DATA, 0, "child process %ld wrote a line longer than %zu bytes", (long)process->id,
             size <= sizeof process->buffer ? size - 1 : sizeof process->buffer - 1);
        return -2;
    }
    if (!newline)
        return 0;
    memcpy(ret_line, first, length);
    ret_line[length] = '\0';
    process->begin += length + 1;
    return 1;
}

int process_read_line(Process *process, char *ret_line, size_t size, int64_t timeout_ns, Error *error)
{
    int64_t end_ns = timeout_ns > 0 ? process_end_ns(timeout_ns) : clock_monotonic_ns(clock_real());
    for (;;) {
        int taken = take_line(process, ret_line, size, error);
        if (taken != 0)
            return taken;
        if (process->report_fd < 0)
            return -1;   // a line without its newline was cut by the child's death and is not a line
        memmove(process->buffer, process->buffer + process->begin, process->end - process->begin);
        process->end -= process->begin;
        process->begin = 0;
        struct pollfd polled = {process->report_fd, POLLIN, 0};
        int ready = poll(&polled, 1, process_poll_ms(end_ns, 1000));
        if (ready == 0 && clock_monotonic_ns(clock_real()) >= end_ns)
            return 0;
        if (ready <= 0)
            continue;
        ssize_t got =
            read(process->report_fd, process->buffer + process->end, sizeof process->buffer - process->end);
        if (got > 0) {
            process->end += (size_t)got;
        } else if (got == 0) {
            close(process->report_fd);
            process->report_fd = -1;
        } else if (errno != EINTR) {
            FAIL(error, ERROR_IO, errno, "could not read the report of child process %ld", (long)process->id);
            return -2;
        }
    }
}

pid_t process_id(const Process *process)
{
    return process->id;
}

void process_signal(Process *process, int signal)
{
    if (!process->ended)
        process_kill_group(process->id, signal);
}

bool process_wait(Process *process, int64_t timeout_ns, ProcessResult *ret_result, Error *error)
{
    bool timed_out = false;
    if (!process->ended) {
        int got = process_wait_until(process->id, process_end_ns(timeout_ns), &process->status);
        if (got == 0) {
            timed_out = true;
            process_kill_group(process->id, SIGKILL);
            got = process_wait_until(process->id, process_end_ns(killed_ns), &process->status);
        }
        if (got == 0)
            return FAIL(error, ERROR_UNAVAILABLE, 0, "child process %ld was killed and does not end",
                        (long)process->id);
        if (got < 0)
            return FAIL(error, ERROR_IO, errno, "could not wait for child process %ld", (long)process->id);
        process->ended = true;
    }
    *ret_result = process_result_of(process->status);
    ret_result->timed_out = timed_out;
    return true;
}

void process_free(Process *process)
{
    if (!process)
        return;
    if (!process->ended) {
        process_kill_group(process->id, SIGKILL);
        process_wait_until(process->id, process_end_ns(killed_ns), &process->status);
    }
    if (process->report_fd >= 0)
        close(process->report_fd);
    free(process);
}
