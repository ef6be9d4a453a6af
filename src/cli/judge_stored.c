// judge_stored - see judge_stored.h.
#include "judge_stored.h"

#include <fcntl.h>
#include <fedgate/archive.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { VERDICT_MAX_BYTES = 10 * 1000 * 1000 };

// -- which

typedef struct Nights {
    StoredNight *list;
    size_t count, room;
} Nights;

static bool add_night(Nights *nights, const char *directory, const char *name, bool of_home, Error *error)
{
    if (nights->count == nights->room) {
        size_t room = nights->room == 0 ? 16 : 2 * nights->room;
        StoredNight *list = realloc(nights->list, room * sizeof *list);
        if (!list)
            return FAIL(error, ERROR_MEMORY, 0, "could not allocate a list of %zu nights", room);
        nights->list = list;
        nights->room = room;
    }
    StoredNight *night = &nights->list[nights->count];
    night->of_home = of_home;
    nights->count++;
    if (directory)
        return file_join(night->evidence, directory, name, error);
    return text_copy(night->evidence, sizeof night->evidence, name) ||
           FAIL(error, ERROR_USAGE, 0, "path '%.80s...' is longer than %d bytes", name, FILE_PATH_SIZE - 1);
}

static bool add_home(Nights *nights, const char *runs, Error *error)
{
    FileList list;
    char run[FILE_PATH_SIZE];
    if (!file_list(runs, &list, error))
        return false;
    bool good = true;
    for (size_t i = 0; good && i < list.count; i++)
        good = file_join(run, runs, list.names[i], error) &&
               (!file_is_directory(run) || add_night(nights, run, "evidence.json", true, error));
    file_list_done(&list);
    return good;
}

static bool add_argument(Nights *nights, const char *path, Error *error)
{
    char runs[FILE_PATH_SIZE], evidence[FILE_PATH_SIZE];
    if (!file_is_directory(path))
        return add_night(nights, NULL, path, false, error);
    if (!file_join(runs, path, "runs", error) || !file_join(evidence, path, "evidence.json", error))
        return false;
    if (file_exists(evidence))
        return add_night(nights, path, "evidence.json", false, error);
    if (file_is_directory(runs))
        return add_home(nights, runs, error);
    (void)FAIL(error, ERROR_USAGE, 0,
               "folder '%s' is neither a run nor a home: no 'evidence.json', no 'runs'", path);
    return error_hint(error, "Give evidence files, run directories (HOME/runs/RUN) or homes.");
}

bool stored_find(const char *const *arguments, size_t count, StoredNight **ret_nights, size_t *ret_count,
                 Error *error)
{
    Nights nights = {0};
    for (size_t i = 0; i < count; i++)
        if (!add_argument(&nights, arguments[i], error)) {
            free(nights.list);
            return false;
        }
    *ret_nights = nights.list;
    *ret_count = nights.count;
    return true;
}

// -- reading

static bool collect(void *context, const void *bytes, uint64_t length, Error *error)
{
    (void)error;
    text_add_bytes(context, bytes, (size_t)length);
    return true;
}

static Json *read_gzip(int fd, Error *error)
{
    SCOPED_TEXT bytes;
    text_init(&bytes, EVIDENCE_MAX_BYTES);
    if (!archive_stream_gzip(fd, EVIDENCE_MAX_BYTES, collect, &bytes, error))
        return NULL;
    return json_parse(text_string(&bytes), bytes.length, EVIDENCE_MAX_BYTES, error);
}

static Json *read_any(const char *path, Error *error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool packed = fd >= 0 && archive_is_gzip(fd);
    Json *json = packed ? read_gzip(fd, error) : json_read_file(path, EVIDENCE_MAX_BYTES, error);
    if (packed && !json)
        error_prefix(error, "file '%s'", path);
    if (fd >= 0)
        close(fd);
    return json;
}

Json *stored_read(const char *path, Error *error)
{
    Json *evidence = read_any(path, error);
    const char *schema = json_text_or(json_get(evidence, "schema"), "");
    if (!evidence || text_equal(schema, EVIDENCE_SCHEMA))
        return evidence;
    (void)FAIL(error, ERROR_DATA, 0, "file '%s' is not evidence: its schema is '%.60s', wanted '%s'", path,
               schema, EVIDENCE_SCHEMA);
    json_free(evidence);
    return NULL;
}

