// random.h - randomness as a pure function of a key and a counter: no order of threads can change it.
#ifndef FEDGATE_RANDOM_H
#define FEDGATE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

uint64_t random_bits(uint64_t key, uint64_t counter);
double random_unit(uint64_t key, uint64_t counter);     // [0, 1), 53 bits
// Mean 0, variance 1 (Box-Muller on counters 2c, 2c+1).
double random_normal(uint64_t key, uint64_t counter);

// A keyed bijection of 0..count-1 (Feistel network with cycle walking): position -> index, O(1) state.
typedef struct Permutation {
    uint64_t count, key;
    unsigned bits;   // 2^bits is the smallest power of two not below count
} Permutation;
void permutation_init(Permutation *permutation, uint64_t count, uint64_t key);
uint64_t permutation_at(const Permutation *permutation, uint64_t position);   // position < count
// The same for `rows` positions from `first` on, several times faster; count at most 2^32.
void permutation_range(const Permutation *permutation, uint64_t first, size_t rows, uint32_t *ret_index);

#endif
