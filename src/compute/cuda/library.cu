// library.cu - libraries of CUDA are found when they are needed, never linked.
//
// In this order: the folders of FEDGATE_CUDA_LIBRARIES (separated by colons), the loader's own path, where
// the toolkit is installed, where distributions and containers put the driver's libraries. What was tried is
// said.
#include "cuda_internal.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const usual_places[] = {
    "/usr/local/cuda/lib64",
    "/usr/local/cuda/extras/CUPTI/lib64",
    "/usr/local/cuda-1[3-9]*/lib64",
    "/usr/local/cuda-1[3-9]*/lib",
    "/opt/cuda/lib64",
    "/opt/cuda/extras/CUPTI/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib64",
    "/usr/local/nvidia/lib64",
};

typedef struct Search {
    const char *const *names;
    int count;
    char *tried;
    size_t size;
    void *library;
} Search;

static void note_tried(Search *search, const char *what, const char *why)
{
    size_t used = strlen(search->tried);
    if (used + 1 < search->size)
        snprintf(search->tried + used, search->size - used, "%s%s%s", used ? ", " : "", what, why);
}

static void try_folder(Search *search, const char *folder)
{
    char path[512];
    bool broken = false;
    for (int i = 0; i < search->count && !search->library; i++) {
        int length = snprintf(path, sizeof path, "%s%s%s", folder, folder[0] ? "/" : "", search->names[i]);
        if (length <= 0 || length >= (int)sizeof path)
            continue;
        search->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        broken = broken || (!search->library && folder[0] && access(path, F_OK) == 0);
    }
    if (!search->library)
        note_tried(search, folder[0] ? folder : "the loader's path", broken ? " (does not load)" : "");
}

static void try_list(Search *search, const char *list)
{
    while (*list && !search->library) {
        char folder[400];
        size_t length = strcspn(list, ":");
        if (length > 0 && length < sizeof folder) {
            memcpy(folder, list, length);
            folder[length] = '\0';
            try_folder(search, folder);
        }
        list += length + (list[length] == ':');
    }
}

static void try_pattern(Search *search, const char *pattern)
{
    glob_t found;
    if (glob(pattern, GLOB_NOSORT, NULL, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc && !search->library; i++)
        try_folder(search, found.gl_pathv[i]);
    globfree(&found);
}

void *cuda_library(const char *const *names, int count, char *ret_tried, size_t size)
{
    Search search = {names, count, ret_tried, size, NULL};
    const char *asked = getenv("FEDGATE_CUDA_LIBRARIES");
    ret_tried[0] = '\0';
    try_list(&search, asked ? asked : "");
    if (!search.library)
        try_folder(&search, "");
    for (size_t i = 0; i < sizeof usual_places / sizeof usual_places[0] && !search.library; i++)
        try_pattern(&search, usual_places[i]);
    return search.library;
}
