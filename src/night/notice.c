// notice - who is told of a night's end: a post for outcomes that need a person, and the metrics file.
//
// Called once, after the verdict is written, the pointer moved and the rows shipped; the run lock is still
// held, so everything is bounded in time. Whatever fails here is a line in the log and changes nothing. A
// notice says nothing of the host: paths keep their last part only, accounts are not named.
#include "night_internal.h"

#include <ctype.h>
#include <fedgate/remote.h>
#include <fedgate/report.h>
#include <signal.h>
#include <string.h>

enum { ACCOUNTS = 3, NOTICE_ID_SIZE = 64 };

// -- the body

static bool goes_on(char c)   // inside a word
{
    return isalnum((unsigned char)c) || c == '_' || c == '-';
}

// Length of the absolute path at `at`; 0: there is none. Behind a quote it may hold blanks.
static size_t path_length(const char *text, const char *at)
{
    char before = at > text ? at[-1] : ' ';
    if (*at != '/' || at[1] == '\0' || at[1] == ' ' || !strchr(" '\"(=", before))
        return 0;
    return strcspn(at, before == '\'' ? "'" : " '\",;)");
}

static size_t account_length(const char *text, const char *at, const char *const *accounts)
{
    if (at > text && goes_on(at[-1]))
        return 0;
    for (size_t i = 0; i < ACCOUNTS; i++)
        if (accounts[i][0] != '\0' && text_starts_with(at, accounts[i]) && !goes_on(at[strlen(accounts[i])]))
            return strlen(accounts[i]);
    return 0;
}

static void add_public(Text *out, const char *text, const char *const *accounts)
{
    size_t length;
    for (const char *at = text; *at; at++) {
        if ((length = path_length(text, at)) > 0) {
            const char *end = at + length, *last = end;
            while (last[-1] != '/')
                last--;
            text_add_bytes(out, last, (size_t)(end - last));
            at = end - 1;
        } else if ((length = account_length(text, at, accounts)) > 0) {
            text_add(out, "an account");
            at += length - 1;
        } else {
            text_add_char(out, *at);
        }
    }
}

static void put_reason(const Night *night, Json *notice)
{
    HoldState hold = {0};
    Error ignored = ERROR_INIT;
    if (!registry_hold_state(night->registry, &hold, &ignored))
        hold.who[0] = '\0';
    const char *const accounts[ACCOUNTS] = {process_account(), config_text(night->config, "owner"), hold.who};
    SCOPED_TEXT reason;
    text_init(&reason, 2 * sizeof night->reason);
    add_public(&reason, json_text_or(json_get(night->verdict, "reason"), ""), accounts);
    json_put_text(notice, "reason", text_string(&reason));
}

static void put_current(const Night *night, Json *notice)
{
    static const char *const keys[] = {"version", "kind", "since"};
    Json *current = json_make_object();
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        json_put(current, keys[i], json_copy_deep(json_get(json_get(night->verdict, "current"), keys[i])));
    json_put(notice, "current", current);
}

static Json *make_notice(const Night *night, const char *id)
{
    static const char *const same[] = {"model",      "slot",          "run",  "version",  "outcome",
                                       "decided_by", "previous_good", "next", "deadline", "ended"};
    Json *notice = json_make_object();
    json_put_text(notice, "schema", "fedgate.notice/1");
    json_put_text(notice, "id", id);
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
        json_put(notice, same[i], json_copy_deep(json_get(night->verdict, same[i])));
    put_reason(night, notice);
    put_current(night, notice);
    return notice;
}

// -- posting

static void warn(const Night *night, const char *event, const Error *failed)
{
    log_event(night->log, LOG_WARN, event, failed->message, LOG_FIELD_TEXT("hint", failed->hint));
}

static void log_lines(const Night *night, const char *lines)
{
    char line[1024];
    while (*lines) {
        size_t length = strcspn(lines, "\n");
        if (!text_print(line, sizeof line, "%.*s", (int)length, lines))
            line[sizeof line - 1] = '\0';
        log_event(night->log, LOG_WARN, "night.notify", line);
        lines += length + (lines[length] == '\n');
    }
}

// A full disk must not keep the news back.
static void post_unwritten(const Night *night, const RemoteTarget *target, const char *id, const char *body)
{
    RemotePost post = {.url = target->url,
                       .ca_file = target->ca_file,
                       .body = body,
                       .id = id,
                       .key = target->key_length > 0 ? target->key : NULL,
                       .key_length = target->key_length,
                       .timeout_ns = target->timeout_ns,
                       .time_s = clock_wall_ns(clock_real()) / 1000000000};
    int status;
    bool again;
    Error failed = ERROR_INIT;
    if (!remote_post(&post, &status, &again, &failed))
        warn(night, "night.notify", &failed);
}

