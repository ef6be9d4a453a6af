// fault.h - planted faults: places where a test build makes the world fail, and knobs that fake a bad night.
//
// Compiled out of release builds (FEDGATE_FAULTS undefined): every call folds to its default. In a fault
// build the environment variable FEDGATE_FAULT lists them: "copy.pageable=1,train.nan_step=20,clock.model=1".
// An unknown name in the list is reported by fault_check() at start, so that a misspelt fault cannot make a
// test pass. Names live in the table of src/base/fault.c; adding one is one row.
#ifndef FEDGATE_FAULT_H
#define FEDGATE_FAULT_H

#include <fedgate/error.h>
#include <stdint.h>

#ifdef FEDGATE_FAULTS
double fault_value(const char *name, double fallback);   // value given for this name, or fallback
bool fault_set(const char *name);                        // present with a value other than 0
WARN_UNUSED bool fault_check(Error *error);   // ERROR_CONFIG for an unknown name or a malformed list
// Call points: the Nth call of `point` in this process fails when FEDGATE_FAULT has "<point>.fail=N".
bool fault_fires(const char *point);
// In this process, of one point, or of all but "look": how far a loop over its faults has to go.
long fault_calls_made(const char *point_or_null);
#else
static inline double fault_value(const char *name, double fallback) { (void)name; return fallback; }
static inline bool fault_set(const char *name) { (void)name; return false; }
static inline bool fault_check(Error *error) { (void)error; return true; }
static inline bool fault_fires(const char *point) { (void)point; return false; }
#endif

#endif
