// statement - what a packed release says about where it comes from, in one canonical form.
#include "registry_internal.h"

#include <string.h>

void statement_render(const Statement *statement, Text *out)
{
    char record[DIGEST_HEX_SIZE], release[DIGEST_HEX_SIZE];
    digest_hex(&statement->record_digest, record);
    digest_hex(&statement->release_digest, release);
    OWNED(Json, json_free) *json = json_make_object();
    json_put_integer(json, "format", REGISTRY_FORMAT);
    json_put_text(json, "home", statement->home);
    json_put_text(json, "model", statement->model);
    json_put_text(json, "version", statement->version);
    json_put_text(json, "kind", release_kind_name(statement->kind));
    json_put_integer(json, "number", statement->number);
    json_put_text(json, "record_digest", record);
    json_put_text(json, "release_digest", release);
    json_write(json, JSON_COMPACT, out);
    text_add_char(out, '\n');
}

static bool read_texts(const Json *json, Statement *statement, Error *error)
{
    const char *home, *model, *version, *kind, *record, *release;
    if (!json_get_text(json, "home", &home, error) || !json_get_text(json, "model", &model, error) ||
        !json_get_text(json, "version", &version, error) || !json_get_text(json, "kind", &kind, error) ||
        !json_get_text(json, "record_digest", &record, error) ||
        !json_get_text(json, "release_digest", &release, error))
        return false;
    if (!text_is_name(home) || !text_copy(statement->home, sizeof statement->home, home))
        return FAIL(error, ERROR_DATA, 0, "home '%.64s' is not the id of a home", home);
    if (!text_is_name(model) || !text_copy(statement->model, sizeof statement->model, model))
        return FAIL(error, ERROR_DATA, 0, "model '%.64s' is not a name", model);
    if (!release_is_version(version) || !text_copy(statement->version, sizeof statement->version, version))
        return FAIL(error, ERROR_DATA, 0, "version '%.64s' is not the name of a version", version);
    if (!release_find_kind(kind, &statement->kind))
        return FAIL(error, ERROR_DATA, 0, "kind '%.32s' is unknown", kind);
    return (digest_parse(record, &statement->record_digest) &&
            digest_parse(release, &statement->release_digest)) ||
           FAIL(error, ERROR_DATA, 0, "a digest is not a SHA-256 digest");
}

static bool parse(const Text *bytes, Statement *statement, Error *error)
{
    OWNED(Json, json_free) *json = json_parse(bytes->data, bytes->length, RELEASE_STATEMENT_MAXIMUM, error);
    int64_t format;
    if (!json || !json_get_integer(json, "format", &format, error))
        return false;
    if (format != REGISTRY_FORMAT)
        return FAIL(error, ERROR_DATA, 0, "format is %lld, this program reads %d", (long long)format,
                    REGISTRY_FORMAT);
    if (!json_get_integer(json, "number", &statement->number, error) || !read_texts(json, statement, error))
        return false;
    if (statement->number < 0)
        return FAIL(error, ERROR_DATA, 0, "number %lld is below 0", (long long)statement->number);
    SCOPED_TEXT again;
    text_init(&again, RELEASE_STATEMENT_MAXIMUM);
    statement_render(statement, &again);
    return (again.length == bytes->length && memcmp(again.data, bytes->data, again.length) == 0) ||
           FAIL(error, ERROR_DATA, 0, "not in canonical form");
}

bool statement_parse(const Text *bytes, Statement *ret_statement, Error *error)
{
    Statement statement = {.number = 0};
    if (!parse(bytes, &statement, error))
        return error_prefix(error, "statement");
    *ret_statement = statement;
    return true;
}
