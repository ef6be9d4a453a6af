// night_internal.h - one night in progress, shared by the files of this folder only.
#ifndef FEDGATE_NIGHT_INTERNAL_H
#define FEDGATE_NIGHT_INTERNAL_H

#include <fedgate/fault.h>
#include <fedgate/gate.h>
#include <fedgate/night.h>
#include <fedgate/process.h>
#include <fedgate/registry.h>
#include <fedgate/telemetry.h>
#include <fedgate/trainer.h>

enum { NIGHT_STEPS = 12, NIGHT_SLOT_SIZE = 64, NIGHT_JSON_MAX = 64 * 1000 * 1000 };

// What a step says about the rest of the night.
typedef enum StepEnd {
    STEP_GO_ON,
    STEP_TO_JUDGE,   // refused already: what was measured goes to the judges
    STEP_TO_SHIP,   // a slot resumed at step 10
    STEP_TO_NOTIFY,   // the end is known and a verdict is due
    STEP_DONE,   // nothing more to write: the stored verdict of a judged slot
    STEP_FAILED,   // error is set
} StepEnd;

// Outcomes of a verdict, best first; the table gives word and exit code.
typedef enum NightOutcome {
    NIGHT_PROMOTED,
    NIGHT_PASSED,
    NIGHT_REFUSED,
    NIGHT_INCONCLUSIVE,
    NIGHT_REVERTED,
    NIGHT_INCONSISTENT,
    NIGHT_FAILED
} NightOutcome;

typedef struct Night {
    // given
    const Config *config;
    const NightOptions *options;
    Clock *clock;
    // who and when
    char model[64], zone[64], slot[NIGHT_SLOT_SIZE], run[UUID_SIZE], version[VERSION_SIZE];
    char directory[FILE_PATH_SIZE];   // runs/<run>
    int64_t started_wall_ns, deadline_wall_ns, ended_wall_ns;
    bool resumed;   // an interrupted run of this slot goes on
    bool shipping_again;   // resumed at step 10
    // held
    Log *log;
    FileLock *lock;
    Registry *registry;
    Telemetry *telemetry;   // NULL while the database is away
    char telemetry_problem[384];
    Error telemetry_error;   // why it is NULL
    Spool *spool;
    ReleaseDraft *draft;
    Process *child;
    DeviceWatch *watch;   // of the child's device, in memory both share
    // made
    Ledger *ledger;
    Dataset *dataset;
    Maps *maps;
    Json *profile;
    Baseline *baselines[BASELINE_COUNT];   // NULL: not declared
    MachineClass machine;
    DeviceInfo device;
    NightPlan plan;   // made while identifying, reported and enforced by step 3
    bool plan_refused;
    double spent_seconds;   // of this run's earlier starts
    double rest_seconds;   // after training, of the night that made what is live; 0: not known
    PlanShape shape;
    TrainShape train_shape;
    Json *record;   // identity
    Json *evidence, *judgement;
    Json *seconds;   // by step
    Json *train_result;   // figures of step 7 for the run record
    Json *stored_record;   // run record of a night resumed at step 10, which measures nothing itself
    bool has_candidate;
    bool candidate_published;
    // what is live
    bool has_head;
    PointerRecord head;
    int64_t expected_seq;   // of the pointer the measurements were compared with; 0: nothing was live
    // the end
    NightOutcome outcome;
    int exit_code;
    char reason[1024], decided_by[32];
    const char *next_who, *next_command;   // what the deciding step asks for; NULL: by the outcome
    Digest verdict_digest;
    Json *verdict;
    bool slot_begun;   // this night wrote the slot's entry; until then an earlier end in it stands
    bool unwritten;   // the verdict stands, but its files could not be written
} Night;

// steps, in order (steps.c has the table)
StepEnd night_step_lock(Night *night, Error *error);
StepEnd night_step_identify(Night *night, Error *error);
StepEnd night_step_plan(Night *night, Error *error);
StepEnd night_step_profile(Night *night, Error *error);
StepEnd night_step_judge(Night *night, Error *error);
StepEnd night_step_bundle(Night *night, Error *error);
StepEnd night_step_decide(Night *night, Error *error);
StepEnd night_step_notify(Night *night, Error *error);

// the child: steps 5 to 8

StepEnd night_run_child(Night *night, Error *error);
int night_child_main(void *night, int report_fd);
typedef struct Child Child;
bool child_evaluate(Child *child, Error *error);   // evaluate.c
bool night_check_utilities(const Config *config, const Dataset *dataset,
                           Error *error);   // evaluate_decisions.c: as many as the classes need
bool child_metric(const Night *night, Metric *ret_metric, Error *error);   // evaluate.c: what decides
bool child_watch(void *child, const TrainProgress *progress);   // watch.c: the TrainWatch of step 7
LadderWord child_watch_ladder(void *child);   // watch.c: the LadderWatch of steps 6 and 8
void child_watch_end(Child *child);   // sends the last, shorter window

