// gate - the table of checks, in the order of design.md section 4, and the check of a policy against it.
//
// A row is all the rest of the program knows of a check. What a failing check means for people stands in the
// same row, so that nobody can add a check without saying who acts and when to stop.
#include "gate_internal.h"

#include <fedgate/text.h>

const GateCheck gate_checks[] = {
    {.name = "overlap",
     .question = "Was the device kept busy while the next batch was copied, in every step after warm-up?",
     .evidence = "timeline window.done_steps resumed_from_step",
     .limits = "overlap.floor overlap.steps overlap.starved overlap.pageable",
     .always_required = true,
     .file = "timeline.json",
     .failure = {"copies stop the computation, or the device waits for work",
                 "device timeline per step: hidden share, starvation gaps, pageable bytes, trend; between "
                 "sampled windows every step by the device's clock",
                 "ML engineer",
                 "more prefetch and staging slots, pinned memory, asynchronous copies; look at the widest "
                 "gaps in timeline.json",
                 "nothing is promoted until 95 % of the steps hide 80 % of their copies again"},
     .judge = check_overlap},
    {.name = "fed",
     .question = "Did steps find their batch ready, and which input stage limits?",
     .evidence = "loop stages limiting_stage window.done_steps resumed_from_step",
     .limits = "fed.wait",
     .file = "evidence.json",
     .failure = {"the input pipeline is slower than the computation",
                 "batch wait per step, queue depth and busy time of each input stage", "ML engineer",
                 "speed up the limiting stage first: workers, then decode, then storage",
                 "stop adding workers when batch wait no longer falls"},
     .judge = check_fed},
    {.name = "plausible",
     .question = "Could this device have been that fast?",
     .evidence = "precision device_class plausible input.rows",
     .limits = "device.peak_flops device.bandwidth plausible.clock",
     .always_required = true,
     .file = "evidence.json",
     .failure = {"a timer stopped before the device had finished, or a figure was made up",
                 "claimed rate against min(peak, intensity x bandwidth), claimed time against the kernels "
                 "inside it, two clocks",
                 "ML engineer",
                 "synchronise before the timer stops; declare device.peak_flops for a device the table does "
                 "not know",
                 "no figure of this run is used until its claim is possible"},
     .judge = check_plausible},
    {.name = "closure",
     .question = "Do the measured spans of a step add up to its wall time?",
     .evidence = "loop window.done_steps resumed_from_step",
     .limits = "closure.tolerance closure.steps",
     .file = "evidence.json",
     .failure = {"time goes where nobody measures, or a span is counted twice",
                 "sum of separately measured spans against the step's wall time", "ML engineer",
                 "give the missing time a span of its own",
                 "no stage timing is trusted until the sums close"},
     .judge = check_closure},
    {.name = "memory",
     .question = "Did plan and run stay in the memory budget, and does nothing grow?",
     .evidence = "device_class memory window.done_steps",
     .limits = "device.memory memory.reserve memory.unexplained",
     .always_required = true,
     .file = "evidence.json",
     .failure = {"out of memory, or something is kept from step to step",
                 "planned and measured peak, live bytes at the same phase of each step, unexplained bytes, "
                 "rehearsal",
                 "ML engineer",
                 "a smaller train.microbatch keeps the batch by accumulation; a leak is found in the account "
                 "that grows",
                 "the night ends before training when the plan or the rehearsal does not fit"},
     .judge = check_memory},
    {.name = "parity",
     .question = "Is the reference FP32, and does the precision used give the same model?",
     .evidence = "run precision parity window input quality determinism",
     .limits = "parity.pairs parity.margin parity.slice_margin quality.slices train.scale_growth",
     .always_required = true,
     .file = "evidence.json",
     .failure =
         {"reduced precision in secret, or a model changed by it",
          "FP32 by behaviour; operations, gradients and one step against FP32 and float64; loss scale; loss "
          "in the band of FP32 runs; metric and slices of paired seeds",
          "ML engineer",
          "the first rung that fails names the place; train.precision: fp32 meanwhile. Undecided: more "
          "parity.pairs, or more nights",
          "nothing is promoted whose precision changed the model, or on a machine whose reference is no "
          "reference"},
     .judge = check_parity,
     .details = parity_table},
    {.name = "determinism",
     .question = "Do replayed steps give the same bits, and does each epoch take each row once?",
     .evidence = "determinism window input timeline.source timeline.resident",
     .limits = "determinism.steps",
     .file = "evidence.json",
     .failure =
         {"the same version gives other bits, or rows are dropped or counted twice",
          "digest per tensor of steps replayed from the start and from a checkpoint; count and digest of "
          "the rows of the last epoch, as taken and as copied",
          "ML engineer",
          "look at the first tensor that differs: library, thread count, uninitialised memory, "
          "failing hardware",
          "nothing is promoted until a replay repeats; twice on one machine: test its memory"},
     .judge = check_determinism},
    {.name = "window",
     .question = "Did the night end, whole, before its deadline?",
     .evidence = "window",
     .limits = "window.deadline window.zone window.length window.margin",
     .always_required = true,
     .file = "evidence.json",
     .failure = {"the night is too long for its window",
                 "forecast before, during and at the end, from block means with stalls included",
                 "operations", "start earlier, or fewer train.epochs; a checkpoint was saved",
                 "a run that cannot finish stops itself; nothing is promoted after the deadline"},
     .judge = check_window,
     .judge_late = check_window_end},
    {.name = "quality",
     .question = "Is the candidate better than the simple ways and no worse than what is live?",
     .evidence = "task quality input.slices",
     .limits = "quality.metric quality.margin quality.live_margin quality.slice_rows quality.slice_margin "
               "quality.calibration",
     .always_required = true,
     .file = "evidence.json",
     .failure = {"the model does not earn its complexity, or got worse",
                 "paired comparison on the same test rows with rule, prior, linear model and live version, "
                 "by slice too; utility of the decisions; calibration",
                 "model owner",
                 "look at the data first: drift, labels, leakage; the simple model may be the right one",
                 "the last known-good stays live; after three nights talk about the data"},
     .judge = check_quality},
    {.name = "input",
     .question = "Is tonight's data what the model may learn from?",
     .evidence = "task input loop.nonfinite_inputs timeline.source",
     .limits = "input.missing input.unseen input.outside input.drift input.leakage input.identifier "
               "input.target_shift input.after_cutoff data.bad_rows split.method",
     .file = "evidence.json",
     .failure = {"a column is empty, constant, shifted, forbidden, or knows the answer",
                 "profile of every column against limits, the training rows and the live version's data",
                 "data owner", "repair the source and run again with --retry",
                 "nothing is promoted on data outside its limits"},
     .judge = check_input},
    {.name = "distribution",
     .question = "Do the scores lie where those of the live version lie?",
     .evidence = "distribution quality",
     .limits = "distribution.drift distribution.mean",
     .not_applicable_passes = true,
     .file = "evidence.json",
     .failure = {"the model answers otherwise than the one in service, as a whole",
                 "PSI and mean of the scores against the live version's on the same test rows", "model owner",
                 "look at what changed between the two: data, features, threshold; rehearse with who acts on "
                 "the scores",
                 "the last known-good stays live until somebody who acts on the scores has agreed"},
     .judge = check_distribution},
    {.name = "cost",
     .question = "Is the night cheap enough for the samples it trained?",
     .evidence = "cost",
     .limits = "cost.limit cost.device_hour",
     .file = "evidence.json",
     .failure = {"the night costs more than it may", "device seconds of the night x rate / samples trained",
                 "ML engineer",
                 "look at the seconds by step in run.json; fewer epochs, a larger batch, a cheaper device",
                 "the last known-good stays live; no further try of the same night"},
     .judge = check_cost},
    {.name = "latency",
     .question = "Is one row scored inside the limits?",
     .evidence = "latency",
     .limits = "latency.p50 latency.p99",
     .file = "evidence.json",
     .failure = {"scoring is too slow for who waits for it",
                 "p50 and p99 of scoring one row at a time, after training", "ML engineer",
                 "a narrower model, or scores computed before they are asked for",
                 "nothing is promoted that is slower than its limit"},
     .judge = check_latency},
    {.name = "rubric",
     .question = "Is what a person needs to accept the release there?",
     .evidence = "release latency cost",
     .limits = "rubric.score",
     .file = "release-evidence.json",
     .failure = {"a release nobody could explain, undo or find the owner of",
                 "production rubric: the other checks, worked example, hand-checked results, fallback, owner",
                 "operations", "complete the first required item that is not met; see release-evidence.json",
                 "nothing is promoted with a required item missing"},
     .judge_after = check_rubric},
    {.name = "telemetry",
     .question = "Does the database hold every row of the run?",
     .evidence = "telemetry",
     .limits = "telemetry.required",
     .late = true,
     .not_applicable_passes = true,
     .file = "evidence.json",
     .failure = {"the record of the night is not stored",
                 "rows acknowledged by PostgreSQL against rows spooled", "operations",
                 "bring the database back; the same slot goes on from the bundle step without training again",
                 "no promotion without its record; at the deadline the slot ends"},
     .judge = check_telemetry},
};

