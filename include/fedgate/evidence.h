// evidence.h - the one format every producer writes and every judge reads: "fedgate.evidence/1", additive only.
//
// Evidence is one JSON object. A section or key that could not be measured is left out (or null): that is "not measured",
// never a pass. A wrong type, or arrays of unequal length, is "error". NaN and infinity (json.h writes them as texts) count
// as numbers and never pass. Durations are integer ns, sizes integer bytes, ratios 0..1, times RFC 3339 texts, keys ending
// in _wall_ns ns since the epoch. Arrays of one `steps` object have equal lengths, one entry a step, in step order; index
// may skip steps (sampled windows). (optional) marks what a judge does without; all else is needed by the check named after ->.
//
// schema "fedgate.evidence/1"; model slot run version device_class precision task: texts; seed integer
//   task "binary" | "multiclass" | "regression"; precision "fp32"; device_class "cpu", "NVIDIA H200"...
// resumed_from_step          integer, 0 when the run was not resumed
//
// timeline                                                                                   -> overlap
//   source                   text: "cpu staging thread", "cupti"...
//   resident                 bool: the data stays on the device, no copy is expected in the steady state
//   step_marks               bool: windows were cut at marks on the device; false: nothing can be judged
//   sampled_windows []       { begin_ns length_ns starved_ns } each recorded stretch (optional; without it, or as a plain
//                            count, each step is its own window). Judged only when nothing was copied.
//   steps                    { index[] length_ns[] copy_ns[] hidden_ns[] kernel_ns[] busy_ns[] starved_ns[] h2d_bytes[]
//                            pageable_bytes[]; wait_ns[] (optional) }: the fields of StepOverlap (timeline.h)
//   trust                    { dropped zero_timestamps causality: integers, all 0 when trusted; reasons[]: texts, empty }
//
// loop.steps                 host clock, every step of the run or an even sample of them   -> fed, closure
//   index[] wall_ns[] wait_ns[] exposed_copy_ns[] compute_ns[]
//   rest { name: [] ... }    every other measured span of the step by name: "optimizer", "validation", "checkpoint"; a
//                            name beginning with "wait" counts as batch wait in `fed`; "other" is an error; may be {}.
//                            wait + exposed_copy + compute + rest = wall: each span measured on its own, none derived.
// stages []                  { name; items bytes busy_ns blocked_in_ns blocked_out_ns depth_p50 depth_p95 depth_max threads } -> fed
// limiting_stage             text: the name of one of `stages`; top level                     -> fed
//
// plausible                                                                                  -> plausible
//   device precision         texts; cores integer (optional)
//   peak_flops peak_source   dense FLOP/s at this precision, 0 unknown; where from. Policy device.peak_flops > 0 replaces it
//   bandwidth bandwidth_source memory_level   bytes/s of the level holding the working set, 0 unknown: does not bind
//   claims []                { name flop bytes time_ns kernel_union_ns count }: totals over `count` executions; time_ns is
//                            the claimed host time, kernel_union_ns the union of the kernels launched inside it
//   clock                    { host_ns device_ns }: one stretch of the run measured by both clocks
//
// memory                                                                                     -> memory
//   device_bytes reserve budget_bytes        budget = floor(device x (1 - reserve)), checked
//   physical_bytes           what the device has (optional); a smaller one than device.memory binds
//   planned_peak_bytes measured_peak_bytes   peaks of all device memory of the run, context included
//   context_bytes unexplained_bytes          driver and libraries; what no account explains (0 on cpu)
//   process_peak_bytes       peak resident host memory (optional, shown only)
//   accounts []              { name kind planned_bytes peak_bytes live_bytes }, kind "device" | "pinned" | "host"
//   live                     { phase; index[] bytes[] }: live device bytes at the same phase of steps over the whole run,
//                            at least 13 of them (3 of warm-up); not thinned to fewer than 100 when there are more steps
//   rehearsal                { ok bool, peak_bytes }
//
// parity                                                                                     -> parity
//   precision "fp32", reference text ("float64")
//   probes []                { name shape error limit unit }: rung 1; error scaled by the norms of the operands; at least 2;
//                            a limit above 1e-4 would let TF32 (5e-4) pass and is an error
//
// determinism                                                                                -> determinism
//   replays []               { from_step steps tensors [ { name first again } ] }: at least two different from_step (the
//                            start and a middle checkpoint); first, again: digests as hex texts; all tensors of the model
//   whole_run                { tensors [] } (optional): a whole second run
//
// window                                                                                     -> window
//   started deadline         RFC 3339; ended (optional) likewise
//   planned_steps done_steps integers
//   stopped_early            bool: the deadline, its forecast or train.time_limit ended training. The early stop of
//                            train.patience is a normal end: false, with end_reason "patience"
//   end_reason               "planned" | "patience" | "deadline" | "time_limit" (optional: then done must reach planned)
//   forecasts []             { at_step inside; end end_upper (optional) RFC 3339 }: at least one, every one must be inside
//   now_wall_ns deadline_wall_ns   when training and evaluation had ended; the deadline
//   ended_wall_ns            end of step 10, put before the late judgement; absent in the early one
//
// quality                                                                                    -> quality
//   metric                   "auc" | "logloss" | "accuracy" | "rmse"; higher_is_better, relative: bools (shown only)
//   rows                     test rows, integer
//   live_kind                "none" | "baseline" | "release": what is live; "none" and "baseline" need no comparison with live
//   models                   { candidate prior linear; rule when declared; live when live_kind is "release" }, each { version
//                            (candidate, live); auc logloss accuracy rmse utility: absent when not defined for the task }
//   pairs []                 { against "rule" | "prior" | "linear" | "live"; value_a value_b difference standard_error lower upper rows
//                            identical constant; utility_a utility_b (binary) }: PairedDifference of stats.h, a = candidate;
//                            one pair for each model but the candidate. margin_kind (optional, shown)
//   slices []                { column value rows; positives (binary); candidate reference reference_name difference lower
//                            upper }: oriented as pairs; every value of every column in quality.slices
//   threshold calibration    (optional, shown)
//   invalid []               texts: reasons of the producer why the comparison is void (optional)
//
// input                                                                                      -> input
//   rows                     { train validation test after_cutoff bad }
//   columns []               { name; role "numeric" | "categorical" | anything else: not judged; missing_ratio; unseen_ratio (categorical);
//                            outside_ratio (numeric); constant bool; single_auc >= 0.5 (binary, numeric needed, else optional);
//                            drift_psi when reference_version is given; min max mean deviation categories (shown) }
//                            ratios are of the test and validation rows against the training rows
//   forbidden_used[] schema_changes[]   texts, empty when good
//   reference_version        text; null or absent: nothing is live, drift is not applicable
//
// telemetry                  { rows acknowledged; dropped reason (optional) }: late, after the shipper ended -> telemetry
// selftest                   { refused[] passed[] } names of planted bad candidates the gate refused / wrongly let pass this
//                            night (gate_self_test fills both); any in `passed`: nothing can be judged
#ifndef FEDGATE_EVIDENCE_H
#define FEDGATE_EVIDENCE_H

#define EVIDENCE_SCHEMA "fedgate.evidence/1"
enum { EVIDENCE_MAX_BYTES = 64 * 1000 * 1000 };

#endif
