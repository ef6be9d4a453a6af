// evidence.h - the one format that producers write and judges read: "fedgate.evidence/1", additive only.
//
// Evidence is one JSON object. What could not be measured is left out (or null): "not measured", never a
// pass. A wrong type, or arrays of unequal length, is "error". NaN and infinity (json.h writes them as texts)
// are numbers that never pass. Durations are integer ns, sizes integer bytes, ratios 0..1, times RFC 3339
// texts; keys ending in _wall_ns are ns since the epoch. Arrays of one `steps` object have equal lengths, one
// entry a step, in step order; index rises and may skip steps (sampled windows). Nothing is
// listed twice: pairs, slices, accounts, tensors, columns, stages, probes. [o] marks what
// a judge does without.
// -> names the check.
//
// schema "fedgate.evidence/1"; model slot run version device_class precision task: texts; seed: integer;
//   without schema, model, run, version, device_class or selftest nothing can be judged
//   task "binary" | "multiclass" | "regression"; precision "fp32" | "bf16" | "fp16"; device_class "cpu",
//     "NVIDIA H200"...
// resumed_from_step: integer, 0 when the run was not resumed
//
// timeline -> overlap
//   source: text ("cpu staging thread", "CUPTI activity"...)
//   resident: bool, the data stays on the device and no copy is expected in the steady state: one is an error
//   step_marks: bool, windows were cut at marks on the device; false: nothing can be judged
//   sampled_windows [o]: [ { begin_ns length_ns starved_ns } ], each recorded stretch; without it, or as a
//     plain count, steps of consecutive index are one window, of at most 100 steps. A step number that is
//     missing so ends a window. Judged only when nothing was copied.
//   device_steps [o]: { count covered apart apart_ns total_ns median_ns p99_ns longest_ns slow_ns },
//     integers: every step of the run by the device's own clock, inside and outside of windows. count: steps
//     since the run was resumed whose end the device wrote; covered: lengths from the end of one step to that
//     of the next, of which total_ns, median_ns, p99_ns (shown) and longest_ns speak; slow_ns: the sum of
//     those longer than 3 x median_ns; apart, apart_ns: lengths left out because validation, a checkpoint or
//     the begin or end of a window lies between. Needed unless source is "cpu staging thread", which records
//     every step
//   observation_ns [o]: integer, what windows cost the run, shown only
//   observer [o]: { overheads overhead_ns: integers }, the profiler's own time in the windows, shown only
//   steps: { index[] length_ns[] copy_ns[] hidden_ns[] kernel_ns[] busy_ns[] starved_ns[] h2d_bytes[]
//     pageable_bytes[] wait_ns[] [o] }, the fields of StepOverlap (timeline.h)
//   trust: { dropped zero_timestamps causality: integers, 0 when trusted; reasons[]: texts, empty when
//     trusted: another profiler in the slot, an overflow... }
//
// loop.steps -> fed, closure: host clock, every step of the run or an even sample of them
//   index[] wall_ns[] wait_ns[] exposed_copy_ns[] compute_ns[]
//   steps[] [o]: an entry holds so many steps, given to the device at once, from index on; without it, one.
//     Integers of at least 1; entries do not overlap, and hold no more steps than window.done_steps less
//     resumed_from_step. The spans are of the whole entry
//   rest: { name: [] }, every other measured span of the step by its name ("optimizer", "validation"); may be
//     {}. A name beginning with "wait" counts as batch wait in `fed`; "other" and its like are an error.
//   wait + exposed_copy + compute + rest = wall: each span measured on its own, none derived from the others
// loop.nonfinite_inputs -> input: integer, numeric inputs of training batches that were no finite numbers, as
//   counted on the device before the first multiplication; may be absent only when timeline.source is "cpu
//   staging thread", where a NaN passes through every operation
// stages -> fed: [ { name items bytes busy_ns blocked_in_ns blocked_out_ns depth_p50 depth_p95 depth_max
//   threads } ]
// resources [o]: memory, open files, threads, storage bytes/s of the input pipeline, with caps; shown only
// limiting_stage -> fed: text, the stage with the largest busy_ns / items / threads; both are top level
//
// plausible -> plausible
//   device precision: texts, precision that of the run; cores: integer, needed of device_class "cpu"
//   peak_flops: dense FLOP/s at this precision, 0 unknown; peak_source: text. Policy device.peak_flops > 0
//     replaces it. Of another device_class than "cpu" it may not be above the row of `device` in the table of
//     plan.h, and counts as unknown without a row
//   bandwidth: bytes/s of the level holding the working set, 0 unknown, does not bind; bandwidth_source
//     memory_level
//   claims: [ { name flop bytes time_ns kernel_union_ns count } ], name "forward" | "backward" | "training
//     step", totals over `count` executions; time_ns is the claimed host time, kernel_union_ns the union of
//     the
//     kernels launched inside it
//   shape: { numeric embedding[] hidden[] outputs element_bytes batch }, inputs and widths of the network,
//     those
//     of the policy: the judge works out FLOP and bytes of every claim from it (plan_pass_work)
//   clock: { host_ns device_ns }, one stretch of the run measured by both clocks; no claim is longer
//
// memory -> memory
//   device_bytes reserve budget_bytes: budget = floor(device x (1 - reserve)), checked
//   physical_bytes [o]: what the device has; less than device.memory binds
//   planned_peak_bytes measured_peak_bytes: peaks of all device memory of the run, context included
//   context_bytes: driver and libraries (0 on cpu)
//   unexplained_bytes: what no account explains: on cpu, of the process beside accounts and arenas; elsewhere
//     of driver.own_bytes, beside context_bytes, arena and captures, checked
//   driver: needed unless device_class is "cpu": { own_bytes arena_bytes captures_bytes; source before_bytes
//     used_bytes total_bytes: shown }, the most that the driver counted for this process (by process, or as
//     what the card held more than before); the arena taken from it; recordings at their peak
//   arena, pinned_arena [o]: { bytes peak_bytes live_bytes largest_free_bytes most_pieces }, shown
//   process_peak_bytes [o]: peak resident host memory, shown only
//   accounts: [ { name kind planned_bytes peak_bytes live_bytes } ], all there, kind "device" | "pinned" |
//     "host"
//   validation_bytes [o]: device bytes of validation as planned, inside planned_peak_bytes
//   refusal [o]: why the plan was refused, or which account asked for more than was left
//   live: { phase index[] bytes[] }, live device bytes at the same phase of steps over the whole run; at
//     least 13 (3 of warm-up), not thinned to fewer than 100
//   series: { index[] live_bytes[] workspace_bytes[] arena_peak_bytes[] largest_free_bytes[] and, unless
//     device_class is "cpu", driver_bytes[] module_bytes[] other_bytes[] }, read between steps while it
//     trains
//     (index: steps done): live bytes and those of them that are scratch; high water and longest free piece
//     of
//     the arena; what the driver counts for this process, of it beside arena and recordings (context,
//     modules,
//     libraries), and for others. Causes of growth (gate/memory_causes.c); of fewer than 5 readings none
//   rehearsal: { ok: bool, peak_bytes }
//
// parity -> parity. Producers give errors, the judge has the bars (gate/parity_bars.c). u: unit round-off.
//   precision "fp32" | "bf16" | "fp16"; reference: text ("float64")
//   probes: [ { name shape error limit unit } ], rung 1 on the FP32 reference arm, at least 2; error scaled
//     by the norms of the operands; a limit above 1e-4 would let TF32 (5e-4) pass and is an error
//   All that follows: bf16 and fp16 only, absent else.
//   operations: [ { name shape reduction error reference_error } ], rung 2: largest |y - exact| / (norm of
//     the row x norm of the column), of the half arm against float64 on the operands as given before
//     rounding, and of the FP32 arm; "loss sum": |sum - exact| / exact over so many rows
//   growth: { reduction[] error[] }, rms error / rms result of random products by reduction length
//   controls: [ { name error } ]: comparisons that must fail: "shuffled gradient", "zeroed gradient"
//   gradients: [ { at step rows reference_rows[o] tensors: [ { name norm noise error cosine reference_error
//     } ] } ], rung 3, at "start" and "trained": norm of the reference's, error = ||g - g_ref|| / norm,
//     reference_error likewise of the reference against float64, on reference_rows; noise: norm that the
//     mean of `rows` rows has which only cancel, sqrt(mean of the rows' own ||g||^2 / rows): an error
//     counts by the larger of norm and noise; gradients unscaled, without dropout; norm 0: no cosine
//   step: [ { at step update_error moved moved_reference moment_ratio representable scale_before scale_after
//     scale_expected applied } ], rung 4, from the same FP32 state, at "start", "trained" and, fp16,
//     "growth": update_error ||dw - dw_ref|| / ||dw_ref||, shares of weights that moved, norm of the first
//     moment's change over the reference's, share of master weights that are exact values of the half type;
//     "growth": over two steps, the scale grows in the first
//   scale: { initial final smallest attempted applied skipped schedule longest at_floor bad_losses grown
//     lowered grows stopped }, of the candidate's training; schedule: steps the learning rate went on;
//     grows, stopped: bools; grows: fp16 with train.scale_growth above 0, else the scale is fixed and no
//     step at "growth" is asked for; attempted: window.done_steps
//   trajectory: { steps block pairs: [ { kind seed log_ratio[] } ] }, rung 5: ln of the mean training loss of
//     each block of steps, kind "candidate" (half over FP32, same seed), "ulp" (FP32 with start weights one
//     ulp off over FP32), "seed" (FP32 over FP32 of another seed, at least 2); at least 8 steps; the
//     candidates' seeds are those of this run in metric.pairs
//   metric: { name relative higher_is_better quantum rows pairs: [ { seed run reference candidate } ]
//     trained: { reference candidate } }, rung 6, quality.metric on the validation rows, all
//     (input.rows.validation) and at least 50: earlier nights' pairs first, run names them; quantum: smallest
//     step of the metric; looks: nights that have looked at these pairs, this one included; trained: the
//     candidate's weights scored in both arithmetics
//   slices: [ { column value rows positives[binary] reference[] candidate[] } ], metric of tonight's pairs;
//     without reference and candidate where its rows do not define it (AUC of one class)
//   seconds training_seconds: shown; row_passes: forward passes of a row in rungs 3 to 6, forward and
//     backward counting as three; share: that over the training's own, at most 1 but for short trainings,
//     whose pairs may not be fewer or shorter
//
// determinism -> determinism
//   replays: [ { from_step steps tensors [ { name first again } ] } ], at least two different from_step
//     (start and a middle checkpoint); first, again: digests as texts; all tensors of the model
//   whole_run [o]: { tensors [] }, a whole second run
//   order: { epochs steps_per_epoch rows expected_rows digest expected_digest; device_digest[o] }: whole
//     epochs trained, rows
//     (those of input.rows.train) and digest (text, sum over rows of a hash of the row id, order does not
//     matter) of the last whole epoch, or the first that differed, as the steps took them, also over
//     restarts, and of the training rows; each row exactly once; steps_per_epoch. No whole epoch: epochs 0,
//     the rest absent, and fewer steps done than an epoch has. device_digest: the same sum over the digests
//     that came to the device inside the copies of the batches, so that a slot refilled early shows (one that
//     is not of the batch that was counted is mixed first, or batches that changed places would not); needed
//     when timeline.source is not "cpu staging thread" and the data is not resident
//
// window -> window
//   started deadline: RFC 3339; ended [o]: likewise; planned_steps done_steps: integers
//   stopped_early: bool, the deadline, its forecast or train.time_limit ended training. The early stop of
//     train.patience is a normal end: false, with end_reason "patience"
//   times as texts and as *_wall_ns agree to the millisecond
//   end_reason [o]: "planned" (default; done must reach planned) | "patience" | "deadline" | "time_limit"
//     | "loss_scale"
//   forecasts: [ { at_step inside at_wall_ns end_wall_ns end_upper_wall_ns blocks; end end_upper shown } ],
//     at
//     least one, every one inside: the end, and of 3 blocks on its upper bound with window.margin of what
//     is left
//   blocks: { steps seconds[] }, wall time of consecutive blocks of so many steps, stalls in it, as the last
//     forecast had them: the judge makes it again (plan_window)
//   deadline_wall_ns; now_wall_ns: when training and evaluation had ended
//   deadline_note [o]: what daylight saving did to the deadline, shown only
//   ended_wall_ns: end of step 10, for the late judgement; not asked for in the early one
//
// quality -> quality
//   metric "auc" | "logloss" | "accuracy" | "rmse"; higher_is_better relative: bools, shown; rows: the test
//     rows, those of every pair, of the slices of a column together, and input.rows.test
//   live_kind "none" | "baseline" | "release": only a release that is live must be compared with
//   models: { candidate prior linear, rule when declared, live when a release }, each { version (candidate,
//     live), auc logloss accuracy rmse utility: absent when not defined for the task };
//     the figures are those of its pair, the candidate's version is `version`
//   pairs: [ { against value_a value_b difference standard_error lower upper rows identical constant, and for
//     binary and multiclass tasks utility_a utility_b, a row, utility_difference utility_standard_error;
//     bootstrap: { replicates lower upper, utility_lower utility_upper }, 5 % and 95 % quantiles when the
//     rows
//     are drawn again, the same for both, at least 100 times; margin_kind [o] } ], PairedDifference of
//     stats.h with a = candidate, against "rule" | "prior" | "linear" | "live", one for each model but the
//     candidate
//   slices: [ { column value rows candidate reference reference_name difference lower upper; positives
//     (binary) } ], oriented as pairs; every value of every column in quality.slices; a candidate that is
//     not a number where the reference is one fails at any size
//   calibration: { ece bins[o] }, binary, needed when quality.calibration > 0; threshold [o]; invalid [o]:
//     texts, the producer's reasons why the comparison is void
//
// input -> input
//   rows: { train validation test after_cutoff bad }
//   columns: [ { name role constant missing_ratio; unseen_ratio (categorical); outside_ratio (numeric);
//     distinct_ratio (distinct values over rows that have one); order_ratio (numeric: steps from row to
//     row, in
//     file order, that go the commoner way); single_auc (binary task; by value or by being there);
//     drift_psi (with reference_version); min max mean
//     deviation categories: shown } ], role "numeric" | "categorical" | another, not judged; ratios are those
//     of validation and test rows against the training rows
//   forbidden_used[] schema_changes[]: texts, empty when good
//   slices: [ { column value rows positives (binary) } ], test rows of every value of every column in
//     quality.slices, counted here before there is a model
//   split: { method, train validation test: [first last] }, numbers of records; method is split.method
//   target: { mean deviation shares[] (classes) reference }, of the training rows; reference: the same of
//     the live
//     version's data, needed with reference_version
//   polarity (binary, with reference_version): { columns cosine }, of the columns that told the classes
//     apart in
//     the live version's data (|2 AUC - 1| >= 0.05): cosine between then and now, signs kept
//   reference_version: text; absent or null: nothing is live, drift is not applicable
//
// distribution -> distribution: { live_kind, and with a release reference_version rows psi mean_difference
//     deviation }, candidate's scores against the live version's on the same test rows: PSI over ten bins of
//     equal counts of the live scores, difference of the means, deviation of the live scores; live_kind as in
//     quality. Binary: the score; regression: the value; multiclass: of the probabilities of each class the
//     worst index, and mean and deviation of the class whose mean moved by most deviations
// latency -> latency: { calls rows_per_call p50_ns p99_ns }, one row a call, at least 100 calls
// cost -> cost: { device_seconds samples cost_per_sample unit rate_per_hour }, of the whole night so far:
//     device_seconds x rate_per_hour / 3600 / samples in "currency"; without a rate (0) device_seconds /
//     samples in "device second"
// What is live is said in quality.models.live.version, input.reference_version and
//     distribution.reference_version: all the same, or none.
// release -> rubric: what a person needs beside the checks to accept the release
//   worked_example: { step wall_ns wait_ns exposed_copy_ns compute_ns rest_ns copy_ns hidden_ns; rest{} sum
//     shown }, one step of this night; formal: [ { name actual; by_hand expected tolerance
//     unit shown } ], all of gate/formal.c, tables a reader can check by hand, computed tonight; fallback:
//     { kind version
//     verified: bool; problem shown }, what stays live on a refusal, hashed again; owner: text;
//     simulation [o]: null until a night has one
//
// telemetry -> telemetry (late): { rows acknowledged dropped[o] reason[o] }, after the shipper has ended
// selftest: { refused[] passed[] }, names of planted bad candidates that the gate refused or wrongly let pass
//   this night (gate_self_test fills both); with any in `passed` nothing can be judged, nor when a check has
//   not refused "<check>.absent" and another
#ifndef FEDGATE_EVIDENCE_H
#define FEDGATE_EVIDENCE_H

#define EVIDENCE_SCHEMA "fedgate.evidence/1"
enum { EVIDENCE_MAX_BYTES = 64 * 1000 * 1000 };

#endif
