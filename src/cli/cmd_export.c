// cmd_export - `fedgate export VERSION FILE`: a sealed release as one file.
#include "cli.h"

bool cmd_export(const Invocation *call, int *ret_exit, Error *error)
{
    *ret_exit = 0;
    const char *version = call->arguments[0], *file = call->arguments[1];
    ExportResult result;
    char release[DIGEST_HEX_SIZE], whole[DIGEST_HEX_SIZE];
    OWNED(Registry, registry_close) *registry = call_registry(call, error);
    if (!registry || !registry_export(registry, version, file, &result, error))
        return false;
    digest_hex(&result.release_digest, release);
    digest_hex(&result.file_digest, whole);
    if (call->json) {
        OWNED(Json, json_free) *object = json_make_object();
        json_put_text(object, "schema", "fedgate.export/1");
        json_put_text(object, "version", version);
        json_put_text(object, "file", file);
        json_put_integer(object, "bytes", (int64_t)result.bytes);
        json_put_integer(object, "number", result.number);
        json_put_text(object, "release_digest", release);
        json_put_text(object, "file_sha256", whole);
        output_json(object);
    } else if (!call->quiet) {
        SCOPED_TEXT text;
        text_init(&text, 3 * FILE_PATH_SIZE);
        text_add_format(&text, "%s  %s\n", whole, file);
        text_add_format(&text, "release %s, number %lld, digest %s, %llu bytes\n", version,
                        (long long)result.number, release, (unsigned long long)result.bytes);
        output_text(&text);
    }
    return true;
}
