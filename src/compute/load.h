// load - finds a back end by name and checks its contract before any of its code runs: abi and size in the
// module's file, before it is loaded, the rest before a function is called.
#ifndef FEDGATE_COMPUTE_LOAD_H
#define FEDGATE_COMPUTE_LOAD_H

#include <fedgate/backend_abi.h>
#include <fedgate/error.h>

// ERROR_UNAVAILABLE: absent, with what was tried; ERROR_CONFIG: a file that does not load
const FedgateBackend *backend_find(const char *name, Error *error);
bool backend_check_file(const char *name, const char *path, Error *error);   // ERROR_CONFIG: refused
bool backend_check_numbers(uint32_t abi, uint32_t size, Error *error);
bool backend_check(const FedgateBackend *backend, Error *error);   // ERROR_CONFIG: refused; runs nothing
bool backend_probe(const FedgateBackend *backend,
                   Error *error);   // ERROR_DEVICE: unsupported on this machine

#endif
