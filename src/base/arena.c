// arena - chunks handed out from the front; freed together.
#include <fedgate/arena.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ARENA_ALIGN = 16, ARENA_CHUNK_BYTES = 64 * 1024 };

typedef struct Chunk {
    struct Chunk *next;
    size_t used, size;
    _Alignas(ARENA_ALIGN) unsigned char bytes[];
} Chunk;

struct Arena {
    Chunk *chunks;   // the newest first; only that one still has room
    size_t used;     // bytes handed out, alignment included
    size_t maximum;
};

Arena *arena_new(size_t maximum_bytes)
{
    Arena *arena = calloc(1, sizeof *arena);
    if (arena)
        arena->maximum = maximum_bytes;
    return arena;
}

void arena_free(Arena *arena)
{
    if (!arena)
        return;
    while (arena->chunks) {
        Chunk *next = arena->chunks->next;
        free(arena->chunks);
        arena->chunks = next;
    }
    free(arena);
}

static bool add_chunk(Arena *arena, size_t bytes)
{
    size_t size = bytes > ARENA_CHUNK_BYTES ? bytes : ARENA_CHUNK_BYTES;
    if (size > SIZE_MAX - sizeof(Chunk))
        return false;
    Chunk *chunk = calloc(1, sizeof(Chunk) + size);
    if (!chunk)
        return false;
    chunk->size = size;
    chunk->next = arena->chunks;
    arena->chunks = chunk;
    return true;
}

void *arena_take(Arena *arena, size_t bytes)
{
    if (bytes > SIZE_MAX - ARENA_ALIGN)
        return NULL;
    size_t rounded = (bytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    if (rounded == 0)
        rounded = ARENA_ALIGN;   // two empty takes still have two addresses
    if (rounded > arena->maximum - arena->used)
        return NULL;
    Chunk *chunk = arena->chunks;
    if (!chunk || rounded > chunk->size - chunk->used) {
        if (!add_chunk(arena, rounded))
            return NULL;
        chunk = arena->chunks;
    }
    void *taken = chunk->bytes + chunk->used;
    chunk->used += rounded;
    arena->used += rounded;
    return taken;
}

void *arena_take_array(Arena *arena, size_t count, size_t size)
{
    size_t bytes;
    return __builtin_mul_overflow(count, size, &bytes) ? NULL : arena_take(arena, bytes);
}

char *arena_copy_string(Arena *arena, const char *string)
{
    if (!string)
        return NULL;
    size_t length = strlen(string);
    char *copy = arena_take(arena, length + 1);
    if (copy)
        memcpy(copy, string, length + 1);
    return copy;
}

char *arena_format(Arena *arena, const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *text = length < 0 ? NULL : arena_take(arena, (size_t)length + 1);
    if (text)
        vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

size_t arena_used(const Arena *arena)
{
    return arena->used;
}
