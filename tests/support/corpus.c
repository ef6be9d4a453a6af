// corpus - see corpus.h.
#include "corpus.h"

#include <fedgate/clock.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MAX = 100000 };

// -- what may stand in the files: one row a key

typedef bool (*Accepts)(const Json *value);

typedef struct Key {
    const char *name;
    Accepts accepts;
    const char *kind;   // in words
    bool needed;
} Key;

static bool is_time(const Json *value)
{
    int64_t wall_ns;
    return json_is_text(value) && clock_parse(json_text_or(value, ""), &wall_ns);
}

static bool is_text_or_null(const Json *value)
{
    return json_is_text(value) || json_is_null(value);
}

static bool is_scalar(const Json *value)
{
    return json_is_text(value) || json_is_number(value) || json_is_bool(value);
}

static bool all_members(const Json *object, Accepts accepts)
{
    bool good = json_is_object(object);
    for (size_t i = 0; i < json_count(object); i++)
        good = good && accepts(json_get(object, json_key_at(object, i)));
    return good;
}

static bool is_settings(const Json *value)
{
    return all_members(value, is_scalar);
}

static bool is_numbers(const Json *value)
{
    return all_members(value, json_is_number);
}

static bool is_texts(const Json *value)
{
    return all_members(value, json_is_text);
}

static bool is_runs(const Json *value)
{
    return json_is_array(value) && json_count(value) > 0;
}

static bool is_changes(const Json *value)
{
    bool good = is_runs(value);
    for (size_t i = 0; i < json_count(value); i++)
        good = good && json_is_object(json_at(value, i));
    return good;
}

static const Key given_keys[] = {
    {"stands_for", json_is_text, "a text", true},
    {"config", json_is_text, "a text", false},
    {"zone", json_is_text, "a text", false},
    {"set", is_settings, "an object of texts, numbers and bools", false},
    {"faults", is_numbers, "an object of numbers", false},
    {"runs", is_runs, "a list with an entry", false},
    {NULL, NULL, NULL, false},
};

// Of a night that is stored evidence, changed.
static const Key evidence_keys[] = {
    {"stands_for", json_is_text, "a text", true},
    {"evidence", json_is_text, "a text", true},
    {"set", is_settings, "an object of texts, numbers and bools", false},
    {"changes", is_changes, "a list of objects", false},
    {NULL, NULL, NULL, false},
};

static const Key given_run_keys[] = {
    {"start", is_time, "a time with offset", false},
    {"slot", json_is_text, "a text", false},
    {"retry", json_is_bool, "true or false", false},
    {"set", is_settings, "an object of texts, numbers and bools", false},
    {"faults", is_numbers, "an object of numbers", false},
    {NULL, NULL, NULL, false},
};

static const Key expect_keys[] = {
    {"runs", is_runs, "a list with an entry", true},
    {NULL, NULL, NULL, false},
};

static const Key expect_run_keys[] = {
    {"exit", json_is_integer, "an integer", true},
    {"outcome", json_is_text, "a text", true},
    {"decided_by", is_text_or_null, "a text or null", true},
    {"reason", json_is_text, "a text", true},
    {"live", json_is_text, "a text", false},   // but of a night that is run
    {"checks", is_texts, "an object of texts", false},
    {"evidence", is_settings, "an object of texts, numbers and bools", false},
    {"counts", is_numbers, "an object of numbers", false},
    {NULL, NULL, NULL, false},
};

static bool check_keys(const Json *object, const Key *keys, const char *file, Error *error)
{
    if (!json_is_object(object))
        return FAIL(error, ERROR_DATA, 0, "%s: an entry is not an object", file);
    size_t known = 0;
    for (const Key *key = keys; key->name != NULL; key++) {
        const Json *value = json_get(object, key->name);
        known += value != NULL;
        if (value == NULL && key->needed)
            return FAIL(error, ERROR_DATA, 0, "%s: key '%s' is missing", file, key->name);
        if (value != NULL && !key->accepts(value))
            return FAIL(error, ERROR_DATA, 0, "%s: key '%s' is not %s", file, key->name, key->kind);
    }
    for (size_t i = 0; known < json_count(object) && i < json_count(object); i++) {
        const Key *key = keys;
        while (key->name != NULL && strcmp(key->name, json_key_at(object, i)) != 0)
            key++;
        if (key->name == NULL)
            return FAIL(error, ERROR_DATA, 0, "%s: unknown key '%s'", file, json_key_at(object, i));
    }
    return true;
}

// -- one night

static Json *read_part(const char *folder, const char *part, const Key *keys, const Key *run_keys,
                       Error *error)
{
    char path[FILE_PATH_SIZE];
    if (!file_join(path, folder, part, error))
        return NULL;
    Json *json = json_read_file(path, FILE_MAX, error);
    if (keys == given_keys && json_get(json, "evidence") != NULL)
        keys = evidence_keys;
    bool good = json != NULL && check_keys(json, keys, part, error);
    const Json *runs = json_get(json, "runs");
    for (size_t i = 0; good && i < json_count(runs); i++)
        good = check_keys(json_at(runs, i), run_keys, part, error);
    if (good)
        return json;
    json_free(json);
    return NULL;
}

