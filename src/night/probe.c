// probe - facts of the compute device, asked by a process of its own that opens it, tells and ends.
//
// CUDA cannot be used on both sides of a fork, and a night forks: so the parent of a night never opens a
// device, whatever the back end. A driver that hangs, or a module that crashes, takes only the asking process
// with it.
#include "night_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

enum { TRIAL_BYTES = 512 };

typedef struct Probe {   // in memory that both processes see
    char backend[32];
    int threads;
    bool opened, whole;
    DeviceTrial trial;
    Error error;
} Probe;

static const int64_t least_ns = 60 * (int64_t)1000000000;   // a cold driver of a large machine takes seconds

// One small operation inside a window: a profiler that tells nothing of it is none.
static bool try_profiler(Device *device, DeviceTrial *trial, Error *error)
{
    FedgateTraceTrust trust = {0};
    void *piece = device_take(device, "profiler trial", TRIAL_BYTES, error);
    if (piece == NULL)
        return false;
    bool good = device_trace_begin(device, error);
    if (good) {
        device_mark_step(device, 0);
        device_zero(device, piece, TRIAL_BYTES);
        good = device_trace_end(device, &trust, error);
        memcpy(trial->profiler, trust.reason, sizeof trial->profiler);
    }
    device_give(device, "profiler trial", piece, TRIAL_BYTES);
    return good;
}

_Static_assert(sizeof(((DeviceTrial *)0)->profiler) == sizeof(((FedgateTraceTrust *)0)->reason), "one text");

static int ask(void *context, int report_fd)
{
    (void)report_fd;
    Probe *probe = context;
    Ledger *ledger = ledger_new();
    if (ledger == NULL)
        return error_exit_code(ERROR_MEMORY);
    Device *device = device_open(probe->backend, probe->threads, clock_real(), ledger, &probe->error);
    if (device != NULL) {
        device_set_timeout(device, least_ns);
        probe->trial.info = *device_info(device);
        probe->trial.counts = device_memory(device, &probe->trial.memory);
        probe->opened = !probe->whole || try_profiler(device, &probe->trial, &probe->error);
    }
    return 0;   // what is open ends with the process: closing could hang
}

// A module that is refused is a device that is not there; only what the configuration says is its error.
static bool answer(const Probe *probe, const ProcessResult *result, DeviceTrial *ret_trial, Error *error)
{
    if (probe->opened) {
        *ret_trial = probe->trial;
        return true;
    }
    if (probe->error.kind != ERROR_NONE) {
        *error = probe->error;
        if (error->kind == ERROR_CONFIG)
            error->kind = ERROR_UNAVAILABLE;
        return error->hint[0] != '\0' ? false
                                      : error_hint(error, "`fedgate doctor` says what was looked for where.");
    }
    if (result->timed_out)
        return FAIL(error, ERROR_DEVICE, 0, "compute back end '%s' did not open its device in time",
                    probe->backend);
    return FAIL(error, ERROR_DEVICE, 0,
                "compute back end '%s' could not be asked: its process ended with signal %d, code %d",
                probe->backend, result->signal, result->exit_code);
}

static bool ask_in_child(const Config *config, bool whole, DeviceTrial *ret_trial, Error *error)
{
    Probe *probe =
        mmap(NULL, sizeof *probe, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);   // zeroed
    if (probe == MAP_FAILED)
        return FAIL(error, ERROR_MEMORY, 0, "could not take memory to ask for the device: %s",
                    strerror(errno));
    int64_t limit_ns = (int64_t)(config_real(config, "device.timeout") * 1e9);
    probe->whole = whole;
    probe->threads = (int)config_integer(config, "device.threads");
    ProcessResult result = {0};
    bool good = text_copy(probe->backend, sizeof probe->backend, config_text(config, "device.backend")) ||
                FAIL(error, ERROR_CONFIG, 0, "name of compute back end '%s' is too long",
                     config_text(config, "device.backend"));
    Process *process = good ? process_fork(ask, probe, error) : NULL;
    good = process != NULL &&
           process_wait(process, limit_ns > least_ns ? limit_ns : least_ns, &result, error) &&
           answer(probe, &result, ret_trial, error);
    process_free(process);
    (void)munmap(probe, sizeof *probe);
    return good;
}

bool night_device(const Config *config, DeviceInfo *ret_info, Error *error)
{
    DeviceTrial trial;
    if (!ask_in_child(config, false, &trial, error))
        return false;
    *ret_info = trial.info;
    return true;
}

bool night_try_device(const Config *config, DeviceTrial *ret_trial, Error *error)
{
    return ask_in_child(config, true, ret_trial, error);
}
