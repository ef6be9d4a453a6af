// gate_internal.h - what the judges share: reading a section of the evidence, and saying what was found.
//
// A reader that returns false has already written the finding: absent or null is not_measured, another type
// or another length is error. So a judge reads `if (!read(...)) return;` and never meets evidence it did not
// check.
#ifndef FEDGATE_GATE_INTERNAL_H
#define FEDGATE_GATE_INTERNAL_H

#include <fedgate/arena.h>
#include <fedgate/gate.h>
#include <math.h>

enum { STEPS_TO_JUDGE = 20, WALL_NS_PER_S = 1000000000, CHECKS_MOST = 32 };

// -- findings
#define NO_FIGURE ((Figure){NAN, NAN, "", 0})
typedef struct Figure {
    double value, limit;
    const char *unit;
    int64_t n;
} Figure;
void finding_set(Finding *ret, Outcome outcome, Figure figure, const char *format, ...) PRINTF_LIKE(4, 5);
// The numeric rule in its two directions. False: the finding is a fail that names `what` and both figures.
bool require_at_least(Finding *ret, Figure figure, const char *what);
bool require_at_most(Finding *ret, Figure figure, const char *what);
// "0.8123 ratio"; seconds, bytes and counts in whole units.
void figure_text(double value, const char *unit, char ret_text[static 48]);

// -- reading
typedef struct Section {
    const Json *at;
    const char *name;   // dotted, for the reason
    Finding *finding;
    Arena *judge;   // series live as long as the judge's call
    size_t length;   // of the series read so far; SIZE_MAX before the first
} Section;
bool section_open(const Json *evidence, const char *dotted, Arena *judge, Finding *ret, Section *ret_section);
bool section_inside(const Section *outer, const Json *item,
                    Section *ret_section);   // an object in an array of `outer`
bool section_child(const Section *outer, const char *key, const char *dotted, Section *ret_section);
bool section_number(const Section *section, const char *key, double *ret_value);
bool section_integer(const Section *section, const char *key, int64_t *ret_value);
// The same, and an error when it is not finite or below 0: what is counted or measured cannot be negative.
bool section_amount(const Section *section, const char *key, double *ret_value);
bool section_count(const Section *section, const char *key, int64_t *ret_value);
bool section_bool(const Section *section, const char *key, bool *ret_value);
bool section_text(const Section *section, const char *key, const char **ret_string);
bool section_array(const Section *section, const char *key, const Json **ret_array);
bool section_has(const Section *section, const char *key);   // present and not null
// Room for count + 1 numbers, zeroed; NULL, with the finding written, when memory is short.
double *section_scratch(const Section *section, size_t count);
// Numbers of one array; every series of a section must be as long as the first one read.
bool section_series(Section *section, const char *key, const double **ret_values);
// The same, and an error when a value is not finite or below 0: durations and sizes.
bool section_amounts(Section *section, const char *key, const double **ret_values);

// The series 'index': step numbers that rise, so that no step counts twice.
bool section_index(Section *section);
// The series 'steps': how many each entry holds, at least one and whole; all 1 without it. ret_total: their
// sum.
bool section_held(Section *section, const double **ret_steps, double *ret_total);
// Step numbers rise, entries do not overlap, and all together hold no more steps than the run has done.
bool section_entries(const Json *evidence, Section *section, const double *steps, double total);
// Evidence that comes from the cpu back end's own staging thread, which sees every step, copy and input.
bool from_staging_thread(const Json *evidence);
// No two objects of the array agree in the text `key` (and, when not NULL, in `second`); an object without
// it is left to its reader.
bool section_distinct(const Section *section, const Json *array, const char *key, const char *second);

// Every column of quality.slices has a slice in the array.
bool section_covers(const Section *section, const Config *policy, const Json *slices);

// Step lengths to whole nanoseconds, then timeline_warmup. False when memory is short.
bool count_warmup(const Section *section, const double *length_ns, size_t steps, size_t *ret_warmup);

enum { JUDGE_MEMORY_BYTES = 1000 * 1000 * 1000 };   // series of 64 MB of JSON fit many times

