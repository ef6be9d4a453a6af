// verify - `fedgate verify`: re-hash releases and walk the decision chain, in the home and in the database's
// copy.
#include "night_internal.h"

#include <stdlib.h>
#include <string.h>

typedef struct Verification {
    Registry *registry;
    const char *home;
    Text *report;
    bool bad;
} Verification;

static void verify_release(Verification *v, const char *version)
{
    char name[FILE_PATH_SIZE], directory[FILE_PATH_SIZE];
    ReleaseCheck check = {0};
    Error failed = ERROR_INIT;
    if (text_print(name, sizeof name, "releases/%s", version) &&
        file_join(directory, v->home, name, &failed) && release_verify(directory, &check, &failed)) {
        text_add_format(v->report, "ok    release %s: %zu files, %llu bytes\n", version, check.files,
                        (unsigned long long)check.bytes);
        return;
    }
    bool pruned = false;
    char when[CLOCK_TIME_SIZE];
    Error ignored = ERROR_INIT;
    if (registry_is_pruned(v->registry, version, &pruned, when, &ignored) && pruned) {
        text_add_format(v->report, "note  release %s: pruned on %s\n", version, when);
        return;
    }
    v->bad = true;
    text_add_format(v->report, "BAD   release %s: %s\n", version,
                    check.problem[0] != '\0' ? check.problem : failed.message);
}

static void verify_releases(Verification *v, const PointerRecord *records, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bool seen = false;
        for (size_t k = 0; k < i && !seen; k++)
            seen = strcmp(records[k].to, records[i].to) == 0;
        if (!seen)
            verify_release(v, records[i].to);
    }
}

// Both sides must tell the same story, record by record; a database that lacks the newest is behind, which
// shipping mends.
static void compare_copies(Verification *v, const Json *copies, const PointerRecord *records, size_t count)
{
    size_t copied = json_count(copies);
    for (size_t i = 0; i < copied; i++) {
        const Json *copy = json_at(copies, i);
        char hex[DIGEST_HEX_SIZE] = "";
        if (i < count)
            digest_hex(&records[i].digest, hex);
        if (i < count && strcmp(hex, json_text_or(json_get(copy, "record_digest"), "")) == 0)
            continue;
        v->bad = true;
        text_add_format(
            v->report, "BAD   database copy: record %lld differs from the home: %s there, %s here\n",
            (long long)json_integer_or(json_get(copy, "seq"), (int64_t)i + 1),
            json_text_or(json_get(copy, "record_digest"), "nothing"), i < count ? hex : "nothing");
        return;
    }
    text_add_format(v->report, "%s database copy: %zu of %zu records, all the same\n",
                    copied == count ? "ok   " : "note ", copied, count);
}

static void verify_database(Verification *v, const Config *config, Clock *clock, const PointerRecord *records,
                            size_t count)
{
    Error failed = ERROR_INIT;
    Json *copies = NULL;
    Telemetry *telemetry = telemetry_connect(config, v->home, clock, &failed);
    if (telemetry == NULL || !telemetry_decisions(telemetry, registry_home_id(v->registry), &copies, &failed))
        text_add_format(v->report, "note  database copy not compared: %s\n", failed.message);
    else
        compare_copies(v, copies, records, count);
    json_free(copies);
    telemetry_close(telemetry);
}

static bool verify_all(Verification *v, const Config *config_or_null, const char *version_or_null,
                       Clock *clock, Error *error)
{
    PointerRecord *records = NULL;
    size_t count = 0;
    Error broken = ERROR_INIT;
    if (version_or_null != NULL) {
        if (!identity_is_version(version_or_null))
            return FAIL(error, ERROR_USAGE, 0, "'%s' is not a version", version_or_null);
        verify_release(v, version_or_null);
    }
    if (registry_history(v->registry, &records, &count, &broken)) {
        text_add_format(v->report, "ok    chain: %zu records\n", count);
        if (version_or_null == NULL)
            verify_releases(v, records, count);
        PointerRecord current;
        bool any = false;
        if (!registry_current(v->registry, &any, &current, &broken) ||
            (count > 0 && (!any || current.seq != records[count - 1].seq))) {
            v->bad = true;
            text_add_format(v->report, "BAD   current: %s\n",
                            broken.message[0] != '\0' ? broken.message : "does not name the newest record");
        }
        if (config_or_null != NULL)
            verify_database(v, config_or_null, clock, records, count);
    } else {
        v->bad = true;
        text_add_format(v->report, "BAD   chain: %s\n", broken.message);
    }
    free(records);
    return true;
}

bool night_verify(const Config *config_or_null, const char *home, const char *version_or_null, Clock *clock,
                  Text *ret_report, int *ret_exit_code, Error *error)
{
    OWNED(Registry, registry_close) *registry = registry_open(home, clock, error);
    if (registry == NULL)
        return false;
    Verification v = {.registry = registry, .home = home, .report = ret_report};
    if (!verify_all(&v, config_or_null, version_or_null, clock, error))
        return false;
    *ret_exit_code = v.bad ? error_exit_code(ERROR_INCONSISTENT) : 0;
    return true;
}
