// cmd_pack - `fedgate pack`: CSV files to packed shards, which train to the same bits and are read faster.
//
// Columns, labels and missing marks are the configuration's. Files named on the command line stand for its
// data.train; then its test files are not packed.
#include "cli.h"
#include <fedgate/input.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char default_directory[] = "packed";

// Absolute, so that the configuration's own folder does not matter.
static bool add_file(Text *list, const char *name, Error *error)
{
    char working[FILE_PATH_SIZE], path[FILE_PATH_SIZE];
    if (strpbrk(name, ",\""))
        return FAIL(error, ERROR_USAGE, 0, "file name '%s' has a comma or a quote", name);
    if (!getcwd(working, sizeof working))
        return FAIL(error, ERROR_IO, 0, "the working directory cannot be named");
    if (!file_join(path, working, name, error))
        return false;
    text_add_format(list, "%s\"%s\"", list->length > strlen("data.train=") ? "," : "", path);
    return true;
}

static Config *pack_config(const Invocation *call, Text *train, Error *error)
{
    if (call->argument_count == 0)
        return call_config(call, error);
    text_add(train, "data.train=");
    for (size_t i = 0; i < call->argument_count; i++)
        if (!add_file(train, call->arguments[i], error))
            return NULL;
    if (!text_ok(train, error))
        return NULL;
    const char *const own[] = {text_string(train), "data.test=", "split.method=hash"};
    const size_t own_count = sizeof own / sizeof own[0];
    Invocation changed = *call;
    changed.sets = calloc(call->set_count + own_count, sizeof *changed.sets);
    if (!changed.sets) {
        (void)FAIL(error, ERROR_MEMORY, 0, "out of memory for %zu options", call->set_count);
        return NULL;
    }
    for (size_t i = 0; i < call->set_count; i++)
        changed.sets[i] = call->sets[i];
    for (size_t i = 0; i < own_count; i++)
        changed.sets[changed.set_count++] = own[i];
    Config *config = call_config(&changed, error);
    free(changed.sets);
    return config;
}

static void add_list(const Json *shards, const char *part, Text *out)
{
    bool any = false;
    for (size_t i = 0; i < json_count(shards); i++) {
        const Json *shard = json_at(shards, i);
        if (!text_equal(json_text_or(json_get(shard, "part"), ""), part))
            continue;
        if (any)
            text_add(out, ", ");
        else
            text_add_format(out, "  %s: [", part);
        text_add(out, json_text_or(json_get(shard, "name"), ""));
        any = true;
    }
    if (any)
        text_add(out, "]\n");
}

static void print_report(const Json *report)
{
    SCOPED_TEXT text;
    text_init(&text, 16u << 20);
    const Json *shards = json_get(report, "shards");
    long long bad = json_integer_or(json_get(report, "bad"), 0);
    text_add_format(&text, "packed %lld rows, %lld columns and the target from %lld files",
                    (long long)json_integer_or(json_get(report, "rows"), 0),
                    (long long)json_integer_or(json_get(report, "columns"), 0),
                    (long long)json_integer_or(json_get(report, "files"), 0));
    if (bad > 0)
        text_add_format(&text, "; %lld bad rows left out", bad);
    text_add(&text, "\n");
    for (size_t i = 0; i < json_count(shards); i++) {
        const Json *shard = json_at(shards, i);
        text_add_format(&text, "  %s  %lld rows, %lld bytes, sha256 %.16s%s\n",
                        json_text_or(json_get(shard, "name"), ""),
                        (long long)json_integer_or(json_get(shard, "rows"), 0),
                        (long long)json_integer_or(json_get(shard, "bytes"), 0),
                        json_text_or(json_get(shard, "sha256"), ""),
                        json_bool_or(json_get(shard, "kept"), false) ? " (was there)" : "");
    }
    text_add_format(&text, "to train from them:\ndata:\n  directory: %s\n",
                    json_text_or(json_get(report, "directory"), ""));
    add_list(shards, "train", &text);
    add_list(shards, "test", &text);
    output_text(&text);
}

bool cmd_pack(const Invocation *call, int *ret_exit, Error *error)
{
    const char *rows = option_value(call, "shard-rows"), *out = option_value(call, "out");
    PackSpec spec = {.clock = clock_real()};
    if (rows && (!text_to_int64(rows, &spec.shard_rows) || spec.shard_rows < 1))
        return FAIL(error, ERROR_USAGE, 0, "option '--shard-rows' is '%s', not a whole number from 1", rows);
    char working[FILE_PATH_SIZE], directory[FILE_PATH_SIZE];
    if (!getcwd(working, sizeof working))
        return FAIL(error, ERROR_IO, 0, "the working directory cannot be named");
    if (!file_join(directory, working, out ? out : default_directory, error))
        return false;
    spec.directory = directory;
    SCOPED_TEXT train;
    text_init(&train, 1u << 20);
    OWNED(Config, config_free) *config = pack_config(call, &train, error);
    OWNED(Ledger, ledger_free) *ledger = config ? ledger_new() : NULL;
    if (!config)
        return false;
    if (!ledger)
        return FAIL(error, ERROR_MEMORY, 0, "out of memory for the ledger");
    spec.config = config;
    spec.ledger = ledger;
    OWNED(Json, json_free) *report = NULL;
    if (!dataset_pack(&spec, &report, error))
        return false;
    if (call->json)
        output_json(report);
    else if (!call->quiet)
        print_report(report);
    *ret_exit = 0;
    return true;
}
