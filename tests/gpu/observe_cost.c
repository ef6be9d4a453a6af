// observe_cost - what observing costs, what memory is counted by whom, and how a device that hangs is seen.
#include "observe.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 7, HANG_S = 2, HANG_LIMIT_S = 20 };

static double now_s(void)
{
    return (double)clock_monotonic_ns(clock_real()) / 1e9;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// A traced round is timed from the window's begin to the end of its launches: what handing over costs comes
// after.
double fed_step_us(Fed *fed, bool traced)
{
    Error error = ERROR_INIT;
    FedgateTraceTrust trust = {0};
    double us[ROUNDS];
    fed_launch(fed, 8);
    for (int round = 0; round < ROUNDS; round++) {
        fed_wait(fed);
        if (traced)
            gpu_need(device_trace_begin(fed->gpu->device, &error), &error);
        double begin = now_s();
        fed_launch(fed, fed->work->launches);
        fed_wait(fed);
        us[round] = (now_s() - begin) / (fed->work->launches * fed->work->group) * 1e6;
        if (traced)
            gpu_need(device_trace_end(fed->gpu->device, &trust, &error), &error);
    }
    qsort(us, ROUNDS, sizeof *us, by_size);
    return us[ROUNDS / 2];
}

void test_memory(Gpu *gpu, const char *when)
{
    FedgateMemoryUse use;
    if (!device_memory(gpu->device, &use)) {
        printf("memory, %s: cannot be said\n", when);
        return;
    }
    const double mega = 1e6, charged = (double)ledger_live(gpu->ledger, LEDGER_DEVICE) / mega,
                 context = (double)device_info(gpu->device)->context_bytes / mega;
    printf(
        "memory, %s: used %.1f MB, before %.1f, own %.1f; charged %.1f, context %.1f; not explained %.1f\n",
        when, (double)use.used / mega, (double)use.used_before / mega,
        use.own < 0 ? -1 : (double)use.own / mega, charged, context,
        (double)(use.used - use.used_before) / mega - charged - context);
}

// -- the slot of the profiler is taken

static void *find_cupti(void)
{
    static const char *const paths[] = {"libcupti.so.13", "/usr/local/cuda/lib64/libcupti.so.13",
                                        "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so.13"};
    void *library = NULL;
    for (size_t i = 0; i < sizeof paths / sizeof paths[0] && !library; i++)
        library = dlopen(paths[i], RTLD_NOW | RTLD_LOCAL);
    return library;
}

static void called_back(void *context, int domain, uint32_t call, const void *data)
{
    (void)context, (void)domain, (void)call, (void)data;
}

static int trace_beside(const char *backend, int words)
{
    Error error = ERROR_INIT;
    void *library = find_cupti(), *subscriber = NULL;
    int (*subscribe)(void **, void (*)(void *, int, uint32_t, const void *), void *) = NULL;
    if (library)
        *(void **)&subscribe = dlsym(library, "cuptiSubscribe");
    if (!subscribe || subscribe(&subscriber, called_back, NULL) != 0)
        return dprintf(words, "slot taken: not tried, there is no CUPTI to take it from"), 2;
    Ledger *ledger = ledger_new();
    FedgateTraceTrust trust = {0};
    Device *device = device_open(backend, 1, clock_real(), ledger, &error);
    if (!device || !device_trace_begin(device, &error) || !device_trace_end(device, &trust, &error))
        return dprintf(words, "slot taken: %s", error.message), 2;
    dprintf(words, "slot taken: the window says '%s'", trust.reason);
    device_close(device);
    ledger_free(ledger);
    return trust.reason[0] ? 0 : 1;
}

// -- a kernel that never ends, in a process of its own

static int hang(const char *backend, int words)
{
    Error error = ERROR_INIT;
    if (setenv("FEDGATE_FAULT", "compute.hang_step=0", 1) != 0)
        return 2;
    Ledger *ledger = ledger_new();
    Device *device = device_open(backend, 1, clock_real(), ledger, &error);
    char *memory = device ? device_take(device, "test", 1024, &error) : NULL;
    if (!memory)
        return dprintf(words, "hang: %s", error.message), 2;
    device_set_timeout(device, (int64_t)HANG_S * 1000000000);
    const FedgateSettle step = {.state = (FedgateStepState *)memory, .square_sum = (double *)(memory + 512)};
    device_settle(device, &step);
    char out[1024];
    double begin = now_s();
    bool good = device_copy_out(device, out, memory, sizeof out, &error);
    dprintf(words, "hang: after %.2f s of at most %d: %s", now_s() - begin, HANG_S,
            good ? "nothing hangs: not a build with planted faults" : error.message);
    if (!good) {
        Error again = ERROR_INIT;
        begin = now_s();
        if (!device_synchronise(device, &again))
            dprintf(words, "; then after %.2f s: %s", now_s() - begin, again.message);
    }
    device_give(device, "test", memory, 1024);
    device_close(device);
    ledger_free(ledger);
    return good ? 3 : 0;
}

// Waits for the child at most HANG_LIMIT_S, then kills it.
static int wait_for(pid_t child)
{
    int status = -1;
    for (double begin = now_s(); waitpid(child, &status, WNOHANG) == 0;) {
        clock_sleep_ns(clock_real(), 10000000);
        if (now_s() - begin > HANG_LIMIT_S) {
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
            break;
        }
    }
    return status;
}

static void run_apart(int (*what)(const char *, int), const char *backend, char *ret_words, size_t size)
{
    int ends[2];
    char words[700] = "";
    if (pipe(ends) != 0) {
        snprintf(ret_words, size, "no pipe");
        return;
    }
    double begin = now_s();
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        // As a night's process ends, with the kernel still running. The driver's exit handlers would wait for
        // it.
        _exit(what(backend, ends[1]));
    }
    close(ends[1]);
    int status = child > 0 ? wait_for(child) : -1;
    ssize_t got = read(ends[0], words, sizeof words - 1);
    words[got > 0 ? got : 0] = '\0';
    close(ends[0]);
    snprintf(ret_words, size, "%.600s; the process ended with status %d after %.1f s", words, status,
             now_s() - begin);
}

void test_hang(const char *backend, char *ret_words, size_t size)
{
    run_apart(hang, backend, ret_words, size);
}

void test_slot(const char *backend, char *ret_words, size_t size)
{
    run_apart(trace_beside, backend, ret_words, size);
}
