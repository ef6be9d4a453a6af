// load - absent, refused and unsupported are three answers; a wrong contract is refused before any code of
// the back end runs.
//
// A loaded back end is the file fedgate_<name>.so in the first of these folders that has it:
// FEDGATE_BACKENDS, beside the program, ../lib/fedgate from there. A file that is found but does not load is
// refused: going on to another would hide it. A module stays loaded: the libraries behind it cannot be
// unloaded cleanly.
#include <fedgate/compute.h>

#include <dlfcn.h>
#include <fedgate/text.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "load.h"

enum { PLACES = 3 };

static const FedgateBackend *const linked[] = {&fedgate_backend};

static bool program_folder(char *ret_folder, size_t size)
{
    ssize_t length = readlink("/proc/self/exe", ret_folder, size);
    if (length <= 0 || (size_t)length >= size)
        return false;
    ret_folder[length] = '\0';
    char *slash = strrchr(ret_folder, '/');
    if (slash)
        *slash = '\0';
    return slash != NULL;
}

// Paths to try, in order; an unknown folder leaves its path empty.
static void list_places(const char *name, char ret_path[static PLACES][PATH_MAX])
{
    char folder[PATH_MAX];
    const char *asked = getenv("FEDGATE_BACKENDS");
    bool known = program_folder(folder, sizeof folder);
    if (!asked || !text_print(ret_path[0], PATH_MAX, "%s/fedgate_%s.so", asked, name))
        ret_path[0][0] = '\0';
    if (!known || !text_print(ret_path[1], PATH_MAX, "%s/fedgate_%s.so", folder, name))
        ret_path[1][0] = '\0';
    if (!known || !text_print(ret_path[2], PATH_MAX, "%s/../lib/fedgate/fedgate_%s.so", folder, name))
        ret_path[2][0] = '\0';
}

static const FedgateBackend *load_module(const char *name, const char *path, Error *error)
{
    if (!backend_check_file(name, path, error))
        return NULL;
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!module) {
        FAIL(error, ERROR_CONFIG, 0, "compute back end '%s' is refused: %s", name, dlerror());
        return NULL;
    }
    const FedgateBackend *backend = dlsym(module, "fedgate_backend");
    if (!backend)
        FAIL(error, ERROR_CONFIG, 0, "compute back end '%s' is refused: file '%s' has no 'fedgate_backend'",
             name, path);
    else if (!text_equal(backend->name, name)) {   // the name decides by which rules a night is judged
        FAIL(error, ERROR_CONFIG, 0, "compute back end '%s' is refused: file '%s' calls itself '%.40s'", name,
             path, backend->name);
        return NULL;
    }
    return backend;
}

static const FedgateBackend *find_linked(const char *name)
{
    for (size_t i = 0; i < sizeof linked / sizeof linked[0]; i++)
        if (strcmp(linked[i]->name, name) == 0)
            return linked[i];
    return NULL;
}

// The first of the paths that is there; PLACES: none.
static int find_module(const char *name, char ret_path[static PLACES][PATH_MAX])
{
    int i = 0;
    list_places(name, ret_path);
    while (i < PLACES && !(ret_path[i][0] && access(ret_path[i], F_OK) == 0))
        i++;
    return i;
}

_Static_assert(FILE_PATH_SIZE >= PATH_MAX, "a path of the system fits one of ours");

void device_module(const char *backend, char ret_path[static FILE_PATH_SIZE])
{
    char path[PLACES][PATH_MAX];
    int found = find_linked(backend) ? PLACES : find_module(backend, path);
    if (found == PLACES || !realpath(path[found], ret_path))   // of the file itself, not of a link to it
        ret_path[0] = '\0';
}

const FedgateBackend *backend_find(const char *name, Error *error)
{
    char path[PLACES][PATH_MAX];
    if (find_linked(name))
        return find_linked(name);
    int found = find_module(name, path);
    if (found < PLACES)
        return load_module(name, path[found], error);
    SCOPED_TEXT tried;
    text_init(&tried, 4 * PATH_MAX);
    for (int i = 0; i < PLACES; i++)
        if (path[i][0])
            text_add_format(&tried, ", '%s'", path[i]);
    FAIL(error, ERROR_UNAVAILABLE, 0,
         "compute back end '%s' is absent: it is not part of this program; tried%s", name,
         text_string(&tried) + (tried.length > 0));
    return NULL;
}

static bool slots_complete(const FedgateBackend *b)
{
    return b->name && b->build && b->probe && b->device_count && b->open && b->close && b->take && b->give &&
           b->event_new && b->event_free && b->event_record && b->event_done && b->event_wait && b->copy_in &&
           b->copy_out && b->load && b->synchronise && b->await && b->fetch && b->count_nonfinite &&
           b->gather && b->mark_step && b->zero && b->copy && b->assemble && b->assemble_back && b->dense &&
           b->dense_back && b->dropout && b->loss && b->score && b->square_sum && b->cast && b->settle &&
           b->adam;
}

static bool groups_whole(const FedgateBackend *b)
{
    int recording =
        (b->record_begin != NULL) + (b->record_end != NULL) + (b->replay != NULL) + (b->record_free != NULL);
    return recording % 4 == 0 && (b->trace_begin != NULL) == (b->trace_end != NULL);
}

bool backend_check_numbers(uint32_t abi, uint32_t size, Error *error)
{
    if (abi != FEDGATE_BACKEND_ABI)
        return FAIL(error, ERROR_CONFIG, 0, "compute back end is refused: contract %u, not %d", abi,
                    FEDGATE_BACKEND_ABI);
    return size == sizeof(FedgateBackend) ||
           FAIL(error, ERROR_CONFIG, 0, "compute back end is refused: contract of %u bytes, not %zu", size,
                sizeof(FedgateBackend));
}

bool backend_check(const FedgateBackend *backend, Error *error)
{
    if (!backend_check_numbers(backend->abi, backend->size, error))
        return false;
    if (!slots_complete(backend))
        return FAIL(error, ERROR_CONFIG, 0, "compute back end '%s' is refused: a required slot is empty",
                    backend->name ? backend->name : "");
    if (!groups_whole(backend))
        return FAIL(error, ERROR_CONFIG, 0,
                    "compute back end '%s' is refused: it records or traces only in part", backend->name);
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
