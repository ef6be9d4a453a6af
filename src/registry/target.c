// target - which release may be made live again: verified from disk, the same bytes as when it was live, not
// barred.
#include "registry_internal.h"

#include <errno.h>
#include <string.h>

// A release that was pruned is not rotten: its reader is told so. The kind of the error stays.
static bool say_pruned(const Registry *registry, const char *path, const char *version, Error *error)
{
    bool pruned = false;
    char when[CLOCK_TIME_SIZE];
    Error ignored = ERROR_INIT;
    if (error->kind != ERROR_DATA || file_exists(path) ||
        !registry_is_pruned(registry, version, &pruned, when, &ignored) || !pruned)
        return false;
    return FAIL(error, ERROR_DATA, 0, "release '%s' was pruned on %s", version, when);
}

bool target_verify(const Registry *registry, const Chain *chain, const char *version, ReleaseCheck *ret_check,
                   Error *error)
{
    char path[FILE_PATH_SIZE];
    if (!registry_path(registry, path, "releases", version, error))
        return false;
    if (!release_verify(path, ret_check, error))
        return say_pruned(registry, path, version, error);
    if (!text_equal(ret_check->version, version))
        return FAIL(error, ERROR_DATA, 0, "release '%s' holds version '%s'", version, ret_check->version);
    const PointerRecord *known = chain_find(chain, version);
    if (known &&
        (!digest_equal(&known->release_digest, &ret_check->digest) || known->to_kind != ret_check->kind))
        return FAIL(error, ERROR_DATA, 0, "release '%s' is not the one that pointer record '%lld' made live",
                    version, (long long)known->seq);
    return true;
}

// True when the release itself is bad, as against not being able to look: a sector that cannot be read is bad
// too.
bool target_is_bad(const Error *error)
{
    return error->kind == ERROR_DATA || (error->kind == ERROR_IO && error->code == EIO);
}

static bool introduces(const PointerRecord *record)
{
    return record->kind == MOVE_PROMOTE || record->kind == MOVE_ADOPT;
}

// Index of the record that promoted or adopted what is live now; every release back is older than that.
static size_t find_introduction(const Chain *chain)
{
    const PointerRecord *top = chain_top(chain);
    for (size_t i = chain->count; i-- > 0;)
        if (introduces(&chain->records[i]) && text_equal(chain->records[i].to, top->to))
            return i;
    return chain->count - 1;
}

bool target_is_good(const Registry *registry, const Chain *chain, const char *version, bool *ret_good,
                    ReleaseCheck *ret_check, Error *error)
{
    char reason[256];
    bool barred;
    if (!registry_is_barred(registry, version, &barred, reason, error))
        return false;
    *ret_good = !barred && target_verify(registry, chain, version, ret_check, error);
    if (barred || *ret_good)
        return true;
    if (!target_is_bad(error))
        return false;
    error_clear(error);
    return true;
}

bool target_previous_good(const Registry *registry, const Chain *chain, bool *ret_any,
                          char ret_version[static VERSION_SIZE], ReleaseCheck *ret_check, Error *error)
{
    *ret_any = false;
    const PointerRecord *top = chain_top(chain);
    if (!top)
        return true;
    for (size_t i = find_introduction(chain); i-- > 0 && !*ret_any;) {
        const PointerRecord *record = &chain->records[i];
        if (!introduces(record) || text_equal(record->to, top->to))
            continue;
        if (!target_is_good(registry, chain, record->to, ret_any, ret_check, error))
            return false;
        if (*ret_any)
            memcpy(ret_version, record->to, VERSION_SIZE);
    }
    return true;
}

const PointerRecord *target_baseline(const Chain *chain)
{
    for (size_t i = chain->count; i-- > 0;)
        if (chain->records[i].kind == MOVE_ADOPT)
            return &chain->records[i];
    return NULL;
}

bool target_fall_back(const Registry *registry, const Chain *chain, bool *ret_any,
                      char ret_version[static VERSION_SIZE], ReleaseCheck *ret_check, Error *error)
{
    if (!target_previous_good(registry, chain, ret_any, ret_version, ret_check, error))
        return false;
    const PointerRecord *baseline = target_baseline(chain);
    if (*ret_any || !baseline || text_equal(baseline->to, chain_top(chain)->to))
        return true;
    if (!target_is_good(registry, chain, baseline->to, ret_any, ret_check, error))
        return false;
    if (*ret_any)
        memcpy(ret_version, baseline->to, VERSION_SIZE);
    return true;
}

static bool listed(char (*versions)[VERSION_SIZE], size_t count, const char *version)
{
    for (size_t i = 0; i < count; i++)
        if (text_equal(versions[i], version))
            return true;
    return false;
}

bool target_ways_back(const Registry *registry, const Chain *chain, size_t models,
                      char (*ret_versions)[VERSION_SIZE], size_t *ret_count, Error *error)
{
    const PointerRecord *top = chain_top(chain);
    size_t found = 0, begin = top ? find_introduction(chain) : 0;
    *ret_count = 0;
    for (size_t step = 0; step < chain->count && found < models; step++) {
        // Down from what is live to the oldest, then from the newest down to what is live.
        const PointerRecord *record =
            &chain->records[step < begin ? begin - 1 - step : chain->count - 1 - (step - begin)];
        bool baseline = record->to_kind == RELEASE_BASELINE, good;
        ReleaseCheck check;
        if (!introduces(record) || (baseline && *ret_count > 0) || text_equal(record->to, top->to) ||
            listed(ret_versions, *ret_count, record->to))
            continue;
        if (!target_is_good(registry, chain, record->to, &good, &check, error))
            return false;
        if (!good)
            continue;
        memcpy(ret_versions[(*ret_count)++], record->to, VERSION_SIZE);
        found += !baseline;
    }
    return true;
}

void target_list_good(const Registry *registry, const Chain *chain, Text *out)
{
    for (size_t i = chain->count; i-- > 0;) {
        const char *version = chain->records[i].to;
        // Each version once, at its last record; what is live now is not a way back.
        if (chain_find(chain, version) != &chain->records[i] || text_equal(version, chain_top(chain)->to))
            continue;
        ReleaseCheck check;
        bool good;
        Error ignored = ERROR_INIT;
        if (target_is_good(registry, chain, version, &good, &check, &ignored) && good)
            text_add_format(out, "%s%s", out->length ? ", " : "", version);
    }
}

bool registry_previous_good(const Registry *registry, bool *ret_any, char ret_version[static VERSION_SIZE],
                            Error *error)
{
    SCOPED_CHAIN chain = {.records = NULL};
    ReleaseCheck check;
    return chain_read(registry, &chain, error) &&
           target_previous_good(registry, &chain, ret_any, ret_version, &check, error);
}

bool registry_baseline(const Registry *registry, bool *ret_any, char ret_version[static VERSION_SIZE],
                       Error *error)
{
    SCOPED_CHAIN chain = {.records = NULL};
    if (!chain_read(registry, &chain, error))
        return false;
    const PointerRecord *baseline = target_baseline(&chain);
    *ret_any = baseline != NULL;
    if (baseline)
        memcpy(ret_version, baseline->to, VERSION_SIZE);
    return true;
}
