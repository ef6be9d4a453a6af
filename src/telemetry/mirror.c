// mirror.c - the database's copy of the pointer records: never the source of truth, so that rewriting either
// side shows.
//
// Before anything is written the copy is compared with the records: a copy behind is filled up, a copy ahead
// or with another digest is ERROR_INCONSISTENT. Rows enter only through fedgate.record_decision
// (migrations/).
#include "telemetry_internal.h"

#include <string.h>

static const Json *find_record(const Json *records, int64_t seq)
{
    for (size_t i = 0; i < json_count(records); i++) {
        const Json *record = json_at(records, i);
        if (json_integer_or(json_get(record, "seq"), -1) == seq)
            return record;
    }
    return NULL;
}

static bool check_records(const Json *records, int64_t *ret_last, Error *error)
{
    int64_t last = 0, seq;
    const char *digest;
    for (size_t i = 0; i < json_count(records); i++) {
        const Json *record = json_at(records, i);
        if (!json_get_integer(record, "seq", &seq, error) ||
            !json_get_text(record, "record_digest", &digest, error))
            return error_prefix(error, "pointer record");
        if (seq <= last)
            return FAIL(error, ERROR_DATA, 0, "pointer record %lld comes after %lld", (long long)seq,
                        (long long)last);
        last = seq;
    }
    *ret_last = last;
    return true;
}

// The copy holds nothing that the records do not; ret_copied: its highest sequence.
static bool compare(const ClientResult *copy, const Json *records, int64_t last, int64_t *ret_copied,
                    Error *error)
{
    int64_t copied = 0;
    for (int64_t i = 0; i < client_row_count(copy); i++) {
        copied = client_integer(copy, i, 0);
        if (copied > last) {
            FAIL(error, ERROR_INCONSISTENT, 0, "the database has pointer record %lld, the home ends at %lld",
                 (long long)copied, (long long)last);
            return error_hint(
                error,
                "The home may come from an old backup: compare fedgate history with table fedgate.decision.");
        }
        const Json *record = find_record(records, copied);
        const char *digest = json_text_or(json_get(record, "record_digest"), "");
        if (record != NULL && strcmp(digest, client_text(copy, i, 1)) != 0) {
            FAIL(error, ERROR_INCONSISTENT, 0,
                 "pointer record %lld differs: digest %.16s... in the home, %.16s... in the database",
                 (long long)copied, digest, client_text(copy, i, 1));
            return error_hint(error,
                              "One side was rewritten: compare fedgate history with table fedgate.decision.");
        }
    }
    *ret_copied = copied;
    return true;
}

static bool add_missing(Client *client, const char *home_id, const Json *records, int64_t copied,
                        Error *error)
{
    for (size_t i = 0; i < json_count(records); i++) {
        const Json *record = json_at(records, i);
        int64_t seq = json_integer_or(json_get(record, "seq"), 0);
        if (seq <= copied)
            continue;
        SCOPED_TEXT text;
        text_init(&text, SPOOL_PAYLOAD_MAXIMUM);
        json_write(record, JSON_COMPACT, &text);
        if (!text_ok(&text, error) || !rows_add_decision(client, home_id, text_string(&text), error))
            return error_prefix(error, "pointer record %lld", (long long)seq);
    }
    return true;
}

static bool mirror(Telemetry *telemetry, const char *home_id, const Json *records, int64_t last, Error *error)
{
    int64_t copied = 0;
    OWNED(ClientResult, client_result_free) *copy = NULL;
    if (!rows_decisions(telemetry->client, home_id, &copy, error) ||
        !compare(copy, records, last, &copied, error))
        return false;
    if (copied == last)
        return true;
    if (!rows_begin(telemetry->client, error))
        return false;
    bool fenced = telemetry->epoch > 0;
    if ((!fenced || rows_check_epoch(telemetry->client, telemetry->model, telemetry->home_id,
                                     telemetry->epoch, error)) &&
        add_missing(telemetry->client, home_id, records, copied, error) &&
        rows_commit(telemetry->client, error))
        return true;
    if (!client_is_lost(telemetry->client))
        rows_roll_back(telemetry->client);
    return false;
}

bool telemetry_mirror_decisions(Telemetry *telemetry, const char *home_id, const Json *records, Error *error)
{
    int64_t last = 0;
    if (!check_records(records, &last, error))
        return false;
    for (int attempt = 0;; attempt++) {
        bool ready = !client_is_lost(telemetry->client) || telemetry_reconnect(telemetry, error);
        if (ready && mirror(telemetry, home_id, records, last, error))
            return true;
        bool again = ready && (client_is_lost(telemetry->client) || client_may_retry(telemetry->client));
        if (!again || attempt + 1 >= TELEMETRY_TRIES)
            return false;
        error_clear(error);   // ignoring: the copy is looked at again, whether or not that COMMIT was done
        telemetry_back_off(attempt);
    }
}

bool telemetry_decisions(Telemetry *telemetry, const char *home_id, Json **ret_records, Error *error)
{
    OWNED(ClientResult, client_result_free) *copy = NULL;
    if ((client_is_lost(telemetry->client) && !telemetry_reconnect(telemetry, error)) ||
        !rows_decisions(telemetry->client, home_id, &copy, error))
        return false;
    Json *records = json_make_array();
    for (int64_t i = 0; i < client_row_count(copy); i++) {
        Json *record = json_make_object();
        json_put_integer(record, "seq", client_integer(copy, i, 0));
        json_put_text(record, "record_digest", client_text(copy, i, 1));
        json_add(records, record);
    }
    *ret_records = records;
    return true;
}
