// fake - a back end that is nearly one: each build of it breaks the contract in one way. Its functions end
// the program, so that a test sees when one was called that must not be.
#include <fedgate/backend_abi.h>

#include <stdio.h>
#include <stdlib.h>

#if defined(FAKE_SYMBOL)
#define fedgate_backend other_backend
#endif
#if !defined(FAKE_ABI)
#define FAKE_ABI FEDGATE_BACKEND_ABI
#endif
#if !defined(FAKE_NAME)
#define FAKE_NAME "fake"
#endif
#if !defined(FAKE_SIZE)
#define FAKE_SIZE sizeof(FedgateBackend)
#endif

__attribute__((noreturn)) static void called(void)
{
    fputs("fake back end: a function was called\n", stderr);
    abort();
}

#if defined(FAKE_REFUSED)
// What the loader would run: a module that breaks the contract must not get that far.
__attribute__((constructor)) static void constructed(void)
{
    called();
}
#endif

static bool probe(char *ret_reason)
{
#if defined(FAKE_UNSUPPORTED)
    snprintf(ret_reason, FEDGATE_REASON_SIZE, "no device of this kind");
    return false;
#else
    (void)ret_reason;
    called();
#endif
}

#define SLOT(name) .name = (void *)called
#pragma GCC diagnostic ignored "-Wpedantic"   // a function as an object: only ever compared with NULL
__attribute__((visibility("default"))) const FedgateBackend fedgate_backend = {
    .abi = FAKE_ABI,
    .size = FAKE_SIZE,
    .name = FAKE_NAME,
    .build = "0",
    .probe = probe,
    SLOT(device_count),
    SLOT(open),
    SLOT(close),
    SLOT(take),
    SLOT(give),
    SLOT(event_new),
    SLOT(event_free),
    SLOT(event_record),
    SLOT(event_done),
    SLOT(event_wait),
    SLOT(copy_in),
    SLOT(copy_out),
    SLOT(load),
    SLOT(synchronise),
    SLOT(await),
    SLOT(fetch),
    SLOT(count_nonfinite),
    SLOT(mark_step),
    SLOT(zero),
    SLOT(copy),
    SLOT(gather),
    SLOT(assemble),
    SLOT(assemble_back),
    SLOT(dense),
    SLOT(dense_back),
    SLOT(dropout),
    SLOT(loss),
    SLOT(score),
    SLOT(square_sum),
    SLOT(cast),
    SLOT(settle),
#if !defined(FAKE_EMPTY)
    SLOT(adam),
#endif
};
