// fault - the table of planted faults, and reading FEDGATE_FAULT against it.
//
// FEDGATE_FAULT is "name=number,name=number"; it is read again at every call, so that a test may change it.
#include <fedgate/fault.h>

#ifdef FEDGATE_FAULTS

#include <fedgate/text.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

typedef struct FaultRow {
    const char *name;
    const char *sentence;
} FaultRow;

static const FaultRow fault_rows[] = {
    // -- the device and the input
    {"copy.pageable", "Copies to the device are taken from pageable memory."},
    {"copy.compute_stream", "Copies to the device are queued with the computation instead of beside it."},
    {"copy.serial", "A copy waits until the computation before it has ended."},
    {"copy.slow_ns", "Every copy lasts this many nanoseconds longer."},
    {"decode.slow_ns", "Every decoded batch lasts this many nanoseconds longer."},
    {"feed.refill_early", "A pinned slot is filled again before its copy to the device has ended."},
    {"input.drop_column", "The column of this index is missing from the input."},
    {"device.hang_step", "The device call that begins this step, or a later one, waits for a signal."},
    {"device.hang_deaf", "A hanging device call does not come back on a signal either."},
    // -- arithmetic of a back end
    {"compute.tf32", "FP32 multiplications round their operands to TF32 in secret."},
    {"compute.bf16_sums", "BF16 multiplications keep their running sums in BF16."},
    {"compute.fp16_sums", "FP16 multiplications keep their running sums in FP16."},
    {"compute.metric_bf16", "Losses are summed in BF16."},
    {"compute.hang_step", "From this training step on a kernel of the cuda back end never ends."},
    // -- training
    {"step.stall_every", "Every Nth step stalls."},
    {"step.stall_ns", "A stalled step waits this many nanoseconds."},
    {"step.synchronise", "The host waits for the device after every step."},
    {"train.nan_step", "The loss of this step is not a number."},
    {"train.remainder", "The remainder batch of an epoch is dropped (1) or counted twice (2)."},
    {"train.unscale_twice", "Gradients are divided by the loss scale twice."},
    {"train.no_master", "There are no FP32 master weights: weights are rounded after each step."},
    {"train.leak_bytes", "Every step keeps a buffer of this many bytes."},
    {"train.unsynchronised", "The step timer is stopped before the device has finished."},
    {"determinism.perturb", "A replayed step changes one bit."},
    {"parity.swap_arms", "The two arms of the parity ladder are exchanged."},
    {"parity.same_arms", "Both arms of the parity ladder are the FP32 one."},
    {"parity.flat_metric", "The metric of every parity pair is the same number in both arms."},
    {"parity.nan_slice", "The half precision arm's scores of one slice are not numbers."},
    {"parity.reference_rounded", "The FP32 arm's weights are rounded to the half type before each pass."},
    {"memory.extra_bytes", "The device arena holds this many bytes that no plan names."},
    {"memory.validation_bytes", "Validation takes this many bytes more on the device."},
    {"quality.shuffle_labels", "The candidate trains on shuffled labels."},
    {"quality.copy_baseline", "The candidate is a copy of the statistical baseline."},
    {"score.slow_ns", "Scoring one row lasts this many nanoseconds longer."},
    {"score.nan_slice", "The candidate's scores of one slice are not numbers."},
    // -- modelled durations on the simulated clock
    {"clock.model", "Durations are modelled on the simulated clock."},
    {"model.compute_ns", "Modelled length of one step's computation."},
    {"model.copy_ns", "Modelled length of one batch copy."},
    {"model.load_ns", "Modelled length of loading one batch."},
    {"model.step_overhead_ns", "Modelled time of a step outside copy and computation."},
    {"model.night_start", "Wall clock at the start of the simulated night, seconds since the epoch."},
    {"closure.unnamed_ns", "Every step holds this many nanoseconds that no span names."},
    // -- the world around
    {"telemetry.down", "The database cannot be reached."},
    {"process.kill_step", "The training process is killed in this step."},
    {"process.hang_end", "The training process does not end after its last word."},
    {"process.term_parity", "The training process gets SIGTERM when the parity ladder asks the Nth time."},
    {"notify.kill", "The night is killed after its notice is written, before it is posted."},
    {"registry.step", "A move of the pointer ends the process at its Nth step, as a kill would."},
    {"release.other_bytes", "A second run of a version makes another model card."},
    {"release.extra_byte", "A sealed release gets one byte more."},
    {"selftest.pass", "The known-bad candidate passes the gate."},
    // -- call points: "<point>.fail=N" fails the Nth call
    {"file.open.fail", "The Nth opening of a file to write fails."},
    {"file.write.fail", "The Nth write to a file fails."},
    {"file.sync.fail", "The Nth fsync fails."},
    {"file.rename.fail", "The Nth rename fails."},
    {"file.link.fail", "The Nth creation of a link fails."},
    {"file.remove.fail", "The Nth removal of a file or folder fails."},
    {"file.directory.fail", "The Nth making of a folder fails."},
    {"process.fork.fail", "The Nth fork fails."},
    {"look.fail", "The Nth look at a file or folder fails."},
    {"release.sector.fail", "The Nth file of a release that is opened lies on a bad sector."},
    // -- all call points but looks, which change nothing, counted as one
    {"call.fail", "The Nth call of any point fails."},
    {"call.fail_from", "The Nth call of any point and every later one fails."},
    {"call.kill", "The process is killed at its Nth call of any point."},
};

