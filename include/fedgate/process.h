// process.h - child processes: run a program with captured output and a deadline, or fork our own work.
//
// Children get their own process group, default signals, PR_SET_PDEATHSIG(SIGKILL) and no locks; a program
// also gets no descriptor above 2, stdin from /dev/null and a scrubbed environment where asked. Nothing is
// ever run through a shell. The death signal follows the thread that forked: fork from one that lives as long
// as the child.
#ifndef FEDGATE_PROCESS_H
#define FEDGATE_PROCESS_H

#include <fedgate/clock.h>
#include <fedgate/text.h>
#include <sys/types.h>

typedef struct ProcessResult {
    int exit_code;   // -1 when ended by a signal
    int signal;      // 0 when it exited
    bool timed_out;  // killed by our deadline
} ProcessResult;

typedef struct ProcessSpec {
    const char *const *argv;         // NULL-terminated; argv[0] searched in PATH when it has no slash
    const char *const *environment;  // NULL: ours; else exactly these "NAME=value", NULL-terminated
    const char *directory;           // NULL: ours
    const char *user;                // NULL: stay; else drop to this account (needs root); groups initialised
    int64_t timeout_ns;              // 0: none; on the real clock
    Text *output;   // stdout, NULL: discarded; past its maximum bytes are dropped and its flag is set
    Text *errors;   // stderr likewise; may equal output
} ProcessSpec;

// Runs to the end; grandchildren that keep a pipe open are not waited for. On timeout the group is killed.
// False only when it could not be started or watched; look at the result for how it ended.
WARN_UNUSED bool process_run(const ProcessSpec *spec, ProcessResult *ret_result, Error *error);

// Forks `work(context, report_fd)`; its return value is the exit code. The parent reads the report pipe.
// The child holds none of the parent's locks, ends by _exit without exit handlers and dies with the parent.
typedef struct Process Process;
typedef int (*ProcessWork)(void *context, int report_fd);
WARN_UNUSED Process *process_fork(ProcessWork work, void *context, Error *error);
// Next whole line the child wrote, without the newline; lines over `size` are ERROR_DATA. Waits at most
// timeout_ns. Returns 1 line, 0 timeout, -1 end of pipe, -2 error.
int process_read_line(Process *process, char *ret_line, size_t size, int64_t timeout_ns, Error *error);
pid_t process_id(const Process *process);
void process_signal(Process *process, int signal);             // to its group
// timeout_ns 0: none; on timeout kills the group; ERROR_UNAVAILABLE when it does not end then either. Read
// the pipe to its end first: a child may wait for room in it.
WARN_UNUSED bool process_wait(Process *process, int64_t timeout_ns, ProcessResult *ret_result, Error *error);
void process_free(Process *process);   // kills and reaps what is left, as far as it ends
OWNED_RELEASE(Process, process_free)

// Name of getuid(), or its number; from the kernel, never the environment.
const char *process_account(void);
uid_t process_uid(void);
// Name or number; ERROR_CONFIG when unknown.
WARN_UNUSED bool process_find_account(const char *name, uid_t *ret_uid, gid_t *ret_gid, Error *error);
int64_t process_peak_bytes(void);           // VmHWM of this process, bytes; -1 unknown
int64_t process_resident_bytes(void);       // VmRSS
int process_open_files(void);               // entries of /proc/self/fd; -1 unknown
int process_threads(void);

// True: this thread becomes a batch job (SCHED_BATCH) and preempts nobody when it wakes. False: as before.
// For threads beside a measurement. Ignored where the system refuses.
void process_yield_to_others(bool yield);

#endif
