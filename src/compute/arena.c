// arena - pieces in the order of their offsets, free and taken, which together cover the block.
//
// A night takes some dozens of pieces, most of them for all of it: looking at each one is cheap beside
// zeroing it. Every piece that ends gives its neighbours room again, so a phase that gives back all it took
// leaves no trace.
#include "arena.h"

#include <fedgate/error.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct Piece {
    int64_t offset, bytes;
    bool taken;
} Piece;

struct DeviceArena {
    pthread_mutex_t lock;
    Piece *piece;
    size_t count, capacity;
    int64_t bytes, live, peak, taken, most_taken;
};

int64_t arena_round(int64_t bytes)
{
    if (bytes > INT64_MAX - ARENA_GRANULE)
        return bytes;
    return bytes <= 0 ? ARENA_GRANULE : (bytes + ARENA_GRANULE - 1) / ARENA_GRANULE * ARENA_GRANULE;
}

DeviceArena *device_arena_new(int64_t bytes)
{
    enum { FIRST_PIECES = 64 };
    DeviceArena *arena = calloc(1, sizeof *arena);
    Piece *piece = calloc(FIRST_PIECES, sizeof *piece);
    if (!arena || !piece || pthread_mutex_init(&arena->lock, NULL) != 0) {
        free(piece);
        free(arena);
        return NULL;
    }
    arena->bytes = bytes / ARENA_GRANULE * ARENA_GRANULE;
    arena->piece = piece;
    arena->capacity = FIRST_PIECES;
    if (arena->bytes > 0)
        arena->piece[arena->count++] = (Piece){.bytes = arena->bytes};
    return arena;
}

void device_arena_free(DeviceArena *arena)
{
    if (!arena)
        return;
    pthread_mutex_destroy(&arena->lock);
    free(arena->piece);
    free(arena);
}

// Room for one more piece; false when the host has none.
static bool make_room(DeviceArena *arena)
{
    if (arena->count < arena->capacity)
        return true;
    Piece *grown = realloc(arena->piece, 2 * arena->capacity * sizeof *grown);
    if (!grown)
        return false;
    arena->piece = grown;
    arena->capacity *= 2;
    return true;
}

static void remove_piece(DeviceArena *arena, size_t at)
{
    arena->count--;
    memmove(&arena->piece[at], &arena->piece[at + 1], (arena->count - at) * sizeof *arena->piece);
}

static int64_t take_from(DeviceArena *arena, size_t at, int64_t bytes)
{
    Piece *piece = &arena->piece[at];
    const int64_t rest = piece->bytes - bytes;
    if (rest > 0) {
        if (!make_room(arena))
            return -1;
        piece = &arena->piece[at];
        memmove(piece + 2, piece + 1, (arena->count - at - 1) * sizeof *piece);
        arena->count++;
        piece[1] = (Piece){.offset = piece->offset + bytes, .bytes = rest};
    }
    piece->bytes = bytes;
    piece->taken = true;
    arena->live += bytes;
    arena->peak = arena->live > arena->peak ? arena->live : arena->peak;
    arena->taken++;
    arena->most_taken = arena->taken > arena->most_taken ? arena->taken : arena->most_taken;
    return piece->offset;
}

int64_t device_arena_take(DeviceArena *arena, int64_t bytes)
{
    const int64_t rounded = arena_round(bytes);
    int64_t offset = -1;
    pthread_mutex_lock(&arena->lock);
    for (size_t i = 0; i < arena->count && offset < 0; i++)
        if (!arena->piece[i].taken && arena->piece[i].bytes >= rounded) {
            offset = take_from(arena, i, rounded);
            break;
        }
    pthread_mutex_unlock(&arena->lock);
    return offset;
}

static size_t find(const DeviceArena *arena, int64_t offset)
{
    size_t low = 0, high = arena->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (arena->piece[middle].offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void device_arena_give(DeviceArena *arena, int64_t offset, int64_t bytes)
{
    const int64_t rounded = arena_round(bytes);
    pthread_mutex_lock(&arena->lock);
    size_t at = find(arena, offset);
    Piece *piece = &arena->piece[at];
    if (at == arena->count || piece->offset != offset || !piece->taken || piece->bytes != rounded)
        BUG("%lld bytes at %lld of an arena were never taken", (long long)bytes, (long long)offset);
    piece->taken = false;
    arena->live -= rounded;
    arena->taken--;
    if (at + 1 < arena->count && !piece[1].taken) {
        piece->bytes += piece[1].bytes;
        remove_piece(arena, at + 1);
    }
    if (at > 0 && !piece[-1].taken) {
        piece[-1].bytes += piece->bytes;
        remove_piece(arena, at);
    }
    pthread_mutex_unlock(&arena->lock);
}

DeviceArenaUse device_arena_use(DeviceArena *arena)
{
    pthread_mutex_lock(&arena->lock);
    DeviceArenaUse use = {.bytes = arena->bytes,
                          .live = arena->live,
                          .peak = arena->peak,
                          .pieces = arena->taken,
                          .most_pieces = arena->most_taken};
    for (size_t i = 0; i < arena->count; i++)
        if (!arena->piece[i].taken && arena->piece[i].bytes > use.largest_free)
            use.largest_free = arena->piece[i].bytes;
    pthread_mutex_unlock(&arena->lock);
    return use;
}

bool device_arena_sound(DeviceArena *arena)
{
    int64_t end = 0, live = 0, taken = 0;
    bool sound = true;
    pthread_mutex_lock(&arena->lock);
    for (size_t i = 0; i < arena->count; i++) {
        const Piece *piece = &arena->piece[i];
        sound = sound && piece->offset == end && piece->bytes > 0 && piece->bytes % ARENA_GRANULE == 0 &&
                (piece->taken || i == 0 || piece[-1].taken);
        end += piece->bytes;
        live += piece->taken ? piece->bytes : 0;
        taken += piece->taken;
    }
    sound = sound && end == arena->bytes && live == arena->live && taken == arena->taken &&
            arena->live <= arena->peak;
    pthread_mutex_unlock(&arena->lock);
    return sound;
}
