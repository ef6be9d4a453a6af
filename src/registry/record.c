// record - one move of the pointer as canonical bytes, and back.
//
// The bytes are compact JSON, keys in the order of record_render, and one newline. Reading renders again and
// compares, so a record has one form and its SHA-256 one value. Times are kept to the millisecond.
#include "registry_internal.h"

#include <stddef.h>
#include <string.h>

static const char *const move_names[] = {
    [MOVE_ADOPT] = "adopt",
    [MOVE_PROMOTE] = "promote",
    [MOVE_REVERT] = "revert",
    [MOVE_ROLLBACK] = "rollback",
};

const char *registry_move_name(MoveKind kind)
{
    return move_names[kind];
}

static bool find_move(const char *name, MoveKind *ret_kind)
{
    for (size_t i = 0; i < sizeof move_names / sizeof move_names[0]; i++)
        if (text_equal(name, move_names[i])) {
            *ret_kind = (MoveKind)i;
            return true;
        }
    return false;
}

static void put_digest(Json *object, const char *key, const Digest *digest)
{
    char hex[DIGEST_HEX_SIZE];
    digest_hex(digest, hex);
    json_put_text(object, key, hex);
}

static Json *record_to_json(const PointerRecord *record)
{
    char time[CLOCK_TIME_SIZE];
    clock_format(record->wall_ns, "", time);
    Json *json = json_make_object();
    json_put_integer(json, "format", REGISTRY_FORMAT);
    json_put_integer(json, "seq", record->seq);
    json_put_integer(json, "previous", record->previous);
    put_digest(json, "previous_digest", &record->previous_digest);
    json_put_text(json, "decision", record->decision);
    json_put_text(json, "kind", registry_move_name(record->kind));
    json_put_text(json, "from", record->from);
    json_put_text(json, "to", record->to);
    json_put_text(json, "to_kind", release_kind_name(record->to_kind));
    json_put_integer(json, "actor_uid", record->actor_uid);
    json_put_text(json, "actor", record->actor);
    json_put_text(json, "reason", record->reason);
    json_put_text(json, "run", record->run);
    put_digest(json, "verdict_digest", &record->verdict_digest);
    put_digest(json, "release_digest", &record->release_digest);
    json_put_text(json, "time", time);
    return json;
}

Json *registry_record_to_json(const PointerRecord *record)
{
    Json *json = record_to_json(record);
    put_digest(json, "record_digest", &record->digest);
    return json;
}

void record_render(const PointerRecord *record, Text *out)
{
    OWNED(Json, json_free) *json = record_to_json(record);
    json_write(json, JSON_COMPACT, out);
    text_add_char(out, '\n');
}

typedef struct TextField {
    const char *key;
    size_t offset, size;
} TextField;

#define TEXT_FIELD(name)                                                                                     \
    {                                                                                                        \
#name, offsetof(PointerRecord, name), sizeof((PointerRecord *)NULL)->name                            \
    }
static const TextField text_fields[] = {
    TEXT_FIELD(decision), TEXT_FIELD(from),   TEXT_FIELD(to),
    TEXT_FIELD(actor),    TEXT_FIELD(reason), TEXT_FIELD(run),
};

static bool parse_texts(const Json *json, PointerRecord *record, Error *error)
{
    for (size_t i = 0; i < sizeof text_fields / sizeof text_fields[0]; i++) {
        const TextField *field = &text_fields[i];
        const char *value;
        if (!json_get_text(json, field->key, &value, error))
            return false;
        if (!text_copy((char *)record + field->offset, field->size, value))
            return FAIL(error, ERROR_DATA, 0, "%s is longer than %zu bytes", field->key, field->size - 1);
    }
    if (!release_is_version(record->to) || (record->from[0] && !release_is_version(record->from)))
        return FAIL(error, ERROR_DATA, 0, "from '%s' or to '%s' is not the name of a version", record->from,
                    record->to);
    return true;
}

static bool parse_digest(const Json *json, const char *key, Digest *ret_digest, Error *error)
{
    const char *hex;
    if (!json_get_text(json, key, &hex, error))
        return false;
    return digest_parse(hex, ret_digest) || FAIL(error, ERROR_DATA, 0, "%s is not a SHA-256 digest", key);
}

static bool parse_choices(const Json *json, PointerRecord *record, Error *error)
{
    const char *kind, *to_kind, *time;
    if (!json_get_text(json, "kind", &kind, error) || !json_get_text(json, "to_kind", &to_kind, error) ||
        !json_get_text(json, "time", &time, error))
        return false;
    if (!find_move(kind, &record->kind))
        return FAIL(error, ERROR_DATA, 0, "kind '%.32s' is unknown", kind);
    if (!release_find_kind(to_kind, &record->to_kind))
        return FAIL(error, ERROR_DATA, 0, "to_kind '%.32s' is unknown", to_kind);
    return clock_parse(time, &record->wall_ns) ||
           FAIL(error, ERROR_DATA, 0, "time '%.40s' is not RFC 3339", time);
}

bool record_parse(const char *bytes, size_t length, PointerRecord *ret_record, Error *error)
{
    PointerRecord record = {.seq = 0};
    OWNED(Json, json_free) *json = json_parse(bytes, length, RECORD_BYTES_MAXIMUM, error);
    int64_t format;
    if (!json || !json_get_integer(json, "format", &format, error))
        return false;
    if (format != REGISTRY_FORMAT)
        return FAIL(error, ERROR_DATA, 0, "format is %lld, this program reads %d", (long long)format,
                    REGISTRY_FORMAT);
    if (!json_get_integer(json, "seq", &record.seq, error) ||
        !json_get_integer(json, "previous", &record.previous, error) ||
        !json_get_integer(json, "actor_uid", &record.actor_uid, error) ||
        !parse_texts(json, &record, error) || !parse_choices(json, &record, error) ||
        !parse_digest(json, "previous_digest", &record.previous_digest, error) ||
        !parse_digest(json, "verdict_digest", &record.verdict_digest, error) ||
        !parse_digest(json, "release_digest", &record.release_digest, error))
        return false;

    SCOPED_TEXT again;
    text_init(&again, RECORD_BYTES_MAXIMUM);
    record_render(&record, &again);
    if (!text_ok(&again, error))
        return false;
    if (again.length != length || memcmp(again.data, bytes, length) != 0)
        return FAIL(error, ERROR_DATA, 0, "not in canonical form");
    hash_bytes(bytes, length, &record.digest);
    *ret_record = record;
    return true;
}