// -- judges, one file each
void check_overlap(const Json *evidence, const Config *policy, Finding *ret);
// overlap_device.c: what lies between the sampled windows, of which `window_ns` are the step lengths. Makes
// a finding of `overlap` worse, never better.
void judge_device_steps(const Json *evidence, const Section *timeline, const double *window_ns, size_t steps,
                        const Config *policy, Finding *ret);
void check_fed(const Json *evidence, const Config *policy, Finding *ret);
void check_plausible(const Json *evidence, const Config *policy, Finding *ret);
void check_closure(const Json *evidence, const Config *policy, Finding *ret);
void check_memory(const Json *evidence, const Config *policy, Finding *ret);
void check_parity(const Json *evidence, const Config *policy, Finding *ret);
void check_determinism(const Json *evidence, const Config *policy, Finding *ret);
void check_window(const Json *evidence, const Config *policy, Finding *ret);
void check_window_end(const Json *evidence, const Config *policy, Finding *ret);
void check_quality(const Json *evidence, const Config *policy, Finding *ret);
// The largest utility or cost of one decision: what a margin on decisions is measured in.
double largest_utility(const Config *policy, bool binary);
// What acting on the scores of the candidate and of another model is worth, a row, and their difference.
typedef struct Decisions {
    double candidate, other, difference, standard_error;
    double drawn_lower, drawn_upper;   // bounds of the difference when the rows are drawn again
} Decisions;
bool read_decisions(const Section *pair, Decisions *ret);
bool judge_decisions(const Section *quality, const char *against, bool live, double slack,
                     const Decisions *decisions, int64_t rows);
// Expected calibration error inside quality.calibration, when that is above 0 and the rows are enough to
// tell. ret_said: what a passing reason adds.
bool judge_calibration(const Section *quality, const Config *policy, int64_t rows, char ret_said[static 64]);
// A slice of any size whose candidate's metric is not a number while the reference's is: false, with the
// fail.
bool judge_slice_numbers(const Section *quality);
// The part of quality that looks at slices. ret_judged: slices large enough; ret_small: too small to resolve.
bool judge_slices(const Json *evidence, const Section *quality, const Config *policy, bool counts_classes,
                  int64_t *ret_judged, int64_t *ret_small);
void check_input(const Json *evidence, const Config *policy, Finding *ret);
// check_label.c: parts of input. separable: some column tells the classes apart.
bool judge_naming(const Section *column, const Config *policy, const char *name, bool numeric);
bool judge_label(const Section *input, const Config *policy, const char *task, bool separable);
bool judge_split(const Section *input, const Config *policy);
void check_distribution(const Json *evidence, const Config *policy, Finding *ret);
void check_cost(const Json *evidence, const Config *policy, Finding *ret);
void check_latency(const Json *evidence, const Config *policy, Finding *ret);
void check_rubric(const Json *evidence, const Config *policy, const Finding *before, Finding *ret);
// formal.c: an item of the rubric; begins as passed.
void formal_results_hold(const Json *evidence, const Config *policy, Finding *ret);
Json *rubric_to_json(const Json *evidence, const Config *policy, const Finding *before);
void check_telemetry(const Json *evidence, const Config *policy, Finding *ret);

// -- judgement.c
// before[i]: what the check gate_checks[i], earlier in the table, found; only judge_after looks at it.
typedef void (*JudgeCall)(const GateCheck *check, const Json *evidence, const Config *policy,
                          JudgeScope scope, const Finding *before, Finding *ret);
void gate_run_check(const GateCheck *check, const Json *evidence, const Config *policy, JudgeScope scope,
                    const Finding *before, Finding *ret);
bool gate_counts_as_pass(const GateCheck *check, Outcome outcome);
// gate_self_test with the judge given, so that a gate which passes everything can be shown to be found out.
bool gate_self_test_of(JudgeCall judge, const Json *evidence, const Config *policy, Json *ret_refused,
                       Json *ret_passed);

// -- gate.c: the rule of gate_check_policy over plain names
bool gate_check_names(const char *const *names, size_t count, Error *error);

#endif
