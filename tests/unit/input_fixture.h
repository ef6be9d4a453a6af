// input_fixture - a folder with data files and a configuration made from --set pairs, for the tests of module
// input.
#ifndef FEDGATE_TESTS_INPUT_FIXTURE_H
#define FEDGATE_TESTS_INPUT_FIXTURE_H

#include <fedgate/file.h>
#include <fedgate/input.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <support.h>

typedef struct Bench {
    char *folder;
    Ledger *ledger;
    Config *config;
    Error error;
} Bench;

static inline Bench bench_new(void)
{
    return (Bench){.folder = support_folder_new(), .ledger = ledger_new(), .error = ERROR_INIT};
}

static inline void bench_done(Bench *bench)
{
    config_free(bench->config);
    for (int kind = 0; kind < LEDGER_KIND_COUNT; kind++)
        ck_assert_int_eq(ledger_live(bench->ledger, (LedgerKind)kind),
                         0);   // everything charged was given back
    ledger_free(bench->ledger);
    support_folder_remove(bench->folder);
}

static inline void bench_write(const Bench *bench, const char *name, const char *bytes, size_t length)
{
    Error error = ERROR_INIT;
    ASSERT_OK(file_write_atomic(support_path(bench->folder, name), bytes, length, 0600, &error), &error);
}

// Sets on top of: binary task, the bench's folder, target y. The last argument is NULL.
static inline void bench_config(Bench *bench, ...)
{
    char directory[FILE_PATH_SIZE];
    snprintf(directory, sizeof directory, "data.directory=%s", bench->folder);
    const char *sets[64] = {"model=test", "data.target=y", directory};
    size_t count = 3;
    va_list more;
    va_start(more, bench);
    for (const char *set; (set = va_arg(more, const char *)) != NULL;)
        sets[count++] = set;
    va_end(more);
    config_free(bench->config);
    bench->config = config_load(NULL, sets, count, NULL, &bench->error);
    ck_assert_msg(bench->config != NULL, "%s", bench->error.message);
}

static inline Dataset *bench_open(Bench *bench)
{
    return dataset_open(bench->config, clock_real(), bench->ledger, &bench->error);
}

#endif