Json *stored_verdict(const char *evidence_path)
{
    char path[FILE_PATH_SIZE];
    Error ignored = ERROR_INIT;
    const char *slash = strrchr(evidence_path, '/');
    if (!slash ||
        !text_print(path, sizeof path, "%.*s/verdict.json", (int)(slash - evidence_path), evidence_path) ||
        !file_exists(path))
        return NULL;
    Json *verdict = json_read_file(path, VERDICT_MAX_BYTES, &ignored);
    if (text_equal(json_text_or(json_get(verdict, "schema"), ""), "fedgate.verdict/1"))
        return verdict;
    json_free(verdict);
    return NULL;
}

// -- comparing

static const Json *check_named(const Json *checks, const char *name)
{
    for (size_t i = 0; i < json_count(checks); i++)
        if (text_equal(json_text_or(json_get(json_at(checks, i), "name"), ""), name))
            return json_at(checks, i);
    return NULL;
}

static const char *outcome_of(const Json *check)
{
    return json_text_or(json_get(check, "outcome"), "not judged");
}

static bool blocks(const GateCheck *check, const Json *judged)
{
    Outcome outcome;
    bool known = gate_find_outcome(outcome_of(judged), &outcome),
         passes = known && (outcome == OUTCOME_PASS ||
                            (outcome == OUTCOME_NOT_APPLICABLE && check->not_applicable_passes));
    return json_bool_or(json_get(judged, "required"), true) && !passes;
}

// What the early checks of the verdict come to. A verdict that no check decided although all passed says so
// itself when the gate was broken; a hold or a bar left the judgement as it was.
static const char *outcome_then(const Json *verdict)
{
    const Json *checks = json_get(verdict, "checks");
    bool blocked = false, failed = false;
    for (size_t i = 0; i < gate_check_count; i++) {
        const Json *judged = check_named(checks, gate_checks[i].name);
        if (gate_checks[i].late || !judged || !blocks(&gate_checks[i], judged))
            continue;
        blocked = true;
        failed = failed || text_equal(outcome_of(judged), gate_outcome_name(OUTCOME_FAIL));
    }
    const char *decided = json_text_or(json_get(verdict, "decided_by"), NULL);
    bool broken = !decided && text_equal(json_text_or(json_get(verdict, "outcome"), ""), "inconclusive");
    return failed ? "refuse" : blocked || broken ? "cannot_judge" : "pass";
}

static Json *changed_checks(const Json *verdict, const Json *judgement)
{
    Json *changed = json_make_array();
    for (size_t i = 0; i < gate_check_count; i++) {
        const char *name = gate_checks[i].name;
        const Json *then = check_named(json_get(verdict, "checks"), name),
                   *now = check_named(json_get(judgement, "checks"), name);
        if (gate_checks[i].late || text_equal(outcome_of(then), outcome_of(now)))
            continue;
        Json *row = json_make_object();
        json_put_text(row, "name", name);
        json_put_text(row, "then", outcome_of(then));
        json_put_text(row, "now", outcome_of(now));
        json_put_text(row, "reason", json_text_or(json_get(now, "reason"), ""));
        json_add(changed, row);
    }
    return changed;
}

static void copy_member(Json *to, const Json *from, const char *key)
{
    json_put(to, key, json_copy_deep(json_get(from, key)));
}

Json *stored_compare(const char *path, const Json *evidence, const Json *judgement, const Json *verdict)
{
    Json *row = json_make_object(), *then = NULL;
    bool judged_then = json_count(json_get(verdict, "checks")) > 0;
    json_put_text(row, "file", path);
    for (size_t i = 0; i < 3; i++)
        json_put_text(
            row, (const char *const[]){"slot", "run", "version"}[i],
            json_text_or(json_get(evidence, (const char *const[]){"slot", "run", "version"}[i]), NULL));
    if (judged_then) {
        then = json_make_object();
        json_put_text(then, "outcome", outcome_then(verdict));
        copy_member(then, verdict, "decided_by");
        copy_member(then, verdict, "reason");
        copy_member(then, verdict, "policy_digest");
    }
    bool otherwise =
        judged_then && !text_equal(outcome_then(verdict), json_text_or(json_get(judgement, "outcome"), ""));
    json_put(row, "then", then);
    json_put(row, "otherwise", judged_then ? json_make_bool(otherwise) : NULL);
    json_put(row, "changed", judged_then ? changed_checks(verdict, judgement) : json_make_array());
    json_put(row, "judgement", json_copy_deep(judgement));
    return row;
}
