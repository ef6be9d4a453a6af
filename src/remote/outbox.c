// outbox - notices on disk until a receiver took them: written before the post, removed after it.
//
// A process killed anywhere between leaves the notice; the next run posts it again, same id, same bytes, and
// the receiver drops what it has seen. Names sort by time, so the oldest is the first of the list.
#include "remote_internal.h"

#include <errno.h>
#include <fedgate/file.h>
#include <string.h>
#include <sys/stat.h>

static const char waiting_end[] = ".json", refused_end[] = ".refused.json";
enum { ID_SIZE = 64, TIMEOUTS_IN_ALL = 3 };
static const int64_t day_ns = INT64_C(86400) * 1000000000;

typedef struct Round {   // one call of remote_outbox_send
    const char *folder;
    const RemoteTarget *target;
    Clock *clock;   // wall: age and time stamp; the time bound is real
    int64_t end_mono_ns;
    OutboxResult *result;
    Text *report;
} Round;

static bool name_file(const char *folder, const char *id, const char *ending, char *ret_path, Error *error)
{
    char name[ID_SIZE + sizeof refused_end];
    if (!text_is_name(id) || !text_print(name, sizeof name, "%s%s", id, ending))
        return FAIL(error, ERROR_INTERNAL, 0, "the id of a notice is not a name");
    return file_join(ret_path, folder, name, error);
}

// The id of a file with this ending; anything else in the folder is not ours.
static bool find_id(const char *name, const char *ending, char ret_id[static ID_SIZE])
{
    char id[ID_SIZE];
    if (!text_ends_with(name, ending) || (ending == waiting_end && text_ends_with(name, refused_end)) ||
        !text_print(id, sizeof id, "%.*s", (int)(strlen(name) - strlen(ending)), name) || !text_is_name(id))
        return false;
    memcpy(ret_id, id, sizeof id);
    return true;
}

static int count_ending(const FileList *list, const char *ending)
{
    char id[ID_SIZE];
    int count = 0;
    for (size_t i = 0; i < list->count; i++)
        count += find_id(list->names[i], ending, id);
    return count;
}

static bool list_folder(const char *folder, FileList *ret_list, Error *error)
{
    *ret_list = (FileList){0};
    struct stat status;
    if (stat(folder, &status) != 0 && errno == ENOENT)
        return true;
    return file_list(folder, ret_list, error);
}

bool remote_outbox_count(const char *folder, int *ret_waiting, int *ret_refused, Error *error)
{
    FileList list;
    if (!list_folder(folder, &list, error))
        return false;
    *ret_waiting = count_ending(&list, waiting_end);
    *ret_refused = count_ending(&list, refused_end);
    file_list_done(&list);
    return true;
}

bool remote_outbox_put(const char *folder, const char *id, const char *body, Error *error)
{
    char path[FILE_PATH_SIZE];
    size_t length = strlen(body);
    if (length > REMOTE_BODY_MAX)
        return FAIL(error, ERROR_INTERNAL, 0, "a notice of %zu bytes is longer than the limit of %d", length,
                    REMOTE_BODY_MAX);
    return name_file(folder, id, waiting_end, path, error) && file_make_directory(folder, 0750, error) &&
           file_write_atomic(path, body, length, 0640, error);
}

// -- what is kept no longer

static bool is_old(const Round *round, const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && clock_wall_ns(round->clock) / 1000000000 - status.st_mtim.tv_sec >
                                           OUTBOX_DAYS * (day_ns / 1000000000);
}

static void drop(Round *round, const char *id, const char *path, const char *why)
{
    Error failed = ERROR_INIT;
    if (!file_remove(path, &failed)) {
        text_add_format(round->report, "notice '%s' could not be dropped: %s\n", id, failed.message);
        return;
    }
    round->result->dropped++;
    text_add_format(round->report, "notice '%s' was dropped: %s\n", id, why);
}

static void trim(Round *round, const FileList *list, const char *ending)
{
    char id[ID_SIZE], path[FILE_PATH_SIZE], many[64];
    Error failed = ERROR_INIT;
    int left = count_ending(list, ending);
    if (!text_print(many, sizeof many, "more than %d were kept", OUTBOX_MOST))
        BUG("limit of the outbox too long");
    for (size_t i = 0; i < list->count; i++) {
        if (!find_id(list->names[i], ending, id) || !name_file(round->folder, id, ending, path, &failed))
            continue;
        bool over = left > OUTBOX_MOST;
        if (over || is_old(round, path)) {
            drop(round, id, path, over ? many : "nobody took it for a month");
            left--;
        }
    }
}