// The configuration of the night's own folder, or the one it names.
static bool find_config(CorpusNight *night, const char *folder, const char *configs, Error *error)
{
    const char *named = json_text_or(json_get(night->given, "config"), NULL);
    char name[CORPUS_NAME_SIZE + 8];
    if (named == NULL)
        return file_join(night->config, folder, "config.yaml", error) &&
               (file_exists(night->config) ||
                FAIL(error, ERROR_DATA, 0, "given.json names no config, and there is no config.yaml"));
    if (!text_print(name, sizeof name, "%s.yaml", named) || !file_join(night->config, configs, name, error) ||
        !file_exists(night->config))
        return FAIL(error, ERROR_DATA, 0, "given.json: there is no configuration '%s'", named);
    return true;
}

static bool known_file(const char *name)
{
    return text_equal(name, "given.json") || text_equal(name, "expect.json") ||
           text_equal(name, "config.yaml");
}

static bool check_files(const char *folder, Error *error)
{
    FileList files;
    if (!file_list(folder, &files, error))
        return false;
    bool good = true;
    for (size_t i = 0; good && i < files.count; i++)
        if (!known_file(files.names[i]))
            good = FAIL(error, ERROR_DATA, 0, "file '%s' is no part of a night", files.names[i]);
    file_list_done(&files);
    return good;
}

// What is live is known after a run alone, and stored evidence is judged, not run.
static bool check_live(const CorpusNight *night, Error *error)
{
    const Json *runs = json_get(night->expect, "runs");
    for (size_t i = 0; i < json_count(runs); i++)
        if ((json_get(json_at(runs, i), "live") != NULL) == night->stored)
            return FAIL(error, ERROR_DATA, 0, "expect.json: key 'live' is %s",
                        night->stored ? "not for a night that is not run" : "missing");
    return true;
}

static bool check_stored(const CorpusNight *night, Error *error)
{
    return !night->stored || json_get(night->given, "changes") != NULL ||
           json_count(json_get(night->given, "set")) > 0 ||
           FAIL(error, ERROR_DATA, 0, "given.json changes nothing of evidence '%s'",
                json_text_or(json_get(night->given, "evidence"), ""));
}

static bool load(CorpusNight *night, const char *folder, const char *configs, Error *error)
{
    night->given = read_part(folder, "given.json", given_keys, given_run_keys, error);
    if (night->given == NULL)
        return false;
    night->stored = json_get(night->given, "evidence") != NULL;
    night->expect = read_part(folder, "expect.json", expect_keys, expect_run_keys, error);
    if (night->expect == NULL || !check_files(folder, error) || !check_live(night, error) ||
        !check_stored(night, error) || (!night->stored && !find_config(night, folder, configs, error)))
        return false;
    const Json *runs = json_get(night->given, "runs");
    night->runs = runs == NULL ? 1 : json_count(runs);
    size_t expected = json_count(json_get(night->expect, "runs"));
    return expected == night->runs ||
           FAIL(error, ERROR_DATA, 0, "%zu runs are given and %zu expected", night->runs, expected);
}

CorpusNight *corpus_load(const char *folder, const char *name, const char *configs, Error *error)
{
    CorpusNight *night = calloc(1, sizeof *night);
    char path[FILE_PATH_SIZE];
    bool good = night != NULL || FAIL(error, ERROR_MEMORY, 0, "could not allocate a night");
    good = good &&
           (text_copy(night->name, sizeof night->name, name) ||
            FAIL(error, ERROR_DATA, 0, "the name is longer than %d", CORPUS_NAME_SIZE - 1)) &&
           file_join(path, folder, name, error) && load(night, path, configs, error);
    if (good)
        return night;
    error_prefix(error, "night '%s'", name);
    corpus_free(night);
    return NULL;
}

void corpus_free(CorpusNight *night)
{
    if (night == NULL)
        return;
    json_free(night->given);
    json_free(night->expect);
    free(night);
}

// -- all of them

bool corpus_list(const char *folder, size_t least, FileList *ret_names, Error *error)
{
    FileList all;
    if (!file_list(folder, &all, error))
        return false;
    size_t nights = 0;
    bool good = true;
    for (size_t i = 0; good && i < all.count; i++) {
        char path[FILE_PATH_SIZE];
        good = file_join(path, folder, all.names[i], error);
        bool night = good && file_is_directory(path);
        if (good && !night && !text_equal(all.names[i], "README.md") &&
            !text_equal(all.names[i], "failures.tsv"))
            good = FAIL(error, ERROR_DATA, 0, "corpus '%s': '%s' is no night, README or failures.tsv", folder,
                        all.names[i]);
        char *name = all.names[i];
        all.names[i] = all.names[nights];   // nights to the front, in their order; the rest is freed with it
        all.names[nights] = name;
        nights += night;
    }
    if (good && nights < least)
        good = FAIL(error, ERROR_DATA, 0, "corpus '%s' has %zu nights, at least %zu belong there", folder,
                    nights, least);
    if (!good) {
        file_list_done(&all);
        return false;
    }
    for (size_t i = nights; i < all.count; i++)
        free(all.names[i]);
    all.count = nights;
    *ret_names = all;
    return true;
}
