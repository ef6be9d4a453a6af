// judge_stored.h - what `judge` reads: stored nights, and how a judgement differs from their verdicts;
// private to src/cli.
#ifndef FEDGATE_CLI_JUDGE_STORED_H
#define FEDGATE_CLI_JUDGE_STORED_H

#include <fedgate/file.h>
#include <fedgate/gate.h>

// One night for each argument that is an evidence file (.json, or the same by gzip) or a run directory, and
// one for each run of a home, in the order of their names, which is that of time.
typedef struct StoredNight {
    char evidence[FILE_PATH_SIZE];
    bool of_home;   // a run of a home that has no evidence ended before anything was judged: no error
} StoredNight;

// ERROR_USAGE: a folder that is neither a run nor a home. ret_nights: free it.
WARN_UNUSED bool stored_find(const char *const *arguments, size_t count, StoredNight **ret_nights,
                             size_t *ret_count, Error *error);
// ERROR_IO, ERROR_DATA: not there, no JSON, another schema.
WARN_UNUSED Json *stored_read(const char *path, Error *error);
// The verdict.json beside the evidence; NULL when there is none that can be read.
Json *stored_verdict(const char *evidence_path);

// A row of a list: { file, judgement; slot run version as the evidence says; then { outcome decided_by reason
// policy_digest } of the verdict beside it or null; otherwise: true when a required check decides otherwise,
// null without a verdict; changed [ {name then now reason} ], checks whose outcome is another }. `outcome` of
// `then` is that of the early checks alone, as `judgement` has it: telemetry, a hold or a missed deadline is
// no policy.
Json *stored_compare(const char *path, const Json *evidence, const Json *judgement,
                     const Json *verdict_or_null);

#endif
