// plan.h - arithmetic before the run: memory ledger, roofline, window. Needs no GPU, no clock, no data.
//
// Pure but for plan_zone, which asks the machine for its time zone when the configuration names none.
// GB = 1e9 bytes. The tables of the brief that a reader can check by hand are tests of this module.
#ifndef FEDGATE_PLAN_H
#define FEDGATE_PLAN_H

#include <fedgate/config.h>
#include <fedgate/stats.h>

// -- memory: budget = device x (1 - reserve); available = budget - state;
//    largest = floor(available / per_sample)
enum { PLAN_ACCOUNTS = 48, PLAN_BLOCKS = 64 };
typedef struct PlanShape {       // what the memory of a tabular MLP follows from
    int64_t numeric, categorical;           // input columns
    const int64_t *cardinality, *embedding; // [categorical], unknown slot counted in cardinality
    const int64_t *hidden; size_t layers;   // [layers]
    int64_t outputs;
    // Activations and weights in the pass: 4 for FP32. Below it the FP32 reference arm of the parity ladder
    // lives beside the candidate's network.
    int64_t bytes_per_element;
    int64_t steps;             // planned optimizer steps: each has a row of the pace table
    int64_t validation_rows;
    // What does not follow from the shape, by those who take it: sums of a network, operands of the parity
    // ladder, state of the optimizer, a row of the pace table; scoring a model beside it all.
    int64_t sum_bytes, operand_bytes, step_bytes, pace_bytes;
    int64_t score_weights, score_activations, score_input, score_workspace;
    // How rows come to the device: batches in a slot of the ring (0: 1); with resident, all of them and the
    // order they are taken in stay there and nothing is in the ring; what launches bring back (pinned).
    int64_t group;
    bool resident;
    int64_t resident_bytes, order_bytes, read_back_bytes;
} PlanShape;
typedef struct PlanDevice {      // what the plan must know of the device
    int64_t context_bytes;       // driver and libraries
    int64_t workspace_bytes;     // of its operations
    int64_t recording_bytes;     // allowed for the recording of one slot; 0: it records nothing
    int64_t granule_bytes;       // pieces of its arena are rounded up to; 0: no arena
    bool assumed;                // nobody asked a device: the three figures above are assumed
} PlanDevice;
typedef struct PlanAccount {     // bytes = count x each
    const char *name;
    const char *ledger;          // account of the ledger it is charged to; NULL: context, or declared
    int64_t count, each;
    const char *of;              // what is counted: "parameters"
    int64_t bytes;
    bool per_sample, pinned, assumed;   // pinned: host memory, outside the budget of the device
    int64_t pieces;              // it is taken in, at most
} PlanAccount;
typedef struct MemoryPlan {
    int64_t device_bytes, budget_bytes;     // budget = device x (1 - reserve), rounded down
    double reserve_ratio;
    PlanAccount accounts[PLAN_ACCOUNTS];    // weights, gradients, optimizer, input, activations, context...
    size_t account_count;
    int64_t state_bytes, per_sample_bytes, pinned_bytes;
    int64_t available_bytes;                // budget - state; may be negative
    int64_t largest_microbatch;             // samples; 0 when nothing fits
    int64_t batch, microbatch, accumulation;   // microbatch x accumulation = batch
    bool asked;                             // train.microbatch names it
    int64_t element_bytes;                  // 0: declared figures
    int64_t validation_rows;                // on the device at once: all of them, or one microbatch
    int64_t validation_bytes;               // of them, inside the planned peak
    int64_t planned_peak_bytes;             // state + microbatch x per_sample
    bool fits;
    int64_t blocks[PLAN_BLOCKS]; size_t block_count;   // bytes of each activation block of one microbatch
    bool resident[PLAN_BLOCKS];             // cumulative activations up to this block stay inside available
    char refusal[384];   // why it does not fit, with both figures and what to change; empty when it fits
} MemoryPlan;
// shape NULL: everything from memory.state and memory.per_sample (ERROR_CONFIG when they are not given).
// Largest divisor of the batch that is at most `largest` and, when asked != 0, exactly `asked` (refused when
// it does not divide the batch or does not fit). Validation rows stay on the device when they take at most a
// quarter of what one microbatch leaves free, else one microbatch of them does. Options memory.*,
// device.memory, train.batch, train.microbatch, input.slots,
// input.prefetch.
// device NULL: nothing of it is known, so nothing counted.
WARN_UNUSED bool plan_memory(const Config *config, const PlanShape *shape, const PlanDevice *device,
                             MemoryPlan *ret_plan, Error *error);
// Bytes of the device planned for an account of the ledger; 0 when none is.
int64_t plan_ledger_bytes(const MemoryPlan *plan, const char *account);

