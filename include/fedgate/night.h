// night.h - the twelve steps of a night, each named, timed, logged and resumable; nothing else knows their
// order.
//
// Files of a run, in <home>/runs/<run>/: record.json (identity), plan.json, plan.txt, evidence.json,
// timeline.json (Chrome trace), judgement.json, release-evidence.json (what a person accepts a release by),
// verdict.json, verdict.txt, run.json (complete run record), log.jsonl, progress.json, state.json (step
// reached), checkpoints/, profile.json. <home>/last-verdict.json is replaced atomically at every end except
// usage errors and a second start's refusal.
#ifndef FEDGATE_NIGHT_H
#define FEDGATE_NIGHT_H

#include <fedgate/compute.h>
#include <fedgate/config.h>
#include <fedgate/log.h>
#include <fedgate/plan.h>

typedef struct NightOptions {
    const char *home;
    const char *slot;   // NULL: local date of the deadline
    bool retry, no_promote, quiet;
    const char *migrations;   // folder
    const char *backend_path;   // folder of loadable back ends, may be NULL
    bool terminal;   // stderr is a terminal: progress line rewritten in place
} NightOptions;

typedef struct NightResult {
    int exit_code;   // design.md section 2
    bool unwritten;   // the verdict stands, but its files could not be written: say so also when quiet
    char sentence[1024];   // the last line on stderr
    Json *verdict;   // the caller's; NULL when the night ended before there was one
} NightResult;

// Runs, or reports the slot that was already judged. False only for errors before the lock (configuration,
// not a home, busy): their exit code is error's. Everything later ends in a verdict and true.
WARN_UNUSED bool night_run(const Config *config, const NightOptions *options, Clock *clock,
                           NightResult *ret_result, Error *error);
void night_result_done(NightResult *result);

extern const char *const night_step_names[];   // lock identify plan profile rehearse parity train evaluate
                                               // judge bundle decide notify
extern const size_t night_step_count;

// Facts of the configured device, from a process of its own: the caller opens none. ERROR_UNAVAILABLE absent
// or refused, ERROR_DEVICE unsupported here.
WARN_UNUSED bool night_device(const Config *config, DeviceInfo *ret_info, Error *error);
// The same, and what a night will ask of it: a short window of the profiler, and what the driver counts.
typedef struct DeviceTrial {
    DeviceInfo info;
    char profiler[128];   // why a window is not to be trusted; "": it is, or this back end needs none
    bool counts;   // the driver says what memory is used
    FedgateMemoryUse memory;
} DeviceTrial;
WARN_UNUSED bool night_try_device(const Config *config, DeviceTrial *ret_trial, Error *error);

// `fedgate plan`: shapes from the data set when one is configured, else from the memory.* and plan.* options.
// ret_absent: why the device could not be asked; figures that follow from it are then declared or assumed. Of
// kind NONE when it was asked, or need not be.
WARN_UNUSED bool night_plan(const Config *config, Clock *clock, NightPlan *ret_plan, Error *ret_absent,
                            Error *error);

// `fedgate verify [VERSION]`: re-hashes releases (all that records name, or one), walks the chain in the home
// and, when reachable, in the database. ret_report gets one line each. Exit code 0 or 13.
WARN_UNUSED bool night_verify(const Config *config_or_null, const char *home, const char *version_or_null,
                              Clock *clock, Text *ret_report, int *ret_exit_code, Error *error);

#endif
