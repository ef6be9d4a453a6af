// corpus - the corpus of nights: fixtures/nights/<name>/{given,expect}.json, read and checked before any is
// run.
//
// The format is in fixtures/nights/README.md. Whatever a file says that no rule knows is refused: a key that
// is misspelt would otherwise be a night that proves nothing.
#ifndef FEDGATE_TESTS_CORPUS_H
#define FEDGATE_TESTS_CORPUS_H

#include <fedgate/file.h>
#include <fedgate/json.h>

enum { CORPUS_LEAST = 110, CORPUS_NAME_SIZE = 64 };

typedef struct CorpusNight {
    char name[CORPUS_NAME_SIZE];
    bool stored;   // evidence of fixtures/good, changed and judged again; nothing is run
    char config[FILE_PATH_SIZE];   // the configuration every run is started with
    Json *given, *expect;
    size_t runs;   // `runs` of both have so many entries; none given: one plain run
} CorpusNight;

// Names of the nights in `folder`, sorted. ERROR_DATA when there are fewer than `least`, or when something
// lies there that is neither a night nor README.md or failures.tsv.
WARN_UNUSED bool corpus_list(const char *folder, size_t least, FileList *ret_names, Error *error);

// ERROR_DATA or ERROR_IO, naming the night: no expectation, an unknown key, a value of another type, not as
// many expectations as runs. `configs` is the folder of the configurations that are named.
WARN_UNUSED CorpusNight *corpus_load(const char *folder, const char *name, const char *configs, Error *error);
void corpus_free(CorpusNight *night);   // NULL allowed

#endif