const size_t gate_check_count = sizeof gate_checks / sizeof gate_checks[0];
_Static_assert(sizeof gate_checks / sizeof gate_checks[0] <= CHECKS_MOST,
               "names of all checks fit the suggestion list");

const GateCheck *gate_find_check(const char *name)
{
    for (size_t i = 0; i < gate_check_count; i++) {
        if (text_equal(gate_checks[i].name, name)) {
            return &gate_checks[i];
        }
    }
    return NULL;
}

static bool unknown_check(const char *name, Error *error)
{
    const char *names[CHECKS_MOST];
    for (size_t i = 0; i < gate_check_count; i++) {
        names[i] = gate_checks[i].name;
    }
    const char *nearest = text_nearest(name, names, gate_check_count);
    (void)FAIL(error, ERROR_CONFIG, 0, "unknown check '%s' in 'checks.required'", name);
    return nearest == NULL ? false : error_hint(error, "Did you mean '%s'?", nearest);
}

static bool listed(const char *const *names, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (text_equal(names[i], name)) {
            return true;
        }
    }
    return false;
}

bool gate_check_names(const char *const *names, size_t count, Error *error)
{
    if (count == 0) {
        return FAIL(error, ERROR_CONFIG, 0,
                    "option 'checks.required' is empty: a policy that requires nothing judges nothing");
    }
    for (size_t i = 0; i < count; i++) {
        if (gate_find_check(names[i]) == NULL) {
            return unknown_check(names[i], error);
        }
    }
    for (size_t i = 0; i < gate_check_count; i++) {
        if (gate_checks[i].always_required && !listed(names, count, gate_checks[i].name)) {
            return FAIL(error, ERROR_CONFIG, 0,
                        "check '%s' is missing from 'checks.required' and cannot be switched off",
                        gate_checks[i].name);
        }
    }
    return true;
}

bool gate_check_policy(const Config *policy, Error *error)
{
    const char *names[CHECKS_MOST];
    size_t count = config_list_count(policy, "checks.required");
    if (count > CHECKS_MOST) {
        BUG("%zu required checks, but config refuses a name given twice", count);
    }
    for (size_t i = 0; i < count; i++) {
        names[i] = config_list_text(policy, "checks.required", i);
    }
    return gate_check_names(names, count, error);
}