enum { FAULT_COUNT = sizeof fault_rows / sizeof fault_rows[0] };

static atomic_long fault_calls[FAULT_COUNT];   // calls of each point in this process
static atomic_long fault_total;                // of all of them

static size_t find_row(const char *name)
{
    for (size_t i = 0; i < FAULT_COUNT; i++)
        if (strcmp(fault_rows[i].name, name) == 0)
            return i;
    return FAULT_COUNT;
}

// Takes the next "name=number" off the list; false at its end. Sound is cleared when the entry has another
// form.
static bool next_entry(const char **list, char ret_name[static 64], double *ret_value, bool *ret_sound)
{
    if (**list == '\0')
        return false;
    char entry[128], *equals = NULL;
    size_t length = strcspn(*list, ",");
    *ret_sound = length < sizeof entry;
    if (*ret_sound) {
        memcpy(entry, *list, length);
        entry[length] = '\0';
        equals = strchr(entry, '=');
        if (equals)
            *equals = '\0';
        *ret_sound = text_copy(ret_name, 64, entry) && equals && text_to_double(equals + 1, ret_value);
    }
    *list += length + ((*list)[length] == ',');
    return true;
}

static const char *fault_list(void)
{
    const char *list = getenv("FEDGATE_FAULT");
    return list ? list : "";
}

double fault_value(const char *name, double fallback)
{
    if (find_row(name) == FAULT_COUNT)
        BUG("fault '%s' has no row in the table of faults", name);
    char found[64];
    double value;
    bool sound;
    for (const char *list = fault_list(); next_entry(&list, found, &value, &sound);)
        if (sound && strcmp(found, name) == 0)
            return value;
    return fallback;
}

bool fault_set(const char *name)
{
    return fault_value(name, 0) != 0;
}

bool fault_check(Error *error)
{
    const char *names[FAULT_COUNT];
    for (size_t i = 0; i < FAULT_COUNT; i++)
        names[i] = fault_rows[i].name;
    char name[64] = "";
    double value;
    bool sound;
    for (const char *list = fault_list(); next_entry(&list, name, &value, &sound);) {
        if (!sound)
            return FAIL(error, ERROR_CONFIG, 0, "FEDGATE_FAULT is not a list of name=number, near '%s'",
                        name);
        if (find_row(name) == FAULT_COUNT) {
            FAIL(error, ERROR_CONFIG, 0, "unknown fault '%s' in FEDGATE_FAULT", name);
            const char *nearest = text_nearest(name, names, FAULT_COUNT);
            return nearest ? error_hint(error, "Did you mean '%s'?", nearest) : false;
        }
    }
    return true;
}

bool fault_fires(const char *point)
{
    char name[64];
    if (!text_print(name, sizeof name, "%s.fail", point))
        BUG("fault point '%s' has too long a name", point);
    double failing = fault_value(name, 0);
    long call = atomic_fetch_add(&fault_calls[find_row(name)], 1) + 1;
    if (strcmp(point, "look") == 0 || strcmp(point, "release.sector") == 0)
        return failing > 0 && (double)call == failing;
    double total = (double)(atomic_fetch_add(&fault_total, 1) + 1), from = fault_value("call.fail_from", 0);
    if (total == fault_value("call.kill", 0))
        raise(SIGKILL);
    return (failing > 0 && (double)call == failing) || total == fault_value("call.fail", 0) ||
           (from > 0 && total >= from);
}

long fault_calls_made(const char *point_or_null)
{
    char name[64];
    if (!point_or_null)
        return atomic_load(&fault_total);
    if (!text_print(name, sizeof name, "%s.fail", point_or_null))
        BUG("fault point '%s' has too long a name", point_or_null);
    return atomic_load(&fault_calls[find_row(name)]);
}

#else

typedef int fault_none;   // a translation unit may not be empty

#endif
