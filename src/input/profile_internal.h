// profile_internal - one split in columns, and the histograms by which two nights' data are compared.
#ifndef FEDGATE_PROFILE_INTERNAL_H
#define FEDGATE_PROFILE_INTERNAL_H

#include "input_internal.h"

enum { CODE_MISSING = -1 };   // beside 0, the unknown slot

typedef struct ColumnSet {
    size_t rows;
    double *values;   // [numeric][rows], NaN where missing
    int32_t *codes;   // [categorical][rows], CODE_MISSING where missing
    double *target;   // [rows]
    Ledger *ledger;
    int64_t bytes;
} ColumnSet;
WARN_UNUSED bool columns_read(const Dataset *dataset, const Maps *maps, Split split, ColumnSet *ret_set,
                              Error *error);
void columns_done(ColumnSet *set);

// profile_rows.c: [ {column value rows positives} ] of the test rows, every value of quality.slices; {method,
// and of each split the first and the last record}.
WARN_UNUSED bool profile_slices(const Dataset *dataset, const Config *config, const ColumnSet *test,
                                Json *slices, Error *error);
Json *profile_split(const Dataset *dataset, const Config *config);

// Training rows as {schema, rows, columns [{name, role, edges[], shares[]} or {name, role, values[],
// shares[]}]}: shares of the bins, then of everything else (categories only), then of missing.
WARN_UNUSED bool histogram_profile(const Maps *maps, const ColumnSet *train, Json **ret_profile,
                                   Error *error);
// Of the labels of these rows: {mean, deviation}, and {shares[]} of the classes.
Json *histogram_target(const Maps *maps, const ColumnSet *set);
// How one column separates the classes of a binary task, 2 AUC - 1 with its sign: a number by its value, a
// category by whether it is the one that was commonest in the reference. Now, and in the reference; false
// when the reference does not tell, or hardly separated them.
bool histogram_separations(const Json *reference, const Maps *maps, const ColumnSet *train, size_t column,
                           double *ret_now, double *ret_was);
// Population stability index of a column against a reference profile; NaN when the reference has no such
// column of this role.
double histogram_drift_numeric(const Json *reference, const char *name, const double *values, size_t rows);
double histogram_drift_category(const Json *reference, const CategoryMap *map, const int32_t *codes,
                                size_t rows);
// Texts on columns that came, went or changed their role since the reference.
Json *histogram_changes(const Json *reference, const Maps *maps);

#endif
