// arena.h - memory by lifetime: everything allocated from an arena is freed with it, at once.
//
// The name of an Arena parameter is the lifetime of what comes back: `Arena *run`, `Arena *scratch`. There is
// no current-context global. Not thread-safe. Host allocation failure (or the maximum reached) returns NULL.
#ifndef FEDGATE_ARENA_H
#define FEDGATE_ARENA_H

#include <fedgate/error.h>
#include <stddef.h>

typedef struct Arena Arena;

Arena *arena_new(size_t maximum_bytes);   // NULL when out of memory
void arena_free(Arena *arena);            // NULL allowed
OWNED_RELEASE(Arena, arena_free)

void *arena_take(Arena *arena, size_t bytes);                 // zeroed, 16-byte aligned
void *arena_take_array(Arena *arena, size_t count, size_t size);   // NULL on product overflow too
char *arena_copy_string(Arena *arena, const char *string);
char *arena_format(Arena *arena, const char *format, ...) PRINTF_LIKE(2, 3);
size_t arena_used(const Arena *arena);   // bytes handed out

#endif
