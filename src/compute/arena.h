// arena - one block of memory cut into pieces: first fit from the front, free neighbours grow together.
//
// Knows offsets only, so the block may lie where the host cannot look. Pieces begin on granules. Thread-safe.
#ifndef FEDGATE_COMPUTE_ARENA_H
#define FEDGATE_COMPUTE_ARENA_H

#include <fedgate/compute.h>

enum { ARENA_GRANULE = DEVICE_GRANULE };   // bytes; no alignment that a device asks for is larger

typedef struct DeviceArena DeviceArena;

int64_t arena_round(int64_t bytes);   // to what a piece of so many bytes takes: at least one granule
DeviceArena *device_arena_new(int64_t bytes);   // rounded down to granules; NULL when out of host memory
void device_arena_free(DeviceArena *arena);   // NULL allowed
// Offset of the piece; -1: no free piece is long enough (or the host has no memory to note it).
int64_t device_arena_take(DeviceArena *arena, int64_t bytes);
void device_arena_give(DeviceArena *arena, int64_t offset, int64_t bytes);   // BUG unless taken like this
DeviceArenaUse device_arena_use(DeviceArena *arena);
// Pieces cover the block without gaps, no two free ones touch, and the counts agree with them.
bool device_arena_sound(DeviceArena *arena);

#endif