// The notice of this night, when its outcome is to be told. The end is in the id: a run that is resumed and
// fails twice has two. True when it lies in the outbox; ret_body is what to post if not, else empty.
static bool write_notice(const Night *night, const char *outbox, char ret_id[static NOTICE_ID_SIZE],
                         Text *ret_body)
{
    Error failed = ERROR_INIT;
    ret_id[0] = '\0';
    if (!config_list_has(night->config, "notify.on", night_outcome_name(night->outcome)))
        return false;
    if (!text_print(ret_id, NOTICE_ID_SIZE, "%s-%s-%lld", night->run, night_outcome_name(night->outcome),
                    (long long)(night->ended_wall_ns / 1000000000)))
        BUG("id of a notice too long");
    OWNED(Json, json_free) *notice = make_notice(night, ret_id);
    json_write(notice, JSON_INDENTED, ret_body);
    text_add_char(ret_body, '\n');
    if (!remote_outbox_put(outbox, ret_id, text_string(ret_body), &failed)) {
        warn(night, "night.notify", &failed);
        return false;
    }
    if (fault_set("notify.kill"))
        raise(SIGKILL);
    return true;
}

static void post_notices(Night *night, const char *outbox, OutboxResult *result)
{
    char id[NOTICE_ID_SIZE];
    Error failed = ERROR_INIT;
    RemoteTarget target;
    SCOPED_TEXT body, report;
    text_init(&body, REMOTE_BODY_MAX);
    text_init(&report, 64 * 1024);
    bool written = write_notice(night, outbox, id, &body);
    if (!remote_target_read(night->config, &target, &failed)) {   // it was good when the night began
        warn(night, "night.notify", &failed);
        if (!text_copy(result->problem, sizeof result->problem, failed.message))
            BUG("problem too long");
        return;
    }
    if (body.length > 0 && !written)
        post_unwritten(night, &target, id, text_string(&body));
    if (!remote_outbox_send(outbox, &target, written ? id : NULL, clock_real(), result, &report, &failed))
        warn(night, "night.notify", &failed);
    remote_target_done(&target);
    log_lines(night, text_string(&report));
    if (result->sent > 0)
        log_event(night->log, LOG_INFO, "night.notify", "notices posted",
                  LOG_FIELD_INTEGER("count", result->sent));
}

// -- metrics

static void write_metrics(const Night *night, const ShipResult *shipped, int waiting, int refused)
{
    char path[FILE_PATH_SIZE];
    Error failed = ERROR_INIT;
    HoldState hold = {0};
    OWNED(Json, json_free) *record = night_run_record(night);
    SCOPED_TEXT text;
    text_init(&text, 1 << 20);
    if (!registry_hold_state(night->registry, &hold, &failed))
        hold.held = true;   // as a promotion would take it
    error_clear(&failed);
    const ReportNight known = {.outcomes = night_outcome_names,
                               .record = record,
                               .held = hold.held,
                               .rows = shipped->rows,
                               .acknowledged = shipped->acknowledged,
                               .waiting = waiting,
                               .refused = refused};
    report_metrics(night->verdict, &known, &text);
    const char *own = config_text(night->config, "notify.metrics_file");
    if (!file_join(path, night->options->home, own[0] != '\0' ? own : "metrics.prom", &failed) ||
        !text_ok(&text, &failed) || !file_write_atomic(path, text_string(&text), text.length, 0644, &failed))
        warn(night, "night.metrics", &failed);
}

int night_tell(Night *night, const ShipResult *shipped)
{
    char outbox[FILE_PATH_SIZE];
    Error failed = ERROR_INIT;
    OutboxResult result = {0};
    int waiting = -1, refused = -1;
    if (!file_join(outbox, night->options->home, "outbox", &failed)) {
        warn(night, "night.notify", &failed);
        return 0;
    }
    bool told = config_text(night->config, "notify.url")[0] != '\0';
    if (told)
        post_notices(night, outbox, &result);
    if (!remote_outbox_count(outbox, &waiting, &refused, &failed))
        warn(night, "night.notify", &failed);
    write_metrics(night, shipped, waiting, refused);
    if (!told || waiting <= 0)
        return 0;
    Json *notices = json_make_object();
    json_put_integer(notices, "waiting", waiting);
    json_put_text(notices, "problem",
                  result.problem[0] != '\0' ? result.problem : "more than one night posts");
    json_put(night->verdict, "notices", notices);
    return waiting;
}
