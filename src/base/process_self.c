// process_self - this process: its account, memory, descriptors and threads, as the kernel tells them.
#include <fedgate/file.h>
#include <fedgate/process.h>
#include <grp.h>
#include <pwd.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ACCOUNT_BYTES = 16 * 1024 };

const char *process_account(void)
{
    static _Thread_local char name[64];
    struct passwd entry, *found = NULL;
    char room[ACCOUNT_BYTES];
    uid_t uid = getuid();
    if (getpwuid_r(uid, &entry, room, sizeof room, &found) != 0 || !found ||
        !text_copy(name, sizeof name, entry.pw_name))
        snprintf(name, sizeof name, "%lu", (unsigned long)uid);
    return name;
}

uid_t process_uid(void)
{
    return getuid();
}

bool process_find_account(const char *name, uid_t *ret_uid, gid_t *ret_gid, Error *error)
{
    struct passwd entry, *found = NULL;
    char room[ACCOUNT_BYTES];
    int64_t number;
    int code = getpwnam_r(name, &entry, room, sizeof room, &found);
    if (!found && text_to_int64(name, &number) && number >= 0 && number < UINT32_MAX)
        code = getpwuid_r((uid_t)number, &entry, room, sizeof room, &found);
    if (!found && code != 0)
        return FAIL(error, ERROR_UNAVAILABLE, code, "could not look up account '%s'", name);
    if (!found)
        return FAIL(error, ERROR_CONFIG, 0, "unknown account '%s'", name);
    *ret_uid = entry.pw_uid;
    *ret_gid = entry.pw_gid;
    return true;
}

// The number after "<key>:" in /proc/self/status, -1 when it is not there.
static int64_t read_status(const char *key)
{
    SCOPED_TEXT text;
    text_init(&text, 64 * 1024);
    Error ignored = ERROR_INIT;
    char wanted[32];
    if (!file_read("/proc/self/status", &text, &ignored) || !text_print(wanted, sizeof wanted, "\n%s:", key))
        return -1;
    const char *line = strstr(text_string(&text), wanted);
    char *end;
    if (!line)
        return -1;
    line += strlen(wanted);
    long long value = strtoll(line, &end, 10);
    return end == line ? -1 : value;
}

int64_t process_peak_bytes(void)
{
    int64_t kilobytes = read_status("VmHWM");
    return kilobytes < 0 ? -1 : kilobytes * 1024;
}

int64_t process_resident_bytes(void)
{
    int64_t kilobytes = read_status("VmRSS");
    return kilobytes < 0 ? -1 : kilobytes * 1024;
}

int process_threads(void)
{
    return (int)read_status("Threads");
}

int process_open_files(void)
{
    FileList list;
    Error ignored = ERROR_INIT;
    if (!file_list("/proc/self/fd", &list, &ignored))
        return -1;
    int count = (int)list.count - 1;   // without the descriptor that read them
    file_list_done(&list);
    return count;
}

void process_yield_to_others(bool yield)
{
    struct sched_param parameters = {.sched_priority = 0};
    (void)sched_setscheduler(0, yield ? SCHED_BATCH : SCHED_OTHER, &parameters);
}