// -- posting

static void set_aside(Round *round, const char *id, const char *path)
{
    char aside[FILE_PATH_SIZE];
    Error failed = ERROR_INIT;
    if (!name_file(round->folder, id, refused_end, aside, &failed) ||
        !file_rename_over(path, aside, &failed) || !file_sync_directory(round->folder, &failed)) {
        text_add_format(round->report, "notice '%s' could not be set aside: %s\n", id, failed.message);
        return;
    }
    round->result->refused++;
    text_add_format(round->report, "notice '%s' was refused and is kept as '%s%s': %s\n", id, id, refused_end,
                    round->result->problem);
}

static void note_problem(Round *round, const char *id, const Error *failed)
{
    char *problem = round->result->problem;
    if (!text_copy(problem, sizeof round->result->problem, failed->message))
        BUG("problem too long");
    text_add_format(round->report, "notice '%s': %s\n", id, failed->message);
}

// One attempt; false when nothing answered, so that the others would only cost time.
static bool post_one(Round *round, const char *id)
{
    char path[FILE_PATH_SIZE];
    Error failed = ERROR_INIT;
    SCOPED_TEXT body;
    text_init(&body, REMOTE_BODY_MAX);
    if (!name_file(round->folder, id, waiting_end, path, &failed) || !file_read(path, &body, &failed)) {
        note_problem(round, id, &failed);
        return true;
    }
    const RemoteTarget *target = round->target;
    int64_t left_ns = round->end_mono_ns - clock_monotonic_ns(clock_real());
    RemotePost post = {.url = target->url,
                       .ca_file = target->ca_file,
                       .body = text_string(&body),
                       .id = id,
                       .key = target->key_length > 0 ? target->key : NULL,
                       .key_length = target->key_length,
                       .timeout_ns = left_ns < target->timeout_ns ? left_ns : target->timeout_ns,
                       .time_s = clock_wall_ns(round->clock) / 1000000000};
    int status = 0;
    bool again = false;
    if (remote_post(&post, &status, &again, &failed)) {
        round->result->sent++;
        if (!file_remove(path, &failed))   // posted again by the next run: the receiver knows its id
            note_problem(round, id, &failed);
        return true;
    }
    note_problem(round, id, &failed);
    if (!again)
        set_aside(round, id, path);
    return status != 0;
}

static void post_all(Round *round, const FileList *list, const char *first)
{
    char id[ID_SIZE];
    int attempts = 0;
    bool answered = true;
    for (size_t i = 0; i <= list->count && answered; i++) {   // `first` stands before the list
        const char *name = i == 0 ? first : list->names[i - 1];
        if (i == 0 ? name == NULL || !text_copy(id, sizeof id, name)
                   : !find_id(name, waiting_end, id) || text_equal(id, first))
            continue;
        if (attempts++ == OUTBOX_ATTEMPTS || clock_monotonic_ns(clock_real()) >= round->end_mono_ns)
            return;
        answered = post_one(round, id);
    }
}

bool remote_outbox_send(const char *folder, const RemoteTarget *target, const char *first, Clock *clock,
                        OutboxResult *ret_result, Text *report, Error *error)
{
    OutboxResult result = {0};
    Round round = {.folder = folder,
                   .target = target,
                   .clock = clock,
                   .end_mono_ns = clock_monotonic_ns(clock_real()) + TIMEOUTS_IN_ALL * target->timeout_ns,
                   .result = &result,
                   .report = report};
    FileList list;
    int refused;
    if (!list_folder(folder, &list, error))
        return false;
    trim(&round, &list, waiting_end);
    trim(&round, &list, refused_end);
    file_list_done(&list);
    if (!list_folder(folder, &list, error))
        return false;
    if (target->url[0] != '\0')
        post_all(&round, &list, first);
    file_list_done(&list);
    if (!remote_outbox_count(folder, &result.waiting, &refused, error))
        return false;
    *ret_result = result;
    return true;
}
