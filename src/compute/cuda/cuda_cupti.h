// cuda_cupti - CUPTI's activity records for one window at a time; the rest of the module needs no header of
// CUPTI.
#ifndef FEDGATE_CUDA_CUPTI_H
#define FEDGATE_CUDA_CUPTI_H

#include "cuda_internal.h"

#include <cupti.h>

typedef struct CuptiCalls {   // what put work on the device, with the numbers its records carry
    TraceCall *at;
    size_t count;
} CuptiCalls;

// Records from now on, in the clock of this host; else why not, in static text.
const char *cupti_begin(const FedgateHost *host);
// No more records; each one so far is shown, and what was lost is added to the trust. The caller frees `at`.
CuptiCalls cupti_end(void (*each)(void *context, const CUpti_Activity *record), void *context,
                     FedgateTraceTrust *trust);
void cupti_forget(const FedgateHost *host);   // its clock is about to go
bool cupti_stream(cudaStream_t stream, uint32_t *ret_id);   // CUPTI's number of a stream

#endif