// -- roofline: attainable = min(P_peak, I x B_mem) (Williams, Waterman, Patterson 2009)
typedef struct DevicePeak {
    const char *device;      // pattern on the device name
    const char *precision;
    double peak_flops;       // dense FLOP/s
    double bandwidth;        // bytes/s of device memory; 0 unknown
    double cache_bytes;      // of the last cache before it, whose bandwidth is unknown
    const char *source;
} DevicePeak;
// NULL when unknown: then not measured, not a guess.
const DevicePeak *plan_device_peak(const char *device, const char *precision);
// Upper bound of a CPU: cores x 6 GHz x FLOP per cycle of its instruction set (design.md, `plausible`).
// FP32 FLOP a cycle: "sse2" 8, "avx" 16, "avx2" 32, "avx512" 64; 0 for an unknown set.
double plan_cpu_peak(int cores, const char *instruction_set);
typedef struct Roofline {
    double flop, bytes;        // of one pass over the layer
    double intensity;          // FLOP/byte
    double peak_flops, bandwidth, ridge;   // ridge = peak / bandwidth, 0 when the bandwidth is unknown
    double attainable;         // FLOP/s
    bool memory_bound;
    int64_t rows, in, out, element_bytes;  // of plan_roofline_layer; 0 otherwise
} Roofline;
// One dense layer rows x in -> out: flop = 2 rows in out; bytes = (rows in + in out + rows out) x element.
void plan_roofline_layer(int64_t rows, int64_t in, int64_t out, int64_t element_bytes, double peak_flops,
                         double bandwidth, Roofline *ret);
void plan_roofline(double flop, double bytes, double peak_flops, double bandwidth, Roofline *ret);
// One pass over rows and layers, forward or backward: what each row costs, and each execution beside it.
typedef struct PassWork {
    double row_flop, row_bytes, pass_bytes;
} PassWork;
void plan_pass_work(const PlanShape *shape, bool backward, PassWork *ret);
// FLOP of one training step (forward, input and weight gradients) and bytes moved at least once.
void plan_step_work(const PlanShape *shape, int64_t batch, double *ret_flop, double *ret_bytes);

// -- window: forecast of the end from block means with stalls included, never from a median
typedef struct WindowForecast {
    double remaining_seconds;        // expected
    double remaining_upper_seconds;  // one-sided 95 % upper bound (batch means)
    int64_t end_wall_ns, end_upper_wall_ns;
    bool inside;                     // upper end + margin x remaining <= deadline
    size_t changed_at;               // block from which the pace was another, slower one; 0: none
    double slower_a_block;           // seconds each block takes longer than the one before; 0: no trend
    double stalled_ratio;            // share of the time that blocks of over 3 medians took beyond them
} WindowForecast;
enum { PLAN_PACE_BLOCKS = 4096 };   // of more blocks no stalls are told
// block_seconds[blocks]: wall seconds of consecutive blocks of `block_steps` steps; fixed_seconds:
// validation, checkpoints, evaluation and ship still to come. blocks >= 1 (BUG otherwise). Once the pace has
// changed for the slower, only blocks since then speak of what is to come; a rising trend goes on.
void plan_window(const double *block_seconds, size_t blocks, int64_t block_steps, int64_t steps_left,
                 double fixed_seconds, int64_t now_wall_ns, int64_t deadline_wall_ns, double margin_ratio,
                 WindowForecast *ret);
// The owner's zone: window.zone, else the system's (/etc/localtime, then /etc/timezone), else UTC.
enum { PLAN_ZONE_SIZE = 64 };
void plan_zone(const Config *config, char ret_zone[static PLAN_ZONE_SIZE]);
// Deadline of a night starting now: next HH:MM of the zone, and start + window.length when that is earlier.
// ret_slot is the local date of the named HH:MM, also when window.length ends the night earlier: a second
// start of one night finds its slot.
WARN_UNUSED bool plan_deadline(const Config *config, int64_t start_wall_ns, int64_t *ret_deadline_wall_ns,
                               char ret_slot[static 11], Error *error);
// What daylight saving does to this deadline, for people; "" when nothing: the named time does not exist that
// day (the first instant after the gap is taken), comes twice (the first is taken), or is not 24 hours after
// the one before it.
enum { PLAN_NOTE_SIZE = 160 };
void plan_deadline_note(const Config *config, int64_t deadline_wall_ns, char ret_note[static PLAN_NOTE_SIZE]);

// -- text of a plan with its substitutions, as `fedgate plan` prints it, and as JSON
typedef struct NightPlan {
    MemoryPlan memory;
    Roofline roofline;
    bool has_roofline;
    char precision[8];
    char peak_source[128];
    Roofline layers[PLAN_BLOCKS];
    size_t layer_count;
    int64_t steps, epochs;
    double step_flop;
    double forecast_seconds;
    int64_t deadline_wall_ns;
} NightPlan;
// Memory, roofline, layers and step_flop from the options and, unless NULL, a shape; the rest of the plan is
// zero for the caller to fill. Peaks: device.peak_flops and device.bandwidth when declared, else `peak` (a
// table row, or a bound the caller computed), else none. The roofline is of the example layer
// (plan.intensity_*) when that is given, else of a whole training step.
WARN_UNUSED bool plan_night(const Config *config, const PlanShape *shape, const PlanDevice *device,
                            const DevicePeak *peak, NightPlan *ret_plan, Error *error);
void plan_print(const NightPlan *plan, const Config *config, Text *out);
Json *plan_to_json(const NightPlan *plan);

// -- two plans side by side: which lines move, by how much, through which term
typedef struct PlanSide {
    const NightPlan *plan;
    const Config *config;
    const char *name;   // as the reader called it
} PlanSide;
// whole: also the lines that stay, else only their number.
void plan_print_against(const PlanSide *from, const PlanSide *to, bool whole, Text *out);
// { config, plan, options: [ { name from to } ], moved: [ { line unit from to formula through: [ { term from
// to } ] } ], stays: [ line ] }: the member `against` of the first plan's JSON.
Json *plan_against_to_json(const PlanSide *from, const PlanSide *to);

#endif
