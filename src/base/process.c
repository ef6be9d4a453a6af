// process - running a program with captured output and a deadline.
#include "process_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <fedgate/fault.h>
#include <grp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { POLL_MS = 20, GROUPS_MAXIMUM = 256 };
enum {
    DRAIN_BYTES = 16 * 1024,
    PIPE_BYTES = 1024 * 1024
};   // one read; what a pipe holds at most by default

// Whoever started us may have left SIGCHLD ignored; the kernel would then reap our children before we can ask
// how they ended.
static void keep_children_waitable(void)
{
    struct sigaction action;
    if (sigaction(SIGCHLD, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
        signal(SIGCHLD, SIG_DFL);
}

pid_t process_fork_quietly(void)
{
    keep_children_waitable();
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t id = fault_fires("process.fork") ? (errno = EAGAIN, -1) : fork();
    int code = errno;
    if (id != 0)
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = code;
    return id;
}

void process_enter_child(pid_t parent)
{
    static const int reset[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM, SIGPIPE,
                                SIGCHLD, SIGUSR1, SIGUSR2, SIGALRM};
    setpgid(0, 0);
    for (size_t i = 0; i < sizeof reset / sizeof reset[0]; i++)
        signal(reset[i], SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(137);   // it died before the request was in force
}

int64_t process_end_ns(int64_t timeout_ns)
{
    int64_t end_ns;
    bool never =
        timeout_ns <= 0 || __builtin_add_overflow(clock_monotonic_ns(clock_real()), timeout_ns, &end_ns);
    return never ? INT64_MAX : end_ns;
}

int process_poll_ms(int64_t end_ns, int longest_ms)
{
    if (end_ns == INT64_MAX)
        return longest_ms;
    int64_t left = end_ns - clock_monotonic_ns(clock_real());
    int64_t left_ms = left <= 0 ? 0 : (left + 999999) / 1000000;
    return left_ms < longest_ms ? (int)left_ms : longest_ms;
}

void process_kill_group(pid_t id, int signal)
{
    // The group exists once the child or we have made it; the child alone is the fallback.
    if (id > 0 && kill(-id, signal) != 0)
        kill(id, signal);
}

ProcessResult process_result_of(int status)
{
    if (WIFSIGNALED(status))
        return (ProcessResult){.exit_code = -1, .signal = WTERMSIG(status)};
    return (ProcessResult){.exit_code = WEXITSTATUS(status)};
}

int process_wait_until(pid_t id, int64_t end_ns, int *ret_status)
{
    int64_t pause_ns = 200000;
    for (;;) {
        pid_t got = waitpid(id, ret_status, end_ns == INT64_MAX ? 0 : WNOHANG);
        if (got == id)
            return 1;
        if (got < 0 && errno != EINTR)
            return -1;
        if (got == 0) {
            if (clock_monotonic_ns(clock_real()) >= end_ns)
                return 0;
            clock_sleep_ns(clock_real(), pause_ns);
            pause_ns = pause_ns < 10000000 ? pause_ns * 2 : pause_ns;
        }
    }
}

// Everything of an account that needs NSS, looked up before the fork: a child may only make system calls.
typedef struct Account {
    bool drop;
    uid_t uid;
    gid_t gid;
    gid_t groups[GROUPS_MAXIMUM];
    int group_count;
} Account;

static bool find_account(const char *user, Account *ret_account, Error *error)
{
    *ret_account = (Account){.drop = user != NULL, .group_count = GROUPS_MAXIMUM};
    if (!user)
        return true;
    if (!process_find_account(user, &ret_account->uid, &ret_account->gid, error))
        return false;
    if (getgrouplist(user, ret_account->gid, ret_account->groups, &ret_account->group_count) < 0)
        return FAIL(error, ERROR_CONFIG, 0, "account '%s' is in more than %d groups", user, GROUPS_MAXIMUM);
    return true;
}

typedef struct Pipes {
    int output[2], errors[2],
        start[2];   // start carries the errno of a failed exec; it closes when exec succeeds
} Pipes;

static void close_end(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void close_pipes(Pipes *pipes)
{
    for (int i = 0; i < 2; i++) {
        close_end(&pipes->output[i]);
        close_end(&pipes->errors[i]);
        close_end(&pipes->start[i]);
    }
}

static bool open_pipes(const ProcessSpec *spec, Pipes *ret_pipes, Error *error)
{
    *ret_pipes = (Pipes){{-1, -1}, {-1, -1}, {-1, -1}};
    bool shared = spec->errors && spec->errors == spec->output;
    if (pipe2(ret_pipes->start, O_CLOEXEC) != 0 ||
        (spec->output && pipe2(ret_pipes->output, O_CLOEXEC) != 0) ||
        (spec->errors && !shared && pipe2(ret_pipes->errors, O_CLOEXEC) != 0)) {
        int code = errno;
        close_pipes(ret_pipes);
        return FAIL(error, ERROR_IO, code, "could not make a pipe for program '%s'", spec->argv[0]);
    }
    return true;
}

static bool become(const Account *account)
{
    return !account->drop || (setgroups((size_t)account->group_count, account->groups) == 0 &&
                              setresgid(account->gid, account->gid, account->gid) == 0 &&
                              setresuid(account->uid, account->uid, account->uid) == 0);
}

static _Noreturn void run_child(const ProcessSpec *spec, const Account *account, const Pipes *pipes,
                                pid_t parent)
{
    process_enter_child(parent);
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    int output = pipes->output[1] >= 0 ? pipes->output[1] : nothing;
    int errors = pipes->errors[1] >= 0 ? pipes->errors[1] : spec->errors ? output : nothing;
    bool ok = nothing >= 0 && dup2(nothing, 0) >= 0 && dup2(output, 1) >= 0 && dup2(errors, 2) >= 0;
    ok = ok && (!spec->directory || chdir(spec->directory) == 0) && become(account);
    if (ok) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);   // a change of account has cleared it
        close_range(3, ~0u, CLOSE_RANGE_CLOEXEC);
        char *const *argv = (char *const *)spec->argv;
        execvpe(argv[0], argv, spec->environment ? (char *const *)spec->environment : environ);
    }
    int code = errno;
    ssize_t written = write(pipes->start[1], &code, sizeof code);
    _exit(written == sizeof code ? 126 : 127);
}

// The errno with which the child failed to become the program, 0 when it did.
static int read_start(int fd)
{
    int code = 0;
    ssize_t got;
    do
        got = read(fd, &code, sizeof code);
    while (got < 0 && errno == EINTR);
    return got == sizeof code ? code : 0;
}

// Reads once; false at the end of the pipe. Past the Text's maximum the bytes are dropped and its flag stays.
static bool drain(int fd, Text *into)
{
    char block[DRAIN_BYTES];
    ssize_t got = read(fd, block, sizeof block);
    if (got > 0) {
        size_t room = into->maximum - into->length, length = (size_t)got;
        text_add_bytes(into, block, length < room ? length : room);
        into->failed = into->failed || length > room;
    }
    return got > 0 || (got < 0 && (errno == EINTR || errno == EAGAIN));
}

// Until the program has ended and what it wrote is read. A grandchild may keep a pipe open, or fill it for
// ever: it is not waited for, and after the end no more is read than the pipes can have held.
static bool watch(pid_t id, const ProcessSpec *spec, Pipes *pipes, ProcessResult *ret_result)
{
    int64_t end_ns = process_end_ns(spec->timeout_ns);
    struct pollfd polled[2] = {{pipes->output[0], POLLIN, 0}, {pipes->errors[0], POLLIN, 0}};
    Text *const into[2] = {spec->output, spec->errors};
    int status = 0, ended = 0, rounds_left = PIPE_BYTES / DRAIN_BYTES;
    bool timed_out = false;
    while (!ended || polled[0].fd >= 0 || polled[1].fd >= 0) {
        int ready = 0;
        if (polled[0].fd >= 0 || polled[1].fd >= 0)
            ready = poll(polled, 2, ended ? 0 : process_poll_ms(end_ns, POLL_MS));
        for (int i = 0; i < 2 && ready > 0; i++)
            if (polled[i].fd >= 0 && polled[i].revents && !drain(polled[i].fd, into[i]))
                polled[i].fd = -1;
        if (ended && (ready <= 0 || --rounds_left == 0))
            break;
        bool silent = polled[0].fd < 0 && polled[1].fd < 0;
        if (!ended)
            ended = process_wait_until(id, silent ? end_ns : 0, &status);
        if (ended < 0)
            return false;
        if (!ended && clock_monotonic_ns(clock_real()) >= end_ns) {
            process_kill_group(id, SIGKILL);
            timed_out = true;
            ended = process_wait_until(id, INT64_MAX, &status);
        }
    }
    *ret_result = process_result_of(status);
    ret_result->timed_out = timed_out;
    return true;
}

bool process_run(const ProcessSpec *spec, ProcessResult *ret_result, Error *error)
{
    Account account;
    Pipes pipes;
    if (!find_account(spec->user, &account, error) || !open_pipes(spec, &pipes, error))
        return false;
    pid_t parent = getpid();
    pid_t id = process_fork_quietly();
    if (id == 0)
        run_child(spec, &account, &pipes, parent);
    if (id < 0) {
        int code = errno;
        close_pipes(&pipes);
        return FAIL(error, ERROR_UNAVAILABLE, code, "could not fork for program '%s'", spec->argv[0]);
    }
    setpgid(id, id);   // also here, so that the group exists before anybody kills it
    close_end(&pipes.output[1]);
    close_end(&pipes.errors[1]);
    close_end(&pipes.start[1]);
    int code = read_start(pipes.start[0]), status;
    bool ok;
    if (code != 0) {
        process_wait_until(id, INT64_MAX, &status);
        ok = FAIL(error, code == EPERM || code == EACCES ? ERROR_DENIED : ERROR_UNAVAILABLE, code,
                  "could not start program '%s'", spec->argv[0]);
    } else {
        ok = watch(id, spec, &pipes, ret_result) ||
             FAIL(error, ERROR_IO, errno, "could not wait for program '%s'", spec->argv[0]);
    }
    close_pipes(&pipes);
    return ok;
}