// Memory between steps of training, by cause: columns of memory.series.
enum { SERIES_MOST = 400 };
typedef enum SeriesColumn {
    SERIES_STEP,
    SERIES_LIVE,
    SERIES_WORKSPACE,
    SERIES_ARENA,
    SERIES_FREE,
    SERIES_DRIVER,
    SERIES_MODULES,
    SERIES_OTHERS,
    SERIES_COLUMNS
} SeriesColumn;
typedef struct MemorySeries {
    int64_t at[SERIES_MOST][SERIES_COLUMNS];
    size_t count;
    int64_t every, seen, looked_ns;   // one of `every` readings is kept; looked: real clock
    bool arena, driver;   // the columns of them were read
} MemorySeries;

struct Child {
    Night *night;
    int report_fd;
    Device *device;
    char checkpoints[FILE_PATH_SIZE];   // borrowed by the trainer
    Trainer *trainer;
    Model *model;
    Json *evidence;
    TrainResult result;
    double blocks[4096];   // seconds per block, for the forecast
    size_t block_count;
    int64_t block_steps;
    TrainProgress window;   // sums since the last telemetry row
    double window_samples;
    int64_t progress_sent_ns;   // real clock
    int64_t context_bytes, context_live[LEDGER_KIND_COUNT];   // before the device: resident, and accounted
    FedgateMemoryUse driver;   // when this process had most of the card
    int64_t driver_own_bytes;   // that most; 0: the driver cannot say
    bool driver_by_process;   // counted by process, not by what the whole card has more than before
    MemorySeries series;
    int64_t ladder_asked;   // how many times
    bool stop_for_window, stop_for_signal;
};
void child_report(Child *child, Json *message);   // one line to the parent; consumes

// memory.c: what a plan asks of the device and of the feed, what the machine allows, the plan in the ledger
PlanDevice night_plan_device(const DeviceInfo *device);   // assumed when the device has no name
void night_plan_feeding(const Config *config, const DeviceInfo *device, size_t train_rows, PlanShape *shape);
void night_bound_by_machine(const Config *config, const DeviceInfo *device, MemoryPlan *plan);
void night_plan_accounts(Night *night);
// child_memory.c
bool child_set_arena(Child *child, Error *error);
void child_look_at_driver(Child *child);
void child_sample_memory(Child *child, int64_t step);   // for memory.series
void child_put_series(Child *child);   // when training has ended
void child_note_memory(Child *child);   // evidence `memory` but for the plan and what training wrote

// helpers (end.c)
bool night_on_cpu(const Night *night);   // the device is the host's own processor
void night_end(Night *night, NightOutcome outcome, int exit_code, const char *decided_by, const char *reason);
void night_say(Night *night, const char *reason);   // cut when too long
const char *night_outcome_name(NightOutcome outcome);
extern const char *const night_outcome_names[];   // in the order of NightOutcome, NULL at the end
bool night_file(const Night *night, const char *name, char *ret_path, Error *error);   // in the run directory
bool night_save(const Night *night, const char *name, const Json *value, Error *error);
Json *night_section(Json *evidence, const char *name);   // existing object or a new one, borrowed
void night_time(const Night *night, int64_t wall_ns, char ret_text[static CLOCK_TIME_SIZE]);
bool night_live_run(const Night *night,
                    char ret_run[static UUID_SIZE]);   // run that made the live release; false: none
bool night_lock_names_run(Night *night, Error *error);   // after `run` changed: `watch` finds it there
bool night_interrupted(void);   // SIGTERM or SIGINT came
void night_watch_signals(void);
Json *night_measured(const Night *night);   // measured.c
Json *night_verdict(Night *night);   // verdict.c
// notice.c: posts and metrics, never a failure; notices that wait, which the verdict then names.
int night_tell(Night *night, const ShipResult *shipped);
bool night_slot_close(Night *night, bool judged, Error *error);
void night_shape(const Config *config, const Dataset *dataset, const Maps *maps, TrainShape *ret_train,
                 PlanShape *ret_shape);
// Seconds still to come when training has ended, for the forecast: as the night that made what is live took,
// else a second, and in half precision as long as training: what the later rungs of parity take at most, but
// for short trainings.
double night_seconds_after_training(const Night *night, double training_seconds);
bool night_make_plan(const Config *config, const PlanShape *shape, const DeviceInfo *device,
                     const Dataset *dataset, int64_t start_wall_ns, NightPlan *ret_plan, Error *error);

// parity pairs over nights (pairs.c)
bool night_pairs_steps(const Night *night, Metric metric, int64_t *ret_steps,
                       Error *error);   // length of earlier nights' pairs; 0: none
bool night_pairs_join(const Night *night, Json *parity, Error *error);   // earlier nights' before tonight's
bool night_pairs_keep(const Night *night, Error *error);   // for the nights to come

// the evidence a person accepts a release by (release.c, release_formal.c)
bool night_put_release(Night *night, Error *error);   // before judging: sections release and cost
void night_put_cost(const Night *night, Json *cost);
bool night_save_release(const Night *night, Error *error);   // after: release-evidence.json, with the rubric
Json *night_formal_results(Error *error);

// telemetry rows (rows.c)
bool night_spool_start(Night *night, Error *error);
bool night_spool_evidence(Night *night, Error *error);
bool night_spool_verdict(Night *night, Error *error);
Json *night_run_record(const Night *night);
void night_connect(Night *night);   // sets telemetry or telemetry_problem; INCONSISTENT and CONFIG are left
                                    // to night_connect_check
bool night_connect_check(Night *night, Error *error);
bool night_mirror(Night *night, Error *error);

#endif
