// load - absent, refused and unsupported are three answers; a wrong contract is refused unrun.
#include <fedgate/compute.h>

#include <string.h>

#include "load.h"

static const FedgateBackend *const linked[] = {&fedgate_backend};

const FedgateBackend *backend_find(const char *name, Error *error)
{
    for (size_t i = 0; i < sizeof linked / sizeof linked[0]; i++)
        if (strcmp(linked[i]->name, name) == 0)
            return linked[i];
    FAIL(error, ERROR_UNAVAILABLE, 0, "compute back end '%s' is absent: it is not part of this program",
         name);
    return NULL;
}

static bool slots_complete(const FedgateBackend *b)
{
    return b->name && b->build && b->probe && b->device_count && b->open && b->close && b->take && b->give &&
           b->event_new && b->event_free && b->event_record && b->event_done && b->event_wait && b->copy_in &&
           b->copy_out && b->load && b->synchronise && b->mark_step && b->zero && b->copy && b->assemble &&
           b->assemble_back && b->dense && b->dense_back && b->dropout && b->loss && b->score &&
           b->square_sum && b->cast && b->settle && b->adam;
}

bool backend_check(const FedgateBackend *backend, Error *error)
{
    if (backend->abi != FEDGATE_BACKEND_ABI)
        return FAIL(error, ERROR_CONFIG, 0, "compute back end is refused: contract %u, not %d", backend->abi,
                    FEDGATE_BACKEND_ABI);
    if (backend->size != sizeof *backend)
        return FAIL(error, ERROR_CONFIG, 0, "compute back end is refused: contract of %u bytes, not %zu",
                    backend->size, sizeof *backend);
    if (!slots_complete(backend))
        return FAIL(error, ERROR_CONFIG, 0, "compute back end '%s' is refused: a required slot is empty",
                    backend->name ? backend->name : "");
    return true;
}

bool backend_probe(const FedgateBackend *backend, Error *error)
{
    char reason[FEDGATE_REASON_SIZE] = "";
    if (!backend->probe(reason))
        return FAIL(error, ERROR_DEVICE, 0, "compute back end '%s' is unsupported here: %s", backend->name,
                    reason);
    if (backend->device_count() < 1)
        return FAIL(error, ERROR_DEVICE, 0, "compute back end '%s' is unsupported here: no device",
                    backend->name);
    return true;
}
