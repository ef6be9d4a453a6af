// load - finds a back end by name and checks its contract before any of its code runs.
#ifndef FEDGATE_COMPUTE_LOAD_H
#define FEDGATE_COMPUTE_LOAD_H

#include <fedgate/backend_abi.h>
#include <fedgate/error.h>

const FedgateBackend *backend_find(const char *name, Error *error);   // ERROR_UNAVAILABLE: absent
bool backend_check(const FedgateBackend *backend, Error *error);   // ERROR_CONFIG: refused; runs nothing
bool backend_probe(const FedgateBackend *backend,
                   Error *error);   // ERROR_DEVICE: unsupported on this machine

#endif
