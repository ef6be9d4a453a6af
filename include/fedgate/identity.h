// identity.h - the exact version: digest of a canonical record of everything that changes the result.
//
// version = "<model>-<first 16 hex of SHA-256 over the record's compact JSON>" (design.md section 3). Record
// keys, in order: format, model, trainer, options, data, seed, precision, machine. Two records that differ
// say in which field.
#ifndef FEDGATE_IDENTITY_H
#define FEDGATE_IDENTITY_H

#include <fedgate/config.h>

enum { VERSION_SIZE = 96 };   // "<model>-<16 hex>" and NUL

typedef struct MachineClass {
    char backend[32];       // "cpu"
    char device[128];       // GPU model and SM count, or CPU core type as the BLAS pins it
    char libraries[256];    // "openblas 0.3.21 haswell; glibc 2.36": what computes
    char host_cpu[128];     // for the run record only, not identity
    int cores;              // run record only
} MachineClass;

// Record for this night. `trainer` is the digest of the program and its back-end module, `data` that of the
// pinned snapshot. Options come from the configuration (IDENTITY flag).
Json *identity_record(const Config *config, const Digest *trainer, const Digest *data,
                      const MachineClass *machine);
void identity_version(const Json *record, char ret_version[static VERSION_SIZE]);
void identity_digest(const Json *record, Digest *ret_digest);
bool identity_is_version(const char *text);   // shape of a version, safe in paths

// First dotted field in which two records differ, with both values as JSON; false when they are the same.
bool identity_difference(const Json *a, const Json *b, Text *ret_field, Text *ret_a, Text *ret_b);

// Digest of what trains: the running program's own file (/proc/self/exe) and, unless "", that of its back-end
// module.
WARN_UNUSED bool identity_trainer_digest(const char *module, Digest *ret_digest, Error *error);

#endif
