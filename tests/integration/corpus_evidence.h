// corpus_evidence.h - stored nights: fixtures/good/<name>.json.gz, each with a row in nights.tsv, and judging
// them with the policy of their night.
//
// A row of nights.tsv: name, configuration of fixtures/configs, options that differ from it (between blanks).
#ifndef FEDGATE_TESTS_CORPUS_EVIDENCE_H
#define FEDGATE_TESTS_CORPUS_EVIDENCE_H

#include <fcntl.h>
#include <fedgate/archive.h>
#include <fedgate/gate.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "corpus.h"
#include "corpus_change.h"
#include "support.h"

#define GOOD_FOLDER    FEDGATE_SOURCE_DIR "/fixtures/good"
#define NIGHTS_FOLDER  FEDGATE_SOURCE_DIR "/fixtures/nights"
#define CONFIGS_FOLDER FEDGATE_SOURCE_DIR "/fixtures/configs"

enum { GOOD_MOST = 400, SETTINGS_MOST = 24, TABLE_MAX = 200000 };

typedef struct GoodNight {
    char name[CORPUS_NAME_SIZE], config[64], settings[400];
} GoodNight;

// Splits a line at tabs in place; returns the count of fields, of which at most `most` are kept.
static inline size_t split_tabs(char *line, char **ret_fields, size_t most)
{
    size_t count = 0;
    for (char *at = line; at != NULL; count++) {
        char *tab = strchr(at, '\t');
        if (tab != NULL)
            *tab = '\0';
        if (count < most)
            ret_fields[count] = at;
        at = tab == NULL ? NULL : tab + 1;
    }
    return count;
}

static inline size_t good_list(GoodNight *ret_nights)
{
    SCOPED_TEXT table;
    text_init(&table, TABLE_MAX);
    char *copy = text_duplicate(support_read(GOOD_FOLDER "/nights.tsv", &table)), *rest = copy, *line;
    size_t count = 0;
    while ((line = strsep(&rest, "\n")) != NULL) {
        char *fields[3];
        if (line[0] == '\0' || line[0] == '#')
            continue;
        ck_assert_msg(split_tabs(line, fields, 3) == 3, "nights.tsv: '%s' has no three fields", line);
        ck_assert_uint_lt(count, GOOD_MOST);
        GoodNight *night = &ret_nights[count++];
        ck_assert(text_copy(night->name, sizeof night->name, fields[0]));
        ck_assert(text_copy(night->config, sizeof night->config, fields[1]));
        ck_assert(text_copy(night->settings, sizeof night->settings, fields[2]));
    }
    free(copy);
    return count;
}

static inline bool good_collect(void *context, const void *bytes, uint64_t length, Error *error)
{
    (void)error;
    text_add_bytes(context, bytes, (size_t)length);
    return true;
}

static inline Json *good_read(const char *name)
{
    char path[FILE_PATH_SIZE];
    Error error = ERROR_INIT;
    SCOPED_TEXT bytes;
    text_init(&bytes, EVIDENCE_MAX_BYTES);
    ck_assert(text_print(path, sizeof path, "%s/%s.json.gz", GOOD_FOLDER, name));
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ck_assert_msg(fd >= 0, "there is no evidence '%s'", name);
    ASSERT_OK(archive_stream_gzip(fd, EVIDENCE_MAX_BYTES, good_collect, &bytes, &error), &error);
    close(fd);
    Json *evidence = json_parse(text_string(&bytes), bytes.length, EVIDENCE_MAX_BYTES, &error);
    ck_assert_msg(evidence != NULL, "%s: %s", name, error.message);
    return evidence;
}

// The policy of the night, and over it `more`: settings of its own, then an object of them; either may be
// NULL.
static inline Config *good_policy(const GoodNight *night, const char *setting, const Json *more, Error *error)
{
    char path[FILE_PATH_SIZE], settings[sizeof night->settings], store[SETTINGS_MOST][256], number[64];
    const char *sets[SETTINGS_MOST];
    size_t count = 0;
    ck_assert(text_print(path, sizeof path, "%s/%s.yaml", CONFIGS_FOLDER, night->config));
    ck_assert(text_copy(settings, sizeof settings, night->settings));
    char *rest = settings, *word;
    while ((word = strsep(&rest, " ")) != NULL)
        if (word[0] != '\0' && count < SETTINGS_MOST)
            sets[count++] = word;
    for (size_t i = 0; i < json_count(more) && count < SETTINGS_MOST; i++) {
        const Json *value = json_get(more, json_key_at(more, i));
        text_from_double(number, json_number_or(value, 0));
        const char *text = json_is_bool(value)     ? json_bool_or(value, false) ? "true" : "false"
                           : json_is_number(value) ? number
                                                   : json_text_or(value, "");
        ck_assert(text_print(store[count], sizeof store[0], "%s=%s", json_key_at(more, i), text));
        sets[count] = store[count];
        count++;
    }
    ck_assert_uint_lt(count, SETTINGS_MOST);
    if (setting != NULL)
        sets[count++] = setting;
    return config_load(path, sets, count, NULL, error);
}

static inline const GoodNight *good_find(const GoodNight *nights, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(nights[i].name, name) == 0)
            return &nights[i];
    return NULL;
}

// What `run` would call it.
static inline const char *judged_word(const Json *judgement)
{
    const int code = gate_exit_code(judgement);
    return code == 0 ? "promoted" : code == 10 ? "refused" : "inconclusive";
}

#endif
