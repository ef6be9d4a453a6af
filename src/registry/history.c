// history - the records as they are, oldest first, and what was live at a time.
#include "registry_internal.h"

#include <stdlib.h>

bool registry_history(const Registry *registry, PointerRecord **ret_records, size_t *ret_count, Error *error)
{
    Chain chain;
    if (!chain_read(registry, &chain, error))
        return false;
    *ret_records = chain.records;
    *ret_count = chain.count;
    return true;
}

// The last record in sequence whose time is not after the one asked for: sequence orders, a clock may step
// back.
bool registry_at(const Registry *registry, int64_t wall_ns, bool *ret_any, PointerRecord *ret_record,
                 Error *error)
{
    SCOPED_CHAIN chain = {.records = NULL};
    if (!chain_read(registry, &chain, error))
        return false;
    *ret_any = false;
    for (size_t i = chain.count; i-- > 0 && !*ret_any;)
        if (chain.records[i].wall_ns <= wall_ns) {
            *ret_record = chain.records[i];
            *ret_any = true;
        }
    return true;
}
