// process_internal - what process.c and process_fork.c share about children.
#ifndef FEDGATE_BASE_PROCESS_INTERNAL_H
#define FEDGATE_BASE_PROCESS_INTERNAL_H

#include <fedgate/process.h>

// fork() with every signal held back, so that none can meet the parent's handlers in the child. The child
// calls process_enter_child, which lets them in; in the parent they are let in at once. errno is kept.
pid_t process_fork_quietly(void);

// In a fresh child: its own group, default signals, and death with the parent of this id.
void process_enter_child(pid_t parent);

// Waits for the child until the instant `end_ns` of the real monotonic clock (INT64_MAX: for ever).
// 1 ended (status in *ret_status), 0 still running, -1 cannot be waited for.
int process_wait_until(pid_t id, int64_t end_ns, int *ret_status);

int64_t process_end_ns(int64_t timeout_ns);           // 0: INT64_MAX
int process_poll_ms(int64_t end_ns, int longest_ms);  // how long a poll may wait
void process_kill_group(pid_t id, int signal);
ProcessResult process_result_of(int status);

#endif
